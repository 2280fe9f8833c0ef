"""Beyond the paper: how much accuracy each validation criterion loses to an oracle, from the runs of Table 3."""

from __future__ import annotations

from pathlib import Path

from naysayer.experiments import plots, table3
from naysayer.experiments.jobs import Job, Result
from naysayer.experiments.report import Cell, Figure, Section, Table
from naysayer.experiments.scale import TITLES, Scale
from naysayer.experiments.selection import CRITERIA, cell, selected

TITLE = "Which criterion chooses best?"
BATCH = 100


def jobs(scale: Scale) -> list[Job]:
    """Those of Table 3 with the smaller mini-batches, on the data sets that stack."""
    return [job for job in table3.jobs(scale) if job.batch_size == BATCH and job.runs[0].method in table3.METHODS]


def section(results: list[Result], folder: Path) -> Section:
    """The oracle's accuracy less the criterion's, trial by trial."""
    rows, table = [], {}
    criteria = [name for name in CRITERIA if name != "oracle"]
    for dataset in dict.fromkeys(r.job.dataset for r in results):
        here = [r for r in results if r.job.dataset == dataset]
        for method, title in table3.METHODS.items():
            oracle = selected(here, "oracle", method=method)
            lost = {name: oracle - selected(here, name, method=method) for name in criteria}
            rows.append(plots.SelectionRow(TITLES[dataset], method, lost))
            cells: list[Cell | str | float] = [cell(lost[name]) for name in criteria]
            table[f"{TITLES[dataset]}, {title}"] = cells
    text = (
        "Points of test accuracy lost to the best epoch and learning rate that there was. All criteria see the same "
        "validation labels, each of which says one class that an image is not. GA's own loss is Free's cross-entropy."
    )
    path = plots.selection_losses(rows, folder / "selection")
    figure = Figure("Accuracy lost to the oracle", path)
    return Section("selection", TITLE, text, [figure, Table("Percentage points lost", criteria, table)])
