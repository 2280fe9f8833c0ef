"""A check-up of labels before any training, from the labels alone.

Whether labels are uniform cannot be proven without true ones: a class that is asked about more often looks like one
that occurs less often. But some labels contradict uniformity whatever the truth may be, and those are found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, binomtest

from naysayer.labels.checks import alike, check_labels, check_transition
from naysayer.labels.kinds import is_ordinary
from naysayer.labels.transition import Estimated
from naysayer.measure import planning
from naysayer.measure.intervals import tail_probability
from naysayer.measure.sample import take

_FINER = 2  # than the least tail that counts: the tails that draws of an estimated matrix can tell
FEW = 10  # labels for each of K - 1 classes; with fewer, nothing can be learned


@dataclass(frozen=True)
class Finding:
    """One thing found; `level` is "ok", "note", "warning" or "problem"."""

    level: str
    text: str


@dataclass(frozen=True)
class ClassRow:
    """What labels say of one class: how often they rule it out or name it, and how common it is, between bounds."""

    name: str
    ruled_out: int
    named: int
    prior: float
    low: float
    high: float


@dataclass(frozen=True)
class LabelReport:
    """What :func:`examine` found.

    Attributes
    ----------
    n_rows, n_classes : N and K.
    kinds : how many rows are "complementary" (they rule out one class), "several" (more than one), "ordinary" (all but
        one) and "silent" (none). With two classes every label is an ordinary one.
    classes : one row per class.
    findings : what the checks found, in their order.
    advice : sentences on what to use.
    """

    n_rows: int
    n_classes: int
    kinds: dict[str, int]
    classes: list[ClassRow]
    findings: list[Finding]
    advice: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Give the report as what JSON can hold."""
        return asdict(self)


def examine(
    y_bar: ArrayLike,
    n_classes: int | None = None,
    class_names: Sequence[Any] | None = None,
    confidence: float = 0.95,
    transition: ArrayLike | None = None,
) -> LabelReport:
    r"""Find what is wrong with labels, or may be, and say what to use.

    A uniform set of s labels rules out class c with probability :math:`(1 - \pi_c)\, s / (K-1)`, at most
    :math:`s / (K-1)`. A class ruled out significantly more often (binomial tests, one-sided, Bonferroni) contradicts
    uniformity. So do class priors on which complementary and ordinary labels disagree: the intervals of some class
    have no value in common, at a confidence that holds for all classes together.

    With a transition matrix Q, "not c" has a probability between :math:`\min_y Q_{yc}` and :math:`\max_y Q_{yc}`; a
    class ruled out significantly more or less often contradicts Q. Where Q was estimated, these probabilities are
    averaged over draws of what its pairs leave possible.

    Parameters
    ----------
    y_bar : (N,) classes, each one that its example is not; or (N, K) ruled-out matrix.
    n_classes : K; if None, the number of names or columns, or one more than the largest class.
    class_names : (K,) names for the report; the indices if None.
    confidence : of the priors' bounds; sound labels get a problem of either kind with probability 1 - confidence at
        most.
    transition : (K, K) matrix Q of the complementary labels; uniform if None.

    Returns
    -------
    LabelReport

    Examples
    --------
    >>> report = examine([0, 1, 0, 2, 0, 1, 0, 0] * 20, class_names=["cat", "dog", "emu"])
    >>> for finding in report.findings:
    ...     print(f"{finding.level}: {finding.text}")
    problem: 'cat' is ruled out in 62.5% of the complementary labels; uniform ones allow 50% at most (p = 0.003).
    note: A fifth of these labels (32) measures an accuracy of 90% to within 19 points; 5 points take 334 labels.
    >>> report.classes[0]
    ClassRow(name='cat', ruled_out=100, named=0, prior=-0.25, low=0.0, high=0.159...)
    """
    if n_classes is None and class_names is not None:
        n_classes = len(class_names)
    labels, found = check_labels(y_bar, n_classes)
    names = [str(name) for name in (range(found) if class_names is None else class_names)]
    if len(names) != found:
        raise ValueError(f"`class_names` must name each of {found} classes; got {len(names)} names")
    tail = tail_probability(confidence)
    q = None if transition is None else check_transition(transition, found)
    sample, _ = take(labels, found, transition)
    priors = np.transpose(sample.class_prior_interval(tail))
    case = _Case(labels, names, 1.0 - confidence, q if sample.estimated is None else sample.estimated)
    counts = zip(case.ruled_out.tolist(), case.named.tolist(), priors.tolist())
    classes = [ClassRow(name, ruled, named, *prior) for name, (ruled, named, prior) in zip(names, counts)]
    findings = [finding for check in _CHECKS for finding in check(case)]
    if n_classes is None and labels.ndim == 1:
        text = f"{found:,} classes are assumed, as {found - 1} is the largest label; pass n_classes if there are more."
        findings.insert(0, Finding("note", text))
    return LabelReport(len(labels), found, case.kinds, classes, findings, list(_advice(case, findings)))


class _Case:
    """Labels sorted into kinds and counted; what the checks look at."""

    def __init__(
        self, labels: NDArray[Any], names: list[str], level: float, transition: NDArray[np.float64] | None = None
    ) -> None:
        self.names, self.level, self.n_classes, self.transition = names, level, len(names), transition
        if labels.ndim == 1 and self.n_classes == 2 and transition is None:
            labels = labels[:, None] == np.arange(2)  # "not a" is "b", an ordinary label
        if labels.ndim == 1:
            none = np.zeros((0, self.n_classes), dtype=bool)
            self.complementary, self.ordinary, self.n_silent = labels, none, 0
            self.sizes = np.ones(len(labels), dtype=np.int64)
            self.ruled_out = np.bincount(labels, minlength=self.n_classes)
        else:
            size = labels.sum(axis=1)
            ordinary = is_ordinary(size, self.n_classes, known_transition=transition is not None)
            chosen = (size > 0) & ~ordinary
            self.complementary, self.ordinary = labels[chosen], labels[ordinary]
            self.n_silent, self.sizes = int((size == 0).sum()), size[chosen]
            self.ruled_out = self.complementary.sum(axis=0)
        self.named = (~self.ordinary).sum(axis=0)
        self.n_complementary, self.n_ordinary = len(self.complementary), len(self.ordinary)
        self.n_labels = self.n_complementary + self.n_ordinary

    @property
    def kinds(self) -> dict[str, int]:
        """How many rows are of each kind."""
        single = int((self.sizes == 1).sum())
        several = self.n_complementary - single
        return {"complementary": single, "several": several, "ordinary": self.n_ordinary, "silent": self.n_silent}

    @property
    def too_few(self) -> int:
        """How many labels would be a start; 0 where there are that many already."""
        needed = FEW * (self.n_classes - 1)
        return needed if self.n_labels < needed else 0

    @property
    def never_ruled_out(self) -> list[str]:
        """The classes that no complementary label rules out, where there are such labels."""
        return [name for name, n in zip(self.names, self.ruled_out) if n == 0 and self.n_complementary]

    @property
    def never_by_chance(self) -> float:
        """The probability that no label rules out a class, were all classes equally common."""
        if self.transition is not None:
            return float((1 - self.transition.mean(axis=0).min()) ** self.n_complementary)
        return float(np.exp(np.log1p(-self.sizes / self.n_classes).sum()))

    @property
    def unasked(self) -> list[str]:
        """The classes that are never ruled out, where chance does not explain it."""
        return self.never_ruled_out if self.n_classes * self.never_by_chance < self.level else []


# Checks: each looks at one thing and says what it found


def _silent(case: _Case) -> Iterator[Finding]:
    """Rows that rule out nothing."""
    if case.n_silent:
        n_rows = case.n_silent + case.n_labels
        yield Finding("note", f"{case.n_silent:,} of {n_rows:,} rows say nothing; they count in no estimate.")


def _two_classes(case: _Case) -> Iterator[Finding]:
    """Complementary labels of two classes are ordinary ones."""
    if case.n_classes == 2 and case.transition is None:
        a, b = case.names
        yield Finding("note", f"With two classes, not {a!r} is {b!r}: every label is an ordinary one.")


def _few(case: _Case) -> Iterator[Finding]:
    """Too few labels to learn anything."""
    if case.too_few:
        n, n_classes = f"{case.n_labels:,}", f"{case.n_classes:,}"
        yield Finding("warning", f"{n} labels are too few to learn {n_classes} classes; {case.too_few:,} are a start.")


def _above_uniform(case: _Case) -> Iterator[Finding]:
    """Classes ruled out more often than uniform labels can."""
    if not case.n_complementary or case.transition is not None:
        return
    share = case.ruled_out / case.n_complementary
    most = case.sizes.mean() / (case.n_classes - 1)
    # Labels of several sizes have unequal chances; a binomial of their mean has the heavier tail (Hoeffding 1956).
    p = np.minimum(1.0, case.n_classes * binom.sf(case.ruled_out - 1, case.n_complementary, most))
    order = np.argsort(-share, kind="stable")
    worst, limit = order[0], _percent(most)
    largest, named = _percent(share[worst]), repr(case.names[worst])
    above = [case.names[k] for k in order if p[k] < case.level]
    if above:
        text = f"{named} is ruled out in {largest} of the complementary labels; uniform ones allow {limit} at most "
        text += f"(p {_probability(p[worst])})."
        text += f" Too often as well: {_some(above[1:])}." if len(above) > 1 else ""
        yield Finding("problem", text)
    else:
        text = (
            f"No class is ruled out significantly more often than uniform labels allow: {largest} at most ({named}), "
        )
        yield Finding("ok", text + f"the limit is {limit}.")


def _against_matrix(case: _Case) -> Iterator[Finding]:
    """Classes ruled out more or less often than labels of a known transition matrix can be."""
    n = case.kinds["complementary"]
    if case.transition is None or not n:
        return
    counts = case.ruled_out
    if case.kinds["several"]:
        counts = case.complementary[case.sizes == 1].sum(axis=0)
    low, high = _ranges(case.transition, case.level)
    unseen = isinstance(case.transition, Estimated)  # a tail that no draw reaches
    tails = [part.sum(axis=0) + unseen for part in (binom.sf(counts - 1, n, high), binom.cdf(counts, n, low))]
    p = 2 * case.n_classes * np.minimum(*tails) / (len(low) + unseen)
    k, low, high = int(np.argmin(p)), np.median(low, axis=0), np.median(high, axis=0)
    if p[k] < case.level:
        text = f"{case.names[k]!r} is ruled out in {_percent(counts[k] / n)} of the complementary labels; "
        text += f"the transition matrix allows {_percent(low[k])} to {_percent(high[k])} (p {_probability(p[k])})."
        yield Finding("problem", text)
    else:
        yield Finding("ok", "Each class is ruled out about as often as the transition matrix allows.")


def _ranges(q: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """The least and the largest probability of each label by Q, or by draws of it: (2, 1 or more, K)."""
    if not isinstance(q, Estimated):
        return np.array([[ends(q, axis=0)] for ends in (np.min, np.max)])
    some = len(q.inverses)  # few of many classes, so that they take little memory
    n_parts = int(np.ceil(min(_FINER * 2 * q.shape[0] / level / some, 100)))
    parts = (q.draws(some, seed) for seed in range(n_parts))
    return np.concatenate([[part.min(axis=1), part.max(axis=1)] for part in parts], axis=1)


def _never_ruled_out(case: _Case) -> Iterator[Finding]:
    """Classes that nobody seems to have been asked about."""
    chance = f"probability {_probability(case.never_by_chance)} if all classes are equally common"
    if case.unasked:
        text = f"Never ruled out, as if every example were one: {_some(case.unasked)} ({chance}). "
        text += "Was every class asked about?"
        yield Finding("warning", text)
    elif case.never_ruled_out:
        yield Finding("note", f"Never ruled out: {_some(case.never_ruled_out)}; that may be chance ({chance}).")


def _kinds_disagree(case: _Case) -> Iterator[Finding]:
    """Class priors that differ between the two kinds of label."""
    if not case.n_complementary or not case.n_ordinary:
        return
    tail = tail_probability(1.0 - case.level / (2 * case.n_classes))
    kinds = (case.complementary, case.ordinary)
    a, b = (take(kind, case.n_classes, case.transition)[0].class_prior_interval(tail) for kind in kinds)
    gap = np.maximum(a.low - b.high, b.low - a.high)
    k = int(np.argmax(gap))
    if gap[k] > 0:
        text = (
            f"{case.names[k]!r} is {_percent(a.low[k])} to {_percent(a.high[k])} of the examples by the complementary "
        )
        text += f"labels, {_percent(b.low[k])} to {_percent(b.high[k])} by the ordinary ones: "
        drawn = "uniform" if case.transition is None else "of that transition matrix"
        yield Finding("problem", text + f"the former are not {drawn}, or the examples are not of one population.")
    else:
        yield Finding("ok", "Complementary and ordinary labels agree on how common each class may be.")


def _yes_share(case: _Case) -> Iterator[Finding]:
    """The share of ordinary labels, were they answers "yes" to questions about uniform classes."""
    if not case.n_ordinary or not case.kinds["complementary"] or case.kinds["several"] or case.transition is not None:
        return
    p = binomtest(case.n_ordinary, case.n_labels, 1 / case.n_classes).pvalue
    share, expected = _percent(case.n_ordinary / case.n_labels), _percent(1 / case.n_classes)
    text = f'{share} of the labels are ordinary; questions "is it ...?" about uniform classes get {expected} yes. '
    if p < case.level:
        text += "If these labels are such answers, some classes were asked about more often; otherwise ignore this."
    else:
        text += "The labels may be such answers."
    yield Finding("note", text)


def _margin(case: _Case) -> Iterator[Finding]:
    """How well a fifth of the labels would tell an accuracy, if the complementary ones are uniform."""
    if case.transition is not None and case.n_complementary:
        return
    kind = "complementary" if case.n_complementary else "ordinary"
    at_most = "" if case.kinds[kind] == case.n_labels else " at most"  # other labels than these tell more
    held_out = max(1, case.n_labels // 5)
    margin = planning.margin_reached(case.n_classes, held_out, 0.9, kind, 1.0 - case.level)
    text = f"A fifth of these labels ({held_out:,}) measures an accuracy of 90% to within {100 * margin:.2g} points"
    text += at_most
    if margin > 0.05:
        needed = getattr(planning.labels_needed(case.n_classes, 0.05, 0.9, 1.0 - case.level), kind)
        text += f"; 5 points take {needed:,} labels{at_most}"
    yield Finding("note", text + ".")


def _names(case: _Case) -> Iterator[Finding]:
    """Names of classes that look wrong."""
    for text in odd_names(case.names, case.n_labels):
        yield Finding("warning", text)


def odd_names(names: Sequence[str], n_labels: int) -> Iterator[str]:
    """Say what looks wrong with the names of classes.

    Examples
    --------
    >>> print(*odd_names(["Cat", "cat", "dog"], 100))
    Two classes may be one: 'Cat' and 'cat' differ only in case or spaces.
    """
    if same := alike(names):
        yield f"Two classes may be one: {same} differ only in case or spaces."
    numbers = [float(name) for name in names if re.fullmatch(r"-?\d+(\.\d+)?", name)]
    if len(numbers) == len(names) > 10 and (2 * len(names) >= n_labels or not all(map(float.is_integer, numbers))):
        ends = f"{min(numbers):g} to {max(numbers):g}"
        yield f"The classes are {len(names):,} numbers, from {ends}: a quantity, not classes?"


_CHECKS = (
    _names,
    _silent,
    _two_classes,
    _few,
    _above_uniform,
    _against_matrix,
    _never_ruled_out,
    _kinds_disagree,
    _yes_share,
    _margin,
)


def _advice(case: _Case, findings: list[Finding]) -> Iterator[str]:
    """What to use, in sentences."""
    if not case.n_complementary:
        yield "All labels are ordinary ones: any classifier will do."
        return
    if case.transition is not None:
        wrong = any(finding.level == "problem" for finding in findings)
        yield "The transition matrix does not fit: estimate it anew." if wrong else "Train with this transition matrix."
    elif any(finding.level == "problem" for finding in findings):
        yield (
            "Describe how the labels were drawn (transition=): transition.biased if you know how often each class was "
            "asked about, transition.estimate from a few hundred examples that have both kinds of label."
        )
    elif not case.unasked and not case.too_few:
        yield "Uniform labels are plausible: the defaults fit (transition=None), if chance chose the classes."
    if case.unasked:
        yield f"Ask about every class: one that is never ruled out cannot be learned ({_some(case.unasked)})."
    if case.too_few:
        yield "Collect more labels before you train."
    else:
        yield 'Train with method "auto": networks and trees, weighted by labels that they did not see.'
    if case.n_ordinary:
        yield "Both kinds of label train together; alpha weighs the complementary ones (None: every example alike)."


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _probability(p: float) -> str:
    return f"= {p:.1g}" if p > 1e-12 else "< 1e-12"


def _some(names: list[str]) -> str:
    """Name at most five."""
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
