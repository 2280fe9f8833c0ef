"""The tables of a store, and how a store of an older version becomes one of this version.

What people said is in ``item``, ``annotator``, ``question``, ``answer`` and ``training``: rows are added, never
changed, but for an image's path and whether an annotator may go on, and never deleted, but for those of an item that
``removed`` names; what trainings say of such an item goes, too. ``ruling`` says whose answers do not count, and is only
ever added to, too. ``tally`` and ``pending`` only make choosing the next question quick; they follow from the others
and can be counted again at any time. An item whose picture is gone has no row in ``tally``. ``belief`` is what guided
questions are drawn from, and is replaced by each training. ``token`` has the links and secrets that let people in.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    insert,
    inspect,
    select,
    update,
)

from naysayer.collect.tokens import token_table

metadata = MetaData()
# SQLite counts on by itself only in a column of exactly this type.
_counter = BigInteger().with_variant(Integer, "sqlite")

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
item = Table(
    "item",
    metadata,
    Column("position", _counter, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("kind", Text, CheckConstraint("kind IN ('image', 'text', 'record')"), nullable=False),
    Column("name", Text, nullable=False),
    Column("path", Text),
    Column("content", Text),  # JSON
    Column("added", Double, nullable=False),
    sqlite_autoincrement=True,
)
annotator = Table(
    "annotator",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column(
        "token_hash", Text, unique=True
    ),  # of the first link; NULL for who came without; `token` has those that work
    Column("role", Text, CheckConstraint("role IN ('owner', 'annotator')"), nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
)
question = Table(
    "question",
    metadata,
    Column("id", Text, primary_key=True),
    Column("item_id", Text, ForeignKey("item.id"), nullable=False, index=True),
    Column("class_index", Integer, nullable=False),
    Column("probability", Double, nullable=False),
    Column("annotator", Text, ForeignKey("annotator.id"), nullable=False),
    Column("repeat_of", Text, ForeignKey("question.id"), index=True),
    Column("asked", Double, nullable=False),
    Column("guidance", Text),  # JSON of how a guided question was drawn, see `guiding`; from version 3 on
    Column("n_classes", Integer),  # that there were when it was drawn; from version 5 on
)
answer = Table(
    "answer",
    metadata,
    Column("seq", _counter, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("question_id", Text, ForeignKey("question.id"), nullable=False, index=True),
    Column("annotator", Text, ForeignKey("annotator.id"), nullable=False),
    Column("value", Text, CheckConstraint("value IN ('yes', 'no', 'skip', 'undo')"), nullable=False),
    Column("took_ms", BigInteger),
    Column("answered", Double, nullable=False),
    Column("undoes", Text, ForeignKey("answer.id")),
    CheckConstraint("(value = 'undo') = (undoes IS NOT NULL)"),
    Index("answer_of_annotator", "annotator", "seq"),
    sqlite_autoincrement=True,
)
# An answer is taken back once. Few are: an index without the others is small, and useless for finding those.
_taken_back = answer.c.undoes.is_not(None)
Index("answer_undoes", answer.c.undoes, unique=True, sqlite_where=_taken_back, postgresql_where=_taken_back)
training = Table(
    "training",
    metadata,
    Column("seq", _counter, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("n_answers", Integer, nullable=False),
    Column("method", Text, nullable=False),
    Column("estimate", Double, nullable=False),
    Column("low", Double, nullable=False),
    Column("high", Double, nullable=False),
    Column("detail", Text, nullable=False),  # JSON
    sqlite_autoincrement=True,
)
RECORD = (meta, item, annotator, question, answer, training)
# Whose answers count, by the latest row about them; from version 4 on.
ruling = Table(
    "ruling",
    metadata,
    Column("seq", _counter, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("annotator", Text, ForeignKey("annotator.id"), nullable=False),
    Column("verdict", Text, CheckConstraint("verdict IN ('out', 'in')"), nullable=False),
    Column("reason", Text, nullable=False),
    Column("ruled_by", Text, ForeignKey("annotator.id"), nullable=False),
    Column("at", Double, nullable=False),
    Index("ruling_of_annotator", "annotator", "seq"),
    sqlite_autoincrement=True,
)

tally = Table(
    "tally",
    metadata,
    Column("item_id", Text, ForeignKey("item.id"), primary_key=True),
    Column("n_answers", Integer, nullable=False),  # that stand, repeats left out
    Column("n_repeats", Integer, nullable=False),
    Column("n_ruled_out", Integer, nullable=False),
    Column("n_yes", Integer, nullable=False),
    Index("tally_fewest", "n_yes", "n_answers", "item_id"),
)
pending = Table(
    "pending",
    metadata,
    Column("question_id", Text, ForeignKey("question.id"), primary_key=True),
    Column("item_id", Text, ForeignKey("item.id"), nullable=False, index=True),
    Column("annotator", Text, ForeignKey("annotator.id"), nullable=False, index=True),
    Column("expires", Double, nullable=False, index=True),
)
DERIVED = (tally, pending)
# What the last finished model expects: rows of K numbers. Those of a training are added before it is, and the older
# ones then go; rows whose training was never added are not read.
belief = Table(
    "belief",
    metadata,
    Column("training", Double, primary_key=True),
    Column("item_id", Text, ForeignKey("item.id"), primary_key=True),
    Column("probabilities", LargeBinary, nullable=False),  # float32
    Column("votes", LargeBinary, nullable=False),  # int16, yes less no of each class, that are in them
)
# What is left of an item that was removed on request: that it was, and nothing of what it held. From version 5 on.
removed = Table(
    "removed",
    metadata,
    Column("item_id", Text, primary_key=True),  # the hash of its content, so that it is not added again
    Column("at", Double, nullable=False),
    Column("n_answers", Integer, nullable=False),  # that went with it
)

token = token_table("token", metadata)


# ---- what follows from the record ------------------------------------------------------------------------------

_undo = answer.alias("undo")
stands = (answer.c.value != "undo") & ~select(_undo.c.seq).where(_undo.c.undoes == answer.c.id).exists()
"""The condition under which a row of ``answer`` was not taken back: it is no undoing, and none undid it."""

_later = ruling.alias("later")
left_out = select(ruling.c.annotator).where(
    ruling.c.verdict == "out",
    ~select(_later.c.seq).where(_later.c.annotator == ruling.c.annotator, _later.c.seq > ruling.c.seq).exists(),
)
"""The annotators whose answers do not count."""
counts = stands & answer.c.annotator.not_in(left_out)
"""The condition under which a row of ``answer`` counts: it stands, and its annotator was not left out."""
_owners = select(annotator.c.id).where(annotator.c.role == "owner")
is_final = (question.c.probability == 0) & answer.c.annotator.in_(_owners)
"""The condition under which an answer is the owner's last word about its item: nobody drew the question."""

_AT_ONCE = 900  # questions; with the other parameters fewer than 1,000, which any database takes
_COUNTS = ("n_answers", "n_repeats", "n_ruled_out", "n_yes")
_set_tally = (
    update(tally).where(tally.c.item_id == bindparam("item")).values({name: bindparam(name) for name in _COUNTS})
)


def one_of(name: str) -> BindParameter[Any]:
    """Give a parameter for a list: ``column.in_(one_of("ids"))``.

    Statements that run for each answer are built once, with parameters: SQLAlchemy takes as long to build one as to
    run it.
    """
    return bindparam(name, expanding=True)


# By name: a step from an older version comes here before the column of a later one is there.
_asked_of = select(*(question.c[name] for name in ("id", "item_id", "class_index", "repeat_of", "probability")))
_asked_of = _asked_of.where(question.c.item_id.in_(one_of("ids")))
_said_to = select(answer.c.question_id, answer.c.annotator, answer.c.value, answer.c.annotator.in_(_owners))
_said_to = _said_to.where(answer.c.question_id.in_(one_of("ids")))
_that_count, _that_stand = _said_to.where(counts), _said_to.where(stands)


class Said(NamedTuple):
    """One answer about an item that counts; `is_final`: it is the owner's last word."""

    class_index: int
    is_repeat: bool
    annotator: str
    value: str
    is_final: bool


def said_of(
    connection: Connection, item_ids: Collection[str], among: Select[Any] = _that_count
) -> dict[str, list[Said]]:
    """Read the answers about some items that count; items without any are left out."""
    # Two queries by key and no join, which PostgreSQL begins at the wrong end until it has counted a new table.
    asked = {row.id: row for row in connection.execute(_asked_of, {"ids": list(item_ids)})} if item_ids else {}
    found: dict[str, list[Said]] = defaultdict(list)
    ids = list(asked)
    for start in range(0, len(ids), _AT_ONCE):
        for id, name, value, by_owner in connection.execute(among, {"ids": ids[start : start + _AT_ONCE]}):
            about = asked[id]
            is_final = by_owner and about.probability == 0
            found[about.item_id].append(Said(about.class_index, about.repeat_of is not None, name, value, is_final))
    return found


def count_items(connection: Connection, item_ids: Collection[str]) -> None:
    """Count the answers about some items again, after a change to them."""
    found = said_of(connection, item_ids)
    connection.execute(_set_tally, [{"item": id, **_count(found.get(id, []))} for id in item_ids])


def add_tallies(connection: Connection, item_ids: Collection[str], among: Select[Any] = _that_count) -> None:
    """Count the answers about items that were never counted."""
    found = said_of(connection, item_ids, among)
    connection.execute(insert(tally), [{"item_id": id, **_count(found.get(id, []))} for id in item_ids])


def change_number(connection: Connection) -> int:
    """Give the number of the last change to what is asked: classes added, items removed, pictures gone or back."""
    return int(connection.scalar(_changed) or 0)


def note_change(connection: Connection) -> None:
    """Let every server of a store notice, at its next question, that what is asked has changed."""
    number = change_number(connection) + 1
    connection.execute(meta.delete().where(meta.c.key == "changed"))
    connection.execute(insert(meta).values(key="changed", value=str(number)))


_changed = select(meta.c.value).where(meta.c.key == "changed")


def _count(said: list[Said]) -> dict[str, int]:
    """Count what was said of one item."""
    n_repeats = sum(each.is_repeat for each in said)
    ruled_out = {each.class_index for each in said if each.value == "no"}
    n_yes = sum(each.value == "yes" for each in said)
    return dict(zip(_COUNTS, (len(said) - n_repeats, n_repeats, len(ruled_out), n_yes)))


# ---- versions ----------------------------------------------------------------------------------------------------


def append_only(connection: Connection, table: str, what: str = "answers") -> None:
    """Let the database itself refuse to change or delete what is in a table."""
    said = f"{what} are only ever added"
    if connection.dialect.name == "sqlite":
        for change in ("update", "delete"):
            connection.exec_driver_sql(
                f"""CREATE TRIGGER {table}_no_{change} BEFORE {change} ON {table}
                BEGIN SELECT RAISE(ABORT, '{said}'); END"""
            )
    else:
        connection.exec_driver_sql(
            f"""CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION '{said}'; END $$"""
        )
        connection.exec_driver_sql(
            f"""CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"""
        )


def _create_record(connection: Connection) -> None:
    """Version 1: what people said."""
    metadata.create_all(connection, tables=RECORD)
    append_only(connection, "answer")


def _create_derived(connection: Connection) -> None:
    """Version 2: what makes choosing the next question quick."""
    metadata.create_all(connection, tables=DERIVED)
    ids = list(connection.scalars(select(item.c.id)))
    for start in range(0, len(ids), 500):
        add_tallies(connection, ids[start : start + 500], among=_that_stand)  # there are no rulings yet


def _create_guidance(connection: Connection) -> None:
    """Version 3: how guided questions were drawn, and what the next are drawn from."""
    if "guidance" not in {column["name"] for column in inspect(connection).get_columns("question")}:
        connection.exec_driver_sql("ALTER TABLE question ADD COLUMN guidance TEXT")
    metadata.create_all(connection, tables=[belief])


def _create_rulings(connection: Connection) -> None:
    """Version 4: whose answers count."""
    if "ruling" not in inspect(connection).get_table_names():
        metadata.create_all(connection, tables=[ruling])
        append_only(connection, "ruling", "rulings")


def _allow_removal(connection: Connection) -> None:
    """Version 5: an item may be removed on request, with its answers; questions tell of how many classes they are."""
    if "n_classes" not in {column["name"] for column in inspect(connection).get_columns("question")}:
        connection.exec_driver_sql("ALTER TABLE question ADD COLUMN n_classes INTEGER")
    project = connection.scalar(select(meta.c.value).where(meta.c.key == "project"))
    if project is not None:  # a new store has none yet, and no questions
        connection.execute(update(question).values(n_classes=len(json.loads(project)["classes"])))
    metadata.create_all(connection, tables=[removed])
    append_only(connection, "removed", "removals")
    of_removed = """SELECT 1 FROM question JOIN removed ON removed.item_id = question.item_id
        WHERE question.id = OLD.question_id"""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("DROP TRIGGER IF EXISTS answer_no_delete")
        connection.exec_driver_sql(
            f"""CREATE TRIGGER answer_no_delete BEFORE DELETE ON answer WHEN NOT EXISTS ({of_removed})
            BEGIN SELECT RAISE(ABORT, 'answers are only ever added'); END"""
        )
    else:
        for statement in (
            "DROP TRIGGER answer_append_only ON answer",
            """CREATE TRIGGER answer_append_only BEFORE UPDATE OR TRUNCATE ON answer
            FOR EACH STATEMENT EXECUTE FUNCTION answer_append_only()""",
            f"""CREATE FUNCTION answer_no_delete() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN
              IF EXISTS ({of_removed}) THEN RETURN OLD; END IF;
              RAISE EXCEPTION 'answers are only ever added';
            END $$""",
            """CREATE TRIGGER answer_no_delete BEFORE DELETE ON answer
            FOR EACH ROW EXECUTE FUNCTION answer_no_delete()""",
        ):
            connection.exec_driver_sql(statement)


def _create_tokens(connection: Connection) -> None:
    """Version 6: links and the secrets that they are exchanged for; links of before can be opened once more."""
    metadata.create_all(connection, tables=[token])
    columns = (annotator.c.token_hash, annotator.c.id, annotator.c.created)
    valid = annotator.c.token_hash.is_not(None) & annotator.c.revoked.is_(None)
    for hash, person, created in connection.execute(select(*columns).where(valid)).all():
        values = {"hash": hash, "person": person, "kind": "link", "created": created, "expires": None}
        connection.execute(insert(token).values(values))


# In order, each from the version before it; a new store goes through all of them, so that there is one way to a table.
# A later version that changes a table adds a step here, and the step that made the table keeps the old definition.
MIGRATIONS = (_create_record, _create_derived, _create_guidance, _create_rulings, _allow_removal, _create_tokens)


def version(connection: Connection) -> int:
    """Give the version of a store, 0 where there is none yet.

    A store that a newer naysayer wrote is refused, since its tables may mean something else; so is a database of
    something else.
    """
    name, found = connection.engine.url.database, set(inspect(connection).get_table_names())
    if "meta" in found and {column["name"] for column in inspect(connection).get_columns("meta")} == set(meta.c.keys()):
        text = connection.scalar(select(meta.c.value).where(meta.c.key == "schema_version"))
        if text is not None and text.isdecimal():
            if int(text) > len(MIGRATIONS):
                ours = len(MIGRATIONS)
                raise ValueError(f"{name} must be of version {ours} or older; it is of version {text}; update naysayer")
            return int(text)
    # A file is one store; a server's database may have other tables beside ours.
    others = found if connection.dialect.name == "sqlite" else found & set(metadata.tables)
    if "survey_meta" in others:
        raise ValueError(
            f"{name} must be a store of answers about items; it is a survey's; "
            f"see it with naysayer survey FILE --results or naysayer export"
        )
    if others:
        raise ValueError(
            f"{name} must be a store of naysayer's or empty; it has a table {min(others)!r} of something else; "
            f"choose another place"
        )
    return 0


def migrate(connection: Connection) -> int:
    """Bring a store to this version, inside the caller's transaction; give the version that it had."""
    before = version(connection)
    for step in MIGRATIONS[before:]:
        step(connection)
    if before < len(MIGRATIONS):
        connection.execute(meta.delete().where(meta.c.key == "schema_version"))
        connection.execute(insert(meta).values(key="schema_version", value=str(len(MIGRATIONS))))
    return before
