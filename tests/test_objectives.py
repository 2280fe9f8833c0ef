"""Objectives against Algorithm 1 and the formulas they name, computed by plain loops."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas
import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import grad_and_value, vmap

from helpers import Largest, as_sets, is_rows, raises, random_transition, risks_by_hand
from naysayer import complement, losses, objectives, transition
from naysayer.labels.weights import label_weights, one_hot
from naysayer.losses import cross_entropy
from naysayer.objectives import (
    OBJECTIVES,
    Forward,
    GradientAscent,
    NonNegative,
    PairwiseComparison,
    Unbiased,
    forward,
)

pytestmark = pytest.mark.usefixtures("float64")

ALL = {
    "free": Unbiased,
    "max": NonNegative,
    "ascent": GradientAscent,
    "forward": Forward,
    "pairwise": PairwiseComparison,
}
CORRECTED = (Unbiased, NonNegative, GradientAscent)
LABELS = [0, 2, 2, 1, 2, 0, 1, 1, 1]
PRIOR = [0.2, 0.3, 0.1, 0.4]


def inputs(seed=0, n=9, n_inputs=3):
    return torch.randn(n, n_inputs, generator=torch.Generator().manual_seed(seed))


def parameters(seed=0, n_inputs=3, n_classes=4, scale=1.0):
    return scale * torch.randn(n_inputs, n_classes, generator=torch.Generator().manual_seed(100 + seed))


def gradient(objective, theta, x, y):
    theta = theta.clone().requires_grad_()
    objective(x @ theta, y).backward()
    return theta.grad


def algorithm_1(theta, x, y, prior, beta, gamma, q_inverse=None):
    """The gradient that Algorithm 1 sets, times the discount of its step; and whether it ascends."""
    theta = theta.clone().requires_grad_()
    risks = risks_by_hand(cross_entropy(x @ theta), y, prior, q_inverse)
    if min(r.item() for r in risks) >= -beta:
        return torch.autograd.grad(sum(risks), theta)[0], False
    squashed = sum((r for r in risks if r.item() < -beta), torch.zeros(()))  # the rest is -β, a constant
    return -gamma * torch.autograd.grad(squashed, theta)[0], True


# ---- Free, Max operator, Gradient Ascent ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("q", [None, random_transition(4), random_transition(4, 1, diagonal=0.1)])
@pytest.mark.parametrize("loss", [cross_entropy, losses.mean_squared_error, losses.one_vs_all("logistic")])
def test_free_and_max_by_hand(loss, q, seed):
    x, theta = inputs(seed), parameters(seed, scale=2.0)
    inverse = None if q is None else np.linalg.inv(q)
    for objective, term in ((Unbiased, lambda r: r), (NonNegative, lambda r: torch.clamp(r, min=0))):
        held = theta.clone().requires_grad_()
        value = sum(term(r) for r in risks_by_hand(loss(x @ held), LABELS, PRIOR, inverse))
        made = objective(4, loss, q, PRIOR)
        torch.testing.assert_close(made(x @ theta, torch.tensor(LABELS)), value.detach())
        by_hand = torch.autograd.grad(value, held)[0]
        torch.testing.assert_close(gradient(made, theta, x, torch.tensor(LABELS)), by_hand)


@pytest.mark.parametrize(("beta", "gamma"), list(itertools.product([0.0, 0.05, 1.0, -0.1], [1.0, 0.5, 0.0])))
def test_the_gradient_is_algorithm_1s(beta, gamma):
    branches = set()
    batches = ((LABELS, PRIOR), ([0, 1, 2, 3, 0, 1, 2, 3, 3], [0.25] * 4))
    for seed, scale, q, (y, prior) in itertools.product(range(4), (0.1, 3.0), (None, random_transition(4)), batches):
        x, theta = inputs(seed), parameters(seed, scale=scale)
        inverse = None if q is None else np.linalg.inv(q)
        expected, ascends = algorithm_1(theta, x, y, prior, beta, gamma, inverse)
        objective = GradientAscent(4, cross_entropy, q, prior, beta=beta, gamma=gamma)
        torch.testing.assert_close(gradient(objective, theta, x, torch.tensor(y)), expected)
        branches.add(ascends)
    assert branches == {True, False}  # both branches were met


def test_exactly_at_minus_beta_the_step_descends():
    x, theta = inputs(), parameters(scale=3.0)
    y = torch.tensor(LABELS)
    lowest = Unbiased(4, prior=PRIOR).class_risks(x @ theta, y).min().item()
    assert lowest < 0
    descent = gradient(Unbiased(4, prior=PRIOR), theta, x, y)
    at = GradientAscent(4, prior=PRIOR, beta=-lowest)
    torch.testing.assert_close(gradient(at, theta, x, y), descent)
    within = GradientAscent(4, prior=PRIOR, beta=math.nextafter(-lowest, 0.0))
    assert (gradient(within, theta, x, y) - descent).abs().max() > 1e-3


def test_ascent_climbs_the_low_risks_and_only_them():
    x, theta = inputs(), parameters(scale=3.0)
    y = torch.tensor(LABELS)
    objective = GradientAscent(4, prior=PRIOR)
    before = objective.class_risks(x @ theta, y)
    low = before < 0
    assert low.any()
    after = objective.class_risks(x @ (theta - 1e-4 * gradient(objective, theta, x, y)), y)
    assert after[low].sum() > before[low].sum()


def test_class_risks_sum_to_the_free_value():
    x, theta = inputs(), parameters(scale=2.0)
    for y in (LABELS, as_sets(LABELS, 4), np.concatenate([as_sets(LABELS[:5], 4), is_rows([0, 1, 2, 3], 4)])):
        for q, prior, alpha in itertools.product((None, random_transition(4)), (None, PRIOR), (None, 0.3)):
            for objective in CORRECTED:
                made = objective(4, "cross_entropy", q, prior, alpha=alpha)
                free = Unbiased(4, "cross_entropy", q, prior, alpha=alpha)(x @ theta, y)
                torch.testing.assert_close(made.class_risks(x @ theta, y).sum(), free)
                assert made.class_risks(x @ theta, y).shape == (4,)


def test_class_risks_by_hand():
    logits = inputs() @ parameters()
    by_hand = torch.stack(risks_by_hand(cross_entropy(logits), LABELS, PRIOR))
    torch.testing.assert_close(GradientAscent(4, prior=PRIOR).class_risks(logits, LABELS), by_hand)


def test_the_max_operator_is_never_negative_where_free_is():
    logits = 20 * inputs(n=40, n_inputs=4)
    y = logits.argmin(dim=-1)
    worst = logits.argmax(dim=-1)
    assert Unbiased(4)(logits, worst) > 0
    assert Unbiased(4)(logits, y) < 0
    assert NonNegative(4)(logits, y) >= 0


def memory(value):
    """The largest tensor, and all that is kept for the gradient."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with Largest() as largest, saved_tensors_hooks(keep, lambda tensor: tensor):
        value().backward()
    return largest.bytes, sum(kept.values())


# ---- Forward --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [None, random_transition(4), transition.noisy(4, 0.1)])
def test_forward_is_the_likelihood_of_the_label(q):
    logits = 2 * inputs() @ parameters()
    p = torch.softmax(logits, dim=-1)
    told = torch.tensor(transition.uniform(4) if q is None else q)
    by_hand = sum(-math.log(sum(float(told[y, c] * p[i, y]) for y in range(4))) for i, c in enumerate(LABELS)) / 9
    for labels in (LABELS, as_sets(LABELS, 4)):
        assert Forward(4, q)(logits, labels).item() == pytest.approx(by_hand, rel=1e-12)


def test_forward_of_sets_is_the_likelihood_of_the_set():
    logits = inputs(n=4, n_inputs=5)
    p = torch.softmax(logits, dim=-1)
    sets = np.array([[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 0, 1]], dtype=bool)
    # P(S | x): each class outside S draws S among the C(K - 1, s) sets that miss it.
    by_hand = [-math.log(float(p[i, ~row].sum()) / math.comb(4, row.sum())) for i, row in enumerate(sets)]
    torch.testing.assert_close(Forward(5).example_losses(logits, torch.tensor(sets)), torch.tensor(by_hand))
    assert by_hand[3] == pytest.approx(-math.log(p[3, 3]))  # an ordinary label


def test_forward_of_sets_with_a_matrix_averages_their_labels():
    q = random_transition(4)
    logits = inputs(n=3, n_inputs=4)
    label = -torch.log(torch.softmax(logits, dim=-1) @ torch.tensor(q))  # (B, K): the loss of "not c"
    sets = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]], dtype=bool)
    by_hand = [label[0, [0, 2]].mean(), label[1, 1], -torch.log_softmax(logits, dim=-1)[2, 2]]
    torch.testing.assert_close(Forward(4, q).example_losses(logits, torch.tensor(sets)), torch.stack(by_hand))


def wide(n, n_classes):
    """Methods that mix the classes' probabilities by a matrix, and examples that rule out some classes."""
    logits = torch.randn(n, n_classes, generator=torch.Generator().manual_seed(0), requires_grad=True)
    q = transition.noisy(n_classes, 0.1, random_transition(n_classes))
    return Forward(n_classes, q), objectives.ProbabilityEstimate(n_classes, q, layer=True), logits


@pytest.mark.parametrize("layer", [False, True])
def test_blocks_of_labels_change_nothing(layer, monkeypatch):
    *made, logits = wide(20, 7)
    objective, y = made[layer], mixed_sets(20, 7)
    leaves = [logits, *objective.parameters()]
    found, together = [], torch.stack([logits, -logits]).detach()
    for at_once in (forward._AT_ONCE, 3 * 20 * 7, 1):
        monkeypatch.setattr(forward, "_AT_ONCE", at_once)
        value = objective.eval()(logits, y)
        found.append((value, *torch.autograd.grad(value, leaves), vmap(objective)(together, torch.stack([y, y]))))
        if layer:  # a matrix of its own for each of several batches
            found[-1] += (objective.head(together), vmap(objective.head)(together))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("layer", [False, True])
def test_labels_by_a_matrix_never_form_all_terms(layer, monkeypatch):
    """With 200 classes they took 20 MB, several times over, for 64 examples."""
    n, n_classes = 64, 200
    monkeypatch.setattr(forward, "_AT_ONCE", 8 * n * n_classes)
    *made, logits = wide(n, n_classes)
    largest, kept = memory(lambda: made[layer](logits, mixed_sets(n, n_classes)))
    assert max(largest, kept) <= 40 * n * n_classes * 8
    monkeypatch.setattr(forward, "_AT_ONCE", n * n_classes**2)  # the measure can fail
    assert min(memory(lambda: made[layer](logits, mixed_sets(n, n_classes)))) >= n * n_classes**2 * 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("q", [None, random_transition(3), transition.noisy(3, 0.1)])
def test_forward_stays_finite_for_huge_logits(q, dtype):
    torch.set_default_dtype(dtype)
    rows = [list(signs) for signs in itertools.product([1e4, -1e4, 0.0], repeat=3)]
    for c, encode in itertools.product(range(3), (np.asarray, lambda y: as_sets(y, 3), lambda y: is_rows(y, 3))):
        logits = torch.tensor(rows, requires_grad=True)
        value = Forward(3, q)(logits, encode([c] * len(rows)))
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(logits.grad).all()
    sure = Forward(3)(torch.tensor([[1e4, 0.0, -1e4]]), torch.tensor([0]))
    assert sure.item() == pytest.approx(1e4 + math.log(2))  # log(1 - p) itself would be log 0


@pytest.mark.parametrize("objective", [Unbiased, NonNegative, GradientAscent, PairwiseComparison])
def test_the_others_stay_finite_for_huge_logits(objective):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, -1e4, 1e4]], requires_grad=True)
    value = objective(3)(logits, torch.tensor([0, 1]))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(logits.grad).all()


# ---- pairwise comparison --------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", ["ramp", "sigmoid", losses.sigmoid])
@pytest.mark.parametrize("n_classes", [2, 4, 7])
def test_pairwise_comparison_is_the_unbiased_risk_of_its_loss(n_classes, binary):
    logits = inputs(n=30, n_inputs=n_classes).requires_grad_()
    y = torch.arange(30) % n_classes
    shares = torch.bincount(y, minlength=n_classes) / 30
    one = PairwiseComparison(n_classes, binary)(logits, y)
    other = Unbiased(n_classes, losses.pairwise(binary), prior=shares)(logits, y)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(*(torch.autograd.grad(value, logits)[0] for value in (one, other)))


def mixed_sets(n, n_classes, seed=0):
    """Single labels, sets, ordinary labels, and rows that say nothing."""
    rng = np.random.default_rng(seed)
    size = rng.choice([0, 1, 2, n_classes // 2, n_classes - 1], size=(n, 1))
    return torch.from_numpy(np.argsort(rng.random((n, n_classes)), axis=1) < size)


@pytest.mark.parametrize("binary", ["ramp", "sigmoid"])
@pytest.mark.parametrize("q", [None, random_transition(6)], ids=["uniform", "biased"])
@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 30.0])
def test_pairwise_comparison_of_sets_is_the_weighted_sum_of_its_losses(binary, q, scale, monkeypatch):
    monkeypatch.setattr("naysayer.objectives.pairwise._AT_ONCE", 100)  # several blocks of classes
    logits = (scale * torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(1))).requires_grad_()
    objective = PairwiseComparison(6, binary, q)
    single = torch.arange(18).view(2, 9) % 6
    for few, y in itertools.product((0, 4), (mixed_sets(18, 6).view(2, 9, 6), one_hot(single, 6), single)):
        monkeypatch.setattr("naysayer.objectives.pairwise._FEW", few)
        direct = (label_weights(y, 6, objective.inverse) * losses.pairwise(binary)(logits)).sum(dim=-1)
        (expected,) = torch.autograd.grad(direct.square().sum(), logits)
        found = objective.example_losses(logits, y)
        torch.testing.assert_close(found, direct)
        (gradient,) = torch.autograd.grad(found.square().sum(), logits)
        torch.testing.assert_close(gradient, expected)
        together = vmap(objective.example_losses)(logits, y)
        torch.testing.assert_close(together, direct)


@pytest.mark.parametrize("binary", ["ramp", "sigmoid"])
@pytest.mark.parametrize("q", [None, "biased"])
def test_pairwise_comparison_never_holds_all_pairs(binary, q):
    """With 300 classes all pairs of a batch took 92 MB at a time, many times over."""
    n, n_classes = 256, 300
    objective = PairwiseComparison(n_classes, binary, None if q is None else transition.noisy(n_classes, 0.1))
    logits = torch.randn(n, n_classes, generator=torch.Generator().manual_seed(0), requires_grad=True)
    sets = mixed_sets(n, n_classes)

    largest, kept = memory(lambda: objective(logits, sets))
    assert largest <= 14 * n * n_classes * 8
    assert kept <= 40 * n * n_classes * 8
    sets = one_hot(torch.arange(n), n_classes)
    largest, kept = memory(lambda: objective(logits, sets))
    assert largest <= 14 * n * n_classes * 8
    assert kept <= 40 * n * n_classes * 8
    largest, kept = memory(lambda: losses.pairwise(binary)(logits).sum())  # the measure can fail
    assert min(largest, kept) >= n * n_classes**2 * 8


def test_pairwise_comparison_by_hand():
    logits = inputs() @ parameters()
    total = 0.0
    for row, c in zip(logits.tolist(), LABELS):
        lbar = sum(0.5 * max(0.0, min(2.0, 1 - (row[k] - row[c]))) for k in range(4) if k != c)
        total += (3 * lbar - 6 + 3) / 9  # (K - 1) ℓ̄ - M₁ + M₂
    assert PairwiseComparison(4)(logits, LABELS).item() == pytest.approx(total)
    assert PairwiseComparison(4)(logits, as_sets(LABELS, 4)).item() == pytest.approx(total)


def test_pairwise_comparison_as_printed_by_hand():
    """The mean of Σ s(g_k - g_ȳ) as the paper prints it: its gradient is a (K - 1)th of the risk's."""
    logits = (inputs() @ parameters()).detach().requires_grad_()
    total = 0.0
    for row, c in zip(logits.tolist(), LABELS):
        total += sum(0.5 * max(0.0, min(2.0, 1 - (row[k] - row[c]))) for k in range(4) if k != c) / 9
    printed = PairwiseComparison(4, as_printed=True)
    assert type(printed)(**printed.settings()).as_printed
    for y in (LABELS, as_sets(LABELS, 4)):
        assert printed(logits, y).item() == pytest.approx(total)
        found, risk = (torch.autograd.grad(kind(logits, y), logits)[0] for kind in (printed, PairwiseComparison(4)))
        torch.testing.assert_close(3 * found, risk)


# ---- what all share -------------------------------------------------------------------------------------------


def test_the_table_of_objectives_is_complete():
    assert {name: OBJECTIVES[name] for name in ALL} == ALL  # the paper's five; tests/test_methods.py has the others


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("q", [None, random_transition(4)])
@pytest.mark.parametrize("encode", [np.asarray, lambda y: as_sets(y, 4)], ids=["single", "rows"])
def test_vmap_equals_a_loop(name, q, encode):
    """Each run of a stack gets the value and gradient that it would get alone."""
    x = torch.stack([inputs(seed, n=12) for seed in range(3)])
    theta = torch.stack([parameters(seed, scale=3.0) for seed in range(3)])
    y = torch.stack([torch.as_tensor(encode(np.random.default_rng(s).integers(0, 4, 12))) for s in range(3)])

    def step(objective):
        return grad_and_value(lambda theta, x, y: objective(x @ theta, y))

    stacked = ALL[name](4, transition=q)
    gradients, values = vmap(step(stacked))(theta, x, y)
    torch.testing.assert_close(vmap(stacked)(x @ theta, y), values)
    for m in range(3):
        alone = ALL[name](4, transition=q)  # afresh: it counts the labels of this batch only
        one, value = step(alone)(theta[m], x[m], y[m])
        torch.testing.assert_close(values[m], value)
        torch.testing.assert_close(gradients[m], one)
    assert stacked.seen.sum() == 0  # batches of different runs are not counted together


@pytest.mark.parametrize("name", OBJECTIVES)
def test_under_vmap_runs_may_share_logits_and_labels(name):
    logits, stacked = inputs() @ parameters(), OBJECTIVES[name](4)
    labels = torch.stack([mixed_sets(9, 4, seed) for seed in range(3)])
    weights = torch.rand(3, 9, generator=torch.Generator().manual_seed(0))
    by_labels = vmap(lambda y: stacked(logits, y))(labels)
    by_weights = vmap(lambda w: stacked(logits, labels[0], w))(weights)
    for m in range(3):
        torch.testing.assert_close(by_labels[m], OBJECTIVES[name](4)(logits, labels[m]))
        torch.testing.assert_close(by_weights[m], OBJECTIVES[name](4)(logits, labels[0], weights[m]))
    assert stacked.seen.sum() == 0


@pytest.mark.parametrize("name", ALL)
def test_leading_axes_equal_a_loop(name):
    x = torch.stack([inputs(seed, n=12) for seed in range(3)])
    theta = torch.stack([parameters(seed, scale=3.0) for seed in range(3)])
    y = torch.tensor(np.random.default_rng(0).integers(0, 4, (3, 12)))
    prior = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(4), 3))
    objective = ALL[name](4)

    def measure(x, theta, y, prior):
        risks = objective.risks(x @ theta, y, objective.scales(objective.count(y), prior, 1.0))
        return risks, *objective.correct(risks)

    together = measure(x, theta, y, prior)
    for m in range(3):
        for whole, alone in zip(together, measure(x[m], theta[m], y[m], prior[m]), strict=True):
            torch.testing.assert_close(whole[m], alone)


# ---- settings -------------------------------------------------------------------------------------------------


class Sharpened(GradientAscent):
    """A method of one's own, with an argument of its own beside its parent's."""

    def __init__(self, n_classes, sharpness=1.0, **options):
        super().__init__(n_classes, **options)
        self.sharpness = sharpness

    def risks(self, logits, y_bar, scales):
        return super().risks(self.sharpness * logits, y_bar, scales)


def every_setting():
    q = random_transition(4)
    yield from (kind(4) for kind in ALL.values())
    yield from (kind(4, transition=q, alpha=0.3) for kind in ALL.values())
    yield GradientAscent(4, "one_vs_all(logistic)", q, PRIOR, beta=0.1, gamma=0.5, alpha=0.2)
    yield PairwiseComparison(4, "sigmoid")
    yield Unbiased(4, lambda logits: logits**2)
    yield Sharpened(4, 2.0, beta=0.3, transition=q)


@pytest.mark.parametrize("i", range(14))
def test_settings_make_the_same_objective_again(i):
    objective = list(every_setting())[i]
    again = type(objective)(**objective.settings())
    assert again.settings() == objective.settings()
    logits = 3 * inputs(n=9, n_inputs=4)
    for y in (LABELS, np.concatenate([as_sets(LABELS[:5], 4), is_rows([0, 1, 2, 3], 4)])):
        torch.testing.assert_close(again(logits, y), objective(logits, y), rtol=0, atol=0)


def test_settings_are_plain_where_they_can_be():
    made = GradientAscent(4, "pairwise(ramp)", random_transition(4), PRIOR, beta=0.1)
    assert json.loads(json.dumps(made.settings())) == made.settings()
    assert made.settings()["loss"] == "pairwise(ramp)"

    def cross_entropy(logits):  # a loss of one's own is not the one whose name it has
        return logits**2

    assert Unbiased(4, cross_entropy).settings()["loss"] is cross_entropy
    assert Unbiased(4, losses.pairwise(cross_entropy)).settings()["loss"].binary is cross_entropy


def test_an_objective_is_made_from_the_options_that_it_takes():
    options = {"loss": "mean_squared_error", "alpha": 0.3, "beta": 0.1, "gamma": 0.5, "sharpness": 2.0}
    for name, kind in ALL.items():
        made = objectives.make(name, 4, **options)
        assert type(made) is kind
        assert made.settings()["alpha"] == 0.3
        if kind in CORRECTED:
            assert made.loss is losses.mean_squared_error
    assert objectives.make("ascent", 4, **options).settings()["gamma"] == 0.5
    words = f"`method` must be one of {', '.join(OBJECTIVES)}; got 'forwards' (did you mean 'forward'?)"
    with raises(words):
        objectives.make("forwards", 4)


def test_a_method_of_ones_own_gets_its_options(monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "sharp", Sharpened)
    made = objectives.make("sharp", 4, sharpness=2.0, beta=0.5, unknown=1)
    assert (made.sharpness, made.beta) == (2.0, 0.5)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("q", [None, random_transition(5)])
def test_renaming_the_classes_changes_nothing(name, q):
    rng = np.random.default_rng(0)
    rename = rng.permutation(5)  # class k becomes rename[k]
    back = np.argsort(rename)
    logits = 3 * inputs(n=20, n_inputs=5)
    y = rng.integers(0, 5, 20)
    renamed_q = None if q is None else q[np.ix_(back, back)]
    mixed = np.concatenate([as_sets(y[:14], 5), is_rows(y[14:], 5)])
    for labels, renamed in ((y, rename[y]), (mixed, mixed[:, back])):
        torch.testing.assert_close(
            ALL[name](5, transition=renamed_q)(logits[:, back], renamed), ALL[name](5, transition=q)(logits, labels)
        )


@pytest.mark.parametrize("name", ALL)
def test_reordering_the_examples_changes_nothing(name):
    logits, order = 3 * inputs(n=20, n_inputs=4), np.random.default_rng(0).permutation(20)
    y = np.random.default_rng(1).integers(0, 4, 20)
    torch.testing.assert_close(ALL[name](4)(logits[order], y[order]), ALL[name](4)(logits, y))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_ordinary_and_complementary_labels_mix(name, alpha):
    """α R̄ + (1 - α) R, each from the examples of its kind; examples that say nothing change nothing."""
    logits = inputs(n=14, n_inputs=4)
    true = [2, 0, 3]
    sets = np.concatenate([as_sets(LABELS, 4), is_rows(true, 4), np.zeros((2, 4), dtype=bool)])
    ordinary_loss = losses.pairwise("ramp") if name == "pairwise" else cross_entropy
    ordinary = ordinary_loss(logits[9:12])[torch.arange(3), true].mean()
    mixed = ALL[name](4, alpha=alpha)(logits, sets)
    if name in ("forward", "pairwise"):
        complementary = ALL[name](4)(logits[:9], LABELS)
        torch.testing.assert_close(mixed, alpha * complementary + (1 - alpha) * ordinary)
        return
    shares = np.bincount(LABELS, minlength=4) / 9
    parts = torch.stack(risks_by_hand(cross_entropy(logits[:9]), LABELS, shares))
    by_class = torch.zeros(4).index_add(0, torch.tensor(true), cross_entropy(logits[9:12])[torch.arange(3), true] / 3)
    risks = alpha * parts + (1 - alpha) * by_class
    torch.testing.assert_close(ALL[name](4, alpha=alpha).class_risks(logits, sets), risks)
    if name == "ascent" and risks.min() < 0:
        torch.testing.assert_close(mixed, -risks.clamp(max=0).sum())
    else:
        torch.testing.assert_close(mixed, (risks.clamp(min=0) if name == "max" else risks).sum())


@pytest.mark.parametrize("name", ALL)
def test_without_alpha_each_example_counts_alike(name):
    logits = inputs(n=14, n_inputs=4)
    sets = np.concatenate([as_sets(LABELS, 4), is_rows([2, 0, 3], 4), np.zeros((2, 4), dtype=bool)])
    torch.testing.assert_close(ALL[name](4)(logits, sets), ALL[name](4, alpha=9 / 12)(logits, sets))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("alpha", [None, 1.0])
def test_two_classes_with_a_matrix_in_either_encoding(name, alpha):
    """Where Q is told, "not a" of two classes came about through it, and is not an ordinary label."""
    q = transition.noisy(2, 0.1)
    logits, y = inputs(n=10, n_inputs=2), torch.arange(10) % 2
    one, other = (ALL[name](2, transition=q, alpha=alpha)(logits, labels) for labels in (y, as_sets(y, 2)))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ALL)
def test_examples_that_say_nothing_give_zero_and_no_gradient(name):
    logits = inputs(n=3, n_inputs=4).requires_grad_()
    value = ALL[name](4)(logits, np.zeros((3, 4), dtype=bool))
    value.backward()
    assert value.item() == 0
    assert not logits.grad.any()


# ---- the running count of labels ------------------------------------------------------------------------------


def test_the_prior_is_counted_from_all_labels_seen():
    rng = np.random.default_rng(0)
    objective = Unbiased(4)
    seen = []
    for batch in range(5):
        logits, y = inputs(batch, n=12, n_inputs=4), rng.integers(0, 3 if batch < 3 else 4, 12)
        seen.extend(y)
        prior = np.bincount(seen, minlength=4) / len(seen)
        torch.testing.assert_close(objective(logits, y), Unbiased(4, prior=prior)(logits, y))
        torch.testing.assert_close(
            objective.class_risks(logits, y), torch.stack(risks_by_hand(cross_entropy(logits), list(y), prior))
        )


def test_only_training_counts():
    rng = np.random.default_rng(0)
    first, later = rng.integers(0, 4, 12), rng.integers(0, 2, 12)
    objective = Unbiased(4)
    objective(inputs(0, n=12, n_inputs=4), first)
    counted = objective.seen.clone()
    objective.class_risks(inputs(1, n=12, n_inputs=4), later)
    objective.eval()
    value = objective(inputs(1, n=12, n_inputs=4), later)
    torch.testing.assert_close(objective.seen, counted)
    prior = np.bincount(first, minlength=4) / 12
    torch.testing.assert_close(value, Unbiased(4, prior=prior)(inputs(1, n=12, n_inputs=4), later))
    fresh = Unbiased(4).eval()  # it has seen nothing, so the batch itself must serve
    torch.testing.assert_close(fresh(inputs(n=12, n_inputs=4), later), Unbiased(4)(inputs(n=12, n_inputs=4), later))
    assert not fresh.seen.any()


def test_a_given_prior_is_kept_and_saved():
    objective = GradientAscent(4, prior=PRIOR)
    objective(inputs(n=9, n_inputs=4), LABELS)
    torch.testing.assert_close(objective.prior, torch.tensor(PRIOR))
    assert set(objective.state_dict()) == {"prior"}
    assert set(Forward(4, random_transition(4)).state_dict()) == {"inverse", "log_transition"}


def test_labels_may_be_lists_arrays_or_tensors_of_any_whole_type():
    logits = inputs() @ parameters()
    expected = Forward(4)(logits, torch.tensor(LABELS))
    for y in (LABELS, np.array(LABELS), np.array(LABELS, dtype=np.uint8), torch.tensor(LABELS, dtype=torch.int32)):
        torch.testing.assert_close(Forward(4)(logits, y), expected)
    for y in (as_sets(LABELS, 4), as_sets(LABELS, 4).astype(float), torch.tensor(as_sets(LABELS, 4)).long()):
        torch.testing.assert_close(Forward(4)(logits, y), expected)


@pytest.mark.filterwarnings("error")
def test_labels_and_shares_of_a_data_frame_are_copied():
    columns = [np.array(LABELS), as_sets(LABELS, 4), np.array(PRIOR)]
    for column in columns:
        column.flags.writeable = False  # as those of a data frame are
    (labels, rows, prior), before = columns, torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        values = [GradientAscent(4, prior=prior)(inputs(n_inputs=4), y) for y in (labels, rows)]
    finally:
        torch.set_warn_always(before)
    torch.testing.assert_close(*values)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32])
@pytest.mark.parametrize("name", ALL)
def test_labels_of_any_whole_type_go_through_vmap(name, dtype):
    logits, y = torch.stack([inputs() @ parameters(), inputs(1) @ parameters()]), torch.tensor([LABELS, LABELS[::-1]])
    objective = ALL[name](4)
    torch.testing.assert_close(vmap(objective)(logits, y.to(dtype)), vmap(objective)(logits, y))


# ---- anyone's loop --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_plain_torch_loop_learns(name):
    torch.set_default_dtype(torch.float32)
    rng = np.random.default_rng(0)
    y_true = np.arange(900) % 3
    centres = np.array([[0, 1], [1, -1], [-1, -1]])  # near enough to zero for the ramp not to be flat at the start
    x = torch.tensor(0.2 * rng.normal(size=(900, 2)) + centres[y_true]).float()
    y_bar = torch.tensor(complement(y_true, 3, random_state=0))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Linear(2, 3)
    objective = ALL[name](3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for epoch in range(20):
        order = torch.randperm(900, generator=torch.Generator().manual_seed(epoch))
        for rows in order.split(100):
            optimizer.zero_grad()
            objective(model(x[rows]), y_bar[rows]).backward()
            optimizer.step()
    accuracy = (model(x).argmax(dim=-1).numpy() == y_true).mean()
    assert accuracy > 0.97


# ---- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Unbiased(1), "`n_classes` must be a whole number of at least 2; got 1"),
        (lambda: Unbiased(3, "log"), "`loss` must be a callable or one of cross_entropy"),
        (lambda: Unbiased(3, alpha=1.5), "`alpha` must be from 0 to 1; got 1.5"),
        (lambda: Forward(3, alpha=-0.1), "`alpha` must be from 0 to 1; got -0.1"),
        (lambda: PairwiseComparison(3, alpha=math.nan), "`alpha` must be from 0 to 1; got nan"),
        (lambda: Forward(3, alpha="half"), "`alpha` must be from 0 to 1; got 'half'"),
        (lambda: GradientAscent(3, beta="0"), "`beta` must be a finite number; got '0'"),
        (lambda: GradientAscent(3, gamma=None), "since it discounts the step; got None"),
        (lambda: Unbiased(3, prior="uniform"), "`prior` must be 3 shares, none negative; got 'uniform'"),
        (lambda: Unbiased(3, prior=[0.5, 0.5]), "`prior` must be 3 shares, none negative; got shape (2,)"),
        (lambda: Unbiased(3, prior=[0.5, 0.6, -0.1]), "`prior` must be 3 shares, none negative; got [0.5, 0.6"),
        (lambda: Unbiased(3, prior=[0.5, math.nan, 0.5]), "`prior` must be 3 shares, none negative; got [0.5, nan"),
        (lambda: Unbiased(3, prior=[0.5, 0.6, 0.1]), "`prior` must sum to 1; got 1.2"),
        (lambda: GradientAscent(3, beta=math.inf), "`beta` must be a finite number; got inf"),
        (lambda: GradientAscent(3, beta=math.nan), "`beta` must be a finite number; got nan"),
        (lambda: GradientAscent(3, gamma=1.5), "`gamma` must be from 0 to 1, since it discounts the step; got 1.5"),
        (lambda: GradientAscent(3, gamma=-1), "`gamma` must be from 0 to 1, since it discounts the step; got -1"),
        (
            lambda: PairwiseComparison(3, "hinge"),
            "`binary` must satisfy s(z) + s(-z) = 1, as ramp and sigmoid do; use Unbiased for others",
        ),
        (lambda: Unbiased(4, transition=transition.noisy(4, 0.25)), "its condition number is"),
        (lambda: Forward(4, transition.uniform(3)), "`transition` must be (4, 4), one row per class; got (3, 3)"),
    ],
)
def test_settings_refused(make, words):
    with raises(words):
        make()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("call", ["__call__", "class_risks"])
def test_batches_refused(name, call):
    objective = getattr(ALL[name](3), call)
    with raises("`logits` must have n_classes = 3 columns; got shape (2, 4)"):
        objective(torch.zeros(2, 4), [0, 1])
    with raises(
        "`y_bar` must be (2,) classes or a (2, 3) ruled-out matrix, one row for each of `logits`; got shape (3,)"
    ):
        objective(torch.zeros(2, 3), [0, 1, 2])
    with raises("`y_bar` must hold classes 0 to 2; got 3 at row 1; pass n_classes=4?"):
        objective(torch.zeros(2, 3), [0, 3])
    with raises("each row of `y_bar` must leave a class possible; row 0 rules out all 3"):
        objective(torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool))
    for given, came in ((np.zeros((2, 3)), "ndarray"), (torch.zeros(2, 3, dtype=torch.long), "torch.int64")):
        with raises(f"`logits` must be a tensor of floats; got {came}"):
            objective(given, [0, 1])
    with raises("`y_bar` must hold class indices, or be a ruled-out matrix; got dtype <U4"):
        objective(torch.zeros(2, 3), ["!cat", "dog"])


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_logits_of_16_bits_are_taken_in_32(name, dtype, scale):
    objective, y_bar = OBJECTIVES[name](3).eval(), torch.tensor([0, 1, 2, 0])
    logits = (scale * torch.randn(4, 3, generator=torch.Generator().manual_seed(0))).to(dtype).requires_grad_()
    value = objective(logits, y_bar)
    value.backward()
    assert torch.isfinite(value)
    assert value == objective(logits.float(), y_bar)
    assert torch.isfinite(logits.grad).all()
    assert torch.equal(objective.class_risks(logits, y_bar), objective.class_risks(logits.float(), y_bar))


@pytest.mark.parametrize("name", [*ALL, "cpe-i", "cpe-t"])
def test_inside_autocast_nothing_is_rounded(name):
    torch.set_default_dtype(torch.float32)
    objective = OBJECTIVES[name](4, transition=random_transition(4)).eval()
    logits, labels = inputs(n_inputs=4), mixed_sets(9, 4)
    with torch.autocast("cpu", torch.bfloat16):
        value, risks = objective(logits, labels), objective.class_risks(logits, labels)
    assert value == objective(logits, labels)
    assert torch.equal(risks, objective.class_risks(logits, labels))


@pytest.mark.parametrize("y_bar", [[0, 1, 2], [0, 1], 1])
def test_logits_of_one_example_must_be_a_row(y_bar):
    with raises("`logits` must"):
        Unbiased(3)(torch.zeros(3), torch.tensor(y_bar))


# ---- weights of examples ------------------------------------------------------------------------------------------

TIMES = torch.tensor([2, 0, 3, 1, 1, 4, 0, 2, 1])
WEIGHTED = {
    "classes": torch.tensor(LABELS),
    "sets": mixed_sets(9, 4, seed=2),
    "ordinary": torch.from_numpy(is_rows(LABELS, 4)),
}


@pytest.mark.parametrize("labels", WEIGHTED)
@pytest.mark.parametrize("q", [None, random_transition(4)], ids=["uniform", "biased"])
@pytest.mark.parametrize("alpha", [None, 0.3])
@pytest.mark.parametrize("name", ALL)
def test_an_example_of_weight_m_counts_as_m_examples(name, labels, q, alpha):
    y, x, theta = WEIGHTED[labels], inputs(), parameters(scale=3.0)
    every = torch.arange(9).repeat_interleave(TIMES)

    def found(x, y, *weights):
        objective = OBJECTIVES[name](4, transition=q, alpha=alpha)
        leaf = theta.clone().requires_grad_()
        value = objective(x @ leaf, y, *weights)
        value.backward()
        return value.detach(), leaf.grad, objective.class_risks(x @ theta, y, *weights), objective.seen

    expected = found(x[every], y[every])
    for one, other in zip(found(x, y, TIMES), expected, strict=True):
        torch.testing.assert_close(one, other)
    for scale in (1e-3, 7.5):  # only their ratios matter
        for one, other in zip(found(x, y, scale * TIMES)[:3], expected):
            torch.testing.assert_close(one, other)
    for one, other in zip(found(x, y, torch.ones(9)), found(x, y), strict=True):
        torch.testing.assert_close(one, other)
    objective = OBJECTIVES[name](4, transition=q, alpha=alpha).eval()
    logits, both = torch.stack([x @ theta, x @ -theta]), y.expand(2, *y.shape)
    weights = torch.stack([TIMES, TIMES.flip(0)]).double()
    together = vmap(objective)(logits, both, weights)
    torch.testing.assert_close(together, torch.stack([objective(logits[i], y, weights[i]) for i in range(2)]))


def test_weights_may_be_lists_arrays_or_columns():
    logits, y = inputs() @ parameters(), torch.tensor(LABELS)
    expected = Forward(4)(logits, y, TIMES)
    column = pandas.Series(TIMES.numpy(), index=range(5, 14))  # a part of a longer one
    for weights in (TIMES.tolist(), TIMES.numpy()[::-1][::-1], TIMES.numpy().astype(np.float32), column):
        torch.testing.assert_close(Forward(4)(logits, y, weights), expected)


@pytest.mark.parametrize("name", ALL)
def test_a_batch_that_weighs_nothing_pulls_nowhere(name):
    logits = inputs(n_inputs=4).requires_grad_()
    value = OBJECTIVES[name](4)(logits, torch.tensor(LABELS), torch.zeros(9))
    value.backward()
    assert value.item() == 0
    assert not logits.grad.any()


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0], "`sample_weight` must hold 9 numbers, one per row of `y_bar`; got shape (1,)"),
        ([1.0] * 8 + [-2.0], "`sample_weight` must be finite and not negative; got -2.0"),
        ([1.0] * 8 + [math.nan], "`sample_weight` must be finite and not negative; got nan"),
        (["a"] * 9, "`sample_weight` must hold numbers; got dtype <U1"),
    ],
)
def test_weights_refused(weights, words):
    with raises(words):
        Forward(4)(inputs(n_inputs=4), torch.tensor(LABELS), weights)
