"""What tells predicted classes apart: words of texts, columns of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

MOST_TEXTS = 5000  # that words are counted in
MOST_WORDS = 10  # of a class
LEAST_SCORE = 3.5  # standard errors by which a word is more frequent in a class than elsewhere
MOST_FEATURES = 10


def characteristic_words(texts: Sequence[str], classes: Ints, seed: int = 0) -> dict[int, list[str]]:
    r"""Find the words that a larger share of a class's texts holds than of all others, the clearest first.

    .. math:: z = (s_k - s) / \sqrt{\bar s (1 - \bar s) (1 / n_k + 1 / n)}

    Parameters
    ----------
    texts : of more than 5,000, that many are drawn.
    classes : of the texts.
    seed : of the draw.

    Examples
    --------
    >>> texts = ["a red apple", "a red rose", "red wine", "the red car"] * 5 + ["a blue sky", "blue sea"] * 5
    >>> characteristic_words(texts, np.array([0] * 20 + [1] * 10))[1][0]
    'blue'
    """
    from sklearn.feature_extraction.text import CountVectorizer

    if len(texts) > MOST_TEXTS:
        some = np.random.default_rng(seed).choice(len(texts), MOST_TEXTS, replace=False)
        texts, classes = [texts[i] for i in some], classes[some]
    try:
        counter = CountVectorizer(binary=True, min_df=2, max_features=5000)
        counts = counter.fit_transform(texts).astype(np.float64)
    except ValueError:  # no word is found twice
        return {}
    words, total, found = counter.get_feature_names_out(), np.asarray(counts.sum(axis=0))[0], {}
    for k in np.unique(classes):
        mine = classes == k
        n, others = mine.sum(), (~mine).sum()
        if not others:
            continue
        inside = np.asarray(counts[mine].sum(axis=0))[0]
        share = (total + 1) / (len(texts) + 2)
        z = (inside / n - (total - inside) / others) / np.sqrt(share * (1 - share) * (1 / n + 1 / others))
        best = np.argsort(-z, kind="stable")[:MOST_WORDS]
        found[int(k)] = [str(words[w]) for w in best if z[w] > LEAST_SCORE]
    return found


class Difference(NamedTuple):
    """A feature, the part of its variance between classes, and the classes with the highest and the lowest mean."""

    feature: int
    explained: float
    highest: tuple[int, float]
    lowest: tuple[int, float]


def class_differences(X: NDArray[Any], classes: Ints, n_classes: int) -> list[Difference]:
    """Find the features in which classes differ most; means are in standard deviations from the mean of all.

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [0.0, 6.0], [2.0, 5.0], [2.0, 6.0]])
    >>> [(one.feature, one.highest, one.lowest) for one in class_differences(X, np.array([0, 0, 1, 1]), 2)]
    [(0, (1, 1.0), (0, -1.0))]
    """
    count = np.bincount(classes, minlength=n_classes)
    present = np.flatnonzero(count)
    deviation = X.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0
    centre = X.mean(axis=0, dtype=np.float64)
    means = np.array([(X[classes == k].mean(axis=0, dtype=np.float64) - centre) / deviation for k in present])
    explained = (count[present, None] / len(X) * means**2).sum(axis=0)
    found = []
    for d in np.argsort(-explained, kind="stable")[:MOST_FEATURES]:
        if explained[d] > 1e-3:
            high, low = int(means[:, d].argmax()), int(means[:, d].argmin())
            ends = [(int(present[k]), float(means[k, d])) for k in (high, low)]
            found.append(Difference(int(d), float(explained[d]), ends[0], ends[1]))
    return found


def plain_features(encoder: Any) -> dict[int, str]:
    """Name the features of a table's or record's encoder that say something to people, by their places."""
    table = getattr(encoder, "table", encoder)
    names = getattr(table, "feature_names_", None)
    return {} if names is None else {j: names[j] for j in table.plain_features}
