"""What a report rests on: examples, what is known of them, and what was predicted by runs that had not seen it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.data.items import Item
from naysayer.data.tables import DataTable
from naysayer.labels.weights import unbiased_weights
from naysayer.measure import metrics
from naysayer.measure.answer_estimates import class_priors, item_weights
from naysayer.measure.answers import Answers, labels
from naysayer.measure.intervals import Interval
from naysayer.models.classifier import ComplementaryClassifier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
BLOCK = 50_000  # rows whose weights are held at a time


class Confusion(NamedTuple):
    """Of the examples predicted to be class j (rows) the share that is of class k (columns), estimated: (K, K).

    `error` are the standard errors, as if two more examples, whose weights lie at either end of their range, had been
    predicted so: where few labels all agree, chance did not stop. `number` (K,) are how many were predicted so.
    """

    share: Floats
    error: Floats
    number: Ints


@dataclass(frozen=True)
class Evidence:
    """What a report rests on, beside the model.

    Parameters
    ----------
    said : what the labels are, in one line.
    examples : N of them: a table, or items.
    ruled_out : (N, K) what the labels say; a row without any says nothing.
    rows, predicted, sure : (n,) the examples that were held out, the classes that runs which had not seen them
        predicted, and the probabilities of these classes.
    confusion : of these predictions.
    prior : estimated shares of the classes, three arrays (K,).
    """

    said: str
    examples: DataTable | Sequence[Item]
    ruled_out: Bools
    rows: Ints
    predicted: Ints
    sure: Floats
    confusion: Confusion
    prior: Interval

    @classmethod
    def from_labels(
        cls, said: str, model: ComplementaryClassifier, examples: DataTable | Sequence[Item], y_bar: NDArray[Any]
    ) -> Evidence:
        """Take labels that a model was just fitted to: (N,) class indices that are ruled out, or the (N, K) matrix."""
        n_classes, transition, held_out = len(model.classes_), model.transition, model.held_out_
        ruled_out = y_bar if y_bar.ndim == 2 else y_bar[:, None] == np.arange(n_classes)
        rows = np.flatnonzero(ruled_out.any(axis=1))[held_out.rows]
        prior = metrics.class_prior_interval(y_bar, n_classes=n_classes, transition=transition)

        def weights(block: slice) -> Floats:
            return np.asarray(unbiased_weights(y_bar[rows[block]], n_classes, transition), dtype=np.float64)

        found = _confusion(weights, held_out.classes, n_classes)
        return cls(said, examples, ruled_out, rows, held_out.classes, held_out.sure, found, prior)

    @classmethod
    def from_answers(
        cls, said: str, items: Sequence[Item], answers: Answers, predicted: Ints, sure: Floats
    ) -> Evidence:
        """Take items, those with answers first, and what was predicted for these by runs that had not seen them, or -1.

        Where no class was drawn by us, answers made elsewhere are taken at their word, as in training.
        """
        ruled_out, n_classes = labels(answers).ruled_out, answers.n_classes
        if np.count_nonzero(answers.design.told) > 1:
            rows, weights = item_weights(answers)
            prior = class_priors(answers)
        elif answers.drawn_from is not None:  # what was said before a class was added cannot tell how common it is
            rows, weights = np.zeros(0, dtype=np.int64), np.zeros((0, n_classes))
            prior = Interval(np.full(n_classes, 1.0 / n_classes), np.zeros(n_classes), np.ones(n_classes))
        else:
            rows = np.flatnonzero(ruled_out.any(axis=1))
            weights = np.asarray(unbiased_weights(ruled_out[rows], n_classes), dtype=np.float64)
            prior = metrics.class_prior_interval(ruled_out, n_classes=n_classes)
        weights = weights[predicted[rows] >= 0]
        found = _confusion(weights.__getitem__, predicted[rows[predicted[rows] >= 0]], n_classes)
        judged = np.flatnonzero(predicted >= 0)
        ruled_out = np.pad(ruled_out, ((0, len(items) - len(ruled_out)), (0, 0)))
        return cls(said, items, ruled_out, judged, predicted[judged], sure[judged], found, prior)

    @property
    def n_examples(self) -> int:
        """N."""
        return len(self.ruled_out)

    @property
    def n_labelled(self) -> int:
        """How many examples have a label."""
        return int(self.ruled_out.any(axis=1).sum())

    def contradicted(self) -> Ints:
        """Give the places in `rows` of predictions that the label rules out, the surest first."""
        places = np.flatnonzero(self.ruled_out[self.rows, self.predicted])
        return places[np.argsort(-self.sure[places], kind="stable")]

    def label(self, row: int, classes: Sequence[str]) -> str:
        """Say what the label of an example says."""
        out = self.ruled_out[row]
        if not out.any():
            return "no label"
        if (~out).sum() == 1:
            return f"is {classes[int(np.argmin(out))]}"
        if out.sum() * 2 <= len(out) or out.sum() <= 3:
            return f"not {_listed([classes[k] for k in np.flatnonzero(out).tolist()])}"
        return _listed([classes[k] for k in np.flatnonzero(~out).tolist()])


def _confusion(weights: Any, predicted: Ints, n_classes: int) -> Confusion:
    """Average rows of weights over examples that are predicted alike; `weights` gives those of a slice."""
    sums, squares = np.zeros((2, n_classes, n_classes))
    ends = np.array([0.0, 1.0])
    for start in range(0, len(predicted), BLOCK):
        block = slice(start, start + BLOCK)
        w = weights(block)
        np.add.at(sums, predicted[block], w)
        np.add.at(squares, predicted[block], w**2)
        ends = np.array([min(ends[0], w.min()), max(ends[1], w.max())])
    count = np.bincount(predicted, minlength=n_classes)
    n = np.maximum(count, 1)[:, None]
    mean = (sums + ends.sum()) / (n + 2)
    variance = np.maximum((squares + (ends**2).sum()) / (n + 2) - mean**2, 0.0)
    return Confusion(sums / n, np.sqrt(variance / (n + 2)), count)


def _listed(names: list[str]) -> str:
    """Names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
