"""The recipe of consistent views: its risks by hand, its views, its averaged weights, and what it learns."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
import torch.multiprocessing
from sklearn.datasets import load_digits

from helpers import assert_same_runs, raises
from naysayer import Population, complement, networks, objectives
from naysayer.common.reduce import SumOver
from naysayer.engine.augment import crop_and_flip, distort, perturb
from naysayer.engine.recipe import Consistency, Recipe, Told, altered
from naysayer.engine.source import Batch, Resident, Source, resident
from naysayer.objectives.likelihood import Likelihood

K = 4
KINDS = {  # a row of labels that rule out classes, and what each class makes of it: P(label | class) up to a constant
    "one label": ([1, 0, 0, 0], [0, 1, 1, 1]),
    "a set": ([1, 0, 1, 0], [0, 1, 0, 1]),
    "an ordinary label": ([1, 1, 0, 1], [0, 0, 1, 0]),
    "no label": ([0, 0, 0, 0], [1, 1, 1, 1]),
}
Q = np.array([[0, 0.5, 0.5, 0], [0.2, 0, 0.3, 0.5], [0.4, 0.3, 0, 0.3], [0.1, 0.1, 0.8, 0]])  # zeros off its diagonal


def blobs(n=96, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    return (rng.normal(size=(n, 6)) + 2 * np.eye(K, 6)[y]).astype("float32"), y, complement(y, K, random_state=seed)


def pictures(n=48, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 1, 8, 8), dtype=np.uint8), complement(np.arange(n) % K, K, random_state=seed)


def mlp():
    return networks.mlp(6, K, hidden=(8,))


def resnet():
    return networks.resnet8(K, width=4, channels=1)


def population(network=mlp, objective=None, **options):
    defaults = {"lr": 0.01, "batch_size": 32, "device": "cpu", "recipe": Consistency(rise=2)}
    return Population(network, objective or objectives.Forward(K), **(defaults | options))


# ---- its risks ----------------------------------------------------------------------------------------------------


def agreement(recipe, logits, labels, epoch, objective=None, share=None):
    """What the recipe makes of some views' logits, (V, B, K), and labels, (B, K): the objective's risks and its own."""
    objective = objective or objectives.Forward(K)
    logits, labels = torch.tensor(logits).unsqueeze(1), torch.tensor(labels, dtype=torch.bool).unsqueeze(0)
    counts = objective.count(labels)
    scales = objective.scales(counts, torch.full((1, K), 1 / K), 1.0)
    share = torch.full((1, labels.shape[1]), 1 / labels.shape[1]) if share is None else torch.tensor(share)[None]
    risks = recipe.risks(objective, logits, Told(labels, scales, share, None, torch.tensor(epoch)))[0]
    own = torch.stack([objective.risks(g, labels, scales)[0] for g in logits]).mean(dim=0)
    torch.testing.assert_close(risks[:-1], own)
    return float(risks[-1])


def agreement_by_hand(logits, likelihood, share):
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    total = 0.0
    for i, likely in enumerate(likelihood):
        target = np.prod(p[:, i], axis=0) ** (1 / len(p)) * likely
        target = target / target.sum()
        total += share[i] * np.mean([-(target * np.log(view[i])).sum() for view in p])
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_is_the_geometric_mean_where_the_label_allows(float64, kind):
    row, likely = KINDS[kind]
    logits = np.random.default_rng(1).normal(size=(3, 2, K)) * 2
    other = KINDS["one label"]
    expected = agreement_by_hand(logits, [likely, other[1]], [0.5, 0.5])
    assert agreement(Consistency(rise=1), logits, [row, other[0]], 5) == pytest.approx(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_known_matrix_tells_how_likely_each_class_makes_the_label(float64, kind):
    row, likely = KINDS[kind]
    if kind in ("one label", "a set"):
        likely = np.prod(Q[:, np.flatnonzero(row)], axis=1)
    if not np.any(likely):  # what no class can have said tells nothing
        likely = np.ones(K)
    logits = np.random.default_rng(2).normal(size=(2, 1, K))
    objective = objectives.Forward(K, transition=Q)
    expected = agreement_by_hand(logits, [likely], [1.0])
    assert agreement(Consistency(rise=1), logits, [row], 5, objective) == pytest.approx(expected)


def test_agreement_rises_in_a_line_to_its_weight(float64):
    logits, rows = np.random.default_rng(3).normal(size=(2, 1, K)), [KINDS["a set"][0]]
    full = agreement(Consistency(rise=4), logits, rows, 4)
    assert full > 0
    for epoch, share in ((0, 0.0), (1, 0.25), (3, 0.75), (9, 1.0)):
        assert agreement(Consistency(rise=4), logits, rows, epoch) == pytest.approx(share * full)
        assert agreement(Consistency(rise=4, weight=1.5), logits, rows, epoch) == pytest.approx(1.5 * share * full)


def test_the_target_has_no_gradient():
    objective, logits = objectives.Forward(K), torch.randn(2, 1, 1, K, generator=torch.Generator().manual_seed(0))
    labels, share = torch.zeros(1, 1, K, dtype=torch.bool), torch.ones(1, 1)
    told = Told(labels, objective.scales(objective.count(labels), None, 1.0), share, None, torch.tensor(9))
    logits.requires_grad_()
    Consistency(rise=1).risks(objective, logits, told)[0, -1].backward()
    p = logits.detach().softmax(dim=-1)
    target = p.log().mean(dim=0).softmax(dim=-1)
    torch.testing.assert_close(logits.grad, (p - target) / 2)  # as of cross-entropy to a fixed target, over the views


def test_the_correction_is_the_objectives_own():
    objective = objectives.GradientAscent(K)
    risks = torch.tensor([[0.3, -0.2, 0.1, 0.4, 7.0]])
    coefficients, scale = Consistency().correct(objective, risks)
    own, its_scale = objective.correct(risks[:, :-1])
    assert torch.equal(coefficients, torch.cat([own, torch.ones(1, 1)], dim=1))
    assert torch.equal(scale, its_scale)


@pytest.mark.parametrize("name", ["forward", "ascent"])
def test_a_row_of_weight_two_is_two_rows_and_one_of_weight_zero_none(name):
    """With views that depend on nothing but the row's content, and all rows in one batch."""
    X, _, y_bar = blobs()
    times = np.random.default_rng(0).integers(0, 3, len(X))
    options = {"batch_size": 1000, "optimizer": "sgd", "lr": 0.1, "objective": objectives.make(name, K)}
    views = {"augment": lambda x, codes: x * 0.9, "weak": lambda x, codes: x + 0.1}
    weighed = population(**options, recipe=Consistency(**views, rise=2))
    weighed.fit(X, y_bar, sample_weight=times, max_epochs=5)
    repeated = population(**options, recipe=Consistency(**views, rise=2))
    rows = np.repeat(np.arange(len(X)), times)
    repeated.fit(X[rows], y_bar[rows], max_epochs=5)
    torch.testing.assert_close(weighed.logits(X), repeated.logits(X), rtol=1e-4, atol=1e-5)
    plain = population(**options, recipe=Consistency(**views, rise=2)).fit(X, y_bar, max_epochs=5)
    assert (plain.logits(X) - weighed.logits(X)).abs().max() > 1e-3


def test_rows_without_labels_enter_agreement_alone():
    X, _, y_bar = blobs()
    labels = np.zeros((len(X), K), dtype=bool)
    labels[:64] = np.eye(K, dtype=bool)[y_bar[:64]]
    make = functools.partial(population, batch_size=1000, optimizer="sgd", lr=0.1)
    quiet = functools.partial(Consistency, lambda x, codes: x * 0.9, rise=2)
    mute = [make(recipe=quiet(weight=0.0)).fit(*data, max_epochs=4) for data in ((X, labels), (X[:64], labels[:64]))]
    torch.testing.assert_close(mute[0].logits(X), mute[1].logits(X), rtol=1e-4, atol=1e-5)
    heard = [make(recipe=quiet()).fit(*data, max_epochs=4) for data in ((X, labels), (X[:64], labels[:64]))]
    assert (heard[0].logits(X) - heard[1].logits(X)).abs().max() > 1e-3


# ---- its views ----------------------------------------------------------------------------------------------------


class Noting(Consistency):
    """Notes each view that it makes, by seed, epoch and row."""

    def __init__(self):
        super().__init__(rise=2)
        self.noted = {}

    def views(self, source, batch, runs):
        made = super().views(source, batch, runs)
        for run, seed in enumerate(runs.seeds.tolist()):
            for i, row in enumerate(batch.rows[run].tolist()):
                seen = torch.stack([view[run, i] for view in made])
                assert torch.equal(self.noted.setdefault((seed, int(runs.epoch), row), seen), seen)
        return made


def noted(seeds, batch_size, inputs):
    recipe, n_inputs = Noting(), inputs[0].size
    network = lambda: networks.mlp(n_inputs, K, hidden=(4,))  # noqa: E731
    y_bar = complement(np.arange(len(inputs)) % K, K, random_state=0)
    population(network, seeds=seeds, batch_size=batch_size, recipe=recipe).fit(inputs, y_bar, max_epochs=2)
    return recipe.noted


@pytest.mark.parametrize("inputs", [blobs(24)[0], pictures(24)[0], np.repeat(pictures(24)[0], 3, axis=1)])
def test_views_follow_from_seed_epoch_and_row_alone(inputs):
    together, alone = noted([3, 4], 8, inputs), noted([4], 24, inputs)
    assert len(together) == 2 * len(alone) == 2 * 2 * 24
    for key, views in alone.items():
        assert torch.equal(together[key], views)
        assert len(views) == 3
        assert not torch.equal(views[1], views[2])
    assert not torch.equal(alone[4, 0, 5], alone[4, 1, 5])
    assert not torch.equal(together[3, 0, 5], together[4, 0, 5])


def test_by_default_images_are_distorted_and_tables_get_noise():
    grey = pictures(24)[0]
    colours = np.repeat(grey, 3, axis=1)
    for inputs, flip in ((grey, False), (colours, True)):
        weak, strong = Consistency()._augmentations(torch.Size(inputs.shape[1:]))
        assert (weak.func, weak.keywords) == (crop_and_flip, {"padding": 1, "flip": flip})
        assert (strong.func, strong.keywords) == (distort, {"flip": flip})
    assert Consistency()._augmentations(torch.Size([3, 32, 32]))[0].keywords["padding"] == 4
    assert Consistency()._augmentations(torch.Size([6])) == (None, perturb)


def test_one_may_bring_ones_own_views():
    X, _, y_bar = blobs()
    seen = []

    def own(x, codes):
        seen.append((tuple(x.shape), codes.dtype))
        return x + 1

    population(recipe=Consistency(own, n_strong=3)).fit(X, y_bar, max_epochs=1)
    assert set(seen) == {((32, 6), torch.int64)}
    assert len(seen) == 3 * 3  # steps of three strong views; the weak one is left as it is
    seen.clear()
    population(recipe="consistency", augment=own).fit(X, y_bar, max_epochs=1)
    assert len(seen) == 3 * 2


# ---- its weights, and going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("network", "data"), [(mlp, blobs), (resnet, pictures)])
def test_a_resumed_run_is_one_that_never_stopped(tmp_path, network, data):
    X, *_, y_bar = data()
    how = {"validation_rows": np.arange(10), "rows": np.arange(10, len(X))}
    whole = population(network, seeds=[0, 1]).fit(X, y_bar, max_epochs=3, **how)
    population(network, seeds=[0, 1]).fit(X, y_bar, max_epochs=1, checkpoint=tmp_path / "c", **how)
    resumed = population(network, seeds=[0, 1]).fit(X, y_bar, max_epochs=3, checkpoint=tmp_path / "c", **how)
    assert_same_runs(resumed, whole)
    with raises("is of other data or settings"):
        other = population(network, seeds=[0, 1], recipe=Consistency(rise=3))
        other.fit(X, y_bar, max_epochs=3, checkpoint=tmp_path / "c", **how)


def test_runs_do_not_depend_on_how_they_are_grouped():
    X, y_bar = pictures()
    together = population(resnet, seeds=[0, 1, 2]).fit(X, y_bar, max_epochs=2)
    assert_same_runs(together, population(resnet, seeds=[1]).fit(X, y_bar, max_epochs=2), 1e-5, runs=[1])
    X, _, y_bar = blobs()
    together = population(seeds=[0, 1, 2]).fit(X, y_bar, max_epochs=2)
    assert_same_runs(together, population(seeds=[1]).fit(X, y_bar, max_epochs=2), 1e-5, runs=[1])


class Remembering(Consistency):
    """Remembers what the weights were after each step."""

    def begin(self, source, runs):
        self.steps = [{k: t.detach().clone() for k, t in (runs.parameters | runs.buffers).items()}]
        return super().begin(source, runs)

    def after(self, runs, kept):
        super().after(runs, kept)
        self.steps.append({k: t.detach().clone() for k, t in (runs.parameters | runs.buffers).items()})


@pytest.mark.parametrize("average", [0.0, 0.8])
def test_what_predicts_is_the_average_over_the_steps(average):
    X, y_bar = pictures()
    recipe = Remembering(average=average, rise=2)
    runs = population(resnet, recipe=recipe, batch_size=8).fit(X, y_bar, max_epochs=10)
    state = runs.parameters | runs.buffers
    expected = recipe.steps[0]
    for t, now in enumerate(recipe.steps[1:], start=1):
        fresh = max(10 / (10 + t), 1 - average) if average else 1.0
        expected = {k: e + fresh * (now[k] - e) for k, e in expected.items()}
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-4, atol=1e-6)
    differs = (state["classifier.weight"] - recipe.steps[-1]["classifier.weight"]).abs().max()
    assert (differs > 1e-3) == (average > 0)


# ---- several processes ----------------------------------------------------------------------------------------------


class Part(Source):
    """One process's half of every batch of a resident source."""

    def __init__(self, X, y_bar, rank):
        self.n_classes, self.rank = K, rank
        self._inner = resident(X, y_bar, K, 1, None, np.arange(20), None)
        self._inner.prepare([0], 32, torch.device("cpu"))

    def batches(self, epoch, runs):
        for batch in self._inner.batches(epoch, runs):
            rows, labels = (t[:, :, self.rank :: 2].contiguous() for t in (batch.rows, batch.labels))
            yield Batch(rows, labels, torch.stack([self._inner.inputs(Batch(r, r)) for r in rows]))

    def held_out(self, runs, size):
        for x, labels in self._inner.held_out(runs, size):
            yield x[:, self.rank :: 2], labels[:, self.rank :: 2]


def some_labels():
    X, _, y_bar = blobs()
    labels = np.eye(K, dtype=bool)[y_bar]
    labels[::5] = False
    return X, labels


def half(rank, folder):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    runs = population(optimizer="sgd", reduce=SumOver()).fit(Part(*some_labels(), rank), max_epochs=4)
    torch.save({"logits": runs.logits(blobs()[0]), "history": runs.history}, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_are_one(tmp_path):
    torch.multiprocessing.spawn(half, (str(tmp_path),), nprocs=2)
    X, labels = some_labels()
    one = population(optimizer="sgd").fit(X, labels, max_epochs=4, validation_rows=np.arange(20))
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=False)
        torch.testing.assert_close(found["logits"], one.logits(X), rtol=1e-4, atol=1e-5)
        for key, values in one.history.items():
            np.testing.assert_allclose(found["history"][key], values, rtol=1e-4, atol=1e-5, err_msg=key)


# ---- what it learns, and what it refuses ----------------------------------------------------------------------------


def test_it_learns_more_than_the_plain_recipe():
    X, y = load_digits(return_X_y=True)
    X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 0.1)).astype("float32")
    y_bar = complement(y[:1000], 10, random_state=0)
    found = []
    for recipe in (Recipe(), Consistency(rise=8)):
        network = lambda: networks.mlp(64, 10, hidden=(64,))  # noqa: E731
        runs = population(network, objectives.Forward(10), recipe=recipe).fit(X[:1000], y_bar, max_epochs=15)
        found.append(float((runs.logits(X[1000:])[0].argmax(dim=-1).numpy() == y[1000:]).mean()))
    assert found[1] > found[0] + 0.05


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"average": 1.0}, "`average` must be from 0 up and below 1; got 1.0"),
        ({"weight": -1.0}, "`weight` must not be negative; got -1.0"),
        ({"n_strong": 0}, "`n_strong` must be a whole number of at least 1; got 0"),
        ({"rise": 0}, "`rise` must be a whole number of at least 1; got 0"),
    ],
)
def test_options_refused(options, words):
    with raises(words):
        Consistency(**options)


def test_an_objective_that_reads_logits_otherwise_is_refused():
    X, _, y_bar = blobs()
    with raises('recipe "consistency" is for objectives whose logits are of the classes; Forward'):
        population(objective=objectives.make("cpe-f", K)).fit(X, y_bar, max_epochs=1)


def test_an_augmentation_must_keep_shapes():
    X, y_bar = pictures()
    for name in ("augment", "weak"):
        recipe = Consistency(**{"augment": lambda x, codes: x} | {name: lambda x, codes: x[:, :, :4]})
        with raises(f"`{name}` must keep the shape of what it is given, (24, 1, 8, 8); it gave (24, 1, 4, 8)"):
            population(resnet, recipe=recipe).fit(X, y_bar, max_epochs=1)


def test_an_augmentation_may_give_numbers_of_any_kind():
    """As one does that adds what numpy drew; networks take float32."""
    x = torch.ones(2, 3, 4)
    for kind in (torch.float64, torch.bfloat16, torch.int64):
        given = altered(lambda x, codes, kind=kind: x.to(kind), x, torch.zeros(2, 3, dtype=torch.long))
        torch.testing.assert_close(given, x)  # which compares types, too


@pytest.mark.parametrize("name", ["augment", "weak"])
def test_a_view_is_a_function_of_a_batch_and_its_codes(name):
    for view, words in ((lambda x: x, "two arguments; got one of (x)"), (0.5, "a batch and its codes; got 0.5")):
        with raises(f"`{name}` must be a function of a batch and its codes") as caught:
            Consistency(**{name: view})
        assert words in str(caught.value)
    for view in (lambda *given: given[0], lambda x, codes, strength=1.0: x, torch.maximum, torch.nn.Identity()):
        assert getattr(Consistency(**{name: view}), name) is view


@pytest.mark.parametrize("name", ["augment", "weak"])
def test_a_view_must_be_finite(name):
    X, y_bar = pictures()
    recipe = Consistency(**{"augment": lambda x, codes: x.float()} | {name: lambda x, codes: x / 0 - x})
    with raises(f"`{name}` must give finite numbers; it gave "):
        population(resnet, recipe=recipe).fit(X, y_bar, max_epochs=1)


@pytest.mark.parametrize("network", [lambda x: x.sum(), lambda x: x.mean(dim=0), lambda x: x.mean(0, keepdim=True)])
def test_a_network_must_keep_the_batch(network):
    class Wrong(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, K)

        def forward(self, x):
            return network(self.layer(x))

    X, _, y_bar = blobs()
    with raises(f"`network` must map (B, ...) to (B, {K}) logits; from 2 examples it made ("):
        population(Wrong).fit(X, y_bar, max_epochs=1)


def test_labels_must_rule_out_something():
    X, _, _ = blobs()
    with raises("`y_bar` must rule out a class in at least one row; got none that rules out anything"):
        population().fit(X, np.zeros((len(X), K), dtype=bool), max_epochs=1)


def test_a_device_without_memory_says_what_to_lower(monkeypatch):
    def no_memory(self, *_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 GiB")

    X, _, y_bar = blobs()
    monkeypatch.setattr(Consistency, "views", no_memory)
    with raises(
        "the device must have memory for a step of 32 examples and all their views; cpu has not; ", MemoryError
    ):
        population().fit(X, y_bar, max_epochs=1)
    with raises("lower `batch_size`, the recipe's `n_strong` or the network's width", MemoryError):
        population().fit(Resident(X, y_bar, K), max_epochs=1)


def test_answers_that_may_be_wrong_leave_every_class_possible(float64):
    row, logits = KINDS["a set"][0], np.random.default_rng(4).normal(size=(2, 1, K))
    expected = agreement_by_hand(logits, [np.where(row, 0.1 / 0.9, 1.0)], [1.0])
    objective = Likelihood(K, error_rate=0.1)
    assert agreement(Consistency(rise=1), logits, [row], 5, objective) == pytest.approx(expected)
