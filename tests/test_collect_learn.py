"""Training from a store: images, texts, records; the estimate is honest, models come back, the trainer never falls."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from browser import served
from helpers import raises
from naysayer import cli
from naysayer.collect import learn
from naysayer.collect.app import make_app
from naysayer.collect.labels import label_items
from naysayer.collect.learn import Likelihood, features, train
from naysayer.collect.security import HEADER
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.items import image_item, read_items, record_item, text_item
from naysayer.engine.networks import Convolution
from naysayer.features import photos
from naysayer.features.encoder import encoder_from_dict, fit_encoder
from naysayer.features.photos import PhotoEncoder
from naysayer.features.records import RecordEncoder
from naysayer.features.texts import TextEncoder
from naysayer.measure.answers import Answers, read_answers
from naysayer.objectives import Forward


def answer_all(store, truth, n, error=0.0, seed=0, skip=0.0):
    """Let a simulated annotator answer n questions; `truth` gives the class of an item's id."""
    rng = np.random.default_rng([seed, 1])  # another stream than that of the classes
    who = store.named_annotator("Ann").id
    while n > 0 and (asked := store.ask(who, min(n, 20))):
        waiting = []
        for question in asked:
            right = (question.class_index == truth[question.item.id]) != (rng.random() < error)
            value = "skip" if rng.random() < skip else "yes" if right else "no"
            waiting.append(store.submit(Answer(f"answer-{question.id}", question.id, who, value)))
        assert all(future.result() for future in waiting)
        n -= len(asked)


def answer_all_over_http(store, truth, n, error, seed=0):
    """Answer n questions as `answer_all` does, with the browser's requests to a real server."""
    rng = np.random.default_rng([seed, 1])
    with (
        served(partial(make_app, store)) as site,
        httpx.Client(base_url=site.origin, headers={HEADER: "1"}, timeout=120) as http,
    ):
        while n > 0 and (asked := http.get("/api/next", params={"n": min(n, 20)}).json()["questions"]):
            answers = []
            for question in asked:
                item, about = question["item"]["src"].removeprefix("/media/"), int(question["class"])
                right = (about == truth[item]) != (rng.random() < error)
                answers.append({"id": question["id"], "question": question["id"], "value": "yes" if right else "no"})
            reply = http.post("/api/answers", json={"answers": answers})
            assert reply.json() == {"stored": [each["id"] for each in answers], "refused": []}
            n -= len(asked)


def recorded(path, n=200, n_classes=3, seed=0):
    """A store of records whose class is easily told from their fields, and the classes by item."""
    store = Store.open(path, project=Project(tuple("abcde"[:n_classes]), repeat_share=0.1), random_state=seed)
    items, y = drawn(n, n_classes, np.random.default_rng([seed, 0]))
    store.register(items)
    return store, {item.id: int(c) for item, c in zip(items, y)}


def drawn(n, n_classes, rng):
    """Records and their classes."""
    y = rng.integers(n_classes, size=n)
    fields = zip(3 * y + rng.normal(size=n) / 2, rng.normal(size=n))
    return [record_item({"x": float(x), "noise": float(noise)}, f"row {i}") for i, (x, noise) in enumerate(fields)], y


# ---- end to end ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """600 digits as PNG files, registered, and 1,200 answers with 2% errors; and some digits more."""
    folder = tmp_path_factory.mktemp("digits")
    X, y = load_digits(return_X_y=True)
    images = (X.reshape(-1, 8, 8) * 15.9).astype(np.uint8)
    for part, rows in (("known", range(600)), ("new", range(600, 1200))):
        (folder / part).mkdir()
        for i in rows:
            Image.fromarray(images[i]).save(folder / part / f"{i:04}.png")
    store = Store.open(folder / "answers.db", project=Project(tuple("0123456789"), repeat_share=0.1), random_state=0)
    items = list(read_items(folder / "known"))
    store.register(items)
    truth = {item.id: int(y[int(item.name[:4])]) for item in items}
    answer_all_over_http(store, truth, 1200, error=0.02)
    new = list(read_items(folder / "new"))
    yield store, folder, new, np.array([y[int(item.name[:4])] for item in new])
    store.close()


def test_digits_from_images_to_an_honest_accuracy(digits, monkeypatch):
    """As pixels, where the extra for photos is not installed."""
    monkeypatch.setattr(photos, "available", lambda: False)
    store, folder, new, y_true = digits
    trained = train(store, max_epochs=20, n_seeds=5, random_state=0)
    assert trained.encoder.to_dict() == {"kind": "image", "side": 8, "channels": 1}
    assert 0.005 < trained.error_rate < 0.04
    assert 570 < trained.n_items <= 600  # of a few, answers contradict each other
    true = (trained.predict_proba(new).argmax(axis=1) == y_true).mean()
    assert true > 0.85
    assert trained.accuracy.low < true < trained.accuracy.high
    assert trained.accuracy.high - trained.accuracy.low < 0.2
    trained.save(folder / "model")
    again = learn.load(folder / "model", device="cpu")
    assert np.allclose(again.predict_proba(new[:50]), trained.predict_proba(new[:50]), atol=1e-6)
    assert (again.accuracy, again.n_answers, again.network) == (trained.accuracy, trained.n_answers, "mlp")
    assert again.model.classes_.tolist() == list("0123456789")
    assert not list((folder / "model").glob("*.pkl"))


def coloured_blocks(folder, n, seed):
    """Photos of 40 by 40 pixels, light with a red, green or blue block somewhere, and which it is."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    for i, c in enumerate(y):
        photo = np.full((40, 40, 3), rng.integers(200, 256, size=3), dtype=np.uint8)
        top, left, size = rng.integers(2, 20), rng.integers(2, 20), rng.integers(10, 18)
        photo[top : top + size, left : left + size] = 40 + 160 * np.eye(3, dtype=np.uint8)[c]
        Image.fromarray(photo).save(folder / f"{i:04}.png")
    items = list(read_items(folder))
    return items, {item.id: int(y[int(item.name[:4])]) for item in items}


def test_photos_are_learned_by_their_features(tmp_path):
    items, truth = coloured_blocks(tmp_path / "known", 60, 0)
    with Store.open(tmp_path / "answers.db", project=Project(tuple("rgb")), random_state=0) as store:
        store.register(items)
        answer_all(store, truth, 55)
        answered = {one.item_id for one in store.standing()}
        cut, *_ = (item for item in items if item.id not in answered)
        content = Path(cut.path).read_bytes()
        Path(cut.path).write_bytes(content[: len(content) // 2])
        trained = train(store, max_epochs=15, n_seeds=5)
        seen, left_out = trained.encoder.notes
        assert seen == "photos are seen by efficientnet-lite0, pretrained on ImageNet"
        changed = "must stay as it is; it has changed since it was registered"
        assert left_out == f"left out: picture {cut.name!r} at {cut.path} {changed}; nobody answered about it"
        assert cut.id not in {item.id for item in trained.judged.items}
        assert trained.model.standardize
        new, of_new = coloured_blocks(tmp_path / "new", 30, 1)
        assert (trained.predict_proba(new).argmax(axis=1) == list(of_new.values())).mean() > 0.85
        one = next(item for item in items if item.id in answered)
        for item in items:
            Path(item.path).unlink()
        again = train(store, max_epochs=2, n_seeds=2, before=trained.encoder)  # nothing is read twice
        assert again.judged.items == trained.judged.items
        with raises("at least 20 items to train on; got 0; ") as caught:
            train(store, max_epochs=2, n_seeds=2)
    assert re.search(
        rf"; {len(answered)} answered photos were left out: picture .* no such file or directory "
        rf"\(and {len(answered) - 1} more cannot be read\); put it back, or say where it is now: naysayer add STORE "
        "FOLDER, or drop what is lost for good: naysayer remove STORE ITEM$",
        str(caught.value),
    )
    p, failed = trained.predict_readable([*new[:2], one])
    assert failed == {}  # it was read before
    fresh = encoder_from_dict(trained.encoder.to_dict())
    p, failed = replace(trained, encoder=fresh).predict_readable([new[0], one, new[1]])
    assert list(failed) == [1]
    assert np.isnan(p[1]).all()
    np.testing.assert_allclose(p[[0, 2]], trained.predict_proba(new[:2]), atol=1e-5)


def test_answered_photos_that_are_gone_or_changed_are_left_out_of_all(tmp_path, run, monkeypatch):
    """A store with them learns, and estimates, what the same store without them would."""
    monkeypatch.setattr(photos, "available", lambda: False)
    items, truth = coloured_blocks(tmp_path / "known", 60, 0)
    place, model = tmp_path / "answers.db", tmp_path / "model"
    options = {"max_epochs": 3, "n_seeds": 2}
    with Store.open(place, project=Project(tuple("rgb"), repeat_share=0.2), random_state=0) as store:
        store.register(items)
        answer_all(store, truth, 90, error=0.02)
        said = read_answers(store)
        gone, changed = (next(item for item in items if item.id == said.items[i]) for i in (0, 7))
        Path(gone.path).unlink()
        Image.new("RGB", (40, 40), (200, 40, 40)).save(changed.path)
        trained = train(store, **options)
        assert [note for note in trained.encoder.notes if "answered" in note] == [
            f"2 answered photos were left out: picture {gone.name!r} at {gone.path} must be a file that can be read; "
            "no such file or directory (and 1 more cannot be read); put it back, or say where it is now: naysayer add "
            "STORE FOLDER, or drop what is lost for good: naysayer remove STORE ITEM"
        ]
        items_of, answers, predicted, _ = trained.judged
        assert answers.items == tuple(item.id for item in items_of[: len(answers.items)])
        assert answers.items == tuple(id for id in said.items if id not in (gone.id, changed.id))
        assert len(predicted) == len(answers.items)
        pairs = {(said.items[i], k, v) for i, k, v in zip(said.item, said.asked, said.value)}
        kept = {(answers.items[i], k, v) for i, k, v in zip(answers.item, answers.asked, answers.value)}
        assert kept == {one for one in pairs if one[0] not in (gone.id, changed.id)}
        assert not trained.saw(gone.id)
        labelled = {each.id: each for each in label_items(store, **options)}
        assert labelled[gone.id].said != ""  # people's word about it counts
        assert labelled[gone.id].known_by == "people"
    line = run("predict", model, place) if run("train", place, "--out", model, "--epochs", 2)[0] == 0 else None
    rows = {row["item"]: row for row in csv.DictReader(io.StringIO(line[1]))}
    assert rows[gone.name]["prediction"] == rows[changed.name]["probability"] == ""
    assert sum(row["prediction"] != "" for row in rows.values()) == 58
    assert line[2].startswith("2 photos have no prediction: picture '")
    assert line[2].count("\n") == 1
    with Store.open(place, random_state=1) as store:
        more, of_more = coloured_blocks(tmp_path / "more", 30, 2)
        store.register(more)
        answer_all(store, truth | of_more, 40)
        asked = {one.item_id for one in store.standing()}
        lost, other, *_ = (item for item in more if item.id in asked)
        Path(lost.path).unlink()
        for item in (gone, changed):
            store.remove(item.id)
        trained = train(store, **options)
        with_it = trained.accuracy
        store.remove(lost.id)
        without_it = train(store, **options)
    assert trained.encoder.notes[-1].startswith("1 answered photo was left out: ")
    assert without_it.judged.answers.items == trained.judged.answers.items
    assert without_it.accuracy == with_it
    Path(other.path).unlink()
    code, out, err = run("evaluate", model, place)
    assert (code, err) == (0, "")
    assert "as the model learned from them; 1 answered photo was left out: picture '" in out
    for item in more:
        Path(item.path).unlink(missing_ok=True)
    code, out, err = run("evaluate", model, place)
    assert (code, out) == (2, "")
    assert "a store must have a photo that can be read and that the model did not learn from; got none; picture" in err


def test_a_convolution_learns_and_comes_back(digits):
    store, folder, new, y_true = digits
    trained = train(store, network="convolution", max_epochs=8, n_seeds=1)
    assert (trained.predict_proba(new).argmax(axis=1) == y_true).mean() > 0.6
    trained.save(folder / "convolution")
    again = learn.load(folder / "convolution", device="cpu")
    assert np.allclose(again.predict_proba(new[:20]), trained.predict_proba(new[:20]), atol=1e-6)


def test_a_residual_network_trains_on_a_store_and_comes_back(digits):
    store, folder, new, _ = digits
    trained = train(store, network="resnet8", max_epochs=1)
    assert [(trial["method"], trial["network"]) for trial in trained.model.trials_] == [("forward", "resnet8")]
    trained.save(folder / "resnet8")
    again = learn.load(folder / "resnet8", device="cpu")
    assert np.allclose(again.predict_proba(new[:20]), trained.predict_proba(new[:20]), atol=1e-6)


@pytest.mark.parametrize("error", [0.0, 0.05])
def test_the_estimate_covers_the_accuracy(tmp_path, error):
    """Of models that are not perfect, on new items; the errors are measured too."""
    covered, estimates, truths = 0, [], []
    for seed in range(6):
        store, truth = recorded(tmp_path / f"{seed}.db", n=600, n_classes=4, seed=seed)
        with store:
            answer_all(store, truth, 200, error, seed)  # about a third of the items
            trained = train(store, network="linear", max_epochs=15, n_seeds=5, random_state=seed)
        new, y = drawn(2000, 4, np.random.default_rng([seed, 2]))
        true = (trained.predict_proba(new).argmax(axis=1) == y).mean()
        covered += trained.accuracy.low <= true <= trained.accuracy.high
        estimates.append(trained.accuracy.estimate)
        truths.append(true)
    assert covered >= 5
    assert abs(np.mean(estimates) - np.mean(truths)) < 0.06


def test_items_at_which_nobody_could_tell_are_judged_too(tmp_path):
    """Left out of the estimate, they would make the rest of the answers count for more than they are worth."""
    store, truth = recorded(tmp_path / "answers.db", n=600)
    with store:
        answer_all(store, truth, 600, skip=0.4)
        trained = train(store, network="linear", max_epochs=15, n_seeds=1)
    assert trained.n_items < 400
    new, y = drawn(2000, 3, np.random.default_rng(9))
    true = (trained.predict_proba(new).argmax(axis=1) == y).mean()
    assert trained.accuracy.estimate == pytest.approx(true, abs=0.1)
    assert trained.accuracy.low <= true <= trained.accuracy.high


def test_a_few_answers_name_many_items(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=400)
    with store:
        answer_all(store, truth, 90, error=0.02)
        trained = train(store, network="linear", max_epochs=15, n_seeds=5)
        items, asked = list(store.items()), {one.item_id for one in store.standing()}
    assert trained.n_unanswered == 400 - len(asked) > 300
    p = trained.predict_proba([item for item in items if item.id not in asked])
    assert (p.argmax(axis=1) == [truth[item.id] for item in items if item.id not in asked]).mean() > 0.9
    assert trained.named == pytest.approx((p.max(axis=1) >= 0.9).mean())
    members = {trial["method"]: trial["weight"] for trial in trained.model.trials_}
    assert members["neighbours"] > 0


def test_of_many_items_without_answers_some_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(learn, "MOST_ITEMS", 70)
    rows = []
    fit = learn.ComplementaryClassifier.fit
    monkeypatch.setattr(learn.ComplementaryClassifier, "fit", lambda self, X, y: rows.append((X, y)) or fit(self, X, y))
    store, truth = recorded(tmp_path / "answers.db", n=150)
    options = {"network": "linear", "max_epochs": 2, "n_seeds": 2}
    with store:
        answer_all(store, truth, 40)
        answered = len({one.item_id for one in store.standing()})
        trained = train(store, **options)
        train(store, **options)
        train(store, random_state=1, **options)
        answer_all(store, truth, 60, seed=1)  # about more items than are drawn: all of those are learned from
        train(store, **options)
    assert trained.n_unanswered == 150 - answered
    sizes = [(len(X), int(y.any(axis=1).sum())) for X, y in rows]
    assert sizes[:3] == [(70, answered)] * 3
    assert sizes[3][0] == sizes[3][1] > 70
    assert np.array_equal(rows[0][0], rows[1][0])
    assert not np.array_equal(rows[0][0], rows[2][0])


@pytest.mark.parametrize("n", [93, 94, 95])
def test_five_runs_hold_out_all_items_but_four_at_most(n):
    """A fifth that is rounded up leaves too few rows for the fifth run, which would hold out others again."""
    rng = np.random.default_rng(n)
    X, asked = rng.normal(size=(120, 2)).astype(np.float32), rng.integers(3, size=n)
    said = Answers.of([str(i) for i in range(n)], asked, ["no"] * n, ("a", "b", "c"))
    found = learn.learn(X, said, network="linear", error_rate=0.0, max_epochs=1, n_seeds=5)
    assert np.isnan(found.expected).any(axis=1).sum() == n % 5
    assert np.isnan(found.expected[n:]).sum() == 0


def test_items_that_no_run_held_out_do_not_judge_it(tmp_path):
    """Fields say nothing of the classes, and a network that learned the answers by heart is right where it saw them."""
    rng = np.random.default_rng(5)
    items = [record_item({f"x{i}": float(v) for i, v in enumerate(rng.normal(size=20))}, "") for _ in range(160)]
    with Store.open(tmp_path / "answers.db", project=Project(("a", "b")), random_state=0) as store:
        store.register(items)
        answer_all(store, {item.id: int(rng.integers(2)) for item in items}, 160)
        trained = train(store, n_seeds=1)
    assert trained.accuracy.low < 0.5 < trained.accuracy.high
    assert trained.accuracy.high - trained.accuracy.low > 0.3  # from a fifth of the answers


def test_a_label_is_what_people_said_unless_much_speaks_against_it(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=60)
    odd = record_item({"x": 0.0, "noise": 9.0}, "odd")  # looks like an "a" and is a "c"
    with store:
        store.register([odd])
        answer_all(store, truth | {odd.id: 2}, 200)
        assert next(one for one in store.standing() if one.item_id == odd.id and one.value == "yes").class_index == 2
        trained = train(store, network="linear", max_epochs=5, n_seeds=2)
    alone = trained.model.predict_proba(trained.encoder.transform([odd]))[0]
    (told,) = trained.predict_proba([odd])
    assert told.sum() == pytest.approx(1)
    assert told[2] / told[0] == pytest.approx(alone[2] / alone[0] * 0.99 / 0.01, rel=1e-3)
    assert alone.argmax() != 2
    trained.save(tmp_path / "model")
    assert np.allclose(learn.load(tmp_path / "model", "cpu").predict_proba([odd])[0], told, atol=1e-6)


# ---- the objective -------------------------------------------------------------------------------------------------


def test_likelihood_is_that_of_answers():
    """Of one no, and of one yes, against the probabilities of the answer, class by class."""
    e, p = 0.1, torch.tensor([[0.5, 0.3, 0.2]])
    objective = Likelihood(3, e)
    no, yes = torch.tensor([[False, True, False]]), torch.tensor([[True, False, True]])
    right = [0.5 * (1 - e) + 0.3 * e + 0.2 * (1 - e), 0.5 * e + 0.3 * (1 - e) + 0.2 * e]
    for label, probability in zip((no, yes), right):
        loss = objective(p.log(), label).item()
        assert loss == pytest.approx(-math.log(probability / (1 - e)), abs=1e-5)


def test_likelihood_without_errors_is_forward():
    logits = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    ruled_out = torch.zeros(50, 5, dtype=torch.bool)
    ruled_out[torch.arange(50), torch.arange(50) % 5] = True
    constant = math.log(4)  # of the ways to rule out one of four
    assert Likelihood(5, 1e-9)(logits, ruled_out).item() == pytest.approx(
        Forward(5)(logits, ruled_out).item() - constant, abs=1e-5
    )


# ---- features ------------------------------------------------------------------------------------------------------


def pictures(folder, *images):
    for i, image in enumerate(images):
        image.save(folder / f"{i}.png")
    return [image_item(folder / f"{i}.png", f"{i}.png") for i in range(len(images))]


def test_images_become_small_and_keep_their_colours(tmp_path):
    grey, red = Image.new("L", (100, 60), 200), Image.new("RGB", (50, 50), (255, 0, 0))
    items = pictures(tmp_path, grey, red)
    X = fit_encoder(items, pixels=True).transform(items)
    assert (X.shape, X.dtype) == ((2, 3, 32, 32), np.uint8)
    assert (X[0] == 200).all()
    assert (X[1] == np.array([255, 0, 0])[:, None, None]).all()
    assert fit_encoder(items[:1], pixels=True).transform(items[:1]).shape == (1, 1, 32, 32)


def test_images_are_read_once(tmp_path):
    items = pictures(tmp_path, *(Image.new("L", (8, 8), 10 * i) for i in range(3)))
    before = PhotoEncoder(pixels=True).fit(items[:2])
    before.transform(items[:2])
    after = PhotoEncoder(pixels=True).fit(items[:2]).keep(before)
    (tmp_path / "0.png").unlink()
    assert after.transform(items)[:, 0, 0, 0].tolist() == [0, 10, 20]
    assert PhotoEncoder(4, 1).keep(before)._read == {}
    with raises(
        "must be a file that can be read; no such file or directory; put it back, or say where it is now: naysayer add"
    ):
        PhotoEncoder(4, 1).transform(items)


def test_images_are_turned_as_browsers_turn_them(tmp_path):
    image = Image.new("L", (8, 4), 0)
    image.paste(255, (0, 0, 4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter to the right
    image.save(tmp_path / "0.png", exif=exif)
    X = PhotoEncoder(8, 1).transform([image_item(tmp_path / "0.png", "0.png")])[0, 0]
    assert X[:2].mean() > 200 > 50 > X[-2:].mean()


def test_texts_come_back_from_json():
    items = [text_item(text, "") for text in ("a fine film", "a long, long film", "fine and long")]
    encoder = fit_encoder(items)
    assert isinstance(encoder, TextEncoder)
    again = encoder_from_dict(json.loads(json.dumps(encoder.to_dict())))
    other = [*items, text_item("unheard-of words", "")]
    assert np.allclose(again.transform(other), encoder.transform(other))
    X = encoder.transform(other)
    assert X.dtype == np.float32
    assert np.allclose((X**2).sum(axis=1), 1, atol=1e-5)


def test_records_come_back_from_json():
    items = [record_item({"age": age, "pet": pet}, "") for age, pet in ((1, "cat"), (None, "dog"), (3, "cat"))]
    items.append(record_item({"age": 5, "hat": "x"}, ""))
    encoder = fit_encoder(items)
    assert isinstance(encoder, RecordEncoder)
    again = encoder_from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert np.allclose(again.transform(items), encoder.transform(items))
    assert again.transform([record_item({"age": 2, "cow": 1}, "")]).shape == (1, len(encoder.table.feature_names_))


def test_paths_in_records_are_no_pictures(tmp_path, monkeypatch):
    pictures(tmp_path, *(Image.new("L", (8, 8), 10 * i) for i in range(4)))
    monkeypatch.chdir(tmp_path)
    items = [record_item({"age": i, "path": f"{i % 4}.png"}, "") for i in range(12)]
    encoder = fit_encoder(items)
    assert encoder.table.pictures == encoder.table.warnings == []
    monkeypatch.chdir(tmp_path.parent)
    assert encoder.transform(items).shape == (12, len(encoder.table.feature_names_))


def test_features_of_a_store(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=10)
    with store:
        X, encoder = features(store)
        some, _ = features(store, list(truth)[3:5])
    assert X.shape == (10, 2)
    assert np.allclose(some, X[3:5])
    assert encoder.kind == "record"


def test_convolutions_train_under_vmap():
    from naysayer import Population

    X = np.random.default_rng(0).integers(256, size=(40, 1, 6, 6)).astype(np.uint8)
    ruled_out = np.eye(3, dtype=bool)[np.arange(40) % 3]
    make = lambda: Convolution(1, 6, 3)  # noqa: E731
    both = Population(make, Likelihood(3, 0.02), seeds=[0, 1], lr=0.01, device="cpu").fit(X, ruled_out, max_epochs=2)
    one = Population(make, Likelihood(3, 0.02), seeds=[1], lr=0.01, device="cpu").fit(X, ruled_out, max_epochs=2)
    assert torch.allclose(both.logits(X)[1], one.logits(X)[0], atol=1e-4)


def test_what_cannot_be_trained_says_so(tmp_path):
    store, truth = recorded(tmp_path / "answers.db")
    with store:
        with raises("a store must have answers about at least 20 items to train on; got 0; collect more"):
            train(store)
        answer_all(store, truth, 60)
        with raises("linear, convolution, pooled, resnet8, resnet18, resnet34, efficientnet-lite0; got 'resnet'"):
            train(store, network="resnet")
        with raises("an error rate must be from 0 to"):
            train(store, error_rate=1.0)
        for network in ("convolution", "resnet18", "efficientnet-lite0"):
            with raises(f'network "{network}" is for images; the items are records; use "mlp"'):
                train(store, network=network)
    with raises("items to learn from must be of one kind; got record and text; use a store for each"):
        fit_encoder([text_item("a", ""), record_item({"a": 1}, "")])
    with raises("an encoder's state must be what to_dict gave; it is not"):
        encoder_from_dict({"kind": "image"})
    with raises("no model at", FileNotFoundError):
        learn.load(tmp_path)
    (tmp_path / "model.json").write_text('{"extra": {}}')
    with raises("model.json is not a whole model file: it lacks 'format'"):
        learn.load(tmp_path)


def test_labels_made_elsewhere_are_taken_at_their_word(tmp_path):
    from naysayer.collect.exchange import import_answers

    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    tasks = [
        {"data": {"x": float(c + rng.normal() / 10)}, "annotations": [
            {"id": i, "result": [{"type": "choices", "value": {"choices": ["ab"[c]]}}]}]}
        for i, c in enumerate(y)
    ]  # fmt: skip
    (tmp_path / "studio.json").write_text(json.dumps(tasks))
    with Store.open(tmp_path / "answers.db", project=Project(("a", "b"))) as store:
        import_answers(store, tmp_path / "studio.json")
        trained = train(store, max_epochs=20, n_seeds=1)
    assert trained.accuracy.estimate > 0.9


def test_texts_are_learned(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(30)]
    y = rng.integers(3, size=240)
    texts = [" ".join(rng.choice(words[10 * c : 10 * c + 12], size=6)) + f" {i:04}" for i, c in enumerate(y)]
    items = [text_item(text, f"row {i}") for i, text in enumerate(texts)]
    with Store.open(tmp_path / "answers.db", project=Project(("a", "b", "c")), random_state=0) as store:
        store.register(items)
        answer_all(store, {item.id: int(c) for item, c in zip(items, y)}, 300, error=0.02)
        trained = train(store, max_epochs=20, n_seeds=5)
    assert trained.accuracy.low < (trained.predict_proba(items).argmax(axis=1) == y).mean()
    assert trained.accuracy.estimate > 0.75


def test_training_is_the_same_again(tmp_path):
    store, truth = recorded(tmp_path / "answers.db", n=80)
    with store:
        answer_all(store, truth, 100, skip=0.1)
        one, other = (train(store, max_epochs=3, n_seeds=1, random_state=5) for _ in range(2))
        assert one.accuracy == other.accuracy
        known = train(store, max_epochs=3, n_seeds=1, random_state=5, error_rate=0.0)
    assert known.error_rate == 0.0
    assert one.n_answers < 100


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command: exit code, what it printed, and its errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["naysayer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code, *capsys.readouterr()

    return run


def test_train_predict_and_evaluate_from_the_command(tmp_path, run):
    truths = {}
    for name, seed in (("answers.db", 0), ("other.db", 1)):
        store, truth = recorded(tmp_path / name, n=150, seed=seed)
        truths |= truth
        with store:
            answer_all(store, truth, 180, seed=seed)
    model = tmp_path / "model"
    code, out, err = run("train", tmp_path / "answers.db", "--out", model, "--epochs", 20)
    assert (code, err) == (0, "")
    assert "180 answers about 150 items" in out
    assert "from answers that had no part in what they judge" in out
    told = json.loads(run("train", tmp_path / "answers.db", "--out", model, "--epochs", 20, "--force", "--json")[1])
    assert told["accuracy"]["low"] < told["accuracy"]["estimate"]
    assert told["learned"] is True
    assert "nothing was learned" not in out
    assert told["classes"] == ["a", "b", "c"]
    code, out, err = run("predict", model, tmp_path / "other.db", "--probabilities")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["item", "id", "prediction", "probability", "P(a)", "P(b)", "P(c)"]
    with Store.open(tmp_path / "other.db") as store:
        assert [row["item"] for row in rows] == [item.name for item in store.items()]
        hits = [row["prediction"] == "abc"[truth[item.id]] for row, item in zip(rows, store.items())]
    code, out, err = run("evaluate", model, tmp_path / "other.db")
    assert (code, err) == (0, "")
    assert "estimated accuracy: " in out
    found = json.loads(run("evaluate", model, tmp_path / "other.db", "--json")[1])
    assert found["accuracy"]["low"] <= np.mean(hits) <= found["accuracy"]["high"]
    assert [c["class"] for c in found["classes"]] == ["a", "b", "c"]
    assert found["items"] == 150
    with Store.open(tmp_path / "answers.db") as store:  # new items among those that the model learned from
        items = [record_item({"x": 0.01 * i, "noise": 9.0}, f"new {i}") for i in range(30)]
        store.register(items)
        answer_all(store, truths | {item.id: 0 for item in items}, 60, seed=2)
    code, out, err = run("evaluate", model, tmp_path / "answers.db")
    assert (code, err) == (0, "")
    assert re.search(r"answers about (2\d|30) items; 150 more are left out, as the model learned from them", out)
    assert float(re.search(r"to ([\d.]+)\) % \(95%", out)[1]) <= 100  # people are shown what can be
    (tmp_path / "new.jsonl").write_text('{"x": 0.1, "noise": 0}\n{"x": 6.0, "noise": 0}\n')
    rows = list(csv.DictReader(io.StringIO(run("predict", model, tmp_path / "new.jsonl")[1])))
    assert [row["prediction"] for row in rows] == ["a", "c"]


def test_the_command_says_when_nothing_was_learned(tmp_path, run):
    store, truth = recorded(tmp_path / "answers.db", n=100)
    rng = np.random.default_rng([0, 7])  # another stream than that of the classes
    with store:
        answer_all(store, {item: int(rng.integers(3)) for item in truth}, 70)  # whatever their fields say
    line = ["train", tmp_path / "answers.db", "--out", tmp_path / "model", "--epochs", 5, "--force"]
    out = run(*line)[1]
    first = out.splitlines()[0]
    assert (
        first
        == "nothing was learned that can be distinguished from guessing, whose accuracy is 33 %; collect more answers"
    )
    told = json.loads(run(*line, "--json")[1])
    assert told["learned"] is False
    assert told["accuracy"]["low"] <= 1 / 3
    sure = f"; of {100 * told['named']:.0f} % of them it is sure (a class has a probability of 90 % or more)\n"
    assert told["unanswered"] > 30
    assert f"\n{told['unanswered']} more items have no answer{sure}" in out


def test_the_command_says_what_does_not_fit(tmp_path, run):
    store, truth = recorded(tmp_path / "answers.db", n=40)
    with store:
        answer_all(store, truth, 60)
    model = tmp_path / "model"
    assert run("train", tmp_path / "answers.db", "--out", model, "--epochs", 2)[0] == 0
    Store.open(tmp_path / "empty.db", project=Project(("a", "b", "c"))).close()
    Store.open(tmp_path / "two.db", project=Project(("a", "b"))).close()
    (tmp_path / "texts.csv").write_text("text\nA fine film.\n")
    for words, *arguments in [
        ("--label is for tables; ", "train", tmp_path / "answers.db", "--out", model, "--force", "--label", "x"),
        ("has one; add --force to overwrite it", "train", tmp_path / "answers.db", "--out", model),
        ("--restart is for tables; ", "train", tmp_path / "answers.db", "--out", model, "--restart", "--force"),
        ("no store at", "train", tmp_path / "none.db", "--out", tmp_path / "new"),
        ("at least 20 items to train on; got 0", "train", tmp_path / "empty.db", "--out", tmp_path / "new"),
        ("the table must have a column 'q'; it has x, noise", "predict", model, tmp_path / "answers.db", "--id", "q"),
        ("--delimiter is for tables; ", "evaluate", model, tmp_path / "answers.db", "--delimiter", ";"),
        ("needs a store to be evaluated on; got", "evaluate", model, tmp_path / "texts.csv"),
        ("must have answers to evaluate a model on; it has none", "evaluate", model, tmp_path / "empty.db"),
        ("must be of the model's classes, a, b, c", "evaluate", model, tmp_path / "two.db"),
        ("about items that the model did not learn from; it has none", "evaluate", model, tmp_path / "answers.db"),
        (
            "texts.csv must hold records, as the model learned from them; texts.csv row 1 is a text",
            "predict",
            model,
            tmp_path / "texts.csv",
        ),
    ]:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
