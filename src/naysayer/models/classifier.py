"""Networks with scikit-learn's interface: train populations, choose by estimated accuracy, predict, save and load."""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from naysayer.common.checks import check_count, to_numpy
from naysayer.common.progress import progress_bar
from naysayer.engine.networks import NETWORKS
from naysayer.engine.population import Population, Schedule, cosine_schedule, logits_of, pick_device, step_schedule
from naysayer.engine.recipe import Recipe
from naysayer.engine.source import Resident, as_inputs
from naysayer.labels.drawing import RandomState, generator
from naysayer.labels.encoding import encode_labels
from naysayer.losses import Loss
from naysayer.measure.intervals import Interval, tail_probability
from naysayer.measure.sample import take
from naysayer.models.base import ComplementaryMixin
from naysayer.models.crossfit import predict_held_out, rotate
from naysayer.models.saving import numpy_to_json, read_model, write_model
from naysayer.objectives import OBJECTIVES, Objective, make

AUTO = ("forward", "ascent", "pairwise")
Network = str | nn.Module | Callable[[int, int], nn.Module]


@dataclass(frozen=True)
class _Plan:
    """What is tried: each method with each learning rate and seed, and the rows that each seed trains on."""

    objectives: dict[str, Objective]
    rates: NDArray[np.float64]
    seeds: list[int]
    rows: NDArray[np.int64]  # (S, N - h)
    held_out: NDArray[np.int64]  # (S, h)


@dataclass(frozen=True)
class _Chosen:
    """A setting, its estimated accuracy, and its runs: `members` among all runs of the method."""

    method: str
    lr: float
    epoch: int
    score: float
    runs: Population
    members: NDArray[np.int64]


def _best_of(method: str, runs: Population, n_seeds: int) -> _Chosen:
    """Choose the learning rate with the best estimate, pooled over the seeds, which follow each other."""
    first = int(np.argmax(runs.best_score))
    members = np.arange(first, first + n_seeds)
    score, epoch = float(runs.best_score[first]), int(runs.best_epoch[first])
    return _Chosen(method, runs.lr[first], epoch, score, runs, members)


def _same_matrix(one: Any, other: Any) -> bool:
    """Whether two transition matrices are the same; None is the uniform one."""
    if one is None or other is None:
        return one is other
    return np.array_equal(to_numpy(one), to_numpy(other))


class ComplementaryClassifier(ComplementaryMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network learned from labels that say what examples are not.

    For each method and learning rate it trains `n_seeds` runs, each of which holds out a different part of the labels.
    The setting and the epoch are chosen by the accuracy estimated on the held-out labels, pooled over the seeds; no
    true label is ever needed. The runs of the chosen setting predict together, by the mean of their probabilities.

    Parameters
    ----------
    method : a name in :data:`naysayer.objectives.OBJECTIVES` ("free", "max", "ascent", "forward", "pairwise"), a list
        of them, or "auto", which tries "forward", "ascent" and "pairwise"; or a dict from names to objectives of your
        own, which keep their own loss, transition matrix, alpha, beta and gamma.
    network : a name in :data:`naysayer.networks.NETWORKS` ("mlp", "linear" or, for images, "convolution"); a function
        (n_features, n_classes) → module, which gives each run its own start; or a module that maps (B, ...) inputs to
        (B, K) logits, of which each run gets a copy as it is, weights included.
    hidden : widths of the MLP's hidden layers.
    loss : for "free", "max" and "ascent", a loss of :mod:`naysayer.losses`, by name or as a callable.
    lr : learning rate or rates to try.
    weight_decay : on weights, not on biases.
    optimizer, momentum, schedule : "adam", "adamw" or "sgd"; None, "cosine", "step" or a function from epoch to factor.
    recipe : how a step uses network, views and objective: a name in :data:`naysayer.engine.recipe.RECIPES`, or a
        :class:`~naysayer.engine.recipe.Recipe`.
    max_epochs, patience : number of epochs, and after how many without a better estimate a setting stops; None never.
    batch_size : "auto" takes about a thirtieth of the examples, from 64 to 256.
    n_seeds : runs per setting.
    validation_fraction : share of the labels that each run holds out; 1 / n_seeds is cross-validation.
    refit : train the chosen setting again on all examples, for the chosen number of epochs.
    beta, gamma : gradient ascent's tolerance and step scale.
    alpha : weight of complementary against ordinary labels where both occur; None weighs every example equally.
    classes : the class values; None takes those that occur in `y_bar`. Pass them if some class is never ruled out.
    transition : (K, K) matrix Q of the complementary labels, in the order of `classes_`; uniform if None.
    standardize : bring features to mean 0 and deviation 1; images in uint8 are divided by 255 instead.
    device : "auto", "cpu", "cuda".
    checkpoint : folder to save the training in, from which it resumes after an interruption.
    verbose : 1 shows a progress bar.
    random_state : seed of splits, starts and shuffles.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    method_, lr_, best_epoch_ : what was chosen.
    objective_ : the settings of the chosen method's objective, all of its constructor's arguments.
    estimated_accuracy_ : (estimate, low, high) from the labels held out, at the chosen setting. It was chosen as the
        best of several, so it is a little optimistic; :meth:`score` on labels kept apart is not.
    trials_ : one dict per setting: method, lr, epoch, estimated accuracy; None where no run of it came to one.
    history_ : columns (method, lr, seed, epoch, loss, valid_accuracy, ...), one row per epoch and run.
    failed_ : what went wrong in which runs; they were stopped alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import naysayer
    >>> X, y = load_iris(return_X_y=True)
    >>> y_bar = naysayer.complement(y, n_classes=3, random_state=0)       # all we are told: not this one
    >>> model = ComplementaryClassifier(method="forward", lr=0.01, max_epochs=60, random_state=0).fit(X, y_bar)
    >>> bool((model.predict(X) == y).mean() > 0.9)
    True
    """

    def __init__(
        self,
        method: str | Sequence[str] | Mapping[str, Objective] = "auto",
        network: Network = "mlp",
        *,
        hidden: Sequence[int] = (128,),
        loss: str | Loss = "cross_entropy",
        lr: float | Sequence[float] = (1e-3, 3e-3, 1e-2),
        weight_decay: float = 1e-4,
        optimizer: str = "adam",
        momentum: float = 0.9,
        schedule: str | Schedule | None = None,
        recipe: str | Recipe = "plain",
        max_epochs: int = 100,
        patience: int | None = 30,
        batch_size: int | str = "auto",
        n_seeds: int = 5,
        validation_fraction: float = 0.2,
        refit: bool = False,
        beta: float = 0.0,
        gamma: float = 1.0,
        alpha: float | None = None,
        classes: ArrayLike | None = None,
        transition: ArrayLike | None = None,
        standardize: bool = True,
        device: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.method = method
        self.network = network
        self.hidden = hidden
        self.loss = loss
        self.lr = lr
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.momentum = momentum
        self.schedule = schedule
        self.recipe = recipe
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.n_seeds = n_seeds
        self.validation_fraction = validation_fraction
        self.refit = refit
        self.beta = beta
        self.gamma = gamma
        self.alpha = alpha
        self.classes = classes
        self.transition = transition
        self.standardize = standardize
        self.device = device
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    # ---- learning -------------------------------------------------------------------------------------------

    def fit(self, X: Any, y_bar: Any) -> ComplementaryClassifier:
        """Learn from features (N, ...) and labels: (N,) class values, "not this class", or (N, K) ruled-out rows."""
        inputs, labels = self._examples(X, y_bar)
        plan = self._plan(len(labels))
        chosen, interrupted = self._try_all(plan, inputs, labels)
        self.method_, self.lr_, self.best_epoch_ = chosen.method, chosen.lr, chosen.epoch
        self.objective_ = plan.objectives[chosen.method].settings()
        self.estimated_accuracy_ = self._estimate(chosen, plan.held_out, inputs, labels)
        if self.refit and not interrupted:
            chosen, interrupted = self._refit(chosen, plan, inputs, labels)
        if interrupted:
            warnings.warn("training was interrupted; the best of what was trained is kept", stacklevel=2)
        self._keep(chosen)
        if not interrupted:
            self._drop_checkpoints(plan.objectives)
        return self

    def _examples(self, X: Any, y_bar: Any) -> tuple[Tensor, NDArray[Any]]:
        """Check features and labels, leave out examples of which nothing is known, and scale the features."""
        inputs = self._take(X, reset=True)
        labels, self.classes_ = encode_labels(y_bar, self.classes)
        if len(labels) != len(inputs):
            raise ValueError(f"`X` and `y_bar` must have the same number of rows; got {len(inputs)} and {len(labels)}")
        if labels.ndim == 2:
            said = labels.any(axis=1)
            inputs, labels = inputs[torch.from_numpy(said)], labels[said]
        if len(labels) < 2:
            raise ValueError(f"`X` must hold at least 2 labelled examples; got n_samples={len(labels)}; add more")
        self._learn_scale(inputs)
        inputs = inputs if inputs.dtype == torch.uint8 else self._scaled(inputs)  # the engine divides bytes by 255
        return inputs, labels

    def _plan(self, n: int) -> _Plan:
        """Check the settings, and say what is tried: methods, learning rates, seeds and what each seed holds out."""
        objectives, rates = self._objectives(), self._rates()
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"`validation_fraction` must be between 0 and 1; got {self.validation_fraction}")
        if self.schedule not in (None, "cosine", "step") and not callable(self.schedule):
            raise ValueError(f"`schedule` must be None, 'cosine', 'step' or a function; got {self.schedule!r}")
        check_count(self.max_epochs, "`max_epochs`")
        n_seeds = check_count(self.n_seeds, "`n_seeds`")
        rng = generator(self.random_state)
        seeds = [int(seed) for seed in rng.integers(0, 2**31, size=n_seeds)]
        n_held_out = min(n - 1, max(1, round(self.validation_fraction * n)))
        return _Plan(objectives, rates, seeds, *rotate(rng.permutation(n), n_seeds, n_held_out))

    def _try_all(self, plan: _Plan, inputs: Tensor, labels: NDArray[Any]) -> tuple[_Chosen, bool]:
        """Train every setting; give the one with the best estimated accuracy, and whether training was interrupted."""
        best: _Chosen | None = None
        interrupted = False
        history: list[dict[str, Any]] = []
        self.trials_: list[dict[str, Any]] = []
        self.failed_: list[str] = []
        with progress_bar(len(plan.objectives) * self.max_epochs, "training", show=self.verbose > 0) as bar:
            for method, objective in plan.objectives.items():
                bar(0, f"training {method}")
                n_rates, n_seeds = len(plan.rates), len(plan.seeds)
                runs = self._population(objective, plan.seeds * n_rates, np.repeat(plan.rates, n_seeds), inputs)
                self._train(
                    runs,
                    inputs,
                    labels,
                    max_epochs=self.max_epochs,
                    rows=np.tile(plan.rows, (n_rates, 1)),
                    held_out=np.tile(plan.held_out, (n_rates, 1)),
                    groups=np.repeat(np.arange(n_rates), n_seeds),
                    patience=self.patience,
                    checkpoint=self._checkpoint(method),
                    bar=bar,
                )
                bar(self.max_epochs - len(runs.history.get("loss", ())))  # the epochs it did not need
                self._report(method, runs, plan, history)
                found = _best_of(method, runs, n_seeds)
                if np.isfinite(found.score) and (best is None or found.score > best.score):
                    best = found
                interrupted = runs.interrupted
                if interrupted:
                    break
        self.history_ = {k: np.array([row[k] for row in history]) for k in (history[0] if history else ())}
        if self.failed_:
            warnings.warn(f"{len(self.failed_)} runs were stopped: {self.failed_[0]}", ConvergenceWarning, stacklevel=3)
        if best is not None:
            return best, interrupted
        if interrupted:
            raise KeyboardInterrupt  # before the first epoch ended: there is nothing to keep
        self._drop_checkpoints(plan.objectives)
        raise ValueError(f"no run gave a finite loss: {self.failed_[0]}; lower `lr`, or look for huge values in `X`")

    def _train(
        self,
        runs: Population,
        inputs: Tensor,
        labels: NDArray[Any],
        rows: NDArray[Any] | None = None,
        held_out: NDArray[Any] | None = None,
        **how: Any,
    ) -> None:
        """Train a population on labels that were checked; all training goes through here."""
        runs.fit(Resident(inputs, labels, len(self.classes_), rows=rows, validation_rows=held_out), **how)

    def _estimate(self, chosen: _Chosen, held_out: NDArray[Any], inputs: Tensor, labels: NDArray[Any]) -> Interval:
        """Estimate accuracy from the labels that each chosen run held out; a row held out twice counts once."""

        def predict(part: int, rows: NDArray[Any]) -> NDArray[Any]:
            logits = chosen.runs.logits(inputs[torch.from_numpy(rows)], run=int(chosen.members[part]))
            return np.asarray(logits.argmax(-1).numpy())

        predicted = predict_held_out(held_out, len(labels), predict)
        seen = predicted >= 0
        sample, (predicted,) = take(labels[seen], len(self.classes_), self.transition, y_pred=predicted[seen])
        return sample.accuracy_interval(predicted, tail_probability(0.95))

    def _refit(self, chosen: _Chosen, plan: _Plan, inputs: Tensor, labels: NDArray[Any]) -> tuple[_Chosen, bool]:
        """Train the chosen setting again on all rows; give that, or what was chosen where it did not end well."""
        rates = np.repeat(chosen.lr, len(plan.seeds))
        runs = self._population(plan.objectives[chosen.method], plan.seeds, rates, inputs)
        self._train(runs, inputs, labels, max_epochs=chosen.epoch + 1)
        if runs.failed:
            warnings.warn("refit gave no finite loss; the runs before it are kept", ConvergenceWarning, stacklevel=3)
        if runs.failed or runs.interrupted:
            return chosen, runs.interrupted
        return replace(chosen, runs=runs, members=np.arange(len(plan.seeds))), False

    def _keep(self, chosen: _Chosen) -> None:
        """Keep the states of the chosen runs, which predict together."""
        device = pick_device(self.device)
        self.module_ = chosen.runs.module.to(device)
        self.parameters_ = {k: v[chosen.members].to(device) for k, v in chosen.runs.parameters.items()}
        self.buffers_ = {k: v[chosen.members].to(device) for k, v in chosen.runs.buffers.items()}

    def _take(self, X: Any, *, reset: bool) -> Tensor:
        """Check features as scikit-learn does and make them a tensor: uint8 stays, all else becomes float32."""
        if isinstance(X, Tensor):
            X = (X if X.dtype == torch.uint8 else X.float()).detach().cpu().numpy()
        images = getattr(X, "dtype", None) == np.uint8
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", allow_nd=True, dtype=None if images else np.float32
        )
        if hasattr(X, "toarray"):
            if X.shape[0] * X.shape[1] > 2**31:
                raise ValueError(
                    f"sparse `X` is made dense and must have at most 2**31 entries; got shape {X.shape}; "
                    f"reduce it first, for instance with TruncatedSVD"
                )
            X = X.toarray()
        if not reset and X.shape[1:] != tuple(self.center_.shape):
            raise ValueError(
                f"each example of `X` must have the shape {tuple(self.center_.shape)}, as in fit; got {X.shape[1:]}"
            )
        return as_inputs(X)

    def _learn_scale(self, inputs: Tensor) -> None:
        """Remember each feature's mean and deviation; constant features get deviation 1."""
        shape = inputs.shape[1:]
        self.center_, self.scale_ = torch.zeros(shape), torch.ones(shape)
        if inputs.dtype == torch.uint8:
            self.scale_ *= 255.0
        elif self.standardize:
            scale, center = torch.std_mean(inputs.double(), dim=0, correction=0)
            self.center_ = center.float()
            self.scale_ = torch.where(scale > 1e-7 * center.abs().clamp(min=1e-30), scale, 1.0).float()

    def _scaled(self, inputs: Tensor) -> Tensor:
        return (inputs - self.center_) / self.scale_

    def _objectives(self) -> dict[str, Objective]:
        """Build what each method minimises, by the method's name."""
        n_classes = len(self.classes_)
        if isinstance(self.method, Mapping):
            for name, objective in self.method.items():
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
            objectives = dict(self.method)
        else:
            options = {"loss": self.loss, "transition": self.transition, "alpha": self.alpha}
            options |= {"beta": self.beta, "gamma": self.gamma}
            objectives = {name: make(name, n_classes, **options) for name in self._methods()}
        if not objectives:
            raise ValueError("`method` must name at least one method")
        for objective in objectives.values():
            objective.settings()  # one that cannot tell them is refused now, not after the training
        return objectives

    def _methods(self) -> list[str]:
        """Check the names of the methods to try; each comes once."""
        method: Any = self.method
        named = [method] if isinstance(method, str) or not np.iterable(method) else list(method)
        methods = [m for name in named for m in (AUTO if name == "auto" else (name,))]
        for name in methods:
            if name not in OBJECTIVES:
                raise ValueError(f"`method` must be 'auto' or one of {', '.join(OBJECTIVES)}; got {name!r}")
        return list(dict.fromkeys(methods))

    def _rates(self) -> NDArray[np.float64]:
        """Check the learning rates to try."""
        try:
            rates = np.atleast_1d(np.asarray(self.lr, dtype=np.float64))
        except (TypeError, ValueError):
            rates = np.empty(0)
        if rates.ndim != 1 or len(rates) == 0 or not (np.isfinite(rates) & (rates > 0)).all():
            raise ValueError(f"`lr` must be a positive number or some of them; got {self.lr!r}")
        return rates

    def _population(self, objective: Objective, seeds: list[int], rates: NDArray[Any], inputs: Tensor) -> Population:
        """Build the runs of one method: one for each seed and its learning rate."""
        batch = self.batch_size
        if batch == "auto":
            batch = int(np.clip(2 ** round(np.log2(max(1, len(inputs) / 30))), 64, 256))
        schedule = self.schedule
        if isinstance(schedule, str):
            schedule = cosine_schedule(self.max_epochs) if schedule == "cosine" else step_schedule()
        runs = Population(
            self._build_network(inputs.shape[1:]),
            objective,
            seeds=seeds,
            lr=rates.tolist(),
            weight_decay=self.weight_decay,
            optimizer=self.optimizer,
            momentum=self.momentum,
            schedule=schedule,
            recipe=self.recipe,
            batch_size=check_count(batch, "`batch_size`"),
            device=self.device,
        )
        given = tuple(runs.logits(inputs[:1], run=0).shape)
        if given != (1, len(self.classes_)):
            raise ValueError(
                f"`network` must give {len(self.classes_)} logits per example, one per class; got {given[1:]}"
            )
        return runs

    def _build_network(self, shape: Sequence[int]) -> nn.Module | Callable[[], nn.Module]:
        """Give the module to copy, or the function that builds one."""
        network, n_classes = self.network, len(self.classes_)
        if isinstance(network, nn.Module):
            return network
        if callable(network):
            return lambda: network(math.prod(shape), n_classes)
        build = NETWORKS.get(network)
        if build is None:
            known = ", ".join(NETWORKS)
            raise ValueError(
                f"`network` must be one of {known}, a module, or a function that builds one; got {network!r}"
            )
        if isinstance(self.hidden, str) or not np.iterable(self.hidden):
            raise ValueError(f"`hidden` must hold the widths of the hidden layers, as (128,) does; got {self.hidden!r}")
        widths = [check_count(width, "`hidden`") for width in self.hidden]
        return lambda: build(torch.Size(shape), n_classes, widths)

    def _report(self, method: str, runs: Population, plan: _Plan, history: list[dict[str, Any]]) -> None:
        """Record what happened in the runs of a method."""
        n_seeds = len(plan.seeds)
        for i, rate in enumerate(plan.rates):
            score = float(runs.best_score[i * n_seeds])
            trial = {"method": method, "lr": float(rate), "epoch": int(runs.best_epoch[i * n_seeds])}
            self.trials_.append(trial | {"estimated_accuracy": score if np.isfinite(score) else None})
        for epoch in range(len(runs.history.get("loss", ()))):
            for m in range(runs.n_runs):
                row = {k: float(v[epoch, m]) for k, v in runs.history.items()}
                history.append({"method": method, "lr": runs.lr[m], "seed": m % n_seeds, "epoch": epoch} | row)
        self.failed_ += [f"{method}, run {m}: {what}" for m, what in runs.failed.items()]

    def _checkpoint(self, method: str) -> Path | None:
        return None if self.checkpoint is None else Path(self.checkpoint) / f"{method}.safetensors"

    def _drop_checkpoints(self, methods: Iterable[str]) -> None:
        """Training is over: what it saved on the way is no longer needed."""
        for method in methods:
            path = self._checkpoint(method)
            if path is not None:
                for left in (path, *path.parent.glob(f".{path.name}.*")):  # the latter of one that was killed
                    left.unlink(missing_ok=True)
        if self.checkpoint is not None:
            with contextlib.suppress(OSError):
                Path(self.checkpoint).rmdir()

    # ---- predicting -----------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Estimate P(class | x), the mean over the chosen runs: (N, K)."""
        check_is_fitted(self, "parameters_")
        inputs = self._scaled(self._take(X, reset=False))
        total = torch.zeros(len(inputs), len(self.classes_), dtype=torch.float64)
        n_runs = len(next(iter(self.parameters_.values())))
        for m in range(n_runs):
            one = {k: v[m : m + 1] for k, v in self.parameters_.items()}
            held = {k: v[m : m + 1] for k, v in self.buffers_.items()}
            total += logits_of(self.module_, one, held, inputs).double().softmax(dim=-1)
        return (total / n_runs).float().numpy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    # ---- files ----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None) -> None:
        """Save the fitted model into a folder: ``model.json`` and a safetensors file that it names. No pickle.

        `extra` is whatever JSON can hold; a loaded model has it as `extra_`. The JSON file is put in its place last,
        so a folder that held a model before holds a whole one at every moment.
        """
        check_is_fitted(self, "parameters_")
        tensors = {f"parameter.{k}": v for k, v in self.parameters_.items()}
        tensors |= {f"buffer.{k}": v for k, v in self.buffers_.items()}
        tensors |= {"center": self.center_, "scale": self.scale_}
        about = {"settings": self._settings_to_json(), "fitted": self._fitted_to_json(), "extra": extra or {}}
        write_model(path, about, tensors)

    def _settings_to_json(self) -> dict[str, Any]:
        """The constructor's arguments, those that JSON can hold; the others are named, to be given again at load."""
        out: dict[str, Any] = {}
        for name, value in self.get_params(deep=False).items():
            if name == "loss" and callable(value):
                value = getattr(value, "__name__", "custom")
            if name == "checkpoint":
                continue
            if name in ("classes", "transition") and value is not None:
                value = to_numpy(value)
            with contextlib.suppress(TypeError):
                out[name] = json.loads(json.dumps(value, default=numpy_to_json))
        return out

    def _fitted_to_json(self) -> dict[str, Any]:
        classes = self.classes_.tolist()
        if not all(isinstance(c, (str, int, float, bool)) for c in classes):
            raise ValueError(f"class values must be text or numbers to be saved; got {classes[0]!r}")
        out = {
            "classes": classes,
            "n_features": int(self.n_features_in_),
            "shape": list(self.center_.shape),
            "method": self.method_,
            "lr": self.lr_,
            "best_epoch": self.best_epoch_,
            "objective": {
                k: getattr(v, "__name__", "custom") if callable(v) else v for k, v in self.objective_.items()
            },
            "estimated_accuracy": [float(v) for v in self.estimated_accuracy_],
            "trials": self.trials_,
        }
        if hasattr(self, "feature_names_in_"):
            out["feature_names"] = [str(n) for n in self.feature_names_in_]
        return out

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, network: Network | None = None, device: str = "auto"
    ) -> ComplementaryClassifier:
        """Load a saved model. One whose network was a module of your own needs that module given again."""
        about, tensors = read_model(path)
        settings = about["settings"]
        if network is not None:
            settings["network"] = network
        if "network" not in settings:
            raise ValueError("this model's network was a module of your own; pass it again as load(path, network=...)")
        known = cls().get_params(deep=False)
        model = cls(**{k: v for k, v in settings.items() if k in known} | {"device": device})
        try:
            model._restore(about["fitted"], tensors)
            model.extra_ = about["extra"]
        except (KeyError, RuntimeError, TypeError) as error:
            raise ValueError(f"the model at {path} does not fit its network: {error}") from None
        return model

    def _restore(self, fitted: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take over the fitted attributes."""
        self.classes_ = np.array(fitted["classes"])
        self.n_features_in_ = fitted["n_features"]
        if "feature_names" in fitted:
            self.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
        self.method_, self.lr_, self.best_epoch_ = fitted["method"], fitted["lr"], fitted["best_epoch"]
        self.objective_ = fitted.get("objective", {})  # earlier releases did not keep it
        self.estimated_accuracy_ = Interval(*fitted["estimated_accuracy"])
        self.trials_, self.history_, self.failed_ = fitted["trials"], {}, []
        self.center_, self.scale_ = tensors["center"], tensors["scale"]
        device = pick_device(self.device)
        build = self._build_network(fitted["shape"])
        with torch.random.fork_rng(devices=[]):  # the start that it draws is not used
            self.module_ = (build if isinstance(build, nn.Module) else build()).to(device)
        pick = {
            p: {k.removeprefix(p): v.to(device) for k, v in tensors.items() if k.startswith(p)}
            for p in ("parameter.", "buffer.")
        }
        self.parameters_, self.buffers_ = pick["parameter."], pick["buffer."]
        named = dict(self.module_.named_parameters()) | dict(self.module_.named_buffers())
        expected = {k: tuple(v.shape) for k, v in named.items()}
        restored = self.parameters_ | self.buffers_  # the frozen parameters are among the latter
        got = {k: tuple(v.shape[1:]) for k, v in restored.items()}
        if expected != got:
            raise ValueError("the saved parameters do not fit the network; pass the network that was trained")
