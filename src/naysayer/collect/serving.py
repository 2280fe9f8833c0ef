"""Serve an app: open a port, hold connections to their limits, run until it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from naysayer.collect.security import Guard, network_of


class Limits(NamedTuple):
    """What connections may take: seconds for a request to come in, seconds between two, and how many there may be."""

    request: float = 20.0
    idle: float = 30.0
    lines: int = 700  # with what else is open, below the 1,024 files that a process usually may have
    per_address: int = 400  # a class behind one address, with the six connections that a browser opens, is below


LIMITS = Limits()


class Lines:
    """The open connections; where there are too many, the one that has kept us waiting longest makes room.

    So connections that are opened and left idle close each other, and nobody who sends a request is locked out, not
    even behind the same address.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.of: dict[Line, str] = {}
        self.count: Counter[str] = Counter()
        self.waiting: dict[Line, None] = {}  # in the order in which they began to

    def add(self, line: Line, address: str) -> None:
        """Take a new connection in."""
        self.of[line] = address
        self.count[address] += 1
        if self.count[address] > self.limits.per_address:
            self._make_room(address)
        elif len(self.of) > self.limits.lines:
            self._make_room(self.count.most_common(1)[0][0])

    def remove(self, line: Line) -> None:
        """Forget a connection that is closed."""
        self.waiting.pop(line, None)
        address = self.of.pop(line, None)
        if address is not None:
            self.count[address] -= 1
            if not self.count[address]:
                del self.count[address]

    def _make_room(self, address: str) -> None:
        """Close the connection of an address that has waited longest; the newest, where all others are busy."""
        here = [line for line, its in self.of.items() if its == address]
        line = next((line for line in self.waiting if self.of[line] == address), here[-1])
        self.remove(line)
        line.transport.abort()


class Line(H11Protocol):
    """A connection that has a time limit whenever we wait for its client: to send a request, or to take the reply."""

    def __init__(self, lines: Lines, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.lines, self.unsent = lines, 0
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.lines.add(self, network_of(self.client[0] if self.client else "unknown"))
        self._review(self.lines.limits.request)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lines.remove(self)
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._review()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._review()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._review()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._review()

    def _review(self, seconds: float | None = None) -> None:
        """Begin to wait for the client, go on waiting, or stop."""
        cycle = self.cycle
        asked = cycle is not None and not cycle.response_complete and not cycle.more_body
        if (asked and not self.flow.write_paused) or self not in self.lines.of:
            self._stop()
        elif self.timer is None:  # who sends a byte now and then gains no time by it
            self.lines.waiting[self] = None
            # The server closes by itself what sent nothing since its last reply for the time that it may be idle.
            self._wait(seconds or self.lines.limits.idle + self.lines.limits.request)

    def _wait(self, seconds: float) -> None:
        self.unsent = self.transport.get_write_buffer_size()
        self.timer = self.loop.call_later(seconds, self._late, seconds)

    def _late(self, seconds: float) -> None:
        """Give up on a client, but for one that takes a long reply slowly."""
        if self.transport.get_write_buffer_size() < self.unsent:
            self._wait(seconds)
        else:
            self.transport.abort()

    def _stop(self) -> None:
        self.lines.waiting.pop(self, None)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


def listen(host: str, port: int | None, name: str) -> socket.socket:
    """Open the port; None: one that is the same for the same store, so that open pages find the server again."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    usual = 20000 + zlib.crc32(name.encode()) % 10000
    for candidate in (usual, 0) if port is None else (port,):
        # Only to sockets that say TCP does asyncio give TCP_NODELAY; without it many a reply comes 40 ms late.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host.strip("[]"), candidate))
            return listener
        except OSError as error:
            listener.close()
            if port is not None or candidate == 0:
                raise ValueError(f"cannot listen on {host} port {candidate}: {error.strerror or error}") from None
    raise AssertionError("the second candidate returned or raised")


def make_server(app: Guard, ready: Callable[[], None] = lambda: None, limits: Limits = LIMITS) -> uvicorn.Server:
    """A server for an app; `ready` is called once it takes requests."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    if app.site.public is not None:  # a proxy's address is all that is seen of its clients
        limits = limits._replace(per_address=limits.lines)
    lines = Lines(limits)
    return Server(
        uvicorn.Config(
            app,
            http=partial(Line, lines),  # type: ignore[arg-type]
            log_level="warning",
            access_log=False,  # addresses of people are nobody's business
            server_header=False,
            proxy_headers=app.site.public is not None,
            ws="none",
            backlog=200,  # so many are taken in at once, before there is time to make room
            timeout_keep_alive=limits.idle,  # type: ignore[arg-type]
            timeout_graceful_shutdown=5,
        )
    )


def serve(app: Guard, listener: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve an app until it is interrupted; requests under way are finished first."""
    with contextlib.suppress(KeyboardInterrupt):
        make_server(app, ready).run(sockets=[listener])
