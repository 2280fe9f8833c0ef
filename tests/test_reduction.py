"""The reduction is exact where the label distribution is known, and good on the digits where it is learned."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from helpers import as_sets, assert_frequencies, every_way, is_rows, raises, random_transition
from naysayer import complement, transition
from naysayer.measure.metrics import accuracy_score
from naysayer.models.reduction import ReductionClassifier, _draw, label_shares, project_to_simplex


class Oracle(ClassifierMixin, BaseEstimator):
    """Knows the label distribution: its features are q(x). It keeps what it was fitted to."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.seen_ = (X, y, sample_weight)
        return self

    def predict_proba(self, X):
        return np.asarray(X)[:, self.classes_]


class Unweighted(Oracle):
    """An oracle whose fit takes no weights, as that of k-NN."""

    def fit(self, X, y):
        return super().fit(X, y)


def posteriors(n, n_classes, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.5), size=n)


# ---- the projection ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_projection_is_the_nearest_distribution(n_classes):
    rng = np.random.default_rng(n_classes)
    points = rng.normal(scale=3.0, size=(200, n_classes))
    nearest = project_to_simplex(points)
    assert (nearest >= 0).all()
    np.testing.assert_allclose(nearest.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(project_to_simplex(nearest), nearest, atol=1e-12)
    np.testing.assert_array_equal(nearest.argmax(axis=1), points.argmax(axis=1))
    np.testing.assert_allclose(project_to_simplex(points + 7.0), nearest, atol=1e-12)  # a shift of all changes nothing
    np.testing.assert_array_equal(project_to_simplex(points.reshape(2, 100, -1)).reshape(200, -1), nearest)
    others = np.concatenate([rng.dirichlet(np.full(n_classes, a), size=500) for a in (0.1, 1.0)] + [np.eye(n_classes)])
    distance = np.linalg.norm(points - nearest, axis=1)
    assert (distance[:, None] <= np.linalg.norm(points[:, None] - others, axis=2) + 1e-12).all()
    # A nearest point is one from which no direction into the simplex leads closer.
    assert ((points - nearest)[:, None] * (others - nearest[:, None])).sum(axis=2).max() < 1e-9


# ---- exactness -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("known", ["uniform", "biased", "noisy"])
def test_the_true_label_distribution_gives_the_true_posteriors(n_classes, known):
    q = {
        "uniform": transition.uniform(n_classes),
        "biased": random_transition(n_classes, 1),
        "noisy": random_transition(n_classes, 2, diagonal=0.1 / n_classes),
    }[known]
    eta = posteriors(50, n_classes)
    model = ReductionClassifier(Oracle(), transition=None if known == "uniform" else q)
    model.fit(eta @ q, np.arange(50) % n_classes)
    np.testing.assert_allclose(model.predict_proba(eta @ q), eta, atol=1e-12)
    np.testing.assert_array_equal(model.predict(eta @ q), eta.argmax(axis=1))


def test_a_class_that_no_label_names_can_be_predicted():
    eta = np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5]])
    q = eta @ np.array([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]])  # nobody ever asks for class 2
    model = ReductionClassifier(Oracle(), classes=["a", "b", "c"]).fit(q, ["b", "a"])
    np.testing.assert_array_equal(model.estimator_.classes_, [0, 1])
    probabilities = model.predict_proba(q)
    assert probabilities.shape == (2, 3)
    np.testing.assert_allclose(probabilities[0], project_to_simplex([0.0, 0.0, 1.0]))
    assert model.predict(q[:1]) == ["c"]


def test_of_two_classes_the_other_one_is_predicted():
    X = np.arange(40.0)[:, None]
    model = ReductionClassifier(DecisionTreeClassifier()).fit(X, np.where(X[:, 0] < 20, "low", "high"))
    np.testing.assert_array_equal(model.predict([[3.0], [30.0]]), ["high", "low"])


def test_renaming_the_classes_renames_the_predictions():
    X, y = load_iris(return_X_y=True)
    y_bar = complement(y, 3, random_state=0)
    names = np.array(["z", "a", "m"])
    plain = ReductionClassifier(KNeighborsClassifier(15)).fit(X, y_bar)
    renamed = ReductionClassifier(KNeighborsClassifier(15)).fit(X, names[y_bar])
    np.testing.assert_array_equal(renamed.classes_, ["a", "m", "z"])
    np.testing.assert_allclose(renamed.predict_proba(X)[:, [2, 0, 1]], plain.predict_proba(X))
    np.testing.assert_array_equal(renamed.predict(X), renamed.classes_[renamed.predict_proba(X).argmax(axis=1)])


# ---- sets and ordinary labels --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_rows_stand_for_the_labels_they_could_have_been(n_classes):
    """However labels come about, the expected shares of "not c" of class y are Q[y]: what the estimator learns."""
    for way, (observations, q) in every_way(n_classes).items():
        for y in range(n_classes):
            expected = np.zeros(n_classes)
            for probability, label in observations(y):
                row = np.atleast_2d(label) if np.ndim(label) else as_sets([label], n_classes)
                expected += probability * label_shares(row, q)[0]
            wanted = (transition.uniform(n_classes) if q is None else q)[y]
            np.testing.assert_allclose(expected, wanted, atol=1e-12, err_msg=f"{way}, class {y}")


def test_rows_are_repeated_with_their_weights():
    rows = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 1]], dtype=bool)
    X = np.arange(4)[:, None] + np.zeros((4, 4))
    seen, labels, weights = ReductionClassifier(Oracle()).fit(X, rows).estimator_.seen_
    np.testing.assert_array_equal(seen[:, 0], [0, 2, 2, 3, 3, 3])  # row 1 says nothing
    np.testing.assert_array_equal(labels, [0, 0, 1, 0, 2, 3])
    np.testing.assert_allclose(weights, [1, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3])
    q = transition.noisy(4, 0.1)
    _, labels, weights = ReductionClassifier(Oracle(), transition=q).fit(X, rows).estimator_.seen_
    np.testing.assert_array_equal(labels, [0, 0, 1, 0, 1, 2, 3])  # the ordinary label could have been any
    np.testing.assert_allclose(weights[3:], q[1])


def test_single_labels_in_a_matrix_are_single_labels():
    y_bar = np.array([2, 0, 1, 1])
    X = np.eye(4)[:, :3]
    _, labels, weights = ReductionClassifier(Oracle()).fit(X, as_sets(y_bar, 3)).estimator_.seen_
    np.testing.assert_array_equal(labels, y_bar)
    assert weights is None


def test_without_weights_one_label_is_drawn():
    n = 6000
    rows = np.tile([[True, True, False, False], [True, False, True, True], [False] * 4], (n, 1))
    X = np.arange(3 * n)[:, None] % 3 + np.zeros((3 * n, 4))
    models = [ReductionClassifier(Unweighted(), random_state=s).fit(X, rows) for s in (0, 0, 1)]
    seen, labels, weights = models[0].estimator_.seen_
    assert weights is None
    assert_frequencies(np.bincount(labels[seen[:, 0] == 0], minlength=4), [0.5, 0.5, 0, 0])
    assert_frequencies(np.bincount(labels[seen[:, 0] == 1], minlength=4), [1 / 3, 0, 1 / 3, 1 / 3])
    assert (seen[:, 0] < 2).all()
    np.testing.assert_array_equal(labels, models[1].estimator_.seen_[1])
    assert (labels != models[2].estimator_.seen_[1]).any()
    assert _draw(np.zeros((1, 3)), np.random.default_rng(0)).sum() == 0


def test_weights_reach_the_end_of_a_pipeline():
    X, y = load_iris(return_X_y=True)
    rows = complement(y, 3, n_labels=2, random_state=0)  # ordinary labels
    inside = ReductionClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(X, rows)
    outside = make_pipeline(StandardScaler(), ReductionClassifier(LogisticRegression())).fit(X, rows)
    np.testing.assert_allclose(inside.predict_proba(X), outside.predict_proba(X), atol=1e-6)
    assert (inside.predict(X) == y).mean() > 0.8
    drawn = ReductionClassifier(make_pipeline(StandardScaler(), KNeighborsClassifier(20)), random_state=0).fit(X, rows)
    assert (drawn.predict(X) == y).mean() > 0.8


def test_ordinary_labels_help():
    X, y = load_digits(return_X_y=True)
    y_bar = as_sets(complement(y, 10, random_state=0), 10)
    y_bar[:600] = is_rows(y[:600], 10)
    forest = RandomForestClassifier(100, min_samples_leaf=5)
    mixed = ReductionClassifier(forest, random_state=0).fit(X[:1200], y_bar[:1200])
    alone = ReductionClassifier(forest, random_state=0).fit(X[600:1200], y_bar[600:1200])
    accuracy = [(model.predict(X[1200:]) == y[1200:]).mean() for model in (mixed, alone)]
    assert accuracy[0] > 0.7
    assert accuracy[0] > accuracy[1] + 0.1


# ---- real data -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "at_least"),
    [(None, 0.72), (RandomForestClassifier(200, min_samples_leaf=5), 0.62), (KNeighborsClassifier(60), 0.74)],
    ids=["default", "random forest", "k-NN"],
)
def test_digits(estimator, at_least):
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    y_bar, test_bar = complement(y, 10, random_state=0), complement(y_test, 10, random_state=1)
    model = ReductionClassifier(estimator, random_state=0).fit(X, y_bar)
    accuracy = (model.predict(X_test) == y_test).mean()
    assert accuracy > at_least
    assert model.score(X_test, test_bar) == accuracy_score(test_bar, model.predict(X_test), 10)
    assert abs(model.score(X_test, test_bar) - accuracy) < 0.3  # its standard error is about 0.07


def test_noisy_labels_need_their_matrix():
    X, y = load_iris(return_X_y=True)
    q = random_transition(3, diagonal=0.6)  # most labels name the very class
    y_bar = complement(y, 3, transition=q, random_state=0)
    knn = KNeighborsClassifier(25)
    told = ReductionClassifier(knn, transition=q).fit(X, y_bar)
    assert (told.predict(X) == y).mean() > 0.75
    assert (told.predict(X) == y).mean() > (ReductionClassifier(knn).fit(X, y_bar).predict(X) == y).mean() + 0.5
    assert told.score(X, y_bar) == accuracy_score(y_bar, told.predict(X), 3, q)


def test_score_takes_rows_and_names():
    X, y = load_iris(return_X_y=True)
    names = np.array(["z", "a", "m"])
    y_bar = complement(y, 3, random_state=0)
    model = ReductionClassifier(KNeighborsClassifier(15), classes=names).fit(X, names[y_bar])
    assert model.score(X, names[y_bar]) == model.score(X, as_sets(y_bar, 3))
    assert model.score(X, is_rows(y, 3)) == pytest.approx((model.predict(X) == names[y]).mean())
    rows = np.repeat(np.arange(150), np.arange(150) % 4)
    weighted = model.score(X, names[y_bar], sample_weight=np.arange(150) % 4)
    assert weighted == pytest.approx(model.score(X[rows], names[y_bar[rows]]))
    with pytest.raises(ValueError, match="`sample_weight` must hold 150 numbers"):
        model.score(X, names[y_bar], sample_weight=[1.0])


# ---- scikit-learn's conventions ------------------------------------------------------------------------------

EXEMPT = {
    "check_fit_score_takes_y": "the labels are called y_bar in the whole library: y is the truth, which nobody knows",
    "check_n_features_in_after_fitting": "it passes the labels to score by the name y",
    "check_sample_weight_equivalence_on_dense_data": "it passes the labels by the name y; a test of ours has the same",
    "check_sample_weight_equivalence_on_sparse_data": "the same",
}


def test_scikit_learn_checks():
    for estimator in (ReductionClassifier(RandomForestClassifier(5)), ReductionClassifier(LogisticRegression())):
        results = check_estimator(estimator, expected_failed_checks=EXEMPT, on_skip=None)
        assert len(results) > 40
        assert {r["check_name"] for r in results if r["status"] == "xfail"} == EXEMPT.keys()


def test_the_number_of_features_is_checked():
    X, y = load_iris(return_X_y=True)
    model = ReductionClassifier(KNeighborsClassifier(5)).fit(X, y)
    assert model.n_features_in_ == 4
    for method in (model.predict, model.predict_proba, lambda X: model.score(X, y)):
        with raises("X has 3 features"):
            method(X[:, :3])


def test_frames_keep_their_names():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = ReductionClassifier(KNeighborsClassifier(20)).fit(X, is_rows(y, 3))
    np.testing.assert_array_equal(model.feature_names_in_, X.columns)
    np.testing.assert_array_equal(model.estimator_.feature_names_in_, X.columns)
    assert (model.predict(X) == y).mean() > 0.8


def test_sparse_features_pass_through():
    X, y = load_digits(return_X_y=True)
    rows = complement(y, 10, n_labels=3, random_state=0)
    dense, sparse = (
        ReductionClassifier(RandomForestClassifier(5), random_state=0).fit(x, rows) for x in (X, csr_matrix(X))
    )
    np.testing.assert_allclose(dense.predict_proba(X), sparse.predict_proba(csr_matrix(X)))


def test_texts_pass_through_to_a_pipeline():
    texts = ["a red rose", "a blue sea", "green grass", "red wine", "blue sky", "green tree"] * 10
    y = np.array(["red", "blue", "green"] * 20)
    y_bar = np.array(["red", "blue", "green"])[(np.arange(60) % 3 + 1 + np.arange(60) // 3 % 2) % 3]
    model = ReductionClassifier(make_pipeline(CountVectorizer(), MultinomialNB())).fit(texts, y_bar)
    np.testing.assert_array_equal(model.predict(texts), y)
    assert not hasattr(model, "n_features_in_")


def test_clone_search_and_pickle():
    X, y = load_iris(return_X_y=True)
    y_bar = complement(y, 3, random_state=0)
    model = ReductionClassifier(KNeighborsClassifier(3), classes=[0, 1, 2])
    assert clone(model).set_params(estimator__n_neighbors=7).estimator.n_neighbors == 7
    assert model.estimator.n_neighbors == 3
    search = GridSearchCV(model, {"estimator__n_neighbors": [1, 25]}, cv=3).fit(X, y_bar)
    assert search.best_params_ == {"estimator__n_neighbors": 25}
    restored = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(restored.predict(X), search.predict(X))
    assert not hasattr(model.estimator, "classes_")  # the one that was given is never fitted


def test_the_seed_reaches_the_estimator():
    X, y = load_iris(return_X_y=True)

    def probabilities(seed, estimator=None):
        return ReductionClassifier(estimator, random_state=seed).fit(X, y).predict_proba(X)

    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    np.testing.assert_array_equal(probabilities(3, forest), probabilities(3, forest))
    assert (probabilities(3, forest) != probabilities(4, forest)).any()
    seeded = RandomForestClassifier(5, random_state=0)
    np.testing.assert_array_equal(probabilities(3, seeded), probabilities(4, seeded))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    probabilities(5, forest)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("options", "y_bar", "words"),
    [
        ({"estimator": LinearSVC}, [0, 1, 2], "with predict_proba; got the class LinearSVC; wrap it"),
        ({"estimator": "svm"}, [0, 1, 2], "must be a classifier with predict_proba; got str; wrap it in"),
        ({"estimator": LinearSVC()}, [0, 1, 2], "must be a classifier with predict_proba; got LinearSVC; wrap it in"),
        ({}, [1, 1, 1], "at least 2 classes; got 1 class, 1"),
        ({}, np.zeros((3, 3), dtype=bool), "must rule out a class in at least one row; got none"),
        ({}, [0, 1], "inconsistent numbers of samples"),
        ({"transition": np.eye(2)}, [0, 1, 2], "`transition` must be (3, 3), one row per class; got (2, 2)"),
        ({"transition": np.full((3, 3), 1 / 3)}, [0, 1, 2], "`transition` must be invertible"),
        ({"classes": [0, 1]}, [0, 1, 2], "must hold the classes 0, 1; got 2 at row 2"),
        ({"random_state": "x"}, [0, 1, 2], "`random_state` must be None"),
    ],
)
def test_errors(options, y_bar, words):
    with raises(words):
        ReductionClassifier(**options).fit(pd.DataFrame({"x": [0.0, 1.0, 2.0]}), y_bar)


# ---- weights of examples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encode", ["classes", "rows"])
@pytest.mark.parametrize("q", [None, random_transition(3)], ids=["uniform", "biased"])
def test_an_example_of_weight_m_counts_as_m_examples(encode, q):
    X, y = load_iris(return_X_y=True)
    y_bar = complement(y, 3, random_state=0)
    if encode == "rows":
        y_bar = as_sets(y_bar, 3)
        y_bar[::4] = is_rows(y[::4], 3)
        y_bar[::7] = False
    times = np.random.default_rng(0).integers(0, 4, size=150)
    for estimator in (GaussianNB(), make_pipeline(StandardScaler(with_mean=False, with_std=False), GaussianNB())):
        model = ReductionClassifier(estimator, transition=q)
        plain = clone(model).fit(X, y_bar).predict_proba(X)
        weighted = clone(model).fit(X, y_bar, sample_weight=times).predict_proba(X)
        repeated = clone(model).fit(*(np.repeat(a, times, axis=0) for a in (X, y_bar))).predict_proba(X)
        np.testing.assert_allclose(weighted, repeated, atol=1e-6)
        assert np.abs(weighted - plain).max() > 1e-3


def test_weights_refused():
    X, y = load_iris(return_X_y=True)
    with raises("`sample_weight` must be None, since KNeighborsClassifier takes none; got some; repeat rows instead"):
        ReductionClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(150))
    with raises("`sample_weight` must hold 150 numbers, one per row of `y_bar`; got shape (3,)"):
        ReductionClassifier(GaussianNB()).fit(X, y, sample_weight=np.ones(3))
