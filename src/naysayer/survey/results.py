r"""What a survey's stored answers say: shares, cross-tables and predictions, each with its interval.

What a respondent's device stored, a set S of options, weighs each option k by :math:`([k \in S] - o) / (t - o)`
(:mod:`naysayer.survey.privacy`), so a share is the mean of one weight, a cell of a cross-table the mean of a product
of two (the draws of two questions are independent), and an accuracy the mean of the weight at the predicted option. All
are unbiased, hence may leave [0, 1]; pages show the nearest share that can be.

No result is of fewer people than the survey's minimum, nor can one be had by taking one shown result from another:
:func:`in_table` says whose answers a table may be made of.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysayer.labels.transition import noisy
from naysayer.measure.intervals import Interval, mean_bounds, tail_at_zero, tail_probability, within
from naysayer.measure.metrics import Comparison
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.crossfit import deal, others, predict_held_out
from naysayer.survey.privacy import respondents_needed
from naysayer.survey.questions import Survey, SurveyQuestion

WIDE = 0.10  # an interval of more than ± 10 points is called too wide to rely on
WANTED = 0.05
VAGUE = 0.30  # the width from which on a cell of a table is shown as vague
FOLDS = 5
LEAST_TO_LEARN = 50  # stored answers an option
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


class Bounds(NamedTuple):
    """An estimate between bounds that can be, and how wide its interval is before it is put within 0 and 1."""

    estimate: float
    low: float
    high: float
    width: float


@dataclass(frozen=True)
class Shares:
    """How common each option of a question is: n answers, three arrays of one number an option."""

    question: SurveyQuestion
    n: int
    estimate: Floats
    low: Floats
    high: Floats
    width: Floats

    @property
    def margin(self) -> float:
        """Half the width of the widest interval, before it is put within 0 and 1: near those it would look sharp."""
        return float(np.max(self.width)) / 2

    @property
    def needed(self) -> int:
        """How many answers would bring every interval to ± 5 points, whatever the shares within their intervals are."""
        q = self.question
        possible = {round(float(share), 2) for end in (0.0, 0.5, 1.0) for share in np.clip(end, self.low, self.high)}
        return max(respondents_needed(q.mode, len(q.options), q.epsilon, WANTED, share) for share in possible)

    @property
    def warning(self) -> str | None:
        """One line where there are too few answers to rely on."""
        if self.margin <= WIDE:
            return None
        known = f"known within ± {100 * self.margin:.0f} points" if self.margin < 0.5 else "hardly known at all"
        return (
            f"Too few answers to rely on: shares are {known}; "
            f"about {self.needed:,} answers would give ± {100 * WANTED:.0f} points."
        )


@dataclass(frozen=True)
class CrossTable:
    """Shares of each pair of options, (rows, columns): of everyone, or where `of` is "column" of each column."""

    rows: SurveyQuestion
    columns: SurveyQuestion
    of: str
    n: NDArray[np.int64]  # answers behind each column, or behind all of them
    left_out: int  # people who answered both questions and are not in the table, lest few be told apart
    estimate: Floats  # NaN in the rows and columns of groups that are too small
    low: Floats
    high: Floats
    width: Floats

    @property
    def vague(self) -> NDArray[np.bool_]:
        """Which cells are known too roughly to rely on, whatever 0 and 1 cut off of their intervals."""
        return self.width > VAGUE


@dataclass(frozen=True)
class Prediction:
    """How well the other answers predict a private one; `problem` says why there is nothing else."""

    question: SurveyQuestion
    n: int
    problem: str | None = None
    accuracy: Interval | None = None
    baseline: Interval | None = None
    gain: Comparison | None = None


def encode(survey: Survey, answers: Iterable[Mapping[str, Any]]) -> dict[str, Codes]:
    """Turn answers into one array a question: the code of what was stored, and -1 where nothing was.

    Examples
    --------
    >>> from naysayer.survey.questions import Option
    >>> colour = SurveyQuestion("colour", "Which?", (Option("red", "Red"), Option("blue", "Blue")))
    >>> encode(Survey("Colours", "", (colour,)), [{"colour": {"is": "blue"}}, {}])
    {'colour': array([ 1, -1])}
    """
    rows = list(answers)
    return {
        q.id: np.array([q.code(row[q.id]) if q.id in row else -1 for row in rows], dtype=np.int64)
        for q in survey.questions
    }


def answered(codes: Codes) -> int:
    """Count the respondents who answered a question."""
    return int(np.count_nonzero(codes >= 0))


def shares(question: SurveyQuestion, codes: Codes, confidence: float = 0.95, *, minimum: int = 1) -> Shares | None:
    """Estimate the share of each option; None where fewer than `minimum` people have answered.

    As each option gets one of two weights the bounds are exact (Clopper and Pearson's) in every mode, for few answers
    and shares near 0 and 1 too.
    """
    n = answered(codes)
    if n < max(1, minimum):
        return None
    found = [bounded(question.weights, np.array([n - k, k]), confidence) for k in question.named(codes).sum(axis=0)]
    return Shares(question, n, *np.array(found).T)


def bounded(values: Floats, counts: NDArray[Any], confidence: float) -> Bounds:
    """Estimate a share by the mean of weights that came so many times (:func:`naysayer.measure.intervals.within`).

    Examples
    --------
    >>> bounded(np.array([-4.0, 1.0]), np.array([30, 70]), 0.95)  # so many "not this" that even 0 is too large
    Bounds(estimate=-0.5, low=0.0, high=0.437..., width=0.9...)
    """
    seen, tail = counts > 0, tail_probability(confidence)
    raw = mean_bounds(values[seen], values.min(), values.max(), tail, counts=counts[seen])
    return Bounds(*within(*raw), raw.high - raw.low)


def in_table(
    rows: SurveyQuestion, columns: SurveyQuestion, row_codes: Codes, column_codes: Codes, minimum: int
) -> NDArray[np.bool_]:
    """Say whose answers a table of two questions may be made of, (N,); of nobody's where they are too few.

    Those who answered both, less two kinds. Groups of a public question with fewer than `minimum` members are left out.
    And where anybody at all is missing, so are `minimum` others, drawn for these two questions alone. Whoever takes the
    table from the shares of one of its questions is then left with `minimum` people at least, and whoever takes it from
    another table, with people whom chance chose.

    Examples
    --------
    >>> from naysayer.survey.questions import Option
    >>> team, paid = (SurveyQuestion(q, "?", (Option("a", "A"), Option("b", "B"))) for q in ("team", "paid"))
    >>> codes = np.repeat([0, 1], [97, 3]), np.repeat([0, 1, 0], [50, 47, 3])
    >>> used = in_table(team, paid, *codes, minimum=10)
    >>> int(used[:97].sum()), int(used[97:].sum())  # neither the three nor ten others
    (87, 0)
    """
    sides = [(rows, row_codes), (columns, column_codes)]
    used = (row_codes >= 0) & (column_codes >= 0)
    _leave_out_groups(used, sides, minimum)
    if minimum > 1 and used.sum() < max(answered(codes) for _, codes in sides):
        seed = " ".join(sorted((rows.id, columns.id))).encode()  # the same for both ways round
        order = np.random.default_rng([*seed]).permutation(len(used))
        used[order[used[order]][:minimum]] = False
        _leave_out_groups(used, sides, minimum)
    return used if used.sum() >= minimum else np.zeros(len(used), dtype=bool)


def _leave_out_groups(used: NDArray[np.bool_], sides: Iterable[tuple[SurveyQuestion, Codes]], minimum: int) -> None:
    """Leave out the members of groups that are too small, until none is: to leave out some makes others smaller."""
    public = [(codes, len(question.options)) for question, codes in sides if not question.private]
    before = None
    while used.sum() != before:
        before = used.sum()
        for codes, n_options in public:
            used &= np.bincount(codes[used], minlength=n_options)[codes] >= minimum


def cross_table(
    rows: SurveyQuestion,
    columns: SurveyQuestion,
    row_codes: Codes,
    column_codes: Codes,
    confidence: float = 0.95,
    *,
    minimum: int = 1,
) -> CrossTable | None:
    r"""Estimate the share of everyone who would give each pair of answers; None where too few have given both.

    .. math:: \hat P_{jk} = \frac1n \sum_i W^A_{ij}\, W^B_{ik}

    Unbiased, since what is stored for two questions is drawn independently. The bounds are Gaffke's
    (:func:`naysayer.measure.metrics.accuracy_interval`), each cell's by itself.
    """
    used = in_table(rows, columns, row_codes, column_codes, minimum)
    if not used.any():
        return None
    first, second = (q.named(c[used]).astype(np.int64) for q, c in ((rows, row_codes), (columns, column_codes)))
    n, both = len(first), first.T @ second
    values = np.multiply.outer(rows.weights, columns.weights).ravel()
    cells = np.empty((4, *both.shape))
    for (j, k), joint in np.ndenumerate(both):
        a, b = first[:, j].sum() - joint, second[:, k].sum() - joint
        cells[:, j, k] = bounded(values, np.array([n - a - b - joint, b, a, joint]), confidence)
    both_said = (row_codes >= 0) & (column_codes >= 0)
    cells[:, _hidden(rows, row_codes, used, both_said)] = np.nan
    cells[:, :, _hidden(columns, column_codes, used, both_said)] = np.nan
    return CrossTable(rows, columns, "all", np.array([n]), int(both_said.sum() - n), *cells)


def cross_table_by_group(
    rows: SurveyQuestion,
    groups: SurveyQuestion,
    row_codes: Codes,
    group_codes: Codes,
    confidence: float = 0.95,
    *,
    minimum: int = 1,
) -> CrossTable | None:
    """Estimate the shares of a question within each group of a public one; None where no group is large enough."""
    if groups.private:
        raise ValueError(f"groups must be told by a public question; {groups.id!r} is private")
    used = in_table(rows, groups, row_codes, group_codes, minimum)
    if not used.any():
        return None
    shape = len(rows.options), len(groups.options)
    cells, n = np.full((4, *shape), np.nan), np.zeros(shape[1], dtype=np.int64)
    for k in range(shape[1]):
        found = shares(rows, row_codes[used & (group_codes == k)], confidence)
        if found is not None:
            n[k] = found.n
            cells[:, :, k] = found.estimate, found.low, found.high, found.width
    both_said = (row_codes >= 0) & (group_codes >= 0)
    cells[:, _hidden(rows, row_codes, used, both_said)] = np.nan
    return CrossTable(rows, groups, "column", n, int(both_said.sum() - used.sum()), *cells)


def _hidden(
    question: SurveyQuestion, codes: Codes, used: NDArray[np.bool_], both_said: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say which groups of a public question have members, but none in the table."""
    if question.private:
        return np.zeros(len(question.options), dtype=bool)
    before, now = (question.named(codes[people]).any(axis=0) for people in (both_said, used))
    return np.asarray(before & ~now)


def predict(survey: Survey, question: SurveyQuestion, answers: Mapping[str, Codes]) -> Prediction:
    """Learn to tell a private answer from the other stored answers, and estimate how often that is right.

    Each fifth of the respondents is predicted by a model that learned from the other four, so no stored answer judges
    a model that has seen it. The baseline always names the option that seems most common among those four fifths.
    """
    if not question.private:
        raise ValueError(f"only a private question is learned from what it is not; {question.id!r} is public")
    known = answers[question.id] >= 0
    named = question.named(answers[question.id][known])
    n, n_options = named.shape
    other_questions = [q for q in survey.questions if q.id != question.id]
    if not other_questions:
        return Prediction(question, n, "There is no other question to learn from.")
    need = max(LEAST_TO_LEARN * n_options, survey.minimum)
    if n < need:
        return Prediction(question, n, f"Too few answers to learn from: {n:,} of the {need:,} that it takes.")
    features = np.concatenate([q.named(answers[q.id][known]) for q in other_questions], axis=1).astype(np.float32)
    everyone = np.arange(n)
    places = np.random.default_rng(0).permutation(n)  # of the respondents in the order in which they are dealt
    parts = deal(np.argsort(places), FOLDS)

    def guess(part: int, held_out: Codes) -> Codes:
        seen = others(everyone, held_out)
        model = ComplementaryClassifier(
            "forward",
            "linear",
            lr=0.01,
            max_epochs=40,
            patience=10,
            n_seeds=2,
            classes=np.arange(n_options),
            transition=noisy(n_options, question.truth / question.size),
            device="cpu",
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing was learned is what the comparison below says
            rows, labels = named[seen].nonzero()  # of a set each option counts, as likely as any other in it
            model.fit(features[seen][rows], labels)
        return model.predict(features[held_out])

    def most_common(part: int, held_out: Codes) -> Codes:
        prior = question.weights[named[others(everyone, held_out)].astype(int)].mean(axis=0)
        return np.full(len(held_out), prior.argmax())

    right = [named[everyone, predict_held_out(parts, n, each)] for each in (guess, most_common)]
    accuracy, baseline = (
        Interval(*bounded(question.weights, np.bincount(hits, minlength=2), 0.95)[:3]) for hits in right
    )
    return Prediction(question, n, None, accuracy, baseline, _difference(question, *right))


def _difference(question: SurveyQuestion, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Comparison:
    """Compare two predictions by whether what was stored names them, as :func:`naysayer.metrics.compare` does."""
    values, end = question.weights[first.astype(int)] - question.weights[second.astype(int)], np.ptp(question.weights)
    bounds = mean_bounds(values, -end, end, tail_probability(0.95))
    tails = [tail_at_zero(sign * values, np.ones(len(values)), -end) for sign in (1, -1)]
    low, high = (float(np.clip(bound, -1.0, 1.0)) for bound in bounds[1:])
    return Comparison(bounds.estimate, low, high, min(1.0, 2.0 * min(tails)))


def summary(survey: Survey, answers: Mapping[str, Codes], *, learn: bool = True) -> dict[str, Any]:
    """All results as JSON has them: shares, the tables of each private question with every other, and predictions."""
    least = survey.minimum
    found: dict[str, Any] = {"title": survey.title, "respondents": max((len(c) for c in answers.values()), default=0)}
    found["minimum"] = least
    found["questions"] = [_shares_as_json(q, answers[q.id], least) for q in survey.questions]
    found["tables"] = []
    for pair in itertools.combinations(survey.questions, 2):
        if any(question.private for question in pair):
            first, second = sorted(pair, key=lambda question: not question.private)  # so that columns can be groups
            table = cross_table(first, second, answers[first.id], answers[second.id], minimum=least)
            found["tables"] += [] if table is None else [_table_as_json(table)]
    if learn:
        predictions = (predict(survey, q, answers) for q in survey.questions if q.private)
        found["predictions"] = [_prediction_as_json(p) for p in predictions]
    return found


def too_few(n: int, minimum: int) -> str:
    """Say why nothing is shown of so many answers."""
    if n == 0:
        return "Nobody has answered this yet."
    return f"Results are shown from {minimum:,} answers on; there {'is' if n == 1 else 'are'} {n:,}."


def _shares_as_json(question: SurveyQuestion, codes: Codes, minimum: int) -> dict[str, Any]:
    found, n = shares(question, codes, minimum=minimum), answered(codes)
    about: dict[str, Any] = {"id": question.id, "text": question.text, "mode": question.mode}
    about |= {"epsilon": question.epsilon, "answers": n}
    if found is None:
        return about | {"warning": too_few(n, minimum), "shares": []}
    each = zip(question.options, found.estimate, found.low, found.high)
    rows = [{"option": o.id, "estimate": float(e), "low": float(a), "high": float(b)} for o, e, a, b in each]
    return about | {"warning": found.warning, "shares": rows}


def _table_as_json(table: CrossTable) -> dict[str, Any]:
    """A table for programs; null is a cell of a group that is too small to be shown."""
    about = {"rows": table.rows.id, "columns": table.columns.id, "answers": int(table.n.sum())}
    about["left_out"] = table.left_out
    for key in ("estimate", "low", "high", "vague"):
        cells = getattr(table, key).astype(object)
        cells[np.isnan(table.estimate)] = None
        about[key] = cells.tolist()
    return about


def _prediction_as_json(found: Prediction) -> dict[str, Any]:
    about: dict[str, Any] = {"question": found.question.id, "answers": found.n, "problem": found.problem}
    for key in ("accuracy", "baseline", "gain"):
        value = getattr(found, key)
        about[key] = None if value is None else value._asdict()
    return about
