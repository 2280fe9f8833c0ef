"""Pictures as pages get them: upright, as large as they are shown, and without what the camera wrote beside the pixels.

The place where a photo was taken, its time, its device, a thumbnail of what was cropped away: all of it stands beside
the pixels. So no byte of a file is sent: its pixels are decoded and encoded anew, at full size too.
"""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from naysayer.features.pictures import to_rgb

MOST_KEPT = 256 * 2**20  # bytes
MOST_FRAMES = 100_000_000  # pixels of an animation in all; of a longer one the first frame is shown
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")
ANIMATED = ("GIF", "PNG", "WEBP")  # a JPEG that says it has frames is a phone's, with the same scene again
_decoding = threading.Semaphore(os.cpu_count() or 1)  # a photo may take 300 MB while it is decoded

Encoded = tuple[bytes, str]  # a picture and its media type


def render(content: bytes, size: int | None) -> Encoded:
    """Encode a picture anew; `size`: pixels that its longer side may have, None: as many as it has.

    What is made smaller becomes a JPEG. What is not keeps its pixels: a JPEG becomes one of high quality, and anything
    else a PNG; an animation becomes a WebP. Transparency is shown on white, as models see it, too. A file that does not
    open as a picture is a ValueError.

    Examples
    --------
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (4000, 3000)).save(file, "JPEG")
    >>> body, kind = render(file.getvalue(), 640)
    >>> kind, Image.open(io.BytesIO(body)).size
    ('image/jpeg', (640, 480))
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings(), _decoding:
            warnings.simplefilter("ignore")  # of its size; it was checked when it was registered
            with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
                frames = getattr(opened, "n_frames", 1)
                if opened.format in ANIMATED and 1 < frames <= MOST_FRAMES // (opened.width * opened.height):
                    return _animation(opened, size)
                side = max(opened.size)
                if size is not None:
                    opened.draft("RGB", (size, size))  # a JPEG is decoded no larger than needed
                profile = opened.info.get("icc_profile") if opened.mode in ("RGB", "RGBA") else None
                image = to_rgb(ImageOps.exif_transpose(opened))
                if size is not None and side > size:
                    image.thumbnail((size, size), reducing_gap=3.0)
                    return _encode(image, "JPEG", quality=85, subsampling=0, icc_profile=profile)
                if opened.format in ("JPEG", "MPO"):
                    return _encode(image, "JPEG", quality=95, subsampling=0, icc_profile=profile)
                return _encode(image, "PNG", compress_level=3, icc_profile=profile)
    except Exception as error:  # decoders raise many kinds on damaged files, SyntaxError among them
        raise ValueError(f"a picture must open as one of {', '.join(FORMATS)}; this one does not: {error}") from None


def _encode(image: Any, kind: str, **options: Any) -> Encoded:
    """Encode an image; nothing that its file had beside the pixels comes along, but for the colours' profile."""
    image.info = {}
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue(), f"image/{kind.lower()}"


def _animation(opened: Any, size: int | None) -> Encoded:
    """Encode all frames of an animation."""
    from PIL import ImageSequence

    frames, durations = [], []
    for frame in ImageSequence.Iterator(opened):
        durations.append(frame.info.get("duration", 100))
        frames.append(to_rgb(frame.copy()))
        if size is not None:
            frames[-1].thumbnail((size, size))
    options = {"save_all": True, "append_images": frames[1:], "duration": durations, "quality": 85}
    return _encode(frames[0], "WEBP", loop=opened.info.get("loop", 0), **options)


class Previews:
    """What was rendered, kept in memory as long as it fits: nothing of a photo outlives the server.

    Parameters
    ----------
    most : bytes that are kept; what was not asked for the longest goes first.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._bytes, self._lock = most, 0, threading.Lock()
        self._kept: OrderedDict[Any, Encoded] = OrderedDict()
        self._making: dict[Any, threading.Lock] = {}

    def get(self, key: Any, make: Callable[[], Encoded]) -> Encoded:
        """Give what is kept by this key, or make it; those who ask meanwhile wait for it."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                with self._lock:
                    if key in self._kept:
                        self._kept.move_to_end(key)
                        return self._kept[key]
                made = make()
                self._keep(key, made)
                return made
        finally:
            with self._lock:
                self._making.pop(key, None)

    def _keep(self, key: Any, made: Encoded) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = made
            self._bytes += len(made[0])
            while self._bytes > self._most:
                self._bytes -= len(self._kept.popitem(last=False)[1][0])
