"""Pictures, served by their hash and only as they were registered."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from naysayer.collect.people import Person
from naysayer.collect.store import Store
from naysayer.data.items import Item, read_image

MEDIA_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
PICTURES = [  # how files begin, and what they then are; a file's name says nothing here
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"BM", "image/bmp"),
]


def media_routes(store: Store) -> APIRouter:
    """Give the pictures of a store."""
    routes = APIRouter(tags=["asking"])

    @routes.get(
        "/media/{item_id}",
        response_class=Response,
        responses={200: {"content": {"image/*": {}}, "description": "The picture."}},
    )
    def media(who: Person, item_id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]) -> Response:
        """Give the picture of a registered item."""
        item = store.item(item_id)
        if item is None or item.path is None:
            raise HTTPException(404, "no picture has this id")
        body = read_picture(item)
        headers = {"cache-control": "private, max-age=31536000, immutable", "content-security-policy": MEDIA_POLICY}
        return Response(body, media_type=sniff(body), headers=headers)

    return routes


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
