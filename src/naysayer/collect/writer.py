"""Group commit: one thread writes, and all that came while it wrote share the next transaction."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

Connection = TypeVar("Connection")
Request = TypeVar("Request")


class GroupWriter(Generic[Connection, Request]):
    """A thread that takes what has come, writes it in one transaction, and answers after the commit.

    A disk makes a write durable in milliseconds, whatever its size: when 200 people answer at once, one such wait for
    all of them keeps each under the time of two.

    Parameters
    ----------
    transaction : opens a transaction; it is committed where the block ends, rolled back where it raises.
    write : ``write(connection, requests)`` gives one result a request; an exception among them is raised to the one
        who sent that request. An exception that it raises rolls the transaction back: when several shared it, each is
        then tried alone, so that nobody fails for another's request, unless `shared(error)` says that it is everyone's.
    shared : tells whether an error would meet every request, such as a full disk.
    most : so many requests share a transaction at most.

    Examples
    --------
    >>> from contextlib import nullcontext
    >>> written = []
    >>> writer = GroupWriter(lambda: nullcontext(written), lambda to, new: [to.extend(new)] + [None] * (len(new) - 1))
    >>> writer.submit("a").result()
    >>> written
    ['a']
    >>> writer.close()
    """

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[Connection]],
        write: Callable[[Connection, list[Request]], list[Any]],
        shared: Callable[[Exception], bool] = lambda error: False,
        most: int = 256,
    ) -> None:
        self._transaction, self._write, self._shared, self._most = transaction, write, shared, most
        self._waiting: deque[tuple[Request, Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, request: Request) -> Future[Any]:
        """Hand in a request; its future has a result once that is durable."""
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("the store must be open; it was closed; open it again")
            if self._thread is None:  # only who writes needs the thread
                self._thread = threading.Thread(target=self._run, name="naysayer-writer", daemon=True)
                self._thread.start()
            self._waiting.append((request, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Write what was handed in, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most))]
            self._commit(batch)

    def _commit(self, batch: list[tuple[Request, Future[Any]]]) -> None:
        """Write a batch and tell those who wait."""
        try:
            with self._transaction() as connection:
                results = self._write(connection, [request for request, _ in batch])
        except Exception as error:
            if len(batch) > 1 and not self._shared(error):
                for one in batch:
                    self._commit([one])
                return
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results):
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
