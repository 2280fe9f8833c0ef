"""The order of the tests, drawn anew for every run, and what pytest must not collect."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

collect_ignore = ["src/naysayer/engine/_triton.py"]  # needs a GPU's compiler to import


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order-seed", type=int, help="repeat the order of an earlier run, which printed this seed")


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed once: workers take that of the process that started them, so that all know one order.

    Workers share the cores as well: threads that wait for a core that another worker has would double the work.
    """
    if hasattr(config, "workerinput"):
        config.option.order_seed = config.workerinput["order_seed"]
        return
    if config.option.order_seed is None:
        config.option.order_seed = random.SystemRandom().randrange(100_000)
    if workers := getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the seed to a worker of pytest-xdist."""
    node.workerinput["order_seed"] = node.config.option.order_seed


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, then the tests of each: a fixture that a file's tests share is still made once.

    It comes first because pytest then moves the tests that share a parameter of such a fixture together.
    """
    shuffle = random.Random(config.option.order_seed).shuffle
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.split("::")[0], []).append(item)
    order = sorted(files)
    shuffle(order)
    for name in order:
        shuffle(files[name])
    items[:] = [item for name in order for item in files[name]]


def _tell(config: pytest.Config) -> None:
    """Print the seed; with -q pytest itself prints no header."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        seed = config.option.order_seed
        reporter.write_line(f"order seed: {seed} (repeat with --order-seed={seed}, or make test SEED={seed})")


def pytest_sessionstart(session: pytest.Session) -> None:
    _tell(session.config)


def pytest_terminal_summary(exitstatus: int, config: pytest.Config) -> None:
    if exitstatus:
        _tell(config)
