"""What all commands share: options by which they are called, and how they read words and print."""

from __future__ import annotations

import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysayer.common.checks import check_count

if TYPE_CHECKING:
    from naysayer.features.tables import Columns

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Classes = Annotated[str | None, typer.Option(help="All class values, separated by commas; default: those that occur.")]
Ordinary = Annotated[bool, typer.Option("--ordinary", help="The labels say what each row is, not what it is not.")]
Transition = Annotated[
    Path | None,
    typer.Option(
        help="Matrix Q, one row per true class, in the order of the classes: a CSV, taken as known exactly, or the "
        "JSON of an estimate, which widens intervals."
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="Weight of 'is not' labels where both kinds occur; default: each row counts the same."),
]
Drop = Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")]
Categorical = Annotated[str, typer.Option(help="Columns to read as categories, separated by commas.")]
Numeric = Annotated[str, typer.Option(help="Columns to read as numbers, separated by commas.")]
Image = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column of paths of pictures, from the table's folder; may be repeated."),
]
Text = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Column of texts to learn from; may be repeated.")
]
Views = Annotated[
    int | None,
    typer.Option(
        metavar="1|2",
        help="For photos: 2 averages each with its mirror image; 1 takes half the time and is slightly less accurate; "
        "default: 2.",
    ),
]
Delimiter = Annotated[str | None, typer.Option(help="Separator of a CSV file, such as ';', or tab; default: comma.")]
ModelFolder = Annotated[Path, typer.Argument(help="Folder of a trained model.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the model in the folder.")]
StorePlace = Annotated[str, typer.Argument(help="A store, such as answers.db, or a postgresql:// URL.")]
ResultsFolder = Annotated[Path, typer.Option(help="Folder of the results; finished work in it is not repeated.")]
Draw = Annotated[bool, typer.Option("--draw", help="Draw and report the results so far; train nothing.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write the report as this Markdown file.")]
Confidence = Annotated[float, typer.Option(help="Confidence of the intervals.")]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port; default: one that stays the same for this store.")
]
Public = Annotated[
    str | None, typer.Option(help="Address that people open, if a proxy stands in front of this server.")
]
EndLinks = Annotated[
    bool, typer.Option("--end-links", help="First end all earlier links, and the sessions that they opened.")
]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of data; default: $NAYSAYER_DATA, or else the user's cache.")
]

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Train on a Ray cluster, such as 10.0.0.5:6379; without an address, on one that is started here.",
    ),
]
TaskCpus = Annotated[float, typer.Option(help="With --ray: cores per task.")]
TaskGpus = Annotated[
    float | None, typer.Option(help="With --ray: GPUs per task, such as 0.25; default: 1 if the cluster has any.")
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Folder that all machines share, or a URL such as s3://bucket/folder, for checkpoints; default: in --out.",
    ),
]


def who_trains(
    ray: str | None, checkpoints: str | None, default: Path, cpus: float, gpus: float | None, device: str
) -> AbstractContextManager[Any]:
    """Give who trains, for a `with` block: this process, or a Ray cluster."""
    from naysayer.experiments.tasks import check_place, workers

    check_place(checkpoints or "")
    return workers(ray, checkpoints or default, cpus=cpus, gpus=gpus, device=device)


def check_writable(folder: Path) -> None:
    """Find out before the training, not after it, that its result cannot be saved."""
    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not place.is_dir():
        raise ValueError(f"--out must be a folder; {place} is a file")
    _try_to_write(place, "--out must be")


def check_report(path: Path, out: Path) -> None:
    """Find out before the training that its report cannot be written; the folder of the model will be there by then."""
    folder = path.absolute().parent
    if path.is_dir():
        raise ValueError(f"--report must be a file, such as report.html; {path} is a folder")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--report must be a file whose name ends in .html; got {path}")
    if folder == out.absolute():
        return
    if not folder.is_dir():
        raise ValueError(f"--report must be in a folder that is there; {folder} is not; make it first")
    _try_to_write(folder, "--report must be in")


def check_target(path: Path, option: str) -> None:
    """Find out before the work, not after it, that a CSV file cannot be written."""
    if path.is_dir() or path.suffix.lower() != ".csv":
        raise ValueError(f"{option} must be a file whose name ends in .csv; got {path}")
    check_file(path, option)


def check_file(path: Path, option: str) -> None:
    """Find out before the work, not after it, that a file of any name cannot be written."""
    if path.is_dir():
        raise ValueError(f"{option} must be a file; {path} is a folder")
    if path.exists() and not path.is_file():  # a device or a pipe
        return
    folder = next(p for p in path.absolute().parents if p.exists())  # those on the way are made
    _try_to_write(folder, f"{option} must be in")


def is_store(place: str) -> bool:
    """Whether a place is a store of answers: a database's address, a name such as answers.db, or a SQLite file."""
    if "://" in place:
        return not is_address_of_files(place)
    path = Path(place)
    if path.suffix.lower() in (".db", ".sqlite", ".sqlite3"):
        return True
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:  # whoever reads it says what is wrong
        return False


def refuse_options(context: typer.Context, known: set[str], store: str) -> None:
    """Refuse options that mean nothing for a store: all but those known."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in known and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"{parameter.opts[0]} is for tables; {store} is a store; leave it out")


def refuse_given(options: dict[str, Any], why: str) -> None:
    """Refuse options of tables that were given for something else."""
    for option, value in options.items():
        if value:
            raise ValueError(f"{option} is for tables; {why}; leave it out")


def _try_to_write(folder: Path, what: str) -> None:
    """Refuse a folder that no file can be written into."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{what} a folder that can be written to: {error}") from None


def check_overwriting(folder: Path, force: bool) -> None:
    """Ask before a model is overwritten, or refuse where nobody can be asked; an interrupted training may resume."""
    from naysayer.models.description import is_finished

    if force or (folder / "checkpoint").is_dir() or not is_finished(folder):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ValueError(f"--out must be a folder without a model; {folder} has one; add --force to overwrite it")
    print(f"{folder} has a model; overwrite it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ValueError(f"{folder} keeps its model; give another --out")


def words(text: str | None) -> list[str] | None:
    """Words separated by commas; None where there are none."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else None


def said_of_columns(
    drop: str, categorical: str, numeric: str, image: list[str] | None, text: list[str] | None
) -> Columns:
    """What the options of `train` and `doctor` say of a table's columns."""
    from naysayer.features.tables import Columns

    named = (words(drop), words(categorical), words(numeric), image, text)
    return Columns(*(names or () for names in named))


def numbers(text: str, option: str, kind: type = float) -> list[Any]:
    """Numbers separated by commas, given to an option."""
    try:
        return [kind(word) for word in words(text) or []]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{option} must be {what} separated by commas; got {text!r}") from None


def check_label(label: str | None) -> str:
    """Give the name of the column of labels, which a table to learn from needs."""
    if label is None:
        raise ValueError("Missing option '--label': the column that holds the labels")
    return label


def read_matrix(path: Path | None) -> Any:
    """Read a transition matrix, where one is given: numbers that are known, or an estimate with what it is from."""
    if path is None:
        return None
    import numpy as np

    if path.suffix.lower() == ".json":
        from naysayer.labels.transition import Estimated

        try:
            return Estimated.from_json(json.loads(path.read_text(encoding="utf-8-sig")))
        except KeyError as error:
            reason = f"it lacks {error}"
        except (OSError, ValueError, TypeError) as error:
            reason = str(error)
        raise ValueError(f"{path} must be the JSON of what transition.estimate gave: {reason}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an empty file is no more than a warning to numpy
            return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig").tolist()
    except (OSError, ValueError, UserWarning) as error:
        raise ValueError(f"{path} must be a CSV of numbers, one row per class: {error}") from None


def optional_count(value: int | None, option: str) -> int | None:
    """An option's value, which must be a whole number of at least 1 where it is given."""
    return None if value is None else check_count(value, option)


def percent(estimate: float, low: float, high: float) -> str:
    """Write an estimate and its interval for people, who take one beyond 0 or 100 % for a mistake."""
    estimate, low, high = (100 * possible(value) for value in (estimate, low, high))
    return f"{estimate:.1f} ({low:.1f} to {high:.1f})"


def possible(share: float) -> float:
    """The nearest share that can be: an unbiased estimate may lie beyond 0 or 1, and only programs get that one."""
    return min(1.0, max(0.0, share))


def named_interval(interval: Any) -> dict[str, float]:
    """Give an estimate and its bounds by their names."""
    return dict(zip(("estimate", "low", "high"), interval, strict=True))


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Tell each warning in one line on standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning)):
                print(f"warning: {text}", file=sys.stderr)


def column_lines(readings: dict[str, str]) -> list[str]:
    """Say how columns were read, one line each; many in a row that were read alike share one."""
    lines = []
    for said, group in groupby(readings.items(), key=lambda reading: reading[1]):
        names = [name for name, _ in group]
        if len(names) > 5:
            lines.append(f"columns {names[0]!r} to {names[-1]!r} ({len(names)} in all): {said}")
        else:
            lines += [f"column {name!r}: {said}" for name in names]
    return lines


def print_table(heads: list[str], rows: list[list[str]]) -> None:
    """Print a plain table."""
    for line in table_lines(heads, rows):
        print(line)


def table_lines(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Write a plain table: the first column aligned to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = []
    for first, *others in [heads, ["-" * width for width in widths], *rows]:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def print_json(value: Any) -> None:
    """Print a value for programs."""
    print(json.dumps(_plain(value), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    """The value in lists, dicts and numbers; what is not finite is null, since JSON has no name for it."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):  # numpy's arrays and numbers, recognised without importing numpy
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---- streams ----------------------------------------------------------------------------------------------------


DATABASES = ("sqlite", "postgresql", "postgres", "mysql", "mariadb", "mssql", "oracle")  # as their addresses begin
STREAMED = (".parquet", ".csv", ".tsv")  # endings of tables that are read part by part
Memory = Annotated[
    int | None,
    typer.Option(
        metavar="MB",
        help="Read the table in parts, with this much memory for its rows; default: 256 for several files, while a "
        "single file is read whole.",
    ),
]


def is_streamed(places: list[str], memory: int | None) -> bool:
    """Whether tables are read part by part: several files, a folder or pattern of them, an address, or as asked for."""
    if memory is not None or len(places) > 1:
        return True
    place = Path(places[0])
    if "://" in places[0]:
        return is_address_of_files(places[0])
    if place.is_dir():
        return any(path.suffix.lower() in STREAMED for path in place.rglob("*"))
    return not place.exists() and any(sign in places[0] for sign in "*?[")


def is_address_of_files(place: str) -> bool:
    """Whether an address such as s3://bucket/folder is of tables, and not of a database."""
    return place.partition("://")[0].partition("+")[0].lower() not in DATABASES
