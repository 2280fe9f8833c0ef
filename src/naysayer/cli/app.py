"""The command: all its parts, and how it ends. Every error is one line on standard error, and exit code 2."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Annotated, Any

import typer

from naysayer import __version__
from naysayer.cli import (
    ask,
    benchmark,
    data,
    evaluate,
    exchange,
    items,
    labels,
    people,
    predict,
    processes,
    reproduce,
    survey,
    train,
    tune,
)
from naysayer.common.allocation import keep_freed
from naysayer.common.launched import launched

EXTRAS = dict.fromkeys(("fastapi", "uvicorn", "sqlalchemy", "jinja2", "PIL"), "web")
EXTRAS |= {"psycopg": "postgres", "ray": "ray"}
SHOWING = ("ask", "add", "labels", "survey", "export", "import")  # commands for which Pillow comes with the web pages
# Commands that keep on the way what they did.
RESUMED = ("train", "predict", "evaluate", "reproduce", "benchmark", "tune")
COMPUTING = (*RESUMED, "demo")

app = typer.Typer(
    name="naysayer",
    help="Learn classifiers from labels that only say what an example is not.",
    epilog="docs/completion.md says how bash, zsh and fish complete it.",
    no_args_is_help=True,
    add_completion=False,  # its options would load pydantic for every command; see _prepare_completion
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"naysayer {__version__}")
        raise typer.Exit


@app.callback()
def _options_of_all(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


app.command()(reproduce.demo)
app.command()(train.train)
app.command()(predict.predict)
app.command()(evaluate.evaluate)
app.command()(labels.labels)
app.command()(labels.plan)
app.command()(labels.doctor)
app.command()(reproduce.reproduce)
app.command()(benchmark.benchmark)
app.command()(tune.tune)
app.command()(ask.ask)
app.command()(people.people)
app.command()(items.add)
app.command()(items.remove)
app.command()(survey.survey)
app.command("export")(exchange.export_store)
app.command("import")(exchange.import_file)
app.add_typer(data.app, name="data")


def main() -> None:
    """Run the command; turn every expected error into one line and exit code 2."""
    _open_streams()
    # pyarrow's own pool takes a gigabyte ahead of any need, against every limit of memory; it asks when it is loaded
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if _command() in COMPUTING:
        keep_freed()
    if "_NAYSAYER_COMPLETE" in os.environ:
        _prepare_completion()
    code: Any
    try:
        met = launched() and processes.begin(_command())
        code = app(_with_address(sys.argv[1:]) or ["--help"], prog_name="naysayer", standalone_mode=False)
        if met:
            processes.end()
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        code = _answer(error)
    if code == 130:
        rest = "; what was saved on the way is kept, and the same command resumes from it"
        processes.tell(f"interrupted{rest if _command() in RESUMED else ''}")
    sys.exit(code if isinstance(code, int) else 0)


def _open_streams() -> None:
    """See that nothing fails because of where it is printed, when all is computed.

    A stream that was closed leads nowhere: else what is for people would be printed among the results. What the
    terminal's encoding cannot show is escaped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _with_address(arguments: list[str]) -> list[str]:
    """Let `--ray` stand alone: the word after it is its address only if it looks like one."""
    filled = []
    for word, following in zip(arguments, [*arguments[1:], ""]):
        alone = word == "--ray" and not re.fullmatch(r"auto|local|(ray://)?[^/\s]+:\d+", following)
        filled.append("--ray=local" if alone else word)
    return filled


def _command() -> str:
    """Give the name of the command that was asked for."""
    return next((word for word in sys.argv[1:] if not word.startswith("-")), "")


def _prepare_completion() -> None:
    """Get ready to answer a shell that asks what may come next."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    sys.modules["rich"] = None  # type: ignore[assignment]  # it is slow to load, and it would break long lines in two


def _answer(error: Exception) -> int:
    """Tell a mistake in one line; raise again what nobody expected."""
    if type(error).__name__ == "Abort":  # what older parsers make of Control-C; newer ones return 130
        return 130
    if hasattr(error, "format_message"):  # one of the parser's own
        return _fail(error.format_message())
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        extra = "photos" if error.name == "PIL" and _command() not in SHOWING else EXTRAS[error.name]
        return _fail(f"this needs the package {error.name}, which is not installed; pip install 'naysayer[{extra}]'")
    if isinstance(error, ConnectionError) and launched():
        return _fail(processes.ENDED)
    if isinstance(error, (ValueError, OSError, ImportError, MemoryError, RuntimeError)):
        return _fail(str(error) or type(error).__name__)
    raise error


def _fail(message: str) -> int:
    processes.tell(f"naysayer: {' '.join(message.split())}")
    return 2
