"""What the recipe of consistent views is worth on tables: the same MLP, with it and without.

    python benchmarks/recipes.py [--rows 300,1000,3000] [--seeds 3] [--jobs 2] [--out benchmarks/results]

Forward on an MLP of 128 hidden units for 30 epochs at learning rate 0.01, five runs together, on all rows; each has
one uniform complementary label. At most 3,000 other rows tell the true accuracy. The strong views are the default ones,
noise of a tenth of a deviation and a tenth of the columns dropped.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from common import finished, hardware, save
from naysayer import Population, complement, networks, objectives
from naysayer.engine.recipe import Consistency, Recipe
from tables import MADE, SHIPPED

NAMES = ("digits", "made-easy", "made-five", "made-wide")
EPOCHS = 30


def job(given: tuple[str, int, int]) -> dict[str, object]:
    """Train one table with n labels by both recipes, and say how accurate each is."""
    name, n, seed = given
    torch.set_num_threads(1)
    X, y = MADE[name]() if name in MADE else SHIPPED[name](return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    rows, test, n_classes = order[:n], order[n : n + 3000], int(y.max()) + 1
    scale = X[rows].std(axis=0)
    X = ((X - X[rows].mean(axis=0)) / np.where(scale > 1e-7, scale, 1.0)).astype(np.float32)
    y_bar = complement(y[rows], n_classes, random_state=seed)
    batch = int(np.clip(2 ** round(np.log2(n / 30)), 16, 256))
    out: dict[str, object] = {"table": name, "rows": n, "seed": seed}
    for label, recipe in (("plain", Recipe()), ("consistency", Consistency(rise=EPOCHS // 2))):
        build = lambda: networks.mlp(X.shape[1], n_classes, [128])  # noqa: E731
        options = {"lr": 0.01, "weight_decay": 1e-4, "batch_size": batch, "recipe": recipe, "device": "cpu"}
        runs = Population(build, objectives.Forward(n_classes), seeds=range(5), **options)
        runs.fit(X[rows], y_bar, max_epochs=EPOCHS)
        predicted = runs.logits(X[test]).softmax(dim=-1).mean(dim=0).argmax(dim=1).numpy()
        out[label] = round(float((predicted == y[test]).mean()), 4)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="300,1000,3000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no fit is begun")
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    sizes = [int(n) for n in given.rows.split(",")]
    jobs = [(name, n, s) for name in NAMES for n in sizes if (name, n) != ("digits", 3000) for s in range(given.seeds)]
    fits = sorted(
        finished(job, jobs, given.jobs, given.limit), key=lambda fit: (fit["table"], fit["rows"], fit["seed"])
    )
    means = []
    for name, n in dict.fromkeys((fit["table"], fit["rows"]) for fit in fits):
        some = [fit for fit in fits if (fit["table"], fit["rows"]) == (name, n)]
        means.append({"table": name, "rows": n, "fits": len(some)})
        means[-1] |= {k: round(float(np.mean([fit[k] for fit in some])), 4) for k in ("plain", "consistency")}
        print(f"\n{name:10} {n:6,} rows: plain {100 * means[-1]['plain']:.1f}, {100 * means[-1]['consistency']:.1f} %")
    save(given.out, "recipes", hardware("cpu") | {"means": means, "fits": fits})


if __name__ == "__main__":
    main()
