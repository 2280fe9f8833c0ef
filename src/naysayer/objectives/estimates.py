"""The reduction to probability estimates: estimate how likely each label is, then ask which class has such labels.

W.-I Lin, H.-T. Lin. Reduction from complementary-label learning to probability estimates. PAKDD 2023.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from naysayer.labels import transition as transitions
from naysayer.labels.weights import is_sets, split_kinds
from naysayer.objectives.base import Objective
from naysayer.objectives.forward import Forward, in_blocks

SHARPNESS = 10.0  # of scores: a class whose row is met is so much ahead of the next, in log odds


class ProbabilityEstimate(Objective):
    r"""*CPE-I*, or *CPE-T* (Lin and Lin, PAKDD 2023): the network's logits are those of the *labels*, decoded by Q.

    The loss of a label is :math:`-\log \bar p_{\bar y}`, with :math:`\bar p = \mathrm{softmax}(g)` for CPE-I. CPE-T
    has a transition layer on top of the network, :math:`\bar p = T^\top \mathrm{softmax}(g)`, whose T starts as Q and
    trains with the network: row y is :math:`\mathrm{softmax}(\log Q_y + U_y)`, so that what Q excludes stays
    excluded, and weight decay pulls T to Q. A set averages the losses of its labels; an ordinary label y is the soft
    label :math:`Q_y`.

    The class is the one whose row of Q is nearest, :math:`\arg\min_k \lVert \bar p - Q_k \rVert_1`: for uniform labels,
    the one whose label is the least likely.

    Parameters
    ----------
    n_classes : K
    transition : (K, K) matrix Q of the labels; uniform if None.
    layer : have the layer, CPE-T rather than CPE-I.
    alpha, group : as of :class:`~naysayer.objectives.Objective`.

    Examples
    --------
    >>> logits = torch.tensor([[-3.0, 1.0, 1.0]])
    >>> ProbabilityEstimate(3)(logits, torch.tensor([2])).item()
    0.70226...
    >>> ProbabilityEstimate(3).class_scores(logits).argmax().item()  # "not 0" is unlikely, so it is 0
    0
    """

    rows: Tensor

    def __init__(
        self,
        n_classes: int,
        transition: ArrayLike | None = None,
        layer: bool = False,
        *,
        alpha: float | None = None,
        group: Any = None,
    ) -> None:
        super().__init__(n_classes, transition=transition, alpha=alpha, group=group)
        self.register_buffer("rows", _rows(self))
        self.layer = layer
        if layer:
            self.head = TransitionLayer(self.rows)

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        log_p = torch.log_softmax(logits, dim=-1)
        if not is_sets(y_bar):
            return -log_p.gather(-1, y_bar.unsqueeze(-1)).squeeze(-1)
        singles, ordinary = split_kinds(y_bar, self.inverse is not None, self.rows.dtype)
        return -((singles + ordinary @ self.rows) * log_p).sum(dim=-1)

    def class_scores(self, logits: Tensor) -> Tensor:
        return nearest_row(torch.softmax(logits, dim=-1), self.rows)


class ForwardEstimate(Forward):
    r"""*CPE-F* (Lin and Lin, PAKDD 2023): a fixed transition layer, :math:`\bar p = Q^\top \mathrm{softmax}(g)`.

    It learns as :class:`Forward` does; only the class is another, the one whose row of Q is nearest to
    :math:`\bar p`, and for uniform labels that is the same.

    Examples
    --------
    >>> logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    >>> bool(ForwardEstimate(3)(logits, labels) == Forward(3)(logits, labels))
    True
    """

    rows: Tensor

    def __init__(self, n_classes: int, transition: ArrayLike | None = None, **options: Any) -> None:
        super().__init__(n_classes, transition, **options)
        self.register_buffer("rows", _rows(self))

    def class_scores(self, logits: Tensor) -> Tensor:
        _check_columns(logits, self.rows)
        rows = self.rows.to(logits)
        return nearest_row(torch.softmax(logits, dim=-1) @ rows, rows)


class TransitionLayer(nn.Module):
    """From logits of the classes to the logarithms of the labels' probabilities, by a matrix that trains.

    Parameters
    ----------
    rows : (K, K) the matrix at the start.

    Examples
    --------
    >>> TransitionLayer(torch.tensor([[0.5, 0.5], [0.0, 1.0]]))(torch.zeros(1, 2)).exp()
    tensor([[0.2500, 0.7500]], grad_fn=<ExpBackward0>)
    """

    log_rows: Tensor

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_rows", rows.log())
        self.shift = nn.Parameter(torch.zeros_like(rows))

    def forward(self, logits: Tensor) -> Tensor:
        _check_columns(logits, self.log_rows)
        log_t = torch.log_softmax(self.log_rows + self.shift, dim=-1)  # (..., K, K), leading axes as the logits have
        return in_blocks(_log_mixture, torch.log_softmax(logits, dim=-1), log_t, dim=-1)


def _log_mixture(log_p: Tensor, log_t: Tensor) -> Tensor:
    """Give the labels' log-probabilities by some columns of the matrix: (..., B, K), (..., K, C) → (..., B, C)."""
    return torch.logsumexp(log_p.unsqueeze(-1) + log_t.unsqueeze(-3), dim=-2)


def nearest_row(p: Tensor, rows: Tensor) -> Tensor:
    """Score classes by how near their rows of Q are to the labels' probabilities: (..., K), (K, K) → (..., K)."""
    _check_columns(p, rows)
    rows = rows.to(p)
    apart = torch.cdist(rows, rows, p=1) + torch.diag(torch.full_like(rows[0], torch.inf))
    return -SHARPNESS / apart.amin() * torch.cdist(p, rows, p=1)


def _check_columns(logits: Tensor, rows: Tensor) -> None:
    if logits.shape[-1] != rows.shape[-1]:
        raise ValueError(
            f"`network` must give {rows.shape[-1]} logits per example, one per class; got ({logits.shape[-1]},)"
        )


def _rows(objective: Objective) -> Tensor:
    """The transition matrix of an objective, the uniform one if it has none."""
    q = transitions.uniform(objective.n_classes) if objective.transition is None else objective.transition
    return torch.tensor(q, dtype=torch.get_default_dtype())
