"""Table 2, and the errata's Table 3: learning rate and epoch chosen on complementary validation labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from naysayer.experiments import paper
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Cell, Section, Table
from naysayer.experiments.scale import SMALL, TITLES, Scale
from naysayer.experiments.selection import cell, selected

TITLE = "Table 2 and errata Table 3: chosen on complementary validation labels"
METHODS = {"ascent": "GA", "pairwise": "PC", "forward": "Fwd"}
RATES = (5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2)
CIFAR_RATES = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2)
BATCHES = (100, 256)
PRINTED = {  # the paper's columns: method, and the criterion in parentheses
    "GA (Free)": ("ascent", "Free, cross-entropy"),
    "PC (PC)": ("pairwise", "own loss"),
    "Fwd (Fwd)": ("forward", "own loss"),
    "PC (Free)": ("pairwise", "Free, cross-entropy"),
    "Fwd (Free)": ("forward", "Free, cross-entropy"),
}
OURS = {
    f"{title} ({word})": (method, criterion)
    for criterion, word in (("Free, zero-one", "zero-one"), ("oracle", "oracle"))
    for method, title in METHODS.items()
}


def jobs(scale: Scale) -> list[Job]:
    """All methods, learning rates and trials of a data set as one population; CIFAR-10's DenseNet a job a run."""
    out = []
    common: dict[str, Any] = {"epochs": 250, "optimizer": "sgd", "validation": 0.1}
    for dataset in scale.chosen(SMALL):
        rates = RATES[-2:] if scale.quick else RATES
        runs = tuple(Run(method, trial, lr) for method in METHODS for lr in rates for trial in scale.n_trials())
        for batch in BATCHES:
            out.append(scale.job(Job(f"table3-{dataset}-{batch}", dataset, "mlp", runs, batch_size=batch, **common)))
    if not scale.chosen(["cifar10"]):
        return out
    rates = CIFAR_RATES[-2:] if scale.quick else CIFAR_RATES
    for trial in range(1) if scale.quick else scale.n_trials():
        for lr in rates:
            for method in METHODS:
                name = f"table3-cifar10-{method}-{lr:g}-{trial}"
                run = (Run(method, trial, lr),)
                out.append(scale.job(Job(name, "cifar10", "densenet", run, halve_every=30, batch_size=256, **common)))
    return out


def section(results: list[Result], folder: Path) -> Section:
    """One table for each size of mini-batch beside the errata's numbers, and one beside those first printed."""
    tables = [
        Table(
            f"Mini-batches of {batch}: test accuracy in percent, beside errata Table 3",
            [*PRINTED, *OURS],
            _rows(results, batch, {**PRINTED, **OURS}, paper.TABLE_3),
        )
        for batch in BATCHES
    ]
    first = Table(
        "Table 2 as first printed, before Forward was corrected in the errata",
        [*PRINTED],
        _rows(results, BATCHES[0], PRINTED, paper.TABLE_2),
        f"Mini-batches of {BATCHES[0]}.",
    )
    text = (
        "Nine tenths of the training rows train, one tenth chooses the learning rate and the epoch; both have "
        "complementary labels only. SGD with momentum 0.9, weight decay 1e-4, 250 epochs. The method stands before the "
        "parentheses, the criterion inside: Free is the unbiased cross-entropy, zero-one our unbiased accuracy, and "
        "the oracle looks at the test set, which nobody can: it bounds what choosing can get."
    )
    return Section("table3", TITLE, text, [t for t in [*tables, first] if t.rows])


def _rows(
    results: list[Result], batch: int, columns: dict[str, tuple[str, str]], printed: dict[str, paper.Row]
) -> dict[str, list[Cell | str | float]]:
    rows: dict[str, list[Cell | str | float]] = {}
    for dataset in dict.fromkeys(r.job.dataset for r in results if r.job.batch_size == batch):
        here = [r for r in results if (r.job.dataset, r.job.batch_size) == (dataset, batch)]
        beside = dict(zip(paper.COLUMNS, printed[dataset], strict=True))
        rows[TITLES[dataset]] = [
            cell(selected(here, criterion, method=method), beside.get(name))
            for name, (method, criterion) in columns.items()
        ]
    return rows
