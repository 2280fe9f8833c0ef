"""The engine: a population of runs of one network and one objective, trained together on one device.

A run is one network trained from one seed with one learning rate and weight decay. The runs of a population have their
parameters stacked along a first axis, so that one batched matrix product and one optimiser step serve all. The
data stays on the device and is indexed there; an epoch's shuffles, label weights, validation, test and best states are
all made there, and the host waits once an epoch. On CUDA the step is captured once and replayed. On a CPU small
chunks of runs, or single ones when the network is large, go through one after another.

What a run becomes does not depend on the others it was grouped with: its start and its shuffles come from its
seed alone, and nothing is shared but the data.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from naysayer import kernels, risk
from naysayer.checks import check_labels
from naysayer.files import read_tensors, write_tensors
from naysayer.losses import cross_entropy
from naysayer.objectives import Objective
from naysayer.optimizers import OPTIMIZERS, StackedOptimizer
from naysayer.progress import Bar

CRITERIA = ("accuracy", "risk", "objective")
CHECKPOINT_SECONDS = 30.0
_STACK_ON_CPU = 1 << 17  # parameters in a chunk of runs on a CPU: more would leave the cache
_EVALUATE = 1 << 24  # logits, or inputs, formed at once in an evaluation

Schedule = Callable[[int], float]


def pick_device(device: str | torch.device) -> torch.device:
    """Turn "auto" into the accelerator where there is one."""
    if device != "auto":
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError):
            raise ValueError(f"`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got {device!r}") from None
        if chosen.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"`device` is {device!r}, but no CUDA device is here; pass device='auto'")
        return chosen
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def step_schedule(every: int = 30, factor: float = 0.5) -> Schedule:
    """Multiply the learning rate by `factor` every so many epochs; the defaults are the paper's for CIFAR-10."""
    return lambda epoch: factor ** (epoch // every)


def cosine_schedule(max_epochs: int) -> Schedule:
    """Let the learning rate fall to zero along half a cosine."""
    return lambda epoch: 0.5 * (1.0 + math.cos(math.pi * epoch / max_epochs))


def shuffle(seeds: Tensor, epoch: int, n: int) -> Tensor:
    """Give each run its own order of n rows for this epoch: (C,) → (C, n).

    Rows are sorted by a hash of (seed, epoch, row), the same on every device, so no generator has a state to
    keep and a resumed run goes on as if it had never stopped.
    """
    row = torch.arange(n, device=seeds.device)
    return _hash(_hash(seeds * 0x1F123BB5 + epoch).unsqueeze(-1) + row).argsort(dim=-1)


def _hash(z: Tensor) -> Tensor:
    """The finaliser of splitmix64, on int64 with wrap-around."""
    z = z * -7046029254386353131
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return z ^ ((z >> 31) & ((1 << 33) - 1))


class Population:
    """M runs of one network and one objective.

    Parameters
    ----------
    network : a function that builds the module, or a module to copy (its ``reset_parameters`` give each run its start).
        The module maps (B, ...) inputs to (B, K) logits.
    objective : what a step minimises; see :mod:`naysayer.objectives`.
    seeds : one a run.
    lr, weight_decay : one number, or one a run. Weight decay falls on weights, not on biases.
    optimizer : "adam", "adamw" or "sgd" (with `momentum`).
    schedule : a function from the epoch to a factor on the learning rate; :func:`step_schedule`,
        :func:`cosine_schedule`.
    batch_size : the epoch is dealt into equal batches of at most this size; where the rows do not divide evenly,
        the last batch is filled up from the start of the epoch's order.
    device : "auto", "cpu", "cuda".

    Attributes
    ----------
    history : dict of (epochs, M) arrays: "loss", and where asked for "valid_accuracy", "valid_risk" (unbiased
        cross-entropy), "valid_objective", "test_accuracy".
    best_epoch, best_score : (M,) arrays; with no validation rows, the last epoch.
    failed : run → what went wrong. A run whose loss stops being finite is stopped alone, and keeps its best state.
    interrupted : whether training was cut short from the keyboard; what was trained is kept.

    Examples
    --------
    >>> from naysayer import complement, networks, objectives
    >>> y = np.arange(300) % 3
    >>> X = np.eye(3, dtype="float32")[y]
    >>> runs = Population(lambda: networks.linear(3, 3), objectives.Forward(3), seeds=[0, 1], lr=0.1)
    >>> runs = runs.fit(X, complement(y, 3, random_state=0), max_epochs=20)
    >>> runs.logits(X).argmax(-1).eq(torch.tensor(y)).float().mean(-1)
    tensor([1., 1.])
    """

    def __init__(
        self,
        network: nn.Module | Callable[[], nn.Module],
        objective: Objective,
        *,
        seeds: Sequence[int] = (0,),
        lr: float | Sequence[float] = 1e-3,
        weight_decay: float | Sequence[float] = 0.0,
        optimizer: str = "adam",
        momentum: float = 0.9,
        schedule: Schedule | None = None,
        batch_size: int = 256,
        device: str | torch.device = "auto",
    ) -> None:
        if len(seeds) == 0:
            raise ValueError("`seeds` must hold at least one seed")
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"`optimizer` must be one of {', '.join(OPTIMIZERS)}; got {optimizer!r}")
        if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise ValueError(f"`batch_size` must be a whole number of at least 1; got {batch_size!r}")
        self.n_runs = len(seeds)
        self.seeds = [int(s) for s in seeds]
        self.lr = self._per_run(lr, "lr")
        self.weight_decay = self._per_run(weight_decay, "weight_decay")
        self.optimizer, self.momentum, self.schedule = optimizer, momentum, schedule
        self.batch_size = int(batch_size)
        self.device = pick_device(device)
        self.objective = copy.deepcopy(objective).to(self.device)
        self.n_classes = objective.n_classes
        modules = [self._start(network, seed) for seed in self.seeds]
        self.module = modules[0].to(self.device)
        self.parameters = _stack([dict(m.named_parameters()) for m in modules], self.device)
        self.buffers = _stack([dict(m.named_buffers()) for m in modules], self.device)
        self.history: dict[str, np.ndarray[Any, Any]] = {}
        self.best_epoch = np.full(self.n_runs, -1)
        self.best_score = np.full(self.n_runs, -np.inf)
        self.failed: dict[int, str] = {}
        self.interrupted = False

    def _per_run(self, value: float | Sequence[float], name: str) -> list[float]:
        values = np.asarray(value, dtype=float)
        if values.ndim == 0:
            values = np.full(self.n_runs, values)
        if len(values) != self.n_runs:
            raise ValueError(f"`{name}` must be one number or one a run; got {len(values)} for {self.n_runs} runs")
        if not all(math.isfinite(v) and v >= 0 for v in values):
            raise ValueError(f"`{name}` must be finite and not negative; got {list(values)}")
        return [float(v) for v in values]

    @staticmethod
    def _start(network: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
        """Build one run's module from its seed, leaving torch's global generator as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if not isinstance(network, nn.Module):
                return network()
            module = copy.deepcopy(network)
            for part in module.modules():
                reset = getattr(part, "reset_parameters", None)
                if callable(reset):
                    reset()
            return module

    # ---- training -------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y_bar: Any,
        *,
        max_epochs: int = 100,
        rows: Any = None,
        validation_rows: Any = None,
        test: tuple[Any, Any] | None = None,
        select: str = "accuracy",
        patience: int | None = None,
        checkpoint: str | Path | None = None,
        bar: Bar | None = None,
    ) -> Population:
        """Train all runs.

        Parameters
        ----------
        X : (N, ...) float32, or uint8, which is kept as such and divided by 255 as it is used.
        y_bar : (N,) labels or (N, K) ruled-out matrix for all runs, or (M, N) labels, a row a run.
        max_epochs : epochs in all, those of a resumed checkpoint included.
        rows, validation_rows : (n,) rows of X for all runs, or (M, n), a row a run; by default all, and none.
        test : (X, y_true), scored after every epoch and used for nothing else.
        select : by what a run's best epoch is chosen on the validation rows: "accuracy" (unbiased zero-one), "risk"
            (unbiased cross-entropy) or "objective" (the objective's own loss).
        patience : stop a run after so many epochs without a better score.
        checkpoint : file to save to every half minute and to go on from if it is there.
        bar : told after each epoch.
        """
        if select not in CRITERIA:
            raise ValueError(f"`select` must be one of {', '.join(CRITERIA)}; got {select!r}")
        if not isinstance(max_epochs, (int, np.integer)) or max_epochs < 1:
            raise ValueError(f"`max_epochs` must be a whole number of at least 1; got {max_epochs!r}")
        data = _Data(X, y_bar, rows, validation_rows, test, self.n_runs, self.n_classes, self.device)
        stamp = self._stamp(data, select) if checkpoint is not None else ""
        with _matmul_precision():
            chunks = [_Chunk(self, data, runs) for runs in self._group(data)]
            history: dict[str, list[np.ndarray[Any, Any]]] = {}
            stopped = np.zeros(self.n_runs, dtype=bool)
            start = 0
            if checkpoint is not None and Path(checkpoint).exists():
                start, history, stopped = self._resume(Path(checkpoint), stamp, chunks)
                for _ in range(min(start, max_epochs) if bar is not None else 0):
                    bar()  # type: ignore[misc]
            saved = time.monotonic()
            self.interrupted = False
            epoch = start
            try:
                for epoch in range(start, max_epochs):
                    if stopped.all():
                        break
                    factor = self.schedule(epoch) if self.schedule is not None else 1.0
                    scores = [c.epoch(epoch, factor) for c in chunks if not stopped[c.runs].all()]
                    self._record(epoch, chunks, scores, history, stopped, select, patience)
                    if bar is not None:
                        bar()
                    if checkpoint is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                        self._save(Path(checkpoint), stamp, epoch + 1, chunks, history, stopped)
                        saved = time.monotonic()
                else:
                    epoch = max_epochs
                if checkpoint is not None:
                    self._save(Path(checkpoint), stamp, epoch, chunks, history, stopped)
            except KeyboardInterrupt:
                self.interrupted = True
        self.history = {name: np.stack(values) for name, values in history.items()}
        self.parameters = _join([c.chosen(c.parameters, c.best_parameters) for c in chunks])
        self.buffers = _join([c.chosen(c.buffers, c.best_buffers) for c in chunks])
        return self

    def _group(self, data: _Data) -> list[slice]:
        """Cut the runs into chunks that are stacked: all of them on CUDA, cache-sized ones on a CPU."""
        per_run = sum(p[0].numel() for p in self.parameters.values())
        size = self.n_runs if self.device.type != "cpu" else max(1, min(self.n_runs, _STACK_ON_CPU // max(1, per_run)))
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            inputs = data.X[0].numel() * min(self.batch_size, data.n_rows)
            size = max(1, min(size, int(0.7 * free / (4 * (8 * per_run + 12 * inputs)))))
        if size > 1 and not self._stacks(data):
            size = 1
        return [slice(a, min(a + size, self.n_runs)) for a in range(0, self.n_runs, size)]

    def _stacks(self, data: _Data) -> bool:
        """Whether the network can train under vmap; one with batch norm, say, cannot."""
        if getattr(self.module, "stacks", False):
            return True
        x = data.take(data.X, torch.zeros(2, 2, dtype=torch.long, device=self.device))
        two = {k: v[:1].expand(2, *v.shape[1:]) for k, v in self.parameters.items()}
        held = {k: v[:1].expand(2, *v.shape[1:]).clone() for k, v in self.buffers.items()}
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                self.module.train()
                _forward(self.module, two, held, x)
        except (RuntimeError, ValueError):
            return False
        return True

    def _record(
        self,
        epoch: int,
        chunks: list[_Chunk],
        scores: list[dict[str, Tensor]],
        history: dict[str, list[np.ndarray[Any, Any]]],
        stopped: np.ndarray[Any, Any],
        select: str,
        patience: int | None,
    ) -> None:
        """Take over an epoch's scores, keep the states that are the best yet, and stop the runs that are done."""
        active = [c for c in chunks if not stopped[c.runs].all()]
        values = {name: np.full(self.n_runs, np.nan) for name in scores[0]}
        for chunk, score in zip(active, scores, strict=True):
            fetched = torch.stack([t.double() for t in score.values()]).cpu().numpy()  # the epoch's one wait
            for name, row in zip(score, fetched, strict=True):
                values[name][chunk.runs] = np.where(stopped[chunk.runs], np.nan, row)
        for name, row in values.items():
            history.setdefault(name, []).append(row)
        broken = ~stopped & ~np.isfinite(values["loss"])
        for run in np.flatnonzero(broken):
            self.failed[int(run)] = (
                f"its loss was {values['loss'][run]} in epoch {epoch}, at learning rate {self.lr[run]:g}"
            )
        stopped |= broken
        if f"valid_{select}" in values:
            now = values[f"valid_{select}"] * (1 if select == "accuracy" else -1)
            better = ~stopped & (now > self.best_score)
        else:
            now, better = np.full(self.n_runs, -np.inf), ~stopped
        self.best_score = np.where(better, now, self.best_score)
        self.best_epoch = np.where(better, epoch, self.best_epoch)
        for chunk in active:
            if f"valid_{select}" in values or broken[chunk.runs].any() or chunk.keeps_best:
                chunk.keep(better[chunk.runs])
        if patience is not None and f"valid_{select}" in values:
            stopped |= epoch - self.best_epoch >= patience

    # ---- checkpoints ----------------------------------------------------------------------------------------

    def _stamp(self, data: _Data, select: str) -> str:
        """A digest of all that a checkpoint must agree with to be gone on from."""
        about = {
            "seeds": self.seeds, "lr": self.lr, "weight_decay": self.weight_decay, "optimizer": self.optimizer,
            "momentum": self.momentum, "batch_size": self.batch_size, "objective": repr(self.objective),
            "loss": getattr(self.objective.loss, "__name__", ""), "beta": getattr(self.objective, "beta", 0),
            "gamma": getattr(self.objective, "gamma", 1), "alpha": self.objective.alpha, "select": select,
            "network": repr(self.module), "shapes": {k: list(v.shape) for k, v in self.parameters.items()},
        }  # fmt: skip
        digest = hashlib.sha256(json.dumps(about).encode())
        for tensor in (*data.tensors(), self.objective.inverse):
            if tensor is not None:
                digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
                digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        return digest.hexdigest()

    def _save(
        self,
        path: Path,
        stamp: str,
        epoch: int,
        chunks: list[_Chunk],
        history: dict[str, list[np.ndarray[Any, Any]]],
        stopped: np.ndarray[Any, Any],
    ) -> None:
        tensors = _join([c.state() for c in chunks])
        tensors |= {f"history.{k}": torch.from_numpy(np.stack(v)) for k, v in history.items()}
        tensors |= {
            "best_epoch": torch.from_numpy(self.best_epoch),
            "best_score": torch.from_numpy(self.best_score),
            "stopped": torch.from_numpy(stopped),
        }
        about = {"stamp": stamp, "epoch": epoch, "failed": {str(k): v for k, v in self.failed.items()}}
        write_tensors(path, tensors, about)

    def _resume(
        self, path: Path, stamp: str, chunks: list[_Chunk]
    ) -> tuple[int, dict[str, list[np.ndarray[Any, Any]]], np.ndarray[Any, Any]]:
        tensors, about = read_tensors(path)
        if about.get("stamp") != stamp:
            raise ValueError(f"the checkpoint {path} is of other data or settings; move it away, or give another file")
        for chunk in chunks:
            chunk.load(tensors)
        self.best_epoch = tensors["best_epoch"].numpy()
        self.best_score = tensors["best_score"].numpy()
        self.failed = {int(k): v for k, v in about["failed"].items()}
        history = {k.removeprefix("history."): list(v.numpy()) for k, v in tensors.items() if k.startswith("history.")}
        return about["epoch"], history, tensors["stopped"].numpy()

    # ---- use ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, X: Any, run: int | None = None) -> Tensor:
        """Give the logits of each run's chosen state, (M, N, K), or of one run, (N, K); on the CPU."""
        x = as_inputs(X).to(self.device)
        runs = slice(0, self.n_runs) if run is None else slice(run, run + 1)
        out = []
        with _matmul_precision():
            for m in range(*runs.indices(self.n_runs)):
                one = {k: v[m : m + 1] for k, v in self.parameters.items()}
                held = {k: v[m : m + 1] for k, v in self.buffers.items()}
                self.module.eval()
                size = max(1, _EVALUATE // max(self.n_classes, x[0].numel() if len(x) else 1))
                parts = [
                    _forward(self.module, one, held, _to_float(part).unsqueeze(0))[0].cpu() for part in x.split(size)
                ]
                out.append(torch.cat(parts) if parts else torch.empty(0, self.n_classes))
        return torch.stack(out) if run is None else out[0]

    def state(self, run: int) -> dict[str, Tensor]:
        """Give one run's chosen state, as ``state_dict`` names it."""
        return {k: v[run].detach().cpu().clone() for k, v in (self.parameters | self.buffers).items()}

    def network(self, run: int) -> nn.Module:
        """Give one run's network as a module of its own."""
        module = copy.deepcopy(self.module).cpu()
        module.load_state_dict(self.state(run), strict=False)
        return module.eval()


def as_inputs(X: Any) -> Tensor:
    """Take inputs as a tensor: uint8 as it is, all else as float32."""
    x = X if isinstance(X, Tensor) else torch.from_numpy(np.ascontiguousarray(X))
    return x if x.dtype == torch.uint8 else x.to(torch.float32)


def _to_float(x: Tensor) -> Tensor:
    return x * (1.0 / 255.0) if x.dtype == torch.uint8 else x


def _stack(states: list[dict[str, Any]], device: torch.device) -> dict[str, Tensor]:
    return {name: torch.stack([s[name].detach() for s in states]).to(device) for name in states[0]}


def _join(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Put chunks of runs together again; what has no run axis is the same in all."""
    return {
        name: torch.cat([s[name].detach() for s in states]) if t.dim() else t.clone() for name, t in states[0].items()
    }


@contextlib.contextmanager
def _matmul_precision() -> Iterator[None]:
    """Let float32 products use TF32 where the device has it, and leave the setting as it was."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _forward(module: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
    """Logits (C, B, K) of stacked runs: directly where the module takes stacks, alone for one run, else by vmap."""
    state = parameters | buffers
    if getattr(module, "stacks", False):
        return functional_call(module, state, (x.flatten(2),))  # type: ignore[no-any-return]
    if len(x) == 1:
        one = {k: v.squeeze(0) for k, v in state.items()}
        return functional_call(module, one, (x.squeeze(0),)).unsqueeze(0)  # type: ignore[no-any-return]

    def call(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(module, state, (x,))  # type: ignore[no-any-return]

    return vmap(call, randomness="different")(state, x)


class _Data:
    """The data on the device, and which rows each run trains and validates on."""

    def __init__(
        self,
        X: Any,
        y_bar: Any,
        rows: Any,
        validation_rows: Any,
        test: tuple[Any, Any] | None,
        n_runs: int,
        n_classes: int,
        device: torch.device,
    ) -> None:
        self.X = as_inputs(X).to(device).contiguous()
        y = y_bar if isinstance(y_bar, Tensor) else torch.as_tensor(np.asarray(y_bar))
        self.per_run = y.dim() == 2 and y.dtype != torch.bool
        if self.per_run:
            if y.shape[0] != n_runs:
                raise ValueError(f"`y_bar` with a row a run must have {n_runs} rows; got shape {tuple(y.shape)}")
            for row in y:
                check_labels(row, n_classes)
            y = y.long()
        else:
            y = torch.from_numpy(check_labels(y, n_classes)[0])
        if y.shape[1 if self.per_run else 0] != len(self.X):
            raise ValueError(
                f"`X` and `y_bar` must have as many rows; got {len(self.X)} and {y.shape[1 if self.per_run else 0]}"
            )
        self.y = y.to(device)
        self.rows = self._rows(rows, n_runs, device)
        if self.rows is not None and self.rows.shape[1] == 0:
            raise ValueError("`rows` must hold at least one row")
        self.validation_rows = self._rows(validation_rows, n_runs, device)
        self.n_rows = len(self.X) if self.rows is None else self.rows.shape[1]
        self.test = None
        if test is not None:
            truth = torch.as_tensor(test[1], dtype=torch.long)
            self.test = (as_inputs(test[0]).to(device).contiguous(), truth.to(device))

    def _rows(self, rows: Any, n_runs: int, device: torch.device) -> Tensor | None:
        if rows is None:
            return None
        out = torch.as_tensor(np.asarray(rows), dtype=torch.long)
        return out.expand(n_runs, -1).to(device)

    def tensors(self) -> tuple[Tensor | None, ...]:
        return self.X, self.y, self.rows, self.validation_rows

    @staticmethod
    def take(x: Tensor, rows: Tensor) -> Tensor:
        """x[rows] as floats: (N, ...), (C, B) → (C, B, ...)."""
        if x.dtype == torch.uint8 and kernels.usable(x):
            return kernels.gather_images(x.flatten(1), rows).view(*rows.shape, *x.shape[1:])
        return _to_float(x.index_select(0, rows.flatten())).view(*rows.shape, *x.shape[1:])

    def labels(self, rows: Tensor, runs: slice) -> Tensor:
        """Labels of rows (..., C, B) for these runs: (..., C, B) or (..., C, B, K)."""
        if not self.per_run:
            return self.y[rows]
        return self.y[runs].expand(*rows.shape[:-2], -1, -1).gather(-1, rows)


class _Chunk:
    """Some runs of a population, stacked, with their optimiser, best states and captured step."""

    def __init__(self, population: Population, data: _Data, runs: slice) -> None:
        self.data, self.runs = data, runs
        self.module, self.objective = population.module, population.objective
        device = population.device
        self.parameters = {
            k: v[runs].detach().clone().contiguous().requires_grad_(v.is_floating_point())
            for k, v in population.parameters.items()
        }
        self.buffers = {k: v[runs].detach().clone() for k, v in population.buffers.items()}
        self.best_parameters: dict[str, Tensor] = {}
        self.best_buffers: dict[str, Tensor] = {}
        self.keeps_best = False
        self.seeds = torch.tensor(population.seeds[runs], device=device)
        self.base_lr = torch.tensor(population.lr[runs], device=device)
        self.size = len(self.seeds)
        self.optimizer = StackedOptimizer(
            population.optimizer,
            list(self.parameters.values()),
            self.base_lr.clone(),
            torch.tensor(population.weight_decay[runs], device=device),
            population.momentum,
        )
        self.prior, self.alpha = self._shares()
        self.n_steps = -(-data.n_rows // population.batch_size)
        self.batch = -(-data.n_rows // self.n_steps)
        self.loss = torch.zeros(self.size, device=device)
        self.ones = torch.ones(self.size, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.deal: tuple[Tensor, Tensor | None, Tensor | None] | None = None
        self.counter = torch.zeros(1, dtype=torch.long, device=device)

    def _shares(self) -> tuple[Tensor, Tensor | float]:
        """π̄ of each run's own training labels, (C, K), and the complementary labels' share, (C, 1)."""
        data, objective = self.data, self.objective
        counts = []
        for m in range(*self.runs.indices(len(self.data.X) + self.runs.stop)):
            y = data.y[m] if data.per_run else data.y
            y = y if data.rows is None else y[data.rows[m]]
            if risk.is_sets(y):
                counts.append(risk.count_labels(y, objective.n_classes, objective.inverse is not None))
            else:
                counts.append(torch.bincount(y, minlength=objective.n_classes + 1))
            if not data.per_run and data.rows is None:
                counts *= self.size
                break
        prior, alpha = risk.shares(torch.stack(counts).to(torch.get_default_dtype()))
        if objective.prior is not None:
            prior = objective.prior.expand_as(prior).contiguous()
        return prior, alpha if objective.alpha is None else objective.alpha

    # ---- one epoch ------------------------------------------------------------------------------------------

    def epoch(self, epoch: int, factor: float) -> dict[str, Tensor]:
        """Train one epoch and score it; nothing here waits for the device."""
        self.module.train()
        self.optimizer.lr.copy_(self.base_lr * factor)
        self.loss.zero_()
        devices = [self.loss.device] if self.loss.is_cuda else []
        with torch.random.fork_rng(devices=devices):  # for networks with dropout
            torch.manual_seed(hash((int(self.seeds[0]) if not self.loss.is_cuda else 0, epoch)) & 0x7FFFFFFF)
            self._deal(epoch)
            if self.loss.is_cuda:
                if self.graph is None:
                    self._capture()
                assert self.graph is not None
                self.counter.zero_()
                for _ in range(self.n_steps):
                    self.graph.replay()
            else:
                assert self.deal is not None
                order, labels, weights = self.deal
                for i in range(self.n_steps):
                    y = labels[i] if labels is not None else self.data.y[order[i]]
                    self._step(order[i], y, weights[i] if weights is not None else None)
        return {"loss": self.loss / self.n_steps} | self._scores()

    def _deal(self, epoch: int) -> None:
        """Shuffle the rows of each run into (steps, C, B), with the labels and their weights where they are small."""
        data = self.data
        order = shuffle(self.seeds, epoch, data.n_rows)
        if data.rows is not None:
            order = data.rows[self.runs].gather(1, order)
        spare = self.n_steps * self.batch - data.n_rows
        order = torch.cat([order, order[:, :spare]], dim=1)
        order = order.view(self.size, self.n_steps, self.batch).transpose(0, 1).contiguous()
        labels = weights = None
        if not risk.is_sets(data.y):
            labels = data.labels(order, self.runs)
            weights = risk.example_weights(labels, self.prior)
        if self.deal is None:
            self.deal = (order, labels, weights)
        else:
            for place, new in zip(self.deal, (order, labels, weights), strict=True):
                if place is not None and new is not None:
                    place.copy_(new)  # a captured step reads from here

    def _step(self, rows: Tensor, labels: Tensor, weights: Tensor | None) -> None:
        """One optimiser step of all runs of the chunk."""
        x = self.data.take(self.data.X, rows)
        logits = _forward(self.module, self.parameters, self.buffers, x)
        value, scale = self.objective.measure(logits, labels, self.prior, self.alpha, weights)
        gradients = torch.autograd.grad(value, list(self.parameters.values()), self.ones)
        self.optimizer.step(gradients, scale)
        self.loss += value.detach()

    def _replayed_step(self) -> None:
        """The step as it is captured: the batch's number is counted on the device."""
        assert self.deal is not None
        order, labels, weights = (None if t is None else t.index_select(0, self.counter)[0] for t in self.deal)
        assert order is not None
        self._step(order, labels if labels is not None else self.data.y[order], weights)
        self.counter += 1

    def _capture(self) -> None:
        """Capture the step in a CUDA graph. The warm-up steps it needs are undone."""
        touched = [*self.state().values(), *self.buffers.values(), self.loss]
        before = [t.detach().clone() for t in touched]
        self.counter.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._replayed_step()
                self.counter.zero_()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._replayed_step()
        with torch.no_grad():
            for tensor, value in zip(touched, before, strict=True):
                tensor.copy_(value)

    # ---- scores and states ----------------------------------------------------------------------------------

    @torch.no_grad()
    def _scores(self) -> dict[str, Tensor]:
        """Estimates on the validation rows, from their labels alone, and accuracy on the test set."""
        self.module.eval()
        out: dict[str, Tensor] = {}
        data = self.data
        if data.validation_rows is not None:
            rows = data.validation_rows[self.runs]
            sums = torch.zeros(4, self.size, dtype=torch.float64, device=rows.device)
            for part in rows.split(self._block(data.X), dim=1):
                logits = _forward(self.module, self.parameters, self.buffers, data.take(data.X, part))
                sums += self._estimates(logits, data.labels(part, self.runs))
            accuracy, cross, own = sums[:3] / sums[3].clamp(min=1)
            out |= {"valid_accuracy": accuracy, "valid_risk": cross, "valid_objective": own}
        if data.test is not None:
            images, truth = data.test
            correct = torch.zeros(self.size, dtype=torch.float64, device=truth.device)
            everything = torch.arange(len(images), device=truth.device)
            for part in everything.split(self._block(images)):
                x = data.take(images, part.unsqueeze(0))
                x = x.expand(self.size, *x.shape[1:])
                logits = _forward(self.module, self.parameters, self.buffers, x)
                correct += (logits.argmax(dim=-1) == truth[part]).sum(dim=-1)
            out["test_accuracy"] = correct / max(1, len(images))
        return out

    def _estimates(self, logits: Tensor, y: Tensor) -> Tensor:
        """Sums over a block of the zero-one weights, the cross-entropy risk, the objective's own loss, and a count."""
        objective = self.objective
        n_classes, inverse = objective.n_classes, objective.inverse
        said = y.any(dim=-1) if risk.is_sets(y) else torch.ones_like(y, dtype=torch.bool)
        hit = risk.weights_at(y, logits.argmax(dim=-1), n_classes, inverse)
        cross = (risk.label_weights(y, n_classes, inverse) * cross_entropy(logits)).sum(dim=-1)
        own = objective.example_losses(logits, y)
        sums = [torch.where(said, t, 0.0).sum(dim=-1, dtype=torch.float64) for t in (hit, cross, own)]
        return torch.stack([*sums, said.sum(dim=-1).double()])

    def _block(self, x: Tensor) -> int:
        """How many rows to evaluate at once."""
        per_row = self.size * max(self.objective.n_classes, x[0].numel())
        return max(1, (_EVALUATE if not x.is_cuda else 16 * _EVALUATE) // per_row)

    @torch.no_grad()
    def keep(self, better: np.ndarray[Any, Any]) -> None:
        """Take over the state of the runs that are better now than ever before."""
        if not self.keeps_best:
            self.best_parameters = {k: v.detach().clone() for k, v in self.parameters.items()}
            self.best_buffers = {k: v.clone() for k, v in self.buffers.items()}
            self.keeps_best = True
        if not better.any():
            return
        chosen = torch.from_numpy(np.flatnonzero(better)).to(self.loss.device)
        for best, now in ((self.best_parameters, self.parameters), (self.best_buffers, self.buffers)):
            for name, tensor in now.items():
                if better.all():
                    best[name].copy_(tensor)
                else:
                    best[name][chosen] = tensor[chosen]

    def chosen(self, now: dict[str, Tensor], best: dict[str, Tensor]) -> dict[str, Tensor]:
        return best if self.keeps_best else {k: v.detach() for k, v in now.items()}

    def state(self) -> dict[str, Tensor]:
        """All tensors that training changes, by name; those with an axis have the runs first."""
        out = {f"now.{k}": v for k, v in (self.parameters | self.buffers).items()}
        if self.keeps_best:
            out |= {f"best.{k}": v for k, v in (self.best_parameters | self.best_buffers).items()}
        return out | {f"optimizer.{k}": v for k, v in self.optimizer.state().items()}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take over the state from a checkpoint of the whole population."""
        if any(name.startswith("best.") for name in tensors):
            self.keep(np.zeros(self.size, dtype=bool))
        for name, tensor in self.state().items():
            saved = tensors[name]
            tensor.copy_(saved[self.runs] if saved.dim() else saved)
