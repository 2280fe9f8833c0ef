r"""How good predictions are, and how common each class is: unbiased estimates from answers that may be wrong.

"Is it c?" is answered yes or no, and wrong with probability e either way. In every estimate an answer counts as

.. math:: z = \frac{[\text{yes}] - e}{1 - 2e}, \qquad E[z \mid \text{class } y, \text{asked about } c] = [y = c].

The questions about an item depend on the answers before: what was ruled out is not asked again, and after a yes the
item is done. Let :math:`q_k` be the probability that a class k is asked about *if it is the true one*. Then

.. math:: W_{ik} = z_{ik} / q_k \text{ where k was asked about, else } 0; \qquad E[W_{ik} \mid y_i] = [y_i = k],

for if k is not the true class, z has mean 0 whenever it is asked about, and how often that is does not matter. If k is
the true class, all other questions get no with probability 1 - e, whichever they are, so :math:`q_k` is known. The
means of W are unbiased for every way of asking and every e, as those of :func:`naysayer.unbiased_weights` are for
uniform labels without errors (:mod:`naysayer.measure.design`).

What is assumed: yes and no are wrong equally often, and independently at each question (an item that misleads everybody
does so twice); and "can't tell" does not depend on the class.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysayer.measure.answer_errors import error_rates
from naysayer.measure.answers import Answers
from naysayer.measure.design import LARGEST_ERROR, Design, check_rate
from naysayer.measure.intervals import Interval, tail_probability, within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def accuracy(
    answers: Answers, predicted: ArrayLike, *, error_rate: float | None = None, confidence: float = 0.95
) -> Interval:
    r"""Estimate the accuracy of predictions from answers to other questions than they were learned from, without bias.

    The mean of :math:`W_{i\hat y_i}` (see the module), with Gaffke's bounds as in
    :func:`naysayer.measure.metrics.accuracy_interval`; they are widened by what another error rate within its own
    interval would change.

    Parameters
    ----------
    answers : the answers.
    predicted : (N,) classes of `answers.items`; -1 leaves an item out, as one that was learned from must be. What is
        left out must not depend on the answers: leave out no item because nobody could tell, or people disagreed.
    error_rate : e, if it is known; None estimates it from the repeated questions.
    confidence : of the interval.

    Returns
    -------
    (estimate, low, high); the estimate may leave [0, 1].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.integers(3, size=(2, 600))
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog", "emu"))
    >>> predicted = np.where(np.arange(600) < 480, y, (y + 1) % 3)  # 80% are right
    >>> print("{:.2f}, from {:.2f} to {:.2f}".format(*accuracy(said, predicted, error_rate=0.0)))
    0.79, from 0.75 to 0.83
    """
    predicted = np.asarray(predicted)
    n, n_classes = len(answers.items), answers.n_classes
    if predicted.shape != (n,) or (n and not (predicted.min() >= -1 and predicted.max() < n_classes)):
        raise ValueError(
            f"`predicted` must be {n} classes from 0 to {n_classes - 1}, or -1, one per item; "
            f"got shape {predicted.shape}"
        )
    if answers.drawn_from is not None:
        counts = np.bincount(answers.since[predicted >= 0], minlength=n_classes + 1)
        n_then = int(counts[1:].argmax()) + 1
        if counts[n_then] > counts[n_classes]:
            return _accuracy_then(answers, n_then, predicted, error_rate, confidence)
    design = answers.about(predicted >= 0).design  # items left out may have been asked about more often, or less
    used = np.flatnonzero(design.told)
    if len(used) < 2:
        raise ValueError(f"an accuracy must rest on at least 2 items with answers; got {len(used)}; collect more")
    (found,) = _estimates(answers, design, used, predicted[used][None], error_rate, confidence)
    return found


def _accuracy_then(
    answers: Answers, n_classes: int, predicted: NDArray[Any], error_rate: float | None, confidence: float
) -> Interval:
    """Estimate an accuracy from items that were asked about before classes were added, when there were `n_classes`.

    What was said then is right about these classes, whatever the others are. Predictions of a later class count as
    wrong in the estimate and the lower bound, and as right in the upper one: nothing is known of them.
    """
    then = answers.since == n_classes
    share = float((predicted[then & (predicted >= 0)] < n_classes).mean())
    if not share:
        return Interval(0.0, 0.0, 1.0)
    known = np.where(then & (predicted < n_classes), predicted, -1)
    found = accuracy(answers.of_time(n_classes), known, error_rate=error_rate, confidence=confidence)
    return Interval(share * found.estimate, share * found.low, share * found.high + 1.0 - share)


def class_priors(answers: Answers, *, error_rate: float | None = None, confidence: float = 0.95) -> Interval:
    """Estimate how common each class is among the items, with an interval for each class by itself.

    Parameters
    ----------
    answers, error_rate, confidence : as in :func:`accuracy`.

    Returns
    -------
    (estimate, low, high), each of shape (K,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.choice(2, p=[0.3, 0.7], size=600), rng.integers(2, size=600)
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog"))
    >>> class_priors(said, error_rate=0.0).estimate.round(2)
    array([0.27, 0.73])
    """
    design = answers.design
    used = np.flatnonzero(design.told)
    if len(used) < 2:
        raise ValueError(f"class priors must rest on at least 2 items with answers; got {len(used)}; collect more")
    each_class = np.repeat(np.arange(answers.n_classes)[:, None], len(used), axis=1)
    return Interval(*np.transpose(_estimates(answers, design, used, each_class, error_rate, confidence)))


def item_weights(answers: Answers, *, error_rate: float | None = None) -> tuple[Ints, Floats]:
    r"""Give the items with answers (n,), and their rows of weights (n, K) with :math:`E[W_{ik}] = P(y_i = k)`.

    These are what :func:`accuracy` and :func:`class_priors` are means of, one column at a time, so that all that is
    made of such rows can be made of answers: a confusion matrix is their sums over items predicted alike.

    Parameters
    ----------
    answers, error_rate : as in :func:`accuracy`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.integers(3, size=(2, 600))
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog", "emu"))
    >>> items, weights = item_weights(said, error_rate=0.0)
    >>> np.allclose(weights.mean(axis=0), class_priors(said, error_rate=0.0).estimate)
    True
    """
    design = answers.design
    used = np.flatnonzero(design.told)
    if error_rate is None:
        rates = np.array([each.estimate for each in error_rates(answers).by_annotator])
    else:
        rates = np.full(len(answers.annotators), check_rate(error_rate))
    weighted = design.weighted(rates)
    columns = [weighted.values(used, np.full(len(used), k))[0] for k in range(answers.n_classes)]
    return used, np.stack(columns, axis=1)


def _estimates(
    answers: Answers, design: Design, items: Ints, classes: Ints, error_rate: float | None, confidence: float
) -> list[Interval]:
    """Estimate, for each row of classes (R, n), how many of n items are of the class given for each.

    The uncertainty of the annotators' error rates is joined, in quadrature, to that of the mean.
    """
    tail = tail_probability(confidence)
    if error_rate is not None:
        rates = np.full(len(answers.annotators), check_rate(error_rate))
        shifts = np.zeros(2)
    else:
        measured = error_rates(answers, confidence)
        rates = np.array([each.estimate for each in measured.by_annotator])
        shifts = np.array([measured.overall.low, measured.overall.high]) - measured.overall.estimate
    weighted, *shifted = (
        design.weighted(np.clip(rates + shift, 0.0, LARGEST_ERROR)) for shift in (0.0, *shifts[shifts != 0])
    )
    found = []
    for row in classes:
        estimate, low, high = weighted.interval(items, row, tail)
        others = [estimate, *(other.values(items, row)[0].mean() for other in shifted)]
        low = estimate - math.hypot(max(0.0, estimate - low), estimate - min(others))
        high = estimate + math.hypot(max(0.0, high - estimate), max(others) - estimate)
        found.append(within(estimate, low, high))
    return found
