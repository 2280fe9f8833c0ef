"""A batch spread over several processes: sums over all of them.

Counts, risks and gradients are sums over examples, and the corrections look only at the summed risks, so training on G
processes with batches of B/G is training on one with batches of B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed
from torch import Tensor


class SumOver:
    """The sum of a tensor over the processes of a group.

    Parameters
    ----------
    group : a process group of ``torch.distributed``; None is the default one, which must have been initialised.
    """

    def __init__(self, group: Any = None) -> None:
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            raise ValueError("a process group must be initialised first: torch.distributed.init_process_group('gloo')")
        self.group = group
        self.size = torch.distributed.get_world_size(group)

    def __deepcopy__(self, memo: Any) -> SumOver:
        """Give itself: copies of what uses a group use the same one."""
        return self

    def __call__(self, tensor: Tensor) -> Tensor:
        """Give the sum; the tensor itself is left alone."""
        whole = tensor.detach().clone()
        with ended():
            torch.distributed.all_reduce(whole, group=self.group)
        return whole

    def gather_numbers(self, numbers: Sequence[int], device: torch.device) -> list[list[int]]:
        """Give the whole numbers of each process, in the order of their ranks."""
        mine = torch.tensor(numbers, dtype=torch.int64, device=device)
        parts = [torch.empty_like(mine) for _ in range(self.size)]
        with ended():
            torch.distributed.all_gather(parts, mine, group=self.group)
        return [part.tolist() for part in parts]


@contextmanager
def ended() -> Iterator[None]:
    """Say what it means when processes cannot tell each other something."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            "all processes must work to the end; another one ended, or was given other work; what it printed says why"
        ) from error
