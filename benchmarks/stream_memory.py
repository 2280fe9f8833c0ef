"""How much memory the commands take on a wide table that they read part by part, beside what `--memory` says.

    python benchmarks/stream_memory.py

Makes 65,536 rows of 200 numbers and a complementary label, as one CSV file and as one Parquet file of a single row
group. Each command runs in a process of its own, which tells its largest resident memory at its end (VmHWM).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet

from common import hardware, save

N_ROWS, N_COLUMNS, N_CLASSES = 65_536, 200, 4
MEMORY = (16, 64, 256)  # MB, as --memory says
SOURCE = str(Path(__file__).parent.parent / "src")
COMMAND = """
import atexit
def told():
    with open("/proc/self/status") as file:
        print(next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000)
atexit.register(told)
from naysayer.cli import main
main()
"""


def make(folder: Path) -> list[Path]:
    """Write the table twice; give both files."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, N_ROWS)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).round(6)
    X[np.arange(N_ROWS), y] += 4
    told = (y + rng.integers(1, N_CLASSES, N_ROWS)) % N_CLASSES
    columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(N_COLUMNS)}
    table = pyarrow.table(columns | {"answer": [f"!c{k}" for k in told]})
    pyarrow.csv.write_csv(table, folder / "wide.csv")
    pyarrow.parquet.write_table(table, folder / "wide.parquet", row_group_size=N_ROWS)
    return [folder / "wide.csv", folder / "wide.parquet"]


def peak(*arguments: object) -> float:
    """Run a command; give its largest resident memory in MB."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=".")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        how = ["--label", "answer", "--method", "forward", "--lr", "0.01", "--epochs", "1", "--force"]
        for path in make(folder):
            for memory in MEMORY:
                model, window = folder / "model", ["--memory", memory]
                trained = peak("train", path, *how, *window, "--out", model)
                predicted = peak("predict", model, path, *window, "--out", folder / "predicted.csv")
                row = {"file": path.suffix[1:], "memory_mb": memory, "train_mb": trained, "predict_mb": predicted}
                print(row, flush=True)
                rows.append(row)
    data = {"rows": N_ROWS, "columns": N_COLUMNS, "measured": rows}
    save(options.out, "stream_memory", data | {"hardware": hardware("cpu") | {"cores": os.cpu_count()}})


if __name__ == "__main__":
    main()
