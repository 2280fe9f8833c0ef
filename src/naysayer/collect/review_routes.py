"""What the owner does about answers: leave a person out, let them in again, settle what people disagree on."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from naysayer.collect.asking import Id, Strict, content_of
from naysayer.collect.people import Owner
from naysayer.collect.reviewing import Reviews
from naysayer.collect.store import Store

MOST_SHOWN = 10  # disagreements at a time, and things settled


class LeaveOutIn(Strict):
    """Whose answers count no more, and why."""

    id: Id
    reason: Annotated[str, Field(max_length=500)] = ""


class LetInIn(Strict):
    """Whose answers count again."""

    id: Id


class SettleIn(Strict):
    """What an item is; null: nobody can tell."""

    item: Id
    class_: Annotated[str | None, Field(alias="class", max_length=200)]


class ReopenIn(Strict):
    """What item to take the last word back about."""

    item: Id


class Done(BaseModel):
    """It is in the store."""

    id: str


def review_routes(store: Store, reviews: Reviews) -> APIRouter:
    """Tell of people and disagreements, and take down what the owner rules."""
    routes = APIRouter(tags=["owner"])

    @routes.get("/api/people")
    def people(who: Owner) -> dict[str, Any]:
        """Tell how each person answers, and who is named for it."""
        return {"people": reviews.people()}

    @routes.post("/api/leave-out", response_model=Done)
    def leave_out(who: Owner, body: LeaveOutIn) -> dict[str, str]:
        """Let somebody's answers count no more; they stay in the store."""
        return change(lambda: store.leave_out(body.id, body.reason, who.id), body.id)

    @routes.post("/api/let-in", response_model=Done)
    def let_in(who: Owner, body: LetInIn) -> dict[str, str]:
        """Let somebody's answers count again."""
        return change(lambda: store.let_in(body.id, "", who.id), body.id)

    @routes.get("/api/disagreements")
    def disagreements(who: Owner) -> dict[str, Any]:
        """Give the items on which people, or people and model, contradict each other, and those settled last."""
        queue, settled = reviews.queue()
        names = {person.id: person.name for person in store.annotators()}
        classes = store.project.classes
        shown = []
        for one in queue[:MOST_SHOWN]:
            said = [
                {"name": names[each.annotator], "value": each.value, "class": classes[each.class_index]}
                for each in one.said
            ]
            model = one.model and {"class": classes[one.model[0]], "sure": one.model[1]}
            if found := look(one.item_id):
                shown.append(found | {"why": one.why, "said": said, "model": model})
        done = [
            found | {"class": classes[one.class_index] if one.value == "yes" else None}
            for one in settled[:MOST_SHOWN]
            if (found := look(one.item_id))
        ]
        return {"classes": list(classes), "total": len(queue), "shown": shown, "settled": done}

    @routes.post("/api/settle", response_model=Done)
    def settle(who: Owner, body: SettleIn) -> dict[str, str]:
        """Say the last word about an item."""
        k = None
        if body.class_ is not None:
            if body.class_ not in store.project.classes:
                raise HTTPException(422, f"a class must be one of {', '.join(store.project.classes)}"[:500])
            k = store.project.classes.index(body.class_)
        return change(lambda: store.settle(body.item, k, who.id), body.item)

    @routes.post("/api/reopen", response_model=Done)
    def reopen(who: Owner, body: ReopenIn) -> dict[str, str]:
        """Take back the last word about an item."""
        if not store.reopen(body.item, who.id):
            raise HTTPException(404, "nothing was settled about an item of this id")
        reviews.forget()
        return {"id": body.item}

    def look(item_id: str) -> dict[str, Any]:
        """An item as the page shows it; nothing of one that was removed since."""
        item = store.item(item_id)
        return {} if item is None else {"id": item_id, "name": item.name, "item": content_of(item)}

    def change(ruled: Any, id: str) -> dict[str, str]:
        """Rule; what does not fit is told as such."""
        try:
            ruled()
        except KeyError as error:
            raise HTTPException(404, str(error.args[0])) from None
        except ValueError as error:
            raise HTTPException(409, str(error)) from None
        reviews.forget()
        return {"id": id}

    return routes
