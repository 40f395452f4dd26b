"""Rows of the change table as plain dictionaries, and their way into Arrow.

`STAGED` is the Arrow schema of a decoded batch: the columns of `silver/changes` (but for `batch`) and two that serve the
pairing and the schema table: `position` (the sequence without tie-breakers) and `columns` (a schema's text, once).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed, Reason
from silver.identity import digest

Row = dict[str, Any]

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_STAMP = pa.timestamp("us", tz="UTC")
_COORDINATES: list[Any] = [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]

_FIELDS: list[Any] = [
    pa.field("change_id", pa.string()),
    pa.field("source", pa.string()),
    pa.field("format", pa.string()),
    pa.field("kind", pa.string()),
    pa.field("op", pa.string()),
    pa.field("database", pa.string()),
    pa.field("schema", pa.string()),
    pa.field("table", pa.string()),
    pa.field("sequence", pa.string()),
    pa.field("event_time", _STAMP),
    *_COORDINATES,
    pa.field("ordinal", pa.int32()),
    pa.field("keys", pa.list_(pa.string())),
    pa.field("before", _TEXT_MAP),
    pa.field("after", _TEXT_MAP),
    pa.field("partial", pa.bool_()),
    pa.field("schema_id", pa.string()),
    pa.field("transaction_id", pa.string()),
    pa.field("statement", pa.string()),
    pa.field("actions", pa.string()),
    pa.field("paired_with", pa.struct(_COORDINATES)),
    pa.field("reason", pa.string()),
    pa.field("detail", pa.string()),
    pa.field("half", pa.string()),
    pa.field("server", pa.string()),
    pa.field("position", pa.string()),
    pa.field("columns", pa.string()),
]
STAGED = pa.schema(_FIELDS)
STAGED_DDL = (
    "change_id string, source string, format string, kind string, op string, database string, schema string, "
    "`table` string, sequence string, event_time timestamp, topic string, `partition` int, offset bigint, ordinal int, "
    "keys array<string>, before map<string,string>, after map<string,string>, partial boolean, schema_id string, "
    "transaction_id string, statement string, actions string, paired_with struct<topic:string,`partition`:int,offset:bigint>, "
    "reason string, detail string, half string, server string, position string, columns string"
)


def staged_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as an Arrow batch of the staged columns; what else a row has is left out."""
    arrays = [_array([row[field.name] for row in rows], field.type) for field in STAGED]
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if kind == _TEXT_MAP:
        return _map_array(values)
    if kind == _STAMP:
        return pa.array(values, pa.int64()).cast(_STAMP)
    return pa.array(values, kind)


def _map_array(images: list[Mapping[str, str | None] | None]) -> pa.Array[Any]:
    offsets: list[int | None] = []
    names: list[str] = []
    texts: list[str | None] = []
    for image in images:
        if image is None:
            offsets.append(None)
            continue
        offsets.append(len(names))
        names.extend(image.keys())
        texts.extend(image.values())
    offsets.append(len(names))
    starts: Any = pa.array(offsets, pa.int32())
    return pa.MapArray.from_arrays(starts, pa.array(names, pa.string()), pa.array(texts, pa.string()))


def plain_rows(table: pa.Table) -> list[Row]:
    """Arrow rows as dictionaries: images as dictionaries, times as microseconds of the epoch."""
    for name in ("event_time", "deadline"):
        place = table.schema.get_field_index(name)
        if place >= 0:
            table = table.set_column(place, name, table.column(place).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))
    rows: list[Row] = table.to_pylist()
    for row in rows:
        for side in ("before", "after"):
            if row[side] is not None:
                row[side] = dict(row[side])
    return rows


def by_place(table: pa.Table) -> Iterable[list[Row]]:
    """Arrow rows as dictionaries, those of one `_place` together."""
    places: dict[str, list[Row]] = {}
    for row in plain_rows(table):
        places.setdefault(row["_place"], []).append(row)
    return places.values()


def staged_table(rows: Iterable[Row]) -> pa.Table:
    """Rows as an Arrow table of the staged columns."""
    return pa.Table.from_batches([staged_batch(list(rows))], schema=STAGED)


def quarantined(message: RawMessage, format_name: str, error: Malformed, ordinal: int = 0) -> Row:
    """The fate of a message, or of one row in it, that cannot be read; its bytes stay in bronze and in `silver/quarantine`."""
    row: Row = dict.fromkeys(STAGED.names)
    row.update(
        source=message.source,
        format=format_name,
        kind="quarantined",
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        ordinal=ordinal,
        reason=str(error.reason),
        detail=error.detail[:500] or None,
        shape=None,
        change_id=digest(("quarantined", message.source, message.topic, str(message.partition), str(message.offset), str(ordinal))),
    )
    return row


def excluded(row: Row) -> Row:
    """The fate of a change whose table the configuration leaves out."""
    return {**row, "kind": "excluded", "before": None, "after": None, "half": None, "shape": None}


def forgotten(message: RawMessage, format_name: str) -> Row:
    """The fate of a message whose bytes were taken away: it says nothing any more."""
    row = quarantined(message, format_name, Malformed(Reason.EMPTY))
    place = (message.source, message.topic, str(message.partition), str(message.offset))
    return {**row, "kind": "excluded", "reason": FORGOTTEN, "change_id": digest((FORGOTTEN, *place))}


def repeated(row: Row) -> Row:
    """The fate of a change, or half, that repeats an earlier one."""
    return {**row, "kind": "duplicate", "before": None, "after": None}
