"""Labels that are selected completely at random: a binary problem of negative and unlabelled examples for each class.

W. Wang, T. Ishida, Y.-J. Zhang, G. Niu, M. Sugiyama. Learning with complementary labels revisited: the
selected-completely-at-random setting is more practical. ICML 2024.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import softplus

from naysayer.labels.weights import is_sets, one_hot
from naysayer.objectives.base import Objective, check_prior


class NegativeUnlabelled(Objective):
    r"""*SCARCE* (Wang et al., ICML 2024): each class against the rest, from negative and unlabelled examples.

    Those that "not k" is said of, :math:`N_k`, are negative examples of class k, and all together unlabelled ones:

    .. math:: \sum_k \Bigl| \frac1n \sum_i s(g_k(x_i)) - \frac{1 - \pi_k}{|N_k|} \sum_{i \in N_k} s(g_k(x_i)) \Bigr|
              + \frac{1 - \pi_k}{|N_k|} \sum_{i \in N_k} s(-g_k(x_i)),

    with the logistic loss s. What stands between the bars is the risk of the positive examples, which cannot be
    negative. The share of negative examples that are told so may differ from class to class. An ordinary label is a set
    of K - 1.

    The class prior :math:`\pi` is 1 / K unless it is given, as in libcll. Of uniform labels it could also follow from
    their shares, :math:`1 - \pi_k = (K - 1) \bar\pi_k`: the total is then the unbiased risk of
    :func:`one_versus_rest`, Free with that loss, with its K positive parts corrected. But the standard error of such a
    :math:`\pi_k` is :math:`\sqrt{(K - 1)^3 / n} / K`, 0.085 for a thousand labels of ten classes: more than classes
    mostly differ by. Where labels are many and classes uneven, give what :func:`naysayer.metrics.class_prior` finds.

    Parameters
    ----------
    n_classes : K
    class_prior : (K,) share of each class among the examples; if None, all have the same.
    group : as of :class:`~naysayer.objectives.Objective`.

    Examples
    --------
    >>> NegativeUnlabelled(3)(torch.zeros(3, 3), torch.tensor([0, 1, 2])).item()  # 3 (1 - 2/3 + 2/3) log(2)
    2.079441...
    """

    class_prior: Tensor | None

    def __init__(self, n_classes: int, class_prior: ArrayLike | None = None, *, group: Any = None) -> None:
        super().__init__(n_classes, one_versus_rest, group=group)
        known = None if class_prior is None else check_prior(class_prior, self.n_classes, "`class_prior`")
        self.register_buffer("class_prior", known)

    def count(self, y_bar: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Count in how many rows each class is ruled out, and how many rows say something: (..., K + 1)."""
        rows = _said(y_bar, self.n_classes)
        return (rows if sample_weight is None else sample_weight.unsqueeze(-1) * rows).sum(dim=-2)

    def scales(self, counts: Tensor, prior: Tensor, alpha: Tensor | float) -> Tensor:
        """Give (1 - π_k) / |N_k| for each class, and 1 / n: (..., K + 1)."""
        n, n_rows = counts[..., :-1], counts[..., -1:]
        rest = 1.0 - (1.0 / self.n_classes if self.class_prior is None else self.class_prior)
        negative = torch.where(n > 0, rest / n.clamp(min=1e-12), 0.0)
        return torch.cat([negative, 1.0 / torch.where(n_rows > 0, n_rows, 1.0)], dim=-1)

    def risks(self, logits: Tensor, y_bar: Tensor, scales: Tensor) -> Tensor:
        """Give the K positive parts, and the sum of the negative ones: (..., K + 1)."""
        rows = _said(y_bar, self.n_classes)
        weights = rows * (scales if scales.dim() == rows.dim() else scales.unsqueeze(-2))
        negative, each = weights[..., :-1], weights[..., -1:]
        positive = ((each - negative) * softplus(-logits)).sum(dim=-2)
        return torch.cat([positive, (negative * softplus(logits)).sum(dim=(-2, -1)).unsqueeze(-1)], dim=-1)

    def correct(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        """Give the coefficients of the absolute values."""
        return torch.where(risks < 0, -1.0, 1.0).to(risks.dtype), torch.ones_like(risks[..., 0])


def one_versus_rest(logits: Tensor) -> Tensor:
    r"""Logistic losses of K binary problems, :math:`\ell(k, g) = s(g_k) + \sum_{j \ne k} s(-g_j)`: (..., K) → (..., K).

    Examples
    --------
    >>> one_versus_rest(torch.zeros(3))  # 3 log(2)
    tensor([2.0794, 2.0794, 2.0794])
    """
    return softplus(logits).sum(dim=-1, keepdim=True) - logits  # s(g) - s(-g) is -g


def _said(y_bar: Tensor, n_classes: int) -> Tensor:
    """1 where a row rules a class out, and in one column more where it says anything at all: (..., B, K + 1)."""
    ruled_out = y_bar if is_sets(y_bar) else one_hot(y_bar, n_classes)
    whole = torch.cat([ruled_out, ruled_out.any(dim=-1, keepdim=True)], dim=-1)
    return whole.to(torch.get_default_dtype())
