"""The commands that move answers: `export` and `import`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from naysayer.cli.console import Json, print_json, words
from naysayer.common.words import count


def export_store(
    store: Annotated[str, typer.Argument(help="A store, such as answers.db, or a postgresql:// URL; a survey's too.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv, .parquet or .jsonl; .json for Label Studio.")],
    as_json: Json = False,
) -> None:
    """Write all of a store into a file: items, questions, answers and who gave them, but no tokens."""
    from naysayer.collect.exchange import export
    from naysayer.collect.store import Store
    from naysayer.survey.store import is_survey

    if is_survey(store):
        export_survey(store, out, as_json)
        return
    with Store.open(store) as answers:
        n, stand = export(answers, out), answers.progress().answers
    if as_json:
        print_json({"answers": n, "standing": stand, "file": str(out)})
    elif n == stand:
        print(f"{count(n, 'answer')} {'is' if n == 1 else 'are'} in {out}")
    else:
        print(f"{n:,} answers and undos are in {out}; {count(stand, 'answer stands', 'answers stand')}")


def export_survey(store: str, out: Path, as_json: bool) -> None:
    """Write what a survey's respondents' devices stored into a file."""
    from naysayer.survey.export import export
    from naysayer.survey.store import SurveyStore

    answers = SurveyStore(store, None)
    try:
        n = export(answers, out)
    finally:
        answers.close()
    if as_json:
        print_json({"respondents": n, "file": str(out)})
    else:
        said = f"{count(n, 'respondent')} {'is' if n == 1 else 'are'} in {out}"
        print(f"{said}, each as it was stored; the minimum number of people for results does not apply to rows")


def import_file(
    store: Annotated[
        str,
        typer.Argument(help="A store, such as answers.db, or a postgresql:// URL; it is created if it does not exist."),
    ],
    file: Annotated[Path, typer.Argument(help="An export; Prodigy's .jsonl; Label Studio's .json.")],
    classes: Annotated[
        str | None,
        typer.Option(help="The classes of a new store, separated by commas; default: those that the file names."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read answers into a store: all of a file, or nothing if any of it is wrong. Answers already there are kept."""
    from naysayer.collect.exchange import import_answers, read_project
    from naysayer.collect.records import Project
    from naysayer.collect.store import Store

    project = Project(tuple(words(classes) or ())) if classes else read_project(file)
    if project is None and "://" not in store and not Path(store).exists():
        raise ValueError(f"--classes must say what a new store asks about, as {file} does not: add --classes cat,dog")
    with begun_or_gone(store), Store.open(store, project=project) as answers:
        added = import_answers(answers, file)
    if as_json:
        print_json(added._asdict())
    else:
        print("new in the store: " + ", ".join(count(n, name[:-1]) for name, n in added._asdict().items()))


@contextlib.contextmanager
def begun_or_gone(place: str) -> Iterator[None]:
    """Leave no new store behind when it could not be begun: the next try may be with other classes."""
    is_new = "://" not in place and not Path(place).exists()
    try:
        yield
    except BaseException:
        for ending in ("", "-wal", "-shm") if is_new else ():
            Path(f"{place}{ending}").unlink(missing_ok=True)
        raise
