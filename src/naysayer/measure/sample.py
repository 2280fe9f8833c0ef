"""Labels that were checked, and their weights W with E[W | x] = P(class | x): what every metric sums up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from naysayer.common.checks import to_numpy
from naysayer.labels import transition as transitions
from naysayer.labels.checks import check_classes, check_labels, check_transition, check_weight
from naysayer.labels.kinds import is_ordinary
from naysayer.labels.weights import label_weights, one_hot, split_kinds, spread, weights_at
from naysayer.measure.intervals import Floats, Interval, effective_counts, mean_bounds, tail_at_zero, within

_BLOCK = 1 << 18  # weights or losses held at a time
_COLUMNS = 1 << 24  # weights held at a time where they are wanted class by class


@dataclass(frozen=True)
class Sample:
    """Labels that each say something, with their weights W in float64; (N,) labels never make an (N, K) array.

    Nothing here checks the labels: that is done once, by whoever makes a sample (:func:`read`, or an estimator).

    Parameters
    ----------
    labels : (N,) classes or (N, K) ruled-out matrix.
    n_classes : K
    inverse : (K, K) Q⁻¹; None for uniform labels.
    sample_weight : (N,) how much each example counts, above 0; None: all the same.
    estimated : Q where it was estimated, so that its uncertainty widens every interval.
    """

    labels: NDArray[Any]
    n_classes: int
    inverse: Floats | None
    sample_weight: Floats | None = None
    estimated: transitions.Estimated | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def size(self) -> NDArray[np.int64]:
        """How many classes each label rules out, (N,)."""
        return np.ones(len(self), dtype=np.int64) if self.labels.ndim == 1 else self.labels.sum(axis=1)

    def blocks(self) -> Iterator[slice]:
        """Ranges of examples, each so short that K numbers per example take little memory."""
        size = max(1, _BLOCK // self.n_classes)
        return (slice(start, start + size) for start in range(0, len(self), size))

    def weights(self, rows: slice) -> Floats:
        """Rows W_i of some examples, (B, K)."""
        labels, inverse = self._tensors
        return np.asarray(label_weights(labels[rows], self.n_classes, inverse, torch.float64).numpy())

    def at(self, classes: NDArray[np.int64]) -> Floats:
        """W_i[k_i] for one class k_i per example, (N,)."""
        labels, inverse = self._tensors
        ranges = [slice(None)] if labels.dim() == 1 else self.blocks()
        chosen = torch.tensor(classes)
        parts = [weights_at(labels[r], chosen[r], self.n_classes, inverse, torch.float64) for r in ranges]
        return np.asarray(torch.cat(parts).numpy())

    def columns(self) -> Iterator[Floats]:
        """W_k of all examples, (N,), for one class k after the other."""
        some = max(1, _COLUMNS // len(self))
        for k in range(0, self.n_classes, some):
            yield from np.concatenate([self.weights(rows)[:, k : k + some] for rows in self.blocks()]).T

    def summed(self, groups: NDArray[np.int64], n_groups: int) -> Floats:
        """Sums of W_i over the examples of each group, (K, G); of its multiple where examples have weights."""
        if self.labels.ndim == 1:
            codes = groups * self.n_classes + self.labels
            counts = np.bincount(codes, weights=self.sample_weight, minlength=n_groups * self.n_classes)
            counts = counts.reshape(n_groups, self.n_classes).astype(np.float64)
            return np.asarray(spread(torch.from_numpy(counts), self._tensors[1]).numpy().T)
        total = np.zeros((self.n_classes, n_groups))
        each = np.ones(len(self)) if self.sample_weight is None else self.sample_weight
        for rows in self.blocks():
            total += self.weights(rows).T @ (each[rows, None] * (groups[rows, None] == np.arange(n_groups)))
        return total

    def mean(self, values: Floats) -> float:
        """Mean of one value per example, by the examples' weights."""
        return float(np.average(values, weights=self.sample_weight))

    @property
    def total(self) -> float:
        """The sum of the examples' weights."""
        return float(len(self)) if self.sample_weight is None else float(self.sample_weight.sum())

    def __getitem__(self, rows: NDArray[Any]) -> Sample:
        """Take some of the examples."""
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return replace(self, labels=self.labels[rows], sample_weight=weight)

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest weight that each class can get from labels of the kinds present, (K,) each."""
        if self.inverse is None:
            fewest = int(self.size.argmin())  # the fewer classes a label rules out, the lower their weights
            least = self.weights(slice(fewest, fewest + 1)).min()
            return np.full(self.n_classes, least), np.ones(self.n_classes)
        low, high = self.inverse.min(axis=0), self.inverse.max(axis=0)
        ordinary = is_ordinary(self.size, self.n_classes, known_transition=True)
        if ordinary.all():
            return np.zeros(self.n_classes), np.ones(self.n_classes)
        return (np.minimum(low, 0.0), np.maximum(high, 1.0)) if ordinary.any() else (low, high)

    def accuracy(self, predicted: NDArray[np.int64]) -> float:
        """Estimate the accuracy of predictions (N,), as :func:`naysayer.metrics.accuracy_score` says."""
        return self.mean(self.at(predicted))

    def accuracy_interval(
        self, predicted: NDArray[np.int64], tail: float, ends: tuple[Floats, Floats] | None = None
    ) -> Interval:
        """Estimate the accuracy of predictions (N,), as :func:`naysayer.metrics.accuracy_interval` says.

        `ends` are those of a larger sample that this one is a part of.
        """
        return within(*self.accuracy_bounds(predicted, tail, ends))

    def accuracy_bounds(
        self,
        predicted: NDArray[np.int64],
        tail: float,
        ends: tuple[Floats, Floats] | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> Interval:
        """Estimate the accuracy of predictions (N,) with bounds that may lie outside [0, 1].

        Labels of one of the `groups` (N,) are about one example: they are right, or wrong, together.
        """
        low, high = self.ends() if ends is None else ends
        bounds = mean_bounds(self.at(predicted), low.min(), high.max(), tail, **self._counts())
        if self.estimated is not None:
            bounds = widest(bounds, self._mean_draws(predicted), tail)
        if groups is None:
            return bounds
        # No labels say more of some examples than their classes would, however many of them are all right.
        n_examples, repeats = self.together(predicted, groups)
        estimate, right = bounds.estimate, min(1.0, max(0.0, bounds.estimate))
        known = mean_bounds(np.array([0.0, 1.0]), 0, 1, tail, counts=n_examples * np.array([1 - right, right]))
        below = max(math.sqrt(repeats) * (estimate - bounds.low), right - known.low)
        above = max(math.sqrt(repeats) * (bounds.high - estimate), known.high - right)
        return Interval(estimate, estimate - below, estimate + above)

    def together(self, predicted: NDArray[np.int64], groups: NDArray[np.int64]) -> tuple[float, float]:
        """Say how many examples of one weight the `groups` (N,) are worth, and how many times what it would be without
        them the variance of the estimated accuracy is.
        """
        values, of = self.at(predicted), np.unique(groups, return_inverse=True)[1]
        weight = np.ones(len(self)) if self.sample_weight is None else self.sample_weight
        off = weight * (values - self.mean(values))
        number = float(self.total**2 / np.square(np.bincount(of, weight)).sum())
        ratio = float(np.square(np.bincount(of, off)).sum() / max(np.square(off).sum(), 1e-12))
        return number, max(1.0, ratio * number / max(number - 1.0, 0.5))

    def difference(
        self, first: NDArray[np.int64], second: NDArray[np.int64], tail: float
    ) -> tuple[float, float, float, float]:
        """Compare two predictions (N,): difference, bounds, p-value, as :func:`naysayer.metrics.compare` says."""
        values, counts = self.at(first) - self.at(second), self._counts()
        end = self._widest_row()
        bounds = mean_bounds(values, -end, end, tail, **counts)
        number = effective_counts(values, **counts) if counts else np.ones(len(values))
        tails = [tail_at_zero(sign * values, number, -end) for sign in (1, -1)]
        if self.estimated is not None:
            lows, highs = self._mean_draws(first, second)
            bounds = widest(bounds, (lows, highs), tail)
            shares = ((lows <= 0).sum() + 1) / (len(lows) + 1), ((highs >= 0).sum() + 1) / (len(highs) + 1)
            tails = [max(*both) for both in zip(tails, shares)]
        # An impossible estimate and the bounds on its side of 0 shrink together: cut off, all could be 1, and moved, a
        # bound could pass 0 against the p-value.
        beyond = max(1.0, abs(bounds.estimate))
        low, high = (bound / beyond if bound * bounds.estimate > 0 else bound for bound in bounds[1:])
        low, high = max(-1.0, float(low)), min(1.0, float(high))
        return bounds.estimate, low, high, float(min(1.0, 2.0 * min(tails)))

    def class_prior(self) -> Floats:
        """Estimate how common each class is, (K,), as :func:`naysayer.metrics.class_prior` says."""
        return self.summed(np.zeros(len(self), dtype=np.int64), 1)[:, 0] / self.total

    def class_prior_interval(self, tail: float) -> Interval:
        """Estimate how common each class is, as :func:`naysayer.metrics.class_prior_interval` says."""
        distinct, _, counts, squares = self._distinct()  # K bounds of few values, not of N
        columns = list(Sample(distinct, self.n_classes, self.inverse).columns())
        each = [mean_bounds(*one, tail, counts=counts, squares=squares) for one in zip(columns, *self.ends())]
        if self.estimated is not None:
            number = min((effective_counts(column, counts, squares) for column in columns), key=np.sum)
            lows, highs = self._prior_draws(distinct, number)
            each = [widest(one, (lows[:, k], highs[:, k]), tail) for k, one in enumerate(each)]
        return Interval(*np.array([within(*one) for one in each]).T)

    def risk_draws(self, sums: Floats, ordinary: float) -> Floats:
        """Risks under draws of an estimated Q, (B,), from sums of losses: (K, K) for labels, and for ordinary ones."""
        if self.estimated is None:
            return np.empty(0)
        return np.asarray(((self.estimated.inverses * sums).sum(axis=(1, 2)) + ordinary) / self.total)

    def kinds(self, rows: slice) -> tuple[Floats, Floats]:
        """Shares of the single labels, and the ordinary labels, of some examples: (B, K) each."""
        labels = self._tensors[0][rows]
        if labels.dim() == 1:
            return np.asarray(one_hot(labels, self.n_classes).double().numpy()), np.zeros((len(labels), 1))
        single, ordinary = split_kinds(labels, self.inverse is not None, torch.float64)
        return np.asarray(single.numpy()), np.asarray(ordinary.numpy())

    # ---- where Q was estimated --------------------------------------------------------------------------------------

    def _mean_draws(self, *predicted: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """What Gaffke's bounds are quantiles of, (B,) each, under draws of Q and of the examples' shares.

        One array of predictions gives their accuracy, two the difference of theirs.
        """
        distinct, of, _, _ = self._distinct()
        codes = of
        for classes in predicted:
            codes = codes * self.n_classes + classes
        _, first, place = np.unique(codes, return_index=True, return_inverse=True)
        values = self.at(predicted[0]) - (self.at(predicted[1]) if len(predicted) > 1 else 0.0)
        each = self._counts()
        number = np.bincount(place, weights=effective_counts(values, **each) if each else None)
        of, chosen = of[first], [classes[first] for classes in predicted]
        found: list[tuple[Floats, Floats]] = []
        for weights, low, high in self._weight_draws(distinct, len(number)):
            z = weights[:, of, chosen[0]]
            if len(predicted) > 1:
                z = z - weights[:, of, chosen[1]]
                end = (weights.max(axis=2) - weights.min(axis=2)).max(axis=1)
                end = np.maximum(end, self._widest_row())
                low, high = -end, end
            else:
                low, high = low.min(axis=1), high.max(axis=1)
            found.append(_shares(z[..., None], number, low[:, None], high[:, None], len(found)))
        lows, highs = (np.concatenate(part)[:, 0] for part in zip(*found))
        return lows, highs

    def _prior_draws(self, distinct: NDArray[Any], number: NDArray[Any]) -> tuple[Floats, Floats]:
        """The same for the share of each class, (B, K) each."""
        draws = self._weight_draws(distinct, len(number) * self.n_classes)
        found = [_shares(weights, number, low, high, i) for i, (weights, low, high) in enumerate(draws)]
        lows, highs = (np.concatenate(part) for part in zip(*found))
        return lows, highs

    def _weight_draws(self, distinct: NDArray[Any], size: int) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Weights of distinct labels under some draws of Q at a time, (b, L, K), and the ends of each class, (b, K)."""
        assert self.estimated is not None
        single, ordinary = Sample(distinct, self.n_classes, self.inverse).kinds(slice(None))
        some = max(1, 16 * _BLOCK // max(size, distinct.size))
        for start in range(0, len(self.estimated.inverses), some):
            inverse = self.estimated.inverses[start : start + some] * single.any()  # ordinary labels do not need it
            low, high = inverse.min(axis=1), inverse.max(axis=1)
            if ordinary.any():
                low, high = np.minimum(low, 0.0), np.maximum(high, 1.0)
            yield single @ inverse + ordinary, low, high

    def _distinct(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any], NDArray[Any]]:
        """Distinct labels, which of them each example has, (N,), and sums of their weights and of the squares."""
        distinct, of = np.unique(self.labels, axis=0, return_inverse=True)
        of = of.reshape(-1).astype(np.int64, copy=False)
        each = self._counts() or dict.fromkeys(("counts", "squares"))
        return distinct, of, np.bincount(of, weights=each["counts"]), np.bincount(of, weights=each["squares"])

    def _widest_row(self) -> float:
        """The largest difference of two weights that one label can give."""
        rows = np.ptp(self.weights(slice(int(self.size.argmin()), int(self.size.argmin()) + 1)))
        return float(rows if self.inverse is None else max(1.0, np.ptp(self.inverse, axis=1).max()))

    def _counts(self) -> dict[str, Any]:
        """The examples' weights as :func:`~naysayer.measure.intervals.mean_bounds` takes them."""
        if self.sample_weight is None:
            return {}
        weight = self.sample_weight / self.sample_weight.max()
        return {"counts": weight, "squares": weight**2}

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor | None]:
        """The labels and Q⁻¹ as tensors; what must not be written to is copied, since torch warns of it."""
        labels = torch.from_numpy(np.require(self.labels, requirements=["C", "W"]))
        return labels, None if self.inverse is None else torch.from_numpy(self.inverse)


def _shares(z: Floats, number: NDArray[Any], low: Floats, high: Floats, seed: int) -> tuple[Floats, Floats]:
    """Means of values z (b, M, R) by Dirichlet shares, with either end (b, R) joined once."""
    rng = np.random.default_rng(seed)
    shares = rng.standard_gamma(number, size=(len(z), len(number)))
    last = rng.standard_exponential((len(z), 1))
    total, mean = shares.sum(axis=1, keepdims=True) + last, np.einsum("bm,bmr->br", shares, z)
    return (mean + last * low) / total, (mean + last * high) / total


def widest(bounds: Interval, draws: tuple[Floats, Floats], tail: float) -> Interval:
    """Move bounds outward to the quantiles of draws; so few that they tell nothing of so small a tail give no bound."""
    lows, highs = draws
    place = int(tail * (len(lows) + 1)) - 1
    if place < 0:
        return Interval(bounds.estimate, -np.inf, np.inf)
    low, high = np.partition(lows, place)[place], np.partition(highs, -1 - place)[-1 - place]
    return Interval(bounds.estimate, min(bounds.low, float(low)), max(bounds.high, float(high)))


def take(
    labels: NDArray[Any],
    n_classes: int,
    transition: ArrayLike | None = None,
    sample_weight: Any = None,
    *,
    is_part: bool = False,
    **predictions: NDArray[np.int64],
) -> tuple[Sample, list[NDArray[np.int64]]]:
    """Take labels that were checked, and what was predicted for them, without the rows that say or count nothing.

    None may be left where they are a part of the data.
    """
    for name, classes in predictions.items():
        if len(classes) != len(labels):
            raise ValueError(f"`y_bar` and `{name}` must have the same length; got {len(labels)} and {len(classes)}")
    inverse = None if transition is None else transitions.inverse(transition, n_classes)
    weight = None if sample_weight is None else check_weight(sample_weight, len(labels), is_part=is_part)
    kept = informative(labels, weight, is_part=is_part)
    estimated = transitions.as_estimated(transition)
    sample = Sample(labels[kept], n_classes, inverse, None if weight is None else weight[kept], estimated)
    return sample, [classes[kept] for classes in predictions.values()]


def informative(
    labels: NDArray[Any], weight: Floats | None = None, *, is_part: bool = False
) -> NDArray[np.int64] | slice:
    """Find the rows of checked labels that rule out something and count for something.

    None at all are an error, unless the labels are a part of the data.
    """
    if labels.ndim == 1 and weight is None:
        return slice(None)
    says = np.ones(len(labels), dtype=bool) if labels.ndim == 1 else labels.any(axis=1)
    rows = np.flatnonzero(says if weight is None else says & (weight > 0))
    if len(rows) == 0 and not is_part:
        which = "" if weight is None else " whose `sample_weight` is above 0"
        raise ValueError(
            f"`y_bar` must rule out a class in at least one row{which}; got only rows that rule out nothing"
        )
    return rows


def read(
    y_bar: Any, n_classes: int | None, transition: ArrayLike | None, sample_weight: Any = None, **predictions: Any
) -> tuple[Sample, list[NDArray[np.int64]]]:
    """Check labels and the predictions that go with them, find K, and leave out the rows that say nothing."""
    if n_classes is None and transition is not None:
        n_classes = len(check_transition(transition))
    labels, found = check_labels(y_bar, n_classes)
    if n_classes is None and labels.ndim == 1:  # K is one more than the largest class found
        predictions = {name: check_classes(classes, None, name=name) for name, classes in predictions.items()}
        found = max(found, *(int(classes.max()) + 1 for classes in predictions.values()), 0)
    chosen = {name: check_classes(classes, found, name=name) for name, classes in predictions.items()}
    return take(labels, found, transition, sample_weight, is_part=False, **chosen)


def read_outputs(
    y_bar: Any,
    outputs: Any,
    transition: ArrayLike | None,
    sample_weight: Any = None,
    *,
    name: str,
    is_part: bool = False,
) -> tuple[Sample, Iterator[tuple[slice, Tensor]]]:
    """Check labels and a model's (N, K) outputs; the latter come back in float64, block by block of the labels."""
    outputs = outputs.detach() if isinstance(outputs, Tensor) else to_numpy(outputs)
    if outputs.ndim != 2 or (isinstance(outputs, np.ndarray) and outputs.dtype.kind not in "fiu"):
        raise ValueError(f"`{name}` must be (N, K) numbers; got shape {tuple(outputs.shape)}, dtype {outputs.dtype}")
    labels, n_classes = check_labels(y_bar)
    if len(outputs) != len(labels):
        raise ValueError(f"`y_bar` and `{name}` must have the same length; got {len(labels)} and {len(outputs)}")
    if outputs.shape[1] < n_classes or (labels.ndim == 2 and outputs.shape[1] > n_classes):
        raise ValueError(f"`{name}` must have one column per class; got {outputs.shape[1]}, and {n_classes} in `y_bar`")
    rows = np.arange(len(labels))
    taken, (kept,) = take(labels, outputs.shape[1], transition, sample_weight, is_part=is_part, rows=rows)

    def blocks() -> Iterator[tuple[slice, Tensor]]:
        for rows in taken.blocks():
            part = torch.as_tensor(outputs[kept[rows]]).to("cpu", torch.float64)
            if not bool(torch.isfinite(part).all()):
                i, k = (~torch.isfinite(part)).nonzero()[0].tolist()
                raise ValueError(f"`{name}` must be finite; got {part[i, k].item()} at row {kept[rows][i]}, column {k}")
            yield rows, part

    return taken, blocks()
