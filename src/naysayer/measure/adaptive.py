r"""Estimates from questions that depend on earlier answers: unbiased, with intervals that hold whenever one stops.

Question t draws an item i of N with probability :math:`\rho_t(i)` and a class k of K with probability
:math:`\pi_t(k \mid i)`. Both may depend on all answers before it, and so may :math:`\hat p_{ti}(k)`, a model's guess of
:math:`[y_i = k]`. The answer, corrected for errors, is :math:`z = ([\text{yes}] - e) / (1 - 2e)`, whose mean is
:math:`[y_i = k]`. Then

.. math::
    \tilde y_{ti}(k) = \hat p_{ti}(k) + [\text{asked } i, k]\, \frac{z - \hat p_{ti}(k)}{\rho_t(i)\, \pi_t(k \mid i)}

has mean :math:`[y_i = k]` given the past, for every item and class: the model takes variance away and adds no
bias, however bad it is. So for any loss :math:`\ell_i(k)` that was fixed before question t,

.. math:: m_t = \frac1N \sum_i \sum_k \ell_i(k)\, \tilde y_{ti}(k)

has the mean :math:`\frac1N \sum_i \ell_i(y_i)`: with :math:`\ell_i(k) = [k = c]` the share of class c, with
:math:`\ell_i(k) = [k = f(x_i)]` the accuracy of a model f that did not learn from answer t. Averages over t stay
unbiased, and their distance from the truth is a martingale.

What is assumed: each item and each class have a chance at every question (what has none counts with its
:math:`\hat p`), e is the same for yes and no, and "can't tell", which leaves a question out, does not depend on the
class.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp

from naysayer.measure.design import check_rate
from naysayer.measure.intervals import Interval, tail_probability

Floats = NDArray[np.float64]

_BOLDEST = 0.75  # of the largest bet that cannot lose everything
_MARGINS = (0.01, 0.03, 0.1)  # half widths for which the stakes are best; each gets a third of the purse
_FIRST = 64  # values that are left behind at first
_EVENLY = 8  # the larger, the more evenly a purse is shared out over windows


def corrected(yes: ArrayLike, error_rate: float) -> Floats:
    """Give what answers count as: ([yes] - e) / (1 - 2e), whose mean is [y = k].

    Examples
    --------
    >>> corrected([True, False], error_rate=0.1).round(3)
    array([ 1.125, -0.125])
    """
    error_rate = check_rate(error_rate)
    return (np.asarray(yes, dtype=np.float64) - error_rate) / (1.0 - 2.0 * error_rate)


def contributions(z: ArrayLike, chance: ArrayLike, expected: ArrayLike, loss: ArrayLike, base: ArrayLike) -> Floats:
    r"""Give :math:`m_t` of each question: what is unbiased for the mean loss of all N items, given the past.

    .. math:: m_t = b_t + \ell_t\, (z_t - \hat p_t) / c_t

    Parameters
    ----------
    z : (n,) answers as :func:`corrected` gives them.
    chance : (n,) :math:`c_t = N \rho_t \pi_t` of the item and class that were asked about: N times the probability.
    expected : (n,) :math:`\hat p_t` of that item and class, from the past.
    loss : (n,) :math:`\ell_t` of that item and class: 1 where it counts, 0 where it does not.
    base : (n,) :math:`b_t = \frac1N \sum_i \sum_k \ell_i(k) \hat p_{ti}(k)`, what the model says without the answer.

    Examples
    --------
    Two items, two classes; the share of class 0, by a model that knows nothing:

    >>> contributions(z=[1.0, 0.0], chance=[0.5, 0.5], expected=[0.5, 0.5], loss=[1, 0], base=[0.5, 0.5])
    array([1.5, 0.5])
    """
    z, chance, expected = (np.asarray(each, dtype=np.float64) for each in (z, chance, expected))
    if chance.size and not chance.min() > 0:
        raise ValueError(f"a question must have been drawn with a chance above 0; got {chance.min():g}")
    return np.asarray(base, dtype=np.float64) + np.asarray(loss, dtype=np.float64) * (z - expected) / chance


def anytime_interval(
    values: ArrayLike, low: ArrayLike, high: ArrayLike, *, kind: ArrayLike | None = None, confidence: float = 0.95
) -> Interval:
    r"""Estimate a mean in [0, 1] from :math:`m_1, \dots, m_n`, with bounds that hold however n was chosen.

    Two gamblers bet against a mean :math:`\theta`, one that it is larger, one that it is smaller:
    :math:`\prod_t (1 \pm \lambda_t (m_t - \theta))`. If :math:`\theta` is true, neither can expect to win, and by
    Ville's inequality either ever multiplies their stake by :math:`2 / \alpha` with probability :math:`\alpha / 2` at
    most. The interval has all means against which neither has. So it holds at all n at once: one may look after every
    answer, and stop when it is narrow enough. The stakes :math:`\lambda_t` depend on the past alone: a wanted half
    width over the variance that the values before let expect, for three such half widths at once; see Waudby-Smith
    and Ramdas, *Estimating means of bounded random variables by betting* (2024).

    Parameters
    ----------
    values : (n,) in the order in which they came; given the past, each has the mean that is sought.
    low, high : (n,) or numbers: what each could have been at the least and the most, given the past.
    kind : (n,) whole numbers: questions of a kind vary alike, such as random ones, and guided ones.
    confidence : of the interval.

    Returns
    -------
    (estimate, low, high); the estimate weighs each question with its precision as judged from the past.

    Examples
    --------
    >>> values = np.random.default_rng(0).random(2000) < 0.9
    >>> print("{:.2f}, from {:.2f} to {:.2f}".format(*anytime_interval(values, 0, 1)))
    0.90, from 0.88 to 0.92
    """
    m, low, high = _checked(values, low, high)
    if not len(m):
        return Interval(0.5, 0.0, 1.0)
    variance = _variances(m, high - low, np.zeros(len(m), dtype=np.int64) if kind is None else np.asarray(kind))
    stakes, shares = np.array(_MARGINS)[:, None] / variance, np.full(len(_MARGINS), 1.0 / len(_MARGINS))
    estimate = float(np.average(m, weights=1.0 / variance))
    return Interval(estimate, *_bounds(m, m, low, high, stakes, shares, tail_probability(confidence)))


def latest_interval(
    values: ArrayLike, low: ArrayLike, high: ArrayLike, *, expected: ArrayLike = 0.0, confidence: float = 0.95
) -> Interval:
    r"""Estimate what a mean has come to that rises with time, as labels get better; with bounds that hold at all n.

    Windows begin after 0 values, 64, 91, 128, ..., each time :math:`\sqrt 2` times as many. Those count that have the
    last three quarters of the values or less; with fewer than 128, all. Each gambler of :func:`anytime_interval` shares
    out a purse: a part of :math:`8 / ((j + 8)(j + 9))`, j = 0, 1, ..., is bet in window j, with stakes that are best
    once as many values came as had been left behind. What was won in a window that no longer counts is given away. So
    all windows together are one fair game, which multiplies the purse by :math:`2 / \alpha` with probability
    :math:`\alpha / 2` at most. What holds at all n at once: the lower bound is not above the largest mean :math:`\mu_t`
    that a value in these windows had. So it holds for the latest, if the mean did not fall. For the upper bound each
    value is raised by what the mean was expected to gain since, and the second gambler bets against :math:`\theta` with

    .. math:: \prod_t \big(1 + \lambda_t (\theta - m_t - \max(0, c_n - c_t))\big).

    Where the mean rose since no earlier value by more than expected, :math:`\theta = \mu_n` makes each factor at most
    :math:`1 + \lambda_t (\mu_t - m_t)`, a fair bet that depends on no later value. So it holds, however unevenly the
    mean rose.

    Parameters
    ----------
    values, low, high, confidence : as for :func:`anytime_interval`.
    expected : (n,) :math:`c_t`, what the mean was expected to be; only how far it has risen counts.

    Returns
    -------
    (estimate, low, high); the estimate rests on the shortest window that has half of the values or more, but lies
    between the bounds.

    Examples
    --------
    >>> mean = np.repeat([0.6, 0.9], 1000)
    >>> values = np.random.default_rng(0).random(2000) < mean
    >>> print("{:.2f}, from {:.2f} to {:.2f}".format(*anytime_interval(values, 0, 1)))
    0.75, from 0.72 to 0.78
    >>> print("{:.2f}, from {:.2f} to {:.2f}".format(*latest_interval(values, 0, 1, expected=mean)))
    0.85, from 0.85 to 0.93
    """
    m, low, high = _checked(values, low, high)
    n, tail = len(m), tail_probability(confidence)
    if not n:
        return Interval(0.5, 0.0, 1.0)
    believed = np.broadcast_to(np.asarray(expected, dtype=np.float64), m.shape)
    gains = np.maximum(0.0, believed[-1:] - believed)
    starts = [0, *(round(_FIRST * 2 ** (j / 2)) for j in range(2 * n.bit_length()))]
    windows = [(j, s) for j, s in enumerate(starts) if s < n and (4 * s >= n or n < 2 * _FIRST)]
    stakes, shares, estimate = np.zeros((len(windows), n)), np.empty(len(windows)), 0.5
    for row, (j, s) in enumerate(windows):
        variance = _variances(m[s:], (high - low)[s:], np.zeros(n - s, dtype=np.int64))
        shares[row] = _EVENLY / ((j + _EVENLY) * (j + _EVENLY + 1))
        stakes[row, s:] = np.sqrt(-2.0 * math.log(tail * shares[row]) / (variance * max(s, _FIRST)))
        if 2 * s <= n:
            estimate = float(np.average(m[s:], weights=1.0 / variance))
    least, most = _bounds(m, m + gains, low, high, stakes, shares, tail)
    return Interval(min(most, max(least, estimate)), least, most)


def _checked(values: ArrayLike, low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Give values (n,) and their ranges, once no value is outside its own."""
    m = np.asarray(values, dtype=np.float64)
    low, high = (np.broadcast_to(np.asarray(each, dtype=np.float64), m.shape) for each in (low, high))
    if ((m < low - 1e-9) | (m > high + 1e-9)).any():
        t = int(np.flatnonzero((m < low - 1e-9) | (m > high + 1e-9))[0])
        raise ValueError(
            f"each value must lie between `low` and `high`; {m[t]:g} at {t} is not in {low[t]:g} to {high[t]:g}"
        )
    return m, low, high


def _bounds(
    m: Floats, raised: Floats, low: Floats, high: Floats, stakes: Floats, shares: Floats, tail: float
) -> tuple[float, float]:
    """Give the bounds of two gamblers, one against values (n,), one against raised ones.

    They share out their purses over rows of stakes (R, n): of each the part in `shares` (R,), which may leave some.
    """
    limit = -math.log(tail)
    up = np.minimum(stakes, _BOLDEST / np.maximum(1.0 - low, 1e-12))  # for no mean in [0, 1] does a bet lose more
    down = np.minimum(stakes, _BOLDEST / np.maximum(high, 1e-12))
    # What the first has won falls in the mean, what the other has rises: each leaves one side of a point.
    lowest = _crossing(lambda mean: _won(up * (m - mean), shares) - limit)
    highest = 1.0 - _crossing(lambda rest: _won(down * (1.0 - rest - raised), shares) - limit)
    return lowest, highest


def _won(bets: Floats, shares: Floats) -> float:
    """Logarithm of what a purse has become of which each row of bets (R, n) got a share (R,)."""
    left = np.maximum(1.0 + bets, 1e-300)  # who has lost it all owes nothing
    return float(logsumexp(np.log(left).sum(axis=1), b=shares))


def _variances(m: Floats, width: Floats, kind: NDArray[np.int64]) -> Floats:
    """Guess each value's variance from those of its kind before it, (n,); a few of a middling width begin."""
    out = np.empty(len(m))
    for each in np.unique(kind):
        rows = kind == each
        x, turns = m[rows], np.arange(1, int(rows.sum()) + 1)
        mean = (0.5 + np.cumsum(x)) / (turns + 1.0)
        squares = np.concatenate([[0.0], np.cumsum((x - mean) ** 2)[:-1]])
        out[rows] = (0.25 * width[rows] + squares) / turns
    return out


def _crossing(falls: Callable[[float], float]) -> float:
    """Give the point in [0, 1] at which a falling function becomes negative."""
    if falls(0.0) <= 0:
        return 0.0
    if falls(1.0) >= 0:
        return 1.0
    return float(brentq(falls, 0.0, 1.0, xtol=1e-9))
