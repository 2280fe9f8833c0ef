"""CONTRIBUTING's "How to add", followed word for word: its blocks are run, and what they promise is done."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import numpy as np
import pytest

from naysayer import ComplementaryClassifier, Population, complement, losses, metrics, networks, objectives
from naysayer.engine import recipe

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "naysayer"
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
BLOCKS = dict(re.findall(r"^```python (\w+)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
ANY_ASSIGNMENT = (ast.Assign, ast.AnnAssign)
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


@functools.cache
def assigned(file):
    """The names that a file defines: variables, functions, classes and methods."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf8"))))
    targets = [n.targets if isinstance(n, ast.Assign) else [n.target] for n in nodes if isinstance(n, ANY_ASSIGNMENT)]
    return {t.id for some in targets for t in some if isinstance(t, ast.Name)} | {
        node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }


def missing(page):
    """The paths that a page names and that are not there, the tables, and names that are not in the files said."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    gone = []
    for path in re.findall(r"`([\w./-]*(?:/|\.(?:py|md|toml|txt|html)))`", text):
        if not places_of(path):
            gone.append(path)
    for names, path in re.findall(r"((?:`\w+`(?:, | and | \(or )?)+) (?:of|in) `([\w./]+\.py)`", text):
        files = places_of(path)
        known = set().union(*(assigned(file) for file in files))
        gone += [f"{name} in {path}" for name in re.findall(r"`(\w+)`", names) if files and name not in known]
    everywhere = set().union(*(assigned(file) for top in ("src", "tests") for file in (ROOT / top).rglob("*.py")))
    tables = set(re.findall(r"`(_?[A-Z][A-Z_]+)`", text)) - {"CI"}  # a variable of the environment
    return gone + sorted(tables - everywhere)


def places_of(path):
    """Where a path leads: from the root of the project, or of the package."""
    return [top / path for top in (ROOT, ROOT / "src" / "naysayer") if (top / path).exists()]


def test_what_the_page_names_is_there():
    assert missing(PAGE) == []


def test_what_is_not_there_is_found():
    page = "`engine/`, `engine/stick.py` and `docs/no.md`; `OBJECTIVES`, `OBJEKTS`; `WHAT` in `tests/test_readme.py`"
    assert missing(page) == ["engine/stick.py", "docs/no.md", "WHAT in tests/test_readme.py", "OBJEKTS", "WHAT"]
    page = "`OTHERS` of `models/training.py`, `_train_alone` of `models/training.py`"
    assert missing(page) == ["OTHERS in models/training.py"]


def test_the_tree_on_the_page_is_that_of_the_package():
    tree = re.search(r"^    src/naysayer/\n((?:      .*\n)+)", PAGE, flags=re.MULTILINE)[1]
    there = {f"{path.name}/" for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    there |= {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    assert set(re.findall(r"^      (\w+/)", tree, flags=re.MULTILINE)) | set(re.findall(r"\w+\.py", tree)) == there


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
