"""Beyond the paper: accuracy against the number of labels and of classes, label noise, bias, and a few ordinary labels.

One protocol for all: MNIST, the MLP, Adam, two learning rates, 100 epochs, a tenth of the rows held out; learning rate
and epoch are chosen by the zero-one accuracy estimated from the held-out complementary labels. True labels only test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from naysayer.experiments import plots
from naysayer.experiments.demo import METHODS as TITLES_OF_METHODS
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Cell, Figure, Section, Table
from naysayer.experiments.scale import QUICK_ROWS, Scale
from naysayer.experiments.selection import cell, selected

RATES = (1e-4, 1e-3)
ALL = ("ascent", "max", "free", "pairwise", "forward")
THREE = ("ascent", "pairwise", "forward")


class Sweep(NamedTuple):
    """An experiment over one setting, of the job or of its runs."""

    name: str
    title: str
    x_label: str
    text: str
    setting: str
    values: tuple[float, ...]
    methods: tuple[str, ...]
    twice: bool = False  # once told how the labels came about, and once not
    n_ordinary: int = 0
    log_x: bool = False

    def jobs(self, scale: Scale) -> list[Job]:
        """A job for each value of a job's setting; all values of a run's setting in one."""
        trials = [*scale.n_trials()] if scale.chosen(["mnist"]) else []
        asked: list[tuple[str, list[int], dict[str, Any]]]
        if not self._is_of_runs:
            values = [v for v in self.values if not (scale.quick and self.setting == "n_train" and v > QUICK_ROWS)]
            asked = [(f"{self.name}-{value:g}", trials, {self.setting: value}) for value in values if trials]
        elif self.n_ordinary:  # which examples have ordinary labels is the same for all runs of a population
            asked = [(f"{self.name}-{trial}", [trial], {"n_ordinary": self.n_ordinary}) for trial in trials]
        else:
            asked = [(self.name, trials, {})] if trials else []
        common: dict[str, Any] = {"epochs": 100, "validation": 0.1}
        return [scale.job(Job(name, "mnist", "mlp", self._runs(own), **common, **more)) for name, own, more in asked]

    @property
    def _is_of_runs(self) -> bool:
        return self.setting in Run.__dataclass_fields__

    def _runs(self, trials: list[int]) -> tuple[Run, ...]:
        settings: list[dict[str, Any]] = [{}]
        if self._is_of_runs:
            both = (True, False) if self.twice else (True,)
            settings = [{self.setting: value, "told": told} for value in self.values for told in both if told or value]
        return tuple(
            Run(method, trial, lr, **setting)
            for method in self.methods
            for setting in settings
            for lr in RATES
            for trial in trials
        )

    def section(self, results: list[Result], folder: Path) -> Section:
        """Accuracy against the setting, as a figure and a table."""
        of_runs = self._is_of_runs
        x = list(self.values) if of_runs else sorted({getattr(r.job, self.setting) for r in results})
        curves, styles = {}, {}
        for told in (True, False) if self.twice else (True,):
            for method in self.methods:
                label = TITLES_OF_METHODS[method] + ("" if told else ", not told")
                points = []
                for value in x:
                    here = [r for r in results if of_runs or getattr(r.job, self.setting) == value]
                    wanted: dict[str, Any] = {self.setting: value} if of_runs else {}
                    points.append(selected(here, "Free, zero-one", method=method, told=told or not value, **wanted))
                curves[label], styles[label] = np.stack(points), (method, not told)
        rows: dict[str, list[Cell | str | float]] = {
            label: [cell(point) for point in points] for label, points in curves.items()
        }
        panel = plots.SweepPanel("", self.x_label, np.array(x), curves, styles, self.log_x)
        path = plots.sweep([panel], folder / self.name)
        table = Table(f"Test accuracy in percent by {self.x_label}", [f"{value:g}" for value in x], rows)
        return Section(self.name, self.title, self.text, [Figure(f"Test accuracy by {self.x_label}", path), table])


LABELS = Sweep(
    "labels",
    "How many labels does it take?",
    "complementary labels",
    "One complementary label per image.",
    "n_train",
    (1000, 3000, 10_000, 30_000, 60_000),
    ALL,
    log_x=True,
)
CLASSES = Sweep(
    "classes",
    "The more classes, the less a no says",
    "classes",
    "Only the first few digits, with all their images and one complementary label per image.",
    "n_classes",
    (3, 4, 6, 8, 10),
    ALL,
)
NOISE = Sweep(
    "noise",
    "Labels that are sometimes wrong",
    "share of labels that name the true class",
    "Solid: the method knows the share, through the matrix Q. Dashed: it assumes that no label is wrong. At 0.1, with "
    "ten classes, labels would carry no information.",
    "noise",
    (0.0, 0.01, 0.02, 0.04, 0.06),
    THREE,
    twice=True,
)
BIAS = Sweep(
    "bias",
    "Labels that are not uniform",
    "share of labels drawn at the next class",
    "This share of the labels names the class after the true one; the others are uniform. Solid: the method knows Q. "
    "Dashed: it assumes uniform labels.",
    "bias",
    (0.0, 0.2, 0.4, 0.6, 0.8),
    THREE,
    twice=True,
)
ALPHA = Sweep(
    "alpha",
    "A few ordinary labels beside many complementary ones",
    "α, the weight of the complementary labels",
    "1,000 of the images have an ordinary label, the others a complementary one. The objective is α times the "
    "complementary risk plus 1 - α times the ordinary one.",
    "alpha",
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    THREE,
    n_ordinary=1000,
)
SWEEPS: dict[str, Sweep] = {sweep.name: sweep for sweep in (LABELS, CLASSES, NOISE, BIAS, ALPHA)}
