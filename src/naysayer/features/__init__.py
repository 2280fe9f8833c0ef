"""Photos, texts, records and tables into numbers: :class:`Photos` and :class:`Texts` in any scikit-learn pipeline."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time each is loaded when it is first used
    from naysayer.features.photos import Photos
    from naysayer.features.texts import Texts

__all__ = ["Photos", "Texts"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module 'naysayer.features' has no attribute {name!r}")
        return getattr(import_module(f"naysayer.features.{name.lower()}"), name)
