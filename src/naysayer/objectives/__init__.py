"""What a training step minimises: thin modules over :mod:`naysayer.risk`, each usable alone in anyone's loop.

    objective = GradientAscent(n_classes=10)
    objective(network(x), y_bar).backward()

The value of a call is a scalar whose gradient is the direction of the update. No call waits for the device,
branches on a value or fails under ``torch.func.vmap``, so that a step can be captured in a CUDA graph.

A new method is a file here and a line in :data:`OBJECTIVES`; one of ours has that line in :mod:`naysayer.names`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from naysayer import names
from naysayer.common.checks import near
from naysayer.objectives.base import Objective, parameters_of
from naysayer.objectives.discriminative import Discriminative
from naysayer.objectives.estimates import ForwardEstimate, ProbabilityEstimate
from naysayer.objectives.forward import Forward
from naysayer.objectives.multiple import UpperBound
from naysayer.objectives.order import OrderPreserving
from naysayer.objectives.pairwise import PairwiseComparison
from naysayer.objectives.progressive import Progressive
from naysayer.objectives.scarce import NegativeUnlabelled
from naysayer.objectives.surrogate import Surrogate
from naysayer.objectives.unbiased import GradientAscent, NonNegative, Unbiased

__all__ = [
    "OBJECTIVES",
    "Discriminative",
    "Forward",
    "ForwardEstimate",
    "GradientAscent",
    "NegativeUnlabelled",
    "NonNegative",
    "Objective",
    "OrderPreserving",
    "PairwiseComparison",
    "ProbabilityEstimate",
    "Progressive",
    "Surrogate",
    "Unbiased",
    "UpperBound",
    "make",
    "name_of",
]

OBJECTIVES: dict[str, Callable[..., Objective]] = names.load(names.OBJECTIVES)


def make(name: str, n_classes: int, **options: Any) -> Objective:
    """Build the objective of that name from those of the options that its constructor takes.

    Parameters
    ----------
    name : a name in :data:`OBJECTIVES`.
    n_classes : K
    options : such as loss, transition, alpha, beta, gamma; what the constructor does not know is left out, but a
        transition matrix is refused by a method that cannot use one.

    Examples
    --------
    >>> make("ascent", 10, beta=0.1, transition=None).settings()["beta"]
    0.1
    >>> type(make("forward", 10, beta=0.1)).__name__
    'Forward'
    """
    if name not in OBJECTIVES:
        raise ValueError(f"`method` must be one of {', '.join(OBJECTIVES)}; got {near(str(name), OBJECTIVES)}")
    taken = _options_of(name)
    if options.get("transition") is not None and "transition" not in taken:
        able = [other for other in OBJECTIVES if "transition" in _options_of(other)]
        raise ValueError(
            f"`transition` must be None for the method {name}, which takes labels to be uniform; use {', '.join(able)}"
        )
    return OBJECTIVES[name](n_classes, **{key: value for key, value in options.items() if key in taken})


def name_of(objective: Objective) -> str:
    """Find a name in :data:`OBJECTIVES` by which, with its settings, the objective is made again.

    Examples
    --------
    >>> objective = OBJECTIVES["cpe-t"](3)
    >>> OBJECTIVES[name_of(objective)](**objective.settings()).layer
    True
    """
    for name, kind in OBJECTIVES.items():
        if getattr(kind, "func", kind) is type(objective):
            return name
    raise ValueError(
        f"{type(objective).__name__} must be in naysayer.objectives.OBJECTIVES to be saved, since it turns logits into "
        f"classes in its own way; add it under a name"
    )


def _options_of(name: str) -> list[str]:
    kind: Any = OBJECTIVES[name]
    return parameters_of(getattr(kind, "func", kind))  # of a partial, those of what it calls
