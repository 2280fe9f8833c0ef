"""Which question comes next: the fewest answers first, each class with the probability that is stored."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_frequencies, assert_shares
from naysayer.collect.questions import Draw, ItemPool, OpenItem, class_probabilities, is_repeat, repeat_tries

UNEVEN = (0.1, 0.2, 0.3, 0.4)


def pool(*candidates, n_classes=4, probabilities=None, seed=0):
    return ItemPool(iter([list(candidates)]), n_classes, probabilities, Random(seed))


@given(st.integers(2, 8), st.data())
def test_class_probabilities_are_those_of_the_rest_renormalised(n_classes, data):
    excluded = data.draw(st.sets(st.integers(0, n_classes - 1), max_size=n_classes - 1))
    weights = data.draw(st.none() | st.lists(st.floats(0.01, 1), min_size=n_classes, max_size=n_classes))
    chances = class_probabilities(n_classes, excluded, weights)
    assert chances.keys() == set(range(n_classes)) - excluded
    assert sum(chances.values()) == pytest.approx(1)
    weights = weights or [1] * n_classes
    for c, chance in chances.items():
        assert chance * sum(weights[k] for k in chances) == pytest.approx(weights[c])


def test_nothing_is_left_to_ask():
    assert class_probabilities(2, {0, 1}) == {}
    assert pool(OpenItem("a", 2, frozenset(range(4)))).draw("ann") is None
    assert pool().draw("ann") is None


@pytest.mark.parametrize("probabilities", [None, UNEVEN])
@pytest.mark.parametrize("ruled_out", [frozenset(), frozenset({1}), frozenset({0, 3})])
def test_the_stored_probability_is_the_true_one(probabilities, ruled_out):
    random, counts, told = Random(3), np.zeros(4), np.zeros(4)
    for _ in range(20_000):
        drawn = ItemPool(iter([[OpenItem("a", 0, ruled_out)]]), 4, probabilities, random).draw("ann")
        counts[drawn.class_index] += 1
        told[drawn.class_index] = drawn.probability
    assert_frequencies(counts, told)
    chances = np.array([0 if c in ruled_out else (probabilities or [1] * 4)[c] for c in range(4)])
    np.testing.assert_allclose(told, chances / chances.sum())


def test_the_fewest_answers_come_first():
    rng = np.random.default_rng(0)
    candidates = [OpenItem(f"{i:04x}", int(n)) for i, n in enumerate(rng.integers(0, 5, 50))]
    drawn = pool(*(candidates[i] for i in rng.permutation(50)))
    given = [drawn.draw(f"annotator {i}").item_id for i in range(50)]
    assert given == [each.item_id for each in sorted(candidates, key=lambda each: (each.n_answers, each.item_id))]


def test_an_item_that_somebody_is_busy_with_comes_only_when_no_other_is_left():
    drawn = pool(OpenItem("a", 0, busy=True), OpenItem("b", 7), OpenItem("c", 3))
    assert [drawn.draw(f"annotator {i}").item_id for i in range(6)] == ["c", "b", "a", "c", "b", "a"]


def test_more_pages_are_read_only_when_needed_and_before_anybody_is_given_a_busy_item():
    read = []

    def pages():
        for page in ([OpenItem("a", 0)], [OpenItem("b", 1)], [OpenItem("c", 0, busy=True)]):
            read.append(page[0].item_id)
            yield page

    drawn = ItemPool(pages(), 2, None, Random(0))
    assert read == []
    for item_id, pages_read in (("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"]), ("a", ["a", "b", "c"])):
        assert drawn.draw(f"asks for {item_id}").item_id == item_id
        assert read == pages_read


def test_what_an_annotator_holds_or_could_not_tell_is_not_drawn_for_them():
    candidates = [OpenItem("a", 0), OpenItem("b", 1, frozenset({0, 1}), {"ann": {2, 3}}), OpenItem("c", 2)]
    assert pool(*candidates).draw("ann", held={"a"}).item_id == "c"
    assert pool(*candidates).draw("bob", held={"a"}).item_id == "b"
    assert pool(*candidates).draw("ann", held={"a", "c"}) is None
    for seed in range(20):  # at one class she could not tell; the others are alike
        drawn = pool(OpenItem("a", 0, frozenset({0}), {"ann": {1}, "bob": {2}}), seed=seed).draw("ann")
        assert drawn in (Draw("a", 2, 0.5), Draw("a", 3, 0.5))


def test_a_set_share_repeats():
    random = Random(1)
    for share in (0.0, 0.05, 0.5):
        assert_shares(sum(is_repeat(share, random) for _ in range(20_000)), 20_000, share)


def test_the_first_try_that_fits_is_uniform_among_all_that_fit():
    random, fits = Random(2), [3, 4, 11, 17, 20]
    counts = dict.fromkeys(range(1, 21), 0)
    for _ in range(5000):
        counts[next(seq for seq in repeat_tries(20, random, n=200) if seq in fits)] += 1
    assert_frequencies(list(counts.values()), [(seq in fits) / len(fits) for seq in counts])
    assert repeat_tries(0, random) == []
