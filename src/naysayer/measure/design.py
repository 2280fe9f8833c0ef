"""How the questions about an item were drawn, and what weights of its answers follow; `answer_estimates` says why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from naysayer.measure.intervals import Interval, mean_bounds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST_ERROR = 0.45  # at 0.5 answers say nothing
_STEPS = 512  # distinct values that an interval is computed from
_SHRINK = 10.0  # items that the usual coefficients count for beside the fitted ones


class Design:
    """Which questions led to an item's answers: the first about each class, until the first yes.

    `complete`: every item is of one of the classes; otherwise some may be of another, which was not asked about.
    """

    def __init__(
        self,
        n_items: int,
        weights: Floats,
        item: Ints,
        asked: Ints,
        annotator: Ints,
        value: Ints,
        probability: Floats,
        repeat: NDArray[np.bool_],
        complete: bool = True,
    ) -> None:
        self.n_classes, self.weights, self.complete = len(weights), weights, complete
        drawn = np.flatnonzero(~repeat & (probability > 0))
        rows = drawn[np.argsort(item[drawn], kind="stable")]  # item by item, in the order of time
        rows = rows[_within(item[rows], value[rows] == 1) == 0]
        # A class at which one could not tell may be drawn again for another: that is a draw, but no first question.
        first = np.zeros(len(rows), dtype=bool)
        first[np.unique(item[rows] * self.n_classes + asked[rows], return_index=True)[1]] = True
        turn = _within(item[rows], first)
        # Whether the last class is asked about depends on the class: a no to all others leaves nothing to ask.
        used = turn < self.n_classes - 1
        rows, first, turn = rows[used], first[used], turn[used]
        draw = _within(item[rows], np.ones(len(rows), dtype=bool))
        shape = (n_items, self.n_classes)
        self.was_asked, expected = np.zeros(shape, dtype=bool), np.zeros(shape)
        for t in range(draw.max(initial=-1) + 1):
            now = rows[draw == t]
            about, c = item[now], asked[now]
            scale = (probability[now] / weights[c])[:, None]
            expected[about] += np.where(self.was_asked[about], 0.0, scale * weights)
            self.was_asked[about, c] = True
        settled = np.zeros(n_items, dtype=bool)  # by a yes that is no first answer
        settled[item[rows[~first & (value[rows] == 1)]]] = True
        rows, self.turn = rows[first], turn[first]
        self.item, self.asked, self.annotator, self.value = item[rows], asked[rows], annotator[rows], value[rows]
        latest = self.turn == self.was_asked.sum(axis=1)[self.item] - 1
        self.closed = (self.value == 1) | (latest & settled[self.item])
        self.surplus = self.was_asked - expected  # has mean 0 whatever the class is
        self.told = self.was_asked.any(axis=1)
        self.answered = np.zeros(shape, dtype=bool)
        self.answered[self.item, self.asked] = self.value >= 0

    @cached_property
    def _turns(self) -> Floats:
        """P(class k is asked about at the t-th question, if its item is open by then), (K, T)."""
        n_turns = int(self.turn.max(initial=-1)) + 1
        n_asked = np.bincount(self.turn, minlength=n_turns)
        n_open = np.bincount(self.turn[~self.closed], minlength=n_turns)
        went_on = np.ones(n_turns)  # of the items open after a question, those that have got another one so far
        went_on[1:] = n_asked[1:] / np.maximum(n_open[:-1], 1)
        return _turn_probabilities(self.weights, n_turns) * np.cumprod(went_on)

    def weighted(self, rates: Floats) -> Weighted:
        """Weigh the answers, for these error rates of the annotators."""
        skipped = self.value < 0
        rate = float(rates[self.annotator[~skipped]].mean()) if not skipped.all() else 0.0
        no_yes = 1.0 - rate * (1.0 - skipped.mean())
        asked = (self._turns * no_yes ** np.arange(self._turns.shape[1])).sum(axis=1)
        n_asked = np.bincount(self.asked, minlength=self.n_classes)
        n_skipped = np.bincount(self.asked[skipped], minlength=self.n_classes)
        reached = asked * np.where(n_skipped < n_asked, 1.0 - n_skipped / np.maximum(n_asked, 1), 1.0)
        e = rates[self.annotator]
        weights = np.zeros(self.was_asked.shape)
        weights[self.item, self.asked] = np.where(skipped, 0.0, (self.value - e) / (1.0 - 2.0 * e))
        return Weighted(self, reached, weights / reached, float(rates.max(initial=0.0)))


@dataclass(frozen=True)
class Weighted:
    """Answers weighed: q (K,), W (N, K), and the largest error rate."""

    design: Design
    reached: Floats
    weights: Floats
    rate: float

    def values(self, items: Ints, classes: Ints) -> tuple[Floats, Floats]:
        """W of each item at its class less what has mean 0, (n,), and what an answer about that class counts there."""
        surplus = self.design.surplus[items, classes] / self.reached[classes]
        own, k = self.weights[items, classes], self.design.n_classes
        if not self.design.complete:  # the weights of an item of another class have mean 0, not 1
            return _least_variance(own, surplus[:, None], [1.0 - 1.0 / k])[0], 1.0 / self.reached[classes]
        whole = self.weights[items].sum(axis=1) - 1.0
        values, coefficients = _least_variance(own, np.stack([surplus, whole], axis=1), [1.0 - 1.0 / k, 1.0 / k])
        return values, (1.0 - coefficients[:, 1]) / self.reached[classes]

    def interval(self, items: Ints, classes: Ints, tail: float) -> Interval:
        """Gaffke's bounds of the mean, wherever they lie, from values rounded to few distinct ones."""
        values, factor = self.values(items, classes)
        # The ends of the range: what the values would be, had the answers about these classes been others.
        about = self.design.answered[items, classes]
        z = self.weights[items, classes] * self.reached[classes]
        no, yes = -self.rate / (1.0 - 2.0 * self.rate), (1.0 - self.rate) / (1.0 - 2.0 * self.rate)
        others = [values, *((values + factor * (other - z))[about] for other in (no, yes))]
        if not about.any():
            others += [values - factor, values + factor]
        ends = np.concatenate(others)
        low, high = float(ends.min()), float(ends.max())
        step = (high - low) / _STEPS or 1.0
        rounded, counts = np.unique(np.round((values - low) / step), return_counts=True)
        bounds = mean_bounds(low + step * rounded, low, high, tail, counts=counts)
        return Interval(float(values.mean()), bounds.low, bounds.high)


def check_rate(rate: float) -> float:
    """Refuse an error rate at which answers would say nothing."""
    if not 0 <= rate <= LARGEST_ERROR:
        raise ValueError(f"an error rate must be from 0 to {LARGEST_ERROR}; got {rate}; at 0.5 answers say nothing")
    return float(rate)


def _within(groups: Ints, marks: NDArray[np.bool_]) -> Ints:
    """Count the marks before each row in its group; rows of a group follow each other."""
    before: Ints = np.cumsum(marks) - marks
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return before - np.repeat(before[starts], np.diff(np.append(starts, len(groups))))


_nodes = cache(np.polynomial.legendre.leggauss)


def _turn_probabilities(weights: Floats, n_turns: int, nodes: int = 256) -> Floats:
    r"""P(class k is the t-th to be drawn), (K, T), without replacement and in proportion to weights.

    The order is that of exponential times with the weights as rates. Where k comes at the time at which it is still out
    with probability u, another class c came before with probability :math:`1 - u^{w_c/w_k}`; the number of those
    that did has a distribution that is built up class by class, and u is uniform.
    """
    n_classes = len(weights)
    if np.ptp(weights) < 1e-12:
        return np.full((n_classes, n_turns), 1.0 / n_classes)
    x, share = _nodes(nodes)
    log_u = np.log((x + 1.0) / 2.0)[:, None]
    n_before = np.zeros((nodes, n_classes, n_turns))
    n_before[..., 0] = 1.0
    for c in range(n_classes):
        earlier = -np.expm1(log_u * (weights[c] / weights))
        earlier[:, c] = 0.0
        moved = n_before[..., :-1] * earlier[..., None]
        n_before *= 1.0 - earlier[..., None]
        n_before[..., 1:] += moved
    return np.einsum("n,nkt->kt", share / 2.0, n_before)


def _least_variance(own: Floats, noise: Floats, near: list[float]) -> tuple[Floats, Floats]:
    r"""Take variables of mean 0 (n, 2) from the values (n,), with the coefficients that leave the least variance.

    The variables are how often the class was asked about above expectation, and by how much an item's weights miss 1.
    With :math:`(1 - \frac1K, \frac1K)` the values of uniform questions without errors become those of
    :func:`naysayer.unbiased_weights`; the coefficients are fitted near these. Those of either half of the items come
    from the other half, so that the mean stays unbiased. Gives the values, and the coefficients of each.
    """
    usual = np.array(near)
    coefficients = np.empty_like(noise)
    for half in (0, 1):
        x, y = noise[1 - half :: 2], own[1 - half :: 2]
        rest = y - x @ usual
        centred = x - x.mean(axis=0)
        ridge = _SHRINK * np.diag((x**2).mean(axis=0) + 1e-12)
        fitted = np.linalg.solve(centred.T @ centred + ridge, centred.T @ (rest - rest.mean()))
        coefficients[half::2] = usual + fitted
    return own - (noise * coefficients).sum(axis=1), coefficients
