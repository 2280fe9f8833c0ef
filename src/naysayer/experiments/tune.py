"""A search for what learns best from somebody's labels: methods, networks, recipes and rates, by successive halving.

A trial is one setting, trained as :class:`~naysayer.models.classifier.ComplementaryClassifier` trains it: several runs,
each of which holds out other rows. All trials train a part of their epochs; those that predict best what they held out
train on, a few of them to the end. Complementary labels alone decide. Before all this a share of the labels was put
aside: they judge the winner, and had no part in what it became or in its being chosen.

What a trial comes to depends on nothing but its setting and the data, so the files are the same wherever it trained.
"""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from naysayer import __version__
from naysayer.common.checks import near
from naysayer.common.files import write_text
from naysayer.common.fingerprint import fingerprint
from naysayer.common.progress import Bar, progress_bar
from naysayer.engine import checkpoint as checkpoints
from naysayer.engine.population import Population
from naysayer.engine.recipe import RECIPES
from naysayer.experiments.tasks import Here, Task, Workers
from naysayer.measure import metrics
from naysayer.measure.intervals import Interval
from naysayer.models.candidates import Candidate, Parts
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.defaults import defaults_of
from naysayer.models.members import Examples
from naysayer.names import OTHERS
from naysayer.objectives import OBJECTIVES

METHODS = ("forward", "scl-nl", "l-w", "ascent", "forest", "neighbours", "discriminant")
NETWORKS = ("mlp", "linear")
SEARCHED = ("plain", "consistency")  # recipes
TRIALS, CURVES, SUMMARY = "trials.csv", "curves.csv", "tune.json"
JUDGE = 0.2  # share of the labels that judges the winner
ONE_IN = 3  # of so many trials one goes on
MOST_STAGES = 4
HIDDEN = (128,)


@dataclass(frozen=True)
class Trial:
    """A setting that may win: the first columns of its rows. What is no network has no network, recipe or rate."""

    method: str
    network: str = ""  # "mlp", "mlp:256x128" with widths of hidden layers, or "linear"
    recipe: str = ""
    lr: float = math.nan

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies it, and what it is called in files."""
        return tuple(str(value) for value in astuple(self) if value not in ("", None) and value == value)

    @property
    def halves(self) -> bool:
        """Whether it trains in epochs, so that it can be stopped on the way."""
        return self.method not in OTHERS

    @property
    def settings(self) -> dict[str, Any]:
        """What a classifier is told to train it."""
        if not self.halves:
            return {"method": self.method}
        name, _, widths = self.network.partition(":")
        hidden = tuple(int(width) for width in widths.split("x")) if widths else HIDDEN
        return {"method": self.method, "network": name, "hidden": hidden, "recipe": self.recipe, "lr": self.lr}


@dataclass(frozen=True)
class Row(Trial):
    """What a trial came to by the end of a stage; accuracies are shares."""

    share: float = 1.0  # of its epochs that it was to train
    epochs: int = 0  # that it trained
    estimate: float = math.nan  # from the labels that its runs held out, by which it is chosen: no estimate any more
    low: float = math.nan
    high: float = math.nan
    failed: str = ""
    seconds: float = 0.0

    @property
    def trial(self) -> Trial:
        """What it is a row of."""
        return Trial(**{f.name: getattr(self, f.name) for f in fields(Trial)})

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.trial.key, repr(self.share))

    @property
    def score(self) -> float:
        """By which trials are compared."""
        return self.estimate if math.isfinite(self.estimate) else -math.inf


class Tuned(NamedTuple):
    """What a search found."""

    trial: Trial  # the winner
    model: ComplementaryClassifier  # trained on all labels but those that judge; its accuracy is the judged one
    accuracy: Interval  # of the model, from labels that had no part in the search
    n_judges: int
    rows: list[Row]
    learned: NDArray[np.int64]  # the rows of the table that the model learned from


# ---- what is searched --------------------------------------------------------------------------------------------


def list_trials(
    methods: Sequence[str] | None = None,
    networks: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
) -> list[Trial]:
    """List the trials that a choice of everything comes to; what is None is as we suggest.

    Examples
    --------
    >>> [trial.key for trial in list_trials(["forward", "forest"], ["mlp:64x32"], ["plain"], [0.01])]
    [('forward', 'mlp:64x32', 'plain', '0.01'), ('forest',)]
    """
    known = (*OBJECTIVES, *OTHERS)
    for name in methods or ():
        if name not in known:
            raise ValueError(f"a method must be one of {', '.join(known)}; got {near(name, known)}")
    for name in networks or ():
        _check_network(name)
    for name in recipes or ():
        if name not in RECIPES:
            raise ValueError(f"a recipe must be one of {', '.join(RECIPES)}; got {near(name, RECIPES)}")
    for rate in rates or ():
        if not 0 < rate < math.inf:
            raise ValueError(f"a learning rate must be a number above 0; got {rate:g}")
    found = []
    for method in methods or METHODS:
        if method in OTHERS:
            found.append(Trial(method))
            continue
        for network in networks or NETWORKS:
            for recipe in recipes or SEARCHED:
                default = defaults_of(recipe, "dense", torch.Size([1])).rates
                found += [Trial(method, network, recipe, rate) for rate in rates or default]
    return list({trial.key: trial for trial in found}.values())


def _check_network(name: str) -> None:
    kind, colon, widths = name.partition(":")
    whole = all(width.isdigit() and int(width) > 0 for width in widths.split("x")) if colon else True
    if kind not in NETWORKS or not whole or (colon and kind != "mlp"):
        raise ValueError(
            f"a network must be mlp, linear, or mlp with the widths of its hidden layers, as mlp:256x128; got {name!r}"
        )


def stages(n_trials: int, one_in: int = ONE_IN) -> list[float]:
    """Give the shares of the epochs after which trials are compared; the last is 1.

    Examples
    --------
    >>> [round(share, 3) for share in stages(27)]
    [0.037, 0.111, 0.333, 1.0]
    >>> stages(2)
    [1.0]
    """
    number = 1
    while one_in**number <= n_trials and number < MOST_STAGES:
        number += 1
    return [float(one_in) ** (stage + 1 - number) for stage in range(number)]


# ---- the search --------------------------------------------------------------------------------------------------


def tune(
    X: NDArray[Any],
    y_bar: NDArray[Any],
    n_classes: int,
    trials: Sequence[Trial],
    out: str | Path,
    *,
    settings: dict[str, Any] | None = None,
    judge: float = JUDGE,
    one_in: int = ONE_IN,
    random_state: int = 0,
    workers: Workers | None = None,
    show: bool = True,
) -> Tuned:
    """Search for the best of some trials, and judge it.

    Parameters
    ----------
    X : (N, D) features.
    y_bar : (N,) classes, each one that its row is not; or (N, K) ruled out.
    n_classes : K
    trials : as :func:`list_trials` lists them.
    out : a folder for ``trials.csv``, ``curves.csv`` and ``tune.json``. What an earlier call did there is not done
        again.
    settings : of the classifier, for all trials alike.
    judge : the share of the labels that judges the winner and serves nothing else.
    one_in : of so many trials one reaches the next stage.
    random_state : seed of the rows that judge, and of splits, starts and shuffles.
    workers : who trains; None: this process. See :mod:`naysayer.experiments.tasks`.
    show : whether to show a progress bar.
    """
    if not 0 < judge < 1:
        raise ValueError(f"the share of labels that judge must lie between 0 and 1; got {judge:g}")
    if one_in < 2:
        raise ValueError(f"one in 2 trials or more must go on; got one in {one_in}")
    folder = Path(out)
    rows, judges = _deal(y_bar, judge, random_state)
    told: dict[str, Any] = {"classes": np.arange(n_classes), "random_state": random_state} | (settings or {})
    shown = {k: v for k, v in told.items() if k != "device"}
    search = _Search(folder, fingerprint({"data": [X, y_bar], "settings": shown, "judge": judge, "by": __version__}))
    workers = workers or Here(folder / "checkpoints")
    given = (X[rows], y_bar[rows], told)
    shared = workers.share(given)
    halving, others = [t for t in trials if t.halves], [t for t in trials if not t.halves]
    shares = stages(len(halving), one_in)
    numbers = [math.ceil(len(halving) / one_in**stage) for stage in range(len(shares))]
    total = sum(share * number for share, number in zip(shares, numbers)) + len(others)
    with progress_bar(total, "tuning", show=show) as bar:
        for share, next_number in zip(shares, [*numbers[1:], 0]):
            now = halving if share < 1 else halving + others
            tasks = [search.task(trial, share, shared) for trial in now if search.find(trial, share) is None]
            bar(share * (len(now) - len(tasks)))
            for _, found in workers.do(tasks, bar):
                search.add(*found)
            if share < 1:
                best = [row.trial for row in search.ranked(now, share)][:next_number]
                for trial in [trial for trial in halving if trial not in best]:
                    workers.forget(search.task(trial, share, shared))
                halving = best
        final = search.ranked(halving + others, 1.0)
        if not final:
            bad = next(row for row in search.rows if row.failed)
            raise ValueError(f"no trial came to an end; {' '.join(bad.trial.key)} did not since {bad.failed}")
        winner = final[0]
        model = workers.fetch(search.task(winner.trial, 1.0, given), _fit)
    accuracy = metrics.accuracy_interval(
        y_bar[judges], model.predict(X[judges]), n_classes, transition=told.get("transition")
    )
    model.estimated_accuracy_ = accuracy  # what it was chosen by is no estimate
    search.finish(winner, accuracy, len(judges))
    for row in final:
        workers.forget(search.task(row.trial, 1.0, shared))
    return Tuned(winner.trial, model, accuracy, len(judges), search.rows, rows)


def _deal(y_bar: NDArray[Any], judge: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Deal the rows: those that are searched with, also those without a label; and those that judge."""
    labelled = np.flatnonzero(y_bar.any(axis=1)) if y_bar.ndim == 2 else np.arange(len(y_bar))
    n_judges = round(judge * len(labelled))
    if n_judges < 2 or len(labelled) - n_judges < 2:
        raise ValueError(
            f"there must be labels to search with and labels to judge by, 2 of each at least; a share of {judge:g} of "
            f"{len(labelled)} labels is {n_judges}"
        )
    judges = np.sort(np.random.default_rng([seed, 14]).permutation(labelled)[:n_judges])
    return np.setdiff1d(np.arange(len(y_bar)), judges), judges


# ---- one trial ---------------------------------------------------------------------------------------------------


class _Stage(ComplementaryClassifier):
    """A classifier of one candidate that trains a share of its epochs, to a checkpoint that the next stage takes up."""

    share: float
    file: Path
    tell: Bar

    def _candidates(self, examples: Examples) -> list[Candidate]:
        (self._whole,) = super()._candidates(examples)
        epochs = math.ceil(self.share * self._whole.epochs)
        self.on_epoch = (lambda: self.tell(1 / epochs)) if epochs else None
        return [replace(self._whole, epochs=epochs)]

    def _population(self, candidate: Candidate, seeds: list[int], examples: Examples) -> Population:
        return super()._population(self._whole, seeds, examples)  # whose schedule is that of all epochs

    def _train(self, candidates: list[Candidate], parts: Parts, examples: Examples) -> tuple[list[Any], bool]:
        trained, interrupted = super()._train(candidates, parts, examples)
        if interrupted:
            raise KeyboardInterrupt
        return trained, False

    def _checkpoint(self, candidate: Candidate) -> Path | None:
        # a search of fewer or other trials may have left one of a later stage, by which this one must not be judged
        return None if candidate.method in OTHERS else checkpoints.within(self.file, candidate.epochs)

    def _drop_checkpoints(self, candidates: Iterable[Candidate]) -> None:
        pass  # the next stage needs it


def _fit(
    trial: Trial, share: float, given: tuple[NDArray[Any], NDArray[Any], dict[str, Any]], *, checkpoint: Path, bar: Bar
) -> _Stage:
    """Train a share of a trial's epochs, going on from its checkpoint if there is one."""
    X, y_bar, told = given
    model = _Stage(**told | trial.settings)
    model.share, model.file, model.tell = share, checkpoint, bar
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that failed, or that learned nothing: their rows say so
        return model.fit(X, y_bar)  # type: ignore[return-value]


def _train(trial: Trial, share: float, given: Any, *, checkpoint: Path, bar: Bar) -> tuple[Row, list[list[str]]]:
    """Train a trial; give its row, and for each epoch the means of its runs."""
    start = time.perf_counter()
    found: dict[str, Any] = {}
    curve: list[list[str]] = []
    try:
        model = _fit(trial, share, given, checkpoint=checkpoint, bar=bar)
        history = model.history_
        found = {name: float(value) for name, value in model.estimated_accuracy_._asdict().items()}
        for epoch in np.unique(history.get("epoch", [])):
            of = history["epoch"] == epoch
            values = [f"{np.mean(history[name][of]):.6g}" for name in ("loss", "valid_accuracy")]
            curve.append([str(int(epoch) + 1), *values])
    except (ValueError, ImportError) as error:  # a method that does not take such labels, a rate that is too high
        found = {"failed": " ".join(str(error).split())}
    seconds = round(time.perf_counter() - start, 2)
    return Row(**asdict(trial), share=share, epochs=len(curve), **found, seconds=seconds), curve


# ---- results -----------------------------------------------------------------------------------------------------


class _Search:
    """The results of a search in its folder; `digest` is of the data and of all settings that trials share."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.folder, self.digest = folder, digest[:16]
        self.found: dict[tuple[str, ...], Row] = {}
        self.curves: dict[tuple[str, ...], list[list[str]]] = {}
        try:
            known = json.loads((folder / SUMMARY).read_text(encoding="utf8"))["search"]
        except FileNotFoundError:
            write_text(folder / SUMMARY, json.dumps({"search": self.digest}) + "\n")
            return
        except (OSError, ValueError, KeyError, TypeError):
            known = None
        if known != self.digest:
            raise ValueError(
                f"{folder} must hold nothing, or the beginning of this search; it holds one of other data, settings or "
                f"release; give another --out, or begin anew: --restart"
            )
        self._read()

    def _read(self) -> None:
        for path, into in ((self.folder / TRIALS, self._read_row), (self.folder / CURVES, self._read_point)):
            if path.is_file():
                with open(path, encoding="utf8", newline="") as file:
                    for line in csv.DictReader(file):
                        into(line)

    def _read_row(self, line: dict[str, str]) -> None:
        kinds: dict[str, Any] = {"int": int, "float": _number}
        row = Row(**{f.name: kinds.get(str(f.type), str)(line[f.name]) for f in fields(Row)})
        self.found[row.key] = row

    def _read_point(self, line: dict[str, str]) -> None:
        trial = Trial(line["method"], line["network"], line["recipe"], _number(line["lr"]))
        self.curves.setdefault(trial.key, []).append([line[name] for name in ("epoch", "loss", "valid_accuracy")])

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of the file."""
        return [self.found[key] for key in sorted(self.found)]

    def task(self, trial: Trial, share: float, given: Any) -> Task:
        """Make a stage of a trial a task; all its stages share a checkpoint."""
        file = "-".join((self.digest, *trial.key)).replace(":", "-")
        gpus = None if trial.halves else 0.0  # what is no network computes on cores alone
        return Task(" ".join(trial.key), _train, (trial, share, given), f"{file}.checkpoint", share, gpus=gpus)

    def find(self, trial: Trial, share: float) -> Row | None:
        return self.found.get((*trial.key, repr(share)))

    def ranked(self, trials: Iterable[Trial], share: float) -> list[Row]:
        """The rows of trials that did not fail, the best first."""
        rows = [row for trial in trials if (row := self.find(trial, share)) is not None and not row.failed]
        return sorted(rows, key=lambda row: (-row.estimate, row.trial.key))

    def add(self, row: Row, curve: list[list[str]]) -> None:
        """Take over what a trial came to, and write the files."""
        self.found[row.key] = row
        self.curves[row.trial.key] = curve
        of_trial = [f.name for f in fields(Trial)]
        trials = self._trials()
        points = [  # a search killed between the two files left the curve of a trial that has no row yet
            [*_cells(asdict(trials[key]).values()), *point]
            for key in sorted(self.curves.keys() & trials.keys())
            for point in self.curves[key]
        ]
        self._write(CURVES, [*of_trial, "epoch", "loss", "valid_accuracy"], points)
        self._write(TRIALS, [f.name for f in fields(Row)], [_cells(asdict(row).values()) for row in self.rows])

    def _trials(self) -> dict[tuple[str, ...], Trial]:
        return {row.trial.key: row.trial for row in self.found.values()}

    def _write(self, name: str, heads: list[str], rows: list[list[Any]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([heads, *rows])
        write_text(self.folder / name, text.getvalue())

    def finish(self, winner: Row, accuracy: Interval, n_judges: int) -> None:
        """Write what came of it."""
        said: dict[str, Any] = {
            "search": self.digest,
            "winner": {k: v for k, v in asdict(winner.trial).items() if v == v and v != ""},
        }
        said |= {"accuracy": {k: float(v) for k, v in accuracy._asdict().items()}, "labels that judged": n_judges}
        said |= {"trials": len(self._trials()), "naysayer": __version__, "torch": torch.__version__}
        said |= {"python": platform.python_version()}
        write_text(self.folder / SUMMARY, json.dumps(said, indent=1) + "\n")


def _number(cell: str) -> float:
    """A number of a table; what is empty is not one."""
    return float(cell) if cell else math.nan


def _cells(values: Iterable[Any]) -> list[Any]:
    """Values as a table has them; what is not a number is empty."""
    return ["" if value != value else value for value in values]


def restart(out: str | Path) -> None:
    """Forget a search."""
    for path in (*(Path(out) / name for name in (SUMMARY, TRIALS, CURVES)), *(Path(out) / "checkpoints").glob("*")):
        path.unlink(missing_ok=True)
