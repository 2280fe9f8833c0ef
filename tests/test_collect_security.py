"""The guard: who gets in, what a request may be, and what every response carries."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import httpx
import pytest
from sqlalchemy import select

from browser import served
from helpers import raises
from naysayer.collect import schema, security, tokens
from naysayer.collect.app import make_app
from naysayer.collect.people import invite_to, owner_of
from naysayer.collect.records import Project
from naysayer.collect.security import Buckets, Guard, Site, is_loopback, network_of, reachable, token_of
from naysayer.collect.store import Store
from naysayer.data.items import text_item

POST = {"x-naysayer": "1", "content-type": "application/json"}


class Person:
    id = "somebody"


async def hello(scope, receive, send):
    """An app that tells the body and the person it was given, and fails when told to."""
    message = await receive()
    if message["body"] == b"fail":
        raise RuntimeError("secret path /etc/secret")
    who = scope["state"]["person"]
    body = json.dumps({"body": len(message["body"]), "who": who and who.id}).encode()
    headers = [(b"content-type", b"application/json"), (b"server", b"told")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def ask(guard, method="GET", path="/", *, base="http://127.0.0.1:8000", **options):
    """One request to an app, without a network."""

    async def run():
        transport = httpx.ASGITransport(guard, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


def local(**options):
    return Guard(hello, Site(open=True), lambda token: None, Person(), **options)


def closed(**options):
    site = Site("0.0.0.0", 8000)
    return Guard(hello, site, lambda token: Person() if token == "right" else None, **options)


def assert_refused(response, status, words):
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert words in response.json()["error"]
    assert response.headers["content-security-policy"] == security.POLICY


def test_the_comparison_sees_what_is_not_refused():
    with pytest.raises(AssertionError):
        assert_refused(ask(local()), 403, "")


# ---- where the app is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("site", "is_local", "origin"),
    [
        (Site(), True, "http://127.0.0.1:8000"),
        (Site("localhost", 81), True, "http://localhost:81"),
        (Site("::1", 81), True, "http://[::1]:81"),
        (Site("192.168.1.7", 81), False, "http://192.168.1.7:81"),
        (Site("127.0.0.1", 81, "https://labels.example.org/"), False, "https://labels.example.org"),
    ],
)
def test_a_site_knows_whether_only_this_machine_reaches_it(site, is_local, origin):
    assert (site.local, site.origin) == (is_local, origin)


def test_a_site_that_listens_everywhere_names_an_address_that_others_find():
    site = Site("0.0.0.0", 81)
    assert not site.local
    assert "0.0.0.0" not in site.origin
    assert site.hosts is None
    assert reachable("10.0.0.1") == "10.0.0.1"
    assert not is_loopback("example.org")


@pytest.mark.parametrize("public", ["labels.example.org", "ftp://x", "https://x/path", "https://x?q=1", ""])
def test_a_public_address_is_checked(public):
    with raises("the public address must be like https://labels.example.org"):
        Site(public=public)


@pytest.mark.parametrize("where", [{"host": "192.168.1.7"}, {"public": "https://x.org"}])
def test_only_this_machine_can_be_open(where):
    with raises("only this machine's own address can do without links; got http"):
        Site(open=True, **where)
    assert Site("localhost", open=True).open


def test_cookies_are_out_of_reach():
    plain = Site("0.0.0.0", 81).set_cookie("t")
    assert plain.startswith("naysayer-81=t; Path=/;")
    assert "HttpOnly; SameSite=Strict" in plain
    assert "Secure" not in plain
    secure = Site("127.0.0.1", 81, "https://x.org").set_cookie("t")
    assert secure.startswith("__Host-naysayer=t; Path=/;")
    assert secure.endswith("; Secure")


def test_a_link_carries_its_token_where_servers_do_not_see_it():
    assert Site("127.0.0.1", 81, "https://x.org").invitation("t") == "https://x.org/join#t"


# ---- who it is ------------------------------------------------------------------------------------------------------


def test_only_an_open_site_needs_no_token():
    assert ask(local()).json()["who"] == "somebody"
    assert ask(Guard(hello, Site(), lambda token: None, Person())).json()["who"] is None
    assert ask(closed()).json()["who"] is None
    assert ask(closed(), headers={"cookie": "naysayer-8000=right"}).json()["who"] == "somebody"
    assert ask(closed(), headers={"cookie": "a=b; naysayer-8000=right"}).json()["who"] == "somebody"
    assert ask(closed(), headers={"authorization": "Bearer right"}).json()["who"] == "somebody"
    for wrong in ({"cookie": "naysayer-8000=wrong"}, {"authorization": "Bearer wrong"}, {"authorization": "right"}):
        assert ask(closed(), headers=wrong).json()["who"] is None


@pytest.mark.parametrize("cookie", ["", ";;;", "naysayer=", 'naysayer="', "\x01=1; naysayer", "naysayer[]=x"])
def test_a_broken_cookie_is_none(cookie):
    assert token_of({"cookie": cookie}, "naysayer") is None


@pytest.mark.parametrize("other", ['prefs={"a": 1}', "list[]=1", "words=a b\xe9", "flag", "=", "naysayer=old"])
def test_the_cookies_of_others_on_this_host_do_not_hide_ours(other):
    assert token_of({"cookie": f"{other}; naysayer=token; {other.replace('naysayer', 'x')}"}, "naysayer") == "token"


# ---- where it comes from --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:9", "localhost", "127.0.0.1.evil.example:8000", "a@b", ""])
def test_another_name_for_this_machine_is_refused(host):
    assert_refused(ask(local(), headers={"host": host}), 421, "this server answers to http://127.0.0.1:8000 only")


@pytest.mark.parametrize("host", ["localhost:8000", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_its_own_names_are_not(host):
    assert ask(local(), headers={"host": host}).status_code == 200


def test_behind_a_proxy_nobody_passes_as_local():
    for name in security.FORWARDED:
        assert_refused(ask(local(), headers={name: "1.2.3.4"}), 421, "start it with --public")


def test_a_public_name_is_the_only_one():
    guard = Guard(hello, Site("127.0.0.1", 81, "https://x.org"), lambda token: None)
    assert ask(guard, headers={"host": "x.org"}).status_code == 200
    assert_refused(ask(guard, headers={"host": "127.0.0.1:81"}), 421, "answers to https://x.org only")
    headers = {**POST, "host": "x.org", "origin": "http://x.org"}
    assert_refused(ask(guard, "POST", headers=headers), 403, "other sites")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_posts_from_other_sites_are_refused(headers):
    assert_refused(ask(local(), "POST", headers=POST | headers, content=b"{}"), 403, "from other sites")


def test_other_sites_may_link_but_not_read():
    cross = {"sec-fetch-site": "cross-site"}
    assert ask(local(), headers=cross | {"sec-fetch-mode": "navigate"}).status_code == 200
    assert_refused(ask(local(), path="/api/x", headers=cross | {"sec-fetch-mode": "navigate"}), 403, "other sites")
    for mode in ("no-cors", "cors", "websocket"):
        assert_refused(ask(local(), headers=cross | {"sec-fetch-mode": mode}), 403, "from other sites")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_is_refused(kind):
    assert_refused(ask(local(), "POST", headers={"content-type": kind}), 403, "must carry the header X-Naysayer: 1")
    assert_refused(ask(local(), "POST", headers=POST | {"content-type": kind}), 415, "must be application/json")


def test_our_own_page_may_post():
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert ask(local(), "POST", headers=POST | own, content=b"{}").json()["body"] == 2


def test_a_header_that_decides_comes_once():
    headers = [("host", "127.0.0.1:8000"), ("host", "evil.example")]
    assert_refused(ask(local(), headers=headers), 400, "the header host must come once")


# ---- how much -------------------------------------------------------------------------------------------------------


def test_a_body_has_a_limit_told_or_not():
    most = security.LIMIT_BYTES
    assert ask(local(), "POST", headers=POST, content=b"x" * most).json()["body"] == most
    assert_refused(ask(local(), "POST", headers=POST, content=b"x" * (most + 1)), 413, "at most 65536 bytes")

    async def pieces():
        for _ in range(100):
            yield b"x" * 1024

    assert_refused(ask(local(), "POST", headers=POST, content=pieces()), 413, "at most 65536 bytes")


def test_a_large_body_is_given_up_while_it_comes():
    read = []

    async def receive():
        read.append(1)
        return {"type": "http.request", "body": b"x" * 1024, "more_body": True}

    with pytest.raises(security.Refused):
        asyncio.run(security.read_body({}, receive))
    assert len(read) == 65  # of a body without an end


def test_a_body_that_breaks_off_is_refused():
    async def receive():
        return {"type": "http.disconnect"}

    with pytest.raises(security.Refused, match="ended before its body did"):
        asyncio.run(security.read_body({}, receive))


def test_a_slow_body_is_given_up(monkeypatch):
    monkeypatch.setattr(security, "LIMIT_SECONDS", 0.2)

    async def slowly():
        for _ in range(50):
            yield b"x"
            await asyncio.sleep(0.05)

    assert_refused(ask(local(), "POST", headers=POST, content=slowly()), 408, "must come within 0.2 seconds")


def test_a_slow_body_over_a_real_connection_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(security, "LIMIT_SECONDS", 0.3)
    with (
        Store.open(tmp_path / "a.db", project=Project(("a", "b"))) as store,
        served(lambda site: make_app(store, site)) as site,
        socket.create_connection(("127.0.0.1", site.port), timeout=120) as line,
    ):
        head = "POST /api/undo HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Naysayer: 1\r\nContent-Type: application/json\r\n"
        line.sendall(head.format(site.port).encode() + b"Content-Length: 1000\r\n\r\n{")
        assert line.recv(100).startswith(b"HTTP/1.1 408")


def test_rates_are_limited_by_address_and_by_person():
    now = [0.0]
    guard = closed(known=Buckets(1, 3), unknown=Buckets(1, 2), clock=lambda: now[0])
    mine = {"authorization": "Bearer right"}
    assert ask(guard, headers=mine).status_code == 200
    assert [ask(guard).status_code for _ in range(3)] == [200, 200, 429]
    assert_refused(ask(guard), 429, "too many requests")
    assert ask(guard).headers["retry-after"] == "1"
    assert [ask(guard, headers=mine).status_code for _ in range(3)] == [200, 200, 429]
    now[0] += 1
    assert [ask(guard).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),  # IPv4 on a port that takes both, where all of it must not be one network
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:7:7:7:7", "2001:db8:1:2::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_network_is_what_one_household_has(address, network):
    assert network_of(address) == network


def test_guessing_tokens_is_limited_whatever_is_guessed():
    guard = closed(unknown=Buckets(1, 5), clock=lambda: 0.0)
    tries = [ask(guard, headers={"authorization": f"Bearer {i}"}).status_code for i in range(8)]
    assert tries == [200] * 5 + [429] * 3


def test_a_refused_guess_is_not_even_looked_up():
    people, looked = {"right": Person(), "later": Person()}, []

    def identify(token):
        looked.append(token)
        return people.get(token)

    guard = Guard(hello, Site("0.0.0.0", 8000), identify, unknown=Buckets(1, 5), clock=lambda: 0.0)

    def tries(*tokens):
        return [ask(guard, headers={"authorization": f"Bearer {token}"}).status_code for token in tokens]

    assert tries("right", *range(8)) == [200] * 6 + [429] * 3
    assert looked == ["right", "0", "1", "2", "3", "4"]
    assert tries("later") == [429]  # nobody can know that it is no guess
    assert tries("right") == [200]  # whoever was somebody before gets in, whatever others at this address do
    del people["right"]
    assert tries("right", "right") == [429, 429]
    assert looked[6:] == ["right", "right"]  # once more, and then it is a guess as any other


def test_guesses_at_once_are_counted_before_they_are_looked_up():
    looked = []

    def identify(token):
        time.sleep(0.02)  # so that all are under way before the first is known to be wrong
        looked.append(token)

    guard = Guard(hello, Site("0.0.0.0", 8000), identify, unknown=Buckets(1, 5), clock=lambda: 0.0)

    async def tries():
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            asked = [client.get("/", headers={"authorization": f"Bearer {i}"}) for i in range(40)]
            return [one.status_code for one in await asyncio.gather(*asked)]

    assert sorted(asyncio.run(tries())) == [200] * 5 + [429] * 35
    assert len(looked) == 5


def test_many_behind_one_address_come_again_at_once_after_a_start():
    """None of them is known yet, so that each may be a guess; as many wrong ones are refused."""
    looked = []

    def identify(token):
        time.sleep(0.01)
        looked.append(token)
        return Person() if token.startswith("right") else None

    guard = Guard(hello, Site("0.0.0.0", 8000), identify, unknown=Buckets(1, 5), clock=lambda: 0.0)

    async def tries(tokens):
        transport = httpx.ASGITransport(guard)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            asked = [client.get("/", headers={"authorization": f"Bearer {token}"}) for token in tokens]
            return [one.status_code for one in await asyncio.gather(*asked)]

    right, wrong = ([f"{kind} {i}" for i in range(40)] for kind in ("right", "wrong"))
    assert asyncio.run(tries(right)) == [200] * 40
    assert sorted(asyncio.run(tries(wrong))) == [200] * 5 + [429] * 35
    assert asyncio.run(tries(right)) == [200] * 40  # they are known now
    assert sum(token in wrong for token in looked) == 5
    assert not guard._looked_up


def test_a_class_behind_one_address_gets_in_at_once(tmp_path):
    with Store.open(tmp_path / "a.db", project=Project(("a", "b"))) as store:
        app = make_app(store, Site("0.0.0.0", 8000))
        tokens = [store.add_annotator(f"Person {i}")[1] for i in range(40)]
        seen = set()
        for token in tokens:
            for path in ("/join", "/static/base.css", "/static/join.js", "/static/call.js", "/static/icon.svg"):
                seen.add(ask(app, "GET", path).status_code)
            seen.add(ask(app, "POST", "/api/join", headers=POST, json={"token": token}).status_code)
        assert seen == {200}


def test_guessing_links_is_limited_too():
    guard = closed(arriving=Buckets(1, 5), clock=lambda: 0.0)
    tries = [ask(guard, "POST", "/api/join", headers=POST, json={"token": f"{i}"}).status_code for i in range(8)]
    assert tries[5:] == [429] * 3
    assert ask(guard).status_code == 200, "other pages have limits of their own"


def test_buckets_forget_the_longest_unseen():
    buckets = Buckets(rate=1, burst=1, size=2)
    assert [buckets.wait(key, 0.0) for key in "aab"] == [0.0, 1.0, 0.0]
    assert buckets.wait("c", 0.0) == 0.0
    assert buckets.wait("a", 0.0) == 0.0  # forgotten
    assert buckets.wait("c", 0.5) == 0.5
    buckets.give_back("c", 0.5)
    assert [buckets.wait("c", 0.5) for _ in range(2)] == [0.0, 1.0], "never more than `burst`"
    buckets.give_back("new", 0.5)
    assert [buckets.wait("new", 0.5) for _ in range(2)] == [0.0, 1.0], "nothing was taken that could be given back"


# ---- what every response carries ------------------------------------------------------------------------------------


def test_every_response_is_locked_down():
    headers = ask(local()).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_a_failure_tells_nothing():
    response = ask(local(), "POST", headers=POST, content=b"fail")
    assert_refused(response, 500, "something went wrong on the server")
    assert "secret" not in response.text


def test_web_sockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(local()({"type": "websocket"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


# ---- tokens against a store -----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "answers.db", project=Project(("cat", "dog"))) as opened:
        opened.register([text_item("one", "1"), text_item("two", "2")])
        yield opened


def test_tokens_are_needed_checked_hashed_and_revocable(store):
    site = Site("0.0.0.0", 8000)
    app = make_app(store, site)
    person, link = invite_to(store, "Ann")
    token = store.admit(link)
    paths = ["/api/next", "/api/progress", "/media/" + "0" * 32, "/api/dashboard", "/", "/dashboard"]
    for path in paths:
        assert ask(app, path=path).status_code == 401, path
        assert ask(app, path=path, headers={"cookie": f"naysayer-8000={token[:-1]}x"}).status_code == 401, path
    mine = {"cookie": f"naysayer-8000={token}"}
    assert ask(app, path="/api/next", headers=mine).status_code == 200
    for path in ("/dashboard", "/api/dashboard"):
        assert_refused(ask(app, path=path, headers=mine), 403, "only the owner")
    for path, body in (("/api/invite", {"name": "Eve"}), ("/api/revoke", {"id": person.id})):
        assert_refused(ask(app, "POST", path, headers=mine | POST, json=body), 403, "only the owner")
    for table in ("meta", "annotator", "question", "answer"):
        assert token not in str(list(store.rows(table)))
    store.revoke(person.id)
    for path in paths:
        assert ask(app, path=path, headers=mine).status_code == 401, path


def test_known_tokens_are_looked_up_once_in_a_while_and_unknown_ones_each_time(store, monkeypatch):
    monkeypatch.setattr("naysayer.collect.links.RECALL_SECONDS", 1e9)  # however long this takes
    asked = []
    real = store.annotator_by_token
    monkeypatch.setattr(store, "annotator_by_token", lambda token: asked.append(token) or real(token))
    app = make_app(store, Site("0.0.0.0", 8000))
    token = store.admit(invite_to(store, "Ann")[1])
    for _ in range(3):
        assert ask(app, path="/api/progress", headers={"cookie": f"naysayer-8000={token}"}).status_code == 200
        assert ask(app, path="/api/progress", headers={"cookie": "naysayer-8000=wrong"}).status_code == 401
    assert asked.count(token) == 1
    assert asked.count("wrong") == 3


def join(app, link, **headers):
    return ask(app, "POST", "/api/join", headers=POST | headers, json={"token": link})


def test_a_link_is_exchanged_once_for_a_secret_of_its_own(store):
    """It stays in the history of a browser, where whoever sits there next finds it."""
    site = Site("0.0.0.0", 8000)
    app = make_app(store, site)
    person, link = invite_to(store, "Ann")
    joined = join(app, link)
    assert joined.json() == {"to": "/"}
    secret = joined.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert joined.headers["set-cookie"] == site.set_cookie(secret)
    assert len(secret) >= 22
    assert store.annotator_by_token(secret) == person
    assert link not in str(joined.headers)
    for headers in ({"cookie": f"naysayer-8000={link}"}, {"authorization": f"Bearer {link}"}):
        assert ask(app, path="/api/progress", headers=headers).status_code == 401
    assert_refused(join(app, link), 401, "this link does not work; it was opened before, or has ended")
    assert_refused(join(app, secret), 401, "does not work")
    again = join(app, link, cookie=f"naysayer-8000={secret}")  # in the browser that it was opened in
    assert again.json() == {"to": "/"}
    assert again.headers["set-cookie"] == site.set_cookie(secret)


def test_the_owner_goes_on_to_the_dashboard_and_on_this_machine_to_the_questions(store):
    for site, to in ((Site("0.0.0.0", 8000), "/dashboard"), (Site(), "/")):
        assert join(make_app(store, site), store.new_link(owner_of(store).id)).json() == {"to": to}


def test_a_name_that_is_invited_again_is_the_same_person_with_one_more_link(store):
    (first, old), (second, new) = invite_to(store, "Ann"), invite_to(store, " Ann ")
    assert first.id == second.id
    for link in (old, new):
        assert store.annotator_by_token(store.admit(link)) == first


def test_the_owner_is_told_of_a_name_that_was_invited_before(store):
    app = make_app(store, Site("0.0.0.0", 8000))
    mine = POST | {"authorization": f"Bearer {store.admit(store.new_link(owner_of(store).id))}"}
    invite = [ask(app, "POST", "/api/invite", headers=mine, json={"name": name}).json() for name in ("Ann", "Ann ")]
    assert [one["known"] for one in invite] == [False, True]
    assert invite[0]["id"] == invite[1]["id"]


def test_links_and_what_they_opened_stay_when_another_server_begins(where):
    """As `ask` does when it starts, on the same file or on the same PostgreSQL."""
    with Store.open(where, project=Project(("cat", "dog"))) as first:
        _, ann = invite_to(first, "Ann")
        owner = first.new_link(owner_of(first).id)
        opened = first.admit(invite_to(first, "Ben")[1])
        with Store.open(where) as second:
            second.new_link(owner_of(second).id)
            assert second.annotator_by_token(opened).name == "Ben"
            assert second.annotator_by_token(second.admit(ann)).name == "Ann"
            assert first.annotator_by_token(second.admit(owner)).role == "owner"
            assert first.admit(ann) is None
            left = second.new_link(owner_of(second).id)
            second.end_links()  # until told otherwise
            assert second.admit(left) is second.annotator_by_token(opened) is second.recall(opened) is None


def test_a_link_can_have_an_end_and_so_has_what_it_opened(store, monkeypatch):
    app = make_app(store, Site("0.0.0.0", 8000))
    mine = POST | {"authorization": f"Bearer {store.admit(store.new_link(owner_of(store).id))}"}
    links = [
        ask(app, "POST", "/api/invite", headers=mine, json={"name": "Ann", "days": 1}).json()["link"].partition("#")[2]
        for _ in range(2)
    ]
    secret, now = store.admit(links[0]), time.time()
    assert store.annotator_by_token(secret).name == "Ann"
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    monkeypatch.setattr(store, "_recalled", {})
    assert store.admit(links[1]) is store.annotator_by_token(secret) is None
    monkeypatch.setattr(time, "time", lambda: now)
    for days in (0, -1, 1e9):
        assert ask(app, "POST", "/api/invite", headers=mine, json={"name": "Ann", "days": days}).status_code == 422


def test_a_secret_ends_after_some_months_and_what_ended_is_removed(store, monkeypatch):
    ann, link = invite_to(store, "Ann")
    secret, now = store.admit(link), time.time()
    monkeypatch.setattr(time, "time", lambda: now + tokens.SESSION_SECONDS + 1)
    assert store.annotator_by_token(secret) is None
    store.admit(store.new_link(ann.id))
    with store._database.reading() as connection:
        kept = connection.execute(select(schema.token)).all()
    assert tokens.hash_token(secret) not in str(kept)
    assert len(kept) == 1


def test_ending_a_link_ends_what_it_opened_for_good(store):
    ann, link = invite_to(store, "Ann")
    secret, unopened = store.admit(link), store.new_link(ann.id)
    store.revoke(ann.id)
    assert store.annotator_by_token(secret) is store.admit(unopened) is None
    assert store.annotator_by_token(store.admit(store.new_link(ann.id))).id == ann.id
    assert store.annotator_by_token(secret) is store.admit(unopened) is None


# ---- what others on this machine, or in the same room, may try ------------------------------------------------------


def test_a_page_elsewhere_cannot_have_a_browser_draw_questions(store):
    app = make_app(store, Site(open=True))
    for site in ("cross-site", "same-site"):  # same-site: another port of this machine
        headers = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
        assert_refused(ask(app, path="/api/next", headers=headers), 403, "from other sites")
    assert list(store.rows("question")) == []


def test_a_class_behind_one_address_can_join_at_once(store):
    app = make_app(store, Site("0.0.0.0", 8000))
    files = ["/join", *(f"/static/{name}" for name in ("base.css", "join.js", "call.js", "icon.svg"))]
    for i in range(40):
        assert {ask(app, path=path).status_code for path in files} == {200}
        assert join(app, invite_to(store, f"Pupil {i}")[1]).status_code == 200


def test_a_body_with_two_lengths_is_refused(store):
    """A proxy that goes by one and a server that goes by the other see two different requests."""
    with served(lambda site: make_app(store, site)) as site:
        head = (
            f"POST /api/undo HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nX-Naysayer: 1\r\n"
            "Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", site.port), timeout=120) as line:
            line.sendall(head.encode() + b"2\r\n{}\r\n0\r\n\r\n")
            reply = b"".join(iter(lambda: line.recv(4096), b""))  # to its end: what else was smuggled in is not read
    assert reply.startswith(b"HTTP/1.1 400")
    assert b"Content-Length or Transfer-Encoding, not both" in reply
    assert reply.count(b"HTTP/1.1") == 1


def test_a_link_from_another_site_is_loaded_once_more(store):
    """Browsers hold the cookie back on the way from elsewhere."""
    app = make_app(store, Site("0.0.0.0", 8000))
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    response = ask(app, headers=headers)
    assert response.status_code == 200
    assert response.headers["refresh"] == "0; url=/"
    assert response.content == b""


def test_tokens_are_compared_in_the_same_time_wherever_they_differ(store, monkeypatch):
    """Not by a clock, which would be of no use here: the comparison is the one that is made for it."""
    import hmac

    seen = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: seen.append(1) or real(a, b))
    token = store.admit(invite_to(store, "Ann")[1])
    seen.clear()
    assert store.annotator_by_token(token) is not None
    assert seen
