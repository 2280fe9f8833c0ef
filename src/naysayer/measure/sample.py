"""Labels that were checked, and their weights W with E[W | x] = P(class | x): what every metric sums up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from naysayer.common.checks import to_numpy
from naysayer.labels import transition as transitions
from naysayer.labels.checks import check_classes, check_labels, check_transition
from naysayer.labels.kinds import is_ordinary
from naysayer.labels.weights import label_weights, spread, weights_at
from naysayer.measure.intervals import Floats, Interval, mean_interval

_BLOCK = 1 << 18  # weights or losses held at a time
_COLUMNS = 1 << 24  # weights held at a time where they are wanted class by class


@dataclass(frozen=True)
class Sample:
    """Labels that each say something, with their weights W in float64; (N,) labels never make an (N, K) array.

    Nothing here checks the labels: that is done once, by whoever makes a sample (:func:`read`, or an estimator).
    """

    labels: NDArray[Any]
    n_classes: int
    inverse: Floats | None

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
        """Sums of W_i over the examples of each group, (K, G)."""
        if self.labels.ndim == 1:
            counts = np.bincount(groups * self.n_classes + self.labels, minlength=n_groups * self.n_classes)
            counts = counts.reshape(n_groups, self.n_classes).astype(np.float64)
            return np.asarray(spread(torch.from_numpy(counts), self._tensors[1]).numpy().T)
        total = np.zeros((self.n_classes, n_groups))
        for rows in self.blocks():
            total += self.weights(rows).T @ (groups[rows, None] == np.arange(n_groups))
        return total

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
        return float(self.at(predicted).mean())

    def accuracy_interval(self, predicted: NDArray[np.int64], tail: float) -> Interval:
        """Estimate the accuracy of predictions (N,), as :func:`naysayer.metrics.accuracy_interval` says."""
        low, high = self.ends()
        return mean_interval(self.at(predicted), low.min(), high.max(), tail)

    def class_prior_interval(self, tail: float) -> Interval:
        """Estimate how common each class is, as :func:`naysayer.metrics.class_prior_interval` says."""
        distinct, counts = np.unique(self.labels, axis=0, return_counts=True)  # K bounds of few values, not of N
        columns = Sample(distinct, self.n_classes, self.inverse).columns()
        each = [mean_interval(*one, tail, counts=counts) for one in zip(columns, *self.ends())]
        return Interval(*np.array(each).T)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor | None]:
        """The labels and Q⁻¹ as tensors; what must not be written to is copied, since torch warns of it."""
        labels = torch.from_numpy(np.require(self.labels, requirements=["C", "W"]))
        return labels, None if self.inverse is None else torch.from_numpy(self.inverse)


def take(
    labels: NDArray[Any], n_classes: int, transition: ArrayLike | None = None, **predictions: NDArray[np.int64]
) -> tuple[Sample, list[NDArray[np.int64]]]:
    """Take labels that were checked, and what was predicted for them, without the rows that say nothing."""
    for name, classes in predictions.items():
        if len(classes) != len(labels):
            raise ValueError(f"`y_bar` and `{name}` must have the same length; got {len(labels)} and {len(classes)}")
    inverse = None if transition is None else transitions.inverse(transition, n_classes)
    kept = informative(labels)
    return Sample(labels[kept], n_classes, inverse), [classes[kept] for classes in predictions.values()]


def informative(labels: NDArray[Any]) -> NDArray[np.int64] | slice:
    """Find the rows of checked labels that rule out something; none at all are an error."""
    if labels.ndim == 1:
        return slice(None)
    rows = np.flatnonzero(labels.any(axis=1))
    if len(rows) == 0:
        raise ValueError("`y_bar` must rule out a class in at least one row; got only rows that rule out nothing")
    return rows


def read(
    y_bar: Any, n_classes: int | None, transition: ArrayLike | None, **predictions: Any
) -> tuple[Sample, list[NDArray[np.int64]]]:
    """Check labels and the predictions that go with them, find K, and leave out the rows that say nothing."""
    if n_classes is None and transition is not None:
        n_classes = len(check_transition(transition))
    labels, found = check_labels(y_bar, n_classes)
    if n_classes is None and labels.ndim == 1:  # K is one more than the largest class found
        predictions = {name: check_classes(classes, None, name=name) for name, classes in predictions.items()}
        found = max(found, *(int(classes.max()) + 1 for classes in predictions.values()), 0)
    chosen = {name: check_classes(classes, found, name=name) for name, classes in predictions.items()}
    return take(labels, found, transition, **chosen)


def read_outputs(
    y_bar: Any, outputs: Any, transition: ArrayLike | None, *, name: str
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
    taken, _ = take(labels, outputs.shape[1], transition)
    kept = np.arange(len(labels))[informative(labels)]

    def blocks() -> Iterator[tuple[slice, Tensor]]:
        for rows in taken.blocks():
            part = torch.as_tensor(outputs[kept[rows]]).to("cpu", torch.float64)
            if not bool(torch.isfinite(part).all()):
                i, k = (~torch.isfinite(part)).nonzero()[0].tolist()
                raise ValueError(f"`{name}` must be finite; got {part[i, k].item()} at row {kept[rows][i]}, column {k}")
            yield rows, part

    return taken, blocks()
