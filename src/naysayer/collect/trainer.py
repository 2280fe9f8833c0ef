"""Training beside the asking: a process of its own, of low priority, so that nobody who answers waits for it.

The server's process decides when to train, and draws from what comes of it; the other one reads the store, trains,
writes the result into the store and says so. It ends when the server does, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from naysayer.collect.store import Store

if TYPE_CHECKING:
    from naysayer.features.encoder import Encoder

NICE = 5  # by how much the training's priority is lower


class Trainer:
    """Trains in the background whenever a tenth more answers, and at least 50, have come since the last time.

    Each result goes into the store (`Store.trainings`). An error is kept as text and ends nothing: when more answers
    have come, it is tried again.

    Parameters
    ----------
    store : to train on.
    every : least number of new answers.
    seconds : between two looks at the store.
    options : for :func:`naysayer.collect.learn.train`, such as JSON can hold.

    Attributes
    ----------
    error : what went wrong the last time, in one line; None: nothing.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.collect.store import Project
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store.open(folder.name + "/answers.db", project=Project(("good", "bad"))) as store, Trainer(store):
    ...     pass  # serve
    >>> folder.cleanup()
    """

    def __init__(self, store: Store, *, every: int = 50, seconds: float = 2.0, **options: Any) -> None:
        self.error: str | None = None
        self._store, self._every, self._seconds, self._options = store, every, seconds, options
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="naysayer-trainer", daemon=True)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Trainer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End at once; of a training that is under way nothing counts."""
        self._stop.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join()

    def _run(self) -> None:
        trained_on, guided, n_ruled = 0, self._store.project.questions != "guided", -1
        fits = (lambda one: True) if guided else (lambda one: "guides" in one.detail)  # of before, none can guide
        while not self._stop.is_set():
            try:
                guided = guided or self._store.guide() is not None  # the last training may have left what guides
                trained_on = trained_on or max(
                    (one.n_answers for one in self._store.trainings() if fits(one)), default=0
                )
                n, last = self._store.progress().answers, self._store.trainings()[-1:]
                rulings = self._store.rulings()
                if n_ruled < 0:
                    n_ruled = sum(one.at <= last[0].at for one in rulings) if last else len(rulings)
                # What was learned from answers that no longer count is to be forgotten.
                if (last and len(rulings) > n_ruled) or n - trained_on >= max(self._every, trained_on // 10):
                    trained_on, n_ruled = n, len(rulings)  # also where it fails: the same answers would fail again
                    self.error = self._train()
                    if self.error is None and self._store.project.questions == "guided":
                        self._store.guide()
            except Exception as error:  # whatever it is, people go on answering
                if not self._stop.is_set():
                    self.error = in_one_line(error)
            self._stop.wait(self._seconds)
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError):  # of what was on the way to it
                self._process.communicate()

    def _train(self) -> str | None:
        """Let the other process train; give what went wrong, if anything."""
        process = self._process
        lines: list[Any] = ["train"]
        if process is None or process.poll() is not None:
            threads = str(max(1, (os.cpu_count() or 1) - 1))  # one core is left to those who answer
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"OMP_NUM_THREADS": threads} | os.environ,
            )
            lines = [[self._store.address, self._options], *lines]
        if self._stop.is_set():  # `stop` may have come before there was a process to kill
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it ended, as below
            process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
            process.stdin.flush()
            if reply := process.stdout.readline():
                return json.loads(reply)  # type: ignore[no-any-return]
        code = process.wait()
        return None if self._stop.is_set() else f"the training must come to an end; its process ended with {code}"


def in_one_line(error: Exception) -> str:
    """Say what went wrong without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())


# ---- the other process ---------------------------------------------------------------------------------------------


def main() -> None:
    """Train a store whenever a line asks for it, and answer with a line: null, or what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for the server, which ends this
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print is no reply
    where, options = json.loads(sys.stdin.readline())
    asked: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    # Only the thread that trains has the low priority, where the system can tell threads apart, as Linux does: while
    # somebody holds the store's lock, others wait for it.
    with Store.open(where) as store, ThreadPoolExecutor(1, initializer=_give_way) as apart:
        before: Encoder | None = None
        while True:
            asked.get()
            error = None
            try:
                trained = apart.submit(_train, store, before, options).result()
                _keep(store, trained)
                before = trained.encoder
            except Exception as failed:
                error = in_one_line(failed)
            replies.write(json.dumps(error) + "\n")
            replies.flush()


def _listen(asked: SimpleQueue[str]) -> None:
    """Pass on what is asked for; where nobody can ask any more, end."""
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


def _give_way() -> None:
    if hasattr(os, "nice"):
        os.nice(NICE)


def _train(store: Store, before: Encoder | None, options: dict[str, Any]) -> Any:
    from naysayer.collect import learn

    return learn.train(store, before=before, **options)


def _keep(store: Store, trained: Any) -> None:
    from naysayer.collect.learn import add_training

    add_training(store, trained)


if __name__ == "__main__":
    main()
