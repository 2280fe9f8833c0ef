"""How long an epoch of the CIFAR-10 networks takes, and what share of the device's products that is.

    python benchmarks/cifar.py resnet34 [--out benchmarks/results]
    python benchmarks/cifar.py densenet

One run on an NVIDIA GPU: 50,000 uint8 images on the device, mini-batches of 256, SGD with momentum, bfloat16,
channels_last, the step compiled and captured in a CUDA graph, no augmentation and then crop and flip. The ceiling is
a bfloat16 product of two 8192 x 8192 matrices measured here; an epoch's products are those of the convolutions and the
linear layer, forward and twice that backward.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from common import hardware, save
from naysayer import Population, networks, objectives
from naysayer.engine.augment import crop_and_flip

N, BATCH, EPOCHS = 50_000, 256, 4


def ceiling() -> float:
    """Floating-point operations a second of a large bfloat16 product."""
    m = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    best = float("inf")
    for _ in range(10):
        torch.cuda.synchronize()
        start = time.perf_counter()
        m @ m
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * 8192**3 / best


def operations(network) -> int:
    """Floating-point operations of one image's forward pass."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network().eval()(torch.zeros(1, 3, 32, 32))
    return counter.get_total_flops()


def epoch_seconds(network, augment, compiled: bool) -> tuple[float, float]:
    """Median seconds of an epoch after the first, and what the first took more."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randint(0, 256, (N, 3, 32, 32), dtype=torch.uint8, generator=generator).cuda()
    y_bar = torch.randint(0, 10, (N,), generator=generator)
    run = Population(
        network, objectives.GradientAscent(10), lr=1e-2, weight_decay=5e-4, optimizer="sgd", batch_size=BATCH,
        precision="bfloat16", compiled=compiled, augment=augment, device="cuda",
    )  # fmt: skip
    marks = [time.perf_counter()]
    run.fit(X, y_bar, max_epochs=EPOCHS, bar=lambda *_: marks.append(time.perf_counter()))
    took = [b - a for a, b in itertools.pairwise(marks)]
    return statistics.median(took[1:]), took[0] - statistics.median(took[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=["resnet34", "densenet"])
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    about, top = hardware("cuda"), ceiling()
    print(f"{about['device']}, torch {about['torch']}: bfloat16 product {top / 1e12:.0f} TFLOP/s\n")
    print("network    compiled   augmented   s an epoch   of the ceiling   first epoch's extra s")
    rows = []
    network = getattr(networks, arguments.network)
    work = 3 * operations(network) * N
    ways = [(False, None), (True, None), (True, crop_and_flip)]
    for compiled, augment in ways if arguments.network == "resnet34" else ways[:2]:  # compiling DenseNet takes its time
        torch._dynamo.reset()
        seconds, extra = epoch_seconds(network, augment, compiled)
        share = work / seconds / top
        how = {"network": arguments.network, "compiled": compiled, "augmented": augment is not None}
        print("{:9s}  {!s:8s}   {!s:9s}   ".format(*how.values()), end="")
        print(f"{seconds:10.2f}   {share:14.1%}   {extra:.1f}", flush=True)
        found = {"seconds_per_epoch": seconds, "share_of_ceiling": share, "first_epoch_extra_s": extra}
        rows.append(how | found)
    save(arguments.out, f"cifar-{arguments.network}-cuda", about | {"product_flops_per_s": top, "epochs": rows})


if __name__ == "__main__":
    main()
