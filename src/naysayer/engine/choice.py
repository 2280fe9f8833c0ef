"""Which epoch's state each run keeps, and when a run is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naysayer.common.checks import check_count
from naysayer.engine.checkpoint import Array, Course

CRITERIA = ("accuracy", "risk", "objective", "last")


@dataclass(frozen=True)
class EpochChoice:
    """By what the best epoch is chosen.

    Parameters
    ----------
    select : one of `CRITERIA`.
    members : the matrix (M, M) that averages the runs' scores within their groups.
    patience : epochs without a better score after which a run is stopped.
    """

    select: str
    members: Array
    patience: int | None

    @classmethod
    def of(cls, select: str, groups: Sequence[int] | None, patience: int | None, n_runs: int) -> EpochChoice:
        """Check what was asked for; `groups` names one group per run."""
        if select not in CRITERIA:
            raise ValueError(f"`select` must be one of {', '.join(CRITERIA)}; got {select!r}")
        if patience is not None:
            check_count(patience, "`patience`")
            if select == "last":
                raise ValueError("`patience` must be None where `select` is 'last': there is no best epoch to wait for")
        names = np.arange(n_runs) if groups is None else np.asarray(groups)
        if names.shape != (n_runs,):
            raise ValueError(f"`groups` must name one group per run; got shape {names.shape} for {n_runs} runs")
        same = names[:, None] == names
        return cls(select, same / same.sum(axis=1, keepdims=True), patience)

    def take(self, course: Course, values: dict[str, Array], lr: Sequence[float]) -> Array:
        """Take over an epoch's scores by name, (M,) each; tell which runs are better than ever, (M,).

        Runs whose loss is no longer finite, and those that have waited long enough, are stopped.
        """
        epoch, stopped = course.epoch, course.stopped
        for name, row in values.items():
            course.history.setdefault(name, []).append(row)
        broken = ~stopped & ~np.isfinite(values["loss"])
        for run in np.flatnonzero(broken).tolist():
            course.failed[run] = f"its loss was {values['loss'][run]} in epoch {epoch}, at learning rate {lr[run]:g}"
        stopped = stopped | broken
        scored = values.get(f"valid_{self.select}")
        now, better = np.full(course.n_runs, -np.inf), ~stopped
        if scored is not None:
            scored = np.where(broken, np.nan, scored * (1 if self.select == "accuracy" else -1))
            now = np.where(self.members @ np.isnan(scored) > 0, -np.inf, self.members @ np.nan_to_num(scored))
            better = ~stopped & (now > course.best_score)
        course.best_score = np.where(better, now, course.best_score)
        course.best_epoch = np.where(better, epoch, course.best_epoch)
        if self.patience is not None and scored is not None:
            stopped = stopped | (epoch - course.best_epoch >= self.patience)
        course.stopped = stopped
        course.epoch = epoch + 1
        return better
