"""Quantiles of the beta distribution: SciPy's where SciPy is accurate, and the normal limit where it is not."""

from __future__ import annotations

import math

import pytest
from scipy.stats import beta, norm

from naysayer.measure.planning import labels_needed
from naysayer.measure.quantiles import beta_quantile

TAILS = (0.5, 0.25, 0.025, 1e-3, 1e-6)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("n", [1, 2, 5, 30, 1000, 35_003, 10**6])
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.3, 0.5, 0.97, 0.9999])
def test_quantiles_are_those_of_scipy(tail, n, share):
    a, b = n * share + 1, n * (1 - share)
    assert beta_quantile(tail, a, b) == pytest.approx(beta.isf(tail, a, b), abs=1e-9 * beta.std(a, b), rel=1e-13)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.82])
def test_for_a_million_million_the_quantiles_are_normal_but_for_their_skewness(tail, share):
    """SciPy's are off by up to a thousandth of a standard deviation here."""
    n = 1e12
    a, b = n * share, n * (1 - share)
    deviation, z = math.sqrt(share * (1 - share) / (n + 1)), norm.isf(tail)
    skewness = 2 * (b - a) * math.sqrt(n + 1) / ((n + 2) * math.sqrt(a * b))
    expected = z + (z**2 - 1) / 6 * skewness
    assert (beta_quantile(tail, a, b) - share) / deviation == pytest.approx(expected, abs=1e-8)


def test_the_quantiles_of_powers_are_exact():
    for tail in TAILS:
        for power in (0.01, 0.3, 1.0, 7.0, 1e5):
            assert beta_quantile(tail, 1.0, power) == pytest.approx(-math.expm1(math.log(tail) / power), rel=1e-12)


@pytest.mark.parametrize(("n_classes", "accuracy"), [(2, 0.5), (3, 0.99), (10, 0.9), (100, 0.8), (26, 1.0)])
@pytest.mark.parametrize("margin", [0.2, 0.05, 0.01])
def test_plans_are_those_that_scipys_quantiles_give(monkeypatch, n_classes, accuracy, margin):
    plan = labels_needed(n_classes, margin, accuracy)
    monkeypatch.setattr("naysayer.measure.planning.beta_quantile", lambda tail, a, b: float(beta.isf(tail, a, b)))
    assert labels_needed(n_classes, margin, accuracy) == plan
