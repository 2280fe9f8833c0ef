"""The command that compares methods: `benchmark`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from naysayer.cli.console import (
    Checkpoints,
    DataFolder,
    Device,
    Draw,
    Json,
    Markdown,
    RayAddress,
    ResultsFolder,
    TaskCpus,
    TaskGpus,
    check_writable,
    numbers,
    optional_count,
    print_json,
    print_table,
    who_trains,
    words,
)
from naysayer.cli.data import dataset_names
from naysayer.common.checks import check_count


def benchmark(
    dataset: Annotated[
        str, typer.Option(help="Data sets, separated by commas.", autocompletion=dataset_names)
    ] = "digits",
    labels: Annotated[
        str | None, typer.Option(help="Of uniform, weak, strong, noisy, several, separated by commas; default: all.")
    ] = None,
    network: Annotated[str, typer.Option(help="Networks, separated by commas.")] = "mlp",
    recipe: Annotated[str, typer.Option(help="Recipes, separated by commas.")] = "plain",
    method: Annotated[
        str | None, typer.Option(help="Methods, separated by commas; file.py:Class is your own; default: all.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="Learning rates to choose from; default: a few per network.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every run; default: those of the network.")] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0.")] = 3,
    held_out: Annotated[
        float, typer.Option(help="Share of the training images whose labels choose; 0 to choose nothing.")
    ] = 0.1,
    limit: Annotated[
        float | None, typer.Option(help="Seconds after which no epoch begins; the same command resumes.")
    ] = None,
    out: ResultsFolder = Path("benchmark"),
    add: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Add the results of this folder; may be repeated.")
    ] = None,
    draw: Draw = False,
    markdown: Markdown = None,
    write_labels: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the labels as files into this folder; train nothing.")
    ] = None,
    ray: RayAddress = None,
    task_cpus: TaskCpus = 1,
    task_gpus: TaskGpus = None,
    checkpoints: Checkpoints = None,
    device: Device = "auto",
    folder: DataFolder = None,
    as_json: Json = False,
) -> None:
    """Compare methods, including your own, on the same labels."""
    from naysayer.experiments import benchmark as job
    from naysayer.experiments.benchmark_page import write_page

    data = None if folder is None else str(folder)
    chosen = words(dataset) or []
    if write_labels is not None:
        _write_labels(chosen, words(labels), write_labels, data, as_json)
        return
    if limit is not None and not limit > 0:
        raise ValueError(f"--limit must be a number of seconds above 0; got {limit:g}")
    methods = job.find_methods(words(method))
    runs = job.list_runs(
        chosen,
        words(labels),
        words(network) or [],
        words(recipe) or [],
        methods,
        rates=numbers(rates, "--rates") if rates else None,
        epochs=optional_count(epochs, "--epochs"),
        seeds=check_count(seeds, "--seeds"),
        held_out=held_out,
    )
    if not runs:
        raise ValueError("--dataset, --network, --recipe and --method must each name something; got an empty one")
    check_writable(out)
    for other in add or []:
        found = job.read_results(other)
        if not found:
            raise ValueError(f"--add must be a folder with {job.RESULTS}; {other} has none")
        job.add_results(out, found.values())
    left = job.Left(0, {})
    if not draw:
        with who_trains(ray, checkpoints, out / "checkpoints", task_cpus, task_gpus, device) as workers:
            left = job.benchmark(runs, methods, out, data=data, device=device, limit=limit, workers=workers)
    rows = job.read_results(out)
    for (name, said), why in left.refused.items():
        if not rows:
            raise ValueError(f"{name} must learn from some labels to take part; of {said} ones it says {why}")
        print(f"note: {name} does not learn from {said} labels: {why}", file=sys.stderr)
    if left.runs and not rows:
        print(f"{left.runs} runs are left; the same command resumes")
        return
    write_page(rows.values(), out, markdown)
    asked = set(runs)
    shown = [row for row in rows.values() if draw or row.run in asked]
    if as_json:
        print_json({"report": str(out / "report.html"), "left": left.runs, "runs": [vars(row) for row in shown]})
        return
    _print(shown)
    print(f"\n{len(rows)} runs, their tables and figures are in {out}; all of it in {out / 'report.html'}")
    if left.runs:
        print(f"{left.runs} runs are left; the same command resumes")


def _print(shown: list[Any]) -> None:
    """Print what was chosen, a table per data set and labels."""
    from naysayer.experiments.benchmark_page import by_setup, ordered, title_of
    from naysayer.experiments.report import plain
    from naysayer.experiments.selection import cell

    for setup, by_labels in by_setup(shown).items():
        print(f"\n{title_of(setup)}: true test accuracy in percent, chosen by complementary labels")
        rows = [
            [name, *(plain(cell(found[name].accuracy)) if name in found else "–" for found in by_labels.values())]
            for name in ordered(by_labels)
        ]
        print_table(["", *by_labels], rows)


def _write_labels(names: list[str], labels: list[str] | None, folder: Path, data: str | None, as_json: bool) -> None:
    from naysayer.data import datasets
    from naysayer.experiments import benchmark_labels as job
    from naysayer.experiments.benchmark import list_runs

    list_runs(names, labels)  # which refuses what it does not know
    for name in names:
        if name not in job.DRAWN:
            raise ValueError(f"labels of {name} are in its publishers' file; there is nothing to draw")
    check_writable(folder)
    written: dict[Path, str] = {}
    for name in names:
        written |= job.write(name, datasets.load(name, data, download=True), labels or [*job.LABELLINGS], folder)
    if as_json:
        print_json({str(path): published for path, published in written.items()})
        return
    for path, published in written.items():
        print(f"{published}  {path}")
