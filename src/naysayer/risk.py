r"""Class risks and their corrections, as pure tensor functions: the paper's formulas over the weights W of the labels.

A label of example i is a row :math:`W_i` of K weights (:mod:`naysayer.labels.weights`), so that

.. math:: \frac1n \sum_i \sum_k W_{ik}\, \ell(k, g(x_i))

is unbiased for the ordinary risk of any loss and model. In a mini-batch the example weighs :math:`w_i`, not 1/n; what
weighs alike has one entry in the batch's *scales*, (..., K + 1): the weight of "not c" for each class c, then
that of an ordinary label. They follow from the counts of the labels alone, so a batch that is spread over several
processes needs the sum of their counts and of their risks, and is then exact. An example with a weight m of its own
(`sample_weight`) counts m times, in :math:`\bar\pi` and :math:`n_c` as in the risk: as if its row was there m times.

Leading axes are free: a mini-batch is (..., B) labels and (..., B, K) losses, and a population of runs puts its axis
first. Nothing here branches on values, so all of it runs under vmap and inside a CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from naysayer.labels.weights import is_sets, label_weights, split_kinds, spread


def shares(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Counts (..., K + 1) → the prior π̄ of complementary labels (..., K) and their share of all labels (..., 1)."""
    complementary = counts[..., :-1]
    total = complementary.sum(dim=-1, keepdim=True)
    return complementary / total.clamp(min=1e-12), total / _or_one(counts.sum(dim=-1, keepdim=True))


def scales_by_class(counts: Tensor, prior: Tensor, alpha: Tensor | float) -> Tensor:
    r"""The weights π̄_c/n_c: :math:`w_i = \alpha\, \bar\pi_c / n_c` for "not c", :math:`(1-\alpha)/n` for "is c".

    A class absent from the batch adds nothing. With plain 1/n, the random class counts of a batch would make some
    class risks negative at every step. Counts (..., K + 1), π̄ (..., K), α (..., 1) → scales (..., K + 1).
    """
    n, n_ordinary = counts[..., :-1], counts[..., -1:]
    complementary = alpha * torch.where(n > 0, prior / n.clamp(min=1e-12), 0.0)
    ordinary = (1.0 - alpha) / _or_one(n_ordinary)
    return torch.cat([complementary, ordinary.expand(*complementary.shape[:-1], 1)], dim=-1)


def scales_by_kind(counts: Tensor, alpha: Tensor | float | None) -> Tensor:
    """Weights of a plain mean: 1/n of the labels that say something; with α, that times α or 1 - α of each kind.

    Counts (..., K + 1) → scales (..., K + 1).
    """
    n_ordinary = counts[..., -1:]
    n_complementary = counts[..., :-1].sum(dim=-1, keepdim=True)
    if alpha is None:
        return (1.0 / _or_one(n_complementary + n_ordinary)).expand(counts.shape)
    complementary = (alpha / _or_one(n_complementary)).expand(counts[..., :-1].shape)
    return torch.cat([complementary, (1.0 - alpha) / _or_one(n_ordinary)], dim=-1)


def _or_one(n: Tensor) -> Tensor:
    """A count to divide by: 1 where there is nothing to divide."""
    return torch.where(n > 0, n, 1.0)


def weighted_scales(scales: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Scales of each example, where examples have weights of their own: (..., K + 1), (..., B) → (..., B, K + 1)."""
    return scales if sample_weight is None else sample_weight.unsqueeze(-1) * scales.unsqueeze(-2)


def example_weights(y_bar: Tensor, scales: Tensor, known_transition: bool = False) -> Tensor:
    """The weight :math:`w_i` of each example: (..., B) or (..., B, K), (..., K + 1) or (..., B, K + 1) → (..., B).

    A set of s labels weighs the mean of its labels' weights, and an example that says nothing 0.
    """
    if not is_sets(y_bar):
        if scales.dim() == y_bar.dim():
            return scales.gather(-1, y_bar)
        return scales.gather(-1, y_bar.unsqueeze(-1)).squeeze(-1)
    singles, ordinary = split_kinds(y_bar, known_transition)
    each = _by_example(scales, y_bar)
    return (singles * each[..., :-1]).sum(dim=-1) + ordinary.sum(dim=-1) * each[..., -1]


def batch_weights(y_bar: Tensor, scales: Tensor, inverse: Tensor | None = None) -> Tensor:
    r"""Weights of a mini-batch, so that its risks are plain sums: :math:`w_i W_{ik}`, shape (..., B, K).

    Sets of labels count as their single labels do, one s-th each.
    """
    if not is_sets(y_bar):
        return example_weights(y_bar, scales).unsqueeze(-1) * label_weights(y_bar, scales.shape[-1] - 1, inverse)
    singles, ordinary = split_kinds(y_bar, inverse is not None)
    each = _by_example(scales, y_bar)
    return spread(singles * each[..., :-1], inverse) + ordinary * each[..., -1:]


def _by_example(scales: Tensor, ruled_out: Tensor) -> Tensor:
    """Scales with an axis of examples, of length 1 where all share them."""
    return scales if scales.dim() == ruled_out.dim() else scales.unsqueeze(-2)


def class_risks(losses: Tensor, weights: Tensor) -> Tensor:
    r"""Split the risk by ordinary class, :math:`r_k = \sum_i w_i W_{ik}\, \ell(k, g(x_i))`: (..., B, K) → (..., K)."""
    return (weights * losses).sum(dim=-2)


def max_operator(risks: Tensor) -> Tensor:
    r"""The max operator: coefficients of :math:`\nabla \sum_k \max\{0, r_k\}`: :math:`c_k = [r_k > 0]`."""
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
