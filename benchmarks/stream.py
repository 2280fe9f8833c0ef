"""Data larger than memory: train one epoch, predict and evaluate within a limit of memory that the kernel enforces.

Makes Parquet files of N rows and 20 columns with one complementary label each (about 80 bytes per row), by parts, from
a seed. Each command then runs in a process of its own whose writable memory the kernel limits (RLIMIT_DATA: heap,
private mappings, stacks of threads; an allocation beyond it fails). Beside the rows per second of each stand those of a
plain scan of the same files by pyarrow, without such a limit, and of training in memory on a part of them. On that part
the streamed network must equal the one that was trained in memory, up to the order of sums. Seconds of commands include
their start. What is done is kept in the folder, so that the same call resumes after an interruption.

    python benchmarks/stream.py --rows 100000000 --folder /tmp/stream --memory 1500 --out benchmarks/results
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import hardware, save
from naysayer.common.files import write_text

SOURCE = str(Path(__file__).parents[1] / "src")
N_COLUMNS, N_CLASSES = 20, 10
FILE_ROWS, GROUP_ROWS = 2_000_000, 1 << 17
AMPLE = 16_000  # MB, for what is not ours: pyarrow's scan keeps more than a small limit allows
BATCH = 256  # what the command takes for so many rows


def make(folder: Path, n_rows: int, seed: int) -> int:
    """Write the files that are not there yet; give their bytes."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    centers = np.random.default_rng(seed).normal(size=(N_CLASSES, N_COLUMNS)).astype("float32")
    names = np.array([f"!{k}" for k in range(N_CLASSES)])
    paths = []
    for i, start in enumerate(range(0, n_rows, FILE_ROWS)):
        n = min(FILE_ROWS, n_rows - start)
        paths.append(folder / f"part-{i:04}-{n}.parquet")
        if paths[-1].exists():
            continue
        rng = np.random.default_rng([seed, i])
        temporary = folder / f".{paths[-1].name}"
        with pyarrow.parquet.ParquetWriter(temporary, _schema(), use_dictionary=["answer"]) as writer:
            for begin in range(0, n, GROUP_ROWS):
                size = min(GROUP_ROWS, n - begin)
                y = rng.integers(0, N_CLASSES, size)
                X = rng.standard_normal((size, N_COLUMNS), dtype="float32") + 0.7 * centers[y]
                not_this = (y + rng.integers(1, N_CLASSES, size)) % N_CLASSES
                columns = [pyarrow.array(X[:, j]) for j in range(N_COLUMNS)]
                answer = pyarrow.DictionaryArray.from_arrays(not_this.astype("int32"), names).cast(pyarrow.string())
                writer.write_table(pyarrow.Table.from_arrays([*columns, answer], schema=_schema()))
        temporary.rename(paths[-1])
    return sum(path.stat().st_size for path in paths)


def _schema() -> Any:
    import pyarrow

    return pyarrow.schema([(f"x{j}", pyarrow.float32()) for j in range(N_COLUMNS)] + [("answer", pyarrow.string())])


def scan(folder: Path) -> dict[str, float]:
    """Read all columns of all rows by pyarrow, as it does unless told otherwise, and do nothing with them."""
    import pyarrow.dataset

    begun, n = time.perf_counter(), 0
    for batch in pyarrow.dataset.dataset(folder, format="parquet").to_batches():
        n += batch.num_rows
    return {"rows": n, "seconds": time.perf_counter() - begun}


def compare(folder: Path, data: Path, n_rows: int, seed: int) -> dict[str, Any]:
    """Train on a part of the rows in memory and from files, with a window that holds them all: the same network."""
    import pyarrow.dataset
    import pyarrow.parquet
    import torch

    from naysayer import Population, networks, objectives, open_stream

    part = folder / "part-in-memory"
    part.mkdir(exist_ok=True)
    table = pyarrow.dataset.dataset(sorted(map(str, data.glob("*.parquet"))), format="parquet").head(n_rows)
    pyarrow.parquet.write_table(table, part / "part.parquet", row_group_size=GROUP_ROWS)
    stream = open_stream(part, label="answer", memory=1 << 30)
    blocks = [block for i in range(len(stream.shards.names)) for block in stream.shards.blocks(i)]
    X, y_bar = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    seconds, trained = [], []
    for data in ((X, y_bar), (stream,)):
        runs = Population(
            lambda: networks.mlp(N_COLUMNS, N_CLASSES, (128,)),
            objectives.Forward(N_CLASSES),
            seeds=[seed],
            lr=0.003,
            batch_size=BATCH,
        )
        begun = time.perf_counter()
        trained.append(runs.fit(*data, max_epochs=1))
        seconds.append(time.perf_counter() - begun)
    gaps = [(p - trained[1].parameters[name]).abs().max() for name, p in trained[0].parameters.items()]
    apart = float(torch.stack(gaps).max())
    assert apart < 1e-3, f"the streamed network must equal the one trained in memory; parameters are {apart:g} apart"
    return {"rows": len(X), "seconds": seconds[0], "seconds_streamed": seconds[1], "largest_difference": apart}


def limited(megabytes: int, *arguments: str) -> dict[str, Any]:
    """Run a command in a process whose memory is limited; give its seconds, its largest memory and what it printed."""
    limit = megabytes * 1_000_000
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": SOURCE},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{arguments} ended with {process.returncode}"
    done = {"seconds": time.perf_counter() - begun, "cpu_seconds": used.ru_utime + used.ru_stime}
    return done | {"resident_mb": used.ru_maxrss / 1000, "out": printed}


def lines(path: Path) -> int:
    """Count the lines of a file."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part", type=int, default=1_000_000, help="rows that are also trained on in memory")
    parser.add_argument("--folder", type=Path, default=Path("stream-data"))
    parser.add_argument("--memory", type=int, default=1500, help="MB that each command may have")
    parser.add_argument("--window", type=int, default=256, help="MB of it for rows, as --memory says")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stage", choices=["scan", "compare"], help=argparse.SUPPRESS)
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    data = options.folder / f"rows-{options.rows}-seed-{options.seed}"
    if options.stage is not None:
        n = min(options.part, options.rows)
        print(json.dumps(scan(data) if options.stage == "scan" else compare(options.folder, data, n, options.seed)))
        return
    begun = time.perf_counter()
    size = make(data, options.rows, options.seed)
    print(
        f"{options.rows:,} rows, {size / 1e9:.2f} GB on disk, made in {time.perf_counter() - begun:.0f} s", flush=True
    )
    limits = options.folder / f"{data.name}-memory-{options.memory}-window-{options.window}"
    model, predicted, kept = limits / "model", limits / "predictions.csv", limits / "done.json"
    own = [__file__, *sys.argv[1:], "--stage"]
    window = ["--memory", str(options.window)]
    how = ["--label", "answer", "--method", "forward", "--lr", "0.003", "--epochs", "1", "--force", "--json", *window]
    stages = {
        "scan by pyarrow": [*own, "scan"],
        "train, one epoch": ["-m", "naysayer", "train", str(data), "--out", str(model), *how],
        "predict": ["-m", "naysayer", "predict", str(model), str(data), "--out", str(predicted), *window],
        "evaluate": ["-m", "naysayer", "evaluate", str(model), str(data), "--json", *window],
    }
    result: dict[str, Any] = {"rows": options.rows, "columns": N_COLUMNS, "bytes": size, "limit_mb": options.memory}
    finished = json.loads(kept.read_text()) if kept.exists() else {}
    for name, arguments in stages.items():
        if name not in finished:
            done = limited(AMPLE if name == "scan by pyarrow" else options.memory, *arguments)
            printed = json.loads(done.pop("out") or "{}")
            done |= printed if name == "scan by pyarrow" else {}
            done["rows_per_second"] = options.rows / done["seconds"]
            if name in ("train, one epoch", "evaluate"):
                done["accuracy"] = printed["accuracy"]
            if name == "predict":
                done |= {"bytes": predicted.stat().st_size, "predictions": lines(predicted) - 1}
                assert done["predictions"] == options.rows, f"each row must be predicted once; got {done}"
            finished[name] = done
            write_text(kept, json.dumps(finished))
        done = finished[name]
        print(
            f"{name:18} {done['seconds']:8.1f} s {done['rows_per_second']:12,.0f} rows/s "
            f"{done['resident_mb']:7.0f} MB resident",
            flush=True,
        )
    result |= finished
    part = json.loads(limited(AMPLE, *own, "compare")["out"])
    result["part"] = part
    for name, seconds in (("in memory", part["seconds"]), ("streamed", part["seconds_streamed"])):
        print(f"a part, {name:10} {seconds:8.1f} s {part['rows'] / seconds:12,.0f} rows/s")
    print(f"largest difference of a parameter between the two: {part['largest_difference']:.1g}")
    save(options.out, "stream", result | {"hardware": hardware("cpu") | {"cores": os.cpu_count()}})


if __name__ == "__main__":
    main()
