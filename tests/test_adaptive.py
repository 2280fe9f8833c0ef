"""Estimates from adaptive questions: unbiased by enumeration, intervals that hold whenever asking stops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from helpers import raises
from naysayer.measure import adaptive
from naysayer.measure.adaptive import anytime_interval, contributions, corrected, latest_interval


def adaptive_design(past, n_items, n_classes):
    """Chances of items and classes and a model's guesses, which depend on all that was said before, each in its way."""
    votes = np.ones((n_items, n_classes))
    for turn, (i, k, yes) in enumerate(past):
        votes[i, k] *= (3.0 + turn) if yes else 0.3
        votes[(i + 1) % n_items] *= 0.8 if yes else 1.1
    rho = votes.sum(axis=1) ** 2
    pi = votes**1.5 + 0.05
    guess = 1.3 * votes / votes.sum(axis=1, keepdims=True) - 0.1  # wrong, and not even a distribution
    return rho / rho.sum(), pi / pi.sum(axis=1, keepdims=True), guess


def expected_means(y, n_classes, n_questions, error_rate, loss):
    """The mean of the average of m_t over all draws and answers, for a loss (N, K), and the total probability."""
    n_items, total, mean = len(y), 0.0, 0.0

    def go(past, probability, so_far):
        nonlocal total, mean
        if len(past) == n_questions:
            total += probability
            mean += probability * so_far / n_questions
            return
        rho, pi, guess = adaptive_design(past, n_items, n_classes)
        base = (loss * guess).sum() / n_items
        for i, k, yes in product(range(n_items), range(n_classes), (False, True)):
            right = 1.0 - error_rate if (y[i] == k) == yes else error_rate
            if right:
                z = corrected(yes, error_rate)
                m = contributions(z, n_items * rho[i] * pi[i, k], guess[i, k], loss[i, k], base)
                go([*past, (i, k, yes)], probability * rho[i] * pi[i, k] * right, so_far + float(m))

    go([], 1.0, 0.0)
    return mean, total


@pytest.mark.parametrize("error_rate", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("y", [(0, 2), (1, 1), (2, 0)])
def test_shares_accuracies_and_risks_are_unbiased_whatever_was_asked_and_why(y, error_rate):
    rng = np.random.default_rng(sum(y))
    predicted = np.array([2, 1])
    losses = [
        np.tile(np.eye(3)[2], (2, 1)),  # the share of class 2
        np.eye(3)[predicted],  # the accuracy of predictions
        rng.normal(size=(2, 3)),  # any risk
    ]
    for loss in losses:
        mean, total = expected_means(y, 3, 2, error_rate, loss)
        assert total == pytest.approx(1)
        assert mean == pytest.approx(loss[np.arange(2), list(y)].mean(), abs=1e-12)


def test_three_questions_are_unbiased_too():
    loss = np.eye(2)[[0, 1]]
    mean, _ = expected_means((0, 0), 2, 3, 0.1, loss)
    assert mean == pytest.approx(0.5, abs=1e-12)


def test_the_enumeration_can_fail():
    """A chance that is not the true one shows."""
    mean = 0.0
    for k, yes in product(range(2), (False, True)):
        probability = (0.7, 0.3)[k] * (float(yes) if k == 0 else float(not yes))
        mean += probability * float(contributions(corrected(yes, 0.0), 0.5, 0.2, float(k == 0), 0.2))
    assert abs(mean - 1.0) > 0.1


def test_a_good_model_takes_variance_away():
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=4000)
    asked = rng.integers(10, size=4000)
    z, right = (asked == y).astype(float), np.where(rng.random(4000) < 0.9, y, (y + 1) % 10)
    about, chance = asked == right, np.full(4000, 0.1)
    plain = contributions(z, chance, np.full(4000, 0.5), about, 0.5)
    informed = contributions(z, chance, np.full(4000, 0.9), about, 0.9)
    assert informed.var() < plain.var() / 2


# ---- simulations -------------------------------------------------------------------------------------------------


def simulate(rng, policy, n_classes, error_rate, n_items=120, n_questions=240):
    """Values, ranges and kinds for an accuracy and the share of class 0, and both truths.

    The policy looks at all answers so far: random questions, guided ones, or guided ones from the middle on.
    """
    y = rng.integers(n_classes, size=n_items)
    y[: n_items // 4] = 0
    guess = np.full((n_items, n_classes), 0.15 / (n_classes - 1))
    predicted = np.where(rng.random(n_items) < 0.85, y, rng.integers(n_classes, size=n_items))
    guess[np.arange(n_items), predicted] = 0.85
    top, lift = 1.0 / (1.0 - 2.0 * error_rate), np.log((1 - max(error_rate, 0.01)) / max(error_rate, 0.01))
    out = {"accuracy": [], "share": []}
    now = guess.copy()
    for t in range(n_questions):
        guided = policy == "guided" or (policy == "switched" and t >= n_questions // 2)
        if t % 50 == 0:
            known = now.copy()  # a model that is trained now and then
            bases = {"accuracy": known[np.arange(n_items), predicted].mean(), "share": known[:, 0].mean()}
        floor, item_floor = (0.3 / n_classes, 0.3) if guided else (1.0 / n_classes, 1.0)
        rho, pi = np.full(n_items, 1.0 / n_items), np.full(n_classes, floor)
        if guided:
            open_ = now.max(axis=1) < 0.95
            rho *= item_floor if open_.any() else 1.0
            rho[open_] += (1 - item_floor) / max(open_.sum(), 1)
        i = rng.choice(n_items, p=rho / rho.sum())
        if guided:
            pi[now[i].argmax()] += 0.7
        k = rng.choice(n_classes, p=pi)
        yes = (y[i] == k) ^ (rng.random() < error_rate)
        z, chance = float(corrected(yes, error_rate)), n_items * rho[i] * pi[k]
        for target, loss in (("accuracy", predicted[i] == k), ("share", k == 0)):
            m = float(contributions(z, chance, known[i, k], loss, bases[target]))
            reach = top / (item_floor * floor)
            out[target].append((m, bases[target] - reach, bases[target] + reach, int(guided)))
        log = np.log(now[i] + 1e-9)
        log[k] += lift if yes else -lift
        now[i] = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    truth = {"accuracy": (predicted == y).mean(), "share": (y == 0).mean()}
    return {target: (np.array(found), truth[target]) for target, found in out.items()}


def worst_miss(found, truth, looks):
    """Whether the interval misses at any of several looks: as one does who stops when it suits."""
    for n in looks:
        m, low, high, kind = found[:n].T
        interval = anytime_interval(m, low, high, kind=kind.astype(int))
        if not interval.low <= truth <= interval.high:
            return True
    return False


@pytest.mark.parametrize("policy", ["random", "guided", "switched"])
@pytest.mark.parametrize(("n_classes", "error_rate"), [(3, 0.05), (10, 0.0)])
def test_intervals_hold_at_every_look(policy, n_classes, error_rate):
    rng = np.random.default_rng([n_classes, len(policy)])
    missed = {"accuracy": 0, "share": 0}
    for _ in range(25):
        for target, (found, truth) in simulate(rng, policy, n_classes, error_rate).items():
            missed[target] += worst_miss(found, truth, (20, 60, 120, 240))
    assert max(missed.values()) <= 3  # of 25, 1.25 are expected at most


def test_of_a_mean_that_changes_the_latest_counts():
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.random(600) < 0.6, rng.random(3000) < 0.9]).astype(float)
    assert anytime_interval(values, 0, 1).high < 0.9
    latest = latest_interval(values, 0, 1)
    assert latest.low < 0.9 < latest.high


@pytest.mark.parametrize(("n", "start"), [(127, 0), (128, 64), (256, 64), (257, 91), (1024, 256), (1025, 362)])
def test_latest_windows_are_as_stated(n, start):
    rng = np.random.default_rng(n)
    values, low, expected = rng.random(n), -rng.random(n), np.linspace(0.5, 0.6, n)
    found = latest_interval(values, low, 1.5, confidence=0.9)
    assert found.low <= found.estimate <= found.high
    values[:start] = 0.0
    assert latest_interval(values, low, 1.5, confidence=0.9) == found  # none of these counts
    values[start : start + 20] = 1.5
    assert latest_interval(values, low, 1.5, confidence=0.9).low > found.low
    # What the mean gained since comes on top: nothing for the lower bound, and not more than it gained in all.
    found = latest_interval(values, low, 1.5, confidence=0.9)
    risen = latest_interval(values, low, 1.5, expected=expected, confidence=0.9)
    assert risen.low == found.low
    assert found.high < risen.high < found.high + 0.6 - expected[start]
    assert latest_interval(values, low, 1.5, expected=-expected, confidence=0.9) == found


@pytest.mark.parametrize("mean", [np.full(8, 0.6), np.linspace(0.2, 0.8, 8), np.repeat([0.1, 0.6], 4)])
def test_all_windows_together_are_one_fair_game(mean, monkeypatch):
    """By enumeration of all lists of eight values 0 or 1; windows begin after 0, 2, 3, 4, ..."""
    monkeypatch.setattr(adaptive, "_FIRST", 2)
    games = []
    monkeypatch.setattr(adaptive, "_bounds", lambda *given: games.append(given) or (0.0, 1.0))
    expected = np.zeros(2)
    for values in product([0.0, 1.0], repeat=8):
        latest_interval(values, 0, 1, expected=mean)
        m, raised, _, _, stakes, shares, _ = games.pop()
        bets = 0.75 * np.minimum(1.0, stakes)
        won = [shares @ np.prod(1 + bets * by, axis=1) for by in (m - mean[-1], mean[-1] - raised)]
        expected += np.prod(np.where(m == 1, mean, 1 - mean)) * np.array(won)
    assert shares.sum() < 1
    if (mean == mean[0]).all():
        assert expected == pytest.approx([shares.sum()] * 2)
    assert (expected <= shares.sum() + 1e-9).all()


def test_bounds_of_a_rising_mean_hold_at_every_look():
    rng, missed = np.random.default_rng(4), 0
    mean = np.repeat(np.linspace(0.7, 0.98, 8), 50)
    for _ in range(40):
        values = (rng.random(400) < mean).astype(float)
        looks = [(n, latest_interval(values[:n], 0, 1, expected=mean[:n])) for n in (60, 120, 180, 250, 300, 400)]
        missed += any(not found.low <= mean[n - 1] <= found.high for n, found in looks)
    assert missed <= 4  # of 40, 2 are expected at most


@pytest.mark.parametrize(("first", "then"), [(0.02, 0.5), (0.3, 0.6)])
def test_the_upper_bound_holds_where_the_mean_rises_at_once(first, then):
    """Values that varied little weigh most, and say the least of what is true now."""
    rng, missed = np.random.default_rng(6), 0
    mean = np.repeat([first, then], [1500, 500])
    for _ in range(20):
        values = (rng.random(2000) < mean).astype(float)
        looks = [(n, latest_interval(values[:n], 0, 1, expected=mean[:n])) for n in (1501, 1600, 1800, 2000)]
        missed += any(not found.low <= mean[n - 1] <= found.high for n, found in looks)
    assert missed <= 3  # of 20, 1 is expected at most
    assert looks[-1][1].high < then + 0.25


def test_the_interval_narrows_and_can_miss():
    rng = np.random.default_rng(1)
    values = (rng.random(3000) < 0.9).astype(float)
    few, many = anytime_interval(values[:300], 0, 1), anytime_interval(values, 0, 1)
    assert many.high - many.low < few.high - few.low < 0.2
    assert not many.low <= 0.8 <= many.high
    assert many.low <= many.estimate <= many.high


def test_nothing_is_known_without_answers():
    assert anytime_interval([], 0, 1) == latest_interval([], 0, 1) == (0.5, 0.0, 1.0)


def test_what_was_given_must_hold():
    with raises("an error rate must be from 0 to 0.45; got 0.5; at 0.5 answers say nothing"):
        corrected([1], 0.5)
    with raises("a question must have been drawn with a chance above 0; got 0"):
        contributions([1.0], [0.0], [0.5], [1.0], [0.5])
    with raises("each value must lie between `low` and `high`; 2 at 1 is not in 0 to 1"):
        anytime_interval([1.0, 2.0], 0, 1)
