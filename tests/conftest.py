"""Fixtures that several test files share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

import postgres


@pytest.fixture
def float64() -> Iterator[None]:
    """Compute in float64 inside one test, so that exact identities can be compared exactly."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


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
