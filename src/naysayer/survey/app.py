"""The pages of a survey: the respondent's, on whose device the draw is made, and the owner's results.

Respondents need no cookie and no account: all share one link, since a link for each would tell who answered what.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import threading
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from fastapi import Path as InPath
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from naysayer.collect.database import StoreError
from naysayer.collect.security import Buckets, Guard, Site, begin_app, page, templates, token_of
from naysayer.survey import results
from naysayer.survey.questions import MODES, Question, Survey, equal_epsilon, options_left, respondents_needed
from naysayer.survey.store import SurveyStore

COMPARED = (0.5, 1.0, 2.0, 3.0)  # the ε for which the privacy page compares the modes
REPEATS = (1, 2, 3, 5, 10)
CROWD = 1000  # requests at once from one address: a lecture hall shares one

log = logging.getLogger(__name__)

Key = Annotated[str, InPath(max_length=100, description="The part of the link that all respondents share.")]


class Submission(BaseModel):
    """What a page sends: an id it made up, and for each question answered how the stored option reads."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    answers: Annotated[dict[str, dict[Literal["is", "not", "said"], str]], Field(min_length=1)]


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
        return super().wait(hashlib.blake2b(key.encode(), key=self._salt, digest_size=8).hexdigest(), now)


class Latest:
    """The answers as arrays, read again when there are more; a prediction is learned once for each number of them."""

    def __init__(self, survey: Survey, store: SurveyStore) -> None:
        self.survey, self.store = survey, store
        self._answers: tuple[int, dict[str, results.Codes]] = (-1, {})
        self._learned: dict[str, tuple[int, results.Prediction]] = {}
        self._lock = threading.Lock()  # learning takes all cores: one at a time

    def answers(self) -> dict[str, results.Codes]:
        """All stored answers, one array a question."""
        n = self.store.count()
        if self._answers[0] != n:
            self._answers = n, results.encode(self.survey, self.store.answers())
        return self._answers[1]

    def prediction(self, question: Question) -> results.Prediction:
        """What the other answers foretell of a question."""
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
        lambda token: token if store.is_owner(token) else None,
        to=lambda _: "/results",
    )
    latest, numbers = Latest(survey, store), privacy_numbers(survey)
    link = f"/s/{store.key}"

    @app.exception_handler(StoreError)
    async def unstored(request: Request, error: StoreError) -> Response:
        log.error("%s", error)  # its words name files, which are not for everybody
        return JSONResponse({"error": "the store cannot be used just now; try again"}, 503, {"retry-after": "2"})

    def respondent(key: Key) -> None:
        if not secrets.compare_digest(key.encode(), store.key.encode()):
            raise HTTPException(404, "no survey has this address; open the link as you got it")

    def owner(request: Request) -> None:
        # Asked for on this machine's own address too: respondents may sit at it.
        token = token_of(dict(request.headers), site.cookie)
        if token is None or not store.is_owner(token):
            raise HTTPException(401, "the results are for the owner of the survey; open the link that it printed")

    # ---- respondents ------------------------------------------------------------------------------------------

    @app.get("/", include_in_schema=False)
    def start() -> Response:
        if site.local:
            return RedirectResponse(link, 303)
        raise HTTPException(404, "open the survey by the link that you got")

    @app.get("/s/{key}", include_in_schema=False, dependencies=[Depends(respondent)])
    def ask() -> Response:
        questions = [for_script(question) for question in survey.questions]
        return page("survey.html", survey=survey, link=link, questions=questions)

    @app.get("/s/{key}/privacy", include_in_schema=False, dependencies=[Depends(respondent)])
    def privacy() -> Response:
        return page("survey_privacy.html", survey=survey, link=link, unordered=store.unordered, **numbers)

    @app.post("/s/{key}/answers", response_model=Stored, dependencies=[Depends(respondent)], tags=["respondents"])
    def answer(body: Submission) -> dict[str, bool]:
        """Store what a respondent's device drew; a body that was stored before is not stored again."""
        return {"new": store.add(body.id, read_submission(survey, body))}

    # ---- the owner --------------------------------------------------------------------------------------------

    @app.get("/results", include_in_schema=False, dependencies=[Depends(owner)])
    def show(rows: str | None = None, columns: str | None = None) -> Response:
        answers = latest.answers()
        found = [(question, results.shares(question, answers[question.id])) for question in survey.questions]
        n = len(answers[survey.questions[0].id])
        table = chosen_table(survey, answers, rows, columns)
        return page("survey_results.html", survey=survey, link=link, origin=site.origin, found=found, n=n, **table)

    @app.get("/results/prediction/{name}", include_in_schema=False, dependencies=[Depends(owner)])
    def prediction(name: str) -> Response:
        for question in survey.questions:
            if question.id == name and question.private:
                return page("survey_prediction.html", found=latest.prediction(question))
        raise HTTPException(404, "the survey has no private question of this name")

    @app.get("/api/results", dependencies=[Depends(owner)], tags=["owner"])
    def as_json() -> dict[str, Any]:
        """Give shares and cross-tables with their intervals."""
        return results.summary(survey, latest.answers(), learn=False)

    limits = ForgetfulBuckets(rate=100, burst=CROWD)
    return Guard(app, site, identify=lambda token: None, unknown=limits)


def read_submission(survey: Survey, submission: Submission) -> dict[str, str]:
    """Check what a page sent against the survey: question → stored option."""
    known = {question.id: question for question in survey.questions}
    stored = {}
    for name, value in submission.answers.items():
        if name not in known:
            raise HTTPException(422, f"answers must be to questions of this survey; got {name[:40]!r}")
        question = known[name]
        if list(value) != [question.says]:
            raise HTTPException(422, f'the answer to {name!r} must be {{"{question.says}": option}}')
        option = next(iter(value.values()))
        if option not in question.index:
            raise HTTPException(422, f"the answer to {name!r} must name one of its options; got {option[:40]!r}")
        stored[name] = option
    return stored


# ---- what the pages show --------------------------------------------------------------------------------------


def for_script(question: Question) -> dict[str, Any]:
    """What the page's script needs to draw: the options' names, how the drawn one reads, and t."""
    names = [option.id for option in question.options]
    return {"id": question.id, "options": names, "says": question.says, "truth": question.truth}


def privacy_numbers(survey: Survey) -> dict[str, Any]:
    """The numbers of the privacy page: one entry a private question, each computed for its own K."""
    private = [question for question in survey.questions if question.private]
    each = []
    for question in private:
        n_options = len(question.options)
        epsilons = sorted({*COMPARED, *([question.epsilon] if question.epsilon else [])})
        each.append(
            {
                "question": question,
                "epsilons": epsilons,
                "ordinary": respondents_needed(None, n_options, None, 0.05),
                "needed": {
                    mode: [respondents_needed(mode, n_options, epsilon, 0.05) for epsilon in epsilons]
                    for mode in MODES
                    if n_options > 2 or mode != "complementary"
                },
                "equal": equal_epsilon(n_options) if n_options > 2 else None,
                "left": [(m, *options_left(n_options, m)) for m in REPEATS] if n_options > 2 else [],
            }
        )
    total = sum(question.epsilon for question in private if question.epsilon is not None)
    uncounted = any(question.epsilon is None for question in private)
    return {"private": each, "total": total, "uncounted": uncounted}


def chosen_table(survey: Survey, answers: dict[str, Any], rows: str | None, columns: str | None) -> dict[str, Any]:
    """The cross-table that was asked for, or else that of the first private question with the first other one."""
    if len(survey.questions) < 2:
        return {"table": None, "picked": None}
    names = [question.id for question in survey.questions]
    private = [question.id for question in survey.questions if question.private]
    rows = rows if rows in names else (private or names)[0]
    columns = columns if columns in names and columns != rows else next(name for name in names if name != rows)
    first, second = survey.question(rows), survey.question(columns)
    codes = answers[rows], answers[columns]
    if second.private:
        table = results.cross_table(first, second, *codes)
    else:
        table = results.cross_table_by_group(first, second, *codes)
        table = table if table.n.any() else None
    return {"table": table, "picked": (first, second)}


def percent(value: float) -> str:
    """A share as people read it; what lies outside of 0 to 1 is shown as the nearest share that can be."""
    return f"{100 * min(1.0, max(0.0, float(value))):.0f}%"


def share_number(value: float) -> float:
    """A share in percent for a chart, within 0 to 100."""
    return round(100 * min(1.0, max(0.0, float(value))), 2)


def points(value: float) -> str:
    """A difference of shares in whole points."""
    return f"{100 * value:.0f}".replace("-", "−")


templates.filters.update(percent=percent, share=share_number, points=points, exp=math.exp)
