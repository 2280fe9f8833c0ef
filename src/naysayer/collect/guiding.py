"""Guided questions: which item and class a model's probabilities suggest, and with what chance each could have come.

Nothing here knows of a database, nor of the model: a :class:`Guide` has the probabilities that the last finished one
gave to N items and K classes, and what people have said since:

- one question in ten (`RANDOM`) is random: any item, settled ones too, and any of the K classes;
- one in ten is about any item, and the class that is likeliest for it by now; all others too, if the goal is to know
  the accuracy (`CHECKS`);
- the others are about open items, by what is wanted, and the class that is likeliest.

So every item and class keeps a known chance at every question, which is stored with it: that is what keeps estimates
unbiased (:mod:`naysayer.measure.adaptive`), and what the answers to suggested classes are compared with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from naysayer.collect.questions import Draw
from naysayer.collect.records import GOALS, Standing
from naysayer.measure.settling import SETTLED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RANDOM = 0.1
CHECKS = {"labels": 0.1, "model": 0.1, "accuracy": 0.9}
BELIEVED = 0.9  # the share of a model's probabilities that counts; the rest says that it may be anything
RELIABLE = 0.6  # the accuracy that surely makes a model a guide: its suggestions get yes more often than no
FOUND = 2  # items of each class that people must have found before a less accurate model guides


@dataclass(frozen=True)
class GuidedDraw(Draw):
    """A draw with what is stored beside it, as JSON, in `guidance`; :func:`read_guidance` reads it."""

    guidance: str | None = None


@dataclass(frozen=True)
class Guidance:
    """How a guided question came about.

    Parameters
    ----------
    training : the time of the training whose probabilities it was drawn with, which identifies it.
    n_items : N.
    item_probability : with which the item was drawn among them.
    suggested : the class that the guide would have asked about.
    by_chance : it is a random one; otherwise it is about the suggested class.
    expected : the probability of the class asked about when the model was trained.
    likeliest : the class that model and answers made likeliest for the item when it was asked about.
    now : the probability of the class asked about then.
    certainty : the mean of the likeliest classes' probabilities then, over all N items.
    checks : the share of questions about any item and its likeliest class.
    n_left : how many classes a random question about the item could have been about.
    likely : `certainty` class by class, (K,): of each, the sum over the items that it was likeliest for, over N. Both
        are None in questions of before they were kept.
    """

    training: float
    n_items: int
    item_probability: float
    suggested: int
    by_chance: bool
    expected: float
    likeliest: int
    now: float
    certainty: float
    checks: float
    n_left: int | None = None
    likely: tuple[float, ...] | None = None


def read_guidance(text: str) -> Guidance:
    """Read what a question's row keeps."""
    try:
        told = json.loads(text)
        likely = told.pop("likely", None)
        found = Guidance(**told, likely=None if likely is None else tuple(likely))
        numbers = [value for name, value in vars(found).items() if name not in ("n_left", "likely")]
        numbers += [found.n_left or 0, *(found.likely or ())]
        if not all(map(math.isfinite, numbers)) or not found.item_probability > 0:
            raise ValueError(text)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"a question's guidance must be what `ask` stored; got {text[:50]!r}") from None
    return found


def drawn_with(how: Guidance, one: Standing, n_classes: int) -> tuple[float, float]:
    """Give N times the probability of a question, and the least that this is for the likeliest class of any item."""
    chance, least = how.n_items * how.item_probability * one.probability, how.checks + RANDOM / n_classes
    if one.class_index == how.likeliest and chance < least - 1e-9:
        raise ValueError(
            f"a guided question about the likeliest class must be as likely as checks make it; the one about item "
            f"{one.item_id!r} is stored with less; it was not drawn by `ask`"
        )
    return chance, least


def random_share(how: Guidance, one: Standing) -> float | None:
    """Give the probability that a question about the suggested class was a random one; None: it was about another.

    People cannot see which it is, so that this holds whatever they answer, unless they can.
    """
    if how.n_left is None or how.n_left < 2 or one.class_index != how.suggested:
        return None
    return (1.0 - one.probability) / ((how.n_left - 1) * one.probability)


def may_guide(accuracy: float, n_found: Ints) -> bool:
    """Tell whether a model may guide: it is surely reliable, or twice as good as chance and every class was found.

    A model knows nothing of a class that nobody has said yes to yet. It would not suggest it, so that few answers
    would ever name it.

    Parameters
    ----------
    accuracy : the model's, at the least.
    n_found : (K,) the number of items that people said are of each class.

    Examples
    --------
    >>> may_guide(0.5, np.array([4, 7, 3, 2])), may_guide(0.5, np.array([4, 7, 3, 0]))
    (True, False)
    """
    return accuracy >= RELIABLE or (accuracy >= 2.0 / len(n_found) and int(n_found.min()) >= FOUND)


def combine(p: Floats, votes: Ints, error_rate: float) -> Floats:
    r"""Give the probabilities of the classes by a model and by what people said of these very items, (N, K).

    .. math:: \propto \big(0.9\, p_{ik} + 0.1 / K\big) \Big(\frac{1 - e}{e}\Big)^{v_{ik}}

    Parameters
    ----------
    p : (N, K) the model's.
    votes : (N, K) yes less no.
    error_rate : e, above 0. A yes to an unlikely class is often a mistake, and does not settle an item by itself.

    Examples
    --------
    >>> combine(np.array([[0.8, 0.1, 0.1]]), np.array([[0, 1, 0]]), error_rate=0.05).round(2)
    array([[0.23, 0.73, 0.04]])
    """
    log = np.log(BELIEVED * p + (1.0 - BELIEVED) / p.shape[1]) + votes * np.log((1.0 - error_rate) / error_rate)
    out = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(out / out.sum(axis=1, keepdims=True))


class Guide:
    """What the last finished model expects of all items, with what people have said since.

    Parameters
    ----------
    items : the ids of the N items.
    expected : (N, K) probabilities from :func:`combine`, of when the model was trained.
    then : (N, K) votes, yes less no, that are in them.
    error_rate : of answers, above 0.
    training : the time of the training.
    goal : "labels" prefers items that the next answer settles, "model" those that it would learn from, "accuracy" none.
    enough : an item with so many answers is asked about no more; None: until it is settled.

    Examples
    --------
    >>> guide = Guide(["a", "b"], np.array([[0.9, 0.1], [0.5, 0.5]]), np.zeros((2, 2), int), 0.02, training=1.0)
    >>> drawn = guide.draw(Random(1))
    >>> drawn.item_id, drawn.class_index, round(drawn.probability, 3)
    ('a', 0, 0.965)
    """

    def __init__(
        self,
        items: Sequence[str],
        expected: Floats,
        then: Ints,
        error_rate: float,
        training: float,
        goal: str = "labels",
        enough: int | None = None,
    ) -> None:
        if goal not in GOALS:
            raise ValueError(f"`goal` must be one of {', '.join(GOALS)}; got {goal!r}")
        self.items, self.expected, self.training, self._goal, self._enough = items, expected, training, goal, enough
        self._place = {id: i for i, id in enumerate(items)}
        self._then, self._lift = then, float(np.log((1.0 - error_rate) / error_rate))
        self._now, self._weights = expected.copy(), np.zeros(len(items))
        self._decided = np.zeros(len(items), dtype=bool)
        self._likely = _by_likeliest(expected)
        self._weigh(np.arange(len(items)), then, np.abs(then).sum(axis=1))

    def update(self, said: Mapping[str, tuple[Ints, int]]) -> None:
        """Take note of what was said: of an item its votes (K,) and the number of its answers, with "can't tell"."""
        here = [id for id in said if id in self._place]  # others came after the training
        if not here:
            return
        rows, votes = np.array([self._place[id] for id in here]), np.stack([said[id][0] for id in here])
        log = np.log(np.maximum(self.expected[rows], 1e-30)) + (votes - self._then[rows]) * self._lift
        now = np.exp(log - log.max(axis=1, keepdims=True))
        now /= now.sum(axis=1, keepdims=True)
        self._likely += _by_likeliest(now) - _by_likeliest(self._now[rows])
        self._now[rows] = now
        self._weigh(rows, votes, np.array([said[id][1] for id in here]))

    def among(self, ids: Collection[str]) -> Guide:
        """Give a guide to those of the items that are among some, as if the others had never been there."""
        rows = np.array([i for i, id in enumerate(self.items) if id in ids], dtype=np.int64)
        guide = copy(self)
        guide.items = [self.items[i] for i in rows]
        guide._place = {id: i for i, id in enumerate(guide.items)}
        for name in ("expected", "_then", "_now", "_weights", "_decided"):
            setattr(guide, name, getattr(self, name)[rows])
        guide._likely = _by_likeliest(guide._now)
        return guide

    def _weigh(self, rows: Ints, votes: Ints, n_answers: Ints) -> None:
        """Say how much some items are wanted."""
        now = self._now[rows]
        top, sure = now.argmax(axis=1), now.max(axis=1)
        named = (votes[np.arange(len(rows)), top] > 0) | ((votes < 0).sum(axis=1) >= votes.shape[1] - 1)
        done = (sure >= SETTLED) & named
        self._decided[rows] = done
        if self._enough is not None:
            done |= n_answers >= self._enough
        wanted = 1.02 - sure if self._goal == "model" else sure**2
        spare = np.maximum(0, n_answers - np.abs(votes).sum(axis=1))  # what nobody can tell must not come for ever
        self._weights[rows] = np.where(done, 0.0, wanted / (1.0 + spare))

    @property
    def settled(self) -> NDArray[np.bool_]:
        """The items that are asked about no more, but for checks, (N,)."""
        return self._weights == 0

    @property
    def decided(self) -> NDArray[np.bool_]:
        """The items whose class is known, (N,): not those that merely have enough answers."""
        return self._decided

    @property
    def probabilities(self) -> Floats:
        """The probabilities of all classes by now, (N, K)."""
        return self._now

    def places(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """Mark which of the items are among some ids, (N,)."""
        marked = np.zeros(len(self.items), dtype=bool)
        marked[[self._place[id] for id in ids if id in self._place]] = True
        return marked

    def draw(
        self,
        random: Random,
        unavailable: NDArray[np.bool_] | None = None,
        excluded: Callable[[str], Collection[int]] = lambda item: (),
    ) -> GuidedDraw | None:
        """Draw a question; None: every item is settled.

        Parameters
        ----------
        random : the generator to draw with.
        unavailable : marks the items that somebody is answering about just now, (N,); none if None.
        excluded : gives the classes of an item that are not to be asked about, as where this person could not tell. An
            item without any other belongs to `unavailable`: to draw anew where one comes up is not in the chances.
        """
        unavailable = self.places(()) if unavailable is None else unavailable
        weights, n_free = np.where(unavailable, 0.0, self._weights), int(np.count_nonzero(~unavailable))
        total = float(weights.sum())
        if total <= 0:
            return None
        kind, checks = random.random(), CHECKS[self._goal]
        if kind < RANDOM + checks:
            i = int(np.flatnonzero(~unavailable)[random.randrange(n_free)])
        else:
            i = int(np.searchsorted(np.cumsum(weights), random.random() * total, side="right"))
            i = min(i, int(np.flatnonzero(weights)[-1]))  # what is rounded may lie beyond the last
        out = excluded(self.items[i])
        left = [k for k in range(self.expected.shape[1]) if k not in out]
        if not left:
            return self.draw(random, unavailable | self.places([self.items[i]]), excluded)
        suggested = max(left, key=lambda k: self._now[i, k])
        by_chance = kind < RANDOM
        k = random.choice(left) if by_chance else suggested
        any_class = RANDOM / n_free
        likeliest = checks / n_free + (1.0 - RANDOM - checks) * float(weights[i]) / total
        item_probability = any_class + likeliest
        probability = (any_class / len(left) + likeliest * (k == suggested)) / item_probability
        guidance = Guidance(
            training=self.training,
            n_items=len(self.items),
            item_probability=item_probability,
            suggested=suggested,
            by_chance=by_chance,
            expected=float(self.expected[i, k]),
            likeliest=int(self._now[i].argmax()),
            now=float(self._now[i, k]),
            certainty=float(self._likely.sum()) / len(self.items),
            checks=checks,
            n_left=len(left),
            likely=tuple((self._likely / len(self.items)).round(8).tolist()),
        )
        return GuidedDraw(self.items[i], k, probability, json.dumps(vars(guidance)))


def _by_likeliest(now: Floats) -> Floats:
    """Sum the largest probabilities of rows (n, K) by their classes, (K,)."""
    return np.asarray(now.max(axis=1) @ np.eye(now.shape[1])[now.argmax(axis=1)])
