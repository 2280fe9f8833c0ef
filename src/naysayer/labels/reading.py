"""Labels read from texts and candidate sets into the ruled-out matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def ruled_out(labels: Iterable[Any], classes: Sequence[Any]) -> NDArray[np.bool_]:
    """Read labels written as text (or as collections of candidate classes) into a ruled-out matrix.

    ``"!cat"`` rules out cat, ``"!cat !bird"`` both, ``"dog"`` rules out all but dog (an ordinary label),
    ``"cat|dog"`` all but those two (a candidate set), and ``""`` or a missing value rules out nothing. A class
    whose own name holds a space or a bar is found too, as long as the whole text is its name.
    A list, tuple or set is a candidate set.

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
    names = [str(value) for value in classes]
    column = {name: k for k, name in enumerate(names)}
    if len(column) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"`classes` must be distinct; got {repeated!r} more than once")
    if len(names) < 2:
        raise ValueError(f"`classes` must hold at least 2 classes; got {len(names)}")
    if isinstance(labels, str):
        raise ValueError("`labels` must be a sequence of labels; got one text; write [text]")
    seen: dict[str, NDArray[np.bool_]] = {}
    rows = []
    for i, label in enumerate(labels):
        key = f"{type(label).__name__} {label}"
        if key not in seen:
            seen[key] = _read_label(label, column, i)
        rows.append(seen[key])
    return np.array(rows, dtype=bool).reshape(len(rows), len(names))


def _read_label(label: Any, column: dict[str, int], i: int) -> NDArray[np.bool_]:
    """Read one label; `i` is its row, for the error."""

    def find(name: str) -> int:
        if name not in column:
            known = ", ".join(list(column)[:8]) + (", ..." if len(column) > 8 else "")
            raise ValueError(f"`labels` must name known classes ({known}); got {name!r} at row {i}")
        return column[name]

    row = np.zeros(len(column), dtype=bool)
    if is_missing(label):
        return row
    if isinstance(label, (list, tuple, set, frozenset)):
        row[:] = True
        row[[find(str(item)) for item in label]] = False
    else:
        text = str(label).strip()
        if text in column:
            row[:] = True
            row[column[text]] = False
        elif text.startswith("!"):
            if text[1:].strip() in column:
                row[column[text[1:].strip()]] = True
            else:
                for word in text.split():
                    if not word.startswith("!"):
                        raise ValueError(
                            f"`labels` must not mix 'is' and 'is not' in one text; got {text!r} at row {i}; "
                            f"write !class for each class that is ruled out"
                        )
                    row[find(word[1:])] = True
        else:
            row[:] = True
            row[[find(part.strip()) for part in text.split("|")]] = False
    if row.all():
        raise ValueError(f"`labels` must leave at least one class possible; {label!r} at row {i} rules out all")
    return row


def is_missing(label: Any) -> bool:
    """Whether a label says nothing: None, NaN, or blank text."""
    if label is None or (isinstance(label, float) and np.isnan(label)):
        return True
    return (isinstance(label, str) and not label.strip()) or type(label).__name__ == "NAType"
