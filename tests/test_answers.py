"""Answers: labels, error rates and estimates, by hand where they are few, else by enumeration and simulation."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from helpers import raises
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.items import text_item
from naysayer.measure.answer_errors import error_rates
from naysayer.measure.answer_estimates import accuracy, class_priors
from naysayer.measure.answer_report import examine, how_many_more
from naysayer.measure.answers import VALUES, Answers, labels, read_answers, transition
from naysayer.measure.design import _turn_probabilities

NAMES = tuple("abcdefghij")
ROWS = ("item", "asked", "annotator", "value", "probability", "repeat")


def collect(y, weights, error, n_turns, rng, *, share=0.1, skip=0.0, n_people=1):
    """Answers as the store collects them: turns of questions about open items, each followed by repetitions.

    `error` is one rate, or one a person.
    """
    n_classes, rates = len(weights), np.broadcast_to(error, n_people)
    is_open, left = np.ones(len(y), dtype=bool), np.ones((len(y), n_classes), dtype=bool)
    columns = []
    for _ in range(n_turns):
        items = np.flatnonzero(is_open & (left.sum(axis=1) > 1))
        chances = left[items] * weights
        chances /= chances.sum(axis=1, keepdims=True)
        asked = (chances.cumsum(axis=1) > rng.random((len(items), 1))).argmax(axis=1)
        columns.append((items, asked, chances[np.arange(len(items)), asked], np.zeros(len(items), dtype=bool)))
        again = rng.permutation(len(items))[: round(share * len(items))]
        columns.append((items[again], asked[again], columns[-1][2][again], np.ones(len(again), dtype=bool)))
        for i, (item, about, chance, repeat) in enumerate(columns[-2:], start=len(columns) - 2):
            who = rng.integers(n_people, size=len(item))
            yes = (about == y[item]) != (rng.random(len(item)) < rates[who])
            value = np.where(rng.random(len(item)) < skip, -1, yes)
            columns[i] = (item, about, chance, repeat, who, value)
            is_open[item[value == 1]] = False
            left[item[value == 0], about[value == 0]] = False
    item, about, chance, repeat, who, value = map(np.concatenate, zip(*columns))
    items, people = tuple(map(str, range(len(y)))), tuple(map(str, range(n_people)))
    return Answers(NAMES[:n_classes], items, people, item, about, who, value, chance, repeat, weights / weights.sum())


def uneven(n_classes):
    weights = np.arange(1.0, n_classes + 1)
    return weights / weights.sum()


def uniform(n_classes):
    return np.full(n_classes, 1.0 / n_classes)


# ---- labels ------------------------------------------------------------------------------------------------------


def test_votes_count_yes_less_no():
    said = Answers.of(["a", "a", "b", "a"], [0, 1, 2, 0], ["no", "skip", "yes", "no"], NAMES[:3])
    assert said.votes.tolist() == [[-2, 0, 0], [0, 0, 1]]
    assert said.n_classes == 3
    assert said.annotators == ("",)


@pytest.mark.parametrize(
    ("asked", "values", "ruled_out", "named", "confirmed"),
    [
        ([0], ["no"], [1, 0, 0, 0], False, False),
        ([0, 3], ["no", "no"], [1, 0, 0, 1], False, False),
        ([2], ["yes"], [1, 1, 0, 1], True, False),
        ([2, 2], ["yes", "yes"], [1, 1, 0, 1], True, True),
        ([0, 2, 2], ["no", "yes", "no"], [1, 0, 0, 0], False, False),  # a yes taken back by a no says nothing
        ([2, 2], ["no", "yes"], [0, 0, 0, 0], False, False),
        ([1], ["skip"], [0, 0, 0, 0], False, False),
        ([0, 1, 2, 3], ["no"] * 4, [0, 0, 0, 0], False, False),  # one of the four was wrong, nobody knows which
    ],
)
def test_labels(asked, values, ruled_out, named, confirmed):
    found = labels(Answers.of(["x"] * len(asked), asked, values, NAMES[:4]))
    assert found.ruled_out.astype(int).tolist() == [ruled_out]
    assert (found.named.tolist(), found.confirmed.tolist()) == ([named], [confirmed])


def test_without_answers_there_are_no_labels():
    none = Answers.of([], [], [], NAMES[:3])
    assert labels(none).ruled_out.shape == (0, 3)
    assert examine(none).to_dict()["priors"] is None


@pytest.mark.parametrize("error", [0.0, 0.05])
def test_transition_is_that_of_the_answers_no(error):
    weights, y = uneven(4), 2
    rng = np.random.default_rng(0)
    said = collect(np.full(200_000, y), weights, error, 1, rng, share=0.0)
    no = said.asked[said.value == 0]
    assert np.allclose(np.bincount(no, minlength=4) / len(no), transition(weights, error)[y], atol=0.005)


def test_wrong_arguments_are_named():
    with raises("`asked` must hold classes 0 to 2; got 3 to 3"):
        Answers.of(["a"], [3], ["no"], NAMES[:3])
    with raises("`weights` must be 3 numbers above 0, one per class; got [0.5, 0.5, 0.0]"):
        Answers.of(["a"], [0], ["no"], NAMES[:3], weights=[0.5, 0.5, 0.0])
    with raises("an error rate must be from 0 to 0.45; got 0.5; at 0.5 answers say nothing"):
        transition(uniform(3), 0.5)
    said = Answers.of(["a", "b"], [0, 1], ["no", "yes"], NAMES[:3])
    with raises("`predicted` must be 2 classes from 0 to 2, or -1, one per item; got shape (1,)"):
        accuracy(said, [0])
    with raises("an accuracy must rest on at least 2 items with answers; got 1; collect more"):
        accuracy(said, [0, -1])
    with raises("class priors must rest on at least 2 items with answers; got 0; collect more"):
        class_priors(Answers.of([], [], [], NAMES[:3]))


# ---- errors ------------------------------------------------------------------------------------------------------


def twice(n, n_differ, people=("ann", "ann")):
    items = [str(i) for i in range(n)]
    values = ["no"] * (2 * n - n_differ) + ["yes"] * n_differ
    return Answers.of(items * 2, [0] * 2 * n, values, NAMES[:3], annotators=[people[0]] * n + [people[1]] * n)


def test_error_rate_solves_its_equation():
    e = error_rates(twice(20_000, 1_900)).overall  # 2 e (1 - e) = 9.5%
    assert abs(e.estimate - 0.05) < 0.001
    assert e.low < 0.05 < e.high < e.low + 0.01


def test_few_repeats_say_little():
    nothing, one, none = (error_rates(said) for said in (twice(0, 0), twice(3, 1), twice(3, 0)))
    assert nothing.overall[:2] == none.overall[:2] == (0.0, 0.0)
    assert none.overall.high < nothing.overall.high < 0.12
    assert 0 < one.overall.low < one.overall.estimate < 0.1
    assert error_rates(twice(2_000, 0)).overall.high < 0.001


def test_skips_are_not_repeats():
    said = Answers.of(["a", "a", "a"], [0, 0, 0], ["no", "skip", "no"], NAMES[:3])
    assert (error_rates(said).n_pairs, error_rates(said).n_disagreements) == (1, 0)


@pytest.mark.parametrize("error", [0.0, 0.02, 0.05])
def test_the_interval_of_the_error_rate_covers_it(error):
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        e = error_rates(collect(rng.integers(5, size=400), uniform(5), error, 2, rng, share=0.3)).overall
        hits += e.low <= error <= e.high
    assert hits >= 200 * 0.95 - 3 * (200 * 0.95 * 0.05) ** 0.5


def test_annotators_are_told_apart():
    rng = np.random.default_rng(0)
    said = collect(rng.integers(5, size=3000), uniform(5), [0.0, 0.03, 0.2], 3, rng, share=0.5, n_people=3)
    careful, usual, careless = error_rates(said).by_annotator
    assert careful.estimate < 0.02 < usual.estimate < 0.05 < 0.15 < careless.estimate
    assert careless.low < 0.2 < careless.high


def test_the_bounds_of_each_annotator_hold_for_careful_and_careless_ones():
    """With a dozen repeats each, which would not move an interval that leans on the others' errors."""
    errors, trials = np.array([0.0, 0.02, 0.2]), 100
    hits = np.zeros(3)
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        said = collect(rng.integers(5, size=200), uniform(5), errors, 1, rng, share=0.15, n_people=3)
        _, low, high = np.transpose(error_rates(said).by_annotator)
        hits += (low <= errors) & (errors <= high)
    assert (hits / trials >= 0.95 - 3 * (0.95 * 0.05 / trials) ** 0.5).all()


def test_one_with_few_repeats_is_like_the_others():
    rows = twice(500, 20), twice(2, 0, ("new", "new"))
    columns = zip(
        *((a.items[i], a.asked[j], int(a.value[j]), a.annotators[0]) for a in rows for j, i in enumerate(a.item))
    )
    items, asked, values, people = columns
    items = [f"{person}{item}" for person, item in zip(people, items)]
    said = Answers.of(items, asked, ["yes" if v else "no" for v in values], NAMES[:3], annotators=people)
    old, new = error_rates(said).by_annotator
    assert abs(new.estimate - old.estimate) < 0.003
    assert new.high - new.low > old.high - old.low
    assert error_rates(said).pairs_of == (500, 2)


# ---- estimates -----------------------------------------------------------------------------------------------------


def every_sequence(y, weights, error, n_turns, left=None):
    """All courses of questions and answers about an item of class y, with their probabilities."""
    left = list(range(len(weights))) if left is None else left
    if n_turns == 0 or len(left) < 2:
        yield 1.0, []
        return
    for c in left:
        chance = weights[c] / sum(weights[k] for k in left)
        for value in ("yes", "no"):
            likely = chance * (1 - error if (value == "yes") == (c == y) else error)
            if likely and value == "yes":
                yield likely, [(c, value, chance)]
            elif likely:
                for p, rest in every_sequence(y, weights, error, n_turns - 1, [k for k in left if k != c]):
                    yield likely * p, [(c, value, chance), *rest]


@pytest.mark.parametrize("weights", [uniform(4), uneven(4)], ids=["uniform", "uneven"])
@pytest.mark.parametrize("error", [0.0, 0.05])
@pytest.mark.parametrize("n_turns", [1, 2, 3])
def test_weights_are_unbiased_by_enumeration(weights, error, n_turns):
    """E[W | y] is the unit vector of y, and both variables that are taken away have mean 0, over all courses."""
    for y in range(4):
        courses = list(every_sequence(y, weights, error, n_turns))
        p = np.array([likely for likely, _ in courses])
        assert p.sum() == pytest.approx(1.0)
        rows = [(str(i), *row) for i, (_, course) in enumerate(courses) for row in course]
        items, asked, values, chances = zip(*rows)
        said = Answers.of(items, asked, values, NAMES[:4], probabilities=chances, weights=weights)
        design = said.design
        q, W = weights_of(design, error, n_turns)
        assert np.allclose(p @ W, np.eye(4)[y], atol=1e-5)
        assert np.allclose(p @ (design.surplus / q), 0.0, atol=1e-9)


def weights_of(design, error, n_turns):
    """q and W where every open item got its next question: in an enumeration, rows are not as frequent as in life."""
    turns = _turn_probabilities(design.weights, n_turns)
    q = (turns * (1 - error) ** np.arange(n_turns)).sum(axis=1)
    W = np.zeros(design.was_asked.shape)
    W[design.item, design.asked] = ((design.value == 1) - error) / (1 - 2 * error) / q[design.asked]
    return q, W


def test_orders_have_their_probabilities():
    weights = np.array([0.6, 0.2, 0.15, 0.05])
    exact = np.zeros((4, 4))
    for order in itertools.permutations(range(4)):
        chances = [weights[c] / weights[list(order[t:])].sum() for t, c in enumerate(order)]
        exact[order, range(4)] += np.prod(chances)
    assert np.allclose(_turn_probabilities(weights, 4), exact, atol=1e-5)
    assert np.allclose(_turn_probabilities(weights, 2), exact[:, :2], atol=1e-5)


CASES = [
    (weights, error, n_turns)
    for weights in (uniform(5), uneven(5))
    for error in (0.0, 0.02, 0.05)
    for n_turns in (1, 3)
]


@pytest.mark.parametrize(("weights", "error", "n_turns"), CASES)
def test_accuracy_and_priors_are_unbiased_and_covered(weights, error, n_turns):
    """With the error rate estimated from a tenth of repeated questions: the mean, and how often 95% intervals hold."""
    prior, n, trials = np.array([0.35, 0.25, 0.2, 0.15, 0.05]), 400, 60
    hits, priors, covered, covered_priors = [], [], 0, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 7])
        y = rng.choice(5, p=prior, size=n)
        predicted = np.where(rng.random(n) < 0.8, y, (y + rng.integers(1, 5, size=n)) % 5)
        said = collect(y, weights, error, n_turns, rng)
        found, common = accuracy(said, predicted), class_priors(said)
        hits.append(found.estimate)
        priors.append(common.estimate)
        covered += found.low <= 0.8 <= found.high
        covered_priors += ((common.low <= prior) & (prior <= common.high)).sum()
    lowest = 0.95 - 3 * (0.95 * 0.05 / trials) ** 0.5
    # The estimate of the error rate is drawn towards its prior, so its bias, though small, is not nil.
    assert abs(np.mean(hits) - 0.8) < 4 * np.std(hits) / trials**0.5 + 0.005
    assert (np.abs(np.mean(priors, axis=0) - prior) < 4.5 * np.std(priors, axis=0) / trials**0.5 + 0.005).all()
    assert covered / trials >= lowest
    assert covered_priors / trials / 5 >= lowest


def test_a_yes_taken_as_certain_would_not_do():
    """What the tests above would say, if a single yes were an ordinary label: they can fail."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=100_000)
    said = collect(y, uniform(5), 0.05, 1, rng, share=0.0)
    honest, naive = accuracy(said, y, error_rate=0.05), accuracy(said, y, error_rate=0.0)
    assert abs(honest.estimate - 1.0) < 0.02
    assert naive.high < 0.95


def test_skips_count_as_chance():
    rng = np.random.default_rng(0)
    y = rng.choice(5, p=[0.4, 0.3, 0.1, 0.1, 0.1], size=20_000)
    predicted = np.where(rng.random(len(y)) < 0.7, y, (y + 1) % 5)
    found = accuracy(collect(y, uneven(5), 0.02, 3, rng, skip=0.2), predicted)
    assert found.low < 0.7 < found.high
    assert found.high - found.low < 0.08


@pytest.mark.parametrize("weights", [uniform(3), np.array([0.6, 0.3, 0.1])], ids=["uniform", "uneven"])
def test_classes_at_which_somebody_could_not_tell_may_be_asked_about_again(weights):
    """Until nothing is left to ask: then a class that nobody could tell at comes last, or is settled by another."""
    rng = np.random.default_rng(0)
    prior = np.array([0.5, 0.3, 0.2])
    y = rng.choice(3, p=prior, size=20_000)
    predicted = np.where(rng.random(len(y)) < 0.7, y, (y + 1) % 3)
    said = collect(y, weights, 0.0, 6, rng, skip=0.3)
    common, found = class_priors(said), accuracy(said, predicted)
    assert np.abs(common.estimate - prior).max() < 0.012
    assert abs(found.estimate - 0.7) < 0.012


def test_items_left_out_change_nothing():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=2000)
    said = collect(y, uniform(4), 0.0, 1, rng, share=0.0)
    half = np.arange(2000) < 1000
    predicted = np.where(half, y, (y + 1) % 4)
    assert accuracy(said, np.where(half, predicted, -1), error_rate=0.0).estimate == pytest.approx(1.0, abs=0.02)
    assert accuracy(said, np.where(half, -1, predicted), error_rate=0.0).estimate == pytest.approx(0.0, abs=0.1)


def test_items_left_out_may_have_been_asked_about_more_often():
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=8000)
    said, old = collect(y, uniform(10), 0.0, 4, rng, share=0.0), np.arange(8000) < 4000
    kept = old[said.item] | (np.arange(len(said.item)) < 8000)  # of the new items only the first answer
    said = replace(said, **{name: getattr(said, name)[kept] for name in ROWS})
    predicted = np.where(rng.random(8000) < 0.8, y, (y + 1) % 10)
    for chosen in (old, ~old):
        assert accuracy(said, np.where(chosen, predicted, -1)).estimate == pytest.approx(0.8, abs=0.06)


def test_of_items_that_are_dropped_nothing_stays():
    asked, values = [0, 1, 2, 0, 1], ["no", "yes", "no", "no", "no"]
    people = ["Ann", "Ben", "Ann", "Ben", "Ann"]
    said = replace(Answers.of(list("abcac"), asked, values, NAMES[:3], annotators=people), final=np.array([-1, 2, 1]))
    some = said.only(np.array([True, False, True]))
    rows = [0, 2, 3, 4]
    assert some.items == ("a", "c")
    assert [some.items[i] for i in some.item] == [said.items[said.item[row]] for row in rows]
    for name in ("asked", "annotator", "value", "probability", "repeat"):
        np.testing.assert_array_equal(getattr(some, name), getattr(said, name)[rows])
    assert some.final.tolist() == [-1, 1]
    np.testing.assert_array_equal(some.votes, said.votes[[0, 2]])
    assert some.annotators == said.annotators


def test_classes_may_be_renamed():
    rng = np.random.default_rng(0)
    y, order = rng.integers(4, size=500), np.array([2, 0, 3, 1])
    said = collect(y, uneven(4), 0.02, 2, rng)
    renamed = Answers(
        said.classes, said.items, said.annotators, said.item, order[said.asked], said.annotator, said.value,
        said.probability, said.repeat, said.weights[np.argsort(order)],
    )  # fmt: skip
    assert np.allclose(accuracy(said, y), accuracy(renamed, order[y]))
    assert np.allclose(np.array(class_priors(said)), np.array(class_priors(renamed))[:, order])


def test_two_items_are_enough_and_none_was_asked_about_the_prediction():
    said = Answers.of(["a", "b"], [0, 1], ["no", "no"], NAMES[:3])
    found = accuracy(said, [2, 2], error_rate=0.0)
    assert found.low <= 0.0 < 1.0 <= found.high


# ---- what the owner wants to know ------------------------------------------------------------------------------------


def test_sound_answers_have_nothing_odd():
    rng = np.random.default_rng(0)
    report = examine(collect(rng.integers(5, size=2000), uniform(5), 0.02, 2, rng))
    assert report.yes_p_value > 0.01
    assert report.asked_p_value > 0.01
    assert report.findings == []
    assert report.yes_expected == pytest.approx(0.2 * 0.98 + 0.8 * 0.02, abs=0.01)
    assert report.yes.low < report.yes_expected < report.yes.high
    assert report.n_items == 2000
    assert report.n_named > report.n_confirmed > 0
    written = json.loads(json.dumps(report.to_dict()))
    assert len(written["priors"]) == 5
    assert len(written["priors"][0]) == len(written["yes"]) == len(written["errors"]["overall"]) == 3


def test_questions_that_are_not_uniform_are_found():
    rng = np.random.default_rng(0)
    said = collect(np.zeros(2000, dtype=int), uneven(5), 0.0, 1, rng)
    pretended = Answers.of(
        [said.items[i] for i in said.item], said.asked, ["yes" if v else "no" for v in said.value], NAMES[:5],
        repeat=said.repeat,
    )  # fmt: skip
    report = examine(pretended)
    assert report.asked_p_value < 1e-6
    assert report.yes_p_value < 1e-6
    assert [finding.level for finding in report.findings] == ["problem", "warning"]  # too often one, another never
    assert examine(said).yes_expected is None
    assert examine(said).asked_p_value > 0.01


def test_how_many_more():
    assert how_many_more(0, 10, 0.05) > how_many_more(1000, 10, 0.05) > 0
    assert how_many_more(10**6, 10, 0.05) == 0
    assert how_many_more(0, 10, 0.05, error_rate=0.05) == pytest.approx(how_many_more(0, 10, 0.05) / 0.81, abs=1)


def test_a_store_is_read(tmp_path):
    project = Project(("cat", "dog", "emu"), probabilities=(0.5, 0.25, 0.25), repeat_share=0.3)
    with Store.open(tmp_path / "answers.db", project=project, random_state=0) as store:
        store.register(text_item(f"text {i}", f"row {i}") for i in range(30))
        people = [store.named_annotator(name).id for name in ("ann", "bob")]
        for i in range(60):
            (question,) = store.ask(people[i % 2])
            store.answer(Answer(f"answer-{i}", question.id, people[i % 2], ("yes", "no", "no", "skip")[i % 4]))
        assert store.undo(people[0], "undo-1")
        said = read_answers(store)
        standing = list(store.standing())
    assert len(said.value) == len(standing) == 59
    assert said.annotators == tuple(people)
    assert said.repeat.sum() == sum(s.repeat_of is not None for s in standing) > 0
    assert said.weights.tolist() == [0.5, 0.25, 0.25]
    assert [said.items[i] for i in said.item] == [s.item_id for s in standing]
    assert said.value.tolist() == [VALUES[s.value] for s in standing]
    assert examine(said).n_answers == (said.value >= 0).sum()
