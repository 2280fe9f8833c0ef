"""Any metric from parts of the data: update, merge, result."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from naysayer.common.checks import check_count
from naysayer.labels.checks import check_n_classes
from naysayer.labels.transition import as_estimated
from naysayer.measure import metrics
from naysayer.measure.intervals import tail_probability
from naysayer.measure.metrics import Bin, Comparison
from naysayer.measure.sample import Sample
from naysayer.measure.tally import Tally, Total

METRICS = (
    *("accuracy_score", "accuracy_interval", "class_prior", "class_prior_interval", "confusion_matrix"),
    *("compare", "risk", "risk_interval", "reliability"),
)


class Accumulator:
    """Estimate a metric from parts of the data, in memory that does not grow with it.

    The result is that of the metric on all parts at once. What it keeps is the number of examples of each label and
    prediction; of :func:`risk` and of how sure a model is, sums.

    Parameters
    ----------
    metric : a function of :mod:`naysayer.metrics`, or its name.
    n_classes : K
    transition : as in :func:`accuracy_score`.
    options : other arguments of the metric, such as `confidence`.

    Examples
    --------
    >>> total = Accumulator("accuracy_interval", n_classes=3)
    >>> for y_bar, y_pred in [([1] * 90, [0] * 90), ([0] * 10, [0] * 10)]:
    ...     total.update(y_bar, y_pred)
    >>> estimate, low, high = total.result()
    >>> print(f"{estimate:.3f}, from {low:.3f} to {high:.3f}")
    0.800, from 0.648 to 0.902
    """

    def __init__(
        self, metric: str | Callable[..., Any], n_classes: int, transition: ArrayLike | None = None, **options: Any
    ) -> None:
        self.metric = metric if isinstance(metric, str) else metric.__name__
        if self.metric not in METRICS:
            raise ValueError(f"`metric` must be one of {', '.join(METRICS)}; got {self.metric!r}")
        self.n_classes, self.transition = check_n_classes(n_classes), transition
        known = inspect.signature(getattr(metrics, self.metric)).parameters
        defaults = {name: known[name].default for name in _OPTIONS if name in known}
        if unknown := sorted(set(options) - set(defaults)):
            raise ValueError(f"{self.metric} must be given {', '.join(defaults) or 'no options'}; got {unknown[0]!r}")
        self.options = defaults | options
        self._tail = tail_probability(self.options.get("confidence", 0.95))
        metrics.check_normalize(self.options.get("normalize"))
        n_bins = check_count(self.options.get("n_bins", 1), "`n_bins`")
        n_predictions = {"class_prior": 0, "class_prior_interval": 0, "compare": 2}.get(self.metric, 1)
        self._tallies = [Tally(n_classes, transition, n_predictions) for _ in range(n_bins)]
        self._totals = [Total() for _ in range(n_bins)]
        self._sums, self._ordinary = np.zeros((self.n_classes, self.n_classes)), 0.0

    def update(self, y_bar: Any, *outputs: Any, sample_weight: Any = None) -> None:
        """Add examples: labels, and what the metric takes beside them (predictions, logits or probabilities).

        Those that say nothing, or weigh nothing, add nothing, also where there are no others.
        """
        if self.metric in ("risk", "risk_interval"):
            told = y_bar, *self._one(outputs), self.options["loss"], self.transition, sample_weight
            sample, values, (sums, ordinary) = metrics.example_risks(*told, is_part=True)
            self._totals[0].update(values, sample.sample_weight)
            self._sums, self._ordinary = self._sums + sums, self._ordinary + ordinary
        elif self.metric == "reliability":
            told = y_bar, *self._one(outputs), len(self._tallies), self.transition, sample_weight
            sample, largest, predicted, bins = metrics.binned(*told, is_part=True)
            for b in np.unique(bins).tolist():
                inside = np.flatnonzero(bins == b)
                weight = None if sample.sample_weight is None else sample.sample_weight[inside]
                self._tallies[b].update(sample.labels[inside], predicted[inside], sample_weight=weight)
                self._totals[b].update(largest[inside], weight)
        else:
            self._tallies[0].update(y_bar, *outputs, sample_weight=sample_weight)

    def _one(self, outputs: tuple[Any, ...]) -> tuple[Any]:
        if len(outputs) != 1:
            raise ValueError(f"{self.metric} takes labels and one array (N, K); got {len(outputs)}")
        if np.ndim(outputs[0]) == 2 and np.shape(outputs[0])[1] != self.n_classes:
            raise ValueError(f"outputs must have n_classes = {self.n_classes} columns; got {np.shape(outputs[0])[1]}")
        return (outputs[0],)

    def merge(self, other: Accumulator) -> None:
        """Add what another accumulator of the same metric has seen, such as one of another process."""
        if (self.metric, self.options) != (other.metric, other.options):
            told = (f"{total.metric} {total.options or ''}".strip() for total in (self, other))
            raise ValueError(f"accumulators must be of one metric and options to be merged; got {' and '.join(told)}")
        for mine, theirs in zip(self._tallies, other._tallies, strict=True):
            mine.merge(theirs)
        for total, more in zip(self._totals, other._totals, strict=True):
            total.merge(more)
        self._sums, self._ordinary = self._sums + other._sums, self._ordinary + other._ordinary

    def result(self) -> Any:
        """Give what the metric would give of all examples so far."""
        if self.metric in ("risk", "risk_interval"):
            return self._risk()
        if self.metric == "reliability":
            return self._reliability()
        sample, predicted = self._tallies[0].sample()
        return _FINISH[self.metric](self, sample, *predicted)

    def _risk(self) -> Any:
        total = self._totals[0]
        if not total.weight > 0:
            raise ValueError("there must be a label that says something; got none so far")
        if self.metric == "risk":
            return total.mean
        q, draws = as_estimated(self.transition), np.empty(0)
        if q is not None:
            draws = ((q.inverses * self._sums).sum(axis=(1, 2)) + self._ordinary) / total.weight
        return metrics.risk_bounds(total, draws, self._tail)

    def _reliability(self) -> Any:
        everything = Tally(self.n_classes, self.transition)
        parts = {}
        for b, (tally, total) in enumerate(zip(self._tallies, self._totals)):
            everything.merge(tally)
            if tally.table:
                sample, (predicted,) = tally.sample()
                parts[b] = Bin(sample, predicted, len(tally), total.mean)
        return metrics.diagram(parts, len(self._tallies), everything.sample()[0].ends(), self._tail)


_OPTIONS = ("confidence", "normalize", "loss", "n_bins")


def _confusion(of: Accumulator, sample: Sample, predicted: Any) -> Any:
    return metrics.normalized(sample.summed(predicted, of.n_classes), of.options["normalize"])


_FINISH: dict[str, Callable[..., Any]] = {
    "accuracy_score": lambda of, sample, predicted: sample.accuracy(predicted),
    "accuracy_interval": lambda of, sample, predicted: sample.accuracy_interval(predicted, of._tail),
    "class_prior": lambda of, sample: sample.class_prior(),
    "class_prior_interval": lambda of, sample: sample.class_prior_interval(of._tail),
    "confusion_matrix": _confusion,
    "compare": lambda of, sample, a, b: Comparison(*sample.difference(a, b, of._tail)),
}
