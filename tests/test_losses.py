"""Losses against their formulas, and the constants of the paper's Corollary 2."""

from __future__ import annotations

import math

import pytest
import torch

from helpers import raises
from naysayer import losses

pytestmark = pytest.mark.usefixtures("float64")

BINARY_BY_HAND = {
    "sigmoid": lambda z: 1 / (1 + math.exp(z)),
    "ramp": lambda z: 0.5 * max(0.0, min(2.0, 1 - z)),
    "logistic": lambda z: math.log(1 + math.exp(-z)),
    "hinge": lambda z: max(0.0, 1 - z),
    "double_hinge": lambda z: max(0.0, -z, 0.5 - 0.5 * z),
    "squared": lambda z: (1 - z) ** 2,
    "exponential": lambda z: math.exp(-z),
    "binary_zero_one": lambda z: 1.0 if z < 0 else 0.5 if z == 0 else 0.0,
}


def some_logits(n_classes=4, n=6, seed=0):
    return 2 * torch.randn(n, n_classes, generator=torch.Generator().manual_seed(seed))


def softmax(row):
    top = [math.exp(v) for v in row]
    return [v / sum(top) for v in top]


def by_hand(formula, logits):
    """ℓ(k, g) for every example and class, from a formula over one row of numbers."""
    return torch.tensor([[formula(k, row) for k in range(len(row))] for row in logits.tolist()])


def mean_absolute_error(k, row):
    return sum(abs((j == k) - p) for j, p in enumerate(softmax(row)))


def mean_squared_error(k, row):
    return sum(((j == k) - p) ** 2 for j, p in enumerate(softmax(row)))


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize(
    ("loss", "formula"),
    [
        (losses.cross_entropy, lambda k, row: -math.log(softmax(row)[k])),
        (losses.mean_absolute_error, mean_absolute_error),
        (losses.mean_squared_error, mean_squared_error),
        (losses.zero_one, lambda k, row: float(row.index(max(row)) != k)),
    ],
)
def test_losses_are_their_formulas(loss, formula, n_classes):
    logits = some_logits(n_classes)
    torch.testing.assert_close(loss(logits), by_hand(formula, logits))


def test_every_binary_loss_is_its_formula():
    assert losses.BINARY_LOSSES.keys() == BINARY_BY_HAND.keys()
    z = torch.tensor([-30.0, -1.5, -1.0, -0.3, 0.0, 0.2, 1.0, 1.7, 30.0])
    for name, formula in BINARY_BY_HAND.items():
        torch.testing.assert_close(losses.BINARY_LOSSES[name](z), torch.tensor([formula(v) for v in z.tolist()]))


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("name", BINARY_BY_HAND)
def test_one_vs_all_and_pairwise_are_their_formulas(name, n_classes):
    s = BINARY_BY_HAND[name]
    logits = some_logits(n_classes)

    def one_vs_all(k, row):
        return s(row[k]) + sum(s(-row[j]) for j in range(n_classes) if j != k) / (n_classes - 1)

    def pairwise(k, row):
        return sum(s(row[k] - row[j]) for j in range(n_classes) if j != k)

    torch.testing.assert_close(losses.one_vs_all(name)(logits), by_hand(one_vs_all, logits))
    torch.testing.assert_close(losses.pairwise(name)(logits), by_hand(pairwise, logits))


def lbar_one_vs_all(s, k, row):
    """The paper's complementary one-versus-all loss."""
    return sum(s(v) for j, v in enumerate(row) if j != k) / (len(row) - 1) + s(-row[k])


def lbar_pairwise(s, k, row):
    """The paper's complementary pairwise comparison loss."""
    return sum(s(v - row[k]) for j, v in enumerate(row) if j != k)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("name", ["sigmoid", "ramp", "binary_zero_one"])
@pytest.mark.parametrize(
    ("make", "lbar", "constants"),
    [
        (losses.one_vs_all, lbar_one_vs_all, lambda K: (K, 2)),
        (losses.pairwise, lbar_pairwise, lambda K: (K * (K - 1) / 2, K - 1)),
    ],
)
def test_corollary_2(make, lbar, constants, name, n_classes):
    logits = some_logits(n_classes)
    m1, m2 = (torch.tensor(float(m)) for m in constants(n_classes))
    ordinary = make(name)(logits)
    complementary = by_hand(lambda k, row: lbar(BINARY_BY_HAND[name], k, row), logits)
    torch.testing.assert_close(complementary.sum(dim=-1), m1.expand(len(logits)))
    torch.testing.assert_close(ordinary.sum(dim=-1), m1.expand(len(logits)))
    torch.testing.assert_close(complementary + ordinary, m2.expand_as(ordinary))
    theorem_1 = -(n_classes - 1) * ordinary + ordinary.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(theorem_1, (n_classes - 1) * complementary - m1 + m2)


def test_corollary_2_needs_its_condition():
    sums = losses.pairwise("logistic")(some_logits(4)).sum(dim=-1)
    assert sums.max() - sums.min() > 0.1


@pytest.mark.parametrize(
    "loss",
    [
        losses.cross_entropy,
        losses.mean_absolute_error,
        losses.mean_squared_error,
        losses.zero_one,
        losses.one_vs_all("sigmoid"),
        losses.pairwise("ramp"),
    ],
)
def test_losses_take_any_leading_axes_and_huge_logits(loss):
    logits = some_logits(5, n=12).view(2, 3, 2, 5)
    flat = torch.stack([loss(row) for row in logits.reshape(-1, 5)])
    torch.testing.assert_close(loss(logits), flat.view(2, 3, 2, 5))
    huge = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=loss is not losses.zero_one)
    value = loss(huge)
    assert torch.isfinite(value).all()
    if huge.requires_grad:
        value.sum().backward()
        assert torch.isfinite(huge.grad).all()


@pytest.mark.parametrize("logits", [[20.0, 0.0, 0.0], [100.0, 0.0], [0.0, 100.0, -1.0, 2.0]])
def test_what_the_others_cost_outlasts_one_that_costs_far_more(logits):
    """The loss of the likeliest class, in which the term of that class has no part."""
    k, n_others = logits.index(max(logits)), len(logits) - 1
    value = losses.one_vs_all("exponential")(torch.tensor(logits, dtype=torch.float32))[k].item()
    rest = sum(math.exp(g) for j, g in enumerate(logits) if j != k)
    assert value == pytest.approx(math.exp(-logits[k]) + rest / n_others)


def test_zero_one_names_one_class_on_a_tie():
    assert losses.zero_one(torch.zeros(3, 4)).sum().item() == 3 * 3


def test_losses_are_found_by_name():
    for name, loss in losses.LOSSES.items():
        assert losses.get_loss(name) is loss
    for name, binary in losses.BINARY_LOSSES.items():
        assert losses.get_binary(name) is binary
    logits = some_logits()
    for name in ("one_vs_all(ramp)", "pairwise(sigmoid)"):
        found = losses.get_loss(name)
        assert found.__name__ == name
        torch.testing.assert_close(found(logits), getattr(losses, name.split("(")[0])(name[:-1].split("(")[1])(logits))


def test_callables_are_losses():
    def mine(z):
        return z**2

    assert losses.get_loss(mine) is mine
    assert losses.one_vs_all(mine).__name__ == "one_vs_all(mine)"
    assert losses.pairwise(lambda z: z).__name__ == "pairwise(<lambda>)"
    torch.testing.assert_close(losses.pairwise(mine)(torch.tensor([1.0, 3.0, 0.0])), torch.tensor([5.0, 13.0, 10.0]))


@pytest.mark.parametrize("loss", ["entropy", "pairwise", "one_vs_all(", 3, ["cross_entropy"], None])
def test_losses_refused(loss):
    words = (
        "`loss` must be a callable or one of cross_entropy, mean_absolute_error, mean_squared_error, zero_one, "
        f"one_vs_all(...), pairwise(...); got {loss!r}"
    )
    with raises(words):
        losses.get_loss(loss)


@pytest.mark.parametrize("binary", ["huber", 3, ["ramp"]])
def test_binary_losses_refused(binary):
    with raises("`binary` must be a callable or one of sigmoid, ramp, logistic, hinge, double_hinge, "):
        losses.get_binary(binary)
    with raises(f"; got {binary!r}"):
        losses.pairwise(binary)


def test_a_binary_loss_inside_a_name_is_refused():
    with raises("got 'huber'"):
        losses.get_loss("pairwise(huber)")
