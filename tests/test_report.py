"""The report: numbers beside the paper's, differences in words, text that stays text, figures that do not clash."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from helpers import raises
from naysayer.experiments import plots, report
from naysayer.experiments.report import Cell, Figure, Section, Table

NASTY = "a < b & \"c\" | *d* _e_ `f` <script>alert('g')</script>"


class Page(HTMLParser):
    """What a browser sees: tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open, self.inside = [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in {"meta", "link", "br", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag  # well nested

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """Two drawings, which have all their ids in common, one with a name that links must quote."""
    folder = tmp_path_factory.mktemp("figures")
    curves = {"free": np.linspace(0.2, 0.8, 5)[:, None], "max": np.linspace(0.2, 0.7, 5)[:, None]}
    panel = plots.Panel('id="x" & <b>', curves)
    return [plots.accuracy_curves([panel], folder / name) for name in ("one", "another one")]


@pytest.fixture
def sections(figures):
    cells = [Cell(88.0, 1.1, (88.1, 2.5)), Cell(90.04, 0.2, (93.3, 0.2)), Cell(40.0, 0.5, (36.8, 0.6))]
    table = Table(
        "Table 3",
        ["GA", "Forward", "PC"],
        {"MNIST": cells, NASTY: ["text & more", 5e-5, Cell(12.34, 0.56)]},
        "Four trials.",
    )
    return [
        Section("table3", "Selection & such", f"First {NASTY}.\n\nSecond.", [table]),
        Section("figures", "Figures", "", [Figure("One", figures[0], "A note."), Figure(NASTY, figures[1])]),
    ]


ABOUT = {"command": "naysayer reproduce", "seeds": [0, 1], "versions": {"torch": "2.9", NASTY: NASTY}}


@pytest.fixture
def page(sections, tmp_path):
    report.write_html(tmp_path / "report.html", f"Title {NASTY}", sections, ABOUT)
    return Page((tmp_path / "report.html").read_text(encoding="utf8"))


# ---- cells ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "mark"),
    [
        (Cell(88.0, 1.1, (88.1, 2.5)), ""),
        (Cell(91.0, 1.0, (89.0, 1.0)), ""),  # exactly two deviations do not differ
        (Cell(91.1, 1.0, (89.0, 1.0)), "▲ higher"),
        (Cell(86.9, 1.0, (89.0, 1.0)), "▼ lower"),
        (Cell(91.1, 1.0, (89.0, 1.2)), ""),  # the paper's deviation counts
        (Cell(91.1, 1.2, (89.0, 1.0)), ""),  # and ours
        (Cell(91.1, 0.0, (89.0, 1.4)), "▲ higher"),
        (Cell(91.1, 0.0, (89.0, 1.6)), ""),
        (Cell(91.1, 1.0), ""),
        (Cell(math.nan, math.nan, (89.0, 1.0)), ""),
        (Cell(10.0, math.nan, (89.0, 1.0)), ""),
    ],
)
def test_a_cell_differs_by_more_than_two_pooled_deviations(cell, mark):
    assert cell.mark == mark
    assert cell.differs == bool(mark)


def test_the_pooled_deviation():
    assert Cell(0.0, 3.0, (0.0, 4.0)).pooled_deviation == pytest.approx(math.sqrt(12.5))


def test_a_row_without_a_cell_for_each_column_is_refused():
    with raises("each row of 'Table 3' must have 2 cells, one for each column; got 1 in row 'MNIST'"):
        Table("Table 3", ["GA", "PC"], {"MNIST": [1.0]})


# ---- HTML -----------------------------------------------------------------------------------------------------


def test_text_stays_text(page):
    assert page.open == []
    assert not page.all("script")
    assert page.text.count(NASTY) == 7  # title twice, text, a row's name, a figure's title, a setting and its value
    assert f"versions, {NASTY}" in page.text
    assert {svg["aria-label"] for svg in page.all("svg")} == {"One", NASTY}
    assert 'id="x" & <b>' in page.text  # a panel's title is no tag and no id


def test_the_page_needs_no_other_file(page):
    assert not page.all("link")
    assert not page.all("img")
    links = [a["href"] for a in page.all("a")] + [use["xlink:href"] for use in page.all("use")]
    assert links
    assert all(link.startswith("#") for link in links)


def test_ids_are_unique_and_every_reference_has_its_target(page, figures):
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert max(ids.values()) == 1
    files = [path.with_suffix(".svg").read_text(encoding="utf8") for path in figures]
    assert set(re.findall(r'<g id="(\w+)"', files[0])) & set(re.findall(r'<g id="(\w+)"', files[1]))  # they did clash
    references = [a["href"] for a in page.all("a")] + [use["xlink:href"] for use in page.all("use")]
    clips = [f"#{a['clip-path'][5:-1]}" for _, a in page.tags if "clip-path" in a]
    assert clips
    assert {reference[1:] for reference in references + clips} <= set(ids)


def test_ours_and_the_papers_number_are_in_one_cell_and_a_difference_is_said(sections, tmp_path):
    report.write_html(tmp_path / "report.html", "Title", sections, {})
    text = (tmp_path / "report.html").read_text(encoding="utf8").replace("&nbsp;", " ")
    same, lower, higher, words, rate, ours = re.findall(r"<td[ >].*?</td>", text.split("</thead>")[1])[:6]
    assert same == "<td>88.0 ± 1.1<span>paper 88.1 ± 2.5</span></td>"
    assert "90.0 ± 0.2" in lower
    assert "paper 93.3 ± 0.2" in lower
    assert "▼ lower" in lower
    assert 'title="-3.3 from the paper; two pooled standard deviations are 0.4"' in lower
    assert "▲ higher" in higher
    assert 'title="+3.2 from the paper' in higher
    assert (words, rate, ours) == ("<td>text &amp; more</td>", "<td>5e-05</td>", "<td>12.3 ± 0.6</td>")
    assert "Means within two pooled standard deviations" in text
    assert "1 of 3 (" in text
    assert text.count(escape(report.LEGEND)) == 1


def test_what_is_missing_is_no_agreement(tmp_path):
    table = Table("t", ["a", "b"], {"r": [Cell(math.nan, math.nan, (1.0, 1.0)), Cell(1.0, math.nan, (1.0, 1.0))]})
    report.write_html(tmp_path / "report.html", "Title", [Section("s", "S", "", [table])], {})
    text = (tmp_path / "report.html").read_text(encoding="utf8").replace("&nbsp;", " ")
    assert "<td>–<span>paper 1.0 ± 1.0</span></td><td>1.0<span>" in text
    assert "Means within" not in text


def test_contents_paragraphs_and_settings(page):
    assert [a["href"] for a in page.all("a")] == ["#table3", "#figures", "#about-this-report"]
    assert "Selection & such" in page.text
    assert [p for p in page.text.splitlines() if p == "Second."]
    for words in ("naysayer reproduce", "0, 1", "versions, torch", "2.9", "Four trials.", "A note."):
        assert words in page.text


def test_a_figure_without_its_svg_is_refused_and_the_old_report_stays(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    section = Section("s", "S", "", [Figure("Figure 2", tmp_path / "figure2.png")])
    with raises("'Figure 2' must have its SVG beside the PNG; found no", FileNotFoundError):
        report.write_html(path, "Title", [section], {})
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


# ---- Markdown and CSV -----------------------------------------------------------------------------------------


def test_markdown_links_to_the_figures_where_they_are(sections, figures):
    path = figures[0].parent / "docs" / "deep" / "report.md"
    report.write_markdown(path, "Title", sections, ABOUT)
    text = path.read_text(encoding="utf8")
    links = re.findall(r"\]\((\.\./[^)]+)\)", text)
    assert links == [f"../../{name}.{kind}" for name in ("one", "another%20one") for kind in ("png", "svg")]
    for link in links:
        assert (path.parent / link.replace("%20", " ")).resolve().is_file()


def test_markdown_has_the_same_content(sections, tmp_path):
    report.write_markdown(tmp_path / "report.md", f"Title {NASTY}", sections, ABOUT)
    text = (tmp_path / "report.md").read_text(encoding="utf8")
    assert "<script>" not in text
    lines = text.splitlines()
    assert lines[0].startswith("# Title a \\< b \\&")
    assert "- [Selection \\& such](#table3)" in lines
    assert '<a id="table3"></a>' in lines
    rows = [line for line in lines if line.startswith("|")]
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [5, 5, 5, 5]  # no text adds a column
    assert rows[2] == (
        "| MNIST | 88.0 ± 1.1 (paper 88.1 ± 2.5) | 90.0 ± 0.2 (paper 93.3 ± 0.2) ▼ lower"
        " | 40.0 ± 0.5 (paper 36.8 ± 0.6) ▲ higher |"
    )
    assert rows[3].endswith("| text \\& more | 5e-05 | 12.3 ± 0.6 |")
    assert report.LEGEND in lines
    assert "- seeds: 0, 1" in lines
    assert "- versions, torch: 2.9" in lines
    assert "\n\n\n" not in text


def test_csv_keeps_every_digit(tmp_path):
    cells = [Cell(1 / 3, 0.1, (0.5, 0.01)), Cell(2 / 3, 0.2), 'a "b", c', 5e-5]
    report.write_csv(tmp_path / "table.csv", Table("t", ["w", "x", "y", "z"], {"row, one": cells}))
    with open(tmp_path / "table.csv", encoding="utf8", newline="") as file:
        first, second, third, fourth = csv.DictReader(file)
    assert [float(first[key]) for key in ("value", "deviation", "paper", "paper_deviation")] == [1 / 3, 0.1, 0.5, 0.01]
    assert (first["row"], first["column"], first["differs"]) == ("row, one", "w", "True")
    assert (float(second["value"]), second["paper"], second["differs"]) == (2 / 3, "", "")
    assert (third["value"], third["deviation"]) == ('a "b", c', "")
    assert float(fourth["value"]) == 5e-5


@pytest.mark.parametrize("write", ["write_html", "write_markdown", "write_csv"])
def test_a_place_that_cannot_be_written_is_told(write, sections, tmp_path):
    (tmp_path / "file").write_text("")
    arguments = [sections[0].items[0]] if write == "write_csv" else ["Title", sections, {}]
    with raises("cannot write", OSError):
        getattr(report, write)(Path(tmp_path, "file", "report"), *arguments)
