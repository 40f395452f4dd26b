"""Rows of the change table as plain dictionaries, and their conversion to Arrow.

`STAGED` is the Arrow schema of a decoded batch: the columns of `silver/changes` without `batch`, and eight
more: `columns` (the text of a schema, once), `block` (see `silver/changes/partition_order.py`), `evidence`
(what the row shows of its source's encodings, separated by semicolons), `restart` (see
`silver/batches/landings.py`), `run` and `run_end` (see `silver/changes/record_runs.py`), `committed` (see
`silver/epochs/resets.py`) and `earliest` (of a change that its feed identifies: no other delivery of it has a
lower sequence). `position` is the message's own position; `silver/changes` keeps it only where the sequence
does not begin with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import Any

import pyarrow as pa

from framework.contracts.erasure import FORGOTTEN
from framework.contracts.events import Event, Op
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes.change_id import coordinate_parts, digest

Row = dict[str, Any]

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_STAMP = pa.timestamp("us", tz="UTC")
_COORDINATES: list[Any] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
]

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
    pa.field("epoch", pa.int32()),
    pa.field("columns", pa.string()),
    pa.field("block", pa.int64()),
    pa.field("evidence", pa.string()),
    pa.field("restart", pa.int32()),
    pa.field("run", pa.int64()),
    pa.field("run_end", pa.int64()),
    pa.field("committed", pa.string()),
    pa.field("earliest", pa.string()),
]
STAGED = pa.schema(_FIELDS)
_CELLS = itemgetter(*STAGED.names)
_BLANK: Row = {**dict.fromkeys(STAGED.names), "shape": None}
STAGED_DDL = (
    "change_id string, source string, format string, kind string, op string, database string, schema string, "
    "`table` string, sequence string, event_time timestamp, topic string, `partition` int, offset bigint, "
    "ordinal int, "
    "keys array<string>, before map<string,string>, after map<string,string>, partial boolean, "
    "schema_id string, "
    "transaction_id string, statement string, actions string, "
    "paired_with struct<topic:string,`partition`:int,offset:bigint>, "
    "reason string, detail string, half string, server string, position string, epoch int, columns string, "
    "block bigint, "
    "evidence string, restart int, run bigint, run_end bigint, committed string, earliest string"
)


OPS = {op: str(op) for op in Op}
"""The operations as the text that rows have."""


def decoded_row(
    message: RawMessage,
    ordinal: int,
    event: Event,
    read: tuple[str, str, int, str | None, str | None, int | None],
) -> Row:
    """The row of one event, without what only some events have.

    `read` has its format, kind, epoch, position, sequence and block. Copying a dictionary and setting its
    members one by one takes a fifth of the time of any other way to make so large a dictionary.
    """
    row = _BLANK.copy()
    row["format"], row["kind"], row["epoch"], row["position"], row["sequence"], row["block"] = read
    row["source"] = message.source
    row["topic"] = message.topic
    row["partition"] = message.partition
    row["offset"] = message.offset
    row["ordinal"] = ordinal
    row["database"] = event.database
    row["schema"] = event.schema
    row["table"] = event.table
    row["event_time"] = event.event_time
    row["keys"] = event.keys
    row["transaction_id"] = event.transaction_id
    row["server"] = event.server
    row["shape"] = event.columns
    return row


def staged_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as an Arrow batch with the columns of STAGED; other keys of a row are left out."""
    columns = list(zip(*map(_CELLS, rows), strict=True)) if rows else [()] * len(_FIELDS)
    arrays = [_array(column, field.type) for column, field in zip(columns, _FIELDS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    if kind == _TEXT_MAP:
        return _map_array(values)
    if kind == _STAMP:
        return pa.array(values, pa.int64()).cast(_STAMP)
    return pa.array(values, kind)


_MOST_SHAPES = 256
"""Sets of names that are kept while images become an array: they can be wide."""


def _map_array(images: Sequence[Mapping[str, str | None] | None]) -> pa.Array[Any]:
    """The images as maps. Each name becomes text of Arrow once; the images have its place among the names."""
    offsets: list[int | None] = []
    texts: list[str | None] = []
    names: dict[str, int] = {}
    places, known = array("i"), dict[tuple[str, ...], "array[int]"]()
    for image in images:
        if image is None:
            offsets.append(None)
            continue
        offsets.append(len(texts))
        texts.extend(image.values())
        shape = tuple(image)
        mine = known.get(shape)
        if mine is None:
            mine = array("i", [names.setdefault(name, len(names)) for name in shape])
            if len(known) < _MOST_SHAPES:
                known[shape] = mine
        places.extend(mine)
    offsets.append(len(texts))
    starts: Any = pa.array(offsets, pa.int32())
    indices = pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)])
    keys = pa.array(list(names), pa.string()).take(indices)
    return pa.MapArray.from_arrays(starts, keys, pa.array(texts, pa.string()))


def plain_rows(table: pa.Table) -> list[Row]:
    """Arrow rows as dictionaries: images as dictionaries, times as microseconds since the Unix epoch."""
    for name in ("event_time", "deadline"):
        place = table.schema.get_field_index(name)
        if place >= 0:
            table = table.set_column(
                place, name, table.column(place).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            )
    rows: list[Row] = table.to_pylist()
    for row in rows:
        for side in ("before", "after"):
            if row[side] is not None:
                row[side] = dict(row[side])
    return rows


def column_values(rows: pa.Table | pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """The values of these columns, row by row."""
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def staged_table(rows: Iterable[Row]) -> pa.Table:
    """Rows as an Arrow table with the columns of STAGED."""
    return pa.Table.from_batches([staged_batch(list(rows))], schema=STAGED)


def staged_batches(rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
    """The rows in one Arrow batch with the columns of STAGED, or in several if they do not fit."""
    try:
        found = staged_batch(rows)
    except Exception as error:  # more bytes than an array holds, no memory
        if len(rows) == 1:
            yield staged_batch([as_refused(rows[0], Reason.DECODER_ERROR, type(error).__name__)])
        else:
            middle = len(rows) // 2
            yield from staged_batches(rows[:middle])
            yield from staged_batches(rows[middle:])
        return
    yield found


def as_quarantined(
    message: RawMessage, format_name: str, error: Malformed, ordinal: int = 0, epoch: int = 1
) -> Row:
    """The outcome of a message, or of one of its rows, that cannot be read.

    Its bytes stay in bronze and quarantine.
    """
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
        detail=error.detail[:500].encode("utf-8", "replace").decode() or None,
        evidence=";".join(error.evidence) or None,
        shape=None,
        epoch=epoch,
    )
    row["change_id"] = digest(("quarantined", message.source, *coordinate_parts(row)))
    return row


def as_refused(row: Row, reason: Reason, detail: str) -> Row:
    """The outcome of a change, or half, that was read but cannot be used."""
    return {
        **row,
        "kind": "quarantined",
        "before": None,
        "after": None,
        "reason": str(reason),
        "detail": detail,
    }


def as_excluded(row: Row) -> Row:
    """The outcome of a change whose table the configuration excludes."""
    return {**row, "kind": "excluded", "before": None, "after": None, "half": None, "shape": None}


def as_forgotten(message: RawMessage, format_name: str, epoch: int) -> Row:
    """The outcome of a message that `forget` has emptied."""
    row = as_quarantined(message, format_name, Malformed(Reason.EMPTY), epoch=epoch)
    topic, partition, offset, _, *later_epoch = coordinate_parts(row)
    change_id = digest((FORGOTTEN, message.source, topic, partition, offset, *later_epoch))
    return {**row, "kind": "excluded", "reason": FORGOTTEN, "change_id": change_id}


class DuplicateReason(StrEnum):
    """The `reason` of a duplicate; null for one that repeats a change of another message.

    `landed_again`: the message itself had landed before, as in dumps that overlap; `detail` identifies the
    landing. `update_complete`: a half that waited, until its whole update came from elsewhere.
    """

    LANDED_AGAIN = "landed_again"
    UPDATE_COMPLETE = "update_complete"


LANDED_AGAIN = "landed again"
"""How the detail of a duplicate begins if the message itself had landed before.

Earlier releases wrote this detail, and the next one, without a reason.
"""
_UPDATE_WAS_COMPLETE = "its update was complete already"


def of_first_landing(table: str) -> str:
    """OF_FIRST_LANDING for the rows of a table in a MERGE."""
    return _of_first_landing(f"{table}.")


def _of_first_landing(place: str) -> str:
    return (
        f"NOT ({place}kind = 'duplicate' AND coalesce({place}reason = '{DuplicateReason.LANDED_AGAIN}'"
        f" OR startswith({place}detail, '{LANDED_AGAIN}'), false))"
    )


OF_FIRST_LANDING = _of_first_landing("")
"""Whether an outcome is of the first landing of its message, as SQL; needs `kind`, `reason`, `detail`."""


def is_of_first_landing(kind: str, reason: str | None, detail: str | None) -> bool:
    """OF_FIRST_LANDING in this process."""
    has_landed = reason == DuplicateReason.LANDED_AGAIN or (detail or "").startswith(LANDED_AGAIN)
    return not (kind == "duplicate" and has_landed)


SETTLED_KINDS = ("row", "quarantined", "excluded")
"""The kinds of outcomes that end the waiting of a half; `forget` makes a row `excluded`."""
SETTLED_HALF = (
    f"kind IN {SETTLED_KINDS} OR (kind = 'duplicate' AND coalesce(reason ="
    f" '{DuplicateReason.UPDATE_COMPLETE}' OR detail = '{_UPDATE_WAS_COMPLETE}', false))"
)
"""Whether an outcome ends the waiting of its half, as SQL: one of SETTLED_KINDS, or UPDATE_COMPLETE.

It needs `kind`, `reason` and `detail`.
"""


def is_settled_half(kind: str, reason: str | None, detail: str | None) -> bool:
    """SETTLED_HALF in this process."""
    is_complete = reason == DuplicateReason.UPDATE_COMPLETE or detail == _UPDATE_WAS_COMPLETE
    return kind in SETTLED_KINDS or (kind == "duplicate" and is_complete)


def as_landed_again(row: Row, detail: str) -> Row:
    """The outcome of a row whose message has landed before, as in dumps that overlap."""
    blank = dict.fromkeys(("before", "after", "half", "shape", "position", "block", "evidence"))
    reason = str(DuplicateReason.LANDED_AGAIN)
    return {**row, **blank, "kind": "duplicate", "reason": reason, "detail": detail}


def as_duplicate(row: Row) -> Row:
    """The outcome of a change, or half, that duplicates an earlier one."""
    return {**row, "kind": "duplicate", "before": None, "after": None}
