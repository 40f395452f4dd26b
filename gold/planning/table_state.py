"""The progress of each table, in `ops/tables`: append-only, the row with the highest revision counts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from framework.contracts.ddl_actions import TableName
from framework.contracts.table_names import BATCHES_TABLE, TABLES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.log_rows import append_rows
from framework.lakehouse.newest_tables import newest_tables
from framework.lakehouse.table_reader import Query, Row, TableReader
from framework.text.formatting import quantity
from gold.changes.profile import Profile
from gold.planning.stored_profiles import profile_of_values, profile_values
from gold.schema.columns import TableColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.lakehouse.older_copies import Mark

TableId = tuple[str, TableName]
"""A source and one of its tables."""
SCHEMA = (
    "revision bigint, run_id string, recorded_at timestamp, "
    "source string, database string, schema string, `table` string, "
    "state string, reason string, replica string, history string, "
    "keys array<string>, columns string, lineage string, "
    "batch bigint, sequence string, event_time timestamp, "
    "changes_applied bigint, late bigint, bad_values bigint, "
    "profile string"
)


RENAMED = "renamed"
"""Why a table is dropped whose rows are under another name now."""
GATE_KEYS = "gate_keys"
"""The member of the column `profile` with the keys of rows that break a gate."""
_OLDER_GATE, _IN_BRACKETS = "GATE_FAILED", re.compile(r"\[([^\]]*)\]")
"""Earlier releases wrote those keys into `reason`, each in brackets."""


_NEWEST_STATES = Query(
    TABLES_TABLE,
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY `source`, `database`, `schema`, `table` "
    "ORDER BY `revision` DESC) AS `n` FROM {rows}) AS numbered WHERE `n` = 1",
)
_WRITTEN = Query(
    TABLES_TABLE,
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY `source`, `database`, `schema`, `table`, "
    "`replica`, `history` ORDER BY `revision` DESC) AS `n` FROM {rows} WHERE `replica` IS NOT NULL) "
    "AS numbered WHERE `n` = 1",
)
_EXTENTS = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, max(`max_event_time`) AS `newest`, "
    "max(CASE WHEN `kind` IN ('row', 'ddl', 'truncate') THEN `batch` END) AS `last_batch` FROM {rows} "
    "GROUP BY `source`, `database`, `schema`, `table`",
)
_BATCHES_SINCE = Query(
    BATCHES_TABLE,
    "SELECT DISTINCT `source`, `database`, `schema`, `table`, `batch` FROM {rows} "
    "WHERE `kind` IN ('row', 'ddl', 'truncate') AND `table` IS NOT NULL AND `batch` >= {first}",
)


class State(StrEnum):
    """What state a table is in."""

    ACTIVE = "active"
    APPEND_ONLY = "append_only"
    PARKED = "parked"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Collisions:
    """How many added rows met an existing row of their key, with other values: a sign of a narrow key.

    `loaded` are rows of a snapshot that met one of the same load, `inserts` those of changes.
    """

    inserts: int = 0
    loaded: int = 0

    @property
    def total(self) -> int:
        """How many rows these are."""
        return self.inserts + self.loaded

    def __add__(self, other: Collisions) -> Collisions:
        return Collisions(self.inserts + other.inserts, self.loaded + other.loaded)

    def __str__(self) -> str:
        """A note for people."""
        found = [quantity(self.inserts, "insert")] if self.inserts or not self.loaded else []
        found += [f"{quantity(self.loaded, 'row')} of a snapshot"] if self.loaded else []
        return f"{' and '.join(found)} met a row that was there"


@dataclass(frozen=True, slots=True)
class TableState:
    """How far gold has come with one table.

    Attributes:
        source: The table's source.
        name: Its newest name.
        state: Active, append-only, parked or dropped.
        revision: The number of this state; the highest one of a table counts.
        reason: Why the table is parked or dropped.
        gate_keys: Of a table that is parked by a gate: keys of rows that break it. None for other reasons.
        refused_at: Of a table that is parked for what its changes, statements and settings are: a digest of
            these. None for other reasons.
        replica: A path that a Delta reader opens; None where there is no replica yet, or no longer, because
            another table has taken its place.
        history: The path of the history; None where there is none.
        keys: The key columns, by their source names.
        columns: The columns of the replica.
        comment: What the source says of the table; None where it says nothing.
        lineage: A digest of the applied statements.
        batch: The last batch of silver that was applied.
        sequence: The highest sequence that was applied.
        event_time: The newest event time that was applied.
        changes_applied: How many changes were applied.
        late: How many of them were late.
        bad_values: How many cells do not fit their columns.
        profile: What the applied changes show.
        built_with: The settings with which the replica was built; None where they are unknown.
        repair: Silver's newest repair of the table at that time.
        collisions: How many added rows met an existing one since the table was last rebuilt.
        is_unlisted: `ops/bad_values` was lost, and does not list all cells of the table yet.
        marks: The last commit that a run has made in the replica, and in the history if there is one; empty
            where gold does not read the logs of tables itself.
        erased: The commits there with which rows were forgotten after that run; empty where there are none.
    """

    source: str
    name: TableName
    state: State
    revision: int = 0
    reason: str | None = None
    gate_keys: tuple[str, ...] | None = None
    refused_at: str | None = None
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
    built_with: str | None = None
    repair: str | None = None
    collisions: Collisions = Collisions()
    is_unlisted: bool = False
    comment: str | None = None
    marks: tuple[Mark, ...] = ()
    erased: tuple[Mark, ...] = ()

    @property
    def is_displaced(self) -> bool:
        """Whether the table had a replica whose place another table has taken."""
        return self.replica is None and bool(self.columns)


def read_states(spark: SparkSession, lake: Lakehouse) -> dict[TableId, TableState]:
    """The newest state of each table of the pipeline, for a run: it reads no more than what is new."""
    # slow to load, and commands that only read the states do without
    from framework.lakehouse.kept_rows import kept_rows
    from gold.planning.kept_logs import STATES

    kept = kept_rows(lake, STATES)
    return states_of(newest_tables(spark, lake)) if kept is None else _states(kept, lake.own_location)


def states_of(tables: TableReader) -> dict[TableId, TableState]:
    """The newest state of each table of the pipeline, read with any reader."""
    return _states(tables.rows(_NEWEST_STATES), tables.own_location)


def written_states(tables: TableReader) -> list[TableState]:
    """The newest state of each table with each replica and history that it has had, the newest one last."""
    rows = sorted(tables.rows(_WRITTEN), key=lambda row: row["recorded_at"])
    return [_own_state(row, tables.own_location) for row in rows]


def _states(rows: Iterable[Row], own: Callable[[str | None], str | None]) -> dict[TableId, TableState]:
    states = [_own_state(row, own) for row in rows]
    return {(state.source, state.name): state for state in states}


def _own_state(row: Row, own: Callable[[str | None], str | None]) -> TableState:
    return _state({**row, **{c: own(row[c]) for c in ("replica", "history")}})


def applied_to_any(states: Mapping[TableId, TableState]) -> int:
    """The newest batch of silver that gold has applied to any table; -1 where there is none."""
    return max((state.batch for state in states.values()), default=-1)


def silver_extents(tables: TableReader) -> Sequence[Row]:
    """How far silver has come with each table, and with what belongs to no table, whose `table` is null.

    `last_batch` is the last batch with changes of the table, `newest` its newest event time.
    """
    return tables.rows(_EXTENTS)


def waiting_batches(
    tables: TableReader, states: Collection[TableState], extents: Iterable[Row]
) -> dict[TableId, int]:
    """How many batches of silver have changes of each table that the table has not applied."""
    applied = {(state.source, state.name): state.batch for state in states}
    last = {table_id(row): row["last_batch"] for row in extents if row["last_batch"] is not None}
    behind = {place: batch for place, batch in applied.items() if last.get(place, batch) > batch}
    if not behind:
        return {}
    waiting = tables.rows(_BATCHES_SINCE, first=min(behind.values()) + 1)
    found = ((table_id(row), row["batch"]) for row in waiting)
    return Counter(place for place, batch in found if place in behind and batch > behind[place])


def table_id(row: Row) -> TableId:
    """The table that a row of a log belongs to."""
    return row["source"], TableName(row["database"], row["schema"], row["table"])


def append_states(spark: SparkSession, lake: Lakehouse, states: Iterable[TableState], run_id: str) -> None:
    """Appends new states to `ops/tables`, in one commit."""
    rows = [_row(replace(state, revision=state.revision + 1), run_id) for state in states]
    if rows:
        append_rows(spark, (lake, TABLES_TABLE), rows, SCHEMA)


def _row(state: TableState, run_id: str) -> tuple[Any, ...]:
    return (
        state.revision, run_id, datetime.now(UTC),
        state.source, state.name.database, state.name.schema, state.name.table,
        str(state.state), state.reason, state.replica, state.history, list(state.keys),
        json.dumps([_column_values(c) for c in state.columns], ensure_ascii=False),
        state.lineage, state.batch, state.sequence, state.event_time, state.changes_applied, state.late,
        state.bad_values,
        json.dumps({**profile_values(state.profile), **_more(state)}, ensure_ascii=False),
    )  # fmt: skip


def _column_values(column: TableColumn) -> list[str | None]:
    values = [column.name, column.type, column.declared]
    return values if column.comment is None else [*values, column.comment]


def _more(state: TableState) -> dict[str, Any]:
    """What the column `profile` has besides the profile: the table has the columns of earlier releases."""
    more: dict[str, Any] = {
        "made_as": state.built_with,
        "repair": state.repair,
        "inserts_met": state.collisions.inserts,
    }
    more |= {"loads_met": state.collisions.loaded} if state.collisions.loaded else {}
    more |= {"is_unlisted": True} if state.is_unlisted else {}
    more |= {} if state.comment is None else {"comment": state.comment}
    more |= {"commits": list(state.marks)} if state.marks else {}
    more |= {"erased": list(state.erased)} if state.erased else {}
    if state.state is State.PARKED and state.gate_keys is not None:
        more[GATE_KEYS] = list(state.gate_keys)
    if state.state is State.PARKED and state.refused_at is not None:
        more["refused_at"] = state.refused_at
    return more


def _state(row: Row) -> TableState:
    profile = json.loads(row["profile"] or "{}")
    moment = row["event_time"]
    event_time = None if moment is None else moment.astimezone(UTC).replace(tzinfo=None)
    return TableState(
        source=row["source"],
        name=TableName(row["database"], row["schema"], row["table"]),
        state=State(row["state"]),
        revision=row["revision"],
        reason=row["reason"],
        gate_keys=_gate_keys(profile, row["reason"]),
        refused_at=profile.get("refused_at"),
        replica=row["replica"],
        history=row["history"],
        keys=tuple(row["keys"] or ()),
        columns=tuple(TableColumn(*column) for column in json.loads(row["columns"] or "[]")),
        lineage=row["lineage"] or "",
        batch=row["batch"],
        sequence=row["sequence"],
        event_time=event_time,
        changes_applied=row["changes_applied"] or 0,
        late=row["late"] or 0,
        bad_values=row["bad_values"] or 0,
        profile=profile_of_values(profile, event_time),
        built_with=profile.get("made_as"),
        repair=profile.get("repair"),
        collisions=Collisions(profile.get("inserts_met", 0), profile.get("loads_met", 0)),
        is_unlisted=profile.get("is_unlisted", False),
        comment=profile.get("comment"),
        marks=tuple(profile.get("commits", ())),
        erased=tuple(profile.get("erased", ())),
    )


def _gate_keys(profile: Mapping[str, Any], reason: str | None) -> tuple[str, ...] | None:
    if GATE_KEYS in profile:
        return tuple(profile[GATE_KEYS])
    is_older = reason is not None and reason.startswith(_OLDER_GATE)
    return tuple(_IN_BRACKETS.findall(reason or "")) if is_older else None
