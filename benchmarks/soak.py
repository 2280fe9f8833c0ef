"""The asking app under load, under kill -9 and under made-up requests: 200 simulated annotators, SQLite and PostgreSQL.

    python benchmarks/soak.py [--seconds 30] [--annotators 200] [--kills 20] [--examples 200] [--seed N]
        [--out benchmarks/results]

The server is one process, all annotators are another, and both share this machine's cores; every request goes over
HTTP to 127.0.0.1. An annotator does what the page does: asks for the progress, keeps 8 to 16 questions at hand, fetches
more beside its answering, and sends each answer by itself. Measured is the time from sending an answer to its
acknowledgement, which comes when the answer is safe on disk, and (`next_ms`) from asking for questions to having
them, while others are at hand: they are drawn in between. Parts, for each database:

load    every annotator looks at a question for 0.5 to 1.5 s, 1 s in the mean, before answering: the pace of a quick
        person who never rests. 95% of the answers must take less than 100 ms.
rush    60 clients answer without looking, each as soon as its last answer is acknowledged: the most answers a second.
kills   the load again, while the server is killed with SIGKILL and started anew, 20 times; the annotators send again
        what was not acknowledged. The times are those of the outages.
guided  the load on records whose class can be learned, of which 2 answers in 100 are wrong: a model that the server
        keeps training meanwhile, on the same cores, suggests what to ask. 95% must take less than 100 ms here, too.
guided_kills  as guided, by 50 annotators, with 20 kills that leave time for a training to be under way.
fuzz    requests made up from the app's own description, `--examples` for each operation, to the store of guided_kills,
        which has a model: no answer may be a failure, nor other than described, and no stored answer may change.

After each part the store must have exactly the acknowledged answers, each once and as it was given.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from common import hardware, save
from naysayer.collect.app import make_app
from naysayer.collect.learn import add_training, train
from naysayer.collect.people import owner_of
from naysayer.collect.records import Project
from naysayer.collect.security import Site
from naysayer.collect.serving import listen, serve
from naysayer.collect.store import Store
from naysayer.collect.trainer import Trainer
from naysayer.data.items import read_items

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
N_ITEMS, N_RECORDS = 5000, 10_000
CLASSES = tuple(f"class {k}" for k in range(10))
LOOK = (0.5, 1.5)  # seconds, drawn uniformly, between a question and its answer
RUSH, RUSH_SECONDS = 60, 10.0
PAUSE = (0.5, 2.5)  # seconds, drawn uniformly, before a kill; all are answering again by then
FEWER, LONGER = 50, (1.0, 12.0)  # of kills while a model trains: annotators, and seconds before one
WRONG = 0.02  # of the answers about records
LOW, FULL = 8, 16  # of the page: fewer questions at hand are filled up to so many
LIMIT_MS = 100.0  # that 95% of the answers must keep
PATIENCE = 300.0  # seconds after which a server that does not start, or does not answer, has failed
Judge = Callable[[dict[str, Any], random.Random], str]  # a question → what somebody says
COLUMNS = ("answers_per_s", "ms_median", "ms_p95", "ms_p99", "ms_max")
COLUMNS += ("next_ms_median", "next_ms_p95", "acknowledged", "lost", "doubled", "resent")


def run_server(url: str, port: int) -> None:
    """What the server's process does: what `naysayer ask` does."""
    with Store.open(url) as store, listen("127.0.0.1", port, store.name) as listener, contextlib.ExitStack() as opened:
        port = listener.getsockname()[1]
        site = Site("127.0.0.1", port, f"http://127.0.0.1:{port}")
        trainer = opened.enter_context(Trainer(store)) if store.project.questions == "guided" else None
        serve(make_app(store, site, trainer=trainer), listener, lambda: print(f"ready on {port}", flush=True))


class Server:
    """A server in a process of its own, which may be killed and started again."""

    def __init__(self, url: str) -> None:
        self.url, self.port = url, 0  # any port; when started again, the same
        self.start()

    def start(self) -> None:
        command = [sys.executable, __file__, "--serve", self.url, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        told, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        said = self.process.stdout.readline() if told else ""
        if not said.startswith("ready on "):
            self.stop(signal.SIGKILL)
            raise RuntimeError("the server did not start")
        self.port = int(said.split()[-1])

    def trains(self) -> bool:
        """Whether it has a process that trains, which it starts when there is something to train on."""
        if sys.platform != "linux":
            return False
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return any((task / "children").read_text().strip() for task in tasks)

    def stop(self, how: int = signal.SIGINT) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE)


class Line:
    """A connection that stays open, and is opened again where it broke; a client library would take half a core."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.head = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nX-Naysayer: 1\r\n"
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.resent = 0

    async def call(self, path: str, body: Any = None) -> Any:
        """Send a request until it is answered."""
        text = json.dumps(body).encode() if body is not None else b""
        kind = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n" if body is not None else ""
        request = f"{'GET' if body is None else 'POST'} {path}{self.head}{kind}\r\n".encode() + text
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                status, reply = await asyncio.wait_for(self._exchange(request), PATIENCE)
            except (OSError, asyncio.IncompleteReadError):
                self.close()
            else:
                if status == 200:
                    return json.loads(reply)
                if status < 500:
                    raise RuntimeError(f"{path} must succeed; the server answered {status}: {reply.decode()}")
            if time.monotonic() > give_up:
                raise RuntimeError(f"{path} must be answered within {PATIENCE:g} s")
            self.resent += 1
            await asyncio.sleep(0.2)

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        return int(head.split(b" ", 2)[1]), await reader.readexactly(length)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


def any_answer(question: dict[str, Any], rng: random.Random) -> str:
    """One yes in ten, and one "can't tell"."""
    return rng.choices(["yes", "no", "skip"], [1, 8, 1])[0]


class Annotator:
    """Somebody who does what the page does, `look` seconds a question, and answers as `judge` does."""

    def __init__(
        self, port: int, token: str, number: int, look: tuple[float, float], judge: Judge = any_answer
    ) -> None:
        self.lines = Line(port, token), Line(port, token)  # a browser, too, fetches beside its sending
        self.random, self.look, self.judge = random.Random(number), look, judge
        self.queue: deque[dict[str, Any]] = deque()
        self.acknowledged: dict[str, tuple[str, str]] = {}  # answer → its question and value
        self.seconds: list[float] = []
        self.fetching: list[float] = []  # seconds, too

    async def work(self, done: asyncio.Event) -> None:
        filling = None
        await asyncio.sleep(self.random.uniform(0, self.look[1]))
        await self.lines[0].call("/api/progress")
        while not done.is_set():
            if len(self.queue) < LOW and (filling is None or filling.done()):
                filling = asyncio.create_task(self._fill())
            if not self.queue and filling is not None:
                await filling
            if not self.queue:
                raise RuntimeError(f"there must be questions left; {N_ITEMS} items are too few")
            question = self.queue[0]
            await asyncio.sleep(self.random.uniform(*self.look))
            await self._answer(question["id"], self.judge(question, self.random))
            self.queue.popleft()
        if filling is not None:
            await filling
        for line in self.lines:
            line.close()

    async def _fill(self) -> None:
        holding = "".join(f"&holding={question['id']}" for question in self.queue)
        start = time.perf_counter()
        reply = await self.lines[0].call(f"/api/next?n={FULL - len(self.queue)}{holding}")
        self.fetching.append(time.perf_counter() - start)
        self.queue.extend(reply["questions"])

    async def _answer(self, question: str, value: str) -> None:
        id = uuid.uuid4().hex
        body = {"answers": [{"id": id, "question": question, "value": value}]}
        start = time.perf_counter()
        reply = await self.lines[1].call("/api/answers", body)
        self.seconds.append(time.perf_counter() - start)
        if reply["stored"] != [id]:
            raise RuntimeError(f"an answer must be stored; the server said {reply}")
        self.acknowledged[id] = question, value


class Truth:
    """Records of `CLASSES`, which lie apart, and somebody who tells them apart but for 2 in 100."""

    def __init__(self, path: Path) -> None:
        rng = np.random.default_rng(0)
        y = rng.integers(0, len(CLASSES), N_RECORDS)
        X = rng.normal(size=(N_RECORDS, 8)) + rng.normal(scale=3.0, size=(len(CLASSES), 8))[y]
        rows = [tuple(f"{value:.4f}" for value in row) for row in X]
        self.classes = {row: CLASSES[k] for row, k in zip(rows, y)}
        lines = [",".join(f"x{j}" for j in range(8)), *(",".join(row) for row in rows)]
        path.write_text("\n".join(lines) + "\n")

    def __call__(self, question: dict[str, Any], rng: random.Random) -> str:
        shown = tuple(value for _, value in question["item"]["fields"])
        right = self.classes[shown] == question["class"]
        return "yes" if right != (rng.random() < WRONG) else "no"


async def load(
    server: Server,
    tokens: list[str],
    look: tuple[float, float],
    seconds: float,
    kills: int = 0,
    judge: Judge = any_answer,
    pause: tuple[float, float] = PAUSE,
) -> tuple[list[Annotator], float, int]:
    """Let annotators work, and kill the server so often meanwhile.

    Gives also the seconds that it took, and how often the server that was killed had a process that trains.
    """
    people = [Annotator(server.port, token, i, look, judge) for i, token in enumerate(tokens)]
    done, start, n_training = asyncio.Event(), time.monotonic(), 0
    tasks = [asyncio.create_task(one.work(done)) for one in people]
    for _ in range(kills):
        await asyncio.sleep(random.uniform(*pause))
        n_training += server.trains()
        server.stop(signal.SIGKILL)
        await asyncio.to_thread(server.start)
    left = max(0.0, start + seconds - time.monotonic())
    await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_EXCEPTION)
    done.set()
    await asyncio.gather(*tasks)
    return people, time.monotonic() - start, n_training


def check(url: str, people: list[Annotator], before: set[str]) -> dict[str, int]:
    """Compare what was acknowledged with what the store has, row by row."""
    with Store.open(url) as store:
        rows = list(store.rows("answer"))
    acknowledged = {id: given for one in people for id, given in one.acknowledged.items()}
    stored = {row["id"]: (row["question_id"], row["value"]) for row in rows if row["id"] not in before}
    per_question = Counter(row["question_id"] for row in rows)
    before.update(stored)
    return {
        "acknowledged": len(acknowledged),
        "stored": len(stored),
        "lost": sum(stored.get(id) != given for id, given in acknowledged.items()),
        "doubled": sum(n > 1 for n in per_question.values()) + len(stored.keys() - acknowledged.keys()),
        "resent": sum(line.resent for one in people for line in one.lines),
    }


def people_of(store: Store, n: int) -> list[str]:
    """Invite annotators, and let each in; give their secrets."""
    links = [store.add_annotator(f"person {i}", "annotator")[1] for i in range(n)]
    return [str(store.admit(link)) for link in links]


def measure(url: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The parts with random questions, on one database."""
    texts = folder / "texts.csv"
    texts.write_text("text\n" + "".join(f"text number {i}\n" for i in range(N_ITEMS)))
    with Store.open(url, project=Project(CLASSES)) as store:
        store.register(read_items(texts))
        tokens = people_of(store, arguments.annotators)
    before = set[str]()
    rush = min(RUSH_SECONDS, arguments.seconds)
    return {
        "load": measure_part(url, "load", before, tokens, LOOK, arguments.seconds),
        "rush": measure_part(url, "rush", before, tokens[:RUSH], (0.0, 0.0), rush),
        "kills": measure_part(url, "kills", before, tokens, LOOK, arguments.seconds, kills=arguments.kills),
    }


def begin_guided(url: str, arguments: argparse.Namespace, folder: Path) -> tuple[Truth, list[str], set[str]]:
    """Begin to guide: the first model comes from random questions, which nobody measures."""
    truth, before = Truth(folder / "records.csv"), set[str]()
    with Store.open(url, project=Project(CLASSES)) as store:
        store.register(read_items(folder / "records.csv"))
        tokens = people_of(store, arguments.annotators)
    measure_part(url, "spread", before, tokens, LOOK, max(20.0, arguments.seconds), judge=truth)
    with Store.open(url) as store:
        store.configure(questions="guided")
        add_training(store, train(store))
        if store.guide() is None:
            raise SystemExit("a model must be good enough to guide; this one is not")
    return truth, tokens, before


def measure_guided(url: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The load with guided questions, on one database."""
    truth, tokens, before = begin_guided(url, arguments, folder)
    return {"guided": measure_guided_part(url, "guided", before, tokens, LOOK, 2 * arguments.seconds, judge=truth)}


def measure_guided_kills(url: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Kills with guided questions while a model keeps training, and made-up requests, on one database."""
    truth, tokens, before = begin_guided(url, arguments, folder)
    how: dict[str, Any] = {"kills": arguments.kills, "judge": truth, "pause": LONGER}
    killed = measure_guided_part(url, "guided_kills", before, tokens[:FEWER], LOOK, arguments.seconds, **how)
    return {"guided_kills": killed, "fuzz": measure_fuzz(url, arguments)}


def measure_fuzz(url: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Requests that are made up, by the owner; what was answered before must stay as it is."""
    from browser import served
    from fuzzing import fuzz, unlimited

    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"fuzz, --seed {seed}", flush=True)
    with Store.open(url) as store, Trainer(store) as trainer:
        rows, start = {row["id"]: row for row in store.rows("answer")}, time.monotonic()
        headers = {"x-naysayer": "1", "authorization": f"Bearer {store.admit(store.new_link(owner_of(store).id))}"}
        with served(lambda site: unlimited(make_app(store, site, trainer=trainer)), open=False) as site:
            seen = fuzz(site.origin, headers, examples=arguments.examples, seed=seed)
        seconds = time.monotonic() - start
        after = {row["id"]: row for row in store.rows("answer")}
    changed = sum(after.get(id) != row for id, row in rows.items())
    statuses = Counter[str]()
    for (_, _, status), n in seen.items():
        statuses[str(status)] += n
    found = {"seed": seed, "seconds": round(seconds, 1), "requests": sum(seen.values())}
    print(f"fuzz      {found['requests']} requests, by status {dict(statuses)}; answers changed: {changed}", flush=True)
    if changed:
        raise SystemExit(f"requests that were made up must change no answer; {changed} are not as they were")
    return found | {"operations": len({key[:2] for key in seen}), "statuses": dict(statuses), "changed": changed}


def measure_guided_part(url: str, part: str, before: set[str], *how: Any, **options: Any) -> dict[str, Any]:
    """As `measure_part`, with the number of trainings meanwhile, and the share of answers to guided questions."""
    with Store.open(url) as store:
        n_trainings = len(store.trainings())
    found = measure_part(url, part, before, *how, **options)
    with Store.open(url) as store:
        if store.guide() is None:
            raise SystemExit("what guided must still guide")
        found["trainings"] = len(store.trainings()) - n_trainings
        told = {row["id"]: row["guidance"] is not None for row in store.rows("question")}
        asked = [told[row["question_id"]] for row in list(store.rows("answer"))[-found["acknowledged"] :]]
    return found | {"guided_share": round(sum(asked) / len(asked), 3)}


def measure_part(url: str, part: str, before: set[str], *how: Any, **options: Any) -> dict[str, Any]:
    """Serve a store under a `load`, and compare it with what was acknowledged; `before` grows by the answers."""
    server = Server(url)
    try:
        people, seconds, n_training = asyncio.run(load(server, *how, **options))
    finally:
        server.stop()
    counts = check(url, people, before)
    ms = sorted(1e3 * s for one in people for s in one.seconds)
    next_ms = sorted(1e3 * s for one in people for s in one.fetching)
    cuts, next_cuts = statistics.quantiles(ms, n=100), statistics.quantiles(next_ms, n=100)
    found = {
        "annotators": len(people),
        "seconds": round(seconds, 1),
        "kills": options.get("kills", 0),
        "answers_per_s": round(len(ms) / seconds, 1),
        "ms_median": round(cuts[49], 1),
        "ms_p95": round(cuts[94], 1),
        "ms_p99": round(cuts[98], 1),
        "ms_max": round(ms[-1], 1),
        "next_ms_median": round(next_cuts[49], 1),
        "next_ms_p95": round(next_cuts[94], 1),
        "next_ms_max": round(next_ms[-1], 1),
        **counts,
    }
    if found["kills"]:
        found["kills_while_training"] = n_training
    print(row(part, [found[column] for column in COLUMNS]), flush=True)
    if counts["lost"] or counts["doubled"]:
        raise SystemExit(f"answers were lost or doubled: {counts}")
    return found


def row(name: str, values: Iterable[Any]) -> str:
    """A line of the table."""
    return f"{name:12}" + "".join(f"{value:>{len(column) + 2}}" for column, value in zip(COLUMNS, values))


def fsync_ms(folder: str) -> float:
    """How long this disk takes to make 4 KiB durable, in the median."""
    seconds = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(200):
            start = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - start)
    return round(1e3 * statistics.median(seconds), 2)


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        run_server(sys.argv[2], int(sys.argv[3]))
        return
    from postgres import fresh_database, postgres

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--annotators", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--examples", type=int, default=200, help="made-up requests for each operation, at most")
    parser.add_argument("--seed", type=int, help="of the made-up requests")
    parser.add_argument("--out", default="benchmarks/results")
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        **hardware("cpu"),
        "fsync_ms": fsync_ms(tempfile.gettempdir()),
        "pace": f"rush: no time between a question and its answer; other parts: {LOOK[0]:g} to {LOOK[1]:g} s",
        "limit": f"load, guided: ms_p95 below {LIMIT_MS:g}",
    }
    print("\n".join(f"{key}: {value}" for key, value in results.items()))
    with tempfile.TemporaryDirectory() as temporary, postgres() as server:
        folder = Path(temporary)
        for name in ("SQLite", "PostgreSQL"):
            print(f"\n{row(name, COLUMNS)}", flush=True)
            results[name.lower()] = {}
            for part in (measure, measure_guided, measure_guided_kills):
                with fresh_database(server) as url:
                    where = url if name == "PostgreSQL" else str(folder / f"{part.__name__}.db")
                    results[name.lower()] |= part(where, arguments, folder)
    save(arguments.out, "soak", results)
    for name, part in itertools.product(("sqlite", "postgresql"), ("load", "guided")):
        if results[name][part]["ms_p95"] >= LIMIT_MS:
            raise SystemExit(f"{name}, {part}: 95% of the answers must take less than {LIMIT_MS:g} ms")


if __name__ == "__main__":
    main()
