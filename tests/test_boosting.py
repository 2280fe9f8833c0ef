"""The objective's gradient is that of the risks written out by hand, and the boosted trees learn the digits."""

from __future__ import annotations

import pickle
import re
import sys

import lightgbm
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils.estimator_checks import check_estimator

from helpers import as_sets, is_rows, raises, random_transition
from naysayer import complement, transition, unbiased_weights
from naysayer.labels.drawing import generator
from naysayer.measure.metrics import accuracy_score
from naysayer.models.boosting import BoostedClassifier, _complementary_objective, complementary_objective
from naysayer.models.loading import load_model
from naysayer.models.saving import write_estimator

X_WINE, Y_WINE = load_wine(return_X_y=True)
CORRECTIONS = ["forward", "free", "nonnegative", "ascent"]
BIASED = random_transition(4, 1, diagonal=0.05)


def mixed_rows(n, seed=0):
    """Sets of 1 to 3 of 4 classes, and rows that say nothing."""
    rng = np.random.default_rng(seed)
    rows = np.argsort(rng.random((n, 4)), axis=1) < rng.integers(0, 4, size=(n, 1))
    assert set(rows.sum(axis=1)) == {0, 1, 2, 3}
    return rows


LABELS = {
    "uniform": (np.random.default_rng(0).integers(0, 4, size=30), None),
    "biased": (np.random.default_rng(1).integers(0, 4, size=30), BIASED),
    "rows": (mixed_rows(30), None),
    "biased rows": (mixed_rows(30), BIASED),
}


# ---- the formulas, written out -------------------------------------------------------------------------------


def label_losses(scores, y_bar, q):
    """Forward's loss of each example but for constants, by its definition; 0 where nothing is said."""
    p = softmax(scores, axis=1)
    losses = np.zeros(len(p))
    for i, label in enumerate(y_bar):
        if np.ndim(label) == 0:
            losses[i] = -np.log(p[i] @ (transition.uniform(4) if q is None else q)[:, label])
        elif label.any() and (q is None or label.sum() == 3):
            losses[i] = -np.log(p[i][~label].sum())
        elif label.any():
            losses[i] = np.mean([-np.log(p[i] @ q[:, c]) for c in np.flatnonzero(label)])
    return losses


def total(scores, y_bar, q, correction, at):
    """What the gradient belongs to; the corrections' coefficients are those at the scores `at`."""
    if correction == "forward":
        return label_losses(scores, y_bar, q).sum()
    weights = unbiased_weights(y_bar, 4, q).double().numpy()
    risks, now = (-(weights * log_softmax(s, axis=1)).sum(axis=0) for s in (scores, at))
    if correction == "nonnegative":
        return risks[now > 0].sum()
    if correction == "ascent" and now.min() < 0:
        return -risks[now < 0].sum()
    return risks.sum()


def numerical_gradient(function, scores, step=1e-5):
    gradient = np.zeros_like(scores)
    for place in np.ndindex(scores.shape):
        moved = scores.copy()
        moved[place] += step
        gradient[place] += function(moved)
        moved[place] -= 2 * step
        gradient[place] -= function(moved)
    return gradient / (2 * step)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
def test_the_gradient_is_the_gradient(labels, correction, scale):
    y_bar, q = LABELS[labels]
    scores = scale * np.random.default_rng(2).normal(size=(30, 4))
    gradient, curvature = complementary_objective(y_bar, 4, q, correction)(scores, None)
    wanted = numerical_gradient(lambda s: total(s, y_bar, q, correction, scores), scores)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)
    assert curvature.shape == (30, 4)
    assert (curvature > 0).all()
    if labels == "uniform" and scale > 0 and correction != "forward":  # the corrections had something to correct
        free, _ = complementary_objective(y_bar, 4, q, "free")(scores, None)
        assert np.allclose(gradient, free, atol=1e-3) == (correction == "free")


def test_the_corrections_see_all_examples():
    """A risk is negative or not as a whole: one example alone would be corrected, among others it is not."""
    sure = np.array([[-9.0, 0.0, 0.0]])  # r_0 = -9.7; of the examples below, 11.0
    alone, _ = complementary_objective([0], 3, correction="nonnegative")(sure, None)
    np.testing.assert_allclose(alone, [[0.0, 0.0, 0.0]], atol=1e-3)
    scores, labels = np.concatenate([sure, np.zeros((30, 3))]), [0] + [1, 2, 0] * 10
    among, _ = complementary_objective(labels, 3, correction="nonnegative")(scores, None)
    np.testing.assert_allclose(among[0], [1.0, -0.5, -0.5], atol=1e-3)


@pytest.mark.parametrize("q", [None, BIASED], ids=["uniform", "biased"])
def test_curvature_of_the_risk_is_the_variance_of_its_weights(q):
    scores = np.random.default_rng(0).normal(size=(1, 4))
    p = softmax(scores, axis=1)[0]
    chances = p @ (transition.uniform(4) if q is None else q)
    weights = unbiased_weights(np.arange(4), 4, q).double().numpy()
    variance = chances @ weights**2 - p**2
    for labels in ([2], as_sets([2], 4)):
        _, curvature = complementary_objective(labels, 4, q, "free")(scores, None)
        np.testing.assert_allclose(curvature[0], variance, rtol=1e-6)
    _, ordinary = complementary_objective(is_rows([2], 4), 4, q, "free")(scores, None)
    np.testing.assert_allclose(ordinary[0], p * (1 - p), rtol=1e-6)
    if q is None:  # (1 - p)(K - 2 + p); for sets by their three possible rows of weights
        np.testing.assert_allclose(variance, (1 - p) * (2 + p), rtol=1e-6)
        pairs = np.array([[a, b] for a in range(4) for b in range(a)])
        sets = np.array([np.isin(np.arange(4), pair) for pair in pairs])
        chances = (~sets @ p) / 3
        wanted = chances @ unbiased_weights(sets, 4).double().numpy() ** 2 - p**2
        _, curvature = complementary_objective(sets[:1], 4, None, "free")(scores, None)
        np.testing.assert_allclose(curvature[0], wanted, rtol=1e-6)


def test_curvature_of_the_likelihood():
    scores = np.random.default_rng(0).normal(size=(1, 4))
    p = softmax(scores, axis=1)[0]

    def scale(labels, q=None):
        curvature = complementary_objective(labels, 4, q)(scores, None)[1][0] / (p * (1 - p))
        assert np.ptp(curvature) < 1e-9
        return curvature[0]

    assert scale([1]) == pytest.approx(1 / 3)
    assert scale([1], transition.uniform(4)) == pytest.approx(1 / 3)
    assert scale(is_rows([1], 4)) == pytest.approx(1.0)
    assert scale(is_rows([1], 4), BIASED) == pytest.approx(1.0)
    assert scale([[True, True, False, False]]) == pytest.approx(np.sqrt(1 / 3))
    # At p = 1/K: the square of the scale is the Fisher information, as a share of an ordinary label's.
    information = np.mean([(row**2 / 0.25).sum() - 1 for row in BIASED])
    assert scale([1], BIASED) == pytest.approx(np.sqrt(information / 3))


def test_a_row_that_says_nothing_has_no_gradient():
    rows = np.array([[False] * 3, [True, False, False]])
    for correction in CORRECTIONS:
        gradient, _ = complementary_objective(rows, 3, correction=correction)(np.zeros((2, 3)), None)
        assert np.abs(gradient[0]).max() == 0
        assert np.abs(gradient[1]).max() > 0.1


# ---- real data -----------------------------------------------------------------------------------------------


def test_digits():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=3, stratify=y)
    test_bar = complement(y_test, 10, random_state=4)
    model = BoostedClassifier(n_estimators=100, n_jobs=1, random_state=3).fit(X, complement(y, 10, random_state=3))
    accuracy = (model.predict(X_test) == y_test).mean()
    assert accuracy > 0.7
    assert model.score(X_test, test_bar) == accuracy_score(test_bar, model.predict(X_test), 10)
    assert abs(model.score(X_test, test_bar) - accuracy) < 0.3  # its standard error is about 0.07
    assert model.estimated_accuracy_.low < accuracy < model.estimated_accuracy_.high
    np.testing.assert_allclose(model.predict_proba(X_test).sum(axis=1), 1.0)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_every_correction_learns(correction):
    X, y = load_wine(return_X_y=True)
    model = BoostedClassifier(40, correction=correction, n_jobs=1, random_state=0)
    assert (model.fit(X, complement(y, 3, random_state=0)).predict(X) == y).mean() > 0.7


def test_mixed_and_ordinary_labels():
    X, y = load_wine(return_X_y=True)
    rows = as_sets(complement(y, 3, random_state=0), 3)
    rows[::2] = is_rows(y[::2], 3)
    rows[1::4] = False  # nothing is known of these
    model = BoostedClassifier(40, classes=["a", "b", "c"], n_jobs=1, random_state=0).fit(X, rows)
    assert (model.predict(X) == np.array(["a", "b", "c"])[y]).mean() > 0.9
    assert model.score(X, is_rows(y, 3)) == pytest.approx((model.predict(X) == np.array(["a", "b", "c"])[y]).mean())


def test_noisy_labels_need_their_matrix():
    X, y = load_wine(return_X_y=True)
    q = random_transition(3, diagonal=0.6)  # most labels name the very class
    y_bar = complement(y, 3, transition=q, random_state=0)
    told = BoostedClassifier(40, transition=q, n_jobs=1, random_state=0).fit(X, y_bar)
    assert (told.predict(X) == y).mean() > 0.7
    assert told.score(X, y_bar) == accuracy_score(y_bar, told.predict(X), 3, q)
    untold = BoostedClassifier(40, n_jobs=1, random_state=0).fit(X, y_bar)
    assert (untold.predict(X) == y).mean() < 0.3


def test_two_classes_and_one_that_no_label_names():
    X = np.arange(100.0)[:, None]
    model = BoostedClassifier(20, n_jobs=1, random_state=0).fit(X, np.where(X[:, 0] < 50, "low", "high"))
    np.testing.assert_array_equal(model.predict([[10.0], [90.0]]), ["high", "low"])
    model = BoostedClassifier(20, classes=[0, 1, 2], n_jobs=1, random_state=0).fit(X, X[:, 0] // 10 % 2)
    assert (model.predict(X) == 2).mean() > 0.5


# ---- rounds --------------------------------------------------------------------------------------------------


def test_rounds_are_chosen_by_the_likelihood_of_held_out_labels():
    X, y = load_wine(return_X_y=True)
    y_bar = complement(y, 3, random_state=0)
    model = BoostedClassifier(60, patience=5, correction="free", refit=False, n_jobs=1, random_state=0).fit(X, y_bar)
    assert model.history_.keys() == {"valid_loss", "valid_accuracy"}
    assert model.best_iteration_ == model.history_["valid_loss"].argmin() + 1
    assert len(model.history_["valid_loss"]) == min(60, model.best_iteration_ + 5)
    held_out = generator(0).permutation(178)[: int(0.2 * 178)]  # as the model deals it
    chose, judged = (accuracy_score(y_bar[r], model.predict(X[r]), 3) for r in (held_out[::2], held_out[1::2]))
    assert model.history_["valid_accuracy"][model.best_iteration_ - 1] == pytest.approx(chose)
    assert model.estimated_accuracy_.estimate == pytest.approx(judged) != pytest.approx(chose)
    again = clone(model).set_params(refit=True).fit(X, y_bar)
    assert again.best_iteration_ == model.best_iteration_ == again.booster_.current_iteration()
    assert again.estimated_accuracy_ == model.estimated_accuracy_
    assert (again.predict_proba(X) != model.predict_proba(X)).any()


def test_nothing_need_be_held_out():
    X, y = load_iris(return_X_y=True)
    model = BoostedClassifier(7, validation_fraction=0, n_jobs=1, random_state=0).fit(X, y)
    assert model.best_iteration_ == 7
    assert model.history_ == {}
    assert model.estimated_accuracy_ is None


# ---- scikit-learn's conventions ------------------------------------------------------------------------------

EXEMPT = {
    "check_fit_score_takes_y": "the labels are called y_bar in the whole library: y is the truth, which nobody knows",
    "check_n_features_in_after_fitting": "it passes the labels to score by the name y",
    "check_sample_weight_equivalence_on_dense_data": "it passes the labels by the name y; a test of ours has the same",
    "check_sample_weight_equivalence_on_sparse_data": "the same",
}


def test_scikit_learn_checks():
    results = check_estimator(BoostedClassifier(3, n_jobs=1), expected_failed_checks=EXEMPT, on_skip=None)
    assert len(results) > 40
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == EXEMPT.keys()


def test_the_number_of_features_is_checked():
    X, y = load_iris(return_X_y=True)
    model = BoostedClassifier(3, n_jobs=1).fit(X, y)
    assert model.n_features_in_ == 4
    for method in (model.predict, model.predict_proba, lambda X: model.score(X, y)):
        with raises("X has 3 features, but BoostedClassifier is expecting 4"):
            method(X[:, :3])


def test_seed_sparse_missing_pickle_and_search():
    X, y = load_iris(return_X_y=True, as_frame=True)
    y_bar = complement(y, 3, random_state=0)
    model = BoostedClassifier(10, n_jobs=1, random_state=3).fit(X, y_bar)
    np.testing.assert_array_equal(model.feature_names_in_, X.columns)
    probabilities = model.predict_proba(X)
    np.testing.assert_array_equal(clone(model).fit(X, y_bar).predict_proba(X), probabilities)
    assert (clone(model).set_params(random_state=4).fit(X, y_bar).predict_proba(X) != probabilities).any()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), probabilities)
    sparse = csr_matrix(X.to_numpy())
    np.testing.assert_allclose(clone(model).fit(sparse, y_bar).predict_proba(sparse), probabilities)
    missing = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    assert (clone(model).fit(missing, y_bar).predict(missing) == y).mean() > 0.6
    search = GridSearchCV(model, {"n_estimators": [1, 5]}, cv=2).fit(X, y_bar)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def a_booster():
    return BoostedClassifier(n_estimators=8, random_state=0).fit(X_WINE, complement(Y_WINE, 3, random_state=0))


def test_what_is_saved_predicts_the_same_bits(tmp_path):
    names = np.array(["red", "white", "rose"])
    model = BoostedClassifier(n_estimators=20, transition=transition.uniform(3), random_state=0)
    model.fit(X_WINE, names[complement(Y_WINE, 3, random_state=0)])
    model.save(tmp_path / "model", extra={"label": "says"})
    for again in (BoostedClassifier.load(tmp_path / "model"), load_model(tmp_path / "model")):
        np.testing.assert_array_equal(again.predict_proba(X_WINE), model.predict_proba(X_WINE))
        np.testing.assert_array_equal(again.predict(X_WINE), model.predict(X_WINE))
        np.testing.assert_array_equal(again.history_["valid_loss"], model.history_["valid_loss"])
        assert again.estimated_accuracy_ == model.estimated_accuracy_
        assert again.best_iteration_ == model.best_iteration_
        assert again.extra_ == {"label": "says"}
    unsure = BoostedClassifier(n_estimators=3, validation_fraction=0.0, random_state=0).fit(X_WINE, Y_WINE)
    unsure.save(tmp_path / "model")
    assert BoostedClassifier.load(tmp_path / "model").estimated_accuracy_ is None


NODES, SIZES = "it holds a tree whose nodes point nowhere", "it holds a tree whose arrays do not fit each other"
NOT_ITS = "it holds a booster that LightGBM did not write"


@pytest.mark.parametrize(
    ("pattern", "instead", "words"),
    [
        (r"left_child=-?\d+", "left_child=99999", NODES),
        (r"left_child=-?\d+", "left_child=-99999", NODES),
        (r"left_child=-?\d+", "left_child=0", NODES),
        (r"split_feature=\d+", "split_feature=13", NODES),
        (r"decision_type=\d+", "decision_type=1", NODES),
        (r"leaf_value=\S+ ", "leaf_value=", SIZES),
        (r"num_leaves=\d+", "num_leaves=99", SIZES),
        (r"num_leaves=(\d+)", r"num_leaves=\1\nnum_leaves=\1", SIZES),
        (r"shrinkage=", "hidden=1\nshrinkage=", SIZES),
        (r"num_cat=0", "num_cat=1", "trees with sets of categories, or with linear leaves, are neither saved"),
        (r"is_linear=0", "is_linear=1", "trees with sets of categories, or with linear leaves, are neither saved"),
        (r"num_class=3", "num_class=4", NOT_ITS),
        (r"num_class=3", "num_class=3\nnum_class=9", NOT_ITS),
        (r"num_class=3", "num_class=3\nnum_class =9", NOT_ITS),
        (r"max_feature_idx=12\n", "", NOT_ITS),
        (r"\nTree=0", "\r\nTree=0", NOT_ITS),
        (r"feature_infos=.*", "", "cannot load the model at"),
    ],
)
def test_a_booster_that_would_read_outside_its_memory_is_refused(pattern, instead, words, tmp_path):
    model = a_booster()
    text = model.booster_.model_to_string()
    changed = re.sub(pattern, instead, text, count=1)
    assert changed != text
    write_estimator(tmp_path, model, None, booster_=np.frombuffer(changed.encode(), dtype=np.uint8))
    with raises(words):
        BoostedClassifier.load(tmp_path)


def test_the_places_of_the_trees_are_those_that_were_checked(tmp_path):
    """LightGBM would cut the text by a table of its own."""
    model = a_booster()
    text = re.sub("tree_sizes=.*", "tree_sizes=3 5 99999", model.booster_.model_to_string())
    write_estimator(tmp_path, model, None, booster_=np.frombuffer(text.encode(), dtype=np.uint8))
    again = BoostedClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(X_WINE), model.predict_proba(X_WINE))


def test_trees_that_would_not_load_are_not_saved(tmp_path):
    model = BoostedClassifier(n_estimators=3, parameters={"linear_tree": True}, random_state=0).fit(X_WINE, Y_WINE)
    with raises("trees with sets of categories, or with linear leaves, are neither saved nor loaded"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_parameters_reach_lightgbm():
    X, y = load_iris(return_X_y=True)
    model = BoostedClassifier(3, parameters={"max_depth": 1, "max_bin": 7, "bagging_freq": 0}, n_jobs=1).fit(X, y)
    assert model.booster_.params["max_bin"] == 7
    assert model.booster_.trees_to_dataframe()["node_depth"].max() == 2


# ---- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "y_bar", "words"),
    [
        ({"correction": "max"}, [0, 1, 2, 0], "must be one of forward, free, nonnegative, ascent; got 'max'"),
        ({"validation_fraction": 1.0}, [0, 1, 2, 0], "`validation_fraction` must be from 0 to below 1; got 1.0"),
        ({}, [0, 1, 2], "`X` and `y_bar` must have the same number of rows; got 4 and 3"),
        ({}, [2, 2, 2, 2], "at least 2 classes; got 1 class, 2"),
        ({}, np.zeros((4, 3)), "must rule out a class in at least one row; got none"),
        ({"transition": np.full((3, 3), 1 / 3)}, [0, 1, 2, 0], "`transition` must be invertible"),
        ({"random_state": "x"}, [0, 1, 2, 0], "`random_state` must be None"),
    ],
)
def test_errors(options, y_bar, words):
    with raises(words):
        BoostedClassifier(**options).fit(np.arange(4.0)[:, None], y_bar)


@pytest.mark.parametrize("X", [np.zeros((30, 2)), np.ones((30, 2)), csr_matrix((30, 2))], ids=["0", "1", "sparse"])
def test_features_must_vary(X):
    with raises("`X` must have a feature that varies; got none among 2"):
        BoostedClassifier(n_jobs=1).fit(X, np.arange(30) % 3)


def test_errors_of_the_objective():
    objective = complementary_objective([0, 1, 2], 3)
    with raises("a row for each of 3 labels and 3 columns; got shape (2, 3); pass num_class=3"):
        objective(np.zeros((2, 3)), None)
    with raises("the dataset must have no weights; got some"):
        objective(np.zeros((3, 3)), lightgbm.Dataset(np.zeros((3, 1)), weight=[1.0, 2.0, 1.0]))
    with raises("must hold classes 0 to 2; got 3 at row 1"):
        complementary_objective([0, 3], 3)


def test_without_lightgbm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with raises("needs LightGBM, which is not installed; install naysayer[boosting]", ImportError):
        BoostedClassifier().fit(np.arange(30.0)[:, None], np.arange(30) % 3)


# ---- weights of examples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("labels", LABELS)
def test_an_example_of_weight_m_pulls_as_m_examples(labels, correction):
    y_bar, q = LABELS[labels]
    times = np.random.default_rng(3).integers(0, 4, size=30)
    every = np.repeat(np.arange(30), times)
    scores = np.random.default_rng(2).normal(size=(30, 4))
    weighted = _complementary_objective(y_bar, 4, q, correction, times.astype(float))(scores, None)
    repeated = _complementary_objective(y_bar[every], 4, q, correction)(scores[every], None)
    for one, other in zip(weighted, repeated, strict=True):  # gradient and curvature
        summed = np.zeros_like(one)
        np.add.at(summed, every, other)
        np.testing.assert_allclose(one, summed, atol=1e-5)


def test_weights_train_and_choose():
    y_bar = complement(Y_WINE, 3, random_state=0)
    wrong = np.random.default_rng(0).random(178) < 0.4
    y_bar[wrong] = Y_WINE[wrong]
    model = BoostedClassifier(n_estimators=60, random_state=0)
    right = clone(model).fit(X_WINE, y_bar, sample_weight=np.where(wrong, 0, 2))
    assert (right.predict(X_WINE) == Y_WINE).mean() > 0.9
    assert (clone(model).fit(X_WINE, y_bar).predict(X_WINE) == Y_WINE).mean() < 0.8
    ones, none = (clone(model).fit(X_WINE, y_bar, sample_weight=w) for w in (np.ones(178), None))
    np.testing.assert_allclose(ones.predict_proba(X_WINE), none.predict_proba(X_WINE), atol=1e-6)
    assert ones.estimated_accuracy_ == pytest.approx(none.estimated_accuracy_, abs=0.02)
    with raises("`sample_weight` must be finite and not negative; got -1.0 at row 0"):
        model.fit(X_WINE, y_bar, sample_weight=np.full(178, -1.0))


def test_the_held_out_part_is_weighed_too():
    y_bar = complement(Y_WINE, 3, random_state=0)
    y_bar[::3] = Y_WINE[::3]  # wrong ones, so that it matters which rows weigh more
    weights = np.random.default_rng(0).random(178)
    model = BoostedClassifier(n_estimators=5, refit=False, random_state=0).fit(X_WINE, y_bar, sample_weight=weights)
    order = generator(0).permutation(178)  # as the model deals it
    held_out = order[: int(0.2 * 178)]
    found = model.history_["valid_accuracy"][model.best_iteration_ - 1], model.estimated_accuracy_.estimate
    for rows, estimate in zip((held_out[::2], held_out[1::2]), found, strict=True):
        predicted = model.predict(X_WINE[rows])
        assert estimate == pytest.approx(accuracy_score(y_bar[rows], predicted, 3, sample_weight=weights[rows]))
        assert estimate != pytest.approx(accuracy_score(y_bar[rows], predicted, 3))
