r"""Scores and intervals from complementary labels alone: no true label is needed, not even to validate.

A label of example i is a row :math:`W_i` of K weights with :math:`E[W_i \mid x_i] = P(Y = \cdot \mid x_i)`
(:func:`naysayer.unbiased_weights`), so every score here is a mean of weights: accuracy of :math:`W_i[\hat y_i]`,
class priors of :math:`W_i`, the risk of :math:`\sum_k W_{ik}\, \ell(k, g(x_i))`. All are unbiased, and so may leave
their range, as an accuracy above 1 does. Rows of a ruled-out matrix that rule out nothing are left out.

Where `n_classes` is None, K is the number of columns of `y_bar`, or the size of `transition`, or one more than the
largest class found. Pass it: if no label names the last class, K and every score come out wrong.

A `transition` that was estimated (:func:`naysayer.transition.estimate`) widens every interval by its own uncertainty.
`sample_weight` (N,) says how much each example counts: an estimate is then the one that rows repeated so often would
give, and an interval that of the population that the weights make up, from as many examples as the weighted ones
are worth (:func:`naysayer.measure.intervals.effective_counts`). An estimate may leave its range; bounds never do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t

from naysayer.common.checks import check_count, to_numpy
from naysayer.labels import transition as transitions
from naysayer.labels.encoding import read_marked
from naysayer.losses import Loss, cross_entropy, get_loss
from naysayer.measure.intervals import Floats, Interval, tail_probability
from naysayer.measure.sample import Sample, read, read_outputs, widest
from naysayer.measure.tally import Total

__all__ = [
    "Comparison",
    "Reliability",
    "accuracy_interval",
    "accuracy_score",
    "accuracy_scorer",
    "class_prior",
    "class_prior_interval",
    "compare",
    "confusion_matrix",
    "make_scorer",
    "reliability",
    "risk",
    "risk_interval",
    "risk_scorer",
]

Scorer = Callable[..., float]


class Comparison(NamedTuple):
    """The difference of two accuracies, its confidence bounds, and the p-value of "there is none"."""

    difference: float
    low: float
    high: float
    p_value: float


class Reliability(NamedTuple):
    """A reliability diagram: B + 1 edges, B of each of the next five (NaN in empty bins), and the calibration error."""

    edges: Floats
    count: NDArray[np.int64]  # type: ignore[assignment]
    confidence: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    error: float


def accuracy_score(
    y_bar: ArrayLike,
    y_pred: ArrayLike,
    n_classes: int | None = None,
    transition: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Estimate the accuracy of predictions from complementary labels, without bias.

    .. math:: \widehat{\text{acc}} = \frac1n \sum_i W_i[\hat y_i]
        \qquad \text{uniform: } 1 - (K-1) \cdot \text{share of predictions that a label contradicts}

    Parameters
    ----------
    y_bar : (N,) classes, each one that its example is not; or (N, K) ruled-out matrix.
    y_pred : (N,) predicted classes.
    n_classes : K
    transition : (K, K) matrix Q of biased or noisy labels; uniform if None.
    sample_weight : (N,) how much each example counts, 0 or more; None: all the same.

    Examples
    --------
    >>> accuracy_score([1, 2, 0, 1], [0, 1, 2, 2], n_classes=3)  # no prediction is contradicted
    1.0
    >>> accuracy_score([1, 2, 0, 2], [0, 1, 2, 2], n_classes=3)  # the last one is
    0.5
    """
    sample, (predicted,) = read(y_bar, n_classes, transition, sample_weight, y_pred=y_pred)
    return sample.accuracy(predicted)


def accuracy_interval(
    y_bar: ArrayLike,
    y_pred: ArrayLike,
    n_classes: int | None = None,
    confidence: float = 0.95,
    transition: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> Interval:
    r"""Estimate the accuracy as :func:`accuracy_score` does, with an interval that holds for few examples too.

    Each bound is Gaffke's for the mean of a bounded variable [1]_ [2]_: with the values :math:`z_i = W_i[\hat y_i]` and
    one more at the end of their range, :math:`z_0 = \min W` or :math:`\max W`, it is a quantile of

    .. math:: \sum_{i=0}^n D_i z_i, \qquad D \sim \text{Dirichlet}(1, \dots, 1).

    With two possible values (one uniform label per example, symmetric noise, ordinary labels) this is the exact
    interval of Clopper and Pearson. With more the quantile comes from Lugannani and Rice's formula [3]_, and the
    coverage is not proven, though no counterexample is known.

    Where Q was estimated, z is drawn too, from what its pairs leave possible
    (:meth:`naysayer.transition.Estimated.draws`), and the quantile is that of both draws; the interval is never
    narrower than for a known Q. If pairs are few, some draws are nearly singular, and the interval is [0, 1].

    Parameters
    ----------
    y_bar, y_pred, n_classes, transition, sample_weight : as in :func:`accuracy_score`.
    confidence : between 0 and 1; each side misses with probability (1 - confidence) / 2 at most.

    Returns
    -------
    (estimate, low, high), three floats. The bounds lie within [0, 1]; where the estimate does not, its interval is
    moved with it to the nearer end.

    References
    ----------
    .. [1] Gaffke (2005), Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
       variable. Mathematical Methods of Statistics 14.
    .. [2] Learned-Miller and Thomas (2019), A new confidence interval for the mean of a bounded random variable.
    .. [3] Lugannani and Rice (1980), Saddle point approximation for the distribution of the sum of independent random
       variables. Advances in Applied Probability 12.

    Examples
    --------
    >>> estimate, low, high = accuracy_interval([1] * 90 + [0] * 10, [0] * 100, n_classes=3)
    >>> print(f"{estimate:.3f}, from {low:.3f} to {high:.3f}")
    0.800, from 0.648 to 0.902
    """
    sample, (predicted,) = read(y_bar, n_classes, transition, sample_weight, y_pred=y_pred)
    return sample.accuracy_interval(predicted, tail_probability(confidence))


def class_prior(
    y_bar: ArrayLike,
    n_classes: int | None = None,
    transition: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    r"""Estimate how common each class is, :math:`\hat\pi_k = \frac1n \sum_i W_{ik}`, without bias.

    Parameters
    ----------
    y_bar, n_classes, transition, sample_weight : as in :func:`accuracy_score`.

    Returns
    -------
    (K,) shares that sum to 1; that of a rare class may come out below 0.

    Examples
    --------
    >>> class_prior([1, 2, 2, 2, 1, 0, 2, 1, 2, 2], n_classes=3).round(3)
    array([ 0.8,  0.4, -0.2])
    """
    sample, _ = read(y_bar, n_classes, transition, sample_weight)
    return sample.class_prior()


def class_prior_interval(
    y_bar: ArrayLike,
    n_classes: int | None = None,
    confidence: float = 0.95,
    transition: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> Interval:
    """Estimate how common each class is, with the bounds of :func:`accuracy_interval` for each class by itself.

    Parameters
    ----------
    y_bar, n_classes, confidence, transition, sample_weight : as in :func:`accuracy_interval`.

    Returns
    -------
    (estimate, low, high), each of shape (K,).

    Examples
    --------
    >>> estimate, low, high = class_prior_interval([1, 2] * 100, n_classes=3)
    >>> estimate, low.round(2), high.round(2)
    (array([1., 0., 0.]), array([0.96, 0.  , 0.  ]), array([1.  , 0.14, 0.14]))
    """
    tail = tail_probability(confidence)
    sample, _ = read(y_bar, n_classes, transition, sample_weight)
    return sample.class_prior_interval(tail)


def confusion_matrix(
    y_bar: ArrayLike,
    y_pred: ArrayLike,
    n_classes: int | None = None,
    transition: ArrayLike | None = None,
    normalize: str | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    r"""Count which true classes got which predictions, :math:`C_{kj} = \sum_i W_{ik} [\hat y_i = j]`, without bias.

    Parameters
    ----------
    y_bar, y_pred, n_classes, transition, sample_weight : as in :func:`accuracy_score`.
    normalize : None for counts that sum to n, the number of examples whose label says something, or to their weights;
        or as in scikit-learn "true" (rows sum to 1; the diagonal is each class's recall), "pred" (columns do; the
        diagonal is the precision) or "all". A row or column whose total is not above 0 becomes zeros.

    Returns
    -------
    (K, K), rows = true class, columns = predicted class. Its trace over n is the accuracy score.

    Examples
    --------
    >>> confusion_matrix([1, 2, 0, 2, 0, 0], [0, 0, 1, 1, 2, 2], n_classes=3)
    array([[ 2.,  0., -2.],
           [ 0.,  2.,  2.],
           [ 0.,  0.,  2.]])
    """
    check_normalize(normalize)
    sample, (predicted,) = read(y_bar, n_classes, transition, sample_weight, y_pred=y_pred)
    return normalized(sample.summed(predicted, sample.n_classes), normalize)


def check_normalize(normalize: str | None) -> None:
    """Check by what a confusion matrix is to be divided."""
    if normalize not in (None, "true", "pred", "all"):
        raise ValueError(f"`normalize` must be None, 'true', 'pred' or 'all'; got {normalize!r}")


def normalized(counts: Floats, normalize: str | None) -> Floats:
    """Normalise a confusion matrix as :func:`confusion_matrix` says."""
    if normalize is None:
        return counts
    total = counts.sum(axis={"true": 1, "pred": 0, "all": None}[normalize], keepdims=True)
    return np.divide(counts, total, out=np.zeros_like(counts), where=total > 1e-9)


def risk(
    y_bar: ArrayLike,
    logits: Any,
    loss: str | Loss = cross_entropy,
    transition: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Estimate the ordinary classification risk, :math:`\frac1n \sum_i \sum_k W_{ik}\, \ell(k, g(x_i))`, without bias.

    Parameters
    ----------
    y_bar, transition, sample_weight : as in :func:`accuracy_score`.
    logits : (N, K) array or tensor of the model's outputs g(x).
    loss : from :mod:`naysayer.losses`, by name, or any callable (..., K) → (..., K).

    Examples
    --------
    >>> risk([1, 2], [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]], loss="zero_one")
    0.0
    >>> round(risk([1, 2], [[4.0, -4.0, 0.0], [0.0, 4.0, -4.0]]), 3)  # as no true risk, the estimate may be negative
    -3.982
    """
    sample, values, _ = example_risks(y_bar, logits, loss, transition, sample_weight)
    return sample.mean(values)


def risk_interval(
    y_bar: ArrayLike,
    logits: Any,
    loss: str | Loss = cross_entropy,
    confidence: float = 0.95,
    transition: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> Interval:
    """Estimate the risk as :func:`risk` does, plus or minus a Student quantile of its standard error.

    A loss need not be bounded, so this interval relies on n being large enough for a normal mean; one example gives
    no bounds at all. Where Q was estimated, the quantiles are those of the risk under draws of Q, each with such an
    error. For an accuracy :func:`accuracy_interval` does better.

    Parameters
    ----------
    y_bar, logits, loss, transition, sample_weight : as in :func:`risk`.
    confidence : between 0 and 1.

    Returns
    -------
    (estimate, low, high)

    Examples
    --------
    >>> risk_interval([1, 2, 0, 1], [[1.0, 0.0, 0.0]] * 4, loss="zero_one")
    Interval(estimate=0.5, low=-1.0912..., high=2.0912...)
    """
    tail = tail_probability(confidence)
    sample, values, sums = example_risks(y_bar, logits, loss, transition, sample_weight)
    total, weight = Total(), sample.sample_weight
    total.update(values, None if weight is None else weight / weight.max())
    return risk_bounds(total, sample.risk_draws(*sums), tail)


def risk_bounds(total: Total, draws: Floats, tail: float) -> Interval:
    """Give the interval of :func:`risk_interval` from the examples' risks in sum, and the risks under draws of Q."""
    number = total.weight**2 / total.squares
    if not number > 1:
        return Interval(total.mean, -np.inf, np.inf)
    error = np.sqrt(total.apart[1] * number / (number - 1)) / total.weight
    half = float(t.ppf(1.0 - tail, number - 1) * error)
    bounds = Interval(total.mean, total.mean - half, total.mean + half)
    if len(draws) > 0:
        around = draws + error * t.rvs(number - 1, size=len(draws), random_state=0)
        bounds = widest(bounds, (around, around), tail)
    return bounds


def reliability(
    y_bar: ArrayLike,
    probabilities: Any,
    n_bins: int = 10,
    transition: ArrayLike | None = None,
    confidence: float = 0.95,
    *,
    sample_weight: ArrayLike | None = None,
) -> Reliability:
    r"""Compare how sure a model is with how often it is right, in bins of its largest probability.

    .. math:: \text{error} = \sum_b \frac{n_b}{n} \left| \text{accuracy}_b - \text{confidence}_b \right|

    This error is biased upward: chance differences count as errors in every bin, the more so the fewer examples a
    bin has and the more classes there are. Use few bins, and look at the intervals.

    Parameters
    ----------
    y_bar, transition, sample_weight : as in :func:`accuracy_score`; with weights, n is their sum and the count is not.
    probabilities : (N, K) array or tensor; rows sum to 1.
    n_bins : B, the number of equally wide bins of [0, 1].
    confidence : of the interval around each bin's accuracy, as in :func:`accuracy_interval`.

    Returns
    -------
    (edges, count, confidence, accuracy, low, high, error); an empty bin holds NaN.

    Examples
    --------
    >>> diagram = reliability([1, 2, 1, 1], [[0.9, 0.1, 0.0]] * 2 + [[0.4, 0.6, 0.0]] * 2, n_bins=2)
    >>> diagram.count, diagram.confidence, diagram.accuracy
    (array([0, 4]), array([ nan, 0.75]), array([nan,  0.]))
    """
    tail = tail_probability(confidence)
    n_bins = check_count(n_bins, "`n_bins`")
    sample, largest, predicted, bins = binned(y_bar, probabilities, n_bins, transition, sample_weight)
    parts: dict[int, Bin] = {}
    for b in np.unique(bins).tolist():
        inside = np.flatnonzero(bins == b)
        some = sample[inside]
        parts[b] = Bin(some, predicted[inside], len(some), some.mean(largest[inside]))
    return diagram(parts, n_bins, sample.ends(), tail)


class Bin(NamedTuple):
    """The examples of one bin of a reliability diagram, and how sure the model is of them on average."""

    sample: Sample
    predicted: NDArray[np.int64]  # type: ignore[assignment]
    count: int  # type: ignore[assignment]
    confidence: float


def binned(
    y_bar: ArrayLike,
    probabilities: Any,
    n_bins: int,
    transition: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    is_part: bool = False,
) -> tuple[Sample, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Give labels, the largest probabilities, the classes that have them, and the bins they fall into."""
    told = y_bar, probabilities, transition, sample_weight
    sample, blocks = read_outputs(*told, name="probabilities", is_part=is_part)
    largest, predicted = np.empty(len(sample)), np.empty(len(sample), dtype=np.int64)
    for rows, part in blocks:
        if bool((part < 0).any()) or float((part.sum(dim=1) - 1.0).abs().max()) > 1e-2:
            raise ValueError("each row of `probabilities` must be a distribution; got others; apply a softmax?")
        largest[rows], predicted[rows] = (values.numpy() for values in part.max(dim=1))
    bins = np.digitize(largest, np.linspace(0.0, 1.0, n_bins + 1)[1:-1], right=True)
    return sample, largest, predicted, bins


def diagram(parts: dict[int, Bin], n_bins: int, ends: tuple[Floats, Floats], tail: float) -> Reliability:
    """Put a reliability diagram together; `ends` are those of all examples' weights."""
    each, count, total = np.full((4, n_bins), np.nan), np.zeros(n_bins, dtype=np.int64), np.zeros(n_bins)
    for b, part in parts.items():
        each[:, b] = part.confidence, *part.sample.accuracy_interval(part.predicted, tail, ends)
        count[b], total[b] = part.count, part.sample.total
    error = float(np.nansum(total / total.sum() * np.abs(each[1] - each[0])))
    return Reliability(np.linspace(0.0, 1.0, n_bins + 1), count, each[0], each[1], each[2], each[3], error)


def compare(
    y_bar: ArrayLike,
    y_pred_a: ArrayLike,
    y_pred_b: ArrayLike,
    n_classes: int | None = None,
    transition: ArrayLike | None = None,
    confidence: float = 0.95,
    *,
    sample_weight: ArrayLike | None = None,
) -> Comparison:
    r"""Estimate by how much model a is more accurate than model b, and whether chance explains it.

    .. math:: \text{difference} = \frac1n \sum_i d_i, \qquad d_i = W_i[a_i] - W_i[b_i]

    Examples on which the models agree cancel, so this tells two models apart long before their intervals do. Bounds and
    p-value are one statement: the bounds are those of :func:`accuracy_interval`, and the p-value is twice the tail at
    which one of them is 0. With uniform labels this is the exact sign test of McNemar.

    Parameters
    ----------
    y_bar, n_classes, transition, sample_weight : as in :func:`accuracy_score`.
    y_pred_a, y_pred_b : (N,) classes predicted by the two models, for the same examples.
    confidence : between 0 and 1.

    Returns
    -------
    (difference, low, high, p_value), four floats. The bounds lie within [-1, 1], and 0 outside of them exactly if the
    p-value is below 1 - confidence.

    Examples
    --------
    >>> result = compare([1, 2, 2, 0, 1, 0] * 5, [0, 0, 1, 1, 2, 2] * 5, [0, 0, 1, 1, 2, 0] * 5, n_classes=3)
    >>> print(f"{result.difference:.3f}, from {result.low:.3f} to {result.high:.3f}, p = {result.p_value:.3f}")
    0.333, from -0.015 to 0.694, p = 0.062
    """
    tail = tail_probability(confidence)
    sample, (a, b) = read(y_bar, n_classes, transition, sample_weight, y_pred_a=y_pred_a, y_pred_b=y_pred_b)
    return Comparison(*sample.difference(a, b, tail))


def accuracy_scorer(estimator: Any, X: Any, y_bar: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Score a fitted classifier by its estimated accuracy, for `scoring=` in scikit-learn.

    Parameters
    ----------
    estimator : anything with `predict` and `classes_`.
    X : what its `predict` takes.
    y_bar : (N,) class values, each one that its example is not; texts such as "!cat", where plain ones say what it is;
        or (N, K) ruled-out matrix, columns as `classes_`.
    sample_weight : (N,) how much each example counts; None: all the same.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="constant", constant="cat").fit([[0]] * 3, ["cat", "dog", "emu"])
    >>> accuracy_scorer(model, [[0]] * 4, ["dog", "emu", "dog", "cat"])
    0.5
    """
    return _score(estimator, X, y_bar, sample_weight, metric="accuracy", transition=None)


def risk_scorer(estimator: Any, X: Any, y_bar: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    """Score a fitted classifier by minus its estimated cross-entropy, for `scoring=` in scikit-learn.

    To choose by accuracy use the other; this one compares probabilities. As in scikit-learn's `log_loss`, a
    probability of 0 counts as the smallest step of its floating type.

    Parameters
    ----------
    estimator : anything with `predict_proba` and `classes_`.
    X, y_bar, sample_weight : as in :func:`accuracy_scorer`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="prior").fit([[0]] * 4, ["cat", "cat", "dog", "emu"])
    >>> round(risk_scorer(model, [[0]] * 4, ["dog", "emu", "dog", "emu"]), 3)  # minus log(1 / 2): all are cats
    -0.693
    """
    return _score(estimator, X, y_bar, sample_weight, metric="risk", transition=None)


def make_scorer(metric: str = "accuracy", transition: ArrayLike | None = None) -> Scorer:
    """Make a scorer for labels that are not uniform: :func:`accuracy_scorer` or :func:`risk_scorer` with Q known.

    Parameters
    ----------
    metric : "accuracy" or "risk".
    transition : (K, K) matrix Q, in the order of the estimator's `classes_`; uniform if None.

    Returns
    -------
    scorer(estimator, X, y_bar, sample_weight=None) → float, the higher the better; it can be pickled and cloned.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="constant", constant=0).fit([[0]] * 3, [0, 1, 2])
    >>> scorer = make_scorer("accuracy", transition=transitions.noisy(3, 0.1))
    >>> round(scorer(model, [[0]] * 4, [1, 2, 1, 0]), 3)
    0.571
    """
    if metric not in ("accuracy", "risk"):
        raise ValueError(f"`metric` must be 'accuracy' or 'risk'; got {metric!r}")
    if transition is not None:
        transitions.inverse(transition)
    return partial(_score, metric=metric, transition=transition)


def _score(
    estimator: Any,
    X: Any,
    y_bar: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    metric: str,
    transition: ArrayLike | None,
) -> float:
    """Score a fitted classifier; class values become indices by its `classes_`."""
    needed = ("classes_", "predict" if metric == "accuracy" else "predict_proba")
    for name in needed:
        if not hasattr(estimator, name):
            raise ValueError(f"`estimator` must be fitted and have {' and '.join(needed)}; it has no {name}")
    classes = to_numpy(estimator.classes_)
    index = {value: k for k, value in enumerate(classes.tolist())}
    marked = read_marked(y_bar, classes)
    labels = to_numpy(y_bar) if marked is None else marked[0]
    if labels.ndim == 1:
        labels = _indices(labels, index, name="y_bar")
    if metric == "accuracy":
        predicted = _indices(to_numpy(estimator.predict(X)), index, name="y_pred")
        return accuracy_score(labels, predicted, len(index), transition, sample_weight=sample_weight)
    p = to_numpy(estimator.predict_proba(X))
    p = np.log(np.maximum(p, np.finfo(p.dtype).eps, dtype=np.float64))
    return -risk(labels, p, transition=transition, sample_weight=sample_weight)


def _indices(values: NDArray[Any], index: dict[Any, int], *, name: str) -> NDArray[np.int64]:
    """Turn class values into class indices."""
    found = np.array([index.get(value, -1) for value in values.tolist()], dtype=np.int64)
    if (found < 0).any():
        i = int(np.argmin(found))
        known = ", ".join(map(repr, list(index)[:8])) + (", ..." if len(index) > 8 else "")
        raise ValueError(
            f"`{name}` must hold the estimator's classes_ ({known}); got {values.tolist()[i]!r} at row {i}; "
            f"fit the estimator on all classes"
        )
    return found


def example_risks(
    y_bar: Any,
    logits: Any,
    loss: str | Loss,
    transition: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    is_part: bool = False,
) -> tuple[Sample, Floats, tuple[Floats, float]]:
    """Weighted losses of the examples, (N,), whose mean is the risk; if Q was estimated, losses summed by label."""
    loss = get_loss(loss)
    sample, blocks = read_outputs(y_bar, logits, transition, sample_weight, name="logits", is_part=is_part)
    each = np.ones(len(sample)) if sample.sample_weight is None else sample.sample_weight
    risks, sums, ordinary = np.empty(len(sample)), np.zeros((sample.n_classes, sample.n_classes)), 0.0
    for rows, part in blocks:
        losses = loss(part).detach()
        if losses.shape != part.shape:
            raise ValueError(
                f"`loss` must map {tuple(part.shape)} logits to the same number of losses; got {tuple(losses.shape)}"
            )
        risks[rows] = (sample.weights(rows) * losses.numpy()).sum(axis=1)
        if sample.estimated is not None:
            singles, named = sample.kinds(rows)
            counted = each[rows, None] * losses.numpy()
            sums, ordinary = sums + singles.T @ counted, ordinary + float((named * counted).sum())
    return sample, risks, (sums, ordinary)
