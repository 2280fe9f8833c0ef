"""Features on the disk: whole at every moment, shared by processes, and never trusted when damaged."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from naysayer.features.cache import FeatureCache, content_hash, features_folder

KEY = {"name": "toy", "size": 3}


def rows(n, start=0, width=5):
    return {content_hash(f"{i}"): np.full(width, i, dtype=np.float32) for i in range(start, start + n)}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        np.testing.assert_array_equal(found[name], row)
        assert found[name].dtype == np.float32


def test_rows_come_back_in_any_order_and_by_parts(tmp_path):
    given = rows(1200)
    FeatureCache(tmp_path, KEY).put(given)
    names = list(given)
    again = FeatureCache(tmp_path, KEY)
    assert_same(again.get(reversed(names)), given)
    assert_same(again.get([names[3], "unheard of", names[1], names[3]]), {name: given[name] for name in names[1:4:2]})
    assert again.get([]) == {}
    again.put({names[0]: np.arange(5)})
    np.testing.assert_array_equal(again.get(names[:1])[names[0]], np.arange(5))


def test_another_key_is_another_cache(tmp_path):
    given = rows(2)
    FeatureCache(tmp_path, KEY).put(given)
    assert FeatureCache(tmp_path, KEY | {"size": 4}).get(given) == {}
    assert_same(FeatureCache(tmp_path, dict(reversed(KEY.items()))).get(given), given)
    strange = FeatureCache(tmp_path, {"name": "open_clip:ViT/a b" + "x" * 300})
    strange.put(given)
    assert_same(strange.get(given), given)


def test_without_a_folder_nothing_is_kept():
    cache = FeatureCache(None, KEY)
    cache.put(rows(2))
    assert cache.get(rows(2)) == {}


def test_where_features_are_kept(monkeypatch, tmp_path):
    assert features_folder(False) is None
    assert features_folder(tmp_path) == tmp_path
    assert features_folder("~/x") == Path.home() / "x"
    monkeypatch.setenv("NAYSAYER_CACHE", str(tmp_path))
    assert features_folder(True) == tmp_path / "features"
    monkeypatch.delenv("NAYSAYER_CACHE")
    assert "naysayer" in features_folder(True).parts


def test_a_damaged_row_is_not_there(tmp_path):
    given = rows(50, width=300)
    cache = FeatureCache(tmp_path, KEY)
    cache.put(given)
    content = bytearray(cache.path.read_bytes())
    row = next(iter(given.values()))
    victim = content.index(np.full(300, 7, dtype="<f4").tobytes())
    content[victim + 100] ^= 1
    cache.path.write_bytes(content)
    found = cache.get(given)
    lost = content_hash("7")
    assert_same(found, {name: row for name, row in given.items() if name != lost})
    cache.put({lost: row})
    assert len(cache.get(given)) == 50


@pytest.mark.parametrize("damage", [b"no database at all" * 100, None])
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    given = rows(500, width=50)
    cache = FeatureCache(tmp_path, KEY)
    cache.put(given)
    content = cache.path.read_bytes()
    cache.path.write_bytes(damage or content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"the cache .*\.sqlite is damaged: .*; it is made anew"):
        assert len(cache.get(given)) < 500
    cache.put(given)
    assert_same(FeatureCache(tmp_path, KEY).get(given), given)


def test_a_damaged_file_does_not_stop_what_is_being_kept(tmp_path):
    cache = FeatureCache(tmp_path, KEY)
    cache.path.write_bytes(b"x" * 5000)
    with pytest.warns(UserWarning, match="is damaged"):
        cache.put(rows(3))
    assert_same(cache.get(rows(3)), rows(3))


def refuse(*_, **__):
    raise PermissionError(13, "Permission denied")


def test_a_damaged_file_that_cannot_be_removed_is_done_without(tmp_path, monkeypatch):
    for use in (FeatureCache.get, FeatureCache.put):
        cache = FeatureCache(tmp_path, KEY)
        cache.path.write_bytes(b"x" * 5000)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refuse)  # as in a folder that is read-only
            with pytest.warns(UserWarning, match="is damaged: .*; it cannot be removed: .*; features are not kept"):
                use(cache, rows(3))
        cache.put(rows(3))  # said once
        assert cache.get(rows(3)) == {}


def test_a_folder_that_may_not_be_entered_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "exists", refuse)
    cache = FeatureCache(tmp_path, KEY)
    with pytest.warns(UserWarning, match="cannot be used: .*Permission denied; features are not kept"):
        assert cache.get(rows(3)) == {}
    assert cache.get(rows(3)) == {}  # said once


def test_a_cache_out_of_reach_is_done_without(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    cache = FeatureCache(tmp_path / "file" / "folder", KEY)
    with pytest.warns(UserWarning, match=r"the cache .* cannot be used: .*; features are not kept"):
        cache.put(rows(3))
    cache.put(rows(3))  # said once
    assert cache.get(rows(3)) == {}


def test_a_cache_that_another_holds_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setattr("naysayer.features.cache._SECONDS", 0.05)
    cache = FeatureCache(tmp_path, KEY)
    cache.put(rows(1))
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.warns(UserWarning, match="cannot be used: database is locked; features are not kept"):
        cache.put(rows(1, start=1))
    other.execute("ROLLBACK")
    other.close()
    assert len(FeatureCache(tmp_path, KEY).get(rows(2))) == 1


WRITER = """
import sys
import numpy as np
from naysayer.features.cache import FeatureCache, content_hash
cache = FeatureCache(sys.argv[1], {"name": "toy", "size": 3})
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    cache.put({content_hash(f"{i}"): np.full(5, i, dtype=np.float32)})
    print(i, flush=True)
"""


def writer(folder, start, stop):
    arguments = [sys.executable, "-c", WRITER, str(folder), str(start), str(stop)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_at_once(tmp_path):
    both = [writer(tmp_path, 0, 60), writer(tmp_path, 40, 100)]
    for process in both:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert_same(FeatureCache(tmp_path, KEY).get(rows(100)), rows(100))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_process_that_is_killed_leaves_a_whole_cache(tmp_path):
    process = writer(tmp_path, 0, 1_000_000)
    told = [int(process.stdout.readline()) for _ in range(20)]
    time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=300)
    found = FeatureCache(tmp_path, KEY).get(rows(2000))
    assert found.keys() >= rows(len(told)).keys()
    for name, row in found.items():
        np.testing.assert_array_equal(row, rows(2000)[name])
