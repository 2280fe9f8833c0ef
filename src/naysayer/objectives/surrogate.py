"""Surrogate complementary losses: push the probability of the label down, by a loss of that alone.

Y.-T. Chou, G. Niu, H.-T. Lin, M. Sugiyama. Unbiased risk estimators can mislead: a case study of learning with
complementary labels. ICML 2020.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from naysayer.common.checks import check_choice
from naysayer.labels.weights import is_sets, one_hot
from naysayer.objectives.averaged import LabelAverage

SHAPES = ("nl", "exp")


class Surrogate(LabelAverage):
    r"""*SCL* (Chou et al., ICML 2020): :math:`-\log(1 - p_{\bar y})` for "nl", :math:`\exp(p_{\bar y})` for "exp".

    The logarithm is a logsumexp over the other classes. With one label it is Forward's loss but for the constant
    :math:`\log(K - 1)`; a set averages the losses of its labels. Labels are taken to be uniform.

    Parameters
    ----------
    n_classes : K
    shape : "nl" (negative learning) or "exp".
    options : alpha and group, as of :class:`~naysayer.objectives.Objective`.

    Examples
    --------
    >>> Surrogate(n_classes=4)(torch.zeros(1, 4), torch.tensor([0])).item()  # - log(3/4)
    0.287682...
    """

    def __init__(self, n_classes: int, shape: str = "nl", **options: Any) -> None:
        super().__init__(n_classes, **options)
        self.shape = check_choice(shape, SHAPES, "`shape`")

    def label_losses(self, logits: Tensor) -> Tensor:
        if self.shape == "exp":
            return torch.softmax(logits, dim=-1).exp()
        return -log_of_others(logits)

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        if self.shape == "exp" or is_sets(y_bar):
            return super().example_losses(logits, y_bar)
        others = logits.masked_fill(one_hot(y_bar, self.n_classes), -math.inf)
        return torch.logsumexp(logits, dim=-1) - torch.logsumexp(others, dim=-1)


def log_of_others(logits: Tensor) -> Tensor:
    r"""Give :math:`\log \sum_{j \ne c} p_j` for every class c: (..., K) → (..., K).

    Only the likeliest class can have a p close to 1: its others are summed. The rest have at most 1/2, of which
    log1p loses nothing.

    Examples
    --------
    >>> log_of_others(torch.tensor([20.0, 0.0, 0.0]))[0]  # log(2) - 20, where 1 - p is 0 in float32
    tensor(-19.3069)
    """
    first = one_hot(logits.argmax(dim=-1), logits.shape[-1])
    log_p = torch.log_softmax(logits, dim=-1)
    others = torch.logsumexp(log_p.masked_fill(first, -math.inf), dim=-1, keepdim=True)
    return torch.where(first, others, torch.log1p(-log_p.exp().masked_fill(first, 0.0)))
