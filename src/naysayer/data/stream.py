"""Tables that are read part by part: files, their shards, and labels of which each different value is read once."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import check_count, near
from naysayer.data.labels import hardly_named, kind_of, read_labels
from naysayer.data.tables import DataTable, arrow_column, check_delimiter, csv_blocks, is_index, parsing, some
from naysayer.engine.stream import MEMORY
from naysayer.labels.reading import named_classes

ENDINGS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".tar": "tar"}
BLOCK_ROWS = 1 << 16
SAMPLE_ROWS = 50_000  # by which the columns of a table are told
_BYTES_PER_VALUE = 128  # of a text and what becomes of it, all copies together
_FEWEST_SAMPLED = 1000
MOST_LABELS = 100_000  # different ones in a column
MOST_SETS = 1_000_000  # where these are sets of fewer classes
_BYTES_OF_SETS = 1 << 28  # a byte for each of their classes
_PATTERN = re.compile(r"[*?[]")

Array = NDArray[Any]
Place = str | Path


class Piece(NamedTuple):
    """Some rows of a table: the number of the first of them in its file, their columns, and their labels if asked for.

    Labels are the different values among them, and which of them each row has.
    """

    first: int
    table: DataTable
    labels: tuple[list[Any], NDArray[np.int64]] | None


# ---- files ------------------------------------------------------------------------------------------------------


def find_files(places: Place | Iterable[Place]) -> tuple[Any, list[str]]:
    """Find the files that paths, folders, patterns and addresses such as ``s3://bucket/data`` stand for.

    Returns
    -------
    the file system, of fsspec, or None where it is that of this machine; and the paths, all of one kind.
    """
    systems: list[Any] = []
    found: list[str] = []
    places = [places] if isinstance(places, (str, Path)) else list(places)
    for place in map(str, places):
        if "://" in place:
            import fsspec

            try:
                own, path = fsspec.core.url_to_fs(place)
            except (ValueError, ImportError) as error:  # of a package that it needs for this address
                raise ValueError(f"a stream's address must be one that fsspec can open; got {place}; {error}") from None
            here = _within(path, own.exists, own.isdir, own.find, own.glob)
        else:
            own = None
            here = _within(place, lambda p: Path(p).exists(), lambda p: Path(p).is_dir(), _walk, glob.glob)
        if not here:
            what = "no tables or tars in" if _exists(place, own) else "no file at"
            raise FileNotFoundError(f"{what} {place}")
        systems.append(own)
        if own != systems[0]:
            raise ValueError(
                f"places of a stream must all be paths of this machine, or all addresses of one file system; got "
                f"{places[0]} and {place}; copy them to one"
            )
        found += here
    if not found:
        raise FileNotFoundError("a stream needs at least one file; got none")
    kinds = {ENDINGS.get(Path(path).suffix.lower(), Path(path).suffix or "no ending") for path in found}
    if len(kinds) > 1 or not kinds <= set(ENDINGS.values()):
        raise ValueError(f"files of a stream must all end in one of {', '.join(ENDINGS)}; got {some(sorted(kinds))}")
    return systems[0], list(dict.fromkeys(found))


def _within(path: str, exists: Any, is_folder: Any, walk: Any, match: Any) -> list[str]:
    if not exists(path):
        return sorted(match(path)) if _PATTERN.search(path) else []
    if not is_folder(path):
        return [path]
    inside = ((name, name[len(path) :].strip("/").split("/")) for name in walk(path))
    return sorted(
        name for name, parts in inside if Path(name).suffix.lower() in ENDINGS and not any(p[:1] in "._" for p in parts)
    )


def _walk(folder: str) -> list[str]:
    return [str(path) for path in Path(folder).rglob("*") if path.is_file()]


def _exists(place: str, system: Any) -> bool:
    return Path(place).exists() if "://" not in place else bool(system.exists(place))


# ---- tables -----------------------------------------------------------------------------------------------------


class TableShards:
    """A table in one or many files of Parquet, CSV or TSV, read part by part; a row group of Parquet is a shard.

    Folders named ``key=value`` add a column. All files must have the columns of the first.

    Parameters
    ----------
    places : the files, as for :func:`find_files`.
    delimiter : what separates the values of CSV files.
    memory : bytes that rows may take while they are read, which bounds how many are read at a time.

    Attributes
    ----------
    names : the file of each shard.
    sizes : its rows; those of a CSV file are not known before it was read once.
    columns : all names of columns, those of folders included.
    """

    def __init__(self, places: Place | Iterable[Place], delimiter: str | None = None, memory: int = MEMORY) -> None:
        self.memory = check_count(memory, "`memory`")
        self.system, self.files = find_files(places)
        kind = ENDINGS[Path(self.files[0]).suffix.lower()]
        if kind == "tar":
            raise ValueError(f"a table must be Parquet, CSV or TSV; got {self.files[0]}")
        self.sizes: list[int] | None = None
        self._fragments: list[Any] = []  # of Parquet, one per row group
        self._starts: list[int] = []
        self._delimiter = None if delimiter is None else check_delimiter(delimiter)
        if kind == "csv":
            self.names = self.files
            self.columns = self._csv_columns()
        elif delimiter is not None:
            raise ValueError(
                f"a delimiter is for CSV and TSV files; got {delimiter!r} for {self.files[0]}; leave it out"
            )
        else:
            self._open_parquet()
        self.block_rows = max(1, min(BLOCK_ROWS, self._rows_within(self.memory // 2)))

    def _rows_within(self, memory: int) -> int:
        """How many rows of numbers and short texts so many bytes hold while they are read."""
        return memory // (_BYTES_PER_VALUE * max(1, len(self.columns)))

    def _open_parquet(self) -> None:
        """Read what the files say of themselves: columns, and the rows of each row group."""
        try:
            import pyarrow
            import pyarrow.dataset as datasets
        except ImportError:
            raise ImportError(
                f"reading Parquet needs pandas and pyarrow: pip install 'naysayer[tables]'; got {self.files[0]}"
            ) from None
        scan = datasets.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        form = datasets.ParquetFileFormat(default_fragment_scan_options=scan)
        with parsing(self.files[0], "Parquet"):
            found = datasets.dataset(self.files, format=form, filesystem=self.system, partitioning="hive")
        self.names, self.sizes = [], []
        self.columns = [name for name in found.schema.names if not is_index(name)]
        same: Any = None
        for fragment in found.get_fragments():
            with parsing(fragment.path, "Parquet"):
                schema, groups = _without_index(fragment.physical_schema), fragment.split_by_row_group()
            same = schema if same is None else same
            if (joined := _joined(same, schema)) is None:
                raise ValueError(f"{fragment.path} must have the columns of {self.files[0]}; {_differs(same, schema)}")
            same = joined
            start = 0
            for group in groups:
                n = group.row_groups[0].num_rows
                self.names.append(fragment.path)
                self.sizes.append(n)
                self._fragments.append(group)
                self._starts.append(start)
                start += n
        folders = [found.schema.field(name) for name in self.columns if name not in same.names]
        self._schema = pyarrow.schema([*same, *folders])
        if not sum(self.sizes):
            raise ValueError(f"a stream must hold at least one row; got none in {some(self.files)}")

    def _csv_columns(self) -> list[str]:
        """Read the names of the columns from every file."""
        columns: list[str] = []
        for path in self.files:
            with self._open(path) as file:
                names, _ = next(csv_blocks(file, path, self._separator(path)), ([], []))
            if not names:
                raise ValueError(f"{path} must hold a table; it is empty")
            columns = columns or names
            if names != columns:
                raise ValueError(f"{path} must have the columns of {self.files[0]}, {some(columns)}; got {some(names)}")
        repeated = [name for name, count in Counter(columns).items() if count > 1]
        if repeated:
            raise ValueError(
                f"{self.files[0]} must name each column once; got {repeated[0]!r} more than once; rename one"
            )
        return columns

    def _separator(self, path: str) -> str:
        return self._delimiter or ("\t" if path.lower().endswith(".tsv") else ",")

    @contextlib.contextmanager
    def _open(self, path: str) -> Iterator[Any]:
        with opened(path, self.system) as file:
            try:
                yield file
            except UnicodeDecodeError as error:
                raise ValueError(f"{path} must be text in UTF-8; {error.reason}; save it as UTF-8") from None

    def pieces(self, shard: int, columns: Sequence[str] | None = None, label: str | None = None) -> Iterator[Piece]:
        """Read a shard: some columns, or all but the label, and the label as different values and their places."""
        for name in [*(columns or ()), *([] if label is None else [label])]:
            if name not in self.columns:
                raise ValueError(
                    f"the table must have a column {near(name, self.columns)}; it has {some(self.columns)}"
                )
        wanted = [name for name in self.columns if name != label] if columns is None else list(columns)
        read = self._parquet_pieces if self._fragments else self._csv_pieces
        yield from read(shard, wanted, label)

    def _parquet_pieces(self, shard: int, columns: list[str], label: str | None) -> Iterator[Piece]:
        import pyarrow

        path, first = self.names[shard], self._starts[shard]
        wanted = list(dict.fromkeys([*columns, *([] if label is None else [label])]))
        folder = Path(path).parent if self.system is None else None
        with reading(path, "Parquet"):
            batches = self._fragments[shard].to_batches(
                schema=self._schema, columns=wanted, batch_size=self.block_rows, batch_readahead=1, fragment_readahead=1
            )
        while True:
            with reading(path, "Parquet"):
                batch = next(batches, None)
            if batch is None:
                return
            found = {name: pyarrow.chunked_array([batch.column(name)]) for name in wanted}
            table = DataTable({name: arrow_column(found[name], name, path) for name in columns}, folder)
            told = None
            if label is not None:
                coded = found[label].combine_chunks().dictionary_encode(null_encoding="encode")
                values = arrow_column(pyarrow.chunked_array([coded.dictionary]), label, path).tolist()
                told = [None if v != v else v for v in values], coded.indices.to_numpy().astype(np.int64)
            yield Piece(first, table, told)
            first += batch.num_rows

    def _csv_pieces(self, shard: int, columns: list[str], label: str | None) -> Iterator[Piece]:
        path, first = self.names[shard], 0
        folder = Path(path).parent if self.system is None else None
        with still_there(path), self._open(path) as file:
            for names, rows in csv_blocks(file, path, self._separator(path), self.block_rows):
                if names != self.columns:
                    raise ValueError(
                        f"{path} must stay as it is while it is read; its columns have changed; begin anew"
                    )
                if not rows:
                    continue
                n, by_name = len(rows), dict(zip(names, zip(*rows)))
                rows.clear()
                told = None if label is None else _coded(by_name[label])
                table = DataTable({name: np.array(by_name.pop(name), dtype=object) for name in columns}, folder)
                del by_name
                piece = [Piece(first, table, told)]
                del table, told
                yield piece.pop()  # none of it is kept while the next rows are read
                first += n

    def sample(self, n_rows: int | None, without: str) -> DataTable:
        """Give some rows, the first ones of shards all over the table, by which to tell what its columns are.

        None takes as many as memory holds, from 1,000 to 50,000.
        """
        n_rows = min(SAMPLE_ROWS, max(_FEWEST_SAMPLED, self._rows_within(self.memory))) if n_rows is None else n_rows
        shards = np.unique(np.linspace(0, len(self.names) - 1, 64).astype(int))
        each = -(-n_rows // len(shards))
        found: list[DataTable] = []
        for shard in shards:
            left = each
            for piece in self.pieces(int(shard), label=without):
                few = {k: v[:left].copy() for k, v in piece.table.columns.items()}  # a view would keep the whole block
                found.append(DataTable(few, piece.table.folder))
                left -= found[-1].n_rows
                if left <= 0:
                    break
        names = [name for name in self.columns if name != without]
        return DataTable({name: np.concatenate([t.columns[name] for t in found]) for name in names}, found[0].folder)

    def digest(self) -> str:
        """Give what tells these files from others: their names, sizes and times."""
        return digest_of(self.files, self.system)


def _without_index(schema: Any) -> Any:
    """Leave out the indices of pandas, which some of its files have and others not."""
    import pyarrow

    return pyarrow.schema([field for field in schema if not is_index(field.name)])


def _joined(one: Any, other: Any) -> Any:
    """Give the schema that holds the values of two, or None: whole numbers become floats where one file has these."""
    import pyarrow

    if one.names != other.names:
        return None
    fields = []
    for a, b in zip(one, other):
        kinds = [kind for kind in dict.fromkeys((a.type, b.type)) if not pyarrow.types.is_null(kind)]
        numbers = [pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) for kind in kinds]
        if len(kinds) > 1 and all(numbers):
            kinds = [pyarrow.int64() if all(map(pyarrow.types.is_signed_integer, kinds)) else pyarrow.float64()]
        if len(kinds) > 1:
            return None
        fields.append(pyarrow.field(a.name, *kinds or [a.type]))
    return pyarrow.schema(fields)


def _differs(one: Any, other: Any) -> str:
    """Say where two schemas differ."""
    for name in one.names:
        if name not in other.names:
            return f"it has no column {name!r}"
        if one.field(name).type != other.field(name).type:
            return f"column {name!r} is {other.field(name).type} there, and {one.field(name).type} in the first"
    extra = [name for name in other.names if name not in one.names]
    return f"it has a column {extra[0]!r} more" if extra else "they are in another order"


def _coded(values: Iterable[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    place: dict[Any, int] = {}
    codes = np.array([place.setdefault(value, len(place)) for value in values], dtype=np.int64)
    return list(place), codes


@contextlib.contextmanager
def still_there(path: str) -> Iterator[None]:
    """Say so where a file has gone that was there."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"no file at {path}; it was there when reading began") from None


@contextlib.contextmanager
def reading(path: str, kind: str) -> Iterator[None]:
    """Say so where a file has gone that was there, or is damaged."""
    try:
        with still_there(path):
            yield
    except FileNotFoundError:
        raise
    except Exception as error:
        with parsing(path, kind):
            raise error


@contextlib.contextmanager
def opened(path: str, system: Any) -> Iterator[Any]:
    """Open a file of this machine, or of a file system of fsspec."""
    with open(path, "rb") if system is None else system.open(path, "rb") as file:
        yield file


def digest_of(files: list[str], system: Any) -> str:
    """Give what tells files from others: their names, sizes and times."""
    digest = hashlib.sha256()
    for path in files:
        info = {} if system is None else system.info(path)
        stat = Path(path).stat() if system is None else None
        told: tuple[Any, ...] = (stat.st_size, stat.st_mtime_ns) if stat else (info.get("size"), str(_version(info)))
        digest.update(repr((path, told)).encode())
    return digest.hexdigest()


def _version(info: dict[str, Any]) -> Any:
    """Give what a file system says that tells one content of a file from another: a time, or a tag."""
    named = ("mtime", "ETag", "etag", "LastModified", "last_modified", "updated", "created")
    return next((info[name] for name in named if info.get(name) is not None), info)


# ---- labels -----------------------------------------------------------------------------------------------------


class StreamLabels:
    """A column of labels, of which each different value is read once.

    Parameters
    ----------
    pieces : for each shard its name and its labels: different values, which of them each row has, and the first row's
        number in the file.
    column, classes, ordinary : as for :func:`~naysayer.data.labels.read_labels`.

    Attributes
    ----------
    classes : the K names.
    said : how the labels were read, in a sentence.
    sizes : rows of each shard.
    """

    def __init__(
        self,
        pieces: Iterable[tuple[str, Iterable[tuple[list[Any], NDArray[np.int64], int]]]],
        column: str,
        classes: Sequence[Any] | None = None,
        ordinary: bool = False,
    ) -> None:
        self.column = column
        self._place: dict[Any, int] = {}
        seen: list[tuple[str, int]] = []  # where each value occurs first
        counts: Counter[Any] = Counter()
        most = MOST_LABELS
        self.sizes: list[int] = []
        for name, blocks in pieces:
            self.sizes.append(0)
            for values, codes, first in blocks:
                self.sizes[-1] += len(codes)
                for value, n in zip(values, np.bincount(codes, minlength=len(values)).tolist()):
                    counts[value] += n
                for code, value in enumerate(values):
                    if value not in self._place:
                        self._place[value] = len(seen)
                        seen.append((name, first + int(np.argmax(codes == code))))
                if len(seen) > most:
                    most = self._most(classes)
                if len(seen) > most:
                    raise ValueError(
                        f"column {column!r} must hold labels, which repeat themselves; got more than {most:,} "
                        f"different values; is it the right column?"
                    )
        if not sum(self.sizes):
            raise ValueError("a stream must hold at least one row; got only the names of columns")
        distinct = np.empty(len(seen), dtype=object)
        distinct[:] = list(self._place)
        try:
            self._y_bar, self.classes, _ = read_labels(DataTable({column: distinct}), column, classes, ordinary)
        except ValueError as error:
            at = re.search(r"\bat row (\d+)", str(error))
            if at is None:
                told = str(error).replace(f"all {len(seen)} rows", f"all {sum(self.sizes):,} rows")
                raise ValueError(told) from None
            name, row = seen[int(at[1])]
            raise ValueError(f"{name}: {str(error).replace(at[0], f'at row {row}')}") from None
        self.said = self._sentence(counts, ordinary)
        self._times = np.array([counts[value] for value in self._place], dtype=np.int64)

    def hardly_named(self) -> list[str]:
        """Warn of classes that hardly any label names, as :func:`naysayer.data.labels.hardly_named` does."""
        return hardly_named(self._y_bar, self.classes, self._times)

    def _most(self, classes: Sequence[Any] | None) -> int:
        """How many different labels there may be: more of them if they are sets of far fewer classes."""
        try:
            names = named_classes(self._place) if classes is None else classes
        except ValueError:  # no labels as we read them
            return MOST_LABELS
        if 10 * len(names) >= len(self._place):
            return MOST_LABELS
        return max(MOST_LABELS, min(MOST_SETS, _BYTES_OF_SETS // len(names)))

    def _sentence(self, counts: Counter[Any], ordinary: bool) -> str:
        """Say how many labels there are of each kind."""
        y = self._y_bar if self._y_bar.ndim == 2 else np.eye(len(self.classes), dtype=bool)[self._y_bar]
        kinds: Counter[str] = Counter()
        marked = ordinary or any(str(value).lstrip().startswith("!") for value in counts)
        for (value, n), size in zip(counts.items(), y.sum(axis=1).tolist()):
            kind = kind_of(str(value).strip(), size, len(self.classes)) if marked else "not this class"
            kinds[repr(kind) if size else "that say nothing"] += n
        said = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
        return f"labels: {said}" + ("" if marked else " (no '!' found; pass --ordinary if they say what each row is)")

    def of(self, values: list[Any], codes: NDArray[np.int64], name: str) -> Array:
        """Give the labels of rows, (b,) or (b, K), from their different values and which of them each has."""
        try:
            places = np.array([self._place[value] for value in values], dtype=np.int64)
        except KeyError as error:
            raise ValueError(
                f"{name} must stay as it is while it is read; got the label {error}, which is new; begin anew"
            ) from None
        return self._y_bar[places[codes]]


def table_labels(
    shards: TableShards, column: str, classes: Sequence[Any] | None = None, ordinary: bool = False
) -> StreamLabels:
    """Read the labels of a table, of Parquet no other column; the shards then know their sizes."""

    def of(shard: int) -> Iterator[tuple[list[Any], NDArray[np.int64], int]]:
        for piece in shards.pieces(shard, columns=[], label=column):
            assert piece.labels is not None
            yield *piece.labels, piece.first

    found = StreamLabels(((name, of(i)) for i, name in enumerate(shards.names)), column, classes, ordinary)
    shards.sizes = found.sizes
    return found
