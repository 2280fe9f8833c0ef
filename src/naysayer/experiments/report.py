"""The report: figures and tables beside the paper's printed numbers, as one HTML file, as Markdown, as CSV.

All text is plain text: it is escaped, and a blank line begins a paragraph.
"""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from naysayer.common.files import write_text
from naysayer.report.page import html_page, paragraphs

ABOUT = "Settings, versions, seeds"
LEGEND = "▲ higher, ▼ lower: more than two pooled standard deviations from the paper's number."
CSS = """
h2 { font-size: 1.3rem; margin: 2.8rem 0 .5rem; border-bottom: 1px solid var(--line) }
nav ul { padding-left: 1.2rem }
figcaption { margin-bottom: .4rem; font-weight: 600 }
.drawing { background: #fff; border-radius: .4rem; padding: .5rem; overflow-x: auto }
.drawing svg { display: block; margin: 0 auto; zoom: 1.25 }
.drawing svg * { stroke-linejoin: round; stroke-linecap: butt }
td span { display: block; color: var(--soft); font-size: .85em }
td.differs { background: var(--warn-tint) }
td.differs span { color: var(--ink) }
td.differs .mark { font-weight: 600 }
.facts th, .facts td { text-align: left; overflow-wrap: anywhere }
.facts th { font-weight: 400; color: var(--soft); min-width: 7rem }
@media (max-width: 60rem) { .drawing svg { zoom: 1 } }
@media print {
  h2, section > p { break-after: avoid }
  .drawing { padding: 0; overflow: visible }
  .drawing svg { zoom: 1; max-width: 100%; height: auto }
  td.differs { outline: 1px solid #000 } }
"""


@dataclass(frozen=True)
class Cell:
    """A mean and its deviation over the trials, beside the (mean, deviation) that the paper prints, in the same unit.

    Examples
    --------
    >>> Cell(91.7, 0.9, paper=(88.1, 2.5)).differs, Cell(95.0, 0.9, paper=(88.1, 2.5)).differs
    (False, True)
    """

    mean: float
    deviation: float
    paper: tuple[float, float] | None = None

    @property
    def pooled_deviation(self) -> float:
        r"""The root of the mean of the two variances, :math:`\sqrt{(s^2 + s_\text{paper}^2) / 2}`."""
        return math.sqrt((self.deviation**2 + self.paper[1] ** 2) / 2) if self.paper else math.nan

    @property
    def differs(self) -> bool:
        """Whether the two means are more than two pooled deviations apart."""
        return self.paper is not None and abs(self.mean - self.paper[0]) > 2 * self.pooled_deviation

    @property
    def mark(self) -> str:
        """What is written beside a mean that differs: whether it is higher or lower; otherwise nothing."""
        if self.paper is None or not self.differs:
            return ""
        return "▲ higher" if self.mean > self.paper[0] else "▼ lower"


@dataclass(frozen=True)
class Table:
    """Rows by name, with one cell for each column."""

    title: str
    columns: list[str]
    rows: dict[str, list[Cell | str | float]]
    note: str = ""

    def __post_init__(self) -> None:
        for name, cells in self.rows.items():
            if len(cells) != len(self.columns):
                raise ValueError(
                    f"each row of {self.title!r} must have {len(self.columns)} cells, one for each column; "
                    f"got {len(cells)} in row {name!r}"
                )


@dataclass(frozen=True)
class Figure:
    """A drawing of :mod:`naysayer.experiments.plots`: the path of its PNG, with the SVG beside it."""

    title: str
    path: Path
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report; `name` is where links to it point."""

    name: str
    title: str
    text: str
    items: list[Table | Figure]


def write_html(
    path: str | os.PathLike[str], title: str, sections: list[Section], about: dict[str, Any], notes: str = ""
) -> None:
    """Write the report as one HTML file that needs no other: the figures' SVGs are inside.

    Parameters
    ----------
    path : of the file.
    title : its heading.
    sections : in their order.
    about : settings, versions, seeds: what it takes to make the report again; values may be dicts and lists.
    notes : what its author has to say of it, before all else.
    """
    contents = "".join(
        f'<li><a href="#{escape(quote(section.name))}">{escape(section.title)}</a></li>' for section in sections
    )
    count, body = 0, ""
    for section in sections:
        body += f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}</h2>\n'
        body += paragraphs(section.text)
        for item in section.items:
            count += 1
            body += _html_item(item, f"item-{count}-")
        body += "</section>\n"
    facts = "".join(f"<tr><th scope=row>{escape(k)}</th><td>{escape(v)}</td></tr>\n" for k, v in _facts(about))
    write_text(
        path,
        html_page(
            title,
            CSS,
            f"""<h1>{escape(title)}</h1>
{paragraphs(_summary(sections))}
{paragraphs(notes)}
<nav aria-label="Contents"><ul>{contents}<li><a href="#about-this-report">{ABOUT}</a></li></ul></nav>
{body}
<section id="about-this-report">
<h2>{ABOUT}</h2>
<div class="scroll"><table class="facts">
{facts}</table></div>
</section>""",
        ),
    )


def write_markdown(
    path: str | os.PathLike[str], title: str, sections: list[Section], about: dict[str, Any], notes: str = ""
) -> None:
    """Write the report as Markdown that links to the figures where they are.

    Parameters
    ----------
    path, title, sections, about, notes : as for :func:`write_html`.
    """
    parts = [f"# {_markdown(title)}", _markdown(_summary(sections)), _markdown(notes.strip())]
    parts.append("\n".join(f"- [{_markdown(section.title)}](#{quote(section.name)})" for section in sections))
    for section in sections:
        parts += [f'<a id="{escape(section.name)}"></a>', f"## {_markdown(section.title)}", _markdown(section.text)]
        for item in section.items:
            parts.append(f"**{_markdown(item.title)}**")
            if isinstance(item, Table):
                rows = [[name, *map(plain, cells)] for name, cells in item.rows.items()]
                parts.append(_markdown_table(["", *item.columns], rows))
                parts.append(LEGEND if _compared(item) else "")
            else:
                links = [_link(file, path) for file in (item.path, item.path.with_suffix(".svg"))]
                parts.append(f"[![{_markdown(item.title)}]({links[0]})]({links[1]})")
            parts.append(_markdown(item.note))
    parts += [f"## {ABOUT}", "\n".join(f"- {_markdown(name)}: {_markdown(value)}" for name, value in _facts(about))]
    write_text(path, "\n\n".join(filter(None, parts)) + "\n")


def write_csv(path: str | os.PathLike[str], table: Table) -> None:
    """Write a table with one line for each cell and every digit of its numbers.

    Parameters
    ----------
    path : of the file.
    table : its columns and rows become the first two columns; what a cell does not have stays empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "column", "value", "deviation", "paper", "paper_deviation", "differs"])
    for name, cells in table.rows.items():
        for column, cell in zip(table.columns, cells):
            if isinstance(cell, Cell):
                paper = [*cell.paper, cell.differs] if cell.paper else []
                writer.writerow([name, column, cell.mean, cell.deviation, *paper, *[""] * (3 - len(paper))])
            else:
                writer.writerow([name, column, cell, "", "", "", ""])
    write_text(path, text.getvalue())


def _summary(sections: list[Section]) -> str:
    """Count, table by table, the means that agree with the paper's."""
    tables = [item for section in sections for item in section.items if isinstance(item, Table)]
    counts = [
        f"{sum(not cell.differs for cell in compared)} of {len(compared)} ({table.title})"
        for table in tables
        if (compared := _compared(table))
    ]
    return f"Means within two pooled standard deviations of the paper's: {'; '.join(counts)}." if counts else ""


def _compared(table: Table) -> list[Cell]:
    """The cells that can differ from the paper's: a missing mean or deviation is no agreement."""
    cells = [cell for row in table.rows.values() for cell in row if isinstance(cell, Cell)]
    return [cell for cell in cells if cell.paper and math.isfinite(cell.mean + cell.pooled_deviation)]


def _number(mean: float, deviation: float) -> str:
    """A mean and its deviation, as the paper prints them; what is not known is left out."""
    if math.isnan(mean):
        return "–"
    return f"{mean:.1f}" if math.isnan(deviation) else f"{mean:.1f} ± {deviation:.1f}"


def plain(cell: Cell | str | float) -> str:
    """A cell in one line."""
    if isinstance(cell, Cell):
        paper = f"(paper {_number(*cell.paper)})" if cell.paper else ""
        return " ".join(filter(None, [_number(cell.mean, cell.deviation), paper, cell.mark]))
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _facts(about: dict[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The description, flat: what is in a dict is named after it."""
    for key, value in about.items():
        if isinstance(value, dict):
            yield from _facts(value, f"{before}{key}, ")
        else:
            yield f"{before}{key}", ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _html_item(item: Table | Figure, prefix: str) -> str:
    """A table or a figure under its title, with its note."""
    inside = _html_table(item) if isinstance(item, Table) else _html_drawing(item, prefix)
    title = f"<figcaption>{escape(item.title)}</figcaption>"
    return f"<figure>\n{title}\n{inside}\n{paragraphs(item.note, note=True)}</figure>\n"


def _html_table(table: Table) -> str:
    """A table that scrolls sideways where the page is narrow."""
    head = "".join(f"<th scope=col>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th>{''.join(map(_html_cell, cells))}</tr>\n"
        for name, cells in table.rows.items()
    )
    legend = paragraphs(LEGEND, note=True) if _compared(table) else ""
    return f'<div class="scroll"><table>\n<thead><tr><td></td>{head}</tr></thead>\n{rows}</table></div>\n{legend}'


def _html_cell(cell: Cell | str | float) -> str:
    """Ours above the paper's; a difference is said in words, not by colour alone."""
    if not isinstance(cell, Cell):
        return f"<td>{escape(plain(cell))}</td>"
    ours = _number(cell.mean, cell.deviation).replace(" ", "&nbsp;")  # a narrow column breaks no number
    if cell.paper is None:
        return f"<td>{ours}</td>"
    paper = f"<span>paper {_number(*cell.paper).replace(' ', '&nbsp;')}</span>"
    if not cell.differs:
        return f"<td>{ours}{paper}</td>"
    limit = 2 * cell.pooled_deviation
    apart = f"{cell.mean - cell.paper[0]:+.1f} from the paper; two pooled standard deviations are {limit:.1f}"
    return f'<td class="differs" title="{apart}">{ours}{paper}<span class="mark">{cell.mark}</span></td>'


def _html_drawing(figure: Figure, prefix: str) -> str:
    """A figure's SVG as part of the page: no prologue, no style that would reach the page, no id that another has."""
    path = figure.path.with_suffix(".svg")
    if not path.is_file():
        raise FileNotFoundError(f"{figure.title!r} must have its SVG beside the PNG; found no {path}; draw it first")
    text = path.read_text(encoding="utf8")
    svg = re.sub(r"<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL).strip()

    def rename(tag: re.Match[str]) -> str:
        return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", tag[0])

    svg = re.sub(r"<[^>]+>", rename, svg)  # inside tags only: a label may hold any text
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(figure.title)}"', 1)
    return f'<div class="drawing">{svg}</div>'


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", text)


def _markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table of plain text: the first column's cells at the left, the others' at the right."""
    lines = [[" ".join(_markdown(cell).split()) for cell in line] for line in [head, *rows]]
    lines.insert(1, [":--", *["--:"] * (len(head) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _link(file: Path, path: str | os.PathLike[str]) -> str:
    """The way from the folder of `path` to a file, as a link."""
    return quote(Path(os.path.relpath(file, Path(path).parent)).as_posix())
