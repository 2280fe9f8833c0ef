"""The engine's seams, each by its smallest example: an objective, a recipe, a source, several processes, a backbone."""

from __future__ import annotations

import functools
import itertools
import sys

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import nn

from helpers import as_sets, assert_same_runs, fork, is_rows, of_all_workers, raises, random_transition, start_python
from naysayer import ComplementaryClassifier, Population, complement, networks, objectives
from naysayer.common.reduce import SumOver
from naysayer.engine import fused, population, recipe
from naysayer.engine.recipe import Recipe, Told, differentiate
from naysayer.engine.source import Batch, Resident, Source, resident

K = 4
PAPER = ["free", "max", "ascent", "forward", "pairwise"]
METHODS = [*PAPER, "scarce", "cpe-t"]  # one that counts labels in its own way, and one with a layer to train


def blobs(n=192, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return (rng.normal(size=(n, 6)) + 3 * np.eye(K, 6)[y]).astype("float32"), y, complement(y, K, random_state=seed)


def mixed_labels(y):
    """Sets, single labels, ordinary ones, and rows that say nothing."""
    labels = complement(y, K, n_labels=2, random_state=1)
    labels[::3] = as_sets(complement(y, K, random_state=2)[::3], K)
    labels[1::4] = is_rows(y[1::4], K)
    labels[::11] = False
    return labels


def mlp():
    return networks.mlp(6, K, hidden=(8,))


# ---- an objective -----------------------------------------------------------------------------------------------


class Cautious(objectives.Unbiased):
    """Corrects as no method of ours does: risks below zero pull half as hard."""

    def correct(self, risks):
        return torch.where(risks > 0, 1.0, 0.5), torch.ones_like(risks[..., 0])


class Squared(objectives.Forward):
    """A mean of losses of its own."""

    def example_losses(self, logits, y_bar):
        return super().example_losses(logits, y_bar).square()


@pytest.mark.parametrize("kind", [Cautious, Squared])
def test_a_method_in_the_table_is_trained_by_name(monkeypatch, kind):
    monkeypatch.setitem(objectives.OBJECTIVES, "mine", kind)
    X, y, y_bar = blobs()
    settings = {"lr": 0.01, "max_epochs": 15, "patience": 5, "n_seeds": 5, "random_state": 0}
    model = ComplementaryClassifier("mine", **settings).fit(X, y_bar)
    assert model.method_ == "mine"
    assert (model.predict(X) == y).mean() > 0.8


@pytest.mark.parametrize("kind", [Cautious, Squared])
@pytest.mark.parametrize("encode", [np.asarray, lambda y: as_sets(y, K)], ids=["single", "rows"])
def test_a_subclass_never_gets_its_parents_kernel(monkeypatch, kind, encode):
    """On any device: what is fused is found by the exact type, and the subclass's own formula is what trains."""
    used = []
    table = {type_: lambda *_, type_=type_: used.append(type_) for type_ in fused.FUSED}
    monkeypatch.setattr(fused, "FUSED", table)
    X, _, y_bar = blobs()
    for network in (mlp, lambda: networks.linear(6, K)):
        Population(network, kind(K), seeds=[0, 1]).fit(X, encode(y_bar), max_epochs=1)
    assert used == []
    parent = kind.__base__
    Population(mlp, parent(K), seeds=[0, 1]).fit(X, encode(y_bar), max_epochs=1)
    assert set(used) == {parent}  # the table is asked, where the type is the one it was written for


@pytest.mark.parametrize("kind", [Cautious, Squared])
def test_a_subclass_trains_as_a_plain_loop_over_it_does(kind):
    X, _, y_bar = blobs()
    runs = Population(mlp, kind(K), seeds=[3], lr=0.1, optimizer="sgd", momentum=0.0, batch_size=len(X))
    network = runs.network(0)
    runs.fit(X, y_bar, max_epochs=5)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    objective = kind(K)
    for _ in range(5):
        optimizer.zero_grad()
        objective(network(torch.tensor(X)), torch.tensor(y_bar)).backward()
        optimizer.step()
    torch.testing.assert_close(runs.logits(X, run=0), network(torch.tensor(X)).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("q", [None, random_transition(K)])
@pytest.mark.parametrize("encode", [np.asarray, lambda y: as_sets(y, K)], ids=["single", "rows"])
def test_what_is_written_down_is_what_is_traced(monkeypatch, name, q, encode):
    objective, plain = objectives.make(name, K, transition=q), Recipe()
    y = torch.as_tensor(encode(np.random.default_rng(0).integers(0, K, (3, 20))))
    scales = objective.scales(objective.count(y), torch.full((K,), 1 / K), 0.7)
    told = Told(y, scales, torch.full((3,), 1 / 20), None, torch.tensor(0))
    signs = set()
    for seed in range(4):  # among them some that ascend and some that do not
        logits = (0.01 + 2 * (seed % 2)) * torch.randn(1, 3, 20, K, generator=torch.Generator().manual_seed(seed))
        mine = differentiate(plain, objective, logits, told)
        written = fused.fused(objective, logits[0], y, scales)
        assert (written is not None) == (name in ("free", "max", "ascent"))  # on a CPU
        with monkeypatch.context() as patch:
            patch.setattr(recipe.base, "fused", lambda *_: None)
            traced = differentiate(plain, objective, logits, told)
        for a, b in zip(mine, traced, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
        signs |= set((objective.risks(logits[0], y, scales) < 0).any(dim=-1).tolist())
    assert signs == {True, False} or name in ("forward", "pairwise")


# ---- a recipe ---------------------------------------------------------------------------------------------------


class Agreement(Recipe):
    """Two noisy views, drawn to what an averaged teacher makes of the plain one: views, targets and state."""

    def __init__(self, weight=0.5, keep=0.9):
        super().__init__()
        self.weight, self.keep = weight, keep

    def begin(self, source, runs):
        return {f"teacher.{k}": p.detach().clone() for k, p in runs.parameters.items()}

    def views(self, source, batch, runs):
        (x,) = super().views(source, batch, runs)
        sign = torch.where(batch.rows % 2 == 0, 0.1, -0.1).unsqueeze(-1) * (1 + runs.epoch % 2)
        return x + sign, x - sign

    def targets(self, logits, views, batch, runs, kept):
        teacher = {k.removeprefix("teacher."): p for k, p in kept.items()}
        return runs.logits(teacher, runs.buffers, (views[0] + views[1]) / 2).softmax(dim=-1)

    def risks(self, objective, logits, told):
        own = sum(objective.risks(view, told.labels, told.scales) for view in logits) / len(logits)
        each = -(told.targets * logits.log_softmax(dim=-1)).sum(dim=-1)  # (V, C, B)
        agree = (told.share * each.mean(dim=0)).sum(dim=-1)  # a sum over examples, wherever they are
        return torch.cat([own, self.weight * agree.unsqueeze(-1)], dim=-1)

    def correct(self, objective, risks):
        coefficients, scale = objective.correct(risks[..., :-1])
        return torch.cat([coefficients, torch.ones_like(risks[..., -1:])], dim=-1), scale

    def after(self, runs, kept):
        for name, teacher in kept.items():
            teacher.lerp_(runs.parameters[name.removeprefix("teacher.")], 1 - self.keep)

    def judged(self, runs, kept):
        return {k.removeprefix("teacher."): p for k, p in kept.items()}, runs.buffers


def agreement_by_hand(network, x, y_bar, objective, epochs, lr, weight=0.5, keep=0.9):
    """The same, as a plain loop; the whole data is the batch."""
    teacher = {k: p.detach().clone() for k, p in network.named_parameters()}
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    for epoch in range(epochs):
        sign = torch.where(torch.arange(len(x)) % 2 == 0, 0.1, -0.1).unsqueeze(-1) * (1 + epoch % 2)
        with torch.no_grad():
            target = torch.func.functional_call(network, teacher, (x,)).softmax(dim=-1)
        logits = [network(x + sign), network(x - sign)]
        agree = sum(-(target * g.log_softmax(dim=-1)).sum(dim=-1).mean() for g in logits) / 2
        optimizer.zero_grad()
        (sum(objective(g, y_bar) for g in logits) / 2 + weight * agree).backward()
        optimizer.step()
        with torch.no_grad():
            for name, p in network.named_parameters():
                teacher[name].lerp_(p, 1 - keep)
    return torch.func.functional_call(network, teacher, (x,)).detach()


@pytest.mark.parametrize("network", [mlp, lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, K))])
def test_a_recipe_is_what_a_plain_loop_makes_of_it(network):
    X, _, y_bar = blobs()
    x, y = torch.tensor(X), torch.tensor(y_bar)
    options = {"lr": 0.2, "optimizer": "sgd", "momentum": 0.0, "batch_size": len(X), "recipe": Agreement()}
    runs = Population(network, objectives.Forward(K), seeds=[3, 4], **options)
    alone = [runs.network(m) for m in range(2)]
    runs.fit(X, y_bar, max_epochs=6)
    for m in range(2):
        by_hand = agreement_by_hand(alone[m], x, y, objectives.Forward(K), epochs=6, lr=0.2)
        torch.testing.assert_close(runs.logits(X, run=m), by_hand, rtol=1e-3, atol=1e-4)


def test_what_a_teacher_predicts_leaves_the_students_batch_norm_alone():
    """Its logits are as it predicts, and what is kept has no history that would grow with every step."""

    class Watching(Agreement):
        def targets(self, logits, views, batch, runs, kept):
            before = {k: b.clone() for k, b in runs.buffers.items()}
            found = super().targets(logits, views, batch, runs, kept)
            assert all(torch.equal(b, before[k]) for k, b in runs.buffers.items())
            assert torch.equal(found, super().targets(logits, views, batch, runs, kept))  # no dropout
            return found

        def after(self, runs, kept):
            super().after(runs, kept)
            assert not any(t.requires_grad for t in kept.values())

    X, _, y_bar = blobs()
    norm = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, K))  # noqa: E731
    tanh = lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, K))  # noqa: E731
    for network in (norm, tanh):
        Population(network, objectives.Forward(K), seeds=[0, 1], recipe=Watching()).fit(X, y_bar, max_epochs=2)


def test_a_recipe_resumes_with_its_state(tmp_path):
    X, y, y_bar = blobs()

    def make():
        return Population(mlp, objectives.GradientAscent(K), seeds=[0, 1], lr=0.01, batch_size=50, recipe=Agreement())

    how = {"validation_rows": np.arange(40), "test": (X, y)}
    whole = make().fit(X, y_bar, max_epochs=6, **how)
    make().fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "c", **how)
    assert_same_runs(make().fit(X, y_bar, max_epochs=6, checkpoint=tmp_path / "c", **how), whole)


def test_a_recipe_is_found_by_name_and_others_are_refused(monkeypatch):
    monkeypatch.setitem(recipe.RECIPES, "agreement", Agreement)
    assert type(Population(mlp, objectives.Forward(K), recipe="agreement").recipe) is Agreement
    with raises("one of plain, consistency, progressive, agreement; got 'disagreement' (did you mean 'agreement'?)"):
        Population(mlp, objectives.Forward(K), recipe="disagreement")
    with raises("`augment` must go to the recipe itself where `recipe` is one, not beside it"):
        Population(mlp, objectives.Forward(K), recipe=Agreement(), augment=lambda x, codes: x)
    X, _, y_bar = blobs()
    with raises("`augment` must keep the shape of what it is given, (192, 6); it gave (96, 6)"):
        Population(mlp, objectives.Forward(K), augment=lambda x, codes: x[::2]).fit(X, y_bar, max_epochs=1)


# ---- a source -----------------------------------------------------------------------------------------------------


class Stream(Source):
    """Batches made one at a time, in the order that a resident source would deal them; no array of all examples."""

    def __init__(self, X, y_bar, batch_size):
        self.n_classes, self.asked = K, 0
        self._inner = resident(X, y_bar, K, 2, None, None, None)
        self._inner.prepare([0, 1], batch_size, torch.device("cpu"))

    def batches(self, epoch, runs):
        for batch in self._inner.batches(epoch, runs):
            for rows, labels in zip(batch.rows, batch.labels):
                self.asked += 1
                inputs = self._inner.inputs(Batch(rows, labels))
                yield Batch(rows[None], labels[None], inputs[None])

    def digest(self):
        return self._inner.digest()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("labels", ["single", "mixed"])
def test_a_generator_trains_as_arrays_do(name, labels, tmp_path):
    X, y, y_bar = blobs()
    y_bar = mixed_labels(y) if labels == "mixed" else y_bar
    options = {"seeds": [0, 1], "lr": [0.01, 0.03], "batch_size": 50}
    whole = Population(mlp, objectives.make(name, K), **options).fit(X, y_bar, max_epochs=4)
    source = Stream(X, y_bar, 50)
    streamed = Population(mlp, objectives.make(name, K), **options).fit(source, max_epochs=4)
    assert_same_runs(streamed, whole, 1e-6)
    assert source.asked >= 4 * 4
    Population(mlp, objectives.make(name, K), **options).fit(source, max_epochs=2, checkpoint=tmp_path / "c")
    resumed = Population(mlp, objectives.make(name, K), **options).fit(source, max_epochs=4, checkpoint=tmp_path / "c")
    assert_same_runs(resumed, whole, 1e-6)


def test_a_source_must_deal_and_be_known_again(tmp_path):
    X, _, y_bar = blobs()

    class Silent(Source):
        n_classes = K

    class Nameless(Stream):
        digest = Source.digest

    population = Population(mlp, objectives.Forward(K), seeds=[0, 1])
    with raises("Silent must have a method batches(epoch, runs)", NotImplementedError):
        population.fit(Silent(), max_epochs=1)
    with raises("to resume from a checkpoint, Nameless must have a digest() of its data"):
        population.fit(Nameless(X, y_bar, 50), max_epochs=1, checkpoint=tmp_path / "c")
    with raises(
        "`y_bar`, `rows`, `validation_rows`, `test` and `sample_weight` must be None where `X` is a source of them"
    ):
        population.fit(Stream(X, y_bar, 50), y_bar, max_epochs=1)

    class Empty(Stream):
        def batches(self, epoch, runs):
            return iter(())

    with raises("Empty must deal at least one batch per epoch; it dealt none"):
        population.fit(Empty(X, y_bar, 50), max_epochs=1)
    other = Stream(X, y_bar, 50)
    other.n_classes = 7
    with raises("`X` must deal labels of 4 classes; got 7"):
        population.fit(other, max_epochs=1)


def test_a_stream_is_read_once_per_epoch_and_may_give_bytes():
    X, y, y_bar = blobs()
    bytes_ = np.clip(20 * X + 100, 0, 255).astype("uint8")

    class Bytes(Stream):
        def batches(self, epoch, runs):
            for batch in super().batches(epoch, runs):
                raw = torch.stack([self._inner.raw_inputs(Batch(rows, rows)) for rows in batch.rows])
                yield batch._replace(inputs=raw)

        def held_out(self, runs, size):
            yield torch.tensor(bytes_[:50]).expand(2, -1, -1), torch.tensor(y_bar[:50]).expand(2, -1)

        def test(self, size):
            yield torch.tensor(bytes_[None]), torch.tensor(y)

    source = Bytes(bytes_, y_bar, 50)
    options = {"seeds": [0, 1], "lr": 0.01, "batch_size": 50}
    streamed = Population(mlp, objectives.Forward(K), **options).fit(source, max_epochs=3, class_risks=True)
    assert source.asked == 4 * (1 + 1 + 3 + 3) - 3  # a look at the first batch, a count, 3 epochs, their class risks
    how = {"validation_rows": np.arange(50), "test": (bytes_, y), "class_risks": True}
    assert_same_runs(
        streamed, Population(mlp, objectives.Forward(K), **options).fit(bytes_, y_bar, max_epochs=3, **how), 1e-6
    )


def test_a_resident_source_serves_another_number_of_runs():
    X, _, y_bar = blobs()
    source = resident(X, y_bar, K, 3, np.arange(100), np.arange(100, 150), None)
    for seeds in ([0, 1, 2], [0, 1]):
        Population(mlp, objectives.Forward(K), seeds=seeds).fit(source, max_epochs=1)
    numbers = Resident(X, np.eye(K, dtype=int)[y_bar], K)
    with raises("`y_bar` with one row per run must have 1 rows; got shape (192, 4)"):
        Population(mlp, objectives.Forward(K)).fit(numbers, max_epochs=1)


# ---- weights of examples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("labels", ["single", "mixed", "one row per run"])
def test_a_row_of_weight_m_trains_and_validates_as_m_rows(name, labels):
    X, y, y_bar = blobs()
    y_bar = {"single": y_bar, "mixed": mixed_labels(y), "one row per run": np.stack([y_bar, (y + 1) % K])}[labels]
    times = np.random.default_rng(0).integers(0, 4, size=len(y))
    rows = np.stack([np.arange(140), np.arange(52, 192)])
    held_out = np.stack([np.setdiff1d(np.arange(192), some) for some in rows])
    options = {"lr": 0.02, "batch_size": 1000, "optimizer": "sgd", "device": "cpu"}  # all rows in one batch
    how = {"max_epochs": 4, "class_risks": True}
    both = Population(mlp, objectives.make(name, K), seeds=[0, 1], **options)
    both.fit(X, y_bar, sample_weight=times, rows=rows, validation_rows=held_out, **how)
    for m in range(2):
        own = y_bar[m] if labels == "one row per run" else y_bar
        repeated = {"rows": np.repeat(rows[m], times[rows[m]])}
        repeated |= {"validation_rows": np.repeat(held_out[m], times[held_out[m]])}
        alone = Population(mlp, objectives.make(name, K), seeds=[m], **options).fit(X, own, **repeated, **how)
        assert_same_runs(both, alone, 5e-5, runs=[m])
    plain = Population(mlp, objectives.make(name, K), seeds=[0, 1], **options)
    with pytest.raises(AssertionError):
        assert_same_runs(plain.fit(X, y_bar, rows=rows, validation_rows=held_out, **how), both, 1e-3)


class Weighted(Stream):
    """A stream whose batches have weights."""

    def batches(self, epoch, runs):
        for batch in super().batches(epoch, runs):
            yield batch._replace(weights=self._inner.weights[batch.rows])


@pytest.mark.parametrize("name", METHODS)
def test_weights_of_a_stream_are_those_of_arrays(name):
    X, _, y_bar = blobs()
    weights = np.random.default_rng(0).random(192)
    options = {"seeds": [0, 1], "lr": [0.01, 0.03], "batch_size": 48}
    whole = Population(mlp, objectives.make(name, K), **options)
    whole.fit(X, y_bar, sample_weight=weights, max_epochs=3, class_risks=True)
    source = Weighted(X, y_bar, 48)
    source._inner.weights = torch.tensor(weights, dtype=torch.float32)
    streamed = Population(mlp, objectives.make(name, K), **options).fit(source, max_epochs=3, class_risks=True)
    assert_same_runs(streamed, whole, 1e-5)
    ones, none = (
        Population(mlp, objectives.make(name, K), **options).fit(X, y_bar, sample_weight=w, max_epochs=3)
        for w in (np.ones(192), None)
    )
    assert_same_runs(ones, none, 1e-5)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(3), "`sample_weight` must hold 192 numbers, one per row of `y_bar`; got shape (3,)"),
        (np.full(192, -1.0), "`sample_weight` must be finite and not negative; got -1.0 at row 0"),
        (np.zeros(192), "`sample_weight` must be above 0 in at least one row; got only zeros"),
    ],
)
def test_weights_refused(weights, words):
    X, _, y_bar = blobs()
    with raises(words):
        Population(mlp, objectives.Forward(K)).fit(X, y_bar, sample_weight=weights)


def test_a_checkpoint_of_other_weights_is_refused(tmp_path):
    X, _, y_bar = blobs()
    weights = np.random.default_rng(0).random(192)
    make = functools.partial(Population, mlp, objectives.Forward(K))
    make().fit(X, y_bar, sample_weight=weights, max_epochs=1, checkpoint=tmp_path / "c")
    make().fit(X, y_bar, sample_weight=weights, max_epochs=2, checkpoint=tmp_path / "c")
    for other in (None, weights[::-1]):
        with raises("is of other data or settings"):
            make().fit(X, y_bar, sample_weight=other, max_epochs=2, checkpoint=tmp_path / "c")


# ---- several processes -------------------------------------------------------------------------------------------

SPREAD = [
    *itertools.product(PAPER, ("single", "mixed"), (False, True)),
    *itertools.product(["scarce"], ("single", "mixed"), [False]),
    ("cpe-t", "mixed", True),
]
NAIVE = ("naive ascent", "single", False)
RECIPE = ("recipe forward", "mixed", False)
EPOCHS = 3


class Part(Source):
    """One process's part of every batch of a resident source; the parts are uneven."""

    def __init__(self, X, y_bar, rank, world):
        self.n_classes, self.rank, self.world = K, rank, world
        self._inner = resident(X, y_bar, K, 2, None, np.arange(60), None)
        self._inner.prepare([0, 1], 48, torch.device("cpu"))

    def batches(self, epoch, runs):
        for batch in self._inner.batches(epoch, runs):
            ends = np.linspace(0, 1, self.world + 1) ** 1.5 * batch.rows.shape[2]
            mine = slice(int(ends[self.rank]), int(ends[self.rank + 1]))
            rows, labels = batch.rows[:, :, mine].contiguous(), batch.labels[:, :, mine].contiguous()
            yield Batch(rows, labels, torch.stack([self._inner.inputs(Batch(r, r)) for r in rows]))

    def held_out(self, runs, size):
        for x, labels in self._inner.held_out(runs, size):
            yield x[:, self.rank :: self.world], labels[:, self.rank :: self.world]


def spread_out(rank, world, folder):
    """What each process does: train every method on its part."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    found = {}
    torch.set_num_threads(2)
    population._STACK_ON_CPU = 1  # a chunk per run: their sums must not mix
    for name, labels, known in [*SPREAD, NAIVE, RECIPE]:
        reduce = alone_but_averaging() if name.startswith("naive") else SumOver()
        runs = spread_population(name, known, reduce).fit(Part(*spread_data(labels), rank, world), max_epochs=EPOCHS)
        found[f"{name} {labels} {known}"] = {"logits": runs.logits(blobs()[0]), "history": runs.history}
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def alone_but_averaging():
    """What plain data parallelism does: gradients are averaged, but each process corrects its own risks."""
    whole = SumOver()
    n_parameters = sum(p.numel() for p in mlp().parameters())
    return lambda t: whole(t) / torch.distributed.get_world_size() if t.numel() >= n_parameters else t


def spread_data(labels):
    X, y, y_bar = blobs()
    return X, mixed_labels(y) if labels == "mixed" else y_bar


def spread_population(name, known, reduce=None):
    q = random_transition(K) if known else None
    how, _, method = name.rpartition(" ")
    objective = objectives.make(method, K, transition=q)
    options = {"lr": 0.05, "optimizer": "sgd", "batch_size": 48, "reduce": reduce, "device": "cpu"}
    options |= {"recipe": Agreement() if how == "recipe" else "plain"}
    return Population(mlp, objective, seeds=[0, 1], **options)


@pytest.fixture(scope="module")
def spread_runs(tmp_path_factory):
    """What two processes made of every method, and of gradient ascent with plain averages of gradients.

    They take seconds to start, so the workers of a run share what was made.
    """
    folder = of_all_workers(tmp_path_factory) / "processes"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            job = start_python(__file__, folder)
            _, errors = job.communicate(timeout=500)
            assert job.returncode == 0, errors
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize(("name", "labels", "known"), [*SPREAD, RECIPE])
def test_two_processes_are_one(spread_runs, name, labels, known):
    X, y_bar = spread_data(labels)
    one = spread_population(name, known).fit(X, y_bar, max_epochs=EPOCHS, validation_rows=np.arange(60))
    for mine in spread_runs:
        found = mine[f"{name} {labels} {known}"]
        torch.testing.assert_close(found["logits"], one.logits(X), rtol=1e-4, atol=1e-5)
        assert found["history"].keys() == one.history.keys()
        for key, values in one.history.items():
            np.testing.assert_allclose(found["history"][key], values, rtol=1e-4, atol=1e-5, err_msg=key)


def test_averaged_gradients_alone_are_not(spread_runs):
    """So that the comparison can fail: under plain data parallelism gradient ascent is another method."""
    one = spread_population("ascent", False).fit(*spread_data("single"), max_epochs=EPOCHS)
    found = spread_runs[0]["naive ascent single False"]
    assert (found["logits"] - one.logits(blobs()[0])).abs().max() > 0.01


def test_a_step_has_one_sum_for_the_risks_and_one_for_the_gradients():
    """Labels are counted for many steps at once, and scores come once per epoch."""
    sums = []

    def counted(tensor):
        sums.append(tuple(tensor.shape))
        return tensor

    X, y_bar = spread_data("single")
    spread_population("ascent", False, counted).fit(X, y_bar, max_epochs=3, validation_rows=np.arange(60))
    n_steps, gradients = 3 * -(-len(X) // 48), 2 * sum(p.numel() for p in mlp().parameters())
    assert n_steps > 10
    assert sums.count((2, K)) == sums.count((gradients,)) == n_steps  # of two runs
    assert len(sums) == 2 * n_steps + 3 * 3 + 1  # per epoch labels and two kinds of scores; shares before the first


@pytest.mark.parametrize("given", [{"checkpoint": "c"}, {"until": 0.0}])
def test_what_only_torchrun_lets_processes_agree_on_is_refused(given):
    X, y_bar = spread_data("single")
    (name,) = given
    with raises(
        f"`{name}` must be None where `reduce`, or an objective's `group`, sums over processes that do not agree on "
        "the epoch; leave these out, and start all processes by torchrun"
    ):
        spread_population("ascent", False, lambda t: t).fit(X, y_bar, max_epochs=2, **given)


def test_a_sum_over_one_process_may_stop_and_resume(tmp_path):
    class OverOne:
        size = 1

        def __call__(self, tensor):
            return tensor

    X, y_bar = spread_data("single")
    runs = spread_population("ascent", False, OverOne()).fit(X, y_bar, checkpoint=tmp_path / "c", until=-np.inf)
    assert len(runs.history["loss"]) == 1


def test_a_sum_needs_processes():
    with raises("a process group must be initialised first: torch.distributed.init_process_group('gloo')"):
        SumOver()


# ---- a backbone ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [True, False])
def test_a_classifier_starts_from_a_backbone(frozen):
    X, y, y_bar = blobs()
    backbone = nn.Sequential(nn.Linear(6, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU())
    nn.init.eye_(backbone[0].weight)
    backbone.requires_grad_(not frozen)
    head = nn.Linear(6, K)
    nn.init.zeros_(head.weight)
    network = nn.Sequential(backbone, head)
    model = ComplementaryClassifier("forward", network, lr=0.02, max_epochs=25, n_seeds=2, random_state=0)
    model.fit(X, y_bar)
    assert (model.predict(X) == y).mean() > 0.8
    (member,) = model.members_
    learned = {**member.parameters, **member.buffers}["0.0.weight"]
    assert torch.equal(learned, backbone[0].weight.detach().expand_as(learned)) == frozen


if __name__ == "__main__":
    fork(2, lambda rank: spread_out(rank, 2, sys.argv[1]))
