"""A PostgreSQL server of one's own for tests: started as an unprivileged user, without a network, and thrown away."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote


class NoPostgres(RuntimeError):
    """There is no PostgreSQL to start here; the message says why."""


def _program(name: str) -> str:
    """Find a program of PostgreSQL's; Debian keeps them off the path."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name) or ""]
    if not found[-1]:
        raise NoPostgres(f"PostgreSQL's {name} must be installed; it is not; apt-get install postgresql")
    return found[-1]


def _run(command: list[str], user: str | None, folder: Path) -> None:
    """Run a command as somebody else; PostgreSQL refuses to be run by root."""
    # What the server writes goes to a file: it would keep a pipe open for as long as it runs.
    with (folder / "output").open("ab") as output:
        done = subprocess.run(
            command,
            user=user,
            cwd=folder,
            stdout=output,
            stderr=output,
            timeout=120,
            env={
                "PATH": os.environ.get("PATH", ""),
                "LC_ALL": "C.UTF-8",
                "HOME": str(folder),
            },
        )
    if done.returncode:
        text = (folder / "output").read_text(errors="replace")
        raise NoPostgres(f"{command[0]} must start; it failed: {' '.join(text.split())[-500:]}")


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server and give the URL of its database; stop it and remove it at the end."""
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    user = None
    if os.getuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in names), None)
        if user is None:
            raise NoPostgres("PostgreSQL must run as somebody other than root; there is no user postgres or nobody")
    folder = Path(tempfile.mkdtemp(prefix="naysayer-pg-", dir="/tmp"))  # a socket's path may have 107 bytes at most
    try:
        if user is not None:
            shutil.chown(folder, user)
        data = str(folder / "data")
        _run(
            [initdb, "--pgdata", data, "--username", "naysayer", "--auth", "trust", "--encoding", "UTF8"], user, folder
        )
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        _run([pg_ctl, "--pgdata", data, "--wait", "--options", options, "start"], user, folder)
        try:
            yield f"postgresql://naysayer@/postgres?host={quote(str(folder))}"
        finally:
            _run([pg_ctl, "--pgdata", data, "--wait", "--mode", "immediate", "stop"], user, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_database(url: str) -> Iterator[str]:
    """Give the URL of an empty database on a running server; drop it at the end."""
    import psycopg

    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield url.replace("/postgres?", f"/{name}?")
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
