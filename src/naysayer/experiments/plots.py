"""The paper's figures: numpy arrays in, a PNG and an SVG out.

Accuracies come as fractions, 0 to 1, and are drawn in percent. Trials lie along the last axis; a NaN is a trial that
has no value there. A band or bar is one standard deviation over the trials to each side of their mean.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.isotonic import isotonic_regression

from naysayer.common.files import whole_file
from naysayer.experiments import demo

METHODS = demo.METHODS | {"printed": "PC as printed"}
COLOURS = demo.COLOURS | {"printed": "#CC79A7"}
MODELS = {"linear": "#56B4E9", "MLP": "#0072B2"}  # light and dark blue, as in the paper
CRITERIA = {  # how an epoch and a learning rate are chosen: colour and marker, so that neither has to be seen alone
    "own loss": ("#D55E00", "o"),
    "Free, cross-entropy": ("#999999", "s"),
    "Free, zero-one": ("#0072B2", "D"),
}
TEXT = 8  # points
STYLE: dict[str, Any] = {
    "font.size": TEXT,
    "axes.titlesize": TEXT + 1,
    "axes.titlelocation": "left",
    "axes.labelsize": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.frameon": False,
    "legend.fontsize": TEXT,
    "legend.handlelength": 1.2,
    "lines.linewidth": 1.3,
    "svg.fonttype": "none",  # text stays text: it can be searched and read aloud
    "svg.hashsalt": "naysayer",  # otherwise the names inside the file differ each time
}


class Panel(NamedTuple):
    """Test accuracy while learning."""

    title: str
    curves: dict[str, NDArray[Any]]  # of each method, by its key in `METHODS`: (epochs, trials)


class RiskPanel(NamedTuple):
    """The empirical risk while learning, whole and by ordinary class, and what becomes of the accuracy."""

    title: str
    total: NDArray[Any]  # (epochs,)
    by_class: NDArray[Any]  # (epochs, K)
    test_accuracy: NDArray[Any]  # (epochs,)


class ReliabilityCurve(NamedTuple):
    """How often a model is right in each bin of its confidence; NaN where a bin is empty."""

    edges: NDArray[Any]  # (B + 1,)
    counts: NDArray[Any]  # (B,)
    accuracy: NDArray[Any]  # (B,) from true labels
    estimate: NDArray[Any]  # (B,) from complementary labels alone, with its interval:
    low: NDArray[Any]
    high: NDArray[Any]


class ReliabilityPanel(NamedTuple):
    """The models of one data set, by their names in `MODELS`."""

    title: str
    models: dict[str, ReliabilityCurve]


class SweepPanel(NamedTuple):
    """Accuracy against a setting."""

    title: str
    x_label: str
    x: NDArray[Any]  # (n,)
    curves: dict[str, NDArray[Any]]  # by label: (n, trials)
    styles: dict[str, tuple[str, bool]]  # by label: the method whose colour it has, and whether it is dashed
    log_x: bool = False


class SelectionRow(NamedTuple):
    """What choosing by each criterion of `CRITERIA` costs: the best epoch's test accuracy less the chosen one's."""

    dataset: str
    method: str
    losses: dict[str, NDArray[Any]]  # by criterion: (trials,)


def accuracy_curves(panels: list[Panel], path: str | os.PathLike[str]) -> Path:
    """Draw test accuracy over the epochs, mean and deviation over the trials: the paper's Figures 2 and 3.

    Parameters
    ----------
    panels : up to four stand in a row.
    path : of the files, without the suffix.

    Returns
    -------
    The path of the PNG; the SVG is beside it.
    """
    _check(panels)
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    names = METHODS if columns < 3 else {method: method.capitalize() for method in METHODS}
    width = 3.6 if columns < 3 else 1.8  # whole names stand beside the axes: they take half of it
    with _drawing(path, width * columns, 1.95 * rows) as figure:
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for panel, axes in _fill(panels, grid):
            for method, curve in panel.curves.items():
                x = 1 + np.arange(len(curve))
                _draw_mean(axes, x, 100 * np.asarray(curve), COLOURS[method], names[method])
            axes.set_xlim(0, max(map(len, panel.curves.values()), default=1))
            axes.set_title(panel.title)
            axes.margins(y=0)
            _whole_ticks(axes.xaxis, 3)
            axes.grid(axis="y")
        _percent_ticks(figure.axes)
        _label_edges(grid, "epoch", "test accuracy (%)")
    return Path(f"{path}.png")


def risk_curves(panels: list[RiskPanel], path: str | os.PathLike[str]) -> Path:
    """Draw the risk of Free, whole and by ordinary class, above the test accuracy: the paper's Figure 1.

    Parameters
    ----------
    panels : one column each.
    path : of the files, without the suffix.

    Returns
    -------
    The path of the PNG; the SVG is beside it.
    """
    _check(panels)
    with _drawing(path, 3.4 * len(panels), 3.5) as figure:
        grid = figure.subplots(2, len(panels), sharex="col", squeeze=False, height_ratios=(1.4, 1))
        for panel, (upper, lower) in zip(panels, grid.T):
            total, by_class = np.asarray(panel.total, dtype=float), np.asarray(panel.by_class, dtype=float)
            x = 1 + np.arange(len(total))
            upper.axhline(0, color="0.3", lw=0.6)
            for risk in by_class.T:
                _draw_line(upper, x, risk, color="#56B4E9", lw=0.8, alpha=0.7)
            _label_end(upper, x, _mean(by_class)[0], "each class", "#56B4E9")
            _draw_line(upper, x, total, color="black", lw=1.6)
            _label_end(upper, x, total, "total", "black")
            _draw_line(lower, x, 100 * np.asarray(panel.test_accuracy, dtype=float), color="black")
            lower.margins(y=0)
            upper.set_title(panel.title, pad=TEXT + 7)
            negative = np.flatnonzero(total < 0)
            if negative.size:
                first = x[negative[0]]
                for axes in (upper, lower):
                    axes.axvline(first, color="0.3", lw=0.8, ls=":")
                upper.text(0, 1.03, f"total below 0 at epoch {first}", color="0.3", transform=upper.transAxes)
            lower.set_xlim(0, len(total))
            _whole_ticks(lower.xaxis, 4)
            lower.grid(axis="y")
        _percent_ticks(grid[1])
        _label_edges(grid[:1], None, "risk on the training data")
        _label_edges(grid[1:], "epoch", "test accuracy (%)")
    return Path(f"{path}.png")


def reliability(panels: list[ReliabilityPanel], path: str | os.PathLike[str]) -> Path:
    """Draw how often a model is right against how sure it is, and how often it is how sure: Figure 4 of the errata.

    Parameters
    ----------
    panels : one column each.
    path : of the files, without the suffix.

    Returns
    -------
    The path of the PNG; the SVG is beside it.
    """
    _check(panels)
    with _drawing(path, max(3.4, 2.3 * len(panels)), 3.9) as figure:
        grid = figure.subplots(2, len(panels), sharex=True, sharey="row", squeeze=False, height_ratios=(1.8, 1))
        for panel, (upper, lower) in zip(panels, grid.T):
            upper.plot([0, 1], [0, 1], color="0.6", lw=1, ls=":")
            thin = 0.9 / len(panel.models)  # of a bin, for each model
            for place, (name, curve) in enumerate(panel.models.items()):
                colour = MODELS[name]
                edges = np.asarray(curve.edges, dtype=float)
                width = np.diff(edges)
                start = edges[:-1] + (0.05 + place * thin) * width
                centre = edges[:-1] + width / 2
                beside = centre + (start + thin * width / 2 - centre) / 2  # or one model's bars hide the other's
                upper.plot(centre, curve.accuracy, "o-", color=colour, ms=3, label=name)
                upper.vlines(beside, curve.low, curve.high, color=colour, lw=0.8, alpha=0.6)
                upper.plot(beside, curve.estimate, "o", color=colour, mfc="white", ms=4, mew=0.8)
                share = np.asarray(curve.counts) / max(1, np.sum(curve.counts))
                lower.bar(start, 100 * share, thin * width, align="edge", color=colour)
            upper.set_title(panel.title)
            upper.set(xlim=(0, 1), ylim=(-0.03, 1.03), xticks=np.linspace(0, 1, 6), yticks=np.linspace(0, 1, 6))
        _label_edges(grid[:1], None, "proportion correct")
        _label_edges(grid[1:], "confidence", "examples (%)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        (open_circle,) = grid[0, 0].plot([], [], "o", color="0.4", mfc="white", ms=4, mew=0.8)
        labels.append("estimated from\ncomplementary labels")
        figure.legend([*handles, open_circle], labels, loc="outside upper left", ncols=3)
    return Path(f"{path}.png")


def sweep(panels: list[SweepPanel], path: str | os.PathLike[str]) -> Path:
    """Draw accuracy against a setting, mean and deviation over the trials.

    Parameters
    ----------
    panels : up to three stand in a row.
    path : of the files, without the suffix.

    Returns
    -------
    The path of the PNG; the SVG is beside it.
    """
    _check(panels)
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    with _drawing(path, (4.8, 6.8, 7.2)[columns - 1], 2.3 * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for panel, axes in _fill(panels, grid):
            x = np.asarray(panel.x, dtype=float)
            if panel.log_x:
                axes.set_xscale("log")
            for label, curve in panel.curves.items():
                method, dashed = panel.styles[label]
                line = {"ls": "--" if dashed else "-", "marker": "o"}
                _draw_mean(axes, x, 100 * np.asarray(curve), COLOURS[method], label, **line)
            if not panel.log_x or x.max() < 100 * x.min():  # over more decades, powers of ten say enough
                axes.set_xticks(x, [f"{value:g}" for value in x])
                axes.minorticks_off()
            axes.set_title(panel.title)
            axes.set_xlabel(panel.x_label)
            axes.grid(axis="y")
            _whole_ticks(axes.yaxis, 5)
        _label_edges(grid, None, "test accuracy (%)")
    return Path(f"{path}.png")


def selection_losses(rows: list[SelectionRow], path: str | os.PathLike[str]) -> Path:
    """Draw what each criterion of selection loses to an oracle that sees the true test labels.

    Parameters
    ----------
    rows : from top to bottom; those of one data set stand together.
    path : of the files, without the suffix.

    Returns
    -------
    The path of the PNG; the SVG is beside it.
    """
    _check(rows)
    datasets = {row.dataset for row in rows}
    places, names, seen, y = [], [], {}, 0
    with _drawing(path, 4.6, 0.7 + 0.27 * (len(rows) + len(datasets))) as figure:
        axes = figure.subplots()
        axes.axvline(0, color="0.3", lw=0.6)
        for above, row in zip([None, *rows], rows):
            if above is None or row.dataset != above.dataset:
                places.append(y)
                names.append(row.dataset)
                y += 1
            for criterion, losses in row.losses.items():
                colour, marker = CRITERIA[criterion]
                mean, deviation = _mean(100 * np.asarray(losses, dtype=float))
                at = y + 0.25 * ([*CRITERIA].index(criterion) - 1)
                axes.plot([mean - deviation, mean + deviation], [at, at], color=colour, lw=1)
                (seen[criterion],) = axes.plot(mean, at, marker, color=colour, ms=4)
            places.append(y)
            names.append(METHODS.get(row.method, row.method))
            y += 1
        axes.set_yticks(places, names)
        axes.set_ylim(y - 0.4, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        for name, label in zip(names, axes.get_yticklabels()):
            if name in datasets:
                label.set_fontweight("bold")
        axes.set_xlabel("test accuracy lost to the oracle (points)")
        shown = [criterion for criterion in CRITERIA if criterion in seen]
        figure.legend([seen[criterion] for criterion in shown], shown, loc="outside upper left", ncols=3)
    return Path(f"{path}.png")


def spread(wanted: ArrayLike, gap: float, low: float = 0.0, high: float = 1.0) -> NDArray[Any]:
    """Move places apart until neighbours are `gap` from each other, as little as can be, in the same order.

    The least squares of what is moved: an isotonic regression of the places less the gaps below them. All stay between
    `low` and `high` if they fit there; if not, they leave both sides equally.

    Examples
    --------
    >>> spread([0.5, 0.9, 0.52], gap=0.1)
    array([0.46, 0.9 , 0.56])
    """
    wanted = np.asarray(wanted, dtype=float)
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    excess = max(0.0, gap * (len(wanted) - 1) - (high - low)) / 2
    places = np.empty_like(wanted)
    top = high + excess - gap * (len(wanted) - 1)
    places[order] = isotonic_regression(wanted[order] - steps, y_min=low - excess, y_max=top) + steps
    return places


@contextmanager
def _drawing(path: str | os.PathLike[str], width: float, height: float) -> Iterator[Any]:
    """Give an empty figure, and write what was drawn on it as PNG and SVG: both, or on any error neither."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]):  # "default": whatever the user's own settings are; they come back after
        figure = Figure(figsize=(width, height), dpi=200, layout="constrained")
        yield figure
        _spread_labels(figure)
        with whole_file(f"{path}.png") as png, whole_file(f"{path}.svg") as svg:
            figure.savefig(png, format="png", metadata={"Software": None})
            figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))


def _spread_labels(figure: Any) -> None:
    """Lay the figure out with its labels, fix that layout, and move apart the labels at the ends of lines."""
    from matplotlib.text import Annotation

    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        labels = [text for text in axes.texts if isinstance(text, Annotation)]
        if labels:
            ends = axes.transAxes.inverted().transform(axes.transData.transform([label.xy for label in labels]))
            gap = 1.15 * TEXT / 72 / (axes.bbox.height / figure.dpi)
            for label, y in zip(labels, spread(ends[:, 1], gap, gap / 2, 1 - gap / 2)):
                label.set_y(y)


def _label_end(axes: Any, x: NDArray[Any], y: NDArray[Any], label: str, colour: str) -> None:
    """Write a line's name to the right of the panel, with a thin line from its last point; the height is set later."""
    from matplotlib.colors import to_rgb

    finite = np.flatnonzero(np.isfinite(y))
    if finite.size:
        axes.annotate(
            label,
            (x[finite[-1]], y[finite[-1]]),
            xytext=(1.06, 0.5),
            textcoords="axes fraction",
            va="center",
            color=tuple(0.75 * part for part in to_rgb(colour)),  # thin letters need more ink than lines
            arrowprops={"arrowstyle": "-", "lw": 0.5, "color": colour, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)},
            annotation_clip=False,
        )


def _draw_mean(axes: Any, x: NDArray[Any], values: NDArray[Any], colour: str, label: str, **line: Any) -> None:
    """Draw the mean over the last axis and a band of one deviation to both sides, named at the right end."""
    mean, deviation = _mean(values)
    axes.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.2, lw=0)
    _draw_line(axes, x, mean, color=colour, **line)
    _label_end(axes, x, mean, label, colour)


def _draw_line(axes: Any, x: NDArray[Any], y: NDArray[Any], **line: Any) -> None:
    """Draw a line, or a dot where there is a single value, which a line would not show."""
    alone = np.isfinite(y).sum() == 1
    axes.plot(x, y, **{"marker": "o" if alone else "", "ms": 3, "solid_capstyle": "round", **line})


def _mean(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and deviation over the last axis, of what is not NaN there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # where every trial is NaN so is the mean, as it should be
        return np.nanmean(values, axis=-1), np.nanstd(values, axis=-1)


def _check(panels: list[Any]) -> None:
    """Refuse an empty figure."""
    if not panels:
        raise ValueError("a figure must have something to show; got an empty list; leave the figure out")


def _fill(panels: list[Any], grid: NDArray[Any]) -> list[tuple[Any, Any]]:
    """Pair panels and axes, and take away the axes that are left."""
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    return list(zip(panels, grid.flat))


def _label_edges(grid: NDArray[Any], x_label: str | None, y_label: str) -> None:
    """Name the x axis below the lowest panel of every column, and the y axis left of every row."""
    for column in grid.T if x_label else ():
        [axes for axes in column if axes.figure is not None][-1].set_xlabel(x_label)
    for axes in grid[:, 0]:
        axes.set_ylabel(y_label)


def _whole_ticks(axis: Any, n: int) -> None:
    """Put about n ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(n, integer=True, steps=[1, 2, 5, 10]))


def _percent_ticks(panels: Iterable[Any]) -> None:
    """Let all y axes begin and end at the same multiples of 20 percent, with a tick at each."""
    lows, highs = zip(*(axes.get_ylim() for axes in panels))
    low, high = max(0, 20 * math.floor(min(lows) / 20)), min(100, 20 * math.ceil(max(highs) / 20))
    for axes in panels:
        axes.set(ylim=(low, high), yticks=range(low, high + 1, 20))
