"""Labels out of a store: they are right as often as they claim, say who knows them, and no spreadsheet runs them."""

from __future__ import annotations

import csv
import io
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_digits

from helpers import raises
from naysayer.collect import labels as out
from naysayer.collect import learn
from naysayer.collect.dashboard import Figures
from naysayer.collect.exchange import export, import_answers, read_project
from naysayer.collect.guiding import Guidance
from naysayer.collect.labels import doubtful, label_items
from naysayer.collect.store import Answer, Project, Store
from naysayer.common.cells import csv_text, guarded, read_csv, unguarded
from naysayer.common.words import count
from naysayer.data.items import fields_beside, image_item, read_items, record_item, text_item
from naysayer.features import photos
from naysayer.measure.answers import Answers
from naysayer.measure.settling import Calibration, class_shares, log_likelihoods, posterior, settled

QUICK = {"network": "linear", "max_epochs": 10, "n_seeds": 5}


def answer_all(store, truth, n, error=0.0, seed=0, names=("Ann",)):
    """Let simulated annotators answer n questions; `truth` gives the class of an item's id."""
    rng = np.random.default_rng([seed, 1])
    people = [store.named_annotator(name).id for name in names]
    for who in itertools.cycle(people):
        asked = store.ask(who, min(n, 20))
        waiting = []
        for question in asked:
            right = (question.class_index == truth[question.item.id]) != (rng.random() < error)
            waiting.append(store.submit(Answer(f"answer-{question.id}", question.id, who, "yes" if right else "no")))
        assert all(future.result() for future in waiting)
        n -= len(asked)
        if n <= 0 or not asked:
            return


def recorded(where, n=120, seed=0, known=True, **options):
    """A store of records whose class their fields tell, or do not, and the classes by item."""
    rng = np.random.default_rng([seed, 0])
    y = rng.integers(3, size=n)
    x = 3.0 * y * known + rng.normal(size=n) / 2
    items = [
        record_item({"x": float(a), "noise": float(b)}, f"row {i}") for i, (a, b) in enumerate(zip(x, rng.random(n)))
    ]
    store = Store.open(where, project=Project(("a", "b", "c"), repeat_share=0.1, **options), random_state=seed)
    store.register(items)
    return store, {item.id: int(c) for item, c in zip(items, y, strict=True)}


def say(store, item, class_index, *values):
    """Let people answer one question about an item, one after another."""
    first = None
    for i, value in enumerate(values):
        who = store.named_annotator(f"person {i}").id
        id = f"{item.id}-{class_index}-{i}"
        row = {"id": id, "item_id": item.id, "class_index": class_index, "probability": 0.5, "annotator": who}
        store.load("question", [row | {"repeat_of": first, "asked": 1.0, "guidance": None}])
        first = first or id
        store.answer(Answer(f"answer-{id}", id, who, value))


# ---- the posterior -----------------------------------------------------------------------------------------------


def test_the_posterior_is_that_of_all_ways_to_answer():
    """By enumeration: of all classes and answers, those with the same answers are of each class as often as it says."""
    prior, e, asked = np.array([0.6, 0.3, 0.1]), 0.2, (0, 1, 1)
    joint = {}
    for y, wrong in itertools.product(range(3), itertools.product((False, True), repeat=3)):
        answers = tuple("yes" if (k == y) != w else "no" for k, w in zip(asked, wrong, strict=True))
        chance = prior[y] * np.prod([e if w else 1 - e for w in wrong])
        joint.setdefault(answers, np.zeros(3))[y] += chance
    for answers, chances in joint.items():
        said = Answers.of(["item"] * 3, asked, answers, ("a", "b", "c"))
        found = posterior(prior, log_likelihoods(said, error_rate=e))[0]
        np.testing.assert_allclose(found, chances / chances.sum(), rtol=1e-12)


def test_the_answers_of_careless_people_count_for_less():
    rng = np.random.default_rng(0)
    items, asked, values, people = [], [], [], []
    for i, who in itertools.product(range(150), ("careful", "other", "careless")):
        right = rng.random() < (0.6 if who == "careless" else 0.99)
        items.append(str(i))
        asked.append(0)
        values.append("yes" if right else "no")
        people.append(who)
    said = Answers.of([*items, "x", "y"], [*asked, 0, 0], [*values, "yes", "yes"], ("a", "b"),
                      annotators=[*people, "careful", "careless"])  # fmt: skip
    one, other = log_likelihoods(said)[-2:, 0]
    assert one > 3 > 1.5 > other > 0
    np.testing.assert_allclose(log_likelihoods(said, error_rate=0.1)[-2:, 0], np.log(9))


def test_shares_are_found_however_it_was_asked():
    """A second question goes where the first answer says: to the same class after yes, to the first after no."""
    rng, n = np.random.default_rng(3), 4000
    y, first = rng.choice(3, p=[0.7, 0.2, 0.1], size=n), rng.integers(3, size=n)
    yes = (first == y) != (rng.random(n) < 0.05)
    second = np.where(yes, first, 0)
    again = (second == y) != (rng.random(n) < 0.05)
    values = np.where(np.concatenate([yes, again]), "yes", "no")
    said = Answers.of([str(i) for i in range(n)] * 2, np.concatenate([first, second]), values, ("a", "b", "c"))
    np.testing.assert_allclose(class_shares(log_likelihoods(said, error_rate=0.05)), [0.7, 0.2, 0.1], atol=0.03)
    silent = Answers.of(["1", "2"], [0, 1], ["skip"] * 2, ("a", "b", "c"))
    np.testing.assert_allclose(class_shares(log_likelihoods(silent)), 1 / 3)


@pytest.mark.parametrize("power", [0.4, 1.0, 2.5])
def test_a_model_that_is_too_sure_or_not_sure_enough_is_set_right(power):
    """Probabilities that were raised to a power come back, from answers of which a tenth are wrong."""
    rng, n = np.random.default_rng(5), 6000
    true = rng.dirichlet([0.4] * 4, size=n)
    y = np.array([rng.choice(4, p=p) for p in true])
    told = true**power / (true**power).sum(axis=1, keepdims=True)
    asked = rng.integers(4, size=n)
    values = np.where((asked == y) != (rng.random(n) < 0.1), "yes", "no")
    said = Answers.of([str(i) for i in range(n)], asked, values, tuple("abcd"))
    log_likelihood = log_likelihoods(said, error_rate=0.1)
    p = posterior(Calibration(told, log_likelihood, np.full(4, 0.25))(told), log_likelihood)
    for low, high in ((0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.0)):
        rows = (p.max(axis=1) >= low) & (p.max(axis=1) < high)
        assert (p.argmax(axis=1) == y)[rows].mean() == pytest.approx(p.max(axis=1)[rows].mean(), abs=0.06)


# ---- honest labels ---------------------------------------------------------------------------------------------------


def right_and_claimed(found, truth, classes):
    """The share of labels that are right, the share that they claim, and how many there are."""
    told = [(each.label == classes[truth[each.id]], each.sure) for each in found if each.label is not None]
    return (*np.mean(told, axis=0).tolist(), len(told))


def test_items_that_are_removed_meanwhile_have_no_label(tmp_path, monkeypatch):
    def train(store, **options):
        trained = learn.train(store, **options)
        for id in gone:
            store.remove(id)
        return trained

    store, truth = recorded(tmp_path / "answers.db")
    with store:
        answer_all(store, truth, 100)
        answered = {standing.item_id for standing in store.standing()}
        gone = [min(answered), min(set(truth) - answered)]
        monkeypatch.setattr(out, "train", train)
        found = label_items(store, **QUICK)
    assert {each.id for each in found} == set(truth) - set(gone)
    assert all(each.said for each in found if each.id in answered)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """700 digits as records, 500 of them with 1,300 answers of which 3 % are wrong; their labels at every threshold."""
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:700]
    items = [record_item({f"pixel {j}": float(v) for j, v in enumerate(X[i])}, f"row {i}") for i in rows]
    truth = {item.id: int(y[i]) for item, i in zip(items, rows, strict=True)}
    project = Project(tuple("0123456789"), repeat_share=0.1)
    with Store.open(tmp_path_factory.mktemp("digits") / "answers.db", project=project, random_state=0) as store:
        store.register(items[:500])
        answer_all(store, truth, 1300, error=0.03)
        store.register(items)
        return label_items(store, 0.5, max_epochs=15, n_seeds=5), truth


@pytest.mark.parametrize("threshold", [0.6, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("alone", [False, True])
def test_digits_are_labelled_right_as_often_as_claimed(digits, threshold, alone):
    """Both those that people answered about and those that nobody did, of which only the model knows."""
    found, truth = digits
    chosen = [each for each in found if (each.known_by == "model") == alone and each.sure >= threshold]
    right, claimed, n = right_and_claimed(chosen, truth, "0123456789")
    assert n > (100 if alone else 300)
    assert right == pytest.approx(claimed, abs=0.04)


def test_digits_say_who_knows_them(digits):
    found, _ = digits
    counts = {name: sum(each.known_by == name for each in found) for name in out.KNOWN_BY}
    assert counts["model"] == 200
    assert counts["nobody"] == 0
    assert counts["people and model"] > counts["people"] > 0
    assert all((each.said == "") == (each.known_by == "model") for each in found)


def test_without_a_model_the_answers_alone_are_honest(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=300)
    with store:
        answer_all(store, truth, 800, error=0.06, names=("Ann", "Bob"))
        found = label_items(store, 0.7, model=False)
    assert {each.known_by for each in found} == {"people"}
    right, claimed, n = right_and_claimed(found, truth, "abc")
    assert n > 150
    assert right == pytest.approx(claimed, abs=0.04)


def test_an_items_own_answers_count_once(tmp_path):
    """Where fields say nothing of the class, a model can know it only from the item's own answers."""
    store, truth = recorded(tmp_path / "answers.db", n=200, known=False)
    with store:
        answer_all(store, truth, 250, error=0.05)
        alone = label_items(store, model=False)
        both = label_items(store, **QUICK)
    more = np.array([b.sure - a.sure for a, b in zip(alone, both, strict=True)])
    assert abs(more.mean()) < 0.02  # 0.04 with a model that has learned from the answers it is weighed with


# ---- who knows it ------------------------------------------------------------------------------------------------


def test_each_way_to_know_an_item(where):
    store, truth = recorded(where, n=60)
    with store:
        answer_all(store, truth, 60)
        named, ruled_out, doubted, skipped, unseen = (
            record_item({"x": 3.0 * (i % 3), "noise": 0.01 * i}, f"new {i}") for i in range(5)
        )
        store.register([named, ruled_out, doubted, skipped, unseen])
        say(store, named, 0, "yes", "yes")
        say(store, ruled_out, 0, "no", "no")
        say(store, ruled_out, 2, "no", "no", "no")
        say(store, doubted, 0, "yes", "no", "yes", "no")  # the model says "c"
        say(store, skipped, 0, "skip")
        found = {each.name: each for each in label_items(store, **QUICK)}
        alone = {each.name: each for each in label_items(store, model=False)}
        strict = label_items(store, 0.9999, model=False)
    assert [item["id"] for item in map(vars, found.values())][:60] == list(truth)
    assert (found["new 0"].label, found["new 0"].known_by, found["new 0"].said) == ("a", "people", "a: 2 yes")
    assert (found["new 1"].label, found["new 1"].known_by) == ("b", "people")
    assert found["new 1"].said == "a: 2 no; c: 3 no"
    assert (found["new 2"].known_by, found["new 2"].said) == ("people and model", "a: 2 yes, 2 no")
    assert [found[f"new {i}"].known_by for i in (3, 4)] == ["model", "model"]
    assert found["new 3"].said == ""
    assert [found[f"new {i}"].likeliest for i in (3, 4)] == ["a", "b"]
    assert alone["new 0"].label == "a"
    assert (alone["new 2"].label, alone["new 2"].known_by) == (None, "people")
    assert [(alone[f"new {i}"].label, alone[f"new {i}"].known_by) for i in (3, 4)] == [(None, "nobody")] * 2
    assert all(each.label is None for each in strict)
    queue = doubtful(list(alone.values()))
    assert [each.sure for each in queue] == sorted(each.sure for each in queue)
    assert {each.name for each in queue} == {each.name for each in alone.values() if each.label is None}


def test_a_model_may_make_doubtful_what_people_settled(tmp_path):
    """Then somebody should look."""
    store, truth = recorded(tmp_path / "answers.db", n=150)
    with store:
        answer_all(store, truth, 300)
        odd = record_item({"x": 6.0, "noise": 0.5}, "odd")
        store.register([odd])
        say(store, odd, 0, "yes")
        say(store, odd, 1, "no")
        alone, found = (label_items(store, **how)[-1] for how in ({"model": False}, QUICK))
    assert (alone.label, alone.known_by) == ("a", "people")
    assert (found.label, found.known_by) == (None, "people and model")


def test_with_few_answers_there_is_no_model(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=30)
    with store:
        assert {each.known_by for each in label_items(store)} == {"nobody"}
        answer_all(store, truth, 15)
        found = label_items(store)
        assert {each.known_by for each in found} == {"people", "nobody"}
        for threshold in (0.3, 1.0):
            with raises("a threshold must be a probability from 0.5 to below 1; got"):
                label_items(store, threshold)


def test_items_beyond_those_learned_from_are_labelled_too(tmp_path, monkeypatch):
    monkeypatch.setattr(learn, "MOST_ITEMS", 70)
    monkeypatch.setattr(out, "_AT_A_TIME", 50)
    store, truth = recorded(tmp_path / "answers.db", n=200)
    with store:
        answer_all(store, truth, 60)
        found = label_items(store, 0.8, **QUICK)
    known_by = [each.known_by for each in found]
    assert known_by.count("model") == 200 - len({each.id for each in found if each.said}) > 130
    right, claimed, n = right_and_claimed(found, truth, "abc")
    assert n > 100
    assert right > claimed - 0.05


def test_items_that_no_run_held_out_are_left_to_people(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=60)
    with store:
        answer_all(store, truth, 60)
        found = label_items(store, **QUICK | {"n_seeds": 1})
    alone = [each for each in found if each.known_by == "people" and each.label is None]
    assert len(alone) > 20  # a fifth is held out; what people did not settle is not settled by what learned from it


def test_pictures_that_cannot_be_read_have_no_label(tmp_path, monkeypatch):
    monkeypatch.setattr(photos, "available", lambda: False)
    rng = np.random.default_rng(0)
    for i in range(40):
        Image.fromarray((200 * (i % 2) + rng.integers(0, 50, size=(8, 8))).astype(np.uint8)).save(tmp_path / f"{i}.png")
    items = [image_item(tmp_path / f"{i}.png", f"{i}.png") for i in range(40)]
    with Store.open(tmp_path / "answers.db", project=Project(("dark", "light")), random_state=0) as store:
        store.register(items)
        answer_all(store, {item.id: i % 2 for i, item in enumerate(items)}, 30)
        asked = {one.item_id for one in store.standing()}
        gone, cut = [i for i, item in enumerate(items) if item.id not in asked][:2]
        (tmp_path / f"{gone}.png").unlink()
        whole = (tmp_path / f"{cut}.png").read_bytes()
        (tmp_path / f"{cut}.png").write_bytes(whole[: len(whole) - 30])
        found = label_items(store, **QUICK | {"max_epochs": 2})
    assert [i for i, each in enumerate(found) if each.known_by == "nobody"] == sorted([gone, cut])
    assert found[gone].label is found[cut].label is None


# ---- what is decided ---------------------------------------------------------------------------------------------


def test_one_yes_closes_an_item_and_does_not_decide_it(where):
    item = text_item("A fine film.", "")
    with Store.open(where, project=Project(tuple("0123456789"))) as store:
        store.register([item])
        say(store, item, 3, "yes")
        assert (store.progress().closed, store.decided()) == (1, 0)
        assert Figures(store)()["progress"]["decided"] == 0
        say(store, item, 4, "no")
        assert store.decided() == 0
    with Store.open(where) as store:
        say(store, item, 3, "yes", "yes")  # the first is there already
        assert store.decided() == 1
        assert Figures(store)()["progress"] == {
            "items": 1, "answered": 1, "closed": 1, "answers": 3, "own": 0, "decided": 1,
        }  # fmt: skip
        assert store.decided() == sum(each.label is not None for each in label_items(store))


def test_decided_are_the_labels_that_people_settle(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=150)
    with store:
        answer_all(store, truth, 300, error=0.05)
        found = label_items(store, model=False)
        assert 0 < store.decided() == sum(each.label is not None for each in found) < store.progress().closed
        assert settled(Answers.of([], [], [], ("a", "b"))).shape == (0,)


def test_where_questions_are_guided_the_guide_says_what_is_decided(where):
    store, truth = recorded(where, n=9, questions="guided")
    with store:
        ids = list(truth)
        expected = np.where(np.arange(3) == 0, 0.98, 0.01) * np.ones((9, 1))
        late = record_item({"x": 99.0}, "late")
        store.register([late])
        store.add_belief(5.0, ids, expected, np.zeros((9, 3), dtype=np.int64))
        detail = {"guides": True, "last_answer": 0, "error_rate": 0.02, "shares": [0.98, 0.01, 0.01]}
        store.add_training(n_answers=0, method="mlp", estimate=0.9, low=0.8, high=1.0, detail=detail, at=5.0)
        store.guide()
        assert (store.progress().closed, store.decided()) == (0, 0)
        say(store, store.item(ids[0]), 0, "yes")  # what the model expects: settled by both
        say(store, store.item(ids[1]), 1, "yes")  # what it does not: open
        assert (store.progress().closed, store.decided()) == (1, 1)
        say(store, late, 1, "yes", "yes")  # what it has not seen
        assert (store.progress().closed, store.decided()) == (2, 2)


# ---- the command -------------------------------------------------------------------------------------------------


def test_labels_from_the_command(where, naysayer, tmp_path):
    store, truth = recorded(where, n=90)
    with store:
        answer_all(store, truth, 120)
        found = {item.id: item.name for item in store.items()}
    file, queue = tmp_path / "deep" / "labels.csv", tmp_path / "review.csv"
    done = naysayer("labels", where, "--out", file, "--review", queue, "--threshold", 0.9, "--epochs", 10)
    assert (done.code, done.err) == (0, "")
    rows = read_csv(file)
    assert {row["id"]: row["name"] for row in rows} == found
    assert list(rows[0]) == list(out.COLUMNS)
    labelled = [row for row in rows if row["label"]]
    assert len(labelled) > 45
    assert np.mean([row["label"] == "abc"[truth[row["id"]]] for row in labelled]) > 0.9
    assert all((float(row["sure"]) >= 0.9) == (row["label"] != "") for row in rows)
    counts = [sum(row["known_by"] == name for row in labelled) for name in out.KNOWN_BY[:3]]
    by = f"{counts[0]} settled by people, {counts[1]} by people and model together, {counts[2]} by the model alone"
    assert f"{len(labelled)} of 90 items have a label in {file}: {by}\nabout " in done.out
    assert (
        f"{count(90 - len(labelled), 'is', 'are')} doubtful, below 90 %; see {queue}, the most doubtful first"
        in done.out
    )
    assert [row["id"] for row in read_csv(queue)] == [
        row["id"] for row in sorted(rows, key=lambda row: float(row["sure"])) if not row["label"]
    ]
    told = json.loads(naysayer("labels", where, "--out", file, "--no-model", "--json").out)
    assert (told["items"], told["labels"] + told["doubtful"], told["review"]) == (90, 90, None)
    assert told["known_by"] == {"people": told["labels"], "people and model": 0, "model": 0}
    assert told["expected_wrong"] < 0.05 * told["labels"]
    assert "; --review FILE lists such items" in naysayer("labels", where, "--out", file, "--no-model").out


def test_the_command_says_what_labels_need(tmp_path, naysayer):
    recorded(tmp_path / "answers.db")[0].close()
    for words, *options in (
        ("--out must be a file whose name ends in .csv; got", "--out", tmp_path),
        ("--review must be a file whose name ends in .csv; got", "--out", "labels.csv", "--review", "review.txt"),
        ("--review must be another file than --out; both are", "--out", "labels.csv", "--review", "labels.csv"),
        ("a threshold must be a probability from 0.5 to below 1; got 2", "--out", "labels.csv", "--threshold", 2),
    ):  # fmt: skip
        done = naysayer("labels", tmp_path / "answers.db", *options)
        assert (done.code, done.out) == (2, "")
        assert words in done.err
        assert done.err.count("\n") == 1
    assert "no store at" in naysayer("labels", tmp_path / "none.db", "--out", tmp_path / "labels.csv").err
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_nothing_learns_from_what_export_wrote(tmp_path, naysayer, ending):
    store, truth = recorded(tmp_path / "answers.db", n=30)
    with store:
        answer_all(store, truth, 30)
        export(store, tmp_path / f"answers{ending}")
    for command in (
        ("train", "--label", "value", "--out", tmp_path / "model"),
        ("doctor", "--label", "value"),
        ("ask", "--classes", "a,b", "--store", tmp_path / "other.db"),
    ):
        done = naysayer(command[0], tmp_path / f"answers{ending}", *command[1:])
        assert (done.code, done.out) == (2, "")
        assert "what `naysayer export` wrote, all of a store in one; learn from the store: naysayer train" in done.err
        assert done.err.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_nothing_learns_from_what_labels_wrote(tmp_path, naysayer):
    store, truth = recorded(tmp_path / "answers.db", n=30)
    with store:
        answer_all(store, truth, 60)
    assert naysayer("labels", tmp_path / "answers.db", "--out", tmp_path / "labels.csv", "--no-model").code == 0
    done = naysayer("train", tmp_path / "labels.csv", "--label", "label", "--out", tmp_path / "model")
    assert (done.code, done.out) == (2, "")
    assert (
        "it is what `naysayer labels` wrote, and says of items nothing but what they are; learn from the " in done.err
    )
    assert done.err.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_one_item_is_told_in_the_singular(tmp_path, naysayer):
    store, _ = recorded(tmp_path / "answers.db", n=1)
    with store:
        say(store, next(iter(store.items())), 0, "no")
    place, out = tmp_path / "answers.db", tmp_path / "labels.csv"
    said = naysayer("labels", place, "--out", out, "--no-model").out
    assert said.startswith("0 of 1 item have a label in ")
    assert "\n1 is doubtful, below 95 %; --review FILE lists such items\n" in said
    assert "\n" not in naysayer("export", place, "--out", tmp_path / "a.csv").out.removesuffix(
        f"1 answer is in {tmp_path / 'a.csv'}\n"
    )
    assert naysayer("doctor", place).out.startswith("1 answer by 1 person about 1 of 1 item\n")
    assert (
        "1 item, 1 annotator, 1 question, 1 answer, 0 trainings"
        in naysayer("import", tmp_path / "other.db", tmp_path / "a.csv").out
    )


# ---- doctor ------------------------------------------------------------------------------------------------------


def test_doctor_of_a_store(where, naysayer):
    store, truth = recorded(where, n=90)
    with store:
        done = naysayer("doctor", where)
        assert (done.code, done.out) == (2, "")
        assert "must have answers to check; it has none yet; ask people first" in done.err
        answer_all(store, truth, 100, names=("Ann", "Bob"))
        progress, decided = store.progress(), store.decided()
    done = naysayer("doctor", where)
    assert (done.code, done.err) == (0, "")
    said = f"{progress.answers} answers by 2 people about {progress.answered} of 90 items\n0.0 (0.0 to "
    assert done.out.startswith(said)
    assert f"\n{decided} of 90 items are settled by answers: a class has a probability of 95 % or more\n" in done.out
    assert "class  yes  no  can't tell  share of the items %\n" in done.out
    assert "ok: Questions and answers look as they should." in done.out
    told = json.loads(naysayer("doctor", where, "--json").out)
    assert (told["n_answers"], told["items"], told["decided"]) == (progress.answers, 90, decided)
    assert told["classes"] == ["a", "b", "c"]
    done = naysayer("doctor", where, "--label", "x")
    assert (done.code, "--label is for tables; " in done.err) == (2, True)


def test_doctor_says_what_is_odd_in_a_store(tmp_path, naysayer):
    with Store.open(tmp_path / "answers.db", project=Project(tuple("abcd"))) as store:
        items = [text_item(f"text {i}", "") for i in range(60)]
        store.register(items)
        for item in items:
            say(store, item, 0, "yes")
    out = naysayer("doctor", tmp_path / "answers.db").out
    assert "60 answers by 1 person about 60 of 60 items\n" in out
    assert "as far as can be known before any question was asked twice" in out
    assert "warning: Classes were not asked about with the probabilities that the store records." in out
    assert "warning: 100.0 % of the first answers are yes, more than the 25.0 % of uniform questions." in out
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, [choice(text=str(i)) for i in range(3)])))
    naysayer("import", tmp_path / "chosen.db", tmp_path / "p.jsonl")
    chosen = naysayer("doctor", tmp_path / "chosen.db").out
    assert (
        "note: These questions were not drawn at random: their answers serve as labels, but for no estimate." in chosen
    )
    store, truth = recorded(tmp_path / "guided.db", n=20)
    with store:
        answer_all(store, truth, 10)
        rows = list(store.rows("question"))
        guidance = json.dumps(dict.fromkeys(Guidance.__dataclass_fields__, 1.0) | {"likely": None})
        item = next(item for item in store.items())
        row = rows[0] | {"id": "guided", "item_id": item.id, "class_index": 0, "guidance": guidance}
        store.load("question", [row])
        store.answer(Answer("last", "guided", row["annotator"], "no"))
    guided = naysayer("doctor", tmp_path / "guided.db").out
    assert "note: Class shares rest on the answers before guided questions began." in guided
    told = json.loads(guidance) | {"likely": [1.0 / len(store.project.classes)] * len(store.project.classes)}
    with Store.open(tmp_path / "guided.db") as store:
        store.load("question", [row | {"id": "more", "guidance": json.dumps(told)}])
        store.answer(Answer("more", "more", row["annotator"], "no"))
    guided = naysayer("doctor", tmp_path / "guided.db").out
    assert "note: Class shares rest on the answers before guided questions began, and on the guided ones." in guided
    assert json.loads(naysayer("doctor", tmp_path / "guided.db", "--json").out)["guided_shares"]
    with Store.open(tmp_path / "guided.db") as store:  # about the likeliest class, and rarer than checks alone are
        store.load("question", [row | {"id": "odd", "class_index": 1}])
        store.answer(Answer("odd", "odd", row["annotator"], "no"))
    refused = naysayer("doctor", tmp_path / "guided.db")
    assert refused.code == 2
    assert f"the one about item {item.id!r} is stored with less; it was not drawn by `ask`" in refused.err


# ---- Prodigy's choices -----------------------------------------------------------------------------------------------


def choice(accept=("WORK",), text="A letter.", answer="accept", **more):
    options = [{"id": "PERSONAL", "text": "Personal"}, {"id": "WORK", "text": "Work"}, {"id": "SPAM", "text": "Spam"}]
    return {"text": text, "options": options, "accept": list(accept), "answer": answer, "_session_id": "eve"} | more


def test_prodigys_choices_bring_their_classes(tmp_path, naysayer):
    rows = [
        choice(),
        choice(["SPAM"], "Buy!", _timestamp=5),
        choice([], "Nothing fits."),
        choice(["SPAM"], "Not this one.", answer="reject"),
        choice(["SPAM"], "Nor this.", answer="ignore"),
        choice(),
    ]
    path = tmp_path / "choices.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert read_project(path) == Project(("PERSONAL", "WORK", "SPAM"))
    done = naysayer("import", tmp_path / "answers.db", path)
    assert done == (0, "new in the store: 2 items, 1 annotator, 3 questions, 3 answers, 0 trainings\n", "")
    assert "0 answers" in naysayer("import", tmp_path / "answers.db", path).out  # again
    with Store.open(tmp_path / "answers.db") as store:
        standing = list(store.standing())
        assert [(one.value, one.class_index, one.probability) for one in standing] == [
            ("yes", 1, 0.0), ("yes", 2, 0.0), ("yes", 1, 0.0),
        ]  # fmt: skip
        assert standing[1].answered == 5.0
        assert [each.likeliest for each in label_items(store)] == ["WORK", "SPAM"]


def test_options_may_be_named_by_their_texts(tmp_path):
    options = [{"id": 0, "text": "cat"}, {"id": 1, "text": "dog"}, {"id": 2}]
    path = tmp_path / "choices.jsonl"
    path.write_text(json.dumps(choice([1], options=options)) + "\n" + json.dumps(choice(["WORK"], "b")))
    assert read_project(path).classes == ("cat", "dog", "2", "PERSONAL", "WORK", "SPAM")
    with Store.open(tmp_path / "answers.db", project=Project(("cat", "dog", "Work"))) as store:
        import_answers(store, path)
        assert [one.class_index for one in store.standing()] == [1, 2]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (choice(["WORK", "SPAM"]), "must accept one option, as an item is of one class; line 1 has 2: WORK, SPAM"),
        (choice(["OTHER"]), "a list of options accepted, of PERSONAL, WORK, SPAM; line 1 has \"['OTHER']\""),
        (choice() | {"accept": "WORK"}, "a list of options accepted, of PERSONAL, WORK, SPAM; line 1 has 'WORK'"),
        (choice() | {"options": ["WORK"]}, "must have a list of options, each with an 'id'; line 1 has"),
        (choice() | {"options": {"id": 1}}, "must have a list of options, each with an 'id'; line 1 has"),
        (choice(["SPAM"]), "must name the classes PERSONAL, WORK; line 1 has 'SPAM'"),
    ],
)  # fmt: skip
def test_a_choice_that_cannot_be_read_is_named(tmp_path, row, words):
    (tmp_path / "p.jsonl").write_text(json.dumps(row))
    with Store.open(tmp_path / "answers.db", project=Project(("PERSONAL", "WORK"))) as store:
        with raises(words):
            import_answers(store, tmp_path / "p.jsonl")
        assert store.n_items() == 0


# ---- ids ---------------------------------------------------------------------------------------------------------


def test_predictions_keep_an_id(tmp_path, naysayer):
    store, truth = recorded(tmp_path / "answers.db", n=60)
    with store:
        answer_all(store, truth, 60)
        ids = [item.id for item in store.items()]
    naysayer("train", tmp_path / "answers.db", "--network", "linear", "--epochs", 3, "--out", tmp_path / "model")

    def predicted(*arguments):
        done = naysayer("predict", tmp_path / "model", *arguments)
        assert (done.code, done.err) == (0, "")
        return list(csv.DictReader(io.StringIO(done.out)))

    rows = predicted(tmp_path / "answers.db")
    assert list(rows[0]) == ["item", "id", "prediction", "probability"]
    assert [row["id"] for row in rows] == ids
    assert list(predicted(tmp_path / "answers.db", "--id", "x")[0]) == ["item", "x", "prediction", "probability"]
    (tmp_path / "new.csv").write_text("ticket_id,x,noise\nA7,0,0\nA8,6,0\n")
    rows = predicted(tmp_path / "new.csv")
    assert [row["ticket_id"] for row in rows] == ["A7", "A8"]
    assert "id" not in rows[0]
    done = naysayer("predict", tmp_path / "model", tmp_path / "new.csv", "--id", "ticket")
    assert (done.code, done.out) == (2, "")
    assert "the table must have a column 'ticket'" in done.err


def test_a_column_that_was_dropped_is_still_an_id(tmp_path, naysayer):
    rng = np.random.default_rng(0)
    lines = ["serial_id,x,not"]
    for i in range(60):
        y = i % 3
        lines.append(f"{i // 2},{3 * y + rng.normal():.3f},{'abc'[(y + 1 + i % 2) % 3]}")  # not different in every row
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    quick = ["--method", "linear", "--epochs", 2, "--seeds", 1, "--lr", 0.1]
    done = naysayer(
        "train", tmp_path / "t.csv", "--label", "not", "--drop", "serial_id", "--out", tmp_path / "m", *quick
    )
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO(naysayer("predict", tmp_path / "m", tmp_path / "t.csv").out)))
    assert [row["serial_id"] for row in rows] == [str(i // 2) for i in range(60)]


def test_fields_beside_texts_follow_the_rows_that_were_read(tmp_path):
    (tmp_path / "t.csv").write_text("id,text\n1,one\n2,\n3,one\n4,four\n")
    left_out = []
    items = list(read_items(tmp_path / "t.csv", left_out.append))
    assert fields_beside(items, tmp_path / "t.csv") == {"id": ["1", "4"], "text": ["one", "four"]}
    assert fields_beside(items) == {}
    assert fields_beside([record_item({"a": 1}, ""), record_item({"b": 2}, "")]) == {"a": [1, None], "b": [None, 2]}


# ---- spreadsheets ------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_any_text_comes_back(tmp_path_factory, texts):
    assert [unguarded(guarded(text)) for text in texts] == texts
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    path.write_text(csv_text([["a", "=b"], *([text, "x"] for text in texts)]), encoding="utf8", newline="")
    assert read_csv(path) == [{"a": text, "=b": "x"} for text in texts]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "-", "+", "-1e", "'=1"]
)
def test_no_cell_is_run(text):
    assert guarded(text) == f"'{text}"


def test_numbers_stay_numbers():
    assert [guarded(text) for text in ("-1", "+3", "-0.5", "1e-5", "-2E+7")] == ["-1", "+3", "-0.5", "1e-5", "-2E+7"]


def test_what_the_command_writes_is_not_run(tmp_path, naysayer):
    classes, formula = ("=cmd()", "-1", "@b"), "=HYPERLINK(1).png"
    items = [record_item({"user_id": f"+{i}+", "x": 3.0 * (i % 3)}, formula if i == 0 else str(i)) for i in range(45)]
    with Store.open(tmp_path / "answers.db", project=Project(classes), random_state=0) as store:
        store.register(items)
        answer_all(store, {item.id: i % 3 for i, item in enumerate(items)}, 90)
    naysayer("train", tmp_path / "answers.db", "--network", "linear", "--epochs", 3, "--out", tmp_path / "model")
    naysayer("predict", tmp_path / "model", tmp_path / "answers.db", "--out", tmp_path / "p.csv")
    naysayer("labels", tmp_path / "answers.db", "--no-model", "--out", tmp_path / "l.csv")
    for name in ("p.csv", "l.csv"):
        with (tmp_path / name).open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]
        assert {cell for cell in cells if cell.startswith("-")} <= {"-1"}
    rows = read_csv(tmp_path / "p.csv")
    assert rows[0]["item"] == formula
    assert [row["user_id"] for row in rows] == [f"+{i}+" for i in range(45)]
    assert {row["prediction"] for row in rows} <= set(classes)
    rows = read_csv(tmp_path / "l.csv")
    assert {row["likeliest"] for row in rows} == set(classes)
    assert rows[0]["name"] == formula
