"""Models from a store: labels and features in, a classifier with an honest estimate of its accuracy out.

Every run of the model holds out some of the items, and the answers about them, which it has not seen, tell how good it
is; see :mod:`naysayer.models.pooling`. Items that nobody was asked about help by where they lie: neighbours share what
is known about them (:class:`naysayer.models.members.Neighbours`).
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.collect.guiding import combine, may_guide
from naysayer.collect.store import Store
from naysayer.common.words import count
from naysayer.data.items import Item
from naysayer.engine.networks import DEEP, FOR_IMAGES, NETWORKS
from naysayer.engine.recipe import Recipe
from naysayer.features.backbones import PHOTOS
from naysayer.features.encoder import Encoder, fit_encoder
from naysayer.features.photos import PUT_BACK, PhotoEncoder, told_of
from naysayer.features.pretrained import SIDE
from naysayer.measure import metrics
from naysayer.measure.answer_errors import error_rates
from naysayer.measure.answer_estimates import accuracy
from naysayer.measure.answers import Answers, from_standing, labels
from naysayer.measure.design import check_rate
from naysayer.measure.intervals import Interval
from naysayer.measure.people import agreement
from naysayer.measure.settling import LEAST_ERROR
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.defaults import is_consistency
from naysayer.models.encoded import ID_LENGTH, EncodedModel
from naysayer.objectives.likelihood import Likelihood

FEWEST_ITEMS = 20  # with a label; with fewer, nothing can be learned
MOST_ITEMS = 10_000  # that are learned from, unless more have answers; of the others as many as that are drawn
SURE = 0.9  # the probability from which on an item counts as named
MOST_DOUBTS = 200  # items on which people and model contradict each other that are kept with a training


class Judged(NamedTuple):
    """What the estimated accuracy rests on: items, the N with answers first; the answers; the classes predicted, (N,).

    `sure` (N,) are the probabilities of these classes. Both come from runs that had held the item out, where it has a
    label to learn from; an item that no run held out has the class -1.
    """

    items: list[Item]
    answers: Answers
    predicted: NDArray[np.int64]
    sure: NDArray[np.float64]


class FromAnswers(NamedTuple):
    """A model of features and answers, and what runs that had held an item out say of it.

    Parameters
    ----------
    model : with its estimated accuracy.
    ruled_out : (n, K) what the answers rule out for the items that have some.
    probabilities : (N, K) of all items, by all runs.
    expected : (N, K) the same by runs that did not learn from the item's own answers; NaN where an item has a label
        and no run held it out.
    predicted, sure : (n,) as in :class:`Judged`.
    error_rate, error_odds : of answers, as it was estimated or given, and as it was learned with.
    """

    model: ComplementaryClassifier
    ruled_out: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    expected: NDArray[np.float64]
    predicted: NDArray[np.int64]
    sure: NDArray[np.float64]
    error_rate: float
    error_odds: float

    @property
    def n_items(self) -> int:
        """How many items have a label to learn from."""
        return int(self.ruled_out.any(axis=1).sum())


@dataclass(frozen=True)
class Trained(EncodedModel):
    """A model that learned from a store, with what people ruled out for which items, and its estimated accuracy.

    `judged`, `expected` and `said` are None in a model that was loaded. `expected` are the probabilities (N, K) of
    `judged.items` by runs that did not learn from the item's own answers, so that these can be weighed in once; NaN
    where an item has a label and no run held it out. `said` are all answers: those of `judged` and those about photos
    that could not be read.
    """

    judged: Judged | None = None
    expected: NDArray[np.float64] | None = None
    said: Answers | None = None

    @property
    def accuracy(self) -> Interval:
        """(estimate, low, high), from answers that the models did not see."""
        return self.model.estimated_accuracy_

    @property
    def error_rate(self) -> float:
        """The share of answers that are wrong."""
        return float(self.about["error_rate"])

    @property
    def n_answers(self) -> int:
        """How many answers it learned from."""
        return int(self.about["n_answers"])

    @property
    def n_items(self) -> int:
        """How many items with a label it learned from."""
        return int(self.about["n_items"])

    @property
    def network(self) -> str:
        """The name of its network."""
        return str(self.about["network"])

    @property
    def n_unanswered(self) -> int:
        """How many items nobody had been asked about."""
        return int(self.about.get("n_unanswered", 0))  # earlier releases did not count them

    @property
    def named(self) -> float | None:
        """The share of the items without any answer whose class has a probability of 0.9 or more; None without any."""
        share = self.about.get("named")
        return None if share is None else float(share)

    @cached_property
    def _learned_from(self) -> frozenset[str]:
        return frozenset(self.about["learned_from"])

    def saw(self, item_id: str) -> bool:
        """Whether the model learned from an item; answers about such an item cannot judge it."""
        return item_id[:ID_LENGTH] in self._learned_from


def features(store: Store, ids: Sequence[str] | None = None) -> tuple[NDArray[Any], Encoder]:
    """Give the features of a store's items, those with these ids or all, and the encoder; it is fitted to all of them.

    They are (N, D) in float32, or of images without a backbone pixels (N, C, S, S) in uint8; see
    :mod:`naysayer.features.encoder`.
    """
    items = {item.id: item for item in store.items()}
    encoder = fit_encoder(list(items.values()))
    return encoder.transform([items[id] for id in (items if ids is None else ids)]), encoder


def train(
    store: Store,
    *,
    network: str = "mlp",
    recipe: str | Recipe = "auto",
    views: int | None = None,
    error_rate: float | None = None,
    max_epochs: int | None = None,
    n_seeds: int | str | None = None,
    confidence: float = 0.95,
    device: str = "auto",
    random_state: int = 0,
    verbose: int = 0,
    before: Encoder | None = None,
) -> Trained:
    """Train a classifier on the answers in a store, and estimate its accuracy from answers that it did not see.

    Parameters
    ----------
    store : with answers about at least 20 items.
    network : "mlp", "linear" or, for images, "convolution", "pooled", "resnet8", "resnet18", "resnet34" or
        "efficientnet-lite0", all of which learns, from up to 128 × 128 pixels.
    recipe : as for :class:`naysayer.ComplementaryClassifier`.
    views : of photos: 1, or 2 with the mirror image; None is the default of :class:`naysayer.features.Photos`.
    error_rate : of the answers, if it is known; None estimates it from repeated questions.
    max_epochs, n_seeds : number of epochs, and of runs that predict together; by default 30 and 10, or for residual
        networks and consistent views what suits them.
    confidence : of the interval.
    device, random_state, verbose : as for :class:`naysayer.ComplementaryClassifier`.
    before : the encoder of an earlier training; images that it has read are not read again.

    Returns
    -------
    Trained

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.data.items import record_item
    >>> from naysayer.collect.store import Answer, Project
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store.open(folder.name + "/answers.db", project=Project(("low", "high")), random_state=0)
    >>> store.register(record_item({"height": i}, f"row {i}") for i in range(100))
    100
    >>> ann = store.named_annotator("Ann").id
    >>> for i in range(100):
    ...     (question,) = store.ask(ann)
    ...     said = "yes" if question.class_index == (question.item.content["height"] >= 50) else "no"
    ...     _ = store.answer(Answer(f"answer-{i}", question.id, ann, said))
    >>> trained = train(store)
    >>> trained.accuracy.estimate > 0.9
    True
    >>> store.close()
    >>> folder.cleanup()
    """
    if network not in NETWORKS:
        raise ValueError(f"`network` must be one of {', '.join(NETWORKS)}; got {network!r}")
    if error_rate is not None:
        check_rate(error_rate)
    given = list(store.standing())
    project = store.renew()  # after the answers, so that it has the class of each
    all_said = said = from_standing(given, project.classes, project.probabilities)
    _check_enough(said, "collect more")
    rng = np.random.default_rng(random_state)
    ordered, n_unanswered = _chosen(store, said.items, rng)
    encoder = fit_encoder(ordered, SIDE if network in PHOTOS else network in FOR_IMAGES, views)
    if isinstance(encoder, PhotoEncoder):
        encoder.keep(before)
    elif network in FOR_IMAGES:
        raise ValueError(f'network "{network}" is for images; the items are {encoder.kind}s; use "mlp"')
    encoder.device, encoder.verbose = device, verbose
    if isinstance(encoder, PhotoEncoder):
        ordered, said = _readable(encoder, ordered, said)
    found = learn(
        encoder.transform(ordered),
        said,
        network=network,
        recipe=recipe,
        error_rate=error_rate,
        max_epochs=max_epochs,
        n_seeds=n_seeds,
        confidence=confidence,
        standardize="backbone" in encoder.to_dict(),  # the other encoders' columns are of one scale
        device=device,
        random_state=random_state,
        verbose=verbose,
        rng=rng,
    )
    model, n_said = found.model, len(said.items)
    model.classes_, model.classes = np.array(project.classes), None
    model.method = model.method_  # what can be saved; what answers' errors changed in it is in `Trained`
    told = {id[:ID_LENGTH]: np.flatnonzero(out).tolist() for id, out in zip(said.items, found.ruled_out, strict=True)}
    about = {
        "network": network,
        "error_rate": found.error_rate,
        "error_odds": found.error_odds,
        "n_answers": int(np.count_nonzero(said.value >= 0)),
        "last_answer": max(standing.seq for standing in given),
        "n_items": found.n_items,
        "n_unanswered": n_unanswered,
        "named": float((found.probabilities[n_said:].max(axis=1) >= SURE).mean()) if len(ordered) > n_said else None,
        "learned_from": told,
    }
    judged = Judged(ordered, said, found.predicted, found.sure)
    return Trained(model, encoder, about, judged, found.expected, all_said)


def learn(
    X: NDArray[Any],
    said: Answers,
    *,
    network: str = "mlp",
    recipe: str | Recipe = "auto",
    error_rate: float | None = None,
    max_epochs: int | None = None,
    n_seeds: int | str | None = None,
    confidence: float = 0.95,
    standardize: bool = False,
    device: str = "auto",
    random_state: int = 0,
    verbose: int = 0,
    rng: np.random.Generator | None = None,
) -> FromAnswers:
    """Learn from features and answers alone: what :func:`train` does once it has read a store.

    Parameters
    ----------
    X : (N, ...) features, of the items with answers first, in the order of `said.items`.
    said : answers about the first n items.
    standardize : as for :class:`naysayer.ComplementaryClassifier`.
    rng : draws which items without a label may judge; None begins one from `random_state`.
    network, recipe, error_rate, max_epochs, n_seeds, confidence, device, random_state, verbose : as for :func:`train`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, asked = rng.normal(size=(300, 2)).astype(np.float32), rng.integers(2, size=200)
    >>> values = np.where(asked == (X[:200, 0] > 0), "yes", "no")
    >>> said = Answers.of([str(i) for i in range(200)], asked, values, ("left", "right"))
    >>> found = learn(X, said, error_rate=0.0, max_epochs=5, n_seeds=5)
    >>> found.expected.shape, bool(found.model.estimated_accuracy_.low > 0.8)
    ((300, 2), True)
    """
    n_said, n_classes = len(said.items), said.n_classes
    known = labels(said)
    rows = np.flatnonzero(known.ruled_out.any(axis=1))
    ruled_out = np.zeros((len(X), n_classes), dtype=bool)
    ruled_out[:n_said] = known.ruled_out
    e = error_rates(said).overall.estimate if error_rate is None else error_rate
    likelihood = Likelihood(n_classes, max(e, LEAST_ERROR))
    members = ["forward", *(["linear"] if network != "linear" else []), "neighbours", "discriminant"]
    epochs: int | str = 30
    runs: int | str = 10
    share: float | str = max(1, len(rows) // 5) / max(1, len(rows))  # so that five runs hold out all but four at most
    if network in DEEP or is_consistency(recipe):
        members, epochs, runs, share = ["forward"], "auto", "auto", "auto"
    model = ComplementaryClassifier(
        dict.fromkeys(members, likelihood),
        network,
        recipe=recipe,
        max_epochs=epochs if max_epochs is None else max_epochs,
        n_seeds=runs if n_seeds is None else n_seeds,
        validation_fraction=share,
        classes=np.arange(n_classes),
        standardize=standardize,
        device=device,
        random_state=random_state,
        verbose=verbose,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single runs that failed; others serve
        model.fit(X, ruled_out)
    p = model.predict_proba(X)
    # Items without a label, at which nobody could tell or answers contradict each other, teach nothing, but are
    # predicted: an estimate without them would leave out the very answers that speak against a model. Items with a
    # label that no run held out cannot judge it, and the same share of those without one is left out with them.
    held_out = model.held_out_
    draws = np.random.default_rng(random_state) if rng is None else rng
    judges = draws.random(n_said) < len(held_out.rows) / len(rows)
    predicted, sure = np.where(judges, p[:n_said].argmax(axis=1), -1), p[:n_said].max(axis=1).astype(np.float64)
    predicted[rows] = -1
    predicted[rows[held_out.rows]], sure[rows[held_out.rows]] = held_out.classes, held_out.sure
    bounds = _accuracy(said, predicted, known.ruled_out, error_rate, confidence)
    model.estimated_accuracy_ = held_out.interval(bounds)
    expected = p.astype(np.float64)
    expected[rows] = np.nan
    expected[rows[held_out.rows]] = held_out.probabilities
    odds = math.exp(likelihood.log_odds)
    return FromAnswers(model, known.ruled_out, p, expected, predicted, sure, e, odds)


def _chosen(store: Store, answered: Sequence[str], rng: np.random.Generator) -> tuple[list[Item], int]:
    """Give the items to learn from, those with answers first, in their order; and how many have none."""
    items = {item.id: item for item in store.items()}
    first = [items.pop(id) for id in answered]
    others = list(items.values())
    drawn = [others[i] for i in np.sort(rng.permutation(len(others))[: max(0, MOST_ITEMS - len(first))])]
    return [*first, *drawn], len(others)


def _check_enough(said: Answers, remedy: str) -> None:
    """Refuse to learn from hardly any items with a label."""
    n = int(labels(said).ruled_out.any(axis=1).sum())
    if n < FEWEST_ITEMS:
        raise ValueError(
            f"a store must have answers about at least {FEWEST_ITEMS} items to train on; got {n}; {remedy}"
        )


def _readable(encoder: PhotoEncoder, ordered: Sequence[Item], said: Answers) -> tuple[list[Item], Answers]:
    """Leave out pictures that cannot be read, with what people said of them; the encoder's notes tell of both kinds."""
    failed = encoder.read(ordered)
    here = np.array([id not in failed for id in said.items], dtype=bool)
    answered = [failed[id] for id in said.items if id in failed]
    others = [failed[item.id] for item in ordered[len(said.items) :] if item.id in failed]
    if others:
        encoder.notes.append(
            f"left out: {told_of(others)}; nobody answered about {'it' if len(others) == 1 else 'them'}"
        )
    if answered:
        were = "was" if len(answered) == 1 else "were"
        encoder.notes.append(
            f"{count(len(answered), 'answered photo')} {were} left out: {told_of(answered)}; {PUT_BACK}, or drop what "
            "is lost for good: naysayer remove STORE ITEM"
        )
        said = said.only(here)
        _check_enough(said, encoder.notes[-1])
    return [item for item in ordered if item.id not in failed], said


def _accuracy(
    said: Answers,
    predicted: NDArray[np.int64],
    ruled_out: NDArray[np.bool_],
    error_rate: float | None,
    confidence: float,
) -> Interval:
    """Estimate the accuracy; where no class was drawn by us, labels made elsewhere are taken at their word."""
    if np.count_nonzero(said.since) > 1:
        return accuracy(said, predicted, error_rate=error_rate, confidence=confidence)
    judged = ruled_out.any(axis=1) & (predicted >= 0)
    return metrics.accuracy_interval(ruled_out[judged], predicted[judged], said.n_classes, confidence)


def load(path: str | os.PathLike[str], device: str = "auto") -> Trained:
    """Load a model that was trained on a store."""
    trained = Trained.load(path, device)
    if "learned_from" not in trained.about:
        raise ValueError(f"the model at {path} must have been trained on a store; it was not; load it as it was saved")
    return trained


def add_training(store: Store, trained: Trained) -> None:
    """Add what a training came to, as the dashboard shows it; where questions are guided, also what they come from."""
    found = dict(zip(("estimate", "low", "high"), trained.accuracy, strict=True))
    detail = {
        "items": trained.n_items,
        "error_rate": trained.error_rate,
        "unanswered": trained.n_unanswered,
        "named": trained.named,
        "notes": trained.encoder.notes,
        "doubts": _doubts(trained),
        "agreement": _agreement(trained),
    }
    method = f"{trained.network}, {trained.model.method_}"
    at = time.time()
    if store.project.questions == "guided":
        detail |= _add_belief(store, trained, at)
    store.add_training(n_answers=trained.n_answers, method=method, **found, detail=detail, at=at)


def _doubts(trained: Trained) -> list[tuple[str, int, float]]:
    """Name the items whose answers rule out what runs that had not seen them are sure of: id, class, probability."""
    if trained.judged is None:
        return []
    _, answers, predicted, sure = trained.judged
    ruled_out = labels(answers).ruled_out
    doubted = [i for i in np.flatnonzero((predicted >= 0) & (sure >= SURE)) if ruled_out[i, predicted[i]]]
    doubted.sort(key=lambda i: -sure[i])
    return [(answers.items[i], int(predicted[i]), round(float(sure[i]), 3)) for i in doubted[:MOST_DOUBTS]]


def _agreement(trained: Trained) -> dict[str, Interval]:
    """Estimate for how many items each person says yes to the likeliest class, by runs that had not seen the items.

    Only classes that were drawn at random count, each as one over the probability with which it was drawn.
    """
    if trained.judged is None:
        return {}
    _, said, predicted, _ = trained.judged
    random = ~said.repeat & (said.probability > 0) & (said.value >= 0)
    if said.guided is not None:
        random &= ~said.guided
    rows = random & (predicted[said.item] == said.asked)
    found = {}
    for a, name in enumerate(said.annotators):
        mine = rows & (said.annotator == a)
        if (interval := agreement(said.value[mine] == 1, 1.0 / said.probability[mine])) is not None:
            found[name] = interval
    return found


def _add_belief(store: Store, trained: Trained, at: float) -> dict[str, Any]:
    """Add what a model expects of all items that it saw, if it can be relied on; give what is needed beside it."""
    if trained.judged is None or trained.expected is None:
        return {"guides": False}
    found = belief(trained.accuracy.low, trained.judged.answers, trained.expected, trained.error_rate)
    if found is None:
        return {"guides": False}
    expected, votes = found
    store.add_belief(at, [item.id for item in trained.judged.items], expected, votes)
    kept = expected.astype("<f4").astype(np.float64)  # as it is read back
    shares = kept.mean(axis=0).tolist()
    return {"guides": True, "last_answer": trained.about["last_answer"], "shares": shares}


def belief(
    accuracy: float, said: Answers, expected: NDArray[np.float64], error_rate: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Give the probabilities of all items by model and answers, with the votes in them; None if they cannot guide.

    Parameters
    ----------
    accuracy : the model's, at the least.
    said : answers about the first n items.
    expected : (N, K) as in :class:`FromAnswers`; where they are NaN, nothing is known.
    error_rate : of answers.

    Returns
    -------
    (N, K) what :class:`naysayer.collect.guiding.Guide` draws by, and (N, K) votes, yes less no.
    """
    if not may_guide(accuracy, (said.votes > 0).sum(axis=0)):
        return None
    votes = np.zeros(expected.shape, dtype=np.int64)
    votes[: len(said.items)] = said.votes
    p = np.where(np.isnan(expected), 1.0 / expected.shape[1], expected)
    return combine(p, votes, max(error_rate, LEAST_ERROR)), votes
