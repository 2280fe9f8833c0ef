"""The command that predicts: `predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysayer.cli.console import (
    Delimiter,
    Device,
    Json,
    Memory,
    ModelFolder,
    is_streamed,
    refuse_given,
    warnings_as_lines,
)
from naysayer.common.words import count

if TYPE_CHECKING:
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

    Features of pictures are kept on the way: after an interruption the same command resumes.
    """
    from naysayer.cli.places import read_examples
    from naysayer.common.cells import csv_text
    from naysayer.common.files import write_text
    from naysayer.features.photos import told_of
    from naysayer.models.encoded import EncodedModel

    trained = EncodedModel.load(model, device, verbose=1)
    place = table[0]
    if trained.encoder.kind != "table":
        given = {"--delimiter": delimiter, "--memory": memory, "a second place": table[1:]}
        refuse_given(given, f"{place} is read by its kind")
    elif is_streamed(table, memory):
        _predict_stream(trained, table, id_column, delimiter, memory, probabilities, as_json, out)
        return
    examples = read_examples(place, trained.encoder.kind, delimiter)
    classes = [str(name) for name in trained.model.classes_]
    shares = [f"P({name})" for name in classes]
    heads = [examples.head, "prediction", "probability"]
    copied = examples.column(id_column, trained.about.get("id"), [*heads, *shares])
    with warnings_as_lines():
        p, failed = trained.predict_readable(examples.values)
    rows: list[list[Any]] = [
        [name, None, None] if i in failed else [name, classes[k], round(float(p[i, k]), 6)]
        for i, (name, k) in enumerate(zip(examples.names, p.argmax(axis=1), strict=True))
    ]
    if copied is not None:
        name, values = copied
        heads.insert(1, name)
        for row, value in zip(rows, values, strict=True):
            row.insert(1, None if value != value else value)  # JSON has no NaN
    if probabilities:
        heads += shares
        rows = [row + [None if i in failed else round(float(v), 6) for v in p[i]] for i, row in enumerate(rows)]
    text = _as_json(heads, rows) if as_json else csv_text([heads, *rows])
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        print(f"{count(len(rows) - len(failed), 'prediction is', 'predictions are')} in {out}", file=sys.stderr)
    if failed:
        has = "has" if len(failed) == 1 else "have"
        print(f"{count(len(failed), 'photo')} {has} no prediction: {told_of(list(failed.values()))}", file=sys.stderr)


def _predict_stream(
    trained: EncodedModel,
    places: list[str],
    id_column: str | None,
    delimiter: str | None,
    memory: int | None,
    probabilities: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Predict tables part by part."""
    from naysayer.cli import stream
    from naysayer.cli.places import column_to_copy

    tables = stream.open_tables(places, delimiter, memory)
    taken = ["row", "prediction", "probability", *(f"P({name})" for name in trained.model.classes_)]
    copied = column_to_copy(tables.columns, id_column, trained.about.get("id"), taken)
    with warnings_as_lines():
        stream.predict(trained, tables, copied, probabilities, as_json, out)


def _as_json(heads: list[str], rows: list[list[Any]]) -> str:
    return json.dumps([dict(zip(heads, row, strict=True)) for row in rows]) + "\n"
