"""The likelihood of answers that may be wrong, for labels that people gave one yes or no at a time."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from naysayer.objectives.forward import Forward


class Likelihood(Forward):
    r"""How likely answers are that are wrong with probability e: :math:`-\log \sum_k p_k\, L_k` with

    .. math:: L_k = 1 \text{ for the classes that are left}, \quad e / (1 - e) \text{ for those that are ruled out}.

    It is exact for any way of asking: which questions come next depends on the answers, not on the class, so their
    probabilities cancel. Yes rules out all other classes, so a single one is not certain here either. What was ruled
    out twice counts as once. Labels are a ruled-out matrix.

    Examples
    --------
    >>> logits, ruled_out = torch.zeros(1, 4), torch.tensor([[True, False, False, False]])
    >>> round(Likelihood(4, error_rate=0.1)(logits, ruled_out).item(), 4)  # - log(3/4 + 1/4 / 9)
    0.2513
    """

    def __init__(self, n_classes: int, error_rate: float = 0.01) -> None:
        super().__init__(n_classes)
        self.error_rate = error_rate
        self.log_odds = math.log(error_rate / (1.0 - error_rate))

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        log_p = torch.log_softmax(logits, dim=-1)
        left = torch.logsumexp(log_p.masked_fill(y_bar, -math.inf), dim=-1)
        out = torch.logsumexp(log_p.masked_fill(~y_bar, -math.inf), dim=-1)
        return -torch.logaddexp(left, out + self.log_odds)

    def log_likelihoods(self, y_bar: Tensor) -> Tensor:
        return torch.where(y_bar, self.log_odds, 0.0)
