"""Where examples come from: data resident on the device, or whatever else deals batches.

A :class:`Source` is told once how runs are to be dealt (:meth:`~Source.prepare`), and then gives batches, an epoch at a
time. To train from somewhere else, subclass it and write :meth:`~Source.batches`; all else has a default.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from naysayer import risk
from naysayer.common.checks import to_numpy
from naysayer.engine import kernels
from naysayer.engine.augment import hash_bits
from naysayer.labels.checks import check_classes, check_labels, check_weight
from naysayer.labels.weights import count_labels, is_sets

Reduce = Callable[[Tensor], Tensor]
Scored = Iterator[tuple[Tensor, ...]]  # blocks of inputs (C, b, ...), labels (C, b) or (C, b, K), and perhaps weights

_STEPS_AT_ONCE = 32  # dealt together at the least; as many more as their labels and counts take little memory
_AT_ONCE = 1 << 20  # labels, or counts of labels, dealt together


class Batch(NamedTuple):
    """The batches of S consecutive steps of C runs, B examples each."""

    rows: Tensor  # (S, C, B) numbers by which augmentations tell the examples apart
    labels: Tensor  # (S, C, B) classes that they are not, or (S, C, B, K) ruled out
    inputs: Tensor | None = None  # (S, C, B, ...) as floats, or as bytes; None where `Source.inputs` looks them up
    weights: Tensor | None = None  # (S, C, B) how many times each example counts; None where all count once

    def step(self, i: int) -> Batch:
        """The batch of one of the steps, without their axis."""
        return Batch(*(None if t is None else t[i] for t in self))  # type: ignore[arg-type]


class Source:
    """Deals batches to runs.

    Attributes
    ----------
    n_classes : K
    seeds, batch_size, device : of the population that trains, set by :meth:`prepare`.
    n_rows : examples in an epoch of a run, where that is known.
    """

    n_classes: int
    seeds: Sequence[int] = (0,)
    batch_size: int = 256
    device: torch.device = torch.device("cpu")
    n_rows: int | None = None
    in_threads = False  # whether several threads may ask for batches at once

    def prepare(self, seeds: Sequence[int], batch_size: int, device: torch.device) -> None:
        """Take note of the population that trains, before the first batch."""
        self.seeds, self.batch_size, self.device = seeds, batch_size, device

    def part_of(self, rank: int, size: int, together: Any) -> Source:
        """Give what one of several processes deals; by default the source itself, which must see to that alone."""
        return self

    def batches(self, epoch: int, runs: slice) -> Iterator[Batch]:
        """Deal an epoch's batches to some of the runs, in the order of the steps, any number of steps at a time."""
        raise NotImplementedError(f"{type(self).__name__} must have a method batches(epoch, runs)")

    def inputs(self, batch: Batch) -> Tensor:
        """Give one step's inputs, (C, B, ...), as they are or as bytes; `batch` has no axis of steps here."""
        assert batch.inputs is not None, "a source whose batches have no inputs must look them up"
        return batch.inputs

    def raw_inputs(self, batch: Batch) -> Tensor:
        """Give one step's inputs as they were given, for augmentations that work on bytes."""
        return self.inputs(batch)

    def count(self, runs: slice, known_transition: bool = False) -> Tensor:
        """Count each run's training labels, (C, K + 1), by one pass over the first epoch."""
        counted = (
            count_labels(b.labels, self.n_classes, known_transition, b.weights).sum(dim=0)
            for b in self.batches(0, runs)
        )
        return torch.stack([counts.double() for counts in counted]).sum(dim=0)

    def shares(
        self, runs: slice, known_transition: bool = False, reduce: Reduce | None = None
    ) -> tuple[Tensor, Tensor]:
        """Give π̄ of each run's training labels, (C, K), and the share of the complementary ones, (C, 1)."""
        counts = self.count(runs, known_transition).to(torch.get_default_dtype())
        return risk.shares(counts if reduce is None else reduce(counts))

    def example(self) -> Tensor:
        """Give the inputs of one example, (1, ...) as floats, from which shapes and memory are told."""
        batch = next(iter(self.batches(0, slice(0, 1))), None)
        if batch is None:
            raise ValueError(f"{type(self).__name__} must deal at least one batch per epoch; it dealt none")
        return to_float(self.inputs(batch.step(0))[0, :1])

    def held_out(self, runs: slice, size: int) -> Scored:
        """Give the examples on which the runs are judged, at most `size` at a time; none by default."""
        return iter(())

    def trained_on(self, runs: slice, size: int) -> Scored:
        """Give the examples that the runs train on, in any order, at most `size` at a time."""
        for batch in self.batches(0, runs):
            for i in range(len(batch.rows)):
                one = batch.step(i)
                parts = (self.inputs(one), one.labels, *(() if one.weights is None else (one.weights,)))
                yield from zip(*(part.split(size, dim=1) for part in parts))

    def test(self, size: int) -> Scored:
        """Give test examples, (1, b, ...), and their true classes, (b,); none by default."""
        return iter(())

    def digest(self) -> str:
        """Give a digest of the data, by which a checkpoint knows it again."""
        raise ValueError(f"to resume from a checkpoint, {type(self).__name__} must have a digest() of its data")


def check_batch(size: int, n_processes: int) -> None:
    """Check that a batch has a row for each process."""
    if size < n_processes:
        raise ValueError(
            f"a batch must hold a row for each of the {n_processes} processes; got batches of {size}; start fewer "
            f"processes, or raise `batch_size`"
        )


class Resident(Source):
    """Data that lives on the device, indexed there; each run's rows are shuffled by a hash of its seed.

    Parameters
    ----------
    X : (N, ...) inputs: uint8 is kept as such and divided by 255 as it is used, all else becomes float32.
    y_bar : checked labels: (N,) classes, (N, K) ruled out, or (M, N) classes, one row per run.
    n_classes : K
    rows, validation_rows : (n,) rows of X for all runs, or (M, n), one row per run; by default all, and none.
    test : (X, y_true), scored after every epoch and used for nothing else.
    sample_weight : (N,) checked weights, how many times each row counts, in training and validation; once if None.
    """

    in_threads = True
    part = (0, 1)  # which of how many equal parts of every batch is dealt

    def __init__(
        self,
        X: Any,
        y_bar: Any,
        n_classes: int,
        *,
        rows: Any = None,
        validation_rows: Any = None,
        test: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
    ) -> None:
        self.n_classes = n_classes
        self.weights = (
            None if sample_weight is None else torch.as_tensor(sample_weight, dtype=torch.get_default_dtype())
        )
        self.X = as_inputs(X)
        self.y = torch.as_tensor(y_bar)
        self.per_run = self.y.dim() == 2 and not is_sets(self.y)
        self._given = [None if r is None else torch.as_tensor(r).long() for r in (rows, validation_rows)]
        self.n_rows = len(self.X) if self._given[0] is None else self._given[0].shape[-1]
        self.tested = None if test is None else (as_inputs(test[0]), torch.as_tensor(test[1], dtype=torch.long))
        self._local = threading.local()  # buffers, since chunks of runs train in threads

    def part_of(self, rank: int, size: int, together: Any = None) -> Resident:
        """Give a source of one process's part of every batch, and of what is scored; the data is not copied."""
        mine = copy.copy(self)
        mine.part = rank, size
        return mine

    def _mine(self, rows: Tensor) -> Tensor:
        """This process's part of rows (..., n)."""
        (rank, size), n = self.part, rows.shape[-1]
        return rows if size == 1 else rows[..., rank * n // size : (rank + 1) * n // size].contiguous()

    def prepare(self, seeds: Sequence[int], batch_size: int, device: torch.device) -> None:
        super().prepare(seeds, batch_size, device)
        self.X, self.y = self.X.to(device).contiguous(), self.y.to(device)
        self.weights = None if self.weights is None else self.weights.to(device)
        self._seeds = torch.tensor(list(seeds), device=device)
        if self.per_run and len(self.y) != len(seeds):
            raise ValueError(
                f"`y_bar` with one row per run must have {len(seeds)} rows; got shape {tuple(self.y.shape)}"
            )
        self.rows, self.validation_rows = (
            None if r is None else r.to(device).expand(len(seeds), -1) for r in self._given
        )
        if self.tested is not None:
            self.tested = self.tested[0].to(device).contiguous(), self.tested[1].to(device)
        self.n_steps = -(-self.n_rows // batch_size)  # type: ignore[operator]
        check_batch(-(-self.n_rows // self.n_steps), self.part[1])  # type: ignore[operator]

    def batches(self, epoch: int, runs: slice) -> Iterator[Batch]:
        """Shuffle each run's rows into equal batches; the last one is filled up from the start of the order."""
        assert self.n_rows is not None
        order = shuffle(self._seeds[runs], epoch, self.n_rows)
        if self.rows is not None:
            order = self.rows[runs].gather(1, order)
        size = -(-self.n_rows // self.n_steps)
        order = torch.cat([order, order[:, : self.n_steps * size - self.n_rows]], dim=1)
        order = self._mine(order.view(len(order), self.n_steps, size).transpose(0, 1).contiguous())
        per_step = len(self._seeds[runs]) * self.n_classes * (size if is_sets(self.y) else 1)
        for part in order.split(max(1, _AT_ONCE // per_step // _STEPS_AT_ONCE) * _STEPS_AT_ONCE):
            yield Batch(part, self._labels(part, runs), weights=None if self.weights is None else self.weights[part])

    def inputs(self, batch: Batch) -> Tensor:
        """Look up bytes or floats; bytes on a CPU go through the same two buffers in every step, which stay cached."""
        if self.X.is_cuda or self.X.dtype != torch.uint8:
            return take(self.X, batch.rows)
        shape = (batch.rows.numel(), *self.X.shape[1:])
        if getattr(self._local, "shape", None) != shape:
            self._local.shape = shape
            self._local.buffers = torch.empty(shape, dtype=torch.uint8), torch.empty(shape)
        taken, floats = self._local.buffers
        torch.index_select(self.X, 0, batch.rows.flatten(), out=taken)
        return floats.copy_(taken).mul_(1.0 / 255.0).view(*batch.rows.shape, *self.X.shape[1:])  # type: ignore[no-any-return]

    def raw_inputs(self, batch: Batch) -> Tensor:
        return self.X.index_select(0, batch.rows.flatten()).view(*batch.rows.shape, *self.X.shape[1:])

    def count(self, runs: slice, known_transition: bool = False) -> Tensor:
        """Count each run's training labels, once where all runs have the same ones."""
        alike = not self.per_run and self.rows is None
        each = []
        for m in range(runs.start, runs.start + 1 if alike else runs.stop):
            y = self.y[m] if self.per_run else self.y
            y = y if self.rows is None else y[self.rows[m]]
            weights = self.weights if self.weights is None or self.rows is None else self.weights[self.rows[m]]
            if is_sets(y) or weights is not None:
                each.append(count_labels(y, self.n_classes, known_transition, weights))
            else:
                each.append(torch.bincount(y, minlength=self.n_classes + 1))
        return torch.stack(each).expand(runs.stop - runs.start, -1)

    def example(self) -> Tensor:
        return to_float(self.X[:1])

    def held_out(self, runs: slice, size: int) -> Scored:
        return iter(()) if self.validation_rows is None else self._scored(self.validation_rows[runs], runs, size)

    def trained_on(self, runs: slice, size: int) -> Scored:
        everything = torch.arange(len(self.X), device=self.device).expand(runs.stop - runs.start, -1)
        return self._scored(everything if self.rows is None else self.rows[runs], runs, size)

    def test(self, size: int) -> Scored:
        if self.tested is not None:
            inputs, truth = self.tested
            for part in self._mine(torch.arange(len(inputs), device=self.device)).split(size):
                yield take(inputs, part.unsqueeze(0)), truth[part]

    def digest(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.X, self.y, self.rows, self.validation_rows, *(self.tested or (None,)), self.weights):
            digest.update(b"none" if tensor is None else f"{tuple(tensor.shape)}{tensor.dtype}".encode())
            if tensor is not None:
                digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        return digest.hexdigest()

    def _scored(self, rows: Tensor, runs: slice, size: int) -> Scored:
        for part in self._mine(rows).split(size, dim=1):
            labels = self._labels(part, runs)
            yield (take(self.X, part), labels, *(() if self.weights is None else (self.weights[part],)))

    def _labels(self, rows: Tensor, runs: slice) -> Tensor:
        """Labels of rows (..., C, B) for these runs: (..., C, B) or (..., C, B, K)."""
        if not self.per_run:
            return self.y[rows]
        return self.y[runs].expand(*rows.shape[:-2], -1, -1).gather(-1, rows)


def resident(
    X: Any,
    y_bar: Any,
    n_classes: int,
    n_runs: int,
    rows: Any,
    validation_rows: Any,
    test: tuple[Any, Any] | None,
    sample_weight: Any = None,
) -> Resident:
    """Check arrays as a caller gave them, and make them a resident source."""
    inputs = as_inputs(X)
    if inputs.dim() < 2:
        raise ValueError(f"`X` must be (N, ...) with an axis of inputs; got shape {tuple(inputs.shape)}")
    labels = _check_labels(y_bar, len(inputs), n_classes, n_runs)
    n_labels = labels.shape[-1] if labels.ndim == 2 and labels.dtype != bool else len(labels)
    if n_labels != len(inputs):
        raise ValueError(f"`X` and `y_bar` must have the same number of rows; got {len(inputs)} and {n_labels}")
    weight = None if sample_weight is None else check_weight(sample_weight, len(inputs))
    counts = labels.any(axis=1) if labels.dtype == bool else np.ones(len(inputs), dtype=bool)
    counts &= True if weight is None else weight > 0
    if not counts.any():
        which = "" if weight is None else " whose `sample_weight` is above 0"
        raise ValueError(f"`y_bar` must rule out a class in at least one row{which}; got none that rules out anything")
    return Resident(
        inputs,
        labels,
        n_classes,
        rows=_check_rows(rows, counts, n_runs, "rows"),
        validation_rows=_check_rows(validation_rows, counts, n_runs, "validation_rows"),
        test=None if test is None else _check_test(*test, inputs, n_classes),
        sample_weight=weight,
    )


def _check_labels(y_bar: Any, n: int, n_classes: int, n_runs: int) -> Any:
    """Check labels: (N,), ruled out (N, K) as truth values or 0 and 1, or (M, N), one row per run."""
    y = np.require(to_numpy(y_bar), requirements="W")  # torch warns of arrays that are read-only
    if y.ndim != 2 or y.dtype == bool or y.shape == (n, n_classes) != (n_runs, n):
        return check_labels(y, n_classes)[0]
    if y.shape == (n, n_classes):
        raise ValueError(
            f"`y_bar` of shape {y.shape} may be a ruled-out matrix, or one row of classes for each of {n_runs} runs; "
            f"pass a ruled-out matrix as truth values: y_bar.astype(bool)"
        )
    if len(y) != n_runs:
        raise ValueError(f"`y_bar` with one row per run must have {n_runs} rows; got shape {y.shape}")
    return np.stack([check_labels(row, n_classes)[0] for row in y])


def _check_test(X: Any, y_true: Any, inputs: Tensor, n_classes: int) -> tuple[Any, Any]:
    """Check what is scored beside the training: inputs like those that are trained on, and their classes."""
    if len(X) != len(y_true):
        raise ValueError(f"`test` must have the same number of inputs and classes; got {len(X)} and {len(y_true)}")
    scored = as_inputs(X)
    if scored.shape[1:] != inputs.shape[1:]:
        raise ValueError(
            f"`test` must have inputs of the shape {tuple(inputs.shape[1:])}, as `X` has them; got "
            f"{tuple(scored.shape[1:])}"
        )
    return scored, check_classes(y_true, n_classes, name="test[1]")


def _check_rows(rows: Any, counts: NDArray[np.bool_], n_runs: int, name: str) -> Any:
    """Check rows (n,) or (M, n), of which each run must have one that counts: its label says something."""
    if rows is None:
        return None
    out, n = to_numpy(rows), len(counts)
    if out.size == 0:
        raise ValueError(f"`{name}` must hold at least one row")
    if out.dtype.kind not in "iu" or out.min() < 0 or out.max() >= n:
        raise ValueError(f"`{name}` must hold numbers of rows, 0 to {n - 1}; a mask becomes them by np.flatnonzero")
    if out.ndim > 2 or (out.ndim == 2 and len(out) != n_runs):
        raise ValueError(f"`{name}` must be (n,), or ({n_runs}, n), one row per run; got shape {out.shape}")
    if not counts[out].any(axis=-1).all():
        raise ValueError(
            f"`{name}` must hold, for each run, a row that rules out a class and whose `sample_weight` is above 0; got "
            f"none; choose other rows"
        )
    return out


def shuffle(seeds: Tensor, epoch: int, n: int) -> Tensor:
    """Give each run its own order of n rows for this epoch: (C,) → (C, n).

    Rows are sorted by a hash of (seed, epoch, row), the same on every device, so no generator has a state to
    keep and a resumed run continues as if it had never stopped.
    """
    row = torch.arange(n, device=seeds.device)
    return hash_bits(hash_bits(seeds * 0x1F123BB5 + epoch).unsqueeze(-1) + row).argsort(dim=-1)


def as_inputs(X: Any) -> Tensor:
    """Take inputs as a tensor: uint8 as it is, all else as float32."""
    x = X if isinstance(X, Tensor) else torch.from_numpy(np.require(X, requirements=["C", "W"]))
    return x if x.dtype == torch.uint8 else x.to(torch.float32)


def to_float(x: Tensor) -> Tensor:
    """Bytes as floats from 0 to 1; all else as it is."""
    return x * (1.0 / 255.0) if x.dtype == torch.uint8 else x


def take(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows] as floats: (N, ...), (C, B) → (C, B, ...)."""
    if x.dtype == torch.uint8 and kernels.usable(x):
        return kernels.gather_images(x.flatten(1), rows).view(*rows.shape, *x.shape[1:])
    return to_float(x.index_select(0, rows.flatten())).view(*rows.shape, *x.shape[1:])
