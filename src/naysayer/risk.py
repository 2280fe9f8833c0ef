r"""Weights, class risks and corrections, as pure tensor functions.

A label of example i is a row :math:`W_i` of K weights with :math:`E[W_i \mid x_i] = P(Y = \cdot \mid x_i)`, so that
:math:`\frac1n \sum_i \sum_k W_{ik}\, \ell(k, g(x_i))` is unbiased for the ordinary risk of any loss and model.
Leading axes are free: a mini-batch is (..., B) labels and (..., B, K) losses, and a population of runs puts its
axis first. Nothing here branches on values, so all of it runs under vmap and inside a CUDA graph.

Labels are integers (..., B), "not this class", or a boolean ruled-out matrix (..., B, K).
"""

from __future__ import annotations

import torch
from torch import Tensor

from naysayer.labels.weights import is_sets, label_weights, split_kinds, spread


def shares(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Counts (..., K + 1) → the prior π̄ of complementary labels (..., K) and their share of all labels (..., 1)."""
    complementary = counts[..., :-1]
    total = complementary.sum(dim=-1, keepdim=True)
    everything = counts.sum(dim=-1, keepdim=True).clamp(min=1.0)
    return complementary / total.clamp(min=1e-12), total / everything


def example_weights(y_bar: Tensor, prior: Tensor) -> Tensor:
    r"""The weight of each example "not c" in a mini-batch, :math:`\bar\pi_c / n_c`: (..., B), (..., K) → (..., B)."""
    n = prior.new_zeros(()).expand(*y_bar.shape[:-1], prior.shape[-1])
    n = n.scatter_add(-1, y_bar, torch.ones_like(y_bar, dtype=prior.dtype))  # no (B, K) array, however large K is
    return (prior / n.clamp(min=1)).gather(-1, y_bar)


def batch_weights(y_bar: Tensor, prior: Tensor, alpha: Tensor | float, inverse: Tensor | None = None) -> Tensor:
    r"""Weights of a mini-batch, so that its risks are plain sums: :math:`w_i W_{ik}`, shape (..., B, K).

    An example labelled "not c" weighs :math:`w_i = \bar\pi_c / n_c`, as in the paper; a class absent from the
    batch adds nothing. With plain 1/n, the random class counts of a batch would make some class risks
    negative at every step. Sets of labels count as their single labels do, one s-th each. Where ordinary labels
    are mixed in, the two kinds weigh α and 1 - α.
    """
    n_classes = prior.shape[-1]
    if not is_sets(y_bar):
        return example_weights(y_bar, prior).unsqueeze(-1) * label_weights(y_bar, n_classes, inverse)
    singles, ordinary = split_kinds(y_bar, inverse is not None)
    n = singles.sum(dim=-2, keepdim=True)
    scale = torch.where(n > 0, prior.unsqueeze(-2) / n.clamp(min=1e-12), 0.0)
    n_ordinary = ordinary.sum(dim=(-2, -1), keepdim=True).clamp(min=1.0)
    alpha = alpha.unsqueeze(-1) if isinstance(alpha, Tensor) else alpha
    return alpha * spread(singles * scale, inverse) + (1.0 - alpha) * ordinary / n_ordinary


def kind_weights(y_bar: Tensor, alpha: Tensor | float | None, known_transition: bool = False) -> Tensor:
    """Weights (..., B) of a plain mean over the examples that say something; α and 1 - α for the two kinds."""
    if not is_sets(y_bar):
        return torch.full_like(y_bar, 1.0 / y_bar.shape[-1], dtype=torch.get_default_dtype())
    ordinary = split_kinds(y_bar, known_transition)[1].sum(dim=-1)
    informative = y_bar.any(dim=-1).to(ordinary.dtype)
    if alpha is None:
        return informative / informative.sum(dim=-1, keepdim=True).clamp(min=1.0)
    complementary = informative - ordinary
    return alpha * complementary / complementary.sum(dim=-1, keepdim=True).clamp(min=1.0) + (
        1.0 - alpha
    ) * ordinary / ordinary.sum(dim=-1, keepdim=True).clamp(min=1.0)


def class_risks(losses: Tensor, weights: Tensor) -> Tensor:
    r"""Split the risk by ordinary class, :math:`r_k = \sum_i w_i W_{ik}\, \ell(k, g(x_i))`: (..., B, K) → (..., K)."""
    return (weights * losses).sum(dim=-2)


def max_operator(risks: Tensor) -> Tensor:
    r"""Coefficients of :math:`\nabla \sum_k \max\{0, r_k\}`: :math:`c_k = [r_k > 0]`."""
    return (risks > 0).to(risks.dtype)


def gradient_ascent(risks: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    r"""Coefficients of Algorithm 1's gradient, and where it ascends.

    :math:`c = 1` while :math:`\min_k r_k \ge -\beta`; otherwise :math:`c_k = -[r_k < -\beta]`, which climbs the
    risks that fell too low and leaves the others alone.

    Returns
    -------
    c : (..., K)
    ascends : (...,) bool

    Examples
    --------
    >>> gradient_ascent(torch.tensor([[0.2, 0.1], [0.2, -0.1]]), beta=0.0)
    (tensor([[ 1.,  1.],
            [-0., -1.]]), tensor([False,  True]))
    """
    below = risks < -beta
    ascends = below.any(dim=-1)
    return torch.where(ascends.unsqueeze(-1), -below.to(risks.dtype), 1.0), ascends
