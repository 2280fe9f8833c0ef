"""Where a survey's answers are kept: what the pages sent, and nothing about who sent it.

A row of ``submission`` holds an id that the page made up, the day, and what was stored, in the words of the page that
showed it: ``{"team": {"is": "Sales"}, "leaving": {"not": "Yes"}, "harassed": {"drawn": "No"}}``. There is no address,
no browser, no time of day, and no order: SQLite keeps the table sorted by the random id. (PostgreSQL lays rows down as
they come, and the privacy page then says so; SQLite's write-ahead log holds the latest in order until the server ends.)
Rows are added, never changed, but for the step that put the rows of version 1, where "not Yes" was kept as "Yes",
into this form.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    select,
    update,
)

from naysayer.collect.database import Database
from naysayer.collect.schema import append_only
from naysayer.collect.tokens import Tokens, token_table
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
    Column("answers", Text, nullable=False),  # JSON: question → what was stored, as it was shown
    sqlite_with_rowid=False,  # a row number would tell the order in which people answered
)
token = token_table("survey_token", metadata)  # of the owner, who is the only one with links
_TOKENS = Tokens(token)


class SurveyStore:
    """The answers of one survey, in a SQLite file or a PostgreSQL database.

    Parameters
    ----------
    where : the path of a SQLite file, or a URL that begins with ``postgresql://``.
    survey : the survey whose answers these are. Once there are some, its options and modes may not change, since the
        answers would mean something else; its words may. None: whatever survey the store is of; it must be there.
    create : begin a new store where there is none; else it must be there.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.survey.questions import Option, SurveyQuestion
    >>> colour = SurveyQuestion("colour", "Which?", (Option("red", "Red"), Option("blue", "Blue")))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SurveyStore(os.path.join(folder, "survey.db"), Survey("Colours", "", (colour,)))
    ...     said = {"colour": {"is": "red"}}
    ...     print(store.add("00ff", said), store.add("00ff", said), store.answers())
    ...     store.close()
    True False [{'colour': {'is': 'red'}}]
    """

    def __init__(self, where: str | os.PathLike[str], survey: Survey | None, *, create: bool = True) -> None:
        self._database = Database(where)
        self.name = self._database.name
        self.unordered = self._database.path is not None  # PostgreSQL lays rows down as they come
        if not (create and survey) and self._database.path is not None and not self._database.path.exists():
            raise FileNotFoundError(f"no store of answers at {self._database.name}; serve the survey first")
        try:
            with self._database.reading() as connection:
                # of something else nothing may be changed, not even how its file is written
                if _version(connection) == 0 and survey is None:
                    raise ValueError(f"{self.name} must be a survey's store; it is empty; serve the survey first")
            self._database.write_ahead()
            with self._database.writing() as connection:
                _migrate(connection)
                if survey is not None:
                    _check_same(connection, survey, self._database.name)
                self.questions: dict[str, Any] = json.loads(_get(connection, "questions") or "{}")
                self.key = _kept(connection, "key", secrets.token_urlsafe(16))
        except BaseException:
            self._database.close()
            raise

    def add(self, name: str, answers: Mapping[str, Any]) -> bool:
        """Store one respondent's answers, durably; False where that id was stored before, and nothing is changed."""
        row = {"id": name, "day": datetime.now(timezone.utc).date().isoformat()}
        with self._database.writing() as connection:  # no other writes between the look and the insertion
            if connection.execute(select(submission.c.id).where(submission.c.id == name)).first() is not None:
                return False
            connection.execute(insert(submission).values(**row, answers=_dumps(dict(answers))))
        return True

    def answers(self) -> list[dict[str, Any]]:
        """All stored answers, one dict a respondent, in the order of their random ids."""
        return [row["answers"] for row in self.rows()]

    def rows(self) -> list[dict[str, Any]]:
        """All that is stored, one dict a respondent: id, day and answers, in the order of their random ids."""
        with self._database.reading() as connection:
            rows = connection.execute(select(submission).order_by(submission.c.id))
            return [{"id": row.id, "day": row.day, "answers": json.loads(row.answers)} for row in rows]

    def count(self) -> int:
        """How many respondents there are."""
        with self._database.reading() as connection:
            return _count(connection)

    def new_link(self) -> str:
        """Make a token for a link that opens the results, once; those made before go on."""
        with self._database.writing() as connection:
            return _TOKENS.new_link(connection, "owner")

    def admit(self, link: str) -> str | None:
        """Exchange a link's token for the secret that shows the results, once; None: it is none, or was exchanged."""
        with self._database.reading() as connection:  # so that nobody who guesses makes others wait
            if not _TOKENS.is_link(connection, link):
                return None
        with self._database.writing() as connection:
            return _TOKENS.exchange(connection, link)

    def is_owner(self, secret: str) -> bool:
        """Whether this secret shows the results."""
        with self._database.reading() as connection:
            return _TOKENS.session(connection, secret) is not None

    def end_links(self) -> None:
        """End all links to the results, opened or not."""
        with self._database.writing() as connection:
            _TOKENS.end(connection)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()


def is_survey(where: str | os.PathLike[str]) -> bool:
    """Whether a place holds a survey's answers; nothing is made where nothing is."""
    database = Database(where)
    try:
        if database.path is not None and not database.path.exists():
            return False
        with database.reading() as connection:
            return inspect(connection).has_table("survey_meta")
    finally:
        database.close()


def _create(connection: Connection) -> None:
    """Version 1."""
    metadata.create_all(connection, tables=[meta, submission])
    append_only(connection, "submission")


def _write_out(connection: Connection) -> None:
    """Version 2: of "not Yes" and of "Yes, by a draw" version 1 kept "Yes" alone; now each row says which it is."""
    reads = {None: "is", "complementary": "not", "calibrated": "not", "randomised_response": "drawn"}
    says = {name: reads[q["mode"]] for name, q in json.loads(_get(connection, "questions") or "{}").items()}
    rows = connection.execute(select(submission.c.id, submission.c.answers)).all()
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        found = "SELECT sql FROM sqlite_master WHERE name = 'submission_no_update'"
        again = connection.exec_driver_sql(found).scalar_one()
        connection.exec_driver_sql("DROP TRIGGER submission_no_update")
    else:
        again = "ALTER TABLE submission ENABLE TRIGGER submission_append_only"
        connection.exec_driver_sql("ALTER TABLE submission DISABLE TRIGGER submission_append_only")
    connection.execute(
        update(submission).where(submission.c.id == bindparam("name")).values(answers=bindparam("said")),
        [
            {"name": row.id, "said": _dumps({q: {says[q]: option} for q, option in json.loads(row.answers).items()})}
            for row in rows
        ],
    )
    connection.exec_driver_sql(again)


def _create_tokens(connection: Connection) -> None:
    """Version 3: links and the secrets that they are exchanged for; the link of before can be opened once more."""
    metadata.create_all(connection, tables=[token])
    hash = _get(connection, "owner")
    if hash is not None:
        values = {"hash": hash, "person": "owner", "kind": "link", "created": time.time(), "expires": None}
        connection.execute(insert(token).values(values))
        connection.execute(delete(meta).where(meta.c.key == "owner"))


MIGRATIONS = (_create, _write_out, _create_tokens)  # in order, each from the version before it


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


def _dumps(answers: dict[str, Any]) -> str:
    return json.dumps(answers, ensure_ascii=False)


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
