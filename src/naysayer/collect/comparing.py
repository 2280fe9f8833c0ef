r"""Whether people follow suggestions: guided answers beside those to random questions in between.

Of the questions about the class that a guide suggests some are random: they would have been asked anyway. The guide
knows with which probability :math:`\rho_t` a question is one of these, and the page does not. So among the questions
that get a no, the share of random ones should be the mean of :math:`\rho_t`, however hard the items are and whoever
answers. Where people say yes because a class is suggested, fewer of the guided ones get a no, and the share is
larger; where they say no for that reason, random ones are too many among those that get a yes.
:func:`naysayer.measure.people.evidence` bets on both, and may be looked at after every answer.

Who says yes too often to whatever is asked is not found in that way. But of random questions about any of K classes one
in K should get a yes, but for mistakes, while questions are guided as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.collect.guiding import random_share
from naysayer.collect.judging import guided_answers
from naysayer.collect.records import Standing
from naysayer.measure.intervals import Interval
from naysayer.measure.people import evidence

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ODD = 0.01  # the share of projects in which a difference may ever be named where there is none
_TOGETHER, _EACH, _ANY = 0.6, 0.2, 0.2  # parts of that: all classes together, each of them, questions about any class
_FOLLOWED = 0.8  # part of each for following; the rest for the opposite
_LARGEST = math.log(1e6)  # ratio of the shares of no that is looked at


class Compared(NamedTuple):
    """How often random and guided questions about the class that was suggested get a yes, the same items in both.

    `p_value` is the probability with which chance ever makes a difference at least as clear.
    """

    name: str
    n_random: int
    random: float | None
    n_guided: int
    guided: float | None
    p_value: float


class SuggestionCheck(NamedTuple):
    """What guided and random answers tell of each other.

    Attributes
    ----------
    classes : one for each, and the last for all of them together.
    difference : the share of yes to guided questions less that to random ones, with what it may be at 95%, whenever one
        looks; None where nothing is known of it.
    n_any, yes_any : random questions about any class, and the share of yes; None without any.
    most_any : what that share is at most on average, if people answer as carefully as repeated questions say.
    p_any : the probability with which chance ever makes so many.
    """

    classes: list[Compared]
    difference: Interval | None
    n_any: int
    yes_any: float | None
    most_any: float
    p_any: float

    @property
    def differing(self) -> list[str]:
        """Name the classes whose guided and random answers differ more than they should, all looked at at once."""
        *each, together = self.classes
        odd = [one.name for one in each if one.p_value < ODD * _EACH / len(each)]
        return [*odd, *([together.name] if together.p_value < ODD * _TOGETHER else [])]

    @property
    def too_many(self) -> bool:
        """Whether random questions get more yes than they should."""
        return self.p_any < ODD * _ANY


def compare_yes(given: Sequence[Standing], classes: Sequence[str], error_rates: Interval) -> SuggestionCheck:
    """Compare how often random and guided questions about the suggested class get a yes, since questions are guided.

    Guided questions count as often as random ones would be about their item, so that hard and easy ones have the same
    part in both shares.

    Parameters
    ----------
    given : standing answers.
    classes : the names of the K classes.
    error_rates : how often answers are wrong, with its bounds.
    """
    rows = [(one.class_index, one.value == "yes", how, random_share(how, one)) for one, how in guided_answers(given)]
    told = [(k, yes, how.by_chance, share) for k, yes, how, share in rows if share is not None]
    about = np.array([k for k, *_ in told], dtype=np.int64)
    yes, by_chance = (np.array([one[i] for one in told], dtype=bool) for i in (1, 2))
    share = np.array([share for *_, share in told], dtype=np.float64)
    mine = [about == k for k in range(len(classes))]
    found = [_compared(name, yes[of], by_chance[of], share[of]) for name, of in zip(classes, mine)]
    together = _compared("all classes", yes, by_chance, share)
    difference = _difference(together, by_chance[~yes], share[~yes])
    any_class = [(yes, how.n_left) for _, yes, how, _ in rows if how.by_chance and how.n_left]
    said, n_left = (np.array(each, dtype=np.float64) for each in zip(*any_class)) if any_class else (np.zeros(0),) * 2
    e = min(0.5, error_rates.high)
    at_most = (1.0 - e) / n_left + e * (1.0 - 1.0 / n_left)
    return SuggestionCheck(
        classes=[*found, together],
        difference=difference,
        n_any=len(said),
        yes_any=float(said.mean()) if len(said) else None,
        most_any=float(at_most.mean()) if len(said) else 1.0,
        p_any=math.exp(-evidence(said > 0, at_most)),
    )


def _compared(name: str, yes: Bools, by_chance: Bools, share: Floats) -> Compared:
    """Compare answers about the suggested class, of which each is random with the probability `share` (n,)."""
    odds = share / (1.0 - share)
    followed, opposite = (math.exp(-evidence(by_chance[answer], share[answer])) for answer in (~yes, yes))
    return Compared(
        name=name,
        n_random=int(by_chance.sum()),
        random=float(yes[by_chance].mean()) if by_chance.any() else None,
        n_guided=int((~by_chance).sum()),
        guided=float(np.average(yes[~by_chance], weights=odds[~by_chance])) if (~by_chance).any() else None,
        p_value=min(1.0, followed / _FOLLOWED, opposite / (1.0 - _FOLLOWED)),
    )


def _difference(together: Compared, by_chance: Bools, share: Floats) -> Interval | None:
    """Bound the difference of the shares of yes by which of the questions that got a no were random."""
    if together.guided is None or together.random is None or not len(share):
        return None
    limit, odds = math.log(2.0 / 0.05), share / (1.0 - share)

    def random(log_ratio: float) -> Floats:
        """Give the probability that each is random where their share of no is so many times that of guided ones."""
        return odds * math.exp(log_ratio) / (odds * math.exp(log_ratio) + 1.0)

    least = _first(lambda ratio: evidence(by_chance, random(ratio)) < limit, -_LARGEST, _LARGEST)
    most = -_first(lambda ratio: evidence(~by_chance, 1.0 - random(-ratio)) < limit, -_LARGEST, _LARGEST)
    no = 1.0 - (together.guided * together.n_guided + 1.0) / (together.n_guided + 2.0)  # no share is certain
    low, high = (min(1.0 - no, no * math.expm1(ratio)) for ratio in (least, most))
    return Interval(min(high, max(low, together.guided - together.random)), low, high)


def _first(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Give the first point between two from which on something holds."""
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
