"""A survey's rows in a file, each in the words of the page that showed it: "not Yes", never "Yes" alone."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from naysayer.collect.exchange import _cell
from naysayer.common.files import write_text
from naysayer.survey.questions import SAYS
from naysayer.survey.store import SurveyStore


def export(store: SurveyStore, path: str | os.PathLike[str]) -> int:
    """Write all rows of a survey's store into a file and give their number; the ending of its name tells the format.

    ``.csv`` has a column for each question, with cells such as "Sales" (stored as answered), "not Yes", "drawn No" and
    "drawn Money | Health"; a cell that a spreadsheet would take for a formula begins with an apostrophe. ``.json`` has
    the questions and the rows, ``.jsonl`` a row per line. Names are those of the options' ids.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.survey.questions import Option, Survey, SurveyQuestion
    >>> options = tuple(Option(name, name) for name in ("Yes", "Perhaps", "No"))
    >>> survey = Survey("Plans", "", (SurveyQuestion("leaving", "Will you leave?", options, "complementary"),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SurveyStore(folder + "/survey.db", survey)
    ...     _ = store.add("00ff", {"leaving": {"not": "Yes"}})
    ...     n = export(store, folder + "/rows.csv")
    ...     print(Path(folder, "rows.csv").read_text().splitlines()[1].split(",")[2])
    ...     store.close()
    not Yes
    """
    path = Path(path)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ValueError(f"an export of a survey must end in {', '.join(_WRITERS)}; got {path}")
    rows = store.rows()
    write(path, rows, store.questions)
    return len(rows)


def in_words(stored: dict[str, Any] | None) -> str | None:
    """Write what was stored as a person reads it.

    Examples
    --------
    >>> in_words({"is": "Sales"}), in_words({"not": "Yes"}), in_words({"drawn": ["Money", "Health"]}), in_words(None)
    ('Sales', 'not Yes', 'drawn Money | Health', None)
    """
    if stored is None:
        return None
    ((says, names),) = stored.items()
    text = names if isinstance(names, str) else " | ".join(names)
    return text if says == "is" else f"{says} {text}"


def _write_csv(path: Path, rows: list[dict[str, Any]], questions: dict[str, Any]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["_id", "_day", *questions])  # no question's id begins so
    for row in rows:
        said = [in_words(row["answers"].get(name)) for name in questions]
        writer.writerow([_cell(value) for value in (row["id"], row["day"], *said)])
    write_text(path, buffer.getvalue(), private=True)


def _write_json(path: Path, rows: list[dict[str, Any]], questions: dict[str, Any]) -> None:
    asked = [question | {"stored_as": SAYS[question["mode"]]} for question in questions.values()]
    write_text(path, json.dumps({"questions": asked, "rows": rows}, ensure_ascii=False, indent=1) + "\n", private=True)


def _write_jsonl(path: Path, rows: list[dict[str, Any]], questions: dict[str, Any]) -> None:
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), private=True)


_WRITERS = {".csv": _write_csv, ".json": _write_json, ".jsonl": _write_jsonl}
