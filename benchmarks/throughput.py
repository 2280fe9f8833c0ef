"""How long a run-epoch takes: naysayer's engine, a textbook PyTorch loop, and the floor, side by side in one run.

    python benchmarks/throughput.py [--device cpu|cuda] [--beside FOLDER] [--out benchmarks/results]

The job is the paper's: an MLP 784-500-10, mini-batches of 256, 60,000 uint8 examples, gradient ascent, Adam. A
run-epoch is one epoch of one run, shuffling included, validation and test left out on both sides. Times are medians
over epochs after the first; what the first one spends on building kernels and capturing the step is printed apart.

On CUDA the floor is what the optimiser must move (parameters, gradients and both moments read, all but the gradients
written, gradients and weights moved once more by the products) at the rate of a copy, plus the products' flops at
the rate of a large product, both measured here. On a CPU it is the five products of a step, done bare; the
time of the optimiser's pass over its memory, which depends on what else the machine does, stands beside it.

With ``--beside FOLDER``, the ``src`` of another version of this project, the two engines take turns, each in a process
of its own, and the ratio of their times is printed too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from common import hardware, save
from naysayer import Population, networks, objectives

N, D, H, K, BATCH = 60_000, 784, 500, 10, 256
STEPS = -(-N // BATCH)
PARAMETERS = D * H + H + H * K + K
FLOPS = 2 * BATCH * (2 * D * H + 3 * H * K)  # forward and weight gradients; inputs need no gradient


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def engine(X, y_bar, n_runs: int, epochs: int, device: str) -> tuple[list[float], float]:
    """Seconds per run-epoch, one value per epoch, and the seconds that the first epoch took more."""
    runs = Population(
        lambda: networks.mlp(D, K),
        objectives.GradientAscent(K),
        seeds=range(n_runs),
        lr=5e-5,
        weight_decay=1e-4,
        batch_size=BATCH,
        device=device,
    )
    marks = [time.perf_counter()]
    runs.fit(X, y_bar, max_epochs=epochs + 1, bar=lambda *_: marks.append(time.perf_counter()))
    took = [b - a for a, b in itertools.pairwise(marks)]
    return [t / n_runs for t in took[1:]], took[0] - statistics.median(took[1:])


def beside(folder: str, runs: list[int], device: str, turns: int) -> list[dict]:
    """Milliseconds per run-epoch of another version's engine and of this one's, which take turns."""
    rows = []
    print("\nruns   ms per run-epoch before   after   after/before   (min .. max over turns)")
    for n_runs in runs:
        took = {"before": [], "after": []}
        for _ in range(turns):
            for name, source in (("before", folder), ("after", str(Path(__file__).parents[1] / "src"))):
                command = [sys.executable, __file__, "--device", device, "--engine-only", str(n_runs)]
                place = os.environ | {"PYTHONPATH": source}
                done = subprocess.run(command, env=place, capture_output=True, text=True, check=True)
                took[name].append(1e3 * float(done.stdout.split()[-1]))
        ratios = [after / before for before, after in zip(took["before"], took["after"])]
        before, after = (statistics.median(took[name]) for name in ("before", "after"))
        row = {"runs": n_runs, "before_ms": before, "after_ms": after, "ratio": statistics.median(ratios), "all": took}
        spread = f"({min(ratios):.2f} .. {max(ratios):.2f})"
        print(f"{n_runs:4d}   {before:23.3f}   {after:5.3f}   {row['ratio']:12.2f}   {spread}")
        rows.append(row)
    return rows


def textbook(X, y_bar, device: str, batches: int) -> float:
    """Seconds per epoch of a plain loop: DataLoader, a Python loop over the classes, an if on the host."""
    loader = DataLoader(TensorDataset(X.float() / 255, y_bar), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, K)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5, weight_decay=1e-4)
    prior = torch.bincount(y_bar, minlength=K) / len(y_bar)
    start = time.perf_counter()
    for i, (x, y) in enumerate(loader):
        if i == batches:
            break
        x, y = x.to(device), y.to(device)
        losses = -torch.log_softmax(model(x), dim=1)
        risks = torch.zeros(K, device=device)
        for c in range(K):
            rows = losses[y == c]
            if len(rows):
                mean = rows.mean(dim=0) * prior[c]
                risks = risks + mean - (K - 1) * mean * nn.functional.one_hot(torch.tensor(c, device=device), K)
        optimizer.zero_grad()
        if risks.min() >= 0:
            risks.sum().backward()
        else:
            (-risks.clamp(max=0).sum()).backward()
        optimizer.step()
    synchronize(device)
    return (time.perf_counter() - start) * STEPS / batches


def rate(work, amount: float, device: str, repeats: int = 5) -> float:
    """Amount per second of the fastest of some repeats."""
    work()
    best = float("inf")
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        best = min(best, time.perf_counter() - start)
    return amount / best


def cuda_floor() -> dict[str, float]:
    """Rates of a copy and of a product, and the seconds per run-epoch that they allow."""
    a = torch.empty(1 << 29, device="cuda")
    b = torch.empty_like(a)
    copy = rate(lambda: b.copy_(a), 2 * a.numel() * 4, "cuda")
    torch.set_float32_matmul_precision("high")
    m = torch.randn(8192, 8192, device="cuda")
    product = rate(lambda: m @ m, 2 * 8192**3, "cuda")
    torch.set_float32_matmul_precision("highest")
    moved = 4 * PARAMETERS * (4 + 3 + 1 + 1)  # p g m v read, p m v written; g written, p read by the products
    return {
        "copy_bytes_per_s": copy,
        "product_flops_per_s": product,
        "optimizer_ms": 1e3 * STEPS * moved / copy,
        "products_ms": 1e3 * STEPS * FLOPS / product,
    }


def optimizer_seconds() -> float:
    """Seconds per run-epoch of Adam's pass alone, with its memory as cold as the products leave it."""
    tensors = [torch.rand(PARAMETERS) for _ in range(4)]
    step, other = torch.zeros(()), torch.empty(1 << 22)
    took = []
    for _ in range(20):
        other.fill_(1.0)
        start = time.perf_counter()
        torch._fused_adam_(
            *([t] for t in tensors), [], [step], lr=5e-5, beta1=0.9, beta2=0.999, weight_decay=1e-4, eps=1e-8,
            amsgrad=False, maximize=False,
        )  # fmt: skip
        took.append(time.perf_counter() - start)
    return statistics.median(took) * STEPS


class BareProducts:
    """The five products of a step, for M runs with weights of their own, and nothing else."""

    def __init__(self, n_runs: int) -> None:
        self.x, self.h, self.g = torch.rand(BATCH, D), torch.rand(BATCH, H), torch.rand(BATCH, K)
        self.weights = [(torch.rand(D, H), torch.rand(H, K)) for _ in range(n_runs)]

    def seconds(self, steps: int) -> float:
        """Seconds per run-epoch, from so many steps of each run."""
        start = time.perf_counter()
        for first, second in self.weights:
            for _ in range(steps):
                torch.mm(self.x, first)
                torch.mm(self.h, second)
                torch.mm(self.h.T, self.g)
                torch.mm(self.g, second.T)
                torch.mm(self.x.T, self.h)
        return (time.perf_counter() - start) / len(self.weights) * STEPS / steps


def measure_cuda(X, y_bar) -> dict:
    X, y_bar = X.cuda(), y_bar.cuda()
    floor = cuda_floor()
    plain = textbook(X.cpu(), y_bar.cpu(), "cuda", batches=STEPS)
    print(
        f"textbook loop: {plain * 1e3:.0f} ms per run-epoch; copy {floor['copy_bytes_per_s'] / 1e12:.2f} TB/s, ", end=""
    )
    print(f"TF32 product {floor['product_flops_per_s'] / 1e12:.0f} TFLOP/s")
    print(f"floor: {floor['optimizer_ms']:.2f} ms moving + {floor['products_ms']:.2f} ms multiplying, a run-epoch\n")
    print("runs   ms per run-epoch   (min .. max)      textbook/ours   ours/floor   first epoch's extra s")
    rows = []
    for n_runs in (1, 5, 20, 120):
        times, extra = engine(X, y_bar, n_runs, epochs=10, device="cuda")
        ms = [1e3 * t for t in times]
        middle = statistics.median(ms)
        ratio = 1e3 * plain / middle
        gap = middle / (floor["optimizer_ms"] + floor["products_ms"])
        spread = f"({min(ms):.3f} .. {max(ms):.3f})"
        print(f"{n_runs:4d}   {middle:14.3f}   {spread}   {ratio:13.0f}   {gap:10.1f}   {extra:.2f}")
        rows.append({"runs": n_runs, "ms_per_run_epoch": middle, "all_ms": ms, "textbook_ratio": ratio,
                     "floor_ratio": gap, "first_epoch_extra_s": extra})  # fmt: skip
    return {"textbook_ms": 1e3 * plain, "floor": floor, "engine": rows}


def measure_cpu(X, y_bar) -> dict:
    plain = textbook(X, y_bar, "cpu", batches=60)
    print(f"textbook loop: {plain * 1e3:.0f} ms per run-epoch\n")
    print(
        "runs   ms per run-epoch   bare products   ours/bare   textbook/ours   (min .. max ours/bare)   optimiser alone"
    )
    rows = []
    for n_runs in (1, 2, 4, 8, 16):
        bare = BareProducts(n_runs)
        times, around = [], [bare.seconds(40)]
        ratios = []
        for _ in range(3):  # the machine's speed wanders, so each epoch is held against products right before and after
            took, _ = engine(X, y_bar, n_runs, epochs=1, device="cpu")
            around.append(bare.seconds(40))
            times += took
            ratios.append(statistics.median(took) / (0.5 * (around[-1] + around[-2])))
        middle, floor, ratio = (statistics.median(v) for v in (times, around, ratios))
        print(
            f"{n_runs:4d}   {1e3 * middle:14.1f}   {1e3 * floor:13.1f}   {ratio:9.2f}   {plain / middle:13.1f}   ",
            end="",
        )
        moved = optimizer_seconds()
        print(f"({min(ratios):.2f} .. {max(ratios):.2f})   {1e3 * moved:19.0f}")
        rows.append({"runs": n_runs, "ms_per_run_epoch": 1e3 * middle, "bare_products_ms": 1e3 * floor,
                     "ratio_to_bare": ratio, "all_ratios": ratios, "textbook_ratio": plain / middle,
                     "optimizer_alone_ms": 1e3 * moved})  # fmt: skip
    return {"textbook_ms": 1e3 * plain, "engine": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--beside", help="the src folder of another version, to take turns with")
    parser.add_argument("--engine-only", type=int, help="print the seconds per run-epoch of so many runs, and no more")
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    X = torch.randint(0, 256, (N, D), dtype=torch.uint8, generator=generator)
    y_bar = torch.randint(0, K, (N,), generator=generator)
    if arguments.engine_only:
        epochs = 10 if arguments.device == "cuda" else 2
        print(
            statistics.median(engine(X.to(arguments.device), y_bar, arguments.engine_only, epochs, arguments.device)[0])
        )
        return
    about = hardware(arguments.device)
    print(f"{about['device']}, torch {about['torch']}\n")
    result = (measure_cuda if arguments.device == "cuda" else measure_cpu)(X, y_bar)
    if arguments.beside:
        runs, turns = ([1, 5, 20, 120], 2) if arguments.device == "cuda" else ([1, 4], 4)  # a CPU's speed wanders more
        result["before_and_after"] = beside(arguments.beside, runs, arguments.device, turns)
    save(arguments.out, f"throughput-{arguments.device}", about | result)


if __name__ == "__main__":
    main()
