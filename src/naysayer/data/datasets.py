"""Data sets: found or fetched, checked, and read. Those of the paper by name, your own by their path."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.common.checks import near
from naysayer.common.files import whole_file
from naysayer.common.progress import Bar, progress_bar
from naysayer.data import tables
from naysayer.data.labels import by_value, whole
from naysayer.data.readers import CHUNK, DAMAGE, Hashed, naming, parse_cifar, parse_idx, read_whole, unpack
from naysayer.data.readers import read_cifar as read_cifar
from naysayer.data.readers import read_idx as read_idx
from naysayer.data.registry import REGISTRY as REGISTRY

_OWN = (".npz", ".csv", ".tsv", ".parquet")
_ARRAYS = (("X_train", "y_train"), ("X_test", "y_test"), ("X", "y"))
_LABEL_NAMES = ("label", "y", "class", "target")


class Dataset(NamedTuple):
    """A data set in memory: images as uint8, the numbers of your own as float32; classes are 0 to K-1."""

    X_train: NDArray[Any]
    y_train: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]
    n_classes: int
    class_names: tuple[str, ...]


class Listed(NamedTuple):
    """A line of :func:`overview`; `size` is that on the disk, or of the download when `folder` is None."""

    name: str
    n_classes: int
    n_train: int
    n_test: int
    size: int
    folder: Path | None


# Loading


def load(
    name: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, *, download: bool = False
) -> Dataset:
    """Load a data set by its name, or your own by the path of its file.

    ``digits`` comes with scikit-learn; ``mnist``, ``fashion``, ``kuzushiji`` and ``cifar10`` are files, each of which
    is compared with its published sha256 as it is read. Your own is an npz file with the arrays ``X_train``,
    ``y_train``, ``X_test`` and ``y_test``, or ``X`` and ``y``; or a table of numbers (CSV, TSV, Parquet) whose classes
    are the column named ``label``, ``y``, ``class`` or ``target``, or else the last. Where there is no test set, the
    same fifth of the rows, with nearly the same share of each class, is always it.

    Parameters
    ----------
    name : a key of :data:`REGISTRY`, or a path.
    folder : where to look for a named set, in ``<folder>/<name>/``; when not given, the environment variable
        ``NAYSAYER_DATA``; when that is not set, the user's cache.
    download : fetch what is missing or damaged there, as :func:`get` does.

    Returns
    -------
    Dataset, with X (N, 784) uint8 for the sets like MNIST, (N, 64) for digits, (N, 3, 32, 32) for cifar10

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X_train.shape, digits.X_test.shape, digits.n_classes
    ((1297, 64), (500, 64), 10)
    """
    name = str(name)
    if name not in REGISTRY and Path(name).suffix.lower() in _OWN:
        return _load_own(Path(name))
    check_name(name)
    try:
        return _load_known(name, folder)
    except (FileNotFoundError, ValueError):
        if not download:
            raise
    get(name, folder)
    return _load_known(name, folder)


def check_name(name: str) -> None:
    """Refuse a name that no data set of :data:`REGISTRY` has, with the nearest that one has.

    Examples
    --------
    >>> check_name("minst")
    Traceback (most recent call last):
    ValueError: ...; got 'minst' (did you mean 'mnist'?)
    """
    if name not in REGISTRY:
        raise ValueError(
            f"`name` must be one of {', '.join(REGISTRY)}, or the path of a file that ends in {', '.join(_OWN)}; "
            f"got {near(name, REGISTRY)}"
        )


def _load_known(name: str, folder: str | os.PathLike[str] | None) -> Dataset:
    """Load a data set of the registry from local files."""
    X_train, y_train, X_test, y_test = _digits() if name == "digits" else _arrays(name, folder)
    class_names = REGISTRY[name].class_names
    return Dataset(X_train, y_train.astype(np.int64), X_test, y_test.astype(np.int64), len(class_names), class_names)


def _arrays(name: str, folder: str | os.PathLike[str] | None) -> tuple[NDArray[Any], ...]:
    """Read the files of a data set, check them, and give the arrays in the order of Dataset."""
    parse: Callable[[Hashed], NDArray[Any]] = parse_cifar if name == "cifar10" else parse_idx
    found: dict[str, NDArray[Any]] = {}
    for path, files in _locate(name, folder):
        with naming(path), open(path, "rb") as packed:
            found |= unpack(packed, files, parse)
    arrays = [found[file] for files in REGISTRY[name].parts.values() for file in files]
    if name != "cifar10":
        X_train, y_train, X_test, y_test = arrays
        return X_train.reshape(len(X_train), -1), y_train, X_test.reshape(len(X_test), -1), y_test
    X = np.concatenate([batch[:, 1:] for batch in arrays]).reshape(-1, 3, 32, 32)
    y = np.concatenate([batch[:, 0] for batch in arrays])
    n_train = len(y) - len(arrays[-1])
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def _digits() -> tuple[NDArray[Any], ...]:
    """Split scikit-learn's digits into 1297 and 500 rows."""
    from sklearn.datasets import load_digits  # a second to import, which reading files need not pay

    values, y = load_digits(return_X_y=True)
    X = np.rint(values * (255 / 16)).astype(np.uint8)
    test = _test_rows(y, 500)
    return X[~test], y[~test], X[test], y[test]


def _test_rows(y: NDArray[Any], n_test: int) -> NDArray[np.bool_]:
    """Choose test rows, always the same, with nearly the same share of each class."""
    shuffled = np.random.RandomState(0).permutation(len(y))  # the one stream numpy promises never to change
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    test = np.zeros(len(y), dtype=bool)
    test[by_class[np.arange(n_test) * len(y) // n_test]] = True
    return test


# Finding


def cache_folder() -> Path:
    """Give the folder in which downloads are kept when no other is named."""
    return Path(_pooch().os_cache("naysayer"))


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            "downloads and their cache need pooch, which is not installed; pip install pooch, "
            "or pass folder= or set NAYSAYER_DATA to a folder that holds the files"
        ) from None
    return pooch


def _root(folder: str | os.PathLike[str] | None) -> Path:
    """Choose the folder of data: the one given, or that of the environment, or the cache."""
    chosen = folder if folder is not None else os.environ.get("NAYSAYER_DATA")
    return Path(chosen).expanduser() if chosen else cache_folder()


def find(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Find the folder that holds a data set's files, without reading them.

    Parameters
    ----------
    name : a key of :data:`REGISTRY`.
    folder : as in :func:`load`.

    Returns
    -------
    path of the folder; FileNotFoundError when a file is missing

    Examples
    --------
    >>> find("digits").name  # within scikit-learn
    'data'
    """
    check_name(name)
    return _locate(name, folder)[0][0].parent


def overview(folder: str | os.PathLike[str] | None = None) -> list[Listed]:
    """List the data sets of the registry, and where each is.

    Parameters
    ----------
    folder : as in :func:`load`.

    Returns
    -------
    list of Listed

    Examples
    --------
    >>> digits = overview("nowhere")[0]
    >>> digits.name, digits.n_classes, digits.n_train, digits.n_test
    ('digits', 10, 1297, 500)
    """
    listed = []
    for name, source in REGISTRY.items():
        try:
            paths = [path for path, _ in _locate(name, folder)]
            place, size = paths[0].parent, sum(path.stat().st_size for path in paths)
        except FileNotFoundError:
            place, size = None, source.size
        listed.append(Listed(name, len(source.class_names), source.n_train, source.n_test, size, place))
    return listed


def _locate(name: str, folder: str | os.PathLike[str] | None) -> list[tuple[Path, Mapping[str, str]]]:
    """Find all files of a data set, each with the files in it and their sha256."""
    if name == "digits":
        import sklearn

        return [(Path(sklearn.__file__).parent / "datasets" / "data" / "digits.csv.gz", {})]
    root = _root(folder)
    found = []
    for part in REGISTRY[name].parts:
        here = _locate_part(name, part, root)
        if not here:
            option = "" if folder is None else f" --data {folder}"
            raise FileNotFoundError(
                f"data set {name!r} must be in {root / name}; {part} is not there, nor unpacked; "
                f"run `naysayer data get {name}{option}`, or name a folder that holds {name}/ "
                "by folder=, --data or NAYSAYER_DATA"
            )
        found += here
    return found


def _locate_part(name: str, part: str, root: Path) -> list[tuple[Path, Mapping[str, str]]]:
    """Find what is downloaded as one, unpacked or as it came; nothing when a file of it is missing.

    Unpacked files come first: they are what `get` leaves, also where a damaged part lies beside them.
    """
    files = REGISTRY[name].parts[part]
    for place in (root / place for place in REGISTRY[name].places):
        if all((place / file).is_file() for file in files):
            return [(place / file, {file: published}) for file, published in files.items()]
        if (place / part).is_file():
            return [(place / part, files)]
    return []


# Fetching


def get(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Fetch those files of a data set that are missing or damaged, from the first mirror that has them.

    What comes is unpacked and compared with its published sha256 in memory; only then is it written, and each file
    takes its place whole.

    Parameters
    ----------
    name : a key of :data:`REGISTRY`.
    folder : where to, as in :func:`load`.

    Returns
    -------
    path of the folder that holds the files

    Examples
    --------
    >>> get("digits") == find("digits")  # nothing to fetch
    True
    """
    check_name(name)
    source = REGISTRY[name]
    with progress_bar(source.size, f"fetching {name}") as bar:
        for part in source.parts:
            root = _root(folder)
            if not _is_whole(_locate_part(name, part, root)):
                _fetch(name, part, root / source.places[0], bar)
    return find(name, folder)


def _is_whole(located: list[tuple[Path, Mapping[str, str]]]) -> bool:
    """Whether files are there and have their sha256."""
    try:
        for path, files in located:
            with open(path, "rb") as packed:
                unpack(packed, files, read_whole)
    except DAMAGE:
        return False
    return bool(located)


def _fetch(name: str, part: str, place: Path, bar: Bar) -> None:
    """Download one part from the first mirror that gives it whole, and unpack it into its place."""
    source = REGISTRY[name]
    tried = []
    for mirror in source.mirrors:
        came = _Incoming(bar, limit=2 * source.size)
        try:
            _download(mirror + part, came)
            unpacked = unpack(came, source.parts[part], read_whole)
        except DAMAGE as error:
            bar(-came.getbuffer().nbytes)
            tried.append(f"{mirror}{part} ({error})")
            continue
        for file, content in unpacked.items():
            with whole_file(place / file) as temporary:
                temporary.write_bytes(content)
        return
    raise OSError(
        f"{part} of data set {name!r} must come from one of its mirrors; none gave it: {', '.join(tried)}; "
        f"try again when online, or put the file into {place}"
    )


class _Incoming(io.BytesIO):
    """What is being downloaded: in memory, so that nothing unchecked is on the disk even if the machine fails."""

    def __init__(self, bar: Bar, limit: int) -> None:
        super().__init__()
        self.bar, self.limit = bar, limit

    def write(self, part: Any) -> int:
        """Take what came next."""
        if self.tell() + len(part) > self.limit:
            raise ValueError("the download is far longer than the published file")
        self.bar(len(part))
        return super().write(part)


def _download(url: str, into: _Incoming) -> None:
    """Download what is at an address; whatever the network does wrong becomes a short reason."""
    pooch = _pooch()
    import requests  # which pooch needs

    try:
        pooch.HTTPDownloader(chunk_size=CHUNK)(url, into, None)
    except requests.HTTPError as error:
        raise ValueError(f"status {error.response.status_code}") from None  # type: ignore[union-attr]
    except requests.Timeout:
        raise ValueError("no answer in time") from None
    except requests.ConnectionError:
        raise ValueError("no connection") from None
    except requests.RequestException:
        raise ValueError("the download broke off") from None
    into.seek(0)


# Your own


def _load_own(path: Path) -> Dataset:
    """Load a data set from a file; split it if it has no test set."""
    arrays = _own_arrays(path) if path.suffix.lower() == ".npz" else _own_table(path)
    Xs, ys = [], []
    for X_name, y_name in _ARRAYS[:2] if len(arrays) == 4 else _ARRAYS[2:]:
        X, y = _own_numbers(path, X_name, arrays[X_name]), arrays[y_name]
        if y.shape != (len(X),):
            raise ValueError(f"{path} must hold {len(X)} labels as {y_name!r}, one for each row; got shape {y.shape}")
        Xs.append(X)
        ys.append(y)
    y, class_names = _own_classes(path, np.concatenate(ys))
    if len(Xs) == 1:
        if len(y) < 5:
            raise ValueError(f"{path} must have at least 5 rows, of which one becomes the test set; got {len(y)}")
        test = _test_rows(y, len(y) // 5)
        return Dataset(Xs[0][~test], y[~test], Xs[0][test], y[test], len(class_names), class_names)
    X_train, X_test = Xs
    if X_train.shape[1:] != X_test.shape[1:]:
        raise ValueError(
            f"{path} must hold test rows of the shape of the training ones, {X_train.shape[1:]}; got {X_test.shape[1:]}"
        )
    n_train = len(X_train)
    return Dataset(X_train, y[:n_train], X_test, y[n_train:], len(class_names), class_names)


def _own_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read X_train, y_train, X_test and y_test, or X and y, from an npz file; nothing is unpickled."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    arrays: dict[str, NDArray[Any]] = {}
    with tables.parsing(path, "npz"), zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
        either = (_ARRAYS[0] + _ARRAYS[1], _ARRAYS[2])
        for name in next((names for names in either if members.keys() >= {*names}), ()):
            with archive.open(members[name]) as file:
                arrays[name] = tables._read_npy(file, members[name].file_size)
    if not arrays:
        raise ValueError(
            f"{path} must hold the arrays X_train, y_train, X_test and y_test, or X and y; "
            f"got {tables.some(members) or 'none'}"
        )
    return arrays


def _own_table(path: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a table as X, and the one of the classes as y."""
    table = tables.read_table(path)
    named = [name for name in table.columns if name.lower() in _LABEL_NAMES]
    if len(named) > 1:
        raise ValueError(
            f"{path} must have one column of classes; got {' and '.join(map(repr, named))}; leave out or rename one"
        )
    label = named[0] if named else list(table.columns)[-1]
    columns = []
    for name, column in table.columns.items():
        if name != label:
            values = tables.numbers_of(column)
            if values is None or not np.isfinite(values).all():
                texts = enumerate(tables.texts_of(column))
                i, text = next((i, text) for i, text in texts if not _is_finite(text))
                raise ValueError(
                    f"{path} must hold a number in each row of column {name!r}; got {text or 'nothing'} at row {i}"
                )
            columns.append(values)
    return {"X": np.array(columns).T.reshape(table.n_rows, -1), "y": table.columns[label]}


def _is_finite(text: str | None) -> bool:
    """Whether a value is a number, and neither missing nor infinite."""
    return text is not None and tables.is_number(text) and math.isfinite(tables.number_of(text))


def _own_numbers(path: Path, name: str, X: NDArray[Any]) -> NDArray[Any]:
    """Copy the inputs: bytes as they are, all other numbers as float32."""
    if X.dtype.kind not in "biuf" or X.ndim < 2 or X.size == 0:
        raise ValueError(f"{path} must hold numbers of shape (N, D) as {name!r}; got {X.dtype} of shape {X.shape}")
    with np.errstate(over="ignore"):
        X = np.array(X, dtype=np.uint8 if X.dtype == np.uint8 else np.float32)
    if not np.isfinite(X).all():
        index = tuple(map(int, np.argwhere(~np.isfinite(X))[0]))
        raise ValueError(f"{path} must hold finite float32 numbers as {name!r}; got {X[index]} at {index}")
    return X


def _own_classes(path: Path, y: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number the class values 0 to K-1 in their order."""
    texts = whole(tables.texts_of(y))
    if None in texts:
        raise ValueError(f"{path} must have a label in each row; row {texts.index(None)} has none")
    names = sorted(set(texts), key=by_value)
    if len(names) < 2:
        raise ValueError(f"{path} must have at least 2 classes; got only {names[0]!r}")
    place = {name: k for k, name in enumerate(names)}
    return np.array([place[text] for text in texts], dtype=np.int64), tuple(names)
