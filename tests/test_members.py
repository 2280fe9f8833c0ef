"""What a classifier is pooled from: members that say nothing of a row by its own label, and come back as they were."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from helpers import as_sets, is_rows, raises, random_transition
from naysayer import Population, complement, networks, objectives
from naysayer.models import boosting
from naysayer.models.crossfit import split
from naysayer.models.members import (
    N_TURNS,
    UNLIKELIEST,
    Boosted,
    Examples,
    Forest,
    Neighbours,
    Networks,
    class_shares,
    collect,
    label_likelihoods,
    member_from_dict,
)
from naysayer.models.objects import describe
from naysayer.objectives.likelihood import Likelihood

K = 3
N = 60
ROWS, PARTS = split(np.random.default_rng(5), N, 10, 12)  # each row is held out twice
CPU = torch.device("cpu")


def blobs(n=N, seed=0, *, even=True):
    """Classes that lie apart, as scaled inputs; truth and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K if even else np.minimum(np.arange(n) % 12, K - 1)
    centres = np.random.default_rng(99).normal(size=(K, 4))
    X = torch.tensor(centres[y] + 0.4 * rng.normal(size=(n, 4)), dtype=torch.float32)
    return X, y, complement(y, K, random_state=seed)


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, K))


def examples(X, labels, weight=None, transition=None):
    return Examples(X, labels, weight, K, transition, X[:0])


def train_networks(X, labels, weight=None, transition=None):
    runs = Population(build, objectives.Forward(K, transition), seeds=range(10), lr=0.02, batch_size=16, device="cpu")
    runs.fit(X, labels, max_epochs=10, rows=ROWS, validation_rows=PARTS, sample_weight=weight, select="last")
    member = Networks(None, runs.module, runs.parameters, runs.buffers)
    return member, member.held_out(X, PARTS)


def train_boosted(X, labels, weight=None, transition=None):
    return Boosted.train(examples(X, labels, weight, transition), 3, PARTS, None)


TRAIN = {
    "networks": train_networks,
    "forest": lambda X, labels, weight=None, q=None: Forest.train(examples(X, labels, weight, q), 3, PARTS),
    "boosting": pytest.param(
        train_boosted, marks=pytest.mark.skipif(not boosting.is_available(), reason="needs LightGBM")
    ),
    "neighbours": lambda X, labels, weight=None, q=None: Neighbours.train(examples(X, labels, weight, q), PARTS),
    "discriminant": lambda X, labels, weight=None, q=None: Neighbours.train(
        examples(X, labels, weight, q), PARTS, turns=N_TURNS
    ),
}
every_member = pytest.mark.parametrize("train", TRAIN.values(), ids=TRAIN)


@every_member
def test_a_member_says_nothing_of_a_row_by_its_own_label(train):
    X, _, labels = blobs(even=False)  # so that the classes' shares have a say
    _, before = train(X, labels)
    for row in (0, 17, 59):
        changed = labels.copy()
        changed[row] = (labels[row] + 1) % K
        member, after = train(X, changed)
        np.testing.assert_array_equal(after[:, row], before[:, row])
        assert (np.delete(after, row, axis=1) != np.delete(before, row, axis=1)).any()  # others do by it
        assert np.isfinite(member.probabilities(X)).all()


@every_member
@pytest.mark.parametrize("kind", ["single", "sets", "biased"])
def test_a_member_learns_and_gives_probabilities(train, kind):
    X, y, labels = blobs()
    q = random_transition(K, 1, diagonal=0.05) if kind == "biased" else None
    if kind == "sets":
        labels = np.where((np.arange(N) % 4 == 0)[:, None], is_rows(y, K), as_sets(labels, K))
    if kind == "biased":
        labels = complement(y, K, transition=q, random_state=0)
    member, held_out = train(X, labels, None, q)
    assert held_out.shape in ((1, N, K), (2, N, K))
    fresh, truth, _ = blobs(seed=1)
    for p in (*held_out, member.probabilities(X), member.probabilities(fresh)):
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    assert (member.probabilities(fresh).argmax(axis=1) == truth).mean() > 0.75
    assert (held_out[0].argmax(axis=1) == y).mean() > 0.6


@every_member
def test_weights_of_examples_are_used(train):
    X, y, labels = blobs()
    wrong = np.where(np.arange(N) < 30, y, labels)  # half of them say that it is not what it is
    weight = np.where(np.arange(N) < 30, 1e-6, 1.0)
    weighed, plain = (train(X, wrong, w)[0].probabilities(X) for w in (weight, None))
    assert (weighed.argmax(axis=1) == y).mean() > (plain.argmax(axis=1) == y).mean() + 0.1


@every_member
def test_a_member_comes_back_with_the_same_bits(train):
    X, _, labels = blobs()
    member, _ = train(X, labels)
    described, tensors = member.to_dict()
    described = json.loads(json.dumps(described))
    before = torch.get_rng_state()
    back = member_from_dict(described, {k: v.clone() for k, v in tensors.items()}, K, build, CPU)
    assert torch.equal(torch.get_rng_state(), before)
    assert type(back) is type(member)
    fresh, _, _ = blobs(seed=1)
    np.testing.assert_array_equal(back.probabilities(fresh), member.probabilities(fresh))


def test_what_no_member_was_saved_as_is_refused():
    with raises("this model has a member of kind 'oracle', which this release does not know"):
        member_from_dict({"kind": "oracle"}, {}, K, None, CPU)
    X, y, labels = blobs()
    described, tensors = train_networks(X, labels)[0].to_dict()
    with raises("the saved parameters do not fit the network; pass the network that was trained"):
        member_from_dict(described, tensors, K, lambda: networks.linear(4, K), CPU)
    others: dict[str, torch.Tensor] = {}
    trees = describe(ExtraTreesClassifier(2, random_state=0).fit(X.numpy(), y), others)
    with raises("this model's forest must be one of scikit-learn's extremely randomised trees"):
        member_from_dict({"kind": "forest", "trees": trees}, others, K, None, CPU)


def test_a_forest_of_two_rows_has_held_them_out():
    X, _, labels = blobs()
    forest, held_out = Forest.train(examples(X[:2], labels[:2]), 0, PARTS)
    assert np.isfinite(held_out).all()
    assert np.isfinite(forest.probabilities(X)).all()


@pytest.mark.skipif(not boosting.is_available(), reason="needs LightGBM")
def test_boosting_stops_when_time_is_over_but_not_before_its_first_model():
    X, _, labels = blobs()
    member, held_out = Boosted.train(examples(X, labels), 0, PARTS, -np.inf)
    assert len(member.boosters) == 1
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(held_out[0, :, 0])), np.sort(PARTS[0]))


# ---- what labels say ------------------------------------------------------------------------------------------


def test_likelihoods_of_labels_are_told_by_hand():
    low = UNLIKELIEST
    np.testing.assert_allclose(label_likelihoods(np.array([1, 0]), 3, None), [[1, low, 1], [low, 1, 1]])
    rows = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=bool)
    expected = np.where(rows, low, 1.0)
    np.testing.assert_allclose(label_likelihoods(rows, 4, None), expected)


def test_likelihoods_under_a_known_matrix_are_its_columns():
    q = random_transition(4, 2, diagonal=0.1)
    labels = np.array([0, 3, 1])
    expected = q[:, labels].T / q[:, labels].max(axis=0)[:, None]
    np.testing.assert_allclose(label_likelihoods(labels, 4, q), np.maximum(expected, UNLIKELIEST))
    np.testing.assert_allclose(label_likelihoods(as_sets(labels, 4), 4, q), np.maximum(expected, UNLIKELIEST))
    pair = np.array([[True, False, True, False]])
    both = q[:, 0] * q[:, 2]
    np.testing.assert_allclose(label_likelihoods(pair, 4, q)[0], np.maximum(both / both.max(), UNLIKELIEST))
    ordinary = label_likelihoods(is_rows([2], 4), 4, q)  # it says what the example is, whatever Q
    np.testing.assert_allclose(ordinary, [[UNLIKELIEST, UNLIKELIEST, 1, UNLIKELIEST]])


def test_likelihoods_by_an_objective_are_those_it_trains_with():
    rows = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1]], dtype=bool)
    answers = label_likelihoods(rows, 4, None, Likelihood(4, error_rate=0.1))
    np.testing.assert_allclose(answers, np.where(rows, 1 / 9, 1.0), rtol=1e-6)
    one = np.array([0, 3, 1])
    np.testing.assert_allclose(label_likelihoods(one, 4, None, objectives.Forward(4)), label_likelihoods(one, 4, None))
    q = random_transition(4, 2, diagonal=0.1)
    found = label_likelihoods(one, 4, None, objectives.Forward(4, q))
    np.testing.assert_allclose(found, label_likelihoods(one, 4, q), rtol=1e-5)


# ---- neighbours -----------------------------------------------------------------------------------------------


def test_rows_without_labels_help():
    """Two bent bands, labelled at one end of each: what is near along a band is not what is near."""
    angle = np.linspace(0, np.pi, 60)
    bands = [np.c_[np.cos(angle), np.sin(angle)], np.c_[1 - np.cos(angle), 0.4 - np.sin(angle)]]
    X = torch.tensor(StandardScaler().fit_transform(np.concatenate(bands)), dtype=torch.float32)
    y = np.repeat([0, 1], 60)
    labelled = np.r_[0:60:4, 60:120:4][np.r_[0:8, 15:23]]  # the first half of each
    unlabelled = np.setdiff1d(np.arange(120), labelled)
    told = 1 - y[labelled]
    _, parts = split(np.random.default_rng(0), len(labelled), 8, 2)
    scores = []
    for rest in (unlabelled[:0], unlabelled):
        member, _ = Neighbours.train(Examples(X[labelled], told, None, 2, None, X[rest]), parts)
        scores.append((member.probabilities(X).argmax(axis=1) == y).mean())
    assert scores[1] > 0.85
    assert scores[0] < 0.9


def test_far_away_is_no_nearer_than_farthest():
    X, _, labels = blobs()
    member, _ = TRAIN["neighbours"](X, labels)
    far = torch.tensor([[1e6, 0, 0, 0], [1e3, 0, 0, 0]])
    p = member.probabilities(far)
    np.testing.assert_array_equal(p[0], p[1])
    same, _ = TRAIN["neighbours"](torch.ones(N, 4), labels)  # all at one place
    assert np.isfinite(same.probabilities(X)).all()


# ---- predictions of parts -------------------------------------------------------------------------------------


def test_predictions_of_parts_are_put_where_they_belong():
    parts = [np.array([3, 1]), np.array([1, 0]), np.array([0, 1])]
    found = collect(((rows, np.array([[i, row] for row in rows])) for i, rows in enumerate(parts)), 5)
    assert found.shape == (3, 5, 2)
    expected = np.full((3, 5, 2), np.nan)
    expected[0, [3, 1, 0]] = [[0, 3], [0, 1], [1, 0]]
    expected[1, [1, 0]] = [[1, 1], [2, 0]]
    expected[2, 1] = [2, 1]
    np.testing.assert_array_equal(found, expected)


# ---- the discriminant -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [3, 10])
def test_a_column_that_is_the_class_is_enough(n_classes):
    """Rows of a class are all alike, so that nothing varies within one."""
    y = np.arange(80 * n_classes) % n_classes
    X = torch.tensor(StandardScaler().fit_transform(np.eye(n_classes)[y]), dtype=torch.float32)
    _, parts = split(np.random.default_rng(0), len(y), 5, len(y) // 5)
    told = Examples(X, complement(y, n_classes, random_state=0), None, n_classes, None, X[:0])
    member, held_out = Neighbours.train(told, parts, None, 4)
    assert (member.probabilities(X).argmax(axis=1) == y).all()
    assert (np.nanmean(held_out, axis=0).argmax(axis=1) == y).all()


def test_what_is_kept_is_what_was_judged():
    """Weights of tight classes are large, and nearly cancel."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = torch.tensor(1e-4 * (rng.normal(size=(3, 4))[y] + 0.05 * rng.normal(size=(300, 4))), dtype=torch.float32)
    _, parts = split(rng, 300, 5, 60)
    member, held_out = Neighbours.train(
        Examples(X, complement(y, 3, random_state=0), None, 3, None, X[:0]), parts, None, 4
    )
    judged = (np.nanmean(held_out, axis=0).argmax(axis=1) == y).mean()
    assert abs((member.probabilities(X).argmax(axis=1) == y).mean() - judged) < 0.05


def test_heavy_rows_that_disagree_leave_numbers():
    X, labels = torch.zeros(40, 2), np.arange(40) % 2
    weight = np.where(np.arange(40) < 4, 1e4, 1.0)
    for turns in (0, 2):
        member, held_out = Neighbours.train(Examples(X, labels, weight, 2, None, X[:0]), [np.arange(4)], None, turns)
        assert np.isfinite(member.probabilities(X)).all()
        assert np.isfinite(held_out[0, :4]).all()


def test_labels_that_no_class_can_have_leave_numbers():
    q = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])
    impossible = np.array([[True, True, False, False]])
    assert (label_likelihoods(impossible, 4, q, objectives.Forward(4, transition=q)) > 0).all()


def test_few_labels_that_agree_do_not_make_shares():
    np.testing.assert_allclose(class_shares(np.array([0, 0]), 3, None), 1 / 3)
