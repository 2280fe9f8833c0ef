"""The suite itself: tests run in an order that is drawn and can be repeated, and leave nothing behind."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import matplotlib
import numpy as np
import pytest
import torch

from helpers import global_state_kept, raises

ROOT = Path(__file__).parent.parent
FILES, TESTS = 4, 6


@pytest.fixture
def project(tmp_path):
    """A small project with the order of this one."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for name in range(FILES):
        lines = [f"def test_{i}(): pass" for i in range(TESTS)]
        (tmp_path / f"test_{name}.py").write_text("\n".join(lines))
    return tmp_path


def pytest_in(project, *arguments):
    """Run its tests, without the plugins that it does not need."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, env=alone)


def run(project, *arguments):
    """Run its tests; give the seed that was printed, and the tests as they came."""
    done = pytest_in(project, "-v", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    (seed,) = re.findall(r"^order seed: (\d+) \(repeat with --order-seed=\1,", done.stdout, flags=re.MULTILINE)
    return int(seed), re.findall(r"test_\d\.py::test_\d", done.stdout)


def test_the_seed_that_is_printed_repeats_the_order(project):
    seed, order = run(project)
    assert len(set(order)) == FILES * TESTS
    assert run(project, f"--order-seed={seed}") == (seed, order)
    assert run(project, f"--order-seed={seed + 1}")[1] != order


def test_tests_of_a_file_stay_together(project):
    _, order = run(project, "--order-seed=1")
    files = [name.split("::")[0] for name in order]
    assert sum(one != other for one, other in itertools.pairwise(files)) == FILES - 1
    assert order != sorted(order)
    assert files != sorted(files)


def test_workers_share_one_order(project):
    """Workers that collected in different orders would refuse to run."""
    _, order = run(project, "-p", "xdist", "-n", "2")
    assert len(set(order)) == FILES * TESTS


def test_a_failure_repeats_the_seed_at_the_end(project):
    (project / "test_0.py").write_text("def test_0(): assert False")
    done = pytest_in(project, "-q", "-q", "--order-seed=3")
    assert done.returncode == 1
    assert done.stdout.count("order seed: 3 (repeat with --order-seed=3, or make test SEED=3)") == 2


CHANGES = {
    "working directory": lambda patch: patch.chdir("/"),
    "environment": lambda patch: patch.setenv("NAYSAYER_DATA", "elsewhere"),
    "sys.argv": lambda patch: patch.setattr(sys, "argv", ["other"]),
    "sys.path": lambda patch: patch.syspath_prepend("/"),
    "matplotlib's settings": lambda patch: patch.setitem(matplotlib.rcParams, "lines.linewidth", 9.0),
    "umask": lambda patch: os.umask(0o123),
    "signal handlers": lambda patch: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "numpy's errors": lambda patch: np.seterr(all="raise"),
    "numpy's printing": lambda patch: np.set_printoptions(precision=3),
    "torch's threads": lambda patch: torch.set_num_threads(torch.get_num_threads() + 1),
    "torch's default dtype": lambda patch: torch.set_default_dtype(torch.float64),
    "torch's matmul precision": lambda patch: torch.set_float32_matmul_precision("medium"),
    "torch's gradients": lambda patch: torch.set_grad_enabled(False),
}


@pytest.fixture
def put_back():
    """Put back what monkeypatch does not know."""
    umask, threads, handler = os.umask(0), torch.get_num_threads(), signal.getsignal(signal.SIGTERM)
    os.umask(umask)
    dtype, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    errors, printing = np.geterr(), np.get_printoptions()
    yield
    os.umask(umask)
    signal.signal(signal.SIGTERM, handler)
    np.seterr(**errors)
    np.set_printoptions(**printing)
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_test_leaves_behind_is_found(name, monkeypatch, put_back):
    with raises(f"it changed {name} ", AssertionError), global_state_kept():
        CHANGES[name](monkeypatch)


def test_a_test_that_tidies_up_is_left_alone(monkeypatch):
    with global_state_kept(), monkeypatch.context() as patch:
        patch.chdir("/")
        patch.setenv("NAYSAYER_DATA", "elsewhere")


def test_hypothesis_draws_the_same_everywhere():
    given = hypothesis.settings.default
    assert (given.derandomize, given.deadline, given.database) == (True, None, None)


def draws():
    return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002


def test_global_generators_are_seeded_by_the_name_of_the_test(request):
    """The numbers are those of this name, whichever test came before."""
    first = draws()
    (fixture,) = request.session._fixturemanager.getfixturedefs("same_in_any_order", request.node)
    steps = fixture.func(request)
    next(steps)
    assert draws() == first
