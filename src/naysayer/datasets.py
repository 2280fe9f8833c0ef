"""The data sets of the paper and of the demo, read from local files."""

from __future__ import annotations

import difflib
import gzip
import hashlib
import math
import os
import struct
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_CHUNK = 1 << 20
_LARGEST = 1 << 31  # bytes; far above any data set here, and a bound on what a small gzip file can unpack to
_TYPES: dict[int, np.dtype[Any]] = {8: np.dtype(">u1"), 9: np.dtype(">i1"), 11: np.dtype(">i2"), 12: np.dtype(">i4")}
_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class Dataset(NamedTuple):
    """A data set in memory; the images are flat rows of uint8."""

    X_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    n_classes: int
    class_names: tuple[str, ...]


class Source(NamedTuple):
    """Where a data set's examples come from: its files, with the sha256 of each once unpacked, and its classes."""

    files: dict[str, str]
    class_names: tuple[str, ...]


def _idx_source(class_names: tuple[str, ...], *sums: str) -> Source:
    """Name the four idx files of a data set in the form of MNIST."""
    return Source(dict(zip(_FILES, sums)), class_names)


REGISTRY = {
    "digits": Source({}, tuple("0123456789")),
    "mnist": _idx_source(
        tuple("0123456789"),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion": _idx_source(
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    "kuzushiji": _idx_source(
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        "7112ba9ec422d98de4885262d4a4dff14cc4fefb81c11ace8bf563a8255df5c3",
        "2a16eeae62da984b8bd24fa32e31d47291f01dac3fe84d5594f304f71e7d374b",
        "76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
        "a11dc742be8e781a40a92f53d6a4957e7b7d36df2faa097659131ebfd8fd60c6",
    ),
}


def load(name: str, folder: str | os.PathLike[str] | None = None, *, check: bool = False) -> Dataset:
    """Load a data set by name: ``digits`` comes with scikit-learn; ``mnist``, ``fashion`` and ``kuzushiji`` are files.

    Parameters
    ----------
    name : a key of :data:`REGISTRY`.
    folder : holds ``<name>/train-images-idx3-ubyte`` and its three companions, each plain or with ``.gz``;
        the environment variable ``NAYSAYER_DATA`` when not given.
    check : compare the sha256 of each unpacked file with the published one.

    Returns
    -------
    Dataset, with (N, D) uint8 images and int64 classes; D is 784, or 64 for digits, whose split is always the same.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X_train.shape, digits.X_test.shape, digits.n_classes
    ((1297, 64), (500, 64), 10)
    """
    if name not in REGISTRY:
        near = difflib.get_close_matches(str(name), REGISTRY, n=1)
        advice = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"`name` must be one of {', '.join(REGISTRY)}; got {name!r}{advice}")
    source = REGISTRY[name]
    if not source.files:
        return _digits(source)
    paths = [_find(name, file, folder) for file in source.files]
    X_train, y_train, X_test, y_test = (read_idx(path) for path in paths)
    if check:
        for path, published in zip(paths, source.files.values()):
            if (found := _sha256(path)) != published:
                raise ValueError(
                    f"{path} must have the published sha256 {published[:12]}... once unpacked; "
                    f"got {found[:12]}...; fetch it again"
                )
    n_classes = len(source.class_names)
    _check_pair(X_train, y_train, n_classes, paths[0], paths[1])
    _check_pair(X_test, y_test, n_classes, paths[2], paths[3])
    if X_train.shape[1:] != X_test.shape[1:]:
        raise ValueError(
            f"{paths[2]} must hold images of the size of the training ones, {X_train.shape[1:]}; got {X_test.shape[1:]}"
        )
    return Dataset(
        X_train.reshape(len(X_train), -1),
        y_train.astype(np.int64),
        X_test.reshape(len(X_test), -1),
        y_test.astype(np.int64),
        n_classes,
        source.class_names,
    )


def _digits(source: Source) -> Dataset:
    """Split scikit-learn's digits into 1297 and 500 rows with nearly the same share of each class."""
    from sklearn.datasets import load_digits  # a second to import, which reading files need not pay

    values, y = load_digits(return_X_y=True)
    X = np.rint(values * (255 / 16)).astype(np.uint8)
    shuffled = np.random.RandomState(0).permutation(len(y))  # the one stream numpy promises never to change
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    test = np.zeros(len(y), dtype=bool)
    test[by_class[np.arange(500) * len(y) // 500]] = True
    y = y.astype(np.int64)
    return Dataset(X[~test], y[~test], X[test], y[test], len(source.class_names), source.class_names)


def _find(name: str, file: str, folder: str | os.PathLike[str] | None) -> Path:
    """Find one file of a data set, plain or compressed."""
    folder = folder if folder is not None else os.environ.get("NAYSAYER_DATA")
    if not folder:
        raise FileNotFoundError(
            f"data set {name!r} must be in a local folder; none was given; "
            f"pass folder= or set NAYSAYER_DATA to the folder that holds {name}/{file}.gz"
        )
    place = Path(folder).expanduser() / name
    for path in (place / file, place / f"{file}.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"data set {name!r} must have its four files in {place}; {file}[.gz] is not there; "
        f"put it there, or pass folder= or set NAYSAYER_DATA to the folder that holds {name}/"
    )


def _check_pair(X: NDArray[Any], y: NDArray[Any], n_classes: int, images: Path, labels: Path) -> None:
    """Check that images and labels are what they should be and belong together."""
    if X.ndim != 3 or X.dtype != np.uint8:
        raise ValueError(f"{images} must hold (N, height, width) bytes; got {X.dtype} of shape {X.shape}")
    if y.shape != X.shape[:1]:
        raise ValueError(f"{labels} must hold one label for each of the {len(X)} images; got shape {y.shape}")
    if y.min() < 0 or y.max() >= n_classes:
        i = int(np.argmax((y < 0) | (y >= n_classes)))
        raise ValueError(f"{labels} must hold classes 0 to {n_classes - 1}; got {y[i]} at row {i}")


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read an array of whole numbers in the idx format of MNIST, plain or gzip.

    The format: two zero bytes, a byte for the type, a byte for the number of dimensions, the dimensions as
    big-endian 32-bit numbers, the data. The header is believed only as far as the bytes that follow bear it out.

    Parameters
    ----------
    path : the file; whether it is compressed is seen from its content, not its name.

    Returns
    -------
    array of uint8, int8, int16 or int32, in the shape that the file states

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    try:
        with _unpacked(path) as file:
            dtype, shape = _read_header(file)
            size = math.prod(shape) * dtype.itemsize
            if size > _LARGEST:
                raise ValueError(f"its header states {shape}, over {_LARGEST} bytes")
            data = bytearray()
            while part := file.read(min(_CHUNK, size + 1 - len(data))):  # one more than is due, to see the end
                data += part
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} must be a whole idx file; {error}; fetch it again") from None
    if len(data) != size:
        found = f"only {len(data)}" if len(data) < size else "more"
        raise ValueError(
            f"{path} must hold {size} bytes after its header, as {shape} states; got {found}; fetch it again"
        )
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _read_header(file: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Read the type and the shape; the reasons given here become part of the caller's line."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise ValueError(f"it begins with {magic.hex(' ') or 'nothing'} instead of 00 00, a type and a dimension count")
    if magic[2] not in _TYPES:
        raise ValueError(f"its type 0x{magic[2]:02x} is not one of whole numbers (0x08, 0x09, 0x0b, 0x0c)")
    if not 1 <= magic[3] <= 8:
        raise ValueError(f"its header states {magic[3]} dimensions, not 1 to 8")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise ValueError("it ends within its header")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    if 0 in shape:
        raise ValueError(f"its header states {shape}, which holds nothing")
    return _TYPES[magic[2]], shape


def _unpacked(path: Path) -> IO[bytes]:
    """Open a file that may be gzip, which no idx file begins like."""
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if compressed else open(path, "rb")  # type: ignore[return-value]


def _sha256(path: Path) -> str:
    """Hash the unpacked content."""
    digest = hashlib.sha256()
    with _unpacked(path) as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()
