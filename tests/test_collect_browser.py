"""The pages in a real browser: by keyboard and touch, with undo, reloads and lost networks; nothing lost or doubled."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest
from PIL import Image

from browser import DESKTOP, PATIENCE, PHONE, chromium, served
from naysayer.collect.app import make_app
from naysayer.collect.guidelines import read_guidelines
from naysayer.collect.guiding import read_guidance
from naysayer.collect.languages import languages
from naysayer.collect.people import invite_to, owner_of
from naysayer.collect.records import Answer, Project
from naysayer.collect.store import Store
from naysayer.data.items import image_item, record_item, text_item
from test_collect_guiding import answer_all, begin

CLASSES = ("cat", "dog", "owl")
KEYS = {"yes": ["ArrowRight", "y"], "no": ["ArrowLeft", "n"], "skip": [" "]}
UNSENT = "Object.keys(localStorage).filter((key) => key.startsWith('naysayer/')).length"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def store(tmp_path):
    """120 texts, each of which says what it is."""
    with Store.open(tmp_path / "answers.db", project=Project(CLASSES, name="Animals"), random_state=0) as opened:
        opened.register(text_item(f"Animal {i} is a {CLASSES[i % 3]}.", f"row {i}") for i in range(120))
        yield opened


class Tab:
    """A page under test; whatever goes wrong in it, or leaves for elsewhere, is noted."""

    def __init__(self, browser: Any, origin: str, path: str = "/", **options: Any) -> None:
        self.context = browser.new_context(**{**DESKTOP, **options})
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[Any] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.requests.append(request))
        self.origin = origin
        self.page.goto(origin + path)

    def _note(self, message: Any) -> None:
        if message.type == "error" and "net::ERR" not in message.text and "status of 401" not in message.text:
            self.errors.append(message.text)

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.context.close()
        if kind is None:
            assert self.errors == []
            assert [r.url for r in self.requests if not r.url.startswith(self.origin + "/")] == []

    def ready(self) -> None:
        self.page.wait_for_selector("[data-state=asking]")

    def asked(self) -> tuple[str, str]:
        """What the card says, and the class that is asked about."""
        self.ready()
        words = self.page.locator(".card:not(.leaving) .card-text").inner_text()
        return words, self.page.locator("#question strong").inner_text()

    def press(self, times: int = 1) -> None:
        """Answer truly by keyboard."""
        for i in range(times):
            words, name = self.asked()
            keys = KEYS["yes" if f"a {name}." in words else "no"]
            self.page.keyboard.press(keys[i % len(keys)])

    def swipe(self, x: float, y: float) -> None:
        """Swipe the card with a finger."""
        box = self.page.locator(".card:not(.leaving)").bounding_box()
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        session = self.context.new_cdp_session(self.page)
        points = [(middle[0] + x * i / 6, middle[1] + y * i / 6) for i in range(7)]
        for kind, at in [("touchStart", points[0]), *(("touchMove", p) for p in points[1:]), ("touchEnd", None)]:
            touch = [] if at is None else [{"x": at[0], "y": at[1]}]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touch})
        session.detach()

    def sent(self) -> None:
        """Wait until the server has acknowledged everything."""
        self.until(f"{UNSENT} === 0")

    def until(self, expression: str) -> None:
        """Wait until it is true; Playwright's own way to do so evaluates text in the page, which its policy forbids."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        pytest.fail(f"{expression} did not become true; the page says: {self.page.locator('main').inner_text()}")

    def unsent(self) -> int:
        return self.page.evaluate(UNSENT)


def texts(store):
    return {item.id: item.content for item in store.items()}


def assert_true_answers(store, n, skips=0):
    """The store has n answers that stand, each to its own question, and each is the truth."""
    given, said = list(store.standing()), texts(store)
    assert len(given) == n
    assert len({one.question_id for one in given}) == n
    for one in given:
        truth = "yes" if f"a {CLASSES[one.class_index]}." in said[one.item_id] else "no"
        assert one.value in (truth, "skip")
    assert sum(one.value == "skip" for one in given) == skips


def test_the_comparison_sees_a_lost_and_a_wrong_answer(store):
    me = owner_of(store)
    (question,) = store.ask(me.id)
    true = "yes" if f"a {CLASSES[question.class_index]}." in question.item.content else "no"
    with pytest.raises(AssertionError):
        assert_true_answers(store, 1)
    store.answer(Answer("a", question.id, me.id, "no" if true == "yes" else "yes"))
    with pytest.raises(AssertionError):
        assert_true_answers(store, 1)
    store.undo(me.id, "b")
    store.answer(Answer("c", question.id, me.id, true))
    assert_true_answers(store, 1)


def test_fifty_answers_by_keyboard(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.press(49)
        tab.page.keyboard.press(" ")
        tab.sent()
        assert_true_answers(store, 50, skips=1)
        assert tab.page.locator("#pace").inner_text().startswith("50 answered")
        assert all(one.took_ms is not None for one in store.standing())


def test_answers_by_touch(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **PHONE) as tab:
        for _ in range(22):  # more than are fetched at a time
            words, name = tab.asked()
            tab.swipe(*((180, 10) if f"a {name}." in words else (-180, 10)))
        tab.swipe(20, 10)  # too little to mean anything: the card springs back
        before = tab.asked()
        tab.swipe(5, -200)
        assert tab.asked() != before
        words, name = tab.asked()
        tab.page.wait_for_timeout(200)
        tab.page.get_by_role("button", name="Yes" if f"a {name}." in words else "No").tap()
        tab.sent()
        assert_true_answers(store, 24, skips=1)


def test_undo_brings_the_card_back_and_counts_once(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.press(5)
        first = tab.asked()
        tab.page.keyboard.press("n")  # perhaps wrong: it is taken back
        second = tab.asked()
        tab.page.keyboard.press("u")
        assert tab.asked() == first
        tab.press()
        assert tab.asked() == second
        for _ in range(3):
            tab.page.wait_for_timeout(200)
            tab.page.get_by_role("button", name="Undo").click()
        tab.press(3)
        tab.sent()
        assert_true_answers(store, 6)
        assert len(list(store.rows("answer"))) == 6 + 2 * 4  # taken back, not taken out
        tab.page.reload()
        tab.ready()
        tab.until("document.querySelector('#pace').textContent.startsWith('6 answered')")
        tab.page.keyboard.press("u")  # what the tab said before it was reloaded can be taken back too
        tab.until("document.querySelector('#pace').textContent.startsWith('5 answered')")
        tab.press()
        tab.sent()
        assert_true_answers(store, 6)


def test_two_tabs_take_back_what_each_said_itself(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.press(2)
        tab.sent()
        mine = [one.id for one in store.standing()]
        other = tab.context.new_page()
        other.goto(site.origin)
        other.wait_for_selector("[data-state=asking]")
        assert other.locator("#undo").is_disabled()  # it has said nothing
        other.keyboard.press("u")
        other.keyboard.press(" ")
        other.wait_for_selector("#undo:enabled")
        tab.sent()
        skipped = [one.id for one in store.standing() if one.value == "skip"]
        tab.page.keyboard.press("u")
        tab.sent()
        assert [one.id for one in store.standing()] == [mine[0], *skipped]
        other.keyboard.press("u")
        tab.sent()
        assert [one.id for one in store.standing()] == mine[:1]


def test_a_reload_in_the_middle_loses_and_repeats_nothing(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        for _ in range(5):
            tab.press(10)
            tab.page.reload()  # at once: what was just said may still be on its way
        tab.ready()
        tab.sent()
        assert_true_answers(store, 50)
        questions = len(list(store.rows("question")))
        assert questions <= 50 + 16, "a reloaded page gets back the questions that it held"


def test_without_network_answers_wait_and_then_arrive(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.press(10)
        tab.sent()
        tab.page.wait_for_load_state("networkidle")
        tab.context.set_offline(True)
        tab.press(7)
        tab.until("document.querySelector('#notice').textContent.includes('7 answers kept')")
        tab.page.keyboard.press("u")
        tab.press()
        assert tab.unsent() == 9
        assert len(list(store.standing())) == 10
        tab.context.set_offline(False)
        tab.sent()
        tab.until("document.querySelector('#notice').textContent.includes('Everything is sent')")
        assert_true_answers(store, 17)
        tab.press(33)
        tab.sent()
        assert_true_answers(store, 50)


def test_with_enough_questions_at_hand_a_network_that_returns_fetches_none(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        with tab.page.expect_response("**/api/next?n=9&*"):
            tab.press(8)  # seven wait behind the one that is shown: nine more make sixteen
        tab.sent()
        tab.page.wait_for_load_state("networkidle")
        tab.page.evaluate("dispatchEvent(new Event('online'))")
        tab.page.wait_for_load_state("networkidle")
        assert_true_answers(store, 8)


def test_the_page_does_not_call_itself_offline_once_questions_come_again(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        tab.page.wait_for_load_state("networkidle")
        for path in ("next?*", "progress"):
            tab.page.route(f"**/api/{path}", lambda route: route.abort())
        tab.press(9)
        tab.sent()
        tab.until("document.querySelector('#notice').textContent.startsWith('Offline')")
        tab.page.unroute("**/api/next?*")
        tab.page.evaluate("dispatchEvent(new Event('online'))")
        tab.until("!document.querySelector('#notice').textContent.startsWith('Offline')")


def test_without_network_and_out_of_questions_the_page_waits_and_goes_on(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        tab.page.wait_for_load_state("networkidle")
        tab.context.set_offline(True)
        tab.press(16)
        tab.page.wait_for_selector("[data-state=waiting]")
        assert tab.page.get_by_role("button", name="Yes").is_disabled()
        tab.page.keyboard.press("y")  # says nothing: there is no question
        tab.context.set_offline(False)
        tab.press(4)
        tab.sent()
        assert_true_answers(store, 20)


def test_what_was_not_sent_outlives_a_reload(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        tab.page.route("**/api/answers", lambda route: route.abort())
        tab.press(5)
        tab.page.reload()
        tab.press(3)
        assert tab.unsent() == 8
        assert list(store.standing()) == []
        tab.page.unroute("**/api/answers")
        tab.sent()
        assert_true_answers(store, 8)


def test_a_lost_acknowledgement_doubles_nothing(browser, store):
    lost = []

    def swallow(route):
        if len(lost) < 3:
            lost.append(route.fetch())  # the server has it; the page never hears so
            route.abort()
        else:
            route.continue_()

    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.page.route(re.compile("/api/(answers|undo)"), swallow)
        tab.press(4)
        tab.page.keyboard.press("u")
        tab.press(2)
        tab.sent()
        assert len(lost) == 3
        assert_true_answers(store, 5)


def test_a_server_that_comes_back_gets_what_was_said_meanwhile(browser, store):
    with served(lambda site: make_app(store, site)) as site:
        tab = Tab(browser, site.origin)
        tab.press(3)
        tab.sent()
        tab.page.wait_for_load_state("networkidle")
    with tab:
        tab.press(4)
        with served(lambda site: make_app(store, site), port=site.port):
            tab.press(3)
            tab.sent()
            assert_true_answers(store, 10)


def test_no_answer_is_dropped_because_of_what_a_proxy_says(browser, store):
    said = [(404, "<h1>Not found</h1>"), (421, '{"error": "this server answers to another address only"}'), (422, "no")]

    def refuse(route):
        if len(told) < len(said):
            told.append(said[len(told)])
            route.fulfill(status=told[-1][0], body=told[-1][1])
        else:
            route.continue_()

    told: list[tuple[int, str]] = []
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.page.route(re.compile("/api/(answers|undo)"), refuse)
        tab.press(3)
        tab.page.keyboard.press("u")
        tab.press()
        tab.sent()
        assert told == said
        assert_true_answers(store, 3)
        assert all("status of 4" in error for error in tab.errors)
        tab.errors.clear()


def test_of_many_answers_only_the_one_that_cannot_be_taken_is_dropped(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        tab.page.route("**/api/answers", lambda route: route.abort())
        tab.press(7)
        fifth = "Object.keys(localStorage).filter((key) => key.startsWith('naysayer/')).sort()[4]"
        tab.page.evaluate(
            f'localStorage[{fifth}] = localStorage[{fifth}].replace(/"value":"\\w+/, \'"value":"perhaps\')'
        )
        tab.page.unroute("**/api/answers")
        tab.sent()
        assert_true_answers(store, 6)
        assert all("status of 422" in error for error in tab.errors)
        tab.errors.clear()


def test_a_button_keeps_the_focus_while_the_next_question_is_on_its_way(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        tab.page.wait_for_load_state("networkidle")
        tab.page.route("**/api/next?*", lambda route: route.abort())
        tab.page.locator("#skip").focus()
        while tab.page.evaluate("document.querySelector('#ask').dataset.state") == "asking":
            tab.page.keyboard.press("Enter")
        tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        tab.page.unroute("**/api/next?*")
        tab.page.evaluate("dispatchEvent(new Event('online'))")
        tab.ready()
        assert tab.page.evaluate("document.activeElement.id") == "skip"


def test_when_all_is_decided_the_page_says_so(browser, tmp_path):
    with Store.open(tmp_path / "few.db", project=Project(CLASSES, repeat_share=0.0)) as store:
        store.register(text_item(f"Number {i} is a {CLASSES[i]}.", f"{i}") for i in range(3))
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
            while store.progress().closed < 3:
                tab.press()
                tab.sent()
                tab.page.wait_for_selector("[data-state=asking], [data-state=done]")
            tab.page.wait_for_selector("[data-state=done]")
            assert "thank you" in tab.page.locator(".card.resting").inner_text()
            tab.page.keyboard.press("u")
            tab.press()
            tab.page.wait_for_selector("[data-state=done]")
            assert_true_answers(store, len(list(store.standing())))


EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'


def test_what_people_wrote_is_shown_as_text(browser, tmp_path):
    project = Project((f"cat{EVIL}", "'; DROP TABLE answer; --"), name=f"Name {EVIL}")
    with Store.open(tmp_path / "evil.db", project=project) as store:
        store.register([text_item(EVIL, EVIL), record_item({EVIL: EVIL, "n": 1.5}, EVIL)])
        store.add_annotator(f"Eve {EVIL}")
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
            for _ in range(2):
                tab.ready()
                assert EVIL in tab.page.locator(".card:not(.leaving)").inner_text()
                tab.page.keyboard.press("n")
            tab.sent()
            tab.page.goto(site.origin + "/dashboard")
            tab.page.wait_for_selector(".figure svg")
            assert tab.page.evaluate("window.pwned") is None
            assert tab.page.locator("img, script:not([src])").count() == 0
            assert len(list(store.standing())) == 2


def test_pictures_come_before_they_are_needed(browser, tmp_path):
    for i in range(12):
        Image.new("RGB", (200, 150), (20 * i, 100, 100)).save(tmp_path / f"{i}.png")
    with Store.open(tmp_path / "pictures.db", project=Project(CLASSES)) as store:
        store.register(image_item(tmp_path / f"{i}.png", f"secret-cat-{i}.png") for i in range(12))
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
            tab.ready()
            come = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/media/'))"
            tab.until(f"{come}.length === 12 && {come}.every((one) => one.responseEnd > 0)")
            for _ in range(5):
                assert tab.page.evaluate("document.querySelector('.card:not(.leaving) img').complete")
                tab.page.keyboard.press("n")
            assert sum("/media/" in request.url for request in tab.requests) == 12
            assert "secret" not in tab.page.content()  # a file's name may give the class away
            (tmp_path / "0.png").unlink()


def test_undo_after_a_reload_brings_the_picture_back(browser, tmp_path):
    for i in range(3):
        Image.new("RGB", (200, 150), (80 * i, 100, 100)).save(tmp_path / f"{i}.png")
    with Store.open(tmp_path / "pictures.db", project=Project(CLASSES)) as store:
        store.register(image_item(tmp_path / f"{i}.png", f"{i}.png") for i in range(3))
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
            shown = tab.page.locator(".card:not(.leaving) img")
            tab.ready()
            before = shown.get_attribute("src")
            tab.page.keyboard.press("n")
            tab.sent()
            tab.page.reload()
            tab.ready()
            tab.page.keyboard.press("u")
            tab.page.wait_for_selector(".returning")
            assert shown.get_attribute("src") == before
            assert tab.page.evaluate("document.querySelector('.returning img').decode().then(() => true)")


def test_a_picture_that_did_not_come_is_asked_for_again(browser, tmp_path):
    for i in range(3):
        Image.new("RGB", (200, 150), (80 * i, 100, 100)).save(tmp_path / f"{i}.png")
    refused: list[str] = []

    def refuse(route):
        refused.append(route.request.url)
        if len(refused) % 2:
            route.fulfill(status=404, body="<h1>The proxy finds no server.</h1>", content_type="text/html")
        else:
            route.abort()

    with Store.open(tmp_path / "pictures.db", project=Project(CLASSES)) as store:
        store.register(image_item(tmp_path / f"{i}.png", f"{i}.png") for i in range(3))
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/") as tab:
            tab.page.route("**/media/**", refuse)
            tab.page.reload()
            tab.ready()
            shown = "document.querySelector('.card:not(.leaving) img').naturalWidth"
            while len(refused) < 6:  # each is asked for, and then why it did not come
                tab.page.wait_for_timeout(20)
            assert tab.page.locator(".card-failed").count() == 0
            assert tab.page.evaluate(shown) == 0
            tab.page.unroute("**/media/**")
            tab.page.evaluate("dispatchEvent(new Event('online'))")
            tab.until(f"{shown} === 200")
            tab.until("document.querySelector('.card:not(.leaving)').classList.contains('pictured')")
            tab.page.keyboard.press("n")
            tab.until(f"{shown} === 200")
            assert all("status of 404" in error for error in tab.errors)
            tab.errors.clear()


def test_a_picture_that_was_exchanged_is_said_to_be_gone(browser, tmp_path):
    Image.new("RGB", (200, 150)).save(tmp_path / "gone.png")
    with Store.open(tmp_path / "pictures.db", project=Project(CLASSES)) as store:
        store.register([image_item(tmp_path / "gone.png", "gone.png")])
        Image.new("RGB", (200, 150), "red").save(tmp_path / "gone.png")
        with served(lambda site: make_app(store, site)) as site:
            tab = Tab(browser, site.origin)
            tab.page.wait_for_selector(".card-failed")
            assert tab.page.get_by_role("button", name="Can’t tell").is_enabled()  # the way on
            tab.context.close()


@pytest.fixture
def large(tmp_path):
    """Two photos larger than any page, and guidelines."""
    for i, name in enumerate(("a", "b")):
        Image.new("RGB", (3000, 2000), (100 * i, 100, 100)).save(tmp_path / f"{name}.jpg")
    told = "text = 'Look twice.'\n[classes.cat]\ntext = 'It purrs.'\nexamples = ['a.jpg']\n[classes.owl]\n"
    (tmp_path / "guide.toml").write_text(told)
    with Store.open(tmp_path / "large.db", project=Project(CLASSES), random_state=0) as store:
        store.register(image_item(tmp_path / f"{name}.jpg", name) for name in ("a", "b"))
        yield store, read_guidelines(tmp_path / "guide.toml", CLASSES)


SCALE = "new DOMMatrix(getComputedStyle(document.querySelector('.card:not(.leaving) img')).transform).a"
LEFT = "new DOMMatrix(getComputedStyle(document.querySelector('.card:not(.leaving) img')).transform).e"
WIDTH = "document.querySelector('.card:not(.leaving) img').naturalWidth"


def test_a_photo_comes_small_and_sharp_when_looked_at_closely(browser, large):
    store, _ = large
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        tab.until(f"{WIDTH} === 1280")
        assert not [r.url for r in tab.requests if "size=full" in r.url]
        box = tab.page.locator(".card:not(.leaving)").bounding_box()
        tab.page.mouse.move(box["x"] + 20, box["y"] + 20)
        tab.page.mouse.wheel(0, -400)
        tab.until(f"{SCALE} > 2 && {LEFT} > 0")  # what lies under the pointer stays there
        tab.until(f"{WIDTH} === 3000")
        left = tab.page.evaluate(LEFT)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + 20 - 200, box["y"] + 20, steps=3)
        tab.page.mouse.up()
        assert tab.page.evaluate(LEFT) < left, "dragging moves the picture"
        before = tab.page.evaluate(LEFT)
        tab.page.keyboard.press("Shift+ArrowRight")
        assert tab.page.evaluate(LEFT) == pytest.approx(before - 80)
        tab.page.keyboard.press("0")
        assert tab.page.evaluate(SCALE) == 1
        tab.page.keyboard.press("+")
        assert tab.page.evaluate(SCALE) == 1.5
        tab.page.keyboard.press("-")
        assert tab.page.evaluate(SCALE) == 1
        tab.page.get_by_role("button", name="Look closer").click()
        assert tab.page.evaluate(SCALE) == 3
        tab.page.get_by_role("button", name="Show all of it").click()
        assert tab.page.evaluate(SCALE) == 1
        assert list(store.standing()) == [], "looking is no answer"
        tab.page.keyboard.press("+")
        tab.page.keyboard.press("n")
        tab.page.wait_for_selector(".card:not(.leaving):not(.zoomed) .zoom")
        tab.sent()
        assert len(list(store.standing())) == 1


def test_two_fingers_zoom_and_one_then_moves_the_picture(browser, large):
    store, _ = large
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **PHONE) as tab:
        tab.ready()
        tab.page.wait_for_selector(".zoom")
        box = tab.page.locator(".card").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        session = tab.context.new_cdp_session(tab.page)

        def touch(kind, *points):
            points = [{"x": x + dx, "y": y, "id": i} for i, dx in enumerate(points)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", -20)
        touch("touchMove", -25)  # the first finger comes a little earlier: the card must not leave with it
        touch("touchStart", -25, 25)
        for wide in (40, 60, 80):
            touch("touchMove", -wide, wide)
        touch("touchEnd")
        tab.until(f"{SCALE} > 2.5")
        tab.swipe(-180, 0)
        assert list(store.standing()) == []
        assert tab.page.evaluate(LEFT) < -100
        assert tab.page.locator(".zoomed").count() == 1
        session.detach()


def test_words_can_be_selected_and_fingers_still_swipe(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
        words, _ = tab.asked()
        box = tab.page.locator(".card:not(.leaving) p").bounding_box()
        tab.page.mouse.move(box["x"] + 1, box["y"] + box["height"] / 2)
        tab.page.mouse.down()
        tab.page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2, steps=5)
        tab.page.mouse.up()
        chosen = tab.page.evaluate("getSelection().toString()")
        assert len(chosen) > 10
        assert chosen in words
        assert list(store.standing()) == []


# What a phone's browser does when a finger rests on a word; chromium on a desktop does not.
SELECT = """() => {
  const text = document.querySelector(".card:not(.leaving) p").firstChild;
  getSelection().setBaseAndExtent(text, 0, text, text.textContent.indexOf(" "));
}"""


def test_a_resting_finger_selects_words_and_then_swipes_again(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **PHONE) as tab:
        words, name = tab.asked()
        paragraph = tab.page.locator(".card:not(.leaving) p")
        assert paragraph.evaluate("(p) => getComputedStyle(p).userSelect") == "text"
        box = paragraph.bounding_box()
        session = tab.context.new_cdp_session(tab.page)

        def touch(kind, *xs):
            points = [{"x": x, "y": box["y"] + box["height"] / 2} for x in xs]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        x = box["x"] + box["width"] / 2
        touch("touchStart", x)
        tab.page.evaluate(SELECT)
        for dx in (40, 80, 120, 160):
            touch("touchMove", x + dx)  # to select more the finger may go as far as a swipe would
        touch("touchEnd")
        session.detach()
        assert tab.page.evaluate("getSelection().toString()") == "Animal"
        assert tab.asked() == (words, name)
        card = tab.page.locator(".card:not(.leaving)")
        assert card.evaluate("(card) => card.style.transform") == "", "it stays where it was"
        assert list(store.standing()) == [], "selecting is no answer"
        tab.page.evaluate("getSelection().removeAllRanges()")
        tab.swipe(*((180, 10) if f"a {name}." in words else (-180, 10)))
        tab.sent()
        assert_true_answers(store, 1)


def test_keys_are_shown_and_can_be_turned_off(browser, large):
    store, guidelines = large
    make = partial(make_app, store, guidelines=guidelines)
    with served(make) as site, Tab(browser, site.origin) as tab:
        tab.ready()
        page = tab.page
        page.keyboard.press("?")
        assert page.get_by_role("dialog", name="How to answer").is_visible()
        page.keyboard.press("n")  # answers nothing while the list is open
        page.get_by_label("Keys answer").uncheck()
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 0
        for key in ("n", "ArrowLeft", " ", "?", "g", "+"):
            page.keyboard.press(key)
        assert page.locator("dialog[open]").count() == 0
        assert page.locator("#no kbd").is_hidden()
        assert page.locator("#no").get_attribute("aria-keyshortcuts") is None
        page.reload()
        tab.ready()
        page.keyboard.press("n")
        page.get_by_role("button", name="How to answer").click()
        page.get_by_label("Keys answer").check()
        page.get_by_role("button", name="Close", exact=True).click()
        assert list(store.standing()) == []
        page.keyboard.press("n")
        tab.sent()
        assert len(list(store.standing())) == 1


@pytest.mark.parametrize("device", [DESKTOP, PHONE])
def test_guidelines_are_one_key_away(browser, large, device):
    store, guidelines = large
    make = partial(make_app, store, guidelines=guidelines)
    with served(make) as site, Tab(browser, site.origin, **device) as tab:
        tab.ready()
        if device is PHONE:
            tab.page.get_by_role("button", name="Guidelines").tap()
        else:
            tab.page.keyboard.press("g")
        sheet = tab.page.get_by_role("dialog", name="Guidelines")
        sheet.get_by_text("Look twice.").wait_for()
        name = tab.page.locator("#question strong").inner_text()
        assert sheet.locator("section").first.inner_text().startswith(name)  # the class that is asked about
        assert ("There are no guidelines" in sheet.inner_text()) == (name == "dog")
        picture = sheet.get_by_role("img", name="Example of cat")
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 640
        tab.page.keyboard.press("g")
        assert sheet.count() == 0
        assert list(store.standing()) == []


def test_on_a_slow_network_guidelines_are_of_the_class_that_is_asked_about(browser, large):
    store, guidelines = large
    make = partial(make_app, store, guidelines=guidelines)
    with served(make) as site, Tab(browser, site.origin) as tab:
        held = []
        tab.ready()
        tab.page.route("**/api/guidelines", lambda route: held.append(route))
        tab.page.keyboard.press("g")
        sheet = tab.page.get_by_role("dialog", name="Guidelines")
        sheet.get_by_text("One moment").wait_for()
        tab.page.keyboard.press("g")
        before = tab.page.locator("#question strong").inner_text()
        while (name := tab.page.locator("#question strong").inner_text()) == before:
            tab.page.keyboard.press(" ")
        tab.page.keyboard.press("g")
        for late in reversed(held):
            late.fulfill(json={"text": "", "classes": []})
            sheet.locator("section.now").wait_for()
        tab.page.wait_for_load_state("networkidle")
        assert sheet.locator("section.now").inner_text().startswith(name)


def test_two_devices_of_one_person_get_different_questions(browser, store):
    with served(lambda site: make_app(store, site), tokens=True) as site:
        ann, token = invite_to(store, "Ann")
        desk, phone = (Tab(browser, site.origin, "/join#" + each) for each in (token, store.new_link(ann.id)))
        with desk, phone:
            for _ in range(6):
                assert desk.asked()[0] != phone.asked()[0]
                desk.press()
                phone.press()
            held = desk.asked()
            desk.sent()
            phone.sent()
            desk.page.reload()
            assert desk.asked() == held
            assert_true_answers(store, 12)


@pytest.mark.parametrize(
    ("locale", "code", "pace"), [("de-DE", "de", "1 beantwortet"), ("ja-JP", "ja", "1 件回答済み")], ids=["de", "ja"]
)
def test_the_page_speaks_the_language_of_the_browser(browser, store, locale, code, pace):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, locale=locale) as tab:
        tab.ready()
        assert tab.page.locator("html").get_attribute("lang") == code
        before, after = languages()[code]["question"].split("{}")
        _, name = tab.asked()
        assert tab.page.locator("#question").inner_text() == f"{before}{name}{after}"
        tab.page.keyboard.press("?")
        english, theirs = (languages()[each] for each in ("en", code))
        shown = tab.page.content().split("data-words=")[0] + tab.page.locator("body").inner_text()
        for key, text in english.items():
            if isinstance(text, str) and len(text) > 4 and theirs[key] != text:
                assert f">{text}<" not in shown, key
        tab.page.keyboard.press("Escape")
        words, name = tab.asked()
        tab.page.keyboard.press(theirs["key_yes" if f"a {name}." in words else "key_no"])
        tab.sent()
        assert_true_answers(store, 1)
        tab.until(f"document.querySelector('#pace').textContent === '{pace}'")
        words, name = tab.asked()
        tab.page.wait_for_timeout(200)  # a second click at once would be a double click
        tab.page.get_by_role("button", name=theirs["yes" if f"a {name}." in words else "no"], exact=True).click()
        tab.sent()
        assert_true_answers(store, 2)


def test_for_those_who_do_not_see_or_do_not_want_motion(browser, store):
    options = {"reduced_motion": "reduce"}
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **options) as tab:
        _, name = tab.asked()
        page = tab.page
        page.get_by_role("group", name=f"Is this an {name}?" if name == "owl" else f"Is this a {name}?").wait_for()
        assert page.locator("#question").get_attribute("aria-live") == "polite"
        order = []
        for _ in range(6):
            page.keyboard.press("Tab")
            order.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        assert order[3:] == ["no", "skip", "yes"], order
        page.locator("#yes").focus()
        before = tab.asked()
        page.keyboard.press(" ")  # on a focused button the space bar is that button's
        assert tab.asked() != before
        tab.sent()
        assert Counter(one.value for one in store.standing()) == {"yes": 1}
        assert page.locator(".leaving").count() == 0


@pytest.mark.parametrize("size", [(320, 256), (427, 267), (640, 360), (320, 568)])  # a desktop enlarged; a small phone
@pytest.mark.parametrize("name", ["cat", "w" * 200])
def test_enlarged_and_with_long_names_every_button_can_be_reached(browser, tmp_path, size, name):
    with Store.open(tmp_path / "long.db", project=Project((name, name[:-1] + "x"))) as store:
        store.register(text_item(f"Animal {i}.", f"row {i}") for i in range(2))
        options = {"viewport": dict(zip(("width", "height"), size, strict=True))}
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **options) as tab:
            tab.ready()
            page = tab.page
            words = page.locator("#question").evaluate("(h) => [h.scrollHeight, h.clientHeight]")
            assert words[0] <= words[1] + 4  # the question lies over no button
            page.mouse.move(size[0] - 30, size[1] - 30)
            page.mouse.wheel(0, 3000)
            box = "document.getElementById('undo').getBoundingClientRect()"
            tab.until(f"{box}.top >= 0 && {box}.bottom <= innerHeight")
            for part in ("no", "skip", "yes"):
                button = page.locator(f"#{part}")
                left, right = button.evaluate(
                    "(b) => [b.getBoundingClientRect().left, b.getBoundingClientRect().right]"
                )
                assert 0 <= left <= right <= size[0]
                inside = button.evaluate("(b) => b.scrollWidth <= b.clientWidth && b.scrollHeight <= b.clientHeight")
                assert inside, f"the words of {part} do not fit it"


def test_writing_from_right_to_left_and_wide_records(browser, tmp_path):
    with Store.open(tmp_path / "rtl.db", project=Project(("\u0642\u0637\u0629", "dog"), answers_per_item=1)) as store:
        store.register(
            [
                text_item("\u0647\u0630\u0627 \u0646\u0635.", "1"),
                record_item({"a long name " * 30: "y " * 99, "b": 1}, "2"),
            ]
        )
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **PHONE) as tab:
            for _ in range(2):
                tab.ready()
                text = tab.page.locator(".card:not(.leaving) .card-text p")
                if text.count():
                    assert text.evaluate("(p) => getComputedStyle(p).direction") == "rtl"
                    assert tab.page.locator("#stage").get_attribute("aria-live") == "polite"
                else:
                    assert tab.page.locator(".card:not(.leaving) dd").first.bounding_box()["width"] > 120
                tab.page.keyboard.press("n")


def test_without_motion_nothing_flickers(browser, store):
    options = {"reduced_motion": "reduce"}
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **options) as tab:
        tab.ready()
        tab.page.evaluate("document.getElementById('stage').classList.add('skeleton')")
        assert tab.page.locator("#stage").evaluate("(e) => getComputedStyle(e).animationIterationCount") == "1"


def test_one_clear_target_for_every_thumb(browser, store):
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, **PHONE) as tab:
        tab.ready()
        for name in ("No", "Can’t tell", "Yes", "Undo"):
            box = tab.page.get_by_role("button", name=name).bounding_box()
            assert box["height"] >= 44, name
            assert box["width"] >= 44, name
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.page.evaluate("document.documentElement.scrollHeight <= innerHeight")


def test_a_link_lets_in_and_its_end_shuts_out(browser, store):
    with served(lambda site: make_app(store, site), tokens=True) as site:
        person, token = invite_to(store, "Ann")
        with Tab(browser, site.origin) as tab:
            assert "open your link" in tab.page.locator("h1").inner_text().lower()
            tab.page.goto(site.origin + "/join#wrong")
            tab.page.get_by_text("This link does not work").wait_for()
            tab.page.goto("about:blank")
            tab.page.goto(site.invitation(token))
            tab.press(3)
            tab.sent()
            assert token not in tab.page.url
            (cookie,) = tab.context.cookies()
            assert cookie["httpOnly"]
            assert cookie["sameSite"] == "Strict"
            assert tab.page.evaluate("document.cookie") == ""
            assert token not in cookie["value"]
            assert {one.annotator for one in store.standing()} == {person.id}
            tab.page.goto(site.invitation(token))  # from the history: in the same browser it leads back
            tab.ready()
            with Tab(browser, site.origin, "/join#" + token) as next_pupil:
                next_pupil.page.get_by_text("A link opens once, in one browser").wait_for()
                next_pupil.errors.clear()  # the browser notes the refusal
            tab.requests.clear()
            store.revoke(person.id)
            tab.press()
            tab.page.wait_for_selector("[data-state=ended]")
            assert tab.unsent() == 1  # kept, in case the link is renewed
            tab.page.goto("about:blank")
            tab.page.goto(site.invitation(store.new_link(person.id)))
            tab.ready()
            tab.sent()
            assert_true_answers(store, 4)
            tab.requests.clear()


def test_the_owner_sees_figures_and_invites(browser, store):
    with served(lambda site: make_app(store, site), tokens=True) as site:
        token = store.new_link(owner_of(store).id)
        with Tab(browser, site.origin, "/join#" + token) as tab:
            tab.page.wait_for_selector(".figure")
            tab.page.get_by_label("Name").fill("Ben")
            tab.page.get_by_role("button", name="Make a link").click()
            made = tab.page.locator("#new-links li", has_text="For Ben")
            link = made.locator("code").inner_text()
            tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
            made.get_by_role("button", name="Copy the link for Ben").click()
            made.get_by_text("Copied").wait_for()
            assert tab.page.evaluate("navigator.clipboard.readText()") == link
            with Tab(browser, site.origin, link.removeprefix(site.origin)) as other:
                other.press(12)
                other.sent()
                other.page.goto(site.origin + "/dashboard")
                assert "Only the owner" in other.page.locator("main").inner_text()
                other.errors.clear()  # the browser notes the refusal
            tab.until("document.querySelector('.tile b').textContent === '12'")
            end = tab.page.get_by_role("button", name="End the link of Ben")
            for answer in ("Cancel", "End link"):
                assert next(one for one in store.annotators() if one.name == "Ben").revoked is None
                end.click()
                tab.page.get_by_role("dialog").get_by_role("button", name=answer).click()
            tab.page.get_by_text("Ben (ended)").wait_for()
            assert store.admit(link.partition("#")[2]) is None


# The card as it is made, without what moves it, and the question around the name of the class.
LOOKS = """() => {
  const card = document.querySelector(".card:not(.leaving)").cloneNode(true);
  for (const one of [card, ...card.querySelectorAll("*")]) one.removeAttribute("style");
  card.classList.remove("entering", "springing", "returning");
  const question = document.querySelector("#question").cloneNode(true);
  question.querySelector("strong").textContent = "";
  return (question.outerHTML + card.outerHTML).replace(/\\d+/g, "#");
}"""


def test_guided_questions_look_as_random_ones_do(browser, tmp_path):
    """Whoever answers sees nothing of what the model thinks: not on the page, nor in what it is sent."""
    store, truth = begin(tmp_path / "guided.db", n=60)
    names, questions, looks = store.project.classes, [], []

    def note(route):
        """Read what is sent on its way: the browser keeps it for a while only."""
        reply = route.fetch()
        questions.extend(reply.json()["questions"])
        route.fulfill(response=reply)

    classes = {item.content["height"]: names[truth[item.id]] for item in store.items()}
    with store:
        assert store.guide() is not None
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin) as tab:
            tab.page.route("**/api/next*", note)
            tab.page.reload()
            for _ in range(24):
                tab.ready()
                looks.append(tab.page.evaluate(LOOKS))
                height = tab.page.locator(".card:not(.leaving) dd").inner_text()
                name = tab.page.locator("#question strong").inner_text()
                tab.page.keyboard.press("y" if classes[int(height)] == name else "n")
            tab.sent()
        given = list(store.standing())
        assert len(given) == 24
        assert all((one.value == "yes") == (truth[one.item_id] == one.class_index) for one in given)
        guided = [read_guidance(one.guidance) for one in given if one.guidance]
        assert sum(not how.by_chance for how in guided) > 12, "most were suggested"
        assert set(looks) == {looks[0]}
        assert len(questions) >= 24
        for question in questions:
            assert question.keys() == {"id", "before", "class", "after", "item"}
            assert question["item"].keys() == {"kind", "fields"}
            assert [name for name, _ in question["item"]["fields"]] == ["height"]


def test_the_owner_sees_what_guided_answers_tell(browser, tmp_path):
    store, truth = begin(tmp_path / "guided.db", n=150, questions="random")
    with store:
        answer_all(store, truth, most=150)
        store.configure(questions="guided")
        store.guide()
        answer_all(store, truth, most=80)
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/dashboard") as tab:
            figure = tab.page.locator("figure", has=tab.page.get_by_role("heading", name="Guided questions"))
            figure.locator("svg").wait_for()
            assert "would be right" in figure.inner_text()
            assert "answered as random ones are" not in figure.inner_text()  # few answers prove no such thing
            assert figure.locator("tbody tr").count() == 4  # three classes, and all of them


def test_the_owner_gets_a_verdict_and_nothing_impossible_after_four_answers(browser, tmp_path):
    with Store.open(tmp_path / "few.db", project=Project(CLASSES, repeat_share=0.0), random_state=0) as store:
        store.register(text_item(f"Animal {i}.", f"row {i}") for i in range(4))
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/dashboard") as tab:
            verdict = tab.page.locator("#verdict")
            verdict.get_by_text("Nothing yet: nobody has answered about the 4 items.").wait_for()
            assert [one.lower() for one in verdict.locator("h2").all_inner_texts()] == [
                "what is known",
                "what is wrong",
                "what to do next",
            ]
            me = owner_of(store).id
            for i, said in enumerate(("yes", "no", "no", "yes")):
                (question,) = store.ask(me)
                store.answer(Answer(f"a{i}", question.id, me, said))
            verdict.get_by_text("2 of 4 items are settled, by 4 answers.").wait_for()
            words = tab.page.locator("main").inner_text()
            assert "Too few answers: after 4, a class may be anything" in words
            assert [float(each) for each in re.findall(r"(-?[\d.]+)%", words) if not 0 <= float(each) <= 100] == []
            more = tab.page.locator("figure", has_text="How many more")
            assert "At most 2 more answers can be given about these items" in more.inner_text()
            assert "more items would give a model’s accuracy" in more.inner_text()
            for i, said in enumerate(("no", "no")):
                (question,) = store.ask(me)
                store.answer(Answer(f"b{i}", question.id, me, said))
            verdict.get_by_text("All that can be asked was asked.").wait_for()
            settled = store.decided()  # by elimination an item may still be doubtful
            told = "All 4" if settled == 4 else f"{settled} of 4"
            verdict.get_by_text(f"{told} items are settled, by 6 answers.").wait_for()  # figures are made now and then
            assert verdict.get_by_role("button", name="Copy naysayer labels").count() == 1


def test_the_owner_looks_through_the_items_and_removes_one(browser, store):
    me = owner_of(store).id
    for i in range(3):
        (question,) = store.ask(me)
        store.answer(Answer(f"a{i}", question.id, me, "yes" if i else "skip"))
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/items") as tab:
        tab.page.get_by_text("1 to 20 of 120 items").wait_for()
        tab.page.get_by_role("button", name="Later").click()
        tab.page.get_by_text("21 to 40 of 120 items").wait_for()
        tab.page.get_by_label("Person").select_option("owner")
        tab.page.get_by_text("3 items", exact=True).wait_for()
        tab.page.get_by_label("State").select_option("closed")
        tab.page.get_by_text("2 items", exact=True).wait_for()
        first = tab.page.locator(".item").first
        assert "closed: " in first.inner_text()
        assert "? Yes" in first.inner_text()
        name = first.locator("h2").inner_text()
        first.get_by_role("button", name="Remove").click()
        tab.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        assert store.n_items() == 120
        first.get_by_role("button", name="Remove").click()
        assert "The item and its answer are deleted from" in tab.page.get_by_role("dialog").inner_text()
        tab.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        tab.page.get_by_text(f"Removed {name} and 1 answer.").wait_for()
        assert (store.n_items(), store.progress().answers) == (119, 2)
        assert tab.page.evaluate("document.activeElement.id") == "range"  # the button that was pressed is gone
        tab.page.get_by_label("Name").fill(name)
        tab.page.get_by_label("State").select_option("")
        tab.page.get_by_label("Person").select_option("")
        tab.until(f"[...document.querySelectorAll('.item h2')].every((one) => one.textContent !== {json.dumps(name)})")


def test_no_line_of_the_grid_crosses_the_word_guessing(browser, tmp_path):
    with Store.open(tmp_path / "trained.db", project=Project(("a", "b", "c", "d", "e"))) as store:
        for n, estimate in ((100, 0.77), (200, 0.9), (300, 0.92)):  # 25% lies just above one in five
            store.add_training(n_answers=n, method="forward", estimate=estimate, low=estimate - 0.1, high=0.99)
        with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/dashboard") as tab:
            word = tab.page.locator(".plot text", has_text="guessing").bounding_box()
            lines = tab.page.locator("figure:has(.ribbon) .grid").evaluate_all(
                "(all) => all.map((line) => line.getBoundingClientRect().top)"
            )
            assert len(lines) >= 3
            assert [y for y in lines if word["y"] <= y <= word["y"] + word["height"]] == []


def test_a_page_elsewhere_that_links_here_gets_people_in(browser, store):
    """Their cookie is held back on the way from another site; the page loads once more from here, with it."""
    with served(lambda site: make_app(store, site), tokens=True) as site:
        _, token = invite_to(store, "Ann")
        tab = Tab(browser, site.origin, "/join#" + token)
        tab.ready()
        elsewhere = f"http://localhost:{site.port + 1}/"
        body = f'<a id="go" href="{site.origin}/">here</a>'
        tab.context.route(elsewhere, lambda route: route.fulfill(body=body, content_type="text/html"))
        tab.page.goto(elsewhere)
        tab.page.click("#go")
        tab.ready()
        assert json.loads(tab.page.evaluate("fetch('/api/progress').then((r) => r.text())"))["items"] == 120
        tab.context.close()
