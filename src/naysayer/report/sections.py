"""The report of a trained model: how good it is, what it predicts, where it errs, what its features look like."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import naysayer
from naysayer.common.files import write_text
from naysayer.common.words import count
from naysayer.data.items import Item
from naysayer.data.tables import DataTable
from naysayer.models.encoded import EncodedModel
from naysayer.report import contents, figures
from naysayer.report.evidence import Evidence
from naysayer.report.figures import bar, interval_track, percent, possible, swatch
from naysayer.report.page import html_page
from naysayer.report.pictures import MOST_PICTURES, thumbnail
from naysayer.report.style import CSS

MOST_CLASSES = 12  # rows of a confusion matrix; the other classes are taken together
MOST_GALLERIES = 40  # classes of which examples are shown
MOST_SHOWN = 24  # photos that are least sure, and that answers contradict; of texts and rows a half of it
MOST_COLUMNS = 6  # of a table, shown with each of its rows
MOST_READINGS = 60  # columns whose reading is told
MOST_LETTERS = 280  # of a text
UNITS = {"image": ("photo", "photos"), "text": ("text", "texts")}
BRAND = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.6" stroke-linecap="round" '
    'aria-hidden="true"><circle cx="12" cy="12" r="8.5"/><path d="M6 18 18 6"/></svg>'
)


def write(
    path: str | os.PathLike[str], trained: EncodedModel, evidence: Evidence, *, source: str, seed: int = 0
) -> None:
    """Write the report of a model as one HTML file of at most a few MB that needs no other.

    Parameters
    ----------
    path : of the file, which is whole or not there.
    trained : the model, just trained.
    evidence : what it was trained on, and what runs predicted that had not seen it.
    source : what it was trained on, for people, such as the name of a file.
    seed : of what is drawn to be shown.
    """
    page = Report(trained, evidence, source, seed).html()
    write_text(path, page.encode("utf8", "replace").decode("utf8"))  # a file's name need not be UTF-8


class Report:
    """The sections of a report."""

    def __init__(self, trained: EncodedModel, evidence: Evidence, source: str, seed: int) -> None:
        self.trained, self.evidence, self.source, self.seed = trained, evidence, source, seed
        self.model, self.encoder = trained.model, trained.encoder
        self.classes = [str(name) for name in self.model.classes_]
        self.one, self.many = UNITS.get(self.encoder.kind, ("row", "rows"))
        self.X: NDArray[Any] = self.encoder.transform(evidence.examples)
        self.p = trained.with_answers(self.model.predict_proba(self.X), evidence.examples)
        self.predicted = self.p.argmax(axis=1)
        self.count = np.bincount(self.predicted, minlength=len(self.classes))
        self.texts = self.encoder.kind == "text"
        self.photos = self.encoder.kind == "image"
        self.columns: list[str] = getattr(self.encoder, "pictures", [])  # of a table, that hold pictures
        self.pictured = self.photos or bool(self.columns)
        self._uris: dict[str, str | None] = {}

    def html(self) -> str:
        """Give the page."""
        sections = [self.accuracy(), self.shares(), self.confusion(), self.words(), self.spread()]
        sections += [self.by_class(), self.contradicted(), self.least_sure(), self.map()]
        sections += [self.members(), self.features()]
        body = f"{self.header()}<main>\n{''.join(sections)}</main>\n{self.footer()}"
        return html_page(f"{self.source}: report", CSS, body)

    # ---- how good it is ------------------------------------------------------------------------------------------

    def header(self) -> str:
        """What was learned from how much."""
        facts = {self.many: self.evidence.n_examples, "with a label": self.evidence.n_labelled}
        if "n_answers" in self.trained.about:
            facts["answers"] = self.trained.about["n_answers"]
        number = "number" if self._numbers() == 1 else "numbers"
        facts |= {"classes": len(self.classes), f"{number} per {self.one}": self._numbers()}
        tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{number:,}</dd></div>" for name, number in facts.items())
        said = self.evidence.said[:1].upper() + self.evidence.said[1:]
        return (
            f'<header><p class="brand">{BRAND}naysayer report</p>\n'
            f"<h1>What was learned from {escape(self.source)}</h1>\n<p>{escape(said)}</p>\n"
            f'<dl class="facts">{tiles}</dl></header>\n'
        )

    def accuracy(self) -> str:
        """The estimated accuracy, and plainly if it is none."""
        estimate, low, high = self.model.estimated_accuracy_
        guessing = 1.0 / len(self.classes)
        notice = ""
        if not self.model.learned_:
            notice = (
                '<p class="notice"><strong>Nothing was learned that can be distinguished from guessing</strong>, whose '
                f"accuracy is {percent(guessing)}. What follows reflects chance as much as the {self.many}. Collect "
                "more labels: <code>naysayer plan</code> says how many a margin takes.</p>"
            )
        interval = f"{100 * possible(low):.1f} and {100 * possible(high):.1f}\N{NO-BREAK SPACE}%"
        marks = "".join(f"<span>{mark}\N{NO-BREAK SPACE}%</span>" for mark in (0, 50, 100))
        return _card(
            "Estimated accuracy",
            "The accuracy of all members together, with its 95\N{NO-BREAK SPACE}% interval, from labels that had no "
            "part in what they judge.",
            f'<p class="big">{percent(estimate, 1)}</p>'
            f"<p>between {interval} with 95\N{NO-BREAK SPACE}% confidence; guessing gives {percent(guessing)}</p>"
            f'{notice}{interval_track(estimate, low, high, guessing)}<div class="axis" aria-hidden="true">{marks}</div>'
            '<ul class="key"><li><span class="track"><i class="band" style="left:0;width:100%"></i><i class="dot" '
            'style="left:50%"></i></span>estimate and interval</li><li><span class="track"><i class="tick" '
            'style="left:50%"></i></span>guessing</li></ul>',
            kind="hero",
        )

    def shares(self) -> str:
        """How common each class is, and how often it is predicted."""
        estimate, low, high = self.evidence.prior
        predicted = self.count / max(1, self.count.sum())
        top = min(1.0, np.ceil(10 * max(possible(high.max()), predicted.max(), 0.1)) / 10)
        rows = []
        for k in range(len(self.classes)):
            track = interval_track(estimate[k], low[k], high[k], predicted[k], top)
            rows.append(
                f"<tr><th scope=row>{self._named(k)}{track}</th><td>{percent(estimate[k], 1)}"
                f"<small>{100 * possible(low[k]):.1f} to {100 * possible(high[k]):.1f}</small></td>"
                f"<td>{percent(predicted[k], 1)}<small>{self.count[k]:,}</small></td></tr>\n"
            )
        heads = ["class", "estimated share", "predicted share"]
        key = (
            '<ul class="key"><li><span class="track"><i class="band" style="left:0;width:100%"></i><i class="dot" '
            'style="left:50%"></i></span>estimated</li><li><span class="track"><i class="tick" style="left:50%"></i>'
            f"</span>predicted</li><li>bars end at {percent(top)}</li></ul>"
        )
        return _card(
            "How common each class is",
            "Estimated from the labels, with 95\N{NO-BREAK SPACE}% intervals, beside what the model predicts.",
            _table(heads, rows, "names") + key,
            kind=self._half(),
        )

    def members(self) -> str:
        """What predicts together, and with which weights."""
        rows = []
        trials = sorted(self.model.trials_, key=lambda trial: -trial["weight"])
        for trial in trials:
            name = trial["method"] if trial["network"] in (None, "mlp") else f"{trial['method']}, {trial['network']}"
            rate = "" if trial["lr"] is None else f"<small>learning rate {trial['lr']:g}</small>"
            own = trial["estimated_accuracy"]
            accuracy = ("failed" if rate else "no time") if own is None else percent(own, 1)
            rows.append(
                f"<tr><th scope=row>{escape(name)}{rate}{bar(trial['weight'])}</th><td>{accuracy}</td>"
                f"<td>{percent(trial['weight'])}</td></tr>\n"
            )
        return _card(
            "What predicts",
            "Members predict together, weighted by the likelihood that they give to labels they did not see. The "
            "accuracies of single members have no intervals: comparing them mostly compares noise.",
            _table(["member", "estimated accuracy", "weight"], rows, "names"),
            kind="half",
        )

    def confusion(self) -> str:
        """Which class is mistaken for which."""
        share, error, count = self.evidence.confusion
        order = np.argsort(-(count + self.count), kind="stable")
        kept = np.sort(order[: MOST_CLASSES - 1] if len(order) > MOST_CLASSES else order)
        rest = np.setdiff1d(order, kept)
        names = [self.classes[k] for k in kept]
        if len(rest):
            names.append(f"{len(rest)} others")
        rows = []
        for j in kept:
            shares, errors = share[j, kept], error[j, kept]
            if len(rest):
                shares = np.append(shares, share[j, rest].sum())
                errors = np.append(errors, np.nan)
            cells = "".join(
                _cell(value, wrong, right=place < len(kept) and kept[place] == j) if count[j] else "<td>–</td>"
                for place, (value, wrong) in enumerate(zip(shares, errors))
            )
            rows.append(
                f"<tr><th scope=row>{escape(self.classes[j])}<small>{count[j]:,} predicted</small></th>{cells}</tr>\n"
            )
        head = "".join(f"<th scope=col>{escape(_cut(name, 40))}</th>" for name in names)
        table = (
            '<div class="scroll" tabindex="0" role="region" aria-label="Confusion matrix"><table class="matrix">\n'
            f'<thead><tr><td></td><th scope=colgroup class="of" colspan="{len(names)}">truly is</th></tr>\n'
            f'<tr><th scope=col class="of">predicted to be</th>{head}</tr></thead>\n'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )
        return _card(
            "Which classes are confused",
            f"Each row is about the {self.many} predicted to be one class, by runs that had not seen their labels: the "
            "percentage that truly is of each class, with its standard error.",
            f'{table}<p class="quiet">These are unbiased estimates from labels that say what a {self.one} is not. '
            "Values below 0 or above 100 are shown as 0 or 100, so a row need not add up to 100.</p>",
            kind=self._half(),
        )

    # ---- what is in the classes ----------------------------------------------------------------------------------

    def words(self) -> str:
        """Words that tell the classes of texts apart."""
        if not self.texts:
            return ""
        found = contents.characteristic_words(self._text_of(range(self.evidence.n_examples)), self.predicted, self.seed)
        parts = []
        for k in self._largest_classes():
            if words := found.get(int(k)):
                inside = "".join(f"<li>{escape(word)}</li>" for word in words)
                parts.append(
                    f'<h3>{swatch(k)}{escape(self.classes[k])}</h3>\n<ul class="words c{k % figures.N_COLOURS}">'
                    f"{inside}</ul>\n"
                )
        if not parts:
            return ""
        return _card(
            "Characteristic words", "Found in texts of a predicted class far more often than in others.", "".join(parts)
        )

    def spread(self) -> str:
        """Columns in which the classes differ."""
        names = contents.plain_features(self.encoder)
        if not names:
            return ""
        places, rows = list(names), []
        for one in contents.class_differences(self.X[:, places], self.predicted, len(self.classes)):
            ends = "".join(
                f"<td>{self._named(k)}<small>{f'{value:+.1f}'.replace('-', '−')}</small></td>"
                for k, value in (one.highest, one.lowest)
            )
            rows.append(f"<tr><th scope=row>{escape(names[places[one.feature]])}{bar(one.explained)}</th>{ends}</tr>\n")
        if not rows:
            return ""
        return _card(
            "Where the classes differ",
            "How far the mean of a predicted class lies from the mean of all, in standard deviations. The bar is the "
            "share of the variance that lies between classes. A column that differs need not be the cause.",
            _table(["feature", "highest in", "lowest in"], rows, "names left"),
        )

    def by_class(self) -> str:
        """Some examples of each predicted class."""
        if not (self.pictured or self.texts):
            return ""
        rng = np.random.default_rng(self.seed)
        shown = self._largest_classes()
        each = pictures_per_class(len(shown)) if self.pictured else max(2, min(4, 60 // len(shown)))
        parts = []
        for k in shown:
            mine = np.flatnonzero(self.predicted == k)
            some = mine if len(mine) <= each else rng.choice(mine, each, replace=False)
            some = some[np.argsort(-self.p[some, k], kind="stable")]
            captions = [percent(self.p[i, k]) for i in some]
            inside = self._gallery(some, [[caption] for caption in captions])
            total = f"{self.count[k]:,} {self.one if self.count[k] == 1 else self.many}"
            parts.append(
                f'<h3>{swatch(k)}{escape(self.classes[k])} <span class="note">{total}</span></h3>\n{inside}'
                if len(some)
                else f'<h3>{swatch(k)}{escape(self.classes[k])} <span class="note">never predicted</span></h3>\n'
            )
        left = len(self.classes) - len(shown)
        more = f" {count(left, 'rarer class is', 'rarer classes are')} not shown." if left else ""
        return _card(
            f"{self.many.capitalize()} by predicted class",
            f"Drawn at random, the surest first, with the probability of the class.{more}",
            "".join(parts),
        )

    def contradicted(self) -> str:
        """Predictions that the label rules out."""
        places = self.evidence.contradicted()
        rows = self.evidence.rows[places]
        title = "Contradicted by their labels"
        if not len(rows):
            return _card(title, f"No label of a {self.one} rules out what the model predicts for it.", "")
        shown = self._shown()
        captions = [
            [
                f"{self._short(self.evidence.predicted[place])} {percent(self.evidence.sure[place])}",
                f"{self.evidence.label(row, [self._short(k) for k in range(len(self.classes))])}",
            ]
            for place, row in zip(places[:shown], rows[:shown])
        ]
        rest = f" The {shown} surest of {len(rows):,}." if len(rows) > shown else ""
        lead = (
            "The label rules out what was predicted by runs that had not seen it. One of the two is wrong: look at "
            f"these first.{rest}"
        )
        return _card(title, lead, self._listed(rows[:shown], captions, ["predicted", "label"]))

    def least_sure(self) -> str:
        """The examples at which the model hesitates most."""
        rows = np.argsort(self.p.max(axis=1), kind="stable")[: self._shown()]
        captions = []
        for i in rows:
            first, second = np.argsort(-self.p[i], kind="stable")[:2]
            captions.append([f"{self._short(k)} {percent(self.p[i, k])}" for k in (first, second)])
        lead = f"The {len(rows)} {self.many} whose likeliest class is least likely. Labels are worth most here."
        return _card("Least sure", lead, self._listed(rows, captions, ["predicted", "or else"]))

    def map(self) -> str:
        """The features in two dimensions."""
        layout = figures.lay_out(self.X, self.seed) if self._numbers() > 1 else None
        if layout is None:
            return ""
        classes = self.predicted[layout.rows]
        titles = [f"{self._name(i)}: {self.classes[self.predicted[i]]} {percent(self.p[i].max())}" for i in layout.rows]
        some = f"{len(layout.rows):,} of {self.evidence.n_examples:,} {self.many}, drawn at random"
        whose = f"all {self.many}" if len(layout.rows) == self.evidence.n_examples else some
        label = f"Map of {whose}, coloured by predicted class"
        if self.pictured:
            chosen = figures.tiles(layout)
            shown = [(self._uri(int(layout.rows[i])), int(classes[i]), titles[i], x, y) for i, x, y in chosen]
            drawing = (
                f'<div class="scroll" tabindex="0" role="region" aria-label="Map">{figures.mosaic(shown, label)}</div>'
            )
            what = f"{len(shown)} {self.many}, each in the place of those like it; frames have the colour of the class."
        else:
            if self.texts:
                cut = self._text_of(layout.rows)
                titles = [f"{title}\n{_cut(text, 120)}" for title, text in zip(titles, cut)]
            drawing = figures.points(layout, classes, titles, label)
            what = f"Each point is a {self.one}, in the colour of its predicted class."
        keyed = "".join(f"<li>{swatch(k)}{escape(self.classes[k])}</li>" for k in np.unique(classes)[:MOST_GALLERIES])
        return _card(
            "Map of the features",
            f"{what} Near means alike ({layout.how}; {whose}); directions and sizes mean nothing.",
            f'<ul class="key">{keyed}</ul>{drawing}',
        )

    def features(self) -> str:
        """What the model sees of an example."""
        readings = list(self._readings().items())
        notes = [] if readings else self.encoder.notes  # of columns they say the same
        warned = [f"{text}." for text in getattr(self.encoder, "warnings", [])]
        sentences = [f"{line[:1].upper()}{line[1:]}." for line in notes]
        lines = "".join(f"<p>{escape(line)}</p>" for line in [*sentences, *warned])
        rows = [
            f"<tr><th scope=row>{escape(name)}</th><td>{escape(said)}</td></tr>\n"
            for name, said in readings[:MOST_READINGS]
        ]
        if len(readings) > MOST_READINGS:
            left = count(len(readings) - MOST_READINGS, "more column")
            rows.append(f"<tr><th scope=row>…</th><td>{left}</td></tr>\n")
        table = _table(["column", "read as"], rows, "left") if rows else ""
        what = "1 number" if self._numbers() == 1 else f"{self._numbers():,} numbers"
        return _card("What the model sees", f"Each {self.one} as {what}.", lines + table, kind="half")

    def footer(self) -> str:
        """What made it, and what it holds."""
        held = ""
        if self.pictured:
            held = f" At most {MOST_PICTURES} small pictures and 3 MB, however many {self.many} there are."
        return f"<footer><p>Made by naysayer {naysayer.__version__}. Everything is in this one file.{held}</p></footer>"

    # ---- examples ------------------------------------------------------------------------------------------------

    def _largest_classes(self) -> list[int]:
        """The classes that are predicted most often, in their order."""
        return sorted(np.argsort(-self.count, kind="stable")[:MOST_GALLERIES].tolist())

    def _numbers(self) -> int:
        """How many features an example has."""
        return int(np.prod(self.X.shape[1:]))

    def _readings(self) -> dict[str, str]:
        """How the columns of a table, or the fields of records, were read."""
        return dict(getattr(getattr(self.encoder, "table", self.encoder), "readings", {}))

    def _half(self) -> str:
        """Half of a wide page holds a matrix of few classes, and what stands beside it."""
        return "half" if len(self.classes) <= 5 else ""

    def _short(self, k: int) -> str:
        """The name of a class, cut to what a caption can hold."""
        return _cut(self.classes[k], 24)

    def _named(self, k: int) -> str:
        """A class and its colour."""
        return f'<span class="named">{swatch(k)}<span>{escape(self.classes[k])}</span></span>'

    def _shown(self) -> int:
        return MOST_SHOWN if self.photos else MOST_SHOWN // 2

    def _item(self, i: int) -> Item | None:
        return None if isinstance(self.evidence.examples, DataTable) else self.evidence.examples[i]

    def _field(self, i: int, name: str) -> Any:
        """A value of a row."""
        examples = self.evidence.examples
        if isinstance(examples, DataTable):
            return examples.columns[name][i]
        content = examples[i].content
        return content.get(name) if isinstance(content, dict) else None

    def _text_of(self, rows: Iterable[int]) -> list[str]:
        return [str(item.content) if (item := self._item(i)) is not None else "" for i in rows]

    def _name(self, i: int) -> str:
        item = self._item(i)
        return f"row {i}" if item is None else item.name

    def _uri(self, i: int, column: str | None = None) -> str | None:
        """A small picture of an example; of a row that of a column, or of the first that has pictures."""
        item, folder = self._item(i), getattr(self.evidence.examples, "folder", None)
        path = os.path.join(folder or "", str(self._field(i, column or self.columns[0]))) if item is None else item.path
        key = path or ""
        if key not in self._uris:
            self._uris[key] = thumbnail(path) if len(self._uris) < MOST_PICTURES else None
        return self._uris[key]

    def _listed(self, rows: Sequence[int] | NDArray[Any], captions: list[list[str]], heads: list[str]) -> str:
        """Examples with what is said of each."""
        if self.photos or self.texts:
            plain = ("predicted", "or else")  # goes without saying below a picture
            said = [[c if head in plain else f"{head}: {c}" for head, c in zip(heads, one)] for one in captions]
            return self._gallery(rows, said)
        return self._as_table(rows, captions, heads)

    def _gallery(self, rows: Sequence[int] | NDArray[Any], captions: list[list[str]]) -> str:
        """Photos or texts with their captions."""
        parts, gone = [], "is gone" if self.photos else "has no picture"
        for i, caption in zip(rows, captions, strict=True):
            first, *others = caption
            if self.pictured:
                name, uri = Path(self._name(i)).name, self._uri(int(i))
                seen = f"{name}: {caption[0]}"
                inside = f'<img src="{uri}" alt="{escape(seen)}" title="{escape(name)}" width="112" height="112">'
                if uri is None:
                    inside = f'<span class="gone">{escape(_cut(name, 40))} {gone}</span>'
                said = f"<span>{escape(first)}</span>" + "".join(
                    f'<span class="soft">{escape(o)}</span>' for o in others
                )
                parts.append(f"<li>{inside}{said}</li>\n")
            else:
                (text,) = self._text_of([i])
                colour = f"c{self.predicted[i] % figures.N_COLOURS}"
                said = escape(" · ".join([*caption, self._name(i)]))
                parts.append(
                    f'<li class="{colour}"><p>{escape(_cut(text, MOST_LETTERS))}</p><p class="soft">{said}</p></li>\n'
                )
        kind = "photos" if self.pictured else "texts"
        return f'<ul class="{kind}">\n{"".join(parts)}</ul>\n'

    def _as_table(self, rows: Sequence[int] | NDArray[Any], captions: list[list[str]], heads: list[str]) -> str:
        """Rows with the first of their columns."""
        columns = [name for name, said in self._readings().items() if not said.startswith("left out")]
        columns = [name for name in columns if name not in self.columns[:1]]  # that picture stands beside the name
        shown = columns[:MOST_COLUMNS]
        lines = []
        for i, caption in zip(rows, captions, strict=True):
            cells = [*map(escape, caption), *(self._shown_value(int(i), name) for name in shown)]
            said = "".join(f"<td>{cell}</td>" for cell in cells)
            beside = "".join(self._shown_value(int(i), name) for name in self.columns[:1])
            lines.append(f"<tr><th scope=row>{escape(self._name(i))}{beside}</th>{said}</tr>\n")
        more = len(columns) - len(shown)
        note = f'<p class="quiet">{count(more, "more column is", "more columns are")} not shown.</p>' if more else ""
        return _table(["", *heads, *shown], lines, "wide") + note

    def _shown_value(self, i: int, name: str) -> str:
        """A value of a row in HTML."""
        said = escape(_value(self._field(i, name)))
        if name not in self.columns:
            return said
        uri = self._uri(i, name)
        if uri is None:
            return f"<small>{said}</small>"
        return f'<img src="{uri}" alt="{said}" title="{said}" width="56" height="56">'


def pictures_per_class(n_classes: int) -> int:
    """How many photos of each class are shown: 120 in all, but 8 at most and 3 at least."""
    return max(3, min(8, 120 // n_classes))


# ---- pieces ------------------------------------------------------------------------------------------------------


def _card(title: str, lead: str, inside: str, *, kind: str = "") -> str:
    """A section with its heading and a sentence on how to read it."""
    return (
        f'<section class="card{" " * bool(kind)}{kind}">\n<h2>{escape(title)}</h2>\n<p>{escape(lead)}</p>\n'
        f"{inside}</section>\n"
    )


def _table(heads: Sequence[str], rows: Iterable[str], kind: str) -> str:
    """A table that scrolls by itself where the page is too narrow for it."""
    head = "".join(f"<th scope=col>{escape(name)}</th>" for name in heads)
    region = ' tabindex="0" role="region" aria-label="Rows"' if kind == "wide" else ""  # keys can scroll it
    return (
        f'<div class="scroll"{region}><table class="{kind}">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div>\n"
    )


def _cell(value: float, error: float, *, right: bool) -> str:
    """A cell of a confusion matrix, the darker the larger."""
    kind = ' class="right"' if right else ""
    wrong = "" if np.isnan(error) else f"<small>± {min(100.0, 100 * error):.0f}</small>"
    return f'<td{kind} style="--v:{possible(value):.2f}">{100 * possible(value):.0f}{wrong}</td>'


def _cut(text: str, most: int) -> str:
    """The beginning of a text in which no line is empty."""
    whole = "\n".join(line.strip() for line in text.splitlines() if line.strip())
    return whole if len(whole) <= most else f"{whole[:most].rstrip()} …"


def _value(value: Any) -> str:
    """A value of a table for people."""
    if value is None or value != value:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else _cut(str(value), 60)
