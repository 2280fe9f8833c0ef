"""Surveys: what a file may say, what an answer gives away, and estimates that are unbiased with honest intervals."""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from helpers import raises
from naysayer import complement, metrics, transition
from naysayer.collect.database import StoreError
from naysayer.measure import planning
from naysayer.survey import privacy, results
from naysayer.survey import store as survey_store
from naysayer.survey.privacy import (
    MODES,
    equal_epsilon,
    options_left,
    privacy_failure,
    privacy_loss,
    respondents_needed,
    subset_size,
    truth_probability,
)
from naysayer.survey.questions import EPSILONS, Option, Survey, SurveyQuestion, read_survey
from naysayer.survey.store import SurveyStore

WAYS = [
    ("complementary", None),
    ("calibrated", 0.5),
    ("calibrated", 2.0),
    ("randomised_response", 1.0),
    ("subset", 0.1),
    ("subset", 1.0),
    (None, None),
]


def question(n_options, mode=None, epsilon=None, name="q"):
    options = tuple(Option(f"{name}{k}", f"Option {k}") for k in range(n_options))
    return SurveyQuestion(name, "Which?", options, mode, epsilon)


def ask(*questions, minimum=10):
    return Survey("A survey", "", questions, minimum)


def outcome_codes(q):
    """The codes of all that can be stored."""
    return np.array([q.code(q.stored(places)) for places in q.outcomes])


def draw(q, y, rng):
    """What the devices of people with the answers y store."""
    rows = np.cumsum(q.transition, axis=1)[y]
    return outcome_codes(q)[(rng.random(len(y))[:, None] > rows).sum(axis=1).clip(max=len(q.outcomes) - 1)]


# ---- the file -------------------------------------------------------------------------------------------------

GOOD = """
title = "Lunch"
text = "Two questions."
[[questions]]
id = "diet"
text = "What do you eat?"
kind = "public"
options = ["All", "No meat", {id = "vegan", text = "No animals"}]
[[questions]]
id = "paid"
text = "Who paid?"
kind = "private"
options = ["Me", "You", "Them"]
[[questions]]
id = "stolen"
text = "Ever left without paying?"
kind = "private"
mode = "randomised_response"
epsilon = 1
options = ["Yes", "No"]
"""


@pytest.fixture
def write(tmp_path):
    """Write a survey file: GOOD, with one text in it replaced by another."""

    def change(old="", new="", text=GOOD):
        assert old in text
        path = tmp_path / "survey.toml"
        path.write_text(text.replace(old, new, 1), encoding="utf8")
        return path

    return change


def test_a_survey_file_becomes_questions(write):
    survey = read_survey(write())
    assert (survey.title, survey.text) == ("Lunch", "Two questions.")
    diet, paid, stolen = survey.questions
    assert diet == SurveyQuestion(
        "diet",
        "What do you eat?",
        (Option("All", "All"), Option("No meat", "No meat"), Option("vegan", "No animals")),
    )
    assert [q.private for q in survey.questions] == [False, True, True]
    assert [q.says for q in survey.questions] == ["is", "not", "drawn"]
    assert (paid.mode, paid.epsilon, stolen.mode, stolen.epsilon) == (*WAYS[0], *WAYS[3])
    np.testing.assert_array_equal(diet.transition, np.eye(3))
    np.testing.assert_array_equal(paid.transition, transition.uniform(3))
    assert survey.minimum == 10
    assert read_survey(write('text = "Two', 'minimum = 25\ntext = "Two')).minimum == 25
    assert read_survey(write(text="\ufeff" + GOOD)) == survey  # Windows marks the beginning of a file
    assert survey.question("paid") is paid
    with raises("the survey has no question 'payd'; did you mean 'paid'?"):
        survey.question("payd")


def test_the_example_is_a_survey_with_every_mode():
    survey = read_survey("examples/survey.toml")
    assert {q.mode for q in survey.questions} == {None, *MODES}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "Lunch"', "", "`title` of the survey must be a text of 1 to 100 characters; got None"),
        ('title = "Lunch"', 'title = "  "', "`title` of the survey must be a text of 1 to 100 characters; got 0 char"),
        (
            'text = "Two',
            'txt = "Two',
            "the survey must have no key but title, text, minimum, questions; got 'txt'; did you mean",
        ),
        (
            'title = "Lunch"',
            'title = "x"\nminimum = 0',
            "`minimum` of the survey must be a whole number from 1 to 1,000,",
        ),
        ('title = "Lunch"', 'title = "x"\nminimum = true', "the respondents behind any result that is shown; got True"),
        ('title = "Lunch"', 'title = "x"\nminimum = "ten"', "of the survey must be a whole number from 1 to 1,000,000"),
        (
            'mode = "randomised_response"\nepsilon = 1',
            'mode = "subset"',
            "from 0.01 to 10 in the mode subset; got None",
        ),
        ('text = "Two questions."', "text = 3", "`text` of the survey must be a text of 0 to 5000 characters; got 3"),
        ('id = "diet"', "", "question 1 must have an `id` of up to 40 small letters, digits, - and _; got None"),
        ('id = "diet"', 'id = "My Diet"', "question 1 must have an `id` of up to 40 small letters"),
        ('id = "diet"', 'id = "paid"', "each question must have its own `id`; two are called 'paid'"),
        ('text = "Who paid?"', "", "`text` of question 'paid' must be a text of 1 to 5000 characters; got None"),
        (
            'options = ["Me"',
            'answers = ["Me"',
            "question 'paid' must have no key but id, text, options, kind, mode, eps",
        ),
        ('["Me", "You", "Them"]', '["Me"]', "question 'paid' must have a list of 2 to 50 options; got 1"),
        ('["Me", "You", "Them"]', '"Me"', "question 'paid' must have a list of 2 to 50 options; got 'Me'"),
        ('["Me", "You", "Them"]', str(["x"] * 51), "question 'paid' must have a list of 2 to 50 options; got 51"),
        ('"You", "Them"', '"You", 5', "option 3 of question 'paid' must be a text of 1 to 100 characters; got 5"),
        (
            '"You", "Them"',
            '"You", "You"',
            "question 'paid' must have options that differ; 'You' is there more than once",
        ),
        ('text = "No animals"', 'text = "All"', "question 'diet' must have options that differ; 'All' is there more"),
        (', text = "No animals"', "", "option 3 of question 'diet' must be a text of 1 to 100 characters; got None"),
        ('id = "vegan"', 'name = "vegan"', "option 3 of question 'diet' must have no key but id, text; got 'name'"),
        ('kind = "public"', "", 'question \'diet\' must have the `kind` "public" or "private"; got None'),
        (
            'kind = "public"',
            'kind = "secret"',
            'question \'diet\' must have the `kind` "public" or "private"; got \'sec',
        ),
        ('kind = "public"', 'kind = "public"\nepsilon = 1', "question 'diet' is public and must have no `epsilon`"),
        (
            'kind = "public"',
            'kind = "public"\nmode = "calibrated"',
            "question 'diet' is public and must have no `mode`",
        ),
        (
            'mode = "r',
            'mode = "R',
            "question 'stolen' must have one of the modes complementary, calibrated, randomised_",
        ),
        ("epsilon = 1", "", "question 'stolen' must have an `epsilon` from 0.01 to 10 in the mode randomised_response"),
        ("epsilon = 1", "epsilon = 0", "question 'stolen' must have an `epsilon` from 0.01 to 10"),
        ("epsilon = 1", "epsilon = nan", "question 'stolen' must have an `epsilon` from 0.01 to 10"),
        ("epsilon = 1", "epsilon = true", "question 'stolen' must have an `epsilon` from 0.01 to 10"),
        (', "Them"]', ', "Them"]\nepsilon = 1', "question 'paid' has an `epsilon`, which a complementary label cannot"),
        (', "Them"]', "]", "question 'paid' has 2 options, of which \"not the one\" gives away the other; set mode = "),
        ('title = "Lunch"', "title = ", "must be a TOML file: "),
    ],
)
def test_each_mistake_in_a_file_is_told_in_one_line(write, old, new, words):
    path = write(old, new)
    with raises(words) as caught:
        read_survey(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_files_without_questions_or_not_there(write, tmp_path):
    for text in ('title = "x"', 'title = "x"\nquestions = []', 'title = "x"\nquestions = "none"'):
        with raises("the survey must have 1 to 100 questions; write each under [[questions]]"):
            read_survey(write(text=text))
    with raises("question 1 must be a table; write it under [[questions]]"):
        read_survey(write(text='title = "x"\nquestions = ["Why?"]'))
    with raises("no survey file at", FileNotFoundError):
        read_survey(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with raises("must be a TOML file"):
        read_survey(tmp_path / "bytes.toml")


def test_an_old_python_without_tomli_is_told_what_to_install(write, monkeypatch):
    path = write()
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    with raises("a survey file takes Python 3.11 or later, or the package tomli; pip install tomli", ImportError):
        read_survey(path)


# ---- what an answer gives away --------------------------------------------------------------------------------


def worst_set(q, epsilon):
    """The largest P(S | y) - exp(ε) P(S | z) over all sets S of outcomes, by trying every one."""
    n = q.shape[1]
    sets = [list(s) for size in range(n + 1) for s in itertools.combinations(range(n), size)]
    pairs = itertools.permutations(range(len(q)), 2)
    return max(q[y, s].sum() - math.exp(epsilon) * q[z, s].sum() for y, z in pairs for s in sets)


@pytest.mark.parametrize("n_options", [2, 3, 5, 8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("mode", MODES[1:])
def test_every_mode_with_an_epsilon_keeps_it_exactly(mode, n_options, epsilon):
    q = question(n_options, mode, epsilon).transition
    np.testing.assert_allclose(q.sum(axis=1), 1)
    outcomes = itertools.product(range(n_options), range(n_options), range(q.shape[1]))
    assert max(q[y, c] / q[z, c] for y, z, c in outcomes) == pytest.approx(math.exp(epsilon))
    assert privacy_loss(q) == pytest.approx(epsilon)
    if q.shape[1] <= 10:
        assert worst_set(q, epsilon) == pytest.approx(0, abs=1e-12)
    assert privacy_failure(q, epsilon) == pytest.approx(0, abs=1e-12)
    assert privacy_failure(q, 0.9 * epsilon) > 1e-4


@pytest.mark.parametrize("n_options", [3, 5, 8])
def test_a_complementary_label_has_the_same_delta_at_every_epsilon(n_options):
    q = question(n_options, "complementary").transition
    for epsilon in (0.0, 0.5, 2.0, 20.0):
        assert worst_set(q, epsilon) == pytest.approx(1 / (n_options - 1))
        assert privacy_failure(q, epsilon) == pytest.approx(1 / (n_options - 1))
    assert privacy_loss(q) == math.inf


def test_delta_is_the_worst_set_for_any_matrix():
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.dirichlet(np.full(4, 0.7), size=4)
        for epsilon in (0.0, 0.3, 1.0):
            assert privacy_failure(q, epsilon) == pytest.approx(worst_set(q, epsilon))


def test_the_probability_of_the_truth_and_its_epsilon_are_inverse():
    for n_options, epsilon in itertools.product((2, 3, 10), (0.2, 1.0, 4.0)):
        q = truth_probability("calibrated", n_options, epsilon)
        assert math.log((1 - q) / ((n_options - 1) * q)) == pytest.approx(epsilon)
        p = truth_probability("randomised_response", n_options, epsilon)
        assert math.log(p * (n_options - 1) / (1 - p)) == pytest.approx(epsilon)
    assert truth_probability("calibrated", 5, 1e-9) == pytest.approx(1 / 5)
    assert truth_probability("calibrated", 5, 30.0) < 1e-12


def test_with_two_options_all_modes_are_one():
    calibrated, plain, subset = (question(2, mode, 1.5).transition for mode in MODES[1:])
    np.testing.assert_allclose(calibrated[:, ::-1], plain)  # "not a" is "b"
    np.testing.assert_array_equal(subset, plain)


@pytest.mark.parametrize(("n_options", "epsilon"), [(4, 0.1), (5, 0.2), (6, 0.7), (7, 0.01), (8, 1.0), (9, 0.5)])
def test_a_subset_is_drawn_as_asked_by_enumeration(n_options, epsilon):
    q = question(n_options, "subset", epsilon)
    assert q.size > 1
    assert len(q.outcomes) == math.comb(n_options, q.size)
    for y in range(n_options):
        inside = [sum(p for p, one in zip(q.transition[y], q.outcomes) if k in one) for k in range(n_options)]
        expected = [q.truth if k == y else q.other for k in range(n_options)]
        np.testing.assert_allclose(inside, expected)


def test_the_other_modes_are_subsets_of_one_and_of_all_but_one(monkeypatch):
    monkeypatch.setattr(privacy, "subset_size", lambda n_options, epsilon: n_options - 1)
    most, calibrated = question(5, "subset", 0.8), question(5, "calibrated", 0.8)
    assert most.truth == pytest.approx(1 - calibrated.truth)
    denied = [next(k for k in range(5) if k not in one) for one in most.outcomes]
    np.testing.assert_allclose(most.transition, calibrated.transition[:, denied])
    monkeypatch.setattr(privacy, "subset_size", lambda n_options, epsilon: 1)
    plain = question(5, "randomised_response", 0.8).transition
    np.testing.assert_allclose(question(5, "subset", 0.8).transition, plain)


@pytest.mark.parametrize("n_options", [2, 3, 5, 10, 20, 50])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 10.0])
def test_no_other_size_of_a_subset_needs_fewer_people(n_options, epsilon, monkeypatch):
    """The exact variance, where all options are equally common, of every size there is."""
    chosen = subset_size(n_options, epsilon)
    assert abs(chosen - max(1, n_options / (math.exp(epsilon) + 1))) < 1

    def variance(size):
        monkeypatch.setattr(privacy, "subset_size", lambda n_options, epsilon: size)
        q = question(n_options, "subset", epsilon)
        rate = q.other + (q.truth - q.other) / n_options
        return rate * (1 - rate) * np.ptp(q.weights) ** 2

    assert variance(chosen) <= min(variance(size) for size in range(1, n_options)) * (1 + 1e-12)


def test_a_matrix_of_too_many_sets_is_not_written_out():
    with raises("19 of 50 options make 30,405,943,383,200 sets; at most 100,000 are listed"):
        _ = question(50, "subset", 0.5).transition


def test_what_is_stored_reads_as_it_was_shown_and_is_read_back():
    for mode, epsilon in WAYS:
        q = question(5, mode, epsilon)
        for places in q.outcomes:
            kept = q.stored(reversed(places))
            names = [q.options[k].id for k in places]
            assert kept == {q.says: names if mode == "subset" else names[0]}
            code = q.code(json.loads(json.dumps(kept)))
            np.testing.assert_array_equal(q.named(np.array([code, -1])), [[k in places for k in range(5)], [False] * 5])
    assert question(3, "calibrated", 1.0).stored([1]) == {"not": "q1"}
    assert question(3, "randomised_response", 1.0).stored([1]) == {"drawn": "q1"}


def test_what_cannot_have_been_stored_is_refused():
    q = question(6, "subset", 0.1)  # three of six
    for value, words in [
        ("q1", "the answer to 'q' must be {\"drawn\": [3 options]}"),
        ({"drawn": "q1"}, "the answer to 'q' must be {\"drawn\": [3 options]}"),
        ({"not": ["q1", "q2", "q3"]}, "the answer to 'q' must be {\"drawn\": [3 options]}"),
        ({"drawn": ["q1", "q2"]}, "the answer to 'q' must name 3 different options; got 2"),
        ({"drawn": ["q1", "q2", "q2"]}, "the answer to 'q' must name 3 different options; got 3"),
        ({"drawn": ["q1", "q2", "q9"]}, "the answer to 'q' must name one of its options; got 'q9'"),
    ]:
        with raises(words):
            q.code(value)
    with raises("the answer to 'q' must be {\"not\": option}"):
        question(3, "complementary").code({"not": ["q1"]})


def test_every_epsilon_that_is_allowed_can_be_estimated_from():
    for n_options, epsilon, mode in itertools.product((2, 50), EPSILONS, MODES[1:]):
        q = question(n_options, mode, epsilon)
        assert np.isfinite(q.weights).all()
        assert abs(q.truth - q.other) > 1e-5


@pytest.mark.parametrize(("n_options", "n_surveys"), [(3, 1), (3, 2), (3, 5), (4, 3), (4, 4), (5, 4), (5, 6)])
def test_what_several_surveys_leave_by_enumeration(n_options, n_surveys):
    others = n_options - 1
    left = [n_options - len(set(drawn)) for drawn in itertools.product(range(others), repeat=n_surveys)]
    certain = Fraction(sum(n == 1 for n in left), len(left))
    assert options_left(n_options, n_surveys) == pytest.approx((float(np.mean(left)), float(certain)))


def test_what_many_surveys_of_many_options_leave_is_a_probability():
    for n_surveys in (1, 49, 200, 1000):
        expected, certain = options_left(50, n_surveys)
        assert 1 <= expected <= 50
        assert 0 <= certain <= 1
    assert options_left(50, 2000)[1] == pytest.approx(1)


def spread(q, share, option=0):
    """The exact deviation of one respondent's estimate of a share, by enumeration of true and stored options."""
    n = len(q.options)
    truth = np.full(n, (1 - share) / (n - 1))
    truth[option] = share
    stored = truth @ q.transition
    weights = np.array([q.weights[int(option in places)] for places in q.outcomes])
    assert stored @ weights == pytest.approx(share)
    return math.sqrt(stored @ weights**2 - share**2)


@pytest.mark.parametrize(("mode", "epsilon"), WAYS)
@pytest.mark.parametrize("n_options", [3, 6])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_many_respondents_are_what_the_normal_formula_says(mode, epsilon, n_options, share):
    margin = 0.002
    n = respondents_needed(mode, n_options, epsilon, margin, share)
    deviation = spread(question(n_options, mode, epsilon), share)
    assert n == pytest.approx((norm.ppf(0.975) * deviation / margin) ** 2, rel=0.03)


@pytest.mark.parametrize(("n_options", "margin", "share"), [(3, 0.05, 0.2), (5, 0.1, 0.5), (10, 0.03, 0.9)])
def test_plain_and_complementary_answers_agree_with_the_plan_of_labels(n_options, margin, share):
    plan = planning.labels_needed(n_options, margin, share)
    assert respondents_needed(None, n_options, None, margin, share) == pytest.approx(plan.ordinary, abs=1)
    assert respondents_needed("complementary", n_options, None, margin, share) == pytest.approx(
        plan.complementary, abs=1
    )


@pytest.mark.parametrize(("mode", "epsilon"), WAYS)
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_planned_respondents_reach_the_margin(mode, epsilon, share):
    n_options, margin = 4, 0.06
    n = respondents_needed(mode, n_options, epsilon, margin, share)
    q = question(n_options, mode, epsilon)
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(30):
        y = np.where(rng.random(n) < share, 0, rng.integers(1, n_options, size=n))
        found = results.shares(q, draw(q, y, rng))
        widths.append((found.high[0] - found.low[0]) / 2)
    if share == 0.2:
        assert np.mean(widths) == pytest.approx(margin, rel=0.1)
    else:  # what lies beyond 0 and 1 is cut off
        assert 0.45 * margin < np.mean(widths) < margin


@pytest.mark.parametrize("n_options", [3, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_a_subset_needs_the_fewest_people_at_the_same_epsilon(n_options, epsilon):
    calibrated, plain, subset = (respondents_needed(mode, n_options, epsilon, 0.05) for mode in MODES[1:])
    assert subset <= plain < calibrated
    assert (subset < plain) == (subset_size(n_options, epsilon) > 1)


def needed_table():
    """The table in docs/survey.md: the respondents that it takes for ± 3 points."""
    lines = [
        "| options | ε | calibrated | randomised response | subset | options in the subset |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for n, epsilon in itertools.product((2, 3, 5, 10, 20, 50), (0.5, 1.0, 2.0, 4.0)):
        counts = [f"{respondents_needed(mode, n, epsilon, 0.03):,}" for mode in MODES[1:]]
        lines.append(f"| {n} | {epsilon:g} | {' | '.join(counts)} | {subset_size(n, epsilon)} |")
    return "\n".join(lines)


def test_the_table_of_respondents_is_what_the_arithmetic_gives():
    page = Path("docs/survey.md").read_text(encoding="utf8")
    assert needed_table() in page, f"docs/survey.md must have this table:\n{needed_table()}"
    ordinary, label = (respondents_needed(mode, 10, None, 0.03) for mode in (None, "complementary"))
    assert f"{ordinary:,} plain answers" in page
    assert f"{label:,} complementary labels for 10 options" in page


@pytest.mark.parametrize("n_options", [3, 5, 10, 50])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_randomised_response_does_what_a_complementary_label_does_and_keeps_an_epsilon(n_options, share):
    epsilon = equal_epsilon(n_options, share)
    label, plain = (question(n_options, *way) for way in (WAYS[0], ("randomised_response", epsilon)))
    assert spread(plain, share) == pytest.approx(spread(label, share))
    assert privacy_failure(plain.transition, epsilon) == pytest.approx(0, abs=1e-12)


def test_the_arithmetic_refuses_what_makes_no_sense():
    for rows in ([0.5, 0.5], [[0.5, 0.6], [0.5, 0.5]], [[1.5, -0.5]]):
        with raises("`transition` must have a row of probabilities for each true option, each with the sum 1"):
            privacy_loss(rows)
    with raises("`mode` must be one of complementary, calibrated, randomised_response, subset; got 'secret'"):
        truth_probability("secret", 3)
    for epsilon in (None, 0, -1.0, math.nan):
        with raises(f"`epsilon` must be above 0 in the mode calibrated; got {epsilon!r}"):
            truth_probability("calibrated", 3, epsilon)
    for margin in (0, 0.7):
        with raises(f"`margin` must be from 0.001 to 0.5; got {margin!r}; five points are 0.05"):
            respondents_needed(None, 3, None, margin)
    with raises("`n_options` must be at least 3, as for a complementary label; got 2"):
        equal_epsilon(2)
    with raises("`share` must be from 0 to 1; got 20"):
        respondents_needed(None, 3, None, 0.05, share=20)


# ---- estimates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_options", "mode", "epsilon"),
    # with two options a complementary label is refused: it would give the answer away
    [(n, *way) for n in (2, 3, 4, 5) for way in WAYS if (n, way[0]) != (2, "complementary")],
)
def test_shares_are_unbiased_over_all_that_can_be_stored(mode, epsilon, n_options):
    """Three respondents with known answers, every combination of stored options, each with its probability."""
    q = question(n_options, mode, epsilon)
    truth = [0, 0, n_options - 1]
    mean, total, codes = np.zeros(n_options), 0.0, outcome_codes(q)
    for stored in itertools.product(range(len(codes)), repeat=len(truth)):
        probability = math.prod(q.transition[y, c] for y, c in zip(truth, stored))
        if probability:
            mean += probability * results.shares(q, codes[list(stored)]).estimate
            total += probability
    assert total == pytest.approx(1)
    np.testing.assert_allclose(mean, np.bincount(truth, minlength=n_options) / len(truth), atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (("complementary", None), (None, None)),
        (("calibrated", 1.0), (None, None)),
        (("complementary", None), ("complementary", None)),
        (("complementary", None), ("randomised_response", 1.0)),
        (("calibrated", 0.5), ("randomised_response", 2.0)),
        (("complementary", None), ("subset", 0.1)),
    ],
)
def test_cross_tables_are_unbiased_over_all_that_can_be_stored(rows, columns):
    a, b = question(3, *rows, name="a"), question(4, *columns, name="b")
    truth = [(0, 1), (2, 1)]
    mean, codes = np.zeros((3, 4)), (outcome_codes(a), outcome_codes(b))
    for stored in itertools.product(itertools.product(*(range(len(c)) for c in codes)), repeat=len(truth)):
        each = (a.transition[y, c] * b.transition[z, d] for (y, z), (c, d) in zip(truth, stored))
        probability = math.prod(each)
        if probability:
            first, second = np.array(stored).T
            mean += probability * results.cross_table(a, b, codes[0][first], codes[1][second]).estimate
    expected = np.zeros((3, 4))
    for cell in truth:
        expected[cell] += 1 / len(truth)
    np.testing.assert_allclose(mean, expected, atol=1e-12)


@pytest.mark.parametrize(("mode", "epsilon"), WAYS)
@pytest.mark.parametrize("n", [5, 30])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_intervals_of_shares_hold_the_truth_often_enough_exactly(mode, epsilon, n, share):
    """Summed over every number of respondents for whom the option is stored: no simulation, no luck."""
    q = question(4, mode, epsilon)
    rate = q.other + share * (q.truth - q.other)  # how often the option is among those stored
    codes, missed = outcome_codes(q), 0.0
    for hits in range(n + 1):
        found = results.shares(q, np.repeat(codes[[0, -1]], [hits, n - hits]))
        if not found.low[0] - 1e-12 <= share <= found.high[0] + 1e-12:
            missed += binom.pmf(hits, n, rate)
    assert missed <= 0.05 + 1e-9


@pytest.mark.parametrize("columns", [(None, None), ("complementary", None), ("randomised_response", 1.0)])
@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("joint", ["rare", "even", "one cell"])
def test_intervals_of_cross_tables_hold_the_truth_often_enough(columns, n, joint):
    a, b = question(3, "complementary", name="a"), question(3, *columns, name="b")
    truth = {
        "rare": np.array([[0.9, 0.04, 0], [0, 0.03, 0], [0, 0, 0.03]]),
        "even": np.full((3, 3), 1 / 9),
        "one cell": np.eye(9)[0].reshape(3, 3),
    }[joint]
    rng = np.random.default_rng(1)
    held, trials = np.zeros((3, 3)), 100
    for _ in range(trials):
        y, z = np.divmod(rng.choice(9, size=n, p=truth.ravel()), 3)
        stored = (complement(t, 3, transition=q.transition, random_state=rng) for t, q in ((y, a), (z, b)))
        table = results.cross_table(a, b, *stored)
        held += (table.low <= truth + 1e-9) & (truth <= table.high + 1e-9)
    # of nine cells the worst may fall short by chance: 3.5 deviations below 95%
    assert held.min() / trials >= 0.95 - 3.5 * math.sqrt(0.05 * 0.95 / trials)


def test_coverage_would_show_intervals_that_are_too_narrow():
    """The same count with 80% intervals fails: the test above can fail."""
    q, n, share = question(4, "complementary"), 30, 0.5
    stored = (np.array([share, *[(1 - share) / 3] * 3]) @ q.transition)[0]
    found = [results.shares(q, np.repeat([0, 1], [hits, n - hits]), confidence=0.6) for hits in range(n + 1)]
    outside = [not f.low[0] <= share <= f.high[0] for f in found]
    assert binom.pmf(np.arange(n + 1), n, stored)[outside].sum() > 0.05


@pytest.mark.parametrize(("mode", "epsilon"), [way for way in WAYS if way[0] != "subset"])
def test_shares_that_can_be_have_the_intervals_of_the_library(mode, epsilon):
    q = question(4, mode, epsilon)
    codes = np.repeat(np.arange(4), [30, 24, 26, 28])
    found = results.shares(q, codes)
    estimate, low, high = metrics.class_prior_interval(codes, 4, 0.95, q.transition)
    np.testing.assert_allclose(found.estimate, estimate, atol=1e-12)
    inside = (estimate >= 0) & (estimate <= 1)
    assert inside.any()
    np.testing.assert_allclose(found.low[inside], low[inside], atol=1e-12)
    np.testing.assert_allclose(found.high[inside], high[inside], atol=1e-12)


def test_intervals_are_judged_before_they_are_put_within_0_and_1():
    """In a table of few answers an impossible estimate once looked sharp, as 0 cut its interval off."""
    a, b = question(3, "complementary", name="a"), question(3, name="b")
    codes = np.repeat([0, 1, 2], [12, 0, 0]), np.zeros(12, dtype=int)
    table = results.cross_table(a, b, *codes)
    assert table.estimate[0, 0] == pytest.approx(-1)
    assert table.high[0, 0] - table.low[0, 0] <= table.width[0, 0]
    codes = np.repeat([0, 1, 2], [50, 25, 25]), np.zeros(100, dtype=int)
    table = results.cross_table(a, b, *codes)
    assert table.high[0, 0] - table.low[0, 0] < results.VAGUE < table.width[0, 0]
    assert table.vague[0, 0]
    rare = results.shares(question(2, "randomised_response", 1.0), np.repeat([0, 1], [20, 180]))
    assert rare.margin == pytest.approx(rare.width.max() / 2)
    assert rare.margin > (rare.high - rare.low).max() / 2 + 0.01
    sure = results.cross_table(b, b, np.repeat([0, 1], 500), np.repeat([0, 1], 500))
    assert not sure.vague.any()


def test_an_impossible_estimate_keeps_the_width_of_its_interval():
    q = question(3, "complementary")
    found = results.shares(q, np.repeat([0, 1, 2], [900, 50, 50]))  # "not 0" can come 500 times at the most
    assert found.estimate[0] == pytest.approx(-0.8)
    assert found.low[0] == 0
    assert found.high[0] > 0.03
    other = results.shares(question(3, "calibrated", 0.1), np.repeat([0, 1], [0, 1000]))
    assert other.estimate[0] > 1
    assert (other.high[0], other.low[0] < 0.99) == (1, True)


def test_answers_left_out_are_left_out():
    survey = ask(question(3, name="a"), question(4, "complementary", name="b"))
    codes = results.encode(survey, [{"a": {"is": "a1"}, "b": {"not": "b3"}}, {"b": {"not": "b0"}}, {}])
    assert {name: c.tolist() for name, c in codes.items()} == {"a": [1, -1, -1], "b": [3, 0, -1]}
    a, b = survey.questions
    assert results.shares(a, codes["a"]).n == 1
    assert results.cross_table(b, a, codes["b"], codes["a"]).n.tolist() == [1]
    assert results.shares(a, np.array([-1, -1])) is None
    assert results.cross_table(b, a, codes["b"], np.array([-1, -1, 0])) is None


def test_groups_have_the_shares_of_their_members():
    a, b = question(3, "complementary", name="a"), question(2, name="b")
    rng = np.random.default_rng(0)
    codes, groups = rng.integers(3, size=50), np.zeros(50, dtype=int)
    table = results.cross_table_by_group(a, b, codes, groups)
    np.testing.assert_array_equal(table.estimate[:, 0], results.shares(a, codes).estimate)
    assert table.n.tolist() == [50, 0]
    assert np.isnan(table.estimate[:, 1]).all()
    assert results.cross_table_by_group(a, b, codes, groups - 1) is None
    with raises("groups must be told by a public question; 'a' is private"):
        results.cross_table_by_group(b, a, groups, codes)


def test_few_answers_are_said_to_be_too_few():
    q = question(5, "complementary")
    rng = np.random.default_rng(0)
    few = results.shares(q, rng.integers(5, size=400))
    assert re.match(r"Too few answers to rely on: shares are known within ± [1-4]\d points; ", few.warning)
    assert f"about {few.needed:,} answers would give ± 5 points." in few.warning
    fewer = results.shares(q, rng.integers(5, size=30))
    assert fewer.margin > 0.5
    assert "shares are hardly known at all; about" in fewer.warning, "± 60 points would be of no share"
    y = rng.integers(5, size=few.needed)
    many = results.shares(q, complement(y, 5, random_state=rng))
    assert many.warning is None
    assert many.margin < 0.051


@pytest.mark.parametrize(
    ("mode", "epsilon", "n_options"),
    [("complementary", None, 3), ("calibrated", 3.0, 3), ("randomised_response", 2.0, 3), ("subset", 1.5, 8)],
)
def test_the_other_answers_predict_a_private_one(mode, epsilon, n_options):
    survey = ask(question(3, name="a"), question(n_options, mode, epsilon, name="b"))
    rng = np.random.default_rng(0)
    y = rng.choice(3, size=1500, p=[0.5, 0.3, 0.2])
    tells = rng.random(1500) < 0.9
    seen = np.where(tells, y, rng.integers(3, size=1500))
    stored = draw(survey.questions[1], y, rng)
    assert survey.questions[1].size == (2 if mode == "subset" else 1)
    found = results.predict(survey, survey.questions[1], {"a": seen, "b": stored})
    assert found.problem is None
    assert found.accuracy.low <= (seen == y).mean() <= found.accuracy.high
    assert found.baseline.low <= 0.5 <= found.baseline.high
    assert found.gain.low > 0.2


def test_answers_that_tell_nothing_promise_nothing():
    survey = ask(question(3, name="a"), question(3, "complementary", name="b"))
    rng = np.random.default_rng(0)
    y, noise = rng.choice(3, size=900, p=[0.6, 0.2, 0.2]), rng.integers(3, size=900)
    stored = complement(y, 3, random_state=rng)
    found = results.predict(survey, survey.questions[1], {"a": noise, "b": stored})
    assert found.gain.low <= 0
    assert found.accuracy.estimate < 0.75


def test_predictions_say_what_they_lack():
    private, public = question(3, "complementary", name="b"), question(3, name="a")
    codes = np.zeros(149, dtype=int)
    few = results.predict(ask(public, private), private, {"a": codes, "b": codes})
    assert few.problem == "Too few answers to learn from: 149 of the 150 that it takes."
    alone = results.predict(ask(private), private, {"b": np.zeros(500, dtype=int)})
    assert alone.problem == "There is no other question to learn from."
    with raises("only a private question is learned from what it is not; 'a' is public"):
        results.predict(ask(public, private), public, {"a": codes, "b": codes})


def test_no_prediction_is_of_fewer_than_the_minimum():
    q, p = question(2, "calibrated", 1.0), question(2, name="p")
    answers = {"q": np.arange(150) % 2, "p": np.arange(150) % 2}
    assert results.predict(ask(q, p, minimum=150), q, answers).problem is None
    found = results.predict(ask(q, p, minimum=151), q, answers)
    assert found.problem == "Too few answers to learn from: 150 of the 151 that it takes."


def test_the_summary_holds_every_table_with_a_private_question():
    survey = ask(question(2, name="a"), question(3, name="b"), *(question(3, "complementary", name=n) for n in "cd"))
    codes = {name: np.arange(30) // 15 for name in "abcd"}
    found = results.summary(survey, codes)
    assert [(t["rows"], t["columns"]) for t in found["tables"]] == [
        ("c", "a"), ("d", "a"), ("c", "b"), ("d", "b"), ("c", "d"),
    ]  # fmt: skip
    assert (found["respondents"], [q["answers"] for q in found["questions"]]) == (30, [30] * 4)
    assert [p["problem"][:7] for p in found["predictions"]] == ["Too few"] * 2
    none = results.summary(survey, {name: np.empty(0, dtype=int) for name in "abcd"}, learn=False)
    assert none["questions"][0]["warning"] == "Nobody has answered this yet."
    assert (none["respondents"], none["tables"]) == (0, [])


# ---- no result of few people ----------------------------------------------------------------------------------


def codes_of(*counts):
    """Each code so many times; -1 first."""
    return np.repeat(np.arange(-1, len(counts) - 1), counts)


def test_nothing_is_shown_of_fewer_than_the_minimum():
    q = question(3, "complementary")
    assert results.shares(q, np.zeros(9, dtype=int), minimum=10) is None
    assert results.shares(q, np.zeros(10, dtype=int), minimum=10).n == 10
    survey = ask(q, question(2, name="p"), minimum=25)
    for n in (24, 25):
        found = results.summary(survey, {"q": np.arange(n) % 3, "p": np.zeros(n, dtype=int)}, learn=False)
        assert found["minimum"] == 25
        assert [len(each["shares"]) > 0 for each in found["questions"]] == [n == 25] * 2
        assert len(found["tables"]) == (n == 25)
    few = results.summary(survey, {name: np.zeros(1, dtype=int) for name in "qp"}, learn=False)
    assert few["questions"][0]["warning"] == "Results are shown from 25 answers on; there is 1."
    assert (few["questions"][0]["answers"], few["questions"][0]["shares"]) == (1, [])


def test_a_small_group_is_in_no_table():
    private, team = question(3, "complementary", name="a"), question(3, name="b")
    groups = codes_of(0, 60, 40, 4)
    codes = np.random.default_rng(0).integers(3, size=104)
    for make in (results.cross_table, results.cross_table_by_group):
        table = make(private, team, codes, groups, minimum=10)
        assert np.isnan(table.estimate).any(axis=0).tolist() == [False, False, True]
        assert table.left_out == 14, "the four, and ten others"
        assert table.n.sum() == 90
    turned = results.cross_table(team, private, groups, codes, minimum=10)
    assert np.isnan(turned.estimate).any(axis=1).tolist() == [False, False, True]
    assert results.cross_table_by_group(private, team, codes[:13], codes_of(0, 9, 4), minimum=10) is None


def test_rows_of_small_groups_are_hidden_too():
    """Of two public questions the shares within columns would tell what the few people of a row answered."""
    team, years = question(3, name="a"), question(2, name="b")
    table = results.cross_table_by_group(team, years, codes_of(0, 60, 40, 3), np.arange(103) % 2, minimum=10)
    assert np.isnan(table.estimate).all(axis=1).tolist() == [False, False, True]
    np.testing.assert_allclose(np.nansum(table.estimate, axis=0), 1)


def people_left(seed, second, minimum):
    """A random survey in which some leave questions out: how many people each table and each subtraction tells of."""
    rng = np.random.default_rng(seed)
    first = question(4, *WAYS[seed % len(WAYS)], name="a")
    other, n = question(5, *second, name="b"), int(rng.integers(8, 150))
    answers = []
    for q in (first, other):
        y = rng.choice(len(q.options), size=n, p=rng.dirichlet(np.full(len(q.options), 0.5)))
        answers.append(np.where(rng.random(n) < rng.choice([0, 0.02, 0.1]), -1, draw(q, y, rng)))
    for make in (results.cross_table, *([] if other.private else [results.cross_table_by_group])):
        table = make(first, other, *answers, minimum=minimum)
        if table is not None:
            yield from table.n
            yield from (results.answered(codes) - table.n.sum() for codes in answers)


@pytest.mark.parametrize("second", [(None, None), ("complementary", None), ("subset", 0.5)])
def test_no_table_and_no_subtraction_tells_of_few_people(second):
    found = [n for seed in range(40) for n in people_left(seed, second, minimum=10)]
    assert all(n == 0 or n >= 10 for n in found)
    assert sum(n >= 10 for n in found) > 40
    assert any(0 < n < 10 for seed in range(40) for n in people_left(seed, second, minimum=1)), "this can fail"


@pytest.mark.parametrize("minimum", [10, 1])
def test_no_table_taken_from_another_tells_of_few_people(minimum):
    """Those who leave in the middle answered the first questions: from one table to the next few are missing."""
    apart = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        questions = [question(3, *way, name=f"q{k}") for k, way in enumerate([WAYS[seed % len(WAYS)], *WAYS[:3]])]
        stays = rng.choice([1, 2, 3, 4], size=300, p=[0.01, 0.01, 0.01, 0.97])
        answers = [np.where(stays > k, draw(q, rng.integers(3, size=300), rng), -1) for k, q in enumerate(questions)]
        others = zip(questions[1:], answers[1:])
        tables = [results.in_table(questions[0], q, answers[0], codes, minimum) for q, codes in others]
        apart += [np.count_nonzero(one != other) for one, other in itertools.combinations(tables, 2)]
    assert (min(n for n in apart if n > 0) >= 10) == (minimum == 10), "with 1 it is as many as left in between"


def test_without_a_minimum_nobody_is_left_out():
    a, b = question(3, name="a"), question(3, "complementary", name="b")
    codes = codes_of(2, 3, 1, 0), np.array([0, 1, 2, -1, 0, 1])
    assert results.in_table(a, b, *codes, minimum=1).tolist() == [False, False, True, False, True, True]
    table = results.cross_table(b, a, *codes[::-1], minimum=1)
    assert (table.left_out, table.n.tolist()) == (0, [3])
    np.testing.assert_array_equal(table.estimate[:, 2], 0)  # nobody of a group without members is hidden


def test_both_ways_round_a_table_has_the_same_people():
    a, b = question(3, name="a"), question(3, "complementary", name="b")
    codes = codes_of(2, 40, 3, 20), np.arange(65) % 4 - 1
    used = results.in_table(a, b, *codes, minimum=10)
    np.testing.assert_array_equal(used, results.in_table(b, a, *codes[::-1], minimum=10))
    assert used.any()


def test_hidden_cells_are_null_in_json():
    survey = ask(question(2, name="a"), question(3, "complementary", name="b"))
    found = results.summary(survey, {"a": codes_of(0, 50, 4), "b": np.arange(54) % 3}, learn=False)
    (table,) = json.loads(json.dumps(found, allow_nan=False))["tables"]
    assert [row[1] for row in table["estimate"]] == [None] * 3
    assert all(isinstance(row[0], float) for row in table["estimate"])
    assert [row[1] for row in table["vague"]] == [None] * 3
    assert (table["answers"], table["left_out"]) == (40, 14)


# ---- the store ------------------------------------------------------------------------------------------------

ASKED = ask(question(3, name="a"), question(3, "complementary", name="b"))


def test_what_is_stored_once_is_stored(where):
    store = SurveyStore(where, ASKED)
    assert store.add("1" * 32, {"a": {"is": "a0"}, "b": {"not": "b2"}})
    assert not store.add("1" * 32, {"a": {"is": "a1"}}), "the first one stands"
    assert store.add("0" * 32, {"b": {"not": "b1"}})
    key, token = store.key, store.admit(store.new_link())
    unopened = store.new_link()
    store.close()
    again = SurveyStore(where, ASKED, create=False)
    assert again.answers() == [{"b": {"not": "b1"}}, {"a": {"is": "a0"}, "b": {"not": "b2"}}]
    assert (again.count(), again.key) == (2, key), "the link of a survey stays"
    assert again.is_owner(token)
    assert not again.is_owner(token + "x")
    newer = again.admit(unopened)
    assert again.is_owner(newer)
    assert again.is_owner(token), "what was opened before goes on"
    assert again.admit(unopened) is None, "a link opens once"
    assert not again.is_owner(unopened)
    unopened = again.new_link()
    again.end_links()
    assert not again.is_owner(newer)
    assert again.admit(unopened) is None
    again.close()


def test_nothing_but_the_answers_and_the_day_is_stored(tmp_path):
    path = tmp_path / "survey.db"
    store = SurveyStore(path, ASKED)
    token = store.admit(store.new_link())
    store.add("ab" * 16, {"b": {"not": "b1"}})
    store.close()
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(submission)")]
        assert columns == ["id", "day", "answers"]
        ((name, day, answers),) = connection.execute("SELECT * FROM submission").fetchall()
        assert (name, len(day), answers) == ("ab" * 16, 10, '{"b": {"not": "b1"}}')
        with raises("no such column: rowid", sqlite3.OperationalError):  # it would tell the order
            connection.execute("SELECT rowid FROM submission")
        for change in ("UPDATE submission SET day = ''", "DELETE FROM submission"):
            with raises("answers are only ever added", sqlite3.IntegrityError):
                connection.execute(change)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert token.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_the_meaning_of_answers_may_not_change(where):
    store = SurveyStore(where, ASKED)
    store.close()
    other = ask(question(4, name="a"), ASKED.questions[1])
    SurveyStore(where, other).close()  # nobody has answered yet
    store = SurveyStore(where, ASKED)
    store.add("1" * 32, {"a": {"is": "a0"}})
    store.close()
    changed = [
        (ask(question(4, name="a"), ASKED.questions[1]), "a"),
        (ask(ASKED.questions[0], question(3, "calibrated", 1.0, name="b")), "b"),
        (ask(*ASKED.questions, question(3, name="c")), "c"),
        (ask(ASKED.questions[1]), "a"),
    ]
    for survey, name in changed:
        with raises(f"question {name!r} is not as it was when the answers in "):
            SurveyStore(where, survey)
    first, second = ASKED.questions
    words = Survey("Another title", "New words", (SurveyQuestion("a", "Which one?", first.options), second))
    SurveyStore(where, words).close()


def test_stores_of_other_kinds_and_later_releases_are_refused(tmp_path, monkeypatch):
    later = tmp_path / "later.db"
    monkeypatch.setattr(survey_store, "MIGRATIONS", (*survey_store.MIGRATIONS, lambda connection: None))
    SurveyStore(later, ASKED).close()
    monkeypatch.undo()
    ours = len(survey_store.MIGRATIONS)
    with raises(f"later.db must be of version {ours} or older; it is of version {ours + 1}; update naysayer"):
        SurveyStore(later, ASKED)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE users (x)")
    before = other.read_bytes()
    with raises("must be a survey's store or empty; it has a table 'users' of something else; choose another place"):
        SurveyStore(other, ASKED)
    assert other.read_bytes() == before
    with raises("no store of answers at", FileNotFoundError):
        SurveyStore(tmp_path / "none.db", ASKED, create=False)
    (tmp_path / "text.db").write_text("nothing like a database" * 100)
    with raises("it is not a SQLite database", StoreError):
        SurveyStore(tmp_path / "text.db", ASKED)


def test_a_later_version_goes_on_from_this_one(tmp_path, monkeypatch):
    path = tmp_path / "survey.db"
    store = SurveyStore(path, ASKED)
    store.add("1" * 32, {"a": {"is": "a0"}})
    store.close()

    def add_column(connection):
        connection.exec_driver_sql("ALTER TABLE submission ADD COLUMN language TEXT")

    monkeypatch.setattr(survey_store, "MIGRATIONS", (*survey_store.MIGRATIONS, add_column))
    for _ in range(2):  # the second time there is nothing to do
        store = SurveyStore(path, ASKED)
        assert store.answers() == [{"a": {"is": "a0"}}]
        store.close()


def test_links_do_not_repeat(tmp_path):
    keys = []
    for name in ("one", "two"):
        store = SurveyStore(tmp_path / name, ASKED)
        keys.append(store.key)
        assert not store.is_owner(""), "before there is an owner nobody is"
        store.close()
    assert keys[0] != keys[1]


# ---- stores of version 1 --------------------------------------------------------------------------------------

OLD = ask(
    question(3, name="a"),
    question(3, "complementary", name="b"),
    question(4, "calibrated", 1.0, name="c"),
    question(2, "randomised_response", 1.0, name="d"),
)
OLD_ROWS = {"1" * 32: {"a": "a0", "b": "b2", "c": "c3", "d": "d1"}, "2" * 32: {"b": "b0"}, "3" * 32: {"d": "d0"}}
NEW_ROWS = [
    {"a": {"is": "a0"}, "b": {"not": "b2"}, "c": {"not": "c3"}, "d": {"drawn": "d1"}},
    {"b": {"not": "b0"}},
    {"d": {"drawn": "d0"}},
]


@pytest.fixture
def old_store(where, monkeypatch):
    """A store as version 1 made it, with the rows that it wrote."""
    with monkeypatch.context() as patch:
        patch.setattr(survey_store, "MIGRATIONS", survey_store.MIGRATIONS[:1])
        store = SurveyStore(where, OLD)
        for name, answers in OLD_ROWS.items():
            store.add(name, answers)
        store.close()
    return where


def test_a_store_of_version_1_is_read_and_says_what_was_shown(old_store):
    for survey in (OLD, OLD, None):  # the second time there is nothing to do
        store = SurveyStore(old_store, survey)
        assert store.answers() == NEW_ROWS
        assert [row["id"] for row in store.rows()] == list(OLD_ROWS)
        store.close()
    store = SurveyStore(old_store, OLD)
    with store._database.writing() as connection, pytest.raises(Exception, match="answers are only ever added"):
        connection.exec_driver_sql("UPDATE submission SET day = ''")
    assert store.add("4" * 32, {"b": {"not": "b1"}})
    assert store.count() == 4
    store.close()


def test_a_store_of_version_1_outlives_being_killed_in_the_middle(tmp_path, monkeypatch):
    """kill -9 after the rows were rewritten, before it is durable: they are as they were, and the next try succeeds."""
    path = tmp_path / "old.db"
    monkeypatch.setattr(survey_store, "MIGRATIONS", survey_store.MIGRATIONS[:1])
    store = SurveyStore(path, OLD)
    for name, answers in OLD_ROWS.items():
        store.add(name, answers)
    store.close()
    monkeypatch.undo()
    program = f"""
import os, signal
from naysayer.survey import store
def killed(connection):
    assert '"not"' in str(connection.exec_driver_sql("SELECT answers FROM submission").all())
    os.kill(os.getpid(), signal.SIGKILL)
store.MIGRATIONS = (*store.MIGRATIONS, killed)
store.SurveyStore({str(path)!r}, None)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with closing(sqlite3.connect(path)) as connection:
        kept = {name: json.loads(answers) for name, _, answers in connection.execute("SELECT * FROM submission")}
        assert kept == OLD_ROWS
    store = SurveyStore(path, OLD)
    assert store.answers() == NEW_ROWS
    store.close()


def test_a_store_without_its_survey_must_be_there(tmp_path):
    with raises("no store of answers at", FileNotFoundError):
        SurveyStore(tmp_path / "none.db", None)
    (tmp_path / "empty.db").touch()
    with raises("empty.db must be a survey's store; it is empty; serve the survey first"):
        SurveyStore(tmp_path / "empty.db", None)
    assert not survey_store.is_survey(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


# ---- rows in a file -------------------------------------------------------------------------------------------

EXPORTED = ask(
    SurveyQuestion("day", "Which?", tuple(Option(name, name) for name in ("=1+1", "-", "plain"))),
    question(3, "complementary", name="b"),
    question(6, "subset", 0.1, name="c"),
)


def test_the_command_counts_one_person_as_one(tmp_path, naysayer):
    file = tmp_path / "survey.toml"
    file.write_text('title = "T"\n[[questions]]\nid = "a"\ntext = "Q"\nkind = "public"\noptions = ["x", "y"]\n')
    with closing(SurveyStore(tmp_path / "survey.db", read_survey(file))) as store:
        store.add("1" * 32, {"a": {"is": "x"}})
    said = naysayer("survey", str(file), "--results").out
    assert "T: 1 respondent; no result is shown for fewer than 10" in said
    assert "Q (as answered, 1 answer)" in said
    done = naysayer("export", str(tmp_path / "survey.db"), "--out", str(tmp_path / "rows.csv"))
    assert "1 respondent is in" in done.out


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "survey.db"
    store = SurveyStore(path, EXPORTED)
    store.add("1" * 32, {"day": {"is": "=1+1"}, "b": {"not": "b2"}, "c": {"drawn": ["c0", "c3", "c5"]}})
    store.add("2" * 32, {"day": {"is": "plain"}})
    store.close()
    return path


@pytest.mark.parametrize("command", [("labels", "--out", "labels.csv"), ("people",), ("doctor",)])
def test_what_is_for_answers_about_items_says_that_this_is_a_survey(command, filled, naysayer):
    name, *options = command
    done = naysayer(name, str(filled), *options)
    assert done.code == 2
    assert "must be a store of answers about items; it is a survey's; see it with naysayer survey FILE" in done.err


def test_rows_are_exported_as_they_were_shown(filled, tmp_path, naysayer):
    for ending in ("csv", "json", "jsonl"):
        out = tmp_path / f"rows.{ending}"
        done = naysayer("export", str(filled), "--out", str(out))
        assert (done.code, done.err) == (0, "")
        assert f"2 respondents are in {out}, each as it was stored" in done.out
    rows = list(csv.reader((tmp_path / "rows.csv").read_text(encoding="utf8").splitlines()))
    assert rows[0] == ["_id", "_day", "day", "b", "c"]
    assert [row[2:] for row in rows[1:]] == [["'=1+1", "not b2", "drawn c0 | c3 | c5"], ["plain", "", ""]]
    whole = json.loads((tmp_path / "rows.json").read_text(encoding="utf8"))
    assert [(q["id"], q["stored_as"]) for q in whole["questions"]] == [("day", "is"), ("b", "not"), ("c", "drawn")]
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf8").splitlines()
    assert [json.loads(line) for line in lines] == whole["rows"]
    assert whole["rows"][0]["answers"] == {
        "day": {"is": "=1+1"}, "b": {"not": "b2"}, "c": {"drawn": ["c0", "c3", "c5"]},
    }  # fmt: skip
    assert naysayer("export", str(filled), "--out", str(out), "--json").json == {"respondents": 2, "file": str(out)}


def test_other_formats_are_refused(filled, tmp_path, naysayer):
    done = naysayer("export", str(filled), "--out", str(tmp_path / "rows.parquet"))
    assert (done.code, done.out) == (2, "")
    assert "an export of a survey must end in .csv, .json, .jsonl; got" in done.err
    assert not (tmp_path / "rows.parquet").exists()
