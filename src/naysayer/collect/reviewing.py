"""What the owner looks into: how each person answers, and the items on which people, or people and model, disagree."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from naysayer.collect.guiding import drawn_with, read_guidance
from naysayer.collect.records import Annotator, Project, Standing, Training
from naysayer.collect.store import Store
from naysayer.measure.adaptive import contributions
from naysayer.measure.intervals import Interval
from naysayer.measure.people import AnswersByPeople, Judgement, judge

REST = 20  # looking may take one part in so many of the server's time


class Disagreement(NamedTuple):
    """An item on which answers contradict each other, or the model; what was said, and the model's opinion, if any."""

    item_id: str
    said: list[Standing]
    model: tuple[int, float] | None
    why: str


def judge_people(store: Store) -> list[tuple[Annotator, Judgement]]:
    """Judge all who answered, in the order of their first answers; those left out too, beside nobody else."""
    given = [one for one in store.standing(everyone=True) if one.value != "skip" and not one.final]
    place: dict[str, int] = {}
    for one in given:
        place.setdefault(one.annotator, len(place))
    out = [place[name] for name in store.left_out() if name in place]
    judged = judge(to_said(given, store.project), out)
    known = {person.id: person for person in store.annotators()}
    return [(known[name], judged[i]) for name, i in place.items()]


def to_said(given: Sequence[Standing], project: Project) -> AnswersByPeople:
    """Take over answers of yes or no for :func:`naysayer.measure.people.judge`.

    A class that was drawn at random is the true one with a probability between that of the rarest class, if the answers
    before were worth nothing, and that of the likeliest among those left.
    """
    n, k = len(given), project.n_classes
    shares = np.full(k, 1.0 / k) if project.probabilities is None else np.array(project.probabilities)
    person, place = dict[str, int](), {one.question_id: i for i, one in enumerate(given)}
    trainings = dict[float, int]()
    yes = np.array([one.value == "yes" for one in given], dtype=bool)
    seconds, least, most, expected, now, chance, certainty, reach = np.full((8, n), np.nan)
    training, about = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=bool)
    for i, one in enumerate(given):
        if one.took_ms is not None:
            seconds[i] = one.took_ms / 1000
        if one.guidance is not None:
            how = read_guidance(one.guidance)
            chance[i], floor = drawn_with(how, one, k)
            now[i], certainty[i], reach[i] = how.now, how.certainty, 1.0 / floor
            about[i] = one.class_index == how.likeliest
            if how.by_chance:
                n_left = (one.n_classes or k) - 1  # but for a class at which they could not tell
                least[i], most[i] = 1.0 / k, 1.0 / max(1, n_left)
            else:
                training[i], expected[i] = trainings.setdefault(how.training, len(trainings)), how.now
        elif one.repeat_of is None and one.probability > 0:
            scale = one.probability / shares[one.class_index]
            least[i], most[i] = shares.min(), min(1.0, scale * shares.max())
    guided = ~np.isnan(chance)
    agreed = np.full(n, np.nan)
    agreed[guided] = contributions(*(each[guided] for each in (yes, chance, now, about, certainty)))
    return AnswersByPeople(
        person=np.array([person.setdefault(one.annotator, len(person)) for one in given], dtype=np.int64),
        yes=yes,
        seconds=seconds,
        least=least,
        most=most,
        # Of several repetitions the first: one mistake that many are asked about again would count for many.
        repeats=np.array([place.pop(one.repeat_of or "", -1) for one in given], dtype=np.int64),
        weight=np.where(guided, 1.0 / (k * chance), 1.0),
        training=training,
        expected=expected,
        agreed=agreed,
        agreed_least=certainty - reach,
        agreed_most=certainty + reach,
    )


def disagreements(given: Sequence[Standing], trainings: Sequence[Training], project: Project) -> list[Disagreement]:
    """Give the items on which people, or people and model, contradict each other, and the owner has said nothing yet.

    Those with the most answers against each other come first, then those at which the model is the surest.

    Parameters
    ----------
    given : the answers that count.
    trainings : the last of them says what the model thinks of items that it had not seen.
    project : of the store.
    """
    said: dict[str, list[Standing]] = defaultdict(list)
    final = {one.item_id for one in given if one.final}
    for one in given:
        if one.value != "skip" and one.item_id not in final:
            said[one.item_id].append(one)
    doubts = trainings[-1].detail.get("doubts", []) if trainings else []
    model = {id: (int(k), float(sure)) for id, k, sure in doubts}
    found: list[tuple[tuple[float, float], Disagreement]] = []
    for id, about in said.items():
        n_against, why = _against(about, project)
        opinion = model.get(id)
        if opinion is not None and not _ruled_out(about, opinion[0]):
            opinion = None  # people changed their minds since
        if opinion is not None and not n_against:
            why = f"The model takes it for {project.classes[opinion[0]]}, which people ruled out."
        if why:
            found.append(((-n_against, -opinion[1] if opinion else 0.0), Disagreement(id, about, opinion, why)))
    return [one for _, one in sorted(found, key=lambda each: each[0])]


def _against(about: Sequence[Standing], project: Project) -> tuple[int, str]:
    """Count the answers about an item that contradict others, and say how."""
    yes, no = defaultdict[int, int](int), defaultdict[int, int](int)
    for one in about:
        (yes if one.value == "yes" else no)[one.class_index] += 1
    both = [k for k in yes if no[k]]
    if both:
        k = max(both, key=lambda k: min(yes[k], no[k]))
        return sum(min(yes[c], no[c]) for c in both), f"Yes and no to {project.classes[k]}."
    if len(yes) > 1:
        names = " and ".join(project.classes[k] for k in sorted(yes))
        return sum(yes.values()) - max(yes.values()), f"Yes to {names}."
    if not yes and len(no) == project.n_classes:
        return 1, "No to every class."
    return 0, ""


def _ruled_out(about: Sequence[Standing], k: int) -> bool:
    """Tell whether people say that an item is not of a class."""
    votes = sum((1 if one.value == "yes" else -1) for one in about if one.class_index == k)
    return votes < 0 or (votes == 0 and any(one.value == "yes" and one.class_index != k for one in about))


class Reviews:
    """Who is to be looked at, and the queue of disagreements, looked for again only when something changed."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock, self._lock = store, clock, threading.Lock()
        self._seen: Any = None
        self._again = -math.inf
        self._people: list[dict[str, Any]] = []
        self._queue: list[Disagreement] = []
        self._settled: list[Standing] = []

    def people(self) -> list[dict[str, Any]]:
        """Give all who answered, those first who are named, then those left out, as what JSON can hold."""
        self._look()
        return self._people

    def queue(self) -> tuple[list[Disagreement], list[Standing]]:
        """Give the disagreements, and what the owner settled, the latest first."""
        self._look()
        return self._queue, self._settled

    def forget(self) -> None:
        """Look again at once, as after a click."""
        self._seen, self._again = None, -math.inf

    def _look(self) -> None:
        store = self._store
        with self._lock:
            progress, rulings, trainings = store.progress(), store.rulings(), store.trainings()
            seen, now = (progress, rulings, len(trainings)), self._clock()
            if seen == self._seen or now < self._again:
                return
            given = list(store.standing())
            self._queue = disagreements(given, trainings, store.project)
            self._settled = [one for one in reversed(given) if one.final]
            self._people = summary(store)
            self._seen, self._again = seen, self._clock() + REST * (self._clock() - now)


def summary(store: Store) -> list[dict[str, Any]]:
    """Tell how each person answers, as what JSON can hold: those first who are named and count, then those left out."""
    out, names = store.left_out(), {person.id: person.name for person in store.annotators()}
    last = [one.detail.get("agreement", {}) for one in store.trainings()[-1:]]  # of random questions
    found = []
    for person, judged in judge_people(store):
        ruling = out.get(person.id)
        if judged.with_model is None and last and person.id in last[0]:
            judged = replace(judged, with_model=Interval(*last[0][person.id]))
        ruled = ruling and {"by": names[ruling.ruled_by], "at": ruling.at, "reason": ruling.reason}
        found.append({"id": person.id, "name": person.name, "role": person.role} | asdict(judged) | {"left_out": ruled})
    return sorted(found, key=lambda one: (not one["reasons"] or one["left_out"] is not None, not one["left_out"]))
