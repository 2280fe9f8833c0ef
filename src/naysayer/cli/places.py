"""What `train`, `predict` and `evaluate` read: examples and their labels, from a table or from a store of answers.

Importing this loads torch; the commands do so when they run.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from naysayer.cli.console import is_store, possible
from naysayer.common.checks import near
from naysayer.common.words import count
from naysayer.data import tables
from naysayer.data.digests import count_known, row_digests
from naysayer.data.labels import read_labels, says_something
from naysayer.features.tables import TableEncoder
from naysayer.measure.intervals import Interval, tail_probability
from naysayer.measure.sample import Sample, read
from naysayer.models.encoded import EncodedModel


def column_to_copy(columns: Collection[str], asked: str | None, known: str | None, taken: Sequence[str]) -> str | None:
    """Name a column to copy beside predictions: the one asked for, or the training's id, or one that says it is one.

    Parameters
    ----------
    columns : those that there are.
    asked : for by a person; it must be there.
    known : what the training took for an id.
    taken : columns that the output has anyway.
    """
    said = (name for name in columns if tables.says_id(name))
    found = next((name for name in (known, *said) if name in columns and name not in taken), None)
    if asked is not None and asked not in columns:
        has = f"it has {tables.some(columns)}" if columns else "it has none"
        raise ValueError(f"the table must have a column {near(asked, columns)}; {has}")
    if asked in taken:
        raise ValueError(f"--id must name a column that the output does not have anyway; got {asked!r}; rename it")
    return found if asked is None else asked


@dataclass(frozen=True)
class NamedExamples:
    """What is to be predicted: a table or items, their names, and columns that may be copied beside the predictions."""

    values: Any
    head: str
    names: Sequence[Any]
    columns: Mapping[str, Sequence[Any] | NDArray[Any]]

    def column(self, asked: str | None, known: str | None, taken: Sequence[str]) -> tuple[str, list[Any]] | None:
        """Give a column to copy, with its name; see :func:`column_to_copy`."""
        name = column_to_copy(self.columns, asked, known, taken)
        if name is None:
            return None
        values = np.asarray(self.columns[name], dtype=object).tolist()
        str(values[0])  # refuses a column that cannot be read, before anything is written
        return name, values


def read_examples(place: str, kind: str, delimiter: str | None = None) -> NamedExamples:
    """Read examples of the kind that a model learned from."""
    if kind == "table":
        table = tables.read_table(place, delimiter)
        return NamedExamples(table, "row", range(table.n_rows), table.columns)
    from naysayer.data.items import fields_beside, read_items

    if is_store(place):
        from naysayer.collect.store import Store

        with Store.open(place) as answers:
            items = list(answers.items())
    else:
        items = list(read_items(place, verbose=1))
    if odd := next((item for item in items if item.kind != kind), None):
        raise ValueError(f"{place} must hold {kind}s, as the model learned from them; {odd.name} is a {odd.kind}")
    columns = fields_beside(items, None if is_store(place) else place)
    if not any(map(tables.says_id, columns)):
        columns["id"] = [item.id for item in items]
    return NamedExamples(items, "item", [item.name for item in items], columns)


@dataclass(frozen=True)
class Evaluation:
    """How good a model is, and on what that rests.

    Parameters
    ----------
    said : what the labels are, in one line.
    accuracy : estimate and interval.
    classes : for each class its name, its share with an interval, and the share of the predictions; from labels also
        the precision and the recall, which is rough where the interval of the class's share holds 0.
    about : what programs are told beside it.
    """

    said: str
    accuracy: Interval
    classes: list[dict[str, Any]]
    about: dict[str, Any]


@dataclass(frozen=True)
class LabelledTable:
    """A table with a column of labels; `transition` says how they came about, where that is not the model's to say."""

    examples: tables.DataTable
    label: str
    y_bar: NDArray[Any]
    classes: list[str]
    said: str
    transition: Any = None

    @classmethod
    def read(
        cls, place: str, label: str, classes: Sequence[str] | None, ordinary: bool, delimiter: str | None = None
    ) -> LabelledTable:
        """Read a table and one of its columns as labels."""
        table = tables.read_table(place, delimiter)
        return cls(table, label, *read_labels(table, label, classes, ordinary))

    def evaluate(self, predicted: NDArray[Any], trained: EncodedModel, confidence: float) -> Evaluation:
        """Estimate how good predictions are from the labels."""
        transition = trained.model.transition if self.transition is None else self.transition
        sample, (told,) = read(self.y_bar, len(self.classes), transition, y_pred=predicted)
        share = np.bincount(predicted, minlength=len(self.classes)) / len(predicted)
        return judge(self.said, self.classes, sample, told, share, confidence)

    def warn_of_rows_trained_on(self, trained: EncodedModel) -> None:
        """Warn if labels are among those that the model learned from, which flatter it."""
        if (told := trained.about.get("rows_learned")) is None:  # a stream's model, or one of an earlier release
            return
        encoder = cast(TableEncoder, trained.encoder)
        judging = row_digests(self.examples, encoder.columns)[says_something(self.y_bar)]
        if known := count_known(told, judging):
            about = "about " * (told["every"] > 1)
            warnings.warn(
                f"{about}{known:,} of these {len(judging):,} rows were trained on, so this accuracy is too high; see "
                f"the estimated accuracy that `naysayer train` or `naysayer tune` printed",
                stacklevel=2,
            )


def judge(
    said: str,
    classes: Sequence[str],
    sample: Sample,
    predicted: NDArray[Any],
    share: NDArray[Any],
    confidence: float,
) -> Evaluation:
    """Estimate how good predictions are from labels that say something; `share` is that of each class among all."""
    tail = tail_probability(confidence)
    counts = sample.summed(predicted, sample.n_classes)
    found = _class_shares(classes, sample.class_prior_interval(tail), share)
    for k, row in enumerate(found):
        mine = np.flatnonzero(predicted == k)
        precision, recall = None, None
        if len(mine):
            right = sample[mine].accuracy_interval(predicted[mine], tail)
            precision = right._replace(estimate=possible(right.estimate))
        if (total := counts[k].sum()) > 1e-9:  # else the labels say that there are none of this class
            recall = possible(float(counts[k, k] / total))
        rough = recall is not None and bool(row["prior_low"] <= 0)
        row.update(precision=precision, recall=recall, recall_rough=rough)
    return Evaluation(said, sample.accuracy_interval(predicted, tail), found, {"labels": said})


@dataclass(frozen=True)
class AnsweredItems:
    """The items of a store, and what people answered about them."""

    examples: list[Any]
    classes: list[str]
    answers: Any
    seen: NDArray[np.bool_]
    unread: str = ""

    @classmethod
    def read(cls, place: str, trained: EncodedModel) -> AnsweredItems:
        """Read a store that has answers about items which a model did not learn from."""
        from naysayer.collect.learn import Trained
        from naysayer.collect.store import Store
        from naysayer.measure.answers import read_answers

        if not is_store(place):
            raise ValueError(f"a model that learned from a store needs a store to be evaluated on; got {place}")
        classes = trained.model.classes_.tolist()
        with Store.open(place) as store:
            if list(store.project.classes) != classes:
                raise ValueError(f"{place} must be of the model's classes, {', '.join(classes)}")
            said, items = read_answers(store), {item.id: item for item in store.items()}
        if not said.items:
            raise ValueError(f"{place} must have answers to evaluate a model on; it has none")
        learned = Trained(trained.model, trained.encoder, trained.about)
        seen = np.array([learned.saw(id) for id in said.items])
        if seen.all():
            raise ValueError(
                f"{place} must have answers about items that the model did not learn from; it has none; "
                f"naysayer train printed an estimate; ask about other items for another"
            )
        return cls([items[id] for id in said.items], classes, said, seen)

    def without(self, failed: dict[int, str]) -> AnsweredItems:
        """Leave out photos that cannot be read; `failed` says why not, by their rows."""
        from naysayer.features.photos import told_of

        here = np.array([row not in failed for row in range(len(self.examples))])
        told = told_of(list(failed.values()))
        if self.seen[here].all():
            raise ValueError(
                f"a store must have a photo that can be read and that the model did not learn from; got none; {told}"
            )
        examples = [item for item, there in zip(self.examples, here) if there]
        unread = f"; {count(len(failed), 'answered photo')} {'was' if len(failed) == 1 else 'were'} left out: {told}"
        return replace(self, examples=examples, answers=self.answers.only(here), seen=self.seen[here], unread=unread)

    def evaluate(self, predicted: NDArray[Any], trained: EncodedModel, confidence: float) -> Evaluation:
        """Estimate how good predictions are from the answers about items that the model did not learn from."""
        from naysayer.measure.answer_estimates import accuracy, class_priors

        found = accuracy(self.answers, np.where(self.seen, -1, predicted), confidence=confidence)
        prior = class_priors(self.answers, confidence=confidence)
        n, left_out = int((~self.seen).sum()), int(self.seen.sum())
        rest = f"; {left_out:,} more are left out, as the model learned from them" if left_out else ""
        share = np.bincount(predicted, minlength=len(self.classes)) / len(predicted)
        shares = _class_shares(self.classes, prior, share)
        return Evaluation(f"answers about {n:,} items{rest}{self.unread}", found, shares, {"items": n})


def _class_shares(classes: Sequence[str], prior: Interval, share: NDArray[Any]) -> list[dict[str, Any]]:
    """Give each class's estimated share, and its share of the predictions."""
    return [
        {"class": name, "prior": p, "prior_low": low, "prior_high": high, "predicted_share": share[k]}
        for k, (name, p, low, high) in enumerate(zip(classes, *prior))
    ]
