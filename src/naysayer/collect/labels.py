"""Labels out of a store: what each item is, how sure that is, and who knows it.

A model is trained on the store, and each item's class is told from what the runs that held the item out expect of it
and from people's answers about it; :mod:`naysayer.measure.settling` has the formulas.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.collect.learn import FEWEST_ITEMS, Trained, train
from naysayer.collect.store import Store
from naysayer.common.cells import csv_text
from naysayer.common.files import write_text
from naysayer.data.items import Item
from naysayer.features.photos import PhotoEncoder
from naysayer.measure.answers import Answers, labels, read_answers
from naysayer.measure.settling import SETTLED, Calibration, class_shares, log_likelihoods, posterior

Floats = NDArray[np.float64]

PEOPLE, TOGETHER, MODEL, NOBODY = KNOWN_BY = ("people", "people and model", "model", "nobody")
COLUMNS = ("id", "name", "label", "sure", "known_by", "likeliest", "second", "said")
_AT_A_TIME = 10_000  # items whose features are in memory


@dataclass(frozen=True)
class ItemLabel:
    """What is known of one item.

    Parameters
    ----------
    id, name : of the item.
    label : its class; None where that is doubtful.
    sure : the probability of the likeliest class.
    known_by : "people": their answers alone settle it, or there is no model; "people and model": both together;
        "model": nobody has said yes or no; "nobody": there is neither an answer nor a model.
    likeliest, second : the classes of the largest probabilities.
    said : what people said, in words.
    """

    id: str
    name: str
    label: str | None
    sure: float
    known_by: str
    likeliest: str
    second: str
    said: str


def label_items(
    store: Store, threshold: float = SETTLED, *, model: bool = True, error_rate: float | None = None, **options: Any
) -> list[ItemLabel]:
    """Tell what each item of a store is, in the order in which the items came.

    Parameters
    ----------
    store : with items.
    threshold : the probability from which on the likeliest class is an item's label.
    model : whether a model is trained to help; with answers about fewer than 20 items, none can be.
    error_rate : of the answers, if it is known; None estimates each annotator's from repeated questions.
    options : for :func:`naysayer.collect.learn.train`.

    Examples
    --------
    >>> import tempfile
    >>> from naysayer.collect.store import Answer, Project
    >>> from naysayer.data.items import text_item
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store.open(folder.name + "/answers.db", project=Project(("good", "bad"))) as store:
    ...     _ = store.register([text_item("A fine film.", "reviews.csv row 1")])
    ...     (question,) = store.ask(store.named_annotator("Ann").id)
    ...     said = "yes" if question.class_index == 0 else "no"
    ...     _ = store.answer(Answer("made-by-the-page", question.id, question.annotator, said))
    ...     (found,) = label_items(store)
    >>> found.label, found.known_by, round(found.sure, 2)
    ('good', 'people', 0.98)
    >>> folder.cleanup()
    """
    if not 0.5 <= threshold < 1:
        raise ValueError(f"a threshold must be a probability from 0.5 to below 1; got {threshold:g}; try {SETTLED}")
    said = read_answers(store)
    enough = int(labels(said).ruled_out.any(axis=1).sum()) >= FEWEST_ITEMS
    trained = train(store, error_rate=error_rate, **options) if model and enough else None
    if trained is not None and trained.said is not None:
        said = trained.said  # what came in the meantime is for the next time
    items = list(store.items())
    place = {item.id: i for i, item in enumerate(items)}
    said = said.only(np.array([id in place for id in said.items], dtype=bool))  # without what was removed meanwhile
    rows = np.array([place[id] for id in said.items], dtype=np.int64)
    told = np.zeros((len(items), said.n_classes))
    told[rows] = log_likelihoods(said, error_rate)
    shares = class_shares(told[rows])
    alone = posterior(shares, told)
    expected = np.full(told.shape, np.nan) if trained is None else _expected(trained, items, place)
    modelled, answered = ~np.isnan(expected[:, 0]), np.zeros(len(items), dtype=bool)
    answered[rows[said.item[said.value >= 0]]] = True
    both = modelled & answered
    prior = np.where(modelled[:, None], expected, shares)
    if modelled.any():
        prior[modelled] = Calibration(expected[both], told[both], shares)(expected[modelled])
    p = posterior(prior, told)
    order = np.argsort(-p, axis=1, kind="stable")
    settled = (alone.max(axis=1) >= threshold) & (alone.argmax(axis=1) == order[:, 0])
    by_people = answered & (settled | ~modelled)
    known_by = np.select([by_people, answered, modelled], [PEOPLE, TOGETHER, MODEL], NOBODY)
    words = dict(zip(said.items, _in_words(said), strict=True))
    classes, found = said.classes, []
    for item, by, (first, second, *_), sure in zip(items, known_by.tolist(), order.tolist(), p.max(axis=1).tolist()):
        label = classes[first] if sure >= threshold else None
        told_of = words.get(item.id, "")
        found.append(ItemLabel(item.id, item.name, label, sure, by, classes[first], classes[second], told_of))
    return found


def _expected(trained: Trained, items: Sequence[Item], place: dict[str, int]) -> Floats:
    """Give what a model expects of all items without the answers about them, (N, K); NaN where it cannot tell."""
    assert trained.judged is not None
    assert trained.expected is not None
    out = np.full((len(items), trained.expected.shape[1]), np.nan)
    here = [i for i, item in enumerate(trained.judged.items) if item.id in place]
    learned = [place[trained.judged.items[i].id] for i in here]
    out[learned] = trained.expected[here]
    rest = np.setdiff1d(np.arange(len(items)), learned).tolist()  # more than are learned from, or broken pictures
    for start in range(0, len(rest), _AT_A_TIME):
        some = rest[start : start + _AT_A_TIME]
        if isinstance(trained.encoder, PhotoEncoder):
            failed = trained.encoder.read([items[i] for i in some])
            some = [i for i in some if items[i].id not in failed]
        if some:
            out[some] = trained.model.predict_proba(trained.encoder.transform([items[i] for i in some]))
    return out


def _in_words(said: Answers) -> Iterator[str]:
    """Say what people said of each item: "cat: no; dog: 2 yes, 1 no"."""
    counts = np.zeros((len(said.items), said.n_classes, 2), dtype=np.int64)
    told = said.value >= 0
    np.add.at(counts, (said.item[told], said.asked[told], said.value[told]), 1)
    for row in counts:
        parts = []
        for k in np.flatnonzero(row.any(axis=1)):
            no, yes = row[k].tolist()
            values = [f"{n} {word}" if no + yes > 1 else word for n, word in ((yes, "yes"), (no, "no")) if n]
            parts.append(f"{said.classes[k]}: {', '.join(values)}")
        yield "; ".join(parts)


def write_labels(path: str | os.PathLike[str], found: Sequence[ItemLabel]) -> None:
    """Write labels as CSV, one row per item; :func:`naysayer.common.cells.read_csv` reads it back."""
    rows = ([round(v, 6) if isinstance(v, float) else v for v in vars(each).values()] for each in found)
    write_text(path, csv_text([COLUMNS, *rows]), private=True)


def doubtful(found: Sequence[ItemLabel]) -> list[ItemLabel]:
    """Give the items without a label, the most doubtful first."""
    return sorted((each for each in found if each.label is None), key=lambda each: each.sure)
