"""Anything that may be a picture, into upright RGB pixels of one size; what cannot be one is told by its name."""

from __future__ import annotations

import io
import itertools
import os
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from naysayer.data.items import read_image, unread_format
from naysayer.features.cache import content_hash

MOST_PIXELS = 100_000_000  # to decode of one picture; a small file can claim more than there is memory for
CROP: float | None = 1.0  # share of the shorter side that is seen, in the middle; None squeezes all into the square
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM")  # none whose decoder runs other programs
_SHAPE = "(H, W), (H, W, 3), (H, W, 4) or (3, H, W)"
_SHAPES = "(N, H, W), (N, H, W, 3), (N, H, W, 4) or (N, 3, H, W)"
_KINDS = f"paths, PIL images, or uint8 arrays {_SHAPES}"
_AHEAD = 3  # batches that are read while one is computed
_LOADING = threading.Lock()


class PixelBatch(NamedTuple):
    """Pixels (B, C, ...) in uint8, and which pictures they are of."""

    rows: list[int]
    pixels: Tensor


class Pictures(Protocol):
    """Many pictures, of one kind or of several.

    Attributes
    ----------
    failed : what was wrong with those that could not be read, one line each, by their rows.
    """

    failed: dict[int, str]

    def __len__(self) -> int: ...

    def hashes(self) -> Sequence[str | None]:
        """Hash the content of each; those that cannot be read have none, and are told in `failed`."""

    def batches(self, rows: Sequence[int], size: int, at_once: int) -> Iterator[PixelBatch]:
        """Read some, by the batch; those that cannot be read are left out, and told in `failed`."""

    def place(self, pixels: Tensor, size: int, device: torch.device) -> Tensor:
        """Bring pixels of a batch to a device, as (B, 3, S, S)."""


class UnusablePicture(ValueError):
    """A picture that cannot be used."""


def take_pictures(X: Any) -> Pictures:
    """Take paths, PIL images or arrays, mixed or not, or one array of many pictures, without reading any yet.

    Examples
    --------
    >>> len(take_pictures(np.zeros((5, 32, 32, 3), dtype=np.uint8)))
    5
    >>> take_pictures("cat.jpg")
    Traceback (most recent call last):
    ValueError: pictures must be a list or an array of them; got one, 'cat.jpg'; pass [...]
    """
    if isinstance(X, (str, os.PathLike)) or _is_image(X):
        shown = repr(os.fspath(X)) if isinstance(X, (str, os.PathLike)) else "a PIL image"
        raise ValueError(f"pictures must be a list or an array of them; got one, {shown}; pass [...]")
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    elif hasattr(X, "to_numpy"):  # a column of a table
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.dtype.kind in "OU":
        X = (X[:, 0] if X.ndim == 2 and X.shape[1] == 1 else X).tolist()
    if not isinstance(X, np.ndarray):
        try:
            X = list(X)
        except TypeError:
            raise ValueError(f"pictures must be {_KINDS}; got {type(X).__name__}") from None
    if isinstance(X, np.ndarray) and len(X) and not (X.ndim == 4 and X.shape[1] not in (1, 3) and X.shape[3] == 4):
        return PictureStack(X)
    return Mixed([_check(source, row) for row, source in enumerate(X)])


# ---- one by one ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """One picture among others: a path, a PIL image, or bytes (H, W), (H, W, C) or (C, H, W); of C = 4 the last is A.

    Parameters
    ----------
    source : what it is.
    name : how errors call it.
    registered : the hash that a file must have; None: any.
    """

    source: Any
    name: str
    registered: str | None = None

    def hash(self) -> str:
        """Hash its content: the bytes of a file; else the pixels, as RGB."""
        content = self._content()
        if content is not None:
            return content_hash(content)
        image = self._decode(None, 1)
        return content_hash(f"{image.size}", image.tobytes())

    def image(self, size: int, expected: str | None = None) -> Any:
        """Give it as an upright RGB image; one much larger than `size` may be decoded smaller."""
        content = self._content()
        if content is not None and expected is not None and content_hash(content) != expected:
            raise self._refuse("must stay as it is while it is read", "it was changed", "try again")
        return self._decode(content, size)

    def pixels(self, size: int, expected: str | None = None) -> NDArray[np.uint8]:
        """Give the pixels (3, S, S); a file that has another hash than expected is refused."""
        from PIL import Image

        image = self.image(size, expected)
        seen = image.crop(window(*image.size))  # not resize's own box, beyond whose edges it looks
        small = seen.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0)
        return np.asarray(small, dtype=np.uint8).transpose(2, 0, 1)

    def _content(self) -> bytes | None:
        """Read the file, where it is one; what lies at its path by now must be what was registered."""
        if not isinstance(self.source, (str, os.PathLike)):
            return None
        try:
            content = read_image(self.source)
        except OSError as error:
            raise self._refuse("must be a file that can be read", (error.strerror or str(error)).lower()) from None
        except ValueError as error:
            if not str(error).startswith(f"{self.source} "):  # NUL, or half a character, in the path
                raise self._refuse("must have a path that a file can have", str(error)) from None
            raise UnusablePicture(f"picture {error}") from None
        if self.registered is not None and content_hash(content) != self.registered:
            raise self._refuse("must stay as it is", "it has changed since it was registered")
        return content

    def _decode(self, content: bytes | None, size: int) -> Any:
        """Decode, turn as browsers do, and bring to RGB; a JPEG is decoded no larger than needed."""
        from PIL import Image, ImageOps, UnidentifiedImageError

        few = f"must have at most {MOST_PIXELS:,} pixels"
        try:
            if content is not None:
                image: Any = Image.open(io.BytesIO(content), formats=_FORMATS)
                image.draft("RGB", (size, size))
            else:
                image = self.source if _is_image(self.source) else Image.fromarray(_as_pillow_has_it(self.source))
            if image.width * image.height > MOST_PIXELS:
                raise self._refuse(few, f"it has {image.width:,} × {image.height:,}", "make it smaller")
            with _LOADING if image is self.source else nullcontext():  # the same one may be in the list twice
                image.load()
            return to_rgb(ImageOps.exif_transpose(image))
        except UnusablePicture:
            raise
        except Image.DecompressionBombError:
            raise self._refuse(few, "it has more", "make it smaller") from None
        except UnidentifiedImageError:
            found = unread_format(content or b"")
            what = "it is none, or is damaged" if found is None else f"it is {found}, which is not read"
            raise self._refuse(f"must be an image ({', '.join(_FORMATS)})", what) from None
        except Exception as error:  # decoders raise many kinds on damaged files, SyntaxError among them
            why = " ".join(str(error).split())[:100]
            raise self._refuse("must open as an image", f"it does not: {why}") from None

    def _refuse(self, *why: str) -> UnusablePicture:
        return UnusablePicture(f"picture {self.name} {'; '.join(why)}")


def to_rgb(image: Any) -> Any:
    """Bring a PIL image of any mode to RGB: on white where it is transparent, 16 bits to 8."""
    from PIL import Image

    if image.mode[0] in "IF":  # 16 or 32 bits per pixel, grey
        values = np.asarray(image, dtype=np.float32)
        deep = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG") or values.max() > 255
        most = 65535.0 if deep else 1.0 if image.mode == "F" and values.max() <= 1 else 255.0
        image = Image.fromarray(np.rint(np.nan_to_num(values).clip(0, most) * (255 / most)).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
        seen = image.convert("RGBA")
        white = Image.new("RGBA", seen.size, "white")
        image = Image.alpha_composite(white, seen)
    return image if image.mode == "RGB" else image.convert("RGB")


def window(width: int, height: int) -> tuple[int, int, int, int]:
    """Give the part of a picture that is seen: left, top, right and bottom.

    Examples
    --------
    >>> window(640, 480)
    (80, 0, 560, 480)
    """
    if CROP is None:
        return 0, 0, width, height
    side = max(1, round(CROP * min(width, height)))
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def _check(source: Any, row: int) -> Picture:
    """Check what can be checked without reading."""
    if isinstance(source, Picture):
        return source
    if isinstance(source, (str, os.PathLike)):
        return Picture(source, repr(os.fspath(source)))
    if hasattr(source, "detach"):
        source = source.detach().cpu().numpy()
    if not _is_image(source) and not isinstance(source, np.ndarray):
        raise UnusablePicture(f"picture {row} must be a path, a PIL image or an array; got {type(source).__name__}")
    if isinstance(source, np.ndarray):
        _check_bytes(source, f"picture {row}")
        if source.ndim not in (2, 3) or (source.ndim == 3 and not _channels(source)):
            raise UnusablePicture(f"picture {row} must be {_SHAPE}; got shape {source.shape}")
    elif 0 in source.size:
        raise UnusablePicture(f"picture {row} must have pixels; got {source.width} × {source.height}")
    return Picture(source, str(row))


def _channels(array: NDArray[Any]) -> str:
    """Say where the channels of (H, W, C) or (C, H, W) are; what could be either has them first only if last are 4."""
    if array.shape[-1] in (1, 3):
        return "last"
    return "first" if array.shape[0] in (1, 3) else "last" if array.shape[-1] == 4 else ""


def _check_bytes(array: NDArray[Any], what: str) -> None:
    if array.dtype != np.uint8:
        raise UnusablePicture(
            f"{what} must hold bytes, uint8 from 0 to 255; got {array.dtype}; multiply by 255 and convert?"
        )
    if 0 in array.shape:
        raise UnusablePicture(f"{what} must have pixels; got shape {array.shape}")


def _is_image(source: Any) -> bool:
    """Whether something is a PIL image, without importing Pillow to learn that it is not."""
    return any(kind.__module__ == "PIL.Image" for kind in type(source).__mro__)


def _as_pillow_has_it(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bring one array to (H, W), (H, W, 3) or (H, W, 4)."""
    if array.ndim == 3 and _channels(array) == "first":
        array = array.transpose(1, 2, 0)
    return np.ascontiguousarray(array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array)


@dataclass
class Mixed:
    """Pictures one by one, read and resized by several threads while others are computed with."""

    pictures: list[Picture]
    failed: dict[int, str] = field(default_factory=dict)
    _hashes: list[str | None] | None = None

    def __len__(self) -> int:
        return len(self.pictures)

    def hashes(self) -> list[str | None]:
        """Hash the content of each."""
        with _threads() as pool:
            self._hashes = list(pool.map(self._hash, range(len(self))))
        return self._hashes

    def _hash(self, row: int) -> str | None:
        try:
            return self.pictures[row].hash()
        except UnusablePicture as error:
            self.failed[row] = str(error)
            return None

    def batches(self, rows: Sequence[int], size: int, at_once: int) -> Iterator[PixelBatch]:
        """Read and resize some, by the batch."""
        hashes: Sequence[str | None] = self._hashes or [None] * len(self)
        with _threads() as pool:
            started = ((row, pool.submit(self.pictures[row].pixels, size, hashes[row])) for row in rows)
            waiting = deque(itertools.islice(started, _AHEAD * at_once))
            read: list[tuple[int, NDArray[np.uint8]]] = []
            try:
                while waiting:
                    row, future = waiting.popleft()
                    waiting.extend(itertools.islice(started, 1))
                    try:
                        read.append((row, future.result()))
                    except UnusablePicture as error:
                        self.failed[row] = str(error)
                    if read and (len(read) == at_once or not waiting):
                        yield PixelBatch([row for row, _ in read], torch.from_numpy(np.stack([one for _, one in read])))
                        read = []
            finally:  # interrupted: what was not begun is not wanted any more
                for _, future in waiting:
                    future.cancel()

    def place(self, pixels: Tensor, size: int, device: torch.device) -> Tensor:
        """Bring pixels to a device; they have their size."""
        return pixels.to(device)


# ---- all at once -----------------------------------------------------------------------------------------------


class PictureStack:
    """Pictures of one size in one array of bytes, resized on the device by the batch."""

    def __init__(self, array: NDArray[Any]) -> None:
        _check_bytes(array, "an array of pictures")
        if array.ndim == 3 and array.shape[-1] in (1, 3):
            raise UnusablePicture(
                f"an array of pictures must be {_SHAPES}; got one picture, {array.shape}; pass a list of it"
            )
        channels_last = array.ndim == 4 and array.shape[-1] in (1, 3)
        if array.ndim == 3:
            array = array[:, None]
        elif channels_last:
            array = array.transpose(0, 3, 1, 2)
        if array.ndim != 4 or array.shape[1] not in (1, 3):
            raise UnusablePicture(f"an array of pictures must be {_SHAPES}; got {array.shape}")
        self.array, self.failed = array, dict[int, str]()

    def __len__(self) -> int:
        return len(self.array)

    def hashes(self) -> list[str]:
        """Hash the shape and the bytes of each."""
        shape = f"{self.array.shape[1:]}"
        some = [range(start, min(start + 256, len(self))) for start in range(0, len(self), 256)]
        with _threads() as pool:
            hashed = pool.map(lambda rows: [content_hash(shape, self.array[row].tobytes()) for row in rows], some)
            return [one for each in hashed for one in each]

    def batches(self, rows: Sequence[int], size: int, at_once: int) -> Iterator[PixelBatch]:
        """Take some, by the batch, as they are."""
        height, width = self.array.shape[2:]
        at_once = max(1, min(at_once, MOST_PIXELS // (height * width)))
        for start in range(0, len(rows), at_once):
            some = list(rows[start : start + at_once])
            whole = some[-1] - some[0] == len(some) - 1  # a slice is not copied
            taken = self.array[some[0] : some[-1] + 1] if whole else self.array[some]
            taken = taken.copy() if min(taken.strides) < 0 else taken  # turned around, which torch does not know
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of arrays that cannot be written to; nobody does
                pixels = torch.from_numpy(taken)
            yield PixelBatch(some, pixels)

    def place(self, pixels: Tensor, size: int, device: torch.device) -> Tensor:
        """Bring pixels to a device, and resize them there."""
        left, top, right, bottom = window(pixels.shape[-1], pixels.shape[-2])
        return resize(pixels[..., top:bottom, left:right].to(device).expand(-1, 3, -1, -1), size)


def resize(pixels: Tensor, size: int) -> Tensor:
    """Resize (B, C, H, W) bytes as Pillow does, by cubic splines without aliasing, on whatever device they are."""
    if pixels.shape[-2:] == (size, size):
        return pixels
    exact = pixels if pixels.device.type == "cpu" else pixels.float()  # bytes can be resized on a CPU alone
    exact = exact.contiguous(memory_format=torch.channels_last)
    resized = F.interpolate(exact, (size, size), mode="bicubic", antialias=True)
    return resized if resized.dtype == torch.uint8 else resized.round_().clamp_(0, 255).to(torch.uint8)


def _threads() -> ThreadPoolExecutor:
    """Threads that read and hash; Pillow and hashlib let others run meanwhile."""
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="naysayer-pictures")


@contextmanager
def large_allowed() -> Iterator[None]:
    """Do without Pillow's warnings, of size and damaged EXIF data: here some are refused, the others handled."""
    from PIL import Image

    with warnings.catch_warnings():  # for all threads, so it is the caller's to hold, not theirs
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield
