"""Questions handed out: what was counted in the store goes into `questions`, what is drawn there is stored."""

from __future__ import annotations

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Integer,
    RowMapping,
    Text,
    bindparam,
    delete,
    func,
    insert,
    select,
    tuple_,
)

from naysayer.collect.guiding import Guide
from naysayer.collect.questions import Draw, ItemPool, OpenItem, is_repeat, repeat_tries
from naysayer.collect.records import Ask, Project, Question
from naysayer.collect.schema import annotator, answer, counts, is_final, item, one_of, pending, question, said_of, tally
from naysayer.data.items import Item

PENDING_SECONDS = 600.0  # a question that is not answered by then no longer keeps others from its item
REPEAT_AFTER = 10  # own answers that lie between a question and its repetition to the same annotator
_MOST_ROWS = 500


_end_waiting = delete(pending).where(pending.c.expires <= bindparam("now"))
_known = select(annotator.c.id).where(annotator.c.id.in_(one_of("names")))
_held = select(pending).where(pending.c.annotator.in_(one_of("names"))).order_by(pending.c.expires)


def hand_out(
    connection: Connection, project: Project, random: Random, asks: list[Ask], guide: Guide | None = None
) -> list[list[Question] | Exception]:
    """Give each who asks their questions: those the page was handed and has not answered, then new ones."""
    if not asks:
        return []
    now, names = time.time(), list({ask.annotator for ask in asks})
    connection.execute(_end_waiting, {"now": now})
    known = set(connection.scalars(_known, {"names": names}))
    held: dict[str, dict[str, str]] = defaultdict(dict)  # annotator → question → item
    for row in connection.execute(_held, {"names": names}):
        held[row.annotator][row.question_id] = row.item_id
    skipped = _skipped(connection, known) if guide else {}
    busy = guide.places(connection.scalars(select(pending.c.item_id))) if guide else np.zeros(0, dtype=bool)

    def draw(name: str, mine: Mapping[str, str]) -> Draw | None:
        if guide is None:
            return pool.draw(name, mine.values())
        # Left out before anything is drawn, so that the chances of the others are what they are stored as.
        spent = [id for id, classes in skipped[name].items() if len(classes) >= project.n_classes]
        away = guide.places([*spent, *mine.values()])

        def excluded(item_id: str) -> Collection[int]:
            return skipped[name].get(item_id, ())

        drawn = guide.draw(random, busy | away, excluded)
        drawn = drawn or guide.draw(random, away, excluded)  # those left are the ones that others are at
        if drawn is None:  # what the model has not seen yet
            return pool.draw(name, mine.values())
        busy[:] |= guide.places([drawn.item_id])
        return drawn

    pages = _pages(connection, project, first=min(sum(ask.n for ask in asks) + 8, _MOST_ROWS))
    pool = ItemPool(pages, project.n_classes, project.probabilities, random)
    new: list[dict[str, Any]] = []
    given: list[list[str] | Exception] = []
    for ask in asks:
        if ask.annotator not in known:
            given.append(KeyError(f"the store must have the annotator; it has none with the id {ask.annotator!r}"))
            continue
        mine = held[ask.annotator]
        left = [id for id in mine if id not in ask.holding]
        ids = [id for id in left if id.startswith(ask.device)][: ask.n]
        while len(ids) < ask.n and (drawn := draw(ask.annotator, mine)):
            ids.append(ask.device + secrets.token_hex(16 - len(ask.device) // 2))
            mine[ids[-1]] = drawn.item_id
            about = {"id": ids[-1], "annotator": ask.annotator, "asked": now, "repeat_of": None, "guidance": None}
            new.append(about | {"n_classes": project.n_classes} | vars(drawn))
        # What another page of the same person holds comes last, and only to a page that would have nothing: the other
        # one may have been closed.
        given.append(ids if ids or ask.holding else left[: ask.n])
    if new:
        # A repetition takes the place of a new question, never of none: so the end of a project is an end.
        _repeat(connection, [row for row in new if is_repeat(project.repeat_share, random)], held, random)
        connection.execute(insert(question), new)
        connection.execute(insert(pending), [waiting(row["id"], row["item_id"], row["annotator"], now) for row in new])
    found = read_questions(connection, [id for ids in given if isinstance(ids, list) for id in ids])
    return [ids if isinstance(ids, Exception) else [found[id] for id in ids] for ids in given]


def waiting(question_id: str, item_id: str, name: str, now: float) -> dict[str, Any]:
    """Make the row of ``pending`` that keeps a question's item from others for a while."""
    return {"question_id": question_id, "item_id": item_id, "annotator": name, "expires": now + PENDING_SECONDS}


def to_item(row: RowMapping) -> Item:
    """Make an item of its row."""
    content = json.loads(row["content"]) if row["content"] is not None else None
    return Item(row["id"], row["kind"], row["name"], row["path"], content)


_question = [question.c[name].label(f"question_{name}") for name in ("id", "annotator")]
_with_item = (
    select(*_question, question.c.class_index, question.c.probability, question.c.repeat_of, item)
    .join_from(question, item, question.c.item_id == item.c.id)
    .where(question.c.id.in_(one_of("ids")))
)


def read_questions(connection: Connection, ids: Collection[str]) -> dict[str, Question]:
    """Read questions with their items."""
    if not ids:
        return {}
    return {
        row["question_id"]: Question(
            id=row["question_id"],
            item=to_item(row),
            class_index=row["class_index"],
            probability=row["probability"],
            annotator=row["question_annotator"],
            repeat_of=row["repeat_of"],
        )
        for row in connection.execute(_with_item, {"ids": list(ids)}).mappings()
    }


def undecided(n_classes: int | BindParameter[int]) -> ColumnElement[bool]:
    """Give the condition that an item's class is not known: nobody said yes, and two classes are left at least."""
    return (tally.c.n_yes == 0) & (tally.c.n_ruled_out < n_classes - 1)


_is_busy = tally.c.item_id.in_(select(pending.c.item_id))
_open = (
    select(tally.c.item_id, tally.c.n_answers, tally.c.n_repeats)
    .where(undecided(bindparam("n_classes", type_=Integer)), tally.c.n_answers < bindparam("enough"))
    .order_by(tally.c.n_answers, tally.c.item_id)
    .limit(bindparam("size", type_=Integer))
)
_after = tuple_(tally.c.n_answers, tally.c.item_id) > tuple_(bindparam("n", type_=Integer), bindparam("id", type_=Text))
_free, _busy = _open.where(~_is_busy, _after), _open.where(_is_busy)


def _pages(connection: Connection, project: Project, first: int) -> Iterator[list[OpenItem]]:
    """Read the items to ask about, fewest answers first, piece by piece; then those that somebody is busy with."""
    enough = 2**31 - 1 if project.answers_per_item is None else project.answers_per_item
    what = {"n_classes": project.n_classes, "enough": enough, "size": first}
    last: tuple[int, str] = (-1, "")
    while rows := connection.execute(_free, what | {"n": last[0], "id": last[1]}).all():
        yield _candidates(connection, rows, busy=False)
        if len(rows) < what["size"]:
            break
        last = (rows[-1].n_answers, rows[-1].item_id)
        what["size"] = min(2 * what["size"], _MOST_ROWS)
    yield _candidates(connection, connection.execute(_busy, what | {"size": _MOST_ROWS}).all(), busy=True)


def _candidates(connection: Connection, rows: Collection[Any], busy: bool) -> list[OpenItem]:
    """Read what is known of some items."""
    said = said_of(connection, [row.item_id for row in rows if row.n_answers or row.n_repeats])
    candidates = []
    for row in rows:
        ruled_out = {each.class_index for each in said.get(row.item_id, ()) if each.value == "no"}
        skipped: dict[str, set[int]] = defaultdict(set)
        for each in said.get(row.item_id, ()):
            if each.value == "skip":
                skipped[each.annotator].add(each.class_index)
        candidates.append(OpenItem(row.item_id, row.n_answers, frozenset(ruled_out), skipped, busy))
    return candidates


_skips = (
    select(answer.c.annotator, question.c.item_id, question.c.class_index)
    .join_from(answer, question, answer.c.question_id == question.c.id)
    .where(answer.c.annotator.in_(one_of("names")), answer.c.value == "skip", counts)
)


def _skipped(connection: Connection, names: Collection[str]) -> dict[str, dict[str, set[int]]]:
    """Give, for each annotator, the items at which they could not tell, with the classes that they were asked about."""
    found: dict[str, dict[str, set[int]]] = {name: defaultdict(set) for name in names}
    for row in connection.execute(_skips, {"names": list(names)}):
        found[row.annotator][row.item_id].add(row.class_index)
    return found


_to_repeat = (
    select(answer.c.seq, answer.c.annotator, question.c.id.label("repeat_of"), question.c.repeat_of.label("first"))
    .add_columns(question.c.item_id, question.c.class_index, question.c.probability)
    .join_from(answer, question, answer.c.question_id == question.c.id)
    .where(answer.c.seq.in_(one_of("tries")), answer.c.value.in_(["yes", "no"]), counts, ~is_final)
)
_repeated = select(question.c.annotator, question.c.repeat_of).where(question.c.repeat_of.in_(one_of("ids")))
_latest = select(answer.c.seq).where(answer.c.annotator == annotator.c.id).order_by(answer.c.seq.desc())
_recent = select(annotator.c.id, _latest.offset(REPEAT_AFTER - 1).limit(1).scalar_subquery())
_recent = _recent.where(annotator.c.id.in_(one_of("names")))


def _repeat(
    connection: Connection, drawn: list[dict[str, Any]], held: Mapping[str, dict[str, str]], random: Random
) -> None:
    """Put earlier questions in the place of new ones; where none is found that fits, the new one stays.

    One fits that was answered yes or no, and that its annotator was neither asked again nor has just answered.
    """
    if not drawn or not (last := connection.scalar(select(func.max(answer.c.seq)))):
        return
    tries = [repeat_tries(last, random) for _ in drawn]
    numbers = list({seq for each in tries for seq in each})
    rows = connection.execute(_to_repeat, {"tries": numbers}).mappings()
    found = {row["seq"]: row for row in rows if row["first"] is None}  # in SQL, SQLite would list all such questions
    seen = set(map(tuple, connection.execute(_repeated, {"ids": [row["repeat_of"] for row in found.values()]})))
    names = list({row["annotator"] for row in drawn})
    recent = {id: seq or 0 for id, seq in connection.execute(_recent, {"names": names})}
    for new, each in zip(drawn, tries):
        name = new["annotator"]
        # Not its own item: where that decided whether it stays, some items would stay more often than is stored.
        others = {item_id for id, item_id in held[name].items() if id != new["id"]}
        for first in (found[seq] for seq in each if seq in found):
            just_seen = first["annotator"] == name and first["seq"] >= recent[name]
            if not just_seen and (name, first["repeat_of"]) not in seen and first["item_id"] not in others:
                new |= {key: first[key] for key in ("item_id", "class_index", "probability", "repeat_of")}
                new["guidance"] = None
                held[name][new["id"]] = first["item_id"]
                break
