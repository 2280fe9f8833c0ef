"""The command: parse, call, print. Every error is one line on standard error, and exit code 2."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

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

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Classes = Annotated[str | None, typer.Option(help="All class values, separated by commas; default: those that occur.")]
Ordinary = Annotated[bool, typer.Option("--ordinary", help="The labels say what each row is, not what it is not.")]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port; default: one that stays the same for this store.")
]
Public = Annotated[str | None, typer.Option(help="Address that people open, where a proxy stands before this server.")]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of data; default: $NAYSAYER_DATA, or else the user's cache.")
]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where to save the plot.")] = Path("demo.png"),
    epochs: Annotated[int, typer.Option(help="Epochs of every run.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of labels, splits and runs.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train the paper's five methods on scikit-learn's digits, from "not this digit" labels."""
    from naysayer import demo as job

    if out.is_dir():
        raise ValueError(f"--out must be a file; {out} is a folder")
    _check_writable(out.parent)
    trials = job.run(epochs=_at_least_one(epochs, "--epochs"), seed=seed, device=device)
    job.plot(trials, out)
    if as_json:
        keys = ("method", "n_answers", "true_accuracy", "estimated", "true_of_estimated")
        _print_json({"plot": str(out), "trials": [{k: getattr(t, k) for k in keys} for t in trials]})
        return
    rows = []
    for title, method in ((v, k) for k, v in job.METHODS.items()):
        mine = [t for t in trials if t.method == method]
        single = mine[0]
        rows.append([title, _percent(*single.estimated), f"{100 * single.true_of_estimated:.1f}"])
        rows[-1] += [f"{100 * t.true_accuracy:.1f}" for t in mine]
    print('Digits, learned from labels that only say "not this one" (accuracy in %).\n')
    heads = ["method", "estimated from “no” labels", "true", *(f"{n} no" for n in job.ANSWERS)]
    _print_table(heads, rows)
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
    if _is_store(table):
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
        _train_on_store(table, out, network, epochs, seed, device, as_json)
        return
    if Path(table).is_dir():
        raise ValueError(f"a table must be a file; {table} is a folder; for its images: naysayer ask {table}")
    if label is None:
        raise ValueError("Missing option '--label': the column that holds the labels")
    from naysayer import tables
    from naysayer.estimators import ComplementaryClassifier

    data = tables.read_table(table)
    y_bar, names, said = tables.read_labels(data, label, _words(classes), ordinary)
    encoder = tables.TableEncoder().fit(data, drop=[label, *(_words(drop) or [])])
    model = ComplementaryClassifier(
        _words(method) or "auto",
        network,
        hidden=tuple(_numbers(hidden, "--hidden", int)),
        lr=_numbers(lr, "--lr"),
        max_epochs=_at_least_one(epochs, "--epochs"),
        n_seeds=_at_least_one(seeds, "--seeds"),
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
    _check_writable(out)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(encoder.transform(data), y_bar)
    told = [said, *encoder.notes, *(str(w.message) for w in caught if issubclass(w.category, UserWarning))]
    model.classes_ = np.array(names)
    model.classes = None
    model.save(out, extra={"table": encoder.to_dict(), "label": label})
    if as_json:
        estimate = dict(zip(("estimate", "low", "high"), model.estimated_accuracy_, strict=True))
        _print_json(
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
    _print_table(["method", "learning rate", "epochs", "estimated accuracy %"], rows)
    print(f"\nchosen: {model.method_} at learning rate {model.lr_:g}, {model.best_epoch_ + 1} epochs")
    print(f"estimated accuracy: {_percent(*model.estimated_accuracy_)} %, from held-out labels")
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

    from naysayer import tables
    from naysayer.files import write_text

    names: Any
    if _learned_from_store(model):
        fitted, names, p = _predict_items(model, table, device)
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
    from naysayer import metrics, tables

    if _learned_from_store(model):
        if label is not None or ordinary:
            option = "--ordinary" if label is None else "--label"
            raise ValueError(f"{option} is for tables; the answers in {table} say it themselves")
        _evaluate_on_store(model, table, confidence, device, as_json)
        return
    fitted, encoder, about = _load(model, device)
    data = tables.read_table(table)
    names = [str(c) for c in fitted.classes_]
    y_bar, _, said = tables.read_labels(data, label or about["label"], names, ordinary)
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
        _print_json({"labels": said, "accuracy": estimate, "confidence": confidence, "classes": per_class})
        return
    print(said)
    print(f"estimated accuracy: {_percent(*accuracy)} % ({100 * confidence:g}% interval)\n")
    rows = [
        [
            names[k],
            _percent(prior.estimate[k], prior.low[k], prior.high[k]),
            f"{100 * share[k]:.1f}",
            "-" if right[k] is None else _percent(*right[k]),
            f"{100 * min(1, max(0, recall[k])):.0f}",
        ]
        for k in range(len(names))
    ]
    _print_table(["class", "share %", "predicted share %", "right when predicted %", "found %"], rows)
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
    from naysayer.planning import labels_needed

    needed = labels_needed(classes, margin, accuracy, confidence)
    if as_json:
        about = {"classes": classes, "margin": margin, "accuracy": accuracy, "confidence": confidence}
        _print_json(about | {"labels": needed._asdict()})
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
    _print_table(["label", "how many", "times the ordinary"], rows)
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
    from naysayer import tables
    from naysayer.doctor import examine

    data = tables.read_table(table)
    if label is None:
        if len(data.columns) > 1:
            raise ValueError(f"--label must name one of the columns {', '.join(data.columns)}")
        label = next(iter(data.columns))
    y_bar, names, said = tables.read_labels(data, label, _words(classes), ordinary)
    report = examine(y_bar, len(names), names, confidence)
    if as_json:
        _print_json({"labels": said} | report.to_dict())
        return
    print(f"{said}\n")
    rows = [[c.name, f"{c.ruled_out:,}", f"{c.named:,}", _percent(c.prior, c.low, c.high)] for c in report.classes]
    _print_table(["class", "ruled out", "named", "share of the rows %"], rows)
    print()
    for finding in report.findings:
        print(f"{finding.level:>8}: {finding.text}")
    print()
    for line in report.advice:
        print(f"  {line}")


@data_app.command("list")
def data_list(folder: Data = None, as_json: Json = False) -> None:
    """List the data sets, their sizes, and where they are."""
    from naysayer import datasets

    found = datasets.overview(folder)
    if as_json:
        _print_json([entry._asdict() | {"folder": entry.folder and str(entry.folder)} for entry in found])
        return
    rows = [
        [entry.name, str(entry.n_classes), f"{entry.n_train:,}", f"{entry.n_test:,}", f"{entry.size / 1e6:.1f}"]
        + ["not here" if entry.folder is None else str(entry.folder)]
        for entry in found
    ]
    _print_table(["name", "classes", "train", "test", "MB", "where"], rows)
    if absent := [entry.name for entry in found if entry.folder is None]:
        print(f"\nThe MB of what is not here are those to fetch: naysayer data get {' '.join(absent)}")


@data_app.command("get")
def data_get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets to fetch, or all.")],
    folder: Data = None,
    as_json: Json = False,
) -> None:
    """Fetch data sets from their publishers; what is already there and whole is kept."""
    from naysayer import datasets

    wanted = list(datasets.REGISTRY) if names == ["all"] else names
    for name in wanted:  # all of them before the first download
        datasets.check_name(name)
    found = {name: str(datasets.get(name, folder)) for name in wanted}
    if as_json:
        _print_json(found)
        return
    for name, place in found.items():
        print(f"{name} is in {place}")


@data_app.command("path")
def data_path(
    name: Annotated[str, typer.Argument(help="The data set.")], folder: Data = None, as_json: Json = False
) -> None:
    """Print the folder that holds a data set's files."""
    from naysayer import datasets

    place = str(datasets.find(name, folder))
    if as_json:
        _print_json({name: place})
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
        None if epochs is None else _at_least_one(epochs, "--epochs"),
        None if trials is None else _at_least_one(trials, "--trials"),
        check_datasets(_words(dataset)),
        quick,
    )
    _check_writable(out)
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
        _print_json({"report": str(out / "report.html"), "tables": [asdict(table) for table in tables]})
        return
    for section in sections:
        print(section.title)
        for table in (item for item in section.items if isinstance(item, Table)):
            print(f"\n{table.title}")
            cells = [["", *table.columns], *([name, *map(plain, row)] for name, row in table.rows.items())]
            if len(table.columns) > len(table.rows):  # a terminal is higher than wide
                cells = [list(column) for column in zip(*cells)]
            _print_table(cells[0], cells[1:])
        print()
    print(f"figures, tables and curves are in {out}; all of it in {out / 'report.html'}")


# ---- asking people ------------------------------------------------------------------------------------------


@app.command()
def ask(
    items: Annotated[Path, typer.Argument(help="Folder of images; or CSV, TSV, JSONL or Parquet file, a row an item.")],
    classes: Annotated[str, typer.Option(help="The classes to ask about, separated by commas.")],
    store: Annotated[
        str, typer.Option(help="Where answers are kept: a SQLite file or a postgresql:// URL.")
    ] = "answers.db",
    question: Annotated[
        str | None, typer.Option(help='How to ask, with {class} for the class; default: "Is this a {class}?".')
    ] = None,
    probabilities: Annotated[
        str | None, typer.Option(help="How often to ask about each class, in their order, by commas; default: alike.")
    ] = None,
    repeat: Annotated[
        float | None, typer.Option(help="Share of questions asked twice, to measure errors; default: 0.05.")
    ] = None,
    per_item: Annotated[
        int | None, typer.Option(help="Answers after which an item is left alone; default: when its class is known.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    invite: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Print a link for somebody to answer with; once or more.")
    ] = None,
    train: Annotated[bool, typer.Option("--train", help="Train on what has come in, again and again.")] = False,
    as_json: Json = False,
) -> None:
    """Ask people about items, one question at a time: is this a cat? Yes, no, or can't tell.

    Run again, it adds the items that are new and goes on.
    """
    from naysayer.collect.items import read_items
    from naysayer.collect.records import Project
    from naysayer.collect.store import Store

    wanted: dict[str, Any] = {
        "question": question and question.replace("{class}", "{}"),
        "probabilities": probabilities and tuple(_numbers(probabilities, "--probabilities")),
        "repeat_share": repeat,
        "answers_per_item": per_item,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    try:
        project = Project(tuple(_words(classes) or ()), name=items.absolute().stem, **wanted)
    except ValueError as error:
        raise ValueError(_by_option(str(error))) from None
    found = read_items(items)
    with _begun_or_gone(store), contextlib.ExitStack() as opened:
        answers = opened.enter_context(Store.open(store, project=project))
        changed = {name: value for name, value in wanted.items() if getattr(answers.project, name) != value}
        if "probabilities" in changed and answers.progress().answers:
            raise ValueError(f"--probabilities must stay as they are once there are answers; see {answers.name}")
        if changed:
            answers.configure(**changed)
        new = answers.register(found)
        stays = opened.pop_all()
    with stays:
        _serve_ask(answers, new, host, port, public, invite or [], train, as_json)


@contextlib.contextmanager
def _begun_or_gone(place: str) -> Iterator[None]:
    """Leave no new store behind where it could not be begun: the next try may be with other classes."""
    is_new = "://" not in place and not Path(place).exists()
    try:
        yield
    except BaseException:
        for ending in ("", "-wal", "-shm") if is_new else ():
            Path(f"{place}{ending}").unlink(missing_ok=True)
        raise


def _by_option(message: str) -> str:
    """Say what is wrong with a project in the command's words."""
    names = {"`question` must have {}": "--question must have {class}", "`probabilities`": "--probabilities"}
    names |= {"`repeat_share`": "--repeat", "`answers_per_item`": "--per-item", ", or None": ""}
    for name, option in names.items():
        message = message.replace(name, option)
    return message


def _serve_ask(
    answers: Any,
    new: int,
    host: str,
    port: int | None,
    public: str | None,
    invite: list[str],
    train: bool,
    as_json: bool,
) -> None:
    """Serve a store's questions until Control-C, and print where."""
    from naysayer.collect.app import invite_to, listen, make_app, owner_of, serve
    from naysayer.collect.security import Site, is_loopback

    if invite and public is None and is_loopback(host):
        raise ValueError("--invite needs an address that others reach: add --host 0.0.0.0, or --public behind a proxy")
    with listen(host, port, answers.name) as listener:
        site = Site(host, listener.getsockname()[1], public)
        links = {"owner": site.origin if site.local else site.invitation(answers.renew_token(owner_of(answers).id))}
        links |= {name: site.invitation(invite_to(answers, name)[1]) for name in invite}

        def tell() -> None:
            if as_json:
                _print_json({"items": answers.n_items(), "new": new, "store": answers.name, "links": links})
            else:
                names = ", ".join(answers.project.classes)
                print(f"{answers.n_items():,} items, {new:,} of them new; classes: {names}")
                for name, link in links.items():
                    print(f"{'open' if site.local else f'for {name}:'} {link}")
                if not site.local:
                    print("Each link is for one person and shown once; a new one for the same name ends the old.")
                    if not site.origin.startswith("https:"):
                        print("Others on the way can read what goes over http: put a proxy with https before it.")
                print(f"The dashboard is at {site.origin}/dashboard; answers are kept in {answers.name}.")
                print("Control-C stops; the same command goes on.")
            sys.stdout.flush()

        if train:
            from naysayer.collect.learn import Trainer

            with Trainer(answers) as trainer:
                serve(make_app(answers, site, trainer=trainer), listener, tell)
        else:
            serve(make_app(answers, site), listener, tell)
    if not as_json:
        n = answers.progress().answers
        print(f"\nstopped; {n:,} answers are in {answers.name}")
        if n:
            place = "URL" if "://" in answers.name else shlex.quote(answers.name)  # a URL may hold a password
            print(f"next: naysayer train {place} --out model/")


@app.command()
def survey(
    file: Annotated[Path, typer.Argument(help="TOML file with the questions; examples/survey.toml shows one.")],
    store: Annotated[
        str | None, typer.Option(help="Where answers are kept: a SQLite file or a postgresql:// URL; default: FILE.db.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    results: Annotated[bool, typer.Option("--results", help="Print what the answers say; serve nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Ask private questions of which the true answer never leaves the respondent's device."""
    from naysayer.collect.survey import read_survey
    from naysayer.collect.survey_store import SurveyStore

    asked = read_survey(file)
    answers = SurveyStore(store or str(file.with_suffix(".db")), asked, create=not results)
    try:
        if results:
            _print_survey(asked, answers, as_json)
        else:
            _serve_survey(asked, answers, host, port, public, as_json)
    finally:
        answers.close()


def _serve_survey(asked: Any, answers: Any, host: str, port: int | None, public: str | None, as_json: bool) -> None:
    """Serve a survey until Control-C, and print where."""
    from naysayer.collect.app import listen, serve
    from naysayer.collect.security import Site
    from naysayer.collect.survey_app import make_app

    with listen(host, port, answers.name) as listener:
        site = Site(host, listener.getsockname()[1], public)
        links = {"respondents": f"{site.origin}/s/{answers.key}", "results": site.invitation(answers.new_owner_token())}

        def tell() -> None:
            if as_json:
                _print_json(links)
            else:
                n_private = sum(question.private for question in asked.questions)
                print(f"{asked.title}: {len(asked.questions)} questions, {n_private} of them private")
                print(f"for respondents, the same link for all: {links['respondents']}")
                print(f"for you alone, the results:             {links['results']}")
                if not site.local and not site.origin.startswith("https:"):
                    print("What goes over http can be read and changed on the way: put a proxy with https before it.")
                print(f"Answers are kept in {answers.name}. Control-C ends it.")
            sys.stdout.flush()

        serve(make_app(asked, answers, site), listener, tell)
    if not as_json:
        print(f"\nended; {answers.count():,} people have answered; --results prints what they say")


def _print_survey(asked: Any, answers: Any, as_json: bool) -> None:
    """Print what a survey's answers say."""
    from naysayer.collect.survey_results import encode, summary

    found = summary(asked, encode(asked, answers.answers()))
    if as_json:
        _print_json(found)
        return
    print(f"{found['title']}: {found['respondents']:,} respondents\n")
    for question, about in zip(asked.questions, found["questions"], strict=True):
        kind = about["mode"] or "as answered"
        print(f"{about['text']} ({kind}, {about['answers']:,} answers)")
        rows = [
            [option.text, _share(*(share[key] for key in ("estimate", "low", "high")))]
            for option, share in zip(question.options, about["shares"])
        ]
        if rows:
            _print_table(["option", "share % (95% interval)"], rows)
        print(f"{about['warning']}\n" if about["warning"] else "")
    for about in found["predictions"]:
        if about["problem"] is None:
            right = _share(*(about["accuracy"][key] for key in ("estimate", "low", "high")))
            print(f"{about['question']}: the other answers foretell it in {right} % of cases")
        else:
            print(f"{about['question']}: {about['problem']}")
    print("\nCross-tables of every two questions: --json, or the page of results.")


# ---- stores of answers: out, in, and models from them -------------------------------------------------------


@app.command("export")
def export_store(
    store: Annotated[str, typer.Argument(help="A store, such as answers.db, or a postgresql:// URL.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .jsonl; .json for Label Studio.")],
    as_json: Json = False,
) -> None:
    """Write all of a store into a file: items, questions, answers and who gave them, but no tokens."""
    from naysayer.collect.exchange import export
    from naysayer.collect.store import Store

    with Store.open(store) as answers:
        n, stand = export(answers, out), answers.progress().answers
    if as_json:
        _print_json({"answers": n, "standing": stand, "file": str(out)})
    elif n == stand:
        print(f"{n:,} answers are in {out}")
    else:
        print(f"{n:,} answers and undos are in {out}; {stand:,} answers stand")


@app.command("import")
def import_file(
    store: Annotated[
        str, typer.Argument(help="A store, such as answers.db, or a postgresql:// URL; a new one is begun.")
    ],
    file: Annotated[Path, typer.Argument(help="An export; Prodigy's .jsonl; Label Studio's .json.")],
    classes: Annotated[
        str | None, typer.Option(help="The classes of a new store, by commas; default: those of the export.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read answers into a store: all of a file, or nothing if any of it is wrong. What is there already is kept."""
    from naysayer.collect.exchange import import_answers, read_project
    from naysayer.collect.records import Project
    from naysayer.collect.store import Store

    project = Project(tuple(_words(classes) or ())) if classes else read_project(file)
    if project is None and "://" not in store and not Path(store).exists():
        raise ValueError(f"--classes must say what a new store asks about, as {file} does not: add --classes cat,dog")
    with _begun_or_gone(store), Store.open(store, project=project) as answers:
        added = import_answers(answers, file)
    if as_json:
        _print_json(added._asdict())
    else:
        print("new in the store: " + ", ".join(f"{n:,} {name}" for name, n in added._asdict().items()))


def _is_store(place: str) -> bool:
    return "://" in place or Path(place).suffix.lower() in (".db", ".sqlite", ".sqlite3")


def _train_on_store(place: str, out: Path, network: str, epochs: int, seed: int, device: str, as_json: bool) -> None:
    """Train on a store's answers, save the model and print how good it is."""
    from naysayer.collect.learn import train as train_on
    from naysayer.collect.store import Store

    _check_writable(out)
    with Store.open(place) as answers:
        trained = train_on(
            answers, network=network, max_epochs=_at_least_one(epochs, "--epochs"), device=device, random_state=seed
        )
    trained.save(out)
    about = {"model": str(out), "classes": trained.model.classes_.tolist(), "answers": trained.n_answers}
    about |= {"items": trained.n_items, "error_rate": trained.error_rate}
    if as_json:
        _print_json(about | {"accuracy": dict(zip(("estimate", "low", "high"), trained.accuracy, strict=True))})
        return
    wrong = f"about {100 * trained.error_rate:.1f} % of them are wrong, as questions asked twice tell"
    if trained.error_rate == 0:
        wrong = "no question that was asked twice got two different answers"
    print(f"{trained.n_answers:,} answers about {trained.n_items:,} items; {wrong}")
    print(f"estimated accuracy: {_share(*trained.accuracy)} %, from answers that the models did not see")
    print(f"saved in {out}; next: naysayer predict {out} ITEMS")


def _learned_from_store(folder: Path) -> bool:
    """Whether a model learned from a store; of one that cannot be read, whoever loads it says what is wrong."""
    try:
        return "items" in json.loads((folder / "model.json").read_text(encoding="utf8"))["extra"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _predict_items(folder: Path, place: str, device: str) -> tuple[Any, list[str], Any]:
    """A model that learned from a store, the names of items, and their classes' probabilities."""
    from naysayer.collect.items import read_items
    from naysayer.collect.learn import load
    from naysayer.collect.store import Store

    trained = load(folder, device)
    if _is_store(place):
        with Store.open(place) as answers:
            items = list(answers.items())
    else:
        items = list(read_items(place))
    if odd := next((item for item in items if item.kind != trained.encoder.kind), None):
        raise ValueError(
            f"the model at {folder} learned from {trained.encoder.kind}s; {odd.name} is of kind {odd.kind}"
        )
    return trained.model, [item.name for item in items], trained.predict_proba(items)


def _evaluate_on_store(folder: Path, place: str, confidence: float, device: str, as_json: bool) -> None:
    """Estimate a model's accuracy from a store's answers."""
    from naysayer.collect.answers import accuracy, class_priors, read_answers
    from naysayer.collect.learn import load
    from naysayer.collect.store import Store

    if not _is_store(place):
        raise ValueError(f"the model at {folder} learned from a store; give a store to evaluate it on; got {place}")
    trained = load(folder, device)
    names = tuple(trained.model.classes_.tolist())
    with Store.open(place) as answers:
        if answers.project.classes != names:
            raise ValueError(f"{place} must be of the model's classes, {', '.join(names)}")
        said = read_answers(answers)
        items = {item.id: item for item in answers.items()}
    if not said.items:
        raise ValueError(f"{place} must have answers to evaluate a model on; it has none")
    seen = np.array([trained.saw(id) for id in said.items])
    if seen.all():
        raise ValueError(
            f"{place} must have answers about items that the model did not learn from; it has none; "
            f"naysayer train told an accuracy; ask about other items for another"
        )
    predicted = trained.predict_proba([items[id] for id in said.items]).argmax(axis=1)
    found = accuracy(said, np.where(seen, -1, predicted), confidence=confidence)
    prior = class_priors(said, confidence=confidence)
    share = np.bincount(predicted, minlength=len(names)) / len(predicted)
    if as_json:
        per_class = [
            {"class": name, "prior": p, "prior_low": low, "prior_high": high, "predicted_share": share[k]}
            for k, (name, p, low, high) in enumerate(zip(names, *prior))
        ]
        estimate = dict(zip(("estimate", "low", "high"), found, strict=True))
        about = {"accuracy": estimate, "confidence": confidence, "items": int((~seen).sum())}
        _print_json(about | {"classes": per_class})
        return
    n, left_out = int((~seen).sum()), int(seen.sum())
    rest = f"; {left_out:,} more are left out, as the model learned from them" if left_out else ""
    print(f"answers about {n:,} items{rest}")
    print(f"estimated accuracy: {_share(*found)} % ({100 * confidence:g}% interval)\n")
    rows = [
        [name, _share(p, low, high), f"{100 * share[k]:.1f}"]
        for k, (name, p, low, high) in enumerate(zip(names, *prior))
    ]
    _print_table(["class", "share %", "predicted share %"], rows)


# ---- what the commands share --------------------------------------------------------------------------------


def _load(folder: Path, device: str) -> tuple[Any, Any, dict[str, Any]]:
    """A trained model, its table's encoder, and what else was saved with it."""
    from naysayer.estimators import ComplementaryClassifier
    from naysayer.tables import TableEncoder

    fitted = ComplementaryClassifier.load(folder, device=device)
    if "table" not in fitted.extra_:
        raise ValueError(f"the model at {folder} was not trained on a table by this command; use it from Python")
    return fitted, TableEncoder.from_dict(fitted.extra_["table"]), fitted.extra_


def _check_writable(folder: Path) -> None:
    """Find out before the training, not after it, that its result cannot be saved."""
    import tempfile

    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not place.is_dir():
        raise ValueError(f"--out must be a folder; {place} is a file")
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ValueError(f"--out must be a folder that can be written to: {error}") from None


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


def _words(text: str | None) -> list[str] | None:
    return [word.strip() for word in text.split(",") if word.strip()] if text else None


def _numbers(text: str, option: str, kind: type = float) -> list[Any]:
    try:
        return [kind(word) for word in _words(text) or []]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{option} must be {what} separated by commas; got {text!r}") from None


def _at_least_one(value: int, option: str) -> int:
    if value < 1:
        raise ValueError(f"{option} must be at least 1; got {value}")
    return value


def _percent(estimate: float, low: float, high: float) -> str:
    return f"{100 * estimate:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _share(*interval: float) -> str:
    """Write an estimate for people, who take one beyond 0 or 100 % for a mistake; programs get it as it is."""
    return _percent(*(min(1.0, max(0.0, value)) for value in interval))


def _print_table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a plain table: first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, ["-" * w for w in widths], *rows]:
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())


def _print_json(value: Any) -> None:
    print(json.dumps(_plain(value), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    """The value in lists, dicts and numbers; what is not finite is null, since JSON has no name for it."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value


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
