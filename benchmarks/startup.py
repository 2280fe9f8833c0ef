"""What the command costs before it does anything: CPU time of its help, version, completion and plan.

Each is a new interpreter, measured in turn with ``python -c "import typer"``, below which no command built on typer
can go; times are user and system time together, medians of several runs. At most 0.4 s is wanted.

    python benchmarks/startup.py --out benchmarks/results
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from common import hardware, save

SOURCE = str(Path(__file__).parents[1] / "src")
COMPLETING = {"_NAYSAYER_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
COMPLETING |= {"_TYPER_COMPLETE_ARGS": "naysayer train --"}
TYPER = 'python -c "import typer"'
CASES: dict[str, tuple[list[str], dict[str, str]]] = {
    'python -c "pass"': (["-c", "pass"], {}),
    TYPER: (["-c", "import typer"], {}),
    'python -c "import naysayer"': (["-c", "import naysayer"], {}),
    "naysayer --version": (["-m", "naysayer", "--version"], {}),
    "naysayer --help": (["-m", "naysayer", "--help"], {}),
    "naysayer train --help": (["-m", "naysayer", "train", "--help"], {}),
    "naysayer train --<Tab>": (["-m", "naysayer"], COMPLETING),
    "naysayer plan --classes 10": (["-m", "naysayer", "plan", "--classes", "10"], {}),
}


def cpu_seconds(arguments: list[str], variables: dict[str, str]) -> float:
    """User and system time of one interpreter."""
    environment = os.environ | {"PYTHONPATH": SOURCE} | variables
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, arguments
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    for case in CASES.values():  # write the bytecode, fill the disk's cache
        cpu_seconds(*case)
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(options.runs):  # in turn, so that whatever else the machine does meets all alike
        for name, case in CASES.items():
            seconds[name].append(cpu_seconds(*case))
    least = statistics.median(seconds[TYPER])
    rows = []
    print(f"{'':32}  CPU s  (lowest to highest)   times typer's import")
    for name, times in seconds.items():
        median = statistics.median(times)
        row = {
            "case": name,
            "cpu_seconds": median,
            "lowest": min(times),
            "highest": max(times),
            "ratio": median / least,
        }
        rows.append({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
        print(f"{name:32}  {median:.3f}  ({min(times):.3f} to {max(times):.3f})            {median / least:.2f}")
    about = {key: value for key, value in hardware("cpu").items() if key != "torch"}
    about |= {"typer": version("typer"), "numpy": version("numpy"), "runs": options.runs}
    save(options.out, "startup", {"hardware": about, "cases": rows})


if __name__ == "__main__":
    main()
