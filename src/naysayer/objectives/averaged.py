"""What methods share whose papers give a loss of one label: a set averages the losses of its labels."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from naysayer.labels.weights import is_sets
from naysayer.objectives.base import Objective


class LabelAverage(Objective):
    r"""The mean over the labels c of an example of :math:`\bar\ell(c, g)`, which :meth:`label_losses` gives for all c.

    A set S of labels has :math:`\frac1{|S|} \sum_{c \in S} \bar\ell(c, g)`, as Feng et al. (ICML 2020) wrap methods of
    one label; an ordinary label is the set of all other classes. Labels are taken to be uniform.
    """

    def __init__(self, n_classes: int, *, alpha: float | None = None, group: Any = None) -> None:
        super().__init__(n_classes, alpha=alpha, group=group)

    def label_losses(self, logits: Tensor) -> Tensor:
        """Give the loss of "not c" for every class c: (..., K) → (..., K)."""
        raise NotImplementedError(f"{type(self).__name__} must have a method label_losses(logits)")

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        losses = self.label_losses(logits)
        if not is_sets(y_bar):
            return losses.gather(-1, y_bar.unsqueeze(-1)).squeeze(-1)
        return losses.masked_fill(~y_bar, 0.0).sum(dim=-1) / y_bar.sum(dim=-1).clamp(min=1)
