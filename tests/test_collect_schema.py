"""Tables and their versions: an old store becomes one of ours, whole or not at all; anything else is refused."""

from __future__ import annotations

import json
import sqlite3

import pytest
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import DBAPIError

from helpers import raises
from naysayer.collect import schema
from naysayer.collect.database import Database, StoreError
from naysayer.collect.records import Answer, Project
from naysayer.collect.store import Store
from naysayer.collect.tokens import hash_token
from naysayer.data.items import text_item

PROJECT = Project(("cat", "dog", "horse"))

# Version 1 as it was written on disk. It stays as it is: stores like this one must open for ever.
VERSION_1 = """
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE item (position INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
  name TEXT NOT NULL, path TEXT, content TEXT, added DOUBLE NOT NULL);
CREATE TABLE annotator (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, token_hash TEXT UNIQUE, role TEXT NOT NULL,
  created DOUBLE NOT NULL, revoked DOUBLE);
CREATE TABLE question (id TEXT NOT NULL PRIMARY KEY, item_id TEXT NOT NULL REFERENCES item (id),
  class_index INTEGER NOT NULL, probability DOUBLE NOT NULL, annotator TEXT NOT NULL REFERENCES annotator (id),
  repeat_of TEXT REFERENCES question (id), asked DOUBLE NOT NULL);
CREATE TABLE answer (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  question_id TEXT NOT NULL REFERENCES question (id), annotator TEXT NOT NULL REFERENCES annotator (id),
  value TEXT NOT NULL, took_ms BIGINT, answered DOUBLE NOT NULL, undoes TEXT REFERENCES answer (id));
CREATE TABLE training (seq INTEGER PRIMARY KEY AUTOINCREMENT, at DOUBLE NOT NULL, n_answers INTEGER NOT NULL,
  method TEXT NOT NULL, estimate DOUBLE NOT NULL, low DOUBLE NOT NULL, high DOUBLE NOT NULL, detail TEXT NOT NULL);
INSERT INTO meta VALUES ('schema_version', '1');
INSERT INTO item VALUES (1, 'i1', 'text', 'a.csv row 1', NULL, '"one"', 1.0), (2, 'i2', 'text', 'b', NULL, '"two"', 1),
  (3, 'i3', 'text', 'c', NULL, '"three"', 1);
INSERT INTO annotator VALUES ('ann', 'Ann', NULL, 'annotator', 1.0, NULL);
INSERT INTO question VALUES ('q1', 'i1', 0, 0.5, 'ann', NULL, 1.0), ('q2', 'i1', 1, 0.5, 'ann', NULL, 1.0),
  ('q3', 'i2', 2, 0.5, 'ann', NULL, 1.0), ('q4', 'i1', 0, 0.5, 'ann', 'q1', 1.0);
INSERT INTO answer VALUES (1, 'a1', 'q1', 'ann', 'no', 900, 2.0, NULL), (2, 'a2', 'q2', 'ann', 'skip', 1, 3.0, NULL),
  (3, 'a3', 'q3', 'ann', 'yes', 5, 4.0, NULL), (4, 'a4', 'q3', 'ann', 'undo', NULL, 5.0, 'a3'),
  (5, 'a5', 'q4', 'ann', 'no', 7, 6.0, NULL);
"""


@pytest.fixture
def version_1(tmp_path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(VERSION_1)
        project = json.dumps({"classes": ["cat", "dog", "horse"], "probabilities": None})
        connection.execute("INSERT INTO meta VALUES ('project', ?)", [project])
    connection.close()
    return path


def tallies(store):
    with store._database.reading() as connection:
        return {row.item_id: tuple(row)[1:] for row in connection.execute(select(schema.tally))}


def test_a_store_of_version_1_opens_and_is_counted(version_1):
    with Store.open(version_1) as store:
        assert store.project == PROJECT
        assert tallies(store) == {"i1": (2, 1, 1, 0), "i2": (0, 0, 0, 0), "i3": (0, 0, 0, 0)}
        assert [standing.id for standing in store.standing()] == ["a1", "a2", "a5"]
        (question,) = store.ask("ann")
        assert question.item.id in ("i2", "i3")
        assert store.answer(Answer("a6", question.id, "ann", "no"))
    with Store.open(version_1) as store:  # and it stays so
        assert store.progress("ann").own == 4
        assert dict(map(dict.values, store.rows("meta")))["schema_version"] == str(len(schema.MIGRATIONS))


def test_a_new_store_has_the_columns_of_version_1_and_more(version_1, tmp_path):
    Store.open(tmp_path / "new.db", project=PROJECT).close()
    names = {}
    for path in (version_1, tmp_path / "new.db"):
        database = Database(path)
        with database.reading() as connection:
            found = inspect(connection)
            names[path] = {name: [c["name"] for c in found.get_columns(name)] for name in found.get_table_names()}
        database.close()
    old, new = names.values()
    assert all(new[table][: len(columns)] == columns for table, columns in old.items())
    assert new.keys() - old.keys() == {"tally", "pending", "belief", "ruling", "removed", "token"}


def test_links_from_before_there_were_secrets_can_be_opened_once(version_1):
    with sqlite3.connect(version_1) as connection:
        connection.execute("UPDATE annotator SET token_hash = ?", [hash_token("link")])
        gone = ("eve", "Eve", hash_token("ended"), "annotator", 1.0, 2.0)
        connection.execute("INSERT INTO annotator VALUES (?, ?, ?, ?, ?, ?)", gone)
    connection.close()
    with Store.open(version_1) as store:
        assert store.annotator_by_token("link") is None
        assert store.admit("ended") is None
        assert store.annotator_by_token(store.admit("link")).id == "ann"
        assert store.admit("link") is None


def test_each_place_begins_at_version_0(where):
    database = Database(where)
    with database.writing() as connection:
        assert schema.migrate(connection) == 0
        assert schema.migrate(connection) == schema.version(connection) == len(schema.MIGRATIONS)
    database.close()


def test_a_migration_happens_whole_or_not_at_all(where, monkeypatch):
    Store.open(where, project=PROJECT).close()

    def breaks(connection):
        connection.execute(text("CREATE TABLE half (x INTEGER)"))
        raise ValueError("in the middle")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, breaks))
    with raises("in the middle"):
        Store.open(where)
    monkeypatch.undo()
    with Store.open(where) as store, store._database.reading() as connection:
        assert "half" not in inspect(connection).get_table_names()
        assert schema.version(connection) == len(schema.MIGRATIONS)


def test_a_later_version_is_reached_step_by_step(version_1, monkeypatch):
    def adds(connection):
        connection.execute(text("ALTER TABLE item ADD COLUMN later TEXT"))

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, adds))
    for _ in range(2):
        with Store.open(version_1) as store, store._database.reading() as connection:
            assert "later" in [column["name"] for column in inspect(connection).get_columns("item")]
            assert schema.version(connection) == len(schema.MIGRATIONS)


def test_a_store_of_a_newer_version_is_refused(where):
    with Store.open(where, project=PROJECT) as store:
        name = store._database._engine.url.database
        with store._database.writing() as connection:
            connection.execute(schema.meta.update().where(schema.meta.c.key == "schema_version").values(value="99"))
    ours = len(schema.MIGRATIONS)
    for project in (None, PROJECT):
        with raises(f"{name} must be of version {ours} or older; it is of version 99; update naysayer"):
            Store.open(where, project=project)


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "bookmarks.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
    connection.close()
    before = path.read_bytes()
    for project in (None, PROJECT):
        with raises(f"{path} must be a store of naysayer's or empty; it has a table 'bookmark' of something else; cho"):
            Store.open(path, project=project)
    assert path.read_bytes() == before


@pytest.mark.parametrize("columns", ["key TEXT, value TEXT", "key TEXT, value TEXT, more TEXT", "name TEXT"])
def test_tables_of_our_names_that_are_not_ours_are_refused(where, columns):
    database = Database(where)
    with database.writing() as connection:
        connection.execute(text(f"CREATE TABLE meta ({columns})"))
        connection.execute(text("CREATE TABLE beside (x INTEGER)"))
    database.close()
    with raises("it has a table "):
        Store.open(where, project=PROJECT)


def test_a_server_may_have_other_tables_beside_ours(postgres_url):
    database = Database(postgres_url)
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE bookmark (url TEXT)"))
        connection.execute(text("INSERT INTO bookmark VALUES ('theirs')"))
    with Store.open(postgres_url, project=PROJECT) as store:
        assert store.project == PROJECT
    with database.reading() as connection:
        assert connection.scalars(text("SELECT url FROM bookmark")).all() == ["theirs"]
    database.close()


@pytest.mark.parametrize("content", [b"a,b\n1,2\n" * 99, b"\0" * 4096, b"SQLite format 3\0", b"x"])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "answers.db"
    path.write_bytes(content)
    for project in (None, PROJECT):
        with raises(
            f"cannot read {path}: it is not a SQLite database; nothing was changed; choose another", StoreError
        ):
            Store.open(path, project=project)
    assert path.read_bytes() == content


def test_an_empty_file_is_no_store_but_can_become_one(tmp_path):
    path = tmp_path / "answers.db"
    path.write_bytes(b"")
    with raises(f"{path} must hold a store; it has no project in it; begin one: naysayer ask"):
        Store.open(path)
    Store.open(path, project=PROJECT).close()


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_half_a_store_is_refused(tmp_path, kept):
    path = tmp_path / "answers.db"
    with Store.open(path, project=PROJECT) as store:
        store.register(text_item(f"text {i}", str(i)) for i in range(200))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with raises(f"cannot read {path}: it is damaged or only half of it is there; nothing was changed", StoreError):
        Store.open(path)


def test_no_answer_is_ever_changed_or_removed(where):
    with Store.open(where, project=PROJECT) as store:
        store.register([text_item("one", "1")])
        ann = store.named_annotator("Ann")
        (question,) = store.ask(ann.id)
        store.answer(Answer("a", question.id, ann.id, "no"))
        before = list(store.rows("answer"))
        for statement in ("UPDATE answer SET value = 'yes'", "DELETE FROM answer"):
            with (
                pytest.raises(DBAPIError, match="answers are only ever added"),
                store._database.writing() as connection,
            ):
                connection.execute(text(statement))
        assert list(store.rows("answer")) == before
