r"""The one idea: a label of example i is a row :math:`W_i` of K weights with :math:`E[W_i | x_i] = P(Y = . | x_i)`.

Leading axes are free: labels are integers (..., B), "not this class", or a boolean ruled-out matrix (..., B, K), and
weights (..., B, K). Nothing here branches on values, so all of it runs under vmap and inside a CUDA graph.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysayer.labels import transition as transitions
from naysayer.labels.checks import check_labels
from naysayer.labels.kinds import is_ordinary


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


def label_weights(
    y_bar: Tensor, n_classes: int, inverse: Tensor | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Rows W of :func:`unbiased_weights`, unchecked: (..., B) or (..., B, K) → (..., B, K).

    `dtype` is that of the weights, and of `inverse` if there is one; torch's default type if None.
    """
    if not is_sets(y_bar):
        if inverse is not None:
            return inverse[y_bar]
        low = 2.0 - n_classes if dtype is None else torch.full((), 2.0 - n_classes, dtype=dtype, device=y_bar.device)
        return torch.where(one_hot(y_bar, n_classes), low, 1.0)
    singles, ordinary = split_kinds(y_bar, inverse is not None, dtype)
    return spread(singles, inverse) + ordinary


def weights_at(
    y_bar: Tensor, classes: Tensor, n_classes: int, inverse: Tensor | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """W_i[k_i] for one class k_i per example, without the other K - 1: (..., B), (..., B) → (..., B)."""
    if not is_sets(y_bar):
        if inverse is not None:
            return inverse[y_bar, classes]
        return 1.0 - (n_classes - 1) * (y_bar == classes).to(dtype or torch.get_default_dtype())
    weights = label_weights(y_bar, n_classes, inverse, dtype)
    return weights.gather(-1, classes.expand(weights.shape[:-1]).unsqueeze(-1)).squeeze(-1)


def split_kinds(
    ruled_out: Tensor, known_transition: bool = False, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Split a ruled-out matrix into its complementary labels and its ordinary ones, each (..., B, K).

    A set of s complementary labels becomes 1/s at each of them, since its row of weights is the mean of
    theirs; an ordinary label (:func:`~naysayer.labels.kinds.is_ordinary`) becomes 1 at its class.
    """
    ruled = ruled_out.to(dtype or torch.get_default_dtype())
    size = ruled.sum(dim=-1, keepdim=True)
    names_one = is_ordinary(size, ruled_out.shape[-1], known_transition)
    singles = torch.where(names_one, 0.0, ruled / size.clamp(min=1.0))
    ordinary = torch.where(names_one, 1.0 - ruled, 0.0)
    return singles, ordinary


def spread(singles: Tensor, inverse: Tensor | None) -> Tensor:
    """Amounts of single labels (..., B, K) → weights of the classes, by Q⁻¹; uniformly 11ᵀ - (K - 1) I."""
    if inverse is not None:
        return singles @ inverse
    return singles.sum(dim=-1, keepdim=True) - (singles.shape[-1] - 1) * singles


def log_likelihoods(y_bar: Tensor, n_classes: int, log_transition: Tensor | None = None) -> Tensor:
    r"""How likely each class makes a label, :math:`\log P(\bar y | y = k)` up to a constant: (..., B, K).

    The other face of the row of weights: added to the log of a prior, it gives a posterior. Uniform labels rule
    out their classes and say nothing of the others; by a known Q, (K, K) with row c :math:`\log Q_{\cdot c}`, the
    labels of a set count as drawn one by one. Labels that contradict one another say nothing.
    """
    if not is_sets(y_bar):
        if log_transition is not None:
            return log_transition[y_bar]
        nothing = torch.zeros((), dtype=torch.get_default_dtype(), device=y_bar.device)
        return torch.where(one_hot(y_bar, n_classes), -torch.inf, nothing)
    ruled = y_bar.to(torch.get_default_dtype())
    alone = torch.zeros_like(ruled).masked_fill_(y_bar, -torch.inf)
    if log_transition is None:
        return alone
    never = log_transition == -torch.inf
    impossible = ruled @ never.to(ruled.dtype) > 0
    together = (ruled @ log_transition.masked_fill(never, 0.0)).masked_fill(impossible, -torch.inf)
    together = torch.where(impossible.all(dim=-1, keepdim=True), 0.0, together)
    ordinary = is_ordinary(ruled.sum(dim=-1, keepdim=True), n_classes, known_transition=True)
    return torch.where(ordinary, alone, together)


def count_labels(
    y_bar: Tensor, n_classes: int, known_transition: bool = False, sample_weight: Tensor | None = None
) -> Tensor:
    """Count labels of a batch: (..., K + 1), "not c" for each class c, then the ordinary ones.

    An example of weight m, (..., B), counts m times; once where there are no weights.
    """
    if not is_sets(y_bar):  # no (B, K) array, however large K is
        ones = torch.ones_like(y_bar, dtype=torch.get_default_dtype()) if sample_weight is None else sample_weight
        return ones.new_zeros(()).expand(*y_bar.shape[:-1], n_classes + 1).scatter_add(-1, y_bar, ones)
    singles, ordinary = split_kinds(y_bar, known_transition)
    if sample_weight is not None:
        singles, ordinary = sample_weight.unsqueeze(-1) * singles, sample_weight.unsqueeze(-1) * ordinary
    return torch.cat([singles.sum(dim=-2), ordinary.sum(dim=(-2, -1)).unsqueeze(-1)], dim=-1)
