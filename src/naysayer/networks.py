"""The public face of :mod:`naysayer.engine.networks`."""

from naysayer.engine.networks import *  # noqa: F403
