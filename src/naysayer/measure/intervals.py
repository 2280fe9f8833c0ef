"""Confidence bounds of the mean of a bounded variable, valid for few examples and at the ends of its range too."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import beta

Floats = NDArray[np.float64]


class Interval(NamedTuple):
    """An estimate between its confidence bounds: three floats, or three arrays for several estimates."""

    estimate: Any
    low: Any
    high: Any


def tail_probability(confidence: float) -> float:
    """The probability of missing the truth, on each side."""
    if not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise ValueError(f"`confidence` must lie between 0 and 1, as 0.95 does; got {confidence!r}")
    return (1.0 - float(confidence)) / 2.0


def mean_interval(
    values: Floats,
    end_low: float,
    end_high: float,
    tail: float,
    *,
    least: float = 0.0,
    counts: NDArray[np.int64] | None = None,
) -> Interval:
    """Gaffke's bounds of a mean of values between two ends; clipped to [least, 1], but never past the estimate."""
    counts = np.ones(len(values), dtype=np.int64) if counts is None else counts
    estimate = float(np.average(values, weights=counts))
    bounds = lower_bound(values, counts, end_low, tail), -lower_bound(-values, counts, -end_high, tail)
    low, high = np.clip(bounds, least, 1.0).tolist()
    return Interval(estimate, min(low, estimate), max(high, estimate))


def lower_bound(values: Floats, counts: NDArray[np.int64], end: float, tail: float) -> float:
    """Gaffke's lower bound of a mean: the `tail` quantile of Σ D_i z_i with `end` joined to the values."""
    # Rounded, since the entries of an inverse that should be equal differ in their last digits.
    points, place = np.unique(np.append(values, end).round(10), return_inverse=True)
    counts = np.bincount(place, weights=np.append(counts, 1)).astype(np.int64)
    if len(points) == 1:
        return float(points[0])
    width = points[-1] - points[0]
    if len(points) == 2:
        return float(points[0] + width * beta.ppf(tail, counts[1], counts[0]))
    scaled = (points - points[0]) / width
    root = brentq(lambda share: share_below(share, scaled, counts) - tail, 1e-14, 1.0 - 1e-14, xtol=1e-14)
    return float(points[0] + width * root)


def share_below(x: float, points: Floats, counts: NDArray[np.int64]) -> float:
    """P(Σ D_j z_j ≤ x) for D ~ Dirichlet(counts), by Lugannani and Rice's formula.

    It is P(Σ G_j λ_j ≤ 0) for gamma variables G_j and λ = z - x, whose cumulants are simple; the saddlepoint s is
    where their generating function is lowest. Against simulations of 2 to 100 examples, the tails of a 95% interval
    were off by at most 5% of themselves, mostly on the safe side.
    """
    gaps = points - x
    first, last = (1.0 - 1e-12) / gaps[0], (1.0 - 1e-12) / gaps[-1]
    s = brentq(lambda s: (counts * gaps / (1.0 - s * gaps)).sum(), first, last, xtol=1e-14 * (last - first))
    tilted = gaps / (1.0 - s * gaps)
    spread = float(np.sqrt((counts * tilted**2).sum()))
    r = float(np.sign(s) * np.sqrt(max(0.0, 2.0 * (counts * np.log1p(-s * gaps)).sum())))
    if abs(r) < 1e-3:  # at the mean the formula is 0 / 0; this is its limit
        correction = float((counts * tilted**3).sum()) / (3.0 * spread**3)
    else:
        correction = 1.0 / r - 1.0 / (s * spread)
    return float(ndtr(r)) + float(np.exp(-0.5 * r**2) / np.sqrt(2.0 * np.pi)) * correction
