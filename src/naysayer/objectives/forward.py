"""Forward correction: the likelihood of the label.

X. Yu, T. Liu, M. Gong, D. Tao. Learning with biased complementary labels. ECCV 2018.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysayer.labels.weights import is_sets, one_hot, split_kinds
from naysayer.losses import cross_entropy
from naysayer.objectives.base import Objective


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
        each = -torch.logsumexp(self.log_transition + log_p.unsqueeze(-2), dim=-1)  # (..., B, K): the loss of "not c"
        singles, ordinary = split_kinds(ruled_out, known_transition=True)
        each = torch.where(singles > 0, each, 0.0)
        return torch.where(ordinary.any(dim=-1), inside, (singles * each).sum(dim=-1))
