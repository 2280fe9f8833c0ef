"""Digests of rows: those that were there before are known again, others are not."""

from __future__ import annotations

import json

import numpy as np
from sklearn.datasets import load_iris

from naysayer.data.digests import KEPT, count_known, remember, row_digests
from naysayer.data.tables import DataTable


def table(X, **texts):
    columns = {f"x{j}": column for j, column in enumerate(np.asarray(X, dtype=float).T)}
    return DataTable(columns | {name: np.array(values, dtype=object) for name, values in texts.items()})


def digests(X, **texts):
    found = table(X, **texts)
    return row_digests(found, found.columns)


def kept(rows):
    return json.loads(json.dumps(remember(rows)))


def test_a_row_is_the_same_wherever_and_however_it_is_written():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[3, 1], X[4, 2] = np.nan, -0.0
    words = [f"w{i % 7}" for i in range(50)]
    there = digests(X, word=words)
    order = np.random.default_rng(1).permutation(50)
    assert (digests(X[order], word=np.array(words)[order]) == there[order]).all()
    written = DataTable(
        {
            name: np.array([f" {v!r} " if v == v else "" for v in column.tolist()], dtype=object)
            for name, column in table(X).columns.items()
        }
        | {"word": np.array(words, dtype=object)}
    )
    assert (row_digests(written, written.columns) == there).all()
    assert len(np.unique(there)) == 50


def test_every_column_counts_and_so_does_their_order():
    X = np.arange(12.0).reshape(4, 3)
    there = digests(X, word=["a", "b", "c", ""])
    assert (digests(X[:, [1, 0, 2]], word=["a", "b", "c", ""]) != there).all()
    other = digests(X + [[0, 0, 1e-9]] * np.array([[0], [1], [0], [0]]), word=["a", "b", "d", ""])
    assert (other == there).tolist() == [True, False, False, True]


def test_rows_learned_from_are_counted_among_others():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(300, 2)), rng.normal(size=(200, 2))
    told = kept(digests(X))
    assert count_known(told, digests(X)) == 300
    assert count_known(told, digests(np.concatenate([X[:40], new]))) == 40
    assert count_known(told, digests(new)) == 0


def test_of_many_rows_some_are_kept_and_all_are_estimated():
    X = np.random.default_rng(0).normal(size=(60_000, 1))
    told = kept(digests(X))
    assert len(told["digests"]) < 1.1 * KEPT
    assert abs(count_known(told, digests(X)) / 60_000 - 1) < 0.05
    assert abs(count_known(told, digests(X[:9_000])) / 9_000 - 1) < 0.2
    assert count_known(told, digests(-X)) == 0
    assert 0 < count_known(told, digests(X[:110])) <= 110


def test_rows_that_are_alike_by_chance_are_not_taken_for_the_same():
    """Flowers measured to a millimetre, answers to a few questions: equal rows need not be the same."""
    X = load_iris().data
    assert count_known(kept(digests(X[::2])), digests(X[1::2])) == 0
    assert count_known(kept(digests(X[::2])), digests(X[::2])) > 60
    found = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        size, answers = int(rng.integers(20, 500)), int(rng.integers(2, 40))
        rows = rng.integers(0, answers, size=(2, size, 2))
        found += count_known(kept(digests(rows[0])), digests(rows[1])) > 0
    assert found <= 2
