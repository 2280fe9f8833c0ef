"""Fitted estimators go through JSON and arrays and come back with the same bits; a stranger's file runs nothing."""

from __future__ import annotations

import copy
import functools
import json
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from helpers import raises
from naysayer import ReductionClassifier, transition
from naysayer.models.loading import load_model
from naysayer.models.objects import describe, rebuild
from naysayer.models.saving import write_model

X, Y = load_iris(return_X_y=True)
KNN = KNeighborsClassifier
ESTIMATORS = {
    "extra trees": ExtraTreesClassifier(5, random_state=0),
    "extra trees regressor": ExtraTreesRegressor(5, random_state=0),
    "forest": RandomForestClassifier(5, random_state=np.random.RandomState(0)),
    "forest regressor": RandomForestRegressor(5, random_state=0),
    "hist boosting": HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "hist boosting with categories": HistGradientBoostingClassifier(max_iter=5, categorical_features=[3]),
    "hist boosting regressor": HistGradientBoostingRegressor(max_iter=5, random_state=0),
    "kd tree": KNN(9, algorithm="kd_tree"),
    "ball tree": KNN(9, algorithm="ball_tree", p=3, weights="distance"),
    "brute": KNN(9, algorithm="brute"),
    "regressor of neighbours": KNeighborsRegressor(),
    "logistic": LogisticRegression(max_iter=500),
    "naive Bayes": GaussianNB(),
    "discriminant": LinearDiscriminantAnalysis(),
    "sgd": SGDClassifier(loss="log_loss", random_state=0),
    "network": MLPClassifier((8,), max_iter=10, random_state=0),
    "calibrated": CalibratedClassifierCV(LinearSVC(random_state=0)),
    "isotonic": CalibratedClassifierCV(GaussianNB(), method="isotonic"),
    "ada boost": AdaBoostClassifier(n_estimators=3, random_state=0),
    "bagging": BaggingClassifier(n_estimators=3, random_state=0),
    "voting": VotingClassifier([("a", GaussianNB()), ("b", LogisticRegression(max_iter=500))], voting="soft"),
    "pipeline": make_pipeline(SimpleImputer(), StandardScaler(), FunctionTransformer(np.tanh), GaussianNB()),
    "columns": make_pipeline(
        ColumnTransformer([("a", StandardScaler(), slice(0, 2)), ("b", OneHotEncoder(dtype=np.float32), [2, 3])]),
        LogisticRegression(max_iter=500),
    ),
}


def through_json(value):
    tensors = {}
    return rebuild(json.loads(json.dumps(describe(value, tensors), allow_nan=False)), tensors)


def fit(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some were given few rounds
        return estimator.fit(X, Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_comes_back_predicts_the_same_bits(name):
    model = fit(ESTIMATORS[name])
    again = through_json(model)
    predict = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    np.testing.assert_array_equal(getattr(again, predict)(X), getattr(model, predict)(X))
    assert type(again) is type(model)
    assert repr(again) == repr(model) or "RandomState" in repr(model)


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 2**70, 0.1, "a\nb", [1, [2]], (1, (2,)), {"a": 1}, {1: "a", (2, 3): None}, {"$": 1}),
        *(float("inf"), -float("inf"), b"\x00\xff", {3, 1}, frozenset({"a"}), slice(1, None, 2)),
        *(np.float32, float, np.dtype("<M8[s]"), np.exp),
    ],
)
def test_plain_values(value):
    assert through_json(value) == value
    assert type(through_json(value)) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["a", "bcd"]),
        np.array([True, False]),
        np.zeros((0, 3), dtype=np.float32),
        np.array(3.5),
        np.array([(1, 2.0)], dtype=np.dtype([("a", "u1"), ("b", "<f8")], align=True)),
        np.array([(1, [2, 3])], dtype=[("a", "u1"), ("b", "<f8", (2,))]),
        np.array(["x", None, 2], dtype=object),
    ],
)
def test_arrays(array):
    again = through_json(array)
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype
    assert again.flags.f_contiguous == array.flags.f_contiguous
    assert again.flags.writeable


def test_an_array_of_arrays_stays_one():
    array = np.empty(2, dtype=object)
    array[:] = [np.arange(2), np.arange(2.0)]
    again = through_json(array)
    assert again.shape == (2,)
    np.testing.assert_array_equal(again[1], [0.0, 1.0])


def test_numbers_and_not_a_number():
    assert np.isnan(through_json(float("nan")))
    for value in (np.float32(0.1), np.int64(-3), np.bool_(True), np.str_("a"), np.float64("nan")):
        again = through_json(value)
        assert type(again) is type(value)
        np.testing.assert_array_equal(again, value)


def test_an_estimated_transition_keeps_what_it_was_estimated_from(tmp_path):
    q = transition.estimate(Y, (Y + 1 + np.arange(150) % 2) % 3, 3)
    model = ReductionClassifier(GaussianNB(), transition=q).fit(X, (Y + 1) % 3)
    model.save(tmp_path)
    again = ReductionClassifier.load(tmp_path)
    assert type(again.transition) is type(q)
    np.testing.assert_array_equal(again.transition, q)
    np.testing.assert_array_equal(again.transition.counts, q.counts)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix"])
def test_sparse(kind):
    matrix = getattr(scipy.sparse, kind)(np.eye(3)[:, :2])
    again = through_json(matrix)
    assert type(again) is type(matrix)
    np.testing.assert_array_equal(again.toarray(), matrix.toarray())


@pytest.mark.parametrize(
    "make", [np.random.RandomState, lambda seed: np.random.Generator(np.random.MT19937(seed)), np.random.default_rng]
)
def test_random_generators_go_on_where_they_were(make):
    generator = make(0)
    generator.normal(size=3)
    again = through_json(generator)
    assert type(again) is type(generator)
    np.testing.assert_array_equal(again.normal(size=9), generator.normal(size=9))


def test_texts_through_a_vocabulary():
    texts = ["good film", "bad film", "good, good", "bad bad"]
    model = make_pipeline(CountVectorizer(), TfidfTransformer(), MultinomialNB()).fit(texts, [0, 1, 0, 1])
    np.testing.assert_array_equal(through_json(model).predict_proba(texts), model.predict_proba(texts))


def test_a_cache_of_pickles_is_left_behind(tmp_path):
    model = make_pipeline(StandardScaler(), GaussianNB(), memory=str(tmp_path)).fit(X, Y)
    assert through_json(model).memory is None


# ---- what is not saved --------------------------------------------------------------------------------------------


class Own(GaussianNB):
    pass


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Own(), "it holds an object of class test_objects.Own, which is not among those that are saved"),
        (SVC(), "it holds an object of class sklearn.svm._classes.SVC, which is not among"),
        (GradientBoostingClassifier(), "sklearn.ensemble._gb.GradientBoostingClassifier, which is not among"),
        (FunctionTransformer(print), "it holds an object of class builtins.builtin_function_or_method"),
        (FunctionTransformer(np.frompyfunc(abs, 1, 1)), "it holds the function abs (vectorized), which is not numpy's"),
        (functools.partial(print, 1), "it holds the function print, which is not scikit-learn's"),
        (np.random.Generator(np.random.Philox(0)), "its random_state is of Philox, not MT19937"),
        (np.ma.masked_array([1]), "it holds an object of class numpy.ma.MaskedArray"),
    ],
)
def test_what_cannot_be_saved_says_so(value, words):
    with raises(words):
        describe(value, {})


def test_what_holds_itself_is_refused():
    circle = []
    circle.append(circle)
    with raises("cannot save an object that holds itself"):
        describe(circle, {})


# ---- a stranger's file --------------------------------------------------------------------------------------------


def an_object(name, **rest):
    return {"$": "object", "class": name, "state": {}} | rest


@pytest.mark.parametrize(
    "name",
    [
        *("os.system", "builtins.eval", "subprocess.Popen", "sklearn.os", "posix.system", "naysayer.__main__.main"),
        *("sklearn.linear_model.os.system", "sklearn.utils._joblib.Memory", "joblib.memory.Memory", "naysayer.cli.app"),
        *("sklearn.preprocessing._data.sparse", "sklearn.pipeline.clone", "sklearn.pipeline.Bunch", "numpy.load"),
        *("sklearn.linear_model.LogisticRegression", "sklearn.linear_model.nothing.There", "sklearn.tree._tree.np", ""),
        *("sklearn.linear_model.tests.test_base.x", "sklearn.svm._classes.SVC", "functools.partial", "sklearn..tree"),
        *("sklearn._loss._loss.CyLossFunction.__init__", "sklearn._loss.loss.sample", "sklearn.cluster._kmeans.KMeans"),
    ],
)
def test_no_class_but_those_allowed_is_found(name):
    with raises(f"it asks for the class {name}, which is not among those that are saved and loaded without pickle"):
        rebuild(an_object(name), {})


def test_a_module_that_is_not_allowed_is_not_even_imported(tmp_path, monkeypatch):
    (tmp_path / "stranger.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend(tmp_path)
    with raises("it asks for the class stranger.Thing"):
        rebuild(an_object("stranger.Thing"), {})


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ({"$": "pickle"}, "something of the kind 'pickle', which this release does not know"),
        ({"$": "array", "dtype": "|O", "shape": [1], "order": "C", "bytes": "a"}, "an array of objects as bytes"),
        ({"$": "array", "dtype": "<f8", "shape": [1], "order": "C", "bytes": "b"}, "it is not whole: KeyError: 'b'"),
        ({"$": "array"}, "it is not whole"),
        ({"$": "ufunc", "name": "load"}, "it asks for the function load, which is not one of numpy's ufuncs"),
        ({"$": "sparse", "class": "load_npz"}, "it holds a sparse matrix of class load_npz"),
        ({"$": "type", "name": "os"}, "it is not whole: TypeError"),
        (an_object("sklearn.pipeline.Pipeline", state={"memory": "cache"}), "attributes that such objects do not have"),
        (an_object("sklearn.pipeline.Pipeline", state={"__class__": 1}), "attributes that such objects do not have"),
    ],
)
def test_hostile_values_are_refused(described, words):
    with raises(words):
        rebuild(described, {"a": describe_array(np.zeros(1))})


def describe_array(array):
    tensors = {}
    describe(array, tensors)
    return tensors["array.0"]


def test_what_is_nested_too_deeply_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with raises("it is nested too deeply"):
        rebuild(deep, {})


def test_a_sparse_matrix_whose_indices_leave_it_is_refused():
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    matrix.indices[1] = 1000
    with raises("indices"):
        through_json(matrix)


def test_a_random_generator_that_would_read_outside_its_state_is_refused():
    tensors = {}
    described = describe(np.random.RandomState(0), tensors)
    described["state"]["state"]["pos"] = 10**6
    with raises("it holds a random generator that numpy does not have"):
        rebuild(described, tensors)


NODES = "it holds a tree whose nodes point nowhere"
SIZES = "it holds a tree whose arrays do not fit each other"


def change_nodes(name, value):
    def change(model):
        state = model.__reduce__()[2]
        nodes = state["nodes"].copy()
        nodes[name][0] = value
        return model.__reduce__()[1], state | {"nodes": nodes}

    return change


TREES = {
    "to a node far away": (change_nodes("left_child", 10**6), NODES),
    "to a node before": (change_nodes("right_child", -7), NODES),
    "in a circle": (change_nodes("right_child", 0), NODES),
    "a feature that is not there": (change_nodes("feature", 4), NODES),
    "a feature before the first": (change_nodes("feature", -2), NODES),
    "more nodes than there are": (lambda t: (t.__reduce__()[1], t.__reduce__()[2] | {"node_count": 10**6}), SIZES),
    "more outputs than there are": (lambda t: ((4, np.array([3]), 5), t.__reduce__()[2]), SIZES),
    "other classes": (lambda t: ((4, np.array([7]), 1), t.__reduce__()[2]), SIZES),
}


@pytest.mark.parametrize("how", TREES)
def test_a_tree_that_would_read_outside_its_memory_is_refused(how):
    change, words = TREES[how]
    tree = fit(ExtraTreesClassifier(1, random_state=0)).estimators_[0].tree_
    arguments, state = change(tree)
    tensors = {}
    described = an_object("sklearn.tree._tree.Tree", state=describe(state, tensors))
    with raises(words):
        rebuild(described | {"arguments": describe(list(arguments), tensors)}, tensors)


def wider_forest(model):
    model.estimators_[0].n_features_in_ = 5


def wider_tree(model):
    model.estimators_[0] = copy.deepcopy(model.estimators_[0])
    model.n_features_in_ = model.estimators_[1].n_features_in_ = 2


def boosted_nodes(name, value):
    def change(model):
        nodes = model._predictors[0][0].nodes
        nodes[name][np.flatnonzero(nodes["is_leaf"] == 0)[-1]] = value

    return change


def no_tree(model):
    model._predictors[0][0] = GaussianNB()


def set_to(**attributes):
    return lambda model: vars(model).update(attributes)


FOREST, BOOSTING = "extra trees", "hist boosting with categories"
MADE = {
    "a tree of fewer features": (FOREST, wider_forest, "a tree of another number of features than it is given"),
    "a forest of fewer features": (FOREST, wider_tree, "a tree of another number of features than it is given"),
    "a forest of others": (FOREST, set_to(estimators_=[GaussianNB()]), "a forest of trees that do not fit it"),
    "a tree that is none": ("naive Bayes", set_to(tree_=[1], n_features_in_=4), "a tree of another number of features"),
    "boosted: a circle": (BOOSTING, boosted_nodes("left", 0), NODES),
    "boosted: far away": (BOOSTING, boosted_nodes("right", 10**6), NODES),
    "boosted: no such feature": (BOOSTING, boosted_nodes("feature_idx", 4), NODES),
    "boosted: no such set": (BOOSTING, boosted_nodes("is_categorical", 1), "whose sets of categories are not there"),
    "boosted: no tree": (BOOSTING, no_tree, SIZES),
    "votes": ("brute", set_to(_y=np.full(150, 10**6)), "neighbours that do not fit each other"),
    "votes of few": ("brute", set_to(_y=np.zeros(3, dtype=int)), "neighbours that do not fit each other"),
    "classes that are several": ("brute", set_to(classes_=[1, 2, 3]), "neighbours that do not fit each other"),
    "too many neighbours": ("brute", set_to(n_neighbors=151), "neighbours that do not fit each other"),
}


@pytest.mark.parametrize("how", MADE)
def test_numbers_that_compiled_code_trusts_are_checked(how):
    name, change, words = MADE[how]
    model = copy.deepcopy(fit(ESTIMATORS[name]))
    change(model)
    with raises(words):
        through_json(model)


# ---- the reduction around them ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "extra trees", "kd tree", "brute", "logistic", "hist boosting", "pipeline"])
def test_a_reduction_is_saved_and_loaded(name, tmp_path):
    names = np.array(["ant", "bee", "cow"])
    y_bar = names[(Y + 1 + np.arange(150) % 2) % 3]
    estimator = ExtraTreesClassifier(3) if name is None else ESTIMATORS[name]
    model = ReductionClassifier(estimator, random_state=0).fit(X, y_bar)
    model.save(tmp_path / "model", extra={"label": "says"})
    for again in (ReductionClassifier.load(tmp_path / "model"), load_model(tmp_path / "model")):
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.extra_ == {"label": "says"}
        assert again.random_state == 0
        assert type(again.estimator) is type(estimator)
    assert sorted(path.suffix for path in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]


def test_a_hostile_folder_is_answered_in_one_line(tmp_path):
    settings = {"estimator": an_object("os.system")}
    write_model(tmp_path, {"settings": settings, "fitted": {}, "extra": {}}, {}, "ReductionClassifier")
    with raises(f"cannot load the model at {tmp_path}: it asks for the class os.system, which is not among") as error:
        load_model(tmp_path)
    assert "\n" not in str(error.value)
    write_model(tmp_path, {"settings": {"hooks": 1}, "fitted": {}, "extra": {}}, {}, "ReductionClassifier")
    with raises(f"cannot load the model at {tmp_path}: "):
        load_model(tmp_path)
    write_model(tmp_path, {"settings": {}, "fitted": {"estimator_": 1}, "extra": {}}, {}, "ReductionClassifier")
    with raises("it has no estimator that predicts probabilities"):
        load_model(tmp_path)
    write_model(tmp_path, {"settings": {}, "fitted": {}, "extra": {}}, {}, "Stranger")
    with raises(f"the model at {tmp_path} is a Stranger, which this release does not know"):
        load_model(tmp_path)
    with raises(f"{tmp_path} holds a Stranger, not a ReductionClassifier; use naysayer.models.loading.load_model"):
        ReductionClassifier.load(tmp_path)
