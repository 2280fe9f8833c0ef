"""The pages in any font: nothing leaves its place, in the typeface that they bring along or in whatever stands in."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import assert_fits_everywhere, chromium, served, unfit
from naysayer.collect.app import make_app, pages
from naysayer.collect.guidelines import Guideline, Guidelines
from naysayer.collect.languages import languages
from naysayer.collect.people import invite_to, owner_of
from naysayer.collect.records import Answer, Project
from naysayer.collect.store import Store
from naysayer.data.items import image_item, record_item, text_item
from naysayer.survey import app as survey_app
from naysayer.survey.questions import Option, Survey, SurveyQuestion
from naysayer.survey.store import SurveyStore

WIDTHS = (320, 416, 427, 480, 576, 640, 900)
LOW, HIGH = 267, 568  # a desktop enlarged to 300%, a small phone
NAMES = {
    "short": ("cat", "dog", "owl"),
    "long": ("Donaudampfschifffahrtsgesellschaft" * 3, "w" * 200, "many short words, as people write them " * 4),
    "right to left": ("\u0642\u0637\u0629 \u0643\u0628\u064a\u0631\u0629 " * 4, "\u05db\u05dc\u05d1", "owl"),
}


class Device:
    """A browser that has one family of fonts, and takes the typeface of the pages or does not."""

    def __init__(self, browser: Any, shipped: bool) -> None:
        self.browser, self.shipped = browser, shipped

    def open(self, address: str) -> Any:
        context = self.browser.new_context(reduced_motion="reduce")
        if not self.shipped:
            context.route("**/*.woff2", lambda route: route.abort())
        page = context.new_page()
        page.goto(address)
        return page

    def assert_fits(self, page: Any, *heights: int) -> None:
        """Nothing leaves its place at any width; the typeface of the pages even with its letters set apart."""
        for height in heights:
            assert_fits_everywhere(page, WIDTHS, height, wider=self.shipped)


@pytest.fixture(scope="module", params=["shipped", "DejaVuSans", "DejaVuSansMono"])
def device(request):
    """DejaVu Sans runs wider than most; its Mono, where nothing else is there, wider still."""
    shipped = request.param == "shipped"
    with chromium("DejaVuSerif" if shipped else request.param) as browser:
        yield Device(browser, shipped)


@pytest.fixture(params=list(NAMES))
def names(request):
    return NAMES[request.param]


# ---- the typeface -------------------------------------------------------------------------------------------------


def test_the_typeface_is_named_by_its_content_and_comes_with_its_licence():
    """Browsers keep it for a year: another one must have another name."""
    (name,) = (name for name in pages.static if name.endswith(".woff2"))
    body, kind, _ = pages.static[name]
    assert kind == "font/woff2"
    assert re.fullmatch(r"inter-([0-9a-f]{8})\.woff2", name)[1] == hashlib.sha256(body).hexdigest()[:8]
    assert f'url("/static/{name}")' in pages.static["base.css"][0].decode()
    source, _, _ = pages.templates.loader.get_source(pages.templates, "base.html")
    assert f'href="/static/{name}" as="font"' in source
    licence = files("naysayer.collect").joinpath("static", "inter-LICENSE.txt").read_text(encoding="utf8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence


def test_the_typeface_is_loaded_once_and_used(device, tmp_path):
    with Store.open(tmp_path / "a.db", project=Project(("cat", "dog"))) as store:
        store.register([text_item("A text.", "1")])
        with served(lambda site: make_app(store, site)) as site:
            page = device.open(site.origin)
            page.wait_for_selector("[data-state=asking]")
            loaded = page.evaluate("document.fonts.ready.then((all) => [...all].map((face) => face.status))")
            assert loaded == (["loaded"] if device.shipped else ["error"])
            if device.shipped:
                response = page.request.get(site.origin + page.locator("link[as=font]").get_attribute("href"))
                assert response.headers["cache-control"] == "max-age=31536000, immutable"
                fetched = "performance.getEntriesByType('resource').filter((r) => r.name.endsWith('.woff2')).length"
                assert page.evaluate(fetched) == 1, "the one that was asked for early is the one that is used"
            page.context.close()


# ---- the eye ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("<p>Words that fit</p><button>Yes</button>", ""),
        ("<p style='white-space: nowrap'>" + "words " * 80, "leaves p by"),
        ("<button style='width: 30px; white-space: nowrap'>Many words</button>", "button is too narrow for its words"),
        ("<div style='width: 40px'><span>Donaudampfschifffahrt</span></div>", "leaves div by"),
        ("<p>One</p><p style='margin-top: -32px'>Other</p>", '"One" lies over "Other"'),
        ("<p style='height: 9px; overflow: hidden; width: 60px'>Words below words", "is cut off by p"),
        ("<button style='position: absolute; left: 390px'>Yes</button>", "button leaves the screen"),
        ("<div class='scroll' style='overflow: auto; width: 60px'><pre>Words that scroll</pre></div>", ""),
        ("<div style='overflow: auto; width: 60px'><pre>Words that should not</pre></div>", "leaves pre by"),
    ],
)
def test_what_does_not_fit_is_seen(device, body, seen):
    page = device.open("about:blank")
    page.set_viewport_size({"width": 400, "height": 300})
    page.set_content(f"<!doctype html><body style='margin: 8px'>{body}")
    found = unfit(page)
    assert seen in "; ".join(found) if seen else found == []
    page.context.close()


def test_a_page_that_fits_at_some_widths_only_is_told_from_one_that_fits(device):
    page = device.open("about:blank")
    page.set_content("<!doctype html><p style='width: 400px; font-size: 9px'>words")
    assert_fits_everywhere(page, (450, 500), 300)
    with pytest.raises(AssertionError, match="350 wide: \\['the page is wider"):
        assert_fits_everywhere(page, (350, 500), 300)
    page.context.close()


# ---- the pages ----------------------------------------------------------------------------------------------------


def test_asking_fits_in_any_font(device, names, tmp_path):
    with Store.open(tmp_path / "any.db", project=Project(names, name=names[0][:100]), random_state=0) as store:
        store.register([record_item({names[0]: names[1], "n": 1.5}, "1"), *(text_item(name, name) for name in names)])
        with served(lambda site: make_app(store, site)) as site:
            page = device.open(site.origin)
            page.wait_for_selector("[data-state=asking]")
            device.assert_fits(page, LOW, HIGH)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": HIGH})
                no, yes = page.evaluate(
                    "['no', 'yes'].map((id) => document.getElementById(id).getBoundingClientRect().width)"
                )
                assert abs(no - yes) < 1, f"at {width} one answer seems to be the one that is wanted"
            page.goto(site.origin + "/nowhere")
            device.assert_fits(page, HIGH)
            page.context.close()


@pytest.mark.parametrize("code", languages())
def test_guidelines_and_help_fit_in_any_font_and_language(device, code, tmp_path):
    names = NAMES["long"]
    Image.new("RGB", (300, 200), "red").save(tmp_path / "a.png")
    item = image_item(tmp_path / "a.png", "a.png")
    guide = Guidelines(names[1], {name: Guideline(name * 3, (item,)) for name in names})
    with Store.open(tmp_path / "any.db", project=Project(names, name=names[0][:100]), random_state=0) as store:
        store.register([item])
        with served(lambda site: make_app(store, site, guidelines=guide, language=code)) as site:
            page = device.open(site.origin)
            page.wait_for_selector("[data-state=asking]")
            page.wait_for_selector(".zoom")
            device.assert_fits(page, LOW, HIGH)
            page.keyboard.press("?")
            device.assert_fits(page, LOW, HIGH)
            page.keyboard.press("?")
            page.keyboard.press("g")
            page.wait_for_selector(".guide-class")
            device.assert_fits(page, HIGH)
            page.context.close()


def test_the_dashboard_fits_in_any_font(device, names, tmp_path):
    project = Project(names, name=names[0][:100], repeat_share=0.3)
    with Store.open(tmp_path / "any.db", project=project, random_state=0) as store:
        store.register(text_item(f"Text {i}", f"{i}") for i in range(40))
        people, rng = [owner_of(store).id, invite_to(store, names[0][:80])[0].id], np.random.default_rng(0)
        for i in range(80):
            (question,) = store.ask(people[i % 2])
            value = ("yes", "no", "no", "skip")[rng.integers(4)]
            store.answer(Answer(f"answer-{i}", question.id, people[i % 2], value, 900))
        for n, estimate in ((100, 0.7), (1200, 0.8), (13000, 0.92)):
            store.add_training(n_answers=n, method="forward", estimate=estimate, low=estimate - 0.1, high=0.99)
        with served(lambda site: make_app(store, site), tokens=True) as site:
            page = device.open(site.invitation(store.new_link(owner_of(store).id)))
            page.wait_for_url("**/dashboard")
            page.wait_for_selector(".figure svg")
            page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
            device.assert_fits(page, HIGH)
            page.context.close()


def test_a_survey_fits_in_any_font(device, names, tmp_path):
    def question(name, n, mode=None, epsilon=None):
        options = tuple(Option(f"o{k}", f"{k} {names[k % 3]}"[:100]) for k in range(n))
        return SurveyQuestion(name, f"What about {names[n % 3]}"[:120], options, mode, epsilon)

    modes = [("a", 3), ("b", 5, "complementary"), ("c", 12, "calibrated", 1.0), ("d", 2, "randomised_response", 0.7)]
    modes.append(("e", 9, "subset", 0.5))
    survey = Survey(names[0][:120], names[1], tuple(question(*mode) for mode in modes))
    store, rng = SurveyStore(tmp_path / "survey.db", survey), np.random.default_rng(0)
    for i in range(60):
        store.add(
            f"{i:032x}", {q.id: q.stored(rng.choice(len(q.options), q.size, replace=False)) for q in survey.questions}
        )
    with served(lambda site: survey_app.make_app(survey, store, site)) as site:
        page = device.open(f"{site.origin}/s/{store.key}")
        for one in survey.questions:
            page.locator(f"#q-{one.id} [role=radio]").nth(1).click()
        device.assert_fits(page, HIGH)
        page.click("#to-review")
        page.locator("summary").click()
        device.assert_fits(page, HIGH)
        page.click("#send")
        page.wait_for_selector("#thanks:not([hidden])")
        device.assert_fits(page, HIGH)
        page.goto(f"{site.origin}/s/{store.key}/privacy")
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        device.assert_fits(page, HIGH)
        page.route("**/results/prediction/*", lambda route: route.fulfill(body="<p>Learned elsewhere.</p>"))
        page.goto(f"{site.origin}/join#{store.new_link()}")
        page.wait_for_url("**/results")
        page.wait_for_selector(".learning", state="detached")
        device.assert_fits(page, HIGH)
        page.context.close()
    store.close()
