"""Networks that take a leading axis of runs: linear and multilayer perceptron.

Their parameters may be stacked, (M, ...) for M runs, and so may their input; every product is then one batched
matrix product. Any other ``nn.Module`` trains too, through ``torch.func.vmap``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class StackedLinear(nn.Module):
    """An affine map x Wᵀ + b with W of shape (..., out, in), laid out and initialised as ``nn.Linear`` is."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.empty(n_outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.dim() == 2:
            return F.linear(x, self.weight, self.bias)
        return torch.matmul(x, self.weight.mT).add_(self.bias.unsqueeze(-2))


class MLP(nn.Module):
    """A multilayer perceptron with ReLU; no hidden layer makes it the paper's linear model.

    Parameters
    ----------
    n_inputs : D; examples of more dimensions, (B, ...) with D values each, are flattened.
    n_classes : K
    hidden : widths of the hidden layers.

    Examples
    --------
    >>> MLP(784, 10, hidden=(500,))(torch.zeros(2, 784)).shape
    torch.Size([2, 10])
    """

    stacks = True  # the engine may hand it stacked parameters directly

    def __init__(self, n_inputs: int, n_classes: int, hidden: Sequence[int] = (500,)) -> None:
        super().__init__()
        widths = [n_inputs, *hidden, n_classes]
        self.layers = nn.ModuleList(StackedLinear(a, b) for a, b in itertools.pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(self.layers[0].weight.dim() - 1)  # type: ignore[union-attr,operator]
        *hidden, last = self.layers
        for layer in hidden:
            x = layer(x).relu_()
        return last(x)  # type: ignore[no-any-return]

    def in_parts(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        """Logits of one hidden layer, its units dealt to the T threads of a CPU, and what turns their gradient into the
        parameters': (T, B, D), a copy of the batch for each thread → (B, K).

        A batched product does a part a thread. A core so keeps its part's weights, gradients and moments in its own
        cache, where the threads of a plain product would pass them from core to core at every step. The gradients
        are written down rather than traced, so that they come out in the parameters' layout.
        """
        parts, x = len(x), x.flatten(2)
        w1, b1, w2, b2 = (p.detach() for p in self.parameters())
        w1, w2 = w1.view(parts, -1, x.shape[-1]), w2.mT.reshape(parts, -1, len(b2))
        h = torch.baddbmm(b1.view(parts, 1, -1), x, w1.mT).relu_()

        def gradients(d: Tensor) -> tuple[Tensor, ...]:
            each = d.expand(parts, *d.shape)
            dh = torch.ops.aten.threshold_backward(torch.bmm(each, w2.mT), h, 0)
            dw1, dw2 = torch.bmm(dh.mT, x), torch.bmm(h.mT, each)
            return dw1.flatten(0, 1), dh.sum(dim=1).flatten(), dw2.flatten(0, 1).mT, d.sum(dim=0)

        return torch.bmm(h, w2).sum(dim=0).add_(b2), gradients


def linear(n_inputs: int, n_classes: int) -> MLP:
    """The paper's linear-in-input model with a bias."""
    return MLP(n_inputs, n_classes, hidden=())


def mlp(n_inputs: int, n_classes: int, hidden: Sequence[int] = (500,)) -> MLP:
    """The paper's MLP, d-500-K."""
    return MLP(n_inputs, n_classes, hidden)
