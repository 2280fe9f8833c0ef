"""Images that people, or a model, gave complementary labels to, read from their publishers' files.

People: the four sets of CLImage. Wang, Mai, Ye, Lin and Lin (2023), CLImage: human-annotated datasets for
complementary-label learning, arXiv:2305.08295. A vision-language model: the four sets of ACLImage, in files of the same
format. Ye, Mai, Wang, Lin and Lin (2024), libcll: an extendable Python toolkit for complementary-label learning,
arXiv:2411.12276.

The publishers' pages name the files; they give no checksums, so nothing is downloaded here: put them into
``<folder>/<name>/``. They are pickles, which could run anything when they are loaded, so only what such a file needs
is let through: arrays, lists, dicts, strings and numbers.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import near
from naysayer.data import datasets
from naysayer.data.readers import Hashed, read_whole
from naysayer.data.registry import REGISTRY

PAGE = "https://github.com/ntucllab/CLImage_Dataset"
LIBCLL = "https://github.com/ntucllab/libcll"
_HARMLESS = {  # what pickles of arrays name, in all versions of numpy
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
_CIFAR100 = 2 + 3 * 32 * 32  # bytes of an image of CIFAR-100: its class of 20, its class of 100, red, green and blue


class Human(NamedTuple):
    """Images (N, 3, S, S) uint8 with their true classes and the labels (N, 3) that each was given."""

    data: datasets.Dataset
    y_bar: NDArray[np.int64]


class Listing(NamedTuple):
    """A set as its publishers have it: the file to train on, the one to test on, and the data set that this is of."""

    class_names: tuple[str, ...]
    train: str
    test: str
    test_of: str
    page: str = PAGE  # which says where the file to train on is


_CIFAR10 = Listing(REGISTRY["cifar10"].class_names, "clcifar10.pkl", "", "cifar10")
_CIFAR20 = Listing(
    (
        *("aquatic mammals", "fish", "flowers", "food containers", "fruit, vegetables and mushrooms"),
        *("household electrical devices", "household furniture", "insects", "large carnivores and bear"),
        *("large man-made outdoor things", "large natural outdoor scenes", "large omnivores and herbivores"),
        *("medium-sized mammals", "non-insect invertebrates", "people", "reptiles", "small mammals", "trees"),
        *("transportation vehicles", "non-transportation vehicles"),
    ),
    "clcifar20.pkl",
    "test.bin",
    "CIFAR-100's binary version",
)
_IMAGENET10 = Listing(
    (
        *("sulphur butterfly", "backpack", "cardigan", "kimono", "magnetic compass", "oboe", "sandal", "torch"),
        *("pizza", "alp"),
    ),
    "clmicro_imagenet10_train.pkl",
    "clmicro_imagenet10_test.pkl",
    "",
)
_IMAGENET20 = Listing(
    (
        *("tailed frog", "scorpion", "snail", "american lobster", "tabby", "persian cat", "gazelle", "chimpanzee"),
        *("bannister", "barrel", "christmas stocking", "gasmask", "hourglass", "iPod", "scoreboard", "snorkel"),
        *("suspension bridge", "torch", "tractor", "triumphal arch"),
    ),
    "clmicro_imagenet20_train.pkl",
    "clmicro_imagenet20_test.pkl",
    "",
)


def _by_model(listing: Listing) -> Listing:
    """The same images and classes, labelled by a vision-language model; they are tested on the same file."""
    return listing._replace(train=f"a{listing.train}", page=LIBCLL)


HUMAN = {
    "clcifar10": _CIFAR10,
    "clcifar20": _CIFAR20,
    "clmicroimagenet10": _IMAGENET10,
    "clmicroimagenet20": _IMAGENET20,
    "aclcifar10": _by_model(_CIFAR10),
    "aclcifar20": _by_model(_CIFAR20),
    "aclmicroimagenet10": _by_model(_IMAGENET10),
    "aclmicroimagenet20": _by_model(_IMAGENET20),
}


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Human:
    """Load a set that people or a model labelled, from its publishers' files.

    Parameters
    ----------
    name : a key of :data:`HUMAN`.
    folder : where ``<folder>/<name>/`` holds the files, as in :func:`naysayer.data.datasets.load`. CLCIFAR-10 and
        ACLCIFAR-10 are tested on CIFAR-10's test images, which are the data set ``cifar10``; CLCIFAR-20 and ACLCIFAR-20
        on those of CIFAR-100, ``test.bin``.
    """
    if name not in HUMAN:
        raise ValueError(f"`name` must be one of {', '.join(HUMAN)}; got {near(name, HUMAN)}")
    listing = HUMAN[name]
    n_classes = len(listing.class_names)
    place = datasets._root(folder) / name
    train = _find(place, listing.train, f"from {listing.page}")
    X, y_true, y_bar = read_labelled(train, n_classes)
    if y_bar is None:
        raise ValueError(f"{train} must hold 'cl_labels', the complementary labels; it has none")
    if listing.test_of == "cifar10":
        cifar = datasets.load("cifar10", folder)
        X_test, y_test = cifar.X_test, cifar.y_test
    elif listing.test_of:
        X_test, y_test = _read_cifar100(_find(place, listing.test, f"of {listing.test_of}"))
    else:
        X_test, y_test, _ = read_labelled(_find(place, listing.test, f"from {listing.page}"), n_classes)
    if X.shape[1:] != X_test.shape[1:]:
        raise ValueError(
            f"{place} must hold images of one shape; got {X.shape[1:]} to train, {X_test.shape[1:]} to test"
        )
    return Human(datasets.Dataset(X, y_true, X_test, y_test, n_classes, listing.class_names), y_bar)


def _find(place: Path, file: str, where: str) -> Path:
    """A file that somebody has to put there."""
    if not (place / file).is_file():
        raise FileNotFoundError(
            f"{place / file} must be there; it is not, and no checksum is published by which it could be fetched; "
            f"put {file} {where} there yourself"
        )
    return place / file


def read_labelled(
    path: str | os.PathLike[str], n_classes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64] | None]:
    """Read a pickle with the keys ``images``, ``ord_labels`` and, of a set to train on, ``cl_labels``.

    Parameters
    ----------
    path : the file.
    n_classes : K

    Returns
    -------
    images (N, 3, S, S), true classes (N,), and labels (N, 3), or None where there are none
    """
    path = Path(path)
    with open(path, "rb") as file:
        content = _unpickle(path, file)
    if not isinstance(content, dict) or not {"images", "ord_labels"} <= content.keys():
        keys = f"the keys {', '.join(map(str, content))}" if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{path} must be a dict with the keys images and ord_labels; got {keys}")
    images = _array(path, "images", content["images"], (None, None, None, 3))
    if images.dtype != np.uint8 and not (images.min(initial=0) >= 0 and images.max(initial=0) <= 255):
        raise ValueError(f"{path} must hold images of bytes, 0 to 255; got {images.min()} to {images.max()}")
    n = len(images)
    y_true = _classes(path, "ord_labels", np.reshape(_array(path, "ord_labels", content["ord_labels"]), -1), n_classes)
    y_bar = None
    if "cl_labels" in content:
        y_bar = _classes(path, "cl_labels", _array(path, "cl_labels", content["cl_labels"], (None, None)), n_classes)
    for key, values in (("ord_labels", y_true), ("cl_labels", y_bar)):
        if values is not None and len(values) != n:
            raise ValueError(f"{path} must hold {n} {key}, one per image; got {len(values)}")
    return np.ascontiguousarray(images.astype(np.uint8).transpose(0, 3, 1, 2)), y_true, y_bar


class _Restricted(pickle.Unpickler):
    """An unpickler that makes arrays and plain values, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module, name)


def _unpickle(path: Path, file: IO[bytes]) -> Any:
    try:
        return _Restricted(file).load()
    except Exception as error:  # a damaged pickle makes its loader raise anything
        raise ValueError(
            f"{path} must be a pickle of arrays, lists, strings and numbers, and nothing else; {error or 'it is not'}"
        ) from None


def _array(path: Path, key: str, values: Any, shape: tuple[int | None, ...] | None = None) -> NDArray[Any]:
    """The values of a key as an array of numbers of that shape; None is any length."""
    try:
        out = np.asarray(values)
    except ValueError:
        raise ValueError(f"{path} must hold {key} of one shape each; they differ") from None
    fits = shape is None or (out.ndim == len(shape) and all(w in (None, s) for w, s in zip(shape, out.shape)))
    if out.dtype.kind not in "iufb" or not out.size or not fits:
        what = "numbers" if shape is None else f"({', '.join('any' if w is None else str(w) for w in shape)}) numbers"
        raise ValueError(f"{path} must hold {key} as {what}; got {out.dtype} of shape {out.shape}")
    return out


def _classes(path: Path, key: str, values: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    wrong = (values < 0) | (values >= n_classes) | (values != np.floor(values))
    if wrong.any():
        raise ValueError(f"{path} must hold {key} from 0 to {n_classes - 1}; got {values[wrong][0]}")
    return values.astype(np.int64)


def _read_cifar100(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read CIFAR-100's binary format with its 20 classes, whose order is that of CLCIFAR-20."""
    with open(path, "rb") as file:
        data = read_whole(Hashed(file))
    if len(data) == 0 or len(data) % _CIFAR100:
        raise ValueError(f"{path} must have {_CIFAR100} bytes per image; got {len(data)}")
    records = np.frombuffer(data, np.uint8).reshape(-1, _CIFAR100)
    return records[:, 2:].reshape(-1, 3, 32, 32).copy(), _classes(path, "classes", records[:, 0], 20)
