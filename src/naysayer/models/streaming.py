"""Learning from a stream, and from some rows after others: what needs no more memory for more rows."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from naysayer.common.checks import check_count, to_numpy
from naysayer.data.tables import some
from naysayer.engine import process, processes
from naysayer.engine.population import Population, pick_device
from naysayer.engine.shards import Block, rows_of
from naysayer.engine.source import Resident
from naysayer.engine.stack import Stack
from naysayer.engine.stream import Stream
from naysayer.labels.checks import check_weight
from naysayer.labels.drawing import generator
from naysayer.labels.encoding import encode_labels
from naysayer.measure.intervals import tail_probability
from naysayer.measure.sample import take
from naysayer.measure.tally import Tally
from naysayer.models.candidates import Candidate, Parts, network_name
from naysayer.models.members import Examples, Networks
from naysayer.models.pooling import HeldOut, Pool
from naysayer.names import OTHERS

ComplementaryClassifier = Any  # which imports this

STEADY_RATE = 3e-3  # the learning rate where rows come bit by bit, unless one is given


# ---- a stream ---------------------------------------------------------------------------------------------------


def fit_stream(
    model: ComplementaryClassifier, stream: Stream, y_bar: Any = None, sample_weight: Any = None
) -> ComplementaryClassifier:
    """Train networks on a stream, one run for each member unless `n_seeds` says more.

    All runs hold out the same share of the rows, at most 100,000 and what an eighth of the stream's memory holds. How
    members are pooled is fitted to some of these, and others of them judge the pool, as in memory.
    """
    if y_bar is not None or sample_weight is not None:
        raise ValueError("`y_bar` and `sample_weight` must be None where `X` is a stream, which has the labels")
    if model.patience is not None or model.warm_start:
        raise ValueError("`patience` and `warm_start` must be left out where `X` is a stream; see `partial_fit`")
    rng = generator(model._seed())
    if (together := processes.join()) is not None:
        stream = stream.part_of(together.rank, together.size, together)
    share = 0.1 if model.validation_fraction == "auto" else model._share_held_out(())
    stream.seed = int(rng.integers(2**31))
    stream.hold_out(share)
    examples, labels = _surveyed(model, stream)
    candidates = _networks(model, examples)
    seeds = rng.integers(0, 2**31, size=1 if model.n_seeds == "auto" else check_count(model.n_seeds, "`n_seeds`"))
    everything = np.tile(np.arange(len(labels)), (len(seeds), 1))
    parts = Parts([int(seed) for seed in seeds], everything[:, :0], everything)
    trained, interrupted = model._train(candidates, parts, examples)
    held_out = [one.held_out for one in trained]
    model._keep(trained, HeldOut(held_out, labels, stream.n_classes, model.transition, 1, rng))
    if interrupted:
        warnings.warn("training was interrupted; what was trained is kept", stacklevel=3)
    else:
        model._drop_checkpoints(candidates)
    model._warn_if_nothing_was_learned(examples.labels)
    return model


def _surveyed(model: ComplementaryClassifier, stream: Stream) -> tuple[Examples, NDArray[Any]]:
    """Read a stream once, for its scale and what is held out; give this, with the number of labels there are in all."""
    found = stream.survey()
    classes = getattr(stream.shards, "classes", None)
    model.classes_ = np.arange(stream.n_classes) if classes is None else to_numpy(classes)
    shape = found.example.shape[1:]
    model.n_features_in_ = shape[0]
    if hasattr(model, "feature_names_in_"):  # of a frame that was fitted before
        del model.feature_names_in_
    model.center_, model.scale_ = torch.zeros(shape), torch.ones(shape)
    if found.example.dtype == np.uint8:
        model.scale_ *= 255.0
    elif model.standardize:
        model.center_, model.scale_ = (torch.from_numpy(part).float() for part in (found.center, found.scale))
        stream.standardize()
    x, labels = found.held_out
    said = np.flatnonzero(labels.any(axis=1)) if labels.ndim == 2 else np.arange(len(labels))
    n = int(found.counts[0].sum()) + len(said)
    if len(said) < 2 or n < 4:
        raise ValueError(
            f"a stream must have at least 2 labelled rows to hold out, and others to learn from; got {len(said)} of "
            f"{n}; add more, or raise `validation_fraction` or the stream's `memory`"
        )
    inputs = torch.from_numpy(stream.ready(x[said]))
    told = np.broadcast_to(np.int64(0), (n,))  # the number of labels is all that is asked of it
    return Examples(inputs, told, None, stream.n_classes, model.transition, inputs[:0], stream=stream), labels[said]


def _networks(model: ComplementaryClassifier, examples: Examples) -> list[Candidate]:
    """What is trained on a stream: networks alone, since all else needs the rows in memory."""
    found = model._candidates(examples)
    other = next((c.method for c in found if c.method in OTHERS), None)
    if other is not None and (model.method != "auto" and list(model.method) != ["auto"]):
        raise ValueError(
            f"`method` must name networks' methods where `X` is a stream; {other!r} needs all rows at once"
        )
    return [_in_parts(c) for c in found if c.method not in OTHERS]


def _in_parts(candidate: Candidate) -> Candidate:
    """Check that a candidate can learn from rows that come in parts."""
    if candidate.recipe.unlabelled or candidate.recipe.remembers:
        raise ValueError("`recipe` must be 'plain' for a stream or `partial_fit`; the others need all rows at once")
    return candidate


def predict_stream(model: ComplementaryClassifier, stream: Stream) -> Iterator[tuple[Block, NDArray[np.float32]]]:
    """Read the rows of a stream in the order of its files, each block with its probabilities."""
    classes = getattr(stream.shards, "classes", np.arange(stream.n_classes))
    if to_numpy(classes).tolist() != model.classes_.tolist():
        raise ValueError(
            f"the stream must have the classes of the model, {some(model.classes_.tolist())}; got "
            f"{some(to_numpy(classes).tolist())}; pass them to open_stream as classes=model.classes_"
        )
    for shard, name in enumerate(stream.shards.names):
        for block in stream.shards.blocks(shard):
            with rows_of(name, block.first):
                p = model.predict_proba(block.inputs)
            yield block, p


def score_stream(model: ComplementaryClassifier, stream: Stream) -> float:
    """Estimate the accuracy on a stream, of which only counts are kept."""
    tally = Tally(stream.n_classes, model.transition)
    for block, p in predict_stream(model, stream):
        tally.update(block.labels, p.argmax(axis=1))
    sample, (predicted,) = tally.sample()
    return float(sample.accuracy(predicted))


# ---- some rows after others -------------------------------------------------------------------------------------


class _Rows(Resident):
    """Rows of one call, whose labels are counted together with those before."""

    before: Tensor | float = 0.0

    def count(self, runs: slice, known_transition: bool = False) -> Tensor:
        return super().count(runs, known_transition) + self.before


@dataclass
class Continued:
    """A run that continues with every call: what it trains, its network and optimiser, and what it has seen.

    Attributes
    ----------
    counts : of all labels before, as objectives count them.
    """

    candidate: Candidate
    runs: Population
    stack: Stack
    calls: int = 0
    counts: Tensor | float = 0.0

    def pack(self) -> PackedCourse:
        """Give what the next call needs, as tensors and numbers."""
        state = {k: t for k, t in self.stack.state().items() if not k.startswith("best.")} | {"counts": self.counts}
        tensors = {k: torch.as_tensor(t).detach().cpu().clone() for k, t in state.items()}
        return PackedCourse(self.calls, self.runs.seeds[0], self.runs.batch_size, tensors)


@dataclass
class PackedCourse:
    """A course as it is pickled and saved; the next call of `partial_fit` unpacks it."""

    calls: int
    seed: int
    batch_size: int
    tensors: dict[str, Tensor]

    def unpack(self, course: Continued) -> None:
        """Bring a course that has just begun to where this one was."""
        state = {k: t for k, t in course.stack.state().items() if not k.startswith("best.")}
        shapes = [{k: t.shape for k, t in tensors.items() if k != "counts"} for tensors in (state, self.tensors)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "the model must keep the settings it learned by; its network, objective or optimizer has changed; set "
                "them back, or begin with a new model"
            )
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(self.tensors[name])
        course.calls, course.counts = self.calls, self.tensors["counts"].to(course.runs.device)


def partial_fit(
    model: ComplementaryClassifier, X: Any, y_bar: Any, classes: Any = None, sample_weight: Any = None
) -> ComplementaryClassifier:
    """Learn from some rows, once each; they are predicted first, and so judge what was learned before."""
    course: Continued | PackedCourse | None = getattr(model, "_course", None)
    if course is None and hasattr(model, "members_"):
        raise ValueError(
            "`partial_fit` must continue what it began, and this model was trained by `fit`; pass all rows to it, or "
            "begin with a new model"
        )
    given = model.classes if classes is None else classes
    if course is None and given is None:
        raise ValueError("the first call of `partial_fit` must name all classes; pass classes=[...]")
    if course is not None and classes is not None and to_numpy(classes).tolist() != model.classes_.tolist():
        raise ValueError(f"`classes` must be those of the first call, {model.classes_.tolist()}; leave them out")
    inputs = model._take(X, reset=course is None)
    labels, model.classes_ = encode_labels(y_bar, given if course is None else model.classes_)
    if len(labels) != len(inputs):
        raise ValueError(f"`X` and `y_bar` must have the same number of rows; got {len(inputs)} and {len(labels)}")
    weight = None if sample_weight is None else check_weight(sample_weight, len(labels))
    if course is None:
        model._learn_scale(inputs)
    scaled = model._scaled(inputs)
    source = _Rows(scaled, labels, len(model.classes_), sample_weight=weight)
    if not isinstance(course, Continued):
        told = labels, weight, source.n_classes, model.transition
        course = model._course = _begin(model, source, Examples(scaled, *told, scaled[:0]), course)
        _keep(model, course)
    predicted = model.predict_proba(X).argmax(axis=1)
    sample, (predicted,) = take(labels, source.n_classes, model.transition, weight, y_pred=predicted)
    model.estimated_accuracy_ = sample.accuracy_interval(predicted, tail_probability(0.95))
    _go_on(course, source)
    _keep(model, course)
    return model


def _begin(
    model: ComplementaryClassifier, source: _Rows, examples: Examples, packed: PackedCourse | None = None
) -> Continued:
    """Make the run that all calls train, or the one that was packed."""
    found = model._named("forward", examples) if model.method == "auto" else _networks(model, examples)
    rates = (STEADY_RATE,) if model.lr == "auto" else found[0].rates
    if len(found) != 1 or len(rates) != 1:
        raise ValueError("`partial_fit` trains one run; `method` must name one method, and `lr` one learning rate")
    candidate = _in_parts(replace(found[0], rates=rates))
    seed = int(generator(model.random_state).integers(2**31)) if packed is None else packed.seed
    runs = model._population(candidate, [seed], examples)
    runs.batch_size = runs.batch_size if packed is None else packed.batch_size
    source.prepare(runs.seeds, runs.batch_size, runs.device)
    settings, state = runs._settings(), (runs.parameters, runs.buffers)
    stack = Stack(runs.module, runs.objectives, source, source.example(), slice(0, 1), *state, settings)
    stack.captures = False  # a graph would read the first call's rows for ever
    course = Continued(candidate, runs, stack)
    if packed is not None:
        packed.unpack(course)
    return course


def _go_on(course: Continued, source: _Rows) -> None:
    """Train on the rows of a call."""
    stack, runs = course.stack, course.runs
    source.prepare(runs.seeds, runs.batch_size, runs.device)
    source.before, stack.source = course.counts, source
    stack.prior, stack.alpha = stack._shares()
    with process.quick(runs.device):
        loss = float(stack.epoch(course.calls, runs._factor(course.calls))["loss"])
    course.calls += 1
    course.counts = source.count(slice(0, 1), runs.objectives[0].inverse is not None)
    if not np.isfinite(loss):
        raise ValueError(f"the loss must stay finite; it was {loss}; lower `lr`, or look for huge values in `X`")


def _keep(model: ComplementaryClassifier, course: Continued) -> None:
    """Let the model predict by the run as it is now."""
    candidate, network, device = course.candidate, course.stack.network, pick_device(model.device)
    assert candidate.objective is not None
    state = [{k: v.detach().to(device, copy=True) for k, v in p.items()} for p in (network.parameters, network.buffers)]
    decoder = candidate.objective if candidate.objective.decodes else None
    module = copy.deepcopy(course.runs.module).to(device)
    model.members_ = [Networks(network_name(candidate.network), module, state[0], state[1], decoder)]
    model.pool_ = Pool(np.ones(1), np.ones(1))
    model.method_, model.network_, model.lr_ = candidate.method, network_name(candidate.network), candidate.rates[0]
    model.best_epoch_, model.objective_ = course.calls - 1, candidate.objective.settings()
    model.trials_, model.history_, model.failed_ = [], {}, []
