"""The three ways in which `train` learns: from a store's answers, from a table, and from tables read part by part.

Each gives the model and what is to be said of it; `train` saves the one and prints the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naysayer.cli.console import check_label, column_lines, named_interval, percent, possible, table_lines
from naysayer.common.launched import launched

if TYPE_CHECKING:
    from naysayer.cli.places import LabelledTable
    from naysayer.collect.learn import Trained
    from naysayer.data.tables import DataTable
    from naysayer.features.tables import Columns, TableEncoder
    from naysayer.models.classifier import ComplementaryClassifier
    from naysayer.models.encoded import EncodedModel
    from naysayer.report import Evidence


FEWEST_EXAMPLES = 5  # that rows are taken to be about unasked: without some of fewer, little is left to learn from


@dataclass(frozen=True)
class Learned:
    """What a training came to.

    Parameters
    ----------
    model : with the encoder of its examples.
    about, lines : what programs, and what people, are told of it.
    kind : what it predicts, as the help of `predict` calls it: "ITEMS" or "TABLE".
    evidence : makes what a report rests on; None where that is not in memory.
    """

    model: EncodedModel
    about: dict[str, Any]
    lines: list[str]
    kind: str
    evidence: Callable[[], Evidence] | None


@dataclass(frozen=True)
class LabelOptions:
    """What the options say of a table's labels: their column, the classes, and whether they say what each row is."""

    column: str | None
    classes: Sequence[str] | None
    ordinary: bool
    delimiter: str | None


# ---- a store ----------------------------------------------------------------------------------------------------


def on_store(
    place: str, network: str, recipe: str, max_epochs: int | None, random_state: int, device: str, views: int | None
) -> Learned:
    """Train on a store's answers."""
    from naysayer.collect import learn
    from naysayer.collect.store import Store

    limit: dict[str, Any] = {} if max_epochs is None else {"max_epochs": max_epochs}
    with Store.open(place) as answers:
        trained = learn.train(
            answers,
            network=network,
            recipe=recipe,
            random_state=random_state,
            device=device,
            views=views,
            verbose=1,
            **limit,
        )

    def evidence() -> Evidence:
        from naysayer.report import Evidence

        assert trained.judged is not None
        return Evidence.from_answers(_said_of_answers(trained), *trained.judged)

    return Learned(trained, *_tell_of_store(trained), "ITEMS", evidence)


def _tell_of_store(trained: Trained) -> tuple[dict[str, Any], list[str]]:
    """What a training on a store came to, for programs and for people."""
    about: dict[str, Any] = {"answers": trained.n_answers, "items": trained.n_items, "error_rate": trained.error_rate}
    about |= {"unanswered": trained.n_unanswered, "named": trained.named, "notes": trained.encoder.notes}
    about["learned"] = trained.model.learned_
    guessing = 100 / len(trained.model.classes_)
    nothing = "nothing was learned that can be distinguished from guessing, "
    nothing += f"whose accuracy is {guessing:.0f} %; collect more answers"
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
    wrong = f"about {100 * trained.error_rate:.1f} % of them are wrong, judging by questions asked twice"
    if trained.error_rate == 0:
        wrong = "no two answers to one question differ"
    return f"{trained.n_answers:,} answers about {trained.n_items:,} items; {wrong}"


# ---- a table ----------------------------------------------------------------------------------------------------


def on_table(
    place: str,
    labels: LabelOptions,
    columns: Columns,
    group: str | None,
    settings: dict[str, Any],
    views: int | None,
    restart: bool,
) -> Learned | None:
    """Train on a table; None in a process that only helps the first one, which saves and tells."""
    import numpy as np

    from naysayer.data.digests import remember, row_digests
    from naysayer.data.labels import hardly_named, says_something
    from naysayer.engine.processes import from_first
    from naysayer.features.tables import TableEncoder
    from naysayer.models.classifier import ComplementaryClassifier

    if not _is_first():
        _train_along(settings)
        return None
    labelled = _read_labelled(place, labels)
    if restart:
        _drop_checkpoint(settings["checkpoint"])
    encoder = TableEncoder(device=settings["device"], verbose=1, views=views)
    with _telling() as notes:
        if group == labelled.label:
            raise ValueError(f"a column must have one use; {group!r} is the label; name another one: --group")
        used = columns.without(labelled.label)
        if group is not None and group not in (*columns.image, *columns.text):
            used = used.without(group)  # by which rows are known, and no more
        X = encoder.fit_transform(labelled.examples, used)
        groups, grouped = _groups(labelled.examples, group, encoder)
        classes = np.arange(len(labelled.classes))
        model = ComplementaryClassifier(**settings, classes=classes, standardize=not encoder.balanced, verbose=1)
        if launched():
            from_first(lambda: (X, labelled.y_bar, groups, len(classes), not encoder.balanced))
        model.fit(X, labelled.y_bar, groups=groups)
    model.classes_, model.classes = np.array(labelled.classes), None
    notes += grouped
    notes += [f"warning: {text}" for text in hardly_named(labelled.y_bar, labelled.classes)]

    def evidence() -> Evidence:
        from naysayer.report import Evidence

        return Evidence.from_labels(labelled.said, model, labelled.examples, labelled.y_bar)

    learned = _learned(model, encoder, labelled.label, labelled.said, len(labelled.y_bar), notes, evidence)
    labelled_rows = row_digests(labelled.examples, encoder.columns)[says_something(labelled.y_bar)]
    learned.model.about["rows_learned"] = remember(labelled_rows)
    return learned


def _groups(table: DataTable, group: str | None, encoder: TableEncoder) -> tuple[Any, list[str]]:
    """What rows are about, (N,), and what to say of it; None where no two rows are about the same.

    Rows with the same picture, or the same text, are about one example, if there is one such column.
    """
    from naysayer.data.tables import texts_of

    if group is None and len(encoder.blocks) != 1:
        return None, []
    name = encoder.blocks[0] if group is None else group
    said = texts_of(table.column(name))
    n_named, n_groups = len(said) - said.count(None), len({text for text in said if text is not None})
    if group is None and (n_groups == n_named or n_groups < FEWEST_EXAMPLES):
        return None, []
    return said, [f"{n_named:,} rows are about {n_groups:,} of {name!r}; those of one are held out together"]


def on_stream(
    places: list[str],
    labels: LabelOptions,
    columns: Columns,
    settings: dict[str, Any],
    views: int | None,
    memory: int | None,
    restart: bool,
) -> Learned | None:
    """Train on tables that are read part by part; None in a process that only helps the first one."""
    from naysayer.cli import stream

    first = _is_first()
    if restart and first:
        _drop_checkpoint(settings["checkpoint"])
    label = check_label(labels.column)
    with _telling() as notes:
        columns.without(label)  # which can have no other use
        model, encoder, read = stream.train(
            places, label, labels.classes, labels.ordinary, labels.delimiter, columns, settings, memory, views
        )
    if not first:
        return None
    notes += [f"warning: {text}" for text in read.hardly_named()]
    return _learned(model, encoder, read.column, read.said, sum(read.sizes), notes)


def _is_first() -> bool:
    """Whether this is the process that reads, prints and writes."""
    if not launched():
        return True
    from naysayer.engine import processes

    return processes.is_first()


def _train_along(settings: dict[str, Any]) -> None:
    """Train what the first process reads and saves."""
    import numpy as np

    from naysayer.engine import processes
    from naysayer.models.classifier import ComplementaryClassifier

    given: Any = processes.from_first(lambda: None)
    X, y_bar, groups, n_classes, standardize = given
    model = ComplementaryClassifier(**settings, classes=np.arange(n_classes), standardize=standardize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y_bar, groups=groups)


def _drop_checkpoint(folder: Path) -> None:
    """Drop what an interrupted training saved on the way."""
    for path in folder.glob("*.safetensors*"):
        path.unlink()
    with suppress(OSError):
        folder.rmdir()


def _read_labelled(place: str, labels: LabelOptions) -> LabelledTable:
    """Read the table to learn from."""
    from naysayer.cli.places import LabelledTable

    if Path(place).is_dir():
        raise ValueError(
            f"a table must be a file; {place} is a folder; for its images: naysayer ask {place}; or name "
            f"each in a table with its label: --image COLUMN"
        )
    return LabelledTable.read(place, check_label(labels.column), labels.classes, labels.ordinary, labels.delimiter)


@contextmanager
def _telling() -> Iterator[list[str]]:
    """Gather what a training warns of, and say how to begin anew where a checkpoint is of something else."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield notes
        except ValueError as error:
            if str(error).startswith("the checkpoint"):
                raise ValueError(f"{error}; or begin anew: --restart") from None
            raise
    notes += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


def _learned(
    model: ComplementaryClassifier,
    encoder: TableEncoder,
    label: str,
    said: str,
    n_rows: int,
    notes: list[str],
    evidence: Callable[[], Evidence] | None = None,
) -> Learned:
    """Put a model of tables and its encoder together, and say of labels, columns and training what there is to say."""
    from naysayer.data.tables import some
    from naysayer.measure.doctor import odd_names
    from naysayer.models.encoded import EncodedModel

    classes = model.classes_.tolist()
    read = [said, f"{len(classes)} classes: {some(classes)}", *column_lines(encoder.readings)]
    odd = [*odd_names(classes, n_rows), *(f"{text}." for text in encoder.warnings)]
    about: dict[str, Any] = {"label": label, "id": next(iter([*encoder.ids, *encoder.pictures]), None)}
    about["interrupted"] = any("training was interrupted" in note for note in notes)
    first = [note for note in notes if note.startswith("nothing was learned")]
    rest = [*(f"warning: {text}" for text in odd), *(note for note in notes if note not in first)]
    trained = EncodedModel(model, encoder, about)
    return Learned(trained, *_tell_of_table(trained, n_rows, [*first, *read, *rest]), "TABLE", evidence)


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
