"""Table definitions that a feed sends beside its rows, collected before a batch is decoded.

They come from earlier batches (`ops/statements`) and from the batch itself, so they are the same when a batch
is run again. If a row is read in an earlier batch than the definition of its table, its types follow its
values at first; `silver/operations/late_definitions.py` decodes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.messages import RawMessage
from framework.contracts.table_names import SCHEMAS_TABLE, STATEMENTS_TABLE
from framework.contracts.table_schemas import CHANGES, SCHEMAS
from framework.lakehouse.lakehouse import Lakehouse
from silver.changes.decode import SourcePlan
from silver.decoding.table_definitions import (
    DefinitionsInEpoch,
    EpochPosition,
    TableDefinition,
    TableDefinitions,
    TableKey,
    definitions_by_table,
    definitions_in,
)
from silver.values.sequence import epoch_position_of

_MARK = '"tableChanges"'


def plans_with_definitions(
    messages: DataFrame,
    plans: Mapping[str, SourcePlan],
    known: dict[str, TableDefinitions],
    changed: dict[tuple[str, TableKey], EpochPosition],
) -> Mapping[str, SourcePlan]:
    """The plans with the definitions of this batch and of earlier ones.

    Adds the batch's own to `known`, and the tables that these define otherwise to `changed`, by source and
    table, each with the position from which on.
    """
    sources = [name for name, plan in plans.items() if plan.format.has_table_definitions]
    if not sources:
        return plans
    for source, structures in _in_batch(messages, plans, sources).items():
        before = known.get(source, TableDefinitions())
        changed.update({(source, table): since for table, since in before.changed_by(structures).items()})
        known[source] = before | structures
    return {name: _with(plan, known[name]) if name in known else plan for name, plan in plans.items()}


def known_definitions(
    spark: SparkSession, lake: Lakehouse, plans: Mapping[str, SourcePlan]
) -> dict[str, TableDefinitions]:
    """The definitions in earlier batches, by source."""
    sources = [name for name, plan in plans.items() if plan.format.has_table_definitions]
    if not sources or not lake.exists(spark, STATEMENTS_TABLE):
        return {}
    statements = lake.rows(spark, STATEMENTS_TABLE, CHANGES).where(
        F.col("source").isin(*sources) & F.col("schema_id").isNotNull()
    )
    schemas = lake.rows(spark, SCHEMAS_TABLE, SCHEMAS).select("schema_id", "columns")
    # a table that is created anew each hour has one schema: its columns come once
    rows = (
        statements.groupBy("source", "database", "schema", "table", "schema_id")
        .agg(F.collect_set("sequence").alias("sequences"))
        .join(schemas, "schema_id")
        .collect()
    )
    found: dict[str, list[TableDefinition]] = {}
    for row in rows:
        declared = tuple((c["name"], c["declared"]) for c in row["columns"] if c["declared"])
        if declared:
            name = (row["database"], row["schema"], row["table"])
            found.setdefault(row["source"], []).extend(
                TableDefinition(*name, epoch_position_of(sequence), declared)
                for sequence in row["sequences"]
                if sequence
            )
    return {source: definitions_by_table(structures) for source, structures in found.items()}


def _in_batch(
    messages: DataFrame, plans: Mapping[str, SourcePlan], sources: list[str]
) -> dict[str, TableDefinitions]:
    is_definition = F.col("key").isNull() | F.col("key").cast("string").contains('"databaseName"')
    candidates = messages.where(F.col("source").isin(*sources) & is_definition)
    if candidates.select("source").isEmpty():  # keys are small; the values of most batches are not read twice
        return {}
    mine = candidates.where(F.col("value").cast("string").contains(_MARK))
    found: dict[str, list[TableDefinition]] = {}
    for row in mine.select("source", "topic", "partition", "offset", "key", "value", "epoch").collect():
        plan = plans[row["source"]]
        coordinates = (row["source"], row["topic"], row["partition"], row["offset"])
        key, value = (None if cell is None else bytes(cell) for cell in (row["key"], row["value"]))
        try:
            structures = definitions_in(
                plan.format.decode(RawMessage(*coordinates, None, key, value), plan.context), row["epoch"]
            )
        except Exception:  # it is quarantined when it is decoded with the others
            continue
        found.setdefault(row["source"], []).extend(structures)
    return {source: definitions_by_table(structures) for source, structures in found.items() if structures}


def _with(plan: SourcePlan, structures: TableDefinitions) -> SourcePlan:
    definition_at = DefinitionsInEpoch(structures.without_repeats(), plan.epoch)
    return replace(plan, context=replace(plan.context, definition_at=definition_at))
