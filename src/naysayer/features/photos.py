"""Photos into features by a pretrained network, or into pixels."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from naysayer.common.checks import check_count
from naysayer.common.progress import progress_bar
from naysayer.data.items import Item
from naysayer.engine.population import pick_device
from naysayer.features import pictures
from naysayer.features.backbones import PHOTOS, Backbone, find, has_photos, optional, same_backbone, width_at
from naysayer.features.cache import FeatureCache, features_folder
from naysayer.features.pictures import Picture, UnusablePicture, large_allowed, take_pictures
from naysayer.features.pretrained import OnBackbone, zero_linear

MOST_SIDE = 32  # pixels, of the pictures that a network learns from scratch
VIEWS = 2  # of a photo, unless said otherwise: as it is, and mirrored
_ON_GPU = 4  # times as many pictures at once
_ON_CPU = 4  # pictures at once: what is larger, malloc maps anew in each layer, which takes longer than the layer
PUT_BACK = "put it back, or say where it is now: naysayer add STORE FOLDER"
_GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "F")


def available() -> bool:
    """Whether the extra that photos need is installed."""
    return has_photos()


class Photos(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn photos into features of a pretrained network: (N, D) float32.

    Pictures are paths, PIL images or uint8 arrays (H, W), (H, W, 3), (H, W, 4) or (3, H, W), mixed or not; or one
    array of N of them. Each is turned upright, put on white where it is transparent, and its middle square resized to
    what the network was made for. Features are kept on the disk by the content of the picture, so that none is computed
    twice, also after an interruption and by another process.

    Parameters
    ----------
    backbone : "efficientnet-lite0" (the extra ``naysayer[photos]`` brings its weights), "timm:NAME" or
        "open_clip:NAME/PRETRAINED", where those packages are installed.
    size : S, pixels per side; None: what the backbone was made for.
    views : 2 averages the features of a picture and of its mirror image; 1 takes half the time, and models learn a
        little less from it.
    batch_size : pictures computed at once; on a GPU four times as many. Halved where memory runs out.
    cache : True keeps features in the folder that the environment variable ``NAYSAYER_CACHE`` names, or else in the
        user's cache; a path in that folder; False nowhere.
    device : "auto", "cpu", "cuda". On a GPU the network computes in half precision.
    verbose : 1 shows a progress bar.

    Attributes
    ----------
    backbone_ : the backbone's name, version, checksum (sha256) and size.

    Examples
    --------
    >>> pictures = np.random.default_rng(0).integers(256, size=(3, 40, 60, 3), dtype=np.uint8)
    >>> Photos(size=64, cache=False, device="cpu").fit_transform(pictures).shape
    (3, 1280)
    """

    def __init__(
        self,
        backbone: str = "efficientnet-lite0",
        *,
        size: int | None = None,
        views: int = VIEWS,
        batch_size: int = 64,
        cache: bool | str | os.PathLike[str] = True,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.backbone = backbone
        self.size = size
        self.views = views
        self.batch_size = batch_size
        self.cache = cache
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any = None, y: Any = None) -> Photos:
        """Load the backbone and check it; there is nothing to learn from pictures `X` or labels `y`."""
        if self.views not in (1, 2):
            raise ValueError(f"`views` must be 1, or 2 with the mirror image; got {self.views!r}")
        check_count(self.batch_size, "`batch_size`")
        pick_device(self.device)
        optional("PIL", "pillow", "reading photos")
        loaded = find(self.backbone, PHOTOS)
        size = loaded.size if self.size is None else check_count(self.size, "`size`", 32)
        if size != loaded.size:
            width_at(loaded.module, loaded.name, size)
        self._loaded = loaded
        self._running: tuple[torch.device, nn.Module] | None = None
        self.backbone_: dict[str, Any] = {
            "name": loaded.name,
            "version": loaded.version,
            "sha256": loaded.sha256,
            "size": size,
        }
        self._n_features_out = loaded.width
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Compute the features of pictures, or find those that are kept.

        Returns
        -------
        (N, D) float32
        """
        return self._transform(X, refuse=_check_failed)[0]

    def transform_readable(self, X: Any) -> tuple[NDArray[np.float32], dict[int, str]]:
        """Do what :meth:`transform` does, without those that cannot be read.

        Returns
        -------
        (N, D) float32, zeros where a picture cannot be read; and why not, by the rows of these
        """
        return self._transform(X, refuse=lambda failed: None)

    def _transform(
        self, X: Any, refuse: Callable[[dict[int, str]], None]
    ) -> tuple[NDArray[np.float32], dict[int, str]]:
        """Compute features, and say what failed; `refuse` is told of it before anything is computed, and at the end."""
        check_is_fitted(self, "backbone_")
        given = take_pictures(X)
        device = pick_device(self.device)
        half = device.type == "cuda"
        key = self.backbone_ | {"views": self.views, "crop": pictures.CROP, "half": half}
        del key["version"]  # the checksum says which weights they are
        cache = FeatureCache(features_folder(self.cache), key)
        features = np.zeros((len(given), self._n_features_out), dtype=np.float32)
        with large_allowed(), progress_bar(len(given), "features of photos", self.verbose > 0) as bar:
            names = [str(row) for row in range(len(given))] if cache.path is None else given.hashes()
            refuse(given.failed)
            of = {row: name for row, name in enumerate(names) if name is not None}
            kept = cache.get(of.values())
            first: dict[str, int] = {}  # of the rows with the same content
            for row, name in of.items():
                if name in kept:
                    features[row] = kept[name]
                else:
                    first.setdefault(name, row)
            bar(len(given) - len(first))
            for rows, computed in self._compute(given, list(first.values()), device):
                features[rows] = computed
                cache.put({of[row]: features[row] for row in rows})
                bar(len(rows))
        refuse(given.failed)
        for row, name in of.items():
            if (same := first.get(name, row)) != row:
                features[row] = features[same]
                if same in given.failed:
                    given.failed[row] = f"the same as in row {same}: {given.failed[same]}"
        return features, given.failed

    def pixels(self, X: Any) -> NDArray[np.uint8]:
        """Give pictures as the backbone sees them, (N, 3, S, S): what a :meth:`network` learns from."""
        check_is_fitted(self, "backbone_")
        given, size = take_pictures(X), self.backbone_["size"]
        out = np.empty((len(given), 3, size, size), dtype=np.uint8)
        with large_allowed():
            for rows, read in given.batches(range(len(given)), size, self.batch_size):
                out[rows] = given.place(read, size, torch.device("cpu")).numpy()
        _check_failed(given.failed)
        return out

    def network(self, n_classes: int, trainable: bool | str = False) -> nn.Module:
        """Give the backbone with a linear layer on top, to train as the `network` of an estimator or a population.

        Its weights are the pretrained ones; those of the linear layer are zero.

        Parameters
        ----------
        n_classes : K, the number of logits.
        trainable : False trains the linear layer alone, "last" also the backbone's last block, True everything.

        Returns
        -------
        module from pictures (B, 3, S, S), bytes or floats from 0 to 1, to logits (B, K)
        """
        check_is_fitted(self, "backbone_")
        if trainable not in (False, True, "last"):
            raise ValueError(f'`trainable` must be False, "last" or True; got {trainable!r}')
        loaded = self._backbone()
        module, last = copy.deepcopy((loaded.module, loaded.last))
        module.requires_grad_(trainable is True)
        for part in last if trainable == "last" else ():
            part.requires_grad_(True)
        return OnBackbone(module, zero_linear(loaded.width, check_count(n_classes, "`n_classes`", 2)))

    def _compute(
        self, given: pictures.Pictures, rows: Sequence[int], device: torch.device
    ) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
        """Compute the features of some pictures, by the batch."""
        network, size = self._network_on(device), self.backbone_["size"]
        most = self.batch_size * (_ON_GPU if device.type == "cuda" else 1)
        last: tuple[list[int], Tensor] | None = None
        for batch in given.batches(rows, size, most):
            features = None
            while features is None:
                try:
                    parts = (given.place(part, size, device) for part in batch.pixels.split(most))
                    features = torch.cat([self._features(network, part) for part in parts])
                except RuntimeError as error:
                    if "memory" not in str(error).lower():
                        raise
                    if most == 1:
                        raise ValueError(
                            f"{device} must have memory for one picture of {size} × {size}; it does not; "
                            "stop what else runs there, or pass a smaller `size` or another `device`"
                        ) from None
                    most = max(1, min(most, len(batch.rows)) // 2)
            if last is not None:  # only now is a GPU waited for, which has the next batch to go on with
                yield last[0], last[1].cpu().numpy()
            last = batch.rows, features
        if last is not None:
            yield last[0], last[1].cpu().numpy()

    @torch.inference_mode()
    def _features(self, network: nn.Module, pixels: Tensor) -> Tensor:
        """Compute (B, D) from (B, 3, S, S) on the device."""
        parts = []
        for few in pixels.split(_ON_CPU if pixels.device.type == "cpu" else max(1, len(pixels))):
            few = few.contiguous(memory_format=torch.channels_last)
            features = network(few).float()
            parts.append(features if self.views == 1 else (features + network(few.flip(3)).float()) / 2)
        return torch.cat(parts)

    def _backbone(self) -> Backbone:
        """Give the backbone, which a copy that was pickled loads again; it must be the one that was fitted."""
        if not hasattr(self, "_loaded"):
            self._loaded = same_backbone(find(self.backbone_["name"], PHOTOS), self.backbone_, "see photos")
        return self._loaded

    def _network_on(self, device: torch.device) -> nn.Module:
        """Give the network as it computes soonest on a device."""
        running = getattr(self, "_running", None)
        if running is None or running[0] != device:
            module, on_gpu = self._backbone().module, device.type == "cuda"
            fold = getattr(module, "folded", None)
            network: Any = copy.deepcopy(module) if fold is None else fold(as_products=on_gpu)
            network = network.eval().requires_grad_(False).to(device, torch.float16 if on_gpu else torch.float32)
            running = self._running = device, network.to(memory_format=torch.channels_last)
        return running[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the network out: whoever unpickles this loads it, and it must be the same."""
        return {name: value for name, value in super().__getstate__().items() if name not in ("_loaded", "_running")}


def _check_failed(failed: dict[int, str]) -> None:
    """Tell of pictures that could not be read."""
    if failed:
        raise UnusablePicture(told_of([failed[row] for row in sorted(failed)]))


def told_of(faults: Sequence[str]) -> str:
    """Say in one line what is wrong with the first of some pictures, and how many more there are."""
    return faults[0] + (f" (and {len(faults) - 1:,} more cannot be read)" if len(faults) > 1 else "")


class PhotoEncoder:
    """Photos of items: features (N, D) float32 by :class:`Photos` where its extra is installed, or else pixels.

    Pixels are (N, C, S, S) in uint8: C = 1 where all are grey, else 3. What was computed of an item is kept, so that
    only new ones are read when a model is trained again.

    Parameters
    ----------
    side, channels : S and C of pixels; `fit` takes the usual size of the images, and whether there are colours.
    pixels : give pixels even where features could be had; a convolution needs them. A number is the most that S is,
        which else is 32.
    views : of features, as :class:`Photos` takes them, whose default None leaves; of pixels there is one.
    verbose : 1 shows a progress bar.
    """

    kind = "image"
    device = "auto"

    def __init__(
        self,
        side: int = MOST_SIDE,
        channels: int = 3,
        *,
        pixels: bool | int = False,
        views: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.side, self.channels, self.pixels, self.views, self.verbose = side, channels, pixels, views, verbose
        self.photos: Photos | None = None
        self.notes: list[str] = []
        self._read: dict[str, NDArray[Any]] = {}

    def fit(self, examples: Sequence[Item]) -> PhotoEncoder:
        """Load the backbone; for pixels, take the usual size of the images, and whether there are colours."""
        self._read, self.notes, self.photos = {}, [], None
        if not self.pixels and available():
            self.photos = Photos(views=VIEWS if self.views is None else self.views).fit()
            unmirrored = " in one view" * (self.photos.views == 1)
            self.notes = [f"photos are seen by {self.photos.backbone_['name']}{unmirrored}, pretrained on ImageNet"]
            return self
        if self.views not in (None, 1):
            remedy = 'network "mlp"' if self.pixels else "pip install 'naysayer[photos]'"
            raise ValueError(
                f"{self.views} views are for features of photos; here they are pixels; use 1 view, or {remedy}"
            )
        seen = []
        with large_allowed():
            for item in examples:
                with suppress(Exception):  # decoders raise many kinds on damaged files; told when it is read
                    seen.append(_look(item))
        if seen:
            most = MOST_SIDE if isinstance(self.pixels, bool) else self.pixels
            self.side = min(most, round(median(side for side, _ in seen)))
            self.channels = 1 if all(grey for _, grey in seen) else 3
        if not self.pixels:
            self.notes = [
                f"photos are learned from {self.side} × {self.side} pixels; a pretrained network would make far more "
                "of them: pip install 'naysayer[photos]'"
            ]
        return self

    def transform(self, examples: Sequence[Item]) -> NDArray[Any]:
        """Give the features of images, or their pixels; all must be there to be read."""
        if failed := self.read(examples):
            raise UnusablePicture(f"{told_of(list(failed.values()))}; {PUT_BACK}")
        return np.stack([self._read[item.id] for item in examples])

    def read(self, examples: Sequence[Item]) -> dict[str, str]:
        """Read images for `transform` to find; give what is wrong with those that cannot be read, by their ids."""
        new = [item for item in {item.id: item for item in examples}.values() if item.id not in self._read]
        if new and self.photos is not None:
            given = [_picture(item) for item in new]
            photos = self.photos.set_params(verbose=self.verbose, device=self.device)
            features, failed = photos.transform_readable(given)
            self._read |= {item.id: features[row] for row, item in enumerate(new) if row not in failed}
            return {new[row].id: failed[row] for row in sorted(failed)}
        faults = {}
        with large_allowed():
            for item in new:
                try:
                    self._read[item.id] = self._pixels(item)
                except UnusablePicture as error:
                    faults[item.id] = str(error)
        return faults

    def _pixels(self, item: Item) -> NDArray[np.uint8]:
        from PIL import Image

        image = _picture(item).image(2 * self.side)
        image = image.convert("L") if self.channels == 1 else image
        small = image.resize((self.side, self.side), Image.Resampling.BILINEAR, reducing_gap=2.0)
        return np.asarray(small, dtype=np.uint8).reshape(self.side, self.side, self.channels).transpose(2, 0, 1).copy()

    def keep(self, before: Any) -> PhotoEncoder:
        """Take over what an encoder that encodes the same way has already read."""
        if isinstance(before, PhotoEncoder) and before.to_dict() == self.to_dict():
            self._read = before._read
        return self

    def to_dict(self) -> dict[str, Any]:
        """Give the state as what JSON can hold; it names the backbone, its version and its checksum."""
        if self.photos is not None:
            return {"kind": self.kind, "backbone": dict(self.photos.backbone_), "views": self.photos.views}
        return {"kind": self.kind, "side": self.side, "channels": self.channels}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> PhotoEncoder:
        """Make the encoder that :meth:`to_dict` described; the backbone must be here, and the same."""
        if "backbone" not in state:
            return cls(state["side"], state["channels"], pixels=True)
        encoder, wanted = cls(views=state["views"]), state["backbone"]
        encoder.photos = Photos(wanted["name"], size=wanted["size"], views=state["views"]).fit()
        same_backbone(encoder.photos._loaded, wanted, "see photos")
        return encoder


def _picture(item: Item) -> Picture:
    """Take an item's file, which must have the content that people were asked about."""
    return Picture(item.path or "", f"{item.name!r} at {item.path}", registered=item.id)


def _look(item: Item) -> tuple[int, bool]:
    """Give the longer side of an image, and whether it is grey; its pixels are not decoded."""
    from PIL import Image

    with Image.open(item.path or "") as image:
        return max(image.size), image.mode in _GREY
