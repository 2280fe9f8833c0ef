"""A job is one population with the labels it learns from: what an experiment asks for, and the unit that is resumed.

What a job found is a tidy table of every run and epoch, ``<name>-<digest>.csv.gz``, with its settings, versions and
seconds beside it as JSON. The digest is of the settings, so results of other settings never stand in for those asked
for. The number of epochs is not part of it: a job that was asked for fewer than the paper's keeps its checkpoint, and
goes on from there when asked for more.
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import io
import json
import platform
import time
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from naysayer import __version__
from naysayer.common.files import whole_file
from naysayer.common.progress import Bar
from naysayer.data import datasets
from naysayer.engine import checkpoint as checkpoints
from naysayer.engine import networks
from naysayer.engine.population import Population, pick_device
from naysayer.engine.schedules import step_schedule
from naysayer.labels import transition
from naysayer.labels.drawing import complement
from naysayer.measure import metrics
from naysayer.objectives import OBJECTIVES, Objective, PairwiseComparison

NETWORKS = ("linear", "mlp", "resnet", "densenet")
METHODS = OBJECTIVES | {"printed": functools.partial(PairwiseComparison, as_printed=True)}


@dataclass(frozen=True)
class Run:
    """One run of a population: its method, its trial, and how its labels came about."""

    method: str
    trial: int = 0
    lr: float = 5e-5
    noise: float = 0.0  # how often the label names the true class itself
    bias: float = 0.0  # how often the label is the class after the true one, beyond its equal share
    told: bool = True  # whether the objective knows the noise and the bias
    alpha: float | None = None


@dataclass(frozen=True)
class Job:
    """A population; what is not said is as in the paper's Section 5.1."""

    name: str
    dataset: str
    network: str
    runs: tuple[Run, ...]
    epochs: int = 300
    paper_epochs: int = 300
    batch_size: int = 256
    optimizer: str = "adam"
    weight_decay: float = 1e-4
    halve_every: int = 0  # epochs after which the learning rate is halved, again and again; 0 never
    validation: float = 0.0  # share of the training rows that is held out
    n_train: int | None = None  # so many training rows, drawn for each trial; None for all
    n_test: int | None = None
    n_classes: int | None = None  # only the first so many classes
    n_ordinary: int = 0  # examples whose ordinary label is known; all runs are then of one trial
    thin: bool = False  # networks for images with an eighth of the channels
    class_risks: bool = False
    reliability: bool = False

    @property
    def digest(self) -> str:
        """Eight letters that change with any setting but the number of epochs."""
        settings = {k: v for k, v in asdict(self).items() if "epochs" not in k}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def file(self) -> str:
        return f"{self.name}-{self.digest}"

    @property
    def cost(self) -> float:
        """What an epoch costs, roughly, against the others'; for the progress bar."""
        size = {"linear": 1.0, "mlp": 4.0, "resnet": 3000.0, "densenet": 6000.0}[self.network] / (
            16 if self.thin else 1
        )
        return size * len(self.runs) * (self.n_train or 60_000)


@dataclass
class Result:
    """What a job found: for each of its runs and epochs, every number of the engine's history."""

    job: Job
    history: dict[str, NDArray[np.float64]]  # by name, (epochs, M)
    about: dict[str, Any]  # versions, device, seconds
    bins: list[dict[str, list[Any]]] = field(default_factory=list)  # of each run's reliability diagram; None for NaN

    def curves(self, name: str, **wanted: Any) -> NDArray[np.float64]:
        """The history of the runs whose settings are the wanted ones, (epochs, runs), by trial."""
        chosen = [m for m, run in enumerate(self.job.runs) if all(getattr(run, k) == v for k, v in wanted.items())]
        return self.history[name][:, sorted(chosen, key=lambda m: self.job.runs[m].trial)]


def find(job: Job, folder: Path, *, any_epochs: bool = False) -> Result | None:
    """Read a job's result if it is there, with its epochs or, if asked, with as many as there are.

    A file that is cut short, or broken in any other way, counts as not there.
    """
    about, table = folder / f"{job.file}.json", folder / f"{job.file}.csv.gz"
    try:
        saved = json.loads(about.read_text(encoding="utf8"))
        rows = list(csv.reader(io.StringIO(gzip.decompress(table.read_bytes()).decode())))
        n_runs, n_settings = len(job.runs), len(Run.__dataclass_fields__) + 1  # and the epoch
        names = rows[0][n_settings:]
        values = np.array([row[n_settings:] for row in rows[1:]], dtype=float).reshape(-1, n_runs, len(names))
        if not any_epochs and (len(values) < job.epochs or (job.reliability and len(values) != job.epochs)):
            return None
        values = values if any_epochs else values[: job.epochs]
        history = {name: values[:, :, i] for i, name in enumerate(names)}
        return Result(job, history, saved["about"], saved["bins"])
    except (OSError, ValueError, KeyError, IndexError, EOFError, zlib.error):
        return None


def check_length(job: Job, folder: Path) -> None:
    """Refuse a job whose result would take the place of a longer one."""
    held = find(job, folder, any_epochs=True)
    if held is not None and (n_epochs := len(held.history["loss"])) > job.epochs:
        raise ValueError(
            f"{job.name} must be asked for {n_epochs} epochs or more, for {folder} holds a result of {n_epochs}; got "
            f"{job.epochs}; ask for more, or give another folder"
        )


def save(result: Result, folder: Path) -> None:
    """Write a result; the JSON comes last, so that where it is, the table is whole."""
    settings = [tuple(asdict(run).values()) for run in result.job.runs]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*Run.__dataclass_fields__, "epoch", *result.history])
    values = np.stack(list(result.history.values()), axis=-1)  # (epochs, M, names)
    for epoch, runs in enumerate(values):
        for run, numbers in zip(settings, runs):
            writer.writerow([*run, epoch + 1, *(f"{v:.5g}" for v in numbers)])
    with whole_file(folder / f"{result.job.file}.csv.gz") as temporary:
        temporary.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    content = {"settings": asdict(result.job), "about": result.about, "bins": result.bins}
    with whole_file(folder / f"{result.job.file}.json") as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


def do(job: Job, folder: Path, data: str | None = None, device: str = "auto", bar: Bar | None = None) -> Result:
    """Train a job's population, save what it found, and drop its checkpoint if nobody will go on from it."""
    check_length(job, folder)
    return keep(train(job, data, device, checkpoint=folder / f"{job.file}.checkpoint", bar=bar), folder)


def keep(result: Result, folder: Path) -> Result:
    """Save a result, and drop the checkpoint that nobody needs any more."""
    save(result, folder)
    if is_whole(result.job):
        checkpoints.remove(folder / f"{result.job.file}.checkpoint")
    kept = find(result.job, folder)  # as written, so that a result is the same whether it was made or found
    assert kept is not None
    return kept


def is_whole(job: Job) -> bool:
    """Whether a job has all of the paper's epochs, so that nobody will go on with it."""
    return job.epochs >= job.paper_epochs


def train(
    job: Job, data: str | None = None, device: str = "auto", *, checkpoint: Path, bar: Bar | None = None
) -> Result:
    """Train a job's population, going on from its checkpoint if there is one; the bar is told of each epoch.

    A checkpoint of more epochs, as a longer training that was killed leaves it, is left for when these are asked for.
    """
    given = _read(job.dataset, data)
    X, y, X_test, y_test, n_classes = _cut(job, given)
    rows, validation_rows = _split(job, len(X))
    y_bar = _labels(job, y, n_classes)
    chosen = pick_device(device)
    images = job.network in ("resnet", "densenet")
    population = Population(
        functools.partial(_network, job, X.shape[1:], n_classes),
        _objectives(job, n_classes),
        seeds=[run.trial for run in job.runs],
        lr=[run.lr for run in job.runs],
        weight_decay=job.weight_decay,
        optimizer=job.optimizer,
        schedule=step_schedule(job.halve_every) if job.halve_every else None,
        batch_size=job.batch_size,
        precision="bfloat16" if images and chosen.type == "cuda" else "float32",
        compiled=images and chosen.type == "cuda",
        device=chosen,
    )
    start = time.perf_counter()
    population.fit(
        X,
        y_bar,
        max_epochs=job.epochs,
        rows=rows,
        validation_rows=validation_rows,
        test=(X_test, y_test),
        select="accuracy",
        class_risks=job.class_risks,
        checkpoint=checkpoints.within(checkpoint, job.epochs),
        bar=bar,
    )
    if population.interrupted:
        raise KeyboardInterrupt
    about = {
        "seconds": round(time.perf_counter() - start, 2),
        "device": torch.cuda.get_device_name(chosen)
        if chosen.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads",
        "failed": {str(run): reason for run, reason in population.failed.items()},
        "naysayer": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    bins = [_bins(population, m, X_test, y_test, n_classes) for m in range(len(job.runs))] if job.reliability else []
    left = job.epochs - len(population.history["loss"])  # where every run broke off before the last epoch
    history = {k: np.pad(v, ((0, left), (0, 0)), constant_values=np.nan) for k, v in population.history.items()}
    return Result(job, history, about, bins)


@functools.lru_cache(maxsize=1)  # the jobs of one data set follow each other
def _read(name: str, folder: str | None) -> datasets.Dataset:
    return datasets.load(name, folder, download=True)


def _cut(job: Job, given: datasets.Dataset) -> tuple[Any, Any, Any, Any, int]:
    """The data set with only the classes and the test rows that the job asks for."""
    n_classes = job.n_classes or given.n_classes
    train, test = given.y_train < n_classes, np.flatnonzero(given.y_test < n_classes)[: job.n_test]
    return given.X_train[train], given.y_train[train], given.X_test[test], given.y_test[test], n_classes


def _split(job: Job, n: int) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Each run's training rows and validation rows, drawn by its trial."""
    used = min(job.n_train or n, n)
    held = round(job.validation * used)
    if used == n and not held:
        return None, None
    order = {run.trial: np.random.default_rng([run.trial, 1]).permutation(n)[:used] for run in job.runs}
    rows = np.stack([order[run.trial] for run in job.runs])
    return rows[:, held:], rows[:, :held] if held else None


def _transition(run: Run, n_classes: int) -> NDArray[np.float64] | None:
    """How the run's labels are drawn; None for uniformly."""
    if not run.noise and not run.bias:
        return None
    after = np.roll(np.eye(n_classes), 1, axis=1)  # row y has its one at y + 1
    base = (1 - run.bias) * transition.uniform(n_classes) + run.bias * after
    return transition.noisy(n_classes, run.noise, base)


def _labels(job: Job, y: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """Complementary labels, a row a run; where some are ordinary, a ruled-out matrix for all."""
    if job.n_ordinary:
        trial = job.runs[0].trial
        ruled_out = np.eye(n_classes, dtype=bool)[complement(y, n_classes, random_state=trial)]
        ordinary = np.random.default_rng([trial, 2]).permutation(len(y))[: job.n_ordinary]
        ruled_out[ordinary] = ~np.eye(n_classes, dtype=bool)[y[ordinary]]
        return ruled_out
    drawn: dict[Any, NDArray[Any]] = {}
    for run in job.runs:
        key = (run.trial, run.noise, run.bias)
        if key not in drawn:
            drawn[key] = complement(y, n_classes, transition=_transition(run, n_classes), random_state=run.trial)
    return np.stack([drawn[run.trial, run.noise, run.bias] for run in job.runs])


def _objectives(job: Job, n_classes: int) -> list[Objective]:
    """Each run's objective; runs that ask for the same share it."""
    made: dict[Any, Objective] = {}
    out = []
    for run in job.runs:
        told = (run.noise, run.bias) if run.told else (0.0, 0.0)
        key = (run.method, told, run.alpha)
        if key not in made:
            known = _transition(run, n_classes) if run.told else None
            made[key] = METHODS[run.method](n_classes, transition=known, alpha=run.alpha)
        out.append(made[key])
    return out


def _network(job: Job, shape: tuple[int, ...], n_classes: int) -> nn.Module:
    if job.network == "resnet":
        return networks.resnet34(n_classes, width=8 if job.thin else 64)
    if job.network == "densenet":
        return networks.densenet(n_classes, depth=16 if job.thin else 100, growth=4 if job.thin else 12)
    size = int(np.prod(shape))
    return networks.linear(size, n_classes) if job.network == "linear" else networks.mlp(size, n_classes)


def _bins(population: Population, run: int, X: Any, y_true: NDArray[Any], n_classes: int) -> dict[str, list[Any]]:
    """The reliability diagram of a run's last state: from the test set's true labels, and from complementary ones."""
    p = torch.softmax(population.logits(X, run=run), dim=-1).numpy()
    truth = metrics.reliability(~np.eye(n_classes, dtype=bool)[y_true], p)
    seen = metrics.reliability(complement(y_true, n_classes, random_state=10_000 + run), p)
    found = {"counts": truth.count, "accuracy": truth.accuracy}
    found |= {"estimate": seen.accuracy, "low": seen.low, "high": seen.high}
    return {name: [float(v) if np.isfinite(v) else None for v in values] for name, values in found.items()}
