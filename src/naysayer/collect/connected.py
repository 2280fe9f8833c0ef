"""What every part of a store is built on: a database, and the one writer that all changes go through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, RowMapping

from naysayer.collect.database import Database, StoreError
from naysayer.collect.records import Project
from naysayer.collect.writer import GroupWriter

CHUNK = 500  # rows that are registered, loaded or read at a time


class Connected(ABC):
    """A store's database and project, and how they are read and changed; `Store` is made of what derives from it."""

    def __init__(self, database: Database, project: Project) -> None:
        self._database, self._project = database, project
        self._writer: GroupWriter[Connection, Any] = GroupWriter(
            database.writing, self._write, shared=lambda error: isinstance(error, StoreError)
        )

    @abstractmethod
    def _write(self, connection: Connection, requests: list[Any]) -> list[Any]:
        """Carry out requests that came at the same time."""

    def _change(self, change: Callable[[Connection], Any]) -> Any:
        """Let the one writer make a change, and wait until it is durable."""
        return self._writer.submit(change).result()

    def _stream(self, query: Any) -> Iterator[RowMapping]:
        """Read rows piece by piece, all from one moment."""
        with self._database.reading() as connection:
            yield from connection.execution_options(yield_per=CHUNK).execute(query).mappings()
