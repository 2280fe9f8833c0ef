"""Figures of a report as HTML and SVG: bars, intervals, and a map of the features."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_COLOURS = 10  # of classes; with more classes they come again
MOST_POINTS = 1000  # of a map
WIDTH, HEIGHT = 800, 500  # of a map's coordinates
COLUMNS, ROWS = 16, 10  # of a map of pictures


def percent(share: float, digits: int = 0) -> str:
    """Write a share that lies within what can be, as a percentage.

    Examples
    --------
    >>> [percent(share)[:-2] for share in (0.415, 1.07, -0.2)]  # the space before % does not break
    ['42', '100', '0']
    """
    return f"{100 * possible(share):.{digits}f}\N{NO-BREAK SPACE}%"


def possible(share: float) -> float:
    """Give the nearest share that can be: an unbiased estimate may lie beyond 0 or 1."""
    return min(1.0, max(0.0, float(share)))


def interval_track(estimate: float, low: float, high: float, tick: float, top: float = 1.0) -> str:
    """Draw an estimate as a dot on its interval, and something to compare it with as a tick, from 0 to `top`."""
    at, start, end, mark = (100 * possible(value / top) for value in (estimate, low, high, tick))
    band = f"left:{start:.1f}%;width:{end - start:.1f}%"
    return (
        f'<span class="track" aria-hidden="true"><i class="band" style="{band}"></i>'
        f'<i class="tick" style="left:{mark:.1f}%"></i><i class="dot" style="left:{at:.1f}%"></i></span>'
    )


def bar(share: float) -> str:
    """Draw a share as a bar."""
    return (
        f'<span class="track" aria-hidden="true"><i class="bar" style="width:{100 * possible(share):.1f}%"></i></span>'
    )


def swatch(k: int) -> str:
    """Draw the colour of a class."""
    return f'<i class="swatch c{k % N_COLOURS}" aria-hidden="true"></i>'


# ---- the map -----------------------------------------------------------------------------------------------------


class Map(NamedTuple):
    """Some of the examples, (n,), their places in the plane, (n, 2) from 0 to 1, and how the latter were found."""

    rows: Ints
    places: Floats
    how: str


def lay_out(X: NDArray[np.generic], seed: int = 0) -> Map | None:
    """Place examples with similar features near each other: principal components, then t-SNE; None: all are alike.

    Parameters
    ----------
    X : (N, ...) features; of more than 1,000 examples, that many are drawn.
    seed : of the draw and of the layout.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    n = len(X)
    rows = np.arange(n)
    if n > MOST_POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(n, MOST_POINTS, replace=False))
    some = X[rows].reshape(len(rows), -1).astype(np.float64)
    if len(rows) < 3 or not np.ptp(some, axis=0).any():
        return None
    with warnings.catch_warnings(), threadpool_limits(1):  # threads would wait for each other at every small step
        warnings.simplefilter("ignore")  # of rows that are equal
        places = PCA(min(50, *some.shape), random_state=seed).fit_transform(some)
        how = "principal components"
        if len(rows) >= 10 and places.shape[1] > 2:
            perplexity = min(30.0, (len(rows) - 1) / 3)
            found = TSNE(2, perplexity=perplexity, init="pca", max_iter=500, random_state=seed).fit_transform(places)
            if np.isfinite(found).all():
                places, how = found, "t-SNE of their principal components"
    if places.shape[1] == 1:
        places = np.column_stack([places, np.zeros(len(places))])
    places = places[:, :2] - places[:, :2].min(axis=0)
    places = places / np.maximum(places.max(axis=0), 1e-12)
    places[:, 1] = np.where(np.ptp(places[:, 1]) == 0, 0.5, places[:, 1])
    return Map(rows, places, how)


def points(layout: Map, classes: Ints, titles: Sequence[str], label: str) -> str:
    """Draw a map as points, coloured by class; each tells its title where there is a pointer.

    A point is a line of no length with round ends, so that it is of one size on every screen.
    """
    pad = 12
    drawn = []
    for (x, y), k, title in zip(layout.places, classes, titles, strict=True):
        at = f"M{pad + x * (WIDTH - 2 * pad):.1f} {pad + y * (HEIGHT - 2 * pad):.1f}h0"
        drawn.append(f'<path class="c{k % N_COLOURS}" d="{at}"><title>{escape(title)}</title></path>')
    return (
        f'<svg class="map points" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(drawn)}</svg>"
    )


def tiles(layout: Map) -> list[tuple[int, int, int]]:
    """Choose one example for each cell of a grid, the nearest to its middle: (place in the layout, column, row)."""
    grid = np.array([COLUMNS, ROWS])
    scaled = layout.places * grid
    cell = np.minimum(scaled.astype(int), grid - 1)
    far = ((scaled - cell - 0.5) ** 2).sum(axis=1)
    chosen: dict[tuple[int, int], int] = {}
    for i in np.argsort(far, kind="stable"):
        chosen.setdefault((int(cell[i, 0]), int(cell[i, 1])), int(i))
    return [(i, column, row) for (column, row), i in sorted(chosen.items())]


def mosaic(shown: Sequence[tuple[str | None, int, str, int, int]], label: str) -> str:
    """Draw a map of pictures: (data URI, class, title, column, row) each; for a picture that is gone, its colour."""
    side = WIDTH / COLUMNS
    gap, drawn = 3.0, []
    for uri, k, title, column, row in shown:
        x, y, size = column * side + gap, row * side + gap, side - 2 * gap
        place = f'x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}"'
        image = f'<image {place} href="{uri}" preserveAspectRatio="xMidYMid slice"/>' if uri else ""
        frame = f'<rect {place} class="c{k % N_COLOURS}{"" if uri else " gone"}"/>'
        drawn.append(f"<g><title>{escape(title)}</title>{image}{frame}</g>")
    return (
        f'<svg class="map pictures" viewBox="0 0 {WIDTH} {math.ceil(ROWS * side)}" role="img" '
        f'aria-label="{escape(label)}">{"".join(drawn)}</svg>'
    )
