"""What the owner's dashboard shows: who said how much, whether it is as it should be, and what it tells so far."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binomtest

from naysayer.collect.comparing import compare_yes
from naysayer.collect.judging import class_shares, guided_answers, label_accuracy
from naysayer.collect.records import Standing, Training
from naysayer.collect.reviewing import Reviews
from naysayer.collect.store import Store
from naysayer.collect.verdict import is_vague, verdict
from naysayer.measure.answer_report import examine, how_many_more
from naysayer.measure.answers import from_standing
from naysayer.measure.intervals import Interval
from naysayer.measure.planning import margin_reached

if TYPE_CHECKING:
    from naysayer.collect.trainer import Trainer

STEPS = (60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)  # seconds that one bar may stand for
MOST_BARS = 60
MARGINS = (0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.025, 0.02, 0.015, 0.01)
USUAL_ACCURACY = 0.9  # where no model has been trained yet
VALUES = ("yes", "no", "skip")
REST = 20  # counting may take one part in so many of the server's time


class Figures:
    """The dashboard's figures, counted again only when something changed, and not so often that answers would wait."""

    def __init__(
        self,
        store: Store,
        trainer: Trainer | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        reviews: Reviews | None = None,
        invites: bool = False,
    ) -> None:
        self._store, self._trainer, self._clock, self._invites = store, trainer, clock, invites
        self._reviews = Reviews(store, clock) if reviews is None else reviews
        self._lock = threading.Lock()
        self._seen: Any = None
        self._again = -math.inf
        self._made: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        """Give all figures, as what JSON can hold."""
        store, project = self._store, self._store.renew()
        progress, trainings = store.progress(), store.trainings()
        (items, answers), n_items = store.left_to_ask(), store.n_items()
        named = [one for one in self._reviews.people() if one["reasons"] and not one["left_out"]]
        with self._lock:
            seen, now = (progress, len(trainings), project, n_items), self._clock()
            if seen != self._seen and now >= self._again:
                given = list(store.standing())
                self._made = self._count(given) | self._judge(given, trainings)
                self._seen, self._again = seen, self._clock() + REST * (self._clock() - now)
            figures = {
                "name": project.name,
                "classes": list(project.classes),
                "progress": asdict(progress) | {"decided": self._made.get("decided", 0)},
                "left": {"items": items, "answers": answers},
                "gone": n_items - progress.items,
                "invites": self._invites,
                "people": self._people(),
                "named": [{name: one[name] for name in ("id", "name", "reasons")} for one in named],
                "disagreements": len(self._reviews.queue()[0]),
                "trains": self._trainer is not None,
                "training_error": self._trainer and self._trainer.error,
                "trainings": [
                    {"at": one.at, "n_answers": one.n_answers, "method": one.method}
                    | {name: possible(getattr(one, name)) for name in ("estimate", "low", "high")}
                    | {name: one.detail.get(name) for name in ("unanswered", "named", "notes")}
                    for one in trainings
                ],
                **{name: made for name, made in self._made.items() if name != "said"},
            }
        return figures | {"verdict": verdict(figures, store.name)}

    def _count(self, given: Sequence[Standing]) -> dict[str, Any]:
        """Who said what, when; `said` has it by the ids of people."""
        by_person: dict[str, list[Standing]] = defaultdict(list)
        by_class: dict[int, Counter[str]] = defaultdict(Counter)
        for one in given:
            by_person[one.annotator].append(one)
            by_class[one.class_index][one.value] += 1
        said = {}
        for person, mine in by_person.items():
            took = [one.took_ms / 1000 for one in mine if one.took_ms is not None]
            said[person] = {"answers": len(mine), "seconds": median(took) if took else None}
            said[person] |= {value: sum(one.value == value for one in mine) for value in VALUES}
        classes = [
            {"name": name} | {value: by_class[k][value] for value in VALUES}
            for k, name in enumerate(self._store.project.classes)
        ]
        return {"over_time": over_time([one.answered for one in given]), "said": said, "per_class": classes}

    def _people(self) -> list[dict[str, Any]]:
        """Give everybody, those who have just been invited too, with what they said when it was counted last."""
        nothing = {"answers": 0, "seconds": None} | dict.fromkeys(VALUES, 0)
        return [
            {"id": one.id, "name": one.name, "role": one.role, "ended": one.revoked is not None}
            | self._made["said"].get(one.id, nothing)
            for one in self._store.annotators()
        ]

    def _judge(self, given: Sequence[Standing], trainings: Sequence[Training]) -> dict[str, Any]:
        """What the answers tell: errors, shares of the classes, whether questions and answers are as they should be."""
        project, last = self._store.project, trainings[-1] if trainings else None
        answers = from_standing(given, project.classes, project.probabilities)
        if not (answers.value >= 0).any():
            return {"report": None, "errors": {}, "margins": None, "guided": None, "since": None, "decided": 0}
        report = examine(answers)
        errors = report.errors
        shares = class_shares(given, answers, trainings, errors.overall)
        report = report if shares is None else replace(report, priors=shares)
        own = {
            name: {"interval": list(interval), "pairs": pairs}
            for name, interval, pairs in zip(answers.annotators, errors.by_annotator, errors.pairs_of, strict=True)
        }
        kept = ("n_answers", "priors", "yes", "yes_expected", "yes_p_value", "asked_p_value", "findings")
        told = report.to_dict()
        overall = {"interval": list(errors.overall), "pairs": errors.n_pairs, "differ": errors.n_disagreements}
        whole = {answers.items[i] for i in np.flatnonzero(answers.since == len(project.classes))}
        first_asked = asked([one for one in given if one.item_id in whole], answers.weights.tolist())
        priors = told["priors"] and [[possible(value) for value in each] for each in told["priors"]]
        told["priors"] = None if priors is None or any(map(is_vague, priors)) else priors
        n_used = int((answers.design.value >= 0).sum()) or report.n_answers  # by choices made elsewhere, of all
        is_guided = any(one.guidance is not None for one in given)
        since = {"classes": len(project.classes), "items": int(answers.design.told.sum())}
        return {
            "since": None if answers.drawn_from is None else since,
            "guided_shares": shares is not None,
            "vague": priors is not None and told["priors"] is None,
            "report": {name: told[name] for name in kept} | {"errors": overall, "asked": first_asked},
            "errors": own,
            "margins": margins(n_used, len(project.classes), errors.overall.estimate, last) | {"guided": is_guided},
            "guided": guided(given, project.classes, errors.overall),
            "decided": self._store.decided(answers),
        }


def guided(given: Sequence[Standing], classes: Sequence[str], error_rates: Interval) -> dict[str, Any] | None:
    """What guided answers tell; None before there are any."""
    labels = label_accuracy(given, len(classes), error_rates)
    if labels is None:
        return None
    compared = compare_yes(given, classes, error_rates)
    difference = compared.difference
    said = guided_answers(given)
    return {
        "n": len(said),
        "items": said[-1][1].n_items,
        "labels": [possible(value) for value in labels],
        "differ": compared.differing,
        "difference": None if difference is None or is_vague(difference) else list(difference),
        "any": {"n": compared.n_any, "yes": compared.yes_any, "most": compared.most_any, "odd": compared.too_many},
        "classes": [one._asdict() for one in compared.classes],
    }


def possible(share: float) -> float:
    """Give the share that is nearest to an estimate, which may leave what is possible to be right on average.

    Examples
    --------
    >>> possible(-0.82), possible(1.04), possible(0.3)
    (0.0, 1.0, 0.3)
    """
    return min(1.0, max(0.0, share))


def asked(given: Sequence[Standing], expected: Sequence[float]) -> list[dict[str, float]]:
    """How often the first question about an item was about each class, with a 95% interval, beside what was meant."""
    first: dict[str, int] = {}
    for one in given:
        if one.guidance is not None:  # from now on, what is asked about is no draw from these shares
            break
        if one.repeat_of is None and one.fair:
            first.setdefault(one.item_id, one.class_index)
    counts, n = Counter(first.values()), len(first)
    found: list[dict[str, float]] = []
    if not n:  # first answers were taken back, and those to repeated questions stand
        return found
    for k, share in enumerate(expected):
        bounds = binomtest(counts[k], n).proportion_ci(method="wilson")
        shown = (counts[k] / n, bounds.low, bounds.high, share)
        found.append(dict(zip(("estimate", "low", "high", "expected"), map(float, shown), strict=True)))
    return found


def margins(n_answers: int, n_classes: int, error_rate: float, last: Training | None = None) -> dict[str, Any]:
    """Within which margin an accuracy can be told now, and how many answers in all would tell it within others.

    Planning takes every answer to be about another item. Once a model was trained, its interval shows how far that is
    from what these answers are worth, and all margins are widened or narrowed by the same factor.

    `n_answers` are those that the estimate rests on: no repeats, and none since guided questions began.
    """
    error_rate = round(min(error_rate, 0.4), 3)
    accuracy = round(min(1.0, max(1 / n_classes, last.estimate if last else USUAL_ACCURACY)), 3)

    def planned(n: int) -> float:
        return margin_reached(n_classes, max(1, round(n * (1 - 2 * error_rate) ** 2)), accuracy, "yes_no")

    factor = 1.0
    if last is not None:
        reached = max(last.estimate - last.low, last.high - last.estimate)  # the other side may end at 100%
        factor = round(min(10.0, max(0.1, reached / planned(min(n_answers, last.n_answers)))), 2)
    now = min(0.5, factor * planned(n_answers))
    return {"now": now, "answers": n_answers, "points": _needed(n_classes, accuracy, error_rate, factor)}


@lru_cache(maxsize=32)
def _needed(n_classes: int, accuracy: float, error_rate: float, factor: float) -> list[dict[str, float]]:
    options = {"accuracy": accuracy, "error_rate": error_rate}
    return [
        {"margin": margin, "n": how_many_more(0, n_classes, min(0.5, margin / factor), **options)} for margin in MARGINS
    ]


def over_time(times: Sequence[float]) -> dict[str, Any] | None:
    """Counts of equal steps of time, the finest of which there are not too many.

    Examples
    --------
    >>> over_time([120.0, 130.0, 250.0])
    {'start': 120.0, 'step': 60, 'counts': [2, 0, 1]}
    """
    if not times:
        return None
    first, last = min(times), max(times)
    fits = (step for step in STEPS if (last - first) / step < MOST_BARS - 1)
    step = next(fits, STEPS[-1] * math.ceil((last - first) / STEPS[-1] / (MOST_BARS - 2)))
    start = first // step * step
    counts = Counter(int((time - start) // step) for time in times)
    return {"start": start, "step": step, "counts": [counts[i] for i in range(max(counts) + 1)]}
