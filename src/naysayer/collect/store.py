"""The store of a project: its items, the questions that were asked, and every answer, never changed once given."""

from __future__ import annotations

import json
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, RowMapping, Table, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from naysayer.collect import items as changes
from naysayer.collect import schema
from naysayer.collect.database import Database, StoreError
from naysayer.collect.drawing import hand_out, to_item, undecided
from naysayer.collect.guiding import Guide
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
from naysayer.collect.rulings import count_again, read_rulings, reopen, rule, settle, unfair
from naysayer.collect.schema import (
    annotator,
    answer,
    belief,
    counts,
    is_final,
    item,
    meta,
    pending,
    question,
    removed,
    ruling,
    said_of,
    stands,
    tally,
    token,
    training,
)
from naysayer.collect.tokens import Tokens, hash_token
from naysayer.collect.writer import GroupWriter
from naysayer.data.items import Item, is_name
from naysayer.features.cache import forget
from naysayer.measure.answers import FINAL_VOTES, Answers, read_answers
from naysayer.measure.settling import LEAST_ERROR, settled

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

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CHUNK = 500  # rows that are registered, loaded or read at a time
RECALL_SECONDS = 5.0  # for so long at the most does a secret work on that another process has ended
_TOKENS = Tokens(token)


class Store:
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
        self._database, self._project, self._random = database, project, random
        self._writer: GroupWriter[Connection, Any] = GroupWriter(
            database.writing, self._write, shared=lambda error: isinstance(error, StoreError)
        )
        self._counting, self._counted, self._counts = threading.Lock(), -math.inf, (0, 0, 0, 0)
        self._guide: Guide | None = None
        self._followed = 0  # the number of the last change that was taken over
        self._recalled: dict[str, tuple[Annotator, float]] = {}  # hash of a secret → whose it is, until when

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
            stored = _open(database, project)
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
            changed = replace(_project(connection), **changes)  # another process may have added a class
            _keep_project(connection, changed)
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
            project = _project(connection)
            if here := [name for name in names if name in project.classes]:
                raise ValueError(f"a class to add must be new; {here[0]!r} is there already; leave it out")
            p = project.probabilities
            if p is not None:
                p = tuple(each / (1 + len(names) / len(p)) for each in (*p, *[1 / len(p)] * len(names)))
            changed = replace(project, classes=(*project.classes, *names), probabilities=p)
            _keep_project(connection, changed)
            schema.note_change(connection)
            return changed

        self._project = self._change(change)
        return self._project

    def renew(self) -> Project:
        """Read again what the store asks, to which another process may have added classes."""
        with self._database.reading() as connection:
            self._project = _project(connection)
        return self._project

    # ---- items -----------------------------------------------------------------------------------------------------

    def register(self, items: Iterable[Item]) -> int:
        """Add the items that are not there yet, and give their number; of an image that moved, the path is renewed."""
        items, added = iter(items), 0
        while chunk := {each.id: each for each in islice(items, _CHUNK)}:
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
        if back := [each.id for each in out if each.id not in gone]:
            self._change(partial(changes.come_back, back))
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

    def _guiding(self) -> Guide | None:
        """Give what questions are guided by at present."""
        return self._guide if self._project.questions == "guided" else None

    # ---- annotators ------------------------------------------------------------------------------------------------

    def named_annotator(self, name: str, role: Role = "annotator") -> Annotator:
        """Give the annotator of this name who has no token, added now if need be: for localhost and for imports."""
        new = _new_annotator(name, role)

        def find(connection: Connection) -> Annotator:
            here = (annotator.c.name == name) & (annotator.c.role == role) & annotator.c.token_hash.is_(None)
            found = connection.execute(select(annotator).where(here).order_by(annotator.c.created)).mappings().first()
            if found is None:
                connection.execute(insert(annotator).values(asdict(new)))
            return _annotator(found) if found else new

        return self._change(find)

    def add_annotator(self, name: str, role: Role = "annotator", until: float | None = None) -> tuple[Annotator, str]:
        """Add an annotator and give their link's token; only its hash is stored, so it is shown just once."""
        new = _new_annotator(name, role)

        def add(connection: Connection) -> str:
            link = _TOKENS.new_link(connection, new.id, until)
            connection.execute(insert(annotator).values(asdict(new) | {"token_hash": hash_token(link)}))
            return link

        return new, self._change(add)

    def new_link(self, annotator_id: str, until: float | None = None) -> str:
        """Give an annotator one more link, and who was revoked is welcome again; `until` is its end, None: it has none.

        Links that were made before go on, and so do the browsers that they let in.
        """

        def add(connection: Connection) -> str:
            _set_annotator(connection, annotator_id, revoked=None)
            return _TOKENS.new_link(connection, annotator_id, until)

        return self._change(add)

    def admit(self, link: str) -> str | None:
        """Exchange a link's token for a secret, once; None: it is none, was exchanged before, or has ended."""
        with self._database.reading() as connection:  # so that nobody who guesses keeps the one writer busy
            if not _TOKENS.is_link(connection, link):
                return None
        return self._change(lambda connection: _TOKENS.exchange(connection, link))

    def revoke(self, annotator_id: str) -> None:
        """End an annotator's links and let none of their browsers go on; their answers stay."""

        def end(connection: Connection) -> None:
            _set_annotator(connection, annotator_id, revoked=time.time())
            _TOKENS.end(connection, annotator_id)

        self._end(end)

    def end_links(self) -> None:
        """End everybody's links, and let no browser go on without a new one."""
        self._end(_TOKENS.end)

    def _end(self, end: Callable[[Connection], None]) -> None:
        try:
            self._change(end)
        finally:  # also when it failed: a commit whose acknowledgement was lost has happened
            self._recalled = {}

    def annotator_by_token(self, secret: str) -> Annotator | None:
        """Give the annotator whose link was exchanged for this secret, unless that has ended."""
        recalled = self._recalled  # a change from now on puts another in its place: what is read here may be older
        with self._database.reading() as connection:
            session = _TOKENS.session(connection, secret)
            if session is None:
                return None
            row = connection.execute(select(annotator).where(annotator.c.id == session.person)).mappings().one()
        left = min(RECALL_SECONDS, session.until - time.time())
        recalled[hash_token(secret)] = _annotator(row), time.monotonic() + left
        return _annotator(row)

    def recall(self, secret: str) -> Annotator | None:
        """Give the annotator whose secret this was when `annotator_by_token` last looked; None where that is too old.

        This does not wait for the database. What this process changes it knows at once.
        """
        found, until = self._recalled.get(hash_token(secret), (None, -math.inf))
        return found if time.monotonic() < until else None

    def annotators(self) -> list[Annotator]:
        """Give all annotators in the order in which they were added."""
        with self._database.reading() as connection:
            query = select(annotator).order_by(annotator.c.created, annotator.c.id)
            return [_annotator(row) for row in connection.execute(query).mappings()]

    # ---- rulings ---------------------------------------------------------------------------------------------------

    def leave_out(self, annotator_id: str, reason: str, by: str) -> None:
        """Let an annotator's answers count no more: in no estimate, training or label; they stay in the store.

        `by` is the id of whoever says so, and `reason` why. Who is out already is a ValueError.
        """
        self._rule(partial(rule, annotator_id=annotator_id, verdict="out", reason=reason, by=by))

    def let_in(self, annotator_id: str, reason: str, by: str) -> None:
        """Let an annotator's answers count again."""
        self._rule(partial(rule, annotator_id=annotator_id, verdict="in", reason=reason, by=by))

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
        self._rule(partial(settle, item_id=item_id, class_index=class_index, by=by, n_classes=n_classes))

    def reopen(self, item_id: str, by: str) -> bool:
        """Take back the last word about an item; False: there was none."""
        return bool(self._rule(partial(reopen, item_id=item_id, by=by)))

    def _rule(self, change: Callable[[Connection], set[str]]) -> set[str]:
        """Make a change to what counts, and tell the guide; give the questions that it concerns."""

        def ruled(connection: Connection) -> set[str]:
            questions = change(connection)
            if self._guide is not None:
                _tell(self._guide, connection, questions)
            return questions

        return self._change(ruled)  # type: ignore[no-any-return]

    # ---- trainings -------------------------------------------------------------------------------------------------

    def add_training(
        self,
        *,
        n_answers: int,
        method: str,
        estimate: float,
        low: float,
        high: float,
        detail: Mapping[str, Any] = {},
        at: float | None = None,
    ) -> None:
        """Add what a training came to; `at` is its time, None: now."""
        values = {"n_answers": n_answers, "method": method, "estimate": estimate, "low": low, "high": high}
        values |= {"at": time.time() if at is None else at, "detail": json.dumps(detail)}
        self._change(lambda connection: connection.execute(insert(training).values(values)))

    def add_belief(self, at: float, items: Sequence[str], probabilities: Floats, votes: Ints) -> None:
        """Add what a model that was trained at a time expects of items, (N, K), with the votes that are in it.

        It counts once the training of this time is added, too; see `guide`.
        """
        p, v = probabilities.astype("<f4"), votes.astype("<i2")
        for start in range(0, len(items), _CHUNK):
            rows = [
                {"training": at, "item_id": items[i], "probabilities": p[i].tobytes(), "votes": v[i].tobytes()}
                for i in range(start, min(start + _CHUNK, len(items)))
            ]
            self._change(partial(_add, belief, rows))

    def guide(self) -> Guide | None:
        """Draw questions from what the last training expects, from now on; None: it left nothing to draw from.

        This reads from the store alone, so that it goes on after a restart, and on another server.
        """
        trainings = self.trainings()
        last = next((one for one in reversed(trainings) if one.detail.get("guides")), None)
        if last is None:
            return None
        query = select(belief.c.item_id, belief.c.probabilities, belief.c.votes).where(belief.c.training == last.at)
        rows = [tuple(row.values()) for row in self._stream(query.order_by(belief.c.item_id))]
        if not rows:
            return None
        ids, p, v = zip(*rows)
        k = self._project.n_classes
        if len(p[0]) != 4 * k:  # a class was added since
            return None
        expected = np.frombuffer(b"".join(p), "<f4").reshape(-1, k).astype(np.float64)
        votes = np.frombuffer(b"".join(v), "<i2").reshape(-1, k).astype(np.int64)
        error_rate = float(last.detail["error_rate"])
        goal, enough = self._project.goal, self._project.answers_per_item
        guide = Guide(ids, expected, votes, max(error_rate, LEAST_ERROR), last.at, goal, enough)

        def begin(connection: Connection) -> None:
            """Catch up with what was said since, and let the questions that follow be drawn by it."""
            new = (answer.c.seq > last.detail["last_answer"]) | answer.c.annotator.in_(select(ruling.c.annotator))
            asked = select(answer.c.question_id).where(new)
            _tell(guide, connection, set(connection.scalars(asked)))
            self._guide = guide

        self._change(begin)
        for start in range(0, len(ids), _CHUNK):  # piece by piece, so that no answer waits
            old = (belief.c.training < last.at) & belief.c.item_id.in_(ids[start : start + _CHUNK])
            self._change(partial(_remove, belief, old))
        return guide

    def trainings(self) -> list[Training]:
        """Give all trainings in the order in which they came."""
        with self._database.reading() as connection:
            rows = connection.execute(select(training).order_by(training.c.seq)).mappings()
            return [Training(**dict(row) | {"detail": json.loads(row["detail"])}) for row in rows]

    # ---- whole tables, for export and import -----------------------------------------------------------------------

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Give the rows of one of the tables meta, item, annotator, question, answer, training, ruling as they are
        stored, in the order in which they came."""
        here = _table(table)
        order: list[Any] = list(here.primary_key)
        if here is annotator:
            order = [annotator.c.created, annotator.c.id]
        if here is question:  # a repetition after what it repeats, so that they can be loaded in this order
            order = [question.c.repeat_of.is_not(None), question.c.asked, question.c.id]
        return map(dict, self._stream(select(here).order_by(*order)))

    def load(self, table: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Add rows as `rows` gives them, but for those that are there already; give the number added.

        Load item and annotator before question, and question before answer. The numbers `position` and `seq` are
        counted anew, in the order of the rows.
        """
        here, rows, added = _table(table), iter(rows), 0
        if here is question:  # exports of earlier releases and other tools do not say it
            rows = ({**row, "n_classes": row.get("n_classes") or self._project.n_classes} for row in rows)
        while chunk := list(islice(rows, _CHUNK)):
            added += self._change(partial(_load, here, chunk))
        return added

    # ---- how it is done --------------------------------------------------------------------------------------------

    def _change(self, change: Callable[[Connection], Any]) -> Any:
        """Let the one writer make a change, and wait until it is durable."""
        return self._writer.submit(change).result()

    def _stream(self, query: Any) -> Iterator[RowMapping]:
        """Read rows piece by piece, all from one moment."""
        with self._database.reading() as connection:
            yield from connection.execution_options(yield_per=_CHUNK).execute(query).mappings()

    def _write(self, connection: Connection, requests: list[Any]) -> list[Any]:
        """Carry out requests that came at the same time, so that their order is ours to choose."""
        results: dict[int, Any] = {}
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
        if guide is not None and len(results) > 0:
            told = {requests[i].question_id for i in answers if results[i] is True}
            told |= {result.id for result in results.values() if isinstance(result, Question)}  # taken back
            _tell(guide, connection, told)
        given = hand_out(connection, self._project, self._random, [requests[i] for i in asks], guide)
        results |= zip(asks, given)
        return [results[i] for i in range(len(requests))]

    def _follow(self, connection: Connection) -> None:
        """Take over what has changed, here or in another process: new classes, items that are not to be asked about."""
        number = schema.change_number(connection)
        if number == self._followed:
            return
        self._followed, self._project = number, _project(connection)
        guide = self._guide
        if guide is not None and guide.expected.shape[1] == self._project.n_classes:
            self._guide = guide.among(set(connection.scalars(select(tally.c.item_id))))
        else:
            self._guide = None


# ---- opening -------------------------------------------------------------------------------------------------------


def _open(database: Database, project: Project | None) -> Project:
    """Bring a store to this version; give what it asks."""
    path = database.path
    if path and path.is_dir():
        raise IsADirectoryError(f"a store must be a file; {path} is a folder")
    if path and project is None and not path.exists():
        raise FileNotFoundError(f"no store at {path}; begin one: naysayer ask ITEMS --classes cat,dog")
    if path and path.is_file() and _is_something_else(path):
        raise StoreError(f"cannot read {path}: it is not a SQLite database; nothing was changed; choose another file")
    with database.reading() as connection:
        before = schema.version(connection)
        stored = _stored_project(connection) if before else None
    if stored is None and project is None:
        raise ValueError(f"{database.name} must hold a store; it has no project in it; begin one: naysayer ask")
    if before != len(schema.MIGRATIONS) or stored is None:
        if before == 0:
            database.write_ahead()
        with database.writing() as connection:
            schema.migrate(connection)
            stored = _stored_project(connection)  # another server may have begun it since
            if stored is None and project is not None:
                stored = project
                _keep_project(connection, project)
                connection.execute(insert(meta).values(key="created", value=repr(time.time())))
    assert stored is not None
    if project is not None and project.classes != stored.classes[: project.n_classes]:  # others may have come since
        raise ValueError(
            f"{database.name} must be asked for the classes it has, {', '.join(stored.classes)}; "
            f"got {', '.join(project.classes)}; naysayer add adds some; begin a new store for others"
        )
    return stored


def _is_something_else(path: Path) -> bool:
    """Tell whether a file is not SQLite's; SQLite itself takes one of a few bytes for empty, and writes over it."""
    with path.open("rb") as file:
        return file.read(16) not in (b"", b"SQLite format 3\0")


def _stored_project(connection: Connection) -> Project | None:
    """Read what a store asks."""
    text = connection.scalar(select(meta.c.value).where(meta.c.key == "project"))
    if text is None:
        return None
    found = json.loads(text)
    for name in ("classes", "probabilities"):
        found[name] = tuple(found[name]) if found[name] is not None else None
    return Project(**found)


def _project(connection: Connection) -> Project:
    """Read what a store asks that has been begun."""
    project = _stored_project(connection)
    assert project is not None
    return project


def _keep_project(connection: Connection, project: Project) -> None:
    """Write what a store asks."""
    connection.execute(delete(meta).where(meta.c.key == "project"))
    connection.execute(insert(meta).values(key="project", value=json.dumps(asdict(project))))


# ---- rows into things ----------------------------------------------------------------------------------------------


def _annotator(row: RowMapping) -> Annotator:
    """Make an annotator of their row."""
    return Annotator(**{name: row[name] for name in ("id", "name", "role", "created", "revoked")})


def _new_annotator(name: str, role: Role) -> Annotator:
    """Make an annotator who is not stored yet."""
    if not is_name(name) or len(name) > 200:
        raise ValueError(f"an annotator's name must be 1 to 200 characters that can be printed; got {name[:50]!r}")
    if role not in ("owner", "annotator"):
        raise ValueError(f"an annotator's role must be 'owner' or 'annotator'; got {role!r}")
    return Annotator(secrets.token_hex(16), name, role, time.time())


def _table(name: str) -> Table:
    """Give one of the tables that are exported."""
    tables = {table.name: table for table in (*schema.RECORD, ruling)}
    if name not in tables:
        raise ValueError(f"a table must be one of {', '.join(tables)}; got {name!r}")
    return tables[name]


# ---- what the writer does ------------------------------------------------------------------------------------------


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


def _set_annotator(connection: Connection, annotator_id: str, **values: Any) -> None:
    """Change an annotator who must be there."""
    if not connection.execute(update(annotator).where(annotator.c.id == annotator_id).values(values)).rowcount:
        raise KeyError(f"the store must have the annotator; it has none with the id {annotator_id!r}")


def _add(table: Table, rows: list[dict[str, Any]], connection: Connection) -> None:
    connection.execute(insert(table), rows)


def _remove(table: Table, which: Any, connection: Connection) -> None:
    connection.execute(delete(table).where(which))


def _tell(guide: Guide, connection: Connection, question_ids: Collection[str]) -> None:
    """Tell a guide what is now said of the items of some questions."""
    ids, told = list(question_ids), {}
    for start in range(0, len(ids), _CHUNK):
        about = select(question.c.item_id).where(question.c.id.in_(ids[start : start + _CHUNK]))
        about_items = set(connection.scalars(about))
        said = said_of(connection, about_items)
        for id in about_items:
            votes = np.zeros(guide.expected.shape[1], dtype=np.int64)
            for each in said.get(id, ()):
                votes[each.class_index] += {"yes": 1, "no": -1}.get(each.value, 0)
            for each in said.get(id, ()):
                if each.is_final and each.value == "yes":
                    votes[:] = -FINAL_VOTES
                    votes[each.class_index] = FINAL_VOTES
            told[id] = votes, len(said.get(id, ()))
    guide.update(told)


def _load(table: Table, rows: Sequence[Mapping[str, Any]], connection: Connection) -> int:
    """Add rows that are not there yet, and count again what they change."""
    counted = table.autoincrement_column
    columns = {column.name for column in table.c if column is not counted}
    values = [{name: row[name] for name in row if counted is None or name != counted.name} for row in rows]
    for row in values:
        if set(row) != columns:
            odd = min(columns ^ set(row))
            raise ValueError(
                f"a row of {table.name} must have the columns {', '.join(sorted(columns))}; look at {odd!r}"
            )
    values = _without_removed(connection, table, values)
    key = next(table.c[name] for name in ("id", "key", "at") if name in table.c)
    here = set(connection.scalars(select(key).where(key.in_([row[key.name] for row in values]))))
    new = list({row[key.name]: row for row in reversed(values) if row[key.name] not in here}.values())[::-1]
    if not new:
        return 0
    connection.execute(insert(table), new)
    if table is item:
        schema.add_tallies(connection, [row["id"] for row in new])
    if table is answer:
        about = question.c.id.in_([row["question_id"] for row in new])
        connection.execute(delete(pending).where(pending.c.question_id.in_(select(question.c.id).where(about))))
        schema.count_items(connection, set(connection.scalars(select(question.c.item_id).where(about))))
    if table is ruling:
        count_again(connection, {row["annotator"] for row in new})
    return len(new)


def _without_removed(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what belongs to an item that was removed: a file from before must not bring it back."""
    if table is answer and connection.scalar(select(func.count()).select_from(removed)):
        asked = {row["question_id"] for row in rows}
        here = set(connection.scalars(select(question.c.id).where(question.c.id.in_(asked))))
        return [row for row in rows if row["question_id"] in here]
    name = {"item": "id", "question": "item_id"}.get(table.name)
    if name is None:
        return rows
    gone = changes.removed_of(connection, {row[name] for row in rows})
    return [row for row in rows if row[name] not in gone]
