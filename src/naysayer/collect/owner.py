"""What only the owner may do: see the figures and the items, remove one, make links and end them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from naysayer.collect.asking import Id, ItemOut, Strict, content_of
from naysayer.collect.dashboard import Figures
from naysayer.collect.items import Shown, State
from naysayer.collect.people import Owner, invite_to, invited
from naysayer.collect.security import Site
from naysayer.collect.store import Store

PER_PAGE = 20


class InviteIn(Strict):
    """Whom to invite; `days`: after how many the link, and what it opened, ends."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    days: Annotated[float, Field(gt=0, le=36500)] | None = None


class InviteOut(BaseModel):
    """A link that lets one person in; it is shown this once. `known`: somebody of that name was invited before."""

    id: str
    link: str
    known: bool


class RevokeIn(Strict):
    """Whose link to end."""

    id: Id


class RevokeOut(BaseModel):
    """Whose link was ended."""

    id: str


class SaidOut(BaseModel):
    """One person's answer about an item."""

    model_config = ConfigDict(populate_by_name=True)
    class_: str = Field(alias="class")
    value: str
    person: str
    at: float
    repeat: bool
    counts: bool
    final: bool


class ShownOut(BaseModel):
    """An item with what is known of it."""

    id: str
    name: str
    item: ItemOut
    state: State
    label: str | None
    left: list[str]
    answers: list[SaidOut]


class PersonOut(BaseModel):
    """Somebody who may answer."""

    id: str
    name: str


class ItemsOut(BaseModel):
    """A page of items, how many there are in all, and who may have answered about them."""

    items: list[ShownOut]
    total: int
    people: list[PersonOut]


class RemoveIn(Strict):
    """Which item to remove."""

    id: Id


class RemoveOut(BaseModel):
    """What was removed, and how many answers went with it."""

    id: str
    answers: int


def owner_routes(store: Store, site: Site, figures: Figures) -> APIRouter:
    """Show the figures, and make and end links."""
    routes = APIRouter(tags=["owner"])

    @routes.get("/api/dashboard")
    def dashboard(who: Owner) -> dict[str, Any]:
        """Tell what the dashboard shows."""
        return figures()

    @routes.get("/api/items", response_model=ItemsOut, response_model_exclude_unset=True)
    def items(
        who: Owner,
        state: Annotated[State | None, Query(description="Only items of this state.")] = None,
        name: Annotated[str, Query(max_length=200, description="What their names have in them, or an id.")] = "",
        person: Annotated[Id | None, Query(description="Only items that they answered about.")] = None,
        page: Annotated[int, Query(ge=1, le=10**6)] = 1,
    ) -> dict[str, Any]:
        """List items with their answers, a page at a time."""
        classes = store.renew().classes
        found, total = store.browse(state, name, person, skip=PER_PAGE * (page - 1), most=PER_PAGE)
        people = [{"id": one.id, "name": one.name} for one in store.annotators()]
        return {"items": [_told(one, classes) for one in found], "total": total, "people": people}

    @routes.post("/api/remove", response_model=RemoveOut)
    def remove(who: Owner, body: RemoveIn) -> dict[str, Any]:
        """Remove an item and all that belongs to it, for good."""
        gone = store.remove(body.id)
        if gone is None:
            raise HTTPException(404, "no item has this id")
        return {"id": gone.item_id, "answers": gone.n_answers}

    @routes.post("/api/invite", response_model=InviteOut)
    def invite(who: Owner, body: InviteIn) -> dict[str, Any]:
        """Make a link for somebody to answer with."""
        if site.local:
            raise HTTPException(409, "others cannot reach this machine's own address; start with --host or --public")
        try:
            known, until = invited(store, body.name), body.days and time.time() + body.days * 86400
            made, token = invite_to(store, body.name, until)
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        return {"id": made.id, "link": site.invitation(token), "known": known is not None}

    @routes.post("/api/revoke", response_model=RevokeOut)
    def revoke(who: Owner, body: RevokeIn) -> dict[str, str]:
        """End somebody's links, opened or not; what they answered stays."""
        if body.id == who.id:
            raise HTTPException(409, "you cannot end your own link")
        if body.id not in {one.id for one in store.annotators()}:
            raise HTTPException(404, "nobody has this id")
        store.revoke(body.id)
        return {"id": body.id}

    return routes


def _told(one: Shown, classes: Sequence[str]) -> dict[str, Any]:
    """An item as the page gets it."""
    return {
        "id": one.item.id,
        "name": one.item.name,
        "item": content_of(one.item),
        "state": one.state,
        "label": None if one.label is None else classes[one.label],
        "left": [classes[k] for k in one.left],
        "answers": [
            {"class": classes[said.class_index], "value": said.value, "person": said.annotator}
            | {"at": said.answered, "repeat": said.is_repeat, "counts": said.counts, "final": said.is_final}
            for said in one.answers
        ],
    }
