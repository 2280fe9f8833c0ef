"""Files: every round trip loses nothing, other tools' files mean what they meant, broken ones change nothing."""

from __future__ import annotations

import csv
import json
import sys
import time

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import event

from helpers import raises
from naysayer.collect.dashboard import Figures
from naysayer.collect.exchange import Imported, export, import_answers, read_project
from naysayer.collect.people import owner_of
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.items import image_item, read_items, record_item, text_item
from naysayer.measure.answer_report import examine
from naysayer.measure.answers import labels, read_answers

TEXTS = ["A fine film.", "=SUM(A1)", 'Zwölf\nZeilen, “Anführung”, "quotes"', "-1", "it's", "'tis", "@here", "+49"]
ENDINGS = ["csv", "parquet", "jsonl", "json"]


def project(**changes):
    return Project(("cat", "=dog", "not emu"), repeat_share=0.3, **changes)


def filled(path, folder):
    """A store with every kind of item and row: repeats, skips, undone answers, a revoked annotator, a training."""
    store = Store.open(path, project=project(probabilities=(0.5, 0.25, 0.25)), random_state=0)
    for i in range(2):
        Image.fromarray(np.full((4, 4), 60 * i, dtype=np.uint8)).save(folder / f"{i}.png")
    store.register(image_item(folder / f"{i}.png", f"=evil{i}.png") for i in range(2))
    store.register(text_item(text, "" if i == 0 else f"-row {i}") for i, text in enumerate(TEXTS))
    store.register([record_item({"age": 3, "pet": None, "name": "=1+1"}, "row 1")])
    ann, bob = store.named_annotator("=ann").id, store.add_annotator("bob")[0].id
    for i in range(40):
        who = (ann, bob)[i % 2]
        questions = store.ask(who)
        if questions:
            value = ("yes", "no", "skip", "no", "no")[i % 5]
            store.answer(Answer(f"answer-{i}", questions[0].id, who, value, took_ms=None if i % 3 else 900 + i))
        if i % 7 == 3:
            store.undo(who, f"undo-{i}")
    store.ask(bob)  # a question that is not answered
    store.revoke(bob)
    store.add_training(n_answers=30, method="forward", estimate=0.5, low=0.25, high=0.75, detail={"e": 0.1})
    return store


def contents(store):
    """All that must survive; counters only by their order, and tokens not at all."""
    skip = {"position", "seq", "token_hash"}
    tables = {t: [{k: v for k, v in r.items() if k not in skip} for r in store.rows(t)] for t in TABLES}
    tables["question"].sort(key=lambda row: row["id"])
    tables["project"] = store.project
    return tables


TABLES = ("item", "annotator", "question", "answer", "training")


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip_loses_nothing(tmp_path, ending):
    with filled(tmp_path / "one.db", tmp_path) as store:
        before, standing, progress = contents(store), list(store.standing()), store.progress()
        n = export(store, tmp_path / f"out.{ending}")
    assert n == len(before["answer"]) > 30
    assert {row["value"] for row in before["answer"]} == {"yes", "no", "skip", "undo"}
    assert any(row["repeat_of"] for row in before["question"])
    with Store.open(tmp_path / "two.db", project=read_project(tmp_path / f"out.{ending}")) as again:
        imported = import_answers(again, tmp_path / f"out.{ending}")
        assert contents(again) == before
        assert [(s.id, s.value, s.probability) for s in again.standing()] == [
            (s.id, s.value, s.probability) for s in standing
        ]
        assert again.progress() == progress
        assert imported == Imported(*(len(before[t]) for t in TABLES))
        assert import_answers(again, tmp_path / f"out.{ending}") == Imported(0, 0, 0, 0, 0)  # all of it is there
        assert contents(again) == before
        assert all(row["token_hash"] is None for row in again.rows("annotator"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_export_is_of_one_moment(where, tmp_path, ending):
    def meanwhile(connection, cursor, statement, *_):
        if "FROM item" in statement and not done:
            done.append(statement)
            with Store.open(where) as other:
                other.add_classes(["fox"])
                other.register([text_item("Another one.", "row 2")])
                for item in other.items():
                    other.settle(item.id, 3, owner_of(other).id)

    done: list[str] = []
    with Store.open(where, project=project()) as store:
        store.register([text_item("A fine film.", "row 1")])
        event.listen(store._database._engine, "after_cursor_execute", meanwhile)
        assert export(store, tmp_path / f"out.{ending}") == 0
        assert done
    path = tmp_path / f"out.{ending}"
    with Store.open(tmp_path / "two.db", project=read_project(path)) as again:
        assert import_answers(again, path) == Imported(1, 0, 0, 0, 0)
        assert again.project.classes == project().classes


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_token_leaves(tmp_path, ending):
    with Store.open(tmp_path / "one.db", project=project()) as store:
        store.register([text_item("a", "row 1")])
        _, token = store.add_annotator("bob")
        export(store, tmp_path / f"out.{ending}")
        secret = next(row["token_hash"] for row in store.rows("annotator"))
    written = (tmp_path / f"out.{ending}").read_bytes()
    assert secret.encode() not in written
    assert token.encode() not in written


def test_no_cell_is_a_formula(tmp_path):
    with filled(tmp_path / "one.db", tmp_path) as store:
        export(store, tmp_path / "out.csv")
    with open(tmp_path / "out.csv", newline="", encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert {row["class"] for row in rows if row["table"] == "answer"} <= {"cat", "'=dog", "not emu"}
    assert "'=evil0.png" in {row["name"] for row in rows}


def test_a_long_text_comes_back_from_csv(tmp_path):
    (tmp_path / "long.csv").write_text("text\n" + "word " * 40_000 + "\n")
    with Store.open(tmp_path / "long.db", project=project()) as store:
        store.register(read_items(tmp_path / "long.csv"))
        export(store, tmp_path / "out.csv")
        with Store.open(tmp_path / "again.db", project=project()) as again:
            import_answers(again, tmp_path / "out.csv")
            assert contents(again) == contents(store)


@pytest.mark.parametrize(
    ("at", "took", "kept"),
    [("1700000000", "1.5", (1.7e9, 1500)), ("1700000000000", "1e9", (None, 86_400_000)), ("NaN", "NaN", (None, None))]
    + [("1e999", "1e999", (None, 86_400_000)), ("-1e12", "-1", (None, None)), ('"soon"', '"long"', (None, None))],
)
def test_times_that_no_calendar_has_are_left_out(tmp_path, at, took, kept):
    row = f'{{"text": "A fine film.", "label": "cat", "answer": "accept", "_timestamp": {at}}}'
    (tmp_path / "prodigy.jsonl").write_text(row)
    result = '[{"type": "choices", "value": {"choices": ["cat"]}}]'
    task = f'[{{"data": {{"text": "Other."}}, "annotations": [{{"lead_time": {took}, "result": {result}}}]}}]'
    (tmp_path / "studio.json").write_text(task)
    with Store.open(tmp_path / "times.db", project=project()) as store:
        import_answers(store, tmp_path / "prodigy.jsonl")
        import_answers(store, tmp_path / "studio.json")
        first, second = store.rows("answer")
        assert first["answered"] == pytest.approx(time.time() if kept[0] is None else kept[0], abs=60)
        assert second["took_ms"] == kept[1]
        for ending in ENDINGS:
            export(store, tmp_path / f"out.{ending}")
        assert Figures(store)()["over_time"] is not None


def test_an_import_joins_what_is_there(tmp_path):
    with filled(tmp_path / "one.db", tmp_path) as store:
        export(store, tmp_path / "out.jsonl")
        before = contents(store)
    with Store.open(tmp_path / "two.db", project=project()) as other:
        other.register([text_item(TEXTS[0], "mine"), text_item("another", "row 9")])
        imported = import_answers(other, tmp_path / "out.jsonl")
        assert imported.items == len(before["item"]) - 1
        assert imported.answers == len(before["answer"])
        assert other.n_items() == len(before["item"]) + 1


# ---- Label Studio ------------------------------------------------------------------------------------------------


def test_label_studio_sees_choices(tmp_path):
    with filled(tmp_path / "one.db", tmp_path) as store:
        export(store, tmp_path / "out.json")
        standing = [s for s in store.standing() if s.value != "skip"]
        classes = store.project.classes
    tasks = json.loads((tmp_path / "out.json").read_text())
    found = {
        (result["id"], result["value"]["choices"][0], result["meta"]["probability"])
        for task in tasks
        for annotation in task["annotations"]
        for result in annotation["result"]
    }
    said = {"yes": "is", "no": "not"}
    assert found == {(s.id, f"{said[s.value]} {classes[s.class_index]}", s.probability) for s in standing}
    assert {next(iter(task["data"])) for task in tasks} == {"image", "text", "age"}


def task(choices, data=None, **more):
    annotation = {"id": 7, "completed_by": {"id": 3, "email": "eve@example.org"}, "created_at": "2026-01-02T03:04:05Z"}
    result = {"id": "x1", "type": "choices", "value": {"choices": choices}}
    return {
        "id": 1,
        "data": data or {"text": "A fine film."},
        "annotations": [annotation | {"result": [result]} | more],
    }


def test_label_studio_choices_become_answers(tmp_path):
    path = tmp_path / "studio.json"
    more = task(["cat"], {"text": "b"}, lead_time=1.5, completed_by=4), task(["cat"], {"text": "c"}, was_cancelled=True)
    path.write_text(
        json.dumps([task(["not cat", "!=dog"]), task(["is =dog"], {"age": 3}), *more, task(["not emu"], {"text": "d"})])
    )
    with Store.open(tmp_path / "one.db", project=project()) as store:
        imported = import_answers(store, path)
        standing = list(store.standing())
        names = {a.id: a.name for a in store.annotators()}
        contents = [store.item(s.item_id).content for s in standing]
        assert import_answers(store, path).answers == 0
        said = read_answers(store)
    assert imported == Imported(items=4, annotators=2, questions=5, answers=5, trainings=0)
    assert [(s.value, s.class_index) for s in standing] == [("no", 0), ("no", 1), ("yes", 1), ("yes", 0), ("yes", 2)]
    assert contents == ["A fine film."] * 2 + [{"age": 3}, "b", "d"]
    assert {names[s.annotator] for s in standing} == {"Label Studio eve@example.org", "Label Studio 4"}
    assert standing[0].answered == 1767323045.0
    assert standing[3].took_ms == 1500
    # Nobody drew these classes: they are labels, and tell nothing of how common a class is.
    assert labels(said).named.tolist() == [False, True, True, True]
    assert examine(said).n_items == 0


def test_annotations_added_in_label_studio_are_new(tmp_path):
    with filled(tmp_path / "one.db", tmp_path) as store:
        export(store, tmp_path / "out.json")
        before = contents(store)
        tasks = json.loads((tmp_path / "out.json").read_text())
        tasks[3]["annotations"] += task(["not cat"])["annotations"]
        (tmp_path / "more.json").write_text(json.dumps(tasks))
        assert import_answers(store, tmp_path / "more.json") == Imported(0, 1, 1, 1, 0)
        assert list(store.standing())[-1].item_id == before["item"][3]["id"]
        assert import_answers(store, tmp_path / "more.json").answers == 0


def test_annotations_added_elsewhere_do_not_swap_the_classes_of_earlier_answers(tmp_path):
    with filled(tmp_path / "one.db", tmp_path) as store:
        export(store, tmp_path / "out.json")
        before = [(standing.id, standing.class_index, standing.value) for standing in store.standing()]
        asked = store.project
    tasks = json.loads((tmp_path / "out.json").read_text())
    tasks[3]["annotations"] += task(["not cat"])["annotations"]
    (tmp_path / "more.json").write_text(json.dumps(tasks))
    with Store.open(tmp_path / "swapped.db", project=Project(("=dog", "cat", "not emu"))) as store:
        with raises("must be of the store's classes, =dog, cat, not emu; it is of cat, =dog, not emu; import it into"):
            import_answers(store, tmp_path / "more.json")
        assert store.n_items() == 0
    assert read_project(tmp_path / "more.json") == asked
    with Store.open(tmp_path / "new.db", project=asked) as store:
        import_answers(store, tmp_path / "more.json")
        again = [(standing.id, standing.class_index, standing.value) for standing in store.standing()]
    assert again[:-1] == before
    assert again[-1][1:] == (0, "no")


# ---- Prodigy -------------------------------------------------------------------------------------------------------


def prodigy(path, *rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def line(answer="reject", label="cat", text="A fine film.", **more):
    return {"text": text, "label": label, "answer": answer, "_input_hash": 5, "_session_id": "set-eve"} | more


def test_prodigy_answers(tmp_path):
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / "0.png")
    rows = (
        line(),
        line(label="=dog"),
        line(label="not emu", answer="accept", _timestamp=5),
        line(answer="ignore", text="b"),
    )
    rows += (line(label="cat"), {"image": "elsewhere/0.png", "label": "cat", "answer": "accept"})
    path = prodigy(tmp_path / "prodigy.jsonl", *rows)
    with Store.open(tmp_path / "one.db", project=project()) as store:
        store.register([image_item(tmp_path / "0.png", "0.png")])
        assert import_answers(store, path) == Imported(items=1, annotators=2, questions=5, answers=5, trainings=0)
        standing = list(store.standing())
        names = {a.id: a.name for a in store.annotators()}
        assert import_answers(store, path) == Imported(0, 0, 0, 0, 0)
        assert read_project(path) is None
    assert [s.value for s in standing] == ["no", "no", "yes", "no", "yes"]
    assert [round(s.probability, 3) for s in standing] == [0.333, 0.5, 1.0, 0.333, 0.333]
    assert [s.repeat_of is not None for s in standing] == [False, False, False, True, False]
    assert standing[2].answered == 5.0
    assert [names[s.annotator] for s in standing] == ["set-eve"] * 4 + ["Prodigy"]


def pictures(folder, *names):
    """Make pictures that all differ, and give their items by name."""
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), 10 * i, dtype=np.uint8)).save(folder / name)
    return {name: image_item(folder / name, name) for name in names}


def test_pictures_of_one_basename_are_told_apart(tmp_path, monkeypatch):
    items = pictures(tmp_path / "here", "train/1.png", "test/1.png", "old/test/1.png", "test/2.png", "3.png")
    (tmp_path / "there" / "test").mkdir(parents=True)
    (tmp_path / "there" / "test" / "1.png").write_bytes((tmp_path / "here" / "old" / "test" / "1.png").read_bytes())
    monkeypatch.chdir(tmp_path / "there")
    asked = {
        str(tmp_path / "here" / "train" / "1.png"): "train/1.png",  # its path
        "old/test/1.png": "old/test/1.png",  # its name
        "../there/test/1.png": "old/test/1.png",  # a file here, whatever it is called
        "/elsewhere/train/1.png": "train/1.png",  # the end of its path
        "/data/local-files/?d=old/test/1.png": "old/test/1.png",
        "/data/upload/7/2.png": "test/2.png",  # the only one that is called so
        "/elsewhere/3.png": "3.png",
    }
    rows = [{"image": image, "label": "cat", "answer": "accept"} for image in asked]
    with Store.open(tmp_path / "one.db", project=project()) as store:
        store.register(items.values())
        import_answers(store, prodigy(tmp_path / "prodigy.jsonl", *rows))
        names = [store.item(standing.item_id).name for standing in store.standing()]
        tasks = [task(["cat"], {"image": image}, id=i) for i, image in enumerate(asked)]
        (tmp_path / "studio.json").write_text(json.dumps(tasks))
        import_answers(store, tmp_path / "studio.json")
        again = [store.item(standing.item_id).name for standing in store.standing()][len(names) :]
    assert names == again == list(asked.values())


def test_a_picture_that_may_be_either_is_refused(tmp_path):
    items = pictures(tmp_path, "train/1.png", "test/1.png")
    rows = [{"image": image, "label": "cat", "answer": "accept"} for image in ("test/1.png", "elsewhere/1.png")]
    with Store.open(tmp_path / "one.db", project=project()) as store:
        store.register(items.values())
        with raises(
            f"line 2 has 'elsewhere/1.png'; it may be any of {tmp_path}/train/1.png, {tmp_path}/test/1.png; name more"
        ):
            import_answers(store, prodigy(tmp_path / "prodigy.jsonl", *rows))
        assert list(store.standing()) == []


# ---- broken files ----------------------------------------------------------------------------------------------------


def lines_of(folder):
    with filled(folder / "one.db", folder) as store:
        export(store, folder / "out.jsonl")
    return [json.loads(text) for text in (folder / "out.jsonl").read_text().splitlines()]


def change(rows, table, /, **values):
    """Change the last row of a table; gives its line number."""
    number = max(i for i, row in enumerate(rows) if row["table"] == table)
    rows[number] = rows[number] | values
    return number + 1


@pytest.mark.parametrize(
    ("table", "values", "words"),
    [
        ("answer", {"value": "perhaps"}, "'value' must be no or skip or undo or yes; line {} has 'perhaps'"),
        ("answer", {"answered": "late"}, "must hold a number as 'answered' in rows of answer; line {} has 'late'"),
        ("answer", {"answered": float("nan")}, "must hold a number as 'answered' in rows of answer; line {} has 'nan'"),
        ("answer", {"answered": 1e12}, "must hold a number as 'answered' in rows of answer; line {} has '1000000"),
        ("answer", {"took_ms": 10**30}, "must hold a whole number as 'took_ms' in rows of answer; line {} has '1000"),
        ("answer", {"took_ms": True}, "must hold a whole number as 'took_ms' in rows of answer; line {} has 'True'"),
        ("answer", {"id": None}, "must hold text as 'id' in rows of answer; line {} has 'None'"),
        ("answer", {"value": "yes", "undoes": "answer-1"}, "must name the answer that an undo takes back"),
        ("answer", {"question_id": "x"}, "refers to question x, which is missing"),
        ("answer", {"table": "anwser"}, "must name a table in each row, project, item, annotator, question"),
        ("question", {"class_index": 3}, "must ask about the classes 0 to 2 with probabilities; its question"),
        ("question", {"probability": 2}, "must ask about the classes 0 to 2 with probabilities; its question"),
        ("item", {"content": "{"}, "must hold items whose ids are those of their content; line {} has"),
        ("item", {"content": "[" * 100_000}, "must hold items whose ids are those of their content; line {} has"),
        ("item", {"content": '"b"'}, "must hold items whose ids are those of their content; line {} has"),
        ("item", {"name": "a\0b"}, "must hold text without NUL and surrogates; its item has 'a\\x00b' as 'name'"),
        ("annotator", {"name": "\ud800"}, "must hold text without NUL and surrogates; its annotator has '\\ud800'"),
        ("item", {"kind": "image", "path": "/etc/passwd"}, "must hold items whose ids are those of their content"),
        ("project", {"value": '{"classes": ["cat", "dog"]}'}, "must be of the store's classes, cat, =dog, not emu"),
        ("project", {"value": '{"classes": 5}'}, "the project of an export must be what naysayer wrote; it is not"),
    ],
)  # fmt: skip
def test_a_broken_row_imports_nothing(tmp_path, table, values, words):
    rows = lines_of(tmp_path)
    number = change(rows, table, **values)
    (tmp_path / "broken.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Store.open(tmp_path / "two.db", project=project()) as store:
        with raises(words.format(number)):
            import_answers(store, tmp_path / "broken.jsonl")
        assert store.n_items() == len(store.annotators()) == 0


def test_an_image_must_be_the_one_that_was_asked_about(tmp_path):
    rows = lines_of(tmp_path)
    Image.fromarray(np.full((4, 4), 200, dtype=np.uint8)).save(tmp_path / "0.png")  # another picture by now
    with Store.open(tmp_path / "two.db", project=project()) as store:
        with raises("must hold items whose ids are those of their content; line 2 has another content"):
            import_answers(store, tmp_path / "out.jsonl")
        (tmp_path / "0.png").unlink()  # one that is not here harms nobody
        assert import_answers(store, tmp_path / "out.jsonl").items == sum(row["table"] == "item" for row in rows)


def test_an_answer_is_taken_back_once(tmp_path):
    rows = lines_of(tmp_path)
    undo = next(row for row in rows if row.get("undoes"))
    rows.append(undo | {"id": "again"})
    (tmp_path / "broken.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Store.open(tmp_path / "two.db", project=project()) as store, raises("must take back an answer once; answer-"):
        import_answers(store, tmp_path / "broken.jsonl")


@pytest.mark.parametrize("answered", [False, True])
def test_two_copies_of_a_store_that_went_on_apart_are_not_mixed(tmp_path, answered):
    one = Store.open(tmp_path / "one.db", project=project(), random_state=0)
    with one, Store.open(tmp_path / "two.db", project=project()) as two:
        one.register([text_item("A fine film.", "row 1"), text_item("Another.", "row 2")])
        ann = one.named_annotator("ann").id
        (question,) = one.ask(ann)
        if answered:
            one.answer(Answer("first", question.id, ann, "no"))
        export(one, tmp_path / "one.jsonl")
        import_answers(two, tmp_path / "one.jsonl")
        for name, store in (("one", one), ("two", two)):
            if answered:
                store.undo(ann, f"undo-{name}")
            else:
                store.answer(Answer(f"answer-{name}", question.id, ann, "no"))
        one.register([text_item("A third.", "row 3")])
        export(one, tmp_path / "one.jsonl")
        before = contents(two)
        words = (
            "must take back an answer once; first is" if answered else f"since; {question.id} has another answer there"
        )
        with raises(words):
            import_answers(two, tmp_path / "one.jsonl")
        assert contents(two) == before


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", b'{"table": "item"\n', "must have one JSON object on each line; line 1:"),
        ("a.jsonl", b"\n[1]\n", "must have one JSON object on each line; line 2 has a list"),
        ("a.jsonl", b"\n \n", "must hold answers; it is empty"),
        ("a.jsonl", b'{"a": "\xff"}', "must be text in UTF-8; line 1 is not; save it as UTF-8"),
        ("a.csv", b"name,value\n1,2\n", "must be an export of naysayer's; its first line has no column 'table'"),
        ("a.csv", b"table,value\nproject\n", "must have 2 cells on each line; line 2 has 1"),
        ("a.csv", b'table,value\nproject,"x\n', "must be a whole CSV file; line 2: unexpected end of data"),
        ("a.csv", b"table,seq\nanswer,x\n", "must hold numbers in the column 'seq'; line 2 has 'x'"),
        ("a.parquet", b"PAR1", "must be a whole Parquet file; reading it failed:"),
        ("a.json", b"{", "must be a JSON export of Label Studio's:"),
        ("a.json", b"[" * 100_000, "must be a JSON export of Label Studio's:"),
        ("a.jsonl", b'{"a": ' + b"[" * 100_000, "must have one JSON object on each line; line 1:"),
        ("a.json", b'[{"data": 3, "annotations": []}]', "must be a list of Label Studio's tasks, each with `data`"),
        ("a.json", b'[{"data": {}, "annotations": 5}]', "must have lists of annotations; that of task 1 is none"),
        ("a.json", b'[{"data": {}, "meta": {"naysayer": {"item": {}, "questions": 5}}}]', "must have a list of each"),
        ("a.json", b'{"a": 1}', "must be a list of Label Studio's tasks, each with `data`; it is something else"),
        ("a.json", json.dumps([task("cat")]).encode(), "must have a list of choices in each result; task 1 has 'cat'"),
        ("a.json", json.dumps([task(["cow"])]).encode(), "must name the classes cat, =dog, not emu; task 1 has 'cow'"),
        ("a.json", json.dumps([task(["cat"], {"image": "/etc/passwd"})]).encode(), "must name images that are"),
        ("a.json", json.dumps([task(["cat"], {"text": 5})]).encode(), "must have a text, an image or plain fields"),
        ("a.jsonl", b'{"text": "a", "answer": "maybe"}', "must say accept, reject or ignore as 'answer'; line 1"),
        ("a.jsonl", b'{"text": "a", "answer": "accept"}', "must name one class as 'label'; line 1 has None"),
        ("a.jsonl", b'{"label": "cat", "answer": "accept"}', "an image or plain fields to ask about; line 1"),
        ("a.txt", b"", "an import's name must end in .csv, .parquet, .jsonl, .json; got"),
    ],
)  # fmt: skip
def test_a_broken_file_imports_nothing(tmp_path, name, text, words):
    (tmp_path / name).write_bytes(text)
    with Store.open(tmp_path / "one.db", project=project()) as store:
        with raises(words):
            import_answers(store, tmp_path / name)
        assert store.n_items() == len(store.annotators()) == 0


def test_one_broken_line_among_good_ones_is_named(tmp_path):
    rows = [line(text=f"text {i}") for i in range(20)]
    rows[13]["label"] = "cow"
    with Store.open(tmp_path / "one.db", project=project()) as store:
        with raises("line 14 has 'cow'"):
            import_answers(store, prodigy(tmp_path / "p.jsonl", *rows))
        assert store.n_items() == 0


def test_wrong_places(tmp_path, monkeypatch):
    with Store.open(tmp_path / "one.db", project=project()) as store:
        with raises("an export's name must end in .csv, .parquet, .jsonl, .json; got"):
            export(store, tmp_path / "out.xlsx")
        with raises("no file at", FileNotFoundError):
            import_answers(store, tmp_path / "none.csv")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with raises("Parquet needs pandas and pyarrow: pip install 'naysayer[tables]'", ImportError):
            export(store, tmp_path / "out.parquet")


# ---- the command -----------------------------------------------------------------------------------------------------


def test_export_and_import_from_the_command(tmp_path, naysayer):
    with filled(tmp_path / "one.db", tmp_path) as store:
        before, stand = contents(store), len(list(store.standing()))
    n = len(before["answer"])
    said = f"{n} answers and undos are in {tmp_path / 'out.csv'}; {stand} answers stand\n"
    assert naysayer("export", tmp_path / "one.db", "--out", tmp_path / "out.csv") == (0, said, "")
    code, out, _ = naysayer("import", tmp_path / "two.db", tmp_path / "out.csv", "--json")
    assert (code, json.loads(out)["answers"]) == (0, n)
    with Store.open(tmp_path / "two.db") as store:
        assert contents(store) == before
    code, out, _ = naysayer("import", tmp_path / "two.db", tmp_path / "out.csv")
    assert out == "new in the store: 0 items, 0 annotators, 0 questions, 0 answers, 0 trainings\n"
    path = prodigy(tmp_path / "p.jsonl", line(), line(label="cow"))
    code, out, err = naysayer("import", tmp_path / "three.db", path, "--classes", "cat,dog")
    assert (code, out) == (2, "")
    assert "line 2 has 'cow'" in err
    assert not list(tmp_path.glob("three.db*"))
    code, _, err = naysayer("import", tmp_path / "three.db", path)
    assert "add --classes cat,dog" in err
