"""Populations to train that do not wait for each other: one after another here, or as tasks of Ray on many machines.

A task may be lost with its process or its machine, and is then begun again elsewhere. So it does nothing but train and
give what it found: it takes up from the checkpoint that it left, and whoever asked for it writes the files. They are
the same either way.
"""

from __future__ import annotations

import functools
import logging
import re
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from naysayer.common.progress import Bar
from naysayer.engine import checkpoint as checkpoints
from naysayer.engine import population

LOCAL = "local"  # the address of a Ray that is started for this call, and ends with it
RETRIES = 20  # of a task whose process or machine was lost
PATIENCE = 4.0  # seconds to wait for an address to answer, of which there may be two
_ADDRESS = re.compile(r"(ray://)?(\[[^]]+\]|[^:/\s]+):(\d+)")


@dataclass(frozen=True, eq=False)
class Task:
    """A population to train.

    Parameters
    ----------
    name : of it, for people.
    work : a function of the arguments and of `checkpoint`, the file to take up from and to save to, and `bar`, which
        is told of shares of the work that come to 1. It changes nothing but the checkpoint.
    arguments : what it is called with; what :meth:`Workers.share` gave may be among them.
    checkpoint : the name of its checkpoint.
    size : against the others', for the bar.
    cpus, gpus, memory : what it needs of a machine of a cluster, the memory in bytes; None is what the cluster gives
        every task.
    """

    name: str
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    checkpoint: str
    size: float = 1.0
    cpus: float | None = None
    gpus: float | None = None
    memory: int | None = None


class Workers(Protocol):
    """Whoever does tasks."""

    def share(self, value: Any) -> Any:
        """Give what stands for a large value in the arguments of many tasks."""

    def do(self, tasks: Iterable[Task], bar: Bar) -> Iterator[tuple[Task, Any]]:
        """Do tasks; give each with what it found, in the order in which they are done."""

    def fetch(self, task: Task, work: Callable[..., Any]) -> Any:
        """Call a function with a task's arguments and checkpoint in this process, whoever does the others."""

    def forget(self, task: Task) -> None:
        """Remove a task's checkpoint: what it found is in its place."""


class Here:
    """This process, which does one task after another.

    Parameters
    ----------
    checkpoints : a folder, or a URL that fsspec knows, such as ``s3://bucket/folder``.
    """

    def __init__(self, checkpoints: str | Path) -> None:
        self.checkpoints = _place(checkpoints)

    def share(self, value: Any) -> Any:
        return value

    def do(self, tasks: Iterable[Task], bar: Bar) -> Iterator[tuple[Task, Any]]:
        for task in tasks:
            bar(0, task.name)
            told = functools.partial(_scaled, bar, task.size)
            yield task, _call(task.work, self._path(task), told, *task.arguments)

    def fetch(self, task: Task, work: Callable[..., Any]) -> Any:
        return _call(work, self._path(task), _unseen, *task.arguments)

    def forget(self, task: Task) -> None:
        remove(self._path(task))

    def _path(self, task: Task) -> str:
        return f"{self.checkpoints}/{task.checkpoint}"


class OnRay(Here):
    """Machines of a Ray cluster, each of which does as many tasks at a time as it has cores or GPUs for.

    Use it in a `with` block. The machines need this package, in the same release, and the same Python and Ray. A
    program that is connected to a cluster already stays with that one.

    Parameters
    ----------
    address : of the cluster, as ``host:6379``, or "auto" for one that runs on this machine; "local" starts one that
        ends with the block.
    checkpoints : a folder that all machines see under the same path, or a URL that fsspec knows.
    cpus, gpus : that a task takes which does not say what it needs; None for the GPUs is one each where `device` asks
        for it, or is "auto" and the cluster has any.
    device : "auto", "cpu" or "cuda", as the tasks take it.
    seconds : between two checkpoints of a task.
    """

    def __init__(
        self,
        address: str,
        checkpoints: str | Path,
        *,
        cpus: float = 1,
        gpus: float | None = None,
        device: str = "auto",
        seconds: float = population.CHECKPOINT_SECONDS,
    ) -> None:
        super().__init__(checkpoints)
        if not cpus > 0:
            raise ValueError(f"a task must take a number of cores above 0; got {cpus:g}")
        if gpus is not None and not gpus >= 0:
            raise ValueError(f"a task must take a number of GPUs of 0 or more; got {gpus:g}")
        self.address, self.cpus, self.gpus, self.device, self.seconds = address, cpus, gpus, device, seconds

    def __enter__(self) -> OnRay:
        import ray

        self._connected = False
        if not ray.is_initialized():
            self._connect()
        try:
            self.gpus = self._check_resources()
        except ValueError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        if self._connected:
            self._disconnect()

    def _connect(self) -> None:
        import ray

        if self.address not in (LOCAL, "auto"):
            check_answers(self.address)
        handled = threading.current_thread() is threading.main_thread()  # else no handler can be set, Ray's included
        self._on_term = signal.getsignal(signal.SIGTERM) if handled else None
        how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address == LOCAL:
            how["include_dashboard"] = False
        self._connected = True
        try:
            ray.init(address=self.address, **how)
        except BaseException as error:
            self._disconnect()
            if isinstance(error, ConnectionError):
                raise _unreachable(self.address, str(error)) from None
            raise

    def _disconnect(self) -> None:
        import ray

        ray.shutdown()
        self._connected = False
        if self._on_term is not None:
            signal.signal(signal.SIGTERM, self._on_term)

    def _check_resources(self) -> float:
        """Refuse tasks that no machine could ever do; give the GPUs that each takes."""
        found = _machines()
        gpus = self.gpus
        if gpus is None:
            any_gpu = any(node.get("GPU", 0) >= 1 for node in found)
            gpus = 1.0 if self.device.startswith("cuda") or (self.device == "auto" and any_gpu) else 0.0
        self._check(self.cpus, gpus, None, found, "a task takes", "; lower --task-cpus or --task-gpus")
        return gpus

    @staticmethod
    def _check(
        cpus: float, gpus: float, memory: int | None, nodes: list[dict[str, float]], who: str, advice: str = ""
    ) -> None:
        """Refuse what no machine of the cluster has."""
        asked = {"CPU": cpus, "GPU": gpus, "memory": memory or 0}
        if not any(all(node.get(kind, 0) >= n for kind, n in asked.items()) for node in nodes):
            most = [max((node.get(kind, 0) for node in nodes), default=0) for kind in asked]
            more = [f" and {n / 1e6:,.0f} MB" if memory else "" for n in (asked["memory"], most[2])]
            raise ValueError(
                f"a machine of the cluster must have the {cpus:g} cores and {gpus:g} GPUs{more[0]} that {who}; "
                f"the most that one has are {most[0]:g} and {most[1]:g}{more[1]}{advice}"
            )

    def _needs(self, task: Task, nodes: list[dict[str, float]]) -> dict[str, Any]:
        """Give what a task takes, as Ray is told."""
        given = self.gpus or 0.0
        cpus, gpus = (given if own is None else own for own, given in ((task.cpus, self.cpus), (task.gpus, given)))
        if (task.cpus, task.gpus, task.memory) != (None, None, None):
            self._check(cpus, gpus, task.memory, nodes, f"{task.name} takes")
        return {"num_cpus": cpus, "num_gpus": gpus} | ({} if task.memory is None else {"memory": task.memory})

    def share(self, value: Any) -> Any:
        import ray

        return ray.put(value)

    def do(self, tasks: Iterable[Task], bar: Bar) -> Iterator[tuple[Task, Any]]:
        import ray

        remote = ray.remote(max_retries=RETRIES)(_call_on_worker)
        nodes = _machines()
        waiting = {}
        for task in tasks:
            given = remote.options(name=task.name, **self._needs(task, nodes))
            waiting[given.remote(task.work, self._path(task), self.seconds, *task.arguments)] = task
        try:
            while waiting:
                (done, *_), _ = ray.wait(list(waiting))
                task = waiting.pop(done)
                try:
                    found = ray.get(done)
                except ray.exceptions.RayError as error:
                    cause = getattr(error, "cause", error)
                    if not isinstance(cause, ray.exceptions.RayError):
                        raise cause from None  # the task's own
                    why = str(cause).strip().split("\n")[0]
                    raise RuntimeError(f"Ray must be able to do {task.name}; it gave it up: {why}") from None
                bar(task.size, task.name)
                yield task, found
        finally:  # nobody waits for the others any more; a program that stays connected would let them train on
            for left in waiting if ray.is_initialized() else ():
                ray.cancel(left)


def workers(
    ray: str | None,
    checkpoints: str | Path,
    *,
    cpus: float = 1,
    gpus: float | None = None,
    device: str = "auto",
) -> Any:
    """Give who does tasks, for a `with` block: this process, or a Ray cluster if `ray` is the address of one."""
    if ray is None:
        return _as_it_is(Here(checkpoints))
    return OnRay(ray, checkpoints, cpus=cpus, gpus=gpus, device=device)


def _machines() -> list[dict[str, float]]:
    """The resources of each machine of the cluster."""
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


@contextmanager
def _as_it_is(value: Any) -> Iterator[Any]:
    yield value


def _scaled(bar: Bar, size: float, advance: float = 1, label: str | None = None) -> None:
    """Tell a bar of a share of something that has a size."""
    bar(advance * size, label)


def _call(work: Callable[..., Any], path: str, bar: Bar, *arguments: Any) -> Any:
    """Do a task; its checkpoint comes from its place and goes back to it."""
    with local_file(path, bar) as (file, told):
        return work(*arguments, checkpoint=file, bar=told)


def _call_on_worker(work: Callable[..., Any], path: str, seconds: float, *arguments: Any) -> Any:
    """Do a task in a process of Ray's."""
    population.CHECKPOINT_SECONDS = seconds
    return _call(work, path, _unseen, *arguments)


def _unseen(advance: float = 1, label: str | None = None) -> None:
    """A bar that nobody sees."""


# ---- checkpoints that are not files ------------------------------------------------------------------------------


def _place(checkpoints: str | Path) -> str:
    """Write a folder in full, so that it is the same one for every process, and leave a URL as it is."""
    return str(checkpoints).rstrip("/") if _is_url(str(checkpoints)) else str(Path(checkpoints).absolute())


def _is_url(path: str) -> bool:
    return "://" in path


def check_place(checkpoints: str) -> None:
    """Find out before the training that checkpoints cannot be kept at a URL."""
    if _is_url(checkpoints):
        import fsspec

        try:
            fsspec.core.url_to_fs(checkpoints)
        except (ValueError, ImportError) as error:
            raise ValueError(f"--checkpoints must be a folder, or a URL that fsspec can open: {error}") from None


@contextmanager
def local_file(path: str, bar: Bar) -> Iterator[tuple[Path, Bar]]:
    """Give a checkpoint as a file on this machine, and a bar that, whenever it is told of an epoch, takes it along.

    Where it is a file anyway, these are the file and the bar themselves.
    """
    if not _is_url(path):
        yield Path(path), bar
        return
    import fsspec

    system, there = fsspec.core.url_to_fs(path)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint"
        if system.exists(there):
            system.get_file(there, str(file))
        sent = file.stat().st_mtime_ns if file.exists() else 0

        def send() -> None:
            nonlocal sent
            if file.exists() and (made := file.stat().st_mtime_ns) != sent:
                system.makedirs(there.rpartition("/")[0], exist_ok=True)
                system.put_file(str(file), f"{there}.part")
                system.mv(f"{there}.part", there)  # so that it is whole there at every moment
                sent = made

        def told(advance: float = 1, label: str | None = None) -> None:
            send()
            bar(advance, label)

        yield file, told
        send()


def remove(path: str) -> None:
    """Remove a checkpoint, and its folder with the last one."""
    if _is_url(path):
        import fsspec

        system, there = fsspec.core.url_to_fs(path)
        if system.exists(there):
            system.rm_file(there)
        return
    checkpoints.remove(Path(path))
    with suppress(OSError):  # others may lie beside it
        Path(path).parent.rmdir()


# ---- addresses ---------------------------------------------------------------------------------------------------


def check_answers(address: str) -> None:
    """Refuse an address where no Ray cluster answers: Ray itself would try for minutes, and then end the process."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError(f"--ray must be an address such as 10.0.0.5:6379, auto, or nothing; got {address!r}")
    try:
        with socket.create_connection((found[2].strip("[]"), int(found[3])), timeout=PATIENCE) as connection:
            answers = _speaks_grpc(connection)
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from None
    if not answers:
        raise _unreachable(address, "what answers there is no Ray")


def _speaks_grpc(connection: socket.socket) -> bool:
    """Ask for the cluster's id as Ray's clients do, and tell by the first answer whether such questions are taken."""
    asked = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/ray.rpc.NodeInfoGcsService/GetClusterId",
        ":authority": "ray",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    headers = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in asked.items()
    )
    frames = _frame(4) + _frame(1, 4, 1, headers) + _frame(0, 1, 1, bytes(5))  # settings, headers, an empty message
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frames)
    end = time.monotonic() + PATIENCE
    with connection.makefile("rb") as answer:
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            head = answer.read(9)
            if len(head) < 9 or head[3] > 9:  # no frame
                return False
            content = answer.read(int.from_bytes(head[:3], "big"))
            if head[3] == 1:  # headers, which begin with the status: 0x88 stands for 200
                return b"\x88" in content[:3]
    return False


def _frame(kind: int, flags: int = 0, stream: int = 0, content: bytes = b"") -> bytes:
    """Make a frame of HTTP/2."""
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _unreachable(address: str, why: str) -> ConnectionError:
    return ConnectionError(
        f"--ray must be the address of a Ray cluster that runs; {address} cannot be reached: {why}; start one with "
        f"`ray start --head`, or leave the address out"
    )
