"""The report of a model: its numbers are those of the training, all text stays text, and the file needs no other."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import reports
from helpers import raises
from naysayer import metrics
from naysayer.cli.train import _name_of
from naysayer.collect.learn import train
from naysayer.collect.store import Store
from naysayer.data.items import text_item
from naysayer.measure.answer_estimates import class_priors, item_weights
from naysayer.measure.answers import Answers
from naysayer.report import Evidence, figures, write
from naysayer.report.contents import characteristic_words, class_differences
from naysayer.report.pictures import MOST_BYTES, MOST_PICTURES, SIDE, thumbnail
from naysayer.report.sections import MOST_GALLERIES, MOST_SHOWN, Report, pictures_per_class
from test_pictures import MODES, is_one_colour, saved

NASTY = reports.NASTY
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What a browser sees: tags with their attributes, the text, and the text of each section by its heading."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text, self.sections, self._heading = [], [], "", {}, None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.handle_data("\n")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self._heading = ""

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag  # well nested
        if tag == "section":
            self._heading = None

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if "h2" in self.open:
            self._heading += data.strip()
            self.sections[self._heading] = ""
        elif self._heading is not None:
            self.sections[self._heading] += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page(path, trained, evidence, **options):
    write(path, trained, evidence, source=f"{NASTY}.csv", **options)
    return Page(path.read_text(encoding="utf8"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model of each kind, what it rests on, and its report."""
    folder = tmp_path_factory.mktemp("reports")
    kinds = {
        "table": reports.table(),
        "nothing": reports.table(learned=False, seed=1),
        "photos": reports.photos(folder),
        "texts": reports.texts(folder),
        "records": reports.records(folder),
    }
    return {name: (*both, page(folder / f"{name}.html", *both)) for name, both in kinds.items()}


KINDS = ["table", "nothing", "photos", "texts", "records"]


# ---- what holds for every report -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_one_file_that_loads_nothing(made, kind):
    seen = made[kind][2]
    assert not seen.all("script")
    assert not seen.all("link")
    assert not seen.all("iframe")
    (policy,) = [meta["content"] for meta in seen.all("meta") if "http-equiv" in meta]
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    references = [v for _, a in seen.tags for k, v in a.items() if k in ("src", "href", "xlink:href", "srcset")]
    assert all(value.startswith("data:image/jpeg;base64,") for value in references)
    styles = [a["style"] for _, a in seen.tags if "style" in a]
    assert not any("url(" in style for style in styles)


@pytest.mark.parametrize("kind", KINDS)
def test_all_text_stays_text(made, kind):
    seen = made[kind][2]
    assert seen.text.count(f"{NASTY}.csv") == 2  # the title and the heading
    assert not seen.all("b")
    if kind != "records":
        assert any(NASTY in text for text in seen.sections.values())


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_read_without_seeing_it(made, kind):
    seen = made[kind][2]
    assert [a["lang"] for a in seen.all("html")] == ["en"]
    assert len(seen.all("h1")) == 1
    assert len(seen.all("main")) == 1
    assert all(image["alt"] for image in seen.all("img"))
    assert all(a.get("aria-hidden") == "true" or (a.get("role") == "img" and a["aria-label"]) for a in seen.all("svg"))
    assert all(a.get("scope") in ("col", "row", "colgroup") for a in seen.all("th"))
    titled = [name for name in seen.sections if name]
    assert len(titled) == len(seen.all("section")) == len(set(titled))


@pytest.mark.parametrize("kind", KINDS)
def test_every_percentage_is_possible(made, kind):
    seen = made[kind][2]
    shares = [float(number) for number in re.findall(r"(-?[\d.]+)\s%", seen.text)]
    assert len(shares) > 20
    assert min(shares) >= 0
    assert max(shares) <= 100
    assert not re.search(r"\bnan\b|\binf\b", seen.text)
    places = [float(v) for _, a in seen.tags for v in re.findall(r"(?:left|width):(-?[\d.]+)%", a.get("style", ""))]
    assert min(places) >= 0
    assert max(places) <= 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_accuracy_is_that_of_the_training(made, kind):
    trained, evidence, seen = made[kind]
    estimate, low, high = (100 * min(1, max(0, value)) for value in trained.model.estimated_accuracy_)
    said = seen.sections["Estimated accuracy"].replace("\N{NO-BREAK SPACE}", " ")
    assert f"{estimate:.1f} %" in said
    assert f"between {low:.1f} and {high:.1f} %" in said
    assert ("Nothing was learned that can be distinguished from guessing" in said) == (kind == "nothing")
    assert f"{evidence.n_examples:,}" in seen.text
    for trial in trained.model.trials_:
        assert trial["method"] in seen.sections["What predicts"]


def test_the_same_model_gives_the_same_page(made, tmp_path):
    trained, evidence, _ = made["texts"]
    texts = []
    for name in ("one.html", "other.html"):
        write(tmp_path / name, trained, evidence, source="texts", seed=3)
        texts.append((tmp_path / name).read_bytes())
    assert texts[0] == texts[1]


def test_a_name_that_is_not_utf8_is_no_obstacle(made, tmp_path):
    trained, evidence, _ = made["records"]
    write(tmp_path / "report.html", trained, evidence, source="caf\udce9.csv")
    assert "caf?.csv" in (tmp_path / "report.html").read_text(encoding="utf8")


# ---- what suits each kind --------------------------------------------------------------------------------------------


def test_a_table_shows_rows_and_columns(made):
    trained, evidence, seen = made["table"]
    assert "petal length" in seen.sections["Where the classes differ"]
    assert "left out: an id" in seen.sections["What the model sees"]
    (row,) = re.findall(r"row (\d+)", seen.sections["Least sure"])[:1]
    p = trained.predict_proba(evidence.examples)
    assert int(row) == p.max(axis=1).argmin()
    assert len(seen.all("title")) == 1 + evidence.n_examples  # each point of the map has one
    assert "Photos by predicted class" not in seen.sections
    assert "Characteristic words" not in seen.sections


def test_contradictions_are_what_labels_rule_out(made):
    _, evidence, seen = made["table"]
    places = evidence.contradicted()
    assert len(places)
    assert evidence.ruled_out[evidence.rows[places], evidence.predicted[places]].all()
    assert (np.diff(evidence.sure[places]) <= 0).all()
    rows = [int(row) for row in re.findall(r"row (\d+)", seen.sections["Contradicted by their labels"])]
    assert rows == evidence.rows[places][:12].tolist()


def test_photos_are_small_pictures_and_not_too_many(made):
    _, _, seen = made["photos"]
    pictures = [a["src"] for a in seen.all("img")] + [a["href"] for a in seen.all("image")]
    assert 50 < len(pictures) <= MOST_PICTURES
    for uri in pictures[:5]:
        with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
            assert image.size == (SIDE, SIDE)
    assert max(map(len, pictures)) < 40 + MOST_BYTES * 4 / 3
    assert len(seen.all("image")) <= figures.COLUMNS * figures.ROWS
    assert "circle" in seen.sections["Photos by predicted class"]
    assert f"{MOST_PICTURES} small pictures" in seen.text
    assert any(NASTY.replace("/", "") in a["alt"] for a in seen.all("img"))
    assert "label: " in seen.sections["Contradicted by their labels"]


def test_pictures_of_many_classes_stay_within_the_bound():
    """The most of everything: on the map, by class, least sure and contradicted."""
    by_class = max(k * pictures_per_class(k) for k in range(2, MOST_GALLERIES + 1))
    assert figures.COLUMNS * figures.ROWS + by_class + 2 * MOST_SHOWN <= MOST_PICTURES


def test_a_photo_that_is_gone_leaves_a_gap(tmp_path):
    trained, evidence = reports.photos(tmp_path, 60, 120)
    for path in tmp_path.glob("*.jpg"):  # the encoder has read them
        path.unlink()
    seen = page(tmp_path / "report.html", trained, evidence)
    assert not seen.all("img")
    assert re.search(r"\d{4}\.jpg is gone", seen.text)


def test_a_table_shows_its_pictures(tmp_path):
    trained, evidence = reports.pictured(tmp_path)
    with pytest.warns(UserWarning, match="must hold pictures; 1 of 39 cannot be read"):
        seen = page(tmp_path / "report.html", trained, evidence)
    assert "photo[" not in seen.text  # what differs in features says nothing to people
    assert "width" in seen.sections["Where the classes differ"]
    shown = [image for image in seen.all("img") if image["width"] == "56"]
    assert shown
    for image in shown:
        small = Image.open(io.BytesIO(base64.b64decode(image["src"].split(",")[1])))
        assert small.size == (SIDE, SIDE)
        assert (tmp_path / image["alt"]).is_file()
    assert "Rows by predicted class" in seen.sections
    assert len(seen.all("image")) > 10  # on the map
    named = "Rows by predicted class", "Contradicted by their labels", "Least sure"
    assert not any("is gone" in seen.sections[name] for name in named)


def test_texts_show_words_and_beginnings(made):
    _, _, seen = made["texts"]
    assert "invoice" in seen.sections["Characteristic words"]
    assert "tickets.csv row" in seen.sections["Texts by predicted class"]
    assert "<b>bold</b>" in seen.text
    assert max(map(len, re.findall(r"[^\n]+", seen.sections["Least sure"]))) < 400


def test_records_are_rows(made):
    _, _, seen = made["records"]
    assert "column" in seen.sections["What the model sees"]
    assert "left out: it is the same in every row" in seen.sections["What the model sees"]
    assert "Map of the features" not in seen.sections  # there is one number only
    assert "1 number." in seen.sections["What the model sees"]
    assert re.search(r"\bnumber per row\s+1\b", seen.text)


def test_many_classes_and_columns_are_cut(tmp_path, made):
    """Fifty classes, of which most are never predicted, and a hundred columns."""
    from naysayer import ComplementaryClassifier
    from naysayer.data.tables import DataTable
    from naysayer.features.tables import TableEncoder
    from naysayer.models.encoded import EncodedModel

    rng = np.random.default_rng(0)
    examples = DataTable({f"column {d}": rng.normal(size=120) for d in range(100)})
    y_bar = rng.integers(50, size=120)
    encoder = TableEncoder().fit(examples)
    model = ComplementaryClassifier(
        "linear", max_epochs=2, n_seeds=1, lr=0.01, classes=np.arange(50), device="cpu", random_state=0
    )
    with pytest.warns(UserWarning, match="nothing was learned"):
        model.fit(encoder.transform(examples), y_bar)
    evidence = Evidence.from_labels("labels", model, examples, y_bar)
    seen = page(tmp_path / "report.html", EncodedModel(model, encoder, {}), evidence)
    matrix = seen.sections["Which classes are confused"]
    assert "39 others" in matrix
    assert "40 more columns" in seen.sections["What the model sees"]
    assert "94 more columns are not shown" in seen.sections["Least sure"]


def test_one_that_is_left_out_is_one(made, monkeypatch):
    texts, table = (Report(*made[kind][:2], "a.csv", 0) for kind in ("texts", "table"))
    readings = table._readings().values()
    shown = [said for said in readings if not said.startswith("left out")]
    most = {"MOST_GALLERIES": len(texts.classes), "MOST_READINGS": len(readings), "MOST_COLUMNS": len(shown)}
    for name, n in most.items():
        monkeypatch.setattr(f"naysayer.report.sections.{name}", n - 1)
    assert "1 rarer class is not shown." in texts.by_class()
    assert "1 more column<" in table.features()
    assert "1 more column is not shown." in table.least_sure()


# ---- the numbers ---------------------------------------------------------------------------------------------------


def test_the_confusion_matrix_is_that_of_the_metrics(made):
    _, evidence, seen = made["table"]
    y_bar = evidence.ruled_out[evidence.rows]
    expected = metrics.confusion_matrix(y_bar, evidence.predicted, n_classes=3, normalize="pred").T
    np.testing.assert_allclose(evidence.confusion.share, expected, atol=1e-6)
    np.testing.assert_allclose(evidence.confusion.share.sum(axis=1), 1, atol=1e-6)
    assert (evidence.confusion.error > 0).all()
    assert evidence.confusion.number.sum() == len(evidence.rows)
    shown = re.findall(r"(\d+)\n± \d+", seen.sections["Which classes are confused"])
    assert [int(cell) for cell in shown] == np.round(100 * expected.clip(0, 1)).ravel().astype(int).tolist()


def test_blocks_of_rows_change_nothing(made, monkeypatch):
    trained, evidence, _ = made["table"]
    monkeypatch.setattr("naysayer.report.evidence.BLOCK", 7)
    y_bar = evidence.ruled_out.argmax(axis=1)
    again = Evidence.from_labels("labels", trained.model, evidence.examples, y_bar)
    np.testing.assert_allclose(again.confusion.share, evidence.confusion.share)
    np.testing.assert_allclose(again.confusion.error, evidence.confusion.error)


def test_the_weights_of_answers_are_what_their_estimates_are_means_of():
    rng = np.random.default_rng(0)
    y, asked = rng.integers(4, size=(2, 3000))
    said = Answers.of([str(i) for i in range(3000)], asked, np.where(asked == y, "yes", "no"), tuple("abcd"))
    items, weights = item_weights(said)
    assert len(items) == 3000
    np.testing.assert_allclose(weights.mean(axis=0), class_priors(said).estimate)
    means = np.array([weights[y == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(means, np.eye(4), atol=0.15)
    with raises("an error rate must be from 0 to"):
        item_weights(said, error_rate=0.5)


def test_answers_that_nobody_drew_are_taken_at_their_word():
    items = [text_item(f"text {i}", f"row {i}") for i in range(40)]
    said = Answers.of([i.id for i in items], [0] * 40, ["no"] * 40, ("a", "b", "c"), probabilities=np.zeros(40))
    evidence = Evidence.from_answers("answers", items, said, np.full(40, 1), np.full(40, 0.5))
    assert evidence.prior.estimate[0] == -1  # 1 - 2: unbiased, so it may leave its range; the page shows 0
    assert evidence.confusion.share[1].tolist() == [-1.0, 1.0, 1.0]
    assert len(evidence.contradicted()) == 0


def test_a_label_is_said_as_people_would():
    classes = ["a", "b", "c", "d", "e", "f", "g", "h"]
    rows = np.array(["10000000", "11000000", "11111000", "01111111", "00000000"])
    ruled_out = np.array([[sign == "1" for sign in row] for row in rows])
    some = np.arange(5)
    evidence = Evidence("", [], ruled_out, some, some, some / 5, None, None)
    said = [evidence.label(i, classes) for i in range(5)]
    assert said == ["not a", "not a or b", "f, g or h", "is a", "no label"]


def test_words_and_columns_that_tell_classes_apart():
    assert characteristic_words(["x", "y"], np.array([0, 1])) == {}  # no word is found twice
    many = ["red apple"] * 3000 + ["blue sky"] * 3000
    assert characteristic_words(many, np.repeat([0, 1], 3000))[0] == ["apple", "red"]
    assert characteristic_words(["same word"] * 9, np.zeros(9, dtype=int)) == {}
    X = np.column_stack([np.arange(6.0), np.ones(6)])
    (one,) = class_differences(X, np.array([0, 0, 0, 2, 2, 2]), 4)
    assert (one.feature, one.highest[0], one.lowest[0]) == (0, 2, 0)
    assert 0 < one.explained <= 1


def test_a_map_of_anything():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.eye(6)[:3], 20, axis=0) * 20 + rng.normal(size=(60, 6))
    layout = figures.lay_out(groups)
    assert layout.places.min() == 0
    assert layout.places.max() == 1
    centres = layout.places.reshape(3, 20, 2).mean(axis=1)
    near = np.linalg.norm(layout.places[:, None] - centres, axis=2).argmin(axis=1)
    assert (near == np.repeat(np.arange(3), 20)).all()
    assert figures.lay_out(np.ones((50, 4))) is None
    assert figures.lay_out(groups[:2]) is None
    assert figures.lay_out(rng.integers(256, size=(12, 3, 4, 4), dtype=np.uint8)).places.shape == (12, 2)
    assert np.isfinite(figures.lay_out(np.repeat(np.eye(3), 10, axis=0)).places).all()  # rows that are equal
    assert figures.lay_out(rng.normal(size=(20, 1))).places[:, 1].tolist() == [0.5] * 20


def test_a_large_map_is_drawn_from(monkeypatch):
    monkeypatch.setattr(figures, "MOST_POINTS", 30)
    layout = figures.lay_out(np.random.default_rng(0).normal(size=(200, 4)))
    assert len(layout.rows) == 30
    assert (np.diff(layout.rows) > 0).all()


def test_tiles_are_one_for_each_cell():
    places = np.random.default_rng(0).random((500, 2))
    chosen = figures.tiles(figures.Map(np.arange(500), places, ""))
    assert len({(column, row) for _, column, row in chosen}) == len(chosen)
    assert {(i, *np.minimum(places[i] * (16, 10), (15, 9)).astype(int)) for i, _, _ in chosen} == set(chosen)


# ---- pictures --------------------------------------------------------------------------------------------------------


def opened(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def test_any_picture_becomes_a_small_square(tmp_path):
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(256, size=(600, 900, 3), dtype=np.uint8))
    for mode, name in (("L", "a.png"), ("RGBA", "b.png"), ("CMYK", "c.jpg"), ("P", "d.gif"), ("1", "e.bmp")):
        noise.convert(mode).save(tmp_path / name)
        uri = thumbnail(tmp_path / name)
        assert opened(uri).size == (SIDE, SIDE)
        assert len(base64.b64decode(uri.partition(",")[2])) <= MOST_BYTES
    Image.new("RGBA", (1, 1), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert opened(thumbnail(tmp_path / "clear.png")).getpixel((50, 50)) == (255, 255, 255)
    turned = Image.new("RGB", (200, 100), "red")
    turned.paste("blue", (0, 0, 100, 100))
    exif = Image.Exif()
    exif[0x0112] = 6  # upright after a quarter turn clockwise: blue is on top
    turned.save(tmp_path / "turned.jpg", exif=exif)
    red, _, blue = opened(thumbnail(tmp_path / "turned.jpg")).getpixel((SIDE // 2, 5))
    assert blue > 200 > 60 > red


@MODES
def test_a_small_square_shows_what_the_picture_shows(mode, value, ending, expected, tmp_path):
    for side in (20, 300):
        path = saved(tmp_path / f"{side}.{ending}", Image.new(mode, (side, side), value))
        assert is_one_colour(np.asarray(opened(thumbnail(path))).transpose(2, 0, 1), expected, 6)


def test_what_is_no_picture_is_none(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    assert thumbnail(tmp_path / "broken.jpg") is None
    assert thumbnail(tmp_path / "gone.jpg") is None
    assert thumbnail(None) is None


# ---- the command ---------------------------------------------------------------------------------------------------


TRAIN = ("--label", "answer", "--method", "linear", "--epochs", 3, "--seeds", 1)
FLOWERS = Path(__file__).parent.parent / "examples" / "flowers.csv"


def test_the_command_writes_a_report_of_a_table(naysayer, tmp_path):
    out = tmp_path / "model"
    done = naysayer("train", FLOWERS, *TRAIN, "--out", out, "--report", out / "report.html")  # the folder is made
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"report in {out / 'report.html'}"
    seen = Page((out / "report.html").read_text(encoding="utf8"))
    estimate, low, high = re.search(r"estimated accuracy: ([\d.]+) \(([\d.]+) to ([\d.]+)\)", done.out).groups()
    said = seen.sections["Estimated accuracy"]
    assert f"{estimate}\N{NO-BREAK SPACE}%" in said
    assert f"{low} and {high}" in said
    assert "What was learned from flowers.csv" in seen.text
    assert "Labels: 60 'not this class', 40 'is this class'" in seen.text


def test_the_command_writes_a_report_of_a_store(naysayer, tmp_path):
    reports.records(tmp_path)
    place, report = tmp_path / "records.db", tmp_path / "report.html"
    done = naysayer("train", place, "--epochs", 3, "--out", tmp_path / "model", "--report", report, "--json")
    assert done.code == 0, done.err
    seen = Page(report.read_text(encoding="utf8"))
    assert (
        f"{100 * min(1, done.json['accuracy']['estimate']):.1f}\N{NO-BREAK SPACE}%"
        in seen.sections["Estimated accuracy"]
    )
    assert f"{done.json['answers']} answers about {done.json['items']} items" in seen.text


def test_a_report_that_cannot_be_written_is_told_before_the_training(naysayer, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place, words in [
        (tmp_path, f"--report must be a file, such as report.html; {tmp_path} is a folder"),
        (tmp_path / "table.csv", f"--report must be a file whose name ends in .html; got {tmp_path / 'table.csv'}"),
        (tmp_path / "gone" / "report.html", f"--report must be in a folder that is there; {tmp_path / 'gone'} is not"),
        (tmp_path / "file" / "report.html", "--report must be in a folder that is there"),
    ]:
        done = naysayer("train", FLOWERS, *TRAIN, "--out", tmp_path / "model", "--report", place)
        assert done.code == 2
        assert words in done.err
        assert done.err.count("\n") == 1
        assert not (tmp_path / "model").exists()


def test_a_folder_that_cannot_be_written_to_is_told_before_the_training(naysayer, tmp_path, monkeypatch):
    from naysayer.cli import console

    def refuse(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(console, "check_writable", lambda out: None)
    monkeypatch.setattr("naysayer.cli.train.check_writable", lambda out: None)
    monkeypatch.setattr(console.tempfile, "TemporaryFile", refuse)  # root may write anywhere
    report = tmp_path / "locked" / "report.html"
    done = naysayer("train", FLOWERS, *TRAIN, "--out", tmp_path / "model", "--report", report)
    assert done.code == 2
    assert "--report must be in a folder that can be written to: " in done.err
    assert not (tmp_path / "model").exists()


def test_a_report_that_fails_loses_nothing(naysayer, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("cannot write report.html: no space left on device; nothing was changed")

    monkeypatch.setattr("naysayer.report.sections.write_text", fail)
    report = tmp_path / "report.html"
    report.write_text("old")
    done = naysayer("train", FLOWERS, *TRAIN, "--out", tmp_path / "model", "--report", report)
    assert done.code == 2
    assert "no space left on device" in done.err
    assert "estimated accuracy: " in done.out
    assert naysayer("predict", tmp_path / "model", FLOWERS).code == 0
    assert report.read_text() == "old"


def test_a_loaded_model_has_nothing_to_report(tmp_path):
    trained, _ = reports.records(tmp_path)
    trained.save(tmp_path / "model")
    assert type(trained).load(tmp_path / "model", "cpu").judged is None
    with Store.open(tmp_path / "records.db") as store:
        again = train(store, max_epochs=1, n_seeds=1)
    assert [item.id for item in again.judged.items] == list(again.judged.answers.items)
    assert ((again.judged.sure > 0.4) & (again.judged.sure <= 1)).all()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("answers.db", "answers.db"),
        ("folder/flowers.csv", "flowers.csv"),
        ("postgresql://bob:secret@db:5432/asked?password=secret", "asked"),
        ("postgresql://bob:secret@db", "a store"),
    ],
)
def test_a_report_is_named_without_a_password(place, name):
    assert _name_of(place) == name
