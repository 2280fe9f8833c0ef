"""Whether `estimated_accuracy_` is honest: how often its interval holds the truth, its bias and its width.

    python benchmarks/coverage.py [--repeats 20] [--jobs 2] [--out benchmarks/results]

Every cell of the grid is a kind of data, a number of classes and rows, and a kind of label; each repeat draws data and
labels anew, fits a default `ComplementaryClassifier`, and compares its estimate with the accuracy on 3,000 rows that it
has not seen. The data are digits, classes as clusters (some easy, some not) and pure noise, where nothing can be
learned. The labels: one complementary label per row; three; biased and noisy ones with a known Q; and one row in five
with an ordinary label.

Bias is that of the unclipped estimate, with its own standard error. The width is compared with that of two clean
hold-outs, sets of fresh labels that judge the same model: as many labels as were trained on, and a fifth of them, which
is what a single run holds out.
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # each fit has a process of its own

import numpy as np
import torch
from sklearn.datasets import load_digits, make_classification

from common import finished, hardware, save
from naysayer import ComplementaryClassifier, complement, metrics, transition
from naysayer.models import boosting

# data, classes, rows, labels
GRID = [
    *[("noise", k, n, "one") for k, n in ((3, 100), (10, 300), (50, 1_000))],
    *[("clusters", k, n, "one") for k, n in ((3, 100), (5, 100), (5, 300), (10, 300), (10, 1_000), (20, 1_000))],
    *[("clusters", k, 5_000, "one") for k in (4, 50)],
    *[("digits", 10, n, "one") for n in (100, 300, 1_000)],
    *[("clusters", 5, 300, labels) for labels in ("three", "biased", "noisy", "mixed")],
    *[("clusters", 10, 1_000, labels) for labels in ("biased", "noisy")],
    *[("digits", 10, 300, labels) for labels in ("three", "mixed")],
]  # fmt: skip


def draw_data(data: str, n_classes: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw features and classes of n rows."""
    if data == "digits":
        X, y = load_digits(return_X_y=True)
        rows = rng.permutation(len(y))[:n]
        return X[rows].astype(np.float32), y[rows]
    if data == "noise":
        return rng.normal(size=(n, 10)).astype(np.float32), rng.integers(0, n_classes, n)
    separation = float(rng.uniform(0.5, 2.5))
    X, y = make_classification(
        n, 15, n_informative=10, n_classes=n_classes, n_clusters_per_class=1, class_sep=separation,
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    return X.astype(np.float32), y


def draw_labels(kind: str, y: np.ndarray, n_classes: int, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    """Draw labels of classes, and give Q where it is not uniform."""
    seed = int(rng.integers(2**31))
    if kind == "three":
        return complement(y, n_classes, n_labels=3, random_state=seed), None
    if kind in ("biased", "noisy"):
        uneven = transition.biased(np.arange(1, n_classes + 1))
        q = uneven if kind == "biased" else transition.noisy(n_classes, 0.05)
        return complement(y, n_classes, transition=q, random_state=seed), q
    labels = complement(y, n_classes, random_state=seed)
    if kind == "mixed":
        ruled_out = np.eye(n_classes, dtype=bool)[labels]
        told = rng.random(len(y)) < 0.2
        ruled_out[told] = ~np.eye(n_classes, dtype=bool)[y[told]]
        return ruled_out, None
    return labels, None


def job(given: tuple[int, int]) -> tuple[int, list[float]]:
    """Fit one cell of the grid once: truth, estimate, bounds, widths of two clean hold-outs, whether it was warned."""
    cell, repeat = given
    data, n_classes, n, kind = GRID[cell]
    torch.set_num_threads(1)
    rng = np.random.default_rng([repeat, cell])
    spare = 700 if data == "digits" else 3_000 + n
    X, y = draw_data(data, n_classes, n + spare, rng)
    y_bar, q = draw_labels(kind, y, n_classes, rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ComplementaryClassifier(classes=np.arange(n_classes), transition=q, device="cpu", random_state=repeat)
        model.fit(X[:n], y_bar[:n])
    predicted = model.predict(X[n:])
    widths = []
    for size in (n, n // 5):
        rows = rng.choice(spare, min(size, spare), replace=False)
        _, low, high = metrics.accuracy_interval(y_bar[n:][rows], predicted[rows], n_classes, transition=q)
        widths.append((high - low) * np.sqrt(len(rows) / size))
    warned = any("nothing was learned" in str(w.message) for w in caught)
    return cell, [float((predicted == y[n:]).mean()), *map(float, model.estimated_accuracy_), *widths, float(warned)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no fit is awaited")
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    jobs = [(cell, repeat) for repeat in range(given.repeats) for cell in range(len(GRID))]
    found: dict[int, list[list[float]]] = {}
    for cell, fit in finished(job, jobs, given.jobs, given.limit):
        found.setdefault(cell, []).append(fit)
    print("\ndata       classes   rows  labels  fits  accuracy   bias (error)  covered  width  /clean  /fifth  warned")
    cells, fits = [], []
    for cell in sorted(found):
        truth, estimate, low, high, same, fifth, warned = np.array(found[cell]).T
        fits += found[cell]
        told = dict(zip(("data", "classes", "rows", "labels"), GRID[cell])) | {"fits": len(truth)}
        told |= {"accuracy": float(truth.mean()), "bias": float((estimate - truth).mean())}
        told["bias_error"] = float((estimate - truth).std(ddof=1) / np.sqrt(len(truth))) if len(truth) > 1 else None
        told |= {"covered": float(((low <= truth) & (truth <= high)).mean()), "width": float((high - low).mean())}
        told |= {"to_clean": float((high - low).mean() / same.mean()), "warned": float(warned.mean())}
        told["to_clean_fifth"] = float((high - low).mean() / fifth.mean())
        cells.append(told)
        print(
            f"{told['data']:10} {told['classes']:7} {told['rows']:6,}  {told['labels']:6} {told['fits']:5}  "
            f"{100 * told['accuracy']:8.1f}  {100 * told['bias']:+6.1f} ({100 * (told['bias_error'] or 0):.1f})  "
            f"{100 * told['covered']:7.1f}  {told['width']:5.2f}  {told['to_clean']:6.2f}  "
            f"{told['to_clean_fifth']:6.2f}  {100 * told['warned']:6.0f}"
        )
    truth, estimate, low, high = np.array(fits).T[:4]
    off, held = estimate - truth, (low <= truth) & (truth <= high)
    total = {"fits": len(off), "covered": float(held.mean()), "bias": float(off.mean())}
    total["bias_error"] = float(off.std(ddof=1) / np.sqrt(len(off)))
    print(
        f"\nall {len(off):,} fits: covered {100 * held.mean():.1f} %, bias {100 * off.mean():+.2f} "
        f"({100 * total['bias_error']:.2f}) points"
    )
    save(given.out, "coverage", hardware("cpu") | {"all": total, "cells": cells, "boosting": boosting.is_available()})


if __name__ == "__main__":
    main()
