"""Objectives with `group=`: gradients averaged over processes are those of one process with the whole batch."""

from __future__ import annotations

import importlib
import itertools
import sys

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from helpers import as_sets, fork, is_rows, of_all_workers, raises, random_transition, start_python
from naysayer import Population, complement, networks, objectives
from naysayer.objectives import OBJECTIVES, make

K, STEPS, BATCH = 4, 50, 40
WORLD = 4  # of which two have a group of their own, and one, too
SHARES = {4: (0.5, 0.3, 0.2, 0.0), 2: (0.8, 0.2), 1: (1.0,)}  # of a batch that each process has; one has no rows at all
CASES = [(name, "single", False) for name in OBJECTIVES]
CASES += [(name, "mixed", False) for name in ("ascent", "forward", "mcl-log", "scarce", "proden")]
CASES += [(name, "mixed", True) for name in ("ascent", "forward", "cpe-t")]
WAYS = ("ddp", "fsdp", "plain")  # in which gradients are averaged
SOME = [("ascent", "single", False), *CASES[-3:]]  # in all of these ways


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


class Networks(nn.Module):
    """Networks side by side, so that one message carries the gradients of all."""

    def __init__(self, n):
        super().__init__()
        self.each = nn.ModuleList()
        for _ in range(n):
            torch.manual_seed(0)
            self.each.append(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, K)))

    def forward(self, x):
        return [network(x) for network in self.each]


def train(objectives, labels, share=slice(None), wrap=lambda networks: networks, mend=lambda networks, own: None):
    """Fifty steps of SGD of each objective on labels of its kind; `share` is the part of a batch that this process has.

    `wrap` is for the networks, `mend` for gradients that nobody else averages: those of the objectives' own layers.
    """
    networks = wrap(Networks(len(objectives)))
    own = [p for objective in objectives for p in objective.parameters()]
    optimizer = torch.optim.SGD([*networks.parameters(), *own], lr=0.05)
    X, told = data("single")[0], {kind: data(kind)[1] for kind in ("single", "mixed")}
    values = []
    for step in range(STEPS):
        rows = (torch.arange(step * BATCH, (step + 1) * BATCH) * 7 % len(X))[share]
        optimizer.zero_grad()
        logits = networks(X[rows])
        found = [objective(g, told[kind][rows]) for objective, g, kind in zip(objectives, logits, labels)]
        sum(found).backward()
        mend(networks, own)
        optimizer.step()
        values.append([value.item() for value in found])
    each = networks.module.each if isinstance(networks, DistributedDataParallel) else networks.each
    parameters = [[*network.parameters(), *objective.parameters()] for network, objective in zip(each, objectives)]
    whole = [[getattr(p, "full_tensor", lambda p=p: p)().detach().clone() for p in some] for some in parameters]
    return list(zip(whole, map(list, zip(*values))))


def part(rank, world):
    ends = np.cumsum((0, *SHARES[world]))
    return slice(round(ends[rank] * BATCH), round(ends[rank + 1] * BATCH))


def in_fsdp(networks):
    mesh = init_device_mesh("cpu", (WORLD,))
    return fully_shard(networks, mesh=mesh)


def spread_out(rank, folder):
    """What each process does: train every method on its part of every batch."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    two, one = torch.distributed.new_group([0, 1]), torch.distributed.new_group([0])
    found = {}
    for group, world in ((True, WORLD), (two, 2), (one, 1)):
        if rank >= world:
            continue
        process_group = None if group is True else group

        def average(parameters, process_group=process_group, world=world):
            for p in parameters:
                torch.distributed.all_reduce(p.grad, group=process_group)
                p.grad /= world

        def in_ddp(networks, process_group=process_group):
            return DistributedDataParallel(networks, process_group=process_group)

        def own_only(networks, own, average=average):
            average(own)

        ways = {"ddp": (CASES, in_ddp, own_only)}
        if world == WORLD:
            ways["fsdp"] = SOME, in_fsdp, own_only
            ways["plain"] = (
                SOME,
                lambda networks: networks,
                lambda networks, own, average=average: average([*networks.parameters(), *own]),
            )
        for way, (cases, wrap, mend) in ways.items():
            made = [make_objective(name, known, group) for name, _, known in cases]
            came = train(made, [labels for _, labels, _ in cases], part(rank, world), wrap, mend)
            found |= {(world, way, *case): whole for case, whole in zip(cases, came)}
        mine = part(rank, world)
        mine = mine if mine.start < mine.stop else slice(1)  # alone, one must have a row
        if world == 1:
            continue
        (found[world, "alone"],) = train([make_objective("ascent", False)], ["single"], mine, in_ddp)
    objective = make_objective("ascent", False, True)
    X, y_bar = data("single")
    mine = part(rank, WORLD)
    found["class risks"] = objective.class_risks(X[:BATCH, :K][mine], y_bar[:BATCH][mine])
    runs = Population(lambda: networks.linear(6, K), objective, device="cpu")
    found["population"] = runs.reduce is runs.objectives[0].reduce and "group" not in objective.settings()
    made = {
        "settings": objectives.GradientAscent(K, beta=0.5 if rank == 2 else 0.0, group=True),
        "kind": objectives.Forward(K, group=True) if rank == 3 else make("free", K, group=True),
    }
    found["refused"] = []
    for other in made.values():
        try:
            other(X[:BATCH, :K][mine], y_bar[:BATCH][mine])
        except ValueError as error:
            found["refused"].append(str(error))
    calls = []
    gather, reduce = torch.distributed.all_gather, torch.distributed.all_reduce
    torch.distributed.all_gather = lambda *given, **options: (calls.append("gather"), gather(*given, **options))
    torch.distributed.all_reduce = lambda *given, **options: (calls.append("reduce"), reduce(*given, **options))
    alike = make_objective("ascent", False, True)
    for _ in range(3):
        alike(X[:BATCH, :K][mine], y_bar[:BATCH][mine])
    torch.distributed.all_gather, torch.distributed.all_reduce = gather, reduce
    found["calls"] = calls
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What four processes made of every method; the workers of a run share it."""
    folder = of_all_workers(tmp_path_factory) / "groups"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            job = start_python(__file__, folder)
            _, errors = job.communicate(timeout=500)
            assert job.returncode == 0, errors
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


@pytest.mark.parametrize(("name", "labels", "known"), CASES)
def test_processes_are_one(processes, name, labels, known):
    ((parameters, values),) = train([make_objective(name, known)], [labels])
    ways = [way for way in itertools.product(SHARES, WAYS) if (*way, name, labels, known) in processes[0]]
    assert {(world, "ddp") for world in SHARES} <= set(ways)
    assert (name, labels, known) not in SOME or ways[:3] == [(WORLD, way) for way in WAYS]
    for world, way in ways:
        for mine in processes[:world]:
            found, whole = mine[world, way, name, labels, known]
            for ours, one in zip(found, parameters, strict=True):
                torch.testing.assert_close(ours, one, rtol=0, atol=1e-5)
            np.testing.assert_allclose(whole, values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world", [4, 2])
def test_gradient_ascent_without_a_group_is_another_method(processes, world):
    """So that the comparison can fail."""
    ((parameters, _),) = train([make_objective("ascent", False)], ["single"])
    found, _ = processes[0][world, "alone"]
    assert max(float((a - b).abs().max()) for a, b in zip(found, parameters, strict=True)) > 0.01


def test_class_risks_are_of_the_whole_batch(processes):
    X, y_bar = data("single")
    whole = make_objective("ascent", False).class_risks(X[:BATCH, :K], y_bar[:BATCH])
    for mine in processes:
        torch.testing.assert_close(mine["class risks"], whole)


def test_a_population_sums_over_its_objectives_group(processes):
    assert all(mine["population"] for mine in processes)


def test_objectives_that_differ_are_refused_in_all_processes(processes):
    """They are compared once; a step has its sum of counts and its sum of risks, and no more."""
    words = "all processes of a group must be given the same objective; those of process 0 and process {} differ in "
    told = [
        words.format(rank) + f"their {what}; make them by the same call"
        for rank, what in ((2, "settings"), (3, "kind"))
    ]
    assert [mine["refused"] for mine in processes] == [told] * WORLD
    assert [mine["calls"] for mine in processes] == [["gather", *["reduce"] * 6]] * WORLD


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_group_needs_processes(name):
    with raises("a process group must be initialised first: torch.distributed.init_process_group('gloo')"):
        OBJECTIVES[name](K, group=True)
    assert objectives.make(name, K, group=None).reduce is None


if __name__ == "__main__":
    importlib.import_module("torch._dynamo")  # an optimiser's first step would import it, in each of them
    fork(WORLD, lambda rank: spread_out(rank, sys.argv[1]))
