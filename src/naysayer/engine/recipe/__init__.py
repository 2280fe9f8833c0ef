"""How a step uses network, views and objective.

A step is written once, in :mod:`naysayer.engine.stack`: views → logits → risks → reduce → correct → gradients. A recipe
says what the views are, which risks come of their logits, and what is kept from step to step, such as averaged
weights. A new one is a subclass of :class:`Recipe` in a file of its own and a line in :data:`RECIPES`,
which are those of :mod:`naysayer.names`.
"""

from __future__ import annotations

from typing import Any

from naysayer import names
from naysayer.common.checks import near
from naysayer.engine.recipe.base import Augment, Recipe, Runs, Tensors, Told, altered, differentiate
from naysayer.engine.recipe.consistency import Consistency
from naysayer.engine.recipe.progressive import Remembered

__all__ = [
    "RECIPES",
    "Augment",
    "Consistency",
    "Recipe",
    "Remembered",
    "Runs",
    "Tensors",
    "Told",
    "altered",
    "as_recipe",
    "differentiate",
]

RECIPES: dict[str, type[Recipe]] = names.load(names.RECIPES)


def as_recipe(recipe: str | Recipe, augment: Augment | None) -> Recipe:
    """Find a recipe by name; one that is given comes with its own augmentation."""
    if isinstance(recipe, Recipe):
        if augment is not None:
            raise ValueError("`augment` must go to the recipe itself where `recipe` is one, not beside it")
        return recipe
    if recipe not in RECIPES:
        raise ValueError(f"`recipe` must be a Recipe or one of {', '.join(RECIPES)}; got {near(str(recipe), RECIPES)}")
    options: dict[str, Any] = {} if augment is None else {"augment": augment}
    return RECIPES[recipe](**options)
