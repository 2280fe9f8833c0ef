"""Images moved and mirrored at random, on their device, by codes that depend on seed, epoch and row alone."""

from __future__ import annotations

import torch
from torch import Tensor


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

    A code is a hash of (seed, epoch, row): no generator has a state to keep, so a resumed run continues as if it had
    never stopped. One hash more than the shuffle's keeps the codes independent of the order of the rows.

    >>> codes(torch.tensor([7]), 0, torch.tensor([5, 6, 5])) % 162
    tensor([[ 37, 151,  37]])
    """
    return hash_bits(hash_bits(hash_bits(seeds * 0x1F123BB5 + epoch)).unsqueeze(-1) + rows)


def crop_and_flip(images: Tensor, codes: Tensor, padding: int = 4) -> Tensor:
    """Move each image by up to ``padding`` pixels each way, zeros coming in at the border, and mirror half of them.

    This is the usual random crop of a zero-padded image, then a random horizontal flip. All 2 (2 padding + 1)² cases
    are as likely when the codes are uniform; an image's case is its code modulo their number.

    Parameters
    ----------
    images : (B, C, H, W) of any dtype and layout.
    codes : (B,) int64, as :func:`codes` gives them.
    padding : the largest move.

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
    if images.dim() != 4 or codes.shape != images.shape[:1] or codes.dtype != torch.int64:
        raise ValueError(
            "`images` must be (B, C, H, W) and `codes` (B,) int64; "
            f"got shapes {tuple(images.shape)} and {tuple(codes.shape)}, codes of {codes.dtype}"
        )
    if padding < 0:
        raise ValueError(f"`padding` must be at least 0; got {padding}")
    height, width = images.shape[2:]
    moves = 2 * padding + 1
    case = (codes % (2 * moves**2)).view(-1, 1)
    flip, column, row = case % 2, case // 2 % moves - padding, case // (2 * moves) - padding
    y = torch.arange(height, device=images.device) + row
    x = torch.arange(width, device=images.device)
    x = torch.where(flip == 1, width - 1 - x, x) + column
    inside = ((y >= 0) & (y < height)).unsqueeze(2) & ((x >= 0) & (x < width)).unsqueeze(1)
    place = (y.clamp(0, height - 1) * width).unsqueeze(2) + x.clamp(0, width - 1).unsqueeze(1)
    pixels = images.flatten(2)
    taken = pixels.gather(2, place.flatten(1).unsqueeze(1).expand_as(pixels))
    return taken.view(images.shape).masked_fill_(~inside.unsqueeze(1), 0)
