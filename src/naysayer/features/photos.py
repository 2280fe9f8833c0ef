"""Photos into pixels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.data.items import Item

MOST_PIXELS = 32  # per side of the pictures that are learned from
_GREY = ("1", "L", "LA", "I", "I;16", "F")


class PhotoEncoder:
    """Pictures of one small size, (N, C, S, S) in uint8: C = 1 where all are grey, else 3; S at most 32.

    A picture that was read once is kept, so that only new ones are read when a model is trained again.

    Parameters
    ----------
    side, channels : S and C; `fit` takes the usual size of the images, and whether there are colours.
    """

    kind = "image"

    def __init__(self, side: int = MOST_PIXELS, channels: int = 3) -> None:
        self.side, self.channels = side, channels
        self.notes: list[str] = []
        self._read: dict[str, NDArray[np.uint8]] = {}

    def fit(self, examples: Sequence[Item]) -> PhotoEncoder:
        """Take the usual size of the images, and whether there are colours."""
        sides, grey = [], True
        for item in examples:
            with _opened(item) as image:
                sides.append(max(image.size))
                grey = grey and image.mode in _GREY
        self.side, self.channels, self._read = min(MOST_PIXELS, round(median(sides))), 1 if grey else 3, {}
        return self

    def transform(self, examples: Sequence[Item]) -> NDArray[np.uint8]:
        """Read and resize images."""
        for item in examples:
            if item.id not in self._read:
                self._read[item.id] = self._pixels(item)
        return np.stack([self._read[item.id] for item in examples])

    def _pixels(self, item: Item) -> NDArray[np.uint8]:
        from PIL import Image, ImageOps

        mode = "L" if self.channels == 1 else "RGB"
        with _opened(item) as image:
            image.draft(mode, (2 * self.side, 2 * self.side))  # a JPEG is decoded no larger than needed
            turned = ImageOps.exif_transpose(image)  # as browsers show it
            small = turned.convert(mode).resize((self.side, self.side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        return np.asarray(small, dtype=np.uint8).reshape(self.side, self.side, self.channels).transpose(2, 0, 1).copy()

    def keep(self, before: Any) -> PhotoEncoder:
        """Take over the pictures that an encoder of the same size has already read."""
        if isinstance(before, PhotoEncoder) and (before.side, before.channels) == (self.side, self.channels):
            self._read = before._read
        return self

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        return {"kind": self.kind, "side": self.side, "channels": self.channels}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> PhotoEncoder:
        """Make the encoder that :meth:`to_dict` described."""
        return cls(state["side"], state["channels"])


@contextmanager
def _opened(item: Item) -> Iterator[Any]:
    """Open an image file, which must be there and be an image."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its size; it was checked when it was registered
            image = Image.open(item.path or "")
    except OSError:
        raise ValueError(
            f"image {item.name!r} must be where it was registered, at {item.path}; it is not, or is no "
            f"image any more; register its folder again: naysayer ask FOLDER"
        ) from None
    with image:
        yield image
