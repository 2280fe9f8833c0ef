"""What torch has only once per process, changed for a while and put back: random generators, TF32, threads.

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
_precise: list[str] = []  # the precision that each user of TF32 is to restore
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
def tf32(device: torch.device) -> Iterator[None]:
    """Let float32 products on a CUDA device use TF32 where it has it."""
    if device.type != "cuda":
        yield
        return
    with _counting:
        _precise.append(_precise[0] if _precise else torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        with _counting:
            before = _precise.pop()
            if not _precise:
                torch.set_float32_matmul_precision(before)


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
