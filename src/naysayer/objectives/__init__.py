"""What a training step minimises: thin modules over :mod:`naysayer.risk`, each usable alone in anyone's loop.

    objective = GradientAscent(n_classes=10)
    objective(network(x), y_bar).backward()

The value of a call is a scalar whose gradient is the direction of the update. No call waits for the device,
branches on a value or fails under ``torch.func.vmap``, so that a step can be captured in a CUDA graph.

A new method is a file here and a line in :data:`OBJECTIVES`.
"""

from __future__ import annotations

from typing import Any

from naysayer.common.checks import near
from naysayer.objectives.base import Objective, parameters_of
from naysayer.objectives.forward import Forward
from naysayer.objectives.pairwise import PairwiseComparison
from naysayer.objectives.unbiased import GradientAscent, NonNegative, Unbiased

__all__ = [
    "OBJECTIVES",
    "Forward",
    "GradientAscent",
    "NonNegative",
    "Objective",
    "PairwiseComparison",
    "Unbiased",
    "make",
]

OBJECTIVES: dict[str, type[Objective]] = {
    "free": Unbiased,
    "max": NonNegative,
    "ascent": GradientAscent,
    "forward": Forward,
    "pairwise": PairwiseComparison,
}


def make(name: str, n_classes: int, **options: Any) -> Objective:
    """Build the objective of that name from those of the options that its constructor takes.

    Parameters
    ----------
    name : a name in :data:`OBJECTIVES`.
    n_classes : K
    options : such as loss, transition, alpha, beta, gamma; what the constructor does not know is left out.

    Examples
    --------
    >>> make("ascent", 10, beta=0.1, transition=None).settings()["beta"]
    0.1
    >>> type(make("forward", 10, beta=0.1)).__name__
    'Forward'
    """
    if name not in OBJECTIVES:
        raise ValueError(f"`method` must be one of {', '.join(OBJECTIVES)}; got {near(str(name), OBJECTIVES)}")
    kind = OBJECTIVES[name]
    taken = parameters_of(getattr(kind, "func", kind))  # of a partial, those of what it calls
    return kind(n_classes, **{key: value for key, value in options.items() if key in taken})
