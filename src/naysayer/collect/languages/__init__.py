"""The words of the asking page, one file per language; a page is in the one that its reader's browser asks for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from naysayer.common.toml import toml_reader

Words = Mapping[str, Any]


@cache
def languages() -> dict[str, Words]:
    """All languages there are, by their codes, such as "de"; the words of each have its code as `language`."""
    toml, found = toml_reader("a page's language"), {}
    for file in files(__name__).iterdir():
        code, _, ending = file.name.rpartition(".")
        if ending == "toml":
            found[code] = {"language": code, **toml.loads(file.read_text(encoding="utf8"))}
    return dict(sorted(found.items()))


def choose(accepted: str) -> Words:
    """Give the words of the language that a browser's header Accept-Language wants most, among those there are.

    Examples
    --------
    >>> choose("fr-CH, fr;q=0.9, de;q=0.7, en;q=0.8")["language"], choose("de-AT")["language"], choose("")["language"]
    ('en', 'de', 'en')
    """
    wanted: list[tuple[float, int, str]] = []
    for part in accepted.split(","):
        name, _, weight = part.strip().partition(";")
        try:
            quality = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        code = name.strip().lower().partition("-")[0]
        if code in languages() and quality > 0:
            wanted.append((-quality, len(wanted), code))
    return languages()[min(wanted)[2] if wanted else "en"]


def check_language(code: str) -> str:
    """Check a language that was asked for by its code."""
    if code not in languages():
        raise ValueError(f"the language must be one of {', '.join(languages())}; got {code[:20]!r}")
    return code
