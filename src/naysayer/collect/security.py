"""What every request must pass before an app sees it, and what every response carries.

A link from the owner carries a token behind its `#`, where neither servers on the way nor link previews see it; the
page hands it over, and gets a secret of its own for it as a cookie. This machine's own address needs one too, since
others may be logged in here, unless the site is opened to them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from naysayer.collect.tokens import SESSION_SECONDS, hash_token

LIMIT_BYTES = 64 * 1024
LIMIT_SECONDS = 10.0
HEADER = "x-naysayer"  # a page elsewhere cannot set it without asking us first, and we never answer such a question
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-frame-options": "DENY",
}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)


class Refused(Exception):
    """A request that is answered with this status and this one line."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


@dataclass(frozen=True)
class Site:
    """Where an app is reached, and so whom it may trust.

    `public` is its address behind a proxy, such as https://labels.example.org. `open`: everybody on this machine may do
    everything, without a token; only for a site that no other machine reaches.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    public: str | None = None
    open: bool = False

    def __post_init__(self) -> None:
        if self.public is not None:
            parts = urlsplit(self.public)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
                raise ValueError(f"the public address must be like https://labels.example.org; got {self.public!r}")
        if self.open and not self.local:
            raise ValueError(
                f"only this machine's own address can do without links; got {self.origin}; leave out --open, or --host "
                f"and --public"
            )

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.public is None and is_loopback(self.host)

    @property
    def origin(self) -> str:
        """The address that people open."""
        if self.public is not None:
            return self.public.rstrip("/")
        host = reachable(self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def hosts(self) -> frozenset[str] | None:
        """What a request's Host may be; None where a token guards better than a name."""
        if self.public is not None:
            return frozenset({urlsplit(self.public).netloc.lower()})
        if not self.local:
            return None
        names = {f"[{name}]" if ":" in name else name for name in (*LOOPBACK_NAMES, self.host.lower())}
        return frozenset({f"{name}:{self.port}" for name in names} | (names if self.port == 80 else set()))

    @property
    def cookie(self) -> str:
        """The cookie's name; browsers do not keep ports apart, so that ours does."""
        return "__Host-naysayer" if self.origin.startswith("https:") else f"naysayer-{self.port}"

    def set_cookie(self, secret: str) -> str:
        """The header that hands a secret to the browser: out of reach of scripts and of other sites."""
        secure = "; Secure" if self.origin.startswith("https:") else ""
        return f"{self.cookie}={secret}; Path=/; Max-Age={SESSION_SECONDS:.0f}; HttpOnly; SameSite=Strict{secure}"

    def invitation(self, token: str) -> str:
        """The link that lets someone in."""
        return f"{self.origin}/join#{token}"


class Buckets:
    """Rate limits: each key may do `burst` things at once, and `rate` a second in the long run."""

    def __init__(self, rate: float, burst: float, size: int = 10_000) -> None:
        self.rate, self.burst, self.size = rate, burst, size
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, now: float) -> float:
        """Take one; 0 where that was allowed, else the seconds after which it will be."""
        left = self._filled(key, now)
        self._left.pop(key, None)
        allowed = left >= 1
        self._left[key] = (left - 1 if allowed else left, now)
        if len(self._left) > self.size:  # the longest unseen is the fullest, and forgetting it costs the least
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.rate

    def give_back(self, key: str, now: float) -> None:
        """Give one back that was taken."""
        if key in self._left:
            self._left[key] = (min(self.burst, self._filled(key, now) + 1), now)

    def _filled(self, key: str, now: float) -> float:
        left, since = self._left.get(key, (self.burst, now))
        return min(self.burst, left + (now - since) * self.rate)


class Guard:
    """The outermost layer of an app: checks every request, reads its body within limits, finds out who it is.

    Whoever a secret (cookie, or `Authorization: Bearer`) belongs to stands in `request.state.person`; on an open site
    it is `person`; else None. Every refusal has the one shape {"error": "..."}.
    `identify` tells whom a token belongs to, and may take its time; `recall` is asked first, and waits for nothing.
    `limit` is the most bytes that a body may have.
    """

    def __init__(
        self,
        app: Application,
        site: Site,
        identify: Callable[[str], Any],
        person: Any = None,
        *,
        recall: Callable[[str], Any] = lambda token: None,
        known: Buckets | None = None,
        unknown: Buckets | None = None,
        arriving: Buckets | None = None,
        limit: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app, self.site, self.identify, self.recall = app, site, identify, recall
        self.person, self.limit, self.clock = person, limit, clock
        self.known = known or Buckets(rate=50, burst=300)
        self.unknown = unknown or Buckets(rate=5, burst=100)
        # A class has one address, and all of it comes at once: about 8 requests each until they have a cookie.
        self.arriving = arriving or Buckets(rate=100, burst=4000)
        self._identified: set[str] = set()  # hashes of secrets that were somebody's: they are no guesses
        self._looked_up: dict[str, set[asyncio.Task[Any]]] = {}  # what may be guesses, by their addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = _with_ours(message.get("headers", ()))
            await send(message)

        try:
            await self._handle(scope, receive, answer)
        except Refused as refused:
            await refuse(answer, refused)
        except Exception:
            log.exception("a request failed")
            if not started:
                await refuse(answer, Refused(500, "something went wrong on the server; its log says what"))

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        check_host(headers, self.site)
        address, strangers = _address(scope), self.arriving if arrives(scope) else self.unknown
        person, counted = await self._who(headers, strangers, address)
        key = f"person {person.id}" if person is not None and not self.site.open else address
        if not counted:
            refuse_too_many((strangers if person is None else self.known).wait(key, self.clock()))
        check_origin(scope["method"], scope["path"], headers, self.site)
        body = await read_body(headers, receive, self.limit)
        scope.setdefault("state", {})["person"] = person
        read = False

        async def replay() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)

    async def _who(self, headers: dict[str, str], strangers: Buckets, address: str) -> tuple[Any, bool]:
        """Find out whose a secret is, and tell whether the request was counted on the way.

        What may be a guess counts before it is looked up, and is not where its address made too many; what turns out
        to be none is given back. While others are being looked up it waits for them: after a start nobody is known,
        and a whole class may come at once.
        """
        if self.site.open:
            return self.person, False
        token = token_of(headers, self.site.cookie)
        if token is None:
            return None, False
        person = self.recall(token)
        if person is not None:
            return person, False
        hashed = hash_token(token)
        guess = hashed not in self._identified
        if not guess:
            person = await asyncio.to_thread(self.identify, token)
        else:
            while wait := strangers.wait(address, self.clock()):
                if address not in self._looked_up:
                    refuse_too_many(wait)
                await asyncio.wait(self._looked_up[address], return_when=asyncio.FIRST_COMPLETED)
            person = await self._look_up(token, strangers, address)
        (self._identified.discard if person is None else self._identified.add)(hashed)
        return person, guess and person is None

    def _look_up(self, token: str, strangers: Buckets, address: str) -> asyncio.Task[Any]:
        """Look up what may be a guess and was counted; it counts no more if it is none."""

        async def look_up() -> Any:
            person = await asyncio.to_thread(self.identify, token)
            if person is not None:
                strangers.give_back(address, self.clock())
            return person

        def forget(task: asyncio.Task[Any]) -> None:
            here.discard(task)
            if not here:
                self._looked_up.pop(address, None)

        task, here = asyncio.create_task(look_up()), self._looked_up.setdefault(address, set())
        here.add(task)
        task.add_done_callback(forget)  # before those of whoever waits for it
        return task


def refuse_too_many(wait: float) -> None:
    """Refuse what comes so many seconds too soon."""
    if wait:
        raise Refused(429, "too many requests; wait a little", {"retry-after": str(max(1, round(wait)))})


def arrives(scope: Scope) -> bool:
    """Whether a request is one that a link's page makes before anybody can know whose it is."""
    return scope["path"] in ("/join", "/api/join") or scope["path"].startswith("/static/")


def check_host(headers: dict[str, str], site: Site) -> None:
    """A name that others made point to this machine (DNS rebinding) must not reach what needs no token."""
    host = headers.get("host", "").lower()
    if not host or (site.hosts is not None and host not in site.hosts):
        raise Refused(421, f"this server answers to {site.origin} only")
    if site.local and any(name in headers for name in FORWARDED):
        raise Refused(421, "behind a proxy this server needs its public address: start it with --public")


def check_origin(method: str, path: str, headers: dict[str, str], site: Site) -> None:
    """Other sites may link to a page; they may neither read nor send anything, nor have a browser draw a question."""
    fetched = headers.get("sec-fetch-site", "none")
    page = method in SAFE_METHODS and not path.startswith("/api/")
    navigated = headers.get("sec-fetch-mode") == "navigate" and page
    if fetched not in ("none", "same-origin") and not navigated:
        raise Refused(403, "requests from other sites are not answered")
    if method in SAFE_METHODS:
        return
    origin = headers.get("origin")
    if origin is not None:
        ours = origin.lower().partition("://")[2] == headers["host"].lower()
        if not ours or (site.public is not None and origin.lower() != site.origin.lower()):
            raise Refused(403, "requests from other sites are not answered")
    if headers.get(HEADER) != "1":
        raise Refused(403, "a request that changes something must carry the header X-Naysayer: 1")
    if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the body must be JSON, and Content-Type must be application/json")


async def read_body(headers: dict[str, str], receive: Receive, limit: int = LIMIT_BYTES) -> bytes:
    """The whole body, given up on as soon as it is too large or takes too long."""
    if "content-length" in headers and "transfer-encoding" in headers:  # two servers may not see the same end of it
        message = "a body must have Content-Length or Transfer-Encoding, not both"
        raise Refused(400, message, {"connection": "close"})
    too_large = Refused(413, f"the body must have at most {limit} bytes", {"connection": "close"})
    if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > limit:
        raise too_large
    body = b""

    async def read() -> None:
        nonlocal body
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the request ended before its body did")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                raise too_large

    try:
        await asyncio.wait_for(read(), LIMIT_SECONDS)
    except asyncio.TimeoutError:
        message = f"the body must come within {LIMIT_SECONDS:g} seconds"
        raise Refused(408, message, {"connection": "close"}) from None
    return body


def token_of(headers: dict[str, str], cookie: str) -> str | None:
    """The token that a request carries, by header or by cookie."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and value.strip():
        return value.strip()
    found = None
    for part in headers.get("cookie", "").split(";"):  # others on this host may set cookies that no parser takes
        name, _, value = part.strip().partition("=")
        found = value.strip('"') if name == cookie else found
    return found or None


async def refuse(send: Send, refused: Refused) -> None:
    """Send a refusal, in the one shape that all have."""
    body = json.dumps({"error": refused.message}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refused.headers}
    encoded = [(name.encode("latin1"), value.encode("latin1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own, that no other reaches."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def reachable(host: str) -> str:
    """An address at which others find this machine, where it listens on all of them."""
    if host not in ("0.0.0.0", "::", ""):
        return host.strip("[]")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks which of our addresses would be used
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _headers(scope: Scope) -> dict[str, str]:
    """The headers by lower-case name; of those that we decide on, each must come once."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin1").lower()
        if name in found and name in ("host", "origin", "content-length", HEADER, "authorization"):
            raise Refused(400, f"the header {name} must come once")
        found[name] = f"{found[name]}; {value.decode('latin1')}" if name in found else value.decode("latin1")
    return found


def _address(scope: Scope) -> str:
    """The network that a request comes from."""
    return network_of((scope.get("client") or ("unknown", 0))[0])


def network_of(text: str) -> str:
    """A client's address; of IPv6 the part that one household or firm shares."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return str(text)
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped:  # on a port that takes both, as --host :: does: else all of IPv4 were one network
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _with_ours(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """A response's headers and ours, where it has none of the name; nothing is kept by caches unless it says so."""
    given = [(name, value) for name, value in headers if name.lower() != b"server"]
    names = {name.lower() for name, _ in given}
    ours = {"cache-control": "no-store", **HEADERS}
    return given + [(k.encode(), v.encode()) for k, v in ours.items() if k.encode() not in names]
