"""The commands about labels: `doctor` and `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from naysayer.cli.console import (
    Categorical,
    Classes,
    Confidence,
    Delimiter,
    Drop,
    Image,
    Json,
    Numeric,
    Ordinary,
    Text,
    Transition,
    column_lines,
    percent,
    print_json,
    print_table,
    read_matrix,
    said_of_columns,
    words,
)

KINDS = {
    "ordinary": "“it is c”",
    "yes_no": "“is it c?” of a random class, yes or no",
    "complementary": "“it is not c”",
}


def plan(
    classes: Annotated[int, typer.Option(help="How many classes there are.")],
    margin: Annotated[float, typer.Option(help="Half the width of the interval that you want, such as 0.01.")] = 0.01,
    accuracy: Annotated[float, typer.Option(help="The accuracy that you expect.")] = 0.9,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Say how many labels of each kind estimate an accuracy to within a margin."""
    from naysayer.measure.planning import labels_needed

    needed = labels_needed(classes, margin, accuracy, confidence)
    if as_json:
        about = {"classes": classes, "margin": margin, "accuracy": accuracy, "confidence": confidence}
        print_json(about | {"labels": needed._asdict()})
        return
    print(
        f"To know an accuracy near {100 * accuracy:g} % to within ± {100 * margin:g} points, "
        f"{classes} classes, {100 * confidence:g}% confidence:\n"
    )
    counts = {text: getattr(needed, kind) for kind, text in KINDS.items()}
    rows = [[text, f"{count:,}", f"{count / needed.ordinary:.1f}"] for text, count in counts.items()]
    print_table(["label", "how many", "times the ordinary"], rows)
    print("\nA yes/no answer is worth taking where it costs less than an ordinary label by more than that factor.")


def doctor(
    table: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or npz file with a column of labels.")],
    label: Annotated[str | None, typer.Option(help="The column of labels; default: the only one.")] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    drop: Drop = "",
    categorical: Categorical = "",
    numeric: Numeric = "",
    image: Image = None,
    text: Text = None,
    transition: Transition = None,
    delimiter: Delimiter = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Check labels: counts, class shares, whether they can be uniform, and what to use; say how columns are read."""
    from naysayer.data import tables
    from naysayer.data.labels import read_labels
    from naysayer.features.tables import TableEncoder
    from naysayer.measure.doctor import Finding, examine

    matrix = None if transition is None else read_matrix(transition)
    data = tables.read_table(table, delimiter)
    if label is None:
        if len(data.columns) > 1:
            raise ValueError(f"--label must name one of the columns {', '.join(data.columns)}")
        label = next(iter(data.columns))
    y_bar, names, said = read_labels(data, label, words(classes), ordinary)
    report = examine(y_bar, len(names), names, confidence, matrix)
    said_of = said_of_columns(drop, categorical, numeric, image, text)
    columns = TableEncoder().read(data, said_of.without(label))
    report.findings.extend(Finding("warning", f"{warning}.") for warning in columns.warnings)
    if as_json:
        print_json({"labels": said, "columns": columns.readings} | report.to_dict())
        return
    print(f"{said}\n")
    rows = [[c.name, f"{c.ruled_out:,}", f"{c.named:,}", percent(c.prior, c.low, c.high)] for c in report.classes]
    print_table(["class", "ruled out", "named", "share of the rows %"], rows)
    print()
    for finding in report.findings:
        print(f"{finding.level:>8}: {finding.text}")
    print()
    for line in report.advice:
        print(f"  {line}")
    if columns.readings:
        print()
    for line in column_lines(columns.readings):
        print(line)
