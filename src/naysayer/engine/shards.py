"""What data that is read in parts is made of: shards of rows, how they are read and divided, and what they tell.

:class:`naysayer.engine.stream.Stream` makes batches of them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from naysayer.engine.source import Reduce

T = TypeVar("T")
Array = NDArray[Any]


class Block(NamedTuple):
    """Some neighbouring rows of a shard."""

    inputs: Array  # (b, ...), bytes or numbers
    labels: Array  # (b,) classes that they are not, or (b, K) ruled out
    first: int = 0  # the number of the first of them in its file, by which errors name a row


class Shards(Protocol):
    """Where rows are: shards that can be read in any order, each in blocks of its rows.

    Attributes
    ----------
    n_classes : K
    names : of the shards' files.
    sizes : rows of each shard; None where only reading tells.
    """

    n_classes: int
    names: list[str]
    sizes: list[int] | None

    def blocks(self, shard: int) -> Iterator[Block]:
        """Read a shard from its beginning, the same rows in the same order every time."""

    def digest(self) -> str:
        """Give what tells this data from other data."""


@contextlib.contextmanager
def rows_of(name: str, first: int) -> Iterator[None]:
    """Name the file, and the row in it, in an error about a row of a block."""
    try:
        yield
    except ValueError as error:
        told = re.sub(r"\brow (\d+)", lambda found: f"row {first + int(found[1])}", str(error))
        raise ValueError(f"{name}: {told}") from None


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Give items one after the other; a thread makes the next one while the present one is used.

    Examples
    --------
    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item


def check_part(part: tuple[int, int], sizes: Array | None) -> tuple[int, int]:
    """Check that there is a part of the shards for each of R processes; `sizes` are the shards' rows."""
    rank, n_parts = part
    if not 0 <= rank < n_parts:
        raise ValueError(f"`part` must be (r, R) with r from 0 to R - 1; got {part}")
    if n_parts == 1:
        return part
    if sizes is None:
        raise ValueError("the rows of each shard must be known to part them among processes; pass files")
    if (there := int(np.count_nonzero(sizes))) < n_parts:
        raise ValueError(
            f"there must be a shard for each of {n_parts} processes; got {there} with rows to train on; start fewer "
            f"processes, or write smaller files, or smaller row groups"
        )
    return rank, n_parts


def dealt_evenly(sizes: Array, n_parts: int) -> Array:
    """Part shards of these sizes: the largest that is left goes to the part that has the fewest rows.

    Examples
    --------
    >>> dealt_evenly(np.array([40, 31, 60, 20, 60]), 2)
    array([0, 1, 0, 1, 1])
    """
    owners, filled = np.zeros(len(sizes), dtype=np.int64), np.zeros(n_parts)
    for shard in np.argsort(-sizes, kind="stable"):
        owners[shard] = filled.argmin()
        filled[owners[shard]] += sizes[shard]
    return owners


class Moments:
    """Mean and deviation of each input, from blocks; of bytes only their number is counted."""

    def __init__(self) -> None:
        self.n, self.bytes = 0, False
        self.mean: Array = np.zeros(())
        self.apart: Array = np.zeros(())  # the sum of squares about the mean

    def add(self, x: Array) -> None:
        """Add rows (b, ...), which must be finite."""
        n, of_bytes = len(x), x.dtype == np.uint8
        if x.dtype.kind not in "fiub":
            raise ValueError(f"inputs must be numbers; got {x.dtype}")
        if self.n and x.shape[1:] != self.mean.shape:
            raise ValueError(f"all rows must have the shape {self.mean.shape}; got {x.shape[1:]} at row 0")
        if self.n and of_bytes != self.bytes:
            kinds = ("bytes", "other numbers") if self.bytes else ("numbers", "bytes")
            raise ValueError(f"all rows must be {kinds[0]}, as the first are; got {kinds[1]} at row 0; make them alike")
        if of_bytes:
            self.bytes, self.mean, self.n = True, np.zeros(x.shape[1:]), self.n + n
            return
        x = x.astype(np.float64, copy=False)
        mean = x.mean(axis=0)
        if not np.isfinite(mean).all():
            at = int(np.argmax(~np.isfinite(x.reshape(n, -1)).all(axis=1)))
            raise ValueError(f"inputs must be finite numbers; got others at row {at}")
        apart = np.square(x - mean).sum(axis=0)
        total = self.n + n
        self.apart = self.apart + apart + (mean - self.mean) ** 2 * (self.n * n / total)
        self.mean = self.mean + (mean - self.mean) * (n / total)
        self.n = total

    def result(self, reduce: Reduce | None = None) -> tuple[int, Array, Array]:
        """The number of rows, their mean and deviation, of all processes; the deviation of what never varies is 1."""
        n, mean, apart = self.n, self.mean, self.apart
        if reduce is not None:
            n = int(reduce(torch.tensor(float(n), dtype=torch.float64)))
        if self.bytes:
            return n, mean, np.full(mean.shape, 255.0)
        if reduce is not None:
            mean = reduce(torch.from_numpy(self.n * mean)).numpy() / n
            apart = reduce(torch.from_numpy(apart + self.n * (self.mean - mean) ** 2)).numpy()
        scale = np.sqrt(apart / n)
        return n, mean, np.where(scale > 1e-7 * np.maximum(np.abs(mean), 1e-30), scale, 1.0)
