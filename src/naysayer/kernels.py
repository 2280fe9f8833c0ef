"""The three places where a fused CUDA kernel pays: gathering a batch, the corrected risk, the optimiser's pass.

Each function has a plain torch twin elsewhere that defines what it computes; tests on a GPU compare the two.
Triton comes with torch's CUDA builds; without it, or on any other device, the twins serve.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from naysayer.losses import Loss, cross_entropy

CORRECTIONS = {"free": 0, "max": 1, "ascent": 2}
LARGEST_TILE = 16384  # elements of a (B, K) batch that one block of threads holds in registers


@functools.cache
def has_triton() -> bool:
    """Whether CUDA kernels can be built here."""
    if not torch.cuda.is_available() or torch.version.hip is not None:
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return torch.cuda.get_device_capability() >= (7, 0)


def usable(tensor: Tensor) -> bool:
    """Whether a tensor is one that the kernels take."""
    return tensor.is_cuda and not torch._C._functorch.is_functorch_wrapped_tensor(tensor) and has_triton()


def can_fuse(logits: Tensor, y_bar: Tensor, loss: Loss, inverse: Tensor | None) -> bool:
    """Whether :func:`corrected_risk` computes this case: cross-entropy, one uniform label an example, a small tile."""
    if loss is not cross_entropy or inverse is not None or not usable(logits):
        return False
    if y_bar.dtype == torch.bool or logits.dtype != torch.float32 or logits.dim() < 2:
        return False
    return _power_of_two(logits.shape[-2]) * _power_of_two(logits.shape[-1]) <= LARGEST_TILE


def corrected_risk(
    logits: Tensor, y_bar: Tensor, weights: Tensor, correction: str, beta: float, gamma: float
) -> tuple[Tensor, Tensor]:
    """Value and step scale of a corrected cross-entropy risk: (..., B, K), (..., B), (..., B) → (...,), (...,)."""
    return _CorrectedRisk.apply(logits, y_bar, weights, correction, beta, gamma)  # type: ignore[no-any-return]


class _CorrectedRisk(torch.autograd.Function):
    """The forward kernel has the softmax in its registers, so it writes the gradient of the logits too."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, y_bar: Tensor, weights: Tensor, correction: str, beta: float, gamma: float
    ) -> tuple[Tensor, Tensor]:
        logits = logits.contiguous()
        n_rows, n_classes = logits.shape[-2:]
        lead = logits.shape[:-2]
        gradient = torch.empty_like(logits)
        value, scale = logits.new_empty(lead), logits.new_empty(lead)
        _triton().corrected_risk[(max(1, value.numel()),)](
            logits,
            y_bar.expand(*lead, n_rows).contiguous(),
            weights.expand(*lead, n_rows).contiguous(),
            gradient,
            value,
            scale,
            n_rows,
            beta,
            gamma,
            n_classes,
            _power_of_two(n_rows),
            _power_of_two(n_classes),
            CORRECTIONS[correction],
            num_warps=8 if n_rows * n_classes > 1024 else 4,
        )
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(scale)
        return value, scale

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream[0][..., None, None], None, None, None, None, None


def gather_images(images: Tensor, rows: Tensor) -> Tensor:
    """images[rows] / 255 as float32, in one pass: uint8 (N, D), (...,) → (..., D)."""
    width = images.shape[1]
    out = torch.empty(*rows.shape, width, dtype=torch.float32, device=images.device)
    block = min(1024, _power_of_two(width))
    grid = (rows.numel(), -(-width // block))
    _triton().gather_images[grid](images, rows.contiguous(), out, width, block, num_warps=4)
    return out


def adam(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    lr: Tensor,
    scale: Tensor,
    decay: Tensor,
    time: Tensor,
    betas: tuple[float, float],
    epsilon: float,
    decoupled: bool,
) -> None:
    """One Adam or AdamW step of C stacked runs, in place; lr, scale and decay are (C,), time is the step's number."""
    gradient = _laid_out_as(parameter, gradient)
    size = parameter[0].numel()
    grid = (-(-size // 1024), parameter.shape[0])
    _triton().adam[grid](
        parameter, gradient, mean, square, lr, scale, decay, time, size, *betas, epsilon, decoupled,
        1024, num_warps=4,
    )  # fmt: skip


def sgd(
    parameter: Tensor, gradient: Tensor, velocity: Tensor, lr: Tensor, scale: Tensor, decay: Tensor, momentum: float
) -> None:
    """One step of SGD with momentum of C stacked runs, in place."""
    size = parameter[0].numel()
    grid = (-(-size // 1024), parameter.shape[0])
    _triton().sgd[grid](
        parameter, _laid_out_as(parameter, gradient), velocity, lr, scale, decay, size, momentum, 1024, num_warps=4
    )


def _laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with the parameter's strides, since the kernels go through memory element by element."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _triton() -> Any:
    """The kernels' own module, which needs triton at import; only called where :func:`has_triton` holds."""
    from naysayer import _triton

    return _triton
