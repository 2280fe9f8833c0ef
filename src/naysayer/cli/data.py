"""The commands of `naysayer data`: list, fetch and find the data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from naysayer.cli.console import DataFolder, Json, print_json, print_table
from naysayer.data.registry import REGISTRY

app = typer.Typer(help="List, fetch and find the data sets.", rich_markup_mode=None)


def dataset_names(incomplete: str) -> list[str]:
    """The known data sets whose names begin like this, for the shell's completion."""
    return [name for name in REGISTRY if name.startswith(incomplete)]


def _names_or_all(incomplete: str) -> list[str]:
    return [*dataset_names(incomplete), *(["all"] if "all".startswith(incomplete) else [])]


@app.command("list")
def list_(folder: DataFolder = None, as_json: Json = False) -> None:
    """List the data sets, their sizes, and where they are."""
    from naysayer.data import datasets

    found = datasets.overview(folder)
    if as_json:
        print_json([entry._asdict() | {"folder": entry.folder and str(entry.folder)} for entry in found])
        return
    rows = [
        [entry.name, str(entry.n_classes), f"{entry.n_train:,}", f"{entry.n_test:,}", f"{entry.size / 1e6:.1f}"]
        + ["not here" if entry.folder is None else str(entry.folder)]
        for entry in found
    ]
    print_table(["name", "classes", "train", "test", "MB", "where"], rows)
    if absent := [entry.name for entry in found if entry.folder is None]:
        print(f"\nDownload those that are not here (MB is the size): naysayer data get {' '.join(absent)}")


@app.command()
def get(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Data sets to download, or all.", autocompletion=_names_or_all)
    ],
    folder: DataFolder = None,
    as_json: Json = False,
) -> None:
    """Download data sets from their publishers; complete files that are already there are kept."""
    from naysayer.data import datasets

    wanted = list(datasets.REGISTRY) if names == ["all"] else names
    for name in wanted:  # all of them before the first download
        datasets.check_name(name)
    found = {name: str(datasets.get(name, folder)) for name in wanted}
    if as_json:
        print_json(found)
        return
    for name, place in found.items():
        print(f"{name} is in {place}")


@app.command()
def path(
    name: Annotated[str, typer.Argument(help="The data set.", autocompletion=dataset_names)],
    folder: DataFolder = None,
    as_json: Json = False,
) -> None:
    """Print the folder that holds a data set's files."""
    from naysayer.data import datasets

    place = str(datasets.find(name, folder))
    if as_json:
        print_json({name: place})
    else:
        print(place)
