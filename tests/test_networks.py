"""Networks that take a leading axis of runs: each run of a stack is the run alone, and all start as nn.Linear does.

ResNet and DenseNet: what the papers say, written again in plain calls, makes the same outputs and gradients.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from naysayer import networks
from naysayer.engine.networks import MLP, StackedLinear
from naysayer.engine.passes import mlp_pass


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


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_the_hidden_layer_make_the_whole(float64, parts):
    module = networks.mlp(4, 3, (6,))
    x, d = torch.randn(11, 4), torch.randn(11, 3)
    parameters = {name: p.detach().unsqueeze(0) for name, p in module.named_parameters()}
    parameters["layers.1.weight"] = parameters["layers.1.weight"].mT.contiguous().mT  # a part is one piece of memory
    logits, gradients = mlp_pass(parameters, parts)(x.expand(parts, 11, 4))
    torch.testing.assert_close(logits[0], module(x))
    traced = torch.autograd.grad(module(x), list(module.parameters()), d)
    for mine, expected in zip(gradients(d.unsqueeze(0)), traced, strict=True):
        torch.testing.assert_close(mine[0], expected)


def test_other_networks_are_traced():
    for module in (networks.linear(4, 3), networks.mlp(4, 3, (6, 6))):
        assert mlp_pass({name: p.unsqueeze(0) for name, p in module.named_parameters()}, parts=2) is None


# ---- networks for images --------------------------------------------------------------------------------------------


def thin_resnet34():
    return networks.resnet34(n_classes=5, width=8)


def thin_densenet():
    return networks.densenet(n_classes=5, depth=16, growth=4)


def thin_pooled():
    return networks.pooled(n_classes=5, width=4)


each_network = pytest.mark.parametrize("make", [thin_resnet34, thin_densenet, thin_pooled])


class Plain:
    """The papers' networks in functional calls, on the parameters of ours in the order in which they come."""

    def __init__(self, module):
        self.parameters = list(module.parameters())
        self.statistics = []  # running mean and variance of each normalisation

    def __call__(self, forward, x, training=True):
        self.left, self.place, self.training = iter(self.parameters), 0, training
        mean, deviation = torch.tensor([[0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]])
        x = forward(self, (x - mean.view(1, 3, 1, 1)) / deviation.view(1, 3, 1, 1))
        x = F.linear(F.adaptive_avg_pool2d(x, 1).flatten(1), next(self.left), next(self.left))
        assert not list(self.left)
        return x

    def convolve(self, x, size, stride=1):
        weight = next(self.left)
        assert weight.shape[2:] == (size, size)
        return F.conv2d(x, weight, stride=stride, padding=(size - 1) // 2)

    def normalise(self, x):
        if self.place == len(self.statistics):
            self.statistics.append([torch.zeros(x.shape[1]), torch.ones(x.shape[1])])
        mean, variance = self.statistics[self.place]
        if self.training:
            var, mu = torch.var_mean(x.detach(), dim=(0, 2, 3))
            self.statistics[self.place] = [0.9 * mean + 0.1 * mu, 0.9 * variance + 0.1 * var]
            mean, variance = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3), unbiased=False)
        self.place += 1
        weight, bias = next(self.left), next(self.left)
        x = (x - mean.view(1, -1, 1, 1)) / (variance.view(1, -1, 1, 1) + 1e-5).sqrt()
        return x * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)


def plain_resnet34(net, x):
    """He et al., section 3.3 and 4.2, Table 1: basic blocks, projections (B) where the size changes."""
    x = net.normalise(net.convolve(x, 3)).relu()
    for stage, n_blocks in enumerate([3, 4, 6, 3]):
        for block in range(n_blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            z = net.normalise(net.convolve(x, 3, stride)).relu()
            z = net.normalise(net.convolve(z, 3))
            if stride == 2:
                x = net.normalise(net.convolve(x, 1, stride))
            x = (z + x).relu()
    return x


def plain_densenet(net, x):
    """Huang et al., section 3: BN-ReLU-conv(1×1)-BN-ReLU-conv(3×3), and transitions BN-ReLU-conv(1×1)-pool."""
    x = net.convolve(x, 3)
    for block in range(3):
        parts = [x]
        for _ in range(2):
            z = net.convolve(net.normalise(torch.cat(parts, dim=1)).relu(), 1)
            parts.append(net.convolve(net.normalise(z).relu(), 3))
        x = net.normalise(torch.cat(parts, dim=1)).relu()
        if block < 2:
            x = F.avg_pool2d(net.convolve(x, 1), 2)
    return x


def jolt(module):
    """Move the scales and shifts away from 1 and 0, where much would come out alike."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return module


@pytest.mark.parametrize(("make", "forward"), [(thin_resnet34, plain_resnet34), (thin_densenet, plain_densenet)])
@pytest.mark.parametrize("size", [(32, 32), (8, 8), (13, 9)])
def test_it_is_the_papers_network(float64, make, forward, size):
    module = jolt(make())
    plain = Plain(module)
    for _ in range(3):  # several, so that the running statistics move
        x = torch.rand(4, 3, *size, requires_grad=True)
        mine, theirs = module(x), plain(forward, x)
        torch.testing.assert_close(mine, theirs)
        d = torch.randn(4, 5)
        mine = torch.autograd.grad(mine, [x, *module.parameters()], d)
        theirs = torch.autograd.grad(theirs, [x, *module.parameters()], d)
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a, b)
    module.eval()
    torch.testing.assert_close(module(x), plain(forward, x, training=False))
    assert (module(x) - plain(forward, x)).abs().max() > 1e-3  # the comparison can fail: batch for running statistics


def test_the_papers_numbers_of_parameters():
    def count(module):
        return sum(p.numel() for p in module.parameters())

    assert count(networks.resnet34()) == 21_282_122
    assert count(networks.densenet()) == 769_162  # 0.8 M in the paper's Table 2
    assert count(networks.densenet(n_classes=100)) == 769_162 + 90 * 343


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (thin_resnet34, [(8, 32), (8, 32), (16, 16), (32, 8), (64, 4)]),
        (thin_densenet, [(8, 32), (16, 32), (8, 16), (16, 16), (8, 8), (16, 8), (16, 8)]),
        (thin_pooled, [(2, 32), (4, 16), (16, 8), (16, 4)]),
    ],
)
def test_the_shapes_of_the_stages(make, shapes):
    x = torch.rand(2, 3, 32, 32)
    for stage, (n_channels, size) in zip(make().features, shapes, strict=True):
        x = stage(x)
        assert x.shape == (2, n_channels, size, size)


@each_network
def test_rows_of_pixels_are_images(make):
    module, x = make(), torch.rand(3, 3, 32, 32)
    before = x.clone()
    assert torch.equal(module(x.flatten(1)), module(x))
    assert torch.equal(x, before)


@each_network
def test_every_parameter_learns_and_a_few_steps_fit_16_images(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, x, y = make(), torch.rand(16, 3, 8, 8), torch.arange(16) % 5
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        assert all(p.grad.abs().max() > 0 for p in module.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@each_network
def test_it_starts_from_torchs_seed(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = make().state_dict()
        second = make().state_dict()
        torch.manual_seed(0)
        again = make().state_dict()
    for name, tensor in first.items():
        assert torch.equal(tensor, again[name])
    drawn = [name for name, tensor in first.items() if not torch.equal(tensor, second[name])]
    assert drawn == [name for name, tensor in first.items() if tensor.dim() == 4 or name.startswith("classifier")]


def test_convolutions_start_as_he_says():
    layer = networks.resnet34(width=64).features[2][0].body[0]
    assert layer.weight.shape == (128, 64, 3, 3)
    assert layer.weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)
    assert abs(layer.weight.mean().item()) < 6 * (2 / (9 * 128)) ** 0.5 / layer.weight.numel() ** 0.5


@each_network
def test_batch_statistics_in_training_running_ones_after(make):
    module, x = make(), torch.rand(6, 3, 8, 8)
    start = {name: buffer.clone() for name, buffer in module.named_buffers()}
    in_training = module(x)
    moved = {name for name, buffer in module.named_buffers() if not torch.equal(buffer, start[name])}
    assert moved == {name for name in start if "running" in name}
    assert not torch.allclose(module(x[:2]), in_training[:2], atol=1e-3)  # a batch's rows depend on each other
    module.eval()
    now = {name: buffer.clone() for name, buffer in module.named_buffers()}
    torch.testing.assert_close(module(x[:2]), module(x)[:2], atol=1e-5, rtol=1e-4)
    assert all(torch.equal(buffer, now[name]) for name, buffer in module.named_buffers())


@each_network
def test_channels_last_makes_the_same_numbers(float64, make):
    module, x = jolt(make()), torch.rand(4, 3, 16, 16)
    expected, d = module(x), torch.randn(4, 5)
    gradients = torch.autograd.grad(expected, list(module.parameters()), d)
    module = module.to(memory_format=torch.channels_last)
    layouts = []
    module.features.register_forward_hook(
        lambda _module, _x, out: layouts.append(out.is_contiguous(memory_format=torch.channels_last))
    )
    for same in (x, x.contiguous(memory_format=torch.channels_last)):
        out = module(same)
        torch.testing.assert_close(out, expected)
        for a, b in zip(torch.autograd.grad(out, list(module.parameters()), d), gradients, strict=True):
            torch.testing.assert_close(a, b)
    assert layouts == [True, True]


@each_network
def test_bfloat16_by_autocast(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, x = make(), torch.rand(8, 3, 16, 16)
    expected = module(x).detach()
    kinds = set()
    for stage in module.features:
        stage.register_forward_hook(lambda _module, _x, out: kinds.add(out.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        out = module(x)
        F.cross_entropy(out.float(), torch.arange(8) % 5).backward()
    assert kinds == {torch.bfloat16}  # nothing large is float32
    assert (out - expected).norm() < 0.1 * expected.norm()
    assert all(p.grad.isfinite().all() and p.grad.dtype == torch.float32 for p in module.parameters())


@each_network
def test_it_compiles_to_one_graph(make):
    module, x = make(), torch.rand(4, 3, 8, 8)
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    expected = module(x)
    after = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module.load_state_dict(state)
    torch.testing.assert_close(torch.compile(module, backend="aot_eager", fullgraph=True)(x), expected)
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(tensor, after[name])


@each_network
def test_runs_stacked_by_vmap_are_the_runs_alone(float64, make):
    modules, x = [make(), make()], torch.rand(2, 4, 3, 8, 8)
    parameters, buffers = stack_module_state(modules)

    def call(parameters, buffers, x):
        return functional_call(modules[0], (parameters, buffers), (x,))

    out = vmap(call)(parameters, buffers, x)
    for m, module in enumerate(modules):
        torch.testing.assert_close(out[m], module(x[m]))
        for name, buffer in module.named_buffers():
            torch.testing.assert_close(buffers[name][m], buffer)


@each_network
def test_a_saved_state_is_the_whole_network(make):
    module, x = jolt(make()), torch.rand(4, 3, 8, 8)
    module(x)
    saved = {name: tensor.clone() for name, tensor in module.state_dict().items()}  # a plain dict, as a file gives
    other = make()
    other.mean.zero_()
    other.load_state_dict(saved)
    assert torch.equal(other.eval()(x), module.eval()(x))


@each_network
@pytest.mark.parametrize(
    ("x", "came"),
    [
        (torch.zeros(2, 1, 32, 32), r"torch.float32 of shape \(2, 1, 32, 32\)"),
        (torch.zeros(2, 3, 8, 7), r"\(2, 3, 8, 7\)"),
        (torch.zeros(2, 784), r"\(2, 784\)"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), r"torch.uint8 of shape"),
    ],
)
def test_what_is_not_an_image_is_refused(make, x, came):
    with pytest.raises(ValueError, match=r"images must be floats of 0 to 1, \(B, 3, H, W\).*; got .*" + came):
        make()(x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: networks.resnet34(1), "`n_classes` must be a whole number of at least 2; got 1"),
        (lambda: networks.densenet(n_classes=2.5), "`n_classes` must be a whole number of at least 2; got 2.5"),
        (lambda: networks.resnet34(width=0), "`width` must be a whole number of at least 1; got 0"),
        (lambda: networks.resnet34(width=True), "`width` must be a whole number of at least 1; got True"),
        (lambda: networks.densenet(growth=1.5), "`growth` must be a whole number of at least 1; got 1.5"),
        (lambda: networks.densenet(depth="100"), "`depth` must be a whole number of at least 1; got '100'"),
        (lambda: networks.densenet(depth=40 + 1), r"`depth` must be 6 n \+ 4 with n at least 1: 10, .* got 41"),
        (lambda: networks.densenet(depth=4), r"`depth` must be 6 n \+ 4 with n at least 1: 10, .* got 4"),
    ],
)
def test_sizes_are_checked(call, words):
    with pytest.raises(ValueError, match=words):
        call()
