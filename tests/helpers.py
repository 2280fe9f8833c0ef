"""What several test files need: the paper's formulas as plain loops, all labels an example can get, comparisons."""

from __future__ import annotations

import itertools
import json
import locale
import math
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from naysayer import Population, transition


def raises(words: str, error: type[Exception] = ValueError) -> Any:
    """Expect an error whose message holds these very words."""
    return pytest.raises(error, match=re.escape(words))


class Done(NamedTuple):
    """What the command did: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, read as strictly as other programs read it: no NaN, no Infinity."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def every_command(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands of a command line by their full names, those within a command too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


# ---- comparisons; each has a test that shows it failing -----------------------------------------------------


def assert_frequencies(counts: Any, probabilities: Any, sigmas: float = 5.0) -> None:
    """Counts of one multinomial draw agree with its probabilities: chi-square, and what cannot happen did not."""
    counts, probabilities = np.ravel(counts), np.ravel(probabilities)
    possible = probabilities > 0
    assert counts[~possible].sum() == 0, "something happened that has probability 0"
    expected = counts.sum() * probabilities[possible]
    chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
    degrees = max(1, possible.sum() - 1)
    assert chi_square < degrees + sigmas * math.sqrt(2 * degrees) + sigmas**2, f"chi-square is {chi_square:.1f}"


def assert_shares(hits: Any, n: int, probabilities: Any, sigmas: float = 5.5) -> None:
    """Shares of n independent trials agree with their probabilities, each within so many standard errors."""
    hits, probabilities = np.asarray(hits, dtype=float), np.asarray(probabilities, dtype=float)
    error = np.sqrt(probabilities * (1 - probabilities) / n)
    assert (np.abs(hits / n - probabilities) <= sigmas * error + 1e-9).all()


def assert_same_runs(one: Population, other: Population, tolerance: float = 0.0, *, runs: Any = slice(None)) -> None:
    """The runs `runs` of `one` became what the runs of `other` became, in history, choice and parameters."""
    assert one.history.keys() == other.history.keys()
    for name in one.history:
        mine, theirs = one.history[name][:, runs], other.history[name]
        assert mine.shape == theirs.shape, name
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance, equal_nan=True, err_msg=name)
    np.testing.assert_array_equal(one.best_epoch[runs], other.best_epoch)
    np.testing.assert_allclose(one.best_score[runs], other.best_score, rtol=0, atol=tolerance)
    for mine, theirs in ((one.parameters, other.parameters), (one.buffers, other.buffers)):
        assert mine.keys() == theirs.keys()
        for name in mine:
            torch.testing.assert_close(mine[name][runs], theirs[name], rtol=0, atol=tolerance, equal_nan=True)


# ---- what one test could leave behind for the next ------------------------------------------------------------


# Of the environment what was there from the start: libraries add names of their own when they are first imported.
ENVIRONMENT = {"NAYSAYER_DATA", *(name for name in os.environ if not name.startswith("PYTEST_"))}


def global_state() -> dict[str, Any]:
    """Give the state of the process that tests share."""
    umask = os.umask(0)
    os.umask(umask)
    state = {
        "working directory": os.getcwd(),
        "environment": {name: os.environ.get(name) for name in ENVIRONMENT},
        "umask": umask,
        "locale": locale.setlocale(locale.LC_ALL),
        "sys.argv": list(sys.argv),
        "sys.path": list(sys.path),
        "signal handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "numpy's errors": np.geterr(),
        "numpy's printing": np.get_printoptions(),
        "torch's threads": torch.get_num_threads(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's matmul precision": torch.get_float32_matmul_precision(),
        "torch's deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch's gradients": torch.is_grad_enabled(),
        "torch's cuDNN flags": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
    }
    if "matplotlib" in sys.modules:
        import matplotlib

        settings = dict.items(matplotlib.rcParams)
        own = {k: v for k, v in settings if not k.startswith("backend")}  # those are chosen with the first figure
        state["matplotlib's settings"] = own
    return state


@contextmanager
def global_state_kept() -> Iterator[None]:
    """Expect the state of the process to be afterwards what it was before."""
    before = global_state()
    yield
    after = global_state()
    changed = [name + _where(before[name], after[name]) for name in before if before[name] != after[name]]
    assert not changed, f"a test must leave global state as it was; it changed {'; '.join(changed)}"


def _where(before: Any, after: Any) -> str:
    """Say what changed: of settings with names the names alone, since an environment may hold secrets."""
    if isinstance(before, dict):
        return f" of {', '.join(sorted(k for k in before | after if before.get(k) != after.get(k)))}"
    return f" from {before} to {after}"


# ---- memory ---------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """Note the largest memory of any tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
        return out


# ---- the paper's formulas, as plain loops ---------------------------------------------------------------------


def risks_by_hand(losses: Tensor, y_bar: list[int], prior: Any, q_inverse: Any = None) -> list[Tensor]:
    """r_k of Algorithm 1: -(K-1) π̄_k E_k[ℓ(k)] + Σ_j π̄_j E_j[ℓ(k)]; for another Q its inverse has those places."""
    n_classes = losses.shape[-1]
    risks = []
    for k in range(n_classes):
        total = losses.new_zeros(())
        for j in range(n_classes):
            members = [losses[i, k] for i, label in enumerate(y_bar) if label == j]
            if not members:
                continue
            mean = sum(members[1:], members[0]) / len(members)
            if q_inverse is not None:
                total = total + float(q_inverse[j][k]) * float(prior[j]) * mean
            else:
                total = total + float(prior[j]) * mean
                if j == k:
                    total = total - (n_classes - 1) * float(prior[k]) * mean
        risks.append(total)
    return risks


def as_sets(y_bar: Any, n_classes: int) -> np.ndarray:
    """Single labels as a ruled-out matrix."""
    return np.eye(n_classes, dtype=bool)[np.asarray(y_bar)]


def is_rows(y: Any, n_classes: int) -> np.ndarray:
    """Ordinary labels as a ruled-out matrix."""
    return ~as_sets(y, n_classes)


# ---- all labels that an example of class y can get, with their probabilities ----------------------------------

Observations = Callable[[int], Iterator[tuple[float, Any]]]


def random_transition(n_classes: int, seed: int = 0, diagonal: float = 0.0) -> np.ndarray:
    """A random, well-conditioned Q."""
    rng = np.random.default_rng(seed)
    return transition.noisy(n_classes, diagonal, transition.biased(rng.uniform(0.2, 1.0, (n_classes, n_classes))))


def single_labels(q: np.ndarray) -> Observations:
    """ "not c" with probability Q[y, c]."""
    return lambda y: ((q[y, c], c) for c in range(len(q)) if q[y, c] > 0)


def single_rows(q: np.ndarray) -> Observations:
    """The same, as rows of a ruled-out matrix."""
    return lambda y: ((p, as_sets(c, len(q))) for p, c in single_labels(q)(y))


def uniform_sets(n_classes: int, size: int) -> Observations:
    """Each set of `size` classes that misses y is as likely as any other."""

    def observe(y: int) -> Iterator[tuple[float, np.ndarray]]:
        others = [c for c in range(n_classes) if c != y]
        for members in itertools.combinations(others, size):
            row = np.zeros(n_classes, dtype=bool)
            row[list(members)] = True
            yield 1 / math.comb(n_classes - 1, size), row

    return observe


def uneven_sets(n_classes: int, size: int, seed: int = 0) -> tuple[Observations, np.ndarray]:
    """Sets that miss y, some likelier than others, and the Q they have: s Q[y, c] = P(c is in the set)."""
    rng = np.random.default_rng(seed)
    table = {}
    q = np.zeros((n_classes, n_classes))
    for y in range(n_classes):
        rows = [row for _, row in uniform_sets(n_classes, size)(y)]
        chances = rng.dirichlet(np.full(len(rows), 2.0))
        table[y] = list(zip(chances, rows))
        q[y] = sum(p * row for p, row in table[y]) / size
    return lambda y: iter(table[y]), q


def answers(asked: np.ndarray) -> Observations:
    """ "Is it c?", asked with probability asked[c]: yes names the class, no rules one out."""

    def observe(y: int) -> Iterator[tuple[float, np.ndarray]]:
        for c, p in enumerate(asked):
            yield float(p), is_rows(c, len(asked)) if c == y else as_sets(c, len(asked))

    return observe


def ordinary_labels(n_classes: int) -> Observations:
    """ "is y"."""
    return lambda y: iter([(1.0, is_rows(y, n_classes))])


def every_way(n_classes: int) -> dict[str, tuple[Observations, np.ndarray | None]]:
    """Every row of the design's table: how labels come about, and the transition matrix that is told, if any."""
    ways: dict[str, tuple[Observations, np.ndarray | None]] = {
        "uniform": (single_labels(transition.uniform(n_classes)), None),
        "uniform with its matrix": (single_labels(transition.uniform(n_classes)), transition.uniform(n_classes)),
        "ordinary": (ordinary_labels(n_classes), None),
    }
    for size in range(1, n_classes):
        ways[f"sets of {size}"] = (uniform_sets(n_classes, size), None)
    for seed in range(2):
        q = random_transition(n_classes, seed)
        ways[f"biased {seed}"] = (single_labels(q), q)
        ways[f"biased rows {seed}"] = (single_rows(q), q)
    noisy = transition.noisy(n_classes, 0.15)
    ways["noisy"] = (single_labels(noisy), noisy)
    both = random_transition(n_classes, 3, diagonal=0.1)
    ways["noisy and biased"] = (single_rows(both), both)
    for size in range(2, n_classes - 1):
        ways[f"uneven sets of {size}"] = uneven_sets(n_classes, size)
    asked = np.random.default_rng(5).dirichlet(np.full(n_classes, 3.0))
    ways["answers"] = (answers(asked), transition.biased(asked))
    ways["answers to even questions"] = (answers(np.full(n_classes, 1 / n_classes)), None)
    if n_classes > 2:
        ways["ordinary beside a matrix"] = (ordinary_labels(n_classes), random_transition(n_classes, 4))
    return ways


def of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the temporary folder that the workers of a run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


# ---- several processes --------------------------------------------------------------------------------------------


def start_python(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start Python on something, with one thread for its numbers; give its process."""
    source = str(Path(__file__).parent.parent / "src")
    place = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(what: Callable[[], Any], seconds: float = 600.0) -> None:
    """Wait until something is true; how long that takes is the machine's affair."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    assert what()


def fork(n: int, work: Callable[[int], None]) -> None:
    """Do something in n processes, numbered from 0, then exit; what this one has imported is not imported again."""
    children = []
    for rank in range(n):
        children.append(os.fork())
        if children[-1] == 0:
            code = 1
            try:
                work(rank)
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))
