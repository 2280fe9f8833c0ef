"""Planning: the variances by enumeration, the margins against intervals of simulated labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from helpers import answers, ordinary_labels, raises, single_rows
from naysayer import complement, metrics, transition
from naysayer.measure.planning import LEAST_MARGIN, Plan, _contradiction, labels_needed, labels_to_show, margin_reached

KINDS = Plan._fields
CASES = [(K, accuracy) for K in (2, 3, 10) for accuracy in (0.5, 0.9, 0.99)]


def outcomes(kind, n_classes):
    """All labels of an example of class y, as functions of y."""
    if kind == "ordinary":
        return ordinary_labels(n_classes)
    if kind == "complementary":
        return single_rows(transition.uniform(n_classes))
    return answers(np.full(n_classes, 1 / n_classes))


def variance(kind, n_classes, accuracy):
    """The exact variance of W[ŷ] when ŷ is right with probability p and otherwise any other class."""
    first = second = 0.0
    for predicted in range(n_classes):  # the truth is class 0
        chance = accuracy if predicted == 0 else (1 - accuracy) / (n_classes - 1)
        for p, row in outcomes(kind, n_classes)(0):
            value = metrics.accuracy_score(row[None], [predicted], n_classes)
            first += chance * p * value
            second += chance * p * value**2
    return second - first**2


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_contradictions_have_the_variance_of_the_labels(kind, n_classes, accuracy):
    cost, share = _contradiction(kind, n_classes, accuracy)
    assert cost**2 * share * (1 - share) == pytest.approx(variance(kind, n_classes, accuracy), abs=1e-12)


def test_the_documented_variances():
    p, K = 0.8, 6
    f = (1 - p) / (K - 1)
    documented = p * (1 - p), (K - 1) ** 2 * f * (1 - f), p + (1 - p) * (K - 2) * (K - 1) / K - p**2
    assert [variance(kind, K, p) for kind in KINDS] == pytest.approx(documented)


@pytest.mark.parametrize(("n_classes", "accuracy"), CASES)
def test_small_margins_need_what_the_normal_formula_says(n_classes, accuracy):
    plan = labels_needed(n_classes, 1e-4, accuracy, confidence=0.9)
    for kind, n in plan._asdict().items():
        assert n == pytest.approx(norm.ppf(0.95) ** 2 * variance(kind, n_classes, accuracy) / 1e-8, rel=0.02)


def draw(kind, n, n_classes, accuracy, rng):
    """Labels of n examples, and predictions that are right with the given probability."""
    y = rng.integers(n_classes, size=n)
    y_pred = np.where(rng.random(n) < accuracy, y, (y + rng.integers(1, n_classes, size=n)) % n_classes)
    if kind == "complementary":
        return complement(y, n_classes, random_state=rng), y_pred
    asked = y if kind == "ordinary" else rng.integers(n_classes, size=n)
    rows = np.eye(n_classes, dtype=bool)
    return np.where((asked == y)[:, None], ~rows[y], rows[asked]), y_pred


def mean_half_width(kind, n, n_classes, accuracy, trials=60):
    """The average over simulated labels."""
    rng = np.random.default_rng(0)
    drawn = (draw(kind, n, n_classes, accuracy, rng) for _ in range(trials))
    widths = [high - low for _, low, high in (metrics.accuracy_interval(*labels, n_classes) for labels in drawn)]
    return np.mean(widths) / 2


@pytest.mark.parametrize("margin", [0.05, 0.15])
@pytest.mark.parametrize(("n_classes", "accuracy"), [*CASES, (3, 1.0), (10, 1.0), (10, 0.1)])
@pytest.mark.parametrize("kind", KINDS)
def test_planned_labels_reach_the_margin(kind, n_classes, accuracy, margin):
    n = getattr(labels_needed(n_classes, margin, accuracy), kind)
    assert mean_half_width(kind, n, n_classes, accuracy) == pytest.approx(margin, rel=0.1)


def test_the_normal_formula_alone_would_not():
    """At 99% the normal formula asks for 138 labels; their intervals are more than twice as wide as planned."""
    n = round(1.96**2 * variance("complementary", 10, 0.99) / 0.05**2)
    assert mean_half_width("complementary", n, 10, 0.99) > 2 * 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_classes", "accuracy"), [*CASES, (5, 0.0), (5, 1.0), (2, 0.0)])
def test_needed_and_reached_are_inverse(kind, n_classes, accuracy):
    for margin in (0.01, 0.07, 0.3):
        n = getattr(labels_needed(n_classes, margin, accuracy, 0.8), kind)
        assert margin_reached(n_classes, n, accuracy, kind, 0.8) <= margin
        assert n == 1 or margin_reached(n_classes, n - 1, accuracy, kind, 0.8) > margin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accuracy", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_more_labels_never_widen_the_margin(kind, accuracy):
    margins = [margin_reached(4, n, accuracy, kind) for n in range(1, 300)]
    assert (np.diff(margins) <= 0).all()
    assert 0 < margins[-1] < margins[0] <= 0.5


def test_no_contradiction_leaves_the_exact_bound():
    assert margin_reached(10, 100, 1.0) == pytest.approx(9 * (1 - 0.025 ** (1 / 100)) / 2)
    _, low, high = metrics.accuracy_interval([1, 2] * 25, [0] * 50, 3)
    assert margin_reached(3, 50, 1.0) == pytest.approx((high - low) / 2)


def test_margins_are_those_of_the_interval_when_the_outcome_is_the_average():
    y_bar, y_pred = np.ones(200, dtype=int), np.arange(200) < 10  # 10 contradictions: 1 - 2 * 10 / 200
    _, low, high = metrics.accuracy_interval(y_bar, y_pred.astype(int), 3, confidence=0.9)
    assert margin_reached(3, 200, 0.9, confidence=0.9) == pytest.approx((high - low) / 2)


@pytest.mark.parametrize(("n_classes", "accuracy"), [(2, 0.95), (2, 0.75), (3, 0.67), (10, 0.55), (10, 0.95)])
def test_the_labels_to_show_an_accuracy_are_those_whose_interval_excludes_guessing(n_classes, accuracy):
    def low(n, contradictions):
        predicted = np.arange(n) >= contradictions  # class 0, which every label rules out, or class 1
        return metrics.accuracy_interval(np.zeros(n, dtype=int), predicted.astype(int), n_classes).low

    guessing, share = 1 / n_classes, (1 - accuracy) / (n_classes - 1)
    n = labels_to_show(n_classes, accuracy, guessing)
    assert low(n, int(np.floor(n * share))) > guessing
    assert low(n - 1, int(np.ceil((n - 1) * share))) <= guessing
    assert labels_to_show(n_classes, accuracy, guessing, wider=1.4) > n

    def ordinary_low(n, wrong):
        said = np.arange(n_classes) != (np.arange(n) >= wrong)[:, None]  # says class 1, or class 0 where that is wrong
        return metrics.accuracy_interval(said, np.ones(n, dtype=int), n_classes).low

    n = labels_to_show(n_classes, accuracy, guessing, ruled_out=n_classes - 1)
    assert ordinary_low(n, int(np.floor(n * (1 - accuracy)))) > guessing
    assert ordinary_low(n - 1, int(np.ceil((n - 1) * (1 - accuracy)))) <= guessing
    with raises(f"`ruled_out` must be from 1 to {n_classes - 1} of {n_classes} classes; got {n_classes}"):
        labels_to_show(n_classes, accuracy, guessing, ruled_out=n_classes)
    with raises(f"`least` must be from 0 to less than the accuracy; got {accuracy} and {accuracy}"):
        labels_to_show(n_classes, accuracy, accuracy)


def test_plans_are_ordered_and_agree_for_two_classes():
    plan = labels_needed(10, 0.02)
    assert plan.ordinary < plan.yes_no < plan.complementary
    assert all(type(n) is int for n in plan)
    for accuracy in (0.0, 0.3, 0.9, 1.0):
        assert len(set(labels_needed(2, 0.03, accuracy))) == 1


def test_a_wide_margin_needs_one_label():
    assert labels_needed(10, 0.5) == (1, 1, 1)


def test_the_least_margin_is_still_accurate():
    plan = labels_needed(3, LEAST_MARGIN, 0.7)
    for kind, n in plan._asdict().items():
        assert n == pytest.approx(norm.ppf(0.975) ** 2 * variance(kind, 3, 0.7) / LEAST_MARGIN**2, rel=1e-3)


def test_bad_arguments_are_named():
    for margin in (0, -0.1, 0.6, 5, float("nan"), "wide"):
        with raises(f"`margin` must be from 1e-06 to 0.5; got {margin!r}; five points are 0.05"):
            labels_needed(3, margin)
    for accuracy in (-0.1, 90, float("nan"), None):
        with raises(f"`accuracy` must be from 0 to 1; got {accuracy!r}; ninety percent is 0.9"):
            labels_needed(3, 0.05, accuracy)
        with raises(f"`accuracy` must be from 0 to 1; got {accuracy!r}"):
            margin_reached(3, 100, accuracy)
    for confidence in (0, 1, 95, "high"):
        with raises(f"`confidence` must lie between 0 and 1, as 0.95 does; got {confidence!r}"):
            labels_needed(3, 0.05, confidence=confidence)
    for n_classes in (1, 2.5, True):
        with raises(f"`n_classes` must be a whole number of at least 2; got {n_classes!r}"):
            labels_needed(n_classes, 0.05)
    for n_labels in (0, 10.0, True):
        with raises(f"`n_labels` must be a whole number of at least 1; got {n_labels!r}"):
            margin_reached(3, n_labels)
    with raises("`kind` must be one of ordinary, complementary, yes_no; got 'yes/no'"):
        margin_reached(3, 100, kind="yes/no")
