"""A device that runs out of memory: what it needed, and what to lower, in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import torch


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch has a class for that on CUDA, and only words on a CPU.

    Examples
    --------
    >>> ran_out(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    True
    >>> ran_out(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    False
    """
    said = re.search("DefaultCPUAllocator|not enough memory|can't allocate memory", str(error))
    return isinstance(error, torch.cuda.OutOfMemoryError) or (isinstance(error, RuntimeError) and said is not None)


@contextlib.contextmanager
def enough(device: torch.device, needed: str, remedy: str) -> Iterator[None]:
    """Say what a device must have memory for, and what to do, where it runs out of it."""
    try:
        yield
    except RuntimeError as error:
        if not ran_out(error):
            raise
        raise MemoryError(f"the device must have memory for {needed}; {device} has not; {remedy}") from None
