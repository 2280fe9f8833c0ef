"""What the benchmark found: what was chosen, tables and figures of it, and the page with all of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from naysayer.common.files import write_text
from naysayer.experiments.benchmark import HELD_OUT, HUMAN_LABELS, Row, Run
from naysayer.experiments.benchmark_labels import LABELLINGS
from naysayer.experiments.paper import TABLE_3
from naysayer.experiments.plots import _drawing
from naysayer.experiments.report import Cell, Figure, Section, Table, write_html, write_markdown
from naysayer.experiments.selection import cell

TITLE = "Learning from “not this”: the benchmark"
TITLES = {
    "digits": "Digits",
    "mnist": "MNIST",
    "fashion": "Fashion-MNIST",
    "kuzushiji": "Kuzushiji-MNIST",
    "cifar10": "CIFAR-10",
    "clcifar10": "CLCIFAR-10",
    "clcifar20": "CLCIFAR-20",
    "clmicroimagenet10": "CLMicroImageNet-10",
    "clmicroimagenet20": "CLMicroImageNet-20",
    "aclcifar10": "ACLCIFAR-10",
    "aclcifar20": "ACLCIFAR-20",
    "aclmicroimagenet10": "ACLMicroImageNet-10",
    "aclmicroimagenet20": "ACLMicroImageNet-20",
}
STYLES = {  # Okabe and Ito's colours; the marker tells labels apart without them
    "uniform": ("#0072B2", "o"),
    "weak": ("#009E73", "^"),
    "strong": ("#E69F00", "v"),
    "noisy": ("#D55E00", "X"),
    "several": ("#999999", "s"),
    HUMAN_LABELS: ("#0072B2", "o"),
}
TEXT = (
    "The learning rate of each seed and the epoch of each run are chosen by the complementary labels of "
    f"{100 * HELD_OUT:.0f} % of the training images alone; where the rate falls along a cosine, the last epoch is "
    "taken. The oracle chooses by the true test accuracy, which nobody knows in practice. The accuracy is estimated "
    "from complementary labels that had no part in the choice: those of the test images or, in sets that people or a "
    "model labelled, of another tenth of the training images. Estimates and bounds are means over the seeds, each of "
    "which has its own labels to estimate from. Methods that can use Q know it."
)

FEW = (  # where methods are compared on digits
    "A tenth of the digits gives 130 labels to choose by. With one uniform label per image the standard error of an "
    "accuracy of 70 % is then 14 points, and all seeds share the labels to learn from. So a few seeds cannot rank "
    "methods that differ by less."
)
CLIMBS = (
    "The 1,167 uniform labels that are left for training imply class shares of −9 to 30 %, while the true shares are "
    "near 10 %. So some class risks are below zero from the first step on. Gradient ascent climbs those instead of "
    "descending, and learns next to nothing."
)


class Chosen(NamedTuple):
    """What a method comes to on some labels, one of each per seed."""

    rows: list[Row]  # the runs whose learning rates were chosen
    oracle: list[float]  # the best accuracy of any epoch and rate

    @property
    def accuracy(self) -> Any:
        """The true test accuracies."""
        return np.array([row.test_accuracy for row in self.rows])


def choose(rows: Iterable[Row]) -> Chosen:
    """Choose a learning rate for each seed, by the complementary labels held out; a run that failed is never chosen."""
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        if row.epoch > 0:
            by_seed.setdefault(row.seed, []).append(row)
    best = [max(by_seed[seed], key=lambda row: row.valid_accuracy) for seed in sorted(by_seed)]
    return Chosen(best, [max(row.oracle_accuracy for row in by_seed[seed]) for seed in sorted(by_seed)])


def _setup(row: Row) -> Run:
    """What the rows of a section have in common: the rate, too, where no labels are held out to choose one."""
    return replace(row.run, labels="", method="", source="", seed=0, lr=0.0 if row.held_out else row.lr)


def by_setup(rows: Iterable[Row]) -> dict[Run, dict[str, dict[str, Chosen]]]:
    """What was chosen, by setup, by labels in their usual order, and by method."""
    found: dict[Run, dict[str, dict[str, list[Row]]]] = {}
    for row in rows:
        name = f"{row.method} ({row.source})" if row.source else row.method
        found.setdefault(_setup(row), {}).setdefault(row.labels, {}).setdefault(name, []).append(row)
    order = [*LABELLINGS, HUMAN_LABELS]
    places = [*TITLES]
    out: dict[Run, dict[str, dict[str, Chosen]]] = {}
    for setup in sorted(found, key=lambda s: (places.index(s.dataset), s.network, s.recipe, s.epochs)):
        out[setup] = {
            labels: {name: choose(listed) for name, listed in found[setup][labels].items()}
            for labels in sorted(found[setup], key=order.index)
        }
    return out


def title_of(setup: Run) -> str:
    """What a section is about."""
    epochs = f"{setup.epochs} epoch{'s' * (setup.epochs > 1)}{'' if setup.held_out else ', all labels'}"
    return f"{TITLES[setup.dataset]}, {setup.network}, {setup.recipe}, {epochs}"


def sections(rows: Iterable[Row], folder: Path) -> list[Section]:
    """Make a section of each data set, network and recipe, and one of all estimates; draw their figures."""
    listed = list(rows)
    found = by_setup(listed)
    out: list[Section] = [_worth(found, listed, folder)] if _learned(found) else []
    text = TEXT
    for setup, by_labels in found.items():
        name = f"{setup.dataset}-{setup.network}-{setup.recipe}-{setup.epochs}"
        name += "" if setup.held_out else f"-all-{setup.lr:g}"
        methods = ordered(by_labels)
        overview = Table(
            "True test accuracy in percent, mean and deviation over the seeds",
            [LABELLINGS[labels].title if labels in LABELLINGS else "as published" for labels in by_labels],
            {m: [cell(c[m].accuracy) if m in c else "–" for c in by_labels.values()] for m in methods},
            _how(setup, [row for row in listed if _setup(row) == setup]),
        )
        details = [_details(labels, {m: c[m] for m in methods if m in c}) for labels, c in by_labels.items()]
        figures = []
        about = [text]
        if len(methods) > 1:  # one alone is compared with nothing
            if setup.dataset == "digits":
                about += [FEW, CLIMBS if "ascent" in by_labels.get("uniform", {}) else ""]
            about.append(_coverage(by_labels))
            path = draw_methods(by_labels, methods, folder / name)
            under = "Bars: one standard deviation over the seeds."
            figures = [Figure("True test accuracy by method and labels", path, under)]
        words = "\n\n".join(part for part in about if part)
        out.append(Section(name, title_of(setup), words, [*figures, overview, *details]))
        text = ""
    chosen = [row for by_labels in found.values() for c in by_labels.values() for one in c.values() for row in one.rows]
    if chosen:
        out.append(_estimates(chosen, folder))
    return out


def _learned(found: dict[Run, dict[str, dict[str, Chosen]]]) -> dict[str, dict[str, Chosen]]:
    """What forward correction comes to by consistent views, from one uniform label per image: by data set and network.

    Of several numbers of epochs, the most.
    """
    out: dict[str, dict[str, Chosen]] = {}
    for setup, by_labels in found.items():  # which come by their epochs
        chosen = by_labels.get("uniform", {}).get("forward")
        if setup.dataset in TABLE_3 and setup.recipe == "consistency" and chosen is not None and chosen.rows:
            out.setdefault(setup.dataset, {})[setup.network] = chosen
    return out


def _worth(found: dict[Run, dict[str, dict[str, Chosen]]], rows_of_all: list[Row], folder: Path) -> Section:
    """What was known in 2019, and what is known now, from the same labels."""
    learned = _learned(found)
    networks = sorted({network for networks in learned.values() for network in networks})
    rows: dict[str, list[Cell | str | float]] = {}
    for dataset, networks_of in learned.items():
        best, deviation = max(TABLE_3[dataset])
        cells = [cell(networks_of[n].accuracy) if n in networks_of else "–" for n in networks]
        rows[TITLES[dataset]] = [f"{best:.1f} ± {deviation:.1f}", *cells]
    seeds = {len(chosen.rows) for networks_of in learned.values() for chosen in networks_of.values()}
    setups = {_setup(row) for networks_of in learned.values() for chosen in networks_of.values() for row in chosen.rows}
    rates = [{row.lr for row in rows_of_all if _setup(row) == setup} for setup in setups]
    choice = (
        "Each run has the one learning rate that its recipe sets and ends with its last epoch, so complementary labels "
        "chose nothing here."
        if all(len(tried) == 1 for tried in rates)
        else "Complementary labels chose the learning rate of each seed."
    )
    text = (
        "The table compares the best of the paper's methods in 2019 (its errata's Table 3) with forward correction and "
        f"views that must agree today, both from one “no” per image, labels of the same kind. {choice} The recipe's "
        "settings were tuned in trials on CIFAR-10 and Kuzushiji-MNIST that looked at the true test accuracy. The "
        f"numbers are mean and deviation over the seeds, of which there are {' or '.join(map(str, sorted(seeds)))}."
    )
    path = draw_worth(learned, folder / "worth")
    columns = ["the paper's best", *(f"consistency, {network}" for network in networks)]
    table = Table("True test accuracy in percent", columns, rows)
    return Section("worth", "What one “no” per image is worth", text, [Figure("Then and now", path), table])


def ordered(by_labels: dict[str, dict[str, Chosen]]) -> list[str]:
    """The methods, best first on the first labels, then those that only others have."""

    def score(labels: str, name: str) -> float:
        rows = by_labels[labels][name].accuracy
        return float(rows.mean()) if len(rows) else -1.0

    listed: list[str] = []
    for labels, methods in by_labels.items():
        listed += [m for m in sorted(methods, key=lambda m: -score(labels, m)) if m not in listed]
    return listed


def _how(setup: Run, rows: list[Row]) -> str:
    """How the runs of a section were trained, and by what command."""
    rate = "a cosine schedule" if setup.schedule == "cosine" else "a constant learning rate"

    def all_of(name: str) -> str:
        return ",".join(str(value) for value in dict.fromkeys(getattr(row, name) for row in rows))

    options = {name: all_of(name) for name in ("dataset", "labels", "network", "recipe", "method", "epochs")}
    options |= {"rates": all_of("lr"), "seeds": str(1 + max(row.seed for row in rows))}
    options |= {} if setup.held_out == HELD_OUT else {"held-out": f"{setup.held_out:g}"}
    command = shlex.join(
        ["naysayer", "benchmark", *(word for name in options for word in (f"--{name}", options[name]))]
    )
    return (
        f"{setup.optimizer}, weight decay {setup.weight_decay:g}, mini-batches of {setup.batch_size}, {rate}"
        f"{'' if setup.held_out else ', all training images learned from'}. "
        f"Made by: {command}"
    )


def _details(labels: str, methods: dict[str, Chosen]) -> Table:
    """How the choice went: beside the oracle, and estimated."""
    rows: dict[str, list[Cell | str | float]] = {}
    for name, chosen in methods.items():
        if not chosen.rows:
            rows[name] = ["–"] * 6
            continue
        low, middle, high = (
            100 * np.mean([getattr(row, key) for row in chosen.rows]) for key in ("low", "estimate", "high")
        )
        rows[name] = [
            cell(chosen.accuracy),
            cell(np.array(chosen.oracle)),
            f"{middle:.1f} ({low:.1f} to {high:.1f})",
            f"{sum(row.covered for row in chosen.rows)} of {len(chosen.rows)}",
            ", ".join(f"{row.lr:g}" for row in chosen.rows),
            ", ".join(str(row.epoch) for row in chosen.rows),
        ]
    title = LABELLINGS[labels].title if labels in LABELLINGS else "the first one that the publishers give"
    columns = ["true", "oracle", "estimated (95 %)", "interval holds it", "learning rates", "epochs"]
    return Table(f"Labels: {title}", columns, rows)


def _coverage(by_labels: dict[str, dict[str, Chosen]]) -> str:
    """How many of a section's intervals hold the truth, and how many should."""
    chosen = [row for methods in by_labels.values() for one in methods.values() for row in one.rows]
    if not chosen:
        return ""
    held = sum(row.covered for row in chosen)
    return (
        f"The 95 % intervals of {held} of the {len(chosen)} chosen runs hold the true test accuracy, where "
        f"{0.95 * len(chosen):.0f} are expected."
    )


def _estimates(chosen: list[Row], folder: Path) -> Section:
    held = sum(row.covered for row in chosen)
    text = (
        f"Each point is one chosen run. Its 95 % interval holds the true test accuracy in {held} of {len(chosen)} "
        f"({100 * held / len(chosen):.1f} %), where {0.95 * len(chosen):.0f} are expected. The labels behind the "
        "estimates were used neither to train nor to choose. Methods share them, so their errors are correlated."
    )
    path = draw_estimates(chosen, folder / "estimates")
    return Section("estimates", "Estimates beside the truth", text, [Figure("Estimate less true accuracy", path)])


# ---- figures -----------------------------------------------------------------------------------------------------


def draw_worth(learned: dict[str, dict[str, Chosen]], path: Path) -> Path:
    """Draw, for each data set, the paper's best and what each network comes to now."""
    marks = {"mlp": ("#56B4E9", "s"), "pooled": ("#0072B2", "o")}
    with _drawing(path, 5.6, 0.8 + 0.34 * len(learned)) as figure:
        axes = figure.subplots()
        for place, (dataset, networks) in enumerate(learned.items()):
            then = max(TABLE_3[dataset])[0]
            now = {network: 100 * chosen.accuracy.mean() for network, chosen in networks.items()}
            axes.plot([then, max(now.values())], [place, place], color="0.8", lw=2.5, solid_capstyle="round", zorder=1)
            drawn = {"the paper's best, 2019": (then, "#999999", "D")} | {
                f"consistent views, {network}": (value, *marks.get(network, ("#009E73", "^")))
                for network, value in now.items()
            }
            for label, (value, colour, marker) in drawn.items():
                known = axes.get_legend_handles_labels()[1]
                axes.plot(
                    value, place, marker, color=colour, ms=5.5, mew=0, label=None if label in known else label, zorder=2
                )
            axes.annotate(f"{max(now.values()):.1f}", (max(now.values()), place), (7, 0), textcoords="offset points",
                          va="center", annotation_clip=False)  # fmt: skip
            axes.annotate(f"{then:.1f}", (then, place), (-7, 0), textcoords="offset points", va="center", ha="right")
        axes.set(yticks=range(len(learned)), yticklabels=[TITLES[d] for d in learned], ylim=(len(learned) - 0.5, -0.5))
        axes.set(xlim=(0, 106), xticks=range(0, 101, 20), xlabel="true test accuracy (%)")
        axes.axvline(10, color="0.6", lw=0.6, ls=":", zorder=0)
        axes.text(10, len(learned) - 0.55, " guessing", color="0.4", ha="left", va="bottom")
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=3, columnspacing=1.2, handletextpad=0.3)
    return Path(f"{path}.png")


def draw_methods(by_labels: dict[str, dict[str, Chosen]], methods: Sequence[str], path: Path) -> Path:
    """Draw the accuracy of each method, a mark for each kind of labels."""
    with _drawing(path, 5.6, 0.9 + 0.24 * len(methods)) as figure:
        axes = figure.subplots()
        for i, (labels, found) in enumerate(by_labels.items()):
            colour, marker = STYLES[labels]
            shift = 0.12 * (i - (len(by_labels) - 1) / 2)
            drawn = [(m, 100 * found[m].accuracy) for m in methods if m in found and found[m].rows]
            axes.errorbar(
                [values.mean() for _, values in drawn],
                [methods.index(m) + shift for m, _ in drawn],
                xerr=[values.std() for _, values in drawn],
                fmt=marker, color=colour, ms=4, lw=0.8, mew=0,
                label=LABELLINGS[labels].title if labels in LABELLINGS else "labels as published",
            )  # fmt: skip
        axes.set(yticks=range(len(methods)), yticklabels=methods, ylim=(len(methods) - 0.5, -0.5))
        axes.set_xlabel("true test accuracy (%)")
        axes.grid()
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper center", ncols=min(5, len(by_labels)), columnspacing=1.2, handletextpad=0.3)
    return Path(f"{path}.png")


def draw_estimates(chosen: Sequence[Row], path: Path) -> Path:
    """Draw what the estimates miss the truth by, with their intervals; those that miss it stand out."""
    with _drawing(path, 5.6, 2.6) as figure:
        axes = figure.subplots()
        for covered, colour, label in ((True, "#0072B2", "holds the truth"), (False, "#D55E00", "misses it")):
            rows = [row for row in chosen if row.covered == covered]
            if rows:
                truth, middle, low, high = (
                    100 * np.array([getattr(row, key) for row in rows])
                    for key in ("test_accuracy", "estimate", "low", "high")
                )
                inside = np.clip(middle, low, high)  # an estimate may lie beyond 100 %, its bounds never do
                axes.errorbar(
                    truth, inside - truth, yerr=[inside - low, high - inside],
                    fmt="o" if covered else "X", color=colour, ms=2.5, mew=0, lw=0.5, alpha=0.8,
                    label=f"interval {label}",
                )  # fmt: skip
        axes.axhline(0, color="0.3", lw=0.6, zorder=0)
        axes.set(xlabel="true test accuracy (%)", ylabel="estimate less truth\n(percentage points)")
        axes.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=2)
    return Path(f"{path}.png")


# ---- the page ----------------------------------------------------------------------------------------------------


def write_page(rows: Iterable[Row], folder: Path, markdown: Path | None = None) -> list[Section]:
    """Write ``report.html``, figures and, if asked, Markdown; ``text.md`` in the folder says what stands around it."""
    listed = list(rows)
    if not listed:
        raise ValueError(f"{folder} must hold results to draw; there are none; leave out --draw")
    made = sections(listed, folder)
    about = {
        "command": shlex.join(["naysayer", "benchmark", "--draw", "--out", folder.name]),
        **{key: ", ".join(sorted({getattr(row, key) for row in listed})) for key in ("device", "torch", "naysayer")},
        "runs": len(listed),
        "seconds of training": round(sum(row.seconds for row in listed)),
        "seeds": f"0 to {max(row.seed for row in listed)}: for the start, the split and the order of the rows; "
        "the labels to learn from are the same for all",
    }
    failed = [f"{row.method} on {row.dataset}, {row.labels}: {row.failed}" for row in listed if row.failed]
    about |= {"runs that broke off": failed} if failed else {}
    write_html(folder / "report.html", TITLE, made, about)
    if markdown is not None:
        write_markdown(markdown, TITLE, made, about)
        text = folder / "text.md"
        if text.is_file():
            title, results = markdown.read_text(encoding="utf8").split("\n\n", 1)
            around = text.read_text(encoding="utf8").replace("<!-- results -->", results.strip())
            write_text(markdown, f"{title}\n\n{around}")
    return made
