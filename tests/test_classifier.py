"""The scikit-learn face: what it learns, from what it takes, what it pools, says of it, keeps, saves and refuses."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import random
import re
import struct
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

from helpers import as_sets, is_rows, raises
from naysayer import BoostedClassifier, ComplementaryClassifier, complement, losses, metrics, transition
from naysayer.data import datasets
from naysayer.engine import population, schedules, stack
from naysayer.engine.recipe import Consistency, Recipe
from naysayer.measure import planning
from naysayer.measure.intervals import Interval
from naysayer.models import boosting, description, members, saving, training
from naysayer.objectives import OBJECTIVES, Forward, GradientAscent

METHODS = ("free", "max", "ascent", "forward", "pairwise")
pytestmark = pytest.mark.usefixtures("few_trees")


def blobs(n=240, n_classes=3, seed=0, dtype="float32"):
    """Classes far apart, which any method tells apart; inputs, truth and complementary labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    centres = np.random.default_rng(99).normal(size=(n_classes, 4)) * 2
    X = (centres[y] + 0.4 * rng.normal(size=(n, 4))).astype(dtype)
    return X, y, complement(y, n_classes, random_state=seed)


def quick(method="forward", network="mlp", **options):
    """A model that is trained in a tenth of a second."""
    defaults = {"hidden": (16,), "lr": 0.01, "max_epochs": 15, "n_seeds": 2, "device": "cpu", "random_state": 0}
    return ComplementaryClassifier(method, network, **(defaults | options))


def accuracy(model, X, y_true):
    return float((model.predict(X) == np.asarray(y_true)).mean())


def same_model(one, other, X, tolerance=0.0):
    """Whether two models give the same probabilities to the same classes."""
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=0, atol=tolerance)


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


@pytest.fixture(scope="module")
def fitted():
    """A model and the inputs it learned from; tests must not change it."""
    X, _, y_bar = blobs()
    return quick().fit(X, y_bar), X


def test_the_comparison_of_models_can_fail():
    X, _, y_bar = blobs()
    few = partial(quick, max_epochs=3)  # after more, all are sure of everything
    model = few().fit(X, y_bar)
    same_model(model, few().fit(X, y_bar), X)
    for other in (few(random_state=1).fit(X, y_bar), few(classes=[1, 2, 0]).fit(X, y_bar)):
        with pytest.raises(AssertionError):
            same_model(model, other, X, 1e-4)


# ---- scikit-learn's contract ----------------------------------------------------------------------------------

EXEMPT = {  # each is also shown to fail, so that none stays here longer than it must
    "check_classifiers_train": "its y is ordinary labels, which are read here as 'not this class': accuracy is low",
    "check_fit_score_takes_y": "the labels' argument is called y_bar, so that nobody takes it for the truth",
    "check_n_features_in_after_fitting": "calls score(X, y=...); with y_bar= a test below does the same",
    "check_sample_weight_equivalence_on_dense_data": "calls fit(X, y=...); tests below do the same with y_bar=",
    "check_sample_weight_equivalence_on_sparse_data": "calls fit(X, y=...); tests below do the same with y_bar=",
}


def contract(model):
    """Every check but the one that needs SCIPY_ARRAY_API in the environment before scipy is imported."""
    checks = estimator_checks_generator(model)
    return [pytest.param(*pair, id=check_name(pair[1])) for pair in checks if "array_api" not in check_name(pair[1])]


def check_name(check):
    while isinstance(check, partial):
        check = check.func
    return check.__name__


@pytest.mark.parametrize(
    ("estimator", "check"),
    contract(quick(hidden=(8,), max_epochs=3)) + contract(quick("ascent", "linear", max_epochs=3)),
)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    if check_name(check) not in EXEMPT:
        check(estimator)
        return
    with pytest.raises((AssertionError, TypeError)):
        check(estimator)


def test_every_use_checks_the_features_and_that_it_was_fitted():
    X, _, y_bar = blobs()
    model = quick(max_epochs=2)
    for use in (model.predict, model.predict_proba, lambda X: model.score(X, y_bar), lambda _: model.save("unused")):
        with raises("is not fitted yet", NotFittedError):
            use(X)
    model.fit(X, y_bar)
    for use in (model.predict, model.predict_proba, lambda X: model.score(X, y_bar)):
        with raises("X has 3 features, but ComplementaryClassifier is expecting 4 features as input"):
            use(X[:, :3])


# ---- learning -------------------------------------------------------------------------------------------------


def test_iris_is_learned_from_what_flowers_are_not():
    X, y = load_iris(return_X_y=True)
    model = quick(max_epochs=60).fit(X, complement(y, 3, random_state=0))
    assert accuracy(model, X, y) > 0.85


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_blobs(method):
    X, y, y_bar = blobs(n_classes=4, n=480)
    model = quick(method, max_epochs=30, lr=(0.003, 0.01)).fit(X[:360], y_bar[:360])
    assert model.method_ == method
    assert accuracy(model, X[360:], y[360:]) > (0.6 if method == "ascent" else 0.9)  # it unlearns on so few


def test_the_digits_are_learned_and_the_estimate_holds_the_truth(digits):
    covered = 0
    for seed in range(4):
        y_bar = complement(digits.y_train, 10, n_labels=3, random_state=seed)
        model = quick(hidden=(64,), max_epochs=30, n_seeds=5, random_state=seed).fit(digits.X_train, y_bar)
        assert accuracy(model, digits.X_test, digits.y_test) > 0.85
        estimate, low, high = model.estimated_accuracy_
        assert low <= estimate <= high
        assert high - low < 0.2
        classes = model.predict_proba(digits.X_test)
        assert classes.shape == (500, 10)
        np.testing.assert_allclose(classes.sum(axis=1), 1, atol=1e-5)
        covered += low <= accuracy(model, digits.X_test, digits.y_test) <= high
    assert covered >= 3


def test_labels_kept_apart_estimate_the_true_accuracy_on_digits(digits):
    y_bar = complement(digits.y_train, 10, n_labels=3, random_state=0)
    model = quick(hidden=(64,), max_epochs=30, n_seeds=2, random_state=0).fit(digits.X_train, y_bar)
    predicted, truth = model.predict(digits.X_test), accuracy(model, digits.X_test, digits.y_test)
    covered = 0
    for seed in range(40):
        _, low, high = metrics.accuracy_interval(complement(digits.y_test, 10, random_state=seed), predicted, 10)
        covered += low <= truth <= high
    assert covered >= 34  # of 40 intervals of 95%: fewer has probability 0.003


def test_what_learned_has_the_weight_and_what_did_not_has_little():
    X, y, y_bar = blobs(n=360, n_classes=4)
    model = quick(["forward", "linear"], lr=(1e-7, 0.01), max_epochs=20, n_seeds=5).fit(X[:240], y_bar[:240])
    named = [(t["method"], t["network"], t["lr"]) for t in model.trials_]
    assert named == [("forward", network, lr) for network in ("mlp", "linear") for lr in (1e-7, 0.01)]
    slow, fast = model.trials_[::2], model.trials_[1::2]
    assert sum(t["weight"] for t in fast) > 3 * sum(t["weight"] for t in slow)  # all are believed in a little
    assert sum(t["weight"] for t in model.trials_) <= 1 + 1e-9
    assert model.lr_ == 0.01
    assert model.network_ == max(model.trials_, key=lambda t: t["weight"])["network"]
    assert len(model.members_) == len(model.pool_.weights) == sum(t["weight"] > 0 for t in model.trials_)
    assert accuracy(model, X[240:], y[240:]) > 0.9
    twice = quick(["max", "forward", "max"], max_epochs=2).fit(X, y_bar)
    assert [t["method"] for t in twice.trials_] == ["max", "forward"]


def test_members_leave_no_trace_in_each_other():
    X, _, y_bar = blobs()
    one, both = quick("linear").fit(X, y_bar), quick(["forward", "linear"]).fit(X, y_bar)
    (alone,), (_, beside) = one.members_, both.members_
    assert alone.parameters.keys() == beside.parameters.keys()
    assert all(torch.equal(alone.parameters[k], beside.parameters[k]) for k in alone.parameters)


@pytest.fixture(scope="module")
def automatic():
    """What the defaults come to on a small table; tests must not change it."""
    X, y, y_bar = blobs(n=120)
    return ComplementaryClassifier(random_state=0, max_epochs=10).fit(X, y_bar), X, y


def test_auto_pools_networks_trees_and_neighbours(automatic):
    model, X, y = automatic
    named = [(t["method"], t["network"], t["lr"]) for t in model.trials_]
    boosted = [("boosting", None, None)] if boosting.is_available() else []
    networks = [("forward", "mlp", 0.01), ("forward", "linear", 0.02)]
    assert named == [
        *networks,
        ("forest", None, None),
        *boosted,
        ("neighbours", None, None),
        ("discriminant", None, None),
    ]
    assert accuracy(model, X, y) > 0.9
    assert model.learned_
    _, low, high = model.estimated_accuracy_
    assert low > 0.7
    assert high == 1
    assert len(model.held_out_.rows) == 120  # each was held out


def test_a_saved_pool_comes_back(automatic, tmp_path):
    model, X, _ = automatic
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path)
    same_model(model, back, X)
    assert [type(m) for m in back.members_] == [type(m) for m in model.members_]
    assert back.network_ == model.network_
    assert back.learned_


def test_a_linear_model_has_one_layer():
    X, y, y_bar = blobs()
    model = quick(network="linear", max_epochs=40).fit(X, y_bar)
    (member,) = model.members_
    assert {k: tuple(v.shape) for k, v in member.parameters.items()} == {
        "layers.0.weight": (2, 3, 4),
        "layers.0.bias": (2, 3),
    }
    assert accuracy(model, X, y) > 0.9


def seeded(build):
    """Build a module whose weights do not depend on what was drawn before: a run starts from them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


def perceptron(width=8):
    return seeded(lambda: nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3)))


def convolutional():
    image = (nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*image, nn.Dropout(0.1), nn.Linear(288, 10))


def test_a_module_of_ones_own_is_copied_and_left_alone(digits):
    X, y, y_bar = blobs()
    module = perceptron(16)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    assert accuracy(quick(network=module, max_epochs=30).fit(X, y_bar), X, y) > 0.9
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())

    images = digits.X_train.reshape(-1, 1, 8, 8)
    three = complement(digits.y_train, 10, n_labels=3, random_state=0)
    model = quick(network=seeded(convolutional), max_epochs=8).fit(images, three)
    assert accuracy(model, digits.X_test.reshape(-1, 1, 8, 8), digits.y_test) > 0.8


def test_a_function_is_told_features_and_classes():
    X, y, y_bar = blobs()
    asked = []

    def build(n_features, n_classes):
        asked.append((n_features, n_classes))
        return nn.Sequential(nn.Flatten(), nn.Linear(n_features, n_classes))

    model = quick(network=build, max_epochs=40).fit(X.reshape(-1, 2, 2), y_bar)
    assert set(asked) == {(4, 3)}
    assert accuracy(model, X.reshape(-1, 2, 2), y) > 0.9


@pytest.mark.parametrize("method", ["forward", "pairwise"])
@pytest.mark.parametrize("outputs", [2, 5])
def test_a_network_with_other_outputs_than_classes_is_refused(method, outputs):
    X, _, y_bar = blobs()
    with raises(f"`network` must give 3 logits per example, one per class; got ({outputs},)"):
        quick(method, nn.Linear(4, outputs)).fit(X, y_bar)


def test_a_loss_of_ones_own():
    X, _, y_bar = blobs()

    def mine(logits):
        return -torch.log_softmax(logits, dim=-1)

    named = quick("free", loss="cross_entropy").fit(X, y_bar)
    same_model(named, quick("free", loss=mine).fit(X, y_bar), X, tolerance=1e-6)
    same_model(named, quick("free", loss=losses.cross_entropy).fit(X, y_bar), X)
    for loss in ("mean_absolute_error", "one_vs_all(ramp)"):
        with pytest.raises(AssertionError):
            same_model(named, quick("free", loss=loss).fit(X, y_bar), X)


class Sharpened(Forward):
    """A method of one's own: its constructor takes the matrix, something new, and nothing else."""

    def __init__(self, n_classes, *, sharpness=2.0, transition=None):
        super().__init__(n_classes, transition)
        self.sharpness = sharpness

    def example_losses(self, logits, y_bar):
        return super().example_losses(self.sharpness * logits, y_bar)


def test_a_method_put_into_the_table_is_trained(monkeypatch):
    X, y, y_bar = blobs()
    monkeypatch.setitem(OBJECTIVES, "mine", Sharpened)
    model = quick("mine", alpha=0.5, beta=0.1, loss="mean_absolute_error", max_epochs=30).fit(X, y_bar)
    assert model.method_ == "mine"
    assert accuracy(model, X, y) > 0.9
    assert [t["method"] for t in quick(["mine", "forward"], max_epochs=2).fit(X, y_bar).trials_] == ["mine", "forward"]
    with pytest.raises(AssertionError):
        same_model(model, quick("forward", max_epochs=30).fit(X, y_bar), X, 1e-4)
    # What its constructor takes by name, it gets.
    q = np.array([[0.3, 0.6, 0.1], [0.1, 0.3, 0.6], [0.6, 0.1, 0.3]])
    told = complement(y, 3, transition=q, random_state=0)
    assert accuracy(quick("mine", max_epochs=30, transition=q).fit(X, told), X, y) > 0.85
    assert accuracy(quick("mine", max_epochs=30).fit(X, told), X, y) < 0.3


def test_an_objective_of_ones_own_is_trained_under_its_name(monkeypatch, tmp_path):
    X, _, y_bar = blobs()
    own = Sharpened(3, sharpness=3.0)
    model = quick({"sharper": own, "plain": Forward(3)}, lr=(0.003, 0.01)).fit(X, y_bar)
    assert [t["method"] for t in model.trials_] == ["sharper", "sharper", "plain", "plain"]
    assert model.method_ in ("sharper", "plain")
    same_model(quick({"plain": Forward(3)}).fit(X, y_bar), quick("forward").fit(X, y_bar), X)
    monkeypatch.setitem(OBJECTIVES, "mine", partial(Sharpened, sharpness=3.0))
    only = quick({"sharper": own}).fit(X, y_bar)
    same_model(only, quick("mine").fit(X, y_bar), X)
    same_model(only, clone(only).fit(X, y_bar), X)
    only.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path)
    same_model(only, back, X)
    assert back.method_ == "sharper"


def test_settings_reach_the_engine():
    X, _, y_bar = blobs()
    few = partial(quick, max_epochs=3)  # after more, all are sure of everything
    model = few().fit(X, y_bar)
    for change in (
        {"optimizer": "sgd"},
        {"optimizer": "adamw", "weight_decay": 0.5},
        {"weight_decay": 0.5},
        {"schedule": "cosine"},
        {"schedule": lambda epoch: 0.5**epoch},
        {"batch_size": 40},
        {"momentum": 0.5},
        {"validation_fraction": 0.5},
        {"standardize": False},
    ):
        with pytest.raises(AssertionError):
            same_model(model, few(**change).fit(X, y_bar), X, 1e-6)
    climbing = quick("ascent", beta=-0.3).fit(X, y_bar)  # it climbs whenever a risk is below 0.3
    for change in ({"beta": 0.0}, {"gamma": 0.1}):
        with pytest.raises(AssertionError):
            same_model(climbing, quick("ascent", **({"beta": -0.3} | change)).fit(X, y_bar), X, 1e-6)
    step = quick(max_epochs=35, schedule="step").fit(X, y_bar)
    rates = quick(max_epochs=35, schedule=schedules.step_schedule()).fit(X, y_bar)
    same_model(step, rates, X)


def test_all_epochs_are_trained_unless_there_is_patience():
    X, _, y_bar = blobs()
    model = quick(max_epochs=40).fit(X, y_bar)
    assert model.best_epoch_ == model.history_["epoch"].max() == 39
    long = quick(max_epochs=200, patience=3).fit(X, y_bar)
    assert long.history_["epoch"].max() == long.best_epoch_ + 3 < 199
    assert quick(patience=3).fit(X[:3], y_bar[:3]).best_epoch_ == 14  # too few to choose by


@pytest.mark.parametrize("n_seeds", [2, 20])
def test_labels_that_choose_the_epoch_do_not_judge_it(n_seeds):
    """With 20 runs a row is held out four times: it must choose in none of them, or judge in none."""
    X, _, y_bar = blobs(n=60)
    options = {"network": "linear", "max_epochs": 8, "n_seeds": n_seeds}
    model = quick(patience=1, **options).fit(X, y_bar)
    judged = model.held_out_.rows
    assert len(judged) == (6 * n_seeds if n_seeds == 2 else 30)
    for row in judged[:3]:
        changed = y_bar.copy()
        changed[row] = (y_bar[row] + 1) % 3
        other = quick(patience=1, **options).fit(X, changed)
        np.testing.assert_array_equal(other.held_out_.rows, judged)
        at = int(np.flatnonzero(judged == row)[0])
        assert other.held_out_.classes[at] == model.held_out_.classes[at]
    every = quick(**options).fit(X, y_bar).held_out_.rows
    assert len(every) == (24 if n_seeds == 2 else 60)


# ---- classes and labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [["wren", "auk", "owl"], [40, -7, 1000], [5.0, 2.0, -1.0]], ids=["texts", "gaps", "floats"]
)
def test_class_values_of_any_kind(values):
    X, y, y_bar = blobs()
    values = np.array(values)
    model = quick(max_epochs=30).fit(X, values[y_bar])
    np.testing.assert_array_equal(model.classes_, np.sort(values))
    assert accuracy(model, X, values[y]) > 0.9
    assert model.predict(X).dtype == values.dtype
    named = quick(max_epochs=30, classes=values).fit(X, values[y_bar])  # the order given is the order of the columns
    np.testing.assert_array_equal(named.classes_, values)
    np.testing.assert_array_equal(named.predict_proba(X), quick(max_epochs=30).fit(X, y_bar).predict_proba(X))


def test_two_classes_and_truth_values():
    X, y, _ = blobs(n_classes=2)
    not_y = ~(y == 1)  # of two classes, what it is not says what it is
    model = quick(max_epochs=30).fit(X, not_y)
    assert model.predict(X).dtype == bool
    assert accuracy(model, X, y == 1) > 0.95
    assert model.score(X, not_y) == accuracy(model, X, y == 1)
    pairs = as_sets(not_y.astype(int), 2)
    assert accuracy(quick("auto", max_epochs=30).fit(X, pairs), X, y) > 0.95


def test_a_class_that_is_never_ruled_out_must_be_named():
    X, _, y_bar = blobs(n=300)
    rows = y_bar != 2
    assert quick(max_epochs=2).fit(X[rows], y_bar[rows]).classes_.tolist() == [0, 1]
    model = quick(classes=[0, 1, 2], max_epochs=2).fit(X[rows], y_bar[rows])
    assert model.predict_proba(X).shape == (300, 3)
    only = quick(classes=[0, 1, 2], max_epochs=20).fit(X, np.zeros(300, dtype=int))  # all are told: not 0
    assert (only.predict(X) != 0).all()


def test_a_matrix_of_single_labels_is_the_labels():
    X, y, y_bar = blobs()
    single, matrix = quick(max_epochs=30).fit(X, y_bar), quick(max_epochs=30).fit(X, as_sets(y_bar, 3))
    same_model(single, matrix, X, 1e-3)
    assert single.estimated_accuracy_ == pytest.approx(matrix.estimated_accuracy_)
    assert accuracy(matrix, X, y) > 0.9
    frame = pd.DataFrame(as_sets(y_bar, 3).astype(int))
    same_model(matrix, quick(max_epochs=30).fit(X, frame), X)
    same_model(matrix, quick(max_epochs=30).fit(X, torch.tensor(as_sets(y_bar, 3))), X)


def test_wide_tables_are_spared_trees():
    X = np.random.default_rng(0).normal(size=(30, 513)).astype(np.float32)
    for width, trees in ((513, False), (512, True)):
        model = ComplementaryClassifier(n_seeds=2, max_epochs=1, random_state=0).fit(X[:, :width], np.arange(30) % 3)
        assert ("forest" in [trial["method"] for trial in model.trials_]) == trees


@pytest.mark.parametrize("method", ["forward", "free", "pairwise"])
def test_rows_that_rule_out_nothing_are_as_if_they_were_not_there(method):
    X, _, y_bar = blobs()
    sets = as_sets(y_bar, 3)
    rng = np.random.default_rng(1)
    silent = rng.random(240) < 0.3
    X_wild = np.where(silent[:, None], 1e6 * rng.normal(size=X.shape), X).astype("float32")
    with_silent = quick(method, standardize=False).fit(X_wild, sets & ~silent[:, None])
    without = quick(method, standardize=False).fit(X[~silent], sets[~silent])
    same_model(with_silent, without, X)
    assert with_silent.estimated_accuracy_ == without.estimated_accuracy_


@pytest.mark.parametrize("method", ["forward", "free", "pairwise"])
def test_alpha_weighs_complementary_against_ordinary_labels(method):
    X, y, y_bar = blobs(n=480, seed=2)
    rng = np.random.default_rng(2)
    noise = rng.integers(0, 3, size=480)
    ordinary = np.arange(480) // 3 % 2 == 0
    good_is = np.where(ordinary[:, None], is_rows(y, 3), as_sets(noise, 3))
    good_is_not = np.where(ordinary[:, None], is_rows(noise, 3), as_sets(y_bar, 3))
    for sets, right, wrong in ((good_is, 0.02, 1.0), (good_is_not, 0.98, 0.0)):
        scores = [accuracy(quick(method, alpha=a, max_epochs=20).fit(X, sets), X, y) for a in (right, wrong)]
        assert scores[0] > 0.9
        assert scores[1] < 0.7


def test_a_transition_matrix_is_used():
    X, y, _ = blobs(n=480)
    q = np.array([[0.3, 0.6, 0.1], [0.1, 0.3, 0.6], [0.6, 0.1, 0.3]])  # the least frequent label is not the class
    y_bar = complement(y, 3, transition=q, random_state=0)
    for method in ("forward", "free"):
        told = quick(method, max_epochs=30, transition=q).fit(X, y_bar)
        ignorant = quick(method, max_epochs=30).fit(X, y_bar)
        assert accuracy(told, X, y) > 0.85
        assert accuracy(ignorant, X, y) < 0.3
        _, low, high = told.estimated_accuracy_
        assert low <= accuracy(told, X, y) <= high
        assert told.score(X, y_bar) == metrics.accuracy_score(y_bar, told.predict(X), 3, q)
        assert told.score(X, y_bar) > 0.75


def test_the_score_is_the_estimated_accuracy_of_the_predictions(fitted):
    model, X = fitted
    _, y, y_bar = blobs(seed=5)
    assert model.score(X, y_bar) == metrics.accuracy_score(y_bar, model.predict(X), n_classes=3)
    assert model.score(X, is_rows(y, 3)) == accuracy(model, X, y)
    sets = as_sets(y_bar, 3) & (np.arange(240) < 100)[:, None]
    assert model.score(X, sets) == metrics.accuracy_score(y_bar[:100], model.predict(X[:100]), n_classes=3)


def test_texts_say_what_an_example_is_not_and_what_it_is():
    X, y, y_bar = blobs()
    names = np.array(["auk", "owl", "wren"])
    model = quick().fit(X, [f"!{name}" for name in names[y_bar]])
    np.testing.assert_array_equal(model.classes_, names)
    mixed = np.where(np.arange(240) % 3 == 0, names[y], [f"!{name}" for name in names[y_bar]])
    rows = np.where((np.arange(240) % 3 == 0)[:, None], is_rows(y, 3), as_sets(y_bar, 3))
    told = quick(max_epochs=3).fit(X, mixed)
    np.testing.assert_array_equal(told.predict_proba(X), quick(max_epochs=3).fit(X, rows).predict_proba(X))
    assert accuracy(model, X, names[y]) > 0.9


# ---- weights of examples --------------------------------------------------------------------------------------


def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    X, y, y_bar = blobs()
    counts = np.random.default_rng(0).random(240) < 0.6
    wrong = np.where(counts, y_bar, y)
    wild = np.where(counts[:, None], X, 1e3 * X)
    weighed = quick("linear", max_epochs=3).fit(wild, wrong, sample_weight=counts)
    without = quick("linear", max_epochs=3).fit(X[counts], y_bar[counts])
    same_model(weighed, without, X)
    assert weighed.estimated_accuracy_ == without.estimated_accuracy_


def test_weights_are_how_many_times_an_example_counts():
    X, y, y_bar = blobs()
    wrong = np.where(np.arange(240) < 120, y_bar, y)  # the second half says that it is not what it is
    for method in ("linear", ["forest", "neighbours"]):
        model = quick(method, n_seeds=5).fit(X, wrong, np.where(np.arange(240) < 120, 1.0, 1e-3))
        assert accuracy(model, X, y) > 0.9
        assert model.estimated_accuracy_.low > 0.6
    same_model(quick().fit(X, y_bar), quick().fit(X, y_bar, np.ones(240)), X, 1e-4)
    same_model(quick().fit(X, y_bar, np.ones(240)), quick().fit(X, y_bar, [7] * 240), X, 1e-4)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(239), "`sample_weight` must hold 240 numbers, one per row of `y_bar`; got shape (239,)"),
        (["a"] * 240, "`sample_weight` must hold numbers; got dtype"),
        (np.r_[1.0, -1.0, np.ones(238)], "`sample_weight` must be finite and not negative; got -1.0 at row 1"),
        (np.r_[np.nan, np.ones(239)], "`sample_weight` must be finite and not negative; got nan at row 0"),
        (np.zeros(240), "`sample_weight` must be above 0 in at least one row; got only zeros"),
        (np.r_[1.0, np.zeros(239)], "`X` must hold at least 2 labelled examples; got n_samples=1"),
    ],
)
def test_weights_refused(weight, words):
    X, _, y_bar = blobs()
    with raises(words):
        quick().fit(X, y_bar, weight)


# ---- what is said of it ---------------------------------------------------------------------------------------

MEMBERS = ["linear", "forest", "neighbours"]


def test_nothing_learned_is_said_and_nothing_is_sure():
    rng = np.random.default_rng(0)
    X, y_bar = rng.normal(size=(120, 4)), rng.integers(0, 3, 120)
    with pytest.warns(UserWarning, match=r"nothing was learned that can be distinguished from .* guessing is 33 %"):
        model = quick(MEMBERS, n_seeds=5).fit(X, y_bar)
    assert not model.learned_
    assert model.predict_proba(rng.normal(size=(200, 4))).max(axis=1).mean() < 0.6
    low, high = model.estimated_accuracy_[1:]
    assert low <= 1 / 3 <= high


def test_the_warning_counts_the_labels_that_would_tell():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"takes about [\d,]+ labels to show, and there are 100") as warned:
        quick("linear", n_seeds=5).fit(rng.normal(size=(100, 3)), rng.integers(0, 20, 100))
    ((hoped, needed),) = re.findall(r"an accuracy of (\d+) % takes about ([\d,]+) labels", str(warned[0].message))
    clean, widest = (planning.labels_to_show(20, int(hoped) / 100, 0.05, wider=by) for by in (1, np.sqrt(2)))
    assert clean < int(needed.replace(",", "")) < 1.1 * widest  # bounds are up to sqrt(2) times as far
    with pytest.warns(UserWarning, match="an accuracy of 75 % would show in the 400 labels that there are"):
        quick("linear", n_seeds=5).fit(rng.normal(size=(400, 3)), rng.integers(0, 2, 400))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_a_few_labels_did_not_show_is_not_said_to_show_in_them(n):
    X, y_bar = np.arange(n)[:, None] % 2.0, ["!a", "!b", "!a", "!b"][:n]
    for model in (quick(n_seeds=5), ComplementaryClassifier(max_epochs=2, random_state=0)):
        with pytest.warns(UserWarning, match=r"an accuracy of \d+ % takes about \d+ labels to show") as warned:
            model.fit(X, y_bar)
        text = next(str(one.message) for one in warned if "nothing was learned" in str(one.message))
        hoped, needed, given = map(
            int, re.findall(r"accuracy of (\d+) % takes about (\d+) .* there are (\d+)", text)[0]
        )
        assert given == n < needed
        assert planning.labels_to_show(2, hoped / 100, 0.5) <= needed


def test_labels_that_tell_less_than_counted_on_are_not_said_to_suffice():
    X, _, y_bar = blobs(n=60)
    q = transition.estimate([1, 2, 0, 2, 0, 1], [0, 0, 1, 1, 2, 2], 3)  # six pairs: nearly anything is possible
    with pytest.warns(UserWarning, match="the 6 pairs of the transition matrix leave much possible; add pairs"):
        quick("linear", n_seeds=5, transition=q).fit(X, y_bar)
    model = quick("linear", n_seeds=5).fit(X, y_bar)
    model.estimated_accuracy_ = Interval(0.95, 0.2, 1.0)  # as of labels that are worth less than uniform ones
    with pytest.warns(UserWarning, match="; more than 60 such labels are needed to show that it is no chance"):
        model._warn_if_nothing_was_learned(y_bar)
    noisy = transition.noisy(3, 0.2)  # a label is worth a fraction of a uniform one
    told = complement(np.random.default_rng(0).integers(0, 3, 60), 3, transition=noisy, random_state=0)
    with pytest.warns(UserWarning, match=r"takes about [\d,]+ labels to show") as warned:
        quick("linear", n_seeds=5, transition=noisy).fit(X * 0 + np.arange(60)[:, None] % 7, told)
    needed = int(re.findall(r"about ([\d,]+) labels", str(warned[0].message))[0].replace(",", ""))
    assert needed > 3 * planning.labels_to_show(3, 2 / 3, 1 / 3)


def test_noise_of_many_classes_is_not_taken_for_accuracy():
    def learn(seed):
        rng = np.random.default_rng(seed)
        X, y_bar = rng.normal(size=(1000, 5)), rng.integers(0, 50, 1000)
        return quick(["linear", "neighbours"], max_epochs=5, n_seeds=5).fit(X, y_bar).estimated_accuracy_

    with pytest.warns(UserWarning, match="nothing was learned"):
        bounds = [learn(seed) for seed in range(5)]
    assert sum(low <= 0.02 <= high for _, low, high in bounds) >= 4  # of 5 intervals of 95 %
    assert np.mean([high - low for _, low, high in bounds]) > 0.4  # so few labels tell no more than that


def test_what_was_learned_is_learned_without_a_word():
    X, _, y_bar = blobs(n=120)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quick(MEMBERS, n_seeds=5).fit(X, y_bar).learned_
    with raises("is not fitted yet", NotFittedError):
        quick().learned_  # noqa: B018


def test_no_row_is_judged_by_what_saw_its_label():
    """The whole of it: change a label, and what is predicted for its row when it is held out does not change."""
    X, _, y_bar = blobs(n=60)
    X = X + np.random.default_rng(0).normal(size=X.shape).astype("float32")
    names = ["linear", "forest", "neighbours", *(["boosting"] if boosting.is_available() else [])]
    before = quick(names, n_seeds=5).fit(X, y_bar).held_out_
    assert len(before.rows) == 60
    for row in (0, 31):
        changed = y_bar.copy()
        changed[row] = (y_bar[row] + 1) % 3
        assert quick(names, n_seeds=5).fit(X, changed).held_out_.classes[row] == before.classes[row]


def test_rows_without_labels_help():
    X, y, y_bar = blobs(n=300)
    few = np.arange(300) < 30
    labels = as_sets(y_bar, 3) & few[:, None]
    with_rest = quick("neighbours", n_seeds=5).fit(X, labels)
    without = quick("neighbours", n_seeds=5).fit(X[few], labels[few])
    assert len(with_rest.members_[0].X) == 300
    assert len(without.members_[0].X) == 30
    assert len(with_rest.held_out_.rows) == 30
    assert accuracy(with_rest, X, y) >= accuracy(without, X, y)
    with pytest.raises(AssertionError):
        same_model(with_rest, without, X, 1e-3)


def test_few_rows_and_features_that_do_not_vary_are_learned_from():
    X, _, y_bar = blobs(n=60)
    auto = ComplementaryClassifier(classes=[0, 1, 2], max_epochs=2, random_state=0)
    for inputs in (X[:2], X[:3], X[:6], np.ones((60, 2)), np.eye(60)[:, :1]):
        with pytest.warns(UserWarning, match="nothing was learned"):
            model = auto.fit(inputs, y_bar[: len(inputs)])
        assert np.isfinite(model.predict_proba(inputs)).all()
    if boosting.is_available():
        with raises("`X` must have a feature that varies; got none among 2"):
            quick("boosting").fit(np.ones((60, 2)), y_bar)


# ---- time, and who is told of it ------------------------------------------------------------------------------


class Clock:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 1
        return self.now


@pytest.mark.parametrize("limit", [1, 4, 6, 9, 1000])
def test_a_time_limit_keeps_what_was_trained_by_then(monkeypatch, limit):
    """Boosting may get through some of its parts only, and must then neither break the pool nor cost it rows."""
    X, y, y_bar = blobs()
    clock = Clock()
    for module in (members, training):
        monkeypatch.setattr(module, "time", clock)
    names = ["linear", *(["boosting"] if boosting.is_available() else []), "forest"]
    model = quick(names, n_seeds=20, time_limit=limit).fit(X, y_bar)
    assert accuracy(model, X, y) > 0.9
    assert len(model.held_out_.rows) == 240
    tried = [t["method"] for t in model.trials_]
    assert tried[0] == "forward"
    assert ("forest" in tried) == (limit == 1000)


def test_networks_stop_in_time_after_an_epoch_at_least():
    X, _, y_bar = blobs()
    model = quick(time_limit=1e-9, max_epochs=50).fit(X, y_bar)
    assert model.best_epoch_ == 0
    same_model(model, quick(max_epochs=1).fit(X, y_bar), X)
    same_model(quick(time_limit=1e9).fit(X, y_bar), quick().fit(X, y_bar), X)


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), "10"])
def test_a_time_limit_refused(limit):
    X, _, y_bar = blobs()
    with raises(f"`time_limit` must be a positive number of seconds, or None; got {limit!r}"):
        quick(time_limit=limit).fit(X, y_bar)


def test_one_is_told_of_each_epoch_and_may_stop_it():
    X, _, y_bar = blobs()
    told = []
    quick(max_epochs=7, on_epoch=lambda: told.append(1)).fit(X, y_bar)
    assert len(told) == 7

    class Enough(Exception):
        pass

    def stop():
        raise Enough

    for method in ("linear", "forest"):
        model = quick(method, on_epoch=stop)
        with pytest.raises(Enough):
            model.fit(X, y_bar)
        assert not hasattr(model, "members_")


# ---- inputs ---------------------------------------------------------------------------------------------------


def test_inputs_of_any_type_are_the_same():
    X, _, y_bar = blobs(dtype="float64")
    X = X.astype("float32").astype("float64")
    X[X < 0] = 0
    model = quick().fit(X, y_bar)
    others = (
        X.tolist(),
        X.astype("float32"),
        np.asfortranarray(X),
        torch.tensor(X),
        torch.tensor(X, dtype=torch.float32, requires_grad=True),
        sparse.csr_matrix(X),
        sparse.csc_array(X),
        sparse.coo_matrix(X),
    )
    for other in others:
        same_model(model, quick().fit(other, y_bar), X)
        np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(other))
    same_model(model, quick().fit(X, torch.tensor(y_bar)), X)
    same_model(model, quick().fit(X, pd.Series(y_bar, index=np.arange(240)[::-1])), X)
    half = torch.tensor(X).to(torch.bfloat16)
    same_model(quick().fit(half.float().numpy(), y_bar), quick().fit(half, y_bar), X)


READ_ONLY = """
import numpy as np
from naysayer import ComplementaryClassifier, transition
labels, q = np.eye(3, dtype=bool)[np.arange(60) % 3], transition.uniform(3)
X = np.eye(3, dtype="float32")[np.arange(1, 61) % 3]
for array in (X, labels, q):
    array.flags.writeable = False
before = X.copy(), labels.copy(), q.copy()
for y_bar in (labels, labels.argmax(axis=1)):
    model = ComplementaryClassifier("forward", lr=0.01, max_epochs=10, n_seeds=5, transition=q).fit(X, y_bar)
    model.predict(X), model.score(X, y_bar)
assert all((a == b).all() for a, b in zip(before, (X, labels, q)))
"""


def test_arrays_that_must_not_be_written_to_are_taken_without_a_warning():
    """In a process of its own, since torch warns of them only once: those of pandas and of memory maps are such."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", READ_ONLY], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_frame_has_its_columns_names():
    X, _, y_bar = blobs()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = quick().fit(frame, y_bar)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict_proba(frame), quick().fit(X, y_bar).predict_proba(X))
    with raises("The feature names should match those that were passed during fit"):
        model.predict(frame[list("dcba")])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)
    model.fit(X, y_bar)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("column", [pd.to_datetime(["2020-01-01", None] * 2), pd.Categorical(list("xyyx")), ["x"] * 4])
@pytest.mark.parametrize("make", [quick, BoostedClassifier])
def test_a_column_of_a_frame_that_holds_no_numbers_is_named(make, column):
    frame = pd.DataFrame({"a": pd.array([1, 2, 3, None], dtype="Int64"), "b": [True, False] * 2, "when": column})
    with raises("`X` must hold numbers; column 'when' holds ") as told:
        make().fit(frame, [0, 1, 2, 0])
    assert "\n" not in str(told.value)


def test_images_of_bytes_are_divided_by_255_whatever_type_they_come_in_later(digits):
    X = digits.X_train[:300].reshape(-1, 8, 8)
    y_bar = complement(digits.y_train, 10, n_labels=5, random_state=0)[:300]
    model = quick(max_epochs=3).fit(X, y_bar)
    floats = quick(max_epochs=3, standardize=False).fit(X.astype("float32") / 255, y_bar)
    np.testing.assert_allclose(model.predict_proba(X), floats.predict_proba(X / 255.0), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.astype("float64")))
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(torch.tensor(X)))
    scaled = quick(max_epochs=3).fit(X.astype("float32"), y_bar)
    np.testing.assert_array_equal(scaled.predict_proba(X), scaled.predict_proba(X.astype("float32")))
    assert np.abs(scaled.predict_proba(X) - model.predict_proba(X)).max() > 1e-3  # standardised, not divided


def test_a_table_of_bytes_is_a_table():
    X, _, y_bar = blobs()
    X = (20 * X + 100).clip(0, 255).astype("uint8")
    model = quick(max_epochs=3).fit(X, y_bar)
    same_model(model, quick(max_epochs=3).fit(X.astype("float64"), y_bar), X)
    same_model(model, quick(max_epochs=3).fit(torch.tensor(X), y_bar), X)


def test_standardized_features_make_scale_and_shift_irrelevant():
    X, _, y_bar = blobs(dtype="float64")
    model = quick().fit(X, y_bar)
    moved = X * [1e-3, 1.0, 1e4, 10.0] + [5.0, -300.0, 1e5, 0.0]
    np.testing.assert_allclose(quick().fit(moved, y_bar).predict_proba(moved), model.predict_proba(X), atol=0.02)
    constant = np.column_stack([X, np.full(240, 1e9)])
    assert np.isfinite(quick().fit(constant, y_bar).predict_proba(constant)).all()


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, torch.tensor, lambda X: X.astype("int64")])
def test_what_float32_would_blur_is_scaled_first(kind, tmp_path):
    """Such as times in seconds, of which float32 knows only every 128th."""
    X, _, y_bar = blobs(dtype="float64")
    near = np.round(50 * X)
    far = kind(near + [1.7e9, 0, -3e8, 0])
    model = quick(max_epochs=3).fit(far, y_bar)
    expected = quick(max_epochs=3).fit(near, y_bar).predict_proba(near)
    np.testing.assert_allclose(model.predict_proba(far), expected, rtol=0, atol=1e-4)
    model.save(tmp_path / "model")
    for again in (ComplementaryClassifier.load(tmp_path / "model", device="cpu"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_proba(far), model.predict_proba(far))
    with raises("Input X contains infinity or a value too large for dtype('float32')"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of the cast
        model.predict(np.full((1, 4), 1e39))


def test_an_ordinary_table_is_cast_before_it_is_scaled():
    X, _, y_bar = blobs(dtype="float64")
    X = np.column_stack([X, np.full(240, 1.7e9), 0.1 + 1e-14 * np.arange(240)])  # constant, but for how it was rounded
    model = quick(max_epochs=3).fit(X, y_bar)
    same_model(model, quick(max_epochs=3).fit(X.astype("float32"), y_bar), X)
    assert model.center_.dtype == model.scale_.dtype == torch.float32


def test_images_must_keep_their_shape():
    X, _, y_bar = blobs(n=120)
    images = np.tile(X.reshape(120, 1, 2, 2), (1, 1, 4, 4))
    for inputs in (images, (images > 0).astype("uint8")):
        model = quick(max_epochs=2).fit(inputs, y_bar)
        for other in ((120, 1, 8, 9), (120, 1, 1, 8), (120, 1, 64)):
            with raises(f"each example of `X` must have the shape (1, 8, 8), as in fit; got {other[1:]}"):
                model.predict(np.ones(other, dtype=inputs.dtype))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": [[np.nan] * 4] * 240}, "Input X contains NaN"),
        ({"X": [[np.inf] * 4] * 240}, "Input X contains infinity"),
        ({"X": np.full((240, 4), 1e39)}, "Input X contains infinity or a value too large for dtype('float32')"),
        ({"X": np.ones((0, 4))}, "Found array with 0 sample(s)"),
        ({"X": np.ones((240, 0))}, "Found array with 0 feature(s)"),
        ({"X": np.ones(240)}, "Expected 2D array, got 1D array instead"),
        ({"X": [["a"] * 4] * 240}, "could not convert string to float"),
        ({"X": sparse.csr_matrix((50_000, 50_000))}, "sparse `X` is made dense and must have at most 2**31 entries"),
        ({"X": np.ones((239, 4))}, "`X` and `y_bar` must have the same number of rows; got 239 and 240"),
        ({"y_bar": None}, "the target y is None"),
        ({"y_bar": []}, "`y_bar` must hold at least one label; got none"),
        ({"y_bar": [1] * 240}, "`y_bar` must name at least 2 classes; got 1 class, 1"),
        ({"y_bar": [0, 1, np.nan] * 80}, "`y_bar` must name a class in each row; got nan at row 2"),
        ({"y_bar": [0.5, 1.25, 3.0] * 80}, "Unknown label type: continuous"),
        ({"y_bar": np.ones((240, 3))}, "each row of `y_bar` must leave a class possible; row 0 rules out all 3"),
        ({"y_bar": np.full((240, 3), 0.5)}, "a 2-D `y_bar` must be a ruled-out matrix of True and False"),
        ({"y_bar": np.ones((240, 2, 2))}, "`y_bar` must be (N,) classes or an (N, K) ruled-out matrix"),
        ({"y_bar": np.zeros((240, 3), bool)}, "`y_bar` must rule out a class in at least 2 rows; got 0 of 240"),
        ({"X": np.ones((1, 4)), "y_bar": [0], "classes": [0, 1]}, "at least 2 labelled examples; got n_samples=1"),
        ({"classes": [0, 1]}, "`y_bar` must hold the classes 0, 1; got 2 at row"),
        ({"classes": [0, 1, 1]}, "`classes` must be distinct; got 1 more than once"),
        ({"classes": [0, 1, 2, 3], "y_bar": as_sets([0, 1, 2] * 80, 3)}, "`classes` must name the 3 columns"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")  # numpy's, before scikit-learn refuses
def test_data_refused(change, words):
    X, _, y_bar = blobs()
    data = {"X": X, "y_bar": y_bar} | change
    with raises(words):
        quick(classes=data.pop("classes", None)).fit(**data)


def test_objectives_of_your_own_are_joined_by_members_without_one():
    X, y = load_iris(return_X_y=True)
    own = Forward(3)
    method = {"mine": own, "linear": own, "neighbours": own, "forest": None}
    model = ComplementaryClassifier(method, lr=0.01, max_epochs=2, n_seeds=2, random_state=0)
    model.fit(X, complement(y, 3, random_state=0))
    found = [(trial["method"], trial["network"]) for trial in model.trials_]
    assert found == [("mine", "mlp"), ("forward", "linear"), ("neighbours", None), ("forest", None)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"method": "forwrd"},
            "neighbours, discriminant; got 'forwrd' (did you mean 'forward'?)",
        ),
        (
            {"method": "magic"},
            "cpe-t, proden, linear, forest, boosting, neighbours, discriminant; got 'magic'",
        ),
        ({"method": ["free", None]}, "`method` must be 'auto' or one of"),
        ({"method": 5}, "`method` must be 'auto' or one of"),
        ({"method": []}, "`method` must name at least one method"),
        ({"method": {}}, "`method` must name at least one method"),
        (
            {"method": {"mine": Forward(4)}},
            "a `method` of your own must be an objective of 3 classes; got 4 for 'mine'",
        ),
        ({"method": {"mine": "forward"}}, "must be an objective of 3 classes; got 'forward' for 'mine'"),
        ({"method": {"forward": None}}, "must be an objective of 3 classes; got None for 'forward'"),
        ({"method": {"forest": Forward(3)}}, "the objective of 'forest' in `method` must be None; got Forward("),
        (
            {"method": {"neighbours": GradientAscent(3)}},
            "the objective of 'neighbours' in `method` must be None, or Forward or a subclass of it; got Gradient",
        ),
        (
            {"network": "transformer"},
            "`network` must be one of mlp, linear, convolution, pooled, resnet8, resnet18, resnet34, efficient",
        ),
        (
            {"network": 7},
            "efficientnet-lite0, a module, or a function that builds one; got 7",
        ),
        (
            {"network": torch.nn.Linear(5, 3)},
            "`network` must take examples of the shape (4,), as `X` has them, and give logits; it raised: mat1",
        ),
        (
            {"network": lambda: torch.nn.Linear(4, 3)},
            "a function that is given for `network` must take (n_features, n_classes); too many positional arguments",
        ),
        ({"network": lambda n, k: n + k}, "a function that is given for `network` must give a module; got int"),
        ({"network": "convolution"}, 'network "convolution" is for images of shape (C, S, S); got examples of (4,)'),
        ({"hidden": (0,)}, "`hidden` must be a whole number of at least 1; got 0"),
        ({"hidden": (8, 2.5)}, "`hidden` must be a whole number of at least 1; got 2.5"),
        ({"hidden": 8}, "`hidden` must hold the widths of the hidden layers, as (128,) does; got 8"),
        ({"hidden": "8"}, "`hidden` must hold the widths of the hidden layers, as (128,) does; got '8'"),
        ({"loss": "guess", "method": "free"}, "`loss` must be a callable or one of cross_entropy"),
        ({"lr": 0.0}, "`lr` must be 'auto', a positive number or some of them; got 0.0"),
        ({"lr": (0.1, -1.0)}, "`lr` must be 'auto', a positive number or some of them"),
        ({"lr": ()}, "`lr` must be 'auto', a positive number or some of them; got ()"),
        ({"lr": np.nan}, "`lr` must be 'auto', a positive number or some of them; got nan"),
        ({"lr": "fast"}, "`lr` must be 'auto', a positive number or some of them; got 'fast'"),
        ({"lr": None}, "`lr` must be 'auto', a positive number or some of them; got None"),
        ({"lr": [[0.1]]}, "`lr` must be 'auto', a positive number or some of them"),
        ({"weight_decay": "much"}, "`weight_decay` must be finite and not negative; got 'much'"),
        ({"weight_decay": -1.0}, "`weight_decay` must be finite and not negative"),
        ({"optimizer": "lion"}, "`optimizer` must be one of adam, adamw, sgd, nesterov; got 'lion'"),
        ({"momentum": 1.0}, "`momentum` must be from 0 up and below 1; got 1.0"),
        ({"momentum": "high"}, "`momentum` must be from 0 up and below 1; got 'high'"),
        ({"momentum": -0.1}, "`momentum` must be from 0 up and below 1; got -0.1"),
        ({"schedule": "linear"}, "`schedule` must be None, 'cosine', 'step' or a function; got 'linear'"),
        ({"schedule": 0.5}, "`schedule` must be None, 'cosine', 'step' or a function; got 0.5"),
        ({"max_epochs": 0}, "`max_epochs` must be a whole number of at least 1; got 0"),
        ({"max_epochs": 2.0}, "`max_epochs` must be a whole number of at least 1; got 2.0"),
        ({"max_epochs": True}, "`max_epochs` must be a whole number of at least 1; got True"),
        ({"patience": 0}, "`patience` must be a whole number of at least 1; got 0"),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1; got 0"),
        ({"batch_size": "large"}, "`batch_size` must be a whole number of at least 1; got 'large'"),
        ({"n_seeds": 0}, "`n_seeds` must be a whole number of at least 1; got 0"),
        ({"validation_fraction": None}, "`validation_fraction` must be between 0 and 1; got None"),
        ({"validation_fraction": 0.0}, "`validation_fraction` must be between 0 and 1; got 0.0"),
        ({"validation_fraction": 1.0}, "`validation_fraction` must be between 0 and 1; got 1.0"),
        ({"beta": np.inf, "method": "ascent"}, "`beta` must be a finite number; got inf"),
        ({"gamma": 2.0, "method": "ascent"}, "`gamma` must be from 0 to 1"),
        ({"alpha": 1.5}, "`alpha` must be from 0 to 1; got 1.5"),
        ({"transition": np.eye(4)}, "`transition` must be (3, 3), one row per class; got (4, 4)"),
        ({"transition": np.full((3, 3), 1 / 3)}, "`transition` must be invertible"),
        ({"device": "toaster"}, "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got 'toaster'"),
        ({"random_state": -1}, "`random_state` must be None, a whole number from 0 up, or a numpy generator; got -1"),
    ],
)
def test_parameters_refused(change, words):
    X, _, y_bar = blobs()
    with raises(words):
        quick(**change).fit(X, y_bar)


# ---- scikit-learn's tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["labels", "matrix"])
def test_searches_choose_by_labels_alone(encoding):
    X, y, y_bar = blobs(n=360, n_classes=4)
    labels = y_bar if encoding == "labels" else complement(y, 4, n_labels=2, random_state=0)
    search = GridSearchCV(quick(classes=range(4)), {"lr": [1e-7, 0.02]}, cv=3).fit(X, labels)
    assert search.best_params_ == {"lr": 0.02}
    assert accuracy(search, X, y) > 0.9
    model = make_pipeline(StandardScaler(), quick(lr=0.02, standardize=False, classes=range(4)))
    scores = cross_val_score(model, X, labels, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.8


def test_clones_and_pickles():
    X, _, y_bar = blobs()
    for network in ("mlp", perceptron()):
        model = quick(network=network).fit(X, y_bar)
        same_model(model, pickle.loads(pickle.dumps(model)), X)
        copy = clone(model)
        assert not hasattr(copy, "members_")
        same_model(model, copy.fit(X, y_bar), X)
    assert quick().set_params(lr=0.5, hidden=(3,)).get_params()["lr"] == 0.5


def everything_global():
    generators = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002
    return generators, torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.get_default_dtype()


def test_same_seed_same_bits_and_nothing_global(tmp_path):
    X, _, y_bar = blobs()
    for seed in (0, np.random.default_rng(3), np.random.RandomState(3)):
        model = quick("auto", max_epochs=3, random_state=seed).fit(X, y_bar)
        if isinstance(seed, int):
            same_model(model, quick("auto", max_epochs=3, random_state=seed).fit(X, y_bar), X)
        with pytest.raises(AssertionError):
            same_model(model, quick("auto", max_epochs=3, random_state=7).fit(X, y_bar), X, 1e-6)
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3))
    before = everything_global()
    quick(network=module, max_epochs=3, random_state=None).fit(X, y_bar).predict(X)
    model = quick("auto", max_epochs=3).fit(X, y_bar)
    model.save(tmp_path)
    ComplementaryClassifier.load(tmp_path).score(X, y_bar)
    assert everything_global() == before


def test_two_threads_come_to_what_one_comes_to():
    X, _, y_bar = blobs(n=90)

    def learn(seed):
        return ComplementaryClassifier(max_epochs=3, random_state=seed).fit(X, y_bar)

    alone = [learn(seed) for seed in (0, 1)]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(learn, (0, 1)))
    for one, other in zip(alone, together, strict=True):
        same_model(one, other, X)
        assert one.trials_ == other.trials_
        assert one.estimated_accuracy_ == other.estimated_accuracy_


def test_fitting_again_forgets():
    X, _, y_bar = blobs()
    names = np.array(["a", "b", "c"])
    model = quick("auto").fit(pd.DataFrame(X[:, :2], columns=["u", "v"]), names[y_bar])
    same_model(quick().fit(X, y_bar), model.set_params(method="forward").fit(X, y_bar), X)
    assert {t["method"] for t in model.trials_} == {"forward"}


@pytest.mark.parametrize("random_state", [0, None])
def test_a_warm_start_adds_epochs_to_those_before(random_state):
    X, _, y_bar = blobs()
    options = {"lr": 0.003, "max_epochs": 4, "n_seeds": 5, "random_state": random_state}
    model = quick(["forward", "linear"], warm_start=True, **options).fit(X, y_bar)
    losses = [pd.DataFrame(model.history_).groupby(["method", "epoch"])["loss"].mean()["forward"]]
    rows, members = model.held_out_.rows, model.members_
    model.fit(X, y_bar)
    losses.append(pd.DataFrame(model.history_).groupby(["method", "epoch"])["loss"].mean()["forward"])
    assert losses[1][0] < losses[0][3] < losses[0][0]
    np.testing.assert_array_equal(model.held_out_.rows, rows)
    assert all(
        (a.parameters[k] != b.parameters[k]).any() for a, b in zip(members, model.members_) for k in a.parameters
    )


def test_a_warm_start_on_other_examples_begins_anew():
    """Runs that saw a label could not be judged by it."""
    X, _, y_bar = blobs()
    model = quick(warm_start=True, max_epochs=3).fit(X, y_bar)
    same_model(model, quick(max_epochs=3).fit(X, y_bar), X)
    same_model(model.fit(X[:200], y_bar[:200]), quick(max_epochs=3).fit(X[:200], y_bar[:200]), X)
    other = np.where(np.arange(240) == 5, (y_bar + 1) % 3, y_bar)
    for labels, weight in ((other, None), (other, np.arange(240) + 1.0)):
        expected = quick(max_epochs=3).fit(X, labels, weight)
        same_model(model.fit(X, labels, weight), expected, X)
        with pytest.raises(AssertionError):
            same_model(model.fit(X, labels, weight), expected, X, 1e-4)


@pytest.mark.parametrize("hidden", [(8,), (16, 16)])
def test_a_warm_start_of_another_network_begins_anew(hidden):
    X, _, y_bar = blobs()
    model = quick(warm_start=True, max_epochs=3).fit(X, y_bar).set_params(hidden=hidden).fit(X, y_bar)
    same_model(model, quick(hidden=hidden, max_epochs=3).fit(X, y_bar), X)
    with pytest.raises(AssertionError):  # the next goes on again
        same_model(model.fit(X, y_bar), quick(hidden=hidden, max_epochs=3).fit(X, y_bar), X, 1e-4)


def test_trials_and_history_tell_one_story():
    X, _, y_bar = blobs(n=200)
    model = quick(["forward", "ascent"], lr=(1e-6, 0.003, 0.01), max_epochs=7).fit(X, y_bar)
    history, trials = pd.DataFrame(model.history_), pd.DataFrame(model.trials_)
    assert len(history) == 2 * 3 * 2 * 7
    assert {"method", "lr", "seed", "epoch", "loss", "valid_accuracy"} <= set(history.columns)
    assert np.isfinite(history["loss"]).all()
    keys = {"method", "network", "lr", "epoch", "estimated_accuracy", "weight"}
    assert all(set(trial) == keys for trial in model.trials_)
    by_run = history.groupby(["method", "lr", "epoch"])["valid_accuracy"].mean()
    for trial in model.trials_:  # two seeds hold out 40 rows each, and no row twice
        assert by_run[trial["method"], trial["lr"], 6] == pytest.approx(trial["estimated_accuracy"])
        assert trial["epoch"] == 6
    heaviest = trials.loc[trials["weight"].idxmax()]
    assert (model.method_, model.lr_, model.best_epoch_) == (heaviest["method"], heaviest["lr"], heaviest["epoch"])
    predicted = model.held_out_
    judged = metrics.accuracy_interval(y_bar[predicted.rows], predicted.classes, 3)
    assert model.estimated_accuracy_ == predicted.interval(judged)
    assert model.failed_ == []


def test_nothing_is_printed_where_nobody_looks(capsys):
    X, _, y_bar = blobs()
    quick(max_epochs=2, verbose=1).fit(X, y_bar)
    assert capsys.readouterr() == ("", "")


# ---- runs that fail, and interruptions ------------------------------------------------------------------------


def test_an_absurd_rate_among_good_ones_is_told_and_left_out():
    X, y, y_bar = blobs()
    with pytest.warns(ConvergenceWarning, match="2 runs were stopped: forward, run 2: its loss was nan in epoch 0"):
        model = quick(lr=(0.01, 1e38), max_epochs=30).fit(X, y_bar)
    assert model.lr_ == 0.01
    assert accuracy(model, X, y) > 0.9
    assert len(model.failed_) == 2
    good, bad = model.trials_
    assert good["estimated_accuracy"] > 0.7
    assert (bad["lr"], bad["estimated_accuracy"], bad["weight"]) == (1e38, None, 0)
    same_model(model, quick(lr=0.01, max_epochs=30).fit(X, y_bar), X)


def test_when_every_rate_is_absurd_it_says_so_and_leaves_nothing(tmp_path):
    X, _, y_bar = blobs()
    with (
        pytest.warns(ConvergenceWarning, match="4 runs were stopped"),
        raises("no run gave a finite loss: forward, run 0: its loss was nan in epoch 0, at learning rate 1e+38; lower"),
    ):
        quick(lr=(1e38, 2e38), checkpoint=tmp_path / "way").fit(X, y_bar)
    assert not (tmp_path / "way").exists()  # or the next, better try would be refused
    with pytest.warns(ConvergenceWarning), raises("huge values in `X`, or in what `augment` gives"):
        quick(lr=1e38, recipe=Consistency(lambda x, codes: x)).fit(X, y_bar)


@contextlib.contextmanager
def breaking(run, at):
    """Let the loss of one run become NaN in one epoch."""
    epoch_of = stack.Stack.epoch

    def epoch(self, number, factor):
        scores = epoch_of(self, number, factor)
        if number == at and self.runs.start <= run < self.runs.stop:
            scores["loss"][run - self.runs.start] = torch.nan
        return scores

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack.Stack, "epoch", epoch)
        yield


@contextlib.contextmanager
def interrupted_after(n):
    """Press Control-C after so many epochs; gives the list of the epochs that were begun."""
    begun = []
    epoch_of = stack.Stack.epoch

    def epoch(self, number, factor):
        begun.append(number)
        if len(begun) > n:
            raise KeyboardInterrupt
        return epoch_of(self, number, factor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack.Stack, "epoch", epoch)
        yield begun


@pytest.mark.parametrize("at", [0, 4])
@pytest.mark.parametrize("run", [0, 1])
def test_a_setting_one_of_whose_runs_breaks_is_left_out(run, at):
    X, _, y_bar = blobs()
    with breaking(run, at), pytest.warns(ConvergenceWarning, match="1 runs were stopped"):
        model = quick(lr=(0.01, 0.003)).fit(X, y_bar)
    assert model.lr_ == 0.003
    assert [(t["lr"], t["estimated_accuracy"] is None) for t in model.trials_] == [(0.01, True), (0.003, False)]
    assert [t["weight"] > 0 for t in model.trials_] == [False, True]
    same_model(model, quick(lr=0.003).fit(X, y_bar), X)


def test_an_interruption_keeps_what_was_trained():
    X, _, y_bar = blobs()
    expected = quick(max_epochs=4).fit(X, y_bar)
    with (
        interrupted_after(4),
        pytest.warns(UserWarning, match="training was interrupted; what was trained is kept"),
    ):
        model = quick(["forward", "free"], max_epochs=15).fit(X, y_bar)
    assert [t["method"] for t in model.trials_] == ["forward"]
    same_model(model, expected, X)
    assert len(set(model.history_["epoch"])) == 4


def test_an_interruption_in_a_later_method_keeps_the_earlier_one():
    X, _, y_bar = blobs()
    expected = quick(max_epochs=15).fit(X, y_bar)
    with interrupted_after(15), pytest.warns(UserWarning, match="training was interrupted"):
        model = quick(["forward", "free"], max_epochs=15).fit(X, y_bar)
    assert [t["method"] for t in model.trials_] == ["forward"]
    same_model(model, expected, X)


def test_an_interruption_before_anything_was_trained_is_passed_on():
    X, _, y_bar = blobs()
    with interrupted_after(0), pytest.raises(KeyboardInterrupt):
        quick().fit(X, y_bar)


@pytest.mark.parametrize("after", [3, 15, 20])
def test_an_interrupted_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch, after):
    X, _, y_bar = blobs()
    options = {"method": ["forward", "free"], "lr": (0.003, 0.01)}
    expected = quick(**options).fit(X, y_bar)
    monkeypatch.setattr(population, "CHECKPOINT_SECONDS", -1.0)
    folder = tmp_path / "deep" / "way"
    with interrupted_after(after), pytest.warns(UserWarning, match="training was interrupted"):
        quick(**options, checkpoint=folder).fit(X, y_bar)
    assert any(folder.iterdir())
    with interrupted_after(10**9) as begun:
        model = quick(**options, checkpoint=folder).fit(X, y_bar)
    assert len(begun) == 30 - after
    same_model(model, expected, X)
    assert model.trials_ == expected.trials_
    pd.testing.assert_frame_equal(pd.DataFrame(model.history_), pd.DataFrame(expected.history_), check_like=True)
    assert not folder.exists()


def test_a_checkpoint_of_another_training_is_refused_and_kept(tmp_path, monkeypatch):
    X, _, y_bar = blobs()
    monkeypatch.setattr(population, "CHECKPOINT_SECONDS", -1.0)
    with interrupted_after(5), pytest.warns(UserWarning, match="training was interrupted"):
        quick(checkpoint=tmp_path).fit(X, y_bar)
    before = (tmp_path / "forward.safetensors").read_bytes()
    for model, data in ((quick(lr=0.02), X), (quick(), X + 1), (quick(random_state=1), X)):
        with raises("is of other data or settings; move it away, or give another file"):
            model.set_params(checkpoint=tmp_path).fit(data, y_bar)
    assert (tmp_path / "forward.safetensors").read_bytes() == before


def test_what_a_killed_training_left_behind_is_cleared_away(tmp_path):
    X, _, y_bar = blobs()
    folder = tmp_path / "way"
    folder.mkdir()
    (folder / ".forward.safetensors.k2j3h4").write_bytes(b"half")
    quick(checkpoint=folder).fit(X, y_bar)
    assert not folder.exists()
    folder.mkdir()
    (folder / "mine.txt").write_text("stays")
    quick(checkpoint=folder).fit(X, y_bar)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_checkpoint_that_cannot_be_written_is_an_error(tmp_path):
    X, _, y_bar = blobs()
    (tmp_path / "file").write_text("")
    with raises("cannot write", OSError):
        quick(checkpoint=tmp_path / "file" / "way").fit(X, y_bar)


# ---- files ----------------------------------------------------------------------------------------------------


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("values", [["wren", "auk", "öl"], [40, -7, 1000], [5.0, 2.0, -1.0], [True, False]], ids=str)
def test_a_saved_model_comes_back(tmp_path, values):
    X, _, y_bar = blobs(n_classes=len(values))
    frame = pd.DataFrame(X, columns=["a", "b", "ç", "d e"])
    model = quick(lr=np.array([1e-3, 1e-2])).fit(frame, np.array(values)[y_bar])
    model.save(tmp_path / "deep" / "model", extra={"note": ["any", {"thing": 1}]})
    back = ComplementaryClassifier.load(tmp_path / "deep" / "model", device="cpu")
    same_model(model, back, frame)
    assert back.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert back.score(frame, np.array(values)[y_bar]) == model.score(frame, np.array(values)[y_bar])
    assert back.feature_names_in_.tolist() == ["a", "b", "ç", "d e"]
    with raises("The feature names should match"):
        back.predict(frame[["b", "a", "ç", "d e"]])
    for name in ("method_", "lr_", "best_epoch_", "estimated_accuracy_", "trials_", "n_features_in_"):
        assert getattr(back, name) == getattr(model, name), name
    assert back.extra_ == {"note": ["any", {"thing": 1}]}
    same_model(model, clone(back).set_params(device="cpu").fit(frame, np.array(values)[y_bar]), frame)


def test_a_model_of_an_earlier_release_comes_back(tmp_path, fitted):
    """Which kept the runs of one network, their tensors without a number, and neither weights nor `network`."""
    model, X = fitted
    (member,) = model.members_
    model.save(tmp_path)
    about, tensors = saving.read_model(tmp_path)
    fit = {k: v for k, v in about["fitted"].items() if k not in ("members", "temperatures", "weights", "network")}
    fit["trials"] = [{"method": "forward", "lr": 0.01, "epoch": 3, "estimated_accuracy": 0.9}]
    settings = {k: v for k, v in about["settings"].items() if k not in ("time_limit", "on_epoch")}
    settings |= {"refit": False, "patience": 10, "n_seeds": 2}
    old = {k.removeprefix("0."): v for k, v in tensors.items()}
    saving.write_model(tmp_path / "old", {"settings": settings, "fitted": fit, "extra": {}}, old)
    back = ComplementaryClassifier.load(tmp_path / "old", device="cpu")
    expected = member.probabilities(back._scaled(back._take(X, reset=False)))
    np.testing.assert_allclose(back.predict_proba(X), expected, atol=2e-3)  # none is quite ruled out any more
    np.testing.assert_array_equal(back.predict(X), back.classes_[expected.argmax(axis=1)])
    assert back.network_ == "mlp"
    assert back.learned_
    back.save(tmp_path / "new")
    same_model(back, ComplementaryClassifier.load(tmp_path / "new"), X)


def test_a_model_without_extras_comes_back_with_none(tmp_path, fitted):
    fitted[0].save(tmp_path)
    assert ComplementaryClassifier.load(tmp_path).extra_ == {}
    assert not hasattr(ComplementaryClassifier.load(tmp_path), "feature_names_in_")


@pytest.mark.parametrize("kind", [np.array, torch.tensor, pd.DataFrame, lambda q: [np.array(row) for row in q]])
def test_a_saved_model_knows_its_transition_matrix(tmp_path, kind):
    X, y, _ = blobs()
    q = [[0.1, 0.6, 0.3], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]]
    y_bar = complement(y, 3, transition=q, random_state=0)
    model = quick(transition=kind(q), classes=torch.arange(3)).fit(X, y_bar)
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path)
    assert back.score(X, y_bar) == model.score(X, y_bar) != quick().fit(X, y_bar).score(X, y_bar)


def test_settings_from_numpy_are_saved(tmp_path):
    X, _, y_bar = blobs()
    model = quick(hidden=(np.int64(6),), lr=[np.float32(0.01)], random_state=np.int64(3), n_seeds=np.int64(2))
    model.fit(X, y_bar).save(tmp_path, extra={"n": np.int64(3), "x": np.arange(2)})
    back = ComplementaryClassifier.load(tmp_path)
    same_model(model, back, X)
    assert back.extra_ == {"n": 3, "x": [0, 1]}
    assert (back.hidden, back.random_state, back.n_seeds) == ([6], 3, 2)


def test_an_extra_that_json_cannot_hold_leaves_nothing(tmp_path, fitted):
    with raises("cannot save object as JSON", TypeError):
        fitted[0].save(tmp_path / "model", extra={"thing": object()})
    assert list(tmp_path.iterdir()) == []


def test_models_of_bytes_and_of_images_come_back(tmp_path, digits):
    X, y_bar = digits.X_train[:200], complement(digits.y_train[:200], 10, n_labels=4, random_state=0)
    for inputs in (X, X.reshape(-1, 1, 8, 8), X.reshape(-1, 8, 8).astype("float32")):
        model = quick(max_epochs=2).fit(inputs, y_bar)
        model.save(tmp_path)
        same_model(model, ComplementaryClassifier.load(tmp_path), inputs)


def test_a_network_of_ones_own_must_be_given_again(tmp_path, digits):
    X = digits.X_train[:200].reshape(-1, 1, 8, 8)
    y_bar = complement(digits.y_train[:200], 10, n_labels=4, random_state=0)
    frozen = convolutional()
    frozen[0].weight.requires_grad_(False)
    for network in (convolutional(), frozen):
        model = quick(network=network, max_epochs=2).fit(X, y_bar)
        model.save(tmp_path)
        with raises("this model's network was a module of your own; pass it again as load(path, network=...)"):
            ComplementaryClassifier.load(tmp_path)
        same_model(model, ComplementaryClassifier.load(tmp_path, network=convolutional()), X)
        with raises("the saved parameters do not fit the network; pass the network that was trained"):
            ComplementaryClassifier.load(tmp_path, network=nn.Linear(64, 10))

    def build(n_features, n_classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(n_features, n_classes))

    model = quick(network=build, max_epochs=2, schedule=lambda epoch: 1.0, loss=lambda z: z).fit(X, y_bar)
    model.save(tmp_path)
    same_model(model, ComplementaryClassifier.load(tmp_path, network=build), X)


def test_a_recipe_that_was_given_is_saved_with_its_settings(tmp_path):
    X, _, y_bar = blobs()
    recipe = Consistency(n_strong=1, weight=0.5, rise=3, average=0.0)
    model = quick(recipe=recipe, max_epochs=2, loss=losses.mean_absolute_error).fit(X, y_bar)
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path)
    assert type(back.recipe) is Consistency
    assert back.recipe.settings() == recipe.settings()
    assert back.loss == "mean_absolute_error"
    same_model(model, back, X)
    same_model(model, back.fit(X, y_bar), X)
    told = json.loads((tmp_path / "model.json").read_text())
    told["settings"]["recipe"]["name"] = "agreement"
    (tmp_path / "model.json").write_text(json.dumps(told))
    with raises(f"the model at {tmp_path} was trained by a recipe that is not known here"):
        ComplementaryClassifier.load(tmp_path)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"recipe": Consistency(lambda x, codes: x)}, "plain, consistency, progressive; got 'your own Consistency'"),
        ({"recipe": type("Mine", (Recipe,), {})()}, "plain, consistency, progressive; got 'your own Mine'"),
        ({"schedule": lambda epoch: 1.0}, "`schedule` must be None, 'cosine', 'step' or a function; got 'your own"),
        ({"method": "free", "loss": lambda z: -z}, "or one of cross_entropy, mean_absolute_error, mean_squared_error"),
        ({"method": {"mine": Forward(3)}}, "discriminant; got 'your own objectives'"),
    ],
)
def test_a_loaded_model_never_trains_by_other_settings_than_its_own(own, words, tmp_path):
    X, _, y_bar = blobs()
    model = quick(**({"max_epochs": 1} | own)).fit(X, y_bar)
    model.save(tmp_path)
    back = ComplementaryClassifier.load(tmp_path)
    same_model(model, back, X)
    with raises(words):
        back.fit(X, y_bar)
    same_model(model, back.set_params(**own).fit(X, y_bar), X)


def test_a_model_is_json_and_safetensors_and_no_pickle(tmp_path, monkeypatch):
    X, _, y_bar = blobs()
    with pytest.warns(ConvergenceWarning):  # a failed setting, which has no number to write
        model = quick(lr=(0.01, 1e38)).fit(X, y_bar)
    model.save(tmp_path)
    weights, text = sorted(tmp_path.iterdir(), reverse=True)
    assert text.name == "model.json"

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    about = json.loads(text.read_text(), parse_constant=refuse)
    assert about["weights"] == weights.name
    data = weights.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    end = max(v["data_offsets"][1] for k, v in header.items() if k != "__metadata__")
    assert len(data) == 8 + length + end  # nothing but the header and the numbers

    def never(*args, **kwargs):
        raise AssertionError("unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load"), (np, "load")):
        monkeypatch.setattr(module, name, never)
    same_model(model, ComplementaryClassifier.load(tmp_path), X)


def test_saving_again_leaves_one_model(tmp_path, fitted):
    model, X = fitted
    other = quick(random_state=5).fit(X, blobs()[2])
    (tmp_path / "weights-mine.safetensors").write_text("mine")
    for each in (other, model, model):
        each.save(tmp_path)
        assert len(names(tmp_path)) == 3
        same_model(each, ComplementaryClassifier.load(tmp_path), X)


@pytest.mark.parametrize(("module", "writer"), [(description, "write_text"), (saving, "write_tensors")])
def test_a_crash_while_saving_leaves_the_old_model(tmp_path, fitted, monkeypatch, module, writer):
    model, X = fitted
    model.save(tmp_path)
    other = quick(hidden=(5,), random_state=5).fit(X, blobs()[2])

    def crash(*args):
        raise OSError("the lights went out")

    with monkeypatch.context() as patch:
        patch.setattr(module, writer, crash)
        with raises("the lights went out", OSError):
            other.save(tmp_path)
    same_model(model, ComplementaryClassifier.load(tmp_path), X)
    other.save(tmp_path)
    same_model(other, ComplementaryClassifier.load(tmp_path), X)
    assert len(names(tmp_path)) == 2


def test_places_that_cannot_be_saved_to(tmp_path, fitted):
    model, _ = fitted
    file = tmp_path / "file"
    file.write_text("here first")
    with raises(f"cannot save to {file}: it is a file; give a folder", FileExistsError):
        model.save(file)
    with raises("; nothing was changed", OSError):
        model.save(file / "model")
    assert names(tmp_path) == ["file"]
    assert file.read_text() == "here first"


def test_classes_that_json_cannot_hold_are_refused(tmp_path):
    X, _, y_bar = blobs()
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]").astype(object)
    model = quick().fit(X, days[y_bar])
    assert model.predict(X)[0] in days
    with raises("class values must be text or numbers to be saved; got datetime.date(2020, 1, 1)"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_is_not_there(tmp_path, fitted):
    (tmp_path / "file").write_text("")
    with raises(f"no model at {tmp_path / 'other'}: it has no model.json", FileNotFoundError):
        ComplementaryClassifier.load(tmp_path / "other")
    with raises(f"no model at {tmp_path}: it has no model.json", FileNotFoundError):
        ComplementaryClassifier.load(tmp_path)
    with raises("a model is a folder; "):
        ComplementaryClassifier.load(tmp_path / "file")
    fitted[0].save(tmp_path)
    weights = next(tmp_path.glob("weights-*"))
    weights.unlink()
    with raises(f"no file at {weights}", FileNotFoundError):
        ComplementaryClassifier.load(tmp_path)


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.9, 0.995])
def test_a_model_cut_short_is_refused(tmp_path, fitted, kept):
    fitted[0].save(tmp_path)
    text, weights = sorted(tmp_path.iterdir())
    for path in (text, weights):
        whole = path.read_bytes()
        path.write_bytes(whole[: int(kept * len(whole))])
        with raises(f"{path} is not a whole"):
            ComplementaryClassifier.load(tmp_path)
        path.write_bytes(whole)
    same_model(fitted[0], ComplementaryClassifier.load(tmp_path), fitted[1])


def test_a_damaged_model_gives_one_clear_error(tmp_path, fitted):
    fitted[0].save(tmp_path)
    path = tmp_path / "model.json"
    about = json.loads(path.read_text())
    damages = [[], 3, "text", None] + [about | {key: [1]} for key in about]
    damages += [{k: v for k, v in about.items() if k != key} for key in about if key != "model"]  # once there was none
    fit = about["fitted"]
    damages += [
        about | {"fitted": {k: v for k, v in fit.items() if k != key}}
        for key in fit
        if key not in ("trials", "objective", "network")  # of these the predictions do not depend
    ]
    damages += [about | {"fitted": fit | {"classes": ["a", "b"]}}, about | {"fitted": fit | {"shape": [7]}}]
    damages += [about | {"settings": about["settings"] | {"hidden": [0]}}]
    damages += [about | {"weights": "../../etc/passwd"}]
    damages += [about | {"fitted": fit | {key: []}} for key in ("members", "temperatures", "weights")]
    damages += [
        about | {"fitted": fit | {"members": [one]}}
        for one in ({"kind": "oracle"}, {"kind": "networks", "network": "transformer"}, {"kind": "networks"}, {}, 3)
    ]
    for damage in damages:
        path.write_text(json.dumps(damage))
        with pytest.raises((ValueError, FileNotFoundError), match=r"model|network|no file at|hidden"):
            ComplementaryClassifier.load(tmp_path)
    path.write_text(json.dumps(about | {"format": 99}))
    with raises("it has format 99, and this release reads 1"):
        ComplementaryClassifier.load(tmp_path)
    path.write_text(json.dumps(about))
    same_model(fitted[0], ComplementaryClassifier.load(tmp_path), fitted[1])


def test_warnings_and_output_stay_away_from_a_good_fit():
    X, _, y_bar = blobs()
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        warnings.simplefilter("error")
        quick("auto", max_epochs=2, verbose=1).fit(X, y_bar).predict(X)
    assert out.getvalue() == ""


def test_a_saved_model_knows_what_it_minimised(tmp_path):
    X, y = load_iris(return_X_y=True)
    y_bar = complement(y, 3, random_state=0)
    q = transition.noisy(3, 0.1)
    options = {"lr": 0.01, "max_epochs": 2, "n_seeds": 2, "random_state": 0}
    model = ComplementaryClassifier("ascent", beta=0.2, gamma=0.5, transition=q, **options).fit(X, y_bar)
    model.save(tmp_path)
    loaded = ComplementaryClassifier.load(tmp_path)
    assert loaded.objective_ == model.objective_
    again = OBJECTIVES[loaded.method_](**loaded.objective_)
    assert (again.beta, again.gamma, again.transition.tolist()) == (0.2, 0.5, q.tolist())
    own = ComplementaryClassifier("free", loss=lambda logits: logits**2, **options).fit(X, y_bar)
    own.save(tmp_path)
    assert ComplementaryClassifier.load(tmp_path).objective_["loss"] == "<lambda>"


def test_an_objective_with_a_matrix_of_its_own_is_judged_by_that_matrix():
    X, y = load_iris(return_X_y=True)
    q = transition.noisy(3, 0.1)
    y_bar = complement(y, 3, transition=q, random_state=0)
    options = {"lr": 0.01, "max_epochs": 2, "n_seeds": 2, "random_state": 0}
    with raises("`transition` must be the matrix of the objective 'mine', or None where it has none"):
        ComplementaryClassifier({"mine": Forward(3, transition=q)}, **options).fit(X, y_bar)
    with raises("`transition` must be the matrix of the objective 'mine'"):
        ComplementaryClassifier({"mine": Forward(3)}, transition=q, **options).fit(X, y_bar)
    mine = ComplementaryClassifier({"mine": Forward(3, transition=q)}, transition=q, **options).fit(X, y_bar)
    named = ComplementaryClassifier("forward", transition=q, **options).fit(X, y_bar)
    assert mine.estimated_accuracy_ == named.estimated_accuracy_


def test_an_objective_that_does_not_keep_its_settings_is_refused_before_training():
    class Forgetful(Forward):
        def __init__(self, n_classes, power=2):
            super().__init__(n_classes)

    with raises("Forgetful must keep each argument of its constructor as an attribute of that name"):
        ComplementaryClassifier({"mine": Forgetful(3)}).fit(*blobs()[::2])
