"""The report of a model in a real browser: it fits every screen, reads in light and dark, and asks for nothing."""

from __future__ import annotations

import pytest

import reports
from browser import CONTRAST, assert_fits_everywhere, chromium
from naysayer.report import write

KINDS = ["table", "photos", "texts"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    made = {
        "table": reports.table(120, learned=False, seed=1),
        "photos": reports.photos(folder, 60, 120),
        "texts": reports.texts(folder, 60, 120),
    }
    for name, both in made.items():
        write(folder / f"{name}.html", *both, source="answers.db")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.mark.parametrize("kind", KINDS)
def test_it_fits_a_phone_and_a_desktop_and_asks_for_nothing(browser, pages, kind):
    asked, said = [], []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(pages[kind])
        assert_fits_everywhere(page, (360, 768, 1280), 800)
        assert_fits_everywhere(page, (360,), 800, wider=True)
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert [url for url in asked if not url.startswith("data:")] == [pages[kind]]
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_can_be_read(browser, pages, kind, scheme):
    with browser.new_context(color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(pages[kind])
        found = page.evaluate(CONTRAST)
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == {"light": "rgb(246, 245, 242)", "dark": "rgb(19, 20, 22)"}[scheme]
    assert len(found) > 50
    assert [words for words in found if words[0] < 4.5] == []


def test_pictures_are_shown_and_square(browser, pages):
    with browser.new_context(viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        page.goto(pages["photos"])
        sizes = page.evaluate("[...document.images].map((i) => [i.naturalWidth, i.clientWidth, i.clientHeight])")
    assert sizes
    assert all(natural == 112 and abs(width - height) <= 1 for natural, width, height in sizes)
