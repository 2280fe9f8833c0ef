"""What a classifier is given, as tensors: features checked, images laid out, both scaled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import validate_data
from torch import Tensor

from naysayer.engine.networks import DEEP, FOR_IMAGES
from naysayer.engine.recipe import Recipe
from naysayer.engine.source import as_inputs, to_float
from naysayer.models.base import columns_named
from naysayer.models.candidates import Network, network_name
from naysayer.models.defaults import is_consistency


class Inputs:
    """The part of a classifier that reads features; its settings are those of the classifier."""

    network: Network
    recipe: str | Recipe
    standardize: bool
    center_: Tensor
    scale_: Tensor

    def _take(self, X: Any, *, reset: bool) -> Tensor:
        """Check features as scikit-learn does and make them a tensor: uint8 stays, all else becomes float32.

        A table that float32 would blur stays float64, for :meth:`_scaled` to cast.
        """
        if isinstance(X, Tensor):
            X = (X if X.dtype in (torch.uint8, torch.float32) else X.double()).detach().cpu().numpy()
        given, X = X, self._laid_out(X, reset)
        images = getattr(X, "dtype", None) == np.uint8 and np.ndim(X) > 2  # a table of bytes is a table
        double = self.standardize if reset else self.center_.dtype == torch.float64
        narrow = issparse(X) or getattr(X, "ndim", 2) != 2 or getattr(X, "dtype", np.dtype(object)).itemsize < 4
        kinds = None if images else np.float32 if narrow or not double else [np.float64, np.float32]
        with columns_named(X):
            X = validate_data(self, X, reset=reset, accept_sparse="csr", allow_nd=True, dtype=kinds)
        if hasattr(X, "toarray"):
            if X.shape[0] * X.shape[1] > 2**31:
                raise ValueError(
                    f"sparse `X` is made dense and must have at most 2**31 entries; got shape {X.shape}; "
                    f"reduce it first, for instance with TruncatedSVD"
                )
            X = X.toarray()
        if not reset and X.shape[1:] != tuple(self.center_.shape):
            came = getattr(given, "shape", X.shape)[1:]
            raise ValueError(
                f"each example of `X` must have the shape {tuple(self.center_.shape)}, as in fit; got {came}"
            )
        if X.dtype == np.float64:
            cast = X.astype(np.float32)
            assert_all_finite(cast, input_name="X")
            if not reset or _is_blurred(X):
                return torch.tensor(X)
            X = cast
        inputs = as_inputs(X)
        return inputs if reset else self._as_in_fit(inputs)

    def _as_in_fit(self, inputs: Tensor) -> Tensor:
        """Give images that come as floats where `fit` had bytes, or the other way round, the range of those in `fit`.

        Floats of 0 to 255 are bytes already; where all are 0 or 1 they may be either, and count as bytes.
        """
        if inputs.dim() > 2 and inputs.dtype != torch.uint8 and self._had_bytes():
            low, high = float(inputs.min()), float(inputs.max())
            if low < 0 or high > 255:
                raise ValueError(
                    f"`X` must be bytes, or floats of 0 to 1 or of 0 to 255, since `fit` had bytes; got numbers from "
                    f"{low:g} to {high:g}; scale them as those were"
                )
            return inputs * 255.0 if high <= 1 and bool((inputs != inputs.floor()).any()) else inputs
        if inputs.dim() == 4 and bool((self.scale_ == 1).all()):
            if inputs.dtype == torch.uint8:
                return to_float(inputs)
            if self.standardize and self._is_deep():  # else they may be of a stream, which takes floats as they are
                _check_range(inputs)
        return inputs

    def _had_bytes(self) -> bool:
        """Whether `fit` had bytes, which are divided by 255."""
        return bool((self.scale_ == 255).all() and (self.center_ == 0).all())

    def _is_deep(self) -> bool:
        """Whether images must be bytes or floats of 0 to 1."""
        return network_name(self.network) in DEEP or self._distorts()

    def _laid_out(self, X: Any, reset: bool) -> Any:
        """Give images as (N, C, H, W), whichever way they come, and all else as it is."""
        if isinstance(X, (list, tuple)) and len(X) and np.ndim(X[0]) > 1:
            if len({np.shape(image) for image in X}) > 1:
                raise ValueError("all images of `X` must have the same shape; bring them to one size first")
            X = np.stack([np.asarray(image) for image in X])
        if not isinstance(X, np.ndarray) or X.ndim not in (3, 4):
            return X
        if not (self._sees_images() if reset else self.center_.dim() == 3 and X.shape[1:] != self.center_.shape):
            return X
        if X.dtype.kind in "iu" and X.size and X.min() >= 0 and X.max() <= 255:
            X = X.astype(np.uint8, copy=False)
        if X.ndim == 3:
            return X[:, None]
        return np.moveaxis(X, 3, 1) if X.shape[3] <= 4 < X.shape[1] else X

    def _sees_images(self) -> bool:
        """Whether an `X` of 3 or 4 axes is of images: the network takes nothing else, or their views are ours."""
        return network_name(self.network) in FOR_IMAGES or self._distorts()

    def _distorts(self) -> bool:
        """Whether the recipe is that of consistent views, and these are its own, not the caller's."""
        return is_consistency(self.recipe) and (isinstance(self.recipe, str) or self.recipe.augment is None)

    def _learn_scale(self, inputs: Tensor) -> None:
        """Remember each feature's mean and deviation; constant features get deviation 1."""
        shape = inputs.shape[1:]
        self.center_, self.scale_ = torch.zeros(shape), torch.ones(shape)
        if inputs.dtype == torch.uint8:
            self.scale_ *= 255.0
        elif inputs.dim() == 4 and self._is_deep():
            _check_range(inputs)
        elif self.standardize:
            scale, center = torch.std_mean(inputs.double(), dim=0, correction=0)
            least = 1e-7 if inputs.dtype == torch.float32 else _LEAST
            scale = torch.where(scale > least * center.abs().clamp(min=1e-30), scale, 1.0)
            self.center_, self.scale_ = center.to(inputs.dtype), scale.to(inputs.dtype)

    def _scaled(self, inputs: Tensor) -> Tensor:
        """Bring inputs to the scale of those in `fit`; bytes that are divided by 255 stay for the engine to divide."""
        if self._had_bytes():
            return inputs if inputs.dtype == torch.uint8 else inputs * (1.0 / 255.0)  # the engine's very quotient
        return (inputs - self.center_).div_(self.scale_).float()


def _check_range(images: Tensor) -> None:
    """Check that images of floats have the range that deep networks and consistent views take."""
    low, high = float(images.min()), float(images.max())
    if low < 0 or high > 1:
        raise ValueError(
            f"images must be bytes or floats of 0 to 1; got numbers from {low:g} to {high:g}; scale them, or "
            f"pass bytes as uint8"
        )


_LEAST = 1e-10  # of its numbers, by which a column of float64 must vary; less is how they were rounded


def _is_blurred(X: NDArray[np.float64]) -> bool:
    """Whether float32 takes much of what differs in a column, as of times in seconds since 1970: it has steps of 128.

    All other tables are cast before they are scaled, which takes less memory.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    span, largest = high - low, np.maximum(np.abs(low), np.abs(high))
    return bool(((span > _LEAST * largest) & (np.spacing(largest.astype(np.float32)) > 1e-3 * span)).any())
