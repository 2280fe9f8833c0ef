"""Judging people: evidence that holds at any time, an honest person hardly ever named, a careless one soon."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from helpers import raises
from naysayer.measure import people
from naysayer.measure.people import ALARM, QUICK_SHARE, TOLERATED, AnswersByPeople, evidence, judge, needed

CHANCES = (0.05, 0.5, 0.915, 1.0)


def nan(n):
    return np.full(n, np.nan)


def said_of(person, yes, n_classes=10, **more):
    """Answers to questions that were drawn uniformly and are the first about their items."""
    n = len(person)
    share = np.full(n, 1 / n_classes)
    none = np.full(n, -1)
    said = AnswersByPeople(
        np.asarray(person), np.asarray(yes, dtype=bool), nan(n), share, share, none, np.ones(n), none,
        nan(n), nan(n), nan(n), nan(n),
    )  # fmt: skip
    return replace(said, **more)


def project(rng, errors, n_each, n_classes, repeat=0.2, behave=None):
    """A project: people take turns; `behave` answers in the place of some of them."""
    n = n_each * len(errors)
    person = np.arange(n) % len(errors)
    true = rng.random(n) < 1 / n_classes
    repeats = np.full(n, -1)
    for i in range(len(errors), n):
        if rng.random() < repeat:
            first = rng.integers(i)
            if repeats[first] < 0:
                repeats[i], true[i] = first, true[first]
    yes = true ^ (rng.random(n) < np.asarray(errors)[person])
    for a, how in (behave or {}).items():
        mine = person == a
        yes[mine] = how(true[mine], rng)
    share = np.where(repeats < 0, 1 / n_classes, np.nan)
    return said_of(person, yes, n_classes, least=share, most=share, repeats=repeats)


def named(said, **options):
    return [a for a, judged in enumerate(judge(said, **options)) if judged.reasons]


# ---- the evidence ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", CHANCES)
def test_no_bet_wins_on_average_by_enumeration(p):
    """Over all outcomes of 6 answers, the mean of what a gambler has is 1 at every f: a fair game."""
    total = np.zeros(len(people._STAKES))
    for outcome in itertools.product((0, 1), repeat=6):
        x = np.array(outcome)
        chance = np.prod(np.where(x == 1, p, 1 - p))
        total += chance * np.prod(1 + people._STAKES[:, None] * (x / p - 1), axis=1)
    np.testing.assert_allclose(total, 1)


@pytest.mark.parametrize("p", [0.2, 0.5])
@pytest.mark.parametrize("n", [4, 9])
def test_the_most_it_ever_was_is_rarely_large_by_enumeration(p, n):
    outcomes = list(itertools.product((False, True), repeat=n))
    chances = [math.prod(p if x else 1 - p for x in outcome) for outcome in outcomes]
    most = [evidence(outcome, p) for outcome in outcomes]
    for a in (0.3, 0.1, 0.01):
        assert sum(c for c, each in zip(chances, most) if each > -math.log(a)) <= a


def test_what_may_happen_must_have_a_probability():
    for wrong in (0.0, 1.1, np.array([0.5, 0.0])):
        with raises("`at_most` must be above 0 and at most 1; got "):
            evidence([True, True], wrong)
    assert evidence([], 0.5) == 0


def test_all_who_may_come_share_one_alarm():
    spent = sum(people._TESTS * math.exp(-needed(a)) for a in range(10_000))
    assert spent == pytest.approx(ALARM, rel=1e-3)
    assert spent < ALARM


# ---- who is named --------------------------------------------------------------------------------------------------


def test_300_noes_at_80_ms_are_named_at_once_and_a_slow_person_is_not():
    rng = np.random.default_rng(0)
    person = np.repeat([0, 1], 300)
    yes = np.where(person == 0, rng.random(600) < 0.1, False)
    seconds = np.where(person == 0, 20 + 40 * rng.random(600), 0.08)
    ann, bob = judge(said_of(person, yes, seconds=seconds))
    assert ann.reasons == []
    assert bob.reasons == [
        "answered 300 of 300 questions within 0.25 seconds, faster than anyone can look",
        "said yes to 0 of 300 questions drawn at random, where 30 or more are expected",
    ]
    assert (bob.seconds, bob.n, bob.n_yes) == (0.08, 300, 0)
    first = np.flatnonzero(person == 1)[:4]  # four of them are enough
    rows = np.concatenate([np.flatnonzero(person == 0), first])
    assert named(said_of(person[rows], yes[rows], seconds=seconds[rows])) == [1]


def test_a_slip_of_the_finger_names_nobody():
    rng = np.random.default_rng(1)
    seconds = np.where(rng.random(2000) < QUICK_SHARE, 0.1, 0.9)
    assert named(said_of(np.zeros(2000, dtype=int), rng.random(2000) < 0.1, seconds=seconds)) == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (lambda true, rng: np.zeros(len(true), dtype=bool), "where 20 or more are expected"),
        (lambda true, rng: np.ones(len(true), dtype=bool), "where 20 or fewer are expected"),
        (lambda true, rng: rng.random(len(true)) < 0.5, "where 20 or fewer are expected"),
    ],
)
def test_one_sided_and_random_clickers_are_named_without_their_speed(how, words):
    said = project(np.random.default_rng(2), [0.02] * 3, 200, 10, repeat=0, behave={1: how})
    judged = judge(said)
    assert [bool(one.reasons) for one in judged] == [False, True, False]
    assert words in judged[1].reasons[0]


def test_who_contradicts_two_others_is_named_and_they_are_not():
    turned = {2: lambda true, rng: ~true}
    rng = np.random.default_rng(3)
    said = project(rng, [0.02] * 3, 150, 2, repeat=0.3, behave=turned)  # of two classes, one-sidedness tells nothing
    judged = judge(said)
    assert [bool(one.reasons) for one in judged] == [False, False, True]
    (why,) = judged[2].reasons
    assert why.startswith("contradicts others at ")
    assert why.endswith(f" of {judged[2].n_with_others} repeated questions")
    assert judged[2].with_others.high < judged[0].with_others.estimate
    assert judged[2].with_self.estimate == 1  # wrong, and always in the same way


def test_of_two_who_contradict_each_other_neither_is_named():
    said = project(np.random.default_rng(4), [0.02] * 2, 200, 2, repeat=0.3, behave={1: lambda true, rng: ~true})
    first, second = judge(said)
    assert first.n_with_others == second.n_with_others > 30
    assert first.with_others == second.with_others
    assert first.with_others.high < 0.3
    assert first.reasons == second.reasons == []


def test_who_contradicts_themselves_is_named_alone():
    said = project(
        np.random.default_rng(5), [0.02], 600, 2, repeat=0.4, behave={0: lambda t, r: r.random(len(t)) < 0.5}
    )
    (judged,) = judge(said)
    assert judged.with_others is None
    assert judged.reasons[-1].startswith("contradicts their own earlier answers at ")


def test_whom_the_owner_left_out_speaks_against_nobody():
    said = project(np.random.default_rng(6), [0.02] * 2, 200, 2, repeat=0.3, behave={1: lambda true, rng: ~true})
    both = replace(said, person=np.where(said.person == 1, 1 + np.arange(len(said.person)) // 200 % 2, 0))
    assert 0 in named(both)  # two against one
    assert 0 not in named(both, left_out=[1, 2])


def suggested(rng, rates, n_each, expected=0.8):
    """Guided questions about the class that a model finds likeliest; the people's shares of no differ."""
    person = np.arange(n_each * len(rates)) % len(rates)
    n = len(person)
    return said_of(
        person, rng.random(n) >= np.asarray(rates)[person], least=nan(n), most=nan(n),
        training=np.arange(n) * 3 // n, expected=np.full(n, expected),
    )  # fmt: skip


def test_who_says_no_to_all_that_a_model_suggests_is_named_beside_others():
    judged = judge(suggested(np.random.default_rng(7), [0.2, 0.2, 1.0], 100))
    assert [bool(one.reasons) for one in judged] == [False, False, True]
    assert judged[2].reasons[0].startswith("said no to 100 of 100 classes that the model found likeliest; others to ")
    assert named(suggested(np.random.default_rng(7), [1.0], 100)) == []  # alone, nobody knows
    assert named(suggested(np.random.default_rng(7), [0.4, 0.0], 300)) == []  # the model expects as much
    assert named(suggested(np.random.default_rng(7), [0.7, 0.7, 0.75], 300)) == []  # a model that is often wrong


# ---- false alarms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_classes", "n_each"), [(2, 60), (3, 25), (10, 60), (30, 150)])
def test_honest_people_are_hardly_ever_named(n_classes, n_each):
    """Five people, two of them as bad as is tolerated, at all of the looks at once; a few answers each."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng([n_classes, seed])
        said = project(rng, [0.0, 0.02, 0.05, TOLERATED, TOLERATED], n_each, n_classes)
        alarms += bool(named(replace(said, seconds=rng.gamma(4, 0.5, len(said.person)) + 0.2)))
    assert (
        alarms <= 2
    )  # 60 projects at 1 in 100: 3 or more come less than once in 40 times, were it as often as allowed


@pytest.mark.parametrize(("errors", "n_each"), [([0.0, 0.02, TOLERATED, TOLERATED], 60), ([0.0, TOLERATED], 150)])
def test_honest_people_are_not_named_beside_a_model_that_improves_and_is_too_sure(errors, n_each):
    for seed in range(40):
        rng, n = np.random.default_rng([n_each, seed]), n_each * len(errors)
        person, when = np.arange(n) % len(errors), np.arange(n) * 4 / n
        training = when.astype(int)
        right = np.array([0.65, 0.75, 0.85, 0.93])[training] - 0.1 * (when % 1)  # what is easy is settled first
        yes = (rng.random(n) < right) ^ (rng.random(n) < np.array(errors)[person])
        more = {"least": nan(n), "most": nan(n), "training": training, "expected": np.full(n, 0.95)}
        assert named(said_of(person, yes, **more)) == []


@pytest.mark.parametrize("bad", [lambda true, rng: np.zeros(len(true), bool), lambda true, rng: ~true])
def test_beside_somebody_bad_honest_people_are_not_named(bad):
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        assert set(named(project(rng, [0.05] * 4, 100, 5, behave={0: bad}))) <= {0}


def test_one_sidedness_allows_for_what_earlier_answers_were_worth():
    """Somebody ruled out the true class: what is left is asked about with a higher chance, and gets no yes."""
    n = 400
    said = said_of(np.zeros(n, dtype=int), np.random.default_rng(8).random(n) < 0.1, most=np.full(n, 0.5))
    assert named(said) == []
    assert named(replace(said, least=np.full(n, 0.5))) == [0]


# ---- agreement ------------------------------------------------------------------------------------------------------


def test_agreement_is_weighted_as_if_questions_were_drawn_at_random():
    """Half of the pairs are about questions that come ten times as often as they would; there, people agree."""
    n = 400
    repeats = np.where(np.arange(n) % 2, np.arange(n) - 1, -1)
    easy = np.arange(n) < 200
    yes = np.where(easy, False, np.arange(n) % 2 == 1)
    said = said_of(np.arange(n) % 2, yes, 2, repeats=repeats, weight=np.where(easy, 0.1, 1.0))
    assert judge(said)[0].with_others.estimate == pytest.approx(0.1 / 1.1)
    assert judge(replace(said, weight=np.ones(n)))[0].with_others.estimate == pytest.approx(0.5)


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_agreement_hold_the_truth(weighted):
    rng, held = np.random.default_rng(9), 0
    for _ in range(200):
        kind = rng.random(60) < 0.8  # what a guide prefers, and people agree on
        agree = rng.random(60) < np.where(kind, 0.95, 0.6)
        weight = np.where(kind, 0.25, 4.0) if weighted else np.ones(60)  # then both kinds count alike, 1 to 4
        truth = (0.8 * 0.25 * 0.95 + 0.2 * 4 * 0.6) / (0.8 * 0.25 + 0.2 * 4) if weighted else 0.8 * 0.95 + 0.2 * 0.6
        yes = np.stack([np.zeros(60, bool), ~agree], axis=1).ravel()
        repeats = np.where(np.arange(120) % 2, np.arange(120) - 1, -1)
        found = judge(said_of(np.arange(120) % 2, yes, 2, repeats=repeats, weight=np.repeat(weight, 2)))[0].with_others
        held += found.low <= truth <= found.high
    assert held >= 0.93 * 200
