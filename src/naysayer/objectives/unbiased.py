"""The paper's own three: the unbiased risk, its non-negative form, and gradient ascent.

T. Ishida, G. Niu, A. K. Menon, M. Sugiyama. Complementary-label learning for arbitrary losses and models. ICML 2019.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysayer import risk
from naysayer.common.checks import number
from naysayer.losses import Loss, cross_entropy
from naysayer.objectives.base import Objective


class Unbiased(Objective):
    r"""*Free*: the unbiased risk itself, :math:`\sum_k r_k` (Theorem 1).

    Examples
    --------
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], requires_grad=True)
    >>> objective = Unbiased(n_classes=3)
    >>> objective(logits, torch.tensor([1, 0])).detach()
    tensor(0.3955)
    """

    def scales(self, counts: Tensor, prior: Tensor, alpha: Tensor | float) -> Tensor:
        return risk.scales_by_class(counts, prior, alpha)

    def risks(self, logits: Tensor, y_bar: Tensor, scales: Tensor) -> Tensor:
        """Split the unbiased risk by ordinary class, (..., K)."""
        return risk.class_risks(self.loss(logits), risk.batch_weights(y_bar, scales, self.inverse))


class NonNegative(Unbiased):
    r"""*Max operator*: no class risk counts below zero, :math:`\sum_k \max\{0, r_k\}`.

    Examples
    --------
    >>> objective = NonNegative(n_classes=3)
    >>> objective(torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([1])).item() >= 0
    True
    """

    def correct(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        return risk.max_operator(risks), torch.ones_like(risks[..., 0])


class GradientAscent(Unbiased):
    r"""*Gradient ascent* (Algorithm 1): climb the class risks that fell below :math:`-\beta`.

    :math:`\nabla \sum_k r_k` while :math:`\min_k r_k \ge -\beta`; otherwise
    :math:`-\gamma \nabla \sum_k \min\{-\beta, r_k\}`.

    Parameters
    ----------
    beta : tolerance, how far below zero a class risk may fall.
    gamma : the step's scale while ascending. A call scales the gradient by it, which under SGD is the same;
        under Adam it is not, and :class:`~naysayer.Population` scales the step.

    Examples
    --------
    >>> logits = torch.tensor([[9.0, 0.0, 0.0], [0.0, 9.0, 0.0]], requires_grad=True)
    >>> GradientAscent(n_classes=3)(logits, torch.tensor([1, 2])).backward()
    >>> logits.grad.shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        n_classes: int,
        loss: str | Loss = cross_entropy,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        beta: float = 0.0,
        gamma: float = 1.0,
        *,
        alpha: float | None = None,
        group: Any = None,
    ) -> None:
        super().__init__(n_classes, loss, transition, prior, alpha=alpha, group=group)
        if not math.isfinite(number(beta)):
            raise ValueError(f"`beta` must be a finite number; got {beta!r}")
        if not 0 <= number(gamma) <= 1:
            raise ValueError(f"`gamma` must be from 0 to 1, since it discounts the step; got {gamma!r}")
        self.beta, self.gamma = float(beta), float(gamma)

    def correct(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        coefficients, ascends = risk.gradient_ascent(risks, self.beta)
        return coefficients, torch.where(ascends, self.gamma, 1.0).to(risks.dtype)
