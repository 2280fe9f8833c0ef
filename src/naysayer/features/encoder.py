"""What turns examples into numbers: one interface for tables, photos, texts and records, and the table of kinds.

A new kind of input is a new file with a class like these, and a line in :data:`KINDS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from naysayer.data.items import Item
from naysayer.data.tables import DataTable
from naysayer.features.backbones import BackboneError
from naysayer.features.photos import PhotoEncoder
from naysayer.features.records import RecordEncoder
from naysayer.features.tables import TableEncoder
from naysayer.features.texts import TextEncoder


class Encoder(Protocol):
    """What turns examples of one kind into an array, the same way for those to learn from and those to predict.

    Attributes
    ----------
    kind : of the examples; a key of :data:`KINDS`.
    device, verbose : where features are computed that take long, and whether a bar shows how far that is.
    """

    kind: str
    device: str
    verbose: int

    @property
    def notes(self) -> list[str]:
        """What was left out and why, one line each."""

    def fit(self, examples: Any) -> Encoder:
        """Learn from the training examples how to encode."""

    def transform(self, examples: Any) -> NDArray[Any]:
        """Encode examples, (N, ...)."""

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold; its "kind" says which encoder it is."""

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Encoder:
        """Make the encoder that `to_dict` described."""


KINDS: dict[str, type[Encoder]] = {
    "table": TableEncoder,
    "image": PhotoEncoder,
    "text": TextEncoder,
    "record": RecordEncoder,
}


def fit_encoder(examples: DataTable | Sequence[Item], pixels: bool | int = False, views: int | None = None) -> Encoder:
    """Learn how to encode a table, or items that are all of one kind.

    Parameters
    ----------
    examples : to learn from.
    pixels : wants images as pixels, not as features; a number is the most per side.
    views : of photos, as :class:`naysayer.features.Photos` takes them; None leaves its default.

    Examples
    --------
    >>> items = [Item("1", "text", "row 1", content="a fine film"), Item("2", "text", "row 2", content="a long film")]
    >>> fit_encoder(items).transform(items).shape  # the embeddings of texts, with the extra naysayer[texts]
    (2, 256)
    """
    if isinstance(examples, DataTable):
        return TableEncoder(views=views).fit(examples)
    kinds = sorted({item.kind for item in examples})
    if len(kinds) != 1:
        raise ValueError(
            f"items to learn from must be of one kind; got {' and '.join(kinds) or 'none'}; use a store for each"
        )
    if kinds == ["image"]:
        return PhotoEncoder(pixels=pixels, views=views).fit(examples)
    if views not in (None, 1):
        raise ValueError(f"{views} views are for photos; the items are {kinds[0]}s; use 1 view")
    return KINDS[kinds[0]]().fit(examples)


def encoder_from_dict(state: dict[str, Any]) -> Encoder:
    """Make the encoder that an encoder's `to_dict` described.

    Examples
    --------
    >>> encoder_from_dict({"kind": "image", "side": 8, "channels": 1}).kind
    'image'
    """
    try:
        return KINDS[state["kind"]].from_dict(state)
    except BackboneError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"an encoder's state must be what to_dict gave; it is not: {error}") from None
