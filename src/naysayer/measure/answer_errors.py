"""How often answers are wrong, told by questions that were asked twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naysayer.measure.answers import Answers
from naysayer.measure.intervals import Interval, tail_probability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PRIOR = (1.0, 30.0)  # Beta, of the error rate before any question was repeated: 3% on average, and below 12%
_STRENGTH = 20.0  # answers to repeated questions that all the annotators' rate counts for in each one's
_BOUNDS = ((0.0, 1.0), (1.0, 5.0))  # priors of each one's bounds: what others do says nothing of a careless one
_GRID = (np.arange(2000) + 0.5) / 4000.0  # of error rates


@dataclass(frozen=True)
class ErrorRates:
    """How often answers are wrong: of all annotators together, and of each one, with intervals.

    `n_pairs` and `n_disagreements` count answers to one question given twice; `by_annotator` has those that each
    annotator had a part in, in the order of `Answers.annotators`. `expected` is the mean of what the rate of all may
    be, which is above 0 also where no two answers disagree.
    """

    overall: Interval
    by_annotator: tuple[Interval, ...]
    n_pairs: int
    n_disagreements: int
    pairs_of: tuple[int, ...]
    expected: float


def error_rates(answers: Answers, confidence: float = 0.95) -> ErrorRates:
    r"""Estimate how often answers are wrong from questions that were asked twice.

    Two answers to the same question disagree with probability :math:`e_a (1 - e_b) + e_b (1 - e_a)`, which is
    :math:`2e(1-e)` for one annotator. Estimates are posterior means, with a prior for e of 3% that 30 answers outweigh;
    for a single annotator the rate of all is the prior, and counts for 20 answers. Where no two answers disagree at
    all, e is estimated as 0; the interval says how large it may be, up to 12% before anything was repeated. The bounds
    of a single annotator's rate do not lean on the others, as Clopper and Pearson's of a share do not: someone far
    more careless than the rest is within them, too.

    Parameters
    ----------
    answers : the answers, repeated ones among them.
    confidence : of the intervals.

    Examples
    --------
    >>> twice = [str(i) for i in range(200)] * 2
    >>> said = Answers.of(twice, [0] * 400, ["no"] * 392 + ["yes"] * 8, classes=("cat", "dog"))  # 8 of 200 disagree
    >>> print("{:.3f}, from {:.3f} to {:.3f}".format(*error_rates(said).overall))
    0.021, from 0.010 to 0.037
    """
    tail = tail_probability(confidence)
    first, second = _pairs(answers)
    people = answers.annotator[np.stack([first, second], axis=1)].reshape(-1, 2)
    differ = answers.value[first] != answers.value[second]
    d = 2.0 * _GRID * (1.0 - _GRID)
    alpha, beta = _PRIOR
    overall = _posterior(_log_beta(alpha, beta) + differ.sum() * np.log(d) + (~differ).sum() * np.log1p(-d), tail)
    expected = overall.estimate
    if not differ.any():
        overall = Interval(0.0, 0.0, overall.high)
    rates = np.full(len(answers.annotators), overall.estimate)
    each = [overall] * len(rates)
    pairs_of = tuple(int((people == a).any(axis=1).sum()) for a in range(len(rates)))
    own = people[:, 0] == people[:, 1]

    def likelihood(a: int) -> Floats:
        """That of a's rate, where the others' are as they are now; logarithm on the grid."""
        mine = (people == a).any(axis=1)
        log = (mine & own & differ).sum() * np.log(d) + (mine & own & ~differ).sum() * np.log1p(-d)
        others = rates[np.where(people[:, 0] == a, people[:, 1], people[:, 0])]
        for e, different in zip(others[mine & ~own], differ[mine & ~own]):
            p = _GRID + e - 2.0 * _GRID * e
            log = log + (np.log(p) if different else np.log1p(-p))
        return log

    if len(rates) > 1:
        shrunk = _log_beta(_STRENGTH * overall.estimate, _STRENGTH * (1.0 - overall.estimate))
        for _ in range(5 if differ.any() else 0):  # each one's from the others' of the round before
            rates = np.array([_posterior(shrunk + likelihood(a), tail).estimate for a in range(len(rates))])
        for a in (a for a, n in enumerate(pairs_of) if n):
            rate, log = float(rates[a]), likelihood(a)
            low, high = (_posterior(_log_beta(*prior) + log, tail) for prior in _BOUNDS)
            each[a] = Interval(rate, min(low.low, rate), max(high.high, rate))
    return ErrorRates(overall, tuple(each), len(differ), int(differ.sum()), pairs_of, expected)


def _pairs(answers: Answers) -> tuple[Ints, Ints]:
    """Give the places of each answer, yes or no, that has one before it about the same item and class, and of that one.

    Of three answers the second and third both go with the one before, which wastes nothing and is as fair.
    """
    told = np.flatnonzero((answers.value >= 0) & (answers.probability > 0))
    key = answers.item[told] * answers.n_classes + answers.asked[told]
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    return told[order[:-1][same]], told[order[1:][same]]


def _log_beta(alpha: float, beta: float) -> Floats:
    """Logarithm of a beta density on the grid, but for a constant."""
    return (alpha - 1.0) * np.log(_GRID) + (beta - 1.0) * np.log1p(-_GRID)


def _posterior(log_density: Floats, tail: float) -> Interval:
    """Mean and quantiles of a density on the grid of error rates."""
    density = np.exp(log_density - log_density.max())
    share = np.cumsum(density) / density.sum()
    mean = float((_GRID * density).sum() / density.sum())
    low, high = (float(_GRID[np.searchsorted(share, p)]) for p in (tail, 1.0 - tail))
    return Interval(mean, min(low if low > _GRID[0] else 0.0, mean), max(high, mean))
