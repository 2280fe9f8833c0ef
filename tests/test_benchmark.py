"""The benchmark: the same labels for everybody, an honest choice and estimate, runs that add up, one's own method."""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import raises
from naysayer.data import datasets, human
from naysayer.engine.networks import mlp
from naysayer.engine.population import Population
from naysayer.engine.recipe import RECIPES
from naysayer.experiments import benchmark as job
from naysayer.experiments import benchmark_labels as drawing
from naysayer.experiments import benchmark_page as page
from naysayer.experiments.benchmark import Method, Row, Training, add_results, benchmark, find_methods, list_runs
from naysayer.experiments.benchmark_labels import DRAWN, LABELLINGS, draw
from naysayer.labels import transition
from naysayer.measure import metrics
from naysayer.objectives import OBJECTIVES, Forward, Objective

ROOT = Path(__file__).parent.parent
FEW = {"epochs": 2, "seeds": 1, "rates": [3e-3]}
ONE = ("benchmark", "--labels", "uniform", "--method", "forward", "--seeds", 1)


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


# ---- labels ------------------------------------------------------------------------------------------------------


def small(out, epochs):
    """The command that trains one method on one kind of labels."""
    options = {"--labels": "uniform", "--method": "forward", "--epochs": epochs, "--seeds": 1, "--out": out}
    return ["benchmark", *(word for pair in options.items() for word in pair)]


def test_every_data_set_has_every_kind_of_labels_from_a_seed_of_its_own():
    assert all(list(labels) == list(LABELLINGS) for labels in DRAWN.values())
    published = [one for labels in DRAWN.values() for one in labels.values()]
    assert len({seed for seed, _ in published}) == len({found for _, found in published}) == len(published)


@pytest.mark.parametrize("name", LABELLINGS)
def test_labels_are_those_that_were_published(name, digits):
    labels = draw("digits", digits, name)
    written = drawing.as_text(labels)
    assert hashlib.sha256(written.encode()).hexdigest() == DRAWN["digits"][name][1]
    rows = list(csv.DictReader(written.splitlines()))
    assert {row["part"] for row in rows} == {"train", *(f"test-{i}" for i in range(drawing.DRAWS))}
    for part, y_bar in {"train": labels.train, "test-0": labels.test[0], "test-4": labels.test[4]}.items():
        said = [[int(c) for c in row["not"].split()] for row in rows if row["part"] == part]
        assert [row["row"] for row in rows if row["part"] == part] == [str(i) for i in range(len(y_bar))]
        assert said == [[c] if np.ndim(c) == 0 else list(np.flatnonzero(c)) for c in y_bar]


@pytest.mark.parametrize("name", LABELLINGS)
@pytest.mark.parametrize("n_classes", [10, 20])
def test_labels_say_something_about_every_class(name, n_classes):
    q = LABELLINGS[name].matrix(n_classes)
    if q is not None:
        np.testing.assert_allclose(q.sum(axis=1), 1)
        assert transition.cost(q) < 10
        assert (np.diag(q) > 0).all() == (name == "noisy")


def test_labels_that_come_out_different_are_refused(digits):
    other = digits._replace(y_test=digits.y_test[::-1])
    published = DRAWN["digits"]["uniform"][1]
    with raises(f"labels 'uniform' of 'digits' must have the sha256 {published[:12]}...; those drawn here have"):
        draw("digits", other, "uniform")


# ---- what is asked for -------------------------------------------------------------------------------------------


def test_all_methods_are_asked_for_by_default():
    assert [method.name for method in find_methods()] == list(OBJECTIVES)
    runs = list_runs(
        ["mnist", "clcifar10"], ["uniform", "noisy"], methods=find_methods(["forward"]), seeds=2, rates=[1, 2]
    )
    assert [(run.dataset, run.labels, run.lr, run.seed) for run in runs if run.lr == 1] == [
        ("mnist", "uniform", 1, 0),
        ("mnist", "uniform", 1, 1),
        ("mnist", "noisy", 1, 0),
        ("mnist", "noisy", 1, 1),
        ("clcifar10", "human", 1, 0),
        ("clcifar10", "human", 1, 1),
    ]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"asked_datasets": ["minst"]}, "a data set must be one of digits, mnist, "),
        ({"labels": ["unifrom"]}, "got 'unifrom' (did you mean 'uniform'?)"),
        ({"networks": ["mpl"]}, "a network of recipe 'plain' must be one of linear, mlp, convolution"),
        ({"recipes": ["plane"]}, "a recipe must be one of plain"),
        ({"rates": [0.1, 0.0]}, "a learning rate must be a number above 0; got 0"),
        ({"seeds": 6}, "seeds must be at most 5, for each of which the test images have labels; got 6"),
    ],
)
def test_what_is_not_known_is_refused(asked, words):
    with raises(words):
        list_runs(**{"methods": find_methods(["forward"]), **asked})


def test_every_setting_names_a_training():
    for recipe, by_network in job.SETTINGS.items():
        assert recipe in RECIPES
        assert all(training.rates and training.epochs > 0 for training in by_network.values())


def test_a_cosine_rises_and_falls_to_nearly_nothing():
    training = Training(10, (1.0,), schedule="cosine", warm_up=2)
    factors = [training.factor(epoch) for epoch in range(10)]
    assert int(np.argmax(factors)) == 2
    assert factors[0] == pytest.approx(1 / 3)
    assert 0 < factors[-1] < 0.05
    assert {Training(10, (1.0,)).factor(epoch) for epoch in range(10)} == {1.0}


def test_a_method_may_come_from_a_file(tmp_path):
    (method,) = find_methods([f"{ROOT / 'examples' / 'own_method.py'}:Squared"])
    assert method.name == "Squared"
    assert method.source == hashlib.sha256((ROOT / "examples" / "own_method.py").read_bytes()).hexdigest()[:8]
    assert issubclass(method.kind, Objective)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("Mine = 3", "must be a subclass of naysayer.objectives.Objective; got 3"),
        ("", "must be a subclass of naysayer.objectives.Objective; got None"),
        ("class Mine(:", "must be Python that can be loaded; SyntaxError"),
        ("import nothing_of_that_name", "must be Python that can be loaded; ModuleNotFoundError"),
    ],
)
def test_a_file_without_a_method_is_refused(code, words, tmp_path):
    (tmp_path / "mine.py").write_text(code, encoding="utf8")
    with raises(words):
        find_methods([f"{tmp_path / 'mine.py'}:Mine"])


def test_a_method_must_be_there_under_a_name_of_its_own(tmp_path):
    with raises("a method's file must be there; nowhere.py is not", FileNotFoundError):
        find_methods(["nowhere.py:Mine"])
    with raises("methods must have different names; 'forward' is there twice"):
        find_methods(["forward", "forward"])
    with raises("or file.py:Class; got 'forwrad' (did you mean 'forward'?)"):
        find_methods(["forwrad"])
    (tmp_path / "mine.py").write_text("from naysayer.objectives import Forward as forward", encoding="utf8")
    with raises("a method of one's own must have a name of its own; 'forward' is in OBJECTIVES"):
        find_methods([f"{tmp_path / 'mine.py'}:forward"])


def test_epochs_are_chosen_by_the_true_matrix_whatever_the_method_knows():
    class Untold(Objective):
        def __init__(self, n_classes):
            super().__init__(n_classes)

    q = transition.noisy(4, 0.1)
    inverse = torch.from_numpy(np.linalg.inv(q)).float()
    for kind in (Untold, Forward):
        torch.testing.assert_close(Method("x", kind).objective(4, q).inverse, inverse)
        assert Method("x", kind).objective(4, None).inverse is None


# ---- training ----------------------------------------------------------------------------------------------------


def test_rows_train_or_choose_or_estimate():
    for held_out, estimate, sizes in [
        (0.1, False, [45, 5, 0]),
        (0.1, True, [40, 5, 5]),
        (0.2, True, [35, 10, 5]),
        (0.0, False, [50, 0, 0]),
        (0.0, True, [45, 0, 5]),
    ]:
        parts = job._split(0, 50, held_out, estimate)
        assert sorted(np.concatenate(parts)) == list(range(50))
        assert [len(part) for part in parts] == sizes


def test_nothing_is_held_out_where_nothing_is_to_be_chosen(tmp_path, naysayer):
    command = ["benchmark", "--dataset", "digits", "--labels", "uniform", "--method", "forward", "--network", "mlp"]
    command += ["--epochs", "2", "--seeds", "1", "--held-out", "0", "--out", str(tmp_path)]
    for options, why in (
        (["--recipe", "plain", "--rates", "0.01"], "has the learning rates 0.01 and schedule 'constant'"),
        (["--recipe", "consistency", "--rates", "0.01,0.02"], "the learning rates 0.01, 0.02 and schedule 'cosine'"),
    ):
        assert why in naysayer(*command, *options).err
    naysayer(*command, "--recipe", "consistency")
    (row,) = job.read_results(tmp_path).values()
    assert row.held_out == 0
    assert row.epoch == 2
    assert np.isnan(row.valid_accuracy)
    assert row.low < row.high
    assert np.isfinite(row.estimate)
    held = replace(row, held_out=0.1, valid_accuracy=0.5)
    faster = replace(row, lr=row.lr / 10)
    sections = page.sections([row, held, faster], tmp_path)
    names = [section.name for section in sections]
    assert len(set(names)) == len(names) == 4  # one for each, and that of the estimates
    (alone,) = (s for s in sections if s.name == f"digits-mlp-consistency-2-all-{row.lr:g}")
    assert "all training images learned from" in alone.items[0].note
    assert alone.items[0].note.endswith("--seeds 1 --held-out 0")


@pytest.mark.parametrize("share", [-0.1, 0.5, np.nan])
def test_no_more_than_half_is_held_out(share):
    with raises(f"the share held out must be from 0 up and below 0.5; got {share:g}"):
        list_runs(methods=find_methods(["forward"]), held_out=share)


def test_methods_with_a_layer_of_their_own_train_apart():
    runs = list_runs(labels=["uniform"], methods=find_methods(["forward", "free", "max"]), **FEW)
    objectives = {"forward": Forward(10), "free": Forward(10)}  # "max" cannot learn from these labels
    assert [len(part) for part in job._by_layer(runs, objectives)] == [2]
    objectives["free"].head = torch.nn.Linear(10, 10)
    assert [[run.method for run in part] for part in job._by_layer(runs, objectives)] == [["forward"], ["free"]]


def test_a_run_is_what_a_population_of_its_own_gives(digits, tmp_path):
    methods = find_methods(["forward", "free"])
    left = benchmark(list_runs(labels=["noisy"], methods=methods, **FEW), methods, tmp_path, show=False)
    assert left == (0, {})
    row = next(row for row in job.read_results(tmp_path).values() if row.method == "forward")

    labels, (train, choose, _) = draw("digits", digits, "noisy"), job._split(0, 1297, 0.1, False)
    alone = Population(lambda: mlp(64, 10), Forward(10, transition=labels.transition), lr=3e-3, weight_decay=1e-4,
                       batch_size=64, device="cpu")  # fmt: skip
    alone.fit(digits.X_train, labels.train, max_epochs=2, rows=train, validation_rows=choose)
    predicted = alone.logits(digits.X_test, run=0).argmax(dim=-1).numpy()
    assert row.epoch == alone.best_epoch[0] + 1
    assert row.test_accuracy == pytest.approx((predicted == digits.y_test).mean(), abs=0.005)
    estimate = metrics.accuracy_interval(labels.test[0], predicted, 10, transition=labels.transition)
    np.testing.assert_allclose([row.estimate, row.low, row.high], estimate, atol=0.05)
    assert row.oracle_accuracy >= row.test_accuracy
    assert row.n_estimate == 500


def test_truth_has_no_part_in_choice_and_estimate(digits, tmp_path, monkeypatch):
    methods = find_methods(["forward"])
    runs = list_runs(labels=["uniform"], methods=methods, **FEW)
    labels = draw("digits", digits, "uniform")
    monkeypatch.setattr(job, "_labels", lambda *_: labels)
    rows = []
    for name, wrong in (("a", digits), ("b", digits._replace(y_test=(digits.y_test + 1) % 10))):
        monkeypatch.setattr(job, "_load", lambda *_, wrong=wrong: (wrong, None))
        benchmark(runs, methods, tmp_path / name, show=False)
        rows += job.read_results(tmp_path / name).values()
    assert rows[0].test_accuracy > rows[1].test_accuracy + 0.1
    for key in ("epoch", "valid_accuracy", "estimate", "low", "high"):
        assert getattr(rows[0], key) == getattr(rows[1], key)


def test_what_was_cut_short_resumes_and_ends_the_same(tmp_path, monkeypatch):
    methods = find_methods(["forward"])
    runs = list_runs(labels=["uniform", "strong"], methods=methods, epochs=3, seeds=2, rates=[3e-3])
    benchmark(runs, methods, tmp_path / "whole", show=False)
    assert benchmark(runs, methods, tmp_path / "cut", limit=1e-9, show=False).runs == 4
    assert not (tmp_path / "cut").exists()
    clock = iter([0.0, 0.5, *[2.0] * 1000])  # time runs out within the first group
    day = iter([0.0, 0.0, 0.0, *[2.0] * 1000])
    with monkeypatch.context() as patch:
        patch.setattr(job.time, "monotonic", lambda: next(clock))
        patch.setattr(job.time, "time", lambda: next(day))
        assert benchmark(runs, methods, tmp_path / "cut", limit=1.0, show=False).runs == 4
    assert len(list((tmp_path / "cut" / "checkpoints").iterdir())) == 1
    assert benchmark(runs, methods, tmp_path / "cut", show=False).runs == 0
    assert not (tmp_path / "cut" / "checkpoints").exists()
    whole, cut = (
        {run: replace(row, seconds=0.0) for run, row in job.read_results(tmp_path / name).items()}
        for name in ("whole", "cut")
    )
    assert whole == cut


def test_an_interrupted_one_resumes(naysayer, tmp_path, monkeypatch):
    command = small(tmp_path, epochs=3)
    real = Population._epoch

    def interrupted(self, *rest):
        if self.course.epoch == 1:
            raise KeyboardInterrupt
        real(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Population, "_epoch", interrupted)
        done = naysayer(*command)
    assert done.code == 130
    assert "the same command resumes from it" in done.err
    assert naysayer(*command).code == 0


def test_only_what_is_new_is_trained_and_folders_add_up(tmp_path, monkeypatch):
    trained = []
    real = job._train
    monkeypatch.setattr(job, "_train", lambda group, *rest, **how: trained.extend(group) or real(group, *rest, **how))
    methods = find_methods(["forward", "free"])

    def call(folder, **asked):
        trained.clear()
        runs = list_runs(labels=["uniform"], methods=methods, **FEW | asked)
        benchmark(runs, methods, tmp_path / folder, show=False)
        return {(run.method, run.seed, run.lr) for run in trained}

    assert call("a") == {("forward", 0, 3e-3), ("free", 0, 3e-3)}
    assert call("a", seeds=2) == {("forward", 1, 3e-3), ("free", 1, 3e-3)}
    assert call("a", seeds=2) == set()
    assert call("b", seeds=1, rates=[1e-3, 3e-3]) == {(m, 0, lr) for m in ("forward", "free") for lr in (1e-3, 3e-3)}
    both = add_results(tmp_path / "a", job.read_results(tmp_path / "b").values())
    assert len(both) == 6
    assert job.read_results(tmp_path / "a") == both
    assert call("a", seeds=2, rates=[1e-3, 3e-3]) == {("forward", 1, 1e-3), ("free", 1, 1e-3)}


def test_networks_for_images_get_images(tmp_path):
    methods = find_methods(["forward"])
    runs = list_runs(labels=["several"], networks=["convolution", "linear"], methods=methods, **FEW | {"epochs": 1})
    assert benchmark(runs, methods, tmp_path, show=False).runs == 0
    assert len(job.read_results(tmp_path)) == 2


def test_where_the_rate_falls_to_zero_the_last_epoch_is_taken(tmp_path):
    methods = find_methods(["forward"])
    runs = list_runs(labels=["uniform"], recipes=["consistency"], methods=methods, **FEW)
    benchmark(runs, methods, tmp_path, show=False)
    (row,) = job.read_results(tmp_path).values()
    assert (row.schedule, row.epoch, row.test_accuracy) == ("cosine", 2, row.last_accuracy)


def test_a_method_that_cannot_learn_from_some_labels_sits_them_out(naysayer, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from naysayer.objectives import Forward\n"
        "class One(Forward):\n"
        "    def example_losses(self, logits, y_bar):\n"
        "        if y_bar.dtype.is_floating_point or y_bar.dim() == logits.dim():\n"
        "            raise TypeError('one label at a time')\n"
        "        return super().example_losses(logits, y_bar)\n",
        encoding="utf8",
    )
    command = ["benchmark", "--method", f"{tmp_path / 'mine.py'}:One", "--epochs", 1, "--seeds", 1, "--rates", "1e-3"]
    done = naysayer(*command, "--labels", "several", "--out", tmp_path / "none")
    assert done.code == 2
    assert "One must learn from some labels to take part; of several ones it says TypeError: one label at" in done.err
    done = naysayer(*command, "--labels", "uniform,several", "--out", tmp_path / "some", "--json")
    assert done.code == 0
    assert "note: One does not learn from several labels: TypeError: one label at a time" in done.err
    assert [run["labels"] for run in done.json["runs"]] == ["uniform"]


def test_people_s_labels_go_their_own_way(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 10
    X = np.zeros((200, 3, 4, 4), np.uint8)
    X[np.arange(200), 0, y // 4, y % 4] = 255
    said = (y[:, None] + rng.integers(1, 10, (200, 3))) % 10
    data = datasets.Dataset(X, y, X[:50], y[:50], 10, human.HUMAN["clmicroimagenet10"].class_names)
    monkeypatch.setattr(human, "load", lambda *_: human.Human(data, said))
    methods = find_methods(["forward"])
    job._load.cache_clear()
    job._labels.cache_clear()
    try:
        labels = job._labels("clmicroimagenet10", "human", None)
        benchmark(list_runs(["clmicroimagenet10"], methods=methods, **FEW), methods, tmp_path, show=False)
    finally:
        job._load.cache_clear()
        job._labels.cache_clear()
    np.testing.assert_array_equal(labels.train, said[:, 0])
    assert isinstance(labels.transition, transition.Estimated)
    (row,) = job.read_results(tmp_path).values()
    assert (row.labels, row.n_estimate) == ("human", 20)


# ---- results -----------------------------------------------------------------------------------------------------


def a_row(**changes):
    (run,) = list_runs(labels=["uniform"], methods=find_methods(["forward"]), **FEW)
    found = {f.name: {"int": 1, "float": 0.5, "str": ""}[str(f.type)] for f in fields(Row)}
    return Row(**found | asdict(run) | changes)


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = [a_row(), a_row(seed=1, failed="its loss was nan, in epoch 3", test_accuracy=0.1)]
    assert list(add_results(tmp_path, rows).values()) == rows
    assert list(job.read_results(tmp_path).values()) == rows
    assert add_results(tmp_path, [a_row(test_accuracy=0.9)])[rows[0].run] == rows[0]
    assert job.read_results(tmp_path / "nowhere") == {}


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "results.csv").write_text("a,b\n1,2\n", encoding="utf8")
    with raises("results.csv must have the columns dataset, labels, "):
        job.read_results(tmp_path)
    (tmp_path / "results.csv").unlink()
    add_results(tmp_path, [a_row()])
    text = (tmp_path / "results.csv").read_text(encoding="utf8")
    (tmp_path / "results.csv").write_text(text.rstrip()[:-20], encoding="utf8")
    with raises("results.csv must hold whole rows; line 2 is not"):
        job.read_results(tmp_path)


def test_the_rate_is_chosen_by_what_was_held_out():
    rows = [
        a_row(lr=1.0, valid_accuracy=0.9, test_accuracy=0.6, oracle_accuracy=0.7),
        a_row(lr=2.0, valid_accuracy=0.8, test_accuracy=0.8, oracle_accuracy=0.85),
        a_row(lr=3.0, valid_accuracy=np.nan, epoch=0, test_accuracy=np.nan, oracle_accuracy=np.nan),
        a_row(lr=1.0, seed=1, valid_accuracy=0.1),
    ]
    chosen = page.choose(rows)
    assert [(row.seed, row.lr) for row in chosen.rows] == [(0, 1.0), (1, 1.0)]
    assert chosen.oracle == [0.85, 0.5]


def test_what_a_no_is_worth_is_told_beside_the_paper(tmp_path):
    given = {"recipe": "consistency", "labels": "uniform", "method": "forward", "test_accuracy": 0.9}
    rows = [
        a_row(**given, dataset="mnist", network="pooled", epochs=5),
        a_row(**given | {"test_accuracy": 0.95}, dataset="mnist", network="pooled", epochs=9),
        a_row(**given, dataset="cifar10", network="resnet18"),
        a_row(**given | {"recipe": "plain"}, dataset="fashion", network="pooled"),
        a_row(**given | {"labels": "noisy"}, dataset="kuzushiji", network="pooled"),
        a_row(**given, dataset="digits", network="pooled"),
    ]
    first, *_ = page.sections(rows, tmp_path)
    assert first.title == "What one “no” per image is worth"
    table = first.items[1]
    assert table.columns == ["the paper's best", "consistency, pooled", "consistency, resnet18"]
    assert {name: [getattr(c, "mean", c) for c in cells] for name, cells in table.rows.items()} == {
        "MNIST": ["93.3 ± 0.2", 95.0, "–"],  # of the most epochs
        "CIFAR-10": ["36.8 ± 0.6", "–", 90.0],
    }
    assert "one learning rate that its recipe sets and ends with its last epoch" in first.text
    two_rates = [*rows, a_row(**given, dataset="mnist", network="pooled", epochs=9, lr=0.1)]
    assert "Complementary labels chose the learning rate" in page.sections(two_rates, tmp_path)[0].text
    assert (tmp_path / "worth.svg").read_text(encoding="utf8").count("guessing") == 1
    assert not [section for section in page.sections(rows[3:4], tmp_path) if section.name == "worth"]


def test_what_the_page_says_of_few_labels_is_so(digits):
    y_bar = draw("digits", digits, "uniform").train
    splits = [job._split(seed, len(y_bar), 0.1, False) for seed in range(3)]
    shares = [1 - 9 * np.bincount(y_bar[split.train], minlength=10) / len(split.train) for split in splits]
    assert f"{len(splits[0].choose)} labels to choose by" in page.FEW
    rate = 0.3 / 9  # at which a uniform label names the class that a model of 70 % predicts
    assert f"{100 * np.sqrt(81 * rate * (1 - rate) / 130):.0f} points" in page.FEW
    assert f"{len(splits[0].train):,} uniform labels" in page.CLIMBS
    assert f"−{-100 * np.min(shares):.0f} to {100 * np.max(shares):.0f} %" in page.CLIMBS


def test_a_section_says_how_many_intervals_should_hold(tmp_path):
    rows = [
        a_row(method=m, seed=seed, low=0.4 if seed else 0.6, high=0.7) for m in ("free", "ascent") for seed in (0, 1)
    ]
    first, *_ = page.sections(rows, tmp_path)
    assert (
        "The 95 % intervals of 2 of the 4 chosen runs hold the true test accuracy, where 4 are expected." in first.text
    )
    assert page.FEW in first.text
    assert page.CLIMBS in first.text
    alone, *_ = page.sections(rows[:2], tmp_path)
    assert page.FEW not in alone.text


def test_a_run_that_failed_at_once_has_no_accuracy():
    (run,) = list_runs(labels=["uniform"], methods=find_methods(["forward"]), **FEW)
    runs = Population(lambda: mlp(2, 3), Forward(3), lr=0.1, device="cpu")
    X = np.full((60, 2), np.nan, np.float32)
    runs.fit(X, np.arange(60) % 3, rows=range(50), validation_rows=range(50, 60), test=(X, np.arange(60) % 3))
    about = {"seconds": 0.0, "device": "", "torch": "", "naysayer": ""}
    row = job._row(run, runs, 0, metrics.Interval(0.5, 0.4, 0.6), 5, about)
    assert (row.epoch, row.n_estimate) == (0, 5)
    assert np.isnan([row.test_accuracy, row.estimate, row.low]).all()
    assert "its loss was nan" in row.failed
    assert page.choose([row]).rows == []


def test_a_page_without_results_is_refused(tmp_path):
    with raises("must hold results to draw; there are none; leave out --draw"):
        page.write_page([], tmp_path)


# ---- the command -------------------------------------------------------------------------------------------------


def test_the_command_writes_labels_that_sha256sum_agrees_with(naysayer, tmp_path):
    done = naysayer("benchmark", "--labels", "weak,several", "--write-labels", tmp_path, "--json")
    assert done.code == 0
    assert {Path(path).name for path in done.json} == {"digits-weak.csv", "digits-several.csv"}
    for path, published in done.json.items():
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == published
    q = np.loadtxt(tmp_path / "digits-weak-transition.csv", delimiter=",")
    np.testing.assert_array_equal(q, LABELLINGS["weak"].matrix(10))
    assert not (tmp_path / "digits-several-transition.csv").exists()
    assert DRAWN["digits"]["noisy"][1] in naysayer("benchmark", "--write-labels", tmp_path).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dataset", "minst"], "did you mean 'mnist'?"),
        (["--dataset", ""], "--dataset, --network, --recipe and --method must each name something; got an empty one"),
        (["--limit", "0"], "--limit must be a number of seconds above 0; got 0"),
        (["--epochs", "0"], "--epochs must be a whole number of at least 1; got 0"),
        (["--seeds", "0"], "--seeds must be a whole number of at least 1; got 0"),
        (["--rates", "fast"], "--rates must be numbers separated by commas; got 'fast'"),
        (["--draw"], "must hold results to draw; there are none"),
        (["--add", "nowhere", "--draw"], "--add must be a folder with results.csv; nowhere has none"),
        (["--dataset", "clcifar10", "--data", "."], "put clcifar10.pkl from"),
        (["--dataset", "clcifar10", "--write-labels", "x"], "labels of clcifar10 are in its publishers' file; there"),
        (["--write-labels", "x", "--labels", "odd"], "labels must be one of uniform"),
    ],
)
def test_what_is_wrong_is_one_line(options, words, naysayer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = naysayer("benchmark", *options)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert words in done.err


def test_the_command_says_what_is_left(naysayer, tmp_path):
    command = small(tmp_path, epochs=1)
    done = naysayer(*command, "--limit", 1e-9)
    assert done.code == 0
    assert "2 runs are left; the same command resumes" in done.out
    done = naysayer(*command, "--json", "--markdown", tmp_path / "page.md")
    assert (done.json["left"], len(done.json["runs"])) == (0, 2)
    text = (tmp_path / "page.md").read_text(encoding="utf8")
    assert "Digits, mlp, plain, 1 epoch\n" in text
    assert (tmp_path / "estimates.png").is_file()
    assert not (tmp_path / "digits-mlp-plain-1.png").exists()  # one method alone is compared with nothing
    assert (tmp_path / "estimates.svg").is_file()
    assert "--method forward --epochs 1 --rates 0.003,0.01 --seeds 1" in text
    assert re.search(r"forward +\d+\.\d", naysayer(*command).out)


# ---- the page ----------------------------------------------------------------------------------------------------


def test_the_example_on_the_page_is_the_one_in_the_folder():
    own = (ROOT / "examples" / "own_method.py").read_text(encoding="utf8")
    assert f"```python\n{own}```\n" in (ROOT / "docs" / "benchmark" / "text.md").read_text(encoding="utf8")
    assert len(own.splitlines()) <= 12


def test_the_page_is_made_from_the_results(tmp_path, monkeypatch):
    for name in ("draw_worth", "draw_methods", "draw_estimates"):
        monkeypatch.setattr(page, name, lambda *arguments: Path(f"{arguments[-1]}.png"))
    monkeypatch.setattr(page, "write_html", lambda *_: None)
    (tmp_path / "benchmark").mkdir()
    for name in ("results.csv", "text.md"):
        (tmp_path / "benchmark" / name).write_bytes((ROOT / "docs" / "benchmark" / name).read_bytes())
    rows = job.read_results(tmp_path / "benchmark").values()
    page.write_page(rows, tmp_path / "benchmark", tmp_path / "benchmark.md")
    written = (tmp_path / "benchmark.md").read_text(encoding="utf8")
    command = "naysayer benchmark --draw --out docs/benchmark --markdown docs/benchmark.md"
    assert (ROOT / "docs" / "benchmark.md").read_text(encoding="utf8") == written, f"run: {command}"
    told = (ROOT / "docs" / "recipes.md").read_text(encoding="utf8")
    for line in re.findall(r"^\| (?:\S*MNIST|CIFAR-10) \|.*$", written.split("<a id")[1], re.MULTILINE):
        assert re.sub(r" ± [\d.]+", "", line) in told  # which tells it without deviations
    seconds = {
        name: [
            row.seconds
            for row in sorted(rows, key=lambda row: row.seed)
            if (row.dataset, row.network) == (name, "pooled")
        ]
        for name in ("mnist", "fashion", "kuzushiji", "cifar10")
    }
    once, more = (
        f"takes {seconds['mnist'][1]:.0f} seconds on MNIST",
        [s[0] - s[1] for s in seconds.values() if len(s) > 1],
    )
    assert f"{once} and {seconds['fashion'][1]:.0f} on Fashion- and Kuzushiji-MNIST" in told
    assert round(seconds["fashion"][1]) == round(seconds["kuzushiji"][1])
    assert f"{min(more):.0f} to {max(more):.0f} seconds more" in told
    assert f"On CIFAR-10 it takes {seconds['cifar10'][0]:.0f} seconds" in told
