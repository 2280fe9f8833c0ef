"""Pairwise comparison, for binary losses with s(z) + s(-z) = 1.

T. Ishida, G. Niu, W. Hu, M. Sugiyama. Learning from complementary labels. NIPS 2017.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from naysayer.labels.weights import is_sets, label_weights
from naysayer.losses import BinaryLoss, get_binary, pairwise, ramp
from naysayer.objectives.base import Objective

_AT_ONCE = 1 << 18  # differences of two logits formed at once
_FEW = 4  # classes of an example whose losses are cheaper formed alone than from all logits sorted


class PairwiseComparison(Objective):
    r"""*PC* (Ishida et al., NIPS 2017): :math:`(K-1) \sum_{k \ne \bar y} s(g_k - g_{\bar y}) - M_1 + M_2`, averaged.

    The binary loss must have :math:`s(z) + s(-z) = 1` (ramp, sigmoid); then this is the unbiased risk of the pairwise
    comparison loss, with :math:`M_1 = K(K-1)/2` and :math:`M_2 = K - 1` (the paper's Corollary 2).

    Parameters
    ----------
    n_classes, transition, alpha : as for :class:`Objective`.
    binary : s, by name or as a callable.
    as_printed : train with :math:`\sum_{k \ne \bar y} s(g_k - g_{\bar y})`, the loss that the papers print, without the
        factor K - 1 and the constants. It has the same minimiser; SGD takes steps K - 1 times shorter, Adam the same.

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
        as_printed: bool = False,
        group: Any = None,
    ) -> None:
        super().__init__(n_classes, pairwise(binary), transition, alpha=alpha, group=group)
        self.binary, self.as_printed = get_binary(binary), as_printed
        z = torch.linspace(-3, 3, 13)
        if not torch.allclose(self.binary(z) + self.binary(-z), torch.ones_like(z), atol=1e-5):
            raise ValueError("`binary` must satisfy s(z) + s(-z) = 1, as ramp and sigmoid do; use Unbiased for others")

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        losses = self._unbiased(logits, y_bar)
        return losses / (self.n_classes - 1) + self.n_classes / 2 - 1 if self.as_printed else losses

    def _unbiased(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        """Give what each example adds to the unbiased risk, (..., B)."""
        if not is_sets(y_bar) and self.inverse is None:
            margins = logits - logits.gather(-1, y_bar.unsqueeze(-1))
            others = self.binary(margins).sum(dim=-1) - self.binary(torch.zeros_like(margins[..., 0]))
            return (self.n_classes - 1) * (others - self.n_classes / 2 + 1)
        if any(map(torch._C._functorch.is_functorch_wrapped_tensor, (logits, y_bar))):
            return super().example_losses(logits, y_bar)
        if self.inverse is None and logits.device.type == "cpu" and not torch.compiler.is_compiling():
            odd = torch.where(2 * y_bar.sum(dim=-1, keepdim=True) > self.n_classes, ~y_bar, y_bar)
            n_odd = int(odd.sum(dim=-1).max()) if odd.numel() else 0  # on a CPU nobody waits for it
            if n_odd <= _FEW:
                return self._of_few(logits, y_bar, odd, n_odd)
        weights = label_weights(y_bar, self.n_classes, self.inverse)
        if self.binary is ramp:
            return (weights * _pairwise_ramp(logits)).sum(dim=-1)
        return self._in_blocks(logits, weights)

    def _of_few(self, logits: Tensor, ruled_out: Tensor, odd: Tensor, n_odd: int) -> Tensor:
        r"""Sum over the classes that weigh other than most: the losses of all sum to :math:`K (K - 1) / 2`."""
        weights = label_weights(ruled_out, self.n_classes)
        chosen = odd.byte().topk(n_odd, dim=-1, sorted=False).indices
        common = torch.where(odd, 0.0, weights).sum(dim=-1, keepdim=True) / (~odd).sum(dim=-1, keepdim=True)
        excess = torch.where(odd, weights - common, 0.0).gather(-1, chosen)
        return (excess * self._losses(logits.gather(-1, chosen), logits)).sum(dim=-1) + common.squeeze(-1) * (
            self.n_classes * (self.n_classes - 1) / 2
        )

    def _losses(self, some: Tensor, logits: Tensor) -> Tensor:
        """Give the pairwise comparison losses of some of the classes: (..., k), (..., K) → (..., k)."""
        return self.binary(some.unsqueeze(-1) - logits.unsqueeze(-2)).sum(dim=-1) - self.binary(some - some)

    def _in_blocks(self, logits: Tensor, weights: Tensor) -> Tensor:
        """Sum over blocks of classes, formed again for the gradient: all K² differences are too much to hold."""
        total = torch.zeros_like(logits[..., 0])
        size = max(1, _AT_ONCE // max(1, logits.numel()))
        for some, weight in zip(logits.split(size, dim=-1), weights.split(size, dim=-1)):
            loss = checkpoint(self._losses, some, logits, use_reentrant=False, preserve_rng_state=False)
            total = total + (weight * loss).sum(dim=-1)
        return total


def _pairwise_ramp(logits: Tensor) -> Tensor:
    r"""Give :math:`\sum_{k' \ne k} s(g_k - g_{k'})` for the ramp, from the sorted logits: (..., K) → (..., K).

    A logit that is larger by more than 1 adds 1, one that differs by at most 1 adds :math:`\frac12 (1 - g_k + g_{k'})`.
    The sums of the latter are differences of cumulative sums, taken in float64.
    """
    g = logits.double()
    ordered = g.sort(dim=-1).values
    sums = torch.nn.functional.pad(ordered.cumsum(dim=-1), (1, 0))
    low = torch.searchsorted(ordered.detach(), g.detach() - 1)
    high = torch.searchsorted(ordered.detach(), g.detach() + 1, right=True)
    near = (high - low) * (1 - g) + sums.gather(-1, high) - sums.gather(-1, low)
    return (g.shape[-1] - high + 0.5 * near - 0.5).to(logits.dtype)  # without itself, which adds 1/2
