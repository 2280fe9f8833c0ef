"""Every method of the field against its paper's formula, written in numpy; what equals what; how each is trained."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import grad_and_value, vmap

from helpers import as_sets, assert_same_runs, is_rows, raises, random_transition
from naysayer import ComplementaryClassifier, Population, complement, losses, networks, objectives, transition
from naysayer.objectives import OBJECTIVES, Forward, Objective, ProbabilityEstimate, Unbiased
from naysayer.objectives.averaged import LabelAverage
from naysayer.objectives.estimates import TransitionLayer, nearest_row
from naysayer.objectives.scarce import one_versus_rest

PAPER = ("free", "max", "ascent", "forward", "pairwise")
FIELD = [name for name in OBJECTIVES if name not in PAPER]
WITH_MATRIX = ("cpe-i", "cpe-f", "cpe-t")
WITHOUT = [name for name in FIELD if name not in WITH_MATRIX]
DECODING = WITH_MATRIX

float64 = pytest.mark.usefixtures("float64")


# ---- the formulas, one example at a time --------------------------------------------------------------------------


def softmax(z):
    powers = np.exp(z - np.max(z))
    return powers / powers.sum()


def by_hand(name, g, out, q=None):
    """The loss of logits g where the classes `out` are ruled out, by the paper's formula; None for a batch's method."""
    n_classes, s = len(g), len(out)
    p, left = softmax(g), [k for k in range(n_classes) if k not in out]
    matrix = np.asarray(transition.uniform(n_classes)) if q is None else q
    is_class = len(left) == 1 and not (q is not None and n_classes == 2)
    kept = p[left].sum()
    if name == "scl-nl":
        return np.mean([-np.log(p[[j for j in range(n_classes) if j != c]].sum()) for c in out])
    if name == "scl-exp":
        return np.mean([np.exp(p[c]) for c in out])
    if name == "mcl-mae":
        return (n_classes - 1) / s * (1 - kept)
    if name == "mcl-exp":
        return (n_classes - 1) / s * np.exp(-kept)
    if name == "mcl-log":
        return -(n_classes - 1) / s * np.log(kept)
    if name in ("l-uw", "l-w"):
        r = softmax(1 - p)
        factors = 1 + (1 - p) / (n_classes - 1) if name == "l-w" else np.ones(n_classes)
        return np.mean([-factors[c] * np.log(r[c]) for c in out])
    if name in ("op", "op-w"):
        r = softmax(-g)
        factors = softmax(1 / r + 1) * p if name == "op-w" else np.ones(n_classes)
        return np.mean([-factors[c] * np.log(r[c]) for c in out])
    if name == "proden":
        return -sum(p[k] / kept * np.log(p[k]) for k in left)
    of_labels = p if name == "cpe-i" else matrix.T @ p
    if name == "cpe-f" and (is_class or q is None):
        return -np.log(kept / math.comb(n_classes - 1, s))
    if is_class:
        return -sum(matrix[left[0], c] * np.log(of_labels[c]) for c in range(n_classes) if matrix[left[0], c] > 0)
    return np.mean([-np.log(of_labels[c]) for c in out])


def scarce_by_hand(g, rows, class_prior=None):
    """The batch's risk: negative examples of a class are those that it is ruled out for, all are unlabelled."""
    said = [i for i in range(len(g)) if rows[i].any()]
    total = 0.0
    for k in range(g.shape[1]):
        negative = [i for i in said if rows[i, k]]
        rest = 1 - (1 / g.shape[1] if class_prior is None else class_prior[k])
        positive = np.mean([np.log1p(np.exp(-g[i, k])) for i in said])
        if negative:
            positive -= rest * np.mean([np.log1p(np.exp(-g[i, k])) for i in negative])
            total += rest * np.mean([np.log1p(np.exp(g[i, k])) for i in negative])
        total += abs(positive)
    return total


def batch_by_hand(name, g, rows, q=None):
    if name == "scarce":
        return scarce_by_hand(g, rows)
    losses = [by_hand(name, one, list(np.flatnonzero(row)), q) for one, row in zip(g, rows) if row.any()]
    return np.mean(losses)


def some_rows(n_classes, labels, seed=0, n=12):
    """Logits, and labels of one kind as a ruled-out matrix."""
    rng = np.random.default_rng(seed)
    g, y = 2 * rng.normal(size=(n, n_classes)), rng.integers(0, n_classes, n)
    rows = as_sets(complement(y, n_classes, random_state=seed), n_classes)
    if labels == "mixed":  # sets, single labels, ordinary ones, rows that say nothing
        for i in range(0, n, 2):
            others = rng.permutation([k for k in range(n_classes) if k != y[i]])
            rows[i] = np.isin(np.arange(n_classes), others[: rng.integers(1, n_classes)])
        rows[1] = is_rows(y[1:2], n_classes)[0]
        rows[5] = False
    return g, rows


@float64
@pytest.mark.parametrize("name", FIELD)
@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_the_loss_is_the_papers(name, n_classes, labels):
    g, rows = some_rows(n_classes, labels)
    found = OBJECTIVES[name](n_classes)(torch.tensor(g), torch.tensor(rows))
    assert found.shape == ()
    assert found.item() == pytest.approx(batch_by_hand(name, g, rows), rel=1e-10)
    if labels == "single":
        alone = OBJECTIVES[name](n_classes)(torch.tensor(g), torch.tensor(rows.argmax(axis=1)))
        assert alone.item() == pytest.approx(found.item(), rel=1e-12)


@float64
@pytest.mark.parametrize("name", WITH_MATRIX)
@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_the_loss_is_the_papers_with_a_biased_matrix(name, n_classes, labels):
    q = random_transition(n_classes, 1, diagonal=0.1)
    g, rows = some_rows(n_classes, labels)
    expected = batch_by_hand(name, g, rows, q)
    found = OBJECTIVES[name](n_classes, transition=q)(torch.tensor(g), torch.tensor(rows))
    assert found.item() == pytest.approx(expected)
    if labels == "single":
        alone = OBJECTIVES[name](n_classes, transition=q)(torch.tensor(g), torch.tensor(rows.argmax(axis=1)))
        assert alone.item() == pytest.approx(expected)


@float64
def test_numbers_worked_out_on_paper():
    """p = (1/2, 1/4, 1/4), "not 0"; then "neither 1 nor 2", which is "0"."""
    logits, first = torch.tensor([[math.log(2), 0.0, 0.0]]), torch.tensor([0])
    rest = torch.tensor([[False, True, True]])
    e = math.e
    for name, one, other in [
        ("scl-nl", math.log(2), math.log(4 / 3)),
        ("scl-exp", e**0.5, e**0.25),
        ("mcl-mae", 1.0, 0.5),
        ("mcl-exp", 2 * e**-0.5, e**-0.5),
        ("mcl-log", 2 * math.log(2), math.log(2)),
        ("l-uw", math.log(1 + 2 * e**0.25), math.log(2 + e**-0.25)),
        ("l-w", 5 / 4 * math.log(1 + 2 * e**0.25), 11 / 8 * math.log(2 + e**-0.25)),
        ("op", math.log(5), math.log(5 / 2)),
        ("op-w", e**5 / (e**5 + 2 * e**2.5) / 2 * math.log(5), e**2.5 / (e**5 + 2 * e**2.5) / 4 * math.log(5 / 2)),
        ("cpe-i", math.log(2), math.log(4)),
        ("cpe-f", math.log(4), math.log(2)),
        ("cpe-t", math.log(4), math.log(8 / 3)),
        ("proden", math.log(4), math.log(2)),
    ]:
        assert OBJECTIVES[name](3)(logits, first).item() == pytest.approx(one), name
        assert OBJECTIVES[name](3)(logits, rest).item() == pytest.approx(other), name
    # Each class has the prior 1/3; only 0 has a negative example.
    positive = [math.log(3 / 2) / 3, math.log(2), math.log(2)]
    assert OBJECTIVES["scarce"](3)(logits, first).item() == pytest.approx(sum(positive) + 2 / 3 * math.log(3))


@float64
def test_scarce_takes_a_class_prior():
    prior = [0.5, 0.3, 0.1, 0.1]
    g, rows = some_rows(4, "mixed", n=20)
    objective = objectives.NegativeUnlabelled(4, prior)
    assert objective(torch.tensor(g), torch.tensor(rows)).item() == pytest.approx(scarce_by_hand(g, rows, prior))
    assert objective.settings() == {"n_classes": 4, "class_prior": prior}
    y = torch.tensor(rows)
    risks = objective.risks(torch.tensor(g), y, objective.scales(objective.count(y), None, 1.0))
    assert (risks < 0).any()  # so the absolute values are seen to matter
    assert (risks > 0).any()


# ---- what all of them do --------------------------------------------------------------------------------------


@float64
@pytest.mark.parametrize("name", FIELD)
def test_rows_that_say_nothing_weigh_nothing(name):
    g, rows = some_rows(4, "mixed")
    said = rows.any(axis=1)
    assert not said.all()
    logits = torch.tensor(g, requires_grad=True)
    value = OBJECTIVES[name](4)(logits, torch.tensor(rows))
    value.backward()
    assert not logits.grad[~said].any()
    assert logits.grad[said].any(dim=-1).all()
    torch.testing.assert_close(value, OBJECTIVES[name](4)(torch.tensor(g[said]), torch.tensor(rows[said])))
    silent = OBJECTIVES[name](4)(logits, torch.zeros(12, 4, dtype=torch.bool))
    assert silent.item() == 0


@pytest.mark.parametrize("name", FIELD)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_huge_logits_have_finite_values_and_gradients(name, dtype, n_classes):
    signs = torch.tensor([[int(c) for c in np.binary_repr(i, n_classes)] for i in range(2**n_classes)])
    extreme = torch.cat([1e4 * (2 * signs - 1), 1e4 * signs + torch.arange(n_classes)]).to(dtype)
    labels = [torch.full((len(extreme),), c) for c in range(n_classes)]
    labels += [torch.from_numpy(is_rows([0] * len(extreme), n_classes))]
    for y in labels:
        logits = extreme.clone().requires_grad_()
        value = OBJECTIVES[name](n_classes)(logits, y)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(logits.grad).all()


@float64
def test_what_is_nearly_certain_loses_nothing():
    """At 40, 1 - p is 0 in float64; the loss of the label "not 0" is 40 - log(2) all the same."""
    logits = torch.tensor([[40.0, 0.0, 0.0]])
    sets = torch.tensor([[True, False, False]])
    for name in ("scl-nl", "mcl-log", "cpe-f", "cpe-t"):
        factor = {"mcl-log": 2}.get(name, 1)
        constant = math.log(2) if name in ("cpe-f", "cpe-t") else 0.0
        expected = factor * (40 - math.log(2)) + constant
        for y in (torch.tensor([0]), sets):
            assert OBJECTIVES[name](3)(logits, y).item() == pytest.approx(expected, rel=1e-14)


@float64
@pytest.mark.parametrize("name", [name for name in FIELD if name != "proden"])
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_the_gradient_is_that_of_the_value(name, labels):
    g, rows = some_rows(4, labels)
    y = torch.tensor(rows.argmax(axis=1) if labels == "single" else rows)
    logits = torch.tensor(g, requires_grad=True)
    objective = OBJECTIVES[name](4).eval()
    leaves = [logits, *objective.parameters()]
    assert torch.autograd.gradcheck(lambda *_: objective(logits, y), leaves)


@float64
def test_the_gradient_of_op_w_passes_through_its_weight():
    g, rows = some_rows(4, "mixed")
    logits = torch.tensor(g, requires_grad=True)
    OBJECTIVES["op-w"](4)(logits, torch.tensor(rows)).backward()
    expected, step = np.zeros_like(g), 1e-6
    for place in np.ndindex(g.shape):
        moved = [g.copy(), g.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        up, down = (batch_by_hand("op-w", one, rows) for one in moved)
        expected[place] = (up - down) / (2 * step)
    np.testing.assert_allclose(logits.grad, expected, rtol=1e-5, atol=1e-7)


@float64
def test_the_gradient_of_op_w_is_scaled_down_where_that_of_its_weight_has_no_bound():
    """Of two equal logits far above the third, 1 / q is e^(their distance), and so would be the gradient."""
    gradients = {}
    for height in (30.0, 50.0, 1e4):
        logits = torch.tensor([[height, height, 0.0]], requires_grad=True)
        OBJECTIVES["op-w"](3)(logits, torch.tensor([0])).backward()
        gradients[height] = logits.grad[0]
    of_weight = 30 / 2 * math.exp(30) / 4  # the loss, p, and the derivative of softmax(1 / q)
    torch.testing.assert_close(gradients[30.0][:2], torch.tensor([of_weight, -of_weight]), rtol=1e-9, atol=0)
    for height in (50.0, 1e4):
        bound = height / 2 * 1e18 / 4
        torch.testing.assert_close(gradients[height][:2], torch.tensor([bound, -bound]), rtol=1e-9, atol=0)


@float64
@pytest.mark.parametrize("name", FIELD)
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_vmap_and_leading_axes_equal_a_loop(name, labels):
    g, rows = zip(*(some_rows(4, labels, seed) for seed in range(3)))
    logits, y = torch.tensor(np.stack(g)), torch.tensor(np.stack(rows))
    y = y.byte().argmax(dim=-1) if labels == "single" else y
    objective = OBJECTIVES[name](4).eval()
    gradients, values = vmap(grad_and_value(objective))(logits, y)
    prior = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(4), 3))
    together = objective.risks(logits, y, objective.scales(objective.count(y), prior, 1.0))
    for m in range(3):
        gradient, value = grad_and_value(OBJECTIVES[name](4))(logits[m], y[m])
        torch.testing.assert_close(values[m], value)
        torch.testing.assert_close(gradients[m], gradient)
        alone = objective.risks(logits[m], y[m], objective.scales(objective.count(y[m]), prior[m], 1.0))
        torch.testing.assert_close(together[m], alone)


@float64
@pytest.mark.parametrize("name", FIELD)
def test_an_example_of_weight_m_counts_as_m_examples(name):
    g, rows = some_rows(4, "mixed")
    times = torch.tensor([2, 0, 3, 1, 1, 4, 0, 2, 1, 0, 1, 5])
    every = torch.arange(12).repeat_interleave(times)
    logits, y = torch.tensor(g), torch.tensor(rows)
    weighted, repeated = OBJECTIVES[name](4), OBJECTIVES[name](4)
    torch.testing.assert_close(weighted(logits, y, times), repeated(logits[every], y[every]))
    torch.testing.assert_close(weighted.class_risks(logits, y, times), repeated.class_risks(logits[every], y[every]))
    leaf = logits.clone().requires_grad_()
    value = OBJECTIVES[name](4)(leaf, y, torch.zeros(12))
    value.backward()
    assert value.item() == 0
    assert not leaf.grad.any()


@float64
@pytest.mark.parametrize("name", FIELD)
def test_renaming_the_classes_changes_nothing(name):
    rename = np.random.default_rng(0).permutation(5)
    back = np.argsort(rename)
    g, rows = some_rows(5, "mixed")
    q = random_transition(5) if name in WITH_MATRIX else None
    one = objectives.make(name, 5, transition=q)
    other = objectives.make(name, 5, transition=None if q is None else q[np.ix_(back, back)])
    torch.testing.assert_close(one(torch.tensor(g), rows), other(torch.tensor(g[:, back]), rows[:, back]))


@float64
@pytest.mark.parametrize("name", [name for name in FIELD if name != "scarce"])
def test_alpha_weighs_the_two_kinds(name):
    g, rows = some_rows(4, "single")
    rows[9:] = is_rows([2, 0, 3], 4)
    logits, y = torch.tensor(g), torch.tensor(rows)
    kinds = [OBJECTIVES[name](4)(logits[part], y[part]) for part in (slice(0, 9), slice(9, 12))]
    mixed = OBJECTIVES[name](4, alpha=0.3)(logits, y)
    torch.testing.assert_close(mixed, 0.3 * kinds[0] + 0.7 * kinds[1])


@pytest.mark.parametrize("name", OBJECTIVES)
def test_settings_make_the_same_objective_again(name):
    q = random_transition(4) if "transition" in OBJECTIVES[name](4).settings() else None
    objective = objectives.make(name, 4, transition=q, alpha=0.3)
    again = OBJECTIVES[objectives.name_of(objective)](**objective.settings())
    assert again.settings() == objective.settings()
    g, rows = some_rows(4, "mixed")
    logits = torch.tensor(g, dtype=torch.float32)
    assert again(logits, rows) == objective(logits, rows)
    torch.testing.assert_close(again.class_scores(logits), objective.class_scores(logits), rtol=0, atol=0)


# ---- what equals what -----------------------------------------------------------------------------------------


def pair(one, other, n_classes=5, labels="single"):
    """The values and gradients of two objectives, on the same batch."""
    g, rows = some_rows(n_classes, labels)
    y = torch.tensor(rows.argmax(axis=1) if labels == "single" else rows)
    found = []
    for objective in (one, other):
        logits = torch.tensor(g, requires_grad=True)
        value = objective(logits, y)
        value.backward()
        found.append((value.detach(), logits.grad))
    return found


SAME = {  # of one label: method, other method, factor and constant that lead from the other to it
    "scl-nl is forward": ("scl-nl", "forward", 1.0, -math.log(4)),
    "mcl-log is scl-nl": ("mcl-log", "scl-nl", 4.0, 0.0),
    "mcl-exp is scl-exp": ("mcl-exp", "scl-exp", 4 / math.e, 0.0),
    "cpe-f is forward": ("cpe-f", "forward", 1.0, 0.0),
    "cpe-t starts as forward": ("cpe-t", "forward", 1.0, 0.0),
}


@float64
@pytest.mark.parametrize("claim", SAME)
def test_of_one_label_they_are_the_same_up_to_a_constant(claim):
    name, other, factor, constant = SAME[claim]
    (value, gradient), (theirs, their_gradient) = pair(OBJECTIVES[name](5), OBJECTIVES[other](5))
    torch.testing.assert_close(value, factor * theirs + constant)
    torch.testing.assert_close(gradient, factor * their_gradient)


@float64
@pytest.mark.parametrize("name", ["scl-exp", "mcl-mae", "l-uw", "l-w", "op", "op-w", "scarce", "cpe-i"])
def test_the_others_are_not_forward(name):
    (_, gradient), (_, theirs) = pair(OBJECTIVES[name](5), OBJECTIVES["forward"](5))
    cosine = torch.nn.functional.cosine_similarity(gradient.flatten(), theirs.flatten(), dim=0)
    assert cosine < 0.99
    of_examples = torch.nn.functional.cosine_similarity(gradient, theirs, dim=-1)
    of_p_alone = name in ("scl-exp", "mcl-mae")  # of each example they pull the same way, but not as hard
    assert (of_examples.min() > 1 - 1e-9) == of_p_alone


@float64
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_mcl_mae_is_half_of_free_with_the_mean_absolute_error(labels):
    g, rows = some_rows(5, labels)
    mine = OBJECTIVES["mcl-mae"](5).example_losses(torch.tensor(g), torch.tensor(rows))
    free = Unbiased(5, losses.mean_absolute_error).example_losses(torch.tensor(g), torch.tensor(rows))
    said = rows.any(axis=1)
    torch.testing.assert_close(2 * mine[said], free[said])


@float64
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_proden_with_current_targets_steps_as_forward_does(labels):
    (value, gradient), (theirs, their_gradient) = pair(OBJECTIVES["proden"](5), Forward(5), labels=labels)
    torch.testing.assert_close(gradient, their_gradient)
    assert abs(value - theirs) > 1e-3


@float64
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_op_is_cpe_i_with_the_other_sign(labels):
    g, rows = some_rows(5, labels)
    mine = OBJECTIVES["op"](5)(torch.tensor(g), torch.tensor(rows))
    torch.testing.assert_close(mine, OBJECTIVES["cpe-i"](5)(-torch.tensor(g), torch.tensor(rows)))
    scores = OBJECTIVES["cpe-i"](5).class_scores(-torch.tensor(g))
    assert torch.equal(scores.argmax(dim=-1), torch.tensor(g).argmax(dim=-1))


@float64
@pytest.mark.parametrize("weights", [None, torch.arange(9)])
def test_class_risks_of_scarce_are_those_of_its_loss(weights):
    """Of batches of single labels and of both kinds, also after it has seen others."""
    rng, scarce, free = np.random.default_rng(0), OBJECTIVES["scarce"](4), Unbiased(4, one_versus_rest)
    for _ in range(3):
        logits, y = torch.tensor(rng.normal(size=(9, 4))), rng.integers(4, size=9)
        for labels in (y, np.concatenate([as_sets(y[:5], 4), is_rows(y[5:], 4)])):
            expected = free.class_risks(logits, labels, weights)
            torch.testing.assert_close(scarce.class_risks(logits, labels, weights), expected)
            scarce(logits, labels, weights)
            free(logits, labels, weights)


@float64
def test_scarce_by_the_shares_of_labels_is_free_with_parts_corrected():
    g, rows = some_rows(5, "single", n=200)
    logits, y = torch.tensor(g), torch.tensor(rows.argmax(axis=1))
    by_labels = 1 - 4 * rows.mean(axis=0)
    objective, free = OBJECTIVES["scarce"](5, by_labels), Unbiased(5, one_versus_rest)
    risks = objective.risks(logits, y, objective.scales(objective.count(y), None, 1.0))
    torch.testing.assert_close(risks.sum(), free(logits, y))
    torch.testing.assert_close(objective(logits, y), risks[:-1].abs().sum() + risks[-1])


@float64
@pytest.mark.parametrize("name", ["scl-nl", "mcl-log", "op", "proden"])
def test_of_two_classes_it_is_cross_entropy(name):
    g, rows = some_rows(2, "single")
    y = torch.tensor(rows.argmin(axis=1))
    expected = torch.nn.functional.cross_entropy(torch.tensor(g), y)
    torch.testing.assert_close(OBJECTIVES[name](2)(torch.tensor(g), torch.tensor(rows)), expected)


# ---- decoding -------------------------------------------------------------------------------------------------


@float64
@pytest.mark.parametrize("name", DECODING)
@pytest.mark.parametrize("q", [None, random_transition(4, 3), random_transition(4, 5, diagonal=0.05)])
def test_the_class_is_that_of_the_nearest_row(name, q):
    objective = OBJECTIVES[name](4, transition=q)
    g, _ = some_rows(4, "single", n=60)
    matrix = transition.uniform(4) if q is None else q
    p = np.stack([softmax(one) for one in g])
    of_labels = p if name == "cpe-i" else p @ matrix
    nearest = np.abs(of_labels[:, None] - matrix).sum(axis=-1).argmin(axis=-1)
    outputs = torch.tensor(g) if objective.head is None else objective.head(torch.tensor(g)).detach()
    scores = objective.class_scores(outputs)
    assert scores.argmax(dim=-1).tolist() == nearest.tolist()
    if name == "cpe-f" and q is None:
        assert nearest.tolist() == g.argmax(axis=1).tolist()  # as argmax decodes
    if name == "cpe-i" and q is None:
        assert nearest.tolist() == g.argmin(axis=1).tolist()  # the least likely label


@float64
def test_a_row_that_is_met_is_far_ahead_and_the_bias_matters():
    q = np.array([[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.9, 0.1, 0.0]])
    scores = nearest_row(torch.tensor(q), torch.tensor(q))
    assert torch.equal(scores.argmax(dim=-1), torch.arange(3))
    assert (scores.topk(2).values.diff(dim=-1) <= -10 + 1e-9).all()
    objective, uniform = OBJECTIVES["cpe-i"](3, transition=q), OBJECTIVES["cpe-i"](3)
    logits = torch.tensor([[-1.0, 2.0, -1.1]])  # "not 1" nearly always: class 0 by Q, but 2 is the least likely
    assert objective.class_scores(logits).argmax() == 0
    assert uniform.class_scores(logits).argmax() == 2


@pytest.mark.parametrize("name", OBJECTIVES)
def test_only_those_that_decode_say_so(name):
    objective = OBJECTIVES[name](4)
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert objective.decodes == (name in DECODING)
    assert (objective.class_scores(logits) is logits) == (name not in DECODING)
    assert len(list(objective.parameters())) == (name == "cpe-t")


@float64
def test_class_risks_are_of_the_classes():
    g, rows = some_rows(4, "single")
    logits, y = torch.tensor(g), torch.tensor(rows.argmax(axis=1))
    for name in DECODING:
        objective = OBJECTIVES[name](4)
        outputs = logits if objective.head is None else objective.head(logits)
        expected = Unbiased(4).class_risks(objective.class_scores(outputs), y)
        torch.testing.assert_close(objective.class_risks(logits, y), expected)


# ---- the layer of cpe-t ---------------------------------------------------------------------------------------


@float64
def test_the_layer_by_hand():
    q = random_transition(4, 2)
    layer = TransitionLayer(torch.tensor(q))
    with torch.no_grad():
        layer.shift.copy_(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)))
    weights = q * np.exp(layer.shift.detach().numpy())
    t = weights / weights.sum(axis=1, keepdims=True)
    assert (t[q == 0] == 0).all()  # what Q excludes stays excluded
    g, _ = some_rows(4, "single")
    expected = np.stack([softmax(one) for one in g]) @ t
    np.testing.assert_allclose(layer(torch.tensor(g)).exp().detach().numpy(), expected)
    state = {"shift": torch.stack([layer.shift.detach(), -layer.shift.detach()])}
    state["log_rows"] = layer.log_rows.expand(2, 4, 4)
    stacked = torch.func.functional_call(layer, state, (torch.tensor(np.stack([g, g])),))
    torch.testing.assert_close(stacked[0], layer(torch.tensor(g)))


K = 3


def blobs(n=300, seed=0, q=None):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    X = (0.4 * rng.normal(size=(n, 5)) + 2 * np.eye(K, 5)[y]).astype("float32")
    return X, y, complement(y, K, transition=q, random_state=seed)


def linear():
    return networks.linear(5, K)


def torch_mlp():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, K))


@pytest.mark.parametrize("build", [linear, torch_mlp], ids=["stacked", "by vmap"])
def test_a_population_trains_the_layer_of_each_run(build, tmp_path):
    q = random_transition(K, 1)
    X, _, y_bar = blobs(q=q)
    objective = OBJECTIVES["cpe-t"](K, transition=q)
    options = {"lr": 0.5, "optimizer": "sgd", "momentum": 0.0, "batch_size": len(X), "device": "cpu"}
    runs = Population(build, objective, seeds=[0, 1], **options)
    assert runs.parameters["head.shift"].shape == (2, K, K)
    start = [runs.network(m).network for m in range(2)]
    runs.fit(X, y_bar, max_epochs=5)
    shifts = runs.parameters["head.shift"]
    assert not torch.allclose(shifts[0], shifts[1])
    assert not objective.head.shift.any()  # the given one is only where all start
    for m in range(2):
        mine = OBJECTIVES["cpe-t"](K, transition=q)  # in anyone's loop
        network = start[m].train()
        optimizer = torch.optim.SGD([*network.parameters(), *mine.parameters()], lr=0.5)
        for _ in range(5):
            optimizer.zero_grad()
            mine(network(torch.tensor(X)), torch.tensor(y_bar)).backward()
            optimizer.step()
        torch.testing.assert_close(shifts[m], mine.head.shift.detach(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            scores = mine.class_scores(mine.head(network(torch.tensor(X))))
        torch.testing.assert_close(runs.logits(X, run=m), scores, rtol=1e-3, atol=1e-3)
        alone = Population(build, objective, seeds=[m], **options).fit(X, y_bar, max_epochs=5)
        assert_same_runs(runs, alone, 1e-6, runs=[m])
    Population(build, objective, seeds=[0, 1], **options).fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "c")
    resumed = Population(build, objective, seeds=[0, 1], **options)
    assert_same_runs(resumed.fit(X, y_bar, max_epochs=5, checkpoint=tmp_path / "c"), runs, 1e-6)
    other = Population(build, OBJECTIVES["cpe-t"](K), seeds=[0, 1], **options)
    with raises("is of other data or settings"):
        other.fit(X, y_bar, max_epochs=5, checkpoint=tmp_path / "c")


# ---- trained as a population ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_runs_learn_and_are_chosen_by_labels_alone(name):
    X, y, y_bar = blobs(600)
    runs = Population(linear, OBJECTIVES[name](K), seeds=[0, 1], lr=0.05, batch_size=200, device="cpu")
    before = (runs.logits(X).argmax(dim=-1).numpy() == y).mean(axis=-1)
    runs.fit(X, y_bar, max_epochs=20, rows=np.arange(200, 600), validation_rows=np.arange(200), test=(X, y))
    right = (runs.logits(X).argmax(dim=-1).numpy() == y).mean(axis=-1)
    assert (right > 0.9).all()
    assert (right > before).all()
    assert (runs.history["valid_accuracy"].max(axis=0) > 0.85).all()
    chosen = runs.history["test_accuracy"][runs.best_epoch, np.arange(2)]
    np.testing.assert_allclose(chosen, right)  # the epoch's own test and `logits` decode alike
    assert (runs.history["loss"][-1] < runs.history["loss"][0]).all() or name in ("free", "ascent")


@pytest.mark.parametrize("name", WITH_MATRIX)
def test_a_known_matrix_is_used(name):
    q = np.array([[0.3, 0.6, 0.1], [0.1, 0.3, 0.6], [0.6, 0.1, 0.3]])  # the least likely label is another class's
    X, y, y_bar = blobs(600, q=q)
    right = []
    for matrix in (q, None):
        objective = objectives.make(name, K, transition=matrix)
        runs = Population(linear, objective, lr=0.05, batch_size=100, device="cpu")
        runs.fit(X, y_bar, max_epochs=20, rows=np.arange(200, 600), validation_rows=np.arange(200), class_risks=True)
        right.append((runs.logits(X, run=0).argmax(dim=-1).numpy() == y).mean())
    assert right[0] > 0.9
    assert right[1] < 0.6


def test_methods_of_all_kinds_train_side_by_side():
    X, y, y_bar = blobs()
    kinds = [OBJECTIVES[name](K) for name in ("forward", "cpe-i", "scarce", "cpe-f")]
    options = {"lr": 0.05, "batch_size": 100, "device": "cpu"}
    how = {"max_epochs": 3, "class_risks": True, "test": (X, y), "validation_rows": np.arange(90)}
    together = Population(linear, kinds, seeds=[0, 0, 0, 0], **options).fit(X, y_bar, **how)
    for m, kind in enumerate(kinds):
        alone = Population(linear, kind, seeds=[0], **options).fit(X, y_bar, **how)
        assert_same_runs(together, alone, 1e-6, runs=[m])


# ---- trained as a classifier ----------------------------------------------------------------------------------


def classifier(method, **options):
    given = {"lr": 0.05, "max_epochs": 12, "n_seeds": 3, "random_state": 0, "hidden": (8,), "device": "cpu"}
    return ComplementaryClassifier(method, **(given | options))


@pytest.mark.parametrize("name", FIELD)
def test_a_classifier_learns_and_is_saved(name, tmp_path):
    X, y, y_bar = blobs()
    model = classifier(name).fit(X, y_bar)
    assert model.method_ == name
    assert (model.predict(X) == y).mean() > 0.85
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path, device="cpu")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    again = OBJECTIVES[back.method_](**back.objective_)
    assert again.settings() == OBJECTIVES[name](K, **({"alpha": None} if name != "scarce" else {})).settings()


def test_several_methods_are_pooled():
    X, y, y_bar = blobs()
    model = classifier(["scl-nl", "cpe-t", "op-w"], max_epochs=20).fit(X, y_bar)
    assert [trial["method"] for trial in model.trials_] == ["scl-nl", "cpe-t", "op-w"]
    assert (model.predict(X) == y).mean() > 0.9


@pytest.mark.parametrize("name", WITH_MATRIX)
def test_a_classifier_with_a_matrix_and_a_network_of_ones_own_is_saved(name, tmp_path):
    q = np.array([[0.0, 0.9, 0.1], [0.1, 0.0, 0.9], [0.9, 0.1, 0.0]])
    X, y, y_bar = blobs(q=q)

    def build(n_features, n_classes):
        return nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_classes))

    model = classifier(name, transition=q, network=build, max_epochs=20).fit(X, y_bar)
    assert (model.predict(X) == y).mean() > 0.9
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path, network=build, device="cpu")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


# ---- the command and the page ---------------------------------------------------------------------------------


def test_the_command_takes_them(naysayer, tmp_path):
    X, y, y_bar = blobs(150)
    rows = [",".join([*map(str, x), f"!{'abc'[c]}"]) for x, c in zip(X, y_bar)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["a,b,c,d,e,label", *rows]) + "\n")
    words = ["train", str(table), "--label", "label", "--epochs", "10", "--seeds", "2", "--lr", "0.05", "--method"]
    done = naysayer(*words, "scl-nl,cpe-t", "--out", str(tmp_path / "model"))
    assert done.code == 0, done.err
    assert {trial["method"] for trial in ComplementaryClassifier.load(tmp_path / "model").trials_} == {
        "scl-nl",
        "cpe-t",
    }
    predicted = naysayer("predict", str(tmp_path / "model"), str(table), "--out", str(tmp_path / "predicted.csv"))
    assert predicted.code == 0, predicted.err
    classes = [line.split(",")[1] for line in (tmp_path / "predicted.csv").read_text().splitlines()[1:]]
    assert np.mean(np.array(classes) == np.array(list("abc"))[y]) > 0.85


def test_the_page_has_a_row_for_each():
    page = (Path(__file__).parent.parent / "docs" / "methods.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (yes|no) \| (yes|no) \| [^|]*\|$", page, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == list(OBJECTIVES)
    for name, matrix, alpha in rows:
        settings = OBJECTIVES[name](4).settings()
        assert ("transition" in settings, "alpha" in settings) == (matrix == "yes", alpha == "yes"), name


# ---- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITHOUT)
def test_a_method_for_uniform_labels_refuses_a_matrix(name):
    q = transition.noisy(K, 0.1)
    words = (
        f"`transition` must be None for the method {name}, which takes labels to be uniform; use free, max, ascent, "
        f"forward, pairwise, cpe-i, cpe-f, cpe-t"
    )
    with raises(words):
        objectives.make(name, K, transition=q)
    assert objectives.make(name, K, transition=None).transition is None


def test_the_classifier_refuses_it_too():
    X, _, y_bar = blobs()
    with raises("`transition` must be None for the method op, which takes labels to be uniform"):
        classifier(["forward", "op"], transition=transition.noisy(K, 0.1)).fit(X, y_bar)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: objectives.Surrogate(3, "log"), "`shape` must be one of nl, exp; got 'log'"),
        (lambda: objectives.UpperBound(3, "mse"), "`shape` must be one of mae, exp, log; got 'mse'"),
        (
            lambda: OBJECTIVES["scarce"](3, [1.0]),
            "`class_prior` must be 3 shares, none negative; got shape (1,)",
        ),
        (lambda: objectives.NegativeUnlabelled(2, [1.0, 0.5]), "`class_prior` must sum to 1; got 1.5"),
        (lambda: OBJECTIVES["cpe-i"](3, transition=np.full((3, 3), 1 / 3)), "its condition number is"),
    ],
)
def test_settings_refused(make, words):
    with raises(words):
        make()


@pytest.mark.parametrize("name", DECODING)
def test_a_network_with_too_many_logits_is_refused(name):
    X, _, y_bar = blobs()
    with raises("`network` must give 3 logits per example, one per class; got (4,)"):
        classifier(name, network=lambda n_features, n_classes: networks.linear(n_features, 4)).fit(X, y_bar)


def test_runs_with_and_without_a_layer_are_refused():
    with raises("`objective` must put the same layer on top of the network in every run, or none in any"):
        Population(linear, [OBJECTIVES["cpe-t"](K), OBJECTIVES["cpe-i"](K)], seeds=[0, 1])


@pytest.mark.filterwarnings("ignore:nothing was learned")
def test_what_decodes_in_its_own_way_must_have_a_name_to_be_saved(tmp_path, monkeypatch):
    class Reversed(ProbabilityEstimate):
        def class_scores(self, logits):
            return super().class_scores(logits).flip(-1)

    X, _, y_bar = blobs()
    model = classifier({"mine": Reversed(K)}, max_epochs=2).fit(X, y_bar)
    with raises("Reversed must be in naysayer.objectives.OBJECTIVES to be saved"):
        model.save(tmp_path / "model")
    monkeypatch.setitem(OBJECTIVES, "reversed", Reversed)
    model.save(tmp_path / "model")
    back = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


def test_a_method_of_ones_own_by_its_losses_of_labels():
    class Quadratic(LabelAverage):
        def label_losses(self, logits):
            return torch.softmax(logits, dim=-1).square()

    sets = torch.tensor([[True, True, False, False], [True, False, False, False]])
    assert Quadratic(4)(torch.zeros(2, 4), sets).item() == 1 / 16
    assert isinstance(Quadratic(4), Objective)
    with raises("LabelAverage must have a method label_losses(logits)", NotImplementedError):
        LabelAverage(4)(torch.zeros(1, 4), torch.tensor([0]))
