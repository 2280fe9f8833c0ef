"""Records into numbers, column by column, as tables are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.data.items import Item
from naysayer.data.tables import DataTable
from naysayer.features.tables import TableEncoder


class RecordEncoder:
    """The fields of records, encoded by :class:`naysayer.features.tables.TableEncoder`: (N, D) float32."""

    kind = "record"

    def __init__(self, table: TableEncoder | None = None, columns: Sequence[str] = ()) -> None:
        self.table, self.columns = table or TableEncoder(), list(columns)

    @property
    def device(self) -> str:
        """Where features of texts are computed."""
        return self.table.device

    @device.setter
    def device(self, device: str) -> None:
        self.table.device = device

    @property
    def verbose(self) -> int:
        """Whether a bar shows how far that is."""
        return self.table.verbose

    @verbose.setter
    def verbose(self, verbose: int) -> None:
        self.table.verbose = verbose

    @property
    def notes(self) -> list[str]:
        """What was left out and why, one line each."""
        return self.table.notes

    def fit(self, examples: Sequence[Item]) -> RecordEncoder:
        """Learn how to encode each field."""
        self.columns = list(dict.fromkeys(name for item in examples for name in _record(item)))
        self.table.fit(_as_table(examples, self.columns))
        return self

    def transform(self, examples: Sequence[Item]) -> NDArray[np.float32]:
        """Encode records; fields that `fit` did not see are ignored, and those a record lacks are missing."""
        return self.table.transform(_as_table(examples, self.columns))

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        return {"kind": self.kind, "columns": self.columns, "table": self.table.to_dict()}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> RecordEncoder:
        """Make the encoder that :meth:`to_dict` described."""
        return cls(TableEncoder.from_dict(state["table"]), state["columns"])


def _record(item: Item) -> dict[str, Any]:
    return item.content if isinstance(item.content, dict) else {}


def _as_table(items: Sequence[Item], columns: Iterable[str]) -> DataTable:
    """Records as columns of objects, None where missing; they have no folder where paths of pictures would begin."""
    values = {name: np.array([_record(item).get(name) for item in items], dtype=object) for name in columns}
    return DataTable(values, folder=None)
