"""Load a saved model of whichever class it is."""

from __future__ import annotations

import os

from naysayer.models.boosting import BoostedClassifier
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.description import kind_of
from naysayer.models.reduction import ReductionClassifier

Classifier = ComplementaryClassifier | ReductionClassifier | BoostedClassifier


def load_model(path: str | os.PathLike[str], *, device: str = "auto") -> Classifier:
    """Load a saved model; the folder says of which class it is. `device` is for those that have networks."""
    kind = kind_of(path)
    if kind == "ReductionClassifier":
        return ReductionClassifier.load(path)
    if kind == "BoostedClassifier":
        return BoostedClassifier.load(path)
    if kind == "ComplementaryClassifier":
        return ComplementaryClassifier.load(path, device=device)
    raise ValueError(f"the model at {path} is a {kind}, which this release does not know")
