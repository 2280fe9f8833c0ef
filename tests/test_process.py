"""Training in several threads at once is training in one: the same bits, and nothing global is left changed."""

from __future__ import annotations

import contextlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from naysayer import Population, complement, networks, objectives
from naysayer.engine import process
from naysayer.engine.source import Resident

Y = np.arange(240) % 3
X = (np.random.default_rng(0).normal(size=(240, 4)) + 2 * np.eye(3, 4)[Y]).astype("float32")
Y_BAR = complement(Y, 3, random_state=0)
NETWORKS = {
    "ours": lambda: networks.mlp(4, 3, hidden=(16,)),
    "in parts": lambda: networks.mlp(4, 3, hidden=(60_000,)),  # a step is large enough for all threads
    "drawing": lambda: nn.Sequential(nn.Linear(4, 16), nn.Dropout(), nn.Linear(16, 3)),
}


@pytest.fixture
def switching():
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def everything():
    return torch.get_rng_state().tolist(), torch.get_float32_matmul_precision(), torch.get_num_threads()


def train(job):
    """Train from a seed; give the start, the history and the end."""
    name, seed = job
    seeds = [seed] if name == "in parts" else [seed, seed + 100]
    runs = Population(NETWORKS[name], objectives.Forward(3), seeds=seeds, lr=0.01, batch_size=64, device="cpu")
    start = {k: v.clone() for k, v in runs.parameters.items()}
    runs.fit(X, Y_BAR, max_epochs=2, rows=np.arange(180), validation_rows=np.arange(180, 240))
    return start, runs.history, runs.parameters, torch.get_num_threads()


@pytest.mark.usefixtures("switching", "two_threads")
@pytest.mark.parametrize("names", [["ours"], ["drawing"], ["ours", "in parts", "drawing"]], ids=" and ".join)
def test_fits_in_four_threads_are_the_fits_in_one(names):
    jobs = [(names[seed % len(names)], seed) for seed in range(8)]
    alone = [train(job) for job in jobs]
    before = everything()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train, jobs))
    assert everything() == before
    with ThreadPoolExecutor(1) as fresh:
        assert fresh.submit(torch.get_num_threads).result() == 2  # what a new thread takes is as it was, too
    for (start, history, end, _), (start_2, history_2, end_2, threads) in zip(alone, together, strict=True):
        assert threads == 2
        for one, other in ((start, start_2), (end, end_2)):
            assert all(torch.equal(one[name], other[name]) for name in one)
        assert history.keys() == history_2.keys()
        assert all(np.array_equal(history[name], history_2[name]) for name in history)


def test_a_seed_is_torchs_own_and_leaves_no_trace():
    before = torch.get_rng_state()
    with process.seeded(7):
        drawn = torch.rand(3)
        with process.seeded():  # as if nothing was drawn
            torch.rand(3)
        after = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    expected = torch.rand(6, generator=torch.Generator().manual_seed(7))
    assert torch.equal(torch.cat([drawn, after]), expected)
    with pytest.raises(KeyError), process.seeded(7):
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)


def test_the_last_to_leave_restores_the_precision():
    before, searched = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    cuda = torch.device("cuda")
    first, second = process.quick(cuda), process.quick(cuda)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # the first to come is the first to leave
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark) == ("high", True)
    second.__exit__(None, None, None)
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark) == (before, searched)
    with process.quick(torch.device("cpu")):
        assert torch.get_float32_matmul_precision() == before


def test_a_cuda_device_with_a_number_is_the_current_one_meanwhile(monkeypatch):
    seen = []

    @contextlib.contextmanager
    def current(device):
        seen.append(f"in {device}")
        yield
        seen.append(f"out of {device}")

    monkeypatch.setattr(torch.cuda, "device", current)
    for name in ("cuda:1", "cuda", "cpu"):
        with process.quick(torch.device(name)):
            seen.append(name)
    assert seen == ["in cuda:1", "cuda:1", "out of cuda:1", "cuda", "cpu"]


def test_a_source_is_asked_where_the_device_is_the_current_one(monkeypatch):
    """What it looks up there may take a kernel, and kernels go to the current device."""
    inside = []

    @contextlib.contextmanager
    def quick(device):
        inside.append(device)
        yield
        inside.remove(device)

    class Asked(Resident):
        def example(self):
            assert inside
            return super().example()

    monkeypatch.setattr(process, "quick", quick)
    Population(lambda: networks.linear(4, 3), objectives.Forward(3)).fit(Asked(X, Y_BAR, 3), max_epochs=1)
    assert not inside


@pytest.mark.usefixtures("two_threads")
def test_a_thread_that_meets_torch_while_another_trains_has_the_process_number():
    entered, met, left = (threading.Event() for _ in range(3))

    def newcomer():
        entered.wait()
        torch.get_num_threads()  # what the other one trains with, for good
        met.set()
        left.wait()
        with process.threads() as number:
            return number

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(newcomer)
        with process.threads() as number:
            assert number == 2
            torch.set_num_threads(1)
            entered.set()
            met.wait()
        left.set()
        assert found.result() == 2
