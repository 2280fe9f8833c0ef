"""The app of `naysayer ask`: its API, its pictures, its dashboard's figures, and what attackers try."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import signal
import socket
import subprocess
import sys
import time
import zlib
from importlib.resources import files
from pathlib import Path

import httpx
import numpy as np
import pytest
from jinja2 import Environment, PackageLoader
from PIL import Image

from browser import let_in, served
from fuzzing import fuzz, unlimited
from naysayer import cli
from naysayer.collect import asking, dashboard, serving
from naysayer.collect.app import make_app, pages
from naysayer.collect.asking import field_text, with_article
from naysayer.collect.database import StoreError
from naysayer.collect.media import MEDIA_POLICY
from naysayer.collect.people import owner_of
from naysayer.collect.records import Answer, Project, Training
from naysayer.collect.security import Site
from naysayer.collect.serving import listen
from naysayer.collect.store import Store
from naysayer.collect.trainer import Trainer
from naysayer.data.items import Item, image_item, record_item, text_item
from naysayer.measure.answers import from_standing
from naysayer.survey.pages import pages as survey_pages

POST = {"x-naysayer": "1"}
CLASSES = ("cat", "dog", "owl")


@pytest.fixture
def store(tmp_path):
    project = Project(CLASSES, name="Animals", repeat_share=0.1)
    with Store.open(tmp_path / "answers.db", project=project, random_state=0) as opened:
        opened.register(text_item(f"Animal {i} is a {CLASSES[i % 3]}.", f"row {i}") for i in range(40))
        yield opened


@pytest.fixture
def web(store):
    """A client of the store's app, without a network."""
    return Client(make_app(store, Site(open=True)))


class Client:
    def __init__(self, app, base="http://127.0.0.1:8000"):
        self.app, self.base = app, base

    def __call__(self, method, path, **options):
        async def run():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self.base) as client:
                return await client.request(method, path, **options)

        return asyncio.run(run())

    def get(self, path, **options):
        return self("GET", path, **options)

    def post(self, path, body, **options):
        return self("POST", path, json=body, headers=POST, **options)


def answer_of(question, id="a1", value="no", **more):
    return {"id": id, "question": question["id"], "value": value} | more


# ---- questions and answers ------------------------------------------------------------------------------------------


def test_a_question_tells_what_the_page_needs_and_no_more(web):
    (question,) = web.get("/api/next").json()["questions"]
    assert set(question) == {"id", "before", "class", "after", "item"}
    assert question["before"] in ("Is this a ", "Is this an ")
    assert question["after"] == "?"
    assert set(question["item"]) == {"kind", "text"}  # no name, no probability, nothing about repetition


def test_questions_are_many_at_once_and_not_the_same_again(web):
    first = web.get("/api/next?n=16").json()["questions"]
    ids = [question["id"] for question in first]
    assert len(set(ids)) == 16
    again = web.get("/api/next?n=16").json()["questions"]
    assert {question["id"] for question in again} == set(ids)  # a reloaded page gets them back
    held = "".join(f"&holding={id}" for id in ids)
    more = web.get(f"/api/next?n=16{held}").json()["questions"]
    assert not {question["id"] for question in more} & set(ids)


@pytest.mark.parametrize("query", ["n=0", "n=21", "n=x", "n=1e9", "holding=../x", "holding=" + "x" * 65])
def test_what_is_asked_for_is_checked(web, query):
    response = web.get(f"/api/next?{query}")
    assert response.status_code == 422
    assert re.match(r"n: |holding\.0: ", response.json()["error"])


def test_answers_are_stored_once_and_in_batches(web, store):
    questions = web.get("/api/next?n=3").json()["questions"]
    batch = [answer_of(q, f"id{i}", took_ms=100 * i) for i, q in enumerate(questions)]
    for _ in range(2):
        reply = web.post("/api/answers", {"answers": batch})
        assert reply.json() == {"stored": ["id0", "id1", "id2"], "refused": []}
    assert [(one.id, one.took_ms) for one in store.standing()] == [("id0", 0), ("id1", 100), ("id2", 200)]


def test_one_bad_answer_does_not_hold_up_the_others(web, store):
    first, second = web.get("/api/next?n=2").json()["questions"]
    batch = [answer_of({"id": "f" * 32}, "a"), answer_of(first, "b"), answer_of(first, "c"), answer_of(second, "d")]
    reply = web.post("/api/answers", {"answers": batch}).json()
    assert reply["stored"] == ["b", "d"]
    errors = {one["id"]: one["error"] for one in reply["refused"]}
    assert set(errors) == {"a", "c"}
    assert "must be to a question that its annotator was asked" in errors["a"]
    assert "answered once" in errors["c"]
    assert len(list(store.standing())) == 2


def test_nobody_answers_the_questions_of_others(store):
    app = make_app(store, Site("0.0.0.0", 8000))
    ann, eve = (store.admit(store.add_annotator(name)[1]) for name in ("Ann", "Eve"))
    web = Client(app)
    (question,) = web("GET", "/api/next", headers={"authorization": f"Bearer {ann}"}).json()["questions"]
    headers = POST | {"authorization": f"Bearer {eve}"}
    reply = web("POST", "/api/answers", headers=headers, json={"answers": [answer_of(question)]}).json()
    assert reply["stored"] == []
    assert list(store.standing()) == []


BAD = [
    {"answers": []},
    {"answers": [{}]},
    {"answers": [{"id": "a", "question": "q", "value": "maybe"}]},
    {"answers": [{"id": "a b", "question": "q", "value": "yes"}]},
    {"answers": [{"id": "a", "question": "q", "value": "yes", "took_ms": -1}]},
    {"answers": [{"id": "a", "question": "q", "value": "yes", "annotator": "eve"}]},
    {"answers": [{"id": "a", "question": "q", "value": "yes"}] * 101},
    {"answers": [{"id": "'; DROP TABLE answer; --", "question": "q", "value": "yes"}]},
    [],
    7,
    "x",
]


@pytest.mark.parametrize("body", BAD)
def test_a_malformed_answer_is_refused_in_one_line(web, store, body):
    response = web.post("/api/answers", body)
    assert response.status_code == 422
    assert list(response.json()) == ["error"]
    assert "\n" not in response.json()["error"]
    assert list(store.standing()) == []


def test_what_is_not_json_is_refused_in_the_same_shape(web):
    headers = POST | {"content-type": "application/json"}
    for content in (b"{", b"\xff\xfe", b"[" * 30000, b'{"answers": NaN}'):
        response = web("POST", "/api/answers", headers=headers, content=content)
        assert response.status_code in (400, 422)
        assert list(response.json()) == ["error"]


def test_a_very_long_time_is_a_day(web, store):
    (question,) = web.get("/api/next").json()["questions"]
    web.post("/api/answers", {"answers": [answer_of(question, took_ms=10**15)]})
    assert next(iter(store.standing())).took_ms == 24 * 3600 * 1000


def test_undo_takes_back_one_answer_however_often_it_is_sent(web, store):
    questions = web.get("/api/next?n=2").json()["questions"]
    web.post("/api/answers", {"answers": [answer_of(q, f"a{i}") for i, q in enumerate(questions)]})
    for _ in range(2):
        reply = web.post("/api/undo", {"id": "u", "answer": "a0"}).json()
        assert reply["question"]["id"] == questions[0]["id"]
    assert [one.id for one in store.standing()] == ["a1"]
    assert web.get("/api/progress").json()["own"] == 1
    assert web.post("/api/undo", {"id": "a1", "answer": "a1"}).status_code == 409
    assert web.post("/api/undo", {"id": "v", "answer": "a0"}).json() == {"question": None}  # it was taken back before
    assert web.post("/api/undo", {"id": "v"}).json() == {"error": "answer: field required"}
    assert web.post("/api/undo", {"id": "v", "answer": "a1"}).json()["question"]["id"] == questions[1]["id"]


def test_progress_counts(web, monkeypatch):
    monkeypatch.setattr(asking, "PROGRESS_SECONDS", 0.0)
    assert web.get("/api/progress").json() == {"items": 40, "answered": 0, "closed": 0, "answers": 0, "own": 0}
    (question,) = web.get("/api/next").json()["questions"]
    web.post("/api/answers", {"answers": [answer_of(question, value="yes")]})
    assert web.get("/api/progress").json() == {"items": 40, "answered": 1, "closed": 1, "answers": 1, "own": 1}


def test_progress_is_counted_now_and_then_but_for_ones_own_answers(web, monkeypatch):
    monkeypatch.setattr(asking, "PROGRESS_SECONDS", 60.0)
    assert web.get("/api/progress").json()["answers"] == 0
    (question,) = web.get("/api/next").json()["questions"]
    web.post("/api/answers", {"answers": [answer_of(question)]})
    found = web.get("/api/progress").json()
    assert (found["answers"], found["own"]) == (0, 1)


def test_records_are_fields_and_their_values_texts(tmp_path):
    with Store.open(tmp_path / "r.db", project=Project(("a", "b"))) as store:
        store.register([record_item({"name": "<b>", "n": 3, "share": 0.123456789, "new": True, "none": None}, "1")])
        (question,) = Client(make_app(store, Site(open=True))).get("/api/next").json()["questions"]
    fields = [["name", "<b>"], ["n", "3"], ["share", "0.123457"], ["new", "yes"]]
    assert question["item"] == {"kind": "record", "fields": fields}
    assert field_text(False) == "no"


def test_numbers_of_a_column_with_gaps_are_shown_as_they_were_written():
    numbers = [2021.0, 1250000.0, 12345678.0, 123456.78, -1250000.0, 0.1 + 0.2, 1 / 3]
    written = ["2021", "1250000", "12345678", "123456.78", "-1250000", "0.3", "0.333333"]
    assert [field_text(number) for number in numbers] == written


@pytest.mark.parametrize(
    ("name", "article"),
    [("cat", "a"), ("owl", "an"), ("unicorn", "a"), ("user", "a"), ("umbrella", "an"), ("Apple", "an"), ("8", "an")]
    + [("European hare", "a"), ("one-way street", "a"), ("18", "an"), ("180", "a"), ("11", "an"), ("3", "a")],
)
def test_the_article_fits_the_class(name, article):
    assert with_article("Is this a {}?", name) == f"Is this {article} {{}}?"


def test_other_questions_keep_their_words():
    assert with_article("Siehst du da {}?", "Esel") == "Siehst du da {}?"


# ---- when the store fails -------------------------------------------------------------------------------------------


def test_a_store_that_cannot_write_is_not_acknowledged_and_told_in_one_line(web, store, monkeypatch):
    (question,) = web.get("/api/next").json()["questions"]

    def fail(request):
        raise StoreError("cannot write /home/somebody/answers.db: the disk is full")

    monkeypatch.setattr(store, "submit", fail)
    response = web.post("/api/answers", {"answers": [answer_of(question)]})
    assert response.status_code == 503
    assert response.json() == {"error": "the store cannot be used just now; try again"}
    assert response.headers["retry-after"] == "2"


def test_an_unexpected_error_tells_nothing(web, store, monkeypatch):
    monkeypatch.setattr(store, "progress", lambda annotator, age: 1 / 0)
    response = web.get("/api/progress")
    assert response.status_code == 500
    assert response.json() == {"error": "something went wrong on the server; its log says what"}
    assert "nosniff" in response.headers["x-content-type-options"]


# ---- pictures -------------------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    for kind in ("png", "jpg", "gif", "webp", "bmp", "tiff"):
        Image.new("RGB", (30, 20), (200, 10, 10)).save(folder / f"x.{kind}")
    Image.new("RGB", (30, 20), (202, 12, 12)).save(folder / "png.jpeg", "PNG")  # its ending lies
    with Store.open(tmp_path / "p.db", project=Project(CLASSES)) as store:
        store.register(image_item(path, path.name) for path in sorted(folder.iterdir()))
        yield store, folder


def test_pictures_are_what_their_bytes_say(pictures):
    store, _ = pictures
    web = Client(make_app(store, Site(open=True)))
    kinds = {}
    for item in store.items():
        response = web.get(f"/media/{item.id}")
        shown = np.asarray(Image.open(io.BytesIO(response.content)).convert("RGB"), dtype=int)
        assert shown.shape == (20, 30, 3)
        assert np.abs(shown - (200, 10, 10)).max() <= 4
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-security-policy"] == MEDIA_POLICY
        assert "immutable" in response.headers["cache-control"]
        kinds[Path(item.path).suffix] = response.headers["content-type"]
    png = (".png", ".gif", ".webp", ".bmp", ".tiff", ".jpeg")
    assert kinds == dict.fromkeys(png, "image/png") | {".jpg": "image/jpeg"}


def test_a_file_that_was_exchanged_is_not_served(pictures):
    store, folder = pictures
    web = Client(make_app(store, Site(open=True)))
    item = next(iter(store.items()))
    path = Path(item.path)
    path.unlink()
    assert "no longer there" in web.get(f"/media/{item.id}").json()["error"]
    path.symlink_to(folder.parent / "secret.txt")
    response = web.get(f"/media/{item.id}")
    assert response.status_code == 404
    assert "changed since it was registered" in response.json()["error"]


def test_a_registered_file_that_is_no_picture_is_not_served_as_one(store, tmp_path):
    for i, body in enumerate((b"<svg onload='x'>", b"<html>", b"", b"%PDF")):
        path = tmp_path / f"{i}.png"
        path.write_bytes(body)
        item = Item(hashlib.sha256(body).hexdigest()[:32], "image", path.name, str(path))
        store.register([item])
        response = Client(make_app(store, Site(open=True))).get(f"/media/{item.id}")
        assert (response.status_code, response.json()) == (415, {"error": "this file is no picture that can be shown"})


def test_previews_are_small_and_the_full_picture_is_whole_and_neither_says_where_it_was_taken(store, tmp_path):
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Secret Camera"  # turned by 90 degrees
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 15.0)})
    rng = np.random.default_rng(0)
    photo = Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)).resize((3000, 2000))
    path = tmp_path / "photo.jpg"
    photo.save(path, exif=exif, comment=b"Secret comment", quality=95)
    assert Image.open(path).getexif().get_ifd(0x8825)
    store.register([item := image_item(path, "photo.jpg")])
    web = Client(make_app(store, Site(open=True)))
    sizes = {"320": (213, 320), "1280": (853, 1280), "2560": (1707, 2560), "full": (2000, 3000)}
    bodies = {size: web.get(f"/media/{item.id}?size={size}").content for size in sizes}
    for size, shape in sizes.items():
        seen = Image.open(io.BytesIO(bodies[size]))
        assert seen.size == shape, "upright"
        assert not seen.getexif()
        assert b"Secret" not in bodies[size]
    assert len(bodies["1280"]) < path.stat().st_size / 3
    whole = np.asarray(Image.open(io.BytesIO(bodies["full"])), dtype=int)
    assert np.abs(whole - np.asarray(photo.rotate(-90, expand=True), dtype=int)).mean() < 2
    assert web.get(f"/media/{item.id}").content == bodies["1280"]
    assert web.get(f"/media/{item.id}?size=4000").status_code == 422


def test_texts_have_no_picture(web, store):
    item = next(iter(store.items()))
    assert web.get(f"/media/{item.id}").json() == {"error": "no picture has this id"}


TRAVERSALS = [
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..%252f..%252fetc%252fpasswd",
    "..\\..\\etc\\passwd",
    "%2fetc%2fpasswd",
    "x.png",
    "pictures%2fx.png",
    "%00",
    "0" * 31,
    "G" * 32,
    "0" * 32 + "%0a",
    "file:%2f%2f%2fetc%2fpasswd",
]


@pytest.mark.parametrize("path", TRAVERSALS)
@pytest.mark.parametrize("base", ["/media/", "/static/", "/"])
def test_no_path_reaches_the_file_system(pictures, path, base, monkeypatch):
    store, _ = pictures
    app = make_app(store, Site(open=True))
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail(f"{self} was read"))
    response = Client(app).get(httpx.URL(f"http://127.0.0.1:8000{base}{path}"))
    assert response.status_code in (404, 422), response.text
    assert list(response.json()) == ["error"]


def test_raw_paths_over_a_real_connection_reach_nothing(pictures):
    import socket

    store, _ = pictures
    with served(lambda site: make_app(store, site)) as site:
        for path in (
            "/media/../../../../etc/passwd",
            "/static/../app.py",
            "//etc/passwd",
            "/media/..%2f..%2fp.db",
            "*",
        ):
            with socket.create_connection(("127.0.0.1", site.port), timeout=120) as line:
                line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n\r\n".encode())
                reply = line.recv(65536)
            assert re.match(rb"HTTP/1.1 4\d\d", reply), path
            assert b"root:" not in reply


# ---- texts that are meant to be more than texts ---------------------------------------------------------------------

EVIL = "<script>alert(1)</script>'\"; DROP TABLE answer; --{{7*7}}${7*7}"


def test_names_are_only_names(tmp_path):
    project = Project((EVIL, "b"), name=EVIL)
    with Store.open(tmp_path / "evil.db", project=project) as store:
        store.register([text_item(EVIL, EVIL)])
        site = Site("0.0.0.0", 8000)
        web = Client(make_app(store, site))
        token = store.admit(store.new_link(owner_of(store).id))
        headers = POST | {"authorization": f"Bearer {token}"}
        made = web("POST", "/api/invite", headers=headers, json={"name": EVIL})
        assert made.status_code == 200
        for path in ("/", "/dashboard"):
            page = web("GET", path, headers=headers).text
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
            assert "{{7*7}}" in page  # shown, not computed
        figures = web("GET", "/api/dashboard", headers=headers)
        assert figures.headers["content-type"] == "application/json"
        assert EVIL in [one["name"] for one in figures.json()["people"]]
        assert store.progress().items == 1


def test_no_script_writes_html_and_no_page_loads_from_elsewhere():
    """Where nothing makes HTML of texts and nothing comes from outside, the policy is only the second lock."""
    for name, (body, kind, _) in pages.static.items():
        if kind == "font/woff2":
            continue
        text = body.decode()
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), (
                name
            )
        links = [link for link in re.findall(r"https?://[^\s\"')]+", text) if not link.startswith("http://www.w3.org/")]
        assert links == [], name
        assert "@import" not in text
    found = survey_pages.templates
    assert set(found.list_templates()) > set(pages.templates.list_templates())
    for name in found.list_templates():
        source = found.loader.get_source(found, name)[0]
        assert not re.search(r"\bstyle=|\son\w+=|\|\s*safe|https?://", source), name


# ---- pages and errors -----------------------------------------------------------------------------------------------


def test_pages_are_for_people_and_errors_for_both(web):
    page = web.get("/", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert "Animals" in page.text
    missing = web.get("/nothing", headers={"accept": "text/html"})
    assert missing.status_code == 404
    assert "<h1>Nothing here</h1>" in missing.text
    assert web.get("/nothing").json() == {"error": "there is nothing at this address"}
    wrong = web("DELETE", "/api/progress", headers=POST | {"content-type": "application/json"})
    assert (wrong.status_code, wrong.json()) == (405, {"error": "this address does not take this method"})


def test_an_app_has_its_own_files_and_the_shared_ones_and_none_in_the_place_of_another():
    assert {"base.css", "survey.css", "call.js"} <= set(survey_pages.static)
    assert "survey.css" not in pages.static
    shared, own = (set(files(name).joinpath("static").iterdir()) for name in ("naysayer.collect", "naysayer.survey"))
    assert not {file.name for file in shared} & {file.name for file in own}
    assert not set(Environment(loader=PackageLoader("naysayer.survey")).list_templates()) & set(
        pages.templates.list_templates()
    )


def test_static_files_are_kept_and_asked_for_again(web):
    first = web.get("/static/ask.js")
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    again = web.get("/static/ask.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert web.get("/static/nothing.js").json() == {"error": "there is no such file"}


# ---- the owner ------------------------------------------------------------------------------------------------------


def test_inviting_and_ending(store):
    site = Site("0.0.0.0", 8000)
    web = Client(make_app(store, site))
    me = owner_of(store)
    headers = POST | {"authorization": f"Bearer {store.admit(store.new_link(me.id))}"}

    def post(path, body):
        return web("POST", path, headers=headers, json=body)

    made = post("/api/invite", {"name": "Ann"}).json()
    token = made["link"].removeprefix(f"{site.origin}/join#")
    secret = store.admit(token)
    assert store.annotator_by_token(secret).name == "Ann"
    assert post("/api/revoke", {"id": made["id"]}).json() == {"id": made["id"]}
    assert store.annotator_by_token(secret) is None
    assert post("/api/revoke", {"id": "nobody"}).json() == {"error": "nobody has this id"}
    assert post("/api/revoke", {"id": me.id}).json() == {"error": "you cannot end your own link"}
    assert "1 to 200 characters" in post("/api/invite", {"name": "a\nb"}).json()["error"]
    assert post("/api/invite", {"name": "   "}).status_code == 422


def test_on_this_machine_nobody_can_be_invited(web):
    assert "start with --host or --public" in web.post("/api/invite", {"name": "Ann"}).json()["error"]


def collected(store, n, error=0.0):
    """Let two people answer n questions, the second of whom errs now and then; deterministic."""
    people = [owner_of(store), store.add_annotator("Ben")[0]]
    for i in range(n):
        who = people[i % 2]
        (question,) = store.ask(who.id)
        true = f"a {CLASSES[question.class_index]}." in question.item.content
        wrong = i % 2 and error and i % round(1 / error) == 1
        value = "skip" if i % 17 == 16 else "yes" if true != bool(wrong) else "no"
        store.answer(Answer(f"x{i}", question.id, who.id, value, 1000 + i))


def test_the_figures_are_those_of_the_store(web, store):
    empty = web.get("/api/dashboard").json()
    assert (empty["over_time"], empty["report"], empty["margins"]) == (None, None, None)
    collected(store, 60)
    detail = {"unanswered": 40, "named": 0.75, "notes": ["photos become features"]}
    store.add_training(n_answers=40, method="forward", estimate=0.7, low=0.6, high=0.9)  # as earlier releases did
    store.add_training(n_answers=50, method="forward", estimate=0.8, low=0.7, high=0.9, detail=detail)
    found, deadline = empty, time.monotonic() + 300
    while found["over_time"] is None and time.monotonic() < deadline:  # after a count that took long the next one waits
        found = web.get("/api/dashboard").json()
    standing = list(store.standing())
    assert found["progress"]["answers"] == 60
    assert sum(found["over_time"]["counts"]) == 60
    assert sum(one["answers"] for one in found["people"]) == 60
    for k, one in enumerate(found["per_class"]):
        for value in ("yes", "no", "skip"):
            assert one[value] == sum(s.class_index == k and s.value == value for s in standing)
    assert len(found["report"]["priors"]) == 3
    assert sum(one["estimate"] for one in found["report"]["asked"]) == pytest.approx(1)
    assert [one["estimate"] for one in found["trainings"]] == [0.7, 0.8]
    assert [{name: one[name] for name in detail} for one in found["trainings"]] == [dict.fromkeys(detail), detail]
    points = found["margins"]["points"]
    assert [point["n"] for point in points] == sorted(point["n"] for point in points)
    used = from_standing(standing, store.project.classes).design  # of each item, until its class is known, each once
    assert found["margins"]["answers"] == (used.value >= 0).sum() <= sum(one.value != "skip" for one in standing)
    assert not found["margins"]["guided"]


def test_figures_where_only_the_answer_to_a_repeated_question_stands(tmp_path):
    with Store.open(tmp_path / "repeats.db", project=Project(CLASSES)) as store:
        store.register([text_item("A cat.", "row 1")])
        ann, ben = store.add_annotator("Ann")[0].id, store.add_annotator("Ben")[0].id
        (question,) = store.ask(ann)
        store.answer(Answer("a1", question.id, ann, "no"))
        (row,) = store.rows("question")
        store.load("question", [row | {"id": "again", "annotator": ben, "repeat_of": question.id}])
        store.answer(Answer("a2", "again", ben, "no"))
        store.undo(ann, "u1")
        assert [one.id for one in store.standing()] == ["a2"]
        found = Client(make_app(store, Site(open=True))).get("/api/dashboard")
    assert found.status_code == 200
    assert found.json()["report"]["asked"] == []


def test_a_margin_is_what_the_last_training_had_where_there_is_one():
    planned = dashboard.margins(1000, 5, 0.02)
    last = Training(1, 0.0, 1000, "forward", 0.9, 0.9 - 2 * planned["now"], 0.92, {})
    found = dashboard.margins(1000, 5, 0.02, last)
    assert found["now"] == pytest.approx(0.9 - last.low, rel=0.01)
    assert found["points"][-1]["n"] == pytest.approx(4 * planned["points"][-1]["n"], rel=0.1)
    assert dashboard.margins(4000, 5, 0.02, last)["now"] == pytest.approx(found["now"] / 2, rel=0.1)


def test_figures_are_not_counted_again_for_nothing_nor_too_often(store, monkeypatch):
    now, counted = [0.0], []
    figures = dashboard.Figures(store, clock=lambda: now[0])
    real = dashboard.examine
    monkeypatch.setattr(
        dashboard, "examine", lambda answers: counted.append(1) or now.append(now.pop() + 1) or real(answers)
    )
    collected(store, 20)
    for _ in range(3):
        figures()
    assert len(counted) == 1
    cleo, _ = store.add_annotator("Cleo")
    assert [one["name"] for one in figures()["people"]][2:] == ["Cleo"]  # who is invited, or ends, is seen at once
    (question,) = store.ask(cleo.id)
    store.answer(Answer("cleo", question.id, cleo.id, "no"))
    store.revoke(cleo.id)
    last = figures()["people"][-1]
    assert (last["ended"], last["answers"]) == (True, 0)  # it took a second: the next count has to wait
    now[0] += 30
    assert figures()["people"][-1]["answers"] == 1
    assert len(counted) == 2


@pytest.mark.parametrize(
    ("times", "step", "counts"),
    [([0.0], 60, [1]), ([0.0, 3600.0], 300, [1] + [0] * 11 + [1]), ([59.0, 61.0], 60, [1, 1])]
    + [([0.0, 1e6], 24 * 3600, [1] + [0] * 10 + [1]), ([0.0, 1e9], 29 * 7 * 24 * 3600, None)]
    + [([-6e10, 2.5e11], 8838 * 7 * 24 * 3600, None)],
)
def test_bars_of_time_are_round_and_not_too_many(times, step, counts):
    found = dashboard.over_time(times)
    assert found["step"] == step
    assert counts is None or found["counts"] == counts
    assert len(found["counts"]) <= dashboard.MOST_BARS
    assert sum(found["counts"]) == len(times)


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_same_store_gets_the_same_port(tmp_path):
    name = str(tmp_path / "answers.db")  # not one fixed port, on which somebody else may listen
    usual = 20000 + zlib.crc32(name.encode()) % 10000
    with listen("127.0.0.1", None, name) as first:
        assert first.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's delay on, and replies wait 40 ms
        assert first.getsockname()[1] == usual
        first.listen()
        with listen("127.0.0.1", None, name) as second:  # taken: any other
            assert second.getsockname()[1] != usual
    with listen("127.0.0.1", None, name) as third:
        assert third.getsockname()[1] == usual
    with listen("127.0.0.1", 0, "") as taken:
        taken.listen()
        with pytest.raises(ValueError, match=r"cannot listen on 127\.0\.0\.1 port \d+: "):
            listen("127.0.0.1", taken.getsockname()[1], "")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text("text\nA cat.\nA dog.\nAn owl.\n")
    return path


def start(*arguments):
    """The command as its own process, once it has printed that it is there."""
    command = [sys.executable, "-m", "naysayer", "ask", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    while "Control-C" not in (lines[-1] if lines else ""):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    return process, "".join(lines)


def stop(process):
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_the_command_serves_stops_and_goes_on(table, tmp_path):
    arguments = (
        table,
        "--classes",
        "cat,dog,owl",
        "--store",
        tmp_path / "a.db",
        "--question",
        "Can you see a {class}?",
    )
    process, said = start(*arguments)
    assert "3 items, 3 of them new; classes: cat, dog, owl" in said
    web = let_in(re.search(r"open (http://127\.0\.0\.1:\d+/join#\S+)", said)[1])
    for path in ("/", "/dashboard", "/api/next", "/api/dashboard"):  # others may be logged in on this machine
        assert httpx.get(f"{web.base_url}{path}", timeout=120).status_code == 401
    (question,) = web.get("/api/next").json()["questions"]
    assert question["before"] in ("Can you see a ", "Can you see an ")
    body = {"answers": [answer_of(question)]}
    web.post("/api/answers", json=body).raise_for_status()
    code, out, err = stop(process)
    assert (code, err) == (0, "")
    assert "stopped; 1 answer in" in out
    table.write_text(table.read_text() + "A fox.\n")
    process, said = start(*arguments)
    assert "4 items, 1 of them new" in said
    assert str(web.base_url) in said  # the same port: a page left open goes on, without a new link
    assert web.get("/api/progress").json()["own"] == 1
    assert stop(process)[0] == 0


@pytest.fixture
def told(naysayer, table, tmp_path, monkeypatch):
    """Start the command, and stop it as soon as it has said where it is."""
    monkeypatch.setattr(serving, "serve", lambda app, listener, ready: ready())

    def run(*more):
        done = naysayer("ask", table, "--classes", "cat,dog", "--store", tmp_path / "a.db", "--port", 0, *more)
        assert (done.code, done.err) == (0, "")
        return done.out

    return run


def test_photos_are_trained_on_in_two_views_where_that_is_wanted(naysayer, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(serving, "serve", lambda app, listener, ready: ready())
    monkeypatch.setattr(Trainer, "__enter__", lambda self: started.append(self._options) or self)
    monkeypatch.setattr(Trainer, "__exit__", lambda self, *_: None)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (30, 20)).save(tmp_path / "photos" / "a.png")
    line = ["ask", tmp_path / "photos", "--classes", "cat,dog", "--store", tmp_path / "a.db", "--port", 0]
    for more in (["--train", "--views", 2], ["--questions", "guided", "--views", 2], ["--train"]):
        assert naysayer(*line, *more).code == 0
    assert started == [{"views": 2}, {"views": 2}, {}]


def test_links_stay_when_the_command_starts_again_until_it_is_told_otherwise(told, tmp_path):
    outside = ("--host", "0.0.0.0", "--invite", "Ann")
    said = [told(), told(), told(*outside), told(*outside, "--invite", "Ben", "--days", 7)]
    links = [re.findall(r"/join#(\S+)", one) for one in said]
    assert list(map(len, links)) == [1, 1, 2, 3]
    warning = "Ann was invited before: this link is one more for the same person, and the others still work."
    assert [one.count("was invited before") for one in said] == [0, 0, 0, 1]
    assert warning in said[3]
    with Store.open(tmp_path / "a.db") as store:
        secrets = [store.admit(link) for one in (*links[:2], links[2][1:], links[3][1:]) for link in one]
        names = [store.annotator_by_token(secret).name for secret in secrets]
        assert names == ["owner", "owner", "Ann", "Ann", "Ben"]
    told("--end-links")
    with Store.open(tmp_path / "a.db") as store:
        assert {store.annotator_by_token(secret) for secret in secrets} == {store.admit(links[2][0])} == {None}


def test_an_open_site_says_so(told):
    said = told("--open")
    assert re.search(r"open http://127\.0\.0\.1:\d+\n", said)
    assert "Everybody on this machine can answer and see everything; without --open they need the link." in said
    assert "join#" not in said


def test_guided_questions_are_turned_on_for_a_store(table, tmp_path):
    path = tmp_path / "a.db"
    with Store.open(path, project=Project(("cat", "dog"))) as store:
        store.register([text_item("A cat.", "1")])
    process, said = start(path, "--questions", "guided", "--goal", "model")
    assert "1 item, 0 of them new; classes: cat, dog" in said
    web = let_in(re.search(r"open (http://127\.0\.0\.1:\d+/join#\S+)", said)[1])
    assert len(web.get("/api/next").json()["questions"]) == 1  # at random, before any model
    assert web.get("/api/dashboard").json()["trains"]
    assert stop(process)[0] == 0
    with Store.open(path) as store:
        assert (store.project.questions, store.project.goal) == ("guided", "model")


def test_the_command_prints_links_for_those_outside(table, tmp_path):
    process, said = start(
        table, "--classes", "cat,dog", "--store", tmp_path / "a.db", "--host", "0.0.0.0", "--invite", "Ann"
    )
    port = re.search(r"for owner: http://\S+:(\d+)/join#\S+", said)[1]
    token = re.search(r"for Ann: \S+/join#(\S+)", said)[1]
    ann = let_in(f"http://127.0.0.1:{port}/join#{token}")
    assert "put a proxy with https in front" in said
    here = f"http://127.0.0.1:{port}/api/progress"
    assert httpx.get(here, timeout=120).status_code == 401
    assert ann.get("/api/progress").json()["items"] == 3
    assert stop(process)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--classes", "cat"], "at least 2 classes"),
        (["--classes", "cat,dog", "--question", "What?"], "--question must have {class} once"),
        (["--classes", "cat,dog", "--probabilities", "0.5,x"], "--probabilities must be numbers"),
        (["--classes", "cat,dog", "--probabilities", "0.5"], "one for each of 2 classes"),
        (["--classes", "cat,dog", "--invite", "Ann"], "--invite needs an address that others reach"),
        (["--classes", "cat,dog", "--days", "3"], "--days must come with --invite NAME, whose link is to end"),
        (
            ["--classes", "cat,dog", "--host", "0.0.0.0", "--invite", "Ann", "--days", "0"],
            "--days must be above 0; got 0",
        ),
        (["--classes", "cat,dog", "--host", "0.0.0.0", "--open"], "only this machine's own address can do without"),
        (["--classes", "cat,dog", "--public", "x"], "must be like https://labels.example.org"),
        (
            ["--classes", "cat,dog", "--train", "--views", "2"],
            "2 views are for photos; the items are texts; use 1 view",
        ),
        (["--classes", "cat,dog", "--views", "2"], "--views must come with --train, or guided questions, for which "),
        (["--classes", "cat,dog", "--host", "203.0.113.7"], "cannot listen on 203.0.113.7 port"),
    ],
)
def test_a_mistake_is_one_line(table, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.setattr(sys, "argv", ["naysayer", "ask", str(table), "--store", str(tmp_path / "a.db"), *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    _, err = capsys.readouterr()
    assert exit_.value.code == 2
    assert err.count("\n") == 1
    assert words in err
    assert not (tmp_path / "a.db").exists() or "cannot listen" in words  # the next try may be with other classes


def test_probabilities_stay_once_there_are_answers(table, tmp_path, monkeypatch, capsys):
    with Store.open(tmp_path / "a.db", project=Project(("cat", "dog"))) as store:
        store.register([text_item("A cat.", "1")])
        (question,) = store.ask(owner_of(store).id)
        store.answer(Answer("a", question.id, owner_of(store).id, "no"))
    arguments = [str(table), "--classes", "cat,dog", "--store", str(tmp_path / "a.db"), "--probabilities", "0.2,0.8"]
    monkeypatch.setattr(sys, "argv", ["naysayer", "ask", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    assert "must stay as they are once there are answers" in capsys.readouterr().err


# ---- the description ------------------------------------------------------------------------------------------------


def test_the_description_says_what_there_is(web):
    described = web.get("/api/openapi.json").json()
    assert set(described["paths"]) == {
        *("/api/next", "/api/answers", "/api/undo", "/api/progress", "/media/{item_id}"),
        *("/api/guidelines", "/guide/{example_id}"),
        *("/api/dashboard", "/api/invite", "/api/revoke", "/api/join", "/api/items", "/api/remove"),
        *("/api/people", "/api/leave-out", "/api/let-in", "/api/disagreements", "/api/settle", "/api/reopen"),
    }
    for path in described["paths"].values():
        for operation in path.values():
            assert operation["description"]
            assert "4XX" in operation["responses"]


def test_the_description_holds_whatever_is_sent(store):
    """Requests made up from the description: nothing fails, and every answer is as described."""
    with served(lambda site: unlimited(make_app(store, site))) as site:
        seen = fuzz(site.origin, POST)
    statuses = {status for _, _, status in seen}
    assert 200 in statuses
    assert 429 not in statuses
    assert store.progress().items == 40
