"""That labels scale: time linear in the number of examples, and memory that never holds an (N, K) array.

    python benchmarks/labels.py [--out benchmarks/results]

First, a linear model of 1,000 classes learns from a million complementary labels, one epoch in mini-batches of 256.
Its memory is the most that the process ever held, less what it held just before, with the data and a small rehearsal
behind it; an (N, K) array of float32 would take 4 GB. Each objective trains in a process of its own.

Then labels are drawn and turned into weights for 10 classes and up to ten million examples. Times are medians over
repeats; the ratio is that of the time an example to that at the smallest N, 1 being linear. The smallest N fits in
the cache and its memory is used again; beyond it each call pays for fresh memory, so compare the two larger ones too.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from common import hardware, save
from naysayer import Population, complement, networks, objectives, transition, unbiased_weights

N_TRAIN, K_TRAIN, D, BATCH = 1_000_000, 1_000, 16, 256
OBJECTIVES = ("GradientAscent", "Forward")
SIZES, K, REPEATS = (100_000, 1_000_000, 10_000_000), 10, 9
ARRAY_MB = N_TRAIN * K_TRAIN * 4 / 1e6


def held_mb() -> float:
    """Megabytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def most_mb() -> float:
    """The most megabytes that it ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def train(name: str) -> dict[str, float | str]:
    """Seconds of one epoch, and the memory it takes beyond the data."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(N_TRAIN, D, generator=generator)
    y_bar = torch.randint(0, K_TRAIN, (N_TRAIN,), generator=generator)

    def fit(n: int) -> None:
        objective = getattr(objectives, name)(K_TRAIN)
        runs = Population(lambda: networks.linear(D, K_TRAIN), objective, batch_size=BATCH, device="cpu")
        runs.fit(X[:n], y_bar[:n], max_epochs=1)

    fit(10 * BATCH)
    before = held_mb()
    start = time.perf_counter()
    fit(N_TRAIN)
    seconds = time.perf_counter() - start
    data = (X.nbytes + y_bar.nbytes) / 1e6
    return {"objective": name, "seconds": seconds, "data_mb": data, "before_mb": before, "extra_mb": most_mb() - before}


def measure_training() -> list[dict[str, float | str]]:
    print(f"one epoch, N = {N_TRAIN:,}, K = {K_TRAIN:,}; an (N, K) array of float32 would take {ARRAY_MB:,.0f} MB")
    print("objective          seconds   data MB   memory beyond it, MB   share of the (N, K) array")
    rows = []
    for name in OBJECTIVES:
        command = [sys.executable, __file__, "--train", name]
        row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        row["share_of_array"] = row["extra_mb"] / ARRAY_MB
        print(f"{name:16s}   {row['seconds']:7.1f}   {row['data_mb']:7.0f}   {row['extra_mb']:20.0f}   ", end="")
        print(f"{row['share_of_array']:24.1%}")
        rows.append(row)
    return rows


def seconds(work) -> list[float]:
    """Seconds of each repeat, after one that does not count."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times[1:]


def measure_labels() -> list[dict]:
    q = transition.biased(np.arange(1.0, K + 1))
    jobs = {
        "complement, uniform": lambda y: complement(y, K, random_state=1),
        "complement, Q": lambda y: complement(y, K, transition=q, random_state=1),
        "complement, 3 labels": lambda y: complement(y, K, n_labels=3, random_state=1),
        "unbiased_weights": lambda y: unbiased_weights(y, K),
    }
    print(f"\nK = {K}, medians of {REPEATS}")
    print("                           N    seconds   ns an example   (min .. max)        ratio to the smallest N")
    rows = []
    for name, job in jobs.items():
        smallest = None
        for n in SIZES:
            y = np.random.default_rng(0).integers(K, size=n)
            ns = [1e9 * t / n for t in seconds(lambda job=job, y=y: job(y))]
            middle = statistics.median(ns)
            smallest = smallest or middle
            print(f"{name:20s}   {n:>10,}   {middle * n / 1e9:8.4f}   {middle:13.1f}   ", end="")
            print(f"{f'({min(ns):.1f} .. {max(ns):.1f})':18s}   {middle / smallest:20.2f}")
            rows.append({"job": name, "n": n, "seconds": middle * n / 1e9, "ns_per_example": middle, "all_ns": ns,
                         "ratio_to_smallest": middle / smallest})  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="benchmarks/results")
    parser.add_argument("--train", choices=OBJECTIVES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        print(json.dumps(train(arguments.train)))
        return
    about = hardware("cpu") | {"numpy": np.__version__}
    print(f"{about['device']}, torch {about['torch']}, numpy {about['numpy']}\n")
    # Training comes first: a child's peak starts from what its parent held, and the labels below take gigabytes.
    result = {"array_mb": ARRAY_MB, "training": measure_training(), "labels": measure_labels()}
    save(arguments.out, "labels-cpu", about | result)


if __name__ == "__main__":
    main()
