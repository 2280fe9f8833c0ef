"""Who may do what in `naysayer ask`: whoever has a link answers, the owner sees everything and makes the links."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from naysayer.collect.records import Annotator
from naysayer.collect.store import Store


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


def owner_of(store: Store) -> Annotator:
    """The one owner of a store, whom a first call adds."""
    found = [one for one in store.annotators() if one.role == "owner"]
    return found[0] if found else store.named_annotator("owner", "owner")


def invited(store: Store, name: str) -> Annotator | None:
    """Whoever was invited by this name before."""
    people = (one for one in store.annotators() if one.role == "annotator")
    return next((one for one in people if one.name == name.strip()), None)


def invite_to(store: Store, name: str, until: float | None = None) -> tuple[Annotator, str]:
    """A link's token for somebody; a name that is known is the same person, whose other links go on."""
    known = invited(store, name)
    if known is None:
        return store.add_annotator(name.strip(), "annotator", until)
    return known, store.new_link(known.id, until)
