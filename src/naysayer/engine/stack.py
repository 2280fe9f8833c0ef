"""Runs stacked along a first axis: one step, one epoch, their scores and best states.

Everything here stays on the device. :mod:`naysayer.engine.population` decides what is stacked, and when to stop.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from naysayer import risk
from naysayer.engine import process
from naysayer.engine.bound import BoundNetwork
from naysayer.engine.optimizers import StackedOptimizer
from naysayer.engine.processes import normalized_together
from naysayer.engine.recipe import Recipe, Runs, Tensors, Told, differentiate
from naysayer.engine.source import Batch, Reduce, Resident, Source, to_float
from naysayer.labels.weights import is_sets, label_weights, weights_at
from naysayer.losses import cross_entropy
from naysayer.objectives import Objective

EVALUATE = 1 << 24  # logits, or inputs, formed at once in an evaluation
CAPTURED_STEPS = 32  # steps in one CUDA graph: enough that starting one costs nothing beside it
CAPTURED_SHAPES = 8  # of batches whose graphs are kept: the parts of a stream have batches of many sizes


class Captured(NamedTuple):
    """What serves batches of one shape on CUDA."""

    window: Tensors  # the batches that the next graph replayed reads
    graphs: dict[int, torch.cuda.CUDAGraph]  # by the number of steps


class Settings(NamedTuple):
    """How a population trains; the first three have one value per run."""

    seeds: Sequence[int]
    lr: Sequence[float]
    weight_decay: Sequence[float]
    optimizer: str
    momentum: float
    precision: str
    compiled: bool
    recipe: Recipe
    reduce: Reduce | None
    class_risks: bool


class Stack:
    """Some of a population's runs, with their optimiser, best states and captured step."""

    def __init__(
        self,
        module: nn.Module,
        objectives: Sequence[Objective],
        source: Source,
        example: Tensor,
        runs: slice,
        parameters: Tensors,
        buffers: Tensors,
        settings: Settings,
    ) -> None:
        self.runs, self.source, self.recipe, self.reduce = runs, source, settings.recipe, settings.reduce
        self.class_risks = settings.class_risks
        self.blocks = _blocks(objectives[runs])
        self.decodes = any(objective.decodes for _, objective in self.blocks)
        self.n_classes, device = objectives[0].n_classes, source.device
        self.example = example
        self.network = BoundNetwork(
            module if self.reduce is None else normalized_together(module, self.reduce),
            {k: v[runs] for k, v in parameters.items()},
            {k: v[runs] for k, v in buffers.items()},
            self.example,
            bfloat16=settings.precision == "bfloat16",
            compiled=settings.compiled,
            in_parts=isinstance(source, Resident) and type(self.recipe) is Recipe and self.recipe.augment is None,
        )
        self.size, self.first_seed = self.network.size, settings.seeds[runs][0]
        self.base_lr = torch.tensor(settings.lr[runs], device=device)
        self.optimizer = StackedOptimizer(
            settings.optimizer,
            list(self.network.parameters.values()),
            self.base_lr.clone(),
            torch.tensor(settings.weight_decay[runs], device=device),
            settings.momentum,
        )
        self.epoch_number = torch.zeros((), dtype=torch.long, device=device)  # for what is captured
        seeds = torch.tensor(list(settings.seeds[runs]), device=device)
        self.seen = Runs(
            seeds, self.epoch_number, self.network.parameters, self.network.buffers, self.network.logits_of
        )
        with torch.no_grad():
            self.kept = self.recipe.begin(source, self.seen)
        self.best_parameters = {k: v.detach().clone() for k, v in self.network.parameters.items()}
        self.best_buffers = {k: v.clone() for k, v in self.network.buffers.items()}
        self.prior, self.alpha = self._shares()
        self.loss = torch.zeros(self.size, device=device)
        self.captures = device.type == "cuda" and self.recipe.captured and self.reduce is None
        self.captured = CAPTURED_STEPS if self.network.stacks else 1
        self.shapes: dict[Any, Captured] = {}  # the oldest first

    def _shares(self) -> tuple[Tensor, Tensor]:
        """π̄ of each run's own training labels, (C, K), and the weight of the complementary ones, (C, 1)."""
        parts = []
        for block, objective in self.blocks:
            runs = slice(self.runs.start + block.start, self.runs.start + block.stop)
            prior, alpha = self.source.shares(runs, objective.inverse is not None, self.reduce)
            prior = prior if objective.prior is None else objective.prior.expand_as(prior)
            parts.append((prior, alpha if objective.alpha is None else torch.full_like(alpha, objective.alpha)))
        prior, alpha = (torch.cat(part) for part in zip(*parts))
        return prior, alpha

    # ---- one epoch ------------------------------------------------------------------------------------------

    def epoch(self, epoch: int, factor: float) -> Tensors:
        """Train one epoch and score it; nothing here waits for the device."""
        self.network.train()
        self.epoch_number.fill_(epoch)
        self.optimizer.lr.copy_(self.base_lr * factor)
        self.loss.zero_()
        n_steps = 0
        with self._seeded(epoch):
            for batch in self.source.batches(epoch, self.runs):
                scales, share = self._scales(batch)
                steps = {k: t for k, t in batch._asdict().items() if t is not None} | {"scales": scales, "share": share}
                n_steps += len(batch.rows)
                if self.captures:
                    self._replay(steps)
                else:
                    for step in zip(*steps.values()):
                        self._step(**dict(zip(steps, step)))
        return {"loss": self.loss / max(1, n_steps)} | self._scores()

    def _seeded(self, epoch: int) -> contextlib.AbstractContextManager[None]:
        """Seed what a network draws itself, as dropout does; ours draw nothing, and may run in several threads."""
        if self.network.stacks:
            return contextlib.nullcontext()
        drawn = (
            (self.first_seed, epoch, rank) if (rank := getattr(self.reduce, "rank", 0)) else (self.first_seed, epoch)
        )
        return process.seeded(hash(drawn) & 0x7FFFFFFF)

    def _scales(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What a label of each kind weighs in each of some batches, (S, C, K + 1), and each example, (S, C, B).

        Both follow from counts over all processes.
        """
        parts, labels = [], batch.labels
        for block, objective in self.blocks:
            counts = objective.count(labels[:, block], None if batch.weights is None else batch.weights[:, block])
            times = torch.ones_like(labels[:, block, :, 0] if is_sets(labels) else labels[:, block], dtype=counts.dtype)
            times = times if batch.weights is None else batch.weights[:, block]
            size = times.sum(dim=-1, keepdim=True)
            if self.reduce is not None:
                counts, size = self.reduce(torch.cat([counts, size], dim=-1)).split([self.n_classes + 1, 1], dim=-1)
            alpha = self.alpha[block] if is_sets(labels) else 1.0  # α is for labels of both kinds
            parts.append((objective.scales(counts, self.prior[block], alpha), times / size.clamp(min=1e-12)))
        return parts[0] if len(parts) == 1 else tuple(torch.cat(part, dim=1) for part in zip(*parts))  # type: ignore[return-value]

    def _step(
        self,
        rows: Tensor,
        labels: Tensor,
        scales: Tensor,
        share: Tensor,
        inputs: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """One optimiser step of all runs: views → logits → risks → reduce → correct → gradients."""
        parts = self.network.parts
        batch = Batch(rows.expand(parts, -1) if parts > 1 else rows, labels, inputs, weights)
        scales = risk.weighted_scales(scales, weights)
        views = self.recipe.views(self.source, batch, self.seen)
        logits, gradients = self.network.run(views[0] if len(views) == 1 else torch.cat(list(views), dim=1))
        by_view = logits.unflatten(1, (len(views), -1)).transpose(0, 1)  # (V, C, B, K)
        with torch.no_grad():
            targets = self.recipe.targets(by_view, views, batch, self.seen, self.kept)
        value, scale, d = self._differentiate(by_view, Told(labels, scales, share, targets, self.epoch_number))
        found = gradients(d.transpose(0, 1).flatten(1, 2))
        self.optimizer.step(found if self.reduce is None else self._summed(found), scale)
        with torch.no_grad():
            self.recipe.after(self.seen, self.kept)
        self.loss += value

    def _differentiate(self, logits: Tensor, told: Told) -> tuple[Tensor, Tensor, Tensor]:
        """Value and scale of each run's step, and the gradient of its logits; runs of one objective go together."""
        parts = [
            differentiate(self.recipe, objective, logits[:, block], told.of(block), self.reduce)
            for block, objective in self.blocks
        ]
        if len(parts) == 1:
            return parts[0]
        values, sizes, gradients = zip(*parts)
        return torch.cat(values), torch.cat(sizes), torch.cat(gradients, dim=1)

    def _summed(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Gradients summed over the processes, all in one message."""
        assert self.reduce is not None
        whole = self.reduce(torch.cat([g.reshape(-1) for g in gradients]))
        parts = whole.split([g.numel() for g in gradients])
        return tuple(part.view(g.shape) for part, g in zip(parts, gradients))

    def _replay(self, steps: Tensors) -> None:
        """Run steps from captured graphs, some at a time."""
        shapes, n_steps = tuple((name, t.shape[1:]) for name, t in steps.items()), len(steps["rows"])
        if shapes not in self.shapes:
            if len(self.shapes) == CAPTURED_SHAPES:
                torch.cuda.synchronize(self.loss.device)  # a graph may not go before it has run
                del self.shapes[next(iter(self.shapes))]
            dense = {k: t[: self.captured].clone(memory_format=torch.contiguous_format) for k, t in steps.items()}
            self.shapes[shapes] = Captured(dense, {})
        window, graphs = self.shapes[shapes]
        at_once = len(window["rows"])
        for start in range(0, n_steps, at_once):
            length = min(at_once, n_steps - start)
            for name, t in steps.items():
                window[name][:length].copy_(t[start : start + length])
            if length not in graphs:
                graphs[length] = self._capture(window, length, first=not graphs)
            graphs[length].replay()

    @functools.cached_property
    def side(self) -> torch.cuda.Stream:
        """The stream of this device on which steps are captured."""
        return torch.cuda.Stream(self.loss.device)

    def _capture(self, window: Tensors, length: int, first: bool) -> torch.cuda.CUDAGraph:
        """Capture so many steps in a CUDA graph, after a warm-up if it is the first one of a shape."""
        graph = torch.cuda.CUDAGraph()
        with process.seeded():  # the warm-up draws nothing, and one thread captures at a time
            if first:
                self._warm_up({name: t[0] for name, t in window.items()})
            # torch's own stream is of the device that first captured anything; other threads may read rows meanwhile
            with torch.cuda.graph(graph, stream=self.side, capture_error_mode="thread_local"):
                for i in range(length):
                    self._step(**{name: t[i] for name, t in window.items()})
        return graph

    def _warm_up(self, step: Tensors) -> None:
        """Take a step twice, for what is built by the first ones, and undo it."""
        touched = [*self.state().values(), self.loss]
        before = [t.detach().clone() for t in touched]
        here = torch.cuda.current_stream(self.loss.device)
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            for _ in range(2):
                self._step(**step)
        here.wait_stream(self.side)
        with torch.no_grad():
            for tensor, value in zip(touched, before, strict=True):
                tensor.copy_(value)

    # ---- scores and states ----------------------------------------------------------------------------------

    @torch.no_grad()
    def _scores(self) -> Tensors:
        """Estimates on the examples held out, from their labels alone, and accuracy on the test set."""
        self.network.eval()
        with self.network.showing(*self.recipe.judged(self.seen, self.kept)):
            return self._valid_scores() | (self._class_risks() if self.class_risks else {}) | self._test_scores()

    def _valid_scores(self) -> Tensors:
        sums = torch.zeros(4, self.size, dtype=torch.float64, device=self.loss.device)
        scored = False
        for x, labels, *weights in self.source.held_out(self.runs, self._block()):
            sums += self._estimates(self.network.logits(to_float(x)), labels, *weights)
            scored = True
        if self.reduce is not None:  # other processes may have examples where this one has none
            sums = self.reduce(sums)
            scored = bool(sums[3].any())
        if not scored:
            return {}
        accuracy, cross, own = sums[:3] / torch.where(sums[3] > 0, sums[3], 1.0)
        return {"valid_accuracy": accuracy, "valid_risk": cross, "valid_objective": own}

    def _estimates(self, logits: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """Sums over a block of the zero-one weights, the cross-entropy risk, the objective's own loss, and a count."""
        sums = []
        for block, objective in self.blocks:
            g, labels, inverse = logits[block], y[block], objective.inverse
            said = labels.any(dim=-1) if is_sets(labels) else torch.ones_like(labels, dtype=torch.bool)
            scores = objective.class_scores(g)
            hit = weights_at(labels, scores.argmax(dim=-1), self.n_classes, inverse)
            cross = (label_weights(labels, self.n_classes, inverse) * cross_entropy(scores)).sum(dim=-1)
            values = (hit, cross, objective.example_losses(g, labels))
            times = said.double() if weights is None else torch.where(said, weights[block].double(), 0.0)
            parts = [(times * torch.where(said, t, 0.0)).sum(dim=-1) for t in values]
            sums.append(torch.stack([*parts, times.sum(dim=-1)]))
        return torch.cat(sums, dim=1)

    def _class_risks(self) -> Tensors:
        """Each class's part of the unbiased cross-entropy risk on the training rows."""
        risks = torch.zeros(self.size, self.n_classes, dtype=torch.float64, device=self.loss.device)
        n = torch.zeros(self.size, dtype=torch.float64, device=self.loss.device)
        for x, labels, *given in self.source.trained_on(self.runs, self._block()):
            losses = cross_entropy(self._class_scores(self.network.logits(to_float(x))))
            times = given[0] if given else torch.ones_like(losses[..., 0])
            times = torch.where(labels.any(dim=-1), times, 0.0) if is_sets(labels) else times  # rows with a label
            for block, objective in self.blocks:
                weights = label_weights(labels[block], self.n_classes, objective.inverse)
                risks[block] += risk.class_risks(losses[block], times[block].unsqueeze(-1) * weights)
            n += times.sum(dim=-1, dtype=torch.float64)
        if self.reduce is not None:
            risks, n = self.reduce(risks), self.reduce(n)
        risks = risks / torch.where(n > 0, n, 1.0).unsqueeze(-1)
        return {f"class_risk_{k}": risks[:, k] for k in range(self.n_classes)}

    def _test_scores(self) -> Tensors:
        sums = torch.zeros(2, self.size, dtype=torch.float64, device=self.loss.device)  # right ones, and all
        n = 0
        for x, truth in self.source.test(self._block()):
            scores = self._class_scores(self.network.logits(to_float(x).expand(self.size, *x.shape[1:])))
            sums[0] += (scores.argmax(dim=-1) == truth).sum(dim=-1)
            n += len(truth)
        sums[1] = n
        if self.reduce is not None:
            sums = self.reduce(sums)
            n = int(sums[1].max())
        return {"test_accuracy": sums[0] / sums[1]} if n else {}

    def _class_scores(self, logits: Tensor) -> Tensor:
        """What the logits of all runs say of the classes, each by its own objective: (C, B, K) → (C, B, K)."""
        if not self.decodes:
            return logits
        return torch.cat([objective.class_scores(logits[block]) for block, objective in self.blocks])

    def _block(self) -> int:
        """How many rows to evaluate at once."""
        feature_maps = 64 if self.example.dim() == 4 else 1
        per_row = self.size * max(self.n_classes, self.example.numel()) * feature_maps
        return max(1, (EVALUATE if not self.example.is_cuda else 16 * EVALUATE) // per_row)

    @torch.no_grad()
    def keep(self, better: np.ndarray[Any, Any]) -> None:
        """Take over the state of the runs that are better now than ever before."""
        if not better.any():
            return
        chosen = torch.from_numpy(np.flatnonzero(better)).to(self.loss.device)
        for best, now in zip((self.best_parameters, self.best_buffers), self.recipe.judged(self.seen, self.kept)):
            for name, tensor in now.items():
                if better.all():
                    best[name].copy_(tensor)
                else:
                    best[name][chosen] = tensor[chosen]

    def state(self) -> Tensors:
        """All tensors that training changes, by name; those with an axis have the runs first."""
        out = {f"now.{k}": v for k, v in (self.network.parameters | self.network.buffers).items()}
        out |= {f"best.{k}": v for k, v in (self.best_parameters | self.best_buffers).items()}
        out |= {f"recipe.{k}": v for k, v in self.kept.items()}
        return out | {f"optimizer.{k}": v for k, v in self.optimizer.state().items()}

    @torch.no_grad()
    def load(self, tensors: Tensors) -> None:
        """Take over the state from a checkpoint of the whole population."""
        for name, tensor in self.state().items():
            saved = tensors[name]
            tensor.copy_(saved[self.runs] if saved.dim() else saved)


def _blocks(objectives: Sequence[Objective]) -> list[tuple[slice, Objective]]:
    """Neighbouring runs that share one objective."""
    starts = [i for i, o in enumerate(objectives) if i == 0 or o is not objectives[i - 1]]
    return [(slice(a, b), objectives[a]) for a, b in zip(starts, [*starts[1:], len(objectives)], strict=True)]
