"""Objectives with `group=`: gradients averaged over processes are those of one process with the whole batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.multiprocessing
from filelock import FileLock
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers import as_sets, is_rows, of_all_workers, raises, random_transition
from naysayer import Population, complement, networks, objectives
from naysayer.objectives import OBJECTIVES, make

K, STEPS, BATCH = 4, 50, 40
WORLD = 4  # of which two have a group of their own
SHARES = {4: (0.5, 0.3, 0.2, 0.0), 2: (0.8, 0.2)}  # of a batch that each process has; one has no rows at all
CASES = [(name, "single", False) for name in OBJECTIVES]
CASES += [(name, "mixed", False) for name in ("ascent", "forward", "mcl-log", "scarce", "proden")]
CASES += [(name, "mixed", True) for name in ("ascent", "forward", "cpe-t")]


def data(labels):
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, 400)
    X = torch.tensor(rng.normal(size=(400, 6)) + 2 * np.eye(K, 6)[y], dtype=torch.float32)
    if labels == "single":
        return X, torch.tensor(complement(y, K, random_state=0))
    several = complement(y, K, n_labels=2, random_state=1)
    several[::3] = as_sets(complement(y, K, random_state=2)[::3], K)
    several[1::4] = is_rows(y[1::4], K)
    several[::11] = False
    return X, torch.tensor(several)


def make_objective(name, known, group=None):
    return make(name, K, transition=random_transition(K) if known else None, group=group)


def train(objective, labels, share=slice(None), wrap=lambda network: network, mend=lambda p: None):
    """Fifty steps of SGD; `share` is the part of each batch that this process has."""
    torch.manual_seed(0)
    network = wrap(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, K)))
    parameters = [*network.parameters(), *objective.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    X, y_bar = data(labels)
    values = []
    for step in range(STEPS):
        rows = torch.arange(step * BATCH, (step + 1) * BATCH) * 7 % len(X)
        rows = rows[share]
        optimizer.zero_grad()
        value = objective(network(X[rows]), y_bar[rows])
        value.backward()
        mend(objective.parameters())
        optimizer.step()
        values.append(value.item())
    return [p.detach().clone() for p in parameters], values


def part(rank, world):
    ends = np.cumsum((0, *SHARES[world]))
    return slice(round(ends[rank] * BATCH), round(ends[rank + 1] * BATCH))


def spread_out(rank, folder):
    """What each process does: train every method on its part of every batch, in DDP."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    two = torch.distributed.new_group([0, 1])
    found = {}
    for group, world in ((True, WORLD), (two, 2)):
        if rank >= world:
            continue
        process_group = None if group is True else group

        def wrap(network, process_group=process_group):
            return DistributedDataParallel(network, process_group=process_group)

        def average(parameters, process_group=process_group, world=world):
            for p in parameters:  # those of the objective itself, of which DDP knows nothing
                torch.distributed.all_reduce(p.grad, group=process_group)
                p.grad /= world

        for case in CASES if world == WORLD else CASES[::4]:
            objective = make_objective(case[0], case[2], group)
            found[(world, *case)] = train(objective, case[1], part(rank, world), wrap, average)
        mine = part(rank, world)
        mine = mine if mine.start < mine.stop else slice(1)  # alone, one must have a row
        found[world, "alone"] = train(make_objective("ascent", False), "single", mine, wrap)
    objective = make_objective("ascent", False, True)
    X, y_bar = data("single")
    mine = part(rank, WORLD)
    found["class risks"] = objective.class_risks(X[:BATCH, :K][mine], y_bar[:BATCH][mine])
    runs = Population(lambda: networks.linear(6, K), objective, device="cpu")
    found["population"] = runs.reduce is runs.objectives[0].reduce and "group" not in objective.settings()
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What four processes made of every method; the workers of a run share it."""
    folder = of_all_workers(tmp_path_factory) / "groups"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            torch.multiprocessing.spawn(spread_out, (str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


@pytest.mark.parametrize(("name", "labels", "known"), CASES)
def test_processes_are_one(processes, name, labels, known):
    parameters, values = train(make_objective(name, known), labels)
    worlds = [world for world in SHARES if (world, name, labels, known) in processes[0]]
    assert WORLD in worlds
    for world in worlds:
        for mine in processes[:world]:
            found, whole = mine[world, name, labels, known]
            for ours, one in zip(found, parameters, strict=True):
                torch.testing.assert_close(ours, one, rtol=0, atol=1e-5)
            np.testing.assert_allclose(whole, values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world", SHARES)
def test_gradient_ascent_without_a_group_is_another_method(processes, world):
    """So that the comparison can fail."""
    parameters, _ = train(make_objective("ascent", False), "single")
    found, _ = processes[0][world, "alone"]
    assert max(float((a - b).abs().max()) for a, b in zip(found, parameters, strict=True)) > 0.01


def test_class_risks_are_of_the_whole_batch(processes):
    X, y_bar = data("single")
    whole = make_objective("ascent", False).class_risks(X[:BATCH, :K], y_bar[:BATCH])
    for mine in processes:
        torch.testing.assert_close(mine["class risks"], whole)


def test_a_population_sums_over_its_objectives_group(processes):
    assert all(mine["population"] for mine in processes)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_group_needs_processes(name):
    with raises("a process group must be initialised first: torch.distributed.init_process_group('gloo')"):
        OBJECTIVES[name](K, group=True)
    assert objectives.make(name, K, group=None).reduce is None
