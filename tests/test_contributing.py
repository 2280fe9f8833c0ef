"""CONTRIBUTING's "How to add", followed word for word: its blocks are run, and what they promise is done."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from naysayer import ComplementaryClassifier, Population, complement, losses, metrics, networks, objectives
from naysayer.engine import recipe

PAGE = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf8")
BLOCKS = dict(re.findall(r"^```python (\w+)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
TABLES = (losses.LOSSES, objectives.OBJECTIVES, networks.NETWORKS, recipe.RECIPES)


@pytest.fixture
def follow():
    """Run a block of the page; what it put into our tables is taken out again."""
    before = [dict(table) for table in TABLES]
    yield run
    for table, entries in zip(TABLES, before, strict=True):
        table.clear()
        table.update(entries)


def run(name):
    names: dict[str, object] = {}
    exec(compile(BLOCKS[name], f"CONTRIBUTING.md, {name}", "exec"), names)
    return names


def data(n=300):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return (rng.normal(size=(n, 3)) + 4 * np.eye(3)[y]).astype("float32"), y, complement(y, 3, random_state=0)


def learn(**options):
    """A classifier with these options, which must have learned."""
    X, y, y_bar = data()
    given = {"lr": 0.02, "max_epochs": 20, "n_seeds": 2, "random_state": 0, "method": "forward"}
    model = ComplementaryClassifier(**(given | options)).fit(X, y_bar)
    assert (model.predict(X) == y).mean() > 0.9
    return model


def test_the_page_shows_each_of_them():
    assert set(BLOCKS) == {"loss", "method", "network", "recipe", "source"}


def test_a_loss(follow):
    follow("loss")
    learn(method="max", loss="spherical")
    _, y, y_bar = data()
    assert metrics.risk(y_bar, 9 * np.eye(3)[y], loss="spherical") < metrics.risk(
        y_bar, np.zeros((300, 3)), "spherical"
    )


def test_a_method(follow, tmp_path):
    kind = follow("method")["Softened"]
    model = learn(method=["softened", "free"])
    assert {trial["method"] for trial in model.trials_} == {"softened", "free"}
    assert learn(method="softened").method_ == "softened"
    assert kind(3, 0.5).settings()["width"] == 0.5
    X, _, y_bar = data()

    def train(width, epochs):
        runs = Population(lambda: networks.linear(3, 3), kind(3, width), seeds=[0, 1])
        return runs.fit(X, y_bar, max_epochs=epochs, checkpoint=tmp_path / "runs")

    train(0.1, 1)
    with pytest.raises(ValueError, match="is of other data or settings"):
        train(0.2, 2)
    train(0.1, 2)


def test_a_method_is_offered_by_the_command(follow, tmp_path, monkeypatch, capsys):
    follow("method")
    from naysayer import cli

    X, _, y_bar = data(120)
    rows = [",".join([*map(str, x), f"!{'abc'[c]}"]) for x, c in zip(X, y_bar)]
    (tmp_path / "table.csv").write_text("\n".join(["x,y,z,label", *rows]) + "\n")
    words = ["train", str(tmp_path / "table.csv"), "--label", "label", "--out", str(tmp_path / "model")]
    words += ["--method", "softened", "--epochs", "3", "--seeds", "2", "--lr", "0.01"]
    monkeypatch.setattr("sys.argv", ["naysayer", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert re.search(r"^softened +0\.01 +3 ", capsys.readouterr().out, re.MULTILINE)


def test_a_network(follow):
    follow("network")
    model = learn(network="gelu", hidden=(16,))
    (member,) = model.members_
    assert member.parameters["1.weight"].shape == (2, 16, 3)


def test_a_recipe(follow):
    follow("recipe")
    X, y, y_bar = data()
    runs = Population(lambda: networks.mlp(3, 3, (8,)), objectives.Forward(3), lr=0.02, recipe="mirrored")
    assert (runs.fit(X, y_bar, max_epochs=20).logits(X, run=0).argmax(-1).numpy() == y).mean() > 0.9
    learn(recipe="mirrored")


def test_a_source(follow):
    source = follow("source")["Endless"]()
    X, y, _ = data()
    runs = Population(lambda: networks.linear(3, 3), objectives.Forward(3), seeds=[0, 1], lr=0.05)
    runs.fit(source, max_epochs=5)
    for m in range(2):
        assert (runs.logits(X, run=m).argmax(-1).numpy() == y).mean() > 0.9
