"""Gradient boosted trees from complementary labels: LightGBM with an objective of its own (extra `boosting`)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from naysayer.common.checks import number
from naysayer.engine import process
from naysayer.labels import transition as transitions
from naysayer.labels.checks import check_labels, check_weight
from naysayer.labels.drawing import RandomState, generator
from naysayer.labels.encoding import encode_labels
from naysayer.labels.kinds import is_ordinary
from naysayer.measure.intervals import Interval, tail_probability, within
from naysayer.measure.sample import take
from naysayer.models.base import ComplementaryMixin, columns_named
from naysayer.models.crossfit import check_groups, others, shuffled
from naysayer.models.saving import read_estimator, write_estimator
from naysayer.objectives import Forward, GradientAscent, NonNegative, Objective, Unbiased

Floats = NDArray[np.float64]
TreeObjective = Callable[[Floats, Any], tuple[Floats, Floats]]

CORRECTIONS: dict[str, type[Objective]] = {
    "forward": Forward,
    "free": Unbiased,
    "nonnegative": NonNegative,
    "ascent": GradientAscent,
}


def complementary_objective(
    y_bar: ArrayLike, n_classes: int, transition: ArrayLike | None = None, correction: str = "forward"
) -> TreeObjective:
    r"""Make an objective for ``lightgbm.train`` from complementary labels: its gradient and curvature.

    The gradient is that of N times the objective of :mod:`naysayer.objectives` on all examples at once, so that the
    corrections see the class risks of the whole training set in every round. The true second derivatives are negative
    in places, and where they vanish the gradient does not, so Newton steps would blow up. Instead

    .. math:: h_{ij} = \tfrac{1}{K-1}\, p_{ij} (1 - p_{ij}) \quad\text{(forward)}, \qquad
              h_{ij} = (1 - p_{ij}) (K - 2 + p_{ij}) \quad\text{(the others)}.

    The former bounds the second derivative from above but for :math:`\frac{1}{K-1}`, the square root of the share of an
    ordinary label's information that a complementary one carries while nothing is learned; the latter is the
    variance, according to the model, of the weight :math:`W_{ij}` in the gradient :math:`p_{ij} - W_{ij}`. With a
    transition matrix or several labels per example, both are computed in the same way.

    Parameters
    ----------
    y_bar : (N,) classes or (N, K) ruled-out matrix, in the order of the training set's rows.
    n_classes : K; pass it to LightGBM too, as `num_class`.
    transition : (K, K) matrix Q of the complementary labels; uniform if None.
    correction : "forward", the likelihood of the labels; or the unbiased risk, "free", or corrected as "nonnegative" or
        "ascent". Prefer "forward": see :class:`BoostedClassifier`.

    Returns
    -------
    function (scores (N, K), dataset) → gradient (N, K), curvature (N, K)

    Examples
    --------
    >>> import lightgbm
    >>> x = np.repeat([0.0, 1.0, 2.0], 40)
    >>> y_bar = np.tile([1, 2, 2, 0, 0, 1], (20, 1)).T.ravel()  # class = x
    >>> objective = complementary_objective(y_bar, n_classes=3)
    >>> parameters = {"objective": objective, "num_class": 3, "verbose": -1}
    >>> booster = lightgbm.train(parameters, lightgbm.Dataset(x[:, None]), num_boost_round=10)
    >>> booster.predict([[0.0], [1.0], [2.0]]).argmax(axis=1)
    array([0, 1, 2])
    """
    return _complementary_objective(*check_labels(y_bar, n_classes), transition, correction)


def _complementary_objective(
    labels: NDArray[Any],
    n_classes: int,
    transition: ArrayLike | None,
    correction: str,
    sample_weight: Floats | None = None,
) -> TreeObjective:
    """Make the objective of labels and weights that were checked."""
    if correction not in CORRECTIONS:
        raise ValueError(f"`correction` must be one of {', '.join(CORRECTIONS)}; got {correction!r}")
    objective = CORRECTIONS[correction](n_classes, transition=transition)
    curvature = (_likelihood_curvature if correction == "forward" else _weight_curvature)(labels, n_classes, transition)
    times = np.ones(len(labels)) if sample_weight is None else sample_weight
    total = (times * (labels.any(axis=1) if labels.ndim == 2 else 1)).sum()
    weights = None if sample_weight is None else torch.tensor(sample_weight, dtype=torch.get_default_dtype())

    def gradient_and_curvature(scores: Floats, dataset: Any) -> tuple[Floats, Floats]:
        if scores.shape != (len(labels), n_classes):
            raise ValueError(
                f"the scores must have a row for each of {len(labels)} labels and {n_classes} columns; got shape "
                f"{scores.shape}; pass num_class={n_classes} and the same rows"
            )
        if dataset is not None and dataset.get_weight() is not None:
            raise ValueError("the dataset must have no weights; got some; repeat its rows instead")
        logits = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(objective.value(logits, torch.from_numpy(labels), weights), logits)
        h = curvature(torch.softmax(logits.detach(), dim=-1))
        h = h if weights is None else weights.unsqueeze(-1) * h
        # A sum of curvatures of exactly 0 would divide by zero in a leaf of examples that are all certain.
        return gradient.numpy() * total, h.clamp(min=1e-12).numpy()

    return gradient_and_curvature


class BoostedClassifier(ComplementaryMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosted trees learned from labels that say what examples are not; needs ``naysayer[boosting]``.

    LightGBM minimises :func:`complementary_objective`. How many rounds predict is chosen by the likelihood of held-out
    labels, which varies less than the accuracy estimated from so few of them.

    Parameters
    ----------
    n_estimators : rounds of boosting, of K trees each.
    learning_rate, num_leaves : as in LightGBM.
    correction : "forward", "free", "nonnegative" or "ascent", see :func:`complementary_objective`. Start with
        "forward"; the corrections see the whole training set at once, whose noise trees fit quickly.
    classes : the K class values, see :func:`~naysayer.labels.encoding.encode_labels`; if None, those that occur in
        `y_bar`.
    transition : (K, K) matrix Q of the complementary labels, its rows and columns in the order of `classes_`; uniform
        if None.
    validation_fraction : share of the labels held out, half to choose the number of rounds and half to judge; 0 takes
        all rounds.
    patience : how many rounds without a better held-out likelihood end the boosting.
    refit : boost once more, on all examples, for the chosen number of rounds.
    parameters : further parameters of LightGBM, by their main names. Unlike LightGBM's own, the defaults are
        ``extra_trees=True``, ``bagging_fraction=0.7``, ``bagging_freq=1``: splits at random thresholds, on part of the
        examples, keep the trees from fitting the noise in the labels.
    n_jobs : threads; None leaves their number to OpenMP.
    random_state : seed of the held-out part and the trees.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    booster_ : the ``lightgbm.Booster``.
    best_iteration_ : how many rounds predict.
    history_ : dict of (rounds,) arrays, "valid_loss" (Forward's, by which the rounds are chosen) and "valid_accuracy"
        (estimated); empty if nothing was held out.
    estimated_accuracy_ : (estimate, low, high) from the half of the held-out labels that did not choose the rounds;
        None if there are none. It is of the model before any refit, which learns from more.

    Examples
    --------
    >>> import naysayer
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> y_bar = naysayer.complement(y, n_classes=3, random_state=0)
    >>> model = BoostedClassifier(n_estimators=50, random_state=0).fit(X, y_bar)
    >>> bool((model.predict(X) == y).mean() > 0.9)
    True
    """

    def __init__(
        self,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        *,
        correction: str = "forward",
        classes: ArrayLike | None = None,
        transition: ArrayLike | None = None,
        validation_fraction: float = 0.2,
        patience: int = 50,
        refit: bool = True,
        parameters: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.correction = correction
        self.classes = classes
        self.transition = transition
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.refit = refit
        self.parameters = parameters
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y_bar: Any, sample_weight: Any = None, groups: Any = None) -> BoostedClassifier:
        """Learn from features (N, D), dense or sparse, and (N,) class values or an (N, K) ruled-out matrix.

        `sample_weight` (N,) says how many times each example counts, where rounds are chosen too; rows that have the
        same name in `groups` (N,) are about one example, and held out together.
        """
        X = self._take(X, reset=True)
        labels, self.classes_ = encode_labels(y_bar, self.classes)
        if len(labels) != X.shape[0]:
            raise ValueError(f"`X` and `y_bar` must have the same number of rows; got {X.shape[0]} and {len(labels)}")
        if not 0 <= number(self.validation_fraction) < 1:
            raise ValueError(f"`validation_fraction` must be from 0 to below 1; got {self.validation_fraction!r}")
        n_classes, rng = len(self.classes_), generator(self.random_state)
        times = None if sample_weight is None else check_weight(sample_weight, len(labels))
        says = labels.any(axis=1) if labels.ndim == 2 else np.ones(len(labels), dtype=bool)
        said = np.flatnonzero(says if times is None else says & (times > 0))
        if len(said) == 0:
            raise ValueError("`y_bar` must rule out a class in at least one row; got none")
        mask = np.zeros(len(labels), dtype=bool)
        mask[said] = True
        together = None if groups is None else check_groups(groups, mask)
        n_held_out = int(self.validation_fraction * len(said))
        held_out, rows = np.split(shuffled(rng, together, len(said)), [n_held_out])
        turn = np.arange(n_held_out)
        if together is not None:
            rows = others(rows, held_out, together)
            turn = np.unique(together[held_out], return_inverse=True)[1]
        held_out, rows = said[held_out], said[rows]
        choosing, judging = held_out[turn % 2 == 0], held_out[turn % 2 == 1]  # what chose the rounds cannot judge them
        if len(rows) == 0:
            raise ValueError("`groups` must leave rows to learn from when some are held out; leave it out")
        seed = int(rng.integers(2**31 - 1))
        self.history_: dict[str, Floats] = {}
        self.estimated_accuracy_: Interval | None = None
        self.booster_, record = self._boost(X, labels, times, np.sort(rows), choosing, self.n_estimators, seed)
        self.best_iteration_ = self.booster_.current_iteration()
        if n_held_out > 0:
            self.history_ = {name: np.array(values) for name, values in record["held out"].items()}
            self.best_iteration_ = self.booster_.best_iteration
            if len(judging) > 0:
                predicted = self._scores(X[judging]).argmax(axis=1)
                held = take(labels[judging], n_classes, self.transition, _at(times, judging), y_pred=predicted)
                sample, (predicted,) = held
                groups = None if together is None else turn[turn % 2 == 1]
                bounds = sample.accuracy_bounds(predicted, tail_probability(0.95), groups=groups)
                self.estimated_accuracy_ = within(*bounds)
            if self.refit:
                self.booster_, _ = self._boost(X, labels, times, said, held_out[:0], self.best_iteration_, seed)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Estimate the class posteriors, (N, K)."""
        check_is_fitted(self)
        scores = torch.from_numpy(self._scores(self._take(X, reset=False)))
        return np.asarray(torch.softmax(scores, dim=-1).numpy())

    def save(self, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None) -> None:
        """Save the fitted model into a folder: ``model.json`` and a safetensors file that it names. No pickle.

        `extra` is whatever JSON can hold; a loaded model has it as `extra_`.
        """
        check_is_fitted(self)
        text = booster_to_text(self.booster_, len(self.classes_))
        write_estimator(path, self, extra, booster_=np.frombuffer(text.encode(), dtype=np.uint8))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BoostedClassifier:
        """Load a saved model, which predicts the same bits as before. Loading runs no code from the file."""
        model = read_estimator(path, cls)
        try:
            model.booster_ = booster_from_text(model.booster_.tobytes().decode(), len(model.classes_))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"cannot load the model at {path}: {error}") from None
        return model

    def _take(self, X: Any, *, reset: bool) -> Any:
        """Check features; LightGBM takes sparse ones and missing values."""
        kinds = [np.float64, np.float32]
        with columns_named(X):
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=kinds, ensure_all_finite="allow-nan")
        return csr_matrix(X) if issparse(X) else X

    def _boost(
        self,
        X: Any,
        labels: NDArray[Any],
        times: Floats | None,
        rows: NDArray[Any],
        held_out: NDArray[Any],
        n_rounds: int,
        seed: int,
    ) -> tuple[Any, dict[str, dict[str, list[float]]]]:
        """Boost on `rows`, watching `held_out` where there are any; give the booster and what was seen."""
        lightgbm = _import_lightgbm()
        if (_dense(X[rows].min(axis=0)) == _dense(X[rows].max(axis=0))).all():
            raise ValueError(f"`X` must have a feature that varies; got none among {X.shape[1]}")
        n_classes = len(self.classes_)
        parameters = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": min(20, max(1, len(rows) // 5)),
            "extra_trees": True,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "num_threads": self.n_jobs or 0,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "feature_pre_filter": False,
            "verbose": -1,
        } | (self.parameters or {})
        train = lightgbm.Dataset(X[rows], params=parameters).construct()
        watched: dict[str, Any] = {}
        record: dict[str, dict[str, list[float]]] = {}
        if len(held_out) > 0:
            watched = {
                "valid_sets": [train.create_valid(X[held_out], params=parameters)],
                "valid_names": ["held out"],
                "feval": _held_out_scores(labels[held_out], n_classes, self.transition, _at(times, held_out)),
                "callbacks": [
                    lightgbm.record_evaluation(record),
                    lightgbm.early_stopping(self.patience, first_metric_only=True, verbose=False),
                ],
            }
        objective = _complementary_objective(
            labels[rows], n_classes, self.transition, self.correction, _at(times, rows)
        )
        parameters |= {"objective": objective, "num_class": n_classes}
        with process.threads():
            if len(rows) * n_classes < 500_000:  # LightGBM's threads and torch's would keep replacing each other
                torch.set_num_threads(1)
            return lightgbm.train(parameters, train, n_rounds, **watched), record

    def _scores(self, X: Any) -> Floats:
        """Give the K scores of each row, (N, K)."""
        scores = self.booster_.predict(
            X, num_iteration=self.best_iteration_, raw_score=True, num_threads=self.n_jobs or 0
        )
        return np.asarray(scores, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.classifier_tags.poor_score = True  # scikit-learn's checks pass ordinary labels, which say here what is not
        return tags


def _dense(X: Any) -> Floats:
    """Give an array of what may be sparse."""
    return np.asarray(X.toarray() if issparse(X) else X)


def _likelihood_curvature(labels: NDArray[Any], n_classes: int, q: ArrayLike | None) -> Callable[[Tensor], Tensor]:
    r"""Curvature for the likelihood: p (1 - p), scaled by :math:`\sqrt{\text{information} / (K - 1)}` of a label.

    At p = 1/K a label has :math:`p_j^2 (\sum_c Q_{jc}^2 / q_c - 1)` of Fisher information on the score of class j. The
    bracket is K - 1 for an ordinary label, 1 / (K - 1) for a complementary one and s / (K - s) for a set of s.
    """
    size = _sizes(labels)
    if q is None:
        information = size / (n_classes - size)
    else:
        information = torch.full_like(size, float(np.square(q).sum()) - 1)
        information[is_ordinary(size, n_classes, known_transition=True)] = n_classes - 1
    scale = (information / (n_classes - 1)).sqrt()
    return lambda p: scale * p * (1 - p)


def _weight_curvature(labels: NDArray[Any], n_classes: int, q: ArrayLike | None) -> Callable[[Tensor], Tensor]:
    r"""Curvature for the unbiased risk: the variance of a label's weight, :math:`\sum_c q_c (Q^{-1})_{cj}^2 - p_j^2`.

    For a set of s uniform labels that is :math:`(1 - p_j) (\frac{K - 1}{s} - 1 + p_j)`; for an ordinary one p (1 - p).
    """
    size = _sizes(labels)
    if q is None:
        excess = (n_classes - 1) / size.clamp(min=1) - 1
        return lambda p: (1 - p) * (excess + p)
    ordinary = is_ordinary(size, n_classes, known_transition=True)
    second_moment = torch.from_numpy(np.asarray(q, dtype=np.float64) @ transitions.inverse(q, n_classes) ** 2)
    return lambda p: torch.where(ordinary, p, p @ second_moment) - p**2


def _sizes(labels: NDArray[Any]) -> Tensor:
    """Count the classes that each row rules out, (N, 1)."""
    size = labels.sum(axis=1, keepdims=True) if labels.ndim == 2 else np.ones((len(labels), 1))
    return torch.from_numpy(size.astype(np.float64))


def _at(times: Floats | None, rows: NDArray[Any]) -> Floats | None:
    """The weights of some rows, where there are weights."""
    return None if times is None else times[rows]


def _held_out_scores(
    labels: NDArray[Any], n_classes: int, q: ArrayLike | None, sample_weight: Floats | None
) -> Callable[[Floats, Any], Any]:
    """Make the function that LightGBM calls on the held-out part after each round."""
    forward = Forward(n_classes, q)
    sample, _ = take(labels, n_classes, q, sample_weight)
    weights = None if sample_weight is None else torch.tensor(sample_weight, dtype=torch.get_default_dtype())

    def evaluate(scores: Floats, _: Any) -> list[tuple[str, float, bool]]:
        logits = torch.from_numpy(np.ascontiguousarray(scores))
        loss = float(forward.value(logits, torch.from_numpy(labels), weights))
        return [("valid_loss", loss, False), ("valid_accuracy", sample.accuracy(scores.argmax(axis=1)), True)]

    return evaluate


def booster_to_text(booster: Any, n_classes: int) -> str:
    """Give LightGBM's trees as text."""
    return _checked_booster(booster.model_to_string(num_iteration=-1), n_classes)


def booster_from_text(text: str, n_classes: int) -> Any:
    """Give the booster of such a text, which may come from a stranger."""
    lightgbm = _import_lightgbm()
    try:
        return lightgbm.Booster(model_str=_checked_booster(text, n_classes))
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(str(error)) from None


def _checked_booster(text: str, n_classes: int) -> str:
    """Check that every path through LightGBM's trees ends at a leaf, since its reader and its predictions trust them.

    What is left out of the text is the table of the trees' places in it, without which LightGBM reads them as here.
    """
    header, *trees = text.split("\nTree=")
    known = dict(line.split("=", 1) for line in header.split("\n") if "=" in line)
    sizes = [known.get(name, "") for name in ("num_class", "num_tree_per_iteration")]
    ours = sizes == [str(n_classes)] * 2 and known.get("max_feature_idx", "").isdigit() and "\r" not in text
    if not ours or len(known) != header.count("=") or not all(name.isidentifier() for name in known):
        raise ValueError("it holds a booster that LightGBM did not write")
    for tree in trees:
        _check_tree(tree.partition("\n\n")[0].split("\n")[1:], int(known["max_feature_idx"]) + 1)
    return "\n".join(line for line in text.split("\n") if not line.startswith("tree_sizes="))


def _check_tree(lines: list[str], n_features: int) -> None:
    """Check one tree, "name=values" in each of its lines."""
    fields = dict(line.split("=", 1) for line in lines if line.count("=") == 1)
    if fields.get("num_cat") != "0" or fields.get("is_linear", "0") != "0":
        raise ValueError("trees with sets of categories, or with linear leaves, are neither saved nor loaded")
    n_leaves = int(fields["num_leaves"])
    sizes = dict.fromkeys(("num_leaves", "num_cat", "is_linear", "shrinkage"), 1)
    sizes |= {f"leaf_{what}": n_leaves for what in ("value", "weight", "count")}
    inner = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
    sizes |= dict.fromkeys((*inner, "internal_value", "internal_weight", "internal_count"), n_leaves - 1)
    needed = {"num_leaves", "num_cat", "leaf_value", *inner}
    wrong = [name for name, values in fields.items() if len(values.split()) not in (sizes.get(name), 0)]
    short = [name for name in needed if len(fields.get(name, "").split()) != sizes[name]]
    if len(fields) != len(lines) or n_leaves < 1 or wrong or short:
        raise ValueError("it holds a tree whose arrays do not fit each other")
    names = ("left_child", "right_child", "split_feature", "decision_type")
    left, right, feature, kind = (np.array(fields[name].split(), dtype=np.int64) for name in names)
    children, place = np.stack([left, right]), np.arange(n_leaves - 1)
    ends = (children < 0) & (~children < n_leaves) | (children > place) & (children < n_leaves - 1)
    if not ends.all() or not ((feature >= 0) & (feature < n_features) & (kind & 1 == 0)).all():
        raise ValueError("it holds a tree whose nodes point nowhere")


def is_available() -> bool:
    """Whether LightGBM is installed."""
    return importlib.util.find_spec("lightgbm") is not None


def _import_lightgbm() -> Any:
    """Import LightGBM where it is needed, or say how to get it."""
    try:
        import lightgbm
    except ImportError:
        raise ImportError(
            "BoostedClassifier needs LightGBM, which is not installed; install naysayer[boosting]"
        ) from None
    return lightgbm
