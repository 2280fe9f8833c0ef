"""Labels checked once and turned into their weights W, with E[W | x] = P(class | x): what every metric sums up."""

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
from naysayer.labels.checks import check_classes, check_labels, check_n_classes, check_transition
from naysayer.measure.intervals import Floats

_BLOCK = 1 << 18  # weights or losses held at a time


@dataclass(frozen=True)
class Labels:
    """Labels that each say something, with their weights W in float64; (N,) labels never make an (N, K) array."""

    labels: NDArray[Any]
    n_classes: int
    inverse: Floats | None

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def size(self) -> NDArray[np.int64]:
        """How many classes each label rules out, (N,)."""
        return np.ones(len(self), dtype=np.int64) if self.labels.ndim == 1 else self.labels.sum(axis=1)

    @cached_property
    def ordinary(self) -> NDArray[np.bool_]:
        """Which labels leave one class and so do not pass through Q, (N,); with two classes "not a" does."""
        return (self.size == self.n_classes - 1) & (self.n_classes > 2)

    def blocks(self) -> Iterator[slice]:
        """Ranges of examples, so few that K numbers for each take little memory."""
        size = max(1, _BLOCK // self.n_classes)
        return (slice(start, start + size) for start in range(0, len(self), size))

    def weights(self, rows: slice) -> Floats:
        """Rows W_i of some examples, (B, K)."""
        labels = self.labels[rows]
        if labels.ndim == 1:
            if self.inverse is not None:
                return self.inverse[labels]
            return 1.0 - (self.n_classes - 1.0) * (labels[:, None] == np.arange(self.n_classes))
        size = self.size[rows, None]
        if self.inverse is None:
            return 1.0 - labels * ((self.n_classes - 1) / size)
        return np.where(self.ordinary[rows, None], ~labels, labels @ self.inverse / size)

    def at(self, classes: NDArray[np.int64]) -> Floats:
        """W_i[k_i] for one class k_i an example, (N,)."""
        if self.inverse is None:
            one = self.labels.ndim == 1
            ruled = self.labels == classes if one else np.take_along_axis(self.labels, classes[:, None], axis=1)[:, 0]
            return 1.0 - ruled * ((self.n_classes - 1) / self.size)
        if self.labels.ndim == 1:
            return self.inverse[self.labels, classes]
        picked = (np.take_along_axis(self.weights(rows), classes[rows, None], axis=1) for rows in self.blocks())
        return np.concatenate(list(picked))[:, 0]

    def summed(self, groups: NDArray[np.int64], n_groups: int) -> Floats:
        """Sums of W_i over the examples of each group, (K, G)."""
        if self.labels.ndim == 1:
            counts = np.bincount(self.labels * n_groups + groups, minlength=self.n_classes * n_groups)
            counts = counts.reshape(self.n_classes, n_groups).astype(np.float64)
            if self.inverse is None:
                return counts.sum(axis=0) - (self.n_classes - 1) * counts
            return self.inverse.T @ counts
        total = np.zeros((self.n_classes, n_groups))
        for rows in self.blocks():
            total += self.weights(rows).T @ (groups[rows, None] == np.arange(n_groups))
        return total

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest weight that each class can get from labels of the kinds present, (K,) each."""
        if self.inverse is None:
            return np.full(self.n_classes, 1.0 - (self.n_classes - 1) / self.size.min()), np.ones(self.n_classes)
        low, high = self.inverse.min(axis=0), self.inverse.max(axis=0)
        if self.ordinary.all():
            return np.zeros(self.n_classes), np.ones(self.n_classes)
        return (np.minimum(low, 0.0), np.maximum(high, 1.0)) if self.ordinary.any() else (low, high)


def read(
    y_bar: Any, n_classes: int | None, transition: ArrayLike | None, **predictions: Any
) -> tuple[Labels, list[NDArray[np.int64]]]:
    """Check labels and the predictions that go with them, find K, and leave out the rows that say nothing."""
    y_bar = to_numpy(y_bar)
    if n_classes is None and transition is not None:
        n_classes = len(check_transition(transition))
    if n_classes is None:
        n_classes = check_labels(y_bar)[1]
        if y_bar.ndim == 1:
            for name, classes in predictions.items():
                n_classes = max(n_classes, int(check_classes(classes, None, name=name).max()) + 1)
    y_bar, n_classes = check_labels(y_bar, check_n_classes(n_classes))
    inverse = None if transition is None else transitions.inverse(transition, n_classes)
    chosen = [check_classes(classes, n_classes, name=name) for name, classes in predictions.items()]
    for name, classes in zip(predictions, chosen):
        if len(classes) != len(y_bar):
            raise ValueError(f"`y_bar` and `{name}` must have one length; got {len(y_bar)} and {len(classes)}")
    if y_bar.ndim == 2:
        informative = y_bar.any(axis=1)
        if not informative.any():
            raise ValueError("`y_bar` must rule out a class in at least one row; got only rows that rule out nothing")
        y_bar, chosen = y_bar[informative], [classes[informative] for classes in chosen]
    return Labels(y_bar, n_classes, inverse), chosen


def read_outputs(
    y_bar: Any, outputs: Any, transition: ArrayLike | None, *, name: str
) -> tuple[Labels, Iterator[tuple[slice, Tensor]]]:
    """Check labels and a model's (N, K) outputs; the latter come back in float64, block by block of the labels."""
    outputs = outputs.detach() if isinstance(outputs, Tensor) else to_numpy(outputs)
    if outputs.ndim != 2 or (isinstance(outputs, np.ndarray) and outputs.dtype.kind not in "fiu"):
        raise ValueError(f"`{name}` must be (N, K) numbers; got shape {tuple(outputs.shape)}, dtype {outputs.dtype}")
    y_bar, n_classes = check_labels(y_bar)
    if len(outputs) != len(y_bar):
        raise ValueError(f"`y_bar` and `{name}` must have one length; got {len(y_bar)} and {len(outputs)}")
    if outputs.shape[1] < n_classes or (y_bar.ndim == 2 and outputs.shape[1] > n_classes):
        raise ValueError(f"`{name}` must have one column a class; got {outputs.shape[1]}, and {n_classes} in `y_bar`")
    labels, _ = read(y_bar, outputs.shape[1], transition)
    kept = np.flatnonzero(y_bar.any(axis=1)) if y_bar.ndim == 2 else np.arange(len(y_bar))

    def blocks() -> Iterator[tuple[slice, Tensor]]:
        for rows in labels.blocks():
            part = torch.as_tensor(outputs[kept[rows]]).to("cpu", torch.float64)
            if not bool(torch.isfinite(part).all()):
                i, k = (~torch.isfinite(part)).nonzero()[0].tolist()
                raise ValueError(f"`{name}` must be finite; got {part[i, k].item()} at row {kept[rows][i]}, column {k}")
            yield rows, part

    return labels, blocks()
