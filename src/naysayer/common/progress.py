"""A progress bar with the time left, on standard error, and only where a person looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Bar(Protocol):
    """What a long job tells the bar."""

    def __call__(self, advance: float = 1, label: str | None = None) -> None: ...


@contextmanager
def progress_bar(total: float, label: str, show: bool = True) -> Iterator[Bar]:
    """Show a bar while the block runs; call the value it gives to move it on."""
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
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(label, total=total)

        def bar(advance: float = 1, label: str | None = None) -> None:
            shown.update(task, advance=advance)
            if label is not None:
                shown.update(task, description=label)

        yield bar
