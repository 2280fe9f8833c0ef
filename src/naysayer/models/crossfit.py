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


def rotate(order: Rows, n_parts: int, n_held_out: int) -> tuple[Rows, Rows]:
    """Give the rows that each of S parts trains on and holds out, (S, N - h) and (S, h).

    The parts held out follow each other in the order given, and begin again where it ends: where S h is more than N, a
    row is held out by several.

    Examples
    --------
    >>> rotate(np.array([4, 0, 3, 1, 2]), n_parts=3, n_held_out=2)[1]
    array([[4, 0],
           [3, 1],
           [2, 4]])
    """
    starts = n_held_out * np.arange(n_parts)
    turned = order[(starts[:, None] + np.arange(len(order))) % len(order)]
    return turned[:, n_held_out:], turned[:, :n_held_out]


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
