"""The engine: runs do not depend on their company, on the grouping, on an interruption, or on global state."""

from __future__ import annotations

import contextlib
import functools
import math
import types
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from helpers import Largest, assert_frequencies, assert_same_runs, is_rows, raises, random_transition
from naysayer import Population, complement, networks, objectives, transition, unbiased_weights
from naysayer.common.files import read_tensors
from naysayer.engine import passes
from naysayer.engine import population as training
from naysayer.engine.augment import crop_and_flip
from naysayer.engine.recipe import Recipe
from naysayer.engine.schedules import cosine_schedule, step_schedule
from naysayer.engine.source import Resident, shuffle
from naysayer.engine.stack import Stack

SEEDS, RATES, DECAYS = [3, 1, 4], [0.01, 0.003, 0.02], [0.0, 0.1, 0.01]
TOLERANCE = 1e-4  # float32 sums in another order, over a few dozen steps


def blobs(n=240, n_classes=3, seed=0):
    """Classes around corners of a square that a linear model tells apart; inputs, truth and complementary labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    centres = np.random.default_rng(99).normal(size=(n_classes, 4)) * 2
    X = (centres[y] + 0.4 * rng.normal(size=(n, 4))).astype("float32")
    return X, y, complement(y, n_classes, random_state=seed)


def mlp():
    return networks.mlp(4, 3, hidden=(8,))


def tanh_net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def norm_net():
    bare = nn.Linear(4, 8, bias=False)  # the norm takes a bias away again, and Adam would step by its rounding errors
    return nn.Sequential(bare, nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def dropout_net():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


def make(network=mlp, objective=None, **options):
    defaults = {"seeds": SEEDS, "lr": RATES, "weight_decay": DECAYS, "batch_size": 32, "device": "cpu"}
    return Population(network, objective or objectives.GradientAscent(3), **(defaults | options))


def alone(m, network=mlp, objective=None, **options):
    """The population that holds only run m of :func:`make`."""
    only = {"seeds": [SEEDS[m]], "lr": RATES[m], "weight_decay": DECAYS[m]}
    return make(network, objective, **(options | only))


def stop_after(n):
    """A progress bar at which somebody presses Control-C after n epochs."""
    calls = []

    def bar(advance=1, label=None):
        calls.append(advance)
        if len(calls) == n:
            raise KeyboardInterrupt

    return bar


@pytest.fixture
def saves_always(monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)


def test_the_comparison_helper_can_fail():
    X, _, y_bar = blobs()
    rows = np.arange(60)
    first = make().fit(X, y_bar, max_epochs=2, validation_rows=rows)
    assert_same_runs(first, make().fit(X, y_bar, max_epochs=2, validation_rows=rows))
    others = (
        make(lr=[0.01, 0.003, 0.0201]).fit(X, y_bar, max_epochs=2, validation_rows=rows),
        make().fit(X, y_bar, max_epochs=1, validation_rows=rows),
        make().fit(X, y_bar, max_epochs=2),
        make(seeds=[3, 4, 1]).fit(X, y_bar, max_epochs=2, validation_rows=rows),
    )
    for other in others:
        with pytest.raises(AssertionError):
            assert_same_runs(first, other, TOLERANCE)
    moved = make().fit(X, y_bar, max_epochs=2, validation_rows=rows)
    moved.parameters["layers.0.weight"][2, 0, 0] += 1e-3
    with pytest.raises(AssertionError):
        assert_same_runs(first, moved, TOLERANCE)
    assert_same_runs(first, alone(0).fit(X, y_bar, max_epochs=2, validation_rows=rows), TOLERANCE, runs=[0])
    with pytest.raises(AssertionError):
        assert_same_runs(first, alone(0).fit(X, y_bar, max_epochs=2, validation_rows=rows), TOLERANCE, runs=[1])


# ---- a run is the same in any company -------------------------------------------------------------------------

OBJECTIVES = {
    "free": lambda: objectives.Unbiased(3),
    "max": lambda: objectives.NonNegative(3, "mean_absolute_error"),
    "ascent": lambda: objectives.GradientAscent(3, beta=0.1, gamma=0.5),
    "forward": lambda: objectives.Forward(3, random_transition(3)),
    "pairwise": lambda: objectives.PairwiseComparison(3),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_runs_together_equal_runs_alone(name):
    X, y, y_bar = blobs()
    how = {"max_epochs": 3, "validation_rows": np.arange(0, 240, 4), "test": (X, y)}
    together = make(objective=OBJECTIVES[name]()).fit(X, y_bar, **how)
    for m in range(3):
        single = alone(m, objective=OBJECTIVES[name]()).fit(X, y_bar, **how)
        assert_same_runs(together, single, TOLERANCE, runs=[m])
    starts = make(objective=OBJECTIVES[name]())
    assert (together.parameters["layers.0.weight"] - starts.parameters["layers.0.weight"]).abs().max() > 0.01


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "nesterov"])
@pytest.mark.parametrize("network", [mlp, tanh_net])
@pytest.mark.parametrize("in_one", [1, 2, 3])
def test_grouping_does_not_matter(monkeypatch, in_one, network, optimizer):
    X, _, y_bar = blobs()
    together = make(network, optimizer=optimizer).fit(X, y_bar, max_epochs=2)
    size = sum(p[0].numel() for p in together.parameters.values())
    monkeypatch.setattr(training, "_STACK_ON_CPU", in_one * size)
    assert_same_runs(make(network, optimizer=optimizer).fit(X, y_bar, max_epochs=2), together, TOLERANCE)


def test_any_module_trains_together_as_alone():
    X, y, y_bar = blobs()
    how = {"max_epochs": 3, "validation_rows": np.arange(0, 240, 4), "test": (X, y)}
    together = make(tanh_net).fit(X, y_bar, **how)
    for m in range(3):
        assert_same_runs(together, alone(m, tanh_net).fit(X, y_bar, **how), TOLERANCE, runs=[m])


@pytest.mark.parametrize("n_runs", [1, 3])
def test_a_module_keeps_the_weights_it_comes_with(n_runs):
    given = tanh_net()
    before = {k: v.clone() for k, v in given.state_dict().items()}
    X, _, y_bar = blobs()
    runs = make(given, seeds=SEEDS[:n_runs], lr=0.01, weight_decay=0.0)
    for m in range(n_runs):
        for name, value in runs.state(m).items():
            assert torch.equal(value, before[name])
    runs.fit(X, y_bar, max_epochs=1)
    for m in range(n_runs):
        assert not torch.equal(runs.state(m)["0.weight"], before["0.weight"])
    for name, value in given.state_dict().items():  # what was given is left alone
        assert torch.equal(value, before[name])


class Backbone(nn.Module):
    """Trained features, with batch norm and dropout among them, and a head."""

    def __init__(self, frozen):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, affine=False), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 3)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            for _ in range(20):  # statistics that are not those of the data
                self.features(3 + torch.randn(50, 4))
        self.features.requires_grad_(not frozen)

    def forward(self, x):
        return self.head(self.features(x))


@pytest.mark.parametrize("n_runs", [1, 2])
def test_a_frozen_backbone_stays_as_it_predicts_its_batch_norm_too(n_runs):
    given = Backbone(frozen=True)
    before = {k: v.clone() for k, v in given.state_dict().items()}
    X, _, y_bar = blobs()
    runs = make(given, seeds=SEEDS[:n_runs], lr=0.05, weight_decay=0.0).fit(X, y_bar, max_epochs=3)
    for m in range(n_runs):
        for name, value in runs.state(m).items():
            assert torch.equal(value, before[name]) == name.startswith("features"), name
    given.eval()  # the head was trained on what the backbone gives when it predicts: no dropout, fixed statistics
    features = given.features(torch.tensor(X)).detach()
    head = nn.Linear(8, 3)
    head.load_state_dict(given.head.state_dict())
    plain = make(head, seeds=SEEDS[:n_runs], lr=0.05, weight_decay=0.0).fit(features, y_bar, max_epochs=3)
    torch.testing.assert_close(runs.logits(X), plain.logits(features), rtol=1e-4, atol=1e-5)


def test_a_backbone_that_is_fine_tuned_moves_from_where_it_was():
    given = Backbone(frozen=False)
    before = {k: v.clone() for k, v in given.state_dict().items()}
    X, _, y_bar = blobs()
    runs = make(given, seeds=[0], lr=1e-4, weight_decay=0.0).fit(X, y_bar, max_epochs=1)
    for name, value in runs.state(0).items():
        assert not torch.equal(value, before[name]), name
        if "weight" in name or "bias" in name:
            assert (value - before[name]).abs().max() < 0.01, name


@pytest.mark.parametrize("how", ["frozen", "compiled"])
def test_one_run_whose_pass_is_not_written_down_is_not_cut(how, monkeypatch):
    monkeypatch.setattr(training, "_SMALL_STEP", 0)
    network = networks.mlp(4, 3, (16,))
    network.layers[1].requires_grad_(how != "frozen")
    if how == "compiled":
        monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    X, _, y_bar = blobs()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        runs = Population(network, objectives.Forward(3), lr=0.01, compiled=how == "compiled").fit(
            X, y_bar, max_epochs=2
        )
    finally:
        torch.set_num_threads(before)
    assert torch.equal(runs.state(0)["layers.1.weight"], network.layers[1].weight) == (how == "frozen")
    assert not torch.equal(runs.state(0)["layers.0.weight"], network.layers[0].weight)


def test_frozen_numbers_count_when_runs_are_sized():
    frozen, free = networks.mlp(4, 3, (16,)), networks.mlp(4, 3, (16,))
    frozen.layers[0].requires_grad_(False)
    assert make(frozen)._run_size() == make(free)._run_size() == 4 * 16 + 16 + 16 * 3 + 3


def test_a_backbone_in_bfloat16_trains_and_is_known_again(tmp_path):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Linear(4, 8).to(torch.bfloat16).requires_grad_(False)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.backbone(x.to(torch.bfloat16)).float())

    X, _, y_bar = blobs()
    network = Half()
    make(network).fit(X, y_bar, max_epochs=1, checkpoint=tmp_path / "runs")
    resumed = make(network).fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "runs")
    assert_same_runs(resumed, make(network).fit(X, y_bar, max_epochs=2))
    assert torch.equal(resumed.state(0)["backbone.weight"], network.backbone.weight)
    with torch.no_grad():
        network.backbone.weight += 1
    with raises("is of other data or settings"):
        make(network).fit(X, y_bar, max_epochs=3, checkpoint=tmp_path / "runs")


def test_a_buffer_that_parts_share_is_one():
    class Twin(nn.Module):
        def __init__(self, shift):
            super().__init__()
            self.register_buffer("shift", shift)

        def forward(self, x):
            return x + self.shift

    shift = torch.ones(4)
    X, _, y_bar = blobs()
    network = nn.Sequential(Twin(shift), Twin(shift), nn.Linear(4, 3))
    runs = make(network, seeds=[0], lr=0.01, weight_decay=0.0).fit(X, y_bar, max_epochs=1)
    torch.testing.assert_close(runs.network(0)(torch.tensor(X)), runs.logits(X, run=0))


def test_a_network_without_anything_to_learn_is_refused():
    with raises("`network` must have a parameter to learn; all of its are frozen, or it has none"):
        make(nn.Linear(4, 3).requires_grad_(False))


def test_a_start_is_what_the_seed_makes_of_the_network():
    runs = make(tanh_net)
    for m, seed in enumerate(SEEDS):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            expected = tanh_net().state_dict()
        for name, value in runs.state(m).items():
            assert torch.equal(value, expected[name])


def test_equal_seeds_make_equal_runs_and_others_do_not():
    X, _, y_bar = blobs()
    runs = make(seeds=[5, 6, 5], lr=0.01, weight_decay=0.0).fit(X, y_bar, max_epochs=2)
    weights = runs.parameters["layers.0.weight"]
    assert torch.equal(weights[0], weights[2])
    assert (weights[0] - weights[1]).abs().max() > 0.1


@pytest.mark.parametrize("network", [mlp, tanh_net, norm_net, dropout_net])
def test_same_seed_same_bits_and_no_global_state(network):
    X, _, y_bar = blobs()
    rows = np.arange(60)
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_before = torch.get_rng_state()
    precision = torch.get_float32_matmul_precision()
    first = make(network).fit(X, y_bar, max_epochs=2, validation_rows=rows)
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.get_float32_matmul_precision() == precision
    with torch.random.fork_rng():
        torch.manual_seed(12345)  # a different global state must not matter
        assert_same_runs(make(network).fit(X, y_bar, max_epochs=2, validation_rows=rows), first)


def test_the_objective_given_is_left_alone():
    X, _, y_bar = blobs()
    objective = objectives.GradientAscent(3)
    make(objective=objective).fit(X, y_bar, max_epochs=1)
    assert not objective.seen.any()
    assert objective.prior is None


# ---- against a plain torch loop -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_run_is_what_a_plain_torch_loop_makes(name):
    """The same order of rows, torch's own Adam, π̄ of the whole training set: the same parameters."""
    X, _, y_bar = blobs(n=100)
    gammaless = objectives.GradientAscent(3, beta=0.1) if name == "ascent" else OBJECTIVES[name]()
    run = make(objective=gammaless, seeds=[7], lr=0.01, weight_decay=0.01)
    network = run.network(0).train()
    run.fit(X, y_bar, max_epochs=3)
    if name in ("free", "max", "ascent"):
        gammaless.register_buffer("prior", torch.bincount(torch.tensor(y_bar), minlength=3) / 100)
    weights = [p for p in network.parameters() if p.dim() > 1]
    biases = [p for p in network.parameters() if p.dim() == 1]
    optimizer = torch.optim.Adam([{"params": weights, "weight_decay": 0.01}, {"params": biases}], lr=0.01)
    for epoch in range(3):
        order = shuffle(torch.tensor([7]), epoch, 100)[0]
        losses = []
        for rows in order.split(25):  # 100 rows in batches of at most 32: four of 25
            optimizer.zero_grad()
            value = gammaless(network(torch.tensor(X)[rows]), torch.tensor(y_bar)[rows])
            value.backward()
            optimizer.step()
            losses.append(value.item())
        assert run.history["loss"][epoch, 0] == pytest.approx(np.mean(losses), abs=TOLERANCE)
    for name, value in network.named_parameters():
        torch.testing.assert_close(run.parameters[name][0], value.detach(), rtol=0, atol=TOLERANCE)


def test_mixed_labels_train_as_in_a_plain_loop():
    X, y, y_bar = blobs(n=96)
    sets = np.concatenate([np.eye(3, dtype=bool)[y_bar[:60]], is_rows(y[60:], 3)])
    objective = objectives.Unbiased(3, alpha=0.3, prior=np.bincount(y_bar[:60], minlength=3) / 60)
    run = make(objective=objective, seeds=[7], lr=0.1, weight_decay=0.0, optimizer="sgd", momentum=0.5)
    network = run.network(0).train()
    run.fit(X, sets, max_epochs=2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.5)
    for epoch in range(2):
        for rows in shuffle(torch.tensor([7]), epoch, 96)[0].split(32):
            optimizer.zero_grad()
            objective(network(torch.tensor(X)[rows]), torch.tensor(sets)[rows]).backward()
            optimizer.step()
    for name, value in network.named_parameters():
        torch.testing.assert_close(run.parameters[name][0], value.detach(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["free", "max", "ascent", "forward"])  # the ramp of "pairwise" is flat at some starts
def test_an_easy_problem_is_learned(name):
    X, y, y_bar = blobs(n=600)
    objective = objectives.OBJECTIVES[name](3)
    runs = make(objective=objective, lr=0.005, weight_decay=0.0).fit(X, y_bar, max_epochs=10, test=(X, y))
    assert (runs.history["test_accuracy"][-1] > 0.95).all()
    np.testing.assert_allclose((runs.logits(X).argmax(-1).numpy() == y).mean(axis=1), runs.history["test_accuracy"][-1])


# ---- the order of the rows ------------------------------------------------------------------------------------


def test_a_shuffle_is_a_permutation_of_its_own_for_each_seed_and_epoch():
    orders = torch.stack([shuffle(torch.tensor([0, 1, 2, 10**9]), epoch, 50) for epoch in range(4)]).view(-1, 50)
    assert (orders.sort(dim=-1).values == torch.arange(50)).all()
    assert len({tuple(order.tolist()) for order in orders}) == 16
    assert torch.equal(shuffle(torch.tensor([2]), 3, 50)[0], orders[3 * 4 + 2])


@pytest.mark.parametrize("by", ["seed", "epoch"])
def test_shuffles_are_fair(by):
    if by == "seed":
        orders = shuffle(torch.arange(20_000), 0, 6)
    else:
        orders = torch.cat([shuffle(torch.tensor([0]), epoch, 6) for epoch in range(20_000)])
    for place in range(6):
        assert_frequencies(torch.bincount(orders[:, place], minlength=6).numpy(), np.full(6, 1 / 6))
    pairs = orders[:, 0] * 6 + orders[:, 1]
    probabilities = np.where(np.eye(6, dtype=bool), 0, 1 / 30).ravel()
    assert_frequencies(torch.bincount(pairs, minlength=36).numpy(), probabilities)


class Recorder(nn.Module):
    """A linear model that notes the first input of each example it trains on: its row. It cannot be stacked."""

    seen: ClassVar[list[list[int]]] = []

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        if self.training:
            self.seen.append(x[:, 0].int().tolist())
        return self.linear(x)


@pytest.mark.parametrize(("n", "batch_size", "sizes"), [(64, 32, [32, 32]), (70, 32, [24] * 3), (10, 32, [10])])
def test_an_epoch_deals_all_rows_into_equal_batches(monkeypatch, n, batch_size, sizes):
    seen = []
    monkeypatch.setattr(Recorder, "seen", seen)
    X = np.zeros((n, 4), dtype="float32")
    X[:, 0] = np.arange(n)
    run = Population(Recorder, objectives.Forward(3), batch_size=batch_size, device="cpu", lr=0.0)
    run.fit(X, np.zeros(n, dtype=int), max_epochs=2)
    assert [len(batch) for batch in seen] == sizes * 2
    for epoch in (seen[: len(sizes)], seen[len(sizes) :]):
        dealt = [row for batch in epoch for row in batch]
        assert sorted(dealt[:n]) == list(range(n))
        assert dealt[n:] == dealt[: len(dealt) - n]  # filled up from the start of the order


# ---- data -----------------------------------------------------------------------------------------------------


def test_labels_of_its_own_for_each_run():
    X, y, _ = blobs()
    labels = np.stack([complement(y, 3, random_state=seed) for seed in range(3)])
    how = {"max_epochs": 2, "validation_rows": np.arange(50)}
    together = make().fit(X, labels, **how)
    for m in range(3):
        assert_same_runs(together, alone(m).fit(X, labels[m], **how), TOLERANCE, runs=[m])


@pytest.mark.parametrize("encoding", ["single", "sets", "per run"])
def test_rows_of_its_own_for_each_run(encoding):
    X, y, y_bar = blobs()
    labels = {
        "single": y_bar,
        "sets": complement(y, 3, n_labels=2, random_state=0) | np.eye(3, dtype=bool)[y_bar],
        "per run": np.stack([complement(y, 3, random_state=seed) for seed in range(3)]),
    }[encoding]
    order = [np.random.default_rng(m).permutation(240) for m in range(3)]
    rows, valid = np.stack([o[:200] for o in order]), np.stack([o[200:] for o in order])
    together = make().fit(X, labels, max_epochs=2, rows=rows, validation_rows=valid)
    for m in range(3):
        mine = labels[m] if encoding == "per run" else labels
        single = alone(m).fit(X, mine, max_epochs=2, rows=rows[m], validation_rows=valid[m])
        assert_same_runs(together, single, TOLERANCE, runs=[m])
    cut = alone(0).fit(X[rows[0]], mine[rows[0]] if encoding != "per run" else labels[0][rows[0]], max_epochs=2)
    whole = alone(0).fit(X, mine if encoding != "per run" else labels[0], max_epochs=2, rows=rows[0])
    assert_same_runs(cut, whole)  # π̄ too is that of the run's own rows


def test_bytes_are_floats_over_255():
    _, y, y_bar = blobs()
    images = np.random.default_rng(0).integers(0, 256, (240, 2, 2), dtype=np.uint8)
    how = {"max_epochs": 2, "validation_rows": np.arange(50)}
    as_bytes = make().fit(images, y_bar, test=(images, y), **how)
    floats = images.astype("float32") / np.float32(255)
    as_floats = make().fit(floats, y_bar, test=(floats, y), **how)
    assert_same_runs(as_bytes, as_floats, TOLERANCE)
    torch.testing.assert_close(as_bytes.logits(images), as_floats.logits(floats), rtol=0, atol=TOLERANCE)


def test_inputs_of_any_type_and_shape():
    X, _, y_bar = blobs()
    expected = make().fit(X, y_bar, max_epochs=1)
    for given in (X.astype("float64"), torch.tensor(X), X.reshape(240, 2, 2), np.asfortranarray(X), X[::-1][::-1]):
        assert_same_runs(make().fit(given, y_bar, max_epochs=1), expected)
    for labels in (y_bar.tolist(), torch.tensor(y_bar), y_bar.astype("uint8")):
        assert_same_runs(make().fit(X, labels, max_epochs=1), expected)


@pytest.mark.parametrize("kind", [int, np.uint8, float])
def test_zeros_and_ones_are_a_ruled_out_matrix(kind):
    X, y, _ = blobs()
    ruled_out = complement(y, 3, random_state=0)[:, None] == np.arange(3)
    as_numbers = make().fit(X, ruled_out.astype(kind), max_epochs=2)
    assert_same_runs(as_numbers, make().fit(X, ruled_out, max_epochs=2))


def test_numbers_that_may_mean_two_things_are_refused():
    with raises("pass a ruled-out matrix as truth values: y_bar.astype(bool)"):
        make().fit(np.zeros((3, 4), dtype="float32"), np.eye(3, dtype=int), max_epochs=1)


def test_single_labels_equal_their_ruled_out_matrix():
    X, _, y_bar = blobs()
    how = {"max_epochs": 2, "validation_rows": np.arange(60)}
    for name in OBJECTIVES:  # by SGD: Adam makes steps of rounding errors where a ramp is flat
        one = make(objective=OBJECTIVES[name](), optimizer="sgd").fit(X, y_bar, **how)
        other = make(objective=OBJECTIVES[name](), optimizer="sgd").fit(X, np.eye(3, dtype=bool)[y_bar], **how)
        assert_same_runs(one, other, TOLERANCE)


@pytest.mark.parametrize("name", ["ascent", "forward"])
def test_a_thousand_classes_train_without_an_n_by_k_array(name):
    n, n_classes = 20_000, 1000
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n_classes, 8))[y].astype("float32")
    y_bar = complement(y, n_classes, random_state=0)
    runs = Population(
        lambda: networks.linear(8, n_classes), objectives.OBJECTIVES[name](n_classes), seeds=[0, 1], device="cpu"
    )
    with Largest() as largest:
        runs.fit(X, y_bar, max_epochs=1, rows=np.arange(n - 500), validation_rows=np.arange(n - 500, n))
    assert np.isfinite(runs.history["loss"]).all()
    assert 256 * n_classes * 4 <= largest.bytes < n * n_classes  # a batch, but not even one byte for each of N x K
    with Largest() as largest:
        torch.tensor(y_bar).unsqueeze(-1) == torch.arange(n_classes)  # the measure can fail  # noqa: B015
    assert largest.bytes >= n * n_classes


# ---- validation, the best state, patience ---------------------------------------------------------------------


def estimates_by_hand(logits, y_bar, q=None):
    """Unbiased accuracy and unbiased cross-entropy of logits (N, K), from their labels."""
    weights = unbiased_weights(y_bar, logits.shape[-1], q)
    accuracy = weights[torch.arange(len(logits)), logits.argmax(dim=-1)].mean()
    return accuracy.item(), (weights * -torch.log_softmax(logits, dim=-1)).sum(dim=-1).mean().item()


@pytest.mark.parametrize("select", ["accuracy", "risk", "objective"])
@pytest.mark.parametrize("q", [None, transition.biased([3, 1, 1])])
def test_the_best_state_is_kept_and_scores_what_history_says(select, q):
    X, y, y_bar = blobs()
    if q is not None:
        y_bar = complement(y, 3, transition=q, random_state=0)
    valid = np.arange(0, 240, 3)
    objective = objectives.Forward(3, q)
    runs = make(objective=objective, lr=[0.3, 0.0, 0.01], optimizer="sgd").fit(
        X, y_bar, max_epochs=8, validation_rows=valid, select=select
    )
    scores = runs.history[f"valid_{select}"] * (1 if select == "accuracy" else -1)
    np.testing.assert_array_equal(runs.best_epoch, scores.argmax(axis=0))
    np.testing.assert_array_equal(runs.best_score, scores.max(axis=0))
    assert len(set(runs.best_epoch)) > 1  # each run has a best epoch of its own
    for m in range(3):
        logits = runs.logits(X[valid], run=m)
        accuracy, cross = estimates_by_hand(logits, y_bar[valid], q)
        at = runs.best_epoch[m]
        assert runs.history["valid_accuracy"][at, m] == pytest.approx(accuracy, abs=1e-5)
        assert runs.history["valid_risk"][at, m] == pytest.approx(cross, abs=1e-4)
        own = objective.eval()(logits, y_bar[valid]).item()
        assert runs.history["valid_objective"][at, m] == pytest.approx(own, abs=1e-4)


def test_validation_on_a_ruled_out_matrix_leaves_out_what_says_nothing():
    X, y, _ = blobs()
    sets = complement(y, 3, n_labels=1, random_state=0)
    sets = np.eye(3, dtype=bool)[sets]
    sets[200:220] = is_rows(y[200:220], 3)
    sets[220:] = False
    run = alone(0).fit(X, sets, max_epochs=1, validation_rows=np.arange(180, 240))
    accuracy, cross = estimates_by_hand(run.logits(X[180:220], 0), sets[180:220])
    assert run.best_score[0] == pytest.approx(accuracy, abs=1e-5)
    assert run.history["valid_risk"][0, 0] == pytest.approx(cross, abs=1e-4)


def test_validation_in_blocks_is_the_same(monkeypatch):
    X, y, y_bar = blobs()
    how = {"max_epochs": 1, "validation_rows": np.arange(101), "test": (X, y)}
    whole = make().fit(X, y_bar, **how)
    monkeypatch.setattr("naysayer.engine.stack.EVALUATE", 50)
    monkeypatch.setattr("naysayer.engine.population.EVALUATE", 50)
    blocks = make().fit(X, y_bar, **how)
    assert_same_runs(whole, blocks, 1e-5)
    torch.testing.assert_close(whole.logits(X), blocks.logits(X))


def test_without_validation_the_last_epoch_is_the_best():
    X, _, y_bar = blobs()
    runs = make().fit(X, y_bar, max_epochs=3)
    assert runs.best_epoch.tolist() == [2, 2, 2]
    assert runs.history.keys() == {"loss"}
    assert runs.history["loss"].shape == (3, 3)


def test_the_last_epoch_is_kept_where_it_is_asked_for():
    X, _, y_bar = blobs()
    valid = np.arange(0, 240, 3)
    how = {"max_epochs": 6, "rows": np.setdiff1d(np.arange(240), valid)}
    options = {"objective": objectives.Forward(3), "lr": [0.5, 0.0, 0.3], "optimizer": "sgd"}
    best = make(**options).fit(X, y_bar, validation_rows=valid, **how)
    assert (best.best_epoch < 5).any()  # so that there is a difference
    last = make(**options).fit(X, y_bar, validation_rows=valid, select="last", **how)
    assert last.best_epoch.tolist() == [5, 5, 5]
    np.testing.assert_array_equal(
        last.history["valid_accuracy"], best.history["valid_accuracy"]
    )  # watched all the same
    never = make(**options).fit(X, y_bar, **how)
    for name, parameter in never.parameters.items():
        assert torch.equal(last.parameters[name], parameter)


class Clock:
    """A clock that stands still unless it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now

    def tick(self, advance=1, label=None):
        self.now += 1


@pytest.mark.parametrize(("until", "n_epochs"), [(-math.inf, 1), (100.0, 1), (102.5, 3), (math.inf, 5), (None, 5)])
def test_no_epoch_is_begun_after_a_moment_but_the_first(monkeypatch, until, n_epochs):
    X, _, y_bar = blobs()
    clock = Clock()
    monkeypatch.setattr(training, "time", clock)
    runs = make().fit(X, y_bar, max_epochs=5, until=until, bar=clock.tick)
    assert len(runs.history["loss"]) == n_epochs
    assert not runs.interrupted
    monkeypatch.undo()
    assert_same_runs(runs, make().fit(X, y_bar, max_epochs=n_epochs))


def test_patience_stops_each_run_for_itself():
    X, _, y_bar = blobs()
    valid = np.arange(0, 240, 2)
    how = {"max_epochs": 12, "validation_rows": valid, "select": "risk"}
    free = make(objective=objectives.Forward(3), lr=[0.0, 0.002, 0.5]).fit(X, y_bar, **how)
    runs = make(objective=objectives.Forward(3), lr=[0.0, 0.002, 0.5]).fit(X, y_bar, patience=3, **how)
    risks = free.history["valid_risk"]
    lasts = []
    for m in range(3):
        best = last = 0
        for last in range(12):
            best = last if risks[last, m] < risks[best, m] else best
            if last - best >= 3:
                break
        lasts.append(last)
        assert runs.best_epoch[m] == best
        assert np.isnan(runs.history["valid_risk"][last + 1 :, m]).all()
        np.testing.assert_array_equal(runs.history["valid_risk"][: last + 1, m], risks[: last + 1, m])
    assert lasts[0] == 3  # a learning rate of 0 never betters its first epoch
    assert lasts[1] == 11
    assert len(runs.history["loss"]) == max(lasts) + 1


def test_a_group_of_runs_has_one_best_epoch():
    X, _, y_bar = blobs()
    valid = np.stack([np.arange(m, 240, 3) for m in range(3)])
    how = {"max_epochs": 6, "validation_rows": valid, "select": "risk"}
    options = {"objective": objectives.Forward(3), "lr": [0.1, 0.0, 0.01], "optimizer": "sgd"}
    apart = make(**options).fit(X, y_bar, **how)
    runs = make(**options).fit(X, y_bar, groups=[7, 2, 7], **how)
    np.testing.assert_array_equal(runs.history["valid_risk"], apart.history["valid_risk"])
    scores = -runs.history["valid_risk"][:, [0, 2]].mean(axis=1)
    assert runs.best_epoch.tolist() == [scores.argmax(), apart.best_epoch[1], scores.argmax()]
    np.testing.assert_allclose(runs.best_score, [scores.max(), apart.best_score[1], scores.max()])
    for m in range(3):
        _, cross = estimates_by_hand(runs.logits(X[valid[m]], m), y_bar[valid[m]])
        assert runs.history["valid_risk"][runs.best_epoch[m], m] == pytest.approx(cross, abs=1e-4)


def test_all_runs_out_of_patience_end_the_training():
    X, _, y_bar = blobs()
    runs = make(lr=0.0).fit(X, y_bar, max_epochs=50, validation_rows=[0, 1, 2], patience=2)
    assert runs.history["loss"].shape == (3, 3)
    assert runs.best_epoch.tolist() == [0, 0, 0]


def test_what_is_said_of_the_best_epoch_holds_after_a_second_fit():
    X, _, y_bar = blobs()
    runs = make(objective=objectives.Forward(3), lr=[0.0, 0.01, 0.3])
    for rows in (np.arange(0, 60), np.arange(60, 240)):
        runs.fit(X, y_bar, max_epochs=4, validation_rows=rows)
        np.testing.assert_array_equal(runs.history["valid_accuracy"][runs.best_epoch, range(3)], runs.best_score)
        for m in range(3):
            accuracy, _ = estimates_by_hand(runs.logits(X[rows], m), y_bar[rows])
            assert runs.best_score[m] == pytest.approx(accuracy, abs=1e-5)


# ---- schedules and steps --------------------------------------------------------------------------------------


def test_schedules():
    step = step_schedule()
    assert [step(e) for e in (0, 29, 30, 59, 60)] == [1, 1, 0.5, 0.5, 0.25]
    assert [step_schedule(2, 0.1)(e) for e in range(4)] == pytest.approx([1, 1, 0.1, 0.1])
    cosine = cosine_schedule(10)
    assert [cosine(e) for e in (0, 5, 10)] == pytest.approx([1, 0.5, 0], abs=1e-12)
    assert all(cosine(e) > cosine(e + 1) for e in range(10))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "nesterov"])
def test_a_schedule_scales_the_learning_rate(optimizer):
    X, _, y_bar = blobs()
    scheduled = make(optimizer=optimizer, schedule=lambda epoch: 0.5).fit(X, y_bar, max_epochs=2)
    halved = make(optimizer=optimizer, lr=[r / 2 for r in RATES]).fit(X, y_bar, max_epochs=2)
    assert_same_runs(scheduled, halved)
    early = make(optimizer=optimizer).fit(X, y_bar, max_epochs=2)
    stilled = make(optimizer=optimizer, schedule=lambda epoch: float(epoch < 2)).fit(X, y_bar, max_epochs=4)
    for name, value in early.parameters.items():
        assert torch.equal(stilled.parameters[name], value)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("n_runs", [1, 3])
def test_gamma_scales_the_step(optimizer, n_runs):
    """Adam's first step does not depend on the gradient's size, so only a scaled step comes out scaled."""
    X, _, y_bar = blobs()
    moved = {}
    for gamma in (1.0, 0.5, 0.0):
        objective = objectives.GradientAscent(3, beta=-100.0, gamma=gamma)  # no risk is above 100: every step ascends
        runs = make(objective=objective, seeds=SEEDS[:n_runs], lr=0.01, weight_decay=0.0, optimizer=optimizer)
        runs.batch_size = 240
        start = {k: v.clone() for k, v in runs.parameters.items()}
        runs.fit(X, y_bar, max_epochs=1)
        moved[gamma] = {k: v - start[k] for k, v in runs.parameters.items()}
    for name, full in moved[1.0].items():
        assert full.abs().max() > 1e-5
        torch.testing.assert_close(moved[0.5][name], full / 2, rtol=1e-3, atol=1e-6)
        assert not moved[0.0][name].any()


# ---- networks of every kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [norm_net, dropout_net])
def test_batch_norm_and_dropout_train(network):
    X, y, y_bar = blobs(n=600)
    runs = make(network, objectives.Forward(3), lr=0.02, weight_decay=0.0)
    runs.fit(X, y_bar, max_epochs=10, validation_rows=np.arange(0, 600, 5))
    accuracy = (runs.logits(X).argmax(dim=-1).numpy() == y).mean(axis=1)
    assert (accuracy > 0.95).all()
    assert torch.equal(runs.logits(X), runs.logits(X))  # in use nothing is dropped
    for m in range(3):
        module = runs.network(m)
        assert not module.training
        torch.testing.assert_close(module(torch.tensor(X)), runs.logits(X, m))


def test_batch_norm_keeps_the_statistics_of_each_run():
    X, _, y_bar = blobs()
    how = {"max_epochs": 3, "validation_rows": np.arange(60)}
    runs = make(norm_net).fit(X, y_bar, **how)
    assert runs.state(0)["1.num_batches_tracked"] == 8 * (runs.best_epoch[0] + 1)  # the buffers are of the best epoch
    means = runs.buffers["1.running_mean"]
    assert (means[0] - means[1]).abs().max() > 0.01
    for m in range(3):
        assert_same_runs(runs, alone(m, norm_net).fit(X, y_bar, **how), TOLERANCE, runs=[m])


@pytest.mark.parametrize("network", [Recorder, norm_net])
def test_networks_go_together_or_one_by_one(network):
    """One that looks at values cannot be stacked; the runs come out as they do alone either way."""
    X, _, y_bar = blobs()
    runs = make(network).fit(X, y_bar, max_epochs=2)
    for m in range(3):
        assert_same_runs(runs, alone(m, network).fit(X, y_bar, max_epochs=2), TOLERANCE, runs=[m])


class Graph:
    """A stand-in for a CUDA graph: whenever it is replayed, it takes the steps of its capture."""

    def __init__(self):
        self.steps = []

    def replay(self):
        for step in self.steps:
            step()


@pytest.mark.parametrize("network", [mlp, dropout_net])
def test_captured_steps_are_steps_and_the_warm_up_leaves_no_trace(network, monkeypatch):
    X, _, y_bar = blobs()
    plain = make(network).fit(X, y_bar, max_epochs=2)
    step, graphs = Stack._step, []

    @contextlib.contextmanager
    def capture(graph, stream, capture_error_mode):
        assert capture_error_mode == "thread_local"  # a thread that reads ahead may use the device meanwhile
        graphs.append(graph)
        with monkeypatch.context() as patch:
            patch.setattr(Stack, "_step", lambda self, **of: graph.steps.append(functools.partial(step, self, **of)))
            yield

    stream = types.SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(Stack, "captures", property(lambda self: True, lambda self, value: None), raising=False)
    for name, stand_in in {"CUDAGraph": Graph, "graph": capture, "stream": contextlib.nullcontext}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda device: stream)
    assert_same_runs(make(network).fit(X, y_bar, max_epochs=2), plain, TOLERANCE)
    assert {len(graph.steps) for graph in graphs} == ({8} if network is mlp else {1})


class Drawing(nn.Linear):
    """A layer that draws, and has no part of torch's that says so."""

    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.3, self.training))


@pytest.mark.parametrize("network", [dropout_net, lambda: Drawing(4, 3)])
def test_what_a_run_draws_does_not_depend_on_the_grouping(network):
    X, _, y_bar = blobs()
    together = make(network).fit(X, y_bar, max_epochs=2)
    for m in range(3):
        assert_same_runs(together, alone(m, network).fit(X, y_bar, max_epochs=2), TOLERANCE, runs=[m])


class Partly(nn.Module):
    """A network with a frozen layer, and a parameter that it does not use."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(4, 6).requires_grad_(False)
        self.head = nn.Linear(6, 3)
        self.idle = nn.Parameter(torch.ones(2, 2))

    def forward(self, x):
        return self.head(self.frozen(x).tanh())


@pytest.mark.parametrize("n_runs", [1, 3])
def test_frozen_and_unused_parameters_stay_as_they_are(n_runs):
    X, _, y_bar = blobs()
    runs = make(Partly, seeds=SEEDS[:n_runs], lr=0.01, weight_decay=0.0)
    starts = [runs.state(m) for m in range(n_runs)]
    runs.fit(X, y_bar, max_epochs=1)
    for m in range(n_runs):
        assert runs.state(m).keys() == Partly().state_dict().keys()
        for name, value in runs.state(m).items():
            assert torch.equal(value, starts[m][name]) == (not name.startswith("head")), name


def test_logits_states_and_networks_of_runs():
    X, _, y_bar = blobs()
    runs = make().fit(X, y_bar, max_epochs=1)
    logits = runs.logits(X)
    assert logits.shape == (3, 240, 3)
    assert not logits.requires_grad
    for m in range(3):
        assert torch.equal(runs.logits(X, run=m), logits[m])
        torch.testing.assert_close(runs.network(m)(torch.tensor(X)), logits[m])
        assert runs.state(m).keys() == mlp().state_dict().keys()
    assert runs.logits(X[:0]).shape == (3, 0, 3)
    runs.state(0)["layers.0.bias"].zero_()  # a copy
    assert torch.equal(runs.logits(X), logits)


# ---- runs that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_one", [1, 3])
@pytest.mark.parametrize("valid", [None, np.arange(60)])
def test_a_run_that_blows_up_fails_alone(monkeypatch, valid, in_one):
    monkeypatch.setattr(training, "_STACK_ON_CPU", in_one * 67)  # the parameters of one run
    X, _, y_bar = blobs()
    how = {"max_epochs": 4, "validation_rows": valid}
    sound = make(lr=0.01).fit(X, y_bar, **how)
    runs = make(lr=[0.01, 1e30, 0.01]).fit(X, y_bar, **how)
    assert list(runs.failed) == [1]
    assert runs.failed[1] == "its loss was nan in epoch 0, at learning rate 1e+30"
    assert sound.failed == {}
    for name, values in runs.history.items():
        np.testing.assert_array_equal(values[:, [0, 2]], sound.history[name][:, [0, 2]])
        assert np.isnan(values[1:, 1]).all()
    for name, value in runs.parameters.items():
        assert torch.equal(value[[0, 2]], sound.parameters[name][[0, 2]])
    np.testing.assert_array_equal(runs.best_epoch[[0, 2]], sound.best_epoch[[0, 2]])


def late(epoch):
    """A schedule under which a learning rate of 1e-32 becomes 0.01, and one of 0.01 becomes absurd."""
    return 1.0 if epoch < 2 else 1e30


@pytest.mark.parametrize("in_one", [1, 2])
@pytest.mark.parametrize("valid", [None, np.arange(0, 240, 3)])
def test_a_run_that_fails_keeps_the_best_state_it_had(monkeypatch, valid, in_one):
    monkeypatch.setattr(training, "_STACK_ON_CPU", in_one * 67)
    X, _, y_bar = blobs()
    options = {"seeds": [0, 1], "lr": [1e-32, 0.01], "weight_decay": 0.0, "schedule": late}
    how = {"validation_rows": valid, "select": "risk"}
    before = make(**options).fit(X, y_bar, max_epochs=2, **how)
    runs = make(**options).fit(X, y_bar, max_epochs=4, **how)
    assert list(runs.failed) == [1]
    assert "in epoch 2, at learning rate 0.01" in runs.failed[1]
    assert runs.best_epoch[1] == before.best_epoch[1]
    for name, value in runs.parameters.items():
        assert torch.equal(value[1], before.parameters[name][1])
        assert torch.isfinite(value).all()
    assert len(runs.history["loss"]) == 4  # the other run went on
    assert np.isfinite(runs.history["loss"][:, 0]).all()


def test_when_all_runs_fail_training_ends():
    X, _, y_bar = blobs()
    runs = make(lr=1e30).fit(X, y_bar, max_epochs=50)
    assert sorted(runs.failed) == [0, 1, 2]
    assert len(runs.history["loss"]) == 1


@pytest.mark.parametrize("sample_weight", [None, np.linspace(0.5, 2, 240)])
def test_class_risks_are_means_over_the_rows_with_a_label(sample_weight):
    X, _, y_bar = blobs()
    ruled_out = np.eye(3, dtype=bool)[y_bar]
    ruled_out[::2] = False
    how = {"max_epochs": 1, "sample_weight": sample_weight, "class_risks": True}
    all_rows = make(lr=0.0).fit(X, ruled_out, **how).history
    labelled = make(lr=0.0).fit(X, ruled_out, rows=np.arange(1, 240, 2), **how).history
    for k in range(3):
        np.testing.assert_allclose(all_rows[f"class_risk_{k}"], labelled[f"class_risk_{k}"], rtol=1e-5)


# ---- interruption and checkpoints -----------------------------------------------------------------------------


def test_an_interruption_keeps_what_was_trained():
    X, _, y_bar = blobs()
    runs = make().fit(X, y_bar, max_epochs=9, validation_rows=np.arange(60), bar=stop_after(3))
    assert runs.interrupted
    assert_same_runs(runs, make().fit(X, y_bar, max_epochs=3, validation_rows=np.arange(60)))
    assert not make().fit(X, y_bar, max_epochs=1).interrupted


def test_an_interruption_in_the_first_epoch_leaves_the_start():
    X, _, y_bar = blobs()

    def schedule(epoch):
        raise KeyboardInterrupt

    runs = make(schedule=schedule)
    start = {k: v.clone() for k, v in runs.parameters.items()}
    runs.fit(X, y_bar, max_epochs=3)
    assert runs.interrupted
    assert runs.history == {}
    assert runs.best_epoch.tolist() == [-1, -1, -1]
    for name, value in runs.parameters.items():
        assert torch.equal(value, start[name])


@pytest.mark.usefixtures("saves_always")
@pytest.mark.parametrize("valid", [None, np.arange(0, 240, 3)])
@pytest.mark.parametrize("network", [mlp, norm_net, dropout_net])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, optimizer, network, valid):
    X, y, y_bar = blobs()
    path = tmp_path / "runs"
    how = {"max_epochs": 6, "validation_rows": valid, "test": (X, y), "patience": 2}
    options = {"optimizer": optimizer, "schedule": cosine_schedule(6)}
    whole = make(network, **options).fit(X, y_bar, **how)
    for stop in (1, 2, 4):  # a bar moves on by the epochs resumed too
        stopped = make(network, **options).fit(X, y_bar, checkpoint=path, bar=stop_after(stop), **how)
        assert stopped.interrupted
    resumed = make(network, **options).fit(X, y_bar, checkpoint=path, **how)
    assert_same_runs(resumed, whole)
    again = make(network, **options).fit(X, y_bar, checkpoint=path, **how)  # of a finished training
    assert_same_runs(again, whole)


@pytest.mark.usefixtures("saves_always")
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_runs_that_stopped_early_do_not_disturb_the_resumed_ones(monkeypatch, tmp_path, optimizer):
    """Run 0 stops at once and takes fewer steps than the others, each in a group of its own."""
    monkeypatch.setattr(training, "_STACK_ON_CPU", 1)
    X, _, y_bar = blobs()
    how = {"max_epochs": 8, "validation_rows": np.arange(0, 240, 3), "patience": 1, "select": "risk"}
    options = {"optimizer": optimizer, "objective": objectives.Forward(3), "lr": [0.0, 0.002, 0.001]}
    whole = make(**options).fit(X, y_bar, **how)
    assert np.isnan(whole.history["loss"][2:, 0]).all()
    assert len(whole.history["loss"]) == 8
    assert np.isfinite(whole.history["loss"][:, 1]).all()
    make(**options).fit(X, y_bar, checkpoint=tmp_path / "runs", bar=stop_after(5), **how)
    assert_same_runs(make(**options).fit(X, y_bar, checkpoint=tmp_path / "runs", **how), whole)


@pytest.mark.usefixtures("saves_always")
def test_a_failed_run_stays_failed_when_resumed(tmp_path):
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    how = {"max_epochs": 4, "validation_rows": np.arange(60)}
    whole = make(lr=[0.01, 1e30, 0.01]).fit(X, y_bar, **how)
    make(lr=[0.01, 1e30, 0.01]).fit(X, y_bar, checkpoint=path, bar=stop_after(3), **how)
    resumed = make(lr=[0.01, 1e30, 0.01]).fit(X, y_bar, checkpoint=path, **how)
    assert_same_runs(resumed, whole)
    assert resumed.failed == whole.failed


@pytest.mark.usefixtures("saves_always")
def test_a_checkpoint_serves_another_grouping(monkeypatch, tmp_path):
    X, _, y_bar = blobs()
    whole = make().fit(X, y_bar, max_epochs=4)
    make().fit(X, y_bar, max_epochs=4, checkpoint=tmp_path / "runs", bar=stop_after(3))
    monkeypatch.setattr(training, "_STACK_ON_CPU", 1)
    assert_same_runs(make().fit(X, y_bar, max_epochs=4, checkpoint=tmp_path / "runs"), whole, TOLERANCE)


def test_more_epochs_go_on_from_a_finished_checkpoint(tmp_path):
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    whole = make().fit(X, y_bar, max_epochs=5)
    make().fit(X, y_bar, max_epochs=3, checkpoint=path)
    assert_same_runs(make().fit(X, y_bar, max_epochs=5, checkpoint=path), whole)


def test_fewer_epochs_leave_a_checkpoint_as_it_was(tmp_path):
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    whole = make().fit(X, y_bar, max_epochs=5)
    for max_epochs in (4, 2):
        make().fit(X, y_bar, max_epochs=max_epochs, checkpoint=path)
    assert_same_runs(make().fit(X, y_bar, max_epochs=5, checkpoint=path), whole)


def test_a_checkpoint_holds_the_best_state_only_where_it_is_another(tmp_path):
    X, _, y_bar = blobs()
    make().fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "runs")
    tensors, _ = read_tensors(tmp_path / "runs")
    assert {name.split(".")[0] for name in tensors if name.endswith("weight")} == {"now"}
    falling = np.where(np.arange(240) < 60, y_bar, (y_bar + 1) % 3)  # the rows held out get worse by what is learned
    make(lr=0.1).fit(X, falling, max_epochs=9, validation_rows=np.arange(60), checkpoint=tmp_path / "others")
    tensors, _ = read_tensors(tmp_path / "others")
    assert {name.split(".")[0] for name in tensors if name.endswith("weight")} == {"now", "best"}


def test_checkpoints_are_rare(tmp_path):
    """Within half a minute only the end is saved, so an interruption before it leaves no file."""
    X, _, y_bar = blobs()
    make().fit(X, y_bar, max_epochs=3, checkpoint=tmp_path / "runs", bar=stop_after(2))
    assert not (tmp_path / "runs").exists()
    make().fit(X, y_bar, max_epochs=3, checkpoint=tmp_path / "runs")
    assert [file.name for file in tmp_path.iterdir()] == ["runs"]  # and nothing half-written beside it


class Tempered(objectives.GradientAscent):
    """An objective with a setting of its own."""

    def __init__(self, n_classes, temperature=1.0, **options):
        super().__init__(n_classes, **options)
        self.temperature = temperature

    def risks(self, logits, y_bar, scales):
        return super().risks(logits / self.temperature, y_bar, scales)


class Noisy(Recipe):
    """A recipe with a setting of its own."""

    def __init__(self, amount):
        super().__init__()
        self.amount = amount


class Scaling(nn.Module):
    """A part whose text does not show its setting."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def scaled(x, codes, by=0.5):
    return x * by


def powered(p):
    return lambda logits: torch.softmax(-logits, dim=-1) ** p


def filled(value):
    module = nn.Linear(4, 3)
    nn.init.constant_(module.weight, value)
    nn.init.constant_(module.bias, value)
    return module


CHANGES = {
    "seeds": {"seeds": [3, 1, 5]},
    "lr": {"lr": [0.01, 0.003, 0.03]},
    "weight decay": {"weight_decay": 0.5},
    "optimizer": {"optimizer": "adamw"},
    "momentum": {"momentum": 0.8},
    "batch size": {"batch_size": 16},
    "schedule": {"schedule": lambda epoch: 0.5},
    "network": {"network": tanh_net},
    "width": {"network": lambda: networks.mlp(4, 3, hidden=(9,))},
    "objective": {"objective": objectives.Unbiased(3)},
    "loss": {"objective": objectives.GradientAscent(3, "mean_squared_error")},
    "beta": {"objective": objectives.GradientAscent(3, beta=0.5)},
    "gamma": {"objective": objectives.GradientAscent(3, gamma=0.5)},
    "alpha": {"objective": objectives.GradientAscent(3, alpha=0.5)},
    "prior": {"objective": objectives.GradientAscent(3, prior=[0.2, 0.3, 0.5])},
    "transition": {"objective": objectives.GradientAscent(3, transition=transition.uniform(3))},
    "a subclass": {"objective": Tempered(3)},
    "precision": {"precision": "bfloat16"},
    "augmentation": {"augment": scaled},
    "recipe": {"recipe": Noisy(0.1)},
    "a given network": {"network": nn.Linear(4, 3)},
}
# What the settings were, and to what they are changed: all that a checkpoint once did not see.
SUBTLE = {
    "a setting of one's own": ({"objective": Tempered(3)}, {"objective": Tempered(3, temperature=2.0)}),
    "a loss of one's own": tuple({"objective": objectives.Unbiased(3, powered(p))} for p in (2, 3)),
    "an augmentation's argument": tuple({"augment": functools.partial(scaled, by=by)} for by in (0.5, 0.25)),
    "an augmentation's closure": tuple({"augment": lambda x, codes, by=by: x * by} for by in (0.5, 0.25)),
    "a recipe's attribute": ({"recipe": Noisy(0.1)}, {"recipe": Noisy(0.2)}),
    "trained weights": ({"network": filled(0.1)}, {"network": filled(0.2)}),
    "a part's attribute": tuple(
        {"network": lambda f=f: nn.Sequential(Scaling(f), nn.Linear(4, 3))} for f in (1.0, 2.0)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_of_other_settings_is_refused(tmp_path, change):
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    make().fit(X, y_bar, max_epochs=1, checkpoint=path)
    with raises(f"the checkpoint {path} is of other data or settings; move it away, or give another file"):
        make(**CHANGES[change]).fit(X, y_bar, max_epochs=2, checkpoint=path)
    make().fit(X, y_bar, max_epochs=2, checkpoint=path)  # it is still whole


@pytest.mark.parametrize("change", SUBTLE)
def test_a_checkpoint_sees_what_settings_are_made_of(tmp_path, change):
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    before, after = SUBTLE[change]
    make(**before).fit(X, y_bar, max_epochs=1, checkpoint=path)
    with raises("is of other data or settings"):
        make(**after).fit(X, y_bar, max_epochs=2, checkpoint=path)
    make(**before).fit(X, y_bar, max_epochs=2, checkpoint=path)


@pytest.mark.parametrize("change", ["inputs", "labels", "rows", "validation rows", "select", "groups", "test"])
def test_a_checkpoint_of_other_data_is_refused(tmp_path, change):
    X, y, y_bar = blobs()
    path = tmp_path / "runs"
    how = {"max_epochs": 1, "rows": np.arange(200), "validation_rows": np.arange(200, 240)}
    make().fit(X, y_bar, checkpoint=path, **how)
    how["max_epochs"] = 2
    if change == "inputs":
        X[0, 0] += 1
    elif change == "labels":
        y_bar[:2] = y_bar[1::-1] + np.array([1, 0]) * (y_bar[0] == y_bar[1])
        y_bar[:2] %= 3
    elif change == "select":
        how["select"] = "risk"
    elif change == "groups":
        how["groups"] = [0, 0, 1]
    elif change == "test":
        how["test"] = (X, y)  # the history would have it for some epochs only
    else:
        how[change.replace(" ", "_")] = np.arange(1, 201) if change == "rows" else np.arange(201, 240)
    with raises("is of other data or settings"):
        make().fit(X, y_bar, checkpoint=path, **how)


@pytest.mark.parametrize("others", [10, 2, None])
def test_a_checkpoint_of_another_patience_is_refused(tmp_path, others):
    """Runs that it stopped may have missed epochs of the others, so they cannot go on with them."""
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    how = {"max_epochs": 6, "validation_rows": np.arange(60), "checkpoint": path}
    stopped = make(lr=0.0).fit(X, y_bar, patience=1, **how)
    assert len(stopped.history["loss"]) == 2
    with raises("is of other data or settings"):
        make(lr=0.0).fit(X, y_bar, patience=others, **how)
    assert_same_runs(make(lr=0.0).fit(X, y_bar, patience=1, **how), stopped)


def test_rows_to_train_on_are_not_taken_for_rows_held_out(tmp_path):
    X, _, y_bar = blobs()
    path, rows = tmp_path / "runs", np.arange(60)
    make().fit(X, y_bar, max_epochs=1, rows=rows, checkpoint=path)
    with raises("is of other data or settings"):
        make().fit(X, y_bar, max_epochs=2, validation_rows=rows, checkpoint=path)


@pytest.mark.parametrize("kept", [0, 4, 100, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(tmp_path, kept):
    X, _, y_bar = blobs()
    path = tmp_path / "runs"
    make().fit(X, y_bar, max_epochs=1, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with raises(f"{path} is not a whole file of naysayer's"):
        make().fit(X, y_bar, max_epochs=2, checkpoint=path)


def test_a_bar_moves_once_an_epoch(tmp_path):
    X, _, y_bar = blobs()
    for max_epochs, expected in ((2, 2), (5, 5), (5, 5)):  # resumed epochs count
        calls = []
        bar = lambda advance=1, label=None: calls.append(advance)  # noqa: B023, E731
        make().fit(X, y_bar, max_epochs=max_epochs, checkpoint=tmp_path / "runs", bar=bar)
        assert sum(calls) == expected


# ---- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": []}, "`seeds` must hold at least one seed"),
        ({"seeds": 3}, "`seeds` must hold a whole number for each run; got 3"),
        ({"seeds": ["a"]}, "`seeds` must hold a whole number for each run; got ['a']"),
        (
            {"schedule": "cosine"},
            "`schedule` must be None, or a function from the epoch to a factor",
        ),
        ({"optimizer": "lion"}, "`optimizer` must be one of adam, adamw, sgd, nesterov; got 'lion'"),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1; got 0"),
        ({"batch_size": 2.5}, "`batch_size` must be a whole number of at least 1; got 2.5"),
        ({"lr": [0.1, 0.2]}, "`lr` must be one number or one per run; got 2 for 3 runs"),
        ({"weight_decay": [0.1] * 4}, "`weight_decay` must be one number or one per run; got 4 for 3 runs"),
        ({"lr": -0.1}, "`lr` must be finite and not negative; got -0.1"),
        ({"lr": math.nan}, "`lr` must be finite and not negative; got nan"),
        ({"weight_decay": math.inf}, "`weight_decay` must be finite and not negative; got inf"),
        ({"device": "toaster"}, "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got 'toaster'"),
        ({"device": None}, "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got None"),
    ],
)
def test_settings_refused(options, words):
    with raises(words):
        make(**options)


def test_what_is_no_network_or_objective_is_refused():
    with raises("`network` must be a module, or a function that builds one; got 'mlp'"):
        make("mlp")
    with raises("`objective` must be an objective, or one per run; got 'forward'; naysayer.objectives.make builds one"):
        make(objective="forward")


def test_a_missing_accelerator_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with raises("`device` is 'cuda', but no CUDA device is here; pass device='auto'"):
        make(device="cuda")
    assert make(device="auto").device == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda:2", "cuda:7", torch.device("cuda", 2)])
def test_a_device_beyond_the_last_one_is_named(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with raises(f"`device` must be one of the 2 CUDA devices here, from 'cuda:0' on; got {name!r}"):
        training.pick_device(name)
    assert [training.pick_device(one).index for one in ("cuda:1", "cuda:0", "cuda", "auto")] == [1, 0, None, None]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"select": "loss"}, "`select` must be one of accuracy, risk, objective, last; got 'loss'"),
        ({"max_epochs": 0}, "`max_epochs` must be a whole number of at least 1; got 0"),
        ({"max_epochs": 1.5}, "`max_epochs` must be a whole number of at least 1; got 1.5"),
        ({"rows": []}, "`rows` must hold at least one row"),
        ({"groups": [0, 1]}, "`groups` must name one group per run; got shape (2,) for 3 runs"),
        ({"y_bar": np.zeros((2, 240), dtype=int)}, "`y_bar` with one row per run must have 3 rows; got shape (2, 240)"),
        ({"y_bar": np.zeros(239, dtype=int)}, "`X` and `y_bar` must have the same number of rows; got 240 and 239"),
        (
            {"y_bar": np.zeros((3, 239), dtype=int)},
            "`X` and `y_bar` must have the same number of rows; got 240 and 239",
        ),
        ({"y_bar": np.full(240, 3)}, "`y_bar` must hold classes 0 to 2; got 3 at row 0; pass n_classes=4?"),
        ({"y_bar": np.full((3, 240), -1)}, "`y_bar` must hold classes 0 to 2; got -1 at row 0"),
        ({"y_bar": np.ones((240, 3), dtype=bool)}, "each row of `y_bar` must leave a class possible"),
    ],
)
def test_data_refused(how, words):
    X, _, y_bar = blobs()
    with raises(words):
        make().fit(X, **({"y_bar": y_bar, "max_epochs": 1} | how))


SAYS_LITTLE = np.eye(3, dtype=bool)[np.arange(240) % 3] & (np.arange(240) > 8)[:, None]  # nothing in the first rows


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"rows": [0, 240]}, "`rows` must"),  # past the end
        ({"rows": [-1, 0]}, "`rows` must"),
        ({"rows": np.zeros((2, 5), dtype=int)}, "`rows` must"),  # three runs
        ({"rows": np.arange(240) < 100}, "`rows` must"),  # a mask, which would train on rows 0 and 1 only
        ({"rows": [0.5, 1.0]}, "`rows` must"),
        ({"validation_rows": []}, "`validation_rows` must"),  # the score of nothing
        ({"validation_rows": [240]}, "`validation_rows` must"),
        ({"validation_rows": np.arange(240) < 100}, "`validation_rows` must"),
        ({"y_bar": SAYS_LITTLE, "validation_rows": np.arange(9)}, "`validation_rows` must hold, for each run, a row"),
        ({"y_bar": SAYS_LITTLE, "rows": [[8, 9], [9, 10], [7, 8]]}, "`rows` must hold, for each run, a row that rules"),
        ({"validation_rows": [1, 2], "sample_weight": np.arange(240) > 2}, "`validation_rows` must hold, for each"),
        ({"y_bar": SAYS_LITTLE, "sample_weight": np.arange(240) < 9}, "one row whose `sample_weight` is above 0"),
        ({"test": (np.zeros((10, 4), dtype="float32"), np.zeros(11, dtype=int))}, "`test` must"),
        ({"test": (np.zeros((10, 4), dtype="float32"), np.zeros(9, dtype=int))}, "`test` must"),
        (
            {"test": (np.zeros((9, 5), dtype="float32"), np.zeros(9, dtype=int))},
            "`test` must have inputs of the shape",
        ),
        (
            {"test": (np.zeros((3, 4), dtype="float32"), [1, 2, 3])},
            "`test[1]` must hold classes 0 to 2; got 3",
        ),
        ({"y_bar": ["cat"] * 240}, "`y_bar` must"),
        ({"X": np.zeros(240, dtype="float32")}, "`X` must"),
        ({"patience": 0}, "`patience` must"),
        ({"patience": 3, "select": "last"}, "`patience` must be None where `select` is 'last'"),
    ],
)
def test_data_that_would_fail_later_or_silently_is_refused(how, words):
    X, _, y_bar = blobs()
    with raises(words):
        make().fit(**({"X": X, "y_bar": y_bar, "max_epochs": 1} | how))


@pytest.mark.parametrize("n_threads", [2, 3])
def test_chunks_in_threads_of_their_own_give_the_same_bits(n_threads, monkeypatch):
    monkeypatch.setattr(training, "_STACK_ON_CPU", 1)
    rng = np.random.default_rng(0)
    X, y_bar = rng.normal(size=(120, 6)).astype("float32"), rng.integers(0, 4, 120)
    before = torch.get_num_threads()
    histories = []
    try:
        for threads in (1, n_threads):
            torch.set_num_threads(threads)
            runs = Population(lambda: networks.mlp(6, 4, (16,)), objectives.GradientAscent(4), seeds=range(5), lr=0.01)
            runs.fit(X, y_bar, max_epochs=4, rows=np.arange(100), validation_rows=np.arange(100, 120))
            assert torch.get_num_threads() == threads
            histories.append(runs)
    finally:
        torch.set_num_threads(before)
    for name, values in histories[0].history.items():
        np.testing.assert_array_equal(values, histories[1].history[name])
    assert torch.equal(histories[0].logits(X), histories[1].logits(X))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "nesterov"])
@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_one_run_cut_into_one_part_per_thread_is_the_run_uncut(optimizer, kind, monkeypatch, tmp_path):
    monkeypatch.setattr(training, "_SMALL_STEP", 0)
    cut, whole = [], passes._in_parts

    def counted(parts, *parameters):
        run = whole(parts, *parameters)
        return lambda x: (cut.append(len(x)), run(x))[1]

    monkeypatch.setattr(passes, "_in_parts", counted)
    rng = np.random.default_rng(0)
    X, y_bar = rng.integers(0, 256, (120, 6)).astype(kind), rng.integers(0, 4, 120)
    X = X if kind == "uint8" else X / np.float32(255)
    options = {"seeds": [3], "lr": 0.01, "weight_decay": 0.1, "optimizer": optimizer, "batch_size": 50}
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):  # 16 hidden units are not cut into three
            torch.set_num_threads(threads)
            runs = Population(lambda: networks.mlp(6, 4, (16,)), objectives.GradientAscent(4), **options)
            split = {"rows": np.arange(100), "validation_rows": np.arange(100, 120)}
            runs.fit(X, y_bar, max_epochs=3, **split, checkpoint=tmp_path / str(threads))
            runs.fit(X, y_bar, max_epochs=6, **split, checkpoint=tmp_path / str(threads))
            found.append(runs)
    finally:
        torch.set_num_threads(before)
    assert set(cut) == {2}
    assert len(cut) == 12  # 6 epochs of 2 steps
    for runs in found[1:]:
        for name, values in found[0].history.items():
            np.testing.assert_allclose(values, runs.history[name], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found[0].logits(X), runs.logits(X), rtol=1e-4, atol=1e-5)


class Greedy(nn.Module):
    """A linear network that asks for more memory than any machine has, from so many examples on."""

    def __init__(self, first):
        super().__init__()
        self.layer, self.first = nn.Linear(4, 3), first

    def forward(self, x):
        if len(x) >= self.first:
            torch.empty(1 << 50)
        return self.layer(x)


NO_MEMORY = (
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 96.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: not enough memory"),
)
STEP = "the device must have memory for a step of 32 examples and all their views; cpu has not; lower `batch_size`, the"


@pytest.mark.parametrize("first", [1, 3], ids=["tried", "trained"])
def test_a_step_that_does_not_fit_into_memory_says_what_to_lower(first):
    X, _, y_bar = blobs()
    with raises(STEP, MemoryError):
        make(lambda: Greedy(first), seeds=[0], lr=0.1, weight_decay=0.0).fit(X, y_bar, max_epochs=1)


@pytest.mark.parametrize("error", NO_MEMORY, ids=["cuda", "cpu"])
def test_data_that_do_not_fit_into_memory_say_so(monkeypatch, error):
    def prepare(self, seeds, batch_size, device):
        raise error

    monkeypatch.setattr(Resident, "prepare", prepare)
    X, _, y_bar = blobs()
    with raises(
        "the device must have memory for the examples that it is given; cpu has not; pass uint8 where float32 is not "
        "needed, fewer examples, or a stream (naysayer.open_stream)",
        MemoryError,
    ):
        make().fit(X, y_bar, max_epochs=1)


def test_another_error_of_a_step_is_not_taken_for_one_of_memory(monkeypatch):
    def views(self, *_):
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(Recipe, "views", views)
    X, _, y_bar = blobs()
    with raises("shapes cannot be multiplied", RuntimeError):
        make().fit(X, y_bar, max_epochs=1)


# ---- an objective a run, class risks, images -----------------------------------------------------------------


def all_objectives():
    q = 0.1 * np.eye(3) + 0.9 * (1 - np.eye(3)) / 2
    named = [objectives.OBJECTIVES[name](3) for name in ("free", "max", "ascent", "forward", "pairwise")]
    return [*named, objectives.GradientAscent(3, transition=q), objectives.Forward(3, transition=q)]


@pytest.mark.parametrize("chunk", [1, 1 << 17])
@pytest.mark.parametrize("labels", ["classes", "ruled out", "one row a run"])
def test_runs_of_different_objectives_are_the_runs_alone(labels, chunk, monkeypatch):
    monkeypatch.setattr(training, "_STACK_ON_CPU", chunk)
    X, y, y_bar = blobs()
    given = all_objectives()
    n = len(given)
    if labels == "ruled out":
        y_bar = complement(y, 3, n_labels=2, random_state=0)
    if labels == "one row a run":
        y_bar = np.stack([complement(y, 3, random_state=s) for s in range(n)])
    options = {"lr": 0.01, "weight_decay": 1e-3, "batch_size": 32, "device": "cpu"}
    fit = {"max_epochs": 3, "rows": np.arange(160), "validation_rows": np.arange(160, 240), "class_risks": True}
    together = Population(mlp, given, seeds=range(n), **options).fit(X, y_bar, **fit)
    for m, objective in enumerate(given):
        own = y_bar[m] if labels == "one row a run" else y_bar
        alone = Population(mlp, objective, seeds=[m], **options).fit(X, own, **fit)
        assert_same_runs(together, alone, tolerance=2e-5, runs=[m])


def test_alpha_and_prior_are_each_runs_own():
    X, y, y_bar = blobs()
    mixed = np.eye(3, dtype=bool)[y_bar]
    mixed[:40] = ~np.eye(3, dtype=bool)[y[:40]]
    given = [objectives.Unbiased(3, alpha=0.2), objectives.Unbiased(3), objectives.Unbiased(3, prior=[0.5, 0.3, 0.2])]
    options = {"lr": 0.01, "device": "cpu"}
    together = Population(mlp, given, seeds=[0, 0, 0], **options).fit(X, mixed, max_epochs=3)
    for m, objective in enumerate(given):
        alone = Population(mlp, objective, seeds=[0], **options).fit(X, mixed, max_epochs=3)
        assert_same_runs(together, alone, tolerance=2e-5, runs=[m])
    assert len({float(v) for v in together.history["loss"][-1]}) == 3


@pytest.mark.parametrize(
    "given", [[objectives.Unbiased(3)], [objectives.Unbiased(3)] * 3, [objectives.Unbiased(3), objectives.Unbiased(4)]]
)
def test_objectives_that_do_not_fit_the_runs_are_refused(given):
    with raises("`objective` must be one objective, or one per run with the same number of classes each"):
        Population(mlp, given, seeds=[0, 1])


def test_class_risks_sum_to_the_unbiased_risk():
    X, _, y_bar = blobs()
    rows = np.arange(150)
    runs = make().fit(X, y_bar, max_epochs=3, rows=rows, validation_rows=rows, class_risks=True)
    parts = [runs.history[f"class_risk_{k}"] for k in range(3)]
    np.testing.assert_allclose(sum(parts), runs.history["valid_risk"], rtol=1e-5)
    weights = np.where(np.eye(3, dtype=bool)[y_bar[rows]], -1.0, 1.0)
    last = make().fit(X, y_bar, max_epochs=3, rows=rows, class_risks=True)  # whose kept state is the last
    by_hand = [-np.log(torch.softmax(last.logits(X[rows], run=0), -1).numpy())[:, k] for k in range(3)]
    for k in range(3):
        assert last.history[f"class_risk_{k}"][-1, 0] == pytest.approx((weights[:, k] * by_hand[k]).mean(), abs=1e-5)


def pictures(n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = np.clip(60 * y[:, None, None, None] + rng.integers(0, 90, (n, 3, 8, 8)), 0, 255).astype("uint8")
    return X, complement(y, 3, random_state=0)


@pytest.mark.parametrize(
    "options", [{}, {"precision": "bfloat16"}, {"augment": functools.partial(crop_and_flip, padding=1)}]
)
def test_a_network_of_convolutions_learns_resumes_and_repeats(options, tmp_path):
    X, y_bar = pictures()

    def start():
        net = functools.partial(networks.resnet34, 3, width=2)
        return Population(net, objectives.Forward(3), seeds=[0, 1], lr=0.05, optimizer="sgd", batch_size=20, **options)

    fit = {"rows": np.arange(45), "validation_rows": np.arange(45, 60)}
    whole = start().fit(X, y_bar, max_epochs=6, **fit)
    assert whole.history["loss"][-1].mean() < whole.history["loss"][0].mean()
    assert whole.logits(X).dtype == torch.float32
    start().fit(X, y_bar, max_epochs=2, checkpoint=tmp_path / "c", **fit)
    assert_same_runs(start().fit(X, y_bar, max_epochs=6, checkpoint=tmp_path / "c", **fit), whole)


def test_augmented_images_differ_by_epoch_and_leave_validation_alone():
    X, y_bar = pictures()
    seen = []

    def watch(images, codes):
        seen.append((images.clone(), codes))
        return images

    net = functools.partial(networks.resnet34, 3, width=2)
    options = {"seeds": [0], "lr": 0.01, "batch_size": 60, "device": "cpu"}
    watched = Population(net, objectives.Forward(3), augment=watch, **options)
    watched.fit(X, y_bar, max_epochs=3, validation_rows=np.arange(60))
    plain = Population(net, objectives.Forward(3), **options).fit(X, y_bar, max_epochs=3, validation_rows=np.arange(60))
    assert_same_runs(watched, plain)
    assert len(seen) == 3  # training batches only
    assert all(images.dtype == torch.uint8 for images, _ in seen)
    assert len({int(codes.sum()) for _, codes in seen}) == 3


def test_an_unknown_precision_is_refused():
    with raises("`precision` must be one of float32, bfloat16; got 'float16'"):
        Population(mlp, objectives.Forward(3), precision="float16")
