"""Columns of pictures and of texts among the numbers of a table: each becomes a block of features."""

from __future__ import annotations

import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.data.items import Item
from naysayer.data.tables import DataTable, texts_of
from naysayer.features import photos, texts
from naysayer.features.photos import PhotoEncoder
from naysayer.features.texts import TextEncoder

Features = tuple[NDArray[np.int64], NDArray[np.float32]]  # the rows that have a value, and their features


class ColumnBlock(ABC):
    """A column whose values become D features, all brought to mean 0 and to one deviation.

    The deviation is 1, as that of numbers, or less where many features would drown those of other columns; see
    :func:`balance`. A row without a value is all zeros, which is the average of the training rows; a last feature
    marks such rows if there were any in training.

    Parameters
    ----------
    name : of the column.
    mean, scale : of the features, (D,); `fit` takes them from the training rows.
    missing : whether there is a feature that marks rows without a value.
    """

    reads: str  # the kind of its values
    what: str  # they are called
    remedy: str  # where what computes the features is not installed
    encoder: Any  # that computes them; a state that it saved names its backbone, and any other is refused

    def __init__(
        self, name: str, mean: Sequence[float] = (), scale: Sequence[float] = (), missing: bool = False
    ) -> None:
        self.name, self.missing = name, missing
        self.mean, self.scale = np.array(mean, dtype=np.float32), np.array(scale, dtype=np.float32)

    @classmethod
    @abstractmethod
    def available(cls) -> bool:
        """Whether what computes the features is installed."""

    def lacks(self, table: DataTable) -> list[str]:
        """Say how many values are missing, where some are."""
        n_missing = texts_of(table.columns[self.name]).count(None)
        return [f"{n_missing:,} missing"] * (n_missing > 0)

    def became(self) -> str:
        """Say what the values became."""
        return f"{len(self.mean):,} features of {self.encoder.to_dict()['backbone']['name']}"

    def names(self) -> list[str]:
        """Name the features."""
        return [f"{self.name}[{j}]" for j in range(len(self.mean))] + [f"{self.name} is missing"] * self.missing

    def fit(self, table: DataTable, device: str, verbose: int) -> Features:
        """Learn from the training rows; give their features, as :meth:`encode` takes them."""
        values = self._values(table)
        if not values:
            raise ValueError(f"column {self.name!r} must hold {self.what}; all {table.n_rows} rows are empty")
        self._begin(values)
        rows, features = self._features(values, device, verbose, fitting=True)
        mean, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
        self.mean, self.scale = mean.astype(np.float32), np.where(scale > 1e-6, scale, 1).astype(np.float32)
        self.missing = len(rows) < table.n_rows
        return rows, features

    def compute(self, table: DataTable, device: str, verbose: int) -> Features:
        """Compute features, which may take long."""
        values = self._values(table)
        if not values:
            return _rows(values), np.zeros((0, len(self.mean)), dtype=np.float32)
        return self._features(values, device, verbose)

    def _values(self, table: DataTable) -> dict[int, str]:
        """Give the values that are not missing, by their rows."""
        return {row: text for row, text in enumerate(texts_of(table.columns[self.name])) if text is not None}

    @abstractmethod
    def _begin(self, values: dict[int, str]) -> None:
        """Make ready what computes the features."""

    @abstractmethod
    def _features(self, values: dict[int, str], device: str, verbose: int, fitting: bool = False) -> Features:
        """Compute the features of those values that can be read."""

    def encode(self, computed: Features, out: NDArray[np.float32]) -> None:
        """Write features that were computed into `out`, which holds zeros."""
        rows, features = computed
        out[rows, : len(self.mean)] = (features - self.mean) / self.scale
        if self.missing:
            out[:, -1] = 1
            out[rows, -1] = 0

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        numbers = {"mean": self.mean.tolist(), "scale": self.scale.tolist(), "missing": self.missing}
        return {"reads": self.reads, "name": self.name, "encoder": self.encoder.to_dict()} | numbers


def balance(blocks: Sequence[ColumnBlock], n_others: int) -> None:
    """Give each block the variance of all other features together, so that neither drowns the others.

    A picture has 1,280 features, and where five numbers stand beside it, distances and networks would hardly see them.
    Where there is nothing but blocks, the narrowest is the measure.

    Parameters
    ----------
    blocks : fitted.
    n_others : how many features the other columns have.
    """
    widths = [len(block.mean) for block in blocks]
    for block, width in zip(blocks, widths):
        block.scale *= math.sqrt(max(1.0, width / (n_others or min(widths))))


def _rows(values: dict[int, str]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64, len(values))


class PhotoBlock(ColumnBlock):
    """A column of paths of pictures, absolute or from the table's folder: the features of a backbone.

    Pictures that are not there or cannot be read count as missing, with a warning that says how many; if they are
    more than half of those that are named in training, the column is refused.
    """

    reads, what, remedy = "image", "pictures", "pip install 'naysayer[photos]'"

    def __init__(self, *values: Any, encoder: dict[str, Any] | None = None, **named: Any) -> None:
        super().__init__(*values, **named)
        self.encoder = PhotoEncoder() if encoder is None else PhotoEncoder.from_dict(encoder)

    @classmethod
    def available(cls) -> bool:
        """Whether what computes the features is installed."""
        return photos.available()

    def lacks(self, table: DataTable) -> list[str]:
        """Say how many values are missing, and how many pictures are not where they should be."""
        n_gone = len(_gone(self._values(table)))
        return super().lacks(table) + [f"{n_gone:,} not there"] * (n_gone > 0)

    def _values(self, table: DataTable) -> dict[int, str]:
        return {row: os.path.join(table.folder or "", path) for row, path in super()._values(table).items()}

    def _begin(self, values: dict[int, str]) -> None:
        self.encoder.fit([])

    def _features(self, values: dict[int, str], device: str, verbose: int, fitting: bool = False) -> Features:
        transformer = self.encoder.photos.set_params(device=device, verbose=verbose)
        faults = _gone(values)
        if fitting:
            self._check(faults, values, "paths must be absolute or begin at the table's folder")
        there = np.array([row for row in values if row not in faults], dtype=np.int64)
        features = np.zeros((0, len(self.mean)), dtype=np.float32)
        if len(there):
            features, failed = transformer.transform_readable([values[row] for row in there.tolist()])
            faults |= {int(there[place]): why for place, why in failed.items()}
            if fitting:
                self._check(faults, values, "replace the files, or leave the column out")
            kept = np.setdiff1d(np.arange(len(there)), list(failed))
            there, features = there[kept], features[kept]
        if faults:
            warnings.warn(f"{self._tell(faults, values)}; they count as missing", stacklevel=2)
        return there, features

    def _check(self, faults: dict[int, str], values: dict[int, str], advice: str) -> None:
        """Refuse a column most of whose pictures cannot be read: it is not what it was taken for."""
        if 2 * len(faults) > len(values):
            raise ValueError(f"{self._tell(faults, values)}; {advice}")

    def _tell(self, faults: dict[int, str], values: dict[int, str]) -> str:
        row, why = min(faults.items())
        of = f"{len(faults):,} of {len(values):,}"
        return f"column {self.name!r} must hold pictures; {of} cannot be read, the first at row {row}: {why}"


def _gone(paths: dict[int, str]) -> dict[int, str]:
    """Say where pictures are not, by their rows."""
    return {row: f"no file at {path}" for row, path in paths.items() if not os.path.isfile(path)}


class TextBlock(ColumnBlock):
    """A column of texts: embeddings, or counts of words where those are not installed."""

    reads, what, remedy = "text", "texts", "pip install 'naysayer[texts]'"

    def __init__(self, *values: Any, encoder: dict[str, Any] | None = None, **named: Any) -> None:
        super().__init__(*values, **named)
        self.encoder = TextEncoder() if encoder is None else TextEncoder.from_dict(encoder)

    @classmethod
    def available(cls) -> bool:
        """Whether what computes the features is installed."""
        return texts.available()

    def became(self) -> str:
        """Say what the values became."""
        if "backbone" in self.encoder.to_dict():
            return f"{super().became()} and of their words"
        return f"counts of {len(self.mean):,} words; for features of a language model, {self.remedy}"

    def _begin(self, values: dict[int, str]) -> None:
        self.encoder.fit(_items(values))

    def _features(self, values: dict[int, str], device: str, verbose: int, fitting: bool = False) -> Features:
        self.encoder.device, self.encoder.verbose = device, verbose
        return _rows(values), self.encoder.transform(_items(values))


def _items(values: dict[int, str]) -> list[Item]:
    return [Item(str(row), "text", f"row {row}", content=text) for row, text in values.items()]


_BLOCKS: dict[str, type[ColumnBlock]] = {block.reads: block for block in (PhotoBlock, TextBlock)}


def block_from_dict(state: dict[str, Any]) -> ColumnBlock:
    """Make the block that `to_dict` described."""
    return _BLOCKS[state["reads"]](**{name: value for name, value in state.items() if name != "reads"})
