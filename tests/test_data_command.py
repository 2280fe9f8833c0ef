"""`naysayer data`: what it lists, fetches and finds. A mistake is one line and exit code 2."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import pytest

import test_datasets
from naysayer import cli
from naysayer.data import datasets
from test_datasets import CIFAR, FILES, MNIST, everything, packed, serve, tar, write

small, server, mirrors = test_datasets.small, test_datasets.server, test_datasets.mirrors  # the fixtures


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def data(small, monkeypatch, capsys):
    """Run the command in this process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["naysayer", "data", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return Done(stop.value.code, *capsys.readouterr())

    return run


def test_list_says_what_is_here_and_what_is_not(data, tmp_path):
    write(tmp_path / "mnist", MNIST)
    done = data("list", "--data", tmp_path)
    assert (done.code, done.err) == (0, "")
    lines = {line.split()[0]: line.split() for line in done.out.splitlines() if line}
    assert lines["name"] == ["name", "classes", "train", "test", "MB", "where"]
    assert lines["mnist"] == ["mnist", "10", "60,000", "10,000", "0.0", str(tmp_path / "mnist")]
    assert lines["cifar10"] == ["cifar10", "10", "50,000", "10,000", "170.1", "not", "here"]
    assert lines["digits"][-1].endswith("data")
    assert done.out.endswith("(MB is the size): naysayer data get fashion kuzushiji cifar10\n")


def test_list_says_the_same_as_json(data, tmp_path, monkeypatch):
    monkeypatch.setenv("NAYSAYER_DATA", str(tmp_path))
    write(tmp_path / "mnist", MNIST)
    found = {entry["name"]: entry for entry in json.loads(data("list", "--json").out)}
    assert list(found) == list(datasets.REGISTRY)
    assert found["mnist"]["folder"] == str(tmp_path / "mnist")
    assert found["mnist"]["size"] == sum(map(len, MNIST.values()))
    assert found["cifar10"]["folder"] is None
    assert found["fashion"]["n_train"] == 60_000


def test_list_has_nothing_to_advise_when_all_is_here(data, monkeypatch):
    monkeypatch.setattr(datasets, "REGISTRY", {"digits": datasets.REGISTRY["digits"]})
    assert len(data("list").out.splitlines()) == 3


def test_get_fetches_then_path_finds(data, server, mirrors, tmp_path):
    serve(server, "a", packed(MNIST) | {"cifar-10-binary.tar.gz": tar(CIFAR)})
    mirrors("mnist", "a")
    mirrors("cifar10", "a")
    place = tmp_path / "cache" / "mnist"
    assert data("get", "mnist") == (0, f"mnist is in {place}\n", "")
    assert everything(place) == MNIST
    assert data("path", "mnist") == (0, f"{place}\n", "")
    assert json.loads(data("path", "mnist", "--json").out) == {"mnist": str(place)}
    done = data("get", "mnist", "cifar10", "--json", "--data", tmp_path / "data")
    assert json.loads(done.out) == {
        "mnist": str(tmp_path / "data" / "mnist"),
        "cifar10": str(tmp_path / "data" / "cifar10" / "cifar-10-batches-bin"),
    }


def test_get_all_means_every_set(data, server, mirrors, monkeypatch):
    for name in ("fashion", "kuzushiji"):
        monkeypatch.setitem(datasets.REGISTRY, name, datasets.REGISTRY["mnist"]._replace(places=(name,)))
    for name in ("mnist", "fashion", "kuzushiji", "cifar10"):
        mirrors(name, "a")
    serve(server, "a", packed(MNIST) | {"cifar-10-binary.tar.gz": tar(CIFAR)})
    done = data("get", "all")
    assert (done.code, done.err) == (0, "")
    assert [line.split()[0] for line in done.out.splitlines()] == list(datasets.REGISTRY)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing command"),
        (["fetch"], "No such command 'fetch'"),
        (["get"], "Missing argument"),
        (["get", "mnist", "fashon"], "got 'fashon' (did you mean 'fashion'?)"),
        (["get", "mnist"], f"none gave it: http://127.0.0.1:9/{FILES[0]}.gz (no connection); try again when online"),
        (["path", "cifr10"], "got 'cifr10' (did you mean 'cifar10'?)"),
        (["path", "mnist"], "run `naysayer data get mnist`, or name a folder that holds mnist/ by folder=, --data or"),
        (["path", "mnist", "--data", "here"], "'mnist' must be in here/mnist; train-images-idx3-ubyte.gz is not there"),
    ],
)
def test_a_mistake_is_a_line(data, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = data(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("naysayer: ")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert everything(tmp_path) == {}


def test_a_place_that_cannot_be_written_is_a_line(data, server, mirrors, tmp_path):
    serve(server, "a", packed(MNIST))
    mirrors("mnist", "a")
    (tmp_path / "file").write_text("")
    done = data("get", "mnist", "--data", tmp_path / "file")
    assert done.code == 2
    assert done.err.startswith(f"naysayer: cannot write {tmp_path}/file/mnist/{FILES[0]}: ")
    assert everything(tmp_path) == {"file": b""}
