"""The public face of :mod:`naysayer.measure.metrics`, and its estimates from parts of the data."""

from naysayer.measure.accumulator import Accumulator  # noqa: F401
from naysayer.measure.metrics import *  # noqa: F403
