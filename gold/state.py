"""The progress of each table, in `ops/tables`: append-only, the row with the highest revision counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from framework.contracts.actions import TableName
from framework.tables import Lakehouse
from gold.columns import Seen, Shape, TableColumn
from gold.profile import Profile

TABLES_TABLE = "ops/tables"
SCHEMA = (
    "revision bigint, run_id string, recorded_at timestamp, source string, database string, schema string, `table` string, "
    "state string, reason string, replica string, history string, keys array<string>, columns string, lineage string, "
    "batch bigint, sequence string, event_time timestamp, changes_applied bigint, late bigint, bad_values bigint, profile string"
)


class State(StrEnum):
    """What a table is."""

    ACTIVE = "active"
    APPEND_ONLY = "append_only"
    PARKED = "parked"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class TableState:
    """Where gold stands with one table. `batch` is the last silver batch applied, `lineage` a digest of its statements.

    `replica` and `history` are paths that a Delta reader opens, null where there is none yet. `made_as` says by which
    settings the replica was made, null where that was not noted.
    """

    source: str
    name: TableName
    state: State
    revision: int = 0
    reason: str | None = None
    replica: str | None = None
    history: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[TableColumn, ...] = ()
    lineage: str = ""
    batch: int = -1
    sequence: str | None = None
    event_time: datetime | None = None
    changes_applied: int = 0
    late: int = 0
    bad_values: int = 0
    profile: Profile = field(default_factory=Profile)
    made_as: str | None = None


def read_states(spark: SparkSession, lake: Lakehouse) -> dict[tuple[str, TableName], TableState]:
    """The newest state of each table of the pipeline."""
    if not lake.exists(spark, TABLES_TABLE):
        return {}
    place = ("source", "database", "schema", "table")
    newest = Window.partitionBy(*place).orderBy(F.desc("revision"))
    rows = lake.read(spark, TABLES_TABLE).withColumn("n", F.row_number().over(newest)).where("n = 1").collect()
    states = [_state(row.asDict()) for row in rows]
    return {(state.source, state.name): state for state in states}


def append_states(spark: SparkSession, lake: Lakehouse, states: Iterable[TableState], run_id: str) -> None:
    """Publish new states, in one commit."""
    rows = [_row(replace(state, revision=state.revision + 1), run_id) for state in states]
    if rows:
        frame = spark.createDataFrame(rows, SCHEMA)
        names = frame.columns
        stamped = frame.withColumn("recorded_at", F.current_timestamp())
        lake.append(stamped.select(*(F.col(f"`{n}`") for n in names)).coalesce(1), TABLES_TABLE)


def _row(state: TableState, run_id: str) -> tuple[Any, ...]:
    profile = state.profile
    return (
        state.revision, run_id, None, state.source, state.name.database, state.name.schema, state.name.table,
        str(state.state), state.reason, state.replica, state.history, list(state.keys),
        json.dumps([[c.name, c.type, c.declared] for c in state.columns], ensure_ascii=False),
        state.lineage, state.batch, state.sequence, state.event_time, state.changes_applied, state.late, state.bad_values,
        json.dumps({**_profile_values(profile), "made_as": state.made_as}, ensure_ascii=False),
    )  # fmt: skip


def _profile_values(profile: Profile) -> dict[str, Any]:
    return {
        "rows": profile.rows,
        "sequences": [profile.min_sequence, profile.max_sequence],
        "keys": [profile.keys, profile.keys_stretch, profile.keys_sequence],
        "told_keys": [[stretch, names, low] for (stretch, names), low in sorted(profile.told_keys.items())],
        "has_partials": profile.has_partials,
        "has_moves": profile.has_moves,
        "has_partial_moves": profile.has_partial_moves,
        "shapes": [[s.stretch, s.last_sequence, list(s.columns)] for s in profile.shapes],
        "seen": [
            [stretch, name, sorted(s.types), sorted(s.declared), sorted(s.tokens), s.digits, s.scale, s.low, s.high, s.has_others]
            for (stretch, name), s in profile.seen.items()
        ],
    }


def _state(row: dict[str, Any]) -> TableState:
    profile = json.loads(row["profile"] or "{}")
    return TableState(
        source=row["source"],
        name=TableName(row["database"], row["schema"], row["table"]),
        state=State(row["state"]),
        revision=row["revision"],
        reason=row["reason"],
        replica=row["replica"],
        history=row["history"],
        keys=tuple(row["keys"] or ()),
        columns=tuple(TableColumn(*column) for column in json.loads(row["columns"] or "[]")),
        lineage=row["lineage"] or "",
        batch=row["batch"],
        sequence=row["sequence"],
        event_time=row["event_time"],
        changes_applied=row["changes_applied"] or 0,
        late=row["late"] or 0,
        bad_values=row["bad_values"] or 0,
        profile=_profile(profile, row["event_time"]),
        made_as=profile.get("made_as"),
    )


def _profile(values: dict[str, Any], event_time: datetime | None) -> Profile:
    if not values:
        return Profile()
    keys, stretch, sequence = values["keys"]
    return Profile(
        rows=values["rows"],
        min_sequence=values["sequences"][0],
        max_sequence=values["sequences"][1],
        event_time=event_time,
        keys=tuple(keys) if keys else None,
        keys_stretch=stretch,
        keys_sequence=sequence,
        told_keys={(at, tuple(names)): low for at, names, low in values.get("told_keys", ())},
        has_partials=values["has_partials"],
        has_moves=values["has_moves"],
        has_partial_moves=values.get("has_partial_moves", values["has_moves"] and values["has_partials"]),
        shapes=tuple(Shape(s, high, tuple(names)) for s, high, names in values["shapes"]),
        seen={
            (s, name): Seen(frozenset(types), frozenset(declared), frozenset(tokens), digits, scale, low, high, others)
            for s, name, types, declared, tokens, digits, scale, low, high, others in values["seen"]
        },
    )
