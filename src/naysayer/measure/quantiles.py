"""Quantiles of the beta distribution by numpy alone; importing SciPy's takes longer than computing with these."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# The double-exponential rule for integrals over t > 0: t = exp(u - exp(-u)), with equal steps of u.
_STEP = 1 / 16
_U = np.arange(-3.75, 4.5, _STEP)
_NODES = np.exp(_U - np.exp(-_U))
_WEIGHTS = _STEP * _NODES * (1.0 + np.exp(-_U))


def beta_quantile(tail: float, a: float, b: float) -> float:
    r"""Give the value that a Beta(a, b) variable exceeds with probability `tail`.

    With :math:`s = \mathrm{logit}\, x - \log(a / b)` the density is, up to a factor,

    .. math:: h(s) = \exp(-(a + b)\, [\log(1 + p\,(e^s - 1)) - p s]), \qquad p = a / (a + b).

    It is smooth, 1 at its maximum s = 0, and falls off exponentially on both sides, so the double-exponential rule
    integrates it to nearly machine precision, however large or small a and b are. The logarithm of its tail's integral
    is concave, so Newton's method finds the quantile from any start.

    Parameters
    ----------
    tail : above 0, at most 0.5.
    a, b : above 0.

    Examples
    --------
    >>> round(beta_quantile(0.05, 2.0, 1.0) ** 2, 12)  # for b = 1, P(X > x) = 1 - x ** a
    0.95
    """
    width = math.sqrt(1.0 / a + 1.0 / b)
    right, left = width + 1.0 / b, width + 1.0 / a  # how far the density reaches

    def beyond(s: float, reach: float) -> float:
        return abs(reach) * float(_WEIGHTS @ _density(s + reach * _NODES, a, b))

    total = beyond(0.0, right) + beyond(0.0, -left)
    s = 0.0
    for _ in range(100):
        rest = beyond(s, right)
        ahead = min(1.0, math.log(rest / total / tail))  # no farther at once: beyond, the tail may underflow
        step = ahead * rest / float(_density(np.array(s), a, b))
        s += step
        if abs(step) < 1e-9 * width:  # Newton doubles the digits: the next step would be below 1e-16
            break
    return a / (a + b * math.exp(-s))


def _density(s: NDArray[np.float64], a: float, b: float) -> NDArray[np.float64]:
    """Give h(s), written for the smaller of the two shares so that no digits are lost."""
    n, share, s = (a + b, b / (a + b), -s) if b < a else (a + b, a / (a + b), s)
    s = np.minimum(s, 700.0)  # beyond, the exponential would overflow where h is 0
    return np.exp(-n * (np.log1p(share * np.expm1(s)) - share * s))
