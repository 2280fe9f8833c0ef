"""Examples altered at random, on their device, by codes that depend on seed, epoch and row alone.

An augmentation is a function (B, ...), (B,) codes → (B, ...). It draws nothing from a generator: what it does to an
example follows from the example's code, so that a resumed run continues as if it had never stopped.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def hash_bits(z: Tensor) -> Tensor:
    """Mix the bits of int64 values: the finaliser of splitmix64, with wrap-around, the same on every device.

    >>> hash_bits(torch.tensor([2]))
    tensor([7960286522194355700])
    """
    z = z * -7046029254386353131
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def codes(seeds: Tensor, epoch: int | Tensor, rows: Tensor) -> Tensor:
    """Give each run's rows their codes for this epoch: seeds (C,), rows (B,) or (..., C, B) → (..., C, B).

    A code is a hash of (seed, epoch, row). One hash more than the shuffle's keeps the codes independent of the order of
    the rows.

    >>> codes(torch.tensor([7]), 0, torch.tensor([5, 6, 5])) % 162
    tensor([[ 37, 151,  37]])
    """
    return hash_bits(hash_bits(hash_bits(seeds * 0x1F123BB5 + epoch)).unsqueeze(-1) + rows)


def uniforms(codes: Tensor, n: int) -> Tensor:
    """Give each code n numbers, uniform from 0 to 1 and as good as independent: (B,) → (B, n).

    >>> uniforms(torch.tensor([7, 8]), 3)
    tensor([[0.8824, 0.5205, 0.8388],
            [0.6394, 0.0904, 0.6250]])
    """
    bits = hash_bits(hash_bits(codes).unsqueeze(-1) + torch.arange(n, device=codes.device))
    return ((bits >> 40) & 0xFFFFFF).to(torch.float32).add_(0.5).mul_(2.0**-24)


def crop_and_flip(images: Tensor, codes: Tensor, padding: int = 4, *, flip: bool = True) -> Tensor:
    """Move each image by up to ``padding`` pixels each way, zeros coming in at the border, and mirror half of them.

    This is the usual random crop of a zero-padded image, then a random horizontal flip. All 2 (2 padding + 1)² cases
    are as likely when the codes are uniform; an image's case is its code modulo their number.

    Parameters
    ----------
    images : (B, C, H, W) of any dtype and layout.
    codes : (B,) int64, as :func:`codes` gives them.
    padding : the largest move.
    flip : whether to mirror; leave it out where a mirrored image is of another class, as letters and digits are.

    Returns
    -------
    images : (B, C, H, W), new and contiguous, of the same dtype.

    Examples
    --------
    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> crop_and_flip(image.expand(2, 1, 2, 2), torch.tensor([8, 9]), padding=1)[:, 0]
    tensor([[[1, 2],
             [3, 4]],
            [[2, 1],
             [4, 3]]])
    """
    _check_images(images, codes)
    if padding < 0:
        raise ValueError(f"`padding` must be at least 0; got {padding}")
    height, width = images.shape[2:]
    moves = 2 * padding + 1
    case = (codes % (2 * moves**2)).view(-1, 1)
    mirrored, column, row = case % 2, case // 2 % moves - padding, case // (2 * moves) - padding
    y = torch.arange(height, device=images.device) + row
    x = torch.arange(width, device=images.device)
    x = (torch.where(mirrored == 1, width - 1 - x, x) if flip else x) + column
    inside = ((y >= 0) & (y < height)).unsqueeze(2) & ((x >= 0) & (x < width)).unsqueeze(1)
    place = (y.clamp(0, height - 1) * width).unsqueeze(2) + x.clamp(0, width - 1).unsqueeze(1)
    pixels = images.flatten(2)
    taken = pixels.gather(2, place.flatten(1).unsqueeze(1).expand_as(pixels))
    return taken.view(images.shape).masked_fill_(~inside.unsqueeze(1), 0)


def distort(images: Tensor, codes: Tensor, strength: float = 1.0, *, flip: bool = True) -> Tensor:
    """Turn, scale, shear, move and mirror each image, change its light and colours, and cut a square out of it.

    Parameters
    ----------
    images : (B, C, H, W) bytes, or floats of 0 to 1.
    codes : (B,) int64, as :func:`codes` gives them.
    strength : how far all of it goes. At 1: 12 degrees, an eighth in size, a twelfth of shear, a twentieth of the
        image each way, an eighth in brightness, a quarter in contrast and colour, and a square of a fifth of its side.
    flip : whether to mirror half of the images.

    Returns
    -------
    images : (B, C, H, W) floats of 0 to 1.
    """
    _check_images(images, codes)
    if not (math.isfinite(strength) and strength >= 0):
        raise ValueError(f"`strength` must be finite and not negative; got {strength}")
    u = uniforms(codes, 14)
    signed = strength * (2 * u - 1)
    angle, log_scale, shear = signed[:, 0] * math.pi / 15, signed[:, 1] / 8, signed[:, 2] / 12
    mirrored = torch.where(u[:, 13] < 0.5, -1.0, 1.0) if flip else torch.ones_like(angle)
    cos, sin, scale = angle.cos(), angle.sin(), log_scale.exp()
    # Where a pixel of the new image comes from: [turned and scaled] [sheared] [mirrored], then moved.
    rows = [
        torch.stack([mirrored * scale * cos, scale * (shear * cos - sin), signed[:, 3] / 10], dim=-1),
        torch.stack([mirrored * scale * sin, scale * (shear * sin + cos), signed[:, 4] / 10], dim=-1),
    ]
    x = images.to(torch.float32).div_(255.0) if images.dtype == torch.uint8 else images
    grid = F.affine_grid(torch.stack(rows, dim=1).to(x.dtype), list(x.shape), align_corners=False)
    x = F.grid_sample(x, grid, padding_mode="zeros", align_corners=False)
    return _cut(_recolour(x, signed[:, 5:11]), u[:, 11:13], strength / 5)


def _recolour(x: Tensor, signed: Tensor) -> Tensor:
    """Change contrast, brightness, the saturation and the tint of images by (B, 6) numbers around 0."""
    log_contrast, brightness, log_saturation, *tint = signed.to(x.dtype).view(-1, 6, 1, 1, 1).unbind(dim=1)
    mean = x.mean(dim=(1, 2, 3), keepdim=True)
    x = mean + (x - mean) * (0.25 * log_contrast).exp() + 0.125 * brightness
    if x.shape[1] == 3:
        grey = x.mean(dim=1, keepdim=True)
        x = grey + (x - grey) * (0.25 * log_saturation).exp() + 0.04 * torch.cat(tint, dim=1)
    return x.clamp(0.0, 1.0)


def _cut(x: Tensor, centre: Tensor, share: float) -> Tensor:
    """Fill a square with the image's mean: of this share of the sides, its centre anywhere, (B, 2)."""
    side = torch.arange(x.shape[2], device=x.device), torch.arange(x.shape[3], device=x.device)
    near = [((s + 0.5) / len(s) - centre[:, i : i + 1]).abs() < share / 2 for i, s in enumerate(side)]
    square = (near[0].unsqueeze(2) & near[1].unsqueeze(1)).unsqueeze(1)
    return torch.where(square, x.mean(dim=(1, 2, 3), keepdim=True), x)


def perturb(x: Tensor, codes: Tensor, noise: float = 0.1, drop: float = 0.1) -> Tensor:
    """Add normal noise to standardised numbers, and put some of them at their mean, 0: (B, ...) → (B, ...).

    Parameters
    ----------
    x : (B, ...) floats, each column of about mean 0 and deviation 1.
    codes : (B,) int64, as :func:`codes` gives them.
    noise : the noise's deviation.
    drop : the share of the numbers that are put at 0.
    """
    if not 0 <= drop < 1 or not (math.isfinite(noise) and noise >= 0):
        raise ValueError(f"`drop` must be from 0 up and below 1, `noise` finite and not negative; got {drop}, {noise}")
    size = x[0].numel()
    u = uniforms(codes, 2 * size)
    normal = torch.erfinv(2 * u[:, :size] - 1).mul_(math.sqrt(2) * noise)
    return torch.where(u[:, size:] < drop, 0.0, x.flatten(1) + normal).view(x.shape).to(x.dtype)


def _check_images(images: Tensor, codes: Tensor) -> None:
    if images.dim() != 4 or codes.shape != images.shape[:1] or codes.dtype != torch.int64:
        raise ValueError(
            "`images` must be (B, C, H, W) and `codes` (B,) int64; "
            f"got shapes {tuple(images.shape)} and {tuple(codes.shape)}, codes of {codes.dtype}"
        )
