"""Transition matrices: rows are distributions, and what cannot be undone is refused."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import raises, random_transition
from naysayer import complement, transition


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
    pulled = transition.estimate(y_bar, y_true, 3, strength=4)
    np.testing.assert_allclose(pulled[0], [0, (3 + 4 * 0.5) / 8, (1 + 4 * 0.5) / 8])
    np.testing.assert_allclose(transition.estimate([1], [0], 3, strength=2)[2], [0.5, 0.5, 0])  # no example at all
    np.testing.assert_allclose(pulled.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("y_bar", "y_true", "options", "words"),
    [
        ([0, 1], [1], {}, "`y_bar` and `y_true` must have the same length; got 2 and 1"),
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
        ValueError, match=r"`transition` must be invertible .* condition number is (inf|\d.*e\+\d+) \(at most 1e\+05\)"
    ):
        transition.inverse(blind)
    two_alike = np.array([[0, 0.5, 0.5, 0], [0, 0.5, 0.5, 0], [0.5, 0, 0, 0.5], [0.5, 0.5, 0, 0]])
    with raises("such labels say too little about the classes"):
        transition.inverse(two_alike)


def test_an_ill_conditioned_matrix_is_refused_with_its_condition_number():
    nearly = transition.noisy(4, 1 / 4 + 1e-7)
    condition = np.linalg.cond(nearly)
    assert 1e5 < condition < 1e8
    with raises(f"its condition number is {condition:.3g} "):
        transition.inverse(nearly)
    transition.inverse(transition.noisy(4, 1 / 4 + 1e-4))  # large, but usable


def test_inverse_checks_its_size():
    with raises("`transition` must be (4, 4), one row per class; got (3, 3)"):
        transition.inverse(transition.uniform(3), 4)
