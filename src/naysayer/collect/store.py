"""The store of a project: its items, the questions that were asked, and every answer, never changed once given."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from itertools import islice
from random import Random
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, delete, func, insert, select, tuple_, update

from naysayer.collect import schema
from naysayer.collect.database import Database, StoreError
from naysayer.collect.items import Item
from naysayer.collect.questions import Candidate, Draw, Pool, is_repeat, repeat_tries
from naysayer.collect.schema import annotator, answer, item, meta, pending, question, stands, tally, training
from naysayer.collect.writer import GroupWriter

Value = Literal["yes", "no", "skip"]
Role = Literal["owner", "annotator"]

PENDING_SECONDS = 600.0  # a question that is not answered by then no longer keeps others from its item
REPEAT_AFTER = 10  # own answers that lie between a question and its repetition to the same annotator
MOST_QUESTIONS = 20  # that one request may ask for
_CHUNK = 500  # rows that are registered, loaded or read at a time
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
    """Ask for `n` questions for an annotator whose page already holds those with the ids `holding`."""

    annotator: str
    n: int = 1
    holding: tuple[str, ...] = ()


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
    """Take back the annotator's latest answer; `id` was made by the page, as for an answer."""

    id: str
    annotator: str


@dataclass(frozen=True)
class Standing:
    """An answer that was not taken back, with what it was about."""

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
    """How far a project is: items, those with an answer, those whose class is known; answers in all and by one."""

    items: int
    answered: int
    decided: int
    answers: int
    own: int


class Conflict(ValueError):
    """An answer that cannot stand beside one that is stored: the page should drop it and go on."""


class Store:
    """The items, questions and answers of one project, in SQLite or PostgreSQL; safe to use from many threads.

    Every write goes through one thread, and returns when it is durable: what was acknowledged survives ``kill -9`` and
    a loss of power. Writes that come at the same time share one wait for the disk. Several processes, and with
    PostgreSQL several machines, may have the same store open.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.collect.items import text_item
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

    @classmethod
    def open(
        cls, where: str | os.PathLike[str], *, project: Project | None = None, random_state: int | None = None
    ) -> Store:
        """Open a store, or begin one.

        Parameters
        ----------
        where : the path of a SQLite file, or a URL that begins with ``postgresql://``.
        project : what a new store asks; of one that is there, the classes must be the same, and its other settings
            stay as they are (`configure` changes them). None: the store must be there.
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
    def project(self) -> Project:
        """What the store asks."""
        return self._project

    def configure(self, **changes: Any) -> Project:
        """Change settings of the project, all but its classes, by the names they have in `Project`."""
        if "classes" in changes:
            raise ValueError("the classes of a store must stay as they are; begin a new store for others")
        changed = replace(self._project, **changes)
        self._change(lambda connection: _keep_project(connection, changed))
        self._project = changed
        return changed

    # ---- items ----------------------------------------------------------------------------------------------------

    def register(self, items: Iterable[Item]) -> int:
        """Add the items that are not there yet, and give their number; of an image that moved, the path is renewed."""
        items, added = iter(items), 0
        while chunk := {each.id: each for each in islice(items, _CHUNK)}:
            added += self._change(lambda connection, chunk=chunk: _register(connection, chunk))
        return added

    def item(self, item_id: str) -> Item | None:
        """Give one item."""
        with self._database.reading() as connection:
            row = connection.execute(select(item).where(item.c.id == item_id)).mappings().first()
        return _item(row) if row else None

    def n_items(self) -> int:
        """Count the items."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.count()).select_from(item)) or 0

    def items(self) -> Iterator[Item]:
        """Give all items in the order in which they came."""
        return map(_item, self._stream(select(item).order_by(item.c.position)))

    # ---- questions and answers --------------------------------------------------------------------------------------

    def submit(self, request: Ask | Answer | Undo) -> Future[Any]:
        """Hand in a request without waiting: ``await asyncio.wrap_future(store.submit(Answer(...)))``.

        The future's result, or exception, is that of `ask`, `answer` or `undo`.
        """
        _check(request)
        return self._writer.submit(request)

    def ask(self, annotator: str, n: int = 1, holding: Collection[str] = ()) -> list[Question]:
        """Give an annotator the next `n` questions, fewer where there are none.

        First come those that they were handed within the last ten minutes and have not answered, but for the ones whose
        ids are in `holding`: so a page that is reloaded gets its questions back. Then new ones are drawn: the item
        with the fewest answers, one that nobody is busy with where there is one, and a class that it can still be. No
        new question is about an item that the annotator holds a question about: a page that gets an empty list asks
        again once it has sent its answers. An unknown annotator is a KeyError.
        """
        return self.submit(Ask(annotator, n, tuple(holding))).result()

    def answer(self, given: Answer) -> bool:
        """Store an answer; True: it was stored now and is durable; False: it was stored before.

        A question that was never handed to this annotator is a KeyError. An id that another answer has, and a
        second answer to a question whose first one stands, is a Conflict.
        """
        return self.submit(given).result()

    def undo(self, annotator: str, id: str) -> Question | None:
        """Take back the annotator's latest standing answer and give its question again; None: there is none to take back.

        This adds a row; the answer stays in the store. Sent twice with the same id, it takes back one answer.
        """
        return self.submit(Undo(id, annotator)).result()

    def standing(self, since: int | None = None) -> Iterator[Standing]:
        """Give the answers that were not taken back, in the order in which they came; only those with seq > `since`."""
        columns = [answer.c[name] for name in ("seq", "id", "question_id", "annotator", "value", "took_ms", "answered")]
        columns += [question.c[name] for name in ("item_id", "class_index", "probability", "repeat_of")]
        query = select(*columns).join_from(answer, question, answer.c.question_id == question.c.id)
        query = query.where(stands).order_by(answer.c.seq)
        if since is not None:
            query = query.where(answer.c.seq > since)
        return (Standing(**row) for row in self._stream(query))

    def progress(self, annotator: str | None = None) -> Progress:
        """Count how far the project is, and how many answers one annotator has given."""
        n = tally.c.n_answers + tally.c.n_repeats
        with self._database.reading() as connection:
            items, answered, closed, answers = connection.execute(
                select(
                    func.count(),
                    func.count().filter(n > 0),
                    func.count().filter(~_undecided(self._project.n_classes)),
                    func.coalesce(func.sum(n), 0),
                )
            ).one()
            mine = select(func.count() - 2 * func.count(answer.c.undoes)).where(answer.c.annotator == annotator)
            own = connection.scalar(mine) if annotator is not None else 0
        return Progress(items, answered, closed, int(answers), own or 0)

    # ---- annotators ---------------------------------------------------------------------------------------------------

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

    def add_annotator(self, name: str, role: Role = "annotator") -> tuple[Annotator, str]:
        """Add an annotator and give their token, 128 random bits; only its hash is stored, so it is shown just once."""
        new, token = _new_annotator(name, role), secrets.token_urlsafe(16)
        values = asdict(new) | {"token_hash": hash_token(token)}
        self._change(lambda connection: connection.execute(insert(annotator).values(values)))
        return new, token

    def renew_token(self, annotator_id: str) -> str:
        """Give an annotator a new token; the old one is no longer valid, and one that was revoked is welcome again."""
        token = secrets.token_urlsafe(16)
        self._set_annotator(annotator_id, token_hash=hash_token(token), revoked=None)
        return token

    def revoke(self, annotator_id: str) -> None:
        """Make an annotator's token invalid from now on; their answers stay."""
        self._set_annotator(annotator_id, revoked=time.time())

    def annotator_by_token(self, token: str) -> Annotator | None:
        """Give the annotator whose token this is, unless it was revoked."""
        digest = hash_token(token)
        with self._database.reading() as connection:
            row = connection.execute(select(annotator).where(annotator.c.token_hash == digest)).mappings().first()
        if row is None or row["revoked"] is not None or not hmac.compare_digest(row["token_hash"], digest):
            return None
        return _annotator(row)

    def annotators(self) -> list[Annotator]:
        """Give all annotators in the order in which they were added."""
        with self._database.reading() as connection:
            query = select(annotator).order_by(annotator.c.created, annotator.c.id)
            return [_annotator(row) for row in connection.execute(query).mappings()]

    def _set_annotator(self, annotator_id: str, **values: Any) -> None:
        """Change an annotator who must be there."""

        def change(connection: Connection) -> None:
            if not connection.execute(update(annotator).where(annotator.c.id == annotator_id).values(values)).rowcount:
                raise KeyError(f"the store must have the annotator; it has none with the id {annotator_id!r}")

        self._change(change)

    # ---- trainings ----------------------------------------------------------------------------------------------------

    def add_training(
        self, *, n_answers: int, method: str, estimate: float, low: float, high: float, detail: Mapping[str, Any] = {}
    ) -> None:
        """Add what a training came to."""
        values = {"n_answers": n_answers, "method": method, "estimate": estimate, "low": low, "high": high}
        values |= {"at": time.time(), "detail": json.dumps(detail)}
        self._change(lambda connection: connection.execute(insert(training).values(values)))

    def trainings(self) -> list[Training]:
        """Give all trainings in the order in which they came."""
        with self._database.reading() as connection:
            rows = connection.execute(select(training).order_by(training.c.seq)).mappings()
            return [Training(**row | {"detail": json.loads(row["detail"])}) for row in rows]

    # ---- whole tables, for export and import ----------------------------------------------------------------------------

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Give the rows of one of the tables meta, item, annotator, question, answer, training as they are stored."""
        here = _table(table)
        return map(dict, self._stream(select(here).order_by(*here.primary_key)))

    def load(self, table: str, rows: Iterable[Mapping[str, Any]]) -> int:
        """Add rows as `rows` gives them, but for those that are there already; give the number added.

        Load item and annotator before question, and question before answer. The numbers `position` and `seq` are
        counted anew, in the order of the rows.
        """
        here, rows, added = _table(table), iter(rows), 0
        while chunk := list(islice(rows, _CHUNK)):
            added += self._change(lambda connection, chunk=chunk: _load(connection, here, chunk))
        return added

    # ---- how it is done ---------------------------------------------------------------------------------------------------

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
        results |= zip(answers, _answers(connection, [requests[i] for i in answers]))
        for i, request in enumerate(requests):
            if isinstance(request, Undo):
                results[i] = _undo(connection, request)
            elif callable(request):
                results[i] = _attempt(connection, request)
        results |= zip(asks, self._asks(connection, [requests[i] for i in asks]))
        return [results[i] for i in range(len(requests))]

    def _asks(self, connection: Connection, asks: list[Ask]) -> list[list[Question] | Exception]:
        """Hand out questions."""
        if not asks:
            return []
        now, names = time.time(), {ask.annotator for ask in asks}
        connection.execute(delete(pending).where(pending.c.expires <= now))
        known = set(connection.scalars(select(annotator.c.id).where(annotator.c.id.in_(names))))
        held: dict[str, dict[str, str]] = defaultdict(dict)  # annotator → question → item
        for row in connection.execute(
            select(pending).where(pending.c.annotator.in_(names)).order_by(pending.c.expires)
        ):
            held[row.annotator][row.question_id] = row.item_id
        pages = _pages(connection, self._project, first=sum(ask.n for ask in asks) + 8)
        pool = Pool(pages, self._project.n_classes, self._project.probabilities, self._random)
        new: list[dict[str, Any]] = []
        given: list[list[str] | Exception] = []
        for ask in asks:
            if ask.annotator not in known:
                given.append(KeyError(f"the store must have the annotator; it has none with the id {ask.annotator!r}"))
                continue
            mine = held[ask.annotator]
            ids = [id for id in mine if id not in ask.holding][: ask.n]
            while len(ids) < ask.n and (drawn := self._draw(connection, pool, ask.annotator, mine.values())):
                new.append(drawn | {"annotator": ask.annotator, "asked": now})
                mine[drawn["id"]] = drawn["item_id"]
                ids.append(drawn["id"])
            given.append(ids)
        if new:
            connection.execute(insert(question), new)
            connection.execute(insert(pending), [_pending(row, now) for row in new])
        found = _questions(connection, [id for ids in given if isinstance(ids, list) for id in ids])
        return [ids if isinstance(ids, Exception) else [found[id] for id in ids] for ids in given]

    def _draw(self, connection: Connection, pool: Pool, name: str, held: Collection[str]) -> dict[str, Any] | None:
        """Draw one question; without a new one there are no repetitions either, so that an end is an end."""
        drawn = pool.draw(name, held)
        if drawn is None:
            return None
        values = {"id": secrets.token_hex(16), "repeat_of": None} | asdict(drawn)
        if is_repeat(self._project.repeat_share, self._random):
            values |= _repeat(connection, name, held, self._random) or {}
        return values


# ---- opening ----------------------------------------------------------------------------------------------------------


def _open(database: Database, project: Project | None) -> Project:
    """Bring a store to this version; give what it asks."""
    path = database.path
    if path and path.is_dir():
        raise IsADirectoryError(f"a store must be a file; {path} is a folder")
    if path and project is None and not path.exists():
        raise FileNotFoundError(f"no store at {path}; begin one: naysayer ask ITEMS --classes cat,dog")
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
    if project is not None and project.classes != stored.classes:
        raise ValueError(
            f"{database.name} must be asked for the classes it was begun with, {', '.join(stored.classes)}; "
            f"got {', '.join(project.classes)}; begin a new store for others"
        )
    return stored


def _stored_project(connection: Connection) -> Project | None:
    """Read what a store asks."""
    text = connection.scalar(select(meta.c.value).where(meta.c.key == "project"))
    if text is None:
        return None
    found = json.loads(text)
    for name in ("classes", "probabilities"):
        found[name] = tuple(found[name]) if found[name] is not None else None
    return Project(**found)


def _keep_project(connection: Connection, project: Project) -> None:
    """Write what a store asks."""
    connection.execute(delete(meta).where(meta.c.key == "project"))
    connection.execute(insert(meta).values(key="project", value=json.dumps(asdict(project))))


# ---- rows into things ---------------------------------------------------------------------------------------------------


def _item(row: Mapping[str, Any]) -> Item:
    """Make an item of its row."""
    content = json.loads(row["content"]) if row["content"] is not None else None
    return Item(row["id"], row["kind"], row["name"], row["path"], content)


def _annotator(row: Mapping[str, Any]) -> Annotator:
    """Make an annotator of their row."""
    return Annotator(**{name: row[name] for name in ("id", "name", "role", "created", "revoked")})


def _new_annotator(name: str, role: Role) -> Annotator:
    """Make an annotator who is not stored yet."""
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise ValueError(f"an annotator's name must be 1 to 200 characters that can be printed; got {name[:50]!r}")
    if role not in ("owner", "annotator"):
        raise ValueError(f"an annotator's role must be 'owner' or 'annotator'; got {role!r}")
    return Annotator(secrets.token_hex(16), name, role, time.time())


def hash_token(token: str) -> str:
    """Give the hash under which a token is stored: a token is random, so a plain SHA-256 cannot be guessed back."""
    return hashlib.sha256(token.encode("utf8", "surrogatepass")).hexdigest()


def _table(name: str) -> Table:
    """Give one of the tables that are exported."""
    tables = {table.name: table for table in schema.RECORD}
    if name not in tables:
        raise ValueError(f"a table must be one of {', '.join(tables)}; got {name!r}")
    return tables[name]


def _questions(connection: Connection, ids: Collection[str]) -> dict[str, Question]:
    """Read questions with their items."""
    if not ids:
        return {}
    wanted = [question.c[name].label(f"question_{name}") for name in ("id", "annotator")]
    query = select(*wanted, question.c.class_index, question.c.probability, question.c.repeat_of, item)
    query = query.join_from(question, item, question.c.item_id == item.c.id).where(question.c.id.in_(ids))
    return {
        row["question_id"]: Question(
            id=row["question_id"],
            item=_item(row),
            class_index=row["class_index"],
            probability=row["probability"],
            annotator=row["question_annotator"],
            repeat_of=row["repeat_of"],
        )
        for row in connection.execute(query).mappings()
    }


# ---- what the writer does -------------------------------------------------------------------------------------------------


def _check(request: Ask | Answer | Undo) -> None:
    """Check what comes from a page."""
    if isinstance(request, Ask):
        if not 1 <= request.n <= MOST_QUESTIONS:
            raise ValueError(f"a page must ask for 1 to {MOST_QUESTIONS} questions; got {request.n}")
        return
    if not _ID.fullmatch(request.id):
        raise ValueError(f"an id must be 1 to 64 letters, digits, - and _; got {request.id[:70]!r}")
    if isinstance(request, Answer):
        if request.value not in ("yes", "no", "skip"):
            raise ValueError(f"an answer must be yes, no or skip; got {str(request.value)[:50]!r}")
        if request.took_ms is not None and not 0 <= request.took_ms < 2**53:
            raise ValueError(f"the milliseconds of an answer must be 0 or more; got {request.took_ms}")


def _attempt(connection: Connection, change: Callable[[Connection], Any]) -> Any:
    """Make a change whole or not at all; what it refuses concerns only the one who wanted it."""
    try:
        with connection.begin_nested():
            return change(connection)
    except (KeyError, ValueError) as error:
        return error


def _answers(connection: Connection, answers: list[Answer]) -> list[bool | Exception]:
    """Store answers, each once."""
    if not answers:
        return []
    ids, question_ids = {each.id for each in answers}, {each.question_id for each in answers}
    columns = (answer.c.id, answer.c.question_id, answer.c.annotator, answer.c.value)
    stored = {row.id: tuple(row) for row in connection.execute(select(*columns).where(answer.c.id.in_(ids)))}
    asked = {row.id: row for row in connection.execute(select(question).where(question.c.id.in_(question_ids)))}
    answered = set(
        connection.scalars(select(answer.c.question_id).where(answer.c.question_id.in_(question_ids), stands))
    )
    now, results, new = time.time(), list[bool | Exception](), list[dict[str, Any]]()
    for each in answers:
        what = (each.id, each.question_id, each.annotator, each.value)
        if each.id in stored:
            same = stored[each.id] == what
            results.append(False if same else Conflict(f"an answer's id must be its own; {each.id} is another's"))
        elif each.question_id not in asked or asked[each.question_id].annotator != each.annotator:
            results.append(KeyError(f"an answer must be to a question that was asked of its annotator; got {each.id}"))
        elif each.question_id in answered:
            results.append(Conflict("a question must be answered once; an answer to this one stands; undo it first"))
        else:
            stored[each.id] = what
            answered.add(each.question_id)
            new.append(asdict(each) | {"answered": now})
            results.append(True)
    if new:
        done = [row["question_id"] for row in new]
        connection.execute(insert(answer), new)
        connection.execute(delete(pending).where(pending.c.question_id.in_(done)))
        schema.count_items(connection, {asked[id].item_id for id in done})
    return results


def _undo(connection: Connection, request: Undo) -> Question | Exception | None:
    """Take back an annotator's latest answer."""
    before = connection.execute(select(answer).where(answer.c.id == request.id)).first()
    if before is not None:
        if before.value != "undo" or before.annotator != request.annotator:
            return Conflict(f"an undo's id must be its own; {request.id} is another's")
        waits = select(pending.c.question_id).where(pending.c.question_id == before.question_id)
        return _questions(connection, list(connection.scalars(waits))).get(before.question_id)
    mine = select(answer).where(answer.c.annotator == request.annotator, stands)
    last = connection.execute(mine.order_by(answer.c.seq.desc()).limit(1)).first()
    if last is None:
        return None
    now = time.time()
    again = _questions(connection, [last.question_id])[last.question_id]
    values = {"id": request.id, "question_id": again.id, "annotator": request.annotator}
    connection.execute(insert(answer).values(values | {"value": "undo", "undoes": last.id, "answered": now}))
    waiting = {"id": again.id, "item_id": again.item.id, "annotator": request.annotator}
    connection.execute(insert(pending).values(_pending(waiting, now)))
    schema.count_items(connection, {again.item.id})
    return again


def _pending(row: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Make the row that keeps a question's item from others for a while."""
    waiting = {"question_id": row["id"], "item_id": row["item_id"], "annotator": row["annotator"]}
    return waiting | {"expires": now + PENDING_SECONDS}


def _undecided(n_classes: int) -> ColumnElement[bool]:
    """Give the condition that an item's class is not known: nobody said yes, and two classes are left at least."""
    return (tally.c.n_yes == 0) & (tally.c.n_ruled_out < n_classes - 1)


def _pages(connection: Connection, project: Project, first: int) -> Iterator[list[Candidate]]:
    """Read the items that may be asked about, fewest answers first, piece by piece; then those somebody is busy with."""
    query = select(tally.c.item_id, tally.c.n_answers).where(_undecided(project.n_classes))
    if project.answers_per_item is not None:
        query = query.where(tally.c.n_answers < project.answers_per_item)
    busy = select(pending.c.item_id).where(pending.c.item_id == tally.c.item_id).exists()
    place = tuple_(tally.c.n_answers, tally.c.item_id)
    query, size = query.order_by(tally.c.n_answers, tally.c.item_id), first
    free = query.where(~busy)
    while rows := connection.execute(free.limit(size)).all():
        yield _candidates(connection, rows, busy=False)
        if len(rows) < size:
            break
        free = query.where(~busy, place > tuple_(rows[-1].n_answers, rows[-1].item_id))
        size = min(2 * size, _CHUNK)
    yield _candidates(connection, connection.execute(query.where(busy).limit(_CHUNK)).all(), busy=True)


def _candidates(connection: Connection, rows: Collection[Any], busy: bool) -> list[Candidate]:
    """Read what is known of some items."""
    ruled_out: dict[str, set[int]] = defaultdict(set)
    skipped: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    said = select(question.c.item_id, question.c.class_index, answer.c.annotator, answer.c.value)
    said = said.join_from(question, answer, answer.c.question_id == question.c.id).where(stands)
    answered = [row.item_id for row in rows if row.n_answers]
    for id, c, who, value in connection.execute(said.where(question.c.item_id.in_(answered))) if answered else ():
        if value == "no":
            ruled_out[id].add(c)
        elif value == "skip":
            skipped[id][who].add(c)
    return [Candidate(id, n, frozenset(ruled_out[id]), skipped[id], busy) for id, n in rows]


def _repeat(connection: Connection, name: str, held: Collection[str], random: Random) -> dict[str, Any] | None:
    """Draw an earlier question, answered yes or no, that this annotator has not just seen; None: none was found."""
    tries = repeat_tries(connection.scalar(select(func.max(answer.c.seq))) or 0, random)
    again = question.alias()
    seen = select(again.c.id).where(again.c.repeat_of == question.c.id, again.c.annotator == name).exists()
    columns = [question.c[key] for key in ("item_id", "class_index", "probability")]
    query = select(answer.c.seq, answer.c.annotator, question.c.id.label("repeat_of"), *columns)
    query = query.join_from(answer, question, answer.c.question_id == question.c.id)
    query = query.where(answer.c.seq.in_(tries), answer.c.value.in_(["yes", "no"]), stands)
    query = query.where(question.c.repeat_of.is_(None), ~seen)
    found = {row["seq"]: dict(row) for row in connection.execute(query).mappings()}
    own = select(answer.c.seq).where(answer.c.annotator == name).order_by(answer.c.seq.desc())
    recent = connection.scalar(own.offset(REPEAT_AFTER - 1).limit(1)) or 0
    for seq in tries:
        row = found.get(seq)
        if row and row["item_id"] not in held and (row["annotator"] != name or seq < recent):
            return {key: row[key] for key in ("item_id", "class_index", "probability", "repeat_of")}
    return None


def _register(connection: Connection, items: dict[str, Item]) -> int:
    """Add items that are not there yet."""
    here = dict(connection.execute(select(item.c.id, item.c.path).where(item.c.id.in_(items))).tuples().all())
    for id, path in here.items():
        if items[id].path != path and items[id].path is not None:
            connection.execute(update(item).where(item.c.id == id).values(path=items[id].path, name=items[id].name))
    now = time.time()
    new = [asdict(each) | {"added": now} for each in items.values() if each.id not in here]
    for row in new:
        row["content"] = json.dumps(row["content"]) if row["content"] is not None else None
    return _load(connection, item, new)


def _load(connection: Connection, table: Table, rows: list[Any]) -> int:
    """Add rows that are not there yet, and count again what they change."""
    counter = table.autoincrement_column
    key = "id" if "id" in table.c else "key" if "key" in table.c else "at"
    values = [{name: value for name, value in row.items() if counter is None or name != counter.name} for row in rows]
    here = set(connection.scalars(select(table.c[key]).where(table.c[key].in_([row[key] for row in values]))))
    new = list({row[key]: row for row in values if row[key] not in here}.values())
    if not new:
        return 0
    connection.execute(insert(table), new)
    if table is item:
        zero = {"n_answers": 0, "n_repeats": 0, "n_ruled_out": 0, "n_yes": 0}
        connection.execute(insert(tally), [{"item_id": row["id"], **zero} for row in new])
    if table is answer:
        ids = [row["question_id"] for row in new]
        schema.count_items(
            connection, set(connection.scalars(select(question.c.item_id).where(question.c.id.in_(ids))))
        )
    return len(new)
