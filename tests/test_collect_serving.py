"""Connections: how many, how long, and who makes room; against real sockets, with limits of parts of a second."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from subprocess import PIPE, Popen

import httpx
import pytest

from browser import let_in, served
from naysayer.collect.app import make_app
from naysayer.collect.people import owner_of
from naysayer.collect.records import Project
from naysayer.collect.security import Guard
from naysayer.collect.serving import LIMITS, Limits, Line
from naysayer.collect.store import Store
from naysayer.data.items import text_item

PATIENCE = 120
LONG = 1e6
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1"


class App:
    """An app that answers at once, or on /slow when it is told to, or on /long with more than anybody takes."""

    def __init__(self):
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return
        if scope["path"] == "/slow":
            self.begun.set()
            await asyncio.to_thread(self.go.wait, PATIENCE)
        pieces = 200 if scope["path"] == "/long" else 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for i in range(pieces):
            piece = b"x" * (1 << 20) if pieces > 1 else b"here"
            await send({"type": "http.response.body", "body": piece, "more_body": i < pieces - 1})
        self.ended.set()


@contextmanager
def serving(app, **limits):
    """Serve an app with these limits, and none besides; give what opens connections to it."""
    every = {"request": LONG, "idle": LONG, "lines": 1000, "per_address": 1000} | limits
    with (
        served(lambda site: Guard(app, site, lambda token: None), limits=Limits(**every), open=True) as site,
        ExitStack() as opened,
    ):

        def connect(source="127.0.0.1", said=b""):
            line = socket.create_connection(("127.0.0.1", site.port), PATIENCE, (source, 0))
            opened.enter_context(line)
            line.sendall(said.replace(b"PORT", str(site.port).encode()))
            return line

        yield connect


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n".encode()


def answered(line):
    """Wait for the reply; False: the connection was closed instead."""
    try:
        return line.recv(1000).startswith(b"HTTP/1.1 200")
    except ConnectionResetError:
        return False


def is_closed(line):
    """Wait until the other side closes a connection on which it has nothing to say."""
    try:
        return line.recv(1000) == b""
    except ConnectionResetError:
        return True


ATTACK = """
import socket, sys
port, n = map(int, sys.argv[1:])
lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(n)]
for line in lines[::2]:
    try:
        line.sendall(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1")
    except OSError:  # closed to make room for others
        pass
print("open", flush=True)
sys.stdin.read()
"""


def test_a_thousand_idle_connections_lock_nobody_out(tmp_path):
    """From the owner's own address, so that a limit per address alone would shut out the owner.

    Three processes open 335 each, so that none needs more files than a machine allows.
    """
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = before[1] if before[1] != resource.RLIM_INFINITY else 4096
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(most, 4096)), before[1]))
    lines = min(LIMITS.lines, most // 2)
    limits = LIMITS._replace(lines=lines, per_address=min(LIMITS.per_address, lines))
    try:
        with (
            Store.open(tmp_path / "a.db", project=Project(("cat", "dog"))) as store,
            served(lambda site: make_app(store, site), limits=limits, open=False) as site,
            ExitStack() as opened,
        ):
            command, pipes = [sys.executable, "-c", ATTACK, str(site.port), "335"], {"stdin": PIPE, "stdout": PIPE}
            attackers = [opened.enter_context(Popen(command, text=True, **pipes)) for _ in range(3)]
            for attacker in attackers:
                opened.callback(attacker.stdin.close)
                assert attacker.stdout.readline() == "open\n"
            web = opened.enter_context(closing(let_in(site.invitation(store.new_link(owner_of(store).id)))))
            assert web.get("/api/progress").json()["items"] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_thirty_people_behind_one_address_join_at_once(tmp_path):
    """Each with all that a browser asks for, until it has its first questions."""
    with (
        Store.open(tmp_path / "a.db", project=Project(("cat", "dog"))) as store,
        served(lambda site: make_app(store, site), tokens=True) as site,
        ThreadPoolExecutor(30) as threads,
        ExitStack() as opened,
    ):
        store.register(text_item(f"text {i}", f"{i}") for i in range(500))
        links = [store.add_annotator(f"Pupil {i}")[1] for i in range(30)]
        clients = [opened.enter_context(httpx.Client(base_url=site.origin, timeout=PATIENCE)) for _ in links]
        ready = threading.Barrier(30)

        def join(web, link):
            ready.wait(PATIENCE)
            seen = []

            def ask(method, path, **options):
                seen.append(web.request(method, path, headers={"x-naysayer": "1"}, **options))
                return seen[-1]

            for path in ("/join", "/"):  # the page of the link, and the one that asks
                for file in sorted(set(re.findall(r'"(/static/[^"]+)"', ask("GET", path).text))):
                    ask("GET", file)
                if path == "/join":
                    ask("POST", "/api/join", json={"token": link})
            ask("GET", "/api/progress")
            n = len(ask("GET", "/api/next?n=16").json()["questions"])
            return n, len(seen), {reply.status_code for reply in seen}

        found = list(threads.map(join, clients, links))
    assert {n for n, _, _ in found} == {16}
    assert min(n for _, n, _ in found) > 10
    assert set().union(*(statuses for _, _, statuses in found)) == {200}


POSTED = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX-Naysayer: 1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("said", [b"", HALF, POSTED + b"Content-Length: 9\r\n\r\n{"], ids=["nothing", "head", "body"])
def test_a_request_must_come_within_its_time(said):
    with serving(App(), request=0.3) as connect:
        assert is_closed(connect(said=said))


def test_a_second_request_must_come_within_its_time():
    with serving(App(), request=0.2, idle=0.2) as connect:
        line = connect(said=get("/") + HALF)
        assert answered(line)
        while line.recv(1000):
            pass


def test_a_byte_now_and_then_gains_no_time():
    with serving(App(), request=0.3) as connect:
        line = connect(said=HALF)
        line.settimeout(0.05)
        for _ in range(10_000):
            try:
                line.sendall(b"1")
                if not line.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the connection was left open")


def test_an_idle_connection_is_closed_and_one_in_use_is_not():
    app = App()
    with serving(app, request=0.2, idle=0.2) as connect:
        slow, idle = connect(said=get("/slow")), connect(said=get("/"))
        assert app.begun.wait(PATIENCE)
        assert answered(idle)
        while idle.recv(1000):  # closed, longer after than any limit that would have ended the other
            pass
        app.go.set()
        assert answered(slow)


def test_who_does_not_take_the_reply_is_given_up():
    app = App()
    with serving(app, request=0.2, idle=0.2) as connect:
        connect(said=get("/long"))
        assert app.ended.wait(PATIENCE)  # of 200 MB nothing was read


def test_whoever_takes_a_long_reply_slowly_gets_more_time():
    class Transport:
        sizes, aborted = [100, 60, 60], False

        def get_write_buffer_size(self):
            return self.sizes.pop(0)

        def abort(self):
            self.aborted = True

    async def wait():
        line = Line.__new__(Line)
        line.transport, line.loop = Transport(), asyncio.get_running_loop()
        line.timer = None
        line._wait(LONG)  # 100 bytes are unsent
        line.timer.cancel()
        line.transport.sizes = [60, 60]
        line._late(LONG)  # some were taken: time begins anew
        assert not line.transport.aborted
        line.timer.cancel()
        line.transport.sizes = [60]
        line._late(LONG)
        assert line.transport.aborted

    asyncio.run(wait())


def test_too_many_from_one_address_close_their_own_that_waited_longest():
    with serving(App(), per_address=5) as connect:
        other = connect("127.0.0.2")
        lines = [connect() for _ in range(8)]
        assert [is_closed(line) for line in lines[:3]] == [True] * 3
        for line in (other, *lines[3:]):
            line.sendall(get("/").replace(b"PORT", str(line.getpeername()[1]).encode()))
            assert answered(line)


def test_too_many_in_all_close_those_of_the_address_that_has_most():
    with serving(App(), lines=6) as connect:
        few, many = [connect("127.0.0.2") for _ in range(2)], [connect() for _ in range(5)]
        assert is_closed(many[0])
        more = connect("127.0.0.3", get("/"))
        assert is_closed(many[1])
        assert answered(more)
        for line in (*few, *many[2:]):
            line.sendall(get("/").replace(b"PORT", str(line.getpeername()[1]).encode()))
            assert answered(line)


def test_a_request_under_way_makes_no_room():
    app = App()
    with serving(app, per_address=1) as connect:
        slow = connect(said=get("/slow"))
        assert app.begun.wait(PATIENCE)
        assert is_closed(connect())
        app.go.set()
        assert answered(slow)


def test_a_proxy_has_no_limit_of_its_own():
    """All that its clients send comes from its own address."""
    limits = Limits(request=LONG, per_address=1)
    with (
        served(lambda site: Guard(App(), site, lambda token: None), limits=limits, tokens=True) as site,
        ExitStack() as opened,
    ):
        lines = [opened.enter_context(socket.create_connection(("127.0.0.1", site.port), PATIENCE)) for _ in range(3)]
        for line in lines:
            line.sendall(get("/").replace(b"PORT", str(site.port).encode()))
            assert answered(line)
