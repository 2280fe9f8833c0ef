"""A real server and a real browser, for the tests of pages."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from naysayer.collect.app import make_server
from naysayer.collect.security import Guard, Site

PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1}
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def served(make: Callable[[Site], Guard], *, tokens: bool = False, port: int = 0) -> Iterator[Site]:
    """Serve an app on a port of this machine; `tokens`: as if the address were a public one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    port = listener.getsockname()[1]
    site = Site("127.0.0.1", port, f"http://127.0.0.1:{port}" if tokens else None)
    started = threading.Event()
    server = make_server(make(site), started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert started.wait(120), "the server did not start"
        yield site
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()
    assert not thread.is_alive(), "the server did not stop"


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the system's browser; where there is none, the tests that need it are not run, and where CI runs, fail."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no chromium here: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
