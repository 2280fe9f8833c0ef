"""Questions out, answers in: what the page that asks calls."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from naysayer.collect.people import Person
from naysayer.collect.records import Answer, Ask, Conflict, Question, Undo
from naysayer.collect.replies import MOST_QUESTIONS
from naysayer.collect.store import Store

MOST_ANSWERS = 100  # in one request
PROGRESS_SECONDS = 1.0  # that the counts over all items may be old
DAY_MS = 24 * 3600 * 1000
ID = r"^[A-Za-z0-9_-]{1,64}$"

Id = Annotated[str, Field(pattern=ID, description="1 to 64 letters, digits, - or _")]


class Strict(BaseModel):
    """A body in which nothing unknown is overlooked."""

    model_config = ConfigDict(extra="forbid")


class ItemOut(BaseModel):
    """What is asked about: a picture's address, a text, or the fields of a record."""

    kind: Literal["image", "text", "record"]
    src: str | None = None
    text: str | None = None
    fields: list[tuple[str, str]] | None = None


class QuestionOut(BaseModel):
    """A question: `before`, the class and `after` make its sentence."""

    model_config = ConfigDict(populate_by_name=True)
    id: str
    before: str
    class_: str = Field(alias="class")
    after: str
    item: ItemOut


class QuestionsOut(BaseModel):
    """The next questions; none where there is nothing to ask for now."""

    questions: list[QuestionOut]


class AnswerIn(Strict):
    """An answer; its `id` is made by the page, so that one sent twice is stored once."""

    id: Id
    question: Id
    value: Literal["yes", "no", "skip"]
    took_ms: Annotated[int, Field(ge=0)] | None = None


class AnswersIn(Strict):
    """Answers in the order in which they were given."""

    answers: Annotated[list[AnswerIn], Field(min_length=1, max_length=MOST_ANSWERS)]


class RefusedOut(BaseModel):
    """An answer that will never be stored, and why."""

    id: str
    error: str


class AnswersOut(BaseModel):
    """`stored`: the ids that are now safe, whether they came for the first time or again."""

    stored: list[str]
    refused: list[RefusedOut]


class UndoIn(Strict):
    """An undoing of one's `answer`; its `id` is made by the page, so that one sent twice takes back one answer."""

    id: Id
    answer: Id


class UndoOut(BaseModel):
    """The question whose answer was taken back, to be answered again; null where that answer does not stand."""

    question: QuestionOut | None


class ProgressOut(BaseModel):
    """How far the project is: items, those answered, those decided; answers in all, and own ones."""

    items: int
    answered: int
    decided: int
    answers: int
    own: int


def asking_routes(store: Store) -> APIRouter:
    """Draw questions, store answers, take them back, tell how far the project is."""
    routes = APIRouter(tags=["asking"])

    @routes.get("/api/next", response_model=QuestionsOut, response_model_exclude_unset=True)
    async def next_questions(
        who: Person,
        n: Annotated[int, Query(ge=1, le=MOST_QUESTIONS, description="How many at the most.")] = 1,
        holding: Annotated[
            list[Id] | None, Query(max_length=100, description="Ids of questions that the page still has.")
        ] = None,
    ) -> dict[str, Any]:
        """Draw the next questions."""
        drawn = await asyncio.wrap_future(store.submit(Ask(who.id, n, tuple(holding or ()))))
        return {"questions": [describe(store, question) for question in drawn]}

    @routes.post("/api/answers", response_model=AnswersOut)
    async def take_answers(who: Person, body: AnswersIn) -> dict[str, Any]:
        """Store answers; the reply comes when they are safe on disk."""
        return await store_answers(store, who.id, body.answers)

    @routes.post("/api/undo", response_model=UndoOut, response_model_exclude_unset=True)
    async def undo(who: Person, body: UndoIn) -> dict[str, Any]:
        """Take back an answer of one's own; a new row says so, nothing is deleted."""
        try:
            question = await asyncio.wrap_future(store.submit(Undo(body.id, who.id, body.answer)))
        except Conflict as error:
            raise HTTPException(409, str(error)) from None
        return {"question": None if question is None else describe(store, question)}

    @routes.get("/api/progress", response_model=ProgressOut)
    def progress(who: Person) -> Any:
        """Tell how far the project is."""
        return store.progress(who.id, age=PROGRESS_SECONDS)

    return routes


async def store_answers(store: Store, annotator: str, answers: list[AnswerIn]) -> dict[str, Any]:
    """Store one person's answers; which are safe now, and which never will be."""
    stored, refused = [], []
    futures = [
        store.submit(Answer(one.id, one.question, annotator, one.value, one.took_ms and min(one.took_ms, DAY_MS)))
        for one in answers
    ]  # all before the first wait: they share one wait for the disk
    results = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
    for given, result in zip(answers, results, strict=True):
        if isinstance(result, (KeyError, Conflict)):
            refused.append({"id": given.id, "error": str(result.args[0])})
        elif isinstance(result, BaseException):
            raise result
        else:
            stored.append(given.id)
    return {"stored": stored, "refused": refused}


def describe(store: Store, question: Question) -> dict[str, Any]:
    """A question as the page gets it: never its probability, nor a file's name, which may give the class away."""
    item = question.item
    content: dict[str, Any] = {"kind": item.kind}
    if item.kind == "image":
        content["src"] = f"/media/{item.id}"
    elif isinstance(item.content, dict):
        content["fields"] = [(name, field_text(value)) for name, value in item.content.items() if value is not None]
    else:
        content["text"] = item.content or ""
    name = store.project.classes[question.class_index]
    before, _, after = with_article(store.project.question, name).partition("{}")
    return {"id": question.id, "before": before, "class": name, "after": after, "item": content}


def with_article(template: str, name: str) -> str:
    """Let "Is this a {}?" say "an" where English does.

    Examples
    --------
    >>> with_article("Is this a {}?", "owl"), with_article("Is this a {}?", "unicorn"), with_article("Is it {}?", "owl")
    ('Is this an {}?', 'Is this a {}?', 'Is it {}?')
    """
    vowel = re.match(r"(?!eu|one\b|once\b|uni|us[aeiu]|ut[ei])[aeiou]|8|1[18]\b", name.lower())
    return re.sub(r"\ba \{\}", "an {}", template) if vowel else template


def field_text(value: Any) -> str:
    """A record's value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):  # in a column with gaps whole numbers are floats too: 1250000, not 1.25e+06
        return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.15g}"
    return str(value)
