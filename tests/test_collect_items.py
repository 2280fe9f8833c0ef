"""Items and classes change: what earlier answers say stays right, and what is removed is gone."""

from __future__ import annotations

import itertools
import json
import secrets
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from helpers import raises
from naysayer.collect import schema
from naysayer.collect.app import make_app
from naysayer.collect.dashboard import Figures
from naysayer.collect.exchange import export, import_answers
from naysayer.collect.items import STATES
from naysayer.collect.learn import train
from naysayer.collect.people import owner_of
from naysayer.collect.records import Answer, Project
from naysayer.collect.security import Site
from naysayer.collect.store import Store
from naysayer.data.items import image_item, record_item, text_item
from naysayer.features.cache import FeatureCache, features_folder
from naysayer.measure.answer_estimates import accuracy, class_priors
from naysayer.measure.answer_report import examine
from naysayer.measure.answers import Answers, from_standing
from test_collect_app import Client
from test_collect_guiding import answer_all
from test_collect_guiding import begin as begin_guided

PROJECT = Project(("cat", "dog", "owl"), repeat_share=0.0)


@pytest.fixture
def store(where):
    with Store.open(where, project=PROJECT, random_state=0) as opened:
        opened.register(text_item(f"This one is secret{i}.", f"row {i}") for i in range(6))
        yield opened


def say(store, value, n=1, name="Ann"):
    """Answer the next n questions, fewer where there are none; `value` may depend on the question."""
    who = store.named_annotator(name).id
    for _ in range(n):
        question = next(iter(store.ask(who)), None)
        if question is None:
            return
        said = value(question) if callable(value) else value
        store.answer(Answer(secrets.token_hex(8), question.id, who, said, 900))


def count_all(store):
    """How many rows each table has, but those that tell of versions and changes."""
    with store._database.reading() as connection:
        return {
            table.name: connection.scalar(text(f"SELECT count(*) FROM {table.name}"))
            for table in schema.metadata.sorted_tables
            if table is not schema.meta
        }


# ---- classes ----------------------------------------------------------------------------------------------------


def test_a_new_class_opens_what_elimination_had_settled_and_keeps_what_a_yes_had(store):
    say(store, lambda question: "yes" if question.item.name == "row 0" else "no", 11)
    before = {one.item.name: one for one in store.browse()[0]}
    assert before["row 0"].state == "closed"
    settled = {name for name, one in before.items() if one.state == "closed"}
    assert len(settled) > 1
    assert store.add_classes(["fox"]).classes == ("cat", "dog", "owl", "fox")
    after = {one.item.name: one for one in store.browse()[0]}
    assert {name for name, one in after.items() if one.state == "closed"} == {"row 0"}
    assert after["row 0"].label == before["row 0"].label
    for name, one in after.items():  # no answer says anything of a fox
        assert 3 in one.left
        assert set(one.left) - {3} == set(before[name].left)
    asked = []
    say(store, lambda question: asked.append(question.class_index) or "no", 12)
    assert 3 in asked
    assert all(one.n_classes == 3 for one in list(store.standing())[:11])
    assert all(one.n_classes == 4 for one in list(store.standing())[11:])


def test_classes_that_cannot_be_added(store):
    with raises("a class to add must be new; 'dog' is there already; leave it out"):
        store.add_classes(["dog"])
    with raises("a project must name each class once; got 'fox' twice; rename one"):
        store.add_classes(["fox", "fox"])
    assert store.project == PROJECT


def test_uneven_questions_stay_in_proportion(tmp_path):
    project = replace(PROJECT, probabilities=(0.5, 0.25, 0.25))
    with Store.open(tmp_path / "uneven.db", project=project) as store:
        p = store.add_classes(["fox", "hen"]).probabilities
        assert p == pytest.approx([0.3, 0.15, 0.15, 0.2, 0.2])


def test_another_server_asks_about_a_class_that_was_added_elsewhere(store, where):
    with Store.open(where, random_state=1) as other:
        say(other, "no")
        store.add_classes(["fox"])
        say(other, "no", 12)
        assert other.project.n_classes == 4
        assert {one.n_classes for one in other.standing()} == {3, 4}
        assert other.configure(goal="model").classes == store.renew().classes
        assert store.project.goal == "model"


def test_the_command_of_before_goes_on_and_another_order_does_not(store, where):
    store.add_classes(["fox"])
    Store.open(where, project=PROJECT).close()
    with raises("must be asked for the classes it has, cat, dog, owl, fox; got cat, fox; naysayer add adds some"):
        Store.open(where, project=Project(("cat", "fox")))


def ways(y, n_turns, error, asked=()):
    """All that can be said about an item of class y, asked about up to n_turns of three classes: rows, probability."""
    if len(asked) == n_turns or (asked and asked[-1][1]):
        yield asked, 1.0
        return
    left = [k for k in range(3) if k not in {k for k, *_ in asked}]
    for k, slip in itertools.product(left, [False, True] if error else [False]):
        chance = (error if slip else 1 - error) / len(left)
        for rows, rest in ways(y, n_turns, error, (*asked, (k, (k == y) != slip, 1 / len(left)))):
            yield rows, chance * rest


@pytest.mark.parametrize(("error", "n_turns"), [(0.0, 1), (0.1, 1), (0.0, 2)])
def test_an_accuracy_from_before_a_class_was_added_is_unbiased_by_enumeration(error, n_turns):
    """Four items, one of them of the new class: all draws of their questions among three, and all answers to them."""
    truth, predicted = (0, 1, 3, 2), np.array([0, 2, 2, 3])  # a prediction of the new class counts as wrong
    mean = total = 0.0
    for together in itertools.product(*(ways(y, n_turns, error) for y in truth)):
        rows = [(str(i), *row) for i, (said, _) in enumerate(together) for row in said]
        items, asked, yes, chances = zip(*rows)
        answers = Answers.of(
            items,
            asked,
            ["yes" if each else "no" for each in yes],
            ("a", "b", "c", "new"),
            probabilities=chances,
            drawn_from=[3] * len(rows),
        )
        weight = np.prod([chance for _, chance in together])
        found = accuracy(answers, predicted, error_rate=error)
        assert found.high >= 0.25  # as if the one of the new class were right
        total, mean = total + weight, mean + weight * found.estimate
    assert total == pytest.approx(1)
    assert mean == pytest.approx(0.25)


def test_an_accuracy_rests_on_the_larger_part_of_the_items():
    items = [str(i) for i in range(30)]
    of = [2] * 10 + [3] * 20
    said, chances = ["yes"] * 10 + ["no"] * 20, [1 / n for n in of]
    answers = Answers.of(items, [0] * 30, said, ("a", "b", "c"), probabilities=chances, drawn_from=of)
    assert answers.since.tolist() == of
    assert answers.design.told.sum() == 20
    alone = Answers.of(items[10:], [0] * 20, ["no"] * 20, ("a", "b", "c"))
    zero = np.zeros(30, dtype=int)
    assert accuracy(answers, zero, error_rate=0.0) == accuracy(alone, zero[10:], error_rate=0.0)
    assert class_priors(answers, error_rate=0.0).estimate == pytest.approx(class_priors(alone, error_rate=0.0).estimate)
    few = np.where(np.arange(30) < 15, 0, -1)
    old = replace(Answers.of(items[:10], [0] * 10, ["yes"] * 10, ("a", "b")), complete=False)
    assert accuracy(answers, few, error_rate=0.0) == accuracy(old, few[:10], error_rate=0.0)
    assert accuracy(answers, np.where(few < 0, -1, 2), error_rate=0.0) == (0.0, 0.0, 1.0)  # nobody was asked about c


def test_shares_are_held_back_until_items_were_asked_about_with_the_new_class(store):
    say(store, "no", 6)
    assert examine(from_standing(store.standing(), store.project.classes)).priors is not None
    store.add_classes(["fox"])
    answers = from_standing(store.standing(), store.project.classes)
    assert examine(answers).priors is None
    store.register(text_item(f"A new one, {i}.", f"new {i}") for i in range(4))
    say(store, "no", 4)
    answers = from_standing(store.standing(), store.project.classes)
    assert answers.design.told.sum() == 4
    assert len(examine(answers).priors.estimate) == 4
    assert Figures(store)()["since"] == {"classes": 4, "items": 4}


def test_a_model_learns_the_class_that_was_added(tmp_path):
    """Heights below 50, from 50, and from 75 on, for which there was no class at first."""
    with Store.open(tmp_path / "a.db", project=Project(("low", "high"), repeat_share=0.0), random_state=0) as store:
        store.register(record_item({"height": i}, f"row {i}") for i in range(100))

        def truth(question):
            height = question.item.content["height"]
            y = 0 if height < 50 else 1 if height < 75 else 2
            return "yes" if question.class_index == y else "no"

        say(store, truth, 100)
        store.add_classes(["huge"])
        found = train(store, n_seeds=2, max_epochs=5)
        assert found.accuracy.high > 0.75
        say(store, truth, 60)
        trained = train(store, n_seeds=4)
        p = trained.model.predict(trained.encoder.transform(list(store.items())))
        assert list(trained.model.classes_) == ["low", "high", "huge"]
        assert np.mean(p[80:] == "huge") > 0.6
        assert np.mean(p[:45] == "low") > 0.8


def test_a_guide_of_before_does_not_ask_about_a_class_that_it_does_not_know(tmp_path):
    store, truth = begin_guided(tmp_path / "guided.db", n=60, questions="random")
    with store:
        answer_all(store, truth, most=60)
        store.configure(questions="guided")
        assert store.guide() is not None
        store.add_classes(["new"])
        say(store, "no", 3)
        assert [one.guidance for one in list(store.standing())[-3:]] == [None] * 3
        assert store.guide() is None
        figures = Figures(store)()
        assert figures["verdict"]["known"]


# ---- items ------------------------------------------------------------------------------------------------------


def test_items_are_shown_by_state_and_name(store):
    say(store, lambda question: "yes" if question.item.name == "row 3" else "no", 3)
    say(store, "skip", 1)
    found, total = store.browse()
    assert (total, [one.item.name for one in found]) == (6, [f"row {i}" for i in range(6)])
    by_state = {state: {one.item.name for one in store.browse(state)[0]} for state in STATES}
    assert {one.item.name: one.state for one in found} == {
        name: state for state, names in by_state.items() for name in names
    }
    assert len(by_state["unanswered"]) == 2
    assert by_state["closed"] <= {"row 3"}
    assert [one.item.name for one in store.browse(name="ROW 4")[0]] == ["row 4"]
    assert store.browse(name="100%")[1] == store.browse(name="_")[1] == 0  # what a name has in it, as it stands
    assert [one.item.name for one in store.browse(skip=4, most=1)[0]] == ["row 4"]
    (some,) = [one for one in found if one.answers][:1]
    assert some.answers[0].annotator == "Ann"
    assert store.browse(name=some.item.id)[0] == [some]


def test_items_are_found_by_who_answered_and_by_what_counts(store):
    say(store, "no", 6)  # Ann, once about each
    ben = store.named_annotator("Ben").id
    for _ in range(3):
        (question,) = store.ask(ben)
        store.answer(Answer(secrets.token_hex(8), question.id, ben, "yes"))
    about = {one.item.name for one in store.browse(person=ben)[0]}
    assert len(about) == store.browse(person=ben)[1] == 3
    assert store.browse(person=store.named_annotator("Cem").id) == ([], 0)
    assert {one.item.name for one in store.browse("closed")[0]} == about
    boss = owner_of(store).id
    store.leave_out(ben, "", boss)
    assert store.browse("closed")[1] == 0
    for one in store.browse(person=ben)[0]:
        assert (one.state, one.label) == ("open", None)  # as if Ben had said nothing, but it is shown
        assert [(said.annotator, said.counts) for said in one.answers] == [("Ann", True), ("Ben", False)]
    item = store.browse()[0][0].item.id
    store.settle(item, 2, boss)
    (shown,) = store.browse(name=item)[0]
    assert (shown.state, shown.label, shown.answers[-1].is_final) == ("closed", 2, True)
    store.let_in(ben, "", boss)
    store.settle(item, None, boss)  # nobody can tell, whatever was said
    assert store.browse(name=item)[0][0].label is None


def test_what_is_left_to_ask_is_counted(store):
    assert store.left_to_ask() == (6, 12)  # two classes of three, and the third follows
    say(store, "no", 6)
    assert store.left_to_ask() == (6, 6)
    store.configure(answers_per_item=1)
    assert store.left_to_ask() == (0, 0)
    store.configure(answers_per_item=3)
    store.add_classes(["fox", "hen"])
    assert store.left_to_ask() == (6, 12)


def test_a_picture_that_is_gone_leaves_the_queue_and_comes_back(where, tmp_path):
    with Store.open(where, project=PROJECT, random_state=0) as store:
        paths = [tmp_path / f"{i}.png" for i in range(4)]
        for i, path in enumerate(paths):
            Image.new("RGB", (20, 20), (i, 0, 0)).save(path)
            store.register([image_item(path, path.name)])
        web = Client(make_app(store, Site(open=True)))
        for path in paths[:2]:
            path.rename(path.with_suffix(".away"))
        asked = web.get("/api/next?n=8").json()["questions"]
        there = {item.id for item in store.items() if Path(item.path).exists()}
        assert {one["item"]["src"].rpartition("/")[2] for one in asked} == there
        assert store.progress().items == 2
        assert [one.item.name for one in store.browse("gone")[0]] == ["0.png", "1.png"]
        paths[2].unlink()  # while a page holds a question about it
        again = web.get("/api/next?n=8").json()["questions"]
        assert len(again) == 1
        paths[0].with_suffix(".away").rename(paths[0])
        assert [item.name for item in store.find_back()] == ["1.png", "2.png"]
        assert store.progress().items == 2
        moved = paths[1].with_suffix(".away").rename(tmp_path / "moved.png")
        assert store.register([image_item(moved, "moved.png")]) == 0
        assert store.progress().items == 3


# ---- removed ----------------------------------------------------------------------------------------------------


def test_no_statement_grows_with_the_number_of_items(where):
    def note(connection, cursor, statement, parameters, context, executemany):
        sizes.append(0 if executemany else len(parameters))

    sizes: list[int] = []
    items = [text_item(f"text {i}", f"row {i}") for i in range(1200)]
    ids = [item.id for item in items]
    with Store.open(where, project=PROJECT) as store:
        event.listen(store._database._engine, "before_cursor_execute", note)
        assert store.register(items) == 1200
        store.remove(ids[-1])
        assert store.removed(ids) == {ids[-1]}
        for start in range(0, 1200, 400):
            store.leave(ids[start : start + 400])
        assert store.ask(store.named_annotator("Ann").id) == []
        assert store.find_back() == []
        ann = store.named_annotator("Ann").id
        assert len(store.ask(ann)) == 1
        about = {"class_index": 0, "probability": 0.5, "repeat_of": None, "asked": 0.0, "guidance": None}
        asked = [{"id": f"q{i}", "item_id": ids[i % 3], "annotator": ann} | about for i in range(1200)]
        assert store.load("question", asked) == 1200  # many classes, and three items
        said = {"annotator": ann, "value": "no", "took_ms": None, "answered": 0.0, "undoes": None}
        assert store.load("answer", [{"id": f"a{i}", "question_id": f"q{i}"} | said for i in range(3)]) == 3
    assert max(sizes) <= 1000  # SQLite and PostgreSQL take only so many parameters


def test_a_removed_item_takes_all_with_it_but_a_tombstone(store):
    say(store, "no", 6)
    store.configure(repeat_share=0.9)
    say(store, "no", 20, name="Ben")
    ann = store.named_annotator("Ann").id
    store.undo(ann, "undone")
    store.add_belief(1.0, [item.id for item in store.items()], np.full((6, 3), 1 / 3), np.zeros((6, 3), int))
    store.ask(ann, 20)
    before, standing = count_all(store), list(store.standing())
    (gone,) = store.browse(name="row 2")[0]
    removed = store.remove(gone.item.id)
    assert removed.n_answers == len(gone.answers) + (gone.item.id == store_undone(standing, store))
    after = count_all(store)
    assert after["removed"] == 1
    assert after["item"] == before["item"] - 1
    assert after["annotator"] == before["annotator"]
    for table in ("question", "answer", "tally", "belief"):
        assert after[table] < before[table]
    assert list(store.standing()) == [one for one in standing if one.item_id != gone.item.id]
    assert store.item(gone.item.id) is None
    assert store.remove(gone.item.id) is None
    with store._database.reading() as connection:
        row = connection.execute(schema.removed.select()).mappings().one()
    assert set(row) == {"item_id", "at", "n_answers"}
    assert store.register([text_item("This one is secret2.", "again")]) == 0
    assert store.removed([gone.item.id]) == {gone.item.id}
    say(store, "no", 2)  # and it goes on


def store_undone(standing, store):
    """The item whose answer was taken back: it went with the item, if it was that one's."""
    undone = [row for row in store.rows("answer") if row["value"] == "undo"]
    about = {row["id"]: row["item_id"] for row in store.rows("question")}
    return about.get(undone[0]["question_id"]) if undone else None


def test_no_trace_of_a_removed_text_stays_in_the_file(tmp_path):
    path = tmp_path / "answers.db"
    with Store.open(path, project=PROJECT) as store:
        store.register(text_item(f"This one is secret{i}.", f"name-of-{i}") for i in range(6))
        say(store, "no", 6)
        store.remove(store.browse(name="name-of-2")[0][0].item.id)
        written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"secret3" in written
        assert b"name-of-3" in written
        assert b"secret2" not in written
        assert b"name-of-2" not in written


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_what_a_model_thought_of_a_removed_item_goes_and_stays_gone(store, tmp_path, ending):
    def train_on(*ids):
        detail = {"items": 6, "doubts": [(id, 1, 0.97) for id in ids], "notes": []}
        store.add_training(n_answers=6, method="forward", estimate=0.5, low=0.25, high=0.75, detail=detail)

    one, other, third = [item.id for item in store.items()][:3]
    say(store, "no", 6)
    train_on(one, other)
    train_on(third)
    train_on()
    export(store, tmp_path / f"before.{ending}")
    store.remove(one)
    train_on(one, third)  # the model began to learn before
    doubts = [[[other, 1, 0.97]], [[third, 1, 0.97]], [], [[third, 1, 0.97]]]
    assert [training.detail for training in store.trainings()] == [
        {"items": 6, "doubts": each, "notes": []} for each in doubts
    ]
    export(store, tmp_path / f"after.{ending}")
    assert one in (tmp_path / f"before.{ending}").read_text()
    assert (tmp_path / f"after.{ending}").read_text().count(one) == 1  # that it was removed, and no more
    with Store.open(tmp_path / "other.db", project=PROJECT) as again:
        again.register([text_item("This one is secret0.", "row 0")])
        again.remove(one)
        assert import_answers(again, tmp_path / f"before.{ending}").trainings == 3
        assert [training.detail["doubts"] for training in again.trainings()] == doubts[:3]


def test_notes_that_name_a_removed_picture_go(tmp_path):
    with Store.open(tmp_path / "answers.db", project=PROJECT) as store:
        for i, name in enumerate(("änn_1%.png", "ben.png")):
            Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / name)
            store.register([image_item(tmp_path / name, name)])
        notes = [f"left out: {item.name!r} at {item.path} cannot be opened" for item in store.items()]
        detail = {"notes": ["photos are pixels", *notes], "doubts": []}
        store.add_training(n_answers=6, method="forward", estimate=0.5, low=0.25, high=0.75, detail=detail)
        ann, _ = store.items()
        store.remove(ann.id)
        assert store.trainings()[0].detail == {"notes": ["photos are pixels", notes[1]], "doubts": []}


def test_what_is_removed_while_a_model_learns_does_not_spoil_the_training(store):
    ids = [item.id for item in store.items()]
    store.remove(ids[1])
    store.add_belief(1.0, ids, np.full((6, 3), 1 / 3), np.zeros((6, 3), int))
    store.add_belief(2.0, [ids[1]], np.full((1, 3), 1 / 3), np.zeros((1, 3), int))
    with store._database.reading() as connection:
        rows = connection.execute(schema.belief.select()).all()
    assert {row.item_id for row in rows} == set(ids) - {ids[1]}
    assert {row.training for row in rows} == {1.0}


def test_kept_features_of_a_removed_item_go(store):
    (gone, *_), _ = store.browse()
    cache = FeatureCache(features_folder(True), {"name": "of any kind"})
    cache.put({gone.item.id: np.ones(3), "another": np.ones(3)})
    store.remove(gone.item.id)
    assert set(cache.get([gone.item.id, "another"])) == {"another"}


def test_the_database_refuses_to_delete_any_other_answer(store):
    say(store, "no", 6)
    answers = list(store.rows("answer"))
    store.remove(store.browse()[0][0].item.id)
    left = list(store.rows("answer"))
    assert len(left) == len(answers) - 1
    for statement in ("DELETE FROM answer", "UPDATE answer SET value = 'yes'", "DELETE FROM removed"):
        with (
            pytest.raises(DBAPIError, match=r"(answers|removals) are only ever added"),
            store._database.writing() as connection,
        ):
            connection.execute(text(statement))
    assert list(store.rows("answer")) == left


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_a_file_from_before_does_not_bring_a_removed_item_back(store, tmp_path, ending):
    say(store, "no", 6)
    export(store, tmp_path / f"before.{ending}")
    (gone, *_), _ = store.browse()
    store.remove(gone.item.id)
    before = count_all(store)
    assert import_answers(store, tmp_path / f"before.{ending}") == (0, 0, 0, 0, 0)
    assert count_all(store) == before
    export(store, tmp_path / f"after.{ending}")
    with Store.open(tmp_path / "moved.db", project=PROJECT) as moved:
        for _ in range(2):
            import_answers(moved, tmp_path / f"after.{ending}")
        assert count_all(moved)["removed"] == 1
        assert moved.register([gone.item]) == 0
    with Store.open(tmp_path / "other.db", project=PROJECT) as other:
        other.register([gone.item])
        import_answers(other, tmp_path / f"after.{ending}")
        assert other.item(gone.item.id) == gone.item  # what was removed elsewhere stays here
        assert other.removed([gone.item.id]) == set()


def test_an_export_of_fewer_classes_is_read_into_a_store_that_got_more(store, tmp_path):
    say(store, "no", 6)
    export(store, tmp_path / "before.csv")
    with Store.open(tmp_path / "new.db", project=PROJECT) as other:
        other.add_classes(["fox"])
        assert import_answers(other, tmp_path / "before.csv").answers == 6
        assert {one.n_classes for one in other.standing()} == {3}


def test_a_guide_forgets_what_was_removed_elsewhere(tmp_path):
    store, truth = begin_guided(tmp_path / "guided.db", n=40, questions="random")
    with store:
        answer_all(store, truth, most=40)
        store.configure(questions="guided")
        guide = store.guide()
        with Store.open(tmp_path / "guided.db") as other:
            gone = [item.id for item in other.items()][:30]
            for id in gone:
                other.remove(id)
        say(store, "no", 8)
        assert store._guide is not guide
        assert set(store._guide.items) == set(guide.items) - set(gone)
        assert json.loads(list(store.standing())[-1].guidance)["n_items"] == 10


def test_a_training_that_began_before_brings_no_gone_item_back_into_the_queue(tmp_path, monkeypatch):
    store, _ = begin_guided(tmp_path / "guided.db", n=4, repeat_share=0.0)
    with store:
        ann, ids = store.named_annotator("Ann").id, [item.id for item in store.items()]
        store.leave(ids[:1])
        assert set(store.guide().items) == set(ids[1:])
        read = store._stream

        def stream(query):  # one leaves while the guide is read, and a question is asked
            rows = list(read(query))
            store.leave(ids[1:2])
            store.ask(ann)
            return iter(rows)

        monkeypatch.setattr(store, "_stream", stream)
        assert set(store.guide().items) == set(ids[1:])
        store.ask(ann)
        assert set(store._guide.items) == set(ids[2:])


def test_a_guide_hears_of_an_item_about_a_class_that_was_added_elsewhere(tmp_path):
    store, _ = begin_guided(tmp_path / "guided.db", n=2, repeat_share=0.0)
    with store, Store.open(tmp_path / "guided.db") as other:
        store.guide()
        (question,) = store.ask(ann := store.named_annotator("Ann").id)
        other.add_classes(["new"])
        other.settle(question.item.id, 3, owner_of(other).id)
        assert store.answer(Answer("here", question.id, ann, "no")) is True
        assert store.guide() is not None
        store.ask(ann)
        assert store._guide is None


# ---- the commands -----------------------------------------------------------------------------------------------


def test_items_and_classes_are_added_by_the_command(naysayer, tmp_path):
    table = tmp_path / "texts.csv"
    table.write_text("text\none\ntwo\n")
    place = tmp_path / "answers.db"
    Store.open(place, project=PROJECT).close()
    assert naysayer("add", place, table).out == "2 items, 2 of them new; classes: cat, dog, owl\n"
    with Store.open(place) as store:
        say(store, "no", 4)
        store.remove(store.browse(name="row 1")[0][0].item.id)
    done = naysayer("add", place, table, "--classes", "fox")
    assert done.out == (
        "1 item, 0 of them new; classes: cat, dog, owl, fox\n1 item stayed out: removed on request earlier\n"
        "1 item settled by elimination is open again\n"
    )
    found = json.loads(naysayer("add", place, "--classes", "hen", "--json").out)
    assert found == {
        "items": 1, "new": 0, "removed_before": 0, "classes": ["cat", "dog", "owl", "fox", "hen"], "open_again": 0,
    }  # fmt: skip


def test_an_item_is_removed_by_the_command(naysayer, tmp_path, monkeypatch):
    place = tmp_path / "answers.db"
    with Store.open(place, project=PROJECT) as store:
        store.register(text_item(f"text {i}", f"row {i}") for i in range(12))
        say(store, "no", 12)
    assert naysayer("remove", place, "row 1", "--yes").out.startswith("removed row 1 and 1 answer\n")
    assert json.loads(naysayer("remove", place, "row 2", "--yes", "--json").out)["answers"] == 1
    monkeypatch.setattr("typer.confirm", lambda question: question == "Remove row 3 and its 1 answer for good?")
    assert naysayer("remove", place, "row 3").code == 0
    monkeypatch.setattr("typer.confirm", lambda question: False)
    assert naysayer("remove", place, "row 4").err == "naysayer: nothing was removed\n"
    with Store.open(place) as store:
        assert store.n_items() == 9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add"], "something must be added: name a folder or file of items, or --classes owl,fox"),
        (["add", "--classes", "dog"], "a class to add must be new; 'dog' is there already; leave it out"),
        (["remove", "row"], "an item must be named by its whole name or its id; 'row': 2 names have it"),
        (["remove", "row 1x"], "'row 1x': 0 names have it; see the items' page"),
        (["remove", "same"], "'same': 2 items have this name; see the items' page"),
    ],
)
def test_mistakes_are_one_line(naysayer, tmp_path, arguments, words):
    place = tmp_path / "answers.db"
    with Store.open(place, project=PROJECT) as store:
        store.register(text_item(f"text {i}", name) for i, name in enumerate(("row 1", "row 2", "same", "same")))
    done = naysayer(arguments[0], place, *arguments[1:])
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1
    with Store.open(place) as store:
        assert (store.n_items(), store.project) == (4, PROJECT)
