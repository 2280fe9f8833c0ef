"""What a classifier trains, by its settings and its data: candidates for members, and the rows that runs hold out."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from naysayer.common.checks import check_count, near, number, to_numpy
from naysayer.engine import process
from naysayer.engine.networks import NETWORKS
from naysayer.engine.recipe import RECIPES, Recipe
from naysayer.losses import Loss
from naysayer.models import boosting
from naysayer.models.crossfit import Groups, halves, others, split
from naysayer.models.defaults import ALONE, Defaults, defaults_of, is_consistency, kind_of, made
from naysayer.models.members import MOST_COMPONENTS, Examples
from naysayer.names import OTHERS
from naysayer.objectives import OBJECTIVES, Forward, Objective, make

Network = str | nn.Module | Callable[[int, int], nn.Module]

MOST_HELD_OUT = 1 << 24  # probabilities that a run predicts of the rows it holds out
MANY = 10_000  # rows from which on `auto` tries more than one learning rate, and gradient ascent
WIDE = 512  # features up to which trees are trained: with more they are slow and hardly weigh anything


@dataclass(frozen=True)
class Candidate:
    """What may become a member: a method on a network at some learning rates, or one of `OTHERS`, without a network."""

    method: str
    network: Network | None = None
    objective: Objective | None = None
    rates: tuple[float, ...] = ()
    epochs: int = 0
    recipe: Recipe = field(default_factory=Recipe)
    kind: str = "dense"  # of the network
    defaults: Defaults = field(default_factory=Defaults)


@dataclass(frozen=True)
class Parts:
    """The seeds of the runs, and the rows that each learns from and holds out; if some choose the epoch, which."""

    seeds: list[int]
    rows: NDArray[np.int64]  # (S, N - h)
    held_out: NDArray[np.int64]  # (S, h)
    choosing: NDArray[np.int64] | None = None  # (S, about h / 2) of those held out, in no run among the others


class Candidates:
    """The part of a classifier that says what it trains; its settings are those of the classifier."""

    method: str | Sequence[str] | Mapping[str, Objective | None]
    network: Network
    hidden: Sequence[int]
    loss: str | Loss
    lr: float | Sequence[float] | str
    schedule: Any
    recipe: str | Recipe
    max_epochs: int | str
    patience: int | None
    n_seeds: int | str
    validation_fraction: float | str
    beta: float
    gamma: float
    alpha: float | None
    transition: ArrayLike | None
    classes_: NDArray[Any]

    def _build_network(self, network: Network | None, shape: Sequence[int]) -> nn.Module | Callable[[], nn.Module]:
        """Give the module to copy, or the function that builds one."""
        n_classes = len(self.classes_)
        if isinstance(network, nn.Module):
            return network
        if callable(network):
            return functools.partial(_called, network, math.prod(shape), n_classes)
        build = NETWORKS.get(str(network))
        if build is None:
            known = ", ".join(NETWORKS)
            raise ValueError(
                f"`network` must be one of {known}, a module, or a function that builds one; got {network!r}"
            )
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise ValueError(f"`hidden` must hold the widths of the hidden layers, as (128,) does; got {self.hidden!r}")
        widths = [check_count(width, "`hidden`") for width in self.hidden]
        return lambda: build(torch.Size(shape), n_classes, widths)

    def _candidates(self, examples: Examples) -> list[Candidate]:
        """Check the settings, and say what is trained: methods on networks, and trees."""
        self._epochs(1)
        known = ("auto", *RECIPES)
        if not isinstance(self.recipe, Recipe) and self.recipe not in known:
            raise ValueError(
                f"`recipe` must be a Recipe or one of {', '.join(known)}; got {near(str(self.recipe), known)}"
            )
        if self.patience is not None:
            check_count(self.patience, "`patience`")
        if self.schedule not in (None, "auto", "cosine", "step") and not callable(self.schedule):
            raise ValueError(f"`schedule` must be None, 'cosine', 'step' or a function; got {self.schedule!r}")
        if isinstance(self.method, Mapping):
            found = [self._with(name, objective, examples) for name, objective in self._own().items()]
        else:
            found = [c for name in self._methods() for c in self._named(name, examples)]
        if not found:
            raise ValueError("`method` must name at least one method")
        found = list(
            {(c.method, c.network if isinstance(c.network, str) else id(c.network)): c for c in found}.values()
        )
        for candidate in found:
            if candidate.objective is not None:
                candidate.objective.settings()  # one that cannot tell them is refused now, not after the training
        return found

    def _named(self, name: str, examples: Examples) -> list[Candidate]:
        """The candidates that a name stands for."""
        if name in OTHERS:
            return [Candidate(name)]
        if name == "linear":
            return [self._with(name, self._objective("forward"), examples)]
        if name in OBJECTIVES:
            return [self._with(name, self._objective(name), examples)]
        return self._auto(examples)

    def _with(self, name: str, objective: Objective | None, examples: Examples) -> Candidate:
        """The candidate of a name and its objective; a linear network has rates and epochs of its own."""
        if name in OTHERS:
            return Candidate(name, objective=objective)
        assert objective is not None
        if name == "linear":
            epochs = min(self._epochs(100), max(3, min(60, 12_000_000 // len(examples.labels))))
            method = "forward" if isinstance(objective, Forward) else name
            return self._on_network(method, "linear", objective, examples, (0.02,), epochs)
        return self._on_network(name, self.network, objective, examples)

    def _on_network(
        self,
        method: str,
        network: Network,
        objective: Objective,
        examples: Examples,
        rates: tuple[float, ...] | None = None,
        epochs: int | None = None,
    ) -> Candidate:
        """The candidate of a network; `rates` and `epochs` are those of the plain recipe on all but residual ones."""
        shape = examples.inputs.shape[1:]
        build = self._build_network(network, shape)
        with process.seeded():  # it is looked at, not trained
            kind = kind_of(build if isinstance(build, nn.Module) else build())
        recipe = self.recipe
        if recipe == "auto":
            recipe = "consistency" if kind in ALONE and not objective.decodes else "plain"
        defaults = defaults_of(recipe, kind, shape)
        if kind not in ALONE and not is_consistency(recipe):
            defaults = defaults if rates is None else replace(defaults, rates=rates)
        elif epochs is not None:
            epochs = self._epochs(max(3, min(defaults.epochs, 6_000_000 // len(examples.labels))))
        epochs = self._epochs(defaults.epochs) if epochs is None else epochs
        how = made(recipe, kind, shape, epochs)
        return Candidate(method, network, objective, self._rates(defaults.rates), epochs, how, kind, defaults)

    def _auto(self, examples: Examples) -> list[Candidate]:
        """What suits the data: docs/accuracy.md has the measurements behind it."""
        n, n_classes, n_features = len(examples.labels), len(self.classes_), math.prod(examples.inputs.shape[1:])
        epochs = min(self._epochs(100), max(3, min(30, 6_000_000 // n)))
        rates = (1e-2,) if n < MANY else (1e-3, 1e-2) if n < 10 * MANY else (3e-3,)
        found = [self._on_network("forward", self.network, self._objective("forward"), examples, rates, epochs)]
        if is_consistency(found[0].recipe):
            return found
        if n >= MANY:
            ascent = self._objective("ascent")
            found.append(self._on_network("ascent", self.network, ascent, examples, (1e-3,), epochs))
        if self.network != "mlp":
            return found
        found += self._named("linear", examples)
        narrow = n_features <= WIDE
        if narrow and n <= 20 * MANY and n * n_classes <= 20_000_000:
            found.append(Candidate("forest"))
        if narrow and boosting.is_available() and n * n_classes * min(n_features, 100) <= 30_000_000:
            found.append(Candidate("boosting"))
        if (n + len(examples.unlabelled)) ** 2 * min(n_features, MOST_COMPONENTS) <= 400_000_000_000:
            found += [Candidate("neighbours"), Candidate("discriminant")]
        return found

    def _apt(self, candidates: list[Candidate], parts: Parts, examples: Examples) -> list[Candidate]:
        """Leave out boosted trees that nobody named where all rows that a run may learn from are alike."""
        kept = [candidate for candidate in candidates if candidate.method != "boosting"]
        if len(kept) == len(candidates) or isinstance(self.method, Mapping) or "boosting" in self._methods():
            return candidates
        X = examples.inputs.flatten(1)
        left = (torch.from_numpy(others(np.arange(len(X)), part, examples.groups)) for part in parts.held_out)
        alike = any(bool((X[rows[:100]] == X[rows[0]]).all() and (X[rows] == X[rows[0]]).all()) for rows in left)
        return kept if alike else candidates

    def _methods(self) -> list[str]:
        """Check the names of the methods to try; each comes once."""
        method: Any = self.method
        named = [method] if isinstance(method, str) or not np.iterable(method) else list(method)
        known = (*OBJECTIVES, "linear", *OTHERS)
        for name in named:
            if name != "auto" and name not in known:
                raise ValueError(f"`method` must be 'auto' or one of {', '.join(known)}; got {near(str(name), known)}")
        return list(dict.fromkeys(named))

    def _own(self) -> dict[str, Objective | None]:
        """Check the objectives that were given."""
        assert isinstance(self.method, Mapping)
        n_classes = len(self.classes_)
        for name, objective in self.method.items():
            if objective is None and name in OTHERS:
                continue
            spreads = name in ("neighbours", "discriminant")
            if name in OTHERS and not (spreads and isinstance(objective, Forward)):
                allowed = "None, or Forward or a subclass of it" if spreads else "None"
                raise ValueError(f"the objective of {name!r} in `method` must be {allowed}; got {objective!r}")
            if not isinstance(objective, Objective) or objective.n_classes != n_classes:
                got = objective.n_classes if isinstance(objective, Objective) else repr(objective)
                raise ValueError(
                    f"a `method` of your own must be an objective of {n_classes} classes; got {got} for {name!r}"
                )
            if not _same_matrix(objective.transition, self.transition):
                raise ValueError(
                    f"`transition` must be the matrix of the objective {name!r}, or None where it has none: the "
                    f"accuracy is estimated with it"
                )
        return dict(self.method)

    def _objective(self, name: str) -> Objective:
        options = {"loss": self.loss, "transition": self.transition, "alpha": self.alpha}
        return make(name, len(self.classes_), **options, beta=self.beta, gamma=self.gamma)

    def _rates(self, default: tuple[float, ...]) -> tuple[float, ...]:
        """Check the learning rates to try."""
        if isinstance(self.lr, str) and self.lr == "auto":
            return default
        try:
            rates = np.atleast_1d(np.asarray(self.lr, dtype=np.float64))
        except (TypeError, ValueError):
            rates = np.empty(0)
        if rates.ndim != 1 or len(rates) == 0 or not (np.isfinite(rates) & (rates > 0)).all():
            raise ValueError(f"`lr` must be 'auto', a positive number or some of them; got {self.lr!r}")
        return tuple(rates.tolist())

    def _epochs(self, default: int) -> int:
        """Check the number of epochs; where none is given it is the default."""
        return default if self.max_epochs == "auto" else check_count(self.max_epochs, "`max_epochs`")

    def _share_held_out(self, candidates: Sequence[Candidate]) -> float:
        """Check the share of the rows that a run holds out: a tenth where there is one run, or else a fifth."""
        share = self.validation_fraction
        if share == "auto":
            return 0.1 if self._has_one_run(candidates) else 0.2
        if not 0 < number(share) < 1:
            raise ValueError(f"`validation_fraction` must be between 0 and 1; got {share!r}")
        return float(share)

    def _has_one_run(self, candidates: Sequence[Candidate]) -> bool:
        """Whether a member has one run: a residual network takes too long for more."""
        return self.n_seeds == "auto" and any(candidate.kind in ALONE for candidate in candidates)

    def _parts(
        self, n: int, candidates: Sequence[Candidate], rng: np.random.Generator, groups: Groups | None = None
    ) -> Parts:
        """Say which rows each run learns from and holds out; a row is held out several times, or by a single run."""
        share = self._share_held_out(candidates)
        n_runs = round((4 if n <= 2_000 else 2) / share) if self.n_seeds == "auto" else self.n_seeds
        n_runs = 1 if self._has_one_run(candidates) else n_runs
        seeds = [int(seed) for seed in rng.integers(0, 2**31, size=check_count(n_runs, "`n_seeds`"))]
        most = max(1, MOST_HELD_OUT // len(self.classes_))
        n_held_out = min(n - 1, most, max(1, round(share * n)))
        if self.patience is None or n < 4:  # too few to choose an epoch and to judge it
            return Parts(seeds, *_learning(*split(rng, n, len(seeds), n_held_out, groups)))
        both = halves(rng, n, groups)  # what chooses in one run judges in none
        each = [
            split(rng, len(half), len(seeds), min(len(half) - 1, max(1, n_held_out // 2)), _at(groups, half))
            for half in both
        ]
        rows, held_out = ([half[part[i]] for half, part in zip(both, each)] for i in (0, 1))
        return Parts(seeds, *_learning(np.hstack(rows), np.hstack(held_out)), held_out[0])


def network_name(network: Network | None) -> str | None:
    """The name of a network, if it has one."""
    return network if isinstance(network, str) else None


def _at(groups: Groups | None, rows: NDArray[np.int64]) -> Groups | None:
    return None if groups is None else groups[rows]


def _learning(rows: NDArray[np.int64], held_out: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Check that there is something to learn from."""
    if rows.shape[1] == 0:
        raise ValueError(
            "`groups` must leave rows to learn from when some groups are held out; got too few, or too large ones; "
            "leave `groups` out, or lower `validation_fraction`"
        )
    return rows, held_out


def _same_matrix(one: Any, other: Any) -> bool:
    """Whether two transition matrices are the same; None is the uniform one."""
    if one is None or other is None:
        return one is other
    return np.array_equal(to_numpy(one), to_numpy(other))


def _called(build: Callable[[int, int], nn.Module], n_features: int, n_classes: int) -> nn.Module:
    """Build a network of one's own."""
    try:
        inspect.signature(build).bind(n_features, n_classes)
    except TypeError as error:
        raise ValueError(f"a function that is given for `network` must take (n_features, n_classes); {error}") from None
    module = build(n_features, n_classes)
    if not isinstance(module, nn.Module):
        raise ValueError(f"a function that is given for `network` must give a module; got {type(module).__name__}")
    return module
