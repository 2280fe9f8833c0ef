"""Upper bounds of the unbiased risk of several complementary labels.

L. Feng, T. Kaneko, B. Han, G. Niu, B. An, M. Sugiyama. Learning with multiple complementary labels. ICML 2020.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from naysayer.common.checks import check_choice
from naysayer.labels.weights import is_sets, one_hot
from naysayer.objectives.base import Objective

SHAPES = ("mae", "exp", "log")


class UpperBound(Objective):
    r"""*MCL* (Feng et al., ICML 2020): :math:`\frac{K-1}{s} \varphi(q)` of what a set S of s labels leaves.

    With :math:`q = \sum_{k \notin S} p_k`, :math:`\varphi(q)` is :math:`1 - q` for "mae", :math:`e^{-q}` for "exp",
    and :math:`-\log q` for "log", which is a logsumexp over the classes that are left. The first is half the unbiased
    risk of the mean absolute error, Free with that loss; the others bound it from above. An ordinary label
    weighs 1. Labels are taken to be uniform.

    Parameters
    ----------
    n_classes : K
    shape : "mae", "exp" or "log".
    alpha, group : as of :class:`~naysayer.objectives.Objective`.

    Examples
    --------
    >>> labels = torch.tensor([[True, True, False, False]])
    >>> UpperBound(4)(torch.zeros(1, 4), labels).item()  # 3/2 of - log(1/2)
    1.0397...
    >>> UpperBound(4, "mae")(torch.zeros(1, 4), labels).item()
    0.75
    """

    def __init__(self, n_classes: int, shape: str = "log", *, alpha: float | None = None, group: Any = None) -> None:
        super().__init__(n_classes, alpha=alpha, group=group)
        self.shape = check_choice(shape, SHAPES, "`shape`")

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        ruled_out = y_bar if is_sets(y_bar) else one_hot(y_bar, self.n_classes)
        factor = (self.n_classes - 1) / ruled_out.sum(dim=-1).clamp(min=1)
        if self.shape == "log":
            left = logits.masked_fill(ruled_out, -math.inf)
            return factor * (torch.logsumexp(logits, dim=-1) - torch.logsumexp(left, dim=-1))
        p = torch.softmax(logits, dim=-1)
        if self.shape == "mae":
            return factor * p.masked_fill(~ruled_out, 0.0).sum(dim=-1)
        return factor * torch.exp(-p.masked_fill(ruled_out, 0.0).sum(dim=-1))
