"""How many labels a trustworthy accuracy takes, and what the labels at hand are good for.

A margin is half the width of the interval around an estimated accuracy, what stands behind the ± of "90% ± 5".
Three kinds of label are compared: ordinary ones, complementary ones, and answers to yes/no questions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

from naysayer.common.checks import check_count
from naysayer.measure.quantiles import beta_quantile

LEAST_MARGIN = 1e-6  # below it the quantiles are not accurate enough


class Plan(NamedTuple):
    """How many labels of each kind are needed."""

    ordinary: int
    complementary: int
    yes_no: int


def labels_needed(n_classes: int, margin: float, accuracy: float = 0.9, confidence: float = 0.95) -> Plan:
    r"""Count the labels that an estimate of the accuracy needs to be known within a margin.

    The smallest n with :func:`margin_reached` at most `margin`: the exact interval's n, which for small margins is
    :math:`z^2 \mathrm{Var} / \text{margin}^2` with the variance of one label's estimate :math:`W[\hat y]` of the
    accuracy p,

    =============================================  ==========================================================
    ordinary, "is c"                               :math:`p (1-p)`
    complementary, "not c", uniform                :math:`(K-1)^2 f (1-f), \quad f = (1-p) / (K-1)`
    yes or no to "is it c?", c uniform of K        :math:`p + (1-p) (K-2) (K-1) / K - p^2`
    =============================================  ==========================================================

    The last: a right prediction always gets 1. A wrong one gets 0 for a yes and :math:`2-K` for a no about the
    predicted class, each with probability 1/K, and 1 otherwise; so its square has mean :math:`(K-2)(K-1)/K`.
    With two classes the three agree.

    Parameters
    ----------
    n_classes : K
    margin : half the width of the interval, from 1e-6 to 0.5; 0.05 is five points.
    accuracy : p, what the model is expected to reach; the closer to 1, the fewer labels.
    confidence : between 0 and 1.

    Returns
    -------
    (ordinary, complementary, yes_no)

    Examples
    --------
    >>> labels_needed(n_classes=10, margin=0.05)
    Plan(ordinary=158, complementary=1565, yes_no=1444)
    >>> labels_needed(n_classes=2, margin=0.05)
    Plan(ordinary=158, complementary=158, yes_no=158)
    """
    n_classes, accuracy, tail = _check(n_classes, accuracy, confidence)
    if not isinstance(margin, Real) or not LEAST_MARGIN <= margin <= 0.5:
        raise ValueError(f"`margin` must be from {LEAST_MARGIN:.0e} to 0.5; got {margin!r}; five points are 0.05")
    return Plan(*(_needed(kind, n_classes, float(margin), accuracy, tail) for kind in Plan._fields))


def margin_reached(
    n_classes: int, n_labels: int, accuracy: float = 0.9, kind: str = "complementary", confidence: float = 0.95
) -> float:
    r"""Say within which margin so many labels will tell the accuracy; the inverse of :func:`labels_needed`.

    It is half the width that :func:`~naysayer.measure.metrics.accuracy_interval` has at the average outcome:
    :math:`n f` of n labels contradict the prediction, each at a cost of h, with :math:`h = 1, f = 1-p` for ordinary
    labels and :math:`h = K-1, f = (1-p)/(K-1)` for complementary ones. Where :math:`f_-` and :math:`f_+` are the bounds
    of Clopper and Pearson for :math:`n f` of n, that interval is

    .. math:: [\,p - h (f_+ - f),\; p + h (f - f_-)\,] \cap [0, 1].

    It never vanishes: with no contradiction at all, :math:`f_+ = 1 - (\alpha/2)^{1/n}`. Answers to yes/no questions
    have two costs, 1 and :math:`K-1`; they are taken as one of :math:`K-1` with the f that has their variance. In
    simulations with margins of up to 0.2 the mean half-width was 0.91 to 1.01 times this.

    Parameters
    ----------
    n_classes, accuracy, confidence : as in :func:`labels_needed`.
    n_labels : n, at least 1.
    kind : "ordinary", "complementary" or "yes_no".

    Examples
    --------
    >>> print(f"{margin_reached(n_classes=10, n_labels=1565):.3f}")
    0.050
    >>> print(f"{margin_reached(n_classes=10, n_labels=100, accuracy=1.0):.3f}")  # no contradiction, and yet
    0.163
    """
    n_classes, accuracy, tail = _check(n_classes, accuracy, confidence)
    n_labels = check_count(n_labels, "`n_labels`")
    if kind not in Plan._fields:
        raise ValueError(f"`kind` must be one of {', '.join(Plan._fields)}; got {kind!r}")
    return _margin(n_labels, *_contradiction(kind, n_classes, accuracy), accuracy, tail)


def labels_to_show(
    n_classes: int,
    accuracy: float,
    least: float,
    *,
    ruled_out: float = 1.0,
    wider: float = 1.0,
    confidence: float = 0.95,
) -> int:
    r"""Count the uniform labels from which on the interval of an accuracy lies above `least`.

    The smallest n at whose average outcome (:func:`margin_reached`) the lower bound is above `least`,
    :math:`p - \text{wider} \cdot h (f_+ - f) > \text{least}`, with :math:`h = (K-1)/s` for labels that rule out s
    classes. Only this side of the interval counts: near 100 % the
    other one is far shorter, and half the width would promise too much.

    Parameters
    ----------
    n_classes, accuracy, confidence : as in :func:`labels_needed`.
    least : what is to lie below the interval, such as the accuracy of guessing; smaller than `accuracy`.
    ruled_out : s, by each label; K - 1 for ordinary ones. Where labels differ, the harmonic mean.
    wider : how many times as far from the estimate the bound is as that of labels kept apart.

    Examples
    --------
    >>> labels_to_show(2, 0.95, 0.5)
    7
    >>> labels_to_show(10, 0.55, 0.1), labels_to_show(10, 0.55, 0.1, ruled_out=9)  # complementary, ordinary
    (142, 5)
    """
    n_classes, accuracy, tail = _check(n_classes, accuracy, confidence)
    if not 0 <= least < accuracy:
        raise ValueError(f"`least` must be from 0 to less than the accuracy; got {least!r} and {accuracy!r}")
    if not 1 <= ruled_out <= n_classes - 1:
        raise ValueError(f"`ruled_out` must be from 1 to {n_classes - 1} of {n_classes} classes; got {ruled_out!r}")
    cost = (n_classes - 1) / ruled_out
    share = (1.0 - accuracy) / cost
    return _smallest(lambda n: wider * cost * (_most(n * share, n * (1.0 - share), tail) - share), accuracy - least)


def _check(n_classes: int, accuracy: float, confidence: float) -> tuple[int, float, float]:
    """Check what both functions take; give K, p and the probability to miss on each side."""
    n_classes = check_count(n_classes, "`n_classes`", least=2)
    if not isinstance(accuracy, Real) or not 0 <= accuracy <= 1:
        raise ValueError(f"`accuracy` must be from 0 to 1; got {accuracy!r}; ninety percent is 0.9")
    if not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1, as 0.95 does; got {confidence!r}")
    return n_classes, float(accuracy), (1.0 - float(confidence)) / 2.0


def _contradiction(kind: str, n_classes: int, accuracy: float) -> tuple[float, float]:
    """What a label that contradicts a prediction costs, h, and how often one does, f; h² f (1 - f) is the variance."""
    wrong = 1.0 - accuracy
    if kind == "ordinary":
        return 1.0, wrong
    cost = n_classes - 1.0
    if kind == "complementary" or n_classes == 2:
        return cost, wrong / cost
    variance = wrong * (accuracy + (n_classes - 2) * (n_classes - 1) / n_classes)
    product = variance / cost**2  # f (1 - f)
    return cost, 2.0 * product / (1.0 + math.sqrt(1.0 - 4.0 * product))


def _margin(n: int, cost: float, share: float, accuracy: float, tail: float) -> float:
    """Half the width of the interval around the accuracy when a share of n labels contradicts."""
    more = _most(n * share, n * (1.0 - share), tail) - share
    less = _most(n * (1.0 - share), n * share, tail) - (1.0 - share)
    return (min(1.0, accuracy + cost * less) - max(0.0, accuracy - cost * more)) / 2.0


def _most(hits: float, misses: float, tail: float) -> float:
    """Clopper and Pearson's upper bound of the share of hits."""
    return beta_quantile(tail, hits + 1.0, misses) if misses > 0 else 1.0


def _needed(kind: str, n_classes: int, margin: float, accuracy: float, tail: float) -> int:
    """The smallest n whose margin is small enough."""
    contradiction = _contradiction(kind, n_classes, accuracy)
    return _smallest(lambda n: _margin(n, *contradiction, accuracy, tail), margin)


def _smallest(distance: Callable[[int], float], aim: float) -> int:
    """The smallest n with a distance of at most `aim`; a distance is nearly proportional to the root of 1/n."""
    too_few, enough, n = 0, math.inf, 1000
    for attempt in itertools.count():
        reached = distance(n)
        too_few, enough = (n, enough) if reached > aim else (too_few, n)
        if enough == too_few + 1:
            break
        if attempt < 10:
            n = round(n * (reached / aim) ** 2)
        else:  # far from proportional: halve what is left
            n = 2 * n if enough == math.inf else (too_few + int(enough)) // 2
        n = int(min(max(n, too_few + 1), enough - 1))
    return int(enough)
