"""Whether work of many processes, streams and clusters slows down one machine: two versions side by side, on a CPU.

    git worktree add FOLDER 22e78bf
    python benchmarks/beside.py --before FOLDER/src

Each version trains in a process of its own, one thread each, and the two take short turns, in an order that changes
from turn to turn, so that whatever else the machine does meets both alike. Compared is the CPU time of what they train;
the medians are over all turns, those of the ratio over pairs of turns. Both must come to the same bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from common import hardware, save
from naysayer import ComplementaryClassifier, Population, complement, networks, objectives

SOURCE = str(Path(__file__).parents[1] / "src")
N, D, K, BATCH = 10_240, 784, 10, 256


def population(n_runs: int) -> list[Any]:
    """Train MLPs by gradient ascent for an epoch of 40 steps; give their parameters."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randint(0, 256, (N, D), dtype=torch.uint8, generator=generator)
    y_bar = torch.randint(0, K, (N,), generator=generator)
    runs = Population(
        lambda: networks.mlp(D, K), objectives.GradientAscent(K), seeds=range(n_runs), lr=5e-5, batch_size=BATCH,
        device="cpu",
    )  # fmt: skip
    return [*runs.fit(X, y_bar, max_epochs=1).parameters.values()]


def classifier() -> list[Any]:
    """Train a classifier on digits, as people do; give its probabilities."""
    X, y = load_digits(return_X_y=True)
    model = ComplementaryClassifier("forward", lr=0.003, max_epochs=10, random_state=0, device="cpu")
    return [model.fit(X, complement(y, K, random_state=0)).predict_proba(X)]


CASES = {
    "an epoch of 1 run": lambda: population(1),
    "an epoch of 4 runs": lambda: population(4),
    "a classifier of digits": classifier,
}


def serve() -> None:
    """Train what each line of the input names; answer with the seconds, and a digest of what came out."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        begun, cpu = time.perf_counter(), time.process_time()
        came = CASES[line.strip()]()
        told = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - begun}
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in came))
        print(json.dumps(told | {"digest": digest.hexdigest()}), flush=True)


class Version:
    """A version of the project, in a process that waits for work."""

    def __init__(self, source: str) -> None:
        place = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(command, env=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def train(self, case: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="the src folder of the other version")
    parser.add_argument("--commit", default="22e78bf", help="which it is")
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", default="benchmarks/results")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    versions = {"before": Version(options.before), "after": Version(SOURCE)}
    rows = []
    print(f"{'':24}  before ms   after ms   after/before   (lower to upper quartile)   of their clocks")
    for case in CASES:
        took: dict[str, list[dict[str, Any]]] = {name: [] for name in versions}
        for turn in range(options.turns + 1):
            for name in sorted(versions, reverse=turn % 2 == 0):
                told = versions[name].train(case)
                took[name] += [told] * (turn > 0)  # the first warms up
        digests = {told["digest"] for all_of_it in took.values() for told in all_of_it}
        assert len(digests) == 1, f"{case} must give the same bits in both versions"
        row: dict[str, Any] = {"case": case, "turns": options.turns}
        for clock in ("cpu", "wall"):
            before, after = ([told[clock] for told in took[name]] for name in ("before", "after"))
            ratios = [b / a for a, b in zip(before, after, strict=True)]
            low, _, high = statistics.quantiles(ratios, n=4)
            row[clock] = {"before_ms": 1e3 * statistics.median(before), "after_ms": 1e3 * statistics.median(after),
                          "ratio": statistics.median(ratios), "quartiles": [low, high]}  # fmt: skip
        cpu = row["cpu"]
        spread = "({:.2f} to {:.2f})".format(*cpu["quartiles"])
        print(
            f"{case:24}  {cpu['before_ms']:9.0f}   {cpu['after_ms']:8.0f}   {cpu['ratio']:12.3f}   {spread:>27}   "
            f"{row['wall']['ratio']:.3f}",
            flush=True,
        )
        rows.append(row)
    save(options.out, "beside", {"before": f"commit {options.commit}", "rows": rows, "hardware": hardware("cpu")})


if __name__ == "__main__":
    main()
