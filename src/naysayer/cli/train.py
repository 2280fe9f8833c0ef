"""The command that learns: `train`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

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
    check_label,
    check_overwriting,
    check_report,
    check_writable,
    column_lines,
    is_store,
    is_streamed,
    named_interval,
    numbers,
    optional_count,
    percent,
    possible,
    print_json,
    read_matrix,
    refuse_options,
    said_of_columns,
    table_lines,
    warnings_as_lines,
    words,
)
from naysayer.common.launched import launched

if TYPE_CHECKING:
    from naysayer.cli.places import LabelledTable
    from naysayer.collect.learn import Trained
    from naysayer.features.tables import Columns, TableEncoder
    from naysayer.models.classifier import ComplementaryClassifier
    from naysayer.models.encoded import EncodedModel

# Those that the shell completes.
METHODS = (
    "auto",
    "free",
    "max",
    "ascent",
    "forward",
    "pairwise",
    "scl-nl",
    "scl-exp",
    "mcl-mae",
    "mcl-exp",
    "mcl-log",
    "l-uw",
    "l-w",
    "op",
    "op-w",
    "scarce",
    "cpe-i",
    "cpe-f",
    "cpe-t",
    "proden",
    "linear",
    "forest",
    "boosting",
    "neighbours",
    "discriminant",
)
NETWORKS = ("mlp", "linear", "convolution", "pooled", "resnet8", "resnet18", "resnet34")
RECIPES = ("auto", "plain", "consistency", "progressive")
FOR_STORES = {
    "table",
    "out",
    "network",
    "recipe",
    "epochs",
    "seed",
    "force",
    "device",
    "as_json",
    "report",
    "views",
}  # options that a store's training takes


def _methods(incomplete: str) -> list[str]:
    """Complete the last of several methods, separated by commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in METHODS if name.startswith(last)]


def _networks(incomplete: str) -> list[str]:
    return [name for name in NETWORKS if name.startswith(incomplete)]


def _recipes(incomplete: str) -> list[str]:
    return [name for name in RECIPES if name.startswith(incomplete)]


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
        str | None, typer.Option(help="The column that holds the labels; a table needs it, a store has none.")
    ] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    drop: Drop = "",
    categorical: Categorical = "",
    numeric: Numeric = "",
    image: Image = None,
    text: Text = None,
    views: Views = None,
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
            help="mlp or linear; for a store of images also convolution, pooled, resnet8, resnet18 or resnet34.",
            autocompletion=_networks,
        ),
    ] = "mlp",
    recipe: Annotated[
        str,
        typer.Option(
            help="plain; consistency: several views of each row, which must agree; progressive: proden's targets, kept "
            "from epoch to epoch; auto: consistency for residual networks.",
            autocompletion=_recipes,
        ),
    ] = "auto",
    hidden: Annotated[str, typer.Option(help="Widths of the hidden layers, separated by commas.")] = "128",
    lr: Annotated[str, typer.Option(help="Learning rates, separated by commas; each makes a member.")] = "auto",
    epochs: Annotated[
        int | None, typer.Option(help="Maximum number of epochs; default: 100, or as suits the recipe.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs per member, each of which holds out other labels; default: by the rows.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds after which no member is begun and networks stop.")
    ] = None,
    alpha: Alpha = None,
    transition: Transition = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew where an interrupted training would be resumed.")
    ] = False,
    force: Force = False,
    report: Annotated[
        Path | None, typer.Option(help="HTML file to write: how good the model is, what it predicts, where it errs.")
    ] = None,
    memory: Memory = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, starts and shuffles.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train on a table whose labels say what each row is not (`cat`, or `!cat` mixed with plain `dog`), or on a store.

    Training on a table resumes after an interruption when the same command is run again.
    """

    check_writable(out)
    max_epochs, n_views = optional_count(epochs, "--epochs"), 1 if views is None else views
    check_overwriting(out, force)
    if report is not None:
        check_report(report, out)
    place, streamed = table[0], is_streamed(table, memory)
    if launched() and is_store(place):
        raise ValueError(f"torchrun is for tables; {place} is none; train on it without torchrun")
    if is_store(place) and len(table) == 1:
        refuse_options(context, FOR_STORES, place)
        limit = {} if max_epochs is None else {"max_epochs": max_epochs}
        how = {"network": network, "recipe": recipe, "random_state": seed, "device": device, "verbose": 1}
        from_store = _train_on_store(place, views=n_views, **how, **limit)
        trained: EncodedModel = from_store
        about, lines, unit = *_tell_of_store(from_store), "ITEMS"
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
        first = not launched() or _is_first()
        if not (first or streamed):
            _train_along(settings)
            return
        labelled = None if streamed else _read_labelled(place, label, classes, ordinary, delimiter)
        columns = said_of_columns(drop, categorical, numeric, image, text)
        if restart and first:
            _drop_checkpoint(out / "checkpoint")
        if labelled is not None:
            trained, notes = _train_on_table(labelled, columns, settings, n_views)
            n_rows = labelled.examples.n_rows
        else:
            if report is not None:
                raise ValueError("--report needs all rows in memory; leave it out, or train on one file")
            options: dict[str, Any] = {
                "label": label,
                "classes": words(classes),
                "ordinary": ordinary,
                "delimiter": delimiter,
            }
            options["views"] = n_views
            trained, notes, n_rows = _train_on_stream(table, options, columns, settings, memory)
            if not first:
                return
        about, lines, unit = *_tell_of_table(trained, n_rows, notes), "TABLE"
    trained.save(out)
    if as_json:
        print_json({"model": str(out), "classes": trained.model.classes_} | about)
    else:
        for line in lines:
            print(line)
        print(f"saved in {out}; next: naysayer predict {out} {unit}")
    if report is not None:  # last: nothing that was learned or said can be lost by it
        with warnings_as_lines():
            _write_report(report, trained, None if is_store(place) else labelled, _name_of(place), seed)
        if not as_json:
            print(f"report in {report}")


def _is_first() -> bool:
    """Whether this is the process that reads, prints and writes."""
    from naysayer.engine import processes

    return processes.is_first()


def _train_along(settings: dict[str, Any]) -> None:
    """Train what the first process reads and saves."""
    import numpy as np

    from naysayer.engine import processes
    from naysayer.models.classifier import ComplementaryClassifier

    given: Any = processes.from_first(lambda: None)
    X, y_bar, n_classes, standardize = given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ComplementaryClassifier(**settings, classes=np.arange(n_classes), standardize=standardize).fit(X, y_bar)


def _name_of(place: str) -> str:
    """Name a file, or the database of an address without who opens it with which password."""
    return urlsplit(place).path.strip("/") or "a store" if "://" in place else Path(place).name


def _write_report(path: Path, trained: Any, labelled: LabelledTable | None, source: str, seed: int) -> None:
    """Write what there is to look at; a store's training brings along what it rests on."""
    from naysayer.report import Evidence, write

    if labelled is None:
        evidence = Evidence.from_answers(_said_of_answers(trained), *trained.judged)
    else:
        evidence = Evidence.from_labels(labelled.said, trained.model, labelled.examples, labelled.y_bar)
    write(path, trained, evidence, source=source, seed=seed)


def _drop_checkpoint(folder: Path) -> None:
    """Drop what an interrupted training saved on the way."""
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    with suppress(OSError):
        folder.rmdir()


def _read_labelled(
    place: str, label: str | None, classes: str | None, ordinary: bool, delimiter: str | None
) -> LabelledTable:
    """Read the table to learn from."""
    from naysayer.cli.places import LabelledTable

    if Path(place).is_dir():
        raise ValueError(
            f"a table must be a file; {place} is a folder; for its images: naysayer ask {place}; or name "
            f"each in a table with its label: --image COLUMN"
        )
    return LabelledTable.read(place, check_label(label), words(classes), ordinary, delimiter)


def _train_on_table(
    labelled: LabelledTable, columns: Columns, settings: dict[str, Any], views: int
) -> tuple[EncodedModel, list[str]]:
    """Train on a table; give the model, and what is to be said of the labels, the columns and the training."""
    import numpy as np

    from naysayer.engine.processes import from_first
    from naysayer.features.tables import TableEncoder
    from naysayer.models.classifier import ComplementaryClassifier

    encoder = TableEncoder(device=settings["device"], verbose=1, views=views)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _restart_offered():
            X = encoder.fit_transform(labelled.examples, columns.without(labelled.label))
            classes = np.arange(len(labelled.classes))
            model = ComplementaryClassifier(**settings, classes=classes, standardize=not encoder.balanced, verbose=1)
            if launched():
                from_first(lambda: (X, labelled.y_bar, len(classes), not encoder.balanced))
            model.fit(X, labelled.y_bar)
    model.classes_, model.classes = np.array(labelled.classes), None
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return _encoded(model, encoder, labelled.label, labelled.said, len(labelled.y_bar), told)


def _train_on_stream(
    places: list[str], options: dict[str, Any], columns: Columns, settings: dict[str, Any], memory: int | None
) -> tuple[EncodedModel, list[str], int]:
    """Train on tables that are read part by part; give the model, what is to be said, and the number of rows."""
    from naysayer.cli import stream

    check_label(options["label"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _restart_offered():
            columns.without(options["label"])  # which can have no other use
            options |= {"columns": columns, "settings": settings, "memory": memory}
            model, encoder, labels = stream.train(places, **options)
    n_rows = sum(labels.sizes)
    told = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return *_encoded(model, encoder, labels.column, labels.said, n_rows, told), n_rows


@contextmanager
def _restart_offered() -> Iterator[None]:
    """Say how to begin anew where a checkpoint is of something else."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith("the checkpoint"):
            raise ValueError(f"{error}; or begin anew: --restart") from None
        raise


def _encoded(
    model: ComplementaryClassifier, encoder: TableEncoder, label: str, said: str, n_labels: int, notes: list[str]
) -> tuple[EncodedModel, list[str]]:
    """Put a model and its encoder together; give it, and what is to be said of labels, columns and training."""
    from naysayer.data.tables import some
    from naysayer.measure.doctor import odd_names
    from naysayer.models.encoded import EncodedModel

    classes = model.classes_.tolist()
    read = [said, f"{len(classes)} classes: {some(classes)}", *column_lines(encoder.readings)]
    odd = [*odd_names(classes, n_labels), *(f"{text}." for text in encoder.warnings)]
    about: dict[str, Any] = {"label": label, "id": next(iter([*encoder.ids, *encoder.pictures]), None)}
    about["interrupted"] = any("training was interrupted" in note for note in notes)
    first = [note for note in notes if note.startswith("nothing was learned")]
    rest = [*(f"warning: {text}" for text in odd), *(note for note in notes if note not in first)]
    return EncodedModel(model, encoder, about), [*first, *read, *rest]


def _tell_of_table(trained: EncodedModel, n_rows: int, notes: list[str]) -> tuple[dict[str, Any], list[str]]:
    """What a training on a table came to, for programs and for people."""
    model = trained.model
    about = {"rows": n_rows, "notes": notes, "trials": model.trials_, "method": model.method_}
    about["columns"] = getattr(trained.encoder, "readings", {})
    about |= {"learned": model.learned_, "accuracy": named_interval(model.estimated_accuracy_)}
    heads = ["member", "learning rate", "epochs", "estimated accuracy %", "weight %"]
    return about, [
        *notes,
        "",
        *table_lines(heads, [_trial_cells(trial) for trial in model.trials_]),
        f"\nestimated accuracy: {percent(*model.estimated_accuracy_)} %, of all members together, "
        f"from labels that had no part in what they judge",
    ]


def _trial_cells(trial: dict[str, Any]) -> list[str]:
    """What is said of a member."""
    name = trial["method"] if trial["network"] in (None, "mlp") else f"{trial['method']}, {trial['network']}"
    rate = "" if trial["lr"] is None else f"{trial['lr']:g}"
    if trial["estimated_accuracy"] is None:
        return [name, rate, "", "failed" if rate else "no time", ""]
    epochs = "" if trial["epoch"] is None else str(trial["epoch"] + 1)
    return [name, rate, epochs, f"{100 * possible(trial['estimated_accuracy']):.1f}", f"{100 * trial['weight']:.0f}"]


def _train_on_store(place: str, **options: Any) -> Trained:
    """Train on a store's answers."""
    from naysayer.collect import learn
    from naysayer.collect.store import Store

    with Store.open(place) as answers:
        return learn.train(answers, **options)


def _tell_of_store(trained: Trained) -> tuple[dict[str, Any], list[str]]:
    """What a training on a store came to, for programs and for people."""
    about: dict[str, Any] = {"answers": trained.n_answers, "items": trained.n_items, "error_rate": trained.error_rate}
    about |= {"unanswered": trained.n_unanswered, "named": trained.named, "notes": trained.encoder.notes}
    about["learned"] = trained.model.learned_
    guessing = 100 / len(trained.model.classes_)
    nothing = f"nothing was learned that can be told from guessing, which has {guessing:.0f} %; collect more answers"
    others = f"{trained.n_unanswered:,} more items have no answer"
    if trained.named is not None:
        others += f"; of {100 * trained.named:.0f} % of them it is sure (a class has a probability of 90 % or more)"
    return about | {"accuracy": named_interval(trained.accuracy)}, [
        *([] if trained.model.learned_ else [nothing]),
        _said_of_answers(trained),
        *trained.encoder.notes,
        *([others] if trained.n_unanswered else []),
        f"estimated accuracy: {percent(*trained.accuracy)} %, from answers that had no part in what they judge",
    ]


def _said_of_answers(trained: Trained) -> str:
    """What the answers are, in one line."""
    wrong = f"about {100 * trained.error_rate:.1f} % of them are wrong, as questions asked twice tell"
    if trained.error_rate == 0:
        wrong = "no two answers to one question differ"
    return f"{trained.n_answers:,} answers about {trained.n_items:,} items; {wrong}"
