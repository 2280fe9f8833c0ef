"""Where an error of `estimated_accuracy_` comes from: labels, pool weights, or how held-out rows are predicted.

    python benchmarks/bias.py [--rows 3000] [--seeds 5] [--jobs 2] [--keep .data/bias] [--out benchmarks/results]

Nine of the tables of benchmarks/tables.py, those with 10,000 rows and more, in draws that it does not use; up to 9,000
rows tell the true accuracy. A fit's error, the estimate less that accuracy, is the sum of two parts, which the true
labels tell apart:

- "labels": what the complementary labels say of the predictions of held-out rows, less how many of these are right;
- "rows": how many of these are right, with the gain that more runs are estimated to bring, less the accuracy on new
  rows. It is not 0 on average if rows that were held out are not predicted as new rows are.

The first is noise as long as no label has a part in what it judges, as holds for each member by itself. Pool weights
are fitted to the labels of other rows, predicted by members that have seen the label in question. "weights" measures
what this comes to: the same part, less that of a pool with the mean weights of the table's other draws, which saw none
of the labels. Most predictions are the same for both, so this varies far less than "labels". "in sample" is what it
would be with weights fitted to all labels at once.

Fits are kept in a folder and not made again.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # each fit has a process of its own

import numpy as np
import torch

from common import finished, hardware, save
from naysayer import ComplementaryClassifier, complement, metrics
from naysayer.common.files import whole_file
from naysayer.models.pooling import Pool
from tables import NAMES, read_tables

LARGE = 10_000
FIRST_SEED = 100


class Judged(ComplementaryClassifier):
    """Keeps what judges the pool: the members' probabilities of held-out rows, and the pool of all members."""

    def _keep(self, trained: list[Any], judge: Any) -> None:
        self.together_, self.whole_pool_ = judge.together, judge.pool()
        super()._keep(trained, judge)


def fit(name: str, n: int, seed: int, kept: Path) -> None:
    """Fit one draw of a table, and keep what is to be looked at."""
    X, y = TABLES[name]
    n_classes = int(y.max()) + 1
    rng = np.random.default_rng([seed, n, NAMES.index(name), 7])
    order = rng.permutation(len(y))
    rows, rest = order[:n], order[n : n + 9_000]
    y_bar = complement(y[rows], n_classes, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Judged(classes=np.arange(n_classes), device="cpu", random_state=seed).fit(X[rows], y_bar)
    found = model.held_out_
    with whole_file(kept) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            n_classes=n_classes,
            y=y[rows][found.rows],
            y_bar=y_bar[found.rows],
            classes=found.classes,
            gain=found.gain,
            together=np.stack(model.together_).astype(np.float32),
            temperatures=model.whole_pool_.temperatures,
            weights=model.whole_pool_.weights,
            estimate=np.array(model.estimated_accuracy_),
            accuracy=(model.predict(X[rest]) == y[rest]).mean(),
        )


def job(given: tuple[str, int, int, Path]) -> None:
    torch.set_num_threads(1)
    if not given[3].exists():
        fit(*given)


def look(draws: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Tell the parts of the error of each draw of a table."""
    out = []
    for i, draw in enumerate(draws):
        others = [other for j, other in enumerate(draws) if j != i]
        log_t = np.mean([np.log(other["temperatures"]) for other in others], axis=0)
        foreign = Pool(np.exp(log_t), np.mean([other["weights"] for other in others], axis=0))
        own = Pool(draw["temperatures"], draw["weights"])

        def of_labels(classes: np.ndarray, draw: dict[str, Any] = draw) -> float:
            said = metrics.accuracy_score(draw["y_bar"], classes, int(draw["n_classes"]))
            return float(said - (classes == draw["y"]).mean())

        foreign_part, own_part = (of_labels(pool.mix(list(draw["together"])).argmax(axis=1)) for pool in (foreign, own))
        estimate, low, high = map(float, draw["estimate"])
        accuracy, labels = float(draw["accuracy"]), of_labels(draw["classes"])
        told = {"estimate": estimate, "low": low, "high": high, "accuracy": accuracy, "off": estimate - accuracy}
        told |= {"labels": labels, "rows": estimate - labels - accuracy}
        out.append(told | {"weights": labels - foreign_part, "in sample": own_part - foreign_part})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path, default=Path(".data/bias"))
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    names = [name for name in NAMES if len(TABLES[name][1]) >= LARGE]
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    path = {(n, s): given.keep / f"{n}-{given.rows}-{s}.npz" for s in seeds for n in names}
    for _ in finished(job, [(n, given.rows, s, path[n, s]) for n, s in path], given.jobs, np.inf):
        pass
    fits = []
    for name in names:
        draws = [dict(np.load(path[name, s])) for s in seeds]
        fits += [{"table": name, "seed": s} | told for s, told in zip(seeds, look(draws))]
    result: dict[str, Any] = hardware("cpu") | {"rows": given.rows, "tables": len(names)}
    held = [one["low"] <= one["accuracy"] <= one["high"] for one in fits]
    result["all"] = {
        "fits": len(fits),
        "held": sum(held),
        "width": float(np.mean([f["high"] - f["low"] for f in fits])),
    }
    print(f"\n\n{len(fits)} fits, {sum(held)} held; means in points, with their errors")
    for part in ("off", "labels", "rows", "weights", "in sample"):
        values = np.array([one[part] for one in fits])
        mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
        result["all"][part] = {"mean": mean, "error": error}
        print(f"{part:10} {100 * mean:+6.2f} ({100 * error:.2f})")
    rounded = [{k: round(v, 4) if isinstance(v, float) else v for k, v in one.items()} for one in fits]
    save(given.out, f"bias-{given.rows}", result | {"fits": rounded})


TABLES = read_tables() if __name__ == "__main__" else {}

if __name__ == "__main__":
    main()
