"""What people are asked about: images, texts or records, each known by a hash of its content."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from naysayer.tables import read_table

IMAGE_ENDINGS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".gif": "GIF", ".webp": "WEBP", ".bmp": "BMP"}
TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")

Kind = Literal["image", "text", "record"]


@dataclass(frozen=True)
class Item:
    """One thing to ask about.

    Parameters
    ----------
    id : the first 32 hexadecimal digits of the SHA-256 of its content, so that the same content is the same item.
    kind : "image", "text" or "record".
    name : where it came from, for people: a path within the folder, or a file and its row.
    path : of an image, the absolute path of its file; else None.
    content : the text, or the record as a dictionary; of an image None.

    Examples
    --------
    >>> text_item("A fine film.", "reviews.csv row 1")
    Item(id='f0ea9d4b7b1e0c50f0c6b3d3ea6b3c3e', kind='text', name='reviews.csv row 1', path=None, content='A fine film.')
    """

    id: str
    kind: Kind
    name: str
    path: str | None = None
    content: str | dict[str, Any] | None = None


def _hash(content: bytes) -> str:
    """Give the id of a content."""
    return hashlib.sha256(content).hexdigest()[:32]


def text_item(text: str, name: str) -> Item:
    """Make the item of a text."""
    return Item(_hash(text.encode()), "text", name, content=text)


def record_item(record: dict[str, Any], name: str) -> Item:
    """Make the item of a record: a dictionary of texts, numbers, truth values and None.

    What is None does not count in the hash, so that a column without values changes no item.
    """
    known = {key: value for key, value in record.items() if value is not None}
    return Item(_hash(json.dumps(known, sort_keys=True).encode()), "record", name, content=record)


def image_item(path: Path, name: str) -> Item:
    """Make the item of an image file; a file that does not open as an image of its kind is refused."""
    content = path.read_bytes()
    _check_image(content, IMAGE_ENDINGS[path.suffix.lower()])
    return Item(_hash(content), "image", name, path=str(path.absolute()))


def _check_image(content: bytes, kind: str) -> None:
    raise NotImplementedError
