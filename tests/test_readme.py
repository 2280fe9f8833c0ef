"""README and docs: every Python block and command line runs, links lead somewhere, numbers are committed results."""

from __future__ import annotations

import csv
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
from naysayer.experiments import plots
from naysayer.experiments.reproduce import reproduce
from naysayer.measure.planning import labels_needed
from naysayer.survey.questions import read_survey

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


def questions() -> list[list[float]]:
    table = []
    for cell in itertools.chain(*(result(f"questions{name}")["cells"] for name in ("", "-errors", "-photos"))):
        reached = [cell[name] for name in ("settled", "model", "known") if cell[name] is not None]
        table.append([100 * cell["errors"], *reached, 100 * cell["model_curve"][14], 100 * cell["labels_right"]])
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
    for row, mirrored in zip(result("photos")["summary"], result("photos-2-views")["summary"], strict=True):
        accuracy = row["accuracy"]
        shown = [accuracy["all"], accuracy.get("alone", accuracy["all"]), mirrored["accuracy"]["all"]]
        table.append([row["labels"], *(100 * value for value in (*shown, accuracy["true labels"]))])
    return table


def stream() -> list[list[float]]:
    found = result("stream")
    stages = (found[name] for name in ("scan by pyarrow", "train, one epoch", "predict", "evaluate"))
    return [[s["seconds"], s["rows_per_second"], s["cpu_seconds"], s["resident_mb"]] for s in stages]


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
    reached = "boosting reached {:.1f} and `auto` {:.1f}".format(*(100 * tuned[100][k] for k in ("boosting", "auto")))
    assert reached in " ".join(PAGES["docs/accuracy.md"].split())
    few, more = (100 * row["accuracy"]["all"] for row in result("photos")["summary"][:2])
    readme = " ".join(PAGES["README.md"].split())
    assert f"of ten kinds, {few:.0f} % of new photos are named correctly; with 1,000 of them, {more:.0f} %" in readme
    page, folder = " ".join(PAGES["docs/photos.md"].split()), result("photo_speed")
    assert f"{folder['ratio']:.2f} times as long as bare passes, {folder['seconds_from_folder'][0]:.0f} s" in page
    assert f"{result('photo_speed-cuda')['photos_per_second']:,} photos per second" in page
    page, all_of_it = " ".join(PAGES["docs/accuracy.md"].split()), result("coverage")["all"]
    assert f"Over all {all_of_it['fits']} fits the 95 % intervals held it in {100 * all_of_it['covered']:.1f} %" in page
    assert (
        f"the bias was −{-100 * all_of_it['bias']:.2f} points, with an error of {100 * all_of_it['bias_error']:.1f}"
        in page
    )
    trials = result("transitions")["overall"]
    assert (
        f"accuracy in {100 * trials['held']:.0f} % of 5,400 trials, and in {100 * trials['held_as_if_known']:.0f} %"
        in page
    )


def behind(cells: list[dict[str, Any]], first: int) -> float:
    """By how many points a model of guided questions is behind that of random ones, at most, from a budget on."""
    (random,) = (cell for cell in cells if cell["questions"] == "random")
    worst = -100.0
    for cell in cells:
        both = zip(random["answers"], random["model_curve"], cell["model_curve"])
        worst = max([worst, *(100 * (one - other) for n, one, other in both if n >= first and cell is not random)])
    return worst


def test_what_is_said_of_guided_questions_is_what_was_measured():
    page, cells = " ".join(PAGES["docs/collect.md"].split()), result("questions-coverage")["cells"]
    grid = itertools.product(("random", "guided", "switched"), (3, 10, 30), (0.0, 0.02, 0.05))
    assert [(cell["policy"], cell["classes"], cell["errors"]) for cell in cells] == list(grid)
    shares = [cell[name] for cell in cells for name in ("accuracy", "share")]
    least, all_of_them = int(100 * min(shares)), 100 * np.mean(shares)
    assert least >= 94
    assert f"in at least {least} % of 60 projects each, and in {all_of_them:.1f} % of all" in page
    one = [{"questions": "random", "answers": [1, 2], "model_curve": [0.5, 0.9]}]
    assert behind([*one, {"questions": "labels", "model_curve": [0.4, 0.95]}], 1) == pytest.approx(10)
    assert behind([*one, {"questions": "labels", "model_curve": [0.4, 0.95]}], 2) == pytest.approx(-5)
    digits, errors, photos = (result(f"questions{name}")["cells"] for name in ("", "-errors", "-photos"))
    # "never behind" on digits, and better from 1,500 answers on; on photos, from 2,500 answers on
    assert max(behind(digits, 0), behind(errors, 0)) <= 0
    worst = behind(photos, 0)
    assert worst < 1
    assert f"never more than {math.ceil(10 * worst) / 10:.1f} points behind" in page
    assert max(behind(digits, 1500), behind(errors, 1500), behind(photos, 2500)) < 0
    ratios = [cells[0]["settled"] / cells[1]["settled"] for cells in (digits, errors, photos)]
    assert "{:.1f}, {:.1f} and {:.1f} times".format(*ratios) in page
    (known,) = (cell["known"] for cell in digits if cell["questions"] == "accuracy")
    assert f"{digits[0]['known'] / known:.1f} times fewer" in page


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
    said = f"held the true accuracy in {100 * reported / n_reported:.0f} % of"
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
    words = "{} points with an error of {} (100 rows), {} with {}, {} with {}, and {} with {} (3,000 rows)"
    assert words.format(*itertools.chain(*zip(shown, errors))) in page


def test_what_is_said_of_the_parts_of_an_error_is_what_was_measured():
    few, many = (result(f"bias-{n}")["all"] for n in (300, 3000))
    below = PAGES["docs/accuracy.md"].partition("<!-- bias -->")[2]
    signs = ["−" if about[part]["mean"] < 0 else "+" for about in (few, many) for part in PARTS]
    assert re.findall(r"\| ([+−])[\d.]+ \(", below)[: len(signs)] == signs  # the table's numbers come without theirs
    assert round(many["width"] / many["weights"]["mean"], -1) == 50  # "a fiftieth of the interval's width"
    assert abs(few["weights"]["mean"]) < few["weights"]["error"]  # "less than can be told from 0"
    assert abs(many["off"]["mean"]) < many["off"]["error"]  # "nothing of the size seen came back"


def test_what_is_said_of_the_grid_is_what_was_measured():
    cells = result("coverage")["cells"]
    assert {cell["fits"] for cell in cells} == {14, 15}
    low = [(cell["data"], cell["classes"], cell["rows"]) for cell in cells if cell["covered"] < 0.9]
    assert low == [("clusters", 10, 1000)]
    assert all(abs(cell["bias"]) < 2 * cell["bias_error"] for cell in cells)


def test_what_is_said_of_the_most_that_features_tell_is_what_was_measured():
    runs = result("walkthrough-cat-dog-horse-400")["runs"]
    told = 100 * np.mean([run["all_classes_told"] for run in runs])
    assert f"names {told:.1f} % of the others rightly in these draws" in " ".join(PAGES["docs/collect.md"].split())


def test_what_is_said_of_estimates_for_photos_is_what_was_measured():
    page = " ".join(PAGES["docs/photos.md"].split())
    once, mirrored = result("photos"), result("photos-2-views")
    counts = [f"{sum(held(fit, 'all') for fit in one['fits'])} of" for one in (once, mirrored)]
    assert "held the accuracy in {} the 20 fits to all photos, and in {} 20 mirrored".format(*counts) in page
    estimates = [f"{100 * row['estimate']:.1f}" for one in (once, mirrored) for row in one["summary"]]
    width = 100 * np.mean([fit["high"] - fit["low"] for fit in once["fits"] if fit["labels"] == 300])
    first = f"{estimates[0]} % in the mean of the five with 300 labels, whose intervals are {width:.0f} points wide"
    then = "then {}, {} and {} % (mirrored {}, {}, {} and {} %)".format(*estimates[1:])
    assert f"{first} on average, {then}" in page


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


def test_command_page_is_current():
    page = ROOT / "docs" / "commands.md"
    assert page.read_text(encoding="utf8") == command_help(), "run: python tests/test_readme.py"


if __name__ == "__main__":
    (ROOT / "docs" / "commands.md").write_text(command_help(), encoding="utf8")
