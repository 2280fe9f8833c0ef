"""Training what a classifier pools: every candidate's runs, what they hold out, and where they resume."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from naysayer.common.checks import check_count
from naysayer.common.fingerprint import fingerprint
from naysayer.common.progress import Bar, progress_bar
from naysayer.engine import checkpoint as checkpoints
from naysayer.engine import processes
from naysayer.engine.population import Population, pick_device
from naysayer.engine.recipe import Recipe
from naysayer.engine.schedules import cosine_schedule, in_passes, step_schedule
from naysayer.engine.source import Resident, Source
from naysayer.models.candidates import Candidate, Candidates, Parts, network_name
from naysayer.models.defaults import ALONE
from naysayer.models.members import N_TURNS, Boosted, Examples, Forest, Member, Neighbours, Networks
from naysayer.names import OTHERS
from naysayer.objectives import Objective

WORTH_COMPILING = 1_000_000  # examples seen in all, by a residual network on CUDA: compiling takes a minute


@dataclass(frozen=True)
class Last:
    """What a fit leaves for the next, if that starts warm: a digest of its examples, its parts, and its networks."""

    examples: str
    parts: Parts
    members: dict[tuple[str, str | None, float], Networks]


@dataclass(frozen=True)
class TrainedMember:
    """A member, what is said of it, and its probabilities of the rows that it held out, (R, N, K)."""

    member: Member
    about: dict[str, Any]
    objective: Objective | None
    held_out: NDArray[np.float32]


class TrainsCandidates(Candidates):
    """The part of a classifier that trains its candidates; its settings are those of the classifier."""

    weight_decay: float | str
    optimizer: str
    momentum: float
    batch_size: int | str
    warm_start: bool
    time_limit: float | None
    device: str
    checkpoint: str | os.PathLike[str] | None
    on_epoch: Callable[[], None] | None
    verbose: int
    _deadline: float | None

    def _train(self, candidates: list[Candidate], parts: Parts, examples: Examples) -> tuple[list[TrainedMember], bool]:
        """Train every candidate; give what came of them, and whether training was interrupted."""
        trained: list[TrainedMember] = []
        interrupted = False
        self.trials_: list[dict[str, Any]] = []
        self.failed_: list[str] = []
        history: list[dict[str, Any]] = []
        total = sum(candidate.epochs or 30 for candidate in candidates)
        with progress_bar(total, "training", show=self.verbose > 0 and processes.is_first()) as shown:
            bar = self._telling(shown)
            for candidate in candidates:
                bar(0, f"training {candidate.method}")
                if trained and self._is_over():
                    break
                try:
                    if candidate.method in OTHERS:
                        other = self._train_other(candidate, parts, examples)
                        cut_short = self._is_over() and np.isnan(other.held_out[0, parts.held_out]).any()
                        if not cut_short or not trained:  # fewer rows could be judged with it than without
                            trained.append(other)
                        bar(30)
                    else:
                        came, interrupted = self._train_networks(candidate, parts, examples, bar, history)
                        trained += came
                except KeyboardInterrupt:
                    interrupted = True
                if interrupted:
                    break
        self.history_ = {k: np.array([row[k] for row in history]) for k in (history[0] if history else ())}
        if self.failed_:
            warnings.warn(f"{len(self.failed_)} runs were stopped: {self.failed_[0]}", ConvergenceWarning, stacklevel=3)
        if trained:
            return trained, interrupted
        if interrupted:
            raise KeyboardInterrupt  # before the first epoch ended: there is nothing to keep
        self._drop_checkpoints(candidates)
        views = "" if getattr(self.recipe, "augment", None) is None else ", or in what `augment` gives"
        raise ValueError(
            f"no run gave a finite loss: {self.failed_[0]}; lower `lr`, or look for huge values in `X`{views}"
        )

    def _train_networks(
        self,
        candidate: Candidate,
        parts: Parts,
        examples: Examples,
        bar: Bar,
        history: list[dict[str, Any]],
    ) -> tuple[list[TrainedMember], bool]:
        """Train a method's runs, all learning rates at once; each rate is a member."""
        assert candidate.objective is not None
        n_rates, n_seeds = len(candidate.rates), len(parts.seeds)
        runs = self._population(candidate, parts.seeds, examples)
        if self.warm_start:
            self._start_from_last(candidate, runs)
        chooses = parts.choosing is not None  # an epoch, by labels that then cannot judge it
        watched = parts.held_out if parts.choosing is None else parts.choosing
        judged = parts.held_out[:, watched.shape[1] if chooses else 0 :]
        source, n_legs = self._source(candidate, examples, parts, np.tile(watched, (n_rates, 1)))
        runs.fit(
            source,
            max_epochs=candidate.epochs * n_legs,
            select="accuracy" if chooses else "last",
            groups=np.repeat(np.arange(n_rates), n_seeds).tolist(),
            patience=self.patience if chooses else None,
            checkpoint=self._checkpoint(candidate),
            until=self._deadline,
            bar=lambda *_: bar(1 / n_legs),
        )
        done = len(runs.history.get("loss", ()))
        if done == 0:
            return [], runs.interrupted
        bar(candidate.epochs - done / n_legs)  # the epochs it did not need
        for epoch in range(done):
            for m in range(runs.n_runs):
                row = {k: float(v[epoch, m]) for k, v in runs.history.items()}
                history.append(
                    {"method": candidate.method, "lr": runs.lr[m], "seed": m % n_seeds, "epoch": epoch} | row
                )
        self.failed_ += [f"{candidate.method}, run {m}: {what}" for m, what in runs.failed.items()]
        device = pick_device(self.device)
        came = []
        for i, rate in enumerate(candidate.rates):
            members = np.arange(i * n_seeds, (i + 1) * n_seeds)
            about = self._about(candidate, rate, int(runs.best_epoch[members[0]]) // n_legs)
            if any(int(m) in runs.failed for m in members):
                about["epoch"] = (done - 1) // n_legs
                continue
            parameters, buffers = (
                {k: v[members].to(device) for k, v in part.items()} for part in (runs.parameters, runs.buffers)
            )
            decoder = candidate.objective if candidate.objective.decodes else None
            module = runs.module.to(device)
            member = Networks(network_name(candidate.network), module, parameters, buffers, decoder)
            if self.warm_start:
                self._last.members[candidate.method, network_name(candidate.network), rate] = member
            came.append(TrainedMember(member, about, candidate.objective, member.held_out(examples.inputs, judged)))
        return came, runs.interrupted

    def _source(
        self, candidate: Candidate, examples: Examples, parts: Parts, watched: NDArray[np.int64]
    ) -> tuple[Source, int]:
        """What a candidate learns from, and how many of the engine's epochs make a pass over it."""
        if examples.stream is not None:
            return examples.stream, examples.stream.n_legs
        inputs, labels, weight, rows = _shown(candidate.recipe, examples, parts)
        rows = np.tile(rows, (len(candidate.rates), 1))
        told = {"sample_weight": weight, "rows": rows, "validation_rows": watched}
        return Resident(inputs, labels, len(self.classes_), **told), 1

    def _start_from_last(self, candidate: Candidate, runs: Population) -> None:
        """Start the runs of a candidate where those of the last fit ended; a network of another shape begins anew."""
        n_seeds = runs.n_runs // len(candidate.rates)
        for i, rate in enumerate(candidate.rates):
            last = self._last.members.get((candidate.method, network_name(candidate.network), rate))
            now = _shapes(runs.parameters) | _shapes(runs.buffers)
            if last is not None and now == _shapes(last.parameters) | _shapes(last.buffers):
                for state, before in ((runs.parameters, last.parameters), (runs.buffers, last.buffers)):
                    for name, tensor in before.items():
                        state[name][i * n_seeds : (i + 1) * n_seeds] = tensor.to(state[name])

    def _train_other(self, candidate: Candidate, parts: Parts, examples: Examples) -> TrainedMember:
        """Train a member that is no network; of several processes, one does."""
        member, held_out = processes.from_first(lambda: self._train_alone(candidate, parts, examples))
        return TrainedMember(member, self._about(candidate, None, None), None, held_out)

    def _train_alone(
        self, candidate: Candidate, parts: Parts, examples: Examples
    ) -> tuple[Member, NDArray[np.float32]]:
        if candidate.method == "forest":
            return Forest.train(examples, parts.seeds[0], parts.held_out)
        if candidate.method == "boosting":
            return Boosted.train(examples, parts.seeds[0], parts.held_out, self._deadline)
        turns = N_TURNS if candidate.method == "discriminant" else 0
        return Neighbours.train(examples, parts.held_out, candidate.objective, turns)

    def _about(self, candidate: Candidate, rate: float | None, epoch: int | None) -> dict[str, Any]:
        """Begin what is said of a member; its accuracy and weight are not known yet."""
        about = {"method": candidate.method, "network": network_name(candidate.network), "lr": rate, "epoch": epoch}
        about |= {"estimated_accuracy": None, "weight": 0.0}
        self.trials_.append(about)
        return about

    def _population(self, candidate: Candidate, seeds: list[int], examples: Examples) -> Population:
        """Build the runs of a candidate: one for each learning rate and seed."""
        assert candidate.objective is not None
        n, shape = len(examples.labels), examples.inputs.shape[1:]
        batch, defaults, epochs = self.batch_size, candidate.defaults, candidate.epochs
        if batch == "auto":
            batch = int(np.clip(2 ** round(np.log2(max(1, n / 30))), 16, 256))
        schedule = defaults.schedule if self.schedule == "auto" else self.schedule
        if isinstance(schedule, str):
            warm_up = min(defaults.warm_up, epochs // 5)
            schedule = cosine_schedule(epochs, warm_up) if schedule == "cosine" else step_schedule()
        if callable(schedule) and examples.stream is not None:
            schedule = in_passes(schedule, examples.stream.n_legs)
        fast = candidate.kind in ALONE and pick_device(self.device).type == "cuda"
        return Population(
            self._build_network(candidate.network, shape),
            candidate.objective,
            seeds=seeds * len(candidate.rates),
            lr=np.repeat(candidate.rates, len(seeds)).tolist(),
            weight_decay=defaults.weight_decay if self.weight_decay == "auto" else self.weight_decay,  # type: ignore[arg-type]
            optimizer=defaults.optimizer if self.optimizer == "auto" else self.optimizer,
            momentum=self.momentum,
            schedule=schedule,
            recipe=candidate.recipe,
            batch_size=check_count(batch, "`batch_size`"),
            precision="bfloat16" if fast else "float32",
            compiled=fast and epochs * n >= WORTH_COMPILING,
            device=self.device,
        )

    def _go_on(self, examples: Examples, parts: Parts) -> Parts:
        """Give the parts of the last fit if it had the same examples; else forget that fit."""
        told = [
            examples.inputs,
            examples.labels,
            examples.weight,
            examples.groups,
            self.n_seeds,
            self.validation_fraction,
            self.patience,
        ]
        same = fingerprint({"examples": [t.numpy() if isinstance(t, Tensor) else t for t in told]})
        last: Last | None = getattr(self, "_last", None)
        if last is None or last.examples != same:
            last = self._last = Last(same, parts, {})
        return last.parts

    def _telling(self, bar: Bar) -> Bar:
        """Call `on_epoch` whenever the bar is told of an epoch."""

        def both(advance: float = 1, label: str | None = None) -> None:
            bar(advance, label)
            if advance > 0 and self.on_epoch is not None:
                self.on_epoch()

        return both

    def _check_time_limit(self) -> float | None:
        """Give the moment at which training has to end."""
        limit = self.time_limit
        if limit is None:
            return None
        if not isinstance(limit, Real) or not limit > 0:
            raise ValueError(f"`time_limit` must be a positive number of seconds, or None; got {limit!r}")
        return time.monotonic() + float(limit)

    def _is_over(self) -> bool:
        """Whether the time is up, by the clock of the first process if there are several."""
        until = self._deadline
        return until is not None and processes.from_first(lambda: time.monotonic() >= until)

    def _checkpoint(self, candidate: Candidate) -> Path | None:
        if self.checkpoint is None or candidate.method in OTHERS:
            return None
        name = network_name(candidate.network)
        return Path(self.checkpoint) / f"{candidate.method}{'' if name in (None, 'mlp') else '-' + name}.safetensors"

    def _drop_checkpoints(self, candidates: Iterable[Candidate]) -> None:
        """Training is over: what it saved on the way is no longer needed."""
        if not processes.is_first():
            return
        for candidate in candidates:
            path = self._checkpoint(candidate)
            if path is not None:
                checkpoints.remove(path)
        if self.checkpoint is not None:
            with contextlib.suppress(OSError):
                Path(self.checkpoint).rmdir()


def _shapes(state: dict[str, Tensor]) -> dict[str, torch.Size]:
    """The shapes of a network's tensors, by their names, whatever the number of runs."""
    return {name: tensor.shape[1:] for name, tensor in state.items()}


def _shown(recipe: Recipe, examples: Examples, parts: Parts) -> tuple[Tensor, NDArray[Any], Any, NDArray[np.int64]]:
    """Give what runs are shown: inputs, labels, weights, and the rows of each run.

    Where rows without a label teach something, these are all there are, and copies of those held out, of which a run
    sees all but the labels.
    """
    if not recipe.unlabelled:
        return examples.inputs, examples.labels, examples.weight, parts.rows
    n, n_others, held_out = len(examples.labels), len(examples.unlabelled), np.unique(parts.held_out)
    inputs = torch.cat([examples.inputs, examples.unlabelled, examples.inputs[torch.from_numpy(held_out)]])
    labels, told = np.zeros((len(inputs), examples.n_classes), dtype=bool), examples.labels
    labels[:n] = told if told.ndim == 2 else np.eye(examples.n_classes, dtype=bool)[told]
    weight = examples.weight
    if weight is not None:
        others = np.empty(0) if examples.unlabelled_weight is None else examples.unlabelled_weight
        weight = np.concatenate([weight, others, weight[held_out]])
    copies = n + n_others + np.searchsorted(held_out, parts.held_out)
    others_rows = np.tile(np.arange(n, n + n_others), (len(copies), 1))
    return inputs, labels, weight, np.hstack([parts.rows, others_rows, copies])
