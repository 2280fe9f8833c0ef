"""How this process gets memory, where the C library lets one choose."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

MAPPED_FROM, KEPT = 1 << 28, 1 << 29  # bytes
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the names of mallopt(3) for them


def keep_freed() -> bool:
    """Let glibc use the memory of one layer's results again for the next one's; give whether it will.

    By default it returns whatever has more than 32 MB to the system, and each new page costs a fault and zeros: on a
    CPU, residual networks spend half of their time on that. Up to 512 MB that are free now stay with the process. It
    does nothing for another C library, nor where the environment chooses these limits.
    """
    if any(name in os.environ for name in ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")):
        return False
    with suppress(AttributeError, OSError, TypeError):
        set_limit = ctypes.CDLL(None).mallopt
        return bool(set_limit(_MMAP_THRESHOLD, MAPPED_FROM) and set_limit(_TRIM_THRESHOLD, KEPT))
    return False
