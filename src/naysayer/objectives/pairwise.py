"""Pairwise comparison, for binary losses with s(z) + s(-z) = 1.

T. Ishida, G. Niu, W. Hu, M. Sugiyama. Learning from complementary labels. NIPS 2017.
"""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysayer.labels.weights import is_sets
from naysayer.losses import BinaryLoss, get_binary, pairwise, ramp
from naysayer.objectives.base import Objective


class PairwiseComparison(Objective):
    r"""*PC* (Ishida et al., NIPS 2017): :math:`(K-1) \sum_{k \ne \bar y} s(g_k - g_{\bar y}) - M_1 + M_2`, averaged.

    The binary loss must have :math:`s(z) + s(-z) = 1` (ramp, sigmoid); then this is the unbiased risk of the pairwise
    comparison loss, with :math:`M_1 = K(K-1)/2` and :math:`M_2 = K - 1` (the paper's Corollary 2). The loss that the
    paper prints lacks the factor K - 1: for SGD, which feels it, divide the paper's learning rates by that.

    Examples
    --------
    >>> PairwiseComparison(n_classes=3)(torch.tensor([[0.0, 5.0, 0.0]]), torch.tensor([0]))
    tensor(0.)
    """

    def __init__(
        self,
        n_classes: int,
        binary: str | BinaryLoss = ramp,
        transition: ArrayLike | None = None,
        *,
        alpha: float | None = None,
    ) -> None:
        super().__init__(n_classes, pairwise(binary), transition, alpha=alpha)
        self.binary = get_binary(binary)
        z = torch.linspace(-3, 3, 13)
        if not torch.allclose(self.binary(z) + self.binary(-z), torch.ones_like(z), atol=1e-5):
            raise ValueError("`binary` must satisfy s(z) + s(-z) = 1, as ramp and sigmoid do; use Unbiased for others")

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        if is_sets(y_bar) or self.inverse is not None:
            return super().example_losses(logits, y_bar)
        margins = logits - logits.gather(-1, y_bar.unsqueeze(-1))
        others = self.binary(margins).sum(dim=-1) - self.binary(torch.zeros_like(margins[..., 0]))
        return (self.n_classes - 1) * (others - self.n_classes / 2 + 1)
