"""Pictures of every page, on a phone and a desktop, in light and dark; the best of them go into docs/collect.

Run: python tests/screenshots.py [FOLDER [FONT]]; FOLDER gets all of them, to be looked at. FONT, such as DejaVuSans, is
all that the browser then has, in the place of the pages' own typeface, and docs/collect stays as it is.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits, load_sample_image

import reports
from browser import DESKTOP, PHONE, chromium, served
from naysayer.collect.app import make_app
from naysayer.collect.guidelines import read_guidelines
from naysayer.collect.learn import add_training, train
from naysayer.collect.people import invite_to, owner_of
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.items import image_item, record_item, text_item
from naysayer.report import write
from naysayer.survey import app as survey_app
from naysayer.survey.questions import read_survey
from naysayer.survey.store import SurveyStore

ROOT = Path(__file__).parent.parent
SIZES = {"phone": PHONE, "desktop": DESKTOP}
SCHEMES = ("light", "dark")
DIGITS = {"one": 1, "three": 3, "five": 5, "eight": 8, "nine": 9}
GUIDE = """
text = "Judge what is in the middle of the photo."

[classes.temple]
text = "A building for worship, of any religion."
examples = ["china.png"]

[classes.rose]
text = "A flower of the genus Rosa. No dahlias, such as this one."
examples = ["flower.png"]
"""
TICKET = {
    "subject": "Charged twice in March",
    "plan": "Team, yearly",
    "opened": "2026-03-04 09:12",
    "seats": 14,
    "total": 1188,
    "first message": "We were charged twice for the March invoice. Could you look into it?",
}


class Camera:
    """Takes pages in every size and scheme, into a folder; `shipped`: in the typeface that they bring along."""

    def __init__(self, browser: Any, folder: Path, shipped: bool = True) -> None:
        self.browser, self.folder, self.shipped = browser, folder, shipped

    def every(
        self, name: str, address: str, act: Any = None, *, full: bool = False, join: Callable[[], str] | None = None
    ) -> None:
        """Open an address as four people would; `act` does what is to be seen; `join` makes a link to come in by."""
        for size, options in SIZES.items():
            for scheme in SCHEMES:
                with self.browser.new_context(**options, color_scheme=scheme, reduced_motion="reduce") as context:
                    if not self.shipped:
                        context.route("**/*.woff2", lambda route: route.abort())
                    page = context.new_page()
                    if join:
                        page.goto(join())
                        page.wait_for_url(lambda url: "/join" not in url)
                    page.goto(address)
                    if act:
                        act(page)
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(300)
                    page.screenshot(path=self.folder / f"{name}-{size}-{scheme}.png", full_page=full)


# ---- what the pages show --------------------------------------------------------------------------------------


def photos(folder: Path) -> Store:
    """Two photographs to ask about."""
    project = Project(("temple", "rose", "harbour"), name="Holiday photos")
    store = Store.open(folder / "photos.db", project=project, random_state=5)
    for name in ("china", "flower"):
        path = folder / f"{name}.png"
        Image.fromarray(load_sample_image(f"{name}.jpg")).save(path)
        store.register([image_item(path, name)])
    return store


def digits(folder: Path) -> Store:
    """Digits that three people answered about over five hours, with a model trained now and then."""
    X, y = load_digits(return_X_y=True)
    project = Project(tuple(DIGITS), name="Digits", repeat_share=0.08)
    store = Store.open(folder / "digits.db", project=project, random_state=0)
    truth = {}
    for i in np.flatnonzero(np.isin(y, list(DIGITS.values()))):
        path = folder / f"{i}.png"
        Image.fromarray((X[i].reshape(8, 8) * 15.9).astype(np.uint8)).save(path)
        item = image_item(path, path.name)
        truth[item.id] = list(DIGITS.values()).index(y[i])
        store.register([item])
    rng = np.random.default_rng(4)
    people = [owner_of(store).id, *(invite_to(store, name)[0].id for name in ("Ann", "Benedikt"))]
    invite_to(store, "Chloé")
    clock, began, n = time.time, time.time() - 5 * 3600, 1800
    pace = np.repeat(rng.uniform(0.5, 1.6, 20), n // 20)  # people come and go
    arrivals = np.cumsum(1 / pace) / (1 / pace).sum()
    for i in range(n):
        now = began + 5 * 3600 * arrivals[i]
        time.time = lambda now=now: now
        who = rng.choice(3, p=(0.32, 0.46, 0.22))
        (question,) = store.ask(people[who])
        right = (question.class_index == truth[question.item.id]) != (rng.random() < (0.03, 0.01, 0.04)[who])
        value = "skip" if rng.random() < 0.03 else "yes" if right else "no"
        store.answer(Answer(f"answer-{i}", question.id, people[who], value, int(rng.lognormal(7.2, 0.4))))
        if i + 1 in (150, 300, 450, 600, 800, 1000, 1250, 1500, 1800):
            add_training(store, train(store, n_seeds=5))
    time.time = clock
    return store


def colleagues(folder: Path) -> tuple[Any, SurveyStore]:
    """The survey of the examples, answered by 2,400 people as their devices would."""
    survey = read_survey(ROOT / "examples" / "survey.toml")
    store = SurveyStore(folder / "survey.db", survey)
    rng = np.random.default_rng(3)
    chances = {  # given the team: what people of each suffer from most
        "stress": [
            [0.6, 0.05, 0.05, 0.1, 0.1, 0.1],
            [0.1, 0.1, 0.05, 0.6, 0.05, 0.1],
            [0.15, 0.6, 0.05, 0.1, 0.05, 0.05],
        ]
        + [[0.1, 0.1, 0.05, 0.05, 0.1, 0.6]],
        "leaving": [[0.15, 0.15, 0.7], [0.2, 0.2, 0.6], [0.45, 0.2, 0.35], [0.1, 0.1, 0.8]],
        "harassed": [[0.08, 0.92], [0.12, 0.88], [0.2, 0.8], [0.05, 0.95]],
        "wish": [[0.1, 0.3, 0.1, 0.2, 0.05, 0.1, 0.05, 0.05, 0.03, 0.02]] * 2
        + [[0.2, 0.1, 0.05, 0.1, 0.3, 0.1, 0.05, 0.05, 0.03, 0.02]] * 2,
    }
    for i in range(2400):
        team, years = rng.choice(4, p=(0.4, 0.3, 0.2, 0.1)), rng.choice(3, p=(0.2, 0.35, 0.45))
        stored = {"team": team, "years": years}
        for name, rows in chances.items():
            question = survey.question(name)
            true = rng.choice(len(rows[team]), p=rows[team])
            stored[name] = rng.choice(len(question.outcomes), p=question.transition[true])
        answers = {name: (q := survey.question(name)).stored(q.outcomes[k]) for name, k in stored.items()}
        store.add(f"{i:032x}", answers)
    return survey, store


# ---- the pages ------------------------------------------------------------------------------------------------


def take(folder: Path, camera: Camera) -> None:
    """Take every page."""

    def asking(page: Any) -> None:
        page.wait_for_selector("[data-state=asking]")

    def swiped(page: Any) -> None:
        asking(page)
        box = page.locator(".card:not(.leaving)").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 0.3 * box["width"], y - 8, steps=4)

    def pressed(*keys: str) -> Any:
        def act(page: Any) -> None:
            page.wait_for_selector(".zoom")
            for key in keys:
                page.keyboard.press(key)

        return act

    with photos(folder) as store:
        with served(lambda site: make_app(store, site)) as site:
            camera.every("ask", site.origin, asking)
            camera.every("ask-swipe", site.origin, swiped)
        guide = folder / "guide.toml"
        guide.write_text(GUIDE)
        told = read_guidelines(guide, store.project.classes)
        for code in ("en", "de"):
            with served(lambda site, code=code: make_app(store, site, guidelines=told, language=code)) as site:
                camera.every(f"ask-zoom-{code}", site.origin, pressed("+", "+", "+"))
                camera.every(f"ask-help-{code}", site.origin, pressed("?"))
                camera.every(f"ask-guide-{code}", site.origin, pressed("g"))
    project = Project(("billing question", "bug"), name="Tickets")
    with Store.open(folder / "tickets.db", project=project, random_state=1) as store:
        store.register([record_item(TICKET, "ticket 1")])
        with served(lambda site: make_app(store, site)) as site:
            camera.every("ask-record", site.origin, asking)
    with Store.open(folder / "done.db", project=Project(("cat", "dog"), name="Animals")) as store:
        store.register([text_item("A small animal that purrs, and sleeps on your keyboard.", "row 1")])
        with served(lambda site: make_app(store, site)) as site:
            camera.every("ask-text", site.origin, asking)
            me = owner_of(store).id
            (question,) = store.ask(me)
            store.answer(Answer("a", question.id, me, "yes" if question.class_index == 0 else "no"))
            camera.every("ask-done", site.origin, lambda page: page.wait_for_selector("[data-state=done]"))
            camera.every("message", site.origin + "/nowhere")
        with served(lambda site: make_app(store, site), tokens=True) as site:
            camera.every("ask-closed", site.origin)
            camera.every("ask-link", site.origin + "/join#wrong")
    with digits(folder) as store, served(lambda site: make_app(store, site), tokens=True) as site:

        def link() -> str:
            return site.invitation(store.new_link(owner_of(store).id))

        def figures(page: Any) -> None:
            page.wait_for_selector(".figure .plot > *")

        camera.every("dashboard", site.origin + "/dashboard", figures, full=True, join=link)
        camera.every("items", site.origin + "/items", lambda page: page.wait_for_selector(".item img"), join=link)
    nothing = Store.open(folder / "empty.db", project=Project(("cat", "dog"), name="Animals"))
    with nothing, served(lambda site: make_app(nothing, site)) as site:
        camera.every("dashboard-empty", site.origin + "/dashboard", figures, full=True)
    survey, answers = colleagues(folder)
    with served(lambda site: survey_app.make_app(survey, answers, site)) as site:
        take_survey(camera, site, survey, answers)
    answers.close()


def take_survey(camera: Camera, site: Any, survey: Any, answers: SurveyStore) -> None:
    """Take the pages of a survey."""
    address = f"{site.origin}/s/{answers.key}"
    choices = {"team": 1, "stress": 1, "leaving": 0, "harassed": 1}

    def chosen(page: Any) -> None:
        for name, k in choices.items():
            page.locator(f"#q-{name} [role=radio]").nth(k).click()
        page.evaluate("document.activeElement.blur()")
        page.evaluate("document.getElementById('q-stress').scrollIntoView({ block: 'start' }); scrollBy(0, -16)")

    def reviewed(page: Any) -> None:
        chosen(page)
        page.click("#to-review")

    def sent(page: Any) -> None:
        reviewed(page)
        page.click("#send")
        page.wait_for_selector("#thanks:not([hidden])")

    def learned(page: Any) -> None:
        page.wait_for_selector(".learning", state="detached", timeout=120_000)

    def at(place: str) -> Any:
        def act(page: Any) -> None:
            page.evaluate(f"document.getElementById('{place}').scrollIntoView(); scrollBy(0, -16)")

        return act

    camera.every("survey-start", address)
    camera.every("survey-chosen", address, chosen)
    camera.every("survey-review", address, reviewed)
    camera.every("survey-privacy", f"{address}/privacy", full=True)
    camera.every("survey-privacy-one", f"{address}/privacy", at("p-stress"))

    def link() -> str:
        return site.invitation(answers.new_link())

    camera.every("survey-results", f"{site.origin}/results", learned, full=True, join=link)
    table = f"{site.origin}/results?rows=stress&columns=leaving"
    camera.every("survey-table", table, lambda page: (learned(page), at("table")(page)), join=link)
    camera.every("survey-thanks", address, sent)


def take_reports(camera: Camera, folder: Path) -> None:
    """Take the reports of models of every kind."""
    made = {
        "table": reports.table(240, odd="virginica"),
        "nothing": reports.table(240, learned=False, odd="virginica", seed=1),
        "photos": reports.photos(folder, 400, 900, odd="stripes"),
        "texts": reports.texts(folder, 150, 300, odd="wish"),
        "records": reports.records(folder),
    }
    for name, both in made.items():
        write(folder / f"{name}.html", *both, source=f"{name}.db")
        camera.every(f"report-{name}", (folder / f"{name}.html").as_uri(), full=True)
    take_report(camera, folder / "photos.html")


def take_report(camera: Camera, path: Path) -> None:
    """Take the parts of a report of photos that are in the documents."""

    def at(heading: str) -> Any:
        def act(page: Any) -> None:
            section = page.locator("section", has=page.get_by_role("heading", name=heading))
            section.evaluate("one => { one.scrollIntoView(); scrollBy(0, -16) }")

        return act

    camera.every("report-top", path.as_uri())
    camera.every("report-matrix", path.as_uri(), at("Which classes are confused"))
    camera.every("report-doubts", path.as_uri(), at("Contradicted by their labels"))


# ---- the pictures of the documents ------------------------------------------------------------------------------


class Album:
    """The best of a folder, put into the documents, small: a page needs few colours, a photo more."""

    def __init__(self, folder: Path, out: Path) -> None:
        self.folder, self.out = folder, out
        out.mkdir(exist_ok=True)

    def show(self, name: str, picture: Image.Image, width: int, *, photo: bool = False) -> None:
        """Put a picture into the documents."""
        picture = picture.convert("RGB").resize((width, round(picture.height * width / picture.width)), Image.LANCZOS)
        picture.quantize(256 if photo else 128, kmeans=2 if photo else 0).save(self.out / f"{name}.png", optimize=True)

    def row(self, *names: str) -> Image.Image:
        """Phones side by side."""
        shots = [Image.open(self.folder / f"{name}.png").convert("RGB") for name in names]
        (width, height), gap = shots[0].size, 64
        sheet = Image.new("RGB", (len(shots) * (width + gap) + gap, height + 2 * gap), "#c9c8c3")
        mask = Image.new("L", (width, height))
        ImageDraw.Draw(mask).rounded_rectangle((0, 0, width, height), 72, fill=255)
        for i, shot in enumerate(shots):
            sheet.paste(shot, (gap + i * (width + gap), gap), mask)
        return sheet

    def alone(self, name: str, crop: int | None = None) -> Image.Image:
        """A picture, or its upper part."""
        picture = Image.open(self.folder / f"{name}.png")
        return picture.crop((0, 0, picture.width, min(crop or picture.height, picture.height)))


def publish(album: Album) -> None:
    """Put the pictures of the apps into the documents."""
    show, row, alone = album.show, album.row, album.alone
    show("ask-desktop", alone("ask-desktop-light"), 1000, photo=True)
    show(
        "ask-phone",
        row("ask-phone-light", "ask-swipe-phone-dark", "ask-record-phone-light", "ask-done-phone-dark"),
        1320,
        photo=True,
    )
    show("dashboard-light", alone("dashboard-desktop-light"), 1000)
    show("dashboard-dark", alone("dashboard-desktop-dark"), 1000)
    show("items", alone("items-desktop-light"), 1000, photo=True)
    show(
        "survey-respondent",
        row("survey-chosen-phone-light", "survey-review-phone-light", "survey-chosen-phone-dark"),
        1100,
    )
    show("survey-privacy", alone("survey-privacy-one-desktop-light"), 1000)
    show("survey-results", alone("survey-results-desktop-light", 1640), 1000)
    show("survey-table-dark", alone("survey-table-desktop-dark"), 1000)


def publish_report(album: Album) -> None:
    """Put the pictures of a report into the documents."""
    phones = album.row("report-top-phone-light", "report-matrix-phone-light", "report-doubts-phone-dark")
    album.show("report-phone", phones, 1100, photo=True)
    album.show("report-dark", album.alone("report-top-desktop-dark"), 1000, photo=True)


if __name__ == "__main__":
    font = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as place, chromium(font) as browser:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else place)
        folder.mkdir(exist_ok=True, parents=True)
        camera = Camera(browser, folder, shipped=font is None)
        take(Path(place), camera)
        (reported := Path(place, "reports")).mkdir()
        take_reports(camera, reported)
        if font is None:
            album = Album(folder, ROOT / "docs" / "collect")
            publish(album)
            publish_report(album)
