"""Guided questions: each with the chance that is stored, none that shows an opinion, and estimates that stay right."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from sqlalchemy import event

from helpers import assert_frequencies, raises
from naysayer.collect import dashboard
from naysayer.collect.asking import describe
from naysayer.collect.comparing import _compared, compare_yes
from naysayer.collect.dashboard import Figures
from naysayer.collect.exchange import export, import_answers
from naysayer.collect.guiding import CHECKS, RANDOM, RELIABLE, Guide, combine, may_guide, random_share, read_guidance
from naysayer.collect.judging import (
    _any_class,
    _in_common,
    _Likeliest,
    class_shares,
    label_accuracy,
)
from naysayer.collect.languages import languages
from naysayer.collect.learn import add_training, train
from naysayer.collect.questions import Draw
from naysayer.collect.records import Answer, Project, Standing, Training
from naysayer.collect.store import Store
from naysayer.collect.trainer import Trainer
from naysayer.data.items import record_item, text_item
from naysayer.measure.adaptive import anytime_interval
from naysayer.measure.answer_errors import error_rates
from naysayer.measure.answer_estimates import class_priors
from naysayer.measure.answers import from_standing
from naysayer.measure.intervals import Interval

EXPECTED = np.array([[0.9, 0.05, 0.05], [0.4, 0.3, 0.3], [0.05, 0.9, 0.05], [0.98, 0.01, 0.01]])
NAMES = ("a", "b", "c", "d")


def guide_of(expected=EXPECTED, votes=None, error_rate=0.02, **options):
    votes = np.zeros(expected.shape, dtype=np.int64) if votes is None else np.asarray(votes)
    return Guide(NAMES[: len(expected)], expected, votes, error_rate, training=1.0, **options)


STANDING = Standing(1, "answer", "question", "a", 0, 0.5, "Ann", "yes", None, None, 0.0)


def votes(*given):
    return np.array(given, dtype=np.int64)


# ---- the guide ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("goal", ["labels", "model", "accuracy"])
@pytest.mark.parametrize("unavailable", [(), ("b",)])
def test_the_stored_chances_are_the_true_ones(goal, unavailable):
    guide, random = guide_of(goal=goal), Random(5)
    guide.update({"d": (votes(1, 0, 0), 1)})  # settled, and still has a chance
    counts, told = np.zeros((4, 3)), np.zeros((4, 3))
    for _ in range(6_000):
        drawn = guide.draw(random, guide.places(unavailable), lambda item: {2} if item == "c" else ())
        i = NAMES.index(drawn.item_id)
        counts[i, drawn.class_index] += 1
        told[i, drawn.class_index] = read_guidance(drawn.guidance).item_probability * drawn.probability
    assert told.sum() == pytest.approx(1)
    assert_frequencies(counts.ravel(), told.ravel())
    assert (told > 0).sum() == 12 - 1 - 3 * len(unavailable)
    if not unavailable:
        assert told[3].sum() == pytest.approx((RANDOM + CHECKS[goal]) / 4)
        assert told[3, 1] == pytest.approx(RANDOM / 4 / 3)


def test_goals_prefer_other_items():
    share = {}
    for goal in ("labels", "model"):
        guide, random = guide_of(goal=goal), Random(0)
        share[goal] = np.mean([guide.draw(random).item_id == "b" for _ in range(500)])  # the one that is unsure
    assert share["labels"] < 0.25 < share["model"]


def test_a_yes_settles_what_was_likely_and_not_what_was_not():
    guide = guide_of()
    guide.update({"a": (votes(1, 0, 0), 1), "c": (votes(1, 0, 0), 1)})
    assert guide.settled.tolist() == [True, False, False, False]
    assert guide.probabilities[2].argmax() in (0, 1)
    guide.update({"c": (votes(2, 0, 0), 2)})  # said twice
    assert guide.settled.tolist() == [True, False, True, False]
    guide.update({"a": (votes(0, 0, 0), 0)})  # taken back
    assert guide.settled.tolist() == [False, False, True, False]
    assert guide.probabilities[0] == pytest.approx(EXPECTED[0])


def test_a_model_alone_settles_nothing_and_all_other_classes_ruled_out_do():
    guide = guide_of()
    assert not guide.settled.any()
    guide.update({"b": (votes(0, -1, -1), 2)})
    assert guide.settled.tolist() == [False, True, False, False]


def test_an_item_with_enough_answers_is_left_alone_and_one_that_nobody_can_tell_comes_rarely():
    guide = guide_of(enough=2)
    guide.update({"a": (votes(0, -1, -1), 2), "b": (votes(0, -1, 0), 1)})
    assert guide.settled.tolist() == [True, False, False, False]
    guide, random = guide_of(), Random(0)
    guide.update({"a": (votes(0, 0, 0), 99)})
    assert np.mean([guide.draw(random).item_id == "a" for _ in range(1000)]) < (RANDOM + CHECKS["labels"]) / 4 + 0.04


def test_without_some_items_a_guide_is_as_if_they_had_never_been_there():
    whole, never = guide_of(), Guide(("a", "c"), EXPECTED[[0, 2]], votes((0, 0, 0), (0, 0, 0)), 0.02, training=1.0)
    whole.update({"d": (votes(1, 0, 0), 1), "c": (votes(0, 1, 0), 1)})
    never.update({"c": (votes(0, 1, 0), 1)})
    fewer = whole.among({"a", "c"})
    for guide in (fewer, never):
        assert guide.decided.tolist() == guide.settled.tolist() == [False, True]
    fewer.update({"a": (votes(1, 0, 0), 1), "d": (votes(2, 0, 0), 2)})
    never.update({"a": (votes(1, 0, 0), 1)})
    assert fewer.decided.tolist() == [True, True]
    np.testing.assert_allclose(fewer.probabilities, never.probabilities)
    assert whole.decided.tolist() == [False, False, True, True]


def test_there_is_an_end():
    guide = guide_of()
    guide.update({name: (votes(3, 0, 0), 3) for name in NAMES})
    assert guide.draw(Random(0)) is None
    assert guide_of().draw(Random(0), np.ones(len(NAMES), dtype=bool)) is None
    assert guide_of().draw(Random(0), excluded=lambda item: {0, 1, 2}) is None


def test_the_mean_certainty_is_kept_up_to_date():
    guide = guide_of()
    guide.update({"a": (votes(-1, 0, 0), 1), "b": (votes(1, 0, 0), 1)})
    told = read_guidance(guide.draw(Random(0)).guidance)
    assert told.certainty == pytest.approx(guide.probabilities.max(axis=1).mean())
    best = guide.probabilities.argmax(axis=1)
    each = [guide.probabilities[best == k, k].sum() / 4 for k in range(3)]
    assert told.likely == pytest.approx(each, abs=1e-7)
    assert read_guidance(guide.among({"a", "c"}).draw(Random(0)).guidance).likely == pytest.approx(
        [guide.probabilities[[0, 2]][best[[0, 2]] == k, k].sum() / 2 for k in range(3)], abs=1e-7
    )
    assert told.n_items == 4


def test_an_item_that_came_later_is_not_guided():
    guide = guide_of()
    guide.update({"new": (votes(1, 0, 0), 1)})
    assert not guide.settled.any()


def test_a_model_guides_when_surely_twice_as_good_as_chance_and_every_class_was_found():
    found, missing = np.full(10, 2), np.array([1] + [9] * 9)
    assert [may_guide(accuracy, found) for accuracy in (0.19, 0.2, 0.5)] == [False, True, True]
    assert [may_guide(accuracy, missing) for accuracy in (0.2, 0.59, RELIABLE)] == [False, False, True]
    for n_classes in (2, 3):  # where twice chance is more than what suffices anyway
        assert [may_guide(accuracy, np.full(n_classes, 9)) for accuracy in (0.59, RELIABLE)] == [False, True]


def test_combining_is_the_product_of_what_model_and_people_say():
    p, said = np.array([[0.5, 0.3, 0.2]]), votes([0, 2, -1])
    odds = 0.95 / 0.05
    expected = (0.9 * p[0] + 0.1 / 3) * np.array([1, odds**2, 1 / odds])
    np.testing.assert_allclose(combine(p, said, 0.05)[0], expected / expected.sum())


def test_what_is_given_must_hold():
    with raises("`goal` must be one of labels, model, accuracy; got 'fame'"):
        guide_of(goal="fame")
    with raises("a question's guidance must be what `ask` stored; got '{}'"):
        read_guidance("{}")
    told = json.loads(guide_of().draw(Random(0)).guidance)
    for odd in ([0.5, None], [float("nan")], 0.5):
        with raises("a question's guidance must be what `ask` stored; got '{"):
            read_guidance(json.dumps(told | {"likely": odd}))
    for name, value in (("questions", "all"), ("goal", "fame")):
        with raises(f"`{name}` must be one of "):
            Project(("a", "b"), **{name: value})


# ---- in a store --------------------------------------------------------------------------------------------------


def begin(where, n=40, **options):
    """A store of n records that a guide knows about, and their classes; the guide is right about nine of ten."""
    store = Store.open(
        where, project=Project(("low", "mid", "high"), **{"questions": "guided"} | options), random_state=3
    )
    items = [record_item({"height": i}, f"row {i}") for i in range(n)]
    store.register(items)
    truth = {item.id: i % 3 for i, item in enumerate(items)}
    ids = sorted(truth)
    likely = np.array([truth[id] if j % 10 else (truth[id] + 1) % 3 for j, id in enumerate(ids)])
    expected = np.full((n, 3), 0.1)
    expected[np.arange(n), likely] = 0.8
    detail = {"guides": True, "last_answer": 0, "error_rate": 0.0, "shares": expected.mean(axis=0).tolist()}
    store.add_belief(5.0, ids, expected, np.zeros((n, 3), dtype=np.int64))
    store.add_training(n_answers=0, method="mlp", estimate=0.9, low=0.8, high=1.0, detail=detail, at=5.0)
    return store, truth


def answer_all(store, truth, most=10_000, habit=0.0, seed=0):
    rng, who = np.random.default_rng(seed), store.named_annotator("Ann").id
    said = 0
    while said < most and (asked := store.ask(who, 5)):
        for question in asked:
            yes = question.class_index == truth[question.item.id] or rng.random() < habit
            store.answer(Answer(f"answer-{question.id}", question.id, who, "yes" if yes else "no"))
            said += 1
    return said


def test_questions_are_guided_stored_with_their_chances_and_come_to_an_end(where):
    store, truth = begin(where)
    with store:
        assert store.guide() is not None
        n = answer_all(store, truth)
        assert n < 40 * 2.2  # at random, 40 * 2 would rule out or name each, and more
        given = list(store.standing())
        guided = [one for one in given if one.guidance]
        assert len(guided) > 0.85 * len(given)  # the rest repeats
        assert all(one.repeat_of is not None for one in given if not one.guidance)
        assert {read_guidance(one.guidance).training for one in guided} == {5.0}
        yes = {(one.item_id, one.class_index) for one in given if one.value == "yes"}
        assert yes == set(truth.items())


def test_many_questions_take_no_more_statements_than_one(where):
    """Answers wait while questions are drawn, so that these must not ask the database for each."""
    store, _ = begin(where, repeat_share=0.0)
    with store:
        store.guide()
        statements: list[str] = []
        event.listen(store._database._engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
        counts = []
        for name, n in (("Ann", 1), ("Bob", 1), ("Cay", 8)):
            who = store.named_annotator(name).id
            statements.clear()
            assert len(store.ask(who, n)) == n
            counts.append(len(statements))
        assert counts[1] == counts[2] > 0  # the first one reads the project, too


def test_a_restart_continues_from_what_is_stored(where):
    store, truth = begin(where)
    with store:
        store.guide()
        answer_all(store, truth, most=20)
        before = store._guide.probabilities.copy()
    with Store.open(where) as again:
        assert again.project.questions == "guided"
        guide = again.guide()
        np.testing.assert_allclose(guide.probabilities, before, atol=1e-6)
        answer_all(again, truth)
        assert guide.settled.all()


def test_an_undo_reaches_the_guide(where):
    store, _ = begin(where, repeat_share=0.0)
    with store:
        guide, ann = store.guide(), store.named_annotator("Ann").id
        before = guide.probabilities.copy()
        (question,) = store.ask(ann)
        store.answer(Answer("one", question.id, ann, "yes"))
        assert not np.allclose(guide.probabilities, before)
        store.undo(ann, "two")
        np.testing.assert_allclose(guide.probabilities, before)


def train_again(store, at=9.0):
    """A training that expects what the last one did, of the same items, and has seen all answers."""
    detail = store.trainings()[-1].detail | {"last_answer": max(row["seq"] for row in store.rows("answer"))}
    guide = store._guide
    store.add_belief(at, guide.items, guide.expected, np.zeros(guide.expected.shape, dtype=np.int64))
    store.add_training(n_answers=1, method="mlp", estimate=0.9, low=0.8, high=1.0, detail=detail, at=at)


def test_a_guide_hears_what_is_said_on_another_server(where):
    store, truth = begin(where, repeat_share=0.0)
    with store, Store.open(where) as other:
        guide, ann = store.guide(), store.named_annotator("Ann").id
        other.guide()
        (question,) = store.ask(ann)
        store.answer(Answer("here", question.id, ann, "skip"))
        other.undo(ann, "there")
        store.ask(ann)
        np.testing.assert_allclose(guide._weights, other._guide._weights)
        answer_all(other, truth)
        assert store.ask(store.named_annotator("Ben").id) == []
        assert guide.settled.all()


def test_a_training_forgets_neither_who_could_not_tell_nor_what_is_enough(tmp_path):
    store, _ = begin(tmp_path / "answers.db", n=6, repeat_share=0.0, answers_per_item=2)
    with store:
        store.guide()
        for i in range(8):
            ann = store.named_annotator(("Ann", "Ben")[i % 2]).id
            (question,) = store.ask(ann)
            store.answer(Answer(f"answer-{i}", question.id, ann, "skip"))
        before = store._guide._weights.copy()
        assert before.min() == 0
        train_again(store)
        np.testing.assert_allclose(store.guide()._weights, before, atol=1e-6)


def test_beliefs_without_their_training_are_not_read_and_older_ones_go(where):
    store, _ = begin(where)
    with store:
        store.add_belief(9.0, sorted(item.id for item in store.items()), np.full((40, 3), 1 / 3), np.zeros((40, 3)))
        assert store.guide().training == 5.0  # the training of 9.0 never ended
        detail = store.trainings()[-1].detail
        store.add_training(n_answers=1, method="mlp", estimate=0.9, low=0.8, high=1.0, detail=detail, at=9.0)
        assert store.guide().training == 9.0
        with store._database.reading() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM belief").scalar() == 40


def test_without_a_reliable_model_questions_are_random(tmp_path):
    project = Project(("low", "high"), questions="guided")
    with Store.open(tmp_path / "answers.db", project=project, random_state=0) as store:
        store.register([text_item("one", "1"), text_item("two", "2")])
        assert store.guide() is None
        store.add_training(n_answers=0, method="mlp", estimate=0.4, low=0.1, high=0.8, detail={"guides": False})
        assert store.guide() is None
        ann = store.named_annotator("Ann").id
        (question,) = store.ask(ann)
        store.answer(Answer("one", question.id, ann, "no"))
        assert [one.guidance for one in store.standing()] == [None]


def test_items_that_the_model_has_not_seen_come_at_the_end_at_random(tmp_path):
    store, truth = begin(tmp_path / "answers.db", n=12)
    with store:
        late = record_item({"height": 99}, "late")
        store.register([late])
        store.guide()
        answer_all(store, truth | {late.id: 0})
        assert {one.item_id for one in store.standing() if not one.guidance and one.repeat_of is None} == {late.id}


def test_a_person_is_not_asked_again_where_they_could_not_tell(tmp_path):
    store, _ = begin(tmp_path / "answers.db", n=6, repeat_share=0.0)
    with store:
        store.guide()
        ann, seen, n_free, n_checked = store.named_annotator("Ann").id, set(), 6, 0
        while asked := store.ask(ann):
            (question,) = asked
            assert (question.item.id, question.class_index) not in seen
            seen.add((question.item.id, question.class_index))
            store.answer(Answer(f"answer-{question.id}", question.id, ann, "skip"))
            *_, one = store.standing()
            how, p = read_guidance(one.guidance), one.probability
            if how.suggested == one.class_index and how.n_left > 1:  # the chance of any item then follows from it
                any_item = how.item_probability * (1 - p) * how.n_left / (how.n_left - 1)
                assert any_item == pytest.approx(RANDOM / n_free)
                n_checked += 1
            n_free = 6 - sum(n == 3 for n in Counter(item for item, _ in seen).values())
        assert n_checked > 3
        assert len(seen) == 6 * 3


def test_the_page_never_learns_what_the_model_thinks(tmp_path):
    store, _ = begin(tmp_path / "answers.db")
    with store:
        store.guide()
        for question in store.ask(store.named_annotator("Ann").id, 10):
            assert describe(store.project, question, languages()["en"]).keys() == {
                "id",
                "before",
                "class",
                "after",
                "item",
            }


def test_guidance_survives_export_and_import(tmp_path):
    store, truth = begin(tmp_path / "answers.db")
    with store:
        store.guide()
        answer_all(store, truth)
        before = [replace(one, seq=0) for one in store.standing()]
        for ending in (".csv", ".jsonl", ".json"):
            export(store, tmp_path / f"out{ending}")
            with Store.open(tmp_path / f"again{ending}.db", project=store.project) as again:
                import_answers(again, tmp_path / f"out{ending}")
                assert [replace(one, seq=0) for one in again.standing()] == before
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        if row.get("guidance"):
            row["guidance"] = "{}"
    (tmp_path / "odd.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with (
        Store.open(tmp_path / "odd.db", project=Project(("low", "mid", "high"))) as odd,
        raises("a question's guidance must be what `ask` stored; got '{}'; see line "),
    ):
        import_answers(odd, tmp_path / "odd.jsonl")


def test_a_store_of_version_2_gets_the_column(tmp_path):
    store, truth = begin(tmp_path / "answers.db", questions="random")
    with store:
        answer_all(store, truth, most=10)
    with sqlite3.connect(tmp_path / "answers.db") as connection:
        connection.executescript(
            "DROP TABLE belief; DROP TRIGGER answer_no_delete; DROP TABLE removed;"
            "ALTER TABLE question DROP COLUMN guidance;"
            "UPDATE meta SET value = '2' WHERE key = 'schema_version'"
        )
    connection.close()
    with Store.open(tmp_path / "answers.db") as again:
        assert len(list(again.standing())) == 10
        assert again.guide() is None


# ---- what guided answers tell ------------------------------------------------------------------------------------


def test_estimates_of_random_questions_leave_guided_answers_out_but_for_class_shares(tmp_path, monkeypatch):
    store, truth = begin(tmp_path / "answers.db", questions="random")
    with store:
        answer_all(store, truth, most=40)
        n = len(list(store.standing()))
        store.configure(questions="guided")
        before = Figures(store)()
        assert not before["guided_shares"]
        store.guide()
        answer_all(store, truth)
        given = list(store.standing())
        said = from_standing(given, store.project.classes)
        assert said.guided.tolist() == [False] * n + [True] * (len(given) - n)
        only = from_standing(given[:n], store.project.classes)
        monkeypatch.setattr(dashboard, "is_vague", lambda interval: False)
        figures = Figures(store)()
        assert figures["guided_shares"]
        assert figures["guided"]["items"] == 40
        assert [one["margins"]["guided"] for one in (before, figures)] == [False, True]
        assert figures["margins"]["answers"] == before["margins"]["answers"] < n  # guided ones and repeats tell nothing
        common = class_shares(given, said, store.trainings(), error_rates(said).overall)
        np.testing.assert_allclose(figures["report"]["priors"], np.transpose(common))
        assert len(said.design.item) == len(only.design.item)
        assert np.abs(said.votes).sum() > np.abs(only.votes).sum()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Random questions first, then guided ones."""
    store, truth = begin(tmp_path_factory.mktemp("honest") / "answers.db", n=600, questions="random", repeat_share=0.0)
    with store:
        answer_all(store, truth, most=600)
        store.configure(questions="guided")
        store.guide()
        answer_all(store, truth, most=500, seed=1)
        return list(store.standing()), store.project.classes


def test_label_accuracy_is_told_and_random_and_guided_answers_agree(honest):
    given, classes = honest
    found = label_accuracy(given, 3, Interval(0.0, 0.0, 0.02))
    assert found.low < 0.97 < found.high + 0.03  # nine of ten before, and better by now
    assert found.high - found.low < 0.25
    compared = compare_yes(given, classes, Interval(0.0, 0.0, 0.02))
    assert (compared.differing, compared.too_many) == ([], False)
    *each, together = compared.classes
    assert (together.n_random, together.n_guided) == (sum(c.n_random for c in each), sum(c.n_guided for c in each))
    guided = [read_guidance(one.guidance) for one in given if one.guidance]
    assert together.n_random < compared.n_any == sum(how.by_chance for how in guided)
    assert min(together.random, together.guided) > 0.6 > compared.yes_any


def guided_project(
    n=400,
    n_answers=700,
    n_random=0,
    right=0.75,
    goal="accuracy",
    error=0.0,
    suggested=0.0,
    always=0.0,
    seed=2,
    y=None,
    at=1.0,
):
    """Answers of a project that a guide draws, after random ones about as many items; the trainings; the guide.

    Item i is of class i % 3 unless y says otherwise, and the guide is right about some at first. People say yes to some
    of the wrong classes that are suggested, or to some of all.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    y, expected = np.arange(n) % 3 if y is None else y, np.full((n, 3), 0.15)
    expected[np.arange(n), np.where(rng.random(n) < right, y, (y + 1) % 3)] = 0.7
    detail = {"guides": True, "shares": expected.mean(axis=0).tolist()}
    training = Training(0, at, n_random, "mlp", 0.7, 0.6, 0.8, detail)
    guide, votes, given = Guide([f"{i}" for i in range(n)], expected, np.zeros((n, 3), int), 0.01, at, goal), {}, []
    for t in range(n_random + n_answers):
        drawn = guide.draw(random) if t >= n_random else Draw(f"{t}", random.randrange(3), 1 / 3)
        if drawn is None:
            break
        i, k = int(drawn.item_id), drawn.class_index
        yes = (k == y[i]) != (random.random() < error)
        guidance = getattr(drawn, "guidance", None)
        how = guidance and read_guidance(guidance)
        follows = how and how.suggested == k and not how.by_chance and random.random() < suggested
        yes = bool(yes or follows or random.random() < always)
        about = (drawn.item_id, k, drawn.probability, "Ann", "yes" if yes else "no", None, None, float(t))
        given.append(Standing(t, f"answer-{t}", f"question-{t}", *about, guidance=guidance))
        votes.setdefault(i, np.zeros(3, int))[k] += 1 if yes else -1
        guide.update({drawn.item_id: (votes[i], int(np.abs(votes[i]).sum()))})
    return given, [training], guide


def test_label_accuracy_is_about_the_labels_as_they_are_now():
    """Most answers make another label right, so that an average over all of them lags behind."""
    given, _, guide = guided_project()
    right = np.mean(guide.probabilities.argmax(axis=1) == np.arange(400) % 3)
    found = label_accuracy(given, 3, Interval(0.0, 0.0, 0.0))
    assert found.low <= right <= found.high < right + 0.2
    values = np.array([one.value == "yes" for one in given if read_guidance(one.guidance).suggested == one.class_index])
    assert anytime_interval(values, 0, 1).high < right  # what went before would have hidden it


class Chosen:
    """The draws of a generator, as somebody chose them: the kind of question, a place among weights, item and class."""

    def __init__(self, kind, place, i, k):
        self.told, self.i, self.k = [kind, place], i, k

    def random(self):
        return self.told.pop(0)

    def randrange(self, n):
        return self.i

    def choice(self, left):
        return left[self.k]


def every_draw(guide, n_classes):
    """All that a guide may draw, each with its probability, which nothing that it stores has a part in."""
    n, checks = len(guide.items), CHECKS["labels"]
    for i in range(n):
        for k in range(n_classes):
            yield RANDOM / n / n_classes, guide.draw(Chosen(0.0, None, i, k))
        yield checks / n, guide.draw(Chosen(RANDOM + checks / 2, None, i, None))
    ends = np.cumsum(guide._weights)
    for share, end in zip(guide._weights, ends):
        if share:
            yield (
                (1 - RANDOM - checks) * share / ends[-1],
                guide.draw(Chosen(0.9, (end - share / 2) / ends[-1], 0, None)),
            )


@pytest.mark.parametrize("chosen", [[True, False, False], [False, True, True]])
def test_values_of_guided_answers_are_unbiased_by_enumeration(chosen):
    """Over all draws and answers of two questions: shares, and how many items are of their likeliest class."""
    y, chosen, error, k = np.array([0, 1, 0]), np.array(chosen), 0.1, 3
    expected = np.array([[0.6, 0.3, 0.1], [0.5, 0.2, 0.3], [0.2, 0.1, 0.7]])
    shares = expected.mean(axis=0).tolist()
    total, unbiased = 0.0, np.zeros(k)

    def go(said, rows, probability):
        nonlocal total, unbiased
        guide = guide_of(expected, error_rate=error)
        guide.update({NAMES[i]: (v, int(np.abs(v).sum())) for i, v in enumerate(said)})
        true = float((chosen[y] & (guide.probabilities.argmax(axis=1) == y)).mean())
        assert true <= chosen[y].mean()  # never more than the share
        mean = 0.0
        for drawing, drawn in every_draw(guide, k):
            i, c = NAMES.index(drawn.item_id), drawn.class_index
            for value in ("yes", "no"):
                p = drawing * (1 - error if (y[i] == c) == (value == "yes") else error)
                one = Standing(0, "", "", drawn.item_id, c, drawn.probability, "", value, None, None, 0.0)
                row = (one, read_guidance(drawn.guidance))
                base = np.array([np.array(row[1].likely)[chosen].sum()])
                m, low, high = _Likeliest.of([row], k).values(error, chosen, base)
                assert low <= m <= high
                mean += p * float(m[0])
                if rows:
                    total += probability * p
                    unbiased += probability * p * _any_class([*rows, row], [shares] * 2, error).mean(axis=0)
                else:
                    now = said.copy()
                    now[i, c] += 1 if value == "yes" else -1
                    go(now, [row], p)
        assert mean == pytest.approx(true, abs=1e-7)

    go(np.zeros((3, k), dtype=np.int64), [], 1.0)
    assert total == pytest.approx(1)
    assert unbiased == pytest.approx([2 / 3, 1 / 3, 0], abs=1e-9)


def test_guided_answers_narrow_the_shares_of_classes_which_stay_right_at_every_look():
    missed, alone, together = np.zeros(3), [], []
    truth, rates = np.full(3, 1 / 3), Interval(0.02, 0.01, 0.03)
    for seed in range(5):
        given, trainings, _ = guided_project(300, 900, 120, 0.9, error=0.02, seed=seed)
        wrong = np.zeros(3, dtype=bool)
        for n in (200, 500, len(given)):
            answers = from_standing(given[:n], ("a", "b", "c"))
            found = class_shares(given[:n], answers, trainings, rates)
            assert (found.low <= found.estimate).all()
            assert (found.estimate <= found.high).all()
            wrong |= (truth < found.low) | (found.high < truth)
        missed += wrong
        common = class_priors(answers)
        alone.append(common.high - common.low)
        together.append(found.high - found.low)
    assert missed.sum() <= 3  # of 15, 0.75 are expected at most
    assert np.mean(together) < 0.8 * np.mean(alone)


def test_what_was_told_of_fewer_items_is_not_told_of_all_of_them():
    """Items that were added are of other classes: neither random answers of before nor older guides know of them."""
    few = np.repeat([0, 1], [180, 20])
    all_of_them = np.concatenate([few, np.repeat([1, 2], [700, 100])])
    first, earlier, _ = guided_project(n=200, n_random=100, n_answers=300, y=few)
    later, trainings, guide = guided_project(n=1000, y=all_of_them, at=2.0)
    given = [replace(one, id=f"{i}", question_id=f"q{i}") for i, one in enumerate([*first, *later])]
    none_wrong = Interval(0.0, 0.0, 0.0)
    said = from_standing(given, ("a", "b", "c"))
    estimate, low, high = class_shares(given, said, earlier + trainings, none_wrong)
    assert (low <= [0.18, 0.72, 0.1]).all()
    assert (high >= [0.18, 0.72, 0.1]).all()
    assert ((low <= estimate) & (estimate <= high)).all()
    assert (high - low).max() < 0.6
    right = np.mean(guide.probabilities.argmax(axis=1) == all_of_them)
    assert label_accuracy(given, 3, none_wrong) == label_accuracy(given[-len(later) :], 3, none_wrong)
    assert label_accuracy(given, 3, none_wrong).low <= right


def test_parts_that_contradict_each_other_leave_all_that_either_allows():
    low, high = _in_common((np.array([0.1, 0.1]), np.array([0.4, 0.2])), (np.array([0.3, 0.6]), np.array([0.9, 0.7])))
    assert (low.tolist(), high.tolist()) == ([0.3, 0.1], [0.4, 0.7])


def test_where_guided_answers_tell_nothing_of_shares():
    given, trainings, _ = guided_project(n_answers=40, n_random=60)
    rates = Interval(0.0, 0.0, 0.01)
    said = from_standing(given, ("a", "b", "c"))
    assert class_shares(given, said, trainings, rates) is not None
    assert class_shares(given[:60], from_standing(given[:60], ("a", "b", "c")), trainings, rates) is None
    added = replace(said, drawn_from=np.full(100, 3))  # a class was added
    assert class_shares(given, added, trainings, rates) is None
    before = [replace(one, guidance=one.guidance and without_likely(one.guidance)) for one in given]
    assert class_shares(before, said, trainings, rates) is None
    late = given[60:]  # nothing was asked at random
    bounds = class_shares(late, from_standing(late, ("a", "b", "c")), [], rates)
    assert (bounds.low < 1 / 3).all()
    assert (bounds.high > 1 / 3).all()


def without_likely(guidance):
    told = json.loads(guidance)
    del told["likely"]
    return json.dumps(told)


def test_what_is_unknown_of_the_error_rate_widens_the_interval_by_all_that_it_changes(honest):
    given, _ = honest
    at = [label_accuracy(given, 3, Interval(e, e, e)) for e in (0.02, 0.0, 0.1)]
    found = label_accuracy(given, 3, Interval(0.02, 0.0, 0.1))
    assert found == (at[0].estimate, min(one.low for one in at), max(one.high for one in at))
    assert found.low < at[0].low or found.high > at[0].high
    assert label_accuracy(given, 3, Interval(0.3, 0.2, 0.499)) == label_accuracy(given, 3, Interval(0.3, 0.2, 0.45))


@pytest.mark.parametrize(("habit", "found"), [(0.0, False), (0.4, False), (1.0, True)])
def test_who_says_yes_to_suggestions_alone_is_found(habit, found):
    """At any look; and what is said of the difference holds, found or not."""
    named, within, rates = 0, 0, Interval(0.0, 0.0, 0.02)
    for seed in range(6):
        given, _, _ = guided_project(600, 800, right=0.6, goal="labels", suggested=habit, seed=seed)
        looks = [compare_yes(given[:n], ("a", "b", "c"), rates) for n in (200, 500, len(given))]
        named += any(one.differing for one in looks)
        assert not looks[-1].too_many
        _, low, high = looks[-1].difference
        wrong = [one for one in given if read_guidance(one.guidance).suggested != int(one.item_id) % 3]
        within += low <= habit * min(1.0, len(wrong) / len(given)) <= high
    assert named >= 5 if found else named == 0
    assert within >= 5


def test_a_slighter_habit_is_found_with_more_answers_and_either_way():
    """Two of five wrong suggestions are followed, or as many right ones refused; one question in ten is random."""
    rng = np.random.default_rng(0)
    by_chance, right, share = rng.random(4000) < 0.1, rng.random(4000) < 0.6, np.full(4000, 0.1)
    follows = right | (~by_chance & (rng.random(4000) < 0.4))
    refuses = right & (by_chance | (rng.random(4000) < 0.6))
    p_values = [_compared("all", yes, by_chance, share).p_value for yes in (right, follows, refuses)]
    assert p_values[0] > 0.05
    assert max(p_values[1:]) < 0.001


def test_who_says_yes_too_often_to_all_guided_questions_is_found():
    given, _, _ = guided_project(300, 500, always=0.8)
    compared = compare_yes(given, ("a", "b", "c"), Interval(0.0, 0.0, 0.05))
    assert compared.differing == []  # nobody sees which are random
    assert compared.too_many
    assert compared.yes_any > 0.7 > compared.most_any == pytest.approx(0.95 / 3 + 0.05 * 2 / 3)


def test_which_questions_about_the_suggested_class_are_random_is_known():
    """In what people may see, their share is the probability that follows from what is stored."""
    guide, random, seen = guide_of(), Random(1), []
    for _ in range(6_000):
        drawn = guide.draw(random, guide.places("b"), lambda item: {2} if item == "c" else ())
        how = read_guidance(drawn.guidance)
        share = random_share(how, replace(STANDING, class_index=drawn.class_index, probability=drawn.probability))
        assert (share is None) == (how.suggested != drawn.class_index)
        assert how.n_left == (2 if drawn.item_id == "c" else 3)
        if share is not None:
            seen.append((drawn.item_id, share, how.by_chance))
    for name in ("a", "c", "d"):
        shares, by_chance = np.array([(share, chance) for item, share, chance in seen if item == name]).T
        assert np.ptp(shares) < 1e-9
        assert_frequencies(np.array([by_chance.sum(), (1 - by_chance).sum()]), np.array([shares[0], 1 - shares[0]]))
    assert random_share(replace(how, n_left=None), STANDING) is None


def test_nothing_is_told_before_there_are_guided_answers():
    assert label_accuracy([], 3, Interval(0.0, 0.0, 0.1)) is None
    compared = compare_yes([], ("a", "b"), Interval(0.0, 0.0, 0.1))
    assert (compared.differing, compared.difference, compared.too_many) == ([], None, False)


# ---- with a real model ----------------------------------------------------------------------------------------------


def test_the_trainer_turns_guidance_on_when_the_model_is_reliable(tmp_path):
    path = tmp_path / "answers.db"
    with Store.open(path, project=Project(("low", "high")), random_state=0) as store:
        items = [record_item({"height": i}, f"row {i}") for i in range(150)]
        store.register(items)
        truth = {item.id: int(i >= 75) for i, item in enumerate(items)}
        answer_all(store, truth, most=100)
        store.configure(questions="guided")
        with Trainer(store, every=40, seconds=0.01, max_epochs=5, n_seeds=2, device="cpu") as trainer:
            until = time.monotonic() + 300
            while store._guide is None and trainer.error is None and time.monotonic() < until:
                time.sleep(0.02)
            assert trainer.error is None
            answer_all(store, truth, most=10)
        detail = store.trainings()[-1].detail
        assert detail["guides"]
        assert sum(detail["shares"]) == pytest.approx(1, abs=1e-6)
        assert any(one.guidance for one in store.standing())


@pytest.mark.parametrize(("found", "guides"), [(4, [False, True, True]), (3, [False, False, True])])
def test_what_guides_depends_on_the_accuracy_and_on_the_classes_that_were_found(tmp_path, found, guides):
    with Store.open(
        tmp_path / "answers.db", project=Project(tuple("abcd"), questions="guided"), random_state=0
    ) as store:
        items = [record_item({"height": i}, f"row {i}") for i in range(80)]
        store.register(items)
        answer_all(store, {item.id: i * found // 80 for i, item in enumerate(items)}, most=200)
        trained = train(store, network="linear", max_epochs=5, n_seeds=2, device="cpu")
        for low in (0.49, 0.5, 0.6):
            trained.model.estimated_accuracy_ = Interval(0.8, low, 0.9)
            add_training(store, trained)
        assert [one.detail["guides"] for one in store.trainings()] == guides
