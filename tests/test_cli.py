"""The command: what it prints, writes and refuses. A mistake is one line and exit code 2; a kill loses nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

from helpers import every_command
from naysayer import ComplementaryClassifier, cli, complement, metrics, transition
from naysayer.cli import console
from naysayer.cli.app import _answer
from naysayer.cli.trainers import _trial_cells
from naysayer.common import progress
from naysayer.data import tables
from naysayer.data.labels import read_labels
from naysayer.engine import population, stack
from naysayer.experiments import demo
from naysayer.features.tables import TableEncoder
from naysayer.measure import doctor, planning
from naysayer.models import boosting

CLASSES = ["cat", "dog", "owl"]
FAST = ["--method", "forward", "--lr", "0.01", "--epochs", "25", "--seeds", "2", "--hidden", "16"]
FEATURES = ["weight", "age", "colour"]

pytestmark = pytest.mark.usefixtures("few_trees")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        """What was printed, read as strictly as other programs read it: no NaN, no Infinity."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture
def naysayer(monkeypatch, capsys):
    """Run the command in this process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["naysayer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        out, err = capsys.readouterr()
        code = exit_.value.code
        return Done(0 if code is None else code, out, err)

    return run


@pytest.fixture
def works(naysayer):
    """Run the command and expect it to go well, and quietly."""

    def run(*arguments):
        done = naysayer(*arguments)
        assert (done.code, done.err) == (0, ""), done.err
        return done

    return run


def animals(n=300, seed=0):
    """A table with numbers, categories and gaps, the truth, and three ways to say what each row is not."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    weight = np.array([4.0, 20.0, 1.0])[y] * np.exp(0.2 * rng.normal(size=n))
    colour = np.where(rng.random(n) < 0.8, np.array(["red", "brown", "white"])[y], "black")
    y_bar = complement(y, 3, random_state=seed)
    names = np.array(CLASSES)
    says = np.where(np.arange(n) % 5 == 0, names[y], np.char.add("!", names[y_bar]))
    says[::17] = ""
    table = {
        "weight": [f"{w:.4f}" for w in weight],
        "age": ["" if r < 0.1 else f"{10 * r:.2f}" for r in rng.random(n)],
        "colour": ["" if r < 0.1 else c for r, c in zip(rng.random(n), colour, strict=True)],
        "not": names[y_bar].tolist(),
        "says": says.tolist(),
        "truth": names[y].tolist(),
    }
    return table


def write(path, table):
    """Write a table in the format that its name ends in."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="," if path.suffix == ".csv" else "\t")
            writer.writerows([list(table), *zip(*table.values(), strict=True)])
        return path
    numbers = {k: [float(v) if v else np.nan for v in table[k]] for k in ("weight", "age") if k in table}
    if path.suffix == ".parquet":
        texts = {k: [v or None for v in values] for k, values in table.items()}
        pd.DataFrame(texts | numbers)[list(table)].to_parquet(path)
    else:
        np.savez(path, **{k: np.array(v) for k, v in (table | numbers).items()})
    return path


def only(table, *columns):
    return {k: v for k, v in table.items() if k in (*FEATURES, *columns)}


@pytest.fixture
def pets(tmp_path):
    return write(tmp_path / "pets.csv", only(animals(), "not"))


@pytest.fixture
def others(tmp_path):
    """Rows that were not trained on, with their truth."""
    return write(tmp_path / "others.csv", only(animals(seed=1), "not", "truth"))


@pytest.fixture
def model(works, pets, tmp_path):
    works("train", pets, "--label", "not", "--out", tmp_path / "model", *FAST)
    return tmp_path / "model"


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def everything(folder):
    """All files and folders below one, with their content."""
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


# ---- the way through ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npz"])
def test_train_predict_evaluate(works, tmp_path, ending):
    table, unseen = (write(tmp_path / f"{name}.{ending}", animals(seed=i)) for i, name in enumerate(("a", "b")))
    model = tmp_path / "models" / "pets"
    done = works("train", table, "--label", "not", "--drop", "says, truth", "--out", model, *FAST)
    assert "labels: 300 'not this class'" in done.out
    assert re.search(r"^forward +0\.01 +25 +[\d.]+ +\d+$", done.out, re.MULTILINE)
    assert "of all members together, from labels that had no part in what they judge" in done.out
    assert f"saved in {model}; next: naysayer predict {model} TABLE" in done.out
    assert sorted(path.name.split("-")[0] for path in model.iterdir()) == ["model.json", "weights"]

    rows = read_csv(works("predict", model, unseen).out)
    truth = animals(seed=1)["truth"]
    assert [row["row"] for row in rows] == [str(i) for i in range(300)]
    right = np.mean([row["prediction"] == true for row, true in zip(rows, truth, strict=True)])
    assert right > 0.8
    assert all(1 / 3 - 1e-3 <= float(row["probability"]) <= 1 for row in rows)

    told = works("evaluate", model, unseen)
    estimate, low, high = map(float, re.search(r"accuracy: ([\d.]+) \(([\d.]+) to ([\d.]+)\) %", told.out).groups())
    assert low <= 100 * right <= high
    exact = works("evaluate", model, unseen, "--label", "truth", "--ordinary", "--json").json["accuracy"]["estimate"]
    assert exact == pytest.approx(right)
    assert estimate == pytest.approx(100 * right, abs=10)


def test_every_format_makes_the_same_model(works, tmp_path):
    table = only(animals(), "not")
    predictions = []
    for ending in ("csv", "tsv", "parquet", "npz"):
        path = write(tmp_path / f"pets.{ending}", table)
        works("train", path, "--label", "not", "--out", tmp_path / ending, *FAST)
        predictions.append(works("predict", tmp_path / ending, path, "--probabilities").out)
    assert len(set(predictions)) == 1


def test_mixed_labels(works, naysayer, tmp_path):
    table = write(tmp_path / "pets.csv", only(animals(), "says"))
    done = works("train", table, "--label", "says", "--out", tmp_path / "model", "--alpha", "0.5", *FAST)
    assert "labels: 226 'not this class', 56 'is this class', 18 that say nothing" in done.out
    rows = read_csv(works("predict", tmp_path / "model", table).out)
    truth = animals()["truth"]
    assert np.mean([row["prediction"] == true for row, true in zip(rows, truth, strict=True)]) > 0.8
    assert "18 that say nothing" in naysayer("evaluate", tmp_path / "model", table).out


def test_two_classes_from_end_to_end(works, tmp_path):
    y = np.arange(200) % 2
    says, rng = [f"!{'ab'[1 - k]}" for k in y], np.random.default_rng(0)
    tables = [{"x": np.round(y + 0.1 * rng.normal(size=200), 6).tolist(), "says": says} for _ in range(2)]
    table, new = (write(tmp_path / f"{name}.csv", found) for name, found in zip(("two", "new"), tables, strict=True))
    for label in ("!a", "a"):
        done = works("train", table, "--label", "says", "--out", tmp_path / label, *FAST, "--json").json
        assert done["classes"] == ["a", "b"]
        rows = read_csv(works("predict", tmp_path / label, table).out)
        assert np.mean([row["prediction"] == "ab"[k] for row, k in zip(rows, y, strict=True)]) > 0.95
        assert works("evaluate", tmp_path / label, new, "--json").json["accuracy"]["estimate"] > 0.95
    assert "With two classes" in works("doctor", table, "--label", "says").out
    counts = works("plan", "--classes", 2, "--json").json["labels"]
    assert counts["ordinary"] == counts["complementary"] == counts["yes_no"]


def test_classes_that_are_numbers_or_never_named(works, tmp_path):
    names = {"cat": "10", "dog": "9", "owl": "100"}
    table = only(animals(), "not")
    table["not"] = [names[name] for name in table["not"]]
    path = write(tmp_path / "pets.csv", table)
    done = works("train", path, "--label", "not", "--out", tmp_path / "a", *FAST, "--json").json
    assert done["classes"] == ["9", "10", "100"]
    done = works("train", path, "--label", "not", "--classes", "100, 9,10,7", "--out", tmp_path / "b", *FAST, "--json")
    assert done.json["classes"] == ["100", "9", "10", "7"]
    heads = works("predict", tmp_path / "b", path, "--probabilities").out.splitlines()[0]
    assert heads == "row,prediction,probability,P(100),P(9),P(10),P(7)"


def test_predictions_go_to_a_file_whole(works, naysayer, tmp_path, model, others):
    printed = works("predict", model, others, "--probabilities").out
    target = tmp_path / "deep" / "out.csv"
    done = naysayer("predict", model, others, "--probabilities", "--out", target)
    assert done == (0, "", f"300 predictions are in {target}\n")
    assert target.read_text() == printed
    for row in read_csv(printed):
        shares = [float(row[f"P({name})"]) for name in CLASSES]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert float(row["probability"]) == max(shares)
        assert row["prediction"] == CLASSES[int(np.argmax(shares))]


def test_a_transition_matrix_is_read_and_remembered(works, naysayer, refuses, tmp_path):
    q = np.array([[0.3, 0.6, 0.1], [0.1, 0.3, 0.6], [0.6, 0.1, 0.3]])  # the least frequent label is not the class
    table = only(animals(), "truth")
    truth = np.array([CLASSES.index(name) for name in table.pop("truth")])
    y_bar = complement(truth, 3, transition=q, random_state=0)
    path = write(tmp_path / "pets.csv", table | {"not": [CLASSES[k] for k in y_bar]})
    np.savetxt(tmp_path / "q.csv", q, delimiter=",")
    works("train", path, "--label", "not", "--out", tmp_path / "m", "--transition", tmp_path / "q.csv", *FAST)
    rows = read_csv(works("predict", tmp_path / "m", path).out)
    predicted = np.array([CLASSES.index(row["prediction"]) for row in rows])
    assert (predicted == truth).mean() > 0.75
    told = naysayer("evaluate", tmp_path / "m", path, "--json").json["accuracy"]
    expected = metrics.accuracy_interval(y_bar, predicted, 3, transition=q)
    assert [told[k] for k in ("estimate", "low", "high")] == pytest.approx(list(expected))

    other = 0.9 * q + 0.1 / 3
    np.savetxt(tmp_path / "other.csv", other, delimiter=",", newline="\r\n")
    (tmp_path / "other.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "other.csv").read_bytes())  # as Excel does
    options = ["--transition", tmp_path / "other.csv", "--json"]
    told = naysayer("evaluate", tmp_path / "m", path, *options).json["accuracy"]
    expected = metrics.accuracy_interval(y_bar, predicted, 3, transition=other)
    assert [told[k] for k in ("estimate", "low", "high")] == pytest.approx(list(expected))
    told = works("doctor", path, "--label", "not", *options).json
    assert told["findings"] == doctor.examine(y_bar, class_names=CLASSES, transition=other).to_dict()["findings"]
    assert "transition matrix" in works("doctor", path, "--label", "not", *options[:2]).out
    pairs = np.random.default_rng(0).integers(0, 3, 200)
    estimated = transition.estimate(complement(pairs, 3, transition=q, random_state=1), pairs, 3)
    (tmp_path / "q.json").write_text(json.dumps(estimated.to_json()), encoding="utf-8-sig")
    np.savetxt(tmp_path / "estimated.csv", estimated, delimiter=",")
    widths = []
    for name, matrix in (("q.json", estimated), ("estimated.csv", np.asarray(estimated))):
        options = ["--transition", tmp_path / name, "--json"]
        told = naysayer("evaluate", tmp_path / "m", path, *options).json["accuracy"]
        expected = metrics.accuracy_interval(y_bar, predicted, 3, transition=matrix)
        assert [told[k] for k in ("estimate", "low", "high")] == pytest.approx(list(expected))
        widths.append(told["high"] - told["low"])
        assert works("doctor", path, "--label", "not", *options).json["findings"]
    assert widths[0] > 1.1 * widths[1]  # a CSV is taken as known
    options = ["--transition", tmp_path / "q.json", "--force", *FAST]
    works("train", path, "--label", "not", "--out", tmp_path / "m", *options)
    assert (ComplementaryClassifier.load(tmp_path / "m").transition.counts == estimated.counts).all()
    for written, words in (
        ("{}", "it lacks 'matrix'"),
        ("[1]", "list indices must be integers"),
        ("no", "Expecting value"),
        (json.dumps(estimated.to_json() | {"counts": [[1]]}), "`counts` must be those of pairs, (3, 3); got [[1]]"),
        (
            json.dumps(estimated.to_json() | {"model": "odd"}),
            "`model` must be one of noisy, biased, both, free; got 'odd'",
        ),
    ):
        (tmp_path / "q.json").write_text(written)
        named = "q.json must be the JSON of what transition.estimate gave: "
        refuses(f"{named}{words}", "doctor", path, "--label", "not", "--transition", tmp_path / "q.json")
    refuses("nowhere.csv must be a CSV of numbers", "evaluate", tmp_path / "m", path, "--transition", "nowhere.csv")
    refuses("nowhere.csv must be a CSV of numbers", "doctor", path, "--label", "not", "--transition", "nowhere.csv")


# ---- JSON -----------------------------------------------------------------------------------------------------


def test_train_says_the_same_as_json(works, tmp_path, pets):
    options = [pets, "--label", "not", "--out", tmp_path / "model", *FAST, "--lr", "0.003,0.01"]
    text, told = works("train", *options).out, works("train", *options, "--force", "--json").json
    assert told["classes"] == CLASSES
    assert told["rows"] == 300
    assert told["model"] == str(tmp_path / "model")
    assert told["notes"][0] in text
    assert told["method"] == "forward"
    assert told["learned"] is True
    assert [trial["lr"] for trial in told["trials"]] == [0.003, 0.01]
    assert 0.5 < sum(trial["weight"] for trial in told["trials"]) <= 1
    for trial in told["trials"]:
        shares = rf"{100 * trial['estimated_accuracy']:.1f} +{100 * trial['weight']:.0f}"
        assert re.search(rf"^forward +{trial['lr']:g} +{trial['epoch'] + 1} +{shares}$", text, re.MULTILINE)
    a = told["accuracy"]
    assert f"{100 * a['estimate']:.1f} ({100 * a['low']:.1f} to {100 * a['high']:.1f}) %" in text
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    assert list(loaded.estimated_accuracy_) == [a["estimate"], a["low"], a["high"]]
    assert loaded.trials_ == told["trials"]


def test_a_table_is_trained_by_a_recipe(works, tmp_path, pets):
    options = [pets, "--label", "not", *FAST, "--json"]
    told = works("train", *options, "--out", tmp_path / "model", "--recipe", "consistency").json
    plain = works("train", *options, "--out", tmp_path / "plain").json
    assert told["learned"]
    assert told["trials"][0]["estimated_accuracy"] is not None
    assert told["trials"] != plain["trials"]
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    assert (loaded.recipe, ComplementaryClassifier.load(tmp_path / "plain").recipe) == ("consistency", "auto")
    assert works("predict", tmp_path / "model", pets).out.count("\n") == 301


def test_a_failed_setting_is_told_as_such(works, tmp_path, pets):
    options = [pets, "--label", "not", "--out", tmp_path / "model", *FAST, "--lr", "0.01,1e38"]
    text, told = works("train", *options).out, works("train", *options, "--force", "--json").json
    assert "2 runs were stopped: forward, run 2: its loss was nan" in text
    assert re.search(r"^forward +1e\+38 +failed$", text, re.MULTILINE)
    good, failed = sorted(told["trials"], key=lambda trial: trial["lr"])
    assert (failed["lr"], failed["estimated_accuracy"], failed["weight"]) == (1e38, None, 0)
    assert good["lr"] == 0.01
    assert good["weight"] > 0.5


def test_members_are_named_and_told_in_a_table(works, tmp_path, pets, others):
    options = [pets, "--label", "not", "--out", tmp_path / "model", *FAST, "--method", "forest, linear,forward"]
    text, told = works("train", *options).out, works("train", *options, "--force", "--json").json
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("member "))
    assert re.split("  +", lines[start]) == ["member", "learning rate", "epochs", "estimated accuracy %", "weight %"]
    names = {"forest": (None, None), "forward, linear": (0.01, 24), "forward": (0.01, 24)}
    assert [(t["lr"], t["epoch"]) for t in told["trials"]] == list(names.values())
    for name, trial, line in zip(names, told["trials"], lines[start + 2 :]):
        rate = [] if trial["lr"] is None else ["0.01", "25"]
        shares = [f"{100 * trial['estimated_accuracy']:.1f}", f"{100 * trial['weight']:.0f}"]
        assert re.split("  +", line) == [name, *rate, *shares]
    assert sum(trial["weight"] for trial in told["trials"]) <= 1 + 1e-9
    rows = read_csv(works("predict", tmp_path / "model", others).out)
    right = [row["prediction"] == true for row, true in zip(rows, animals(seed=1)["truth"], strict=True)]
    assert np.mean(right) > 0.8


def test_the_default_trains_networks_and_trees(works, tmp_path, pets):
    told = works("train", pets, "--label", "not", "--out", tmp_path / "model", "--seeds", 5, "--json").json
    members = [(trial["method"], trial["network"]) for trial in told["trials"]]
    boosted = [("boosting", None)] if boosting.is_available() else []
    others = [("forest", None), *boosted, ("neighbours", None), ("discriminant", None)]
    assert members == [("forward", "mlp"), ("forward", "linear"), *others]


def test_a_time_limit_is_held(works, tmp_path, pets):
    """The first member gets an epoch; after that, no time is left for another, nor for the rest of its epochs."""
    line = ["train", pets, "--label", "not", *FAST, "--method", "forward,forest,linear", "--json", "--out"]
    told = works(*line, tmp_path / "short", "--time-limit", "1e-9").json
    assert [(trial["method"], trial["epoch"]) for trial in told["trials"]] == [("forward", 0)]
    assert len(read_csv(works("predict", tmp_path / "short", pets).out)) == 300
    told = works(*line, tmp_path / "long", "--time-limit", "1e9").json
    assert [(trial["method"], trial["epoch"]) for trial in told["trials"]] == [
        ("forward", 24),
        ("forest", None),
        ("forward", 24),
    ]


def test_a_member_that_time_ran_out_for_is_told_as_such():
    about = {"method": "boosting", "network": None, "lr": None, "epoch": None}
    assert _trial_cells(about | {"estimated_accuracy": None, "weight": 0.0}) == ["boosting", "", "", "no time", ""]
    assert _trial_cells(about | {"estimated_accuracy": -0.1, "weight": 0.125}) == ["boosting", "", "", "0.0", "12"]


def test_nothing_learned_is_the_first_line(works, tmp_path, pets):
    rng = np.random.default_rng(0)
    noise = {"x": rng.normal(size=80).round(4).tolist(), "not": rng.choice(list("abcdefgh"), 80).tolist()}
    options = [write(tmp_path / "noise.csv", noise), "--label", "not", "--out", tmp_path / "model", *FAST]
    first = works("train", *options).out.splitlines()[0]
    assert first.startswith("nothing was learned that can be distinguished from guessing: the estimated accuracy is ")
    assert re.search(r"guessing is 12 %; an accuracy of \d+ % takes about [\d,]+ labels", first)
    told = works("train", *options, "--force", "--json").json
    assert told["learned"] is False
    assert told["notes"][0] == first
    assert told["accuracy"]["low"] <= 1 / 8
    learned = works("train", pets, "--label", "not", "--out", tmp_path / "pets", *FAST).out
    assert "nothing was learned" not in learned


def test_predict_says_the_same_as_json(works, model, others):
    for options in ([], ["--probabilities"]):
        rows = read_csv(works("predict", model, others, *options).out)
        told = works("predict", model, others, *options, "--json").json
        assert [{k: str(v) for k, v in row.items()} for row in told] == rows


def test_evaluate_warns_of_rows_that_were_trained_on(works, naysayer, model, pets, others, tmp_path):
    rows, new = Path(pets).read_text().splitlines(), Path(others).read_text().splitlines()
    done = naysayer("evaluate", model, pets)
    words = (
        "rows were trained on, so this accuracy is too high; see the estimated accuracy that `naysayer train` or "
        "`naysayer tune` printed"
    )
    assert (done.code, done.err) == (0, f"warning: 300 of these 300 {words}\n")
    (tmp_path / "both.csv").write_text("\n".join([*rows[:101], *(line.rpartition(",")[0] for line in new[1:])]) + "\n")
    assert re.match("warning: 100 of these 400 rows", naysayer("evaluate", model, tmp_path / "both.csv", "--json").err)
    works("evaluate", model, others)  # quietly
    about = json.loads((model / "model.json").read_text())
    del about["extra"]["rows_learned"]  # as earlier releases did
    (model / "model.json").write_text(json.dumps(about))
    works("evaluate", model, pets)


def test_evaluate_says_the_same_as_json_and_as_the_library(works, model, others):
    text = works("evaluate", model, others, "--confidence", "0.9").out
    told = works("evaluate", model, others, "--confidence", "0.9", "--json").json
    fitted = ComplementaryClassifier.load(model)
    data = tables.read_table(others)
    y_bar, names, said = read_labels(data, "not", CLASSES)
    encoder = TableEncoder.from_dict(fitted.extra_["encoder"])
    predicted = fitted.predict_proba(encoder.transform(data)).argmax(axis=1)
    expected = metrics.accuracy_interval(y_bar, predicted, 3, 0.9)
    accuracy = told["accuracy"]
    assert [accuracy[k] for k in ("estimate", "low", "high")] == pytest.approx(list(expected))
    assert said == told["labels"]
    assert said in text
    shown = f"{100 * expected[0]:.1f} ({100 * expected[1]:.1f} to {100 * expected[2]:.1f}) % (90% interval)"
    assert f"estimated accuracy: {shown}" in text
    prior = metrics.class_prior_interval(y_bar, 3, 0.9)
    for k, row in enumerate(told["classes"]):
        assert row["class"] == names[k]
        assert row["prior"] == pytest.approx(prior.estimate[k])
        assert row["predicted_share"] == pytest.approx((predicted == k).mean())
        line = next(line for line in text.splitlines() if line.startswith(names[k]))
        assert f"{100 * row['prior']:.1f} ({100 * row['prior_low']:.1f} to {100 * row['prior_high']:.1f})" in line
        assert f"{100 * row['predicted_share']:.1f}" in line
        assert row["prior_low"] > 0
        assert not row["recall_rough"]
        assert line.endswith(f" {100 * row['recall']:.0f}")
    assert "rough" not in text


def test_what_is_found_of_a_class_is_rough_where_there_may_be_none(works, tmp_path, model):
    table = only(animals(n=12, seed=3), "not")  # four of each class: their shares are anything
    path = write(tmp_path / "few.csv", table)
    told = works("evaluate", model, path, "--json").json["classes"]
    rough = {row["class"]: row["recall"] for row in told if row["recall_rough"]}
    assert rough
    assert all(row["prior_low"] == 0 for row in told if row["class"] in rough)
    text = works("evaluate", model, path).out
    for name, recall in rough.items():
        assert re.search(rf"^{name} .* {100 * recall:.0f}\?$", text, re.MULTILINE)
    assert "A question mark after found %: a rough estimate; by these labels the class may not occur" in text


def test_nothing_impossible_is_shown(works, tmp_path, model):
    """Labels that contradict every prediction, and say of some classes that there are fewer than none."""
    table = only(animals(seed=2), "not", "truth")
    table["not"] = table["truth"]  # of nearly all rows, what the model predicts
    path = write(tmp_path / "wrong.csv", table)
    told = works("evaluate", model, path, "--json").json
    assert told["accuracy"]["estimate"] < -0.5  # for programs
    assert 0 <= told["accuracy"]["low"] <= told["accuracy"]["high"] <= 1
    for row in told["classes"]:
        shown = [row["prior_low"], row["prior_high"], row["recall"], *(row["precision"] or [])]
        assert all(share is None or 0 <= share <= 1 for share in shown)
    text = works("evaluate", model, path).out
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+|-\d+", text)]
    assert len(numbers) > 10
    assert all(0 <= number <= 100 for number in numbers)


def test_a_class_of_which_there_is_none_has_no_recall(works, tmp_path, model):
    table = only(animals(seed=2), "not", "truth")
    table["not"] = ["owl"] * len(table["truth"])  # twice what owls could get, were there none
    told = works("evaluate", model, write(tmp_path / "none.csv", table), "--json").json
    assert told["classes"][2]["prior"] < 0
    assert told["classes"][2]["recall"] is None
    assert re.search(r"owl .* -$", works("evaluate", model, tmp_path / "none.csv").out, re.MULTILINE)


def test_a_class_that_is_never_predicted_has_null_in_json(works, tmp_path, model):
    table = only(animals(seed=2), "not", "truth")
    cats = [i for i, name in enumerate(table["truth"]) if name == "cat" and table["colour"][i] == "red"]
    path = write(tmp_path / "cats.csv", {k: [v[i] for i in cats] for k, v in table.items()})
    told = works("evaluate", model, path, "--json").json
    owl = told["classes"][2]
    assert owl["predicted_share"] == 0
    assert owl["precision"] is None
    assert "owl" in works("evaluate", model, path).out


def test_plan_says_the_same_as_json_and_as_the_library(works):
    options = ["plan", "--classes", 10, "--margin", "0.02", "--accuracy", "0.8", "--confidence", "0.9"]
    text, told = works(*options).out, works(*options, "--json").json
    expected = planning.labels_needed(10, 0.02, 0.8, 0.9)
    assert told["labels"] == expected._asdict()
    assert (told["classes"], told["margin"], told["accuracy"], told["confidence"]) == (10, 0.02, 0.8, 0.9)
    for count in expected:
        assert f"{count:,}" in text


def test_doctor_says_the_same_as_json_and_as_the_library(works, tmp_path):
    path = write(tmp_path / "pets.csv", only(animals(), "says"))
    text = works("doctor", path, "--label", "says").out
    told = works("doctor", path, "--label", "says", "--json").json
    y_bar, names, said = read_labels(tables.read_table(path), "says")
    expected = doctor.examine(y_bar, 3, names)
    columns = {"weight": "number", "age": "number, 24 missing", "colour": "category, 4 values, 34 missing"}
    assert told == json.loads(json.dumps({"labels": said, "columns": columns} | expected.to_dict()))
    assert said in text
    for name, how in columns.items():
        assert f"column {name!r}: {how}\n" in text
    for finding in expected.findings:
        assert f"{finding.level:>8}: {finding.text}" in text
    for advice in expected.advice:
        assert advice in text
    for row in expected.classes:
        assert re.search(rf"^{row.name} +{row.ruled_out} +{row.named} ", text, re.MULTILINE)


@pytest.fixture
def visits(tmp_path):
    """A table as others write it: an id, a date, separators, percents, two classes that may be one."""
    rng = np.random.default_rng(0)
    columns = {
        "visit_id": [1000 + 7 * i for i in range(90)],
        "when": [f"2024-{1 + i % 12:02}-{1 + i % 28:02} {i % 24:02}:00" for i in range(90)],
        "paid": [f"{value:,.2f}" for value in rng.integers(500, 5000, 90)],
        "rate": [f"{value}%" for value in rng.integers(0, 100, 90)],
        "town": [str(value) for value in rng.integers(1000, 1005, 90)],
        "says": [("!Cat", "!cat", "!dog", "!owl")[i % 4] for i in range(90)],
    }
    lines = [";".join(map(str, row)) for row in [list(columns), *zip(*columns.values(), strict=True)]]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "visits.csv"


def test_train_and_doctor_say_how_columns_and_classes_were_read(works, naysayer, refuses, tmp_path, visits):
    options = ["--label", "says", "--delimiter", ";", "--categorical", "town"]
    read = {
        "visit_id": "left out: an id, different in every row",
        "when": "date, as days, month, weekday, hour",
        "paid": "number",
        "rate": "number, from percents",
        "town": "category, 5 values",
    }
    alike = "Two classes may be one: 'Cat' and 'cat' differ only in case or spaces."
    doctor = works("doctor", visits, *options).out
    trained = works("train", visits, *options, "--out", tmp_path / "a", *FAST).out
    for name, how in read.items():
        assert f"column {name!r}: {how}\n" in doctor
        assert f"column {name!r}: {how}\n" in trained
    assert f" warning: {alike}\n" in doctor
    assert f"warning: {alike}\n" in trained
    assert "4 classes: Cat, cat, dog, owl\n" in trained
    told = works("doctor", visits, *options, "--json").json
    assert told["columns"] == read
    assert {"level": "warning", "text": alike} in told["findings"]
    told = works("train", visits, *options, "--out", tmp_path / "b", *FAST, "--json").json
    assert told["columns"] == read
    assert f"warning: {alike}" in told["notes"]
    rows = read_csv(works("predict", tmp_path / "b", visits, "--delimiter", ";").out)
    assert len(rows) == 90
    naysayer("evaluate", tmp_path / "b", visits, "--delimiter", ";")

    told = works("doctor", visits, *options[:4], "--drop", "when,paid", "--numeric", "visit_id", "--json").json
    assert told["columns"] == {"visit_id": "number", "rate": "number, from percents", "town": "number"}
    refuses("must be separated by ','; its header has ';'; name it, as --delimiter does", "doctor", visits)
    refuses("column 'when' must hold numbers; got '2024-01-01 00:00'", "doctor", visits, *options, "--numeric", "when")
    refuses("'town' is both in categorical and in numeric", "doctor", visits, *options, "--numeric", "town")
    refuses("a delimiter must be one character", "doctor", visits, "--label", "says", "--delimiter", "semicolon")


def test_a_class_that_a_slip_has_made_is_told(works, naysayer, tmp_path, pets):
    text = Path(pets).read_text().rstrip("\n")
    (tmp_path / "cut.csv").write_text(text[:-1] + "\n")  # as a file ends that was not copied whole
    cut = text.rpartition(",")[2][:-1]
    told = f"warning: class {cut!r} is named by 1 of 300 labels; since it is hardly ever ruled out"
    options = ["--label", "not"]
    assert told in works("doctor", tmp_path / "cut.csv", *options).out
    assert (
        "is named by 1 label"
        not in works("doctor", tmp_path / "cut.csv", *options, "--classes", f"{cut},cat,dog,owl").out
    )
    for i, more in enumerate(([], ["--memory", 8])):
        assert told in works("train", tmp_path / "cut.csv", *options, *FAST, *more, "--out", tmp_path / f"cut{i}").out


def test_predict_keeps_an_id(works, refuses, tmp_path, visits):
    options = [visits, "--delimiter", ";"]
    works("train", *options, "--label", "says", "--out", tmp_path / "model", *FAST)
    for asked in ([], ["--id", "visit_id"]):  # training found it; or it is named
        rows = read_csv(works("predict", tmp_path / "model", *options, *asked).out)
        assert list(rows[0]) == ["row", "visit_id", "prediction", "probability"]
        assert [row["visit_id"] for row in rows] == [str(1000 + 7 * i) for i in range(90)]
    told = works("predict", tmp_path / "model", *options, "--id", "when", "--probabilities", "--json").json
    assert list(told[0]) == [
        "row",
        "when",
        "prediction",
        "probability",
        *(f"P({k})" for k in ("Cat", "cat", "dog", "owl")),
    ]
    assert told[25]["when"] == "2024-02-26 01:00"
    without = pd.read_csv(visits, sep=";").drop(columns="visit_id")
    without.to_csv(tmp_path / "without.csv", index=False)
    assert list(read_csv(works("predict", tmp_path / "model", tmp_path / "without.csv").out)[0])[:2] == [
        "row",
        "prediction",
    ]
    refuses("must have a column 'visits'", "predict", tmp_path / "model", *options, "--id", "visits")
    odd = {"row": np.nan, "visit": [np.nan, np.inf, *range(88)], "parts": [[1]] * 90}
    without.assign(**odd).to_parquet(tmp_path / "with.parquet")
    command = ["predict", tmp_path / "model", tmp_path / "with.parquet", "--json", "--id"]
    assert [row["visit"] for row in works(*command, "visit").json[:3]] == [None, None, 0]
    refuses("column 'parts' is list<element: int64>; flatten it or drop it", *command, "parts")
    refuses("--id must name a column that the output does not have anyway; got 'row'; rename it", *command, "row")


def test_many_columns_that_are_read_alike_take_one_line(works, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(30, 40)), y=np.arange(30) % 3)
    out = works("doctor", tmp_path / "t.npz", "--label", "y").out
    assert "columns 'X[0]' to 'X[39]' (40 in all): number\n" in out
    assert out.count("column") == 1


def test_a_bar_is_shown_where_a_person_looks_and_the_output_stays_clean(naysayer, tmp_path, pets, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    done = naysayer("train", pets, "--label", "not", "--out", tmp_path / "model", *FAST, "--json")
    assert done.code == 0
    assert "training forward" in done.err
    assert done.json["method"] == "forward"


def test_lines_tell_of_progress_where_there_is_no_terminal(naysayer, tmp_path, pets, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    done = naysayer("train", pets, "--label", "not", "--out", tmp_path / "model", *FAST, "--json")
    assert done.code == 0
    assert done.json["method"] == "forward"
    lines = [
        re.fullmatch(r"training forward: (\d+) % after \d:\d\d:\d\d(, \d:\d\d:\d\d left)?", line)
        for line in done.err.splitlines()
    ]
    assert len(lines) > 20
    shares = [int(line[1]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 96


def test_doctor_needs_no_column_where_there_is_one(works, tmp_path):
    path = write(tmp_path / "labels.csv", {"not": animals()["not"]})
    assert works("doctor", path, "--json").json["n_rows"] == 300
    told = works("doctor", path, "--classes", "cat,dog,owl,emu", "--json").json
    assert told["n_classes"] == 4
    assert any("emu" in finding["text"] for finding in told["findings"])


def test_demo_says_the_same_as_json(works, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "ANSWERS", (1, 9))
    picture = tmp_path / "demo.png"
    text = works("demo", "--epochs", 1, "--out", picture).out
    told = works("demo", "--epochs", 1, "--out", picture, "--json").json
    assert told["plot"] == str(picture)
    assert len(told["trials"]) == 2 * len(demo.METHODS)
    for trial in told["trials"]:
        line = next(line for line in text.splitlines() if line.startswith(demo.METHODS[trial["method"]]))
        assert f"{100 * trial['true_accuracy']:.1f}" in line
        if trial["n_answers"] == 1:
            estimate, low, high = trial["estimated"]
            assert f"{100 * estimate:.1f} ({100 * low:.1f} to {100 * high:.1f})" in line
            assert f"{100 * trial['true_of_estimated']:.1f}" in line
    assert picture.read_bytes()[:4] == b"\x89PNG"


# ---- mistakes -------------------------------------------------------------------------------------------------


@pytest.fixture
def refuses(naysayer, tmp_path):
    """Run the command and expect one line, exit code 2, and nothing changed on the disk."""

    def run(words, *arguments):
        before = everything(tmp_path)
        done = naysayer(*arguments)
        assert done.code == 2, done
        assert done.out == ""
        lines = done.err.splitlines()
        assert len(lines) == 1, done.err
        assert lines[0].startswith("naysayer: ")
        assert words in lines[0]
        assert everything(tmp_path) == before
        return lines[0]

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "No such command 'trian'"),
        (["--colour"], "No such option: --colour"),
        (["plan", "--classes", "3", "--colour", "red"], "No such option: --colour"),
        (["plan"], "Missing option '--classes'"),
        (["plan", "--classes", "three"], "Invalid value for '--classes'"),
        (["plan", "--classes", "1"], "`n_classes` must be a whole number of at least 2; got 1"),
        (["plan", "--classes", "3", "--margin", "0"], "`margin` must be from"),
        (["plan", "--classes", "3", "--accuracy", "90"], "`accuracy` must be from 0 to 1; got 90.0"),
        (["plan", "--classes", "3", "--confidence", "1"], "`confidence` must lie between 0 and 1"),
        (["plan", "--classes", "3", "extra"], "unexpected extra argument"),
        (["demo", "--epochs", "0"], "--epochs must be a whole number of at least 1; got 0"),
        (["demo", "--seed", "-1"], "`random_state` must be None, a whole number from 0 up"),
        (["demo", "--device", "toaster"], "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got 'toaster'"),
        (["predict", "nowhere"], "Missing argument"),
    ],
)
def test_mistakes_in_the_line(refuses, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    refuses(words, *arguments)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lr", "fast"], "--lr must be numbers separated by commas; got 'fast'"),
        (["--lr", "0.1;0.2"], "--lr must be numbers separated by commas; got '0.1;0.2'"),
        (["--lr", "0"], "`lr` must be 'auto', a positive number or some of them"),
        (["--lr", "inf"], "`lr` must be 'auto', a positive number or some of them"),
        (["--lr", ","], "`lr` must be 'auto', a positive number or some of them"),
        (["--hidden", "wide"], "--hidden must be whole numbers separated by commas; got 'wide'"),
        (["--hidden", "2.5"], "--hidden must be whole numbers separated by commas; got '2.5'"),
        (["--hidden", "inf"], "--hidden must be whole numbers separated by commas; got 'inf'"),
        (["--hidden", "8,-5"], "`hidden` must be a whole number of at least 1; got -5"),
        (["--epochs", "0"], "--epochs must be a whole number of at least 1; got 0"),
        (["--epochs", "many"], "Invalid value for '--epochs'"),
        (["--seeds", "0"], "--seeds must be a whole number of at least 1; got 0"),
        (["--seed", "-1"], "`random_state` must be None, a whole number from 0 up"),
        (["--method", "magic"], "proden, linear, forest, boosting, neighbours, discriminant; got 'magic'"),
        (
            ["--recipe", "consistant"],
            "one of auto, plain, consistency, progressive; got 'consistant' (did you mean 'consistency'?)",
        ),
        (["--network", "resnet18"], 'network "resnet18" is for images of shape (C, H, W), H and W at least 8; got'),
        (["--time-limit", "0"], "`time_limit` must be a positive number of seconds, or None; got 0.0"),
        (["--time-limit", "nan"], "`time_limit` must be a positive number of seconds, or None; got nan"),
        (["--time-limit", "soon"], "Invalid value for '--time-limit'"),
        (["--refit"], "No such option: --refit"),
        (["--network", "cnn"], "`network` must be one of mlp, linear"),
        (["--alpha", "2"], "`alpha` must be from 0 to 1; got 2.0"),
        (["--device", "toaster"], "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got 'toaster'"),
        (["--label", "knot"], "the table must have a column 'knot' (did you mean 'not'?); it has weight, age, colour"),
        (["--drop", "weight,aeg"], "the table must have a column 'aeg' (did you mean 'age'?)"),
        (["--drop", "weight,age,colour"], "the table must have a column to learn from; got none"),
        (["--classes", "cat,dog"], "column 'not' must hold known classes (cat, dog); got 'owl'"),
        (["--classes", "cat"], "column 'not' must have at least 2 classes"),
        (["--transition", "nowhere.csv"], "nowhere.csv must be a CSV of numbers, one row per class"),
        (["--transition", "empty.csv"], "empty.csv must be a CSV of numbers, one row per class"),
        (["--transition", "text.csv"], "text.csv must be a CSV of numbers, one row per class"),
        (["--transition", "four.csv"], "`transition` must be (3, 3), one row per class; got (4, 4)"),
        (["--transition", "row.csv"], "`transition` must be a square (K, K) matrix; got shape (1, 3)"),
        (["--transition", "ones.csv"], "each row of `transition` must sum to 1; row 0 sums to 3"),
        (["--transition", "thirds.csv"], "`transition` must be invertible"),
        (["--out", "pets.csv"], "--out must be a folder"),
        (["--out", "pets.csv/model"], "--out must be a folder"),
        (["--colour", "red"], "No such option: --colour"),
    ],
)
def test_train_refuses(refuses, tmp_path, monkeypatch, pets, options, words):
    monkeypatch.chdir(tmp_path)
    matrices = {"four": np.eye(4), "row": np.ones((1, 3)) / 3, "ones": np.ones((3, 3)), "thirds": np.ones((3, 3)) / 3}
    for name, matrix in matrices.items():
        np.savetxt(tmp_path / f"{name}.csv", matrix, delimiter=",")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "text.csv").write_text("a,b,c\n")
    refuses(words, "train", pets, "--label", "not", "--out", "model", *FAST, *options)


def test_train_needs_a_label_and_a_place(refuses, tmp_path, pets):
    refuses("Missing option '--label'", "train", pets, "--out", tmp_path / "model")
    refuses("Missing option '--out'", "train", pets, "--label", "not")


def test_tables_that_cannot_be_read(refuses, tmp_path, pets, model):
    whole = write(tmp_path / "whole.parquet", only(animals(), "not")).read_bytes()
    (tmp_path / "half.parquet").write_bytes(whole[: len(whole) // 2])
    archive = write(tmp_path / "whole.npz", only(animals(), "not")).read_bytes()
    (tmp_path / "half.npz").write_bytes(archive[: len(archive) // 2])
    (tmp_path / "ragged.csv").write_text("weight,age,colour,not\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "pets.xlsx").write_bytes(b"PK")
    cases = {
        "nowhere.csv": "no file at",
        "half.parquet": "half.parquet must be a whole Parquet file; reading it failed",
        "half.npz": "half.npz must be a whole npz file; reading it failed",
        "ragged.csv": "must have 4 values on each line, as its header has; got 2 at line 2",
        "empty.csv": "empty.csv must hold a table; it is empty",
        "pets.xlsx": "a table's name must end in .csv, .tsv, .parquet, .npz",
        "model": "a table must be a file",
    }
    for name, words in cases.items():
        refuses(words, "train", tmp_path / name, "--label", "not", "--out", tmp_path / "new", *FAST)
        refuses(words, "predict", model, tmp_path / name)
        refuses(words, "evaluate", model, tmp_path / name)
        refuses(words, "doctor", tmp_path / name, "--label", "not")


def test_models_that_cannot_be_used(refuses, tmp_path, pets, model):
    for command in ("predict", "evaluate"):
        refuses("nowhere: it has no model.json", command, tmp_path / "nowhere", pets)
        refuses("a model is a folder; ", command, pets, pets)
        refuses("`device` must be", command, model, pets, "--device", "toaster")
    X, y_bar = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    with pytest.warns(UserWarning, match="nothing was learned"):
        bare = ComplementaryClassifier("forward", max_epochs=1, n_seeds=1, lr=0.01).fit(X, y_bar)
    bare.save(tmp_path / "bare")
    refuses("was not trained by `naysayer train`; use it from Python", "predict", tmp_path / "bare", pets)
    weights = next(model.glob("weights-*"))
    weights.write_bytes(weights.read_bytes()[:-1])
    refuses(f"{weights} is not a whole file of naysayer's", "predict", model, pets)
    weights.unlink()
    refuses(f"no file at {weights}", "evaluate", model, pets)


def test_tables_that_are_not_the_models(refuses, tmp_path, model):
    table = only(animals(), "not")
    missing = write(tmp_path / "missing.csv", {("wieght" if k == "weight" else k): v for k, v in table.items()})
    words = "the table must have the columns learned from; it lacks 1: 'weight' (did you mean 'wieght'?)"
    refuses(words, "predict", model, missing)
    refuses(words, "evaluate", model, missing)
    texts = write(tmp_path / "texts.csv", table | {"weight": ["heavy"] * 300})
    refuses("column 'weight' must hold numbers; got 'heavy' at row 0", "predict", model, texts)
    strangers = write(tmp_path / "strangers.csv", table | {"not": ["emu"] * 300})
    refuses("column 'not' must hold known classes (cat, dog, owl); got 'emu' at row 0", "evaluate", model, strangers)
    unlabelled = write(tmp_path / "unlabelled.csv", only(animals()))
    refuses("the table must have a column 'not'", "evaluate", model, unlabelled)
    refuses("the table must have a column 'class'", "evaluate", model, unlabelled, "--label", "class")
    refuses("`confidence`", "evaluate", model, write(tmp_path / "p.csv", table), "--confidence", "95")


def test_places_that_cannot_be_written(refuses, tmp_path, pets, model):
    (tmp_path / "folder").mkdir()
    # before the model is loaded, not after all is predicted
    refuses("--out must be a file; ", "predict", tmp_path / "none", pets, "--out", tmp_path / "folder")
    refuses("--out must be another file than is predicted", "predict", model, pets, "--out", pets)
    words = "--out must be in a folder that can be written to"
    refuses(words, "predict", tmp_path / "none", pets, "--out", pets / "below.csv")
    refuses("--out must be a file", "demo", "--out", tmp_path / "folder")
    refuses("--out must be a folder", "demo", "--out", pets / "demo.png")


def test_doctor_asks_which_column(refuses, pets):
    refuses("--label must name one of the columns weight, age, colour, not", "doctor", pets)
    refuses("`confidence`", "doctor", pets, "--label", "not", "--confidence", "2")


def test_a_failed_training_leaves_the_model_that_was_there(refuses, naysayer, works, model, pets):
    before, predictions = everything(model), works("predict", model, pets).out
    line = ["train", pets, "--label", "not", "--out", model, "--force"]
    refuses("`alpha` must be from 0 to 1", *line, *FAST, "--alpha", "7")
    failed = naysayer(*line, *FAST, "--lr", "1e38")  # fails after it began
    assert (failed.code, failed.out) == (2, "")
    assert failed.err.startswith("naysayer: no run gave a finite loss: forward, run 0: its loss was nan in epoch 0")
    assert everything(model) == before
    assert works("predict", model, pets).out == predictions
    works(*line, *FAST)  # and is no hindrance


def test_an_error_that_nobody_expected_is_not_hidden(naysayer, monkeypatch, pets):
    def broken(*arguments):
        raise TypeError("a fault of the program")

    monkeypatch.setattr(tables, "read_table", broken)
    with pytest.raises(TypeError, match="a fault of the program"):
        naysayer("doctor", pets)


def test_a_machine_that_is_too_small_is_told_in_one_line(refuses, tmp_path, monkeypatch, pets):
    def too_small(*arguments, **options):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory:\n you tried to allocate 4 TB")

    monkeypatch.setattr(ComplementaryClassifier, "fit", too_small)
    refuses("can't allocate memory: you tried", "train", pets, "--label", "not", "--out", tmp_path / "model", *FAST)


# ---- interruptions --------------------------------------------------------------------------------------------


@pytest.fixture
def interrupt_after(monkeypatch):
    """Press Control-C after so many epochs."""

    def press(n):
        begun = []
        epoch_of = stack.Stack.epoch

        def epoch(self, number, factor):
            begun.append(number)
            if len(begun) == n + 1:
                raise KeyboardInterrupt
            return epoch_of(self, number, factor)

        monkeypatch.setattr(stack.Stack, "epoch", epoch)

    return press


def test_control_c_saves_what_was_trained(works, tmp_path, pets, interrupt_after):
    interrupt_after(5)
    told = works("train", pets, "--label", "not", "--out", tmp_path / "model", *FAST, "--json").json
    assert "training was interrupted; what was trained is kept" in told["notes"]
    assert [trial["epoch"] for trial in told["trials"]] == [4]
    assert len(read_csv(works("predict", tmp_path / "model", pets).out)) == 300


@pytest.mark.parametrize("command", ["train", "demo"])
def test_control_c_before_there_is_anything_to_save(naysayer, tmp_path, pets, interrupt_after, command):
    interrupt_after(0)
    options = {"train": [pets, "--label", "not", *FAST], "demo": ["--epochs", 1]}[command]
    before = everything(tmp_path)
    done = naysayer(command, *options, "--out", tmp_path / "new")
    rest = "; what was saved on the way is kept, and the same command resumes from it" * (command == "train")
    assert done == (130, "", f"interrupted{rest}\n")
    assert everything(tmp_path) == before


@pytest.mark.parametrize(("command", "extra"), [("predict", "photos"), ("ask", "web")])
def test_without_pillow_the_extra_is_the_one_of_the_command(monkeypatch, capsys, command, extra):
    monkeypatch.setattr(sys, "argv", ["naysayer", command])
    assert _answer(ModuleNotFoundError("No module named 'PIL'", name="PIL")) == 2
    said = f"naysayer: this needs the package PIL, which is not installed; pip install 'naysayer[{extra}]'\n"
    assert capsys.readouterr().err == said


SLOW = """
import signal, sys
from naysayer import cli
from naysayer.engine import population, stack
from naysayer.engine import population as training

training.CHECKPOINT_SECONDS = -1.0  # after every epoch
epoch_of = stack.Stack.epoch

def epoch(self, number, factor):
    if number == 3:
        signal.pause()  # until it is killed
    return epoch_of(self, number, factor)

stack.Stack.epoch = epoch
sys.argv[0] = "naysayer"
cli.main()
"""


def test_a_killed_training_loses_nothing(works, tmp_path, pets, others):
    table = write(tmp_path / "more.csv", only(animals(seed=4), "not"))
    line = ["train", table, "--label", "not", *FAST, "--method", "forward,free"]
    works(*line, "--out", tmp_path / "whole")
    expected = works("predict", tmp_path / "whole", others, "--probabilities").out

    model = tmp_path / "model"
    works("train", pets, "--label", "not", "--out", model, *FAST)
    old = works("predict", model, others, "--probabilities").out
    assert old != expected
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, str(program), *map(str, line), "--out", str(model), "--force"], stdout=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 600
        while not (model / "checkpoint" / "forward.safetensors").exists():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=600)
    assert process.returncode == -signal.SIGKILL
    assert works("predict", model, others, "--probabilities").out == old  # the older model is as it was
    assert (model / "checkpoint" / "forward.safetensors").exists()
    works(*line, "--out", model)  # resumes without being asked to overwrite again
    assert works("predict", model, others, "--probabilities").out == expected
    assert sorted(path.name.split("-")[0] for path in model.iterdir()) == ["model.json", "weights"]


@pytest.mark.parametrize(
    ("seconds", "options", "first"), [(-1.0, [], 5), (-1.0, ["--restart"], 0), (1e9, [], 0), (1e9, ["--restart"], 0)]
)
def test_an_interrupted_training_is_resumed_or_begun_anew(
    works, refuses, tmp_path, pets, others, monkeypatch, seconds, options, first
):
    monkeypatch.setattr(population, "CHECKPOINT_SECONDS", seconds)  # after every epoch, or never
    line = ["train", pets, "--label", "not", *FAST, "--out"]
    works(*line, tmp_path / "whole")
    model, epochs = tmp_path / "model", []
    epoch_of = stack.Stack.epoch

    def epoch(self, number, factor):
        epochs.append(number)
        if len(epochs) == 6:
            raise KeyboardInterrupt
        return epoch_of(self, number, factor)

    monkeypatch.setattr(stack.Stack, "epoch", epoch)
    works(*line, model)
    assert (model / "model.json").exists()
    assert (model / "checkpoint").exists() == (seconds < 0)
    if seconds < 0:
        refuses(
            "other data or settings; move it away, or give another file; or begin anew: --restart",
            *line,
            model,
            "--seed",
            1,
        )
    works(*line, model, *options)  # nobody is asked whether what was kept may be overwritten
    assert epochs[6] == first
    found, expected = (works("predict", tmp_path / name, others, "--probabilities").out for name in ("model", "whole"))
    assert found == expected
    assert not (model / "checkpoint").exists()
    refuses("add --force to overwrite it", *line, model)
    (model / "model.json").write_text("{}")
    refuses("add --force to overwrite it", *line, model)


# ---- models that are there already ----------------------------------------------------------------------------


def test_a_model_is_not_overwritten_unasked(works, refuses, naysayer, monkeypatch, model, pets, others):
    line = ["train", pets, "--label", "not", "--out", model, *FAST, "--seed", 7]
    refuses(f"--out must be a folder without a model; {model} has one; add --force to overwrite it", *line)
    before = works("predict", model, others, "--probabilities").out
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\ny\n"))
    for stream in (sys.stdin, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    refused = naysayer(*line)
    assert refused.code == 2
    assert f"{model} has a model; overwrite it? [y/N]" in refused.err
    assert f"naysayer: {model} keeps its model; give another --out\n" in refused.err
    assert works("predict", model, others, "--probabilities").out == before
    assert naysayer(*line).code == 0
    after = works("predict", model, others, "--probabilities").out
    assert after != before
    assert naysayer(*line[:-1], 8, "--force").code == 0
    assert works("predict", model, others, "--probabilities").out not in (before, after)


# ---- stores ---------------------------------------------------------------------------------------------------


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """A folder with a store, and with much that is none; the command runs in it."""
    from naysayer.collect.store import Project, Store
    from naysayer.data.items import text_item

    monkeypatch.chdir(tmp_path)
    with Store.open("answers.db", project=Project(("cat", "dog"))) as store:
        store.register(text_item(f"Animal {i}.", f"row {i}") for i in range(3))
    for name in ("photos", "model"):
        Path(name).mkdir()
    Path("words.db").write_text("nothing like a database " * 100)
    Path("half.db").write_bytes(Path("answers.db").read_bytes()[:20_000])
    Path("void.db").touch()
    shutil.copy("answers.db", "newer.db")
    for name, statement in (
        ("other.db", "CREATE TABLE users (id)"),
        ("newer.db", "UPDATE meta SET value = '99' WHERE key = 'schema_version'"),
    ):
        with closing(sqlite3.connect(name)) as connection, connection:
            connection.execute(statement)
    shutil.copy(Path(__file__).parent.parent / "examples" / "survey.toml", "survey.toml")
    Path("half.toml").write_text("title = ")
    Path("binary.toml").write_bytes(b"\xff\xfe")
    Path("texts.csv").write_text("text\nA cat.\nA dog.\n")
    Path("prodigy.jsonl").write_text('{"text": "A cat.", "label": "cat", "answer": "accept"}\n')
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("odd.xlsx").write_bytes(b"PK")


ASK = ["ask", "texts.csv", "--classes", "cat,dog", "--store"]
SURVEY = ["survey", "survey.toml", "--store"]


@pytest.mark.parametrize(
    ("place", "is_one"),
    [
        *(("new.db", True), ("new.SQLITE3", True), ("postgresql://host/base", True), ("s3://bucket/rows", False)),
        *(("table.csv", False), ("nowhere", False), (".", False)),
    ],
)
def test_a_store_is_known_by_its_name(tmp_path, monkeypatch, place, is_one):
    (tmp_path / "table.csv").write_text("not\ncat\n")
    monkeypatch.chdir(tmp_path)
    assert console.is_store(place) is is_one


def test_a_store_is_known_whatever_its_name(stores, refuses):
    shutil.copy("answers.db", "answers")
    assert console.is_store("answers")
    refuses("--label is for tables; answers is a store; leave it out", "train", "answers", "--label", "x", "--out", "m")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ask", "nowhere", "--classes", "a,b", "--store", "new.db"], "no file or folder at nowhere"),
        (["ask", "photos", "--classes", "a,b", "--store", "new.db"], "photos must hold images"),
        (["ask", "odd.xlsx", "--classes", "a,b", "--store", "new.db"], "items must be a folder of images or a file"),
        (["ask", "texts.csv", "--classes", "cat", "--store", "new.db"], "at least 2 classes; got 1"),
        (["ask", "texts.csv", "--classes", "a,b,a", "--store", "new.db"], "must name each class once; got 'a' twice"),
        (["ask", "texts.csv", "--classes", "cat,owl"], "must be asked for the classes it has, cat, dog; got cat, owl"),
        ([*ASK, "mysql://here/there"], "the path of a SQLite file or a postgresql:// URL; got one that begins"),
        ([*ASK, "words.db"], "words.db: it is not a SQLite database; nothing was changed; choose another file"),
        ([*ASK, "half.db"], "half.db: it is damaged or only half of it is there"),
        ([*ASK, "other.db"], "other.db must be a store of naysayer's or empty; it has a table 'users'"),
        ([*ASK, "newer.db"], "it is of version 99; update naysayer"),
        ([*ASK, "photos"], "a store must be a file"),
        ([*ASK, "no/such/folder.db"], "it cannot be opened; nothing was changed; look at the folder"),
        ([*ASK, "answers.db", "--port", "99999"], "Invalid value for '--port'"),
        ([*ASK, "new.db", "--repeat", "1"], "--repeat must be at least 0 and below 1; got 1.0"),
        ([*ASK, "new.db", "--per-item", "0"], "--per-item must be a whole number of at least 1; got 0"),
        ([*ASK, "new.db", "--question", "What?"], "--question must have {class} once"),
        ([*ASK, "new.db", "--probabilities", "1,0"], "--probabilities must be above 0"),
        ([*ASK, "new.db", "--questions", "odd"], "--questions must be one of random, guided; got 'odd'"),
        ([*ASK, "new.db", "--goal", "odd"], "--goal must be one of labels, model, accuracy; got 'odd'"),
        (["ask", "texts.csv", "--store", "new.db"], "--classes must name the classes to ask about, as texts.csv is no"),
        (["ask", "other.db"], "other.db must be a store of naysayer's or empty; it has a table 'users'"),
        (["survey", "nowhere.toml"], "no survey file at nowhere.toml; examples/survey.toml shows one"),
        (["survey", "photos"], "a survey must be a TOML file; photos is a folder"),
        (["survey", "half.toml"], "half.toml must be a TOML file: "),
        (["survey", "binary.toml"], "binary.toml must be a TOML file in UTF-8; byte 0 is no text"),
        (["survey", "survey.toml", "--results"], "survey.db; serve the survey first"),
        ([*SURVEY, "answers.db"], "answers.db must be a survey's store or empty; it has a table 'annotator'"),
        ([*SURVEY, "other.db"], "other.db must be a survey's store or empty; it has a table 'users'"),
        ([*SURVEY, "words.db"], "it is not a SQLite database"),
        (["export", "nowhere.db", "--out", "a.csv"], "nowhere.db; begin one: naysayer ask"),
        (["export", "answers.db", "--out", "a.xlsx"], "an export's name must end in .csv"),
        (["export", "void.db", "--out", "a.csv"], "must hold a store; it has no project in it"),
        (["export", "other.db", "--out", "a.csv"], "it has a table 'users' of something else"),
        (["import", "new.db", "nowhere.csv"], "no file at nowhere.csv"),
        (["import", "new.db", "odd.xlsx"], "an import's name must end in .csv"),
        (["import", "new.db", "table.csv"], "its first line has no column 'table'"),
        (["import", "new.db", "prodigy.jsonl"], "as prodigy.jsonl does not: add --classes cat,dog"),
        (["import", "new.db", "prodigy.jsonl", "--classes", "a,b"], "must name the classes a, b; line 1 has 'cat'"),
        (["import", "newer.db", "prodigy.jsonl"], "it is of version 99; update naysayer"),
        (["train", "nowhere.db", "--out", "m"], "nowhere.db; begin one: naysayer ask"),
        (["train", "answers.db", "--out", "m"], "answers about at least 20 items to train on; got 0; collect more"),
        (["train", "answers.db", "--out", "texts.csv"], "--out must be a folder; "),
        (["train", "answers.db", "--out", "m", "--hidden", "9"], "--hidden is for tables; answers.db is a store"),
        (
            ["train", "answers.db", "--out", "m", "--time-limit", "9"],
            "--time-limit is for tables; answers.db is a store",
        ),
        (["train", "words.db", "--out", "m"], "it is not a SQLite database"),
        (["train", "photos", "--out", "m"], "photos is a folder; for its images: naysayer ask photos"),
        (["predict", "model", "answers.db"], "no model at model: it has no model.json"),
        (["evaluate", "model", "answers.db"], "no model at model: it has no model.json"),
    ],
)
def test_a_mistake_with_a_store_is_one_line_and_changes_nothing(refuses, stores, arguments, words):
    refuses(words, *arguments)


def test_a_port_that_is_taken_is_said_to_be(naysayer, stores):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = f"naysayer: cannot listen on 127.0.0.1 port {port}: Address already in use\n"
        assert naysayer(*ASK, "answers.db", "--port", port) == (2, "", words)


@pytest.mark.parametrize(("package", "extra"), [("sqlalchemy", "web"), ("fastapi", "web"), ("psycopg", "postgres")])
def test_a_missing_package_is_named_with_its_extra(refuses, stores, monkeypatch, package, extra):
    def ask(*_: object, **options: object) -> None:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)

    monkeypatch.setattr("naysayer.data.items.read_items", ask)
    refuses(f"the package {package}, which is not installed; pip install 'naysayer[{extra}]'", *ASK, "new.db")


# ---- as others start it ---------------------------------------------------------------------------------------


def start(*arguments, cwd):
    command = [sys.executable, "-m", "naysayer", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, env={**os.environ})
    return Done(done.returncode, done.stdout, done.stderr)


def test_it_runs_as_a_program(tmp_path):
    write(tmp_path / "pets.csv", only(animals(), "says"))
    done = start("train", "pets.csv", "--label", "says", "--out", "model", *FAST, "--json", cwd=tmp_path)
    assert (done.code, re.sub("training.*\n", "", done.err)) == (0, "")  # a busy machine tells of its progress
    assert done.json["classes"] == CLASSES
    done = start("predict", "model", "pets.csv", "--out", "out.csv", cwd=tmp_path)
    assert done == (0, "", "300 predictions are in out.csv\n")
    rows = read_csv((tmp_path / "out.csv").read_text())
    right = [row["prediction"] == true for row, true in zip(rows, animals()["truth"], strict=True)]
    assert np.mean(right) > 0.8
    write(tmp_path / "others.csv", only(animals(seed=1), "says"))
    done = start("evaluate", "model", "others.csv", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "estimated accuracy" in done.out


def test_it_fails_as_a_program(tmp_path):
    done = start("predict", "nowhere", "pets.csv", cwd=tmp_path)
    assert done == (2, "", "naysayer: no model at nowhere: it has no model.json\n")
    assert list(tmp_path.iterdir()) == []


def test_what_a_terminal_cannot_show_is_escaped(tmp_path):
    line = [sys.executable, "-m", "naysayer", "plan", "--classes", "3"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u201cit is c\u201d" in done.stdout


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_a_closed_stream_leads_nowhere(tmp_path, closed):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text('{"extra": {}}')
    line = 'exec "$0" -m naysayer train pets.csv --label says --out model'
    command = ["sh", "-c", f"{line} {closed}", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = "naysayer: --out must be a folder without a model; model has one; add --force to overwrite it\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "" if closed == "2>&-" else said)


# ---- help -----------------------------------------------------------------------------------------------------


def test_alone_it_shows_its_help(naysayer):
    alone, asked = naysayer(), naysayer("--help")
    assert alone == asked
    assert (alone.code, alone.err) == (0, "")
    assert len(alone.out.splitlines()) > 8
    for name in get_command(cli.app).commands:
        assert re.search(rf"^ +{name} +\w", alone.out, re.MULTILINE)


def test_every_command_and_option_has_help(works):
    commands = dict(every_command(get_command(cli.app)))
    assert set(commands) >= {"demo", "train", "predict", "evaluate", "plan", "doctor", "data list"}
    for name, command in commands.items():
        shown = works(*name.split(), "--help").out
        assert command.help.splitlines()[0].rstrip(".")[:40] in " ".join(shown.split())
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"
            assert parameter.help.endswith("."), f"{name} {parameter.name}"
            assert parameter.help[:30] in " ".join(shown.split()), f"{name} {parameter.name}"
            if parameter.param_type_name == "option":
                assert parameter.opts[0] in shown


def test_every_command_that_tells_something_tells_it_in_json_too():
    for name, command in every_command(get_command(cli.app)):
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options, name


def test_the_installed_program_is_this_one():
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf8")
    assert 'naysayer = "naysayer.cli:main"' in project
