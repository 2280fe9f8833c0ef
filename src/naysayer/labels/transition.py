r"""How labels came to be observed: the transition matrix Q, :math:`Q_{yc} = P(\text{label} = c \mid \text{class} = y)`.

Rows are true classes and sum to 1. A zero diagonal means that labels never err; Q must be invertible for
the unbiased estimates, since a label c then weighs the classes by row c of :math:`Q^{-1}`.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlogy

from naysayer.common.checks import number
from naysayer.labels.checks import check_classes, check_n_classes, check_transition

__all__ = [
    "LARGEST_COST",
    "MODELS",
    "Estimated",
    "biased",
    "cost",
    "estimate",
    "inverse",
    "noisy",
    "uniform",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MODELS = ("noisy", "biased", "both", "free")
HIGH_COST = 50.0  # beyond this one is told: 10,000 labels then give an accuracy of 10 classes within 40 points
LARGEST_COST = 1e5  # beyond this no number of labels that anybody has means anything

_STRENGTHS: Floats = 2.0 ** np.arange(
    13, dtype=np.float64
)  # among which evidence chooses: from free rows to hardly any freedom
_FACTOR = 10.0  # by which evidence for a free matrix must exceed that for few parameters
_ROUNDS = 30  # of Gibbs sampling; each chain starts near the middle of what it samples


def uniform(n_classes: int) -> NDArray[np.float64]:
    """Every class but the true one is equally likely: the paper's assumption.

    Examples
    --------
    >>> uniform(3)
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    n_classes = check_n_classes(n_classes)
    return (1.0 - np.eye(n_classes)) / (n_classes - 1)


def biased(weights: ArrayLike) -> NDArray[np.float64]:
    """Some wrong classes are named more often than others; the true one never is.

    Parameters
    ----------
    weights : (K,) how often each class is asked about ("is it c?", answered no), the same for every
        example; or (K, K), row y for examples of class y. Rows need not sum to 1; the diagonal is ignored.

    Examples
    --------
    >>> biased([2, 1, 1])  # class 0 is asked about twice as often
    array([[0.        , 0.5       , 0.5       ],
           [0.66666667, 0.        , 0.33333333],
           [0.66666667, 0.33333333, 0.        ]])
    """
    try:
        w = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("`weights` must be (K,) or (K, K) numbers; got something else") from None
    if w.ndim == 1:
        w = np.tile(w, (len(w), 1))
    if w.ndim != 2 or w.shape[0] != w.shape[1] or len(w) < 2:
        raise ValueError(f"`weights` must have shape (K,) or (K, K) with K at least 2; got {np.shape(weights)}")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ValueError("`weights` must be finite and not negative")
    w = w * (1.0 - np.eye(len(w)))
    total = w.sum(axis=1, keepdims=True)
    if (total == 0).any():
        raise ValueError(f"`weights` must leave each class a label to draw; class {int(np.argmin(total))} has none")
    return w / total


def noisy(n_classes: int, rate: float, base: ArrayLike | None = None) -> NDArray[np.float64]:
    """Labels are sometimes wrong: with probability `rate` the label names the true class itself.

    .. math:: Q = (1 - \\text{rate})\\, Q_{\\text{base}} + \\text{rate}\\, I

    Parameters
    ----------
    n_classes : K
    rate : from 0 to 1. At 1/K with a uniform base, labels carry no information and Q is singular.
    base : Q of the labels that do not err; uniform if None.

    Examples
    --------
    >>> noisy(3, 0.1)
    array([[0.1 , 0.45, 0.45],
           [0.45, 0.1 , 0.45],
           [0.45, 0.45, 0.1 ]])
    """
    if not 0 <= number(rate) <= 1:
        raise ValueError(f"`rate` must be from 0 to 1; got {rate!r}")
    q = uniform(n_classes) if base is None else check_transition(base, n_classes)
    return (1.0 - rate) * q + rate * np.eye(n_classes)


class Estimated(np.ndarray):
    r"""A matrix Q that was estimated from pairs (:func:`estimate`): every interval that uses it widens accordingly.

    It is an array like any other, and its copies are such estimates too; what is computed from it, as ``Q[0]`` or
    ``2 * Q``, is plain. A model saved with it keeps the counts.

    Attributes
    ----------
    counts : (K, K) how many pairs had true class y and label c.
    model : the fit that was chosen, one of `MODELS`.
    choice : what was asked for: "auto", where the choice is itself uncertain, or the model.
    strength : how many examples per row the fit with few parameters counts for in a free matrix; None in the others.
    """

    counts: Ints
    model: str
    choice: str
    strength: float | None

    def __new__(
        cls, matrix: ArrayLike, counts: ArrayLike, model: str, choice: str, strength: float | None
    ) -> Estimated:
        """Join a matrix with what it was estimated from."""
        made = np.array(matrix, dtype=np.float64).view(cls)
        made.counts = np.array(counts, dtype=np.int64)
        made.model, made.choice, made.strength = model, choice, strength
        return made

    def draws(self, size: int, random_state: int | np.random.Generator = 0) -> Floats:
        r"""Draw matrices that the pairs leave possible, (size, K, K), from their posterior distribution.

        A row is :math:`Q_y \sim \text{Dirichlet}(n_y + \tau B_y)` for a strength :math:`\tau` and a matrix B of few
        parameters, both drawn in turn: :math:`\tau` and whether B is biased by their likelihood alone, since few pairs
        cannot show that a matrix is simple; the error rate of B from a beta distribution; its weights by Gibbs sampling
        [1]_, from counts discounted by what rows of strength :math:`\tau` vary by themselves. Where a model of few
        parameters was asked for, Q is B itself.

        References
        ----------
        .. [1] Caron and Doucet (2012), Efficient Bayesian inference for generalized Bradley-Terry models. Journal of
           Computational and Graphical Statistics 21.
        """
        rng = np.random.default_rng(random_state)
        tau, uneven = self._priors(size, rng)
        pairs = self.counts.sum(axis=1)
        with np.errstate(invalid="ignore"):  # of an infinite strength
            worth = np.where(np.isinf(tau)[:, None], 1.0, np.minimum(1.0, (1 + tau[:, None]) / (pairs + tau[:, None])))
        wrong, right = np.diag(self.counts), self.counts * (1 - np.eye(len(self), dtype=np.int64))
        rate = np.zeros(size)
        if self.choice != "biased":
            rate = rng.beta(worth @ wrong + 0.5, (worth * right.sum(axis=1)).sum(axis=1) + 0.5)
        weights = np.ones((size, len(self)))
        if uneven.any():
            weights[uneven] = _draw_weights(worth[uneven] @ right, (worth * right.sum(axis=1))[uneven], rng)
        around = _few(weights, rate)
        free = np.isfinite(tau)
        shapes = self.counts + tau[free, None, None] * around[free]
        around[free] = np.maximum(rng.standard_gamma(shapes), 1e-12)  # a column of zeros would have no inverse at all
        return np.asarray(around / around.sum(axis=2, keepdims=True))

    @cached_property
    def inverses(self) -> Floats:
        """Inverses of such draws, as many as take little time and memory: (B, K, K)."""
        return np.asarray(np.linalg.inv(self.draws(int(np.clip(1e6 / self.size, 100, 1000)))))

    def _priors(self, size: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """Draw the strengths, infinite for few parameters, and whether the weights of the classes are uneven."""
        if self.choice in ("noisy", "biased", "both"):
            return np.full(size, np.inf), np.full(size, self.choice != "noisy")
        fits = [fit for fit in _fits(self.counts) if fit.model in ("noisy", "both")]
        strengths = _STRENGTHS
        if self.choice == "free" and self.strength not in strengths:  # it was given: nothing to choose
            strengths = np.array([max(self.strength or 0.0, 1e-9)])
        likelihood = np.array([[fit.freed(self.counts, tau) for tau in strengths] for fit in fits])
        chances = np.exp(likelihood - likelihood.max()).ravel()
        which = rng.choice(len(chances), size=size, p=chances / chances.sum())
        return strengths[which % len(strengths)], which >= len(strengths)

    def to_json(self) -> dict[str, Any]:
        """What :meth:`from_json` makes the same estimate of, as JSON has it."""
        told = {name: getattr(self, name) for name in ("model", "choice", "strength")}
        return {"matrix": self.tolist(), "counts": self.counts.tolist()} | told

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Estimated:
        """Take up what :meth:`to_json` gave."""
        made = cls(**{name: told[name] for name in ("matrix", "counts", "model", "choice", "strength")})
        check_transition(made)
        if made.counts.shape != made.shape or (made.counts < 0).any():
            raise ValueError(f"`counts` must be those of pairs, {made.shape}; got {made.counts.tolist()}")
        if made.model not in MODELS or made.choice not in ("auto", *MODELS):
            raise ValueError(
                f"`model` must be one of {', '.join(MODELS)}; got {made.model!r}, chosen by {made.choice!r}"
            )
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if as_estimated(self) is None:
            return np.asarray(self).__reduce__()  # type: ignore[return-value]
        return Estimated, (np.asarray(self), self.counts, self.model, self.choice, self.strength)

    def copy(self, order: Any = "C") -> Any:
        """Copy the estimate with all that it carries; of a view of it, such as its transpose, the plain numbers."""
        if as_estimated(self) is None:
            return np.asarray(self).copy(order)
        made, arguments = self.__reduce__()
        return made(*arguments)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else np.asarray(array)


def as_estimated(transition: Any) -> Estimated | None:
    """Give a matrix that was estimated; None for any other, also for a view that has lost its pairs, as ``Q.T``."""
    return transition if isinstance(transition, Estimated) and hasattr(transition, "counts") else None


def estimate(
    y_bar: ArrayLike, y_true: ArrayLike, n_classes: int, *, model: str = "auto", strength: float | None = None
) -> Estimated:
    r"""Estimate Q from a small set of examples that have both kinds of label.

    ==========  ==============================================================================  ============
    model       Q                                                                                parameters
    ==========  ==============================================================================  ============
    "noisy"     :func:`noisy` with one rate over uniform labels; at rate 0 these themselves      1
    "biased"    :func:`biased` with one weight per class; the true one is never named            K - 1
    "both"      :func:`noisy` over :func:`biased`                                                K
    "free"      :math:`\hat Q_{yc} = (n_{yc} + \text{strength}\, B_{yc}) / (n_y + \text{strength})`,   K (K - 1)
                B being the best of the three above
    "auto"      the one that the pairs are the best evidence for: by BIC among the three, and free
                if its marginal likelihood, averaged over strengths from 1 to 4096, is tenfold
    ==========  ==============================================================================  ============

    Use examples set aside for this, not the training set: it has no true labels. A free matrix takes many: with 10
    classes and 200 pairs its inverse says next to nothing, and the intervals say so (:class:`Estimated`).

    Parameters
    ----------
    y_bar : (N,) complementary labels.
    y_true : (N,) true classes of the same examples.
    n_classes : K
    model : one of the names above. A name but "auto" is taken as known to be true: if labels may err in a way that the
        model excludes, intervals miss it.
    strength : how many examples B counts for in each row of a free matrix, which it makes of "auto"; 0 gives the plain
        frequencies. None: as the evidence has it.

    Returns
    -------
    (K, K) array that carries the counts of the pairs, an :class:`Estimated`.

    Examples
    --------
    >>> q = estimate([1, 2, 0, 2, 0, 1, 1, 2, 0, 0], [0, 0, 1, 1, 2, 2, 0, 0, 1, 2], n_classes=3)
    >>> q.model, q.counts
    ('noisy', array([[0, 2, 2],
           [2, 0, 1],
           [2, 1, 0]]))
    >>> q.round(3)  # so few pairs are no evidence against uniform labels
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    n_classes = check_n_classes(n_classes)
    labels = check_classes(y_bar, n_classes, name="y_bar")
    truth = check_classes(y_true, n_classes, name="y_true")
    if len(labels) != len(truth):
        raise ValueError(f"`y_bar` and `y_true` must have the same length; got {len(labels)} and {len(truth)}")
    if model not in ("auto", *MODELS):
        raise ValueError(f"`model` must be 'auto' or one of {', '.join(map(repr, MODELS))}; got {model!r}")
    if strength is not None and model not in ("auto", "free"):
        raise ValueError(f"`strength` is for a free matrix; the model {model!r} has none; leave it out")
    if strength is not None and not strength >= 0:
        raise ValueError(f"`strength` must not be negative; got {strength}")
    counts = np.bincount(truth * n_classes + labels, minlength=n_classes**2).reshape(n_classes, n_classes)
    if model == "biased" and np.trace(counts) > 0:
        raise ValueError(
            f"labels of the model 'biased' must never name the true class; {np.trace(counts)} of {len(labels)} do; "
            f"take 'both' or 'auto'"
        )
    choice = model if strength is None else "free"
    fits = (fit for fit in _fits(counts) if choice in ("auto", "free", fit.model))
    best = max(fits, key=lambda fit: fit.likelihood - fit.penalty)
    tau = strength
    if tau is None and choice in ("auto", "free"):
        likelihood = np.array([best.freed(counts, tau) for tau in _STRENGTHS])
        if choice == "free" or logsumexp(likelihood) - np.log(len(_STRENGTHS)) > best.likelihood + np.log(_FACTOR):
            tau = float(_STRENGTHS[likelihood.argmax()])
    if tau is None:
        return Estimated(best.matrix, counts, best.model, choice, None)
    rows = counts.sum(axis=1, keepdims=True) + tau
    if (rows == 0).any():
        raise ValueError(
            f"each class must occur in `y_true` when strength is 0; class {int(np.argmin(rows))} does not; "
            f"pass strength=1"
        )
    return Estimated((counts + tau * best.matrix) / rows, counts, "free", choice, float(tau))


class _Fit(NamedTuple):
    """A matrix of few parameters, fitted to counts, its log-likelihood, and what BIC takes off that."""

    model: str
    matrix: Floats
    likelihood: float
    penalty: float

    def freed(self, counts: Ints, tau: float) -> float:
        """Log-likelihood of rows that vary around the matrix with this strength: a Dirichlet-multinomial's."""
        shapes = tau * self.matrix
        if (counts[shapes == 0] > 0).any():
            return -np.inf
        possible = shapes > 0
        rows = gammaln(tau) - gammaln(counts.sum(axis=1) + tau)
        cells = gammaln((counts + shapes)[possible]) - gammaln(shapes[possible])
        return float(rows.sum() + cells.sum())


def _fits(counts: Ints) -> list[_Fit]:
    """Fit the matrices of few parameters."""
    n_classes, n = len(counts), counts.sum()
    right = counts * (1 - np.eye(n_classes, dtype=np.int64))
    rate = np.trace(counts) / n
    equal, weights = np.ones(n_classes), _fit_weights(right.sum(axis=0), right.sum(axis=1))
    found = []
    for model, w, e, size in (
        ("noisy", equal, rate, 1),
        ("biased", weights, 0.0, n_classes - 1),
        ("both", weights, rate, n_classes),
    ):
        matrix, penalty = _few(w, np.array(e)), 0.5 * size * float(np.log1p(n))
        found.append(_Fit(model, matrix, float(xlogy(counts, matrix).sum()), penalty))
    return found


def _few(weights: Floats, rate: Floats) -> Floats:
    """Give noisy matrices over biased ones: (..., K) weights, (...) rates → (..., K, K)."""
    eye = np.eye(weights.shape[-1])
    base = weights[..., None, :] * (1.0 - eye)
    base /= base.sum(axis=-1, keepdims=True)
    return np.asarray((1.0 - rate[..., None, None]) * base + rate[..., None, None] * eye)


def _fit_weights(named: Ints, pairs: Ints) -> Floats:
    """Fit how often each class is asked about to how often it was named (K,), and to the pairs of each class (K,)."""
    weights = np.ones(len(named))
    for _ in range(500):  # the mean of each Gibbs step below
        share = pairs / (weights.sum() - weights)
        weights = (named + 1.0) / (share.sum() - share + 1.0)
    return np.asarray(weights / weights.sum())


def _draw_weights(named: Floats, pairs: Floats, rng: np.random.Generator) -> Floats:
    """Draw such weights from their posterior, one chain per row: (size, K), (size, K) → (size, K)."""
    weights = np.tile(_fit_weights(named.mean(axis=0), pairs.mean(axis=0)), (len(named), 1))
    for _ in range(_ROUNDS):
        rest = np.maximum(weights.sum(axis=1, keepdims=True) - weights, 1e-300)
        share = rng.standard_gamma(pairs) / rest
        weights = rng.standard_gamma(named + 1.0) / (share.sum(axis=1, keepdims=True) - share + 1.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def cost(transition: ArrayLike, n_classes: int | None = None) -> float:
    r"""How many times more labels than uniform ones an estimate of the same precision takes, by its mean squares.

    .. math:: \sum_{yck} Q_{yc}\, (Q^{-1}_{ck})^2 \Big/ \text{the same sum for uniform labels}

    It is infinite where Q is singular, and below 1 where labels tell more than uniform ones.

    Examples
    --------
    >>> cost(uniform(10)), round(cost(noisy(10, 0.05)), 1)
    (1.0, 4.0)
    """
    q = check_transition(transition, n_classes)
    if not np.linalg.cond(q) < 1e12:
        return np.inf
    k = len(q)
    return round(float((q @ np.linalg.inv(q) ** 2).sum()) / (k * (1 + (k - 1) * (k - 2))), 9)


def inverse(transition: Any, n_classes: int | None = None) -> NDArray[np.float64]:
    r"""Invert Q, whose row c then holds the unbiased weights of the label c.

    .. math:: \sum_c Q_{yc}\, (Q^{-1})_{ck} = [k = y]

    A Q of whose labels it takes more than 50 times as many as of uniform ones (:func:`cost`) gives a warning; one that
    is singular, or takes 100,000 times as many, is refused.

    Examples
    --------
    >>> inverse(uniform(3)).round(6) + 0.0
    array([[-1.,  1.,  1.],
           [ 1., -1.,  1.],
           [ 1.,  1., -1.]])
    """
    q = check_transition(transition, n_classes)
    times = cost(q)
    if not times <= LARGEST_COST:
        raise ValueError(
            f"`transition` must be invertible to give unbiased estimates; its condition number is "
            f"{np.linalg.cond(q):.3g}, and {LARGEST_COST:,.0f} of its labels tell less than a single uniform one; such "
            f"labels say too little about the classes"
        )
    if times > HIGH_COST:
        warnings.warn(
            f"labels of this transition matrix say little: it takes {float(f'{times:.2g}'):,.0f} times as many as of "
            f"uniform ones, and estimates may be far off",
            stacklevel=3,
        )
    return np.asarray(np.linalg.inv(q), dtype=np.float64)
