"""The places where an objective's value and gradient are written down instead of traced.

The table is keyed by the objective's *exact* type: a subclass, which may have changed anything, gets the plain path. An
entry may also decline, with None, what it was not written for. Each computes what
:func:`naysayer.engine.recipe.differentiate` would, from (C, B, K) logits; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from naysayer import risk
from naysayer.engine import kernels
from naysayer.losses import cross_entropy, ramp
from naysayer.objectives import (
    Forward,
    ForwardEstimate,
    GradientAscent,
    NonNegative,
    Objective,
    PairwiseComparison,
    Unbiased,
)

Written = tuple[Tensor, Tensor, Tensor]  # the value (C,), the scale of the step (C,), the gradient (C, B, K)


def corrected_cross_entropy(
    objective: Any, logits: Tensor, y_bar: Tensor, scales: Tensor, *, correction: int
) -> Written | None:
    """Free, max operator and gradient ascent with cross-entropy, whose gradient is p - W, were the c all 1."""
    if objective.loss is not cross_entropy:
        return None
    if kernels.can_fuse(logits, y_bar):
        beta, gamma = getattr(objective, "beta", 0.0), getattr(objective, "gamma", 1.0)
        return kernels.corrected_risk(logits, y_bar, scales, objective.inverse, correction, beta, gamma)
    if logits.is_cuda:
        return None
    rows = risk.batch_weights(y_bar, scales, objective.inverse)
    log_p = torch.log_softmax(logits, dim=-1)
    risks = risk.class_risks(-log_p, rows)
    coefficients, scale = objective.correct(risks)
    rows = coefficients.unsqueeze(-2) * rows
    gradient = log_p.exp_().mul_(rows.sum(dim=-1, keepdim=True)).sub_(rows)
    return (coefficients * risks).sum(dim=-1), scale, gradient


def mean_forward(objective: Any, logits: Tensor, y_bar: Tensor, scales: Tensor) -> Written | None:
    """Forward correction of one label per example, on CUDA."""
    if not kernels.can_fuse(logits, y_bar):
        return None
    return kernels.mean_loss(logits, y_bar, "forward", objective.log_transition)


def mean_ramp(objective: Any, logits: Tensor, y_bar: Tensor, scales: Tensor) -> Written | None:
    """Pairwise comparison with the ramp, of one uniform label per example, on CUDA."""
    told = objective.binary is ramp and objective.inverse is None and not objective.as_printed
    if not told or not kernels.can_fuse(logits, y_bar):
        return None
    return kernels.mean_loss(logits, y_bar, "ramp")


FUSED: dict[type[Objective], Callable[[Any, Tensor, Tensor, Tensor], Written | None]] = {
    Unbiased: partial(corrected_cross_entropy, correction=kernels.FREE),
    NonNegative: partial(corrected_cross_entropy, correction=kernels.MAX),
    GradientAscent: partial(corrected_cross_entropy, correction=kernels.ASCENT),
    Forward: mean_forward,
    ForwardEstimate: mean_forward,  # another way to decode, the same loss
    PairwiseComparison: mean_ramp,
}


def fused(objective: Objective, logits: Tensor, y_bar: Tensor, scales: Tensor) -> Written | None:
    """Give the value, the scale and the gradient written down, or None where they are to be traced."""
    written = FUSED.get(type(objective))
    return None if written is None else written(objective, logits, y_bar, scales)
