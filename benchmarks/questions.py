"""Guided against random questions: answers needed to settle labels, to train a model, and to know how good labels are.

    python benchmarks/questions.py [--seeds 0 1 2] [--error 0.02] [--data FOLDER] [--out benchmarks/results]
    python benchmarks/questions.py --coverage 200

The items are 1,297 of scikit-learn's digits, and the other 500 judge the model. With `--data` they are 1,297 of the
first 3,000 photos of CIFAR-10's training set in FOLDER/cifar10, and the first 1,000 of its test set judge: enlarged to
the size that EfficientNet-Lite0 was trained on, and turned into the first 64 principal components of its features. A
seed draws the items, the questions and the mistakes; 0, 1 and 10 to 14 were in view when the policies were found, and
seed 0 when it was chosen how long the model trains.

The model is the app's: what `naysayer ask` trains, on all items, answered or not, but with half of its runs, and half
of its epochs. It is trained anew on every 100 answers (from 2,000 on, every 500), whatever the policy, and the
questions in between come from the last one, as the app draws them. So does the decision when a model may guide.

What is known is looked at every 500 answers: by an interval for a single look, and by one that holds at every look.
Where questions are guided, that is the one that the app shows; where they are random, the app's has a sixteenth of
what it may miss at each of the 16 looks. Random questions settle an item by a yes or by all classes but one ruled
out; guided ones as `Guide` says.

`--coverage` repeats small guided, random and switched projects, and counts how often the interval that may be looked at
after every answer misses the truth at any of ten looks.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYTHONWARNINGS", "ignore:Loky-backed")  # neighbours are sought in one process of several

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from common import finished, hardware, save
from naysayer.collect.guiding import CHECKS, RANDOM, Guide, combine, read_guidance
from naysayer.collect.learn import FromAnswers, belief, learn
from naysayer.collect.questions import ItemPool, OpenItem
from naysayer.data.datasets import load
from naysayer.features import Photos
from naysayer.measure.adaptive import anytime_interval, contributions, corrected, latest_interval
from naysayer.measure.answer_estimates import accuracy
from naysayer.measure.answers import Answers
from naysayer.measure.intervals import Interval, mean_bounds, within
from naysayer.measure.settling import LEAST_ERROR

EVERY, LOOK, MOST = 100, 500, 8_000  # answers between trainings, between looks, and at the most
EPOCHS, RUNS = 15, 5
N_ITEMS, N_PHOTOS = 1297, 3000
POLICIES = ("random", "labels", "model", "accuracy")


def read_data(features: str | None, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features and classes of the items, and of those that judge the model."""
    rng = np.random.default_rng(seed)
    if features is None:
        X, y = load_digits(return_X_y=True)
        rows = rng.permutation(len(y))
        items, test = rows[:N_ITEMS], rows[N_ITEMS:]
        X = (X / 16).astype(np.float32)
    else:
        with np.load(features) as stored:
            X, y = stored["X"], stored["y"]
        items, test = rng.permutation(N_PHOTOS)[:N_ITEMS], np.arange(N_PHOTOS, len(y))
        X = PCA(64, whiten=True, random_state=0).fit(X[items]).transform(X).astype(np.float32)
    return X[items], y[items], X[test], y[test]


def write_features(folder: str, path: str) -> dict[str, Any]:
    """Turn photos of CIFAR-10 into features, those that judge last; give the network that did."""
    data = load("cifar10", folder)
    pictures = np.concatenate([np.asarray(data.X_train[:N_PHOTOS]), np.asarray(data.X_test[:1000])])
    photos = Photos(verbose=1).fit(None)
    y = np.concatenate([data.y_train[:N_PHOTOS], data.y_test[:1000]])
    np.savez(path, X=photos.transform(pictures), y=y)
    return photos.backbone_


def train(X: np.ndarray, said: Answers, place: dict[str, int], error_rate: float, seed: int) -> tuple[FromAnswers, Any]:
    """Train what the app does; give it, and the place of each item in what it gives."""
    first = np.array([place[id] for id in said.items])
    order = np.concatenate([first, np.setdiff1d(np.arange(len(X)), first)])
    how = {"max_epochs": EPOCHS, "n_seeds": RUNS, "device": "cpu", "random_state": seed}
    return learn(X[order], said, error_rate=error_rate, **how), np.argsort(order)


def run(given: tuple[str, int, float, str | None]) -> tuple[str, dict[str, Any]]:
    """One project from the first to the last answer: what is reached when."""
    policy, seed, error_rate, features = given
    torch.set_num_threads(1)
    X, y, X_test, y_test = read_data(features, seed)
    n_items, n_classes = len(y), int(y.max()) + 1
    names = [str(k) for k in range(n_classes)]
    ids = [f"{i:06}" for i in np.random.default_rng(seed).permutation(10**6)[:n_items]]
    place = {id: i for i, id in enumerate(ids)}
    rng, random = np.random.default_rng([seed, 1]), Random(seed)
    votes, n_answers = np.zeros((n_items, n_classes), dtype=np.int64), np.zeros(n_items, dtype=np.int64)
    asked: list[tuple[str, int, str, bool]] = []
    guided_rows: list[tuple[float, float, float, bool, float]] = []
    guide: Guide | None = None
    curve, reached = [], dict.fromkeys(("settled", "model", "known", "known_always"))
    interval, always = Interval(0.5, 0.0, 1.0), 0.5
    for n in range(1, MOST + 1):
        drawn = next_question(guide, votes, n_answers, ids, random)
        if drawn is None:
            break
        i, k = place[drawn.item_id], drawn.class_index
        yes = bool((y[i] == k) ^ (rng.random() < error_rate))
        votes[i, k] += 1 if yes else -1
        n_answers[i] += 1
        asked.append((drawn.item_id, k, "yes" if yes else "no", guide is not None))
        if guide is not None:
            how = read_guidance(drawn.guidance)
            chance = n_items * how.item_probability * drawn.probability
            guided_rows.append((float(yes), chance, how.now, k == how.likeliest, how.certainty))
            guide.update({drawn.item_id: (votes[i], int(n_answers[i]))})
        if n % 50 == 0 and reached["settled"] is None and settled(guide, votes).mean() >= 0.95:
            reached["settled"] = n
        if n % (EVERY if n <= 2_000 else 5 * EVERY):
            continue
        said = Answers.of(*zip(*[one[:3] for one in asked]), names, guided=[one[3] for one in asked])
        found, here = train(X, said, place, error_rate, 10_000 * seed + n)  # from a new start each time
        right = float((found.model.predict(X_test) == y_test).mean())
        if guided_rows:
            interval, always = judge(guided_rows, error_rate, n_classes, policy)
        else:
            bounds = accuracy(said, found.predicted, error_rate=error_rate, confidence=1 - 0.05 * LOOK / MOST)
            interval, one = found.model.estimated_accuracy_, found.model.held_out_.interval(bounds)
            always = (one.high - one.low) / 2
        believed = belief(found.model.estimated_accuracy_.low, said, found.expected, error_rate)
        if policy != "random" and believed is not None:
            expected, then = (each[here] for each in believed)
            guide = Guide(ids, expected, then, max(error_rate, LEAST_ERROR), float(n), policy)
        done = settled(guide, votes)
        best = votes.argmax(axis=1) if guide is None else guide.probabilities.argmax(axis=1)
        share = float(done.mean())
        label_right = float((best[done] == y[done]).mean()) if done.any() else 1.0
        margin = (interval.high - interval.low) / 2
        point = {"answers": n, "model": right, "settled": share, "labels_right": label_right, "margin": margin}
        curve.append(point)
        for name, now in (
            ("model", right >= 0.9),
            ("known", margin <= 0.02 and n % LOOK == 0),
            ("known_always", always <= 0.02 and n % LOOK == 0),
        ):
            if now and reached[name] is None:
                reached[name] = n
        if n >= 2_000 and reached["settled"] and reached["known"] and policy != "accuracy":
            break
        if n >= 4_000 and policy == "accuracy":
            break
    return policy, {"reached": reached, "curve": curve, "seed": seed}


def next_question(guide: Guide | None, votes: np.ndarray, n_answers: np.ndarray, ids: list[str], random: Random):
    """Draw as the store does: from the guide, or about the item with the fewest answers; None: nothing is left."""
    if guide is not None:
        return guide.draw(random)
    is_open = ~settled(guide, votes)
    if not is_open.any():
        return None
    i = min(np.flatnonzero(is_open), key=lambda i: (n_answers[i], ids[i]))
    candidate = OpenItem(ids[i], int(n_answers[i]), frozenset(np.flatnonzero(votes[i] < 0).tolist()))
    return ItemPool(iter([[candidate]]), votes.shape[1], None, random).draw("ann")


def settled(guide: Guide | None, votes: np.ndarray) -> np.ndarray:
    """Which items are done, (N,)."""
    if guide is not None:
        return guide.settled
    return (votes.max(axis=1) > 0) | ((votes < 0).sum(axis=1) >= votes.shape[1] - 1)


def judge(guided_rows: list[tuple], error_rate: float, n_classes: int, policy: str) -> tuple[Interval, float]:
    """How many likeliest classes are right, with an interval for one look, and half the width of the one shown.

    That for one look rests on the later half of the guided answers.
    """
    yes, chance, now, about, certainty = np.array(guided_rows).T
    reach = (1 - error_rate) / (1 - 2 * error_rate) / (CHECKS[policy] + RANDOM / n_classes)
    m = contributions(corrected(yes, error_rate), chance, now, about, certainty)
    always = latest_interval(m, certainty - reach, certainty + reach, expected=certainty)
    m, certainty = m[len(m) // 2 :], certainty[len(m) // 2 :]
    once = mean_bounds(m, float(certainty.min() - reach), float(certainty.max() + reach), 0.025)
    gain = max(0.0, float(certainty[-1] - certainty.mean()))
    return within(once.estimate, once.low, once.high + gain), (always.high - always.low) / 2


# ---- coverage ------------------------------------------------------------------------------------------------------


def cover(given: tuple[str, int, float, int]) -> tuple[tuple[str, int, float], list[bool]]:
    """Whether an interval misses at any of ten looks: of the accuracy of fixed predictions, of the share of class 0."""
    policy, n_classes, error_rate, seed = given
    rng, random = np.random.default_rng([seed, n_classes, len(policy), round(100 * error_rate)]), Random(seed)
    n_items, n = 300, 600
    y = np.where(rng.random(n_items) < 0.3, 0, rng.integers(n_classes, size=n_items))
    predicted = np.where(rng.random(n_items) < 0.8, y, rng.integers(n_classes, size=n_items))
    p = np.full((n_items, n_classes), 0.2 / n_classes)
    p[np.arange(n_items), predicted] += 0.8
    votes, e = np.zeros((n_items, n_classes), dtype=np.int64), max(error_rate, LEAST_ERROR)
    top, ids = (1 - error_rate) / (1 - 2 * error_rate), [str(i) for i in range(n_items)]
    rows: list[list[tuple[float, float, float]]] = [[], []]
    kinds, guide = [], None
    for t in range(n):
        if t % 100 == 0:  # a model is trained
            expected, then = combine(p, votes, e), votes.copy()
            guide = Guide(ids, expected, then, e, float(t), "labels")
            bases = [float(expected[np.arange(n_items), predicted].mean()), float(expected[:, 0].mean())]
        guided = policy == "guided" or (policy == "switched" and t >= n // 2)
        drawn = guide.draw(random) if guided else None
        if drawn is None:  # random, or every item settled
            guided, i, k, chance = False, int(rng.integers(n_items)), int(rng.integers(n_classes)), 1 / n_classes
        else:
            i, k = int(drawn.item_id), drawn.class_index
            chance = n_items * read_guidance(drawn.guidance).item_probability * drawn.probability
        yes = bool((y[i] == k) ^ (rng.random() < error_rate))
        floor = RANDOM / n_classes if guided else 1 / n_classes
        for row, loss, base in zip(rows, (k == predicted[i], k == 0), bases):
            m = float(contributions(corrected(yes, error_rate), chance, expected[i, k], loss, base))
            row.append((m, base - top / floor, base + top / floor))
        kinds.append(int(guided))
        votes[i, k] += 1 if yes else -1
        guide.update({ids[i]: (votes[i], int(np.abs(votes[i]).sum()))})
    missed = []
    for row, truth in zip(rows, ((predicted == y).mean(), (y == 0).mean())):
        m, low, high = np.array(row).T
        found = [anytime_interval(m[:s], low[:s], high[:s], kind=kinds[:s]) for s in range(60, n + 1, 60)]
        missed.append(any(not one.low <= truth <= one.high for one in found))
    return (policy, n_classes, error_rate), missed


def coverage(repeats: int, processes: int | None) -> list[dict[str, Any]]:
    grid = [
        (policy, k, e) for policy in ("random", "guided", "switched") for k in (3, 10, 30) for e in (0.0, 0.02, 0.05)
    ]
    found: dict[tuple[str, int, float], list[list[bool]]] = {}
    for cell, missed in finished(cover, [(*cell, s) for cell in grid for s in range(repeats)], processes, np.inf):
        found.setdefault(cell, []).append(missed)
    print("\npolicy    classes  errors   holds, accuracy   holds, share")
    rows = []
    for cell in grid:
        held = 1 - np.array(found[cell]).mean(axis=0)
        print(f"{cell[0]:8}  {cell[1]:7}  {cell[2]:6.2f}   {held[0]:15.3f}   {held[1]:12.3f}")
        rows.append(dict(zip(("policy", "classes", "errors"), cell)) | {"accuracy": held[0], "share": held[1]})
    return rows


def summed_up(policy: str, error_rate: float, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs of a policy came to on average, and each by itself."""
    cell: dict[str, Any] = {"questions": policy, "errors": error_rate, "runs": len(runs)}
    for name in runs[0]["reached"]:
        reached = [one["reached"][name] for one in runs]
        cell[name] = None if None in reached else float(np.mean(reached))
        cell[f"{name}_each"] = reached
    shortest = min((one["curve"] for one in runs), key=len)
    cell["answers"] = [point["answers"] for point in shortest]
    for name in ("model", "settled", "labels_right", "margin"):
        each = [[point[name] for point in one["curve"][: len(shortest)]] for one in runs]
        cell[f"{name}_curve"] = np.mean(each, axis=0).round(5).tolist()
        if name == "model":
            cell["model_each"] = each
    cell["labels_right"] = float(np.mean([one["curve"][-1]["labels_right"] for one in runs]))
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--error", type=float, default=0.0, help="the share of answers that are wrong")
    parser.add_argument("--data", help="folder that holds cifar10")
    parser.add_argument("--coverage", type=int, metavar="REPEATS")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    about = hardware("cpu")
    if given.coverage:
        save(given.out, "questions-coverage", about | {"cells": coverage(given.coverage, given.jobs)})
        return
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        features = None
        if given.data:
            features = str(Path(folder, "features.npz"))
            about["backbone"] = write_features(given.data, features)
        jobs = [(policy, seed, given.error, features) for seed in given.seeds for policy in POLICIES]
        for policy, one in finished(run, jobs, given.jobs, np.inf, start="spawn"):
            found.setdefault(policy, []).append(one)
    print("\nquestions   95 % settled  model at 90 %     known to 2   known always  labels right  model: 1500")
    cells = []
    for policy in POLICIES:
        cells.append(cell := summed_up(policy, given.error, sorted(found[policy], key=lambda one: one["seed"])))
        numbers = [cell[name] or np.nan for name in ("settled", "model", "known", "known_always")]
        right, then = 100 * cell["labels_right"], 100 * np.array(cell["model_curve"] + [np.nan] * 15)[14]
        print(f"{policy:9}  {'  '.join(f'{each:13,.0f}' for each in numbers)}  {right:12.1f}  {then:11.1f}")
    name = "questions" + "-photos" * bool(given.data) + "-errors" * bool(given.error)
    save(given.out, name, about | {"every": EVERY, "cells": cells})


if __name__ == "__main__":
    main()
