"""What a classifier is pooled from: runs of a network, a forest, boosted trees, neighbours; each gives probabilities.

A member is trained together with its probabilities of rows that it did not learn from, (R, N, K), as
:class:`~naysayer.models.pooling.HeldOut` takes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, diags
from scipy.special import softmax
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn

from naysayer.engine import process
from naysayer.engine.bound import headed
from naysayer.engine.population import logits_of
from naysayer.engine.source import to_float
from naysayer.engine.stream import Stream
from naysayer.labels import transition as transitions
from naysayer.labels.kinds import is_ordinary
from naysayer.labels.weights import inverse_tensor, label_weights
from naysayer.models.boosting import BoostedClassifier, booster_from_text, booster_to_text
from naysayer.models.crossfit import Groups, others
from naysayer.models.objects import describe, rebuild
from naysayer.models.reduction import label_shares, project_to_simplex
from naysayer.objectives import Objective, make, name_of

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Tensors = dict[str, Tensor]
Described = dict[str, Any]

N_TREES = 300
TREE_ROWS = 20_000  # that a tree of the forest draws, at most
JUDGED_ROWS = 50_000  # that the forest predicts by the trees that did not draw them, at most
SPLIT_COLUMNS = 32  # among which the forest seeks a split, if half of them are more
N_ROUNDS = 100
N_LEAVES = 7
FEWEST_NEIGHBOURS = 10  # that a row has; the cube root of the number of rows, if that is more
N_SPREADS = 6
N_TURNS = 4  # of neighbours and discriminant
MOST_COMPONENTS = 100
UPRIGHT = 3.0  # a further component of every row: a few columns are then compared by distance, many by angle
BLOCK = 10_000  # rows whose neighbours' probabilities are held at a time
SHRINKAGE = 0.1  # of the discriminant's covariance, towards a round one
FARTHEST = 10.0  # standard deviations, beyond which a feature counts as if it were there
UNLIKELIEST = 1e-3  # a label may be wrong


class Examples(NamedTuple):
    """What members learn from."""

    inputs: Tensor  # (N, ...) scaled, or bytes of images
    labels: NDArray[Any]  # (N,) or (N, K), checked; every row says something
    weight: Floats | None  # (N,)
    n_classes: int
    transition: ArrayLike | None
    unlabelled: Tensor  # inputs of which nothing is known
    unlabelled_weight: Floats | None = None
    groups: Groups | None = None  # (N,) numbers from 0 up; rows of one are about the same example
    stream: Stream | None = None  # if there is one, it has the rows, and the inputs here are those held out


class Member(Protocol):
    """A part of a pool; `belief` is how many labels' worth of belief there is in it before any label is seen."""

    belief: ClassVar[float]

    def probabilities(self, inputs: Tensor) -> Floats:
        """Give P(class | x) of scaled inputs (N, ...), (N, K)."""

    def to_dict(self) -> tuple[Described, Tensors]:
        """Give what :func:`member_from_dict` needs: what JSON can hold, and tensors."""


@dataclass
class Networks:
    """Runs of one network, which predict together: the mean of their probabilities."""

    belief: ClassVar[float] = 1.0

    name: str | None  # of the network, if it has one
    module: nn.Module
    parameters: Tensors  # (M, ...) each
    buffers: Tensors
    objective: Objective | None = None  # by which logits are turned into classes; None where they are of the classes

    def probabilities(self, inputs: Tensor) -> Floats:
        n_runs = len(next(iter(self.parameters.values())))
        return np.asarray(sum(self.run(m, inputs) for m in range(n_runs)) / n_runs)

    def run(self, m: int, inputs: Tensor) -> Floats:
        """Give the probabilities of one run, (N, K)."""
        parameters, buffers = ({k: v[m : m + 1] for k, v in one.items()} for one in (self.parameters, self.buffers))
        logits = logits_of(self.module, parameters, buffers, inputs).double()
        scores = logits if self.objective is None else self.objective.class_scores(logits)
        return np.asarray(scores.softmax(dim=-1).numpy())

    def held_out(self, inputs: Tensor, parts: Rows) -> NDArray[np.float32]:
        """Predict the rows that each run held out, (M, h), by that run."""
        predicted = ((rows, self.run(m, inputs[torch.from_numpy(rows)])) for m, rows in enumerate(parts))
        return collect(predicted, len(inputs))

    def to_dict(self) -> tuple[Described, Tensors]:
        tensors = {f"parameter.{k}": v for k, v in self.parameters.items()}
        tensors |= {f"buffer.{k}": v for k, v in self.buffers.items()}
        described: Described = {"kind": "networks", "network": self.name}
        if self.objective is not None:
            described["objective"] = {"name": name_of(self.objective)} | self.objective.settings()
        return described, tensors

    @classmethod
    def from_dict(
        cls,
        described: Described,
        tensors: Tensors,
        build: nn.Module | Callable[[], nn.Module],
        device: torch.device,
    ) -> Networks:
        """Take over the states of runs; the network is built anew."""
        objective = make(**described["objective"]) if "objective" in described else None
        with process.seeded():  # the start that it draws is not used
            module = headed(build if isinstance(build, nn.Module) else build(), objective).to(device)
        parameters, buffers = (
            {k.removeprefix(p): v.to(device) for k, v in tensors.items() if k.startswith(p)}
            for p in ("parameter.", "buffer.")
        )
        named = dict(module.named_parameters()) | dict(module.named_buffers())
        got = {k: tuple(v.shape[1:]) for k, v in (parameters | buffers).items()}  # frozen parameters are buffers
        if {k: tuple(v.shape) for k, v in named.items()} != got:
            raise ValueError("the saved parameters do not fit the network; pass the network that was trained")
        return cls(described["network"], module, parameters, buffers, objective)


@dataclass
class Forest:
    """Extremely randomised trees that regress the labels, from which P(class | x) follows as in the reduction.

    Each tree learns from a draw of the rows, so a row is predicted by the trees that did not draw it. Where rows are
    in groups, some of the trees learn without each part, and predict it.
    """

    belief: ClassVar[float] = 1.0

    trees: ExtraTreesRegressor
    inverse: Floats

    def probabilities(self, inputs: Tensor) -> Floats:
        return project_to_simplex(self.trees.predict(as_table(inputs)) @ self.inverse)

    @classmethod
    def train(cls, examples: Examples, seed: int, parts: Rows) -> tuple[Forest, NDArray[np.float32]]:
        """Train it; give it and its probabilities of rows that trees did not learn from, (R, N, K)."""
        labels, n_classes, transition = examples.labels, examples.n_classes, examples.transition
        q = transitions.uniform(n_classes) if transition is None else np.asarray(transition, dtype=np.float64)
        X, n, weight = as_table(examples.inputs), len(labels), examples.weight
        shares = np.eye(n_classes)[labels] if labels.ndim == 1 else label_shares(labels, q)
        inverse = transitions.inverse(q, n_classes)

        def grow(n_trees: int, seed: int, rows: Rows | slice) -> ExtraTreesRegressor:
            trees = ExtraTreesRegressor(
                n_trees,
                min_samples_leaf=max(1, round(np.sqrt(n) / 8)),
                max_features=max(1, min(X.shape[1] // 2, max(SPLIT_COLUMNS, round(np.sqrt(X.shape[1]))))),
                bootstrap=True,
                max_samples=min(len(X[rows]), TREE_ROWS),
                n_jobs=-1,
                random_state=seed,
            )
            trees.fit(X[rows], shares[rows], sample_weight=None if weight is None else weight[rows])
            return trees.set_params(n_jobs=None)  # threads would add up the trees' predictions in any order

        if examples.groups is not None:  # a tree draws rows of nearly every group
            each = max(1, round(N_TREES / len(parts)))
            grown = [grow(each, seed + i, others(np.arange(n), part, examples.groups)) for i, part in enumerate(parts)]
            predicted = [(part, project_to_simplex(one.predict(X[part]) @ inverse)) for part, one in zip(parts, grown)]
            trees = grown[0].set_params(n_estimators=each * len(parts))
            trees.estimators_ = [tree for one in grown for tree in one.estimators_]
            return cls(trees, inverse), collect(predicted, n)
        trees = grow(N_TREES, seed, slice(None))
        forest = cls(trees, inverse)
        total, times = np.zeros((n, n_classes)), np.zeros((n, 1))
        judged = np.random.default_rng(seed).permutation(n)[:JUDGED_ROWS]
        for tree, drawn in zip(trees.estimators_, trees.estimators_samples_):
            left = np.setdiff1d(judged, drawn)
            if len(left) > 0:  # a tree may draw all of a few rows
                total[left] += tree.predict(X[left])
                times[left] += 1
        held_out = np.where(times > 0, total / np.maximum(times, 1), np.nan)
        return forest, project_to_simplex(held_out @ forest.inverse)[None].astype(np.float32)

    def to_dict(self) -> tuple[Described, Tensors]:
        tensors: Tensors = {"inverse": torch.from_numpy(self.inverse)}
        return {"kind": "forest", "trees": describe(self.trees, tensors)}, tensors


@dataclass
class Boosted:
    """Boosted trees, a model for each part that was held out; they predict together."""

    belief: ClassVar[float] = 2.0  # the best of all alone, over the tables that were tuned to

    boosters: list[Any]
    n_classes: int

    def probabilities(self, inputs: Tensor) -> Floats:
        X = as_table(inputs)
        return np.asarray(sum(_probabilities(one, X) for one in self.boosters) / len(self.boosters))

    @classmethod
    def train(
        cls, examples: Examples, seed: int, parts: Rows, until: float | None
    ) -> tuple[Boosted, NDArray[np.float32]]:
        """Train a model without each part, as many as there is time for; give them and their probabilities of it."""
        X, labels, weight = as_table(examples.inputs), examples.labels, examples.weight
        everything = np.arange(len(labels))
        boosters: list[Any] = []
        predicted = []
        for i, part in enumerate(parts):
            if boosters and until is not None and time.monotonic() > until:
                break
            rows = others(everything, part, examples.groups)
            model = BoostedClassifier(
                N_ROUNDS,
                num_leaves=N_LEAVES,
                transition=examples.transition,
                n_jobs=1 if X.size < 1_000_000 else None,  # threads that wait for each other cost more than they save
            )
            model.classes_ = np.arange(examples.n_classes)
            booster, _ = model._boost(X, labels, weight, rows, rows[:0], N_ROUNDS, seed + i)  # labels were checked
            boosters.append(booster)
            predicted.append((part, _probabilities(boosters[-1], X[part])))
        return cls(boosters, examples.n_classes), collect(predicted, len(labels))

    def to_dict(self) -> tuple[Described, Tensors]:
        texts = (booster_to_text(one, self.n_classes).encode() for one in self.boosters)
        tensors = {str(i): torch.frombuffer(bytearray(text), dtype=torch.uint8) for i, text in enumerate(texts)}
        return {"kind": "boosting", "n_boosters": len(self.boosters)}, tensors


@dataclass
class Neighbours:
    r"""Class probabilities spread from row to row: what the nearest rows are, labelled or not.

    With :math:`L_{iy} = P(\text{label of row } i \mid y)`, 1 where there is no label, and A the shares of each row's
    neighbours, the nearer the larger,

    .. math:: p_i \propto L_i \odot \sum_j A_{ij}\, p_j,

    repeated a few times. Rows without a label pass on what their neighbours say, which is how they help. Such a sum
    over the nearest rows, to the power K - 1, is what neighbours say of a row: a label that rules out one class moves
    each term by about 1 / (K - 1) of what an ordinary label would.

    A discriminant takes turns with them, if it is asked for: what neighbours say teaches a linear discriminant, which
    sees all rows at once, and its probabilities are where the next spreading begins. What is predicted is then the
    geometric mean of the two.

    Rows are compared by their angle, in at most 100 principal components and one more that all rows share.
    """

    belief: ClassVar[float] = 1.0

    X: NDArray[np.float32]  # (N, J), each row of length 1
    p: NDArray[np.float32]  # (N, K)
    scale: float  # of distances
    components: NDArray[np.float32]  # (D, J - 1)
    scores: NDArray[np.float32]  # (J + 1, K), weights and biases of the discriminant; (0, K) without one

    def probabilities(self, inputs: Tensor) -> Floats:
        X = _directions(as_table(inputs), self.components)
        distance, near = _nearest(self.X, len(self.X)).kneighbors(X)
        said = _said(self.p, distance, near, self.scale)
        return _together(said, X, self.scores) if len(self.scores) else said

    @classmethod
    def train(
        cls, examples: Examples, parts: Rows, objective: Objective | None = None, turns: int = 0
    ) -> tuple[Neighbours, NDArray[np.float32]]:
        """Spread without the labels of each part; give the mean of all, and what each says of its part.

        L is that of the objective, where there is one; `turns` are those of the discriminant.
        """
        labels, n_classes, n = examples.labels, examples.n_classes, len(examples.labels)
        table = np.concatenate([as_table(examples.inputs), as_table(examples.unlabelled)])
        components = _principal_components(table)
        X = _directions(table, components)
        known = label_likelihoods(labels, n_classes, examples.transition, objective)
        if examples.weight is not None:
            known = np.maximum(known ** (examples.weight[:, None] / examples.weight.mean()), 1e-12)
        likelihood = np.concatenate([known, np.ones((len(examples.unlabelled), n_classes))])
        distance, near = _nearest(X, len(X) - 1).kneighbors()
        scale = float(np.median(distance[:, -1])) or 1.0
        own = np.repeat(np.arange(len(X)), near.shape[1])
        ties = csr_matrix((_closeness(distance, scale).ravel(), (own, near.ravel())), shape=(len(X), len(X)))
        ties = ties + ties.T
        ties = diags(1.0 / np.asarray(ties.sum(axis=1)).ravel()) @ ties
        total, scores, predicted = np.zeros(likelihood.shape), [], []
        for part in parts:
            left, rows = likelihood.copy(), others(np.arange(n), part, examples.groups)
            left[np.setdiff1d(np.arange(n), rows)] = 1.0
            p = _spread(ties, left, left, N_SPREADS if turns == 0 else 2 * N_SPREADS)
            shares = class_shares(labels[rows], n_classes, examples.transition)
            for _ in range(turns):
                scores.append(_discriminant(X, _sharpened(ties @ p), shares))
                p = _spread(ties, left, left * _probabilities_by(scores[-1], X), 2)
            total += p
            said = _said(p, distance[part], near[part], scale)  # as of a row that is not among the others
            predicted.append((part, _together(said, X[part], scores[-1]) if turns else said))
        last = scores[turns - 1 :: turns] if turns else [np.zeros((0, n_classes))]
        means = [(one / len(parts)).astype(np.float32) for one in (total, np.sum(last, axis=0))]
        return cls(X, means[0], scale, components, means[1]), collect(predicted, n)

    def to_dict(self) -> tuple[Described, Tensors]:
        arrays = {name: getattr(self, name) for name in ("X", "p", "components", "scores")}
        return {"kind": "neighbours", "scale": self.scale}, {k: torch.from_numpy(v) for k, v in arrays.items()}


def _principal_components(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give the directions in which rows differ most, (D, J); all D where they are few."""
    if table.shape[1] <= MOST_COMPONENTS:
        return np.eye(table.shape[1], dtype=np.float32)
    n_components = min(MOST_COMPONENTS, len(table))
    with np.errstate(invalid="ignore", divide="ignore"):  # rows may be all alike
        pca = PCA(n_components, svd_solver="randomized", random_state=0).fit(table.clip(-FARTHEST, FARTHEST))
    return np.ascontiguousarray(pca.components_.T, dtype=np.float32)


def _directions(table: NDArray[np.float32], components: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give rows of length 1, (N, J + 1): the components of each row, and the one that all share."""
    X = np.pad(table.clip(-FARTHEST, FARTHEST) @ components, ((0, 0), (0, 1)), constant_values=UPRIGHT)
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True), dtype=np.float32)


def _nearest(X: NDArray[np.float32], most: int) -> NearestNeighbors:
    """Give what finds the neighbours of rows among those of X."""
    n_neighbors = min(max(FEWEST_NEIGHBOURS, round(len(X) ** (1 / 3))), most)
    return NearestNeighbors(n_neighbors=n_neighbors, n_jobs=-1).fit(X)


def _said(p: NDArray[Any], distance: Floats, near: Rows, scale: float) -> Floats:
    """Give what the nearest rows, (N, J) each, say of rows, (N, K)."""
    shares = _closeness(distance, scale)
    shares /= shares.sum(axis=1, keepdims=True)
    blocks = [slice(i, i + BLOCK) for i in range(0, len(near), BLOCK)]
    said = [np.einsum("nj,njk->nk", shares[block], p[near[block]]) for block in blocks]
    return _sharpened(np.concatenate([np.empty((0, p.shape[1])), *said]))


def _spread(ties: csr_matrix, likelihood: Floats, p: Floats, times: int) -> Floats:
    """Spread probabilities that need not sum to 1 along ties, some times."""
    p = p / p.sum(axis=1, keepdims=True)
    for _ in range(times):
        p = likelihood * (ties @ p)
        p /= p.sum(axis=1, keepdims=True)
    return p


def _discriminant(X: NDArray[np.float32], p: Floats, shares: Floats) -> NDArray[np.float32]:
    """Give weights and biases, (J + 1, K), of a linear discriminant; rows are of each class with probability p."""
    rows, counts = X.astype(np.float64), p.sum(axis=0) + 1e-9  # classes that are tight cancel in less precision
    means = (p.T @ rows) / counts[:, None]
    within = (rows.T @ rows) / len(rows) - (means.T * (counts / counts.sum())) @ means
    within *= 1 - SHRINKAGE
    within[np.diag_indices(len(within))] += SHRINKAGE * max(0.0, np.trace(within)) / len(within) + 1e-9
    weights = np.linalg.solve(within, means.T)
    scores = np.vstack([weights, np.log(shares) - 0.5 * (means.T * weights).sum(axis=0)])
    return np.asarray((scores - scores.mean(axis=1, keepdims=True)).astype(np.float32))  # as they are kept


def _probabilities_by(scores: NDArray[Any], X: NDArray[np.float32]) -> Floats:
    """Give the class probabilities of a discriminant, (N, K)."""
    return np.asarray(softmax(X.astype(np.float64) @ scores[:-1] + scores[-1], axis=1))


def _together(said: Floats, X: NDArray[np.float32], scores: NDArray[Any]) -> Floats:
    """Give the geometric mean of what neighbours say and what a discriminant does, summing to 1."""
    p = np.sqrt(said * _probabilities_by(scores, X)) + 1e-12
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def class_shares(labels: NDArray[Any], n_classes: int, transition: ArrayLike | None) -> Floats:
    """Estimate the shares of the classes, (K,); the less the labels can tell, the more equal they are.

    Examples
    --------
    >>> class_shares(np.array([0] * 600 + [1] * 300 + [2] * 100), 3, None).round(2)
    array([0.05, 0.32, 0.63])
    >>> class_shares(np.array([0, 1, 2, 2]), 3, None).round(2)
    array([0.33, 0.33, 0.33])
    """
    inverse = inverse_tensor(transition, n_classes)
    weights = label_weights(torch.from_numpy(np.ascontiguousarray(labels)), n_classes, inverse).double().numpy()
    shares = weights.mean(axis=0)
    noise = float((weights.var(axis=0) + np.ptp(weights) ** 2 / len(weights)).mean()) / len(weights)
    by_chance = noise * (1 + 2 * np.sqrt(2 / n_classes))  # what equal shares seem to differ by, rarely more
    differences = max(0.0, float(np.square(shares - 1 / n_classes).mean()) - by_chance)
    trust = differences / max(differences + noise, 1e-12)
    shares = np.maximum(trust * shares + (1 - trust) / n_classes, 0.2 / n_classes)
    return np.asarray(shares / shares.sum())


def label_likelihoods(
    labels: NDArray[Any], n_classes: int, transition: ArrayLike | None, objective: Objective | None = None
) -> Floats:
    """Give P(label | class) of each label, (N, K), the largest in each row 1 and none less than `UNLIKELIEST`.

    An objective without Q that is minus the logarithm of the label's probability tells it by what it says of each class
    alone.

    Examples
    --------
    >>> label_likelihoods(np.array([0, 2]), 3, None)
    array([[0.001, 1.   , 1.   ],
           [1.   , 1.   , 0.001]])
    """
    if objective is not None and objective.transition is not None:
        transition = np.asarray(objective.transition)
    elif objective is not None:
        certain = torch.eye(n_classes).log()[:, None].expand(-1, len(labels), -1)  # of each class in turn, (K, N, K)
        losses = [objective.example_losses(one, torch.from_numpy(np.ascontiguousarray(labels))) for one in certain]
        least = torch.stack(losses, dim=-1)
        return np.maximum(torch.exp(least.amin(-1, keepdim=True) - least).double().numpy(), UNLIKELIEST)
    ruled_out = np.eye(n_classes, dtype=bool)[labels] if labels.ndim == 1 else labels
    likelihood = (~ruled_out).astype(np.float64)
    if transition is not None:
        ordinary = is_ordinary(ruled_out.sum(axis=1), n_classes, known_transition=True)
        log_q = np.log(np.maximum(np.asarray(transition, dtype=np.float64), 1e-12))
        log_likelihood = ruled_out @ log_q.T
        drawn = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        likelihood = np.where(ordinary[:, None], likelihood, drawn)
    return np.maximum(likelihood, UNLIKELIEST)


def _sharpened(p: Floats) -> Floats:
    """Give p to the power K - 1, summing to 1."""
    powers = (p / p.max(axis=1, keepdims=True)) ** (p.shape[1] - 1)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float64)


def _closeness(distance: Floats, scale: float) -> Floats:
    """Give the weights of neighbours, (N, J)."""
    return np.asarray(np.exp(-np.square(distance / scale)) + 1e-6)


def member_from_dict(
    described: Described,
    tensors: Tensors,
    n_classes: int,
    build: nn.Module | Callable[[], nn.Module] | None,
    device: torch.device,
) -> Member:
    """Make the member of which `to_dict` gave this; a network is made by `build`."""
    if described["kind"] == "networks":
        assert build is not None
        return Networks.from_dict(described, tensors, build, device)
    if described["kind"] == "forest":
        trees = rebuild(described["trees"], tensors)
        if not isinstance(trees, ExtraTreesRegressor):
            raise ValueError("this model's forest must be one of scikit-learn's extremely randomised trees")
        return Forest(trees, tensors["inverse"].numpy())
    if described["kind"] == "boosting":
        texts = [tensors[str(i)].numpy().tobytes().decode() for i in range(described["n_boosters"])]
        return Boosted([booster_from_text(text, n_classes) for text in texts], n_classes)
    if described["kind"] == "neighbours":
        state = {k: tensors[k].numpy() for k in ("X", "p", "components", "scores")}
        return Neighbours(**state, scale=float(described["scale"]))
    raise ValueError(f"this model has a member of kind {described['kind']!r}, which this release does not know")


def collect(predicted: Iterable[tuple[Rows, NDArray[Any]]], n_rows: int) -> NDArray[np.float32]:
    """Put predictions of parts, (h,) rows and (h, K), into (R, N, K): each row's first, second, ... one; else NaN."""
    out: list[NDArray[np.float32]] = []
    times = np.zeros(n_rows, dtype=np.int64)
    for rows, p in predicted:
        for r in np.unique(times[rows]):
            if r == len(out):
                out.append(np.full((n_rows, p.shape[1]), np.nan, dtype=np.float32))
            now = times[rows] == r
            out[r][rows[now]] = p[now]
        times[rows] += 1
    return np.stack(out)


def as_table(inputs: Tensor) -> NDArray[np.float32]:
    """Give inputs as a table of numbers, (N, D); bytes are divided by 255, as networks see them."""
    return np.asarray(to_float(inputs).flatten(1).numpy(), dtype=np.float32)


def _probabilities(booster: Any, X: NDArray[np.float32]) -> Floats:
    """Give the class probabilities of one model's scores, (N, K)."""
    return np.asarray(softmax(booster.predict(X, raw_score=True), axis=1))
