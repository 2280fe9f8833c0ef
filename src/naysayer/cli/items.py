"""The commands that change what a store asks about: `add` and `remove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from naysayer.cli.console import Json, StorePlace, print_json, words
from naysayer.common.words import count


def add(
    store: StorePlace,
    items: Annotated[
        Path | None,
        typer.Argument(help="Folder of images; CSV, TSV, JSONL or Parquet file, one row per item."),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="Classes to add, separated by commas.")] = None,
    as_json: Json = False,
) -> None:
    """Add items or classes to a store, also while people are answering.

    Earlier answers say nothing about a new class: items that only elimination had settled are open again.
    """
    from naysayer.collect.store import Store
    from naysayer.data.items import read_items

    names = tuple(words(classes) or ())
    if items is None and not names:
        raise ValueError("something must be added: name a folder or file of items, or --classes owl,fox")
    with Store.open(store) as answers:
        found = (
            [] if items is None else list(read_items(items, verbose=1))
        )  # before anything is changed: it may be refused
        settled = answers.progress().closed
        if names:
            answers.add_classes(names)
        new, stay_out = answers.register(found), len(answers.removed(item.id for item in found))
        n_items, again, known = answers.n_items(), settled - answers.progress().closed, answers.project.classes
    if as_json:
        print_json({"items": n_items, "new": new, "removed_before": stay_out, "classes": known, "open_again": again})
        return
    print(f"{count(n_items, 'item')}, {new:,} of them new; classes: {', '.join(known)}")
    if stay_out:
        print(f"{count(stay_out, 'item')} stayed out: removed on request earlier")
    if again:
        print(f"{count(again, 'item')} settled by elimination {'is' if again == 1 else 'are'} open again")


def remove(
    store: StorePlace,
    item: Annotated[str, typer.Argument(help="The item's id, or its name as the list of items shows it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
    as_json: Json = False,
) -> None:
    """Remove an item with all answers about it, for good. Only its hash stays, so that it is not added again."""
    from naysayer.collect.store import Store

    with Store.open(store) as answers:
        found, total = answers.browse(name=item, most=1000)
        exact = [one for one in found if item in (one.item.id, one.item.name)]
        if len(exact) != 1:
            what = f"{len(exact):,} items have this name" if exact else count(total, "name has it", "names have it")
            raise ValueError(
                f"an item must be named by its whole name or its id; {item!r}: {what}; see the items' page"
            )
        (one,) = exact
        if not yes and not typer.confirm(
            f"Remove {one.item.name} and its {count(len(one.answers), 'answer')} for good?"
        ):
            raise ValueError("nothing was removed")
        gone = answers.remove(one.item.id)
    assert gone is not None
    if as_json:
        print_json({"id": gone.item_id, "name": one.item.name, "answers": gone.n_answers})
    else:
        print(f"removed {one.item.name} and {count(gone.n_answers, 'answer')}")
        if one.item.path:
            print(f"the file itself is where it was: {one.item.path}")
        print("exports, backups and models made earlier may still hold it: make them again")
