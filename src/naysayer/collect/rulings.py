"""What the owner rules: whose answers count, and what an item is. Rows are added; a later one takes back an earlier.

Whoever is left out keeps their link, and their answers stay in the store; they count in no estimate, no training and no
label until a later ruling lets them in again. To settle an item is to answer a question that nobody drew: as the
owner's last word, it outweighs all other answers in labels, and is part of no estimate.
"""

from __future__ import annotations

import secrets
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import partial

from sqlalchemy import Connection, insert, select

from naysayer.collect.beliefs import Beliefs, tell
from naysayer.collect.connected import CHUNK
from naysayer.collect.links import Links
from naysayer.collect.records import Ruling
from naysayer.collect.schema import annotator, answer, count_items, is_final, item, question, ruling, stands


class Rulings(Links, Beliefs):
    """Takes down what the owner rules, and tells the guide."""

    def leave_out(self, annotator_id: str, reason: str, by: str) -> None:
        """Let an annotator's answers count no more: in no estimate, training or label; they stay in the store.

        `by` is the id of whoever says so, and `reason` why. Who is out already is a ValueError.
        """
        self._rule(partial(_add_ruling, annotator_id=annotator_id, verdict="out", reason=reason, by=by))

    def let_in(self, annotator_id: str, reason: str, by: str) -> None:
        """Let an annotator's answers count again."""
        self._rule(partial(_add_ruling, annotator_id=annotator_id, verdict="in", reason=reason, by=by))

    def rulings(self) -> list[Ruling]:
        """Give all rulings about annotators in the order in which they came."""
        with self._database.reading() as connection:
            return read_rulings(connection)

    def left_out(self) -> dict[str, Ruling]:
        """Give the annotators whose answers do not count, each with the ruling that says so."""
        last = {one.annotator: one for one in self.rulings()}
        return {name: one for name, one in last.items() if one.verdict == "out"}

    def settle(self, item_id: str, class_index: int | None, by: str) -> None:
        """Say the last word about an item, as its owner: its class, or None: nobody can tell.

        In labels a class outweighs all answers; estimates stay as they are. It may be said anew.
        """
        n_classes = self._project.n_classes
        if class_index is not None and not 0 <= class_index < n_classes:
            raise ValueError(f"a class must be from 0 to {n_classes - 1}; got {class_index}")
        if by not in {one.id for one in self.annotators() if one.role == "owner"}:
            raise ValueError("an item must be settled by an owner; this is none; answer questions instead")
        self._rule(partial(_settle, item_id=item_id, class_index=class_index, by=by, n_classes=n_classes))

    def reopen(self, item_id: str, by: str) -> bool:
        """Take back the last word about an item; False: there was none."""
        return bool(self._rule(partial(_reopen, item_id=item_id, by=by)))

    def _rule(self, change: Callable[[Connection], set[str]]) -> set[str]:
        """Make a change to what counts, and tell the guide; give the questions that it concerns."""

        def ruled(connection: Connection) -> set[str]:
            questions = change(connection)
            if self._guide is not None:
                tell(self._guide, connection, questions)
            return questions

        return self._change(ruled)  # type: ignore[no-any-return]


def _add_ruling(connection: Connection, annotator_id: str, verdict: str, reason: str, by: str) -> set[str]:
    """Let an annotator's answers count or not from now on; give the questions that they answered."""
    if connection.scalar(select(annotator.c.id).where(annotator.c.id == annotator_id)) is None:
        raise KeyError(f"the store must have the annotator; it has none with the id {annotator_id!r}")
    last = [one.verdict for one in read_rulings(connection) if one.annotator == annotator_id][-1:]
    if verdict == (last[0] if last else "in"):
        said = "left out already" if last == ["out"] else "counted already"
        raise ValueError(f"a ruling must change something; these answers are {said}")
    words = "".join(each for each in " ".join(reason.split()) if each.isprintable())
    row = {"id": secrets.token_hex(16), "annotator": annotator_id, "verdict": verdict, "reason": words}
    connection.execute(insert(ruling).values(row | {"ruled_by": by, "at": time.time()}))
    return count_again(connection, {annotator_id})


def count_again(connection: Connection, annotators: Collection[str]) -> set[str]:
    """Count all items again that some annotators answered about; give the questions that they answered."""
    theirs = select(answer.c.question_id).where(answer.c.annotator.in_(list(annotators)))
    questions = set(connection.scalars(theirs))
    items = list(set(connection.scalars(select(question.c.item_id).where(question.c.id.in_(theirs)))))
    for start in range(0, len(items), CHUNK):
        count_items(connection, items[start : start + CHUNK])
    return questions


def read_rulings(connection: Connection) -> list[Ruling]:
    """Read all rulings in the order in which they came."""
    return [Ruling(**row) for row in connection.execute(select(ruling).order_by(ruling.c.seq)).mappings()]


def _settle(connection: Connection, item_id: str, class_index: int | None, by: str, n_classes: int) -> set[str]:
    """Say the last word about an item: its class, or None: nobody can tell; give the question."""
    if connection.scalar(select(item.c.id).where(item.c.id == item_id)) is None:
        raise KeyError(f"the store must have the item; it has none with the id {item_id!r}")
    _reopen(connection, item_id, by)
    now, row = time.time(), {"id": secrets.token_hex(16), "annotator": by}
    about = {
        "item_id": item_id,
        "class_index": class_index or 0,
        "probability": 0.0,
        "asked": now,
        "n_classes": n_classes,
    }
    connection.execute(insert(question).values(row | about))
    said = {"question_id": row["id"], "value": "skip" if class_index is None else "yes", "answered": now}
    connection.execute(insert(answer).values(row | said))
    count_items(connection, [item_id])
    return {row["id"]}


def _reopen(connection: Connection, item_id: str, by: str) -> set[str]:
    """Take back the last word about an item; give its question, and none where nothing was settled."""
    last = select(answer.c.id, answer.c.question_id).join(question, answer.c.question_id == question.c.id)
    found = connection.execute(last.where(question.c.item_id == item_id, stands, is_final)).all()
    for id, about in found:
        row = {"id": secrets.token_hex(16), "question_id": about, "annotator": by, "value": "undo"}
        connection.execute(insert(answer).values(row | {"undoes": id, "answered": time.time()}))
    if found:
        count_items(connection, [item_id])
    return {about for _, about in found}


def unfair(connection: Connection) -> set[str]:
    """Give the questions that were drawn in view of other answers than those that count by now.

    Which classes are asked about depends on the answers before. Where some of these were left out since, or were left
    out then and count now, the questions that followed about the item were not drawn as the estimates take them to be.
    Those that came before, and those about items that begin anew, were.
    """
    ruled: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for each in read_rulings(connection):
        ruled[each.annotator].append((each.at, each.verdict == "out"))
    if not ruled:
        return set()

    def is_out(name: str, at: float) -> bool:
        place = bisect_right(ruled[name], (at, True))
        return place > 0 and ruled[name][place - 1][1]

    touched = select(question.c.item_id).join(answer, answer.c.question_id == question.c.id)
    touched = touched.where(answer.c.annotator.in_(list(ruled)))
    rows = select(question.c.id, question.c.item_id, question.c.asked, answer.c.annotator, answer.c.answered)
    rows = rows.join(answer, answer.c.question_id == question.c.id).where(stands, question.c.item_id.in_(touched))
    out_now = {name for name, verdicts in ruled.items() if verdicts[-1][1]}
    before: dict[str, list[tuple[str, float]]] = defaultdict(list)
    spoiled, found = set[str](), set[str]()
    for id, about, asked, name, answered in connection.execute(rows.order_by(answer.c.seq)):
        if name not in out_now:
            if any(is_out(who, asked) != (who in out_now) for who, at in before[about] if at <= asked):
                spoiled.add(about)
            if about in spoiled:
                found.add(id)
        if name in ruled:
            before[about].append((name, answered))
    return found
