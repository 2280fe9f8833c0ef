r"""What answers tell: labels to train on, how often people err, how common each class is, how good predictions are.

"Is it c?" is answered yes or no, and wrong with probability e either way. That has two consequences. A single yes is
wrong far more often than e, since most questions are about a class that the item is not: of 10 classes and e = 2% it
is wrong in 15% of the cases. So a yes is never taken as certain. In training it says that c is :math:`(1-e) : e` more
likely than any other class, just as a no says that of the others
(:class:`naysayer.objectives.likelihood.Likelihood`); twice yes counts as one, and a yes that somebody else answered
with no as nothing. And in every estimate an answer counts as

.. math:: z = \frac{[\text{yes}] - e}{1 - 2e}, \qquad E[z \mid \text{class } y, \text{asked about } c] = [y = c].

The questions about an item depend on the answers before: what was ruled out is not asked again, and after a yes the
item is done. Let :math:`q_k` be the probability that a class k is asked about *if it is the true one*. Then

.. math:: W_{ik} = z_{ik} / q_k \text{ where k was asked about, else } 0; \qquad E[W_{ik} \mid y_i] = [y_i = k],

for if k is not the true class, z has mean 0 whenever it is asked about, and how often that is does not matter. If k is
the true class, all other questions get no with probability 1 - e, whichever they are, so :math:`q_k` is known. The
means of W are unbiased for every way of asking and every e, as those of :func:`naysayer.unbiased_weights` are for
uniform labels without errors (:mod:`naysayer.measure.design`).

What is assumed: yes and no are wrong equally often, and independently at each question (an item that misleads everybody
does so twice); and "can't tell" does not depend on the class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, chisquare

from naysayer.measure import doctor, planning
from naysayer.measure.design import LARGEST_ERROR, Design
from naysayer.measure.intervals import Interval, tail_probability, within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

VALUES = {"yes": 1, "no": 0, "skip": -1}
FINAL_VOTES = 2  # yes less no that an owner's last word counts, for its class and against all others
_PRIOR = (1.0, 30.0)  # Beta, of the error rate before any question was repeated: 3% on average, and below 12%
_STRENGTH = 20.0  # answers to repeated questions that all the annotators' rate counts for in each one's
_BOUNDS = ((0.0, 1.0), (1.0, 5.0))  # priors of each one's bounds: what others do says nothing of a careless one
_GRID = (np.arange(2000) + 0.5) / 4000.0  # of error rates


@dataclass(frozen=True)
class Answers:
    """n answers about N items and K classes, in the order in which they came.

    Parameters
    ----------
    classes, items, annotators : the names that the indices below stand for; there are K, N, and one per
        person who answered.
    item, asked, annotator : (n,) of which item, about which class, by whom.
    value : (n,) 1 for yes, 0 for no, -1 for "can't tell".
    probability : (n,) with which the class was drawn among those that could still be asked about; 0: nobody drew it, as
        where somebody chose it from a list elsewhere. Such answers serve as labels, and for no estimate.
    repeat : (n,) whether the question repeats an earlier one.
    weights : (K,) how often each class is asked about, as probabilities.
    guided : (n,) whether guided questions had begun, None: never. How these were drawn depended on the answers
        before, and their estimates are those of :mod:`naysayer.measure.adaptive`. Here they serve as labels, and for
        error rates; so do those that were drawn in view of answers that no longer count.
    final : (N,) the class of an item by its owner's last word, -1: none; None: of no item. As a label it outweighs all
        answers; it is part of no estimate.
    drawn_from : (n,) how many of the classes there were when the question was drawn, None: all K. What was asked
        before a class was added says nothing about it, so an estimate rests on items whose questions were all drawn
        from the same classes; see `since` and `of_time`.
    complete : whether every item is of one of the classes.

    Examples
    --------
    >>> said = Answers.of(["a", "b", "a"], [0, 2, 1], ["no", "yes", "no"], classes=("cat", "dog", "emu"))
    >>> said.items, said.value
    (('a', 'b'), array([0, 1, 0]))
    """

    classes: tuple[str, ...]
    items: tuple[str, ...]
    annotators: tuple[str, ...]
    item: Ints
    asked: Ints
    annotator: Ints
    value: Ints
    probability: Floats
    repeat: Bools
    weights: Floats
    guided: Bools | None = None
    final: Ints | None = None
    drawn_from: Ints | None = None
    complete: bool = True

    @classmethod
    def of(
        cls,
        items: Sequence[str],
        asked: ArrayLike,
        values: Iterable[str],
        classes: Sequence[str],
        *,
        annotators: Sequence[str] | None = None,
        probabilities: ArrayLike | None = None,
        repeat: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        guided: ArrayLike | None = None,
        drawn_from: ArrayLike | None = None,
    ) -> Answers:
        """Build from plain columns; without `probabilities`, the classes left to an item count as equally likely."""
        names, item = _codes(items)
        people, annotator = _codes(annotators if annotators is not None else [""] * len(items))
        about = np.asarray(asked, dtype=np.int64)
        n_classes = len(classes)
        if len(about) and not (about.min() >= 0 and about.max() < n_classes):
            raise ValueError(f"`asked` must hold classes 0 to {n_classes - 1}; got {about.min()} to {about.max()}")
        share = np.full(n_classes, 1.0 / n_classes) if weights is None else np.asarray(weights, dtype=np.float64)
        if share.shape != (n_classes,) or not (share > 0).all():
            raise ValueError(f"`weights` must be {n_classes} numbers above 0, one per class; got {share.tolist()}")
        again = np.zeros(len(about), dtype=bool) if repeat is None else np.asarray(repeat, dtype=bool)
        chance = share[about] if probabilities is None else np.asarray(probabilities, dtype=np.float64)
        value = np.array([VALUES[value] for value in values], dtype=np.int64)
        late = None if guided is None else np.asarray(guided, dtype=bool)
        share = share / share.sum()
        of = None if drawn_from is None else np.asarray(drawn_from, dtype=np.int64)
        said = (item, about, annotator, value, chance, again)
        return cls(tuple(classes), names, people, *said, share, guided=late, drawn_from=of)

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)

    @cached_property
    def votes(self) -> NDArray[np.int64]:
        """Yes less no of each item and class, (N, K): all that the answers' likelihood needs."""
        out = np.zeros((len(self.items), self.n_classes), dtype=np.int64)
        np.add.at(out, (self.item, self.asked), np.array([-1, 1, 0])[self.value])
        if self.final is not None:
            told = np.flatnonzero(self.final >= 0)
            out[told] = -FINAL_VOTES
            out[told, self.final[told]] = FINAL_VOTES
        return out

    @cached_property
    def since(self) -> Ints:
        """How many classes there were when each item was first asked about, (N,); 0: it was not, by a random draw."""
        out = np.zeros(len(self.items), dtype=np.int64)
        rows = np.flatnonzero(self._chance > 0)[::-1]
        out[self.item[rows]] = self.n_classes if self.drawn_from is None else self.drawn_from[rows]
        return out

    @cached_property
    def design(self) -> Design:
        """How the questions were drawn, about items that were first asked about when there were all K classes."""
        chance = self._chance
        if self.drawn_from is not None:
            chance = np.where(self.since[self.item] == self.n_classes, chance, 0.0)
        said = (self.item, self.asked, self.annotator, self.value, chance, self.repeat)
        return Design(len(self.items), self.weights, *said, complete=self.complete)

    @property
    def _chance(self) -> Floats:
        """The probabilities (n,) of draws that estimates may rest on, 0 for other answers."""
        return self.probability if self.guided is None else np.where(self.guided, 0.0, self.probability)

    def of_time(self, n_classes: int) -> Answers:
        """Keep what was said while there were the first `n_classes` classes, about items first asked about then.

        Items and annotators stay, with or without answers.
        """
        assert self.drawn_from is not None
        kept = self._rows((self.drawn_from == n_classes) & (self.since[self.item] == n_classes))
        weights = self.weights[:n_classes] / self.weights[:n_classes].sum()
        return replace(
            kept, classes=self.classes[:n_classes], weights=weights, final=None, drawn_from=None, complete=False
        )

    def about(self, chosen: Bools) -> Answers:
        """Keep the answers about the chosen items (N,); the others stay as items without answers."""
        return self._rows(chosen[self.item])

    def _rows(self, kept: Bools) -> Answers:
        """Keep some of the answers (n,)."""
        names = ["item", "asked", "annotator", "value", "probability", "repeat"]
        names += [name for name in ("guided", "drawn_from") if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


def read_answers(store: Any) -> Answers:
    """Read the answers that stand in a store, such as :class:`naysayer.collect.store.Store`."""
    return from_standing(store.standing(), store.project.classes, store.project.probabilities)


def from_standing(
    given: Iterable[Any], classes: Sequence[str], probabilities: Sequence[float] | None = None
) -> Answers:
    """Take over standing answers (:class:`naysayer.collect.records.Standing`), such as those up to some time."""
    given = list(given)
    rows = [(s.item_id, s.class_index, s.value, s.annotator, s.probability, s.repeat_of is not None) for s in given]
    items, asked, values, people, chances, repeat = zip(*rows) if rows else ((),) * 6
    guided = np.cumsum([s.guidance is not None for s in given]) > 0
    guided |= np.array([not s.fair for s in given], dtype=bool)
    drawn_from = np.array([s.n_classes or len(classes) for s in given], dtype=np.int64)
    found = Answers.of(
        items,
        asked,
        values,
        classes,
        annotators=people,
        probabilities=chances,
        repeat=repeat,
        weights=probabilities,
        guided=guided,
        drawn_from=drawn_from if (drawn_from != len(classes)).any() else None,
    )
    last = {s.item_id: s.class_index for s in given if s.final and s.value == "yes"}
    return replace(found, final=np.array([last.get(id, -1) for id in found.items], dtype=np.int64)) if last else found


def _codes(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Number names in the order in which they first come."""
    place: dict[str, int] = {}
    codes = [place.setdefault(name, len(place)) for name in names]
    return tuple(place), np.array(codes, dtype=np.int64)


# ---- labels ------------------------------------------------------------------------------------------------------


class ItemLabels(NamedTuple):
    """Answers as labels of N items: what is ruled out (N, K), and which items (N,) somebody's yes names a class of."""

    ruled_out: Bools
    named: Bools
    confirmed: Bools


def labels(answers: Answers) -> ItemLabels:
    """Turn answers into labels: an item may be what has the most votes, yes less no, and nothing else.

    Of items without a yes those are the classes that were not ruled out; of others the one named. `confirmed` are the
    items whose class has at least two votes more than nothing: with errors, only they are as good as ordinary
    labels. The labels of the other named ones are wrong far more often than a single answer is.

    Examples
    --------
    >>> said = Answers.of(["a", "b", "a"], [0, 2, 1], ["no", "yes", "no"], classes=("cat", "dog", "emu", "fox"))
    >>> labels(said).ruled_out
    array([[ True,  True, False, False],
           [ True,  True, False,  True]])
    >>> labels(said).named
    array([False,  True])
    """
    most = answers.votes.max(axis=1, initial=-(2**31), keepdims=True)
    return ItemLabels(answers.votes < most, most[:, 0] > 0, most[:, 0] > 1)


def transition(weights: ArrayLike, error_rate: float = 0.0) -> Floats:
    r"""Give Q of first answers that are no: :math:`P(\text{asked about } c \mid \text{class } y, \text{no})`.

    .. math:: Q_{yc} \propto p_c (1 - e) \text{ for } c \ne y, \qquad Q_{yy} \propto p_y e

    It is for those who take the labels elsewhere. With uneven questions the items that got a no are no fair sample:
    those whose class is asked about often are rarer among them, which the estimates here account for.

    Examples
    --------
    >>> transition([0.5, 0.25, 0.25], error_rate=0.1).round(3)
    array([[0.1  , 0.45 , 0.45 ],
           [0.643, 0.036, 0.321],
           [0.643, 0.321, 0.036]])
    """
    share = np.asarray(weights, dtype=np.float64)
    q = share * np.where(np.eye(len(share), dtype=bool), check_rate(error_rate), 1.0 - error_rate)
    return q / q.sum(axis=1, keepdims=True)


def check_rate(rate: float) -> float:
    """Refuse an error rate at which answers would say nothing."""
    if not 0 <= rate <= LARGEST_ERROR:
        raise ValueError(f"an error rate must be from 0 to {LARGEST_ERROR}; got {rate}; at 0.5 answers say nothing")
    return float(rate)


# ---- errors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorRates:
    """How often answers are wrong: of all annotators together, and of each one, with intervals.

    `n_pairs` and `n_disagreements` count answers to one question given twice; `by_annotator` has those that each
    annotator had a part in, in the order of `Answers.annotators`. `expected` is the mean of what the rate of all may
    be, which is above 0 also where no two answers disagree.
    """

    overall: Interval
    by_annotator: tuple[Interval, ...]
    n_pairs: int
    n_disagreements: int
    pairs_of: tuple[int, ...]
    expected: float


def error_rates(answers: Answers, confidence: float = 0.95) -> ErrorRates:
    r"""Estimate how often answers are wrong from questions that were asked twice.

    Two answers to the same question disagree with probability :math:`e_a (1 - e_b) + e_b (1 - e_a)`, which is
    :math:`2e(1-e)` for one annotator. Estimates are posterior means, with a prior for e of 3% that 30 answers outweigh;
    for a single annotator the rate of all is the prior, and counts for 20 answers. Where no two answers disagree at
    all, e is estimated as 0; the interval says how large it may be, up to 12% before anything was repeated. The bounds
    of a single annotator's rate do not lean on the others, as Clopper and Pearson's of a share do not: someone far
    more careless than the rest is within them, too.

    Parameters
    ----------
    answers : the answers, repeated ones among them.
    confidence : of the intervals.

    Examples
    --------
    >>> twice = [str(i) for i in range(200)] * 2
    >>> said = Answers.of(twice, [0] * 400, ["no"] * 392 + ["yes"] * 8, classes=("cat", "dog"))  # 8 of 200 disagree
    >>> print("{:.3f}, from {:.3f} to {:.3f}".format(*error_rates(said).overall))
    0.021, from 0.010 to 0.037
    """
    tail = tail_probability(confidence)
    first, second = _pairs(answers)
    people = answers.annotator[np.stack([first, second], axis=1)].reshape(-1, 2)
    differ = answers.value[first] != answers.value[second]
    d = 2.0 * _GRID * (1.0 - _GRID)
    alpha, beta = _PRIOR
    overall = _posterior(_log_beta(alpha, beta) + differ.sum() * np.log(d) + (~differ).sum() * np.log1p(-d), tail)
    expected = overall.estimate
    if not differ.any():
        overall = Interval(0.0, 0.0, overall.high)
    rates = np.full(len(answers.annotators), overall.estimate)
    each = [overall] * len(rates)
    pairs_of = tuple(int((people == a).any(axis=1).sum()) for a in range(len(rates)))
    own = people[:, 0] == people[:, 1]

    def likelihood(a: int) -> Floats:
        """That of a's rate, where the others' are as they are now; logarithm on the grid."""
        mine = (people == a).any(axis=1)
        log = (mine & own & differ).sum() * np.log(d) + (mine & own & ~differ).sum() * np.log1p(-d)
        others = rates[np.where(people[:, 0] == a, people[:, 1], people[:, 0])]
        for e, different in zip(others[mine & ~own], differ[mine & ~own]):
            p = _GRID + e - 2.0 * _GRID * e
            log = log + (np.log(p) if different else np.log1p(-p))
        return log

    if len(rates) > 1:
        shrunk = _log_beta(_STRENGTH * overall.estimate, _STRENGTH * (1.0 - overall.estimate))
        for _ in range(5 if differ.any() else 0):  # each one's from the others' of the round before
            rates = np.array([_posterior(shrunk + likelihood(a), tail).estimate for a in range(len(rates))])
        for a in (a for a, n in enumerate(pairs_of) if n):
            rate, log = float(rates[a]), likelihood(a)
            low, high = (_posterior(_log_beta(*prior) + log, tail) for prior in _BOUNDS)
            each[a] = Interval(rate, min(low.low, rate), max(high.high, rate))
    return ErrorRates(overall, tuple(each), len(differ), int(differ.sum()), pairs_of, expected)


def _pairs(answers: Answers) -> tuple[Ints, Ints]:
    """Give the places of each answer, yes or no, that has one before it about the same item and class, and of that one.

    Of three answers the second and third both go with the one before, which wastes nothing and is as fair.
    """
    told = np.flatnonzero((answers.value >= 0) & (answers.probability > 0))
    key = answers.item[told] * answers.n_classes + answers.asked[told]
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    return told[order[:-1][same]], told[order[1:][same]]


def _log_beta(alpha: float, beta: float) -> Floats:
    """Logarithm of a beta density on the grid, but for a constant."""
    return (alpha - 1.0) * np.log(_GRID) + (beta - 1.0) * np.log1p(-_GRID)


def _posterior(log_density: Floats, tail: float) -> Interval:
    """Mean and quantiles of a density on the grid of error rates."""
    density = np.exp(log_density - log_density.max())
    share = np.cumsum(density) / density.sum()
    mean = float((_GRID * density).sum() / density.sum())
    low, high = (float(_GRID[np.searchsorted(share, p)]) for p in (tail, 1.0 - tail))
    return Interval(mean, min(low if low > _GRID[0] else 0.0, mean), max(high, mean))


# ---- estimates -----------------------------------------------------------------------------------------------------


def accuracy(
    answers: Answers, predicted: ArrayLike, *, error_rate: float | None = None, confidence: float = 0.95
) -> Interval:
    r"""Estimate the accuracy of predictions from answers to other questions than they were learned from, without bias.

    The mean of :math:`W_{i\hat y_i}` (see the module), with Gaffke's bounds as in
    :func:`naysayer.measure.metrics.accuracy_interval`; they are widened by what another error rate within its own
    interval would change.

    Parameters
    ----------
    answers : the answers.
    predicted : (N,) classes of `answers.items`; -1 leaves an item out, as one that was learned from must be. What is
        left out must not depend on the answers: leave out no item because nobody could tell, or people disagreed.
    error_rate : e, if it is known; None estimates it from the repeated questions.
    confidence : of the interval.

    Returns
    -------
    (estimate, low, high); the estimate may leave [0, 1].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.integers(3, size=(2, 600))
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog", "emu"))
    >>> predicted = np.where(np.arange(600) < 480, y, (y + 1) % 3)  # 80% are right
    >>> print("{:.2f}, from {:.2f} to {:.2f}".format(*accuracy(said, predicted, error_rate=0.0)))
    0.79, from 0.75 to 0.83
    """
    predicted = np.asarray(predicted)
    n, n_classes = len(answers.items), answers.n_classes
    if predicted.shape != (n,) or (n and not (predicted.min() >= -1 and predicted.max() < n_classes)):
        raise ValueError(
            f"`predicted` must be {n} classes from 0 to {n_classes - 1}, or -1, one per item; "
            f"got shape {predicted.shape}"
        )
    if answers.drawn_from is not None:
        counts = np.bincount(answers.since[predicted >= 0], minlength=n_classes + 1)
        n_then = int(counts[1:].argmax()) + 1
        if counts[n_then] > counts[n_classes]:
            return _accuracy_then(answers, n_then, predicted, error_rate, confidence)
    design = answers.about(predicted >= 0).design  # items left out may have been asked about more often, or less
    used = np.flatnonzero(design.told)
    if len(used) < 2:
        raise ValueError(f"an accuracy must rest on at least 2 items with answers; got {len(used)}; collect more")
    (found,) = _estimates(answers, design, used, predicted[used][None], error_rate, confidence)
    return found


def _accuracy_then(
    answers: Answers, n_classes: int, predicted: NDArray[Any], error_rate: float | None, confidence: float
) -> Interval:
    """Estimate an accuracy from items that were asked about before classes were added, when there were `n_classes`.

    What was said then is right about these classes, whatever the others are. Predictions of a later class count as
    wrong in the estimate and the lower bound, and as right in the upper one: nothing is known of them.
    """
    then = answers.since == n_classes
    share = float((predicted[then & (predicted >= 0)] < n_classes).mean())
    if not share:
        return Interval(0.0, 0.0, 1.0)
    known = np.where(then & (predicted < n_classes), predicted, -1)
    found = accuracy(answers.of_time(n_classes), known, error_rate=error_rate, confidence=confidence)
    return Interval(share * found.estimate, share * found.low, share * found.high + 1.0 - share)


def class_priors(answers: Answers, *, error_rate: float | None = None, confidence: float = 0.95) -> Interval:
    """Estimate how common each class is among the items, with an interval for each class by itself.

    Parameters
    ----------
    answers, error_rate, confidence : as in :func:`accuracy`.

    Returns
    -------
    (estimate, low, high), each of shape (K,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.choice(2, p=[0.3, 0.7], size=600), rng.integers(2, size=600)
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog"))
    >>> class_priors(said, error_rate=0.0).estimate.round(2)
    array([0.27, 0.73])
    """
    design = answers.design
    used = np.flatnonzero(design.told)
    if len(used) < 2:
        raise ValueError(f"class priors must rest on at least 2 items with answers; got {len(used)}; collect more")
    each_class = np.repeat(np.arange(answers.n_classes)[:, None], len(used), axis=1)
    return Interval(*np.transpose(_estimates(answers, design, used, each_class, error_rate, confidence)))


def item_weights(answers: Answers, *, error_rate: float | None = None) -> tuple[Ints, Floats]:
    r"""Give the items with answers (n,), and their rows of weights (n, K) with :math:`E[W_{ik}] = P(y_i = k)`.

    These are what :func:`accuracy` and :func:`class_priors` are means of, one column at a time, so that all that is
    made of such rows can be made of answers: a confusion matrix is their sums over items predicted alike.

    Parameters
    ----------
    answers, error_rate : as in :func:`accuracy`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.integers(3, size=(2, 600))
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog", "emu"))
    >>> items, weights = item_weights(said, error_rate=0.0)
    >>> np.allclose(weights.mean(axis=0), class_priors(said, error_rate=0.0).estimate)
    True
    """
    design = answers.design
    used = np.flatnonzero(design.told)
    if error_rate is None:
        rates = np.array([each.estimate for each in error_rates(answers).by_annotator])
    else:
        rates = np.full(len(answers.annotators), check_rate(error_rate))
    weighted = design.weighted(rates)
    columns = [weighted.values(used, np.full(len(used), k))[0] for k in range(answers.n_classes)]
    return used, np.stack(columns, axis=1)


def _estimates(
    answers: Answers, design: Design, items: Ints, classes: Ints, error_rate: float | None, confidence: float
) -> list[Interval]:
    """Estimate, for each row of classes (R, n), how many of n items are of the class given for each.

    The uncertainty of the annotators' error rates is joined, in quadrature, to that of the mean.
    """
    tail = tail_probability(confidence)
    if error_rate is not None:
        rates = np.full(len(answers.annotators), check_rate(error_rate))
        shifts = np.zeros(2)
    else:
        measured = error_rates(answers, confidence)
        rates = np.array([each.estimate for each in measured.by_annotator])
        shifts = np.array([measured.overall.low, measured.overall.high]) - measured.overall.estimate
    weighted, *shifted = (
        design.weighted(np.clip(rates + shift, 0.0, LARGEST_ERROR)) for shift in (0.0, *shifts[shifts != 0])
    )
    found = []
    for row in classes:
        estimate, low, high = weighted.interval(items, row, tail)
        others = [estimate, *(other.values(items, row)[0].mean() for other in shifted)]
        low = estimate - math.hypot(max(0.0, estimate - low), estimate - min(others))
        high = estimate + math.hypot(max(0.0, high - estimate), max(others) - estimate)
        found.append(within(estimate, low, high))
    return found


# ---- what the owner wants to know ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AnswerReport:
    """What :func:`examine` found: all that the owner's page shows beside plain counts.

    Attributes
    ----------
    n_answers, n_items, n_named, n_confirmed : answers of yes or no, items with one, and those somebody's yes names.
    errors : of the answers.
    priors : of the classes, three arrays; None with fewer than two items.
    yes : share of yes among the first answers about an item, with its 95% interval; None without any.
    yes_expected : what uniform questions get, whatever the classes' shares: (1 - e) / K + e (1 - 1 / K).
    yes_p_value : the probability of a share at least as far from it; None where questions are uneven.
    asked_p_value : that of class counts as uneven as those of the first questions, if they were drawn as stated.
    findings : what contradicts uniform questions or looks odd, from :func:`naysayer.measure.doctor.examine`.
    """

    n_answers: int
    n_items: int
    n_named: int
    n_confirmed: int
    errors: ErrorRates
    priors: Interval | None
    yes: Interval | None
    yes_expected: float | None
    yes_p_value: float | None
    asked_p_value: float | None
    findings: list[doctor.Finding]

    def to_dict(self) -> dict[str, Any]:
        """Give the report as what JSON can hold; an interval is a list of estimate, low and high."""
        priors = None if self.priors is None else np.transpose(self.priors).tolist()
        return asdict(self) | {"priors": priors}


def examine(answers: Answers, confidence: float = 0.95) -> AnswerReport:
    """Say what answers tell: how reliable they are, how common the classes, whether all is as it should be.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.integers(3, size=(2, 600))
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog", "emu"))
    >>> report = examine(said)
    >>> report.n_answers, round(report.yes.estimate, 3), round(report.yes_expected, 3), report.findings
    (600, 0.352, 0.333, [])
    """
    known, design = labels(answers), answers.design
    errors = error_rates(answers, confidence)
    uniform = np.ptp(answers.weights) < 1e-12
    opening = design.turn == 0
    counts = np.bincount(design.asked[opening], minlength=answers.n_classes)
    said = opening & (design.value >= 0)
    n, n_yes = int(said.sum()), int((design.value[said] == 1).sum())
    yes, expected, p_value = None, None, None
    if n:
        share = binomtest(n_yes, n).proportion_ci(confidence)
        yes = Interval(n_yes / n, float(share.low), float(share.high))
    if n and uniform:
        e = errors.overall.estimate
        expected = (1.0 - e) / answers.n_classes + e * (1.0 - 1.0 / answers.n_classes)
        p_value = float(binomtest(n_yes, n, expected).pvalue)
    no = design.asked[said & (design.value == 0)]
    findings = []
    if uniform and answers.n_classes > 2 and len(no):
        found = doctor.examine(no, answers.n_classes, answers.classes, confidence).findings
        findings = [finding for finding in found if finding.level in ("problem", "warning")]
    return AnswerReport(
        n_answers=int((answers.value >= 0).sum()),
        n_items=int(np.count_nonzero(design.told)),
        n_named=int(known.named.sum()),
        n_confirmed=int(known.confirmed.sum()),
        errors=errors,
        priors=class_priors(answers, confidence=confidence) if design.told.sum() > 1 else None,
        yes=yes,
        yes_expected=expected,
        yes_p_value=p_value,
        asked_p_value=float(chisquare(counts, counts.sum() * answers.weights).pvalue) if counts.sum() else None,
        findings=findings,
    )


def how_many_more(
    n_answers: int, n_classes: int, margin: float, *, accuracy: float = 0.9, error_rate: float = 0.0
) -> int:
    """Say how many more answers tell an accuracy within a margin, if each answer is about another item.

    Training from a store uses every answer for the estimate, each against a model that did not see its item. Errors
    make each answer worth :math:`(1 - 2e)^2` of one without; see :func:`naysayer.measure.planning.labels_needed`.

    Examples
    --------
    >>> how_many_more(1000, n_classes=10, margin=0.05)
    444
    """
    needed = planning.labels_needed(n_classes, margin, accuracy).yes_no
    return max(0, math.ceil(needed / (1.0 - 2.0 * check_rate(error_rate)) ** 2) - n_answers)
