"""Rows are dealt once, and none is predicted by a model that has seen it."""

from __future__ import annotations

import numpy as np
import pytest

from naysayer.models.crossfit import deal, others, predict_held_out, rotate


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


@pytest.mark.parametrize(("n", "n_parts", "n_held_out"), [(10, 5, 2), (10, 2, 3), (10, 3, 7), (4, 9, 1), (2, 1, 1)])
def test_rotated_parts_follow_each_other(n, n_parts, n_held_out):
    order = np.random.default_rng(0).permutation(n)
    rows, held_out = rotate(order, n_parts, n_held_out)
    assert rows.shape == (n_parts, n - n_held_out)
    assert held_out.shape == (n_parts, n_held_out)
    for one, other in zip(rows, held_out):
        assert sorted([*one, *other]) == list(range(n))
    round_and_round = np.tile(order, n_parts * n_held_out // n + 1)
    np.testing.assert_array_equal(held_out.ravel(), round_and_round[: n_parts * n_held_out])


def test_each_row_is_predicted_by_one_model_that_has_not_seen_it():
    rng = np.random.default_rng(0)
    rows, held_out = rotate(rng.permutation(30), 4, 12)  # 48 places for 30 rows: some are held out twice
    asked = []

    def predict(part, fresh):
        assert not set(fresh) & set(rows[part])
        asked.extend(fresh)
        return 100 * part + fresh

    predicted = predict_held_out(held_out, 30, predict)
    assert sorted(asked) == list(range(30))  # each once
    np.testing.assert_array_equal(predicted % 100, np.arange(30))
    assert (predicted[held_out[0]] < 100).all()  # the first part that held a row out has it


def test_rows_that_no_part_holds_out_are_not_predicted():
    predicted = predict_held_out([np.array([3]), np.array([0, 1])], 5, lambda part, rows: np.full(len(rows), 7))
    np.testing.assert_array_equal(predicted, [7, 7, -1, 7, -1])
