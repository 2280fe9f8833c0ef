r"""A survey file read into questions, and what each way of asking a private one gives away.

What the page stores for a private question is drawn on the respondent's own device: a set of d of the K options, the
true one in it with probability t, and all sets with it, and all without it, equally likely. Hence another option is in
it with probability :math:`o = (d - t) / (K - 1)`. Four modes differ only in d, in t, and in how the set reads:

=====================  ======  ==================================  ===================  ==========================
mode                   d       t                                   stored as            gives away
=====================  ======  ==================================  ===================  ==========================
complementary          1       0                                   "not c"              δ = 1 / (K - 1) at every ε
calibrated             1       1 / (1 + (K - 1) exp(ε))            "not c"              ε, with δ = 0
randomised_response    1       exp(ε) / (exp(ε) + K - 1)           "drawn c"            ε, with δ = 0
subset                 chosen  d exp(ε) / (d exp(ε) + K - d)       "drawn c, c', ..."   ε, with δ = 0
=====================  ======  ==================================  ===================  ==========================

What is not in a calibrated "not c" is a subset of K - 1 options, and randomised response one of 1. Whatever the mode, a
respondent adds :math:`([k \in S] - o) / (t - o)` to the estimate of option k, and all estimates are means of these.
"""

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
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import beta

from naysayer.common.toml import read_toml
from naysayer.measure.intervals import tail_probability

MODES = ("complementary", "calibrated", "randomised_response", "subset")
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
    def size(self) -> int:
        """d, the number of options that are stored together."""
        if self.mode != "subset" or self.epsilon is None:
            return 1
        return subset_size(len(self.options), self.epsilon)

    @cached_property
    def truth(self) -> float:
        """t, the probability that the true option is among those stored."""
        return 1.0 if self.mode is None else truth_probability(self.mode, len(self.options), self.epsilon)

    @property
    def other(self) -> float:
        """o, the probability that some other option is among those stored."""
        return (self.size - self.truth) / (len(self.options) - 1)

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


# ---- what an answer gives away --------------------------------------------------------------------------------


def subset_size(n_options: int, epsilon: float) -> int:
    r"""Give the number d of options that the mode subset stores: with it the fewest people are needed.

    .. math:: d = \arg\min_{0 < d < K} \frac{(d e^\varepsilon + K - d)^2}{d\, (K - d)},

    one of the two whole numbers beside :math:`K / (e^\varepsilon + 1)`, and at least 1: the least summed squared error
    of all shares where all options are equally common [1]_ [2]_.

    References
    ----------
    .. [1] Ye and Barg (2018), Optimal schemes for discrete distribution estimation under locally differential privacy.
       IEEE Transactions on Information Theory 64.
    .. [2] Wang, Huang, Nie, Wang, Xu, Deng, Wang and Lv (2016), Mutual information optimally local private discrete
       distribution estimation. arXiv:1607.08025.

    Examples
    --------
    >>> [subset_size(20, epsilon) for epsilon in (0.1, 1.0, 2.0, 4.0)]
    [10, 5, 2, 1]
    """
    ratio = math.exp(epsilon)
    return min(range(1, n_options), key=lambda d: (d * ratio + n_options - d) ** 2 / (d * (n_options - d)))


def truth_probability(mode: str, n_options: int, epsilon: float | None = None) -> float:
    r"""Give the probability t that the true option is among those stored.

    .. math:: \text{calibrated: } q = \frac{1}{1 + (K-1) e^\varepsilon}, \quad
        \varepsilon = \ln \frac{1-q}{(K-1)\, q}; \qquad
        \text{randomised response: } p = \frac{e^\varepsilon}{e^\varepsilon + K - 1}; \qquad
        \text{subset: } p = \frac{d e^\varepsilon}{d e^\varepsilon + K - d}

    All follow from asking that what is stored be likelier under one true answer than under another by a factor of
    :math:`e^\varepsilon` at the most, and of exactly that. With K = 2 they are one: "not a" is "b".

    Examples
    --------
    >>> [round(truth_probability(mode, 5, 1.0), 4) for mode in MODES]
    [0.0, 0.0842, 0.4046, 0.4046]
    >>> round(truth_probability("subset", 20, 1.0), 4), subset_size(20, 1.0)
    (0.4754, 5)
    """
    if mode not in MODES:
        raise ValueError(f"`mode` must be one of {', '.join(MODES)}; got {mode!r}")
    if mode == "complementary":
        return 0.0
    if epsilon is None or not epsilon > 0:
        raise ValueError(f"`epsilon` must be above 0 in the mode {mode}; got {epsilon!r}")
    if mode == "calibrated":
        return 1.0 / (1.0 + (n_options - 1) * math.exp(epsilon))
    size = subset_size(n_options, epsilon) if mode == "subset" else 1
    return 1.0 / (1.0 + (n_options / size - 1) * math.exp(-epsilon))


def privacy_loss(transition: ArrayLike) -> float:
    r"""Give the ε of a matrix of what is stored: the largest :math:`\ln (Q_{yc} / Q_{zc})`, infinite with zeros in Q.

    Examples
    --------
    >>> options = tuple(Option(name, name) for name in "abcde")
    >>> round(privacy_loss(SurveyQuestion("q", "Which?", options, "subset", 0.2).transition), 9)
    0.2
    >>> privacy_loss(SurveyQuestion("q", "Which?", options, "complementary").transition)
    inf
    """
    q = _check_rows(transition)
    with np.errstate(divide="ignore"):
        log = np.log(q[:, (q > 0).any(axis=0)])  # what is never stored tells nothing
    return float((log.max(axis=0) - log.min(axis=0)).max())


def privacy_failure(transition: ArrayLike, epsilon: float) -> float:
    r"""Give the least δ with which a matrix of what is stored is (ε, δ)-differentially private.

    .. math:: \delta(\varepsilon) = \max_{y, z} \sum_c \max(0,\, Q_{yc} - e^\varepsilon Q_{zc})

    The maximum over sets of outcomes, of which the set where the difference is positive is the worst. For a
    complementary label only the option z adds to it, as it is never stored for z: :math:`\delta = 1/(K-1)` at every ε.

    Examples
    --------
    >>> options = tuple(Option(name, name) for name in "abcde")
    >>> q = SurveyQuestion("q", "Which?", options, "complementary").transition
    >>> [privacy_failure(q, epsilon) for epsilon in (0.0, 1.0, 10.0)]
    [0.25, 0.25, 0.25]
    """
    q = _check_rows(transition)
    return float(np.maximum(0.0, q[:, None, :] - math.exp(epsilon) * q[None, :, :]).sum(axis=2).max())


def _check_rows(transition: ArrayLike) -> NDArray[np.float64]:
    """Check that each row is a distribution over what is stored; sets of options make more columns than rows."""
    q = np.asarray(transition, dtype=np.float64)
    if q.ndim != 2 or not (q >= 0).all() or np.abs(q.sum(axis=1) - 1).max() > 1e-6:
        raise ValueError("`transition` must have a row of probabilities for each true option, each with the sum 1")
    return q


def equal_epsilon(n_options: int, share: float = 0.2) -> float:
    r"""Give the ε at which randomised response tells a share as well as a complementary label does.

    Where the variances of one respondent's estimate (:func:`respondents_needed`) are the same,

    .. math:: \frac{\lambda (1 - \lambda)}{(t - o)^2} = (K-1)^2\, \bar\lambda (1 - \bar\lambda), \qquad
        \bar\lambda = \frac{1 - \pi}{K - 1}.

    With that ε, usually near 1, the same number of people is needed, and no answer is ruled out.

    Examples
    --------
    >>> [round(equal_epsilon(n_options), 2) for n_options in (3, 5, 10, 50)]
    [1.25, 0.98, 0.88, 0.82]
    >>> respondents_needed("complementary", 5, None, 0.05), respondents_needed("randomised_response", 5, 0.98, 0.05)
    (4012, 4020)
    """
    if n_options < 3:
        raise ValueError(f"`n_options` must be at least 3, as for a complementary label; got {n_options}")

    def log_variance(truth: float) -> float:
        other = (1 - truth) / (n_options - 1)
        stored = other + share * (truth - other)
        return math.log(stored * (1 - stored)) - 2 * math.log(abs(truth - other))

    goal = log_variance(0.0)
    return float(
        brentq(lambda e: log_variance(truth_probability("randomised_response", n_options, e)) - goal, 1e-3, 20.0)
    )


def options_left(n_options: int, n_surveys: int) -> tuple[float, float]:
    r"""Say what several complementary labels of one unchanged answer leave: how many options, and the risk of only one.

    .. math:: E = 1 + (K-1) \left(1 - \tfrac{1}{K-1}\right)^m, \qquad
        P(\text{one left}) = \sum_{j=0}^{K-1} (-1)^j \binom{K-1}{j} \left(1 - \tfrac{j}{K-1}\right)^m

    Every label rules out one of the K - 1 others at random: the coupon collector's problem.

    Examples
    --------
    >>> options_left(3, 2)  # two labels: the same option twice, or both others
    (1.5, 0.5)
    """
    others = n_options - 1
    expected = 1.0 + others * (1.0 - 1.0 / others) ** n_surveys
    if n_surveys < others:
        return expected, 0.0
    # Whole numbers until the last step: the terms are far larger than their sum.
    ways = sum((-1) ** j * math.comb(others, j) * (others - j) ** n_surveys for j in range(others + 1))
    return expected, ways / others**n_surveys


def respondents_needed(
    mode: str | None, n_options: int, epsilon: float | None, margin: float, share: float = 0.2, confidence: float = 0.95
) -> int:
    r"""Count the respondents who make the interval around one option's share as narrow as ± `margin`.

    A respondent's estimate of the share π is :math:`([k \in S] - o) / (t - o)` with :math:`o = (d-t)/(K-1)`, so

    .. math:: n \approx \frac{z^2 \lambda (1 - \lambda)}{(t - o)^2\, \text{margin}^2}, \qquad \lambda = o + \pi (t - o);

    counted here by the exact interval at the average outcome, as :func:`naysayer.measure.planning.labels_needed` does,
    but not cut off at 0 and 1: near those the interval is narrower than planned. At one ε randomised response needs
    fewer than the calibrated mode, since :math:`|t - o|` is :math:`(e^\varepsilon - 1) / (e^\varepsilon + K - 1)`
    for it and :math:`(e^\varepsilon - 1) / (1 + (K-1) e^\varepsilon)` for the other. A subset of the right size needs
    the fewest (:func:`subset_size`).

    Parameters
    ----------
    mode : one of the modes, or None for a public question.
    n_options, epsilon : K and ε.
    margin : half the width of the interval, from 0.001 to 0.5.
    share : what the option's share is expected to be.
    confidence : between 0 and 1.

    Examples
    --------
    >>> [respondents_needed(mode, 10, 1.0, margin=0.05) for mode in (None, *MODES)]
    [264, 10260, 28832, 7391, 4901]
    """
    if not 0.001 <= margin <= 0.5:
        raise ValueError(f"`margin` must be from 0.001 to 0.5; got {margin!r}; five points are 0.05")
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be from 0 to 1; got {share!r}")
    tail = tail_probability(confidence)
    truth = 1.0 if mode is None else truth_probability(mode, n_options, epsilon)
    size = subset_size(n_options, epsilon) if mode == "subset" and epsilon is not None else 1
    other = (size - truth) / (n_options - 1)
    slope = truth - other
    stored = other + share * slope  # how often the option is stored

    def half_width(n: int) -> float:
        low = beta.ppf(tail, n * stored, n * (1 - stored) + 1) if stored > 0 else 0.0
        high = beta.ppf(1 - tail, n * stored + 1, n * (1 - stored)) if stored < 1 else 1.0
        return float(high - low) / abs(2 * slope)

    too_few, enough = 0, 1
    while half_width(enough) > margin:
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (middle, enough) if half_width(middle) > margin else (too_few, middle)
    return enough
