"""The benchmark: methods, data sets, labels, networks and recipes, each combination trained and chosen alike.

A row of ``results.csv`` is one run: a method with one seed and one learning rate. Nine tenths of the training rows
train; the others choose, by their complementary labels alone: the learning rate of each seed, and the epoch of each
run, which is the last one where the rate falls to zero. Complementary labels of the test images, which had no part in
it, estimate the accuracy of what was chosen. True labels only say how well that went.

Runs are trained together, as many as the network can stack, and what a run becomes does not depend on the others. So
runs are what is counted: those that are in the file are not trained again, whatever else is asked for beside them.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import importlib.util
import io
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from naysayer import __version__
from naysayer.common.checks import near
from naysayer.common.files import write_text
from naysayer.common.progress import Bar, progress_bar
from naysayer.data import datasets, human
from naysayer.engine import process
from naysayer.engine.networks import NETWORKS
from naysayer.engine.population import Population, pick_device
from naysayer.engine.recipe import RECIPES
from naysayer.engine.schedules import cosine_schedule
from naysayer.experiments.benchmark_labels import DRAWN, DRAWS, LABELLINGS, Labels, draw
from naysayer.experiments.tasks import Here, Task, Workers
from naysayer.labels import transition
from naysayer.labels.weights import inverse_tensor
from naysayer.measure import metrics
from naysayer.measure.intervals import Interval
from naysayer.models.defaults import DEFAULTS, kind_of, made
from naysayer.objectives import OBJECTIVES, Objective
from naysayer.objectives.base import parameters_of

RESULTS = "results.csv"
HELD_OUT = 0.1  # share of the training rows that chooses; of sets with published labels, as many others estimate
DATASETS = (*DRAWN, *human.HUMAN)
HUMAN_LABELS = "human"
SIDES = {"digits": 8, "mnist": 28, "fashion": 28, "kuzushiji": 28}  # of images that come flat
SEEDS = 3


@dataclass(frozen=True)
class Training:
    """How a network is trained by a recipe: everything that may change what a run becomes, but for seed and rate."""

    epochs: int
    rates: tuple[float, ...]  # learning rates, one of which is chosen for each seed
    batch_size: int = 256
    optimizer: str = "adam"
    weight_decay: float = 1e-4
    schedule: str = "constant"  # or "cosine", which begins with `warm_up` epochs of rising rates
    warm_up: int = 0
    precision: str = "float32"  # on CUDA; elsewhere always this
    together: int = 1000  # runs in a population; 1 where the network does not stack

    def factor(self, epoch: int) -> float:
        """The factor on the learning rate in an epoch, counted from 0."""
        return 1.0 if self.schedule == "constant" else cosine_schedule(self.epochs, self.warm_up)(epoch)


_PLAIN = Training(100, (5e-5, 2.5e-4, 1e-3))  # the paper's Adam at its 5e-5, and two faster
_PLAIN_IMAGES = Training(100, (1e-4, 5e-4), precision="bfloat16", together=1)
_CONSISTENT = {  # as the classifier trains them: models/defaults.py has the measurements
    kind: Training(how.epochs, how.rates, 256, how.optimizer, how.weight_decay, how.schedule or "constant", how.warm_up)
    for (recipe, kind), how in DEFAULTS.items()
    if recipe == "consistency"
}
_CONSISTENT_IMAGES = replace(_CONSISTENT["residual"], precision="bfloat16", together=1)
_CONSISTENT_PRETRAINED = replace(_CONSISTENT["pretrained"], precision="bfloat16", together=1)
_ON_DIGITS = {"epochs": 30, "rates": (3e-3, 1e-2), "batch_size": 64}  # a thousand rows: few steps per epoch

SETTINGS: dict[str, dict[str, Training]] = {  # recipe → network
    "plain": {
        "linear": _PLAIN,
        "mlp": _PLAIN,
        "convolution": replace(_PLAIN, rates=(2.5e-4, 1e-3)),
        "pooled": _PLAIN_IMAGES,
        "resnet8": _PLAIN_IMAGES,
        "resnet18": _PLAIN_IMAGES,
        "resnet34": _PLAIN_IMAGES,
    },
    "consistency": {
        "mlp": _CONSISTENT["dense"],
        "convolution": _CONSISTENT["convolution"],
        "pooled": _CONSISTENT_IMAGES,
        "resnet8": _CONSISTENT_IMAGES,
        "resnet18": _CONSISTENT_IMAGES,
        "resnet34": _CONSISTENT_IMAGES,
        "efficientnet-lite0": _CONSISTENT_PRETRAINED,
    },
}


class Method(NamedTuple):
    """A method that takes part: by its name, or from a file of somebody's own."""

    name: str
    kind: Callable[..., Objective]
    source: str = ""  # of a file, the first letters of its sha256: another version is another method

    def objective(self, n_classes: int, q: NDArray[np.float64] | None) -> Objective:
        """Make the objective. It knows Q if its constructor takes one; its epochs are chosen by Q in any case."""
        kind: Any = self.kind
        taken = parameters_of(getattr(kind, "func", kind))  # of a partial, those of what it calls
        made: Objective = kind(n_classes, **({"transition": q} if "transition" in taken else {}))
        if made.inverse is None:
            made.inverse = inverse_tensor(q, n_classes)
        return made


@dataclass(frozen=True)
class Run:
    """What identifies a run, and how it is trained: the first columns of its row."""

    dataset: str
    labels: str
    network: str
    recipe: str
    method: str
    source: str
    epochs: int
    batch_size: int
    optimizer: str
    weight_decay: float
    schedule: str
    warm_up: int
    precision: str
    held_out: float  # share of the training rows that chooses; the others train
    seed: int
    lr: float


@dataclass(frozen=True)
class Row(Run):
    """What a run came to. Accuracies are shares; epochs count from 1, and 0 is none: the run failed at once."""

    epoch: int  # chosen by the complementary labels held out, or the last
    valid_accuracy: float  # what chose it and its rate, which is no estimate any more
    test_accuracy: float  # the truth
    estimate: float  # from complementary labels that had no part in choosing, with its 95 % interval
    low: float
    high: float
    n_estimate: int  # labels of the estimate
    oracle_epoch: int  # the best by the truth, which nobody can choose by
    oracle_accuracy: float
    last_accuracy: float
    failed: str
    seconds: float  # of the population, shared among its runs
    device: str
    torch: str
    naysayer: str

    @property
    def run(self) -> Run:
        """What it is a row of."""
        return Run(**{f.name: getattr(self, f.name) for f in fields(Run)})

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.test_accuracy <= self.high


# ---- what is asked for -------------------------------------------------------------------------------------------


def find_methods(names: Sequence[str] | None = None) -> list[Method]:
    """Find methods by name, all if None; ``file.py:Class`` is an objective of one's own."""
    found = []
    for name in OBJECTIVES if names is None else names:
        if ".py:" in name:
            found.append(_own_method(name))
        elif name in OBJECTIVES:
            found.append(Method(name, OBJECTIVES[name]))
        else:
            raise ValueError(
                f"a method must be one of {', '.join(OBJECTIVES)}, or file.py:Class; got {near(name, OBJECTIVES)}"
            )
    named = [method.name for method in found]
    if twice := [name for name in named if named.count(name) > 1]:
        raise ValueError(f"methods must have different names; {twice[0]!r} is there twice")
    return found


def _own_method(name: str) -> Method:
    """Load a class from a Python file."""
    file, kind_name = name.rsplit(":", 1)
    path = Path(file)
    if not path.is_file():
        raise FileNotFoundError(f"a method's file must be there; {file} is not")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{file} must be Python that can be loaded; {type(error).__name__}: {error}") from None
    kind = getattr(module, kind_name, None)
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        raise ValueError(f"{kind_name} of {file} must be a subclass of naysayer.objectives.Objective; got {kind!r}")
    if kind_name in OBJECTIVES:
        raise ValueError(f"a method of one's own must have a name of its own; {kind_name!r} is in OBJECTIVES")
    return Method(kind_name, kind, hashlib.sha256(path.read_bytes()).hexdigest()[:8])


def training_of(dataset: str, network: str, recipe: str) -> Training:
    """How a network is trained on a data set by a recipe."""
    if recipe not in SETTINGS or recipe not in RECIPES:
        known = [name for name in SETTINGS if name in RECIPES]
        raise ValueError(f"a recipe must be one of {', '.join(known)}; got {near(recipe, known)}")
    if network not in SETTINGS[recipe] or network not in NETWORKS:
        known = [name for name in SETTINGS[recipe] if name in NETWORKS]
        raise ValueError(
            f"a network of recipe {recipe!r} must be one of {', '.join(known)}; got {near(network, known)}"
        )
    chosen = SETTINGS[recipe][network]
    return replace(chosen, **_ON_DIGITS) if dataset == "digits" and recipe == "plain" else chosen  # type: ignore[arg-type]


def list_runs(
    asked_datasets: Sequence[str] = ("digits",),
    labels: Sequence[str] | None = None,
    networks: Sequence[str] = ("mlp",),
    recipes: Sequence[str] = ("plain",),
    methods: Iterable[Method] = (),
    *,
    rates: Sequence[float] | None = None,
    epochs: int | None = None,
    seeds: int = SEEDS,
    held_out: float = HELD_OUT,
) -> list[Run]:
    """List the runs that some choice of everything comes to, in the order in which they are trained.

    Parameters
    ----------
    asked_datasets : of :data:`DATASETS`.
    labels : of :data:`~naysayer.experiments.benchmark_labels.LABELLINGS`, all if None; where some are published, those.
    networks, recipes : of :data:`SETTINGS`.
    methods : as :func:`find_methods` gives them.
    rates, epochs : instead of those in :data:`SETTINGS`.
    seeds : so many runs of each, from seed 0; no more than there are labels of the test images for.
    held_out : share of the training rows that chooses; 0 where nothing is to be chosen: of one learning rate that
        falls along a cosine.
    """
    if not 0 <= held_out < 0.5:
        raise ValueError(f"the share held out must be from 0 up and below 0.5; got {held_out:g}")
    if seeds > DRAWS:
        raise ValueError(f"seeds must be at most {DRAWS}, for each of which the test images have labels; got {seeds}")
    for rate in rates or ():
        if not 0 < rate < math.inf:
            raise ValueError(f"a learning rate must be a number above 0; got {rate:g}")
    for name in labels or ():
        if name not in LABELLINGS:
            raise ValueError(f"labels must be one of {', '.join(LABELLINGS)}; got {near(name, LABELLINGS)}")
    runs = []
    for dataset in asked_datasets:
        if dataset not in DATASETS:
            raise ValueError(f"a data set must be one of {', '.join(DATASETS)}; got {near(dataset, DATASETS)}")
        for recipe in recipes:
            for network in networks:
                chosen = training_of(dataset, network, recipe)
                chosen = replace(chosen, epochs=epochs or chosen.epochs, rates=tuple(rates or chosen.rates))
                if held_out == 0 and (chosen.schedule == "constant" or len(chosen.rates) > 1):
                    raise ValueError(
                        f"with nothing held out there must be nothing to choose: recipe {recipe!r} has the learning "
                        f"rates {', '.join(f'{rate:g}' for rate in chosen.rates)} and schedule {chosen.schedule!r}; "
                        "hold out a share, or pass one rate to a recipe whose rate falls along a cosine"
                    )
                how = {f.name: getattr(chosen, f.name) for f in fields(Training) if f.name in Run.__dataclass_fields__}
                how["held_out"] = held_out
                runs += [
                    Run(dataset, said, network, recipe, method.name, method.source, seed=seed, lr=lr, **how)
                    for said in ([HUMAN_LABELS] if dataset in human.HUMAN else labels or LABELLINGS)
                    for method in methods
                    for lr in chosen.rates
                    for seed in range(seeds)
                ]
    return runs


# ---- results -----------------------------------------------------------------------------------------------------


def read_results(folder: str | Path) -> dict[Run, Row]:
    """Read the rows of a folder, none if it has no file."""
    path = Path(folder) / RESULTS
    if not path.is_file():
        return {}
    columns = [f.name for f in fields(Row)]
    kinds = {f.name: {"int": int, "float": float}.get(str(f.type), str) for f in fields(Row)}
    rows = {}
    with open(path, encoding="utf8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != columns:
            raise ValueError(f"{path} must have the columns {', '.join(columns)}; got {reader.fieldnames}")
        for line in reader:
            try:
                row = Row(**{name: kind(line[name]) for name, kind in kinds.items()})
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path} must hold whole rows; line {reader.line_num} is not: {error}") from None
            rows[row.run] = row
    return rows


def add_results(folder: str | Path, rows: Iterable[Row]) -> dict[Run, Row]:
    """Add rows to those of a folder; gives all of them. A run that is there already keeps its row."""
    known = {row.run: row for row in rows} | read_results(folder)
    ordered = sorted(known.values(), key=lambda row: tuple(map(str, asdict(row.run).values())))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f.name for f in fields(Row)])
    writer.writerows([asdict(row).values() for row in ordered])
    write_text(Path(folder) / RESULTS, text.getvalue())
    return known


# ---- training ----------------------------------------------------------------------------------------------------


class Left(NamedTuple):
    """What a call did not do."""

    runs: int  # that are still to be trained
    refused: dict[tuple[str, str], str]  # method and labels → why it cannot learn from them


def benchmark(
    runs: Sequence[Run],
    methods: Iterable[Method],
    out: str | Path,
    *,
    data: str | None = None,
    device: str = "auto",
    limit: float | None = None,
    workers: Workers | None = None,
    show: bool = True,
) -> Left:
    """Train those runs that are not among the results in a folder, and add them.

    Parameters
    ----------
    runs : as :func:`list_runs` lists them.
    methods : those that the runs name.
    out : a folder. What was interrupted, or ran out of time, resumes from checkpoints there.
    data : a folder of data sets; see :func:`naysayer.data.datasets.load`.
    device : "auto", "cpu" or "cuda".
    limit : seconds after which no epoch is begun.
    workers : who trains; None: this process. See :mod:`naysayer.experiments.tasks`.
    show : whether to show a progress bar.
    """
    end = None if limit is None else time.time() + limit  # the moment is the same on all machines
    folder = Path(out)
    known = read_results(folder)
    by_name = {method.name: method for method in methods}
    missing = [run for run in runs if run not in known]
    for name in dict.fromkeys(run.dataset for run in missing):
        _load(name, data)  # a data set that cannot be had is said before hours of training, not after
    refused: dict[tuple[str, str], str] = {}
    left = 0
    workers = workers or Here(folder / "checkpoints")
    with progress_bar(sum(run.epochs for run in missing), "training", show=show) as bar:

        def tasks() -> Iterator[Task]:
            for group in _groups(missing):
                first = group[0]
                labels = _labels(first.dataset, first.labels, data)
                objectives, unfit = _objectives(group, by_name, labels, _load(first.dataset, data)[0].n_classes)
                refused.update(unfit)
                bar(sum(run.epochs for run in group if run.method not in objectives), _title(first))
                for part in _by_layer(group, objectives):
                    of_part = tuple(by_name[name] for name in dict.fromkeys(run.method for run in part))
                    given = (tuple(part), of_part, data, device, end)
                    size = sum(run.epochs for run in part)
                    yield Task(_title(first), _train, given, f"{_digest(part)}.checkpoint", size)

        for task, rows in workers.do(tasks(), bar):
            if rows is None:
                left += len(task.arguments[0])
            else:
                add_results(folder, rows)
                workers.forget(task)
    return Left(left, refused)


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that train together: alike in all but method, seed and rate, and no more than their network can stack."""

    alike: dict[Run, list[Run]] = {}
    for run in runs:
        alike.setdefault(replace(run, method="", source="", seed=0, lr=0.0), []).append(run)
    groups = []
    for key, listed in alike.items():
        size = training_of(key.dataset, key.network, key.recipe).together
        groups += [listed[i : i + size] for i in range(0, len(listed), size)]
    return groups


def _title(run: Run) -> str:
    return f"{run.dataset}, {run.labels}, {run.network}, {run.recipe}"


def _objectives(
    group: list[Run], methods: dict[str, Method], labels: Labels, n_classes: int
) -> tuple[dict[str, Objective], dict[tuple[str, str], str]]:
    """The methods' objectives, and which methods cannot learn from labels of this kind, and why."""
    made, unfit = {}, {}
    some = torch.from_numpy(labels.train[:4])
    for name in dict.fromkeys(run.method for run in group):
        try:
            objective = methods[name].objective(n_classes, labels.transition)
            objective(torch.zeros(len(some), n_classes), some)
            made[name] = methods[name].objective(n_classes, labels.transition)  # which has seen no labels
        except Exception as error:  # in its author's own words
            unfit[name, group[0].labels] = f"{type(error).__name__}: {error}"
    return made, unfit


def _by_layer(group: list[Run], objectives: dict[str, Objective]) -> list[list[Run]]:
    """Part the runs whose methods put a layer on top of the network from those whose methods do not."""
    parts: dict[type, list[Run]] = {}
    for run in group:
        if run.method in objectives:
            parts.setdefault(type(getattr(objectives[run.method], "head", None)), []).append(run)
    return list(parts.values())


def _train(
    group: tuple[Run, ...],
    methods: tuple[Method, ...],
    data: str | None,
    device: str,
    end: float | None,
    *,
    checkpoint: Path,
    bar: Bar,
) -> list[Row] | None:
    """Train a group from its checkpoint if there is one; None where time ran out before its last epoch."""
    if end is not None and time.time() >= end:
        return None
    until = None if end is None else time.monotonic() + end - time.time()
    first = group[0]
    labels = _labels(first.dataset, first.labels, data)
    given, _ = _load(first.dataset, data)
    objectives, _ = _objectives(list(group), {method.name: method for method in methods}, labels, given.n_classes)
    X_train, X_test = (_shaped(X, first) for X in (given.X_train, given.X_test))
    splits = {
        seed: _split(seed, len(X_train), first.held_out, labels.test is None) for seed in {run.seed for run in group}
    }
    chosen = pick_device(device)
    in_training = training_of(first.dataset, first.network, first.recipe)
    on_images = chosen.type == "cuda" and in_training.together == 1
    shape = torch.Size(X_train.shape[1:])
    network = functools.partial(NETWORKS[first.network], shape, given.n_classes, (500,))
    with process.seeded():  # it is looked at, not trained
        kind = kind_of(network())
    population = Population(
        network,
        [objectives[run.method] for run in group],
        seeds=[run.seed for run in group],
        lr=[run.lr for run in group],
        weight_decay=first.weight_decay,
        optimizer=first.optimizer,
        schedule=replace(in_training, epochs=first.epochs).factor,
        batch_size=first.batch_size,
        precision=first.precision if chosen.type == "cuda" else "float32",
        compiled=on_images,
        recipe=made(first.recipe, kind, shape, first.epochs),
        device=chosen,
    )
    start = time.perf_counter()
    population.fit(
        X_train,
        labels.train,
        max_epochs=first.epochs,
        rows=np.stack([splits[run.seed].train for run in group]),
        validation_rows=np.stack([splits[run.seed].choose for run in group]) if first.held_out else None,
        test=(X_test, given.y_test),
        select="accuracy" if first.schedule == "constant" else "last",
        checkpoint=checkpoint,
        until=until,
        bar=lambda advance=1, label=None: bar(advance / first.epochs, label),
    )
    if population.interrupted:
        raise KeyboardInterrupt
    done = len(population.history["loss"])
    if done < first.epochs and len(population.failed) < len(group):
        return None
    about = {
        "seconds": round((time.perf_counter() - start) / len(group), 3),
        "device": torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "CPU",
        "torch": torch.__version__,
        "naysayer": __version__,
    }
    rows = []
    tested = torch.from_numpy(X_test).to(chosen)
    for m, run in enumerate(group):
        if labels.test is None:
            held = splits[run.seed].estimate
            inputs, y_bar = torch.from_numpy(X_train[held]), labels.train[held]
        else:
            inputs, y_bar = tested, labels.test[run.seed]
        predicted = population.logits(inputs, run=m).argmax(dim=-1).numpy()
        interval = metrics.accuracy_interval(y_bar, predicted, given.n_classes, transition=labels.transition)
        rows.append(_row(run, population, m, interval, len(y_bar), about))
    return rows


def _row(run: Run, population: Population, m: int, interval: Interval, n: int, about: dict[str, Any]) -> Row:
    epoch, accuracy = int(population.best_epoch[m]), population.history["test_accuracy"][:, m]
    finite = np.nan_to_num(accuracy, nan=-np.inf)
    oracle = int(finite.argmax())
    found: dict[str, Any] = dict.fromkeys(("valid_accuracy", "test_accuracy", "estimate", "low", "high"), math.nan)
    if epoch >= 0:
        if run.held_out:
            found["valid_accuracy"] = population.history["valid_accuracy"][epoch, m]
        found |= {"test_accuracy": accuracy[epoch]} | interval._asdict()
    found |= {"oracle_accuracy": accuracy[oracle], "last_accuracy": accuracy[-1]}
    return Row(
        **asdict(run),
        **{name: round(float(value), 6) for name, value in found.items()},  # type: ignore[arg-type]
        epoch=epoch + 1,
        n_estimate=n,
        oracle_epoch=oracle + 1 if np.isfinite(finite[oracle]) else 0,
        failed=population.failed.get(m, ""),
        **about,
    )


def _digest(group: list[Run]) -> str:
    """A name for a group's checkpoint."""
    return hashlib.sha256(json.dumps([asdict(run) for run in group]).encode()).hexdigest()[:12]


class _Split(NamedTuple):
    train: NDArray[np.int64]
    choose: NDArray[np.int64]  # empty where nothing is to be chosen
    estimate: NDArray[np.int64]  # empty where the test images have labels to estimate from


def _split(seed: int, n: int, held_out: float, estimate: bool) -> _Split:
    """Deal the training rows out: most train, a share chooses, and if need be another tenth estimates."""
    order = np.random.default_rng([seed, 1]).permutation(n)
    held = round(held_out * n)
    ends = (held, held + round(HELD_OUT * n) if estimate else held)
    return _Split(order[ends[1] :], order[: ends[0]], order[ends[0] : ends[1]])


@functools.lru_cache(maxsize=1)  # runs of one data set follow each other
def _load(name: str, folder: str | None) -> tuple[datasets.Dataset, NDArray[np.int64] | None]:
    """A data set, and what people or a model said of its images if any did."""
    if name in human.HUMAN:
        return human.load(name, folder)
    return datasets.load(name, folder, download=True), None


@functools.lru_cache(maxsize=1)
def _labels(name: str, labelling: str, folder: str | None) -> Labels:
    """The labels to learn from: drawn and checked; or the first of those published, with Q counted from the truth."""
    given, said = _load(name, folder)
    if said is None:
        return draw(name, given, labelling)
    first = np.ascontiguousarray(said[:, 0])
    return Labels(first, None, transition.estimate(first, given.y_train, given.n_classes))


def _shaped(X: NDArray[Any], run: Run) -> NDArray[Any]:
    """Images as (N, C, S, S), but for a plain network of layers, whose steps are quicker on rows."""
    if run.recipe == "plain" and run.network in ("linear", "mlp"):
        return X.reshape(len(X), -1)
    side = SIDES.get(run.dataset)
    return X if side is None else X.reshape(len(X), 1, side, side)
