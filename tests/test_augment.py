"""Crops and flips, distorted images, perturbed numbers: what each does, and that codes alone say what is done."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional as F

from helpers import raises
from naysayer.engine import augment
from naysayer.engine.augment import codes, crop_and_flip, distort, hash_bits, perturb, uniforms
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


# ---- without mirrors, distorted, and perturbed --------------------------------------------------------------------


def test_without_mirrors_every_move_comes_twice():
    image = some_images(torch.uint8)
    out = crop_and_flip(image.expand(CASES, -1, -1, -1), torch.arange(CASES), flip=False)
    expected = [i for (_, _, flipped), i in crops(image, PADDING).items() if not flipped]
    found = [[torch.equal(mine, other) for other in expected].index(True) for mine in out]
    assert sorted(found) == sorted([*range(CASES // 2)] * 2)


def test_uniform_numbers_are_uniform_and_follow_from_their_codes():
    code = codes(torch.tensor([3]), 0, torch.arange(4000))[0]
    u = uniforms(code, 5)
    assert u.shape == (4000, 5)
    assert 0 < u.min() < 0.001
    assert 0.999 < u.max() < 1
    assert (u.mean(dim=0) - 0.5).abs().max() < 5 * (1 / 12 / 4000) ** 0.5
    assert (torch.corrcoef(u.T) - torch.eye(5)).abs().max() < 5 / 4000**0.5
    assert torch.equal(uniforms(code[7:9], 3), u[7:9, :3])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels", [1, 3])
def test_at_strength_0_an_image_is_left_alone(dtype, channels):
    images = torch.randint(0, 256, (20, channels, 9, 8), dtype=torch.uint8)
    images = images if dtype == torch.uint8 else images / 255
    out = distort(images, torch.arange(20), strength=0.0, flip=False)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, images / 255 if dtype == torch.uint8 else images, rtol=0, atol=1e-5)
    mirrored = distort(images, torch.arange(20), strength=0.0)
    same = [torch.allclose(a, b, atol=1e-5) for a, b in zip(mirrored, out)]
    flipped = [torch.allclose(a, b.flip(2), atol=1e-5) for a, b in zip(mirrored, out)]
    assert all(a != b for a, b in zip(same, flipped))
    assert 0 < sum(same) < 20


def numbers(monkeypatch, **given):
    """Let `distort` draw one half, which changes nothing, for all but the numbers given by their places."""
    u = torch.full((1, 14), 0.5)
    u[0, 11:13] = -9.0  # the square far outside
    for place, value in given.items():
        u[0, int(place[1:])] = value
    monkeypatch.setattr(augment, "uniforms", lambda codes, n: u[:, :n])


@pytest.mark.parametrize(
    ("drawn", "strength", "change"),
    [
        ({"_0": 1.0}, 7.5, lambda x: x.rot90(1, (2, 3))),  # 7.5 times 12 degrees
        ({"_0": 0.0}, 7.5, lambda x: x.rot90(-1, (2, 3))),
        ({"_3": 1.0}, 2.5, lambda x: F.pad(x, [0, 1, 0, 0])[..., 1:]),  # an eighth of eight pixels
        ({"_4": 0.0}, 5.0, lambda x: F.pad(x, [0, 0, 2, 0])[..., :-2, :]),
        ({"_6": 1.0}, 1.0, lambda x: (x + 0.125).clamp(max=1)),
        ({"_5": 1.0}, 4.0, lambda x: (x.mean() + (x - x.mean()) * torch.e).clamp(0, 1)),
        ({"_11": 0.25, "_12": 0.75}, 2.5, lambda x: cut(x, slice(0, 4), slice(4, 8))),  # half of the sides
    ],
)
def test_each_change_is_what_it_says(monkeypatch, drawn, strength, change):
    numbers(monkeypatch, **drawn)
    image = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    out = distort(image, torch.zeros(1, dtype=torch.long), strength, flip=False)
    torch.testing.assert_close(out, change(image), rtol=0, atol=1e-4)


def cut(x, rows, columns):
    out = x.clone()
    out[:, :, rows, columns] = x.mean()
    return out


def test_grey_images_stay_grey_and_all_stay_in_range():
    images = torch.rand(50, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    code = codes(torch.tensor([1]), 0, torch.arange(50))[0]
    out = distort(images, code, strength=3.0)
    assert out.min() >= 0
    assert out.max() <= 1
    assert torch.equal(distort(images[7:8], code[7:8], strength=3.0)[0], out[7])
    alike = distort(images[:, :1], code)
    assert alike.shape == (50, 1, 8, 8)
    assert (out - images).abs().mean() > 0.1


def test_numbers_get_noise_and_some_are_dropped():
    x = torch.full((3000, 2, 5), 2.0)
    code = codes(torch.tensor([1]), 0, torch.arange(3000))[0]
    out = perturb(x, code, noise=0.5, drop=0.2)
    dropped = out == 0
    assert abs(dropped.double().mean() - 0.2) < 5 * (0.16 / 30_000) ** 0.5
    assert abs(out[~dropped].mean() - 2) < 5 * 0.5 / 24_000**0.5
    assert abs(out[~dropped].std() - 0.5) < 0.02
    assert torch.equal(perturb(x[5:6], code[5:6], noise=0.5, drop=0.2)[0], out[5])
    assert torch.equal(perturb(x, code, noise=0.0, drop=0.0), x)
    assert perturb(x.double(), code).dtype == torch.float64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, c: distort(x, c, -1.0), "`strength` must be finite and not negative; got -1.0"),
        (lambda x, c: distort(x, c, float("inf")), "`strength` must be finite and not negative; got inf"),
        (lambda x, c: distort(x[0], c), "`images` must be (B, C, H, W) and `codes` (B,) int64; got shapes (3, 8, 8)"),
        (lambda x, c: perturb(x, c, drop=1.0), "`drop` must be from 0 up and below 1, `noise` finite and not negative"),
        (lambda x, c: perturb(x, c, noise=-0.1), "finite and not negative; got 0.1, -0.1"),
    ],
)
def test_what_distort_and_perturb_refuse(call, words):
    with raises(words):
        call(torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.long))
