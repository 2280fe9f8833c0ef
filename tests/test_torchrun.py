"""One model on many processes, started by torchrun itself: the parameters are those of one process."""

from __future__ import annotations

import atexit
import io
import os
import re
import runpy
import shutil
import signal
import socket
import sys
import tarfile
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from filelock import FileLock
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

from helpers import as_sets, fork, is_rows, of_all_workers, raises, random_transition, start_python
from naysayer import ComplementaryClassifier, Population, cli, complement, networks, objectives, open_stream
from naysayer.common.files import read_tensors
from naysayer.common.reduce import ended
from naysayer.data import stream as stream_module
from naysayer.engine import population as population_module
from naysayer.engine import processes
from naysayer.engine.recipe import Consistency
from naysayer.engine.source import Batch, Source

ROOT = Path(__file__).parent.parent
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
K, WORLD = 4, 4
N, BATCH, EPOCHS = 210, 30, 8  # 56 steps, of 7 or 8 rows in each of 4 processes


def blobs():
    rng = np.random.default_rng(0)
    y = np.arange(N) % K
    return (rng.normal(size=(N, 6)) + 2 * np.eye(K, 6)[y]).astype("float32"), y


def labels_of(kind):
    y = blobs()[1]
    if kind == "single":
        return complement(y, K, random_state=0)
    labels = complement(y, K, n_labels=2, random_state=1)
    labels[::3] = as_sets(complement(y, K, random_state=2)[::3], K)
    labels[1::4] = is_rows(y[1::4], K)
    labels[::11] = False
    return labels


def mlp():
    return networks.mlp(6, K, hidden=(8,))


def with_batch_norm():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, K))


def convolutional():
    convolution = [nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 6, 2), networks.BatchNorm(6)]
    return nn.Sequential(*convolution, nn.Flatten(), nn.Linear(12, K))


CASES = {
    "ascent": ("ascent", "single", False, mlp, "plain"),
    "ascent of known Q, mixed labels": ("ascent", "mixed", True, mlp, "plain"),
    "counts labels in its own way": ("scarce", "mixed", False, mlp, "plain"),
    "a layer of its own": ("cpe-t", "mixed", True, mlp, "plain"),
    "consistency of known Q": ("ascent", "mixed", True, mlp, Consistency(rise=2)),
    "batch norm": ("ascent", "single", False, with_batch_norm, "plain"),
    "our own batch norm": ("forward", "single", False, convolutional, Consistency(rise=2)),
}


def population(case, **options):
    name, _, known, network, recipe = CASES[case]
    objective = objectives.make(name, K, transition=random_transition(K) if known else None)
    n_runs = 2 if network is mlp else 1
    how = {
        "seeds": range(n_runs),
        "lr": [0.05, 0.02][:n_runs],
        "optimizer": "sgd",
        "batch_size": BATCH,
        "device": "cpu",
    }
    return Population(network, objective, recipe=recipe, **how | options)


def fit(case, runs=None, **options):
    X, y = blobs()
    how = {"rows": np.arange(180), "validation_rows": np.arange(180, N - 1), "test": (X[:51], y[:51])}
    how |= {"class_risks": True, "max_epochs": EPOCHS, "sample_weight": 0.5 + np.arange(N) % 3}
    return (runs or population(case)).fit(X, labels_of(CASES[case][1]), **how | options)


def classifier(**options):
    how = {"method": ["forward", "neighbours"], "hidden": (8,), "lr": 0.01, "max_epochs": 5, "device": "cpu"}
    return ComplementaryClassifier(**how | options).fit(blobs()[0], labels_of("mixed"))


def write_table(folder):
    """The blobs as nine files of uneven sizes."""
    folder.mkdir()
    X, _ = blobs()
    for i, rows in enumerate(np.split(np.arange(N), [10, 60, 75, 100, 110, 140, 165, 190])):
        columns = {f"x{j}": X[rows, j] for j in range(X.shape[1])}
        columns["answer"] = [f"!{'abcd'[k]}" for k in labels_of("single")[rows]]
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / f"part-{i}.parquet")
    return folder


def write_answers(folder):
    """The blobs with labels of all kinds as CSV files, of which one has no rows."""
    folder.mkdir()
    X, told = blobs()[0], labels_of("mixed")
    for i, rows in enumerate(np.split(np.arange(N), [0, 10, 60, 140])):
        lines = [[*X[row], " ".join(f"!{'abcd'[k]}" for k in np.flatnonzero(told[row]))] for row in rows]
        text = [",".join(map(str, line)) for line in [[*(f"x{j}" for j in range(X.shape[1])), "answer"], *lines]]
        (folder / f"part-{i}.csv").write_text("\n".join(text), encoding="utf8")
    wrong = folder.parent / "wrong"
    shutil.copytree(folder, wrong)
    with open(wrong / "part-2.csv", "a", encoding="utf8") as file:
        file.write(f"\n{'oops' + ',0' * (X.shape[1] - 1)},!a")


def write_images(folder):
    """A tar of small images for each process, in those of the last twice as large."""
    rng = np.random.default_rng(0)
    for i in range(WORLD):
        with tarfile.open(folder / f"{i}.tar", "w") as tar:
            for j in range(9 + i):
                side, content = 4 if i < WORLD - 1 else 8, io.BytesIO()
                Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(content, "PNG")
                for name, told in ((f"{i}{j}.png", content.getvalue()), (f"{i}{j}.cls", b"!" + b"abcd"[j % K :][:1])):
                    info = tarfile.TarInfo(name)
                    info.size = len(told)
                    tar.addfile(info, io.BytesIO(told))


def images(folder, size):
    stream = open_stream([folder / f"{i}.tar" for i in range(WORLD)], size=size)
    stream.hold_out(0.5)
    return stream


def opened(folder, leg_rows=60, **options):
    """The table as a stream, whose passes have more legs than there are shards for each process."""
    stream = open_stream(folder / "table", label="answer", leg_rows=leg_rows, **options)
    stream.hold_out(0.2, most=25)
    return stream


def fit_stream(source, **options):
    return population("ascent", batch_size=32).fit(source, **{"max_epochs": 6} | options)


def stream_classifier(folder, **options):
    how = {"method": "forward", "hidden": (8,), "lr": 0.01, "max_epochs": 5, "random_state": 0, "device": "cpu"}
    return ComplementaryClassifier(**how | options).fit(open_stream(folder / "table", label="answer"))


class Joined(Source):
    """The parts of a stream, dealt in one process as several deal them together."""

    def __init__(self, stream, n_parts):
        stream.survey()
        self.parts, self.n_classes = [stream.part_of(rank, n_parts, object()) for rank in range(n_parts)], K

    def prepare(self, seeds, batch_size, device):
        super().prepare(seeds, batch_size, device)
        for part in self.parts:
            part.prepare(seeds, batch_size, device)

    def batches(self, epoch, runs):
        for together in zip(*(part.batches(epoch, runs) for part in self.parts), strict=True):
            rows, labels, inputs = ([getattr(b, name) for b in together] for name in ("rows", "labels", "inputs"))
            yield Batch(torch.cat(rows, dim=2), torch.cat(labels, dim=2), torch.cat(inputs, dim=2))

    def count(self, runs, known_transition=False):
        return self.parts[0].count(runs, known_transition)

    def held_out(self, runs, size):
        for part in self.parts:
            yield from part.held_out(runs, size)


# ---- what each process does ---------------------------------------------------------------------------------------


def work(rank, folder):
    """Train all that the tests look at; refuse all that is to be refused."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1"}  # as torchrun does
    out, errors = sys.stdout, sys.stderr
    streamed = ["train", "--label", "answer", "--epochs", "2", "--hidden", "8", "--device", "cpu", "--out"]
    code = command(*streamed, folder / "answered", folder / "answers")
    sys.stdout, sys.stderr = out, errors
    found = {"answers": (code, threads())}
    os.environ["MASTER_PORT"] = os.environ["ANOTHER_PORT"]
    together = processes.join()
    for case in CASES:
        found[case] = kept(fit(case))
    found["stopped"] = kept(fit("ascent", checkpoint=folder / "of-many.safetensors", max_epochs=3))
    found["resumed"] = kept(fit("ascent", checkpoint=folder / "of-one.safetensors"))
    found["timed"] = len(fit("ascent", until=0.0 if rank == 0 else np.inf).history["loss"])
    X = blobs()[0]
    model = classifier(random_state=0)
    found["classifier"] = model.predict_proba(X), model.trials_, tuple(model.estimated_accuracy_)
    found["unseeded"] = classifier(method="forward", n_seeds=2, max_epochs=2, time_limit=60).predict_proba(X)
    model.save(folder / f"model{rank}")
    found["streamed"] = kept(fit_stream(opened(folder)))
    fit_stream(opened(folder), checkpoint=folder / "stream-of-many.safetensors", max_epochs=2)
    found["streamed, resumed"] = kept(fit_stream(opened(folder), checkpoint=folder / "stream-of-one.safetensors"))
    found["survey"] = opened(folder).part_of(rank, WORLD, together).survey()
    found["survey of images"] = images(folder, size=4).part_of(rank, WORLD, together).survey()
    everything = open_stream(folder / "table", label="answer").part_of(rank, WORLD, together)
    found["nothing held out"] = everything.survey().held_out[0].shape
    model = stream_classifier(folder)
    found["stream's classifier"] = model.predict_proba(X), model.center_, tuple(model.estimated_accuracy_)
    found["refused"] = [
        refused(lambda: fit("ascent", population("ascent", lr=0.05 * (1 + rank % 2)))),
        refused(lambda: population("ascent").fit(X + (rank == 3), labels_of("single"), max_epochs=1)),
        refused(lambda: population("ascent", batch_size=3).fit(X, labels_of("single"), max_epochs=1)),
        refused(lambda: together.from_first(lambda: 1 // rank)),  # which 1, 2 and 3 could do
        refused(lambda: fit_stream(open_stream(folder / "table/part-1.parquet", label="answer"))),
        refused(lambda: fit_stream(opened(folder, part=((rank + 1) % WORLD, WORLD)))),
        refused(lambda: fit_stream(opened(folder, memory=1000 + rank // 3))),
        refused(lambda: images(folder, size=None).part_of(rank, WORLD, together).survey()),
        refused(lambda: population("ascent", batch_size=3).fit(opened(folder))),
    ]
    train = ["train", ROOT / "examples/flowers.csv", "--label", "answer", "--method", "forward,neighbours"]
    train += ["--epochs", "3", "--hidden", "8", "--lr", "0.01", "--device", "cpu"]
    found["codes"] = [command(*train, "--out", folder / "flowers", "--report", folder / "flowers.html")]
    sys.stdout, sys.stderr = out, errors
    found["codes"].append(command(*streamed, folder / "streamed", folder / "table"))
    sys.stdout, sys.stderr = out, errors
    for arguments in (
        ["predict", folder / "flowers", "table.csv"],
        ["train", "answers.db", "--out", folder / "other"],
        [*train, "--out", folder / f"other{rank}"],
        [*train, "--out", folder / "flowers"],
    ):
        forget_told(together)
        found["codes"].append(command(*arguments))
        sys.stdout, sys.stderr = out, errors
        torch.distributed.barrier()
    forget_told(together)
    stream_module.SAMPLE_ROWS = 4  # of which none tells what is wrong
    found["codes"].append(command(*streamed, folder / "other", folder / "wrong"))  # one of them finds it, and ends
    torch.save(found, folder / f"{rank}.pt")


def forget_told(together):
    """Let the next mistake be told, too. What is set is not waited for, so it is asked for before others go on."""
    together.store.set("told", "0")
    together.store.get("told")
    torch.distributed.barrier()


def command(*arguments):
    """Run the command; give its exit code."""
    sys.argv = ["naysayer", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as stop:
        return stop.code


def kept(runs):
    history = {name: torch.from_numpy(values) for name, values in runs.history.items()}
    return {"parameters": runs.parameters, "buffers": runs.buffers, "history": history}


def refused(work):
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# ---- the tests ----------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What four processes came to, what they printed, and their folder; the workers of a run share it."""
    folder = of_all_workers(tmp_path_factory) / "torchrun"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            write_table(folder / "table")
            write_answers(folder / "answers")
            write_images(folder)
            fit("ascent", checkpoint=folder / "of-one.safetensors", max_epochs=3)
            fit_stream(opened(folder), checkpoint=folder / "stream-of-one.safetensors", max_epochs=2)
            job = start_python(__file__, "work", folder, MASTER_PORT=str(free_port()), ANOTHER_PORT=str(free_port()))
            out, errors = job.communicate(timeout=500)
            (folder / "out").write_text(out, encoding="utf8")
            (folder / "errors").write_text(errors, encoding="utf8")
            assert job.returncode == 0, errors
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)], folder


def assert_one(found, runs):
    """What a process came to is what one alone comes to, to 1e-5."""
    one = kept(runs)
    for part in ("parameters", "buffers"):
        assert found[part].keys() == one[part].keys()
        for name, tensor in one[part].items():
            torch.testing.assert_close(found[part][name], tensor, rtol=0, atol=1e-5)
    assert found["history"].keys() == one["history"].keys()
    for name, values in one["history"].items():
        torch.testing.assert_close(found["history"][name], values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_processes_train_what_one_trains(together, case):
    alone = fit(case)
    for found in together[0]:
        assert_one(found[case], alone)


def test_the_comparison_can_fail(together):
    with pytest.raises(AssertionError):
        assert_one(together[0][0]["ascent"], fit("ascent", max_epochs=EPOCHS - 1))
    with pytest.raises(AssertionError):
        assert_one(together[0][0]["ascent"], fit("ascent", population("ascent", batch_size=BATCH - 7)))


def test_training_resumes_on_another_number_of_processes(together):
    alone = fit("ascent")
    for found in together[0]:
        assert_one(found["resumed"], alone)  # one began, four went on
    path = together[1] / "of-many.safetensors"
    assert_one(together[0][0]["ascent"], fit("ascent", checkpoint=path))
    assert_one(together[0][0]["ascent"], fit("ascent", checkpoint=path))  # which has been done


# ---- streams ------------------------------------------------------------------------------------------------------


def test_processes_train_on_a_stream_what_one_with_all_their_batches_trains(together):
    stream = opened(together[1])
    alone = fit_stream(Joined(stream, WORLD))
    assert len(stream.survey().held_out[0]) == 25
    for found in together[0]:
        assert_one(found["streamed"], alone)
    with pytest.raises(AssertionError):  # other batches, since each process reads other shards
        assert_one(together[0][0]["streamed"], fit_stream(stream))


def test_the_parts_of_a_stream_are_all_of_it(together):
    parts = [opened(together[1], part=(rank, WORLD), leg_rows=1000) for rank in range(WORLD)]
    seen = []
    for part in parts:
        part.prepare([0], 32, torch.device("cpu"))
        seen.append({row for batch in part.batches(1, slice(0, 1)) for row in batch.rows.flatten().tolist()})
    assert set.union(*seen) == set(range(N - 25))
    assert sum(map(len, seen)) == N - 25


def test_a_survey_of_parts_is_that_of_the_whole(together):
    for name, alone in (("survey", opened(together[1])), ("survey of images", images(together[1], size=4))):
        alone = alone.survey()
        assert len(alone.held_out[0]) > 5
        for found in together[0]:
            survey = found[name]
            assert survey.n_rows == alone.n_rows
            assert torch.equal(survey.counts, alone.counts)
            np.testing.assert_allclose(survey.center, alone.center, atol=1e-12)
            np.testing.assert_allclose(survey.scale, alone.scale, rtol=1e-9)
            for mine, all_of_them in zip(survey.held_out, alone.held_out, strict=True):
                assert mine.dtype == all_of_them.dtype
                np.testing.assert_array_equal(mine, all_of_them)
    assert [found["nothing held out"] for found in together[0]] == [(0, 6)] * WORLD


def test_each_process_reads_its_part_alone(together):
    parts = [opened(together[1], part=(rank, WORLD)).survey() for rank in range(WORLD)]
    assert sum(part.n_rows for part in parts) == N
    assert min(part.n_rows for part in parts) > 40


def test_training_on_a_stream_resumes_on_another_number_of_processes(together):
    for found in together[0]:
        assert len(found["streamed, resumed"]["history"]["loss"]) == 6
        for name, tensor in found["streamed, resumed"]["parameters"].items():
            assert torch.equal(tensor, together[0][0]["streamed, resumed"]["parameters"][name])
    begun = fit_stream(opened(together[1]), max_epochs=2)
    first = together[0][0]["streamed, resumed"]["history"]["loss"][:2]
    np.testing.assert_array_equal(first, begun.history["loss"])  # as one process began
    path = together[1] / "stream-of-many.safetensors"
    resumed = fit_stream(opened(together[1]), checkpoint=path)  # which four began
    assert len(resumed.history["loss"]) == 6
    np.testing.assert_array_equal(resumed.history["loss"][:2], together[0][0]["streamed"]["history"]["loss"][:2])


def test_a_classifier_of_a_stream_is_the_same_in_every_process(together):
    alone = stream_classifier(together[1])
    for found in together[0]:
        p, center, accuracy = found["stream's classifier"]
        np.testing.assert_array_equal(p, together[0][0]["stream's classifier"][0])
        torch.testing.assert_close(center, alone.center_)
        assert accuracy == together[0][0]["stream's classifier"][2]
    y = blobs()[1]
    assert (p.argmax(axis=1) == y).mean() > (alone.predict(blobs()[0]) == np.array(list("abcd"))[y]).mean() - 0.1


# ---- classifiers --------------------------------------------------------------------------------------------------


def test_a_time_limit_stops_all_after_the_same_epoch(together):
    assert [found["timed"] for found in together[0]] == [1] * WORLD


def test_a_classifier_is_that_of_one_process(together):
    alone = classifier(random_state=0)
    for found in together[0]:
        p, trials, accuracy = found["classifier"]
        np.testing.assert_allclose(p, alone.predict_proba(blobs()[0]), atol=1e-4)
        assert [trial["method"] for trial in trials] == ["forward", "neighbours"]
        np.testing.assert_allclose(accuracy, alone.estimated_accuracy_, atol=1e-4)


def test_processes_without_a_seed_draw_the_same(together):
    for found in together[0][1:]:
        np.testing.assert_array_equal(found["unseeded"], together[0][0]["unseeded"])


def test_the_first_process_alone_writes(together):
    folder = together[1]
    assert [rank for rank in range(WORLD) if (folder / f"model{rank}").exists()] == [0]
    loaded = ComplementaryClassifier.load(folder / "model0", device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(blobs()[0]), together[0][0]["classifier"][0], atol=1e-6)


def test_processes_that_differ_are_refused(together):
    for rank, found in enumerate(together[0]):
        settings, data, batch, first, shards, part, memory, shapes, stream_batch = found["refused"]
        other = 1 if rank % 2 == 0 else 0
        same = f"ValueError: all processes must be given the same data and settings; process {rank} and process"
        last = "; start all of them by the same command, with seeds that are given"
        assert settings == f"{same} {other} differ in runs{last}"
        assert data == f"{same} {3 if rank < 3 else 0} differ in data{last}"
        words = "a batch must hold a row for each of the 4 processes; got batches of 3; start fewer processes, or raise"
        assert batch == stream_batch == f"ValueError: {words} `batch_size`"
        assert first == "ZeroDivisionError: integer division or modulo by zero"
        words = "there must be a shard for each of 4 processes; got 1 with rows to train on; start fewer processes, or"
        assert shards == f"ValueError: {words} write smaller files, or smaller row groups"
        assert memory == f"{same} {3 if rank < 3 else 0} differ in the stream's settings{last}"
        words = "all rows must be of one form; process 0 found bytes of the shape (3, 8, 8) with classes as labels, and"
        assert shapes.startswith(f"ValueError: {words} process 1 bytes of the shape (3, 4, 4)")
        words = f"`part` must be ({rank}, 4) in this process, or left out; got ({(rank + 1) % 4}, 4)"
        assert part == f"ValueError: {words}"


# ---- the command --------------------------------------------------------------------------------------------------


def test_the_command_prints_and_writes_once(together):
    folder = together[1]
    assert [found["codes"] for found in together[0]] == [[0, 0, 2, 2, 2, 2, 2]] * WORLD
    out = (folder / "out").read_text(encoding="utf8")
    assert out.count("estimated accuracy:") == 3
    assert out.count(f"saved in {folder / 'flowers'}") == out.count("report in") == 1
    assert out.count(f"saved in {folder / 'streamed'}") == 1
    assert "labels: 210 'not this class'" in out
    assert out.count(f"saved in {folder / 'answered'}") == 1
    assert [found["answers"] for found in together[0]] == [(0, "no thread of gloo")] * WORLD  # after the end of it
    assert not (folder / "flowers/checkpoint").exists()
    assert "<html" in (folder / "flowers.html").read_text(encoding="utf8")


def test_the_command_tells_each_mistake_once(together):
    folder = together[1]
    lines = [
        line for line in (folder / "errors").read_text(encoding="utf8").splitlines() if line.startswith("naysayer:")
    ]
    refused, store, settings, there, wrong = lines
    assert refused == "naysayer: torchrun is for `naysayer train`; run naysayer predict without it"
    assert store == "naysayer: torchrun is for tables; answers.db is none; train on it without torchrun"
    assert "all processes must be given the same data and settings; process" in settings
    assert "differ in the command line; start all of them by the same command" in settings
    assert "--force" in there
    assert re.fullmatch(f"naysayer: {folder}/wrong/part-2.csv: .* row 50", wrong)  # the others only ended


@pytest.mark.parametrize(("rank", "streamed"), [(0, False), (1, True)])
def test_a_killed_process_ends_the_job_with_one_line(tmp_path, naysayer, rank, streamed):
    """The first one, which writes, or another; what was written is whole, and one process trains to the end."""
    table = write_table(tmp_path / "table") if streamed else ROOT / "examples/flowers.csv"
    train = ["train", table, "--label", "answer", "--method", "forward", "--device", "cpu"]
    train += ["--hidden", "8", "--lr", "0.01", "--seeds", "1", "--out", tmp_path / "model"]
    job = start_python(*TORCHRUN, __file__, "command", tmp_path, *train, "--epochs", "100000")
    checkpoint = tmp_path / "model/checkpoint/forward.safetensors"
    while not checkpoint.exists():
        assert job.poll() is None, job.communicate()[1]
        time.sleep(0.05)
    os.kill(int((tmp_path / f"pid{rank}").read_text()), signal.SIGKILL)
    _, errors = job.communicate(timeout=500)
    assert job.returncode != 0
    told = [line for line in errors.splitlines() if line.startswith("naysayer:")]
    assert told == [
        "naysayer: the job was stopped, or another of its processes ended; what was saved on the way is whole, and the "
        "same command resumes from it, on any number of processes"
    ]
    _, about = read_tensors(checkpoint)
    assert about["epoch"] >= 1
    done = naysayer(*train, "--epochs", about["epoch"] + 1)
    assert done.code == 0, done.err
    assert f"{about['epoch'] + 1}" in done.out


# ---- meeting ------------------------------------------------------------------------------------------------------


@pytest.fixture
def launched(monkeypatch):
    """An environment such as torchrun's, of one of two processes."""
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes, "MEETING", timedelta(seconds=1))
    return monkeypatch


def test_a_port_in_use_is_said(launched, naysayer):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        launched.setenv("MASTER_PORT", str(port))
        with raises(
            f"port {port} must be free for the processes to meet; another program has it; set MASTER_PORT", OSError
        ):
            processes.join()


def test_torchrun_itself_tells_of_a_port_in_use(tmp_path):
    """It binds the port before any of our processes begins; nothing is trained or written."""
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", other.getsockname()[1]]
        train = ["train", ROOT / "examples/flowers.csv", "--label", "answer", "--out", tmp_path / "model"]
        job = start_python(*launcher, "-m", "naysayer", *train)
        _, errors = job.communicate(timeout=500)
    assert job.returncode == 1
    assert "EADDRINUSE" in errors
    assert "naysayer:" not in errors
    assert not (tmp_path / "model").exists()


def test_processes_that_do_not_come_are_not_awaited_for_ever(launched):
    port = free_port()
    launched.setenv("RANK", "1")
    launched.setenv("MASTER_PORT", str(port))
    with raises(f"all 2 processes must meet at 127.0.0.1, port {port}, within 1 s; process 1 could not", OSError):
        processes.join()


def test_each_process_needs_a_device_of_its_own(launched):
    launched.setattr(torch.cuda, "device_count", lambda: 2)
    processes.check_device(torch.device("cpu"))
    processes.check_device(torch.device("cuda"))
    launched.setenv("LOCAL_RANK", "1")
    processes.check_device(torch.device("cuda:1"))
    with raises("`device` must be 'cuda' here, for process 2 of a machine takes 'cuda:1'; got 'cuda:0'"):
        processes.check_device(torch.device("cuda:0"))  # which another process has
    launched.setenv("LOCAL_RANK", "2")
    with raises("each process must have a CUDA device of its own; this machine has 2, and process 3 got none; start 2"):
        processes.check_device(torch.device("cuda"))


def test_a_sum_that_fails_says_what_that_means():
    words = "all processes must work to the end; another one ended, or was given other work; what it printed says why"
    with raises(words, ConnectionError), ended():
        raise RuntimeError("connection closed by peer")


def test_one_process_is_no_job(launched):
    launched.setenv("WORLD_SIZE", "1")
    launched.setenv("MASTER_PORT", "1")
    assert processes.join() is None
    assert processes.is_first()
    assert processes.from_first(lambda: 3) == 3


# ---- other people's loops -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain_loop():
    """What the examples' loop comes to without a package, in one process."""
    X, y = load_digits(return_X_y=True)
    X, y = torch.tensor(X[:1792] / 16, dtype=torch.float32), torch.tensor(y[:1792])
    y_bar = torch.tensor(complement(y.numpy(), 10, random_state=0))
    torch.manual_seed(0)
    network, objective = networks.mlp(64, 10, hidden=(64,)), objectives.GradientAscent(10)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    for rows in [*torch.arange(len(X)).split(128)] * 4:
        optimizer.zero_grad()
        objective(network(X[rows]), y_bar[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        logits = network(X)
    return float(100 * (logits.argmax(dim=1) == y).float().mean()), float(logits.mean())


@pytest.mark.parametrize(("package", "before"), [("lightning", []), ("accelerate", TORCHRUN)])
def test_the_loop_of_a_package_gives_on_two_processes_what_a_plain_one_gives(package, before, plain_loop):
    job = start_python(*before, __file__, "loop", ROOT / f"examples/{package}_loop.py", "2")
    out, errors = job.communicate(timeout=500)
    assert job.returncode == 0, errors
    ends = set(re.findall("at the end (.*)", out))
    assert ends == {"no thread of gloo"}  # one that runs while Python ends may abort the process
    n_processes, *found = re.search(r"(\d) processes: (.*) % right; mean logit (.*)", out).groups()
    assert n_processes == "2"
    assert plain_loop[0] > 20  # after 56 steps; guessing has 10
    np.testing.assert_allclose([float(number) for number in found], plain_loop, atol=0.1)


def threads():
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return next((name for name in names if "gloo" in name), "no thread of gloo")


def say_threads():
    sys.stdout.write(f"at the end {threads()}\n")  # at once: another process may write to the same pipe


if __name__ == "__main__":
    if sys.argv[1] == "work":
        fork(WORLD, lambda rank: work(rank, Path(sys.argv[2])))
    elif sys.argv[1] == "loop":
        atexit.register(say_threads)
        sys.argv = sys.argv[2:]
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        population_module.CHECKPOINT_SECONDS = 0.0
        Path(sys.argv[2], f"pid{os.environ['RANK']}").write_text(str(os.getpid()))
        command(*sys.argv[3:])
        sys.exit(2)
