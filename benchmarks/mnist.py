"""The paper's five methods on MNIST with the paper's settings, against the accuracies that Figure 2 shows.

    python benchmarks/mnist.py --data FOLDER [--epochs 300] [--trials 4] [--against FILE] [--traced] [--out FOLDER]

FOLDER holds mnist/train-images-idx3-ubyte.gz and its three sisters. MLP 784-500-10, Adam at 5e-5, weight decay 1e-4
on weights, mini-batches of 256; each trial draws its own complementary labels. A method's trials are one population.
With ``--against FILE``, an earlier result, its means stand beside these, with the difference in pooled deviations. With
``--traced`` the network's gradients are traced, not written down (:mod:`naysayer.engine.passes`). TF32 products then
round in another order, which after 300 epochs moves a single trial by a few tenths of a point.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from common import hardware, save
from naysayer import Population, complement, metrics, networks, objectives
from naysayer.data import datasets
from naysayer.engine.passes import PASSES

EXPECTED = {"free": 77, "max": 89, "ascent": 92, "forward": 94, "pairwise": 82}  # near these, after 300 epochs


def compare(results: dict, before: dict) -> None:
    """Put an earlier result's last epochs beside these."""
    print("\nmethod     before %   now %   difference in pooled deviations")
    for method, result in results.items():
        then, now = (np.array(r["last_epoch"]) for r in (before[method], result))
        gap = (now.mean() - then.mean()) / np.sqrt((now.var(ddof=1) + then.var(ddof=1)) / 2)
        result |= {"before": then.tolist(), "difference_in_deviations": float(gap)}
        print(f"{method:9s}  {then.mean():8.2f}   {now.mean():5.2f}   {gap:+.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--against", help="an earlier result, such as benchmarks/results/mnist.json")
    parser.add_argument("--traced", action="store_true", help="trace the network's gradients")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    if arguments.traced:
        PASSES.clear()
    mnist = datasets.load("mnist", arguments.data)
    trials = range(arguments.trials)
    y_bar = np.stack([complement(mnist.y_train, 10, random_state=trial) for trial in trials])
    test_labels = complement(mnist.y_test, 10, random_state=len(y_bar))
    about = hardware(arguments.device)
    print(f"{about['device']}, torch {about['torch']}: {arguments.epochs} epochs, {len(y_bar)} trials\n")
    print("method     last epoch %     best epoch %   expected   estimated from test's own labels   seconds")
    results = {}
    for method, expected in EXPECTED.items():
        runs = Population(
            lambda: networks.mlp(784, 10),
            objectives.OBJECTIVES[method](10),
            seeds=list(trials),
            lr=5e-5,
            weight_decay=1e-4,
            batch_size=256,
            device=arguments.device,
        )
        start = time.perf_counter()
        runs.fit(mnist.X_train, y_bar, max_epochs=arguments.epochs, test=(mnist.X_test, mnist.y_test))
        seconds = time.perf_counter() - start
        curve = 100 * runs.history["test_accuracy"]
        predicted = runs.logits(mnist.X_test, run=0).argmax(-1).numpy()
        estimate = metrics.accuracy_interval(test_labels, predicted, 10)
        last, best = curve[-1], curve.max(axis=0)
        print(
            f"{method:9s}  {last.mean():5.2f} ± {last.std():4.2f}   {best.mean():5.2f} ± {best.std():4.2f}   "
            f"{expected:8d}   {100 * estimate[0]:6.1f} ({100 * estimate[1]:.1f} to {100 * estimate[2]:.1f}), "
            f"true {last[0]:.1f}   {seconds:7.1f}"
        )
        results[method] = {
            "last_epoch": last.tolist(),
            "best_epoch": best.tolist(),
            "expected": expected,
            "every_10th_epoch_mean": curve.mean(axis=1)[9::10].round(3).tolist(),
            "estimated_accuracy_of_first_trial": [float(v) for v in estimate],
            "seconds": seconds,
        }
    if arguments.against:
        compare(results, json.loads(Path(arguments.against).read_text())["methods"])
    name = "mnist-traced" if arguments.traced else "mnist"
    save(arguments.out, name, about | {"epochs": arguments.epochs, "trials": len(y_bar), "methods": results})


if __name__ == "__main__":
    main()
