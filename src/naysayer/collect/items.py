"""How the items of a store change: added, looked at, gone from the disk and back, removed on request."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, or_, select, update

from naysayer.collect import schema
from naysayer.collect.connected import CHUNK
from naysayer.collect.drawing import to_item, undecided
from naysayer.collect.schema import (
    annotator,
    answer,
    counts,
    is_final,
    item,
    pending,
    question,
    removed,
    stands,
    tally,
    training,
)
from naysayer.data.items import Item

State = Literal["unanswered", "open", "closed", "gone"]
STATES: tuple[State, ...] = ("unanswered", "open", "closed", "gone")


@dataclass(frozen=True)
class ItemAnswer:
    """What one person said about an item; `counts`: they were not left out; `is_final`: the owner's last word."""

    class_index: int
    value: str
    annotator: str
    answered: float
    is_repeat: bool
    counts: bool = True
    is_final: bool = False


@dataclass(frozen=True)
class Shown:
    """An item with what people said: `label` is the class that they name, `left` has those not ruled out.

    Its state is "closed" where no more is asked about it; whether that settles it is for its probability to say.
    """

    item: Item
    state: State
    label: int | None
    left: tuple[int, ...]
    answers: tuple[ItemAnswer, ...]


@dataclass(frozen=True)
class Removed:
    """An item that was removed: its id, when, and how many answers went with it."""

    item_id: str
    at: float
    n_answers: int


# ---- added -------------------------------------------------------------------------------------------------------


def register(items: dict[str, Item], connection: Connection) -> int:
    """Add items that are not there yet and were not removed, renew the paths of others, and give how many were new."""
    gone = removed_of(connection, items)
    items = {id: each for id, each in items.items() if id not in gone}
    known = connection.execute(select(item.c.id, item.c.path).where(item.c.id.in_(items)))
    here = {row.id: row.path for row in known}
    for id, path in here.items():
        if items[id].path not in (path, None):
            connection.execute(update(item).where(item.c.id == id).values(path=items[id].path, name=items[id].name))
    come_back(list(here), connection)
    new = [
        asdict(each) | {"content": None if each.content is None else json.dumps(each.content), "added": time.time()}
        for each in items.values()
        if each.id not in here
    ]
    if new:
        connection.execute(insert(item), new)
        schema.add_tallies(connection, [row["id"] for row in new])
    return len(new)


def removed_of(connection: Connection, ids: Iterable[str]) -> set[str]:
    """Give those of some items that were removed on request."""
    ids, found = list(ids), set[str]()
    for start in range(0, len(ids), CHUNK):
        found.update(connection.scalars(_removed, {"ids": ids[start : start + CHUNK]}))
    return found


_removed = select(removed.c.item_id).where(removed.c.item_id.in_(schema.one_of("ids")))


# ---- gone from the disk, and back ------------------------------------------------------------------------------


def are_gone(items: Iterable[Item]) -> list[str]:
    """Give the ids of the images whose files are not there."""
    return [each.id for each in items if each.path is not None and not os.path.isfile(each.path)]


def leave(ids: Collection[str], connection: Connection) -> None:
    """Take items out of the queue, and back from those who hold a question about them; their answers stay."""
    connection.execute(delete(pending).where(pending.c.item_id.in_(ids)))
    if connection.execute(delete(tally).where(tally.c.item_id.in_(ids))).rowcount:
        schema.note_change(connection)


def come_back(ids: Collection[str], connection: Connection) -> None:
    """Put items that had left the queue back into it."""
    queued = set(connection.scalars(select(tally.c.item_id).where(tally.c.item_id.in_(ids))))
    if back := [id for id in ids if id not in queued]:
        schema.add_tallies(connection, back)
        schema.note_change(connection)


def out_of_queue(connection: Connection) -> list[Item]:
    """Give the items that have left the queue."""
    query = select(item).where(item.c.id.not_in(select(tally.c.item_id))).order_by(item.c.position)
    return [to_item(row) for row in connection.execute(query).mappings()]


# ---- removed on request ------------------------------------------------------------------------------------------


def remove(item_id: str, connection: Connection) -> Removed | None:
    """Remove an item and all rows that refer to it, to its questions or to their answers; None: there is none.

    What a model thought of it goes from the trainings, too.
    The row in ``removed`` comes first: without it the database refuses to delete an answer.
    """
    row = connection.execute(select(item.c.path).where(item.c.id == item_id)).first()
    if row is None:
        return None
    asked = select(question.c.id).where(question.c.item_id == item_id)
    said = select(answer.c.id).where(answer.c.question_id.in_(asked))
    about = select(func.count()).select_from(answer).where(answer.c.question_id.in_(asked), answer.c.value != "undo")
    gone = Removed(item_id, time.time(), connection.scalar(about) or 0)
    connection.execute(insert(removed).values(asdict(gone)))
    keys = {item.c.id: [item_id], question.c.id: asked, answer.c.id: said}
    for table in reversed(schema.metadata.sorted_tables):  # what refers to a table comes after it
        which = [column.in_(keys[other]) for column, other in _references(table) if other in keys]
        if which:
            connection.execute(delete(table).where(or_(*which)))
    connection.execute(delete(item).where(item.c.id == item_id))
    traces = [item_id] if row.path is None else [item_id, json.dumps(row.path)[1:-1]]
    told = or_(*(training.c.detail.contains(each, autoescape=True) for each in traces))
    for seq, detail in connection.execute(select(training.c.seq, training.c.detail).where(told)).all():
        values = {"detail": _without_path(without_removed(connection, detail), row.path)}
        connection.execute(update(training).where(training.c.seq == seq).values(values))
    schema.note_change(connection)
    return gone


def without_removed(connection: Connection, detail: str) -> str:
    """Leave out of the details of a training what its model thought of items that were removed."""
    if not (gone := removed_of(connection, set(re.findall(r'"([0-9a-f]{32})"', detail)))):
        return detail
    found = json.loads(detail)
    return json.dumps(found | {"doubts": [each for each in found.get("doubts", []) if each[0] not in gone]})


def _without_path(detail: str, path: str | None) -> str:
    """Leave out of the details of a training the notes that name a picture, as one that could not be read."""
    found = json.loads(detail)
    if path is None or "notes" not in found:
        return detail
    return json.dumps(found | {"notes": [note for note in found["notes"] if path not in note]})


def _references(table: Table) -> list[tuple[Any, Any]]:
    """Give the columns of a table that refer to another one, each with the column that it refers to."""
    pairs = [(column, key.column) for column in table.c for key in column.foreign_keys]
    return [(column, other) for column, other in pairs if other.table is not table]


# ---- looked at ---------------------------------------------------------------------------------------------------


def browse(
    connection: Connection, n_classes: int, state: State | None, name: str, person: str | None, skip: int, most: int
) -> tuple[list[Shown], int]:
    """Give a page of items with their answers, in the order in which they came, and how many there are in all.

    Parameters
    ----------
    state : None: items of every state.
    name : what their names have in them, in any case; or an id.
    person : the id of somebody who answered about them; None: whoever did, or nobody.
    skip, most : items before the page, and on it.
    """
    both = item.outerjoin(tally, tally.c.item_id == item.c.id)
    which = item.c.name.icontains(name, autoescape=True) | (item.c.id == name)
    if state is not None:
        which &= _is(state, n_classes)
    if person is not None:
        theirs = select(question.c.item_id).join_from(question, answer, answer.c.question_id == question.c.id)
        which &= item.c.id.in_(theirs.where(answer.c.annotator == person, stands))
    total = connection.scalar(select(func.count()).select_from(both).where(which)) or 0
    columns = [tally.c[name] for name in ("n_answers", "n_repeats", "n_ruled_out", "n_yes")]
    query = select(item, *columns).select_from(both).where(which).order_by(item.c.position).offset(skip).limit(most)
    rows = connection.execute(query).mappings().all()
    said = _said_of(connection, [row["id"] for row in rows])
    return [_shown(row, said[row["id"]], n_classes) for row in rows], total


def _is(state: State, n_classes: int) -> ColumnElement[bool]:
    """Give the condition that an item is in a state."""
    n = tally.c.n_answers + tally.c.n_repeats
    return {
        "gone": tally.c.item_id.is_(None),
        "unanswered": n == 0,
        "open": (n > 0) & undecided(n_classes),
        "closed": ~undecided(n_classes),
    }[state]


def _said_of(connection: Connection, ids: list[str]) -> dict[str, list[ItemAnswer]]:
    """Read the standing answers about items, with who gave them, also of those who were left out."""
    query = (
        select(question.c.item_id, question.c.class_index, question.c.repeat_of, answer.c.value, answer.c.answered)
        .add_columns(annotator.c.name, counts.label("counts"), is_final.label("final"))
        .join_from(question, answer, answer.c.question_id == question.c.id)
        .join(annotator, annotator.c.id == answer.c.annotator)
        .where(question.c.item_id.in_(ids), stands)
        .order_by(answer.c.seq)
    )
    found: dict[str, list[ItemAnswer]] = defaultdict(list)
    for row in connection.execute(query):
        about = (row.class_index, row.value, row.name, row.answered, row.repeat_of is not None)
        found[row.item_id].append(ItemAnswer(*about, bool(row.counts), bool(row.final)))
    return found


def _shown(row: Any, said: list[ItemAnswer], n_classes: int) -> Shown:
    """Say what is known of an item; its state is that of `_is`."""
    told = [each for each in said if each.counts]
    final = [each for each in told if each.is_final]
    told = [each for each in final if each.value == "yes"] or told
    out = {each.class_index for each in told if each.value == "no"}
    left = tuple(k for k in range(n_classes) if k not in out)
    yes = [each.class_index for each in told if each.value == "yes"]
    votes = {k: yes.count(k) - sum(e.value == "no" and e.class_index == k for e in told) for k in yes}
    best = [k for k, n in votes.items() if n == max(votes.values())]
    label = best[0] if len(best) == 1 else left[0] if not yes and len(left) == 1 else None
    if any(each.value == "skip" for each in final):
        label = None
    state: State = "gone"
    if row["n_yes"] is not None:
        closed = row["n_yes"] > 0 or row["n_ruled_out"] >= n_classes - 1
        state = "closed" if closed else "open" if row["n_answers"] + row["n_repeats"] else "unanswered"
    return Shown(to_item(row), state, label, left, tuple(said))


def left_to_ask(connection: Connection, n_classes: int, enough: int | None) -> tuple[int, int]:
    """Count the items that can still be asked about, and the most answers that it takes to settle all of them."""
    most = 2**31 - 1 if enough is None else enough
    open_ = undecided(n_classes) & (tally.c.n_answers < most)
    classes, answers = n_classes - 1 - tally.c.n_ruled_out, most - tally.c.n_answers
    query = select(tally.c.n_ruled_out, tally.c.n_answers, func.count()).where(open_)
    query = query.add_columns(classes, answers).group_by(tally.c.n_ruled_out, tally.c.n_answers)
    items = questions = 0
    for _, _, n, by_class, by_answers in connection.execute(query):
        items, questions = items + n, questions + n * min(by_class, by_answers)
    return items, questions
