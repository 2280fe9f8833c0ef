"""What must hold of labels, classes and transition matrices; each checked once, at the public edge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import to_numpy


def check_n_classes(n_classes: Any) -> int:
    """Check that K is a whole number of at least 2."""
    if isinstance(n_classes, bool) or not isinstance(n_classes, (int, np.integer)) or n_classes < 2:
        raise ValueError(f"`n_classes` must be a whole number of at least 2; got {n_classes!r}")
    return int(n_classes)


def check_classes(y: Any, n_classes: int | None, *, name: str) -> NDArray[np.int64]:
    """Check a 1-D array of class indices; with `n_classes` None any index from 0 up will do."""
    y = to_numpy(y)
    if y.ndim != 1:
        raise ValueError(f"`{name}` must have one dimension; got shape {y.shape}")
    if len(y) == 0:
        raise ValueError(f"`{name}` must hold at least one label; got none")
    if y.dtype == object and all(map(_is_whole, y)):  # of a data frame with other columns
        y = np.array(y.tolist())
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all():
        y = y.astype(np.int64)
    if y.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must hold whole numbers (class indices); got {_kind(y)}")
    wrong = y < 0 if n_classes is None else (y < 0) | (y >= n_classes)
    if wrong.any():
        i = int(np.argmax(wrong))
        if n_classes is None:
            raise ValueError(f"`{name}` must hold classes from 0 up; got {y[i]} at row {i}")
        advice = f"; pass n_classes={int(y.max()) + 1}?" if y[i] >= n_classes else ""
        raise ValueError(f"`{name}` must hold classes 0 to {n_classes - 1}; got {y[i]} at row {i}{advice}")
    return y.astype(np.int64, copy=False)


def _kind(y: NDArray[Any]) -> str:
    """Say what an array that should hold whole numbers holds instead."""
    if y.dtype.kind == "f":
        i = int(np.argmax(~(np.isfinite(y) & (y == np.floor(y)))))
        return f"{y[i]} at row {i}"
    if y.dtype.kind not in "OUS":
        return f"dtype {y.dtype}"
    return f"values such as {next((value for value in y.tolist() if not _is_whole(value)), y[0])!r}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def check_labels(y_bar: Any, n_classes: int | None = None) -> tuple[NDArray[Any], int]:
    """Check labels in either encoding and return them with K.

    Examples
    --------
    >>> check_labels([2, 0])
    (array([2, 0]), 3)
    >>> check_labels([[True, False, False], [False, False, True]])[1]
    3
    """
    y_bar = to_numpy(y_bar)
    if n_classes is not None:
        n_classes = check_n_classes(n_classes)
    if y_bar.ndim == 1:
        y_bar = check_classes(y_bar, n_classes, name="y_bar")
        return y_bar, n_classes if n_classes is not None else max(2, int(y_bar.max()) + 1)
    if y_bar.ndim != 2:
        raise ValueError(f"`y_bar` must be (N,) classes or an (N, K) ruled-out matrix; got shape {y_bar.shape}")
    if y_bar.dtype == object and all(isinstance(value, (bool, np.bool_)) for value in y_bar.flat):
        y_bar = y_bar.astype(bool)  # a data frame of truth values that may be missing
    if y_bar.dtype != bool:
        if y_bar.dtype.kind not in "iuf" or not np.isin(y_bar, (0, 1)).all():
            raise ValueError("a 2-D `y_bar` must be a ruled-out matrix of True and False; got other values")
        y_bar = y_bar.astype(bool)
    if len(y_bar) == 0:
        raise ValueError("`y_bar` must hold at least one label; got none")
    if n_classes is not None and y_bar.shape[1] != n_classes:
        raise ValueError(f"a 2-D `y_bar` must have n_classes = {n_classes} columns; got {y_bar.shape[1]}")
    if y_bar.shape[1] < 2:
        raise ValueError(f"a 2-D `y_bar` must have at least 2 columns, one per class; got {y_bar.shape[1]}")
    impossible = y_bar.all(axis=1)
    if impossible.any():
        i = int(np.argmax(impossible))
        raise ValueError(
            f"each row of `y_bar` must leave a class possible; row {i} rules out all {y_bar.shape[1]}; drop that row"
        )
    return y_bar, y_bar.shape[1]


def check_weight(sample_weight: Any, n: int, *, is_part: bool = False) -> NDArray[np.float64]:
    """Check the weights of n examples; those of a part of the data may all be 0."""
    weight = to_numpy(sample_weight)
    if weight.ndim != 1 or len(weight) != n:
        raise ValueError(f"`sample_weight` must hold {n} numbers, one per row of `y_bar`; got shape {weight.shape}")
    if weight.dtype.kind not in "fiub":
        raise ValueError(f"`sample_weight` must hold numbers; got dtype {weight.dtype}")
    weight = weight.astype(np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"`sample_weight` must be finite and not negative; got {weight[i]} at row {i}")
    if not is_part and not weight.any():
        raise ValueError("`sample_weight` must be above 0 in at least one row; got only zeros")
    return weight


def alike(names: Iterable[str]) -> str | None:
    """Name classes or categories that differ only in case or spaces, and may be the same; None where none do.

    Examples
    --------
    >>> alike(["Cat", "dog", "cat"])
    "'Cat' and 'cat'"
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault("".join(name.casefold().split()), []).append(name)
    return ", ".join(" and ".join(map(repr, group)) for group in groups.values() if len(group) > 1) or None


def check_transition(transition: Any, n_classes: int | None = None) -> NDArray[np.float64]:
    """Check that Q is square, of the right size, and that its rows are distributions."""
    try:
        q = np.asarray(to_numpy(transition), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("`transition` must be a (K, K) matrix of numbers") from None
    if q.ndim != 2 or q.shape[0] != q.shape[1] or q.size == 0:
        raise ValueError(f"`transition` must be a square (K, K) matrix; got shape {q.shape}")
    if n_classes is not None and len(q) != n_classes:
        raise ValueError(f"`transition` must be ({n_classes}, {n_classes}), one row per class; got {q.shape}")
    if not np.isfinite(q).all() or (q < 0).any():
        raise ValueError("`transition` must hold probabilities; got negative or non-finite entries")
    if np.abs(q.sum(axis=1) - 1).max() > 1e-6:
        y = int(np.argmax(np.abs(q.sum(axis=1) - 1)))
        raise ValueError(f"each row of `transition` must sum to 1; row {y} sums to {q[y].sum():.6g}")
    return q
