"""What benchmarks share: the machine they ran on, fits in several processes, how a result is written."""

from __future__ import annotations

import json
import math
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from naysayer import ComplementaryClassifier


def hardware(device: str) -> dict[str, Any]:
    """The device's name and the versions that matter."""
    name = f"{platform.machine()}, {torch.get_num_threads()} threads"
    if device == "cuda":
        name = torch.cuda.get_device_name()
    elif Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
        name = f"{model}, {torch.get_num_threads()} threads"
    return {"device": name, "torch": torch.__version__, "python": platform.python_version()}


def save(folder: str, name: str, result: dict[str, Any]) -> None:
    """Write a result as JSON, with the command that made it."""
    path = Path(folder) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"command": command_line()} | result, indent=1) + "\n")
    print(f"\nwritten to {path.name}")


def command_line() -> str:
    """The command that this is run by, without the folder it writes into."""
    words = [word for i, word in enumerate(sys.argv) if "--out" not in sys.argv[max(0, i - 1) : i + 1]]
    return "python " + shlex.join([f"benchmarks/{Path(words[0]).name}", *words[1:]])


def finished(
    job: Callable[[Any], Any], jobs: Sequence[Any], processes: int | None, limit: float, start: str = "fork"
) -> Iterator[Any]:
    """Give what jobs return as each is done, in processes, with a count; none is awaited after `limit` seconds."""
    begun = time.monotonic()
    with get_context(start).Pool(processes) as pool:
        for done, result in enumerate(pool.imap_unordered(job, jobs), 1):
            yield result
            print(f"\r{done} of {len(jobs)} fits", end="", flush=True)
            if time.monotonic() - begun > limit:
                pool.terminate()
                return


def resumed(job: Callable[[Any], Any], jobs: Sequence[Any], path: Path, processes: int | None) -> Iterator[Any]:
    """Give what jobs return, and keep it in a file, line by line: those that are there are not done again."""
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # the last line may have been cut short
    known = {json.dumps(given): result for given, result in map(json.loads, whole.splitlines())}
    yield from (known[key] for key in map(json.dumps, jobs) if key in known)
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.truncate(len(whole.encode()))
        left = [given for given in jobs if json.dumps(given) not in known]
        for given, result in finished(partial(_with_given, job), left, processes, math.inf):
            file.write(json.dumps([given, result]) + "\n")
            file.flush()
            yield result


def _with_given(job: Callable[[Any], Any], given: Any) -> tuple[Any, Any]:
    return given, job(given)


class Recorded(ComplementaryClassifier):
    """Keeps every member that was trained, also those without a weight."""

    def _keep(self, trained: list[Any], judge: Any) -> None:
        self.trained_ = trained
        super()._keep(trained, judge)
