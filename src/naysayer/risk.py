r"""Weights, class risks and corrections, as pure tensor functions.

A label of example i is a row :math:`W_i` of K weights with :math:`E[W_i \mid x_i] = P(Y = \cdot \mid x_i)`, so that
:math:`\frac1n \sum_i \sum_k W_{ik}\, \ell(k, g(x_i))` is unbiased for the ordinary risk of any loss and model.
Leading axes are free: a mini-batch is (..., B) labels and (..., B, K) losses, and a population of runs puts its
axis first. Nothing here branches on values, so all of it runs under vmap and inside a CUDA graph.

Labels are integers (..., B), "not this class", or a boolean ruled-out matrix (..., B, K).
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysayer import transition as transitions
from naysayer.checks import check_labels


def unbiased_weights(y_bar: Any, n_classes: int, transition: ArrayLike | None = None) -> Tensor:
    r"""Turn labels into rows of weights whose mean, given x, is the ordinary class posterior.

    ======================================  =============================================================
    "not c", uniform (Theorem 1)            :math:`1 - (K-1)[k = c]`
    "none of the s classes in S", uniform   :math:`1 - \frac{K-1}{s}[k \in S]`
    "is c" (S all the others)               :math:`[k = c]`
    "not c" with transition matrix Q        row c of :math:`Q^{-1}`; a set S averages the rows of its classes
    nothing ruled out                       zeros: the example says nothing and counts for nothing
    ======================================  =============================================================

    Parameters
    ----------
    y_bar : (N,) classes or (N, K) ruled-out matrix.
    n_classes : K
    transition : (K, K) matrix Q of the complementary labels; uniform if None. Ordinary labels do not pass through it.

    Returns
    -------
    (N, K) tensor, on the device of `y_bar` if that is a tensor.

    Examples
    --------
    >>> unbiased_weights([2, 0], n_classes=4)
    tensor([[ 1.,  1., -2.,  1.],
            [-2.,  1.,  1.,  1.]])
    >>> unbiased_weights([[True, True, False, False]], n_classes=4)
    tensor([[-0.5000, -0.5000,  1.0000,  1.0000]])
    """
    labels, n_classes = check_labels(y_bar, n_classes)
    device = y_bar.device if isinstance(y_bar, Tensor) else None
    inverse = inverse_tensor(transition, n_classes, device)
    return label_weights(torch.as_tensor(labels, device=device), n_classes, inverse)


def inverse_tensor(transition: ArrayLike | None, n_classes: int, device: torch.device | None = None) -> Tensor | None:
    """Give Q⁻¹ as a tensor of the default type; None stays None and means the uniform matrix."""
    if transition is None:
        return None
    inverse = torch.from_numpy(transitions.inverse(transition, n_classes))
    return inverse.to(device=device, dtype=torch.get_default_dtype())


def is_sets(y_bar: Tensor) -> bool:
    """Whether labels are a ruled-out matrix rather than one class each."""
    return y_bar.dtype == torch.bool


def one_hot(y_bar: Tensor, n_classes: int) -> Tensor:
    """(..., B) classes → (..., B, K) booleans; unlike torch's own, it never waits for the device."""
    return y_bar.unsqueeze(-1) == torch.arange(n_classes, device=y_bar.device)


def label_weights(y_bar: Tensor, n_classes: int, inverse: Tensor | None = None) -> Tensor:
    """Rows W of :func:`unbiased_weights`, unchecked: (..., B) or (..., B, K) → (..., B, K)."""
    if not is_sets(y_bar):
        if inverse is not None:
            return inverse[y_bar]
        return torch.where(one_hot(y_bar, n_classes), 2.0 - n_classes, 1.0)
    singles, ordinary = split_kinds(y_bar, inverse is not None)
    return spread(singles, inverse) + ordinary


def weights_at(y_bar: Tensor, classes: Tensor, n_classes: int, inverse: Tensor | None = None) -> Tensor:
    """W_i[k_i] for one class k_i an example, without the other K - 1: (..., B), (..., B) → (..., B)."""
    if not is_sets(y_bar):
        if inverse is not None:
            return inverse[y_bar, classes]
        return 1.0 - (n_classes - 1) * (y_bar == classes).to(torch.get_default_dtype())
    weights = label_weights(y_bar, n_classes, inverse)
    return weights.gather(-1, classes.expand(weights.shape[:-1]).unsqueeze(-1)).squeeze(-1)


def split_kinds(ruled_out: Tensor, known_transition: bool = False) -> tuple[Tensor, Tensor]:
    """Split a ruled-out matrix into its complementary labels and its ordinary ones, each (..., B, K).

    A set of s complementary labels becomes 1/s at each of them, since its row of weights is the mean of
    theirs; an ordinary label becomes 1 at its class. With two classes "not a" is "is b": the row counts as
    complementary only where a transition matrix says how "not a" came about.
    """
    n_classes = ruled_out.shape[-1]
    ruled = ruled_out.to(torch.get_default_dtype())
    size = ruled.sum(dim=-1, keepdim=True)
    is_ordinary = (size == n_classes - 1) & (not (known_transition and n_classes == 2))
    singles = torch.where(is_ordinary, 0.0, ruled / size.clamp(min=1.0))
    ordinary = torch.where(is_ordinary, 1.0 - ruled, 0.0)
    return singles, ordinary


def spread(singles: Tensor, inverse: Tensor | None) -> Tensor:
    """Amounts of single labels (..., B, K) → weights of the classes, by Q⁻¹; uniformly 11ᵀ - (K - 1) I."""
    if inverse is not None:
        return singles @ inverse
    return singles.sum(dim=-1, keepdim=True) - (singles.shape[-1] - 1) * singles


def count_labels(y_bar: Tensor, n_classes: int, known_transition: bool = False) -> Tensor:
    """Count labels of a batch: (..., K + 1), "not c" for each class c, then the ordinary ones."""
    if not is_sets(y_bar):
        complementary = one_hot(y_bar, n_classes).sum(dim=-2)
        return torch.cat([complementary, torch.zeros_like(complementary[..., :1])], dim=-1)
    singles, ordinary = split_kinds(y_bar, known_transition)
    return torch.cat([singles.sum(dim=-2), ordinary.sum(dim=(-2, -1)).unsqueeze(-1)], dim=-1)


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
