"""The owner's clicks in a real browser: leave a person out, count them again, go through the disagreements."""

from __future__ import annotations

import pytest

from browser import DESKTOP, PHONE, assert_fits_everywhere, chromium, served
from naysayer.collect.app import make_app
from naysayer.collect.people import invite_to, owner_of
from test_collect_browser import Tab
from test_collect_people import contradict, no, open_store, say


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "answers.db") as opened:
        yield opened


def test_the_owner_leaves_out_by_a_click_and_counts_again(browser, store):
    say(store, "Ann", 40)
    bob = say(store, "Bob", 60, no, took_ms=80)
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/dashboard") as tab:
        tab.page.get_by_text("Look at the answers of Bob.").wait_for()
        wrong = tab.page.locator(".verdict-wrong")
        wrong.get_by_text("Bob answered 60 of 60 questions within 0.25 seconds").wait_for()
        row = tab.page.locator("#judged-list li", has_text="Bob")
        assert "Answered 60 of 60 questions within 0.25 seconds" in row.inner_text()
        tab.page.get_by_role("button", name="Leave out the answers of Bob").click()
        tab.page.get_by_text("1 person is left out.").wait_for()
        tab.until("document.activeElement.id === 'judged-title'")  # the button that was pressed is gone
        assert list(store.left_out()) == [bob]
        assert store.left_out()[bob].reason.startswith("answered 60 of 60 questions within 0.25 seconds")
        assert "Left out by owner" in row.inner_text()
        assert store.progress().answers == 40
        wrong.get_by_text("Bob answered").wait_for(state="detached")
        tab.page.reload()
        tab.page.get_by_role("button", name="Count the answers of Bob again").click()
        tab.page.get_by_text("Look at the answers of Bob.").wait_for()
        assert store.left_out() == {}
        assert store.progress().answers == 100
        row.get_by_role("link", name="Bob").click()
        tab.page.wait_for_url("**/items?person=*")
        tab.page.get_by_text(f"of {store.browse(person=bob)[1]} items").wait_for()
        assert tab.page.get_by_label("Person").locator("option:checked").inner_text() == "Bob"


def test_a_training_from_before_somebody_was_left_out_stays_in_the_picture(browser, store):
    """What was learned from more answers than count by now is in the numbers, and no line leaves its panel."""
    for n, estimate in ((150, 0.6), (200, 0.7), (100, 0.8), (120, 0.9)):
        store.add_training(n_answers=n, method="forward", estimate=estimate, low=estimate - 0.1, high=0.99)
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/dashboard") as tab:
        panel = tab.page.locator("figure:has(.ribbon)")
        panel.wait_for()
        assert panel.locator("tbody tr").count() == 4
        dots, box = [one.bounding_box() for one in panel.locator(".dot").all()], panel.bounding_box()
        assert len(dots) == 2
        for one in dots:
            assert box["x"] <= one["x"] <= one["x"] + one["width"] <= box["x"] + box["width"]


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_owner_goes_through_the_queue_and_takes_back(browser, store, options):
    first, second, third = [item.id for item in store.items()][:3]
    contradict(store, first, 0, ["yes", "no", "yes", "no"])
    contradict(store, second, 1, ["yes", "no"])
    contradict(store, third, 2, ["yes", "no"])
    with served(lambda site: make_app(store, site)) as site, Tab(browser, site.origin, "/dashboard", **options) as tab:
        shown = tab.page.locator("#dispute")
        shown.get_by_text("Animal 0 is a cat.").wait_for()
        assert "3 items" in tab.page.locator("#disputes-said").inner_text()
        assert "Bob: no to cat" in shown.inner_text()
        assert_fits_everywhere(tab.page, [320, 390, 760, 1280], 800)
        tab.page.get_by_role("button", name="It is: cat").click()
        shown.get_by_text("Animal 1 is a dog.").wait_for()
        tab.until("document.activeElement.className === 'dispute-item'")  # whoever goes on by keyboard is at the next
        tab.page.get_by_role("button", name="Later").click()
        shown.get_by_text("Animal 2 is a owl.").wait_for()
        another = tab.page.get_by_label("It is another class")
        settle = tab.page.get_by_role("button", name="Settle it as the chosen class")
        assert settle.is_disabled()
        another.select_option("cat")  # as an arrow key does on its way to the one that is meant
        another.select_option("dog")
        assert [one for one in store.standing() if one.final and one.item_id == third] == []
        settle.click()
        shown.get_by_text("Animal 1 is a dog.").wait_for()
        tab.page.get_by_role("button", name="Can’t tell").click()
        tab.page.get_by_text("Nothing is left on which").wait_for()
        words = {one.item_id: (one.value, one.class_index) for one in store.standing() if one.final}
        assert words == {first: ("yes", 0), second: ("skip", 0), third: ("yes", 1)}
        tab.page.get_by_text("Settled last").click()
        tab.page.get_by_role("button", name="Take back what was settled about row 2").click()
        shown.get_by_text("Animal 2 is a owl.").wait_for()
        assert third not in {one.item_id for one in store.standing() if one.final}


def test_the_list_of_links_keeps_the_focus_and_what_went_wrong_stays_told(browser, store):
    def look():
        with tab.page.expect_response("**/api/dashboard"):
            tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        tab.page.wait_for_load_state("networkidle")

    invite_to(store, "Ann")
    link = "/join#" + store.new_link(owner_of(store).id)
    with served(lambda site: make_app(store, site), tokens=True) as site, Tab(browser, site.origin, link) as tab:
        end = tab.page.get_by_role("button", name="End the link of Ann")
        end.focus()
        look()
        assert end.evaluate("(button) => document.activeElement === button")
        tab.page.route("**/api/invite", lambda route: route.fulfill(status=409, json={"error": "there is no room"}))
        tab.page.get_by_label("Name").fill("Ben")
        tab.page.get_by_role("button", name="Make a link").click()
        notice = tab.page.locator("#notice")
        notice.get_by_text("there is no room").wait_for()
        look()
        assert notice.inner_text() == "there is no room"
        tab.page.unroute("**/api/invite")
        tab.page.get_by_role("button", name="Make a link").click()
        tab.page.get_by_role("button", name="End the link of Ben").wait_for()
        assert notice.is_hidden()
        tab.page.route("**/api/dashboard", lambda route: route.abort())
        tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        notice.get_by_text("The server cannot be reached").wait_for()
        tab.page.unroute("**/api/dashboard")
        look()
        notice.wait_for(state="hidden")
        tab.page.get_by_role("button", name="End the link of Ben").press("Enter")
        tab.page.get_by_role("dialog").get_by_role("button", name="End link").press("Enter")
        tab.page.get_by_text("Ben (ended)").wait_for()
        assert tab.page.evaluate("document.activeElement.id") == "people-title"
        tab.errors.clear()  # the browser notes the refusal


def test_a_second_press_on_a_slow_network_makes_no_second_link(browser, store):
    link = "/join#" + store.new_link(owner_of(store).id)
    with served(lambda site: make_app(store, site), tokens=True) as site, Tab(browser, site.origin, link) as tab:
        held = []
        tab.page.wait_for_selector("#dashboard[aria-busy=false]")
        tab.page.route("**/api/invite", lambda route: held.append(route))
        tab.page.get_by_label("Name").fill("Ben")
        with tab.page.expect_request("**/api/invite"):
            tab.page.get_by_label("Name").press("Enter")
        tab.page.get_by_label("Name").press("Enter")
        tab.page.evaluate("fetch('/api/progress')")  # what the second press sends is on its way before this
        for one in held:
            one.continue_()
        tab.page.get_by_role("button", name="End the link of Ben").wait_for()
        tab.page.unroute("**/api/invite")
        tab.page.get_by_label("Name").fill("Cem")
        tab.page.get_by_label("Name").press("Enter")
        tab.page.get_by_role("button", name="End the link of Cem").wait_for()
        assert len([r for r in tab.requests if r.url.endswith("/api/invite")]) == 2
        waiting = []
        tab.page.route("**/api/dashboard", lambda route: waiting.append(route))
        for name in ("Dan", "Eve"):  # figures that are slow to come keep nobody from the next link
            tab.page.get_by_label("Name").fill(name)
            tab.page.get_by_label("Name").press("Enter")
            tab.page.locator("#new-links").get_by_text(name).wait_for()
        for one in waiting:
            one.continue_()
