"""Bad answers are found and taken out: rulings in the store, the queue of disagreements, and the command."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from helpers import raises, wait_for
from naysayer.collect.app import make_app
from naysayer.collect.dashboard import Figures
from naysayer.collect.exchange import export, import_answers
from naysayer.collect.labels import label_items
from naysayer.collect.learn import add_training, train
from naysayer.collect.people import owner_of
from naysayer.collect.records import Answer, Project, Standing
from naysayer.collect.reviewing import Reviews, disagreements, judge_people, summary, to_said
from naysayer.collect.security import Site
from naysayer.collect.store import Store
from naysayer.collect.trainer import Trainer
from naysayer.data.items import record_item, text_item
from naysayer.measure.answer_errors import error_rates
from naysayer.measure.answer_estimates import class_priors
from naysayer.measure.answers import from_standing, labels, read_answers
from naysayer.measure.people import judge
from test_collect_app import POST, Client
from test_collect_guiding import begin

CLASSES = ("cat", "dog", "owl")


def open_store(where, n=120, classes=CLASSES, **options):
    options = {"name": "Animals", "repeat_share": 0.1} | options
    store = Store.open(where, project=Project(classes, **options), random_state=0)
    store.register(text_item(f"Animal {i} is a {classes[i % len(classes)]}.", f"row {i}") for i in range(n))
    return store


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "answers.db") as opened:
        yield opened


def truly(store, question):
    return "yes" if f" {store.project.classes[question.class_index]}." in question.item.content else "no"


def say(store, name, n, how=truly, took_ms=1500):
    """Let somebody answer n questions; gives their id."""
    who, said = store.named_annotator(name).id, 0
    while said < n and (asked := store.ask(who, min(20, n - said))):
        for question in asked:
            store.answer(Answer(f"answer-{question.id}", question.id, who, how(store, question), took_ms))
            said += 1
    return who


def no(store, question):
    return "no"


def contradict(store, item_id, k, values):
    """Give answers about an item and a class, by Ann, Bob, Cyd and so on, as a file from elsewhere might."""
    for i, (name, value) in enumerate(zip(("Ann", "Bob", "Cyd", "Dan"), values)):
        who, id = store.named_annotator(name).id, f"{item_id[:20]}-{k}-{name}"
        question = {"id": id, "item_id": item_id, "class_index": k, "probability": 1 / 3, "annotator": who}
        store.load("question", [question | {"repeat_of": None, "asked": 1.0 + i, "guidance": None}])
        given = {"id": id, "question_id": id, "annotator": who, "value": value, "took_ms": 900, "undoes": None}
        store.load("answer", [given | {"answered": 1.0 + i}])


def by_name(people):
    return {one["name"]: one for one in people}


# ---- who is named --------------------------------------------------------------------------------------------------


def test_300_noes_at_80_ms_are_named_at_once_and_honest_people_are_not(tmp_path):
    classes = tuple("abcdefghij")
    with open_store(tmp_path / "ten.db", 300, classes, repeat_share=0.05) as store:
        say(store, "Ann", 60, took_ms=30_000)
        say(store, "Bob", 5, no, took_ms=80)
        assert by_name(summary(store))["Bob"]["reasons"] == [
            "answered 5 of 5 questions within 0.25 seconds, faster than anyone can look"
        ]
        say(store, "Bob", 295, no, took_ms=80)
        say(store, "Cyd", 60, took_ms=400)
        found = summary(store)
        assert [one["name"] for one in found if one["reasons"]] == ["Bob"]
        assert found[0]["name"] == "Bob"  # who is named comes first
        assert found[0]["reasons"][1].startswith("said yes to 0 of ")
        assert found[0]["seconds"] == 0.08


def test_several_honest_people_with_few_answers_are_not_named_beside_a_bad_one(tmp_path):
    """Questions that the app itself drew; the bad one's noes rule out true classes, and others then find no yes."""
    for seed in range(2):
        rng = Random(seed)

        def mostly(store, question, rng=rng):
            value = truly(store, question)
            return ("no" if value == "yes" else "yes") if rng.random() < 0.08 else value

        with open_store(tmp_path / f"{seed}.db", 40, tuple("abcde"), repeat_share=0.2) as store:
            say(store, "Bob", 50, no)
            for name in ("Ann", "Cyd", "Dan", "Eve"):
                say(store, name, 30, mostly)
            assert {person.name for person, judged in judge_people(store) if judged.reasons} <= {"Bob"}


def test_one_mistake_that_many_are_asked_about_again_names_nobody():
    first = Standing(1, "a", "q", "item", 0, 1 / 3, "Ann", "yes", None, 900, 1.0)
    again = [
        replace(first, seq=i, id=f"a{i}", question_id=f"q{i}", annotator=f"person {i}", value="no", repeat_of="q")
        for i in range(2, 14)
    ]
    judged = judge(to_said([first, *again], Project(CLASSES)))
    assert [one.reasons for one in judged] == [[]] * 13
    assert judged[0].n_with_others == 1


def test_under_guided_questions_a_naysayer_is_named_and_agreement_is_told_with_its_interval(tmp_path):
    store, truth = begin(tmp_path / "guided.db", 300, repeat_share=0.1)
    with store:
        store.guide()
        people = [store.named_annotator(name).id for name in ("Ann", "Bob", "Cyd")]
        for _ in range(18):
            for who in people:
                for asked in store.ask(who, 5):
                    right = asked.class_index == truth[asked.item.id] and who != people[1]
                    store.answer(Answer(asked.id, asked.id, who, "yes" if right else "no", 900))
        found = by_name(summary(store))
    assert {name for name, one in found.items() if one["reasons"]} == {"Bob"}
    assert any("classes that the model found likeliest" in why for why in found["Bob"]["reasons"])
    ann, bob = found["Ann"]["with_model"], found["Bob"]["with_model"]
    assert ann.low <= 0.9 <= ann.high  # the guide is right about nine of ten
    assert bob.low == 0
    assert bob.estimate < ann.estimate - 0.5


# ---- left out, and in again ------------------------------------------------------------------------------------------


def test_who_is_left_out_counts_nowhere_and_who_is_let_in_does_again(where):
    with open_store(where, 60) as store:
        me = owner_of(store).id
        ann = say(store, "Ann", 40)
        before, progress = list(store.standing()), store.progress()
        bob = say(store, "Bob", 60, no)
        with_bob, rows = list(store.standing()), list(store.rows("answer"))
        counted = store.progress()
        store.leave_out(bob, "too\n quick\0\ud800", me)  # no control character reaches the database
        assert {one.annotator for one in store.standing()} == {ann}
        assert [one.id for one in store.standing()] == [one.id for one in before]
        assert len(list(store.standing(everyone=True))) == len(with_bob)
        assert store.progress() == progress
        assert error_rates(read_answers(store)).n_pairs < error_rates(from_standing(with_bob, CLASSES)).n_pairs
        assert list(store.rows("answer")) == rows  # nothing was taken away
        (ruling,) = store.rulings()
        assert (ruling.annotator, ruling.verdict, ruling.reason, ruling.ruled_by) == (bob, "out", "too quick", me)
        assert 0 <= time.time() - ruling.at < 600
        assert store.left_out() == {bob: ruling}
        with raises("a ruling must change something; these answers are left out already"):
            store.leave_out(bob, "", me)
        store.let_in(bob, "a second look", me)
        assert [one.id for one in store.standing()] == [one.id for one in with_bob]
        assert store.progress() == counted
        assert [one.verdict for one in store.rulings()] == ["out", "in"]
        assert store.left_out() == {}
        with raises("a ruling must change something; these answers are counted already"):
            store.let_in(bob, "", me)
        with raises("the store must have the annotator; it has none with the id 'nobody'", KeyError):
            store.leave_out("nobody", "", me)


def test_rulings_are_only_ever_added(where):
    with open_store(where, 3) as store:
        store.leave_out(say(store, "Bob", 1), "", owner_of(store).id)
        before = store.rulings()
        for statement in ("UPDATE ruling SET verdict = 'in'", "DELETE FROM ruling"):
            with (
                pytest.raises(DBAPIError, match="rulings are only ever added"),
                store._database.writing() as connection,
            ):
                connection.execute(text(statement))
        assert store.rulings() == before


def test_what_the_left_out_ruled_out_is_asked_about_again(store):
    bob = say(store, "Bob", 500, no)
    assert store.progress().closed == 120  # two noes leave one class
    assert store.ask(store.named_annotator("Ann").id) == []
    store.leave_out(bob, "", owner_of(store).id)
    assert store.progress().closed == 0
    ann = say(store, "Ann", 500)
    assert store.progress().closed == 120
    said = labels(read_answers(store))
    assert {one.annotator for one in store.standing()} == {ann}
    truth = {item.id: CLASSES.index(item.content.split()[-1][:-1]) for item in store.items()}
    left = ~said.ruled_out
    assert all(left[i, truth[id]] for i, id in enumerate(read_answers(store).items))


def test_an_answer_of_the_left_out_still_answers_its_question_and_can_be_taken_back(store):
    bob = store.named_annotator("Bob").id
    (question,) = store.ask(bob)
    store.answer(Answer("a", question.id, bob, "no"))
    store.leave_out(bob, "", owner_of(store).id)
    with raises("a question must be answered once"):
        store.answer(Answer("b", question.id, bob, "no"))
    assert store.undo(bob, "c").id == question.id
    assert store.progress(bob).own == 0


def test_questions_drawn_in_view_of_answers_that_no_longer_count_are_labels_and_no_estimates(store):
    me, item = owner_of(store).id, next(store.items()).id
    contradict(store, item, 0, ["no"])  # Ann, asked at 1
    contradict(store, item, 1, ["skip", "no"])  # Ann at 1, Bob at 2: in view of Ann's first answer
    ann = store.named_annotator("Ann").id
    assert all(one.fair for one in store.standing())
    store.leave_out(ann, "", me)
    assert [one.fair for one in store.standing()] == [False]
    assert not read_answers(store).design.told.any()
    assert labels(read_answers(store)).ruled_out.any()
    store.let_in(ann, "", me)
    assert all(one.fair for one in store.standing())


def test_an_item_that_begins_anew_after_a_ruling_is_fair(store):
    me = owner_of(store).id
    bob = say(store, "Bob", 30, no)
    store.leave_out(bob, "", me)
    say(store, "Ann", 200)
    mine = list(store.standing())
    assert all(one.fair for one in mine)
    store.let_in(bob, "", me)  # now Ann's were drawn without his, which count
    touched = {one.item_id for one in store.standing() if one.annotator == bob}
    for one in store.standing():
        assert one.fair == (one.annotator == bob or one.item_id not in touched)


def test_shares_stay_unbiased_when_a_person_whose_answers_depend_on_the_class_is_left_out(tmp_path):
    """Bob says that cats are none, and else nothing: what Ann is asked after him depends on what it is."""
    rng, n = np.random.default_rng(0), 1200
    share = np.array([0.6, 0.3, 0.1])
    with open_store(tmp_path / "many.db", n) as store:
        bob, ann = (store.named_annotator(name).id for name in ("Bob", "Ann"))
        questions, answers, at = [], [], 0.0
        for item in store.items():
            y, left = rng.choice(3, p=share), [0, 1, 2]
            for who in rng.permutation([bob, ann, ann]):
                if len(left) < 2:
                    break
                k, at = int(rng.choice(left)), at + 1
                id, yes = f"q{len(questions)}", (k == y) and who == ann
                questions.append({"id": id, "item_id": item.id, "class_index": k, "probability": 1 / len(left)})
                questions[-1] |= {"annotator": who, "repeat_of": None, "asked": at, "guidance": None}
                answers.append({"id": id, "question_id": id, "annotator": who, "value": "yes" if yes else "no"})
                answers[-1] |= {"took_ms": None, "answered": at, "undoes": None}
                if who == ann or k == y == 0:
                    left.remove(k)
                else:
                    answers[-1]["value"] = "skip"
                if yes:
                    break
        store.load("question", questions)
        store.load("answer", answers)
        store.leave_out(bob, "", owner_of(store).id)
        fair = class_priors(read_answers(store), error_rate=0.0)
        given = [one.__class__(**vars(one) | {"fair": True}) for one in store.standing()]
    rash = class_priors(from_standing(given, CLASSES), error_rate=0.0)
    assert ((fair.low < share) & (share < fair.high)).all()
    assert not ((rash.low < share) & (share < rash.high)).all()  # the comparison can fail


def test_a_guide_forgets_whom_the_owner_left_out_also_after_a_restart(tmp_path):
    store, _ = begin(tmp_path / "guided.db", 30)
    with store:
        guide = store.guide()
        bob, me = store.named_annotator("Bob").id, owner_of(store).id
        for asked in store.ask(bob, 20):
            store.answer(Answer(asked.id, asked.id, bob, "no"))
        moved = np.abs(guide.probabilities - guide.expected).max(axis=1) > 1e-6
        assert moved.sum() > 10
        store.leave_out(bob, "", me)
        np.testing.assert_allclose(guide.probabilities, guide.expected)
        store.let_in(bob, "", me)
        assert (np.abs(guide.probabilities - guide.expected).max(axis=1) > 1e-6).sum() == moved.sum()
        store.leave_out(bob, "", me)
        again = store.guide()
        np.testing.assert_allclose(again.probabilities, again.expected)
        id = guide.items[3]
        store.settle(id, 2, me)
        assert again.probabilities[3].argmax() == 2
        assert again.settled[3]
    with Store.open(tmp_path / "guided.db") as opened:
        np.testing.assert_allclose(np.delete(opened.guide().probabilities, 3, 0), np.delete(again.expected, 3, 0))


def test_training_leaves_out_and_is_done_again_after_a_ruling(tmp_path):
    with Store.open(tmp_path / "t.db", project=Project(("low", "high")), random_state=0) as store:
        store.register(record_item({"height": i}, f"row {i}") for i in range(60))
        heights = {item.id: item.content["height"] >= 30 for item in store.items()}
        for name in ("Ann", "Bob"):
            who = store.named_annotator(name).id
            for _ in range(30):
                (asked,) = store.ask(who)
                right = asked.class_index == heights[asked.item.id]
                store.answer(Answer(asked.id, asked.id, who, "yes" if right == (name == "Ann") else "no"))
        with Trainer(store, every=50, seconds=0.05, network="linear", max_epochs=1, n_seeds=2) as trainer:
            wait_for(lambda: trainer.error or len(store.trainings()) == 1)
            store.leave_out(store.named_annotator("Bob").id, "", owner_of(store).id)
            wait_for(lambda: trainer.error or len(store.trainings()) == 2)
            assert trainer.error is None
        both, ann = store.trainings()
        assert (both.n_answers, ann.n_answers) == (60, 30)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_rulings_travel_with_an_export(store, tmp_path, ending):
    me = owner_of(store).id
    ann, bob = say(store, "Ann", 20), say(store, "Bob", 20, no)
    store.leave_out(ann, "by mistake", me)
    store.let_in(ann, "", me)
    store.leave_out(bob, "says no", me)
    store.settle(next(store.items()).id, 1, me)
    file = tmp_path / f"all.{ending}"
    export(store, file)
    with Store.open(tmp_path / "copy.db", project=store.project) as copy:
        import_answers(copy, file)
        assert copy.rulings() == store.rulings()
        assert [vars(one) for one in copy.standing()] == [vars(one) for one in store.standing()]
        assert copy.progress() == store.progress()
        import_answers(copy, file)
        assert copy.rulings() == store.rulings()


def test_files_for_others_say_what_counts(store, tmp_path):
    import csv
    import json

    ann, bob = say(store, "Ann", 5), say(store, "Bob", 5, no)
    store.undo(ann, "taken-back")
    store.leave_out(bob, "", owner_of(store).id)
    export(store, tmp_path / "all.csv")
    export(store, tmp_path / "all.json")
    with open(tmp_path / "all.csv", newline="", encoding="utf8") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "answer"]
    standing = {one.id for one in store.standing()}
    assert {row["id"] for row in rows if row["counts"] == "yes"} == standing
    assert len(rows) == 11
    tasks = json.loads((tmp_path / "all.json").read_text(encoding="utf8"))
    assert {a["result"][0]["id"] for task in tasks for a in task["annotations"]} == standing


# ---- disagreements ---------------------------------------------------------------------------------------------------


def queue_of(store):
    return disagreements(list(store.standing()), store.trainings(), store.project)


def test_the_queue_has_what_contradicts_the_most_first(store):
    a, b, c, d, e = [item.id for item in store.items()][:5]
    contradict(store, a, 0, ["yes", "no"])
    contradict(store, b, 0, ["yes", "no", "yes", "no"])
    contradict(store, c, 0, ["yes"])
    contradict(store, c, 2, ["no", "yes"])
    contradict(store, d, 1, ["no", "no"])  # nothing against it
    for k in range(3):
        contradict(store, e, k, ["no"])
    found = queue_of(store)
    assert found[0].item_id == b
    assert {one.item_id: one.why for one in found} == {
        a: "Yes and no to cat.",
        b: "Yes and no to cat.",
        c: "Yes and no to owl.",
        e: "No to every class.",
    }
    contradict(store, d, 0, ["yes"])
    contradict(store, d, 2, ["yes"])
    assert {one.item_id: one.why for one in queue_of(store)}[d] == "Yes to cat and owl."
    store.leave_out(store.named_annotator("Bob").id, "", owner_of(store).id)
    assert a not in {one.item_id for one in queue_of(store)}  # whoever does not count contradicts nobody


def test_the_owner_has_the_last_word_in_labels_and_none_in_estimates(store):
    me, (a, b, *_) = owner_of(store).id, [item.id for item in store.items()]
    contradict(store, a, 0, ["no", "no", "no", "yes"])
    contradict(store, b, 1, ["yes", "no"])
    before = class_priors(read_answers(store), error_rate=0.0)
    store.settle(a, 0, me)
    said = read_answers(store)
    assert (~labels(said).ruled_out[said.items.index(a)]).tolist() == [True, False, False]
    assert labels(said).confirmed[said.items.index(a)]
    np.testing.assert_array_equal(class_priors(said, error_rate=0.0).estimate, before.estimate)
    assert [one.item_id for one in queue_of(store)] == [b]
    store.settle(a, 2, me)  # another mind
    assert [one.class_index for one in store.standing() if one.final] == [2]
    store.settle(b, None, me)  # nobody can tell
    assert queue_of(store) == []
    assert not labels(read_answers(store)).named[1]
    assert store.reopen(a, me)
    assert not store.reopen(a, me)
    assert [one.item_id for one in queue_of(store)] == [a]
    assert len([row for row in store.rows("answer") if row["annotator"] == me]) == 5  # three words, two taken back
    with raises("a class must be from 0 to 2; got 3"):
        store.settle(a, 3, me)
    with raises("an item must be settled by an owner; this is none; answer questions instead"):
        store.settle(a, 0, store.named_annotator("Ann").id)
    with raises("the store must have the item; it has none with the id 'nothing'", KeyError):
        store.settle("nothing", 0, me)


def test_labels_that_come_out_follow_the_rulings(store):
    me, (a, b, *_) = owner_of(store).id, [item.id for item in store.items()]
    contradict(store, a, 0, ["no", "no", "no", "yes"])
    contradict(store, b, 1, ["yes", "no", "yes"])
    store.settle(a, 0, me)
    store.leave_out(store.named_annotator("Bob").id, "", me)
    first, second, third, *_ = label_items(store, model=False)
    assert (first.label, first.known_by) == ("cat", "people")
    assert first.sure > 0.999
    assert (second.label, second.said) == ("dog", "dog: 2 yes")
    assert third.label is None


def test_what_the_owner_settled_is_asked_about_no_more(tmp_path):
    with open_store(tmp_path / "one.db", 1) as store:
        store.settle(next(store.items()).id, 1, owner_of(store).id)
        assert store.progress().closed == 1
        assert store.ask(store.named_annotator("Ann").id) == []


def test_people_and_model_that_contradict_each_other_are_in_the_queue(tmp_path):
    with Store.open(tmp_path / "t.db", project=Project(("low", "high")), random_state=0) as store:
        store.register(record_item({"height": i}, f"row {i}") for i in range(80))
        ann, me = store.named_annotator("Ann").id, owner_of(store).id
        wrong = [item.id for item in store.items() if item.content["height"] in (3, 77)]
        for _ in range(80):
            (asked,) = store.ask(ann)
            right = asked.class_index == (asked.item.content["height"] >= 40)
            store.answer(Answer(asked.id, asked.id, ann, "yes" if right != (asked.item.id in wrong) else "no"))
        add_training(store, train(store, network="linear", max_epochs=5, n_seeds=3))
        found = queue_of(store)
        first = found[0]
        assert first.item_id in wrong
        for one in found:
            k, sure = one.model
            assert sure >= 0.9
            assert one.why == f"The model takes it for {store.project.classes[k]}, which people ruled out."
        share = by_name(summary(store))["Ann"]["with_model"]
        assert share.low < 0.97 < share.high  # but for two of 80, she says what the model says
        store.settle(first.item_id, first.model[0], me)
        assert first.item_id not in {one.item_id for one in queue_of(store)}


def test_reviews_look_again_only_when_something_changed(store):
    now = [0.0]
    reviews = Reviews(store, clock=lambda: now[0])
    assert reviews.people() == []
    say(store, "Ann", 3)
    assert reviews.people() is (first := reviews.people())
    assert first[0]["n"] == 3
    me, item = owner_of(store).id, next(store.items()).id
    store.settle(item, 0, me)
    store.settle(item, 1, me)  # the counts are the same
    reviews.forget()
    assert [one.class_index for one in reviews.queue()[1]] == [1]


# ---- the app ---------------------------------------------------------------------------------------------------------


def test_the_owner_rules_over_the_api_and_nobody_else_does(store):
    web, item = Client(make_app(store, Site(open=True))), next(store.items()).id
    contradict(store, item, 0, ["yes", "no"])
    bob = store.named_annotator("Bob").id
    (ann,) = (one for one in web("get", "/api/people").json()["people"] if one["name"] == "Ann")
    assert ann["reasons"] == []
    assert ann["left_out"] is None
    told = web("get", "/api/disagreements").json()
    assert told["total"] == 1
    assert told["shown"][0]["said"] == [
        {"name": "Ann", "value": "yes", "class": "cat"},
        {"name": "Bob", "value": "no", "class": "cat"},
    ]
    assert told["shown"][0]["item"]["text"] == "Animal 0 is a cat."
    assert web("post", "/api/leave-out", json={"id": bob, "reason": "odd"}, headers=POST).status_code == 200
    (out,) = (one for one in web("get", "/api/people").json()["people"] if one["name"] == "Bob")
    assert (out["left_out"]["by"], out["left_out"]["reason"]) == ("owner", "odd")
    assert web("get", "/api/disagreements").json()["total"] == 0
    again = web("post", "/api/leave-out", json={"id": bob}, headers=POST)
    assert (again.status_code, again.json()["error"][:30]) == (409, "a ruling must change something")
    assert web("post", "/api/let-in", json={"id": bob}, headers=POST).status_code == 200
    assert web("post", "/api/settle", json={"item": item, "class": "cat"}, headers=POST).status_code == 200
    told = web("get", "/api/disagreements").json()
    assert (told["total"], told["settled"][0]["class"]) == (0, "cat")
    assert web("post", "/api/reopen", json={"item": item}, headers=POST).status_code == 200
    assert web("get", "/api/disagreements").json()["total"] == 1
    assert web("post", "/api/settle", json={"item": item, "class": None}, headers=POST).status_code == 200
    for path, body, status, words in (
        ("reopen", {"item": "x"}, 404, "nothing was settled about an item of this id"),
        ("settle", {"item": "x", "class": "cat"}, 404, "the store must have the item"),
        ("settle", {"item": item, "class": "emu"}, 422, "a class must be one of cat, dog, owl"),
        ("leave-out", {"id": "x"}, 404, "the store must have the annotator"),
    ):
        refused = web("post", f"/api/{path}", json=body, headers=POST)
        assert (refused.status_code, refused.json()["error"][: len(words)]) == (status, words)
    outside = Client(make_app(store, Site("127.0.0.1", 8000, "http://127.0.0.1:8000")))
    token = store.admit(store.add_annotator("Eve")[1])
    for who, status in (({}, 401), ({"authorization": f"Bearer {token}"}, 403)):
        for path in ("people", "disagreements"):
            assert outside("get", f"/api/{path}", headers=who).status_code == status
        for path in ("leave-out", "let-in", "settle", "reopen"):
            assert outside("post", f"/api/{path}", json={}, headers=POST | who).status_code == status


def test_an_item_that_was_removed_leaves_the_queue(store):
    web, (a, b, *_) = Client(make_app(store, Site(open=True))), [item.id for item in store.items()]
    contradict(store, a, 0, ["yes", "no"])
    store.settle(b, 1, owner_of(store).id)
    told = web("get", "/api/disagreements").json()
    assert ([one["id"] for one in told["shown"]], [one["id"] for one in told["settled"]]) == ([a], [b])
    store.remove(a)
    store.remove(b)
    told = web("get", "/api/disagreements").json()  # it may not have looked again yet
    assert (told["shown"], told["settled"]) == ([], [])


def test_the_dashboards_figures_leave_out_too(store):
    say(store, "Ann", 30)
    bob = say(store, "Bob", 60, no)
    figures = Figures(store, clock=lambda: 0.0)
    assert figures()["report"]["n_answers"] == 90
    store.leave_out(bob, "", owner_of(store).id)
    assert figures()["report"]["n_answers"] == 30


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_names_leaves_out_and_lets_in(naysayer, store, tmp_path):
    path = tmp_path / "answers.db"
    done = naysayer("people", path)
    assert (done.code, done.out) == (0, f"nobody has answered yet in {path}\n")
    say(store, "Ann", 40)
    bob = say(store, "Bob", 60, no, took_ms=80)
    done = naysayer("people", path)
    assert done.code == 0
    assert "Bob answered 60 of 60 questions within 0.25 seconds, faster than anyone can look." in done.out
    assert "Ann answered" not in done.out
    named = "Bob answered 60 of 60 questions within 0.25 seconds, faster than anyone can look"
    (line,) = (line for line in naysayer("doctor", path).out.splitlines() if line.startswith(f" warning: {named}"))
    assert line.endswith(". See: naysayer people STORE")
    done = naysayer("labels", path, "--out", tmp_path / "labels.csv", "--no-model")
    assert "\nthe answers of 1 person look bad: see naysayer people STORE\n" in done.out
    done = naysayer("people", path, "--leave-out", "Bob", "--reason", "80 ms", "--json")
    (one,) = (each for each in done.json["people"] if each["name"] == "Bob")
    assert (one["left_out"]["reason"], one["left_out"]["by"]) == ("80 ms", "owner")
    assert list(store.left_out()) == [bob]
    assert "left out" in naysayer("people", path).out
    checked = naysayer("doctor", path).out
    assert "Bob answered" not in checked
    assert "\n    note: 1 person is left out, and not counted here.\n" in checked
    assert "look bad" not in naysayer("labels", path, "--out", tmp_path / "labels.csv", "--no-model").out
    assert naysayer("people", path, "--let-in", bob).code == 0
    assert store.left_out() == {}


def test_the_command_says_what_is_wrong_in_one_line(naysayer, store, tmp_path):
    path = tmp_path / "answers.db"
    say(store, "Ann", 1)
    for _ in range(2):
        store.add_annotator("Eve")
    for options, words in (
        (["--leave-out", "Ann", "--let-in", "Ann"], "--leave-out and --let-in must not come together"),
        (["--leave-out", "Zoe"], "a name must be that of somebody in the store, Ann, Eve; got 'Zoe'"),
        (["--leave-out", "Eve"], "a name must be one person's; 2 are called 'Eve'; give an id: "),
        (["--let-in", "Ann"], "a ruling must change something; these answers are counted already"),
    ):
        done = naysayer("people", path, *options)
        assert done.code == 2
        assert words in done.err
        assert done.err.count("\n") == 1
