"""What training on several processes costs: the sums of a step, as shares of it, and what 8 to 1,024 would take.

    python benchmarks/processes.py

Processes of this machine train an MLP of 784-500-10 by gradient ascent, 256 rows per process and step, and time every
sum over them (gloo, through the loopback). A step has one sum for the risks, of K numbers, and one for the
gradients; those of the label counts are made once per epoch here, for all steps ahead. The table for more
processes is on paper: a step of one process as measured here, sums by the usual model of their cost, and a network
of the latency and bandwidth that it names.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed
import torch.multiprocessing

from common import hardware, save
from naysayer import Population, networks, objectives
from naysayer.common.reduce import SumOver

D, H, K, BATCH, STEPS, EPOCHS = 784, 500, 10, 256, 40, 4
PARAMETERS = D * H + H + H * K + K
LATENCY, BANDWIDTH = 10e-6, 12.5e9  # seconds per message and bytes per second of a 100-Gbit network
MANY = (8, 16, 64, 256, 1024)


class Timed(SumOver):
    """Sums, with the seconds and bytes of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[str, list[tuple[float, int]]] = {"risks": [], "gradients": [], "counts": []}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        kind = {K: "risks", PARAMETERS: "gradients"}.get(tensor.numel(), "counts")
        start = time.perf_counter()
        whole = super().__call__(tensor)
        self.kinds[kind].append((time.perf_counter() - start, tensor.numel() * tensor.element_size()))
        return whole


def train(rank: int, size: int, folder: str) -> None:
    """Train in one of the processes; the first leaves its times."""
    torch.set_num_threads(1)
    reduce = None
    if size > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
        reduce = Timed()
    generator = torch.Generator().manual_seed(rank)
    X = torch.rand(BATCH * STEPS, D, generator=generator)
    y_bar = torch.randint(0, K, (len(X),), generator=generator)
    runs = Population(
        lambda: networks.mlp(D, K, hidden=(H,)), objectives.GradientAscent(K), lr=5e-5, batch_size=BATCH,
        reduce=reduce, device="cpu",
    )  # fmt: skip
    marks: list[float] = []
    runs.fit(X, y_bar, max_epochs=EPOCHS, bar=lambda *_: marks.append(time.perf_counter()))
    step = statistics.median((b - a) / STEPS for a, b in itertools.pairwise(marks))
    row = {"processes": size, "ms_per_step": 1e3 * step}
    for kind in ("risks", "gradients") if reduce is not None else ():
        seconds, sizes = zip(*reduce.kinds[kind][STEPS:])
        row |= {f"{kind}_ms": 1e3 * statistics.median(seconds), f"{kind}_bytes": sizes[0]}
        row[f"{kind}_share"] = sum(seconds) / STEPS / (EPOCHS - 1) / step
        row[f"{kind}_alone_ms"] = 1e3 * alone(reduce, sizes[0] // 4)
    if rank == 0:
        torch.save(row, f"{folder}/row.pt")
    if size > 1:
        torch.distributed.destroy_process_group()


def alone(reduce: SumOver, numel: int, times: int = 100) -> float:
    """Seconds of a sum for which nobody has to wait: the median of many in a row."""
    tensor, took = torch.zeros(numel), []
    for _ in range(times):
        start = time.perf_counter()
        reduce(tensor)
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def on_paper(step: float, processes: int) -> dict[str, float]:
    """A step of many processes: a tree for the few numbers of the risks, a ring for the gradients."""
    depth = 2 * math.ceil(math.log2(processes))
    risks = depth * LATENCY
    gradients = 2 * (processes - 1) / processes * 4 * PARAMETERS / BANDWIDTH + depth * LATENCY
    whole = step + risks + gradients
    return {"processes": processes, "risks_us": 1e6 * risks, "gradients_us": 1e6 * gradients, "share": risks / whole,
            "efficiency": step / whole}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    about = hardware("cpu") | {"cores": os.cpu_count()}
    print(f"{about['device']}, {about['cores']} cores, torch {about['torch']}\n")
    measured = []
    print("processes   ms per step   of the sum   bytes     ms   share   alone: ms   share")
    for size in (1, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.start_processes(train, (size, folder), nprocs=size)
            row = torch.load(Path(folder) / "row.pt", weights_only=False)
        measured.append(row)
        print(f"{size:9d}   {row['ms_per_step']:11.2f}")
        for kind in ("risks", "gradients") if size > 1 else ():
            n_bytes, ms, share, free = (row[f"{kind}_{what}"] for what in ("bytes", "ms", "share", "alone_ms"))
            line = f"{kind:>36}   {n_bytes:7d}   {ms:6.2f}   {100 * share:4.1f}%   {free:6.2f}"
            print(f"{line}   {100 * free / row['ms_per_step']:4.1f}%")
    step = measured[0]["ms_per_step"] / 1e3
    paper = [on_paper(step, processes) for processes in MANY]
    print(f"\non paper, with {1e6 * LATENCY:.0f} µs and {BANDWIDTH / 1e9:.1f} GB/s, {BATCH} rows per process and step:")
    print("processes   risks µs   gradients µs   share of the risks   efficiency")
    for row in paper:
        times = f"{row['risks_us']:8.0f}   {row['gradients_us']:12.0f}"
        print(f"{row['processes']:9d}   {times}   {100 * row['share']:17.1f}%   {100 * row['efficiency']:9.0f}%")
    model = {"latency_s": LATENCY, "bandwidth_bytes_per_s": BANDWIDTH, "table": paper}
    save(arguments.out, "processes", about | {"measured": measured, "on_paper": model})


if __name__ == "__main__":
    main()
