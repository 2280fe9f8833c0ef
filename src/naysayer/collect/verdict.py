"""The verdict that the owner's page leads with: what is known, what is wrong, what to do next, in plain sentences."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from naysayer.common.words import count

VAGUE = 0.5  # an interval that is wider tells so little that its estimate is held back
WANTED = 0.02  # the margin that is planned for
ODD = 0.01  # what chance makes less often than that is named
MANY_ERRORS = 0.1  # a share of wrong answers that surely lies above this is named
FIRST_TRAINING = 50  # answers
MOST_NAMED = 3  # people whose answers look bad, with the reasons; of others only the number is told
FEWEST_ITEMS = 20  # with answers, to train on
FINE = "Nothing that these answers show."


class Sentence(TypedDict, total=False):
    """A sentence, and the command by which to do what it says."""

    text: str
    command: str


def percent(share: float) -> str:
    """Write a share, never one that cannot be.

    Examples
    --------
    >>> percent(0.934), percent(-0.82), percent(1.04), percent(0.004)
    ('93%', '0%', '100%', '0.4%')
    """
    share = min(1.0, max(0.0, share))
    return f"{100 * share:.0f}%" if share == 0 or share >= 0.0095 else f"{100 * share:.1f}%"


def is_vague(interval: Sequence[float]) -> bool:
    """Tell whether an interval (estimate, low, high) is too wide to show its estimate."""
    return interval[2] - interval[1] > VAGUE


def names(some: Sequence[str]) -> str:
    """Join names as a sentence does.

    Examples
    --------
    >>> names(["cat"]), names(["cat", "dog", "owl"])
    ('cat', 'cat, dog and owl')
    """
    return some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}"


def verdict(figures: Mapping[str, Any], place: str) -> dict[str, list[Sentence]]:
    """Say what the dashboard's figures come to; `place` is where the store is, for commands."""
    where = "URL" if "://" in place else shlex.quote(place)  # a URL may hold a password
    wrong = _wrong(figures, where)
    calm: list[Sentence] = [
        {"text": "Too few answers to tell." if figures["progress"]["answers"] < FIRST_TRAINING else FINE}
    ]
    return {"known": _known(figures), "wrong": wrong or calm, "next": _next(figures, where, bool(wrong))}


# ---- known ---------------------------------------------------------------------------------------------------------


def _known(figures: Mapping[str, Any]) -> list[Sentence]:
    progress, report = figures["progress"], figures["report"]
    items, decided = progress["items"], progress["decided"]
    if not progress["answers"]:
        about = f"nobody has answered about the {count(items, 'item')}" if items else "there are no items"
        return [{"text": f"Nothing yet: {about}."}]
    answers = count(progress["answers"], "answer")
    said = [f"{_of(decided, items)} settled, by {answers}." if decided else f"No item is settled yet, after {answers}."]
    labels = figures["guided"] and figures["guided"]["labels"]
    last = figures["trainings"][-1] if figures["trainings"] else None
    if labels and not is_vague(labels):
        n = figures["guided"]["items"]
        which = "every item" if n >= items else f"each of the {count(n, 'item')} that are guided now"
        said.append(f"If {which} were given its likeliest class, {_interval(labels)} would be right.")
    if last is not None:
        found = [last["estimate"], last["low"], last["high"]]
        if is_vague(found):
            n = count(last["n_answers"], "answer")
            said.append(f"The model that learned from {n} cannot be distinguished from guessing yet.")
        else:
            said.append(f"The model is right on {_interval(found)} of the items.")
    priors = report and report["priors"]
    if priors:
        clear = [(each, name) for each, name in zip(priors, figures["classes"], strict=True) if not is_vague(each)]
        if len(clear) == len(priors):
            best, name = max(clear)
            said.append(f"The most common class is {name}, with {_interval(best)} of the items.")
    errors = report and report["errors"]
    if errors and errors["pairs"]:
        if errors["differ"]:
            said.append(f"About {_interval(errors['interval'])} of the answers are wrong.")
        else:
            most = percent(errors["interval"][2])
            said.append(f"No question that was asked twice got two different answers: at most {most} are wrong.")
    return [{"text": text} for text in said]


def _of(n: int, total: int) -> str:
    """Say how many of the items something holds for, with its verb."""
    if n == total:
        return f"All {count(total, 'item')} are" if total > 1 else "The only item is"
    return f"{n:,} of {count(total, 'item')} {'is' if n == 1 else 'are'}"


def _interval(interval: Sequence[float]) -> str:
    estimate, low, high = interval
    return f"{percent(estimate)} ({percent(low)} to {percent(high)})"


# ---- wrong ---------------------------------------------------------------------------------------------------------


def _wrong(figures: Mapping[str, Any], where: str) -> list[Sentence]:
    report, guided, said = figures["report"], figures["guided"], list[Sentence]()
    if figures["training_error"]:
        said.append({"text": f"The last training failed: {figures['training_error']}."})
    named = figures["named"]
    said += [{"text": f"{one['name']} {'; '.join(one['reasons'])}."} for one in named[:MOST_NAMED]]
    if (n := len(named) - MOST_NAMED) > 0:
        said.append({"text": f"The answers of {count(n, 'more person', 'more people')} look bad, too."})
    if report:
        if report["yes_p_value"] is not None and report["yes_p_value"] < ODD:
            more = "more" if report["yes"][0] > report["yes_expected"] else "less"
            share = f"{percent(report['yes'][0])} instead of {percent(report['yes_expected'])}"
            said.append({"text": f"People say yes {more} often than they should to random questions: {share}."})
        if report["asked_p_value"] is not None and report["asked_p_value"] < ODD:
            said.append({"text": "The classes were not asked about as often as they were meant to be."})
        errors = report["errors"]
        if errors["pairs"] and errors["interval"][1] > MANY_ERRORS:
            said.append({"text": f"Too many answers are wrong: {_interval(errors['interval'])}."})
        told = {one["id"] for one in named}
        for person in (one for one in figures["people"] if one["id"] not in told):
            own = figures["errors"].get(person["id"])
            if own and own["pairs"] and own["interval"][1] > max(MANY_ERRORS, errors["interval"][2]):
                said.append(
                    {"text": f"{person['name']} answers wrongly more often than others: {_interval(own['interval'])}."}
                )
    if guided and guided["differ"]:
        text = f"Guided questions about {names(guided['differ'])} are not answered as random ones are."
        said.append({"text": text})
    if guided and guided["any"]["odd"]:
        share = f"{percent(guided['any']['yes'])} instead of {percent(guided['any']['most'])} at most"
        said.append({"text": f"Since questions are guided, people say yes too often to random ones: {share}."})
    if n := figures["gone"]:
        are, it_has, its = ("is", "it has", "its") if n == 1 else ("are", "they have", "their")
        text = f"{count(n, 'picture')} can no longer be found and {are} not asked about."
        said.append({"text": f"{text} If {it_has} moved, add {its} folder:", "command": f"naysayer add {where} FOLDER"})
    return said


# ---- next ----------------------------------------------------------------------------------------------------------


def _next(figures: Mapping[str, Any], where: str, is_wrong: bool) -> list[Sentence]:
    progress, left, said = figures["progress"], figures["left"], list[Sentence]()
    n, items = progress["answers"], progress["items"]
    if not items:
        return [{"text": "Add something to ask about:", "command": f"naysayer add {where} FOLDER"}]
    if not n:
        share = "make links for others below" if figures["invites"] else "start with --host to invite others"
        return [{"text": f"Answer the first questions, or {share}."}]
    if named := figures["named"]:
        who = names([one["name"] for one in named[:MOST_NAMED]]) if len(named) <= MOST_NAMED else "all who are named"
        text = f"Look at the answers of {who}, below at “How people answer”, and leave out what is bad."
        said.append({"text": text})
    elif is_wrong:
        said.append({"text": "First look at what is wrong, before more answers of the same kind come in."})
    if disputed := figures["disagreements"]:
        which = f"{count(disputed, 'item')} {'is' if disputed == 1 else 'are'}"
        said.append({"text": f"Say what {which}: see “Disagreements” below."})
    if left["items"]:
        most = f"{'' if left['answers'] == 1 else 'at most '}{count(left['answers'], 'answer')} in all"
        said.append({"text": f"Keep answering: {count(left['items'], 'item')} can still be asked about, {most}."})
        if figures["trains"] and n < FIRST_TRAINING:
            said.append({"text": f"The first model is trained after {FIRST_TRAINING} answers."})
    else:
        command = f"naysayer labels {where} --out labels.csv"
        command += " --review review.csv" if progress["decided"] < items else ""
        said.append({"text": "All that can be asked was asked. Take the labels:", "command": command})
    if figures["margins"] and (goal := _margin(figures["margins"], left["answers"])):
        said.append({"text": goal})
    if not figures["trains"] and not figures["trainings"] and progress["answered"] >= FEWEST_ITEMS:
        said.append({"text": "Let a model learn from the answers:", "command": f"naysayer train {where} --out model/"})
    return said


def _margin(margins: Mapping[str, Any], left: int) -> str | None:
    """Say what it takes to know a model's accuracy, by what can still be asked."""
    goal = next(point["n"] for point in margins["points"] if point["margin"] == WANTED)
    missing = goal - margins["answers"]
    if missing <= 0:
        return None
    aim = f"To know the accuracy of a model to within {100 * WANTED:.0f} points"
    if margins["guided"]:  # no answer to come has a part in it
        random = f"about {count(goal, 'answer')} to random questions about other items, in a store of their own"
        return f"{aim} takes {random}; guided ones add nothing to it."
    if missing <= left:
        return f"{aim} takes about {count(missing, 'more answer')}."
    few = "too few questions are left about these" if left else "nothing is left to ask about these"
    return f"{aim} takes about {count(missing - left, 'more item')}; {few}."
