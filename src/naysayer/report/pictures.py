"""Small pictures inside a page."""

from __future__ import annotations

import base64
import io
import warnings
from typing import Any

from naysayer.features.pictures import to_rgb

SIDE = 112  # pixels of a picture's sides
MOST_BYTES = 6000  # of a picture
MOST_PICTURES = 330  # of a page: with base64, 330 × 6,000 × 4 / 3 are at most 2.6 MB


def thumbnail(path: Any) -> str | None:
    """Give the middle of an image file as a small square JPEG in a data URI; None if it does not open any more."""
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its size; it was checked when it was registered
            with Image.open(path or "") as image:
                image.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG is decoded no larger than needed
                upright = to_rgb(ImageOps.exif_transpose(image))
    except Exception:  # decoders raise many kinds on damaged files, and a report is no place to fail for one picture
        return None
    small = min(upright.size) < SIDE
    square = ImageOps.fit(upright, (SIDE, SIDE), Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
    for quality in (80, 60, 40, 20, 5):
        out = io.BytesIO()
        square.save(out, "JPEG", quality=quality, optimize=True)
        if out.tell() <= MOST_BYTES:
            break
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
