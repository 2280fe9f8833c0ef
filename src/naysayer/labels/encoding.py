"""Labels of any class values at the public edge, class indices 0 to K - 1 below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from naysayer.common.checks import to_numpy
from naysayer.labels.checks import check_labels
from naysayer.labels.reading import is_missing, named_classes, ruled_out


def encode_labels(y_bar: Any, classes: ArrayLike | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn labels of any class values into class indices, and give the classes they index.

    Parameters
    ----------
    y_bar : (N,) class values, "not this class"; texts such as "!cat", as :func:`naysayer.ruled_out` reads them; or an
        (N, K) ruled-out matrix, one column per class, which in a data frame is found by its name. Where any text begins
        with "!", plain ones say "is this class".
    classes : the K class values, in the order of the indices and of the columns. If None, those that occur in a 1-D
        `y_bar`, sorted, or for a 2-D one the names of its columns, or 0 to K - 1 if these have none. Pass them where
        some class may never be named.

    Returns
    -------
    labels : (N,) int64, or (N, K) bool
    classes : (K,)

    Examples
    --------
    >>> encode_labels(["dog", "cat", "dog"])
    (array([1, 0, 1]), array(['cat', 'dog'], dtype='<U3'))
    >>> encode_labels(["dog", "cat", "dog"], classes=["dog", "cat", "bird"])[0]
    array([0, 1, 0])
    >>> encode_labels(["!dog", "cat", "!dog !cat"], classes=["cat", "dog", "emu"])[0]
    array([[False,  True, False],
           [False,  True,  True],
           [ True,  True, False]])
    """
    if y_bar is None:
        raise ValueError("the estimator requires y to be passed, but the target y is None; pass the labels")
    values = None if classes is None else _check_values(classes)
    y_bar, values = _by_name(y_bar, values)
    marked = read_marked(y_bar, values)
    if marked is not None:
        return marked
    given, y_bar = y_bar, to_numpy(y_bar)
    if y_bar.ndim == 2 and y_bar.shape[1] == 1 and y_bar.dtype != bool:
        y_bar = column_or_1d(y_bar, warn=True)
    if y_bar.ndim != 1:
        if values is not None and y_bar.ndim == 2 and y_bar.shape[1] != len(values):
            raise ValueError(f"`classes` must name the {y_bar.shape[1]} columns of `y_bar`; got {len(values)} classes")
        labels, n_classes = check_labels(y_bar)
        return labels, np.arange(n_classes) if values is None else values
    if len(y_bar) == 0:
        raise ValueError("`y_bar` must hold at least one label; got none")
    missing = _missing(y_bar, given)
    if missing.any():
        i = int(np.argmax(missing))
        value = str(y_bar[i]).strip() or "blank text"
        raise ValueError(f"`y_bar` must name a class in each row; got {value} at row {i}; drop that row")
    if y_bar.dtype != object:  # scikit-learn calls every array of objects but texts unknown
        check_classification_targets(y_bar)
    elif collections := [value for value in y_bar.tolist() if isinstance(value, (set, frozenset, list, tuple, dict))]:
        raise ValueError(
            f"`y_bar` must hold class values; got {collections[0]}; for sets of candidates pass "
            f"naysayer.ruled_out(y_bar, classes)"
        )
    named, labels = _unique(y_bar)
    if values is None:
        if len(named) < 2:
            raise ValueError(_too_few(named))
        return labels, named
    column = {value: k for k, value in enumerate(values.tolist())}
    index = np.array([column.get(value, -1) for value in named.tolist()])
    unknown = index[labels] < 0
    if unknown.any():
        i = int(np.argmax(unknown))
        known = ", ".join(str(value) for value in values[:8]) + (", ..." if len(values) > 8 else "")
        raise ValueError(f"`y_bar` must hold the classes {known}; got {y_bar[i]!s} at row {i}; add it to `classes`?")
    return index[labels], values


def read_marked(y_bar: Any, classes: NDArray[Any] | None = None) -> tuple[NDArray[np.bool_], NDArray[Any]] | None:
    """Read labels among which a text begins with "!"; None where none does, or where all are names of given classes.

    Examples
    --------
    >>> read_marked(["!dog", "cat"])
    (array([[False,  True],
           [False,  True]]), array(['cat', 'dog'], dtype='<U3'))
    >>> read_marked(["dog", "cat"])
    """
    if not isinstance(y_bar, (list, tuple)):  # whose values an array might change: among texts NaN would become one
        y_bar = to_numpy(y_bar)
        if y_bar.dtype.kind not in "OU" or (y_bar.ndim != 1 and y_bar.shape[1:] != (1,)):
            return None
        y_bar = y_bar.ravel().tolist()
    if not any(isinstance(label, str) and label.lstrip().startswith("!") for label in y_bar):
        return None
    if classes is None:
        named = sorted(named_classes(y_bar))
        if len(named) < 2:
            raise ValueError(_too_few(named))
        classes = np.array(named)
    elif set(map(str, y_bar)) <= set(map(str, classes.tolist())):  # classes whose own names begin with a mark
        return None
    return ruled_out(y_bar, classes.tolist()), classes


def _by_name(y_bar: Any, classes: NDArray[Any] | None) -> tuple[Any, NDArray[Any] | None]:
    """Bring the columns of a ruled-out data frame into the order of the classes; without any, they name them."""
    columns = list(getattr(y_bar, "columns", ()))
    if len(columns) < 2 or columns == list(range(len(columns))):  # one column holds labels; numbers are no names
        return y_bar, classes
    if classes is None:
        return y_bar, _check_values(y_bar.columns)
    wanted = classes.tolist()
    if len(columns) != len(wanted) or set(columns) != set(wanted):
        known, came = (", ".join(map(str, each[:8])) + ", ..." * (len(each) > 8) for each in (wanted, columns))
        raise ValueError(
            f"the columns of `y_bar` must be the classes {known}; got {came}; rename them, or pass an array whose "
            f"columns are in the order of the classes"
        )
    return to_numpy(y_bar)[:, [columns.index(value) for value in wanted]], classes


def _check_values(classes: ArrayLike) -> NDArray[Any]:
    """Check class values: one dimension, at least 2, distinct, none missing."""
    values = to_numpy(classes)
    if values.ndim != 1:
        raise ValueError(f"`classes` must be a list of class values; got shape {values.shape}")
    if len(values) < 2:
        raise ValueError(f"`classes` must hold at least 2 classes; got {len(values)} class{'es' * (len(values) != 1)}")
    missing = _missing(values, classes)
    if missing.any():
        raise ValueError(f"`classes` must not hold missing values; got one at place {int(np.argmax(missing))}")
    seen: set[Any] = set()
    for value in values.tolist():
        if value in seen:
            raise ValueError(f"`classes` must be distinct; got {value!r} more than once")
        seen.add(value)
    return values


def _too_few(named: Iterable[Any]) -> str:
    """What to say of labels that name fewer than two classes."""
    found = ", ".join(f"1 class, {name!s}" for name in named) or "none"
    return f"`y_bar` must name at least 2 classes; got {found}; pass classes=[...] with all of them"


def _missing(values: NDArray[Any], given: Any) -> NDArray[np.bool_]:
    """Tell which values name no class: NaN, infinity, None, blank text; `given` is what they were an array of."""
    if isinstance(given, (list, tuple)) and values.dtype.kind == "U":  # in which NaN has become a text
        values = np.array(given, dtype=object).ravel()
    if values.dtype.kind == "f":
        return ~np.isfinite(values)
    if values.dtype.kind in "iub":
        return np.zeros(len(values), dtype=bool)
    return np.array([is_missing(value) for value in values], dtype=bool)


def _unique(y_bar: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Give the sorted distinct values and each label's place among them."""
    try:
        named, labels = np.unique(y_bar, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in y_bar.tolist()})
        raise ValueError(
            f"`y_bar` must hold class values of one kind, that can be sorted; got {' and '.join(kinds)}"
        ) from None
    return named, labels.astype(np.int64, copy=False)
