"""Places for a store: paths and URLs, and what goes wrong there in one line."""

from __future__ import annotations

import os
import sqlite3
import sys

import numpy as np
import pytest
from sqlalchemy import text

from helpers import raises
from naysayer.collect import database
from naysayer.collect.database import Database, StoreError
from naysayer.collect.exchange import export
from naysayer.collect.people import owner_of
from naysayer.collect.records import Project
from naysayer.collect.store import Store
from naysayer.data.items import text_item
from naysayer.features.cache import FeatureCache


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_path_and_its_url_are_the_same_place(tmp_path, form):
    path = tmp_path / "answers.db"
    place = Database(form.format(path))
    assert place.path == path
    assert place.name == str(path)
    place.close()


def test_a_name_without_a_folder_is_beside_the_reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Database("answers.db")
    assert place.path == tmp_path / "answers.db"
    place.close()


def test_no_password_is_shown():
    place = Database("postgresql://ann:secret@localhost/answers")
    assert place.path is None
    assert place.name == "postgresql+psycopg://ann:***@localhost/answers"
    place.close()


@pytest.mark.parametrize(
    "url", ["mysql://ann:secret@localhost/x", "http://localhost", "sqlite://", "sqlite:///:memory:"]
)
def test_other_databases_are_refused(url):
    begins = url.split("://")[0]
    with raises(
        f"a store must be the path of a SQLite file or a postgresql:// URL; got one that begins with '{begins}'"
    ):
        Database(url)


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with raises("a store on PostgreSQL needs psycopg: pip install 'naysayer[postgres]'; got postgresql", ImportError):
        Database("postgresql://ann:secret@localhost/answers")


def test_a_server_that_is_not_there_is_told_in_one_line(tmp_path):
    place = Database(f"postgresql://ann:secret@/answers?host={tmp_path}")
    with pytest.raises(
        StoreError, match=r"cannot read postgresql.*; look whether it runs and try again: nothing doubles"
    ) as error:
        place.reading().__enter__()
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_transaction_is_whole_or_not_at_all(where):
    place = Database(where)
    with place.writing() as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))

    def break_off():
        with place.writing() as connection:
            connection.execute(text("INSERT INTO t VALUES (1)"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    with place.reading() as connection:
        assert connection.scalar(text("SELECT count(*) FROM t")) == 0
    place.close()


def test_who_reads_goes_on_while_somebody_writes(where):
    place = Database(where)
    place.write_ahead()
    with place.writing() as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    with place.writing() as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
        with place.reading() as other:
            assert other.scalar(text("SELECT count(*) FROM t")) == 0
    place.close()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 1.0)


def test_who_writes_waits_and_then_says_so(where, impatient):
    one, other = Database(where), Database(where)
    words = f"cannot write {other.name}: another program has held it locked for 10 seconds; nothing was changed; close"
    with one.writing(), raises(words, StoreError), other.writing():
        pass
    with other.writing():
        pass
    one.close()
    other.close()


def test_sqlite_waits_for_the_disk_and_checks_what_rows_refer_to(tmp_path):
    place = Database(tmp_path / "answers.db")
    place.write_ahead()
    with place.reading() as connection:
        assert connection.scalar(text("PRAGMA synchronous")) == 2
        assert connection.scalar(text("PRAGMA foreign_keys")) == 1
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
    place.close()


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("database or disk is full", "the disk is full; nothing was changed; free some space and try again"),
        ("could not extend file: No space left on device", "the disk is full; nothing was changed; free some space"),
        ("attempt to write a readonly database", "the file or its folder is read-only; nothing was changed; let it be"),
        (
            "cannot execute INSERT in a read-only transaction",
            "the database is read-only; nothing was changed; let it be",
        ),
        ("canceling statement due to lock timeout", "another program has held it locked for 10 seconds; nothing was"),
        ("disk I/O error", "the disk gives an error; nothing was changed; look at the disk and try again"),
        ("something\nnew", "something new; nothing was changed; report it"),
    ],
)
def test_what_drivers_say_is_told_plainly(tmp_path, driver, words):
    place = Database(tmp_path / "answers.db")
    with raises(f"cannot write {place.name}: {words}", StoreError), place.told_plainly("write"):
        raise sqlite3.DatabaseError(driver)
    place.close()


def test_a_folder_that_is_not_there_is_told(tmp_path):
    place = Database(tmp_path / "no" / "answers.db")
    with raises(f"cannot write {place.name}: it cannot be opened; nothing was changed; look at the folder", StoreError):
        place.writing().__enter__()
    assert os.listdir(tmp_path) == []


# ---- who may read the files ---------------------------------------------------------------------------------------


def test_what_is_stored_is_not_for_others_on_this_machine(tmp_path):
    def others(path):
        return path.stat().st_mode & 0o077

    path = tmp_path / "answers.db"
    with Store.open(path, project=Project(("cat", "dog"))) as store:
        store.register([text_item("one", "1")])
        store.ask(owner_of(store).id)
        beside = sorted(file.name for file in tmp_path.iterdir())
        assert beside == ["answers.db", "answers.db-shm", "answers.db-wal"]
        assert [others(tmp_path / name) for name in beside] == [0, 0, 0]
        for ending in ("csv", "jsonl", "json", "parquet"):
            export(store, tmp_path / f"out.{ending}")
            assert others(tmp_path / f"out.{ending}") == 0, ending
    FeatureCache(tmp_path / "cache", {"name": "toy"}).put({"ab": np.array([1.0])})
    assert [others(file) for file in (tmp_path / "cache").iterdir()] == [0]


def test_a_store_that_its_owner_shares_stays_shared(tmp_path):
    path = tmp_path / "answers.db"
    Store.open(path, project=Project(("cat", "dog"))).close()
    path.chmod(0o640)
    Store.open(path).close()
    assert path.stat().st_mode & 0o777 == 0o640
