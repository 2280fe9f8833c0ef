"""The store of a project: its items, the questions that were asked, and every answer, never changed once given."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import islice
from random import Random
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError

from naysayer.collect import items as changes
from naysayer.collect import schema
from naysayer.collect.connected import CHUNK
from naysayer.collect.database import Database, StoreError
from naysayer.collect.drawing import hand_out, to_item, undecided
from naysayer.collect.guiding import Guide
from naysayer.collect.loading import in_order, load_rows, table_of
from naysayer.collect.opening import keep_project, open_project, read_project
from naysayer.collect.records import (
    Annotator,
    Answer,
    Ask,
    Conflict,
    Progress,
    Project,
    Question,
    Role,
    Ruling,
    Standing,
    Training,
    Undo,
    Value,
)
from naysayer.collect.replies import check_request, is_id, store_answers, take_back
from naysayer.collect.rulings import Rulings, unfair
from naysayer.collect.schema import answer, belief, counts, is_final, item, question, stands, tally
from naysayer.data.items import Item
from naysayer.features.cache import forget
from naysayer.measure.answers import Answers, read_answers
from naysayer.measure.settling import settled

__all__ = [
    "Annotator",
    "Answer",
    "Ask",
    "Conflict",
    "Progress",
    "Project",
    "Question",
    "Role",
    "Ruling",
    "Standing",
    "Store",
    "StoreError",
    "Training",
    "Undo",
    "Value",
]


class Store(Rulings):
    """The items, questions and answers of one project, in SQLite or PostgreSQL; safe to use from many threads.

    Every write goes through one thread, and returns when it is durable: what was acknowledged survives ``kill -9`` and
    a loss of power. Writes that come at the same time share one wait for the disk. Several processes, and with
    PostgreSQL several machines, may have the same store open.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.data.items import text_item
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store.open(folder.name + "/answers.db", project=Project(("good", "bad")))
    >>> store.register([text_item("A fine film.", "reviews.csv row 1")])
    1
    >>> ann = store.named_annotator("Ann")
    >>> (question,) = store.ask(ann.id)
    >>> question.item.content, question.probability
    ('A fine film.', 0.5)
    >>> store.answer(Answer("made-by-the-page", question.id, ann.id, "no", took_ms=900))
    True
    >>> store.answer(Answer("made-by-the-page", question.id, ann.id, "no", took_ms=900))  # sent again
    False
    >>> [standing.value for standing in store.standing()]
    ['no']
    >>> store.close()
    >>> folder.cleanup()
    """

    def __init__(self, database: Database, project: Project, random: Random) -> None:
        super().__init__(database, project)
        self._random = random
        self._counting, self._counted, self._counts = threading.Lock(), -math.inf, (0, 0, 0, 0)
        self._followed: tuple[int, Guide | None] = (0, None)  # the last change that was taken over, and by which guide

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], *, project: Project | None = None, random_state: int | None = None
    ) -> Store:
        """Open a store, or begin one.

        Parameters
        ----------
        where : the path of a SQLite file, or a URL that begins with ``postgresql://``.
        project : what a new store asks; one that is there must have its classes first, and its other settings stay as
            they are (`configure` and `add_classes` change them). None: the store must be there.
        random_state : the seed of what is drawn; None: unforeseeable.
        """
        database = Database(where)
        try:
            stored = open_project(database, project)
        except BaseException:
            database.close()
            raise
        return cls(database, stored, Random(random_state))

    def close(self) -> None:
        """Write what is under way, then close all connections."""
        self._writer.close()
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Where the store is, for people: no password in it."""
        return self._database.name

    @property
    def address(self) -> str:
        """What opens the store again, from whatever folder; it may hold a password."""
        return self._database.address

    @property
    def project(self) -> Project:
        """What the store asks."""
        return self._project

    def configure(self, **changes: Any) -> Project:
        """Change settings of the project, all but its classes, by the names they have in `Project`."""
        if "classes" in changes:
            raise ValueError("the classes of a store must stay as they are; `add_classes` adds others")

        def change(connection: Connection) -> Project:
            changed = replace(read_project(connection), **changes)  # another process may have added a class
            keep_project(connection, changed)
            return changed

        self._project = self._change(change)
        return self._project

    def add_classes(self, names: Sequence[str]) -> Project:
        """Add classes, after those that are there.

        What was said before says nothing about them: items that were settled because all other classes had been ruled
        out are open again. Where classes are asked about unevenly, each new one is as often as the average of the
        others.
        """

        def change(connection: Connection) -> Project:
            project = read_project(connection)
            if here := [name for name in names if name in project.classes]:
                raise ValueError(f"a class to add must be new; {here[0]!r} is there already; leave it out")
            p = project.probabilities
            if p is not None:
                p = tuple(each / (1 + len(names) / len(p)) for each in (*p, *[1 / len(p)] * len(names)))
            changed = replace(project, classes=(*project.classes, *names), probabilities=p)
            keep_project(connection, changed)
            schema.note_change(connection)
            return changed

        self._project = self._change(change)
        return self._project

    def renew(self) -> Project:
        """Read again what the store asks, to which another process may have added classes."""
        with self._database.reading() as connection:
            self._project = read_project(connection)
        return self._project

    # ---- items -----------------------------------------------------------------------------------------------------

    def register(self, items: Iterable[Item]) -> int:
        """Add the items that are not there yet, and give their number; of an image that moved, the path is renewed."""
        items, added = iter(items), 0
        while chunk := {each.id: each for each in islice(items, CHUNK)}:
            added += self._change(partial(changes.register, chunk))
        return added

    def remove(self, item_id: str) -> changes.Removed | None:
        """Remove an item with its questions, their answers, and features of it that are kept; None: there is none.

        This is for whoever asks that what is theirs be deleted. The id stays, with the time and the number of answers,
        so that the same content is not added again.
        """
        gone: changes.Removed | None = self._change(partial(changes.remove, item_id))
        if gone is not None:
            self._database.forget()
            forget([item_id])
        return gone

    def removed(self, ids: Iterable[str]) -> set[str]:
        """Give those of some items that were removed."""
        with self._database.reading() as connection:
            return changes.removed_of(connection, ids)

    def leave(self, ids: Collection[str]) -> None:
        """Take items whose pictures are gone out of the queue."""
        self._change(partial(changes.leave, list(ids)))

    def find_back(self) -> list[Item]:
        """Put the items whose pictures are there again back into the queue; give those that are still gone."""
        with self._database.reading() as connection:
            out = changes.out_of_queue(connection)
        gone = set(changes.are_gone(out))
        back = [each.id for each in out if each.id not in gone]
        for start in range(0, len(back), CHUNK):
            self._change(partial(changes.come_back, back[start : start + CHUNK]))
        return [each for each in out if each.id in gone]

    def browse(
        self,
        state: changes.State | None = None,
        name: str = "",
        person: str | None = None,
        *,
        skip: int = 0,
        most: int = 20,
    ) -> tuple[list[changes.Shown], int]:
        """Give a page of items with their answers, and how many there are in all; see :func:`items.browse`."""
        with self._database.reading() as connection:
            return changes.browse(connection, self._project.n_classes, state, name, person, skip, most)

    def left_to_ask(self) -> tuple[int, int]:
        """Count the items that can still be asked about, and the most answers that it takes to settle all of them."""
        with self._database.reading() as connection:
            return changes.left_to_ask(connection, self._project.n_classes, self._project.answers_per_item)

    def item(self, item_id: str) -> Item | None:
        """Give one item."""
        if not is_id(item_id):
            return None
        with self._database.reading() as connection:
            row = connection.execute(select(item).where(item.c.id == item_id)).mappings().first()
        return to_item(row) if row else None

    def n_items(self) -> int:
        """Count the items."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(item)) or 0

    def items(self) -> Iterator[Item]:
        """Give all items in the order in which they came."""
        return map(to_item, self._stream(select(item).order_by(item.c.position)))

    # ---- questions and answers -------------------------------------------------------------------------------------

    def submit(self, request: Ask | Answer | Undo) -> Future[Any]:
        """Hand in a request without waiting: ``await asyncio.wrap_future(store.submit(Answer(...)))``.

        The future's result, or exception, is that of `ask`, `answer` or `undo`.
        """
        check_request(request)
        return self._writer.submit(request)

    def ask(self, annotator: str, n: int = 1, holding: Collection[str] = (), device: str = "") -> list[Question]:
        """Give an annotator the next `n` questions, fewer where there are none.

        First come those that this `device` of theirs (8 hexadecimal digits; "": any) was handed within the last ten
        minutes and that are not answered, but for the ones whose ids are in `holding`: so a page that is reloaded gets
        its questions back, and a second page gets others. Then new ones are drawn: the item
        with the fewest answers, one that nobody is busy with where there is one, and a class that it can still be; or,
        where questions are guided, what :class:`naysayer.collect.guiding.Guide` draws. No
        new question is about an item that the annotator holds a question about: a page that gets an empty list asks
        again once it has sent its answers. An unknown annotator is a KeyError.
        """
        return self.submit(Ask(annotator, n, tuple(holding), device)).result()

    def answer(self, given: Answer) -> bool:
        """Store an answer; True: it was stored now and is durable; False: it was stored before.

        A question that was never handed to this annotator is a KeyError. An id that another answer has, and a
        second answer to a question whose first one stands, is a Conflict.
        """
        return self.submit(given).result()

    def undo(self, annotator: str, id: str, answer: str | None = None) -> Question | None:
        """Take back an answer of the annotator's and give its question again; None: no such answer stands.

        `answer` is its id; None: the latest one. This adds a row; the answer stays in the store. Sent twice with the
        same id, it takes back one answer.
        """
        return self.submit(Undo(id, annotator, answer)).result()

    def standing(self, since: int | None = None, *, everyone: bool = False) -> Iterator[Standing]:
        """Give the answers that count, in the order in which they came; only those with seq > `since`.

        They are those that were not taken back, of all who were not left out; `everyone`: of those, too.
        """
        columns = [answer.c[name] for name in ("seq", "id", "question_id", "annotator", "value", "took_ms", "answered")]
        columns += [question.c[name] for name in ("item_id", "class_index", "probability", "repeat_of", "guidance")]
        columns.append(question.c.n_classes)
        query = select(*columns, is_final.label("final"))
        query = query.join_from(answer, question, answer.c.question_id == question.c.id)
        query = query.where(stands if everyone else counts).order_by(answer.c.seq)
        if since is not None:
            query = query.where(answer.c.seq > since)
        with self._database.reading() as connection:
            odd = unfair(connection)
        for row in self._stream(query):
            yield Standing(**row, fair=not row["final"] and row["question_id"] not in odd)

    def progress(self, annotator: str | None = None, *, age: float = 0.0) -> Progress:
        """Count how far the project is, and how many answers one annotator has given.

        What is counted over all items may be `age` seconds old, so that many who ask at once need one count.
        """
        with self._counting:
            if time.monotonic() - self._counted >= age:
                self._counted, self._counts = time.monotonic(), self._count()
            counts = self._counts
        mine = select(func.count() - 2 * func.count(answer.c.undoes)).where(answer.c.annotator == annotator)
        with self._database.reading() as connection:
            own = connection.scalar(mine) if annotator is not None else 0
        return Progress(*counts, own or 0)

    def _count(self) -> tuple[int, int, int, int]:
        """Count the items, those answered, those that are asked about no more, and the answers."""
        n, guide = tally.c.n_answers + tally.c.n_repeats, self._guiding()
        closed = ~undecided(self._project.n_classes)
        if guide is not None:  # it decides on the items that it knows
            known = select(belief.c.item_id).where(belief.c.training == guide.training)
            closed &= tally.c.item_id.not_in(known)
        counts = select(func.count(), func.count().filter(n > 0), func.count().filter(closed), func.sum(n))
        with self._database.reading() as connection:
            items, answered, done, answers = connection.execute(counts).one()
        return items, answered, done + (0 if guide is None else int(guide.settled.sum())), int(answers or 0)

    def decided(self, answers: Answers | None = None) -> int:
        """Count the items whose class is known: by the answers alone, or, where questions are guided, with the model.

        Known means that it has a probability of 95% or more; see :mod:`naysayer.measure.settling`. A single yes is
        seldom enough where there are many classes. This reads all answers, unless they are given.
        """
        said, guide = read_answers(self) if answers is None else answers, self._guiding()
        known = {said.items[i] for i in np.flatnonzero(settled(said)).tolist()}
        if guide is not None:
            known = known.difference(guide.items)
        return len(known) + (0 if guide is None else int(guide.decided.sum()))

    # ---- whole tables, for export and import -----------------------------------------------------------------------

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Give the rows of one of the tables meta, item, annotator, question, answer, training, ruling, removed as they
        are stored, in the order in which they came."""
        return map(dict, self._stream(in_order(table_of(table))))

    def tables(self, names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """Read whole tables as they are at one moment, so that none refers to a row that another one lacks."""
        with self._database.reading(one_moment=True) as connection:
            queries = {name: in_order(table_of(name)) for name in names}
            return {name: [*map(dict, connection.execute(query).mappings())] for name, query in queries.items()}

    def load(self, table: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Add rows as `rows` gives them, but for those that are there already; give the number added.

        Load item and annotator before question, and question before answer. The numbers `position` and `seq` are
        counted anew, in the order of the rows.
        """
        here, rows, added = table_of(table), iter(rows), 0
        if here is question:  # exports of earlier releases and other tools do not say it
            rows = ({**row, "n_classes": row.get("n_classes") or self._project.n_classes} for row in rows)
        while chunk := list(islice(rows, CHUNK)):
            added += self._change(partial(load_rows, here, chunk))
        return added

    # ---- how it is done --------------------------------------------------------------------------------------------

    def _write(self, connection: Connection, requests: list[Any]) -> list[Any]:
        """Carry out requests that came at the same time, so that their order is ours to choose."""
        results: dict[int, Any] = {}
        stored = self._stored_since(connection) if self._guiding() is not None else []
        asks = [i for i, request in enumerate(requests) if isinstance(request, Ask)]
        answers = [i for i, request in enumerate(requests) if isinstance(request, Answer)]
        results |= zip(answers, store_answers(connection, [requests[i] for i in answers]))
        for i, request in enumerate(requests):
            if isinstance(request, Undo):
                results[i] = take_back(connection, request)
            elif callable(request):
                results[i] = _attempt(connection, request)
        if asks:
            self._follow(connection)
        guide = self._guiding()
        if guide is not None:
            told = {requests[i].question_id for i in answers if results[i] is True}
            told |= {result.id for result in results.values() if isinstance(result, Question)}  # taken back
            self._tell(guide, connection, told, stored)
            self._own = {request.id for request in requests if isinstance(request, (Answer, Undo))}
        given = hand_out(connection, self._project, self._random, [requests[i] for i in asks], guide)
        results |= zip(asks, given)
        return [results[i] for i in range(len(requests))]

    def _follow(self, connection: Connection) -> None:
        """Take over what has changed, here or in another process: new classes, items that are not to be asked about."""
        number, guide = schema.change_number(connection), self._guide
        if (number, guide) == self._followed:  # a new guide may have been read before the change
            return
        self._project = read_project(connection)
        if guide is not None and guide.expected.shape[1] == self._project.n_classes:
            here = set(connection.scalars(select(tally.c.item_id)))
            self._guide = guide if here.issuperset(guide.items) else guide.among(here)
        else:
            self._guide = None
        self._followed = number, self._guide


def _attempt(connection: Connection, change: Callable[[Connection], Any]) -> Any:
    """Make a change whole or not at all; what it refuses concerns only the one who wanted it."""
    try:
        with connection.begin_nested():
            return change(connection)
    except IntegrityError as error:
        reason = " ".join(str(error.orig).split())[:200]
        return ValueError(f"a row must fit those it refers to; one does not ({reason}); load those first")
    except (KeyError, ValueError) as error:
        return error
