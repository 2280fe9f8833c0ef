"""Scores from complementary labels: exact unbiasedness by enumeration, honest intervals by simulation."""

from __future__ import annotations

import pickle
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn import metrics as sklearn_metrics
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from helpers import raises
from naysayer import complement, losses, metrics, transition
from naysayer.measure import intervals
from naysayer.measure import sample as weights

BIASED = transition.biased([[0, 1, 2, 4], [2, 0, 1, 1], [1, 3, 0, 1], [1, 1, 5, 0]])
NOISY = transition.noisy(4, 0.1, base=BIASED)


def sets(y, sizes, n_classes=4):
    """All ruled-out rows of the given sizes that miss class y, each size equally likely: [(probability, row)]."""
    others = [k for k in range(n_classes) if k != y]
    rows = [(s, chosen) for s in sizes for chosen in combinations(others, s)]
    return [(1 / len(sizes) / comb(n_classes - 1, s), np.isin(np.arange(n_classes), chosen)) for s, chosen in rows]


def singles(y, q):
    """All labels of an example of class y: [(probability, label)]."""
    return [(p, c) for c, p in enumerate(q[y]) if p > 0]


def half_ordinary(y, q):
    """An ordinary label or one drawn from q, each half of the time: [(probability, row)]."""
    eye = np.eye(4, dtype=bool)
    return [(0.5, ~eye[y])] + [(p / 2, eye[c]) for p, c in singles(y, q)]


KINDS = {
    "uniform": (lambda y: singles(y, transition.uniform(4)), None),
    "biased": (lambda y: singles(y, BIASED), BIASED),
    "noisy": (lambda y: singles(y, NOISY), NOISY),
    "pairs": (lambda y: sets(y, [2]), None),
    "ordinary": (lambda y: sets(y, [3]), None),
    "any size": (lambda y: sets(y, [1, 2, 3]), None),
    "ordinary or biased": (lambda y: half_ordinary(y, BIASED), BIASED),
    "ordinary or noisy": (lambda y: half_ordinary(y, NOISY), NOISY),
}


def expected(score, outcomes, y_true):
    """The exact mean of a score over all that could have been observed."""
    total = 0.0
    for draw in product(*(outcomes(y) for y in y_true)):
        total = total + np.prod([p for p, _ in draw]) * np.asarray(score(np.array([label for _, label in draw])))
    return total


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


Y_TRUE = [0, 3, 3]
Y_PRED = [0, 3, 1]


def test_accuracy_is_unbiased(kind):
    outcomes, q = kind
    mean = expected(lambda y_bar: metrics.accuracy_score(y_bar, Y_PRED, 4, q), outcomes, Y_TRUE)
    assert mean == pytest.approx(2 / 3, abs=1e-9)


def test_expected_tells_a_biased_score():
    outcomes, _ = KINDS["uniform"]
    mean = expected(lambda y_bar: np.mean(y_bar != Y_PRED), outcomes, Y_TRUE)
    assert mean == pytest.approx(8 / 9)  # a wrong prediction is contradicted only 1 time in K - 1


def test_class_prior_is_unbiased(kind):
    outcomes, q = kind
    mean = expected(lambda y_bar: metrics.class_prior(y_bar, 4, q), outcomes, Y_TRUE)
    np.testing.assert_allclose(mean, [1 / 3, 0, 0, 2 / 3], atol=1e-9)


def test_confusion_matrix_is_unbiased(kind):
    outcomes, q = kind
    mean = expected(lambda y_bar: metrics.confusion_matrix(y_bar, Y_PRED, 4, q), outcomes, Y_TRUE)
    np.testing.assert_allclose(mean, sklearn_metrics.confusion_matrix(Y_TRUE, Y_PRED, labels=range(4)), atol=1e-9)


@pytest.mark.parametrize("loss", ["cross_entropy", "mean_squared_error", "zero_one", "one_vs_all(ramp)"])
def test_risk_is_unbiased(kind, loss):
    outcomes, q = kind
    logits = torch.tensor([[2.0, 0.1, -1.0, 0.3], [0.0, 0.2, 0.4, 1.0]], dtype=torch.float64)
    mean = expected(lambda y_bar: metrics.risk(y_bar, logits, loss, q), outcomes, [0, 2])
    assert mean == pytest.approx(losses.get_loss(loss)(logits)[[0, 1], [0, 2]].mean().item(), abs=1e-9)


def test_difference_is_unbiased(kind):
    outcomes, q = kind
    mean = expected(lambda y_bar: metrics.compare(y_bar, [0, 3], [0, 1], 4, q).difference, outcomes, [0, 3])
    assert mean == pytest.approx(0.5, abs=1e-9)


def predictions(y, n_classes, accuracy, rng):
    """Predictions that are right with the given probability, and otherwise any other class."""
    return np.where(rng.random(len(y)) < accuracy, y, (y + rng.integers(1, n_classes, size=len(y))) % n_classes)


def observed(kind, y, n_classes, rng):
    """Labels of one kind, and their Q."""
    if kind in ("uniform", "sets"):
        return complement(y, n_classes, n_labels=1 if kind == "uniform" else 2, random_state=rng), None
    if kind == "mixed":
        single = np.eye(n_classes, dtype=bool)[complement(y, n_classes, random_state=rng)]
        ordinary = ~np.eye(n_classes, dtype=bool)[y]
        return np.where(rng.random((len(y), 1)) < 0.5, ordinary, single), None
    base = transition.biased(np.arange(1, n_classes + 1) ** 0.5)
    q = base if kind == "biased" else transition.noisy(n_classes, 0.02, base)
    return complement(y, n_classes, transition=q, random_state=rng), q


def draw(kind, n, n_classes, accuracy, rng):
    """Labels of n examples, predictions for them, and the labels' Q."""
    y = rng.integers(n_classes, size=n)
    y_bar, q = observed(kind, y, n_classes, rng)
    return y_bar, predictions(y, n_classes, accuracy, rng), q


def coverage(interval, kind, n, n_classes, accuracy, trials):
    """How often an interval holds the true accuracy."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(trials):
        low, high = interval(*draw(kind, n, n_classes, accuracy, rng), n_classes)
        held += low <= accuracy <= high
    return held / trials


def gaffke(y_bar, y_pred, q, n_classes):
    return metrics.accuracy_interval(y_bar, y_pred, n_classes, transition=q)[1:]


def normal(y_bar, y_pred, q, n_classes):
    logits = 50.0 * np.eye(n_classes)[y_pred]
    _, low, high = metrics.risk_interval(y_bar, logits, "zero_one", transition=q)
    return 1 - high, 1 - low


@pytest.mark.parametrize("accuracy", [0.9, 0.99, 1.0])
@pytest.mark.parametrize(("n", "n_classes"), [(20, 3), (100, 3), (40, 10)])
@pytest.mark.parametrize("kind", ["uniform", "biased", "noisy", "sets", "mixed"])
def test_interval_covers_the_truth_at_the_edges(kind, n, n_classes, accuracy):
    trials = 150
    assert coverage(gaffke, kind, n, n_classes, accuracy, trials) >= 0.95 - 3 * (0.95 * 0.05 / trials) ** 0.5


def test_coverage_can_fail():
    """A normal interval has no width while no prediction is contradicted."""
    assert coverage(normal, "uniform", 20, 3, 0.95, 150) < 0.7


def test_risk_interval_covers_for_many_examples():
    assert 0.9 <= coverage(normal, "biased", 400, 3, 0.6, 200) <= 0.99


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("contradicted", [0, 1, 17, 40])
def test_uniform_labels_give_clopper_and_pearson(n_classes, contradicted):
    y_bar = np.ones(40, dtype=int)
    y_pred = np.where(np.arange(40) < contradicted, 1, 0)
    estimate, low, high = metrics.accuracy_interval(y_bar, y_pred, n_classes, confidence=0.9)
    rate = binomtest(contradicted, 40).proportion_ci(0.9)
    assert estimate == pytest.approx(1 - (n_classes - 1) * contradicted / 40)
    low_, high_ = (1 - (n_classes - 1) * share for share in (rate.high, rate.low))
    moved = max(0, -estimate)  # to the nearest accuracy that can be
    assert low == pytest.approx(max(0, low_ + moved), abs=1e-9)
    assert high == pytest.approx(min(1, high_ + moved), abs=1e-9)


@pytest.mark.parametrize("right", [0, 3, 39, 40])
@pytest.mark.parametrize("q", [None, transition.noisy(5, 0.05)])
def test_ordinary_labels_give_clopper_and_pearson(right, q):
    y_bar = ~np.eye(5, dtype=bool)[np.zeros(40, dtype=int)]
    y_pred = np.where(np.arange(40) < right, 0, 2)
    estimate, low, high = metrics.accuracy_interval(y_bar, y_pred, transition=q)
    rate = binomtest(right, 40).proportion_ci(0.95)
    assert (estimate, low, high) == pytest.approx((right / 40, rate.low, rate.high), abs=1e-9)


def test_symmetric_noise_gives_clopper_and_pearson():
    q = transition.noisy(3, 0.1)
    agree, contradict = np.linalg.inv(q)[0, [1, 0]]
    _, low, high = metrics.accuracy_interval([1] * 40 + [0] * 10, [0] * 50, transition=q)
    rate = binomtest(10, 50).proportion_ci(0.95)
    bounds = [agree + (contradict - agree) * r for r in (rate.high, rate.low)]
    assert (low, high) == pytest.approx(bounds, abs=1e-8)
    assert 0 < low < high < 1


@pytest.mark.parametrize(
    ("values", "counts", "end"),
    [
        ([0.5, 1.0], [1, 1], -1.0),
        ([0.0, 1.0], [1, 3], -8.0),
        ([-8.0, 0.0, 1.0], [2, 40, 50], -8.0),
        ([-5.0, -2.0, 0.3, 1.2], [1, 2, 3, 10], -6.0),
    ],
)
@pytest.mark.parametrize("tail", [0.005, 0.025, 0.25, 0.49])
def test_saddlepoint_agrees_with_simulation(values, counts, end, tail):
    rng = np.random.default_rng(0)
    bound = intervals.lower_bound(np.array(values), np.array(counts), end, tail)
    gammas = rng.standard_gamma([*counts, 1], size=(300_000, len(counts) + 1))
    below = np.mean(gammas @ np.array([*values, end]) <= bound * gammas.sum(axis=1))
    assert below == pytest.approx(tail, rel=0.08)


def test_saddlepoint_passes_the_mean_smoothly():
    points, counts = np.array([0.0, 0.3, 1.0]), np.array([3, 4, 5])
    mean = points @ counts / counts.sum()
    below = [intervals.share_below(mean + x, points, counts) for x in np.linspace(-1e-3, 1e-3, 41)]
    steps = np.diff(below)
    assert (steps > 0).all()
    assert steps.max() < 1.1 * steps.min()
    assert intervals.share_below(0.5, np.array([0.0, 0.5, 1.0]), np.array([7, 2, 7])) == pytest.approx(0.5)


@pytest.mark.parametrize("light", [1e-2, 1e-6, 1e-13])
def test_values_of_little_weight_leave_the_bound_at_the_end(light):
    """Of four values and more, all but the end's count so little that no share of theirs is sure to be above 0."""
    ruled_out = np.zeros((53, 10), dtype=bool)
    ruled_out[:50, 1] = ruled_out[50, 0] = ruled_out[51, [0, 2]] = ruled_out[52, [0, 2, 3]] = True
    weight, zeros = np.repeat([1.0, light], [50, 3]), np.zeros(53, dtype=int)
    estimate, low, high = metrics.accuracy_interval(ruled_out, zeros, 10, sample_weight=weight)
    assert 0 < low < estimate < high == 1
    _, low, high = metrics.class_prior_interval(ruled_out, 10, sample_weight=weight)
    assert (low >= 0).all()
    assert (high <= 1).all()
    comparison = metrics.compare(ruled_out, zeros, zeros + 4, 10, sample_weight=weight)
    assert comparison.low < comparison.difference < comparison.high
    values, counts = np.array([-1.0, -0.5, 0.0, 1.0]), np.array([3.0, light, light, light])
    assert intervals.lower_bound(values, counts, -1.0, 0.025) == -1
    assert 0.9 < intervals.tail_at_zero(values + 0.3, counts, -1.0) <= 1


def test_interval_of_many_different_values_is_nearly_normal():
    values = np.random.default_rng(0).uniform(size=5000)
    _, low, high = intervals.mean_bounds(values, 0.0, 1.0, 0.025)
    half = 1.96 * values.std() / 5000**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.05 * half)


@pytest.mark.parametrize("kind", ["uniform", "noisy", "mixed"])
def test_interval_shrinks_with_n_and_grows_with_confidence(kind):
    rng = np.random.default_rng(0)
    y_bar, y_pred, q = draw(kind, 6400, 4, 0.7, rng)
    widths = []
    for n in (100, 400, 1600, 6400):
        estimate, low, high = metrics.accuracy_interval(y_bar[:n], y_pred[:n], 4, transition=q)
        assert low < estimate < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2] > widths[3]
    assert widths[2] / widths[3] == pytest.approx(2, rel=0.1)
    wider = metrics.accuracy_interval(y_bar, y_pred, 4, confidence=0.999999, transition=q)
    assert 2 * widths[3] < wider.high - wider.low < 3 * widths[3]


def test_bounds_stay_in_the_range_where_the_estimate_does_not():
    q = transition.noisy(3, 0.2)
    above = metrics.accuracy_interval([1, 2] * 50, [0] * 100, transition=q)
    assert above.estimate > 1
    assert above.high == 1
    assert 0 < above.low < 1
    below = metrics.accuracy_interval([0] * 100, [0] * 100, n_classes=3)
    assert below.estimate == -1
    assert below.low == 0
    assert 0.01 < below.high < 0.1  # not "0 to 0", as sure as a wrong number can look


def test_nothing_impossible_comes_back():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 30):
        for q in (None, BIASED, NOISY, transition.noisy(4, 0.2)):
            y_bar, a, b = rng.integers(4, size=(3, n))
            p = rng.dirichlet(np.ones(4), size=n)
            diagram = metrics.reliability(y_bar, p, 3, q)
            filled = diagram.count > 0
            found = [
                metrics.accuracy_interval(y_bar, a, 4, transition=q)[1:],
                (diagram.low[filled], diagram.high[filled]),
            ]
            found += [metrics.class_prior_interval(y_bar, 4, transition=q)[1:]]
            for low, high in found:
                assert (np.asarray(low) >= 0).all()
                assert (np.asarray(low) <= high).all()
                assert (np.asarray(high) <= 1).all()
            difference = metrics.compare(y_bar, a, b, 4, q)
            assert -1 <= difference.low <= difference.high <= 1
            assert 0 <= difference.p_value <= 1


@pytest.mark.parametrize("weight", [None, [1, 2, 3, 0]])
@pytest.mark.parametrize("q", [None, NOISY, "estimated"])
def test_one_estimate_is_floats_and_several_are_arrays(q, weight):
    y_bar, y_pred, logits = [0, 1, 2, 3], [1, 1, 1, 1], np.eye(4)
    if isinstance(q, str):
        q = transition.estimate([0, 1, 2, 3] * 20, [1, 2, 3, 0] * 20, 4, model="free")
    how = {"transition": q, "sample_weight": weight}
    found = [
        metrics.accuracy_score(y_bar, y_pred, 4, **how),
        *metrics.accuracy_interval(y_bar, y_pred, 4, **how),
        metrics.risk(y_bar, logits, **how),
        *metrics.risk_interval(y_bar, logits, **how),
        *metrics.compare(y_bar, y_pred, [0, 0, 0, 0], 4, **how),
        metrics.reliability(y_bar, logits, **how).error,
    ]
    assert {type(value) for value in found} == {float}
    several = [metrics.class_prior(y_bar, 4, **how), *metrics.class_prior_interval(y_bar, 4, **how)]
    assert {(type(value), value.dtype, value.shape) for value in several} == {(np.ndarray, np.dtype(float), (4,))}


def test_class_prior_interval_is_that_of_constant_predictions():
    rng = np.random.default_rng(0)
    for kind in ("uniform", "sets", "mixed"):
        y_bar, _, _ = draw(kind, 60, 4, 1.0, rng)
        intervals = metrics.class_prior_interval(y_bar, 4, confidence=0.8)
        np.testing.assert_allclose(intervals.estimate, metrics.class_prior(y_bar, 4), atol=1e-12)
        for k in range(4):
            constant = metrics.accuracy_interval(y_bar, np.full(60, k), 4, confidence=0.8)
            assert [bound[k] for bound in intervals] == pytest.approx(constant)


def test_class_prior_interval_covers_with_biased_labels():
    rng = np.random.default_rng(0)
    prior = np.array([0.85, 0.1, 0.05, 0.0])
    held = np.zeros(4)
    for _ in range(100):
        y_bar = complement(rng.choice(4, p=prior, size=80), 4, transition=BIASED, random_state=rng)
        _, low, high = metrics.class_prior_interval(y_bar, transition=BIASED)
        held += (low <= prior) & (prior <= high)
    assert (held >= 100 * (0.95 - 3 * (0.95 * 0.05 / 100) ** 0.5)).all()


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_confusion_matrix_of_ordinary_labels_is_that_of_scikit_learn(normalize):
    rng = np.random.default_rng(0)
    y_true, y_pred = rng.integers(4, size=50), rng.integers(1, 5, size=50)  # 4 is never true, 0 never predicted
    ours = metrics.confusion_matrix(~np.eye(5, dtype=bool)[y_true], y_pred, normalize=normalize)
    theirs = sklearn_metrics.confusion_matrix(y_true, y_pred, labels=range(5), normalize=normalize)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_confusion_matrix_agrees_with_the_other_scores(kind):
    outcomes, q = kind
    rng = np.random.default_rng(0)
    y_true, y_pred = rng.integers(4, size=80), rng.integers(4, size=80)
    y_bar = np.array([outcomes(y)[rng.choice(len(outcomes(y)))][1] for y in y_true])
    counts = metrics.confusion_matrix(y_bar, y_pred, 4, q)
    assert np.trace(counts) / 80 == pytest.approx(metrics.accuracy_score(y_bar, y_pred, 4, q))
    np.testing.assert_allclose(counts.sum(axis=0), np.bincount(y_pred, minlength=4), atol=1e-9)
    np.testing.assert_allclose(counts.sum(axis=1) / 80, metrics.class_prior(y_bar, 4, q), atol=1e-9)
    zero_one = metrics.risk(y_bar, np.eye(4)[y_pred], "zero_one", q)
    assert 1 - zero_one == pytest.approx(metrics.accuracy_score(y_bar, y_pred, 4, q))


def test_reliability_bins_and_error():
    probabilities = np.array([[0.9, 0.1, 0.0]] * 3 + [[0.3, 0.3, 0.4]] * 2 + [[0.0, 1.0, 0.0]])
    y_bar = [1, 2, 1, 0, 1, 2]
    diagram = metrics.reliability(y_bar, probabilities, n_bins=4)
    assert diagram.edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert diagram.count.tolist() == [0, 2, 0, 4]
    np.testing.assert_allclose(diagram.confidence, [np.nan, 0.4, np.nan, 0.925])
    np.testing.assert_allclose(diagram.accuracy, [np.nan, 1.0, np.nan, 1.0])
    assert diagram.error == pytest.approx(2 / 6 * 0.6 + 4 / 6 * 0.075)
    inside = metrics.accuracy_interval([0, 1], [2, 2], 3)
    assert (diagram.low[1], diagram.high[1]) == pytest.approx(inside[1:])


def test_reliability_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet([0.3, 0.3, 0.3], size=20_000)
    y_true = (rng.random((20_000, 1)) > probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    diagram = metrics.reliability(
        complement(y_true, 3, random_state=rng), torch.tensor(probabilities), confidence=0.999
    )
    filled = diagram.count > 0
    assert diagram.count.sum() == 20_000
    assert (diagram.low[filled] <= diagram.confidence[filled]).all()
    assert (diagram.confidence[filled] <= diagram.high[filled]).all()
    assert diagram.error < 0.03
    sharpened = probabilities**2 / (probabilities**2).sum(axis=1, keepdims=True)
    assert metrics.reliability(complement(y_true, 3, random_state=1), sharpened).error > 0.05


RARE = transition.biased([0.02, 1, 1, 1])  # what a label 0 weighs, if there is one, outweighs all others


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("q", [RARE, transition.noisy(4, 0.02, RARE)], ids=["biased", "noisy"])
def test_p_value_of_equal_models_with_uneven_labels(q, n):
    rng = np.random.default_rng(0)
    p = []
    for _ in range(200):
        y_bar = complement(np.arange(n) % 4, 4, transition=q, random_state=rng)
        p.append(metrics.compare(y_bar, np.zeros(n, dtype=int), np.ones(n, dtype=int), 4, q).p_value)
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "sets", "mixed", "biased", "noisy", "estimated"])
def test_p_value_and_interval_never_contradict_each_other(kind, weighted):
    rng = np.random.default_rng(0)
    outside = 0
    for accuracy in np.linspace(0.3, 0.9, 25):
        y = rng.integers(4, size=80)
        y_bar, q = observed("noisy" if kind == "estimated" else kind, y, 4, rng)
        if kind == "estimated":
            known = rng.integers(4, size=5000)
            q = transition.estimate(complement(known, 4, transition=q, random_state=rng), known, 4, model="both")
        a, b = predictions(y, 4, accuracy, rng), predictions(y, 4, 0.5, rng)
        weight = rng.uniform(0.5, 1, size=80) if weighted else None
        for confidence in (0.5, 0.9, 0.95, 0.99):
            _, low, high, p = metrics.compare(y_bar, a, b, 4, q, confidence, sample_weight=weight)
            assert (low > 0 or high < 0) == (p < 1 - confidence)
            outside += low > 0 or high < 0
    assert 10 < outside < 90


@pytest.mark.parametrize("kind", ["uniform", "biased", "mixed"])
def test_p_value_is_valid_and_has_power(kind):
    rng = np.random.default_rng(0)
    null, real = [], []
    for _ in range(200):
        y = rng.integers(3, size=300)
        y_bar, q = observed(kind, y, 3, rng)
        good, as_good, bad = (predictions(y, 3, accuracy, rng) for accuracy in (0.8, 0.8, 0.4))
        null.append(metrics.compare(y_bar, good, as_good, 3, q).p_value)
        real.append(metrics.compare(y_bar, good, bad, 3, q).p_value)
    assert np.mean(np.array(null) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5
    assert 0.2 < np.mean(np.array(null) <= 0.5) <= 0.5 + 3 * (0.25 / 200) ** 0.5
    assert np.mean(np.array(real) <= 0.01) > 0.95


def test_compare_uniform_labels_is_the_sign_test():
    y_bar, a, _ = draw("uniform", 300, 4, 0.8, np.random.default_rng(0))
    b = np.random.default_rng(1).permutation(a)
    result = metrics.compare(y_bar, a, b, 4)
    wins, losses_ = np.sum((b == y_bar) & (a != y_bar)), np.sum((a == y_bar) & (b != y_bar))
    assert result.p_value == pytest.approx(binomtest(int(wins), int(wins + losses_)).pvalue)
    assert result.difference == pytest.approx(3 * (wins - losses_) / 300)
    assert result.low < result.difference < result.high
    mirrored = metrics.compare(y_bar, b, a, 4)
    assert mirrored == pytest.approx((-result.difference, -result.high, -result.low, result.p_value), abs=1e-9)


@pytest.mark.parametrize("right", [10, 9, 7, 5])
@pytest.mark.parametrize("sign", [1, -1])
def test_compare_keeps_the_width_of_what_cannot_be(right, sign):
    """Of an estimate beyond 1 the bounds once met at 1; 0 stays on its side of them."""
    y_bar, ones = [1] * right + [0] * (10 - right), [1] * 10
    told = set()
    for confidence in (0.2, 0.5, 0.9, 0.99, 0.999999):
        difference, low, high, p = metrics.compare(y_bar, *([0] * 10, ones)[::sign], 10, confidence=confidence)
        low, high = (low, high) if sign > 0 else (-high, -low)
        assert -1 <= low < high <= 1
        assert (low > 0) == (p < 1 - confidence)
        assert sign * difference == pytest.approx(9 * (2 * right - 10) / 10)
        told.add(low)
    assert len(told) > 1 or right == 5


def test_compare_equal_predictions():
    result = metrics.compare([0, 1, 2], [1, 2, 2], [1, 2, 2])
    assert (result.difference, result.p_value) == (0.0, 1.0)
    assert result.low <= 0 <= result.high


def test_compare_interval_covers():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        y_bar, a, q = draw("noisy", 60, 3, 0.95, rng)
        b = np.where(rng.random(60) < 0.1, (a + 1) % 3, a)
        result = metrics.compare(y_bar, a, b, 3, q)
        truth = 0.95 - (0.9 * 0.95 + 0.1 * 0.05 / 2)
        held += result.low <= truth <= result.high
    assert held >= 100 * (0.95 - 3 * (0.95 * 0.05 / 100) ** 0.5)


def everything(y_bar, y_pred, logits, q, probabilities, weight=None):
    """All scores of one data set, flat."""
    how = {"transition": q, "sample_weight": weight}
    found = [
        metrics.accuracy_score(y_bar, y_pred, 4, **how),
        metrics.accuracy_interval(y_bar, y_pred, 4, **how),
        metrics.class_prior(y_bar, 4, **how),
        metrics.class_prior_interval(y_bar, 4, **how),
        metrics.confusion_matrix(y_bar, y_pred, 4, normalize="all", **how),
        metrics.risk(y_bar, logits, **how),
        metrics.risk_interval(y_bar, logits, **how),
        *metrics.reliability(y_bar, probabilities, 5, **how)[1:],
        metrics.compare(y_bar, y_pred, [0] * len(y_pred), 4, **how),
    ]
    return np.concatenate([np.ravel(part) for part in found])


def estimates(y_bar, y_pred, logits, q, probabilities, weight=None):
    """All that is no bound."""
    how = {"transition": q, "sample_weight": weight}
    diagram = metrics.reliability(y_bar, probabilities, 5, **how)
    found = [
        metrics.accuracy_score(y_bar, y_pred, 4, **how),
        metrics.accuracy_interval(y_bar, y_pred, 4, **how).estimate,
        metrics.class_prior(y_bar, 4, **how),
        metrics.class_prior_interval(y_bar, 4, **how).estimate,
        metrics.confusion_matrix(y_bar, y_pred, 4, **how),
        metrics.risk(y_bar, logits, **how),
        metrics.risk_interval(y_bar, logits, **how).estimate,
        *(diagram.confidence, diagram.accuracy, diagram.error),
        metrics.compare(y_bar, y_pred, [0] * len(y_pred), 4, **how).difference,
    ]
    return np.concatenate([np.ravel(part) for part in found])


@pytest.mark.parametrize("ruled_out", [False, True])
def test_whole_weights_are_repeated_rows(data, ruled_out):
    y_bar, y_pred, logits, q, p = data
    y_bar = np.eye(4, dtype=bool)[y_bar] if ruled_out else y_bar
    weight = np.random.default_rng(0).integers(4, size=60)
    rows = np.repeat(np.arange(60), weight)
    repeated = estimates(y_bar[rows], y_pred[rows], logits[rows], q, p[rows])
    np.testing.assert_allclose(estimates(y_bar, y_pred, logits, q, p, weight), repeated, rtol=1e-9, atol=1e-9)


def test_equal_weights_are_none_and_zeros_leave_rows_out(data):
    np.testing.assert_allclose(everything(*data, np.full(60, 3e200)), everything(*data), rtol=1e-7, atol=1e-9)
    first = [values if values is data[3] else values[:40] for values in data]
    np.testing.assert_allclose(everything(*data, [2] * 40 + [0] * 20), everything(*first), rtol=1e-7, atol=1e-9)


def test_repeated_rows_are_not_more_labels():
    """Weights of 5 do not make the interval of five times as many examples."""
    y_bar, y_pred, q = draw("noisy", 200, 4, 0.8, np.random.default_rng(0))
    wide = metrics.accuracy_interval(y_bar, y_pred, 4, transition=q, sample_weight=[5] * 200)
    narrow = metrics.accuracy_interval(np.repeat(y_bar, 5), np.repeat(y_pred, 5), 4, transition=q)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("kind", ["uniform", "noisy", "mixed"])
def test_weighted_intervals_cover(kind, n):
    """Some examples are rare, weigh ten times as much, and are predicted worse."""
    rng = np.random.default_rng(0)
    share, heavy, accuracies = 0.15, 10.0, np.array([0.9, 0.5])
    truth = (0.85 * 0.9 + share * heavy * 0.5) / (0.85 + share * heavy)
    held, gap = 0, 0
    for _ in range(150):
        rare = (rng.random(n) < share).astype(int)
        y = rng.integers(3, size=n)
        y_bar, q = observed(kind, y, 3, rng)
        y_pred = np.where(rng.random(n) < accuracies[rare], y, (y + rng.integers(1, 3, size=n)) % 3)
        weight = np.where(rare, heavy, 1.0)
        _, low, high = metrics.accuracy_interval(y_bar, y_pred, 3, transition=q, sample_weight=weight)
        held += low <= truth <= high
        _, low, high = metrics.risk_interval(y_bar, np.eye(3)[y_pred], "zero_one", transition=q, sample_weight=weight)
        gap += low <= 1 - truth <= high
    assert held >= 150 * (0.95 - 3 * (0.95 * 0.05 / 150) ** 0.5)
    assert n < 100 or gap >= 150 * 0.88


def pairs_of(q, n, rng):
    """An estimate of Q from n pairs."""
    y = rng.integers(len(q), size=n)
    return transition.estimate(complement(y, len(q), transition=q, random_state=rng), y, len(q))


@pytest.mark.filterwarnings("ignore:labels of this transition matrix")
@pytest.mark.parametrize(("n_classes", "n_pairs"), [(3, 100), (5, 200)])
@pytest.mark.parametrize("kind", ["noisy", "biased", "free"])
def test_intervals_cover_where_q_was_estimated(kind, n_classes, n_pairs):
    """On the code before, intervals from 200 pairs missed in half of the trials."""
    rng = np.random.default_rng(0)
    trials, held, plain, shares, gap = 40, 0, 0, 0.0, 0
    for _ in range(trials):
        q = transition.biased(np.exp(0.5 * rng.normal(size=n_classes)))
        if kind == "free":
            q = transition.biased(rng.gamma(np.maximum(10 * q, 1e-9)))
        q = transition.noisy(n_classes, 0.03 if kind == "noisy" else 0.0, q)
        estimated = pairs_of(q, n_pairs, rng)
        prior = rng.dirichlet(np.full(n_classes, 3.0))
        y = rng.choice(n_classes, p=prior, size=1000)
        y_bar = complement(y, n_classes, transition=q, random_state=rng)
        a, b = predictions(y, n_classes, 0.8, rng), predictions(y, n_classes, 0.6, rng)
        _, low, high = metrics.accuracy_interval(y_bar, a, n_classes, transition=estimated)
        _, known_low, known_high = metrics.accuracy_interval(y_bar, a, n_classes, transition=np.asarray(estimated))
        assert low <= known_low
        assert known_high <= high
        held, plain = held + (low <= 0.8 <= high), plain + (known_low <= 0.8 <= known_high)
        _, low, high = metrics.class_prior_interval(y_bar, n_classes, transition=estimated)
        shares += np.mean((low <= prior) & (prior <= high))
        gap += metrics.compare(y_bar, a, b, n_classes, estimated).low <= 0.2
    assert min(held, gap) >= trials * (0.95 - 3 * (0.95 * 0.05 / trials) ** 0.5)
    assert shares >= trials * 0.9
    assert plain < held


def test_every_interval_widens_where_q_was_estimated():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=2000)
    logits = rng.normal(size=(2000, 4)) + 2 * np.eye(4)[y]
    y_bar, y_pred = complement(y, 4, transition=BIASED, random_state=rng), logits.argmax(axis=1)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    estimated = pairs_of(BIASED, 400, rng)
    known = np.asarray(estimated)

    def bounds(q, labels=y_bar):
        diagram = metrics.reliability(labels, p, 4, q)
        found = [
            metrics.accuracy_interval(labels, y_pred, 4, transition=q)[1:],
            metrics.class_prior_interval(labels, 4, transition=q)[1:],
            metrics.compare(labels, y_pred, np.zeros(2000, dtype=int), 4, q)[1:3],
            metrics.risk_interval(labels, logits, transition=q)[1:],
            (diagram.low[2:], diagram.high[2:]),
        ]
        return [np.ravel(part) for part in found]

    for wide, narrow in zip(bounds(estimated), bounds(known)):
        assert np.ptp(wide.reshape(2, -1), axis=0).sum() > 1.05 * np.ptp(narrow.reshape(2, -1), axis=0).sum()
    for rows, single in zip(bounds(estimated, np.eye(4, dtype=bool)[y_bar]), bounds(estimated)):
        np.testing.assert_allclose(rows, single, atol=0.05)  # both by draws
    one, other = (estimates(y_bar, y_pred, logits, q, p) for q in (estimated, known))
    np.testing.assert_allclose(one, other)
    ordinary = ~np.eye(4, dtype=bool)[y]  # they do not pass through Q
    mine, exact = (metrics.accuracy_interval(ordinary, y_pred, 4, transition=q) for q in (estimated, None))
    assert mine == pytest.approx(exact, abs=0.01)


def test_more_confidence_than_draws_can_tell_gives_no_bounds():
    estimated = pairs_of(NOISY, 100_000, np.random.default_rng(0))
    y_bar, y_pred, _ = draw("uniform", 5000, 4, 0.5, np.random.default_rng(1))
    assert metrics.accuracy_interval(y_bar, y_pred, 4, 0.95, estimated).high < 1
    assert metrics.accuracy_interval(y_bar, y_pred, 4, 0.9999, estimated)[1:] == (0.0, 1.0)


@pytest.fixture(params=[None, BIASED, NOISY], ids=["uniform", "biased", "noisy"])
def data(request):
    rng = np.random.default_rng(0)
    y_true = rng.integers(4, size=60)
    logits = rng.normal(size=(60, 4)) + 3 * np.eye(4)[y_true]
    y_bar = complement(y_true, 4, transition=request.param, random_state=rng)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return y_bar, logits.argmax(axis=1), logits, request.param, probabilities


def test_lists_and_tensors_are_as_good_as_arrays(data):
    arrays = everything(*data)
    y_bar, y_pred, logits, q, p = data
    q_list = None if q is None else q.tolist()
    np.testing.assert_array_equal(
        everything(y_bar.tolist(), y_pred.tolist(), logits.tolist(), q_list, p.tolist()), arrays
    )
    tensors = [torch.tensor(values) for values in (y_bar, y_pred, logits, p)]
    np.testing.assert_array_equal(everything(*tensors[:3], q, tensors[3]), arrays)
    tensors[2].requires_grad_()
    np.testing.assert_array_equal(everything(y_bar, y_pred, tensors[2], q, p[::-1][::-1]), arrays)


def test_one_dimension_is_a_matrix_with_one_class_ruled_out(data):
    ruled = np.eye(4, dtype=bool)[data[0]]
    np.testing.assert_allclose(everything(ruled, *data[1:]), everything(*data), rtol=1e-9, atol=1e-9)


def test_rows_that_say_nothing_count_for_nothing(data):
    y_bar, y_pred, logits, q, p = data
    rows = np.repeat(np.arange(60), 2)
    ruled = np.eye(4, dtype=bool)[y_bar[rows]] & (np.arange(120) % 2 == 0)[:, None]
    filled = everything(ruled, y_pred[rows], logits[rows], q, p[rows])
    np.testing.assert_allclose(filled, everything(*data), rtol=1e-9, atol=1e-9)


def test_blocks_do_not_matter(data, monkeypatch):
    ruled = np.eye(4, dtype=bool)[data[0]]
    whole = everything(*data), everything(ruled, *data[1:])
    monkeypatch.setattr(weights, "_BLOCK", 28)
    monkeypatch.setattr(weights, "_COLUMNS", 9)
    np.testing.assert_allclose(everything(*data), whole[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(everything(ruled, *data[1:]), whole[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("q", [None, BIASED, NOISY], ids=["uniform", "biased", "noisy"])
def test_weights_are_those_of_the_formula_to_all_digits(q):
    rng = np.random.default_rng(0)
    rows = np.array([[k in chosen for k in range(4)] for s in (1, 2, 3) for chosen in combinations(range(4), s)])
    inverse = None if q is None else np.linalg.inv(q)

    def formula(row):
        size = row.sum()
        if size == 3:
            return (~row).astype(float)
        return 1.0 - 3.0 / size * row if inverse is None else inverse[row].mean(axis=0)

    wanted = np.array([formula(row) for row in rows])
    made, _ = weights.read(rows, 4, q)
    np.testing.assert_allclose(made.weights(slice(None)), wanted, rtol=0, atol=1e-12)
    classes = rng.integers(4, size=len(rows))
    np.testing.assert_allclose(made.at(classes), wanted[np.arange(len(rows)), classes], rtol=0, atol=1e-12)
    single, _ = weights.read(np.arange(4), 4, q)
    np.testing.assert_allclose(single.weights(slice(None)), wanted[:4], rtol=0, atol=1e-12)
    np.testing.assert_allclose(single.at(np.arange(4)), np.diag(wanted[:4]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("q", [None, transition.noisy(50, 0.5)], ids=["uniform", "noisy"])
def test_labels_of_one_class_each_never_make_a_row_of_weights_for_each(monkeypatch, q):
    largest = []

    def watched(function):
        def call(*arguments):
            out = function(*arguments)
            largest.append(out.numel())
            return out

        return call

    for name in ("label_weights", "weights_at", "spread"):
        monkeypatch.setattr(weights, name, watched(getattr(weights, name)))
    monkeypatch.setattr(weights, "_BLOCK", 500)
    rng = np.random.default_rng(0)
    y_bar, y_pred, logits = rng.integers(50, size=4000), rng.integers(50, size=4000), rng.normal(size=(4000, 50))
    metrics.accuracy_interval(y_bar, y_pred, 50, transition=q)
    metrics.compare(y_bar, y_pred, y_bar, 50, transition=q)
    metrics.class_prior_interval(y_bar, 50, transition=q)
    metrics.confusion_matrix(y_bar, y_pred, 50, transition=q)
    metrics.risk(y_bar, logits, transition=q)
    assert len(largest) > 400  # the blocks of the risk
    assert max(largest) == 4000


def test_names_of_classes_do_not_matter(data):
    y_bar, y_pred, logits, q, p = data
    new = np.array([2, 0, 3, 1])  # class k is now called new[k]
    old = np.argsort(new)
    q_new = None if q is None else q[np.ix_(old, old)]
    renamed = new[y_bar], new[y_pred]
    before = metrics.accuracy_interval(y_bar, y_pred, 4, transition=q)
    assert metrics.accuracy_interval(*renamed, 4, transition=q_new) == pytest.approx(before)
    np.testing.assert_allclose(
        metrics.confusion_matrix(*renamed, 4, q_new)[np.ix_(new, new)],
        metrics.confusion_matrix(y_bar, y_pred, 4, q),
        atol=1e-9,
    )
    np.testing.assert_allclose(
        metrics.class_prior_interval(renamed[0], 4, transition=q_new).low[new],
        metrics.class_prior_interval(y_bar, 4, transition=q).low,
        atol=1e-9,
    )
    risk = metrics.risk(y_bar, logits, transition=q)
    assert metrics.risk(renamed[0], logits[:, old], transition=q_new) == pytest.approx(risk)
    error = metrics.reliability(y_bar, p, transition=q).error
    assert metrics.reliability(renamed[0], p[:, old], transition=q_new).error == pytest.approx(error)


def test_the_global_dtype_does_not_matter(data):
    before = everything(*data)
    torch.set_default_dtype(torch.float16)
    try:
        np.testing.assert_array_equal(everything(*data), before)
    finally:
        torch.set_default_dtype(torch.float32)


def test_n_classes_is_inferred():
    assert metrics.accuracy_score([0, 1], [2, 0]) == 1.0
    assert metrics.confusion_matrix([0, 1], [2, 4]).shape == (5, 5)
    assert metrics.confusion_matrix([[True, False, False, False]], [0]).shape == (4, 4)
    assert metrics.class_prior([0, 1], transition=transition.uniform(6)).shape == (6,)
    assert metrics.class_prior([0, 0]).tolist() == [0, 1]


def test_two_classes_pass_through_a_known_transition():
    """With K = 2 "not a" is "is b", unless Q says that such labels err."""
    ruled = [[True, False], [True, False], [False, True]]
    assert metrics.accuracy_score(ruled, [1, 1, 1]) == pytest.approx(2 / 3)
    q = transition.noisy(2, 0.2)
    assert metrics.accuracy_score(ruled, [1, 1, 1], transition=q) == pytest.approx((2 / 3 - 0.2) / 0.6)


def test_risk_interval_of_one_example_has_no_bounds():
    assert metrics.risk_interval([0], [[1.0, 2.0]])[1:] == (-np.inf, np.inf)


def test_risk_takes_any_loss():
    y_bar, logits = [0, 2], np.array([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]])
    assert metrics.risk(y_bar, logits, lambda g: g) == pytest.approx((2 + 3 - 1 + 0 + 1 + 1) / 2)
    scale = torch.ones((), requires_grad=True)
    assert metrics.risk(y_bar, logits, lambda g: scale * g) == pytest.approx(3)
    assert metrics.risk(y_bar, torch.tensor(logits, dtype=torch.bfloat16), lambda g: g) == pytest.approx(3)


class LeastNamed(ClassifierMixin, BaseEstimator):
    """A ridge regression of "was named" on the features; predicts the class least, or with sign=-1 most, named."""

    def __init__(self, sign=1):
        self.sign = sign

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        X = np.c_[X, np.ones(len(X))]
        self.coef_ = np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ (y[:, None] == self.classes_))
        return self

    def predict_proba(self, X):
        scores = np.exp(-self.sign * 5 * (np.c_[X, np.ones(len(X))] @ self.coef_))
        return (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.fixture
def animals():
    rng = np.random.default_rng(0)
    y_true = rng.integers(3, size=300)
    X = rng.normal(size=(300, 3)) + 2 * np.eye(3)[y_true]
    return X, np.array(["ant", "bee", "cow"])[complement(y_true, 3, random_state=rng)]


def test_scorers_give_the_metrics(animals):
    X, y_bar = animals
    model = LeastNamed().fit(X, y_bar)
    labels, predicted = (np.searchsorted(model.classes_, values) for values in (y_bar, model.predict(X)))
    accuracy = metrics.accuracy_score(labels, predicted, 3)
    assert accuracy > 0.6
    ruled = np.eye(3, dtype=bool)[labels]
    for y in (y_bar, y_bar.tolist(), ruled):
        assert metrics.accuracy_scorer(model, X, y) == accuracy
        risk = metrics.risk(labels, np.log(model.predict_proba(X)))
        assert metrics.risk_scorer(model, X, y) == pytest.approx(-risk, rel=1e-5)
    q = transition.noisy(3, 0.1)
    assert metrics.make_scorer(transition=q)(model, X, y_bar) == metrics.accuracy_score(labels, predicted, 3, q)
    weight = np.arange(300) % 3
    rows = np.repeat(np.arange(300), weight)
    for scorer in (metrics.accuracy_scorer, metrics.risk_scorer, metrics.make_scorer(transition=q)):
        assert scorer(model, X, y_bar, sample_weight=weight) == pytest.approx(scorer(model, X[rows], y_bar[rows]))
    order = [2, 0, 1]  # classes_ need not be sorted
    model.classes_, model.coef_ = model.classes_[order], model.coef_[:, order]
    assert metrics.accuracy_scorer(model, X, y_bar) == accuracy


@pytest.mark.parametrize(
    "scorer",
    [metrics.accuracy_scorer, metrics.risk_scorer, metrics.make_scorer("accuracy", transition.noisy(3, 0.05))],
)
def test_scorers_work_in_searches(animals, scorer):
    X, y_bar = animals
    search = clone(GridSearchCV(LeastNamed(), {"sign": [-1, 1]}, scoring=pickle.loads(pickle.dumps(scorer)), cv=3))
    search.fit(X, y_bar)
    assert search.best_params_ == {"sign": 1}
    scores = cross_val_score(LeastNamed(), X, y_bar, scoring=scorer, cv=3)
    assert scores.mean() == pytest.approx(search.best_score_)


def test_risk_scorer_survives_a_probability_of_zero():
    class Certain:
        classes_ = np.array([0, 1, 2])

        def predict_proba(self, X):
            return np.array([[1.0, 0.0, 0.0]] * len(X))

    smallest = np.log(np.finfo(np.float64).eps)
    assert metrics.risk_scorer(Certain(), [0, 0], [1, 2]) == pytest.approx(0, abs=1e-12)
    assert metrics.risk_scorer(Certain(), [0, 0], [0, 0]) == pytest.approx(2 * smallest)


ONE = ([0, 1, 2], [1, 2, 0])
FLAT = [[0.2, 0.3, 0.5]] * 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.accuracy_score([], []), "`y_bar` must hold at least one label; got none"),
        (lambda: metrics.accuracy_score([0], []), "`y_pred` must hold at least one label; got none"),
        (lambda: metrics.accuracy_score([0, 1], [1]), "`y_bar` and `y_pred` must have the same length; got 2 and 1"),
        (lambda: metrics.accuracy_score(*ONE, n_classes=2), "`y_bar` must hold classes 0 to 1; got 2 at row 2"),
        (
            lambda: metrics.accuracy_score([0, 1], [1, 7], n_classes=3),
            "`y_pred` must hold classes 0 to 2; got 7 at row 1",
        ),
        (lambda: metrics.accuracy_score([0, 1], [1, -1]), "`y_pred` must hold classes from 0 up; got -1 at row 1"),
        (lambda: metrics.accuracy_score(*ONE, n_classes=1), "`n_classes` must be a whole number of at least 2; got 1"),
        (lambda: metrics.accuracy_score(*ONE, transition=np.ones((3, 3)) / 3), "`transition` must be invertible"),
        (
            lambda: metrics.class_prior([[False, False]] * 2),
            "`y_bar` must rule out a class in at least one row; got only",
        ),
        (lambda: metrics.risk([[0, 0]], [[1.0, 2.0]]), "`y_bar` must rule out a class in at least one row; got only"),
        (
            lambda: metrics.accuracy_score(*ONE, sample_weight=[1, 2]),
            r"`sample_weight` must hold 3 numbers, one per row of `y_bar`; got shape \(2,\)",
        ),
        (lambda: metrics.risk(ONE[0], FLAT, sample_weight=[[1]] * 3), r"`sample_weight` must .*; got shape \(3, 1\)"),
        (
            lambda: metrics.class_prior(ONE[0], sample_weight=list("abc")),
            "`sample_weight` must hold numbers; got dtype",
        ),
        (
            lambda: metrics.compare(*ONE, ONE[1], sample_weight=[1, -1, 1]),
            "`sample_weight` must be finite and not negative; got -1.0 at row 1",
        ),
        (lambda: metrics.confusion_matrix(*ONE, sample_weight=[1, np.nan, 1]), "`sample_weight` must be .* got nan at"),
        (
            lambda: metrics.reliability(ONE[0], FLAT, sample_weight=[0, 0, 0]),
            "`sample_weight` must be above 0 in at least one row; got only zeros",
        ),
        (
            lambda: metrics.class_prior([[True, False], [False, False]], sample_weight=[0, 1]),
            "`y_bar` must rule out a class in at least one row whose `sample_weight` is above 0; got only",
        ),
        (lambda: metrics.accuracy_interval(*ONE, confidence=95), "`confidence` must lie between 0 and 1, .*; got 95"),
        (lambda: metrics.accuracy_interval(*ONE, confidence="high"), "`confidence` must .*; got 'high'"),
        (lambda: metrics.class_prior_interval(ONE[0], confidence=1.0), "`confidence` must lie .*; got 1.0"),
        (lambda: metrics.risk_interval(ONE[0], FLAT, confidence=0.0), "`confidence` must lie .*; got 0.0"),
        (lambda: metrics.reliability(ONE[0], FLAT, confidence=float("nan")), "`confidence` must lie .*; got nan"),
        (lambda: metrics.compare(*ONE, [0, 0, 0], confidence=-1), "`confidence` must lie .*; got -1"),
        (lambda: metrics.compare(*ONE, [0, 0]), "`y_bar` and `y_pred_b` must have the same length; got 3 and 2"),
        (lambda: metrics.confusion_matrix(*ONE, normalize="rows"), "`normalize` must be None, .* got 'rows'"),
        (lambda: metrics.risk([0, 1], FLAT), "`y_bar` and `logits` must have the same length; got 2 and 3"),
        (lambda: metrics.risk([0, 1], [0.1, 0.2]), r"`logits` must be \(N, K\) numbers; got shape \(2,\)"),
        (lambda: metrics.risk([0, 1], [["a", "b"]] * 2), r"`logits` must be .*; got shape \(2, 2\), dtype <U1"),
        (lambda: metrics.risk([0, 4, 1], FLAT), "`logits` must have one column per class; got 3, and 5 in `y_bar`"),
        (lambda: metrics.risk([[True, False]] * 3, FLAT), "`logits` must have one column per class; got 3, and 2 in"),
        (lambda: metrics.risk([0, 1], [[0, 1], [0, np.nan]]), "`logits` must be finite; got nan at row 1, column 1"),
        (lambda: metrics.risk(ONE[0], FLAT, lambda g: g.sum()), r"`loss` must map \(3, 3\) logits .*; got \(\)"),
        (lambda: metrics.risk(ONE[0], FLAT, "log"), "`loss` must be a callable or one of"),
        (
            lambda: metrics.reliability(ONE[0], [[0.2, 0.9, 0.5]] * 3),
            "each row of `probabilities` must be a distribution",
        ),
        (
            lambda: metrics.reliability(ONE[0], [[-1.0, 1.0, 1.0]] * 3),
            "each row of `probabilities` must be a distribution",
        ),
        (lambda: metrics.reliability(ONE[0], FLAT, n_bins=0), "`n_bins` must be a whole number of at least 1; got 0"),
        (lambda: metrics.make_scorer("loss"), "`metric` must be 'accuracy' or 'risk'; got 'loss'"),
        (lambda: metrics.make_scorer(transition=np.ones((2, 2)) / 2), "`transition` must be invertible"),
    ],
)
def test_errors_say_what_must_hold(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_scorer_errors_say_what_must_hold(animals):
    X, y_bar = animals
    model = LeastNamed().fit(X, y_bar)
    with pytest.raises(
        ValueError, match=r"`y_bar` must hold the estimator's classes_ \('ant', 'bee', 'cow'\); got 'dog' at"
    ):
        metrics.accuracy_scorer(model, X[:2], ["ant", "dog"])
    with pytest.raises(
        ValueError, match="`estimator` must be fitted and have classes_ and predict; it has no classes_"
    ):
        metrics.accuracy_scorer(LeastNamed(), X, y_bar)
    model.predict = lambda X: np.array(["cat"] * len(X))
    with pytest.raises(ValueError, match=r"`y_pred` must hold the estimator's classes_ .*; got 'cat' at row 0"):
        metrics.accuracy_scorer(model, X, y_bar)

    class Plain:
        classes_ = np.arange(20)

    with pytest.raises(ValueError, match="must be fitted and have classes_ and predict_proba; it has no predict_proba"):
        metrics.risk_scorer(Plain(), X, [0] * 300)
    Plain.predict = lambda self, X: np.zeros(len(X), dtype=int)
    with pytest.raises(ValueError, match=r"classes_ \(0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\); got 20 at row 1"):
        metrics.accuracy_scorer(Plain(), X[:2], [0, 20])


# ---- from parts -------------------------------------------------------------------------------------------------

TAKEN = {  # what each metric takes beside the labels
    "accuracy_score": ("a",),
    "accuracy_interval": ("a",),
    "class_prior": (),
    "class_prior_interval": (),
    "confusion_matrix": ("a",),
    "compare": ("a", "b"),
    "risk": ("logits",),
    "risk_interval": ("logits",),
    "reliability": ("probabilities",),
}


def outputs_of(y, seed=0):
    """Predictions of two models, logits and probabilities."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(len(y), 4)) + 2 * np.eye(4)[y]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wrong = rng.integers(0, 4, (2, len(y)))
    a, b = (np.where(rng.random(len(y)) < share, y, w) for share, w in zip((0.7, 0.6), wrong))
    return {"a": a, "b": b, "logits": logits, "probabilities": p}


def flat(result):
    return np.concatenate([np.ravel(part) for part in (result if isinstance(result, tuple) else (result,))])


def accumulated(metric, labels, taken, parts, q=None, weight=None, **options):
    """The metric from parts, each with an accumulator of its own, merged in their order."""
    total = metrics.Accumulator(metric, 4, q, **options)
    for part in parts:
        one = metrics.Accumulator(metric, 4, q, **options)
        for rows in np.array_split(part, 2):
            one.update(labels[rows], *(t[rows] for t in taken), sample_weight=None if weight is None else weight[rows])
        total.merge(one)
    return flat(total.result())


@pytest.mark.parametrize("metric", TAKEN)
@pytest.mark.parametrize("labels", ["single", "noisy", "sets", "estimated"])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_give_what_all_examples_give(metric, labels, weighted):
    """The same numbers and intervals, however the data is parted; without weights, to the bit in any order."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 300)
    q = None
    if labels == "noisy":
        q = transition.noisy(4, 0.2)
    if labels == "estimated":
        q = transition.estimate(complement(y[:200], 4, random_state=3), y[:200], 4)
    y_bar = complement(y, 4, n_labels=2 if labels == "sets" else 1, random_state=0)
    if labels == "sets":
        y_bar[::7] = False
    outputs = outputs_of(y)
    taken = [outputs[name] for name in TAKEN[metric]]
    weight = rng.integers(1, 5, 300).astype(float) if weighted else None
    known = {} if metric in ("risk", "risk_interval", "reliability") else {"n_classes": 4}
    whole = flat(getattr(metrics, metric)(y_bar, *taken, transition=q, sample_weight=weight, **known))
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(300)
        found.append(accumulated(metric, y_bar, taken, np.array_split(order, 3), q, weight))
        np.testing.assert_allclose(found[-1], whole, rtol=1e-10, atol=1e-12)
    if not weighted and metric not in ("risk", "risk_interval", "reliability"):
        assert all((one == found[0])[~np.isnan(one)].all() for one in found)
        if labels == "single":  # whose weights are whole numbers, so that every sum is exact
            assert (found[0] == whole).all()


@pytest.mark.parametrize("metric", TAKEN)
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_that_say_or_count_nothing_add_nothing(metric, weighted):
    y = np.random.default_rng(0).integers(0, 4, 60)
    y_bar = complement(y, 4, n_labels=2, random_state=0)
    y_bar[:20] = False
    taken = [outputs_of(y)[name] for name in TAKEN[metric]]
    weight = np.repeat([1.0, 2.0, 0.0], 20) if weighted else None
    known = {} if metric in ("risk", "risk_interval", "reliability") else {"n_classes": 4}
    whole = flat(getattr(metrics, metric)(y_bar, *taken, sample_weight=weight, **known))
    parts = np.split(np.arange(60), 3)
    np.testing.assert_allclose(accumulated(metric, y_bar, taken, parts, weight=weight), whole, rtol=1e-10)
    with raises("there must be a label that says something; got none so far"):
        accumulated(metric, y_bar, taken, parts[:1], weight=weight)


def test_options_of_a_metric_go_with_its_parts():
    y = np.random.default_rng(0).integers(0, 4, 200)
    y_bar, outputs, parts = complement(y, 4, random_state=0), outputs_of(y), np.array_split(np.arange(200), 3)
    for metric, options in [
        (metrics.accuracy_interval, {"confidence": 0.5}),
        (metrics.confusion_matrix, {"normalize": "true"}),
        (metrics.risk, {"loss": "zero_one"}),
        (metrics.reliability, {"n_bins": 3}),
    ]:
        taken = [outputs[name] for name in TAKEN[metric.__name__]]
        got = accumulated(metric, y_bar, taken, parts, **options)
        np.testing.assert_allclose(got, flat(metric(y_bar, *taken, **options)), rtol=1e-10)


def test_accumulators_that_cannot_be_are_refused():
    make = metrics.Accumulator
    with raises("`metric` must be one of accuracy_score, accuracy_interval"):
        make("accuracy", 3)
    with raises("accuracy_score must be given no options; got 'confidence'"):
        make("accuracy_score", 3, confidence=0.9)
    with raises("`confidence` must lie between 0 and 1"):
        make("accuracy_interval", 3, confidence=2)
    with raises("`normalize` must be None, 'true', 'pred' or 'all'; got 'rows'"):
        make("confusion_matrix", 3, normalize="rows")
    with raises("`n_bins` must be a whole number of at least 1; got 0"):
        make("reliability", 3, n_bins=0)
    one = make("accuracy_score", 3)
    with raises("there must be a label that says something; got none so far"):
        one.result()
    with raises("there must be a label that says something; got none so far"):
        make("risk", 3).result()
    with raises("an update must have 1 arrays of predictions; got 2"):
        one.update([0, 1], [1, 1], [1, 1])
    with raises("`y_bar` and `y_pred` must have the same length; got 2 and 3"):
        one.update([0, 1], [1, 1, 2])
    with raises("`y_bar` must hold classes 0 to 2; got 3 at row 1"):
        one.update([0, 3], [1, 1])
    one.update([0, 1], [1, 2])
    with raises("all updates must have labels of one form, (N,) classes or (N, K) rows; got both"):
        one.update([[True, False, False]], [1])
    with raises("`sample_weight` must be given in all updates, or in none; got both"):
        one.update([0], [1], sample_weight=[2.0])
    with raises("accumulators must be of one metric and options to be merged; got accuracy_score and risk {'loss': "):
        one.merge(make("risk", 3))
    with raises("got accuracy_interval {'confidence': 0.9} and accuracy_interval {'confidence': 0.95}"):
        make("accuracy_interval", 3, confidence=0.9).merge(make("accuracy_interval", 3))
    with raises("tallies must be of the same classes, predictions and transition matrix to be merged"):
        one.merge(make("accuracy_score", 4))
    with raises("risk takes labels and one array (N, K); got 0"):
        make("risk", 3).update([0])
    with raises("outputs must have n_classes = 3 columns; got 2"):
        make("risk", 3).update([0], [[0.0, 1.0]])
    one.merge(make("accuracy_score", 3))  # that has seen nothing
    assert one.result() == 1.0
