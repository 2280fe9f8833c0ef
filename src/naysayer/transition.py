"""The public face of :mod:`naysayer.labels.transition`."""

from naysayer.labels.transition import *  # noqa: F403
