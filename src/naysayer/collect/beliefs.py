"""What trainings leave in a store: what they came to, and what the last model expects, to draw questions from."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select

from naysayer.collect.connected import CHUNK, Connected
from naysayer.collect.database import Database
from naysayer.collect.guiding import Guide
from naysayer.collect.items import without_removed
from naysayer.collect.records import Project, Training
from naysayer.collect.schema import answer, belief, item, question, ruling, said_of, tally, training
from naysayer.measure.answers import FINAL_VOTES
from naysayer.measure.settling import LEAST_ERROR

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Beliefs(Connected):
    """Adds trainings and beliefs, and holds the guide that questions are drawn by."""

    def __init__(self, database: Database, project: Project) -> None:
        super().__init__(database, project)
        self._guide: Guide | None = None
        self._heard, self._own = 0, set[str]()  # the last answer that the guide was told of, and ours of the last time

    def add_training(
        self,
        *,
        n_answers: int,
        method: str,
        estimate: float,
        low: float,
        high: float,
        detail: Mapping[str, Any] = {},
        at: float | None = None,
    ) -> None:
        """Add what a training came to; `at` is its time, None: now."""
        values = {"n_answers": n_answers, "method": method, "estimate": estimate, "low": low, "high": high}
        values |= {"at": time.time() if at is None else at, "detail": json.dumps(detail)}
        self._change(partial(_add_training, values))

    def add_belief(self, at: float, items: Sequence[str], probabilities: Floats, votes: Ints) -> None:
        """Add what a model that was trained at a time expects of items, (N, K), with the votes that are in it.

        It counts once the training of this time is added, too; see `guide`.
        """
        p, v = probabilities.astype("<f4"), votes.astype("<i2")
        for start in range(0, len(items), CHUNK):
            rows = [
                {"training": at, "item_id": items[i], "probabilities": p[i].tobytes(), "votes": v[i].tobytes()}
                for i in range(start, min(start + CHUNK, len(items)))
            ]
            self._change(partial(_add_belief, rows))

    def guide(self) -> Guide | None:
        """Draw questions from what the last training expects, from now on; None: it left nothing to draw from.

        This reads from the store alone, so that it goes on after a restart, and on another server.
        """
        trainings = self.trainings()
        last = next((one for one in reversed(trainings) if one.detail.get("guides")), None)
        if last is None:
            return None
        columns = belief.c.item_id, belief.c.probabilities, belief.c.votes, tally.c.n_answers + tally.c.n_repeats
        query = select(*columns).where(belief.c.training == last.at)
        query = query.join(tally, tally.c.item_id == belief.c.item_id)  # without those whose pictures are gone
        rows = [tuple(row.values()) for row in self._stream(query.order_by(belief.c.item_id))]
        if not rows:
            return None
        ids, p, v, n_said = zip(*rows)
        k = self._project.n_classes
        if len(p[0]) != 4 * k:  # a class was added since
            return None
        expected = np.frombuffer(b"".join(p), "<f4").reshape(-1, k).astype(np.float64)
        votes = np.frombuffer(b"".join(v), "<i2").reshape(-1, k).astype(np.int64)
        error_rate = float(last.detail["error_rate"])
        goal, enough = self._project.goal, self._project.answers_per_item
        guide = Guide(ids, expected, votes, max(error_rate, LEAST_ERROR), last.at, goal, enough)
        # Votes do not tell of "can't tell", nor of a yes and a no that cancel each other out.
        more = np.flatnonzero(np.abs(votes).sum(axis=1) != np.array(n_said))
        guide.update({ids[i]: (votes[i], n_said[i]) for i in more})

        def begin(connection: Connection) -> None:
            """Catch up with what was said since, and let the questions that follow be drawn by it."""
            new = (answer.c.seq > last.detail["last_answer"]) | answer.c.annotator.in_(select(ruling.c.annotator))
            asked = select(answer.c.question_id).where(new)
            tell(guide, connection, set(connection.scalars(asked)))
            self._guide, self._heard = guide, connection.scalar(select(func.max(answer.c.seq))) or 0

        self._change(begin)
        for start in range(0, len(ids), CHUNK):  # piece by piece, so that no answer waits
            old = (belief.c.training < last.at) & belief.c.item_id.in_(ids[start : start + CHUNK])
            self._change(partial(_remove, belief, old))
        return guide

    def trainings(self) -> list[Training]:
        """Give all trainings in the order in which they came."""
        with self._database.reading() as connection:
            rows = connection.execute(select(training).order_by(training.c.seq)).mappings()
            return [Training(**dict(row) | {"detail": json.loads(row["detail"])}) for row in rows]

    def _guiding(self) -> Guide | None:
        """Give what questions are guided by at present."""
        return self._guide if self._project.questions == "guided" else None

    def _tell(self, guide: Guide, connection: Connection, question_ids: set[str], stored: Sequence[Any]) -> None:
        """Tell the guide of these questions, and of those whose answers were `stored` by another server or program."""
        tell(guide, connection, question_ids.union(row.question_id for row in stored if row.id not in self._own))
        self._heard = max((row.seq for row in stored), default=self._heard)

    def _stored_since(self, connection: Connection) -> Sequence[Any]:
        """Give the answers that were stored since the guide was told the last time."""
        return connection.execute(_stored_since, {"seq": self._heard}).all()


_stored_since = select(answer.c.seq, answer.c.id, answer.c.question_id).where(answer.c.seq > bindparam("seq"))


def _add_training(values: Mapping[str, Any], connection: Connection) -> None:
    detail = without_removed(connection, values["detail"])  # an item may have been removed while the model learned
    connection.execute(insert(training).values({**values, "detail": detail}))


def _add_belief(rows: list[dict[str, Any]], connection: Connection) -> None:
    ids = select(item.c.id).where(item.c.id.in_([row["item_id"] for row in rows]))
    here = set(connection.scalars(ids))  # the others were removed while the model learned
    if left := [row for row in rows if row["item_id"] in here]:
        connection.execute(insert(belief), left)


def _remove(table: Table, which: Any, connection: Connection) -> None:
    connection.execute(delete(table).where(which))


def tell(guide: Guide, connection: Connection, question_ids: Collection[str]) -> None:
    """Tell a guide what is now said of the items of some questions."""
    ids, told = list(question_ids), {}
    for start in range(0, len(ids), CHUNK):
        about = select(question.c.item_id).where(question.c.id.in_(ids[start : start + CHUNK]))
        about_items = set(connection.scalars(about))
        said = said_of(connection, about_items)
        for id in about_items:
            votes = np.zeros(guide.expected.shape[1], dtype=np.int64)
            known = [each for each in said.get(id, ()) if each.class_index < len(votes)]  # others were added since
            for each in known:
                votes[each.class_index] += {"yes": 1, "no": -1}.get(each.value, 0)
            for each in known:
                if each.is_final and each.value == "yes":
                    votes[:] = -FINAL_VOTES
                    votes[each.class_index] = FINAL_VOTES
            told[id] = votes, len(known)
    guide.update(told)
