"""Labels read from texts and candidate sets into the ruled-out matrix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAME = r'\s*(?:"((?:[^"]|"")*)"|(.*?))\s*'  # in quotes, in which "" is one quote; or without
_MARKED = re.compile(rf"!{_NAME}(?=\s!|$)", re.DOTALL)
_LISTED = re.compile(rf"(?:^|\|){_NAME}(?=\||$)", re.DOTALL)

_SLIP = re.compile(r"[,;]$|.!\S")  # in a name without quotes: something else than a space may separate two


def ruled_out(labels: Iterable[Any], classes: Sequence[Any]) -> NDArray[np.bool_]:
    """Read labels written as text (or as collections of candidate classes) into a ruled-out matrix.

    ``"!cat"`` rules out cat, ``"!cat !bird"`` both, ``"dog"`` rules out all but dog (an ordinary label),
    ``"cat|dog"`` all but those two (a candidate set), and ``""`` or a missing value rules out nothing.
    A list, tuple or set is a candidate set.

    A name may hold spaces: it ends where the next ``!`` or ``|`` begins, so ``"!New York !Los Angeles"`` is read. Any
    name may stand in quotes, ``'!"New York" !"Los Angeles"'``, and one that holds a bar or an exclamation mark may
    have to; a quote inside is then written twice. A text that can be read in two ways is an error, never a guess.

    Parameters
    ----------
    labels : N texts, class values or candidate sets.
    classes : the K class values, in the order of the columns.

    Returns
    -------
    (N, K) bool

    Examples
    --------
    >>> ruled_out(["!cat", "dog", "!cat !bird", "cat|dog", ""], classes=["bird", "cat", "dog"])
    array([[False,  True, False],
           [ True,  True, False],
           [ True,  True, False],
           [ True, False, False],
           [False, False, False]])
    """
    if isinstance(classes, (str, set, frozenset)) or not np.iterable(classes):  # a set has no order
        raise ValueError(f"`classes` must be a list of class values; got {classes!r}")
    names = [str(value) for value in classes]
    column = {name: k for k, name in enumerate(names)}
    if len(column) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`classes` must be distinct; got {repeated!r} more than once")
    if len(names) < 2:
        raise ValueError(f"`classes` must hold at least 2 classes; got {len(names)}")
    if isinstance(labels, str):
        raise ValueError("`labels` must be a sequence of labels; got one text; write [text]")
    if not np.iterable(labels) or getattr(labels, "ndim", 1) != 1:  # of a data frame the names of columns would be read
        got = f"shape {labels.shape}; pass one column" if hasattr(labels, "shape") else repr(labels)
        raise ValueError(f"`labels` must be a sequence of labels; got {got}")
    place: dict[str, int] = {}
    rows: list[NDArray[np.bool_]] = []  # of labels that differ
    places = []
    for i, label in enumerate(labels):
        key = f"{type(label).__name__} {label}"
        if key not in place:
            place[key] = len(rows)
            rows.append(_read_label(label, column, i))
        places.append(place[key])
    return np.array(rows, dtype=bool).reshape(len(rows), len(names))[np.array(places, dtype=np.int64)]


def _read_label(label: Any, column: dict[str, int], i: int) -> NDArray[np.bool_]:
    """Read one label; `i` is its row, for the error."""
    if is_missing(label):
        return np.zeros(len(column), dtype=bool)
    if isinstance(label, (list, tuple, set, frozenset)):
        names, is_not = [_text(item, column) for item in label], False
    else:
        names, is_not = _read_text(_text(label, column).strip(), column, i)
    for name in names:
        if name not in column:
            known = ", ".join(list(column)[:8]) + (", ..." if len(column) > 8 else "")
            raise ValueError(f"`labels` must name known classes ({known}); got {name!r} at row {i}")
    row = np.full(len(column), not is_not)
    row[[column[name] for name in names]] = is_not
    if row.all():
        raise ValueError(f"`labels` must leave at least one class possible; {label!r} at row {i} rules out all")
    return row


def _text(label: Any, column: dict[str, int]) -> str:
    """Write a label as the classes are written: a gap in a column of whole numbers makes floats of them all."""
    text = str(label)
    if text not in column and isinstance(label, (float, np.floating)) and float(label).is_integer():
        return str(int(label))
    return text


def _read_text(text: str, column: dict[str, int], i: int) -> tuple[list[str], bool]:
    """Give the names in a text, and whether they are ruled out; known ones where there is one way to read it."""
    marked = text.startswith("!")
    names = [name for name, _ in _split(text)]
    ways = [(names, marked), ([text], False)] + [([text[1:].strip()], True)] * marked
    known = [way for way in ways if all(name in column for name in way[0])]
    if any(way != known[0] for way in known):
        whole = _quote(text) if text in column else f"!{_quote(text[1:].strip())}"
        raise ValueError(
            f"`labels` must be clear; {text!r} at row {i} can be read in two ways, as the classes are named; "
            f"write {whole} if that is the class, or else put each name in quotes"
        )
    words = [name.split() for name in names if name not in column]
    if marked and not known and all(len(two) > 1 and set(two) <= column.keys() for two in words):
        raise ValueError(
            f"`labels` must not mix 'is' and 'is not' in one text; got {text!r} at row {i}; "
            f"write !class for each class that is ruled out"
        )
    return known[0] if known else ways[0]


def _split(text: str) -> list[tuple[str, bool]]:
    """Split a label's text into class names, each with whether it stands in quotes."""
    found = (_MARKED if text.startswith("!") else _LISTED).findall(text)
    return [(quoted.replace('""', '"'), True) if quoted else (name, False) for quoted, name in found]


def named_classes(labels: Iterable[Any]) -> set[str]:
    """Collect the class names that labels mention, in the forms that :func:`ruled_out` reads.

    A name without quotes that holds spaces is believed where it stands alone, ``"!New York"``. Among others it must
    occur alone, too, or in quotes: ``"!cat dog !cow"`` may be a slip. So may ``"!cat, !dog"`` and ``"!cat!dog"``: a
    name that ends in a comma, or has a mark within, is believed in quotes alone.

    Examples
    --------
    >>> sorted(named_classes(["!cat", "dog", "!cat !bird", "", '!"hot dog" !cat', "!hot dog"]))
    ['bird', 'cat', 'dog', 'hot dog']
    """
    sure: set[str] = set()
    doubtful: dict[str, tuple[str, int]] = {}  # names that hold spaces, each with a text and its row
    alone: dict[str, tuple[str, int]] = {}
    seen: set[str] = set()
    for i, label in enumerate(labels):
        if isinstance(label, (list, tuple, set, frozenset)):
            sure.update(map(str, label))
            continue
        if is_missing(label) or (text := str(label).strip()) in seen:
            continue
        seen.add(text)
        names = _split(text)
        for name, quoted in names:
            if text.startswith("!") and not quoted and _SLIP.search(name):
                doubtful.setdefault(name, (text, i))
            elif quoted or " " not in name or not text.startswith("!"):
                sure.add(name)
            else:
                (doubtful if len(names) > 1 else alone).setdefault(name, (text, i))
    for name, (text, i) in alone.items():
        if name not in sure and all(word in sure for word in name.split()):
            _refuse_name(name, text, i)
    sure.update(alone)
    for name, (text, i) in doubtful.items():
        if name not in sure:
            _refuse_name(name, text, i)
    return sure - {""}


def _refuse_name(name: str, text: str, i: int) -> None:
    """Refuse a text in which spaces may be part of a name, or may separate two."""
    raise ValueError(
        f"`labels` must be clear; {text!r} at row {i} names {name!r}, or a mark is missing in it; "
        f"write !{_quote(name)} if it is one class, or name all classes"
    )


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def is_missing(label: Any) -> bool:
    """Whether a label says nothing: None, NaN, or blank text."""
    if label is None or (isinstance(label, (float, np.floating)) and np.isnan(label)):
        return True
    return (isinstance(label, str) and not label.strip()) or type(label).__name__ == "NAType"
