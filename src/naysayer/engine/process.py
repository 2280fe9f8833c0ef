"""What torch has only once per process, changed for a while and put back: random generators, speed, threads.

Several threads of a program may train at once. Each must then come to what it would have come to alone, and leave no
trace: generators are used by one at a time, and of settings the last to leave restores what the first found.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

_drawing = threading.RLock()
_counting = threading.Lock()
_quick: list[tuple[str, bool]] = []  # the precision and the search that each user of speed is to restore
_threads: list[int] = []  # the number of threads that each user of them is to restore


@contextlib.contextmanager
def seeded(seed: int | None = None) -> Iterator[None]:
    """Let torch's global generators start from a seed, for code that draws from no other; then as if nothing was drawn.

    Networks draw their starts and their dropout so. One thread at a time comes in here.
    """
    with _drawing:
        on_devices = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
        generators = (torch.default_generator, *on_devices)
        before = [generator.get_state() for generator in generators]
        try:
            for generator in generators if seed is not None else ():
                generator.manual_seed(seed)  # type: ignore[arg-type]
            yield
        finally:
            for generator, state in zip(generators, before, strict=True):
                generator.set_state(state)


@contextlib.contextmanager
def quick(device: torch.device) -> Iterator[None]:
    """Let a CUDA device use TF32 in float32 products where it has it, and try which convolutions are quickest there.

    One that has a number is also the current device meanwhile: kernels and graphs go there, wherever their tensors are.
    """
    if device.type != "cuda":
        yield
        return
    with _counting:
        before = (torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark)
        _quick.append(_quick[0] if _quick else before)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    try:
        with contextlib.nullcontext() if device.index is None else torch.cuda.device(device):
            yield
    finally:
        with _counting:
            precision, search = _quick.pop()
            if not _quick:
                torch.set_float32_matmul_precision(precision)
                torch.backends.cudnn.benchmark = search


@contextlib.contextmanager
def threads() -> Iterator[int]:
    """Give the number of threads that the process has, and put it back after what is done to it here.

    A thread that first meets torch while another one trains has that one's number, and a new thread the process's own.
    """
    with _counting:
        if not _threads:
            with ThreadPoolExecutor(1) as fresh:
                _threads.append(fresh.submit(torch.get_num_threads).result())
        else:
            _threads.append(_threads[0])
        number = _threads[0]
    try:
        yield number
    finally:
        with _counting:
            torch.set_num_threads(_threads.pop())
