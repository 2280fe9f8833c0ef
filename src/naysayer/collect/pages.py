"""What all apps begin with: their pages and static files, the page that a link opens, one shape for every error."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from naysayer.collect.database import StoreError
from naysayer.collect.languages import Words, choose, languages
from naysayer.collect.security import Site, token_of

SHARED = "naysayer.collect"  # has the templates and files that all apps use, with names such as base.html
TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
TITLES = {403: "This page is for the owner"}
TRANSLATED = {401: "closed", 404: "nowhere"}  # what annotators may meet, by its name among the words
WORDS = {404: "there is nothing at this address", 405: "this address does not take this method"}

log = logging.getLogger(__name__)


class Problem(BaseModel):
    """What went wrong, in one line."""

    error: str


class Token(BaseModel):
    """What stands behind the # of a link."""

    token: str = Field(min_length=1, max_length=200)


class Joined(BaseModel):
    """Where the link leads."""

    to: str


class Pages:
    """The pages of an app and the files that they load.

    `package` has them in its folders `templates` and `static`; what it lacks is taken from those that apps share.
    `filters` are for its templates. Static files are held in memory as (body, type, tag), so that no path from a client
    reaches the file system.
    """

    def __init__(self, package: str = SHARED, **filters: Callable[..., Any]) -> None:
        packages = list(dict.fromkeys((package, SHARED)))
        loader = ChoiceLoader([PackageLoader(one) for one in packages])
        self.templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        self.templates.filters.update(filters)
        self.templates.globals["words"] = languages()["en"]  # of pages that are not translated
        self.static: dict[str, tuple[bytes, str, str]] = {}
        for one in reversed(packages):
            self.static |= _static_files(one)

    def __call__(self, template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
        """A template as a response; every value is escaped."""
        return HTMLResponse(self.templates.get_template(template).render(**values), status)


def _static_files(package: str) -> dict[str, tuple[bytes, str, str]]:
    """The static files of a package."""
    found = {}
    for file in files(package).joinpath("static").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            body = file.read_bytes()
            found[file.name] = (body, kind, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return found


def begin_app(
    name: str,
    what: str,
    site: Site,
    pages: Pages,
    admit: Callable[[str], str | None],
    identify: Callable[[str], Any],
    to: Callable[[Any], str] = lambda _: "/",
    language: str | None = "en",
) -> FastAPI:
    """Begin an app: it has /static, /join and /api/join, and errors as {"error": "..."} (to browsers, as a page).

    `name` and `what` describe it; `admit` exchanges a link's token for a secret; `identify` tells whose a secret is;
    `to`, where a person who has joined goes on; `language`, the one of all pages, None: each in that of its reader's
    browser.
    """
    app = FastAPI(
        title=name,
        version="1",
        description=f"{what} Requests that change something carry X-Naysayer: 1.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
        responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}},
    )
    app.state.language = language
    app.include_router(static_routes(pages))
    app.include_router(join_routes(site, pages, admit, identify, to))
    tell_errors(app, pages)
    return app


def words_of(request: Request) -> Words:
    """The words for whoever asks."""
    fixed = request.app.state.language
    return choose(request.headers.get("accept-language", "")) if fixed is None else languages()[fixed]


def static_routes(pages: Pages) -> APIRouter:
    """Serve the files that pages load."""
    routes = APIRouter()

    @routes.get("/static/{name}", include_in_schema=False)
    def static_file(name: str, request: Request) -> Response:
        if name not in pages.static:
            raise HTTPException(404, "there is no such file")
        body, kind, tag = pages.static[name]
        # A font's name has its content's hash in it, so that one that was loaded is never asked for again.
        kept = "max-age=31536000, immutable" if kind == "font/woff2" else "no-cache"
        headers = {"etag": tag, "cache-control": kept}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=kind, headers=headers)

    return routes


def join_routes(
    site: Site,
    pages: Pages,
    admit: Callable[[str], str | None],
    identify: Callable[[str], Any],
    to: Callable[[Any], str],
) -> APIRouter:
    """Let people in who have a link."""
    routes = APIRouter()

    @routes.get("/join", include_in_schema=False)
    def join_page(request: Request) -> Response:
        return pages("base_join.html", words=words_of(request))

    @routes.post("/api/join", response_model=Joined, responses={"4XX": {"model": Problem}}, tags=["people"])
    def join(body: Token, request: Request) -> Response:
        """Exchange a link's token, once, for a cookie; a browser that has one goes on with it."""
        secret = admit(body.token) or token_of(dict(request.headers), site.cookie)
        person = None if secret is None else identify(secret)
        if secret is None or person is None:
            raise HTTPException(401, "this link does not work; it was opened before, or has ended")
        return JSONResponse({"to": to(person)}, headers={"set-cookie": site.set_cookie(secret)})

    return routes


def tell_errors(app: FastAPI, pages: Pages) -> None:
    """Give every error of an app the one shape: JSON for programs, a page for people."""

    def respond(request: Request, status: int, message: str, headers: Any = None) -> Response:
        if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/"):
            words, title = words_of(request), TITLES.get(status) or HTTPStatus(status).phrase
            text = message[:1].upper() + message[1:] + "."
            if status in TRANSLATED:
                title = words[f"{TRANSLATED[status]}_title"]
                text = text if words["language"] == "en" else words[TRANSLATED[status]]
            return pages("base_message.html", status, title=title, message=text, words=words)
        return JSONResponse({"error": message}, status, headers)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        plain = error.detail == HTTPStatus(error.status_code).phrase
        message = WORDS.get(error.status_code, error.detail.lower()) if plain else error.detail
        return respond(request, error.status_code, message, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the body"
        return respond(request, 422, f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}")

    @app.exception_handler(StoreError)
    async def unstored(request: Request, error: StoreError) -> Response:
        log.error("%s", error)  # its words name files, which are not for everybody
        return JSONResponse({"error": "the store cannot be used just now; try again"}, 503, {"retry-after": "2"})

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return respond(request, 500, "something went wrong on the server; its log says what")
