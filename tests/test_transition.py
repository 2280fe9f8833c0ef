"""Transition matrices: rows are distributions, and what cannot be undone is refused."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from helpers import raises, random_transition
from naysayer import ReductionClassifier, complement, transition, unbiased_weights


@pytest.mark.parametrize("n_classes", [2, 3, 10, 200])
def test_uniform(n_classes):
    q = transition.uniform(n_classes)
    assert q.shape == (n_classes, n_classes)
    for y in range(n_classes):
        for c in range(min(n_classes, 12)):
            assert q[y, c] == (0.0 if c == y else 1 / (n_classes - 1))


@pytest.mark.parametrize("n_classes", [1, 0, 2.5])
def test_uniform_refuses_too_few_classes(n_classes):
    with raises("`n_classes` must be a whole number of at least 2"):
        transition.uniform(n_classes)
    with raises("`n_classes` must be a whole number of at least 2"):
        transition.noisy(n_classes, 0.1)


def test_biased_is_asking_until_the_answer_is_no():
    asked = np.array([0.5, 0.2, 0.2, 0.1])
    q = transition.biased(asked)
    for y in range(4):
        for c in range(4):
            assert q[y, c] == pytest.approx(0 if c == y else asked[c] / (1 - asked[y]))
    np.testing.assert_allclose(transition.biased(7 * asked), q)
    np.testing.assert_allclose(transition.biased(np.ones(4)), transition.uniform(4))


def test_biased_by_true_class_ignores_the_diagonal():
    weights = np.array([[9.0, 1, 3], [2, 9, 2], [0, 1, 9]])
    np.testing.assert_allclose(transition.biased(weights), [[0, 0.25, 0.75], [0.5, 0, 0.5], [0, 1, 0]])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones((2, 3)), "`weights` must have shape (K,) or (K, K) with K at least 2; got (2, 3)"),
        ([1.0], "`weights` must have shape (K,) or (K, K) with K at least 2; got (1,)"),
        (1.0, "`weights` must have shape (K,) or (K, K) with K at least 2; got ()"),
        ([1, -1, 1], "`weights` must be finite and not negative"),
        ([1, np.inf, 1], "`weights` must be finite and not negative"),
        ("many", "`weights` must be (K,) or (K, K) numbers; got something else"),
        ([0, 1, 0], "`weights` must leave each class a label to draw; class 1 has none"),
    ],
)
def test_biased_refused(weights, words):
    with raises(words):
        transition.biased(weights)


def test_noisy_names_the_truth_at_its_rate():
    base = random_transition(4)
    q = transition.noisy(4, 0.3, base)
    np.testing.assert_allclose(np.diag(q), 0.3)
    np.testing.assert_allclose(q.sum(axis=1), 1)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(q[off], 0.7 * base[off])
    np.testing.assert_allclose(transition.noisy(4, 0.0), transition.uniform(4))
    np.testing.assert_allclose(transition.noisy(4, 1.0), np.eye(4))


@pytest.mark.parametrize("rate", [-0.1, 1.1, np.nan])
def test_noise_rates_refused(rate):
    with raises(f"`rate` must be from 0 to 1; got {rate}"):
        transition.noisy(3, rate)


def test_noisy_checks_its_base():
    with raises("`transition` must be (3, 3), one row per class; got (2, 2)"):
        transition.noisy(3, 0.1, [[0, 1], [1, 0]])


@pytest.mark.parametrize("q", [random_transition(4, 1), random_transition(4, 2, diagonal=0.1)])
def test_estimate_converges_to_the_matrix(q):
    def error(n):
        y = np.arange(n) % 4
        return np.abs(transition.estimate(complement(y, 4, transition=q, random_state=0), y, 4) - q).max()

    assert error(400_000) < 0.006  # six standard errors of a frequency among 100,000
    assert error(400_000) < error(400) / 5


def test_estimate_is_frequencies_and_a_pull_to_uniform():
    y_true = [0, 0, 0, 0, 1, 2]
    y_bar = [1, 1, 1, 2, 0, 0]
    np.testing.assert_allclose(transition.estimate(y_bar, y_true, 3, strength=0)[0], [0, 0.75, 0.25])
    base = transition.estimate(y_bar, y_true, 3, model="biased")
    assert base[0, 1] > 0.5
    pulled = transition.estimate(y_bar, y_true, 3, strength=4)
    assert (pulled.model, pulled.choice, pulled.strength) == ("free", "free", 4.0)
    np.testing.assert_allclose(pulled[0], [0, (3 + 4 * base[0, 1]) / 8, (1 + 4 * base[0, 2]) / 8])
    np.testing.assert_allclose(transition.estimate([1], [0], 3, strength=2)[2], [0.5, 0.5, 0])  # no example at all
    np.testing.assert_allclose(pulled.sum(axis=1), 1)


WEIGHTS = np.array([4.0, 2.0, 1.0, 1.0, 2.0])
FREE = transition.biased(np.random.default_rng(0).gamma(1.0, size=(5, 5)))
TRUE = {
    "noisy": transition.noisy(5, 0.1),
    "biased": transition.biased(WEIGHTS),
    "both": transition.noisy(5, 0.1, transition.biased(WEIGHTS)),
    "free": FREE,
}


def pairs(q, n, seed=0):
    """Labels and true classes of n examples."""
    y = np.random.default_rng(seed).integers(len(q), size=n)
    return complement(y, len(q), transition=q, random_state=seed + 1), y


@pytest.mark.parametrize("model", TRUE)
def test_evidence_finds_the_model(model):
    for seed in range(5):
        found = transition.estimate(*pairs(TRUE[model], 2000, seed), 5)
        assert found.model == model
        assert np.abs(found - TRUE[model]).max() < 0.12


@pytest.mark.parametrize("model", ["noisy", "biased", "both"])
def test_fits_of_few_parameters_are_nearer_than_frequencies(model):
    assert len(transition.MODELS) == 4
    errors = []
    for seed in range(10):
        y_bar, y_true = pairs(TRUE[model], 200, seed)
        few, free = (transition.estimate(y_bar, y_true, 5, model=m) for m in (model, "free"))
        plain = transition.estimate(y_bar, y_true, 5, strength=0)
        errors.append([np.square(q - TRUE[model]).sum() for q in (few, free, plain)])
    few, free, plain = np.mean(errors, axis=0)
    assert few < plain / 3
    assert free < plain


def test_fits_are_what_their_names_say():
    y_bar, y_true = pairs(TRUE["both"], 300)
    rate = np.mean(y_bar == y_true)
    np.testing.assert_allclose(transition.estimate(y_bar, y_true, 5, model="noisy"), transition.noisy(5, rate))
    both = transition.estimate(y_bar, y_true, 5, model="both")
    np.testing.assert_allclose(np.diag(both), rate)
    weights = both[0] / both[0, 1]
    others = both[2] / both[2, 1]
    np.testing.assert_allclose(weights[[3, 4]], others[[3, 4]])  # one weight per class, whatever the true one
    y_bar, y_true = pairs(TRUE["biased"], 100_000)
    np.testing.assert_allclose(transition.estimate(y_bar, y_true, 5, model="biased"), TRUE["biased"], atol=0.01)


def test_an_estimate_carries_its_pairs_wherever_it_goes():
    y_bar, y_true = pairs(TRUE["both"], 300)
    q = transition.estimate(y_bar, y_true, 5)
    expected = np.zeros((5, 5), dtype=int)
    np.add.at(expected, (y_true, y_bar), 1)
    model = clone(ReductionClassifier(transition=q))
    again = transition.Estimated.from_json(json.loads(json.dumps(q.to_json())))
    for same in (q, q.copy(), copy.copy(q), copy.deepcopy(q), pickle.loads(pickle.dumps(q)), model.transition, again):
        assert isinstance(same, transition.Estimated)
        np.testing.assert_array_equal(same, np.asarray(q))
        np.testing.assert_array_equal(same.counts, expected)
        assert (same.model, same.choice, same.strength) == (q.model, "auto", q.strength)
        np.testing.assert_array_equal(same.draws(3), q.draws(3))


def test_what_is_computed_from_an_estimate_is_an_ordinary_array():
    q = transition.estimate(*pairs(TRUE["biased"], 300), 5)
    for made in (q[0], q[:2], q + 0, 1 - q, q.round(3), np.asarray(q), q @ q, q.sum(axis=1)):
        assert type(made) is np.ndarray
    for view in (q.T, q.diagonal(), q.astype(np.float32)):
        for made in (view.copy(), copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
            assert type(made) is np.ndarray
            np.testing.assert_array_equal(made, np.asarray(view))
    assert isinstance(q[0, 1], float)
    assert isinstance(q.sum(), float)
    assert np.array_equal(unbiased_weights([0, 1], 5, q), unbiased_weights([0, 1], 5, np.asarray(q)))


@pytest.mark.parametrize("model", ["auto", *transition.MODELS])
def test_draws_are_matrices_around_the_estimate(model):
    spread = []
    for n in (100, 10_000):
        q = transition.estimate(*pairs(TRUE["biased"], n), 5, model=model)
        drawn = q.draws(400, random_state=1)
        assert drawn.shape == (400, 5, 5)
        assert (drawn >= 0).all()
        np.testing.assert_allclose(drawn.sum(axis=2), 1)
        spread.append(drawn.std(axis=0).max())
        assert (np.abs(drawn.mean(axis=0) - q) < 3 * drawn.std(axis=0) + 1e-9).all()
        assert np.array_equal(drawn, q.draws(400, random_state=1))
    assert spread[1] < spread[0] / 5
    assert (np.diagonal(drawn, axis1=1, axis2=2).max() == 0) == (model == "biased")  # elsewhere labels might err


def test_draws_cover_the_truth():
    """Each entry lies between quantiles of the draws as often as they say, whichever kind of matrix it is."""
    for q in (TRUE["noisy"], TRUE["both"], FREE):
        held = []
        for seed in range(30):
            drawn = transition.estimate(*pairs(q, 200, seed), 5).draws(400)
            low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
            held.append((low <= q + 1e-9) & (q <= high + 1e-9))
        assert np.mean(held) > 0.92


def test_a_class_that_was_never_named_widens_and_does_not_break():
    q = transition.estimate([1, 0, 0, 1] * 5, [0, 1, 2, 2] * 5, 3)
    inverses = q.inverses
    assert np.isfinite(inverses).all()
    assert np.abs(inverses).max() > 100


@pytest.mark.parametrize(
    ("y_bar", "y_true", "options", "words"),
    [
        ([0, 1], [1], {}, "`y_bar` and `y_true` must have the same length; got 2 and 1"),
        (
            [1],
            [0],
            {"model": "uniform"},
            "`model` must be 'auto' or one of 'noisy', 'biased', 'both', 'free'; got 'uniform'",
        ),
        (
            [1],
            [0],
            {"model": "noisy", "strength": 1.0},
            "`strength` is for a free matrix; the model 'noisy' has none; leave it out",
        ),
        (
            [1, 0],
            [0, 0],
            {"model": "biased"},
            "labels of the model 'biased' must never name the true class; 1 of 2 do; take 'both' or 'auto'",
        ),
        ([1], [0], {"strength": -1.0}, "`strength` must not be negative; got -1.0"),
        ([1], [0], {"strength": np.nan}, "`strength` must not be negative; got nan"),
        (
            [1, 0],
            [0, 1],
            {"strength": 0},
            "each class must occur in `y_true` when strength is 0; class 2 does not; pass strength=1",
        ),
        ([3], [0], {}, "`y_bar` must hold classes 0 to 2; got 3 at row 0"),
        ([0], [3], {}, "`y_true` must hold classes 0 to 2; got 3 at row 0"),
    ],
)
def test_estimate_refused(y_bar, y_true, options, words):
    with raises(words):
        transition.estimate(y_bar, y_true, 3, **options)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_inverse_of_uniform_is_theorem_1(n_classes):
    expected = 1.0 - (n_classes - 1) * np.eye(n_classes)
    np.testing.assert_allclose(transition.inverse(transition.uniform(n_classes)), expected, atol=1e-12)


@pytest.mark.parametrize("q", [random_transition(5, s, d) for s in range(3) for d in (0.0, 0.1)])
def test_the_inverse_undoes_the_matrix(q):
    np.testing.assert_allclose(q @ transition.inverse(q, 5), np.eye(5), atol=1e-10)


def test_a_singular_matrix_is_refused_with_its_condition_number():
    blind = transition.noisy(4, 1 / 4)  # every label equally likely whatever the class
    with pytest.raises(
        ValueError, match=r"`transition` must be invertible .* condition number is (inf|\d.*e\+\d+), and 100,000 of its"
    ):
        transition.inverse(blind)
    two_alike = np.array([[0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.5, 0.5, 0, 0]])
    with raises("such labels say too little about the classes"):
        transition.inverse(two_alike)


def test_an_ill_conditioned_matrix_is_refused_with_its_condition_number():
    nearly = transition.noisy(4, 1 / 4 + 1e-7)
    condition = np.linalg.cond(nearly)
    assert 1e5 < condition < 1e8
    with raises(f"its condition number is {condition:.3g}, and 100,000 of its labels tell less than a single uniform"):
        transition.inverse(nearly)
    with raises("such labels say too little about the classes"):
        transition.inverse(transition.noisy(4, 1 / 4 + 1e-4))


def test_costly_labels_give_a_warning_long_before(recwarn):
    transition.inverse(transition.noisy(4, 0.15))
    assert not recwarn
    costly = transition.noisy(4, 0.22)
    with pytest.warns(UserWarning, match="labels of this transition matrix say little: it takes 67 times as many as"):
        transition.inverse(costly)
    assert np.linalg.cond(costly) < 50
    assert transition.inverse(transition.noisy(4, 0.24)).shape == (4, 4)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_cost_is_that_of_the_variance(n_classes):
    """By simulation: mean squares of weights, averaged over classes, against those of uniform labels."""
    assert transition.cost(transition.uniform(n_classes)) == pytest.approx(1)
    q = transition.noisy(n_classes, 0.05, transition.biased(np.arange(1, n_classes + 1)))
    y = np.arange(100 * n_classes) % n_classes
    squares = [
        np.square(unbiased_weights(complement(y, n_classes, transition=t, random_state=s), n_classes, t).numpy()).mean()
        for t in (q, transition.uniform(n_classes))
        for s in range(20)
    ]
    assert transition.cost(q) == pytest.approx(np.mean(squares[:20]) / np.mean(squares[20:]), rel=0.1)
    assert transition.cost(np.ones((n_classes, n_classes)) / n_classes) == np.inf


def test_inverse_checks_its_size():
    with raises("`transition` must be (4, 4), one row per class; got (3, 3)"):
        transition.inverse(transition.uniform(3), 4)
