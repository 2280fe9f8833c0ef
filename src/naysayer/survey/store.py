"""Where a survey's answers are kept: what the pages sent, and nothing about who sent it.

A row of ``submission`` holds an id that the page made up, the day, and the stored options. There is no address, no
browser, no time of day, and no order: SQLite keeps the table sorted by the random id. (PostgreSQL lays rows down as
they come, and the privacy page then says so; SQLite's write-ahead log holds the latest in order until the server ends.)
Rows are added, never changed.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from datetime import datetime, timezone

from sqlalchemy import Column, Connection, MetaData, Table, Text, func, insert, inspect, select

from naysayer.collect.database import Database
from naysayer.collect.schema import append_only
from naysayer.collect.store import hash_token
from naysayer.survey.questions import Survey

metadata = MetaData()
meta = Table(
    "survey_meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
submission = Table(
    "submission",
    metadata,
    Column("id", Text, primary_key=True),
    Column("day", Text, nullable=False),
    Column("answers", Text, nullable=False),  # JSON: question → stored option
    sqlite_with_rowid=False,  # a row number would tell the order in which people answered
)


class SurveyStore:
    """The answers of one survey, in a SQLite file or a PostgreSQL database.

    Parameters
    ----------
    where : the path of a SQLite file, or a URL that begins with ``postgresql://``.
    survey : the survey whose answers these are. Once there are some, its options and modes may not change, since the
        answers would mean something else; its words may.
    create : begin a new store where there is none; else it must be there.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.survey.questions import Option, SurveyQuestion
    >>> colour = SurveyQuestion("colour", "Which?", (Option("red", "Red"), Option("blue", "Blue")))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SurveyStore(os.path.join(folder, "survey.db"), Survey("Colours", "", (colour,)))
    ...     print(store.add("00ff", {"colour": "red"}), store.add("00ff", {"colour": "red"}), store.answers())
    ...     store.close()
    True False [{'colour': 'red'}]
    """

    def __init__(self, where: str | os.PathLike[str], survey: Survey, *, create: bool = True) -> None:
        self._database = Database(where)
        self.name = self._database.name
        self.unordered = self._database.path is not None  # PostgreSQL lays rows down as they come
        if not create and self._database.path is not None and not self._database.path.exists():
            raise FileNotFoundError(f"no store of answers at {self._database.name}; serve the survey first")
        try:
            with self._database.reading() as connection:
                _version(connection)  # of something else nothing may be changed, not even how its file is written
            self._database.write_ahead()
            with self._database.writing() as connection:
                _migrate(connection)
                _check_same(connection, survey, self._database.name)
                self.key = _kept(connection, "key", secrets.token_urlsafe(16))
        except BaseException:
            self._database.close()
            raise

    def add(self, name: str, answers: Mapping[str, str]) -> bool:
        """Store one respondent's answers, durably; False where that id was stored before, and nothing is changed."""
        row = {"id": name, "day": datetime.now(timezone.utc).date().isoformat()}
        with self._database.writing() as connection:  # no other writes between the look and the insertion
            if connection.execute(select(submission.c.id).where(submission.c.id == name)).first() is not None:
                return False
            connection.execute(insert(submission).values(**row, answers=json.dumps(dict(answers), ensure_ascii=False)))
        return True

    def answers(self) -> list[dict[str, str]]:
        """All stored answers, one dict a respondent, in the order of their random ids."""
        with self._database.reading() as connection:
            rows = connection.execute(select(submission.c.answers).order_by(submission.c.id))
            return [json.loads(row.answers) for row in rows]

    def count(self) -> int:
        """How many respondents there are."""
        with self._database.reading() as connection:
            return _count(connection)

    def new_owner_token(self) -> str:
        """Make the token that opens the results; the one before it ends. The store keeps its hash alone."""
        token = secrets.token_urlsafe(24)
        with self._database.writing() as connection:
            _put(connection, "owner", hash_token(token))
        return token

    def is_owner(self, token: str) -> bool:
        """Whether this is the owner's token; compared in constant time."""
        with self._database.reading() as connection:
            kept = _get(connection, "owner")
        return kept is not None and hmac.compare_digest(kept, hash_token(token))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()


def _create(connection: Connection) -> None:
    """Version 1."""
    metadata.create_all(connection)
    append_only(connection, "submission")


MIGRATIONS = (_create,)  # in order, each from the version before it


def _version(connection: Connection) -> int:
    """Give the version of a store, 0 where it is empty; refuse what is no survey's or newer."""
    name, found = connection.engine.url.database, set(inspect(connection).get_table_names())
    before = int(_get(connection, "schema_version") or 0) if "survey_meta" in found else 0
    # A file is one store; a server's database may have other tables beside ours.
    others = found if connection.dialect.name == "sqlite" else found & {"survey_meta", "submission", "answer"}
    if before == 0 and others:
        raise ValueError(
            f"{name} must be a survey's store or empty; it has a table {min(others)!r} of something else; "
            f"choose another place"
        )
    if before > len(MIGRATIONS):
        raise ValueError(
            f"{name} must be of version {len(MIGRATIONS)} or older; it is of version {before}; update naysayer"
        )
    return before


def _migrate(connection: Connection) -> None:
    """Bring a store to this version, inside the caller's transaction."""
    for step in MIGRATIONS[_version(connection) :]:
        step(connection)
    _put(connection, "schema_version", str(len(MIGRATIONS)))


def _check_same(connection: Connection, survey: Survey, name: str) -> None:
    """Refuse a survey whose questions are not those that the stored answers were given to."""
    wanted = {question.id: question.definition() for question in survey.questions}
    before = json.loads(_kept(connection, "questions", json.dumps(wanted)))
    changed = [each for each in {**before, **wanted} if before.get(each) != wanted.get(each)]
    if changed and _count(connection):
        raise ValueError(
            f"question {changed[0]!r} is not as it was when the answers in {name} were given; "
            f"only its words may change; take another --store"
        )
    _put(connection, "questions", json.dumps(wanted))


def _count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(submission)).scalar_one())


def _get(connection: Connection, key: str) -> str | None:
    return connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()


def _put(connection: Connection, key: str, value: str) -> None:
    if connection.execute(meta.update().where(meta.c.key == key).values(value=value)).rowcount == 0:
        connection.execute(insert(meta).values(key=key, value=value))


def _kept(connection: Connection, key: str, value: str) -> str:
    """What is kept under a key; from the first time on, this value."""
    found = _get(connection, key)
    if found is None:
        _put(connection, key, value)
        return value
    return found
