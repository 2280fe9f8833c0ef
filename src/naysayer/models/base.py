"""What all classifiers share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from naysayer.labels.encoding import encode_labels
from naysayer.measure.sample import take


@contextmanager
def columns_named(X: Any) -> Iterator[None]:
    """Where features cannot be read, name the column of a data frame that holds no numbers."""
    try:
        yield
    except (TypeError, ValueError):
        for name, kind in getattr(getattr(X, "dtypes", None), "items", dict)():
            if not _is_numeric(X[name], getattr(kind, "kind", "O")):
                raise ValueError(
                    f"`X` must hold numbers; column {name!r} holds {kind}; leave it out, or make numbers of it, as "
                    f"sklearn.compose.ColumnTransformer does"
                ) from None
        raise


def _is_numeric(column: Any, kind: str) -> bool:
    """Whether a column of a data frame, of the dtype's `kind`, can be read as numbers beside others."""
    try:
        return kind in "biuf" or (kind not in "mM" and np.asarray(column, dtype=np.float64).ndim == 1)
    except (TypeError, ValueError):
        return False


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
