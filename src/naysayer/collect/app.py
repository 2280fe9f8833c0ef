"""The web app of `naysayer ask`, put together: its pages, and the routes of asking, media and owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from naysayer.collect.asking import asking_routes
from naysayer.collect.dashboard import Figures
from naysayer.collect.guidelines import Guidelines, guideline_routes
from naysayer.collect.media import media_routes
from naysayer.collect.owner import owner_routes
from naysayer.collect.pages import Pages, begin_app, words_of
from naysayer.collect.people import owner, owner_of, person
from naysayer.collect.review_routes import review_routes
from naysayer.collect.reviewing import Reviews
from naysayer.collect.security import Guard, Site
from naysayer.collect.store import Store

if TYPE_CHECKING:
    from naysayer.collect.trainer import Trainer

pages = Pages()


def make_app(
    store: Store,
    site: Site,
    *,
    trainer: Trainer | None = None,
    guidelines: Guidelines | None = None,
    language: str | None = None,
) -> Guard:
    """Make the app of a store, inside its guard; the dashboard tells of the trainer, where there is one.

    The page that asks shows the guidelines, and is in `language`; None: in that of its reader's browser.
    """
    app = begin_app(
        "naysayer ask",
        "One item, one question: is it this class?",
        site,
        pages,
        store.admit,
        store.annotator_by_token,
        to=lambda who: "/dashboard" if who.role == "owner" and not site.local else "/",
        language=language,
    )
    app.include_router(page_routes(store, site, guided=guidelines is not None))
    app.include_router(asking_routes(store))
    app.include_router(media_routes(store))
    app.include_router(guideline_routes(guidelines or Guidelines()))
    reviews = Reviews(store)
    app.include_router(owner_routes(store, site, Figures(store, trainer, reviews=reviews, invites=not site.local)))
    app.include_router(review_routes(store, reviews))
    everybody = owner_of(store) if site.open else None
    return Guard(app, site, store.annotator_by_token, everybody, recall=store.recall)


def page_routes(store: Store, site: Site, guided: bool) -> APIRouter:
    """Show the page that asks, and the owner's: the dashboard and the list of items."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def ask_page(request: Request) -> Response:
        if again := arrived(request):
            return again
        who, name = await person(request), store.project.name
        told = {"words": words_of(request), "guided": guided}
        return pages("ask.html", name=name, key=f"{name}/{who.id}", owner=who.role == "owner", **told)

    @routes.get("/dashboard")
    async def dashboard_page(request: Request) -> Response:
        if again := arrived(request):
            return again
        await owner(await person(request))
        return pages("dashboard.html", name=store.project.name, invites=not site.local)

    @routes.get("/items")
    async def items_page(request: Request) -> Response:
        if again := arrived(request):
            return again
        await owner(await person(request))
        return pages("items.html", name=store.project.name)

    return routes


def arrived(request: Request) -> Response | None:
    """Load a page again for whoever comes by another site's link: browsers then hold a SameSite=Strict cookie back."""
    if request.state.person is None and request.headers.get("sec-fetch-site") == "cross-site":
        return Response(media_type="text/html", headers={"refresh": f"0; url={request.url.path}"})
    return None
