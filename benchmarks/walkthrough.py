"""README's walk-through with somebody who answers: how many of a folder's photos get the right label.

    python benchmarks/walkthrough.py --data FOLDER [--classes cat,dog,horse] [--photos 600] [--answers 200]
                                     [--size 224] [--error 0] [--repeats 5] [--out benchmarks/results]

Photos of CIFAR-10's test set, enlarged to `--size`, are registered in a store as `naysayer ask` does. Questions are
drawn and answered one after another through the store, wrongly in a share `--error` of the cases. Then a model is
trained as `naysayer train` does, and labels all photos as `naysayer predict` does. The true classes answer questions
and judge labels, and nothing else. Each repeat draws other photos and other questions. The interval is about photos
that nobody answered about; `covered` compares it with them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from common import hardware, save
from naysayer.collect.learn import train
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.datasets import load
from naysayer.data.items import read_items


def write_photos(folder: Path, X: np.ndarray, y: np.ndarray, size: int) -> dict[str, int]:
    """Write images (N, 3, 32, 32) as PNG files; give the class of each name."""
    folder.mkdir()
    for i, image in enumerate(X):
        photo = Image.fromarray(image.transpose(1, 2, 0)).resize((size, size), Image.Resampling.BICUBIC)
        photo.save(folder / f"{i:05}.png")
    return {f"{i:05}.png": int(c) for i, c in enumerate(y)}


def answer(store: Store, truth: dict[str, int], n: int, error: float, rng: np.random.Generator) -> set[str]:
    """Answer n questions; give the names of the items they were about."""
    who = store.named_annotator("Ann").id
    about = set()
    for i in range(n):
        (question,) = store.ask(who)
        right = (question.class_index == truth[question.item.name]) != (rng.random() < error)
        store.answer(Answer(f"answer-{i}", question.id, who, "yes" if right else "no"))
        about.add(question.item.name)
    return about


def walk(
    X: np.ndarray, y: np.ndarray, classes: tuple[str, ...], options: argparse.Namespace, seed: int
) -> dict[str, Any]:
    """Walk through it once."""
    rng = np.random.default_rng([seed, 0])
    rows = rng.permutation(len(y))[: options.photos]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        truth = write_photos(folder / "photos", X[rows], y[rows], options.size)
        with Store.open(folder / "answers.db", project=Project(classes), random_state=seed) as store:
            store.register(read_items(folder / "photos"))
            about = answer(store, truth, options.answers, options.error, rng)
            began = time.perf_counter()
            trained = train(store)
            seconds = time.perf_counter() - began
            items = list(store.items())
        predicted = trained.predict_proba(items).argmax(axis=1)
    right = predicted == [truth[item.name] for item in items]
    others = right[[item.name not in about for item in items]]
    estimate, low, high = map(float, trained.accuracy)
    return {
        "right": float(right.mean()),
        "right_without_answer": float(others.mean()),
        "estimate": estimate,
        "low": low,
        "high": high,
        "covered": bool(low <= others.mean() <= high),
        "named": trained.named,
        "seconds": seconds,
        "notes": trained.encoder.notes,
    }


def main() -> None:
    """Walk through it several times, and print what came."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with cifar10/")
    parser.add_argument("--classes", default="cat,dog,horse")
    parser.add_argument("--photos", type=int, default=600)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--error", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out")
    options = parser.parse_args()
    data, classes = load("cifar10", options.data), tuple(options.classes.split(","))
    kinds = [data.class_names.index(name) for name in classes]
    chosen = np.isin(data.y_test, kinds)
    X, y = data.X_test[chosen], np.array([kinds.index(c) for c in data.y_test[chosen]])
    runs = []
    for seed in range(options.repeats):
        runs.append(walk(X, y, classes, options, seed))
        one = {name: 100 * value for name, value in runs[-1].items() if isinstance(value, float)}
        print(
            f"{one['right']:.1f} % of the labels are right, {one['right_without_answer']:.1f} % of those without an "
            f"answer; estimated {one['estimate']:.1f} ({one['low']:.1f} to {one['high']:.1f}) %; "
            f"trained in {runs[-1]['seconds']:.0f} s",
            flush=True,
        )
    right = [run["right"] for run in runs]
    print(
        f"{', '.join(classes)}: {100 * np.mean(right):.1f} % right on average, from {100 * min(right):.1f} to "
        f"{100 * max(right):.1f}; covered in {sum(run['covered'] for run in runs)} of {len(runs)}"
    )
    if options.out:
        told = {name: getattr(options, name) for name in ("photos", "answers", "size", "error")}
        result = hardware("cpu") | {"classes": classes} | told | {"runs": runs}
        save(options.out, f"walkthrough-{'-'.join(classes)}", result)


if __name__ == "__main__":
    main()
