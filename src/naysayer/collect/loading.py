"""Whole tables of a store for export, and rows of other stores added to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table, delete, func, insert, select

from naysayer.collect import schema
from naysayer.collect.items import removed_of, without_removed
from naysayer.collect.rulings import count_again
from naysayer.collect.schema import annotator, answer, item, pending, question, removed, ruling, training


def table_of(name: str) -> Table:
    """Give one of the tables that are exported."""
    tables = {table.name: table for table in (*schema.RECORD, ruling, removed)}
    if name not in tables:
        raise ValueError(f"a table must be one of {', '.join(tables)}; got {name!r}")
    return tables[name]


def in_order(table: Table) -> Select[Any]:
    """Select the rows of a table in the order in which they came."""
    order: list[Any] = list(table.primary_key)
    if table is annotator:
        order = [annotator.c.created, annotator.c.id]
    if table is question:  # a repetition after what it repeats, so that they can be loaded in this order
        order = [question.c.repeat_of.is_not(None), question.c.asked, question.c.id]
    return select(table).order_by(*order)


def load_rows(table: Table, rows: Sequence[Mapping[str, Any]], connection: Connection) -> int:
    """Add rows that are not there yet, and count again what they change."""
    counted = table.autoincrement_column
    columns = {column.name for column in table.c if column is not counted}
    values = [{name: row[name] for name in row if counted is None or name != counted.name} for row in rows]
    for row in values:
        if set(row) != columns:
            odd = min(columns ^ set(row))
            raise ValueError(
                f"a row of {table.name} must have the columns {', '.join(sorted(columns))}; look at {odd!r}"
            )
    values = _without_removed(connection, table, values)
    key = next(table.c[name] for name in ("id", "key", "item_id", "at") if name in table.c)
    here = set(connection.scalars(select(key).where(key.in_([row[key.name] for row in values]))))
    new = list({row[key.name]: row for row in reversed(values) if row[key.name] not in here}.values())[::-1]
    if not new:
        return 0
    connection.execute(insert(table), new)
    if table is item:
        schema.add_tallies(connection, [row["id"] for row in new])
    if table is answer:
        about = question.c.id.in_([row["question_id"] for row in new])
        connection.execute(delete(pending).where(pending.c.question_id.in_(select(question.c.id).where(about))))
        schema.count_items(connection, set(connection.scalars(select(question.c.item_id).where(about))))
    if table is ruling:
        count_again(connection, {row["annotator"] for row in new})
    return len(new)


def _without_removed(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what belongs to an item that was removed: a file from before must not bring it back.

    Nor does a file take an item away that was removed elsewhere and is here.
    """
    if table is removed:
        here = set(connection.scalars(select(item.c.id).where(item.c.id.in_([row["item_id"] for row in rows]))))
        return [row for row in rows if row["item_id"] not in here]
    if table is answer and connection.scalar(select(func.count()).select_from(removed)):
        asked = {row["question_id"] for row in rows}
        here = set(connection.scalars(select(question.c.id).where(question.c.id.in_(asked))))
        return [row for row in rows if row["question_id"] in here]
    if table is training:
        return [row | {"detail": without_removed(connection, row["detail"])} for row in rows]
    name = {"item": "id", "question": "item_id"}.get(table.name)
    if name is None:
        return rows
    gone = removed_of(connection, {row[name] for row in rows})
    return [row for row in rows if row[name] not in gone]
