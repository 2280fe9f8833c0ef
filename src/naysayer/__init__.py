"""naysayer: classifiers from labels that only say what an example is not."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time each name is loaded when it is first used
    from naysayer import features, losses, metrics, networks, objectives, transition
    from naysayer.engine.population import Population
    from naysayer.features.stream import open_stream
    from naysayer.labels.drawing import complement
    from naysayer.labels.reading import ruled_out
    from naysayer.labels.weights import unbiased_weights
    from naysayer.models.boosting import BoostedClassifier
    from naysayer.models.classifier import ComplementaryClassifier
    from naysayer.models.reduction import ReductionClassifier

__all__ = [
    "BoostedClassifier",
    "ComplementaryClassifier",
    "Population",
    "ReductionClassifier",
    "complement",
    "features",
    "losses",
    "metrics",
    "networks",
    "objectives",
    "open_stream",
    "ruled_out",
    "transition",
    "unbiased_weights",
]
__version__ = "0.1.0"

_HOMES = {  # of the names that are not modules
    "BoostedClassifier": "naysayer.models.boosting",
    "ComplementaryClassifier": "naysayer.models.classifier",
    "Population": "naysayer.engine.population",
    "ReductionClassifier": "naysayer.models.reduction",
    "complement": "naysayer.labels.drawing",
    "open_stream": "naysayer.features.stream",
    "ruled_out": "naysayer.labels.reading",
    "unbiased_weights": "naysayer.labels.weights",
}


if not TYPE_CHECKING:  # a checker that saw this would take any name for a known one

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used, so that importing the package costs next to nothing."""
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(_HOMES[name]), name)
            return value
        if name in __all__:
            return import_module(f"naysayer.{name}")
        raise AttributeError(f"module 'naysayer' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, loaded or not, for editors and shells that complete them."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
