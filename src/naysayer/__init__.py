"""naysayer: classifiers from labels that only say what an example is not."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time each is loaded when it is first used
    from naysayer import features as features
    from naysayer import losses as losses
    from naysayer import metrics as metrics
    from naysayer import networks as networks
    from naysayer import objectives as objectives
    from naysayer import transition as transition
    from naysayer.engine.population import Population as Population
    from naysayer.labels.drawing import complement as complement
    from naysayer.labels.reading import ruled_out as ruled_out
    from naysayer.labels.weights import unbiased_weights as unbiased_weights
    from naysayer.models.boosting import BoostedClassifier as BoostedClassifier
    from naysayer.models.classifier import ComplementaryClassifier as ComplementaryClassifier
    from naysayer.models.reduction import ReductionClassifier as ReductionClassifier

_HOMES = {
    "BoostedClassifier": "models.boosting",
    "ComplementaryClassifier": "models.classifier",
    "Population": "engine.population",
    "ReductionClassifier": "models.reduction",
    "complement": "labels.drawing",
    "ruled_out": "labels.reading",
    "unbiased_weights": "labels.weights",
}
_MODULES = ("features", "losses", "metrics", "networks", "objectives", "transition")

__all__ = sorted([*_HOMES, *_MODULES])
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing the package costs next to nothing."""
    if name in _MODULES:
        return import_module(f"naysayer.{name}")
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(f"naysayer.{_HOMES[name]}"), name)
        return value
    raise AttributeError(f"module 'naysayer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
