"""Model folders: written and read in one place; those that earlier releases wrote still load."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB

from helpers import raises
from naysayer import ComplementaryClassifier, ReductionClassifier, metrics, transition
from naysayer.collect import learn
from naysayer.common.files import write_tensors
from naysayer.data.items import image_item, record_item, text_item
from naysayer.data.tables import DataTable
from naysayer.features.encoder import KINDS, encoder_from_dict, fit_encoder
from naysayer.models.description import is_finished
from naysayer.models.encoded import EncodedModel
from naysayer.models.saving import read_model, write_model

SETTINGS = {"method": "forward", "network": "linear", "hidden": [8], "lr": 0.01, "n_seeds": 1}
AGES = {"name": "age", "median": 2.0, "mean": 2.0, "scale": 1.0, "missing": False}  # a column of numbers
PETS = {"name": "pet", "categories": ["cat", "dog"]}


def fitted(shape):
    """What model.json said of a trained model of two classes, by hand."""
    about = {"classes": ["no", "yes"], "n_features": shape[0], "shape": shape, "method": "forward", "lr": 0.01}
    return about | {"best_epoch": 3, "estimated_accuracy": [0.9, 0.8, 0.95], "trials": []}


def write_by_hand(folder, extra, tensors, shape, settings=SETTINGS):
    """Write a folder as format 1 has it, with nothing of the library but its safetensors."""
    about = {
        "format": 1,
        "settings": settings,
        "fitted": fitted(shape),
        "extra": extra,
        "weights": "weights-0.safetensors",
    }
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(about))
    tensors = tensors | {"center": torch.zeros(shape), "scale": torch.ones(shape)}
    write_tensors(folder / "weights-0.safetensors", tensors, {"format": 1})
    return folder


def linear(weight):
    """The parameters of one linear network."""
    weight = torch.tensor([weight])
    return {"parameter.layers.0.weight": weight, "parameter.layers.0.bias": torch.zeros(1, 2)}


def test_a_model_from_a_table_of_an_earlier_release_loads(tmp_path):
    extra = {"table": {"columns": [AGES, PETS], "notes": ["column 'id' is left out"]}, "label": "says"}
    parameters = linear([[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])  # of age, pet=cat, pet=dog
    trained = EncodedModel.load(write_by_hand(tmp_path / "model", extra, parameters, [3]), "cpu")
    assert trained.encoder.kind == "table"
    assert trained.encoder.notes == ["column 'id' is left out"]
    assert trained.about == {"label": "says"}
    table = DataTable({"age": np.array([2, 3, 1]), "pet": np.array(["cat", "cat", "dog"])})
    odds = np.exp([0.0, 1.0, -1.0 + 2.0])
    assert trained.predict_proba(table)[:, 1] == pytest.approx(odds / (1 + odds), abs=1e-6)
    trained.save(tmp_path / "again")
    again = EncodedModel.load(tmp_path / "again", "cpu")
    assert np.array_equal(again.predict_proba(table), trained.predict_proba(table))
    assert again.about == trained.about
    with raises("must have been trained on a store"):
        learn.load(tmp_path / "model")


OF_STORE = {"network": "linear", "error_rate": 0.02, "n_answers": 70, "n_items": 60, "learned_from": ["0123456789ab"]}


def test_a_model_from_a_store_of_an_earlier_release_loads(tmp_path):
    state = {"kind": "record", "columns": ["age"], "table": {"columns": [AGES], "notes": []}}
    extra = {"items": state} | OF_STORE
    trained = learn.load(write_by_hand(tmp_path / "model", extra, linear([[0.0], [1.0]]), [1]), "cpu")
    assert (trained.n_answers, trained.n_items, trained.error_rate, trained.network) == (70, 60, 0.02, "linear")
    assert tuple(trained.accuracy) == (0.9, 0.8, 0.95)
    assert trained.saw("0123456789abcdef")
    assert not trained.saw("1123456789abcdef")
    p = trained.predict_proba([record_item({"age": 2}, "row 1"), record_item({"age": 3}, "row 2")])
    assert p[:, 1] == pytest.approx([0.5, np.e / (1 + np.e)], abs=1e-6)


def test_a_convolution_of_an_earlier_release_loads(tmp_path):
    """Its network was no name then, but the name stood beside it."""
    from naysayer.engine.networks import Convolution

    network = Convolution(1, 8, 2)
    tensors = {f"parameter.{name}": value[None] for name, value in network.state_dict().items()}
    extra = {"items": {"kind": "image", "side": 8, "channels": 1}} | OF_STORE | {"network": "convolution"}
    settings = {name: value for name, value in SETTINGS.items() if name != "network"}
    trained = learn.load(write_by_hand(tmp_path / "model", extra, tensors, [1, 8, 8], settings), "cpu")
    X = torch.zeros(2, 1, 8, 8)
    expected = network(X).softmax(dim=-1).detach().numpy()
    assert np.allclose(trained.model.predict_proba(X.numpy()), expected, atol=1e-6)


# ---- the folder -----------------------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path):
    about = {"settings": {"lr": np.float64(0.1)}, "fitted": {"classes": np.arange(2)}, "extra": {}}
    write_model(tmp_path / "deep" / "model", about, {"w": torch.arange(3.0)})
    read, tensors = read_model(tmp_path / "deep" / "model")
    assert read == {"settings": {"lr": 0.1}, "fitted": {"classes": [0, 1]}, "extra": {}}
    assert tensors["w"].tolist() == [0, 1, 2]
    write_model(tmp_path / "deep" / "model", about, {"w": torch.arange(4.0)})
    assert len(list((tmp_path / "deep" / "model").iterdir())) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a whole model file: Expecting"),
        ("[1]", "is not a whole model file"),
        ("{}", "is not a whole model file: it lacks 'format'"),
        ('{"format": 2}', "is not a whole model file: it has format 2, and this release reads 1"),
        ('{"format": 1, "settings": {}}', "is not a whole model file: it lacks 'fitted'"),
    ],
)
def test_a_folder_that_is_no_model_says_so(tmp_path, text, words):
    with raises(f"no model at {tmp_path}: it has no model.json", FileNotFoundError):
        read_model(tmp_path)
    (tmp_path / "model.json").write_text(text)
    with raises(words):
        read_model(tmp_path)
    with raises("cannot save to", FileExistsError):
        write_model(tmp_path / "model.json", {}, {})


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        (None, False),
        ('{"extra": {}}', True),
        ('{"extra": {"interrupted": false}}', True),
        ('{"extra": {"interrupted": true}}', False),
        *((text, True) for text in ("{", "[1]", "{}", '{"extra": 3}', "[" * 100_000)),  # somebody's, perhaps
    ],
)
def test_a_folder_has_a_finished_model_or_not(tmp_path, text, finished):
    if text is not None:
        (tmp_path / "model.json").write_text(text)
    assert is_finished(tmp_path) is finished


# ---- encoders -------------------------------------------------------------------------------------------------


def examples_of(kind, folder):
    """Some examples of a kind."""
    from PIL import Image

    if kind == "table":
        return DataTable({"age": np.array([1, 2, 3]), "pet": np.array(["cat", "dog", "cat"])})
    if kind == "record":
        return [record_item({"age": i, "pet": pet}, f"row {i}") for i, pet in enumerate(["cat", "dog", "cat"])]
    if kind == "text":
        return [text_item(text, "") for text in ("a fine film", "a long film", "fine")]
    for i in range(3):
        Image.new("L", (6, 6), 40 * i).save(folder / f"{i}.png")
    return [image_item(folder / f"{i}.png", f"{i}.png") for i in range(3)]


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_encoder_keeps_the_contract(tmp_path, kind):
    examples = examples_of(kind, tmp_path)
    encoder = fit_encoder(examples)
    assert type(encoder) is KINDS[kind]
    assert encoder.kind == kind
    assert bool(encoder.notes) == (kind in ("image", "text"))  # which say by what they are read
    X = encoder.transform(examples)
    assert len(X) == 3
    assert X.dtype in (np.float32, np.uint8)
    state = json.loads(json.dumps(encoder.to_dict()))
    assert state["kind"] == kind
    again = encoder_from_dict(state)
    assert np.array_equal(again.transform(examples), X)
    assert again.to_dict() == encoder.to_dict()
    assert np.array_equal(KINDS[kind]().fit(examples).transform(examples), X)


def test_a_kind_that_is_not_known_says_so():
    for state in ({}, {"kind": "sound"}, {"kind": "image"}, {"kind": "text", "words": 3}, {"kind": "table"}):
        with raises("an encoder's state must be what to_dict gave; it is not"):
            encoder_from_dict(state)


def test_an_estimated_transition_keeps_its_pairs(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    y_bar = (y + rng.integers(1, 3, size=90)) % 3
    q = transition.estimate(y_bar, y, 3)
    X = np.eye(3, dtype=np.float32)[y]
    model = ComplementaryClassifier("forward", "linear", max_epochs=1, n_seeds=1, transition=q, device="cpu")
    model.fit(X, y_bar).save(tmp_path / "model")
    reduced = ReductionClassifier(GaussianNB(), transition=q).fit(X, y_bar)
    reduced.save(tmp_path / "reduced")
    again = (
        ComplementaryClassifier.load(tmp_path / "model", device="cpu"),
        ReductionClassifier.load(tmp_path / "reduced"),
    )
    interval = metrics.accuracy_interval(y_bar, y, 3, transition=q)
    for loaded in (model.transition for model in again):
        assert isinstance(loaded, transition.Estimated)
        np.testing.assert_array_equal(loaded, np.asarray(q))
        np.testing.assert_array_equal(loaded.counts, q.counts)
        assert (loaded.model, loaded.choice, loaded.strength) == (q.model, q.choice, q.strength)
        assert metrics.accuracy_interval(y_bar, y, 3, transition=loaded) == interval
