"""Which run and epoch a validation criterion chooses, and the test accuracy that it gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.experiments.jobs import Result
from naysayer.experiments.report import Cell

CRITERIA = {  # the history to look at, and its sign
    "own loss": ("valid_objective", -1.0),
    "Free, cross-entropy": ("valid_risk", -1.0),
    "Free, zero-one": ("valid_accuracy", 1.0),
    "oracle": ("test_accuracy", 1.0),
}


class Choice(NamedTuple):
    """What a criterion chose in a trial: the run's learning rate, the epoch, counted from 1, and the test accuracy."""

    lr: float
    epoch: int
    accuracy: float
    last: float  # the accuracy of the chosen run's last epoch


def choose(results: Iterable[Result], criterion: str, max_lr: float = np.inf, **wanted: Any) -> list[Choice]:
    """The best epoch of all runs with the wanted settings, whatever their learning rate up to `max_lr`; one a trial.

    An epoch without a finite score, of a run that broke off, is never chosen.
    """
    name, sign = CRITERIA[criterion]
    best: dict[int, tuple[float, Choice]] = {}
    for result in results:
        for m, run in enumerate(result.job.runs):
            if run.lr > max_lr or any(getattr(run, key) != value for key, value in wanted.items()):
                continue
            scores = np.nan_to_num(sign * result.history[name][:, m], nan=-np.inf)
            epoch, accuracy = int(np.argmax(scores)), result.history["test_accuracy"][:, m]
            if run.trial not in best or scores[epoch] > best[run.trial][0]:
                choice = Choice(run.lr, epoch + 1, float(accuracy[epoch]), float(accuracy[-1]))
                best[run.trial] = float(scores[epoch]), choice
    return [best[trial][1] for trial in sorted(best)]


def selected(results: Iterable[Result], criterion: str, **wanted: Any) -> NDArray[np.float64]:
    """Test accuracy of what :func:`choose` chooses, one a trial."""
    return np.array([choice.accuracy for choice in choose(results, criterion, **wanted)])


def cell(accuracies: NDArray[np.float64], paper: tuple[float, float] | None = None) -> Cell | str:
    """Mean and deviation in percent; a dash where nothing was run."""
    if not len(accuracies):
        return "–"
    deviation = 100 * accuracies.std() if len(accuracies) > 1 else np.nan  # one trial says nothing of it
    return Cell(float(100 * accuracies.mean()), float(deviation), paper)
