"""The survey in a real browser: the true choice leaves it nowhere, the draw is Q, and nothing is lost or sent twice."""

from __future__ import annotations

import json

import numpy as np
import pytest

from browser import CONTRAST, DESKTOP, PHONE, chromium, served
from helpers import assert_frequencies
from naysayer.survey.app import make_app
from naysayer.survey.questions import Option, Survey, SurveyQuestion
from naysayer.survey.store import SurveyStore


def marked(name, n, mode=None, epsilon=None):
    """A question whose options have names and words that occur nowhere else."""
    options = tuple(Option(f"id-{name}{k}-zq", f"Words {name}{k} qz") for k in range(n))
    return SurveyQuestion(name, f"What about {name}?", options, mode, epsilon)


SURVEY = Survey(
    "A survey of marks",
    "Words.",
    (
        marked("public", 3),
        marked("complement", 5, "complementary"),
        marked("calibrated", 3, "calibrated", 1.0),
        marked("response", 2, "randomised_response", 1.0),
        marked("subset", 6, "subset", 0.5),
    ),
)
PRIVATE = [question for question in SURVEY.questions if question.private]


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def store(tmp_path):
    store = SurveyStore(tmp_path / "survey.db", SURVEY)
    yield store
    store.close()


@pytest.fixture
def address(store):
    with served(lambda site: make_app(SURVEY, store, site)) as site:
        yield f"{site.origin}/s/{store.key}"


class Visit:
    """A respondent's visit, with every request that the browser made written down whole."""

    def __init__(self, browser, address, **options):
        self.context = browser.new_context(**options)
        self.requests = []
        self.context.on("request", lambda request: self.requests.append(request))
        self.page = self.context.new_page()
        self.faults = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("#ask:not([hidden])")

    def options(self, question):
        return self.page.locator(f"#q-{question.id} [role=radio]")

    def choose(self, question, k):
        self.options(question).nth(k).click()

    def drawn(self, question):
        """What the page says it will store, as the places of options."""
        says, _, texts = self.page.locator(f"#q-{question.id} .stored b").inner_text().partition(" ")
        assert says == question.says
        names = [option.text for option in question.options]
        return tuple(names.index(text) for text in texts.strip("“”").split("”, “"))

    def review(self):
        self.page.click("#to-review")
        return json.loads(self.page.locator("#bytes").text_content())

    def send(self):
        self.page.click("#send")
        self.page.wait_for_selector("#thanks:not([hidden])")

    def sent(self):
        """All requests as text: address, headers, body."""
        return [
            "\n".join([r.method, r.url, *(f"{k}: {v}" for k, v in r.all_headers().items()), r.post_data or ""])
            for r in self.requests
        ]

    def bodies(self):
        return [json.loads(r.post_data) for r in self.requests if r.method == "POST"]

    def kept(self):
        """All that the browser keeps of the visit, as text."""
        return json.dumps(
            self.page.evaluate(
                """async () => ({
                  local: { ...localStorage }, session: { ...sessionStorage }, cookies: document.cookie,
                  address: location.href, state: history.state, name: window.name, title: document.title,
                  databases: await indexedDB.databases(), caches: self.caches ? await caches.keys() : [],
                  inputs: [...document.querySelectorAll("input, textarea, form")].length,
                })"""
            )
            | {"jar": self.context.cookies(), "all": self.context.storage_state(indexed_db=True)}
        )

    def close(self):
        assert self.faults == []
        self.context.close()


@pytest.fixture
def visit(browser, address):
    open_visits = []

    def start(**options):
        open_visits.append(Visit(browser, address, **options))
        return open_visits[-1]

    yield start
    for one in open_visits:
        one.close()


def marks(question):
    return [mark for option in question.options for mark in (option.id, option.text)]


# ---- the true choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(5))
def test_the_true_choice_leaves_the_browser_nowhere(visit, store, k):
    one, question = visit(**(PHONE if k % 2 else DESKTOP)), SURVEY.questions[1]
    loaded = len(one.requests)
    one.choose(question, k)
    assert one.drawn(question) != (k,)
    assert [mark for mark in marks(question) if mark in one.kept()] == []
    letter = one.review()
    assert [mark for mark in marks(question) if mark in one.kept()] == []
    assert len(one.requests) == loaded, "choosing and looking send nothing"
    drawn = letter["answers"]["complement"]["not"]
    one.send()
    everything = "\n".join([*one.sent(), one.kept()])
    truth = question.options[k]
    assert truth.id not in everything
    assert truth.text not in everything
    found = [option.id for option in question.options if option.id in everything]
    assert found == [drawn], "what was drawn is there, so that this test would find the truth too"
    assert one.bodies() == [letter]
    assert store.answers() == [{"complement": {"not": drawn}}]


@pytest.mark.parametrize("question", PRIVATE, ids=lambda question: question.mode)
def test_only_what_was_shown_is_sent_in_every_mode(visit, store, question):
    for k in range(len(question.options)):
        one = visit()
        one.choose(question, k)
        shown = question.stored(one.drawn(question))
        letter = one.review()
        value = one.page.locator("#letter li").nth(SURVEY.questions.index(question)).locator(".value").inner_text()
        assert value.startswith(f"{question.says} “Words")
        one.send()
        assert letter["answers"] == {question.id: shown}
        assert one.bodies() == [letter]
        others = [r for r in one.sent() if not r.startswith("POST")]
        assert [mark for mark in marks(question) if any(mark in text for text in others)] == []
        assert [mark for mark in marks(question) if mark in one.kept()] == []
        one.context.close()
        assert shown in [row[question.id] for row in store.answers()], "stored as it was shown"
    assert store.count() == len(question.options)


def test_the_page_forgets_what_was_chosen_when_it_is_sent(visit):
    one = visit()
    for question in SURVEY.questions:
        one.choose(question, 1)
    one.review()
    one.send()
    page = one.page
    assert page.locator("[aria-checked=true]").count() == 0
    assert [b.inner_text() for b in page.locator(".stored b").all()] == [""] * len(PRIVATE)
    assert page.locator("#letter li").count() == 0
    assert page.locator("#bytes").text_content() == ""
    assert "Words" not in page.locator("#thanks").inner_text()


def test_answers_have_no_form_that_could_be_sent_or_filled_in(visit):
    page = visit().page
    assert page.locator("form, input, textarea, select").count() == 0
    assert page.locator("main [name]").count() == 0


# ---- the draw -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", PRIVATE, ids=lambda question: question.mode)
def test_the_draw_is_the_matrix_of_the_estimates(visit, question):
    page, n = visit().page, len(question.options)
    counts = page.evaluate(
        """async ([n, times]) => {
          const { draw } = await import("/static/survey_draw.js");
          const asked = JSON.parse(document.getElementById("questions").textContent);
          const { id, truth, size } = asked.find((q) => q.id === n);
          const K = document.querySelectorAll(`#q-${id} [role=radio]`).length;
          const counts = Array.from({ length: K }, () => ({}));
          for (let y = 0; y < K; y++)
            for (let i = 0; i < times; i++) {
              const set = draw(y, K, truth, size ?? 1).join();
              counts[y][set] = (counts[y][set] ?? 0) + 1;
            }
          return counts;
        }""",
        [question.id, 20_000],
    )
    assert len(counts) == n
    sets = [",".join(map(str, places)) for places in question.outcomes]
    for row, probabilities in zip(counts, question.transition, strict=True):
        assert set(row) <= set(sets)
        assert_frequencies([row.get(one, 0) for one in sets], probabilities)


def test_whole_numbers_are_drawn_without_the_bias_of_a_remainder(visit):
    """Of numbers below 3 · 2³⁰ a plain remainder of 32 bits would give half, not a third, below 2³⁰."""
    shares = visit().page.evaluate(
        """async () => {
          const { below } = await import("/static/survey_draw.js");
          const counts = [0, 0, 0];
          for (let i = 0; i < 20000; i++) counts[Math.floor(below(3 * 2 ** 30) / 2 ** 30)]++;
          return counts;
        }"""
    )
    assert_frequencies(shares, np.full(3, 1 / 3))


def test_one_choice_has_one_draw_however_often_it_is_looked_at(visit):
    one, question = visit(), SURVEY.questions[1]
    one.choose(question, 0)
    first = one.drawn(question)
    for _ in range(10):  # else people could draw until they like it, and the estimates would be wrong
        one.choose(question, 3)
        one.choose(question, 0)
        assert one.drawn(question) == first
    letter = one.review()
    one.page.click("#change")
    one.page.locator(f"#q-{question.id} .clear").click()
    assert one.page.locator("#count").inner_text() == "0 of 5 answered"
    one.choose(question, 0)
    assert one.review() == letter


# ---- reload, back, offline --------------------------------------------------------------------------------------


def test_a_reload_in_the_middle_forgets_what_was_chosen(visit, store):
    one = visit()
    for question in SURVEY.questions:
        one.choose(question, 0)
    one.review()
    one.page.reload()
    one.page.wait_for_selector("#ask:not([hidden])")
    assert one.page.locator("[aria-checked=true]").count() == 0
    assert "id-" not in one.kept()
    assert (store.count(), one.bodies()) == (0, [])


def test_a_reload_keeps_the_draw_of_every_option(visit, store):
    one = visit()

    def shown():
        found = {}
        for question in PRIVATE:
            for k in range(len(question.options)):
                one.choose(question, k)
                found[question.id, k] = one.drawn(question)
        return found

    first = shown()
    for _ in range(3):
        one.page.reload()
        one.page.wait_for_selector("#ask:not([hidden])")
        assert shown() == first
    one.page.goto("about:blank")
    one.page.go_back()
    one.page.wait_for_selector("#ask:not([hidden])")
    assert shown() == first
    assert store.count() == 0, "nothing is sent to keep it"
    assert visit().page.evaluate("({ ...sessionStorage })") == {}, "another visitor knows nothing of it"


@pytest.mark.parametrize("question", PRIVATE, ids=lambda question: question.mode)
def test_what_the_tab_keeps_is_the_same_whatever_was_chosen(visit, question):
    """The draws of all options are kept at once: choosing another one, or clearing it, changes not a byte."""
    one = visit()
    one.choose(question, 0)
    kept = one.kept()
    assert "draws" in kept
    for k in range(1, len(question.options)):
        one.choose(question, k)
        assert one.kept() == kept
    one.page.locator(f"#q-{question.id} .clear").click()
    assert one.kept() == kept


def test_the_draws_are_erased_before_the_letter_goes(visit):
    """Letter and draws together would tell the choice, so they are never there at once, not even without a network."""
    one = visit()
    one.choose(SURVEY.questions[1], 4)
    one.review()
    assert "draws" in one.kept()
    one.context.set_offline(True)
    one.page.click("#send")
    one.page.wait_for_selector("#status:has-text('No connection')")
    assert "draws" not in one.kept()
    one.context.set_offline(False)
    one.page.wait_for_selector("#thanks:not([hidden])")
    assert "draws" not in one.kept()


def test_draws_that_do_not_fit_the_questions_are_made_anew(visit):
    one = visit()
    one.choose(PRIVATE[0], 1)
    (key,) = one.page.evaluate("Object.keys(sessionStorage)")
    one.page.evaluate("(key) => sessionStorage.setItem(key, JSON.stringify({ asked: '[]', draws: {} }))", key)
    one.page.reload()
    one.page.wait_for_selector("#ask:not([hidden])")
    one.choose(PRIVATE[0], 1)
    assert one.drawn(PRIVATE[0]) != (1,)


def test_the_back_button_goes_a_step_back_and_never_sends_again(visit, store):
    one = visit()
    page = one.page
    one.choose(SURVEY.questions[0], 1)
    one.choose(SURVEY.questions[1], 2)
    letter = one.review()
    page.go_back()
    page.wait_for_selector("#ask:not([hidden])")
    assert page.locator("[aria-checked=true]").count() == 2
    page.go_forward()
    page.wait_for_selector("#review:not([hidden])")
    assert json.loads(page.locator("#bytes").text_content()) == letter
    one.send()
    page.go_back()
    page.wait_for_selector("#thanks:not([hidden])")
    page.reload()
    page.wait_for_selector("#thanks:not([hidden])")
    assert page.locator("[aria-checked=true]").count() == 0
    assert (one.bodies(), store.count()) == ([letter], 1)
    page.click("#again")
    page.wait_for_selector("#ask:not([hidden])")
    assert json.loads(one.kept())["session"] == {}


def test_leaving_the_page_and_coming_back_shows_no_choice(visit, address):
    one = visit()
    one.choose(SURVEY.questions[1], 2)
    one.page.goto(f"{address}/privacy")
    one.page.go_back()
    one.page.wait_for_selector("#ask:not([hidden])")
    assert one.page.locator("[aria-checked=true]").count() == 0
    one.choose(SURVEY.questions[1], 2)
    one.review()
    for event in ("pagehide", "pageshow"):  # as by a browser that keeps the whole page for its back button
        one.page.evaluate(f"() => dispatchEvent(new PageTransitionEvent('{event}', {{ persisted: true }}))")
    one.page.wait_for_selector("#ask:not([hidden])")
    assert one.page.locator("[aria-checked=true]").count() == 0
    assert one.page.locator("#count").inner_text() == "0 of 5 answered"


def test_without_a_network_the_letter_waits_and_goes_once(visit, store):
    one = visit()
    one.choose(SURVEY.questions[1], 4)
    letter = one.review()
    one.context.set_offline(True)
    one.page.click("#send")
    one.page.wait_for_selector("#status:has-text('No connection')")
    assert one.page.locator("[aria-checked=true]").count() == 0, "the choice is forgotten even so"
    kept = one.kept()
    assert SURVEY.questions[1].options[4].id not in kept
    assert letter["answers"]["complement"]["not"] in kept
    assert store.count() == 0
    one.context.set_offline(False)
    one.page.wait_for_selector("#thanks:not([hidden])")
    assert store.answers() == [letter["answers"]]
    assert all(body == letter for body in one.bodies())


def test_a_lost_reply_and_a_reload_store_one_letter(visit, store):
    one = visit()
    one.choose(SURVEY.questions[1], 0)
    one.choose(SURVEY.questions[2], 0)
    letter = one.review()
    one.page.route("**/answers", lambda route: (route.fetch(), route.abort()))  # it arrives, its answer does not
    one.page.click("#send")
    one.page.wait_for_selector("#status:has-text('No connection')")
    assert store.count() == 1
    one.page.unroute("**/answers")
    one.page.reload()
    one.page.wait_for_selector("#thanks:not([hidden])")
    assert store.count() == 1
    assert len(one.bodies()) >= 2
    assert all(body == letter for body in one.bodies()), "no second draw"


def test_a_refusal_is_told(visit, store):
    one = visit()
    one.choose(SURVEY.questions[0], 0)
    one.review()
    body = json.dumps({"error": "the survey has ended"})
    one.page.route("**/answers", lambda route: route.fulfill(status=410, content_type="application/json", body=body))
    one.page.click("#send")
    one.page.wait_for_selector("#status:has-text('This could not be stored: the survey has ended')")
    assert store.count() == 0
    assert one.page.is_hidden("#thanks")
    one.page.unroute("**/answers")
    one.page.get_by_role("button", name="Answer again").click()
    one.page.wait_for_selector("#ask:not([hidden])")
    assert json.loads(one.kept())["session"] == {}
    one.choose(SURVEY.questions[0], 1)
    one.review()
    one.send()
    assert store.count() == 1


def test_a_letter_that_the_questions_do_not_fit_any_more_is_not_sent(visit, store):
    """Until somebody has answered, questions may change; such a letter can be neither shown nor stored."""
    one = visit()
    (key,) = one.page.evaluate("[`naysayer ${document.querySelector('main').dataset.path}`]")
    for answers in ({"complement": {"drawn": "id-complement0-zq"}}, {"public": {"is": "gone"}}, {"gone": {"is": "a"}}):
        letter = json.dumps({"id": "0" * 32, "answers": answers})
        one.page.evaluate("([key, letter]) => sessionStorage.setItem(key, letter)", [key, letter])
        one.page.reload()
        one.page.wait_for_selector("#ask:not([hidden])")
        assert json.loads(one.kept())["session"] == {}
    one.choose(SURVEY.questions[1], 1)
    letter = one.review()
    one.send()
    assert one.bodies() == [letter]


def test_a_sending_that_hangs_while_another_arrives_changes_nothing(visit, store):
    one = visit()
    one.choose(SURVEY.questions[0], 1)
    one.review()
    held = []
    one.page.route("**/answers", lambda route: route.continue_() if held else held.append(route))
    with one.page.expect_request("**/answers"):
        one.page.click("#send")
    one.page.evaluate("dispatchEvent(new Event('online'))")
    one.page.wait_for_selector("#thanks:not([hidden])")
    with one.page.expect_event("requestfailed"):
        held[0].abort()
    assert one.page.evaluate("document.getElementById('send').textContent") == "Send this", "nothing is left to send"
    assert store.count() == 1


def test_a_browser_that_stores_nothing_can_answer(visit, store):
    one = visit()
    one.context.add_init_script("Object.defineProperty(window, 'sessionStorage', { get() { throw new Error('no'); } })")
    one.page.reload()
    one.choose(SURVEY.questions[1], 0)
    one.review()
    one.send()
    assert store.count() == 1


# ---- hands, eyes and the owner --------------------------------------------------------------------------------


def test_the_survey_can_be_answered_by_keyboard(visit, store):
    one = visit()
    page, question = one.page, SURVEY.questions[1]
    one.options(question).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert one.options(question).nth(2).get_attribute("aria-checked") == "true"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert one.options(question).nth(4).get_attribute("aria-checked") == "true"
    assert [o.get_attribute("tabindex") for o in one.options(question).all()] == ["-1"] * 4 + ["0"]
    group = page.get_by_role("radiogroup", name="What about complement?")
    assert group.get_by_role("radio", checked=True).inner_text() == "Words complement4 qz"
    for name, kind in (("complement", "Private"), ("public", "Stored as you answer it")):
        described = page.get_by_role("radiogroup", name=f"What about {name}?").get_attribute("aria-describedby")
        assert page.locator(f"#{described}").inner_text() == kind
    page.locator("#to-review").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "This is all that will be sent"
    page.locator("#send").focus()
    page.keyboard.press("Space")
    page.wait_for_selector("#thanks:not([hidden])")
    assert store.count() == 1


def test_the_owner_sees_no_result_of_few_people(browser, store, address):
    page, origin = browser.new_page(), address.split("/s/")[0]
    for i in range(60):
        team = "id-public2-zq" if i < 4 else f"id-public{i % 2}-zq"
        store.add(f"{i:032x}", {"public": {"is": team}, "complement": {"not": f"id-complement{i % 5}-zq"}})
    page.goto(f"{origin}/join#{store.new_link()}")
    page.wait_for_url("**/results")
    assert page.locator(".card", has_text="What about calibrated?").first.locator(".bar-chart").count() == 0
    assert page.locator(".cross thead th").all_inner_texts()[2] == "Words public2 qz", "without a number"
    assert page.locator(".cross td.none").count() == 5
    assert "14 people who answered both are not in this table" in page.inner_text("#table")
    page.close()


def test_long_words_and_writing_from_right_to_left_fit_a_phone(browser, tmp_path):
    arabic, long = "\u0645\u0627 \u0647\u0648\u061f", "w" * 100
    question = SurveyQuestion("q", arabic, tuple(Option(f"o{k}", f"{k}{long[1:]}") for k in range(12)), "complementary")
    survey = Survey(long, long, (question,))
    store = SurveyStore(tmp_path / "long.db", survey)
    with served(lambda site: make_app(survey, store, site)) as site:
        one = Visit(browser, f"{site.origin}/s/{store.key}", **PHONE)
        one.choose(question, 5)
        assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert one.page.locator("h2").evaluate("(h) => getComputedStyle(h).direction") == "rtl"
        one.review()
        assert one.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        one.send()
        one.close()
    store.close()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_fit_the_screen_and_the_owner_sees_results(browser, visit, store, address, size):
    rng = np.random.default_rng(0)
    for i in range(300):
        drawn = {q: rng.choice(len(q.options), q.size, replace=False) for q in SURVEY.questions}
        store.add(f"{i:032x}", {q.id: q.stored(places) for q, places in drawn.items()})
    one = visit(**size)
    page, origin = one.page, address.split("/s/")[0]

    def fits():
        return page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    assert fits()
    page.goto(f"{address}/privacy")
    assert fits()
    assert "δ" not in page.inner_text("main")
    assert "ε" not in page.inner_text("main"), "experts' terms are folded away"
    experts = page.locator("summary", has_text="In technical terms")
    assert experts.count() == len(PRIVATE) + 1
    for summary in page.locator("summary").all():
        assert summary.bounding_box()["height"] >= 44
        summary.click()
    assert "δ = 1/(K − 1) = 0.25 at every ε" in page.inner_text("#p-complement")
    assert "d = 2 options" in page.inner_text("#p-subset")
    assert fits()
    page.evaluate("document.querySelectorAll('.plain td').forEach((cell) => (cell.textContent = '9'.repeat(40)))")
    assert fits(), "a table that is too wide scrolls within itself"
    page.goto(f"{origin}/results")
    assert "Open the link" in page.inner_text("main") or "open the link" in page.inner_text("main")
    page.goto(f"{origin}/join#{store.new_link()}")
    page.wait_for_url("**/results")
    page.wait_for_selector(".learning", state="detached")
    assert page.locator(".bar-chart").count() > 13
    assert fits()
    page.select_option("select[name=columns]", "calibrated")
    assert page.url.endswith("/results"), "a key may pass several questions on its way to the one that is meant"
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/results?rows=complement&columns=calibrated*")
    assert page.locator(".cross tbody tr").count() == 5
    assert fits()


def test_every_cell_of_a_table_can_be_read_in_the_dark(browser, store, address):
    page, origin = browser.new_page(color_scheme="dark"), address.split("/s/")[0]
    for i in range(40):
        store.add(f"{i:032x}", {"public": {"is": "id-public0-zq"}, "complement": {"not": f"id-complement{i % 5}-zq"}})
    page.route("**/results/prediction/*", lambda route: route.fulfill(body="<p>Learned elsewhere.</p>"))
    page.goto(f"{origin}/join#{store.new_link()}")
    page.wait_for_url("**/results")
    assert page.locator(".cross td b").count() == 5
    for level in range(11):
        cells = "[...document.querySelectorAll('.cross td b')].map((b) => b.parentElement)"
        page.evaluate(f"{cells}.forEach((cell) => (cell.className = 'level-{level}'))")
        assert [words for words in page.evaluate(CONTRAST) if words[0] < 4.5] == []
    page.close()
