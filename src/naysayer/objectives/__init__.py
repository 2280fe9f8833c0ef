"""What a training step minimises: thin modules over :mod:`naysayer.risk`, each usable alone in anyone's loop.

    objective = GradientAscent(n_classes=10)
    objective(network(x), y_bar).backward()

The value of a call is a scalar whose gradient is the direction of the update. No call waits for the device,
branches on a value or fails under ``torch.func.vmap``, so that a step can be captured in a CUDA graph.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from naysayer import risk
from naysayer.engine import kernels
from naysayer.labels.checks import check_labels, check_n_classes, check_transition
from naysayer.labels.weights import count_labels, inverse_tensor, is_sets, label_weights, one_hot, split_kinds
from naysayer.losses import BinaryLoss, Loss, cross_entropy, get_binary, get_loss, pairwise, ramp


class Objective(nn.Module):
    """What all objectives share: K, the loss, the transition matrix, and the shares of the labels.

    Parameters
    ----------
    n_classes : K
    loss : any loss of :mod:`naysayer.losses`, by name or as a callable (..., K) → (..., K).
    transition : (K, K) matrix Q of the complementary labels; uniform if None.
    prior : (K,) π̄, the share of each complementary label in the training set. If None, it is counted from the
        labels seen so far in training mode; under vmap, where batches belong to different runs, from the batch.
    alpha : weight of the complementary against the ordinary labels, α R̄ + (1 - α) R, where both
        occur; None weighs every example alike.
    """

    prior: Tensor | None
    inverse: Tensor | None
    seen: Tensor

    def __init__(
        self,
        n_classes: int,
        loss: str | Loss = cross_entropy,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        alpha: float | None = None,
    ) -> None:
        super().__init__()
        self.n_classes = check_n_classes(n_classes)
        self.loss = get_loss(loss)
        if alpha is not None and not 0 <= alpha <= 1:
            raise ValueError(f"`alpha` must be from 0 to 1; got {alpha}")
        self.alpha = alpha
        self.register_buffer("inverse", inverse_tensor(transition, self.n_classes))
        self.register_buffer("prior", None if prior is None else _check_prior(prior, self.n_classes))
        self.register_buffer("seen", torch.zeros(self.n_classes + 1, dtype=torch.float64), persistent=False)

    def forward(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        """Give the scalar whose gradient is the update's direction: (B, K), (B,) or (B, K) → ()."""
        y_bar = self._check(logits, y_bar)
        value, scale = self.measure(logits, y_bar, *self._shares(y_bar, count=self.training))
        return value * scale

    def class_risks(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        r"""Split the unbiased risk by ordinary class, :math:`r_k = \sum_i w_i W_{ik}\, \ell(k, g(x_i))`: (K,)."""
        y_bar = self._check(logits, y_bar)
        prior, alpha = self._shares(y_bar, count=False)
        return risk.class_risks(self.loss(logits), risk.batch_weights(y_bar, prior, alpha, self.inverse))

    def measure(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, alpha: Tensor | float, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Give the value and the scale of the step it asks for, unchecked, for a batch with any leading axes.

        (..., B, K), (..., B) or (..., B, K), (..., K), (..., 1) → (...,), (...,). `weights` are the examples'
        :func:`~naysayer.risk.example_weights` where the caller has them already.
        """
        fused = self._fused(logits, y_bar, prior, weights)
        if fused is not None:
            return kernels.Precomputed.apply(logits, *fused)
        value = (
            risk.kind_weights(y_bar, self.alpha, self.inverse is not None) * self.example_losses(logits, y_bar)
        ).sum(dim=-1)
        return value, torch.ones_like(value)

    def differentiate(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, alpha: Tensor | float, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give what :meth:`measure` does, and the value's gradient in the logits; none of them is traced further."""
        fused = self._fused(logits, y_bar, prior, weights)
        if fused is not None:
            return fused
        with torch.enable_grad():
            logits = logits.detach().requires_grad_()
            value, scale = self.measure(logits, y_bar, prior, alpha, weights)
            (gradient,) = torch.autograd.grad(value, logits, torch.ones_like(value), materialize_grads=True)
        return value.detach(), scale, gradient

    def _fused(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Give what :meth:`differentiate` does from one CUDA kernel, where there is one for this case."""
        return None

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        """Give what each example alone contributes to the objective before any correction, unchecked: (..., B)."""
        return (label_weights(y_bar, self.n_classes, self.inverse) * self.loss(logits)).sum(dim=-1)

    def _shares(self, y_bar: Tensor, *, count: bool) -> tuple[Tensor, Tensor | float]:
        """π̄ and α: as given, or from the labels counted so far, or, when none were, from this batch."""
        batch = count_labels(y_bar, self.n_classes, self.inverse is not None)
        if count and not torch._C._functorch.is_functorch_wrapped_tensor(y_bar):
            self.seen += batch
        counts = torch.where(self.seen.sum() > 0, self.seen, batch).to(torch.get_default_dtype())
        prior, alpha = risk.shares(counts)
        return (
            prior if self.prior is None else self.prior,
            alpha if self.alpha is None else self.alpha,
        )

    def _check(self, logits: Tensor, y_bar: Any) -> Tensor:
        """Check shapes, and values where that does not make the host wait."""
        if not isinstance(y_bar, Tensor):
            y_bar = torch.as_tensor(y_bar, device=logits.device)
        if logits.dim() < 2 or logits.shape[-1] != self.n_classes:
            raise ValueError(
                f"`logits` must have n_classes = {self.n_classes} columns; got shape {tuple(logits.shape)}"
            )
        if y_bar.shape not in (logits.shape[:-1], logits.shape):
            raise ValueError(
                f"`y_bar` must be ({logits.shape[-2]},) classes or a {tuple(logits.shape)} ruled-out matrix, as many "
                f"rows as `logits`; got shape {tuple(y_bar.shape)}"
            )
        plain = not torch._C._functorch.is_functorch_wrapped_tensor(y_bar) and not torch.compiler.is_compiling()
        if plain and y_bar.device.type == "cpu":
            checked, _ = check_labels(y_bar, self.n_classes)
            return torch.from_numpy(checked)
        return y_bar if y_bar.dim() < logits.dim() else y_bar.bool()


class Unbiased(Objective):
    r"""*Free*: the unbiased risk itself, :math:`\sum_k r_k` (Theorem 1).

    Examples
    --------
    >>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]], requires_grad=True)
    >>> objective = Unbiased(n_classes=3)
    >>> objective(logits, torch.tensor([1, 0])).detach()
    tensor(0.3955)
    """

    def measure(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, alpha: Tensor | float, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        fused = self._fused(logits, y_bar, prior, weights)
        if fused is not None:
            return kernels.Precomputed.apply(logits, *fused)
        risks = risk.class_risks(self.loss(logits), self._rows(y_bar, prior, alpha, weights))
        coefficients, scale = self.correct(risks.detach())
        return (coefficients * risks).sum(dim=-1), scale

    def differentiate(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, alpha: Tensor | float, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if self.loss is not cross_entropy or logits.is_cuda:
            return super().differentiate(logits, y_bar, prior, alpha, weights)
        rows = self._rows(y_bar, prior, alpha, weights)
        log_p = torch.log_softmax(logits, dim=-1)
        risks = risk.class_risks(-log_p, rows)
        coefficients, scale = self.correct(risks)
        rows = coefficients.unsqueeze(-2) * rows
        gradient = log_p.exp_().mul_(rows.sum(dim=-1, keepdim=True)).sub_(rows)  # p - W, were the c all 1
        return (coefficients * risks).sum(dim=-1), scale, gradient

    def _fused(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        if self.loss is not cross_entropy or not kernels.can_fuse(logits, y_bar):
            return None
        if weights is None:
            weights = risk.example_weights(y_bar, prior)
        return kernels.corrected_risk(logits, y_bar, weights, self.inverse, *self.correction())

    def _rows(self, y_bar: Tensor, prior: Tensor, alpha: Tensor | float, weights: Tensor | None) -> Tensor:
        """The batch's weights w_i W_ik, (..., B, K)."""
        if weights is None or is_sets(y_bar):
            return risk.batch_weights(y_bar, prior, alpha, self.inverse)
        return weights.unsqueeze(-1) * label_weights(y_bar, self.n_classes, self.inverse)

    def correct(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        """Give the coefficients c of ∇r_k (..., K) and the scale of the step (...,)."""
        return torch.ones_like(risks), torch.ones_like(risks[..., 0])

    def correction(self) -> tuple[str, float, float]:
        """Name the correction and its β and γ, for the fused kernel."""
        return "free", 0.0, 1.0


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

    def correction(self) -> tuple[str, float, float]:
        return "max", 0.0, 1.0


class GradientAscent(Unbiased):
    r"""*Gradient ascent* (Algorithm 1): climb the class risks that fell below :math:`-\beta`.

    :math:`\nabla \sum_k r_k` while :math:`\min_k r_k \ge -\beta`; otherwise
    :math:`-\gamma \nabla \sum_k \min\{-\beta, r_k\}`.

    Parameters
    ----------
    beta : tolerance, how far below zero a class risk may fall.
    gamma : the step's scale while ascending. A call scales the gradient by it, which under SGD is the same;
        under Adam it is not, and :class:`~naysayer.engine.population.Population` scales the step.

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
    ) -> None:
        super().__init__(n_classes, loss, transition, prior, alpha=alpha)
        if not math.isfinite(beta):
            raise ValueError(f"`beta` must be a finite number; got {beta}")
        if not 0 <= gamma <= 1:
            raise ValueError(f"`gamma` must be from 0 to 1, since it discounts the step; got {gamma}")
        self.beta, self.gamma = float(beta), float(gamma)

    def correct(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        coefficients, ascends = risk.gradient_ascent(risks, self.beta)
        return coefficients, torch.where(ascends, self.gamma, 1.0).to(risks.dtype)

    def correction(self) -> tuple[str, float, float]:
        return "ascent", self.beta, self.gamma


class Forward(Objective):
    r"""*Forward correction* (Yu et al., ECCV 2018): the likelihood of the label, :math:`-\log (Q^\top p)_{\bar y}`.

    For uniform labels that is :math:`-\log\frac{1 - p_{\bar y}}{K - 1}`, computed as a logsumexp over the other
    classes. A set S of uniform labels has :math:`-\log \sum_{k \notin S} p_k` and a constant, an ordinary label
    :math:`-\log p_y`; with a given Q, a set averages the losses of its labels.

    Examples
    --------
    >>> Forward(n_classes=3)(torch.tensor([[0.0, 60.0, 60.0]]), torch.tensor([0])).item()  # log(K - 1)
    0.6931471824645996
    """

    log_transition: Tensor | None

    def __init__(self, n_classes: int, transition: ArrayLike | None = None, *, alpha: float | None = None) -> None:
        super().__init__(n_classes, cross_entropy, transition, alpha=alpha)
        log_q = None
        if transition is not None:
            q = torch.tensor(check_transition(transition, n_classes), dtype=torch.get_default_dtype())
            log_q = q.log().T.contiguous()  # row c: log P(label = c | class = y) over y
        self.register_buffer("log_transition", log_q)

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        log_p = torch.log_softmax(logits, dim=-1)
        if is_sets(y_bar):
            return self._set_losses(log_p, y_bar)
        if self.log_transition is not None:
            return -torch.logsumexp(self.log_transition[y_bar] + log_p, dim=-1)
        others = log_p.masked_fill(one_hot(y_bar, self.n_classes), -math.inf)
        return math.log(self.n_classes - 1) - torch.logsumexp(others, dim=-1)

    def _fused(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        if not kernels.can_fuse(logits, y_bar):
            return None
        return kernels.mean_loss(logits, y_bar, "forward", self.log_transition)

    def _set_losses(self, log_p: Tensor, ruled_out: Tensor) -> Tensor:
        """Losses of a ruled-out matrix, (..., B); rows that say nothing get a finite value and no weight later."""
        size = ruled_out.sum(dim=-1).to(log_p.dtype)
        n_others = self.n_classes - 1
        log_sets = math.lgamma(n_others + 1) - torch.lgamma(size + 1) - torch.lgamma(n_others - size + 1)
        inside = log_sets - torch.logsumexp(log_p.masked_fill(ruled_out, -math.inf), dim=-1)
        if self.log_transition is None:
            return inside
        each = -torch.logsumexp(self.log_transition + log_p.unsqueeze(-2), dim=-1)  # (..., B, K): the loss of "not c"
        singles, ordinary = split_kinds(ruled_out, known_transition=True)
        each = torch.where(singles > 0, each, 0.0)
        return torch.where(ordinary.any(dim=-1), inside, (singles * each).sum(dim=-1))


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

    def _fused(
        self, logits: Tensor, y_bar: Tensor, prior: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        if self.binary is not ramp or self.inverse is not None or not kernels.can_fuse(logits, y_bar):
            return None
        return kernels.mean_loss(logits, y_bar, "ramp")


OBJECTIVES: dict[str, type[Objective]] = {
    "free": Unbiased,
    "max": NonNegative,
    "ascent": GradientAscent,
    "forward": Forward,
    "pairwise": PairwiseComparison,
}


def _check_prior(prior: Any, n_classes: int) -> Tensor:
    """Check π̄: K shares that sum to 1."""
    values = torch.as_tensor(prior, dtype=torch.get_default_dtype())
    if values.shape != (n_classes,) or not torch.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"`prior` must be {n_classes} shares, none negative; got shape {tuple(values.shape)}")
    if abs(float(values.sum()) - 1) > 1e-4:
        raise ValueError(f"`prior` must sum to 1; got {float(values.sum()):.6g}")
    return values


def make(name: str, n_classes: int, **options: Any) -> Objective:
    """Build the objective of a name in `OBJECTIVES` with those of the options that its constructor takes.

    Examples
    --------
    >>> make("ascent", n_classes=3, beta=0.1, loss="mean_absolute_error").beta
    0.1
    >>> make("forward", n_classes=3, beta=0.1, loss="mean_absolute_error")  # it has neither
    Forward()
    """
    kind = OBJECTIVES[name]
    known = inspect.signature(kind).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known)
    names = {parameter.name for parameter in known}
    return kind(n_classes, **{key: value for key, value in options.items() if takes_any or key in names})
