"""On a GPU: the fused kernels and the captured step against their plain twins on the CPU. Run by `make test-cuda`."""

import numpy as np
import pytest
import torch

from naysayer import Population, complement, kernels, networks, objectives, risk
from naysayer.optimizers import StackedOptimizer

METHODS = {
    "free": objectives.Unbiased,
    "max": objectives.NonNegative,
    "ascent": lambda k: objectives.GradientAscent(k, beta=0.01, gamma=0.5),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1, 256, 10), (5, 100, 10), (3, 64, 200), (2, 37, 3)])
def test_fused_risk_equals_plain(method, shape):
    torch.manual_seed(0)
    logits = 3 * torch.randn(shape)
    y = torch.randint(0, shape[-1], shape[:-1])
    prior = torch.full((shape[0], shape[-1]), 1 / shape[-1])
    objective = METHODS[method](shape[-1])
    out = []
    for device in ("cpu", "cuda"):
        g = logits.detach().clone().to(device).requires_grad_()
        assert kernels.can_fuse(g, y.to(device), objective.loss, None) == (device == "cuda")
        value, scale = objective.to(device).measure(g, y.to(device), prior.to(device), 1.0)
        value.sum().backward()
        out.append((value.detach().cpu(), scale.cpu(), g.grad.cpu()))
    for plain, fused in zip(*out, strict=True):
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
    sets = risk.one_hot(y, 5)
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
