"""Which rows a model has learned from: digests of some, by which it knows them again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from naysayer.data.tables import DataTable, numbers_of, texts_of

KEPT = 4096  # rows of a table whose digests are kept
CHANCE = 1e-3  # at most, that so many rows are alike without being the same
_DIGITS = 12  # hexadecimal ones of a digest

Digests = NDArray[np.uint64]


def row_digests(table: DataTable, columns: Iterable[str]) -> Digests:
    """Give a digest of what each row holds in some columns, (N,): that of 5 and of "5.0" is the same.

    Examples
    --------
    >>> table = DataTable({"a": np.array(["5.0", "6", "5"]), "b": np.array(["x", "x", "x"])})
    >>> digests = row_digests(table, ["a", "b"])
    >>> bool(digests[0] == digests[2]), bool(digests[0] == digests[1])
    (True, False)
    """
    digests = np.zeros(table.n_rows, dtype=np.uint64)
    for name in columns:
        column = table.columns[name]
        numbers = numbers_of(column)
        codes = _text_codes(column) if numbers is None else (numbers + 0.0).view(np.uint64)  # -0 becomes 0
        digests = _mixed(digests ^ codes)
    return digests >> np.uint64(64 - 4 * _DIGITS)


def _text_codes(column: NDArray[Any]) -> Digests:
    """Give a number for each text."""
    known: dict[str | None, int] = {None: 0}
    codes = np.empty(len(column), dtype=np.uint64)
    for i, text in enumerate(texts_of(column)):
        if text not in known:
            known[text] = int.from_bytes(hashlib.blake2b(str(text).encode(), digest_size=8).digest(), "big")
        codes[i] = known[text]
    return codes


def _mixed(values: Digests) -> Digests:
    """Spread the bits of each number over all of it (splitmix64), so that the order of columns matters."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def remember(digests: Digests) -> dict[str, Any]:
    """Give what :func:`count_known` needs of the rows learned from, as what JSON can hold.

    Of many rows it is those whose digest is a multiple of a number, so that the same rows of another table are looked
    at. Rows that are alike are left out; how many pairs there are tells how often new rows will look like old ones.
    """
    every = max(1, math.ceil(len(digests) / KEPT))
    values, counts = np.unique(digests[digests % np.uint64(every) == 0], return_counts=True)
    single = [f"{value:0{_DIGITS}x}" for value in values[counts == 1].tolist()]
    return {"every": every, "rows": int(counts.sum()), "pairs": int((counts == 2).sum()), "digests": single}


def count_known(told: dict[str, Any], digests: Digests) -> int:
    """Say how many rows were learned from, about; 0 where rows may be alike by chance.

    The probability that a new row looks like one that was seen once is about twice the number of pairs among those seen
    by their number (Good and Turing); more pairs are counted, for those that chance left out.
    """
    every = told["every"]
    looked_at = digests[digests % np.uint64(every) == 0]
    known = np.array([int(one, 16) for one in told["digests"]], dtype=np.uint64)
    n = int(np.isin(looked_at, known).sum())
    pairs = told["pairs"] + 1 + 2 * math.sqrt(told["pairs"] + 1)
    by_chance = len(looked_at) * 2 * pairs / max(1, told["rows"])
    if not n or pdtrc(n - 1, by_chance) >= CHANCE:  # P(n or more) of a Poisson distribution
        return 0
    return round(n / len(looked_at) * len(digests))
