"""Silver as gold finds it, written by hand: changes and statements batch by batch,
without any format or message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from framework.config.model import load_config
from framework.contracts.ddl_actions import Action, TableName, actions_text
from framework.contracts.events import Token
from framework.contracts.table_names import BATCHES_TABLE, SCHEMAS_TABLE, STATEMENTS_TABLE
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from framework.lakehouse.lakehouse import Lakehouse
from gold.job import rebuild_gold, run_gold
from gold.planning.table_state import TableState, read_states
from gold.writing.apply import Applied
from silver.batches.batch_counts import COUNTS_SCHEMA
from silver.layer import LAYER as SILVER

START = datetime(2024, 3, 1, tzinfo=UTC)
TYPES: Mapping[str, str] = {"id": "bigint", "n": "int"}
Image = dict[str, str | None]

FILE = "it's \\'a\\%2Ejsonl"
"""A file's name may be part of a sequence, and is anything."""


@dataclass(frozen=True)
class ChangeSpec:
    """A change or a statement of one table; `at` is its place in the source's order."""

    table: str
    at: int
    op: str = ""
    before: Image | None = None
    after: Image | None = None
    partial: bool = False
    keys: tuple[str, ...] | None = ("id",)
    types: Mapping[str, str] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
    kind: str = "row"
    has_position: bool = True
    epoch: int = 1
    is_placeless: bool = False
    """A row of a snapshot without a position: it comes before all changes of its epoch."""
    moment: int | None = None
    """When it was, where not at second `at`: changes of one moment are one transaction."""
    database: str = "db"

    @property
    def sequence(self) -> str:
        number = str(self.at)
        place = "010." if self.is_placeless else ""
        return f"01{self.epoch}.{place}{len(number):02d}{number}.{FILE}"


def row(number: int | str, **values: str | None) -> Image:
    return {"id": str(number), **values}


def insert(table: str, at: int, after: Image, **more: Any) -> ChangeSpec:
    return ChangeSpec(table, at, "insert", None, after, **more)


def snapshot(table: str, at: int, after: Image, **more: Any) -> ChangeSpec:
    """A row of a snapshot without a position."""
    return ChangeSpec(table, at, "read", None, after, is_placeless=True, **more)


def update(table: str, at: int, before: Image | None, after: Image, **more: Any) -> ChangeSpec:
    return ChangeSpec(table, at, "update", before, after, **more)


def delete(table: str, at: int, before: Image, **more: Any) -> ChangeSpec:
    return ChangeSpec(table, at, "delete", before, None, **more)


def excluded(table: str, at: int) -> ChangeSpec:
    """A message of a table that was excluded when it came."""
    return ChangeSpec(table, at, "insert", kind="excluded")


def refused(table: str, at: int) -> ChangeSpec:
    """A row in quarantine: it lacks the key that the configuration names."""
    return ChangeSpec(table, at, kind="quarantined")


def ddl(table: str, at: int, *actions: Action, **more: Any) -> ChangeSpec:
    return ChangeSpec(table, at, actions=actions, kind="ddl", **more)


def truncate(table: str, at: int) -> ChangeSpec:
    from framework.contracts.ddl_actions import TruncateTable

    return ChangeSpec(table, at, actions=(TruncateTable(),), kind="truncate")


class GoldPipeline:
    """A lakehouse with the given silver; `apply` brings gold up to date."""

    source = "feed"
    """The source of the next batch."""

    def __init__(self, spark: SparkSession, folder: Path, tables: str = "") -> None:
        self.spark, self.folder, self.batch, self.runs = spark, folder, -1, 0
        (folder / "landing").mkdir(parents=True)
        self.configure(tables)
        self.lake = Lakehouse(self.config.root)
        self.schemas: dict[str, tuple[tuple[str, str], ...]] = {}

    def configure(self, tables: str) -> None:
        """Write the configuration; `tables` are its entries, one a line."""
        file = self.folder / "mainstem.yml"
        head = "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
        file.write_text(head + ("tables:\n" + tables if tables else ""), encoding="utf-8")
        self.config = load_config(file, formats=SILVER.options())

    def add_batch(self, *events: ChangeSpec) -> None:
        """One batch of silver."""
        self.batch += 1
        rows = [self._row(event) for event in events]
        new = [
            (name, [_schema_column(*column) for column in columns], self.batch)
            for name, columns in self.schemas.items()
        ]
        self.lake.append(self.spark.createDataFrame(new, SCHEMAS).coalesce(1), SCHEMAS_TABLE) if new else None
        frame = self.spark.createDataFrame(rows, CHANGES).coalesce(1)
        self.lake.append(frame, "silver/changes")
        statements = [r for r in rows if r["kind"] in ("ddl", "truncate")]
        if statements:
            statement_rows = self.spark.createDataFrame(statements, CHANGES).drop(
                "before", "after", "partial", "half", "paired_with"
            )
            self.lake.append(statement_rows.coalesce(1), STATEMENTS_TABLE)
        self.lake.append(
            self.spark.createDataFrame(self._counts(rows), COUNTS_SCHEMA).coalesce(1), BATCHES_TABLE
        )

    def _row(self, event: ChangeSpec) -> dict[str, Any]:
        image = event.after or event.before or {}
        columns = tuple((name, event.types.get(name, TYPES.get(name, "string"))) for name in image)
        if event.kind == "row":
            self.schemas[_schema_id(columns)] = columns
        return {
            **dict.fromkeys(CHANGES.names),
            "change_id": f"{event.table}-{event.at}-{event.op or event.kind}",
            "source": self.source, "batch": self.batch, "kind": event.kind, "op": event.op or None,
            "database": event.database, "table": event.table,
            "sequence": event.sequence if event.has_position else None,
            "event_time": START + timedelta(seconds=event.at if event.moment is None else event.moment),
            "ordinal": 0, "keys": list(event.keys) if event.keys else None,
            "before": event.before, "after": event.after, "partial": event.partial,
            "schema_id": _schema_id(columns),
            "actions": actions_text(event.actions) if event.actions else None,
            "statement": "told" if event.actions else None,
        }  # fmt: skip

    def _counts(self, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
        found = {}
        for one in rows:
            found.setdefault((one["database"], one["table"], one["kind"]), []).append(one)
        names = (
            "batch",
            "source",
            "database",
            "schema",
            "table",
            "kind",
            "rows",
            "min_sequence",
            "max_sequence",
        )
        counts = []
        for (database, table, kind), mine in found.items():
            places = [one["sequence"] for one in mine if one["sequence"] is not None]
            values = (
                self.batch,
                self.source,
                database,
                None,
                table,
                kind,
                len(mine),
                min(places, default=None),
                max(places, default=None),
            )
            known = dict(zip(names, values, strict=True))
            counts.append({name: known.get(name) for name in _COUNTED})
        return counts

    def apply(self, only: str | None = None) -> dict[str, Applied]:
        """What gold did, by table."""
        self.runs += 1
        return {
            a.state.name.table: a
            for a in run_gold(self.spark, self.lake, self.config, f"run-{self.runs}", only).tables
        }

    def rebuild(self, table: str) -> Applied:
        (applied,) = rebuild_gold(self.spark, self.lake, self.config, "rebuild", f"db.{table}").tables
        return applied

    def state(self, table: str) -> TableState:
        return read_states(self.spark, self.lake)["feed", TableName("db", None, table)]

    def rows(self, table: str, *own: str) -> list[dict[str, Any]]:
        """The rows of a replica by key: the source's columns that are not null,
        and the own ones asked for.
        """
        return self._read(f"{self.lake.root}/gold/db/{table}", own, "id")

    def history(self, table: str) -> list[dict[str, Any]]:
        own = ("_cdc_valid_from", "_cdc_valid_to", "_cdc_is_current", "_cdc_op")
        found = self._read(f"{self.lake.root}/gold/db/{table}__history", own, "id", "_cdc_sequence")
        for one in found:
            for name in ("_cdc_valid_from", "_cdc_valid_to"):
                moment = one.pop(name, None)
                one[name[11:]] = (
                    None if moment is None else int((moment.replace(tzinfo=UTC) - START).total_seconds())
                )
        return found

    def _read(self, path: str, own: Sequence[str], *order: str) -> list[dict[str, Any]]:
        frame = self.spark.read.format("delta").load(path).orderBy(*(F.col(f"`{name}`") for name in order))
        found = []
        for one in frame.toArrow().to_pylist():
            found.append(
                {
                    k: v
                    for k, v in one.items()
                    if (not k.startswith("_cdc_") or k in own or "dropped" in k) and v is not None
                }
            )
        return found


_COUNTED = [part.split()[0].strip("`") for part in COUNTS_SCHEMA.split(", ")]


def _schema_column(name: str, kind: str) -> tuple[str, str | None, str | None, str | None]:
    """A column of a schema; `number` is the kind of a JSON value whose type the feed does not declare."""
    return (name, None, None, kind) if kind == Token.NUMBER else (name, kind, kind, None)


def copied(events: Sequence[ChangeSpec], table: str) -> list[ChangeSpec]:
    """The same events of another table."""
    return [replace(event, table=table) for event in events]


def _schema_id(columns: tuple[tuple[str, str], ...]) -> str:
    return hashlib.sha256(repr(columns).encode()).hexdigest()
