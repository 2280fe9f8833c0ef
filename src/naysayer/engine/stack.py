"""Runs stacked along a first axis: the data they share, one step, one epoch, their scores and best states.

Everything here stays on the device. :mod:`naysayer.engine.population` decides what is stacked, and when to stop.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from naysayer import risk
from naysayer.common.checks import to_numpy
from naysayer.engine import kernels
from naysayer.engine.augment import codes, hash_bits
from naysayer.engine.networks import MLP
from naysayer.engine.optimizers import StackedOptimizer
from naysayer.labels.checks import check_labels
from naysayer.labels.weights import count_labels, is_sets, label_weights, weights_at
from naysayer.losses import cross_entropy
from naysayer.objectives import Objective

EVALUATE = 1 << 24  # logits, or inputs, formed at once in an evaluation
CAPTURED_STEPS = 32  # steps in one CUDA graph: enough that starting one costs nothing beside it


def shuffle(seeds: Tensor, epoch: int, n: int) -> Tensor:
    """Give each run its own order of n rows for this epoch: (C,) → (C, n).

    Rows are sorted by a hash of (seed, epoch, row), the same on every device, so no generator has a state to
    keep and a resumed run goes on as if it had never stopped.
    """
    row = torch.arange(n, device=seeds.device)
    return hash_bits(hash_bits(seeds * 0x1F123BB5 + epoch).unsqueeze(-1) + row).argsort(dim=-1)


def as_inputs(X: Any) -> Tensor:
    """Take inputs as a tensor: uint8 as it is, all else as float32."""
    x = X if isinstance(X, Tensor) else torch.from_numpy(np.require(X, requirements=["C", "W"]))
    return x if x.dtype == torch.uint8 else x.to(torch.float32)


def to_float(x: Tensor) -> Tensor:
    return x * (1.0 / 255.0) if x.dtype == torch.uint8 else x


def forward(module: nn.Module, parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
    """Logits (C, B, K) of stacked runs: directly where the module takes stacks, alone for one run, else by vmap."""
    state = parameters | buffers
    if getattr(module, "stacks", False):
        return functional_call(module, state, (x,))  # type: ignore[no-any-return]
    if len(x) == 1:
        one = {k: v.squeeze(0) for k, v in state.items()}
        return functional_call(module, one, (x.squeeze(0),)).unsqueeze(0)  # type: ignore[no-any-return]

    def call(state: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(module, state, (x,))  # type: ignore[no-any-return]

    return vmap(call, randomness="different")(state, x)


class Data:
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
        if self.X.dim() < 2:
            raise ValueError(f"`X` must be (N, ...) with an axis of inputs; got shape {tuple(self.X.shape)}")
        y_bar = np.require(to_numpy(y_bar), requirements="W")  # torch warns of arrays that are read-only
        y = torch.as_tensor(
            y_bar if y_bar.ndim == 2 and y_bar.dtype.kind in "biuf" else check_labels(y_bar, n_classes)[0]
        )
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
        self.rows = self._rows(rows, n_runs, "rows")
        self.validation_rows = self._rows(validation_rows, n_runs, "validation_rows")
        self.n_rows = len(self.X) if self.rows is None else self.rows.shape[1]
        self.test = None
        if test is not None:
            truth = torch.as_tensor(test[1], dtype=torch.long)
            if len(test[0]) != len(truth):
                raise ValueError(f"`test` must have as many inputs as classes; got {len(test[0])} and {len(truth)}")
            self.test = (as_inputs(test[0]).to(device).contiguous(), truth.to(device))

    def _rows(self, rows: Any, n_runs: int, name: str) -> Tensor | None:
        """Check rows (n,) or (M, n), and give them for each run, (M, n)."""
        if rows is None:
            return None
        out = to_numpy(rows)
        if out.size == 0:
            raise ValueError(f"`{name}` must hold at least one row")
        if out.dtype.kind not in "iu" or out.min() < 0 or out.max() >= len(self.X):
            raise ValueError(
                f"`{name}` must hold numbers of rows, 0 to {len(self.X) - 1}; a mask becomes them by np.flatnonzero"
            )
        if out.ndim > 2 or (out.ndim == 2 and len(out) != n_runs):
            raise ValueError(f"`{name}` must be (n,), or ({n_runs}, n), a row a run; got shape {out.shape}")
        return torch.as_tensor(out, dtype=torch.long).expand(n_runs, -1).to(self.X.device)

    def tensors(self) -> tuple[Tensor | None, ...]:
        return self.X, self.y, self.rows, self.validation_rows, *(self.test or ())

    @staticmethod
    def take(x: Tensor, rows: Tensor) -> Tensor:
        """x[rows] as floats: (N, ...), (C, B) → (C, B, ...)."""
        if x.dtype == torch.uint8 and kernels.usable(x):
            return kernels.gather_images(x.flatten(1), rows).view(*rows.shape, *x.shape[1:])
        return to_float(x.index_select(0, rows.flatten())).view(*rows.shape, *x.shape[1:])

    def labels(self, rows: Tensor, runs: slice) -> Tensor:
        """Labels of rows (..., C, B) for these runs: (..., C, B) or (..., C, B, K)."""
        if not self.per_run:
            return self.y[rows]
        return self.y[runs].expand(*rows.shape[:-2], -1, -1).gather(-1, rows)


def _blocks(objectives: Sequence[Objective]) -> list[tuple[slice, Objective]]:
    """Neighbouring runs that share one objective."""
    starts = [i for i, o in enumerate(objectives) if i == 0 or o is not objectives[i - 1]]
    return [(slice(a, b), objectives[a]) for a, b in zip(starts, [*starts[1:], len(objectives)], strict=True)]


class Settings(NamedTuple):
    """How a population trains; the first three have a value a run."""

    seeds: Sequence[int]
    lr: Sequence[float]
    weight_decay: Sequence[float]
    optimizer: str
    momentum: float
    batch_size: int
    precision: str
    compiled: bool
    augment: Callable[[Tensor, Tensor], Tensor] | None
    class_risks: bool


class Stack:
    """Some of a population's runs, with their optimiser, best states and captured step."""

    def __init__(
        self,
        module: nn.Module,
        objectives: Sequence[Objective],
        data: Data,
        runs: slice,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        settings: Settings,
    ) -> None:
        self.objectives, self.data, self.runs = objectives[runs], data, runs
        self.n_classes = objectives[0].n_classes
        self.blocks = _blocks(self.objectives)
        device = data.X.device
        seeds, lr, weight_decay = settings.seeds[runs], settings.lr[runs], settings.weight_decay[runs]
        self.class_risks = settings.class_risks
        self.augment, self.bfloat16 = settings.augment, settings.precision == "bfloat16"
        self.size, self.first_seed = len(seeds), seeds[0]
        self.channels_last = data.X.is_cuda and data.X.dim() == 4 and self.size == 1
        self.parts = self._parts(module)
        self.parameters = {k: self._lay_out(k, v[runs].detach().clone(), module) for k, v in parameters.items()}
        self.buffers = {k: v[runs].detach().clone() for k, v in buffers.items()}
        self.best_parameters = {k: v.detach().clone() for k, v in self.parameters.items()}
        self.best_buffers = {k: v.clone() for k, v in self.buffers.items()}
        self.seeds = torch.tensor(list(seeds), device=device)
        self.base_lr = torch.tensor(lr, device=device)
        self.module, self.leaves = self._bind(module)
        self.trained = (
            torch.compile(self.module, dynamic=False) if settings.compiled and self.size == 1 else self.module
        )
        self.optimizer = StackedOptimizer(
            settings.optimizer,
            list(self.parameters.values()),
            self.base_lr.clone(),
            torch.tensor(weight_decay, device=device),
            settings.momentum,
        )
        self.prior, self.alpha = self._shares()
        self.n_steps = -(-data.n_rows // settings.batch_size)
        self.batch = -(-data.n_rows // self.n_steps)
        self.loss = torch.zeros(self.size, device=device)
        self.turn = torch.zeros((), dtype=torch.long, device=device)  # the epoch, for what is captured
        self.captured = CAPTURED_STEPS if getattr(module, "stacks", False) else 1
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}  # by their number of steps
        self.buffer: list[Tensor] = []  # a batch of images on a CPU, as bytes and as floats
        self.window: list[Tensor] = []  # the batches that the next graph replayed reads

    def _parts(self, module: nn.Module) -> int:
        """Into how many parts a single run's hidden layer is cut: one for each thread of a CPU, where it divides."""
        threads = torch.get_num_threads()
        if self.data.X.device.type != "cpu" or self.size > 1 or self.bfloat16:
            return 1
        if not isinstance(module, MLP) or len(module.layers) != 2:
            return 1
        width = module.layers[1].weight.shape[1]  # type: ignore[index,union-attr]
        return threads if width % threads == 0 else 1

    def _lay_out(self, name: str, parameter: Tensor, module: nn.Module) -> Tensor:
        """Put a parameter, (C, ...), into memory as its device multiplies it fastest."""
        if self.channels_last and parameter.dim() == 5:  # as the tensor cores take convolutions
            return parameter.squeeze(0).contiguous(memory_format=torch.channels_last).unsqueeze(0)
        if parameter.dim() != 3 or not getattr(module, "stacks", False):
            return parameter
        if self.data.X.is_cuda and self.size > 1:
            return parameter.mT.contiguous().mT  # x Wᵀ is a third faster batched when Wᵀ lies row by row
        if self.parts > 1 and name == "layers.1.weight":
            return parameter.mT.contiguous().mT  # so that a part of it is one piece of memory
        return parameter

    def _bind(self, module: nn.Module) -> tuple[nn.Module, list[Tensor]]:
        """Give the module that the stack calls, and the tensors that are differentiated.

        Where it can, the stack has a module of its own whose parameters are the stacked ones, or views of them; to put
        them into a shared module at every call would cost more than a small step's products.
        """
        if self.size > 1 and not getattr(module, "stacks", False):
            return module, [p.requires_grad_() for p in self.parameters.values()]
        own = copy.deepcopy(module)
        state = {k: v.squeeze(0) if self.size == 1 else v for k, v in (self.parameters | self.buffers).items()}
        for name, parameter in own.named_parameters():
            parameter.data = state[name]
        for name, part in own.named_modules():
            for key in part._buffers:
                if part._buffers[key] is not None:
                    part._buffers[key] = state[f"{name}.{key}" if name else key]
        return own, [own.get_parameter(name) for name in self.parameters]

    def _forward(self, x: Tensor) -> Tensor:
        """Logits (C, B, K) of the runs, as float32 whatever the network computes in."""
        if not self.bfloat16:
            return self._plain_forward(x)
        with torch.autocast(x.device.type, torch.bfloat16):
            return self._plain_forward(x).float()

    def _plain_forward(self, x: Tensor) -> Tensor:
        if self.size == 1:
            x = x.squeeze(0)
            x = x.contiguous(memory_format=torch.channels_last) if self.channels_last else x
            return (self.trained if self.module.training else self.module)(x).unsqueeze(0)  # type: ignore[no-any-return]
        if getattr(self.module, "stacks", False):
            return self.module(x)  # type: ignore[no-any-return]
        return forward(self.module, self.parameters, self.buffers, x)

    def _shares(self) -> tuple[Tensor, Tensor]:
        """π̄ of each run's own training labels, (C, K), and the weight of the complementary ones, (C, 1)."""
        data = self.data
        counts: list[Tensor] = []
        for block, objective in self.blocks:
            for m in range(self.runs.start + block.start, self.runs.start + block.stop):
                if m > self.runs.start + block.start and not data.per_run and data.rows is None:
                    counts.append(counts[-1])
                    continue
                y = data.y[m] if data.per_run else data.y
                y = y if data.rows is None else y[data.rows[m]]
                if is_sets(y):
                    counts.append(count_labels(y, self.n_classes, objective.inverse is not None))
                else:
                    counts.append(torch.bincount(y, minlength=self.n_classes + 1))
        prior, alpha = risk.shares(torch.stack(counts).to(torch.get_default_dtype()))
        for block, objective in self.blocks:
            if objective.prior is not None:
                prior[block] = objective.prior
            if objective.alpha is not None:
                alpha[block] = objective.alpha
        return prior, alpha

    # ---- one epoch ------------------------------------------------------------------------------------------

    def epoch(self, epoch: int, factor: float) -> dict[str, Tensor]:
        """Train one epoch and score it; nothing here waits for the device."""
        self.module.train()
        self.turn.fill_(epoch)
        self.optimizer.lr.copy_(self.base_lr * factor)
        self.loss.zero_()
        with self._seeded(epoch):
            batches = self._deal(epoch)
            if self.loss.is_cuda:
                self._replay(batches)
            else:
                for i in range(self.n_steps):
                    self._step(*(t[i] for t in batches))
        return {"loss": self.loss / self.n_steps} | self._scores()

    @contextlib.contextmanager
    def _seeded(self, epoch: int) -> Iterator[None]:
        """Seed what a network draws itself, as dropout does, and leave torch's generators as they were."""
        if getattr(self.module, "stacks", False):  # ours draw nothing, and may run in several threads
            yield
            return
        with torch.random.fork_rng(devices=[self.loss.device] if self.loss.is_cuda else []):
            torch.manual_seed(hash((self.first_seed, epoch)) & 0x7FFFFFFF)
            yield

    def _deal(self, epoch: int) -> list[Tensor]:
        """Shuffle each run's rows into batches, (steps, C, B); labels that are classes come with their weights."""
        data = self.data
        order = shuffle(self.seeds, epoch, data.n_rows)
        if data.rows is not None:
            order = data.rows[self.runs].gather(1, order)
        spare = self.n_steps * self.batch - data.n_rows
        order = torch.cat([order, order[:, :spare]], dim=1)
        order = order.view(self.size, self.n_steps, self.batch).transpose(0, 1).contiguous()
        if is_sets(data.y):
            return [order]
        labels = data.labels(order, self.runs)
        return [order, labels, risk.example_weights(labels, self.prior)]

    def _step(self, rows: Tensor, labels: Tensor | None = None, weights: Tensor | None = None) -> None:
        """One optimiser step of all runs of the stack."""
        x = self._inputs(rows) if self.augment is None else self._augmented(rows)
        y = self.data.y[rows] if labels is None else labels
        if self.parts > 1:
            with torch.no_grad():
                logits, backward = self.module.in_parts(x)  # type: ignore[operator]
                value, scale, d = self._differentiate(logits.unsqueeze(0), y, weights)
                gradients = backward(d.squeeze(0))
        else:
            logits = self._forward(x)
            value, scale, d = self._differentiate(logits.detach(), y, weights)
            gradients = torch.autograd.grad(logits, self.leaves, d, materialize_grads=True)
        if self.size == 1:
            gradients = tuple(g.unsqueeze(0) for g in gradients)
        self.optimizer.step(gradients, scale)
        self.loss += value

    def _differentiate(self, logits: Tensor, y: Tensor, weights: Tensor | None) -> tuple[Tensor, ...]:
        """Value, scale and gradient of each run's objective; runs with the same one are measured together."""
        parts = [
            objective.differentiate(
                logits[block],
                y[block],
                self.prior[block],
                self.alpha[block],
                None if weights is None else weights[block],
            )
            for block, objective in self.blocks
        ]
        return parts[0] if len(parts) == 1 else tuple(torch.cat(part) for part in zip(*parts, strict=True))

    def _inputs(self, rows: Tensor) -> Tensor:
        """A batch's inputs, once for each part of the network.

        Images on a CPU go through the same two buffers in every step, which stay in the cache.
        """
        images = self.data.X
        rows = rows.expand(self.parts, -1) if self.parts > 1 else rows
        if images.is_cuda or images.dtype != torch.uint8:
            return self.data.take(images, rows)
        if not self.buffer:
            shape = (rows.numel(), *images.shape[1:])
            self.buffer = [torch.empty(shape, dtype=torch.uint8), torch.empty(shape)]
        taken, x = self.buffer
        torch.index_select(images, 0, rows.flatten(), out=taken)
        return x.copy_(taken).mul_(1.0 / 255.0).view(*rows.shape, *images.shape[1:])

    def _augmented(self, rows: Tensor) -> Tensor:
        """A batch's inputs, each image altered by a code of its run's seed, the epoch and its row."""
        images = self.data.X.index_select(0, rows.flatten())
        images = self.augment(images, codes(self.seeds, self.turn, rows).flatten())  # type: ignore[misc]
        return to_float(images).view(*rows.shape, *images.shape[1:])

    def _replay(self, batches: list[Tensor]) -> None:
        """Run an epoch's steps from captured graphs, some at a time."""
        if not self.window:
            self.window = [t[: self.captured].clone() for t in batches]
        for start in range(0, self.n_steps, self.captured):
            length = min(self.captured, self.n_steps - start)
            for place, t in zip(self.window, batches, strict=True):
                place[:length].copy_(t[start : start + length])
            if length not in self.graphs:
                self.graphs[length] = self._capture(length)
            self.graphs[length].replay()

    def _capture(self, length: int) -> torch.cuda.CUDAGraph:
        """Capture so many steps in a CUDA graph. The warm-up that this needs is undone."""
        if not self.graphs:
            touched = [*self.state().values(), self.loss]
            before = [t.detach().clone() for t in touched]
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self._step(*(t[0] for t in self.window))
            torch.cuda.current_stream().wait_stream(side)
            with torch.no_grad():
                for tensor, value in zip(touched, before, strict=True):
                    tensor.copy_(value)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(length):
                self._step(*(t[i] for t in self.window))
        return graph

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
                logits = self._forward(data.take(data.X, part))
                sums += self._estimates(logits, data.labels(part, self.runs))
            accuracy, cross, own = sums[:3] / sums[3].clamp(min=1)
            out |= {"valid_accuracy": accuracy, "valid_risk": cross, "valid_objective": own}
        if self.class_risks:
            rows = torch.arange(data.n_rows, device=self.loss.device).expand(self.size, -1)
            rows = rows if data.rows is None else data.rows[self.runs]
            risks = torch.zeros(self.size, self.n_classes, dtype=torch.float64, device=rows.device)
            for part in rows.split(self._block(data.X), dim=1):
                losses, y = cross_entropy(self._forward(data.take(data.X, part))), data.labels(part, self.runs)
                for block, objective in self.blocks:
                    weights = label_weights(y[block], self.n_classes, objective.inverse)
                    risks[block] += risk.class_risks(losses[block], weights)
            out |= {f"class_risk_{k}": risks[:, k] / data.n_rows for k in range(self.n_classes)}
        if data.test is not None:
            images, truth = data.test
            correct = torch.zeros(self.size, dtype=torch.float64, device=truth.device)
            everything = torch.arange(len(images), device=truth.device)
            for part in everything.split(self._block(images)):
                x = data.take(images, part.unsqueeze(0))
                x = x.expand(self.size, *x.shape[1:])
                logits = self._forward(x)
                correct += (logits.argmax(dim=-1) == truth[part]).sum(dim=-1)
            out["test_accuracy"] = correct / max(1, len(images))
        return out

    def _estimates(self, logits: Tensor, y: Tensor) -> Tensor:
        """Sums over a block of the zero-one weights, the cross-entropy risk, the objective's own loss, and a count."""
        sums = []
        for block, objective in self.blocks:
            g, labels, inverse = logits[block], y[block], objective.inverse
            said = labels.any(dim=-1) if is_sets(labels) else torch.ones_like(labels, dtype=torch.bool)
            hit = weights_at(labels, g.argmax(dim=-1), self.n_classes, inverse)
            cross = (label_weights(labels, self.n_classes, inverse) * cross_entropy(g)).sum(dim=-1)
            values = (hit, cross, objective.example_losses(g, labels))
            parts = [torch.where(said, t, 0.0).sum(dim=-1, dtype=torch.float64) for t in values]
            sums.append(torch.stack([*parts, said.sum(dim=-1).double()]))
        return torch.cat(sums, dim=1)

    def _block(self, x: Tensor) -> int:
        """How many rows to evaluate at once."""
        per_row = self.size * max(self.n_classes, x[0].numel()) * (64 if x.dim() == 4 else 1)  # with feature maps
        return max(1, (EVALUATE if not x.is_cuda else 16 * EVALUATE) // per_row)

    @torch.no_grad()
    def keep(self, better: np.ndarray[Any, Any]) -> None:
        """Take over the state of the runs that are better now than ever before."""
        if not better.any():
            return
        chosen = torch.from_numpy(np.flatnonzero(better)).to(self.loss.device)
        for best, now in ((self.best_parameters, self.parameters), (self.best_buffers, self.buffers)):
            for name, tensor in now.items():
                if better.all():
                    best[name].copy_(tensor)
                else:
                    best[name][chosen] = tensor[chosen]

    def state(self) -> dict[str, Tensor]:
        """All tensors that training changes, by name; those with an axis have the runs first."""
        out = {f"now.{k}": v for k, v in (self.parameters | self.buffers).items()}
        out |= {f"best.{k}": v for k, v in (self.best_parameters | self.best_buffers).items()}
        return out | {f"optimizer.{k}": v for k, v in self.optimizer.state().items()}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take over the state from a checkpoint of the whole population."""
        for name, tensor in self.state().items():
            saved = tensors[name]
            tensor.copy_(saved[self.runs] if saved.dim() else saved)
