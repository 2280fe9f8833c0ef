"""Questions out, answers in: what the page that asks calls."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from naysayer.collect.items import are_gone
from naysayer.collect.languages import Words, languages
from naysayer.collect.pages import words_of
from naysayer.collect.people import Person
from naysayer.collect.records import Answer, Ask, Conflict, Project, Question, Undo
from naysayer.collect.replies import MOST_QUESTIONS
from naysayer.collect.store import Store
from naysayer.data.items import Item

MOST_ANSWERS = 100  # in one request
PROGRESS_SECONDS = 1.0  # that the counts over all items may be old
DAY_MS = 24 * 3600 * 1000
ID = r"^[A-Za-z0-9_-]{1,64}$"

InWords = Annotated[Words, Depends(words_of)]
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
    """How far the project is: items, those answered, those asked about no more; answers in all, and own ones."""

    items: int
    answered: int
    closed: int
    answers: int
    own: int


def asking_routes(store: Store) -> APIRouter:
    """Draw questions, store answers, take them back, tell how far the project is."""
    routes = APIRouter(tags=["asking"])

    @routes.get("/api/next", response_model=QuestionsOut, response_model_exclude_unset=True)
    async def next_questions(
        who: Person,
        words: InWords,
        n: Annotated[int, Query(ge=1, le=MOST_QUESTIONS, description="How many at the most.")] = 1,
        holding: Annotated[
            list[Id] | None, Query(max_length=100, description="Ids of questions that the page still has.")
        ] = None,
        device: Annotated[
            str, Query(pattern=r"^([0-9a-f]{8})?$", description="Tells the pages of one person apart.")
        ] = "",
    ) -> dict[str, Any]:
        """Draw the next questions; each page of a person, named by its device, gets its own."""
        drawn = await ask_what_is_there(store, Ask(who.id, n, tuple(holding or ()), device))
        return {"questions": [describe(store.project, question, words) for question in drawn]}

    @routes.post("/api/answers", response_model=AnswersOut)
    async def take_answers(who: Person, body: AnswersIn) -> dict[str, Any]:
        """Store answers; the reply comes when they are safe on disk."""
        return await store_answers(store, who.id, body.answers)

    @routes.post("/api/undo", response_model=UndoOut, response_model_exclude_unset=True)
    async def undo(who: Person, words: InWords, body: UndoIn) -> dict[str, Any]:
        """Take back an answer of one's own; a new row says so, nothing is deleted."""
        try:
            question = await asyncio.wrap_future(store.submit(Undo(body.id, who.id, body.answer)))
        except Conflict as error:
            raise HTTPException(409, str(error)) from None
        return {"question": None if question is None else describe(store.project, question, words)}

    @routes.get("/api/progress", response_model=ProgressOut)
    def progress(who: Person) -> Any:
        """Tell how far the project is."""
        return store.progress(who.id, age=PROGRESS_SECONDS)

    return routes


async def ask_what_is_there(store: Store, ask: Ask) -> list[Question]:
    """Draw questions; items whose pictures are gone leave the queue, and others are drawn in their place."""
    drawn: list[Question] = []
    for _ in range(5):  # where a whole disk is gone, others shall not wait for all of it
        drawn = await asyncio.wrap_future(store.submit(ask))
        pictures = [question.item for question in drawn if question.item.path is not None]
        gone = await asyncio.to_thread(are_gone, pictures) if pictures else []
        if not gone:
            return drawn
        await asyncio.to_thread(store.leave, gone)
        drawn = [question for question in drawn if question.item.id not in gone]
    return drawn


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


def describe(project: Project, question: Question, words: Words) -> dict[str, Any]:
    """A question as the page gets it: never its probability, nor a file's name, which may give the class away.

    How it is asked is the project's choice; where that made none, it is asked in the language of the page.
    """
    name, asked = project.classes[question.class_index], project.question
    asked = words["question"] if asked == Project.question else asked
    before, _, after = with_article(asked, name).partition("{}")
    item = content_of(question.item, words)
    return {"id": question.id, "before": before, "class": name, "after": after, "item": item}


def content_of(item: Item, words: Words | None = None) -> dict[str, Any]:
    """What there is to see of an item; None: in English."""
    if item.kind == "image":
        return {"kind": item.kind, "src": f"/media/{item.id}"}
    if isinstance(item.content, dict):
        fields = [(name, field_text(value, words)) for name, value in item.content.items() if value is not None]
        return {"kind": item.kind, "fields": fields}
    return {"kind": item.kind, "text": item.content or ""}


def with_article(template: str, name: str) -> str:
    """Let "Is this a {}?" say "an" where English does.

    Examples
    --------
    >>> with_article("Is this a {}?", "owl"), with_article("Is this a {}?", "unicorn"), with_article("Is it {}?", "owl")
    ('Is this an {}?', 'Is this a {}?', 'Is it {}?')
    """
    vowel = re.match(r"(?!eu|one\b|once\b|uni|us[aeiu]|ut[ei])[aeiou]|8|1[18]\b", name.lower())
    return re.sub(r"\ba \{\}", "an {}", template) if vowel else template


def field_text(value: Any, words: Words | None = None) -> str:
    """A record's value for people; None: in English."""
    if isinstance(value, bool):
        return str((words or languages()["en"])["true" if value else "false"])
    if isinstance(value, float):  # in a column with gaps whole numbers are floats too: 1250000, not 1.25e+06
        return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.15g}"
    return str(value)
