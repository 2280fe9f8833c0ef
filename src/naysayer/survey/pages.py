"""What the pages of a survey show: the numbers, and how they are written."""

from __future__ import annotations

import math
from typing import Any

from naysayer.collect.pages import Pages
from naysayer.survey import results
from naysayer.survey.privacy import MODES, equal_epsilon, options_left, respondents_needed
from naysayer.survey.questions import Survey, SurveyQuestion

COMPARED = (0.5, 1.0, 2.0, 3.0)  # the ε for which the privacy page compares the modes
REPEATS = (1, 2, 3, 5, 10)


def for_script(question: SurveyQuestion) -> dict[str, Any]:
    """What the page's script needs to draw: the options' names, how what is drawn reads, t, and d where it is a set."""
    names = [option.id for option in question.options]
    size = question.size if question.mode == "subset" else None
    return {"id": question.id, "options": names, "says": question.says, "truth": question.truth, "size": size}


def privacy_numbers(survey: Survey) -> dict[str, Any]:
    """The numbers of the privacy page: one entry a private question, each computed for its own K."""
    private = [question for question in survey.questions if question.private]
    each = []
    for question in private:
        n_options = len(question.options)
        epsilons = sorted({*COMPARED, *([question.epsilon] if question.epsilon else [])})
        each.append(
            {
                "question": question,
                "epsilons": epsilons,
                "ordinary": respondents_needed(None, n_options, None, 0.05),
                "needed": {
                    mode: [respondents_needed(mode, n_options, epsilon, 0.05) for epsilon in epsilons]
                    for mode in MODES
                    if n_options > 2 or mode != "complementary"
                },
                "equal": equal_epsilon(n_options) if n_options > 2 else None,
                "left": [(m, *options_left(n_options, m)) for m in REPEATS] if n_options > 2 else [],
            }
        )
    total = sum(question.epsilon for question in private if question.epsilon is not None)
    uncounted = any(question.epsilon is None for question in private)
    return {"private": each, "total": total, "uncounted": uncounted}


def chosen_table(survey: Survey, answers: dict[str, Any], rows: str | None, columns: str | None) -> dict[str, Any]:
    """The cross-table that was asked for, or else that of the first private question with the first other one.

    One of the two is private: of two public ones, a cell would say what as few as one person answered.
    """
    names = [question.id for question in survey.questions]
    private = [question.id for question in survey.questions if question.private]
    if len(names) < 2 or not private:
        return {"table": None, "picked": None}
    rows = rows if rows in names else private[0]
    beside = [name for name in names if name != rows and (rows in private or name in private)]
    columns = columns if columns in beside else beside[0]
    first, second = survey.question(rows), survey.question(columns)
    codes = answers[rows], answers[columns]
    if second.private:
        table = results.cross_table(first, second, *codes, minimum=survey.minimum)
    else:
        table = results.cross_table_by_group(first, second, *codes, minimum=survey.minimum)
    return {"table": table, "picked": (first, second), "beside": [survey.question(name) for name in beside]}


def percent(value: float) -> str:
    """A share as people read it; what lies outside of 0 to 1 is shown as the nearest share that can be."""
    return f"{100 * min(1.0, max(0.0, float(value))):.0f}%"


def chance(probability: float, digits: int = 0) -> str:
    """A probability with as many digits as it takes: only 0 and 1 themselves read as 0% and 100%.

    Examples
    --------
    >>> chance(0.0021), chance(0.063, 1), chance(0.99996), chance(0.0)
    ('0.2%', '6.3%', '99.996%', '0%')
    """
    while 0 < probability < 1 and float(f"{100 * probability:.{digits}f}") in (0.0, 100.0):
        digits += 1
    return f"{100 * probability:.{digits}f}%"


def times(factor: float) -> str:
    """A factor as people read it.

    Examples
    --------
    >>> times(2.71828), times(22026.47)
    ('2.72', '22,026')
    """
    return f"{factor:,.0f}" if factor >= 1000 else f"{factor:.3g}"


def share_number(value: float) -> float:
    """A share in percent for a chart, within 0 to 100."""
    return round(100 * min(1.0, max(0.0, float(value))), 2)


def points(value: float) -> str:
    """A difference of shares in whole points; what cannot be is shown as the nearest that can."""
    return f"{round(100 * min(1.0, max(-1.0, value)))}".replace("-", "−")


pages = Pages(
    "naysayer.survey",
    percent=percent,
    chance=chance,
    times=times,
    share=share_number,
    points=points,
    exp=math.exp,
    too_few=results.too_few,
)
