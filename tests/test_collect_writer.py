"""Group commit: what comes together shares a transaction, and each gets their own result only after it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from helpers import raises
from naysayer.collect.writer import GroupWriter


class Disk:
    """A store for numbers that can be slow, and break."""

    def __init__(self):
        self.written, self.batches, self.broken = [], [], None
        self.go, self.begun = threading.Event(), threading.Event()
        self.go.set()

    @contextmanager
    def transaction(self):
        new = []
        yield new
        self.begun.set()
        assert self.go.wait(300)
        if self.broken:
            raise self.broken
        self.written += new
        self.batches.append(new)

    def write(self, new, requests):
        if -2 in requests:
            raise ZeroDivisionError("one that spoils the transaction")
        new += [each for each in requests if each >= 0]
        return [each * 10 if each >= 0 else ValueError(f"{each} is negative") for each in requests]


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def writer(disk):
    writer = GroupWriter(disk.transaction, disk.write, shared=lambda error: isinstance(error, OSError), most=4)
    yield writer
    disk.go.set()
    writer.close()


def held_up(disk, writer):
    """Let a first request wait for the disk, so that the next ones gather."""
    disk.go.clear()
    first = writer.submit(0)
    assert disk.begun.wait(300)
    return first


def test_nothing_is_acknowledged_before_the_commit(disk, writer):
    first = held_up(disk, writer)
    assert not first.done()
    assert disk.written == []
    disk.go.set()
    assert first.result(300) == 0
    assert disk.written == [0]


def test_what_comes_meanwhile_shares_the_next_transaction_up_to_a_limit(disk, writer):
    held_up(disk, writer)
    futures = [writer.submit(i) for i in range(1, 7)]
    disk.go.set()
    assert [future.result(300) for future in futures] == [10, 20, 30, 40, 50, 60]
    assert disk.batches == [[0], [1, 2, 3, 4], [5, 6]]


def test_a_refused_request_concerns_nobody_else(disk, writer):
    held_up(disk, writer)
    futures = [writer.submit(i) for i in (1, -1, 3)]
    disk.go.set()
    assert futures[0].result(300) == 10
    assert futures[2].result(300) == 30
    with raises("-1 is negative"):
        futures[1].result(300)
    assert disk.batches == [[0], [1, 3]]


def test_when_one_spoils_the_transaction_the_others_are_written_alone(disk, writer):
    held_up(disk, writer)
    futures = [writer.submit(i) for i in (1, -2, 3)]
    disk.go.set()
    assert [futures[0].result(300), futures[2].result(300)] == [10, 30]
    with raises("one that spoils the transaction", ZeroDivisionError):
        futures[1].result(300)
    assert disk.batches == [[0], [1], [3]]


def test_a_full_disk_is_told_to_all_and_the_next_ones_are_written(disk, writer):
    held_up(disk, writer)
    futures = [writer.submit(i) for i in (1, 2)]
    disk.broken = OSError("the disk is full")
    disk.go.set()
    for future in futures:
        with raises("the disk is full", OSError):
            future.result(300)
    assert disk.written == []
    disk.broken = None
    assert writer.submit(7).result(300) == 70
    assert disk.written == [7]


def test_closing_writes_what_was_handed_in_and_takes_no_more(disk, writer):
    held_up(disk, writer)
    futures = [writer.submit(i) for i in range(1, 10)]
    closing = threading.Thread(target=writer.close)
    closing.start()
    disk.go.set()
    closing.join(300)
    assert [future.result(0) for future in futures] == [10 * i for i in range(1, 10)]
    assert disk.written == list(range(10))
    with raises("the store must be open; it was closed; open it again", RuntimeError):
        writer.submit(1)


def test_one_that_never_wrote_is_closed_at_once(disk):
    before = set(threading.enumerate())  # some of which may end meanwhile
    GroupWriter(disk.transaction, disk.write).close()
    assert (disk.written, set(threading.enumerate()) - before) == ([], set())
