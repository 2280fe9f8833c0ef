"""Items from folders and files: the same content is the same item, and what cannot be shown is told and left out."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import zlib
from contextlib import redirect_stderr

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from helpers import raises
from naysayer.common import progress
from naysayer.data import items
from naysayer.data.items import IMAGE_ENDINGS, image_item, is_name, read_items, record_item, text_item


def picture(path, seed=0, size=(16, 12), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), dtype=np.uint8)).save(path, **options)
    return path


def told(path):
    """Read items, and what was told of those left out."""
    lines = []
    return list(read_items(path, report=lines.append)), lines


# ---- images ------------------------------------------------------------------------------------------------------


def test_a_folder_is_read_in_order_with_its_folders(tmp_path):
    names = ["b.PNG", "a/z.jpg", "a/b/c.webp", "c.gif", "d.bmp", "e.jpeg"]
    for seed, name in enumerate(names):
        picture(tmp_path / name, seed)
    picture(tmp_path / ".hidden" / "x.png")
    picture(tmp_path / "._b.png")
    (tmp_path / "notes.txt").write_text("not an image")
    found, lines = told(tmp_path)
    assert [item.name for item in found] == ["b.PNG", "c.gif", "d.bmp", "e.jpeg", "a/z.jpg", "a/b/c.webp"]
    assert lines == [f"left out: {tmp_path}/notes.txt is no image"]
    for name in ("a.csv", "a/b.txt"):
        (tmp_path / name).write_text("not an image")
    assert told(tmp_path)[1] == [f"left out: {tmp_path}/a.csv and 2 more files are no images"]
    (tmp_path / "lost.png").symlink_to(tmp_path / "nowhere.png")
    lost = f"left out: {tmp_path}/lost.png must be a file that can be read; no such file or directory"
    assert lost in told(tmp_path)[1]


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_large_folder_shows_how_far_it_is(verbose, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", -math.inf)
    monkeypatch.setattr(items, "_MANY", 2)
    for seed in range(2):
        picture(tmp_path / f"{seed}.png", seed)
    assert len(list(read_items(tmp_path, verbose=verbose))) == 2
    (tmp_path / "0.png").unlink()
    assert len(list(read_items(tmp_path, verbose=verbose))) == 1  # and is read without a word
    assert re.findall("looking at photos: .* %", capsys.readouterr().err) == ["looking at photos: 50 %"] * verbose


def test_images_are_named_one_by_one_or_by_a_pattern(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("photos/a.png", "photos/b.jpg", "photos/old/c.png")):
        picture(tmp_path / name, seed)
    (tmp_path / "photos" / "notes.txt").write_text("not an image")
    assert [item.name for item in read_items("photos/a.png")] == ["photos/a.png"]
    assert [item.name for item in read_items("photos/*.png")] == ["photos/a.png"]
    assert [item.name for item in read_items("photos/**/*.png")] == ["photos/a.png", "photos/old/c.png"]
    found, lines = told("photos/*")
    assert [item.name for item in found] == ["photos/a.png", "photos/b.jpg"]
    assert lines == ["left out: photos/notes.txt is no image"]
    with raises("no file or folder at photos/*.gif", FileNotFoundError):
        read_items("photos/*.gif")
    for item in found:
        path = tmp_path / item.name
        assert item.kind == "image"
        assert item.content is None
        assert item.path == str(path)
        assert item.id == hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def test_the_same_image_twice_is_one_item(tmp_path):
    picture(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes())
    assert [item.name for item in told(tmp_path)[0]] == ["a.png"]


@pytest.mark.parametrize("ending", IMAGE_ENDINGS)
def test_images_that_do_not_open_are_told_and_left_out(tmp_path, ending):
    picture(tmp_path / "good.png", 1)
    whole = picture(tmp_path / f"whole{ending}", 2, size=(200, 150)).read_bytes()
    (tmp_path / f"half{ending}").write_bytes(whole[: len(whole) // 2])
    (tmp_path / f"empty{ending}").write_bytes(b"")
    (tmp_path / f"text{ending}").write_bytes(b"<svg onload='alert(1)'/>" * 9)
    os.symlink(tmp_path / "nowhere", tmp_path / f"lost{ending}")
    found, lines = told(tmp_path)
    assert sorted(item.name for item in found) == sorted(["good.png", f"whole{ending}"])
    kind = IMAGE_ENDINGS[ending]
    assert [line.split(": ")[0] for line in lines] == ["left out"] * 4
    assert f"left out: {tmp_path}/text{ending} must open as a {kind} image; it is SVG, which is not read" in lines
    assert any(line.startswith(f"left out: {tmp_path}/half{ending} must open as a {kind} image") for line in lines)
    assert all("\n" not in line for line in lines)


def test_what_is_left_out_for_one_reason_is_told_in_a_few_lines(tmp_path):
    for i in range(300):
        (tmp_path / f"IMG_{i:03}.HEIC").write_bytes(b"x")
    with raises(f"{tmp_path} must hold images") as caught, redirect_stderr(io.StringIO()) as lines:
        list(read_items(tmp_path))
    words = "is HEIC, which is not read; convert it to JPEG"
    assert str(caught.value).endswith(
        f"; it has none that can be read: {tmp_path}/IMG_000.HEIC {words} (and 299 more for the same reason)"
    )
    assert lines.getvalue().splitlines() == [
        *(f"left out: {tmp_path}/IMG_00{i}.HEIC {words}" for i in range(3)),
        f"left out: 297 more for the same reason as {tmp_path}/IMG_000.HEIC",
    ]
    content = picture(tmp_path / "a.png", size=(40, 40)).read_bytes()
    for i in range(9):
        (tmp_path / f"cut{i}.png").write_bytes(content[: -30 * i - 30])
        (tmp_path / f"wide{i}.png").write_bytes(bomb(30_000, 30_000 + i))
    lines = told(tmp_path)[1]
    assert len(lines) == 12  # three and a count of each reason, however much was cut off
    assert [line for line in lines if " more " in line] == [
        f"left out: {number} more for the same reason as {tmp_path}/{name}"
        for number, name in ((297, "IMG_000.HEIC"), (6, "cut0.png"), (6, "wide0.png"))
    ]
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "one"}\n' + '{"text": ""}\n' * 1200)
    assert told(path)[1] == [
        *(f"left out: row {i} of {path} has no text" for i in (2, 3, 4)),
        f"left out: 1,197 more for the same reason as row 2 of {path}",
    ]


def test_photos_that_are_not_read_are_named_each(tmp_path):
    picture(tmp_path / "good.tif")
    for name in ("IMG_1.HEIC", "IMG_2.heif", "notes.txt", "more.txt"):
        (tmp_path / name).write_bytes(b"x")
    found, lines = told(tmp_path)
    assert [item.name for item in found] == ["good.tif"]
    assert lines == [
        f"left out: {tmp_path}/IMG_1.HEIC is HEIC, which is not read; convert it to JPEG",
        f"left out: {tmp_path}/IMG_2.heif is HEIF, which is not read; convert it to JPEG",
        f"left out: {tmp_path}/more.txt and 1 more file are no images",
    ]


def test_a_picture_whose_ending_lies_is_taken_for_what_it_is(tmp_path):
    endings = {kind: ending for ending, kind in IMAGE_ENDINGS.items()}
    for seed, (kind, ending) in enumerate(endings.items()):
        said = ".png" if ending == ".jpeg" else ".jpeg"
        whole = picture(tmp_path / f"{kind}{ending}", seed, size=(90, 90)).rename(tmp_path / f"{kind}{said}")
        (tmp_path / f"half-{kind}{said}").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    found, lines = told(tmp_path)
    assert sorted(item.name.partition(".")[0] for item in found) == sorted(endings)
    assert len(lines) == len(endings)
    for kind, said in (("PNG", "jpeg"), ("JPEG", "png")):
        half = f"left out: {tmp_path}/half-{kind}.{said} must open as a {kind} image; it does not: "
        assert any(line.startswith(half) for line in lines)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC, which is not read; convert it to JPEG"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", "AVIF, which is not read; convert it to JPEG"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", "a video, which is not read"),
        (b"\n<!DOCTYPE html><title>404</title>", "a web page, which is not read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG, which is not read"),
        (b"%PDF-1.7", "PDF, which is not read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "PostScript, which is not read"),
    ],
)
def test_what_is_no_picture_that_is_read_is_told_by_its_content(content, said, tmp_path):
    (tmp_path / "said.jpg").write_bytes(content)
    assert told_alone(tmp_path) == f"left out: {tmp_path}/said.jpg must open as a JPEG image; it is {said}"


def told_alone(folder):
    """The only line about a folder of which nothing is left."""
    lines = []
    with raises(f"{folder} must hold images"):
        list(read_items(folder, report=lines.append))
    (line,) = lines
    return line


def bomb(width, height):
    """A PNG of a few bytes that claims a size."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0" * 64))]
    made = b"\x89PNG\r\n\x1a\n"
    for name, content in [*chunks, (b"IEND", b"")]:
        made += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return made


@pytest.mark.parametrize("size", [(10_001, 10_000), (30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path, size):
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb(*size))
    with raises(f"{path} must "):
        image_item(path, "bomb.png")
    path.write_bytes(bomb(30_000, 30_000))
    with raises(f"{path} must have at most 100,000,000 pixels; it has more; make it smaller"):
        image_item(path, "bomb.png")


def test_a_file_of_too_many_bytes_is_not_read(tmp_path, monkeypatch):
    path = picture(tmp_path / "a.png")
    monkeypatch.setattr(items, "_MOST_BYTES", 100)
    with raises(f"{path} must be at most 0 MiB; it has 0"):
        image_item(path, "a.png")
    with raises("an image's name must end in .jpg, .jpeg, .png, .gif, .webp, .bmp, .tif, .tiff; got "):
        image_item(tmp_path / "a.svg", "a.svg")


def test_a_name_that_is_no_text_is_told_and_left_out(tmp_path):
    picture(tmp_path / "good.png", 1)
    content = picture(tmp_path / "bad.png", 2).read_bytes()
    for name in (b"caf\xe9.png", b"line\nbreak.png"):
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(content)
    os.unlink(tmp_path / "bad.png")
    found, lines = told(tmp_path)
    assert [item.name for item in found] == ["good.png"]
    assert "left out: the name 'caf\\udce9.png' must be printable UTF-8; rename it" in lines
    assert "left out: the name 'line\\nbreak.png' must be printable UTF-8; rename it" in lines


def test_names_that_people_and_their_machines_give_are_taken(tmp_path):
    names = [
        "Screenshot at 9.41.00\u202fAM.png",
        "a\xa0b.png",
        "\u0645\u06cc\u200c\u062e.png",
        "\U0001f468\u200d\U0001f469.png",
    ]
    for seed, name in enumerate(names):
        picture(tmp_path / name, seed)
    found, lines = told(tmp_path)
    assert {item.name for item in found} == set(names)
    assert lines == []


@pytest.mark.parametrize(
    "name", ["", " ", "\u200d", "two\nlines", "\u2028", "\udc80", "\u202egnp.cat", "a\u2066b", "\x7f"]
)
def test_a_name_is_seen_and_stays_on_its_line(name):
    assert not is_name(name)


def test_what_would_never_end_is_not_read(tmp_path):
    picture(tmp_path / "good.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zeros.png").symlink_to("/dev/zero")
    found, lines = told(tmp_path)
    assert [item.name for item in found] == ["good.png"]
    assert [line.rpartition("/")[2] for line in lines] == [
        "pipe.png must be a file; it is something else",
        "zeros.png must be a file; it is something else",
    ]


def test_what_is_left_out_is_told_on_standard_error(tmp_path, capsys):
    picture(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"")
    assert len(list(read_items(tmp_path))) == 1
    assert capsys.readouterr().err == f"left out: {tmp_path}/bad.png must open as a PNG image; it does not\n"


def test_a_folder_without_images_is_refused(tmp_path):
    with raises(f"{tmp_path} must hold images (.jpg, .jpeg, .png, .gif, .webp, .bmp, .tif, .tiff); it has none"):
        told(tmp_path)
    with raises(f"no file or folder at {tmp_path}/nowhere", FileNotFoundError):
        read_items(tmp_path / "nowhere")
    (tmp_path / "items.txt").write_text("a")
    with raises("items must be a folder of images or a file that ends in .csv, .tsv, .parquet, .jsonl, .ndjson, .jpg"):
        read_items(tmp_path / "items.txt")


# ---- texts and records -------------------------------------------------------------------------------------------


TEXTS = ["A fine film.", "Zu lang — \u201cé\u201d \U0001f600", "<script>alert(1)</script>"]


def write(path, columns):
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix in (".jsonl", ".ndjson"):
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    else:
        mark = "\t" if path.suffix == ".tsv" else ","
        lines = [mark.join(columns), *(mark.join("" if v is None else f'"{v}"' for v in row.values()) for row in rows)]
        path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("ending", items.TABLE_ENDINGS)
@pytest.mark.parametrize("columns", [{"text": TEXTS}, {"review": TEXTS}, {"number": ["1", "2", "3"], "text": TEXTS}])
def test_texts_are_the_same_items_from_every_format(tmp_path, ending, columns):
    found, lines = told(write(tmp_path / f"reviews{ending}", columns))
    assert found == [text_item(text, f"reviews{ending} row {i}") for i, text in enumerate(TEXTS, start=1)]
    assert found[0].id == hashlib.sha256(TEXTS[0].encode()).hexdigest()[:32]
    assert lines == []


@pytest.mark.parametrize("ending", items.TABLE_ENDINGS)
def test_several_columns_are_records(tmp_path, ending):
    columns = {"weight": ["4.1", "30", "4.1"], "fur": ["long", "short", "long"]}
    found, _ = told(write(tmp_path / f"pets{ending}", columns))
    assert [item.content for item in found] == [{"weight": "4.1", "fur": "long"}, {"weight": "30", "fur": "short"}]
    assert [item.kind for item in found] == ["record"] * 2
    assert [item.name for item in found] == [f"pets{ending} row 1", f"pets{ending} row 2"]


def test_numbers_stay_numbers_and_what_is_missing_is_none(tmp_path):
    columns = {"weight": [4.5, None, None], "legs": [4, 2, None], "tame": [True, None, None]}
    expected = [{"weight": 4.5, "legs": 4, "tame": True}, {"weight": None, "legs": 2, "tame": None}]
    for ending in (".parquet", ".jsonl"):
        path = write(tmp_path / f"pets{ending}", columns)
        found, lines = told(path)
        assert [item.content for item in found] == expected
        assert lines == [f"left out: row 3 of {path} has no values"]


def test_an_integer_stays_the_same_item_when_another_row_lacks_one(tmp_path):
    for kind in (pa.int64(), pa.uint8()):
        ids = []
        for legs in ([4, 2], [4, 2, None]):
            columns = {"legs": pa.array(legs).cast(kind), "name": ["a", "b", "c"][: len(legs)]}
            found, _ = told(write(tmp_path / "pets.parquet", columns))
            assert type(found[0].content["legs"]) is int
            ids.append([item.id for item in found[:2]])
        assert ids[0] == ids[1] == [record_item({"legs": n, "name": name}, "").id for n, name in ((4, "a"), (2, "b"))]
    floats = {"size": [4.0, None], "name": ["a", "b"]}
    found, _ = told(write(tmp_path / "pets.parquet", floats))
    assert found[0].id == record_item({"size": 4.0, "name": "a"}, "").id


def test_a_column_without_values_makes_no_new_items():
    plain = record_item({"b": 1, "a": "x"}, "row 1")
    assert record_item({"a": "x", "b": 1, "c": None}, "row 9").id == plain.id
    assert record_item({"a": "x", "b": 2}, "row 1").id != plain.id


def test_rows_without_a_text_are_told_and_left_out(tmp_path):
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "one"}\n{"text": "  "}\n{"other": [1]}\n"two"\n{"text": 3}\n')
    found, lines = told(path)
    assert [item.content for item in found] == ["one", "two", "3"]
    assert lines == [f"left out: row {i} of {path} has no text" for i in (2, 3)]
    path.write_text('{"text": ""}')
    with raises(f"{path} must hold texts or records; none of its rows has one"):
        told(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"text": "half', "must have one JSON object on each line; line 1: Unterminated string"),
        (b'{"a": 1}\n[1, 2]', "must have one JSON object on each line; line 2 has a list"),
        (b'{"text": "\\ud800"}', "must have one JSON object on each line; line 1: half a character"),
        (b"[" * 100_000, "must have one JSON object on each line; line 1: "),
        (b'{"a": [1], "b": 2}', "must hold texts and numbers; got a list in row 1; flatten it"),
        (b'{"text": "caf\xe9"}', "must be text in UTF-8; invalid continuation byte at byte 13; save it as UTF-8"),
        (b"", "must hold texts or records; none of its rows has one"),
    ],
)
def test_damaged_lines_are_refused(tmp_path, content, words):
    path = tmp_path / "items.jsonl"
    path.write_bytes(content)
    with raises(f"{path} {words}"):
        told(path)


def test_numbers_that_json_does_not_have_are_missing(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"a": NaN, "b": 1}\n{"a": -Infinity, "b": 2}\n')
    assert [item.content for item in told(path)[0]] == [{"a": None, "b": 1}, {"a": None, "b": 2}]
