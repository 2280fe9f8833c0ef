"""Trained models of every kind with what a report of them rests on, for tests of the page and for its pictures."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from naysayer import ComplementaryClassifier, complement
from naysayer.collect.learn import train
from naysayer.collect.store import Answer, Project, Store
from naysayer.data.items import image_item, record_item, text_item
from naysayer.data.tables import DataTable
from naysayer.features.tables import Columns, TableEncoder
from naysayer.models.encoded import EncodedModel
from naysayer.report import Evidence

NASTY = '<script>alert("x")</script> & "quoted"'
SUBJECTS = (
    "invoice charged twice refund card payment receipt yearly plan",
    "crash error screen freezes button broken after update login",
    "please add dark mode export feature wish shortcut would love <b>bold</b>",
)
FILLER = ("the", "and", "we", "a", "my", "with", "it", "on", "is", "to", "hello", "thanks", "today", "again", "since")


def table(n: int = 160, *, learned: bool = True, odd: str = NASTY, seed: int = 0) -> tuple[EncodedModel, Evidence]:
    """Flowers with an id, missing values and a name that is a tag; or labels that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    columns = {
        "id": np.arange(1000, 1000 + n),
        "petal length": np.round(1.5 + 1.6 * y + rng.normal(0, 0.9, n), 2),
        "petal width": np.where(rng.random(n) < 0.05, np.nan, np.round(0.3 + 0.7 * y + rng.normal(0, 0.5, n), 2)),
        odd: rng.normal(size=n).round(3),
        "colour": np.array(["white", "violet", "blue"], dtype=object)[(y + (rng.random(n) < 0.3)) % 3],
    }
    classes = ["setosa", "versicolor", odd]
    y_bar = complement(y, 3, random_state=seed) if learned else rng.integers(3, size=n)
    examples = DataTable(columns | {"answer": np.array([f"!{classes[k]}" for k in y_bar], dtype=object)})
    encoder = TableEncoder().fit(examples, Columns(drop=["answer"]))
    model = ComplementaryClassifier(
        ["linear", "forward"], max_epochs=20, lr=0.01, n_seeds=2, classes=np.arange(3), device="cpu", random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was learned
        model.fit(encoder.transform(examples), y_bar)
    model.classes_, model.classes = np.array(classes), None
    trained = EncodedModel(model, encoder, {"label": "answer", "id": "id"})
    return trained, Evidence.from_labels(f"labels: {n} 'not this class'", model, examples, y_bar)


def pictured(folder: Path, n: int = 40) -> tuple[EncodedModel, Evidence]:
    """A table of shapes with a column of their pictures, one of which is missing and one not there."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n)
    names = np.array([f"{i:04}.jpg" for i in range(n)], dtype=object)
    for name, kind in zip(names, y):
        photo(kind, rng).save(folder / name, quality=90)
    names[:2] = "", "gone.jpg"
    y_bar = complement(y, 3, random_state=0)
    examples = DataTable({"width": rng.normal(size=n).round(2), "photo": names, "answer": y_bar}, folder)
    encoder = TableEncoder()
    model = ComplementaryClassifier("linear", max_epochs=20, n_seeds=2, classes=np.arange(3), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the picture that is not there, and that nothing was learned
        model.fit(encoder.fit_transform(examples, Columns(drop=["answer"])), y_bar)
        model.classes_, model.classes = np.array(["circle", "square", "triangle"]), None
        trained = EncodedModel(model, encoder, {"label": "answer", "id": "photo"})
        return trained, Evidence.from_labels(f"labels: {n} 'not this class'", model, examples, y_bar)


def photo(kind: int, rng: np.random.Generator) -> Image.Image:
    """A shape on a plain ground, drawn at four times its size; the fourth kind is two stripes."""
    ground, ink = (tuple(int(v) for v in rng.integers(low, low + 90, 3)) for low in (150, 10))
    image = Image.new("RGB", (384, 288), ground)
    draw = ImageDraw.Draw(image)
    size = int(rng.integers(80, 130))
    x, y = int(rng.integers(size, 384 - size)), int(rng.integers(size, 289 - size))
    box = (x - size, y - size, x + size, y + size)
    if kind == 0:
        draw.ellipse(box, fill=ink)
    elif kind == 1:
        draw.rectangle(box, fill=ink)
    elif kind == 2:
        draw.polygon([(x, y - size), (x - size, y + size), (x + size, y + size)], fill=ink)
    else:
        draw.rectangle((0, y - size, 384, y - size + 40), fill=ink)
        draw.rectangle((0, y + size - 40, 384, y + size), fill=ink)
    return image.resize((128, 96), Image.Resampling.LANCZOS)


def answered(path: Path, classes: tuple[str, ...], items: list[Any], truth: list[int], n: int, error: float) -> Store:
    """A store whose items somebody answered n questions about, some of them wrongly."""
    store = Store.open(path, project=Project(classes, repeat_share=0.1), random_state=0)
    store.register(items)
    known, who = dict(zip((item.id for item in items), truth, strict=True)), store.named_annotator("Ann").id
    rng = np.random.default_rng(1)
    while n > 0 and (asked := store.ask(who, min(n, 20))):
        for question in asked:
            right = (question.class_index == known[question.item.id]) != (rng.random() < error)
            value = "yes" if right else "no"
            assert store.submit(Answer(f"answer-{question.id}", question.id, who, value)).result()
        n -= len(asked)
    return store


def _trained(store: Store, **options: Any) -> tuple[EncodedModel, Evidence]:
    with store:
        trained = train(store, max_epochs=10, n_seeds=5, device="cpu", **options)
    return trained, Evidence.from_answers(f"{trained.n_answers} answers", *trained.judged)


def photos(folder: Path, n: int = 80, answers: int = 180, odd: str = NASTY) -> tuple[EncodedModel, Evidence]:
    """Photos of shapes, one of which has a name that is a tag."""
    rng = np.random.default_rng(0)
    truth, items = rng.integers(4, size=n).tolist(), []
    for i, kind in enumerate(truth):
        path = folder / f"{i:04}.jpg"
        photo(kind, rng).save(path, quality=90)
        items.append(image_item(path, f"{i:04} {odd.replace('/', '')}.jpg" if i % 10 == 0 else path.name))
    return _trained(answered(folder / "photos.db", ("circle", "square", "triangle", odd), items, truth, answers, 0.1))


def texts(folder: Path, n: int = 90, answers: int = 180, odd: str = NASTY) -> tuple[EncodedModel, Evidence]:
    """Tickets of three kinds."""
    rng = np.random.default_rng(0)
    truth, items = rng.integers(3, size=n).tolist(), []
    for i, k in enumerate(truth):
        own = SUBJECTS[k].split()
        words = [*rng.choice(own, 6), *rng.choice(FILLER, int(rng.integers(6, 60)))]
        rng.shuffle(words)
        items.append(text_item(" ".join(words).capitalize() + f", no. {i}.", f"tickets.csv row {i}"))
    return _trained(answered(folder / "texts.db", ("billing", "bug", odd), items, truth, answers, 0.1))


def records(folder: Path, n: int = 80, answers: int = 160) -> tuple[EncodedModel, Evidence]:
    """Records of two kinds."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=n).tolist()
    items = [record_item({"x": float(3 * k + rng.normal()), "note": NASTY}, f"row {i}") for i, k in enumerate(truth)]
    return _trained(answered(folder / "records.db", ("low", "high"), items, truth, answers, 0.0))
