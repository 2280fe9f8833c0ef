"""Networks: linear and multilayer perceptron, which take a leading axis of runs; deep ones for small images.

The parameters of the first two may be stacked, (M, ...) for M runs, and so may their input; every product is then one
batched matrix product. Any other ``nn.Module`` trains too, through ``torch.func.vmap``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from naysayer import names
from naysayer.common.checks import check_count
from naysayer.labels.checks import check_n_classes

__all__ = [
    "CIFAR10_DEVIATION",
    "CIFAR10_MEAN",
    "MLP",
    "NETWORKS",
    "BatchNorm",
    "Convolution",
    "DenseBlock",
    "ImageNetwork",
    "Pooled",
    "Residual",
    "StackedLinear",
    "densenet",
    "linear",
    "mlp",
    "pooled",
    "resnet",
    "resnet8",
    "resnet18",
    "resnet34",
]

CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)  # of the red, green and blue of all pixels of the 50,000 training images
CIFAR10_DEVIATION = (0.2470, 0.2435, 0.2616)


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


def linear(n_inputs: int, n_classes: int) -> MLP:
    """The paper's linear-in-input model with a bias."""
    return MLP(n_inputs, n_classes, hidden=())


def mlp(n_inputs: int, n_classes: int, hidden: Sequence[int] = (500,)) -> MLP:
    """The paper's MLP, d-500-K."""
    return MLP(n_inputs, n_classes, hidden)


class ImageNetwork(nn.Module):
    """A classifier of images: features, their mean over the pixels, and a linear layer.

    The images are standardised here, so that a saved network is whole: with CIFAR-10's means and deviations where they
    have colours, with 1/2 and 1/4 where not.

    Parameters
    ----------
    features : module from standardised images (B, channels, H, W) to (B, n_features, h, w).
    n_features : channels that ``features`` ends with.
    n_classes : K
    channels : of the images.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: nn.Module, n_features: int, n_classes: int, channels: int = 3) -> None:
        super().__init__()
        mean, deviation = (CIFAR10_MEAN, CIFAR10_DEVIATION) if channels == 3 else ((0.5,), (0.25,))
        self.channels = channels
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(-1, 1, 1))
        self.features = features
        self.classifier = nn.Linear(n_features, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2 and x.shape[1] == 3072 and self.channels == 3:
            x = x.unflatten(1, (3, 32, 32))
        if x.dim() != 4 or x.shape[1] != self.channels or min(x.shape[2:]) < 8 or not x.is_floating_point():
            flat = ", or (B, 3072)" if self.channels == 3 else ""
            raise ValueError(
                f"images must be floats of 0 to 1, (B, {self.channels}, H, W) with H and W at least 8{flat}; "
                f"got {x.dtype} of shape {tuple(x.shape)}"
            )
        features = self.features((x - self.mean) / self.deviation)
        return self.classifier(features.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class BatchNorm(nn.Module):
    """Batch normalisation as ``nn.BatchNorm2d`` does it, less its count of batches, which nothing here reads."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n_channels))
        self.bias = nn.Parameter(torch.zeros(n_channels))
        self.register_buffer("running_mean", torch.zeros(n_channels))
        self.register_buffer("running_var", torch.ones(n_channels))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training)


class Residual(nn.Module):
    """ResNet's basic block: two 3×3 convolutions, and a shortcut that is a projection where the shape changes."""

    def __init__(self, n_inputs: int, n_outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(_convolution(n_inputs, n_outputs, 3, stride), BatchNorm(n_outputs), nn.ReLU(inplace=True)),
            *(_convolution(n_outputs, n_outputs, 3), BatchNorm(n_outputs)),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or n_inputs != n_outputs:
            self.shortcut = nn.Sequential(_convolution(n_inputs, n_outputs, 1, stride), BatchNorm(n_outputs))

    def forward(self, x: Tensor) -> Tensor:
        return (self.body(x) + self.shortcut(x)).relu_()  # type: ignore[no-any-return]


class Pooled(nn.Module):
    """A stage that shrinks early: a 3×3 convolution and max-pooling, then a residual one on a quarter of the pixels."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.shrink = nn.Sequential(
            _convolution(n_inputs, n_outputs, 3), nn.MaxPool2d(2), BatchNorm(n_outputs), nn.GELU()
        )
        self.body = nn.Sequential(_convolution(n_outputs, n_outputs, 3), BatchNorm(n_outputs), nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        x = self.shrink(x)
        return x + self.body(x)  # type: ignore[no-any-return]


class DenseBlock(nn.Sequential):
    """DenseNet's block: each layer takes all channels made before it, through a bottleneck of 4k, and adds k."""

    def __init__(self, n_inputs: int, n_layers: int, growth: int) -> None:
        layers = []
        for n_channels in range(n_inputs, n_inputs + n_layers * growth, growth):
            bottleneck = [BatchNorm(n_channels), nn.ReLU(inplace=True), _convolution(n_channels, 4 * growth, 1)]
            widening = [BatchNorm(4 * growth), nn.ReLU(inplace=True), _convolution(4 * growth, growth, 3)]
            layers.append(nn.Sequential(*bottleneck, *widening))
        super().__init__(*layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = torch.cat([x, layer(x)], dim=1)
        return x


def _convolution(n_inputs: int, n_outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size of the image, or divides it by the stride, with He's initialisation."""
    layer = nn.Conv2d(n_inputs, n_outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def resnet(blocks: Sequence[int], n_classes: int = 10, width: int = 64, channels: int = 3) -> ImageNetwork:
    """A residual network for small images: a 3×3 stem, no max-pooling, stages of so many basic blocks.

    Parameters
    ----------
    blocks : how many in each stage; each stage has twice the channels of the one before, on a quarter of the pixels.
    n_classes : K
    width : channels of the first stage.
    channels : of the images, 3 with colours and 1 without.

    Returns
    -------
    network : from images (B, channels, H, W), or flat ones of 32×32 in colours, in [0, 1] to logits (B, K).

    References
    ----------
    K. He, X. Zhang, S. Ren, J. Sun. Deep residual learning for image recognition. CVPR 2016.
    """
    n_classes, width = check_n_classes(n_classes), check_count(width, "`width`")
    channels = check_count(channels, "`channels`")
    stages = [nn.Sequential(_convolution(channels, width, 3), BatchNorm(width), nn.ReLU(inplace=True))]
    n_inputs = width
    for i, n_blocks in enumerate(blocks):
        n_outputs, stride = width << i, 2 if i else 1
        rest = [Residual(n_outputs, n_outputs, 1) for _ in range(n_blocks - 1)]
        stages.append(nn.Sequential(Residual(n_inputs, n_outputs, stride), *rest))
        n_inputs = n_outputs
    return ImageNetwork(nn.Sequential(*stages), n_inputs, n_classes, channels)


def resnet34(n_classes: int = 10, width: int = 64, channels: int = 3) -> ImageNetwork:
    """ResNet-34 for images of about 32×32 pixels: stages of 3, 4, 6 and 3 blocks; see :func:`resnet`.

    Examples
    --------
    >>> resnet34(n_classes=10, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return resnet((3, 4, 6, 3), n_classes, width, channels)


def resnet18(n_classes: int = 10, width: int = 64, channels: int = 3) -> ImageNetwork:
    """ResNet-18 for images of about 32×32 pixels: four stages of 2 blocks; see :func:`resnet`.

    Examples
    --------
    >>> resnet18(n_classes=10, width=4, channels=1)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    return resnet((2, 2, 2, 2), n_classes, width, channels)


def resnet8(n_classes: int = 10, width: int = 32, channels: int = 3) -> ImageNetwork:
    """A residual network for small images and little time: three stages of 1 block; see :func:`resnet`.

    Examples
    --------
    >>> resnet8(n_classes=10, width=4, channels=1)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    return resnet((1, 1, 1), n_classes, width, channels)


def pooled(n_classes: int = 10, width: int = 64, channels: int = 3) -> ImageNetwork:
    """A network for small images and little time on a GPU: three stages that pool early.

    Parameters
    ----------
    n_classes : K
    width : channels of the first stage; the other two have four times as many.
    channels : of the images, 3 with colours and 1 without.

    References
    ----------
    The order of convolution and pooling is that of K. Jordan. 94% on CIFAR-10 in 3.29 seconds on a single GPU. 2024.

    Examples
    --------
    >>> pooled(n_classes=10, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    n_classes, width = check_n_classes(n_classes), check_count(width, "`width`")
    channels, half = check_count(channels, "`channels`"), -(-width // 2)
    stem = nn.Sequential(_convolution(channels, half, 3), BatchNorm(half), nn.GELU())
    stages = [Pooled(half, width), Pooled(width, 4 * width), Pooled(4 * width, 4 * width)]
    return ImageNetwork(nn.Sequential(stem, *stages), 4 * width, n_classes, channels)


def densenet(n_classes: int = 10, depth: int = 100, growth: int = 12) -> ImageNetwork:
    """DenseNet-BC for images of about 32×32 pixels: three dense blocks, bottlenecks of 4k, channels halved between.

    Parameters
    ----------
    n_classes : K
    depth : layers in all, 6 n + 4 for n in a block: 100, 190, 250 in the paper.
    growth : k, the channels that a layer adds.

    Returns
    -------
    network : from images (B, 3, H, W), or (B, 3072), in [0, 1] to logits (B, K).

    References
    ----------
    G. Huang, Z. Liu, L. van der Maaten, K. Q. Weinberger. Densely connected convolutional networks. CVPR 2017.

    Examples
    --------
    >>> densenet(n_classes=10, depth=10, growth=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    n_classes, growth = check_n_classes(n_classes), check_count(growth, "`growth`")
    n_layers, rest = divmod(check_count(depth, "`depth`") - 4, 6)
    if n_layers < 1 or rest:
        raise ValueError(f"`depth` must be 6 n + 4 with n at least 1: 10, 16, ..., 100; got {depth}")
    n_channels = 2 * growth
    stages: list[nn.Module] = [_convolution(3, n_channels, 3)]
    for i in range(3):
        stages.append(DenseBlock(n_channels, n_layers, growth))
        n_channels += n_layers * growth
        ending: list[nn.Module] = [BatchNorm(n_channels), nn.ReLU(inplace=True)]
        if i < 2:
            ending += [_convolution(n_channels, n_channels // 2, 1), nn.AvgPool2d(2)]
            n_channels //= 2
        stages.append(nn.Sequential(*ending))
    return ImageNetwork(nn.Sequential(*stages), n_channels, n_classes)


class Convolution(nn.Module):
    """A small network for images (B, C, S, S): two convolutions of 3×3 with ReLU and max-pooling, and a linear layer.

    It has no batch norm and no dropout, so that several runs train together under vmap.

    Examples
    --------
    >>> Convolution(channels=1, side=8, n_classes=10)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, channels: int, side: int, n_classes: int, width: int = 16) -> None:
        super().__init__()
        self.channels, self.side = channels, side
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.pool = nn.MaxPool2d(2, ceil_mode=True)
        half = -(-side // 2)
        self.last = nn.Linear(2 * width * (-(-half // 2)) ** 2, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.first(x).relu())
        x = self.pool(self.second(x).relu())
        return self.last(x.flatten(1))  # type: ignore[no-any-return]


def mlp_for(shape: torch.Size, n_classes: int, hidden: Sequence[int]) -> MLP:
    """A multilayer perceptron for examples of a shape."""
    return mlp(shape.numel(), n_classes, hidden)


def linear_for(shape: torch.Size, n_classes: int, hidden: Sequence[int]) -> MLP:
    """A linear model for examples of a shape."""
    return linear(shape.numel(), n_classes)


def convolution_for(shape: torch.Size, n_classes: int, hidden: Sequence[int]) -> Convolution:
    """A small convolution for images of a shape."""
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ValueError(
            f'network "convolution" is for images of shape (C, S, S); got examples of {tuple(shape)}; use "mlp"'
        )
    return Convolution(shape[0], shape[1], n_classes)


def residual_for(shape: torch.Size, n_classes: int, hidden: Sequence[int], *, name: str) -> ImageNetwork:
    """One of `RESIDUAL` for images of a shape, of any number of channels."""
    if len(shape) != 3 or min(shape[1:]) < 8:
        raise ValueError(
            f'network "{name}" is for images of shape (C, H, W), H and W at least 8; '
            f'got examples of {tuple(shape)}; use "mlp"'
        )
    return RESIDUAL[name](n_classes, channels=shape[0])


RESIDUAL: dict[str, Callable[..., ImageNetwork]] = {
    "pooled": pooled,
    "resnet8": resnet8,
    "resnet18": resnet18,
    "resnet34": resnet34,
}
DEEP = (*RESIDUAL, "efficientnet-lite0")  # those of bytes, or of floats from 0 to 1, too slow to be trained often
FOR_IMAGES = ("convolution", *DEEP)  # those that take nothing else

# By name, from the shape of an example, K and the widths of the hidden layers. It stands last: all it names is above.
NETWORKS: dict[str, Callable[[torch.Size, int, Sequence[int]], nn.Module]] = names.load(names.NETWORKS)
