"""What annotators should know about each class: a text and example pictures, from a file, one key away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from naysayer.collect.media import PictureId, Size, respond, show
from naysayer.collect.people import Person
from naysayer.collect.previews import Previews
from naysayer.common.toml import read_toml
from naysayer.data.items import Item, image_item


@dataclass(frozen=True)
class Guideline:
    """What there is to know about one class."""

    text: str = ""
    examples: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Guidelines:
    """What holds for all classes, and what for each that has guidelines of its own, by its name."""

    text: str = ""
    classes: Mapping[str, Guideline] = field(default_factory=dict)


class ClassOut(BaseModel):
    """The guidelines of a class; `examples` are addresses of pictures."""

    class_: str = Field(alias="class")
    text: str
    examples: list[str]


class GuidelinesOut(BaseModel):
    """What holds for all classes, and what for each that has guidelines of its own."""

    text: str
    classes: list[ClassOut]


def read_guidelines(path: Path, classes: Sequence[str]) -> Guidelines:
    """Read guidelines from a TOML file; the paths of its pictures begin where it lies.

    ::

        text = "Judge what is in the middle of the photo."

        [classes.cat]
        text = "A house cat of any breed; no lynx, no toy."
        examples = ["examples/tabby.jpg", "examples/siamese.jpg"]
    """
    content = read_toml(path, "a guide", "docs/collect.md shows one")
    try:
        check_keys(content, ("text", "classes"), "the file")
        told = content.get("classes", {})
        if not isinstance(told, dict) or not all(isinstance(one, dict) for one in told.values()):
            raise ValueError("classes must be tables such as [classes.cat]")
        check_keys(told, classes, "the project", "class")
        return Guidelines(
            text_of(content), {name: read_class(told[name], name, path.parent) for name in classes if name in told}
        )
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: {error}") from None


def read_class(told: Mapping[str, Any], name: str, folder: Path) -> Guideline:
    """Read the guidelines of one class."""
    check_keys(told, ("text", "examples"), f"[classes.{name}]")
    paths = told.get("examples", [])
    if not isinstance(paths, list) or not all(isinstance(one, str) for one in paths):
        raise ValueError(f"the examples of {name!r} must be a list of paths of pictures")
    return Guideline(text_of(told), tuple(image_item(folder / one, one) for one in paths))


def text_of(told: Mapping[str, Any]) -> str:
    """Give the text of a table."""
    text = told.get("text", "")
    if not isinstance(text, str):
        raise ValueError(f"text must be a text; got {text!r}")
    return text.strip()


def check_keys(told: Mapping[str, Any], known: Sequence[str], what: str, kind: str = "key") -> None:
    """Check that nothing is misspelt."""
    for name in told:
        if name not in known:
            raise ValueError(f"{what} has no {kind} {name!r}; it may have {', '.join(known)}")


def guideline_routes(guidelines: Guidelines) -> APIRouter:
    """Give the guidelines and their pictures."""
    routes = APIRouter(tags=["asking"])
    pictures = {item.id: item for one in guidelines.classes.values() for item in one.examples}
    previews = Previews()

    @routes.get("/api/guidelines", response_model=GuidelinesOut)
    async def tell(who: Person) -> dict[str, Any]:
        """Give the guidelines."""
        told = [
            {"class": name, "text": one.text, "examples": [f"/guide/{item.id}" for item in one.examples]}
            for name, one in guidelines.classes.items()
        ]
        return {"text": guidelines.text, "classes": told}

    @routes.get(
        "/guide/{example_id}",
        response_class=Response,
        responses={200: {"content": {"image/*": {}}, "description": "The picture."}},
    )
    def example(who: Person, example_id: PictureId, size: Size = "640") -> Response:
        """Give an example's picture; the guidelines have their ids."""
        if example_id not in pictures:
            raise HTTPException(404, "no example has this id")
        make = partial(show, pictures[example_id], None if size == "full" else int(size))
        return respond(previews.get((example_id, size), make))

    return routes
