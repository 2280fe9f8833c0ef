"""The search: what it tries, whom it stops, by which labels it chooses and judges, what it writes, how it resumes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from helpers import raises
from naysayer import Population, complement
from naysayer.experiments import tune as job
from naysayer.experiments.tasks import Here
from naysayer.experiments.tune import Trial, list_trials, stages, tune
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.encoded import EncodedModel

FLOWERS = Path(__file__).parent.parent / "examples" / "flowers.csv"
QUICK = {"max_epochs": 9, "n_seeds": 2, "device": "cpu"}
NINE = list_trials(["forward", "scl-nl", "l-w"], ["linear"], ["plain"], [1e-4, 1e-3, 3e-2])


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True)
    return X.astype("float32"), complement(y, 3, random_state=0), y


@pytest.fixture(scope="module")
def whole(flowers, tmp_path_factory):
    """A search that nothing happened to, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    return search(flowers, folder), folder


def rows_of(folder):
    with open(folder / "trials.csv", encoding="utf8", newline="") as file:
        return list(csv.DictReader(file))


def search(flowers, out, trials=NINE, **options):
    X, y_bar, _ = flowers
    return tune(X, y_bar, 3, trials, out, **{"settings": QUICK, "show": False} | options)


# ---- what is tried --------------------------------------------------------------------------------------------


def test_what_is_tried_is_every_combination_once():
    assert len(NINE) == 9
    trials = list_trials(["forward", "forest", "forest"], ["mlp", "mlp:64x32"], None, None)
    assert sum(trial.method == "forest" for trial in trials) == 1
    assert {trial.recipe for trial in trials if trial.halves} == {"plain", "consistency"}
    assert {trial.lr for trial in trials if trial.recipe == "plain"} == {1e-3, 3e-3, 1e-2}  # those of the classifier
    assert Trial("forward", "mlp:64x32", "plain", 0.1).settings["hidden"] == (64, 32)
    assert Trial("forward", "mlp", "plain", 0.1).settings["hidden"] == (128,)


def test_our_suggestion_can_be_tried():
    assert {trial.method for trial in list_trials()} == set(job.METHODS)
    assert stages(1) == [1.0]
    assert stages(1000, 2) == [1 / 8, 1 / 4, 1 / 2, 1.0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"methods": ["foward"]}, "a method must be one of free,"),
        ({"methods": ["foward"]}, "got 'foward' (did you mean 'forward'?)"),
        ({"networks": ["resnet"]}, "a network must be mlp, linear, or mlp with the widths of its hidden layers"),
        ({"networks": ["mlp:12x0"]}, "as mlp:256x128; got 'mlp:12x0'"),
        ({"networks": ["linear:3"]}, "got 'linear:3'"),
        ({"recipes": ["cake"]}, "a recipe must be one of plain, consistency, progressive; got 'cake'"),
        ({"rates": [0.1, -1]}, "a learning rate must be a number above 0; got -1"),
    ],
)
def test_what_cannot_be_tried_is_refused(asked, words):
    with raises(words):
        list_trials(**asked)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"judge": 1.0}, "the share of labels that judge must lie between 0 and 1; got 1"),
        ({"one_in": 1}, "one in 2 trials or more must go on; got one in 1"),
        ({"judge": 0.001}, "2 of each at least; a share of 0.001 of 150 labels is 0"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(options, words, flowers, tmp_path):
    with raises(words):
        search(flowers, tmp_path, **options)


# ---- whom it stops, and who wins ------------------------------------------------------------------------------


def test_of_nine_trials_three_go_on_and_one_to_the_end(whole):
    found, folder = whole
    by_share = {share: [row for row in found.rows if row.share == share] for share in (1 / 9, 1 / 3, 1.0)}
    assert [len(rows) for rows in by_share.values()] == [9, 3, 1]
    assert [rows[0].epochs for rows in by_share.values()] == [1, 3, 9]
    best = sorted(by_share[1 / 9], key=lambda row: -row.estimate)[:3]
    assert {row.trial.key for row in by_share[1 / 3]} == {row.trial.key for row in best}
    assert found.trial.key == by_share[1.0][0].trial.key
    assert len(rows_of(folder)) == 13
    assert not (folder / "checkpoints").exists()
    with open(folder / "curves.csv", encoding="utf8", newline="") as file:
        curves = list(csv.DictReader(file))
    assert len(curves) == 6 * 1 + 2 * 3 + 1 * 9  # of each trial as far as it came
    assert json.loads((folder / "tune.json").read_text())["winner"]["method"] == found.trial.method


def test_a_trial_that_went_through_stages_is_the_one_trained_at_once(flowers, whole):
    X, y_bar, _ = flowers
    found, _ = whole
    rows, _ = job._deal(y_bar, job.JUDGE, 0)
    alone = ComplementaryClassifier(**QUICK | found.trial.settings, classes=[0, 1, 2], random_state=0)
    alone.fit(X[rows], y_bar[rows])
    np.testing.assert_array_equal(found.model.predict_proba(X), alone.predict_proba(X))
    (last,) = [row for row in found.rows if row.share == 1]
    assert last.estimate == alone.estimated_accuracy_.estimate


def test_what_is_no_network_is_not_stopped_but_judged_at_the_end(flowers, tmp_path):
    found = search(flowers, tmp_path, [*NINE[:3], Trial("discriminant")])
    assert [row.share for row in found.rows if row.method == "discriminant"] == [1.0]
    assert [row.epochs for row in found.rows if row.method == "discriminant"] == [0]


def test_a_trial_that_fails_says_why_and_does_not_win(flowers, tmp_path):
    q = (1 - np.eye(3)) / 2 * 0.9 + 0.1 * np.roll(np.eye(3), 1, axis=1)
    settings = QUICK | {"transition": q.tolist()}
    trials = list_trials(["forward", "scl-nl"], ["linear"], ["plain"], [0.03])
    found = search(flowers, tmp_path / "a", trials, settings=settings)
    (bad,) = [row for row in found.rows if row.failed]
    assert bad.method == "scl-nl"
    assert "takes labels to be uniform" in bad.failed
    assert found.trial.method == "forward"
    with raises("no trial came to an end; scl-nl linear plain 0.03 did not since `transition` must be None"):
        search(flowers, tmp_path / "b", trials[1:], settings=settings)


# ---- by which labels -------------------------------------------------------------------------------------------


def test_labels_that_judge_have_no_part_in_the_search(flowers, whole, tmp_path):
    X, y_bar, _ = flowers
    rows, judges = job._deal(y_bar, job.JUDGE, 0)
    assert sorted([*rows, *judges]) == list(range(150))
    assert len(judges) == 30
    other = y_bar.copy()
    other[judges] = (other[judges] + 1) % 3  # says something else altogether
    one, two = whole[0], search((X, other, None), tmp_path)
    for row, same in zip(one.rows, two.rows, strict=True):
        assert (row.key, row.estimate) == (same.key, same.estimate)
    np.testing.assert_array_equal(one.model.predict_proba(X), two.model.predict_proba(X))
    assert one.accuracy != two.accuracy
    assert one.model.estimated_accuracy_ == one.accuracy
    assert one.n_judges == 30


def test_rows_without_a_label_do_not_judge(flowers):
    _, y_bar, _ = flowers
    ruled_out = np.eye(3, dtype=bool)[y_bar]
    ruled_out[::2] = False
    rows, judges = job._deal(ruled_out, 0.2, 0)
    assert len(judges) == 15
    assert ruled_out[judges].any(axis=1).all()
    assert len(rows) == 135


# ---- interrupted and resumed ----------------------------------------------------------------------------------


def test_an_interrupted_search_resumes_and_ends_the_same(flowers, whole, tmp_path, monkeypatch):
    at_once, folder = whole
    real, n_epochs = Population._epoch, []

    def interrupted(self, *rest):
        n_epochs.append(self.course.epoch)
        if len(n_epochs) == 15:  # within the second stage, in the middle of a trial
            raise KeyboardInterrupt
        real(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Population, "_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search(flowers, tmp_path)
    assert 9 < len(rows_of(tmp_path)) < 13
    n_epochs.clear()
    monkeypatch.setattr(Population, "_epoch", lambda self, *rest: (n_epochs.append(1), real(self, *rest))[1])
    resumed = search(flowers, tmp_path)
    assert len(n_epochs) < 12  # of the 21 that there are in all, those of the first stage are not trained again
    for row, same in zip(at_once.rows, resumed.rows, strict=True):
        assert (row.key, row.estimate, row.epochs) == (same.key, same.estimate, same.epochs)
    assert resumed.accuracy == at_once.accuracy
    assert (tmp_path / "curves.csv").read_text() == (folder / "curves.csv").read_text()


def test_a_search_killed_between_its_two_files_resumes(flowers, whole, tmp_path, monkeypatch):
    at_once, folder = whole
    write, times = job._Search._write, []

    def killed(self, name, *rest):
        times.append(name)
        if times.count("curves.csv") == 2 and name == "trials.csv":  # the second trial has a curve and no row
            raise KeyboardInterrupt
        write(self, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(job._Search, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            search(flowers, tmp_path)
    assert len(rows_of(tmp_path)) == 1
    with monkeypatch.context() as patch:  # another trial is done first, and then that one
        patch.setattr(Here, "do", lambda self, tasks, bar, do=Here.do: do(self, tasks[::-1], bar))
        resumed = search(flowers, tmp_path)
    assert [(row.key, row.estimate) for row in resumed.rows] == [(row.key, row.estimate) for row in at_once.rows]
    assert (tmp_path / "curves.csv").read_text() == (folder / "curves.csv").read_text()


def test_a_stage_is_not_judged_by_what_a_later_one_left(flowers, whole, tmp_path, monkeypatch):
    at_once, _ = whole
    with monkeypatch.context() as patch:
        patch.setattr(job._Search, "finish", stopped)
        with pytest.raises(KeyboardInterrupt):
            search(flowers, tmp_path, [at_once.trial])  # has one stage, of all epochs
    assert [(row["share"], row["epochs"]) for row in rows_of(tmp_path)] == [("1.0", "9")]
    more = search(flowers, tmp_path)
    for row, same in zip(at_once.rows, more.rows, strict=True):
        assert (row.key, row.estimate, row.epochs) == (same.key, same.estimate, same.epochs)
    assert more.accuracy == at_once.accuracy


def stopped(*_):
    raise KeyboardInterrupt


def test_a_folder_of_another_search_is_refused(flowers, tmp_path):
    search(flowers, tmp_path, NINE[:1])
    with raises("it holds one of other data, settings or release; give another --out, or begin anew: --restart"):
        search(flowers, tmp_path, NINE[:1], settings=QUICK | {"max_epochs": 5})
    job.restart(tmp_path)
    search(flowers, tmp_path, NINE[:1], settings=QUICK | {"max_epochs": 5})


def test_checkpoints_may_be_kept_at_a_url(flowers, whole, tmp_path):
    one, _ = whole
    two = search(flowers, tmp_path / "out", workers=Here(f"file://{tmp_path}/shared"))
    assert one.accuracy == two.accuracy
    assert [row.key for row in one.rows] == [row.key for row in two.rows]
    assert not list((tmp_path / "shared").glob("*.checkpoint"))


# ---- the command ----------------------------------------------------------------------------------------------


def test_the_winner_predicts_and_is_evaluated(naysayer, tmp_path):
    asked = [
        "--method",
        "forward,discriminant",
        "--network",
        "linear",
        "--recipe",
        "plain",
        "--epochs",
        6,
        "--seeds",
        2,
    ]
    done = naysayer("tune", FLOWERS, "--label", "answer", "--out", tmp_path / "m", *asked, "--json")
    assert done.code == 0, done.err
    assert done.json["judges"] == 20
    model = EncodedModel.load(tmp_path / "m").model
    assert list(done.json["accuracy"].values()) == pytest.approx(list(model.estimated_accuracy_))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert naysayer("predict", tmp_path / "m", FLOWERS).out.count("\n") == 101
    evaluated = naysayer("evaluate", tmp_path / "m", FLOWERS)
    assert evaluated.code == 0
    # 80 rows, and one of those that judged is like one of them
    assert evaluated.err.startswith("warning: 81 of these 100 rows were trained on, so this accuracy is too high")
    again = naysayer("tune", FLOWERS, "--label", "answer", "--out", tmp_path / "m", *asked)
    assert again.code == 0, again.err
    assert "from 20 labels that had no part in the search" in again.out
    assert f"best: {done.json['winner']['method']}" in again.out
    refused = naysayer("tune", FLOWERS, "--label", "answer", "--out", tmp_path / "m", *asked, "--restart")
    assert "has one; add --force to overwrite it" in refused.err
    assert (tmp_path / "m" / "trials.csv").is_file()  # what was refused has lost nothing


def test_a_data_set_is_searched_by_drawn_labels(naysayer, tmp_path):
    asked = ["--method", "forward", "--network", "linear", "--recipe", "plain", "--lr", "0.01", "--epochs", 8]
    done = naysayer("tune", "digits", "--out", tmp_path / "m", *asked, "--seeds", 2)
    assert done.code == 0, done.err
    assert "1,297 'not this class', drawn from seed 0" in done.out
    assert "true accuracy on the data set's test part: " in done.out
    np.savez(tmp_path / "some.npz", X=np.zeros((3, 64)))
    assert naysayer("predict", tmp_path / "m", tmp_path / "some.npz").code == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["answers.db"], "tune needs a table or a data set; answers.db is a store of answers; naysayer train takes it"),
        ([FLOWERS], "Missing option '--label': the column that holds the labels"),
        (["digits", "--label", "y"], "--label is for tables; the labels of digits are drawn; leave it out"),
        ([FLOWERS, "--label", "answer", "--seed", "-1"], "--seed must be a whole number of at least 0; got -1"),
        ([FLOWERS, "--label", "answer", "--method", "magic"], "a method must be one of"),
        ([FLOWERS, "--label", "answer", "--checkpoints", "no://x"], "--checkpoints must be a folder, or a URL"),
    ],
)
def test_what_cannot_be_searched_is_said_in_one_line(asked, words, naysayer, tmp_path):
    done = naysayer("tune", *asked, "--out", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert words in done.err
