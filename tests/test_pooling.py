"""Members are mixed by labels that they have not seen, and the mixture is judged by labels that had no part in it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from helpers import Largest, as_sets, random_transition
from naysayer import complement, metrics
from naysayer.measure.intervals import Interval
from naysayer.models import pooling
from naysayer.models.pooling import HeldOut, Pool, Predicted, mixture_weights, temper
from naysayer.objectives import forward


def simplex(rng, *shape):
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def skilled(rng, y, n_classes, skill):
    """Probabilities that know something of the class."""
    return (1 - skill) * simplex(rng, len(y), n_classes) + skill * np.eye(n_classes)[y]


def made(n=400, n_classes=4, skills=(0.3, 0.0, 0.0), times=1, seed=0, **options):
    """Members with these skills, the truth, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    members = [np.stack([skilled(rng, y, n_classes, skill) for _ in range(times)]) for skill in skills]
    return members, y, complement(y, n_classes, random_state=seed, **options)


def judge(members, labels, n_classes=4, transition=None, n_runs=5, seed=7, **options):
    return HeldOut(members, labels, n_classes, transition, n_runs, np.random.default_rng(seed), **options)


def test_likelihoods_of_sets_never_form_all_terms(monkeypatch):
    """20,000 examples of a hundred classes took 1.6 GB at a time."""
    n, n_classes = 100, 40
    q = random_transition(n_classes)
    members, _, labels = made(n, n_classes, n_labels=2)
    found = []
    for at_once in (forward._AT_ONCE, 4 * n * n_classes):
        monkeypatch.setattr(forward, "_AT_ONCE", at_once)
        with Largest() as largest:
            found.append((judge(members, labels, n_classes, q)._likelihood, largest.bytes))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    assert found[0][1] >= n * n_classes**2 * 8
    assert found[1][1] <= 4 * n * n_classes * 8


# ---- tempering and mixing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.05, 0.5, 1.0, 3.0])
def test_tempered_probabilities_are_powers_of_them(t):
    p = 0.01 + 0.96 * simplex(np.random.default_rng(0), 20, 4)
    p /= p.sum(axis=1, keepdims=True)
    powers = p**t
    np.testing.assert_allclose(temper(p, t), powers / powers.sum(axis=1, keepdims=True), rtol=1e-12)
    assert (temper(p, t).argmax(axis=1) == p.argmax(axis=1)).all()
    assert (t >= 1) == (temper(p, t).max(axis=1) >= p.max(axis=1) - 1e-12).all()


def test_what_a_member_rules_out_stays_possible():
    sure = temper(np.array([[1.0, 0.0, 0.0]], dtype=np.float32), 1.0)
    assert 0 < sure[0, 1] == sure[0, 2] < pooling.LEAST


def test_mixtures_are_probabilities_and_what_is_left_is_uniform():
    rng = np.random.default_rng(0)
    members = [simplex(rng, 30, 5) for _ in range(3)]
    pool = Pool(np.array([0.5, 1.0, 2.0]), np.array([0.5, 0.0, 0.2]))
    mixed = pool.mix(members)
    np.testing.assert_allclose(mixed.sum(axis=1), 1)
    np.testing.assert_allclose(mixed, 0.5 * temper(members[0], 0.5) + 0.2 * temper(members[2], 2.0) + 0.3 / 5)
    np.testing.assert_allclose(Pool(np.ones(3), np.zeros(3)).mix(members), 0.2)
    assert Pool(np.array([6.0]), np.array([1 + 2**-52])).mix([np.eye(5)]).min() > 0  # weights that were rounded up


@pytest.mark.parametrize("belief", [(0.1, 0.0, 0.0), (2.0, 2.0, 0.0), (5.0, 0.5, 1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_mixture_weights_are_the_best_of_all(belief, seed):
    rng = np.random.default_rng(seed)
    likelihood, count = rng.uniform(0.05, 1, (3, 25)), rng.uniform(0.2, 3, 25)
    likelihood[seed % 3] += 0.3
    belief = np.array(belief)

    def objective(w):
        believed = np.where(belief[:, None] > 0, belief[:, None] * np.log(np.maximum(w, 1e-300)), 0).sum(axis=0)
        return count @ np.log(likelihood.T @ w) + believed

    steps = np.linspace(0, 1, 101)
    grid = np.stack([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-9], axis=1).clip(0, 1)
    values = objective(grid)
    found = mixture_weights(likelihood, belief, count, n_steps=2000)
    assert found.sum() == pytest.approx(1)
    assert objective(found[:, None])[0] >= values.max() - 1e-6
    np.testing.assert_allclose(found, grid[:, values.argmax()], atol=0.02)
    usual = mixture_weights(likelihood, belief, count)
    assert objective(usual[:, None])[0] >= values.max() - 0.02  # the steps that are taken are enough


# ---- weights from held-out labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_labels", [1, 2])
def test_who_knows_something_has_the_weight(n_labels):
    members, y, labels = made(skills=(0.0, 0.4, 0.0), n_labels=n_labels)
    pool = judge(members, labels).pool()
    assert pool.weights[1] > 0.7
    assert pool.weights[1] > 5 * max(pool.weights[0], pool.weights[2])
    predicted = pool.mix([p[0] for p in members]).argmax(axis=1)
    assert (predicted == y).mean() > (simplex(np.random.default_rng(1), 400, 4).argmax(axis=1) == y).mean() + 0.3


def test_where_nothing_is_known_the_pool_is_not_sure_of_itself():
    members, _, labels = made(skills=(0.0, 0.0, 0.0))
    before = np.mean([p.max(axis=-1).mean() for p in members])
    after = judge(members, labels).pool().mix([p[0] for p in members]).max(axis=1).mean()
    assert before > 0.5
    assert after < 0.32  # of 0.25, to which it comes as labels grow
    sure = [np.eye(4)[np.random.default_rng(s).integers(0, 4, 400)][None] for s in (11, 12, 13)]
    assert judge(sure, labels).pool().mix([p[0] for p in sure]).max(axis=1).mean() < 0.4


def test_light_members_are_left_out_and_one_always_stays():
    members, _, labels = made(n=4000, skills=(0.6, 0.0, 0.0))
    weights = judge(members, labels).pool().weights
    assert weights[0] > 0.9
    assert weights[1] == weights[2] == 0
    alone = judge(members[1:2], labels).pool()
    assert alone.weights.shape == (1,)
    assert alone.weights[0] > 0


def test_belief_decides_where_labels_do_not():
    members, _, labels = made(skills=(0.5,))
    weights = judge(members * 2, labels, belief=[1.0, 3.0]).pool().weights
    assert weights[1] / weights[0] == pytest.approx(2.5, abs=0.6)
    weights = judge(members * 2, labels, belief=[2.0, 2.0]).pool().weights
    assert weights[0] == pytest.approx(weights[1])
    members, _, labels = made(n=4000, skills=(0.6, 0.0))
    assert judge(members, labels, belief=[1.0, 9.0]).pool().weights[0] > 0.9  # and not where they do


@pytest.mark.parametrize("q", [None, random_transition(4, 1, diagonal=0.1)])
@pytest.mark.parametrize("encode", [np.asarray, lambda labels: as_sets(labels, 4)], ids=["single", "rows"])
def test_renaming_classes_renames_the_result(q, encode):
    members, _, labels = made(n=150, skills=(0.5, 0.2, 0.0), times=2, transition=q)
    order = np.array([2, 0, 3, 1])  # the class that is called k now
    new = np.argsort(order)
    one = judge(members, encode(labels), transition=q)
    renamed_q = None if q is None else q[np.ix_(order, order)]
    other = judge([p[..., order] for p in members], encode(new[labels]), transition=renamed_q)
    for mine, theirs in zip(one.pool(), other.pool()):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    mine, theirs = one.predict(), other.predict()
    np.testing.assert_array_equal(new[mine.classes], theirs.classes)
    assert mine.gain == pytest.approx(theirs.gain, abs=1e-9)
    assert mine.wider == pytest.approx(theirs.wider)


def test_a_weight_of_two_is_a_row_twice(monkeypatch):
    members, _, labels = made(n=600, skills=(0.35, 0.3, 0.0))
    weight = np.where(np.arange(600) < 300, 2.0, 1.0)
    twice = np.concatenate([np.arange(600), np.arange(300)])
    weighed = judge(members, labels, sample_weight=weight).pool()

    def repeated():
        return judge([p[:, twice] for p in members], labels[twice]).pool()

    np.testing.assert_allclose(weighed.weights, repeated().weights, atol=0.08)
    for belief in ("BELIEF", "ALIKE"):  # it is so many of the labels at hand, and weights do not make more of them
        monkeypatch.setattr(pooling, belief, 1.5 * getattr(pooling, belief))
    np.testing.assert_allclose(weighed.weights, repeated().weights, atol=1e-9)
    np.testing.assert_allclose(weighed.temperatures, repeated().temperatures)
    monkeypatch.undo()
    same = judge(members, labels, sample_weight=np.full(600, 3.0)).pool()
    np.testing.assert_allclose(same.weights, judge(members, labels).pool().weights, atol=1e-12)


def test_rows_that_do_not_count_have_no_say():
    members, y, labels = made(n=600, skills=(0.4, 0.0))
    wrong = np.where(np.arange(600) < 300, labels, y)  # the second half says that it is not what it is
    weight = np.where(np.arange(600) < 300, 1.0, 1e-9)
    assert judge(members, wrong, sample_weight=weight).pool().weights[0] > 0.7
    assert judge(members, wrong).pool().weights[0] < 0.5
    members, _, labels = made(n=600, skills=(0.4,), times=4)
    members[0][:, 300:] = members[0][:1, 300:]  # of these more runs tell no more
    assert judge(members, labels, n_runs=80, sample_weight=weight).predict().gain > 0.01
    assert judge(members, labels, n_runs=80, sample_weight=weight[::-1]).predict().gain < 1e-6


def test_more_rows_than_weights_need_are_judged_all(monkeypatch):
    members, y, labels = made(n=500, skills=(0.5, 0.0))
    monkeypatch.setattr(pooling, "FIT_ROWS", 200)
    some = judge(members, labels)
    assert some._likelihood.shape[-1] == 200
    predicted = some.predict()
    assert len(predicted.classes) == 500
    assert (predicted.classes == y).mean() > 0.6


def test_one_row_is_judged_without_a_warning():
    members, _, labels = made(n=1, skills=(0.5, 0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(judge(members, labels).predict().classes) == 1


# ---- rows and times -------------------------------------------------------------------------------------------


def test_only_rows_that_every_member_held_out_are_judged():
    members, _, labels = made(n=60, skills=(0.3, 0.1, 0.0), times=2)
    members[0][:, :10] = np.nan
    members[0][1, 10:20] = np.nan
    members[1][0, 20:25] = np.nan
    found = judge(members, labels)
    np.testing.assert_array_equal(found.rows, np.arange(10, 60))
    np.testing.assert_array_equal(found.known.sum(axis=0), np.where(np.arange(10, 60) < 25, 1, 2))
    np.testing.assert_allclose(found.together[0][0], members[0][0, 10])
    np.testing.assert_allclose(found.together[2][20], members[2][:, 30].mean(axis=0))
    np.testing.assert_array_equal(found.predict().rows, np.arange(10, 60))


def test_members_may_have_held_out_rows_fewer_times():
    """As a forest has, and what ran out of time."""
    members, _, labels = made(n=60, skills=(0.3, 0.1, 0.0), times=4)
    fewer = [members[0], members[1][:3], members[2][:1]]
    fewer[1][2, 30:] = np.nan
    found = judge(fewer, labels)
    np.testing.assert_array_equal(found.rows, np.arange(60))
    np.testing.assert_array_equal(found.known.sum(axis=0), np.where(np.arange(60) < 30, 4, 3))
    assert np.isfinite(found.predict().gain)


def test_one_time_held_out_tells_of_no_gain_and_several_do():
    members, _, labels = made(n=300, skills=(0.3, 0.3), times=4)
    assert judge([p[:1] for p in members], labels, n_runs=1).predict().gain == 0
    assert judge([p[:1] for p in members], labels, n_runs=20).predict().gain == 0  # it cannot be told
    assert judge(members, labels, n_runs=4).predict().gain == 0  # all runs that there are judged
    few, many = (judge(members, labels, n_runs=n).predict().gain for n in (8, 80))
    assert 0 < few < many < 0.3


def test_bounds_go_with_the_gain_and_are_wider():
    predicted = Predicted(
        np.arange(3), np.zeros(3, dtype=int), gain=0.05, wider=1.2, probabilities=np.eye(3, dtype=np.float32)
    )
    assert predicted.interval(Interval(0.6, 0.5, 0.7)) == pytest.approx((0.65, 0.53, 0.77))
    estimate, low, high = predicted.interval(Interval(0.97, 0.9, 1.0))
    assert estimate == pytest.approx(1.02)  # unbiased, so it may leave [0, 1]; bounds may not
    assert (low, high) == (pytest.approx(1.0 - 1.2 * 0.07), 1.0)  # moved with the estimate to what can be
    same = Predicted(
        np.arange(3), np.zeros(3, dtype=int), gain=0.0, wider=1.0, probabilities=np.eye(3, dtype=np.float32)
    )
    assert same.interval(Interval(0.6, 0.5, 0.7)) == pytest.approx((0.6, 0.5, 0.7))


def test_who_is_sure_has_narrower_bounds():
    wider = [judge(*made(skills=(skill,))[::2]).predict().wider for skill in (0.0, 0.9)]
    assert np.sqrt(2) > wider[0] > wider[1] >= 1


# ---- honesty --------------------------------------------------------------------------------------------------


def test_a_label_has_no_part_in_what_it_judges():
    members, _, labels = made(n=60, skills=(0.2, 0.1, 0.0, 0.0))
    before = judge(members, labels)
    predicted, likelihoods = before.predict(), before._likelihood
    for row in range(0, 60, 7):
        changed = labels.copy()
        changed[row] = (labels[row] + 1) % 4
        after = judge(members, changed)
        assert (after._likelihood != likelihoods).any()
        assert after.predict().classes[row] == predicted.classes[row]


def test_the_estimate_is_unbiased_and_that_of_a_choice_is_not():
    """Over 150 draws of the labels; tolerance: four standard errors of the mean difference."""
    n, n_classes, rng = 100, 4, np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    members = [skilled(rng, y, n_classes, skill)[None] for skill in (0.15, 0.1, 0.0, 0.0, 0.0, 0.0)]
    each = [p[0].argmax(axis=1) for p in members]
    honest, chosen = [], []
    for seed in range(150):
        labels = complement(y, n_classes, random_state=seed)
        classes = judge(members, labels, seed=seed).predict().classes
        honest.append(metrics.accuracy_score(labels, classes, n_classes) - (classes == y).mean())
        estimates = [metrics.accuracy_score(labels, one, n_classes) for one in each]
        best = int(np.argmax(estimates))
        chosen.append(estimates[best] - (each[best] == y).mean())
    error = np.std(honest) / np.sqrt(len(honest))
    assert error < 0.02
    assert abs(np.mean(honest)) < 4 * error
    assert np.mean(chosen) > 8 * error  # the best of six is not what it seems
