"""Whether `estimated_accuracy_` is honest: how often its interval holds the truth, its bias and its width.

    python benchmarks/coverage.py [--repeats 20] [--jobs 2] [--out benchmarks/results]
    python benchmarks/coverage.py --cells '*-100-*' 'digits-10-300-*' --first 25 --repeats 10 --merge

Every cell of the grid is a kind of data, a number of classes and rows, and a kind of label; each repeat draws data and
labels anew, fits a default `ComplementaryClassifier`, and compares its estimate with the accuracy on 3,000 rows that it
has not seen. The data are digits, classes as clusters (some easy, some not) and pure noise, where nothing can be
learned. The labels: one complementary label per row; three; biased and noisy ones with a known Q; biased ones with a Q
that was estimated from 200 pairs; one row in five with an ordinary label; and 800 rows more that have no label.

`--cells` runs some cells, by their names, such as clusters-5-300-one, or patterns of these. `--merge` adds fits to the
result that is there, as if all had been run together, and keeps its command beside the first one; `--first` leaves out
the repeats that it has.

Bias is that of the unclipped estimate, with its own standard error. The width is compared with that of two clean
hold-outs, sets of fresh labels that judge the same model: as many labels as were trained on, and a fifth of them, which
is what a single run holds out.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # each fit has a process of its own

import numpy as np
import torch
from sklearn.datasets import load_digits, make_classification

from common import command_line, finished, hardware, save
from naysayer import ComplementaryClassifier, complement, metrics, transition
from naysayer.models import boosting

# data, classes, labelled rows, labels; a new cell comes last, since its place is a part of its seed
GRID = [
    *[("noise", k, n, "one") for k, n in ((3, 100), (10, 300), (50, 1_000))],
    *[("clusters", k, n, "one") for k, n in ((3, 100), (5, 100), (5, 300), (10, 300), (10, 1_000), (20, 1_000))],
    *[("clusters", k, 5_000, "one") for k in (4, 50)],
    *[("digits", 10, n, "one") for n in (100, 300, 1_000)],
    *[("clusters", 5, 300, labels) for labels in ("three", "biased", "noisy", "mixed")],
    *[("clusters", 10, 1_000, labels) for labels in ("biased", "noisy")],
    *[("digits", 10, 300, labels) for labels in ("three", "mixed")],
    ("digits", 10, 300, "unlabelled"),
    ("clusters", 5, 300, "estimated"),
]  # fmt: skip
PAIRS, UNLABELLED = 200, 800
REPEATS = 20


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
    if kind in ("biased", "noisy", "estimated"):
        uneven = transition.biased(np.arange(1, n_classes + 1))
        q = transition.noisy(n_classes, 0.05) if kind == "noisy" else uneven
        labels = complement(y, n_classes, transition=q, random_state=seed)
        if kind == "estimated":
            known = rng.integers(0, n_classes, PAIRS)
            pairs = complement(known, n_classes, transition=q, random_state=int(rng.integers(2**31)))
            q = transition.estimate(pairs, known, n_classes)
        return labels, q
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
    more = UNLABELLED if kind == "unlabelled" else 0
    spare = min(700, 1_797 - n - more) if data == "digits" else 3_000 + n
    X, y = draw_data(data, n_classes, n + more + spare, rng)
    y_bar, q = draw_labels(kind, y, n_classes, rng)
    learned = y_bar[: n + more]
    if more:
        learned = np.eye(n_classes, dtype=bool)[learned]
        learned[n:] = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ComplementaryClassifier(classes=np.arange(n_classes), transition=q, device="cpu", random_state=repeat)
        model.fit(X[: n + more], learned)
    predicted = model.predict(X[n + more :])
    y, y_bar = y[n + more :], y_bar[n + more :]
    widths = []
    for size in (n, n // 5):
        rows = rng.choice(spare, min(size, spare), replace=False)
        _, low, high = metrics.accuracy_interval(y_bar[rows], predicted[rows], n_classes, transition=q)
        widths.append((high - low) * np.sqrt(len(rows) / size))
    warned = any("nothing was learned" in str(w.message) for w in caught)
    return cell, [float((predicted == y).mean()), *map(float, model.estimated_accuracy_), *widths, float(warned)]


def cell_name(cell: int) -> str:
    """The name of a cell of the grid."""
    return "-".join(map(str, GRID[cell]))


def name_of(told: dict[str, Any]) -> str:
    """The name of a cell that was summed up."""
    return "-".join(str(told[key]) for key in ("data", "classes", "rows", "labels"))


def summary(cell: int, fits: list[list[float]]) -> dict[str, Any]:
    """Say how honest the fits of a cell are."""
    truth, estimate, low, high, same, fifth, warned = np.array(fits).T
    told = dict(zip(("data", "classes", "rows", "labels"), GRID[cell])) | {"fits": len(truth)}
    told |= {"accuracy": float(truth.mean()), "bias": float((estimate - truth).mean())}
    told["bias_error"] = float((estimate - truth).std(ddof=1) / np.sqrt(len(truth))) if len(truth) > 1 else None
    told |= {"covered": float(((low <= truth) & (truth <= high)).mean()), "width": float((high - low).mean())}
    told |= {"to_clean": float((high - low).mean() / same.mean()), "warned": float(warned.mean())}
    told["to_clean_fifth"] = float((high - low).mean() / fifth.mean())
    return told


def pooled(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Say what several summaries would be as one of all their fits."""
    fits = np.array([part["fits"] for part in parts])
    n = int(fits.sum())
    shares = ("accuracy", "bias", "covered", "width", "warned")
    mean = {name: float(fits @ [part[name] for part in parts] / n) for name in shares}
    squares = sum(  # of what estimates are off, around their common mean
        (part["fits"] - 1) * part["fits"] * (part["bias_error"] or 0) ** 2
        + part["fits"] * (part["bias"] - mean["bias"]) ** 2
        for part in parts
    )
    told = parts[0] | {"fits": n} | mean | {"bias_error": float(np.sqrt(squares / (n - 1) / n)) if n > 1 else None}
    told["repeats"] = [some for part in parts for some in part["repeats"]]
    for name in ("to_clean", "to_clean_fifth"):
        told[name] = mean["width"] / float(fits @ [part["width"] / part[name] for part in parts] / n)
    return told


def merged(before: dict[str, Any], cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Add cells to an earlier result; those that it has are pooled with these."""
    place = {name: i for i, name in enumerate(map(cell_name, range(len(GRID))))}
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in [*before["cells"], *cells]:
        found.setdefault(name_of(cell), []).append(cell)
    together = [pooled(parts) for _, parts in sorted(found.items(), key=lambda one: place[one[0]])]
    return before | {"all": total(together), "cells": together}


def total(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Say how often all fits together held, and their bias."""
    return {name: pooled(cells)[name] for name in ("fits", "covered", "bias", "bias_error")}


def show(cells: list[dict[str, Any]]) -> None:
    heads = "  labels      fits  accuracy   bias (error)  covered  width  /clean  /fifth  warned"
    print(f"\ndata       classes   rows{heads}")
    for told in cells:
        print(
            f"{told['data']:10} {told['classes']:7} {told['rows']:6,}  {told['labels']:10} {told['fits']:5}  "
            f"{100 * told['accuracy']:8.1f}  {100 * told['bias']:+6.1f} ({100 * (told['bias_error'] or 0):.1f})  "
            f"{100 * told['covered']:7.1f}  {told['width']:5.2f}  {told['to_clean']:6.2f}  "
            f"{told['to_clean_fifth']:6.2f}  {100 * told['warned']:6.0f}"
        )
    everywhere = total(cells)
    print(
        f"\nall {everywhere['fits']:,} fits: covered {100 * everywhere['covered']:.1f} %, "
        f"bias {100 * everywhere['bias']:+.2f} ({100 * (everywhere['bias_error'] or 0):.2f}) points"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="NAME", help="names of cells, or patterns of them")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--first", type=int, default=0, metavar="REPEAT", help="the repeat to begin with")
    parser.add_argument("--merge", action="store_true", help="add the fits to the result that is there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no fit is awaited")
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    chosen = [cell for cell in range(len(GRID)) if any(fnmatch(cell_name(cell), one) for one in given.cells)]
    if not chosen:
        parser.error(f"no cell has such a name; there are {', '.join(map(cell_name, range(len(GRID))))}")
    jobs = [(cell, given.first + repeat) for repeat in range(given.repeats) for cell in chosen]
    before = json.loads(Path(given.out, "coverage.json").read_text()) if given.merge else {}
    repeats = [given.first, given.first + given.repeats]
    for told in before.get("cells", []):
        again = any(first < repeats[1] and repeats[0] < end for first, end in told["repeats"])
        if again and name_of(told) in map(cell_name, chosen):
            parser.error(f"the result has some of these repeats of {name_of(told)}; give another --first")
    found: dict[int, list[list[float]]] = {}
    for cell, fit in finished(job, jobs, given.jobs, given.limit):
        found.setdefault(cell, []).append(fit)
    cells = [summary(cell, found[cell]) | {"repeats": [repeats]} for cell in sorted(found)]
    show(cells)
    result = hardware("cpu") | {"all": total(cells), "cells": cells, "boosting": boosting.is_available()}
    if before:
        here = {"command": command_line()} | hardware("cpu") | {"cells": list(map(cell_name, sorted(found)))}
        here |= {"fits": sum(map(len, found.values()))}
        result = merged(before, cells) | {"added": [*before.get("added", []), here]}
        show(result["cells"])
    save(given.out, "coverage", result)


if __name__ == "__main__":
    main()
