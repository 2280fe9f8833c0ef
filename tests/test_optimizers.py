"""Stacked optimisers against torch's own, run by run."""

from __future__ import annotations

import itertools

import pytest
import torch

from naysayer.engine.optimizers import OPTIMIZERS, StackedOptimizer

SHAPES = [(5, 3), (3,), (3, 2, 4)]  # one run's weights and biases
STEPS = 12


def start(n_runs, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(n_runs, *shape, generator=draw) for shape in SHAPES]


def gradients(n_runs, step):
    """Some gradients; those of run m are the same however many runs there are."""
    out = []
    for shape in SHAPES:
        runs = [torch.Generator().manual_seed(1000 * step + m) for m in range(n_runs)]
        out.append(torch.stack([torch.randn(shape, generator=draw) for draw in runs]))
    return tuple(out)


def by_torch(kind, parameters, run, lr, decay, momentum, scales):
    """One run by torch.optim, weight decay on its weights only; the discount is on the learning rate."""
    mine = [torch.nn.Parameter(p[run].clone()) for p in parameters]
    groups = [
        {"params": [p for p in mine if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in mine if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if kind in ("sgd", "nesterov"):
        optimizer = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=kind == "nesterov")
    else:
        optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](groups, lr=lr, betas=(momentum, 0.999))
    for step in range(STEPS):
        for p, g in zip(mine, gradients(run + 1, step)):
            p.grad = g[run].clone()
        for group in optimizer.param_groups:
            group["lr"] = lr * scales[step]
        optimizer.step()
    return [p.detach() for p in mine]


def stacked(kind, parameters, lr, decay, momentum, scales=(1.0,) * STEPS, runs=slice(None)):
    mine = [p[runs].clone() for p in parameters]
    optimizer = StackedOptimizer(kind, mine, torch.tensor(lr), torch.tensor(decay), momentum)
    for step in range(STEPS):
        grads = tuple(g[runs] for g in gradients(len(parameters[0]), step))
        optimizer.step(grads, torch.full((len(lr),), scales[step]))
    return mine


def test_there_is_a_case_for_each_optimizer():
    assert set(OPTIMIZERS) == {"adam", "adamw", "sgd", "nesterov"}


@pytest.mark.parametrize(
    ("kind", "momentum"),
    [("adam", 0.9), ("adamw", 0.9), ("sgd", 0.9), ("sgd", 0.0), ("nesterov", 0.8), ("adam", 0.5)],
)
@pytest.mark.parametrize("n_runs", [1, 3], ids=["fused", "plain"])
def test_each_run_is_what_torch_makes_of_it(kind, momentum, n_runs):
    parameters = start(n_runs)
    lr, decay = [0.02, 0.1, 0.003][:n_runs], [0.1, 0.0, 0.5][:n_runs]
    scales = [1.0, 0.5, 1.0, 0.0] * (STEPS // 4)
    ours = stacked(kind, parameters, lr, decay, momentum, scales)
    for run in range(n_runs):
        theirs = by_torch(kind, parameters, run, lr[run], decay[run], momentum, scales)
        for mine, other in zip(ours, theirs):
            torch.testing.assert_close(mine[run], other, rtol=0, atol=1e-6)
            assert (mine[run] - parameters[0][run].mean()).abs().max() > 0.01


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_stack_equals_its_runs_alone(kind):
    parameters = start(3)
    lr, decay = [0.02, 0.1, 0.003], [0.1, 0.0, 0.5]
    together = stacked(kind, parameters, lr, decay, 0.9)
    for pair in itertools.combinations(range(3), 2):
        chosen = list(pair)
        some = stacked(kind, parameters, [lr[m] for m in pair], [decay[m] for m in pair], 0.9, runs=chosen)
        for mine, other in zip(together, some):
            assert torch.equal(mine[chosen], other)
    for run in range(3):
        alone = stacked(kind, parameters, lr[run : run + 1], decay[run : run + 1], 0.9, runs=slice(run, run + 1))
        for mine, other in zip(together, alone):
            torch.testing.assert_close(mine[run], other[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("n_runs", [1, 2])
def test_weight_decay_falls_on_weights_only(kind, n_runs):
    parameters = start(n_runs)
    before = [p.clone() for p in parameters]
    optimizer = StackedOptimizer(kind, parameters, torch.full((n_runs,), 1e-4), torch.full((n_runs,), 0.5))
    optimizer.step(tuple(torch.zeros_like(p) for p in parameters), torch.ones(n_runs))
    for p, old in zip(parameters, before):
        if p.dim() > 2:
            assert (p.abs() < old.abs()).all()
        else:
            assert torch.equal(p, old)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_scale_is_on_the_step_not_on_the_gradient(kind):
    moved = []
    for scale in (1.0, 0.5):
        parameters = start(2)
        before = [p.clone() for p in parameters]
        optimizer = StackedOptimizer(kind, parameters, torch.full((2,), 0.1), torch.zeros(2))
        optimizer.step(gradients(2, 0), torch.tensor([scale, 1.0]))
        moved.append([p - old for p, old in zip(parameters, before)])
    for full, half in zip(*moved):
        torch.testing.assert_close(half[0], full[0] / 2, rtol=1e-4, atol=1e-6)
        assert torch.equal(half[1], full[1])  # the other run's step is its own


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("n_runs", [1, 2])
def test_the_state_is_all_there_is_to_go_on_from(kind, n_runs):
    parameters = start(n_runs)
    settings = (torch.full((n_runs,), 0.1), torch.full((n_runs,), 0.01))
    first = StackedOptimizer(kind, parameters, *settings)
    for step in range(3):
        first.step(gradients(n_runs, step), torch.ones(n_runs))
    copied = [p.clone() for p in parameters]
    second = StackedOptimizer(kind, copied, *settings)
    assert second.state().keys() == first.state().keys()
    for name, tensor in second.state().items():
        tensor.copy_(first.state()[name])
    for step in range(3, 6):
        first.step(gradients(n_runs, step), torch.ones(n_runs))
        second.step(gradients(n_runs, step), torch.ones(n_runs))
    for one, other in zip(parameters, copied):
        assert torch.equal(one, other)


def test_a_learning_rate_may_change_between_steps():
    parameters = start(2)
    optimizer = StackedOptimizer("sgd", parameters, torch.full((2,), 0.1), torch.zeros(2), momentum=0.0)
    optimizer.lr.copy_(torch.tensor([0.0, 0.3]))
    before = [p.clone() for p in parameters]
    grads = gradients(2, 0)
    optimizer.step(grads, torch.ones(2))
    for p, old, g in zip(parameters, before, grads):
        assert torch.equal(p[0], old[0])
        torch.testing.assert_close(p[1], old[1] - 0.3 * g[1])
