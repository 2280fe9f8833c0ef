"""The command that predicts: `predict`."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from naysayer.cli.console import (
    Delimiter,
    Device,
    Json,
    Memory,
    ModelFolder,
    check_file,
    is_streamed,
    refuse_given,
    warnings_as_lines,
)
from naysayer.common.cells import csv_text
from naysayer.common.files import whole_file
from naysayer.common.words import count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from naysayer.models.encoded import EncodedModel


def predict(
    model: ModelFolder,
    table: Annotated[
        list[str],
        typer.Argument(
            help="Table with the same columns, or several, a folder or a pattern; for a model from a store, a folder, "
            "file, pattern or store of items."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="CSV file to write; default: standard output.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add one column per class with its probability.")
    ] = False,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column to copy to the output; default: the one that is an id."),
    ] = None,
    delimiter: Delimiter = None,
    memory: Memory = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Predict the class of each row of a table, or of each item.

    Features of pictures are cached, so the same command resumes after an interruption.
    """
    from naysayer.features.photos import told_of
    from naysayer.models.encoded import EncodedModel

    if out is not None:
        check_file(out, "--out")
        if any(out.exists() and os.path.exists(place) and os.path.samefile(out, place) for place in table):
            raise ValueError(f"--out must be another file than is predicted; {out} would be overwritten")
    trained = EncodedModel.load(model, device, verbose=1)
    streamed = trained.encoder.kind == "table" and is_streamed(table, memory)
    if trained.encoder.kind != "table":
        given = {"--delimiter": delimiter, "--memory": memory, "a second place": table[1:]}
        refuse_given(given, f"{table[0]} is read by its kind")
    parts: Iterable[Part]
    with warnings_as_lines():
        if streamed:
            heads, parts = _part_by_part(trained, table, id_column, delimiter, memory)
        else:
            heads, parts = _at_once(trained, table[0], id_column, delimiter)
        n, failed = _write(heads, [str(name) for name in trained.model.classes_], parts, probabilities, as_json, out)
    if out is not None:
        print(f"{count(n, 'prediction is', 'predictions are')} in {out}", file=sys.stderr)
    if failed:
        has = "has" if len(failed) == 1 else "have"
        print(f"{count(len(failed), 'photo')} {has} no prediction: {told_of(failed)}", file=sys.stderr)


@dataclass(frozen=True)
class Part:
    """Examples that were predicted.

    Parameters
    ----------
    names : of the examples.
    copied : what is copied beside them.
    p : (N, K) probabilities.
    failed : why rows have none, by the row.
    """

    names: Iterable[Any]
    copied: Iterable[Any] | None
    p: NDArray[np.float32]
    failed: dict[int, str] = field(default_factory=dict)


def _at_once(
    trained: EncodedModel, place: str, id_column: str | None, delimiter: str | None
) -> tuple[list[str], list[Part]]:
    """Predict what is read whole; give the heads of the names and of what is copied, and one part."""
    from naysayer.cli.places import read_examples

    examples = read_examples(place, trained.encoder.kind, delimiter)
    copied = examples.column(id_column, trained.about.get("id"), _taken(examples.head, trained))
    p, failed = trained.predict_readable(examples.values)
    if copied is None:
        return [examples.head], [Part(examples.names, None, p, failed)]
    return [examples.head, copied[0]], [Part(examples.names, copied[1], p, failed)]


def _part_by_part(
    trained: EncodedModel, places: list[str], id_column: str | None, delimiter: str | None, memory: int | None
) -> tuple[list[str], Iterator[Part]]:
    """Open tables that are read part by part; give the heads as :func:`_at_once` does, and the parts as they come."""
    from naysayer.cli import stream
    from naysayer.cli.places import column_to_copy

    tables = stream.open_tables(places, delimiter, memory)
    copied = column_to_copy(tables.columns, id_column, trained.about.get("id"), _taken("row", trained))

    def parts() -> Iterator[Part]:
        n = 0
        for _, piece, p in stream.predictions(trained, tables, copied=copied):
            values = None if copied is None else piece.table.columns[copied].tolist()
            yield Part(range(n, n + len(p)), values, p)
            n += len(p)

    return ["row"] if copied is None else ["row", copied], parts()


def _taken(head: str, trained: EncodedModel) -> list[str]:
    """The heads that the output may have anyway."""
    return [head, "prediction", "probability", *(f"P({name})" for name in trained.model.classes_)]


def _write(
    heads: list[str], classes: list[str], parts: Iterable[Part], probabilities: bool, as_json: bool, out: Path | None
) -> tuple[int, list[str]]:
    """Write predictions as they come; give their number, and why others are missing. A file is there whole, or not."""
    heads = [*heads, "prediction", "probability"] + [f"P({name})" for name in classes] * probabilities
    n, failed = 0, list[str]()
    with _writing(out) as file:
        file.write("[" if as_json else csv_text([heads]))
        for part in parts:
            columns: list[Iterable[Any]] = [part.names]
            if part.copied is not None:
                columns.append(None if _says_nothing(value, as_json) else value for value in part.copied)
            told = [classes[k] for k in part.p.argmax(axis=1)]
            shown = [part.p.max(axis=1), *(part.p.T if probabilities else ())]
            values = [told, *([round(value, 6) for value in column.astype(float).tolist()] for column in shown)]
            columns += [[None if i in part.failed else v for i, v in enumerate(column)] for column in values]
            if as_json:
                named = (dict(zip(heads, row, strict=True)) for row in zip(*columns, strict=True))
                rows = (json.dumps(row, allow_nan=False, default=str) for row in named)
                file.write(", " * (n + len(failed) > 0) + ", ".join(rows))
            else:
                file.write(csv_text(zip(*columns, strict=True)))
            n, failed = n + len(part.p) - len(part.failed), failed + list(part.failed.values())
        if as_json:
            file.write("]\n")
    return n, failed


def _says_nothing(value: Any, as_json: bool) -> bool:
    """Whether a copied value is missing, or is what JSON has no name for."""
    return bool(value != value) or (as_json and isinstance(value, float) and math.isinf(value))


@contextmanager
def _writing(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    with whole_file(out) as temporary, temporary.open("w", encoding="utf8", newline="") as file:
        yield file
