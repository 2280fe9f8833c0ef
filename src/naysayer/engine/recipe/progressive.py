"""PRODEN as its paper has it: what is believed of each example is kept from one epoch to the next.

J. Lv, M. Xu, L. Feng, G. Niu, X. Geng, M. Sugiyama. Progressive identification of true labels for partial-label
learning. ICML 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from naysayer import risk
from naysayer.engine.recipe.base import Recipe, Runs, Tensors, Told
from naysayer.engine.source import Batch, Resident, Source
from naysayer.objectives import Objective, Progressive


class Remembered(Recipe):
    r"""Targets from the epoch before, which the method "proden" draws to:

    .. math:: -\sum_{k \notin S} t_k \log p_k, \qquad t_k = \frac{p'_k}{\sum_{j \notin S} p'_j},

    where p' is what the network said of the example when it last met it, before the step; in the first epoch the
    classes that are left share t evenly. So it takes memory for a probability of every example and class in each run.

    Parameters
    ----------
    augment : as of :class:`~naysayer.engine.recipe.Recipe`.
    """

    remembers = True

    def begin(self, source: Source, runs: Runs) -> Tensors:
        assert isinstance(source, Resident)
        return {"said": torch.ones(len(runs.seeds), len(source.X), source.n_classes, device=runs.epoch.device)}

    def targets(self, logits: Tensor, views: Sequence[Tensor], batch: Batch, runs: Runs, kept: Tensors) -> Tensor:
        run = torch.arange(len(runs.seeds), device=batch.rows.device).unsqueeze(-1)
        last = kept["said"][run, batch.rows]
        kept["said"][run, batch.rows] = Progressive.of_those_left(logits[0], batch.labels).to(last.dtype)
        return Progressive.of_those_left(last.log(), batch.labels)

    def risks(self, objective: Objective, logits: Tensor, told: Told) -> Tensor:
        if not isinstance(objective, Progressive) or told.targets is None:
            raise ValueError(
                f'recipe "progressive" is for the method "proden", whose targets it keeps; got '
                f"{type(objective).__name__}; use another recipe for it"
            )
        weights = risk.example_weights(told.labels, told.scales, objective.inverse is not None)
        return (weights * objective.losses_to(told.targets, logits[0])).sum(dim=-1, keepdim=True)
