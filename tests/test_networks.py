"""Networks that take a leading axis of runs: each run of a stack is the run alone, and all start as nn.Linear does."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call

from naysayer import networks
from naysayer.networks import MLP, StackedLinear


def plain(module):
    """The same network made of torch's own layers."""
    layers = []
    for layer in module.layers:
        twin = nn.Linear(layer.weight.shape[1], layer.weight.shape[0])
        twin.load_state_dict(layer.state_dict())  # laid out alike
        layers += [twin, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5), (6, 6, 6)])
def test_it_is_what_torchs_own_layers_make(float64, hidden):
    module = networks.mlp(4, 3, hidden)
    x = torch.randn(11, 4, requires_grad=True)
    y = torch.arange(11) % 3
    twin = plain(module)
    torch.testing.assert_close(module(x), twin(x))
    mine = torch.autograd.grad(nn.functional.cross_entropy(module(x), y), [x, *module.parameters()])
    theirs = torch.autograd.grad(nn.functional.cross_entropy(twin(x), y), [x, *twin.parameters()])
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("hidden", [(), (7,), (7, 5)])
def test_a_stack_of_runs_is_the_runs_alone(float64, hidden):
    modules = [networks.mlp(4, 3, hidden) for _ in range(5)]
    assert modules[0].stacks
    states = [dict(m.named_parameters()) for m in modules]
    stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    x = torch.randn(5, 9, 4)
    out = functional_call(modules[0], stacked, (x,))
    assert out.shape == (5, 9, 3)
    for m, module in enumerate(modules):
        torch.testing.assert_close(out[m], module(x[m]))
    shared = functional_call(modules[0], stacked, (x[:1].expand(5, -1, -1),))  # one batch for all runs
    for m, module in enumerate(modules):
        torch.testing.assert_close(shared[m], module(x[0]))


def test_examples_of_more_dimensions_are_flattened(float64):
    module = networks.mlp(12, 3, (5,))
    x = torch.randn(7, 12)
    torch.testing.assert_close(module(x.view(7, 1, 3, 4)), module(x))
    stacked = {name: torch.stack([p, 2 * p]) for name, p in module.named_parameters()}
    images = functional_call(module, stacked, (x.view(1, 7, 3, 4).expand(2, -1, -1, -1),))
    torch.testing.assert_close(images, functional_call(module, stacked, (x.expand(2, -1, -1),)))
    torch.testing.assert_close(images[0], module(x))


def test_inputs_are_left_as_they_were():
    x = torch.randn(6, 4)
    before = x.clone()
    networks.mlp(4, 3, (5,))(x)
    networks.linear(4, 3)(x)
    assert torch.equal(x, before)


def test_the_start_is_that_of_torchs_linear_layer():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch_layer, layer = nn.Linear(400, 300), StackedLinear(400, 300)
    bound = 400**-0.5
    for mine, theirs in ((layer.weight, torch_layer.weight), (layer.bias, torch_layer.bias)):
        assert mine.abs().max() <= bound
        assert mine.abs().max().item() == pytest.approx(bound, rel=0.05)
        assert mine.std().item() == pytest.approx(theirs.std().item(), rel=0.15)
    assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
    assert abs(layer.weight.mean().item()) < 6 * bound / math.sqrt(3 * 400 * 300)


def test_a_layer_can_be_started_anew():
    layer = StackedLinear(5, 4)
    before = layer.weight.clone(), layer.bias.clone()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer.reset_parameters()
        first = layer.weight.clone()
        torch.manual_seed(0)
        layer.reset_parameters()
    assert torch.equal(layer.weight, first)
    assert not torch.equal(layer.weight, before[0])
    assert not torch.equal(layer.bias, before[1])


def test_the_papers_sizes():
    assert sum(p.numel() for p in networks.mlp(784, 10).parameters()) == 784 * 500 + 500 + 500 * 10 + 10
    assert sum(p.numel() for p in networks.linear(784, 10).parameters()) == 784 * 10 + 10
    assert [tuple(layer.weight.shape) for layer in MLP(784, 10, (500, 20)).layers] == [(500, 784), (20, 500), (10, 20)]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_parts_of_the_hidden_layer_make_the_whole(float64, parts):
    module = networks.mlp(4, 3, (6,))
    x, d = torch.randn(11, 4), torch.randn(11, 3)
    logits, gradients = module.in_parts(x.expand(parts, 11, 4))
    torch.testing.assert_close(logits, module(x))
    for mine, traced in zip(gradients(d), torch.autograd.grad(module(x), list(module.parameters()), d), strict=True):
        torch.testing.assert_close(mine, traced)
