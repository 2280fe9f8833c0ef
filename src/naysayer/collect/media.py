"""Pictures, served by their hash, only as they were registered, and never as their file is: see `previews`."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from naysayer.collect.people import Person
from naysayer.collect.previews import Encoded, Previews, render
from naysayer.collect.store import Store
from naysayer.data.items import Item, read_image

MEDIA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
PictureId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
Size = Annotated[
    Literal["320", "640", "1280", "2560", "full"], Query(description="Pixels that the longer side has at the most.")
]


def media_routes(store: Store) -> APIRouter:
    """Give the pictures of a store."""
    routes = APIRouter(tags=["asking"])
    previews = Previews()

    @routes.get(
        "/media/{item_id}",
        response_class=Response,
        responses={200: {"content": {"image/*": {}}, "description": "The picture."}},
    )
    def media(who: Person, item_id: PictureId, size: Size = "1280") -> Response:
        """Give the picture of a registered item: upright, and its pixels alone."""
        item = store.item(item_id)
        if item is None or item.path is None:
            raise HTTPException(404, "no picture has this id")
        if size == "full":  # looked at now and then, and large
            return respond(show(item, None))
        return respond(previews.get((item_id, size, version(item)), partial(show, item, int(size))))

    return routes


def respond(picture: Encoded) -> Response:
    """A picture that browsers keep, and that can do nothing but be looked at."""
    headers = {"cache-control": "private, max-age=31536000, immutable", "content-security-policy": MEDIA_POLICY}
    return Response(picture[0], media_type=picture[1], headers=headers)


def show(item: Item, size: int | None) -> Encoded:
    """Render the picture of an item."""
    try:
        return render(read_picture(item), size)
    except ValueError:
        raise HTTPException(415, "this file is no picture that can be shown") from None


def version(item: Item) -> tuple[int, int]:
    """Tell a file from what it was before without reading it."""
    try:
        status = os.stat(str(item.path))
    except (OSError, ValueError):
        return 0, 0
    return status.st_mtime_ns, status.st_size


def read_picture(item: Item) -> bytes:
    """A registered picture's bytes: those that were registered, whatever lies at its path by now."""
    try:
        body = read_image(str(item.path))
    except (OSError, ValueError):
        raise HTTPException(404, "the file of this picture is no longer there") from None
    if hashlib.sha256(body).hexdigest()[:32] != item.id:
        raise HTTPException(404, "the file of this picture has changed since it was registered")
    return body
