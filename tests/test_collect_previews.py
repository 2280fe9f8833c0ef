"""Previews: every kind of picture becomes pixels alone, and what was made is kept within limits."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from helpers import raises
from naysayer.collect import previews
from naysayer.collect.previews import Previews, render


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def seen(made):
    return Image.open(io.BytesIO(made[0]))


def test_what_fits_keeps_every_pixel():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    for kind, options in (("PNG", {}), ("BMP", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        made = render(saved(Image.fromarray(pixels), kind, **options), 640)
        assert made[1] == "image/png"
        np.testing.assert_array_equal(np.asarray(seen(made)), pixels)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("size", [None, 40])
def test_every_mode_is_shown(mode, size):
    kind = "JPEG" if mode == "CMYK" else "PNG"
    image = Image.new(mode, (90, 60)) if mode == "I;16" else Image.new("RGB", (90, 60), "white").convert(mode)
    assert seen(render(saved(image, kind), size)).size == ((90, 60) if size is None else (40, 27))


def test_what_is_transparent_is_white():
    clear = saved(Image.new("RGBA", (4, 4), (0, 0, 0, 0)), "PNG")
    assert np.asarray(seen(render(clear, None))).min() == 255


@pytest.mark.parametrize("size", [None, 40])
def test_texts_beside_the_pixels_are_left_out(size):
    note = PngImagePlugin.PngInfo()
    note.add_text("Comment", "Secret")
    note.add_itxt("XML:com.adobe.xmp", "Secret")
    exif = Image.Exif()
    exif[0x010F] = "Secret"
    picture = Image.new("RGB", (60, 60))
    files = [saved(picture, "PNG", pnginfo=note, exif=exif), saved(picture, "GIF", comment=b"Secret")]
    files += [saved(picture, kind, exif=exif) for kind in ("WEBP", "TIFF", "JPEG")]
    files.append(saved(picture, "JPEG", xmp=b"Secret") + b"Secret")  # phones append films
    for file in files:
        assert b"Secret" in file
        assert b"Secret" not in render(file, size)[0]


def test_colours_keep_their_profile():
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert seen(render(saved(Image.new("RGB", (60, 60)), "JPEG", icc_profile=profile), 40)).info["icc_profile"]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_stays_one(kind, monkeypatch):
    frames = [Image.new("RGB", (60, 40), color) for color in ("red", "green", "blue")]
    file = saved(frames[0], kind, save_all=True, append_images=frames[1:], duration=120, loop=0)
    made = render(file, 30)
    assert (made[1], seen(made).n_frames, seen(made).size) == ("image/webp", 3, (30, 20))
    monkeypatch.setattr(previews, "MOST_FRAMES", 5000)
    assert getattr(seen(render(file, 30)), "n_frames", 1) == 1


def test_a_phones_second_picture_is_no_animation():
    frames = [Image.new("RGB", (60, 40), color) for color in ("red", "blue")]
    made = render(saved(frames[0], "MPO", save_all=True, append_images=frames[1:]), None)
    assert (made[1], seen(made).format) == ("image/jpeg", "JPEG")


def test_what_is_no_picture_is_refused():
    with raises("a picture must open as one of JPEG, PNG, GIF, WEBP, BMP, TIFF; this one does not: "):
        render(b"<svg/>", 640)


def test_what_was_made_is_kept_until_there_is_no_room():
    kept, made = Previews(most=25), []

    def make(key):
        made.append(key)
        return b"x" * 10, "image/png"

    for key in ("a", "b", "a", "c", "a", "b"):  # b goes when c comes: a was asked for later
        assert kept.get(key, lambda key=key: make(key)) == (b"x" * 10, "image/png")
    assert made == ["a", "b", "c", "b"]


def test_who_asks_for_the_same_meanwhile_waits_for_it():
    kept, made, began, end = Previews(), [], threading.Event(), threading.Event()

    def make():
        made.append(1)
        began.set()
        end.wait(60)
        return b"x", "image/png"

    threads = [threading.Thread(target=kept.get, args=("a", make)) for _ in range(4)]
    threads[0].start()
    began.wait(60)
    for thread in threads[1:]:
        thread.start()
    end.set()
    for thread in threads:
        thread.join(60)
    assert made == [1]


def test_what_failed_is_tried_again():
    kept = Previews()
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 / 0)
    assert kept.get("a", lambda: (b"x", "image/png")) == (b"x", "image/png")
