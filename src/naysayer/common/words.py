"""Words for people."""

from __future__ import annotations


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Give a number with its noun.

    Examples
    --------
    >>> count(1, "item"), count(1200, "item"), count(0, "person", "people")
    ('1 item', '1,200 items', '0 people')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
