"""What must hold of labels, classes and transition matrices, and the words that say so."""

from __future__ import annotations

import sys

import numpy as np
import pandas
import pytest
import torch

from helpers import as_sets, raises
from naysayer import (
    BoostedClassifier,
    ComplementaryClassifier,
    ReductionClassifier,
    complement,
    metrics,
    unbiased_weights,
)
from naysayer.common.checks import to_numpy
from naysayer.labels.checks import check_classes, check_labels, check_n_classes, check_transition
from naysayer.measure import doctor


@pytest.mark.parametrize("value", [2, 10, np.int32(7)])
def test_n_classes_is_a_plain_int(value):
    assert type(check_n_classes(value)) is int
    assert check_n_classes(value) == value


@pytest.mark.parametrize("value", [1, 0, -3, 2.0, "3", None, True, np.nan])
def test_n_classes_refused(value):
    with raises(f"`n_classes` must be a whole number of at least 2; got {value!r}"):
        check_n_classes(value)


def test_anything_array_like_becomes_numpy():
    weights = torch.ones(3, requires_grad=True)
    for values in ([1, 2, 0], (1, 2, 0), torch.tensor([1, 2, 0]), pandas.Series([1, 2, 0]), np.array([1, 2, 0])):
        np.testing.assert_array_equal(to_numpy(values), [1, 2, 0])
    np.testing.assert_array_equal(to_numpy(weights), np.ones(3))
    np.testing.assert_array_equal(to_numpy(weights.bfloat16()), np.ones(3))  # a type that numpy does not have
    learned = torch.tensor([[0.1, 0.9], [0.8, 0.2]], requires_grad=True)
    np.testing.assert_allclose(check_transition(learned, 2), [[0.1, 0.9], [0.8, 0.2]], atol=1e-7)


def test_ragged_labels_refused():
    with raises("labels must form a 1-D or 2-D array; got rows of different lengths"):
        check_labels([[1], [1, 0]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, object])
def test_whole_numbers_of_any_type_become_int64(dtype):
    y = check_classes(np.array([3, 0, 1], dtype=dtype), 4, name="y")
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, [3, 0, 1])


@pytest.mark.parametrize(
    ("y", "n_classes", "words"),
    [
        ([[0, 1]], 3, "`y` must have one dimension; got shape (1, 2)"),
        (1, 3, "`y` must have one dimension; got shape ()"),
        ([], 3, "`y` must hold at least one label; got none"),
        ([0, 1.5], 3, "`y` must hold whole numbers (class indices); got 1.5 at row 1"),
        ([0, 1, np.nan], 3, "`y` must hold whole numbers (class indices); got nan at row 2"),
        ([np.inf], 3, "`y` must hold whole numbers (class indices); got inf at row 0"),
        (["cat"], 3, "`y` must hold whole numbers (class indices); got values such as"),
        ([None, 1], 3, "`y` must hold whole numbers (class indices); got values such as None"),
        ([1, None], 3, "`y` must hold whole numbers (class indices); got values such as None"),
        ([True, False], 3, "`y` must hold whole numbers (class indices); got dtype bool"),
        ([0, -1], None, "`y` must hold classes from 0 up; got -1 at row 1"),
        ([0, 2, 12, 11], 10, "`y` must hold classes 0 to 9; got 12 at row 2; pass n_classes=13?"),
        ([3, -2], 10, "`y` must hold classes 0 to 9; got -2 at row 1"),
    ],
)
def test_classes_refused(y, n_classes, words):
    with raises(words):
        check_classes(y, n_classes, name="y")


def test_a_negative_class_gets_no_advice():
    with pytest.raises(ValueError, match=r"at row 0$"):
        check_classes([-1, 99], 10, name="y")


def test_labels_in_either_encoding():
    single, n_classes = check_labels([2, 0])
    assert n_classes == 3
    assert single.dtype == np.int64
    assert check_labels([0, 0])[1] == 2  # K is at least 2
    assert check_labels([0, 1], 7)[1] == 7
    kinds = (np.array, torch.tensor, lambda rows: np.array(rows, dtype=bool).astype(object))
    for matrix in ([[0, 1, 0], [0, 0, 0]], [[0.0, 1.0, 0.0], [0.0] * 3], *(of([[0, 1, 0], [0] * 3]) for of in kinds)):
        sets, n_classes = check_labels(matrix)
        assert sets.dtype == bool
        assert n_classes == 3
        np.testing.assert_array_equal(sets, [[False, True, False], [False, False, False]])


@pytest.mark.parametrize(
    ("y_bar", "n_classes", "words"),
    [
        (np.zeros((2, 2, 2)), None, "`y_bar` must be (N,) classes or an (N, K) ruled-out matrix; got shape (2, 2, 2)"),
        (3, None, "`y_bar` must be (N,) classes or an (N, K) ruled-out matrix; got shape ()"),
        ([[0, 2]], None, "a 2-D `y_bar` must be a ruled-out matrix of True and False; got other values"),
        (np.array([[None]]), None, "a 2-D `y_bar` must be a ruled-out matrix of True and False; got other values"),
        ([["a", "b"]], None, "a 2-D `y_bar` must be a ruled-out matrix of True and False; got other values"),
        (np.zeros((0, 3), dtype=bool), None, "`y_bar` must hold at least one label; got none"),
        (np.zeros((0, 3)), None, "`y_bar` must hold at least one label; got none"),
        ([[True, False, False]], 4, "a 2-D `y_bar` must have n_classes = 4 columns; got 3"),
        ([[False]], None, "a 2-D `y_bar` must have at least 2 columns, one per class; got 1"),
        (
            [[False, True], [True, True]],
            None,
            "each row of `y_bar` must leave a class possible; row 1 rules out all 2; drop that row",
        ),
        ([0, 3], 3, "`y_bar` must hold classes 0 to 2; got 3 at row 1; pass n_classes=4?"),
        ([0, 1], 1, "`n_classes` must be a whole number of at least 2; got 1"),
    ],
)
def test_labels_refused(y_bar, n_classes, words):
    with raises(words):
        check_labels(y_bar, n_classes)


def test_transition_is_returned_as_float64():
    for q in ([[0, 1], [1, 0]], torch.tensor([[0.0, 1.0], [1.0, 0.0]]), np.array([[0, 1], [1, 0]], dtype=np.float32)):
        checked = check_transition(q, 2)
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("q", "n_classes", "words"),
    [
        ([["a", "b"], ["c", "d"]], None, "`transition` must be a (K, K) matrix of numbers"),
        ([[0, 1], [1]], None, "`transition` must be a (K, K) matrix of numbers"),
        ([0.5, 0.5], None, "`transition` must be a square (K, K) matrix; got shape (2,)"),
        (np.ones((2, 3)), None, "`transition` must be a square (K, K) matrix; got shape (2, 3)"),
        (np.zeros((0, 0)), None, "`transition` must be a square (K, K) matrix; got shape (0, 0)"),
        ([[0, 1], [1, 0]], 3, "`transition` must be (3, 3), one row per class; got (2, 2)"),
        ([[-0.5, 1.5], [1, 0]], 2, "`transition` must hold probabilities; got negative or non-finite entries"),
        ([[np.nan, 1], [1, 0]], 2, "`transition` must hold probabilities; got negative or non-finite entries"),
        ([[0, 1], [0.4, 0.5]], 2, "each row of `transition` must sum to 1; row 1 sums to 0.9"),
    ],
)
def test_transition_refused(q, n_classes, words):
    with raises(words):
        check_transition(q, n_classes)


# ---- once -----------------------------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch):
    """The checks of labels that were made: one entry per call from outside of them."""
    made, inside = [], []

    def counted(check):
        def call(*arguments, **options):
            if not inside:
                made.append(check.__name__)
            inside.append(check)
            try:
                return check(*arguments, **options)
            finally:
                inside.pop()

        return call

    ours = [module for name, module in sys.modules.items() if name.startswith("naysayer.")]
    for module in ours:
        for name in ("check_labels", "encode_labels"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(getattr(module, name)))
    return made


X = np.random.default_rng(0).normal(size=(90, 2)).astype("float32")
ONE = complement(np.arange(90) % 3, 3, random_state=0)
KINDS = {
    "labels": ONE,
    "matrix": as_sets(ONE, 3),
    "with silent rows": as_sets(ONE, 3) & (np.arange(90) % 9 > 0)[:, None],
}
PREDICTED = np.arange(90) % 3
FLAT = np.full((90, 3), 1 / 3)


@pytest.mark.parametrize("y_bar", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: ComplementaryClassifier("auto", max_epochs=2, n_seeds=2, device="cpu", random_state=0),
        lambda: ReductionClassifier(random_state=0),
        lambda: BoostedClassifier(n_estimators=5, random_state=0),
    ],
    ids=["networks", "reduction", "trees"],
)
def test_an_estimator_checks_labels_once(checks, make, y_bar):
    model = make()
    model.fit(X, y_bar)
    assert len(checks) == 1, checks
    model.score(X, y_bar)
    assert len(checks) == 2, checks
    metrics.accuracy_scorer(model, X, y_bar)
    assert len(checks) == 3, checks


@pytest.mark.parametrize("y_bar", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize(
    "call",
    [
        lambda y_bar: metrics.accuracy_score(y_bar, PREDICTED),
        lambda y_bar: metrics.accuracy_interval(y_bar, PREDICTED),
        lambda y_bar: metrics.class_prior(y_bar),
        lambda y_bar: metrics.class_prior_interval(y_bar),
        lambda y_bar: metrics.confusion_matrix(y_bar, PREDICTED),
        lambda y_bar: metrics.risk(y_bar, FLAT),
        lambda y_bar: metrics.risk_interval(y_bar, FLAT),
        lambda y_bar: metrics.reliability(y_bar, FLAT),
        lambda y_bar: metrics.compare(y_bar, PREDICTED, PREDICTED),
        lambda y_bar: doctor.examine(y_bar),
        lambda y_bar: unbiased_weights(y_bar, 3),
    ],
    ids=[
        *("score", "interval", "prior", "prior interval", "confusion", "risk", "risk interval", "reliability"),
        *("compare", "doctor", "weights"),
    ],
)
def test_a_measurement_checks_labels_once(checks, call, y_bar):
    call(y_bar)
    assert len(checks) == 1, checks
