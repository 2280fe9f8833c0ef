"""Serve an app: open a port, run until it is interrupted."""

from __future__ import annotations

import contextlib
import socket
import zlib
from collections.abc import Callable

import uvicorn

from naysayer.collect.security import Guard


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


def make_server(app: Guard, ready: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """A server for an app; `ready` is called once it takes requests."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    return Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,  # addresses of people are nobody's business
            server_header=False,
            proxy_headers=app.site.public is not None,
            ws="none",
            limit_concurrency=1000,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=5,
        )
    )


def serve(app: Guard, listener: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve an app until it is interrupted; requests under way are finished first."""
    with contextlib.suppress(KeyboardInterrupt):
        make_server(app, ready).run(sockets=[listener])
