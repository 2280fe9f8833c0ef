"""Features on the disk, by the content of what they were computed from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.common.files import begin_private
from naysayer.data.datasets import cache_folder

_SECONDS = 30.0  # to wait for another process that is writing
_AT_ONCE = 500  # rows per question; SQLite takes at least 999


def content_hash(*parts: Any) -> str:
    """Give the first 32 hexadecimal digits of the SHA-256 of bytes, texts or arrays, one after the other.

    Examples
    --------
    >>> content_hash(b"a fine film")
    'bac6d0ff1e0a93ed1890d00d18479b7c'
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()[:32]


def features_folder(cache: bool | str | os.PathLike[str]) -> Path | None:
    """Give the folder of cached features: None for False; for True ``NAYSAYER_CACHE``, or else the user's cache."""
    if cache is False:
        return None
    if cache is True:
        return Path(os.environ.get("NAYSAYER_CACHE") or cache_folder()).expanduser() / "features"
    return Path(cache).expanduser()


class FeatureCache:
    """Rows of float32 by the hash of what they came from: one SQLite file per way of computing them.

    Every row carries a checksum, and one that is damaged counts as not there. Writes are transactions, so that the file
    is whole whenever a process ends, and several processes may share it. A cache that cannot be read or written is done
    without, with one warning: it must never be the reason that something fails.

    Parameters
    ----------
    folder : of the files; it is made where it is not there. None keeps nothing.
    key : what computes the rows, as JSON has it: another key is another file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     FeatureCache(folder, {"name": "toy"}).put({"ab": np.array([1.0, 2.0])})
    ...     FeatureCache(folder, {"name": "toy"}).get(["ab", "cd"])
    {'ab': array([1., 2.], dtype=float32)}
    """

    def __init__(self, folder: str | os.PathLike[str] | None, key: Mapping[str, Any]) -> None:
        name = re.sub(r"[^\w.-]+", "-", str(key.get("name", "features")))[:60]
        digest = content_hash(json.dumps(key, sort_keys=True))
        self.path = None if folder is None else Path(folder) / f"{name}-{digest[:16]}.sqlite"

    def get(self, hashes: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Give the rows that are there, by their hashes."""
        wanted, found = list(dict.fromkeys(hashes)), {}
        if self.path is None:
            return {}
        with self._forgiving():
            if not self.path.exists():
                return {}
            with self._open() as database:
                for start in range(0, len(wanted), _AT_ONCE):
                    some = wanted[start : start + _AT_ONCE]
                    marks = ",".join("?" * len(some))
                    for name, sum_, row in database.execute(
                        f"SELECT hash, sum, row FROM rows WHERE hash IN ({marks})", some
                    ):
                        if isinstance(row, bytes) and _checksum(name, row) == sum_:
                            found[name] = np.frombuffer(row, dtype="<f4").astype(np.float32)
        return found

    def put(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Keep rows, by their hashes; those that are there already are replaced."""
        as_bytes = ((name, np.ascontiguousarray(row, dtype="<f4").tobytes()) for name, row in rows.items())
        values = [(name, _checksum(name, row), row) for name, row in as_bytes]
        for _ in range(2):  # where the file is damaged, the rows go into the new one
            if self.path is None or not values:
                return
            with self._forgiving(), self._open() as database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", values)
                database.execute("COMMIT")
                return

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file, for one use: no connection is shared between threads, or taken along by a fork."""
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        begin_private(self.path)  # features of a text or a photo tell of it
        with contextlib.closing(sqlite3.connect(self.path, timeout=_SECONDS, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS rows (hash TEXT PRIMARY KEY, sum INTEGER NOT NULL, row BLOB NOT NULL)"
            )
            yield database

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Throw a damaged file away; do without one that is out of reach."""
        assert self.path is not None
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            warnings.warn(f"the cache {self.path} cannot be used: {error}; features are not kept", stacklevel=4)
            self.path = None
        except sqlite3.DatabaseError as error:
            try:
                for path in (self.path, self.path.with_name(f"{self.path.name}-journal")):
                    path.unlink(missing_ok=True)
                warnings.warn(f"the cache {self.path} is damaged: {error}; it is made anew", stacklevel=4)
            except OSError as stuck:
                warnings.warn(
                    f"the cache {self.path} is damaged: {error}; it cannot be removed: {stuck}; features are not kept",
                    stacklevel=4,
                )
                self.path = None


def forget(hashes: Iterable[str], cache: bool | str | os.PathLike[str] = True) -> None:
    """Delete the rows of some hashes from every file of features in the folder of `features_folder`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     FeatureCache(folder, {"name": "toy"}).put({"ab": np.array([1.0, 2.0])})
    ...     forget(["ab"], folder)
    ...     FeatureCache(folder, {"name": "toy"}).get(["ab"])
    {}
    """
    folder, names = features_folder(cache), [(name,) for name in hashes]
    for path in sorted(folder.glob("*.sqlite")) if folder else ():
        kept = FeatureCache(folder, {})
        kept.path = path
        with kept._forgiving(), kept._open() as database:
            database.execute("PRAGMA secure_delete = ON")
            database.executemany("DELETE FROM rows WHERE hash = ?", names)


def _checksum(name: str, row: bytes) -> int:
    return zlib.crc32(row, zlib.crc32(name.encode()))
