"""Errata Figure 4: how sure Forward is and how often it is right, linear against MLP, with and without true labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from naysayer.experiments import plots
from naysayer.experiments.jobs import Job, Result, Run
from naysayer.experiments.report import Figure, Section
from naysayer.experiments.scale import NETWORKS, SMALL, TITLES, Scale

WIDEST = 0.6  # interval within which an estimate is worth a circle
TITLE = "Errata Figure 4: is Forward as sure as it is right?"


def jobs(scale: Scale) -> list[Job]:
    """Forward with the settings of Figure 2."""
    return [
        scale.job(Job(f"figure4-{dataset}-{network}", dataset, network, (Run("forward"),), reliability=True))
        for dataset in scale.chosen(SMALL)
        for network in ("linear", "mlp")
    ]


def section(results: list[Result], folder: Path) -> Section:
    """Reliability diagrams over histograms, a column for each data set."""
    panels = []
    for dataset in dict.fromkeys(r.job.dataset for r in results):
        models = {}
        for result in (r for r in results if r.job.dataset == dataset):
            bins = {name: np.array(values, dtype=float) for name, values in result.bins[0].items()}
            bins["estimate"][~(bins["high"] - bins["low"] < WIDEST)] = np.nan
            edges = np.linspace(0.0, 1.0, len(bins["counts"]) + 1)
            models[NETWORKS[result.job.network]] = plots.ReliabilityCurve(edges, **bins)
        panels.append(plots.ReliabilityPanel(TITLES[dataset], models))
    text = (
        "Forward after the last epoch, on the test set. Filled circles use the true labels, as in the paper. Open "
        "circles and their 95% intervals use only one complementary label per image, so the diagram can be drawn "
        "without any true labels. Bins with too few images for that show their interval only."
    )
    path = plots.reliability(panels, folder / "figure4")
    return Section("figure4", TITLE, text, [Figure("Reliability diagrams and histograms of the softmax output", path)])
