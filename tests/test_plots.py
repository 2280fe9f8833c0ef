"""The paper's figures: what is drawn is what was given, labels are apart, and files are whole, alike and readable."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import raises
from naysayer.experiments import plots
from naysayer.experiments.demo import COLOURS, METHODS

RNG = np.random.default_rng(0)


def curves(epochs=30, trials=4):
    rise = 1 - np.exp(-np.arange(1, epochs + 1) / 10)[:, None]
    return {m: 0.9 * rise - 0.02 * k + RNG.normal(0, 0.01, (epochs, trials)) for k, m in enumerate(METHODS)}


def risk_panel(title="MNIST, MLP", epochs=30):
    by_class = np.linspace(0.23, -0.2, epochs)[:, None] + RNG.normal(0, 0.01, (epochs, 10))
    return plots.RiskPanel(title, by_class.sum(1), by_class, np.linspace(0.9, 0.8, epochs))


def reliability_curve():
    accuracy = np.linspace(0, 0.95, 10)
    accuracy[0] = np.nan
    counts = np.arange(10.0) ** 3
    return plots.ReliabilityCurve(np.linspace(0, 1, 11), counts, accuracy, accuracy + 0.1, accuracy - 0.2, accuracy)


def sweep_panel(log_x=False, x=(1, 2, 5, 9)):
    found = {"Fwd (Fwd)": RNG.uniform(0.8, 0.9, (len(x), 4)), "Fwd (Free)": RNG.uniform(0.8, 0.9, (len(x), 4))}
    styles = {"Fwd (Fwd)": ("forward", False), "Fwd (Free)": ("forward", True)}
    return plots.SweepPanel("MNIST", "labels an image", np.array(x), found, styles, log_x)


def selection_rows():
    return [
        plots.SelectionRow(dataset, method, {name: RNG.uniform(0, 0.05, 4) for name in plots.CRITERIA})
        for dataset in ("MNIST", "CIFAR-10")
        for method in ("ascent", "forward")
    ]


# Every figure, with words that it must show.
EVERY = {
    "accuracy_curves": (
        [plots.Panel(f"panel {k}", curves(epochs=20 + k)) for k in range(3)],
        ["panel 2", "Pairwise", "Ascent", "epoch", "test accuracy (%)"],
    ),
    "risk_curves": (
        [risk_panel("linear"), risk_panel("MLP")],
        ["linear", "MLP", "each class", "total", "total below 0 at epoch"],
    ),
    "reliability": (
        [plots.ReliabilityPanel(name, {m: reliability_curve() for m in plots.MODELS}) for name in ("MNIST", "Fashion")],
        ["MNIST", "Fashion", "linear", "MLP", "confidence", "proportion correct"],
    ),
    "sweep": (
        [sweep_panel(), sweep_panel(log_x=True), sweep_panel(log_x=True, x=(1e-4, 1e-3, 1e-2))],
        ["Fwd (Fwd)", "Fwd (Free)", "labels an image"],
    ),
    "selection_losses": (selection_rows(), ["MNIST", "CIFAR-10", "Gradient ascent", *plots.CRITERIA]),
}
every = pytest.mark.parametrize("name", EVERY)


def draw(name, path):
    return getattr(plots, name)(EVERY[name][0], path)


def written_texts(path):
    return re.findall(r"<text[^>]*>([^<]+)</text>", path.with_suffix(".svg").read_text(encoding="utf8"))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Every figure, drawn once: the paths of the PNGs."""
    folder = tmp_path_factory.mktemp("drawn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {name: draw(name, folder / name / "new" / "figure v1.5") for name in EVERY}


@pytest.fixture
def kept(monkeypatch):
    """The figures that are drawn inside a test, to look at."""
    figures = []
    spread_labels = plots._spread_labels
    monkeypatch.setattr(plots, "_spread_labels", lambda figure: (spread_labels(figure), figures.append(figure)))
    return figures


@every
def test_a_figure_is_a_png_and_an_svg_with_its_words(name, drawn):
    from matplotlib.image import imread

    path = drawn[name]  # the dot in its name does not begin a suffix
    assert sorted(file.name for file in path.parent.iterdir()) == ["figure v1.5.png", "figure v1.5.svg"]
    assert path.name == "figure v1.5.png"
    pixels = imread(path)[..., :3]
    assert min(pixels.shape[:2]) > 300
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50  # not blank
    assert (pixels[[0, -1]] == 1).all()  # nothing runs over the edge
    assert (pixels[:, [0, -1]] == 1).all()
    texts = written_texts(path)
    for words in EVERY[name][1]:
        assert any(words in text for text in texts), words


@every
def test_the_same_input_gives_the_same_bytes(name, drawn, tmp_path):
    one, other = drawn[name], draw(name, tmp_path / "other")
    for suffix in (".png", ".svg"):
        assert one.with_suffix(suffix).read_bytes() == other.with_suffix(suffix).read_bytes()
    assert "<dc:date>" not in one.with_suffix(".svg").read_text(encoding="utf8")


def test_other_input_gives_another_figure(tmp_path):
    one = plots.accuracy_curves([plots.Panel("a", curves())], tmp_path / "one")
    other = plots.accuracy_curves([plots.Panel("a", curves())], tmp_path / "other")
    assert one.read_bytes() != other.read_bytes()


@every
def test_the_users_settings_neither_change_nor_matter(name, drawn, tmp_path):
    with matplotlib.rc_context({"font.size": 20, "lines.linewidth": 9, "axes.grid": True}):
        before = dict(matplotlib.rcParams)
        styled = draw(name, tmp_path / "styled")
        assert dict(matplotlib.rcParams) == before
    assert drawn[name].read_bytes() == styled.read_bytes()


def test_drawing_needs_no_screen_and_opens_no_window():
    program = (
        "import sys, tempfile, numpy as np; from naysayer.experiments import plots; "
        "assert 'matplotlib' not in sys.modules; "
        "plots.accuracy_curves([plots.Panel('a', {'free': np.ones((3, 2))})], tempfile.mkdtemp() + '/a'); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "False"


@every
@pytest.mark.parametrize("broken", ["png", "svg"])
def test_an_error_while_drawing_leaves_the_old_files(name, broken, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    old = {tmp_path / "figure.png": b"the old PNG", tmp_path / "figure.svg": b"the old SVG"}
    for file, content in old.items():
        file.write_bytes(content)
    save = Figure.savefig

    def fail(figure, file, **options):
        if options["format"] == broken:
            file.write_bytes(b"half a")
            raise RuntimeError("the disk is full")
        save(figure, file, **options)  # which must not take its place alone

    monkeypatch.setattr(Figure, "savefig", fail)
    with raises("the disk is full", RuntimeError):
        draw(name, tmp_path / "figure")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == old


@every
def test_an_empty_figure_is_refused(name, tmp_path):
    with raises("a figure must have something to show; got an empty list; leave the figure out"):
        getattr(plots, name)([], tmp_path / "figure")
    assert not list(tmp_path.iterdir())


# ---- labels ---------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.floats(0.01, 0.3))
def test_labels_are_moved_apart_in_order_and_no_more_than_they_must(wanted, gap):
    places = plots.spread(wanted, gap)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(places[order]) >= gap - 1e-9).all()
    length = gap * (len(wanted) - 1)
    if length <= 1:
        assert places.min() >= -1e-9
        assert places.max() <= 1 + 1e-9
    else:
        assert places.min() + places.max() == pytest.approx(1)
        assert np.ptp(places) == pytest.approx(length)
    if (np.diff(np.sort(wanted)) >= gap).all():
        np.testing.assert_allclose(places, wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [([0.5, 0.5], [0.45, 0.55]), ([1.0, 0.98], [1.0, 0.9]), ([0.0, 0.0, 0.5], [0.0, 0.1, 0.5]), ([0.3], [0.3])],
)
def test_where_labels_go(wanted, places):
    np.testing.assert_allclose(plots.spread(wanted, gap=0.1), places, atol=1e-12)


def overlapping(figure):
    """Pairs of texts of a figure whose boxes overlap by more than the thickness of a line."""
    figure.draw_without_rendering()
    hidden = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    texts = [t for t in figure.findobj(matplotlib.text.Text) if t.get_text().strip() and t.get_visible()]
    texts = [t for t in texts if t not in hidden]
    extent = matplotlib.text.Text.get_window_extent  # an annotation's own one has its arrow in it
    boxes = [(t.get_text(), extent(t).padded(-2)) for t in texts]
    return [(a, b) for k, (a, one) in enumerate(boxes) for b, other in boxes[:k] if one.overlaps(other)]


def test_the_finder_of_overlaps_finds_them():
    from matplotlib.figure import Figure

    figure = Figure()
    figure.text(0.5, 0.5, "one")
    figure.text(0.1, 0.1, "two")
    assert overlapping(figure) == []
    figure.text(0.51, 0.5, "three")
    assert overlapping(figure) == [("three", "one")]


@every
def test_no_words_overlap(name, tmp_path, kept):
    draw(name, tmp_path / "figure")
    assert overlapping(kept[0]) == []


@pytest.mark.parametrize("level", [0.0, 0.1, 0.97, 1.0])
def test_labels_of_lines_that_end_together_do_not_overlap(level, tmp_path, kept):
    together = {method: np.full((5, 2), level) for method in METHODS}
    plots.accuracy_curves([plots.Panel("MNIST, linear", together)] * 5, tmp_path / "figure")
    assert overlapping(kept[0]) == []


@pytest.mark.parametrize(("n", "font"), [*((n, "sans-serif") for n in range(1, 5)), (2, "DejaVu Serif")])
def test_names_beside_the_panels_leave_room_for_the_curves(n, font, tmp_path, kept, monkeypatch):
    monkeypatch.setitem(plots.STYLE, "font.family", font)
    every = {method: np.full((300, 2), 0.5 + 0.05 * k) for k, method in enumerate(plots.METHODS)}
    plots.accuracy_curves([plots.Panel("Kuzushiji-MNIST, MLP", every)] * n, tmp_path / "figure")
    assert overlapping(kept[0]) == []
    for axes in kept[0].axes:
        assert axes.bbox.width / kept[0].dpi > 0.9  # inches
        assert list(axes.get_xticks()) == [0, 100, 200, 300]


# ---- what is drawn --------------------------------------------------------------------------------------------


def test_curves_are_means_and_bands_are_deviations(tmp_path, kept):
    panel = plots.Panel("MNIST", curves())
    panel.curves["free"][3, 0] = np.nan
    panel.curves["max"][10:] = np.nan  # it stopped
    plots.accuracy_curves([panel], tmp_path / "figure")
    (axes,) = kept[0].axes
    for (method, curve), line, band in zip(panel.curves.items(), axes.lines, axes.collections, strict=True):
        mean = [np.mean(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in curve]
        np.testing.assert_allclose(line.get_ydata(), 100 * np.array(mean))
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 31))
        assert line.get_color() == COLOURS[method]
        edges = {tuple(np.round(point, 6)) for path in band.get_paths() for point in path.vertices}
        for side in (-1, 1):
            assert (6.0, round(100 * (curve[5].mean() + side * curve[5].std()), 6)) in edges
    names = {text.get_text(): text for text in axes.texts}
    assert set(names) == set(METHODS.values())
    assert names["Max operator"].xy == (10, pytest.approx(100 * panel.curves["max"][9].mean()))  # its last value
    assert axes.get_xlim() == (0, 30)


@pytest.mark.parametrize("n", range(1, 9))
def test_any_number_of_panels_with_common_ticks(n, tmp_path, kept):
    panels = [plots.Panel(f"panel {k}", {"free": np.full((2 + k, 1), 0.25 + 0.08 * k)}) for k in range(n)]
    plots.accuracy_curves(panels, tmp_path / "figure")
    assert [axes.get_title(loc="left") for axes in kept[0].axes] == [panel.title for panel in panels]
    for k, axes in enumerate(kept[0].axes):
        assert axes.get_xlim() == (0, 2 + k)
        assert list(axes.get_yticks()) == list(kept[0].axes[0].get_yticks())
        assert axes.get_ylim() == (20, kept[0].axes[0].get_yticks()[-1])
        below = k + 4 < n
        assert axes.get_xlabel() == ("" if below else "epoch")


@pytest.mark.parametrize(
    "given",
    [
        {"free": np.full((1, 1), 0.5)},
        {"free": np.full((3, 1), 0.5), "max": np.full((3, 4), np.nan)},
        {"free": np.array([[np.nan], [0.4], [np.nan]])},
        {"free": np.full((2, 2), np.nan)},
        {},
    ],
)
def test_little_or_nothing_to_draw(given, tmp_path, kept):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.accuracy_curves([plots.Panel("little", given)], tmp_path / "figure")
    (axes,) = kept[0].axes
    finite = {method: np.isfinite(curve).any(axis=1).sum() for method, curve in given.items()}
    assert {text.get_text() for text in axes.texts} == {METHODS[method] for method, n in finite.items() if n}
    for line, n in zip(axes.lines, finite.values(), strict=True):
        assert (line.get_marker() == "o") == (n == 1)  # one value is a dot: a line would not be seen


def test_one_epoch_of_risks(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = plots.risk_curves([risk_panel(epochs=1)], tmp_path / "figure")
    assert not any("below 0" in text for text in written_texts(path))


def test_risks_by_class_their_total_and_where_it_falls_below_zero(tmp_path, kept):
    panels = [risk_panel("linear"), risk_panel("MLP")]
    path = plots.risk_curves(panels, tmp_path / "figure")
    uppers, lowers = kept[0].axes[:2], kept[0].axes[2:]
    for panel, upper, lower in zip(panels, uppers, lowers, strict=True):
        values = [np.asarray(line.get_ydata()) for line in upper.lines if len(line.get_xdata()) == 30]
        np.testing.assert_array_equal(np.stack(values[:10], axis=1), panel.by_class)
        np.testing.assert_array_equal(values[10], panel.total)
        np.testing.assert_allclose(lower.lines[0].get_ydata(), 100 * panel.test_accuracy)
        first = 1 + np.flatnonzero(panel.total < 0)[0]
        assert list(upper.lines[-1].get_xdata()) == list(lower.lines[-1].get_xdata()) == [first, first]
        assert f"total below 0 at epoch {first}" in written_texts(path)
        assert upper.get_ylim()[0] < panel.by_class.min() < 0 < upper.get_ylim()[1]
        assert lower.get_ylim() == (80, 100)


def test_reliability_from_both_kinds_of_labels(tmp_path, kept):
    curve = reliability_curve()
    plots.reliability([plots.ReliabilityPanel("MNIST", {"linear": curve, "MLP": curve})], tmp_path / "figure")
    upper, lower = kept[0].axes
    identity, *drawn = upper.lines
    assert list(identity.get_xdata()) == list(identity.get_ydata()) == [0, 1]
    for k, name in enumerate(plots.MODELS):
        truth, estimate = drawn[2 * k : 2 * k + 2]
        np.testing.assert_array_equal(truth.get_ydata(), curve.accuracy)
        np.testing.assert_allclose(truth.get_xdata(), np.linspace(0.05, 0.95, 10))
        np.testing.assert_array_equal(estimate.get_ydata(), curve.estimate)
        assert estimate.get_markerfacecolor() == "white"
        assert truth.get_color() == estimate.get_color() == plots.MODELS[name]
        inside = np.digitize(estimate.get_xdata(), curve.edges) - 1
        np.testing.assert_array_equal(inside, np.arange(10))  # beside each other, but in their bins
        intervals = [line[:, 1] for line in upper.collections[k].get_segments()[1:]]  # the first bin is empty
        np.testing.assert_array_equal(intervals, np.stack([curve.low, curve.high], axis=1)[1:])
        heights = [bar.get_height() for bar in lower.containers[k]]
        np.testing.assert_allclose(heights, 100 * curve.counts / curve.counts.sum())
    assert len(kept[0].legends[0].get_texts()) == 3


def test_a_model_that_saw_nothing_is_an_empty_column(tmp_path):
    nothing = np.full(10, np.nan)
    curve = plots.ReliabilityCurve(np.linspace(0, 1, 11), np.zeros(10), nothing, nothing, nothing, nothing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = plots.reliability([plots.ReliabilityPanel("none", {"MLP": curve})], tmp_path / "figure")
    assert drawn.stat().st_size > 0


def test_a_sweep_has_its_settings_as_ticks_and_its_styles(tmp_path, kept):
    panels = [sweep_panel(), sweep_panel(log_x=True), sweep_panel(log_x=True, x=(1e-4, 1e-3, 1e-2))]
    plots.sweep(panels, tmp_path / "figure")
    for panel, axes in zip(panels, kept[0].axes, strict=True):
        assert axes.get_xscale() == ("log" if panel.log_x else "linear")
        for (label, curve), line in zip(panel.curves.items(), axes.lines, strict=True):
            np.testing.assert_allclose(line.get_ydata(), 100 * curve.mean(axis=1))
            assert line.get_color() == COLOURS["forward"]
            assert line.get_linestyle() == ("--" if panel.styles[label][1] else "-")
    for axes in kept[0].axes[:2]:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "5", "9"]
    assert "1e" not in "".join(label.get_text() for label in kept[0].axes[2].get_xticklabels())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_any_number_of_sweeps(n, tmp_path, kept):
    plots.sweep([sweep_panel()] * n, tmp_path / "figure")
    assert len(kept[0].axes) == n


def test_a_sweep_alone_has_room_for_long_names_and_numbers(tmp_path, kept):
    x = np.array([1000, 3000, 10_000, 30_000, 60_000])
    labels = {
        f"{title}{more}": (method, bool(more)) for more in ("", ", not told") for method, title in METHODS.items()
    }
    found = {label: np.full((5, 2), 0.9) for label in labels}
    plots.sweep([plots.SweepPanel("", "labels", x, found, labels, log_x=True)], tmp_path / "figure")
    (axes,) = kept[0].axes
    assert overlapping(kept[0]) == []
    assert axes.bbox.width > kept[0].bbox.width / 2


def test_selection_losses_are_in_points_under_their_data_set(tmp_path, kept):
    rows = selection_rows()
    rows[0].losses.pop("own loss")
    rows[1].losses["own loss"] = np.full(4, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.selection_losses(rows, tmp_path / "figure")
    (axes,) = kept[0].axes
    labels = [(label.get_text(), label.get_fontweight()) for label in axes.get_yticklabels()]
    methods = [("Gradient ascent", "normal"), ("Forward", "normal")]
    assert labels == [("MNIST", "bold"), *methods, ("CIFAR-10", "bold"), *methods]
    dots = [line for line in axes.lines if len(line.get_xdata()) == 1]
    losses = [(name, values) for row in rows for name, values in row.losses.items()]
    for dot, (name, values) in zip(dots, losses, strict=True):
        np.testing.assert_allclose(dot.get_xdata(), [100 * values.mean()])
        assert (dot.get_color(), dot.get_marker()) == plots.CRITERIA[name]
    places = dict(zip([text for text, _ in labels], axes.get_yticks()))
    assert abs(dots[-1].get_ydata()[0] - places["Forward"]) < 0.5
