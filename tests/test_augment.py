"""Random crops and flips: each is a slice of a zero-padded image, all are as likely, and codes say which."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

from naysayer.engine.augment import codes, crop_and_flip, hash_bits
from naysayer.engine.source import shuffle

PADDING = 4
CASES = 2 * (2 * PADDING + 1) ** 2


def crops(image, padding):
    """All moves and flips of an image (C, H, W), by slicing it zero-padded: {(top, left, flipped): (C, H, W)}."""
    height, width = image.shape[1:]
    padded = F.pad(image, [padding] * 4)
    steps = range(2 * padding + 1)
    moved = {(y, x): padded[:, y : y + height, x : x + width] for y, x in itertools.product(steps, steps)}
    return {(*at, flip): i.flip(2) if flip else i for at, i in moved.items() for flip in (False, True)}


def some_images(dtype, shape=(3, 6, 5)):
    """An image with no zero and no two pixels alike, so that every case shows."""
    return torch.arange(1, 1 + shape[0] * shape[1] * shape[2]).view(shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_each_case_is_one_slice_of_the_padded_image_and_all_come(dtype, padding):
    image = some_images(dtype)
    cases = 2 * (2 * padding + 1) ** 2
    out = crop_and_flip(image.expand(cases, -1, -1, -1), torch.arange(cases), padding)
    assert out.dtype == dtype
    expected = list(crops(image, padding).values())
    found = [[torch.equal(mine, other) for other in expected].index(True) for mine in out]
    assert sorted(found) == list(range(cases))


def test_moving_further_than_the_image_is_wide_leaves_nothing():
    image = torch.ones(1, 1, 3, 3)
    out = crop_and_flip(image.expand(CASES, -1, -1, -1), torch.arange(CASES), PADDING)
    counts = out.sum(dim=(1, 2, 3))
    left = [max(0, 3 - abs(move)) for move in range(-PADDING, PADDING + 1)]
    assert sorted(counts.tolist()) == sorted([a * b for a in left for b in left] * 2)


def test_the_code_counts_modulo_the_number_of_cases():
    images = torch.rand(CASES, 3, 8, 8)
    code = torch.arange(CASES)
    once = crop_and_flip(images, code)
    assert torch.equal(crop_and_flip(images, code), once)
    for times in (1, 1000, -1, -1000):  # a hash is as often negative
        assert torch.equal(crop_and_flip(images, code + times * CASES), once)


def test_all_cases_are_as_likely():
    n = 400 * CASES
    counts = torch.bincount(codes(torch.tensor([3]), 5, torch.arange(n))[0] % CASES, minlength=CASES).double()
    statistic = ((counts - 400) ** 2 / 400).sum().item()
    freedom = CASES - 1
    assert abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5
    assert counts.min() > 0
    skewed = torch.bincount(torch.arange(n) % (CASES - 1), minlength=CASES).double()  # and the measure can fail
    assert ((skewed - 400) ** 2 / 400).sum().item() - freedom > 5 * (2 * freedom) ** 0.5


def test_images_do_not_touch_each_other():
    images = torch.randint(0, 256, (7, 3, 8, 8), dtype=torch.uint8)
    code = codes(torch.tensor([1]), 0, torch.arange(7))[0]
    before = images.clone(), code.clone()
    together = crop_and_flip(images, code)
    for i in range(7):
        assert torch.equal(together[i], crop_and_flip(images[i : i + 1], code[i : i + 1])[0])
    assert torch.equal(images, before[0])
    assert torch.equal(code, before[1])


def test_the_layout_does_not_matter():
    images = torch.randint(0, 256, (9, 3, 8, 10), dtype=torch.uint8)
    code = codes(torch.tensor([1]), 0, torch.arange(9))[0]
    expected = crop_and_flip(images, code)
    strided = torch.zeros(9, 3, 16, 20, dtype=torch.uint8)[:, :, ::2, ::2]
    strided.copy_(images)
    sideways = images.mT.contiguous().mT
    for same in (images.contiguous(memory_format=torch.channels_last), strided, sideways):
        assert not same.is_contiguous()
        out = crop_and_flip(same, code)
        assert torch.equal(out, expected)
        assert out.is_contiguous()


def test_a_border_of_infinity_leaves_no_trace():
    images = torch.full((CASES, 1, 4, 4), torch.inf)
    assert not crop_and_flip(images, torch.arange(CASES)).isnan().any()


def test_it_compiles_to_one_graph():
    images, code = torch.rand(5, 3, 8, 8), torch.arange(5) * 31
    compiled = torch.compile(crop_and_flip, backend="eager", fullgraph=True)
    assert torch.equal(compiled(images, code), crop_and_flip(images, code))


def test_codes_depend_on_seed_epoch_and_row_alone():
    seeds, rows = torch.tensor([0, 1, 2**40]), torch.arange(50)
    first = codes(seeds, 0, rows)
    assert first.shape == (3, 50)
    assert torch.equal(codes(seeds, torch.tensor(0), rows), first)  # as a captured step holds its epoch
    others = torch.stack([codes(seeds, epoch, rows) for epoch in range(4)])
    assert len(others.unique()) == others.numel()
    assert torch.equal(codes(seeds[1:2], 0, rows.flip(0)), first[1:2].flip(1))  # neither on the place, nor other runs
    dealt = torch.stack([rows[:24].view(3, 8), rows[24:48].view(3, 8)])  # batches of each run's own rows, (steps, C, B)
    for step, run in itertools.product(range(2), range(3)):
        assert torch.equal(codes(seeds, 0, dealt)[step, run], first[run, dealt[step, run]])


def test_codes_are_not_the_keys_that_rows_are_shuffled_by():
    seeds = torch.arange(4)
    assert not torch.equal(codes(seeds, 0, torch.arange(30)).argsort(dim=-1), shuffle(seeds, 0, 30))


def test_the_hash_is_splitmix64s():
    """Against its definition in whole numbers without a bound: state (i + 1) φ, then the finaliser."""

    def finalise(z):
        mask = 2**64 - 1
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        z ^= z >> 31
        return z - 2**64 if z >> 63 else z

    values = [0, 1, 2, 12345, 2**62, -1]
    expected = [finalise(v * 0x9E3779B97F4A7C15 % 2**64) for v in values]
    assert hash_bits(torch.tensor(values)).tolist() == expected
    assert expected[1] == 0xE220A8397B1DCDAF - 2**64  # the generator's known first output from state 0


@pytest.mark.parametrize(
    ("images", "code"),
    [
        (torch.zeros(2, 3, 8, 8), torch.zeros(3, dtype=torch.long)),
        (torch.zeros(2, 3, 8, 8), torch.zeros(2, 1, dtype=torch.long)),
        (torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int32)),
        (torch.zeros(2, 3072), torch.zeros(2, dtype=torch.long)),
    ],
)
def test_wrong_shapes_are_refused(images, code):
    with pytest.raises(ValueError, match=r"`images` must be \(B, C, H, W\) and `codes` \(B,\) int64; got shapes"):
        crop_and_flip(images, code)


def test_padding_is_not_negative():
    with pytest.raises(ValueError, match="`padding` must be at least 0; got -1"):
        crop_and_flip(torch.zeros(1, 3, 8, 8), torch.zeros(1, dtype=torch.long), -1)
