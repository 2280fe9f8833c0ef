"""The people of a store, and the links that let them in."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from naysayer.collect.connected import Connected
from naysayer.collect.database import Database
from naysayer.collect.records import Annotator, Project, Role
from naysayer.collect.schema import annotator, token
from naysayer.collect.tokens import Tokens, hash_token
from naysayer.data.items import is_name

RECALL_SECONDS = 5.0  # for so long at the most does a secret work on that another process has ended
_TOKENS = Tokens(token)


class Links(Connected):
    """Adds people, gives them links, and knows them by the secrets that these were exchanged for."""

    def __init__(self, database: Database, project: Project) -> None:
        super().__init__(database, project)
        self._recalled: dict[str, tuple[Annotator, float]] = {}  # hash of a secret → whose it is, until when

    def named_annotator(self, name: str, role: Role = "annotator") -> Annotator:
        """Give the annotator of this name who has no token, added now if need be: for localhost and for imports."""
        new = _new_annotator(name, role)

        def find(connection: Connection) -> Annotator:
            here = (annotator.c.name == name) & (annotator.c.role == role) & annotator.c.token_hash.is_(None)
            found = connection.execute(select(annotator).where(here).order_by(annotator.c.created)).mappings().first()
            if found is None:
                connection.execute(insert(annotator).values(asdict(new)))
            return _annotator(found) if found else new

        return self._change(find)

    def add_annotator(self, name: str, role: Role = "annotator", until: float | None = None) -> tuple[Annotator, str]:
        """Add an annotator and give their link's token; only its hash is stored, so it is shown just once."""
        new = _new_annotator(name, role)

        def add(connection: Connection) -> str:
            link = _TOKENS.new_link(connection, new.id, until)
            connection.execute(insert(annotator).values(asdict(new) | {"token_hash": hash_token(link)}))
            return link

        return new, self._change(add)

    def new_link(self, annotator_id: str, until: float | None = None) -> str:
        """Give an annotator one more link, and who was revoked is welcome again; `until` is its end, None: it has none.

        Links that were made before go on, and so do the browsers that they let in.
        """

        def add(connection: Connection) -> str:
            _set_annotator(connection, annotator_id, revoked=None)
            return _TOKENS.new_link(connection, annotator_id, until)

        return self._change(add)

    def admit(self, link: str) -> str | None:
        """Exchange a link's token for a secret, once; None: it is none, was exchanged before, or has ended."""
        with self._database.reading() as connection:  # so that nobody who guesses keeps the one writer busy
            if not _TOKENS.is_link(connection, link):
                return None
        return self._change(lambda connection: _TOKENS.exchange(connection, link))

    def revoke(self, annotator_id: str) -> None:
        """End an annotator's links and let none of their browsers go on; their answers stay."""

        def end(connection: Connection) -> None:
            _set_annotator(connection, annotator_id, revoked=time.time())
            _TOKENS.end(connection, annotator_id)

        self._end(end)

    def end_links(self) -> None:
        """End everybody's links, and let no browser go on without a new one."""
        self._end(_TOKENS.end)

    def _end(self, end: Callable[[Connection], None]) -> None:
        try:
            self._change(end)
        finally:  # also when it failed: a commit whose acknowledgement was lost has happened
            self._recalled = {}

    def annotator_by_token(self, secret: str) -> Annotator | None:
        """Give the annotator whose link was exchanged for this secret, unless that has ended."""
        recalled = self._recalled  # a change from now on puts another in its place: what is read here may be older
        with self._database.reading() as connection:
            session = _TOKENS.session(connection, secret)
            if session is None:
                return None
            row = connection.execute(select(annotator).where(annotator.c.id == session.person)).mappings().one()
        left = min(RECALL_SECONDS, session.until - time.time())
        recalled[hash_token(secret)] = _annotator(row), time.monotonic() + left
        return _annotator(row)

    def recall(self, secret: str) -> Annotator | None:
        """Give the annotator whose secret this was when `annotator_by_token` last looked; None where that is too old.

        This does not wait for the database. What this process changes it knows at once.
        """
        found, until = self._recalled.get(hash_token(secret), (None, -math.inf))
        return found if time.monotonic() < until else None

    def annotators(self) -> list[Annotator]:
        """Give all annotators in the order in which they were added."""
        with self._database.reading() as connection:
            query = select(annotator).order_by(annotator.c.created, annotator.c.id)
            return [_annotator(row) for row in connection.execute(query).mappings()]


def _annotator(row: RowMapping) -> Annotator:
    """Make an annotator of their row."""
    return Annotator(**{name: row[name] for name in ("id", "name", "role", "created", "revoked")})


def _new_annotator(name: str, role: Role) -> Annotator:
    """Make an annotator who is not stored yet."""
    if not is_name(name) or len(name) > 200:
        raise ValueError(f"an annotator's name must be 1 to 200 characters that can be printed; got {name[:50]!r}")
    if role not in ("owner", "annotator"):
        raise ValueError(f"an annotator's role must be 'owner' or 'annotator'; got {role!r}")
    return Annotator(secrets.token_hex(16), name, role, time.time())


def _set_annotator(connection: Connection, annotator_id: str, **values: Any) -> None:
    """Change an annotator who must be there."""
    if not connection.execute(update(annotator).where(annotator.c.id == annotator_id).values(values)).rowcount:
        raise KeyError(f"the store must have the annotator; it has none with the id {annotator_id!r}")
