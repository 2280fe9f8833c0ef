"""The verdict: plain sentences that hold for what the figures say, in the singular too, and nothing impossible."""

from __future__ import annotations

import copy
import re

import pytest

from naysayer.collect.verdict import verdict

FIGURES = {
    "classes": ["cat", "dog"],
    "progress": {"items": 200, "answered": 150, "decided": 120, "answers": 300, "own": 0},
    "left": {"items": 80, "answers": 90},
    "gone": 0,
    "named": [],
    "disagreements": 0,
    "invites": True,
    "trains": True,
    "training_error": None,
    "trainings": [{"n_answers": 290, "estimate": 0.91, "low": 0.86, "high": 0.96}],
    "people": [{"id": "a", "name": "Ann"}, {"id": "b", "name": "Ben"}],
    "errors": {"a": {"interval": [0.01, 0.0, 0.03], "pairs": 9}, "b": {"interval": [0.01, 0.0, 0.03], "pairs": 9}},
    "margins": {"guided": False, "answers": 300, "points": [{"margin": 0.05, "n": 200}, {"margin": 0.02, "n": 350}]},
    "guided": None,
    "report": {
        "priors": [[0.4, 0.3, 0.5], [0.6, 0.5, 0.7]],
        "yes": [0.5, 0.4, 0.6],
        "yes_expected": 0.5,
        "yes_p_value": 0.9,
        "asked_p_value": 0.9,
        "errors": {"interval": [0.01, 0.0, 0.03], "pairs": 18, "differ": 1},
    },
}

GUIDED = {"items": 200, "labels": [0.5, 0.0, 1.0], "differ": [], "any": {"odd": False}}
REASONS = ["answered 9 of 9 questions within 0.25 seconds", "said no to everything"]
NAMED = [{"id": name[0].lower(), "name": name, "reasons": REASONS} for name in ("Ann", "Ben", "Cem", "Dora", "Eve")]


def said(place="answers.db", **changes):
    """The sentences of each part, with figures changed at paths such as report__yes_p_value."""
    figures = copy.deepcopy(FIGURES)
    for path, value in changes.items():
        *folders, name = path.split("__")
        inner = figures
        for folder in folders:
            inner = inner[folder]
        inner[name] = value
    found = verdict(figures, place)
    assert list(found) == ["known", "wrong", "next"]
    for share in re.findall(r"(-?[\d.]+)%", str(found)):
        assert 0 <= float(share) <= 100
    return {part: [" ".join(one.values()) for one in sentences] for part, sentences in found.items()}


def test_all_is_well():
    assert said() == {
        "known": [
            "120 of 200 items are settled, by 300 answers.",
            "The model is right on 91% (86% to 96%) of the items.",
            "The most common class is dog, with 60% (50% to 70%) of the items.",
            "About 1% (0% to 3%) of the answers are wrong.",
        ],
        "wrong": ["Nothing that these answers show."],
        "next": [
            "Keep answering: 80 items can still be asked about, at most 90 answers in all.",
            "To know the accuracy of a model to within 2 points takes about 50 more answers.",
        ],
    }


@pytest.mark.parametrize(
    ("changes", "part", "words"),
    [
        ({"progress__answers": 0}, "known", "Nothing yet: nobody has answered about the 200 items."),
        ({"progress__answers": 0, "progress__items": 0}, "known", "Nothing yet: there are no items."),
        ({"progress__answers": 0}, "wrong", "Too few answers to tell."),
        ({"progress__answers": 0}, "next", "Answer the first questions, or make links for others below."),
        (
            {"progress__answers": 0, "invites": False},
            "next",
            "Answer the first questions, or start with --host to invite others.",
        ),
        (
            {"progress": {"items": 0, "answers": 0, "decided": 0}},
            "next",
            "Add something to ask about: naysayer add answers.db FOLDER",
        ),
        ({"progress__decided": 1, "progress__answers": 1}, "known", "1 of 200 items is settled, by 1 answer."),
        ({"progress__decided": 0}, "known", "No item is settled yet, after 300 answers."),
        ({"progress__decided": 200}, "known", "All 200 items are settled, by 300 answers."),
        (
            {"progress": {"items": 1, "answers": 2, "decided": 1, "answered": 1}},
            "known",
            "The only item is settled, by 2 answers.",
        ),
        (
            {"trainings": [{"n_answers": 60, "estimate": 0.7, "low": 0.2, "high": 1.0}]},
            "known",
            "The model that learned from 60 answers cannot be distinguished from guessing yet.",
        ),
        (
            {"guided": GUIDED | {"labels": [1.02, 0.9, 1.0]}},
            "known",
            "If every item were given its likeliest class, 100% (90% to 100%) would be right.",
        ),
        (
            {"guided": GUIDED | {"labels": [0.9, 0.8, 1.0], "items": 150}},
            "known",
            "If each of the 150 items that are guided now were given its likeliest class, 90% (80% to 100%) would be "
            "right.",
        ),
        (
            {"report__errors": {"interval": [0.0, 0.0, 0.05], "pairs": 4, "differ": 0}},
            "known",
            "No question that was asked twice got two different answers: at most 5% are wrong.",
        ),
        ({"named": NAMED[:1]}, "wrong", "Ann answered 9 of 9 questions within 0.25 seconds; said no to everything."),
        (
            {"named": NAMED[:2]},
            "next",
            "Look at the answers of Ann and Ben, below at “How people answer”, and leave out what is bad.",
        ),
        ({"named": NAMED}, "wrong", "The answers of 2 more people look bad, too."),
        ({"named": NAMED[:4]}, "wrong", "The answers of 1 more person look bad, too."),
        (
            {"named": NAMED},
            "next",
            "Look at the answers of all who are named, below at “How people answer”, and leave out what is bad.",
        ),
        (
            {"guided": GUIDED | {"any": {"odd": True, "yes": 0.6, "most": 0.12}}},
            "wrong",
            "Since questions are guided, people say yes too often to random ones: 60% instead of 12% at most.",
        ),
        (
            {"margins__guided": True},
            "next",
            "To know the accuracy of a model to within 2 points takes about 350 answers to random questions about "
            "other items, in a store of their own; guided ones add nothing to it.",
        ),
        ({"disagreements": 1}, "next", "Say what 1 item is: see “Disagreements” below."),
        ({"disagreements": 30}, "next", "Say what 30 items are: see “Disagreements” below."),
        ({"training_error": "MemoryError"}, "wrong", "The last training failed: MemoryError."),
        (
            {"report__yes_p_value": 0.001, "report__yes": [0.8, 0.7, 0.9]},
            "wrong",
            "People say yes more often than they should to random questions: 80% instead of 50%.",
        ),
        (
            {"report__yes_p_value": 0.001, "report__yes": [0.1, 0.0, 0.2]},
            "wrong",
            "People say yes less often than they should to random questions: 10% instead of 50%.",
        ),
        (
            {"report__asked_p_value": 0.001},
            "wrong",
            "The classes were not asked about as often as they were meant to be.",
        ),
        (
            {"report__errors__interval": [0.2, 0.15, 0.25]},
            "wrong",
            "Too many answers are wrong: 20% (15% to 25%).",
        ),
        (
            {"errors__b__interval": [0.3, 0.2, 0.4]},
            "wrong",
            "Ben answers wrongly more often than others: 30% (20% to 40%).",
        ),
        (
            {"guided": GUIDED | {"differ": ["cat", "dog"]}},
            "wrong",
            "Guided questions about cat and dog are not answered as random ones are.",
        ),
        (
            {"gone": 1},
            "wrong",
            "1 picture can no longer be found and is not asked about. If it has moved, add its folder: "
            "naysayer add answers.db FOLDER",
        ),
        ({"gone": 1}, "next", "First look at what is wrong, before more answers of the same kind come in."),
        (
            {"left": {"items": 1, "answers": 1}},
            "next",
            "Keep answering: 1 item can still be asked about, 1 answer in all.",
        ),
        (
            {"left": {"items": 3, "answers": 3}},
            "next",
            "To know the accuracy of a model to within 2 points takes about 47 more items; "
            "too few questions are left about these.",
        ),
        (
            {"left": {"items": 0, "answers": 0}},
            "next",
            "To know the accuracy of a model to within 2 points takes about 50 more items; "
            "nothing is left to ask about these.",
        ),
        (
            {"left": {"items": 0, "answers": 0}, "place": "my answers.db"},
            "next",
            "All that can be asked was asked. Take the labels: "
            "naysayer labels 'my answers.db' --out labels.csv --review review.csv",
        ),
        (
            {"left": {"items": 0, "answers": 0}, "progress__decided": 200, "place": "postgresql://me:***@host/db"},
            "next",
            "All that can be asked was asked. Take the labels: naysayer labels URL --out labels.csv",
        ),
        ({"progress__answers": 20}, "next", "The first model is trained after 50 answers."),
        (
            {"trains": False, "trainings": []},
            "next",
            "Let a model learn from the answers: naysayer train answers.db --out model/",
        ),
    ],
)
def test_a_sentence_for_each_case(changes, part, words):
    assert words in said(**changes)[part]


def test_shares_with_wide_intervals_are_held_back():
    assert not any("most common" in text for text in said(report__priors=[[0.9, 0.2, 1.0], [0.1, 0.0, 0.8]])["known"])
    assert not any("likeliest" in text for text in said(guided=GUIDED | {"labels": [0.5, 0.1, 0.9]})["known"])


def test_who_is_named_is_told_once():
    wrong = said(errors__b__interval=[0.3, 0.2, 0.4], named=NAMED[1:2])["wrong"]
    assert [text for text in wrong if "Ben" in text] == [f"Ben {REASONS[0]}; {REASONS[1]}."]


def test_what_is_known_well_enough_is_not_asked_for():
    for guided in (False, True):
        found = said(margins__answers=350, margins__guided=guided)
        assert not any("accuracy" in text for text in found["next"])
