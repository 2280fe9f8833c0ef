"""`auto` beside what could have been taken in its place, on the same rows and labels of a few tables.

    python benchmarks/paired.py [--seeds 5] [--jobs 2] [--out benchmarks/results]

The tables are scikit-learn's digits, wine and iris, and two of the made ones of `tables.py`. Each seed draws the rows
to learn from and one uniform complementary label for each of them; the rest of the table, at most 3,000 rows, tells the
true accuracy. Beside `auto`, the default `ComplementaryClassifier`, are "plain" networks (Forward at learning rate 0.01
for 30 epochs on all rows, five runs, nothing chosen), `BoostedClassifier`, and extremely randomised trees through
`ReductionClassifier`, both with their defaults. A difference is that to `auto` on the same rows and labels, and its
standard error is that of the mean of these differences.

Each fit is kept in .data/paired.jsonl as soon as it is done, so that the same call resumes after an interruption.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # each fit has a process of its own

import numpy as np
import torch

from common import hardware, resumed, save
from naysayer import BoostedClassifier, ComplementaryClassifier, ReductionClassifier, complement
from tables import MADE, NAMES, SHIPPED, plain, rounded

KEPT = Path(__file__).parent.parent / ".data" / "paired.jsonl"
SETTINGS = (
    ("digits", 300),
    ("digits", 1_000),
    ("made-easy", 1_000),
    ("made-five", 100),
    ("made-five", 300),
    ("wine", 120),
    ("iris", 100),
)
MEMBERS = ("auto", "plain mlp", "plain linear", "boosted", "forest")
Floats = np.ndarray


def predict(member: str, X: Floats, y_bar: np.ndarray, n_classes: int, test: Floats, seed: int) -> np.ndarray:
    """Train one member, and predict the rows that judge it."""
    if member.startswith("plain"):
        return plain(member.removeprefix("plain "), X, y_bar, n_classes, test)
    about = {"classes": np.arange(n_classes), "random_state": seed}
    models: dict[str, Callable[[], Any]] = {
        "auto": lambda: ComplementaryClassifier(**about, device="cpu"),
        "boosted": lambda: BoostedClassifier(**about, n_jobs=1),
        "forest": lambda: ReductionClassifier(**about),
    }
    return models[member]().fit(X, y_bar).predict(test)


def job(given: tuple[str, int, int]) -> dict[str, Any]:
    """Train every member on the same labels of n rows, and say how accurate each is, and how long it took."""
    name, n, seed = given
    torch.set_num_threads(1)
    X, y = (MADE[name] if name in MADE else lambda: SHIPPED[name](return_X_y=True))()
    n_classes = int(y.max()) + 1
    rng = np.random.default_rng([NAMES.index(name), n, seed])
    order = rng.permutation(len(y))
    rows, rest = order[:n], order[n : n + 3_000]
    y_bar = complement(y[rows], n_classes, random_state=int(rng.integers(2**31)))
    X = X.astype(np.float32)
    accuracy, seconds = {}, {}
    for member in MEMBERS:
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = predict(member, X[rows], y_bar, n_classes, X[rest], seed)
        seconds[member] = time.perf_counter() - start
        accuracy[member] = float((predicted == y[rest]).mean())
    about = {"table": name, "classes": n_classes, "rows": n, "seed": seed, "tested": len(rest)}
    return about | {"accuracy": accuracy, "seconds": seconds}


def summary(fits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say for each setting how accurate members are, how far from `auto` with which error, and how long they take."""
    out = []
    for name, n in SETTINGS:
        some = [fit for fit in fits if (fit["table"], fit["rows"]) == (name, n)]
        told: dict[str, Any] = {"table": name, "classes": some[0]["classes"], "rows": n, "fits": len(some)}
        told |= {"tested": some[0]["tested"], "members": {}}
        auto = np.array([fit["accuracy"]["auto"] for fit in some])
        for member in MEMBERS:
            each = np.array([fit["accuracy"][member] for fit in some])
            off = each - auto
            about = {"accuracy": float(each.mean()), "to_auto": float(off.mean())}
            about["error"] = float(off.std(ddof=1) / np.sqrt(len(off))) if len(off) > 1 else None
            told["members"][member] = about | {"seconds": float(np.mean([fit["seconds"][member] for fit in some]))}
        out.append(told)
    return out


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table, in points."""
    print("\ntable       rows fits    auto" + "".join(f"{member:>24}" for member in MEMBERS[1:]))
    for row in rows:
        line = f"{row['table']:10} {row['rows']:5,} {row['fits']:4}  {100 * row['members']['auto']['accuracy']:6.1f}"
        for member in MEMBERS[1:]:
            about = row["members"][member]
            told = f"{100 * about['accuracy']:.1f} {100 * about['to_auto']:+.1f} ({100 * (about['error'] or 0):.1f})"
            line += f"{told:>24}"
        print(line)
    print("seconds " + ", ".join(f"{m} {np.mean([r['members'][m]['seconds'] for r in rows]):.1f}" for m in MEMBERS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    jobs = [(name, n, seed) for seed in range(given.seeds) for name, n in SETTINGS]
    fits = list(resumed(job, jobs, KEPT, given.jobs))
    fits.sort(key=lambda fit: (SETTINGS.index((fit["table"], fit["rows"])), fit["seed"]))
    rows = summary(fits)
    show(rows)
    save(given.out, "paired", hardware("cpu") | {"summary": rows, "fits": [rounded(fit) for fit in fits]})
    KEPT.unlink()


if __name__ == "__main__":
    main()
