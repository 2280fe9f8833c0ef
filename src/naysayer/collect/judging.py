"""What guided answers tell: how many of the labels so far are right, and how common each class is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from naysayer.collect.guiding import Guidance, drawn_with, read_guidance
from naysayer.collect.records import Standing, Training
from naysayer.measure.adaptive import anytime_interval, contributions, corrected, latest_interval
from naysayer.measure.answer_estimates import class_priors
from naysayer.measure.answers import Answers
from naysayer.measure.design import LARGEST_ERROR
from naysayer.measure.intervals import Interval, tail_probability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_OF_GUIDED = 0.2  # of what an interval may miss, where it rests on random answers, too


def guided_answers(given: Sequence[Standing]) -> list[tuple[Standing, Guidance]]:
    """Give the answers of yes or no to guided questions, in the order in which they came."""
    return [(one, read_guidance(one.guidance)) for one in given if one.guidance is not None and one.value != "skip"]


def _of_present_items(rows: list[tuple[Standing, Guidance]]) -> list[tuple[Standing, Guidance]]:
    """Leave out answers from before items were added or removed, which are about the share among others."""
    return [(one, how) for one, how in rows if how.n_items == rows[-1][1].n_items]


def label_accuracy(
    given: Sequence[Standing], n_classes: int, error_rates: Interval, confidence: float = 0.95
) -> Interval | None:
    """Estimate how many items the likeliest class is right for, by model and answers; None without a guided answer.

    It rests on the last three quarters of the guided answers at the most, each of which tells what was true when its
    question was drawn. Since labels get better, estimate and lower bound are on the safe side of what is true now; the
    upper bound allows for as much as the likeliest classes have become likelier since. The interval holds however one
    decides to stop (see `latest_interval`), and begins anew when items are added or removed. It has all that the
    answers allow at the estimated error rate or at either bound of it, so that what is unknown of both adds up.

    Parameters
    ----------
    given : standing answers.
    n_classes : K.
    error_rates : how often answers are wrong, with the bounds of it.
    confidence : of the interval.
    """
    rows = _of_present_items(guided_answers(given))
    if not rows:
        return None
    said, certainty = _Likeliest.of(rows, n_classes), np.array([how.certainty for _, how in rows])

    def interval(error_rate: float) -> Interval:
        found = said.values(error_rate, np.ones(n_classes, dtype=bool), certainty)
        return latest_interval(*found, expected=certainty, confidence=confidence)

    each = [interval(rate) for rate in _rates(error_rates)]
    low, high = min(one.low for one in each), max(one.high for one in each)
    return Interval(min(high, max(low, each[0].estimate)), low, high)


class _Likeliest(NamedTuple):
    """n guided answers; `about` tells which are about the likeliest class, whose chance is `floor` at the least."""

    yes: Bools
    asked: Ints
    about: Bools
    chance: Floats
    floor: Floats
    now: Floats

    @classmethod
    def of(cls, rows: Sequence[tuple[Standing, Guidance]], n_classes: int) -> _Likeliest:
        """Take over guided answers."""
        chance, floor = np.array([drawn_with(how, one, n_classes) for one, how in rows]).T
        return cls(
            yes=np.array([one.value == "yes" for one, _ in rows]),
            asked=np.array([one.class_index for one, _ in rows]),
            about=np.array([one.class_index == how.likeliest for one, how in rows]),
            chance=chance,
            floor=floor,
            now=np.array([how.now for _, how in rows]),
        )

    def values(self, error_rate: float, chosen: Bools, base: Floats) -> tuple[Floats, Floats, Floats]:
        """Give what has the mean share of items that are of their likeliest class, one of those chosen; with its range.

        `base` (n,) is what was expected of that before the answer.
        """
        about = self.about & chosen[self.asked]
        m = contributions(corrected(self.yes, error_rate), self.chance, self.now, about, base)
        reach = (1.0 - error_rate) / (1.0 - 2.0 * error_rate) / self.floor
        return m, base - reach, base + reach


def _rates(error_rates: Interval) -> list[float]:
    """Give the error rates to reckon with, the estimate first, as far as answers tell something there."""
    return [min(rate, LARGEST_ERROR) for rate in error_rates]


def class_shares(
    given: Sequence[Standing],
    answers: Answers,
    trainings: Sequence[Training],
    error_rates: Interval,
    confidence: float = 0.95,
) -> Interval | None:
    r"""Estimate how common each class is by random and guided answers together; None where no guided one tells.

    Guided answers bound a share from both sides. At least those items are of class c that are of it and for which it is
    likeliest; at most all but those that are of the likeliest class where that is another. Both numbers change with
    each answer, and never pass the share; so a bet on what they are is one on the share, which holds at all times. Such
    bounds are as narrow as labels are right. The interval is what they leave of that by the random answers of before,
    which may miss with four fifths of :math:`\alpha`, the guided ones with the rest; where the two contradict each
    other, it has all that either allows. The estimate is the mean of both parts' unbiased ones, each weighted with its
    precision, or the nearest that the interval has. When items are added or removed, only guided answers since count.

    Parameters
    ----------
    given : standing answers.
    answers : the same, as :func:`naysayer.measure.answers.from_standing` takes them over.
    trainings : with what each expected of all items.
    error_rates, confidence : as for :func:`label_accuracy`.

    Returns
    -------
    (estimate, low, high), each of shape (K,), for each class by itself; None without a guided answer, and once a class
    was added, since the random answers then rest on other items than the guided ones.
    """
    k = answers.n_classes
    guided = [(one, how) for one, how in guided_answers(given) if len(how.likely or ()) == k]
    if not guided or answers.drawn_from is not None:
        return None
    rows = _of_present_items(guided)
    some = len(rows) == len(guided) and answers.design.told.sum() > 1  # or else random ones are about other items
    by_guide = 1.0 - (1.0 - confidence) * (_OF_GUIDED if some else 1.0)
    rates = _rates(error_rates)
    bounds = np.array([_share_bounds(rows, k, rate, by_guide) for rate in rates])
    low, high = bounds[:, 0].min(axis=0), bounds[:, 1].max(axis=0)
    estimate, variance = _expected_shares(rows, trainings, k, rates[0])
    if some:
        by_chance = 1.0 - (1.0 - confidence) * (1.0 - _OF_GUIDED)
        random = class_priors(answers, confidence=by_chance)
        low, high = _in_common((low, high), (random.low, random.high))
        spread = (random.high - random.low) / (2.0 * norm.isf(tail_probability(by_chance)))
        weight = float((spread**2).mean()) / (float((spread**2).mean()) + variance) if variance < math.inf else 0.0
        estimate = weight * estimate + (1.0 - weight) * random.estimate
    return Interval(np.clip(estimate, low, high), low, high)


def _in_common(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Give what two intervals both have, (K,) each; where that is nothing, all that either has and what is between."""
    inner = np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
    outer = np.minimum(one[0], other[0]), np.maximum(one[1], other[1])
    apart = inner[0] > inner[1]
    return np.where(apart, outer[0], inner[0]), np.where(apart, outer[1], inner[1])


def _share_bounds(
    rows: Sequence[tuple[Standing, Guidance]], n_classes: int, error_rate: float, confidence: float
) -> tuple[Floats, Floats]:
    """Bound the share of each class, (K,), by answers about the likeliest classes."""
    said, likely = _Likeliest.of(rows, n_classes), np.array([how.likely for _, how in rows])

    def at_least(chosen: Bools) -> float:
        found = said.values(error_rate, chosen, likely[:, chosen].sum(axis=1))
        return float(anytime_interval(*found, confidence=confidence).low)

    each = np.eye(n_classes, dtype=bool)
    return np.array([at_least(one) for one in each]), np.array([1.0 - at_least(~one) for one in each])


def _expected_shares(
    rows: Sequence[tuple[Standing, Guidance]], trainings: Sequence[Training], n_classes: int, error_rate: float
) -> tuple[Floats, float]:
    """Estimate the share of each class without bias, and the mean of the variances; infinite where nothing tells it."""
    shares = {one.at: one.detail["shares"] for one in trainings if one.detail.get("guides")}
    rows = [(one, how) for one, how in rows if len(shares.get(how.training, ())) == n_classes]
    if len(rows) < 2:
        return np.full(n_classes, 1.0 / n_classes), math.inf
    values = _any_class(rows, [shares[how.training] for _, how in rows], error_rate)
    return values.mean(axis=0), float(values.var(axis=0, ddof=1).mean()) / len(rows)


def _any_class(
    rows: Sequence[tuple[Standing, Guidance]], shares: Sequence[Sequence[float]], error_rate: float
) -> Floats:
    """Give what has the mean share of each class, whatever was asked (n, K), by what trainings expected."""
    base = np.array(shares)
    said = _Likeliest.of(rows, base.shape[1])
    z, expected = corrected(said.yes, error_rate), np.array([how.expected for _, how in rows])
    each = np.arange(base.shape[1])
    return np.stack([contributions(z, said.chance, expected, said.asked == k, base[:, k]) for k in each], axis=1)
