"""Cross-fitting: rows dealt into parts, and each part predicted by a model that learned from the others.

What is estimated from such predictions is honest: no label judges a model that has seen it. Several rows about one
example are a group, and no label judges a model that has seen another one of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import to_numpy
from naysayer.labels.reading import is_missing

Rows = NDArray[np.int64]
Classes = NDArray[np.int64]
Groups = NDArray[np.int64]


def deal(order: Rows, n_parts: int) -> list[Rows]:
    """Deal rows, which come in random order, into parts: one row to each in turn. The rows of a part are sorted.

    Examples
    --------
    >>> deal(np.array([4, 0, 3, 1, 2]), n_parts=2)
    [array([2, 3, 4]), array([0, 1])]
    """
    return [np.sort(order[part::n_parts]) for part in range(n_parts)]


def shuffled(rng: np.random.Generator, groups: Groups | None, n_rows: int) -> Rows:
    """Give the rows in a random order, those of a group one after the other.

    Examples
    --------
    >>> shuffled(np.random.default_rng(0), np.array([0, 1, 0, 1, 2]), 5)
    array([3, 1, 4, 2, 0])
    """
    order = rng.permutation(n_rows)
    if groups is None:
        return order
    place = rng.permutation(groups.max() + 1)
    return order[np.argsort(place[groups[order]], kind="stable")]


def check_groups(groups: Any, rows: NDArray[Any]) -> Groups | None:
    """Number the groups of some rows, a mask (N,), from 0 up; None if no two of these rows have the same name.

    Examples
    --------
    >>> check_groups(["a", "b", "a", None, None], np.ones(5, dtype=bool))
    array([0, 1, 0, 2, 3])
    """
    names = to_numpy(groups)
    if names.dtype.kind == "U" and isinstance(groups, (list, tuple)):  # in which NaN has become a text
        names = np.array(groups, dtype=object)
    if names.shape != rows.shape:
        raise ValueError(f"`groups` must have a name for each of {len(rows)} rows; got the shape {names.shape}")
    numbers: dict[Any, int] = {}
    chosen = [(row, name) for row, name in enumerate(names.tolist()) if rows[row]]
    found = [numbers.setdefault(("row", row) if is_missing(name) else name, len(numbers)) for row, name in chosen]
    if len(numbers) < 2:
        raise ValueError("`groups` must name at least 2 groups of labelled rows; got 1; leave it out")
    return None if len(numbers) == len(found) else np.array(found)


def split(
    rng: np.random.Generator, n_rows: int, n_runs: int, n_held_out: int, groups: Groups | None = None
) -> tuple[Rows, Rows]:
    """Give the rows that each of S runs trains on and holds out, (S, N - h) and (S, h).

    The rows are dealt into parts of h in a random order, and again in another one when no whole part is left. With
    groups (N,), numbers from 0 up, a run trains on no row of a group of which it holds some out. All runs train on as
    many rows as the one that has the fewest.

    Examples
    --------
    >>> rows, held_out = split(np.random.default_rng(0), n_rows=4, n_runs=3, n_held_out=2)
    >>> held_out
    array([[2, 0],
           [1, 3],
           [3, 2]])
    """
    rows, held_out = [], []
    order, start = shuffled(rng, groups, n_rows), 0
    for _ in range(n_runs):
        if start + n_held_out > n_rows:
            order, start = shuffled(rng, groups, n_rows), 0
        held_out.append(order[start : start + n_held_out])
        left = np.concatenate([order[:start], order[start + n_held_out :]])
        rows.append(left if groups is None else left[~np.isin(groups[left], groups[held_out[-1]])])
        start += n_held_out
    fewest = min(map(len, rows))
    return np.stack([one[:fewest] for one in rows]), np.stack(held_out)


def halves(rng: np.random.Generator, n_rows: int, groups: Groups | None = None) -> list[Rows]:
    """Give two halves of the rows in a random order; none has rows of a group that the other has rows of."""
    order = shuffled(rng, groups, n_rows)
    if groups is None:
        return np.array_split(order, 2)
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, ends[[np.abs(ends - n_rows / 2).argmin()]])


def others(rows: Rows, held_out: Rows, groups: Groups | None = None) -> Rows:
    """The rows to learn from, sorted: those that are not held out, nor of a group that is."""
    left = np.setdiff1d(rows, held_out)
    return left if groups is None else left[~np.isin(groups[left], groups[held_out])]


def predict_held_out(
    parts: Sequence[Rows] | Rows, n_rows: int, predict: Callable[[int, Rows], NDArray[np.int64]]
) -> Classes:
    """Predict each row by the first part that held it out, (N,); -1 where none did.

    Parameters
    ----------
    parts : the rows that each part holds out.
    n_rows : N
    predict : function (part, rows) → classes of these rows, by a model that learned from the others.

    Examples
    --------
    >>> predict_held_out([np.array([0, 1]), np.array([1, 2])], 4, lambda part, rows: np.full(len(rows), part))
    array([ 0,  0,  1, -1])
    """
    predicted = np.full(n_rows, -1)
    for part, rows in enumerate(parts):
        fresh = rows[predicted[rows] < 0]
        predicted[fresh] = predict(part, fresh)
    return predicted
