r"""What a survey's stored answers say: shares, cross-tables and predictions, each with its interval.

A stored option c weighs the true options by row c of :math:`Q^{-1}`, so a share is the mean of one weight, a cell of a
cross-table the mean of a product of two (the draws of two questions are independent), and an accuracy the mean of the
weight at the predicted option. All are unbiased, hence may leave [0, 1]; pages show the nearest share that can be.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.labels import transition
from naysayer.measure import metrics
from naysayer.measure.intervals import Interval, mean_bounds, tail_probability, within
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.crossfit import deal, others, predict_held_out
from naysayer.survey.questions import Survey, SurveyQuestion, respondents_needed

WIDE = 0.10  # an interval of more than ± 10 points is called too wide to rely on
WANTED = 0.05
FOLDS = 5
LEAST_TO_LEARN = 50  # stored answers an option
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Shares:
    """How common each option of a question is: n answers, three arrays of one number an option."""

    question: SurveyQuestion
    n: int
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def margin(self) -> float:
        """Half the width of the widest interval."""
        return float(np.max(self.high - self.low)) / 2

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
        return (
            f"Too few answers to rely on: shares are known within ± {100 * self.margin:.0f} points; "
            f"about {self.needed:,} answers would give ± {100 * WANTED:.0f}."
        )


@dataclass(frozen=True)
class CrossTable:
    """Shares of each pair of options, (rows, columns): of everyone, or where `of` is "column" of each column."""

    rows: SurveyQuestion
    columns: SurveyQuestion
    of: str
    n: NDArray[np.int64]  # answers behind each column, or behind all of them
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """How well the other answers predict a private one; `problem` says why there is nothing else."""

    question: SurveyQuestion
    n: int
    problem: str | None = None
    accuracy: Interval | None = None
    baseline: Interval | None = None
    gain: metrics.Comparison | None = None


def encode(survey: Survey, answers: Iterable[Mapping[str, str]]) -> dict[str, Codes]:
    """Turn answers into one array a question: the place of the stored option, and -1 where none was given.

    Examples
    --------
    >>> from naysayer.survey.questions import Option
    >>> colour = SurveyQuestion("colour", "Which?", (Option("red", "Red"), Option("blue", "Blue")))
    >>> encode(Survey("Colours", "", (colour,)), [{"colour": "blue"}, {}])
    {'colour': array([ 1, -1])}
    """
    rows = list(answers)
    return {
        q.id: np.array([q.index[row[q.id]] if q.id in row else -1 for row in rows], dtype=np.int64)
        for q in survey.questions
    }


def shares(question: SurveyQuestion, codes: Codes, confidence: float = 0.95) -> Shares | None:
    """Estimate the share of each option; None where nobody has answered.

    The bounds are those of :func:`naysayer.measure.metrics.class_prior_interval`. As each option gets one of two
    weights they are exact (Clopper and Pearson's) in every mode, for few answers and shares near 0 and 1 too.
    """
    codes = codes[codes >= 0]
    if len(codes) == 0:
        return None
    counts = np.bincount(codes, minlength=len(question.options))
    weights = transition.inverse(question.transition)
    found = [bounded(weights[:, k], counts, confidence) for k in range(len(question.options))]
    return Shares(question, len(codes), *np.array(found).T)


def bounded(values: NDArray[np.float64], counts: Codes, confidence: float) -> Interval:
    """Estimate a share by the mean of weights that came so many times (:func:`naysayer.measure.intervals.within`).

    Examples
    --------
    >>> bounded(np.array([-4.0, 1.0]), np.array([30, 70]), 0.95)  # so many "not this" that even 0 is too large
    Interval(estimate=-0.5, low=0.0, high=0.437...)
    """
    seen, tail = counts > 0, tail_probability(confidence)
    return within(*mean_bounds(values[seen], values.min(), values.max(), tail, counts=counts[seen]))


def cross_table(
    rows: SurveyQuestion, columns: SurveyQuestion, row_codes: Codes, column_codes: Codes, confidence: float = 0.95
) -> CrossTable | None:
    r"""Estimate the share of everyone who would give each pair of answers; None where nobody has given both.

    .. math:: \hat P_{jk} = \frac1n \sum_i (Q_A^{-1})_{a_i j}\, (Q_B^{-1})_{b_i k}

    Unbiased, since the two options of a respondent are drawn independently. The bounds are Gaffke's
    (:func:`naysayer.measure.metrics.accuracy_interval`), each cell's by itself.
    """
    both = (row_codes >= 0) & (column_codes >= 0)
    if not both.any():
        return None
    shape = len(rows.options), len(columns.options)
    pairs = row_codes[both] * shape[1] + column_codes[both]
    counts = np.bincount(pairs, minlength=shape[0] * shape[1])
    first, second = transition.inverse(rows.transition), transition.inverse(columns.transition)
    cells = np.empty((3, *shape))
    for j in range(shape[0]):
        for k in range(shape[1]):
            cells[:, j, k] = bounded(np.multiply.outer(first[:, j], second[:, k]).ravel(), counts, confidence)
    return CrossTable(rows, columns, "all", np.array([counts.sum()]), *cells)


def cross_table_by_group(
    rows: SurveyQuestion, groups: SurveyQuestion, row_codes: Codes, group_codes: Codes, confidence: float = 0.95
) -> CrossTable:
    """Estimate the shares of a question within each group of a public one; a group without answers holds NaN."""
    if groups.private:
        raise ValueError(f"groups must be told by a public question; {groups.id!r} is private")
    shape = len(rows.options), len(groups.options)
    cells, n = np.full((3, *shape), np.nan), np.zeros(shape[1], dtype=np.int64)
    for k in range(shape[1]):
        found = shares(rows, row_codes[group_codes == k], confidence)
        if found is not None:
            n[k] = found.n
            cells[:, :, k] = found.estimate, found.low, found.high
    return CrossTable(rows, groups, "column", n, *cells)


def predict(survey: Survey, question: SurveyQuestion, answers: Mapping[str, Codes]) -> Prediction:
    """Learn to tell a private answer from the other stored answers, and estimate how often that is right.

    Each fifth of the respondents is predicted by a model that learned from the other four, so no stored answer judges
    a model that has seen it. The baseline always names the option that seems most common among those four fifths.
    """
    if not question.private:
        raise ValueError(f"only a private question is learned from what it is not; {question.id!r} is public")
    known = answers[question.id] >= 0
    labels = answers[question.id][known]
    n, n_options = len(labels), len(question.options)
    other_questions = [q for q in survey.questions if q.id != question.id]
    if not other_questions:
        return Prediction(question, n, "There is no other question to learn from.")
    if n < LEAST_TO_LEARN * n_options:
        need = LEAST_TO_LEARN * n_options
        return Prediction(question, n, f"Too few answers to learn from: {n:,} of the {need:,} that it takes.")
    features = np.concatenate([_indicators(answers[q.id][known], len(q.options)) for q in other_questions], axis=1)
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
            transition=question.transition,
            device="cpu",
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing was learned is what the comparison below says
            model.fit(features[seen], labels[seen])
        return model.predict(features[held_out])

    def most_common(part: int, held_out: Codes) -> Codes:
        prior = metrics.class_prior(labels[others(everyone, held_out)], n_options, question.transition)
        return np.full(len(held_out), prior.argmax())

    guessed, common = (predict_held_out(parts, n, each) for each in (guess, most_common))
    options: Any = {"n_classes": n_options, "transition": question.transition}
    return Prediction(
        question,
        n,
        None,
        metrics.accuracy_interval(labels, guessed, **options),
        metrics.accuracy_interval(labels, common, **options),
        metrics.compare(labels, guessed, common, **options),
    )


def _indicators(codes: Codes, n_options: int) -> NDArray[np.float32]:
    """One column an option, 1 where it was stored; a question left out is a row of zeros."""
    return (codes[:, None] == np.arange(n_options)).astype(np.float32)


def summary(survey: Survey, answers: Mapping[str, Codes], *, learn: bool = True) -> dict[str, Any]:
    """All results as JSON has them: shares, the tables of each private question with every other, and predictions."""
    found: dict[str, Any] = {"title": survey.title, "respondents": max((len(c) for c in answers.values()), default=0)}
    found["questions"] = [_shares_as_json(q, shares(q, answers[q.id])) for q in survey.questions]
    found["tables"] = []
    for pair in itertools.combinations(survey.questions, 2):
        if any(question.private for question in pair):
            first, second = sorted(pair, key=lambda question: not question.private)  # so that columns can be groups
            table = cross_table(first, second, answers[first.id], answers[second.id])
            found["tables"] += [] if table is None else [_table_as_json(table)]
    if learn:
        predictions = (predict(survey, q, answers) for q in survey.questions if q.private)
        found["predictions"] = [_prediction_as_json(p) for p in predictions]
    return found


def _shares_as_json(question: SurveyQuestion, found: Shares | None) -> dict[str, Any]:
    about: dict[str, Any] = {"id": question.id, "text": question.text, "mode": question.mode}
    about |= {"epsilon": question.epsilon, "answers": 0 if found is None else found.n}
    if found is None:
        return about | {"warning": "Nobody has answered this yet.", "shares": []}
    each = zip(question.options, found.estimate, found.low, found.high)
    rows = [{"option": o.id, "estimate": float(e), "low": float(a), "high": float(b)} for o, e, a, b in each]
    return about | {"warning": found.warning, "shares": rows}


def _table_as_json(table: CrossTable) -> dict[str, Any]:
    about = {"rows": table.rows.id, "columns": table.columns.id, "answers": int(table.n.sum())}
    return about | {key: getattr(table, key).tolist() for key in ("estimate", "low", "high")}


def _prediction_as_json(found: Prediction) -> dict[str, Any]:
    about: dict[str, Any] = {"question": found.question.id, "answers": found.n, "problem": found.problem}
    for key in ("accuracy", "baseline", "gain"):
        value = getattr(found, key)
        about[key] = None if value is None else value._asdict()
    return about
