"""Whether this process is one of several that torchrun, or whoever sets the same names, started as one job."""

from __future__ import annotations

import multiprocessing
import os

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launched() -> bool:
    """Whether it is; the workers that such a process starts itself are none of the job."""
    named = all(os.environ.get(name) for name in NAMES) and multiprocessing.parent_process() is None
    return named and os.environ["WORLD_SIZE"] != "1"
