"""Labels and predictions counted as they come, so that estimates need no more memory for more examples.

All estimates but risks depend on the examples only through how many have which label and which prediction. A table of
these numbers can be added to another, and gives the same estimates and intervals as all examples at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysayer.labels import transition as transitions
from naysayer.labels.checks import check_classes, check_labels, check_n_classes, check_weight
from naysayer.measure.intervals import Floats
from naysayer.measure.sample import Sample, informative


@dataclass(frozen=True)
class Counted(Sample):
    """A sample whose rows each stand for several examples: `sample_weight` is their number, or their weights in sum.

    Parameters
    ----------
    squares : sums of the squares of the examples' weights; None where examples have none.
    """

    squares: Floats | None = None

    def __getitem__(self, rows: NDArray[Any]) -> Sample:
        taken = super().__getitem__(rows)
        return replace(taken, squares=None if self.squares is None else self.squares[rows])  # type: ignore[call-arg]

    def _counts(self) -> dict[str, Any]:
        return {"counts": self.sample_weight, "squares": self.squares}

    def _distinct(self) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any], NDArray[Any]]:
        distinct, of, counts, squares = super()._distinct()
        return distinct, of, counts, counts if self.squares is None else squares


class Tally:
    """How many examples have which label and which predictions.

    Parameters
    ----------
    n_classes : K
    transition : (K, K) matrix Q of biased or noisy labels; uniform if None.
    n_predictions : predictions per example.

    Examples
    --------
    >>> one, other = Tally(3), Tally(3)
    >>> one.update([1, 2, 0], [0, 1, 2])
    >>> other.update([2], [2])
    >>> one.merge(other)
    >>> sample, (predicted,) = one.sample()
    >>> sample.accuracy(predicted)
    0.5
    """

    def __init__(self, n_classes: int, transition: ArrayLike | None = None, n_predictions: int = 1) -> None:
        self.n_classes, self.transition, self.n_predictions = check_n_classes(n_classes), transition, n_predictions
        self.inverse = None if transition is None else transitions.inverse(transition, n_classes)
        self.weighted: bool | None = None
        self.single: bool | None = None
        self.table: dict[bytes, NDArray[np.float64]] = {}  # label and predictions → numbers, weights, their squares

    def update(self, y_bar: Any, *predictions: Any, sample_weight: Any = None) -> None:
        """Add examples: labels (N,) or (N, K), and as many predictions (N,) as were agreed on."""
        labels, _ = check_labels(y_bar, self.n_classes)
        chosen = [check_classes(p, self.n_classes, name="y_pred") for p in predictions]
        if len(chosen) != self.n_predictions:
            raise ValueError(f"an update must have {self.n_predictions} arrays of predictions; got {len(chosen)}")
        for p in chosen:
            if len(p) != len(labels):
                raise ValueError(f"`y_bar` and `y_pred` must have the same length; got {len(labels)} and {len(p)}")
        weight = None if sample_weight is None else check_weight(sample_weight, len(labels), is_part=True)
        self._agree(labels.ndim == 1, weight is not None)
        kept = informative(labels, weight, is_part=True)
        self._add(labels[kept], [p[kept] for p in chosen], None if weight is None else weight[kept])

    def _agree(self, single: bool, weighted: bool) -> None:
        """Labels must keep one form, and have weights in all updates or in none."""
        self.single = single if self.single is None else self.single
        self.weighted = weighted if self.weighted is None else self.weighted
        if self.single != single:
            raise ValueError("all updates must have labels of one form, (N,) classes or (N, K) rows; got both")
        if self.weighted != weighted:
            raise ValueError("`sample_weight` must be given in all updates, or in none; got both")

    def _add(self, labels: NDArray[Any], predictions: list[NDArray[np.int64]], weight: Floats | None) -> None:
        if labels.ndim == 1:
            label_codes, keys = labels, [np.int64(k).tobytes() for k in range(self.n_classes)]
        else:
            packed, label_codes = np.unique(np.packbits(labels, axis=1), axis=0, return_inverse=True)
            label_codes, keys = label_codes.reshape(-1), [row.tobytes() for row in packed]
        codes = label_codes
        for p in predictions:
            codes = codes * self.n_classes + p
        found, place = np.unique(codes, return_inverse=True)
        each = np.ones(len(codes)) if weight is None else weight
        sums = np.stack([np.bincount(place, w, len(found)) for w in (None, each, each**2)], axis=1)
        for code, row in zip(found.tolist(), sums):
            chosen = []
            for _ in predictions:
                code, k = divmod(code, self.n_classes)
                chosen.append(k)
            key = keys[code] + np.array(chosen[::-1], dtype=np.int64).tobytes()
            self.table[key] = self.table[key] + row if key in self.table else row

    def merge(self, other: Tally) -> None:
        """Add what another tally has counted."""
        mine, theirs = ((t.n_classes, t.n_predictions, _plain(t.transition)) for t in (self, other))
        if mine != theirs:
            raise ValueError("tallies must be of the same classes, predictions and transition matrix to be merged")
        if other.single is None:
            return
        self._agree(other.single, bool(other.weighted))
        for key, row in other.table.items():
            self.table[key] = self.table[key] + row if key in self.table else row

    def __len__(self) -> int:
        """How many examples say something."""
        return int(sum(row[0] for row in self.table.values()))

    def sample(self) -> tuple[Counted, list[NDArray[np.int64]]]:
        """Give the different examples and their predictions, each standing for as many as there were."""
        if not self.table:
            raise ValueError("there must be a label that says something; got none so far")
        width = 8 * self.n_predictions
        keys = sorted(self.table)  # the order of updates does not matter
        sums = np.stack([self.table[key] for key in keys])
        told = [key[: len(key) - width] for key in keys]
        labels = np.array([np.frombuffer(key, np.int64 if self.single else np.uint8) for key in told])
        labels = labels[:, 0] if self.single else np.unpackbits(labels, axis=1, count=self.n_classes).astype(bool)
        predicted = np.array([np.frombuffer(key[len(key) - width :], np.int64) for key in keys]).reshape(len(keys), -1)
        estimated = transitions.as_estimated(self.transition)
        counts, squares = (sums[:, 1], sums[:, 2]) if self.weighted else (sums[:, 0], None)
        return Counted(labels, self.n_classes, self.inverse, counts, estimated, squares), list(predicted.T)


def _plain(transition: Any) -> Any:
    return None if transition is None else np.asarray(transition).tolist()


class Total:
    """A mean of values and its spread, from parts: numbers, weights, and squares about the mean."""

    def __init__(self) -> None:
        self.weight = self.squares = self.mean = 0.0
        self.apart = np.zeros(2)  # sums of w² (v - m) and w² (v - m)², about the mean

    def update(self, values: Floats, weight: Floats | None = None) -> None:
        """Add values (n,)."""
        w = np.ones(len(values)) if weight is None else weight
        if not w.sum() > 0:
            return
        other = Total()
        other.weight, other.squares = float(w.sum()), float((w**2).sum())
        other.mean = float((w * values).sum() / other.weight)
        gaps = values - other.mean
        other.apart = np.array([(w**2 * gaps).sum(), (w**2 * gaps**2).sum()])
        self.merge(other)

    def merge(self, other: Total) -> None:
        """Add what another has summed."""
        total = self.weight + other.weight
        if not total > 0:
            return
        mean = self.mean + (other.mean - self.mean) * (other.weight / total)
        self.apart = self._about(mean) + other._about(mean)
        self.weight, self.squares, self.mean = total, self.squares + other.squares, mean

    def _about(self, mean: float) -> NDArray[np.float64]:
        """The sums about another mean."""
        shift = self.mean - mean
        first, second = self.apart
        return np.array([first + shift * self.squares, second + 2 * shift * first + shift**2 * self.squares])
