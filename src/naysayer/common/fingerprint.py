"""A digest of settings, functions and objects among them, by which a checkpoint knows them again."""

from __future__ import annotations

import functools
import hashlib
import json
import types
from typing import Any

import numpy as np


def fingerprint(value: Any) -> str:
    """Give a digest that changes when a setting does: a number, a function's code, defaults or closure, an attribute.

    Two functions of the same code and the same values around it have the same one. What a function looks up by a
    global name counts by that name alone.

    Examples
    --------
    >>> def power(x, p=2):
    ...     return x**p
    >>> fingerprint(power) == fingerprint(functools.partial(power, p=3))
    False
    >>> fingerprint({"lr": 0.1, "augment": power}) == fingerprint({"augment": power, "lr": 0.1})
    True
    """
    text = json.dumps(_describe(value, ()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def structure_of(module: Any) -> list[Any]:
    """Give all of a module of torch's but its tensors: the kinds of its parts and their public attributes."""
    parts = []
    for name, part in module.named_modules():
        public = {k: v for k, v in vars(part).items() if not k.startswith("_") and k != "training"}
        parts.append([name, f"{type(part).__module__}.{type(part).__qualname__}", public])
    return parts


def _describe(value: Any, inside: tuple[int, ...]) -> Any:
    """The value in what JSON holds; `inside` are the ids of what is being described, so that a circle ends."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value.hex()
    if id(value) in inside:
        return "itself"
    inside = (*inside, id(value))
    if isinstance(value, dict):
        return {"dict": sorted(([_describe(k, inside), _describe(v, inside)] for k, v in value.items()), key=str)}
    if isinstance(value, (list, tuple)):
        return [_describe(v, inside) for v in value]
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((_describe(v, inside) for v in value), key=str)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if hasattr(value, "detach"):  # a tensor, of which numpy does not know every type
        import torch

        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return {"array": [str(value.dtype), list(value.shape), hashlib.sha256(data).hexdigest()]}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        return {"array": [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]}
    return _describe_object(value, inside)


def _describe_object(value: Any, inside: tuple[int, ...]) -> Any:
    if isinstance(value, functools.partial):
        return {"partial": [_describe(v, inside) for v in (value.func, value.args, value.keywords)]}
    if isinstance(value, types.MethodType):
        return {"method": [_describe(value.__func__, inside), _describe(value.__self__, inside)]}
    if isinstance(value, types.FunctionType):
        cells = [_describe(_content(cell), inside) for cell in value.__closure__ or ()]
        rest = [_describe(v, inside) for v in (value.__defaults__, value.__kwdefaults__)]
        return {"function": [_describe_code(value.__code__, inside), cells, rest]}
    if isinstance(value, types.CodeType):
        return _describe_code(value, inside)
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return {"name": f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "named_modules"):  # a module of torch's
        return {"module": [_describe(structure_of(value), inside), _describe(dict(value.state_dict()), inside)]}
    slots = [name for parent in type(value).__mro__ for name in getattr(parent, "__slots__", ())]
    attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})
    if not attributes and repr(value) != object.__repr__(value):
        return {"object": [kind, repr(value)]}
    return {"object": [kind, _describe(attributes, inside)]}


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _describe_code(code: types.CodeType, inside: tuple[int, ...]) -> Any:
    constants = [_describe(c, inside) for c in code.co_consts]
    return {"code": [hashlib.sha256(code.co_code).hexdigest(), constants, list(code.co_names)]}
