"""What goes into a store and comes out of it: plain records, checked where they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from naysayer.common.checks import check_count
from naysayer.data.items import Item, is_name

Value = Literal["yes", "no", "skip"]
Role = Literal["owner", "annotator"]
QUESTIONS = ("random", "guided")
GOALS = ("labels", "model", "accuracy")


@dataclass(frozen=True)
class Project:
    """What a store asks.

    Parameters
    ----------
    classes : the names of the K classes, in the order of their indices.
    name : for people.
    probabilities : with which a class is drawn, in the order of `classes`; None: all alike.
    repeat_share : the share of questions that repeat an earlier one, by which errors are measured.
    question : how a class is asked about; ``{}`` is where its name goes.
    answers_per_item : an item with so many answers is asked about no more; None: until its class is known.
    questions : "random", or "guided" by a model as soon as one is reliable.
    goal : of guided questions: "labels" settles items, "model" teaches most, "accuracy" soonest tells how many labels
        are right.

    Examples
    --------
    >>> Project(("cat", "dog", "horse")).n_classes
    3
    """

    classes: tuple[str, ...]
    name: str = "naysayer"
    probabilities: tuple[float, ...] | None = None
    repeat_share: float = 0.05
    question: str = "Is this a {}?"
    answers_per_item: int | None = None
    questions: str = "random"
    goal: str = "labels"

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise ValueError(f"a project must have at least 2 classes; got {len(self.classes)}: {list(self.classes)}")
        for name in self.classes:
            if not is_name(name) or len(name) > 200:
                raise ValueError(f"a class must have a name of 1 to 200 printable characters; got {name[:50]!r}")
            if self.classes.count(name) > 1:
                raise ValueError(f"a project must name each class once; got {name!r} twice; rename one")
        p = self.probabilities
        if p is not None:
            if len(p) != self.n_classes:
                raise ValueError(f"`probabilities` must have one for each of {self.n_classes} classes; got {len(p)}")
            if not all(math.isfinite(each) and each > 0 for each in p):
                raise ValueError(f"`probabilities` must be above 0, so that any class may be asked; got {min(p):g}")
            if abs(sum(p) - 1) > 1e-6:
                raise ValueError(f"`probabilities` must sum to 1; they sum to {sum(p):.6g}")
        if not 0 <= self.repeat_share < 1:
            raise ValueError(f"`repeat_share` must be at least 0 and below 1; got {self.repeat_share}")
        if self.question.count("{}") != 1:
            raise ValueError(f"`question` must have {{}} once, where a class's name goes; got {self.question[:50]!r}")
        if self.answers_per_item is not None:
            check_count(self.answers_per_item, "`answers_per_item`")
        for name, value, allowed in (("questions", self.questions, QUESTIONS), ("goal", self.goal, GOALS)):
            if value not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(allowed)}; got {value!r}")

    @property
    def n_classes(self) -> int:
        """K."""
        return len(self.classes)


@dataclass(frozen=True)
class Question:
    """A question that was handed out: is `item` of class `class_index`?

    `probability` is that with which the class was drawn for the item among those that it could still be; a repetition
    (`repeat_of`: the id of the question it repeats) carries that of the first time.
    """

    id: str
    item: Item
    class_index: int
    probability: float
    annotator: str
    repeat_of: str | None = None


@dataclass(frozen=True)
class Ask:
    """Ask for `n` questions for an annotator whose page already holds those with the ids `holding`.

    `device` tells apart the pages that one person has open, here and elsewhere: 8 hexadecimal digits, with which the
    ids of the questions begin that it is handed; "" gets what any of them left.
    """

    annotator: str
    n: int = 1
    holding: tuple[str, ...] = ()
    device: str = ""


@dataclass(frozen=True)
class Answer:
    """An answer; its `id` was made by the page, so that one that is sent twice is stored once."""

    id: str
    question_id: str
    annotator: str
    value: Value
    took_ms: int | None = None


@dataclass(frozen=True)
class Undo:
    """Take back an answer of the annotator's, None: the latest; `id` was made by the page, as for an answer."""

    id: str
    annotator: str
    answer: str | None = None


@dataclass(frozen=True)
class Standing:
    """An answer that was not taken back, with what it was about.

    `fair` is False where the question was drawn in view of other answers than those that count by now: such an answer
    is a label, and no estimate. `final` is the owner's last word about the item. `n_classes` is how many classes there
    were at its question.
    """

    seq: int
    id: str
    question_id: str
    item_id: str
    class_index: int
    probability: float
    annotator: str
    value: Value
    repeat_of: str | None
    took_ms: int | None
    answered: float
    guidance: str | None = None
    fair: bool = True
    final: bool = False
    n_classes: int | None = None


@dataclass(frozen=True)
class Ruling:
    """From a time on, an annotator's answers do not count ("out"), or do so again ("in"); by whom, and why."""

    seq: int
    id: str
    annotator: str
    verdict: Literal["out", "in"]
    reason: str
    ruled_by: str
    at: float


@dataclass(frozen=True)
class Annotator:
    """Somebody who answers; `revoked` is the time from which their token is no longer valid."""

    id: str
    name: str
    role: Role
    created: float
    revoked: float | None = None


@dataclass(frozen=True)
class Training:
    """A model trained on the first `n_answers` answers, and its estimated accuracy with the interval."""

    seq: int
    at: float
    n_answers: int
    method: str
    estimate: float
    low: float
    high: float
    detail: dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far a project is: items, those with an answer, those asked about no more; answers in all and by one."""

    items: int
    answered: int
    closed: int
    answers: int
    own: int


class Conflict(ValueError):
    """An answer that cannot stand beside one that is stored: the page should drop it and go on."""
