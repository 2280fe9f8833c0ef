"""Items into numbers to learn from: images into pixels, texts into TF-IDF, records into their columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from naysayer.data.items import Item
from naysayer.data.tables import Table
from naysayer.features.tables import TableEncoder

MOST_PIXELS = 32  # a side of the pictures that are learned from
MOST_WORDS = 2000
_GREY = ("1", "L", "LA", "I", "I;16", "F")


class Encoder(Protocol):
    """What turns items of one kind into an array, the same way for those to learn from and those to predict."""

    kind: str

    def transform(self, items: Sequence[Item]) -> NDArray[Any]:
        """Encode items, (N, ...)."""

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""


class Images:
    """Pictures of one small size, (N, C, S, S) in uint8: C = 1 where all are grey, else 3; S at most 32.

    Those that were read once are kept, so that only new ones are read when a model is trained again.
    """

    kind = "image"

    def __init__(self, side: int, channels: int) -> None:
        self.side, self.channels = side, channels
        self._read: dict[str, NDArray[np.uint8]] = {}

    @classmethod
    def fit(cls, items: Sequence[Item]) -> Images:
        """Take the usual size of the images, and whether there are colours."""
        sides, grey = [], True
        for item in items:
            with _opened(item) as image:
                sides.append(max(image.size))
                grey = grey and image.mode in _GREY
        return cls(min(MOST_PIXELS, round(median(sides))), 1 if grey else 3)

    def transform(self, items: Sequence[Item]) -> NDArray[np.uint8]:
        """Read and resize images."""
        for item in items:
            if item.id not in self._read:
                self._read[item.id] = self._pixels(item)
        return np.stack([self._read[item.id] for item in items])

    def _pixels(self, item: Item) -> NDArray[np.uint8]:
        from PIL import Image, ImageOps

        mode = "L" if self.channels == 1 else "RGB"
        with _opened(item) as image:
            image.draft(mode, (2 * self.side, 2 * self.side))  # a JPEG is decoded no larger than needed
            turned = ImageOps.exif_transpose(image)  # as browsers show it
            small = turned.convert(mode).resize((self.side, self.side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        return np.asarray(small, dtype=np.uint8).reshape(self.side, self.side, self.channels).transpose(2, 0, 1).copy()

    def keep(self, before: Encoder | None) -> Images:
        """Take over what an encoder of the same size has read already."""
        if isinstance(before, Images) and (before.side, before.channels) == (self.side, self.channels):
            self._read = before._read
        return self

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "side": self.side, "channels": self.channels}


class _opened:
    """An image file that must be there and be an image, as a context."""

    def __init__(self, item: Item) -> None:
        self.item = item

    def __enter__(self) -> Any:
        from PIL import Image

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of its size; it was checked when it was registered
                self.image = Image.open(self.item.path or "")
            return self.image
        except OSError:
            raise ValueError(
                f"image {self.item.name!r} must be where it was registered, at {self.item.path}; it is not, or is no "
                f"image any more; register its folder again: naysayer ask FOLDER"
            ) from None

    def __exit__(self, *_: object) -> None:
        self.image.close()


class Texts:
    """TF-IDF of the 2,000 most frequent words, logarithmic counts, rows of length 1: (N, D) float32."""

    kind = "text"

    def __init__(self, words: Sequence[str], idf: Sequence[float]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.words, self.idf = list(words), [float(value) for value in idf]
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words, dtype=np.float32)
        self._vectorizer.idf_ = np.array(self.idf, dtype=np.float32)

    @classmethod
    def fit(cls, items: Sequence[Item]) -> Texts:
        """Count words."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(max_features=MOST_WORDS)
        try:
            vectorizer.fit(str(item.content) for item in items)
        except ValueError:
            raise ValueError("texts must have words of at least two letters; got none in any of them") from None
        return cls(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)

    def transform(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Count the known words of texts."""
        return np.asarray(self._vectorizer.transform(str(item.content) for item in items).toarray())

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "words": self.words, "idf": self.idf}


class Records:
    """The columns of records, encoded by :class:`naysayer.data.TableEncoder`: (N, D) float32."""

    kind = "record"

    def __init__(self, encoder: TableEncoder, columns: Sequence[str]) -> None:
        self.encoder, self.columns = encoder, list(columns)

    @classmethod
    def fit(cls, items: Sequence[Item]) -> Records:
        """Learn how to encode each column."""
        columns = list(dict.fromkeys(name for item in items for name in _record(item)))
        return cls(TableEncoder().fit(_table(items, columns)), columns)

    def transform(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Encode records; fields that `fit` did not see are ignored, and those that lack are missing."""
        return self.encoder.transform(_table(items, self.columns))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "columns": self.columns, "table": self.encoder.to_dict()}


def _record(item: Item) -> dict[str, Any]:
    return item.content if isinstance(item.content, dict) else {}


def _table(items: Sequence[Item], columns: Iterable[str]) -> Table:
    """Records as columns of objects, None where missing."""
    return Table({name: np.array([_record(item).get(name) for item in items], dtype=object) for name in columns})


_KINDS: dict[str, type[Images | Texts | Records]] = {"image": Images, "text": Texts, "record": Records}


def fit_encoder(items: Sequence[Item]) -> Images | Texts | Records:
    """Learn from items, all of one kind, how to encode them.

    Examples
    --------
    >>> items = [Item("1", "text", "row 1", content="a fine film"), Item("2", "text", "row 2", content="a long film")]
    >>> fit_encoder(items).transform(items).round(2)
    array([[0.58, 0.81, 0.  ],
           [0.58, 0.  , 0.81]], dtype=float32)
    """
    kinds = sorted({item.kind for item in items})
    if len(kinds) != 1:
        raise ValueError(
            f"items to learn from must be of one kind; got {' and '.join(kinds) or 'none'}; use a store for each"
        )
    return _KINDS[kinds[0]].fit(items)


def encoder_from_dict(state: dict[str, Any]) -> Images | Texts | Records:
    """Make the encoder that `to_dict` described."""
    try:
        if state["kind"] == "image":
            return Images(state["side"], state["channels"])
        if state["kind"] == "text":
            return Texts(state["words"], state["idf"])
        return Records(TableEncoder.from_dict(state["table"]), state["columns"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"an encoder's state must be what to_dict gave; it is not: {error}") from None


class Convolution(nn.Module):
    """A small network for images (B, C, S, S): two convolutions of 3×3 with ReLU and max-pooling, and a linear layer.

    It has no batch norm and no dropout, so that several runs train together under vmap.

    Examples
    --------
    >>> import torch
    >>> Convolution(channels=1, side=8, n_classes=10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, channels: int, side: int, n_classes: int, width: int = 16) -> None:
        super().__init__()
        self.channels, self.side = channels, side
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        half = -(-side // 2)
        self.last = nn.Linear(2 * width * (-(-half // 2)) ** 2, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.first(x).relu())
        x = self.pool(self.second(x).relu())
        return self.last(x.flatten(1))  # type: ignore[no-any-return]
