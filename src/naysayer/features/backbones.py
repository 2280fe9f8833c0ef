"""Pretrained networks by name: what a backbone is, the table of those for photos, and how others are found.

A new one is a function that gives a :class:`Backbone`, and a line in :data:`PHOTOS`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from naysayer.common.checks import near
from naysayer.features.efficientnet import SIZE, WIDTH, load_efficientnet_lite0, weights_path

Found = TypeVar("Found")


class _Loaded(Protocol):
    """What every backbone says of itself."""

    @property
    def version(self) -> str: ...

    @property
    def sha256(self) -> str: ...


Same = TypeVar("Same", bound=_Loaded)


class BackboneError(ValueError):
    """A backbone that is not here, or is another than the one wanted."""


@dataclass(frozen=True)
class Backbone:
    """A pretrained network for photos.

    Parameters
    ----------
    name, version, sha256 : what it is: its name here, the release of the package it is from, a checksum of its weights.
    size : of the pictures that it was made for.
    width : of its features, D.
    module : pictures (B, 3, S, S), bytes or floats from 0 to 1, into features (B, D).
    last : the parts of the module that are trained if only the last layers are.
    """

    name: str
    version: str
    sha256: str
    size: int
    width: int
    module: nn.Module
    last: tuple[nn.Module, ...]


def find(name: str, table: Mapping[str, Callable[[str], Found]]) -> Found:
    """Load what a name stands for: one in the table, or KIND:REST where the table has "KIND:".

    Examples
    --------
    >>> find("toys:car", {"ball": str.upper, "toys:": str.upper})
    'CAR'
    >>> find("bal", {"ball": str.upper, "toys:": str.upper})
    Traceback (most recent call last):
    naysayer.features.backbones.BackboneError: `backbone` must be ball or toys:NAME; got 'bal' (did you mean 'ball'?)
    """
    kind, colon, rest = str(name).partition(":")
    if kind + colon in table and bool(rest) == bool(colon):
        return table[kind + colon](rest)
    known = [f"{key}NAME" if key.endswith(":") else key for key in table]
    raise BackboneError(f"`backbone` must be {' or '.join(known)}; got {near(str(name), table)}")


def optional(package: str, project: str, what: str) -> Any:
    """Import a package that is installed only by those who want it."""
    try:
        return import_module(package)
    except Exception as error:  # also one that is here but does not suit the torch that is
        why = "which is not installed" if isinstance(error, ModuleNotFoundError) else f"whose import fails: {error}"
        raise BackboneError(f"{what} needs {project}, {' '.join(why.split())}; pip install {project}") from None


def weights_hash(module: nn.Module) -> str:
    """Hash the names, shapes and values of a network's weights.

    Examples
    --------
    >>> one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> weights_hash(one) == weights_hash(other), weights_hash(one) == weights_hash(one)
    (False, True)
    """
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def same_backbone(loaded: Same, wanted: Mapping[str, Any], does: str) -> Same:
    """Refuse a backbone whose weights are not those that were used before, to do what `does` says."""
    if loaded.sha256 != wanted["sha256"]:
        raise BackboneError(
            f"the model must {does} by {wanted['name']} {wanted['version']} with the checksum "
            f"{wanted['sha256'][:12]}…; here {loaded.version} has {loaded.sha256[:12]}…; install the other version"
        )
    return loaded


class Normalized(nn.Module):
    """A network that wants pictures of mean 0 and deviation 1, given bytes or floats from 0 to 1."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, module: nn.Module, mean: Any, deviation: Any) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation, dtype=torch.float32).view(3, 1, 1), persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        """Give the features."""
        x = pictures.to(self.mean.dtype)
        return self.module(((x / 255 if pictures.dtype == torch.uint8 else x) - self.mean) / self.deviation)


# ---- for photos ------------------------------------------------------------------------------------------------


def _efficientnet_lite0(_: str) -> Backbone:
    try:
        module, version, sha256 = load_efficientnet_lite0()
    except (ImportError, ValueError) as error:
        raise BackboneError(str(error)) from None
    last = (module.blocks[-1], module.head)
    return Backbone("efficientnet-lite0", version, sha256, SIZE, WIDTH, module, last)


def _timm(name: str) -> Backbone:
    """A network of timm's, without its classifier; its weights come from its cache or the network."""
    timm = optional("timm", "timm", f"the backbone timm:{name}")
    try:
        module = timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # of many kinds: no such name, no weights, no network
        raise BackboneError(f"timm must give {name!r} with weights; it does not: {_line(error)}") from None
    config = import_module("timm.data").resolve_model_data_config(module)
    size = config["input_size"][-1]
    whole = Normalized(module, config["mean"], config["std"])
    return _other(f"timm:{name}", metadata.version("timm"), size, whole, module)


def _open_clip(name: str) -> Backbone:
    """The image tower of one of open_clip's models: NAME/PRETRAINED."""
    open_clip = optional("open_clip", "open_clip_torch", f"the backbone open_clip:{name}")
    architecture, _, weights = name.partition("/")
    if not weights:
        raise BackboneError(
            f"an open_clip backbone must be open_clip:NAME/PRETRAINED, such as open_clip:ViT-B-32/laion2b_s34b_b79k; "
            f"got {f'open_clip:{name}'!r}"
        )
    try:
        model = open_clip.create_model(architecture, pretrained=weights, require_pretrained=True).eval()
    except Exception as error:
        raise BackboneError(f"open_clip must give {name!r} with weights; it does not: {_line(error)}") from None
    config = open_clip.get_model_preprocess_cfg(model)
    size = config["size"] if isinstance(config["size"], int) else config["size"][-1]
    whole = Normalized(model.visual, config["mean"], config["std"])
    return _other(f"open_clip:{name}", metadata.version("open_clip_torch"), size, whole, model.visual)


def width_at(module: nn.Module, name: str, size: int) -> int:
    """Give the number of features per picture of a size, which the network must take."""
    try:
        with torch.inference_mode():
            features = module(torch.zeros(1, 3, size, size))
        _, width = features.shape
    except Exception as error:  # whatever a network says of a size that it cannot take
        why = _line(error)
        raise BackboneError(f"{name} must give one row of features per {size} × {size} picture; {why}") from None
    return int(width)


def _other(name: str, version: str, size: int, module: nn.Module, inner: nn.Module) -> Backbone:
    width = width_at(module, name, size)
    last = [part for part in inner.children() if any(True for _ in part.parameters())][-1:]
    return Backbone(name, version, weights_hash(inner), size, width, module, tuple(last))


def _line(error: Exception) -> str:
    return " ".join(f"{error}".split())[:200] or type(error).__name__


PHOTOS: dict[str, Callable[[str], Backbone]] = {
    "efficientnet-lite0": _efficientnet_lite0,
    "timm:": _timm,
    "open_clip:": _open_clip,
}


def has_photos() -> bool:
    """Whether the default backbone for photos, and what reads them, are installed."""
    try:
        metadata.version("pillow")
    except metadata.PackageNotFoundError:
        return False
    return weights_path() is not None
