"""Makes a lakehouse wide or deep without the runs that would take hours.

The rows of a few real runs are multiplied in the Delta tables where they are, and the folders of replicas
are copied. The new rows have change ids, offsets and sequences of their own, so that every message of
`bronze/messages` has one outcome, and `ops/batches` and `ops/tables` count what is there. The bytes of a
message are those of its original: they must not be decoded again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from delta.tables import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.contracts.batch_ids import BATCH_ID_STEP
from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    MESSAGES_TABLE,
    QUALITY_RESULTS_TABLE,
    SCHEMAS_TABLE,
)
from framework.naming import replica_folder
from framework.pipeline.layer import Run
from gold.planning.table_state import TableState, append_states, read_states

_SPAN = 1_000_000
"""How far the offsets of a copy are from those of its original: more than a file of the feed has lines."""
_TICK = 1_000_000
"""A millisecond in the positions of DataHub Blob, which are times."""
_ROWS_PER_FILE = 1_000_000
_Columns = Mapping[str, Column]


def widen(run: Run, tables: int) -> None:
    """Adds copies of all tables, with their messages and changes, until there are so many tables."""
    states = list(read_states(run.spark, run.lake).values())
    copies = tables // len(states) - 1
    if copies < 1:
        return
    name = F.concat("table", F.lit("_c"), "copy")
    schema_id = F.concat("schema_id", F.lit("-"), "copy")
    _copy(run, SCHEMAS_TABLE, copies, {"schema_id": schema_id})
    _copy(run, MESSAGES_TABLE, copies, _offsets("offset", "line"), is_read=True)
    _copy(run, CHANGES_TABLE, copies, {**_new_changes(), "table": name, "schema_id": schema_id})
    _copy(run, BATCHES_TABLE, copies, {"table": name})
    is_of_table = F.col("database").isNotNull()
    _copy(run, QUALITY_RESULTS_TABLE, copies, {"table": name}, where=is_of_table)
    names = [(state, _table_copy(state, copy)) for copy in range(1, copies + 1) for state in states]
    for state, other in names:
        shutil.copytree(str(state.replica), str(other.replica), copy_function=os.link)
    append_states(run.spark, run.lake, [other for _, other in names], "multiplied")


def deepen(run: Run, rows: int) -> None:
    """Adds copies of the changes of the second batch, each a little later, until there are so many changes.

    They are behind all that the next batch brings, and each has the two messages of an update.
    """
    spark, lake, batch = run.spark, run.lake, BATCH_ID_STEP
    is_mine = F.col("batch") == batch
    counts = lake.read(spark, BATCHES_TABLE).where(is_mine).collect()
    known = lake.read(spark, CHANGES_TABLE)
    copies = (rows - known.count()) // sum(row["rows"] for row in counts)
    if copies < 1:
        return
    topics = [row[0] for row in known.where(is_mine).select("topic").distinct().collect()]
    is_read = F.col("topic").isin(*topics)
    _copy(run, MESSAGES_TABLE, copies, _offsets("offset", "line"), where=is_read, is_read=True)
    later = {"sequence": _later("sequence", F.col("copy")), "event_time": _after(F.col("copy"))}
    _copy(run, CHANGES_TABLE, copies, {**_new_changes(), **later}, where=is_mine)
    last = F.lit(copies).cast("bigint")
    DeltaTable.forPath(spark, lake.location(BATCHES_TABLE)).update(
        is_mine,
        {
            "rows": F.col("rows") * (copies + 1),
            "merged": F.col("merged") * (copies + 1),
            "max_sequence": _later("max_sequence", last),
            "max_event_time": _after(last, "max_event_time"),
        },
    )
    added = {row["table"]: row["rows"] * copies for row in counts}
    states = read_states(spark, lake).values()
    tops = {
        row["table"]: row["max_sequence"] for row in lake.read(spark, BATCHES_TABLE).where(is_mine).collect()
    }
    moved = [
        replace(
            state,
            sequence=tops[state.name.table],
            event_time=state.event_time and state.event_time + timedelta(milliseconds=copies),
            changes_applied=state.changes_applied + added[state.name.table],
            profile=replace(
                state.profile,
                rows=state.profile.rows + added[state.name.table],
                max_sequence=tops[state.name.table],
            ),
        )
        for state in states
    ]
    append_states(spark, lake, moved, "multiplied")


def _table_copy(state: TableState, copy: int) -> TableState:
    name = TableName(state.name.database, state.name.schema, f"{state.name.table}_c{copy}")
    own, other = (replica_folder(n.database, n.schema, n.table) for n in (state.name, name))
    assert state.replica is not None
    return replace(state, name=name, replica=state.replica.removesuffix(own) + other)


def _copy(
    run: Run,
    table: str,
    copies: int,
    columns: _Columns,
    *,
    where: Column | None = None,
    is_read: bool = False,
) -> None:
    """Appends copies of rows of a table, whose columns may name the number of the `copy`.

    With `is_read`, a stream over the table takes no notice: it has read the new rows.
    """
    rows = run.lake.read(run.spark, table)
    rows = (rows if where is None else rows.where(where)).localCheckpoint()
    parts = max(rows.count() * copies // _ROWS_PER_FILE, 1)
    numbers = run.spark.range(1, copies + 1, 1, parts).withColumnRenamed("id", "copy")
    many = numbers.crossJoin(F.broadcast(rows)).withColumns(dict(columns)).drop("copy")
    kinds = {field.name: field.dataType for field in rows.schema}
    typed = many.select(*(F.col(f"`{name}`").cast(kind) for name, kind in kinds.items()))
    options = {"dataChange": "false"} if is_read else {}
    typed.write.format("delta").mode("append").options(**options).save(run.lake.location(table))


def _new_changes() -> _Columns:
    return {
        "change_id": F.md5(F.concat("change_id", F.lit("/"), "copy")),
        "paired_with": F.col("paired_with").withField("offset", F.col("paired_with.offset") + _distance()),
        **_offsets("offset"),
    }


def _offsets(*names: str) -> _Columns:
    return {name: F.col(name) + _distance() for name in names}


def _distance() -> Column:
    return F.col("copy") * _SPAN


def _later(name: str, ticks: Column) -> Column:
    """A sequence of DataHub Blob so many milliseconds later; its position follows two digits of length."""
    position = F.substring(name, 11, 30).cast("bigint") + ticks * _TICK
    return F.concat(F.substring(name, 1, 10), position.cast("string"))


def _after(ticks: Column, name: str = "event_time") -> Column:
    return F.timestamp_micros(F.unix_micros(name) + ticks * 1_000)
