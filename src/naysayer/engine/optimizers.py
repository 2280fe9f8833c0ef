"""Adam, AdamW and SGD for C stacked runs, each run with its own learning rate and weight decay.

One rule for all: parameters are (C, ...), learning rates (C,), and weight decay falls on weights (two dimensions or
more in one run's network), never on biases. The update is done in one pass where a fused kernel exists: Triton's on
CUDA, torch's own on a CPU when the runs are stepped one at a time; plain torch operations define what both compute.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from naysayer.engine import kernels

OPTIMIZERS = ("adam", "adamw", "sgd", "nesterov")
MANY = 8  # parameters of one network above which a launch for each would cost more than torch's one for all


class StackedOptimizer:
    """The state of one optimiser over a stack of runs.

    Parameters
    ----------
    kind : "adam", "adamw", "sgd", or "nesterov": SGD that looks ahead along its momentum.
    parameters : tensors (C, ...).
    lr, weight_decay : (C,) tensors on their device.
    momentum : for SGD; Adam's β₁.
    """

    def __init__(
        self,
        kind: str,
        parameters: list[Tensor],
        lr: Tensor,
        weight_decay: Tensor,
        momentum: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        self.kind = kind
        self.parameters = parameters
        self.lr, self.momentum, self.beta2, self.epsilon = lr, momentum, beta2, epsilon
        self.decays = [weight_decay if p.dim() > 2 else torch.zeros_like(weight_decay) for p in parameters]
        self.mean = [torch.zeros_like(p) for p in parameters]
        self.square = [torch.zeros_like(p) for p in parameters] if kind in ("adam", "adamw") else []
        self.time = torch.zeros((), dtype=torch.float32, device=lr.device)
        self.groups = [self._group(decay) for decay in ({float(d) for d in self.decays} if len(lr) == 1 else ())]

    def _group(self, decay: float) -> tuple[float, list[int], Any, Any, Any, Any]:
        """The parameters of one weight decay, as torch's fused steps take them."""
        chosen = [i for i, d in enumerate(self.decays) if float(d) == decay]
        tensors = [[t[i] for i in chosen if t] for t in (self.parameters, self.mean, self.square)]
        return decay, chosen, *tensors, [self.time] * len(chosen)  # type: ignore[return-value]

    def state(self) -> dict[str, Tensor]:
        """All that a checkpoint must hold, by name."""
        out = {f"mean.{i}": t for i, t in enumerate(self.mean)} | {f"square.{i}": t for i, t in enumerate(self.square)}
        return out | {"time": self.time}

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...], scale: Tensor) -> None:
        """Update the parameters in place, each run by its learning rate times its `scale` (C,)."""
        self.time += 1
        if len(self.lr) == 1 and self.lr.device.type == "cpu":
            self._step_fused(gradients, float(self.lr) * float(scale))
        elif len(self.lr) == 1 and self.lr.is_cuda and len(self.parameters) > MANY:
            self._step_fused(gradients, (self.lr * scale).squeeze())
        elif kernels.usable(self.lr):
            self._step_cuda(gradients, scale)
        else:
            self._step_plain(gradients, self.lr * scale)

    def _step_plain(self, gradients: tuple[Tensor, ...], lr: Tensor) -> None:
        for i, (p, g) in enumerate(zip(self.parameters, gradients, strict=True)):
            shape = (-1,) + (1,) * (p.dim() - 1)
            rate, decay = lr.view(shape), self.decays[i].view(shape)
            if self.kind == "adamw":
                p.mul_(1 - rate * decay)
            else:
                g = g + decay * p
            if not self.square:
                velocity = self.mean[i].mul_(self.momentum).add_(g)
                p.sub_(rate * (velocity if self.kind == "sgd" else g + self.momentum * velocity))
                continue
            mean, square = self.mean[i], self.square[i]
            mean.lerp_(g, 1 - self.momentum)
            square.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
            root = (square / self._warmth(self.beta2)).sqrt_().add_(self.epsilon)
            p.sub_(mean.div(root).mul_(rate / self._warmth(self.momentum)))

    def _warmth(self, beta: float) -> Tensor:
        """1 - β^t; as written it would lose half of float32's digits in the first steps."""
        return -torch.expm1(self.time * math.log(beta)) if beta > 0 else torch.ones_like(self.time)

    def _step_cuda(self, gradients: tuple[Tensor, ...], scale: Tensor) -> None:
        betas, decoupled = (self.momentum, self.beta2), self.kind == "adamw"
        for i, (p, g) in enumerate(zip(self.parameters, gradients, strict=True)):
            rates = (self.lr, scale, self.decays[i])
            if not self.square:
                kernels.sgd(p, g, self.mean[i], *rates, self.momentum, self.kind == "nesterov")
            else:
                kernels.adam(p, g, self.mean[i], self.square[i], *rates, self.time, betas, self.epsilon, decoupled)

    def _step_fused(self, gradients: tuple[Tensor, ...], lr: float | Tensor) -> None:
        """One run: torch's fused step, which passes over the memory once; once for each weight decay."""
        for decay, chosen, parameters, mean, square, time in self.groups:
            g = [kernels.laid_out_as(self.parameters[i], gradients[i]) for i in chosen]
            if not self.square:
                torch._fused_sgd_(
                    parameters, g, mean if self.momentum else [], weight_decay=decay, momentum=self.momentum, lr=lr,
                    dampening=0.0, nesterov=self.kind == "nesterov", maximize=False, is_first_step=False,
                )  # fmt: skip
            else:
                step = torch._fused_adamw_ if self.kind == "adamw" else torch._fused_adam_
                step(
                    parameters, g, mean, square, [], time, lr=lr, beta1=self.momentum, beta2=self.beta2,
                    weight_decay=decay, eps=self.epsilon, amsgrad=False, maximize=False,
                )  # fmt: skip
