"""Run experiments, going on from what was done before, and write their figures, tables and one report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from naysayer.common.checks import near
from naysayer.common.progress import Bar, progress_bar
from naysayer.data import datasets
from naysayer.experiments import figure1, figure2, figure4, jobs, selection_loss, table3
from naysayer.experiments.jobs import Job, Result
from naysayer.experiments.report import Section, Table, write_csv, write_html, write_markdown
from naysayer.experiments.scale import TITLES, Scale
from naysayer.experiments.sweeps import SWEEPS
from naysayer.experiments.tasks import Here, Task, Workers


class Experiment(NamedTuple):
    """What to train, and what to make of it."""

    jobs: Callable[[Scale], list[Job]]
    section: Callable[[list[Result], Path], Section]


EXPERIMENTS: dict[str, Experiment] = {
    "figure1": Experiment(figure1.jobs, figure1.section),
    "figure2": Experiment(figure2.jobs, figure2.section),
    "table3": Experiment(table3.jobs, table3.section),
    "figure4": Experiment(figure4.jobs, figure4.section),
    "selection": Experiment(selection_loss.jobs, selection_loss.section),
    **{name: Experiment(sweep.jobs, sweep.section) for name, sweep in SWEEPS.items()},
}
ALIASES = {"table2": "table3", "figure3": "figure2"}  # the errata's Figure 3 and Table 3 are those two, corrected


def choose(names: Sequence[str]) -> list[str]:
    """Turn what somebody asked for into names of experiments, each once, in the paper's order."""
    wanted = set()
    for name in names:
        known = [*EXPERIMENTS, *ALIASES, "all"]
        if name not in known:
            raise ValueError(f"an experiment must be one of {', '.join(known)}; got {near(name, known)}")
        wanted |= set(EXPERIMENTS) if name == "all" else {ALIASES.get(name, name)}
    return [name for name in EXPERIMENTS if name in wanted]


def reproduce(
    names: Sequence[str],
    out: str | Path,
    scale: Scale | None = None,
    *,
    data: str | None = None,
    device: str = "auto",
    train: bool = True,
    only: str = "",
    markdown: str | Path | None = None,
    workers: Workers | None = None,
    show: bool = True,
) -> list[Section]:
    """Run experiments and write ``report.html``, figures, tables and every curve under `out`.

    The report shows all that the folder holds, other experiments and data sets of earlier calls included. What stands
    in ``notes.txt`` there is put at its head.

    Parameters
    ----------
    names : of :data:`EXPERIMENTS`, or "all".
    out : a folder; what earlier calls finished there is taken over, and what they began is gone on with.
    scale : fewer epochs, trials or data sets than the paper's.
    data : a folder of data sets; see :func:`naysayer.data.datasets.load`.
    device : "auto", "cpu" or "cuda".
    train : if false, draw what is there, with as many epochs as it has, and train nothing.
    only : train only the jobs whose names have this in them, such as "resnet-ascent": one stretch of a long experiment.
    markdown : also write the report as this file.
    workers : who trains; None: this process. See :mod:`naysayer.experiments.tasks`.
    show : whether to show a progress bar.

    Returns
    -------
    the sections of the report on `names`
    """
    scale = scale or Scale()
    folder = Path(out)
    chosen = choose(names)
    asked = {name: EXPERIMENTS[name].jobs(scale) for name in chosen}
    if not any(asked.values()):
        raise ValueError(
            f"{', '.join(chosen)} has nothing to do with {', '.join(scale.datasets)}; ask for other data sets"
        )
    wanted = {job.file: job for listed in asked.values() for job in listed if train and only in job.name}
    if train and not wanted:
        example = next(job.name for listed in asked.values() for job in listed)
        raise ValueError(f"--only must be a part of a job's name, such as {example}; got {only!r}")
    shelf = Shelf(folder / "jobs")
    shelf.folder.mkdir(parents=True, exist_ok=True)
    missing = [job for job in wanted.values() if shelf.find(job) is None]
    for job in missing:
        jobs.check_length(job, shelf.folder)
    for name in dict.fromkeys(job.dataset for job in missing):
        datasets.get(name, data)  # a data set that cannot be had is said before hours of training, not after
    tasks = [_task(job, data, device) for job in missing]
    workers = workers or Here(shelf.folder)
    with progress_bar(sum(task.size for task in tasks), "training", show=show) as bar:
        for task, result in workers.do(tasks, bar):
            shelf.results[result.job.file] = jobs.keep(result, shelf.folder)
            if jobs.is_whole(result.job):
                workers.forget(task)
    sections: dict[str, Section] = {}
    for name in EXPERIMENTS:
        if name in chosen:
            results, note = shelf.every(name, scale, any_epochs=not train), scale.note
        else:
            results, note = shelf.held(name, scale)
        if results:
            section = EXPERIMENTS[name].section(results, folder)
            sections[name] = replace(section, text="\n\n".join(filter(None, (note, section.text))))
    if not sections.keys() & set(chosen):
        raise ValueError(f"{folder} must hold results of {', '.join(chosen)} to draw; there are none; leave out --draw")
    _write([*sections.values()], folder, markdown, _about(shelf.shown, [*sections], scale))
    return [section for name, section in sections.items() if name in chosen]


class Shelf:
    """The results that a folder holds, each read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results: dict[str, Result | None] = {}
        self.shown: dict[str, Result] = {}

    def find(self, job: Job, *, any_epochs: bool = False) -> Result | None:
        """A job's result, if it is here."""
        if self.results.get(job.file) is None:
            self.results[job.file] = jobs.find(job, self.folder, any_epochs=any_epochs)
        return self.results[job.file]

    def every(self, name: str, scale: Scale, *, any_epochs: bool) -> list[Result]:
        """What is here of an experiment at a scale, of whatever data set."""
        asked = EXPERIMENTS[name].jobs(replace(scale, datasets=tuple(TITLES)))
        found = [r for r in (self.find(job, any_epochs=any_epochs) for job in asked) if r is not None]
        self.shown |= {r.job.file: r for r in found}
        return found

    def held(self, name: str, scale: Scale) -> tuple[list[Result], str]:
        """What is here of an experiment that nobody asks for now, at one scale, and what is cut there."""
        for other in dict.fromkeys([replace(scale, epochs=None, datasets=tuple(TITLES)), *self._scales()]):
            if results := self.every(name, other, any_epochs=True):
                longest = max(len(r.history["loss"]) for r in results)
                cut = all(len(r.history["loss"]) < r.job.paper_epochs for r in results)
                return results, replace(other, epochs=longest if cut else None).note
        return [], ""

    def _scales(self) -> list[Scale]:
        """The paper's scale, and those that the settings of what is here speak of, the fullest first."""
        found = {Scale()}
        for path in self.folder.glob("*.json"):
            try:
                settings = json.loads(path.read_text(encoding="utf8"))["settings"]
                trials, quick = {run["trial"] for run in settings["runs"]}, settings["n_test"] is not None
            except (OSError, ValueError, KeyError):
                continue  # half a file is no result
            found.add(Scale(trials=len(trials), quick=quick))
        return sorted(found, key=lambda s: (s.quick, s.trials is not None, -(s.trials or 0)))


def _task(job: Job, data: str | None, device: str) -> Task:
    """Make a job a task; its name is that of its files."""
    return Task(job.name, _train, (job, data, device), f"{job.file}.checkpoint", job.cost * job.epochs)


def _train(job: Job, data: str | None, device: str, *, checkpoint: Path, bar: Bar) -> Result:
    """Train a job; each epoch is a share of it."""
    share = 1 / job.epochs
    return jobs.train(job, data, device, checkpoint=checkpoint, bar=lambda advance=1, label=None: bar(share, label))


def _write(sections: list[Section], folder: Path, markdown: str | Path | None, about: dict[str, Any]) -> None:
    title = "Complementary-label learning, reproduced"
    for section in sections:
        tables = [item for item in section.items if isinstance(item, Table)]
        for i, table in enumerate(tables):
            write_csv(folder / f"{section.name}{f'-{i + 1}' if len(tables) > 1 else ''}.csv", table)
    notes = (folder / "notes.txt").read_text(encoding="utf8") if (folder / "notes.txt").is_file() else ""
    write_html(folder / "report.html", title, sections, about, notes)
    if markdown is not None:
        write_markdown(markdown, title, sections, about, notes)


def _about(shown: dict[str, Result], names: list[str], scale: Scale) -> dict[str, Any]:
    """How these numbers were made."""
    done = list(shown.values())
    words = ["naysayer", "reproduce", *names, *(["--quick"] if scale.quick else [])]
    about: dict[str, Any] = {"command": shlex.join(words)}
    for key in ("device", "torch", "python", "naysayer"):
        about[key] = ", ".join(sorted({str(r.about[key]) for r in done}))
    about["populations"] = len(done)
    about["runs"] = sum(len(r.job.runs) for r in done)
    about["seconds of training"] = round(sum(r.about["seconds"] for r in done))
    about["seeds"] = (
        "the number of the trial, 0 upwards: for the start, the labels, the split and the order of the rows"
    )
    broken = {f"{r.job.name} run {run}": why for r in done for run, why in r.about["failed"].items()}
    return about | ({"runs that broke off": broken} if broken else {})
