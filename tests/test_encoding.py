"""Class values of any kind become indices, and what names no class is refused."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression

from helpers import raises
from naysayer import BoostedClassifier, ComplementaryClassifier, ReductionClassifier, metrics, ruled_out, transition
from naysayer.labels.encoding import encode_labels

KINDS = {
    "a list": ["cat", "dog", "cat", "bird"],
    "texts": np.array(["cat", "dog", "cat", "bird"]),
    "texts as objects": np.array(["cat", "dog", "cat", "bird"], dtype=object),
    "a series": pd.Series(["cat", "dog", "cat", "bird"], index=[7, 7, 1, 0]),
    "a categorical series": pd.Series(["cat", "dog", "cat", "bird"], dtype="category"),
    "nullable integers": pd.Series([5, -2, 5, 9], dtype="Int64"),
    "integers": [5, -2, 5, 9],
    "small integers": np.array([5, 2, 5, 9], dtype=np.uint8),
    "whole floats": np.array([5.0, 2.0, 5.0, 9.0]),
    "integers as objects": np.array([5, -2, 5, 9], dtype=object),
    "a tensor": torch.tensor([5, -2, 5, 9]),
    "booleans": np.array([True, False, True, True]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_value_is_told_apart(kind):
    y_bar = KINDS[kind]
    labels, classes = encode_labels(y_bar)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(classes, np.unique(np.asarray(y_bar)))
    np.testing.assert_array_equal(classes[labels], np.asarray(y_bar))


@pytest.mark.parametrize("kind", KINDS)
def test_given_classes_keep_their_order(kind):
    y_bar = KINDS[kind]
    backwards = np.unique(np.asarray(y_bar))[::-1]
    labels, classes = encode_labels(y_bar, backwards.tolist())
    np.testing.assert_array_equal(classes, backwards)
    np.testing.assert_array_equal(classes[labels], np.asarray(y_bar))


def test_a_class_may_be_given_that_no_label_names():
    labels, classes = encode_labels(["a", "c"], classes=["a", "b", "c"])
    np.testing.assert_array_equal(labels, [0, 2])
    np.testing.assert_array_equal(classes, ["a", "b", "c"])
    np.testing.assert_array_equal(encode_labels([1, 1], classes=[0, 1])[0], [1, 1])


MARKED = ["!a", "c", "!a !b", "a|b", "", None, "!c"]
READ = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]], dtype=bool)


@pytest.mark.parametrize("classes", [None, ["a", "b", "c"], ["c", "a", "b"]])
@pytest.mark.parametrize(
    "kind", [list, tuple, pd.Series, lambda labels: np.array(labels, dtype=object), lambda labels: np.array([labels]).T]
)
def test_marked_texts_are_read(kind, classes):
    labels, named = encode_labels(kind(MARKED), classes)
    assert named.tolist() == (classes or ["a", "b", "c"])
    np.testing.assert_array_equal(labels, READ[:, ["abc".index(name) for name in named]])


def test_marks_among_other_values():
    np.testing.assert_array_equal(encode_labels(np.array(["!a", "b"]))[0], [[True, False], [True, False]])
    np.testing.assert_array_equal(
        encode_labels(["!b", float("nan"), ("a", "b")], classes=["a", "b", "c"])[0].sum(1), [1, 0, 1]
    )
    labels, classes = encode_labels(["!2", 3, " !1"], classes=[1, 2, 3])  # the classes stay numbers
    np.testing.assert_array_equal(labels, [[0, 1, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(classes, [1, 2, 3])


def test_classes_may_begin_with_a_mark_where_they_are_given():
    np.testing.assert_array_equal(encode_labels(["!a", "!b", "!a"], classes=["!a", "!b", "c"])[0], [0, 1, 0])


@pytest.mark.parametrize("matrix", [np.eye(3, dtype=bool), np.eye(3), np.eye(3, dtype=int).tolist(), torch.eye(3)])
def test_a_matrix_keeps_its_columns(matrix):
    labels, classes = encode_labels(matrix)
    assert labels.dtype == bool
    np.testing.assert_array_equal(labels, np.eye(3, dtype=bool))
    np.testing.assert_array_equal(classes, [0, 1, 2])
    named = encode_labels(matrix, classes=["z", "a", "m"])
    np.testing.assert_array_equal(named[0], labels)
    np.testing.assert_array_equal(named[1], ["z", "a", "m"])


def test_a_data_frame_is_a_matrix():
    frame = pd.DataFrame({"cat": [True, False], "dog": [False, True]})
    np.testing.assert_array_equal(encode_labels(frame, classes=frame.columns)[1], ["cat", "dog"])


def test_the_columns_of_a_frame_are_found_by_name():
    ruled_out = np.array([[1, 0, 0], [0, 1, 1]], dtype=bool)
    frame = pd.DataFrame(ruled_out, columns=["cat", "ant", "bee"])
    labels, classes = encode_labels(frame)
    assert classes.tolist() == ["cat", "ant", "bee"]
    np.testing.assert_array_equal(labels, ruled_out)
    labels, classes = encode_labels(frame, classes=["ant", "bee", "cat"])
    assert classes.tolist() == ["ant", "bee", "cat"]
    np.testing.assert_array_equal(labels, ruled_out[:, [1, 2, 0]])
    numbered = pd.DataFrame(ruled_out)  # whose columns have no names
    np.testing.assert_array_equal(encode_labels(numbered, classes=["ant", "bee", "cat"])[0], ruled_out)
    np.testing.assert_array_equal(encode_labels(numbered)[1], [0, 1, 2])


@pytest.mark.parametrize("classes", [["ant", "bee"], ["ant", "bee", "dog"], ["ant", "bee", "cat", "dog"]])
def test_a_frame_of_other_columns_is_refused(classes):
    frame = pd.DataFrame(np.eye(3, dtype=bool), columns=["cat", "ant", "bee"])
    with raises(f"the columns of `y_bar` must be the classes {', '.join(classes)}; got cat, ant, bee; rename them, or"):
        encode_labels(frame, classes)
    with raises("`classes` must be distinct; got 'a' more than once"):
        encode_labels(frame.set_axis(["a", "a", "b"], axis=1))


def test_a_column_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        labels, classes = encode_labels(np.array([[3], [1], [3]]))
    np.testing.assert_array_equal(classes[labels], [3, 1, 3])
    with raises("at least 2 columns"):
        encode_labels(np.array([[True], [False]]))


def test_proper_labels_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y_bar in KINDS.values():
            assert len(encode_labels(y_bar)[0]) == len(y_bar)


@pytest.mark.parametrize(
    ("y_bar", "classes", "words"),
    [
        (None, None, "requires y to be passed, but the target y is None"),
        ([], None, "at least one label; got none"),
        ([4, 4], None, "at least 2 classes; got 1 class, 4; pass classes=[...]"),
        ([0.5, 1.25, 2.0], None, "Unknown label type: continuous"),
        ([1.0, np.nan], None, "must name a class in each row; got nan at row 1; drop that row"),
        ([1.0, np.inf], [0, 1], "got inf at row 1"),
        (["a", None, "b"], None, "got None at row 1"),
        (["a", "b", np.nan, "a"], None, "must name a class in each row; got nan at row 2; drop that row"),
        (("a", np.float32("nan")), ["a", "b"], "must name a class in each row; got nan at row 1; drop that row"),
        (pd.Series([1, None, 2], dtype="Int64"), None, "must name a class in each row"),
        (["a", " "], ["a", "b"], "must name a class in each row; got blank text at row 1"),
        (np.array([1, "a"], dtype=object), None, "class values of one kind, that can be sorted; got int and str"),
        ([{"a"}, {"a", "b"}], None, "class values; got {'a'}; for sets of candidates pass naysayer.ruled_out(y_bar"),
        ([frozenset("a")], ["a", "b"], "must hold class values; got frozenset({'a'})"),
        (["a", "b", "d"], ["a", "b", "c"], "must hold the classes a, b, c; got d at row 2; add it to `classes`?"),
        ([0, 9], range(9), "must hold the classes 0, 1, 2, 3, 4, 5, 6, 7, ...; got 9 at row 1"),
        ([[1, 2], [3]], None, "rows of different lengths"),
        (np.zeros((2, 2, 2)), None, "must be (N,) classes or an (N, K) ruled-out matrix; got shape (2, 2, 2)"),
        ([[0, 2, 1]], None, "ruled-out matrix of True and False; got other values"),
        ([[True, True]], None, "row 0 rules out all 2"),
        (np.eye(3), ["a", "b"], "`classes` must name the 3 columns of `y_bar`; got 2 classes"),
        ([0, 1], [0, 1, 0], "`classes` must be distinct; got 0 more than once"),
        ([0, 1], [0], "`classes` must hold at least 2 classes; got 1 class"),
        ([0, 1], [], "`classes` must hold at least 2 classes; got 0 classes"),
        ([0, 1], [[0, 1]], "`classes` must be a list of class values; got shape (1, 2)"),
        (["!a", "!a"], None, "at least 2 classes; got 1 class, a; pass classes=[...]"),
        (["!", None], None, "at least 2 classes; got none; pass classes=[...]"),
        (["!a", "!d"], ["a", "b", "c"], "must name known classes (a, b, c); got 'd' at row 1"),
        (["!New York !Los Angeles", "Rome"], None, "'!New York !Los Angeles' at row 0 names 'New York', or a mark is"),
        (["a"], ["a", None], "`classes` must not hold missing values; got one at place 1"),
        (["a"], ["a", "b", np.nan], "`classes` must not hold missing values; got one at place 2"),
    ],
)
def test_errors(y_bar, classes, words):
    with raises(words):
        encode_labels(y_bar, classes)


@pytest.mark.parametrize(
    "make",
    [
        partial(ComplementaryClassifier, "forward", lr=0.01, max_epochs=2, n_seeds=2, hidden=(8,), random_state=0),
        partial(ReductionClassifier, LogisticRegression()),
        partial(BoostedClassifier, n_estimators=3, random_state=0),
    ],
)
def test_every_estimator_and_scorer_reads_marks(make):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(120, 3)), rng.choice(["!a", "!b", "!c", "a", "!a !c", ""], 120).tolist()
    said = ruled_out(labels, ["a", "b", "c"])
    model, expected = make().fit(X, labels), make(classes=["a", "b", "c"]).fit(X, said)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.score(X, labels) == model.score(X, said)
    for scorer in (
        metrics.accuracy_scorer,
        metrics.risk_scorer,
        metrics.make_scorer(transition=transition.noisy(3, 0.1)),
    ):
        single = np.flatnonzero(said.sum(axis=1) != 2)[:60]  # those that a matrix Q describes
        assert scorer(model, X[single], [labels[i] for i in single]) == scorer(model, X[single], said[single])
