"""The pages of a survey: the respondent's, on whose device the draw is made, and the owner's results.

Respondents need no cookie and no account: all share one link, since a link for each would tell who answered what.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from naysayer.collect.pages import begin_app
from naysayer.collect.security import LIMIT_BYTES, Buckets, Guard, Site, token_of
from naysayer.survey import results
from naysayer.survey.pages import chosen_table, for_script, pages, privacy_numbers
from naysayer.survey.questions import Survey, SurveyQuestion
from naysayer.survey.store import SurveyStore

CROWD = 1000  # requests at once from one address: a lecture hall shares one

Key = Annotated[str, Path(max_length=100, description="The part of the link that all respondents share.")]


class Submission(BaseModel):
    """What a page sends: an id it made up, and for each question answered what will be stored, as it was shown."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    answers: Annotated[dict[str, dict[Literal["is", "not", "drawn"], str | list[str]]], Field(min_length=1)]


class Stored(BaseModel):
    """It is stored; `new` is false where it was so before, and nothing was changed."""

    new: bool


class ForgetfulBuckets(Buckets):
    """Rate limits that keep no address, not even in memory: a scrambled form of it, undone when the server ends."""

    def __init__(self, rate: float, burst: float) -> None:
        super().__init__(rate, burst, size=1000)
        self._salt = secrets.token_bytes(16)

    def wait(self, key: str, now: float) -> float:
        """Take one; 0 where that was allowed, else the seconds after which it will be."""
        return super().wait(self._scrambled(key), now)

    def give_back(self, key: str, now: float) -> None:
        """Give one back that was taken."""
        super().give_back(self._scrambled(key), now)

    def _scrambled(self, key: str) -> str:
        return hashlib.blake2b(key.encode(), key=self._salt, digest_size=8).hexdigest()


class Latest:
    """The answers as arrays, read again when there are more; a prediction is learned once for each number of them."""

    def __init__(self, survey: Survey, store: SurveyStore) -> None:
        self.survey, self.store = survey, store
        self._answers: tuple[int, dict[str, results.Codes]] = (-1, {})
        self._learned: dict[str, tuple[int, results.Prediction]] = {}
        self._lock = threading.Lock()  # learning takes all cores: one at a time

    def answers(self) -> dict[str, results.Codes]:
        """All stored answers, one array per question."""
        n = self.store.count()
        if self._answers[0] != n:
            self._answers = n, results.encode(self.survey, self.store.answers())
        return self._answers[1]

    def prediction(self, question: SurveyQuestion) -> results.Prediction:
        """How well the other answers predict a question."""
        with self._lock:
            answers = self.answers()
            n = len(answers[question.id])
            if self._learned.get(question.id, (-1,))[0] != n:
                self._learned[question.id] = n, results.predict(self.survey, question, answers)
            return self._learned[question.id][1]


def make_app(survey: Survey, store: SurveyStore, site: Site) -> Guard:
    """Make the app of a survey, inside its guard."""
    app = begin_app(
        "naysayer survey",
        "Takes what respondents' devices drew.",
        site,
        pages,
        store.admit,
        lambda secret: secret if store.is_owner(secret) else None,
        to=lambda _: "/results",
    )
    app.include_router(start_route())
    app.include_router(respondent_routes(survey, store))
    app.include_router(owner_routes(survey, store, site))
    limits = ForgetfulBuckets(rate=100, burst=CROWD)
    largest = max(LIMIT_BYTES, longest_letter(survey))
    return Guard(app, site, identify=lambda token: None, unknown=limits, arriving=limits, limit=largest)


def longest_letter(survey: Survey) -> int:
    """Count the bytes of the longest letter that a page can send: many long options may be drawn together."""

    def length(question: SurveyQuestion, k: int) -> int:
        return len(json.dumps(question.options[k].id, ensure_ascii=False).encode())

    answers = {}
    for question in survey.questions:
        by_length = sorted(range(len(question.options)), key=partial(length, question))
        answers[question.id] = question.stored(by_length[-question.size :])
    return len(json.dumps({"id": "0" * 32, "answers": answers}, ensure_ascii=False).encode())


def link_of(store: SurveyStore) -> str:
    """The address of a survey within its site, the same for all respondents."""
    return f"/s/{store.key}"


def start_route() -> APIRouter:
    """Only the link leads to the survey: its key is not for everybody on this machine either."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def start() -> Response:
        raise HTTPException(404, "open the survey by the link that you got")

    return routes


def respondent_routes(survey: Survey, store: SurveyStore) -> APIRouter:
    """Ask, tell what is stored, and store it: for whoever has the link."""

    def respondent(key: Key) -> None:
        if not secrets.compare_digest(key.encode(), store.key.encode()):
            raise HTTPException(404, "no survey has this address; open the link as you got it")

    routes = APIRouter(prefix="/s/{key}", dependencies=[Depends(respondent)], tags=["respondents"])
    link, numbers = link_of(store), privacy_numbers(survey)
    questions = [for_script(question) for question in survey.questions]

    @routes.get("", include_in_schema=False)
    def ask() -> Response:
        return pages("survey.html", survey=survey, link=link, questions=questions)

    @routes.get("/privacy", include_in_schema=False)
    def privacy() -> Response:
        return pages("privacy.html", survey=survey, link=link, unordered=store.unordered, **numbers)

    @routes.post("/answers", response_model=Stored)
    def answer(body: Submission) -> dict[str, bool]:
        """Store what a respondent's device drew; a body that was stored before is not stored again."""
        return {"new": store.add(body.id, read_submission(survey, body))}

    return routes


def owner_routes(survey: Survey, store: SurveyStore, site: Site) -> APIRouter:
    """Show the results, as pages and as JSON."""

    def owner(request: Request) -> None:
        # Asked for on this machine's own address too: respondents may sit at it.
        token = token_of(dict(request.headers), site.cookie)
        if token is None or not store.is_owner(token):
            raise HTTPException(401, "the results are for the owner of the survey; open the link that it printed")

    routes = APIRouter(dependencies=[Depends(owner)], tags=["owner"])
    latest, link = Latest(survey, store), link_of(store)

    @routes.get("/results", include_in_schema=False)
    def show(rows: str | None = None, columns: str | None = None) -> Response:
        answers = latest.answers()
        found = [
            (q, results.shares(q, answers[q.id], minimum=survey.minimum), results.answered(answers[q.id]))
            for q in survey.questions
        ]
        n = len(answers[survey.questions[0].id])
        table = chosen_table(survey, answers, rows, columns)
        return pages("results.html", survey=survey, link=link, origin=site.origin, found=found, n=n, **table)

    @routes.get("/results/prediction/{name}", include_in_schema=False)
    def prediction(name: str) -> Response:
        for question in survey.questions:
            if question.id == name and question.private:
                return pages("prediction.html", found=latest.prediction(question))
        raise HTTPException(404, "the survey has no private question of this name")

    @routes.get("/api/results")
    def as_json() -> dict[str, Any]:
        """Give shares and cross-tables with their intervals."""
        return results.summary(survey, latest.answers(), learn=False)

    return routes


def read_submission(survey: Survey, submission: Submission) -> dict[str, Any]:
    """Check what a page sent against the survey: question → what to store."""
    known = {question.id: question for question in survey.questions}
    stored = {}
    for name, value in submission.answers.items():
        if name not in known:
            raise HTTPException(422, f"answers must be to questions of this survey; got {name[:40]!r}")
        question = known[name]
        try:
            code = question.code(value)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        stored[name] = question.stored(question.named(np.array([code]))[0].nonzero()[0])
    return stored
