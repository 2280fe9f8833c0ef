"""Sets that people or a model labelled: tiny files of their publishers' format; nothing but data is unpickled."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest

from helpers import raises
from naysayer.data import datasets, human
from naysayer.data.human import load, read_labelled


def content(n=6, side=4, n_classes=10, **changes):
    rng = np.random.default_rng(0)
    made = {
        "names": [f"{i}.png" for i in range(n)],
        "images": [rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(n)],
        "ord_labels": [int(i % n_classes) for i in range(n)],
        "cl_labels": [[int((i + j) % n_classes) for j in (1, 2, 1)] for i in range(n)],
    }
    return {key: value for key, value in (made | changes).items() if value is not None}


def write(path, value, protocol=4):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("stacked", [False, True])
def test_a_file_is_read_whatever_wrote_it(protocol, stacked, tmp_path):
    made = content()
    given = made | {key: np.array(made[key]) for key in ("images", "ord_labels", "cl_labels")} if stacked else made
    images, y_true, y_bar = read_labelled(write(tmp_path / "a.pkl", given, protocol), 10)
    np.testing.assert_array_equal(images, np.array(made["images"]).transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(y_true, made["ord_labels"])
    np.testing.assert_array_equal(y_bar, made["cl_labels"])
    assert images.dtype == np.uint8


def test_a_file_of_an_older_numpy_is_read(tmp_path):
    path = write(tmp_path / "a.pkl", content(), 2)
    path.write_bytes(path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert b"numpy.core" in path.read_bytes()
    assert read_labelled(path, 10)[0].shape == (6, 3, 4, 4)


class Evil:
    def __reduce__(self):
        return open, ("made-by-the-pickle", "w")


@pytest.mark.parametrize(
    ("value", "named"),
    [(Evil(), "io.open"), ({"images": Evil()}, "io.open"), (io.BytesIO(), "_io.BytesIO"), (eval, "builtins.eval")],
)
def test_nothing_but_data_is_unpickled(value, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "a.pkl", value)
    with raises(f"{path} must be a pickle of arrays, lists, strings and numbers, and nothing else; it names {named}"):
        read_labelled(path, 10)
    assert not (tmp_path / "made-by-the-pickle").exists()


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_damaged_file_is_one_line(cut, tmp_path):
    path = write(tmp_path / "a.pkl", content())
    path.write_bytes(path.read_bytes()[:cut])
    with raises("must be a pickle of arrays, lists, strings and numbers"):
        read_labelled(path, 10)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "must be a dict with the keys images and ord_labels; got list"),
        ({"data": 1, "com_labels": 2}, "got the keys data, com_labels"),
        (content(images=[np.zeros((4, 4, 3)), np.zeros((2, 2, 3))]), "must hold images of one shape each"),
        (content(images=np.zeros((6, 48), np.uint8)), "must hold images as (any, any, any, 3) numbers; got uint8"),
        (content(images=np.full((6, 4, 4, 3), 300.0)), "must hold images of bytes, 0 to 255; got 300.0 to 300.0"),
        (content(ord_labels=["cat"] * 6), "must hold ord_labels as numbers"),
        (content(ord_labels=[10] * 6), "must hold ord_labels from 0 to 9; got 10"),
        (content(ord_labels=[1] * 5), "must hold 6 ord_labels, one per image; got 5"),
        (content(cl_labels=[[1, 2, 0.5]] * 6), "must hold cl_labels from 0 to 9; got 0.5"),
        (content(cl_labels=[1] * 6), "must hold cl_labels as (any, any) numbers"),
    ],
)
def test_a_file_of_something_else_is_refused(value, words, tmp_path):
    with raises(words):
        read_labelled(write(tmp_path / "a.pkl", value), 10)


@pytest.mark.parametrize("who", ["cl", "acl"])
def test_clcifar10_is_tested_on_cifar10(who, tmp_path, monkeypatch):
    write(tmp_path / f"{who}cifar10" / f"{who}cifar10.pkl", content(side=32))
    test = np.zeros((3, 3, 32, 32), np.uint8), np.array([1, 2, 3])
    cifar = datasets.Dataset(*test, *test, 10, human.HUMAN["clcifar10"].class_names)
    monkeypatch.setattr(datasets, "load", lambda name, folder: {("cifar10", tmp_path): cifar}[name, folder])
    data, y_bar = load(f"{who}cifar10", tmp_path)
    assert (data.X_train.shape, data.X_test.shape, y_bar.shape) == ((6, 3, 32, 32), (3, 3, 32, 32), (6, 3))
    assert data.class_names[0] == "airplane"


@pytest.mark.parametrize("who", ["cl", "acl"])
def test_clcifar20_is_tested_on_cifar100(who, tmp_path):
    folder = tmp_path / f"{who}cifar20"
    write(folder / f"{who}cifar20.pkl", content(n=20, side=32, n_classes=20))
    pixels = np.random.default_rng(0).bytes(3072)
    (folder / "test.bin").write_bytes(bytes([19, 85]) + pixels + bytes([3, 7]) + pixels)
    data, _ = load(folder.name, tmp_path)
    np.testing.assert_array_equal(data.y_test, [19, 3])
    assert data.X_test[1].tobytes() == pixels
    assert data.n_classes == len(data.class_names) == 20
    (folder / "test.bin").write_bytes(b"short")
    with raises("test.bin must have 3074 bytes per image; got 5"):
        load(folder.name, tmp_path)


@pytest.mark.parametrize("who", ["cl", "acl"])
@pytest.mark.parametrize("k", [10, 20])
def test_clmicroimagenet_has_its_own_test_file(k, who, tmp_path):
    folder = tmp_path / f"{who}microimagenet{k}"
    write(folder / f"{who}micro_imagenet{k}_train.pkl", content(n=2 * k, n_classes=k))
    write(folder / f"clmicro_imagenet{k}_test.pkl", content(n=3, n_classes=k, cl_labels=None))
    data, y_bar = load(folder.name, tmp_path)
    assert (len(data.X_train), len(data.X_test), y_bar.shape) == (2 * k, 3, (2 * k, 3))
    assert data.n_classes == len(data.class_names) == k
    write(folder / f"clmicro_imagenet{k}_test.pkl", content(n=3, side=8))
    with raises("must hold images of one shape; got (3, 4, 4) to train, (3, 8, 8) to test"):
        load(folder.name, tmp_path)
    write(folder / f"{who}micro_imagenet{k}_train.pkl", content(cl_labels=None))
    with raises("must hold 'cl_labels', the complementary labels; it has none"):
        load(folder.name, tmp_path)


def test_what_is_not_there_is_said_with_where_it_comes_from(tmp_path):
    with raises("no checksum is published by which it could be fetched; put clcifar10.pkl from", FileNotFoundError):
        load("clcifar10", tmp_path)
    with raises("put aclcifar10.pkl from https://github.com/ntucllab/libcll there yourself", FileNotFoundError):
        load("aclcifar10", tmp_path)
    with raises("got 'clcifar1' (did you mean 'clcifar10'?)"):
        load("clcifar1", tmp_path)
