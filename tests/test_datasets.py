"""The idx reader against damaged files, and the data sets it feeds."""

from __future__ import annotations

import gzip
import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from naysayer import datasets
from naysayer.datasets import REGISTRY, load, read_idx

CODES = {np.dtype(np.uint8): 8, np.dtype(np.int8): 9, np.dtype(np.int16): 11, np.dtype(np.int32): 12}
IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)
FILES = tuple(REGISTRY["mnist"].files)


def idx(array: np.ndarray) -> bytes:
    """Write an array in the idx format."""
    head = bytes([0, 0, CODES[array.dtype], array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_set(folder: Path, *, packed: bool = True, **changed: np.ndarray) -> Path:
    """Write a tiny data set in the form of MNIST; `changed` replaces one of its arrays."""
    arrays = {
        "X_train": IMAGES,
        "y_train": np.array([0, 9, 3, 4, 4], np.uint8),
        "X_test": IMAGES[:2],
        "y_test": np.array([1, 2], np.uint8),
    }
    (folder / "mnist").mkdir()
    for file, array in zip(FILES, (arrays | changed).values()):
        content = idx(array)
        path = folder / "mnist" / (f"{file}.gz" if packed else file)
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder


# read_idx


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


def test_several_gzip_members_are_one_file(tmp_path):
    content = idx(IMAGES)
    path = tmp_path / "array.gz"
    path.write_bytes(gzip.compress(content[:20]) + gzip.compress(content[20:]))
    np.testing.assert_array_equal(read_idx(path), IMAGES)


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match=f"no file at {path}"):
            read_idx(path)


WHOLE = idx(IMAGES)
HUGE = bytes([0, 0, 8, 3]) + b"\xff" * 12
DAMAGED = {
    "empty": (b"", "begins with nothing instead of 00 00"),
    "other": (b"PK\x03\x04", "begins with 50 4b 03 04 instead of 00 00"),
    "floats": (bytes([0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0]), "type 0x0d is not one of whole numbers"),
    "no dimension": (bytes([0, 0, 8, 0]), "states 0 dimensions, not 1 to 8"),
    "many dimensions": (bytes([0, 0, 8, 200]) + bytes(800), "states 200 dimensions, not 1 to 8"),
    "cut in the header": (WHOLE[:10], "ends within its header"),
    "no rows": (bytes([0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 4]), r"states \(0, 4\), which holds nothing"),
    "absurd": (HUGE, "over 2147483648 bytes"),
    "large, not there": (bytes([0, 0, 8, 1, 0x70, 0, 0, 0, 1]), "must hold 1879048192 bytes.*got only 1;"),
    "cut short": (WHOLE[:-1], r"must hold 60 bytes after its header, as \(5, 4, 3\) states; got only 59"),
    "trailing": (WHOLE + b"\0", "must hold 60 bytes.*got more"),
    "packed, cut": (gzip.compress(WHOLE)[:-9], "ended before the end-of-stream"),
    "packed, bad sum": (gzip.compress(WHOLE)[:-8] + bytes(8), "CRC check failed"),
    "packed, garbage": (gzip.compress(WHOLE)[:10] + b"\xff" * 40, "Error -3 while decompressing"),
    "packed, then something": (gzip.compress(WHOLE) + b"extra", "Not a gzipped file"),
    "a bomb": (gzip.compress(HUGE + bytes(1 << 24)), "over 2147483648 bytes"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_refused_without_a_large_allocation(tmp_path, case):
    content, words = DAMAGED[case]
    path = tmp_path / "damaged"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ValueError, match=words) as caught:
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert "fetch it again" in str(caught.value)
    assert peak < 8 << 20


@pytest.mark.parametrize("packed", [False, True])
def test_any_mutation_is_an_array_or_a_named_error(tmp_path, packed):
    rng = np.random.default_rng(packed)
    content = gzip.compress(WHOLE, mtime=0) if packed else WHOLE
    path = tmp_path / "mutated"
    outcomes = set()
    for _ in range(400):
        path.write_bytes(mutate(content, rng))
        tracemalloc.start()
        try:
            found = read_idx(path)
        except ValueError as error:
            found = str(error)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20
        outcomes.add(type(found))
        if isinstance(found, str):
            assert str(path) in found
            assert "\n" not in found
        else:
            assert found.dtype.kind in "iu"
            assert found.size > 0
    assert outcomes == {np.ndarray, str}


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, cut, insert or delete a few bytes."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(data))) if data else 0
        match rng.integers(6):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = rng.bytes(int(rng.integers(1, 9)))
            case 2:
                del data[at : at + int(rng.integers(1, 9))]
            case _:
                data[at : at + 1] = rng.bytes(1)
    return bytes(data)


# load


@pytest.mark.parametrize("packed", [False, True])
def test_a_set_of_idx_files_is_loaded_flat(tmp_path, packed):
    data = load("mnist", write_set(tmp_path, packed=packed))
    np.testing.assert_array_equal(data.X_train, IMAGES.reshape(5, 12))
    np.testing.assert_array_equal(data.X_test, IMAGES[:2].reshape(2, 12))
    assert data.y_train.tolist() == [0, 9, 3, 4, 4]
    assert data.y_test.tolist() == [1, 2]
    assert (data.X_train.dtype, data.y_train.dtype, data.y_test.dtype) == (np.uint8, np.int64, np.int64)
    assert data.n_classes == len(data.class_names) == 10


def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    write_set(tmp_path)
    monkeypatch.setenv("NAYSAYER_DATA", str(tmp_path))
    assert len(load("mnist").X_train) == 5
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        load("mnist", tmp_path / "elsewhere")
    monkeypatch.delenv("NAYSAYER_DATA")
    with pytest.raises(FileNotFoundError, match=r"'mnist' must be in a local folder; none was given; .*NAYSAYER_DATA"):
        load("mnist")


def test_a_missing_file_is_named_with_its_folder_and_the_way_out(tmp_path):
    (write_set(tmp_path) / "mnist" / f"{FILES[3]}.gz").unlink()
    words = rf"four files in {tmp_path}/mnist; {FILES[3]}\[.gz\] is not there; .*folder= or set NAYSAYER_DATA"
    with pytest.raises(FileNotFoundError, match=words):
        load("mnist", tmp_path)


def test_an_unknown_name_is_answered_with_the_known_ones():
    words = r"`name` must be one of digits, mnist, fashion, kuzushiji; got 'minst'; did you mean 'mnist'\?"
    with pytest.raises(ValueError, match=words):
        load("minst")
    with pytest.raises(ValueError, match=r"got 'zzz'$"):
        load("zzz")


def test_check_compares_the_unpacked_content(tmp_path, monkeypatch):
    write_set(tmp_path)
    with pytest.raises(
        ValueError, match=rf"{FILES[0]}.gz must have the published sha256 ba891046e650.* fetch it again"
    ):
        load("mnist", tmp_path, check=True)
    sums = {
        file: hashlib.sha256(gzip.decompress((tmp_path / "mnist" / f"{file}.gz").read_bytes())).hexdigest()
        for file in FILES
    }
    monkeypatch.setitem(datasets.REGISTRY, "mnist", REGISTRY["mnist"]._replace(files=sums))
    assert len(load("mnist", tmp_path, check=True).X_train) == 5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"X_train": IMAGES[0]}, r"train-images.* must hold \(N, height, width\) bytes; got uint8 of shape \(4, 3\)"),
        ({"X_test": IMAGES[:2].astype(np.int16)}, r"t10k-images.* must hold .* bytes; got int16"),
        ({"y_train": np.zeros(4, np.uint8)}, r"train-labels.* one label for each of the 5 images; got shape \(4,\)"),
        ({"y_test": np.array([1, 10], np.uint8)}, r"t10k-labels.* must hold classes 0 to 9; got 10 at row 1"),
        ({"X_test": IMAGES[:2, :3]}, r"t10k-images.* size of the training ones, \(4, 3\); got \(3, 3\)"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(tmp_path, changed, words):
    with pytest.raises(ValueError, match=words):
        load("mnist", write_set(tmp_path, **changed))


def test_the_registry_is_whole():
    for name, source in REGISTRY.items():
        assert len(source.class_names) == len(set(source.class_names)) == 10, name
        assert all(len(sha256) == 64 for sha256 in source.files.values())
        assert list(source.files) == ([] if name == "digits" else list(FILES))


def test_the_digits_are_split_the_same_way_always():
    data, again = load("digits"), load("digits")
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
