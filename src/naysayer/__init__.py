"""naysayer: classifiers from labels that only say what an example is not."""

from naysayer import losses, networks, objectives, transition
from naysayer.labels import complement, ruled_out
from naysayer.risk import unbiased_weights
from naysayer.training import Population

__all__ = [
    "Population",
    "complement",
    "losses",
    "networks",
    "objectives",
    "ruled_out",
    "transition",
    "unbiased_weights",
]
__version__ = "0.1.0"
