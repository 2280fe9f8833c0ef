"""A survey file read into questions, and what is stored for each of them."""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.toml import read_toml
from naysayer.survey.privacy import MODES, DeviceDraw, draw_of

SAYS = {None: "is", "complementary": "not", "calibrated": "not", "randomised_response": "drawn", "subset": "drawn"}
EPSILONS = (0.01, 10.0)  # below, no number of respondents is enough; above, the truth is stored 99.8 times in 100
MOST_OPTIONS, MOST_QUESTIONS = 50, 100
LONGEST_NAME, LONGEST_TEXT = 100, 5000
MINIMUM, MOST_MINIMUM = 10, 1_000_000  # respondents behind any result that is shown
MOST_SETS = 100_000  # a matrix with more columns is not written out


@dataclass(frozen=True)
class Option:
    """One answer that can be given: its name in the store, and its words on the page."""

    id: str
    text: str


@dataclass(frozen=True)
class SurveyQuestion:
    """One question; `mode` is None where it is public, and `epsilon` None where the mode has none."""

    id: str
    text: str
    options: tuple[Option, ...]
    mode: str | None = None
    epsilon: float | None = None

    @property
    def private(self) -> bool:
        """Whether the true answer stays on the respondent's device."""
        return self.mode is not None

    @property
    def says(self) -> str:
        """How what is stored reads: the answer "is" it, is "not" it, or it was "drawn"."""
        return SAYS[self.mode]

    @cached_property
    def draw(self) -> DeviceDraw:
        """How the respondent's device draws what is stored."""
        return draw_of(self.mode, len(self.options), self.epsilon)

    @property
    def size(self) -> int:
        """d, the number of options that are stored together."""
        return self.draw.size

    @property
    def truth(self) -> float:
        """t, the probability that the true option is among those stored."""
        return self.draw.truth

    @property
    def other(self) -> float:
        """o, the probability that some other option is among those stored."""
        return self.draw.other

    @property
    def weights(self) -> NDArray[np.float64]:
        """What a respondent adds to the estimate of an option that is not among those stored, and of one that is."""
        return (np.array([0.0, 1.0]) - self.other) / (self.truth - self.other)

    @cached_property
    def outcomes(self) -> tuple[tuple[int, ...], ...]:
        """All that can be stored: the sets of `size` options."""
        n, size = len(self.options), self.size
        if math.comb(n, size) > MOST_SETS:
            raise ValueError(
                f"{size} of {n} options make {math.comb(n, size):,} sets; at most {MOST_SETS:,} are listed"
            )
        return tuple(itertools.combinations(range(n), size))

    @cached_property
    def transition(self) -> NDArray[np.float64]:
        """Q, rows = true option, columns = what is stored, as in `outcomes`."""
        n, size = len(self.options), self.size
        inside = np.array([[k in one for one in self.outcomes] for k in range(n)])
        return np.where(inside, self.truth / math.comb(n - 1, size - 1), (1 - self.truth) / math.comb(n - 1, size))

    @cached_property
    def index(self) -> dict[str, int]:
        """The place of each option."""
        return {option.id: k for k, option in enumerate(self.options)}

    def stored(self, places: Iterable[int]) -> dict[str, Any]:
        """Give the options at these places in the form in which they are shown, sent and kept: {"not": "Yes"}."""
        names = [self.options[int(k)].id for k in sorted(places)]
        return {self.says: names if self.mode == "subset" else names[0]}

    def code(self, stored: Any) -> int:
        """Read what was stored as a number: the place of its option, or in the mode subset the sum of 2^place."""
        if not isinstance(stored, dict) or list(stored) != [self.says]:
            raise ValueError(f'the answer to {self.id!r} must be {{"{self.says}": {self._form}}}')
        names = stored[self.says]
        if isinstance(names, str) == (self.mode == "subset"):
            raise ValueError(f'the answer to {self.id!r} must be {{"{self.says}": {self._form}}}')
        names = [names] if isinstance(names, str) else names
        for name in names:
            if name not in self.index:
                raise ValueError(f"the answer to {self.id!r} must name one of its options; got {name[:40]!r}")
        places = sorted(self.index[name] for name in names)
        if self.mode != "subset":
            return places[0]
        if len(set(places)) != self.size or len(places) != self.size:
            raise ValueError(f"the answer to {self.id!r} must name {self.size} different options; got {len(places)}")
        return sum(1 << k for k in places)

    @property
    def _form(self) -> str:
        return f"[{self.size} options]" if self.mode == "subset" else "option"

    def named(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each code which options it names, (N, K); of -1, where nothing was stored, none."""
        places, codes = np.arange(len(self.options)), codes[:, None]
        if self.mode != "subset":
            return np.asarray(codes == places)
        return np.asarray((codes >= 0) & (codes >> places & 1 == 1))

    def definition(self) -> dict[str, Any]:
        """All on which the meaning of a stored answer depends; the question's words are not part of it."""
        return {"id": self.id, "options": [o.id for o in self.options], "mode": self.mode, "epsilon": self.epsilon}


@dataclass(frozen=True)
class Survey:
    """A survey: its title, what it says first, its questions, and the fewest people that a result may be of."""

    title: str
    text: str
    questions: tuple[SurveyQuestion, ...]
    minimum: int = MINIMUM

    def question(self, name: str) -> SurveyQuestion:
        """The question of that name."""
        for question in self.questions:
            if question.id == name:
                return question
        raise ValueError(f"the survey has no question {name!r}{_guess(name, [q.id for q in self.questions])}")


# ---- the file -------------------------------------------------------------------------------------------------


def read_survey(path: str | Path) -> Survey:
    """Read a survey file (TOML); the first mistake in it is told in one line that names the question.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "survey.toml"
    ...     _ = file.write_text('''
    ...         title = "Lunch"
    ...         [[questions]]
    ...         id = "paid"
    ...         text = "Did you pay for it?"
    ...         kind = "private"
    ...         mode = "calibrated"
    ...         epsilon = 1.0
    ...         options = ["yes", "no", "in part"]
    ...     ''')
    ...     survey = read_survey(file)
    >>> survey.question("paid").transition.round(3)
    array([[0.155, 0.422, 0.422],
           [0.422, 0.155, 0.422],
           [0.422, 0.422, 0.155]])
    """
    path = Path(path)
    content = read_toml(path, "a survey", "examples/survey.toml shows one")
    try:
        return _survey(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _survey(content: dict[str, Any]) -> Survey:
    _check_keys(content, ("title", "text", "minimum", "questions"), "the survey")
    questions = content.get("questions")
    if not isinstance(questions, list) or not 1 <= len(questions) <= MOST_QUESTIONS:
        raise ValueError(f"the survey must have 1 to {MOST_QUESTIONS} questions; write each under [[questions]]")
    found = tuple(_question(table, number) for number, table in enumerate(questions, start=1))
    names = [question.id for question in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"each question must have its own `id`; two are called {name!r}")
    minimum = content.get("minimum", MINIMUM)
    if isinstance(minimum, bool) or not isinstance(minimum, int) or not 1 <= minimum <= MOST_MINIMUM:
        raise ValueError(
            f"`minimum` of the survey must be a whole number from 1 to {MOST_MINIMUM:,}, the respondents behind any "
            f"result that is shown; got {minimum!r}; {MINIMUM} is usual"
        )
    return Survey(
        _text(content.get("title"), "`title` of the survey", LONGEST_NAME),
        _text(content.get("text", ""), "`text` of the survey", LONGEST_TEXT, least=0),
        found,
        minimum,
    )


def _question(table: Any, number: int) -> SurveyQuestion:
    """Check one question; until its id is known it is called by its number."""
    if not isinstance(table, dict):
        raise ValueError(f"question {number} must be a table; write it under [[questions]]")
    name = table.get("id")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        raise ValueError(
            f"question {number} must have an `id` of up to 40 small letters, digits, - and _; got {name!r}; "
            f'write id = "age"'
        )
    where = f"question {name!r}"
    _check_keys(table, ("id", "text", "options", "kind", "mode", "epsilon"), where)
    text = _text(table.get("text"), f"`text` of {where}", LONGEST_TEXT)
    options = _options(table.get("options"), where)
    kind = table.get("kind")
    if kind not in ("public", "private"):
        raise ValueError(f'{where} must have the `kind` "public" or "private"; got {kind!r}')
    if kind == "public":
        for key in ("mode", "epsilon"):
            if key in table:
                raise ValueError(f"{where} is public and must have no `{key}`; remove it, or make the question private")
        return SurveyQuestion(name, text, options)
    mode = table.get("mode", MODES[0])
    if mode not in MODES:
        raise ValueError(f"{where} must have one of the modes {', '.join(MODES)}; got {mode!r}{_guess(mode, MODES)}")
    epsilon = table.get("epsilon")
    if mode == "complementary":
        if epsilon is not None:
            raise ValueError(
                f'{where} has an `epsilon`, which a complementary label cannot keep; set mode = "subset", '
                f'"calibrated" or "randomised_response", or remove it'
            )
        if len(options) == 2:
            raise ValueError(
                f'{where} has 2 options, of which "not the one" gives away the other; set '
                f'mode = "randomised_response" and an `epsilon`, or offer more options'
            )
    elif isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not _within(epsilon, EPSILONS):
        raise ValueError(
            f"{where} must have an `epsilon` from {EPSILONS[0]:g} to {EPSILONS[1]:g} in the mode {mode}; "
            f"got {epsilon!r}; 1 is strong, 3 is weak"
        )
    return SurveyQuestion(name, text, options, mode, None if epsilon is None else float(epsilon))


def _options(values: Any, where: str) -> tuple[Option, ...]:
    if not isinstance(values, list) or not 2 <= len(values) <= MOST_OPTIONS:
        got = f"{len(values)}" if isinstance(values, list) else repr(values)
        raise ValueError(f"{where} must have a list of 2 to {MOST_OPTIONS} options; got {got}")
    options = []
    for number, value in enumerate(values, start=1):
        what = f"option {number} of {where}"
        if isinstance(value, dict):
            _check_keys(value, ("id", "text"), what)
            name, words = value.get("id"), value.get("text")
        else:
            name = words = value
        options.append(Option(_text(name, what, LONGEST_NAME), _text(words, what, LONGEST_NAME)))
    for part in ("id", "text"):  # two options that read alike cannot be told apart by the respondent
        seen = [getattr(option, part) for option in options]
        for value in seen:
            if seen.count(value) > 1:
                raise ValueError(f"{where} must have options that differ; {value!r} is there more than once")
    return tuple(options)


def _text(value: Any, what: str, longest: int, least: int = 1) -> str:
    """Check a text and take the white space off its ends."""
    if not isinstance(value, str) or not least <= len(value.strip()) <= longest:
        got = f"{len(value.strip())} characters" if isinstance(value, str) else repr(value)
        raise ValueError(f"{what} must be a text of {least} to {longest} characters; got {got}")
    return value.strip()


def _check_keys(table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{where} must have no key but {', '.join(known)}; got {key!r}{_guess(key, known)}")


def _guess(name: Any, known: Any) -> str:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _within(value: float, ends: tuple[float, float]) -> bool:
    return ends[0] <= value <= ends[1]
