"""Which run and epoch a validation criterion chooses, and the test accuracy that it gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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


def selected(results: Iterable[Result], criterion: str, **wanted: Any) -> NDArray[np.float64]:
    """Test accuracy, one a trial, of the best epoch of all runs with the wanted settings, whatever their learning rate.

    An epoch without a finite score, of a run that broke off, is never chosen.
    """
    name, sign = CRITERIA[criterion]
    best: dict[int, tuple[float, float]] = {}
    for result in results:
        for m, run in enumerate(result.job.runs):
            if any(getattr(run, key) != value for key, value in wanted.items()):
                continue
            scores = np.nan_to_num(sign * result.history[name][:, m], nan=-np.inf)
            epoch = int(np.argmax(scores))
            here = (float(scores[epoch]), float(result.history["test_accuracy"][epoch, m]))
            if run.trial not in best or here[0] > best[run.trial][0]:
                best[run.trial] = here
    return np.array([best[trial][1] for trial in sorted(best)])


def cell(accuracies: NDArray[np.float64], paper: tuple[float, float] | None = None) -> Cell | str:
    """Mean and deviation in percent; a dash where nothing was run."""
    if not len(accuracies):
        return "–"
    deviation = 100 * accuracies.std() if len(accuracies) > 1 else np.nan  # one trial says nothing of it
    return Cell(float(100 * accuracies.mean()), float(deviation), paper)
