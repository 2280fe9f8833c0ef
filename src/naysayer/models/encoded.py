"""A classifier together with the encoder of its examples: what `naysayer train` saves and `naysayer predict` loads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from naysayer.features.encoder import Encoder, encoder_from_dict
from naysayer.features.photos import PhotoEncoder
from naysayer.models.classifier import ComplementaryClassifier

Self = TypeVar("Self", bound="EncodedModel")

ID_LENGTH = 12  # hexadecimal digits by which a model remembers an item: two alike among a million are no harm


@dataclass(frozen=True)
class EncodedModel:
    """A model, how its examples become numbers, and what else is to be remembered of it.

    Parameters
    ----------
    model : fitted.
    encoder : fitted.
    about : whatever JSON can hold, such as the column that held the labels.
    """

    model: ComplementaryClassifier
    encoder: Encoder
    about: dict[str, Any]

    def predict_proba(self, examples: Any) -> NDArray[np.float32]:
        """Give the probabilities of the classes of examples that are not encoded yet, (N, K)."""
        return self.with_answers(self.model.predict_proba(self.encoder.transform(examples)), examples)

    def predict_readable(self, examples: Any) -> tuple[NDArray[np.float32], dict[int, str]]:
        """Do what :meth:`predict_proba` does, without the photos that cannot be read.

        Returns
        -------
        (N, K) probabilities, NaN where a photo cannot be read; and why not, by the rows of these
        """
        if not isinstance(self.encoder, PhotoEncoder):
            return self.predict_proba(examples), {}
        failed = self.encoder.read(examples)
        p = np.full((len(examples), len(self.model.classes_)), np.nan, dtype=np.float32)
        here = [row for row, item in enumerate(examples) if item.id not in failed]
        if here:
            p[here] = self.predict_proba([examples[row] for row in here])
        return p, {row: failed[item.id] for row, item in enumerate(examples) if item.id in failed}

    def with_answers(self, p: NDArray[np.float32], examples: Any) -> NDArray[np.float32]:
        """Give the model's probabilities, (N, K), with what people answered about these very examples.

        The classes that they ruled out are e / (1 - e) as likely as the model finds them, with e the share of answers
        that are wrong.
        """
        ruled_out = self.about.get("learned_from")
        if not isinstance(ruled_out, dict):  # a table, or a store's model of an earlier release
            return p
        for row, item in zip(p, examples, strict=True):
            row[ruled_out.get(item.id[:ID_LENGTH], [])] *= self.about["error_odds"]
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save all of it into a folder."""
        self.model.save(path, extra=self.about | {"encoder": self.encoder.to_dict()})

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str], device: str = "auto", verbose: int = 0) -> Self:
        """Load what :meth:`save` saved.

        Parameters
        ----------
        path : of the folder.
        device : where features and predictions are computed.
        verbose : 1 shows a bar while features are computed that take long.
        """
        model = ComplementaryClassifier.load(path, device=device)
        about = dict(model.extra_)
        # Models from tables and from stores used to keep the encoder under a name of their own.
        states = [about.pop(name) for name in ("encoder", "items", "table") if name in about]
        if not states:
            raise ValueError(f"the model at {path} was not trained by `naysayer train`; use it from Python")
        encoder = encoder_from_dict({"kind": "table"} | states[0])
        encoder.device, encoder.verbose = device, verbose
        return cls(model, encoder, about)
