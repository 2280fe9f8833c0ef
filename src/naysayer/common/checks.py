"""What must hold of any argument, and how a wrong one is answered."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command's own checks need no numpy
    from numpy.typing import NDArray


def check_count(value: Any, name: str, least: int = 1) -> int:
    """Check that a value is a whole number of at least 1, or `least`; `name` is how the caller knows it.

    Examples
    --------
    >>> check_count(0, "`max_epochs`")
    Traceback (most recent call last):
    ValueError: `max_epochs` must be a whole number of at least 1; got 0
    """
    try:
        whole = operator.index(value)
    except TypeError:
        whole = least - 1
    if whole < least or isinstance(value, bool):  # numpy's truth values are no whole numbers to `index` either
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return whole


def check_choice(value: str, choices: Iterable[str], name: str) -> str:
    """Check that a value is one of some words; `name` is how the caller knows it.

    Examples
    --------
    >>> check_choice("cube", ("exp", "log"), "`shape`")
    Traceback (most recent call last):
    ValueError: `shape` must be one of exp, log; got 'cube'
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return value


def number(value: Any) -> float:
    """Give a value as a float, and whatever is no number as NaN, which lies in no range.

    Examples
    --------
    >>> 0 <= number(0.5) <= 1, 0 <= number("half") <= 1
    (True, False)
    """
    return float(value) if isinstance(value, Real) else math.nan


def to_numpy(values: Any) -> NDArray[Any]:
    """Give a numpy view or copy of a list, array, pandas object or tensor."""
    import numpy as np

    if hasattr(values, "detach"):  # a tensor, told without torch
        values = values.detach().cpu()
        return np.asarray((values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy())
    if isinstance(values, np.ndarray) and hasattr(values, "to_json"):  # it carries more than its numbers
        return values
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError("labels must form a 1-D or 2-D array; got rows of different lengths") from None


def near(name: str, known: Iterable[str]) -> str:
    """Quote a name with the known one that may have been meant.

    Examples
    --------
    >>> print(near("minst", ["mnist", "fashion"]))
    'minst' (did you mean 'mnist'?)
    """
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"{name!r} (did you mean {found[0]!r}?)" if found else repr(name)
