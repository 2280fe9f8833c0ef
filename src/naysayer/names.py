"""What is called by a name, and where it is: a new objective, network or recipe of ours is a file and a line here.

Nothing is loaded before :func:`load` is called, so the shell completes the names at once. The tables that are made of
them, such as :data:`naysayer.objectives.OBJECTIVES`, are plain dicts, to which everybody may add.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where something is: its module, its name there, and the options that it is called with."""

    module: str
    name: str
    options: dict[str, Any]


def at(module: str, name: str, /, **options: Any) -> Place:
    """Say where something is."""
    return Place(f"naysayer.{module}", name, options)


def load(table: Mapping[str, Place]) -> dict[str, Any]:
    """Load all that a table names.

    Examples
    --------
    >>> load({"odd": at("objectives.surrogate", "Surrogate", shape="exp")})["odd"].keywords
    {'shape': 'exp'}
    """
    found = {key: (getattr(import_module(place.module), place.name), place.options) for key, place in table.items()}
    return {key: partial(thing, **options) if options else thing for key, (thing, options) in found.items()}


OBJECTIVES = {
    "free": at("objectives.unbiased", "Unbiased"),
    "max": at("objectives.unbiased", "NonNegative"),
    "ascent": at("objectives.unbiased", "GradientAscent"),
    "forward": at("objectives.forward", "Forward"),
    "pairwise": at("objectives.pairwise", "PairwiseComparison"),
    "scl-nl": at("objectives.surrogate", "Surrogate"),
    "scl-exp": at("objectives.surrogate", "Surrogate", shape="exp"),
    "mcl-mae": at("objectives.multiple", "UpperBound", shape="mae"),
    "mcl-exp": at("objectives.multiple", "UpperBound", shape="exp"),
    "mcl-log": at("objectives.multiple", "UpperBound"),
    "l-uw": at("objectives.discriminative", "Discriminative"),
    "l-w": at("objectives.discriminative", "Discriminative", weighted=True),
    "op": at("objectives.order", "OrderPreserving"),
    "op-w": at("objectives.order", "OrderPreserving", weighted=True),
    "scarce": at("objectives.scarce", "NegativeUnlabelled"),
    "cpe-i": at("objectives.estimates", "ProbabilityEstimate"),
    "cpe-f": at("objectives.estimates", "ForwardEstimate"),
    "cpe-t": at("objectives.estimates", "ProbabilityEstimate", layer=True),
    "proden": at("objectives.progressive", "Progressive"),
}

# Functions from the shape of an example, K and the widths of the hidden layers.
NETWORKS = {
    "mlp": at("engine.networks", "mlp_for"),
    "linear": at("engine.networks", "linear_for"),
    "convolution": at("engine.networks", "convolution_for"),
    "pooled": at("engine.networks", "residual_for", name="pooled"),
    "resnet8": at("engine.networks", "residual_for", name="resnet8"),
    "resnet18": at("engine.networks", "residual_for", name="resnet18"),
    "resnet34": at("engine.networks", "residual_for", name="resnet34"),
    "efficientnet-lite0": at("features.pretrained", "pretrained_for", name="efficientnet-lite0"),
}

RECIPES = {
    "plain": at("engine.recipe.base", "Recipe"),
    "consistency": at("engine.recipe.consistency", "Consistency"),
    "progressive": at("engine.recipe.progressive", "Remembered"),
}

OTHERS = ("forest", "boosting", "neighbours", "discriminant")  # members of a pool that are no networks
