"""Any scikit-learn classifier, through its estimates of the label distribution P(not c | x)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from naysayer.labels import transition
from naysayer.labels.checks import check_weight
from naysayer.labels.drawing import RandomState, generator
from naysayer.labels.encoding import encode_labels
from naysayer.labels.kinds import is_ordinary
from naysayer.models.base import ComplementaryMixin
from naysayer.models.saving import read_estimator, write_estimator


class ReductionClassifier(ComplementaryMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learn from complementary labels with any classifier that estimates probabilities.

    The classifier learns to predict the *labels*, as an ordinary problem of K classes. Its estimates
    :math:`q(x)_c = P(\text{label} = c \mid x)` then determine the class posteriors, since :math:`q = \eta Q`:

    .. math:: \hat\eta(x) = \Pi\big(\hat q(x)\, Q^{-1}\big), \qquad
              \hat\eta(x)_k = \Pi\big(1 - (K-1)\, \hat q(x)_k\big) \text{ for uniform labels},

    where :math:`\Pi` is the projection onto the probability simplex. The class predicted is, for uniform labels, the
    one that is named least around x. What counts is how well `estimator` estimates probabilities, for their errors grow
    K - 1 times: prefer smooth ones (k-NN with many neighbours, forests with large leaves).

    Parameters
    ----------
    estimator : a classifier with `predict_proba`, or a pipeline that ends in one; it is cloned. If None, 500 extremely
        randomised trees with leaves of at least 5 examples, which are smoother than a forest's.
    classes : the K class values, see :func:`~naysayer.labels.encoding.encode_labels`; if None, those that occur in
        `y_bar`.
    transition : (K, K) matrix Q of the complementary labels, its rows and columns in the order of `classes_`; uniform
        if None.
    random_state : seeds what in `estimator` is random and not yet seeded, and the draw described below.

    Notes
    -----
    A row that rules out s classes becomes s rows of weight 1/s; an ordinary label "is y" becomes the rows "not c"
    of weight :math:`Q_{yc}`, the mean of the complementary labels it could have had. An estimator whose fit takes no
    `sample_weight` (k-NN) gets one of them, drawn with those probabilities. Rows that rule out nothing are left out.
    An ordinary label counts no more than another, though it says more: else answers to "is it c?" would be biased.

    Attributes
    ----------
    classes_ : (K,)
    estimator_ : the fitted classifier; its classes are indices into `classes_`.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> y_bar = (y + 1 + np.arange(150) % 2) % 3  # what each flower is not
    >>> model = ReductionClassifier(KNeighborsClassifier(20)).fit(X, y_bar)
    >>> model.predict(X[[0, 60, 120]])
    array([0, 1, 2])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        classes: ArrayLike | None = None,
        transition: ArrayLike | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.classes = classes
        self.transition = transition
        self.random_state = random_state

    def fit(self, X: Any, y_bar: Any, sample_weight: Any = None) -> ReductionClassifier:
        """Fit the classifier to the labels: (N, D), and (N,) class values or an (N, K) ruled-out matrix.

        `sample_weight` (N,) says how many times each example counts; `estimator` must take it.
        """
        rng = generator(self.random_state)
        estimator = self._seeded_clone(rng)
        validate_data(self, X, skip_check_array=True)
        labels, self.classes_ = encode_labels(y_bar, self.classes)
        X, labels = indexable(X, labels)
        times = None if sample_weight is None else check_weight(sample_weight, len(labels))
        n_classes = len(self.classes_)
        q = transition.uniform(n_classes) if self.transition is None else self.transition
        self._inverse = transition.inverse(q, n_classes)
        arguments: dict[str, NDArray[np.float64]] = {}
        weight_name = _weight_name(estimator)
        if times is not None and weight_name is None:
            name = type(estimator).__name__
            raise ValueError(f"`sample_weight` must be None, since {name} takes none; got some; repeat rows instead")
        if times is not None and labels.ndim == 1:
            rows = np.flatnonzero(times)
            X, labels, arguments[str(weight_name)] = _safe_indexing(X, rows), labels[rows], times[rows]
        if labels.ndim == 2:
            shares = label_shares(labels, None if self.transition is None else np.asarray(self.transition))
            if weight_name is None:
                shares = _draw(shares, rng)
            if times is not None:
                shares = shares * times[:, None]
            rows, labels = np.nonzero(shares)
            if len(rows) == 0:
                raise ValueError("`y_bar` must rule out a class in at least one row; got none")
            X, weights = _safe_indexing(X, rows), shares[rows, labels]
            if weight_name is not None and not (weights == 1).all():
                arguments[weight_name] = weights
        self.estimator_ = estimator.fit(X, labels, **arguments)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Estimate the class posteriors, (N, K)."""
        check_is_fitted(self)
        named = self.estimator_.predict_proba(X)
        q = np.zeros((len(named), len(self.classes_)))
        q[:, self.estimator_.classes_] = named
        return project_to_simplex(q @ self._inverse)

    def save(self, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None) -> None:
        """Save the fitted model into a folder: ``model.json`` and a safetensors file that it names. No pickle.

        The estimator must be one of scikit-learn's, or made of those; support vector machines with kernels, and the
        older gradient boosting, are not saved. `extra` is whatever JSON can hold; a loaded model has it as `extra_`.
        """
        check_is_fitted(self)
        write_estimator(path, self, extra)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReductionClassifier:
        """Load a saved model, which predicts the same bits as before. Loading runs no code from the file."""
        model = read_estimator(path, cls)
        if not hasattr(getattr(model, "estimator_", None), "predict_proba"):
            raise ValueError(f"cannot load the model at {path}: it has no estimator that predicts probabilities")
        return model

    def _seeded_clone(self, rng: np.random.Generator) -> Any:
        """Clone the estimator and seed what is not seeded in it."""
        if self.estimator is None:
            estimator: Any = ExtraTreesClassifier(500, min_samples_leaf=5)
        else:
            estimator = clone(self.estimator, safe=False)
        if isinstance(estimator, type) or not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"`estimator` must be a classifier with predict_proba; got {_kind(estimator)}; "
                f"wrap it in sklearn.calibration.CalibratedClassifierCV?"
            )
        parameters = estimator.get_params() if self.random_state is not None else {}
        unseeded = [k for k, v in sorted(parameters.items()) if k.split("__")[-1] == "random_state" and v is None]
        return estimator.set_params(**{key: int(rng.integers(2**31 - 1)) for key in unseeded})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(ExtraTreesClassifier() if self.estimator is None else self.estimator).input_tags
        tags.classifier_tags.poor_score = True  # scikit-learn's checks pass ordinary labels, which say here what is not
        return tags


def project_to_simplex(points: ArrayLike) -> NDArray[np.float64]:
    r"""Find the nearest probability vectors, :math:`\Pi(v) = \arg\min_{p \ge 0,\, \sum_k p_k = 1} \|p - v\|`.

    The answer is :math:`\max(v_k - t, 0)` with the t that makes it sum to 1, found by sorting.

    Parameters
    ----------
    points : (..., K)

    Returns
    -------
    (..., K)

    Examples
    --------
    >>> project_to_simplex([[0.5, 0.25, 0.25], [0.9, 0.5, -3.0]])
    array([[0.5 , 0.25, 0.25],
           [0.7 , 0.3 , 0.  ]])
    """
    points = np.asarray(points, dtype=np.float64)
    descending = -np.sort(-points, axis=-1)
    shifts = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, points.shape[-1] + 1)
    size = (descending > shifts).sum(axis=-1, keepdims=True)  # how many entries stay positive, at least 1
    return np.maximum(points - np.take_along_axis(shifts, size - 1, axis=-1), 0.0)


def label_shares(ruled_out: NDArray[np.bool_], q: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Turn a ruled-out matrix into shares of "not c" in each row, (N, K): 1/s for a set of s, Q[y] for "is y"."""
    size = ruled_out.sum(axis=1, keepdims=True)
    shares = ruled_out / np.maximum(size, 1)
    if q is None:  # if Q is uniform, the two agree
        return shares
    return np.where(is_ordinary(size, ruled_out.shape[1], known_transition=True), ~ruled_out @ q, shares)


def _draw(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw one label per row with the probabilities `shares`; rows of zeros stay as they are."""
    ends = np.cumsum(shares, axis=1)
    point = ends[:, -1:] * (1.0 - rng.random((len(shares), 1)))  # in (0, the last end]
    first = np.argmax(ends >= point, axis=1)
    drawn = (np.arange(shares.shape[1]) == first[:, None]) & (ends[:, -1:] > 0)
    return drawn.astype(np.float64)


def _kind(estimator: Any) -> str:
    return f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__


def _weight_name(estimator: Any) -> str | None:
    """Name the argument of fit that takes the weights, also through a pipeline; None where there is none."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        name = _weight_name(last)
        return None if name is None else f"{step}__{name}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None
