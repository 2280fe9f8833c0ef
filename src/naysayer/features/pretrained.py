"""A network that saw millions of photos before, to be trained further on images of a user's own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from naysayer.features.backbones import PHOTOS, find

SIDE = 128  # pixels that small images are enlarged to: enough to be known again, and a third of the work of 224


class Pretrained(nn.Module):
    """A backbone that learns, with a linear layer on top, for images of any size.

    Images whose shorter side has fewer than ``side`` pixels are enlarged to it; grey ones are given three equal
    channels. The linear layer begins at zero, so that all classes begin alike.

    Parameters
    ----------
    backbone : pictures (B, 3, S, S), floats from 0 to 1, into features (B, width).
    width : of the features.
    n_classes : K
    side : pixels.
    """

    def __init__(self, backbone: nn.Module, width: int, n_classes: int, side: int = SIDE) -> None:
        super().__init__()
        self.side, self.backbone = side, backbone
        self.classifier = zero_linear(width, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if (short := min(x.shape[2:])) < self.side:
            size = [round(side * self.side / short) for side in x.shape[2:]]
            x = F.interpolate(x, size=size, mode="bilinear", align_corners=False)
        return self.classifier(self.backbone(x))  # type: ignore[no-any-return]


class OnBackbone(nn.Sequential):
    """A backbone, of which some may learn, and a linear layer, for pictures as the backbone sees them."""


def zero_linear(width: int, n_classes: int) -> nn.Linear:
    """A linear layer that begins at zero, so that all classes begin alike."""
    layer = nn.Linear(width, n_classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def pretrained_for(shape: torch.Size, n_classes: int, hidden: Sequence[int], *, name: str) -> Pretrained:
    """One of :data:`~naysayer.features.backbones.PHOTOS`, all of which learns, for images of a shape."""
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise ValueError(
            f'network "{name}" is for images of shape (C, H, W), in colours or grey; got examples of {tuple(shape)}; '
            'use "mlp"'
        )
    loaded = find(name, PHOTOS)
    return Pretrained(loaded.module.requires_grad_(True), loaded.width, n_classes)
