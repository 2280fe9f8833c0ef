"""Connections: SQLite by path, PostgreSQL by URL; what goes wrong there is told in one line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)

from naysayer.common.files import begin_private

WAIT_SECONDS = 10.0  # for whoever else is writing
_LOCK = 0x6E6179736179  # a number of our own for PostgreSQL's advisory lock: "naysay"


class StoreError(OSError):
    """A store cannot be read or written just now; the message is one line, and nothing was half done."""


class Database:
    """A place with tables: transactions that write come one after another, on SQLite and on PostgreSQL alike.

    Parameters
    ----------
    where : the path of a SQLite file, or a URL that begins with ``postgresql://``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Database(Path(folder, "answers.db"))
    ...     with database.writing() as connection:
    ...         connection.exec_driver_sql("SELECT 1 + 1").scalar()
    ...     database.close()
    2
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        url = _url(where)
        self.path = Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None
        self.name = str(self.path) if self.path else url.render_as_string(hide_password=True)
        self.address = str(self.path) if self.path else url.render_as_string(hide_password=False)
        if self.path:
            self._engine = create_engine(url, connect_args={"timeout": WAIT_SECONDS}, max_overflow=-1)
            event.listen(self._engine, "do_connect", lambda *_: begin_private(url.database or ""))
        else:
            try:
                self._engine = create_engine(
                    url,
                    connect_args={"connect_timeout": int(WAIT_SECONDS)},
                    pool_pre_ping=True,
                    pool_size=10,
                    max_overflow=20,
                )
            except ImportError:
                raise ImportError(
                    f"a store on PostgreSQL needs psycopg: pip install 'naysayer[postgres]'; got {self.name}"
                ) from None
        event.listen(self._engine, "connect", _prepare_sqlite if self.path else _prepare_postgresql)
        event.listen(self._engine, "begin", _begin)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that no other one runs beside; it is durable once the block has ended."""
        with self.told_plainly("write"), self._engine.connect() as connection:
            connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self, *, one_moment: bool = False) -> Iterator[Connection]:
        """Open a transaction that only reads; those who write do not wait for it.

        `one_moment`: all its queries see what the first one saw, as they always do in SQLite.
        """
        with self.told_plainly("read"), self._engine.connect() as connection:
            connection.execution_options(one_moment=one_moment)
            with connection.begin():
                yield connection

    @contextmanager
    def told_plainly(self, what: str) -> Iterator[None]:
        """Turn what a driver raises into one line."""
        try:
            yield
        except (IntegrityError, DataError, ProgrammingError):  # a fault of ours, not of the place
            raise
        except (DBAPIError, sqlite3.Error) as error:
            raise _plain(error, what, self.name) from None

    def write_ahead(self) -> None:
        """Let those who read a new SQLite file go on while somebody writes to it (the file remembers)."""
        if self.path:
            with self.told_plainly("write"), self._engine.connect() as connection:
                connection.connection.execute("PRAGMA journal_mode = WAL")  # type: ignore[attr-defined]

    def forget(self) -> None:
        """Leave no trace of what was deleted in SQLite's log, unless somebody reads from it just now."""
        if self.path:
            with self.told_plainly("write"), self._engine.connect() as connection:
                connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _url(where: str | os.PathLike[str]) -> URL:
    """Give the URL of a path or of a text that is one already."""
    if isinstance(where, os.PathLike) or "://" not in where:
        return URL.create("sqlite", database=os.path.abspath(where))
    try:
        url = make_url(where)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        backend = ""
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database and url.database != ":memory:":
        return URL.create("sqlite", database=os.path.abspath(url.database))
    raise ValueError(
        f"a store must be the path of a SQLite file or a postgresql:// URL; got one that begins with "
        f"{where.split('://')[0]!r}"
    )


def _prepare_sqlite(connection: Any, _: Any) -> None:
    """Set what holds for one connection to SQLite."""
    connection.isolation_level = None  # the driver shall begin nothing by itself; `_begin` does
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
    connection.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk: it outlives a loss of power


def _prepare_postgresql(connection: Any, _: Any) -> None:
    """Set what holds for one connection to PostgreSQL."""
    connection.execute(f"SET lock_timeout = '{WAIT_SECONDS:g}s'")
    connection.execute("SET jit = off")  # compiling takes longer than any query here
    connection.commit()


def _begin(connection: Connection) -> None:
    """Begin a transaction; one that writes takes its turn first, so that what it reads stays true until it commits."""
    options = connection.get_execution_options()
    writes = options.get("writes")
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    elif writes:
        # Who writes looks for few rows, by their keys. Until PostgreSQL has counted a new table (a minute or more), it
        # takes the table for tiny and reads all of it again for each row: told not to, it uses the index, in its order.
        plan = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
        connection.exec_driver_sql(f"{plan}; SELECT pg_advisory_xact_lock({_LOCK})")
    elif options.get("one_moment"):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


_LOCKED = (f"another program has held it locked for {WAIT_SECONDS:g} seconds", "close that program and try again")
_PLAIN = {  # what SQLite and PostgreSQL say; what it means; what to do
    "database is locked": _LOCKED,
    "lock timeout": _LOCKED,
    "disk is full": ("the disk is full", "free some space and try again"),
    "no space left": ("the disk is full", "free some space and try again"),
    "readonly database": ("the file or its folder is read-only", "let it be written"),
    "read-only transaction": ("the database is read-only", "let it be written"),
    "unable to open": ("it cannot be opened", "look at the folder and its permissions"),
    "not a database": ("it is not a SQLite database", "choose another file"),
    "malformed": ("it is damaged or only half of it is there", "bring back a copy"),
    "disk i/o error": ("the disk gives an error", "look at the disk and try again"),
}


def _plain(error: Exception, what: str, name: str) -> StoreError:
    """Say in one line what went wrong."""
    reason = " ".join(str(getattr(error, "orig", error)).split())
    for words, (meaning, advice) in _PLAIN.items():
        if words in reason.lower():
            return StoreError(f"cannot {what} {name}: {meaning}; nothing was changed; {advice}")
    if isinstance(error, OperationalError):  # a lost connection may have been lost after the commit
        return StoreError(f"cannot {what} {name}: {reason[:300]}; look whether it runs and try again: nothing doubles")
    return StoreError(f"cannot {what} {name}: {reason[:300]}; nothing was changed; report it")
