"""One model trained by many processes, as torchrun starts them: they meet, agree, and share out every batch.

All processes are given the same data and settings and draw the same batches; each computes on its part of them. Counts,
risks, gradients and the statistics of batch norm are summed, so that what they train is what one process would have
trained, whatever their number. The first process alone writes files.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from naysayer.common.launched import launched
from naysayer.common.reduce import SumOver, ended
from naysayer.engine.networks import BatchNorm
from naysayer.engine.source import Reduce

MEETING = timedelta(seconds=60)  # to wait for the others at the start
WORKING = timedelta(days=1)  # to wait for one that computes alone; one that ends is noticed at once

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, BatchNorm)

Result = TypeVar("Result")
_joined: Processes | None = None


class Processes(SumOver):
    """All processes of a job: sums over them, and the few other things that they tell each other.

    Attributes
    ----------
    rank, size : this one's number, and how many there are.
    store : where all can leave a word; with torchrun it outlives the processes.
    """

    def __init__(self, store: Any = None) -> None:
        super().__init__()
        self.rank, self.store = torch.distributed.get_rank(), store

    def gather(self, value: Any) -> list[Any]:
        """Give what each process has, in their order."""
        found = [None] * self.size
        with ended():
            torch.distributed.all_gather_object(found, value)
        return found

    def rows(self, mine: Tensor) -> Tensor:
        """Put the rows that each process has one after the other; of booleans, bytes are summed."""
        if mine.dtype == torch.bool:
            return self.rows(mine.byte()).bool()
        first, n = sum((found := self.gather(len(mine)))[: self.rank]), sum(found)
        whole = mine.new_zeros(n, *mine.shape[1:])
        whole[first : first + len(mine)] = mine
        return self(whole)

    def from_first(self, work: Callable[[], Result]) -> Result:
        """Let the first process do something, and give all what came of it, be it an error."""
        done: list[Any] = [None, None]
        if self.rank == 0:
            try:
                done[0] = work()
            except Exception as error:
                done[1] = error
        with ended():
            torch.distributed.broadcast_object_list(done)
        if done[1] is not None:
            raise done[1]
        return done[0]  # type: ignore[no-any-return]

    def agree(self, settings: dict[str, str]) -> None:
        """Refuse to begin where processes were given different things; `settings` are digests by their names."""
        for rank, others in enumerate(self.gather(settings)):
            if differ := [name for name in settings if settings[name] != others.get(name)]:
                raise ValueError(
                    f"all processes must be given the same data and settings; process {self.rank} and process {rank} "
                    f"differ in {', '.join(differ)}; start all of them by the same command, with seeds that are given"
                )


def join() -> Processes | None:
    """Meet the other processes that torchrun started, once; give None where this one was started alone."""
    global _joined
    if _joined is None and launched():
        store = None if torch.distributed.is_initialized() else _meet()
        _joined = Processes(store)
    return _joined


def joined() -> Processes | None:
    """Give the processes that this one has met, if any."""
    return _joined


def leave() -> None:
    """Part from the others, at the end of the work."""
    global _joined
    if _joined is not None:
        _joined = None
        with contextlib.suppress(RuntimeError, ValueError):
            torch.distributed.destroy_process_group()


def is_first() -> bool:
    """Whether this process is the one that writes: the first, or the only one."""
    return _joined is None or _joined.rank == 0


def from_first(work: Callable[[], Result]) -> Result:
    """Do something once: in the first process, which gives all what came of it, or in the only one."""
    together = join()
    return work() if together is None else together.from_first(work)


def _meet() -> Any:
    """Make the default process group, of gloo for tensors in memory and nccl for those on CUDA devices."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    try:
        store, rank, size = next(iter(rendezvous("env://", rank, size, timeout=MEETING)))
    except (RuntimeError, ValueError) as error:  # of which torch's own, such as a port in use, are
        if "EADDRINUSE" in str(error) or "already in use" in str(error):
            raise OSError(
                f"port {port} must be free for the processes to meet; another program has it; set MASTER_PORT to "
                "another, or let torchrun find one: torchrun --standalone"
            ) from None
        raise OSError(
            f"all {size} processes must meet at {host}, port {port}, within {MEETING.seconds} s; process {rank} could "
            "not; are all started, and is the first one's machine reachable there?"
        ) from None
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        local = int(os.environ.get("LOCAL_RANK", 0))
        if local < torch.cuda.device_count():
            torch.cuda.set_device(local)
    torch.distributed.init_process_group(
        backend, store=PrefixStore("naysayer", store), rank=rank, world_size=size, timeout=WORKING
    )
    return store


def check_device(device: torch.device) -> None:
    """Check that this process has a CUDA device of its own, if it is to train on one."""
    local, here = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if device.type == "cuda" and local >= here:
        raise ValueError(
            f"each process must have a CUDA device of its own; this machine has {here}, and process {local + 1} got "
            f"none; start {here} per machine, or pass device='cpu'"
        )
    if device.type == "cuda" and device.index not in (None, local):
        raise ValueError(
            f"`device` must be 'cuda' here, for process {local + 1} of a machine takes 'cuda:{local}'; got '{device}'"
        )


# ---- batch norm over all processes --------------------------------------------------------------------------------


def has_batch_norm(module: nn.Module) -> bool:
    """Whether what a module makes of an example depends on the others in its batch."""
    return any(isinstance(part, NORMS) for part in module.modules())


def normalized_together(module: nn.Module, reduce: Reduce) -> nn.Module:
    """Give a copy of a module whose batch norms look at the batches of all processes; the module itself if it has none.

    The parameters and buffers keep their names.
    """
    if not has_batch_norm(module):
        return module
    out = nn.Sequential(copy.deepcopy(module))
    for name, part in list(out.named_modules()):
        if isinstance(part, NORMS):
            parent, _, last = name.rpartition(".")
            setattr(out.get_submodule(parent), last, WholeBatchNorm(part, reduce))
    return out[0]


class WholeBatchNorm(nn.Module):
    """Batch norm by the mean and variance of a batch that is spread over processes, by one sum per pass."""

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, of: nn.Module, reduce: Reduce) -> None:
        super().__init__()
        self.reduce = reduce
        self.eps, self.momentum = getattr(of, "eps", 1e-5), getattr(of, "momentum", 0.1)
        self._parameters = of._parameters
        self._buffers = {"num_batches_tracked": None, **of._buffers}
        self.train(of.training)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise as one process with the whole batch would; in evaluation, by what was seen in training."""
        mean, variance = self.running_mean, self.running_var
        if not self.training and mean is not None:
            return F.batch_norm(x, mean, variance, self.weight, self.bias, False, eps=self.eps)
        axes, shape = [axis for axis in range(x.dim()) if axis != 1], [1, -1, *[1] * (x.dim() - 2)]
        near = x.new_zeros(x.shape[1]) if mean is None else mean.clone()
        moved = x.float() - near.view(shape)  # squares of what is far from 0 would cancel
        n = moved.new_full((1,), moved.numel() / x.shape[1])
        sums = _Summed.apply(torch.cat([moved.sum(dim=axes), moved.square().sum(dim=axes), n]), self.reduce)
        n, (first, second) = sums[-1].detach(), (sums[:-1] / sums[-1].detach()).chunk(2)
        spread = (second - first.square()).clamp(min=0.0)
        if mean is not None and variance is not None:
            with torch.no_grad():
                share = self._share()
                mean.add_(share * (first + near - mean))
                variance.add_(share * (spread * n / (n - 1).clamp(min=1.0) - variance))
        out = (moved - first.view(shape)) * (spread + self.eps).rsqrt().view(shape)
        if self.weight is not None and self.bias is not None:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(x.dtype)

    def _share(self) -> Tensor | float:
        """How much of a batch's statistics is remembered: `momentum`, or if that is None, as in a mean of all."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return 1.0 / self.num_batches_tracked if self.momentum is None else self.momentum  # type: ignore[operator,return-value]


class _Summed(torch.autograd.Function):
    """A sum over processes through which gradients pass: each process's part moves what all of them see."""

    @staticmethod
    def forward(context: Any, mine: Tensor, reduce: Reduce) -> Tensor:
        context.reduce = reduce
        return reduce(mine)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.reduce(gradient), None
