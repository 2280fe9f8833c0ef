"""naysayer: classifiers from labels that only say what an example is not."""

from naysayer import losses, metrics, networks, objectives, transition
from naysayer.boosting import BoostedClassifier
from naysayer.estimators import ComplementaryClassifier
from naysayer.labels import complement, ruled_out
from naysayer.reduction import ReductionClassifier
from naysayer.risk import unbiased_weights
from naysayer.training import Population

__all__ = [
    "BoostedClassifier",
    "ComplementaryClassifier",
    "Population",
    "ReductionClassifier",
    "complement",
    "losses",
    "metrics",
    "networks",
    "objectives",
    "ruled_out",
    "transition",
    "unbiased_weights",
]
__version__ = "0.1.0"
