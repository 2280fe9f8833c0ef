"""Weights are unbiased, by exact enumeration; risks split by ordinary class; batches weigh as in the paper."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.func import vmap

from helpers import as_sets, every_way, is_rows, raises, random_transition, risks_by_hand, uniform_sets
from naysayer import losses, risk, transition, unbiased_weights
from naysayer.labels.weights import count_labels, inverse_tensor, label_weights, weights_at

pytestmark = pytest.mark.usefixtures("float64")


def lopsided(logits):
    """A loss of no symmetry, negative in places: Theorem 1 asks nothing of it."""
    classes = torch.arange(logits.shape[-1], dtype=logits.dtype)
    return torch.sin(logits) * (classes + 1) + logits.flip(-1) * 0.3 - classes


LOSSES = {
    "cross_entropy": losses.cross_entropy,
    "mean_absolute_error": losses.mean_absolute_error,
    "mean_squared_error": losses.mean_squared_error,
    "zero_one": losses.zero_one,
    "lopsided": lopsided,
    **{f"one_vs_all({s})": losses.one_vs_all(s) for s in ("sigmoid", "logistic", "squared")},
    **{f"pairwise({s})": losses.pairwise(s) for s in ("ramp", "hinge", "exponential")},
}
WAYS = [(n_classes, name) for n_classes in (2, 3, 4, 5) for name in every_way(n_classes)]


def mean_weights(observe, y, n_classes, q):
    """E[W | class y], summing over every label there can be."""
    total, mass = torch.zeros(n_classes), 0.0
    for probability, label in observe(y):
        total += probability * unbiased_weights(np.asarray(label)[None], n_classes, q)[0]
        mass += probability
    assert mass == pytest.approx(1)
    return total


# ---- unbiasedness, exactly ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "name"), WAYS)
def test_weights_are_unbiased_by_enumeration(n_classes, name):
    observe, q = every_way(n_classes)[name]
    for y in range(n_classes):
        expected = torch.eye(n_classes)[y]
        torch.testing.assert_close(mean_weights(observe, y, n_classes, q), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("n_classes", "name"), [way for way in WAYS if way[0] in (3, 4)])
def test_the_risk_of_each_class_is_unbiased_for_every_loss(n_classes, name):
    """E[r_k] = π_k E_k[ℓ(k, g)] for each class k, over a finite world of five inputs."""
    observe, q = every_way(n_classes)[name]
    rng = np.random.default_rng(0)
    chance = torch.tensor(rng.dirichlet(np.ones(5)))  # P(x)
    posterior = torch.tensor(rng.dirichlet(np.ones(n_classes), 5))  # P(y | x)
    logits = torch.tensor(rng.normal(scale=2, size=(5, n_classes)))
    seen = torch.stack([mean_weights(observe, y, n_classes, q) for y in range(n_classes)])
    for loss in LOSSES.values():
        truth = (chance[:, None] * posterior * loss(logits)).sum(dim=0)  # π_k E_k[ℓ(k, g)]
        estimated = risk.class_risks(loss(logits), chance[:, None] * (posterior @ seen))
        torch.testing.assert_close(estimated, truth, rtol=0, atol=1e-9)


def test_wrong_matrices_are_noticed():
    """The enumeration can fail: labels that come otherwise than was said are not unbiased."""
    q = random_transition(4)
    observe, _ = every_way(4)["noisy"]
    for told in (None, q):
        assert (mean_weights(observe, 0, 4, told) - torch.eye(4)[0]).abs().max() > 0.1


def a_world(n_classes=3, n_inputs=3, seed=0):
    """P(x, not c) under uniform labels, the π_k P(x | k) it comes from, and logits."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.ones(n_inputs * n_classes)).reshape(n_inputs, n_classes)
    return joint, joint @ transition.uniform(n_classes), torch.tensor(rng.normal(size=(n_inputs, n_classes)))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_batch_drawn_class_by_class_is_unbiased_for_each_class(loss):
    """All 3³ batches of one example from each P̄_c, with the true π̄: E[r_k] = π_k E_k[ℓ(k, g)]."""
    joint, seen, logits = a_world()
    prior = torch.tensor(seen.sum(axis=0))
    given = seen / seen.sum(axis=0)  # P(x | not c)
    expected = torch.zeros(3)
    for inputs in itertools.product(range(3), repeat=3):
        probability = np.prod([given[x, c] for c, x in enumerate(inputs)])
        weights = batch_weights(torch.arange(3), prior, 1.0)
        expected += probability * risk.class_risks(loss(logits[list(inputs)]), weights)
    truth = (torch.tensor(joint) * loss(logits)).sum(dim=0)
    torch.testing.assert_close(expected, truth, rtol=0, atol=1e-12)


def test_the_split_is_by_ordinary_class_not_by_label():
    """The parts by complementary label have the same sum, but are other numbers, and not risks of classes."""
    joint, seen, logits = a_world()
    values = losses.cross_entropy(logits)
    rows = torch.eye(3).new_tensor(seen)  # P(x, not c)
    lbar = values.sum(dim=-1, keepdim=True) - 2 * values  # Theorem 1
    by_label = (rows * lbar).sum(dim=0)
    truth = (torch.tensor(joint) * values).sum(dim=0)
    torch.testing.assert_close(by_label.sum(), truth.sum())
    assert (by_label - truth).abs().max() > 0.05


# ---- rows of weights ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
def test_theorem_1_as_weights(n_classes):
    weights = unbiased_weights([0, n_classes - 1], n_classes)
    assert weights.shape == (2, n_classes)
    for row, label in zip(weights, (0, n_classes - 1)):
        for k in (0, 1, n_classes - 1):
            assert row[k] == (1 - (n_classes - 1) if k == label else 1)


@pytest.mark.parametrize("n_classes", [3, 5, 8])
def test_a_set_weighs_as_the_mean_of_its_labels(n_classes):
    for size in range(1, n_classes):
        for _, row in uniform_sets(n_classes, size)(0):
            singles = unbiased_weights(np.flatnonzero(row), n_classes)
            torch.testing.assert_close(unbiased_weights(row[None], n_classes)[0], singles.mean(dim=0))
            by_hand = torch.where(torch.tensor(row), -(n_classes - 1 - size) / size, 1.0)
            torch.testing.assert_close(unbiased_weights(row[None], n_classes)[0], by_hand)


def test_a_set_with_a_matrix_weighs_as_the_mean_of_its_rows():
    q = random_transition(5)
    inverse = torch.tensor(np.linalg.inv(q))
    row = np.array([[False, True, False, True, True]])
    torch.testing.assert_close(unbiased_weights(row, 5, q)[0], inverse[[1, 3, 4]].mean(dim=0))
    torch.testing.assert_close(unbiased_weights([2], 5, q)[0], inverse[2])


@pytest.mark.parametrize("q", [None, random_transition(4)])
def test_one_hot_rows_equal_single_labels(q):
    labels = [0, 3, 2, 2, 1]
    torch.testing.assert_close(unbiased_weights(as_sets(labels, 4), 4, q), unbiased_weights(labels, 4, q))


@pytest.mark.parametrize("q", [None, random_transition(4)])
def test_ordinary_labels_and_silence(q):
    torch.testing.assert_close(unbiased_weights(is_rows([2, 0], 4), 4, q), torch.eye(4)[[2, 0]])
    assert not unbiased_weights(np.zeros((2, 4), dtype=bool), 4, q).any()


def test_weights_have_the_default_type():
    assert unbiased_weights([0], 3).dtype == torch.float64
    torch.set_default_dtype(torch.float32)
    for q in (None, transition.uniform(3)):
        for labels in ([0], as_sets([0], 3)):
            assert unbiased_weights(labels, 3, q).dtype == torch.float32
    assert unbiased_weights(torch.tensor([0]), 3).device.type == "cpu"


def test_unbiased_weights_checks_its_labels():
    with raises("`y_bar` must hold classes 0 to 2; got 3 at row 0; pass n_classes=4?"):
        unbiased_weights([3], 3)
    with raises("its condition number is"):
        unbiased_weights([0], 4, transition.noisy(4, 0.25))


@pytest.mark.parametrize("q", [None, random_transition(4)])
@pytest.mark.parametrize("encode", [np.asarray, lambda y: as_sets(y, 4), lambda y: is_rows(y, 4)])
def test_weights_at_one_class_are_entries_of_the_rows(encode, q):
    y = torch.as_tensor(encode([0, 3, 2, 2, 1]))
    classes = torch.tensor([0, 1, 2, 3, 0])
    inverse = inverse_tensor(q, 4)
    rows = label_weights(y, 4, inverse)
    torch.testing.assert_close(weights_at(y, classes, 4, inverse), rows[torch.arange(5), classes])


# ---- mini-batches ---------------------------------------------------------------------------------------------

LABELS = [0, 2, 2, 1, 2, 0, 1, 1, 1]
PRIOR = [0.2, 0.3, 0.1, 0.4]  # of four classes; no example says "not 3"


def batch_weights(y, prior, alpha, inverse=None):
    """The weights of a batch from its own counts."""
    counts = count_labels(y, prior.shape[-1], inverse is not None)
    return risk.batch_weights(y, risk.scales_by_class(counts, prior, alpha), inverse)


def kind_weights(y, alpha, n_classes=4):
    return risk.example_weights(y, risk.scales_by_kind(count_labels(y, n_classes), alpha))


def batch_by_loops(sets, prior, alpha, rows_of):
    """α Σ_c π̄_c/n_c over the single labels of the sets, one s-th each, and (1 - α)/n over the ordinary ones."""
    n, n_classes = sets.shape
    ordinary = [i for i in range(n) if sets[i].sum() == n_classes - 1]
    told = [i for i in range(n) if i not in ordinary]
    counts = [sum(sets[i, c] / sets[i].sum() for i in told if sets[i, c]) for c in range(n_classes)]
    out = torch.zeros(n, n_classes)
    for i in told:
        for c in np.flatnonzero(sets[i]):
            out[i] += alpha * prior[c] / counts[c] / sets[i].sum() * rows_of(c)
    for i in ordinary:
        out[i, int(np.flatnonzero(~sets[i])[0])] += (1 - alpha) / len(ordinary)
    return out


def rows_of(q, n_classes=4):
    """Row c of Q⁻¹, or of Theorem 1."""
    inverse = np.linalg.inv(q) if q is not None else 1.0 - (n_classes - 1) * np.eye(n_classes)
    return lambda c: torch.tensor(inverse[c])


@pytest.mark.parametrize("q", [None, random_transition(4), random_transition(4, 1, diagonal=0.1)])
@pytest.mark.parametrize("loss", [losses.cross_entropy, lopsided])
def test_batch_weights_are_the_papers_formula(loss, q):
    logits = torch.randn(len(LABELS), 4, generator=torch.Generator().manual_seed(0))
    y, prior = torch.tensor(LABELS), torch.tensor(PRIOR)
    weights = batch_weights(y, prior, 1.0, inverse_tensor(q, 4))
    by_hand = risks_by_hand(loss(logits), LABELS, PRIOR, None if q is None else np.linalg.inv(q))
    torch.testing.assert_close(risk.class_risks(loss(logits), weights), torch.stack(by_hand))


@pytest.mark.parametrize("q", [None, random_transition(4)])
def test_batch_weights_of_one_hot_rows_equal_those_of_single_labels(q):
    inverse, prior = inverse_tensor(q, 4), torch.tensor(PRIOR)
    single = batch_weights(torch.tensor(LABELS), prior, 1.0, inverse)
    torch.testing.assert_close(batch_weights(torch.tensor(as_sets(LABELS, 4)), prior, 1.0, inverse), single)


@pytest.mark.parametrize("q", [None, random_transition(5)])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_sets_and_ordinary_labels_in_a_batch(alpha, q):
    rng = np.random.default_rng(0)
    sets = np.zeros((14, 5), dtype=bool)
    for i, size in enumerate([1, 1, 2, 2, 2, 3, 3, 1, 4, 4, 4, 0, 0, 2]):
        sets[i, rng.choice(5, size, replace=False)] = True
    prior = rng.dirichlet(np.ones(5))
    weights = batch_weights(torch.tensor(sets), torch.tensor(prior), alpha, inverse_tensor(q, 5))
    torch.testing.assert_close(weights, batch_by_loops(sets, prior, alpha, rows_of(q, 5)))
    assert not weights[sets.sum(axis=1) == 0].any()  # silence weighs nothing


def test_a_mixture_is_alpha_of_one_risk_and_the_rest_of_the_other():
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    told, true, alpha = [1, 3, 3, 0], [2, 0, 2], 0.7
    sets = torch.tensor(np.concatenate([as_sets(told, 4), is_rows(true, 4)]))
    values = losses.cross_entropy(logits)
    complementary = sum(risks_by_hand(values[:4], told, PRIOR))
    ordinary = sum(values[4 + i, y] for i, y in enumerate(true)) / 3
    mixed = risk.class_risks(values, batch_weights(sets, torch.tensor(PRIOR), alpha)).sum()
    torch.testing.assert_close(mixed, alpha * complementary + (1 - alpha) * ordinary)


def test_a_class_absent_from_the_batch_adds_nothing():
    y = torch.tensor([0, 0, 1])
    for prior in ([0.25, 0.25, 0.5, 0.0], [0.25, 0.25, 0.0, 0.5]):  # the shares of absent classes do not matter
        for labels in (y, torch.tensor(as_sets(y, 4))):
            weights = batch_weights(labels, torch.tensor(prior), 1.0)
            torch.testing.assert_close(weights, batch_weights(y, torch.tensor([0.25, 0.25, 0.3, 0.2]), 1.0))
            assert weights.sum().item() == pytest.approx(0.5)  # each row of W sums to 1, the classes to 1/4 each


@pytest.mark.parametrize("kind", ["single", "sets"])
@pytest.mark.parametrize("q", [None, random_transition(4)])
def test_leading_axes_and_vmap_equal_a_loop(kind, q):
    rng = np.random.default_rng(1)
    y = torch.tensor(rng.integers(0, 4, (3, 9)))
    if kind == "sets":
        sets = np.zeros((3, 9, 4), dtype=bool)
        for m, i in itertools.product(range(3), range(9)):
            sets[m, i, rng.choice(4, (m + i) % 4, replace=False)] = True
        y = torch.tensor(sets)
    prior = torch.tensor(rng.dirichlet(np.ones(4), 3))
    alpha = torch.tensor([[0.2], [0.5], [0.9]])
    inverse = inverse_tensor(q, 4)
    values = torch.tensor(rng.normal(size=(3, 9, 4)))

    def risks(y, prior, alpha, values):
        return risk.class_risks(values, batch_weights(y, prior, alpha, inverse))

    loop = torch.stack([risks(*args) for args in zip(y, prior, alpha, values)])
    torch.testing.assert_close(risks(y, prior, alpha, values), loop)
    torch.testing.assert_close(vmap(risks)(y, prior, alpha, values), loop)
    for function in (
        lambda y: label_weights(y, 4, inverse),
        lambda y: count_labels(y, 4, inverse is not None),
        lambda y: kind_weights(y, 0.4),
        lambda y: kind_weights(y, None),
        lambda y: weights_at(y, torch.arange(9) % 4, 4, inverse),
    ):
        each = torch.stack([function(one) for one in y])
        torch.testing.assert_close(function(y), each)
        torch.testing.assert_close(vmap(function)(y), each)


def test_example_weights_with_leading_axes():
    y = torch.tensor(np.random.default_rng(0).integers(0, 4, (2, 3, 9)))
    prior = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(4), 3))  # one for each of 3 runs
    weights = risk.example_weights(y, risk.scales_by_class(count_labels(y, 4), prior, 1.0))
    for step, run in itertools.product(range(2), range(3)):
        labels = y[step, run].tolist()
        by_hand = [float(prior[run, c]) / labels.count(c) for c in labels]
        torch.testing.assert_close(weights[step, run], torch.tensor(by_hand))


# ---- counts and shares ----------------------------------------------------------------------------------------


def test_labels_are_counted():
    counts = count_labels(torch.tensor(LABELS), 4)
    assert counts.tolist() == [2, 4, 3, 0, 0]
    sets = np.concatenate([as_sets([0, 1], 4), is_rows([2, 2, 3], 4), [[True, True, False, False]], np.zeros((2, 4))])
    counts = count_labels(torch.tensor(sets.astype(bool)), 4)
    assert counts.tolist() == [1.5, 1.5, 0, 0, 3]
    prior, share = risk.shares(counts)
    assert prior.tolist() == [0.5, 0.5, 0, 0]
    assert share.tolist() == [0.5]
    prior, share = risk.shares(torch.tensor([0.0, 0, 0, 0, 5]))  # ordinary labels only
    assert prior.tolist() == [0, 0, 0, 0]
    assert share.tolist() == [0]


def test_with_two_classes_a_label_is_ordinary_unless_a_matrix_says_how_it_came_about():
    sets = torch.tensor(as_sets([0, 1, 1], 2))
    assert count_labels(sets, 2).tolist() == [0, 0, 3]
    assert count_labels(sets, 2, known_transition=True).tolist() == [1, 2, 0]


def test_plain_means_weigh_examples_that_say_something():
    assert kind_weights(torch.tensor([0, 1, 1, 2]), None).tolist() == [0.25] * 4
    sets = torch.tensor(np.concatenate([as_sets([0, 1], 4), is_rows([2, 2, 3], 4), np.zeros((2, 4), dtype=bool)]))
    torch.testing.assert_close(kind_weights(sets, None), torch.tensor([0.2] * 5 + [0.0] * 2))
    torch.testing.assert_close(kind_weights(sets, 0.4), torch.tensor([0.4 / 2] * 2 + [0.6 / 3] * 3 + [0.0] * 2))
    assert not kind_weights(torch.zeros(3, 4, dtype=torch.bool), None).any()


# ---- corrections ----------------------------------------------------------------------------------------------


def test_coefficients_of_the_max_operator():
    assert risk.max_operator(torch.tensor([0.5, 0.0, -0.1])).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("risks", "beta", "coefficients"),
    [
        ([0.5, 0.1, 0.0], 0.0, [1, 1, 1]),
        ([0.5, -0.1, 0.2], 0.0, [0, -1, 0]),
        ([0.5, -0.1, 0.2], 0.1, [1, 1, 1]),  # exactly at -β the step still descends
        ([0.5, -0.1, 0.2], 0.05, [0, -1, 0]),
        ([-0.3, -0.2, -0.1], 0.15, [-1, -1, 0]),
        ([0.5, 0.1, 0.2], -0.15, [0, -1, 0]),  # a negative β asks for positive risks
    ],
)
def test_coefficients_of_gradient_ascent(risks, beta, coefficients):
    c, ascends = risk.gradient_ascent(torch.tensor(risks), beta)
    assert c.tolist() == coefficients
    assert ascends.item() == (min(risks) < -beta)


def test_runs_ascend_each_for_itself():
    risks = torch.tensor([[0.5, 0.1], [0.5, -0.1], [-0.2, -0.1]])
    c, ascends = risk.gradient_ascent(risks, 0.0)
    assert c.tolist() == [[1, 1], [0, -1], [-1, -1]]
    assert ascends.tolist() == [False, True, True]
    torch.testing.assert_close(vmap(lambda r: risk.gradient_ascent(r, 0.0)[0])(risks), c)
