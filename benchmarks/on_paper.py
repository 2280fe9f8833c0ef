"""What a billion labels and a thousand annotators cost, on paper: from the committed results of other benchmarks alone.

    python benchmarks/on_paper.py

Prints the two tables of docs/scale.md; a test compares them. Costs per row are CPU time, which other work on the
machine does not change much, from `stream.json`. An answer's share of a core is that of PostgreSQL, the server and its
clients together, when these send as fast as they can (`soak.json`, "rush"). How long people take was not measured: the
soak's load generator looks at a question for as long as `pace` says, and that is assumed here, with the time until the
answer is stored ("load"). An answer's bytes are those of `answer_bytes.json`. Sums over processes have the latency and
bandwidth that `processes.json` assumes.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LABELS, ANNOTATORS = 1e9, 1000
BATCH, PARAMETERS = 256, 21 * 128 + 129 * 10  # of the network that the command trains on 20 columns and 10 classes
PROCESSES = (1, 8, 64, 512)


def result(name: str) -> Any:
    """A committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf8"))


def costs() -> list[tuple[str, float, str, float, str, str]]:
    """Rows of (what, per label, its unit, a billion labels, their unit, the measurement)."""
    stream, soak = result("stream"), result("soak")["postgresql"]
    cores = int(re.search(r"(\d+) threads", result("soak")["device"])[1])  # type: ignore[index]
    n = stream["rows"]
    rows = []
    for what, size, name in (
        ("the table on disk", stream["bytes"], "`bytes`"),
        ("predictions on disk", stream["predict"]["bytes"], "`predict`, `bytes`"),
    ):
        rows.append((what, size / n, "bytes", LABELS * size / n / 1e9, "GB", f"stream.json, {name}"))
    for what, name in (
        ("to train on, one epoch and the passes before it", "train, one epoch"),
        ("to predict", "predict"),
        ("to evaluate", "evaluate"),
    ):
        each = stream[name]["cpu_seconds"] / n
        rows.append((what, 1e6 * each, "µs of a core", LABELS * each / 3600, "core-hours",
                     f"stream.json, `{name}`, `cpu_seconds`"))  # fmt: skip
    each = result("answer_bytes")["postgresql"]["bytes_per_answer"]
    rows.append(("an answer on disk, with its question", each, "bytes", LABELS * each / 1e9, "GB",
                 "answer_bytes.json, `postgresql`"))  # fmt: skip
    each = cores / soak["rush"]["answers_per_s"]
    rows.append(("to store an answer", 1e3 * each, "ms of a core", LABELS * each / 3600, "core-hours",
                 "soak.json, `postgresql`, `rush`"))  # fmt: skip
    each = soak["load"]["annotators"] / soak["load"]["answers_per_s"]
    rows.append(("to give an answer", each, "s of a person", LABELS * each / ANNOTATORS / 86400,
                 "days of a thousand people without a rest", "assumed: soak.json, `pace`"))  # fmt: skip
    return rows


def annotators() -> dict[str, float]:
    """What a thousand annotators ask of PostgreSQL: answers per second, and the cores that these take."""
    soak = result("soak")
    load, rush = soak["postgresql"]["load"], soak["postgresql"]["rush"]
    cores = int(re.search(r"(\d+) threads", soak["device"])[1])  # type: ignore[index]
    pace = ANNOTATORS * load["answers_per_s"] / load["annotators"]
    return {"answers_per_s": pace, "one_server": rush["answers_per_s"], "cores": cores * pace / rush["answers_per_s"]}


def epochs() -> list[dict[str, float]]:
    """An epoch of a billion labels on many processes, of a core each: hours, and what share of them sums take."""
    stream, assumed = result("stream"), result("processes")["on_paper"]
    step = BATCH * stream["train, one epoch"]["cpu_seconds"] / stream["rows"]
    rows = []
    for processes in PROCESSES:
        wait = 2 * math.ceil(math.log2(processes)) * assumed["latency_s"]
        ring = 2 * (processes - 1) / processes * 4 * PARAMETERS / assumed["bandwidth_bytes_per_s"]
        sums = 2 * wait + ring  # the risks wait, the gradients wait and move
        hours = LABELS / (processes * BATCH) * (step + sums) / 3600
        rows.append({"processes": processes, "hours": hours, "share": sums / (step + sums)})
    return rows


def shown(value: float) -> str:
    """A number with three digits, or all of those before the point."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value else 0
    return f"{value:,.{digits}f}"


def main() -> None:
    print("| what | per label | a billion labels | from |\n|---|--:|--:|---|")
    for what, each, unit, whole, of, measured in costs():
        print(f"| {what} | {shown(each)} {unit} | {shown(whole)} {of} | {measured} |")
    print("\n| processes of a core each | hours per epoch | of which in sums % |\n|--:|--:|--:|")
    for row in epochs():
        print(f"| {row['processes']} | {shown(row['hours'])} | {100 * row['share']:.1f} |")
    of = annotators()
    print(f"\n{ANNOTATORS:,} annotators give {of['answers_per_s']:.0f} answers per second; one server stored "
          f"{of['one_server']:.0f}; {of['cores']:.1f} cores would do")  # fmt: skip


if __name__ == "__main__":
    main()
