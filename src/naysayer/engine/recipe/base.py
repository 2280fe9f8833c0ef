"""One view of each example and the objective's own risks: what all recipes begin from, and how a step follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from naysayer.engine.augment import codes
from naysayer.engine.fused import fused
from naysayer.engine.source import Batch, Reduce, Source, as_inputs, to_float
from naysayer.objectives import Objective
from naysayer.objectives.base import parameters_of

Augment = Callable[[Tensor, Tensor], Tensor]
Tensors = dict[str, Tensor]
Logits = Callable[[Tensors, Tensors, Tensor], Tensor]  # parameters, buffers, inputs (C, B, ...) → (C, B, K)


class Runs(NamedTuple):
    """What a recipe sees of the runs that train: C of them, stacked along the first axis."""

    seeds: Tensor  # (C,)
    epoch: Tensor  # (), on the device, so that a captured step reads the current one
    parameters: Tensors  # (C, ...) each; those that the step trains
    buffers: Tensors  # (C, ...) each
    logits: Logits  # what other parameters and buffers predict


class Told(NamedTuple):
    """What is known of a batch of some runs, beside its inputs."""

    labels: Tensor  # (C, B) or (C, B, K)
    scales: Tensor  # (C, K + 1) what a label of each kind weighs, or (C, B, K + 1) where examples have weights
    share: Tensor  # (C, B) what each example weighs in a plain mean: 1 / B, B counted over all processes
    targets: Tensor | None  # what `Recipe.targets` gave, (C, ...)
    epoch: Tensor  # (), on the device

    def of(self, block: slice) -> Told:
        """The same of some of the runs."""
        targets = None if self.targets is None else self.targets[block]
        return Told(self.labels[block], self.scales[block], self.share[block], targets, self.epoch)


class Recipe:
    """One view of each example, and the objective's own risks; the parent of all other recipes.

    Parameters
    ----------
    augment : a function (B, ...), (B,) codes → (B, ...) that alters training examples, bytes as they were given;
        :func:`naysayer.engine.augment.crop_and_flip`.
    """

    captured = True  # whether a step of it may be captured in a CUDA graph: it never waits for the device
    remembers = False  # whether it keeps something of each row, and so needs them all at once, in one process
    unlabelled = False  # whether examples of which nothing is known teach it something

    def __init__(self, augment: Augment | None = None) -> None:
        self.augment = check_view(augment, "`augment`")

    def settings(self) -> dict[str, Any]:
        """Give the constructor's arguments, each kept as an attribute of its name, so that a saved model has them."""
        return {name: getattr(self, name) for name in parameters_of(type(self))}

    def begin(self, source: Source, runs: Runs) -> Tensors:
        """Make the tensors that are kept from step to step, (C, ...) each; checkpoints save them."""
        return {}

    def views(self, source: Source, batch: Batch, runs: Runs) -> Sequence[Tensor]:
        """Give the V views of a batch that the network sees, (C, B, ...) floats each."""
        if self.augment is None:
            return [to_float(source.inputs(batch))]
        return [altered(self.augment, source.raw_inputs(batch), codes(runs.seeds, runs.epoch, batch.rows))]

    def targets(
        self, logits: Tensor, views: Sequence[Tensor], batch: Batch, runs: Runs, kept: Tensors
    ) -> Tensor | None:
        """Give what the logits, (V, C, B, K), are to be drawn to, (C, ...), without gradient; None for nothing."""
        return None

    def risks(self, objective: Objective, logits: Tensor, told: Told) -> Tensor:
        """Give the risks of some runs that share an objective, sums over the batch: (V, C, B, K) → (C, R).

        Each must be a sum over examples that weigh `told.scales` or `told.share`, so that the sum over several
        processes is the risk of the whole batch.
        """
        return objective.risks(logits[0], told.labels, told.scales)

    def correct(self, objective: Objective, risks: Tensor) -> tuple[Tensor, Tensor]:
        """Give the coefficients of the risks' gradients, (C, R), and the scale of the step, (C,)."""
        return objective.correct(risks)

    def after(self, runs: Runs, kept: Tensors) -> None:
        """Update in place what is kept, after the optimiser's step."""

    def judged(self, runs: Runs, kept: Tensors) -> tuple[Tensors, Tensors]:
        """Give the parameters and buffers that are scored and kept as the best: those that train, by default."""
        return runs.parameters, runs.buffers


def altered(augment: Augment, inputs: Tensor, codes: Tensor, name: str = "`augment`") -> Tensor:
    """Augment inputs (C, B, ...) by codes (C, B), as floats; bytes and floats come as they were given."""
    given = inputs.flatten(0, 1)
    out = augment(given, codes.flatten())
    if not isinstance(out, Tensor) or out.shape != given.shape:
        came = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(f"{name} must keep the shape of what it is given, {tuple(given.shape)}; it gave {came}")
    if out.device.type == "cpu" and not torch.isfinite(out).all() and torch.isfinite(given).all():  # a GPU would wait
        raise ValueError(f"{name} must give finite numbers; it gave {out[~torch.isfinite(out)][0].item()}")
    return to_float(as_inputs(out)).unflatten(0, codes.shape)


def check_view(view: Augment | None, name: str) -> Augment | None:
    """Check that a view is a function of a batch and its codes; what a callable takes cannot always be told."""
    if view is None:
        return None
    if not callable(view):
        raise ValueError(f"{name} must be a function of a batch and its codes; got {view!r}")
    try:
        takes = inspect.signature(view)
    except (TypeError, ValueError):  # of something that is not written in Python
        return view
    try:
        takes.bind(None, None)
    except TypeError:
        raise ValueError(
            f"{name} must be a function of a batch and its codes, two arguments; got one of {takes}"
        ) from None
    return view


def differentiate(
    recipe: Recipe, objective: Objective, logits: Tensor, told: Told, reduce: Reduce | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Give the value of a step, its scale, and the gradient in the logits: (V, C, B, K) → (C,), (C,), (V, C, B, K).

    The corrections look at the risks of the whole batch, so those are summed over the processes before.
    """
    weighted = told.scales.dim() > 2  # of which no kernel knows
    if type(recipe) is Recipe and reduce is None and not weighted:
        written_down = fused(objective, logits[0], told.labels, told.scales)
        if written_down is not None:
            value, scale, gradient = written_down
            return value, scale, gradient.unsqueeze(0)
    with torch.enable_grad():
        logits = logits.detach().requires_grad_()
        risks = recipe.risks(objective, logits, told)
    whole = risks.detach() if reduce is None else reduce(risks.detach())
    coefficients, scale = recipe.correct(objective, whole)
    (gradient,) = torch.autograd.grad(risks, logits, coefficients, materialize_grads=True)
    return (coefficients * whole).sum(dim=-1), scale, gradient
