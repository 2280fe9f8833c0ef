"""Run experiments, going on from what was done before, and write their figures, tables and one report."""

from __future__ import annotations

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
from naysayer.experiments.scale import Scale
from naysayer.experiments.sweeps import SWEEPS


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
    markdown: str | Path | None = None,
    show: bool = True,
) -> list[Section]:
    """Run experiments and write ``report.html``, figures, tables and every curve under `out`.

    What stands in ``notes.txt`` there is put at the head of the report.

    Parameters
    ----------
    names : of :data:`EXPERIMENTS`, or "all".
    out : a folder; what earlier calls finished there is taken over, and what they began is gone on with.
    scale : fewer epochs, trials or data sets than the paper's.
    data : a folder of data sets; see :func:`naysayer.data.datasets.load`.
    device : "auto", "cpu" or "cuda".
    train : if false, draw what is there, with as many epochs as it has, and train nothing.
    markdown : also write the report as this file.
    show : whether to show a progress bar.

    Returns
    -------
    the sections of the report
    """
    scale = scale or Scale()
    folder = Path(out)
    chosen = choose(names)
    asked = {name: EXPERIMENTS[name].jobs(scale) for name in chosen}
    if not any(asked.values()):
        raise ValueError(
            f"{', '.join(chosen)} has nothing to do with {', '.join(scale.datasets)}; ask for other data sets"
        )
    (folder / "jobs").mkdir(parents=True, exist_ok=True)
    found = {}
    for job in {job.file: job for listed in asked.values() for job in listed}.values():
        result = jobs.find(job, folder / "jobs", any_epochs=not train)
        if result is not None or train:
            found[job.file] = result or job
    missing = [job for job in found.values() if isinstance(job, Job)]
    for name in dict.fromkeys(job.dataset for job in missing):
        datasets.get(name, data)  # a data set that cannot be had is said before hours of training, not after
    with progress_bar(sum(job.cost * job.epochs for job in missing), "training", show=show) as bar:
        for job in missing:
            bar(0, job.name)
            found[job.file] = jobs.do(job, folder / "jobs", data, device, _scaled(bar, job.cost))
    sections = []
    for name, listed in asked.items():
        results = [r for r in (found.get(job.file) for job in listed) if isinstance(r, Result)]
        if results:
            section = EXPERIMENTS[name].section(results, folder)
            sections.append(replace(section, text="\n\n".join(filter(None, (scale.note, section.text)))))
    if not sections:
        raise ValueError(f"{folder} must hold results of {', '.join(chosen)} to draw; there are none; leave out --draw")
    _write(sections, folder, markdown, _about(found.values(), chosen, scale))
    return sections


def _scaled(bar: Bar, cost: float) -> Bar:
    """A bar whose every step counts for more."""
    return lambda advance=1, label=None: bar(advance * cost, label)


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


def _about(results: Any, chosen: list[str], scale: Scale) -> dict[str, Any]:
    """How these numbers were made."""
    done = [r for r in results if isinstance(r, Result)]
    words = ["naysayer", "reproduce", *chosen, *(["--quick"] if scale.quick else [])]
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
