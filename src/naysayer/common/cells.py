"""CSV that no spreadsheet runs: cells that would be formulas begin with an apostrophe, and are read back without it."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

MARK = "'"
_RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", MARK)  # a spreadsheet would run what begins so
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def guarded(text: str) -> str:
    """Give a text as a cell that no spreadsheet runs; :func:`unguarded` gives the text back, whatever it was.

    Examples
    --------
    >>> [guarded(text) for text in ("cat", "=1+1", "-1", "-1+cmd", "'tis")]
    ['cat', "'=1+1", '-1', "'-1+cmd", "''tis"]
    """
    return MARK + text if text.startswith(_RUN) and not _NUMBER.fullmatch(text) else text


def unguarded(cell: str) -> str:
    """Give the text of which :func:`guarded` made a cell.

    Examples
    --------
    >>> [unguarded(cell) for cell in ("cat", "'=1+1", "-1", "''tis")]
    ['cat', '=1+1', '-1', "'tis"]
    """
    return cell.removeprefix(MARK)


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Write rows as CSV, every text in them guarded; None is an empty cell.

    Examples
    --------
    >>> csv_text([["name", "sure"], ["=cat", 0.5], [None, -1]])
    "name,sure\\n'=cat,0.5\\n,-1\\n"
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return buffer.getvalue()


def read_csv(path: str | os.PathLike[str]) -> list[dict[str, str]]:
    """Read what :func:`csv_text` wrote, as `labels` and `predict` do: a dictionary per row, its texts as they were.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels.csv")
    ...     _ = path.write_text(csv_text([["name", "label"], ["=1.png", "cat"]]))
    ...     read_csv(path)
    [{'name': '=1.png', 'label': 'cat'}]
    """
    with Path(path).open(encoding="utf8", newline="") as file:
        heads, *rows = csv.reader(file, strict=True)
    names = [unguarded(head) for head in heads]
    return [dict(zip(names, map(unguarded, row), strict=True)) for row in rows]
