"""A killed process, a locked file, a full disk, a file that may not be written: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import resource
import secrets
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import raises
from naysayer.collect import database
from naysayer.collect.store import Answer, Project, Store, StoreError
from naysayer.data.items import text_item

PROJECT = Project(("cat", "dog", "horse", "bird"), repeat_share=0.1)

# Other processes begin from one that has imported all this: importing takes seconds, forking does not.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["naysayer.collect.store"])


@contextmanager
def process(target, *arguments):
    """Run a function in another process, which speaks through a pipe; it is killed at the end."""
    ours, theirs = PROCESSES.Pipe()
    child = PROCESSES.Process(target=target, args=(theirs, *arguments))
    child.start()
    theirs.close()
    try:
        yield child, ours
    finally:
        child.kill()
        child.join()
        ours.close()


def begin(where, n=400):
    with Store.open(where, project=PROJECT) as store:
        store.register(text_item(f"text {i}", str(i)) for i in range(n))


def answer_until_killed(pipe, where, n_threads):
    """Answer as fast as may be; tell the id of each answer after the store has acknowledged it."""
    store, told = Store.open(where), threading.Lock()

    def work():
        name = store.named_annotator(secrets.token_hex(4)).id
        while True:
            for question in store.ask(name):
                given = Answer(secrets.token_hex(8), question.id, name, "no")
                assert store.answer(given)
                with told:
                    pipe.send(given.id)

    for _ in range(n_threads):
        threading.Thread(target=work, daemon=True).start()
    threading.Event().wait()


def the_rest(pipe):
    """Take what a process had said before it ended."""
    said = []
    with suppress(EOFError):
        while True:
            said.append(pipe.recv())
    return said


@pytest.fixture
def soak(monkeypatch):
    """The benchmark's module: its simulated annotators, its servers, its comparison."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module("soak")


def test_the_soak_sees_answers_that_are_lost_changed_or_doubled(soak, tmp_path):
    where = str(tmp_path / "answers.db")
    begin(where, 4)
    one = soak.Annotator(0, "token", 0, soak.LOOK)
    with Store.open(where) as store:
        ann = store.named_annotator("Ann").id
        for i, question in enumerate(store.ask(ann, 3)):
            store.answer(Answer(f"a{i}", question.id, ann, "no"))
            one.acknowledged[f"a{i}"] = question.id, "no"
    found = soak.check(where, [one], set())
    assert (found["acknowledged"], found["stored"], found["lost"], found["doubled"]) == (3, 3, 0, 0)
    one.acknowledged["a0"] = one.acknowledged["a0"][0], "yes"  # stored as another than was given
    one.acknowledged["a9"] = "q", "no"  # never stored
    assert soak.check(where, [one], set())["lost"] == 2
    del one.acknowledged["a1"]  # stored though nobody waits for it
    assert soak.check(where, [one], set())["doubled"] == 1
    assert soak.check(where, [], {"a0", "a1", "a2"})["stored"] == 0
    with Store.open(where) as store:
        store.load("answer", [row | {"id": "again"} for row in store.rows("answer") if row["id"] == "a2"])
    assert soak.check(where, [], {"a0", "a1", "a2", "again"})["doubled"] == 1  # two answers to one question


def test_what_was_acknowledged_survives_kill_9(where):
    begin(where)
    acknowledged = []
    for _ in range(3):
        with process(answer_until_killed, where, 8) as (child, pipe):
            acknowledged += [pipe.recv() for _ in range(20)]  # it is in the midst of answering
            os.kill(child.pid, signal.SIGKILL)
            acknowledged += the_rest(pipe)
            child.join(300)
            assert child.exitcode == -signal.SIGKILL
        with Store.open(where) as store:
            rows = [row["id"] for row in store.rows("answer")]
            assert len(rows) == len(set(rows))
            assert set(acknowledged) <= set(rows)
            assert store.progress().answers == len(rows)  # what is counted was written with the answers, or not at all
    if not where.startswith("postgresql"):
        with sqlite3.connect(where) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def hold_the_lock(pipe, path):
    """Hold a SQLite file locked until told to let go."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    pipe.send("locked")
    pipe.recv()
    connection.execute("ROLLBACK")
    pipe.send("free")


def test_a_file_locked_by_another_program(tmp_path, monkeypatch):
    path = tmp_path / "answers.db"
    begin(path, 5)
    with ExitStack() as opened:
        monkeypatch.setattr(database, "WAIT_SECONDS", 1.0)
        impatient = opened.enter_context(Store.open(path))
        monkeypatch.setattr(database, "WAIT_SECONDS", 300.0)
        patient = opened.enter_context(Store.open(path))
        ann = impatient.named_annotator("Ann").id
        (question,) = impatient.ask(ann)
        given = Answer("a", question.id, ann, "no")
        _, pipe = opened.enter_context(process(hold_the_lock, path))
        assert pipe.recv() == "locked"
        words = f"cannot write {path}: another program has held it locked for 10 seconds; nothing was changed; close"
        futures = [impatient.submit(given) for _ in range(20)]
        for future in futures:  # they waited together, not one after another
            with raises(words, StoreError):
                future.result(300)
        later = patient.submit(given)  # one that still waits when the lock is gone is written
        pipe.send("let go")
        assert pipe.recv() == "free"
        assert later.result(300) is True
        assert impatient.answer(given) is False


def fill_the_disk(pipe, path):
    """Answer until the store says that it cannot; then say what it said, and try again when told that there is room."""
    if (limit := pipe.recv()) is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    store = Store.open(path)
    ann = store.named_annotator("Ann").id
    acknowledged = []

    def answer():
        (question,) = store.ask(ann)  # after a failure the same one again, if it was handed out
        given = Answer(f"answer-to-{question.id}", question.id, ann, "skip")
        assert store.answer(given)
        acknowledged.append(given.id)

    try:
        while True:
            answer()
    except StoreError as error:
        pipe.send((acknowledged, str(error)))
    pipe.recv()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    answer()
    pipe.send(acknowledged)


def check_a_full_disk(path, limit, make_room):
    begin(path, 300)
    with process(fill_the_disk, path) as (_, pipe):
        pipe.send(limit)
        acknowledged, failed = pipe.recv()
        assert failed.startswith(f"cannot write {path}: the disk ")
        assert "; nothing was changed; " in failed
        make_room()
        pipe.send("there is room")
        after = pipe.recv()
        assert after[:-1] == acknowledged  # the same store goes on
    with Store.open(path) as store:
        assert [standing.id for standing in store.standing()] == after


def test_a_file_that_may_not_grow(tmp_path):
    path = tmp_path / "answers.db"
    begin(path, 300)
    check_a_full_disk(path, path.stat().st_size + 100_000, lambda: None)


def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1200k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        reason = "a small disk can be mounted only by root; the file that may not grow stands for it"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    try:
        (disk / "room").write_bytes(b"\0" * 300_000)
        check_a_full_disk(disk / "answers.db", None, (disk / "room").unlink)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def read_as_somebody_else(pipe, path):
    """Read and write a store that is not ours to write."""
    if os.getuid() == 0:
        os.setuid(65534)
    try:
        store = Store.open(path)
        pipe.send(store.n_items())
        store.named_annotator("Ann")
    except StoreError as error:
        pipe.send(str(error))


@pytest.fixture
def readable():
    """A folder that others may look into; pytest's own they may not."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_written(readable):
    path = readable / "answers.db"
    begin(path, 5)
    path.chmod(0o444)
    readable.chmod(0o777)
    with process(read_as_somebody_else, path) as (_, pipe):
        assert pipe.recv() == 5
        assert pipe.recv() == (
            f"cannot write {path}: the file or its folder is read-only; nothing was changed; let it be written"
        )


def test_a_folder_that_may_not_be_written(readable):
    path = readable / "answers.db"
    begin(path, 5)
    path.chmod(0o444)
    readable.chmod(0o555)
    with process(read_as_somebody_else, path) as (_, pipe):
        assert pipe.recv() == (
            f"cannot read {path}: the file or its folder is read-only; nothing was changed; let it be written"
        )


def test_a_server_that_was_restarted_is_found_again(postgres_server, postgres_url):
    with Store.open(postgres_url, project=PROJECT) as store:
        store.register(text_item(f"text {i}", str(i)) for i in range(5))
        ann = store.named_annotator("Ann").id
        (question,) = store.ask(ann)
        given = Answer("a", question.id, ann, "no")
        postgres_server.stop()
        with pytest.raises(
            StoreError, match=r"cannot write postgresql.*; look whether it runs and try again: nothing doubles"
        ):
            store.answer(given)
        postgres_server.start()
        assert store.answer(given) is True
        assert [standing.id for standing in store.standing()] == ["a"]


def test_two_servers_on_one_postgresql(soak, postgres_url):
    """Two processes, eight people on each, over HTTP: each answer is stored once, and no question asked of two."""
    with Store.open(postgres_url, project=replace(PROJECT, repeat_share=0.0)) as store:
        store.register(text_item(f"text {i}", str(i)) for i in range(3000))
        tokens = [store.admit(store.add_annotator(f"person {i}")[1]) for i in range(16)]

    async def work(ports):
        people = [soak.Annotator(ports[i % 2], token, i, (0.0, 0.05)) for i, token in enumerate(tokens)]
        done = asyncio.Event()
        tasks = [asyncio.create_task(each.work(done)) for each in people]
        while any(len(each.acknowledged) <= 10 for each in people) and not any(task.done() for task in tasks):
            await asyncio.sleep(0.05)
        done.set()
        await asyncio.gather(*tasks)
        return people

    servers = [soak.Server(postgres_url)]
    try:
        servers.append(soak.Server(postgres_url))
        people = asyncio.run(work([server.port for server in servers]))
    finally:
        for server in servers:
            server.stop()
    assert all(len(each.acknowledged) > 10 for each in people)
    assert all(each.fetching and min(each.fetching) > 0 for each in people)
    found = soak.check(postgres_url, people, set())
    assert (found["lost"], found["doubled"], found["resent"]) == (0, 0, 0)
    assert found["stored"] == found["acknowledged"]
    with Store.open(postgres_url) as store:
        asked = [(standing.item_id, standing.class_index) for standing in store.standing()]
    assert len(asked) == len(set(asked))
