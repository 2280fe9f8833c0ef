"""Columns of a table into numbers."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import near
from naysayer.data.items import IMAGE_ENDINGS
from naysayer.data.tables import (
    DataTable,
    day_of,
    days_of,
    is_number,
    number_of,
    numbers_of,
    says_code,
    says_id,
    texts_of,
)
from naysayer.features.blocks import ColumnBlock, Features, PhotoBlock, TextBlock, balance, block_from_dict
from naysayer.features.texts import FOR_ENGLISH
from naysayer.labels.checks import alike

_MOST_CATEGORIES = 100
_MANY = 20  # rows from which values that never repeat are no chance
_MANY_MORE = 100  # rows from which that is said of whole numbers with gaps, which amounts of money are, too
_FARTHEST = 1e6  # standard deviations; beyond it a value is cut, so that float32 holds it
_FEW_OTHERS = 0.2  # share of values that are no numbers, up to which they look like slips or signs of a missing value
_SEVERAL = 4  # words per text, on average, from which texts are read and not left out


@dataclass(frozen=True)
class Columns:
    """What somebody says of a table's columns, whatever they look like.

    Parameters
    ----------
    drop : to be left out, the labels among them.
    categorical, numeric : to be read so; they are never taken for ids.
    image : that hold paths of pictures, absolute or from the table's folder.
    text : that hold texts.
    """

    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    image: Sequence[str] = ()
    text: Sequence[str] = ()

    def without(self, name: str) -> Columns:
        """Leave out one more column, the label, which can have no other use."""
        for use in ("categorical", "numeric", "image", "text"):
            if name in getattr(self, use):
                raise ValueError(
                    f"a column must have one use; {name!r} is the label, and in {use}; take it out of {use}"
                )
        return replace(self, drop=(name, *self.drop))

    def uses(self, table: DataTable) -> dict[str, str]:
        """Give the use of each column that is named; all must be there, and have one use."""
        uses: dict[str, str] = {}
        for use in (one.name for one in fields(self)):
            for name in getattr(self, use):
                table.column(name)
                if uses.setdefault(name, use) != use:
                    raise ValueError(f"a column must have one use; {name!r} is both in {uses[name]} and in {use}")
        return uses


def _finite(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Refuse infinite numbers; missing ones may stay."""
    infinite = np.isinf(values)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise ValueError(f"column {name!r} must hold finite numbers; got {values[i]} at row {i}; leave it empty?")
    return values


def _unreadable(name: str, column: NDArray[Any], read: Callable[[str], float], what: str) -> ValueError:
    """Name the first value of a column that is not what it must be."""
    for i, text in enumerate(texts_of(column)):
        try:
            read(text or "")
        except ValueError:
            if text is not None:
                return ValueError(f"column {name!r} must hold {what}; got {text!r} at row {i}")
    return ValueError(f"column {name!r} must hold {what}; got {column.dtype}")


@dataclass(frozen=True)
class _Number:
    """A column of numbers: the missing ones become the median, all are standardised; scale 0 says it was constant."""

    name: str
    median: float
    mean: float
    scale: float
    missing: bool

    @classmethod
    def fit(cls, name: str, values: NDArray[np.float64]) -> _Number:
        """Take the statistics of the training rows."""
        missing = np.isnan(_finite(name, values))
        known = values[~missing]
        if len(known) == 0:
            return cls(name, 0.0, 0.0, 0.0, False)
        median = float(np.median(known))
        filled = np.where(missing, median, values)
        largest = float(np.abs(filled).max()) or 1.0  # divided out, so that no square overflows
        constant = bool(filled.min() == filled.max())
        mean, scale = largest * float((filled / largest).mean()), largest * float((filled / largest).std())
        return cls(name, median, mean, 0.0 if constant else scale, bool(missing.any()))

    def names(self) -> list[str]:
        """Name the features."""
        return [self.name] * (self.scale > 0) + [f"{self.name} is missing"] * self.missing

    def encode(self, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the features into `out`."""
        values = numbers_of(column)
        if values is None:
            raise _unreadable(self.name, column, number_of, "numbers")
        self.write(values, out)

    def write(self, values: NDArray[np.float64], out: NDArray[np.float32]) -> None:
        """Write the features of numbers into `out`."""
        missing = np.isnan(_finite(self.name, values))
        if self.scale > 0:
            with np.errstate(over="ignore"):
                scaled = (np.where(missing, self.median, values) - self.mean) / self.scale
            out[:, 0] = np.clip(scaled, -_FARTHEST, _FARTHEST)
        if self.missing:
            out[:, -1] = missing


def _month(days: NDArray[np.float64]) -> NDArray[np.float64]:
    known = np.where(np.isnan(days), 0, np.floor(days)).astype(np.int64)
    months = known.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    return np.where(np.isnan(days), np.nan, months)


_PARTS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "days": lambda days: days,  # since 1970
    "month": _month,
    "weekday": lambda days: (np.floor(days) + 3) % 7,  # Monday is 0
    "hour": lambda days: 24 * (days % 1),
}


@dataclass(frozen=True)
class _Date:
    """A column of dates or times: days since 1970, and those of month, weekday and hour that vary, as numbers."""

    name: str
    parts: dict[str, _Number]

    @classmethod
    def fit(cls, name: str, days: NDArray[np.float64]) -> _Date:
        """Take the statistics of the training rows; only the days are marked where they are missing."""
        parts = {part: _Number.fit(f"{name}: {part}", read(days)) for part, read in _PARTS.items()}
        kept = {part: number if part == "days" else replace(number, missing=False) for part, number in parts.items()}
        return cls(name, {part: number for part, number in kept.items() if number.names()})

    def names(self) -> list[str]:
        """Name the features."""
        return [name for number in self.parts.values() for name in number.names()]

    def encode(self, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the features into `out`."""
        days = days_of(column)
        if days is None:
            raise _unreadable(self.name, column, day_of, "dates such as 2020-12-31")
        start = 0
        for part, number in self.parts.items():
            width = len(number.names())
            number.write(_PARTS[part](days), out[:, start : start + width])
            start += width


@dataclass(frozen=True)
class _Category:
    """A column of categories: one feature for each, None being "missing"; any other value is all zeros."""

    name: str
    categories: list[str | None]

    def names(self) -> list[str]:
        """Name the features."""
        return [f"{self.name} is missing" if value is None else f"{self.name}={value}" for value in self.categories]

    def encode(self, column: NDArray[Any], out: NDArray[np.float32]) -> None:
        """Write the features into `out`, which holds zeros."""
        place = {value: k for k, value in enumerate(self.categories)}
        for value, k in list(place.items()):  # pandas writes 1 as 1.0 in a column that lacks a value
            if value is not None and _WHOLE.fullmatch(value):
                place.setdefault(value[:-2] if value.endswith(".0") else f"{value}.0", k)
        texts = texts_of(column, keep=[value for value in self.categories if value is not None])
        codes = np.array([place.get(text, -1) for text in texts])
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1
        unknown = [text for text, code in zip(texts, codes) if text is not None and code < 0]
        if len(unknown) >= _MANY and len(unknown) == len(texts) - texts.count(None):
            known = ", ".join(map(repr, [value for value in self.categories if value is not None][:3]))
            warn(
                f"column {self.name!r} must hold values that were learned from, such as {known}; none of its "
                f"{len(unknown):,} is one; got {unknown[0]!r} at first",
                stacklevel=2,
            )


_WHOLE = re.compile(r"-?\d+(?:\.0)?", re.ASCII)


_Column = _Number | _Date | _Category | ColumnBlock


@dataclass(frozen=True)
class _Reading:
    """How a column was read: in words, and as what encodes it, or None where it is left out."""

    said: str
    column: _Column | None
    warnings: tuple[str, ...] = ()
    is_id: bool = False


def _read_column(name: str, table: DataTable, kind: str | None) -> _Reading:
    """Choose how to read a column; `kind` is "categorical", "numeric", "image" or "text" where somebody said so."""
    values = table.columns[name]
    if kind == "image":
        if not PhotoBlock.available():
            raise ImportError(
                f"column {name!r} can be read as pictures once their network is there; {PhotoBlock.remedy}"
            )
        return _read_block(PhotoBlock(name), table)
    if kind == "text":
        return _read_block(TextBlock(name), table)
    if kind != "categorical":
        numbers = numbers_of(values)
        if numbers is not None:
            return _read_numbers(name, values, numbers, kind)
        if kind == "numeric":
            raise _unreadable(name, values, number_of, "numbers")
        days = days_of(values)
        if days is not None:
            date = _Date.fit(name, days)
            return _unless_constant(f"date, as {', '.join(date.parts)}{_missing(days)}", date)
    if kind is None and (pictures := _read_paths(name, table)):
        return pictures
    return _read_texts(name, table, kind)


def _read_block(block: ColumnBlock, table: DataTable, *warnings: str) -> _Reading:
    """Read a column of pictures or of texts."""
    return _Reading(", ".join([block.what, *block.lacks(table)]), block, warnings)


def _read_paths(name: str, table: DataTable) -> _Reading | None:
    """Read a column as paths of pictures if nearly all of its values look so and some of the first are there."""
    if table.folder is None:
        return None
    paths = [text for text in texts_of(table.columns[name]) if text is not None]
    n_alike = sum(Path(path).suffix.lower() in IMAGE_ENDINGS for path in paths)
    if n_alike < max(2, 0.95 * len(paths)):
        return None
    if not any(os.path.isfile(table.folder / path) for path in paths[:10]):
        said = f"column {name!r} looks as if it held paths of pictures, but the first are not in {table.folder}"
        found = _read_texts(name, table, None)
        return replace(found, warnings=(*found.warnings, said))
    if PhotoBlock.available():
        return _read_block(PhotoBlock(name), table)
    return _Reading(f"left out: pictures; to learn from them, {PhotoBlock.remedy}", None)


def _read_numbers(name: str, values: NDArray[Any], numbers: NDArray[np.float64], kind: str | None) -> _Reading:
    """Read a column of numbers; one that identifies the rows is left out, unless it was asked for."""
    known = numbers[np.isfinite(numbers)]
    n = len(known)
    percents = 0 if values.dtype.kind in "iuf" else sum(text is not None and "%" in text for text in texts_of(values))
    whole = n > 1 and bool((known == np.floor(known)).all())
    n_distinct = len(np.unique(known)) if whole else 0
    distinct = whole and n_distinct == n
    warnings = []
    if kind is None and distinct:
        if says_id(name):
            return _Reading("left out: an id, different in every row", None, is_id=True)
        if n >= _MANY and known[0] in (0, 1) and (np.diff(known) == 1).all():
            return _Reading("left out: it counts the rows", None, is_id=True)
        if n >= _MANY and known.max() - known.min() == n - 1:
            warnings.append(f"column {name!r} may be an id: {n:,} different whole numbers without a gap; drop it if so")
    elif kind is None and says_id(name) and n > 1:
        warnings.append(f"column {name!r} is read as a number, but its name says id; drop it, or make it categorical")
    if kind is None and not warnings and whole and n >= _MANY:
        digits = {len(str(int(end))) for end in (known.min(), known.max())}
        what_to_do = "drop it (--drop), or make it categorical (--categorical)"
        if says_code(name) and 2 * n_distinct > min(n, 2 * _MANY):
            warnings.append(f"column {name!r} is read as a number, but its name says that it is none; {what_to_do}")
        elif distinct and n >= _MANY_MORE and len(digits) == 1 and known.min() >= 1000:
            found = f"{n:,} different whole numbers of {digits.pop()} digits"
            warnings.append(f"column {name!r} may be an id: {found}; if so, {what_to_do}")
    if 0 < percents < n:
        warnings.append(f"column {name!r} holds {percents:,} percents among {n:,} numbers; 5% is read as 0.05")
    said = f"number{', from percents' if percents else ''}{_missing(numbers)}"
    return _unless_constant(said, _Number.fit(name, numbers), *warnings)


def _read_texts(name: str, table: DataTable, kind: str | None) -> _Reading:
    """Read a column of texts as categories, or those of several words as texts; unless it was asked for, one that
    hardly repeats itself is no category.
    """
    counts = Counter(texts_of(table.columns[name]))
    n_missing = counts[None]
    n_distinct, n_known = len(counts) - (n_missing > 0), table.n_rows - n_missing
    if kind is None and n_distinct == n_known > 1 and says_id(name):
        return _Reading("left out: an id, different in every row", None, is_id=True)
    warnings = [f"column {name!r} looks as if it held {what}" for pattern, what in _ODD if _all_match(pattern, counts)]
    others = [text for text in counts if text is not None and not is_number(text)]
    n_others = sum(counts[text] for text in others)
    if kind is None and n_known >= _MANY and 0 < n_others <= _FEW_OTHERS * n_known:
        warnings.append(
            f"column {name!r} is not read as a number, as {n_others:,} of its {n_known:,} values are none, such as "
            f"{others[0]!r}; leave these empty, or make it categorical (--categorical)"
        )
    unique = n_distinct == n_known >= _MANY
    if kind is None and (unique or (n_distinct > _MOST_CATEGORIES and 2 * n_distinct > n_known)):
        said = f"left out: {n_distinct} different texts in {n_known} rows"
        if sum(len(_WORD.findall(text)) for text in counts if text) < _SEVERAL * n_distinct:
            return _Reading(said, None, tuple(warnings))
        if TextBlock.available():
            return _read_block(TextBlock(name), table, *warnings)
        return _Reading(f"{said}; to learn from them, {TextBlock.remedy}", None, tuple(warnings))
    by_count = sorted((text for text in counts if counts[text]), key=lambda text: (-counts[text], text or ""))
    kept = by_count[:_MOST_CATEGORIES] if len(by_count) > 1 else []
    if same := alike(text for text in kept if text is not None):
        warnings.append(f"column {name!r} holds {same}, which differ only in case or spaces")
    most = f"the {len(kept)} most frequent of " if len(by_count) > len(kept) else ""
    said = f"category, {most}{n_distinct} values" + (f", {n_missing} missing" if n_missing else "")
    return _unless_constant(said, _Category(name, kept), *warnings)


def _unless_constant(said: str, column: _Column, *warnings: str) -> _Reading:
    """Leave out a column that has nothing to tell."""
    if column.names():
        return _Reading(said, column, warnings)
    return _Reading("left out: it is the same in every row", None)


def _missing(numbers: NDArray[np.float64]) -> str:
    n = int(np.isnan(numbers).sum())
    return f", {n} missing" if n else ""


def _all_match(pattern: str, texts: Iterable[str | None]) -> bool:
    """Whether the first texts are all of one form."""
    some = [text for text, _ in zip(texts, range(20)) if text is not None]
    return len(some) > 1 and all(re.fullmatch(pattern, text) for text in some)


_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+")  # scripts without spaces: each sign counts
_ODD = (
    (r"\d{1,2}([/.-])\d{1,2}\1\d{2,4}|\d{4}([/.])\d{1,2}\2\d{1,2}", "dates; write them as 2020-12-31"),
    (r"[+-]?\d+,\d+", "numbers with a decimal comma; write them as 3.14"),
)


_NOTHING_SAID = Columns()


class TableEncoder:
    """Turn a table into a matrix of float32, the same way for the rows to learn from and those to predict.

    A column whose values all read as numbers (5, 1,000.50, 5%) is standardised; its missing values become the median,
    and a second feature marks them if there were any in `fit`. ISO dates and times become days since 1970, and month,
    weekday and hour where those vary. Any other column becomes one feature for each of its 100 most frequent values, a
    missing value counting as one; rarer and unseen values are all zeros. Left out are constant columns, ids (whole
    numbers or texts that differ in every row, in a column called so, or that count the rows), and texts that hardly
    repeat themselves. Pictures, named by their paths, and texts of several words become the features of
    :class:`naysayer.features.Photos` and :class:`naysayer.features.Texts`, standardised, where those are installed.

    Parameters
    ----------
    device, verbose : where features of pictures and texts are computed, and whether a bar shows how far that is.
    views : of pictures, as :class:`naysayer.features.Photos` takes them; None leaves its default.

    Attributes
    ----------
    feature_names_ : the D features.
    readings : how each column was read, in words, by its name.
    notes : what was left out and why, one line each.
    warnings : what looks wrong, one line each.
    ids : the columns that were left out because they identify rows.

    Examples
    --------
    >>> table = DataTable({"age": np.array(["20", "", "40"]), "pet": np.array(["cat", "dog", "cat"])})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['age', 'age is missing', 'pet=cat', 'pet=dog']
    >>> encoder.transform(DataTable({"age": np.array([30]), "pet": np.array(["cow"])}))
    array([[0., 0., 0., 0.]], dtype=float32)
    """

    kind = "table"

    def __init__(self, *, device: str = "auto", verbose: int = 0, views: int | None = None) -> None:
        self.device, self.verbose, self.views = device, verbose, views
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.readings: dict[str, str] = {}
        self.ids: list[str] = []
        self._columns: list[_Column] = []

    @property
    def balanced(self) -> bool:
        """Whether the scales of columns are set against each other, and are to be kept: pictures beside numbers."""
        return len(self._columns) > 1 and any(isinstance(column, ColumnBlock) for column in self._columns)

    @property
    def pictures(self) -> list[str]:
        """The columns of paths of pictures, which tell rows apart as ids do."""
        return [column.name for column in self._columns if isinstance(column, PhotoBlock)]

    @property
    def blocks(self) -> list[str]:
        """The columns of pictures and of texts."""
        return [column.name for column in self._columns if isinstance(column, ColumnBlock)]

    @property
    def columns(self) -> list[str]:
        """The columns that are encoded."""
        return [column.name for column in self._columns]

    @property
    def feature_names_(self) -> list[str]:
        """The D features, in the order of the matrix's columns."""
        return [name for column in self._columns for name in column.names()]

    @property
    def plain_features(self) -> list[int]:
        """The places, among the D, of features that say something to people: not those of a picture or a text."""
        of = [(column, name) for column in self._columns for name in column.names()]
        return [
            j for j, (column, name) in enumerate(of) if not isinstance(column, ColumnBlock) or not name.endswith("]")
        ]

    def fit(self, examples: DataTable, columns: Columns = _NOTHING_SAID) -> TableEncoder:
        """Learn from the training rows how to encode them.

        Parameters
        ----------
        examples : the rows.
        columns : how to read them, where detection would err.
        """
        self.fit_transform(examples, columns)
        return self

    def fit_transform(self, examples: DataTable, columns: Columns = _NOTHING_SAID) -> NDArray[np.float32]:
        """Do what :meth:`fit` and :meth:`transform` do; features that take long are computed once."""
        self.read(examples, columns)
        if not self._columns:
            why = "; ".join(self.notes[:3]) or "there is no other column than the labels"
            raise ValueError(f"the table must have a column to learn from; got none: {why}")
        if self.views not in (None, 1) and not self.pictures:
            raise ValueError(
                f"{self.views} views are for photos; no column holds them; use 1 view, or name one: --image COLUMN"
            )
        blocks = [column for column in self._columns if isinstance(column, ColumnBlock)]
        for block in blocks:
            if isinstance(block, PhotoBlock):
                block.encoder.views = self.views
        computed = {block.name: block.fit(examples, self.device, self.verbose) for block in blocks}
        for block in blocks:
            if isinstance(block, TextBlock) and FOR_ENGLISH in block.encoder.notes:
                self.warnings.append(f"column {block.name!r}: {FOR_ENGLISH}")
        balance(blocks, sum(len(column.names()) for column in self._columns if not isinstance(column, ColumnBlock)))
        self.readings |= {block.name: f"{self.readings[block.name]}, as {block.became()}" for block in blocks}
        return self._matrix(examples, computed)

    def read(self, examples: DataTable, columns: Columns = _NOTHING_SAID) -> TableEncoder:
        """Say how columns are read, without learning their scales; no column may be left to learn from."""
        uses = columns.uses(examples)
        self.notes, self.warnings, self.readings, self.ids, self._columns = [], [], {}, [], []
        for name in examples.columns:
            if uses.get(name) == "drop":
                continue
            reading = _read_column(name, examples, uses.get(name))
            self.readings[name] = reading.said
            if reading.column is None:
                self.notes.append(f"column {name!r} is {reading.said}")
            else:
                self._columns.append(reading.column)
            self.warnings += reading.warnings
            self.ids += [name] * reading.is_id
        return self

    def transform(self, examples: DataTable) -> NDArray[np.float32]:
        """Encode rows; columns that `fit` did not see are ignored, and those it used must be there.

        Returns
        -------
        (N, D) float32
        """
        if not self._columns:
            raise ValueError("the encoder must be fitted before it transforms; call fit first")
        absent = [column.name for column in self._columns if column.name not in examples.columns]
        if absent:
            named = ", ".join(near(name, examples.columns) for name in absent[:3]) + ", ..." * (len(absent) > 3)
            raise ValueError(f"the table must have the columns learned from; it lacks {len(absent)}: {named}")
        blocks = [column for column in self._columns if isinstance(column, ColumnBlock)]
        return self._matrix(examples, {b.name: b.compute(examples, self.device, self.verbose) for b in blocks})

    def _matrix(self, examples: DataTable, computed: dict[str, Features]) -> NDArray[np.float32]:
        """Put the features of all columns side by side; those of blocks are computed already."""
        widths = [len(column.names()) for column in self._columns]
        X = np.zeros((examples.n_rows, sum(widths)), dtype=np.float32)
        start = 0
        for column, width in zip(self._columns, widths):
            part = X[:, start : start + width]
            if isinstance(column, ColumnBlock):
                column.encode(computed.pop(column.name), part)
            else:
                column.encode(examples.columns[column.name], part)
            start += width
        return X

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        columns = [column.to_dict() if isinstance(column, ColumnBlock) else asdict(column) for column in self._columns]
        return {"kind": self.kind, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TableEncoder:
        """Make the encoder that :meth:`to_dict` described."""
        encoder = cls()
        try:
            encoder.notes = list(state["notes"])
            encoder._columns = [_from_dict(column) for column in state["columns"]]
        except (KeyError, TypeError) as error:
            raise ValueError(f"an encoder's state must be what to_dict gave; it is not: {error}") from None
        return encoder


def _from_dict(column: dict[str, Any]) -> _Column:
    """Make what encodes a column from its state."""
    if "reads" in column:
        return block_from_dict(column)
    if "parts" in column:
        return _Date(column["name"], {part: _Number(**number) for part, number in column["parts"].items()})
    return _Category(**column) if "categories" in column else _Number(**column)
