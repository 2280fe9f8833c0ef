r"""Who answers badly: evidence against each person that an honest one will hardly ever meet, whenever one looks.

Somebody is *honest* here whose answers are wrong with a probability of 15% at most, either way and whatever the
question, and who answers within a quarter of a second 1 time in 20 at most. Against that a gambler bets at every
answer. Let :math:`x_t` be 1 where something happens that is to speak against a person, and :math:`p_t` what its
probability is at most if they are honest. Then

.. math:: E_n = \prod_{t \le n} \Big(1 + f\, \frac{x_t - p_t}{p_t}\Big), \qquad 0 < f < 1

does not grow on average if they are, and by Ville's inequality it *ever* reaches :math:`1 / \alpha` with probability
:math:`\alpha` at most: one may look after each answer, and there need not be many. How questions
are drawn does not matter as long as :math:`p_t` holds for them:

- an answer is *too quick*: :math:`p_t = 0.05`;
- a *no*, or a *yes*, to a class that was drawn at random: the class is the true one with a probability that is known
  but for what earlier answers were worth, from :math:`1 / K` (nothing) to that with which it was drawn (all);
- two answers to a repeated question *differ*, both by one person or one by somebody else:
  :math:`p_t = 2 \cdot 0.15 \cdot 0.85`. Of two who contradict each other either may be wrong, so the evidence must be
  strong enough without any single one of the others;
- a *no* to the class that a model suggests: by 0.15 more often than others say so, and than the model expects.

The 1 in 100 of false alarms is shared out among these six and among the people, in the order in which they came: in 1
project of 100 at most is any honest person ever named. That is exact for all but the last one, where what others say is
itself estimated, and rests on simulation. It assumes that mistakes are independent from question to question, and that
nobody's answers make the true class of an item less likely to be asked about than chance would.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, logsumexp

from naysayer.measure.adaptive import anytime_interval
from naysayer.measure.intervals import Interval, mean_bounds, tail_probability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TOLERATED = 0.15  # the share of wrong answers, either way, that nobody is named for
QUICK = 0.25  # seconds: who decides has to look first
QUICK_SHARE = 0.05  # of answers that may be so quick, as by a slip of the finger
ALARM = 0.01  # the share of projects in which an honest person may ever be named
_TESTS = 6
_STAKES = np.array([0.05, 0.3, 0.9])  # f: for a little too often, and for always
_FEWEST_OTHERS = 20  # answers to a model's suggestions that a person is compared with
_DIFFER = 2.0 * TOLERATED * (1.0 - TOLERATED)


@dataclass(frozen=True)
class AnswersByPeople:
    """n answers of yes or no by P people, in the order in which they came.

    Parameters
    ----------
    person : (n,) from 0 to P - 1, numbered in the order of their first answers.
    yes : (n,)
    seconds : (n,) that each took; nan where that is not known.
    least, most : (n,) bounds of the probability that the class asked about was the true one, over how it was drawn;
        nan where it was not drawn at random.
    repeats : (n,) the place of the answer that it repeats, -1: none.
    weight : (n,) how often such a question comes when item and class are drawn at random, to how often it came.
    training : (n,) which model suggested the class, -1: none did.
    expected : (n,) the probability that the model gave to the class; nan where it suggested none.
    agreed, agreed_least, agreed_most : (n,) a value whose mean is the share of items whose likeliest class by the
        model this person would say yes to (:func:`naysayer.measure.adaptive.contributions`), and its bounds; nan where
        the question was not guided.
    """

    person: Ints
    yes: Bools
    seconds: Floats
    least: Floats
    most: Floats
    repeats: Ints
    weight: Floats
    training: Ints
    expected: Floats
    agreed: Floats
    agreed_least: Floats
    agreed_most: Floats

    @property
    def n_people(self) -> int:
        """P."""
        return int(self.person.max(initial=-1)) + 1


@dataclass(frozen=True)
class Judgement:
    """What the answers of one person tell about that person.

    Attributes
    ----------
    n, n_yes : answers of yes or no, and those of yes.
    seconds : the median of what an answer took; None where that is not known.
    with_others : the share of questions that they and somebody else answered in the same way, as if the questions were
        drawn at random; None without any.
    with_self : the same of questions that they were asked twice.
    n_with_others, n_with_self : how many such questions there are.
    with_model : the share of items whose likeliest class they would say yes to; None without a guided question.
    reasons : why they are named, in words; nobody is named without one.
    """

    n: int
    n_yes: int
    seconds: float | None
    with_others: Interval | None
    n_with_others: int
    with_self: Interval | None
    n_with_self: int
    with_model: Interval | None
    reasons: list[str] = field(default_factory=list)


def evidence(happened: Sequence[bool] | Bools, at_most: float | Floats) -> float:
    """Give the logarithm of the most that a gambler ever had who bet that something happens more often than it may.

    If it happens with the probability `at_most` or less each time, whatever came before, then this ever exceeds
    log(1 / a) with probability a at most.

    Parameters
    ----------
    happened : (n,) in the order of time.
    at_most : (n,) or a number, above 0 and at most 1: the probability with which it may happen.

    Examples
    --------
    >>> round(evidence([True] * 4, 0.05), 1), round(evidence([True, False] * 4, 0.5), 1)
    (10.5, 0.3)
    """
    x = np.asarray(happened, dtype=np.float64)
    p = np.broadcast_to(np.asarray(at_most, dtype=np.float64), x.shape)
    if len(p) and not (p.min() > 0 and p.max() <= 1):
        raise ValueError(f"`at_most` must be above 0 and at most 1; got {p.min():g} to {p.max():g}")
    won = np.log1p(_STAKES[:, None] * (x / p - 1.0)).cumsum(axis=1)
    return max(0.0, float((logsumexp(won, axis=0) - math.log(len(_STAKES))).max(initial=0.0)))


def needed(person: int) -> float:
    """Give the evidence from which on the person with this number is named.

    The shares 1 / (i (i + 1)) of all who may ever come sum to 1, so that nobody need know how many will.
    """
    return math.log(_TESTS * (person + 1) * (person + 2) / ALARM)


def agreement(same: Bools, weight: Floats, confidence: float = 0.95) -> Interval | None:
    """Estimate how often answers agree, from questions (n,) that stand for more or for fewer others; None without any.

    Examples
    --------
    >>> agreement(np.array([True, True, True, False]), np.array([1.0, 1.0, 1.0, 3.0])).estimate
    0.5
    """
    if not len(same):
        return None
    counts = weight / weight.mean()
    tail = tail_probability(confidence)
    return mean_bounds(same.astype(np.float64), 0.0, 1.0, tail, counts=counts, squares=counts**2)


def judge(said: AnswersByPeople, left_out: Collection[int] = (), confidence: float = 0.95) -> list[Judgement]:
    """Judge each person by speed, one-sidedness, and agreement with others and with the model.

    Parameters
    ----------
    said : the answers.
    left_out : people with whom nobody is compared.
    confidence : of the intervals.

    Examples
    --------
    Ann takes her time, and Bob says no 300 times without looking:

    >>> rng = np.random.default_rng(0)
    >>> true = rng.random(600) < 0.1  # the class asked about, of ten, is the true one
    >>> bob = np.arange(600) >= 300
    >>> nothing = np.full(600, np.nan)
    >>> said = AnswersByPeople(
    ...     bob.astype(int), np.where(bob, False, true), np.where(bob, 0.08, 1.5), np.full(600, 0.1), np.full(600, 0.1),
    ...     np.full(600, -1), np.ones(600), np.full(600, -1), nothing, nothing, nothing, nothing
    ... )
    >>> for judgement in judge(said):
    ...     print(judgement.reasons[:1])
    []
    ['answered 300 of 300 questions within 0.25 seconds, faster than anyone can look']
    """
    everyone = range(said.n_people)
    out = np.isin(np.arange(said.n_people), list(left_out))
    reasons: list[list[str]] = [_quick(said, a) + _one_sided(said, a) for a in everyone]
    for a in everyone:
        reasons[a] += _against_model(said, a, out)
    second = np.flatnonzero(said.repeats >= 0)
    pairs = np.stack([said.repeats[second], second], axis=1)
    who, differ = said.person[pairs].reshape(-1, 2), said.yes[pairs[:, 0]] != said.yes[pairs[:, 1]]
    own = who[:, 0] == who[:, 1]
    for a in everyone:
        mine = own & (who[:, 0] == a)
        if evidence(differ[mine], _DIFFER) >= needed(a):
            reasons[a].append(_contradicts("their own earlier answers", differ[mine]))
    _name_contradicted(who[~own], differ[~own], reasons, out)
    weight = said.weight[pairs[:, 0]]
    found = []
    for a in everyone:
        mine = said.person == a
        took = said.seconds[mine & ~np.isnan(said.seconds)]
        others, oneself = ((who == a).any(axis=1) & where for where in (~own, own))
        found.append(
            Judgement(
                n=int(mine.sum()),
                n_yes=int(said.yes[mine].sum()),
                seconds=float(np.median(took)) if len(took) else None,
                with_others=agreement(~differ[others], weight[others], confidence),
                n_with_others=int(others.sum()),
                with_self=agreement(~differ[oneself], weight[oneself], confidence),
                n_with_self=int(oneself.sum()),
                with_model=_agreement_with_model(said, mine & ~np.isnan(said.agreed), confidence),
                reasons=reasons[a],
            )
        )
    return found


def _quick(said: AnswersByPeople, a: int) -> list[str]:
    """Say whether somebody answers without looking."""
    took = said.seconds[(said.person == a) & ~np.isnan(said.seconds)]
    quick = took < QUICK
    if evidence(quick, QUICK_SHARE) < needed(a):
        return []
    return [
        f"answered {quick.sum():,} of {len(quick):,} questions within {QUICK:g} seconds, faster than anyone can look"
    ]


def _one_sided(said: AnswersByPeople, a: int) -> list[str]:
    """Say whether somebody says no, or yes, more often than can be to classes that were drawn at random."""
    mine = (said.person == a) & ~np.isnan(said.least)
    yes, least, most = said.yes[mine], said.least[mine], said.most[mine]
    found, of = [], f"{yes.sum():,} of {len(yes):,} questions drawn at random"
    if evidence(~yes, 1.0 - (1.0 - TOLERATED) * least) >= needed(a):
        found.append(f"said yes to {of}, where {least.sum():,.0f} or more are expected")
    if evidence(yes, most + TOLERATED * (1.0 - most)) >= needed(a):
        found.append(f"said yes to {of}, where {most.sum():,.0f} or fewer are expected")
    return found


def _against_model(said: AnswersByPeople, a: int, out: Bools) -> list[str]:
    """Say whether somebody says no to what models suggest more often than others do, and than the models expect."""
    mine = (said.person == a) & (said.training >= 0)
    at_most = np.ones(int(mine.sum()))
    others_no, n_others = 0, 0
    for training in np.unique(said.training[mine]):
        others = (said.person != a) & ~out[said.person] & (said.training == training)
        n, n_no = int(others.sum()), int((others & ~said.yes).sum())
        if n >= _FEWEST_OTHERS:
            highest = float(betaincinv(n_no + 1.0, n - n_no, 1.0 - ALARM / _TESTS)) if n_no < n else 1.0
            here = said.training[mine] == training
            at_most[here] = np.minimum(1.0, np.maximum(highest, 1.0 - said.expected[mine][here]) + TOLERATED)
            others_no, n_others = others_no + n_no, n_others + n
    no = ~said.yes[mine]
    if evidence(no, at_most) < needed(a):
        return []
    share = f"{100 * others_no / n_others:.0f} %"
    return [f"said no to {no.sum():,} of {len(no):,} classes that the model found likeliest; others to {share}"]


def _name_contradicted(who: Ints, differ: Bools, reasons: list[list[str]], out: Bools) -> None:
    """Add who contradicts others; pairs with somebody who is named already count no more."""
    while True:
        named = out | np.array([bool(each) for each in reasons], dtype=bool)
        open_ = ~named[who].any(axis=1)
        found: dict[int, float] = {}
        for a in np.unique(who[open_]):
            mine = open_ & (who == a).any(axis=1)
            if evidence(differ[mine], _DIFFER) < needed(int(a)):
                continue
            other = np.where(who[mine, 0] == a, who[mine, 1], who[mine, 0])
            least = min(evidence(differ[mine][other != b], _DIFFER) for b in set(other.tolist()))
            if least >= needed(int(a)):
                found[int(a)] = least
        if not found:
            return
        a = max(found, key=lambda each: found[each])
        reasons[a].append(_contradicts("others", differ[open_ & (who == a).any(axis=1)]))


def _contradicts(whom: str, differ: Bools) -> str:
    """Say how often somebody contradicts."""
    return f"contradicts {whom} at {differ.sum():,} of {len(differ):,} repeated questions"


def _agreement_with_model(said: AnswersByPeople, rows: Bools, confidence: float) -> Interval | None:
    """Estimate for how many items somebody says yes to the likeliest class."""
    if not rows.any():
        return None
    return anytime_interval(said.agreed[rows], said.agreed_least[rows], said.agreed_most[rows], confidence=confidence)
