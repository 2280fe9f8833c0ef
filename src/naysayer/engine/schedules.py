"""Schedules: functions from the epoch to a factor on the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def step_schedule(every: int = 30, factor: float = 0.5) -> Schedule:
    """Multiply the learning rate by `factor` every so many epochs; the defaults are the paper's for CIFAR-10."""
    return lambda epoch: factor ** (epoch // every)


def cosine_schedule(max_epochs: int, warm_up: int = 0) -> Schedule:
    """Let the learning rate fall to zero along half a cosine, after rising in a line over `warm_up` epochs."""

    def factor(epoch: int) -> float:
        return min(1.0, (epoch + 1) / (warm_up + 1)) * 0.5 * (1.0 + math.cos(math.pi * epoch / max_epochs))

    return factor


def in_passes(schedule: Schedule, n_legs: int) -> Schedule:
    """Let a schedule of passes over a stream be one of the engine's epochs, of which `n_legs` make a pass."""
    return lambda epoch: schedule(epoch // n_legs)
