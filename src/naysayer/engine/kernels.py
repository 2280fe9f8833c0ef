"""The places where a fused CUDA kernel pays: gathering a batch, an MLP's head, the objective, the optimiser's pass.

Each function has a plain torch twin elsewhere that defines what it computes; tests on a GPU compare the two.
Triton comes with torch's CUDA builds; without it, or on any other device, the twins serve.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

FREE, MAX, ASCENT = 0, 1, 2  # corrections of the class risks
MEAN_LOSSES = {"forward": 0, "ramp": 1}
LARGEST_HEAD = 64  # classes of the MLP whose last layer is fused
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


def can_fuse(logits: Tensor, y_bar: Tensor) -> bool:
    """Whether a batch is one for :func:`corrected_risk` and :func:`mean_loss`: one label per example, a small tile."""
    if not usable(logits) or y_bar.dtype == torch.bool or logits.dtype != torch.float32 or logits.dim() < 2:
        return False
    return _power_of_two(logits.shape[-2]) * _power_of_two(logits.shape[-1]) <= LARGEST_TILE


def corrected_risk(
    logits: Tensor, y_bar: Tensor, scales: Tensor, inverse: Tensor | None, correction: int, beta: float, gamma: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, step scale and gradient of a corrected cross-entropy risk; `inverse` is Q⁻¹, None for uniform labels.

    (..., B, K), (..., B), (..., K + 1), (K, K) → (...,), (...,), (..., B, K)
    """
    value, scale, gradient, arguments = _outputs(logits, y_bar)
    scales = scales.expand(*logits.shape[:-2], scales.shape[-1]).contiguous()
    logits, labels, *sizes = arguments
    _triton().corrected_risk[(max(1, value.numel()),)](
        logits, labels, scales, logits if inverse is None else inverse, gradient, value, scale, sizes[0], beta, gamma,
        *sizes[1:], correction, inverse is not None, num_warps=_warps(logits),
    )  # fmt: skip
    return value, scale, gradient


def mean_loss(
    logits: Tensor, y_bar: Tensor, kind: str, log_transition: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, step scale (1) and gradient of the mean of Forward's loss, "forward", or of PC's, "ramp".

    Only Forward takes log Qᵀ, (K, K); None is for uniform labels. (..., B, K), (..., B) → (...,), (...,), (..., B, K)
    """
    value, scale, gradient, arguments = _outputs(logits, y_bar)
    logits, labels, *sizes = arguments
    _triton().mean_loss[(max(1, value.numel()),)](
        logits, labels, logits if log_transition is None else log_transition, gradient, value, scale, *sizes,
        MEAN_LOSSES[kind], log_transition is not None, num_warps=_warps(logits),
    )  # fmt: skip
    return value, scale, gradient


def _outputs(logits: Tensor, y_bar: Tensor) -> tuple[Tensor, Tensor, Tensor, tuple[Any, ...]]:
    """Room for what a kernel of one program per run writes, and what all of them read."""
    logits = logits.detach().contiguous()
    lead, (n_rows, n_classes) = logits.shape[:-2], logits.shape[-2:]
    labels = y_bar.expand(*lead, n_rows).contiguous()
    sizes = (n_rows, n_classes, _power_of_two(n_rows), _power_of_two(n_classes))
    value, scale = logits.new_empty(lead), logits.new_empty(lead)
    return value, scale, torch.empty_like(logits), (logits, labels, *sizes)


def _warps(logits: Tensor) -> int:
    return 8 if logits.shape[-2] * logits.shape[-1] > 1024 else 4


def head(z: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """Logits relu(z + b₁) W₂ᵀ + b₂ of an MLP's hidden layer: (C, B, H), (C, H), (C, K, H), (C, K) → (C, B, K)."""
    (n_runs, n_rows, width), n_classes = z.shape, w2.shape[1]
    logits = z.new_empty(n_runs, n_rows, n_classes)
    many = n_runs * n_rows > 4096
    rows, units, warps = (64, 64, 8 if n_runs > 32 else 4) if many else (16, 128, 4)
    _triton().head[(n_runs, -(-n_rows // rows))](
        z, b1, w2, b2, logits, n_rows, width, *w2.stride(), n_classes, _head_columns(n_classes), rows, units,
        num_warps=warps,
    )  # fmt: skip
    return logits


def head_gradients(z: Tensor, b1: Tensor, w2: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of z (in its place), b₁, W₂ and b₂ from that of :func:`head`'s logits, (C, B, K)."""
    (n_runs, n_rows, width), n_classes = z.shape, w2.shape[1]
    db1, dw2, db2 = torch.empty_like(b1), torch.empty_like(w2), d.new_empty(n_runs, n_classes)
    rows, units, warps, stages = (32, 32, 2, 3) if n_runs > 8 else (128, 16, 4, 1)
    _triton().head_gradients[(n_runs, -(-width // units))](
        z, b1, w2, d.contiguous(), db1, dw2, db2, n_rows, width, *w2.stride(), n_classes, _head_columns(n_classes),
        rows, units, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return z, db1, dw2, db2


def _head_columns(n_classes: int) -> int:
    return max(16, _power_of_two(n_classes))


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
    gradient = laid_out_as(parameter, gradient)
    size = parameter[0].numel()
    grid = (-(-size // 1024), parameter.shape[0])
    _triton().adam[grid](
        parameter, gradient, mean, square, lr, scale, decay, time, size, *betas, epsilon, decoupled,
        1024, num_warps=4,
    )  # fmt: skip


def sgd(
    parameter: Tensor,
    gradient: Tensor,
    velocity: Tensor,
    lr: Tensor,
    scale: Tensor,
    decay: Tensor,
    momentum: float,
    nesterov: bool,
) -> None:
    """One step of SGD with momentum of C stacked runs, in place."""
    size = parameter[0].numel()
    grid = (-(-size // 1024), parameter.shape[0])
    _triton().sgd[grid](
        parameter, laid_out_as(parameter, gradient), velocity, lr, scale, decay, size, momentum, nesterov, 1024,
        num_warps=4,
    )  # fmt: skip


def laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with the parameter's strides, since the kernels go through memory element by element."""
    alone = len(parameter) == 1  # then the stride between runs says nothing
    if gradient.stride()[alone:] == parameter.stride()[alone:]:
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _triton() -> Any:
    """The kernels' own module, which needs triton at import; only called where :func:`has_triton` holds."""
    from naysayer.engine import _triton

    return _triton
