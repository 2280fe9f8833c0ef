"""Texts into counts of their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.data.items import Item

MOST_WORDS = 2000


class TextEncoder:
    """TF-IDF of the 2,000 most frequent words, logarithmic counts, rows of length 1: (N, D) float32.

    Parameters
    ----------
    words, idf : the D words and their inverse document frequencies; `fit` counts them.
    """

    kind = "text"

    def __init__(self, words: Sequence[str] = (), idf: Sequence[float] = ()) -> None:
        self.notes: list[str] = []
        self._set(words, idf)

    def _set(self, words: Sequence[str], idf: Sequence[float]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.words, self.idf = list(words), [float(value) for value in idf]
        self._vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=self.words or None, dtype=np.float32)
        if self.words:
            self._vectorizer.idf_ = np.array(self.idf, dtype=np.float32)

    def fit(self, examples: Sequence[Item]) -> TextEncoder:
        """Count words."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(max_features=MOST_WORDS)
        try:
            vectorizer.fit(str(item.content) for item in examples)
        except ValueError:
            raise ValueError("texts must have words of at least two letters; got none in any of them") from None
        self._set(vectorizer.get_feature_names_out().tolist(), vectorizer.idf_)
        return self

    def transform(self, examples: Sequence[Item]) -> NDArray[np.float32]:
        """Count the known words of texts."""
        return np.asarray(self._vectorizer.transform(str(item.content) for item in examples).toarray())

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold."""
        return {"kind": self.kind, "words": self.words, "idf": self.idf}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> TextEncoder:
        """Make the encoder that :meth:`to_dict` described."""
        return cls(state["words"], state["idf"])
