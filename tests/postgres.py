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


class Server:
    """A server that can be stopped, as by a power cut, and started again; `url` is that of its database."""

    def __init__(self, folder: Path, fsync: bool) -> None:
        self._fsync = "on" if fsync else "off"
        self.url = f"postgresql://naysayer@/postgres?host={quote(str(folder))}"
        self._folder, self._data = folder, str(folder / "data")
        initdb, self._pg_ctl = _program("initdb"), _program("pg_ctl")
        self._user = None
        if os.getuid() == 0:  # whom PostgreSQL refuses
            names = {entry.pw_name for entry in pwd.getpwall()}
            self._user = next((name for name in ("postgres", "nobody") if name in names), None)
            if self._user is None:
                raise NoPostgres("PostgreSQL must run as somebody other than root; there is no user postgres or nobody")
            shutil.chown(folder, self._user)
        self._run(initdb, "--username", "naysayer", "--auth", "trust", "--encoding", "UTF8")

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._folder}' -c fsync={self._fsync}"
        self._run(self._pg_ctl, "--wait", "--options", options, "start")

    def stop(self) -> None:
        """Stop it at once, whatever it is doing."""
        self._run(self._pg_ctl, "--wait", "--mode", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL's on this server's data."""
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": str(self._folder)}
        # What the server writes goes to a file: it would keep a pipe open for as long as it runs.
        with (self._folder / "output").open("ab") as output:
            done = subprocess.run(
                [program, "--pgdata", self._data, *arguments],
                user=self._user,
                cwd=self._folder,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=120,
            )
        if done.returncode:
            text = " ".join((self._folder / "output").read_text(errors="replace").split())
            raise NoPostgres(f"{program} must succeed; it failed: {text[-500:]}")


def _program(name: str) -> str:
    """Find a program of PostgreSQL's; Debian keeps them off the path."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name) or ""]
    if not found[-1]:
        raise NoPostgres(f"PostgreSQL's {name} must be installed; it is not; apt-get install postgresql")
    return found[-1]


@contextmanager
def server(fsync: bool = True) -> Iterator[Server]:
    """Start a server; stop it and remove it at the end. Without `fsync` it is quicker, and safe but for a power cut."""
    folder = Path(tempfile.mkdtemp(prefix="naysayer-pg-", dir="/tmp"))  # a socket's path may have 107 bytes at most
    try:
        server = Server(folder, fsync)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server and give the URL of its database."""
    with server() as running:
        yield running.url


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
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
