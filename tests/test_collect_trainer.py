"""Training in a process of its own: it comes when enough was said, says what goes wrong, and ends with the server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from helpers import wait_for
from naysayer.collect.records import Answer, Project
from naysayer.collect.store import Store
from naysayer.collect.trainer import NICE, Trainer
from naysayer.data.items import record_item

QUICK = {"max_epochs": 3, "n_seeds": 1, "seconds": 0.02, "every": 40}
FOR_EVER = QUICK | {"max_epochs": 10_000_000}
SERVER = """
import sys, time
from naysayer.collect.store import Store
from naysayer.collect.trainer import Trainer
with Store.open(sys.argv[1]) as store, Trainer(store, every=40, seconds=0.02, n_seeds=1, max_epochs=10_000_000) as one:
    while one._process is None:
        time.sleep(0.01)
    print(one._process.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "answers.db", project=Project(("low", "high")), random_state=0) as store:
        store.register(record_item({"height": i}, f"row {i}") for i in range(150))
        yield store


def answer(store, n):
    who = store.named_annotator("Ann").id
    for _ in range(n):
        (asked,) = store.ask(who)
        right = asked.class_index == (asked.item.content["height"] >= 75)
        store.answer(Answer(asked.id, asked.id, who, "yes" if right else "no"))


def is_there(pid):
    """Whether a process is there, and is no mere entry of one that has ended."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_it_trains_when_enough_has_come(store):
    with Trainer(store, **QUICK) as trainer:
        answer(store, 39)
        time.sleep(0.2)
        assert store.trainings() == []
        assert trainer._process is None
        answer(store, 10)
        wait_for(lambda: len(store.trainings()) == 1)
        process = trainer._process
        answer(store, 60)
        wait_for(lambda: len(store.trainings()) == 2)
        assert trainer._process is process  # the same one: it has imported what it needs, and read the images
    assert process.returncode == -signal.SIGKILL
    first, second = store.trainings()
    assert 40 <= first.n_answers <= 49 < 80 <= second.n_answers <= 109
    assert second.low <= second.estimate <= second.high
    assert second.detail["items"] + second.detail["unanswered"] == 150
    assert 0 <= second.detail["named"] <= 1
    assert second.detail["notes"] == []
    assert re.fullmatch("mlp, (forward|linear|neighbours|discriminant)", second.method)
    with Trainer(store, **QUICK) as again:  # nothing has come since
        time.sleep(0.2)
    assert again._process is None
    assert len(store.trainings()) == 2
    assert not [t for t in threading.enumerate() if t.name == "naysayer-trainer"]


def test_what_goes_wrong_is_said_and_ends_nothing(store):
    options = QUICK | {"network": "convolution"}
    with Trainer(store, **options) as trainer:
        answer(store, 50)
        wait_for(lambda: trainer.error is not None)
        assert trainer.error.startswith('ValueError: network "convolution" is for images; the items are records; ')
        first = trainer._process
        trainer._options |= {"network": "mlp", "max_epochs": 10_000_000}  # only the next process knows of it
        first.kill()
        first.wait()
        answer(store, 50)
        wait_for(lambda: trainer._process is not first)
        second = trainer._process
        second.kill()
        wait_for(lambda: trainer.error == "the training must come to an end; its process ended with -9")
        trainer._options["max_epochs"] = 3
        answer(store, 50)
        wait_for(lambda: trainer.error is None)
        assert trainer._process not in (first, second)
    assert [one.n_answers for one in store.trainings()] == [150]


def test_it_ends_at_once_and_leaves_nothing(store):
    answer(store, 60)
    with Trainer(store, **FOR_EVER) as trainer:
        wait_for(lambda: trainer._process is not None)
        pid = trainer._process.pid
        if sys.platform == "linux":  # where threads have priorities of their own
            here = os.getpriority(os.PRIO_PROCESS, 0)
            wait_for(lambda: min(19, here + NICE) in priorities(pid))
            assert os.getpriority(os.PRIO_PROCESS, pid) == here  # it may hold the lock of the store
    assert not is_there(pid)
    assert trainer.error is None
    assert store.trainings() == []


def priorities(pid):
    """Those of a process's threads, each as far as it is still there."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):
            found.add(os.getpriority(os.PRIO_PROCESS, int(task)))
    return found


def test_it_ends_with_a_server_that_is_killed(store, tmp_path):
    answer(store, 60)
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, tmp_path / "answers.db"], stdout=subprocess.PIPE, text=True
    )
    with server:
        pid = int(server.stdout.readline())
        assert is_there(pid)
        server.kill()
        server.wait()
    wait_for(lambda: not is_there(pid))
