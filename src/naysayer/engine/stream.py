"""Examples that are read as they are needed: data larger than memory, in shards.

Shards come in a random order, their rows gather in a window, and each run deals itself the window's rows in an order of
its own, while a thread fills the next window. Where one window holds all rows, they are dealt exactly as
:class:`~naysayer.engine.source.Resident` deals them.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from naysayer.common.checks import check_count
from naysayer.common.fingerprint import fingerprint
from naysayer.engine.augment import hash_bits
from naysayer.engine.shards import Array, Block, Moments, Shards, check_part, dealt_evenly, read_ahead, rows_of
from naysayer.engine.source import Batch, Scored, Source, as_inputs, check_batch, shuffle, to_float
from naysayer.labels.checks import check_labels, check_n_classes
from naysayer.labels.weights import count_labels

if TYPE_CHECKING:
    from naysayer.engine.processes import Processes

MEMORY = 256 << 20  # bytes of the two windows, the one that is dealt from and the one that is filled
LEG_ROWS = 5_000_000  # after which the engine scores and may save: an epoch to it, a part of a pass to us
MOST_HELD_OUT = 100_000  # rows, which stay in memory
_AT_ONCE = 1 << 21  # numbers of inputs that are dealt at once
_CODES_AT_ONCE = 1 << 18
_TWICE_63 = 1 << 63

Rows = tuple[Array, Array, int]  # inputs, labels, and the number of the first of them among all rows to train on


@dataclass
class FirstPass:
    """What one pass over the rows tells.

    Attributes
    ----------
    n_rows : all rows, those held out included.
    counts : (2, K + 1) labels of the rows to train on, as objectives count them without a known Q and with one.
    center, scale : mean and deviation of each input over all rows; 0 and 255 for bytes.
    example : (1, ...) the first row's inputs.
    held_out : inputs and labels of the rows that no run trains on.
    """

    n_rows: int
    counts: Tensor
    center: Array
    scale: Array
    example: Array
    held_out: tuple[Array, Array]


class Stream(Source):
    """Deals batches from shards that need not fit into memory.

    Parameters
    ----------
    shards : where the rows are (:class:`Shards`); :func:`naysayer.open_stream` makes them from files and loaders.
    memory : bytes for the two windows in which rows are shuffled.
    leg_rows : a pass over more rows than this is cut into legs of about so many, each an epoch to the engine: scores,
        learning rates, `patience` and checkpoints come after each leg, so training resumes in the middle of a pass.
    seed : of the shards' order and of what is held out; the order of rows is each run's own.
    part : (r, R): deal only the r-th of R parts of the shards, and of each batch, for one of R processes. All have the
        same number of steps; who has fewer rows deals fewer in each. Under torchrun it goes by itself.
    batch_size : rows of a batch, of all parts together, where a loop of one's own iterates over the stream; what is
        fitted has a batch size of its own.

    Attributes
    ----------
    n_legs : how many epochs of the engine make a pass.

    Examples
    --------
    >>> from naysayer import Population, complement, networks, objectives, open_stream
    >>> y = np.arange(300) % 3
    >>> X, y_bar = np.eye(3, dtype="float32")[y], complement(y, 3, random_state=0)
    >>> parts = [(X[i : i + 50], y_bar[i : i + 50]) for i in range(0, 300, 50)]
    >>> runs = Population(lambda: networks.linear(3, 3), objectives.Forward(3), lr=0.1)
    >>> runs = runs.fit(open_stream(parts, classes=[0, 1, 2]), max_epochs=20)
    >>> float(runs.logits(X, run=0).argmax(-1).eq(torch.tensor(y)).float().mean())
    1.0
    """

    def __init__(
        self,
        shards: Shards,
        *,
        memory: int = MEMORY,
        leg_rows: int = LEG_ROWS,
        part: tuple[int, int] = (0, 1),
        seed: int = 0,
        batch_size: int = 256,
    ) -> None:
        self.shards, self.n_classes = shards, check_n_classes(shards.n_classes)
        self.memory, self.leg_rows = check_count(memory, "`memory`"), check_count(leg_rows, "`leg_rows`")
        self.sizes = None if shards.sizes is None else np.array(shards.sizes, dtype=np.int64)
        self.part = check_part(part, self.sizes)
        self.center: Array | None = None
        self.scale: Array | None = None
        self._scale_found = False  # by the survey
        self.together: Processes | None = None
        self.seed = seed
        self._rows_dealt = check_count(batch_size, "`batch_size`")
        self._passes = 0  # that loops have begun
        self._held_out = (0.0, 0)  # a share, and at most so many rows
        self._below = np.zeros(1, dtype=np.int64)  # rows whose hash is below are held out
        self._survey: FirstPass | None = None

    # ---- what is known of the data ------------------------------------------------------------------------------

    def hold_out(self, share: float, most: int = MOST_HELD_OUT) -> None:
        """Keep a share of the rows from every run, at most so many, and what an eighth of `memory` holds.

        They stay in memory, and judge the runs.
        """
        self._held_out, self._survey = (share, most), None

    def standardize(self, center: Array | None = None, scale: Array | None = None) -> None:
        """Take `center` from all inputs and divide them by `scale`, or by what the survey finds; bytes stay."""
        self._scale_found = center is None or scale is None
        if self._scale_found:
            center, scale = self.survey().center, self.survey().scale
        self.center, self.scale = np.asarray(center, dtype=np.float32), np.asarray(scale, dtype=np.float32)

    def part_of(self, rank: int, size: int, together: Processes) -> Stream:
        """Give a source of one process's part of the shards; what the survey finds is of all parts together."""
        if self.part == (rank, size) and self.together is together:
            return self
        if self.part not in ((0, 1), (rank, size)):
            raise ValueError(f"`part` must be {(rank, size)} in this process, or left out; got {self.part}")
        mine = copy.copy(self)
        mine.part, mine.together = check_part((rank, size), self.sizes), together
        mine._survey = self._survey if self.part == (0, 1) else None  # which is of all rows
        return mine

    def survey(self) -> FirstPass:
        """Read all rows once: count them and their labels, find their scale, take those to be held out.

        A process that has a part reads that alone; by :meth:`part_of` it comes to what all parts tell.
        """
        if self._survey is None:
            self._survey = self._read_all()
        return self._survey

    def _read_all(self) -> FirstPass:
        if self.together is not None:  # or sums would be of tensors that do not match
            settings = [self.n_classes, self.seed, self._held_out, self.memory, self.leg_rows]
            data = [self.shards.names, self.sizes]
            self.together.agree({"data": fingerprint(data), "the stream's settings": fingerprint(settings)})
        (share, most), below = self._held_out, 0
        kept: list[tuple[Array, ...]] = []  # hashes, numbers, inputs and labels of rows that may be held out
        moments, counts = Moments(), torch.zeros(2, self.n_classes + 1, dtype=torch.float64)
        example: Array | None = None
        sizes = np.zeros(len(self.shards.names), dtype=np.int64)
        owners = dealt_evenly(sizes if self.sizes is None else self.sizes, self.part[1])
        own = np.flatnonzero(owners == self.part[0]).tolist()
        for shard, block in read_ahead((i, block) for i in own for block in self._blocks(i)):
            if example is None:
                example = block.inputs[:1].copy()
                most = min(most, max(1, self.memory // 8 // self._bytes(example)))
                below = int(share * _TWICE_63) if self.sizes is None else self._threshold(share, most)
            before = sizes if self.sizes is None else self.sizes
            first = int(before[:shard].sum() + sizes[shard])
            codes = self._codes(first, len(block.inputs))
            sizes[shard] += len(block.inputs)
            with rows_of(self.shards.names[shard], block.first):
                labels, _ = check_labels(block.labels, self.n_classes)
                moments.add(block.inputs)
            counts += self._count(labels)
            chosen = np.flatnonzero(codes < below)
            x = block.inputs[chosen]
            x = x if x.dtype == np.uint8 else x.astype(np.float32, copy=False)
            kept.append((codes[chosen], first + chosen, x, labels[chosen]))
            if sum(len(codes) for codes, *_ in kept) > 2 * most:
                kept, below = _lowest(kept, most, below)
        kept, below = _lowest(kept, most, below)
        if example is None or moments.n == 0:
            raise ValueError("a stream must hold at least one row; got none")
        rows, *held_out = (np.concatenate(part) for part in list(zip(*kept))[1:])
        counts -= self._count(held_out[1]) if len(held_out[1]) else 0
        self.sizes, self._below = sizes if self.sizes is None else self.sizes, np.array([below])
        if self.together is not None:
            counts, (x, labels) = self.together(counts), held_out
            self._check_alike(x, labels)
            rows, *held_out = (self.together.rows(torch.from_numpy(part)).numpy() for part in (rows, x, labels))
            held_out = [part[np.argsort(rows)] for part in held_out]  # as one process finds them
        x, labels = held_out
        n, center, scale = moments.result(self.together)
        return FirstPass(n, counts, center, scale, example, (x, labels))

    def _check_alike(self, x: Array, labels: Array) -> None:
        """Check that rows are of one form in all processes; each has seen to that among its own."""
        assert self.together is not None
        kinds = "bytes" if x.dtype == np.uint8 else "numbers", "sets" if labels.ndim == 2 else "classes"
        forms = self.together.gather(f"{kinds[0]} of the shape {x.shape[1:]} with {kinds[1]} as labels")
        for rank, form in enumerate(forms):
            if form != forms[0]:
                raise ValueError(
                    f"all rows must be of one form; process 0 found {forms[0]}, and process {rank} {form}; make them "
                    f"alike; images can be brought to one `size`"
                )

    def _threshold(self, share: float, most: int) -> int:
        """Below what the codes of rows to be held out are, where the number of rows is known before they are read."""
        assert self.sizes is not None
        below = int(min(share, 2 * most / max(1, self.sizes.sum())) * _TWICE_63)
        low = np.concatenate([np.empty(0, np.int64), *(c[c < below] for _, c in self._all_codes() if below)])
        return below if len(low) <= most else int(np.partition(low, most)[most])

    def _count(self, labels: Array) -> Tensor:
        y = torch.from_numpy(labels)
        return torch.stack([count_labels(y, self.n_classes, known) for known in (False, True)]).double()

    def _codes(self, first: int, n: int) -> Array:
        """Numbers from 0 to 2**63 by which rows are held out, the same in every pass."""
        rows = np.arange(first, first + n, dtype=np.uint64)
        return (_mixed(_mixed(np.array([self.seed + 1], np.uint64)) + rows) >> np.uint64(1)).astype(np.int64)

    def _all_codes(self) -> Iterator[tuple[int, Array]]:
        """The codes of all rows with their shards, some at a time: a shard may have more than memory has room for."""
        assert self.sizes is not None
        starts = np.cumsum(self.sizes) - self.sizes
        for shard, (start, size) in enumerate(zip(starts.tolist(), self.sizes.tolist())):
            for first in range(0, size, _CODES_AT_ONCE):
                yield shard, self._codes(start + first, min(_CODES_AT_ONCE, size - first))

    def _blocks(self, shard: int) -> Iterator[Block]:
        """A shard's blocks; one that has changed since it was counted is refused."""
        n = 0
        for block in self.shards.blocks(shard):
            if len(block.inputs) != len(block.labels):
                raise ValueError(
                    f"{self.shards.names[shard]}: each block must have a label per row; got {len(block.inputs)} rows "
                    f"and {len(block.labels)} labels"
                )
            n += len(block.inputs)
            if len(block.inputs):
                yield block
        if self.sizes is not None and n != self.sizes[shard]:
            raise ValueError(
                f"{self.shards.names[shard]} must stay as it is while it is read; it had {self.sizes[shard]} rows, and "
                f"now {n}; begin anew"
            )

    @property
    def n_legs(self) -> int:
        """How many epochs of the engine make a pass over the rows."""
        if self.sizes is None:
            self.survey()
        assert self.sizes is not None
        return int(max(1, round(self.sizes.sum() / self.leg_rows)))

    # ---- a source -----------------------------------------------------------------------------------------------

    def prepare(self, seeds: Any, batch_size: int, device: torch.device) -> None:
        super().prepare(seeds, batch_size, device)
        check_batch(batch_size, self.part[1])
        found = self.survey()
        assert self.sizes is not None
        self.train_sizes = self.sizes.copy()
        for shard, codes in self._all_codes() if self._below[0] else ():
            self.train_sizes[shard] -= np.count_nonzero(codes < self._below[0])
        if not self.train_sizes.any():
            raise ValueError("a stream must have rows to train on; all were held out; hold out less")
        if self.together is not None or self.part[1] == 1:  # a part alone may say nothing
            judges = found.held_out[1]
            silent = judges.ndim == 2 and len(judges) > 0 and not judges.any()
            if silent or not found.counts.any():
                which = "to train on" if not found.counts.any() else "held out"
                raise ValueError(f"a row of a stream that is {which} must rule out a class; got none that does")
        check_part(self.part, self.train_sizes)
        self.n_rows = int(self.train_sizes.sum())
        self._seeds = torch.tensor(list(seeds), device=device)
        self._readers: dict[tuple[int, int], _Reader] = {}  # of the next leg, which begins where one has ended
        (rank, size), n = (0, 1) if self.together is None else self.part, len(found.held_out[0])
        x, y = (part[rank * n // size : (rank + 1) * n // size] for part in found.held_out)
        self._judging = (torch.from_numpy(self.ready(x)).to(device), torch.from_numpy(y).to(device))

    def is_held_out(self, shard: int, start: int = 0, stop: int | None = None) -> Array:
        """Whether rows of a shard are held out, (n,); all of them, or some neighbours."""
        assert self.sizes is not None
        stop = int(self.sizes[shard]) if stop is None else stop
        return self._codes(int(self.sizes[:shard].sum()) + start, stop - start) < self._below[0]

    def _leg(self, epoch: int) -> tuple[list[int], int, Array, int]:
        """This process's shards of a pass, at which of their rows an epoch begins, and each process's rows and steps.

        Where a process has fewer shards than there are legs, these begin within shards.
        """
        lap, leg = divmod(epoch, self.n_legs)
        order = shuffle(torch.tensor([self.seed]), lap, len(self.train_sizes))[0].numpy()
        order = order[self.train_sizes[order] > 0]
        owners = dealt_evenly(self.train_sizes[order], self.part[1])
        each = [order[owners == rank] for rank in range(self.part[1])]
        ends = [_legs(self.train_sizes[shards], self.n_legs)[leg : leg + 2] for shards in each]
        n = np.diff(ends)[:, 0]
        n_steps = max(1, int(-(-n.sum() // self.batch_size)))
        return each[self.part[0]].tolist(), int(ends[self.part[0]][0]), n, n_steps

    def batches(self, epoch: int, runs: slice) -> Iterator[Batch]:
        """Shuffle windows of rows into equal batches; the last is filled up from the start of its window's order.

        Each process deals as many rows per step as it needs for its part, and all the same number of steps at a time.
        """
        shards, start, n, n_steps = self._leg(epoch)
        sizes = np.maximum(1, -(-n // n_steps))
        size, widest = int(sizes[self.part[0]]), int(sizes.max())
        own = int(n[self.part[0]])
        left = max(own, (n_steps - 1) * size + 1)  # or there would be fewer steps
        reader = self._readers.pop((epoch, runs.start), None)
        if reader is None or reader.at != start:
            reader = _Reader(self._pieces(shards, start), start)
        seeds = hash_bits(self._seeds[runs] * 0x1F123BB5 + epoch).unsqueeze(-1)
        for window in read_ahead(self._windows(reader, own, left, size * self._steps_per_window(widest))):
            x, y, rows = (torch.from_numpy(part).to(self.device) for part in window)
            order = hash_bits(seeds + rows).argsort(dim=-1)
            n_steps = -(-len(rows) // size)
            order = order.repeat(1, -(-n_steps * size // len(rows)))[:, : n_steps * size]
            steps = order.view(len(order), n_steps, size).transpose(0, 1)
            for part in steps.split(max(1, _AT_ONCE // (len(order) * widest * max(1, x[0].numel())))):
                yield Batch(rows[part], y[part], x[part])
        if (epoch + 1) % self.n_legs:
            self._readers[epoch + 1, runs.start] = reader

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Deal a pass in batches of inputs (B, ...) and labels, for a loop of one's own; each pass in another order."""
        first = self.n_legs * self._passes
        self._passes += 1
        self.prepare([self.seed], self._rows_dealt, torch.device("cpu"))
        for epoch in range(first, first + self.n_legs):
            for batch in self.batches(epoch, slice(0, 1)):
                assert batch.inputs is not None
                for x, y in zip(batch.inputs, batch.labels):
                    yield to_float(x[0]), y[0]

    def _steps_per_window(self, size: int) -> int:
        """How many steps of so many rows fit into half the memory."""
        return max(1, self.memory // 2 // self._bytes(self.survey().example) // size)

    def _bytes(self, example: Array) -> int:
        """What a row takes, with its label and numbers."""
        return int(example.size * (1 if example.dtype == np.uint8 else 4) + self.n_classes + 32)

    def _windows(self, reader: _Reader, n: int, left: int, most: int) -> Iterator[tuple[Array, ...]]:
        """Gather rows to train on into windows: inputs, labels, and their numbers among all rows to train on.

        Those after the first `n` are of the next leg, which reads them again.
        """
        again: list[Rows] = []
        while left:
            size, filled = min(most, left), 0
            window: list[Array] = []
            while filled < size:
                x, y, here = reader.take(min(size - filled, n or left))
                if not window:
                    kind = np.uint8 if x.dtype == np.uint8 else np.float32
                    window = [np.empty((size, *x.shape[1:]), kind), np.empty((size, *y.shape[1:]), y.dtype)]
                    window.append(np.empty(size, np.int64))
                part = slice(filled, filled + len(x))
                self.ready(x, window[0][part])
                window[1][part], window[2][part] = y, np.arange(here, here + len(x))
                again += [(x.copy(), y, here)] if n == 0 else []
                filled, left, n = filled + len(x), left - len(x), max(0, n - len(x))
            del x, y
            yield tuple(window)
        reader.put_back(again)

    def _pieces(self, shards: list[int], start: int) -> Iterator[Rows]:
        """Rows to train on from one of some shards' rows on, the first ones again after the last."""
        offsets = np.cumsum(self.train_sizes) - self.train_sizes
        skipped = start
        for shard in itertools.cycle(shards):
            if skipped >= self.train_sizes[shard]:
                skipped -= int(self.train_sizes[shard])
                continue
            at, here = 0, int(offsets[shard])
            for block in self._blocks(shard):
                x, y = block.inputs, block.labels
                if self._below[0]:
                    kept = np.flatnonzero(~self.is_held_out(shard, at, at + len(x)))
                    at += len(x)
                    x, y = x[kept], y[kept]
                passed = min(skipped, len(x))
                rows = [(x[passed:], y[passed:], here + passed)]
                here, skipped = here + len(x), skipped - passed
                del x, y, block
                if len(rows[0][0]):
                    yield rows.pop()  # nothing of it is kept while the next rows are read

    def ready(self, x: Array, out: Array | None = None) -> Array:
        """Inputs as networks take them: bytes as they are, all else scaled, as float32."""
        if x.dtype == np.uint8 or self.center is None or self.scale is None:
            x = as_inputs(x).numpy()
        elif out is None:
            x = (x.astype(np.float32, copy=False) - self.center) / self.scale
        else:
            np.subtract(x.astype(np.float32, copy=False), self.center, out=out)
            x = np.divide(out, self.scale, out=out)
        if out is None or x is out:
            return x
        out[:] = x
        return out

    def count(self, runs: slice, known_transition: bool = False) -> Tensor:
        """Count the labels to train on, which all runs share; they were counted by the survey."""
        counts = self.survey().counts[int(known_transition)].to(self.device)
        return counts.expand(runs.stop - runs.start, -1)

    def example(self) -> Tensor:
        return to_float(torch.from_numpy(self.ready(self.survey().example))).to(self.device)

    def held_out(self, runs: slice, size: int) -> Scored:
        x, y = self._judging
        for part in zip(x.split(size), y.split(size)) if len(x) else ():
            yield tuple(t.expand(runs.stop - runs.start, *t.shape) for t in part)

    def digest(self) -> str:
        told = [None if t is None else t.tobytes() for t in (self.center, self.scale)]
        scale = "found" if self._scale_found else told  # to the last bit it depends on the number of processes
        settings = (self.memory, self.leg_rows, self.n_legs, self.seed, self._held_out, scale)
        return hashlib.sha256(repr((self.shards.digest(), settings)).encode()).hexdigest()


class _Reader:
    """Takes rows from pieces, as many as are asked for at a time.

    Attributes
    ----------
    at : how many rows were passed over or taken.
    """

    def __init__(self, pieces: Iterator[Rows], start: int) -> None:
        self.pieces, self.at = pieces, start
        self.rest: Rows | None = None

    def take(self, most: int) -> Rows:
        """Take the next rows, at least one and at most so many."""
        x, y, here = next(self.pieces) if self.rest is None else self.rest
        self.rest = (x[most:], y[most:], here + most) if len(x) > most else None
        x, y = x[:most], y[:most]
        self.at += len(x)
        return x, y, here

    def put_back(self, pieces: list[Rows]) -> None:
        """Let the last pieces that were taken come again."""
        self.at -= sum(len(x) for x, *_ in pieces)
        rest = [] if self.rest is None else [self.rest]
        self.pieces, self.rest = itertools.chain(pieces, rest, self.pieces), None


def _mixed(z: Array) -> Array:
    """Mix the bits of uint64 values as :func:`~naysayer.engine.augment.hash_bits` does, in one thread."""
    z = z * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _legs(sizes: Array, n_legs: int) -> Array:
    """At which of their rows the legs of a pass over some shards begin and end: between shards, if there are enough.

    Examples
    --------
    >>> _legs(np.array([40, 31, 60, 20, 60]), 2), _legs(np.array([40, 31]), 3)
    (array([  0, 131, 211]), array([ 0, 23, 47, 71]))
    """
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if len(sizes) < n_legs:
        return ends[-1] * np.arange(n_legs + 1) // n_legs
    return ends[np.cumsum([0, *map(len, np.array_split(sizes, n_legs))])]


def _lowest(kept: list[tuple[Array, ...]], most: int, below: int) -> tuple[list[tuple[Array, ...]], int]:
    """Keep at most so many rows, those of the lowest codes, in their order; `below` is what all codes kept are."""
    if sum(len(codes) for codes, *_ in kept) <= most:
        return kept, below
    codes, *others = (np.concatenate(part) for part in zip(*kept))
    below = int(np.partition(codes, most)[most])
    rows = np.flatnonzero(codes < below)
    return [(codes[rows], *(part[rows] for part in others))], below
