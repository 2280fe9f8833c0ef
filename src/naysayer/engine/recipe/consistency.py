"""Several views of each example, drawn to a common target: what a label rules out, and the views agree on.

What one "not this class" teaches is little; that an image moved, turned and recoloured shows the same thing teaches the
rest. The target of an example is the geometric mean of what the network says of its views, times the likelihood of the
label, which for a uniform label is zero at the class ruled out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from naysayer.common.checks import check_count, number
from naysayer.engine.augment import codes, crop_and_flip, distort, hash_bits, perturb
from naysayer.engine.recipe.base import Augment, Recipe, Runs, Tensors, Told, altered, check_view
from naysayer.engine.source import Batch, Source, to_float
from naysayer.objectives import Objective


class Consistency(Recipe):
    r"""One weak view and some strong ones, which must agree; weights averaged over the steps predict.

    .. math:: \frac1V \sum_v \Bigl( L(g(x_v), \bar y) + \lambda\, H(q, p(x_v)) \Bigr), \qquad
        q_k \propto P(\bar y | k) \prod_v p_k(x_v)^{1/V}

    with the objective's own loss L, the cross-entropy H, and no gradient through q. Sets of labels, ordinary labels,
    a known Q and rows without a label all enter by their likelihood.

    Parameters
    ----------
    augment : the strong views, a function (B, ...), (B,) codes → (B, ...). By default images, (C, H, W), are distorted
        (:func:`~naysayer.engine.augment.distort`), mirrored where they have colours, and anything else gets noise
        (:func:`~naysayer.engine.augment.perturb`).
    weak : the weak view, likewise. By default images are moved by up to an eighth, and anything else, or where
        `augment` is given, is left as it is.
    n_strong : the number of strong views.
    weight : λ, once it has risen.
    rise : epochs over which λ rises from 0, in a line.
    average : how much of the averaged weights a step keeps; 0 averages nothing.

    References
    ----------
    The target is that of partial-label learning: D.-D. Wu, D.-B. Wang, M.-L. Zhang. Revisiting consistency
    regularization for deep partial label learning. ICML 2022.
    """

    unlabelled = True

    def __init__(
        self,
        augment: Augment | None = None,
        *,
        weak: Augment | None = None,
        n_strong: int = 2,
        weight: float = 1.0,
        rise: int = 20,
        average: float = 0.998,
    ) -> None:
        super().__init__(augment)
        if not 0 <= number(average) < 1:
            raise ValueError(f"`average` must be from 0 up and below 1; got {average!r}")
        if not number(weight) >= 0:
            raise ValueError(f"`weight` must not be negative; got {weight!r}")
        self.weak = check_view(weak, "`weak`")
        self.n_strong, self.rise = check_count(n_strong, "`n_strong`"), check_count(rise, "`rise`")
        self.weight, self.average = float(weight), float(average)

    def begin(self, source: Source, runs: Runs) -> Tensors:
        if self.average == 0:
            return {}
        averaged = {f"average.{k}": t.detach().clone() for k, t in _averaged(runs).items()}
        return averaged | {"steps": torch.zeros((), device=runs.epoch.device)}

    def views(self, source: Source, batch: Batch, runs: Runs) -> Sequence[Tensor]:
        given = source.raw_inputs(batch)
        weak, strong = self._augmentations(given.shape[2:])
        code = codes(runs.seeds, runs.epoch, batch.rows)
        first = to_float(given) if weak is None else altered(weak, given, code, "`weak`")
        return [first, *(altered(strong, given, hash_bits(code + v)) for v in range(1, self.n_strong + 1))]

    def risks(self, objective: Objective, logits: Tensor, told: Told) -> Tensor:
        """Append to the objective's risks, averaged over the views, what draws the views to their target."""
        if objective.decodes:
            raise ValueError(
                f'recipe "consistency" is for objectives whose logits are of the classes; {type(objective).__name__} '
                "reads them another way"
            )
        n_views = len(logits)
        labels, scales = (t.expand(n_views, *t.shape) for t in (told.labels, told.scales))
        own = objective.risks(logits, labels, scales).mean(dim=0)
        log_p = torch.log_softmax(logits, dim=-1)
        target = torch.softmax(log_p.detach().mean(dim=0) + objective.log_likelihoods(told.labels), dim=-1)
        drawn = (told.share * -(target * log_p.mean(dim=0)).sum(dim=-1)).sum(dim=-1, keepdim=True)
        risen = self.weight * (told.epoch / self.rise).clamp(max=1.0)
        return torch.cat([own, risen * drawn], dim=-1)

    def correct(self, objective: Objective, risks: Tensor) -> tuple[Tensor, Tensor]:
        coefficients, scale = objective.correct(risks[..., :-1])
        return torch.cat([coefficients, torch.ones_like(risks[..., -1:])], dim=-1), scale

    def after(self, runs: Runs, kept: Tensors) -> None:
        """Average the weights, and what batch norm has seen; over few steps at first, to forget the start."""
        if self.average == 0:
            return
        kept["steps"] += 1
        fresh = (10.0 / (10.0 + kept["steps"])).clamp(min=1 - self.average)
        now = _averaged(runs)
        averages = [kept[f"average.{k}"] for k in now]
        moved = torch._foreach_sub([t.detach() for t in now.values()], averages)
        torch._foreach_mul_(moved, fresh)
        torch._foreach_add_(averages, moved)

    def judged(self, runs: Runs, kept: Tensors) -> tuple[Tensors, Tensors]:
        if self.average == 0:
            return runs.parameters, runs.buffers
        parameters = {k: kept[f"average.{k}"] for k in runs.parameters}
        return parameters, {k: kept.get(f"average.{k}", t) for k, t in runs.buffers.items()}

    def _augmentations(self, shape: torch.Size) -> tuple[Augment | None, Augment]:
        """The weak and the strong one; by default those that suit examples of this shape."""
        if self.augment is not None:
            return self.weak, self.augment
        if len(shape) != 3:
            return self.weak, perturb
        flip = shape[0] == 3
        weak = self.weak or functools.partial(crop_and_flip, padding=max(1, round(min(shape[1:]) / 8)), flip=flip)
        return weak, functools.partial(distort, flip=flip)


def _averaged(runs: Runs) -> Tensors:
    """What is averaged: all that trains, and the buffers that are no counts."""
    return runs.parameters | {k: t for k, t in runs.buffers.items() if t.is_floating_point()}
