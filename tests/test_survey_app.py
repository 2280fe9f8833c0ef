"""The survey's server: what it takes, refuses and shows, who may see the results, and that it keeps nothing else."""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from browser import served
from fuzzing import fuzz
from naysayer import cli
from naysayer.collect import serving
from naysayer.collect.database import StoreError
from naysayer.collect.security import LIMIT_BYTES, Site
from naysayer.survey.app import ForgetfulBuckets, make_app
from naysayer.survey.pages import percent, points, privacy_numbers
from naysayer.survey.privacy import respondents_needed
from naysayer.survey.questions import Option, Survey, SurveyQuestion
from naysayer.survey.store import SurveyStore

BAD = '<script>alert("x")</script>'
SURVEY = Survey(
    f"Title {BAD}",
    f"First paragraph {BAD}.\n\nSecond one.",
    (
        SurveyQuestion("age", f"How old? {BAD}", tuple(Option(f"a{k}", f"Age {k} {BAD}") for k in range(3))),
        SurveyQuestion("vote", "For whom?", tuple(Option(f"v{k}", f"Party {k}") for k in range(4)), "complementary"),
        SurveyQuestion(
            "leave", "Will you leave?", tuple(Option(f"l{k}", f"Leave {k}") for k in range(3)), "calibrated", 2.0
        ),
        SurveyQuestion("stole", "Ever stolen?", (Option("y", "Yes"), Option("n", "No")), "randomised_response", 1.0),
        SurveyQuestion("wish", "A wish?", tuple(Option(f"w{k}", f"Wish {k}") for k in range(6)), "subset", 0.5),
    ),
)
LOCAL = Site("127.0.0.1", 8000)
PUBLIC = Site("127.0.0.1", 8000, "https://survey.example.org")
SENT = {"content-type": "application/json", "x-naysayer": "1"}


@pytest.fixture
def store(tmp_path):
    store = SurveyStore(tmp_path / "survey.db", SURVEY)
    yield store
    store.close()


@pytest.fixture
def client(store):
    return TestClient(make_app(SURVEY, store, LOCAL), base_url=LOCAL.origin, raise_server_exceptions=False)


def letter(name=1, **answers):
    return {"id": f"{name:032x}", "answers": answers or {"vote": {"not": "v1"}}}


def send(client, store, body, **headers):
    content = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return client.post(f"/s/{store.key}/answers", content=content, headers=SENT | headers)


def join(client, token):
    return client.post("/api/join", content=json.dumps({"token": token}), headers=SENT)


# ---- respondents ----------------------------------------------------------------------------------------------


def test_answers_are_stored_once(client, store):
    said = {"age": {"is": "a2"}, "vote": {"not": "v0"}, "leave": {"not": "l1"}, "stole": {"drawn": "y"}}
    said["wish"] = {"drawn": ["w0", "w4"]}
    body = letter(**said)
    assert send(client, store, body).json() == {"new": True}
    assert send(client, store, body).json() == {"new": False}
    assert send(client, store, letter(2)).json() == {"new": True}
    assert store.answers() == [said, {"vote": {"not": "v1"}}], "what was shown, word for word"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "the body: field required"),
        ("{", "JSON decode error"),
        ("[]", "the body: input should be"),
        ("null", "the body: "),
        ({"answers": {"vote": {"not": "v1"}}}, "id: field required"),
        ({"id": "1", "answers": {"vote": {"not": "v1"}}}, "id: string should match pattern"),
        ({"id": "F" * 32, "answers": {"vote": {"not": "v1"}}}, "id: string should match pattern"),
        ({"id": 5, "answers": {"vote": {"not": "v1"}}}, "id: input should be a valid string"),
        ({"id": "0" * 32, "answers": {}}, "answers: dictionary should have at least 1 item"),
        ({"id": "0" * 32, "answers": {"vote": "v1"}}, "answers.vote: input should be a valid dictionary"),
        ({"id": "0" * 32, "answers": {"vote": {"not": 1}}}, "answers.vote.not.str: input should be a valid string"),
        (letter(vote={"not": ["v1"]}), "the answer to 'vote' must be {\"not\": option}"),
        (letter(wish={"drawn": "w1"}), "the answer to 'wish' must be {\"drawn\": [2 options]}"),
        (letter(wish={"drawn": ["w1"]}), "the answer to 'wish' must name 2 different options; got 1"),
        (letter(wish={"drawn": ["w1", "w1"]}), "the answer to 'wish' must name 2 different options; got 2"),
        (letter(wish={"drawn": ["w1", "v1"]}), "the answer to 'wish' must name one of its options; got 'v1'"),
        (letter(wish={"drawn": ["w1"] * 51}), "the answer to 'wish' must name 2 different options; got 51"),
        ({**letter(), "ip": "1.2.3.4"}, "ip: extra inputs are not permitted"),
        (letter(hair={"is": "red"}), "answers must be to questions of this survey; got 'hair'"),
        (letter(vote={"is": "v1"}), "the answer to 'vote' must be {\"not\": option}"),
        (letter(vote={"not": "v1", "is": "v2"}), "the answer to 'vote' must be {\"not\": option}"),
        (letter(vote={}), "the answer to 'vote' must be {\"not\": option}"),
        (letter(vote={"not": "a1"}), "the answer to 'vote' must name one of its options; got 'a1'"),
        (letter(vote={"not": "'; DROP TABLE submission; --"}), "the answer to 'vote' must name one of its options"),
    ],
)
def test_a_malformed_letter_is_refused_in_one_shape(client, store, body, words):
    response = send(client, store, body)
    assert response.status_code == 422
    assert list(response.json()) == ["error"]
    assert words.lower() in response.json()["error"].lower()
    assert "\n" not in response.json()["error"]
    assert store.count() == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"x-naysayer": "0"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"host": "evil.example"}, 421),
    ],
)
def test_other_sites_can_send_nothing(client, store, headers, status):
    response = send(client, store, letter(), **headers)
    assert (response.status_code, list(response.json()), store.count()) == (status, ["error"], 0)


def test_large_letters_and_unknown_links_are_refused(client, store):
    response = send(client, store, b" " * (64 * 1024 + 1))
    assert (response.status_code, list(response.json())) == (413, ["error"])
    for path in ("/s/wrong", "/s/wrong/privacy", f"/s/{store.key}x", "/s/", "/static/..%2Fsurvey.py"):
        assert client.get(path).status_code == 404, path
    response = client.post("/s/wrong/answers", content=json.dumps(letter()), headers=SENT)
    assert (response.status_code, response.json()) == (
        404,
        {"error": "no survey has this address; open the link as you got it"},
    )
    page = client.get("/s/wrong", headers={"accept": "text/html"})
    assert "open the link as you got it." in page.text


def test_the_longest_letter_that_a_page_can_write_is_taken(tmp_path):
    """Of each of ten questions it names 25 options of 400 bytes; the page writes them as they are, unescaped."""
    options = tuple(Option("\U0001f642" * 97 + f"{k:3}", f"{k}") for k in range(50))
    survey = Survey("Long", "", tuple(SurveyQuestion(f"q{k}", "?", options, "subset", 0.01) for k in range(10)))
    store = SurveyStore(tmp_path / "long.db", survey)
    client = TestClient(make_app(survey, store, LOCAL), base_url=LOCAL.origin)
    answers = {q.id: q.stored(range(q.size)) for q in survey.questions}
    written = json.dumps(letter(**answers), ensure_ascii=False).encode()
    assert len(written) > LIMIT_BYTES
    assert send(client, store, written).status_code == 200
    assert store.answers() == [answers]
    assert send(client, store, written + b" " * 10**4).status_code == 413
    store.close()


def test_a_full_disk_is_told_and_can_be_tried_again(client, store, monkeypatch):
    def full(*_):
        raise StoreError("cannot write /secret/place: the disk is full")

    monkeypatch.setattr(store, "add", full)
    response = send(client, store, letter())
    assert (response.status_code, response.json()) == (503, {"error": "the store cannot be used just now; try again"})


def test_pages_show_texts_as_text_and_load_nothing_from_elsewhere(client, store):
    token = store.new_link()
    join(client, token)
    for k in range(400):
        send(client, store, letter(k, age={"is": "a0"}, vote={"not": "v2"}, leave={"not": "l0"}, stole={"drawn": "y"}))
    for path in (f"/s/{store.key}", f"/s/{store.key}/privacy", "/results", "/results/prediction/vote"):
        response = client.get(path)
        assert response.status_code == 200, path
        assert BAD not in response.text
        assert not re.search(r"""(src|href|action)=["']?(https?:)?//""", response.text), path
        assert not re.search(r"\son\w+=|style=", response.text), path
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["referrer-policy"] == "no-referrer"
    assert "&lt;script&gt;" in client.get("/results").text


def test_respondents_get_no_cookie_and_no_form_for_private_answers(client, store):
    response = client.get(f"/s/{store.key}")
    assert "set-cookie" not in response.headers
    assert "<form" not in response.text
    assert "<input" not in response.text
    assert not re.search(r"\sname=(?!\"(viewport|color-scheme|theme-color)\")", response.text)


def test_the_script_gets_the_matrix_that_the_estimates_use(client, store):
    text = client.get(f"/s/{store.key}").text
    found = json.loads(re.search(r'<script type="application/json" id="questions">(.*?)</script>', text)[1])
    for told, question in zip(found, SURVEY.questions, strict=True):
        n, size = len(question.options), told["size"] or 1
        assert told["options"] == [option.id for option in question.options]
        assert told["says"] == question.says
        assert (told["size"] is None) == (question.mode != "subset")
        sets = list(itertools.combinations(range(n), size))
        with_it, without = math.comb(n - 1, size - 1), math.comb(n - 1, size)
        drawn = [[told["truth"] / with_it if k in s else (1 - told["truth"]) / without for s in sets] for k in range(n)]
        np.testing.assert_allclose(drawn, question.transition, atol=1e-15)


def test_the_privacy_page_promises_no_order_where_the_database_keeps_one(client, store):
    promise = "the time of day, the order in which people answered."
    assert promise in client.get(f"/s/{store.key}/privacy").text
    store.unordered = False  # as on PostgreSQL, where rows lie as they came
    text = client.get(f"/s/{store.key}/privacy").text
    assert promise not in text
    assert "in which order they came" in text


def test_the_privacy_page_says_what_holds_with_its_numbers(client, store):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", client.get(f"/s/{store.key}/privacy").text))
    assert "This is not differential privacy" in text
    assert "δ = 1/(K − 1) = 0.333 at every ε" in text
    assert "With so few options this is weak" in text
    assert "Repeated surveys add up" in text
    assert "The ε of this survey sum to 3.5, not counting the complementary labels" in text
    assert "Your device stores 2 of the 6 options, drawn at random: the one you chose is among them" in text
    assert "No result of fewer than 10 people" in text
    assert "results from before and after you answered differ by your answers" in text
    assert "only a draw is sent, which by chance may name that option" in text
    assert "reloading the page does not draw again" in text
    assert "With probability 6.3% it is the very option you chose" in text  # 1 / (1 + 2 e²)
    assert "the one you chose with probability 73.1%" in text  # e / (e + 1)
    assert "randomised response with ε = 1.06 needs about the same number of people and rules nothing out" in text
    for mode, epsilon in (("complementary", None), ("calibrated", 2.0), ("randomised_response", 0.5)):
        assert f"{respondents_needed(mode, 4, epsilon, 0.05):,}" in text
    entries = privacy_numbers(SURVEY)["private"]
    assert [entry["question"].id for entry in entries] == ["vote", "leave", "stole", "wish"]
    assert "complementary" not in entries[2]["needed"], "with two options it is refused"
    assert entries[0]["left"][0] == (1, 3.0, 0.0)


def test_what_is_nearly_certain_is_not_said_to_be_certain(tmp_path):
    """In 0.0001% of draws is not in none of them; nor does a factor of 22,026 hide much."""
    many = tuple(Option(f"o{k}", f"Option {k}") for k in range(50))
    modes = (("calibrated", many), ("subset", many), ("randomised_response", many[:2]))
    questions = tuple(SurveyQuestion(mode[:3], "Which?", options, mode, 10.0) for mode, options in modes)
    survey = Survey("Odds", "", (*questions, SurveyQuestion("not", "Which?", many[:5], "complementary")), minimum=1)
    with closing(SurveyStore(tmp_path / "odds.db", survey)) as store:
        client = TestClient(make_app(survey, store, LOCAL), base_url=LOCAL.origin)
        page, privacy = (client.get(f"/s/{store.key}{path}").text for path in ("", "/privacy"))
    assert "In 0.0001% of draws it denies the option that was chosen" in page
    assert "the chosen option in 99.995% of draws" in page
    assert "among them in 99.8% of draws, any other in 0.005%" in page
    assert not re.search(r"\b0(\.0+)?%|\b100(\.0+)?%", page)
    *others, last = re.split(r'<section class="panel card"', privacy)[1:]
    for section in others:
        assert not re.search(r"\b0(\.0+)?%|\b100(\.0+)?%", section)
        assert "<b>22,026 times</b> more or less likely. So large a factor hides little." in section
    assert "Option 0: 0%" in last, "a complementary label does rule it out"
    assert "Results, however few people have answered." in privacy


# ---- the owner ------------------------------------------------------------------------------------------------

OWNED = ("/results", "/results/prediction/vote", "/api/results")


@pytest.mark.parametrize("site", [LOCAL, PUBLIC], ids=["local", "public"])
def test_results_are_for_the_owner_alone(store, site):
    headers = {"host": "survey.example.org"} if site.public else {}
    client = TestClient(make_app(SURVEY, store, site), base_url=site.origin, headers=headers)
    link, token = store.new_link(), store.admit(store.new_link())
    for path in OWNED:
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get(path, headers={"authorization": f"Bearer {link}"}).status_code == 401
        assert client.get(path, headers={"cookie": f"{site.cookie}={store.key}"}).status_code == 401
        assert list(client.get(path).json()) == ["error"]
        assert client.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert join(client, "wrong").status_code == 401
    joined = join(client, link)
    assert link not in joined.headers["set-cookie"]
    assert joined.json() == {"to": "/results"}
    cookie = joined.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert ("Secure" in cookie) == bool(site.public)
    assert client.get("/results").status_code == 200
    store.new_link()
    assert client.get("/results").status_code == 200, "a new link ends nothing"
    client.cookies.clear()
    assert join(client, link).status_code == 401, "it was opened before"
    assert client.get("/results", headers={"authorization": f"Bearer {token}"}).status_code == 200
    store.end_links()
    assert client.get("/results", headers={"authorization": f"Bearer {token}"}).status_code == 401


@pytest.mark.parametrize("site", [LOCAL, PUBLIC], ids=["local", "public"])
def test_a_survey_opens_by_its_link_alone(store, site):
    """On this machine's own address too: others may be logged in here."""
    client = TestClient(make_app(SURVEY, store, site), base_url=site.origin)
    assert client.get("/").status_code == 404
    assert client.get(f"/s/{store.key}").status_code == 200
    assert send(client, store, letter()).json() == {"new": True}


@pytest.fixture
def owner(client, store):
    join(client, store.new_link())
    return client


def test_the_mark_of_every_page_leads_somewhere(owner, store):
    """Nothing is at the site's start, where other apps have theirs."""
    link = f"/s/{store.key}"
    for path, to in ((link, link), (f"{link}/privacy", link), ("/results", "/results")):
        assert re.search(r'<a class="mark" href="([^"]+)"', owner.get(path).text)[1] == to


def fill(store, n, seed=0):
    """Store n respondents' answers, the draws made here; give their true ones."""
    rng = np.random.default_rng(seed)
    truth = {q.id: rng.integers(len(q.options), size=n) for q in SURVEY.questions}
    truth["vote"] = np.where(rng.random(n) < 0.8, truth["age"], truth["vote"])
    for i in range(n):
        drawn = {q.id: rng.choice(len(q.outcomes), p=q.transition[truth[q.id][i]]) for q in SURVEY.questions}
        store.add(f"{i:032x}", {q.id: q.stored(q.outcomes[drawn[q.id]]) for q in SURVEY.questions})
    return truth


def test_results_show_shares_tables_and_predictions(owner, store):
    assert "No answers yet" in owner.get("/results").text
    assert store.key in owner.get("/results").text
    fill(store, 600)
    page = owner.get("/results").text
    assert "600</b> people have answered" in page
    assert page.count('<svg class="bar-chart"') == sum(len(q.options) for q in SURVEY.questions)
    assert "Too few answers to rely on" in page
    assert "Shares within each column" in page
    assert "Shares of all 600 people" in owner.get("/results?rows=vote&columns=leave").text
    assert owner.get("/results?rows=%3Cb%3E&columns=' OR 1=1").status_code == 200
    prediction = owner.get("/results/prediction/vote").text
    assert "The other answers add" in prediction
    assert owner.get("/results/prediction/vote").text == prediction, "learned once"
    assert owner.get("/results/prediction/age").status_code == 404
    found = owner.get("/api/results").json()
    assert found["respondents"] == 600
    assert len(found["tables"]) == 10


def test_few_answers_show_no_result(owner, store):
    fill(store, 9)
    page = owner.get("/results").text
    assert "9</b> people have answered" in page
    assert '<svg class="bar-chart"' not in page
    assert page.count("Results are shown from 10 answers on; there are 9.") == len(SURVEY.questions)
    assert "Too few people to show: a table takes 10 who answered both" in page
    found = owner.get("/api/results").json()
    assert (found["minimum"], found["tables"]) == (10, [])
    assert [q["shares"] for q in found["questions"]] == [[]] * len(SURVEY.questions)


def test_a_table_says_who_is_not_in_it(owner, store):
    for i in range(60):
        age = {"age": {"is": "a2" if i < 3 else f"a{i % 2}"}}
        store.add(f"{i:032x}", age | {"vote": {"not": f"v{i % 4}"}})
    page = owner.get("/results?rows=vote&columns=age").text
    assert "13 people who answered both are not in this table" in page
    assert "A dash stands for a group of fewer than 10 people." in page
    assert page.count('<td class="none"') == 4
    assert "n = 50" not in page


def test_a_table_says_what_the_dashes_of_an_empty_group_are(owner, store):
    for i in range(60):
        store.add(f"{i:032x}", {"age": {"is": f"a{i % 2}"}, "vote": {"not": f"v{i % 4}"}})
    page = owner.get("/results?rows=vote&columns=age").text
    assert page.count('<td class="none"') == 4
    assert "A dash stands for a group of fewer than 10 people." in page
    assert "not in this table" not in page


def test_a_question_alone_has_no_table(tmp_path):
    survey = Survey("One", "", SURVEY.questions[1:2])
    store = SurveyStore(tmp_path / "one.db", survey)
    client = TestClient(make_app(survey, store, LOCAL), base_url=LOCAL.origin)
    join(client, store.new_link())
    store.add("0" * 32, {"vote": {"not": "v0"}})
    page = client.get("/results").text
    assert "Two questions together" not in page
    assert "1</b> person has answered" in page
    store.close()


def test_two_public_questions_have_no_table(tmp_path):
    """Its cells would show exactly what one to nine people answered, however large the groups are."""
    options = tuple(Option(name, name) for name in ("x", "y"))
    team, floor = (SurveyQuestion(name, f"Your {name}?", options) for name in ("team", "floor"))
    for n_private in (0, 1):
        survey = Survey("Few", "", (team, floor, SURVEY.questions[1])[: 2 + n_private])
        store = SurveyStore(tmp_path / f"{n_private}.db", survey)
        client = TestClient(make_app(survey, store, LOCAL), base_url=LOCAL.origin)
        join(client, store.new_link())
        for i in range(60):
            about = {"team": {"is": "xy"[i % 2]}, "floor": {"is": "y" if i == 1 else "x"}, "vote": {"not": f"v{i % 4}"}}
            store.add(f"{i:032x}", {q.id: about[q.id] for q in survey.questions})
        page = client.get("/results?rows=team&columns=floor").text
        _, _, form = page.partition('name="columns"')
        columns = re.findall(r'<option value="(\w+)" *(selected)?', form.partition("</select>")[0])
        assert columns == [("vote", "selected")] * n_private
        assert ("Two questions together" in page) == bool(n_private)
        assert ("the people who gave that answer" in client.get("/results?rows=vote&columns=floor").text) == n_private
        store.close()


def test_numbers_for_people():
    assert [percent(v) for v in (-0.3, 0.004, 0.255, 1.7)] == ["0%", "0%", "26%", "100%"]
    assert [points(v) for v in (-0.034, -0.003, 0.1, 2.4, -3.1)] == ["−3", "0", "10", "100", "−100"]


# ---- nothing else is kept -------------------------------------------------------------------------------------


def test_rate_limits_hold_without_keeping_an_address():
    limits = ForgetfulBuckets(rate=1, burst=2)
    assert [limits.wait("192.0.2.7", 0.0) for _ in range(3)] == [0, 0, 1]
    assert limits.wait("192.0.2.8", 0.0) == 0
    limits.give_back("192.0.2.7", 0.0)
    assert [limits.wait("192.0.2.7", 0.0) for _ in range(2)] == [0, 1]
    assert "192.0.2" not in repr(vars(limits))


def test_a_flood_is_slowed_down(client, store, monkeypatch):
    monkeypatch.setattr(client.app, "unknown", ForgetfulBuckets(rate=0.001, burst=3))
    answers = [client.get(f"/s/{store.key}/privacy") for _ in range(5)]
    assert [a.status_code for a in answers] == [200, 200, 200, 429, 429]
    assert list(answers[-1].json()) == ["error"]


def test_no_address_and_no_browser_is_stored_or_logged(client, store, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    secret = {"user-agent": "UserAgentMarker/1.0", "accept-language": "xx-marker"}
    send(client, store, letter(), **secret)
    send(client, store, letter(vote={"not": "nobody"}), **secret)
    send(client, store, "{", **secret)
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    store.close()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for marker in ("UserAgentMarker", "xx-marker", "testclient", "nobody"):
        assert marker not in logged
        assert marker.encode() not in written


def test_whatever_the_description_allows_gets_an_answer_that_it_describes(store):
    """Fuzzed with the real link and the owner's token, so that requests come past both."""
    headers = SENT | {"authorization": f"Bearer {store.admit(store.new_link())}"}

    def with_key(case):
        if "key" in case.path_parameters:
            case.path_parameters["key"] = store.key

    with served(lambda site: make_app(SURVEY, store, site)) as site:
        seen = {(path, status) for _, path, status in fuzz(site.origin, headers, alter=with_key)}
    assert {("/api/results", 200), ("/s/{key}/answers", 404), ("/s/{key}/answers", 422)} <= seen


# ---- the command ----------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path):
    file = tmp_path / "lunch.toml"
    file.write_text(Path("examples/survey.toml").read_text(encoding="utf8"), encoding="utf8")
    return file


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command in this process: its exit code, and what it printed."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["naysayer", "survey", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code, *capsys.readouterr()

    return command


def test_the_command_serves_and_tells_the_results(place, run):
    command = [sys.executable, "-m", "naysayer", "survey", str(place), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            told = ""
            while not told.endswith("}\n"):
                line = server.stdout.readline()
                assert line, server.stderr.read()
                told += line
            links = json.loads(told)
            with urllib.request.urlopen(links["respondents"], timeout=120) as response:
                assert b"Work and well-being" in response.read()
            body = json.dumps({"id": "0" * 32, "answers": {"team": {"is": "Sales"}, "stress": {"not": "Money"}}})
            request = urllib.request.Request(f"{links['respondents']}/answers", body.encode(), SENT)
            with urllib.request.urlopen(request, timeout=120) as response:
                assert json.load(response) == {"new": True}
            assert "/join#" in links["results"]
        finally:
            server.send_signal(signal.SIGINT)
            rest, errors = server.communicate(timeout=300)
    assert (server.returncode, rest, errors) == (0, "", "")
    code, out, err = run(place, "--results")
    assert (code, err) == (0, "")
    assert "Work and well-being: 1 respondent;" in out
    assert "no result is shown for fewer than 10" in out
    assert "Results are shown from 10 answers on; there is 1." in out
    assert "Nobody has answered this yet." in out
    found = json.loads(run(place, "--results", "--json")[1])
    assert [q["answers"] for q in found["questions"]] == [1, 0, 1, 0, 0, 0]
    assert [p["problem"][:7] for p in found["predictions"]] == ["Too few"] * 4


def test_links_for_others_come_with_a_warning(place, run, monkeypatch):
    monkeypatch.setattr(serving, "serve", lambda app, listener, ready: (listener.close(), ready()))
    code, out, _ = run(place, "--host", "0.0.0.0")
    assert code == 0
    assert "Work and well-being: 6 questions, 4 of them private" in out
    assert "put a proxy with https in front" in out
    code, out, _ = run(place, "--public", "https://survey.example.org")
    assert "respondents, the same link for all: https://survey.example.org/s/" in out
    assert "the results:             https://survey.example.org/join#" in out
    assert "proxy" not in out


def test_mistakes_are_one_line(place, tmp_path, run):
    for arguments, words in [
        ((tmp_path / "none.toml",), "no survey file at"),
        ((place, "--results"), "no store of answers at"),
        ((place, "--store", "mysql://x/y"), "a store must be the path of a SQLite file or a postgresql:// URL"),
        ((place, "--public", "example"), "the public address must be like https://labels.example.org; got 'example'"),
        ((place, "--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
    ]:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert words in err
        assert err.count("\n") == 1
