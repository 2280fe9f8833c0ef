"""Cross-fitting: rows dealt into parts, and each part predicted by a model that learned from the others.

What is estimated from such predictions is honest: no label judges a model that has seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Classes = NDArray[np.int64]


def deal(order: Rows, n_parts: int) -> list[Rows]:
    """Deal rows, which come in random order, into parts: one row to each in turn. The rows of a part are sorted.

    Examples
    --------
    >>> deal(np.array([4, 0, 3, 1, 2]), n_parts=2)
    [array([2, 3, 4]), array([0, 1])]
    """
    return [np.sort(order[part::n_parts]) for part in range(n_parts)]


def split(rng: np.random.Generator, n_rows: int, n_runs: int, n_held_out: int) -> tuple[Rows, Rows]:
    """Give the rows that each of S runs trains on and holds out, (S, N - h) and (S, h).

    The rows are dealt into parts of h in a random order, and again in another one when no whole part is left.

    Examples
    --------
    >>> rows, held_out = split(np.random.default_rng(0), n_rows=4, n_runs=3, n_held_out=2)
    >>> held_out
    array([[2, 0],
           [1, 3],
           [3, 2]])
    """
    rows, held_out = [], []
    order, start = rng.permutation(n_rows), 0
    for _ in range(n_runs):
        if start + n_held_out > n_rows:
            order, start = rng.permutation(n_rows), 0
        held_out.append(order[start : start + n_held_out])
        rows.append(np.concatenate([order[:start], order[start + n_held_out :]]))
        start += n_held_out
    return np.stack(rows), np.stack(held_out)


def others(rows: Rows, held_out: Rows) -> Rows:
    """The rows to learn from, sorted: those that are not held out."""
    return np.setdiff1d(rows, held_out)


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
