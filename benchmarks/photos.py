"""What pretrained features make of few answers about photos: true accuracy with 300 to 10,000 complementary labels.

    python benchmarks/photos.py --data FOLDER [--labels 300,1000,3000,10000] [--seeds 5] [--views 2] [--jobs 1]
                                [--device auto] [--out benchmarks/results]

The first 10,000 photos of CIFAR-10's training set, enlarged to the size that EfficientNet-Lite0 was trained on, become
features. The first of them have one complementary label each, drawn with `complement(..., random_state=seed)`; of the
others nothing is known, and they are given to `fit` all the same. A default `ComplementaryClassifier` learns from that,
and 10,000 photos of the test set, which nothing was chosen by, tell how accurate it is. "alone" is without the photos
that have no label; "true labels" is a logistic regression that is given the classes of the labelled photos.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common import Recorded, finished, hardware, save
from naysayer import ComplementaryClassifier, complement
from naysayer.data.datasets import load
from naysayer.features import Photos
from naysayer.models import boosting

N = 10_000
K = 10


def job(given: tuple[str, int, int, str]) -> dict[str, Any]:
    """Fit once, and say how accurate everything is."""
    path, n, seed, device = given
    with np.load(path) as stored:
        X, y, X_test, y_test = (stored[name] for name in ("X", "y", "X_test", "y_test"))
    y_bar = complement(y, K, random_state=seed)
    ruled_out = np.eye(K, dtype=bool)[y_bar]
    ruled_out[n:] = False
    right = lambda predicted: float((predicted == y_test).mean())  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = Recorded(classes=np.arange(K), device=device, random_state=seed).fit(X, ruled_out)
        seconds = time.perf_counter() - start
        accuracy = {"all": right(model.predict(X_test))}
        inputs = model._scaled(model._take(X_test, reset=False))
        for one in model.trained_:
            name = " ".join(str(v) for v in (one.about["network"] or one.about["method"], one.about["lr"]) if v)
            accuracy[name] = right(one.member.probabilities(inputs).argmax(axis=1))
        if n < N:
            alone = ComplementaryClassifier(classes=np.arange(K), device=device, random_state=seed)
            accuracy["alone"] = right(alone.fit(X[:n], y_bar[:n]).predict(X_test))
    estimate = dict(zip(("estimate", "low", "high"), map(float, model.estimated_accuracy_)))
    return {"labels": n, "seed": seed, "seconds": seconds, "accuracy": accuracy} | estimate


def true_labels(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, n: int) -> float:
    """What the classes themselves would give."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
    return float(model.fit(X[:n], y[:n]).score(X_test, y_test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder that holds cifar10, or an npz file of the same arrays")
    parser.add_argument("--labels", default="300,1000,3000,10000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--views", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no fit is awaited")
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    data = load(given.data) if Path(given.data).is_file() else load("cifar10", given.data)
    photos = Photos(views=given.views, device=given.device, cache=False, verbose=1).fit(None)
    begun = time.perf_counter()
    X, X_test = photos.transform(np.asarray(data.X_train[:N])), photos.transform(np.asarray(data.X_test))
    print(f"{len(X) + len(X_test):,} photos into features in {time.perf_counter() - begun:.1f} s")
    y, y_test = np.asarray(data.y_train[:N]), np.asarray(data.y_test)
    sizes = [int(n) for n in given.labels.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "features.npz"))
        np.savez(path, X=X, y=y, X_test=X_test, y_test=y_test)
        jobs = [(path, n, seed, given.device) for seed in range(given.seeds) for n in sizes]
        fits = list(finished(job, jobs, given.jobs, given.limit, "spawn"))  # CUDA does not survive a fork
    fits.sort(key=lambda fit: (fit["labels"], fit["seed"]))
    summary = []
    print("\n labels fits   all (range)        alone  true labels  estimate  covered  seconds  members")
    for n in sizes:
        some = [fit for fit in fits if fit["labels"] == n]
        if not some:
            continue
        mean = {k: float(np.mean([f["accuracy"][k] for f in some])) for k in some[0]["accuracy"]}
        mean["true labels"] = true_labels(X, y, X_test, y_test, n)
        reached = [fit["accuracy"]["all"] for fit in some]
        told = {"labels": n, "fits": len(some), "accuracy": mean, "lowest": min(reached), "highest": max(reached)}
        told["estimate"] = float(np.mean([f["estimate"] for f in some]))
        told["covered"] = sum(f["low"] <= f["accuracy"]["all"] <= f["high"] for f in some)
        told["seconds"] = float(np.mean([f["seconds"] for f in some]))
        summary.append(told)
        members = ", ".join(f"{k} {100 * v:.1f}" for k, v in mean.items() if k not in ("all", "alone", "true labels"))
        print(
            f"{n:7,} {len(some):4}  {100 * mean['all']:5.1f} ({100 * min(reached):.1f} to {100 * max(reached):.1f})  "
            f"{100 * mean.get('alone', np.nan):6.1f}  {100 * mean['true labels']:11.1f}  "
            f"{100 * told['estimate']:8.1f}  {told['covered']:4} of {len(some)}  {told['seconds']:7.1f}  {members}"
        )
    about = hardware(given.device) | {"boosting": boosting.is_available(), "views": given.views}
    save(
        given.out,
        "photos" if given.views == 2 else "photos-1-view",
        about | {"backbone": photos.backbone_, "summary": summary, "fits": fits},
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
