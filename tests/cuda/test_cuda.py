"""On a GPU: the fused kernels and the captured step against their plain twins on the CPU. Run by `make test-cuda`."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from naysayer import Population, complement, networks, objectives
from naysayer.engine import fused, kernels, recipe
from naysayer.engine.augment import crop_and_flip
from naysayer.engine.bound import BoundNetwork
from naysayer.engine.optimizers import StackedOptimizer
from naysayer.engine.recipe import Recipe, Told, altered, differentiate
from naysayer.engine.source import Batch, Source, resident
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
def test_fused_risk_equals_plain(method, shape, uniform, monkeypatch):
    torch.manual_seed(0)
    logits = 3 * torch.randn(1, *shape)
    y = torch.randint(0, shape[-1], shape[:-1])
    objective = METHODS[method](shape[-1])
    if not uniform:
        q = torch.rand(shape[-1], shape[-1]).numpy() + 3 * np.eye(shape[-1])[::-1]
        q *= np.random.default_rng(0).random(q.shape) < 0.9  # some labels are impossible
        objective = type(objective)(shape[-1], transition=q / q.sum(axis=1, keepdims=True))
    scales = objective.scales(objective.count(y), torch.full((shape[-1],), 1 / shape[-1]), 1.0)
    fused_result = fused.fused(objective.cuda(), logits[0].cuda(), y.cuda(), scales.cuda())
    assert (fused_result is None) == (method == "pairwise" and not uniform)
    told = Told(y, scales, torch.full(shape[:1], 1 / shape[1]), None, torch.tensor(0))
    found = differentiate(Recipe(), objective, logits.cuda(), Told(*(None if t is None else t.cuda() for t in told)))
    monkeypatch.setattr(recipe.base, "fused", lambda *_: None)
    plain = differentiate(Recipe(), objective.cpu(), logits, told)
    for a, b in zip(found, plain, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=2e-4, atol=2e-6)


class Cautious(objectives.GradientAscent):
    """Overrides the correction, as CONTRIBUTING tells how to."""

    def correct(self, risks):
        return torch.where(risks > 0, 1.0, 0.5), torch.ones_like(risks[..., 0])


class Squared(objectives.Forward):
    """Overrides the losses."""

    def example_losses(self, logits, y_bar):
        return super().example_losses(logits, y_bar).square()


@pytest.mark.parametrize("kind", [Cautious, Squared])
def test_a_subclass_trains_by_its_own_formula(kind):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    X = (rng.normal(size=(300, 20)) + 2 * np.eye(5, 20)[y]).astype("float32")
    y_bar = complement(y, 5, random_state=0)
    out = {}
    for device, objective in (("cpu", kind(5)), ("cuda", kind(5)), ("parent", kind.__base__(5))):
        place = "cuda" if device == "parent" else device
        runs = Population(
            lambda: networks.mlp(20, 5, (32,)), objective, seeds=[0], lr=1e-2, batch_size=64, device=place
        )
        out[device] = runs.fit(X, y_bar, max_epochs=5).history["loss"]
    np.testing.assert_allclose(out["cuda"], out["cpu"], rtol=0.02, atol=0.01)
    assert np.abs(out["parent"] - out["cpu"]).max() > 0.05


@pytest.mark.parametrize(
    "shape", [(1, 256, 784, 500, 10), (120, 256, 50, 500, 10), (3, 37, 20, 33, 3), (2, 64, 8, 16, 64)]
)
def test_the_mlps_pass_is_what_autograd_makes_of_it(shape):
    n_runs, n_rows, n_inputs, width, n_classes = shape
    torch.manual_seed(0)
    modules = [networks.mlp(n_inputs, n_classes, (width,)) for _ in range(n_runs)]
    parameters = {k: torch.stack([dict(m.named_parameters())[k] for m in modules]).detach().cuda()
                  for k, _ in modules[0].named_parameters()}  # fmt: skip
    x, d = torch.rand(n_runs, n_rows, n_inputs).cuda(), torch.randn(n_runs, n_rows, n_classes).cuda()
    written = BoundNetwork(modules[0].cuda(), parameters, {}, x[0, :1])
    assert written._written is not None
    logits, gradients = written.run(x)
    found = [logits.clone(), *gradients(d)]
    written._written = None
    traced, pull = written.run(x)
    for a, b in zip(found, [traced, *pull(d)], strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-3 * float(b.abs().max()))


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd", "nesterov"])
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
    for plain, kernel in zip(*out, strict=True):
        torch.testing.assert_close(kernel, plain, rtol=1e-4, atol=1e-5)


def test_gathered_images():
    images = torch.randint(0, 256, (50, 1500), dtype=torch.uint8)
    rows = torch.randint(0, 50, (3, 7))
    fused = kernels.gather_images(images.cuda(), rows.cuda()).cpu()
    torch.testing.assert_close(fused, images[rows] / 255)


@pytest.mark.parametrize("method", objectives.OBJECTIVES)
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


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="a second CUDA device is needed")
@pytest.mark.parametrize("network", [lambda: networks.mlp(20, 5, (32,)), lambda: torch.nn.Linear(20, 5)])
@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_the_second_device_trains_as_the_first(network, kind):
    """On a machine with several devices, without torchrun: kernels, captures and streams are those of `device`.

    The first device is the current one all the time. It trains first, so that what torch makes once and keeps, such as
    the stream that it captures on, is of the first device when the second one comes to it.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 600)
    X = np.clip(128 + 20 * (rng.normal(size=(600, 20)) + 2 * np.eye(5, 20)[y]), 0, 255).astype("uint8")
    X = X if kind == "uint8" else (X / 255).astype("float32")
    y_bar = complement(y, 5, random_state=0)
    out = []
    for device in ("cuda:0", "cuda:1"):
        runs = Population(network, objectives.GradientAscent(5), seeds=[0, 1], lr=1e-2, batch_size=64, device=device)
        before = {name: p.clone() for name, p in runs.parameters.items()}
        runs.fit(X, y_bar, max_epochs=3, rows=np.arange(500), validation_rows=np.arange(500, 600), test=(X, y))
        assert {p.device for p in runs.parameters.values()} == {torch.device(device)}
        assert all((p != before[name]).any() for name, p in runs.parameters.items())  # graphs were replayed, not empty
        assert torch.cuda.current_device() == 0
        out.append((runs.history, runs.logits(X)))
    for name, values in out[0][0].items():
        np.testing.assert_allclose(out[1][0][name], values, rtol=0.02, atol=0.02, err_msg=name)
    torch.testing.assert_close(out[1][1], out[0][1], rtol=0.05, atol=0.05)


def test_user_module_is_captured_and_dropout_varies():
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 3))
    y = np.arange(300) % 3
    X = np.eye(3, 4, dtype="float32")[y]
    runs = Population(lambda: module, objectives.Forward(3), seeds=[0, 1], lr=0.05, device="cuda")
    runs.fit(X, complement(y, 3, random_state=0), max_epochs=40)
    assert (runs.logits(X).argmax(-1).numpy() == y).mean() > 0.95


def test_dropout_resumes_as_if_it_had_never_stopped(tmp_path):
    """What a capture's warm-up draws must not count, for a resumed training captures again."""
    y = np.arange(300) % 3
    X, y_bar = np.eye(3, 4, dtype="float32")[y], complement(y, 3, random_state=0)

    def make():
        network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 3))
        return Population(network, objectives.Forward(3), seeds=[0, 1], lr=0.05, device="cuda")

    whole = make().fit(X, y_bar, max_epochs=4)
    make().fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "c")
    resumed = make().fit(X, y_bar, max_epochs=4, checkpoint=tmp_path / "c")
    np.testing.assert_allclose(resumed.history["loss"], whole.history["loss"], rtol=1e-3)


class Beside(Recipe):
    """Another thread uses the device meanwhile, as the one does that reads a stream ahead and looks at its photos."""

    def views(self, source, batch, runs):
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(lambda: float(torch.ones(1 << 22, device="cuda").sum())).result() == 1 << 22
        return super().views(source, batch, runs)


def test_another_thread_may_use_the_device_while_steps_are_captured():
    y = np.arange(300) % 3
    X, y_bar = np.eye(3, 4, dtype="float32")[y], complement(y, 3, random_state=0)
    out = []
    for kind in (Recipe, Beside):
        runs = Population(lambda: networks.mlp(4, 3, (8,)), objectives.Forward(3), recipe=kind(), device="cuda")
        out.append(runs.fit(X, y_bar, max_epochs=2).history["loss"])
    np.testing.assert_allclose(out[1], out[0], rtol=0.02, atol=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_whose_numbers_are_lost_fails(method):
    y = np.arange(300) % 3
    X = np.eye(3, 4, dtype="float32")[y]
    X[0, 0] = np.nan
    runs = Population(lambda: networks.mlp(4, 3, (8,)), METHODS[method](3), seeds=[0, 1], device="cuda")
    assert runs.fit(X, complement(y, 3, random_state=0), max_epochs=2).failed.keys() == {0, 1}


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


class Twice(Recipe):
    """Two views, as bytes altered on the device, and an averaged network that is judged."""

    def begin(self, source, runs):
        return {k: p.detach().clone() for k, p in runs.parameters.items()}

    def views(self, source, batch, runs):
        return [altered(self.augment, source.raw_inputs(batch), batch.rows + 1000 * view) for view in range(2)]

    def risks(self, objective, logits, told):
        return sum(objective.risks(view, told.labels, told.scales) for view in logits) / 2

    def after(self, runs, kept):
        for name, mean in kept.items():
            mean.lerp_(runs.parameters[name], 0.1)

    def judged(self, runs, kept):
        return kept, runs.buffers


@pytest.mark.parametrize("network", [lambda: networks.mlp(768, 10, (16,)), lambda: networks.resnet34(10, width=4)])
def test_a_recipe_of_views_and_state_is_captured_and_equals_the_cpu(network):
    X, y_bar = images()
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        out = []
        for device in ("cpu", "cuda"):
            options = {"optimizer": "sgd", "batch_size": 32, "device": device, "recipe": Twice(crop_and_flip)}
            runs = Population(network, objectives.GradientAscent(10), seeds=[1], lr=1e-2, **options)
            out.append(runs.fit(X, y_bar, max_epochs=2, rows=np.arange(64), validation_rows=np.arange(64, 96)))
    finally:
        torch.backends.cudnn.allow_tf32 = before
    for name, values in out[0].history.items():
        np.testing.assert_allclose(out[1].history[name], values, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("n_sizes", [2, 11])  # of batches; more than there are graphs kept of
def test_a_streamed_source_equals_a_resident_one(n_sizes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 600)
    X = (rng.normal(size=(600, 20)) + 2 * np.eye(5, 20)[y]).astype("float32")
    y_bar = complement(y, 5, random_state=0)

    class Stream(Source):
        n_classes = 5

        def prepare(self, seeds, batch_size, device):
            super().prepare(seeds, batch_size, device)
            self.inner = resident(X, y_bar, 5, 2, None, None, None)
            self.inner.prepare(seeds, batch_size, device)

        def batches(self, epoch, runs):
            for batch in self.inner.batches(epoch, runs):
                for step, (rows, labels) in enumerate(zip(batch.rows, batch.labels)):
                    end = 60 - 4 * ((step + epoch) % n_sizes)  # other shapes are captured anew
                    rows, labels = rows[:, :end].contiguous(), labels[:, :end].contiguous()
                    yield Batch(rows[None], labels[None], self.inner.inputs(Batch(rows, labels))[None])

    options = {"seeds": [0, 1], "lr": 0.01, "batch_size": 60}
    out = []
    for device in ("cpu", "cuda"):
        runs = Population(lambda: networks.mlp(20, 5, (32,)), objectives.Forward(5), device=device, **options)
        out.append(runs.fit(Stream(), max_epochs=4).history["loss"])
    np.testing.assert_allclose(out[1], out[0], rtol=0.02, atol=0.01)
