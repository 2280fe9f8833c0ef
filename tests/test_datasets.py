"""The readers against damaged files; finding, fetching and loading of data sets; anyone's own files."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import re
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers import raises
from naysayer.data import datasets, readers
from naysayer.data.datasets import REGISTRY, check_name, find, get, load, overview, read_cifar, read_idx
from naysayer.data.registry import Published

CODES = {np.dtype(np.uint8): 8, np.dtype(np.int8): 9, np.dtype(np.int16): 11, np.dtype(np.int32): 12}
IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
FILES = [file for files in REGISTRY["mnist"].parts.values() for file in files]
BATCHES = list(REGISTRY["cifar10"].parts["cifar-10-binary.tar.gz"])


def idx(array: np.ndarray) -> bytes:
    """Write an array in the idx format."""
    head = bytes([0, 0, CODES[array.dtype], array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def records(*classes: int) -> bytes:
    """Write images of noise in the format of CIFAR-10."""
    return b"".join(bytes([k]) + np.random.default_rng(k).bytes(3072) for k in classes)


def tar(files: dict[str, bytes], folder: str = "cifar-10-batches-bin/") -> bytes:
    """Pack files as CIFAR-10's publisher does, in an order of the publisher's own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        other = tarfile.TarInfo("test_batch.bin")
        other.type = tarfile.DIRTYPE  # a folder of a file's name
        archive.addfile(other)
        for name, content in reversed(files.items()):
            member = tarfile.TarInfo(folder + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


MNIST = dict(
    zip(FILES, [idx(IMAGES), idx(np.array([0, 9, 3, 4, 4], np.uint8)), idx(IMAGES[:2]), idx(np.uint8([1, 2]))])
)
CIFAR = {name: records(i, 9 - i) for i, name in enumerate(BATCHES)}


def with_sums(source: Published, files: dict[str, bytes], **changed: object) -> Published:
    """The same source with the sums of these files."""
    parts = {part: {f: hashlib.sha256(files[f]).hexdigest() for f in held} for part, held in source.parts.items()}
    return source._replace(parts=parts, **changed)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Two data sets with a few images, none of which can be fetched; the cache is an empty folder."""
    monkeypatch.delenv("NAYSAYER_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    for name, files in (("mnist", MNIST), ("cifar10", CIFAR)):
        monkeypatch.setitem(REGISTRY, name, with_sums(REGISTRY[name], files, mirrors=("http://127.0.0.1:9/",)))


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def packed(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content) for name, content in files.items()}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- the readers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("dtype", list(CODES), ids=str)
def test_an_array_comes_back_as_it_was_written(tmp_path, dtype, pack):
    array = np.random.default_rng(0).integers(-100, 100, (3, 2, 4)).astype(dtype)
    path = tmp_path / "array"
    path.write_bytes(pack(idx(array)))
    found = read_idx(path)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == dtype
    assert found.dtype.isnative
    assert found.flags.writeable


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_images_come_back_as_they_were_written(tmp_path, pack):
    X = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    y = np.array([0, 9, 4], np.uint8)
    path = tmp_path / "batch.bin"
    path.write_bytes(pack(b"".join(bytes([k]) + x.tobytes() for k, x in zip(y, X))))
    images, classes = read_cifar(path)
    np.testing.assert_array_equal(images, X)
    np.testing.assert_array_equal(classes, y)
    assert (images.dtype, classes.dtype) == (np.uint8, np.int64)


def test_several_gzip_members_are_one_file(tmp_path):
    content = idx(IMAGES)
    path = tmp_path / "array.gz"
    path.write_bytes(gzip.compress(content[:20]) + gzip.compress(content[20:]))
    np.testing.assert_array_equal(read_idx(path), IMAGES)


@pytest.mark.parametrize("read", [read_idx, read_cifar])
def test_a_missing_file_is_named(tmp_path, read):
    for path in (tmp_path, tmp_path / "nothing"):
        with raises(f"no file at {path}", FileNotFoundError):
            read(path)


WHOLE = idx(IMAGES)
HUGE = bytes([0, 0, 8, 3]) + b"\xff" * 12
DAMAGED = {
    "empty": (b"", "it begins with nothing instead of 00 00"),
    "other": (b"PK\x03\x04", "it begins with 50 4b 03 04 instead of 00 00"),
    "floats": (bytes([0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0]), "its type 0x0d is not one of whole numbers"),
    "no dimension": (bytes([0, 0, 8, 0]), "its header states 0 dimensions, not 1 to 8"),
    "many dimensions": (bytes([0, 0, 8, 200]) + bytes(800), "its header states 200 dimensions, not 1 to 8"),
    "cut in the header": (WHOLE[:10], "it ends within its header"),
    "no rows": (bytes([0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 4]), "its header states (0, 4), which holds nothing"),
    "absurd": (HUGE, "over 2147483648 bytes"),
    "large, not there": (bytes([0, 0, 8, 1, 0x70, 0, 0, 0, 1]), "(1879048192,), 1879048192 bytes, and only 1 follow"),
    "cut short": (WHOLE[:-1], "its header states (5, 4, 3), 60 bytes, and only 59 follow"),
    "trailing": (WHOLE + b"\0", "its header states (5, 4, 3), 60 bytes, and more follow"),
    "packed, cut": (gzip.compress(WHOLE)[:-9], "ended before the end-of-stream"),
    "packed, bad sum": (gzip.compress(WHOLE)[:-8] + bytes(8), "CRC check failed"),
    "packed, garbage": (gzip.compress(WHOLE)[:10] + b"\xff" * 40, "Error -3 while decompressing"),
    "packed, then something": (gzip.compress(WHOLE) + b"extra", "Not a gzipped file"),
    "a bomb": (gzip.compress(HUGE + bytes(1 << 24)), "over 2147483648 bytes"),
}
DAMAGED_CIFAR = {
    "empty": (b"", "it has 0 bytes, not 3073 for each image"),
    "cut short": (records(1, 2)[:-1], "it has 6145 bytes, not 3073 for each image"),
    "a class too many": (records(1, 9, 10, 11), "its classes are not all 0 to 9: image 2 has 10"),
    "packed, cut": (gzip.compress(records(1))[:-9], "ended before the end-of-stream"),
}


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [pytest.param(read_idx, *value, id=f"idx, {key}") for key, value in DAMAGED.items()]
    + [pytest.param(read_cifar, *value, id=f"cifar, {key}") for key, value in DAMAGED_CIFAR.items()],
)
def test_a_damaged_file_is_refused_without_a_large_allocation(tmp_path, read, content, words):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    tracemalloc.start()
    with raises(words) as caught:
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{path} must be a whole data file; ")
    assert str(caught.value).endswith("; fetch it again")
    assert peak < 8 << 20


def test_what_a_small_file_unpacks_to_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "LARGEST", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(1 << 24)))
    with raises("it unpacks to over 1048576 bytes"):
        read_cifar(path)


@st.composite
def mutations(draw, *contents: bytes) -> bytes:
    """Anything at all, or a good file, plain or packed, with one stretch of it cut, deleted, replaced or extended."""
    content = draw(st.sampled_from([b"", *contents, *(gzip.compress(c, mtime=0) for c in contents)]))
    if not content:
        return draw(st.binary(max_size=200))
    start = draw(st.integers(0, len(content)))
    end = draw(st.sampled_from([start, start + 1, start + 4, len(content)]))
    return content[:start] + draw(st.binary(max_size=8)) + content[end:]


fuzz = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def array_or_line(read, content: bytes, path: Path):
    """Read the file; give the arrays, or None when it was refused as it should be."""
    path.write_bytes(content)
    tracemalloc.start()
    try:
        found = read(path)
    except ValueError as error:
        found = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    if not isinstance(found, str):
        return found
    assert str(path) in found
    assert "\n" not in found
    return None


@fuzz
@given(content=mutations(WHOLE, idx(IMAGES.astype(np.int32)), idx(np.arange(9, dtype=np.uint8))))
def test_any_bytes_are_an_array_or_a_line(tmp_path, content):
    found = array_or_line(read_idx, content, tmp_path / "fuzzed")
    if found is not None:
        assert found.dtype.kind in "iu"
        assert found.size > 0


@fuzz
@given(content=mutations(records(3), records(0, 9), records(1, 2, 3)))
def test_any_bytes_are_images_or_a_line(tmp_path, content):
    found = array_or_line(read_cifar, content, tmp_path / "fuzzed")
    if found is not None:
        assert found[0].shape == (len(found[1]), 3, 32, 32)
        assert len(found[1]) > 0
        assert found[1].max() <= 9


SMALL_TAR = gzip.decompress(tar({name: bytes([i]) for i, name in enumerate(BATCHES)}))


@fuzz
@given(content=mutations(SMALL_TAR))
def test_any_archive_is_the_published_files_or_a_line(small, tmp_path, content):
    files = {name: hashlib.sha256(bytes([i])).hexdigest() for i, name in enumerate(BATCHES)}

    def read(path):
        with readers.naming(path), open(path, "rb") as opened:
            return readers.unpack(opened, files, readers.read_whole)

    found = array_or_line(read, content, tmp_path / "fuzzed")
    assert found is None or list(found.values()) == [bytes([i]) for i in reversed(range(6))]


# ---- finding and loading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [dict, packed])
def test_a_set_of_idx_files_is_loaded_flat(small, tmp_path, pack):
    write(tmp_path / "mnist", pack(MNIST))
    data = load("mnist", tmp_path)
    np.testing.assert_array_equal(data.X_train, IMAGES.reshape(5, 12))
    np.testing.assert_array_equal(data.X_test, IMAGES[:2].reshape(2, 12))
    assert data.y_train.tolist() == [0, 9, 3, 4, 4]
    assert data.y_test.tolist() == [1, 2]
    assert (data.X_train.dtype, data.y_train.dtype, data.y_test.dtype) == (np.uint8, np.int64, np.int64)
    assert data.n_classes == len(data.class_names) == 10


@pytest.mark.parametrize("place", ["cifar10/cifar-10-batches-bin", "cifar10", "cifar-10-batches-bin", "."])
@pytest.mark.parametrize("form", ["unpacked", "archive"])
def test_cifar_is_loaded_from_wherever_its_publisher_or_people_put_it(small, tmp_path, place, form):
    root = tmp_path / "data"
    write(root / place, CIFAR if form == "unpacked" else {"cifar-10-binary.tar.gz": tar(CIFAR)})
    data = load("cifar10", root)
    assert (data.X_train.shape, data.X_test.shape) == ((10, 3, 32, 32), (2, 3, 32, 32))
    assert data.y_train.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert data.y_test.tolist() == [5, 4]
    assert (data.X_train.dtype, data.y_train.dtype) == (np.uint8, np.int64)
    assert data.X_train[2].tobytes() == CIFAR["data_batch_2.bin"][1:3073]
    assert data.X_test[1].tobytes() == CIFAR["test_batch.bin"][3074:]
    assert find("cifar10", root) == root / place


def test_the_folder_comes_before_the_environment_and_that_before_the_cache(small, tmp_path, monkeypatch):
    places = [tmp_path / name for name in ("given", "environment", "cache")]
    for place in places:
        write(place / "mnist", MNIST)
    monkeypatch.setenv("NAYSAYER_DATA", str(places[1]))
    assert find("mnist", places[0]) == places[0] / "mnist"
    assert find("mnist") == places[1] / "mnist"
    (places[1] / "mnist" / FILES[0]).unlink()
    with raises(f"'mnist' must be in {places[1] / 'mnist'}; {FILES[0]}.gz is not there", FileNotFoundError):
        load("mnist")
    with raises(f"must be in {tmp_path / 'elsewhere' / 'mnist'};", FileNotFoundError):
        load("mnist", tmp_path / "elsewhere")
    monkeypatch.setenv("NAYSAYER_DATA", "")
    assert find("mnist") == places[2] / "mnist"
    assert len(load("mnist").X_train) == 5


def test_a_folder_may_begin_with_a_tilde(small, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path / "data" / "mnist", MNIST)
    assert find("mnist", "~/data") == tmp_path / "data" / "mnist"


def test_a_missing_file_is_named_with_its_folder_and_the_way_out(small, tmp_path):
    write(tmp_path / "mnist", packed(MNIST))
    (tmp_path / "mnist" / f"{FILES[3]}.gz").unlink()
    words = (
        f"data set 'mnist' must be in {tmp_path}/mnist; {FILES[3]}.gz is not there, nor unpacked; "
        f"run `naysayer data get mnist --data {tmp_path}`, or name a folder that holds mnist/ "
        "by folder=, --data or NAYSAYER_DATA"
    )
    for look in (load, find):
        with raises(words, FileNotFoundError):
            look("mnist", tmp_path)
    with raises("run `naysayer data get cifar10`, or", FileNotFoundError):
        load("cifar10")


def test_an_unknown_name_is_answered_with_the_known_ones():
    words = (
        "`name` must be one of digits, mnist, fashion, kuzushiji, cifar10, or the path of a file that ends in "
        ".npz, .csv, .tsv, .parquet; got 'minst' (did you mean 'mnist'?)"
    )
    for use in (load, find, get, check_name):
        with raises(words):
            use("minst")
        with pytest.raises(ValueError, match=r"got 'zzz'$"):
            use("zzz")


@pytest.mark.parametrize("pack", [dict, packed])
def test_only_the_published_content_is_loaded(small, tmp_path, pack):
    other = MNIST | {FILES[2]: idx(IMAGES[1:3])}
    write(tmp_path / "mnist", pack(other))
    published, got = (hashlib.sha256(files[FILES[2]]).hexdigest()[:12] for files in (MNIST, other))
    with raises(f"its sha256 once unpacked is {got}..., not the published {published}...; fetch it again") as caught:
        load("mnist", tmp_path)
    assert FILES[2] in str(caught.value)


def test_a_truncated_file_and_a_damaged_archive_are_refused(small, tmp_path):
    write(tmp_path / "mnist", MNIST | {FILES[0]: MNIST[FILES[0]][:-1]})
    with raises("must be a whole data file; its header states (5, 4, 3), 60 bytes, and only 59 follow; fetch it again"):
        load("mnist", tmp_path)
    archive = write(tmp_path / "cifar10", {}) / "cifar-10-binary.tar.gz"
    whole = tar(CIFAR)
    for content, words in [
        (whole[:-2000], "must be a whole data file; "),
        (b"<html>", "must be a whole data file; "),
        (tar({k: v for k, v in CIFAR.items() if k != "data_batch_4.bin"}), "it lacks data_batch_4.bin"),
        (tar(CIFAR | {"data_batch_4.bin": records(1)}), "not the published"),
    ]:
        archive.write_bytes(content)
        with raises(words) as caught:
            load("cifar10", tmp_path)
        assert str(caught.value).startswith(str(archive))
        assert str(caught.value).endswith("fetch it again")


def test_the_registry_is_whole():
    for name, source in REGISTRY.items():
        assert len(source.class_names) == len(set(source.class_names)) == 10, name
        sums = [published for files in source.parts.values() for published in files.values()]
        assert all(re.fullmatch("[0-9a-f]{64}", published) for published in sums)
        assert all(re.fullmatch("https?://.+/", mirror) for mirror in source.mirrors)
        assert (len(sums), len(source.mirrors) >= 2) == ({"digits": 0, "cifar10": 6}.get(name, 4), name != "digits")


def test_the_digits_are_split_the_same_way_always():
    data, again = load("digits"), load("digits", download=True)
    for one, other in zip(data[:4], again[:4]):
        np.testing.assert_array_equal(one, other)
    found = hashlib.sha256(data.X_test.tobytes() + data.y_test.astype("<i8").tobytes()).hexdigest()
    assert found.startswith("08deb87fe675b2fb")
    assert (data.X_train.shape, data.X_test.shape) == ((1297, 64), (500, 64))
    assert (data.X_train.dtype, data.y_train.dtype) == (np.uint8, np.int64)
    assert (data.X_train.min(), data.X_train.max()) == (0, 255)
    assert not {row.tobytes() for row in data.X_train} & {row.tobytes() for row in data.X_test}
    share = np.bincount(data.y_test) / np.bincount(np.r_[data.y_train, data.y_test])
    assert np.abs(share - 500 / 1797).max() < 1 / 170


def test_the_overview_says_what_is_where(small, tmp_path):
    write(tmp_path / "mnist", MNIST)
    listed = {entry.name: entry for entry in overview(tmp_path)}
    assert list(listed) == list(REGISTRY)
    assert (listed["mnist"].folder, listed["mnist"].size) == (tmp_path / "mnist", sum(map(len, MNIST.values())))
    assert (listed["cifar10"].folder, listed["cifar10"].size) == (None, 170_052_171)
    assert listed["cifar10"][1:4] == (10, 50_000, 10_000)
    assert (listed["digits"].folder / "digits.csv.gz").is_file()


def test_the_cache_is_the_users():
    assert datasets.cache_folder().name == "naysayer"
    assert datasets.cache_folder() != Path.cwd() / "naysayer"


def test_without_pooch_local_files_still_load(small, tmp_path, monkeypatch):
    write(tmp_path / "mnist", MNIST)
    monkeypatch.undo()
    monkeypatch.delenv("NAYSAYER_DATA", raising=False)
    monkeypatch.setitem(REGISTRY, "mnist", with_sums(REGISTRY["mnist"], MNIST))
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert len(load("mnist", tmp_path).X_train) == 5
    words = "downloads and their cache need pooch, which is not installed; pip install pooch, or pass folder="
    with raises(words, ImportError):
        load("mnist")
    with raises(words, ImportError):
        get("cifar10", tmp_path)


# ---- fetching -------------------------------------------------------------------------------------------------


class Server(NamedTuple):
    url: str
    files: dict[str, bytes]  # by path
    asked: list[str]
    lengths: dict[str, int]  # what a path's Content-Length says, where it lies


@pytest.fixture
def server(small):
    files: dict[str, bytes] = {}
    asked: list[str] = []
    lengths: dict[str, int] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path not in files:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(lengths.get(self.path, len(files[self.path]))))
            self.end_headers()
            self.wfile.write(files[self.path])

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Server(f"http://127.0.0.1:{running.server_address[1]}", files, asked, lengths)
        running.shutdown()
        thread.join()


@pytest.fixture
def mirrors(server, monkeypatch):
    """Name the folders of the server that are a data set's mirrors."""

    def put(name, *folders):
        addresses = tuple(f"{server.url}/{folder}/" for folder in folders)
        monkeypatch.setitem(REGISTRY, name, REGISTRY[name]._replace(mirrors=addresses))

    return put


def serve(server, folder, files):
    server.files.update({f"/{folder}/{name}": content for name, content in files.items()})


def test_what_is_missing_is_fetched_once(server, mirrors, tmp_path):
    serve(server, "a", packed(MNIST))
    mirrors("mnist", "a")
    with pytest.raises(FileNotFoundError):
        load("mnist")
    assert server.asked == []
    assert len(load("mnist", download=True).X_train) == 5
    assert everything(tmp_path) == {f"cache/mnist/{name}": content for name, content in MNIST.items()}
    assert len(server.asked) == 4
    assert len(load("mnist", download=True).X_train) == 5
    assert get("mnist") == find("mnist") == tmp_path / "cache" / "mnist"
    assert len(server.asked) == 4
    (tmp_path / "cache" / "mnist" / FILES[1]).unlink()
    get("mnist")
    assert server.asked[4:] == [f"/a/{FILES[1]}.gz"]


def test_an_archive_is_unpacked_into_its_place(server, mirrors, tmp_path):
    serve(server, "a", {"cifar-10-binary.tar.gz": tar(CIFAR)})
    mirrors("cifar10", "a")
    place = get("cifar10", tmp_path / "data")
    assert place == tmp_path / "data" / "cifar10" / "cifar-10-batches-bin"
    assert everything(place) == CIFAR
    assert load("cifar10", tmp_path / "data").y_test.tolist() == [5, 4]


def test_the_environment_says_where_to(server, mirrors, tmp_path, monkeypatch):
    serve(server, "a", packed(MNIST))
    mirrors("mnist", "a")
    monkeypatch.setenv("NAYSAYER_DATA", str(tmp_path / "shared"))
    assert get("mnist") == tmp_path / "shared" / "mnist"


@pytest.mark.parametrize("pack", [dict, packed])
def test_a_damaged_file_is_replaced(server, mirrors, tmp_path, pack):
    serve(server, "a", packed(MNIST))
    mirrors("mnist", "a")
    here = pack(MNIST)
    name = list(here)[2]
    write(tmp_path / "cache" / "mnist", here | {name: here[name][:-3]})
    with raises("fetch it again"):
        load("mnist")
    assert len(load("mnist", download=True).X_test) == 2
    assert server.asked == [f"/a/{FILES[2]}.gz"]
    assert len(load("mnist").X_test) == 2


BAD = {
    "absent": (None, "status 404"),
    "truncated": (lambda content: content[: len(content) // 2], "ended before the end-of-stream"),
    "corrupt": (lambda content: content[:-20] + bytes(20), "("),
    "another file": (lambda content: gzip.compress(b"another"), "not the published"),
    "a page that wants a login": (lambda content: b"<html>", "not the published"),
    "endless": (lambda content: content + bytes(2 * 11_594_722), "the download is far longer than the published file"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mirror_that_fails_is_followed_by_the_next(server, mirrors, tmp_path, case):
    spoil, words = BAD[case]
    good = packed(MNIST)
    serve(server, "bad", {name: spoil(content) for name, content in good.items()} if spoil else {})
    mirrors("mnist", "bad")
    with raises(words, OSError) as caught:
        load("mnist", download=True)
    line = str(caught.value)
    assert line.startswith(f"{FILES[0]}.gz of data set 'mnist' must come from one of its mirrors; none gave it: ")
    assert f"{server.url}/bad/{FILES[0]}.gz (" in line
    assert line.endswith(f"try again when online, or put the file into {tmp_path}/cache/mnist")
    assert "\n" not in line
    assert everything(tmp_path) == {}
    serve(server, "good", good)
    mirrors("mnist", "bad", "good")
    assert len(load("mnist", download=True).X_train) == 5
    assert everything(tmp_path) == {f"cache/mnist/{name}": content for name, content in MNIST.items()}


def test_a_connection_that_breaks_off_is_followed_by_the_next(server, mirrors, tmp_path):
    good = packed(MNIST)
    serve(server, "bad", good)
    server.lengths.update({f"/bad/{name}": len(content) + 100 for name, content in good.items()})
    mirrors("mnist", "bad")
    with raises(f"{server.url}/bad/{FILES[0]}.gz (the download broke off)", OSError):
        get("mnist")
    assert everything(tmp_path) == {}


def test_when_offline_a_line_says_so(small, tmp_path):
    with raises(f"none gave it: http://127.0.0.1:9/{FILES[0]}.gz (no connection); try again when online", OSError):
        load("mnist", download=True)
    assert everything(tmp_path) == {}


def test_a_silent_mirror_is_given_up(small, monkeypatch):
    import pooch
    import requests

    def wait(*arguments):
        raise requests.ReadTimeout

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", wait)
    with raises("(no answer in time)", OSError):
        get("mnist")


def test_damage_within_an_archive_leaves_nothing(server, mirrors, tmp_path):
    serve(server, "a", {"cifar-10-binary.tar.gz": tar(CIFAR | {"data_batch_1.bin": records(1)})})
    mirrors("cifar10", "a")
    with raises("not the published", OSError):
        get("cifar10")
    assert everything(tmp_path) == {}


def test_the_bar_counts_bytes_and_takes_back_those_in_vain(server, mirrors, monkeypatch):
    import contextlib

    moved = []

    @contextlib.contextmanager
    def progress_bar(total, label):
        moved.append((total, label))
        yield lambda advance=1, label=None: moved.append(advance)

    monkeypatch.setattr(datasets, "progress_bar", progress_bar)
    good = packed(MNIST)
    serve(server, "bad", {name: content[:-1] for name, content in good.items()})
    serve(server, "good", good)
    mirrors("mnist", "bad", "good")
    get("mnist")
    assert moved[0] == (11_594_722, "fetching mnist")
    assert sum(moved[1:]) == sum(map(len, good.values()))
    assert min(moved[1:]) < 0


FULL_DISK = """
import resource, signal, sys
from naysayer.data import datasets
sys.path.insert(0, {tests!r})
import test_datasets
datasets.REGISTRY["cifar10"] = test_datasets.with_sums(
    datasets.REGISTRY["cifar10"], test_datasets.CIFAR, mirrors=({url!r},)
)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    datasets.get("cifar10", {folder!r})
except OSError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_a_full_disk_is_a_line_and_leaves_nothing(server, tmp_path):
    serve(server, "a", {"cifar-10-binary.tar.gz": tar(CIFAR)})
    program = FULL_DISK.format(tests=str(Path(__file__).parent), url=f"{server.url}/a/", folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    place = tmp_path / "cifar10" / "cifar-10-batches-bin"
    assert re.fullmatch(f"cannot write {place}/.*: File too large; nothing was changed\n", done.stdout), done
    assert everything(tmp_path) == {}


def test_no_space_left_on_the_device_is_a_line_and_leaves_nothing(server, mirrors, tmp_path, monkeypatch):
    import errno
    import os

    def write_bytes(path, content):
        with open(path, "wb") as file:
            file.write(content[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    serve(server, "a", packed(MNIST))
    mirrors("mnist", "a")
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with raises(f"cannot write {tmp_path}/cache/mnist/{FILES[0]}: No space left on device; nothing", OSError):
        get("mnist")
    assert everything(tmp_path) == {}


# ---- anyone's own files ---------------------------------------------------------------------------------------

X = np.arange(40.0).reshape(20, 2)
Y = np.repeat([3, 1], [15, 5])


def npz(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def test_own_arrays_with_a_test_set(tmp_path):
    images = np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2)
    path = npz(tmp_path / "own.npz", X_train=images, y_train=["b", "a", "b", "a"], X_test=images[:2], y_test=["a", "c"])
    data = load(path)
    np.testing.assert_array_equal(data.X_train, images)
    np.testing.assert_array_equal(data.X_test, images[:2])
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([1, 0, 1, 0], [0, 2])
    assert (data.n_classes, data.class_names) == (3, ("a", "b", "c"))
    assert (data.X_train.dtype, data.y_train.dtype) == (np.uint8, np.int64)
    assert data.X_train.flags.writeable


def test_own_arrays_without_a_test_set_are_split_the_same_way_always(tmp_path):
    data = load(str(npz(tmp_path / "own.npz", X=X, y=Y, more=[[1]])))
    again = load(npz(tmp_path / "again.npz", X=X, y=Y.astype(float)))
    for one, other in zip(data[:4], again[:4]):
        np.testing.assert_array_equal(one, other)
    assert (data.X_train.dtype, data.class_names, data.n_classes) == (np.float32, ("1", "3"), 2)
    assert np.bincount(data.y_test).tolist() == [1, 3]
    np.testing.assert_array_equal(np.sort(np.r_[data.X_train, data.X_test][:, 0]), X[:, 0])
    for rows, y in ((data.X_train, data.y_train), (data.X_test, data.y_test)):
        np.testing.assert_array_equal(y, (rows[:, 0] < 30).astype(int))


@pytest.mark.parametrize(
    ("header", "order"), [("a,b,kind", [0, 1, 2]), ("a,Label,b", [0, 2, 1]), ("target,a,b", [2, 0, 1])]
)
def test_own_table(tmp_path, header, order):
    rows = [[str(a), str(b), "dog" if k == 3 else "cat"] for (a, b), k in zip(X, Y)]
    path = tmp_path / "own.csv"
    path.write_text("\n".join([header, *(",".join(row[i] for i in order) for row in rows)]))
    data, arrays = load(path), load(npz(tmp_path / "own.npz", X=X, y=Y))
    for one, other in zip(data[:4], arrays[:4]):
        np.testing.assert_array_equal(one, other)
    assert data.class_names == ("cat", "dog")
    assert data.X_train.dtype == np.float32


NAN = np.where(X == 5, np.nan, X)
FOUR = {"X_train": X, "y_train": Y, "X_test": X, "y_test": Y}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": X}, "must hold the arrays X_train, y_train, X_test and y_test, or X and y; got X"),
        ({}, "or X and y; got none"),
        ({"X_train": X, "y_train": Y, "X_test": X}, "or X and y; got X_train, y_train, X_test"),
        ({"X": X, "y": Y[:-1]}, "must hold 20 labels as 'y', one for each row; got shape (19,)"),
        (FOUR | {"y_test": Y[:, None]}, "must hold 20 labels as 'y_test', one for each row; got shape (20, 1)"),
        ({"X": NAN, "y": Y}, "must hold finite float32 numbers as 'X'; got nan at (2, 1)"),
        (FOUR | {"X_test": X * 1e40}, "must hold finite float32 numbers as 'X_test'; got inf at (0, 1)"),
        ({"X": X[:, 0], "y": Y}, "must hold numbers of shape (N, D) as 'X'; got float64 of shape (20,)"),
        ({"X": X.astype(str), "y": Y}, "must hold numbers of shape (N, D) as 'X'; got <U32 of shape (20, 2)"),
        ({"X": X[:0], "y": Y[:0]}, "must hold numbers of shape (N, D) as 'X'; got float64 of shape (0, 2)"),
        ({"X": X, "y": np.ones(20)}, "must have at least 2 classes; got only '1'"),
        ({"X": X, "y": np.where(Y == 1, np.nan, Y)}, "must have a label in each row; row 15 has none"),
        ({"X": X[:4], "y": [0, 1, 0, 1]}, "must have at least 5 rows, of which one becomes the test set; got 4"),
        (FOUR | {"X_test": X[:, :1]}, "must hold test rows of the shape of the training ones, (2,); got (1,)"),
        ({"X": X, "y": np.array([{}] * 20)}, "it holds Python objects, which are not unpickled"),
    ],
)
def test_own_arrays_that_are_refused(tmp_path, arrays, words):
    path = npz(tmp_path / "own.npz", **arrays)
    with raises(words) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,x\nred,y\n", "must hold a number in each row of column 'a'; got red at row 1"),
        ("a,b\n1,x\n,y\n", "must hold a number in each row of column 'a'; got nothing at row 1"),
        ("a,b\n1,x\n-inf,y\n", "must hold a number in each row of column 'a'; got -inf at row 1"),
        ("a,b\n1,x\n2,\n", "must have a label in each row; row 1 has none"),
        ("a,b\n1,x\n2,x\n", "must have at least 2 classes; got only 'x'"),
        ("a,Class,y\n1,x,z\n2,y,w\n", "must have one column of classes; got 'Class' and 'y'; leave out or rename one"),
        ("b\nx\ny\n", "must hold numbers of shape (N, D) as 'X'; got float64 of shape (2, 0)"),
        ("", "must hold a table; it is empty"),
    ],
)
def test_own_tables_that_are_refused(tmp_path, text, words):
    path = tmp_path / "own.csv"
    path.write_text(text)
    with raises(words) as caught:
        load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["own.npz", "own.csv"])
def test_own_files_that_are_not_there(tmp_path, name):
    with raises(f"no file at {tmp_path / name}", FileNotFoundError):
        load(tmp_path / name)


buffer = io.BytesIO()
np.savez(buffer, X=X[:6], y=[0, 1, 0, 1, 0, 1])


@fuzz
@given(content=mutations(buffer.getvalue()))
def test_any_bytes_are_a_data_set_or_a_line(tmp_path, content):
    found = array_or_line(load, content, tmp_path / "fuzzed.npz")
    if found is not None:
        assert np.isfinite(found.X_train).all()
        assert found.n_classes >= 2
