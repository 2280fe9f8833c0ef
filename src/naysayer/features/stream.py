"""Data larger than memory into batches: tables, tars of images, or whatever gives batches."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from naysayer.common.checks import to_numpy
from naysayer.data.stream import Place, StreamLabels, TableShards, find_files, table_labels
from naysayer.data.stream_images import TarShards
from naysayer.engine.shards import Block, rows_of
from naysayer.engine.stream import LEG_ROWS, MEMORY, Stream
from naysayer.features.tables import Columns, TableEncoder
from naysayer.labels.encoding import encode_labels


class EncodedShards:
    """A table's shards as numbers and labels.

    Parameters
    ----------
    tables : the files.
    encoder : fitted.
    labels : of the table.
    """

    def __init__(self, tables: TableShards, encoder: TableEncoder, labels: StreamLabels) -> None:
        self.tables, self.encoder, self.labels = tables, encoder, labels
        self.names, self.sizes = tables.names, tables.sizes
        self.classes, self.n_classes = labels.classes, len(labels.classes)

    def blocks(self, shard: int) -> Iterator[Block]:
        """Read a shard and encode it."""
        name = self.names[shard]
        for piece in self.tables.pieces(shard, self.encoder.columns, self.labels.column):
            assert piece.labels is not None
            with rows_of(name, piece.first):
                X = self.encoder.transform(piece.table)
            block = [Block(X, self.labels.of(*piece.labels, name), piece.first)]
            del X, piece
            yield block.pop()  # nothing of it is kept while the next rows are read

    def digest(self) -> str:
        """Give what tells this data from other data."""
        return f"{self.tables.digest()} {self.encoder.to_dict()} {self.classes}"


class BatchShards:
    """What gives batches (X, y_bar), such as a list of arrays or a ``DataLoader``: one is a shard, or each of a list.

    Parameters
    ----------
    batches : gives the same batches in the same order every time it is iterated over; or a function that makes such.
    classes : the K class values.
    digest : tells these batches from others, for checkpoints.
    """

    sizes: list[int] | None = None

    def __init__(
        self, batches: Iterable[Any] | Callable[[], Iterable[Any]], classes: ArrayLike, digest: str | None = None
    ) -> None:
        given: Any = batches
        self.batches: list[Any] = list(given) if _are_shards(given) else [given]
        for one in self.batches:
            if not callable(one) and iter(one) is one:
                raise ValueError("batches must be there to be read several times; got an iterator; pass what makes it")
            if type(getattr(one, "sampler", None)).__name__ == "RandomSampler":
                raise ValueError(
                    "a DataLoader must give its rows in one order; pass shuffle=False: the stream shuffles them"
                )
        self.classes, self.told = to_numpy(classes), digest
        kinds = [type(one).__name__ for one in self.batches]
        self.names = kinds if len(kinds) == 1 else [f"{kind} {i}" for i, kind in enumerate(kinds)]
        self.n_classes = len(self.classes)
        self._first: dict[int, int] = {}  # the first batch of each shard, as a checksum
        self._sets: bool | None = None

    def blocks(self, shard: int) -> Iterator[Block]:
        """Take batches, class values becoming class indices."""
        n, batches = 0, self.batches[shard]
        for batch in batches() if callable(batches) else batches:
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise ValueError(f"each batch must be a pair (X, y_bar); got {type(batch).__name__}")
            X = np.ascontiguousarray(to_numpy(batch[0]))
            if len(X) == len(batch[1]) == 0:
                continue
            with rows_of(self.names[shard], n):
                labels, _ = encode_labels(batch[1], self.classes)
            if n == 0 and (told := zlib.crc32(X.tobytes())) != self._first.setdefault(shard, told):
                raise ValueError(
                    "batches must be the same in every pass; the first has changed; let nothing shuffle them"
                )
            self._sets = labels.ndim == 2 if self._sets is None else self._sets
            if (labels.ndim == 2) != self._sets:
                raise ValueError("all batches must have labels of one form, classes or ruled-out rows; got both")
            yield Block(X, labels, n)
            n += len(X)

    def digest(self) -> str:
        """Give what tells this data from other data, if it was told: batches from anywhere cannot be known again."""
        if self.told is None:
            raise ValueError(
                "to resume from a checkpoint, a stream must be of files, or of batches that `digest` tells from others"
            )
        return f"{self.told} {self.classes.tolist()}"


def _are_shards(batches: Any) -> bool:
    """Whether these are several things that give batches, not batches."""
    return (
        isinstance(batches, (list, tuple))
        and bool(batches)
        and all(
            callable(one)
            or (hasattr(one, "__iter__") and not isinstance(one, (list, tuple)) and not hasattr(one, "shape"))
            for one in batches
        )
    )


def open_stream(
    source: Place | Sequence[Place] | Iterable[Any] | Callable[[], Iterable[Any]],
    *,
    label: str | None = None,
    classes: ArrayLike | None = None,
    ordinary: bool = False,
    columns: Columns | None = None,
    delimiter: str | None = None,
    size: int | None = None,
    memory: int = MEMORY,
    leg_rows: int = LEG_ROWS,
    part: tuple[int, int] = (0, 1),
    digest: str | None = None,
    batch_size: int = 256,
) -> Stream:
    """Open data that need not fit into memory, for :meth:`ComplementaryClassifier.fit` and :meth:`Population.fit`.

    Parameters
    ----------
    source : Parquet, CSV or TSV files, or tars of images: a path, a folder, a pattern, an address that fsspec knows
        (``s3://...``), or several of these; or what gives batches (X, y_bar), such as a ``DataLoader``, or a list of
        such, each a shard.
    label : the column that holds the labels; in tars, the ending of the files that do, "cls" if None.
    classes : the class values; None takes those that occur in files.
    ordinary : labels without ``!`` say what a row is.
    columns : how to read columns, where detection would err.
    delimiter : what separates the values of CSV files.
    size : pixels of a side that images are brought to.
    memory : bytes for the two windows in which rows are shuffled; how many rows are read at a time follows from it.
    leg_rows, part, batch_size : as for :class:`~naysayer.engine.stream.Stream`.
    digest : a text that identifies the batches; without it, training on them cannot resume.

    Examples
    --------
    >>> stream = open_stream([(np.zeros((2, 3)), ["!cat", "dog"])] * 5, classes=["cat", "dog", "emu"])
    >>> stream.survey().n_rows
    10
    """
    options: dict[str, Any] = {"memory": memory, "leg_rows": leg_rows, "part": part, "batch_size": batch_size}
    places: Any = [source] if isinstance(source, (str, Path)) else source
    if callable(places) or not (isinstance(places, (list, tuple)) and places and isinstance(places[0], (str, Path))):
        if classes is None:
            raise ValueError("`classes` must name all classes where batches are streamed")
        return Stream(BatchShards(places, classes, digest), **options)
    if digest is not None:
        raise ValueError("`digest` must be left out for files, which are known by their names, sizes and times")
    named = None if classes is None else to_numpy(classes).tolist()
    if Path(find_files(places)[1][0]).suffix.lower() == ".tar":
        return Stream(TarShards(places, label or "cls", named, ordinary, size, memory), **options)
    if label is None:
        raise ValueError("`label` must name the column that holds the labels")
    return Stream(encoded_table(TableShards(places, delimiter, memory), label, named, ordinary, columns), **options)


def encoded_table(
    tables: TableShards,
    label: str,
    classes: Sequence[Any] | None = None,
    ordinary: bool = False,
    columns: Columns | None = None,
    device: str = "auto",
    views: int | None = None,
) -> EncodedShards:
    """Read a table's labels, and tell by a sample of its rows how its columns become numbers."""
    labels = table_labels(tables, label, classes, ordinary)
    encoder = TableEncoder(device=device, views=views)
    encoder.fit(tables.sample(None, without=label), columns or Columns())
    return EncodedShards(tables, encoder, labels)
