"""Rows are dealt once, and none is predicted by a model that has seen it."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import raises
from naysayer.models.crossfit import check_groups, deal, halves, others, predict_held_out, split


@pytest.mark.parametrize("n", [5, 7, 23])
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_every_row_is_dealt_to_one_part(n, n_parts):
    parts = deal(np.random.default_rng(0).permutation(n), n_parts)
    assert len(parts) == n_parts
    assert sorted(np.concatenate(parts)) == list(range(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)
    for part in parts:
        rest = others(np.arange(n), part)
        assert sorted([*rest, *part]) == list(range(n))


@pytest.mark.parametrize(("n", "n_runs", "n_held_out"), [(10, 5, 2), (10, 9, 3), (10, 3, 7), (4, 9, 1), (2, 1, 1)])
def test_runs_hold_out_parts_of_one_deal_after_the_other(n, n_runs, n_held_out):
    rows, held_out = split(np.random.default_rng(0), n, n_runs, n_held_out)
    assert rows.shape == (n_runs, n - n_held_out)
    assert held_out.shape == (n_runs, n_held_out)
    for one, other in zip(rows, held_out):
        assert sorted([*one, *other]) == list(range(n))
    per_deal = n // n_held_out
    for start in range(0, n_runs, per_deal):
        dealt = held_out[start : start + per_deal].ravel()
        assert len(set(dealt)) == len(dealt)  # no row twice before a whole part is no longer left
    times = np.bincount(held_out.ravel(), minlength=n)
    assert times.max() <= -(-n_runs // per_deal)


def test_each_deal_is_in_another_order():
    _, held_out = split(np.random.default_rng(0), 40, 8, 10)
    first, second = held_out[:4], held_out[4:]
    assert not {tuple(sorted(part)) for part in first} & {tuple(sorted(part)) for part in second}


def test_each_row_is_predicted_by_one_model_that_has_not_seen_it():
    rng = np.random.default_rng(0)
    rows, held_out = split(rng, 30, 6, 8)  # parts of 8 of 30: of each deal 6 rows are in none
    asked = []

    def predict(part, fresh):
        assert not set(fresh) & set(rows[part])
        asked.extend(fresh)
        return 100 * part + fresh

    predicted = predict_held_out(held_out, 30, predict)
    assert sorted(asked) == sorted(set(held_out.ravel()))  # each once
    np.testing.assert_array_equal(predicted[asked] % 100, asked)
    assert (predicted[held_out[0]] < 100).all()  # the first part that held a row out has it


def test_rows_that_no_part_holds_out_are_not_predicted():
    predicted = predict_held_out([np.array([3]), np.array([0, 1])], 5, lambda part, rows: np.full(len(rows), 7))
    np.testing.assert_array_equal(predicted, [7, 7, -1, 7, -1])


# ---- rows about the same example ----------------------------------------------------------------------------------


def some_groups(rng, n_rows):
    """Groups of one to seven rows, in any order."""
    sizes = rng.integers(1, 8, n_rows)
    groups = np.repeat(np.arange(n_rows), sizes)[:n_rows]
    return rng.permutation(groups)


@pytest.mark.parametrize("seed", range(5))
def test_no_run_learns_from_a_group_of_which_it_holds_rows_out(seed):
    rng = np.random.default_rng(seed)
    groups = some_groups(rng, 60)
    rows, held_out = split(rng, 60, n_runs=12, n_held_out=12, groups=groups)
    assert held_out.shape == (12, 12)
    for learned, judged in zip(rows, held_out):
        assert not set(groups[learned]) & set(groups[judged])
        assert len(set(learned)) == len(learned)
    np.testing.assert_array_equal(np.sort(held_out[:5].ravel()), np.arange(60))  # each once before any comes again
    assert rows.shape[1] > 60 - 12 - 2 * 7


def test_groups_of_one_row_each_change_nothing_but_the_order():
    rows, held_out = split(np.random.default_rng(0), 10, n_runs=3, n_held_out=4, groups=np.arange(10))
    for learned, judged in zip(rows, held_out):
        np.testing.assert_array_equal(np.sort([*learned, *judged]), np.arange(10))


@pytest.mark.parametrize("seed", range(5))
def test_halves_share_no_group(seed):
    rng = np.random.default_rng(seed)
    groups = some_groups(rng, 41)
    one, other = halves(rng, 41, groups)
    assert not set(groups[one]) & set(groups[other])
    np.testing.assert_array_equal(np.sort([*one, *other]), np.arange(41))
    assert abs(len(one) - len(other)) <= 7


def test_groups_refused():
    with raises("`groups` must have a name for each of 3 rows; got the shape (2,)"):
        check_groups(["a", "b"], np.ones(3, dtype=bool))
    with raises("`groups` must name at least 2 groups of labelled rows; got 1; leave it out"):
        check_groups(["a", "b", "a"], np.array([True, False, True]))
    assert check_groups(["a", "b", "a"], np.array([True, True, False])) is None  # nothing repeats
    assert check_groups(["a", np.nan, np.nan], np.ones(3, dtype=bool)) is None  # nor does what is missing
