r"""Losses for all K classes at once: each maps logits (..., K) to losses (..., K), entry k being :math:`\ell(k, g(x))`.

Any callable of that kind is a loss. :func:`one_vs_all` and :func:`pairwise` build one from a binary loss
:math:`s(z)`, itself any elementwise callable; those for which :math:`s(z) + s(-z) = 1` (sigmoid, ramp,
zero-one) make the sum over the classes a constant, which is what the paper's Corollary 2 rests on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = [
    "BINARY_LOSSES",
    "LOSSES",
    "BinaryLoss",
    "Loss",
    "binary_zero_one",
    "cross_entropy",
    "double_hinge",
    "exponential",
    "get_binary",
    "get_loss",
    "hinge",
    "logistic",
    "mean_absolute_error",
    "mean_squared_error",
    "name_of",
    "one_vs_all",
    "pairwise",
    "ramp",
    "sigmoid",
    "squared",
    "zero_one",
]

Loss = Callable[[Tensor], Tensor]
BinaryLoss = Callable[[Tensor], Tensor]


def cross_entropy(logits: Tensor) -> Tensor:
    r"""Softmax cross-entropy, :math:`\ell(k, g) = -\log p_k`.

    >>> cross_entropy(torch.tensor([0.0, 0.0]))
    tensor([0.6931, 0.6931])
    """
    return -torch.log_softmax(logits, dim=-1)


def mean_absolute_error(logits: Tensor) -> Tensor:
    r"""Absolute error of the softmax output, :math:`\ell(k, g) = \sum_j |[j = k] - p_j| = 2 - 2 p_k`.

    >>> mean_absolute_error(torch.tensor([0.0, 0.0]))
    tensor([1., 1.])
    """
    return 2.0 - 2.0 * torch.softmax(logits, dim=-1)


def mean_squared_error(logits: Tensor) -> Tensor:
    r"""Squared error of the softmax output, :math:`\ell(k, g) = \sum_j ([j = k] - p_j)^2`.

    >>> mean_squared_error(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    p = torch.softmax(logits, dim=-1)
    return 1.0 - 2.0 * p + p.square().sum(dim=-1, keepdim=True)


def zero_one(logits: Tensor) -> Tensor:
    r"""Zero-one loss, :math:`\ell(k, g) = [\arg\max_j g_j \ne k]`; it has no gradient and serves for validation.

    >>> zero_one(torch.tensor([0.0, 2.0, 1.0]))
    tensor([1., 0., 1.])
    """
    classes = torch.arange(logits.shape[-1], device=logits.device)
    return (logits.argmax(dim=-1, keepdim=True) != classes).to(logits.dtype)


def sigmoid(z: Tensor) -> Tensor:
    r"""Sigmoid loss :math:`1 / (1 + e^z)`."""
    return torch.sigmoid(-z)


def ramp(z: Tensor) -> Tensor:
    r"""Ramp loss :math:`\tfrac12 \max(0, \min(2, 1 - z))`."""
    return 0.5 * (1.0 - z).clamp(0.0, 2.0)


def logistic(z: Tensor) -> Tensor:
    r"""Logistic loss :math:`\log(1 + e^{-z})`."""
    return F.softplus(-z)


def hinge(z: Tensor) -> Tensor:
    r"""Hinge loss :math:`\max(0, 1 - z)`."""
    return torch.relu(1.0 - z)


def double_hinge(z: Tensor) -> Tensor:
    r"""Double hinge loss :math:`\max(0, -z, \tfrac12 - \tfrac12 z)`."""
    return torch.maximum(torch.relu(-z), 0.5 - 0.5 * z)


def squared(z: Tensor) -> Tensor:
    r"""Squared loss :math:`(1 - z)^2`."""
    return (1.0 - z).square()


def exponential(z: Tensor) -> Tensor:
    r"""Exponential loss :math:`e^{-z}`."""
    return torch.exp(-z)


def binary_zero_one(z: Tensor) -> Tensor:
    r"""Zero-one loss of a margin, :math:`[z < 0]`; a tie counts one half, so that :math:`s(z) + s(-z) = 1`."""
    return 0.5 - 0.5 * torch.sign(z)


def one_vs_all(binary: str | BinaryLoss) -> Loss:
    r"""One-versus-all loss, :math:`\ell(k, g) = s(g_k) + \frac{1}{K-1} \sum_{k' \ne k} s(-g_{k'})`.

    >>> one_vs_all("hinge")(torch.tensor([2.0, -2.0, -2.0]))
    tensor([0.0000, 4.5000, 4.5000])
    """
    s = get_binary(binary)

    def loss(logits: Tensor) -> Tensor:
        others = s(-logits)
        total, largest = others.sum(dim=-1, keepdim=True), others.argmax(dim=-1, keepdim=True)
        # What is left of a sum without its largest term would be nothing but rounding, so that is summed anew.
        first = largest == torch.arange(logits.shape[-1], device=logits.device)
        rest = torch.where(first, others.masked_fill(first, 0.0).sum(dim=-1, keepdim=True), total - others)
        return s(logits) + rest / (logits.shape[-1] - 1)

    return _named(loss, "one_vs_all", s)


def pairwise(binary: str | BinaryLoss) -> Loss:
    r"""Pairwise comparison loss, :math:`\ell(k, g) = \sum_{k' \ne k} s(g_k - g_{k'})`.

    It forms all K² differences of an example.

    >>> pairwise(ramp)(torch.tensor([2.0, 0.0, 0.0]))
    tensor([0.0000, 1.5000, 1.5000])
    """
    s = get_binary(binary)

    def loss(logits: Tensor) -> Tensor:
        margins = s(logits.unsqueeze(-1) - logits.unsqueeze(-2))
        return margins.sum(dim=-1) - margins.diagonal(dim1=-2, dim2=-1)

    return _named(loss, "pairwise", s)


LOSSES: dict[str, Loss] = {f.__name__: f for f in (cross_entropy, mean_absolute_error, mean_squared_error, zero_one)}
BINARY_LOSSES: dict[str, BinaryLoss] = {
    f.__name__: f for f in (sigmoid, ramp, logistic, hinge, double_hinge, squared, exponential, binary_zero_one)
}


def get_loss(loss: str | Loss) -> Loss:
    """Find a loss by name, ``"cross_entropy"`` or ``"one_vs_all(ramp)"``; a callable is returned as it is.

    >>> get_loss("pairwise(sigmoid)").__name__
    'pairwise(sigmoid)'
    """
    if callable(loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    for make in (one_vs_all, pairwise):
        if isinstance(loss, str) and loss.startswith(make.__name__ + "(") and loss.endswith(")"):
            return make(loss[len(make.__name__) + 1 : -1])
    known = ", ".join([*LOSSES, "one_vs_all(...)", "pairwise(...)"])
    raise ValueError(f"`loss` must be a callable or one of {known}; got {loss!r}")


def get_binary(binary: str | BinaryLoss) -> BinaryLoss:
    """Find a binary loss by name."""
    if callable(binary):
        return binary
    if not isinstance(binary, str) or binary not in BINARY_LOSSES:
        raise ValueError(f"`binary` must be a callable or one of {', '.join(BINARY_LOSSES)}; got {binary!r}")
    return BINARY_LOSSES[binary]


def name_of(loss: Loss | BinaryLoss) -> str | None:
    """Give the name by which :func:`get_loss` or :func:`get_binary` finds this very loss; None for one of one's own.

    >>> name_of(cross_entropy), name_of(pairwise("ramp")), name_of(lambda z: z)
    ('cross_entropy', 'pairwise(ramp)', None)
    """
    name = str(getattr(loss, "__name__", ""))
    made_of = getattr(loss, "binary", None)
    if made_of is not None:
        return name if name_of(made_of) is not None else None
    return name if loss in (LOSSES.get(name), BINARY_LOSSES.get(name)) else None


def _named(loss: Loss, kind: str, s: BinaryLoss) -> Loss:
    """Give a built loss a name that `get_loss` understands, so that saved models can name it."""
    loss.__name__ = f"{kind}({getattr(s, '__name__', 'custom')})"
    loss.binary = s  # type: ignore[attr-defined]
    return loss
