"""Progressive identification of the true label among those that are left.

J. Lv, M. Xu, L. Feng, G. Niu, X. Geng, M. Sugiyama. Progressive identification of true labels for partial-label
learning. ICML 2020.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from naysayer.labels.weights import is_sets, one_hot
from naysayer.objectives.base import Objective


class Progressive(Objective):
    r"""*PRODEN* (Lv et al., ICML 2020): cross-entropy to the network's own probabilities of the classes that are left,

    .. math:: -\sum_{k \notin S} t_k \log p_k, \qquad t_k = \frac{p_k}{\sum_{j \notin S} p_j} \text{ without gradient}.

    Used alone, the targets are those of the current network. So the gradient is exactly that of
    :math:`-\log \sum_{k \notin S} p_k`, Forward's for uniform labels, as in a step of expectation maximisation; only
    the value differs, by the entropy of t. The paper keeps each example's targets from the epoch before, as the recipe
    "progressive" does (:class:`~naysayer.engine.recipe.Remembered`). Labels are taken to be uniform.

    Examples
    --------
    >>> labels = torch.tensor([[True, True, False, False]])
    >>> Progressive(4)(torch.zeros(1, 4), labels).item()  # log(4)
    1.386294...
    """

    def __init__(self, n_classes: int, *, alpha: float | None = None, group: Any = None) -> None:
        super().__init__(n_classes, alpha=alpha, group=group)

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        return self.losses_to(self.of_those_left(logits.detach(), y_bar), logits)

    @staticmethod
    def of_those_left(logits: Tensor, y_bar: Tensor) -> Tensor:
        """Give the probabilities of the classes that labels leave, normalised: (..., B, K) → (..., B, K)."""
        ruled_out = y_bar if is_sets(y_bar) else one_hot(y_bar, logits.shape[-1])
        return torch.softmax(logits.masked_fill(ruled_out, -math.inf), dim=-1)

    @staticmethod
    def losses_to(targets: Tensor, logits: Tensor) -> Tensor:
        """Give the cross-entropy to targets: (..., B, K), (..., B, K) → (..., B)."""
        return -(targets * torch.log_softmax(logits, dim=-1)).sum(dim=-1)
