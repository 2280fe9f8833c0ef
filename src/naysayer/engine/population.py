"""The engine: a population of runs of one network, trained together on one device.

A run is one network trained from one seed with one learning rate and weight decay. The runs of a population have their
parameters stacked along a first axis, so that one batched matrix product and one optimiser step serve all. The
data stays on the device and is indexed there; an epoch's shuffles, label weights, validation, test and best states are
all made there, and the host waits once per epoch. On CUDA the step is captured once and replayed. On a CPU small
chunks of runs, or single ones when the network is large, go through one after another.

What a run becomes does not depend on the others it was grouped with: its start and its shuffles come from its
seed alone, and nothing is shared but the data.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from naysayer.common.checks import check_count, number
from naysayer.common.fingerprint import fingerprint, structure_of
from naysayer.common.progress import Bar
from naysayer.engine import checkpoint as checkpoints
from naysayer.engine import memory, process, processes
from naysayer.engine.bound import headed, set_training, stacked_logits
from naysayer.engine.checkpoint import Array, Course
from naysayer.engine.choice import EpochChoice
from naysayer.engine.optimizers import OPTIMIZERS
from naysayer.engine.recipe import Augment, Recipe, Tensors, as_recipe
from naysayer.engine.schedules import Schedule
from naysayer.engine.source import Reduce, Resident, Source, as_inputs, resident, to_float
from naysayer.engine.stack import EVALUATE, Settings, Stack
from naysayer.objectives import Objective

PRECISIONS = ("float32", "bfloat16")
CHECKPOINT_SECONDS = 30.0
_SMALL_STEP = 2e8  # floating-point operations of a step that one thread does alone
_STACK_ON_CPU = 1 << 17  # parameters in a chunk of runs on a CPU: more would leave the cache


def pick_device(device: str | torch.device) -> torch.device:
    """Turn "auto" into the accelerator where there is one."""
    if device != "auto":
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError):
            raise ValueError(f"`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got {device!r}") from None
        if chosen.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"`device` is {device!r}, but no CUDA device is here; pass device='auto'")
        if chosen.type == "cuda" and (chosen.index or 0) >= (n_here := torch.cuda.device_count()):
            raise ValueError(
                f"`device` must be one of the {n_here} CUDA devices here, from 'cuda:0' on; got {device!r}"
            )
        return chosen
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Population:
    """M runs of one network, with one objective for all or one per run.

    Parameters
    ----------
    network : a function that builds the module, so that each run starts from its own seed; or a module, which is
        copied for each run with the weights it has. Frozen parameters stay as they are, and a part all of whose
        parameters are frozen computes as it predicts, its batch norm included. Inputs are (B, ...), logits (B, K).
    objective : what a step minimises, or one per run; see :mod:`naysayer.objectives`. Neighbouring runs with the
        same objective are measured together.
    seeds : one per run.
    lr, weight_decay : one number, or one per run. Weight decay falls on weights, not on biases.
    optimizer : "adam", "adamw", "sgd" or "nesterov" (both with `momentum`).
    schedule : a function from the epoch to a factor on the learning rate; see :mod:`naysayer.engine.schedules`.
    batch_size : the epoch is dealt into equal batches of at most this size; where the rows do not divide evenly,
        the last batch is filled up from the start of the epoch's order.
    precision : "float32" (products in TF32 where the device has it), or "bfloat16", in which the network computes while
        its parameters, logits and losses stay float32.
    compiled : compile a network that trains one run at a time; the first epoch then takes a minute more.
    recipe : how a step uses network, views and objective: a name in :data:`naysayer.engine.recipe.RECIPES`, or a
        :class:`~naysayer.engine.recipe.Recipe`.
    augment : a function (B, ...), (B,) codes → (B, ...) that alters training examples, for a recipe given by name;
        :func:`naysayer.engine.augment.crop_and_flip`.
    reduce : a function that sums a tensor over processes, each of which has its part of every batch;
        :class:`naysayer.common.reduce.SumOver`. By default that of the objective's `group`. Where neither is given,
        processes that torchrun started train together: all are given the same arrays or stream, of which each
        takes its part of every batch, and the first writes the checkpoint (:mod:`naysayer.engine.processes`).
    device : "auto", "cpu", "cuda".

    Attributes
    ----------
    history : dict of (epochs, M) arrays: "loss", and where asked for "valid_accuracy", "valid_risk" (unbiased
        cross-entropy), "valid_objective", "test_accuracy".
    best_epoch, best_score : (M,) arrays; with no validation rows, the last epoch.
    failed : run → what went wrong. A run whose loss stops being finite is stopped alone, and keeps its best state.
    interrupted : whether training was cut short from the keyboard; what was trained is kept.

    Examples
    --------
    >>> from naysayer import complement, networks, objectives
    >>> y = np.arange(300) % 3
    >>> X = np.eye(3, dtype="float32")[y]
    >>> runs = Population(lambda: networks.linear(3, 3), objectives.Forward(3), seeds=[0, 1], lr=0.1)
    >>> runs = runs.fit(X, complement(y, 3, random_state=0), max_epochs=20)
    >>> runs.logits(X).argmax(-1).eq(torch.tensor(y)).float().mean(-1)
    tensor([1., 1.])
    """

    def __init__(
        self,
        network: nn.Module | Callable[[], nn.Module],
        objective: Objective | Sequence[Objective],
        *,
        seeds: Sequence[int] = (0,),
        lr: float | Sequence[float] = 1e-3,
        weight_decay: float | Sequence[float] = 0.0,
        optimizer: str = "adam",
        momentum: float = 0.9,
        schedule: Schedule | None = None,
        batch_size: int = 256,
        precision: str = "float32",
        compiled: bool = False,
        recipe: str | Recipe = "plain",
        augment: Augment | None = None,
        reduce: Reduce | None = None,
        device: str | torch.device = "auto",
    ) -> None:
        self.seeds = _whole(seeds)
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"`optimizer` must be one of {', '.join(OPTIMIZERS)}; got {optimizer!r}")
        if precision not in PRECISIONS:
            raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}; got {precision!r}")
        if not 0 <= number(momentum) < 1:
            raise ValueError(f"`momentum` must be from 0 up and below 1; got {momentum!r}")
        if schedule is not None and not callable(schedule):
            raise ValueError(
                f"`schedule` must be None, or a function from the epoch to a factor, as naysayer.engine.schedules has; "
                f"got {schedule!r}"
            )
        self.n_runs = len(self.seeds)
        self.lr = self._per_run(lr, "lr")
        self.weight_decay = self._per_run(weight_decay, "weight_decay")
        self.optimizer, self.momentum, self.schedule = optimizer, momentum, schedule
        self.batch_size = check_count(batch_size, "`batch_size`")
        self.precision, self.compiled = precision, compiled
        self.recipe = as_recipe(recipe, augment)
        self.device = pick_device(device)
        self.objectives = self._own(objective)
        self.n_classes = self.objectives[0].n_classes
        self.reduce = self.objectives[0].reduce if reduce is None else reduce
        if self.reduce is None and (together := processes.join()) is not None:
            processes.check_device(self.device)
            self.reduce = together
        modules = [self._start(network, seed) for seed in self.seeds]
        self._keeps_weights = isinstance(network, nn.Module)
        if not any(p.requires_grad for p in modules[0].parameters()):
            raise ValueError("`network` must have a parameter to learn; all of its are frozen, or it has none")
        modules = [headed(module, objective) for module, objective in zip(modules, self.objectives)]
        self.module = copy.deepcopy(modules[0]).to(self.device)
        trained = [{k: p for k, p in m.named_parameters() if p.requires_grad} for m in modules]
        frozen = [{k: p for k, p in m.named_parameters() if not p.requires_grad} for m in modules]
        self.parameters = _stack(trained, self.device)
        self.buffers = _stack([f | dict(m.named_buffers()) for f, m in zip(frozen, modules)], self.device)
        self.history: dict[str, np.ndarray[Any, Any]] = {}
        self.course = Course(self.n_runs)
        self.interrupted = False

    @property
    def best_epoch(self) -> Array:
        """The epoch whose state each run keeps, (M,)."""
        return self.course.best_epoch

    @property
    def best_score(self) -> Array:
        """What it scored on the examples held out, (M,)."""
        return self.course.best_score

    @property
    def failed(self) -> dict[int, str]:
        """What went wrong in which run."""
        return self.course.failed

    def _own(self, objective: Objective | Sequence[Objective]) -> list[Objective]:
        """Give each run its objective, on the device; what several runs share is copied once."""
        given = [objective] * self.n_runs if isinstance(objective, Objective) else list(objective)
        if not all(isinstance(one, Objective) for one in given):
            raise ValueError(
                f"`objective` must be an objective, or one per run; got {objective!r}; naysayer.objectives.make builds "
                f"one by its name"
            )
        if len(given) != self.n_runs or len({o.n_classes for o in given}) != 1:
            raise ValueError(
                f"`objective` must be one objective, or one per run with the same number of classes each; "
                f"got {len(given)} for {self.n_runs} runs, of {sorted({o.n_classes for o in given})} classes"
            )
        if len({type(o.head) for o in given}) != 1:
            raise ValueError(
                "`objective` must put the same layer on top of the network in every run, or none in any; train methods "
                "that do as cpe-t does in a population of their own"
            )
        copies = {id(o): copy.deepcopy(o).to(self.device) for o in given}
        return [copies[id(o)] for o in given]

    def _per_run(self, value: float | Sequence[float], name: str) -> list[float]:
        try:
            values = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            values = np.array(np.nan)
        if values.ndim == 0:
            values = np.full(self.n_runs, values)
        if len(values) != self.n_runs:
            raise ValueError(f"`{name}` must be one number or one per run; got {len(values)} for {self.n_runs} runs")
        if not all(math.isfinite(v) and v >= 0 for v in values):
            raise ValueError(f"`{name}` must be finite and not negative; got {value!r}")
        return [float(v) for v in values]

    @staticmethod
    def _start(network: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
        """Build one run's module from its seed, leaving torch's global generator as it was."""
        if not callable(network):
            raise ValueError(f"`network` must be a module, or a function that builds one; got {network!r}")
        with process.seeded(seed):
            module = copy.deepcopy(network) if isinstance(network, nn.Module) else network()
        if not isinstance(module, nn.Module):
            raise ValueError(f"a function that is given for `network` must give a module; got {type(module).__name__}")
        return module

    # ---- training -------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y_bar: Any = None,
        *,
        max_epochs: int = 100,
        rows: Any = None,
        validation_rows: Any = None,
        test: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
        select: str = "accuracy",
        groups: Sequence[int] | None = None,
        patience: int | None = None,
        class_risks: bool = False,
        checkpoint: str | Path | None = None,
        until: float | None = None,
        bar: Bar | None = None,
    ) -> Population:
        """Train all runs.

        Parameters
        ----------
        X : (N, ...) float32, or uint8, which is kept as such and divided by 255 as it is used; or a
            :class:`~naysayer.engine.source.Source`, which has the labels and rows with it.
        y_bar : (N,) labels or (N, K) ruled-out matrix for all runs, or (M, N) labels, one row per run.
        max_epochs : epochs in all, those of a resumed checkpoint included.
        rows, validation_rows : (n,) rows of X for all runs, or (M, n), one row per run; by default all, and none.
        test : (X, y_true), scored after every epoch and used for nothing else.
        sample_weight : (N,) how many times each example counts, in training and in validation; once if None.
        select : by what a run's best epoch is chosen on the validation rows: "accuracy" (unbiased zero-one), "risk"
            (unbiased cross-entropy) or "objective" (the objective's own loss); "last" takes the last one.
        groups : (M,) names of groups of runs whose validation scores are averaged, so that the best epoch is chosen for
            all of them together, as in cross-validation; None leaves each run alone.
        patience : stop a run after this many epochs without a better score.
        class_risks : record each class's part of the unbiased cross-entropy risk on the training rows,
            as "class_risk_0" and so on.
        checkpoint : file to save to every half minute and to resume from if it is there; None where `reduce` was given,
            or an objective's `group`.
        until : a moment of :func:`time.monotonic` after which no epoch is begun but the first; None there, too.
        bar : told after each epoch.
        """
        choice = EpochChoice.of(select, groups, patience, self.n_runs)
        check_count(max_epochs, "`max_epochs`")
        self._check_agreed(checkpoint=checkpoint, until=until)
        with process.quick(self.device):
            source, example = self._open(X, y_bar, rows, validation_rows, test, sample_weight)
        path = None if checkpoint is None else Path(checkpoint)
        stamp = self._stamp(source, path, choice, class_risks, [max_epochs, until is None, path is None])
        chunks = self._group(source, example)
        self.course, self.interrupted = Course(self.n_runs), False
        with process.quick(self.device), self._room_for_a_step(), self._threads(source, len(chunks)) as spread:
            settings = self._settings(class_risks)
            stacks = [
                Stack(self.module, self.objectives, source, example, runs, self.parameters, self.buffers, settings)
                for runs in chunks
            ]
            if path is not None:
                self._resume(path, stamp, stacks)
            for _ in range(min(self.course.epoch, max_epochs) if bar is not None else 0):
                bar()  # type: ignore[misc]
            try:
                self._train(stacks, spread, choice, max_epochs, until, bar, path, stamp)
            except KeyboardInterrupt:
                if self._together() is not None:
                    raise  # the others may be a step further, and what they have is another model
                self.interrupted = True
        self.history = {name: np.stack(values) for name, values in self.course.history.items()}
        self.parameters = checkpoints.join([s.best_parameters for s in stacks])
        self.buffers = checkpoints.join([s.best_buffers for s in stacks])
        return self

    def _open(
        self, X: Any, y_bar: Any, rows: Any, validation_rows: Any, test: Any, sample_weight: Any
    ) -> tuple[Source, Tensor]:
        """Give the source on the device, or this process's part of it, and an example that the network was tried on."""
        source = self._source(X, y_bar, rows, validation_rows, test, sample_weight)
        if self.recipe.remembers and (self.reduce is not None or not isinstance(source, Resident)):
            raise ValueError(
                f"`recipe` must be another where rows are not all here; {type(self.recipe).__name__} keeps something "
                f"of each, and needs arrays and one process"
            )
        if (together := self._together()) is not None:
            source = source.part_of(together.rank, together.size, together)
        remedy = "pass uint8 where float32 is not needed, fewer examples, or a stream (naysayer.open_stream)"
        with memory.enough(self.device, "the examples that it is given", remedy):
            source.prepare(self.seeds, self.batch_size, self.device)
            example = source.example()
        with self._room_for_a_step():
            self._check_logits(example)
        return source, example

    def _train(
        self,
        stacks: list[Stack],
        spread: Callable[..., Iterable[Tensors]],
        choice: EpochChoice,
        max_epochs: int,
        until: float | None,
        bar: Bar | None,
        path: Path | None,
        stamp: str,
    ) -> None:
        """Train epoch after epoch until all runs are done or the time is up, saving on the way and at the end."""
        course, saved = self.course, time.monotonic()
        while course.epoch < max_epochs and not course.stopped.all():
            if until is not None and course.epoch > 0 and self._once(lambda: time.monotonic() > until):
                break
            self._epoch(stacks, spread, choice)
            if bar is not None:
                bar()
            if path is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                self._save(path, stamp, stacks)
                saved = time.monotonic()
        if path is not None:
            self._save(path, stamp, stacks)

    def _source(self, X: Any, y_bar: Any, rows: Any, validation_rows: Any, test: Any, sample_weight: Any) -> Source:
        """Take a source as it is, and make arrays one."""
        if not isinstance(X, Source):
            return resident(X, y_bar, self.n_classes, self.n_runs, rows, validation_rows, test, sample_weight)
        if any(given is not None for given in (y_bar, rows, validation_rows, test, sample_weight)):
            named = "`y_bar`, `rows`, `validation_rows`, `test` and `sample_weight`"
            raise ValueError(f"{named} must be None where `X` is a source of them")
        if X.n_classes != self.n_classes:
            raise ValueError(f"`X` must deal labels of {self.n_classes} classes; got {X.n_classes}")
        return X

    def _together(self) -> processes.Processes | None:
        """The processes that share out the data among them, if there are any."""
        return self.reduce if isinstance(self.reduce, processes.Processes) else None

    def _check_agreed(self, **given: Any) -> None:
        """Refuse what processes must agree on where they only sum: each has its own clock and finds its own file."""
        if self._together() is not None or self.reduce is None or getattr(self.reduce, "size", None) == 1:
            return
        for name, value in given.items():
            if value is not None:
                raise ValueError(
                    f"`{name}` must be None where `reduce`, or an objective's `group`, sums over processes that do not "
                    f"agree on the epoch; leave these out, and start all processes by torchrun"
                )

    def _once(self, work: Callable[[], Any]) -> Any:
        """Let one process decide, so that all come to the same."""
        together = self._together()
        return work() if together is None else together.from_first(work)

    def _check_logits(self, example: Tensor) -> None:
        """Check that the network maps (B, ...) to (B, K), by two examples."""
        self.module.eval()
        state = {k: v[:1] for k, v in (self.parameters | self.buffers).items()}
        try:
            with torch.no_grad():
                came = tuple(stacked_logits(self.module, state, example.expand(1, 2, *example.shape[1:])).shape[1:])
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            if memory.ran_out(error):
                raise
            raise ValueError(
                f"`network` must take examples of the shape {tuple(example.shape[1:])}, as `X` has them, and give "
                f"logits; it raised: {str(error).partition(chr(10))[0]}"
            ) from error
        if len(came) != 2 or came[0] != 2:
            raise ValueError(
                f"`network` must map (B, ...) to (B, {self.n_classes}) logits; from 2 examples it made {came}"
            )
        if came[1] != self.n_classes:
            raise ValueError(f"`network` must give {self.n_classes} logits per example, one per class; got {came[1:]}")

    def _factor(self, epoch: int) -> float:
        """The factor on the learning rate in an epoch."""
        return 1.0 if self.schedule is None else self.schedule(epoch)

    def _group(self, source: Source, example: Tensor) -> list[slice]:
        """Cut the runs into chunks that are stacked: all of them on CUDA, cache-sized ones on a CPU."""
        per_run = self._run_size()
        size = self.n_runs
        if self.device.type == "cpu" and source.in_threads:  # a stream is better read once for all runs
            size = max(1, min(self.n_runs, _STACK_ON_CPU // max(1, per_run)))
        if self.device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(self.device)
            inputs = example.numel() * min(self.batch_size, source.n_rows or self.batch_size)
            size = max(1, min(size, int(0.7 * free / (4 * (8 * per_run + 12 * inputs)))))
        if size > 1 and not self._stacks(example):
            size = 1
        if (together := self._together()) is not None:
            size = min(together.gather(size))  # as the smallest device has it: all must take the same steps
        return [slice(a, min(a + size, self.n_runs)) for a in range(0, self.n_runs, size)]

    def _room_for_a_step(self) -> contextlib.AbstractContextManager[None]:
        """Say what to lower where the device runs out of memory."""
        needed = f"a step of {self.batch_size} examples and all their views"
        return memory.enough(self.device, needed, "lower `batch_size`, the recipe's `n_strong` or the network's width")

    @contextlib.contextmanager
    def _threads(self, source: Source, n_chunks: int) -> Iterator[Callable[..., Iterable[dict[str, Tensor]]]]:
        """Share the work of a CPU; gives the `map` that runs the chunks' epochs.

        Several chunks go each to a thread of its own, which works alone on data that no other core touches. A single
        one uses all threads in every product, unless its steps are too small to be worth the waiting for each other.
        """
        per_run = self._run_size()
        stacked = max(per_run, min(self.n_runs * per_run, _STACK_ON_CPU))
        small = 6 * stacked * min(self.batch_size, source.n_rows or self.batch_size) < _SMALL_STEP
        on_cpu = self.device.type == "cpu"
        alone = on_cpu and getattr(self.module, "stacks", False) and source.in_threads
        with process.threads() as available, contextlib.ExitStack() as stack:
            n_workers = min(n_chunks, available) if alone and self.reduce is None else 1  # sums of threads would mix
            n_threads = 1 if n_workers > 1 or (on_cpu and small) else available
            spread: Callable[..., Iterable[dict[str, Tensor]]] = map
            if n_workers > 1:
                pool = ThreadPoolExecutor(n_workers, initializer=torch.set_num_threads, initargs=(1,))
                spread = stack.enter_context(pool).map

            def epochs(work: Callable[..., dict[str, Tensor]], stacks: list[Stack]) -> Iterable[dict[str, Tensor]]:
                torch.set_num_threads(n_threads)  # at every epoch, for others may train and come to an end meanwhile
                return spread(work, stacks)

            torch.set_num_threads(n_threads)
            yield epochs

    def _run_size(self) -> int:
        """The numbers that one run has, frozen ones included."""
        return sum(t[0].numel() for t in (self.parameters | self.buffers).values())

    def _settings(self, class_risks: bool = False) -> Settings:
        return Settings(
            self.seeds, self.lr, self.weight_decay, self.optimizer, self.momentum,
            self.precision, self.compiled, self.recipe, self.reduce, class_risks,
        )  # fmt: skip

    def _stacks(self, example: Tensor) -> bool:
        """Whether the network can train under vmap; one with batch norm, say, cannot.

        Nor can one that draws, as dropout does: what a run draws comes from its seed, whatever it is grouped with.
        """
        if getattr(self.module, "stacks", False):
            return True
        if self.reduce is not None and processes.has_batch_norm(self.module):
            return False  # sums over processes do not go through vmap
        x = example.expand(2, 2, *example.shape[1:])
        state = {k: v[:1].expand(2, *v.shape[1:]).clone() for k, v in (self.parameters | self.buffers).items()}
        try:
            with process.seeded(), torch.no_grad():
                set_training(self.module)
                stacked_logits(self.module, state, x)
        except (RuntimeError, ValueError):
            return False
        return True

    def _epoch(self, stacks: list[Stack], spread: Callable[..., Iterable[Tensors]], choice: EpochChoice) -> None:
        """Train one epoch, take over its scores, and keep the states that are the best yet."""
        epoch, stopped = self.course.epoch, self.course.stopped
        factor = self._factor(epoch)
        active = [s for s in stacks if not stopped[s.runs].all()]
        scores = list(spread(lambda stack: stack.epoch(epoch, factor), active))
        better = choice.take(self.course, self._fetch(active, scores, stopped), self.lr)
        for stack in active:
            stack.keep(better[stack.runs])

    def _fetch(self, active: list[Stack], scores: list[Tensors], stopped: Array) -> dict[str, Array]:
        """An epoch's scores by name, (M,) each, NaN for the runs that have stopped: the epoch's one wait."""
        values = {name: np.full(self.n_runs, np.nan) for name in scores[0]}
        for stack, score in zip(active, scores, strict=True):
            fetched = torch.stack([t.double() for t in score.values()]).cpu().numpy()
            for name, row in zip(score, fetched, strict=True):
                values[name][stack.runs] = np.where(stopped[stack.runs], np.nan, row)
        return values

    # ---- checkpoints ----------------------------------------------------------------------------------------

    def _stamp(
        self, source: Source, path: Path | None, choice: EpochChoice, class_risks: bool, others: list[Any]
    ) -> str:
        """Give what a checkpoint is known by; several processes must be given all of it alike, and `others` too."""
        together, given = self._together(), {}
        if path is not None or together is not None:
            given = self._given(source, path is not None, choice, class_risks)
        stamp = fingerprint(given)
        if together is not None:
            given |= {"epochs": others, "start": self.parameters}
            together.agree({name: fingerprint(value) for name, value in given.items()})
        return stamp

    def _given(self, source: Source, kept: bool, choice: EpochChoice, class_risks: bool) -> dict[str, Any]:
        """All that a checkpoint must agree with to be resumed, and that processes must be given alike."""
        return {
            "runs": [self.seeds, self.lr, self.weight_decay],
            "optimizer": [self.optimizer, self.momentum, self.batch_size, self.precision],
            "recipe": self.recipe,
            "objectives": [(type(o), o.settings()) for o in self.objectives],
            "network": self.module if self._keeps_weights else structure_of(self.module),
            "shapes": {k: list(v.shape) for k, v in self.parameters.items()},
            "chosen by": [choice.select, class_risks, choice.members, choice.patience],
            "data": source.digest() if kept or isinstance(source, Resident) else None,
        }

    def _resume(self, path: Path, stamp: str, stacks: list[Stack]) -> None:
        """Take over a checkpoint, if there is one."""
        found = self._once(functools.partial(checkpoints.read, path))
        if found is not None:
            checkpoints.resume(path, found, stamp, self._factor, self.course, stacks)

    def _save(self, path: Path, stamp: str, stacks: list[Stack]) -> None:
        """Write a checkpoint, in the first process if there are several."""
        together = self._together()
        if together is not None and together.rank > 0:
            return
        factors = [self._factor(epoch) for epoch in range(self.course.epoch)]
        checkpoints.save(path, stamp, factors, self.course, stacks)

    # ---- use ------------------------------------------------------------------------------------------------

    def logits(self, X: Any, run: int | None = None) -> Tensor:
        """Give the logits of each run's chosen state, (M, N, K), or of one run, (N, K); on the CPU.

        They are of the classes: where an objective's logits are of something else, they are its scores of the classes.
        """
        runs = slice(None) if run is None else slice(run, run + 1)
        parameters = {k: v[runs] for k, v in self.parameters.items()}
        buffers = {k: v[runs] for k, v in self.buffers.items()}
        out = torch.stack(
            [
                objective.class_scores(logits_of(self.module, one, held, X))
                for objective, (one, held) in zip(self.objectives[runs], _each(parameters, buffers))
            ]
        )
        return out if run is None else out[0]

    def state(self, run: int) -> dict[str, Tensor]:
        """Give one run's chosen state, as ``state_dict`` names it."""
        return {k: v[run].detach().cpu().clone() for k, v in (self.parameters | self.buffers).items()}

    def network(self, run: int) -> nn.Module:
        """Give one run's network as a module of its own, with the layer that its objective put on top, if any."""
        module = copy.deepcopy(self.module).cpu()
        module.load_state_dict(self.state(run), strict=False)
        return module.eval()


@torch.no_grad()
def logits_of(module: nn.Module, parameters: Tensors, buffers: Tensors, X: Any) -> Tensor:
    """Logits (N, K) of one run whose state has a run axis of length 1, formed in blocks; on the CPU."""
    module.eval()
    x = as_inputs(X)
    device = next(iter(parameters.values())).device
    feature_maps = 64 if x.dim() == 4 else 1
    at_once = EVALUATE if device.type == "cpu" else 16 * EVALUATE
    size = max(1, at_once // max(1, feature_maps * x[0].numel() if len(x) else 1))
    with process.quick(device):
        return torch.cat(
            [
                stacked_logits(module, parameters | buffers, to_float(part.to(device)).unsqueeze(0))[0].cpu()
                for part in x.split(size)
            ]
        )


def _whole(seeds: Sequence[int]) -> list[int]:
    """Check the seeds, one per run."""
    try:
        whole = [int(seed) for seed in seeds]
    except (TypeError, ValueError):
        raise ValueError(f"`seeds` must hold a whole number for each run; got {seeds!r}") from None
    if not whole:
        raise ValueError("`seeds` must hold at least one seed")
    return whole


def _each(
    parameters: dict[str, Tensor], buffers: dict[str, Tensor]
) -> Iterator[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    """The runs of a stacked state one by one, each still with a run axis."""
    for m in range(len(next(iter(parameters.values())))):
        yield {k: v[m : m + 1] for k, v in parameters.items()}, {k: v[m : m + 1] for k, v in buffers.items()}


def _stack(states: list[dict[str, Any]], device: torch.device) -> dict[str, Tensor]:
    return {name: torch.stack([s[name].detach() for s in states]).to(device) for name in states[0]}
