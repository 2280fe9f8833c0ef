"""The store, on SQLite and PostgreSQL: who is asked what, and that no answer is lost, doubled or changed."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from sqlalchemy import select

from helpers import assert_frequencies, assert_shares, raises
from naysayer.collect import drawing, links, schema
from naysayer.collect.records import Ask, Conflict, Project, Undo
from naysayer.collect.store import Answer, Store
from naysayer.collect.tokens import hash_token
from naysayer.data.items import Item, record_item, text_item

PROJECT = Project(("cat", "dog", "horse", "bird"), repeat_share=0.0)


def texts(n, start=0):
    return [text_item(f"text {i}", f"row {i}") for i in range(start, start + n)]


def true_class(item, n_classes=4):
    return int(item.id, 16) % n_classes


def truth(question, n_classes=4):
    return "yes" if true_class(question.item, n_classes) == question.class_index else "no"


def reply(store, question, value, **more):
    return store.answer(Answer(secrets.token_hex(8), question.id, question.annotator, value, **more))


@pytest.fixture
def begin(where):
    """Begin a store in a fresh place, with items and two annotators."""
    opened = []

    def begin(n_items=0, **changes):
        store = Store.open(where, project=replace(PROJECT, **changes), random_state=len(opened))
        opened.append(store)
        store.register(texts(n_items))
        return store, store.named_annotator("Ann").id, store.named_annotator("Bob").id

    yield begin
    for store in opened:
        store.close()


def check_tallies(store):
    """What is counted as answers come is what follows from all of them."""
    with store._database.reading() as connection:
        kept = {row.item_id: tuple(row)[1:] for row in connection.execute(schema.tally.select())}
    counts = {item.id: [0, 0, set(), 0] for item in store.items()}
    for standing in store.standing():
        counts[standing.item_id][standing.repeat_of is not None] += 1
        counts[standing.item_id][3] += standing.value == "yes"
        if standing.value == "no":
            counts[standing.item_id][2].add(standing.class_index)
    assert kept == {id: (n, repeats, len(out), yes) for id, (n, repeats, out, yes) in counts.items()}


# ---- opening ------------------------------------------------------------------------------------------------------


def test_a_store_remembers_its_project(where):
    project = Project(("a", "b"), "Pets", (0.25, 0.75), 0.1, "Could this be {}?", 3)
    with Store.open(where, project=project) as store:
        assert store.project == project
        assert store.configure(repeat_share=0.2, answers_per_item=None) == store.project
    for again in (None, Project(("a", "b"))):
        with Store.open(where, project=again) as store:
            assert store.project == replace(project, repeat_share=0.2, answers_per_item=None)
    with raises(
        "must be asked for the classes it has, a, b; got b, a; naysayer add adds some; begin a new store for others"
    ):
        Store.open(where, project=Project(("b", "a")))
    with Store.open(where) as store, raises("the classes of a store must stay as they are; `add_classes` adds others"):
        store.configure(classes=("x", "y"))


def test_a_store_that_is_not_there(tmp_path):
    with raises(f"no store at {tmp_path}/answers.db; begin one: naysayer ask ITEMS", FileNotFoundError):
        Store.open(tmp_path / "answers.db")
    with raises(f"a store must be a file; {tmp_path} is a folder", IsADirectoryError):
        Store.open(tmp_path, project=PROJECT)
    assert list(tmp_path.iterdir()) == []


def test_a_database_without_a_project_is_no_store(postgres_url):
    with raises("must hold a store; it has no project in it; begin one: naysayer ask"):
        Store.open(postgres_url)


def test_two_who_begin_a_store_at_once_begin_one(where):
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: Store.open(where, project=PROJECT), range(4)))
    assert sum(store.register(texts(5)) for store in stores) == 5
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ("cat",)}, "a project must have at least 2 classes; got 1: ['cat']"),
        ({"classes": ("cat", " ")}, "a class must have a name of 1 to 200 printable characters; got ' '"),
        ({"classes": ("cat", "d\0g")}, "a class must have a name of 1 to 200 printable characters; got 'd\\x00g'"),
        ({"classes": ("cat", "cat")}, "a project must name each class once; got 'cat' twice; rename one"),
        ({"probabilities": (0.5, 0.5)}, "`probabilities` must have one for each of 4 classes; got 2"),
        ({"probabilities": (0.5, 0.5, 0, 0)}, "`probabilities` must be above 0, so that any class may be asked; got 0"),
        ({"probabilities": (0.5, 0.5, 0.5, 0.5)}, "`probabilities` must sum to 1; they sum to 2"),
        ({"repeat_share": 1.0}, "`repeat_share` must be at least 0 and below 1; got 1.0"),
        ({"question": "Is it?"}, "`question` must have {} once, where a class's name goes; got 'Is it?'"),
        ({"answers_per_item": 0}, "`answers_per_item` must be a whole number of at least 1; got 0"),
    ],
)
def test_projects_that_cannot_be(changes, words):
    with raises(words):
        replace(PROJECT, **changes)


# ---- items --------------------------------------------------------------------------------------------------------


def test_items_are_registered_once(begin):
    store, *_ = begin()
    items = [*texts(700), record_item({"legs": 4, "name": "é\0"}, "row 1"), Item("i" * 32, "image", "a.png", "/a.png")]
    assert store.register(iter(items + items)) == 702
    assert store.register(items[:3] + texts(2, start=700)) == 2
    assert list(store.items()) == items + texts(2, start=700)
    assert store.n_items() == 704
    assert store.item(items[700].id) == items[700]
    for unknown in ("x", "", "../etc/passwd", "a\0b", "\ud800", "' OR 1=1 --"):
        assert store.item(unknown) is None


def test_an_image_that_moved_is_found_at_its_new_place(begin):
    store, *_ = begin()
    image = Item("i" * 32, "image", "a.png", "/old/a.png")
    assert store.register([image]) == 1
    moved = replace(image, name="b.png", path="/new/b.png")
    assert store.register([moved]) == 0
    assert list(store.items()) == [moved]


# ---- asking -------------------------------------------------------------------------------------------------------


def test_the_item_with_the_fewest_answers_comes_next(begin):
    store, ann, bob = begin(12)
    for name, _ in zip(itertools.cycle([ann, bob]), range(30)):
        counts = Counter({item.id: 0 for item in store.items()})
        counts.update(standing.item_id for standing in store.standing())
        decided = {standing.item_id for standing in store.standing() if standing.value == "yes"}
        (question,) = store.ask(name)
        fewest = min((n, id) for id, n in counts.items() if id not in decided)
        assert (counts[question.item.id], question.item.id) == fewest
        reply(store, question, "yes" if question.class_index == 0 else "no")
    check_tallies(store)


def test_annotators_are_spread_over_the_items(begin):
    store, *_ = begin(30)
    names = [store.named_annotator(f"annotator {i}").id for i in range(15)]
    given = [question.item.id for name in names for question in store.ask(name, 2)]
    assert len(set(given)) == 30
    # With nothing else left, one is asked about what others are busy with, but not about what one holds.
    late = store.named_annotator("late").id
    assert len({question.item.id for question in store.ask(late, 20)}) == 20
    mine = store.ask(names[0], 2)
    more = store.ask(names[0], 20, holding=[question.id for question in mine])
    assert not {question.item.id for question in mine} & {question.item.id for question in more}


@pytest.mark.parametrize("probabilities", [None, (0.1, 0.2, 0.3, 0.4)])
def test_classes_are_drawn_with_the_probability_that_is_stored(begin, probabilities):
    store, ann, _ = begin(700, probabilities=probabilities)
    weights = np.array(probabilities or [0.25] * 4)
    while True:  # all items once, then those not decided a second time, with one class ruled out
        questions = store.ask(ann, 20)
        if not questions or store.progress().answers > 1100:
            break
        for future in [
            store.submit(Answer(secrets.token_hex(8), each.id, ann, "no" if each.class_index else "yes"))
            for each in questions
        ]:
            assert future.result()
    ruled_out, first, second = {}, np.zeros(4), {c: np.zeros(4) for c in range(1, 4)}
    for standing in store.standing():
        before = ruled_out.setdefault(standing.item_id, [])
        chances = weights.copy()
        chances[before] = 0
        assert standing.probability == pytest.approx(chances[standing.class_index] / chances.sum())
        if not before:
            first[standing.class_index] += 1
        elif len(before) == 1:
            second[before[0]][standing.class_index] += 1
        before.append(standing.class_index)
    assert_frequencies(first, weights)
    for c, counts in second.items():
        assert counts.sum() > 30
        chances = weights * (np.arange(4) != c)
        assert_frequencies(counts, chances / chances.sum())


def test_an_item_is_asked_about_until_its_class_is_known_and_no_more(begin):
    store, ann, bob = begin(40)
    for name in itertools.cycle([ann, bob]):
        questions = store.ask(name, 3)
        if not questions:
            break
        for question in questions:
            reply(store, question, truth(question))
    said = {}
    for standing in store.standing():
        said.setdefault(standing.item_id, []).append((standing.class_index, standing.value))
    for item in store.items():
        out = [c for c, value in said[item.id] if value == "no"]
        assert len(set(out)) == len(out)
        known = [c for c, value in said[item.id] if value == "yes"] or [c for c in range(4) if c not in out]
        assert known == [true_class(item)]
    progress = store.progress(ann)
    assert (progress.items, progress.answered, progress.closed) == (40, 40, 40)
    assert progress.answers == sum(map(len, said.values()))
    assert progress.own + store.progress(bob).own == progress.answers
    assert store.progress("nobody").own == store.progress().own == 0
    assert store.progress(ann, age=60) == progress
    store.register(texts(41))
    assert store.progress(ann, age=60).items == 40
    assert store.progress(ann, age=0).items == store.progress(ann, age=60).items == 41
    check_tallies(store)


def test_a_number_of_answers_is_enough(begin):
    store, ann, _ = begin(6, answers_per_item=2)
    while questions := store.ask(ann, 4):
        for question in questions:
            reply(store, question, "skip" if question.class_index == 1 else "no")
    assert Counter(standing.item_id for standing in store.standing()) == {item.id: 2 for item in store.items()}
    store.configure(answers_per_item=3)
    assert len(store.ask(ann, 10)) == 6


def test_where_one_cannot_tell_nothing_is_ruled_out_and_one_is_not_asked_again(begin):
    store, ann, bob = begin(1)
    asked = []
    while questions := store.ask(ann):
        asked += [question.class_index for question in questions]
        reply(store, questions[0], "skip")
    assert sorted(asked) == [0, 1, 2, 3]
    assert store.progress().closed == 0
    (question,) = store.ask(bob)  # others can still be asked all four
    assert question.probability == 0.25
    reply(store, question, "no")
    (question,) = store.ask(bob)
    assert question.probability == pytest.approx(1 / 3)


def test_a_page_that_is_reloaded_gets_its_questions_back(begin):
    store, ann, bob = begin(9)
    held = store.ask(ann, 3)
    assert store.ask(ann, 3) == held
    assert store.ask(ann, 2) == held[:2]
    more = store.ask(ann, 2, holding=[question.id for question in held])
    assert len({question.item.id for question in held + more}) == 5
    reply(store, held[1], "no")
    assert store.ask(ann, 4) == [held[0], held[2], *more]
    assert not {question.id for question in store.ask(bob, 4)} & {question.id for question in held + more}


def test_two_devices_of_one_person_get_different_questions(begin):
    store, ann, _ = begin(9)
    phone, desk = "0000000a", "0000000b"
    first = store.ask(ann, 4, device=phone)
    second = store.ask(ann, 4, device=desk)
    assert len({question.item.id for question in first + second}) == 8
    assert store.ask(ann, 4, device=phone) == first  # a reload
    assert store.ask(ann, 4, device=desk) == second
    assert all(question.id.startswith(desk) and len(question.id) == 32 for question in second)
    (last,) = store.ask(ann, 4, holding=[question.id for question in first], device=phone)
    assert store.ask(ann, 4, holding=[question.id for question in [*first, last]], device=phone) == []
    assert store.ask(ann, 4, device="0000000c") == first  # all is handed out: a new page takes over


def test_a_question_that_nobody_answers_blocks_its_item_for_ten_minutes(begin, monkeypatch):
    store, ann, bob = begin(2)
    now = drawing.time.time()
    monkeypatch.setattr(drawing.time, "time", lambda: now)
    (lost,) = store.ask(ann)
    for later, blocked in ((599, True), (601, False)):
        monkeypatch.setattr(drawing.time, "time", lambda later=later: now + later)
        given = store.ask(bob, 1, holding=[question.id for question in store.ask(bob, 1)] if not blocked else [])
        assert (given[0].item.id != lost.item.id) == blocked
    monkeypatch.undo()
    assert reply(store, lost, "no")  # and a late answer counts
    check_tallies(store)


def test_requests_that_cannot_be(begin):
    store, ann, _ = begin(2)
    (question,) = store.ask(ann)
    for n in (0, 21):
        with raises(f"a page must ask for 1 to 20 questions; got {n}"):
            store.ask(ann, n)
    with raises("a device must be 8 hexadecimal digits; got 'phone'"):
        store.ask(ann, device="phone")
    for name in ("nobody", "", "a\0b", "' OR 1=1 --"):
        with raises("the store must have the annotator; it has none with the id ", KeyError):
            store.ask(name)
    for id in ("", "a b", "x" * 65, "a\0", "\ud800", "é"):
        with raises(f"an id must be 1 to 64 letters, digits, - and _; got {id[:70]!r}"):
            store.answer(Answer(id, question.id, ann, "no"))
        with raises("an id must be 1 to 64 letters, digits, - and _"):
            store.undo(ann, id)
    with raises("an answer must be yes, no or skip; got 'undo'"):
        store.answer(Answer("a", question.id, ann, "undo"))
    for took in (-1, 2**53):
        with raises(f"the milliseconds of an answer must be 0 or more; got {took}"):
            store.answer(Answer("a", question.id, ann, "no", took))
    assert list(store.rows("answer")) == []


# ---- repetitions --------------------------------------------------------------------------------------------------


def test_a_set_share_of_questions_repeats_earlier_ones(begin):
    store, ann, bob = begin(700, repeat_share=0.3)
    given = []
    while len(given) < 600:
        for name in (ann, bob):
            questions = store.ask(name, 20)
            given += questions
            futures = [
                store.submit(Answer(secrets.token_hex(8), each.id, name, ("no", "yes", "skip")[i % 3]))
                for i, each in enumerate(questions)
            ]
            assert all(future.result() for future in futures)
    after = [question for question in given[100:] if question.repeat_of]
    assert_shares(len(after), len(given) - 100, 0.3)
    first = {question.id: question for question in given if not question.repeat_of}
    answers = {standing.question_id: standing for standing in store.standing()}
    for question in after:
        earlier = first[question.repeat_of]
        assert (earlier.item, earlier.class_index) == (question.item, question.class_index)
        assert earlier.probability == question.probability
        assert answers[earlier.id].value != "skip"
    assert len({(question.annotator, question.repeat_of) for question in after}) == len(after)  # to each once
    who = Counter(first[question.repeat_of].annotator == question.annotator for question in after)
    assert_shares(who[True], len(after), 0.5, sigmas=7)  # one's own and others'
    assert Counter(answer.item_id for answer in store.standing() if not answer.repeat_of).most_common(1)[0][1] == 1
    check_tallies(store)


def test_one_is_not_asked_again_what_one_has_just_answered(begin):
    store, ann, _ = begin(300, repeat_share=0.9)
    answered = []
    for _ in range(60):
        (question,) = store.ask(ann)
        if question.repeat_of:
            assert question.repeat_of in answered[:-10]
        answered.append(question.id)
        reply(store, question, "no")
    assert any(row["repeat_of"] for row in store.rows("question"))


def test_whether_a_question_becomes_a_repetition_does_not_depend_on_its_item(begin, monkeypatch):
    store, ann, bob = begin(1)
    (first,) = store.ask(bob)
    reply(store, first, "no")
    monkeypatch.setattr(drawing, "is_repeat", lambda share, random: True)
    assert [question.repeat_of for question in store.ask(ann)] == [first.id]


def test_when_all_is_known_there_are_no_repetitions_either(begin):
    store, ann, _ = begin(15, repeat_share=0.9)
    while questions := store.ask(ann):
        reply(store, questions[0], truth(questions[0]))
    assert store.progress().closed == 15
    assert [store.ask(ann, 5) for _ in range(10)] == [[]] * 10


# ---- answers ------------------------------------------------------------------------------------------------------


def test_an_answer_that_is_sent_again_is_stored_once(begin):
    store, ann, bob = begin(3)
    question, other = store.ask(ann, 2)
    given = Answer("from-the-page_1", question.id, ann, "no", 1234)
    assert store.answer(given) is True
    assert store.answer(given) is False
    assert store.answer(replace(given, took_ms=99)) is False
    (row,) = store.rows("answer")
    assert {name: row[name] for name in asdict(given)} == asdict(given)
    for changed in ({"value": "yes"}, {"question_id": other.id}, {"annotator": bob}):
        with raises("an answer's id must be its own; from-the-page_1 is another's", Conflict):
            store.answer(replace(given, **changed))
    assert len(list(store.standing())) == 1
    check_tallies(store)


def test_a_question_is_answered_once_and_by_whom_it_was_asked(begin):
    store, ann, bob = begin(3)
    question, other = store.ask(ann, 2)
    reply(store, question, "no")
    with raises("a question must be answered once; an answer to this one stands; undo it first", Conflict):
        reply(store, question, "yes")
    words = "an answer must be to a question that its annotator was asked; "
    with raises(words, KeyError):
        store.answer(Answer("b", other.id, bob, "no"))
    for unknown in ("f" * 32, "", "a\0b", "x" * 99, "\ud800"):
        with raises(words, KeyError):
            store.answer(Answer("b", unknown, ann, "no"))
    assert [standing.value for standing in store.standing()] == ["no"]


def test_answers_that_come_together_do_not_spoil_each_other(begin, monkeypatch):
    store, ann, bob = begin(9)
    questions = store.ask(ann, 4)
    hold = threading.Event()
    blocked = store._writer.submit(lambda connection: hold.wait(300))
    sent = [Answer(f"a{i}", question.id, ann, "no") for i, question in enumerate(questions)]
    sent += [sent[0], Answer("x", "f" * 32, ann, "no"), Answer("y", questions[1].id, ann, "yes")]
    futures = [store.submit(each) for each in sent]
    futures += [store.submit(Ask(bob, 2)), store.submit(Ask("nobody")), store.submit(Undo("u", bob))]
    hold.set()
    assert blocked.result(300)
    assert [future.result(300) for future in futures[:5]] == [True] * 4 + [False]
    for future, error in ((futures[5], KeyError), (futures[6], Conflict), (futures[8], KeyError)):
        with pytest.raises(error):
            future.result(300)
    assert len(futures[7].result(300)) == 2
    assert futures[9].result(300) is None
    assert [standing.id for standing in store.standing()] == ["a0", "a1", "a2", "a3"]
    check_tallies(store)


def test_code_that_does_not_wait_may_await(begin):
    store, ann, _ = begin(40)

    async def answer_all():
        questions = await asyncio.wrap_future(store.submit(Ask(ann, 20)))
        sent = [Answer(secrets.token_hex(8), question.id, ann, "no") for question in questions]
        return await asyncio.gather(*(asyncio.wrap_future(store.submit(each)) for each in sent))

    assert asyncio.run(answer_all()) == [True] * 20


def test_standing_answers_since_a_number(begin):
    store, ann, _ = begin(5)
    for question in store.ask(ann, 5):
        reply(store, question, "no", took_ms=7)
    found = list(store.standing())
    assert [standing.seq for standing in found] == sorted(standing.seq for standing in found)
    assert list(store.standing(since=found[2].seq)) == found[3:]
    assert {standing.took_ms for standing in found} == {7}


# ---- undo ---------------------------------------------------------------------------------------------------------


def test_undo_takes_back_the_latest_answer_by_a_new_row(begin):
    store, ann, bob = begin(5)
    first, second = store.ask(ann, 2)
    (others,) = store.ask(bob)
    assert store.undo(ann, "u0") is None
    reply(store, first, "no")
    reply(store, second, "yes")
    reply(store, others, "no")
    before = list(store.rows("answer"))
    assert store.progress(ann).own == 2
    assert store.undo(ann, "u1") == second
    assert store.undo(ann, "u1") == second  # sent again
    assert store.progress(ann).own == 1
    rows = list(store.rows("answer"))
    assert rows[:3] == before
    assert [(row["value"], row["undoes"], row["question_id"]) for row in rows[3:]] == [
        ("undo", before[1]["id"], second.id)
    ]
    assert store.ask(ann) == [second]
    check_tallies(store)
    assert reply(store, second, "no")
    assert store.undo(ann, "u1") is None  # it was answered since
    assert [standing.value for standing in store.standing()] == ["no", "no", "no"]
    assert store.undo(ann, "u2") == second
    assert store.undo(ann, "u3") == first
    assert store.undo(ann, "u4") is None
    assert [standing.annotator for standing in store.standing()] == [bob]
    check_tallies(store)
    assert store.progress(bob).own == store.progress().answers == 1


def test_an_undo_takes_back_the_answer_that_it_names(begin):
    store, ann, bob = begin(5)
    questions = store.ask(ann, 3)
    for i, question in enumerate(questions):
        store.answer(Answer(f"a{i}", question.id, ann, "no"))
    assert store.undo(ann, "u", "a1") == questions[1]
    assert store.undo(ann, "u", "a1") == questions[1]  # sent again
    assert [standing.id for standing in store.standing()] == ["a0", "a2"]
    check_tallies(store)
    assert store.undo(ann, "v", "a1") is None  # it no longer stands, and no other goes in its place
    assert store.undo(ann, "v", "u") is None
    assert store.undo(ann, "v", "none") is None
    assert store.undo(bob, "v", "a0") is None  # not his
    assert [standing.id for standing in store.standing()] == ["a0", "a2"]
    with raises("an id must be 1 to 64 letters, digits, - and _; got 'a 0'", ValueError):
        store.undo(ann, "v", "a 0")


def test_an_undo_needs_an_id_of_its_own(begin):
    store, ann, bob = begin(3)
    (question,) = store.ask(ann)
    store.answer(Answer("a", question.id, ann, "no"))
    with raises("an undo's id must be its own; a is another's", Conflict):
        store.undo(ann, "a")
    store.undo(ann, "u")
    with raises("an undo's id must be its own; u is another's", Conflict):
        store.undo(bob, "u")
    with raises("an answer's id must be its own; u is another's", Conflict):
        store.answer(Answer("u", question.id, ann, "no"))


def test_an_item_decided_by_mistake_is_open_again(begin):
    store, ann, bob = begin(1)
    (question,) = store.ask(ann)
    reply(store, question, "yes")
    assert store.ask(bob) == []
    assert store.progress().closed == 1
    store.undo(ann, "u")
    assert store.progress().closed == 0
    assert [given.item for given in store.ask(bob)] == [question.item]


# ---- annotators ---------------------------------------------------------------------------------------------------


def test_tokens_open_the_door_until_they_are_revoked(begin):
    store, *_ = begin()
    (ann, link), (bob, second) = store.add_annotator("Ann", "owner"), store.add_annotator("Bob")
    token, other = store.admit(link), store.admit(second)
    assert len(link) >= 22  # 128 bits in base 64
    assert len(token) >= 22
    assert store.annotator_by_token(token) == ann
    assert store.annotator_by_token(other) == bob
    for wrong in ("", link, token[:-1], token + "x", token.swapcase(), hash_token(token), "\ud800", "a\0"):
        assert store.annotator_by_token(wrong) is store.admit(wrong) is None
    with store._database.reading() as connection:
        stored = str(connection.execute(select(schema.token)).all())
    assert token not in stored
    assert hash_token(token) in stored
    store.revoke(ann.id)
    assert store.annotator_by_token(token) is None
    assert store.annotator_by_token(other) == bob
    newer = store.admit(store.new_link(ann.id))
    assert store.annotator_by_token(newer) == ann
    assert store.annotator_by_token(token) is None
    with raises("the store must have the annotator; it has none with the id 'nobody'", KeyError):
        store.revoke("nobody")


def test_a_token_is_recalled_until_this_store_changes_it_or_a_few_seconds_passed(where, monkeypatch):
    with Store.open(where, project=PROJECT) as store, Store.open(where) as other:
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now)
        ann, link = store.add_annotator("Ann")
        token = store.admit(link)
        assert store.recall(token) is None  # never asked for
        assert store.annotator_by_token(token) == store.recall(token) == ann
        assert store.annotator_by_token("wrong") is store.recall("wrong") is None
        store.revoke(ann.id)
        assert store.recall(token) is store.annotator_by_token(token) is None
        token = store.admit(store.new_link(ann.id))
        assert store.annotator_by_token(token) == ann
        other.revoke(ann.id)  # as another server does
        assert store.annotator_by_token(token) is None
        assert store.recall(token) == ann
        monkeypatch.setattr(time, "monotonic", lambda: now + links.RECALL_SECONDS)
        assert store.recall(token) is None


def test_a_token_that_is_revoked_while_it_is_looked_up_is_not_recalled(begin, monkeypatch):
    store, *_ = begin()
    ann, link = store.add_annotator("Ann")
    token = store.admit(link)
    real = links._annotator

    def slow(row):  # the row was read; now, before it is remembered, the token is revoked
        monkeypatch.undo()
        store.revoke(ann.id)
        return real(row)

    monkeypatch.setattr(links, "_annotator", slow)
    assert store.annotator_by_token(token) == ann
    assert store.recall(token) is None
    with raises("the store must have the annotator; it has none with the id 'nobody'", KeyError):
        store.new_link("nobody")


def test_annotators_by_name_have_no_token_and_are_made_once(begin):
    store, ann, _ = begin()
    assert store.named_annotator("Ann").id == ann
    assert store.named_annotator("Ann", "owner").id != ann
    guest, _ = store.add_annotator("Ann")
    assert guest.id != ann
    assert [each.name for each in store.annotators()] == ["Ann", "Bob", "Ann", "Ann"]
    for name in ("", " ", "x" * 201, "a\0b", "\ud800"):
        with raises(f"an annotator's name must be 1 to 200 characters that can be printed; got {name[:50]!r}"):
            store.named_annotator(name)
    with raises("an annotator's role must be 'owner' or 'annotator'; got 'root'"):
        store.add_annotator("Eve", "root")


# ---- trainings, and whole tables ----------------------------------------------------------------------------------


def test_trainings_are_kept_in_order(begin):
    store, *_ = begin()
    for i in range(3):
        store.add_training(n_answers=i, method="forward", estimate=0.5, low=0.4, high=0.6, detail={"epochs": [i]})
    assert [(each.n_answers, each.detail) for each in store.trainings()] == [(i, {"epochs": [i]}) for i in range(3)]
    assert store.trainings()[0].low == 0.4


def filled(begin):
    store, ann, bob = begin(30, repeat_share=0.2)
    for name in [ann, bob] * 20:
        for question in store.ask(name, 2):
            reply(store, question, truth(question))
    store.undo(ann, "u1")
    store.add_annotator("Eve")
    store.add_training(n_answers=3, method="forward", estimate=0.5, low=0.4, high=0.6)
    return store


def test_a_copy_has_every_row(begin, tmp_path):
    store = filled(begin)
    tables = ("item", "annotator", "question", "answer", "training")
    with Store.open(tmp_path / "copy.db", project=store.project) as copy:
        for table in tables:
            rows = list(store.rows(table))
            assert copy.load(table, iter(rows)) == len(rows)
            assert copy.load(table, rows) == 0
            without = [{key: value for key, value in row.items() if key not in ("seq", "position")} for row in rows]
            there = copy.rows(table)
            assert [{key: row[key] for key in row if key not in ("seq", "position")} for row in there] == without
        check_tallies(copy)
        assert copy.progress() == store.progress()
        (question,) = copy.ask(next(iter(copy.annotators())).id)
        assert reply(copy, question, "no")
    assert {row["key"] for row in store.rows("meta")} == {"schema_version", "project", "created"}


def test_rows_that_do_not_fit_are_refused_whole(begin):
    store, ann, _ = begin(3)
    question = {"id": "q", "item_id": "nothing", "class_index": 0, "probability": 1.0, "annotator": ann}
    question |= {"repeat_of": None, "asked": 0.0, "guidance": None}
    with raises("a row must fit those it refers to; one does not ("):
        store.load("question", [question | {"id": "p", "item_id": next(iter(store.items())).id}, question])
    with raises(
        "a row of question must have the columns annotator, asked, class_index, guidance, id, item_id, n_classes, "
    ):
        store.load("question", [question | {"more": 1}])
    with raises("look at 'asked'"):
        store.load("question", [{key: question[key] for key in question if key != "asked"}])
    assert list(store.rows("question")) == []
    for use in (store.rows, lambda name: store.load(name, [])):
        with raises(
            "a table must be one of meta, item, annotator, question, answer, training, ruling, removed; got 'tally'"
        ):
            use("tally")


def test_an_answer_that_is_loaded_ends_the_waiting_for_it(begin):
    store, ann, _ = begin(3)
    (question,) = store.ask(ann)
    row = {"id": "a", "question_id": question.id, "annotator": ann, "value": "no", "took_ms": None, "answered": 0.0}
    assert store.load("answer", [row | {"undoes": None}]) == 1
    assert question not in store.ask(ann, 2)
    assert store.undo(ann, "u") == question
    check_tallies(store)


# ---- many at once -------------------------------------------------------------------------------------------------


def answer_for_a_while(store, name, n, sent):
    """Answer n questions, each sent twice now and then, as a page does on a bad network."""
    held = store.ask(name, 2)
    for i in range(n):
        if not held:
            break
        question = held.pop(0)
        given = Answer(secrets.token_hex(8), question.id, name, truth(question))
        assert store.answer(given) is True
        sent.append((given.id, question.id))
        if i % 5 == 0:
            assert store.answer(given) is False
        if i % 7 == 6:
            undone = store.undo(name, f"u-{given.id}")
            assert undone.id == question.id
            held.insert(0, undone)
        held += store.ask(name, 2 - len(held), holding=[each.id for each in held]) if len(held) < 2 else []


@pytest.mark.parametrize("n_stores", [1, 2])
def test_many_annotators_on_one_or_two_servers_lose_and_double_nothing(where, n_stores):
    project = replace(PROJECT, repeat_share=0.1)
    stores = [Store.open(where, project=project) for _ in range(n_stores)]
    stores[0].register(texts(300))
    sent, errors = [], []

    def work(i):
        try:
            store = stores[i % n_stores]
            answer_for_a_while(store, store.named_annotator(f"annotator {i}").id, 14, sent)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert errors == []
    rows = list(stores[-1].rows("answer"))
    assert sorted(row["id"] for row in rows if row["undoes"] is None) == sorted(id for id, _ in sent)
    assert len(rows) == len(sent) + sum(row["undoes"] is not None for row in rows)
    questions = [row["id"] for row in stores[0].rows("question")]
    assert len(questions) == len(set(questions))
    fresh = Counter(
        (standing.item_id, standing.class_index) for standing in stores[0].standing() if standing.repeat_of is None
    )
    assert set(fresh.values()) == {1}  # with items to spare, nobody was asked what somebody else was asked
    for store in stores:
        check_tallies(store)
        store.close()


def test_the_store_says_when_it_was_closed(begin):
    store, ann, _ = begin(1)
    store.close()
    with raises("the store must be open; it was closed; open it again", RuntimeError):
        store.ask(ann)


def test_the_name_of_a_store_is_for_people(where):
    with Store.open(where, project=PROJECT) as store:
        assert Path(where).name in store.name or "postgresql" in store.name


def test_however_many_ask_at_once_items_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    def candidates(connection, rows, busy):
        sizes.append(len(rows))
        return read(connection, rows, busy)

    sizes, read, drawn = [], drawing._candidates, []
    monkeypatch.setattr(drawing, "_candidates", candidates)
    for most in (500, 7):
        monkeypatch.setattr(drawing, "_MOST_ROWS", most)
        with Store.open(tmp_path / f"{most}.db", project=PROJECT) as store:
            store.register(texts(60))
            asks = [Ask(store.named_annotator(f"person {i}").id, 5) for i in range(10)]
            with store._database.writing() as connection:
                given = drawing.hand_out(connection, PROJECT, Random(0), asks)
            drawn.append([[(one.item.id, one.class_index, one.probability) for one in each] for each in given])
    assert sizes == [58, *[7] * 8]
    assert drawn[0] == drawn[1]
    assert len({one[0] for each in drawn[0] for one in each}) == 50
