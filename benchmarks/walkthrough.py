"""README's walk-through with somebody who answers: how many of a folder's photos get the right label.

    python benchmarks/walkthrough.py --data FOLDER [--classes cat,dog,horse] [--photos 600] [--answers 200]
                                     [--questions random | labels | model] [--runs RUNS] [--size 224] [--error 0]
                                     [--repeats 5] [--out benchmarks/results]

Photos of CIFAR-10's test set, enlarged to `--size`, are registered in a store as `naysayer ask` does. Questions are
drawn and answered one after another through the store, wrongly in a share `--error` of the cases: random ones, or
guided with the goal "labels" or "model", by a model that is trained on every 50 answers. Then a model is trained as
`naysayer train` does, and labels all photos as `naysayer predict` does. The true classes answer questions and judge
labels, and nothing else. Each repeat draws other photos and other questions. The interval is about photos that nobody
answered about; `covered` compares it with them. `--runs` trains so many runs of each member, to be done sooner.

What could be had at most is told beside it. "all classes told" is the share of photos that a logistic regression on the
same features names rightly when it is given the true classes of all others but a tenth (cross-validation). "and asked"
is the share of right labels when as many questions as there were answers are then spent on the photos of which it is
least sure: is it the likeliest class? A no leaves the second.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common import hardware, save
from naysayer.collect.learn import add_training, train
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.datasets import load
from naysayer.data.items import read_items

EVERY = 50  # answers, after which a model that guides questions is trained again


def write_photos(folder: Path, X: np.ndarray, y: np.ndarray, size: int) -> dict[str, int]:
    """Write images (N, 3, 32, 32) as PNG files; give the class of each name."""
    folder.mkdir()
    for i, image in enumerate(X):
        photo = Image.fromarray(image.transpose(1, 2, 0)).resize((size, size), Image.Resampling.BICUBIC)
        photo.save(folder / f"{i:05}.png")
    return {f"{i:05}.png": int(c) for i, c in enumerate(y)}


def answers(store: Store, truth: dict[str, int], error: float, rng: np.random.Generator) -> Iterator[str]:
    """Answer one question after another; give the names of the items they are about."""
    who = store.named_annotator("Ann").id
    while True:
        (question,) = store.ask(who)
        right = (question.class_index == truth[question.item.name]) != (rng.random() < error)
        store.answer(Answer(f"to-{question.id}", question.id, who, "yes" if right else "no"))
        yield question.item.name


def walk(X: np.ndarray, y: np.ndarray, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Walk through it once."""
    rng = np.random.default_rng([seed, 0])
    rows = rng.permutation(len(y))[: options.photos]
    asking = {} if options.questions == "random" else {"questions": "guided", "goal": options.questions}
    encoder, about = None, set()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        truth = write_photos(folder / "photos", X[rows], y[rows], options.size)
        project = Project(tuple(options.classes.split(",")), **asking)
        with Store.open(folder / "answers.db", project=project, random_state=seed) as store:
            store.register(read_items(folder / "photos"))
            for n, name in zip(range(1, options.answers + 1), answers(store, truth, options.error, rng)):
                about.add(name)
                if asking and n % EVERY == 0 and n < options.answers:
                    trained = train(store, n_seeds=options.runs, before=encoder)
                    encoder = trained.encoder
                    add_training(store, trained)
                    store.guide()
            began = time.perf_counter()
            trained = train(store, n_seeds=options.runs, before=encoder)
            seconds = time.perf_counter() - began
            items = list(store.items())
        features = trained.encoder.transform(items)
        predicted = trained.predict_proba(items).argmax(axis=1)
    y_true = np.array([truth[item.name] for item in items])
    right = predicted == y_true
    others = right[[item.name not in about for item in items]]
    estimate, low, high = map(float, trained.accuracy)
    told, asked = ceiling(features, y_true, options.answers, seed)
    return {
        "right": float(right.mean()),
        "right_without_answer": float(others.mean()),
        "all_classes_told": told,
        "and_asked": asked,
        "estimate": estimate,
        "low": low,
        "high": high,
        "covered": bool(low <= others.mean() <= high),
        "named": trained.named,
        "seconds": seconds,
        "notes": trained.encoder.notes,
    }


def ceiling(X: np.ndarray, y: np.ndarray, n_questions: int, seed: int) -> tuple[float, float]:
    """Say what all true classes would give, and what with questions about those that are doubtful even then."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.003, max_iter=300))
    parts = StratifiedKFold(10, shuffle=True, random_state=seed)
    p = cross_val_predict(model, X, y, cv=parts, method="predict_proba")
    order = np.argsort(-p, axis=1)
    right = order[:, 0] == y
    doubtful = np.argsort(p.max(axis=1))[:n_questions]
    with_answers = right.copy()
    with_answers[doubtful] |= order[doubtful, 1] == y[doubtful]
    return float(right.mean()), float(with_answers.mean())


def main() -> None:
    """Walk through it several times, and print what came."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with cifar10/")
    parser.add_argument("--classes", default="cat,dog,horse")
    parser.add_argument("--photos", type=int, default=600)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--questions", default="random", choices=("random", "labels", "model"))
    parser.add_argument("--runs", type=int)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--error", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out")
    options = parser.parse_args()
    data, classes = load("cifar10", options.data), options.classes.split(",")
    kinds = [data.class_names.index(name) for name in classes]
    chosen = np.isin(data.y_test, kinds)
    X, y = data.X_test[chosen], np.array([kinds.index(c) for c in data.y_test[chosen]])
    runs = []
    for seed in range(options.repeats):
        runs.append(walk(X, y, options, seed))
        one = {name: 100 * value for name, value in runs[-1].items() if isinstance(value, float)}
        print(
            f"{one['right']:.1f} % of the labels are right, {one['right_without_answer']:.1f} % of those without an "
            f"answer; estimated {one['estimate']:.1f} ({one['low']:.1f} to {one['high']:.1f}) %; all classes told "
            f"{one['all_classes_told']:.1f}, and asked {one['and_asked']:.1f} %; "
            f"trained in {runs[-1]['seconds']:.0f} s",
            flush=True,
        )
    right = [run["right"] for run in runs]
    print(
        f"{', '.join(classes)}: {100 * np.mean(right):.1f} % right on average, from {100 * min(right):.1f} to "
        f"{100 * max(right):.1f}; covered in {sum(run['covered'] for run in runs)} of {len(runs)}"
    )
    if options.out:
        told = {name: getattr(options, name) for name in ("photos", "answers", "questions", "size", "error")}
        told["runs_per_member"] = options.runs
        result = hardware("cpu") | {"classes": classes} | told | {"runs": runs}
        kind = "" if options.questions == "random" and not options.runs else f"-{options.questions}"
        kind += "" if options.answers == 200 else f"-{options.answers}"
        save(options.out, f"walkthrough-{'-'.join(classes)}{kind}", result)


if __name__ == "__main__":
    main()
