"""The web app of `naysayer ask`: the page that asks, its API, the pictures, the owner's dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import socket
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import uvicorn
from fastapi import Depends, Query, Request
from fastapi import Path as InPath
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from naysayer.collect.dashboard import Figures
from naysayer.collect.database import StoreError
from naysayer.collect.records import Annotator, Answer, Ask, Conflict, Question, Undo
from naysayer.collect.replies import MOST_QUESTIONS
from naysayer.collect.security import Guard, Site, begin_app, page
from naysayer.collect.store import Store
from naysayer.data.items import Item, read_image

if TYPE_CHECKING:
    from naysayer.collect.learn import Trainer

MOST_ANSWERS = 100  # in one request
PROGRESS_SECONDS = 1.0  # that the counts over all items may be old
DAY_MS = 24 * 3600 * 1000
ID = r"^[A-Za-z0-9_-]{1,64}$"
MEDIA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
PICTURES = [  # how files begin, and what they then are; a file's name says nothing here
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"BM", "image/bmp"),
]

log = logging.getLogger(__name__)

Id = Annotated[str, Field(pattern=ID, description="1 to 64 letters, digits, - or _")]


class Strict(BaseModel):
    """A body in which nothing unknown is overlooked."""

    model_config = ConfigDict(extra="forbid")


class ItemOut(BaseModel):
    """What is asked about: a picture's address, a text, or the fields of a record."""

    kind: Literal["image", "text", "record"]
    src: str | None = None
    text: str | None = None
    fields: list[tuple[str, str]] | None = None


class QuestionOut(BaseModel):
    """A question: `before`, the class and `after` make its sentence."""

    model_config = ConfigDict(populate_by_name=True)
    id: str
    before: str
    class_: str = Field(alias="class")
    after: str
    item: ItemOut


class QuestionsOut(BaseModel):
    """The next questions; none where there is nothing to ask for now."""

    questions: list[QuestionOut]


class AnswerIn(Strict):
    """An answer; its `id` is made by the page, so that one sent twice is stored once."""

    id: Id
    question: Id
    value: Literal["yes", "no", "skip"]
    took_ms: Annotated[int, Field(ge=0)] | None = None


class AnswersIn(Strict):
    """Answers in the order in which they were given."""

    answers: Annotated[list[AnswerIn], Field(min_length=1, max_length=MOST_ANSWERS)]


class RefusedOut(BaseModel):
    """An answer that will never be stored, and why."""

    id: str
    error: str


class AnswersOut(BaseModel):
    """`stored`: the ids that are now safe, whether they came for the first time or again."""

    stored: list[str]
    refused: list[RefusedOut]


class UndoIn(Strict):
    """An undoing of one's `answer`; its `id` is made by the page, so that one sent twice takes back one answer."""

    id: Id
    answer: Id


class UndoOut(BaseModel):
    """The question whose answer was taken back, to be answered again; null where that answer does not stand."""

    question: QuestionOut | None


class ProgressOut(BaseModel):
    """How far the project is: items, those answered, those decided; answers in all, and own ones."""

    items: int
    answered: int
    decided: int
    answers: int
    own: int


class InviteIn(Strict):
    """Whom to invite."""

    name: Annotated[str, Field(min_length=1, max_length=80)]


class InviteOut(BaseModel):
    """A link that lets one person in; it is shown this once."""

    id: str
    link: str


class RevokeIn(Strict):
    """Whose link to end."""

    id: Id


class RevokeOut(BaseModel):
    """Whose link was ended."""

    id: str


async def person(request: Request) -> Annotator:  # async, so that no thread is needed to find out
    """Whoever asks; somebody must."""
    if request.state.person is None:
        raise HTTPException(401, "open the link that you were given; without it this stays closed")
    return request.state.person  # type: ignore[no-any-return]


Person = Annotated[Annotator, Depends(person)]


async def owner(who: Person) -> Annotator:
    """Whoever asks, who must be the owner."""
    if who.role != "owner":
        raise HTTPException(403, "only the owner of the project may see this")
    return who


Owner = Annotated[Annotator, Depends(owner)]


def make_app(store: Store, site: Site, *, trainer: Trainer | None = None) -> Guard:
    """Make the app of a store, inside its guard; the dashboard tells of the trainer, where there is one."""
    app = begin_app(
        "naysayer ask",
        "One item, one question: is it this class?",
        site,
        store.annotator_by_token,
        to=lambda who: "/dashboard" if who.role == "owner" else "/",
    )
    figures = Figures(store, trainer)
    local = owner_of(store) if site.local else None

    @app.exception_handler(StoreError)
    async def unstored(request: Request, error: StoreError) -> Response:
        log.error("%s", error)  # its words name files, which are not for everybody
        return JSONResponse({"error": "the store cannot be used just now; try again"}, 503, {"retry-after": "2"})

    # ---- pages --------------------------------------------------------------------------------------------------

    def arrived(request: Request) -> Response | None:
        # Browsers hold a SameSite=Strict cookie back when another site's link leads here: load once more, from here.
        if request.state.person is None and request.headers.get("sec-fetch-site") == "cross-site":
            return Response(media_type="text/html", headers={"refresh": f"0; url={request.url.path}"})
        return None

    @app.get("/", include_in_schema=False)
    async def ask_page(request: Request) -> Response:
        if again := arrived(request):
            return again
        who, name = await person(request), store.project.name
        return page("ask.html", name=name, key=f"{name}/{who.id}", owner=who.role == "owner")

    @app.get("/dashboard", include_in_schema=False)
    async def dashboard_page(request: Request) -> Response:
        if again := arrived(request):
            return again
        await owner(await person(request))
        return page("dashboard.html", name=store.project.name, invites=not site.local)

    # ---- questions and answers -----------------------------------------------------------------------------------

    @app.get("/api/next", response_model=QuestionsOut, response_model_exclude_unset=True, tags=["asking"])
    async def next_questions(
        who: Person,
        n: Annotated[int, Query(ge=1, le=MOST_QUESTIONS, description="How many at the most.")] = 1,
        holding: Annotated[
            list[Id] | None, Query(max_length=100, description="Ids of questions that the page still has.")
        ] = None,
    ) -> dict[str, Any]:
        """Draw the next questions."""
        drawn = await asyncio.wrap_future(store.submit(Ask(who.id, n, tuple(holding or ()))))
        return {"questions": [describe(store, question) for question in drawn]}

    @app.post("/api/answers", response_model=AnswersOut, tags=["asking"])
    async def take_answers(who: Person, body: AnswersIn) -> dict[str, Any]:
        """Store answers; the reply comes when they are safe on disk."""
        stored, refused = [], []
        futures = [
            store.submit(Answer(one.id, one.question, who.id, one.value, one.took_ms and min(one.took_ms, DAY_MS)))
            for one in body.answers
        ]  # all before the first wait: they share one wait for the disk
        results = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
        for given, result in zip(body.answers, results, strict=True):
            if isinstance(result, (KeyError, Conflict)):
                refused.append({"id": given.id, "error": str(result.args[0])})
            elif isinstance(result, BaseException):
                raise result
            else:
                stored.append(given.id)
        return {"stored": stored, "refused": refused}

    @app.post("/api/undo", response_model=UndoOut, response_model_exclude_unset=True, tags=["asking"])
    async def undo(who: Person, body: UndoIn) -> dict[str, Any]:
        """Take back an answer of one's own; a new row says so, nothing is deleted."""
        try:
            question = await asyncio.wrap_future(store.submit(Undo(body.id, who.id, body.answer)))
        except Conflict as error:
            raise HTTPException(409, str(error)) from None
        return {"question": None if question is None else describe(store, question)}

    @app.get("/api/progress", response_model=ProgressOut, tags=["asking"])
    def progress(who: Person) -> Any:
        """Tell how far the project is."""
        return store.progress(who.id, age=PROGRESS_SECONDS)

    @app.get(
        "/media/{item_id}",
        response_class=Response,
        responses={200: {"content": {"image/*": {}}, "description": "The picture."}},
        tags=["asking"],
    )
    def media(who: Person, item_id: Annotated[str, InPath(pattern=r"^[0-9a-f]{32}$")]) -> Response:
        """Give the picture of a registered item."""
        item = store.item(item_id)
        if item is None or item.path is None:
            raise HTTPException(404, "no picture has this id")
        body = read_picture(item)
        headers = {"cache-control": "private, max-age=31536000, immutable", "content-security-policy": MEDIA_POLICY}
        return Response(body, media_type=sniff(body), headers=headers)

    # ---- the owner ------------------------------------------------------------------------------------------------

    @app.get("/api/dashboard", tags=["owner"])
    def dashboard(who: Owner) -> dict[str, Any]:
        """Tell what the dashboard shows."""
        return figures()

    @app.post("/api/invite", response_model=InviteOut, tags=["owner"])
    def invite(who: Owner, body: InviteIn) -> dict[str, str]:
        """Make a link for somebody to answer with."""
        if site.local:
            raise HTTPException(409, "others cannot reach this machine's own address; start with --host or --public")
        try:
            made, token = invite_to(store, body.name)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        return {"id": made.id, "link": site.invitation(token)}

    @app.post("/api/revoke", response_model=RevokeOut, tags=["owner"])
    def revoke(who: Owner, body: RevokeIn) -> dict[str, str]:
        """End somebody's link; what they answered stays."""
        if body.id == who.id:
            raise HTTPException(409, "you cannot end your own link")
        if body.id not in {one.id for one in store.annotators()}:
            raise HTTPException(404, "nobody has this id")
        store.revoke(body.id)
        return {"id": body.id}

    return Guard(app, site, store.annotator_by_token, local, recall=store.recall)


def owner_of(store: Store) -> Annotator:
    """The one owner of a store, whom a first call adds."""
    found = [one for one in store.annotators() if one.role == "owner"]
    return found[0] if found else store.named_annotator("owner", "owner")


def invite_to(store: Store, name: str) -> tuple[Annotator, str]:
    """A token for somebody: new for a new name; for a known one it replaces the old, and the person stays the same."""
    name = name.strip()
    for known in store.annotators():
        if known.name == name and known.role == "annotator":
            return known, store.renew_token(known.id)
    return store.add_annotator(name, "annotator")


def describe(store: Store, question: Question) -> dict[str, Any]:
    """A question as the page gets it: never its probability, nor a file's name, which may give the class away."""
    item = question.item
    content: dict[str, Any] = {"kind": item.kind}
    if item.kind == "image":
        content["src"] = f"/media/{item.id}"
    elif isinstance(item.content, dict):
        content["fields"] = [(name, field_text(value)) for name, value in item.content.items() if value is not None]
    else:
        content["text"] = item.content or ""
    name = store.project.classes[question.class_index]
    before, _, after = with_article(store.project.question, name).partition("{}")
    return {"id": question.id, "before": before, "class": name, "after": after, "item": content}


def with_article(template: str, name: str) -> str:
    """Let "Is this a {}?" say "an" where English does.

    Examples
    --------
    >>> with_article("Is this a {}?", "owl"), with_article("Is this a {}?", "unicorn"), with_article("Is it {}?", "owl")
    ('Is this an {}?', 'Is this a {}?', 'Is it {}?')
    """
    vowel = re.match(r"(?!eu|one\b|once\b|uni|us[aeiu]|ut[ei])[aeiou]|8|1[18]\b", name.lower())
    return re.sub(r"\ba \{\}", "an {}", template) if vowel else template


def field_text(value: Any) -> str:
    """A record's value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):  # in a column with gaps whole numbers are floats too: 1250000, not 1.25e+06
        return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.15g}"
    return str(value)


def read_picture(item: Item) -> bytes:
    """A registered picture's bytes: those that were registered, whatever lies at its path by now."""
    try:
        body = read_image(str(item.path))
    except (OSError, ValueError):
        raise HTTPException(404, "the file of this picture is no longer there") from None
    if hashlib.sha256(body).hexdigest()[:32] != item.id:
        raise HTTPException(404, "the file of this picture has changed since it was registered")
    return body


def sniff(body: bytes) -> str:
    """The type of a picture, by how its bytes begin."""
    for beginning, kind in PICTURES:
        if re.match(beginning, body, re.DOTALL):
            return kind
    raise HTTPException(415, "this file is no picture that browsers show")


# ---- serving --------------------------------------------------------------------------------------------------------


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
