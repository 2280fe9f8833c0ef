"""A store opened or begun, and brought to this version; what it asks, as it is kept there."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from naysayer.collect import schema
from naysayer.collect.database import Database, StoreError
from naysayer.collect.records import Project
from naysayer.collect.schema import meta


def open_project(database: Database, project: Project | None) -> Project:
    """Bring a store to this version; give what it asks."""
    path = database.path
    if path and path.is_dir():
        raise IsADirectoryError(f"a store must be a file; {path} is a folder")
    if path and project is None and not path.exists():
        raise FileNotFoundError(f"no store at {path}; begin one: naysayer ask ITEMS --classes cat,dog")
    if path and path.is_file() and _is_something_else(path):
        raise StoreError(f"cannot read {path}: it is not a SQLite database; nothing was changed; choose another file")
    with database.reading() as connection:
        before = schema.version(connection)
        stored = _stored_project(connection) if before else None
    if stored is None and project is None:
        raise ValueError(f"{database.name} must hold a store; it has no project in it; begin one: naysayer ask")
    if before != len(schema.MIGRATIONS) or stored is None:
        if before == 0:
            database.write_ahead()
        with database.writing() as connection:
            schema.migrate(connection)
            stored = _stored_project(connection)  # another server may have begun it since
            if stored is None and project is not None:
                stored = project
                keep_project(connection, project)
                connection.execute(insert(meta).values(key="created", value=repr(time.time())))
    assert stored is not None
    if project is not None and project.classes != stored.classes[: project.n_classes]:  # others may have come since
        raise ValueError(
            f"{database.name} must be asked for the classes it has, {', '.join(stored.classes)}; "
            f"got {', '.join(project.classes)}; naysayer add adds some; begin a new store for others"
        )
    return stored


def _is_something_else(path: Path) -> bool:
    """Tell whether a file is not SQLite's; SQLite itself takes one of a few bytes for empty, and writes over it."""
    with path.open("rb") as file:
        return file.read(16) not in (b"", b"SQLite format 3\0")


def _stored_project(connection: Connection) -> Project | None:
    """Read what a store asks."""
    text = connection.scalar(select(meta.c.value).where(meta.c.key == "project"))
    if text is None:
        return None
    found = json.loads(text)
    for name in ("classes", "probabilities"):
        found[name] = tuple(found[name]) if found[name] is not None else None
    return Project(**found)


def read_project(connection: Connection) -> Project:
    """Read what a store asks that has been begun."""
    project = _stored_project(connection)
    assert project is not None
    return project


def keep_project(connection: Connection, project: Project) -> None:
    """Write what a store asks."""
    connection.execute(delete(meta).where(meta.c.key == "project"))
    connection.execute(insert(meta).values(key="project", value=json.dumps(asdict(project))))
