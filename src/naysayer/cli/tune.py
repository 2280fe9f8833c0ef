"""The command that searches for what learns best: `tune`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysayer.cli.console import (
    Alpha,
    Categorical,
    Checkpoints,
    Classes,
    DataFolder,
    Delimiter,
    Device,
    Drop,
    Force,
    Image,
    Json,
    Numeric,
    Ordinary,
    RayAddress,
    TaskCpus,
    TaskGpus,
    Text,
    Transition,
    check_label,
    check_overwriting,
    check_writable,
    named_interval,
    numbers,
    optional_count,
    percent,
    possible,
    print_json,
    print_table,
    read_matrix,
    said_of_columns,
    who_trains,
    words,
)
from naysayer.common.checks import check_count

if TYPE_CHECKING:
    from naysayer.cli.places import LabelledTable

SHOWN = 10  # trials that are printed


def tune(
    table: Annotated[
        str, typer.Argument(help="CSV, TSV, Parquet or npz file, one row per example; or a data set, such as digits.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the model and the results; finished work in it is not repeated.")
    ],
    label: Annotated[
        str | None, typer.Option(help="Column that holds the labels; those of a data set are drawn.")
    ] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    drop: Drop = "",
    categorical: Categorical = "",
    numeric: Numeric = "",
    image: Image = None,
    text: Text = None,
    delimiter: Delimiter = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="Methods to try, separated by commas: those of train except auto and linear; default: a few."
        ),
    ] = None,
    network: Annotated[
        str | None, typer.Option(help="Of linear, mlp and mlp:256x128 with widths, separated by commas; default: both.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Of plain, consistency and progressive, separated by commas; default: plain and consistency."
        ),
    ] = None,
    lr: Annotated[
        str | None, typer.Option(help="Learning rates to try, separated by commas; default: as suits the recipe.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of a trial that is not stopped; default: as suits the recipe.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs per trial, each of which holds out other labels; default: depends on the rows."),
    ] = None,
    one_in: Annotated[int, typer.Option(help="One trial in this many reaches the next stage.")] = 3,
    judge: Annotated[
        float, typer.Option(help="Share of the labels that judges the winner and has no part in the search.")
    ] = 0.2,
    alpha: Alpha = None,
    transition: Transition = None,
    ray: RayAddress = None,
    task_cpus: TaskCpus = 1,
    task_gpus: TaskGpus = None,
    checkpoints: Checkpoints = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard the search in the folder, and begin anew.")
    ] = False,
    force: Force = False,
    seed: Annotated[
        int, typer.Option(help="Seed of the labels that judge, of splits, initial weights and shuffles.")
    ] = 0,
    device: Device = "auto",
    folder: DataFolder = None,
    as_json: Json = False,
) -> None:
    """Search for the method, network, recipe and rate that learn best from a table's labels; keep the winner's model.

    Complementary labels alone choose, and others judge the winner. Bad trials are stopped early. After an interruption
    the same command resumes.
    """
    from naysayer.experiments import tune as job

    trials = job.list_trials(
        words(method), words(network), words(recipe), numbers(lr, "--lr") if lr is not None else None
    )
    settings: dict[str, Any] = {
        "max_epochs": optional_count(epochs, "--epochs") or "auto",
        "n_seeds": optional_count(seeds, "--seeds") or "auto",
        "alpha": alpha,
        "transition": read_matrix(transition),
        "device": device,
    }
    check_writable(out)
    check_count(seed, "--seed", least=0)
    if restart or not (out / job.SUMMARY).is_file():  # else it is of a search, which is refused if it is another
        check_overwriting(out, force)
    labelled, test = _read(table, label, words(classes), ordinary, delimiter, folder, seed)
    encoder, X = _encoded(labelled, said_of_columns(drop, categorical, numeric, image, text), device)
    settings["standardize"] = not encoder.balanced
    with who_trains(ray, checkpoints, out / "checkpoints", task_cpus, task_gpus, device) as workers:
        if restart:  # now that nothing is refused any more
            job.restart(out)
        found = job.tune(
            X,
            labelled.y_bar,
            len(labelled.classes),
            trials,
            out,
            settings=settings,
            judge=judge,
            one_in=one_in,
            random_state=seed,
            workers=workers,
        )
    _save(found, encoder, labelled, out)
    truth = None if test is None else float((found.model.predict(encoder.transform(test[0])) == test[1]).mean())
    _tell(found, labelled, out, truth, as_json)


def _read(
    place: str,
    label: str | None,
    classes: list[str] | None,
    ordinary: bool,
    delimiter: str | None,
    folder: Path | None,
    seed: int,
) -> tuple[LabelledTable, Any]:
    """Read a table, or a data set, whose labels are drawn, and its test part."""
    import numpy as np

    from naysayer.cli.console import is_store
    from naysayer.cli.places import LabelledTable
    from naysayer.data import datasets
    from naysayer.data.labels import hardly_named
    from naysayer.data.tables import DataTable
    from naysayer.labels.drawing import complement

    if is_store(place):
        raise ValueError(f"tune needs a table or a data set; {place} is a store of answers; naysayer train takes it")
    if place not in datasets.REGISTRY:
        labelled = LabelledTable.read(place, check_label(label), classes, ordinary, delimiter)
        for text in hardly_named(labelled.y_bar, labelled.classes):
            print(f"warning: {text}", file=sys.stderr)
        return labelled, None
    if label is not None:
        raise ValueError(f"--label is for tables; the labels of {place} are drawn; leave it out")
    given = datasets.load(place, None if folder is None else str(folder), download=True)
    train, test = (
        DataTable({f"X[{i}]": column for i, column in enumerate(np.asarray(X.reshape(len(X), -1)).T)}, None)
        for X in (given.X_train, given.X_test)
    )
    y_bar = complement(given.y_train, given.n_classes, random_state=seed)
    said = f"labels: {len(y_bar):,} 'not this class', drawn from seed {seed}"
    return LabelledTable(train, "label", y_bar, list(given.class_names), said), (
        test,
        np.array(given.class_names)[given.y_test],
    )


def _encoded(labelled: LabelledTable, columns: Any, device: str) -> tuple[Any, Any]:
    """Turn the columns of a table into numbers; labels have no part in it."""
    from naysayer.features.tables import TableEncoder

    encoder = TableEncoder(device=device, verbose=1)
    if labelled.label in labelled.examples.columns:
        columns = columns.without(labelled.label)
    return encoder, encoder.fit_transform(labelled.examples, columns)


def _save(found: Any, encoder: Any, labelled: LabelledTable, out: Path) -> None:
    """Save the winner, as `train` saves a model."""
    import numpy as np

    from naysayer.data.digests import remember, row_digests
    from naysayer.data.labels import says_something
    from naysayer.models.encoded import EncodedModel

    found.model.classes_, found.model.classes = np.array(labelled.classes), None
    ids = next(iter([*encoder.ids, *encoder.pictures]), None)
    about = {"label": labelled.label, "id": ids, "interrupted": False}
    known = found.learned[says_something(labelled.y_bar[found.learned])]
    about["rows_learned"] = remember(row_digests(labelled.examples, encoder.columns)[known])
    EncodedModel(found.model, encoder, about).save(out)


def _tell(found: Any, labelled: LabelledTable, out: Path, truth: float | None, as_json: bool) -> None:
    """Say what was found."""
    best = sorted((row for row in found.rows if row.share == 1 and not row.failed), key=lambda row: -row.estimate)
    if as_json:
        rows = [asdict(row) for row in found.rows]
        winner = {name: value for name, value in asdict(found.trial).items() if value == value and value != ""}
        said = {"model": str(out), "winner": winner, "accuracy": named_interval(found.accuracy)}
        print_json(said | {"judges": found.n_judges, "true_accuracy": truth, "trials": rows})
        return
    print(labelled.said)
    stopped = len({row.trial.key for row in found.rows}) - len({row.trial.key for row in best})
    heads = ["method", "network", "recipe", "learning rate", "epochs", "on labels that chose %"]
    cells = [
        [r.method, r.network, r.recipe, "" if r.lr != r.lr else f"{r.lr:g}", str(r.epochs or ""), _percent(r.estimate)]
        for r in best[:SHOWN]
    ]
    print()
    print_table(heads, cells)
    print(f"\n{stopped} more trials were stopped early, or failed; all are in {out / 'trials.csv'}")
    print(f"best: {' '.join(found.trial.key)}")
    judged = f"from {found.n_judges:,} labels that had no part in the search"
    print(f"estimated accuracy: {percent(*found.accuracy)} %, {judged}")
    if truth is not None:
        print(f"true accuracy on the data set's test part: {_percent(truth)} %")
    print(f"saved in {out}; next: naysayer predict {out} TABLE")


def _percent(share: float) -> str:
    return f"{100 * possible(share):.1f}"
