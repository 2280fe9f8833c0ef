"""What `train`, `predict` and `evaluate` read: examples and their labels, from a table or from a store of answers.

Importing this loads torch; the commands do so when they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.cli.console import possible
from naysayer.data import tables
from naysayer.data.labels import read_labels
from naysayer.measure import metrics
from naysayer.measure.intervals import Interval
from naysayer.models.encoded import EncodedModel


def is_store(place: str) -> bool:
    """Whether a place is a store of answers, by its name."""
    return "://" in place or Path(place).suffix.lower() in (".db", ".sqlite", ".sqlite3")


def read_examples(place: str, kind: str, delimiter: str | None = None) -> tuple[Sequence[Any], Any]:
    """Read examples of the kind that a model learned from; give their names, or their row numbers, and the examples."""
    if kind == "table":
        table = tables.read_table(place, delimiter)
        return range(table.n_rows), table
    from naysayer.data.items import read_items

    if is_store(place):
        from naysayer.collect.store import Store

        with Store.open(place) as answers:
            items = list(answers.items())
    else:
        items = list(read_items(place))
    if odd := next((item for item in items if item.kind != kind), None):
        raise ValueError(f"{place} must hold {kind}s, as the model learned from them; {odd.name} is a {odd.kind}")
    return [item.name for item in items], items


@dataclass(frozen=True)
class Evaluation:
    """How good a model is, and on what that rests.

    Parameters
    ----------
    said : what the labels are, in one line.
    accuracy : estimate and interval.
    classes : for each class its name, its share with an interval, and the share of the predictions; from labels also
        the precision and the recall.
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
        n_classes = len(self.classes)
        transition = trained.model.transition if self.transition is None else self.transition
        options: dict[str, Any] = {"n_classes": n_classes, "transition": transition}
        accuracy = metrics.accuracy_interval(self.y_bar, predicted, confidence=confidence, **options)
        prior = metrics.class_prior_interval(self.y_bar, confidence=confidence, **options)
        counts = metrics.confusion_matrix(self.y_bar, predicted, **options)
        found = _class_shares(self.classes, prior, predicted)
        for k, row in enumerate(found):
            mine = predicted == k
            precision, recall = None, None
            if self._says_something(mine):
                right = metrics.accuracy_interval(self.y_bar[mine], predicted[mine], confidence=confidence, **options)
                precision = right._replace(estimate=possible(right.estimate))
            if (total := counts[k].sum()) > 1e-9:  # else the labels say that there are none of this class
                recall = possible(float(counts[k, k] / total))
            row.update(precision=precision, recall=recall)
        return Evaluation(self.said, accuracy, found, {"labels": self.said})

    def _says_something(self, chosen: NDArray[np.bool_]) -> bool:
        """Whether any of the chosen rows has a label."""
        return bool(chosen.any() and (self.y_bar.ndim == 1 or self.y_bar[chosen].any()))


@dataclass(frozen=True)
class AnsweredItems:
    """The items of a store, and what people answered about them."""

    examples: list[Any]
    classes: list[str]
    answers: Any
    seen: NDArray[np.bool_]

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

    def evaluate(self, predicted: NDArray[Any], trained: EncodedModel, confidence: float) -> Evaluation:
        """Estimate how good predictions are from the answers about items that the model did not learn from."""
        from naysayer.measure.answers import accuracy, class_priors

        found = accuracy(self.answers, np.where(self.seen, -1, predicted), confidence=confidence)
        prior = class_priors(self.answers, confidence=confidence)
        n, left_out = int((~self.seen).sum()), int(self.seen.sum())
        rest = f"; {left_out:,} more are left out, as the model learned from them" if left_out else ""
        shares = _class_shares(self.classes, prior, predicted)
        return Evaluation(f"answers about {n:,} items{rest}", found, shares, {"items": n})


def _class_shares(classes: Sequence[str], prior: Interval, predicted: NDArray[Any]) -> list[dict[str, Any]]:
    """Give each class's estimated share, and its share of the predictions."""
    share = np.bincount(predicted, minlength=len(classes)) / len(predicted)
    return [
        {"class": name, "prior": p, "prior_low": low, "prior_high": high, "predicted_share": share[k]}
        for k, (name, p, low, high) in enumerate(zip(classes, *prior))
    ]
