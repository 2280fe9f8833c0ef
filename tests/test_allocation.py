"""Memory that was freed is used again, in the commands that compute."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from naysayer.cli.app import COMPUTING

ROUNDS = """
import resource
def fill():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        bytearray(b"1") * (64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
"""
PAGES = 64 * 2**20 // os.sysconf("SC_PAGE_SIZE")
GNU = platform.libc_ver()[0] == "glibc"


def run(script: str, *arguments: str, **environ: str) -> list[str]:
    unset = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    line = [sys.executable, "-c", ROUNDS + script, *arguments]
    return subprocess.run(line, env=unset | environ, capture_output=True, text=True, check=True).stdout.split()


def test_what_was_freed_is_used_again():
    before, kept, after = run("from naysayer.common.allocation import keep_freed\nprint(fill(), keep_freed(), fill())")
    assert kept == str(GNU)
    if GNU:
        assert int(before) > 9 * PAGES, "else there is nothing to gain"
        assert int(after) < 2 * PAGES


@pytest.mark.parametrize("name", ["GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"])
def test_the_environment_has_the_last_word(name):
    said = "glibc.malloc.mmap_threshold=33554432" if name == "GLIBC_TUNABLES" else "33554432"
    assert run("from naysayer.common.allocation import keep_freed\nprint(keep_freed())", **{name: said}) == ["False"]


@pytest.mark.parametrize("command", ["train", "demo", "ask"])
def test_commands_that_compute_keep_it(command):
    script = "from naysayer.cli import main\ntry: main()\nexcept SystemExit: pass\nprint(fill())"
    faults = int(run(script, command, "--help")[-1])
    assert (faults < 2 * PAGES) == (GNU and command in COMPUTING)
