"""Which question comes next: which item, which class, and with what probability.

Nothing here knows of a database; the store brings what was counted and stores what is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class OpenItem:
    """An item that may be asked about, and what is known of it.

    Parameters
    ----------
    item_id : its id, a hash: among equal counts the order of ids is as good as random, and always the same.
    n_answers : how many answers it has that stand.
    ruled_out : the classes that it is not.
    skipped : annotator → the classes at which that one could not tell.
    busy : a question about it is waiting for an answer.
    """

    item_id: str
    n_answers: int
    ruled_out: frozenset[int] = frozenset()
    skipped: Mapping[str, Collection[int]] = field(default_factory=dict)
    busy: bool = False


@dataclass(frozen=True)
class Draw:
    """An item and a class to ask about, and the probability with which the class was drawn for it."""

    item_id: str
    class_index: int
    probability: float


def class_probabilities(
    n_classes: int, excluded: Collection[int] = (), probabilities: Sequence[float] | None = None
) -> dict[int, float]:
    """Give the probability of each class that can be asked: p_c / Σ p over those not excluded, p uniform when None.

    Examples
    --------
    >>> class_probabilities(4, excluded={0, 2})
    {1: 0.5, 3: 0.5}
    >>> class_probabilities(3, excluded={0}, probabilities=[0.5, 0.25, 0.25])
    {1: 0.5, 2: 0.5}
    """
    weights = {c: probabilities[c] if probabilities else 1.0 for c in range(n_classes) if c not in excluded}
    total = sum(weights.values())
    return {c: weight / total for c, weight in weights.items()}


class ItemPool:
    """Items to ask about, fewest answers first; drawn from without giving two people the same one where that can be.

    Parameters
    ----------
    pages : candidates in pieces, those not busy first; more pieces are fetched only when they are needed.
    n_classes : K.
    probabilities : of the K classes; None asks uniformly.
    random : the generator to draw with.

    Examples
    --------
    >>> pages = iter([[OpenItem("b", 1), OpenItem("a", 0, ruled_out=frozenset({0}))]])
    >>> ItemPool(pages, n_classes=2, probabilities=None, random=Random(0)).draw("ann")
    Draw(item_id='a', class_index=1, probability=1.0)
    """

    def __init__(
        self, pages: Iterator[list[OpenItem]], n_classes: int, probabilities: Sequence[float] | None, random: Random
    ) -> None:
        self._pages, self._n_classes, self._probabilities, self._random = pages, n_classes, probabilities, random
        self._free: dict[str, OpenItem] = {}
        self._busy: dict[str, OpenItem] = {}
        self._taken: dict[str, OpenItem] = {}

    def draw(self, annotator: str, held: Collection[str] = ()) -> Draw | None:
        """Draw a question for an annotator who already holds questions about the items `held`; None: there is none.

        An item on which somebody else is busy comes only when no other is left.
        """
        drawn = self._first(self._free, annotator, held)
        while drawn is None and (page := next(self._pages, None)) is not None:
            for candidate in sorted(page, key=lambda each: (each.n_answers, each.item_id)):
                (self._busy if candidate.busy else self._free)[candidate.item_id] = candidate
            drawn = self._first(self._free, annotator, held)
        drawn = drawn or self._first(self._busy, annotator, held) or self._first(self._taken, annotator, held)
        if drawn:
            for place in (self._free, self._busy, self._taken):
                if drawn.item_id in place:
                    self._taken[drawn.item_id] = place.pop(drawn.item_id)  # now the last of all
                    break
        return drawn

    def _first(self, candidates: Mapping[str, OpenItem], annotator: str, held: Collection[str]) -> Draw | None:
        """Draw a class for the first of the items that has one left for this annotator."""
        for candidate in candidates.values():
            if candidate.item_id in held:
                continue
            excluded = candidate.ruled_out.union(candidate.skipped.get(annotator, ()))
            chances = class_probabilities(self._n_classes, excluded, self._probabilities)
            if chances:
                c = self._random.choices(list(chances), list(chances.values()))[0]
                return Draw(candidate.item_id, c, chances[c])
        return None


def is_repeat(share: float, random: Random) -> bool:
    """Decide whether the next question repeats an earlier one."""
    return random.random() < share


def repeat_tries(last: int, random: Random, n: int = 32) -> list[int]:
    """Draw numbers of earlier answers, each uniform in 1 to `last`, of which the first that fits is to be repeated.

    Whatever makes an answer fit, the first one that does is uniform among all that do; nobody needs to list them. When
    none of `n` fits, few do, and the question is a new one.

    Examples
    --------
    >>> repeat_tries(3, Random(0), n=4)
    [2, 2, 1, 2]
    """
    return [random.randint(1, last) for _ in range(n)] if last else []
