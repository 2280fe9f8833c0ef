"""People's tables: files into named columns."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import near

_OF_EXPORTS = {"table", "item_id", "class_index", "question_id", "undoes", "n_answers"}  # nobody's table has all these
_OF_LABELS = {"id", "name", "label", "sure", "known_by", "likeliest", "second", "said"}
MISSING = frozenset(["", "NA", "NaN", "nan", "null", "None", "<NA>", "NULL", "N/A", "n/a", "#N/A"])


@dataclass(frozen=True)
class DataTable:
    """Named columns of one length, each a 1-D array of numbers, or of objects: text, or None where missing.

    Parameters
    ----------
    columns : by their names.
    folder : where paths in the table begin, unless they are absolute: the folder of its file. None: they lead nowhere,
        so that none is taken for a picture.
    """

    columns: dict[str, NDArray[Any]]
    folder: Path | None = Path()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> NDArray[Any]:
        """Give one column; an unknown name is answered with the nearest known one."""
        if name not in self.columns:
            raise ValueError(f"the table must have a column {near(name, self.columns)}; it has {some(self.columns)}")
        return self.columns[name]


def some(names: Iterable[str]) -> str:
    """List names, but not hundreds of them."""
    names = list(names)
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")


def says_id(name: str) -> bool:
    """Whether a column's name says that it identifies rows.

    Examples
    --------
    >>> [name for name in ("id", "user_id", "userId", "UUID", "width", "paid") if says_id(name)]
    ['id', 'user_id', 'userId', 'UUID']
    """
    return any(part in ("id", "uuid", "guid", "identifier") for part in _parts(name))


def says_code(name: str) -> bool:
    """Whether a column's name says that its numbers are no quantities: they name places, lines or other things.

    Examples
    --------
    >>> [name for name in ("customer_no", "zipCode", "PHONE", "number_of_rooms", "note") if says_code(name)]
    ['customer_no', 'zipCode', 'PHONE']
    """
    parts = _parts(name)
    return bool(parts) and (parts[-1] in _NUMBERING or not _ADDRESSES.isdisjoint(parts))


_NUMBERING = frozenset(["no", "nr", "num", "number", "code"])
_ADDRESSES = frozenset(["zip", "zipcode", "postcode", "postal", "plz", "phone", "telephone", "tel", "mobile", "fax"])


def _parts(name: str) -> list[str]:
    """The words that a column's name is made of, in small letters."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


# Files


def read_table(path: str | os.PathLike[str], delimiter: str | None = None, *, keep_integers: bool = False) -> DataTable:
    """Read a table from a CSV, TSV, Parquet or npz file.

    CSV and TSV are UTF-8 with a header line; a first column without a name is an index, as pandas and R write it,
    and is left out. Parquet needs the extra ``naysayer[tables]``. In npz each 1-D array is a column, and a 2-D array
    ``X`` is the columns ``X[0]``, ``X[1]``, ...; nothing is unpickled.

    Parameters
    ----------
    path : the file; its ending tells the format.
    delimiter : what separates the values of a CSV or TSV file; if None, a comma or a tab, as the ending says.
    keep_integers : of a Parquet file, also where some are missing: the column is then one of objects. Else it becomes
        one of floats, which takes less memory.

    Returns
    -------
    DataTable

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
    if delimiter is not None:
        if path.suffix.lower() not in (".csv", ".tsv"):
            raise ValueError(f"a delimiter is for CSV and TSV files; got {delimiter!r} for {path}; leave it out")
        read = partial(_read_csv, delimiter=check_delimiter(delimiter))
    if keep_integers and read is _read_parquet:
        read = partial(_read_parquet, keep_integers=True)
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
    if set(names) >= _OF_EXPORTS:
        raise ValueError(
            f"{path} must be one table; it is what `naysayer export` wrote, all of a store in one; "
            f"learn from the store: naysayer train answers.db; for the labels: naysayer labels answers.db"
        )
    if set(names) == _OF_LABELS:
        raise ValueError(
            f"{path} must hold what can be learned from; it is what `naysayer labels` wrote, and says of items "
            f"nothing but what they are; learn from the store: naysayer train answers.db"
        )
    return DataTable(dict(zip(names, columns)), path.parent)


def check_delimiter(delimiter: str) -> str:
    """Check what separates values: one character that is no letter, digit, quote or end of a line; or "tab"."""
    if delimiter in ("tab", "\\t"):
        return "\t"
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in ' "\r\n\0':
        raise ValueError(f"a delimiter must be one character, such as ';', or the word tab; got {delimiter!r}")
    return delimiter


_Columns = tuple[list[str], list[NDArray[Any]]]


@contextmanager
def parsing(path: Path | str, kind: str) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into one line with the file's name."""
    try:
        yield
    except Exception as error:  # zip, npy and Parquet parsers raise a dozen kinds, KeyError and MemoryError among them
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path} must be a whole {kind} file; reading it failed: {reason}; write it again") from None


def _read_csv(path: Path, delimiter: str) -> _Columns:
    """Read text with a delimiter, strictly: each row as wide as the header."""
    _refuse_nul(path)
    csv.field_size_limit(
        max(csv.field_size_limit(), path.stat().st_size)
    )  # a text may be longer than the 128 KiB it allows
    names: list[str] = []
    columns: list[_Texts] = []
    with path.open("rb") as file:
        try:
            for names, rows in csv_blocks(file, path, delimiter):
                columns = columns or [_Texts() for _ in names]
                _move(rows, columns)
        except UnicodeDecodeError:
            raise _not_utf8(path) from None
    return names, [column.array() for column in columns]


def csv_blocks(
    file: Any, path: Path | str, delimiter: str, most: int | None = None
) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Read bytes of text with a delimiter, some rows at a time, and first none: the names of the columns, and rows."""
    most = _ROWS if most is None else most
    names: list[str] = []
    rows: list[list[str]] = []
    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if not row:  # a blank line
                    continue
                if not names:
                    names = _header(path, row, delimiter)
                    index = names[0] == ""
                    yield names[index:], []
                elif len(row) == len(names):
                    rows.append(row[index:])
                else:
                    raise ValueError(
                        f"{path} must have {len(names)} values on each line, as its header has; "
                        f"got {len(row)} at line {reader.line_num}"
                    )
                if len(rows) == most:
                    yield names[index:], rows
                    rows = []
        except csv.Error as error:
            raise ValueError(f"{path} must be a whole CSV file; line {reader.line_num}: {error}") from None
        if rows:
            yield names[index:], rows


def _header(path: Path | str, row: list[str], delimiter: str) -> list[str]:
    """Take the names of the columns from the first line."""
    if len(row) == 1 and (other := next((c for c in ",;\t|" if c in row[0]), "")):
        raise ValueError(
            f"{path} must be separated by {delimiter!r}; its header has {other!r}; name it, as --delimiter does"
        )
    names = [name.strip() for name in row]
    if "" in names[1:]:
        i = names.index("", 1)
        raise ValueError(f"{path} must name each column in its first line; column {i + 1} has no name")
    return names


class _Texts:
    """A column that is read part by part; while its values repeat themselves, equal ones are kept once."""

    def __init__(self) -> None:
        self.parts: list[NDArray[Any]] = []
        self.known: dict[str, str] = {}

    def add(self, values: Iterable[str]) -> None:
        if len(self.known) < _ROWS // 4:
            values = [self.known.setdefault(value, value) for value in values]
        self.parts.append(np.array(values, dtype=object))

    def array(self) -> NDArray[Any]:
        return np.concatenate(self.parts) if self.parts else np.array([], dtype=object)


_ROWS = 1 << 14  # rows held as lists at a time


def _move(rows: list[list[str]], columns: list[_Texts]) -> None:
    """Add rows to their columns, and forget them."""
    for column, values in zip(columns, zip(*rows)):
        column.add(values)
    rows.clear()


def _refuse_nul(path: Path) -> None:
    """Refuse a file with a NUL byte, on which the versions of Python disagree."""
    line = 1
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            if (at := part.find(b"\0")) >= 0:
                line += part.count(b"\n", 0, at)
                raise ValueError(f"{path} must be text in UTF-8; got a NUL byte at line {line}; save it as UTF-8")
            line += part.count(b"\n")


def _not_utf8(path: Path) -> ValueError:
    """Name the first byte of a file that is no UTF-8."""
    data = path.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte, line = data[error.start], data.count(b"\n", 0, error.start) + 1
        return ValueError(f"{path} must be text in UTF-8; got byte 0x{byte:02x} at line {line}; save it as UTF-8")
    return ValueError(f"{path} must be text in UTF-8; save it as UTF-8")


def _read_parquet(path: Path, keep_integers: bool = False) -> _Columns:
    """Read a Parquet file; a pandas index stored in it is left out."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"reading Parquet needs pandas and pyarrow: pip install 'naysayer[tables]'; got {path}"
        ) from None
    with parsing(path, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:
        table = file.read()
        names, found = list(table.column_names), list(table.columns)
    kept = [i for i, name in enumerate(names) if not is_index(name)]
    columns: list[NDArray[Any]] = []
    refused: list[_Unreadable] = []
    for i in kept:
        try:
            columns.append(arrow_column(found[i], names[i], path, keep_integers))
        except _Unreadable as error:
            refused.append(error)
            columns.append(np.full(len(found[i]), _Unread(str(error)), dtype=object))
    if kept and len(refused) == len(kept):
        raise refused[0]
    return [names[i] for i in kept], columns


class _Unreadable(ValueError):
    """What is raised of a column that holds neither numbers nor text, in a file that is whole."""


@dataclass(frozen=True)
class _Unread:
    """Each value of such a column: whoever reads it is refused, so that a table without that column can be used."""

    why: str

    def __str__(self) -> str:
        raise ValueError(self.why)


def is_index(name: str) -> bool:
    """Whether a column of a Parquet file is an index of pandas."""
    return re.fullmatch(r"__index_level_\d+__", name) is not None


def arrow_column(column: Any, name: str, path: Path | str, keep_integers: bool = False) -> NDArray[Any]:
    """Give a chunked array of pyarrow as a column of a table, see :func:`read_table`."""
    import pyarrow

    types, kind = pyarrow.types, column.type
    if types.is_nested(kind):
        raise _Unreadable(f"{path} must hold numbers and text; column {name!r} is {kind}; flatten it or drop it")
    with parsing(path, "Parquet"):
        if types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if types.is_decimal(column.type):
            column = column.cast(pyarrow.float64())
        if keep_integers and types.is_integer(column.type) and column.null_count:
            return np.array(column.to_pylist(), dtype=object)
        if types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type):
            return np.asarray(column.to_numpy())  # a missing number is NaN, a missing truth value None
        kind, bytewise = column.type, (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
        if not any(is_kind(kind) for is_kind in bytewise):
            return np.array(column.cast(pyarrow.large_string()).to_pylist(), dtype=object)
    try:
        return np.array(column.cast(pyarrow.large_string()).to_pylist(), dtype=object)
    except pyarrow.ArrowException:
        raise _Unreadable(
            f"{path} must hold numbers and text; column {name!r} is {kind}, and not all of it is text in UTF-8; write "
            f"it as text or drop it"
        ) from None


def _read_npz(path: Path) -> _Columns:
    """Read the arrays of an npz file; a 2-D array becomes one column for each of its columns."""
    names: list[str] = []
    columns: list[NDArray[Any]] = []
    with parsing(path, "npz"):  # the bytes in memory: then no size stated in the file is allocated unseen
        archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        members = archive.infolist()
    for member in members:
        name = member.filename.removesuffix(".npy")
        with parsing(path, "npz"), archive.open(member) as file:
            array = _read_npy(file, member.file_size)
        if array.ndim not in (1, 2) or (array.ndim == 2 and (array.dtype.kind in "US" or array.shape[1] == 0)):
            raise ValueError(
                f"{path} must hold 1-D arrays and 2-D arrays of numbers; array {name!r} is {array.dtype} "
                f"of shape {array.shape}; reshape it to (N, D)"
            )
        with parsing(path, "npz"):
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


_READERS: dict[str, Callable[[Path], _Columns]] = {
    ".csv": partial(_read_csv, delimiter=","),
    ".tsv": partial(_read_csv, delimiter="\t"),
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}


# Values


def texts_of(column: NDArray[Any], keep: Iterable[str] = ()) -> list[str | None]:
    """Give a column as text, None where missing; 3.0 is written '3'. Names in `keep` are never missing."""
    missing = MISSING.difference(keep)
    if column.dtype.kind == "f":
        texts = [text.removesuffix(".0") for text in column.astype(str).tolist()]
    else:
        texts = [str(value).strip() for value in column.tolist()]
    return [None if text in missing else text for text in texts]


def number_of(text: str) -> float:
    """Read a number, also with thousands separated by commas, or in percent.

    Examples
    --------
    >>> number_of("1,000.50"), number_of("5%")
    (1000.5, 0.05)
    """
    if "_" in text:  # which Python reads as nothing
        raise ValueError(f"no number: {text}")
    try:
        return float(text)
    except ValueError:
        written = _WRITTEN.fullmatch(text)  # 0,125 is no thousand, but a decimal comma
        if written is None:
            raise
        return float(written[1].replace(",", "")) / (100 if written[2] else 1)


_WRITTEN = re.compile(r"([+-]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d*)?|[+-]?\.\d+)\s*(%?)", re.ASCII)


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        number_of(text)
    except ValueError:
        return False
    return True


def numbers_of(column: NDArray[Any]) -> NDArray[np.float64] | None:
    """Give a column as numbers, NaN where missing; None when some value is not a number."""
    if column.dtype.kind in "iuf":
        return column.astype(np.float64)
    return _read_all(column, number_of)


def day_of(text: str) -> float:
    """Read an ISO date, with or without the time, as days since 1970; in UTC where the text has a time zone.

    Examples
    --------
    >>> day_of("1970-01-02"), day_of("1970-01-02T12:00:00+06:00")
    (1.0, 1.25)
    """
    written = _DATE.fullmatch(text)
    if written is None:
        raise ValueError(f"no date: {text}")
    day, hour, minute, second, sign, zone_hour, zone_minute = written.groups()
    seconds = 3600 * int(hour or 0) + 60 * int(minute or 0) + float(second or 0)
    if seconds > 86400:
        raise ValueError(f"no time: {text}")
    zone = 3600 * int(zone_hour or 0) + 60 * int(zone_minute or 0)
    return date.fromisoformat(day).toordinal() - _EPOCH + (seconds - (-zone if sign == "-" else zone)) / 86400


_EPOCH = date(1970, 1, 1).toordinal()
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d(?:\.\d*)?))?\s?(?:Z|([+-])(\d\d):?(\d\d)?)?)?", re.ASCII
)


def days_of(column: NDArray[Any]) -> NDArray[np.float64] | None:
    """Give a column of ISO dates or times as days since 1970, NaN where missing; None when some value is none."""
    return None if column.dtype.kind in "biuf" else _read_all(column, day_of)


def _read_all(column: NDArray[Any], read: Callable[[str], float]) -> NDArray[np.float64] | None:
    """Read every text of a column; None when one cannot be read."""
    texts = texts_of(column)
    try:
        return np.fromiter((math.nan if text is None else read(text) for text in texts), np.float64, len(texts))
    except ValueError:
        return None
