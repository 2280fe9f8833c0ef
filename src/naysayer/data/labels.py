"""A table's column into labels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.data.tables import MISSING, DataTable, is_number, number_of, some, texts_of
from naysayer.labels import ruled_out
from naysayer.labels.kinds import is_ordinary
from naysayer.labels.reading import named_classes


def read_labels(
    table: DataTable, column: str, classes: Sequence[Any] | None = None, ordinary: bool = False
) -> tuple[NDArray[Any], list[str], str]:
    """Read a column of labels, and say in a sentence how it was read.

    If any label begins with ``!`` they are read as :func:`naysayer.ruled_out` reads them: ``!cat`` is not a cat,
    ``cat`` is one. If none does, each is "not this class", or with `ordinary` "is this class". A missing label
    says nothing.

    Parameters
    ----------
    table : the rows.
    column : the name of the labels' column.
    classes : the K classes in order; all that the labels mention, sorted, numbers by value, when not given.
    ordinary : labels without ``!`` say what a row is.

    Returns
    -------
    y_bar : (N,) class indices where each label rules out one class; else the (N, K) ruled-out matrix.
    classes : the K names.
    said : the sentence.

    Examples
    --------
    >>> table = DataTable({"pet": np.array(["!dog", "!cat", "cow"])})
    >>> read_labels(table, "pet")[1:]
    (['cat', 'cow', 'dog'], "labels: 2 'not this class', 1 'is this class'")
    """
    names = None if classes is None else whole(texts_of(np.asarray(list(classes)), keep=MISSING))
    labels = whole(texts_of(table.column(column), keep=names or ()))
    known = [label for label in labels if label is not None]
    if not known:
        raise ValueError(f"column {column!r} must hold labels; all {len(labels)} rows are empty")
    marked = any(label.startswith("!") for label in known)
    if names is None:
        with _of_column(column):
            read = marked or ordinary
            found = named_classes(known) if read else {name for label in set(known) for name in label.split("|")}
        names = sorted({name.strip() for name in found} - {""}, key=by_value)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            f"column {column!r} must have at least 2 classes, each named once; got {some(names) or 'none'}"
        )
    silent = f", {len(labels) - len(known)} that say nothing" if len(known) < len(labels) else ""
    if marked or ordinary:
        with _of_column(column):
            y_bar = ruled_out(labels, names)
        sizes = y_bar.sum(axis=1)
        counts = Counter(kind_of(label, n, len(names)) for label, n in zip(labels, sizes) if label)
        said = ", ".join(f"{count} {kind!r}" for kind, count in counts.most_common())
        return (y_bar.argmax(axis=1) if (sizes == 1).all() else y_bar), names, f"labels: {said}{silent}"
    place = {name: k for k, name in enumerate(names)}
    for i, label in enumerate(labels):
        if label is not None and label not in place:
            advice = "; pass --ordinary if it lists what the row may be" if "|" in label else ""
            raise ValueError(
                f"column {column!r} must hold known classes ({some(names)}); got {label!r} at row {i}{advice}"
            )
    indices = np.array([-1 if label is None else place[label] for label in labels], dtype=np.int64)
    said = f"labels: {len(known)} 'not this class'{silent}"
    said += " (no '!' found; pass --ordinary if they say what each row is)"
    return (indices[:, None] == np.arange(len(names)) if silent else indices), names, said


def hardly_named(y_bar: NDArray[Any], classes: Sequence[str], times: NDArray[Any] | None = None) -> list[str]:
    """Warn of classes that one label of many names, or none: a slip, or a file cut short, makes such a class.

    Parameters
    ----------
    y_bar, classes : as :func:`read_labels` gives them.
    times : how often each label occurs; once if None.

    Examples
    --------
    >>> hardly_named(np.array([0, 1, 2] * 20 + [3]), ["cat", "cow", "dog", "do"])[0][:39]
    "class 'do' is named by 1 of 61 labels; "
    """
    n_classes = len(classes)
    each = np.ones(len(y_bar), dtype=np.int64) if times is None else times
    if y_bar.ndim == 1:
        ruled = said = np.bincount(y_bar, weights=each, minlength=n_classes)
    else:
        is_not = 2 * y_bar.sum(axis=1) <= n_classes
        ruled = np.array([each[column & is_not].sum() for column in y_bar.T])
        said = ruled + [each[~column & ~is_not].sum() for column in y_bar.T]
    if n_classes < 3 or ruled.sum() < _MANY * n_classes:  # else chance may do so
        return []
    n = int(each[says_something(y_bar)].sum())
    return [
        f"class {name!r} is named by {int(count)} of {n:,} labels; since it is hardly ever ruled out, most rows seem "
        f"to be of it; if it is a slip, correct that, or list the classes without it (--classes)"
        for name, count in zip(classes, said)
        if count < 2
    ]


_MANY = 10  # labels per class


def says_something(y_bar: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which labels rule out any class, (N,)."""
    return np.asarray(y_bar.any(axis=1)) if y_bar.ndim == 2 else np.ones(len(y_bar), dtype=bool)


@contextmanager
def _of_column(column: str) -> Iterator[None]:
    """Name the column in an error about its labels."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"column {column!r}: {error}") from None


def whole(texts: list[Any]) -> list[Any]:
    """Write 3.0 as 3 where all are so: pandas makes whole numbers floats when a row among them is empty."""
    if all(text is None or re.fullmatch(r"-?\d+\.0", text) for text in texts):
        return [text and text[:-2] for text in texts]
    return texts


def kind_of(label: str, n_ruled_out: int, n_classes: int) -> str:
    """Say what kind of label a text is."""
    if label.startswith("!"):
        return "not this class" if n_ruled_out == 1 else "not these classes"
    return "is this class" if is_ordinary(n_ruled_out, n_classes) else "one of these classes"


def by_value(name: str) -> tuple[bool, float, str]:
    """Sort numbers by value and before texts."""
    number = number_of(name) if is_number(name) else math.nan
    return (True, 0.0, name) if math.isnan(number) else (False, number, name)
