"""Forward correction: the likelihood of the label.

X. Yu, T. Liu, M. Gong, D. Tao. Learning with biased complementary labels. ECCV 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from naysayer.labels.weights import is_sets, one_hot, split_kinds
from naysayer.losses import cross_entropy
from naysayer.objectives.base import Objective

_AT_ONCE = 1 << 22  # terms, of which an example has one for each class and label, formed at once


class Forward(Objective):
    r"""*Forward correction* (Yu et al., ECCV 2018): the likelihood of the label, :math:`-\log (Q^\top p)_{\bar y}`.

    For uniform labels that is :math:`-\log\frac{1 - p_{\bar y}}{K - 1}`, computed as a logsumexp over the other
    classes. A set S of uniform labels has :math:`-\log \sum_{k \notin S} p_k` and a constant, an ordinary label
    :math:`-\log p_y`; with a given Q, a set averages the losses of its labels.

    Examples
    --------
    >>> Forward(n_classes=3)(torch.tensor([[0.0, 60.0, 60.0]]), torch.tensor([0])).item()  # log(K - 1)
    0.6931471824645996
    """

    def __init__(
        self, n_classes: int, transition: ArrayLike | None = None, *, alpha: float | None = None, group: Any = None
    ) -> None:
        super().__init__(n_classes, cross_entropy, transition, alpha=alpha, group=group)

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        log_p = torch.log_softmax(logits, dim=-1)
        if is_sets(y_bar):
            return self._set_losses(log_p, y_bar)
        if self.log_transition is not None:
            return -torch.logsumexp(self.log_transition[y_bar] + log_p, dim=-1)
        others = log_p.masked_fill(one_hot(y_bar, self.n_classes), -math.inf)
        return math.log(self.n_classes - 1) - torch.logsumexp(others, dim=-1)

    def _set_losses(self, log_p: Tensor, ruled_out: Tensor) -> Tensor:
        """Losses of a ruled-out matrix, (..., B); rows that say nothing get a finite value and no weight later."""
        size = ruled_out.sum(dim=-1).to(log_p.dtype)
        n_others = self.n_classes - 1
        log_sets = math.lgamma(n_others + 1) - torch.lgamma(size + 1) - torch.lgamma(n_others - size + 1)
        inside = log_sets - torch.logsumexp(log_p.masked_fill(ruled_out, -math.inf), dim=-1)
        if self.log_transition is None:
            return inside
        each = -in_blocks(_log_likelihood, log_p, self.log_transition, dim=-2)  # (..., B, K): the loss of "not c"
        singles, ordinary = split_kinds(ruled_out, known_transition=True)
        each = torch.where(singles > 0, each, 0.0)
        return torch.where(ordinary.any(dim=-1), inside, (singles * each).sum(dim=-1))


def _log_likelihood(log_p: Tensor, log_transition: Tensor) -> Tensor:
    """Give log P(not c | x) of some labels, rows c over the classes: (..., B, K), (C, K) → (..., B, C)."""
    return torch.logsumexp(log_transition + log_p.unsqueeze(-2), dim=-1)


def in_blocks(of: Callable[[Tensor, Tensor], Tensor], log_p: Tensor, matrix: Tensor, dim: int) -> Tensor:
    """Give `of(log_p, matrix)`, (..., B, K), from blocks of the labels, which are the axis `dim` of the matrix.

    They are formed again for the gradient: K² terms for each example are too much to hold. Under vmap all are formed.
    """
    size = max(1, _AT_ONCE // max(1, log_p.numel()))
    if size >= matrix.shape[dim] or any(map(torch._C._functorch.is_functorch_wrapped_tensor, (log_p, matrix))):
        return of(log_p, matrix)
    blocks = matrix.split(size, dim=dim)
    each = [checkpoint(of, log_p, some, use_reentrant=False, preserve_rng_state=False) for some in blocks]
    return torch.cat(each, dim=-1)
