"""The CUDA kernels without a GPU: read as numpy reads them, they are their plain twins; all they touch is theirs."""

from __future__ import annotations

import functools
import itertools
import sys
import types
from typing import ClassVar

import numpy as np
import pytest
import torch

from helpers import assert_same_runs
from naysayer import Population, complement, engine, networks, objectives
from naysayer.engine import kernels


class Block(np.ndarray):
    """A block of numbers as Triton has them."""

    def to(self, dtype):
        return self.astype(dtype)


class Pointer:
    """An address in a tensor's memory, or a block of addresses."""

    def __init__(self, memory, at=0):
        self.memory, self.at = memory, at

    @classmethod
    def of(cls, tensor):
        n = tensor.untyped_storage().size() // tensor.element_size() - tensor.storage_offset()
        return cls(torch.as_strided(tensor.detach(), (n,), (1,), tensor.storage_offset()).numpy())

    def __add__(self, places):
        return Pointer(self.memory, self.at + places)

    def places(self, mask):
        """The addresses that a mask lets through, which must be in the memory."""
        at, inside = np.broadcast_arrays(np.asarray(self.at), True if mask is None else mask)
        assert ((at[inside] >= 0) & (at[inside] < len(self.memory))).all(), "out of bounds"
        return at, inside


def load(pointer, mask=None, other=np.nan):
    at, inside = pointer.places(mask)
    out = np.empty(at.shape, pointer.memory.dtype)
    if mask is not None:
        out[~inside] = other
    out[inside] = pointer.memory[at[inside]]
    return out.view(Block)


def store(pointer, value, mask=None):
    at, inside = pointer.places(mask)
    pointer.memory[at[inside]] = np.broadcast_to(value, at.shape)[inside]


class Kernel:
    """What numpy computes of a kernel, program after program: ``kernel[grid](...)``."""

    launched: ClassVar[set[str]] = set()

    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid)

    def launch(self, grid, *arguments, num_warps, num_stages=3):
        self.launched.add(self.function.__name__)
        given = [Pointer.of(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        for program in itertools.product(*map(range, grid)):
            language.program_id = [np.array(i).view(Block) for i in program].__getitem__
            with np.errstate(all="ignore"):
                self.function(*given)


language = types.ModuleType("triton.language")
vars(language).update(
    constexpr=int, float32=np.float32, int64=np.int64, load=load, store=store, where=np.where, exp=np.exp, log=np.log,
    sqrt=np.sqrt, sum=np.sum, maximum=np.fmax, minimum=np.fmin, trans=np.transpose, dot=np.matmul,
    arange=lambda a, b: np.arange(a, b).view(Block), max=lambda x, axis: np.fmax.reduce(x, axis),
    zeros=lambda shape, dtype: np.zeros(shape, dtype), full=np.full,
)  # fmt: skip


@pytest.fixture
def read_by_numpy(monkeypatch):
    """Let the engine take a CPU for a device that has the kernels."""
    triton = types.ModuleType("triton")
    triton.jit, triton.language = Kernel, language
    for name, module in (("triton", triton), ("triton.language", language)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "naysayer.engine._triton", raising=False)
    monkeypatch.delattr(engine, "_triton", raising=False)
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    Kernel.launched.clear()
    yield
    sys.modules.pop("naysayer.engine._triton", None)
    vars(engine).pop("_triton", None)


Q = [[0.1, 0.5, 0.4], [0.3, 0.2, 0.5], [0.6, 0.3, 0.1]]
METHODS = {
    "free": lambda: objectives.Unbiased(3),
    "max": lambda: objectives.NonNegative(3),
    "ascent": lambda: objectives.GradientAscent(3, transition=Q, beta=0.01, gamma=0.5),
    "forward": lambda: objectives.Forward(3),
    "forward, known Q": lambda: objectives.Forward(3, Q),
    "pairwise": lambda: objectives.PairwiseComparison(3),
}


def data():
    """Bytes of three classes."""
    y = np.arange(30) % 3
    X = np.random.default_rng(0).integers(0, 99, (30, 5)) + 100 * np.eye(3, 5, dtype=int)[y]
    return X.astype("uint8"), complement(y, 3, random_state=0)


def train(X, y_bar, name, optimizer="sgd"):
    """Two runs of a small network, of sizes that fill no block of a kernel."""
    runs = Population(
        lambda: networks.mlp(5, 3, hidden=(7,)), METHODS[name](), seeds=[0, 1], lr=[0.02, 0.1], weight_decay=0.01,
        optimizer=optimizer, batch_size=10, device="cpu",
    )  # fmt: skip
    return runs.fit(X, y_bar, max_epochs=2, rows=np.arange(21), validation_rows=np.arange(21, 30))


@pytest.mark.usefixtures("read_by_numpy")
@pytest.mark.parametrize(
    ("name", "optimizer"),
    [*((name, "sgd") for name in METHODS), ("forward", "adam"), ("forward", "adamw"), ("forward", "nesterov")],
)
def test_kernels_train_as_their_twins_do(name, optimizer, monkeypatch):
    found = train(*data(), name, optimizer)
    loss = "corrected_risk" if name in ("free", "max", "ascent") else "mean_loss"
    step = "adam" if optimizer.startswith("adam") else "sgd"
    assert {"gather_images", "head", "head_gradients", loss, step} == Kernel.launched
    monkeypatch.setattr(kernels, "usable", lambda tensor: False)
    assert_same_runs(found, train(*data(), name, optimizer), 1e-5)


@pytest.mark.usefixtures("read_by_numpy")
@pytest.mark.parametrize("name", METHODS)
def test_nan_comes_through_the_kernels(name):
    """So that a run whose numbers are lost fails, and does not go on with a network that is not used any more."""
    X, y_bar = data()
    X = X.astype("float32")
    X[0, 0] = np.nan
    assert train(X, y_bar, name).failed.keys() == {0, 1}
