"""Figure 1: the unbiased risk falls below zero, class by class, and test accuracy falls with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from naysayer.experiments import plots
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Figure, Section
from naysayer.experiments.scale import NETWORKS, TITLES, Scale

TITLE = "Figure 1: risks that fall below zero"


def jobs(scale: Scale) -> list[Job]:
    """Free on MNIST, linear and MLP."""
    return [
        scale.job(Job(f"figure1-{network}", "mnist", network, (Run("free"),), batch_size=100, class_risks=True))
        for network in ("linear", "mlp")
        if scale.chosen(["mnist"])
    ]


def section(results: list[Result], folder: Path) -> Section:
    """Total and per-class training risk, and test accuracy."""
    panels = []
    for result in results:
        by_class = np.stack([v[:, 0] for name, v in result.history.items() if name.startswith("class_risk")], axis=1)
        title = f"{TITLES[result.job.dataset]}, {NETWORKS[result.job.network]}"
        panels.append(plots.RiskPanel(title, by_class.sum(axis=1), by_class, result.history["test_accuracy"][:, 0]))
    text = (
        "Free, trained with Adam at 5e-5, weight decay 1e-4 and mini-batches of 100. The true risk of each class is "
        "never negative. A flexible model still drives its estimates below zero, and its accuracy falls."
    )
    path = plots.risk_curves(panels, folder / "figure1")
    return Section(
        "figure1", TITLE, text, [Figure("Total and per-class risk on the training data, and accuracy", path)]
    )
