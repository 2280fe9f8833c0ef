"""Figure 2, and the errata's Figure 3: test accuracy over 300 epochs of the five methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from naysayer.experiments import plots
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Cell, Figure, Section, Table
from naysayer.experiments.scale import NETWORKS, SMALL, TITLES, Scale
from naysayer.experiments.selection import cell

TITLE = "Figure 2 and errata Figure 3: accuracy over all epochs"
METHODS = ("ascent", "max", "free", "pairwise", "forward")
WITH_SGD = (*METHODS, "printed")  # the factor of PC's loss is nothing to Adam
CIFAR: dict[str, Any] = {"batch_size": 256, "optimizer": "sgd", "weight_decay": 5e-4, "halve_every": 30}


def jobs(scale: Scale) -> list[Job]:
    """All methods and trials of a data set as one population; CIFAR-10's networks, which do not stack, a job a run."""
    out = []
    for dataset in scale.chosen(SMALL):
        runs = tuple(Run(method, trial) for method in METHODS for trial in scale.n_trials())
        out += [scale.job(Job(f"figure2-{dataset}-{network}", dataset, network, runs)) for network in ("linear", "mlp")]
    for network in ("densenet", "resnet") if scale.chosen(["cifar10"]) else ():
        for trial in scale.n_trials():
            for method in WITH_SGD:
                name = f"figure2-cifar10-{network}-{method}-{trial}"
                out.append(scale.job(Job(name, "cifar10", network, (Run(method, trial, lr=1e-2),), **CIFAR)))
    return out


def section(results: list[Result], folder: Path) -> Section:
    """A panel for each data set and network, and the last epoch's accuracies as a table."""
    panels, rows = [], {}
    methods = [method for method in WITH_SGD if any(run.method == method for r in results for run in r.job.runs)]
    places = dict.fromkeys((r.job.dataset, r.job.network) for r in results)
    for dataset, network in places:
        here = [r for r in results if (r.job.dataset, r.job.network) == (dataset, network)]
        curves = {}
        for method in methods:
            found = [r.curves("test_accuracy", method=method) for r in here]
            found = [f for f in found if f.shape[1]]
            if found:
                shortest = min(len(f) for f in found)
                curves[method] = np.concatenate([f[:shortest] for f in found], axis=1)
        title = f"{TITLES[dataset]}, {NETWORKS[network]}"
        panels.append(plots.Panel(title, curves))
        lengths, n_trials = sorted({len(c) for c in curves.values()}), max(c.shape[1] for c in curves.values())
        epochs = " to ".join(map(str, dict.fromkeys((lengths[0], lengths[-1]))))
        cells: list[Cell | str | float] = [cell(curves[m][-1]) if m in curves else "–" for m in methods]
        rows[f"{title} ({epochs} epochs, {n_trials} trial{'s' * (n_trials > 1)})"] = cells
    text = (
        "Linear and MLP: Adam at 5e-5, weight decay 1e-4. CIFAR-10: SGD with momentum 0.9, weight decay 5e-4, learning "
        "rate 1e-2 halved every 30 epochs. Mini-batches of 256. Dark lines are means over the trials, light bands one "
        "standard deviation. The paper prints these curves without numbers."
    )
    if "printed" in methods:
        text += (
            " PC as printed lacks the factor K - 1 = 9 that makes its mean loss the risk: under SGD its learning rate "
            "is a ninth of PC's; Adam does not feel the factor, so there the two are one."
        )
    path = plots.accuracy_curves(panels, folder / "figure2")
    table = Table("Test accuracy in percent after the last epoch", [plots.METHODS[m] for m in methods], rows)
    return Section("figure2", TITLE, text, [Figure("Test accuracy over the epochs", path), table])
