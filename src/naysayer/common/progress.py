"""Progress with the time left, on standard error: a bar where a person looks at it, now and then a line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

SECONDS = 10.0  # of work before the first line, and between two


class Bar(Protocol):
    """What a long job tells the bar."""

    def __call__(self, advance: float = 1, label: str | None = None) -> None: ...


@contextmanager
def progress_bar(total: float, label: str, show: bool = True) -> Iterator[Bar]:
    """Show a bar while the block runs; call the value it gives to move it on. Without a terminal, print lines."""
    if not show:
        yield lambda advance=1, label=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total, label)
        return
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(label, total=total)

        def bar(advance: float = 1, label: str | None = None) -> None:
            shown.update(task, advance=advance)
            if label is not None:
                shown.update(task, description=label)

        yield bar


def _lines(total: float, label: str) -> Bar:
    """Tell of progress in lines for a log, `SECONDS` apart."""
    begun = told = monotonic()
    done, current = 0.0, label

    def bar(advance: float = 1, label: str | None = None) -> None:
        nonlocal told, done, current
        now, done, current = monotonic(), done + advance, current if label is None else label
        if now - told >= SECONDS and done < total:
            told = now
            left = f", {_duration((now - begun) * (total / done - 1))} left" if done > 0 else ""
            print(
                f"{current}: {100 * done / total:.0f} % after {_duration(now - begun)}{left}",
                file=sys.stderr,
                flush=True,
            )

    return bar


def _duration(seconds: float) -> str:
    """Write a time in hours, minutes and seconds, as a clock does."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
