"""Checkpoints of a population: what they hold, and by what they are known again."""

from __future__ import annotations

import glob
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naysayer.common.files import read_tensors, write_tensors
from naysayer.engine.recipe import Tensors
from naysayer.engine.stack import Stack

Array = np.ndarray[Any, Any]
Saved = tuple[Tensors, dict[str, Any]]


@dataclass
class Course:
    """How far M runs have come: their history, the best epochs, and which have stopped."""

    n_runs: int
    epoch: int = 0  # epochs done
    history: dict[str, list[Array]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stopped = np.zeros(self.n_runs, dtype=bool)
        self.best_epoch = np.full(self.n_runs, -1)
        self.best_score = np.full(self.n_runs, -np.inf)


def save(path: Path, stamp: str, factors: list[float], course: Course, stacks: list[Stack]) -> None:
    """Write a checkpoint whole; `factors` are those of the learning rate in the epochs done.

    A best state that is the present one, as it always is where nothing is held out, is written once.
    """
    tensors = join([stack.state() for stack in stacks])
    for best, now in _twins(tensors):
        if torch.equal(tensors[best], tensors[now]):
            del tensors[best]
    tensors |= {f"history.{k}": torch.from_numpy(np.stack(v)) for k, v in course.history.items()}
    tensors |= {k: torch.from_numpy(getattr(course, k)) for k in ("best_epoch", "best_score", "stopped")}
    about = {"stamp": stamp, "epoch": course.epoch, "factors": factors}
    write_tensors(path, tensors, about | {"failed": {str(k): v for k, v in course.failed.items()}})


def read(path: Path) -> Saved | None:
    """Read a checkpoint, if there is one."""
    return read_tensors(path) if path.exists() else None


def remove(path: Path) -> None:
    """Remove a checkpoint, if there is one, and what a process that was killed left of writing it."""
    for left in (path, *path.parent.glob(f".{glob.escape(path.name)}.*")):
        left.unlink(missing_ok=True)


def within(path: Path, epochs: int) -> Path | None:
    """Give the path for a training of so many epochs; None where the checkpoint there is further than that."""
    saved = read(path)
    return None if saved is not None and saved[1].get("epoch", 0) > epochs else path


def resume(path: Path, saved: Saved, stamp: str, schedule: Any, course: Course, stacks: list[Stack]) -> None:
    """Take over a checkpoint, if it is of the same data and settings."""
    tensors, about = saved
    if about.get("stamp") != stamp or about["factors"] != [schedule(epoch) for epoch in range(about.get("epoch", 0))]:
        raise ValueError(f"the checkpoint {path} is of other data or settings; move it away, or give another file")
    for stack in stacks:
        tensors |= {best: tensors[now] for best, now in _twins(stack.state()) if best not in tensors}
        stack.load(tensors)
    for name in ("best_epoch", "best_score", "stopped"):
        setattr(course, name, tensors[name].numpy())
    course.failed = {int(k): v for k, v in about["failed"].items()}
    course.history = {
        k.removeprefix("history."): list(v.numpy()) for k, v in tensors.items() if k.startswith("history.")
    }
    course.epoch = about["epoch"]


def _twins(tensors: Tensors) -> list[tuple[str, str]]:
    """Pair the name of every tensor of the best state with that of its present value."""
    return [(name, f"now.{name.removeprefix('best.')}") for name in tensors if name.startswith("best.")]


def join(states: list[Tensors]) -> Tensors:
    """Put chunks of runs together again; what has no run axis, the step's number, is the furthest's."""
    return {
        name: torch.cat([s[name].detach() for s in states])
        if t.dim()
        else torch.stack([s[name] for s in states]).amax()
        for name, t in states[0].items()
    }
