"""Order-preserving losses.

S. Liu, Y. Cao, Q. Zhang, L. Feng, B. An. Consistent complementary-label learning via order-preserving losses.
AISTATS 2023.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from naysayer.objectives.averaged import LabelAverage

_LARGEST = 1e18  # of 1 / q, as by the authors' 1e-18: two that differ at all differ there by all a softmax can tell


class OrderPreserving(LabelAverage):
    r"""*OP* or *OP-W* (Liu et al., AISTATS 2023): :math:`-\log q_{\bar y}`, with :math:`q = \mathrm{softmax}(-g)`.

    Uniform labels are the likelier the less likely their class is, so the order of the logits is turned round. OP-W
    multiplies it by :math:`w_{\bar y} = \mathrm{softmax}(1 / q)_{\bar y}\, p_{\bar y}`, without the small constant
    that the authors add. The gradient passes through w, too; where 1 / q exceeds 1e18, its own is scaled down to what
    it is there, since it has no bound. A set averages the losses of its labels; labels are taken to be uniform.

    OP is CPE-I of a network whose last layer has the other sign: it estimates the same probabilities of the labels.

    Parameters
    ----------
    n_classes : K
    weighted : OP-W rather than OP.
    options : alpha and group, as of :class:`~naysayer.objectives.Objective`.

    Examples
    --------
    >>> logits, label = torch.zeros(1, 4), torch.tensor([0])
    >>> OrderPreserving(4)(logits, label).item()  # log(4)
    1.386294...
    >>> OrderPreserving(4, weighted=True)(logits, label).item()  # 1/16 of that
    0.086643...
    """

    def __init__(self, n_classes: int, weighted: bool = False, **options: Any) -> None:
        super().__init__(n_classes, **options)
        self.weighted = weighted

    def label_losses(self, logits: Tensor) -> Tensor:
        losses = -torch.log_softmax(-logits, dim=-1)
        return losses * _weights(losses, logits) if self.weighted else losses


def _weights(losses: Tensor, logits: Tensor) -> Tensor:
    """softmax(1 / q) p with q = exp(-losses), (..., K), without 1 / q, which may overflow."""
    most = losses.detach().amax(dim=-1, keepdim=True)  # a softmax does not change with what is subtracted from all
    below = torch.expm1(losses - most) * most.exp().clamp(max=_LARGEST)  # 1 / q, less the largest of them
    return torch.softmax(below, dim=-1) * torch.softmax(logits, dim=-1)
