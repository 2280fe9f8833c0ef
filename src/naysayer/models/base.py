"""What all classifiers share."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from naysayer.labels.encoding import encode_labels
from naysayer.measure.sample import take


class ComplementaryMixin(ClassifierMixin):  # type: ignore[misc]
    """What follows from `predict_proba`, `classes_` and `transition`: predictions, and a score from labels alone."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Give the most probable class value of each example, (N,)."""
        most_probable = self.predict_proba(X).argmax(axis=1)  # type: ignore[attr-defined]
        return self.classes_[most_probable]  # type: ignore[attr-defined]

    def score(self, X: Any, y_bar: Any, sample_weight: Any = None) -> float:
        """Estimate the accuracy from labels alone; unbiased, so it may leave [0, 1] when they are few.

        `sample_weight` (N,) says how much each example counts; None: all the same.
        """
        predicted = self.predict_proba(X).argmax(axis=1)  # type: ignore[attr-defined]
        labels, classes = encode_labels(y_bar, self.classes_)  # type: ignore[attr-defined]
        q = self.transition  # type: ignore[attr-defined]
        sample, (predicted,) = take(labels, len(classes), q, sample_weight, y_pred=predicted)
        return sample.accuracy(predicted)
