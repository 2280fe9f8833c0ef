"""A discriminative model of the labels.

Y. Gao, M.-L. Zhang. Discriminative complementary-label learning with weighted loss. ICML 2021.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from naysayer.objectives.averaged import LabelAverage


class Discriminative(LabelAverage):
    r"""*L-UW* or *L-W* (Gao and Zhang, ICML 2021): :math:`-\log q_{\bar y}`, with :math:`q = \mathrm{softmax}(1 - p)`.

    L-W multiplies it by :math:`1 + \frac{1 - p_{\bar y}}{K - 1}`, and gradients pass through that too. Both are
    bounded: the entries of q differ by a factor of e at most. A set averages the losses of its labels; labels are
    taken to be uniform.

    Parameters
    ----------
    n_classes : K
    weighted : L-W rather than L-UW.
    options : alpha and group, as of :class:`~naysayer.objectives.Objective`.

    Examples
    --------
    >>> logits, label = torch.zeros(1, 4), torch.tensor([0])
    >>> Discriminative(4)(logits, label).item()  # log(4)
    1.386294...
    >>> Discriminative(4, weighted=True)(logits, label).item()  # 5/4 of that
    1.732867...
    """

    def __init__(self, n_classes: int, weighted: bool = False, **options: Any) -> None:
        super().__init__(n_classes, **options)
        self.weighted = weighted

    def label_losses(self, logits: Tensor) -> Tensor:
        p = torch.softmax(logits, dim=-1)
        losses = -torch.log_softmax(-p, dim=-1)
        return losses * (1.0 + (1.0 - p) / (self.n_classes - 1)) if self.weighted else losses
