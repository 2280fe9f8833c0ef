"""What people are asked about: images, texts or records, each identified by a hash of its content."""

from __future__ import annotations

import glob
import hashlib
import io
import json
import math
import os
import re
import stat
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from naysayer.common.progress import Bar, progress_bar
from naysayer.data.tables import read_table

IMAGE_ENDINGS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".gif": "GIF", ".webp": "WEBP", ".bmp": "BMP"}
IMAGE_ENDINGS |= {".tif": "TIFF", ".tiff": "TIFF"}
UNREAD_ENDINGS = (".heic", ".heif", ".avif")  # photos all the same: each is named when it is left out
TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_AVIF = {b"avif", b"avis"}
_HEIC = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_STARTS = {  # of files, after white space, in small letters
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"<svg": "SVG",
    b"<?xml": "XML or SVG",
    b"%pdf": "PDF",
    b"%!ps": "PostScript",
    b"8bps": "Photoshop's",
    b"\xff\x0a": "JPEG XL",
    b"\0\0\0\x0cjxl": "JPEG XL",
    b"\0\0\1\0": "an icon",
}
_TOLD = 3  # of what is left out for one reason; of more, how many there are
_MANY = 1000  # files that take a while to look at
_MOST_BYTES = 100 * 2**20  # of an image file
_MOST_PIXELS = 100_000_000  # a small file can claim more pixels than there is memory for

_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # they turn what comes after them around

Kind = Literal["image", "text", "record"]


@dataclass(frozen=True)
class Item:
    """One thing to ask about.

    Parameters
    ----------
    id : the first 32 hexadecimal digits of the SHA-256 of its content, so that the same content is the same item.
    kind : "image", "text" or "record".
    name : where it came from, for people: a path within the folder, or a file and its row.
    path : the absolute path of an image's file; None for texts and records.
    content : the text, or the record as a dictionary; None for an image.

    Examples
    --------
    >>> item = text_item("A fine film.", "reviews.csv row 1")
    >>> item.kind, item.id
    ('text', '2b9e8b7903e329c1db47fd77ab7ff364')
    """

    id: str
    kind: Kind
    name: str
    path: str | None = None
    content: str | dict[str, Any] | None = None


def text_item(text: str, name: str) -> Item:
    """Make the item of a text."""
    return Item(_hash(text.encode()), "text", name, content=text)


def record_item(record: dict[str, Any], name: str) -> Item:
    """Make the item of a record: a dictionary of texts, numbers, truth values and None.

    What is None does not count in the hash, so that a new column without values makes no new items.
    """
    known = {key: value for key, value in record.items() if value is not None}
    return Item(_hash(json.dumps(known, sort_keys=True).encode()), "record", name, content=record)


def image_item(path: str | os.PathLike[str], name: str) -> Item:
    """Make the item of an image file, whichever of the formats it is; one that opens as none of them is refused."""
    path = Path(path)
    if path.suffix.lower() not in IMAGE_ENDINGS:
        raise ValueError(f"an image's name must end in {', '.join(IMAGE_ENDINGS)}; got {path}")
    content = read_image(path)
    _check_image(content, path)
    return Item(_hash(content), "image", name, path=os.path.abspath(path))


def read_image(path: str | os.PathLike[str]) -> bytes:
    """Read an image file; one that is too large, or a pipe or device that would never end, is refused unread."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} must be a file; it is something else")
    if status.st_size > _MOST_BYTES:
        raise ValueError(f"{path} must be at most {_MOST_BYTES >> 20} MiB; it has {status.st_size >> 20}")
    return Path(path).read_bytes()


def is_name(text: str) -> bool:
    """Whether a text may name something: it can be seen, is UTF-8, keeps to its line, and turns no writing around it.

    Examples
    --------
    >>> is_name("Screenshot at 9.41\\u202fAM.png"), is_name("two\\nlines"), is_name("\\u202egnp.exe")
    (True, False, False)
    """
    kinds = {unicodedata.category(sign) for sign in text}
    turns = any(unicodedata.bidirectional(sign) in _TURNS for sign in text)
    return bool(kinds - {"Zs", "Cf"}) and not kinds & {"Cc", "Cs", "Zl", "Zp"} and not turns


def _hash(content: bytes) -> str:
    """Give the id of a content."""
    return hashlib.sha256(content).hexdigest()[:32]


def _to_stderr(line: str) -> None:
    """Tell a person in one line."""
    print(line, file=sys.stderr)


def read_items(
    path: str | os.PathLike[str], report: Callable[[str], None] = _to_stderr, verbose: int = 0
) -> Iterator[Item]:
    """Read what people are to be asked about.

    A folder is searched for images (jpg, jpeg, png, gif, webp, bmp, tif, tiff), its folders too, in the order of
    their names; names that begin with a dot are skipped, and files that are no images are counted. A pattern such as
    ``photos/*.jpg`` names images, too. In a CSV, TSV, Parquet or JSONL file each row is an item: a text, where
    there is a column ``text`` or only one column; else a record. The same content twice is one item.

    Parameters
    ----------
    path : the folder or file, or a pattern.
    report : is called with a line for each thing that was left out: an image that does not open, a row without a text;
        of those left out for one reason with the first three, and then with how many more there were.
    verbose : 1 shows a progress bar while 1,000 files or more are looked at.

    Yields
    ------
    Item

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "reviews.csv")
    ...     _ = path.write_text("text\\nA fine film.\\nToo long.\\nA fine film.\\n")
    ...     [(item.name, item.content) for item in read_items(path)]
    [('reviews.csv row 1', 'A fine film.'), ('reviews.csv row 2', 'Too long.')]
    """
    path = Path(path)
    none = f"{path} must hold images ({', '.join(IMAGE_ENDINGS)}); it has none"
    out = _LeftOut(report)
    if path.is_dir():
        return _once(_images(list(_files(path)), path, out, verbose), none, out)
    if not path.exists():
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if os.path.isfile(name))
        if not found:
            raise FileNotFoundError(f"no file or folder at {path}")
        return _once(_images(found, None, out, verbose), none, out)
    if path.suffix.lower() in IMAGE_ENDINGS:
        return _once(_images([path], None, out), none, out)
    if path.suffix.lower() not in TABLE_ENDINGS:
        known = ", ".join((*TABLE_ENDINGS, *IMAGE_ENDINGS))
        raise ValueError(f"items must be a folder of images or a file that ends in {known}; got {path}")
    return _once(_rows(path, out), f"{path} must hold texts or records; none of its rows has one")


def fields_beside(items: Sequence[Item], path: str | os.PathLike[str] | None = None) -> dict[str, list[Any]]:
    """Give what is known beside items, by the names of fields: a record's own, and all columns of the file of texts.

    Parameters
    ----------
    items : in any order.
    path : the file that :func:`read_items` read them from; None where there is none, as for those of a store.

    Examples
    --------
    >>> fields_beside([record_item({"ticket": 7, "size": 2.5}, "")])
    {'ticket': [7], 'size': [2.5]}
    """
    if path is not None and Path(path).suffix.lower() in TABLE_ENDINGS:
        columns = _columns(Path(path))
        rows = [int(item.name.rsplit(" ", 1)[1]) - 1 for item in items]
        return {name: [column[row] for row in rows] for name, column in columns.items()}
    fields = [item.content if isinstance(item.content, dict) else {} for item in items]
    return {
        name: [each.get(name) for each in fields] for name in dict.fromkeys(name for each in fields for name in each)
    }


class _LeftOut:
    """Tell of what is left out: of each reason the first few, and at the end how many more; what varies is none."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.report = report
        self.first: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self.number: Counter[str] = Counter()

    def __call__(self, what: str, why: str) -> None:
        """Leave something out; `why` is what follows its name."""
        reason = re.sub(r"\d+", "", why).split(": ")[0]
        self.first.setdefault(reason, what)
        self.why.setdefault(reason, why)
        self.number[reason] += 1
        if self.number[reason] <= _TOLD:
            self.report(f"left out: {what} {why}")

    def end(self) -> None:
        """Tell how many more there were."""
        for reason, number in self.number.items():
            if number > _TOLD:
                self.report(f"left out: {number - _TOLD:,} more for the same reason as {self.first[reason]}")

    def most(self) -> str:
        """Say what most were left out for; nothing where nothing was."""
        if not self.number:
            return ""
        ((reason, number),) = self.number.most_common(1)
        return f" that can be read: {self.first[reason]} {self.why[reason]}" + (
            f" (and {number - 1:,} more for the same reason)" if number > 1 else ""
        )


def _once(items: Iterator[Item], empty: str, out: _LeftOut | None = None) -> Iterator[Item]:
    """Give each item once; refuse that there are none, and say why where images were left out."""
    seen: set[str] = set()
    for item in items:
        if item.id not in seen:
            seen.add(item.id)
            yield item
    if not seen:
        raise ValueError(empty + ("" if out is None else out.most()))


# ---- images ------------------------------------------------------------------------------------------------------


def _images(paths: Sequence[Path], folder: Path | None, out: _LeftOut, verbose: int = 0) -> Iterator[Item]:
    """Read those of the files that are images; names are from the folder on, if there is one."""
    with progress_bar(len(paths), "looking at photos", verbose > 0 and len(paths) >= _MANY) as bar:
        yield from _readable(paths, folder, out, bar)


def _readable(paths: Sequence[Path], folder: Path | None, out: _LeftOut, bar: Bar) -> Iterator[Item]:
    others = []
    for path in paths:
        bar()
        if path.suffix.lower() in UNREAD_ENDINGS:
            out(str(path), f"is {path.suffix[1:].upper()}, which is not read; convert it to JPEG")
            continue
        if path.suffix.lower() not in IMAGE_ENDINGS:
            others.append(path)
            continue
        name = path.as_posix() if folder is None else path.relative_to(folder).as_posix()
        if not is_name(name):
            out(f"the name {name!r}", "must be printable UTF-8; rename it")
            continue
        try:
            yield image_item(path, name)
        except OSError as error:
            out(str(path), f"must be a file that can be read; {(error.strerror or str(error)).lower()}")
        except ValueError as error:
            out(str(path), " ".join(str(error).removeprefix(f"{path} ").split()))
    out.end()
    if others:
        more = f"{len(others) - 1:,} more file{'s' if others[2:] else ''}"
        rest = f" and {more} are no images" if others[1:] else " is no image"
        out.report(f"left out: {others[0]}{rest}")


def _files(folder: Path) -> Iterator[Path]:
    """Give the files of a folder and of the folders in it, in the order of their paths."""
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(at, name) for name in sorted(files) if not name.startswith("."))


def unread_format(content: bytes) -> str | None:
    """Name the format of a file that is often met among images and is not read; None: another one.

    Examples
    --------
    >>> unread_format(b"\\0\\0\\0\\x1cftypheic"), unread_format(b"<!DOCTYPE html>")
    ('HEIC', 'a web page')
    """
    if content[4:8] == b"ftyp":
        brands = {content[i : i + 4] for i in (8, *range(16, min(64, int.from_bytes(content[:4], "big")), 4))}
        return "AVIF" if brands & _AVIF else "HEIC" if brands & _HEIC else "a video"
    start = content[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return next((name for first, name in _STARTS.items() if start.startswith(first)), None)


def _check_image(content: bytes, path: Path) -> None:
    """Check that an image can be decoded, its size before its pixels, whichever of our formats its ending names.

    Pages show it by its content, too, as :mod:`naysayer.collect.previews` says.
    """
    from PIL import Image, UnidentifiedImageError

    kind = IMAGE_ENDINGS[path.suffix.lower()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own limit warns first; ours is checked below
            with Image.open(io.BytesIO(content), formats=sorted(set(IMAGE_ENDINGS.values()))) as image:
                kind = "JPEG" if image.format == "MPO" else image.format or kind
                pixels = image.width * image.height
                if pixels <= _MOST_PIXELS:
                    image.draft("RGB", (1, 1))  # of a JPEG, decode an eighth
                    image.load()
    except Image.DecompressionBombError:
        pixels = 2 * (Image.MAX_IMAGE_PIXELS or _MOST_PIXELS)
    except UnidentifiedImageError:
        if found := unread_format(content):
            advice = "; convert it to JPEG" if found in ("HEIC", "AVIF") else ""
            raise ValueError(f"{path} must open as a {kind} image; it is {found}, which is not read{advice}") from None
        raise ValueError(f"{path} must open as a {kind} image; it does not") from None
    except Exception as error:  # decoders raise many kinds on damaged files, struct.error and SyntaxError among them
        reason = " ".join(str(error).split())[:100]
        raise ValueError(f"{path} must open as a {kind} image; it does not: {reason}") from None
    if pixels > _MOST_PIXELS:
        raise ValueError(f"{path} must have at most {_MOST_PIXELS:,} pixels; it has more; make it smaller")


# ---- texts and records -------------------------------------------------------------------------------------------


def _rows(path: Path, out: _LeftOut) -> Iterator[Item]:
    """Read the rows of a file as texts or as records."""
    columns = _columns(path)
    text = "text" if "text" in columns else next(iter(columns)) if len(columns) == 1 else None
    for i, values in enumerate(zip(*([columns[text]] if text is not None else columns.values())), start=1):
        name = f"{path.name} row {i}"
        known = [value for value in values if value is not None and str(value).strip()]
        if not known:
            out(f"row {i} of {path}", f"has no {'text' if text is not None else 'values'}")
        elif text is not None:
            yield text_item(str(values[0]), name)
        else:
            yield record_item(dict(zip(columns, map(_flat(path, i), values))), name)
    out.end()


def _flat(path: Path, row: int) -> Callable[[Any], Any]:
    """Refuse a value that is itself a list or an object."""

    def check(value: Any) -> Any:
        if isinstance(value, (list, dict)):
            raise ValueError(
                f"{path} must hold texts and numbers; got a {type(value).__name__} in row {row}; flatten it"
            )
        return value

    return check


def _columns(path: Path) -> dict[str, list[Any]]:
    """Read the columns of a file; what is missing is None."""
    return _read_jsonl(path) if path.suffix.lower() in (".jsonl", ".ndjson") else _read_columns(path)


def _read_columns(path: Path) -> dict[str, list[Any]]:
    """Read a table; what is missing is None, and makes no other value another: 1 is hashed as 1, and not as 1.0."""
    table = read_table(path, keep_integers=True)
    columns = {}
    for name, column in table.columns.items():
        columns[name] = [None if isinstance(v, float) and math.isnan(v) else v for v in column.tolist()]
    return columns


def _read_jsonl(path: Path) -> dict[str, list[Any]]:
    """Read lines of JSON, each an object or a bare text; what an object lacks is None."""
    rows = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be text in UTF-8; {error.reason} at byte {error.start}; save it as UTF-8"
        ) from None
    for i, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=lambda name: None)  # NaN and Infinity are not JSON
            json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            reason = "half a character" if isinstance(error, UnicodeEncodeError) else str(error) or "nested too deep"
            raise ValueError(f"{path} must have one JSON object on each line; line {i}: {reason}") from None
        if isinstance(row, str):
            row = {"text": row}
        if not isinstance(row, dict):
            raise ValueError(f"{path} must have one JSON object on each line; line {i} has a {type(row).__name__}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
