"""On a GPU: the fused kernels and the captured step against their plain twins on the CPU. Run by `make test-cuda`."""

import numpy as np
import pytest
import torch

from naysayer import Population, complement, networks, objectives
from naysayer.engine import kernels
from naysayer.engine.augment import crop_and_flip
from naysayer.engine.optimizers import StackedOptimizer
from naysayer.labels.weights import one_hot

METHODS = {
    "free": objectives.Unbiased,
    "max": objectives.NonNegative,
    "ascent": lambda k: objectives.GradientAscent(k, beta=0.01, gamma=0.5),
    "forward": objectives.Forward,
    "pairwise": objectives.PairwiseComparison,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1, 256, 10), (5, 100, 10), (3, 64, 200), (2, 37, 3)])
@pytest.mark.parametrize("uniform", [True, False])
def test_fused_risk_equals_plain(method, shape, uniform):
    torch.manual_seed(0)
    logits = 3 * torch.randn(shape)
    y = torch.randint(0, shape[-1], shape[:-1])
    prior = torch.full((shape[0], shape[-1]), 1 / shape[-1])
    objective = METHODS[method](shape[-1])
    if not uniform:
        q = torch.rand(shape[-1], shape[-1]).numpy() + 3 * np.eye(shape[-1])[::-1]
        q *= np.random.default_rng(0).random(q.shape) < 0.9  # some labels are impossible
        objective = type(objective)(shape[-1], transition=q / q.sum(axis=1, keepdims=True))
    out = []
    for device in ("cpu", "cuda"):
        g = logits.detach().clone().to(device).requires_grad_()
        assert kernels.can_fuse(g, y.to(device)) == (device == "cuda")
        batch = (y.to(device), prior.to(device), 1.0)
        value, scale = objective.to(device).measure(g, *batch)
        value.sum().backward()
        out.append((value.detach().cpu(), scale.cpu(), g.grad.cpu()))
        out.append([t.cpu() for t in objective.differentiate(g.detach(), *batch)])
    for other in out[1:]:
        for plain, fused in zip(out[0], other, strict=True):
            torch.testing.assert_close(fused, plain, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd"])
def test_fused_optimizer_equals_plain(kind):
    torch.manual_seed(0)
    start = [torch.randn(4, 33, 70), torch.randn(4, 70, 33).mT, torch.randn(4, 70)]  # weights laid out both ways
    gradients = [[torch.randn(p.shape) for p in start] for _ in range(5)]
    out = []
    for device in ("cpu", "cuda"):
        parameters = [p.clone().to(device) for p in start]
        lr = torch.tensor([1e-3, 1e-2, 0.0, 1e-1], device=device)
        stacked = StackedOptimizer(kind, parameters, lr, torch.full((4,), 1e-2, device=device))
        for g in gradients:
            stacked.step(tuple(t.to(device) for t in g), torch.ones(4, device=device))
        out.append([p.cpu() for p in parameters])
    for plain, fused in zip(*out, strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)


def test_gathered_images():
    images = torch.randint(0, 256, (50, 1500), dtype=torch.uint8)
    rows = torch.randint(0, 50, (3, 7))
    fused = kernels.gather_images(images.cuda(), rows.cuda()).cpu()
    torch.testing.assert_close(fused, images[rows] / 255)


@pytest.mark.parametrize("method", ["free", "max", "ascent", "forward", "pairwise"])
@pytest.mark.parametrize("labels", ["classes", "ruled out", "one row a run"])
def test_population_on_cuda_equals_cpu(method, labels):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 600)
    X = (rng.normal(size=(600, 20)) + 2 * np.eye(5, 20)[y]).astype("float32")
    y_bar = complement(y, 5, n_labels=2 if labels == "ruled out" else 1, random_state=0)
    if labels == "one row a run":
        y_bar = np.stack([complement(y, 5, random_state=s) for s in range(3)])
    out = []
    for device in ("cpu", "cuda"):
        runs = Population(
            lambda: networks.mlp(20, 5, (32,)),
            objectives.OBJECTIVES[method](5),
            seeds=[0, 1, 2],
            lr=[1e-3, 1e-2, 3e-3],
            batch_size=64,
            device=device,
        )
        runs.fit(X, y_bar, max_epochs=3, rows=np.arange(500), validation_rows=np.arange(500, 600), test=(X, y))
        out.append(runs)
    cpu, cuda = out
    np.testing.assert_allclose(cuda.history["loss"], cpu.history["loss"], rtol=0.02, atol=0.01)
    np.testing.assert_allclose(cuda.history["test_accuracy"], cpu.history["test_accuracy"], atol=0.02)


def test_user_module_is_captured_and_dropout_varies():
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 3))
    y = np.arange(300) % 3
    X = np.eye(3, 4, dtype="float32")[y]
    runs = Population(module, objectives.Forward(3), seeds=[0, 1], lr=0.05, device="cuda")
    runs.fit(X, complement(y, 3, random_state=0), max_epochs=40)
    assert (runs.logits(X).argmax(-1).numpy() == y).mean() > 0.95


def test_step_is_free_of_synchronisation():
    logits = torch.randn(64, 5, device="cuda", requires_grad=True)
    y = torch.randint(0, 5, (64,), device="cuda")
    sets = one_hot(y, 5)
    made = [kind(5).cuda() for kind in objectives.OBJECTIVES.values()]
    made += [objectives.Unbiased(5, loss="one_vs_all(sigmoid)").cuda()]
    for objective in made:
        objective(logits, y).backward()  # builds kernels
    torch.cuda.set_sync_debug_mode("error")
    try:
        for objective in made:
            objective(logits, y).backward()
            objective(logits, sets).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_objective_in_a_users_own_graph():
    logits = torch.randn(64, 5, device="cuda", requires_grad=True)
    y = torch.randint(0, 5, (64,), device="cuda")
    for kind in objectives.OBJECTIVES.values():
        objective = kind(5).cuda()
        objective(logits, y).backward()
        logits.grad.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = objective(logits, y)
            (gradient,) = torch.autograd.grad(value, logits)
        graph.replay()
        expected = torch.autograd.grad(objective(logits, y), logits)[0]
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_runs_of_different_objectives_in_one_stack_are_the_runs_alone(optimizer):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 600)
    X = rng.integers(0, 256, (600, 20)).astype("uint8")
    y_bar = np.stack([complement(y, 5, random_state=s) for s in range(6)])
    kinds = [objectives.OBJECTIVES[name](5) for name in ("free", "max", "ascent", "forward", "pairwise")]
    kinds.append(objectives.Forward(5, transition=np.full((5, 5), 0.2) * 0.5 + np.eye(5) * 0.5))
    options = {"lr": 1e-3, "weight_decay": 1e-3, "optimizer": optimizer, "batch_size": 64, "device": "cuda"}
    split = {"max_epochs": 3, "rows": np.arange(500), "validation_rows": np.arange(500, 600), "test": (X, y)}
    together = Population(lambda: networks.mlp(20, 5, (32,)), kinds, seeds=range(6), **options).fit(X, y_bar, **split)
    for m, kind in enumerate(kinds):
        alone = Population(lambda: networks.mlp(20, 5, (32,)), kind, seeds=[m], **options).fit(X, y_bar[m], **split)
        np.testing.assert_allclose(together.history["loss"][:, m], alone.history["loss"][:, 0], rtol=0.02, atol=0.02)


def images(n=96):
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (n, 3, 16, 16)).astype("uint8"), rng.integers(0, 10, n)


@pytest.mark.parametrize("network", [lambda: networks.resnet34(10, width=8), lambda: networks.densenet(10, 16, 4)])
def test_convolutions_on_cuda_equal_the_cpu(network):
    X, y_bar = images()
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        out = []
        for device in ("cpu", "cuda"):
            runs = Population(
                network, objectives.Forward(10), seeds=[1], lr=1e-2, optimizer="sgd", batch_size=32, device=device
            )
            out.append(runs.fit(X, y_bar, max_epochs=2, rows=np.arange(64), validation_rows=np.arange(64, 96)))
    finally:
        torch.backends.cudnn.allow_tf32 = before
    for name, values in out[0].history.items():
        np.testing.assert_allclose(out[1].history[name], values, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("options", [{}, {"precision": "bfloat16"}, {"precision": "bfloat16", "compiled": True}])
def test_convolutions_learn_and_resume(options, tmp_path):
    X, y = images(64)
    y_bar = complement(y, 10, random_state=0)

    def make():
        return Population(
            lambda: networks.resnet34(10, width=8), objectives.Forward(10), seeds=[0], lr=0.05, optimizer="sgd",
            batch_size=32, device="cuda", augment=crop_and_flip, **options,
        )  # fmt: skip

    whole = make().fit(X, y_bar, max_epochs=12)
    assert whole.history["loss"][-1] < whole.history["loss"][0]
    make().fit(X, y_bar, max_epochs=5, checkpoint=tmp_path / "c")
    resumed = make().fit(X, y_bar, max_epochs=12, checkpoint=tmp_path / "c")
    np.testing.assert_allclose(resumed.history["loss"], whole.history["loss"], rtol=0.05, atol=0.02)
