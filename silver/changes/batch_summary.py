"""A summary of decoded rows: their groups by table, kind and reason, and their extents by source.

It is made for each Arrow batch as soon as that is decoded, so that what silver decides about a whole batch of
messages needs no look at its rows. `silver/batches/contents.py` puts the summaries together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from framework.contracts.change_measures import measures_text
from framework.contracts.full_loads import WITHOUT_POSITION
from silver.changes.change_measures import MEASURED_BY, NONE_KNOWN, Measured, measures_by_table
from silver.changes.staged_rows import STAGED
from silver.values.sequence import FIRST_PART

IDENTIFIED = ("row", "ddl", "truncate", "heartbeat", "transaction", "tombstone")
"""Kinds whose `change_id` shows duplicates."""
GROUPED_BY = ("source", "database", "schema", "table", "kind", "reason")
OPEN_HALF = "open half"
"""The kind, in a summary, of the halves of updates that have found no partner yet."""

pc: Any = pyarrow.compute
_TEXT, _COUNT, _STAMP = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC")
_GROUP_FIELDS: list[Any] = [
    *(pa.field(name, _TEXT) for name in GROUPED_BY),
    pa.field("rows", _COUNT),
    pa.field("merged", _COUNT),
    pa.field("snapshots", _COUNT),
    pa.field("min_sequence", _TEXT),
    pa.field("max_sequence", _TEXT),
    pa.field("min_event_time", _STAMP),
    pa.field("max_event_time", _STAMP),
    pa.field("server", _TEXT),
    pa.field("server_sequence", _TEXT),
    pa.field("messages", _COUNT),
    pa.field("halves", _COUNT),
    pa.field("min_place", _TEXT),
    pa.field("min_server", _TEXT),
    pa.field("max_server", _TEXT),
    pa.field("ambiguous_positions", _COUNT),
    pa.field("in_partitions", _COUNT),
    pa.field("schemas", pa.list_(_TEXT)),
    pa.field("evidence", pa.list_(_TEXT)),
    pa.field("measures", _TEXT),
]
GROUPS = pa.schema(_GROUP_FIELDS)
"""The rows of one table, kind and reason; open halves are of the kind OPEN_HALF.

`merged` counts updates merged from halves, `snapshots` rows of a full load without a position, `halves`
halves of updates, `ambiguous_positions` rows whose position does not identify their change, `in_partitions`
rows ordered by their partition, and `messages` the messages that the rows stand for. `min_sequence` is the
lowest sequence of rows and statements, `max_event_time` the newest believable time, `server` that of the row
with the highest sequence among those with a server; `min_server` and `max_server` are the first and the last
by name of all servers. No possible duplicate of a row is below `min_place`; it is null where only the
coordinates identify the rows. `schemas` are the ids of the schemas whose columns stand in a row, `evidence`
is what the values show of their encodings, and `measures` of row changes is what gold needs to plan
(`framework/contracts/change_measures.py`), empty where that is not measured, and null of other kinds.
"""
_EXTENT_FIELDS: list[Any] = [
    pa.field("source", _TEXT),
    pa.field("low", _TEXT),
    pa.field("high", _TEXT),
    pa.field("may_repeat", pa.bool_()),
    pa.field("first", _TEXT),
    pa.field("last", _TEXT),
    pa.field("oldest", _COUNT),
    pa.field("newest", _COUNT),
    pa.field("fall", _COUNT),
]
EXTENTS = pa.schema(_EXTENT_FIELDS)
"""Where the whole changes of a source begin and end, in one stretch of an Arrow batch (`_stretches`).

No duplicate of a change is outside of `low` and `high` of its stretch, both included, unless that stretch
`may_repeat` changes: one of its ids occurs twice, or a row has no position.

The rest is about row changes with a position: their lowest and highest sequence, their oldest and newest
event time, and by how much at most a change is older than one with a lower sequence, all in microseconds.
The times are null if there is no such change, or if one has no certain time.
"""
_LISTS: list[Any] = [
    pa.field("groups", pa.list_(pa.struct(_GROUP_FIELDS))),
    pa.field("extents", pa.list_(pa.struct(_EXTENT_FIELDS))),
]
_SUMMARY: Any = pa.struct(_LISTS)
SUMMARY_DDL = (
    "summary struct<groups:array<struct<source:string,database:string,schema:string,`table`:string,"
    "kind:string,reason:string,rows:bigint,merged:bigint,snapshots:bigint,min_sequence:string,"
    "max_sequence:string,min_event_time:timestamp,max_event_time:timestamp,server:string,"
    "server_sequence:string,messages:bigint,halves:bigint,min_place:string,min_server:string,"
    "max_server:string,ambiguous_positions:bigint,in_partitions:bigint,schemas:array<string>,"
    "evidence:array<string>,measures:string>>,"
    "extents:array<struct<source:string,low:string,high:string,may_repeat:boolean,"
    "first:string,last:string,oldest:bigint,newest:bigint,fall:bigint>>>"
)
_MOST_STRETCHES = 16
_NEAR = 2
"""How far apart the offsets of two neighbours are: a change may be made of two messages."""
_NO_TEXT, _NO_TIME = pa.scalar(None, _TEXT), pa.scalar(None, _STAMP)
_Place = tuple[str | None, ...]
_Decoder = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def with_summaries(
    decode: _Decoder, believable: int | None, measured: Measured = NONE_KNOWN, *, are_decided: bool = False
) -> _Decoder:
    """A decoder (`arrow_decoder`) whose batches have a summary of themselves in their first row.

    Args:
        decode: The decoder.
        believable: The newest event time that counts, in microseconds since the Unix epoch; None if all do.
        measured: What was measured of other rows of the batch, for rows whose schemas no row describes here.
        are_decided: Whether it is decided what becomes of halves of updates: then each counts as its kind.
    """

    def decode_and_summarize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in decode(batches):
            if not batch.num_rows:
                continue
            counted = without_halves(batch) if are_decided else batch
            groups, extents = summary_of(counted, believable)
            groups = _with_measures(groups, counted, measured)
            first = pa.StructArray.from_arrays([_one_list(groups), _one_list(extents)], fields=_LISTS)
            column = pa.concat_arrays([first, pa.nulls(batch.num_rows - 1, _SUMMARY)])
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, column], schema=STAGED.append(pa.field("summary", _SUMMARY))
            )

    return decode_and_summarize


def without_halves(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as if none of them was a half of an update."""
    at = batch.schema.get_field_index("half")
    return batch.set_column(at, batch.schema.field(at), pa.nulls(batch.num_rows, batch.schema.field(at).type))


def _with_measures(groups: pa.Table, batch: pa.RecordBatch, measured: Measured) -> pa.Table:
    """Adds to the groups (GROUPS) of row changes what gold needs to plan."""
    found = measures_by_table(batch, measured)
    texts = {place: measures_text(measures) for place, measures in found.items()}
    columns = (groups.column(name).to_pylist() for name in (*MEASURED_BY, "kind"))
    column = [
        texts.get(tuple(place)) if kind == "row" else None for *place, kind in zip(*columns, strict=True)
    ]
    at = groups.schema.get_field_index("measures")
    return groups.set_column(at, "measures", pa.array(column, _TEXT))


def _one_list(table: pa.Table) -> pa.Array[Any]:
    """A list array with one list: the rows of the table."""
    rows = table.combine_chunks().to_struct_array()
    flat = pa.concat_arrays(rows.chunks) if rows.num_chunks else pa.array([], rows.type)
    return pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)


def summary_of(batch: pa.RecordBatch, believable: int | None) -> tuple[pa.Table, pa.Table]:
    """The groups (GROUPS) and extents (EXTENTS) of decoded rows (STAGED).

    Args:
        batch: The rows, at least one.
        believable: The newest event time that counts, in microseconds since the Unix epoch; None if all do.
    """
    column = {name: batch.column(name) for name in batch.schema.names}
    kind, sequence, time = column["kind"], column["sequence"], column["event_time"]
    is_whole = pc.is_null(column["half"])
    is_placed = pc.is_valid(column["block"])
    merged = pc.is_valid(column["paired_with"])
    # only its offset identifies a row of a partition without a time
    is_timeless = pc.and_(is_placed, pc.is_null(time))
    place = pc.coalesce(column["earliest"], column["position"], epoch_parts(sequence))
    place = pc.if_else(is_timeless, _NO_TEXT, place)
    is_certain = pc.or_(_are_same(sequence, column["position"]), pc.is_valid(column["earliest"]))
    is_row = pc.equal(kind, "row")
    is_snapshot = _is_true(pc.match_substring_regex(sequence, WITHOUT_POSITION))
    newest = time if believable is None else _up_to(time, believable)
    measured: dict[str, Any] = {
        **_counts(column, newest),
        "min_event_time": time,
        "messages": pc.add(_number(pc.equal(column["ordinal"], 0)), _number(merged)),
        "halves": _number(pc.invert(is_whole)),
        "min_place": place,
        "min_server": column["server"],
        "max_server": column["server"],
        "ambiguous_positions": _number(pc.and_(pc.and_(is_row, is_whole), pc.invert(is_certain))),
        "in_partitions": _number(is_placed),
    }
    keys = {name: column[name] for name in GROUPED_BY}
    keys["kind"] = pc.if_else(is_whole, kind, pa.scalar(OPEN_HALF))
    groups = _grouped(keys, measured)
    noted: dict[str, Mapping[_Place, Any]] = {
        **_servers(batch, keys),
        "schemas": _listed(batch, keys, "schema_id", "columns"),
        "evidence": _listed(batch, keys, "evidence", "evidence"),
    }
    places = _places(groups)
    for name, found in noted.items():
        values = [found.get(at) for at in places] if found else None
        kind_of = GROUPS.field(name).type
        groups = groups.append_column(
            name, pa.nulls(len(places), kind_of) if values is None else pa.array(values, kind_of)
        )
    groups = groups.append_column("measures", pa.nulls(len(places), _TEXT))
    is_positioned = pc.and_(pc.is_valid(sequence), pc.invert(is_snapshot))
    chosen = pc.and_(pc.and_(_is_change(column), is_whole), is_positioned)
    stretch = _stretches(batch)
    times = pa.table(
        {"source": column["source"], "stretch": stretch, "sequence": sequence, "time": newest,
         "is_open": pc.or_(pc.is_null(newest), pc.is_valid(column["committed"]))}
    ).filter(chosen)  # fmt: skip
    extents = _extents({**column, "stretch": stretch}, place, is_row, is_whole)
    return groups.select(GROUPS.names).cast(GROUPS), _with_times(extents, times)


def counts_by_batch(changes: pa.Table, newest: pa.Array[Any]) -> pa.Table:
    """The counts of each batch of `silver/changes` by GROUPED_BY; `newest` are the event times that count."""
    column = {name: changes.column(name) for name in changes.column_names}
    return _grouped({name: column[name] for name in ("batch", *GROUPED_BY)}, _counts(column, newest))


def _counts(column: Mapping[str, Any], newest: Any) -> dict[str, Any]:
    """What `ops/batches` counts of each row, the newest of whose event times are those that count."""
    sequence = column["sequence"]
    is_ordered = pc.is_in(column["kind"], value_set=pa.array(["row", "ddl", "truncate"]))
    is_snapshot = _is_true(pc.match_substring_regex(sequence, WITHOUT_POSITION))
    return {
        "rows": _ones(len(sequence)),
        "merged": _number(pc.is_valid(column["paired_with"])),
        "snapshots": _number(pc.and_(_is_true(pc.equal(column["op"], "read")), is_snapshot)),
        "min_sequence": pc.if_else(is_ordered, sequence, _NO_TEXT),
        "max_sequence": sequence,
        "max_event_time": newest,
    }


def _stretches(batch: pa.RecordBatch) -> Any:
    """Which stretch each row belongs to: rows of one stretch come from messages that are neighbours.

    A task reads parts of files that need not follow each other. Where an Arrow batch goes over from one to
    the next, a single extent would also contain all that lies between them. If the places where offsets jump
    are many, only the widest jumps count.
    """
    if batch.num_rows < 2:
        return pa.array([0] * batch.num_rows, pa.int32())
    offsets = pc.fill_null(batch.column("offset"), 0).to_numpy(zero_copy_only=False)
    jump = np.abs(np.diff(offsets)).astype(float)
    for name in ("source", "topic", "partition"):
        values = batch.column(name)
        is_other = pc.invert(_are_same(values[1:], values[:-1]))
        jump[is_other.to_numpy(zero_copy_only=False)] = np.inf
    begins = np.flatnonzero(jump > _NEAR)
    if len(begins) >= _MOST_STRETCHES:
        begins = begins[np.argsort(jump[begins], kind="stable")[1 - _MOST_STRETCHES :]]
    number = np.zeros(batch.num_rows, np.int32)
    number[begins + 1] = 1
    return pa.array(np.cumsum(number, dtype=np.int32))


def _extents(column: dict[str, Any], place: Any, is_row: Any, is_whole: Any) -> pa.Table:
    """The extents (EXTENTS) of the whole changes, and the `stretch` of each."""
    chosen = pc.and_(is_whole, pc.is_in(column["kind"], value_set=pa.array(IDENTIFIED)))
    is_open = pc.and_(is_row, pc.or_(pc.is_null(place), pc.is_null(column["sequence"])))
    rows = pa.table(
        {"source": column["source"], "stretch": column["stretch"], "low": place, "high": column["sequence"],
         "is_open": _number(is_open), "change_id": column["change_id"]}
    ).filter(chosen)  # fmt: skip
    measures: Any = [
        ("low", "min"),
        ("high", "max"),
        ("is_open", "sum"),
        ("change_id", "count"),
        ("change_id", "count_distinct"),
    ]
    found = rows.group_by(["source", "stretch"], use_threads=False).aggregate(measures)
    repeats = pc.less(found.column("change_id_count_distinct"), found.column("change_id_count"))
    may_repeat = pc.or_(repeats, pc.greater(found.column("is_open_sum"), 0))
    ends = [found.column(name) for name in ("source", "stretch", "low_min", "high_max")]
    columns: Any = [*ends, may_repeat]
    return pa.Table.from_arrays(columns, names=["source", "stretch", "low", "high", "may_repeat"])


def _is_change(column: Mapping[str, Any]) -> Any:
    """Whether a row is a row change of the log, of an excluded table too."""
    is_excluded = pc.and_(pc.equal(column["kind"], "excluded"), pc.is_null(column["reason"]))
    is_read = pc.equal(column["op"], "read")
    return pc.and_(
        pc.or_(pc.equal(column["kind"], "row"), is_excluded), pc.invert(pc.fill_null(is_read, True))
    )


def _with_times(extents: pa.Table, rows: pa.Table) -> pa.Table:
    """The extents (EXTENTS) with what the row changes show.

    `rows` have `source`, `stretch`, `sequence`, `time` and `is_open`.
    """
    known = {(extent["source"], extent["stretch"]): extent for extent in extents.to_pylist()}
    timed = rows.group_by(["source", "stretch"], use_threads=False).aggregate([]).to_pylist()
    found: list[dict[str, Any]] = [dict(extent) for extent in known.values()]
    # changes of excluded tables have no duplicates, but times
    found += [{**place, "may_repeat": False} for place in timed if tuple(place.values()) not in known]
    for extent in found:
        is_source = pc.equal(rows.column("source"), extent["source"])
        mine = rows.filter(pc.and_(is_source, pc.equal(rows.column("stretch"), extent.pop("stretch"))))
        if mine.num_rows:
            extent |= _times(mine.combine_chunks())
    return pa.Table.from_pylist(found, schema=EXTENTS)


def _times(rows: pa.Table) -> dict[str, Any]:
    sequence = rows.column("sequence")
    if not pc.all(pc.less_equal(sequence[:-1], sequence[1:])).as_py():
        rows = rows.sort_by("sequence")
        sequence = rows.column("sequence")
    ends = {"first": sequence[0].as_py(), "last": sequence[-1].as_py()}
    if pc.any(rows.column("is_open")).as_py():
        return ends
    at = rows.column("time").cast(pa.int64()).to_numpy()
    fall = int((np.maximum.accumulate(at) - at).max())
    return {**ends, "oldest": int(at.min()), "newest": int(at.max()), "fall": fall}


def _grouped(keys: Mapping[str, Any], measured: Mapping[str, Any]) -> pa.Table:
    """The measures of rows with the same keys: those named so the lowest or highest, sums of the others."""
    how = {name: name.partition("_")[0] if name[:4] in ("min_", "max_") else "sum" for name in measured}
    measures: Any = list(how.items())
    rows = pa.table({**keys, **measured}).group_by(list(keys), use_threads=False)
    found = rows.aggregate(measures)
    names = {f"{name}_{function}": name for name, function in how.items()}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def _servers(batch: pa.RecordBatch, keys: dict[str, Any]) -> dict[str, dict[_Place, str]]:
    """The server of each group's highest sequence among the rows with a server, and that sequence."""
    newest: dict[_Place, tuple[str, str]] = {}
    chosen = pc.and_(pc.is_valid(batch.column("server")), pc.is_valid(batch.column("sequence")))
    if pc.any(chosen).as_py():
        rows = pa.table({**keys, "sequence": batch.column("sequence"), "server": batch.column("server")})
        for *place, sequence, server in zip(
            *(c.to_pylist() for c in rows.filter(chosen).columns), strict=True
        ):
            if sequence >= newest.get(tuple(place), ("", ""))[0]:
                newest[tuple(place)] = (sequence, server)
    return {
        "server": {place: server for place, (_, server) in newest.items()},
        "server_sequence": {place: sequence for place, (sequence, _) in newest.items()},
    }


def _listed(batch: pa.RecordBatch, keys: dict[str, Any], name: str, given: str) -> dict[_Place, list[str]]:
    """The different values of a column by group, of the rows in which the column `given` has a value."""
    chosen = pc.is_valid(batch.column(given))
    if not pc.any(chosen).as_py():
        return {}
    rows = pa.table({**keys, "value": batch.column(name)}).filter(chosen)
    found = rows.group_by(list(GROUPED_BY), use_threads=False).aggregate([("value", "distinct")])
    lists: list[Any] = found.column("value_distinct").to_pylist()
    return {
        place: [v for v in values if v is not None]
        for place, values in zip(_places(found), lists, strict=True)
    }


def _places(groups: pa.Table) -> list[_Place]:
    """What the rows of each group have in common."""
    return list(zip(*(groups.column(name).to_pylist() for name in GROUPED_BY), strict=True))


def epoch_parts(sequence: Any) -> Any:
    """The epoch of each sequence, as the sequence writes it."""
    return pc.struct_field(pc.extract_regex(sequence, FIRST_PART), "part")


def _up_to(time: Any, newest: int) -> Any:
    """The times that are not after `newest` (microseconds since the Unix epoch); null for the others."""
    limit = pa.scalar(newest, pa.int64()).cast(_STAMP)
    return pc.if_else(_is_true(pc.less_equal(time, limit)), time, _NO_TIME)


def _are_same(one: Any, other: Any) -> Any:
    """Whether two values are equal; two nulls are."""
    return pc.or_(_is_true(pc.equal(one, other)), pc.and_(pc.is_null(one), pc.is_null(other)))


def _is_true(condition: Any) -> Any:
    return pc.fill_null(condition, False)


def _number(condition: Any) -> Any:
    """1 where the condition holds, else 0."""
    return _is_true(condition).cast(pa.int64())


def _ones(rows: int) -> Any:
    return pa.array([1] * rows, pa.int64())
