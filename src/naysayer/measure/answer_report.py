"""What answers tell their owner: how reliable they are, how common each class is, whether questions came as stated."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest, chisquare

from naysayer.measure import doctor, planning
from naysayer.measure.answer_errors import ErrorRates, error_rates
from naysayer.measure.answer_estimates import class_priors
from naysayer.measure.answers import Answers, labels
from naysayer.measure.design import check_rate
from naysayer.measure.intervals import Interval


@dataclass(frozen=True)
class AnswerReport:
    """What :func:`examine` found: all that the owner's page shows beside plain counts.

    Attributes
    ----------
    n_answers, n_items, n_named, n_confirmed : answers of yes or no, items with one, and those somebody's yes names.
    errors : of the answers.
    priors : of the classes, three arrays; None with fewer than two items.
    yes : share of yes among the first answers about an item, with its 95% interval; None without any.
    yes_expected : what uniform questions get, whatever the classes' shares: (1 - e) / K + e (1 - 1 / K).
    yes_p_value : the probability of a share at least as far from it; None where questions are uneven.
    asked_p_value : that of class counts as uneven as those of the first questions, if they were drawn as stated.
    findings : what contradicts uniform questions or looks odd, from :func:`naysayer.measure.doctor.examine`.
    """

    n_answers: int
    n_items: int
    n_named: int
    n_confirmed: int
    errors: ErrorRates
    priors: Interval | None
    yes: Interval | None
    yes_expected: float | None
    yes_p_value: float | None
    asked_p_value: float | None
    findings: list[doctor.Finding]

    def to_dict(self) -> dict[str, Any]:
        """Give the report as what JSON can hold; an interval is a list of estimate, low and high."""
        priors = None if self.priors is None else np.transpose(self.priors).tolist()
        return asdict(self) | {"priors": priors}


def examine(answers: Answers, confidence: float = 0.95) -> AnswerReport:
    """Say what answers tell: how reliable they are, how common the classes, whether all is as it should be.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, asked = rng.integers(3, size=(2, 600))
    >>> said = Answers.of([str(i) for i in range(600)], asked, np.where(asked == y, "yes", "no"), ("cat", "dog", "emu"))
    >>> report = examine(said)
    >>> report.n_answers, round(report.yes.estimate, 3), round(report.yes_expected, 3), report.findings
    (600, 0.352, 0.333, [])
    """
    known, design = labels(answers), answers.design
    errors = error_rates(answers, confidence)
    uniform = np.ptp(answers.weights) < 1e-12
    opening = design.turn == 0
    counts = np.bincount(design.asked[opening], minlength=answers.n_classes)
    said = opening & (design.value >= 0)
    n, n_yes = int(said.sum()), int((design.value[said] == 1).sum())
    yes, expected, p_value = None, None, None
    if n:
        share = binomtest(n_yes, n).proportion_ci(confidence)
        yes = Interval(n_yes / n, float(share.low), float(share.high))
    if n and uniform:
        e = errors.overall.estimate
        expected = (1.0 - e) / answers.n_classes + e * (1.0 - 1.0 / answers.n_classes)
        p_value = float(binomtest(n_yes, n, expected).pvalue)
    no = design.asked[said & (design.value == 0)]
    findings = []
    if uniform and answers.n_classes > 2 and len(no):
        found = doctor.examine(no, answers.n_classes, answers.classes, confidence).findings
        findings = [finding for finding in found if finding.level in ("problem", "warning")]
    return AnswerReport(
        n_answers=int((answers.value >= 0).sum()),
        n_items=int(np.count_nonzero(design.told)),
        n_named=int(known.named.sum()),
        n_confirmed=int(known.confirmed.sum()),
        errors=errors,
        priors=class_priors(answers, confidence=confidence) if design.told.sum() > 1 else None,
        yes=yes,
        yes_expected=expected,
        yes_p_value=p_value,
        asked_p_value=float(chisquare(counts, counts.sum() * answers.weights).pvalue) if counts.sum() else None,
        findings=findings,
    )


def how_many_more(
    n_answers: int, n_classes: int, margin: float, *, accuracy: float = 0.9, error_rate: float = 0.0
) -> int:
    """Say how many more answers tell an accuracy within a margin, if each answer is about another item.

    Training from a store uses every answer for the estimate, each against a model that did not see its item. Errors
    make each answer worth :math:`(1 - 2e)^2` of one without; see :func:`naysayer.measure.planning.labels_needed`.

    Examples
    --------
    >>> how_many_more(1000, n_classes=10, margin=0.05)
    444
    """
    needed = planning.labels_needed(n_classes, margin, accuracy).yes_no
    return max(0, math.ceil(needed / (1.0 - 2.0 * check_rate(error_rate)) ** 2) - n_answers)
