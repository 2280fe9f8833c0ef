"""On a GPU: features of photos, resized there and in half precision, against the CPU's; and too little memory."""

import numpy as np
import pytest
import torch

from naysayer.features import Photos, photos

pytestmark = pytest.mark.skipif(not photos.available(), reason="needs the extra naysayer[photos]")


def smooth(n, height, width):
    """Pictures (N, H, W, 3) that are no noise."""
    coarse = torch.rand(n, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    fine = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    return (255 * fine).to(torch.uint8).permute(0, 2, 3, 1).numpy()


def assert_near(one, other, within=0.01):
    assert one.shape == other.shape
    assert np.linalg.norm(one - other) <= within * np.linalg.norm(other)


@pytest.mark.parametrize("shape", [(32, 32), (224, 224), (300, 500)])
@pytest.mark.parametrize("views", [1, 2])
def test_features_are_those_of_the_cpu(shape, views):
    X = smooth(5, *shape)
    there, here = (Photos(views=views, cache=False, device=device).fit() for device in ("cuda", "cpu"))
    expected = here.transform(X)
    within = 0.01 if shape == (224, 224) else 0.06  # a CPU rounds between rows and columns when it resizes, a GPU after
    assert_near(there.transform(X), expected, within)
    assert_near(there.transform(list(X)), expected)
    assert_near(there.transform(X[..., 0]), here.transform(X[..., 0]), within)


def test_too_little_memory_halves_the_batch():
    X = smooth(600, 32, 32)
    photos = Photos(batch_size=600, cache=False, device="cuda").fit()
    expected = photos.transform(X)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 5e8) / total)
        features = photos.transform(X)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert_near(features, expected)
