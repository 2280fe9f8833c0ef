"""How a network is trained where nothing else is said: by recipe and kind of network."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import nn

from naysayer.engine.augment import crop_and_flip, distort
from naysayer.engine.recipe import RECIPES, Consistency, Recipe, as_recipe
from naysayer.features.pretrained import OnBackbone, Pretrained


@dataclass(frozen=True)
class Defaults:
    """Settings that a classifier takes where it is told "auto"."""

    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)  # each makes a member
    optimizer: str = "adam"
    weight_decay: float = 1e-4
    schedule: str | None = None
    warm_up: int = 0  # epochs, of a cosine
    epochs: int = 100


# docs/benchmark.md has what "dense" and, by the network "pooled", "residual" come to on images; docs/recipes.md has the
# tables. In single trials on CIFAR-10 the weight decay mattered most: of 0.05, 0.3, 1 and 3, 1 learned best in 60
# epochs. A label that rules out little is soon learned by heart, and so strong a decay forgets it again. Those of
# "pretrained" are a guess: they were not measured.
DEFAULTS = {
    ("plain", "dense"): Defaults(),
    ("plain", "convolution"): Defaults(),
    ("plain", "residual"): Defaults((5e-4,)),
    ("consistency", "table"): Defaults((1e-2,), epochs=30),
    ("consistency", "dense"): Defaults((3e-3,), "adamw", 1e-2, "cosine", 2, 60),
    ("consistency", "convolution"): Defaults((3e-3,), "adamw", 1e-2, "cosine", 2, 60),
    ("consistency", "residual"): Defaults((1e-3,), "adamw", 1.0, "cosine", 2, 60),
    ("plain", "pretrained"): Defaults((3e-4,), "adamw", 0.05, "cosine", 1, 20),
    ("consistency", "pretrained"): Defaults((3e-4,), "adamw", 0.05, "cosine", 1, 20),
}
ALONE = ("residual", "pretrained")  # kinds whose runs train one at a time, and take too long to be trained often


def kind_of(network: nn.Module) -> str:
    """Tell networks apart by what their defaults depend on: "dense", "convolution", "residual" or "pretrained".

    Residual stands for all that convolve and normalise by the batch: they are deep, and train one run at a time.
    """
    if isinstance(network, (Pretrained, OnBackbone)):
        return "pretrained"
    parts = list(network.modules())
    if not any(isinstance(part, nn.modules.conv._ConvNd) for part in parts):
        return "dense"
    return "residual" if any("BatchNorm" in type(part).__name__ for part in parts) else "convolution"


def defaults_of(recipe: str | Recipe, kind: str, shape: torch.Size) -> Defaults:
    """Give the defaults of a recipe, by name or as it is, for a kind of network and the shape of its examples."""
    if not is_consistency(recipe):
        return DEFAULTS["plain", kind]
    return DEFAULTS["consistency", "table" if kind == "dense" and len(shape) != 3 else kind]


def is_consistency(recipe: str | Recipe) -> bool:
    """Whether a recipe, by name or as it is, is the one of consistent views."""
    given = RECIPES.get(recipe, Recipe) if isinstance(recipe, str) else type(recipe)
    return issubclass(given, Consistency)


def made(recipe: str | Recipe, kind: str, shape: torch.Size, epochs: int) -> Recipe:
    """Give a recipe as it is, or make the one of a name as it suits the network, its examples and its epochs.

    The weight of agreement rises over half of the epochs. A dense network sees images less distorted: it does not know
    one that was moved again, and on Kuzushiji-MNIST strong views cost it more than they teach.
    """
    if isinstance(recipe, Recipe) or RECIPES[recipe] is not Consistency:
        return as_recipe(recipe, None)
    rise = max(1, epochs // 2)
    if kind != "dense" or len(shape) != 3:
        return Consistency(rise=rise)
    flip = shape[0] == 3
    weak = functools.partial(crop_and_flip, padding=1, flip=flip)
    return Consistency(functools.partial(distort, strength=0.5, flip=flip), weak=weak, rise=rise)
