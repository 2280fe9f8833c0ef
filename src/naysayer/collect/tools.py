"""Answers given in other tools, Prodigy's annotations and Label Studio's choices, as rows of a store."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from naysayer.collect.questions import class_probabilities
from naysayer.collect.store import Store
from naysayer.data.items import IMAGE_ENDINGS, Item, image_item, record_item, text_item

Rows = dict[str, list[dict[str, Any]]]
LAST_SECOND = 253402300800.0  # the end of the year 9999, after which there are no dates


class Builder:
    """Makes rows of answers that were given elsewhere; their ids follow from their content."""

    def __init__(self, path: Path, store: Store, rows: Rows | None = None) -> None:
        self.path, self.store = path, store
        tables = ("project", "item", "annotator", "question", "answer", "training", "ruling", "removed")
        self.rows = rows or {table: [] for table in tables}
        self.images: dict[str, Item] = {}  # by path, and as they were found
        self.named: defaultdict[str, list[Item]] = defaultdict(list)
        self.alike: defaultdict[str, list[Item]] = defaultdict(list)  # by the last part of the path or name
        for item in store.items():
            if item.path is not None:
                self.images[item.path] = item
                self.named[item.name].append(item)
                for name in {Path(item.path).name, Path(item.name).name}:
                    self.alike[name].append(item)
        self.items = {row["id"] for row in self.rows["item"]}
        self.people: dict[str, str] = {}
        self.first: dict[tuple[str, int], tuple[str, float]] = {}  # the first question about an item and a class
        self.ruled_out: defaultdict[str, set[int]] = defaultdict(set)
        self.seen: Counter[str] = Counter()
        self.added = datetime.now(timezone.utc).timestamp()

    def item(self, data: Mapping[str, Any], where: str) -> str:
        """Give the id of what an answer is about, adding it if need be."""
        image, text = data.get("image"), data.get("text")
        if isinstance(image, str):
            item = self._image(image, where)
        elif isinstance(text, str) and text.strip():
            item = text_item(text, f"{self.path.name} {where}")
        elif image is None and text is None and data and all(not isinstance(v, (dict, list)) for v in data.values()):
            item = record_item(dict(data), f"{self.path.name} {where}")
        else:
            raise ValueError(f"{self.path} must have a text, an image or plain fields to ask about; {where} has none")
        if item.id not in self.items:
            self.items.add(item.id)
            content = None if item.content is None else json.dumps(item.content)
            row = {"position": 0, "id": item.id, "kind": item.kind, "name": item.name, "path": item.path}
            self.rows["item"].append(row | {"content": content, "added": self.added})
        return item.id

    def _image(self, image: str, where: str) -> Item:
        """Find an image: by its path, its name, its content where it is a file here, or else the end of its path."""
        if image not in self.images:
            self.images[image] = self._found(image, where)
        return self.images[image]

    def _found(self, image: str, where: str) -> Item:
        if len(named := self.named.get(image, [])) == 1:
            return named[0]
        file = Path(image)
        if file.suffix.lower() in IMAGE_ENDINGS and file.is_file():
            return image_item(file, file.name)
        parts = Path(image.partition("?d=")[2] or image).parts  # what follows is a path in Label Studio's own addresses
        alike = self.alike.get(parts[-1], []) if parts else []
        ends = [max(_shared(parts, Path(str(each)).parts) for each in (item.path, item.name)) for item in alike]
        likeliest = [item for item, end in zip(alike, ends) if end == max(ends)]
        if len(likeliest) == 1:
            return likeliest[0]
        raise ValueError(
            f"{self.path} must name images that are registered or files here; {where} has {image[:80]!r}; "
            + (
                f"it may be any of {', '.join(str(item.path) for item in likeliest)[:300]}; name more of its path"
                if likeliest
                else "register them first: naysayer ask FOLDER"
            )
        )

    def person(self, name: str) -> str:
        """Give the id of an annotator."""
        if name not in self.people:
            id = _digest("annotator", name)
            self.people[name] = id
            values = {"id": id, "name": name, "role": "annotator", "created": self.added, "revoked": None}
            self.rows["annotator"].append(values)
        return self.people[name]

    def class_index(self, name: str, where: str) -> int:
        """Find a class."""
        classes = self.store.project.classes
        if name not in classes:
            raise ValueError(f"{self.path} must name the classes {', '.join(classes)}; {where} has {name!r}")
        return classes.index(name)

    def answer(
        self, item: str, c: int, yes: bool, who: str, *, drawn: bool, key: str, at: float | None, took_ms: int | None
    ) -> None:
        """Add an answer and its question; `drawn`: the class was drawn as the project draws them, not volunteered."""
        self.seen[key] += 1
        id = _digest("answer", key, str(self.seen[key]))
        question, open_chance = _digest("question", id), 0.0
        if drawn and (item, c) not in self.first:
            project = self.store.project
            open_chance = class_probabilities(project.n_classes, self.ruled_out[item], project.probabilities)[c]
        if not yes:
            self.ruled_out[item].add(c)
        first, chance = self.first.setdefault((item, c), (question, open_chance))
        when = self.added if at is None else at
        self.rows["question"].append(
            {"id": question, "item_id": item, "class_index": c, "probability": chance, "annotator": who}
            | {"repeat_of": None if first == question else first, "asked": when, "guidance": None}
            | {"n_classes": self.store.project.n_classes}
        )
        self.rows["answer"].append(
            {"seq": 0, "id": id, "question_id": question, "annotator": who, "value": "yes" if yes else "no"}
            | {"took_ms": took_ms, "answered": when, "undoes": None}
        )


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Count the parts at the ends of two paths that are the same."""
    differ = (i for i, (a, b) in enumerate(zip(reversed(one), reversed(other))) if a != b)
    return next(differ, min(len(one), len(other)))


def _digest(*parts: str) -> str:
    """Make an id that is the same for the same content."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def read_prodigy(path: Path, lines: list[tuple[int, dict[str, Any]]], store: Store) -> Rows:
    """Take over Prodigy's annotations: binary ones, and choices among options."""
    builder = Builder(path, store)
    for number, row in lines:
        where = f"line {number}"
        answer, label, chosen = row.get("answer"), row.get("label"), "options" in row
        if answer not in ("accept", "reject", "ignore"):
            raise ValueError(f"{path} must say accept, reject or ignore as 'answer'; {where} has {answer!r}")
        if chosen:
            label = _accepted(path, where, row, store.project.classes)
        if answer == "ignore" or (chosen and (answer == "reject" or label is None)):
            continue  # who rejects a choice, or accepts none, says nothing of any class
        if not isinstance(label, str):
            raise ValueError(f"{path} must name one class as 'label'; {where} has {label!r}")
        item = builder.item({key: value for key, value in row.items() if key in ("image", "text")}, where)
        who = builder.person(str(row.get("_annotator_id") or row.get("_session_id") or "Prodigy"))
        at = row.get("_timestamp")
        builder.answer(
            item,
            builder.class_index(label, where),
            answer == "accept",
            who,
            drawn=not chosen,
            key=json.dumps([item, row.get("_input_hash"), label, answer, who, at], sort_keys=True),
            at=_seconds(at),
            took_ms=None,
        )
    return builder.rows


def prodigy_classes(path: Path, lines: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Give the classes among which choices were made, in the order in which they come; none in binary annotations."""
    options = [_options(path, f"line {number}", row) for number, row in lines if "options" in row]
    return list(dict.fromkeys(names[0] for each in options for names in each.values()))


def _options(path: Path, where: str, row: Mapping[str, Any]) -> dict[Any, list[str]]:
    """Give what the options of a choice may be called: by its id, the name that it is, or else has for people."""
    options = row["options"]
    if not isinstance(options, list) or not all(
        isinstance(each, dict) and isinstance(each.get("id"), (str, int)) for each in options
    ):
        raise ValueError(f"{path} must have a list of options, each with an 'id'; {where} has {str(options)[:50]!r}")
    found = {}
    for each in options:
        names = [name for name in (each["id"], each.get("text")) if isinstance(name, str) and name]
        found[each["id"]] = names or [str(each["id"])]
    return found


def _accepted(path: Path, where: str, row: Mapping[str, Any], classes: tuple[str, ...]) -> str | None:
    """Give the class that was chosen, by the name that the store has for it; None: no option was."""
    options, accepted = _options(path, where, row), row.get("accept", [])
    if not isinstance(accepted, list) or not all(isinstance(id, (str, int)) and id in options for id in accepted):
        known = ", ".join(map(str, options))[:200]
        raise ValueError(f"{path} must have a list of options accepted, of {known}; {where} has {str(accepted)[:50]!r}")
    if len(accepted) > 1:
        raise ValueError(
            f"{path} must accept one option, as an item is of one class; {where} has {len(accepted)}: "
            f"{', '.join(map(str, accepted))[:50]}"
        )
    names = [name for id in accepted for name in options[id]]
    return next((name for name in names if name in classes), names[0] if names else None)


def new_choices(annotation: Any, known: set[str]) -> list[dict[str, Any]]:
    """Give the choices of an annotation that are not answers exported from here."""
    if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
        return []
    results = annotation.get("result")
    found = [result for result in (results if isinstance(results, list) else []) if isinstance(result, dict)]
    return [result for result in found if result.get("type") == "choices" and result.get("id") not in known]


def read_label_studio(
    path: Path, tasks: list[tuple[int, dict[str, Any]]], known: set[str], rows: Rows, store: Store
) -> Rows:
    """Take over choices made in Label Studio."""
    builder = Builder(path, store, rows)
    for number, task in tasks:
        where = f"task {number}"
        ours = kept_in(task)
        item = ours["item"]["id"] if ours else builder.item(task["data"], where)
        for annotation in task["annotations"]:
            by = annotation.get("completed_by") if isinstance(annotation, dict) else None
            by = by.get("email") or by.get("id") if isinstance(by, dict) else by
            for result in new_choices(annotation, known):
                value = result.get("value")
                choices = value.get("choices") if isinstance(value, dict) else None
                if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
                    raise ValueError(f"{path} must have a list of choices in each result; {where} has {choices!r}")
                for choice in choices:
                    yes, name = _read_choice(choice, store.project.classes)
                    builder.answer(
                        item,
                        builder.class_index(name, where),
                        yes,
                        builder.person(f"Label Studio {by}" if by is not None else "Label Studio"),
                        drawn=False,
                        key=json.dumps([item, annotation.get("id"), by, choice, annotation.get("created_at")]),
                        at=_time(annotation.get("created_at")),
                        took_ms=_milliseconds(annotation.get("lead_time")),
                    )
    return builder.rows


def _read_choice(choice: str, classes: tuple[str, ...]) -> tuple[bool, str]:
    """Read "cat" and "is cat" as yes, "not cat" and "!cat" as no; a class that is named so comes first."""
    text = choice.strip()
    if text in classes:
        return True, text
    for mark, yes in (("is ", True), ("not ", False), ("!", False)):
        if text.startswith(mark):
            return yes, text.removeprefix(mark).strip()
    return True, text


def kept_in(task: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give what an export of ours keeps in a task of Label Studio's; None where the task is not from us."""
    meta = task.get("meta")
    kept = meta.get("naysayer") if isinstance(meta, dict) else None
    return kept if isinstance(kept, dict) and isinstance(kept.get("item"), dict) else None


def _time(text: Any) -> float | None:
    """Read a time; one that cannot be read is none."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def _seconds(value: Any) -> float | None:
    """Read the seconds since 1970; what no calendar has, such as milliseconds, is none."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < LAST_SECOND else None


def _milliseconds(seconds: Any) -> int | None:
    """Read how long an answer took; more than a day is a day, and what is no time is none."""
    if not isinstance(seconds, (int, float)) or not seconds >= 0:
        return None
    return round(1000 * min(seconds, 24 * 3600))
