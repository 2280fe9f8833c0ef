"""Images in tars, as WebDataset lays them out, read part by part."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import check_count
from naysayer.data.items import IMAGE_ENDINGS
from naysayer.data.stream import Place, StreamLabels, digest_of, find_files, opened, still_there
from naysayer.data.tables import parsing
from naysayer.engine.shards import Block
from naysayer.engine.stream import MEMORY

BLOCK_IMAGES = 256
_BLOCK_SHARE = 8  # of the memory, that a block's images may take


def _check_end(file: Any) -> None:
    """Check that a tar ends as tars do; tarfile reads one that was cut off between two files without a word."""
    file.seek(0, io.SEEK_END)
    end = file.tell() - 1024
    file.seek(max(0, end))
    if end < 0 or any(file.read(1024)):
        raise ValueError("it is cut off")
    file.seek(0)


class TarShards:
    """Images in tars: ``0001.png`` beside ``0001.cls``, whose text is the label; each tar is a shard.

    Parameters
    ----------
    places : tars, folders of them, patterns or addresses.
    label : the ending of the files with labels.
    classes, ordinary : as for :func:`~naysayer.data.labels.read_labels`.
    size : pixels of a side that all images are brought to; None: they must all have one size.
    memory : bytes, of which the images that are read at a time take an eighth.
    """

    def __init__(
        self,
        places: Place | Iterable[Place],
        label: str = "cls",
        classes: Sequence[Any] | None = None,
        ordinary: bool = False,
        size: int | None = None,
        memory: int = MEMORY,
    ) -> None:
        self.memory = check_count(memory, "`memory`")
        self.system, self.names = find_files(places)
        if Path(self.names[0]).suffix.lower() != ".tar":
            raise ValueError(f"images must come in tars; got {self.names[0]}")
        self.label, self.size = label, None if size is None else check_count(size, "`size`")
        self.labels = StreamLabels(((name, self._told(name)) for name in self.names), label, classes, ordinary)
        self.classes, self.n_classes = self.labels.classes, len(self.labels.classes)
        self.sizes: list[int] | None = self.labels.sizes
        self._shape: tuple[int, ...] | None = None

    def blocks(self, shard: int) -> Iterator[Block]:
        """Read a tar's images, (b, 3, H, W) bytes, with their labels."""
        name, first = self.names[shard], 0
        images: list[NDArray[np.uint8]] = []
        texts: list[str] = []
        for key, parts in self._examples(name, lambda ending: ending == self.label or f".{ending}" in IMAGE_ENDINGS):
            images.append(self._decoded(name, key, parts))
            texts.append(parts[self.label].decode(errors="replace"))
            if len(images) >= min(BLOCK_IMAGES, self.memory // _BLOCK_SHARE // images[0].nbytes):
                n, block = len(images), [self._block(images, texts, name, first)]
                first, images, texts = first + n, [], []
                yield block.pop()  # nothing of it is kept while the next images are read
        if images:
            yield self._block(images, texts, name, first)

    def digest(self) -> str:
        """Give what tells these files from others: their names, sizes and times."""
        return digest_of(self.names, self.system)

    def _block(self, images: list[NDArray[np.uint8]], texts: list[str], name: str, first: int) -> Block:
        return Block(np.stack(images), self.labels.of(texts, np.arange(len(texts)), name), first)

    def _told(self, name: str) -> Iterator[tuple[list[Any], NDArray[np.int64], int]]:
        """The labels of a tar; no image is decoded."""
        for i, (_, parts) in enumerate(self._examples(name, lambda ending: ending == self.label)):
            yield [parts[self.label].decode(errors="replace")], np.zeros(1, dtype=np.int64), i

    def _examples(self, name: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Give the files of each example by their endings; neighbours of one name belong together."""
        key: str = ""
        parts: dict[str, bytes] = {}
        with still_there(name), opened(name, self.system) as file, parsing(name, "tar"):
            _check_end(file)
            with tarfile.open(fileobj=file, mode="r|*") as tar:
                for member in tar:
                    folder, _, leaf = member.name.rpartition("/")
                    stem, _, ending = leaf.partition(".")
                    if not member.isfile() or not wanted(ending.lower()):
                        continue
                    if (folder + "/" + stem) != key and parts:
                        yield key, self._whole(key, parts)
                        parts = {}
                    key, content = folder + "/" + stem, tar.extractfile(member)
                    parts[ending.lower()] = b"" if content is None else content.read()
            if parts:
                yield key, self._whole(key, parts)

    def _whole(self, key: str, parts: dict[str, bytes]) -> dict[str, bytes]:
        if self.label not in parts:
            raise ValueError(f"it has no label {key.strip('/')}.{self.label} beside its image")
        return parts

    def _decoded(self, name: str, key: str, parts: dict[str, bytes]) -> NDArray[np.uint8]:
        """Decode an example's image, by no decoder but the one its ending names."""
        from PIL import Image, UnidentifiedImageError

        ending = next((f".{ending}" for ending in parts if f".{ending}" in IMAGE_ENDINGS), None)
        shown = f"{name}: {key.strip('/')}"
        if ending is None:
            raise ValueError(f"{shown} must have an image, a file that ends in {', '.join(IMAGE_ENDINGS)}; it has none")
        try:
            with Image.open(io.BytesIO(parts[ending[1:]]), formats=[IMAGE_ENDINGS[ending]]) as opened_image:
                image = opened_image.convert("RGB")
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise ValueError(f"{shown}{ending} must be a whole image; {error}") from None
        if self.size is not None:
            image = image.resize((self.size, self.size), Image.Resampling.BILINEAR)
        pixels = np.moveaxis(np.asarray(image, dtype=np.uint8), 2, 0)
        self._shape = self._shape or pixels.shape
        if pixels.shape != self._shape:
            raise ValueError(
                f"all images must have one size; {shown}{ending} is {image.width} by {image.height}, and the first "
                f"{self._shape[2]} by {self._shape[1]}; pass size=..., to which they are brought"
            )
        return pixels
