"""Two questions that the paper's text leaves open, one attempt each.

    python benchmarks/paper_questions.py crossing --data FOLDER     # minutes on one core
    python benchmarks/paper_questions.py forward --data FOLDER --device cuda

`crossing`: at which epoch does the linear model's risk fall below zero in Figure 1 (the paper: around 100; ours: 46)?
With mini-batches of 100 and 256; with the risk of a batch as means over each label, as the text has it, and as a plain
mean; with inputs from 0 to 1, from -1 to 1, and scaled to mean zero and deviation one.

`forward`: what does Fwd (Fwd) on Kuzushiji-MNIST come to (the paper: 64.1 +- 0.4; ours: 62.6 +- 0.5)? SGD at 1e-2,
which all trials choose, 4 trials, 250 epochs; with inputs scaled as above, mini-batches of 32 to 256, weight
decay five times larger and none, and no momentum. The epoch is the one with the lowest validation loss.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from common import hardware, save
from naysayer import Population, complement, networks, objectives
from naysayer.data import datasets
from naysayer.objectives.base import Objective

SCALES = {"0 to 1": (0.0, 1.0), "-1 to 1": (0.5, 0.5)}  # what is taken away, and what it is divided by


def inputs(given: datasets.Dataset, scale: str) -> tuple[Any, Any]:
    """Training and test inputs on a scale."""
    whole = given.X_train.astype("float32") / 255
    shift, width = SCALES.get(scale, (whole.mean(), whole.std()))
    return (whole - shift) / width, (given.X_test.astype("float32") / 255 - shift) / width


def crossing(given: datasets.Dataset, device: str, epochs: int) -> list[dict[str, Any]]:
    """The epochs at which the risk crosses zero and the accuracy peaks, counted from 1."""
    rows = []
    y_bar = complement(given.y_train, 10, random_state=0)
    ways = [(batch, mean, "0 to 1") for mean in ("by label", "plain") for batch in (100, 256)]
    for batch, mean, scale in [*ways, (100, "by label", "-1 to 1"), (100, "by label", "mean zero")]:
        X, X_test = inputs(given, scale)
        objective = objectives.Unbiased(10) if mean == "by label" else Objective(10)
        run = Population(
            lambda: networks.linear(784, 10), objective, lr=5e-5, weight_decay=1e-4, batch_size=batch, device=device
        ).fit(X, y_bar, max_epochs=epochs, test=(X_test, given.y_test), class_risks=True)
        total = sum(run.history[f"class_risk_{k}"][:, 0] for k in range(10))
        below, accuracy = np.flatnonzero(total < 0), run.history["test_accuracy"][:, 0]
        rows.append(
            {
                "batch_size": batch, "mean": mean, "inputs": scale,
                "crosses_at": int(below[0]) + 1 if below.size else None,
                "peaks_at": int(accuracy.argmax()) + 1, "peak": float(accuracy.max()),
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def forward(given: datasets.Dataset, device: str, epochs: int) -> list[dict[str, Any]]:
    """Test accuracy at the epoch of the lowest validation loss, trial by trial, and at the last epoch."""
    usual = {"batch_size": 100, "weight_decay": 1e-4, "momentum": 0.9, "inputs": "0 to 1"}
    changes: list[dict[str, Any]] = [{}, {"inputs": "-1 to 1"}, {"inputs": "mean zero"}]
    changes += [{"batch_size": size} for size in (32, 64, 256)]
    changes += [{"weight_decay": decay} for decay in (0.0, 5e-4)] + [{"momentum": 0.0}]
    n, trials, rows = len(given.X_train), range(4), []
    order = np.stack([np.random.default_rng([trial, 1]).permutation(n) for trial in trials])
    y_bar = np.stack([complement(given.y_train, 10, random_state=trial) for trial in trials])
    for change in changes:
        how = usual | change
        X, X_test = inputs(given, how.pop("inputs"))
        run = Population(
            lambda: networks.mlp(784, 10), objectives.Forward(10), seeds=list(trials), lr=1e-2, optimizer="sgd",
            device=device, **how,
        ).fit(
            X, y_bar, max_epochs=epochs, rows=order[:, n // 10 :], validation_rows=order[:, : n // 10],
            test=(X_test, given.y_test), select="objective",
        )  # fmt: skip
        accuracy = run.history["test_accuracy"]
        chosen = accuracy[run.best_epoch, np.arange(len(trials))]
        found = {"epochs": (run.best_epoch + 1).tolist(), "chosen": chosen.tolist(), "last": accuracy[-1].tolist()}
        rows.append({"changed": change, **found})
        print(f"{change}: {100 * chosen.mean():.1f} +- {100 * chosen.std():.1f} at epochs {found['epochs']}; ", end="")
        print(f"last {100 * accuracy[-1].mean():.1f}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["crossing", "forward"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    dataset, ask, epochs = {"crossing": ("mnist", crossing, 90), "forward": ("kuzushiji", forward, 250)}[
        arguments.question
    ]
    found = ask(datasets.load(dataset, arguments.data), arguments.device, arguments.epochs or epochs)
    save(arguments.out, f"paper_questions-{arguments.question}", hardware(arguments.device) | {"ways": found})


if __name__ == "__main__":
    main()
