"""The command: parse, call, print. Every error is one line on standard error, and exit code 2."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from naysayer.cli import stores as commands
from naysayer.cli.console import (
    Classes,
    Confidence,
    Data,
    Device,
    Json,
    Ordinary,
    at_least_one,
    check_writable,
    numbers,
    percent,
    print_json,
    print_table,
    words,
)
from naysayer.data.labels import read_labels

app = typer.Typer(
    name="naysayer",
    help="Learn classifiers from labels that only say what an example is not.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="List, fetch and find the data sets.", rich_markup_mode=None)
app.add_typer(data_app, name="data")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to save the plot.")] = Path("demo.png"),
    epochs: Annotated[int, typer.Option(help="Epochs of every run.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of labels, splits and runs.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train the paper's five methods on scikit-learn's digits, from "not this digit" labels."""
    from naysayer.experiments import demo as job

    if out.is_dir():
        raise ValueError(f"--out must be a file; {out} is a folder")
    check_writable(out.parent)
    trials = job.run(epochs=at_least_one(epochs, "--epochs"), seed=seed, device=device)
    job.plot(trials, out)
    if as_json:
        keys = ("method", "n_answers", "true_accuracy", "estimated", "true_of_estimated")
        print_json({"plot": str(out), "trials": [{k: getattr(t, k) for k in keys} for t in trials]})
        return
    rows = []
    for title, method in ((v, k) for k, v in job.METHODS.items()):
        mine = [t for t in trials if t.method == method]
        single = mine[0]
        rows.append([title, percent(*single.estimated), f"{100 * single.true_of_estimated:.1f}"])
        rows[-1] += [f"{100 * t.true_accuracy:.1f}" for t in mine]
    print('Digits, learned from labels that only say "not this one" (accuracy in %).\n')
    heads = ["method", "estimated from “no” labels", "true", *(f"{n} no" for n in job.ANSWERS)]
    print_table(heads, rows)
    print(
        f"\nEstimated and true: one run that learned from one “no” an image; the estimate saw {job.TEST_ANSWERS} “no” a"
    )
    print("test image and no true label.")
    print(f"To the right: true accuracy with 1 to {job.ANSWERS[-1]} “no” an image, mean of {job.SEEDS} runs.")
    print("Free, max operator and gradient ascent need more labels than these thousand: README has MNIST's 60,000.")
    print(f"The plot is in {out}.")


@app.command()
def train(
    table: Annotated[
        str, typer.Argument(help="CSV, TSV, Parquet or npz file, a row an example; or a store, such as answers.db.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    label: Annotated[
        str | None, typer.Option(help="The column that holds the labels; a table needs it, a store has none.")
    ] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    drop: Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")] = "",
    method: Annotated[
        str, typer.Option(help="auto, free, max, ascent, forward, pairwise; or some, by commas.")
    ] = "auto",
    network: Annotated[str, typer.Option(help="mlp or linear; of a store of images also convolution.")] = "mlp",
    hidden: Annotated[str, typer.Option(help="Widths of the hidden layers, separated by commas.")] = "128",
    lr: Annotated[str, typer.Option(help="Learning rates to try, separated by commas.")] = "0.001,0.003,0.01",
    epochs: Annotated[int, typer.Option(help="Epochs at the most.")] = 100,
    seeds: Annotated[int, typer.Option(help="Runs of each setting, each holding out other labels.")] = 5,
    alpha: Annotated[
        float | None, typer.Option(help="Weight of 'is not' against 'is' labels, where both occur; default: alike.")
    ] = None,
    transition: Annotated[
        Path | None, typer.Option(help="Q as a CSV of numbers, rows = true class, in the order of the classes.")
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Train once more on all rows.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of splits, starts and shuffles.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train on a table whose labels say what each row is not (`cat`, or `!cat` mixed with plain `dog`), or on a store.

    Run again after it was stopped, it goes on from where it was, if it learns from a table.
    """
    if commands.is_store(table):
        of_tables: dict[str, Any] = {
            "label": label,
            "classes": classes,
            "ordinary": ordinary,
            "drop": drop,
            "alpha": alpha,
        }
        of_tables |= {"transition": transition, "refit": refit, "method": method != "auto", "hidden": hidden != "128"}
        of_tables |= {"lr": lr != "0.001,0.003,0.01", "seeds": seeds != 5}
        if odd := next((name for name, given in of_tables.items() if given not in (None, "", False)), None):
            raise ValueError(f"--{odd} is for tables; {table} is a store, which goes without")
        commands.train_on_store(table, out, network, epochs, seed, device, as_json)
        return
    if Path(table).is_dir():
        raise ValueError(f"a table must be a file; {table} is a folder; for its images: naysayer ask {table}")
    if label is None:
        raise ValueError("Missing option '--label': the column that holds the labels")
    from naysayer.data import tables
    from naysayer.models.classifier import ComplementaryClassifier

    data = tables.read_table(table)
    y_bar, names, said = read_labels(data, label, words(classes), ordinary)
    from naysayer.features.tables import TableEncoder

    encoder = TableEncoder().fit(data, drop=[label, *(words(drop) or [])])
    model = ComplementaryClassifier(
        words(method) or "auto",
        network,
        hidden=tuple(numbers(hidden, "--hidden", int)),
        lr=numbers(lr, "--lr"),
        max_epochs=at_least_one(epochs, "--epochs"),
        n_seeds=at_least_one(seeds, "--seeds"),
        validation_fraction=1 / max(2, seeds),
        alpha=alpha,
        refit=refit,
        classes=np.arange(len(names)),
        transition=None if transition is None else _read_matrix(transition),
        device=device,
        checkpoint=out / "checkpoint",
        random_state=seed,
        verbose=1,
    )
    check_writable(out)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(encoder.transform(data), y_bar)
    told = [said, *encoder.notes, *(str(w.message) for w in caught if issubclass(w.category, UserWarning))]
    model.classes_ = np.array(names)
    model.classes = None
    model.save(out, extra={"table": encoder.to_dict(), "label": label})
    if as_json:
        estimate = dict(zip(("estimate", "low", "high"), model.estimated_accuracy_, strict=True))
        print_json(
            {"model": str(out), "classes": names, "rows": data.n_rows, "notes": told, "trials": model.trials_}
            | {"method": model.method_, "lr": model.lr_, "epochs": model.best_epoch_ + 1, "accuracy": estimate}
        )
        return
    for line in told:
        print(line)
    print()
    rows = [
        [t["method"], f"{t['lr']:g}", str(t["epoch"] + 1)]
        + ["failed" if t["estimated_accuracy"] is None else f"{100 * t['estimated_accuracy']:.1f}"]
        for t in model.trials_
    ]
    print_table(["method", "learning rate", "epochs", "estimated accuracy %"], rows)
    print(f"\nchosen: {model.method_} at learning rate {model.lr_:g}, {model.best_epoch_ + 1} epochs")
    print(f"estimated accuracy: {percent(*model.estimated_accuracy_)} %, from held-out labels")
    print(f"saved in {out}; next: naysayer predict {out} TABLE")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    table: Annotated[
        str,
        typer.Argument(
            help="Table with the same columns; of a model trained on a store, a folder, file or store of items."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="CSV file to write; default: standard output.")] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="One column more for each class's probability.")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Predict the class of each row of a table."""
    import csv
    import io

    from naysayer.common.files import write_text
    from naysayer.data import tables

    names: Any
    if commands.learned_from_store(model):
        fitted, names, p = commands.predict_items(model, table, device)
    else:
        fitted, encoder, _ = _load(model, device)
        p = fitted.predict_proba(encoder.transform(tables.read_table(table)))
        names = range(len(p))
    best = p.argmax(axis=1)
    heads = ["row" if isinstance(names, range) else "item", "prediction", "probability"]
    rows: list[list[Any]] = [
        [name, str(fitted.classes_[k]), round(float(p[i, k]), 6)] for i, (name, k) in enumerate(zip(names, best))
    ]
    if probabilities:
        heads += [f"P({c})" for c in fitted.classes_]
        rows = [row + [round(float(v), 6) for v in p[i]] for i, row in enumerate(rows)]
    if as_json:
        text = json.dumps([dict(zip(heads, row, strict=True)) for row in rows]) + "\n"
    else:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([heads, *rows])
        text = buffer.getvalue()
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
        print(f"{len(rows)} predictions are in {out}", file=sys.stderr)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    table: Annotated[
        str, typer.Argument(help="CSV, TSV, Parquet or npz file with labels, or store, that was not trained on.")
    ],
    label: Annotated[str | None, typer.Option(help="The column that holds the labels; default: as trained.")] = None,
    ordinary: Ordinary = False,
    confidence: Confidence = 0.95,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Estimate a model's accuracy, in all and per class, from labels that say what rows are not."""
    from naysayer.data import tables
    from naysayer.measure import metrics

    if commands.learned_from_store(model):
        if label is not None or ordinary:
            option = "--ordinary" if label is None else "--label"
            raise ValueError(f"{option} is for tables; the answers in {table} say it themselves")
        commands.evaluate_on_store(model, table, confidence, device, as_json)
        return
    fitted, encoder, about = _load(model, device)
    data = tables.read_table(table)
    names = [str(c) for c in fitted.classes_]
    y_bar, _, said = read_labels(data, label or about["label"], names, ordinary)
    predicted = fitted.predict_proba(encoder.transform(data)).argmax(axis=1)
    options: dict[str, Any] = {"n_classes": len(names), "transition": fitted.transition}
    accuracy = metrics.accuracy_interval(y_bar, predicted, confidence=confidence, **options)
    prior = metrics.class_prior_interval(y_bar, confidence=confidence, **options)
    recall = np.diag(metrics.confusion_matrix(y_bar, predicted, normalize="true", **options))
    right: list[Any] = [
        metrics.accuracy_interval(y_bar[predicted == k], predicted[predicted == k], confidence=confidence, **options)
        if _says_something(y_bar, predicted == k)
        else None
        for k in range(len(names))
    ]
    share = np.bincount(predicted, minlength=len(names)) / len(predicted)
    if as_json:
        per_class = [
            {"class": names[k], "prior": prior.estimate[k], "prior_low": prior.low[k], "prior_high": prior.high[k],
             "predicted_share": share[k], "precision": right[k], "recall": recall[k]}
            for k in range(len(names))
        ]  # fmt: skip
        estimate = dict(zip(("estimate", "low", "high"), accuracy, strict=True))
        print_json({"labels": said, "accuracy": estimate, "confidence": confidence, "classes": per_class})
        return
    print(said)
    print(f"estimated accuracy: {percent(*accuracy)} % ({100 * confidence:g}% interval)\n")
    rows = [
        [
            names[k],
            percent(prior.estimate[k], prior.low[k], prior.high[k]),
            f"{100 * share[k]:.1f}",
            "-" if right[k] is None else percent(*right[k]),
            f"{100 * min(1, max(0, recall[k])):.0f}",
        ]
        for k in range(len(names))
    ]
    print_table(["class", "share %", "predicted share %", "right when predicted %", "found %"], rows)
    print("\nAll are estimates from these labels; what is said of one class rests on fewer of them.")


@app.command()
def plan(
    classes: Annotated[int, typer.Option(help="How many classes there are.")],
    margin: Annotated[float, typer.Option(help="Half-width of the interval that is wanted, e.g. 0.01.")] = 0.01,
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
    kinds = {
        "ordinary": "“it is c”",
        "yes_no": "“is it c?” of a random class, yes or no",
        "complementary": "“it is not c”",
    }
    rows = [
        [text, f"{getattr(needed, kind):,}", f"{getattr(needed, kind) / needed.ordinary:.1f}"]
        for kind, text in kinds.items()
    ]
    print_table(["label", "how many", "times the ordinary"], rows)
    print("\nA yes/no answer is worth taking where it costs less than an ordinary label by more than that factor.")


@app.command()
def doctor(
    table: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or npz file with a column of labels.")],
    label: Annotated[str | None, typer.Option(help="The column of labels; default: the only one.")] = None,
    classes: Classes = None,
    ordinary: Ordinary = False,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Say what labels tell: counts, class shares, whether they can be uniform, and what to use."""
    from naysayer.data import tables
    from naysayer.measure.doctor import examine

    data = tables.read_table(table)
    if label is None:
        if len(data.columns) > 1:
            raise ValueError(f"--label must name one of the columns {', '.join(data.columns)}")
        label = next(iter(data.columns))
    y_bar, names, said = read_labels(data, label, words(classes), ordinary)
    report = examine(y_bar, len(names), names, confidence)
    if as_json:
        print_json({"labels": said} | report.to_dict())
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


@data_app.command("list")
def data_list(folder: Data = None, as_json: Json = False) -> None:
    """List the data sets, their sizes, and where they are."""
    from naysayer.data import datasets

    found = datasets.overview(folder)
    if as_json:
        print_json([entry._asdict() | {"folder": entry.folder and str(entry.folder)} for entry in found])
        return
    rows = [
        [entry.name, str(entry.n_classes), f"{entry.n_train:,}", f"{entry.n_test:,}", f"{entry.size / 1e6:.1f}"]
        + ["not here" if entry.folder is None else str(entry.folder)]
        for entry in found
    ]
    print_table(["name", "classes", "train", "test", "MB", "where"], rows)
    if absent := [entry.name for entry in found if entry.folder is None]:
        print(f"\nThe MB of what is not here are those to fetch: naysayer data get {' '.join(absent)}")


@data_app.command("get")
def data_get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets to fetch, or all.")],
    folder: Data = None,
    as_json: Json = False,
) -> None:
    """Fetch data sets from their publishers; what is already there and whole is kept."""
    from naysayer.data import datasets

    wanted = list(datasets.REGISTRY) if names == ["all"] else names
    for name in wanted:  # all of them before the first download
        datasets.check_name(name)
    found = {name: str(datasets.get(name, folder)) for name in wanted}
    if as_json:
        print_json(found)
        return
    for name, place in found.items():
        print(f"{name} is in {place}")


@data_app.command("path")
def data_path(
    name: Annotated[str, typer.Argument(help="The data set.")], folder: Data = None, as_json: Json = False
) -> None:
    """Print the folder that holds a data set's files."""
    from naysayer.data import datasets

    place = str(datasets.find(name, folder))
    if as_json:
        print_json({name: place})
    else:
        print(place)


@app.command()
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Figures and tables, such as table3, or all.")],
    out: Annotated[Path, typer.Option(help="Folder of the results; what is done there is not done again.")] = Path(
        "reproduction"
    ),
    dataset: Annotated[str | None, typer.Option(help="Only these data sets, separated by commas.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every run; default: the paper's.")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of every setting; default: the paper's.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="All of it in small: minutes on two cores.")] = False,
    draw: Annotated[bool, typer.Option("--draw", help="Draw and report what is there; train nothing.")] = False,
    markdown: Annotated[Path | None, typer.Option(help="Also write the report as this Markdown file.")] = None,
    device: Device = "auto",
    folder: Data = None,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments, and some beyond it: every curve, figures, tables and a report of all."""
    from naysayer.experiments import reproduce as job
    from naysayer.experiments.report import Table, plain
    from naysayer.experiments.scale import Scale, check_datasets

    chosen = job.choose(names)
    scale = Scale(
        None if epochs is None else at_least_one(epochs, "--epochs"),
        None if trials is None else at_least_one(trials, "--trials"),
        check_datasets(words(dataset)),
        quick,
    )
    check_writable(out)
    sections = job.reproduce(
        chosen,
        out,
        scale,
        data=None if folder is None else str(folder),
        device=device,
        train=not draw,
        markdown=markdown,
    )
    if as_json:
        tables = [t for section in sections for t in section.items if isinstance(t, Table)]
        print_json({"report": str(out / "report.html"), "tables": [asdict(table) for table in tables]})
        return
    for section in sections:
        print(section.title)
        for table in (item for item in section.items if isinstance(item, Table)):
            print(f"\n{table.title}")
            cells = [["", *table.columns], *([name, *map(plain, row)] for name, row in table.rows.items())]
            if len(table.columns) > len(table.rows):  # a terminal is higher than wide
                cells = [list(column) for column in zip(*cells)]
            print_table(cells[0], cells[1:])
        print()
    print(f"figures, tables and curves are in {out}; all of it in {out / 'report.html'}")


app.command("ask")(commands.ask)
app.command("survey")(commands.survey)
app.command("export")(commands.export_store)
app.command("import")(commands.import_file)


# ---- what these commands share ------------------------------------------------------------------------------


def _load(folder: Path, device: str) -> tuple[Any, Any, dict[str, Any]]:
    """A trained model, its table's encoder, and what else was saved with it."""
    from naysayer.features.tables import TableEncoder
    from naysayer.models.classifier import ComplementaryClassifier

    fitted = ComplementaryClassifier.load(folder, device=device)
    if "table" not in fitted.extra_:
        raise ValueError(f"the model at {folder} was not trained on a table by this command; use it from Python")
    return fitted, TableEncoder.from_dict(fitted.extra_["table"]), fitted.extra_


def _says_something(y_bar: Any, chosen: Any) -> bool:
    """Whether any of the chosen rows has a label."""
    return bool(chosen.any() and (y_bar.ndim == 1 or y_bar[chosen].any()))


def _read_matrix(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an empty file is no more than a warning to numpy
            return np.loadtxt(path, delimiter=",", ndmin=2).tolist()
    except (OSError, ValueError, UserWarning) as error:
        raise ValueError(f"{path} must be a CSV of numbers, one row a class: {error}") from None


EXTRAS = dict.fromkeys(("fastapi", "uvicorn", "sqlalchemy", "jinja2", "PIL"), "web") | {"psycopg": "postgres"}


def main() -> None:
    """Run the command; turn every expected error into one line and exit code 2."""
    code: Any
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if type(error).__name__ == "Abort":  # what older parsers make of Control-C; newer ones return 130
            code = 130
        elif hasattr(error, "format_message"):  # one of the parser's own
            code = _fail(error.format_message())
        elif isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
            extra = EXTRAS[error.name]
            code = _fail(f"this needs the package {error.name}, which is not here; pip install 'naysayer[{extra}]'")
        elif isinstance(error, (ValueError, OSError, ImportError, MemoryError, RuntimeError)):
            code = _fail(str(error) or type(error).__name__)
        else:
            raise
    if code == 130:
        print("interrupted; what was saved on the way is kept", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    print(f"naysayer: {' '.join(message.split())}", file=sys.stderr)
    return 2
