r"""Several members' probabilities into one, and how accurate that one is; both from labels that no member has seen.

A member c gives class probabilities :math:`p_c`. They are tempered and mixed,

.. math:: p(x) = \sum_c w_c\, \mathrm{softmax}(t_c \log p_c(x)) + w_0 / K,

with the temperatures and weights that make the held-out labels most likely (:class:`~naysayer.objectives.Forward`), and
a few labels' worth of belief in equal weights. The likelihood of a label varies far less than the accuracy that it
estimates, so little is left to chance; where nothing was learned, :math:`w_0` and small temperatures say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from naysayer.measure.intervals import Interval, within
from naysayer.objectives import Forward

Floats = NDArray[np.float64]

TEMPERATURES = np.geomspace(0.05, 6.0, 18)
BELIEF = 1.0  # labels' worth of belief in a member, unless it has a belief of its own
ALIKE = 1.0  # by how much a member's temperature is held near the common one, in log likelihood per log temperature²
LEAST = 1e-3  # of a probability: no label may count for more, be it wrong
LIGHTEST = 0.02  # a member whose weight is less is left out
FIT_ROWS = 20_000  # more labels do not make the weights any better
GROUPS = 5  # of rows, each judged by a pool that was fitted to the others


class Pool(NamedTuple):
    """How C members are mixed: their temperatures and weights; what is left to 1 is the uniform distribution's."""

    temperatures: Floats
    weights: Floats

    def mix(self, members: Sequence[NDArray[Any]]) -> Floats:
        """Mix the members' probabilities, (N, K) each."""
        mixed = sum(w * temper(p, t) for t, w, p in zip(*self, members, strict=True) if w > 0)
        return np.asarray(mixed + max(0.0, 1.0 - self.weights.sum()) / members[0].shape[-1])  # but for rounding


def temper(p: NDArray[Any], t: float) -> Floats:
    """Give softmax(t log p), (N, K): sharper than p for t > 1, closer to uniform for t < 1.

    Examples
    --------
    >>> temper(np.array([[0.8, 0.2]]), 0.5).round(3)
    array([[0.667, 0.333]])
    """
    powers = np.maximum(p, LEAST / p.shape[-1]).astype(np.float64) ** t
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


class Predicted(NamedTuple):
    """Rows that were held out, the classes predicted for them, and how the pool of all runs differs from these.

    `gain` is what all runs are more accurate than those that held a row out; bounds are `wider` times as far from the
    estimate as they would be if no label had been learned from; `probabilities` (n, K) are those of all classes. To
    tell as much as labels of different examples do, `repeats` times as many are needed. See :meth:`HeldOut.predict`.
    """

    rows: NDArray[np.int64]
    classes: NDArray[np.int64]
    gain: float
    wider: float
    probabilities: NDArray[np.float32]
    repeats: float = 1.0

    @property
    def sure(self) -> Floats:
        """The probabilities of the predicted classes, (n,)."""
        return self.probabilities.max(axis=1).astype(np.float64)

    def interval(self, bounds: Interval) -> Interval:
        """Estimate the accuracy of the pool of all runs, given that of the predictions."""
        estimate, low, high = bounds
        better = estimate + self.gain
        return within(better, better - self.wider * (estimate - low), better + self.wider * (high - estimate))


class HeldOut:
    """Members' probabilities of rows that they did not learn from, and the labels of these rows.

    Parameters
    ----------
    members : for each (R, N, K), the probabilities of each row, the r-th time it was held out; NaN where it was not.
        Where a member has fewer times than another, they are taken in turn.
    labels : (N,) or (N, K), checked; every row says something.
    n_classes : K
    transition : Q; uniform if None.
    n_runs : how many runs of each member predict together in the end.
    rng : deals the rows into groups.
    sample_weight : (N,), if examples count for more or less than one.
    groups : (N,) numbers from 0 up, if rows of one group are about the same example.
    belief : (C,) how many labels' worth of belief each member has, before any label is seen.

    Attributes
    ----------
    rows : (n,) those that were held out at all; everything below is about them.
    together : for each member (n, K), the mean over the times that a row was held out.
    groups : (n,), None where there are none.
    """

    def __init__(
        self,
        members: Sequence[NDArray[Any]],
        labels: NDArray[Any],
        n_classes: int,
        transition: ArrayLike | None,
        n_runs: int,
        rng: np.random.Generator,
        sample_weight: Floats | None = None,
        belief: Sequence[float] | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        times = np.arange(max(map(len, members)))
        known = np.logical_and.reduce([~np.isnan(p[times % len(p), :, 0]) for p in members])  # (R, N)
        self.rows = np.flatnonzero(known.any(axis=0))
        self.known = known[:, self.rows]
        self.times = [p[:, self.rows] for p in members]
        self.together = [np.nanmean(p, axis=0) for p in self.times]
        self.labels, self.n_classes, self.transition, self.n_runs = labels[self.rows], n_classes, transition, n_runs
        self.sample_weight = None if sample_weight is None else sample_weight[self.rows]
        self.belief = np.array([*([BELIEF] * len(members) if belief is None else belief), 0.0])  # none in the uniform
        self.groups = None if groups is None else np.unique(groups[self.rows], return_inverse=True)[1]
        examples = np.arange(len(self.rows)) if self.groups is None else self.groups
        self._group = (rng.permutation(examples.max(initial=-1) + 1) % GROUPS)[examples]
        self._some = np.flatnonzero(rng.permutation(len(self.rows)) < FIT_ROWS)
        self._likelihood = self._likelihoods()

    def _likelihoods(self) -> Floats:
        """P(label | x) by each member at each temperature, (C, T, n), and by the uniform distribution as the last."""
        forward = Forward(self.n_classes, self.transition).double()
        labels = torch.from_numpy(np.ascontiguousarray(self.labels[self._some]))

        def of(p: Floats) -> Floats:
            return np.exp(-forward.example_losses(torch.from_numpy(np.log(p)), labels).numpy())

        each = [[of(temper(p[self._some], t)) for t in TEMPERATURES] for p in self.together]
        nothing = of(np.full((len(labels), self.n_classes), 1.0 / self.n_classes))
        return np.array([*each, [nothing] * len(TEMPERATURES)])

    def pool(self, without: int | None = None) -> Pool:
        """Fit temperatures and weights to all labels, or to those outside a group; drop the lightest members."""
        rows = np.ones(len(self._some), dtype=bool) if without is None else self._group[self._some] != without
        likelihood = self._likelihood[:, :, rows]
        count = np.ones(rows.sum()) if self.sample_weight is None else self.sample_weight[self._some][rows]
        count = count / count.mean() if len(count) else count  # of a single row nothing is left
        score = np.log(likelihood) @ count  # (C + 1, T)
        log_t = np.log(TEMPERATURES)
        common = log_t[score[:-1].sum(axis=0).argmax()]
        best = (score - ALIKE / 2 * (log_t - common) ** 2).argmax(axis=1)
        tempered = np.stack([one[t] for one, t in zip(likelihood, best)])  # (C + 1, n)
        weights = mixture_weights(tempered, self.belief, count)
        kept = weights >= min(LIGHTEST, weights[:-1].max())
        kept[-1] = True
        weights[kept], weights[~kept] = mixture_weights(tempered[kept], self.belief[kept], count), 0.0
        return Pool(TEMPERATURES[best[:-1]], weights[:-1])

    def predict(self) -> Predicted:
        r"""Predict each row by a pool that was fitted to other labels, from the R of S runs that did not see the row.

        Two things are told besides. More runs are better together, :math:`a_r \approx a_\infty - b / r`, and b is told
        by how much more probable the pool finds what R runs predict than what single ones do, so that

        .. math:: \text{gain} = \frac{1/R - 1/S}{1 - 1/R} (\bar p_R - \bar p_1).

        And a label is not seen by what it judges, but it is by what judges the other rows, and theirs by what judges
        it. Where predictions follow the chance in the labels, both err alike, which doubles the variance of the
        estimated accuracy. The share of predictions that other labels would not change is taken to be the square of
        the pool's mean largest probability :math:`\bar m`, so bounds are :math:`\sqrt{2 - \bar m^2}` times as far.
        """
        classes = np.empty(len(self.rows), dtype=np.int64)
        sure, singly = np.empty(len(self.rows)), np.zeros(len(self.rows))
        probabilities = np.empty((len(self.rows), self.n_classes), dtype=np.float32)
        for group in np.unique(self._group):
            rows = np.flatnonzero(self._group == group)
            pool = self.pool(without=group)
            p = pool.mix([one[rows] for one in self.together])
            classes[rows], sure[rows], probabilities[rows] = p.argmax(axis=1), p.max(axis=1), p
            for r, known in enumerate(self.known[:, rows]):
                alone = pool.mix([one[r % len(one), rows] for one in self.times]).argmax(axis=1)
                singly[rows] += known * p[np.arange(len(rows)), alone]
        times = self.known.sum(axis=0)
        share = (1 / times - 1 / self.n_runs) / (1 - 1 / np.maximum(times, 2))
        gain = np.average(np.where(times > 1, share * (sure - singly / times), 0.0), weights=self.sample_weight)
        sureness = np.average(sure, weights=self.sample_weight)
        wider = float(np.sqrt(2.0 - sureness**2))
        return Predicted(self.rows, classes, max(0.0, float(gain)), wider, probabilities)


def mixture_weights(likelihood: Floats, belief: Floats, count: Floats, n_steps: int = 200) -> Floats:
    r"""Find the weights of a mixture, (C,), by expectation and maximisation.

    .. math:: \max_w \sum_i n_i \log \sum_c w_c L_{ci} + \sum_c b_c \log w_c

    Parameters
    ----------
    likelihood : (C, n) L, of each label by each component.
    belief : (C,) b, how many labels' worth of belief each component has; some in one at least.
    count : (n,) how many times each label counts.

    Examples
    --------
    >>> mixture_weights(np.array([[0.9, 0.8, 0.9], [0.1, 0.2, 0.1]]), np.ones(2), np.ones(3)).round(2)
    array([0.77, 0.23])
    """
    weights = belief + (belief.mean() or 1.0) / len(belief)  # where labels tell nothing, the belief decides
    weights /= weights.sum()
    for _ in range(n_steps):
        shares = weights[:, None] * likelihood
        total = (shares / shares.sum(axis=0)) @ count + belief
        weights = total / total.sum()
    return np.asarray(weights)
