"""The demo: the paper's five methods learn scikit-learn's digits from labels that only say "not this digit"."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.common.files import whole_file
from naysayer.common.progress import progress_bar
from naysayer.data import datasets
from naysayer.engine import networks
from naysayer.engine.population import Population
from naysayer.labels.drawing import complement, generator
from naysayer.measure import metrics
from naysayer.measure.intervals import Interval
from naysayer.objectives import OBJECTIVES

METHODS = {
    "forward": "Forward",
    "pairwise": "Pairwise comparison",
    "free": "Free",
    "max": "Max operator",
    "ascent": "Gradient ascent",
}
COLOURS = {  # Okabe and Ito's, told apart by colour-blind readers too
    "forward": "#0072B2",
    "pairwise": "#009E73",
    "free": "#999999",
    "max": "#E69F00",
    "ascent": "#D55E00",
}
ANSWERS = (1, 2, 3, 5, 9)  # "no" answers per image; 9 leave one class, which is an ordinary label
TEST_ANSWERS = 3  # of the test images, to estimate accuracy from
RATES = (3e-3, 1e-2)
SEEDS = 4


class Attempt(NamedTuple):
    """One method, trained with so many answers per image."""

    method: str
    n_answers: int
    curve: NDArray[Any]  # (epochs, seeds) test accuracy at the chosen learning rate
    true_accuracy: float  # at the chosen epoch, mean over the seeds
    estimated: Interval  # the first seed's accuracy, from the test images' own "no" answers alone
    true_of_estimated: float  # what that estimates: the first seed's true test accuracy


def run(*, epochs: int = 50, seed: int = 0, device: str = "auto", show: bool = True) -> list[Attempt]:
    """Train every method with every number of answers, all seeds and learning rates of one as a population."""
    digits = datasets.load("digits")
    rng = generator(seed)
    n, n_classes = len(digits.y_train), digits.n_classes
    held = n // 5
    order = rng.permutation(n)
    rows = np.stack([np.roll(order, s * held)[held:] for s in range(SEEDS)] * len(RATES))
    held_out = np.stack([np.roll(order, s * held)[:held] for s in range(SEEDS)] * len(RATES))
    test_labels = complement(digits.y_test, n_classes, n_labels=TEST_ANSWERS, random_state=rng)
    trials = []
    with progress_bar(len(ANSWERS) * len(METHODS) * epochs, "training", show=show) as bar:
        for n_answers in ANSWERS:
            y_bar = complement(digits.y_train, n_classes, n_labels=n_answers, random_state=rng)
            for method, title in METHODS.items():
                bar(0, f"{title}, {n_answers} answers per image")
                runs = Population(
                    lambda: networks.mlp(digits.X_train.shape[1], n_classes, (128,)),
                    OBJECTIVES[method](n_classes),
                    seeds=[seed + s for s in range(SEEDS)] * len(RATES),
                    lr=np.repeat(RATES, SEEDS).tolist(),
                    weight_decay=1e-4,
                    batch_size=64,
                    device=device,
                )
                runs.fit(
                    digits.X_train,
                    y_bar,
                    max_epochs=epochs,
                    rows=rows,
                    validation_rows=held_out,
                    test=(digits.X_test, digits.y_test),
                    groups=np.repeat(np.arange(len(RATES)), SEEDS).tolist(),
                    bar=bar,
                )
                if runs.interrupted:
                    raise KeyboardInterrupt
                first = int(np.argmax(runs.best_score))
                chosen = slice(first, first + SEEDS)
                curve = runs.history["test_accuracy"][:, chosen]
                predicted = runs.logits(digits.X_test, run=first).argmax(-1).numpy()
                trials.append(
                    Attempt(
                        method,
                        n_answers,
                        curve,
                        float(curve[runs.best_epoch[first]].mean()),
                        metrics.accuracy_interval(test_labels, predicted, n_classes),
                        float((predicted == digits.y_test).mean()),
                    )
                )
    return trials


def plot(trials: list[Attempt], path: str | os.PathLike[str]) -> None:
    """Draw the three panels of the demo as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style: Any = {"axes.spines.top": False, "axes.spines.right": False, "font.size": 10, "axes.titlesize": 11}
    with plt.rc_context(style):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
        single = [t for t in trials if t.n_answers == 1]
        _draw_curves(left, single)
        _draw_estimates(middle, single)
        _draw_answers(right, trials)
        figure.suptitle('Learning digits from labels that only say "not this one"', fontsize=14, x=0.005, ha="left")
        spacing: Any = figure.get_layout_engine()
        spacing.set(wspace=0.06)
        with whole_file(path) as temporary:
            figure.savefig(temporary, dpi=150, format="png")
        plt.close(figure)


def _draw_curves(axes: Any, trials: list[Attempt]) -> None:
    """Test accuracy over the epochs, mean and deviation over the seeds."""
    ends = []
    for trial in trials:
        epochs = 1 + np.arange(len(trial.curve))
        mean, deviation = trial.curve.mean(axis=1), trial.curve.std(axis=1)
        axes.fill_between(epochs, mean - deviation, mean + deviation, color=COLOURS[trial.method], alpha=0.18, lw=0)
        axes.plot(epochs, mean, color=COLOURS[trial.method], lw=1.8)
        ends.append((mean[-1], METHODS[trial.method], COLOURS[trial.method]))
    _label_ends(axes, ends, len(trials[0].curve) * 1.02)
    axes.set(xlabel="epoch", ylabel="test accuracy", ylim=(0, 1), xlim=(1, max(2, len(trials[0].curve))))
    axes.set_title("One “no” per image: accuracy while learning", loc="left")
    axes.axhline(0.1, color="0.6", lw=0.8, ls=":")
    axes.text(0.99, 0.105, "guessing", color="0.45", fontsize=8, ha="right", transform=axes.get_yaxis_transform())


def _draw_estimates(axes: Any, trials: list[Attempt]) -> None:
    """Accuracy as estimated from complementary labels alone, with its interval, beside the truth."""
    for place, trial in enumerate(reversed(trials)):
        estimate, low, high = trial.estimated
        colour = COLOURS[trial.method]
        axes.plot([low, high], [place, place], color=colour, lw=3, alpha=0.35, solid_capstyle="round")
        axes.plot(estimate, place, "o", color=colour, ms=8)
        axes.plot(trial.true_of_estimated, place, "|", color="black", ms=20, mew=2)
    axes.set_yticks(range(len(trials)), [METHODS[t.method] for t in reversed(trials)])
    axes.set(xlabel="accuracy", xlim=(0, 1), ylim=(-0.6, len(trials) - 0.4))
    axes.set_title("Estimated from “no” labels (dot), true (bar)", loc="left")


def _draw_answers(axes: Any, trials: list[Attempt]) -> None:
    """Accuracy against the number of answers per image; the colours are named in the first panel."""
    for method in METHODS:
        mine = [t for t in trials if t.method == method]
        x, y = [t.n_answers for t in mine], [t.true_accuracy for t in mine]
        axes.plot(x, y, "o-", color=COLOURS[method], lw=1.8, ms=5)
    labels = [*map(str, ANSWERS[:-1]), "9\n(ordinary)"]
    axes.set_xticks(ANSWERS, labels)
    axes.set(xlabel="“no” answers per image", ylabel="test accuracy", ylim=(0, 1))
    axes.set_title("More “no” answers per image", loc="left")


def _label_ends(axes: Any, ends: list[tuple[float, str, str]], x: float) -> None:
    """Write each line's name at its end, moved apart where two would overlap."""
    gap, last = 0.055, -1.0
    places = []
    for y, _, _ in sorted(ends):
        last = max(y, last + gap)
        places.append(last)
    shift = max(0.0, places[-1] - 1.0)
    for (_, title, colour), y in zip(sorted(ends), places, strict=True):
        axes.annotate(title, (x, y - shift), color=colour, va="center", fontsize=9, annotation_clip=False)
