"""The command `people`: how each person answers, and whose answers count."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from naysayer.cli.console import Json, StorePlace, print_json, print_table
from naysayer.common.words import count


def people(
    store: StorePlace,
    leave_out: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Stop counting this person's answers; they stay in the store."),
    ] = None,
    let_in: Annotated[
        str | None, typer.Option(metavar="NAME", help="Let the answers of somebody who was left out count again.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    as_json: Json = False,
) -> None:
    """Show how each person answers, name those whose answers look bad, and leave them out or let them in again."""
    from naysayer.collect.people import owner_of
    from naysayer.collect.reviewing import summary
    from naysayer.collect.store import Store

    if leave_out is not None and let_in is not None:
        raise ValueError("--leave-out and --let-in must not come together; do one, then the other")
    with Store.open(store) as answers:
        if leave_out is not None:
            answers.leave_out(_named(answers, leave_out), reason, owner_of(answers).id)
        if let_in is not None:
            answers.let_in(_named(answers, let_in), reason, owner_of(answers).id)
        found = summary(answers)
    if as_json:
        print_json({"people": found})
        return
    if not found:
        print(f"nobody has answered yet in {store}")
        return
    for name, how in ((leave_out, "count no more"), (let_in, "count again")):
        if one := next((one for one in found if name in (one["name"], one["id"])), None):
            print(f"{count(one['n'], 'answer')} of yes or no by {one['name']} {how}\n")
    rows = [
        [one["name"], f"{one['n']:,}", f"{one['n_yes']:,}", _seconds(one["seconds"])]
        + [_agreement(one["with_others"]), _agreement(one["with_model"]), _state(one)]
        for one in found
    ]
    print_table(["person", "answers", "yes", "seconds", "same as others %", "as the model %", ""], rows)
    for one in found:
        for why in one["reasons"]:
            print(f"\n{one['name']} {why}.")
    if any(one["reasons"] and not one["left_out"] for one in found):
        print("\nnext: look at their answers; naysayer people STORE --leave-out NAME takes them out of all estimates")


def _named(answers: Any, name: str) -> str:
    """Give the id of the one person with this name or id."""
    found = [one for one in answers.annotators() if name in (one.name, one.id)]
    if len(found) == 1:
        return str(found[0].id)
    if found:
        ids = ", ".join(one.id for one in found)
        raise ValueError(f"a name must be one person's; {len(found)} are called {name!r}; give an id: {ids}")
    known = ", ".join(sorted({one.name for one in answers.annotators()}))
    raise ValueError(f"a name must be that of somebody in the store, {known}; got {name!r}")


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _agreement(interval: list[float] | None) -> str:
    if interval is None:
        return "–"
    estimate, low, high = (100 * min(1.0, max(0.0, each)) for each in interval)
    return f"{estimate:.0f} ({low:.0f} to {high:.0f})"


def _state(one: dict[str, Any]) -> str:
    return "left out" if one["left_out"] else "look at it" if one["reasons"] else ""
