"""README and docs: every Python block and command line runs, links lead somewhere, numbers are committed results."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import json
import math
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.main import get_command

from browser import let_in
from helpers import every_command, raises
from naysayer import cli
from naysayer.cli.app import _with_address as with_address
from naysayer.experiments import plots
from naysayer.experiments.reproduce import EXPERIMENTS, reproduce
from naysayer.measure.planning import labels_needed
from naysayer.models.defaults import DEFAULTS
from naysayer.survey.questions import read_survey
from test_startup import complete

ROOT = Path(__file__).parent.parent
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf8")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
}
RUN = [name for name in PAGES if name == "README.md" or name.startswith("docs/")]


# ---- what can be run ------------------------------------------------------------------------------------------


def blocks(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page, each with its language, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


def command_lines(block: str) -> list[str]:
    """The lines that begin with a prompt; one that ends with a backslash goes on in the next."""
    return re.findall(r"^\$ (.*)$", block.replace("\\\n", " "), flags=re.MULTILINE)


def commands(page: str) -> Counter[str]:
    """How often each of our commands is run on a page."""
    lines = [line for kind, block in blocks(page) if kind == "console" for line in command_lines(block)]
    return Counter(shlex.split(line)[1] for line in lines)


def test_blocks_are_found():
    page = "# A\n```python\nx = 1\n```\n\ntext\n```console\n$ naysayer plan \\\n    --classes 3\nprinted\nmake\n```\n"
    assert blocks(page)[0] == ("python", "x = 1\n")
    assert [shlex.split(line) for line in command_lines(blocks(page)[1][1])] == [["naysayer", "plan", "--classes", "3"]]
    assert commands(page) == {"plan": 1}


def test_the_pages_show_the_library_and_the_commands():
    assert sum(kind == "python" for name in RUN for kind, _ in blocks(PAGES[name])) >= 6
    shown = sum((commands(PAGES[name]) for name in RUN), Counter())
    assert shown.keys() >= {"doctor", "train", "predict", "evaluate", "plan", "ask", "labels", "export", "survey"}


@pytest.mark.parametrize(
    "name", [name for name in RUN if "python" in dict(blocks(PAGES[name])) or commands(PAGES[name])]
)
def test_every_block_of_a_page_runs(name, tmp_path, monkeypatch, naysayer):
    monkeypatch.chdir(tmp_path)
    run_page(PAGES[name], name, Reader(tmp_path, naysayer))


def run_page(page: str, name: str, reader: Reader) -> None:
    """Do what a page says, from top to bottom; its Python blocks share their names."""
    namespace: dict[str, Any] = {}
    for kind, block in blocks(page):
        if kind == "python":
            exec(compile(block, name, "exec"), namespace)
        if kind == "console":
            for line in command_lines(block):
                reader.run(shlex.split(line, comments=True))


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("```python\nx = 1\n```\n```python\nassert x == 2, 'two'\n```\n", "two"),
        ("```console\n$ naysayer plan --classes 1\n```\n", "naysayer plan --classes 1 failed"),
        ("```console\n$ pip install it\n```\n", "only naysayer's own command can be run"),
    ],
)
def test_a_page_that_is_wrong_is_found(page, words, tmp_path, monkeypatch, naysayer):
    monkeypatch.chdir(tmp_path)
    with raises(words, AssertionError):
        run_page(page, "page.md", Reader(tmp_path, naysayer))


# ---- what is only shown ---------------------------------------------------------------------------------------


def shown_lines(page: str) -> list[str]:
    """The lines that show our command, and that nobody runs: without a prompt, or in blocks of plain text."""
    found = []
    for kind, block in blocks(page):
        if kind in ("console", "text"):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line.removeprefix("$ ") for line in lines if not (kind == "console" and line.startswith("$ "))]
    return [line for line in found if re.match(r"naysayer |(torchrun|python) .*-m naysayer ", line)]


def parse(line: str) -> None:
    """Parse a command line by the real command, running nothing; or complete it, where it shows the Tab key."""
    command = get_command(cli.app)
    if "⇥" in line:
        typed, completed = (shlex.split(part) for part in re.split("⇥ *→", line))
        *before, last = typed[1:]
        assert [*typed[:-1], *complete("bash", *before, last)] == completed, line
        return
    words = shlex.split(line, comments=True)
    words = with_address(words[words.index("naysayer") + 1 :])
    while hasattr(command, "commands"):
        name, *words = words or [""]
        assert name in command.commands, f"{line}: there is no command {name!r}"
        command = command.commands[name]
    try:
        command.make_context(name, words)
    except Exception as error:  # the parser's class differs from release to release
        raise AssertionError(f"{line}: {error.format_message()}") from None


@pytest.mark.parametrize(("name", "line"), [(name, line) for name in RUN for line in shown_lines(PAGES[name])])
def test_a_command_line_that_is_shown_is_one(name, line):
    parse(line)


def test_lines_that_are_shown_are_found():
    page = (
        "```console\n$ naysayer a\nnaysayer b \\\n  c\nnaysayers\n```\n```text\n$ naysayer d\nUsage: naysayer e\n```\n"
    )
    assert shown_lines(page) == ["naysayer b    c", "naysayer d"]
    assert len(shown_lines(PAGES["README.md"])) >= 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("naysayer trian table.csv", "there is no command 'trian'"),
        ("naysayer data fetch mnist", "there is no command 'fetch'"),
        ("torchrun -m naysayer train table.csv --out model --memry 3", "No such option"),
        ("naysayer plan --classes many", "'--classes'"),
        ("naysayer train table.csv", "Missing option '--out'"),
        ("naysayer da⇥ → naysayer date", "naysayer da⇥"),
    ],
)
def test_a_line_that_is_wrong_is_found(line, words):
    with raises(words, AssertionError):
        parse(line)


class Reader:
    """Somebody who does what a page says, in a folder with the project's examples and photos of their own."""

    def __init__(self, folder: Path, naysayer: Any) -> None:
        shutil.copytree(ROOT / "examples", folder / "examples")
        self._naysayer = naysayer
        self._truth = take_photos(folder)
        self._stores: dict[str, tuple[int, int]] = {}  # a store's path → the answers that were given, its items
        self._respondents: Counter[str] = Counter()

    def run(self, words: list[str]) -> None:
        """Run one command line; look at what it printed and wrote."""
        assert words[0] == "naysayer", f"only naysayer's own command can be run; leave the $ out before {words[0]}"
        command, *arguments = words[1:]
        if command == "ask":
            self._ask(arguments)
        elif command == "survey" and "--results" not in arguments:
            with waiting(words[1:]) as said:
                respond(said, arguments[0])
            self._respondents[arguments[0]] += RESPONDENTS
        else:
            done = self._naysayer(*words[1:])
            assert done.code == 0, f"{shlex.join(words)} failed: {done.err}"
            getattr(self, f"_after_{command}", lambda *_: None)(arguments, done.out)

    def _ask(self, arguments: list[str]) -> None:
        with waiting(["ask", *arguments]) as said:
            given = look_and_answer(said, self._truth)
        items = int(re.search(r"(\d+) items", said)[1])
        self._stores[option(arguments, "--store", "answers.db")] = given, items

    def _after_train(self, arguments: list[str], out: str) -> None:
        if arguments[0] in self._stores:
            given, items = self._stores[arguments[0]]
            assert f"{given} answers about {items} items" in out

    def _after_predict(self, arguments: list[str], out: str) -> None:
        written = Path(option(arguments, "--out")).read_text(encoding="utf8") if "--out" in arguments else out
        rows = list(csv.DictReader(written.splitlines()))
        assert rows
        assert [name for name in rows[0] if name not in ("path", "id")][1:3] == ["prediction", "probability"]
        if arguments[1] == "photos":
            right = [row["prediction"] == self._truth[pixels(Path("photos", row["item"]).read_bytes())] for row in rows]
            assert len(right) == N_PHOTOS
            assert np.mean(right) > 0.9
        if arguments[1] == "new-photos.csv":
            right = [row["prediction"] == self._truth[pixels(Path(row["path"]).read_bytes())] for row in rows]
            assert len(right) == N_NEW_PHOTOS
            assert np.mean(right) > 0.7

    def _after_evaluate(self, arguments: list[str], out: str) -> None:
        if arguments[1] in self._stores:
            assert f"answers about {self._stores[arguments[1]][1]} items" in out

    def _after_labels(self, arguments: list[str], out: str) -> None:
        rows = list(csv.DictReader(Path(option(arguments, "--out")).read_text(encoding="utf8").splitlines()))
        named = [row for row in rows if row["label"]]
        right = [row["label"] == self._truth[pixels(Path("photos", row["name"]).read_bytes())] for row in named]
        assert len(rows) == N_PHOTOS
        assert np.mean(right) > 0.9
        assert f"{len(right)} of {N_PHOTOS} items have a label in {option(arguments, '--out')}" in out

    def _after_export(self, arguments: list[str], out: str) -> None:
        if arguments[0] in self._stores:
            assert f"{self._stores[arguments[0]][0]} answers are in {option(arguments, '--out')}" in out

    def _after_survey(self, arguments: list[str], out: str) -> None:
        assert f"{self._respondents[arguments[0]]} respondents" in out


def option(arguments: list[str], name: str, default: str | None = None) -> str:
    """The value of an option on a command line."""
    if default is not None and name not in arguments:
        return default
    return arguments[arguments.index(name) + 1]


N_PHOTOS, N_NEW_PHOTOS, RESPONDENTS = 90, 40, 40


def take_photos(folder: Path) -> dict[bytes, str]:
    """Digits that stand for photos of three animals; what each file shows. A table beside each folder has answers."""
    X, y = load_digits(return_X_y=True)
    animals, rng = ("cat", "dog", "horse"), np.random.default_rng(1)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(y < 3))
    truth = {}
    for name, mine in (("photos", rows[:N_PHOTOS]), ("new-photos", rows[N_PHOTOS : N_PHOTOS + N_NEW_PHOTOS])):
        (folder / name).mkdir()
        lines = ["path,answer"]
        for i in mine:
            path = folder / name / f"{i:04}.png"
            Image.fromarray((15.9 * X[i].reshape(8, 8)).astype(np.uint8)).save(path)
            truth[pixels(path.read_bytes())] = animals[y[i]]
            lines.append(f"{name}/{path.name},!{animals[(y[i] + rng.integers(1, 3)) % 3]}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf8")
    return truth


def pixels(picture: bytes) -> bytes:
    """What a picture shows, in whatever format: pages get previews of their own."""
    with Image.open(io.BytesIO(picture)) as opened:
        return opened.convert("L").tobytes()


@contextmanager
def waiting(arguments: list[str]) -> Iterator[str]:
    """Run the command until it waits for people; give what it printed; stop it as people do."""
    process = subprocess.Popen([sys.executable, "-m", "naysayer", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        while "Control-C" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        yield said
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    assert process.returncode == 0


def look_and_answer(said: str, truth: dict[bytes, str]) -> int:
    """Answer as somebody who sees the photos, or reads the texts, until all are known; give the number of answers.

    The server draws which questions come. Whatever it draws, in the end every item has answers that agree.
    """
    given = 0
    here = re.search(r"open (http\S+)", said)[1]
    with closing(let_in(here)) as web:
        while questions := web.get("/api/next", params={"n": 10}).raise_for_status().json()["questions"]:
            answers = []
            for question in questions:
                item, name = question["item"], question["class"]
                right = truth[pixels(web.get(item["src"]).content)] == name if "src" in item else name in str(item)
                answers.append({"id": question["id"], "question": question["id"], "value": "yes" if right else "no"})
            stored = web.post("/api/answers", json={"answers": answers}).raise_for_status().json()["stored"]
            assert len(stored) == len(answers)
            given += len(stored)
    return given


def respond(said: str, file: str) -> None:
    """Answer a survey as people's devices do."""
    asked, rng = read_survey(file), np.random.default_rng(0)
    for i in range(RESPONDENTS):
        answers = {q.id: q.stored(rng.choice(len(q.options), q.size, replace=False)) for q in asked.questions}
        body = {"id": f"{i:032x}", "answers": answers}
        link = re.search(r"http\S+/s/\S+", said)[0]
        httpx.post(f"{link}/answers", headers={"x-naysayer": "1"}, json=body, timeout=120).raise_for_status()


# ---- links ----------------------------------------------------------------------------------------------------


def links(page: str) -> list[tuple[str, str]]:
    """Where a page's links and pictures lead within the project: (file, anchor)."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)", prose) + re.findall(r"(?:src|href)=\"([^\"]+)", prose)
    return [(link.partition("#")[0], link.partition("#")[2]) for link in found if not re.match(r"\w+:", link)]


def anchors(page: str) -> set[str]:
    """What can stand behind the # of a link to a page: its headings, as GitHub names them, and named places."""
    prose = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)", prose))
    for heading in re.findall(r"^#+ +(.*?) *#*$", prose, flags=re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def broken_links(name: str, page: str) -> list[str]:
    """The links of a page that lead nowhere."""
    broken = []
    for file, anchor in links(page):
        target = (ROOT / name).parent / file
        there = target.exists()
        if there and anchor:
            there = anchor in anchors(target.read_text(encoding="utf8") if file else page)
        if not there:
            broken.append(f"{file}#{anchor}" if anchor else file)
    return broken


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    assert broken_links(name, PAGES[name]) == []


def test_broken_links_are_found():
    page = """# A `b` c: d?
[a](#a-b-c-d) [b](#b) [c](LICENSE) [d](GONE.md) ![e](docs/benchmark/worth.png) [f](README.md#gone) `[g](no)` [h](https://a.org/b)
```
[i](no)
```
"""
    assert broken_links("page.md", page) == ["#b", "GONE.md", "README.md#gone"]


def test_every_page_is_linked_from_another():
    linked = {
        (ROOT / name).parent.joinpath(file).resolve() for name, page in PAGES.items() for file, _ in links(page) if file
    }
    assert [name for name in PAGES if name.startswith("docs/") and ROOT.joinpath(name).resolve() not in linked] == []


# ---- numbers --------------------------------------------------------------------------------------------------


def tables(page: str) -> dict[str, list[list[str]]]:
    """The tables that stand below a marker, as rows of the numbers they show."""
    found = re.findall(r"^<!-- ([\w-]+) -->\n((?:\|.*(?:\n|\Z))+)", page, flags=re.MULTILINE)
    return {marker: [numbers(row) for row in table.splitlines()[2:]] for marker, table in found}


def numbers(text: str) -> list[str]:
    """All numbers of a text as it shows them; commas may separate thousands."""
    return re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)


def shows(shown: str, value: float) -> bool:
    """Whether a shown number is the value, rounded to the digits shown."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown.replace(",", "")) - value) <= 0.500001 * 10.0**-digits


def mismatches(shown: list[list[str]], expected: list[list[float]]) -> list[tuple[list[str], list[float]]]:
    """The rows of a table that are not those expected, each with what it should show."""
    rows = itertools.zip_longest(shown, expected, fillvalue=[])
    return [(row, values) for row, values in rows if len(row) != len(values) or not all(map(shows, row, values))]


def result(name: str) -> Any:
    """A committed result."""
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf8"))


def mnist() -> list[list[float]]:
    methods = result("mnist")["methods"]
    last = [np.array(methods[name]["last_epoch"]) for name in ("free", "max", "ascent", "forward", "pairwise")]
    return [[number for trials in last for number in (trials.mean(), trials.std())]]


def worth() -> list[list[float]]:
    plans = [labels_needed(n_classes, margin=0.01, accuracy=0.9) for n_classes in (3, 10, 100)]
    return [[getattr(plan, kind) for plan in plans] for kind in ("ordinary", "yes_no", "complementary")]


def columns(rows: list[dict[str, float]], *names: str) -> list[list[float]]:
    return [[row[name] for name in names] for row in rows]


def cifar() -> list[list[float]]:
    rows = []
    for network, layers in (("resnet34", 34), ("densenet", 100)):
        epochs = result(f"cifar-{network}-cuda")["epochs"]
        row = next(row for row in epochs if row["compiled"] and not row["augmented"])
        rows.append([layers, row["seconds_per_epoch"], 100 * row["share_of_ceiling"]])
    return rows


def reproduction() -> list[list[float]]:
    full, small = result("reproduction-cuda"), result("reproduction-quick-cpu")
    return [[full["seconds"]["table3-mnist-256"]], [full["total_seconds"]], [small["seconds"]]]


def before_and_after() -> list[list[float]]:
    rows = []
    for device, name in (("cuda", [200.0]), ("cpu", [])):  # the H200's name has a number
        for row in result(f"throughput-{device}")["before_and_after"]:
            rows.append([*name, row["runs"], row["before_ms"], row["after_ms"], row["ratio"]])
    return rows


def soak() -> list[list[float]]:
    rows = []
    for store in (result("soak")[name] for name in ("sqlite", "postgresql")):
        load, guided, kills = store["load"], store["guided"], store["kills"]
        rows.append([load["answers_per_s"], load["ms_median"], load["ms_p95"], guided["ms_median"], guided["ms_p95"]])
        rows[-1] += [kills["kills"], kills["lost"]]
    return rows


def benchmark() -> list[list[float]]:
    names = ("auto", "linear", "mlp", "forest", "boosting", "neighbours", "discriminant", "plain mlp", "true labels")
    rows = result("tables")["report"]
    return [[row["rows"], row["tables"], *(100 * row["accuracy"][name] for name in names)] for row in rows]


PAIRED = ("plain mlp", "plain linear", "boosted", "forest")  # beside auto


def paired() -> list[list[float]]:
    table = []
    for row in result("paired")["summary"]:
        others = [row["members"][name] for name in PAIRED]
        cells = [100 * abs(one[k]) for one in others for k in ("accuracy", "to_auto", "error")]
        table.append([row["rows"], 100 * row["members"]["auto"]["accuracy"], *cells])
    return table


def coverage() -> list[list[float]]:
    return [
        [row["classes"], row["rows"], 100 * row["accuracy"], 100 * abs(row["bias"]), 100 * row["bias_error"]]
        + [100 * row["covered"], row["to_clean"], row["to_clean_fifth"]]
        for row in result("coverage")["cells"]
    ]


PARTS = ("off", "labels", "rows", "weights", "in sample")  # of an estimate's error


def bias() -> list[list[float]]:
    table = []
    for n in (300, 3000):
        about = result(f"bias-{n}")["all"]
        means = [100 * value for part in PARTS for value in (abs(about[part]["mean"]), about[part]["error"])]
        table.append([n, about["fits"], about["held"], *means])
    return table


def transitions() -> list[list[float]]:
    rows, table = result("transitions")["rows"], []
    for n_classes in (3, 5, 10):
        cells = [[r for r in rows if (r["classes"], r["pairs"]) == (n_classes, pairs)] for pairs in (50, 200, 1000)]
        means = [[100 * np.mean([r[k] for r in cell]) for cell in cells] for k in ("held", "held_as_if_known", "width")]
        known = 100 * np.mean([r["width_with_true_q"] for cell in cells for r in cell])
        table.append([n_classes, 50, 200, 1000, *itertools.chain(*means), known])
    return table


def known(cell: dict[str, Any], name: str) -> float | None:
    """The mean number of answers after which something is known, looked at every 500; None: not in each run."""
    each = cell[f"{name}_each"]
    return None if None in each else float(np.mean([500 * math.ceil(n / 500) for n in each]))


def known_shown(cell: dict[str, Any]) -> float | None:
    """The same by the interval that the app shows: of random questions the one for a single look."""
    return known(cell, "known" if cell["questions"] == "random" else "known_always")


def questions() -> list[list[float]]:
    table = []
    for cell in itertools.chain(*(result(f"questions{name}")["cells"] for name in ("", "-errors", "-photos"))):
        reached = [cell["settled"], cell["model"], known(cell, "known"), known_shown(cell)]
        reached.append(known(cell, "known_always"))  # None: a dash
        shares = [100 * cell["model_curve"][14], 100 * cell["labels_right"]]
        table.append([100 * cell["errors"], *(n for n in reached if n is not None), *shares])
    return table


def walkthrough() -> list[list[float]]:
    table = []
    for name in ("airplane-automobile-horse", *(f"cat-dog-horse{how}" for how in ("", "-model", "-400", "-model-400"))):
        found = result(f"walkthrough-{name}")
        runs = found["runs"]
        shares = [100 * np.mean([run[share] for run in runs]) for share in ("right", "right_without_answer")]
        table.append([found["answers"], *shares, sum(run["covered"] for run in runs), len(runs)])
    return table


def photos() -> list[list[float]]:
    table = []
    for row, once in zip(result("photos")["summary"], result("photos-1-view")["summary"], strict=True):
        accuracy = row["accuracy"]
        shown = [accuracy["all"], accuracy.get("alone", accuracy["all"]), once["accuracy"]["all"]]
        table.append([row["labels"], *(100 * value for value in (*shown, accuracy["true labels"]))])
    return table


def stream() -> list[list[float]]:
    found = result("stream")
    stages = (found[name] for name in ("scan by pyarrow", "train, one epoch", "predict", "evaluate"))
    return [[s["seconds"], s["rows_per_second"], s["cpu_seconds"], s["resident_mb"]] for s in stages]


def allocation() -> list[list[float]]:
    rows = result("allocation")["rows"]
    layers = [int(*re.findall(r"\d+", row["case"])) for row in rows]
    return [[n, row["usual_cpu_s"], row["kept_cpu_s"], row["times"]] for n, row in zip(layers, rows)]


def paper(name: str) -> Any:
    """What benchmarks/on_paper.py computes from committed results."""
    return runpy.run_path(str(ROOT / "benchmarks" / "on_paper.py"))[name]()


RESULTS: dict[str, Callable[[], list[list[float]]]] = {  # a marker → what the table below it shows
    "mnist": mnist,
    "throughput": lambda: columns(result("throughput-cuda")["engine"], "runs", "ms_per_run_epoch", "textbook_ratio"),
    "worth": worth,
    "throughput-cuda": lambda: columns(result("throughput-cuda")["engine"], "runs", "floor_ratio"),
    "throughput-cpu": lambda: columns(
        result("throughput-cpu")["engine"], "runs", "ms_per_run_epoch", "ratio_to_bare", "textbook_ratio"
    ),
    "before-and-after": before_and_after,
    "tables": benchmark,
    "paired": paired,
    "recipes": lambda: [
        [row["rows"], 100 * row["plain"], 100 * row["consistency"]] for row in result("recipes")["means"]
    ],
    "bias": bias,
    "coverage": coverage,
    "transitions": transitions,
    "memory": lambda: columns(result("labels-cpu")["training"], "seconds", "data_mb", "extra_mb"),
    "cifar": cifar,
    "reproduction": reproduction,
    "soak": soak,
    "questions": questions,
    "walkthrough": walkthrough,
    "photos": photos,
    "allocation": allocation,
    "texts": lambda: [
        [row["labels"], *(row[k]["mean"] for k in ("words", "embeddings", "both", "true labels"))]
        for row in result("texts")["summary"]
    ],
    "startup": lambda: columns(
        [row for row in result("startup")["cases"] if row["case"].startswith("naysayer")], "cpu_seconds", "ratio"
    ),
    "processes": lambda: [
        [row["processes"], row["risks_bytes"], row["ms_per_step"], 100 * row["risks_share"], row["risks_alone_ms"]]
        for row in result("processes")["measured"][1:]
    ],
    "processes-on-paper": lambda: [
        [row["processes"], row["risks_us"], row["gradients_us"], 100 * row["share"], 100 * row["efficiency"]]
        for row in result("processes")["on_paper"]["table"]
    ],
    "one-machine": lambda: [
        [row["cpu"][name] for name in ("before_ms", "after_ms", "ratio")] for row in result("beside")["rows"]
    ],
    "stream": stream,
    "stream-memory": lambda: columns(result("stream_memory")["measured"], "memory_mb", "train_mb", "predict_mb"),
    "on-paper": lambda: [[each, whole] for _, each, _, whole, *_ in paper("costs")],
    "epochs-on-paper": lambda: [[row["processes"], row["hours"], 100 * row["share"]] for row in paper("epochs")],
}
MARKED = [(name, marker) for name, page in PAGES.items() for marker in tables(page)]


@pytest.mark.parametrize(("name", "marker"), MARKED)
def test_marked_tables_are_results(name, marker):
    assert mismatches(tables(PAGES[name])[marker], RESULTS[marker]()) == []


def test_every_result_has_its_table():
    assert {marker for _, marker in MARKED} == set(RESULTS)


def test_a_table_with_another_number_is_found():
    page = "<!-- some -->\n| a | b |\n|---|--:|\n| x 1,200 | 2.5 |\n| y 3 | 0.10 |\n"
    shown = tables(page)["some"]
    assert shown == [["1,200", "2.5"], ["3", "0.10"]]
    assert mismatches(shown, [[1200, 2.45001], [3.4, 0.1049]]) == []
    assert mismatches(shown, [[1200, 2.44], [3, 0.1]]) == [(["1,200", "2.5"], [1200, 2.44])]
    assert mismatches(shown, [[1200, 2.5]]) == [(["3", "0.10"], [])]
    assert mismatches(shown, [[1200, 2.5], [3, 0.1, 4]]) == [(["3", "0.10"], [3, 0.1, 4])]


def test_the_engine_gives_the_numbers_that_it_gave():
    before, now = (result(name)["methods"] for name in ("mnist-before", "mnist-traced"))
    for method, trials in before.items():
        np.testing.assert_allclose(now[method]["last_epoch"], trials["last_epoch"], rtol=0, atol=1e-9)


def test_what_is_said_of_the_default_is_what_was_measured():
    report = result("tables")["report"]
    for row in report:
        auto, others = row["accuracy"]["auto"], {k: v for k, v in row["accuracy"].items() if k != "true labels"}
        assert auto == max(others.values()), row["rows"]  # README: better than each member, and than a plain network
    tuned = {row["rows"]: row["accuracy"] for row in result("tables")["tune"]}
    assert [n for n, row in tuned.items() if row["auto"] < max(row[k] for k in row if k != "true labels")] == [100]
    better = [k for k, v in sorted(tuned[100].items(), key=lambda one: -one[1]) if v > tuned[100]["auto"]]
    assert better == ["true labels", "boosting", "linear", "plain linear", "forest"]
    reached = "boosting reached {:.1f}, linear {:.1f}, plain linear {:.1f}, forest {:.1f} and `auto` {:.1f}"
    reached = reached.format(*(100 * tuned[100][k] for k in [*better[1:], "auto"]))
    assert reached in " ".join(PAGES["docs/accuracy.md"].split())
    few, more = (100 * row["accuracy"]["all"] for row in result("photos")["summary"][:2])
    readme = " ".join(PAGES["README.md"].split())
    assert (
        f"of ten kinds, {few:.0f} % of new photos are classified correctly; with 1,000 of them, {more:.0f} %" in readme
    )
    page, folder = " ".join(PAGES["docs/photos.md"].split()), result("photo_speed")
    assert f"{folder['ratio']:.2f} times as long as bare passes, {folder['seconds_from_folder'][0]:.0f} s" in page
    assert f"{result('photo_speed-cuda')['photos_per_second']:,} photos per second" in page
    page, all_of_it = " ".join(PAGES["docs/accuracy.md"].split()), result("coverage")["all"]
    assert (
        f"Over all {all_of_it['fits']} fits the 95 % intervals covered it in {100 * all_of_it['covered']:.1f} %" in page
    )
    assert (
        "the bias was −{:.2f} points, with a standard error of {:.1f}".format(
            -100 * all_of_it["bias"], 100 * all_of_it["bias_error"]
        )
        in page
    )
    trials = result("transitions")["overall"]
    assert (
        f"accuracy in {100 * trials['held']:.0f} % of 5,400 trials, and in {100 * trials['held_as_if_known']:.0f} %"
        in page
    )


def leads(cells: list[dict[str, Any]]) -> dict[tuple[str, int], float]:
    """By how many points a model of guided questions is ahead of that of random ones, by goal and number of answers."""
    (random,) = (cell for cell in cells if cell["questions"] == "random")
    return {
        (cell["questions"], n): 100 * (other - one)
        for cell in cells
        if cell is not random
        for n, one, other in zip(random["answers"], random["model_curve"], cell["model_curve"])
    }


def ahead_from(lead: dict[tuple[str, int], float]) -> int:
    """The number of answers from which on all goals' models are ahead."""
    return min(n for _, n in lead if all(by > 0 for (_, m), by in lead.items() if m >= n))


def test_what_is_said_of_guided_questions_is_what_was_measured():
    page, cells = " ".join(PAGES["docs/collect.md"].split()), result("questions-coverage")["cells"]
    grid = itertools.product(("random", "guided", "switched"), (3, 10, 30), (0.0, 0.02, 0.05))
    assert [(cell["policy"], cell["classes"], cell["errors"]) for cell in cells] == list(grid)
    shares = [cell[name] for cell in cells for name in ("accuracy", "share")]
    least, all_of_them = int(100 * min(shares)), 100 * np.mean(shares)
    assert least >= 94
    assert f"in at least {least} % of 60 projects each, and in {all_of_them:.1f} % of all" in page
    one = {"questions": "random", "answers": [1, 2, 3], "model_curve": [0.5, 0.9, 0.9]}
    lead = leads([one, {"questions": "labels", "model_curve": [0.6, 0.85, 0.95]}])
    assert [lead["labels", n] for n in (1, 2, 3)] == pytest.approx([10, -5, 5])
    assert ahead_from(lead) == 3
    results = [result(f"questions{name}")["cells"] for name in ("", "-errors", "-photos")]
    goals = [{cell["questions"]: cell for cell in cells} for cells in results]
    for goal, said in (
        ("labels", "With `--goal labels` the items were settled with"),
        ("model", "with `--goal model` it took"),
    ):
        ratios = [by["random"]["settled"] / by[goal]["settled"] for by in goals]
        assert "{} {:.1f}, {:.1f} and {:.1f} times fewer".format(said, *ratios) in page
        assert min(ratios) >= (3 if goal == "labels" else 2.9)
    digits, errors, photos = map(leads, results)
    behind = [
        min((by, f"`--goal {goal}` at {n:,} answers") for (goal, n), by in lead.items())
        for lead in (digits, errors, photos)
    ]
    said = "by {:.1f} points on the digits ({}), by {:.1f} with errors ({}), and by {:.1f} on the photos ({})"
    assert said.format(*(part for by, where in behind for part in (-by, where))) in page
    by = min(by for lead in (digits, errors, photos) for (goal, _), by in lead.items() if goal == "model")
    assert f"with `--goal model` never by more than {-by:.1f}" in page
    starts = (f"{ahead_from(lead):,}" for lead in (digits, errors, photos))
    assert "From {}, {} and {} answers on all goals are ahead".format(*starts) in page
    assert [known({"known_each": each}, "known") for each in ([1700, 2000], [501, 1000], [500, None])] == [
        2000,
        1000,
        None,
    ]
    random, guided = goals[0]["random"], goals[0]["accuracy"]
    once = known(random, "known") / known(guided, "known")
    assert f"guided questions took {once:.1f} times fewer answers" in page
    assert f"By the ones that it shows, {known_shown(random) / known_shown(guided):.1f} times fewer were needed" in page
    always = known(random, "known_always") / known(guided, "known_always")
    assert f"By intervals that hold at every look for both, {always:.1f} times fewer" in page


def test_what_is_said_of_streams_and_of_scale_is_what_was_measured():
    page, found = " ".join(PAGES["docs/scale.md"].split()), result("stream")
    for row in result("stream_memory")["measured"]:  # "at most 700 MB ... plus 1.4 times `--memory`"
        assert max(row["train_mb"], row["predict_mb"]) < 700 + 1.4 * row["memory_mb"]
    part, limit = found["part"], found["limit_mb"]
    assert f"within {limit:,} MB, {found['bytes'] / 1e9:.2f} GB" in page
    assert found["rows"] == 1e8
    assert (
        f"A hundred million rows were trained on, predicted and evaluated [within {limit / 1000:.1f} GB"
        in PAGES["README.md"]
    )
    speeds = [part["rows"] / part[name] for name in ("seconds", "seconds_streamed")]
    assert "{:,.0f} rows per second in memory and {:,.0f} streamed".format(*speeds) in page
    assert part["largest_difference"] == 0  # "the same network, bit for bit"
    ratio = found["train, one epoch"]["cpu_seconds"] / found["scan by pyarrow"]["cpu_seconds"]
    assert f"training takes {ratio:.0f} times what the scan does" in page
    low, high = result("beside")["rows"][0]["cpu"]["quartiles"]
    assert f"ratios of the first row lies between {low:.2f} and {high:.2f}" in page
    of = paper("annotators")
    assert f"give {of['answers_per_s']:.0f} answers per second" in page
    assert f"one server stored {of['one_server']:.0f}; {of['cores']:.1f} cores would do" in page
    costs = {what: whole for what, _, _, whole, *_ in paper("costs")}
    training, answers = costs["to train on, one epoch and the passes before it"], costs["to store an answer"]
    assert f"it takes {answers / training:.0f} times what an epoch does" in page


def held(fit: dict[str, Any], name: str) -> bool:
    """Whether the interval of a fit held its true accuracy."""
    return fit["low"] <= fit["accuracy"][name] <= fit["high"]


def test_what_is_said_of_intervals_on_tables_is_what_was_measured():
    page, measured = " ".join(PAGES["docs/accuracy.md"].split()), result("tables")
    fits, n_reported = measured["fits"], sum(row["fits"] for row in measured["report"])
    reported = sum(row["fits"] * row["covered"] for row in measured["report"])
    everywhere = sum(held(fit, "auto") for fit in fits)
    said = f"covered the true accuracy in {100 * reported / n_reported:.0f} % of"
    assert f"{said} these {n_reported} fits, and in {100 * everywhere / len(fits):.0f} % of all {len(fits)}" in page
    assert f"95 % interval {said} the fits" in " ".join(PAGES["README.md"].split())
    by_rows = [[fit for fit in fits if fit["rows"] == n] for n in (100, 300, 1000, 3000)]
    counts = [f"{sum(held(fit, 'auto') for fit in some)} of {len(some)}" for some in by_rows]
    assert "with 100 rows in {}, with 300 in {}, with 1,000 in {}, with 3,000 in {}.".format(*counts) in page
    few, *_, many = (100 * np.mean([fit["high"] - fit["low"] for fit in some]) for some in by_rows)
    assert f"{many:.0f} points wide on average where those of 100 rows are {few:.0f}" in page
    missed = [fit for fit in by_rows[-1] if not held(fit, "auto")]
    assert [fit["low"] > fit["accuracy"]["auto"] for fit in missed] == [True] * 4  # "all four"
    off = [100 * np.array([fit["estimate"] - fit["accuracy"]["auto"] for fit in some]) for some in by_rows]
    shown = [f"{'−' if one.mean() < 0 else '+'}{abs(one.mean()):.1f}" for one in off]
    errors = [f"{one.std(ddof=1) / np.sqrt(len(one)):.1f}" for one in off]
    words = "{} points with a standard error of {} (100 rows), {} with {}, {} with {}, and {} with {} (3,000 rows)"
    assert words.format(*itertools.chain(*zip(shown, errors))) in page
    few, *more = measured["report"]
    assert few["covered"] == 1
    counted = round(sum(row["fits"] * row["covered"] for row in more)), sum(row["fits"] for row in more)
    assert "{} of {} with 100 rows and {} of {} with more".format(few["fits"], few["fits"], *counted) in page
    claim = "with 100 labels in all {}, with 300 to 3,000 in {} of {}".format(few["fits"], *counted)
    assert claim in " ".join(PAGES["README.md"].split())
    assert f"by −{-100 * few['bias']:.1f} with {100 * few['bias_error']:.1f}." in page


def off_and_held(fits: list[dict[str, Any]]) -> tuple[str, str, int]:
    """By how many points estimates are off, as written, with the error of that, and how many intervals held."""
    off = 100 * np.array([fit["estimate"] - fit["accuracy"]["auto"] for fit in fits])
    error = f"{off.std(ddof=1) / np.sqrt(len(off)):.1f}"
    return f"{'−' if off.mean() < 0 else '+'}{abs(off.mean()):.1f}", error, sum(held(fit, "auto") for fit in fits)


def test_what_is_said_of_fits_without_a_warning_is_what_was_measured():
    page, fits = " ".join(PAGES["docs/accuracy.md"].split()), result("tables")["fits"]
    quiet = [fit for fit in fits if fit["low"] > 1 / fit["classes"]]  # `learned_`
    assert f"as in {len(fits) - len(quiet)} of the {len(fits)} fits. In the other {len(quiet)} the estimate" in page
    (off, error, right), (off_all, error_all, right_all) = off_and_held(quiet), off_and_held(fits)
    words = f"was {off[1:]} points too high on average, with a standard error of {error}, and the interval covered the "
    words += f"accuracy in {right} ({100 * right / len(quiet):.0f} %). Over all fits it was off by {off_all} with "
    assert f"{words}{error_all}, and covered it in {right_all} ({100 * right_all / len(fits):.0f} %)" in page
    parts = []
    for n in (100, 300, 1000, 3000):
        some = [fit for fit in quiet if fit["rows"] == n]
        off, error, _ = off_and_held(some)
        unit, of = (" points", "a standard error of ") if n == 100 else ("", "")
        parts.append(f"{off}{unit} with {of}{error} ({n:,} rows, {len(some)} fits)")
    assert f"{', '.join(parts[:3])} and {parts[3]}" in page


@pytest.fixture
def benchmarks(monkeypatch):
    """Let benchmarks be imported; give what one defines, by its name, without running it."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    for name in ("OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT"):
        monkeypatch.setenv(name, "1")  # as they do
    return lambda name: runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))


def test_what_is_said_of_the_best_in_hindsight_is_what_was_measured(benchmarks):
    page, fits = " ".join(PAGES["docs/accuracy.md"].split()), result("tables")["fits"]
    tables = benchmarks("tables")
    settings = tables["behind"](fits)
    far = [one for one in settings if one["points"] > 2]
    assert f"in hindsight in {len(far)} of {len(settings)} settings" in page
    by_rows = [[sum(one["rows"] == n for one in some) for some in (far, settings)] for n in (100, 300, 1000, 3000)]
    words = "with 100 rows in {} of {}, with 300 in {} of {}, with 1,000 in {} of {}, with 3,000 in {} of {}."
    assert words.format(*itertools.chain(*by_rows)) in page
    one, two, three = far[:3]
    assert [(x["table"], x["rows"], x["best"]) for x in far[:3]] == [
        ("made-wide", 100, "linear"),
        ("diamonds", 100, "boosting"),
        ("digits", 300, "discriminant"),
    ]
    words = "({:.1f} points below linear), diamonds with 100 ({:.1f} below boosting) and digits with 300 ({:.1f} below"
    assert words.format(one["points"], two["points"], three["points"]) in page
    assert [len(row["behind"]) for row in tables["summary"](fits)] == [many for many, _ in by_rows]
    names = {fit["table"] for fit in fits}  # "Twenty-nine tables", "fifteen of them", "the other fourteen"
    assert [len(names & set(tables["HALVES"][half])) for half in ("all", "tune", "report")] == [29, 15, 14]


def test_what_is_said_of_the_paired_comparison_is_what_was_measured():
    page, measured = " ".join(PAGES["docs/accuracy.md"].split()), result("paired")
    for row in measured["summary"]:  # which the fits bear out
        fits = [fit for fit in measured["fits"] if (fit["table"], fit["rows"]) == (row["table"], row["rows"])]
        assert len(fits) == row["fits"] == 5
        for name, about in row["members"].items():
            off = [fit["accuracy"][name] - fit["accuracy"]["auto"] for fit in fits]
            assert np.mean(off) == pytest.approx(about["to_auto"], abs=1e-4)
            assert np.std(off, ddof=1) / np.sqrt(5) == pytest.approx(about["error"], abs=1e-4)
    cells = [(row, name, row["members"][name]) for row in measured["summary"] for name in PAIRED]
    below = PAGES["docs/accuracy.md"].partition("<!-- paired -->")[2]
    signs = ["−" if about["to_auto"] < 0 else "+" for *_, about in cells]
    assert re.findall(r"\(([+−])[\d.]+ ±", below)[: len(signs)] == signs
    better = [(row["table"], name, about) for row, name, about in cells if about["to_auto"] > 0]
    lost = {(table, name) for table, name, _ in better}
    assert lost == {("made-five", "plain linear"), ("wine", "plain mlp"), ("iris", "forest")}
    assert all(about["to_auto"] < min(0.0055, 2 * about["error"]) for *_, about in better)  # "half a point at most"
    ahead = sum(about["to_auto"] < -2 * about["error"] for *_, about in cells)
    assert f"In {ahead} of the {len(cells)} comparisons it is ahead by more than two" in page
    seconds = [np.mean([row["members"][name]["seconds"] for row in measured["summary"]]) for name in ("auto", *PAIRED)]
    words = "{:.0f} s on average, where plain networks take {:.1f} and {:.1f} (MLP and linear), boosting {:.1f} and"
    assert f"{words.format(*seconds)} the forest {seconds[-1]:.1f}" in page


def test_what_is_said_of_the_parts_of_an_error_is_what_was_measured():
    few, many = (result(f"bias-{n}")["all"] for n in (300, 3000))
    below = PAGES["docs/accuracy.md"].partition("<!-- bias -->")[2]
    signs = ["−" if about[part]["mean"] < 0 else "+" for about in (few, many) for part in PARTS]
    assert re.findall(r"\| ([+−])[\d.]+ \(", below)[: len(signs)] == signs  # the table's numbers come without theirs
    assert round(many["width"] / many["weights"]["mean"], -1) == 50  # "a fiftieth of the interval's width"
    assert abs(few["weights"]["mean"]) < few["weights"]["error"]  # "too little to be distinguished from 0"
    assert abs(many["off"]["mean"]) < many["off"]["error"]  # "no larger than its standard error"


def test_what_is_said_of_the_grid_is_what_was_measured(benchmarks):
    measured, page = result("coverage"), " ".join(PAGES["docs/accuracy.md"].split())
    *cells, unlabelled, estimated = measured["cells"]
    assert {cell["fits"] for cell in cells} == {14, 15}
    assert (unlabelled["labels"], estimated["labels"]) == ("unlabelled", "estimated")
    counts = [
        value for cell in (unlabelled, estimated) for value in (round(cell["fits"] * cell["covered"]), cell["fits"])
    ]
    assert "intervals covered the accuracy in {} of {} fits and in {} of {}.".format(*counts) in page
    low = [(cell["data"], cell["classes"], cell["rows"]) for cell in measured["cells"] if cell["covered"] < 0.9]
    assert low == [("clusters", 10, 1000)]
    assert all(abs(cell["bias"]) < 2 * cell["bias_error"] for cell in measured["cells"])
    total = benchmarks("coverage")["total"](measured["cells"])
    assert total == {name: pytest.approx(value) for name, value in measured["all"].items()}
    sign = "−" if unlabelled["bias"] < 0 else "+"
    off, error = 100 * abs(unlabelled["bias"]), 100 * unlabelled["bias_error"]
    words = f"off by {sign}{off:.1f} points with a standard error of {error:.1f} in {unlabelled['fits']} fits"
    assert words in " ".join(PAGES["docs/photos.md"].split())


@pytest.mark.usefixtures("benchmarks")
def test_a_benchmark_resumes_where_it_was_interrupted(tmp_path):
    resumed = importlib.import_module("common").resumed
    kept = tmp_path / "kept.jsonl"
    kept.write_text("[-1, 100]\n[-9, 900]\n[-2, 2")  # -9 is no job, and the last line was cut short
    assert list(resumed(abs, [-1, -2, -3], kept, 1)) == [100, 2, 3]
    assert list(resumed(abs, [-1, -2, -3], kept, 1)) == [100, 2, 3]
    assert kept.read_text() == "[-1, 100]\n[-9, 900]\n[-2, 2]\n[-3, 3]\n"


def test_fits_of_a_cell_that_are_merged_count_as_if_run_together(benchmarks):
    coverage, fits = benchmarks("coverage"), np.random.default_rng(0).random((11, 7))
    together = coverage["summary"](3, fits.tolist()) | {"repeats": [[0, 11]]}
    parts = [coverage["summary"](3, some.tolist()) | {"repeats": [[0, 11]]} for some in (fits[:1], fits[1:4], fits[4:])]
    merged = coverage["merged"]({"cells": parts[:1]}, parts[1:])
    (cell,) = merged["cells"]
    assert cell.pop("repeats") == 3 * together.pop("repeats")
    assert {k: pytest.approx(v) if isinstance(v, float) else v for k, v in together.items()} == cell
    assert merged["all"]["fits"] == 11


def test_what_is_said_of_the_most_that_features_tell_is_what_was_measured():
    runs = result("walkthrough-cat-dog-horse-400")["runs"]
    told = 100 * np.mean([run["all_classes_told"] for run in runs])
    page = " ".join(PAGES["docs/collect.md"].split())
    assert f"classifies {told:.1f} % of the others correctly in these draws" in page


def test_what_is_said_of_two_hundred_answers_is_what_was_measured():
    hard, easy = (
        100 * np.mean([run["right"] for run in result(f"walkthrough-{name}")["runs"]])
        for name in ("cat-dog-horse", "airplane-automobile-horse")
    )
    readme, page = (" ".join(PAGES[name].split()) for name in ("README.md", "docs/photos.md"))
    said = f"{hard:.1f} % of the labels are right for cats, dogs and horses, and {easy:.1f} % for airplanes, auto"
    assert f"After 200 answers about 600 small photos, {said}" in readme
    said = f"{hard:.1f} % of the labels of cats, dogs and horses are right, and {easy:.1f} % of those of airplanes,"
    assert f"With 200 answers about 600 photos, {said}" in page


def test_what_is_said_of_estimates_for_photos_is_what_was_measured():
    page = " ".join(PAGES["docs/photos.md"].split())
    both = result("photos"), result("photos-1-view")
    counts = [f"{sum(held(fit, 'all') for fit in one['fits'])} of" for one in both]
    assert "covered the accuracy in {} the 20 fits to all photos, and in {} 20 with one view".format(*counts) in page
    estimates = [f"{100 * row['estimate']:.1f}" for one in both for row in one["summary"]]
    width = 100 * np.mean([fit["high"] - fit["low"] for fit in both[0]["fits"] if fit["labels"] == 300])
    first = f"{estimates[0]} % on average for the five with 300 labels, whose intervals are {width:.0f} points wide"
    then = "then {}, {} and {} % (with one view {}, {}, {} and {} %)".format(*estimates[1:])
    assert f"{first} on average, {then}" in page


def test_what_is_said_of_recipes_is_what_was_run():
    with (ROOT / "docs" / "benchmark" / "results.csv").open(encoding="utf8") as file:
        runs = [row for row in csv.DictReader(file) if row["recipe"] == "consistency"]
    assert {row["epochs"] for row in runs if row["network"] == "mlp"} == {"60"}  # "the default"
    pooled = {row["dataset"]: row["epochs"] for row in runs if row["network"] == "pooled"}
    assert pooled["fashion"] == pooled["kuzushiji"]
    page = " ".join(PAGES["docs/recipes.md"].split())
    said = "`max_epochs={mnist}` on MNIST, {fashion} on Fashion- and Kuzushiji-MNIST and {cifar10} on CIFAR-10"
    assert said.format(**pooled) in page
    assert DEFAULTS["consistency", "dense"].epochs == DEFAULTS["consistency", "residual"].epochs == 60
    times = Counter((row["dataset"], row["network"]) for row in runs)
    assert [key for key, n in times.items() if n != 3] == [("cifar10", "pooled")]  # "means of three runs"
    assert times["cifar10", "pooled"] == 1  # "a single run", on both pages
    fewest, *_, most = sorted(map(int, pooled.values()))
    assert f"today in {fewest} to {most} epochs (CIFAR-10: a single run)" in " ".join(PAGES["README.md"].split())


def test_mnist_came_out_as_expected():
    for trials in result("mnist")["methods"].values():
        assert abs(np.mean(trials["last_epoch"]) - trials["expected"]) < 2


def test_readme_counts_the_cells_that_agree_with_the_paper():
    cells = list(csv.DictReader((ROOT / "docs" / "reproduction" / "table3-1.csv").open(encoding="utf8")))
    agree = sum(cell["differs"] == "False" for cell in cells)
    assert f"{agree} of {len(cells)} cells" in PAGES["README.md"]


def test_reproduction_page_is_what_its_results_say(tmp_path, monkeypatch):
    folder = shutil.copytree(ROOT / "docs" / "reproduction", tmp_path / "reproduction")
    for draw in ("accuracy_curves", "risk_curves", "reliability", "sweep", "selection_losses"):  # pictures take long
        monkeypatch.setattr(plots, draw, lambda _, path: Path(f"{path}.png"))
    reproduce(["all"], folder, train=False, markdown=tmp_path / "page.md", show=False)
    written = (tmp_path / "page.md").read_text(encoding="utf8")
    command = "naysayer reproduce all --draw --out docs/reproduction --markdown docs/reproduction.md"
    assert PAGES["docs/reproduction.md"] == written, f"run: {command}"


# ---- the command's page ---------------------------------------------------------------------------------------


def command_help() -> str:
    """What docs/commands.md must say."""
    group = get_command(cli.app)
    parts = ["# The command", "", "Every option of every command; a test keeps this page and the command the same.", ""]
    for name, command in every_command(group):
        context = type(group.make_context("naysayer", [], resilient_parsing=True))(
            command, info_name=f"naysayer {name}", terminal_width=110, max_content_width=110
        )
        parts += [f"## naysayer {name}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(parts)


def test_the_command_and_readme_name_every_experiment():
    (parameter,) = (one for one in get_command(cli.app).commands["reproduce"].params if one.name == "names")
    listed = re.findall(r"\w+", PAGES["README.md"].partition("naysayer reproduce table3")[2].partition("\n")[0])
    for name in EXPERIMENTS:
        assert name in re.findall(r"\w+", parameter.help), name
        assert name in ("table3", *listed), name


def test_command_page_is_current():
    page = ROOT / "docs" / "commands.md"
    assert page.read_text(encoding="utf8") == command_help(), "run: python tests/test_readme.py"


if __name__ == "__main__":
    (ROOT / "docs" / "commands.md").write_text(command_help(), encoding="utf8")
