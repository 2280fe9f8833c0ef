"""The classifier with scikit-learn's interface: train members, pool them, say how accurate they are, save and load."""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from naysayer.common.checks import to_numpy
from naysayer.engine import processes
from naysayer.engine.population import pick_device
from naysayer.engine.recipe import RECIPES, Recipe
from naysayer.engine.schedules import Schedule
from naysayer.engine.stream import Stream
from naysayer.labels.checks import check_weight
from naysayer.labels.drawing import RandomState, generator
from naysayer.labels.encoding import encode_labels
from naysayer.labels.transition import as_estimated, cost
from naysayer.losses import Loss
from naysayer.losses import name_of as loss_name
from naysayer.measure.intervals import Interval, tail_probability
from naysayer.measure.planning import labels_to_show
from naysayer.measure.sample import take
from naysayer.models.base import ComplementaryMixin
from naysayer.models.candidates import Network
from naysayer.models.crossfit import check_groups
from naysayer.models.inputs import Inputs
from naysayer.models.members import Examples, member_from_dict
from naysayer.models.pooling import HeldOut, Pool
from naysayer.models.saving import numpy_to_json, read_model, write_model
from naysayer.models.streaming import Continued, PackedCourse, fit_stream, partial_fit, predict_stream, score_stream
from naysayer.models.training import TrainedMember, TrainsCandidates
from naysayer.objectives import Objective


class ComplementaryClassifier(TrainsCandidates, Inputs, ComplementaryMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from labels that say what examples are not, and estimate the accuracy from such labels alone.

    Several members learn: networks by several methods, and trees. Each consists of runs that hold out different rows.
    All members predict together, weighted by how likely they make the labels that they did not see
    (:mod:`naysayer.models.pooling`). The accuracy of this very pool is estimated from labels that had no part in it.

    Parameters
    ----------
    method : "auto", which trains what suits the data: forward correction on the network given and on a linear one, a
        forest, neighbours, a discriminant that takes turns with these, boosted trees if LightGBM is installed (all but
        networks only if the data is not too large), and gradient ascent where rows are many; or one or several of
        the names in :data:`naysayer.objectives.OBJECTIVES` ("free", "max", "ascent", "forward", "pairwise", "scl-nl"
        and all that docs/methods.md has), "linear" (forward correction on a linear network), "forest", "boosting",
        "neighbours" and "discriminant"; or a dict from names to objectives of your own, which keep their own loss,
        transition matrix, alpha, beta and gamma. In it "linear" is trained on a linear network, "forest" and "boosting"
        take None, "neighbours" and "discriminant" None or a :class:`~naysayer.objectives.Forward`, such as a likelihood
        of answers that may be wrong.
    network : a name in :data:`naysayer.networks.NETWORKS` ("mlp", "linear"; for images "convolution", "pooled",
        "resnet8", "resnet18", "resnet34", or "efficientnet-lite0", which saw millions of photos before); a function
        (n_features, n_classes) → module, which gives each run its own start; or a module that maps (B, ...) inputs to
        (B, K) logits, of which each run gets a copy as it is, weights included. With any but "mlp", "auto" trains
        networks alone.
    hidden : widths of the MLP's hidden layers.
    loss : for "free", "max" and "ascent", a loss of :mod:`naysayer.losses`, by name or as a callable.
    lr : learning rate or rates; each makes a member. "auto" takes 0.001, 0.003 and 0.01, and for `method` "auto" and
        "linear" rates of their own. For it and the next five, recipes, residual and pretrained networks have
        defaults of their own (:mod:`naysayer.models.defaults`).
    weight_decay : on weights, not on biases; "auto" is 0.0001.
    optimizer, momentum : "adam", which "auto" takes, "adamw", "sgd" or "nesterov".
    schedule : of the learning rate: None, which "auto" takes, "cosine", "step" or a function from epoch to factor.
    recipe : how a step uses network, views and objective: "plain", "consistency" (several views of each example, which
        must agree; rows without a label help, too), "progressive" (what `method` "proden" draws each example to is kept
        from epoch to epoch), another name in :data:`naysayer.engine.recipe.RECIPES`, or a
        :class:`~naysayer.engine.recipe.Recipe`. "auto" is "consistency" for residual and pretrained networks,
        else "plain".
    max_epochs : number of epochs; "auto" is 100. With the plain recipe, `method` "auto" takes at most 30 (60 for the
        linear network), or fewer if there are millions of rows.
    patience : None trains all epochs. A number stops a member after so many epochs without a better estimate, and
        takes its best one; half of the held-out labels choose, and only the other half can then judge.
    batch_size : "auto" takes about a thirtieth of the examples, from 16 to 256.
    n_seeds : runs per member; "auto" holds out each row four times, beyond 2,000 rows twice; of residual and
        pretrained networks there is one run.
    validation_fraction : share of the rows that each run holds out; "auto" is a fifth, of a single run a tenth.
    beta, gamma : gradient ascent's tolerance and step scale.
    alpha : weight of complementary against ordinary labels where both occur; None weighs every example equally.
    classes : the class values; None takes those that occur in `y_bar`. Pass them if some class is never ruled out.
    transition : (K, K) matrix Q of the complementary labels, in the order of `classes_`; uniform if None.
    standardize : bring features to mean 0 and deviation 1 over all rows, also those without a label; images in uint8
        are divided by 255 instead, and those for residual networks or consistent views are floats of 0 to 1.
    warm_start : continue from the last fit where this one is given the same examples, so that more epochs add to those
        before. Other examples begin anew: runs that had seen a label could not be judged by it.
    time_limit : seconds after which no new member starts and networks stop training; the first always gets one epoch.
    device : "auto", "cpu", "cuda".
    checkpoint : folder to save the training in, from which it resumes after an interruption.
    on_epoch : is called after each epoch, and may raise to stop.
    verbose : 1 shows a progress bar.
    random_state : seed of splits, starts and shuffles.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    estimated_accuracy_ : (estimate, low, high) of the model that predicts, from labels that had no part in what they
        judge. The estimate is unbiased, so it may leave [0, 1].
    trials_ : one dict per member: method, network, lr, epoch, its own estimated accuracy, and its weight; None and 0
        where a run of it failed, or time ran out.
    method_, network_, lr_, best_epoch_ : of the member with the largest weight.
    objective_ : the settings of that member's objective, all of its constructor's arguments; empty for trees.
    members_, pool_ : the members with a weight, and how they are mixed.
    held_out_ : what runs predicted for rows that they did not see (:class:`~naysayer.models.pooling.Predicted`); its
        rows count the labelled examples alone.
    learned_ : whether the estimated accuracy is above that of guessing, with confidence.
    history_ : columns (method, lr, seed, epoch, loss, valid_accuracy, ...), one row per epoch and run.
    failed_ : what went wrong in which runs; they were stopped alone.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import naysayer
    >>> X, y = load_iris(return_X_y=True)
    >>> y_bar = naysayer.complement(y, n_classes=3, random_state=0)       # all we are told: not this one
    >>> model = ComplementaryClassifier(random_state=0).fit(X, y_bar)
    >>> bool((model.predict(X) == y).mean() > 0.9)
    True
    """

    def __init__(
        self,
        method: str | Sequence[str] | Mapping[str, Objective | None] = "auto",
        network: Network = "mlp",
        *,
        hidden: Sequence[int] = (128,),
        loss: str | Loss = "cross_entropy",
        lr: float | Sequence[float] | str = "auto",
        weight_decay: float | str = "auto",
        optimizer: str = "auto",
        momentum: float = 0.9,
        schedule: str | Schedule | None = "auto",
        recipe: str | Recipe = "auto",
        max_epochs: int | str = "auto",
        patience: int | None = None,
        batch_size: int | str = "auto",
        n_seeds: int | str = "auto",
        validation_fraction: float | str = "auto",
        beta: float = 0.0,
        gamma: float = 1.0,
        alpha: float | None = None,
        classes: ArrayLike | None = None,
        transition: ArrayLike | None = None,
        standardize: bool = True,
        warm_start: bool = False,
        time_limit: float | None = None,
        device: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        on_epoch: Callable[[], None] | None = None,
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
        self.beta = beta
        self.gamma = gamma
        self.alpha = alpha
        self.classes = classes
        self.transition = transition
        self.standardize = standardize
        self.warm_start = warm_start
        self.time_limit = time_limit
        self.device = device
        self.checkpoint = checkpoint
        self.on_epoch = on_epoch
        self.verbose = verbose
        self.random_state = random_state

    # ---- learning -------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y_bar: Any = None, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> ComplementaryClassifier:
        """Learn from features and labels.

        Parameters
        ----------
        X : (N, ...) features. Images are (N, H, W), (N, H, W, C) or (N, C, H, W), bytes or floats of 0 to 1. Or a
            stream that has the labels with it (:func:`naysayer.open_stream`); it trains networks alone.
        y_bar : (N,) class values, "not this class"; texts such as "!cat", where plain ones say what an example is; or
            (N, K) ruled-out rows. Examples of which nothing is known help by where they lie.
        sample_weight : (N,) how many times each example counts; None: once.
        groups : (N,) names, the same for rows that are about one example, such as several answers about one photo. They
            are held out together: a run that has seen an example cannot judge it. A missing name is of one row alone.
        """
        self._deadline = self._check_time_limit()
        self.__dict__.pop("_course", None)  # of partial_fit
        if isinstance(X, Stream):
            if groups is not None:
                raise ValueError("`groups` must be None where `X` is a stream; pass arrays")
            return fit_stream(self, X, y_bar, sample_weight)
        examples = self._examples(X, y_bar, sample_weight, groups)
        rng = generator(self._seed())
        candidates = self._candidates(examples)
        parts = self._parts(len(examples.labels), candidates, rng, examples.groups)
        if self.warm_start:
            parts = self._go_on(examples, parts)
        candidates = self._apt(candidates, parts, examples)
        trained, interrupted = self._train(candidates, parts, examples)
        held_out = [one.held_out for one in trained]
        told = examples.labels, len(self.classes_), self.transition
        belief = [one.member.belief for one in trained]
        self._keep(trained, HeldOut(held_out, *told, len(parts.seeds), rng, examples.weight, belief, examples.groups))
        if interrupted:
            warnings.warn("training was interrupted; what was trained is kept", stacklevel=2)
        else:
            self._drop_checkpoints(candidates)
        self._warn_if_nothing_was_learned(examples.labels)
        return self

    def _seed(self) -> RandomState:
        """What all is drawn from; several processes that were given none draw from the same."""
        if self.random_state is not None or processes.join() is None:
            return self.random_state
        return processes.from_first(lambda: int(np.random.default_rng().integers(2**31)))

    def partial_fit(
        self, X: Any, y_bar: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> ComplementaryClassifier:
        """Learn from some more rows, once each, by one run of one network.

        The first call takes the scale of its rows for that of all. `method` "auto" is forward correction here. A copy
        of the model, also one that was pickled or saved and loaded, continues where this one is; a model trained by
        :meth:`fit` cannot be continued.

        Parameters
        ----------
        X, y_bar, sample_weight : as in :meth:`fit`; not all calls need rows of every class.
        classes : all class values, unless the constructor had them; the first call needs them.

        Returns
        -------
        self; `estimated_accuracy_` is that of what was predicted for these rows before they were learned from.
        """
        return partial_fit(self, X, y_bar, classes, sample_weight)

    def _examples(self, X: Any, y_bar: Any, sample_weight: Any, groups: Any) -> Examples:
        """Check features, labels, weights and groups, part those of which nothing is known, and scale the features."""
        inputs = self._take(X, reset=True)
        labels, self.classes_ = encode_labels(y_bar, self.classes)
        if len(labels) != len(inputs):
            raise ValueError(f"`X` and `y_bar` must have the same number of rows; got {len(inputs)} and {len(labels)}")
        weight = None if sample_weight is None else check_weight(sample_weight, len(labels))
        said = labels.any(axis=1) if labels.ndim == 2 else np.ones(len(labels), dtype=bool)
        if said.sum() < 2 <= len(labels):
            raise ValueError(f"`y_bar` must rule out a class in at least 2 rows; got {said.sum()} of {len(labels)}")
        if weight is not None:
            said &= weight > 0
        if said.sum() < 2:
            raise ValueError(f"`X` must hold at least 2 labelled examples; got n_samples={said.sum()}; add more")
        known, counts = (
            torch.from_numpy(rows) for rows in (said, np.ones_like(said) if weight is None else weight > 0)
        )
        self._learn_scale(inputs[counts])
        scaled = self._scaled(inputs)
        other = counts & ~known
        weights = [None if weight is None else weight[rows.numpy()] for rows in (known, other)]
        told = labels[said], weights[0], len(self.classes_), self.transition
        together = None if groups is None else check_groups(groups, np.asarray(said))
        return Examples(scaled[known], *told, scaled[other], weights[1], together)

    def _keep(self, trained: list[TrainedMember], judge: HeldOut) -> None:
        """Keep the members that have a weight, and tell how accurate they are together."""
        pool = judge.pool()
        sample, _ = take(judge.labels, judge.n_classes, judge.transition, judge.sample_weight)
        for one, p, weight in zip(trained, judge.together, pool.weights):
            one.about.update(estimated_accuracy=sample.accuracy(p.argmax(axis=1)), weight=float(weight))
        kept = np.flatnonzero(pool.weights > 0)
        self.members_ = [trained[c].member for c in kept]
        self.pool_ = Pool(pool.temperatures[kept], pool.weights[kept])
        chosen = trained[int(pool.weights.argmax())]
        self.method_, self.network_ = chosen.about["method"], chosen.about["network"]
        self.lr_, self.best_epoch_ = chosen.about["lr"], chosen.about["epoch"]
        self.objective_ = {} if chosen.objective is None else chosen.objective.settings()
        self.held_out_ = judge.predict()
        if judge.groups is not None:
            _, repeats = sample.together(self.held_out_.classes, judge.groups)
            self.held_out_ = self.held_out_._replace(repeats=repeats)
        bounds = sample.accuracy_bounds(self.held_out_.classes, tail_probability(0.95), groups=judge.groups)
        self.estimated_accuracy_ = self.held_out_.interval(bounds)

    def _warn_if_nothing_was_learned(self, labels: NDArray[Any]) -> None:
        """Warn if the model may be no better than guessing, and say how many labels like these would tell."""
        n_labels = len(labels)
        estimate, low, high = self.estimated_accuracy_
        guessing = 1.0 / len(self.classes_)
        if self.learned_:
            return
        hoped = float(np.clip(estimate, (1 + guessing) / 2, min(guessing + 0.5, 0.95)))  # worth having, at the least
        needed = (
            self._labels_to_show(hoped, guessing, labels) * n_labels / len(self.held_out_.rows)
        )  # not every one may judge
        q = as_estimated(self.transition)
        pairs = 0 if q is None else q.counts.sum()  # more may be what helps
        if needed > n_labels:
            words = f"takes about {math.ceil(needed):,} labels to show, and there are {n_labels:,}"
            more = f"an accuracy of {100 * hoped:.0f} % {words}"
        elif pairs:
            more = f"the {pairs:,} pairs of the transition matrix leave much possible; add pairs"
        elif estimate < hoped:
            more = f"an accuracy of {100 * hoped:.0f} % would show in the {n_labels:,} labels that there are"
        else:
            more = f"more than {n_labels:,} such labels are needed to show that it is no chance"
        warnings.warn(
            f"nothing was learned that can be distinguished from guessing: the estimated accuracy is "
            f"{100 * min(1, max(0, estimate)):.0f} % ({100 * low:.0f} to {100 * high:.0f}), and that of guessing is "
            f"{100 * guessing:.0f} %; {more}",
            stacklevel=3,
        )

    def _labels_to_show(self, accuracy: float, guessing: float, labels: NDArray[Any]) -> float:
        """About how many labels must judge for the interval of an accuracy to exclude that of guessing."""
        sizes = np.ones(1) if labels.ndim == 1 else labels.sum(axis=1)
        ruled_out = min(len(self.classes_) - 1.0, 1.0 / float((1.0 / sizes[sizes > 0]).mean()))  # but for rounding
        wider = self.held_out_.wider * math.sqrt(self.held_out_.repeats)
        needed = labels_to_show(len(self.classes_), accuracy, guessing, ruled_out=ruled_out, wider=wider)
        return needed * (1.0 if self.transition is None else max(1.0, cost(self.transition, len(self.classes_))))

    @property
    def learned_(self) -> bool:
        """Whether the accuracy is above that of guessing, with confidence."""
        check_is_fitted(self, "members_")
        return bool(self.estimated_accuracy_.low > 1.0 / len(self.classes_))

    # ---- predicting -----------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Estimate P(class | x), by all members together: (N, K); of a stream, in the order of its files."""
        check_is_fitted(self, "members_")
        if isinstance(X, Stream):
            return np.concatenate([p for _, p in predict_stream(self, X)])
        inputs = self._scaled(self._take(X, reset=False))
        return self.pool_.mix([member.probabilities(inputs) for member in self.members_]).astype(np.float32)

    def score(self, X: Any, y_bar: Any = None, sample_weight: Any = None) -> float:
        """Estimate the accuracy from labels alone; unbiased, so it may leave [0, 1] when they are few.

        `sample_weight` (N,) says how much each example counts; None: all the same. A stream has the labels with it.
        """
        if not isinstance(X, Stream):
            return super().score(X, y_bar, sample_weight)
        check_is_fitted(self, "members_")
        if y_bar is not None or sample_weight is not None:
            raise ValueError("`y_bar` and `sample_weight` must be None where `X` is a stream, which has the labels")
        return score_stream(self, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags

    # ---- files ----------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: of a course of `partial_fit` its tensors."""
        state = dict(super().__getstate__())
        if isinstance(course := state.get("_course"), Continued):
            state["_course"] = course.pack()
        return state

    def save(self, path: str | os.PathLike[str], *, extra: dict[str, Any] | None = None) -> None:
        """Save the fitted model into a folder: ``model.json`` and a safetensors file that it names. No pickle.

        `extra` is whatever JSON can hold; a loaded model has it as `extra_`. The JSON file is put in its place last,
        so a folder that held a model before holds a whole one at every moment. Of several processes that trained
        together, the first writes it.
        """
        check_is_fitted(self, "members_")
        if not processes.is_first():
            return
        tensors = {"center": self.center_, "scale": self.scale_}
        members = []
        for i, member in enumerate(self.members_):
            described, own = member.to_dict()
            members.append(described)
            tensors |= {f"{i}.{name}": tensor for name, tensor in own.items()}
        fitted = self._fitted_to_json() | {"members": members}
        if (course := self.__getstate__().get("_course")) is not None:
            fitted["course"] = {"calls": course.calls, "seed": course.seed, "batch_size": course.batch_size}
            tensors |= {f"course.{name}": tensor for name, tensor in course.tensors.items()}
        write_model(path, {"settings": self._settings_to_json(), "fitted": fitted, "extra": extra or {}}, tensors)

    def _settings_to_json(self) -> dict[str, Any]:
        """The constructor's arguments, those that JSON can hold.

        Of a recipe, loss, schedule or method of one's own the name is kept, by which no fit begins; a network of one's
        own is given again at load.
        """
        out: dict[str, Any] = {}
        for name, value in self.get_params(deep=False).items():
            if name == "recipe" and isinstance(value, Recipe):
                value = _recipe_to_json(value)
            elif name == "method" and isinstance(value, Mapping):
                value = "your own objectives"
            elif name in ("loss", "schedule") and callable(value):
                value = (loss_name(value) if name == "loss" else None) or _of_ones_own(value)
            if name in ("checkpoint", "on_epoch"):
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
            "temperatures": self.pool_.temperatures,
            "weights": self.pool_.weights,
            "method": self.method_,
            "network": self.network_,
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
        """Load a saved model. If its network was a module of your own, pass that module again."""
        about, tensors = read_model(path)
        settings = about["settings"]
        if network is not None:
            settings["network"] = network
        if "network" not in settings:
            raise ValueError("this model's network was a module of your own; pass it again as load(path, network=...)")
        if isinstance(settings.get("recipe"), dict):
            try:
                settings["recipe"] = RECIPES[settings["recipe"].pop("name")](**settings["recipe"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"the model at {path} was trained by a recipe that is not known here") from None
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
        self.network_ = fitted.get("network", self.network if isinstance(self.network, str) else None)
        numbered = "members" in fitted
        if not numbered:  # earlier releases kept the runs of one network, under names without a number
            one_network = {"kind": "networks", "network": self.network_}
            fitted = fitted | {"members": [one_network], "temperatures": [1.0], "weights": [1.0]}
        self.pool_ = Pool(np.array(fitted["temperatures"]), np.array(fitted["weights"]))
        if not len(fitted["members"]) == len(self.pool_.temperatures) == len(self.pool_.weights) > 0:
            raise ValueError("the model must have a temperature and a weight for each member")
        self.members_ = []
        for i, one in enumerate(fitted["members"]):
            prefix = f"{i}." if numbered else ""
            own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            named = one["network"] or self.network if one["kind"] == "networks" else None
            build = None if named is None else self._build_network(named, fitted["shape"])
            self.members_.append(member_from_dict(one, own, len(self.classes_), build, pick_device(self.device)))
        if "course" in fitted:  # of `partial_fit`
            kept = {k.removeprefix("course."): v for k, v in tensors.items() if k.startswith("course.")}
            self._course = PackedCourse(**fitted["course"], tensors=kept)


def _recipe_to_json(recipe: Recipe) -> dict[str, Any] | str:
    """Give the name and settings of a recipe of ours; of another, or with functions of one's own, a name alone."""
    name = next((name for name, kind in RECIPES.items() if kind is type(recipe)), None)
    settings = {} if name is None else recipe.settings()
    return _of_ones_own(recipe) if name is None or any(map(callable, settings.values())) else {"name": name} | settings


def _of_ones_own(value: Any) -> str:
    """Name what cannot be saved, in a way that no table of ours knows."""
    return f"your own {getattr(value, '__name__', type(value).__name__)}"
