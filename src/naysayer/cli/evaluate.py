"""The command that says how good a model is: `evaluate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysayer.cli.console import (
    Confidence,
    Delimiter,
    Device,
    Json,
    Memory,
    ModelFolder,
    Ordinary,
    is_streamed,
    named_interval,
    percent,
    print_json,
    print_table,
    read_matrix,
    refuse_given,
    warnings_as_lines,
)

if TYPE_CHECKING:
    from naysayer.cli.places import Evaluation


def evaluate(
    model: ModelFolder,
    table: Annotated[
        list[str],
        typer.Argument(
            help="CSV, TSV, Parquet or npz file with labels, several, a folder or a pattern, or a store; not what the "
            "model was trained on."
        ),
    ],
    label: Annotated[
        str | None, typer.Option(help="Column that holds the labels; default: the one of the training.")
    ] = None,
    ordinary: Ordinary = False,
    transition: Annotated[
        Path | None,
        typer.Option(help="Q as for train, a CSV or the JSON of an estimate; default: that of the training."),
    ] = None,
    delimiter: Delimiter = None,
    confidence: Confidence = 0.95,
    memory: Memory = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Estimate a model's accuracy, overall and per class, from labels that say what rows are not."""
    from naysayer.cli.places import AnsweredItems, LabelledTable
    from naysayer.models.encoded import EncodedModel

    trained = EncodedModel.load(model, device, verbose=1)
    place, q = table[0], read_matrix(transition)
    judge: Any = None
    if trained.encoder.kind != "table":
        given: dict[str, Any] = {"--label": label, "--ordinary": ordinary, "--transition": transition}
        given |= {"--delimiter": delimiter, "--memory": memory, "a second place": table[1:]}
        refuse_given(given, f"the answers in {place} say it themselves")
        judge = AnsweredItems.read(place, trained)
    elif not is_streamed(table, memory):
        names = [str(name) for name in trained.model.classes_]
        labelled = LabelledTable.read(place, label or trained.about["label"], names, ordinary, delimiter)
        judge = replace(labelled, transition=q)
    with warnings_as_lines():
        if judge is None:
            from naysayer.cli import stream

            tables = stream.open_tables(table, delimiter, memory)
            found = stream.evaluate(trained, tables, label or trained.about["label"], ordinary, q, confidence)
        else:
            p, failed = trained.predict_readable(judge.examples)
            if failed:
                judge, p = judge.without(failed), p[[row for row in range(len(p)) if row not in failed]]
            found = judge.evaluate(p.argmax(axis=1), trained, confidence)
            if trained.encoder.kind == "table":
                judge.warn_of_rows_trained_on(trained)
    if as_json:
        estimate = {"accuracy": named_interval(found.accuracy), "confidence": confidence, "classes": found.classes}
        print_json(found.about | estimate)
    else:
        _print_evaluation(found, confidence)


def _print_evaluation(found: Evaluation, confidence: float) -> None:
    """Print how good a model is."""
    print(found.said)
    print(f"estimated accuracy: {percent(*found.accuracy)} % ({100 * confidence:g}% interval)\n")
    heads, rows = ["class", "share %", "predicted share %"], []
    for row in found.classes:
        prior = percent(row["prior"], row["prior_low"], row["prior_high"])
        rows.append([row["class"], prior, f"{100 * row['predicted_share']:.1f}"])
    if "recall" not in found.classes[0]:
        print_table(heads, rows)
        return
    for cells, row in zip(rows, found.classes):
        cells.append("-" if row["precision"] is None else percent(*row["precision"]))
        cells.append("-" if row["recall"] is None else f"{100 * row['recall']:.0f}" + "?" * row["recall_rough"])
    print_table([*heads, "right when predicted %", "found %"], rows)
    print("\nAll are estimates from these labels; those of a single class rest on fewer of them.")
    if any(row["recall_rough"] for row in found.classes):
        print("A question mark after found %: a rough estimate; by these labels the class may not occur at all.")
