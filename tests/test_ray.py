"""Tasks on a real Ray cluster: the same numbers as without it, whatever happens to its machines; and bad addresses."""

from __future__ import annotations

import functools
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from helpers import raises
from naysayer import Population, complement, networks, objectives
from naysayer.experiments import tasks
from naysayer.experiments.jobs import Job, Run
from naysayer.experiments.report import Section
from naysayer.experiments.reproduce import EXPERIMENTS, Experiment
from naysayer.experiments.tasks import Here, OnRay, Task

ray = importlib.import_module("ray") if os.environ.get("CI") else pytest.importorskip("ray")
SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
EPOCHS = 40


@contextmanager
def same_handlers():
    """Ray handles SIGTERM in its own way; put back what was there."""
    on_term = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, on_term)


def connect(address):
    with same_handlers():
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")


@pytest.fixture(scope="module")
def cluster():
    """A cluster of one machine, to which a test may add another.

    Most tests share a connection, so that its processes import torch once; what is defined here goes to them as it is.
    """
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with same_handlers():
        made = Cluster(initialize_head=True, head_node_args=SMALL | {"include_dashboard": False})
    connect(made.address)
    yield made
    ray.shutdown()
    made.shutdown()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def second(cluster):
    """Another machine of the cluster, which the test takes away."""
    with same_handlers():
        return cluster.add_node(**SMALL)


@pytest.fixture
def unreachable():
    """An address where nothing listens: the port is taken, but nobody accepts."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def without_time(path):
    """A table without what it says of seconds and machines."""
    rows = [line.split(",") for line in Path(path).read_text(encoding="utf8").splitlines()]
    kept = [i for i, name in enumerate(rows[0]) if name not in ("seconds", "device")]
    return [[row[i] for i in kept] for row in rows]


# ---- a machine that is lost -----------------------------------------------------------------------------------


def train(seed, log, *, checkpoint, bar):
    """Train a population; note each epoch that is trained, and on which machine."""
    y = np.arange(90) % 3
    X = np.eye(3, dtype="float32")[y]
    runs = Population(functools.partial(networks.linear, 3, 3), objectives.Forward(3), seeds=[seed, seed + 1], lr=0.05)
    epoch = runs._epoch

    def noted(*rest):
        node = ray.get_runtime_context().get_node_id() if log else ""
        if log:
            with open(log, "a", encoding="utf8") as file:
                file.write(f"{node} {runs.course.epoch}\n")
            time.sleep(0.1)  # so that there is a middle
        epoch(*rest)

    runs._epoch = noted
    runs.fit(X, complement(y, 3, random_state=seed), max_epochs=EPOCHS, checkpoint=checkpoint, bar=bar)
    return runs.history["loss"], {name: t.numpy() for name, t in runs.parameters.items()}


def test_a_task_whose_machine_is_lost_goes_on_elsewhere_to_the_same_numbers(cluster, second, tmp_path):
    checkpoints = f"file://{tmp_path}/shared"  # as an object store's: carried to a file and back
    logs = [tmp_path / f"{seed}.log" for seed in (0, 10)]
    removed = []

    def remove():
        """Take the machine away once both machines are some epochs into their tasks."""
        while not all(log.exists() and len(log.read_text().splitlines()) > 5 for log in logs):
            time.sleep(0.02)
        removed.append(second.node_id)
        cluster.remove_node(second)

    remover = threading.Thread(target=remove, daemon=True)
    with OnRay(cluster.address, checkpoints, seconds=0) as workers:
        remover.start()
        made = [Task(str(log), train, (seed, str(log)), f"{seed}.checkpoint") for seed, log in zip((0, 10), logs)]
        found = {task.arguments[0]: result for task, result in workers.do(made, lambda *_: None)}
        for task in made:
            workers.forget(task)
    remover.join()
    assert list((tmp_path / "shared").glob("*")) == []  # checkpoints are gone

    alone = [Task(str(seed), train, (seed, ""), f"{seed}.checkpoint") for seed in (0, 10)]
    for task, (history, parameters) in Here(tmp_path / "here").do(alone, lambda *_: None):
        np.testing.assert_array_equal(found[task.arguments[0]][0], history)
        for name, value in parameters.items():
            np.testing.assert_array_equal(found[task.arguments[0]][1][name], value)

    said = [[line.split() for line in log.read_text().splitlines()] for log in logs]
    (moved,) = [lines for lines in said if any(node == removed[0] for node, _ in lines)]
    there = [int(epoch) for node, epoch in moved if node == removed[0]]
    after = [int(epoch) for node, epoch in moved if node != removed[0]]
    assert there[0] == 0
    assert 0 < after[0] <= there[-1] + 1  # it went on from a checkpoint, and did no epoch but the last again
    assert there[-1] < after[-1] == EPOCHS - 1
    (stayed,) = [lines for lines in said if lines is not moved]
    assert [int(epoch) for _, epoch in stayed] == list(range(EPOCHS))


def train_and_die(seed, log, *, checkpoint, bar):
    """Train, but be killed once, in the middle; note which process was told of each epoch."""
    killed = Path(f"{log}.killed")

    def told(*given):
        with open(log, "a", encoding="utf8") as file:
            file.write(f"{os.getpid()}\n")
        if not killed.exists() and len(Path(log).read_text().splitlines()) == 6:
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        bar(*given)

    return train(seed, "", checkpoint=checkpoint, bar=told)


def test_a_task_whose_process_is_killed_is_begun_again_to_the_same_numbers(cluster, tmp_path):
    log = tmp_path / "log"
    with OnRay(cluster.address, tmp_path / "shared", seconds=-1) as workers:
        task = Task("it", train_and_die, (3, str(log)), "it.checkpoint")
        ((_, (history, parameters)),) = workers.do([task], lambda *_: None)
    told = log.read_text().splitlines()
    assert (tmp_path / "log.killed").exists()
    assert len(set(told)) == 2
    assert len(told) == 6 + EPOCHS  # of those before, the second process was told as it took up from the checkpoint
    ((_, (alone, others)),) = Here(tmp_path / "here").do([Task("it", train, (3, ""), "it.checkpoint")], lambda *_: None)
    np.testing.assert_array_equal(history, alone)
    for name, value in others.items():
        np.testing.assert_array_equal(parameters[name], value)


def taken(checkpoint, bar):
    return ray.get_runtime_context().get_assigned_resources()


def test_a_task_takes_what_it_says_it_needs(cluster, tmp_path):
    made = [Task("plain", taken, (), "0"), Task("half", taken, (), "1", cpus=0.5, gpus=0, memory=50_000_000)]
    with OnRay(cluster.address, tmp_path) as workers:
        found = {task.name: resources for task, resources in workers.do(made, lambda *_: None)}
        assert found == {"plain": {"CPU": 1.0}, "half": {"CPU": 0.5, "memory": 50_000_000}}
        for needs, words in (
            ({"cpus": 2}, "must have the 2 cores and 0 GPUs that large takes; the most that one has are 1 and 0"),
            ({"gpus": 1}, "must have the 1 cores and 1 GPUs that large takes; the most that one has are 1 and 0"),
            ({"memory": 10**15}, "the 1 cores and 0 GPUs and 1,000,000,000 MB that large takes; the most that one has"),
        ):
            with raises(words):
                list(workers.do([Task("large", taken, (), "2", **needs)], lambda *_: None))


# ---- the commands ---------------------------------------------------------------------------------------------


def test_tune_gives_the_same_files_with_ray(cluster, naysayer, tmp_path):
    table = Path(__file__).parent.parent / "examples" / "flowers.csv"
    asked = ["tune", table, "--label", "answer", "--method", "forward,scl-nl,discriminant", "--network", "linear"]
    asked += ["--recipe", "plain", "--lr", "0.003,0.03", "--epochs", 9, "--seeds", 2, "--one-in", 2, "--device", "cpu"]
    here = naysayer(*asked, "--out", tmp_path / "here")
    ray.shutdown()
    try:
        there = naysayer(*asked, "--out", tmp_path / "there", "--ray", cluster.address)
        assert not ray.is_initialized()  # it has left what it joined
    finally:
        connect(cluster.address)
    assert (here.code, there.code) == (0, 0), here.err + there.err
    assert there.out.replace("there", "here") == here.out
    for name in ("trials.csv", "curves.csv"):
        assert without_time(tmp_path / "here" / name) == without_time(tmp_path / "there" / name)
    for file in (tmp_path / "here").glob("*.safetensors"):
        assert file.read_bytes() == (tmp_path / "there" / file.name).read_bytes()
    assert json.loads((tmp_path / "here" / "tune.json").read_text()) == json.loads(
        (tmp_path / "there" / "tune.json").read_text()
    )


def test_benchmark_gives_the_same_file_with_ray(cluster, naysayer, tmp_path):
    asked = ["benchmark", "--labels", "uniform,noisy", "--method", "forward,cpe-t", "--rates", "0.01", "--epochs", 2]
    asked += ["--seeds", 1, "--device", "cpu", "--out"]
    for folder, more in (("here", []), ("there", ["--ray", cluster.address])):
        done = naysayer(*asked, tmp_path / folder, *more)
        assert done.code == 0, done.err
    assert without_time(tmp_path / "here" / "results.csv") == without_time(tmp_path / "there" / "results.csv")
    assert not (tmp_path / "there" / "checkpoints").exists()


def test_reproduce_gives_the_same_files_with_a_ray_that_it_starts(cluster, naysayer, tmp_path, monkeypatch):
    small = [
        Job("some", "digits", "linear", (Run(method), Run(method, 1)), epochs=2, paper_epochs=2, validation=0.2)
        for method in ("forward", "ascent")
    ]
    on_digits = Experiment(lambda scale: small, lambda results, folder: Section("figure1", "Digits", "", []))
    monkeypatch.setitem(EXPERIMENTS, "figure1", on_digits)
    ray.shutdown()
    try:
        for folder, more in (("here", []), ("there", ["--ray"])):
            done = naysayer("reproduce", *more, "figure1", "--device", "cpu", "--out", tmp_path / folder)
            assert done.code == 0, done.err
    finally:
        connect(cluster.address)
    assert sorted(path.name for path in (tmp_path / "there" / "jobs").iterdir()) == sorted(
        f"{job.file}{ending}" for job in small for ending in (".csv.gz", ".json")
    )
    for job in small:
        one, other = ((tmp_path / folder / "jobs" / f"{job.file}.csv.gz").read_bytes() for folder in ("here", "there"))
        assert one == other


def test_scikit_learns_search_runs_on_ray(cluster, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trials that learn nothing
        runpy.run_path(str(Path(__file__).parent.parent / "examples" / "ray_search.py"))
    assert "'lr': 0.01" in capsys.readouterr().out


def refuse(checkpoint, bar):
    raise ValueError("a task must say what is wrong; it did")


class Absent:
    """Something of a package that the cluster's machines do not have."""

    def __reduce__(self):
        return __import__, ("a_package_that_is_not_there",)


def test_what_a_task_raises_and_what_no_machine_has_is_said_as_it_is(cluster, tmp_path, monkeypatch):
    cancelled = []
    monkeypatch.setattr(ray, "cancel", cancelled.append)
    bad, other = (Task(name, refuse, (), f"{name}.checkpoint") for name in ("bad", "other"))
    with OnRay(cluster.address, tmp_path) as workers, raises("a task must say what is wrong; it did"):
        list(workers.do([bad, other], lambda *_: None))
    assert len(cancelled) == 1  # the other one, which nobody waits for any more
    words = "Ray must be able to do it; it gave it up: System error: No module named 'a_package_that_is_not_there'"
    with OnRay(cluster.address, tmp_path) as workers, raises(words, RuntimeError):
        list(workers.do([Task("it", refuse, (Absent(),), "it.checkpoint")], lambda *_: None))
    words = "must have the 64 cores and 0 GPUs that a task takes; the most that one has are 1 and 0; lower --task-cpus"
    with raises(words), OnRay(cluster.address, tmp_path, cpus=64):
        pass


# ---- bad input ------------------------------------------------------------------------------------------------


def test_a_cluster_that_cannot_be_reached_is_said_in_one_line(naysayer, tmp_path, unreachable, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # another test may have connected this process
    done = naysayer("tune", "digits", "--out", tmp_path, "--ray", unreachable)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert f"{unreachable} cannot be reached" in done.err
    assert "start one with `ray start --head`" in done.err


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", tasks._frame(4) + tasks._frame(1, 5, 1, b"\x8d")]
)
def test_what_answers_but_is_no_ray_is_refused(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with raises("what answers there is no Ray", ConnectionError):
            tasks.check_answers(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_what_never_answers_is_not_awaited_for_ever(monkeypatch):
    monkeypatch.setattr(tasks, "PATIENCE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with raises(f"{address} cannot be reached: timed out; start one with `ray start --head`", ConnectionError):
            tasks.check_answers(address)


def test_a_ray_answers(cluster):
    tasks.check_answers(cluster.address)


def test_addresses_resources_and_places_must_make_sense(tmp_path):
    with raises("--ray must be an address such as 10.0.0.5:6379, auto, or nothing; got 'here'"):
        tasks.check_answers("here")
    with raises("a task must take a number of cores above 0; got 0"):
        OnRay("auto", tmp_path, cpus=0)
    with raises("a task must take a number of GPUs of 0 or more; got -1"):
        OnRay("auto", tmp_path, gpus=-1)
    with raises("--checkpoints must be a folder, or a URL that fsspec can open"):
        tasks.check_place("nothing://place")


def test_without_ray_it_is_said_what_to_install(naysayer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = naysayer("tune", "digits", "--out", tmp_path, "--ray")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "needs the package ray, which is not installed; pip install 'naysayer[ray]'" in done.err


def test_ray_takes_the_next_word_only_if_it_is_an_address():
    from naysayer.cli.app import _with_address

    assert _with_address([]) == []
    assert _with_address(["reproduce", "--ray", "table3"]) == ["reproduce", "--ray=local", "table3"]
    assert _with_address(["tune", "a.csv", "--ray"]) == ["tune", "a.csv", "--ray=local"]
    for address in ("auto", "local", "10.0.0.5:6379", "ray://head:10001", "[::1]:6379"):
        assert _with_address(["tune", "--ray", address]) == ["tune", "--ray", address]
