"""The commands that run experiments: `demo` and `reproduce`."""

from __future__ import annotations

from dataclasses import asdict
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
    optional_count,
    percent,
    print_json,
    print_table,
    who_trains,
    words,
)
from naysayer.cli.data import dataset_names
from naysayer.common.checks import check_count


def demo(
    out: Annotated[Path, typer.Option(help="Where to save the plot.")] = Path("demo.png"),
    epochs: Annotated[int, typer.Option(help="Epochs of every run.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of labels, splits and runs.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train the paper's five methods on scikit-learn's digits, from "not this digit" labels."""
    from naysayer.experiments import demo as job

    if out.is_dir():
        raise ValueError(f"--out must be a file; {out} is a folder")
    check_writable(out.parent)
    trials = job.run(epochs=check_count(epochs, "--epochs"), seed=seed, device=device)
    job.plot(trials, out)
    if as_json:
        keys = ("method", "n_answers", "true_accuracy", "estimated", "true_of_estimated")
        print_json({"plot": str(out), "trials": [{k: getattr(t, k) for k in keys} for t in trials]})
        return
    rows = []
    for method, title in job.METHODS.items():
        mine = [t for t in trials if t.method == method]
        rows.append([title, percent(*mine[0].estimated), f"{100 * mine[0].true_of_estimated:.1f}"])
        rows[-1] += [f"{100 * t.true_accuracy:.1f}" for t in mine]
    print('Digits, learned from labels that only say "not this one" (accuracy in %).\n')
    print_table(["method", "estimated from “no” labels", "true", *(f"{n} no" for n in job.ANSWERS)], rows)
    print(
        "\nEstimated and true: one run that learned from one “no” per image; the estimate saw "
        f"{job.TEST_ANSWERS} “no” per\ntest image and no true label."
    )
    print(f"To the right: true accuracy with 1 to {job.ANSWERS[-1]} “no” per image, mean of {job.SEEDS} runs.")
    print("Free, max operator and gradient ascent need more than these thousand labels: README has MNIST's 60,000.")
    print(f"The plot is in {out}.")


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="From the paper: figure1, figure2, table3, figure4; beyond it: selection, labels, classes, noise, "
            "bias, alpha; or all.",
        ),
    ],
    out: ResultsFolder = Path("reproduction"),
    dataset: Annotated[
        str | None, typer.Option(help="Only these data sets, separated by commas.", autocompletion=dataset_names)
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of every run; default: the paper's.")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of every setting; default: the paper's.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Everything at reduced size: minutes on two cores.")] = False,
    draw: Draw = False,
    only: Annotated[
        str, typer.Option(help="Train only the jobs with this in their names, such as resnet-ascent.")
    ] = "",
    markdown: Markdown = None,
    ray: RayAddress = None,
    task_cpus: TaskCpus = 1,
    task_gpus: TaskGpus = None,
    checkpoints: Checkpoints = None,
    device: Device = "auto",
    folder: DataFolder = None,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments and some beyond it: curves, figures, tables and a report of them all."""
    from naysayer.experiments import reproduce as job
    from naysayer.experiments.scale import Scale, check_datasets

    chosen = job.choose(names)
    scale = Scale(
        optional_count(epochs, "--epochs"), optional_count(trials, "--trials"), check_datasets(words(dataset)), quick
    )
    check_writable(out)
    data = None if folder is None else str(folder)
    how: dict[str, Any] = {"data": data, "device": device, "train": not draw, "only": only, "markdown": markdown}
    with who_trains(None if draw else ray, checkpoints, out / "jobs", task_cpus, task_gpus, device) as workers:
        sections = job.reproduce(chosen, out, scale, workers=workers, **how)
    if as_json:
        tables = [asdict(table) for section in sections for table in _tables(section)]
        print_json({"report": str(out / "report.html"), "tables": tables})
        return
    for section in sections:
        print(section.title)
        for table in _tables(section):
            _print_result(table)
        print()
    print(f"figures, tables and curves are in {out}; all of it in {out / 'report.html'}")


def _tables(section: Any) -> list[Any]:
    """The tables of a section of the report."""
    from naysayer.experiments.report import Table

    return [item for item in section.items if isinstance(item, Table)]


def _print_result(table: Any) -> None:
    """Print one table of the report."""
    from naysayer.experiments.report import plain

    print(f"\n{table.title}")
    cells = [["", *table.columns], *([name, *map(plain, row)] for name, row in table.rows.items())]
    if len(table.columns) > len(table.rows):  # a terminal has more lines than columns to spare
        cells = [list(column) for column in zip(*cells)]
    print_table(cells[0], cells[1:])
