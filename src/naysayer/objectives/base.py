"""What all objectives share: K, the transition matrix, the shares of the labels, and the way from risks to a step."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from naysayer import risk
from naysayer.common.checks import number, to_numpy
from naysayer.common.fingerprint import fingerprint
from naysayer.common.reduce import SumOver
from naysayer.labels.checks import check_labels, check_n_classes, check_transition
from naysayer.labels.weights import count_labels, inverse_tensor, is_sets, label_weights, log_likelihoods
from naysayer.losses import Loss, cross_entropy, get_loss, name_of


class Objective(nn.Module):
    r"""What a batch says about logits, in two parts: risks, which are sums over the examples, and their correction.

    :meth:`risks` gives R numbers, (..., R): one, the weighted mean of :meth:`example_losses`, unless a
    subclass splits it, as the class risks do. :meth:`correct` turns them into coefficients c and the step's scale; the
    direction of the update is :math:`\sum_j c_j \nabla r_j`. A batch that is spread over several processes is
    therefore exact once the counts of its labels and its risks are summed.

    The logits are those of the classes, unless :meth:`class_scores` is overridden. An objective may also put a layer of
    its own on top of the network, `head`, whose parameters train with the network's: a call passes the logits through
    it first, and :class:`~naysayer.Population` makes it part of every run's network. All that a step is made of, and
    :meth:`class_scores`, take what comes out of it.

    Every argument of a constructor is kept as an attribute of its name, or :meth:`settings` is overridden.

    Parameters
    ----------
    n_classes : K
    loss : any loss of :mod:`naysayer.losses`, by name or as a callable (..., K) → (..., K).
    transition : (K, K) matrix Q of the complementary labels; uniform if None.
    prior : (K,) π̄, the share of each complementary label in the training set. If None, it is counted from the
        labels seen so far in training mode; under vmap, where batches belong to different runs, from the batch.
    alpha : weight of the complementary against the ordinary labels, α R̄ + (1 - α) R, where both
        occur; None weighs every example alike.
    group : a process group of ``torch.distributed``, or True for the default one: the batch is then the union of all
        processes' batches, however many rows each has. Counts and risks are summed over the group before the
        correction looks at them, so that gradients *averaged* over the processes, as DDP and FSDP do it, are those of
        one process with the whole batch. Each process gets the whole batch's value. The first call compares the
        processes' objectives, and refuses in all of them if they differ.
    """

    prior: Tensor | None
    inverse: Tensor | None
    log_transition: Tensor | None
    seen: Tensor
    head: nn.Module | None  # from (..., B, K) to (..., B, K)

    def __init__(
        self,
        n_classes: int,
        loss: str | Loss = cross_entropy,
        transition: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        *,
        alpha: float | None = None,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.n_classes = check_n_classes(n_classes)
        self.loss = get_loss(loss)
        if alpha is not None and not 0 <= number(alpha) <= 1:
            raise ValueError(f"`alpha` must be from 0 to 1; got {alpha!r}")
        self.alpha = alpha
        self.head = None
        self.reduce = None if group is None else SumOver(None if group is True else group)
        self._is_alike = group is None  # in all processes
        self.transition = None if transition is None else check_transition(transition, self.n_classes)
        self.register_buffer("inverse", inverse_tensor(transition, self.n_classes))
        log_q = None if transition is None else torch.tensor(self.transition, dtype=torch.get_default_dtype()).log()
        self.register_buffer("log_transition", None if log_q is None else log_q.T.contiguous())  # row c: over classes y
        self.register_buffer("prior", None if prior is None else check_prior(prior, self.n_classes, "`prior`"))
        self.register_buffer("seen", torch.zeros(self.n_classes + 1, dtype=torch.float64), persistent=False)

    def settings(self) -> dict[str, Any]:
        """Give the constructor's arguments: ``type(self)(**self.settings())`` is the same objective again.

        All but `group`, which is of the processes that run now.
        """
        named = [name for name in parameters_of(type(self)) if name != "group"]
        if lost := [name for name in named if not hasattr(self, name)]:
            raise ValueError(
                f"{type(self).__name__} must keep each argument of its constructor as an attribute of that name, for "
                f"checkpoints and saved models; it does not keep {', '.join(lost)}"
            )
        return {name: _plain(getattr(self, name)) for name in named}

    # ---- in anyone's loop ---------------------------------------------------------------------------------------

    def forward(self, logits: Tensor, y_bar: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Give the scalar whose gradient is the update's direction: (B, K), (B,) or (B, K), (B,) → ().

        An example of weight m counts as m equal ones; without weights, each counts once.
        """
        logits, y_bar = self._check(logits, y_bar)
        return self.value(logits, y_bar, self._check_weights(logits, sample_weight))

    def value(self, logits: Tensor, y_bar: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Give what a call gives, of labels and weights that were checked before."""
        self._check_alike(logits.device)
        with _exactly(logits.device):
            logits = logits if self.head is None else self.head(logits)
            counts = self._whole(self.count(y_bar, sample_weight))
            kinds = counts if type(self).count is Objective.count else self._kinds(y_bar, sample_weight)
            scales = self.scales(counts, *self._shares(kinds, y_bar, count=self.training))
            risks = self.risks(logits, y_bar, risk.weighted_scales(scales, sample_weight))
            whole = self._whole(risks.detach())
            coefficients, scale = self.correct(whole)
            value = (coefficients * risks).sum(dim=-1) * scale
            if self.reduce is None:
                return value
            mine = self.reduce.size * value  # gradients will be averaged
            return (coefficients * whole).sum(dim=-1) * scale + (mine - mine.detach())

    def class_risks(self, logits: Tensor, y_bar: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        r"""Split the unbiased risk by ordinary class, :math:`r_k = \sum_i w_i W_{ik}\, \ell(k, g(x_i))`: (K,)."""
        logits, y_bar = self._check(logits, y_bar)
        sample_weight = self._check_weights(logits, sample_weight)
        self._check_alike(logits.device)
        with _exactly(logits.device):
            counts = self._kinds(y_bar, sample_weight)
            scales = risk.scales_by_class(counts, *self._shares(counts, y_bar, count=False))
            scales = risk.weighted_scales(scales, sample_weight)
            scores = self.class_scores(logits if self.head is None else self.head(logits))
            return self._whole(risk.class_risks(self.loss(scores), risk.batch_weights(y_bar, scales, self.inverse)))

    # ---- what a step is made of; nothing is checked, and leading axes are free ----------------------------------

    def count(self, y_bar: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Count the labels of a batch, an example of weight m m times: (..., B) or (..., B, K) → (..., K + 1)."""
        return count_labels(y_bar, self.n_classes, self.inverse is not None, sample_weight)

    def scales(self, counts: Tensor, prior: Tensor, alpha: Tensor | float) -> Tensor:
        """Give what a label of each kind weighs in a batch of these counts, (..., K + 1); see :mod:`naysayer.risk`."""
        return risk.scales_by_kind(counts, None if self.alpha is None else alpha)

    def risks(self, logits: Tensor, y_bar: Tensor, scales: Tensor) -> Tensor:
        """Give the risks that the correction looks at, sums over the batch: (..., B, K) → (..., R).

        `scales` are those of the batch, (..., K + 1), or where examples have weights, of each, (..., B, K + 1).
        """
        weights = risk.example_weights(y_bar, scales, self.inverse is not None)
        return (weights * self.example_losses(logits, y_bar)).sum(dim=-1, keepdim=True)

    def correct(self, risks: Tensor) -> tuple[Tensor, Tensor]:
        """Give the coefficients c of the risks' gradients, (..., R), and the scale of the step, (...,)."""
        return torch.ones_like(risks), torch.ones_like(risks[..., 0])

    def example_losses(self, logits: Tensor, y_bar: Tensor) -> Tensor:
        """Give what each example alone contributes to the objective before any correction: (..., B)."""
        return (label_weights(y_bar, self.n_classes, self.inverse) * self.loss(logits)).sum(dim=-1)

    def log_likelihoods(self, y_bar: Tensor) -> Tensor:
        """Give how likely each class makes a label, in logarithms up to a constant: (..., B, K)."""
        return log_likelihoods(y_bar, self.n_classes, self.log_transition)

    def class_scores(self, logits: Tensor) -> Tensor:
        """Give scores of the classes: the largest is the class, their softmax the probabilities. (..., K) → (..., K).

        The logits themselves, unless they are those of something else, such as labels.
        """
        return logits

    @property
    def decodes(self) -> bool:
        """Whether the network's own logits are not yet scores of the classes."""
        return self.head is not None or type(self).class_scores is not Objective.class_scores

    # ---- inside -------------------------------------------------------------------------------------------------

    def _whole(self, mine: Tensor) -> Tensor:
        """Sum over the processes of the group, where there is one."""
        return mine if self.reduce is None else self.reduce(mine)

    def _kinds(self, y_bar: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Count the labels of each kind, which π̄ and α follow from, also where :meth:`count` counts something else."""
        return self._whole(Objective.count(self, y_bar, sample_weight))

    def _check_alike(self, device: torch.device) -> None:
        """Compare the objectives of a group's processes, once: others would silently train something else."""
        if self._is_alike or self.reduce is None or torch.compiler.is_compiling():
            return
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        told = [int(fingerprint(value)[:15], 16) for value in (kind, self.settings())]
        for rank, others in enumerate(found := self.reduce.gather_numbers(told, device)):
            if others != found[0]:
                what = "kind" if others[0] != found[0][0] else "settings"
                raise ValueError(
                    f"all processes of a group must be given the same objective; those of process 0 and process {rank} "
                    f"differ in their {what}; make them by the same call"
                )
        self._is_alike = True

    def _shares(self, counts: Tensor, y_bar: Tensor, *, count: bool) -> tuple[Tensor, Tensor | float]:
        """π̄ and α: as given, or from the labels counted so far, or, when none were, from this batch."""
        if count and not torch._C._functorch.is_functorch_wrapped_tensor(counts):
            self.seen += counts
        prior, alpha = risk.shares(torch.where(self.seen.sum() > 0, self.seen, counts).to(counts.dtype))
        given = self.alpha if is_sets(y_bar) else None  # α is for labels of both kinds
        return prior if self.prior is None else self.prior, alpha if given is None else given

    def _check(self, logits: Any, y_bar: Any) -> tuple[Tensor, Tensor]:
        """Check shapes, and values where that does not make the host wait; logits of 16 bits are taken in 32."""
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            came = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(f"`logits` must be a tensor of floats; got {came}")
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()
        if not isinstance(y_bar, Tensor):
            y_bar = torch.tensor(_numbers(y_bar), device=logits.device)  # a copy: a data frame's may not be written to
        if logits.dim() < 2 or logits.shape[-1] != self.n_classes:
            raise ValueError(
                f"`logits` must have n_classes = {self.n_classes} columns; got shape {tuple(logits.shape)}"
            )
        if y_bar.shape not in (logits.shape[:-1], logits.shape):
            raise ValueError(
                f"`y_bar` must be ({logits.shape[-2]},) classes or a {tuple(logits.shape)} ruled-out matrix, one row "
                f"for each of `logits`; got shape {tuple(y_bar.shape)}"
            )
        plain = not torch._C._functorch.is_functorch_wrapped_tensor(y_bar) and not torch.compiler.is_compiling()
        nothing_here = self.reduce is not None and y_bar.numel() == 0  # other processes have the rows
        if plain and y_bar.device.type == "cpu" and not nothing_here:
            checked, _ = check_labels(y_bar, self.n_classes)
            return logits, torch.from_numpy(checked)
        return logits, y_bar.long() if y_bar.dim() < logits.dim() else y_bar.bool()

    def _check_weights(self, logits: Tensor, sample_weight: Any) -> Tensor | None:
        """Check weights as labels are checked, and take them in the type of counts."""
        if sample_weight is None:
            return None
        if not isinstance(sample_weight, Tensor):
            weights = to_numpy(sample_weight)
            if weights.dtype.kind not in "fiub":
                raise ValueError(f"`sample_weight` must hold numbers; got dtype {weights.dtype}")
            sample_weight = torch.tensor(weights, device=logits.device)
        if sample_weight.shape != logits.shape[:-1]:
            raise ValueError(
                f"`sample_weight` must hold {logits.shape[-2]} numbers, one per row of `y_bar`; "
                f"got shape {tuple(sample_weight.shape)}"
            )
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor(sample_weight) or torch.compiler.is_compiling()
        if not wrapped and sample_weight.device.type == "cpu":
            wrong = ~(torch.isfinite(sample_weight) & (sample_weight >= 0))
            if wrong.any():
                raise ValueError(
                    f"`sample_weight` must be finite and not negative; got {sample_weight[wrong][0].item()}"
                )
        return sample_weight.to(torch.get_default_dtype())


def _exactly(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Compute in the tensors' own types: inside an autocast block, products would round weights to 8 bits."""
    if torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def parameters_of(kind: type) -> list[str]:
    """Name the arguments of a constructor; those that ``**options`` hands on are its parent's."""
    named: list[str] = []
    for parent in kind.__mro__:
        constructor = vars(parent).get("__init__")
        if constructor is None:
            continue
        taken = list(inspect.signature(constructor).parameters.values())[1:]  # but self
        named += [p.name for p in taken if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in named]
        if not any(p.kind == p.VAR_KEYWORD for p in taken):
            break
    return named


def _plain(value: Any) -> Any:
    """A setting in numbers, lists and names where it can be."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return (name_of(value) or value) if callable(value) else value


def _numbers(y_bar: Any) -> NDArray[Any]:
    """Labels as an array of numbers."""
    labels = to_numpy(y_bar)
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"`y_bar` must hold class indices, or be a ruled-out matrix; got dtype {labels.dtype}")
    return labels


def check_prior(prior: Any, n_classes: int, name: str) -> Tensor:
    """Check shares of the classes or labels: K of them, which sum to 1."""
    try:
        values = torch.tensor(to_numpy(prior), dtype=torch.get_default_dtype())
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {n_classes} shares, none negative; got {prior!r}") from None
    if values.shape != (n_classes,):
        raise ValueError(f"{name} must be {n_classes} shares, none negative; got shape {tuple(values.shape)}")
    if not torch.isfinite(values).all() or (values < 0).any():
        raise ValueError(f"{name} must be {n_classes} shares, none negative; got {values.tolist()}")
    if abs(float(values.sum()) - 1) > 1e-4:
        raise ValueError(f"{name} must sum to 1; got {float(values.sum()):.6g}")
    return values
