"""README and docs: every Python block runs, every command line runs, every number is in a committed result."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from helpers import every_command
from naysayer import cli

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
    lines = [line[2:] for block in blocks(README, "console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(lines) == 5
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0, line
    assert (tmp_path / "predictions.csv").read_text().startswith("row,prediction,probability\n")
    out = capsys.readouterr().out
    worth = re.findall(r"\d+,\d{3}", README.split("## When is it worth it?")[1].split("##")[0])
    assert len(worth) == 3
    assert all(number in out for number in worth)  # the table of what a label is worth is what `plan` prints


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
