"""The command that learns: `train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from naysayer import names
from naysayer.cli import trainers
from naysayer.cli.console import (
    Alpha,
    Categorical,
    Classes,
    Delimiter,
    Device,
    Drop,
    Force,
    Image,
    Json,
    Memory,
    Numeric,
    Ordinary,
    Text,
    Transition,
    Views,
    check_overwriting,
    check_report,
    check_writable,
    is_store,
    is_streamed,
    numbers,
    optional_count,
    print_json,
    read_matrix,
    refuse_options,
    said_of_columns,
    warnings_as_lines,
    words,
)
from naysayer.common.launched import launched

# Options that a store's training takes.
FOR_STORES = {"table", "out", "network", "recipe", "epochs", "seed", "force", "device", "as_json", "report", "views"}


def _methods(incomplete: str) -> list[str]:
    """Complete the last of several methods, separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    known = ("auto", *names.OBJECTIVES, "linear", *names.OTHERS)
    return [f"{before}{comma}{name}" for name in known if name.startswith(last)]


def _networks(incomplete: str) -> list[str]:
    return [name for name in names.NETWORKS if name.startswith(incomplete)]


def _recipes(incomplete: str) -> list[str]:
    return [name for name in ("auto", *names.RECIPES) if name.startswith(incomplete)]


def train(
    context: typer.Context,
    table: Annotated[
        list[str],
        typer.Argument(
            help="CSV, TSV, Parquet or npz file, one row per example, or several of the first three, a folder or a "
            "pattern; or a store, such as answers.db."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    label: Annotated[
        str | None, typer.Option(help="Column that holds the labels; required for a table, not for a store.")
    ] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    drop: Drop = "",
    categorical: Categorical = "",
    numeric: Numeric = "",
    image: Image = None,
    text: Text = None,
    views: Views = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that says which rows are about the same example: they are held out together, and the column "
            "is not learned from; default: the only column of pictures or texts.",
        ),
    ] = None,
    delimiter: Delimiter = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto, or some of linear, forest, boosting, neighbours, discriminant, and of the methods in "
            "docs/methods.md: forward, ascent, scl-nl, ...",
            autocompletion=_methods,
        ),
    ] = "auto",
    network: Annotated[
        str,
        typer.Option(
            help="mlp or linear; for a store of images also convolution, pooled, resnet8, resnet18, resnet34 or "
            "efficientnet-lite0.",
            autocompletion=_networks,
        ),
    ] = "mlp",
    recipe: Annotated[
        str,
        typer.Option(
            help="plain; consistency: several views of each row, which must agree; progressive: proden's targets, kept "
            "from epoch to epoch; auto: consistency for residual and pretrained networks.",
            autocompletion=_recipes,
        ),
    ] = "auto",
    hidden: Annotated[str, typer.Option(help="Widths of the hidden layers, separated by commas.")] = "128",
    lr: Annotated[str, typer.Option(help="Learning rates, separated by commas; one member for each.")] = "auto",
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of epochs; default: 100, at most 30 with --method auto and 60 for linear, 30 for a "
            "store; consistency, and residual and pretrained networks, have their own."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs per member, each of which holds out other labels; default: depends on the rows."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no new member starts and networks stop training.")
    ] = None,
    alpha: Alpha = None,
    transition: Transition = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew instead of resuming an interrupted training.")
    ] = False,
    force: Force = False,
    report: Annotated[
        Path | None,
        typer.Option(help="HTML file to write: how good the model is, what it predicts, where it is wrong."),
    ] = None,
    memory: Memory = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, initial weights and shuffles.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train on a table whose labels say what each row is not (`cat`, or `!cat` mixed with plain `dog`), or on a store.

    After an interruption, the same command resumes the training on a table.
    """
    check_writable(out)
    max_epochs = optional_count(epochs, "--epochs")
    check_overwriting(out, force)
    if report is not None:
        check_report(report, out)
    place, streamed = table[0], is_streamed(table, memory)
    if launched() and is_store(place):
        raise ValueError(f"torchrun is for tables; {place} is none; train on it without torchrun")
    learned: trainers.Learned | None
    if is_store(place) and len(table) == 1:
        refuse_options(context, FOR_STORES, place)
        learned = trainers.on_store(place, network, recipe, max_epochs, seed, device, views)
    else:
        settings: dict[str, Any] = {
            "method": words(method) or "auto",
            "network": network,
            "recipe": recipe,
            "hidden": tuple(numbers(hidden, "--hidden", int)),
            "lr": lr if lr == "auto" else numbers(lr, "--lr"),
            "max_epochs": max_epochs or "auto",
            "n_seeds": optional_count(seeds, "--seeds") or "auto",
            "time_limit": time_limit,
            "alpha": alpha,
            "transition": read_matrix(transition),
            "device": device,
            "checkpoint": out / "checkpoint",
            "random_state": seed,
        }
        columns = said_of_columns(drop, categorical, numeric, image, text)
        labels = trainers.LabelOptions(label, words(classes), ordinary, delimiter)
        if streamed and report is not None:
            raise ValueError("--report needs all rows in memory; leave it out, or train on one file")
        if streamed and group is not None:
            raise ValueError("--group needs all rows in memory; leave it out, or train on one file")
        if streamed:
            learned = trainers.on_stream(table, labels, columns, settings, views, memory, restart)
        else:
            learned = trainers.on_table(place, labels, columns, group, settings, views, restart)
    if learned is not None:
        _save(learned, out, as_json)
    if learned is not None and report is not None:  # last: nothing that was learned or said can be lost by it
        _write_report(learned, report, place, seed)
        if not as_json:
            print(f"report in {report}")


def _save(learned: trainers.Learned, out: Path, as_json: bool) -> None:
    """Save a model, and print what its training came to."""
    learned.model.save(out)
    if as_json:
        print_json({"model": str(out), "classes": learned.model.model.classes_} | learned.about)
    else:
        for line in learned.lines:
            print(line)
        print(f"saved in {out}; next: naysayer predict {out} {learned.kind}")


def _write_report(learned: trainers.Learned, path: Path, place: str, seed: int) -> None:
    """Write the page about a model."""
    from naysayer.report import write

    assert learned.evidence is not None
    with warnings_as_lines():
        write(path, learned.model, learned.evidence(), source=_name_of(place), seed=seed)


def _name_of(place: str) -> str:
    """Name a file, or the database of an address without who opens it with which password."""
    return urlsplit(place).path.strip("/") or "a store" if "://" in place else Path(place).name
