"""Fitted objects of scikit-learn as JSON and arrays, without pickle.

Numbers, text, lists and dicts are themselves in JSON; all else is a dict with the key "$", which names its kind. An
object is its class and its state, as pickle would see them. What is read may come from a stranger, so it names
nothing that is called but the classes allowed here, and the numbers by which compiled code finds its way in memory
(the nodes of a tree, the classes of neighbours) are checked before that code sees them.
"""

from __future__ import annotations

import copyreg
import functools
import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.lib.format import descr_to_dtype, dtype_to_descr
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch, check_array
from torch import Tensor

from naysayer.labels.transition import Estimated
from naysayer.measure.intervals import Interval

Tensors = dict[str, Tensor]
Described = dict[str, Any]

KIND = "$"
# Packages whose estimators may be read, by the modules that define them. Not among them are those whose compiled code
# trusts more of what is read than is checked here: libsvm, sklearn.cluster, the older gradient boosting.
_ESTIMATORS = (
    *("sklearn.calibration", "sklearn.compose", "sklearn.discriminant_analysis", "sklearn.dummy"),
    *("sklearn.ensemble._bagging", "sklearn.ensemble._forest", "sklearn.ensemble._hist_gradient_boosting"),
    *("sklearn.ensemble._stacking", "sklearn.ensemble._voting", "sklearn.ensemble._weight_boosting"),
    *("sklearn.decomposition._pca", "sklearn.decomposition._truncated_svd", "sklearn.feature_extraction.text"),
    *("sklearn.feature_selection", "sklearn.impute", "sklearn.isotonic", "sklearn.kernel_approximation"),
    *("sklearn.linear_model", "sklearn.multiclass", "sklearn.naive_bayes", "sklearn.neighbors"),
    *("sklearn.neural_network", "sklearn.pipeline", "sklearn.preprocessing", "sklearn.random_projection"),
    *("sklearn.svm", "sklearn.tree", "naysayer.models.reduction"),
)
_PARTS = (  # other classes that estimators are made of
    *(
        "sklearn._loss.link",
        "sklearn._loss.loss",
        "sklearn.calibration",
        "sklearn.neural_network._stochastic_optimizers",
    ),
    "sklearn.ensemble._hist_gradient_boosting.predictor",
)
_TREE = "sklearn.tree._tree.Tree"
_COMPILED_LOSSES = "sklearn._loss._loss"  # made by a call with numbers
_TYPES: dict[str, type] = {t.__name__: t for t in (bool, int, float, str, object)}
_BITS = ("MT19937", "PCG64")


def describe(value: Any, tensors: Tensors) -> Any:
    """Give a value as JSON has it; its arrays are added to `tensors`, as bytes.

    >>> describe({"a": (1, None), "b": [np.float32(2)]}, {})
    {'a': {'$': 'tuple', 'items': [1, None]}, 'b': [{'$': 'scalar', 'dtype': '<f4', 'bytes': '00000040'}]}
    """
    try:
        return _describe(value, tensors)
    except RecursionError:
        raise ValueError("cannot save an object that holds itself, or that is nested too deeply") from None


def rebuild(described: Any, tensors: Tensors) -> Any:
    """Give the value that :func:`describe` described; what is not allowed, or not whole, is refused."""
    try:
        return _rebuild(described, tensors)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"it is not whole: {type(error).__name__}: {error}") from None


# ---- writing ----------------------------------------------------------------------------------------------------


def _describe(value: Any, tensors: Tensors) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_describe(v, tensors) for v in value]
    if kind is dict and all(type(key) is str for key in value) and KIND not in value:
        return {key: _describe(v, tensors) for key, v in value.items()}
    if kind in _WRITERS:
        name, write = _WRITERS[kind]
        return {KIND: name} | write(value, tensors)
    if isinstance(value, np.generic):
        return {KIND: "scalar", "dtype": dtype_to_descr(value.dtype), "bytes": value.tobytes().hex()}
    if isinstance(value, np.dtype):
        return {KIND: "dtype", "dtype": dtype_to_descr(value)}
    if isinstance(value, type) and (issubclass(value, np.generic) or value in _TYPES.values()):
        return {KIND: "type", "name": value.__name__}
    return {KIND: "object"} | _describe_object(value, tensors)


def _describe_array(array: Any, tensors: Tensors) -> Described:
    if array.dtype.hasobject:
        return {"shape": list(array.shape), "items": [_describe(v, tensors) for v in array.ravel().tolist()]}
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"  # products differ in their bits
    name = f"array.{len(tensors)}"
    tensors[name] = torch.frombuffer(bytearray(array.tobytes(order)), dtype=torch.uint8) if array.size else _NOTHING
    return {"dtype": dtype_to_descr(array.dtype), "shape": list(array.shape), "order": order, "bytes": name}


def _describe_object(value: Any, tensors: Tensors) -> Described:
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}"
    _find(name, "cannot save this model: it holds an object of class")
    call, arguments, *rest = value.__reduce_ex__(2)
    described: Described = {"class": name}
    if cls.__module__ == _COMPILED_LOSSES:
        described["arguments"] = list(arguments) if call is cls else []
    elif name == _TREE:
        described |= {"arguments": _describe(list(arguments), tensors), "state": _describe(rest[0], tensors)}
    else:
        if call is not copyreg.__newobj__ or len(arguments) != 1 or any(part is not None for part in rest[1:]):  # type: ignore[attr-defined]
            raise ValueError(f"cannot save this model: {name} is not made of its attributes alone")
        state = dict(rest[0] or {})
        state.pop("_tree", None)  # of neighbours; it is built again
        if "memory" in state:
            state["memory"] = None  # a folder of pickles
        described["state"] = _describe(state, tensors)
    return described


def _describe_items(values: Any, tensors: Tensors) -> Described:
    return {"items": [_describe(v, tensors) for v in values]}


def _describe_sparse(matrix: Any, tensors: Tensors) -> Described:
    parts = {part: _describe_array(getattr(matrix, part), tensors) for part in ("data", "indices", "indptr")}
    return {"class": type(matrix).__name__, "shape": list(matrix.shape)} | parts


def _describe_ufunc(function: Any, tensors: Tensors) -> Described:
    name = str(function.__name__)
    if getattr(np, name, None) is not function:
        raise ValueError(f"cannot save this model: it holds the function {name}, which is not numpy's")
    return {"name": name}


def _describe_partial(partial: Any, tensors: Tensors) -> Described:
    if partial.func is not check_array or partial.args:
        raise ValueError(
            f"cannot save this model: it holds the function {partial.func.__name__}, which is not scikit-learn's"
        )
    return _describe_items([partial.keywords], tensors)


def _describe_random(generator: Any, tensors: Tensors) -> Described:
    state = generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.get_state(False)
    if state["bit_generator"] not in _BITS:
        raise ValueError(f"cannot save this model: its random_state is of {state['bit_generator']}, not {_BITS[0]}")
    return {"class": type(generator).__name__, "state": _describe(state, tensors)}


_NOTHING = torch.empty(0, dtype=torch.uint8)
_SPARSE = ("csr_matrix", "csr_array", "csc_matrix", "csc_array")
_WRITERS: dict[type, tuple[str, Callable[[Any, Tensors], Described]]] = {
    float: ("float", lambda value, _: {"value": str(value)}),
    bytes: ("bytes", lambda value, _: {"hex": value.hex()}),
    tuple: ("tuple", _describe_items),
    Interval: ("interval", _describe_items),
    Estimated: ("estimated", lambda value, _: value.to_json()),
    set: ("set", lambda value, tensors: _describe_items(sorted(value, key=str), tensors)),
    frozenset: ("frozenset", lambda value, tensors: _describe_items(sorted(value, key=str), tensors)),
    dict: ("dict", lambda value, tensors: _describe_items(list(value.items()), tensors)),
    Bunch: ("bunch", lambda value, tensors: _describe_items([dict(value)], tensors)),
    slice: ("slice", lambda value, tensors: _describe_items((value.start, value.stop, value.step), tensors)),
    np.ndarray: ("array", _describe_array),
    np.memmap: ("array", _describe_array),
    np.ufunc: ("ufunc", _describe_ufunc),
    functools.partial: ("check_array", _describe_partial),  # boosting has one for its columns of categories
    np.random.RandomState: ("random", _describe_random),
    np.random.Generator: ("random", _describe_random),
    **{getattr(scipy.sparse, name): ("sparse", _describe_sparse) for name in _SPARSE},
}


# ---- reading ----------------------------------------------------------------------------------------------------


def _rebuild(described: Any, tensors: Tensors) -> Any:
    if described is None or isinstance(described, (bool, int, float, str)):
        return described
    if isinstance(described, list):
        return [_rebuild(v, tensors) for v in described]
    if KIND not in described:
        return {key: _rebuild(v, tensors) for key, v in described.items()}
    if described[KIND] not in _READERS:
        raise ValueError(f"it holds something of the kind {described[KIND]!r}, which this release does not know")
    return _READERS[described[KIND]](described, tensors)


def _items(described: Described, tensors: Tensors) -> list[Any]:
    return [_rebuild(v, tensors) for v in described["items"]]


def _dtype(described: Described) -> np.dtype[Any]:
    listed: Any = described["dtype"]
    if not isinstance(listed, str):
        listed = [tuple(tuple(v) if isinstance(v, list) else v for v in field) for field in listed]
    dtype: np.dtype[Any] = descr_to_dtype(listed)
    if dtype.hasobject:
        raise ValueError("it holds an array of objects as bytes")
    return dtype


def _array(described: Described, tensors: Tensors) -> Any:
    shape = [int(n) for n in described["shape"]]
    if "items" in described:
        array = np.empty(math.prod(shape), dtype=object)
        array[:] = [*_items(described, tensors), None][:-1]  # a list of arrays is no matrix
        return array.reshape(shape)
    content = tensors[described["bytes"]].numpy().view(_dtype(described))
    return content.reshape(shape, order=described["order"])


def _sparse(described: Described, tensors: Tensors) -> Any:
    if described["class"] not in _SPARSE:
        raise ValueError(f"it holds a sparse matrix of class {described['class']}")
    parts = tuple(_array(described[part], tensors) for part in ("data", "indices", "indptr"))
    matrix = getattr(scipy.sparse, described["class"])(parts, shape=tuple(described["shape"]))
    matrix.check_format(full_check=True)
    return matrix


def _ufunc(described: Described, tensors: Tensors) -> Any:
    function = getattr(np, str(described["name"]), None)
    if not isinstance(function, np.ufunc):
        raise ValueError(f"it asks for the function {described['name']}, which is not one of numpy's ufuncs")
    return function


def _random(described: Described, tensors: Tensors) -> Any:
    state = _rebuild(described["state"], tensors)
    name = state["bit_generator"]
    if name not in _BITS or (name == "MT19937" and not 0 <= state["state"]["pos"] <= 624):
        raise ValueError("it holds a random generator that numpy does not have")
    bits = getattr(np.random, name)()
    if described["class"] == "RandomState":
        generator = np.random.RandomState(bits)
        generator.set_state(state)
        return generator
    bits.state = state
    return np.random.Generator(bits)


def _type(described: Described, tensors: Tensors) -> type:
    return _TYPES.get(described["name"]) or np.dtype(str(described["name"])).type


def _object(described: Described, tensors: Tensors) -> Any:
    name = str(described["class"])
    cls = _find(name, "it asks for the class")
    if cls.__module__ == _COMPILED_LOSSES:
        return cls(*(float(number) for number in described["arguments"]))
    state = _rebuild(described["state"], tensors)
    if name == _TREE:
        arguments = _rebuild(described["arguments"], tensors)
        _check_tree(arguments, state)
        value = cls(*arguments)
    else:
        if any(key.startswith("__") for key in state) or state.get("memory") is not None:
            raise ValueError(f"it holds a {cls.__name__} with attributes that such objects do not have")
        value = cls.__new__(cls)
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
    else:
        value.__dict__.update(state)
    for check in _CHECKS:
        check(value)
    return value


_READERS: dict[str, Callable[[Described, Tensors], Any]] = {
    "float": lambda described, _: float(described["value"]),
    "bytes": lambda described, _: bytes.fromhex(described["hex"]),
    "tuple": lambda described, tensors: tuple(_items(described, tensors)),
    "interval": lambda described, tensors: Interval(*_items(described, tensors)),
    "estimated": lambda described, _: Estimated.from_json(described),
    "set": lambda described, tensors: set(_items(described, tensors)),
    "frozenset": lambda described, tensors: frozenset(_items(described, tensors)),
    "dict": lambda described, tensors: dict(_items(described, tensors)),
    "slice": lambda described, tensors: slice(*_items(described, tensors)),
    "array": _array,
    "scalar": lambda described, _: np.frombuffer(bytes.fromhex(described["bytes"]), _dtype(described))[0],
    "dtype": lambda described, _: _dtype(described),
    "type": _type,
    "ufunc": _ufunc,
    "check_array": lambda described, tensors: functools.partial(check_array, **_items(described, tensors)[0]),
    "bunch": lambda described, tensors: Bunch(**_items(described, tensors)[0]),
    "random": _random,
    "sparse": _sparse,
    "object": _object,
}


def _find(name: str, asked: str) -> Any:
    """Give the class of that name, if it is one that a model may hold."""
    module, _, qualname = name.rpartition(".")

    def within(packages: tuple[str, ...]) -> bool:
        return "tests" not in module and any(f"{module}.".startswith(f"{package}.") for package in packages)

    if within((*_ESTIMATORS, *_PARTS, _COMPILED_LOSSES)) or name == _TREE:
        try:
            found = getattr(importlib.import_module(module), qualname, None)
        except ImportError:
            found = None
        if isinstance(found, type) and found.__module__ == module:
            known = name == _TREE or (module == _COMPILED_LOSSES and qualname.startswith("Cy")) or within(_PARTS)
            if known or (issubclass(found, BaseEstimator) and not _uses_libsvm(found)):
                return found
    raise ValueError(f"{asked} {name}, which is not among those that are saved and loaded without pickle")


def _uses_libsvm(cls: type) -> bool:
    return any(parent.__name__ == "BaseLibSVM" for parent in cls.__mro__)


# ---- what compiled code trusts ----------------------------------------------------------------------------------


def _check_tree(arguments: list[Any], state: Described) -> None:
    """Check that a tree's arrays have the sizes it says, and that every path through it ends at a leaf."""
    n_features, n_classes, n_outputs = arguments
    nodes, values = state["nodes"], state["values"]
    inner = nodes["left_child"] != -1
    sizes = [n_outputs, len(nodes)] == [len(n_classes), state["node_count"]] and len(nodes) > 0 and n_outputs > 0
    if not sizes or n_classes.min() < 1 or values.shape != (len(nodes), n_outputs, n_classes.max()):
        raise ValueError("it holds a tree whose arrays do not fit each other")
    _check_nodes(inner, nodes["left_child"], nodes["right_child"], nodes["feature"], n_features)


def _check_nodes(inner: Any, left: Any, right: Any, feature: Any, n_features: int) -> None:
    place = np.flatnonzero(inner)
    children = np.stack([left[inner], right[inner]]).astype(np.int64)
    used = feature[inner]
    if (children <= place).any() or (children >= len(inner)).any() or (used < 0).any() or (used >= n_features).any():
        raise ValueError("it holds a tree whose nodes point nowhere")


def _check_owner_of_tree(value: Any) -> None:
    """A tree looks up as many features as its owner lets through, and so do the trees of a forest."""
    from sklearn.ensemble._forest import BaseForest
    from sklearn.tree import BaseDecisionTree
    from sklearn.tree._tree import Tree

    tree = getattr(value, "tree_", None)
    if tree is not None and not (isinstance(tree, Tree) and tree.n_features == value.n_features_in_):
        raise ValueError("it holds a tree of another number of features than it is given")
    if isinstance(value, BaseForest):
        for one in getattr(value, "estimators_", ()):
            if not isinstance(one, BaseDecisionTree) or one.n_features_in_ != value.n_features_in_:
                raise ValueError("it holds a forest of trees that do not fit it")


def _check_boosting(value: Any) -> None:
    from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if not isinstance(value, BaseHistGradientBoosting) or not hasattr(value, "_predictors"):
        return
    categorical = np.zeros(value.n_features_in_, dtype=bool)
    if value._bin_mapper.is_categorical_ is not None:
        categorical |= value._bin_mapper.is_categorical_.astype(bool)
    for predictor in (one for several in value._predictors for one in several):
        if not isinstance(predictor, TreePredictor) or len(predictor.nodes) == 0:
            raise ValueError("it holds a tree whose arrays do not fit each other")
        nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
        _check_nodes(nodes["is_leaf"] == 0, nodes["left"], nodes["right"], nodes["feature_idx"], len(categorical))
        sets = nodes[(nodes["is_leaf"] == 0) & (nodes["is_categorical"] != 0)]
        if (
            not categorical[sets["feature_idx"]].all()
            or bits.shape[1:] != (8,)
            or (sets["bitset_idx"] >= len(bits)).any()
        ):
            raise ValueError("it holds a tree whose sets of categories are not there")


def _check_neighbors(value: Any) -> None:
    """Neighbours vote for classes that are there; the tree that finds them is built again."""
    from sklearn.neighbors import BallTree, KDTree
    from sklearn.neighbors._base import NeighborsBase

    if not isinstance(value, NeighborsBase) or not hasattr(value, "_fit_X"):
        return
    n_rows, n_neighbors = value._fit_X.shape[0], value.n_neighbors
    fits = value.n_samples_fit_ == n_rows and (n_neighbors is None or 1 <= n_neighbors <= n_rows)
    if hasattr(value, "classes_"):
        votes, classes = value._y, value.classes_
        fits &= type(classes) is np.ndarray and votes.shape == (n_rows,) and not value.outputs_2d_
        fits &= votes.dtype.kind == "i" and bool(((votes >= 0) & (votes < len(classes))).all())
    if not fits:
        raise ValueError("it holds neighbours that do not fit each other")
    tree = {"kd_tree": KDTree, "ball_tree": BallTree}.get(value._fit_method)
    options = {"metric": value.effective_metric_, **value.effective_metric_params_}
    value._tree = None if tree is None else tree(value._fit_X, value.leaf_size, **options)


_CHECKS = (_check_owner_of_tree, _check_boosting, _check_neighbors)
