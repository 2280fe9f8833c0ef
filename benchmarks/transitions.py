"""How often intervals hold the truth where the transition matrix was estimated from pairs, and had it counted as known.

    python benchmarks/transitions.py            # some minutes on one core
    python benchmarks/transitions.py --quick    # seconds, with little to be read from it

In each trial a matrix Q is drawn, pairs and labels from it, and a model that is right in 80 % of the cases or a little
more, whose mistakes prefer some classes. Q is then estimated from the pairs with all defaults. An interval of 95 %
should hold the true accuracy in 94 % of the trials at least, and those of the class shares likewise.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import hardware, save
from naysayer import metrics, transition

MATRICES = ("uniform", "noisy", "biased", "both", "free", "free and noisy")
ERRORS = {"noisy": 0.05, "both": 0.02, "free and noisy": 0.02}


def draw_matrix(kind: str, n_classes: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A matrix of one kind, such as people's labels might have."""
    weights = np.exp(0.5 * rng.normal(size=n_classes)) if kind in ("biased", "both") else np.ones(n_classes)
    q = transition.biased(weights)
    if kind.startswith("free"):
        q = transition.biased(rng.gamma(np.maximum(10.0 * q, 1e-9)))
    return transition.noisy(n_classes, ERRORS.get(kind, 0.0), q)


def draw(q: NDArray[np.float64], y: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One label per example."""
    return np.minimum((q[y].cumsum(axis=1) < rng.random((len(y), 1))).sum(axis=1), len(q) - 1)


def trial(kind: str, n_classes: int, n_pairs: int, n_labels: int, rng: np.random.Generator) -> dict[str, Any] | None:
    """What one estimate of Q came to; None where it was refused."""
    q = draw_matrix(kind, n_classes, rng)
    while transition.cost(q) > 50:
        q = draw_matrix(kind, n_classes, rng)
    known = rng.integers(n_classes, size=n_pairs)
    estimated = transition.estimate(draw(q, known, rng), known, n_classes)
    prior = rng.dirichlet(np.full(n_classes, 3.0))
    confusion = 0.8 * np.eye(n_classes) + 0.2 * rng.dirichlet(np.full(n_classes, 0.5), size=n_classes)
    accuracy = float(prior @ np.diag(confusion))
    y = rng.choice(n_classes, p=prior, size=n_labels)
    y_bar, y_pred = draw(q, y, rng), draw(confusion, y, rng)
    try:
        found = metrics.accuracy_interval(y_bar, y_pred, n_classes, transition=estimated)
    except ValueError:
        return None
    as_known = metrics.accuracy_interval(y_bar, y_pred, n_classes, transition=np.asarray(estimated))
    exact = metrics.accuracy_interval(y_bar, y_pred, n_classes, transition=q)
    shares = metrics.class_prior_interval(y_bar, n_classes, transition=estimated)
    return {
        "model": estimated.model,
        "held": found.low <= accuracy <= found.high,
        "held_as_if_known": as_known.low <= accuracy <= as_known.high,
        "shares_held": float(((shares.low <= prior) & (prior <= shares.high)).mean()),
        "width": found.high - found.low,
        "width_with_true_q": exact.high - exact.low,
        "error": abs(found.estimate - accuracy),
    }


def cell(kind: str, n_classes: int, n_pairs: int, n_labels: int, trials: int) -> dict[str, Any]:
    """Sum up the trials of one setting."""
    rng = np.random.default_rng([n_classes, n_pairs, MATRICES.index(kind)])
    all_of_them = [trial(kind, n_classes, n_pairs, n_labels, rng) for _ in range(trials)]
    done = [one for one in all_of_them if one is not None]
    means = {
        key: round(float(np.mean([one[key] for one in done])), 3) for key in done[0] if key not in ("model", "error")
    }
    models = {name: sum(one["model"] == name for one in done) for name in transition.MODELS}
    return {
        "matrix": kind,
        "classes": n_classes,
        "pairs": n_pairs,
        "refused": trials - len(done),
        **means,
        "median_error": round(float(np.median([one["error"] for one in done])), 3),
        "models": {name: n for name, n in models.items() if n},
    }


def main() -> None:
    """Print the table and save it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="benchmarks/results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # costly matrices are part of the question
    trials, n_labels = (10, 500) if options.quick else (100, 2000)
    sizes = [(3, 200), (10, 200)] if options.quick else [(k, pairs) for k in (3, 5, 10) for pairs in (50, 200, 1000)]
    began, rows = time.perf_counter(), []
    print("K   pairs  matrix          held  as if known  shares  width  with true Q")
    for n_classes, n_pairs in sizes:
        for kind in MATRICES:
            row = cell(kind, n_classes, n_pairs, n_labels, trials)
            rows.append(row)
            print(
                f"{n_classes:<3} {n_pairs:<6} {kind:<15} {row['held']:<5.2f} {row['held_as_if_known']:<12.2f} "
                f"{row['shares_held']:<7.3f} {row['width']:<6.2f} {row['width_with_true_q']:.2f}  {row['models']}",
                flush=True,
            )
    kept = trials * len(rows) - sum(row["refused"] for row in rows)
    overall = {
        name: round(sum(row[name] * (trials - row["refused"]) for row in rows) / kept, 4)
        for name in ("held", "held_as_if_known", "shares_held")
    }
    print(overall)
    result = {"labels": n_labels, "trials": trials, "seconds": round(time.perf_counter() - began), "overall": overall}
    save(
        options.out, "transitions-quick" if options.quick else "transitions", hardware("cpu") | result | {"rows": rows}
    )


if __name__ == "__main__":
    main()
