"""The asking page in every language: nothing is missing, nothing is left over, and the browser's wish is heard."""

from __future__ import annotations

import json
import re
from html import unescape
from importlib.resources import files
from pathlib import Path

import pytest

from helpers import raises
from naysayer.collect.app import make_app
from naysayer.collect.languages import check_language, choose, languages
from naysayer.collect.records import Project
from naysayer.collect.security import Site
from naysayer.collect.store import Store
from naysayer.data.items import record_item
from test_collect_app import Client

ENGLISH = languages()["en"]
FORMS = {"de": {"one", "other"}, "en": {"one", "other"}, "ja": {"other"}}  # those of CLDR, for whole numbers


def places(text):
    return sorted(re.findall(r"\{\w*\}", text))


@pytest.mark.parametrize("code", languages())
def test_every_language_says_everything(code):
    words = languages()[code]
    assert words["language"] == code
    assert list(words) == list(ENGLISH), "the same texts in the same order"
    for name, text in ENGLISH.items():
        mine = words[name]
        if isinstance(text, dict):
            assert set(mine) <= FORMS[code], name
            assert "other" in mine, name
            assert len(mine) in (1, len(FORMS[code])), name
            assert all(places(form) == places(text["other"]) for form in mine.values()), name
        else:
            assert mine.strip(), name
            assert places(mine) == places(text), name


@pytest.mark.parametrize("code", languages())
def test_no_key_has_two_meanings(code):
    keys = [languages()[code][name] for name in ("key_no", "key_yes")]
    assert all(re.fullmatch("[a-z]", key) for key in keys)
    assert len({*keys, "u", "g"}) == 4
    assert not {"key_no": "y", "key_yes": "n"}.items() & dict(zip(("key_no", "key_yes"), keys)).items()


def test_every_text_is_used():
    folder = files("naysayer.collect")
    used = " ".join(
        file.read_text(encoding="utf8")
        for place, ending in (("static", ".js"), ("templates", ".html"))
        for file in folder.joinpath(place).iterdir()
        if file.name.endswith(ending)
    )
    used += folder.joinpath("asking.py").read_text(encoding="utf8") + folder.joinpath("pages.py").read_text("utf8")
    for name in ENGLISH:
        assert re.search(rf"\b{name.removesuffix('_title')}\b", used), name


@pytest.mark.parametrize(
    ("accepted", "code"),
    [
        ("", "en"),
        ("*", "en"),
        ("de", "de"),
        ("de-CH;q=0.5, ja", "ja"),
        ("fr, de;q=0.3, en;q=0.2", "de"),
        ("de;q=0, en;q=0.1", "en"),
        ("JA-jp", "ja"),
        ("de;q=x, ../../etc;q=1, ja;q=0.1", "ja"),
    ],
)
def test_the_browsers_wish_is_heard(accepted, code):
    assert choose(accepted)["language"] == code


def test_the_command_names_them_all():
    page = Path(__file__).parent.parent.joinpath("docs", "commands.md").read_text(encoding="utf8")
    assert f"--language {'|'.join(languages())} " in page


def test_a_language_that_is_not_there_is_refused():
    assert check_language("ja") == "ja"
    with raises("the language must be one of de, en, ja; got 'xx'"):
        check_language("xx")


def test_pages_and_questions_speak_it(tmp_path):
    german = {"accept-language": "de-DE,de;q=0.9,en;q=0.8"}
    with Store.open(tmp_path / "a.db", project=Project(("Katze", "Hund"))) as store:
        store.register([record_item({"bunt": True, "n": 1}, "1")])
        web = Client(make_app(store, Site(open=True)))
        page = web.get("/", headers=german).text
        assert '<html lang="de">' in page
        assert "<span>Unklar</span>" in page
        (asked,) = web.get("/api/next", headers=german).json()["questions"]
        assert (asked["before"], asked["after"]) == ("Gehört das zu „", "“?")
        assert asked["item"]["fields"] == [["bunt", "ja"], ["n", "1"]]
        assert "Hier ist nichts" in web.get("/nothing", headers=german | {"accept": "text/html"}).text
        closed = Client(make_app(store, Site("0.0.0.0", 8000)))
        assert "Bitte öffnen Sie Ihren Link" in closed.get("/", headers=german | {"accept": "text/html"}).text
        assert "Ihr Link wird geprüft" in closed.get("/join", headers=german).text
        japanese = Client(make_app(store, Site(open=True), language="ja")).get("/", headers=german).text
        assert '<html lang="ja">' in japanese
        assert "わからない" in japanese
        store.configure(question="Does it say {}?")  # the owner's own words stay
        (asked,) = web.get("/api/next", headers=german).json()["questions"]
        assert (asked["before"], asked["after"]) == ("Does it say ", "?")


def test_words_reach_scripts_as_data(tmp_path):
    with Store.open(tmp_path / "a.db", project=Project(("a", "b"))) as store:
        page = Client(make_app(store, Site(open=True))).get("/").text
    assert json.loads(unescape(re.search(r'data-words="([^"]*)"', page)[1])) == ENGLISH
