"""Files that are whole or not there: whatever goes wrong, the old content stays and nothing is left lying about."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save

from helpers import raises
from naysayer.common.files import read_tensors, whole_file, write_tensors, write_text

TENSORS = {
    "floats": torch.arange(6.0).reshape(2, 3),
    "ints": torch.tensor([1, -2, 3]),
    "flags": torch.tensor([True, False]),
    "bytes": torch.tensor([[255, 0]], dtype=torch.uint8),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "empty": torch.zeros(0, 4),
}
ABOUT = {"epoch": 3, "names": ["ä", "b"], "nested": {"x": None}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "new" / "folders" / "file"
    with whole_file(path) as temporary:
        assert temporary.parent == path.parent  # the same disk, so that it can be moved at once
        temporary.write_bytes(b"half")
        assert not path.exists()
        temporary.write_bytes(b"half and half")
    assert path.read_bytes() == b"half and half"
    assert names(path.parent) == ["file"]


def test_readers_see_the_old_content_or_the_new_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    with path.open() as reader, whole_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_a_link_leads_to_the_file_and_a_pipe_stays_one(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_text(tmp_path / "pipe", "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert names(tmp_path) == ["file", "link", "pipe"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, OSError])
@pytest.mark.parametrize("old", [None, "old"])
def test_an_exception_leaves_the_old_content_and_no_temporary_file(tmp_path, error, old):
    path = tmp_path / "file"
    if old is not None:
        path.write_text(old)

    def write():
        with whole_file(path) as temporary:
            temporary.write_text("half")
            raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        write()
    assert names(tmp_path) == ([] if old is None else ["file"])
    assert old is None or path.read_text() == old


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_text(path, "old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises(f"cannot write {path}: No space left on device; nothing was changed", OSError):
        write_text(path, "new")
    with raises(f"cannot write {path}: No space left on device; nothing was changed", OSError):
        write_tensors(path, TENSORS, ABOUT)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_process_that_is_killed_leaves_the_old_content(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")
    program = (
        "import os, sys; from naysayer.common.files import whole_file\n"
        "with whole_file(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], timeout=600).returncode == 9
    assert path.read_text() == "old"


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("here first")
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    for path in (tmp_path / "file" / "below", tmp_path / "folder", tmp_path / ("n" * 300)):
        with raises(f"cannot write {path}: ", OSError):
            write_text(path, "text")
        with raises("; nothing was changed", OSError):
            write_tensors(path, TENSORS, ABOUT)
    assert (tmp_path / "file").read_text() == "here first"
    assert names(tmp_path) == ["file", "folder"]
    assert names(tmp_path / "folder") == ["inner"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_any_other_new_file(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "text", "")
        write_tensors(tmp_path / "tensors", TENSORS, ABOUT)
        assert os.umask(umask) == umask  # and the mask is as it was
    finally:
        os.umask(before)
    for name in ("text", "tensors"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


@pytest.mark.parametrize("private", [False, True])
def test_no_file_is_written_by_changing_the_umask(tmp_path, monkeypatch, private):
    """It is that of all threads: of two that read it so at once, one may put back what the other has set."""
    path = tmp_path / "file"
    with monkeypatch.context() as patch:
        patch.setattr(os, "umask", None)
        write_text(path, "text", private=private)
    if private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "text"


def test_text_is_utf8_and_a_path_may_be_text(tmp_path):
    write_text(str(tmp_path / "file"), "é, “no”\n")
    assert (tmp_path / "file").read_bytes() == "é, “no”\n".encode()


def test_a_name_without_a_folder_is_beside_the_reader(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text("file", "here")
    assert names(tmp_path) == ["file"]


def test_tensors_come_back_as_they_were(tmp_path):
    path = tmp_path / "file"
    given = TENSORS | {"transposed": torch.arange(6.0).reshape(2, 3).T, "graph": torch.ones(2, requires_grad=True) * 2}
    write_tensors(path, given, ABOUT)
    tensors, about = read_tensors(path)
    assert about == ABOUT
    assert tensors.keys() == given.keys()
    for name, tensor in given.items():
        assert tensors[name].dtype == tensor.dtype
        assert tensors[name].shape == tensor.shape
        assert torch.equal(tensors[name], tensor)
        assert not tensors[name].requires_grad


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 20, 0.5, 0.9, -1])
def test_a_file_cut_short_is_refused(tmp_path, kept):
    path = tmp_path / "file"
    write_tensors(path, TENSORS, ABOUT)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if isinstance(kept, float) else kept])
    with raises(f"{path} is not a whole file of naysayer's: "):
        read_tensors(path)


def test_a_file_with_more_than_there_should_be_is_refused(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, TENSORS, ABOUT)
    path.write_bytes(path.read_bytes() + b"more")
    with raises("is not a whole file of naysayer's"):
        read_tensors(path)


def test_a_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(save({"x": torch.ones(2)}))
    with raises(f"{path} is not a whole file of naysayer's: 'naysayer'"):
        read_tensors(path)
    path.write_bytes(save({"x": torch.ones(2)}, {"naysayer": "{half"}))
    with raises(f"{path} is not a whole file of naysayer's: "):
        read_tensors(path)
    path.write_text(json.dumps(ABOUT))
    with raises(f"{path} is not a whole file of naysayer's: "):
        read_tensors(path)


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path / "file", tmp_path):
        with raises(f"no file at {path}", FileNotFoundError):
            read_tensors(path)
