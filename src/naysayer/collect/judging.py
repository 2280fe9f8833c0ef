"""What guided answers tell: how many of the labels so far are right, and whether people answer them as random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from naysayer.collect.guiding import Guidance, drawn_with, read_guidance
from naysayer.collect.records import Standing, Training
from naysayer.measure.adaptive import contributions, corrected, latest_interval
from naysayer.measure.design import LARGEST_ERROR
from naysayer.measure.intervals import Interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ENOUGH = 20  # answers of each kind, about a class, to compare
ODD = 0.01  # a difference that chance makes less often than that is named


class Compared(NamedTuple):
    """How often random and guided questions about a class get a yes, where both were asked about all items alike.

    `p_value` is the probability of a difference at least as large if people answer both in the same way; None with too
    few answers of either kind.
    """

    name: str
    n_random: int
    random: float | None
    n_guided: int
    guided: float | None
    p_value: float | None


def guided_answers(given: Sequence[Standing]) -> list[tuple[Standing, Guidance]]:
    """Give the answers of yes or no to guided questions, in the order in which they came."""
    return [(one, read_guidance(one.guidance)) for one in given if one.guidance is not None and one.value != "skip"]


def label_accuracy(
    given: Sequence[Standing], n_classes: int, error_rates: Interval, confidence: float = 0.95
) -> Interval | None:
    """Estimate how many items the likeliest class is right for, by model and answers; None without a guided answer.

    It rests on the last half to three quarters of the guided answers, each of which tells what was true when its
    question was drawn. Since labels get better, estimate and lower bound are on the safe side of what is true now; the
    upper bound allows for as much as the likeliest classes have become likelier since. The interval holds however one
    decides to stop (see `latest_interval`). It has all that the answers allow at the estimated error rate or at either
    bound of it, so that what is unknown of both adds up.

    Parameters
    ----------
    given : standing answers.
    n_classes : K.
    error_rates : how often answers are wrong, with the bounds of it.
    confidence : of the interval.
    """
    rows = guided_answers(given)
    if not rows:
        return None
    yes = np.array([one.value == "yes" for one, _ in rows])
    chance, floor = np.array([drawn_with(how, one, n_classes) for one, how in rows]).T
    now, certainty = np.array([(how.now, how.certainty) for _, how in rows]).T
    about = np.array([one.class_index == how.likeliest for one, how in rows])

    def values(error_rate: float) -> tuple[Floats, Floats]:
        reach = (1.0 - error_rate) / (1.0 - 2.0 * error_rate) / floor
        return contributions(corrected(yes, error_rate), chance, now, about, certainty), reach

    def interval(error_rate: float) -> Interval:
        m, reach = values(error_rate)
        low, high = certainty - reach, certainty + reach
        return latest_interval(m, low, high, expected=certainty, confidence=confidence)

    found = interval(error_rates.estimate)
    each = [found, *(interval(min(rate, LARGEST_ERROR)) for rate in (error_rates.low, error_rates.high))]
    return Interval(found.estimate, min(one.low for one in each), max(one.high for one in each))


def compare_yes(given: Sequence[Standing], trainings: Sequence[Training], classes: Sequence[str]) -> list[Compared]:
    """Compare how often random and guided questions about each class get a yes, and about all classes together.

    Guided questions are about likely classes, so they get more. Weighted with their chances, as in
    :mod:`naysayer.measure.adaptive` but with the answers as they were given, they tell what the same question about an
    item drawn at random would get. Random ones are the first about each item before guided ones began.
    """
    shares = {one.at: one.detail["shares"] for one in trainings if one.detail.get("guides")}
    shares = {at: each for at, each in shares.items() if len(each) == len(classes)}  # before a class was added, fewer
    first: dict[str, Standing] = {}
    for one in given:
        if one.guidance is not None:
            break
        if one.repeat_of is None and one.probability > 0 and one.fair:
            first.setdefault(one.item_id, one)
    rows = [(one, how) for one, how in guided_answers(given) if how.training in shares]
    yes = np.array([one.value == "yes" for one, _ in rows], dtype=np.float64)
    asked = np.array([one.class_index for one, _ in rows], dtype=np.int64)
    chance = np.array([drawn_with(how, one, len(classes))[0] for one, how in rows])
    expected = np.array([how.expected for _, how in rows])
    base = np.array([shares[how.training] for _, how in rows]).reshape(len(rows), len(classes))
    said = [one for one in first.values() if one.value != "skip"]
    random = [np.array([one.value == "yes" for one in said if one.class_index == k]) for k in range(len(classes))]
    guided = [contributions(yes, chance, expected, asked == k, base[:, k]) for k in range(len(classes))]
    found = [_compared(name, [random[k]], guided[k], int((asked == k).sum())) for k, name in enumerate(classes)]
    together = np.mean(guided, axis=0)
    return [*found, _compared("all classes", random, together, len(rows))]


def _compared(name: str, random: list[Bools], guided: Floats, n_guided: int) -> Compared:
    """Compare the mean of the random shares of yes, of one class or of each, with that of the guided."""
    n_random = sum(map(len, random))
    share = float(np.mean([each.mean() for each in random])) if all(map(len, random)) else None
    weighted = float(guided.mean()) if n_guided else None
    p_value = None
    if share is not None and weighted is not None and n_guided >= ENOUGH and min(map(len, random)) >= ENOUGH:
        rates = [(each.sum() + 1.0) / (len(each) + 2.0) for each in random]  # no share is certain
        variance = sum(rate * (1.0 - rate) / len(each) for rate, each in zip(rates, random)) / len(random) ** 2
        spread = math.sqrt(variance + float(guided.var(ddof=1)) / len(guided))
        p_value = float(2.0 * norm.sf(abs(weighted - share) / spread))
    return Compared(name, n_random, share, n_guided, weighted, p_value)


def differing(compared: Sequence[Compared]) -> list[str]:
    """Name the classes whose guided and random answers differ more than they should, all classes looked at at once."""
    tested = [one for one in compared if one.p_value is not None]
    return [one.name for one in tested if one.p_value is not None and one.p_value * len(tested) < ODD]
