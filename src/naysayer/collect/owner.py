"""What only the owner may do: see the figures, make links and end them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from naysayer.collect.asking import Id, Strict
from naysayer.collect.dashboard import Figures
from naysayer.collect.people import Owner, invite_to
from naysayer.collect.security import Site
from naysayer.collect.store import Store


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


def owner_routes(store: Store, site: Site, figures: Figures) -> APIRouter:
    """Show the figures, and make and end links."""
    routes = APIRouter(tags=["owner"])

    @routes.get("/api/dashboard")
    def dashboard(who: Owner) -> dict[str, Any]:
        """Tell what the dashboard shows."""
        return figures()

    @routes.post("/api/invite", response_model=InviteOut)
    def invite(who: Owner, body: InviteIn) -> dict[str, str]:
        """Make a link for somebody to answer with."""
        if site.local:
            raise HTTPException(409, "others cannot reach this machine's own address; start with --host or --public")
        try:
            made, token = invite_to(store, body.name)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        return {"id": made.id, "link": site.invitation(token)}

    @routes.post("/api/revoke", response_model=RevokeOut)
    def revoke(who: Owner, body: RevokeIn) -> dict[str, str]:
        """End somebody's link; what they answered stays."""
        if body.id == who.id:
            raise HTTPException(409, "you cannot end your own link")
        if body.id not in {one.id for one in store.annotators()}:
            raise HTTPException(404, "nobody has this id")
        store.revoke(body.id)
        return {"id": body.id}

    return routes
