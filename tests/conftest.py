"""What holds for every test, and fixtures that several test files share."""

from __future__ import annotations

import math
import os
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import postgres
from helpers import Done, global_state_kept, of_all_workers
from naysayer.common import progress

with suppress(ImportError):  # the tests that run on a GPU do without it
    import hypothesis

    hypothesis.settings.register_profile("same everywhere", derandomize=True, deadline=None, database=None)
    hypothesis.settings.load_profile("same everywhere")


progress.SECONDS = math.inf  # tests compare all that is printed, and a busy machine may be slow


# ---- what holds for every test ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def same_in_any_order(request: pytest.FixtureRequest) -> Iterator[None]:
    """Seed the global generators by the test's name, and fail a test that leaves global state changed."""
    seed = zlib.crc32(request.node.name.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    with global_state_kept():
        yield


@pytest.fixture(autouse=True, scope="session")
def features_are_kept_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep features that tests compute in a folder of their own, for the commands that they start, too.

    All workers of a run share it: what one has computed, no other computes again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAYSAYER_CACHE", str(of_all_workers(tmp_path_factory) / "cache"))
        yield


# ---- fixtures ------------------------------------------------------------------------------------------------


@pytest.fixture
def float64() -> Iterator[None]:
    """Compute in float64 inside one test, so that exact identities can be compared exactly."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def naysayer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command in this process."""
    from naysayer import cli

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["naysayer", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return Done(stop.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server for all tests; without one, those that need it are not run, and where CI runs, fail."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(postgres.server(fsync=False))
        except postgres.NoPostgres as reason:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(str(reason))
        yield server


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """An empty database on PostgreSQL."""
    with postgres.fresh_database(postgres_server.url) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a new store, on each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "answers.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def few_trees(monkeypatch):
    """Forests and boosting of a tenth of the size, for tests that ask what is done with them, not how good they are."""
    from naysayer.models import members

    monkeypatch.setattr(members, "N_TREES", 40)
    monkeypatch.setattr(members, "N_ROUNDS", 15)
