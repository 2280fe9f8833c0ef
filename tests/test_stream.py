"""Data larger than memory: shards, windows, labels, learning part by part, and the commands."""

from __future__ import annotations

import copy
import csv
import io
import itertools
import pickle
import subprocess
import sys
import tarfile
import threading
import weakref
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from sklearn.base import clone

from helpers import as_sets, assert_same_runs, is_rows, raises
from naysayer import ComplementaryClassifier, Population, complement, networks, objectives, open_stream
from naysayer.data import stream as files
from naysayer.data.stream import TableShards
from naysayer.engine import stream as stream_module
from naysayer.engine.shards import Block, Moments, read_ahead
from naysayer.engine.stack import CAPTURED_SHAPES, CAPTURED_STEPS, Stack
from naysayer.engine.stream import Stream
from naysayer.features import stream as features
from naysayer.features.tables import Columns
from naysayer.labels.drawing import generator

K = 4
NAMES = ["ant", "bee", "cat", "dog"]


def blobs(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    X = (rng.normal(size=(n, 5)) + 4 * np.eye(K, 5)[y]).astype("float32")
    return X, y, complement(y, K, random_state=seed)


def write(folder, X, answers, rows=150, group=40, names="part-{}.parquet"):
    """Write a table as several Parquet files of some row groups each."""
    folder.mkdir(exist_ok=True)
    for i, start in enumerate(range(0, len(X), rows)):
        part = slice(start, start + rows)
        columns = {f"x{j}": X[part, j] for j in range(X.shape[1])} | {"answer": answers[part]}
        pyarrow.parquet.write_table(pyarrow.table(columns), folder / names.format(i), row_group_size=group)
    return folder


def answers(y_bar):
    return [f"!{NAMES[k]}" for k in y_bar]


@pytest.fixture
def folder(tmp_path):
    X, _, y_bar = blobs()
    return write(tmp_path / "table", X, answers(y_bar))


class Arrays:
    """Arrays as shards, of sizes that are known."""

    def __init__(self, X, y_bar, sizes, n_classes=K):
        ends = np.cumsum(sizes)
        assert ends[-1] == len(X)
        self.X, self.y, self.n_classes, self.sizes = X, y_bar, n_classes, list(sizes)
        self.parts = [slice(end - size, end) for end, size in zip(ends, sizes)]
        self.names = [f"shard {i}" for i in range(len(sizes))]
        self.threads = set()

    def blocks(self, shard):
        part = self.parts[shard]
        for start in range(part.start, part.stop, 17):
            self.threads.add(threading.get_ident())
            rows = slice(start, min(start + 17, part.stop))
            yield Block(self.X[rows], self.y[rows], start - part.start)

    def digest(self):
        return repr((self.X.tobytes(), self.y.tobytes()))


def mixed(y):
    labels = complement(y, K, n_labels=2, random_state=1)
    labels[::3] = as_sets(complement(y, K, random_state=2)[::3], K)
    labels[1::4] = is_rows(y[1::4], K)
    labels[::11] = False
    return labels


def population(name="ascent", **options):
    given = {"seeds": [0, 1], "lr": [0.01, 0.03], "batch_size": 50} | options
    return Population(lambda: networks.mlp(5, K, hidden=(8,)), objectives.make(name, K), **given)


def dealt(stream, epoch=0, runs=1, batch_size=16):
    """The rows that a stream deals in an epoch, as each run gets them: (C, n), and the batches' sizes."""
    stream.prepare(list(range(runs)), batch_size, torch.device("cpu"))
    rows = [batch.rows for batch in stream.batches(epoch, slice(0, runs))]
    assert len({tuple(r.shape[1:]) for r in rows}) == 1  # all batches of one size
    return torch.cat(rows).transpose(0, 1).flatten(1).numpy()


# ---- windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ascent", "forward", "scarce"])
@pytest.mark.parametrize("labels", ["single", "mixed"])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_window_that_holds_all_rows_trains_as_arrays_do(name, labels, share):
    """The same batches in the same order, whatever the shards are."""
    X, y, y_bar = blobs()
    y_bar = mixed(y) if labels == "mixed" else y_bar
    stream = Stream(Arrays(X, y_bar, [100, 250, 1, 249]), seed=3)
    stream.hold_out(share)
    streamed = population(name).fit(stream, max_epochs=3)
    held_out = np.concatenate([stream.is_held_out(i) for i in range(4)])
    assert (held_out.sum() > 0) == (share > 0)
    rows = {"rows": np.flatnonzero(~held_out)}
    rows |= {"validation_rows": np.flatnonzero(held_out)} if share else {}
    assert_same_runs(streamed, population(name).fit(X, y_bar, max_epochs=3, **rows), 1e-6)


def test_small_windows_deal_each_row_once_and_fill_up_the_last_batch():
    X, _, y_bar = blobs(203)
    stream = Stream(Arrays(X, y_bar, [50, 60, 93]), memory=4000)
    orders = dealt(stream, runs=2)
    assert orders.shape == (2, 13 * 16)
    for order in orders:
        assert set(order) == set(range(203))
    assert (orders[0] != orders[1]).any()  # a run has its own order
    assert (dealt(stream, epoch=1) != orders[:1]).any()  # and each epoch
    assert (dealt(stream) == orders[:1]).all()  # which is always the same
    first = orders[0][:16]
    assert first.max() - first.min() < 203 - 16  # a small window, not a shuffle of all rows


def test_small_windows_learn_as_well():
    X, y, y_bar = blobs()
    runs = population("forward", seeds=[0], lr=0.01).fit(
        Stream(Arrays(X, y_bar, [60] * 10), memory=6000), max_epochs=10
    )
    assert (runs.logits(X, run=0).argmax(-1).numpy() == y).mean() > 0.9


def test_labels_and_inputs_stay_together():
    X = np.arange(100, dtype="float32")[:, None] * [1, 2]
    y_bar = np.arange(100) % K
    stream = Stream(Arrays(X, y_bar, [30, 70]), memory=3000)
    stream.standardize(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    stream.prepare([0], 8, torch.device("cpu"))
    for batch in stream.batches(0, slice(0, 1)):
        torch.testing.assert_close(batch.inputs[..., 0], (batch.rows - 1) / 2.0, check_dtype=False)
        assert torch.equal(batch.labels, batch.rows % K)


@pytest.mark.parametrize("n_parts", [2, 3])
@pytest.mark.parametrize("sizes", [[40, 31, 60, 20, 60], [1, 180, 0, 20, 10]])
def test_processes_part_the_shards_without_overlap(n_parts, sizes):
    """All take the same steps, with batches as large as their parts, so that each row counts about as much."""
    X, _, y_bar = blobs(211)
    seen, steps, rows_per_step = [], set(), 0
    for rank in range(n_parts):
        stream = Stream(Arrays(X, y_bar, sizes), memory=3000, part=(rank, n_parts))
        stream.prepare([0], 16, torch.device("cpu"))
        batches = [batch.rows for batch in stream.batches(0, slice(0, 1))]
        rows = torch.cat(batches).flatten().numpy()
        seen.append(set(rows))
        steps.add(tuple(map(len, batches)))
        rows_per_step += batches[0].shape[-1]
        assert len(rows) - len(seen[-1]) < sum(map(len, batches))  # less than one per step comes again
    assert len(steps) == 1  # no process waits for another
    assert rows_per_step <= 16 + n_parts
    assert set.union(*seen) == set(range(211))
    assert sum(map(len, seen)) == 211


@pytest.mark.parametrize("sizes", [[70, 130] * 3, [90, 170, 250, 90]])
def test_legs_do_not_depend_on_the_number_of_processes(sizes):
    """Where a process has fewer shards than there are legs, they begin within shards, and miss no row."""
    X, _, y_bar = blobs(600)
    for n_parts in (1, 4):
        seen = []
        for rank in range(n_parts):
            stream = Stream(Arrays(X, y_bar, sizes), leg_rows=100, memory=3000, part=(rank, n_parts))
            assert stream.n_legs == 6
            stream.hold_out(0.1)
            for epoch in range(6, 12):
                seen += set(dealt(stream, epoch)[0].tolist())
        assert 500 < stream.n_rows < 600
        assert set(seen) == set(range(stream.n_rows))
        assert len(seen) - len(set(seen)) < 6 * n_parts * (100 // 16 + 1)  # as batches are filled up


def test_scales_and_counts_are_summed_over_processes():
    X, _, y_bar = blobs(200)
    parts = [Stream(Arrays(X, y_bar, [50] * 4), part=(rank, 2)) for rank in range(2)]
    found = [part.survey() for part in parts]
    assert torch.equal(found[0].counts + found[1].counts, Stream(Arrays(X, y_bar, [200])).survey().counts)
    moments = [Moments(), Moments()]
    for m, rows in zip(moments, (slice(0, 80), slice(80, 200))):
        m.add(X[rows])
    # A sum over both, as a process group would give it; each step asks for the same sums in turn.
    asked = [[], []]
    for step in range(4):
        for rank in range(2):
            replies = iter([sum(a[i] for a in asked) for i in range(step)])

            def reduce(tensor, replies=replies, mine=asked[rank]):
                reply = next(replies, None)
                if reply is None:
                    mine.append(tensor)
                    raise StopIteration
                return reply

            try:
                result = moments[rank].result(reduce)
            except StopIteration:
                continue
    assert result[0] == 200
    np.testing.assert_allclose(result[1], X.mean(axis=0, dtype=float), rtol=1e-12)
    np.testing.assert_allclose(result[2], X.std(axis=0, dtype=float), rtol=1e-9)


def test_a_pass_in_legs_resumes_in_its_middle(tmp_path):
    X, _, y_bar = blobs()

    def stream():
        return Stream(Arrays(X, y_bar, [60] * 10), memory=8000, leg_rows=150)

    assert stream().n_legs == 4
    whole = population().fit(stream(), max_epochs=8)
    population().fit(stream(), max_epochs=3, checkpoint=tmp_path / "c")  # three quarters of the first pass
    assert_same_runs(population().fit(stream(), max_epochs=8, checkpoint=tmp_path / "c"), whole)
    rows = [set(dealt(stream(), epoch)[0].tolist()) for epoch in range(4)]
    assert set.union(*rows) == set(range(600))
    assert sum(map(len, rows)) == 600
    other = Stream(Arrays(X + 1, y_bar, [60] * 10), memory=8000, leg_rows=150)
    with raises("is of other data or settings"):
        population().fit(other, max_epochs=8, checkpoint=tmp_path / "c")


def test_batches_of_many_sizes_are_captured_within_bounds(monkeypatch):
    """Graphs replayed train as steps do; a stand-in for a graph here takes the steps of its window."""

    class Graph:
        def __init__(self, stack, window, length, first):
            self.stack, self.window, self.length = stack, window, length
            (graphs,) = (captured.graphs for captured in stack.shapes.values() if captured.window is window)
            assert first == (not graphs)

        def replay(self):
            for i in range(self.length):
                self.stack._step(**{name: t[i] for name, t in self.window.items()})

    X, _, y_bar = blobs()
    sizes, most = [3 * i + 1 for i in range(16)] + [600 - 376], []
    real = Stack._replay

    def replayed(self, steps):
        real(self, steps)
        most.append((len(self.shapes), max(len(captured.window["rows"]) for captured in self.shapes.values())))

    def train():
        return population(batch_size=20).fit(Stream(Arrays(X, y_bar, sizes), memory=20_000, leg_rows=40), max_epochs=30)

    whole = train()
    with monkeypatch.context() as patch:
        patch.setattr(Stack, "captures", property(lambda self: True, lambda self, value: None), raising=False)
        patch.setattr(Stack, "_capture", lambda *given, **how: Graph(*given, **how))
        patch.setattr(Stack, "_replay", replayed)
        patch.setattr(torch.cuda, "synchronize", lambda device: None)
        assert_same_runs(train(), whole, 1e-4)  # a window is laid out in another way than what is dealt
    assert max(n for n, _ in most) == CAPTURED_SHAPES
    assert max(n for _, n in most) < CAPTURED_STEPS  # as many as are dealt at once


def test_a_single_shard_has_legs_and_is_read_once_per_pass(tmp_path):
    """A leg continues where the one before ended, whether it was read before or not."""
    X, _, y_bar = blobs(601)
    read = []

    class Counted(Arrays):
        def blocks(self, shard):
            for block in super().blocks(shard):
                read.append(len(block.inputs))
                yield block

    def stream():
        found = Stream(Counted(X, y_bar, [601]), memory=8000, leg_rows=50)
        found.hold_out(0.1)
        return found

    whole = population(batch_size=16).fit(stream(), max_epochs=24)
    assert stream().n_legs == 12
    assert sum(read) < 3.5 * 601  # to survey them, and two passes; not twelve times as much
    population(batch_size=16).fit(stream(), max_epochs=5, checkpoint=tmp_path / "c")  # not half of the first pass
    assert_same_runs(population(batch_size=16).fit(stream(), max_epochs=24, checkpoint=tmp_path / "c"), whole)
    one, anew = stream(), stream()
    one.prepare([0], 16, torch.device("cpu"))
    legs = []
    for epoch in range(12):
        legs.append(torch.cat([batch.rows for batch in one.batches(epoch, slice(0, 1))]).flatten().tolist())
        assert legs[-1] == dealt(anew, epoch)[0].tolist()
    assert set().union(*legs) == set(range(one.n_rows))
    assert one.n_rows < 601
    assert sum(len(set(leg)) for leg in legs) - one.n_rows <= 12 * 4  # of what fills up the last batches
    tiny = Stream(Arrays(X[:9], y_bar[:9], [9]), leg_rows=1)
    tiny.hold_out(0.5)
    assert set().union(*(dealt(tiny, epoch)[0].tolist() for epoch in range(tiny.n_legs))) == set(range(tiny.n_rows))


def test_a_thread_reads_ahead_and_hands_on_what_goes_wrong():
    X, _, y_bar = blobs(100)
    shards = Arrays(X, y_bar, [50, 50])
    dealt(Stream(shards))
    assert threading.get_ident() not in shards.threads

    def failing():
        yield 1
        raise OSError("the disk is gone")

    items = read_ahead(failing())
    assert next(items) == 1
    with raises("the disk is gone", OSError):
        next(items)


def test_held_out_rows_are_a_fixed_share_and_never_too_many():
    X, _, y_bar = blobs(5000)
    stream = Stream(Arrays(X, y_bar, [1000] * 5))
    stream.hold_out(0.1)
    n = len(stream.survey().held_out[0])
    assert 400 < n < 600
    few = Stream(Arrays(X, y_bar, [1000] * 5), memory=10_000)
    few.hold_out(0.1)
    assert len(few.survey().held_out[0]) == 10_000 // 8 // (4 * 5 + K + 32)  # whose inputs memory is bounded, too
    stream.hold_out(0.5, most=50)
    x, labels = stream.survey().held_out
    assert len(x) == 50
    held_out = np.concatenate([stream.is_held_out(i) for i in range(5)])
    assert (x == X[held_out]).all()
    assert (labels == y_bar[held_out]).all()
    assert set(dealt(stream)[0]) == set(range(4950))  # numbered among those to train on
    assert int(stream.survey().counts[0].sum()) == 4950


def test_no_shard_needs_memory_for_each_of_its_rows(monkeypatch):
    """A CSV file is one shard, whatever its size."""
    X, _, y_bar = blobs(5000)
    whole = Stream(Arrays(X, y_bar, [4900, 100]), memory=30_000)
    whole.hold_out(0.5, most=50)
    rows = dealt(whole)
    monkeypatch.setattr(stream_module, "_CODES_AT_ONCE", 70)
    codes = Stream._codes
    monkeypatch.setattr(Stream, "_codes", lambda self, first, n: codes(self, first, n) if n <= 70 else None)
    stream = Stream(Arrays(X, y_bar, [4900, 100]), memory=30_000)
    stream.hold_out(0.5, most=50)
    assert (dealt(stream) == rows).all()
    assert stream.n_rows == 4950


def test_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * [1, 1, 0] + [0, 1e6, 7]
    moments = Moments()
    for part in np.array_split(X, 7):
        moments.add(part)
    n, mean, scale = moments.result()
    assert n == 500
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scale, [X[:, 0].std(), X[:, 1].std(), 1.0], rtol=1e-6)
    single = Moments()
    single.add(np.zeros((3, 2), dtype=np.uint8))
    assert (single.result()[2] == 255).all()


def test_streams_that_cannot_be_are_refused():
    X, _, y_bar = blobs(100)
    with raises("`part` must be (r, R) with r from 0 to R - 1; got (2, 2)"):
        Stream(Arrays(X, y_bar, [100]), part=(2, 2))
    with raises("there must be a shard for each of 2 processes; got 1 with rows to train on; start fewer processes"):
        Stream(Arrays(X, y_bar, [0, 100, 0]), part=(0, 2))
    unknown = Arrays(X, y_bar, [50, 50])
    unknown.sizes = None
    with raises("the rows of each shard must be known to part them among processes"):
        Stream(unknown, part=(0, 2))
    assert Stream(unknown).survey().n_rows == 100
    with raises("`memory` must be a whole number of at least 1"):
        Stream(unknown, memory=0)
    with raises("shard 1: `y_bar` must hold classes 0 to 3; got 9 at row 33"):
        Stream(Arrays(X, np.where(np.arange(100) == 83, 9, y_bar), [50, 50])).survey()
    X[70, 2] = np.nan
    with raises("shard 1: inputs must be finite numbers; got others at row 20"):
        Stream(Arrays(X, y_bar, [50, 50])).survey()
    with raises("inputs must be numbers; got <U1"):
        Stream(Arrays(np.full((4, 2), "a"), y_bar[:4], [4])).survey()
    with raises("a stream must hold at least one row; got none"):
        Stream(Arrays(X[:0], y_bar[:0], [0])).survey()
    wrong = Arrays(X[:50], y_bar[:50], [50])
    wrong.sizes = [51]
    with raises("shard 0 must stay as it is while it is read; it had 51 rows, and now 50; begin anew"):
        Stream(wrong).survey()
    uneven = Arrays(X[:50], y_bar[:50], [50])
    uneven.y = y_bar[:45]
    with raises("shard 0: each block must have a label per row; got 16 rows and 11 labels"):
        Stream(uneven).survey()
    empty = Stream(Arrays(X[:50], y_bar[:50], [50]))
    empty.hold_out(0.999999)
    with raises("a stream must have rows to train on; all were held out; hold out less"):
        empty.prepare([0], 8, torch.device("cpu"))
    silent = np.zeros((50, K), dtype=bool)
    with raises("a row of a stream that is to train on must rule out a class; got none that does"):
        population().fit(Stream(Arrays(X[:50], silent, [50])), max_epochs=1)
    stream = Stream(Arrays(X[:50], silent, [50]))
    stream.hold_out(0.2)
    stream.survey()
    silent[~stream.is_held_out(0)] = is_rows(y_bar[:50], K)[~stream.is_held_out(0)]
    stream = Stream(Arrays(X[:50], silent, [50]))
    stream.hold_out(0.2)
    with raises("a row of a stream that is held out must rule out a class; got none that does"):
        population().fit(stream, max_epochs=1)  # all epochs would score 0

    class Ragged(Arrays):
        def blocks(self, shard):
            yield from super().blocks(shard)
            yield Block(np.zeros((3, 2), dtype="float32"), np.zeros(3, dtype=int), 50)

    with raises("shard 0: all rows must have the shape (5,); got (2,) at row 50"):
        Stream(Ragged(X[:50], y_bar[:50], [50])).survey()
    given = {"numbers": X[:50], "bytes": np.zeros((50, 5), dtype="uint8"), "narrow": np.zeros((50, 1), dtype="uint8")}
    for first, then, words in (
        ("bytes", "numbers", "all rows must be bytes, as the first are; got other numbers at row 50; make them alike"),
        ("numbers", "bytes", "all rows must be numbers, as the first are; got bytes at row 50; make them alike"),
        ("bytes", "narrow", "all rows must have the shape (5,); got (1,) at row 50"),  # it would be repeated
    ):
        with raises(f"list: {words}"):
            open_stream([(given[name], y_bar[:50]) for name in (first, then)], classes=range(K)).survey()


# ---- files ------------------------------------------------------------------------------------------------------


def read(stream):
    """All inputs and labels of a stream, in the order of its shards."""
    blocks = [block for i in range(len(stream.shards.names)) for block in stream.shards.blocks(i)]
    return np.concatenate([b.inputs for b in blocks]), np.concatenate([b.labels for b in blocks])


def test_files_folders_patterns_and_addresses_are_the_same_table(folder):
    import fsspec

    X, labels = read(open_stream(folder, label="answer"))
    _, _, y_bar = blobs()
    assert (labels == y_bar).all()
    paths = sorted(folder.glob("*.parquet"))
    memory = fsspec.filesystem("memory")
    for path in paths:
        memory.pipe(f"/naysayer-test/{path.name}", path.read_bytes())
    try:
        for place in (
            paths,
            str(folder / "part-*.parquet"),
            "memory://naysayer-test",
            "memory://naysayer-test/*.parquet",
        ):
            again, same = read(open_stream(place, label="answer"))
            assert (again == X).all()
            assert (same == y_bar).all()
        assert open_stream("memory://naysayer-test", label="answer").digest()
    finally:
        memory.rm("/naysayer-test", recursive=True)


def test_a_sample_keeps_the_rows_it_takes_and_no_more(folder, monkeypatch):
    """A few rows from each of many shards must not keep all that was read beside them."""
    tables, blocks, alive = TableShards(folder), [], []
    read_pieces = tables.pieces

    def pieces(*args, **options):
        for piece in read_pieces(*args, **options):
            column = piece.table.columns["x0"]
            blocks.append(weakref.ref(column if column.base is None else column.base))  # which holds the memory
            alive.append(sum(block() is not None for block in blocks))
            yield piece

    monkeypatch.setattr(tables, "pieces", pieces)
    assert tables.sample(20, without="answer").n_rows >= 20
    assert len(alive) == len(tables.names) > 3
    assert max(alive) <= 2


PEAK = """
import sys
import torch
from naysayer import open_stream

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000

def read(place):
    stream = open_stream(place, memory=8 << 20, **({} if place.endswith(".tar") else {"label": "answer"}))
    stream.hold_out(0.1)
    stream.prepare([0], 8, torch.device("cpu"))
    for batch in stream.batches(0, slice(0, 1)):
        pass

torch.set_num_threads(1)
read(sys.argv[1])
before = peak()
read(sys.argv[2])
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells a process's peak of memory")
@pytest.mark.parametrize("kind", ["csv", "tar"])
def test_memory_is_bounded_however_wide_a_row_is(tmp_path, kind):
    """Beyond what a small file takes; whole blocks of the large one would take several times the bound."""
    small, large = tmp_path / f"small.{kind}", tmp_path / f"large.{kind}"
    for path, n in ((small, 100), (large, 6000 if kind == "csv" else 200)):
        if kind == "csv":
            values = np.random.default_rng(0).normal(size=(50, 200))
            lines = [",".join(map(repr, row.tolist())) for row in values]
            with path.open("w") as file:
                file.write(",".join(f"x{j}" for j in range(200)) + ",answer\n")
                file.writelines(f"{lines[i % 50]},!{NAMES[i % K]}\n" for i in range(n))
        else:
            pictures = [image(color, side=400 if n > 100 else 8) for color in ("red", "green", "blue")]
            members = [(f"{i}.png", pictures[i % 3]) for i in range(n)]
            tar(path, [pair for i in range(n) for pair in (members[i], (f"{i}.cls", b"!%d" % (i % 3)))])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PEAK, small, large], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 100  # MB


def test_blocks_of_rows_follow_from_memory(tmp_path):
    (tmp_path / "wide.csv").write_text("\n".join([",".join(f"x{j}" for j in range(50)), *[",".join("1" * 50)] * 300]))
    for memory, rows in ((1 << 20, 80), (1 << 18, 20), (1, 1), (1 << 30, 300)):
        tables = TableShards(tmp_path / "wide.csv", memory=memory)
        sizes = [piece.table.n_rows for piece in tables.pieces(0)]
        assert sum(sizes) == 300
        assert rows <= max(sizes) < 1.1 * rows
    assert TableShards(tmp_path / "wide.csv", memory=1).sample(None, "x0").n_rows == 300  # enough to tell columns by
    with raises("`memory` must be a whole number of at least 1"):
        TableShards(tmp_path / "wide.csv", memory=0)


def test_csv_is_read_as_parquet_is(folder, tmp_path):
    X, _, y_bar = blobs()
    for i, part in enumerate(np.array_split(np.arange(600), 3)):
        rows = [[*map(repr, X[j].tolist()), answers(y_bar)[j]] for j in part]
        with (tmp_path / f"{i}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([[*(f"x{j}" for j in range(5)), "answer"], *rows])
    mine = open_stream(tmp_path / "*.csv", label="answer")
    got, labels = read(mine)
    assert (labels == y_bar).all()
    np.testing.assert_allclose(got, read(open_stream(folder, label="answer"))[0], rtol=1e-4, atol=1e-5)
    assert mine.sizes.tolist() == [200] * 3
    (tmp_path / "semicolons.csv").write_text("a;answer\n1;!ant\n2;!bee\n3;!cat\n4;!dog\n")
    assert read(open_stream(tmp_path / "semicolons.csv", label="answer", delimiter=";"))[0].shape == (4, 1)


def test_folders_named_after_values_are_a_column(tmp_path):
    X, _, y_bar = blobs(100)
    for i, kind in enumerate(("big", "small")):
        (tmp_path / f"size={kind}").mkdir()
        rows = slice(50 * i, 50 * i + 50)
        write(tmp_path / f"size={kind}", X[rows], answers(y_bar)[rows])
    stream = open_stream(tmp_path, label="answer")
    assert stream.shards.encoder.feature_names_[-2:] == ["size=big", "size=small"]
    assert read(stream)[0][:, -1].tolist() == [0.0] * 50 + [1.0] * 50


def test_labels_of_all_kinds_are_read_once_per_value(tmp_path):
    X, _, _ = blobs(8)
    texts = ["!ant", "cat", None, "!ant !bee", "bee|cat", "!dog", "!ant", "cat"]
    stream = open_stream(write(tmp_path / "t", X, texts, rows=3), label="answer")
    assert stream.shards.labels.said == (
        "labels: 3 'not this class', 2 'is this class', 1 that say nothing, 1 'not these classes', "
        "1 'one of these classes'"
    )
    labels = read(stream)[1]
    assert labels.tolist() == [
        [True, False, False, False],
        [True, True, False, True],
        [False] * 4,
        [True, True, False, False],
        [True, False, False, True],
        [False, False, False, True],
        [True, False, False, False],
        [True, True, False, True],
    ]
    plain = write(tmp_path / "plain", X, ["ant", "bee"] * 4)
    assert "(no '!' found" in open_stream(plain, label="answer").shards.labels.said
    numbers = write(tmp_path / "numbers", X, pyarrow.array([1.0, 2.0, None, 3.0] * 2))
    assert open_stream(numbers, label="answer").shards.classes == ["1", "2", "3"]
    assert open_stream(plain, label="answer", classes=["bee", "ant", "cat"]).n_classes == 3


def image(color, side=6, kind="PNG"):
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), color).save(buffer, kind)
    return buffer.getvalue()


def tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_tars_of_images_train(tmp_path):
    colors = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    names = ["red", "green", "blue"]
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 120)
    told = complement(truth, 3, random_state=0)
    for shard in range(3):
        members = []
        for i in range(shard * 40, shard * 40 + 40):
            color = tuple(np.clip(np.array(colors[truth[i]]) + rng.integers(-40, 40, 3), 0, 255).tolist())
            members += [
                (f"{i:04}.png", image(color)),
                (f"{i:04}.cls", f"!{names[told[i]]}".encode()),
                (f"{i:04}.json", b"{}"),
            ]
        tar(tmp_path / f"{shard}.tar", members)
    stream = open_stream(tmp_path / "*.tar")
    assert stream.sizes.tolist() == [40] * 3
    X, labels = read(stream)
    assert X.shape == (120, 3, 6, 6)
    assert X.dtype == np.uint8
    order = [sorted(names).index(name) for name in names]
    assert (labels == np.array(order)[told]).all()
    model = ComplementaryClassifier("forward", network="linear", lr=0.05, max_epochs=12, random_state=0).fit(stream)
    assert (model.predict(X) == np.array(names)[truth]).mean() > 0.9
    assert read(open_stream(tmp_path / "0.tar", size=3))[0].shape == (40, 3, 3, 3)


def test_loaders_and_functions_give_batches():
    X, _, y_bar = blobs()
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(y_bar))
    loader = torch.utils.data.DataLoader(data, batch_size=64)
    whole = population().fit(X, y_bar, max_epochs=2)
    nothing = (X[:0], y_bar[:0])
    for source in (loader, lambda: iter(loader), [nothing, (X[:100], y_bar[:100]), nothing, (X[100:], y_bar[100:])]):
        assert_same_runs(population().fit(open_stream(source, classes=range(K)), max_epochs=2), whole, 1e-6)
    with raises("batches must be there to be read several times; got an iterator"):
        open_stream(iter(loader), classes=range(K))
    with raises("a DataLoader must give its rows in one order; pass shuffle=False"):
        open_stream(torch.utils.data.DataLoader(data, shuffle=True), classes=range(K))
    with raises("`classes` must name all classes where batches are streamed"):
        open_stream(loader)
    with raises("each batch must be a pair (X, y_bar); got Tensor"):
        open_stream([torch.zeros(3)], classes=range(K)).survey()
    with raises("all batches must have labels of one form"):
        open_stream([(X[:4], y_bar[:4]), (X[:4], as_sets(y_bar[:4], K))], classes=range(K)).survey()
    with raises("list: `y_bar` must hold the classes 0, 1, 2, 3; got 7 at row 5"):
        open_stream([(X[:4], y_bar[:4]), (X[:2], [0, 7])], classes=range(K)).survey()
    rng = np.random.default_rng(0)
    changing = open_stream(lambda: [(rng.normal(size=(40, 5)), y_bar[:40])], classes=range(K))
    changing.survey()
    with raises("batches must be the same in every pass; the first has changed"):
        dealt(changing)
    with raises(
        "to resume from a checkpoint, a stream must be of files, or of batches that `digest` tells from others"
    ):
        changing.digest()


def test_several_loaders_are_shards_and_a_digest_lets_them_resume(tmp_path):
    X, _, y_bar = blobs(300)
    parts = [torch.utils.data.TensorDataset(torch.tensor(X[i::3]), torch.tensor(y_bar[i::3])) for i in range(3)]
    loaders = [torch.utils.data.DataLoader(part, batch_size=32) for part in parts]

    def stream(digest="the first", **options):
        return open_stream([loaders[0], lambda: loaders[1], loaders[2]], classes=range(K), digest=digest, **options)

    found = stream()
    assert found.survey().n_rows == 300
    assert found.sizes.tolist() == [100] * 3
    assert found.shards.names == ["DataLoader 0", "function 1", "DataLoader 2"]
    assert set(dealt(found)[0]) == set(range(300))
    whole = population().fit(stream(leg_rows=60), max_epochs=8)
    population().fit(stream(leg_rows=60), max_epochs=3, checkpoint=tmp_path / "c")
    assert_same_runs(population().fit(stream(leg_rows=60), max_epochs=8, checkpoint=tmp_path / "c"), whole)
    with raises("is of other data or settings"):
        population().fit(stream("another", leg_rows=60), max_epochs=8, checkpoint=tmp_path / "c")
    with raises("a stream must hold at least one row; got none"):
        open_stream([], classes=range(K)).survey()
    with raises("DataLoader 1: `y_bar` must hold the classes 0, 1; got"):
        open_stream([[(X[:1], [1])].__iter__, loaders[1]], classes=[0, 1]).survey()
    with raises("`digest` must be left out for files, which are known by their names, sizes and times"):
        open_stream("insects.parquet", label="answer", digest="x")


# ---- bad files --------------------------------------------------------------------------------------------------


def test_bad_files_are_named(folder, tmp_path):
    paths = sorted(folder.glob("*.parquet"))
    with raises("no file at", FileNotFoundError):
        open_stream([*paths, tmp_path / "gone.parquet"], label="answer")
    with raises("no tables or tars in", FileNotFoundError):
        (tmp_path / "empty").mkdir()
        open_stream(tmp_path / "empty", label="answer")
    with raises("a stream needs at least one file; got none", FileNotFoundError):
        files.find_files([])
    with raises("files of a stream must all end in one of .parquet, .csv, .tsv, .tar; got .txt, parquet"):
        (tmp_path / "a.txt").write_text("a")
        open_stream([paths[0], tmp_path / "a.txt"], label="answer")
    with raises("the table must have a column 'anser' (did you mean 'answer'?)"):
        open_stream(folder, label="anser")
    with raises("`label` must name the column that holds the labels"):
        open_stream(folder)
    with raises("a delimiter is for CSV and TSV files"):
        open_stream(folder, label="answer", delimiter=";")
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(paths[1].read_bytes()[:-100])
    with raises("cut.parquet must be a whole Parquet file"):
        open_stream([paths[0], cut], label="answer")
    with raises("cut.parquet must be a whole Parquet file"):
        open_stream([cut], label="answer")
    X, _, y_bar = blobs(20)
    for columns, words in [
        ({"x0": X[:, 0], "answer": answers(y_bar)}, "it has no column 'x1'"),
        (
            {f"x{j}": X[:, j].astype(str) for j in range(5)} | {"answer": answers(y_bar)},
            "column 'x0' is string there, and",
        ),
        ({f"x{j}": X[:, j] for j in range(6 - 1)} | {"answer": answers(y_bar), "z": y_bar}, "it has a column 'z' more"),
        ({"answer": answers(y_bar)} | {f"x{j}": X[:, j] for j in range(5)}, "they are in another order"),
    ]:
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "other.parquet")
        with raises(f"other.parquet must have the columns of {paths[0]}; {words}"):
            open_stream([*paths, tmp_path / "other.parquet"], label="answer")
    pyarrow.parquet.write_table(
        pyarrow.table({"x": pyarrow.array([], "float32"), "answer": []}), tmp_path / "none.parquet"
    )
    with raises("a stream must hold at least one row; got none in"):
        open_stream(tmp_path / "none.parquet", label="answer")


def test_a_wrong_label_far_in_is_named_by_its_file_and_row(tmp_path):
    X, _, y_bar = blobs()
    texts = answers(y_bar)
    texts[437] = "!wolf"
    folder = write(tmp_path / "t", X, texts)
    with raises("part-2.parquet: column 'answer': ") as caught:
        open_stream(folder, label="answer", classes=NAMES)
    assert "'wolf'" in str(caught.value)
    assert "at row 137" in str(caught.value)
    plain = [text[1:] for text in answers(y_bar)]
    plain[437] = "wolf"
    with raises("part-2.parquet: column 'answer' must hold known classes (ant, bee, cat, dog); got 'wolf' at row 137"):
        open_stream(write(tmp_path / "u", X, plain), label="answer", classes=NAMES)
    with raises("column 'answer' must hold labels; all 600 rows are empty"):
        open_stream(
            write(tmp_path / "v", X, pyarrow.array([None] * 599 + [""], "string")), label="answer", classes=NAMES
        )


def test_a_wrong_value_far_in_is_named_by_its_file_and_row(tmp_path):
    for i in range(2):
        rows = [["1", "!ant"], ["2", "!bee"]] * 30
        rows[41 if i else 0] = ["oops" if i else "1", "!cat"]
        with (tmp_path / f"{i}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["x", "answer"], *rows])
    stream = open_stream(tmp_path / "*.csv", label="answer", columns=Columns(numeric=[])).shards
    stream.encoder.fit(files.TableShards(tmp_path / "0.csv").sample(10, "answer"))
    with raises("1.csv: column 'x' must hold numbers; got 'oops' at row 41"):
        Stream(stream).survey()


def test_files_that_change_while_they_are_read_are_refused(folder, tmp_path):
    stream = open_stream(folder, label="answer")
    stream.survey()
    (folder / "part-3.parquet").unlink()
    with raises("part-3.parquet; it was there when reading began", FileNotFoundError):
        dealt(stream)
    (tmp_path / "a.csv").write_text("x,answer\n1,!ant\n2,!bee\n")
    stream = open_stream(tmp_path / "a.csv", label="answer")
    (tmp_path / "a.csv").write_text("x,answer\n1,!ant\n2,!cat\n")
    with raises("a.csv must stay as it is while it is read; got the label '!cat', which is new; begin anew"):
        read(stream)
    (tmp_path / "a.csv").write_text("z,answer\n1,!ant\n2,!bee\n")
    with raises("a.csv must stay as it is while it is read; its columns have changed; begin anew"):
        read(stream)


def test_bad_csv_files_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,answer\n1,!ant\n2,!bee\n")
    (tmp_path / "b.csv").write_text("y,answer\n1,!ant\n")
    with raises("b.csv must have the columns of"):
        open_stream([tmp_path / "a.csv", tmp_path / "b.csv"], label="answer")
    (tmp_path / "b.csv").write_text("")
    with raises("b.csv must hold a table; it is empty"):
        open_stream(tmp_path / "b.csv", label="answer")
    (tmp_path / "b.csv").write_text("x,answer\n")
    with raises("a stream must hold at least one row; got only the names of columns"):
        open_stream(tmp_path / "b.csv", label="answer")
    (tmp_path / "b.csv").write_text("x,x\n1,!ant\n")
    with raises("b.csv must name each column once; got 'x' more than once"):
        open_stream(tmp_path / "b.csv", label="answer")
    (tmp_path / "b.csv").write_text("x,answer\n1,!ant\n2\n")
    with raises("b.csv must have 2 values on each line, as its header has; got 1 at line 3"):
        open_stream([tmp_path / "a.csv", tmp_path / "b.csv"], label="answer")
    (tmp_path / "b.csv").write_bytes(b"x,answer\n1,!ant\xff\n")
    with raises("b.csv must be text in UTF-8; invalid start byte; save it as UTF-8"):
        open_stream([tmp_path / "a.csv", tmp_path / "b.csv"], label="answer")
    with raises("a table must be Parquet, CSV or TSV; got"):
        files.TableShards(tar(tmp_path / "a.tar", [("1.cls", b"a")]))


def test_a_column_of_texts_that_do_not_repeat_is_no_label(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_LABELS", 20)
    X, _, _ = blobs(30)
    with raises("column 'answer' must hold labels, which repeat themselves; got more than 20 different values"):
        open_stream(write(tmp_path / "t", X, [f"!{i}" for i in range(30)]), label="answer")

    sets = [f"!a{i} !b{j}" for i in range(6) for j in range(5)]  # of 11 classes
    with raises("got more than 20 different values; is it the right column?"):
        open_stream(write(tmp_path / "u", X, sets), label="answer")
    monkeypatch.setattr(files, "MOST_LABELS", 5)
    few = [f"!{a} !{b}" for a, b in itertools.permutations("abc", 2)] * 5  # 6 sets of 3 classes
    with raises("got more than 5 different values"):
        open_stream(write(tmp_path / "v", X, few), label="answer")


def test_sets_of_labels_may_be_more_than_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_LABELS", 150)
    X, _, _ = blobs(220)
    names = list("abcdefghijkl")
    place = write(tmp_path / "t", X, [f"!{a} !{b} !{c}" for a, b, c in itertools.combinations(names, 3)])
    for classes in (names, None):
        assert read(open_stream(place, label="answer", classes=classes))[1].sum() == 3 * 220
    for name, most in (("_BYTES_OF_SETS", 12 * 210), ("MOST_SETS", 200)):
        monkeypatch.setattr(files, name, most)
        with raises(f"got more than {210 if name[0] == '_' else 200} different values; is it the right column?"):
            open_stream(place, label="answer", classes=names)


def test_parquet_of_pandas_is_one_table_whatever_its_index_and_kinds_of_numbers(tmp_path):
    """A filter leaves an index, a missing value makes whole numbers floats, a column without values has no type."""
    X, _, y_bar = blobs(90)
    frame = pandas.DataFrame({"x0": X[:, 0], "n": np.arange(90), "t": ["a", "b", "c"] * 30, "answer": answers(y_bar)})
    for i in range(3):
        part = frame[30 * i : 30 * i + 30]
        part = part.reset_index(drop=True) if i == 0 else part.set_axis(pandas.Index(part.index.tolist()))
        if i == 1:
            part = part.assign(n=part.n.astype(float).where(part.n != 40), t=None)
        part.to_parquet(tmp_path / f"{i}.parquet")
    kinds = [pyarrow.parquet.read_schema(tmp_path / f"{i}.parquet") for i in range(3)]
    assert [kind.names[-1] == "__index_level_0__" for kind in kinds] == [False, True, True]
    assert len({kind.field("n").type for kind in kinds}) == 2
    for paths in ([0, 1, 2], [1, 0, 2]):
        tables = TableShards([tmp_path / f"{i}.parquet" for i in paths])
        assert tables.columns == ["x0", "n", "t", "answer"]
        table = tables.sample(90, without="answer")
        n = np.where(np.arange(90) == 40, np.nan, np.arange(90.0))
        np.testing.assert_array_equal(table.columns["n"], np.concatenate([n[30 * i : 30 * i + 30] for i in paths]))
        assert sum(value is None for value in table.columns["t"]) == 30
        assert open_stream(tables.files, label="answer").survey().n_rows == 90


def test_places_must_be_of_one_file_system(folder):
    import fsspec

    memory, local = fsspec.filesystem("memory"), sorted(map(str, folder.glob("*.parquet")))
    memory.pipe("/naysayer-mixed/0.parquet", (folder / "part-0.parquet").read_bytes())
    try:
        for other in (local[1], f"file://{local[1]}"):
            for places in (["memory://naysayer-mixed/0.parquet", other], [other, "memory://naysayer-mixed/0.parquet"]):
                with raises(f"all addresses of one file system; got {places[0]} and {places[1]}; copy them to one"):
                    open_stream(places, label="answer")
    finally:
        memory.rm("/naysayer-mixed", recursive=True)


def test_a_file_that_was_replaced_is_other_data(tmp_path):
    """Also where a file system tells neither a time nor a tag by the names that most use."""
    import fsspec

    memory = fsspec.filesystem("memory")  # which tells when a file was created
    memory.pipe("/naysayer-digest/a.csv", b"x,answer\n1,!a\n2,!b\n")
    try:
        first = files.digest_of(["/naysayer-digest/a.csv"], memory)
        assert files.digest_of(["/naysayer-digest/a.csv"], memory) == first
        memory.pipe("/naysayer-digest/a.csv", b"x,answer\n1,!a\n3,!b\n")
        assert files.digest_of(["/naysayer-digest/a.csv"], memory) != first
    finally:
        memory.rm("/naysayer-digest", recursive=True)
    told = [
        files._version({"size": 3, name: value}) for name in ("etag", "last_modified", "of its own") for value in "ab"
    ]
    assert all(one != other for one, other in zip(told[::2], told[1::2], strict=True))


def test_parquet_needs_pyarrow(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.dataset", None)
    with raises("reading Parquet needs pandas and pyarrow: pip install 'naysayer[tables]'", ImportError):
        open_stream(folder, label="answer")


def test_bad_tars_are_named(tmp_path):
    good = [("1.png", image("red")), ("1.cls", b"!a"), ("2.png", image("blue")), ("2.cls", b"!b")]
    with raises("images must come in tars; got"):
        (tmp_path / "a.csv").write_text("a")
        features.TarShards(tmp_path / "a.csv")
    cases = [
        ([*good, ("3.png", b"no image"), ("3.cls", b"!a")], "x.tar: 3.png must be a whole image"),
        ([*good, ("3.cls", b"!a")], "x.tar: 3 must have an image"),
        ([*good, ("3.png", image("red"))], "it has no label 3.cls beside its image"),
        (
            [*good, ("3.png", image("red", side=7)), ("3.cls", b"!a")],
            "3.png is 7 by 7, and the first 6 by 6; pass size=",
        ),
    ]
    for members, words in cases:
        with raises(words):
            read(open_stream(tar(tmp_path / "x.tar", members)))
    content = tar(tmp_path / "x.tar", good).read_bytes()
    (tmp_path / "cut.tar").write_bytes(content[:1200])
    with raises("cut.tar must be a whole tar file"):
        open_stream(tmp_path / "cut.tar")


# ---- classifiers ------------------------------------------------------------------------------------------------


def test_a_classifier_learns_from_a_stream_and_is_saved(folder, tmp_path):
    _, y, _ = blobs()
    stream = open_stream(folder, label="answer")
    model = ComplementaryClassifier(max_epochs=8, random_state=0).fit(stream)
    inputs, _ = read(stream)
    truth = np.array(NAMES)[y]
    assert model.classes_.tolist() == NAMES
    assert (model.predict(inputs) == truth).mean() > 0.9
    _, low, high = model.estimated_accuracy_
    assert low < (model.predict(inputs) == truth).mean() < max(high, 1.0)
    assert {trial["network"] for trial in model.trials_} == {"mlp", "linear"}
    model.save(tmp_path / "model")
    again = ComplementaryClassifier.load(tmp_path / "model")
    assert (again.predict_proba(inputs) == model.predict_proba(inputs)).all()
    repeated = ComplementaryClassifier(max_epochs=8, random_state=0).fit(open_stream(folder, label="answer"))
    assert (repeated.predict_proba(inputs) == model.predict_proba(inputs)).all()


def test_a_stream_is_predicted_and_scored_as_its_rows_are(folder, tmp_path):
    stream = open_stream(folder, label="answer")
    model = ComplementaryClassifier("forward", lr=0.01, max_epochs=2, random_state=0).fit(stream)
    inputs, labels = read(stream)
    assert (model.predict(stream) == model.predict(inputs)).all()
    assert (model.predict_proba(stream) == model.predict_proba(inputs)).all()
    assert model.score(stream) == pytest.approx(model.score(inputs, np.array(NAMES)[labels]))
    with raises("`y_bar` and `sample_weight` must be None where `X` is a stream"):
        model.score(stream, labels)
    two = open_stream([(inputs[:4], ["ant", "bee", "ant", "bee"])], classes=["bee", "ant"])
    with raises("the stream must have the classes of the model, ant, bee, cat, dog; got bee, ant; pass them to open"):
        model.predict(two)


def test_a_loop_of_ones_own_goes_over_a_stream(folder):
    """Each pass gives every row to train on, in another order, with its label, scaled if it was asked to."""
    for options in ({"memory": 6000}, {"leg_rows": 150}):
        stream = open_stream(folder, label="answer", columns=Columns(), batch_size=50, **options)
        inputs, labels = read(stream)
        label = {row.tobytes(): k for row, k in zip(inputs, labels)}
        orders = []
        for _ in range(2):
            batches = list(stream)
            assert all(x.shape == (len(x), 5) and x.dtype == torch.float32 and len(x) <= 50 for x, _ in batches)
            x, y = (torch.cat(part) for part in zip(*batches))
            assert [label[row.numpy().tobytes()] for row in x] == y.tolist()
            assert 600 <= len(x) < 600 + len(batches)  # what fills up the last one of each leg comes again
            assert {row.numpy().tobytes() for row in x} == set(label)
            orders.append(x)
        assert (orders[0] != orders[1]).any()
    stream.standardize(np.full(5, 1.0), np.full(5, 2.0))
    x = torch.cat([x for x, _ in stream])
    assert {row.numpy().tobytes() for row in x} == {((row - 1) / 2).tobytes() for row in inputs}
    pixels = open_stream([(np.full((8, 3, 2, 2), 255, np.uint8), [0, 1] * 4)], classes=[0, 1], batch_size=4)
    assert [x.unique().tolist() for x, _ in pixels] == [[1.0], [1.0]]
    with raises("`batch_size` must be a whole number of at least 1"):
        open_stream(folder, label="answer", batch_size=0)
    parts = [open_stream(folder, label="answer", part=(rank, 2), batch_size=50) for rank in range(2)]
    dealt_rows = [{row.numpy().tobytes() for x, _ in part for row in x} for part in parts]
    assert dealt_rows[0] | dealt_rows[1] == set(label)
    assert not dealt_rows[0] & dealt_rows[1]


def test_a_streamed_classifier_is_the_population_that_arrays_train(folder):
    """The network, the scale and the rows held out are what the same rows in memory give."""
    stream = open_stream(folder, label="answer")
    settings = {"hidden": (8,), "lr": 0.01, "batch_size": 50, "max_epochs": 4, "random_state": 5}
    model = ComplementaryClassifier("ascent", **settings).fit(stream)
    X, y_bar = read(stream)
    scaled = ((X - X.mean(axis=0, dtype=float)) / X.std(axis=0, dtype=float)).astype("float32")
    held_out = np.concatenate([stream.is_held_out(i) for i in range(len(stream.sizes))])
    rng = generator(5)
    rng.integers(2**31)  # the seed of the rows held out
    options = {"seeds": [int(rng.integers(2**31, size=1)[0])], "lr": 0.01, "weight_decay": 1e-4}
    runs = population("ascent", **options).fit(scaled, y_bar, rows=np.flatnonzero(~held_out), max_epochs=4)
    for name, value in runs.parameters.items():
        torch.testing.assert_close(model.members_[0].parameters[name], value, rtol=1e-4, atol=1e-5)


def test_a_classifier_resumes_in_the_middle_of_a_pass(folder, tmp_path):
    settings = {"method": "forward", "lr": 0.01, "max_epochs": 2, "random_state": 0}
    inputs, _ = read(open_stream(folder, label="answer"))

    def fit(**options):
        stream = open_stream(folder, label="answer", leg_rows=100)
        return ComplementaryClassifier(**settings, **options).fit(stream)

    whole = fit()
    assert whole.trials_[0]["epoch"] == 1
    assert len(whole.history_["loss"]) == 12  # six legs per pass
    calls = []

    def stop():
        calls.append(None)
        if len(calls) == 5:  # in the first pass
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("naysayer.engine.population.CHECKPOINT_SECONDS", -1.0)
        with pytest.warns(UserWarning, match="training was interrupted"):
            fit(checkpoint=tmp_path / "c", on_epoch=stop)
    assert (tmp_path / "c").exists()
    resumed = fit(checkpoint=tmp_path / "c")
    assert (resumed.predict_proba(inputs) == whole.predict_proba(inputs)).all()
    assert not (tmp_path / "c").exists()


def test_a_schedule_counts_passes(folder):
    asked = []

    def schedule(epoch):
        asked.append(epoch)
        return 1.0

    stream = open_stream(folder, label="answer", leg_rows=200)
    ComplementaryClassifier("forward", lr=0.01, max_epochs=2, schedule=schedule, random_state=0).fit(stream)
    assert set(asked) == {0, 1}
    assert stream.n_legs == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"patience": 3}, "`patience` and `warm_start` must be left out where `X` is a stream"),
        ({"warm_start": True}, "`patience` and `warm_start` must be left out where `X` is a stream"),
        ({"method": ["forward", "forest"]}, "`method` must name networks' methods where `X` is a stream; 'forest'"),
        ({"recipe": "consistency"}, "`recipe` must be 'plain' for a stream or `partial_fit`; the others"),
        ({"validation_fraction": 1e-9}, "a stream must have at least 2 labelled rows to hold out"),
    ],
)
def test_what_needs_all_rows_is_refused_on_a_stream(folder, options, words):
    with raises(words):
        ComplementaryClassifier(**options, random_state=0).fit(open_stream(folder, label="answer"))


def test_too_few_rows_to_judge_by_are_refused():
    X, _, y_bar = blobs(100)
    wide = Stream(Arrays(np.repeat(X, 100, axis=1), y_bar, [100]), memory=4000)
    with raises("a stream must have at least 2 labelled rows to hold out, and others to learn from; got 1 of 100; add"):
        ComplementaryClassifier("forward", random_state=0).fit(wide)


def test_labels_beside_a_stream_are_refused(folder):
    with raises("`y_bar` and `sample_weight` must be None where `X` is a stream"):
        ComplementaryClassifier().fit(open_stream(folder, label="answer"), [0, 1])


def test_partial_fit_learns_from_parts_and_judges_before_it_learns():
    X, y, y_bar = blobs(1200)
    model = ComplementaryClassifier(classes=range(K), batch_size=16, random_state=0)
    estimates = [model.partial_fit(X[i : i + 200], y_bar[i : i + 200]).estimated_accuracy_ for i in range(0, 1200, 200)]
    assert abs(estimates[0].estimate - 1 / K) < 0.35  # nothing was learned yet
    assert estimates[-1].low > 0.7
    assert (model.predict(X) == y).mean() > 0.9
    again = ComplementaryClassifier(batch_size=16, random_state=0)
    for i in range(0, 1200, 200):
        again.partial_fit(X[i : i + 200], y_bar[i : i + 200], classes=range(K))
    assert (again.predict_proba(X) == model.predict_proba(X)).all()
    model.set_params(method="forward", lr=0.01, max_epochs=1, n_seeds=1).fit(X, y_bar)  # forgets it
    with raises("`partial_fit` must continue what it began, and this model was trained by `fit`; pass all rows to"):
        model.partial_fit(X[:20], y_bar[:20])


@pytest.mark.parametrize("name", ["forward", "ascent"])
def test_copies_of_a_model_continue_partial_fit_where_it_was(tmp_path, name):
    """Weights, optimiser and counts of labels come along: what is copied learns as the model itself does."""
    X, y, y_bar = blobs(900)
    y_bar = mixed(y)
    model = ComplementaryClassifier(name, classes=range(K), hidden=(8,))  # its seed is drawn once
    for i in range(0, 600, 100):
        model.partial_fit(X[i : i + 100], y_bar[i : i + 100])
    model.save(tmp_path / "model")
    copies = [
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        ComplementaryClassifier.load(tmp_path / "model", device="cpu"),
    ]
    copies[2].save(tmp_path / "again")  # as it was loaded
    copies.append(ComplementaryClassifier.load(tmp_path / "again", device="cpu"))
    before = model.predict_proba(X)
    for one in (model, *copies):
        for i in range(600, 900, 150):
            one.partial_fit(X[i : i + 150], y_bar[i : i + 150])
        assert one.estimated_accuracy_ == model.estimated_accuracy_
        assert (one.predict_proba(X) == model.predict_proba(X)).all()
    assert (model.predict_proba(X) != before).any()
    assert not hasattr(clone(model), "_course")
    changed = pickle.loads(pickle.dumps(model)).set_params(hidden=(9,))
    with raises("the model must keep the settings it learned by; its network, objective or optimizer has changed"):
        changed.partial_fit(X[:20], y_bar[:20])


def test_a_stream_has_no_names_of_features():
    X, _, y_bar = blobs(120)
    stream = open_stream(lambda: iter([(X, y_bar)]), classes=range(K))
    model = ComplementaryClassifier("forward", lr=0.01, max_epochs=1, n_seeds=1, random_state=0)
    model.fit(pandas.DataFrame(X, columns=list("abcde")), y_bar).fit(stream)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X).shape == (120,)


def test_partial_fit_goes_on_as_one_loop_over_all_batches_would():
    """Optimiser and label counts are kept from call to call: a plain loop with torch's own Adam comes to the same."""
    X, _, y_bar = blobs(240)
    model = ComplementaryClassifier(
        "forward", lr=0.01, weight_decay=0.0, batch_size=60, standardize=False, random_state=1
    )
    build = lambda: networks.mlp(5, K, (8,))  # noqa: E731
    model.set_params(hidden=(8,))
    for i in range(0, 240, 60):
        model.partial_fit(X[i : i + 60], y_bar[i : i + 60], classes=range(K))
    seed = int(generator(1).integers(2**31))
    network = Population(build, objectives.Forward(K), seeds=[seed]).network(0).train()
    optimizer, objective = torch.optim.Adam(network.parameters(), lr=0.01), objectives.Forward(K)
    for i in range(0, 240, 60):
        optimizer.zero_grad()
        objective(network(torch.tensor(X[i : i + 60])), torch.tensor(y_bar[i : i + 60])).backward()
        optimizer.step()
    expected = network.eval()(torch.tensor(X)).softmax(-1).detach().numpy()
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=2e-3, atol=1e-4)


def test_partial_fit_counts_all_labels_that_it_has_seen():
    X, _, _ = blobs(90)
    model = ComplementaryClassifier("ascent", lr=0.01, batch_size=30, random_state=0)
    labels = [np.zeros(30, dtype=int), np.ones(30, dtype=int), np.full(30, 3)]
    for i, y_bar in enumerate(labels):
        model.partial_fit(X[30 * i : 30 * i + 30], y_bar, classes=range(K), sample_weight=np.full(30, 1.0 + (i == 2)))
    np.testing.assert_allclose(model._course.stack.prior[0].numpy(), [0.25, 0.25, 0.0, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({}, {}, "the first call of `partial_fit` must name all classes; pass classes=[...]"),
        ({"method": ["forward", "ascent"]}, {"classes": range(K)}, "`partial_fit` trains one run"),
        ({"lr": [0.1, 0.2]}, {"classes": range(K)}, "`method` must name one method, and `lr` one learning rate"),
        ({"recipe": "consistency"}, {"classes": range(K)}, "`recipe` must be 'plain' for a stream or `partial_fit`"),
        ({"method": "forest"}, {"classes": range(K)}, "'forest' needs all rows at once"),
        ({}, {"classes": [0, 1]}, "`y_bar` must hold the classes 0, 1; got"),
    ],
)
def test_partial_fits_that_cannot_be_are_refused(options, given, words):
    X, _, y_bar = blobs(40)
    with raises(words):
        ComplementaryClassifier(**options).partial_fit(X, y_bar, **given)


def test_later_calls_of_partial_fit_are_checked():
    X, _, y_bar = blobs(40)
    model = ComplementaryClassifier("forward", lr=0.1, random_state=0).partial_fit(X, y_bar, classes=range(K))
    with raises("`classes` must be those of the first call, [0, 1, 2, 3]; leave them out"):
        model.partial_fit(X, y_bar, classes=range(5))
    with raises("`X` and `y_bar` must have the same number of rows; got 40 and 39"):
        model.partial_fit(X, y_bar[1:])
    with raises("X has 4 features"):
        model.partial_fit(X[:, 1:], y_bar)
    huge = ComplementaryClassifier("free", lr=1e30, batch_size=8, random_state=0)
    with raises("the loss must stay finite; it was"):
        for _ in range(5):
            huge.partial_fit(X, y_bar, classes=range(K))


# ---- the commands -----------------------------------------------------------------------------------------------

HOW = ("--label", "answer", "--method", "forward", "--lr", "0.01", "--epochs", "6")


def test_the_commands_stream_several_files(naysayer, folder, tmp_path):
    """Predictions and estimates are those of the same rows in one file, read whole."""
    paths = sorted(folder.glob("*.parquet"))
    model = tmp_path / "model"
    done = naysayer("train", *paths, "--out", model, *HOW)
    assert done.code == 0, done.err
    assert "labels: 600 'not this class'" in done.out
    assert "columns 'x0'" in done.out or "column 'x0': number" in done.out
    whole = tmp_path / "whole.parquet"
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(folder), whole)
    one = naysayer("predict", model, whole, "--probabilities")
    for place in ([*paths], [folder], [folder / "*.parquet"], [whole, "--memory", "1"]):
        assert naysayer("predict", model, *place, "--probabilities") == one
    kept = naysayer("predict", model, folder, "--out", tmp_path / "out.csv", "--probabilities")
    assert "600 predictions are in" in kept.err
    assert (tmp_path / "out.csv").read_text() == one.out
    assert naysayer("predict", model, folder, "--json").json == naysayer("predict", model, whole, "--json").json
    copied = naysayer("predict", model, folder, "--id", "x1").out.splitlines()[0]
    assert copied == "row,x1,prediction,probability"
    assert naysayer("predict", model, f"file://{folder}", "--probabilities") == one  # an address of a folder
    streamed = naysayer("evaluate", model, f"file://{folder}", "--json").json
    assert streamed.pop("rows") == 600
    in_memory = naysayer("evaluate", model, whole, "--json").json
    assert streamed["labels"].split(" (")[0] == in_memory["labels"].split(" (")[0]
    assert streamed["accuracy"] == in_memory["accuracy"]
    assert streamed["classes"] == in_memory["classes"]


def test_the_command_trains_on_one_file_as_asked(naysayer, folder, tmp_path):
    place, out = folder / "part-0.parquet", tmp_path / "model"
    done = naysayer("train", place, "--out", out, *HOW, "--memory", "1", "--json")
    assert done.json["rows"] == 150
    assert done.json["classes"] == NAMES
    assert naysayer("train", place, "--out", out, *HOW, "--memory", "1", "--json", "--force").json == done.json


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--memory", "0", "--label", "answer"), "--memory must be a whole number of at least 1; got 0"),
        ((), "Missing option '--label': the column that holds the labels"),
        (("--label", "answer", "--numeric", "answer"), "a column must have one use; 'answer' is the label"),
        (("--label", "answer", "--report", "report.html"), "--report needs all rows in memory"),
        (("--label", "answer", "--classes", "ant,bee"), "part-0.parquet: column 'answer': "),
        (("--label", "nothing"), "the table must have a column 'nothing'"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(naysayer, folder, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = naysayer("train", folder, "--out", tmp_path / "model", *arguments)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_addresses_of_files_are_told_from_those_of_databases(naysayer, tmp_path):
    for address in ("nowhere://bucket/folder", "nowhere://bucket/part-*.csv"):
        done = naysayer("train", address, "--label", "answer", "--out", tmp_path)
        assert done.err.startswith(f"naysayer: a stream's address must be one that fsspec can open; got {address}; ")
    for address in ("postgresql://me:a*b@host/answers", "mysql://host/answers.csv"):
        done = naysayer("train", address, "--label", "answer", "--out", tmp_path)
        assert "--label is for tables; " in done.err


def test_a_checkpoint_of_other_files_is_refused(naysayer, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(ComplementaryClassifier, "_drop_checkpoints", lambda *_: None)
    assert naysayer("train", folder, "--out", tmp_path / "model", *HOW).code == 0
    X, _, y_bar = blobs(300, seed=1)
    write(folder, X, answers(y_bar))
    done = naysayer("train", folder, "--out", tmp_path / "model", *HOW, "--force")
    assert "is of other data or settings" in done.err
    assert "--restart" in done.err
