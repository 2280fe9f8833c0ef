"""A real server and a real browser, for the tests of pages; in any font, and an eye for what does not fit."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from naysayer.collect.security import HEADER, Guard, Site
from naysayer.collect.serving import LIMITS, Limits, make_server

PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 800}, "device_scale_factor": 1}
PATIENCE = 120.0  # seconds that a page may take on a machine that is busy with other things
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def served(
    make: Callable[[Site], Guard], *, tokens: bool = False, port: int = 0, limits: Limits = LIMITS, **where: Any
) -> Iterator[Site]:
    """Serve an app on a port of this machine, open to all; `tokens`: as if the address were a public one."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    port = listener.getsockname()[1]
    where = where or ({"public": f"http://127.0.0.1:{port}"} if tokens else {"open": True})
    site = Site("127.0.0.1", port, **where)
    started = threading.Event()
    server = make_server(make(site), started.set, limits)
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


def let_in(link: str) -> httpx.Client:
    """Open a link as a browser does; what comes after is asked for as from there."""
    origin, _, token = link.partition("/join#")
    web = httpx.Client(base_url=origin, headers={HEADER: "1"}, timeout=120)
    web.post("/api/join", json={"token": token}).raise_for_status()
    return web


@contextmanager
def chromium(font: str | None = None) -> Iterator[Any]:
    """Start the system's browser; where there is none, the tests that need it are not run, and where CI runs, fail.

    `font`: how the file names of the only fonts that it finds begin, among those that Matplotlib brings along.
    """
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no chromium here: apt install chromium-headless-shell")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        env = os.environ | ({} if font is None else {"FONTCONFIG_FILE": str(only_font(font, Path(folder)))})
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"], env=env)
        for name in ("new_context", "new_page"):
            setattr(browser, name, patient(getattr(browser, name)))
        yield browser
        browser.close()


def patient(opening: Callable[..., Any]) -> Callable[..., Any]:
    """Let what is opened wait longer than the browser's driver does by itself."""

    def opened(**options: Any) -> Any:
        new = opening(**options)
        new.set_default_timeout(1000 * PATIENCE)
        return new

    return opened


def only_font(beginning: str, folder: Path) -> Path:
    """Write a configuration by which a program finds no other fonts than these."""
    import matplotlib

    chosen = sorted(Path(matplotlib.get_data_path(), "fonts", "ttf").glob(f"{beginning}*.ttf"))
    assert chosen, f"Matplotlib brings no font that begins with {beginning}"
    (folder / "fonts").mkdir()
    for file in chosen:
        shutil.copy(file, folder / "fonts")
    settings = folder / "fonts.conf"
    settings.write_text(
        '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n'
        f"<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/cache</cachedir></fontconfig>\n",
        encoding="utf8",
    )
    return settings


# Looks at every line of words that is seen. What a box of class `scroll` holds or an ellipsis ends counts as far as it
# is shown; cards on their way out, and what only screen readers read, do not count.
UNFIT = """() => {
  const trouble = [], lines = [], edge = document.documentElement.clientWidth;
  const name = (e) => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") +
    (typeof e.className === "string" && e.className ? "." + e.className.trim().replace(/\\s+/g, ".") : "");
  const unseen = ".unseen, .leaving, .entering, .stamp, [hidden], details:not([open]) > :not(summary)";
  const hidden = (e) => e.closest(unseen);
  const place = document.querySelector("dialog[open]") ?? document.body; // what lies below a sheet is not read
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    const owner = node.parentElement, words = node.textContent.trim();
    if (!words || hidden(owner) || !owner.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT", "TITLE", "OPTION", "TEMPLATE"].includes(owner.tagName.toUpperCase())) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      if (rect.width < 1) continue;
      let { left, right, top, bottom } = rect, seen = true;
      for (let e = owner.closest(".scroll") ?? owner; e && e !== document.body; e = e.parentElement) {
        const style = getComputedStyle(e), box = e.getBoundingClientRect();
        if (style.display === "inline" || style.display === "contents") continue;
        if (e.namespaceURI.endsWith("svg") && e.tagName !== "svg") continue;
        if (e.matches(".scroll") || style.textOverflow === "ellipsis")
          [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
        else if (left < box.left - 1.5 || right > box.right + 1.5) {
          trouble.push(`"${words.slice(0, 30)}" leaves ${name(e)} by ` +
            `${Math.round(Math.max(box.left - left, right - box.right))} px`);
          break;
        }
        if (/auto|scroll/.test(style.overflowY)) [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        else if (style.overflowY === "hidden" && (top < box.top - 4 || bottom > box.bottom + 4))
          trouble.push(`"${words.slice(0, 30)}" is cut off by ${name(e)}`);
        seen = right > left && bottom > top;
        if (!seen) break;
      }
      if (!seen) continue;
      if (left < -1 || right > edge + 1) trouble.push(`"${words.slice(0, 30)}" leaves the screen`);
      if (!owner.closest(".notice, #ask .foot, kbd")) lines.push({ words, owner, node, left, right, top, bottom });
    }
  }
  for (const [i, one] of lines.entries()) for (const other of lines.slice(i + 1)) {
    if (one.node === other.node) continue;
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    const least = Math.min(one.bottom - one.top, other.bottom - other.top); // lines are higher than their letters
    if (wide > 2 && high > least * 0.55)
      trouble.push(`"${one.words.slice(0, 30)}" lies over "${other.words.slice(0, 30)}"`);
  }
  for (const e of place.querySelectorAll("button, a, select, input, kbd, summary")) {
    if (hidden(e) || !e.checkVisibility()) continue;
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).textOverflow !== "ellipsis")
      trouble.push(`${name(e)} is too narrow for its words`);
    if (e.scrollHeight > e.clientHeight + 4 && e.clientHeight) trouble.push(`${name(e)} is too low for its words`);
    const box = e.getBoundingClientRect();
    if (!e.closest(".scroll") && (box.left < -1 || box.right > edge + 1)) trouble.push(`${name(e)} leaves the screen`);
  }
  const whole = place === document.body ? document.documentElement : place;
  if (whole.scrollWidth > whole.clientWidth + 1) trouble.push("the page is wider than the screen");
  return [...new Set(trouble)];
}"""
SETTLED_UNFIT = f"""async () => {{
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); // after all that a new size sets off
  return ({UNFIT})();
}}"""
# Letters and words set apart as far as WCAG 2.2 (1.4.12) lets readers do so: as a wider typeface would be.
WIDER = """(on) => {
  const sheet = new CSSStyleSheet();
  if (on) sheet.replaceSync("* { letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }");
  document.adoptedStyleSheets = [sheet];
}"""
# The contrast of each text with what is behind it, by WCAG 2.2; half-transparent grounds are laid over those below.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    const own = read(getComputedStyle(e).backgroundColor);
    return own[3] === 1 || !e.parentElement ? own : over(own, behind(e.parentElement));
  };
  const faint = (e) => e ? getComputedStyle(e).opacity * faint(e.parentElement) : 1;
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => c.slice(0, 3).map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    const e = node.parentElement;
    if (!node.textContent.trim() || e.closest("svg, style")) continue;
    const ground = behind(e), [r, g, b, alpha] = read(getComputedStyle(e).color);
    const ink = over([r, g, b, alpha * faint(e)], ground);
    const [dark, bright] = [light(ink), light(ground)].sort((one, other) => one - other);
    const ratio = (bright + 0.05) / (dark + 0.05);
    found.push([ratio, node.textContent.trim().slice(0, 40)]);
  }
  return found;
}"""


def unfit(page: Any) -> list[str]:
    """All that does not fit on a page as it now is: words outside of their boxes, over others, or off the screen."""
    return page.evaluate(UNFIT)  # type: ignore[no-any-return]


def assert_fits_everywhere(page: Any, widths: Any, height: int, *, wider: bool = False) -> None:
    """Nothing leaves its place at any of these widths; `wider`: even with the letters set apart."""
    page.evaluate(WIDER, wider)
    found = {}
    for width in widths:
        page.set_viewport_size({"width": width, "height": height})
        if trouble := page.evaluate(SETTLED_UNFIT):
            found[width] = trouble
    page.evaluate(WIDER, False)
    assert not found, f"at {page.url}, {height} high: " + "; ".join(f"{w} wide: {t}" for w, t in found.items())
