"""Table 2, and the errata's Table 3: learning rate and epoch chosen on complementary validation labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naysayer.experiments import paper
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Cell, Section, Table
from naysayer.experiments.scale import SMALL, TITLES, Scale
from naysayer.experiments.selection import cell, choose, selected

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
PC = {name: how for name, how in PRINTED.items() if how[0] == "pairwise"}
PC_PRINTED = {name: ("printed", criterion) for name, (_, criterion) in PC.items()}
AS_PRINTED = 1e-3  # of PC's learning rates, those that the paper's loss, a (K - 1)th of the risk, could have had
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
        for methods, ending in ((METHODS, ""), (["printed"], "-printed")):
            runs = tuple(Run(method, trial, lr) for method in methods for lr in rates for trial in scale.n_trials())
            for batch in BATCHES:
                name = f"table3-{dataset}-{batch}{ending}"
                out.append(scale.job(Job(name, dataset, "mlp", runs, batch_size=batch, **common)))
    if not scale.chosen(["cifar10"]):
        return out
    rates = CIFAR_RATES[-2:] if scale.quick else CIFAR_RATES
    for trial in range(1) if scale.quick else scale.n_trials():
        for lr in rates:
            for method in (*METHODS, "printed"):
                name = f"table3-cifar10-{method}-{lr:g}-{trial}"
                run = (Run(method, trial, lr),)
                out.append(scale.job(Job(name, "cifar10", "densenet", run, halve_every=30, batch_size=256, **common)))
    return out


def section(results: list[Result], folder: Path) -> Section:
    """The errata's table for each size of mini-batch, ours beside it, and what a difference may come from."""
    tables = [
        Table(
            f"Mini-batches of {batch}: test accuracy in percent, beside errata Table 3",
            [*PRINTED],
            _rows(results, [batch], PRINTED, paper.TABLE_3),
        )
        for batch in BATCHES
    ]
    ours = Table(
        "The same runs, chosen by unbiased zero-one accuracy, and by an oracle",
        [*OURS],
        _rows(results, BATCHES, OURS),
    )
    first = Table(
        "Table 2 as first printed, before Forward was corrected in the errata",
        [*PRINTED],
        _rows(results, BATCHES[:1], PRINTED, paper.TABLE_2),
        f"Mini-batches of {BATCHES[0]}.",
    )
    printed = Table(
        "PC with its loss as printed, beside errata Table 3",
        [*PC_PRINTED],
        _rows(results, BATCHES, PC_PRINTED, paper.TABLE_3),
        "The paper prints PC's loss without the factor K - 1 = 9 that makes its mean the risk. Under SGD, which all "
        "cells here are trained with, steps are then nine times shorter.",
    )
    up_to = Table(
        f"PC at learning rates up to {AS_PRINTED:g}, beside errata Table 3",
        [*PC],
        _rows(results, BATCHES, PC, paper.TABLE_3, AS_PRINTED),
        "The paper prints PC's loss without the factor K - 1 = 9 that makes its mean the risk. Under SGD that factor "
        f"is a ninefold learning rate: the paper's rates up to {RATES[-1]:g} are ours up to about {AS_PRINTED:g}.",
    )
    chosen = Table(
        f"What was chosen, mini-batches of {BATCHES[0]}",
        ["learning rates", "epochs", "accuracy there", "accuracy of the last epoch"],
        _choices([r for r in results if r.job.batch_size == BATCHES[0]]),
        "One learning rate and one epoch per trial.",
    )
    text = (
        "Nine tenths of the training rows are used to train, and one tenth to choose the learning rate and the epoch; "
        "both have complementary labels only. SGD with momentum 0.9, weight decay 1e-4, 250 epochs. Each column names "
        "the method and, in parentheses, the criterion that chooses. Free is the unbiased cross-entropy, zero-one our "
        "unbiased accuracy. The oracle looks at the test set, so it is an upper bound, not a method that can be used."
    )
    every = [*tables, ours, first, printed, up_to, chosen]
    return Section("table3", TITLE, text, [table for table in every if table.rows])


def _rows(
    results: list[Result],
    batches: Sequence[int],
    columns: dict[str, tuple[str, str]],
    printed: dict[str, paper.Row] | None = None,
    max_lr: float = np.inf,
) -> dict[str, list[Cell | str | float]]:
    rows: dict[str, list[Cell | str | float]] = {}
    for dataset, batch in dict.fromkeys((r.job.dataset, r.job.batch_size) for r in results):
        if batch not in batches:
            continue
        here = [r for r in results if (r.job.dataset, r.job.batch_size) == (dataset, batch)]
        beside = dict(zip(paper.COLUMNS, printed[dataset], strict=True)) if printed else {}
        cells: list[Cell | str | float] = [
            cell(selected(here, criterion, max_lr=max_lr, method=method), beside.get(name))
            for name, (method, criterion) in columns.items()
        ]
        if any(isinstance(c, Cell) for c in cells):
            rows[TITLES[dataset] + (f", {batch}" if len(batches) > 1 else "")] = cells
    return rows


def _choices(results: list[Result]) -> dict[str, list[Cell | str | float]]:
    rows: dict[str, list[Cell | str | float]] = {}
    for dataset in dict.fromkeys(r.job.dataset for r in results):
        here = [r for r in results if r.job.dataset == dataset]
        for name, (method, criterion) in PRINTED.items():
            chosen = choose(here, criterion, method=method)
            if not chosen:
                continue
            rows[f"{TITLES[dataset]}, {name}"] = [
                ", ".join(f"{c.lr:g}" for c in chosen),
                ", ".join(str(c.epoch) for c in chosen),
                cell(np.array([c.accuracy for c in chosen])),
                cell(np.array([c.last for c in chosen])),
            ]
    return rows
