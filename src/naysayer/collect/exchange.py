"""Stores into files and back: CSV, Parquet, JSONL, Label Studio's JSON; and answers of Prodigy's and Label Studio's.

Our own files are complete: every row of the store is a row of the file, with the name of its table in the column
``table``, and what a table does not have left empty. Rows of answers say in three columns more, for people, what they
are about, and whether they count: "no" where one was taken back, or its annotator was left out. Only tokens stay
behind. Nothing is imported unless all of a file can be.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from naysayer.collect.guiding import read_guidance
from naysayer.collect.records import Project
from naysayer.collect.store import Store
from naysayer.collect.tools import (
    LAST_SECOND,
    Rows,
    kept_in,
    new_choices,
    prodigy_classes,
    read_label_studio,
    read_prodigy,
)
from naysayer.common.cells import MARK, guarded, unguarded
from naysayer.common.files import whole_file, write_text
from naysayer.data.items import IMAGE_ENDINGS, image_item, record_item, text_item

# The columns of each table, in the order in which tables are loaded.
TABLES: dict[str, dict[str, type]] = {
    "project": {"value": str},
    "item": {"position": int, "id": str, "kind": str, "name": str, "path": str, "content": str, "added": float},
    "annotator": {"id": str, "name": str, "role": str, "created": float, "revoked": float},
    "question": {
        "id": str, "item_id": str, "class_index": int, "probability": float, "annotator": str, "repeat_of": str,
        "asked": float, "guidance": str, "n_classes": int,
    },
    "answer": {
        "seq": int, "id": str, "question_id": str, "annotator": str, "value": str, "took_ms": int, "answered": float,
        "undoes": str,
    },
    "training": {
        "seq": int, "at": float, "n_answers": int, "method": str, "estimate": float, "low": float, "high": float,
        "detail": str,
    },
    "ruling": {
        "seq": int, "id": str, "annotator": str, "verdict": str, "reason": str, "ruled_by": str, "at": float,
    },
    "removed": {"item_id": str, "at": float, "n_answers": int},
}  # fmt: skip
_OF_NO_ITEM = ("project", "annotator", "training", "ruling", "removed")
OPTIONAL = {"path", "content", "revoked", "repeat_of", "took_ms", "undoes", "guidance", "n_classes"}
ABOUT = {"item_name": str, "class": str, "counts": str}  # for people, in the rows of answers
COLUMNS = {"table": str} | {name: kind for columns in TABLES.values() for name, kind in columns.items()} | ABOUT
CHOICES = {
    "kind": {"image", "text", "record"}, "role": {"owner", "annotator"}, "value": {"yes", "no", "skip", "undo"},
    "verdict": {"out", "in"},
}  # fmt: skip


class Imported(NamedTuple):
    """How many items, questions, answers, annotators and trainings were new."""

    items: int
    annotators: int
    questions: int
    answers: int
    trainings: int


# ---- out -----------------------------------------------------------------------------------------------------------


def export(store: Store, path: str | os.PathLike[str]) -> int:
    """Write a store into a file and give the number of its answers; the ending of its name tells the format.

    ``.csv``, ``.parquet`` and ``.jsonl`` are tables as described above. A cell of CSV that a spreadsheet would take for
    a formula begins with an apostrophe, which the import takes away. ``.json`` is a list of Label Studio's tasks: each
    item is one, with the answers that count as the choices "is cat" and "not cat", and the rest under ``meta``.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store.open(folder.name + "/answers.db", project=Project(("good", "bad"))) as store:
    ...     _ = store.register([text_item("A fine film.", "reviews.csv row 1")])
    ...     n = export(store, folder.name + "/answers.csv")
    >>> print(Path(folder.name, "answers.csv").read_text().splitlines()[2][:57])
    item,,1,2b9e8b7903e329c1db47fd77ab7ff364,text,reviews.csv
    >>> folder.cleanup()
    """
    path = Path(path)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ValueError(f"an export's name must end in {', '.join(_WRITERS)}; got {path}")
    rows = _rows_of(store)
    write(path, rows, _project(rows["project"][0]["value"]))  # of the same moment: classes may have come meanwhile
    return len(rows["answer"])


def _rows_of(store: Store) -> Rows:
    """Read all of a store but tokens, as it is at one moment."""
    found = store.tables("meta" if table == "project" else table for table in TABLES)
    found["project"] = [row for row in found["meta"] if row["key"] == "project"]
    return {table: [{name: row[name] for name in TABLES[table]} for row in found[table]] for table in TABLES}


def _flat(rows: Rows, project: Project) -> Iterator[dict[str, Any]]:
    """Give the rows of all tables as rows of one."""
    names = {row["id"]: row["name"] for row in rows["item"]}
    about = {q["id"]: (names[q["item_id"]], project.classes[q["class_index"]]) for q in rows["question"]}
    out = _do_not_count(rows)
    for table in TABLES:
        for row in rows[table]:
            more = {}
            if table == "answer":
                more = dict(zip(ABOUT, (*about[row["question_id"]], "no" if row["id"] in out else "yes")))
            yield {"table": table} | row | more


def _do_not_count(rows: Rows) -> set[str]:
    """Give the ids of answers that were taken back, with the undos, and of those by whoever was left out."""
    verdict = {row["annotator"]: row["verdict"] for row in rows["ruling"]}
    undone = {row["undoes"] for row in rows["answer"]}
    return {
        row["id"]
        for row in rows["answer"]
        if row["value"] == "undo" or row["id"] in undone or verdict.get(row["annotator"]) == "out"
    }


def _write_jsonl(path: Path, rows: Rows, project: Project) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _flat(rows, project)), private=True)


def _write_csv(path: Path, rows: Rows, project: Project) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _flat(rows, project):
        writer.writerow([_cell(row.get(name)) for name in COLUMNS])
    write_text(path, buffer.getvalue(), private=True)


def _cell(value: Any) -> str:
    """Write a cell so that no spreadsheet runs it, and an empty text is not mistaken for a missing one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return repr(value)
    return guarded(value) or MARK


def _write_parquet(path: Path, rows: Rows, project: Project) -> None:
    arrow = _pyarrow(path)
    kinds = {str: arrow.large_string(), int: arrow.int64(), float: arrow.float64()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    table = arrow.Table.from_pylist(list(_flat(rows, project)), schema=schema)
    with whole_file(path, private=True) as temporary:
        arrow.parquet.write_table(table, temporary)


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(f"Parquet needs pandas and pyarrow: pip install 'naysayer[tables]'; got {path}") from None
    return pyarrow


def _write_label_studio(path: Path, rows: Rows, project: Project) -> None:
    """Write tasks; what Label Studio has no place for is in `meta`, which it keeps."""
    questions, answers = defaultdict(list), defaultdict(list)
    for question in rows["question"]:
        questions[question["item_id"]].append(question)
    asked = {question["id"]: question for question in rows["question"]}
    for answer in rows["answer"]:
        answers[asked[answer["question_id"]]["item_id"]].append(answer)
    people, out = {row["id"]: number for number, row in enumerate(rows["annotator"], start=1)}, _do_not_count(rows)
    tasks = []
    for number, item in enumerate(rows["item"], start=1):
        content = json.loads(item["content"]) if item["content"] is not None else None
        data = (
            {"image": item["path"]}
            if item["kind"] == "image"
            else {"text": content}
            if item["kind"] == "text"
            else content
        )
        mine = answers[item["id"]]
        meta = {"item": item, "questions": questions[item["id"]], "answers": mine}
        if number == 1:
            meta |= {table: rows[table] for table in _OF_NO_ITEM}
        standing = [a for a in mine if a["value"] in ("yes", "no") and a["id"] not in out]
        tasks.append(
            {
                "id": number,
                "data": data,
                "meta": {"naysayer": meta},
                "annotations": [
                    {
                        "id": answer["seq"],
                        "completed_by": people[answer["annotator"]],
                        "created_at": datetime.fromtimestamp(answer["answered"], timezone.utc).isoformat(),
                        "lead_time": None if answer["took_ms"] is None else answer["took_ms"] / 1000,
                        "result": [_choice(answer, asked[answer["question_id"]], project)],
                    }
                    for answer in standing
                ],
            }
        )
    write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n", private=True)


def _choice(answer: dict[str, Any], question: dict[str, Any], project: Project) -> dict[str, Any]:
    """Write an answer as a choice."""
    said = f"{'is' if answer['value'] == 'yes' else 'not'} {project.classes[question['class_index']]}"
    return {
        "id": answer["id"],
        "from_name": "class",
        "to_name": "item",
        "type": "choices",
        "value": {"choices": [said]},
        "meta": {"probability": question["probability"]},
    }


_WRITERS = {".csv": _write_csv, ".parquet": _write_parquet, ".jsonl": _write_jsonl, ".json": _write_label_studio}


# ---- in ------------------------------------------------------------------------------------------------------------


class Foreign(NamedTuple):
    """Somebody else's file: the classes that it names, if it does, and how its rows are read for a store.

    `project` is what our own store asked, where the file began as an export of it.
    """

    classes: list[str]
    read: Callable[[Store], Rows]
    project: Project | None = None


def read_project(path: str | os.PathLike[str]) -> Project | None:
    """Read what a store asked from an export of ours, or the classes that another file names; None: it names none."""
    found = _read(Path(path))
    return Project(tuple(found.classes)) if isinstance(found, Foreign) and found.classes else _kept_project(found)


def _kept_project(found: Read) -> Project | None:
    """Give what a store asked of which a file is, or began as, an export; None: it is of none."""
    if isinstance(found, Foreign):
        return found.project
    return _project(found["project"][0]["value"]) if found["project"] else None


def import_answers(store: Store, path: str | os.PathLike[str]) -> Imported:
    """Import what `export` wrote, or answers of Prodigy's or Label Studio's: all of it or, if any is wrong, nothing.

    What the store has already is left alone, so that a file may be imported again. Of other tools:

    - Prodigy, ``.jsonl``: "accept" is yes, "reject" is no, "ignore" is dropped. The question is taken to be one about
      a class drawn with the project's probabilities among those not ruled out yet; a second answer about the same
      class is a repetition. `naysayer.measure.answer_report.examine` tells where that cannot be. Where there are
      options to choose from, the one accepted is yes, as in Label Studio; a choice that was rejected is dropped.
    - Label Studio, ``.json``: a choice "cat" or "is cat" is yes, "not cat" or "!cat" is no. Nobody drew a class to be
      asked about, so these answers serve for training and not for estimates, unless they came from `export`.

    An image must be registered already, under the same path or name or the only one whose path ends alike, or be a
    file here.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "prodigy.jsonl")
    >>> _ = path.write_text('{"text": "A fine film.", "label": "good", "answer": "accept"}')
    >>> with Store.open(folder.name + "/answers.db", project=Project(("good", "bad"))) as store:
    ...     import_answers(store, path)
    ...     [(standing.value, standing.probability) for standing in store.standing()]
    Imported(items=1, annotators=1, questions=1, answers=1, trainings=0)
    [('yes', 0.5)]
    >>> folder.cleanup()
    """
    path = Path(path)
    found = _read(path)
    kept = _kept_project(found)
    if kept is not None and kept.classes != store.project.classes[: kept.n_classes]:  # others may have been added since
        raise ValueError(
            f"{path} must be of the store's classes, {', '.join(store.project.classes)}; "
            f"it is of {', '.join(kept.classes)}; import it into a new store, without --classes"
        )
    rows = found.read(store) if isinstance(found, Foreign) else found
    if kept is not None:
        for row in rows["question"]:
            row["n_classes"] = row["n_classes"] or kept.n_classes
    _check_references(path, rows, store)
    repeats = [row for row in rows["question"] if row["repeat_of"] is not None]
    rows["question"] = [row for row in rows["question"] if row["repeat_of"] is None] + repeats
    rows["annotator"] = [row | {"token_hash": None} for row in rows["annotator"]]
    added = {table: store.load(table, rows[table]) for table in TABLES if table != "project"}
    return Imported(added["item"], added["annotator"], added["question"], added["answer"], added["training"])


Read = Rows | Foreign  # what needs the store to be understood, as other tools' files do, comes later


def _read(path: Path) -> Read:
    """Read a file whole."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise ValueError(f"an import's name must end in {', '.join(_READERS)}; got {path}")
    return read(path)


def _read_lines(path: Path) -> list[tuple[int, Any]]:
    """Read lines of JSON with their numbers."""
    rows = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            try:
                rows.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path} must have one JSON object on each line; line {number}: {error}") from None
            if not isinstance(rows[-1][1], dict):
                kind = type(rows[-1][1]).__name__
                raise ValueError(f"{path} must have one JSON object on each line; line {number} has a {kind}")
    if not rows:
        raise ValueError(f"{path} must hold answers; it is empty")
    return rows


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path} must be text in UTF-8; line {line} is not; save it as UTF-8") from None


def _read_jsonl(path: Path) -> Read:
    lines = _read_lines(path)
    if "table" in lines[0][1]:
        return _tables(path, ((f"line {number}", row) for number, row in lines))
    return Foreign(prodigy_classes(path, lines), lambda store: read_prodigy(path, lines, store))


def _read_csv(path: Path) -> Read:
    text = _text(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a text may be longer than the 128 KiB it allows
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[str, dict[str, Any]]] = []
    names: list[str] = []
    try:
        for cells in reader:
            where = f"line {reader.line_num}"
            if not names:
                names = cells
                if "table" not in names:
                    raise ValueError(f"{path} must be an export of naysayer's; its first line has no column 'table'")
            elif len(cells) != len(names):
                raise ValueError(f"{path} must have {len(names)} cells on each line; {where} has {len(cells)}")
            else:
                rows.append((where, {name: _uncell(path, where, name, cell) for name, cell in zip(names, cells)}))
    except csv.Error as error:
        raise ValueError(f"{path} must be a whole CSV file; line {reader.line_num}: {error}") from None
    return _tables(path, rows)


def _uncell(path: Path, where: str, name: str, cell: str) -> Any:
    """Undo `_cell`."""
    if cell == "":
        return None
    kind = COLUMNS.get(name, str)
    if kind is str:
        return unguarded(cell)
    try:
        return kind(cell)
    except ValueError:
        raise ValueError(f"{path} must hold numbers in the column {name!r}; {where} has {cell[:50]!r}") from None


def _read_parquet(path: Path) -> Read:
    arrow = _pyarrow(path)
    try:
        rows = arrow.parquet.read_table(path).to_pylist()
    except Exception as error:  # pyarrow raises many kinds on damaged files
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} must be a whole Parquet file; reading it failed: {reason}") from None
    return _tables(path, ((f"row {number}", row) for number, row in enumerate(rows, start=1)))


def _read_json(path: Path) -> Read:
    try:
        tasks = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a JSON export of Label Studio's: {error}") from None
    if not isinstance(tasks, list) or not all(isinstance(t, dict) and isinstance(t.get("data"), dict) for t in tasks):
        raise ValueError(f"{path} must be a list of Label Studio's tasks, each with `data`; it is something else")
    for number, task in enumerate(tasks, start=1):
        if not isinstance(task.get("annotations") or [], list):
            raise ValueError(f"{path} must have lists of annotations; that of task {number} is none")
    kept = [kept_in(task) for task in tasks]
    flat = []
    for number, meta in enumerate(kept, start=1):
        if meta is not None:
            parts = {"item": [meta.get("item")], "question": meta.get("questions"), "answer": meta.get("answers")}
            parts |= {table: meta.get(table, []) for table in _OF_NO_ITEM}
            where = f"task {number}"
            if odd := [table for table, found in parts.items() if not isinstance(found or [], list)]:
                raise ValueError(f"{path} must have a list of each {odd[0]} that it keeps; {where} has something else")
            flat += [(where, {"table": t} | row) for t in TABLES for row in parts[t] or [] if isinstance(row, dict)]
    rows = _tables(path, flat)
    rows["answer"].sort(key=lambda row: row["seq"])
    known = {row["id"] for row in rows["answer"]}
    new = [
        (number, task)
        for number, task in enumerate(tasks, start=1)
        if any(new_choices(a, known) for a in task.get("annotations") or [])
    ]
    if not new:
        return rows
    return Foreign([], lambda store: read_label_studio(path, new, known, rows, store), _kept_project(rows))


_READERS = {".csv": _read_csv, ".parquet": _read_parquet, ".jsonl": _read_jsonl, ".json": _read_json}


def _tables(path: Path, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Rows:
    """Sort rows into tables and check each value; the first that will not do is named with its place."""
    tables: Rows = {table: [] for table in TABLES}
    for where, row in rows:
        table = row.get("table")
        if table not in TABLES:
            raise ValueError(f"{path} must name a table in each row, {', '.join(TABLES)}; {where} has {table!r}")
        values = {}
        for name, kind in TABLES[table].items():
            value = row.get(name)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            fits = (isinstance(value, kind) and not isinstance(value, bool)) or (value is None and name in OPTIONAL)
            if fits and kind is not str and value is not None:  # no NaN, no time after the last, none that is cut off
                fits = abs(value) < (LAST_SECOND if kind is float else 2**63)
            if not fits:
                what = {str: "text", int: "a whole number", float: "a number"}[kind]
                raise ValueError(
                    f"{path} must hold {what} as {name!r} in rows of {table}; {where} has {str(value)[:50]!r}"
                )
            if name in CHOICES and table != "project" and value not in CHOICES[name]:
                raise ValueError(
                    f"{path}: {name!r} must be {' or '.join(sorted(CHOICES[name]))}; {where} has {value!r}"
                )
            values[name] = value
        if table == "item":
            _check_item(path, where, values)
        if table == "question" and values["guidance"] is not None:
            try:
                read_guidance(values["guidance"])
            except ValueError as error:
                raise ValueError(f"{path}: {error}; see {where}") from None
        if table == "answer" and (values["value"] == "undo") != (values["undoes"] is not None):
            raise ValueError(f"{path} must name the answer that an undo takes back, and no other's; {where} does not")
        tables[table].append(values)
    return tables


def _check_item(path: Path, where: str, row: dict[str, Any]) -> None:
    """Check that an item is what its id says, so that no file but an image of ours is ever shown to anybody."""
    try:
        content = json.loads(row["content"]) if row["content"] is not None else None
        if row["kind"] == "text":
            same = isinstance(content, str) and text_item(content, "").id == row["id"]
        elif row["kind"] == "record":
            same = isinstance(content, dict) and record_item(content, "").id == row["id"]
        else:
            file = Path(row["path"] or "")
            same = file.suffix.lower() in IMAGE_ENDINGS and (not file.exists() or image_item(file, "").id == row["id"])
    except (ValueError, RecursionError):
        same = False
    if not same:
        raise ValueError(f"{path} must hold items whose ids are those of their content; {where} has another content")


def _project(text: str) -> Project:
    """Read the settings of a store."""
    try:
        found: dict[str, Any] = json.loads(text)
        found = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
        return Project(**found)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the project of an export must be what naysayer wrote; it is not: {error}") from None


def _is_storable(text: str) -> bool:
    """Whether every database can hold a text."""
    return "\0" not in text and text.encode("utf8", "ignore").decode() == text


def _check_references(path: Path, rows: Rows, store: Store) -> None:
    """Check that all rows can be stored, and that what they refer to is in the file or in the store."""
    for table in TABLES:
        for row in rows[table]:
            for name, value in row.items():
                if isinstance(value, str) and not _is_storable(value):
                    raise ValueError(
                        f"{path} must hold text without NUL and surrogates; its {table} has {value[:50]!r} as {name!r}"
                    )
    ids = {t: {row["id"] for row in rows[t]} for t in ("item", "annotator", "question", "answer")}
    for table in ids:
        ids[table] |= {row["id"] for row in store.rows(table)}
    links = {
        "question": {"item_id": "item", "annotator": "annotator", "repeat_of": "question"},
        "answer": {"question_id": "question", "annotator": "annotator", "undoes": "answer"},
        "ruling": {"annotator": "annotator", "ruled_by": "annotator"},
    }
    for table, columns in links.items():
        for row in rows[table]:
            for name, other in columns.items():
                if row[name] is not None and row[name] not in ids[other]:
                    raise ValueError(
                        f"{path} must be whole; its {table} {row['id']} refers to {other} {row[name]}, which is missing"
                    )
    here = {row["id"]: row for row in store.rows("answer")}  # which stay as they are
    new = [row for row in rows["answer"] if row["id"] not in here]
    undone = Counter(row["undoes"] for row in (*new, *here.values()) if row["undoes"] is not None)
    if undone and max(undone.values()) > 1:
        raise ValueError(f"{path} must take back an answer once; {undone.most_common(1)[0][0]} is taken back twice")

    def answered(some: Iterable[Mapping[str, Any]]) -> set[str]:
        return {row["question_id"] for row in some if row["value"] != "undo" and row["id"] not in undone}

    if twice := answered(new) & answered(here.values()):
        raise ValueError(
            f"{path} must not answer questions that were answered in the store since; {min(twice)} has another answer "
            f"there; import it into a new store"
        )
    for row in rows["question"]:
        if not 0 <= row["class_index"] < store.project.n_classes or not 0 <= row["probability"] <= 1:
            raise ValueError(
                f"{path} must ask about the classes 0 to {store.project.n_classes - 1} with probabilities; "
                f"its question {row['id']} has {row['class_index']} and {row['probability']:g}"
            )
