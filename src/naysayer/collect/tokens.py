"""Links that let people in, and the secrets that their browsers get for them; a store keeps the hashes alone.

A link is exchanged once, for a secret that is in no address and so in no history. Whoever finds the link later, on a
shared computer or in a forwarded message, finds nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import NamedTuple

from sqlalchemy import CheckConstraint, Column, Connection, Double, MetaData, Table, Text, delete, insert, select

SESSION_SECONDS = 90 * 24 * 3600.0  # after which a browser needs a new link


class Session(NamedTuple):
    """Whose a secret is, and until when."""

    person: str
    until: float


def token_table(name: str, metadata: MetaData) -> Table:
    """Define a table of tokens."""
    return Table(
        name,
        metadata,
        Column("hash", Text, primary_key=True),
        Column("person", Text, nullable=False, index=True),
        Column("kind", Text, CheckConstraint("kind IN ('link', 'session')"), nullable=False),
        Column("created", Double, nullable=False),
        Column("expires", Double),  # NULL: a link without an end
    )


def hash_token(token: str) -> str:
    """Give the hash under which a token is stored: a token is random, so a plain SHA-256 cannot be guessed back."""
    return hashlib.sha256(token.encode("utf8", "surrogatepass")).hexdigest()


class Tokens:
    """The tokens in one table, inside transactions of the caller's."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def new_link(self, connection: Connection, person: str, until: float | None = None) -> str:
        """Make a link's token, 128 random bits; others of the same person go on."""
        return self._new(connection, person, "link", until)

    def is_link(self, connection: Connection, link: str) -> bool:
        """Tell whether a link can be exchanged."""
        return self._find(connection, link, "link") is not None

    def exchange(self, connection: Connection, link: str) -> str | None:
        """Take a link for a new secret, which ends with it; None: there is no such link, or it was taken before."""
        found, now = self._find(connection, link, "link"), time.time()
        connection.execute(delete(self.table).where(self.table.c.expires <= now))
        if found is None:
            return None
        connection.execute(delete(self.table).where(self.table.c.hash == hash_token(link)))
        return self._new(connection, found.person, "session", min(found.until, now + SESSION_SECONDS))

    def session(self, connection: Connection, secret: str) -> Session | None:
        """Tell whose a secret is."""
        return self._find(connection, secret, "session")

    def end(self, connection: Connection, person: str | None = None) -> None:
        """End all links and secrets of somebody; None: of everybody."""
        table = self.table
        connection.execute(delete(table) if person is None else delete(table).where(table.c.person == person))

    def _new(self, connection: Connection, person: str, kind: str, until: float | None) -> str:
        token = secrets.token_urlsafe(16)
        values = {"hash": hash_token(token), "person": person, "kind": kind, "created": time.time(), "expires": until}
        connection.execute(insert(self.table).values(values))
        return token

    def _find(self, connection: Connection, token: str, kind: str) -> Session | None:
        digest, columns = hash_token(token), self.table.c
        row = connection.execute(select(self.table).where(columns.hash == digest, columns.kind == kind)).first()
        if row is None or not hmac.compare_digest(row.hash, digest):
            return None
        until = float("inf") if row.expires is None else row.expires
        return Session(row.person, until) if time.time() < until else None
