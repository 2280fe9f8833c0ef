"""What it brings on a CPU that commands keep freed memory: image networks with it and without, side by side.

    python benchmarks/allocation.py --out benchmarks/results

Each training is a process of its own with one thread, and the two take turns. It is one epoch over made images of
32 × 32 pixels in mini-batches of 256; compared is the CPU time of `fit`, in seconds, and the share that the kernel
takes of it, which gives pages and clears them. On systems without glibc the two are the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from common import hardware, save
from naysayer import Population, complement, networks, objectives
from naysayer.common.allocation import keep_freed

SOURCE = str(Path(__file__).parents[1] / "src")
K = 10
CASES = {  # network, recipe, images
    "resnet8, plain": ("resnet8", "plain", 2000),
    "resnet8, consistency": ("resnet8", "consistency", 1000),
    "resnet18, plain": ("resnet18", "plain", 512),
}


def train(case: str) -> tuple[float, float]:
    """User and system time of one epoch."""
    network, recipe, n = CASES[case]
    rng = np.random.default_rng(0)
    X = rng.integers(256, size=(n, 3, 32, 32), dtype=np.uint8)
    y_bar = complement(rng.integers(K, size=n), K, random_state=0)
    build = getattr(networks, network)
    runs = Population(
        lambda: build(K), objectives.Forward(K), seeds=[0], lr=0.01, recipe=recipe, batch_size=256, device="cpu"
    )
    before = resource.getrusage(resource.RUSAGE_SELF)
    runs.fit(X, y_bar, max_epochs=1)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    if options.train:
        case, how = options.train
        if how == "kept":
            keep_freed()
        print(json.dumps(train(case)))
        return
    rows = []
    print(f"{'':24} CPU seconds as usual  of the kernel   with freed memory kept  of the kernel   times (range)")
    for case in CASES:
        times: dict[str, list[list[float]]] = {"usual": [], "kept": []}
        for _ in range(options.turns):
            for how, seen in times.items():
                line = [sys.executable, __file__, "--train", case, how]
                done = subprocess.run(
                    line,
                    env=os.environ | {"PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                seen.append(json.loads(done.stdout))
        ratios = [sum(usual) / sum(kept) for usual, kept in zip(times["usual"], times["kept"])]
        row = {"case": case, "times": round(statistics.median(ratios), 2)}
        row |= {"lowest": round(min(ratios), 2), "highest": round(max(ratios), 2)}
        for how, seen in times.items():
            row[f"{how}_cpu_s"] = round(statistics.median(sum(one) for one in seen), 2)
            row[f"{how}_kernel_s"] = round(statistics.median(kernel for _, kernel in seen), 2)
        rows.append(row)
        print(
            f"{case:24} {row['usual_cpu_s']:20} {row['usual_kernel_s']:14} {row['kept_cpu_s']:24} "
            f"{row['kept_kernel_s']:14}   {row['times']} ({row['lowest']} to {row['highest']})"
        )
    save(options.out, "allocation", {"hardware": hardware("cpu"), "turns": options.turns, "rows": rows})


if __name__ == "__main__":
    main()
