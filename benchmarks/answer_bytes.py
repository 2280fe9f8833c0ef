"""Bytes of disk per stored answer, with its question and what is counted beside it, on SQLite and PostgreSQL.

    python benchmarks/answer_bytes.py

One annotator answers random questions about texts of one line. What the database grows by is divided by the number of
answers; the items were registered before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import uuid
from pathlib import Path

import sqlalchemy

from common import hardware, save
from naysayer.collect.records import Answer, Project
from naysayer.collect.store import Store
from naysayer.data.items import read_items

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
CLASSES = tuple(f"class {k}" for k in range(10))
N_ITEMS, AT_ONCE = 5000, 20


def answer(url: str, texts: Path, n: int) -> None:
    """Answer so many questions, registering the items if the store has none."""
    with Store.open(url, project=Project(CLASSES)) as store:
        if store.n_items() == 0:
            store.register(read_items(texts))
        name, link = store.add_annotator(f"person {uuid.uuid4().hex}", "annotator")
        store.admit(link)
        for _ in range(n // AT_ONCE):
            asked = store.ask(name.id, AT_ONCE)
            given = [Answer(uuid.uuid4().hex, question.id, name.id, "no") for question in asked]
            for done in [store.submit(one) for one in given]:
                done.result()


def size(url: str) -> int:
    """What a database takes on the disk."""
    if "://" not in url:
        return sum(path.stat().st_size for path in Path(url).parent.glob(f"{Path(url).name}*"))
    with sqlalchemy.create_engine(url).connect() as connection:
        return int(connection.scalar(sqlalchemy.text("SELECT pg_database_size(current_database())")) or 0)


def main() -> None:
    from postgres import fresh_database, postgres

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=5000)
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as name, postgres() as server, fresh_database(server) as database:
        texts = Path(name) / "texts.csv"
        texts.write_text("text\n" + "".join(f"text number {i}\n" for i in range(N_ITEMS)))
        for kind, url in (("sqlite", str(Path(name) / "answers.db")), ("postgresql", database)):
            answer(url, texts, AT_ONCE)
            before = size(url)
            answer(url, texts, options.answers)
            results[kind] = {"answers": options.answers, "bytes_per_answer": (size(url) - before) / options.answers}
            print(kind, results[kind], flush=True)
    save(options.out, "answer_bytes", results | {"hardware": hardware("cpu")})


if __name__ == "__main__":
    main()
