"""Answers and their undoing, each stored once whatever the network does; nothing that is stored changes."""

from __future__ import annotations

import re
import time
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from naysayer.collect.drawing import read_questions, waiting
from naysayer.collect.records import Answer, Ask, Conflict, Question, Undo
from naysayer.collect.schema import answer, count_items, one_of, pending, question, stands

MOST_QUESTIONS = 20  # that one request may ask for
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEVICE = re.compile(r"[0-9a-f]{8}")


def is_id(text: str) -> bool:
    """Tell whether a text can be an id at all, so that nothing odd reaches the database."""
    return _ID.fullmatch(text) is not None


def check_request(request: Ask | Answer | Undo) -> None:
    """Check what comes from a page."""
    if not is_id(request.annotator):
        raise KeyError(f"the store must have the annotator; it has none with the id {request.annotator[:70]!r}")
    if isinstance(request, Ask):
        if not 1 <= request.n <= MOST_QUESTIONS:
            raise ValueError(f"a page must ask for 1 to {MOST_QUESTIONS} questions; got {request.n}")
        if request.device and not _DEVICE.fullmatch(request.device):
            raise ValueError(f"a device must be 8 hexadecimal digits; got {request.device[:70]!r}")
        return
    undone = request.answer if isinstance(request, Undo) else None
    for id in (request.id, undone):
        if id is not None and not is_id(id):
            raise ValueError(f"an id must be 1 to 64 letters, digits, - and _; got {id[:70]!r}")
    if isinstance(request, Undo):
        return
    if not is_id(request.question_id):
        raise KeyError(_NOT_ASKED.format(request.question_id[:70]))
    if request.value not in ("yes", "no", "skip"):
        raise ValueError(f"an answer must be yes, no or skip; got {str(request.value)[:50]!r}")
    if request.took_ms is not None and not 0 <= request.took_ms < 2**53:
        raise ValueError(f"the milliseconds of an answer must be 0 or more; got {request.took_ms}")


_NOT_ASKED = "an answer must be to a question that its annotator was asked; {!r} is none"


_stored = select(answer.c.id, answer.c.question_id, answer.c.annotator, answer.c.value)
_stored = _stored.where(answer.c.id.in_(one_of("ids")))
_asked = select(question.c.id, question.c.annotator, question.c.item_id).where(question.c.id.in_(one_of("ids")))
_answered = select(answer.c.question_id).where(answer.c.question_id.in_(one_of("ids")), stands)
_no_longer_waits = delete(pending).where(pending.c.question_id.in_(one_of("ids")))


def store_answers(connection: Connection, answers: list[Answer]) -> list[bool | Exception]:
    """Store answers, each once."""
    if not answers:
        return []
    ids, questions = {"ids": [each.id for each in answers]}, {"ids": list({each.question_id for each in answers})}
    stored = {row.id: tuple(row) for row in connection.execute(_stored, ids)}
    asked = {row.id: row for row in connection.execute(_asked, questions)}
    answered = set(connection.scalars(_answered, questions))
    now, results, new = time.time(), list[bool | Exception](), list[dict[str, Any]]()
    for each in answers:
        what = (each.id, each.question_id, each.annotator, each.value)
        if each.id in stored:
            same = stored[each.id] == what
            results.append(False if same else Conflict(f"an answer's id must be its own; {each.id} is another's"))
        elif each.question_id not in asked or asked[each.question_id].annotator != each.annotator:
            results.append(KeyError(_NOT_ASKED.format(each.question_id)))
        elif each.question_id in answered:
            results.append(Conflict("a question must be answered once; an answer to this one stands; undo it first"))
        else:
            stored[each.id] = what
            answered.add(each.question_id)
            new.append(vars(each) | {"answered": now})
            results.append(True)
    if new:
        done = [row["question_id"] for row in new]
        connection.execute(insert(answer), new)
        connection.execute(_no_longer_waits, {"ids": done})
        count_items(connection, {asked[id].item_id for id in done})
    return results


def take_back(connection: Connection, request: Undo) -> Question | Exception | None:
    """Take back an answer of an annotator's: the one that is named, or else the latest."""
    before = connection.execute(select(answer).where(answer.c.id == request.id)).first()
    if before is not None:
        if before.value != "undo" or before.annotator != request.annotator:
            return Conflict(f"an undo's id must be its own; {request.id} is another's")
        waits = select(pending.c.question_id).where(pending.c.question_id == before.question_id)
        return read_questions(connection, list(connection.scalars(waits))).get(before.question_id)
    mine = select(answer).where(answer.c.annotator == request.annotator, stands)
    if request.answer is not None:
        mine = mine.where(answer.c.id == request.answer)
    last = connection.execute(mine.order_by(answer.c.seq.desc()).limit(1)).first()
    if last is None:
        return None
    now = time.time()
    again = read_questions(connection, [last.question_id])[last.question_id]
    values = {"id": request.id, "question_id": again.id, "annotator": request.annotator}
    connection.execute(insert(answer).values(values | {"value": "undo", "undoes": last.id, "answered": now}))
    connection.execute(insert(pending).values(waiting(again.id, again.item.id, request.annotator, now)))
    count_items(connection, {again.item.id})
    return again
