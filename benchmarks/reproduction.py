"""How long the paper takes: Table 3 for MNIST, and all of its MNIST-like rows and panels.

    python benchmarks/reproduction.py --data FOLDER [--device cuda] [--out benchmarks/results] [--keep FOLDER]
    python benchmarks/reproduction.py --data FOLDER --device cpu --quick

Runs Table 3 with mini-batches of 256 (three methods, six learning rates, 4 trials, 250 epochs, validation and test
after every epoch) and the linear and MLP panels of Figures 1 and 2 (five methods, 4 trials, 300 epochs), each from its
data file to its saved curves, and prints the seconds. `--keep` is the folder that `naysayer reproduce --out` would
have: the results stay there, and that command goes on from them. `--quick` times `naysayer reproduce all --quick`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from common import hardware, save
from naysayer.experiments import figure1, figure2, jobs, table3
from naysayer.experiments.reproduce import reproduce
from naysayer.experiments.scale import SMALL, Scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, help="fewer than the paper's, to try it")
    parser.add_argument("--out", default="benchmarks/results")
    parser.add_argument("--keep")
    parser.add_argument("--quick", action="store_true", help="every figure and table in small instead")
    arguments = parser.parse_args()
    about = hardware(arguments.device)
    if arguments.quick:
        return quick(arguments, about)
    scale = Scale(epochs=arguments.epochs, datasets=SMALL)
    asked = [job for job in table3.jobs(scale) if job.batch_size == 256] + figure1.jobs(scale) + figure2.jobs(scale)
    print(f"{about['device']}, torch {about['torch']}\n")
    print("population                 runs   epochs   seconds")
    seconds = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.keep or temporary) / "jobs"
        for job in asked:
            jobs._read.cache_clear()  # every job reads its file, as if it were alone
            start = time.perf_counter()
            jobs.do(job, folder, arguments.data, arguments.device)
            seconds[job.name] = time.perf_counter() - start
            print(f"{job.name:25s}  {len(job.runs):5d}   {job.epochs:6d}   {seconds[job.name]:7.1f}", flush=True)
    total = sum(seconds.values())
    print(f"\nTable 3 for MNIST: {seconds['table3-mnist-256']:.1f} s; all of these: {total:.0f} s")
    save(arguments.out, f"reproduction-{arguments.device}", about | {"seconds": seconds, "total_seconds": total})


def quick(arguments: argparse.Namespace, about: dict[str, Any]) -> None:
    """Time every figure and table in small."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        reproduce(["all"], folder, Scale(quick=True), data=arguments.data, device=arguments.device)
        seconds = time.perf_counter() - start
    print(f"all, in small: {seconds:.0f} s")
    save(arguments.out, f"reproduction-quick-{arguments.device}", about | {"seconds": seconds})


if __name__ == "__main__":
    main()
