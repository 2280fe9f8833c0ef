"""Whatever may be a picture becomes upright RGB pixels, and what cannot is told by its name."""

from __future__ import annotations

import io
import os
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image, ImageOps

from helpers import raises
from naysayer.features import pictures
from naysayer.features.pictures import Picture, large_allowed, resize, take_pictures

CPU = torch.device("cpu")
RED = (255, 0, 0)


def smooth(n=1, height=48, width=64, seed=0):
    """Pictures (N, H, W, 3) that are no noise."""
    small = np.random.default_rng(seed).integers(256, size=(n, 6, 6, 3), dtype=np.uint8)
    return np.stack(
        [np.asarray(Image.fromarray(one).resize((width, height), Image.Resampling.BICUBIC)) for one in small]
    )


def read(X, size=16):
    """The pixels of all pictures, (N, 3, S, S), and what was wrong."""
    given = take_pictures(X)
    batches = [given.place(batch.pixels, size, CPU).numpy() for batch in given.batches(range(len(given)), size, 2)]
    return np.concatenate(batches) if batches else None, given.failed


def saved(path, image, **options):
    image.save(path, **options)
    return path


def is_one_colour(pixels, colour, within=3):
    return np.abs(pixels.astype(int) - np.array(colour)[:, None, None]).max() <= within


# ---- what is a picture -----------------------------------------------------------------------------------------


def test_every_way_to_give_a_picture_gives_the_same_pixels(tmp_path):
    X = smooth(3)
    paths = [saved(tmp_path / f"{i}.png", Image.fromarray(x)) for i, x in enumerate(X)]
    expected, _ = read(X)
    assert expected.shape == (3, 3, 16, 16)
    ways = [
        X.transpose(0, 3, 1, 2),
        X[::-1].copy()[::-1],
        torch.from_numpy(X),
        list(X),
        list(X.transpose(0, 3, 1, 2)),
        [Image.fromarray(x) for x in X],
        paths,
        [str(path) for path in paths],
        np.array([str(path) for path in paths]),
        pd.Series([str(path) for path in paths], index=[7, 1, 1]),
        pd.DataFrame({"photo": [str(path) for path in paths]}),
        [paths[0], Image.fromarray(X[1]), torch.from_numpy(X[2])],
    ]
    for way in ways:
        got, failed = read(way)
        assert failed == {}
        assert np.abs(got.astype(int) - expected).max() <= 1  # Pillow and torch round alike but for a few


def test_grey_arrays_become_three_equal_channels():
    X = smooth()[..., 0]
    for way in (X, X[:, None], X[..., None], [X[0]], [Image.fromarray(X[0])]):
        got, _ = read(way)
        assert (got[:, 0] == got[:, 1]).all()
        assert (got[:, 0] == got[:, 2]).all()
    assert np.abs(read(X)[0].astype(int) - read([X[0]])[0]).max() <= 1


def test_transparency_in_arrays_is_that_of_images():
    X = np.dstack([smooth()[0], np.tile(np.linspace(0, 255, 64, dtype=np.uint8), (48, 1))])
    expected, _ = read([Image.fromarray(X)])
    for way in ([X], [torch.from_numpy(X)], X[None], [X, Image.fromarray(X)]):
        got, failed = read(way)
        assert failed == {}
        assert all((one == expected[0]).all() for one in got)
    assert expected[0][:, :, 0].min() > 200 > 150 > expected[0][:, :, -1].min()  # from white to the colours
    first = np.zeros((3, 8, 4), dtype=np.uint8)  # four pixels wide, as before
    first[0] = 255
    for way in ([first], first[None]):
        assert is_one_colour(read(way)[0][0], RED)


def test_no_pictures_are_none():
    for none in ([], np.zeros((0, 3, 4, 4), dtype=np.uint8), np.array([])):
        given = take_pictures(none)
        assert len(given) == len(given.hashes()) == len(list(given.batches([], 16, 2))) == 0


def test_the_middle_square_is_seen():
    X = np.zeros((1, 20, 60, 3), dtype=np.uint8)
    X[:, :, 20:40] = RED
    for way in (X, list(X), X.transpose(0, 2, 1, 3)):
        assert is_one_colour(read(way)[0][0], RED, 0)


def test_all_is_squeezed_in_where_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(pictures, "CROP", None)
    X = np.zeros((1, 20, 60, 3), dtype=np.uint8)
    X[:, :, 30:] = RED
    for way in (X, list(X)):
        got = read(way)[0][0]
        assert is_one_colour(got[..., :6], (0, 0, 0))
        assert is_one_colour(got[..., 10:], RED)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4000), (4000, 1), (2, 3)])
def test_pictures_of_hardly_any_pixels(shape, tmp_path):
    X = np.broadcast_to(np.array(RED, dtype=np.uint8), (1, *shape, 3))
    path = saved(tmp_path / "a.png", Image.fromarray(np.ascontiguousarray(X[0])))
    for way in (X, [path]):
        assert is_one_colour(read(way)[0][0], RED, 0)


MODES = pytest.mark.parametrize(
    ("mode", "value", "ending", "expected"),
    [
        ("1", 1, "png", (255, 255, 255)),
        ("L", 90, "jpg", (90, 90, 90)),
        ("RGB", RED, "jpg", RED),
        ("RGB", RED, "bmp", RED),
        ("RGBA", (0, 0, 255, 0), "png", (255, 255, 255)),
        ("RGBA", (0, 0, 0, 128), "png", (127, 127, 127)),
        ("LA", (0, 0), "png", (255, 255, 255)),
        ("CMYK", (0, 255, 255, 0), "jpg", RED),
        ("I;16", 65535, "png", (255, 255, 255)),
        ("I;16", 100, "tiff", (0, 0, 0)),
        ("I", 200, "tiff", (200, 200, 200)),
        ("I", 32896, "tiff", (128, 128, 128)),
        ("F", 0.5, "tiff", (128, 128, 128)),
        ("F", 200.0, "tiff", (200, 200, 200)),
        ("I;16", 32896, "png", (128, 128, 128)),
    ],
)


@MODES
def test_every_mode_becomes_rgb(mode, value, ending, expected, tmp_path):
    image = Image.new(mode, (20, 20), value)
    path = saved(tmp_path / f"a.{ending}", image)
    for way in ([path], [image]):
        assert is_one_colour(read(way)[0][0], expected)


def test_a_palette_with_transparency_lies_on_white(tmp_path):
    image = Image.new("P", (20, 20), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    seen, clear = saved(tmp_path / "a.png", image, transparency=0), saved(tmp_path / "b.gif", image, transparency=1)
    got, _ = read([seen, clear])
    assert is_one_colour(got[0], (10, 20, 30))
    assert is_one_colour(got[1], (255, 255, 255))


def test_of_an_animation_the_first_frame_is_seen(tmp_path):
    frames = [Image.new("RGB", (20, 20), colour) for colour in (RED, (0, 255, 0))]
    paths = [saved(tmp_path / f"a.{e}", frames[0], save_all=True, append_images=frames[1:]) for e in ("gif", "webp")]
    for got in read(paths)[0]:
        assert is_one_colour(got, RED)


def test_pictures_are_turned_as_browsers_turn_them(tmp_path):
    image = Image.new("RGB", (40, 20))
    image.paste(RED, (0, 0, 20, 20))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter to the right
    got, _ = read([saved(tmp_path / "a.jpg", image, exif=exif, quality=95)])
    assert is_one_colour(got[0][:, :5], RED, 20)
    assert is_one_colour(got[0][:, -5:], (0, 0, 0), 20)


def test_a_large_jpeg_is_decoded_no_larger_than_needed(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.jpg", Image.fromarray(smooth(height=300, width=400)[0]))
    whole, _ = read([path])
    monkeypatch.setattr(pictures, "MOST_PIXELS", 100 * 100)
    small, failed = read([path])
    assert failed == {}
    assert (small == whole).all()
    with large_allowed(), warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100_000)  # of which Pillow would warn
        exif = b"Exif\0\0MM\0*\xff\xff\xff\xff"  # an offset far beyond the end
        damaged = saved(tmp_path / "b.jpg", Image.fromarray(smooth()[0]), exif=exif)
        with pytest.raises(UserWarning, match="EXIF"):
            ImageOps.exif_transpose(Image.open(damaged))
        with large_allowed():
            assert read([path, damaged])[1] == {}


def test_bytes_are_resized_as_floats_are():
    X = torch.from_numpy(smooth(2).transpose(0, 3, 1, 2).copy())
    for size in (16, 100):
        exact = torch.nn.functional.interpolate(X.float(), (size, size), mode="bicubic", antialias=True)
        assert (resize(X, size).float() - exact.clamp(0, 255)).abs().max() <= 2
    assert resize(X[..., :48], 48).data_ptr() == X.data_ptr()


# ---- what is none ----------------------------------------------------------------------------------------------


def broken(folder):
    """Files that cannot be read, each with what is said of it."""
    jpeg = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(256, size=(60, 60, 3), dtype=np.uint8)).save(jpeg, "JPEG")
    (folder / "cut.jpg").write_bytes(jpeg.getvalue()[:-500])
    (folder / "text.jpg").write_text("no picture")
    (folder / "empty.png").write_bytes(b"")
    (folder / "program.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    return {
        "cut.jpg": "must open as an image; it does not: image file is truncated",
        "text.jpg": "must be an image (JPEG, PNG, GIF, WEBP, BMP, TIFF, PPM); it is none, or is damaged",
        "empty.png": "must be an image (JPEG",
        "program.eps": "must be an image (JPEG, PNG, GIF, WEBP, BMP, TIFF, PPM); it is PostScript, which is not read",
        "phone.heic": "must be an image (JPEG, PNG, GIF, WEBP, BMP, TIFF, PPM); it is HEIC, which is not read",
    }


def test_a_broken_file_is_told_and_the_others_are_read(tmp_path):
    good = saved(tmp_path / "good.png", Image.new("RGB", (9, 9), RED))
    said = broken(tmp_path)
    got, failed = read([tmp_path / name for name in said] + [good] * 3)
    assert len(got) == 3
    for row, (name, words) in enumerate(said.items()):
        line = failed.pop(row)
        assert line.startswith(f"picture '{tmp_path / name}' {words}")
        assert "\n" not in line
    assert failed == {}


def test_a_picture_of_too_many_pixels_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.png", Image.new("1", (200, 100)))
    monkeypatch.setattr(pictures, "MOST_PIXELS", 10_000)
    _, failed = read([path, Image.new("1", (200, 100))])
    assert failed[0] == f"picture '{path}' must have at most 10,000 pixels; it has 200 × 100; make it smaller"
    assert failed[1].startswith("picture 1 must have at most 10,000 pixels")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # twice as many, and Pillow itself refuses
    assert read([path])[1] == {0: f"picture '{path}' must have at most 10,000 pixels; it has more; make it smaller"}


def test_what_is_not_there_is_told_by_its_row(tmp_path):
    good = saved(tmp_path / "good.png", Image.new("RGB", (9, 9)))
    given = take_pictures([good, tmp_path / "gone.jpg", "a\0b.png", tmp_path])
    first, *others = given.hashes()
    assert first == take_pictures([good]).hashes()[0]
    assert others == [None] * 3
    assert sorted(given.failed) == [1, 2, 3]
    assert given.failed[1].endswith("gone.jpg' must be a file that can be read; no such file or directory")
    assert given.failed[2].startswith(r"picture 'a\x00b.png' must have a path that a file can have; ")
    assert given.failed[3] == f"picture {tmp_path} must be a file; it is something else"


def test_a_file_that_changes_is_not_taken_for_what_it_was(tmp_path):
    path = saved(tmp_path / "a.png", Image.new("RGB", (9, 9)))
    given = take_pictures([path])
    given.hashes()
    saved(path, Image.new("RGB", (9, 9), RED))
    assert list(given.batches([0], 16, 1)) == []
    assert given.failed == {0: f"picture '{path}' must stay as it is while it is read; it was changed; try again"}


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ("cat.jpg", "pictures must be a list or an array of them; got one, 'cat.jpg'; pass [...]"),
        (Image.new("L", (2, 2)), "got one, a PIL image; pass [...]"),
        (
            3,
            "must be paths, PIL images, or uint8 arrays (N, H, W), (N, H, W, 3), (N, H, W, 4) or (N, 3, H, W); got int",
        ),
        ([None], "picture 0 must be a path, a PIL image or an array; got NoneType"),
        (["a.jpg", 3.5], "picture 1 must be a path, a PIL image or an array; got float"),
        ([np.zeros((2, 2))], "picture 0 must hold bytes, uint8 from 0 to 255; got float64; multiply by 255"),
        (
            [np.zeros((2, 2, 2, 2), dtype=np.uint8)],
            "picture 0 must be (H, W), (H, W, 3), (H, W, 4) or (3, H, W); got shape (2, 2",
        ),
        ([np.zeros((4, 5, 2), dtype=np.uint8)], "picture 0 must be (H, W), (H, W, 3), (H, W, 4) or (3, H, W); got sha"),
        ([Image.new("RGB", (0, 5))], "picture 0 must have pixels; got 0 × 5"),
        ([np.zeros((4, 4), dtype=np.uint8), Image.new("L", (3, 0))], "picture 1 must have pixels; got 3 × 0"),
        ([np.zeros((0, 4), dtype=np.uint8)], "picture 0 must have pixels; got shape (0, 4)"),
        (np.zeros((2, 4, 4)), "an array of pictures must hold bytes"),
        (
            np.zeros((2, 16), dtype=np.uint8),
            "an array of pictures must be (N, H, W), (N, H, W, 3), (N, H, W, 4) or (N, 3, H, W); got",
        ),
        (np.zeros((9, 8, 3), dtype=np.uint8), "got one picture, (9, 8, 3); pass a list of it"),
        (np.zeros((2, 2, 8, 8), dtype=np.uint8), "an array of pictures must be (N, H, W)"),
        (np.zeros((2, 0, 8), dtype=np.uint8), "an array of pictures must have pixels; got shape (2, 0, 8)"),
    ],
)
def test_errors(X, words):
    with raises(words):
        take_pictures(X)


# ---- hashes ----------------------------------------------------------------------------------------------------


def test_the_same_content_has_the_same_hash(tmp_path):
    X = smooth(3)
    stack = take_pictures(X).hashes()
    assert len(set(stack)) == 3
    assert take_pictures(np.ascontiguousarray(X.transpose(0, 3, 1, 2))).hashes() == stack
    assert take_pictures(X[::-1]).hashes() == stack[::-1]
    one = saved(tmp_path / "a.png", Image.fromarray(X[0]))
    other = saved(tmp_path / "b.png", Image.fromarray(X[0]))
    assert Picture(one, "").hash() == Picture(other, "").hash() != Picture(Image.fromarray(X[0]), "").hash()
    tall, wide = (Picture(Image.new("L", size), "").hash() for size in ((2, 8), (8, 2)))
    assert tall != wide


def test_one_image_may_be_given_many_times(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(smooth()[0]))
    with Image.open(path) as image:  # not loaded yet, and several threads will want to
        got, failed = read([image] * 20)
    assert failed == {}
    assert (got == got[0]).all()


def test_threads_end_with_what_they_were_for(tmp_path):
    paths = [saved(tmp_path / f"{i}.png", Image.new("L", (9, 9), i)) for i in range(30)]
    before = threading.active_count()
    batches = take_pictures(paths).batches(range(30), 16, 4)
    assert next(batches).rows == [0, 1, 2, 3]
    batches.close()
    assert threading.active_count() == before
    assert os.path.exists(paths[0])
