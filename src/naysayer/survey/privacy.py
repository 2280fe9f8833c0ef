r"""What each way of asking a private question gives away, and how many people it takes.

What the page stores for a private question is drawn on the respondent's own device: a set of d of the K options, the
true one in it with probability t, and all sets with it, and all without it, equally likely. Hence another option is in
it with probability :math:`o = (d - t) / (K - 1)`. Four modes differ only in d, in t, and in how the set reads:

=====================  ======  ==================================  ===================  ==========================
mode                   d       t                                   stored as            gives away
=====================  ======  ==================================  ===================  ==========================
complementary          1       0                                   "not c"              δ = 1 / (K - 1) at every ε
calibrated             1       1 / (1 + (K - 1) exp(ε))            "not c"              ε, with δ = 0
randomised_response    1       exp(ε) / (exp(ε) + K - 1)           "drawn c"            ε, with δ = 0
subset                 chosen  d exp(ε) / (d exp(ε) + K - d)       "drawn c, c', ..."   ε, with δ = 0
=====================  ======  ==================================  ===================  ==========================

What is not in a calibrated "not c" is a subset of K - 1 options, and randomised response one of 1. Whatever the mode, a
respondent adds :math:`([k \in S] - o) / (t - o)` to the estimate of option k, and all estimates are means of these.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import beta

from naysayer.measure.intervals import tail_probability

MODES = ("complementary", "calibrated", "randomised_response", "subset")


class DeviceDraw(NamedTuple):
    """How a device draws: d options, the true one among them with probability t, any other with probability o."""

    size: int
    truth: float
    other: float


def draw_of(mode: str | None, n_options: int, epsilon: float | None = None) -> DeviceDraw:
    """Give d, t and o of a mode; None stores the truth itself.

    Examples
    --------
    >>> draw_of("subset", 20, 1.0)
    DeviceDraw(size=5, truth=0.475..., other=0.238...)
    >>> draw_of("complementary", 5)
    DeviceDraw(size=1, truth=0.0, other=0.25)
    """
    truth = 1.0 if mode is None else truth_probability(mode, n_options, epsilon)
    size = subset_size(n_options, epsilon) if mode == "subset" and epsilon is not None else 1
    return DeviceDraw(size, truth, (size - truth) / (n_options - 1))


def subset_size(n_options: int, epsilon: float) -> int:
    r"""Give the number d of options that the mode subset stores: with it the fewest people are needed.

    .. math:: d = \arg\min_{0 < d < K} \frac{(d e^\varepsilon + K - d)^2}{d\, (K - d)},

    one of the two whole numbers beside :math:`K / (e^\varepsilon + 1)`, and at least 1: the least summed squared error
    of all shares where all options are equally common [1]_ [2]_.

    References
    ----------
    .. [1] Ye and Barg (2018), Optimal schemes for discrete distribution estimation under locally differential privacy.
       IEEE Transactions on Information Theory 64.
    .. [2] Wang, Huang, Nie, Wang, Xu, Deng, Wang and Lv (2016), Mutual information optimally local private discrete
       distribution estimation. arXiv:1607.08025.

    Examples
    --------
    >>> [subset_size(20, epsilon) for epsilon in (0.1, 1.0, 2.0, 4.0)]
    [10, 5, 2, 1]
    """
    ratio = math.exp(epsilon)
    return min(range(1, n_options), key=lambda d: (d * ratio + n_options - d) ** 2 / (d * (n_options - d)))


def truth_probability(mode: str, n_options: int, epsilon: float | None = None) -> float:
    r"""Give the probability t that the true option is among those stored.

    .. math:: \text{calibrated: } q = \frac{1}{1 + (K-1) e^\varepsilon}, \quad
        \varepsilon = \ln \frac{1-q}{(K-1)\, q}; \qquad
        \text{randomised response: } p = \frac{e^\varepsilon}{e^\varepsilon + K - 1}; \qquad
        \text{subset: } p = \frac{d e^\varepsilon}{d e^\varepsilon + K - d}

    All follow from asking that what is stored be likelier under one true answer than under another by a factor of
    :math:`e^\varepsilon` at the most, and of exactly that. With K = 2 they are one: "not a" is "b".

    Examples
    --------
    >>> [round(truth_probability(mode, 5, 1.0), 4) for mode in MODES]
    [0.0, 0.0842, 0.4046, 0.4046]
    >>> round(truth_probability("subset", 20, 1.0), 4), subset_size(20, 1.0)
    (0.4754, 5)
    """
    if mode not in MODES:
        raise ValueError(f"`mode` must be one of {', '.join(MODES)}; got {mode!r}")
    if mode == "complementary":
        return 0.0
    if epsilon is None or not epsilon > 0:
        raise ValueError(f"`epsilon` must be above 0 in the mode {mode}; got {epsilon!r}")
    if mode == "calibrated":
        return 1.0 / (1.0 + (n_options - 1) * math.exp(epsilon))
    size = subset_size(n_options, epsilon) if mode == "subset" else 1
    return 1.0 / (1.0 + (n_options / size - 1) * math.exp(-epsilon))


def privacy_loss(transition: ArrayLike) -> float:
    r"""Give the ε of a matrix of what is stored: the largest :math:`\ln (Q_{yc} / Q_{zc})`, infinite with zeros in Q.

    Examples
    --------
    >>> from naysayer.survey.questions import Option, SurveyQuestion
    >>> options = tuple(Option(name, name) for name in "abcde")
    >>> round(privacy_loss(SurveyQuestion("q", "Which?", options, "subset", 0.2).transition), 9)
    0.2
    >>> privacy_loss(SurveyQuestion("q", "Which?", options, "complementary").transition)
    inf
    """
    q = _check_rows(transition)
    with np.errstate(divide="ignore"):
        log = np.log(q[:, (q > 0).any(axis=0)])  # what is never stored tells nothing
    return float((log.max(axis=0) - log.min(axis=0)).max())


def privacy_failure(transition: ArrayLike, epsilon: float) -> float:
    r"""Give the least δ with which a matrix of what is stored is (ε, δ)-differentially private.

    .. math:: \delta(\varepsilon) = \max_{y, z} \sum_c \max(0,\, Q_{yc} - e^\varepsilon Q_{zc})

    The maximum over sets of outcomes, of which the set where the difference is positive is the worst. For a
    complementary label only the option z adds to it, as it is never stored for z: :math:`\delta = 1/(K-1)` at every ε.

    Examples
    --------
    >>> from naysayer.survey.questions import Option, SurveyQuestion
    >>> options = tuple(Option(name, name) for name in "abcde")
    >>> q = SurveyQuestion("q", "Which?", options, "complementary").transition
    >>> [privacy_failure(q, epsilon) for epsilon in (0.0, 1.0, 10.0)]
    [0.25, 0.25, 0.25]
    """
    q = _check_rows(transition)
    return float(np.maximum(0.0, q[:, None, :] - math.exp(epsilon) * q[None, :, :]).sum(axis=2).max())


def _check_rows(transition: ArrayLike) -> NDArray[np.float64]:
    """Check that each row is a distribution over what is stored; sets of options make more columns than rows."""
    q = np.asarray(transition, dtype=np.float64)
    if q.ndim != 2 or not (q >= 0).all() or np.abs(q.sum(axis=1) - 1).max() > 1e-6:
        raise ValueError("`transition` must have a row of probabilities for each true option, each with the sum 1")
    return q


def equal_epsilon(n_options: int, share: float = 0.2) -> float:
    r"""Give the ε at which randomised response tells a share as well as a complementary label does.

    Where the variances of one respondent's estimate (:func:`respondents_needed`) are the same,

    .. math:: \frac{\lambda (1 - \lambda)}{(t - o)^2} = (K-1)^2\, \bar\lambda (1 - \bar\lambda), \qquad
        \bar\lambda = \frac{1 - \pi}{K - 1}.

    With that ε, usually near 1, the same number of people is needed, and no answer is ruled out.

    Examples
    --------
    >>> [round(equal_epsilon(n_options), 2) for n_options in (3, 5, 10, 50)]
    [1.25, 0.98, 0.88, 0.82]
    >>> respondents_needed("complementary", 5, None, 0.05), respondents_needed("randomised_response", 5, 0.98, 0.05)
    (4012, 4020)
    """
    if n_options < 3:
        raise ValueError(f"`n_options` must be at least 3, as for a complementary label; got {n_options}")

    def log_variance(truth: float) -> float:
        other = (1 - truth) / (n_options - 1)
        stored = other + share * (truth - other)
        return math.log(stored * (1 - stored)) - 2 * math.log(abs(truth - other))

    goal = log_variance(0.0)
    return float(
        brentq(lambda e: log_variance(truth_probability("randomised_response", n_options, e)) - goal, 1e-3, 20.0)
    )


def options_left(n_options: int, n_surveys: int) -> tuple[float, float]:
    r"""Say what several complementary labels of one unchanged answer leave: how many options, and the risk of only one.

    .. math:: E = 1 + (K-1) \left(1 - \tfrac{1}{K-1}\right)^m, \qquad
        P(\text{one left}) = \sum_{j=0}^{K-1} (-1)^j \binom{K-1}{j} \left(1 - \tfrac{j}{K-1}\right)^m

    Every label rules out one of the K - 1 others at random: the coupon collector's problem.

    Examples
    --------
    >>> options_left(3, 2)  # two labels: the same option twice, or both others
    (1.5, 0.5)
    """
    others = n_options - 1
    expected = 1.0 + others * (1.0 - 1.0 / others) ** n_surveys
    if n_surveys < others:
        return expected, 0.0
    # Whole numbers until the last step: the terms are far larger than their sum.
    ways = sum((-1) ** j * math.comb(others, j) * (others - j) ** n_surveys for j in range(others + 1))
    return expected, ways / others**n_surveys


@cache  # the same for all questions with so many options, and a search
def respondents_needed(
    mode: str | None, n_options: int, epsilon: float | None, margin: float, share: float = 0.2, confidence: float = 0.95
) -> int:
    r"""Count the respondents who make the interval around one option's share as narrow as ± `margin`.

    A respondent's estimate of the share π is :math:`([k \in S] - o) / (t - o)` with :math:`o = (d-t)/(K-1)`, so

    .. math:: n \approx \frac{z^2 \lambda (1 - \lambda)}{(t - o)^2\, \text{margin}^2}, \qquad \lambda = o + \pi (t - o);

    counted here by the exact interval at the average outcome, as :func:`naysayer.measure.planning.labels_needed` does,
    but not cut off at 0 and 1: near those the interval is narrower than planned. At one ε randomised response needs
    fewer than the calibrated mode, since :math:`|t - o|` is :math:`(e^\varepsilon - 1) / (e^\varepsilon + K - 1)`
    for it and :math:`(e^\varepsilon - 1) / (1 + (K-1) e^\varepsilon)` for the other. A subset of the right size needs
    the fewest (:func:`subset_size`).

    Parameters
    ----------
    mode : one of the modes, or None for a public question.
    n_options, epsilon : K and ε.
    margin : half the width of the interval, from 0.001 to 0.5.
    share : what the option's share is expected to be.
    confidence : between 0 and 1.

    Examples
    --------
    >>> [respondents_needed(mode, 10, 1.0, margin=0.05) for mode in (None, *MODES)]
    [264, 10260, 28832, 7391, 4901]
    """
    if not 0.001 <= margin <= 0.5:
        raise ValueError(f"`margin` must be from 0.001 to 0.5; got {margin!r}; five points are 0.05")
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be from 0 to 1; got {share!r}")
    tail = tail_probability(confidence)
    draw = draw_of(mode, n_options, epsilon)
    slope = draw.truth - draw.other
    stored = draw.other + share * slope  # how often the option is stored

    def half_width(n: int) -> float:
        low = beta.ppf(tail, n * stored, n * (1 - stored) + 1) if stored > 0 else 0.0
        high = beta.ppf(1 - tail, n * stored + 1, n * (1 - stored)) if stored < 1 else 1.0
        return float(high - low) / abs(2 * slope)

    too_few, enough = 0, 1
    while half_width(enough) > margin:
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (middle, enough) if half_width(middle) > margin else (too_few, middle)
    return enough
