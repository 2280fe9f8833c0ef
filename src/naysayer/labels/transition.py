r"""How labels came to be observed: the transition matrix Q, :math:`Q_{yc} = P(\text{label} = c \mid \text{class} = y)`.

Rows are true classes and sum to 1. A zero diagonal means that labels never err; Q must be invertible for
the unbiased estimates, since a label c then weighs the classes by row c of :math:`Q^{-1}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysayer.labels.checks import check_classes, check_n_classes, check_transition

__all__ = [
    "LARGEST_CONDITION",
    "biased",
    "estimate",
    "inverse",
    "noisy",
    "uniform",
]

LARGEST_CONDITION = 1e5  # beyond this the weights are so large that no estimate means anything


def uniform(n_classes: int) -> NDArray[np.float64]:
    """Every class but the true one is equally likely: the paper's assumption.

    Examples
    --------
    >>> uniform(3)
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    n_classes = check_n_classes(n_classes)
    return (1.0 - np.eye(n_classes)) / (n_classes - 1)


def biased(weights: ArrayLike) -> NDArray[np.float64]:
    """Some wrong classes are named more often than others; the true one never is.

    Parameters
    ----------
    weights : (K,) how often each class is asked about ("is it c?", answered no), the same for every
        example; or (K, K), row y for examples of class y. Rows need not sum to 1; the diagonal is ignored.

    Examples
    --------
    >>> biased([2, 1, 1])  # class 0 is asked about twice as often
    array([[0.        , 0.5       , 0.5       ],
           [0.66666667, 0.        , 0.33333333],
           [0.66666667, 0.33333333, 0.        ]])
    """
    w = np.asarray(weights, dtype=np.float64)
    if w.ndim == 1:
        w = np.tile(w, (len(w), 1))
    if w.ndim != 2 or w.shape[0] != w.shape[1] or len(w) < 2:
        raise ValueError(f"`weights` must have shape (K,) or (K, K) with K at least 2; got {np.shape(weights)}")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("`weights` must be finite and not negative")
    w = w * (1.0 - np.eye(len(w)))
    total = w.sum(axis=1, keepdims=True)
    if (total == 0).any():
        raise ValueError(f"`weights` must leave each class a label to draw; class {int(np.argmin(total))} has none")
    return w / total


def noisy(n_classes: int, rate: float, base: ArrayLike | None = None) -> NDArray[np.float64]:
    """Labels are sometimes wrong: with probability `rate` the label names the true class itself.

    .. math:: Q = (1 - \\text{rate})\\, Q_{\\text{base}} + \\text{rate}\\, I

    Parameters
    ----------
    n_classes : K
    rate : from 0 to 1. At 1/K with a uniform base, labels carry no information and Q is singular.
    base : Q of the labels that do not err; uniform if None.

    Examples
    --------
    >>> noisy(3, 0.1)
    array([[0.1 , 0.45, 0.45],
           [0.45, 0.1 , 0.45],
           [0.45, 0.45, 0.1 ]])
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"`rate` must be from 0 to 1; got {rate}")
    q = uniform(n_classes) if base is None else check_transition(base, n_classes)
    return (1.0 - rate) * q + rate * np.eye(n_classes)


def estimate(y_bar: ArrayLike, y_true: ArrayLike, n_classes: int, *, strength: float = 1.0) -> NDArray[np.float64]:
    """Estimate Q from a small set of examples that have both kinds of label.

    .. math:: \\hat Q_{yc} = \\frac{n_{yc} + \\text{strength}\\, U_{yc}}{n_y + \\text{strength}}

    Use examples set aside for this, not the training set: it has no true labels.

    Parameters
    ----------
    y_bar : (N,) complementary labels.
    y_true : (N,) true classes of the same examples.
    n_classes : K
    strength : how many examples the uniform matrix U counts for, in each row; 0 gives the plain frequencies.

    Examples
    --------
    >>> estimate([1, 1, 2, 0, 0], [0, 0, 0, 1, 2], n_classes=3, strength=1.0).round(3)
    array([[0.   , 0.625, 0.375],
           [0.75 , 0.   , 0.25 ],
           [0.75 , 0.25 , 0.   ]])
    """
    n_classes = check_n_classes(n_classes)
    labels = check_classes(y_bar, n_classes, name="y_bar")
    truth = check_classes(y_true, n_classes, name="y_true")
    if len(labels) != len(truth):
        raise ValueError(f"`y_bar` and `y_true` must have the same length; got {len(labels)} and {len(truth)}")
    if not strength >= 0:
        raise ValueError(f"`strength` must not be negative; got {strength}")
    counts = np.bincount(truth * n_classes + labels, minlength=n_classes**2).reshape(n_classes, n_classes)
    rows = counts.sum(axis=1, keepdims=True) + strength
    if (rows == 0).any():
        raise ValueError(
            f"each class must occur in `y_true` when strength is 0; class {int(np.argmin(rows))} does not; "
            f"pass strength=1"
        )
    return (counts + strength * uniform(n_classes)) / rows


def inverse(transition: Any, n_classes: int | None = None) -> NDArray[np.float64]:
    r"""Invert Q, whose row c then holds the unbiased weights of the label c.

    .. math:: \sum_c Q_{yc}\, (Q^{-1})_{ck} = [k = y]

    A singular or ill-conditioned Q is refused, with its condition number.

    Examples
    --------
    >>> inverse(uniform(3)).round(6) + 0.0
    array([[-1.,  1.,  1.],
           [ 1., -1.,  1.],
           [ 1.,  1., -1.]])
    """
    q = check_transition(transition, n_classes)
    condition = float(np.linalg.cond(q))
    if not condition <= LARGEST_CONDITION:
        raise ValueError(
            f"`transition` must be invertible to give unbiased estimates; its condition number is {condition:.3g} "
            f"(at most {LARGEST_CONDITION:.0e}); such labels say too little about the classes"
        )
    return np.asarray(np.linalg.inv(q), dtype=np.float64)
