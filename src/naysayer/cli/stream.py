"""Tables larger than memory: how the commands read them, train on them, predict them and evaluate on them.

Importing this loads torch; the commands do so when they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysayer.cli.places import Evaluation, judge
from naysayer.common.checks import check_count
from naysayer.data.stream import Piece, StreamLabels, TableShards, table_labels
from naysayer.engine.shards import rows_of
from naysayer.engine.stream import MEMORY, Stream
from naysayer.features.stream import encoded_table
from naysayer.features.tables import Columns, TableEncoder
from naysayer.measure.tally import Tally
from naysayer.models.classifier import ComplementaryClassifier
from naysayer.models.encoded import EncodedModel


def train(
    places: Sequence[str],
    label: str,
    classes: Sequence[str] | None,
    ordinary: bool,
    delimiter: str | None,
    columns: Columns,
    settings: dict[str, Any],
    memory: int | None,
    views: int | None = None,
) -> tuple[ComplementaryClassifier, TableEncoder, StreamLabels]:
    """Train on tables that are read part by part; `memory` is in MB."""
    tables = open_tables(places, delimiter, memory)
    shards = encoded_table(tables, label, classes, ordinary, columns, settings["device"], views)
    stream = Stream(shards, memory=MEMORY if memory is None else memory << 20)
    standardize = not shards.encoder.balanced
    return (
        ComplementaryClassifier(**settings, standardize=standardize, verbose=1).fit(stream),
        shards.encoder,
        shards.labels,
    )


def open_tables(places: Sequence[str], delimiter: str | None, memory: int | None) -> TableShards:
    """Open tables, to be read so many rows at a time that they fit into a number of MB."""
    return TableShards(places, delimiter, MEMORY if memory is None else check_count(memory, "--memory") << 20)


def predictions(
    trained: EncodedModel, tables: TableShards, label: str | None = None, copied: str | None = None
) -> Iterator[tuple[str, Piece, NDArray[np.float32]]]:
    """Read tables and give the file, the rows and the probabilities of one piece after the other."""
    encoder = trained.encoder
    assert isinstance(encoder, TableEncoder)
    columns = [name for name in tables.columns if name in encoder.columns or name == copied]
    for shard, name in enumerate(tables.names):
        for piece in tables.pieces(shard, columns, label):
            with rows_of(name, piece.first):
                p = trained.predict_proba(piece.table)
            yield name, piece, p


def evaluate(
    trained: EncodedModel, tables: TableShards, label: str, ordinary: bool, transition: Any, confidence: float
) -> Evaluation:
    """Estimate how good a model is from tables with labels, of which only numbers are kept."""
    names = [str(name) for name in trained.model.classes_]
    labels = table_labels(tables, label, names, ordinary)
    tally = Tally(len(names), trained.model.transition if transition is None else transition)
    count = np.zeros(len(names), dtype=np.int64)
    for name, piece, p in predictions(trained, tables, label):
        assert piece.labels is not None
        predicted = p.argmax(axis=1)
        count += np.bincount(predicted, minlength=len(names))
        tally.update(labels.of(*piece.labels, name), predicted)
    sample, (predicted,) = tally.sample()
    found = judge(labels.said, names, sample, predicted, count / count.sum(), confidence)
    return replace(found, about=found.about | {"rows": int(count.sum())})
