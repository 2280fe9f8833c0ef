"""Networks whose gradients are written down rather than traced: the MLP with one hidden layer.

A pass takes a batch's inputs and gives the logits with a function that turns their gradient into the parameters',
(C, B, D) → (C, B, K) and (C, B, K) → one tensor per parameter, in the layouts that the optimiser steps fastest. The
table is keyed by the network's exact type; tests compare each pass with what autograd makes of the network.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from naysayer.engine import kernels
from naysayer.engine.networks import MLP

Gradients = Callable[[Tensor], tuple[Tensor, ...]]
Pass = Callable[[Tensor], tuple[Tensor, Gradients]]


def mlp_pass(parameters: dict[str, Tensor], parts: int) -> Pass | None:
    """Give the pass of an MLP with these parameters, (C, ...) each, or None where it is better traced."""
    if list(parameters) != ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]:
        return None  # none or several hidden layers, or some that are frozen
    if parts > 1:
        return _in_parts(parts, *parameters.values())
    w1, b1, w2, b2 = parameters.values()
    if kernels.usable(w1) and w2.shape[1] <= kernels.LARGEST_HEAD:
        return _on_cuda(w1, b1, w2, b2)
    return None


PASSES: dict[type[nn.Module], Callable[[dict[str, Tensor], int], Pass | None]] = {MLP: mlp_pass}


def _in_parts(parts: int, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Pass:
    """One run on a CPU, its hidden units dealt to the T threads: (T, B, D), a copy of the batch for each → (1, B, K).

    A batched product does one part per thread. A core so keeps its part's weights, gradients and moments in its own
    cache, where the threads of a plain product would pass them from core to core at every step.
    """
    w1, b1, w2, b2 = (p.detach().squeeze(0) for p in (w1, b1, w2, b2))
    w1, w2 = w1.view(parts, -1, w1.shape[-1]), w2.mT.view(parts, -1, len(b2))

    def run(x: Tensor) -> tuple[Tensor, Gradients]:
        x = x.flatten(2)
        h = torch.baddbmm(b1.view(parts, 1, -1), x, w1.mT).relu_()

        def gradients(d: Tensor) -> tuple[Tensor, ...]:
            each = d.expand(parts, *d.shape[1:])
            dh = torch.ops.aten.threshold_backward(torch.bmm(each, w2.mT), h, 0)
            dw1, dw2 = torch.bmm(dh.mT, x), torch.bmm(h.mT, each)
            whole = dw1.flatten(0, 1), dh.sum(dim=1).flatten(), dw2.flatten(0, 1).mT, d.sum(dim=(0, 1))
            return tuple(g.unsqueeze(0) for g in whole)

        return torch.bmm(h, w2).sum(dim=0).add_(b2).unsqueeze(0), gradients

    return run


def _on_cuda(w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Pass:
    """Two large products, and one kernel each way for all that lies between them and the logits."""
    w1, b1, w2, b2 = (p.detach() for p in (w1, b1, w2, b2))

    def run(x: Tensor) -> tuple[Tensor, Gradients]:
        x = x.flatten(2)
        z = torch.bmm(x, w1.mT)

        def gradients(d: Tensor) -> tuple[Tensor, ...]:
            dz, db1, dw2, db2 = kernels.head_gradients(z, b1, w2, d)
            dw1 = torch.bmm(x.mT, dz).mT if len(x) > 1 else torch.bmm(dz.mT, x)  # as the parameter is laid out
            return dw1, db1, dw2, db2

        return kernels.head(z, b1, w2, b2), gradients

    return run
