"""Images and recipes through the classifier: how images may come, what is held out, kept, saved and refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from helpers import raises
from naysayer import ComplementaryClassifier, Population, complement
from naysayer.engine import population, stack
from naysayer.engine.augment import crop_and_flip, distort
from naysayer.engine.recipe import RECIPES, Consistency, Recipe
from naysayer.models import defaults, training
from naysayer.models.defaults import DEFAULTS, kind_of

K = 3
pytestmark = pytest.mark.filterwarnings("ignore:nothing was learned")  # of so few labels that is no news


def bars(n=90, channels=1, seed=0):
    """Bright bars at the top, in the middle or at the bottom, (N, C, 8, 8) bytes; their classes and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    X = rng.integers(0, 60, (n, channels, 8, 8), dtype=np.uint8)
    for i, k in enumerate(y):
        X[i, :, 3 * k : 3 * k + 2] += 180
    return X, y, complement(y, K, random_state=seed)


def quick(network="mlp", recipe="consistency", **options):
    given = {"method": "forward", "max_epochs": 3, "n_seeds": 2, "device": "cpu", "random_state": 0, "hidden": (16,)}
    return ComplementaryClassifier(network=network, recipe=recipe, **(given | options))


def tiny(n_features, n_classes):
    """A residual network's parts, small enough for tests."""
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, n_classes))


@pytest.fixture(scope="module")
def fitted():
    """A model of a residual network, the images and their classes."""
    X, y, y_bar = bars()
    return quick("resnet8", max_epochs=2).fit(X, y_bar), X, y


# ---- how images may come --------------------------------------------------------------------------------------------


def test_images_may_come_in_any_layout(fitted):
    model, X, _ = fitted
    y_bar = bars()[2]
    expected = model.predict_proba(X)
    for images in (X[:, 0], X.transpose(0, 2, 3, 1), list(X[:, 0]), torch.from_numpy(X), X.astype(int)):
        np.testing.assert_array_equal(model.predict_proba(images), expected)
    for images in (X[:, 0], X.transpose(0, 2, 3, 1)):
        other = quick("resnet8", max_epochs=2).fit(images, y_bar)
        np.testing.assert_array_equal(other.predict_proba(X), expected)
    floats = quick("resnet8", max_epochs=2).fit(X.astype("float32") / 255, y_bar)
    np.testing.assert_allclose(floats.predict_proba(X / 255), expected, atol=1e-4)
    np.testing.assert_allclose(floats.predict_proba(X), expected, atol=1e-4)  # bytes are what was divided by 255


@pytest.mark.parametrize("network", ["mlp", "convolution", "resnet8"])
def test_a_model_of_bytes_knows_floats_of_0_to_1(network):
    X, _, y_bar = bars(60)
    model = quick(network, recipe="plain", max_epochs=2).fit(X, y_bar)
    expected = model.predict_proba(X)
    assert np.abs(expected - model.predict_proba(X // 255)).max() > 1e-3  # so that what follows could fail
    for floats in (X / 255, (X / 255).astype("float32"), torch.from_numpy(X) / 255):
        np.testing.assert_allclose(model.predict_proba(floats), expected, rtol=0, atol=1e-4)
    for floats in (X.astype("float32"), X / 1.0):
        np.testing.assert_allclose(model.predict_proba(floats), expected, rtol=0, atol=1e-6)
    for wrong, found in ((X / 127.5 - 1, "-1 to "), (X * 2.0, "0 to ")):
        with raises(f"since `fit` had bytes; got numbers from {found}"):
            model.predict(wrong)


def test_bytes_are_predicted_without_a_copy_as_floats(monkeypatch):
    """Which would take four times their memory, and twice that while they were scaled."""
    X, _, y_bar = bars(60)
    model = quick(recipe="plain", max_epochs=1).fit(X, y_bar)
    seen = []
    monkeypatch.setattr(type(model.members_[0]), "probabilities", lambda _, x: seen.append(x) or np.ones((len(x), K)))
    model.predict_proba(X)
    assert seen[0].dtype == torch.uint8
    assert seen[0].data_ptr() == X.ctypes.data


def test_bytes_that_come_after_floats_are_scaled_as_those():
    X, _, y_bar = bars(60)
    floats = X.astype("float32")
    one, other = (quick(recipe="plain", lr=0.01, classes=range(K)).partial_fit(floats, y_bar) for _ in range(2))
    expected = one.partial_fit(floats, y_bar).predict_proba(floats)
    np.testing.assert_allclose(other.partial_fit(X, y_bar).predict_proba(X), expected, rtol=0, atol=1e-6)


def test_a_deep_network_of_floats_is_given_the_same_range_again():
    X, _, y_bar = bars(60)
    for network, recipe in (("resnet8", "plain"), ("mlp", "consistency")):
        model = quick(network, recipe, max_epochs=1).fit(X.astype("float32") / 255, y_bar)
        with raises("images must be bytes or floats of 0 to 1; got numbers from 0 to 239; scale them, or pass bytes"):
            model.predict(X.astype("float32"))


def test_colours_come_first_or_last():
    X, _, y_bar = bars(60, channels=3)
    one, other = (quick("resnet8", max_epochs=1).fit(x, y_bar) for x in (X, X.transpose(0, 2, 3, 1)))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.center_.shape == (3, 8, 8)


def test_what_is_no_image_stays_as_it_is():
    """With the plain recipe, or views of one's own, three axes are what they are."""
    X, _, y_bar = bars(60)
    for recipe in ("plain", Consistency(lambda x, codes: x * 0.9)):
        assert quick(recipe=recipe, max_epochs=1).fit(X[:, 0], y_bar).center_.shape == (8, 8)
    assert quick(max_epochs=1).fit(X[:, 0], y_bar).center_.shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("X", "network", "words"),
    [
        (np.full((30, 1, 8, 8), 200.0), "resnet8", "images must be bytes or floats of 0 to 1; got numbers from 200 to"),
        (-np.ones((30, 8, 8, 3)), "mlp", "images must be bytes or floats of 0 to 1; got numbers from -1 to -1; scale"),
        (np.ones((30, 1, 4, 8)), "resnet18", 'network "resnet18" is for images of shape (C, H, W), H and W at least 8'),
        (np.ones((30, 64)), "resnet34", 'H and W at least 8; got examples of (64,); use "mlp"'),
        (np.ones((30, 64)), "efficientnet-lite0", 'in colours or grey; got examples of (64,); use "mlp"'),
        (
            np.ones((30, 2, 8, 8)),
            "efficientnet-lite0",
            "is for images of shape (C, H, W), in colours or grey; got exam",
        ),
        (np.ones((30, 1, 8, 9)), "convolution", 'network "convolution" is for images of shape (C, S, S); got examples'),
        ([np.ones((8, 8)), np.ones((8, 9))] * 15, "resnet8", "all images of `X` must have the same shape; bring them"),
    ],
)
def test_images_refused(X, network, words):
    with raises(words):
        quick(network).fit(X, np.arange(30) % K)


# ---- what is trained ------------------------------------------------------------------------------------------------


def test_residual_networks_take_consistent_views_by_themselves(monkeypatch):
    made = []

    class Noted(Population):
        def __init__(self, *given, **options):
            made.append(options)
            super().__init__(*given, **options)

    monkeypatch.setattr(training, "Population", Noted)
    X, _, y_bar = bars()
    model = ComplementaryClassifier(network="resnet8", max_epochs=4, random_state=0, device="cpu").fit(X, y_bar)
    assert [trial["method"] for trial in model.trials_] == ["forward"]
    (options,) = made
    assert isinstance(options["recipe"], Consistency)
    assert (options["recipe"].rise, options["recipe"].augment) == (2, None)
    how = DEFAULTS["consistency", "residual"]
    assert (options["optimizer"], options["weight_decay"], options["lr"]) == (
        "adamw",
        how.weight_decay,
        list(how.rates),
    )
    assert [options["schedule"](epoch) for epoch in range(4)] == pytest.approx([1.0, 0.853553, 0.5, 0.146447], abs=1e-5)
    assert (options["precision"], options["compiled"], len(options["seeds"])) == ("float32", False, 1)
    assert len(model.held_out_.rows) == 9  # a tenth
    made.clear()
    explicit = {"optimizer": "sgd", "weight_decay": 0.2, "lr": 0.3, "schedule": None, "n_seeds": 2, "max_epochs": 1}
    explicit |= {"recipe": "plain", "validation_fraction": 0.3, "batch_size": 50}
    ComplementaryClassifier("forward", "resnet8", random_state=0, device="cpu", **explicit).fit(X, y_bar)
    (options,) = made
    assert type(options["recipe"]) is Recipe
    assert (options["optimizer"], options["weight_decay"], options["lr"]) == ("sgd", 0.2, [0.3, 0.3])
    assert (options["schedule"], options["batch_size"]) == (None, 50)


def test_each_kind_of_network_has_its_views():
    shape = torch.Size([1, 8, 8])
    dense = defaults.made("consistency", "dense", shape, 60)
    assert (dense.augment.func, dense.augment.keywords) == (distort, {"strength": 0.5, "flip": False})
    assert (dense.weak.func, dense.weak.keywords) == (crop_and_flip, {"padding": 1, "flip": False})
    assert dense.rise == 30
    assert defaults.made("consistency", "residual", shape, 1).rise == 1
    assert defaults.made("consistency", "dense", torch.Size([6]), 30).augment is None
    own = Consistency(rise=7)
    assert defaults.made(own, "dense", shape, 60) is own
    assert type(defaults.made("plain", "residual", shape, 60)) is RECIPES["plain"]
    assert kind_of(tiny(64, K)) == "residual"
    assert kind_of(nn.Sequential(nn.Conv1d(1, 1, 3))) == "convolution"
    assert kind_of(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))) == "dense"


def test_methods_whose_logits_are_not_of_classes_keep_the_plain_recipe():
    X, _, y_bar = bars(60)
    model = quick("resnet8", "auto", method="cpe-f", max_epochs=1, n_seeds=1).fit(X, y_bar)
    assert model.method_ == "cpe-f"
    with raises('recipe "consistency" is for objectives whose logits are of the classes; Forward'):
        quick("resnet8", method="cpe-f", max_epochs=1, n_seeds=1).fit(X, y_bar)


def test_labels_held_out_are_never_seen_but_their_images_are(monkeypatch):
    """Neither by the run that holds them out, nor as part of any count; every image is shown to every run."""
    shown = []

    class Noted(training.Resident):
        def batches(self, epoch, runs):
            for batch in super().batches(epoch, runs):
                shown.append(batch)
                yield batch

    monkeypatch.setattr(training, "Resident", Noted)
    monkeypatch.setattr(stack, "Resident", Noted)
    X, _, y_bar = bars(60)
    model = quick(max_epochs=1, batch_size=1000).fit(X, y_bar)
    expected = np.eye(K, dtype=bool)[y_bar]
    held_out = model.held_out_.rows
    seen = [0, 0]
    source = torch.cat([torch.from_numpy(X), torch.from_numpy(X)[torch.from_numpy(np.unique(held_out))]])
    for batch in shown:
        for run in range(batch.rows.shape[1]):
            rows, labels = batch.rows[0, run].numpy(), batch.labels[0, run].numpy()
            assert len(rows) == 60
            originals = np.sort([np.flatnonzero((source[r].numpy() == X).all(axis=(1, 2, 3)))[0] for r in rows])
            np.testing.assert_array_equal(originals, np.arange(60))  # each image once
            blank = ~labels.any(axis=1)
            assert blank.sum() == 12
            np.testing.assert_array_equal(labels[~blank], expected[rows[~blank]])
            assert (rows[blank] >= 60).all()
            seen[run % 2] += 1
    assert min(seen) > 0


def test_rows_without_labels_count_with_their_weights():
    X, _, y_bar = bars(60)
    labels = np.eye(K, dtype=bool)[y_bar]
    labels[40:] = False
    weight = np.ones(60)
    make = partial(quick, lr=0.01, batch_size=1000)
    plain = make().fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(make().fit(X, labels, weight).predict_proba(X), plain, atol=1e-4)
    np.testing.assert_allclose(make().fit(X, labels, 2 * weight).predict_proba(X), plain, atol=1e-4)
    weight[40:] = 0.0
    absent = make().fit(X, labels, weight).predict_proba(X)
    np.testing.assert_allclose(absent, make().fit(X[:40], labels[:40]).predict_proba(X), atol=1e-4)
    assert np.abs(absent - plain).max() > 1e-3


# ---- keeping it -----------------------------------------------------------------------------------------------------


def test_it_learns_says_how_well_and_comes_back(tmp_path):
    X, _, y_bar = bars(240)
    model = quick("resnet8", max_epochs=5, lr=0.005, n_seeds=1, batch_size=32).fit(X, y_bar)
    new, truth, _ = bars(60, seed=1)
    assert (model.predict(new) == truth).mean() > 0.9
    estimate, low, high = model.estimated_accuracy_
    assert low < 0.95 < high or estimate > 0.9
    model.save(tmp_path / "model")
    assert not any(path.suffix in (".pkl", ".pt") for path in (tmp_path / "model").iterdir())
    back = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    assert (back.network, back.network_, back.recipe) == ("resnet8", "resnet8", "consistency")
    np.testing.assert_array_equal(back.predict_proba(new[:, 0]), model.predict_proba(new))


def test_a_recipe_of_ones_own_and_a_function_are_given_again(tmp_path):
    X, _, y_bar = bars(60)
    model = quick(tiny, Consistency(rise=1), max_epochs=1).fit(X, y_bar)
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path, network=tiny, device="cpu")
    np.testing.assert_array_equal(back.predict_proba(X[:, 0]), model.predict_proba(X))


@pytest.mark.parametrize("network", ["mlp", "resnet8"])
def test_an_interrupted_fit_keeps_what_was_trained_and_goes_on(tmp_path, monkeypatch, network):
    X, _, y_bar = bars(60)
    options = {"max_epochs": 4, "lr": 0.01, "n_seeds": 1}
    expected = quick(network, **options).fit(X, y_bar)
    epochs = []

    def stop():
        epochs.append(1)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(population, "CHECKPOINT_SECONDS", -1.0)
    with pytest.warns(UserWarning, match="training was interrupted; what was trained is kept"):
        cut = quick(network, **options, checkpoint=tmp_path / "way", on_epoch=stop).fit(X, y_bar)
    assert len(set(cut.history_["epoch"])) == 2
    assert any((tmp_path / "way").iterdir())
    model = quick(network, **options, checkpoint=tmp_path / "way").fit(X, y_bar)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert not (tmp_path / "way").exists()


def test_a_warm_start_goes_on_from_the_averaged_weights():
    X, _, y_bar = bars(60)
    model = quick("resnet8", n_seeds=1, warm_start=True, lr=0.01, max_epochs=3).fit(X, y_bar)
    first = model.history_["loss"]
    model.fit(X, y_bar)
    assert model.history_["loss"][0] < first[0]


def test_time_runs_out_after_an_epoch():
    X, _, y_bar = bars(60)
    model = quick("resnet8", n_seeds=1, max_epochs=50, time_limit=1e-6).fit(X, y_bar)
    assert set(model.history_["epoch"]) == {0}


# ---- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"recipe": "consistant"},
            "one of auto, plain, consistency, progressive; got 'consistant' (did you mean 'consistency'?)",
        ),
        ({"recipe": 7}, "`recipe` must be a Recipe or one of auto, plain, consistency, progressive; got '7'"),
        (
            {"recipe": Consistency(lambda x, codes: x[:, 1:])},
            "`augment` must keep the shape of what it is given, (",
        ),
        ({"validation_fraction": "some"}, "`validation_fraction` must be between 0 and 1; got 'some'"),
        (
            {"network": nn.Sequential(nn.Flatten(), nn.Linear(64, 5))},
            "`network` must give 3 logits per example, one per",
        ),
        (
            {"network": nn.Sequential(nn.Flatten(0), nn.LazyLinear(3))},
            "`network` must map (B, ...) to (B, 3) logits; from 2 examples it made (3,)",
        ),
    ],
)
def test_settings_refused(options, words):
    X, _, y_bar = bars(60)
    if isinstance(options.get("network"), nn.Module):
        options["network"](torch.zeros(2, 1, 8, 8))  # lazy layers learn their shape
    with raises(words):
        quick(**options).fit(X, y_bar)


def test_labels_that_rule_out_nothing_are_refused():
    with raises("`y_bar` must rule out a class in at least 2 rows; got 0 of 60"):
        quick("resnet8").fit(bars(60)[0], np.zeros((60, K), dtype=bool))


def test_a_device_without_memory_is_told_in_one_line(monkeypatch):
    def no_memory(self, *_):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Consistency, "views", no_memory)
    X, _, y_bar = bars(60)
    with raises("lower `batch_size`, the recipe's `n_strong` or the network's width", MemoryError):
        quick("resnet8", n_seeds=1).fit(X, y_bar)
