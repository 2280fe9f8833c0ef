"""The labels of the benchmark: drawn from a seed, so that nobody has to fetch them, and the same for everybody.

A data set and a way of labelling make one file, a line per image, whose sha256 stands in :data:`DRAWN`. Whoever draws
labels that are not these is told so before anything is trained on them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.common.files import write_text
from naysayer.data.datasets import Dataset
from naysayer.labels import transition
from naysayer.labels.drawing import complement

Matrix = NDArray[np.float64]


class Labelling(NamedTuple):
    """A way in which labels come about."""

    title: str
    matrix: Callable[[int], Matrix | None]  # Q of K classes; None where labels are uniform
    n_labels: int = 1


class Labels(NamedTuple):
    """The labels of a data set: "not c" as (N,) classes, or several as (N, K) ruled out."""

    train: NDArray[Any]
    test: NDArray[Any] | None  # of the test images, to estimate the accuracy from; None where nobody labelled them
    transition: Matrix | None


def grouped(n_classes: int, shares: tuple[float, ...]) -> Matrix:
    """Divide the classes that follow the true one into groups, each of which gets its share of the labels.

    Examples
    --------
    >>> grouped(4, (0.5, 0.3, 0.2))[0]
    array([0. , 0.5, 0.3, 0.2])
    """
    q = np.zeros((n_classes, n_classes))
    for y in range(n_classes):
        others = (y + np.arange(1, n_classes)) % n_classes
        for group, share in zip(np.array_split(others, len(shares)), shares):
            q[y, group] = share / len(group)
    return q


LABELLINGS: dict[str, Labelling] = {
    "uniform": Labelling("uniform", lambda n_classes: None),
    "weak": Labelling("weakly biased", lambda n_classes: grouped(n_classes, (0.45, 0.30, 0.25))),
    "strong": Labelling("strongly biased", lambda n_classes: grouped(n_classes, (0.75, 0.24, 0.01))),
    # of ten classes 4 % of the labels name the true one, as 3.9 % of those that people gave to CIFAR-10 do
    "noisy": Labelling("noisy", lambda n_classes: transition.noisy(n_classes, 0.4 / n_classes)),
    "several": Labelling("three labels per image", lambda n_classes: None, n_labels=3),
}

# data set → labelling → the seed, and the sha256 of the file
DRAWN: dict[str, dict[str, tuple[int, str]]] = {
    "digits": {
        "uniform": (0, "ae9d0c5aee5b0ba0c209e4a629466424bb0c471630d1fa221f3f4c3fb224e3a9"),
        "weak": (1, "26051a17a9513a54073ae16f3fbdc7fb3352bbea21c82a0bd7a90e5f9b71f185"),
        "strong": (2, "6d0bdf0af5498d04103c89c60061ddad51ba96d4e5e5e11b9bcc2856b7596c18"),
        "noisy": (3, "84efe297ac58b04eff1a3d091c812b9ab854d4167734533767e77e11f68a7b01"),
        "several": (4, "5d31416ef0354c654b9e1c1e7642c48f3ec5ab6909e9c5986b50d894d598ff8b"),
    },
    "mnist": {
        "uniform": (5, "026361acd02495472e2d095d8fa6bbc8af01391ba04a35277eac4040c1ff3577"),
        "weak": (6, "6a31d94383ccee287c7a396798f4d7dae9d7ba35c24d3b4dbfb040e15a79ed4d"),
        "strong": (7, "5346eb0e2b1cdc2a440be0a2f9083e47798b16292118262875899009c10c080d"),
        "noisy": (8, "bf299ef0a3777ce48af2d791468407195a7a4d97f9303cbc9f612052d6e33828"),
        "several": (9, "15ed64b073bcbba7c18911c94da454ef0f414394e1a7e3dff7f7ff8c57e0b198"),
    },
    "fashion": {
        "uniform": (10, "0278ba10ec8aa204d66083cd4f08ce951e97f20658d4003fe149b2f020e1bea1"),
        "weak": (11, "bd27047be9a187c5a892c5c5c7e65bf77992ff9e310d5be324642b02cc32f40e"),
        "strong": (12, "1ed90929648d43e0ce19fe0c43da79ee32d5eca048012b655561ec30c021a887"),
        "noisy": (13, "79c55b7e29d710db95a428b8f26315652c5b8a38d32fe532bf7b125c0b6ea7f4"),
        "several": (14, "376401f86d05024a4708ef2d0d28eefaf6ff17eb7ceb5e09fff2ecf11958e247"),
    },
    "kuzushiji": {
        "uniform": (15, "fe0aecce9406a037171b4b091ac2933b6de18e1d9ca945e9593ef04a3dcfd90b"),
        "weak": (16, "1606dd7af16e5014b4cefaf6f89379ff74026e49c7262f02c30d4ffba5de3b4f"),
        "strong": (17, "0787464255216d50c3846f9a5afddac227077e17ee46bd9b236de739b35f7bfe"),
        "noisy": (18, "1d30365067bbc87d1101f0bf47d7d59d3ea0a0ee89df1f29883d7e814e564571"),
        "several": (19, "1c34e355596795b3a21f376ce575a3924165789e26915a152aca27bbc8fc8822"),
    },
    "cifar10": {
        "uniform": (20, "2864812aa0b31603b230c98c00a0dedf8f19fa2e337a6e5e6dc3811bf0062b7d"),
        "weak": (21, "fa866c0dfef219ba11c6b4c180a7184a0e7dacf0447e231d7c08d117fb86b436"),
        "strong": (22, "512c8974342f9dc899bef8a08cc9351d3bcdfe967a7804db76912a53688497ec"),
        "noisy": (23, "b95b075d1eef2501a6e625193c716611e07cbb64f3d123cb5b728ab64cd32cfb"),
        "several": (24, "a222d365a39851c07c688ef53841fad016d88c8fd9cfc43cd0988c930d29ce4f"),
    },
}


def draw(name: str, data: Dataset, labelling: str) -> Labels:
    """Draw the labels of a data set's images, those to train on and those to test on.

    Parameters
    ----------
    name : the data set, a key of :data:`DRAWN`.
    data : the same in memory.
    labelling : a key of :data:`LABELLINGS`.
    """
    seed, published = DRAWN[name][labelling]
    labels = _draw(data, LABELLINGS[labelling], seed)
    if (got := hashlib.sha256(as_text(labels).encode()).hexdigest()) != published:
        raise ValueError(
            f"labels {labelling!r} of {name!r} must have the sha256 {published[:12]}...; those drawn here have "
            f"{got[:12]}...; results from them would not compare: look at the versions of numpy and of the data"
        )
    return labels


def _draw(data: Dataset, labelling: Labelling, seed: int) -> Labels:
    q = labelling.matrix(data.n_classes)
    y = np.concatenate([data.y_train, data.y_test])
    y_bar = complement(y, data.n_classes, n_labels=labelling.n_labels, transition=q, random_state=seed)
    return Labels(y_bar[: len(data.y_train)], y_bar[len(data.y_train) :], q)


def as_text(labels: Labels) -> str:
    """Give the labels as CSV: the part of the data set, the row in it from 0, and what that image is not.

    Examples
    --------
    >>> print(as_text(Labels(np.array([3, 1]), np.array([[False, True, True]]), None)))
    part,row,not
    train,0,3
    train,1,1
    test,0,1 2
    <BLANKLINE>
    """
    lines = ["part,row,not"]
    for part, y_bar in (("train", labels.train), ("test", labels.test)):
        if y_bar is not None:
            said = y_bar if y_bar.ndim == 1 else [" ".join(map(str, np.flatnonzero(row))) for row in y_bar]
            lines += [f"{part},{row},{what}" for row, what in enumerate(said)]
    return "\n".join(lines) + "\n"


def write(name: str, data: Dataset, labellings: list[str], folder: Path) -> dict[Path, str]:
    """Write labels as files, with Q beside those that are not uniform; gives the files and their sha256."""
    written = {}
    for labelling in labellings:
        labels = draw(name, data, labelling)
        path = folder / f"{name}-{labelling}.csv"
        write_text(path, as_text(labels))
        written[path] = DRAWN[name][labelling][1]
        if labels.transition is not None:
            rows = "\n".join(",".join(map(repr, row)) for row in labels.transition.tolist())
            write_text(folder / f"{name}-{labelling}-transition.csv", rows + "\n")
    return written
