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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from naysayer.common.files import read_tensors, write_tensors
from naysayer.common.progress import Bar
from naysayer.engine.optimizers import OPTIMIZERS
from naysayer.engine.stack import EVALUATE, Data, Settings, Stack, as_inputs, forward, to_float
from naysayer.objectives import Objective

CRITERIA = ("accuracy", "risk", "objective")
PRECISIONS = ("float32", "bfloat16")
CHECKPOINT_SECONDS = 30.0
_SMALL_STEP = 2e8  # floating-point operations of a step that one thread does alone
_STACK_ON_CPU = 1 << 17  # parameters in a chunk of runs on a CPU: more would leave the cache

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


class Population:
    """M runs of one network and one objective.

    Parameters
    ----------
    network : a function that builds the module, or a module to copy (its ``reset_parameters`` give each run its start).
        The module maps (B, ...) inputs to (B, K) logits.
    objective : what a step minimises, or one such a run; see :mod:`naysayer.objectives`. Neighbouring runs with the
        same objective are measured together.
    seeds : one a run.
    lr, weight_decay : one number, or one a run. Weight decay falls on weights, not on biases.
    optimizer : "adam", "adamw" or "sgd" (with `momentum`).
    schedule : a function from the epoch to a factor on the learning rate; :func:`step_schedule`,
        :func:`cosine_schedule`.
    batch_size : the epoch is dealt into equal batches of at most this size; where the rows do not divide evenly,
        the last batch is filled up from the start of the epoch's order.
    precision : "float32" (products in TF32 where the device has it), or "bfloat16", in which the network computes while
        its parameters, logits and losses stay float32.
    compiled : compile a network that trains one run at a time; the first epoch then takes a minute more.
    augment : a function (B, ...), (B,) codes → (B, ...) that alters training images;
        :func:`naysayer.engine.augment.crop_and_flip`.
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
        objective: Objective | Sequence[Objective],
        *,
        seeds: Sequence[int] = (0,),
        lr: float | Sequence[float] = 1e-3,
        weight_decay: float | Sequence[float] = 0.0,
        optimizer: str = "adam",
        momentum: float = 0.9,
        schedule: Schedule | None = None,
        batch_size: int = 256,
        precision: str = "float32",
        compiled: bool = False,
        augment: Callable[[Tensor, Tensor], Tensor] | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        if len(seeds) == 0:
            raise ValueError("`seeds` must hold at least one seed")
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"`optimizer` must be one of {', '.join(OPTIMIZERS)}; got {optimizer!r}")
        if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise ValueError(f"`batch_size` must be a whole number of at least 1; got {batch_size!r}")
        if precision not in PRECISIONS:
            raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}; got {precision!r}")
        if not 0 <= momentum < 1:
            raise ValueError(f"`momentum` must be from 0 up and below 1; got {momentum!r}")
        self.n_runs = len(seeds)
        self.seeds = [int(s) for s in seeds]
        self.lr = self._per_run(lr, "lr")
        self.weight_decay = self._per_run(weight_decay, "weight_decay")
        self.optimizer, self.momentum, self.schedule = optimizer, momentum, schedule
        self.batch_size = int(batch_size)
        self.precision, self.compiled, self.augment = precision, compiled, augment
        self.device = pick_device(device)
        self.objectives = self._own(objective)
        self.n_classes = self.objectives[0].n_classes
        modules = [self._start(network, seed) for seed in self.seeds]
        self.module = copy.deepcopy(modules[0]).to(self.device)
        trained = [{k: p for k, p in m.named_parameters() if p.requires_grad} for m in modules]
        frozen = [{k: p for k, p in m.named_parameters() if not p.requires_grad} for m in modules]
        self.parameters = _stack(trained, self.device)
        self.buffers = _stack([f | dict(m.named_buffers()) for f, m in zip(frozen, modules)], self.device)
        self.history: dict[str, np.ndarray[Any, Any]] = {}
        self.best_epoch = np.full(self.n_runs, -1)
        self.best_score = np.full(self.n_runs, -np.inf)
        self.failed: dict[int, str] = {}
        self.interrupted = False

    def _own(self, objective: Objective | Sequence[Objective]) -> list[Objective]:
        """Give each run its objective, on the device; what several runs share is copied once."""
        given = [objective] * self.n_runs if isinstance(objective, Objective) else list(objective)
        if len(given) != self.n_runs or len({o.n_classes for o in given}) != 1:
            raise ValueError(
                f"`objective` must be one objective, or one a run with as many classes each; got {len(given)} for "
                f"{self.n_runs} runs, of {sorted({o.n_classes for o in given})} classes"
            )
        copies = {id(o): copy.deepcopy(o).to(self.device) for o in given}
        return [copies[id(o)] for o in given]

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
        groups: Sequence[int] | None = None,
        patience: int | None = None,
        class_risks: bool = False,
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
        groups : (M,) names of groups of runs whose validation scores are averaged, so that the best epoch is chosen for
            all of them together, as in cross-validation; None leaves each run alone.
        patience : stop a run after so many epochs without a better score.
        class_risks : record each class's part of the unbiased cross-entropy risk on the training rows,
            as "class_risk_0" and so on.
        checkpoint : file to save to every half minute and to go on from if it is there.
        bar : told after each epoch.
        """
        if select not in CRITERIA:
            raise ValueError(f"`select` must be one of {', '.join(CRITERIA)}; got {select!r}")
        if not isinstance(max_epochs, (int, np.integer)) or max_epochs < 1:
            raise ValueError(f"`max_epochs` must be a whole number of at least 1; got {max_epochs!r}")
        if patience is not None and patience < 1:
            raise ValueError(f"`patience` must be a whole number of at least 1; got {patience!r}")
        members = _members(groups, self.n_runs)
        data = Data(X, y_bar, rows, validation_rows, test, self.n_runs, self.n_classes, self.device)
        stamp = self._stamp(data, f"{select} {class_risks}", members) if checkpoint is not None else ""
        groups_of_runs = self._group(data)
        with _matmul_precision(), self._threads(data, len(groups_of_runs)) as spread:
            settings = self._settings(class_risks)
            chunks = [
                Stack(self.module, self.objectives, data, runs, self.parameters, self.buffers, settings)
                for runs in groups_of_runs
            ]
            history: dict[str, list[np.ndarray[Any, Any]]] = {}
            stopped = np.zeros(self.n_runs, dtype=bool)
            self.best_epoch = np.full(self.n_runs, -1)
            self.best_score = np.full(self.n_runs, -np.inf)
            self.failed = {}
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
                    active = [c for c in chunks if not stopped[c.runs].all()]
                    scores = list(spread(lambda c, e=epoch, f=factor: c.epoch(e, f), active))
                    self._record(epoch, chunks, scores, history, stopped, select, members, patience)
                    if bar is not None:
                        bar()
                    if checkpoint is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                        self._save(Path(checkpoint), stamp, epoch + 1, chunks, history, stopped)
                        saved = time.monotonic()
                else:
                    epoch = max(start, max_epochs)
                if checkpoint is not None:
                    self._save(Path(checkpoint), stamp, epoch, chunks, history, stopped)
            except KeyboardInterrupt:
                self.interrupted = True
        self.history = {name: np.stack(values) for name, values in history.items()}
        self.parameters = _join([c.best_parameters for c in chunks])
        self.buffers = _join([c.best_buffers for c in chunks])
        return self

    def _group(self, data: Data) -> list[slice]:
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

    @contextlib.contextmanager
    def _threads(self, data: Data, n_chunks: int) -> Iterator[Callable[..., Iterable[dict[str, Tensor]]]]:
        """Share the work of a CPU; gives the `map` that runs the chunks' epochs.

        Several chunks go each to a thread of its own, which works alone on data that no other core touches. A single
        one uses all threads in every product, unless its steps are too small to be worth the waiting for each other.
        """
        before = torch.get_num_threads()
        per_run = sum(p[0].numel() for p in self.parameters.values())
        stacked = max(per_run, min(self.n_runs * per_run, _STACK_ON_CPU))
        small = 6 * stacked * min(self.batch_size, data.n_rows) < _SMALL_STEP
        n_workers = min(n_chunks, before) if self.device.type == "cpu" and getattr(self.module, "stacks", False) else 1
        try:
            if n_workers > 1:
                torch.set_num_threads(1)
                with ThreadPoolExecutor(n_workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
                    yield pool.map
            else:
                if self.device.type == "cpu" and small:
                    torch.set_num_threads(1)
                yield map
        finally:
            torch.set_num_threads(before)

    def _settings(self, class_risks: bool = False) -> Settings:
        return Settings(
            self.seeds, self.lr, self.weight_decay, self.optimizer, self.momentum, self.batch_size,
            self.precision, self.compiled, self.augment, class_risks,
        )  # fmt: skip

    def _stacks(self, data: Data) -> bool:
        """Whether the network can train under vmap; one with batch norm, say, cannot."""
        if getattr(self.module, "stacks", False):
            return True
        if any(isinstance(part, nn.modules.dropout._DropoutNd) for part in self.module.modules()):
            return False  # a run's masks come from its seed, whatever it is grouped with
        x = data.take(data.X, torch.zeros(2, 2, dtype=torch.long, device=self.device))
        two = {k: v[:1].expand(2, *v.shape[1:]) for k, v in self.parameters.items()}
        held = {k: v[:1].expand(2, *v.shape[1:]).clone() for k, v in self.buffers.items()}
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                self.module.train()
                forward(self.module, two, held, x)
        except (RuntimeError, ValueError):
            return False
        return True

    def _record(
        self,
        epoch: int,
        chunks: list[Stack],
        scores: list[dict[str, Tensor]],
        history: dict[str, list[np.ndarray[Any, Any]]],
        stopped: np.ndarray[Any, Any],
        select: str,
        members: np.ndarray[Any, Any],
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
            scored = np.where(broken, np.nan, values[f"valid_{select}"] * (1 if select == "accuracy" else -1))
            now = np.where(members @ np.isnan(scored) > 0, -np.inf, members @ np.nan_to_num(scored))
            better = ~stopped & (now > self.best_score)
        else:
            now, better = np.full(self.n_runs, -np.inf), ~stopped
        self.best_score = np.where(better, now, self.best_score)
        self.best_epoch = np.where(better, epoch, self.best_epoch)
        for chunk in active:
            chunk.keep(better[chunk.runs])
        if patience is not None and f"valid_{select}" in values:
            stopped |= epoch - self.best_epoch >= patience

    # ---- checkpoints ----------------------------------------------------------------------------------------

    def _stamp(self, data: Data, select: str, members: np.ndarray[Any, Any]) -> str:
        """A digest of all that a checkpoint must agree with to be gone on from."""
        about = {
            "seeds": self.seeds, "lr": self.lr, "weight_decay": self.weight_decay, "optimizer": self.optimizer,
            "momentum": self.momentum, "batch_size": self.batch_size, "select": select,
            "precision": self.precision, "augment": getattr(self.augment, "__name__", None),
            "objectives": [
                (repr(o), getattr(o.loss, "__name__", ""), getattr(o, "beta", 0), getattr(o, "gamma", 1), o.alpha)
                for o in self.objectives
            ],
            "network": repr(self.module), "shapes": {k: list(v.shape) for k, v in self.parameters.items()},
        }  # fmt: skip
        digest = hashlib.sha256(json.dumps(about).encode())
        known = [t for o in dict.fromkeys(self.objectives) for t in (o.inverse, o.prior)]
        for tensor in (*data.tensors(), *known, torch.from_numpy(members)):
            if tensor is not None:
                digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
                digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
        return digest.hexdigest()

    def _save(
        self,
        path: Path,
        stamp: str,
        epoch: int,
        chunks: list[Stack],
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
        factors = [self.schedule(e) for e in range(epoch)] if self.schedule is not None else [1.0] * epoch
        about = {
            "stamp": stamp,
            "epoch": epoch,
            "factors": factors,
            "failed": {str(k): v for k, v in self.failed.items()},
        }
        write_tensors(path, tensors, about)

    def _resume(
        self, path: Path, stamp: str, chunks: list[Stack]
    ) -> tuple[int, dict[str, list[np.ndarray[Any, Any]]], np.ndarray[Any, Any]]:
        tensors, about = read_tensors(path)
        factors = [1.0 if self.schedule is None else self.schedule(e) for e in range(about.get("epoch", 0))]
        if about.get("stamp") != stamp or about["factors"] != factors:
            raise ValueError(f"the checkpoint {path} is of other data or settings; move it away, or give another file")
        for chunk in chunks:
            chunk.load(tensors)
        self.best_epoch = tensors["best_epoch"].numpy()
        self.best_score = tensors["best_score"].numpy()
        self.failed = {int(k): v for k, v in about["failed"].items()}
        history = {k.removeprefix("history."): list(v.numpy()) for k, v in tensors.items() if k.startswith("history.")}
        return about["epoch"], history, tensors["stopped"].numpy()

    # ---- use ------------------------------------------------------------------------------------------------

    def logits(self, X: Any, run: int | None = None) -> Tensor:
        """Give the logits of each run's chosen state, (M, N, K), or of one run, (N, K); on the CPU."""
        runs = slice(None) if run is None else slice(run, run + 1)
        parameters = {k: v[runs] for k, v in self.parameters.items()}
        buffers = {k: v[runs] for k, v in self.buffers.items()}
        out = torch.stack([stacked_logits(self.module, one, held, X) for one, held in _each(parameters, buffers)])
        return out if run is None else out[0]

    def state(self, run: int) -> dict[str, Tensor]:
        """Give one run's chosen state, as ``state_dict`` names it."""
        return {k: v[run].detach().cpu().clone() for k, v in (self.parameters | self.buffers).items()}

    def network(self, run: int) -> nn.Module:
        """Give one run's network as a module of its own."""
        module = copy.deepcopy(self.module).cpu()
        module.load_state_dict(self.state(run), strict=False)
        return module.eval()


@torch.no_grad()
def stacked_logits(module: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], X: Any) -> Tensor:
    """Logits (N, K) of one run whose state has a run axis of length 1, formed in blocks; on the CPU."""
    module.eval()
    x = as_inputs(X)
    device = next(iter(parameters.values())).device
    size = max(1, EVALUATE // max(1, x[0].numel() if len(x) else 1))
    with _matmul_precision():
        return torch.cat(
            [
                forward(module, parameters, buffers, to_float(part.to(device)).unsqueeze(0))[0].cpu()
                for part in x.split(size)
            ]
        )


def _each(
    parameters: dict[str, Tensor], buffers: dict[str, Tensor]
) -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    """The runs of a stacked state one by one, each still with a run axis."""
    for m in range(len(next(iter(parameters.values())))):
        yield {k: v[m : m + 1] for k, v in parameters.items()}, {k: v[m : m + 1] for k, v in buffers.items()}


def _members(groups: Sequence[int] | None, n_runs: int) -> np.ndarray[Any, Any]:
    """The matrix (M, M) that averages the runs' scores within their groups."""
    names = np.arange(n_runs) if groups is None else np.asarray(groups)
    if names.shape != (n_runs,):
        raise ValueError(f"`groups` must name one group a run; got shape {names.shape} for {n_runs} runs")
    same = names[:, None] == names
    return same / same.sum(axis=1, keepdims=True)


def _stack(states: list[dict[str, Any]], device: torch.device) -> dict[str, Tensor]:
    return {name: torch.stack([s[name].detach() for s in states]).to(device) for name in states[0]}


def _join(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Put chunks of runs together again; what has no run axis, the step's number, is the furthest's."""
    return {
        name: torch.cat([s[name].detach() for s in states])
        if t.dim()
        else torch.stack([s[name] for s in states]).amax()
        for name, t in states[0].items()
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
