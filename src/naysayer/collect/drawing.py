"""Questions handed out: what was counted in the store goes into `questions`, what is drawn there is stored."""

from __future__ import annotations

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from random import Random
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, insert, select, tuple_

from naysayer.collect.items import Item
from naysayer.collect.questions import Candidate, Pool, is_repeat, repeat_tries
from naysayer.collect.records import Ask, Project, Question
from naysayer.collect.schema import annotator, answer, item, pending, question, said_of, stands, tally

PENDING_SECONDS = 600.0  # a question that is not answered by then no longer keeps others from its item
REPEAT_AFTER = 10  # own answers that lie between a question and its repetition to the same annotator
_MOST_ROWS = 500


def hand_out(
    connection: Connection, project: Project, random: Random, asks: list[Ask]
) -> list[list[Question] | Exception]:
    """Give each who asks their questions: those they were handed and have not answered, then new ones."""
    if not asks:
        return []
    now, names = time.time(), {ask.annotator for ask in asks}
    connection.execute(delete(pending).where(pending.c.expires <= now))
    known = set(connection.scalars(select(annotator.c.id).where(annotator.c.id.in_(names))))
    held: dict[str, dict[str, str]] = defaultdict(dict)  # annotator → question → item
    for row in connection.execute(select(pending).where(pending.c.annotator.in_(names)).order_by(pending.c.expires)):
        held[row.annotator][row.question_id] = row.item_id
    pages = _pages(connection, project, first=sum(ask.n for ask in asks) + 8)
    pool = Pool(pages, project.n_classes, project.probabilities, random)
    new: list[dict[str, Any]] = []
    given: list[list[str] | Exception] = []
    for ask in asks:
        if ask.annotator not in known:
            given.append(KeyError(f"the store must have the annotator; it has none with the id {ask.annotator!r}"))
            continue
        mine = held[ask.annotator]
        ids = [id for id in mine if id not in ask.holding][: ask.n]
        while len(ids) < ask.n and (drawn := pool.draw(ask.annotator, mine.values())):
            ids.append(secrets.token_hex(16))
            mine[ids[-1]] = drawn.item_id
            new.append({"id": ids[-1], "annotator": ask.annotator, "asked": now, "repeat_of": None, **asdict(drawn)})
        given.append(ids)
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


def read_questions(connection: Connection, ids: Collection[str]) -> dict[str, Question]:
    """Read questions with their items."""
    if not ids:
        return {}
    wanted = [question.c[name].label(f"question_{name}") for name in ("id", "annotator")]
    query = select(*wanted, question.c.class_index, question.c.probability, question.c.repeat_of, item)
    query = query.join_from(question, item, question.c.item_id == item.c.id).where(question.c.id.in_(ids))
    return {
        row["question_id"]: Question(
            id=row["question_id"],
            item=to_item(row),
            class_index=row["class_index"],
            probability=row["probability"],
            annotator=row["question_annotator"],
            repeat_of=row["repeat_of"],
        )
        for row in connection.execute(query).mappings()
    }


def undecided(n_classes: int) -> ColumnElement[bool]:
    """Give the condition that an item's class is not known: nobody said yes, and two classes are left at least."""
    return (tally.c.n_yes == 0) & (tally.c.n_ruled_out < n_classes - 1)


def _pages(connection: Connection, project: Project, first: int) -> Iterator[list[Candidate]]:
    """Read the items to ask about, fewest answers first, piece by piece; then those that somebody is busy with."""
    query = select(tally.c.item_id, tally.c.n_answers, tally.c.n_repeats).where(undecided(project.n_classes))
    if project.answers_per_item is not None:
        query = query.where(tally.c.n_answers < project.answers_per_item)
    query = query.order_by(tally.c.n_answers, tally.c.item_id)
    busy = select(pending.c.item_id).where(pending.c.item_id == tally.c.item_id).exists()
    place = tuple_(tally.c.n_answers, tally.c.item_id)
    free, size = query.where(~busy), first
    while rows := connection.execute(free.limit(size)).all():
        yield _candidates(connection, rows, busy=False)
        if len(rows) < size:
            break
        free = query.where(~busy, place > tuple_(rows[-1].n_answers, rows[-1].item_id))
        size = min(2 * size, _MOST_ROWS)
    yield _candidates(connection, connection.execute(query.where(busy).limit(_MOST_ROWS)).all(), busy=True)


def _candidates(connection: Connection, rows: Collection[Any], busy: bool) -> list[Candidate]:
    """Read what is known of some items."""
    said = said_of(connection, [row.item_id for row in rows if row.n_answers or row.n_repeats])
    candidates = []
    for row in rows:
        ruled_out = {each.class_index for each in said.get(row.item_id, ()) if each.value == "no"}
        skipped: dict[str, set[int]] = defaultdict(set)
        for each in said.get(row.item_id, ()):
            if each.value == "skip":
                skipped[each.annotator].add(each.class_index)
        candidates.append(Candidate(row.item_id, row.n_answers, frozenset(ruled_out), skipped, busy))
    return candidates


def _repeat(
    connection: Connection, drawn: list[dict[str, Any]], held: Mapping[str, dict[str, str]], random: Random
) -> None:
    """Put earlier questions in the place of new ones; where none is found that fits, the new one stays.

    One fits that was answered yes or no, and that its annotator was neither asked again nor has just answered.
    """
    if not drawn or not (last := connection.scalar(select(func.max(answer.c.seq)))):
        return
    tries = [repeat_tries(last, random) for _ in drawn]
    copied = [question.c[name] for name in ("item_id", "class_index", "probability")]
    query = select(answer.c.seq, answer.c.annotator, question.c.id.label("repeat_of"), *copied)
    query = query.join_from(answer, question, answer.c.question_id == question.c.id)
    query = query.where(answer.c.seq.in_({seq for each in tries for seq in each}), stands)
    query = query.where(answer.c.value.in_(["yes", "no"]), question.c.repeat_of.is_(None))
    found = {row["seq"]: row for row in connection.execute(query).mappings()}
    names = {row["annotator"] for row in drawn}
    again = select(question.c.annotator, question.c.repeat_of).where(question.c.annotator.in_(names))
    again = again.where(question.c.repeat_of.in_({row["repeat_of"] for row in found.values()}))
    seen = {tuple(row) for row in connection.execute(again)}
    recent = _recent(connection, names)
    for new, each in zip(drawn, tries):
        name = new["annotator"]
        for first in (found[seq] for seq in each if seq in found):
            just_seen = first["annotator"] == name and first["seq"] >= recent[name]
            if not just_seen and (name, first["repeat_of"]) not in seen and first["item_id"] not in held[name].values():
                new |= {key: first[key] for key in ("item_id", "class_index", "probability", "repeat_of")}
                held[name][new["id"]] = first["item_id"]
                break


def _recent(connection: Connection, names: Collection[str]) -> dict[str, int]:
    """Give the number of each annotator's tenth latest answer, 0 for one who gave fewer."""
    latest = select(answer.c.seq).where(answer.c.annotator == annotator.c.id).order_by(answer.c.seq.desc())
    latest = latest.offset(REPEAT_AFTER - 1).limit(1)
    query = select(annotator.c.id, latest.scalar_subquery()).where(annotator.c.id.in_(names))
    return {id: seq or 0 for id, seq in connection.execute(query)}
