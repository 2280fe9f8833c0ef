"""What people answered about items, one yes or no at a time: how it is kept and read, and the labels that it makes.

"Is it c?" is answered yes or no, and wrong with probability e either way. A single yes is wrong far more often than e,
since most questions are about a class that the item is not: of 10 classes and e = 2% it is wrong in 15% of the cases.
So a yes is never taken as certain. In training it says that c is :math:`(1-e) : e` more likely than any other class,
just as a no says that of the others (:class:`naysayer.objectives.likelihood.Likelihood`); twice yes counts as one, and
a yes that somebody else answered with no as nothing.

What follows from answers has files of its own: how often they are wrong (:mod:`naysayer.measure.answer_errors`), how
good predictions are and how common the classes (:mod:`naysayer.measure.answer_estimates`), and whether all is as it
should be (:mod:`naysayer.measure.answer_report`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysayer.measure.design import Design, check_rate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

VALUES = {"yes": 1, "no": 0, "skip": -1}
FINAL_VOTES = 2  # yes less no that an owner's last word counts, for its class and against all others


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

    def only(self, chosen: Bools) -> Answers:
        """Keep the chosen items (N,) and the answers about them, as if the others had never been asked about."""
        kept, place = self.about(chosen), np.cumsum(chosen) - 1
        items = tuple(name for name, here in zip(self.items, chosen, strict=True) if here)
        final = None if self.final is None else self.final[chosen]
        return replace(kept, items=items, item=place[kept.item], final=final)

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
