"""Features of photos beside bare passes of the same network, measured in one run.

On a CPU: photos of 640 × 480 are made in a temporary folder as JPEG, and their features computed from there, reading
and resizing included, without a cache; in turn with passes of the network alone over the same number of pictures that
are ready in memory, as few at once as are quickest. At most 1.3 times the time is wanted. A second line shows what a
cache adds, empty and full. Then `naysayer train` learns from the folder, with its defaults and an empty cache: from a
table of paths and one complementary label per photo to a saved model; 90 s are wanted for 1,000 photos.

With --device cuda: photos per second from an array in memory, enlarged on the device; 20,000 are wanted.

All but the training see each photo once (`views=1`); the default sees its mirror image, too.

    python benchmarks/photo_speed.py --out benchmarks/results
    python benchmarks/photo_speed.py --device cuda --out benchmarks/results
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from common import hardware, save
from naysayer import complement
from naysayer.features import Photos

K = 10
AT_ONCE = 4  # pictures in a bare pass on a CPU


def make_photos(folder: Path, y: np.ndarray) -> list[Path]:
    """Write smooth pictures with a little noise, whose files are of the size that photos have; classes have colours."""
    rng = np.random.default_rng(0)
    tints = rng.integers(128, size=(K, 3))
    paths = []
    for i, c in enumerate(y):
        coarse = Image.fromarray((rng.integers(128, size=(12, 16, 3)) + tints[c]).astype(np.uint8))
        photo = np.asarray(coarse.resize((640, 480), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = photo + rng.normal(scale=6, size=(480, 640, 1)).astype(np.float32)
        paths.append(folder / f"{i:05}.jpg")
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(paths[-1], quality=85)
    return paths


def seconds(action: Callable[[], Any]) -> float:
    """Time of one call."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def bare(photos: Photos, n: int, device: torch.device, at_once: int) -> Callable[[], None]:
    """Passes of the network alone, over pictures that are there already."""
    size = photos.backbone_["size"]
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (at_once, 3, size, size), dtype=torch.uint8, generator=generator).to(device)
    pixels = pixels.contiguous(memory_format=torch.channels_last)
    network = photos._network_on(device)

    @torch.inference_mode()
    def run() -> None:
        for start in range(0, n, at_once):
            network(pixels[: n - start])
        if device.type == "cuda":
            torch.cuda.synchronize()

    return run


def to_a_model(folder: Path, paths: list[Path], y: np.ndarray) -> tuple[float, str]:
    """Seconds that `naysayer train` takes, and what it says of the model."""
    with open(folder / "photos.csv", "w", newline="") as table:
        write = csv.writer(table)
        write.writerow(["photo", "label"])
        write.writerows([path.name, f"!colour {k}"] for path, k in zip(paths, complement(y, K, random_state=0)))
    line = [sys.executable, "-m", "naysayer", "train", "photos.csv", "--label", "label", "--out", "model"]
    environ = os.environ | {"NAYSAYER_CACHE": str(folder / "empty")}
    begun = time.perf_counter()
    done = subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    took = time.perf_counter() - begun
    return took, next(line for line in done.stdout.splitlines() if line.startswith("estimated accuracy"))


def from_a_folder(options: argparse.Namespace) -> dict[str, Any]:
    y = np.random.default_rng(1).integers(K, size=options.photos)
    with tempfile.TemporaryDirectory() as folder:
        paths = make_photos(Path(folder), y)
        kilobytes = sum(path.stat().st_size for path in paths) / len(paths) / 1000
        photos = Photos(views=1, cache=False, device="cpu").fit()
        photos.transform(paths[:64])
        passes = bare(photos, len(paths), torch.device("cpu"), AT_ONCE)
        passes()
        ours, theirs = [], []
        for _ in range(options.runs):  # in turn, so that whatever else the machine does meets both alike
            ours.append(seconds(lambda: photos.transform(paths)))
            theirs.append(seconds(passes))
        kept = Photos(views=1, cache=Path(folder) / "cache", device="cpu").fit()
        empty, full = (seconds(lambda: kept.transform(paths)) for _ in range(2))
        trained, said = to_a_model(Path(folder), paths, y)
    ratios = [one / other for one, other in zip(ours, theirs)]
    ratio = statistics.median(ratios)
    print(
        f"{len(paths)} photos of 640 × 480, {kilobytes:.0f} kB each: {statistics.median(ours):.1f} s from the folder,"
    )
    print(
        f"{statistics.median(theirs):.1f} s for bare passes: {ratio:.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    print(f"with a cache {empty:.1f} s when it is empty, {full:.2f} s when it is full")
    print(f"from the folder to a saved model: {trained:.1f} s; {said}")
    return {
        "photos": len(paths),
        "kilobytes": round(kilobytes, 1),
        "seconds_from_folder": [round(value, 2) for value in ours],
        "seconds_of_bare_passes": [round(value, 2) for value in theirs],
        "ratio": round(ratio, 3),
        "ratio_lowest": round(min(ratios), 3),
        "ratio_highest": round(max(ratios), 3),
        "seconds_with_empty_cache": round(empty, 2),
        "seconds_with_full_cache": round(full, 2),
        "seconds_to_a_model": round(trained, 1),
    }


def from_memory(options: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.integers(256, size=(options.photos, 3, options.side, options.side), dtype=np.uint8)
    photos = Photos(views=1, cache=False, device="cuda").fit()
    photos.transform(X)
    passes = bare(photos, len(X), torch.device("cuda"), 4 * photos.batch_size)
    passes()
    ours, theirs = [], []
    for _ in range(options.runs):
        ours.append(len(X) / seconds(lambda: photos.transform(X)))
        theirs.append(len(X) / seconds(passes))
    rate = statistics.median(ours)
    print(f"{len(X)} pictures of {options.side} × {options.side} in memory: {rate:,.0f} per second")
    print(f"({min(ours):,.0f} to {max(ours):,.0f}); bare passes: {statistics.median(theirs):,.0f} per second")
    return {
        "photos": len(X),
        "side": options.side,
        "photos_per_second": round(rate),
        "lowest": round(min(ours)),
        "highest": round(max(ours)),
        "bare_passes_per_second": round(statistics.median(theirs)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--photos", type=int, help="default: 1,000; with cuda 40,000")
    parser.add_argument("--side", type=int, default=32, help="of the pictures in memory, with cuda")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    options.photos = options.photos or (40_000 if options.device == "cuda" else 1000)
    measured = (from_memory if options.device == "cuda" else from_a_folder)(options)
    about = {"hardware": hardware(options.device), "runs": options.runs}
    save(options.out, "photo_speed" if options.device == "cpu" else "photo_speed-cuda", about | measured)


if __name__ == "__main__":
    main()
