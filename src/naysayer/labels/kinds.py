"""Which labels are ordinary ones: the one rule, for integers, numpy arrays and tensors alike."""

from __future__ import annotations

from typing import Any


def is_ordinary(size: Any, n_classes: int, known_transition: bool = False) -> Any:
    """Whether labels that rule out `size` of K classes say what an example *is*: all classes but one are ruled out.

    With two classes "not a" is also "is b". Such a label is an ordinary one unless a transition matrix says how "not a"
    came about: it may err, and then has to pass through that matrix as every complementary label does.

    Parameters
    ----------
    size : how many classes a label rules out: an integer, or an array or tensor of any shape.
    n_classes : K
    known_transition : whether a transition matrix of the complementary labels is given.

    Returns
    -------
    Truth values, of the shape of `size`. Nothing branches on them, so tensors may be traced by vmap.

    Examples
    --------
    >>> [is_ordinary(size, n_classes=4) for size in range(4)]
    [False, False, False, True]
    >>> is_ordinary(1, n_classes=2), is_ordinary(1, n_classes=2, known_transition=True)
    (True, False)
    """
    return (size == n_classes - 1) & (n_classes > 2 or not known_transition)
