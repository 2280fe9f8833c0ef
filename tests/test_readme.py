"""README and docs: every Python block runs, every command line runs, every number is in a committed result."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from typer.main import get_command

from helpers import every_command
from naysayer import cli
from naysayer.survey.questions import read_survey

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf8")


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_blocks_are_found():
    assert len(blocks(README, "python")) >= 6
    assert "naysayer train" in "".join(blocks(README, "console"))


def test_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks(README, "python"):
        exec(compile(block, "README.md", "exec"), namespace)
    assert "0.9" in capsys.readouterr().out  # an accuracy was printed


def test_command_lines_run(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    truth = take_photos()
    lines = [line[2:] for block in blocks(README, "console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(lines) == 13
    served = 0
    for line in lines:
        words = shlex.split(line)
        if words[1] in ("ask", "survey") and "--results" not in words:  # these wait for people
            with waiting(words[1:]) as said:
                look_and_answer(said, truth) if words[1] == "ask" else respond(said)
            served += 1
            continue
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0, line
    assert served == 3
    assert (tmp_path / "predictions.csv").read_text().startswith("row,prediction,probability\n")
    rows = list(csv.DictReader(Path("labels.csv").read_text().splitlines()))
    assert len(rows) == 150
    assert np.mean([row["prediction"] == truth[Path("photos", row["item"]).read_bytes()] for row in rows]) > 0.9
    out = capsys.readouterr().out
    assert "220 answers about" in out
    assert "answers about 50 items" in out
    assert "220 answers are in answers.csv" in out
    assert "Work and well-being: 40 respondents" in out
    worth = re.findall(r"\d+,\d{3}", README.split("## When is it worth it?")[1].split("##")[0])
    assert len(worth) == 3
    assert all(number in out for number in worth)  # the table of what a label is worth is what `plan` prints


def take_photos() -> dict[bytes, str]:
    """Digits that stand for photos of three animals; what each file shows."""
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(y < 3))
    truth = {}
    for folder, mine in (("photos", rows[:150]), ("new-photos", rows[150:200])):
        Path(folder).mkdir()
        for i in mine:
            path = Path(folder, f"{i:04}.png")
            Image.fromarray((15.9 * X[i].reshape(8, 8)).astype(np.uint8)).save(path)
            truth[path.read_bytes()] = ("cat", "dog", "horse")[y[i]]
    return truth


@contextmanager
def waiting(arguments: list[str]) -> Iterator[str]:
    """Run the command until it waits for people; give what it printed; stop it as people do."""
    here = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1])}
    command = [sys.executable, "-m", "naysayer", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=here)
    try:
        said = ""
        while "Control-C" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        yield said
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def look_and_answer(said: str, truth: dict[bytes, str]) -> None:
    """Answer as somebody who sees the photos; of the first 220 answers some are wrong."""
    rng = np.random.default_rng(0)
    with httpx.Client(base_url=re.search(r"open (http\S+)", said)[1], headers={"x-naysayer": "1"}) as web:
        left = 220 if "150 items" in said else 60
        while left:
            answers = []
            for question in web.get("/api/next", params={"n": min(10, left)}).json()["questions"]:
                right = truth[web.get(question["item"]["src"]).content] == question["class"]
                value = "yes" if right != (rng.random() < 0.02) else "no"
                answers.append({"id": question["id"], "question": question["id"], "value": value})
            assert answers, "there was nothing left to ask"
            left -= len(web.post("/api/answers", json={"answers": answers}).raise_for_status().json()["stored"])


def respond(said: str) -> None:
    """Answer a survey as 40 people's devices do."""
    asked, rng = read_survey("examples/survey.toml"), np.random.default_rng(0)
    for i in range(40):
        answers = {q.id: {q.says: q.options[rng.integers(len(q.options))].id} for q in asked.questions}
        body = {"id": f"{i:032x}", "answers": answers}
        link = re.search(r"http\S+/s/\S+", said)[0]
        httpx.post(f"{link}/answers", headers={"x-naysayer": "1"}, json=body).raise_for_status()


@pytest.mark.parametrize("page", ["README.md", "docs/collect.md"])
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert links
    for link in links:
        assert (ROOT / page).parent.joinpath(link).exists(), link


def numbers(marker: str) -> list[list[float]]:
    """The rows of numbers in the table after a marker."""
    table = README.split(f"<!-- {marker} -->\n")[1].split("\n\n")[0]
    return [[float(v) for v in re.findall(r"\d+\.?\d*", row)] for row in table.splitlines()[2:]]


def test_mnist_table_is_the_committed_result():
    methods = json.loads((ROOT / "benchmarks/results/mnist.json").read_text())["methods"]
    expected = []
    for name in ("free", "max", "ascent", "forward", "pairwise"):
        last = np.array(methods[name]["last_epoch"])
        expected += [last.mean(), last.std()]
        assert abs(last.mean() - methods[name]["expected"]) < 2
    np.testing.assert_allclose(numbers("mnist")[0], expected, atol=0.0501)


def test_throughput_table_is_the_committed_result():
    rows = json.loads((ROOT / "benchmarks/results/throughput-cuda.json").read_text())["engine"]
    for shown, row in zip(numbers("throughput"), rows, strict=True):
        expected = [row["runs"], row["ms_per_run_epoch"], row["textbook_ratio"]]
        np.testing.assert_allclose(shown, expected, rtol=0.02)


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
