"""The asking app under load, and under kill -9: 200 simulated annotators, SQLite and PostgreSQL.

    python benchmarks/soak.py [--seconds 30] [--annotators 200] [--kills 20] [--out benchmarks/results]

Every annotator answers about once a second, as a quick person does, over HTTP, to a server in a process of its own on
this machine; both share its cores. Measured is the time from sending an answer to its acknowledgement, which comes when
the answer is safe on disk. In the second part the server is killed with SIGKILL again and again and started anew, while
the annotators resend what was not acknowledged. At the end every acknowledged answer must be in the store once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

import httpx

from common import hardware, save
from naysayer.collect.app import listen, make_app, serve
from naysayer.collect.items import read_items
from naysayer.collect.records import Project
from naysayer.collect.security import Site
from naysayer.collect.store import Store

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
N_ITEMS = 5000
CLASSES = tuple(f"class {k}" for k in range(10))


def run_server(url: str, port: int) -> None:
    """What the server's process does."""
    with Store.open(url) as store:
        site = Site("127.0.0.1", port, f"http://127.0.0.1:{port}")
        serve(make_app(store, site), listen("127.0.0.1", port, store.name), lambda: print("ready", flush=True))


class Server:
    """A server in a process of its own, which may be killed and started again."""

    def __init__(self, url: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = url
        self.start()

    def start(self) -> None:
        command = [sys.executable, __file__, "--serve", self.url, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError("the server did not start")

    def stop(self, how: int = signal.SIGINT) -> None:
        self.process.send_signal(how)
        self.process.wait(20)


class Annotator:
    """Somebody who answers about once a second, and resends an answer until it is acknowledged."""

    def __init__(self, client: httpx.AsyncClient, token: str, number: int) -> None:
        self.client, self.random = client, random.Random(number)
        self.headers = {"Authorization": f"Bearer {token}", "X-Naysayer": "1"}
        self.acknowledged: list[str] = []
        self.seconds: list[float] = []
        self.resent = 0

    async def work(self, until: float) -> None:
        await asyncio.sleep(self.random.random())
        while time.monotonic() < until:
            reply = await self._insist("GET", "/api/next?n=4")
            for question in reply["questions"]:
                await asyncio.sleep(self.random.uniform(0.5, 1.5))
                answer = {"id": uuid.uuid4().hex, "question": question["id"], "value": self._decide()}
                start = time.perf_counter()
                reply = await self._insist("POST", "/api/answers", json={"answers": [answer]})
                self.seconds.append(time.perf_counter() - start)
                assert reply["stored"] == [answer["id"]], reply
                self.acknowledged.append(answer["id"])
                if time.monotonic() > until:
                    return

    def _decide(self) -> str:
        return self.random.choices(["yes", "no", "skip"], [1, 8, 1])[0]

    async def _insist(self, method: str, path: str, **body) -> dict:
        while True:
            with contextlib.suppress(httpx.TransportError):
                reply = await self.client.request(method, path, headers=self.headers, **body)
                if reply.status_code < 500:
                    reply.raise_for_status()
                    return reply.json()
            self.resent += 1
            await asyncio.sleep(0.2)


async def load(server: Server, tokens: list[str], seconds: float, kills: int) -> list[Annotator]:
    """Let all annotators work, and kill the server so often meanwhile."""
    limits = httpx.Limits(max_connections=len(tokens), max_keepalive_connections=len(tokens))
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{server.port}", limits=limits, timeout=30, trust_env=False
    ) as client:
        people = [Annotator(client, token, i) for i, token in enumerate(tokens)]
        tasks = [asyncio.create_task(one.work(time.monotonic() + seconds)) for one in people]
        for _ in range(kills):
            await asyncio.sleep(random.uniform(0.5, 1.5) * seconds / kills / 2)
            server.stop(signal.SIGKILL)
            await asyncio.to_thread(server.start)
        await asyncio.gather(*tasks)
    return people


def check(url: str, people: list[Annotator], before: int) -> dict[str, int]:
    """Compare what was acknowledged with what the store has."""
    with Store.open(url) as store:
        stored = Counter(row["id"] for row in store.rows("answer"))
    acknowledged = {id for one in people for id in one.acknowledged}
    return {
        "acknowledged": len(acknowledged),
        "stored": sum(stored.values()) - before,
        "lost": len(acknowledged - stored.keys()),
        "doubled": sum(count > 1 for count in stored.values()),
        "resent": sum(one.resent for one in people),
    }


def measure(url: str, arguments: argparse.Namespace, folder: Path) -> dict:
    """The load, and then the load with kills, on one database."""
    texts = folder / "texts.csv"
    texts.write_text("text\n" + "".join(f"text number {i}\n" for i in range(N_ITEMS)))
    with Store.open(url, project=Project(CLASSES)) as store:
        store.register(read_items(texts))
        tokens = [store.add_annotator(f"person {i}", "annotator")[1] for i in range(arguments.annotators)]
    found = {}
    before = 0
    for part, kills in (("load", 0), ("kills", arguments.kills)):
        server = Server(url)
        seconds = max(arguments.seconds, 3.0 * kills)
        people = asyncio.run(load(server, tokens, seconds, kills))
        server.stop()
        counts = check(url, people, before)
        before += counts["stored"]
        ms = sorted(1e3 * s for one in people for s in one.seconds)
        cuts = statistics.quantiles(ms, n=100)
        found[part] = counts | {
            "kills": kills,
            "seconds": seconds,
            "answers_per_s": len(ms) / seconds,
            "ms_median": cuts[49],
            "ms_p95": cuts[94],
            "ms_p99": cuts[98],
            "ms_max": ms[-1],
        }
        print(f"  {part}: " + ", ".join(f"{k} {v:.4g}" for k, v in found[part].items()), flush=True)
        if counts["lost"] or counts["doubled"]:
            raise SystemExit(f"answers were lost or doubled: {counts}")
    return found


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        run_server(sys.argv[2], int(sys.argv[3]))
        return
    from postgres import fresh_database, postgres

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--annotators", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    about = hardware("cpu")
    print(
        f"{about['device']}: {arguments.annotators} annotators, {arguments.seconds:g} s, then {arguments.kills} kills\n"
    )
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        print("SQLite", flush=True)
        results["sqlite"] = measure(str(folder / "answers.db"), arguments, folder)
        print("PostgreSQL", flush=True)
        with postgres() as server, fresh_database(server) as url:
            results["postgresql"] = measure(url, arguments, folder)
    save(arguments.out, "soak", about | {"annotators": arguments.annotators} | results)


if __name__ == "__main__":
    main()
