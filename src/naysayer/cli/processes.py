"""The command as one of several processes that torchrun started: one prints, and all end together."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TextIO

from naysayer.common.launched import launched

ENDED = (
    "the job was stopped, or another of its processes ended; what was saved on the way is whole, and the same command "
    "resumes from it, on any number of processes"
)
_terminal: TextIO = sys.stderr


def begin(command: str) -> bool:
    """Meet the other processes, and see that all were given the same command; all but the first are silent then.

    Tells whether they met now, to part at the end.
    """
    if command != "train":
        raise ValueError(f"torchrun is for `naysayer train`; run naysayer {command} without it")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # before there are other threads, which inherit it
    threading.Thread(target=_await_the_end, daemon=True).start()
    from naysayer.common.fingerprint import fingerprint
    from naysayer.engine import processes

    had_met, together = processes.joined() is not None, processes.join()
    assert together is not None
    together.agree({"the command line": fingerprint(sys.argv[1:])})
    if together.rank > 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return not had_met


def end() -> None:
    """Part from the others once all are done: where threads of gloo still run, Python may abort as it ends."""
    from naysayer.engine import processes

    together = processes.joined()
    assert together is not None
    together.gather(None)
    processes.leave()


def tell(line: str) -> None:
    """Print an error, if no other process of the job has printed one."""
    if not launched() or _is_first_to_tell():
        print(line, file=_terminal if launched() else sys.stderr, flush=True)


def _is_first_to_tell() -> bool:
    """Whether no other process has told yet; those that did not meet leave it to the first one."""
    processes = sys.modules.get("naysayer.engine.processes")
    together = None if processes is None else processes.joined()
    if together is None or together.store is None:
        return os.environ["RANK"] == "0"
    try:
        return bool(together.store.add("told", 1) == 1)
    except RuntimeError:  # the store went with the first process
        return True


def _await_the_end() -> None:
    """End at once, and say so, when torchrun ends the job: the main thread may wait for a process that is no more."""
    signal.sigwait({signal.SIGTERM})
    tell(f"naysayer: {ENDED}")
    os._exit(128 + signal.SIGTERM)
