"""Experiments: what the paper's settings are, that results are resumed and never mixed up, and what is made of them."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers import raises
from naysayer import complement
from naysayer.data import datasets
from naysayer.experiments import figure1, figure2, figure4, jobs, paper, plots, selection_loss, table3
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Cell, Table
from naysayer.experiments.reproduce import EXPERIMENTS, choose, reproduce
from naysayer.experiments.scale import TITLES, Scale, check_datasets
from naysayer.experiments.selection import choose as choose_runs
from naysayer.experiments.selection import selected
from naysayer.experiments.sweeps import SWEEPS

TINY = Scale(epochs=2, trials=2, quick=True)


def tiny(name, n=240, n_test=60):
    """A data set that a linear model learns: ten classes of flat images, or of small colour ones."""
    rng = np.random.default_rng(0)
    y = np.arange(n + n_test) % 10
    shape = (3, 8, 8) if name == "cifar10" else (36,)
    means = rng.integers(40, 216, (10, *shape))
    X = np.clip(means[y] + rng.normal(size=(n + n_test, *shape)) * 20, 0, 255).astype("uint8")
    return datasets.Dataset(X[:n], y[:n], X[n:], y[n:], 10, tuple("0123456789"))


@pytest.fixture
def data(monkeypatch):
    """All four data sets in tiny, whatever is or is not on this machine."""
    monkeypatch.setattr(datasets, "load", lambda name, folder=None, download=False: tiny(name))
    monkeypatch.setattr(datasets, "get", lambda name, folder=None: Path(name))
    jobs._read.cache_clear()
    yield
    jobs._read.cache_clear()


def job(**settings):
    runs = (Run("ascent", 0, 1e-3), Run("ascent", 1, 1e-3), Run("forward", 0, 1e-2))
    defaults = {"epochs": 4, "paper_epochs": 4, "batch_size": 50, "validation": 0.25}
    return Job("some", "mnist", "mlp", settings.pop("runs", runs), **(defaults | settings))


def made_up(histories, runs, **settings):
    """A result with these numbers, (epochs, M) by name."""
    return Result(job(runs=runs, **settings), {k: np.asarray(v, dtype=float) for k, v in histories.items()}, {})


# ---- the paper's settings -----------------------------------------------------------------------------------


def test_figure_1_is_as_the_paper_says():
    linear, mlp = figure1.jobs(Scale())
    assert (linear.network, mlp.network) == ("linear", "mlp")
    for one in (linear, mlp):
        assert (one.dataset, one.epochs, one.batch_size, one.optimizer, one.weight_decay) == (
            "mnist",
            300,
            100,
            "adam",
            1e-4,
        )
        assert one.runs == (Run("free", lr=5e-5),)
        assert one.class_risks
        assert one.n_train is None


def test_figure_2_is_as_the_paper_says():
    found = figure2.jobs(Scale())
    small = [j for j in found if j.dataset != "cifar10"]
    assert [(j.dataset, j.network) for j in small] == [
        (dataset, network) for dataset in ("mnist", "fashion", "kuzushiji") for network in ("linear", "mlp")
    ]
    for one in small:
        assert (one.epochs, one.batch_size, one.optimizer, one.weight_decay, one.validation) == (
            300,
            256,
            "adam",
            1e-4,
            0,
        )
        assert {r.lr for r in one.runs} == {5e-5}
        assert {(r.method, r.trial) for r in one.runs} == {(m, t) for m in figure2.METHODS for t in range(4)}
    images = [j for j in found if j.dataset == "cifar10"]
    assert len(images) == 2 * 6 * 4  # and PC as printed, which differs under SGD
    for one in images:
        assert (one.epochs, one.optimizer, one.weight_decay, one.halve_every) == (300, "sgd", 5e-4, 30)
        assert one.runs[0].lr == 1e-2
    assert {j.network for j in images} == {"densenet", "resnet"}


def test_table_3_is_as_the_paper_says():
    found = table3.jobs(Scale())
    small = [j for j in found if j.dataset != "cifar10"]
    assert [(j.dataset, j.batch_size) for j in small] == [
        (dataset, batch) for dataset in ("mnist", "fashion", "kuzushiji") for batch in (100, 256) * 2
    ]
    for one in small:
        assert (one.epochs, one.optimizer, one.weight_decay, one.validation, one.halve_every) == (
            250,
            "sgd",
            1e-4,
            0.1,
            0,
        )
        assert {r.lr for r in one.runs} == {5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2}
        assert len(one.runs) == (6 * 4 if one.name.endswith("printed") else 3 * 6 * 4)
    images = [j for j in found if j.dataset == "cifar10"]
    assert {j.runs[0].lr for j in images} == {1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2}
    assert {(j.network, j.halve_every, j.epochs) for j in images} == {("densenet", 30, 250)}
    assert len(images) == 72 + 24  # and PC as printed


def test_the_printed_tables_are_the_papers():
    assert paper.TABLE_2["mnist"][2] == (88.7, 0.3)
    assert paper.TABLE_3["mnist"][2] == (93.3, 0.2)  # Forward, as corrected
    for name in TITLES:  # the errata changed Forward's columns only
        same = [a == b for a, b in zip(paper.TABLE_2[name], paper.TABLE_3[name], strict=True)]
        assert same == [True, True, False, True, False]
    assert list(table3.PRINTED) == list(paper.COLUMNS)


def test_a_scale_cuts_epochs_trials_and_data_sets():
    assert {j.epochs for j in figure2.jobs(Scale(epochs=7))} == {7}
    assert {r.trial for j in figure4.jobs(Scale(trials=2)) for r in j.runs} == {0}
    assert {j.dataset for j in table3.jobs(Scale(datasets=("fashion",)))} == {"fashion"}
    assert figure1.jobs(Scale(datasets=("fashion",))) == []
    assert all(not sweep.jobs(Scale(datasets=("fashion",))) for sweep in SWEEPS.values())
    for experiment in EXPERIMENTS.values():
        for small in experiment.jobs(Scale(quick=True)):
            assert small.n_train <= 3000
            assert small.epochs <= 12


# ---- labels -------------------------------------------------------------------------------------------------


def test_each_trial_draws_its_own_labels_and_split():
    y = np.arange(500) % 10
    one = job(runs=(Run("free", 0), Run("ascent", 0), Run("free", 1)))
    labels = jobs._labels(one, y, 10)
    np.testing.assert_array_equal(labels[0], labels[1])
    assert (labels[0] != labels[2]).any()
    np.testing.assert_array_equal(labels[2], complement(y, 10, random_state=1))
    rows, held = jobs._split(one, 500)
    assert rows.shape == (3, 375)
    assert held.shape == (3, 125)
    for a, b in zip(rows, held):
        assert sorted([*a, *b]) == list(range(500))
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (rows[0] != rows[2]).any()


@pytest.mark.parametrize("setting", [{"noise": 0.05}, {"bias": 0.4}, {"noise": 0.03, "bias": 0.2}])
def test_labels_are_drawn_by_the_matrix_that_the_objective_is_told(setting):
    runs = (Run("ascent", **setting), Run("ascent", told=False, **setting), Run("ascent"))
    one = job(runs=runs)
    y = np.repeat(np.arange(4), 20_000)
    q = jobs._transition(runs[0], 4)
    np.testing.assert_allclose(q.sum(axis=1), 1)
    labels = jobs._labels(one, y, 4)
    found = np.stack([np.bincount(labels[0][y == k], minlength=4) / 20_000 for k in range(4)])
    np.testing.assert_allclose(found, q, atol=0.02)
    np.testing.assert_array_equal(labels[0], labels[1])
    told, not_told, plain = jobs._objectives(one, 4)
    np.testing.assert_allclose(told.inverse.numpy() @ q, np.eye(4), atol=1e-5)
    assert not_told.inverse is None
    assert plain is not_told  # the same belief, so measured together


def test_some_ordinary_labels_among_complementary_ones():
    y = np.arange(200) % 5
    ruled_out = jobs._labels(job(runs=(Run("ascent", 3, alpha=0.5),), n_ordinary=30), y, 5)
    ordinary = ruled_out.sum(axis=1) == 4
    assert ordinary.sum() == 30
    assert not ruled_out[ordinary, y[ordinary]].any()
    assert (ruled_out[~ordinary].sum(axis=1) == 1).all()
    assert not ruled_out[np.arange(200), y].any()


# ---- jobs: saved, found, resumed ----------------------------------------------------------------------------


def test_a_job_is_found_again_with_the_same_numbers(data, tmp_path):
    made = jobs.do(job(), tmp_path, device="cpu")
    found = jobs.find(job(), tmp_path)
    assert made.history.keys() == found.history.keys() >= {"test_accuracy", "valid_risk", "valid_objective"}
    for name, values in made.history.items():
        assert values.shape == (4, 3)
        np.testing.assert_array_equal(values, found.history[name])
    assert found.about["torch"]
    assert not list(tmp_path.glob("*.checkpoint"))
    saved = json.loads((tmp_path / f"{job().file}.json").read_text())
    assert saved["settings"]["batch_size"] == 50
    head, *rows = gzip.decompress((tmp_path / f"{job().file}.csv.gz").read_bytes()).decode().splitlines()
    assert head.startswith("method,trial,lr,")
    assert len(rows) == 4 * 3
    np.testing.assert_array_equal(found.curves("loss", method="ascent"), found.history["loss"][:, :2])


@pytest.mark.parametrize("change", [{"batch_size": 51}, {"validation": 0.1}, {"n_train": 100}, {"dataset": "fashion"}])
def test_results_of_other_settings_do_not_stand_in(data, tmp_path, change):
    jobs.do(job(), tmp_path, device="cpu")
    assert jobs.find(job(**change), tmp_path) is None if "dataset" not in change else True
    assert replace(job(), **change).file != job().file


def test_a_job_goes_on_when_asked_for_more_epochs(data, tmp_path):
    jobs.do(job(epochs=2), tmp_path, device="cpu")  # fewer than the paper's 4: the checkpoint is kept
    assert jobs.find(job(), tmp_path) is None
    assert len(jobs.find(job(), tmp_path, any_epochs=True).history["loss"]) == 2
    assert len(list(tmp_path.glob("*.checkpoint"))) == 1
    (tmp_path / f".{job().file}.checkpoint.0123abcd").touch()  # of a process that was killed while it wrote one
    gone_on = jobs.do(job(), tmp_path, device="cpu")
    at_once = jobs.do(job(), tmp_path / "other", device="cpu")
    for name, values in at_once.history.items():
        np.testing.assert_array_equal(values, gone_on.history[name])
    assert len(jobs.find(job(epochs=3), tmp_path).history["loss"]) == 3
    assert not [path for path in tmp_path.iterdir() if ".checkpoint" in path.name]


@pytest.mark.parametrize("reliability", [False, True])
def test_fewer_epochs_than_a_checkpoint_has_are_trained_afresh(data, tmp_path, reliability):
    long, short = (job(epochs=n, paper_epochs=8, reliability=reliability) for n in (4, 2))
    jobs.train(long, device="cpu", checkpoint=tmp_path / f"{long.file}.checkpoint")  # and killed before it was saved
    (checkpoint,) = tmp_path.iterdir()
    before = checkpoint.read_bytes()
    found, at_once = jobs.do(short, tmp_path, device="cpu"), jobs.do(short, tmp_path / "other", device="cpu")
    assert (len(found.history["loss"]), found.bins) == (2, at_once.bins)
    for name, values in at_once.history.items():
        np.testing.assert_array_equal(values, found.history[name])
    assert checkpoint.read_bytes() == before
    assert len(jobs.do(long, tmp_path, device="cpu").history["loss"]) == 4


@pytest.mark.parametrize("whole", [False, True])
def test_a_longer_result_is_not_replaced(data, tmp_path, whole):
    long, short = (job(epochs=n, paper_epochs=4 if whole else 8, reliability=True) for n in (4, 2))
    jobs.do(long, tmp_path, device="cpu")
    assert jobs.find(short, tmp_path) is None  # its diagram would be of another epoch
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with raises(
        f"some must be asked for 4 epochs or more, for {tmp_path} holds a result of 4; got 2; ask for more, or give "
        f"another folder"
    ):
        jobs.do(short, tmp_path, device="cpu")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("suffix", ["csv.gz", "json"])
@pytest.mark.parametrize("keep", [0, 20, -10])
def test_a_result_cut_short_is_not_there(data, tmp_path, suffix, keep):
    jobs.do(job(), tmp_path, device="cpu")
    path = tmp_path / f"{job().file}.{suffix}"
    path.write_bytes(path.read_bytes()[:keep])
    assert jobs.find(job(), tmp_path) is None


def test_a_full_disk_keeps_what_was_there(data, tmp_path, monkeypatch):
    jobs.do(job(), tmp_path, device="cpu")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with raises("No space left on device", OSError):
        jobs.do(job(batch_size=60), tmp_path, device="cpu")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_killed_run_goes_on_and_gives_the_same_numbers(tmp_path):
    program = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from test_experiments import *\n"
        "from naysayer.engine import population as training\n"
        "training.CHECKPOINT_SECONDS = 0.0\n"
        "datasets.load = lambda name, folder=None, download=False: tiny(name)\n"
        "done = []\n"
        "def bar(*_, **__):\n"
        "    done.append(1)\n"
        "    if len(done) == 20:\n"
        "        print('far enough', flush=True)\n"
        "        signal.pause()\n"
        "jobs.do(job(epochs=40, paper_epochs=40), Path(sys.argv[1]), device='cpu', bar=bar)\n"
    )
    root = Path(__file__).parents[1]
    started = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, cwd=root)
    assert started.stdout.readline() == b"far enough\n"
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    started.stdout.close()
    long = job(epochs=40, paper_epochs=40)
    assert jobs.find(long, tmp_path) is None
    assert list(tmp_path.glob("*.checkpoint"))
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", lambda name, folder=None, download=False: tiny(name))
        jobs._read.cache_clear()
        resumed = jobs.do(long, tmp_path, device="cpu", bar=lambda *_, **__: calls.append(1))
        fresh = jobs.do(long, tmp_path / "fresh", device="cpu")
        jobs._read.cache_clear()
    assert len(calls) == 40
    for name, values in fresh.history.items():
        np.testing.assert_array_equal(values, resumed.history[name])


def test_runs_that_break_off_leave_a_whole_result(data, tmp_path):
    broken = job(runs=(Run("free", 0, 1e30), Run("free", 1, 1e30)), optimizer="sgd")
    result = jobs.do(broken, tmp_path, device="cpu")
    assert result.history["loss"].shape == (4, 2)
    assert np.isnan(result.history["test_accuracy"][-1]).all()
    assert "learning rate 1e+30" in result.about["failed"]["0"]
    assert jobs.find(broken, tmp_path) is not None


def test_an_interrupted_job_says_so(data, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.do(job(), tmp_path, device="cpu", bar=stop)
    assert jobs.find(job(), tmp_path) is None


# ---- what is chosen -----------------------------------------------------------------------------------------


def test_the_criterion_chooses_among_epochs_and_learning_rates():
    runs = (Run("ascent", 0, 1e-3), Run("ascent", 0, 1e-2), Run("ascent", 1, 1e-3), Run("forward", 0, 1e-3))
    histories = {
        "test_accuracy": [[0.1, 0.2, 0.3, 0.9], [0.4, 0.5, 0.6, 0.9]],
        "valid_risk": [[1.0, 2.0, 9.0, 0.0], [3.0, 4.0, np.nan, 0.0]],
        "valid_objective": [[5.0, 0.5, 1.0, 0.0], [6.0, 7.0, 0.5, 0.0]],
        "valid_accuracy": [[0.0, 0.0, 0.0, 9.0], [1.0, 0.5, 0.5, 9.0]],
    }
    results = [made_up(histories, runs)]
    np.testing.assert_array_equal(selected(results, "Free, cross-entropy", method="ascent"), [0.1, 0.3])
    np.testing.assert_array_equal(selected(results, "own loss", method="ascent"), [0.2, 0.6])
    np.testing.assert_array_equal(selected(results, "Free, zero-one", method="ascent"), [0.4, 0.6])
    np.testing.assert_array_equal(selected(results, "oracle", method="ascent"), [0.5, 0.6])
    np.testing.assert_array_equal(selected(results, "oracle", max_lr=1e-3, method="ascent"), [0.4, 0.6])
    assert choose_runs(results, "own loss", method="ascent") == [(1e-2, 1, 0.2, 0.5), (1e-3, 2, 0.6, 0.6)]
    assert len(selected(results, "oracle", method="pairwise")) == 0


def test_table_3_sets_ours_beside_the_papers(tmp_path):
    runs = tuple(Run(method, trial, 1e-3) for method in table3.METHODS for trial in range(2))
    histories = {name: np.full((1, 6), 0.5) for name in ("valid_risk", "valid_objective", "valid_accuracy")}
    accuracy = {"test_accuracy": [[0.88, 0.89, 0.60, 0.61, 0.93, 0.93]]}
    one = made_up(histories | accuracy, runs, batch_size=100)
    section = table3.section([one], tmp_path)
    errata, ours, first, up_to, chosen = section.items
    cells = dict(zip(errata.columns, errata.rows["MNIST"], strict=True))
    assert cells["GA (Free)"] == Cell(pytest.approx(88.5), pytest.approx(0.5), (88.1, 2.5))
    assert not cells["GA (Free)"].differs
    assert cells["PC (PC)"].differs
    assert cells["Fwd (Fwd)"].paper == (93.3, 0.2)
    assert ours.rows["MNIST, 100"][0] == Cell(pytest.approx(88.5), pytest.approx(0.5))
    assert up_to.rows["MNIST, 100"][0].paper == (79.3, 3.3)
    printed = made_up(histories | accuracy, tuple(replace(run, method="printed") for run in runs), batch_size=256)
    *_, found = table3.section([printed], tmp_path).items
    assert found.title == "PC with its loss as printed, beside errata Table 3"
    assert found.rows["MNIST, 256"][0] == Cell(pytest.approx(88.5), pytest.approx(0.5), (79.3, 3.3))
    assert chosen.rows["MNIST, PC (PC)"][:2] == ["0.001, 0.001", "1, 1"]
    assert first.rows["MNIST"][2].paper == (88.7, 0.3)
    lost = selection_loss.section([one], tmp_path).items[1].rows
    assert set(lost) == {"MNIST, GA", "MNIST, PC", "MNIST, Fwd"}
    assert lost["MNIST, GA"][0].mean == 0


# ---- the whole ----------------------------------------------------------------------------------------------


def test_all_of_it_in_tiny(data, tmp_path, monkeypatch):
    sections = reproduce(["all"], tmp_path, TINY, device="cpu", markdown=tmp_path / "report.md", show=False)
    assert [s.name for s in sections] == list(EXPERIMENTS)
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    for section in sections:
        assert section.title.split(":")[0] in page
        assert section.title.split(":")[0] in text
        for item in section.items:
            if isinstance(item, Table):
                assert item.rows
            else:
                assert item.path.stat().st_size > 5000
                assert item.path.with_suffix(".svg").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").iterdir()}
    (tmp_path / "notes.txt").write_text("Cut short: a < b.\n\nMore.")
    for draw in ("accuracy_curves", "risk_curves", "reliability", "sweep", "selection_losses"):  # they are there
        monkeypatch.setattr(plots, draw, lambda _, path: Path(f"{path}.png"))
    again = reproduce(["all"], tmp_path, TINY, device="cpu", markdown=tmp_path / "report.md", show=False)
    assert "<p>Cut short: a &lt; b.</p>\n<p>More.</p>" in (tmp_path / "report.html").read_text()
    assert "Cut short: a \\< b.\n\nMore." in (tmp_path / "report.md").read_text()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").iterdir()} == before  # nothing is done twice
    for one, other in zip(sections, again, strict=True):
        assert [i for i in one.items if isinstance(i, Table)] == [i for i in other.items if isinstance(i, Table)]


def test_the_report_shows_all_that_the_folder_holds(data, tmp_path):
    mnist, fashion = (Scale(epochs=1, trials=1, datasets=(name,), quick=True) for name in ("mnist", "fashion"))
    reproduce(["table3"], tmp_path, mnist, device="cpu", show=False)
    reproduce(["figure2"], tmp_path, replace(mnist, trials=2), device="cpu", show=False)
    (tmp_path / "jobs" / "figure1-half.json").write_text('{"settings": ')
    (figure,) = reproduce(["figure2"], tmp_path, replace(fashion, trials=2), device="cpu", show=False)
    assert {name.split(",")[0] for name in figure.items[1].rows} == {"MNIST", "Fashion-MNIST"}
    page = (tmp_path / "report.html").read_text()
    for title in (figure2.TITLE, table3.TITLE, "Mini-batches of 256", "Fashion-MNIST, MLP"):
        assert title in page
    assert page.count("not comparable with the paper") == 3  # also of what was not asked for, and of its selection
    assert figure1.TITLE not in page


def test_a_scale_of_what_was_done_before_is_said(data, tmp_path):
    reproduce(["figure1"], tmp_path, Scale(epochs=2), device="cpu", show=False)
    reproduce(["labels"], tmp_path, Scale(epochs=1, trials=1, quick=True), device="cpu", show=False)
    page = (tmp_path / "report.html").read_text()
    assert "Cut to 2 epochs." in page
    assert "In small" in page


def test_only_some_jobs_of_an_experiment(data, tmp_path):
    scale = Scale(epochs=1, trials=1, datasets=("cifar10",), quick=True)
    for method in ("printed", "ascent"):
        (section,) = reproduce(["figure2"], tmp_path, scale, only=f"resnet-{method}", device="cpu", show=False)
    assert {path.name.split("-")[3] for path in (tmp_path / "jobs").iterdir()} == {"printed", "ascent"}
    assert section.items[1].columns == ["Gradient ascent", "PC as printed"]
    assert "is a ninth of PC's" in section.text
    said = "--only must be a part of a job's name, such as figure2-cifar10-densenet-ascent-0; got 'vgg'"
    with raises(said):
        reproduce(["figure2"], tmp_path, scale, only="vgg", device="cpu", show=False)
    more = replace(scale, epochs=2)
    reproduce(["figure2"], tmp_path, more, only="resnet-ascent", device="cpu", show=False)
    (section,) = reproduce(["figure2"], tmp_path, more, train=False, show=False)
    assert list(section.items[1].rows) == ["CIFAR-10, ResNet-34 (1 to 2 epochs, 1 trial)"]


def test_fewer_epochs_of_a_diagram_are_refused_before_anything_is_trained(data, tmp_path):
    scale = Scale(epochs=2, trials=1, datasets=("mnist",), quick=True)
    reproduce(["figure4"], tmp_path, scale, device="cpu", show=False)
    before = {path: path.read_bytes() for path in (tmp_path / "jobs").iterdir()}
    with raises("figure4-mnist-linear must be asked for 2 epochs or more, for "):
        reproduce(["figure1", "figure4"], tmp_path, replace(scale, epochs=1), device="cpu", show=False)
    assert {path: path.read_bytes() for path in (tmp_path / "jobs").iterdir()} == before


def test_what_is_there_is_drawn_and_nothing_trained(data, tmp_path):
    scale = Scale(epochs=2, trials=1, datasets=("mnist",), quick=True)
    with raises("there are none; leave out --draw"):
        reproduce(["figure2"], tmp_path, scale, train=False, show=False)
    reproduce(["figure2"], tmp_path, scale, device="cpu", show=False)
    more = replace(scale, epochs=5)
    (section,) = reproduce(["figure2", "table3"], tmp_path, more, train=False, show=False)
    assert "MNIST, MLP (2 epochs, 1 trial)" in section.items[1].rows


def test_names_of_experiments():
    assert choose(["table2", "figure3", "figure2"]) == ["figure2", "table3"]
    assert choose(["all"]) == list(EXPERIMENTS)
    with raises("got 'tabel3' (did you mean 'table3'?)"):
        choose(["tabel3"])
    with raises("a data set must be one of mnist, fashion, kuzushiji, cifar10; got 'mnits' (did you mean 'mnist'?)"):
        check_datasets(["mnits"])
    assert check_datasets(None) == tuple(TITLES)


def test_a_data_set_that_cannot_be_had_is_said_before_anything_is_trained(tmp_path, monkeypatch):
    def nothing(name, folder=None):
        raise FileNotFoundError(f"data set {name!r} is not here")

    monkeypatch.setattr(datasets, "get", nothing)
    with raises("data set 'mnist' is not here", FileNotFoundError):
        reproduce(["figure1"], tmp_path, TINY, device="cpu", show=False)
    assert not list((tmp_path / "jobs").iterdir())


# ---- the command --------------------------------------------------------------------------------------------


def test_the_command_prints_tables_and_says_where_the_rest_is(data, naysayer, tmp_path):
    words = ("reproduce", "table2", "figure1", "--quick", "--dataset", "mnist", "--epochs", 1, "--trials", 1)
    code, out, err = naysayer(*words, "--out", tmp_path / "new", "--device", "cpu", "--markdown", tmp_path / "a.md")
    assert (code, err) == (0, "")
    assert "GA (Free)" in out
    assert "(paper 88.1 ± 2.5)" in out
    assert out.strip().endswith(f"all of it in {tmp_path / 'new' / 'report.html'}")
    assert "not comparable with the paper" in (tmp_path / "a.md").read_text()
    code, out, _ = naysayer(*words, "--out", tmp_path / "new", "--json", "--draw")
    assert code == 0
    assert json.loads(out)["tables"][0]["rows"]["MNIST"][0]["paper"] == [88.1, 2.5]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["figure9"], "an experiment must be one of figure1, figure2"),
        (["figure1", "--dataset", "minst"], "got 'minst' (did you mean 'mnist'?)"),
        (["figure1", "--epochs", "0"], "--epochs"),
        (["figure1", "--trials", "-1"], "--trials"),
        (["figure1", "--draw"], "there are none; leave out --draw"),
        (["figure1", "--dataset", "fashion"], "figure1 has nothing to do with fashion"),
    ],
)
def test_what_cannot_be_reproduced_is_one_line(data, naysayer, tmp_path, words, said):
    code, out, err = naysayer("reproduce", *words, "--quick", "--out", tmp_path / "new")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_file_where_the_folder_should_be(data, naysayer, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = naysayer("reproduce", "figure1", "--quick", "--out", tmp_path / "file")
    assert code == 2
    assert "--out must be a folder" in err
