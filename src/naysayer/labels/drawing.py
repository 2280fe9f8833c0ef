"""Complementary labels drawn for examples whose classes are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysayer.labels.checks import check_classes, check_n_classes, check_transition

RandomState = int | np.random.Generator | np.random.RandomState | None

_CHUNK = 1 << 20  # elements of scratch memory per chunk of `complement`


def generator(random_state: RandomState) -> np.random.Generator:
    """Turn any way of naming a seed into a local generator; the global state is never touched."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    try:
        if isinstance(random_state, (int, np.integer)) and random_state >= 0:
            # Mixed with a number of our own: truth drawn from the plain seed must not decide the labels.
            return np.random.default_rng([int(random_state), 0x6E6F])
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"`random_state` must be None, a whole number from 0 up, or a numpy generator; got {random_state!r}"
        ) from None


def complement(
    y: ArrayLike,
    n_classes: int,
    *,
    n_labels: int = 1,
    transition: ArrayLike | None = None,
    random_state: RandomState = None,
) -> NDArray[Any]:
    r"""Draw complementary labels for examples whose true classes are known.

    .. math:: P(\bar y = c \mid y) = Q_{yc}, \qquad Q_{yc} = \tfrac{1}{K-1}[c \ne y] \text{ unless given}

    Parameters
    ----------
    y : (N,) integers from 0 to K - 1, the true classes.
    n_classes : K, at least 2.
    n_labels : s, how many distinct classes are ruled out for each example, 1 to K - 1.
    transition : (K, K) matrix Q, rows = true class; see :mod:`naysayer.labels.transition`.
        With several labels, class c is among them with probability s Q[y, c].
    random_state : seed or numpy generator.

    Returns
    -------
    (N,) int64 when ``n_labels == 1``, else the (N, K) ruled-out matrix.

    Examples
    --------
    >>> complement([0, 1, 2, 2], n_classes=3, random_state=0)
    array([2, 2, 0, 1])
    >>> complement([0, 1], n_classes=4, n_labels=3, random_state=0)  # all but the truth
    array([[False,  True,  True,  True],
           [ True, False,  True,  True]])
    """
    y = check_classes(y, check_n_classes(n_classes), name="y")
    if isinstance(n_labels, bool) or not isinstance(n_labels, (int, np.integer)) or not 1 <= n_labels <= n_classes - 1:
        raise ValueError(
            f"`n_labels` must be a whole number from 1 to n_classes - 1 = {n_classes - 1}; got {n_labels!r}"
        )
    rng = generator(random_state)
    if n_labels > 1:
        return _draw_sets(y, n_classes, int(n_labels), transition, rng)
    if transition is None:
        shift = rng.integers(1, n_classes, size=len(y))
        return (y + shift) % n_classes
    return _draw_from_rows(y, check_transition(transition, n_classes), rng)


def _draw_from_rows(y: NDArray[np.int64], q: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one class from row y_i of q for every i, by one search in all the rows' cumulative sums."""
    n_classes = len(q)
    cumulative = np.cumsum(q, axis=1)
    last = n_classes - 1 - np.argmax(q[:, ::-1] > 0, axis=1)  # the last class that can be drawn at all
    steps = (cumulative / cumulative[:, -1:] + np.arange(n_classes)[:, None]).ravel()
    drawn = np.searchsorted(steps, y + rng.random(len(y)), side="right") - y * n_classes
    return np.minimum(drawn, last[y])


def _draw_sets(
    y: NDArray[np.int64], n_classes: int, n_labels: int, transition: ArrayLike | None, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw sets of `n_labels` classes: uniformly among those that miss y, or with inclusion probability s Q[y, c]."""
    inclusion = None
    if transition is not None:
        if n_labels == n_classes - 1:
            raise ValueError(
                f"`n_labels` must be less than n_classes - 1 = {n_labels} with a `transition`: "
                f"that many leave one class, and are an ordinary label"
            )
        inclusion = n_labels * check_transition(transition, n_classes)
        if inclusion.max() > 1 + 1e-9:
            raise ValueError(
                f"`n_labels` times the largest entry of `transition` must be at most 1, since a class is drawn once; "
                f"got {n_labels} x {inclusion.max() / n_labels:.3g}; draw fewer labels"
            )
    ruled = np.zeros((len(y), n_classes), dtype=bool)
    size = max(1, _CHUNK // n_classes)
    for start in range(0, len(y), size):
        part = y[start : start + size]
        rows = np.arange(len(part))[:, None]
        keys = rng.random((len(part), n_classes))
        if inclusion is None:
            keys[rows[:, 0], part] = 2.0  # the truth sorts last and is never taken
            chosen = np.argpartition(keys, n_labels - 1, axis=1)[:, :n_labels]
            ruled[start + rows, chosen] = True
            continue
        # Systematic sampling in random order: points u, u + 1, ... on a line where class c takes up s Q[y, c].
        order = np.argsort(keys, axis=1)
        ends = np.cumsum(inclusion[part[:, None], order], axis=1)
        ends[:, -1] = n_labels
        offset = 1.0 - rng.random((len(part), 1))  # in (0, 1]
        reached = np.floor(np.minimum(ends, n_labels) - offset)
        taken = np.diff(reached, axis=1, prepend=-1.0) > 0
        ruled[start + rows, order] = taken
    return ruled
