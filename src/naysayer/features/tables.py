"""Columns of a table into numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import near
from naysayer.data.tables import DataTable, is_number, numbers_of, texts_of

_MOST_CATEGORIES = 100
_FARTHEST = 1e6  # standard deviations; beyond it a value is cut, so that float32 holds it


def _finite(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Refuse infinite numbers; missing ones may stay."""
    infinite = np.isinf(values)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise ValueError(f"column {name!r} must hold finite numbers; got {values[i]} at row {i}; leave it empty?")
    return values


@dataclass(frozen=True)
class _Number:
    """A column of numbers: the missing ones become the median, all are standardised; scale 0 says it was constant."""

    name: str
    median: float
    mean: float
    scale: float
    missing: bool

    @classmethod
    def fit(cls, name: str, values: NDArray[np.float64]) -> _Number:
        """Take the statistics of the training rows."""
        missing = np.isnan(_finite(name, values))
        known = values[~missing]
        if len(known) == 0:
            return cls(name, 0.0, 0.0, 0.0, False)
        median = float(np.median(known))
        filled = np.where(missing, median, values)
        largest = float(np.abs(filled).max()) or 1.0  # divided out, so that no square overflows
        constant = bool(filled.min() == filled.max())
        mean, scale = largest * float((filled / largest).mean()), largest * float((filled / largest).std())
        return cls(name, median, mean, 0.0 if constant else scale, bool(missing.any()))

    def names(self) -> list[str]:
        """Name the features."""
        return [self.name] * (self.scale > 0) + [f"{self.name} is missing"] * self.missing

    def encode(self, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the features into `out`."""
        values = numbers_of(column)
        if values is None:
            i, text = next((i, text) for i, text in enumerate(texts_of(column)) if text and not is_number(text))
            raise ValueError(f"column {self.name!r} must hold numbers; got {text!r} at row {i}")
        missing = np.isnan(_finite(self.name, values))
        if self.scale > 0:
            with np.errstate(over="ignore"):
                scaled = (np.where(missing, self.median, values) - self.mean) / self.scale
            out[:, 0] = np.clip(scaled, -_FARTHEST, _FARTHEST)
        if self.missing:
            out[:, -1] = missing


@dataclass(frozen=True)
class _Category:
    """A column of categories: one feature for each, None being "missing"; any other value is all zeros."""

    name: str
    categories: list[str | None]

    def names(self) -> list[str]:
        """Name the features."""
        return [f"{self.name} is missing" if value is None else f"{self.name}={value}" for value in self.categories]

    def encode(self, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the features into `out`, which holds zeros."""
        place = {value: k for k, value in enumerate(self.categories)}
        codes = np.array([place.get(text, -1) for text in texts_of(column)])
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1


class TableEncoder:
    """Turn a table into a matrix of float32, the same way for the rows to learn from and those to predict.

    A column whose values all read as numbers is standardised; its missing values become the median, and a second
    feature marks them if there were any in `fit`. Any other column becomes one feature for each of its 100 most
    frequent values, a missing value counting as one; rarer and unseen values are all zeros. Constant columns, and
    text columns with more than 100 values most of which are distinct, are left out; `notes` says so.

    Attributes
    ----------
    feature_names_ : the D features.
    notes : what was left out and why, one line each.

    Examples
    --------
    >>> table = DataTable({"age": np.array(["20", "", "40"]), "pet": np.array(["cat", "dog", "cat"])})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['age', 'age is missing', 'pet=cat', 'pet=dog']
    >>> encoder.transform(DataTable({"age": np.array([30]), "pet": np.array(["cow"])}))
    array([[0., 0., 0., 0.]], dtype=float32)
    """

    kind = "table"

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._columns: list[_Number | _Category] = []

    @property
    def feature_names_(self) -> list[str]:
        """The D features, in the order of the matrix's columns."""
        return [name for column in self._columns for name in column.names()]

    def fit(self, examples: DataTable, drop: Sequence[str] = ()) -> TableEncoder:
        """Learn from the training rows how to encode; the columns in `drop`, the labels, are left out."""
        for name in drop:
            examples.column(name)
        self.notes, self._columns = [], []
        for name, values in examples.columns.items():
            if name not in drop:
                self._fit_column(name, values)
        if not self._columns:
            why = "; ".join(self.notes[:3]) or "there is no other column than the labels"
            raise ValueError(f"the table must have a column to learn from; got none: {why}")
        return self

    def _fit_column(self, name: str, values: NDArray[Any]) -> None:
        """Choose how to encode one column, or note why it is left out."""
        numbers = numbers_of(values)
        if numbers is not None:
            column: _Number | _Category = _Number.fit(name, numbers)
        else:
            counts = Counter(texts_of(values))
            n_distinct, n_known = len(counts) - (None in counts), len(values) - counts[None]
            if n_distinct > _MOST_CATEGORIES and 2 * n_distinct > n_known:
                self.notes.append(f"column {name!r} is left out: {n_distinct} different texts in {n_known} rows")
                return
            by_count = sorted(counts, key=lambda text: (-counts[text], text or ""))
            column = _Category(name, by_count[:_MOST_CATEGORIES] if len(counts) > 1 else [])
        if column.names():
            self._columns.append(column)
        else:
            self.notes.append(f"column {name!r} is left out: it is the same in every row")

    def transform(self, examples: DataTable) -> NDArray[np.float32]:
        """Encode rows; columns that `fit` did not see are ignored, and those it used must be there.

        Returns
        -------
        (N, D) float32
        """
        if not self._columns:
            raise ValueError("the encoder must be fitted before it transforms; call fit first")
        absent = [column.name for column in self._columns if column.name not in examples.columns]
        if absent:
            named = ", ".join(near(name, examples.columns) for name in absent[:3]) + ", ..." * (len(absent) > 3)
            raise ValueError(f"the table must have the columns learned from; it lacks {len(absent)}: {named}")
        widths = [len(column.names()) for column in self._columns]
        X = np.zeros((examples.n_rows, sum(widths)), dtype=np.float32)
        start = 0
        for column, width in zip(self._columns, widths):
            column.encode(examples.columns[column.name], X[:, start : start + width])
            start += width
        return X

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        return {"kind": self.kind, "columns": [asdict(column) for column in self._columns], "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TableEncoder:
        """Make the encoder that :meth:`to_dict` described."""
        encoder = cls()
        try:
            encoder.notes = list(state["notes"])
            encoder._columns = [
                _Category(**column) if "categories" in column else _Number(**column) for column in state["columns"]
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(f"an encoder's state must be what to_dict gave; it is not: {error}") from None
        return encoder
