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
from naysayer.labels.drawing import complement, generator

Matrix = NDArray[np.float64]
DRAWS = 5  # of labels of the test images: seeds that share them would all be lucky, or none


class Labelling(NamedTuple):
    """A way in which labels come about."""

    title: str
    matrix: Callable[[int], Matrix | None]  # Q of K classes; None where labels are uniform
    n_labels: int = 1


class Labels(NamedTuple):
    """The labels of a data set: "not c" as (N,) classes, or several as (N, K) ruled out."""

    train: NDArray[Any]
    test: list[NDArray[Any]] | None  # of the test images, to estimate from: a draw per seed; None where nobody did
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
        "uniform": (0, "69076a00bc560ccdeb91d68de45d85e9e5c6a9a3f5199cdae58a4e46f41eca20"),
        "weak": (1, "74153dcd81693ed6e41cc179de4cafe385288c1b8ef14754744528ffd0423f80"),
        "strong": (2, "9f57329f11c411be3d3948f78cfa6c37ac444f5bf2bfb376bb546d97b92dbdc0"),
        "noisy": (3, "cc39b09b9fa07fb2a1cd745c71fa3a4a4ff23af4ff33801f52c7605a558235ea"),
        "several": (4, "c2469891b09ae8bd228353493a1677de640c317b996f034cdaba217ffc8cb715"),
    },
    "mnist": {
        "uniform": (5, "ccbc03be8e3e0ca1ed5866d6c92ef4c8295daff68d2f5116758aa1ecf0fcd7c1"),
        "weak": (6, "306a4088728e50011818ddc15082eed5cdcfcc38c647da4bfdbaf28e898f523d"),
        "strong": (7, "ad6ca240eb8f3f9d4083f64dbc0e652ad8f6266d86216e4662131d89bb2d00b3"),
        "noisy": (8, "d7f68b807fa9c1b1280a8d802a2a91a9fea20881236fc284a499c636ec12027a"),
        "several": (9, "599de2e2393d3717f8da006798cd2d1447d3c3d6d989d320314e4172ed71b224"),
    },
    "fashion": {
        "uniform": (10, "1ee3e1692a233128d053558a184181f8a64543f67a071438bdcc54eaa9bf6bb6"),
        "weak": (11, "3954da2db31d6bc48a75d21bf74f74496822a1f4434a900656d7810b96242cb1"),
        "strong": (12, "c3f88c7d777b01e2a992fbcc4d96daefda96b794b73eaf1becd4377bc40eaf05"),
        "noisy": (13, "c289eb0eca2a4b1463770acc258e671383d5bcd95e8686e4d993ffdf9d80110a"),
        "several": (14, "518a9b8768c15118f9edf9e28fba681fcddee5637221d976563c891692700aca"),
    },
    "kuzushiji": {
        "uniform": (15, "7121555ec960209a1549d9b727807b02af2ee887fc99318ce6fedc4890741e09"),
        "weak": (16, "9272361065bfa1adb3772891fb248a22815fc93ff1e6e7584c0262533026c89f"),
        "strong": (17, "2edfcfe8bb769c6a76e0572d2c69ea7597312a67592c4e7be30e5c617cfa7f8b"),
        "noisy": (18, "485ecaf4a8e3e38c05a6eced0f4f86110a5dd84ccd8c594430bd753c41b6c685"),
        "several": (19, "40c2accd9c2450511b41339ac73702012ebd909721d23d8df23555ad900e48e1"),
    },
    "cifar10": {
        "uniform": (20, "77993e31c1d3752721fffb945bf2b07d855ceeefa2e69f7fe26cba49ed23e74c"),
        "weak": (21, "7a30a79ccedfa5f5ee252cab2df08d258c8e8e35fb49c3b61b887a579c802e8f"),
        "strong": (22, "8aa430c5fb378a8fef3007c9f498f3c7583ba6a7aff555aefba321d885fe2766"),
        "noisy": (23, "2c06a8c887af286b135c4a8b74fe019c959a998299d3dd4fba633e9227730914"),
        "several": (24, "755891eb22e0938c4ec703229b19002a4c6c6a11f8ea6fe76797083f461dd33e"),
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
    q, rng = labelling.matrix(data.n_classes), generator(seed)
    train, *test = (
        complement(y, data.n_classes, n_labels=labelling.n_labels, transition=q, random_state=rng)
        for y in (data.y_train, *[data.y_test] * DRAWS)
    )
    return Labels(train, test, q)


def as_text(labels: Labels) -> str:
    """Give the labels as CSV: the part of the data set, the row in it from 0, and what that image is not.

    The labels of the test images for the runs of seed 0 are the part "test-0", and so on.

    Examples
    --------
    >>> print(as_text(Labels(np.array([3, 1]), [np.array([[False, True, True]])], None)))
    part,row,not
    train,0,3
    train,1,1
    test-0,0,1 2
    <BLANKLINE>
    """
    lines = ["part,row,not"]
    for part, y_bar in {"train": labels.train, **{f"test-{i}": y for i, y in enumerate(labels.test or [])}}.items():
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
