"""What every benchmark says of the machine it ran on, and how it writes its result."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import torch


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
    words = [word for i, word in enumerate(sys.argv) if "--out" not in sys.argv[max(0, i - 1) : i + 1]]
    command = "python " + shlex.join([f"benchmarks/{Path(words[0]).name}", *words[1:]])
    path.write_text(json.dumps({"command": command} | result, indent=1) + "\n")
    print(f"\nwritten to {path.name}")
