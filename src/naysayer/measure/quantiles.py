"""Quantiles of the beta distribution by plain arithmetic: importing SciPy or NumPy would take longer than a plan."""

from __future__ import annotations

import math

# The double-exponential rule for integrals over t > 0: t = exp(u - exp(-u)), with equal steps of u; nodes and weights.
_STEP = 1 / 12
_RULE = [
    (t, _STEP * t * (1.0 + math.exp(-u)))
    for u, t in ((u, math.exp(u - math.exp(-u))) for u in (_STEP * i for i in range(-43, 55)))
]


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
    total = _integral(0.0, right, a, b) + _integral(0.0, -left, a, b)
    s = 0.0
    for _ in range(100):
        rest = _integral(s, right, a, b)
        ahead = min(1.0, math.log(rest / total / tail))  # no farther at once: beyond, the tail may underflow
        step = ahead * rest / math.exp(_log_density(s, a, b))
        s += step
        if abs(step) < 1e-9 * width:  # Newton doubles the digits: the next step would be below 1e-16
            break
    return a / (a + b * math.exp(-s))


def _integral(start: float, reach: float, a: float, b: float) -> float:
    """Integrate h from a start outwards, to the right or, where `reach` is negative, to the left."""
    least = _log_density(start, a, b) - 45.0
    total = 0.0
    for node, weight in _RULE:
        height = _log_density(start + reach * node, a, b)
        if height < least:
            break  # from here on, nothing is left
        total += weight * math.exp(height)
    return abs(reach) * total


def _log_density(s: float, a: float, b: float) -> float:
    """Give log h(s), written for the smaller of the two shares so that no digits are lost."""
    n = a + b
    share, s = (b / n, -s) if b < a else (a / n, s)
    s = min(s, 700.0)  # beyond, the exponential would overflow where h is 0
    return -n * (math.log1p(share * math.expm1(s)) - share * s)
