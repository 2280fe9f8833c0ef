"""People's tables for the command line: files into columns, columns into numbers, a column into labels."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.checks import near
from naysayer.labels import ruled_out

_MISSING = frozenset(["", "NA", "NaN", "nan", "null", "None", "<NA>"])
_MOST_CATEGORIES = 100
_FARTHEST = 1e6  # standard deviations; beyond it a value is cut, so that float32 holds it


@dataclass(frozen=True)
class Table:
    """Named columns of one length, each a 1-D array of numbers, or of objects: text, or None where missing."""

    columns: dict[str, NDArray[Any]]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> NDArray[Any]:
        """Give one column; an unknown name is answered with the nearest known one."""
        if name not in self.columns:
            raise ValueError(f"the table must have a column {near(name, self.columns)}; it has {_some(self.columns)}")
        return self.columns[name]


def _some(names: Iterable[str]) -> str:
    """List names, but not hundreds of them."""
    names = list(names)
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")


# Files


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a table from a CSV, TSV, Parquet or npz file.

    CSV and TSV are UTF-8 with a header line; a first column without a name is an index, as pandas and R write it,
    and is left out. Parquet needs the extra ``naysayer[tables]``. In npz each 1-D array is a column, and a 2-D array
    ``X`` is the columns ``X[0]``, ``X[1]``, ...; nothing is unpickled.

    Parameters
    ----------
    path : the file; its ending tells the format.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("weight,pet\\n4.1,!dog\\n30,!cat\\n")
    ...     table = read_table(path)
    >>> table.n_rows, table.column("pet").tolist()
    (2, ['!dog', '!cat'])
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"a table must be a file; {path} is a folder")
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"a table's name must end in {', '.join(_READERS)}; got {path}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} must hold a table; it is empty")
    names, columns = read(path)
    if not names:
        raise ValueError(f"{path} must have at least one column; got none")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{path} must name each column once; got {repeated[0]!r} more than once; rename one")
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        i = next(i for i, length in enumerate(lengths) if length != lengths[0])
        raise ValueError(
            f"{path} must hold columns of one length; "
            f"got {lengths[0]} rows of {names[0]!r} and {lengths[i]} of {names[i]!r}"
        )
    if lengths[0] == 0:
        raise ValueError(f"{path} must have at least one row; got only the names of {len(names)} columns")
    return Table(dict(zip(names, columns)))


_Columns = tuple[list[str], list[NDArray[Any]]]


@contextmanager
def _parsing(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into one line with the file's name."""
    try:
        yield
    except Exception as error:  # zip, npy and Parquet parsers raise a dozen kinds, KeyError and MemoryError among them
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path} must be a whole {kind} file; reading it failed: {reason}; write it again") from None


def _read_csv(path: Path) -> _Columns:
    """Read comma- or tab-separated text, strictly: each row as wide as the header."""
    data = path.read_bytes()
    if (at := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise ValueError(f"{path} must be text in UTF-8; got a NUL byte at line {line}; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte, line = data[error.start], data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path} must be text in UTF-8; got byte 0x{byte:02x} at line {line}; save it as UTF-8"
        ) from None
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a text may be longer than the 128 KiB it allows
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    rows = []
    try:
        for row in reader:
            if not row:  # a blank line
                continue
            if not names:
                names = [name.strip() for name in row]
            elif len(row) == len(names):
                rows.append(row)
            else:
                raise ValueError(
                    f"{path} must have {len(names)} values on each line, as its header has; "
                    f"got {len(row)} at line {reader.line_num}"
                )
    except csv.Error as error:
        raise ValueError(f"{path} must be a whole CSV file; line {reader.line_num}: {error}") from None
    if len(names) == 1 and (other := next((c for c in ",;\t" if c in names[0]), "")):
        raise ValueError(f"{path} must be separated by {delimiter!r}; its header has {other!r}; save it so")
    columns = [np.array(values, dtype=object) for values in zip(*rows)] or [np.array([], dtype=object) for _ in names]
    if "" in names[1:]:
        i = names.index("", 1)
        raise ValueError(f"{path} must name each column in its first line; column {i + 1} has no name")
    return (names, columns) if names[:1] != [""] else (names[1:], columns[1:])


def _read_parquet(path: Path) -> _Columns:
    """Read a Parquet file; a pandas index stored in it is left out."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"reading Parquet needs pandas and pyarrow: pip install 'naysayer[tables]'; got {path}"
        ) from None
    types = pyarrow.types
    with _parsing(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:
        table = file.read()
        names, found = list(table.column_names), list(table.columns)
    kept = [i for i, name in enumerate(names) if not re.fullmatch(r"__index_level_\d+__", name)]
    columns = []
    for i in kept:
        column, kind = found[i], found[i].type
        if types.is_nested(kind):
            raise ValueError(f"{path} must hold numbers and text; column {names[i]!r} is {kind}; flatten it or drop it")
        with _parsing(path, "Parquet"):
            if types.is_dictionary(kind):
                column = column.cast(kind.value_type)
            if types.is_decimal(column.type):
                column = column.cast(pyarrow.float64())
            if types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type):
                columns.append(column.to_numpy())  # a missing number is NaN, a missing truth value None
            else:
                columns.append(np.array(column.cast(pyarrow.large_string()).to_pylist(), dtype=object))
    return [names[i] for i in kept], columns


def _read_npz(path: Path) -> _Columns:
    """Read the arrays of an npz file; a 2-D array becomes one column for each of its columns."""
    names: list[str] = []
    columns: list[NDArray[Any]] = []
    with _parsing(path, "npz"):  # the bytes in memory: then no size stated in the file is allocated unseen
        archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        members = archive.infolist()
    for member in members:
        name = member.filename.removesuffix(".npy")
        with _parsing(path, "npz"), archive.open(member) as file:
            array = _read_npy(file, member.file_size)
        if array.ndim not in (1, 2) or (array.ndim == 2 and (array.dtype.kind in "US" or array.shape[1] == 0)):
            raise ValueError(
                f"{path} must hold 1-D arrays and 2-D arrays of numbers; array {name!r} is {array.dtype} "
                f"of shape {array.shape}; reshape it to (N, D)"
            )
        with _parsing(path, "npz"):
            if array.dtype.kind == "S":
                array = np.char.decode(array, "utf8")
            if array.dtype.kind == "U":
                array = array.astype(object)
        names += [name] if array.ndim == 1 else [f"{name}[{j}]" for j in range(array.shape[1])]
        columns += [array] if array.ndim == 1 else list(array.T)
    return names, columns


def _read_npy(file: Any, size: int) -> NDArray[Any]:
    """Read one array, its header believed only where it agrees with the size of what follows."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its version {version} is not that of a plain array")
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not unpickled")
    if dtype.kind not in "biufUS" or dtype.itemsize == 0:
        raise ValueError(f"it holds {dtype}, neither numbers nor text")
    if (stated := math.prod(shape) * dtype.itemsize) != size - file.tell():
        raise ValueError(f"its header states {stated} bytes and {size - file.tell()} follow")
    return np.frombuffer(file.read(), dtype).reshape(shape, order="F" if fortran_order else "C")


_READERS = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}


# Values


def _texts(column: NDArray[Any], keep: Iterable[str] = ()) -> list[str | None]:
    """Give a column as text, None where missing; 3.0 is written '3'. Names in `keep` are never missing."""
    missing = _MISSING.difference(keep)
    if column.dtype.kind == "f":
        texts = [text.removesuffix(".0") for text in column.astype(str).tolist()]
    else:
        texts = [str(value).strip() for value in column.tolist()]
    return [None if text in missing else text for text in texts]


def _numbers(column: NDArray[Any]) -> NDArray[np.float64] | None:
    """Give a column as numbers, NaN where missing; None when some value is not a number."""
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    try:
        return np.array([math.nan if text is None else float(text) for text in _texts(column)])
    except ValueError:
        return None


def _finite(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Refuse infinite numbers; missing ones may stay."""
    infinite = np.isinf(values)
    if infinite.any():
        i = int(np.argmax(infinite))
        raise ValueError(f"column {name!r} must hold finite numbers; got {values[i]} at row {i}; leave it empty?")
    return values


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
        values = _numbers(column)
        if values is None:
            i, text = next((i, text) for i, text in enumerate(_texts(column)) if text and not _is_number(text))
            raise ValueError(f"column {self.name!r} must hold numbers; got {text!r} at row {i}")
        missing = np.isnan(_finite(self.name, values))
        if self.scale > 0:
            with np.errstate(over="ignore"):
                scaled = (np.where(missing, self.median, values) - self.mean) / self.scale
            out[:, 0] = np.clip(scaled, -_FARTHEST, _FARTHEST)
        if self.missing:
            out[:, -1] = missing


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
        codes = np.array([place.get(text, -1) for text in _texts(column)])
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1


def _is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class TableEncoder:
    """Turn a table into a matrix of float32, the same way for the rows to learn from and those to predict.

    A column whose values all read as numbers is standardised; its missing values become the median, and a second
    feature marks them if there were any in `fit`. Any other column becomes one feature for each of its 100 most
    frequent values, a missing value counting as one; rarer and unseen values are all zeros. Constant columns, and
    text columns with more than 100 values most of which are distinct, are left out; `notes` says so.

    Attributes
    ----------
    feature_names_ : the D features.
    notes : what was left out and why, a line each.

    Examples
    --------
    >>> table = Table({"age": np.array(["20", "", "40"]), "pet": np.array(["cat", "dog", "cat"])})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.feature_names_
    ['age', 'age is missing', 'pet=cat', 'pet=dog']
    >>> encoder.transform(Table({"age": np.array([30]), "pet": np.array(["cow"])}))
    array([[0., 0., 0., 0.]], dtype=float32)
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._columns: list[_Number | _Category] = []

    @property
    def feature_names_(self) -> list[str]:
        """The D features, in the order of the matrix's columns."""
        return [name for column in self._columns for name in column.names()]

    def fit(self, table: Table, drop: Sequence[str] = ()) -> TableEncoder:
        """Learn from the training rows how to encode; the columns in `drop`, the labels, are left out."""
        for name in drop:
            table.column(name)
        self.notes, self._columns = [], []
        for name, values in table.columns.items():
            if name not in drop:
                self._fit_column(name, values)
        if not self._columns:
            why = "; ".join(self.notes[:3]) or "there is no other column than the labels"
            raise ValueError(f"the table must have a column to learn from; got none: {why}")
        return self

    def _fit_column(self, name: str, values: NDArray[Any]) -> None:
        """Choose how to encode one column, or note why it is left out."""
        numbers = _numbers(values)
        if numbers is not None:
            column: _Number | _Category = _Number.fit(name, numbers)
        else:
            counts = Counter(_texts(values))
            n_distinct, n_known = len(counts) - (None in counts), len(values) - counts[None]
            if n_distinct > _MOST_CATEGORIES and 2 * n_distinct > n_known:
                self.notes.append(f"column {name!r} is left out: {n_distinct} different texts in {n_known} rows")
                return
            by_count = sorted(counts, key=lambda text: (-counts[text], text or ""))
            column = _Category(name, by_count[:_MOST_CATEGORIES] if len(counts) > 1 else [])
        if column.names():
            self._columns.append(column)
        else:
            self.notes.append(f"column {name!r} is left out: it is the same in every row")

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Encode rows; columns that `fit` did not see are ignored, and those it used must be there.

        Returns
        -------
        (N, D) float32
        """
        if not self._columns:
            raise ValueError("the encoder must be fitted before it transforms; call fit first")
        absent = [column.name for column in self._columns if column.name not in table.columns]
        if absent:
            named = ", ".join(near(name, table.columns) for name in absent[:3]) + ", ..." * (len(absent) > 3)
            raise ValueError(f"the table must have the columns learned from; it lacks {len(absent)}: {named}")
        widths = [len(column.names()) for column in self._columns]
        X = np.zeros((table.n_rows, sum(widths)), dtype=np.float32)
        start = 0
        for column, width in zip(self._columns, widths):
            column.encode(table.columns[column.name], X[:, start : start + width])
            start += width
        return X

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        return {"columns": [asdict(column) for column in self._columns], "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TableEncoder:
        """Make the encoder that :meth:`to_dict` described."""
        encoder = cls()
        try:
            encoder.notes = list(state["notes"])
            encoder._columns = [
                _Category(**column) if "categories" in column else _Number(**column) for column in state["columns"]
            ]
        except (KeyError, TypeError) as error:
            raise ValueError(f"an encoder's state must be what to_dict gave; it is not: {error}") from None
        return encoder


# Labels


def read_labels(
    table: Table, column: str, classes: Sequence[Any] | None = None, ordinary: bool = False
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
    y_bar : (N,) class indices when no label has a ``!``, none is missing and not `ordinary`;
        else the (N, K) ruled-out matrix.
    classes : the K names.
    said : the sentence.

    Examples
    --------
    >>> table = Table({"pet": np.array(["!dog", "!cat", "cow"])})
    >>> read_labels(table, "pet")[1:]
    (['cat', 'cow', 'dog'], "labels: 2 'not this class', 1 'is this class'")
    """
    names = None if classes is None else _whole(_texts(np.asarray(list(classes)), keep=_MISSING))
    labels = _whole(_texts(table.column(column), keep=names or ()))
    known = [label for label in labels if label is not None]
    if not known:
        raise ValueError(f"column {column!r} must hold labels; all {len(labels)} rows are empty")
    marked = any(label.startswith("!") for label in known)
    if names is None:
        names = sorted(_mentioned(known), key=_by_value)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            f"column {column!r} must have at least 2 classes, each named once; got {_some(names) or 'none'}"
        )
    silent = f", {len(labels) - len(known)} that say nothing" if len(known) < len(labels) else ""
    if marked or ordinary:
        try:
            y_bar = ruled_out(labels, names)
        except ValueError as error:
            raise ValueError(f"column {column!r}: {error}") from None
        counts = Counter(_kind(label, n, len(names)) for label, n in zip(labels, y_bar.sum(axis=1)) if label)
        said = ", ".join(f"{count} {kind!r}" for kind, count in counts.most_common())
        return y_bar, names, f"labels: {said}{silent}"
    place = {name: k for k, name in enumerate(names)}
    for i, label in enumerate(labels):
        if label is not None and label not in place:
            advice = "; pass --ordinary if it lists what the row may be" if "|" in label else ""
            raise ValueError(
                f"column {column!r} must hold known classes ({_some(names)}); got {label!r} at row {i}{advice}"
            )
    indices = np.array([-1 if label is None else place[label] for label in labels], dtype=np.int64)
    said = f"labels: {len(known)} 'not this class'{silent}"
    said += " (no '!' found; pass --ordinary if they say what each row is)"
    return (indices[:, None] == np.arange(len(names)) if silent else indices), names, said


def _whole(texts: list[Any]) -> list[Any]:
    """Write 3.0 as 3 where all are so: pandas makes whole numbers floats when a row among them is empty."""
    if all(text is None or re.fullmatch(r"-?\d+\.0", text) for text in texts):
        return [text and text[:-2] for text in texts]
    return texts


def _kind(label: str, n_ruled_out: int, n_classes: int) -> str:
    """Say what kind of label a text is."""
    if label.startswith("!"):
        return "not this class" if n_ruled_out == 1 else "not these classes"
    return "is this class" if n_ruled_out == n_classes - 1 else "one of these classes"


def _mentioned(labels: Iterable[str]) -> set[str]:
    """Collect the class names that labels mention, in the forms that `ruled_out` reads."""
    names: set[str] = set()
    for label in set(labels):
        marks = [word for word in label.split() if word.startswith("!")]
        if not label.startswith("!"):
            names.update(part.strip() for part in label.split("|"))
        elif len(marks) == 1:  # one name, in which there may be spaces
            names.add(label[1:].strip())
        else:
            names.update(mark[1:] for mark in marks)
    return names - {""}


def _by_value(name: str) -> tuple[bool, float, str]:
    """Sort numbers by value and before texts."""
    number = float(name) if _is_number(name) else math.nan
    return (True, 0.0, name) if math.isnan(number) else (False, number, name)
