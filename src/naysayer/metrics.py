"""The public face of :mod:`naysayer.measure.metrics`."""

from naysayer.measure.metrics import *  # noqa: F403
