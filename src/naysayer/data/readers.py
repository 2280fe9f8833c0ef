"""Readers of MNIST's and CIFAR-10's formats: plain, gzip or in a tar file, hashed as they are read, safe to damage."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
CHUNK = 1 << 20
LARGEST = 1 << 31  # bytes; far above any data set here, and a bound on what a small gzip file can unpack to
_TYPES: dict[int, np.dtype[Any]] = {8: np.dtype(">u1"), 9: np.dtype(">i1"), 11: np.dtype(">i2"), 12: np.dtype(">i4")}
_RECORD = 1 + 3 * 32 * 32  # bytes of an image of CIFAR-10: its class, then its red, green and blue
DAMAGE = (ValueError, EOFError, gzip.BadGzipFile, zlib.error, tarfile.TarError)  # what readers raise on damaged files


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read an array of whole numbers in the idx format of MNIST, plain or gzip.

    The format: two zero bytes, a byte for the type, a byte for the number of dimensions, the dimensions as
    big-endian 32-bit numbers, the data. The header is believed only as far as the bytes that follow bear it out.

    Parameters
    ----------
    path : the file; whether it is compressed is seen from its content, not its name.

    Returns
    -------
    array of uint8, int8, int16 or int32, in the shape that the file states

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    return _read(path, parse_idx)


def read_cifar(path: str | os.PathLike[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images and classes in the binary format of CIFAR-10, plain or gzip.

    The format: for each image a byte for the class, 0 to 9, then 32 × 32 bytes each of red, green and blue.

    Parameters
    ----------
    path : the file.

    Returns
    -------
    images : (N, 3, 32, 32) uint8
    classes : (N,) int64

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "test_batch.bin")
    ...     _ = path.write_bytes(bytes([7]) + bytes(3072) + bytes([2]) + bytes(3072))
    ...     images, classes = read_cifar(path)
    >>> images.shape, classes
    ((2, 3, 32, 32), array([7, 2]))
    """
    records = _read(path, parse_cifar)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(np.int64)


class Hashed:
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Give so many bytes, or what is left."""
        part = self.file.read(size)
        self.digest.update(part)
        return part


def _read(path: str | os.PathLike[str], parse: Callable[[Hashed], T]) -> T:
    """Read one file, whatever its sha256."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    with naming(path), open(path, "rb") as packed:
        return parse(Hashed(_gunzipped(packed)))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file makes its readers raise into one line with its name."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{path} must be a whole data file; {error}; fetch it again") from None


def _gunzipped(packed: IO[bytes]) -> IO[bytes]:
    """Unpack a file if it is gzip, which none of the formats here begins like."""
    compressed = packed.read(2) == b"\x1f\x8b"
    packed.seek(0)
    return gzip.GzipFile(fileobj=packed) if compressed else packed  # type: ignore[return-value]


def unpack(packed: IO[bytes], files: Mapping[str, str], parse: Callable[[Hashed], T]) -> dict[str, T]:
    """Parse the files that are downloaded as one, and compare the sha256 of each with the published one."""
    opened = _gunzipped(packed)
    found: dict[str, T] = {}
    if len(files) == 1:
        ((file, published),) = files.items()
        return {file: _checked(opened, published, parse)}
    with tarfile.open(fileobj=opened, mode="r|") as archive:  # one pass, in the archive's own order
        for member in archive:
            file = PurePosixPath(member.name).name
            content = archive.extractfile(member) if file in files else None
            if content is not None:  # not a folder of that name
                found[file] = _checked(content, files[file], parse)
    if absent := [file for file in files if file not in found]:
        raise ValueError(f"it lacks {absent[0]}")
    return found


def _checked(file: IO[bytes], published: str, parse: Callable[[Hashed], T]) -> T:
    """Parse one file and compare its sha256; the parser reads it to its end."""
    hashed = Hashed(file)
    value = parse(hashed)
    if (got := hashed.digest.hexdigest()) != published:
        raise ValueError(f"its sha256 once unpacked is {got[:12]}..., not the published {published[:12]}...")
    return value


def read_whole(file: Hashed) -> bytearray:
    """Read all that a file holds."""
    data = bytearray()
    while part := file.read(CHUNK):
        data += part
        if len(data) > LARGEST:
            raise ValueError(f"it unpacks to over {LARGEST} bytes")
    return data


def parse_cifar(file: Hashed) -> NDArray[np.uint8]:
    """Read (N, 3073) bytes: the class, then the image."""
    data = read_whole(file)
    if len(data) == 0 or len(data) % _RECORD:
        raise ValueError(f"it has {len(data)} bytes, not {_RECORD} for each image")
    records = np.frombuffer(data, np.uint8).reshape(-1, _RECORD)
    if (wrong := records[:, 0] > 9).any():
        i = int(np.argmax(wrong))
        raise ValueError(f"its classes are not all 0 to 9: image {i} has {records[i, 0]}")
    return records


def parse_idx(file: Hashed) -> NDArray[Any]:
    """Read the header, and as much as it states."""
    dtype, shape = _parse_idx_header(file)
    size = math.prod(shape) * dtype.itemsize
    if size > LARGEST:
        raise ValueError(f"its header states {shape}, over {LARGEST} bytes")
    data = bytearray()
    while part := file.read(min(CHUNK, size + 1 - len(data))):  # one more than is due, to see the end
        data += part
    if len(data) != size:
        found = f"only {len(data)}" if len(data) < size else "more"
        raise ValueError(f"its header states {shape}, {size} bytes, and {found} follow")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _parse_idx_header(file: Hashed) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Read the type and the shape."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise ValueError(f"it begins with {magic.hex(' ') or 'nothing'} instead of 00 00, a type and a dimension count")
    if magic[2] not in _TYPES:
        raise ValueError(f"its type 0x{magic[2]:02x} is not one of whole numbers (0x08, 0x09, 0x0b, 0x0c)")
    if not 1 <= magic[3] <= 8:
        raise ValueError(f"its header states {magic[3]} dimensions, not 1 to 8")
    sizes = file.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise ValueError("it ends within its header")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    if 0 in shape:
        raise ValueError(f"its header states {shape}, which holds nothing")
    return _TYPES[magic[2]], shape
