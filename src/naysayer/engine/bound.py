"""A network bound to the stacked parameters of some runs: their logits, and gradients pulled back through it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from naysayer.engine.networks import MLP
from naysayer.engine.passes import PASSES, Gradients
from naysayer.objectives import Objective

Tensors = dict[str, Tensor]


def stacked_logits(module: nn.Module, state: Tensors, x: Tensor) -> Tensor:
    """Logits (C, B, K) of stacked runs: directly where the module takes stacks, alone for one run, else by vmap."""
    if getattr(module, "stacks", False):
        return functional_call(module, state, (x,))  # type: ignore[no-any-return]
    if len(x) == 1:
        one = {k: v.squeeze(0) for k, v in state.items()}
        return functional_call(module, one, (x.squeeze(0),)).unsqueeze(0)  # type: ignore[no-any-return]

    def call(state: Tensors, x: Tensor) -> Tensor:
        return functional_call(module, state, (x,))  # type: ignore[no-any-return]

    return vmap(call)(state, x)  # which raises a RuntimeError where the module draws: see Population._stacks


def set_training(module: nn.Module) -> None:
    """Put a network into training mode, but leave its frozen parts as they predict, batch norm and dropout included."""
    module.train()
    for part in module.modules():
        parameters = list(part.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            part.eval()


class Headed(nn.Module):
    """A network with the layer that an objective puts on top of it."""

    def __init__(self, network: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.network, self.head = network, head
        self.stacks = bool(getattr(network, "stacks", False))  # the layer takes leading axes, as objectives do

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.network(x))  # type: ignore[no-any-return]


def headed(network: nn.Module, objective: Objective | None) -> nn.Module:
    """Put a copy of the objective's layer on top of a network, if it has one."""
    if objective is None or objective.head is None:
        return network
    return Headed(network, copy.deepcopy(objective.head))


class BoundNetwork:
    """One module for C runs, each with its own parameters and buffers.

    Parameters
    ----------
    module : from (B, ...) to (B, K); its own values are not used, only which of its parameters are frozen.
    parameters, buffers : of the runs, (C, ...) each; they are copied. Frozen parameters are among the buffers.
    example : the inputs of one example, (1, ...), on the device.
    bfloat16 : compute in bfloat16, with parameters and logits in float32.
    compiled : compile the training pass of a single run.
    in_parts : deal the hidden units of a single run's MLP to the threads of a CPU; inputs then come once per part.

    Attributes
    ----------
    parameters, buffers : the runs' own, which the optimiser steps in place.
    parts : how many copies of a batch a training pass takes, (parts, B, ...); 1 unless `in_parts`.
    """

    def __init__(
        self,
        module: nn.Module,
        parameters: Tensors,
        buffers: Tensors,
        example: Tensor,
        *,
        bfloat16: bool = False,
        compiled: bool = False,
        in_parts: bool = False,
    ) -> None:
        self.size = len(next(iter(parameters.values())))
        self.stacks = bool(getattr(module, "stacks", False))
        self.cuda, self.bfloat16 = example.is_cuda, bfloat16
        self.channels_last = example.is_cuda and example.dim() == 4 and self.size == 1
        self.parts = self._parts(module, parameters) if in_parts and not (bfloat16 or compiled) else 1
        self.parameters = {k: self._lay_out(k, v.detach().clone()) for k, v in parameters.items()}
        self.buffers = {k: v.detach().clone() for k, v in buffers.items()}
        self.module, self._leaves = self._bind(module)
        written = PASSES.get(type(module))
        self._written = None if written is None or bfloat16 or compiled else written(self.parameters, self.parts)
        self._traced = torch.compile(self.module, dynamic=False) if compiled and self.size == 1 else self.module

    def logits(self, x: Tensor) -> Tensor:
        """Logits (C, B, K) of the runs, in float32 whatever the network computes in."""
        with self._precision():
            return self._forward(x).float()

    def logits_of(self, parameters: Tensors, buffers: Tensors, x: Tensor) -> Tensor:
        """Logits (C, B, K) of other parameters and buffers, (C, ...) each, as they predict: nothing is changed."""
        training = self.module.training
        self.module.eval()
        try:
            with self._precision():
                return stacked_logits(self.module, parameters | buffers, x).float()
        finally:
            if training:
                set_training(self.module)

    def run(self, x: Tensor) -> tuple[Tensor, Gradients]:
        """Logits of a training pass, and what turns their gradient into the parameters', (C, ...) each."""
        if self._written is not None:
            with torch.no_grad():
                return self._written(x)
        logits = self.logits(x)

        def gradients(d: Tensor) -> tuple[Tensor, ...]:
            found = torch.autograd.grad(logits, self._leaves, d, materialize_grads=True)
            return tuple(g.unsqueeze(0) for g in found) if self.size == 1 else found

        return logits.detach(), gradients

    def train(self) -> None:
        set_training(self.module)

    def eval(self) -> None:
        self.module.eval()

    @contextlib.contextmanager
    def showing(self, parameters: Tensors, buffers: Tensors) -> Iterator[None]:
        """Let the network have other values for a while, such as averaged ones."""
        mine = self.parameters | self.buffers
        others = parameters | buffers
        changed = {k: t for k, t in mine.items() if others[k] is not t}
        before = {k: t.detach().clone() for k, t in changed.items()}
        with torch.no_grad():
            for name, tensor in changed.items():
                tensor.copy_(others[name])
        try:
            yield
        finally:
            with torch.no_grad():
                for name, tensor in changed.items():
                    tensor.copy_(before[name])

    # ---- inside -------------------------------------------------------------------------------------------------

    def _parts(self, module: nn.Module, parameters: Tensors) -> int:
        """Into how many parts a single run's hidden layer is cut: one for each thread of a CPU, where it divides."""
        threads = torch.get_num_threads()
        if self.cuda or self.size > 1 or type(module) is not MLP or len(module.layers) != 2:
            return 1
        if len(parameters) < 4:  # the others are frozen
            return 1
        width = module.layers[1].weight.shape[1]  # type: ignore[index,union-attr]
        return threads if width % threads == 0 else 1

    def _lay_out(self, name: str, parameter: Tensor) -> Tensor:
        """Put a parameter, (C, ...), into memory as its device multiplies it fastest."""
        if self.channels_last and parameter.dim() == 5:  # as the tensor cores take convolutions
            return parameter.squeeze(0).contiguous(memory_format=torch.channels_last).unsqueeze(0)
        if parameter.dim() != 3 or not self.stacks:
            return parameter
        if self.cuda and self.size > 1:
            return parameter.mT.contiguous().mT  # x Wᵀ is a third faster batched when Wᵀ lies row by row
        if self.parts > 1 and name == "layers.1.weight":
            return parameter.mT.contiguous().mT  # so that a part of it is one piece of memory
        return parameter

    def _bind(self, module: nn.Module) -> tuple[nn.Module, list[Tensor]]:
        """Give the module that is called, and the tensors that are differentiated.

        Where it can be, it is a copy whose parameters are the stacked ones, or views of them; to put them into a shared
        module at every call would cost more than a small step's products.
        """
        own = copy.deepcopy(module)
        if self.size > 1 and not self.stacks:
            return own, [p.requires_grad_() for p in self.parameters.values()]
        state = {k: v.squeeze(0) if self.size == 1 else v for k, v in (self.parameters | self.buffers).items()}
        for name, parameter in own.named_parameters():
            parameter.data = state[name]
        held = {id(buffer): state[name] for name, buffer in own.named_buffers()}  # one that parts share is named once
        for part in own.modules():
            for key, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[key] = held[id(buffer)]
        return own, [own.get_parameter(name) for name in self.parameters]

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if not self.bfloat16:
            return contextlib.nullcontext()
        return torch.autocast("cuda" if self.cuda else "cpu", torch.bfloat16)

    def _forward(self, x: Tensor) -> Tensor:
        if self.size == 1:
            x = x.squeeze(0)
            x = x.contiguous(memory_format=torch.channels_last) if self.channels_last else x
            return (self._traced if self.module.training else self.module)(x).unsqueeze(0)  # type: ignore[no-any-return]
        if self.stacks:
            return self.module(x)  # type: ignore[no-any-return]
        return stacked_logits(self.module, self.parameters | self.buffers, x)
