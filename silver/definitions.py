"""The definitions of tables that come beside the rows of a source, gathered before a batch is decoded.

They are those of earlier batches, which `ops/statements` keeps, and those of the batch itself: both are the same when a
batch is run again. A row that is read in an earlier batch than its table's definition is taken as its values show it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.contracts.raw import RawMessage
from framework.contracts.reasons import Malformed
from framework.contracts.tables import CHANGES, SCHEMAS
from framework.tables import Lakehouse
from silver import derived
from silver.normalize import SourcePlan
from silver.structures import Declared, Structure, Structures, gathered, place_of, structures_in

_MARK = '"tableChanges"'


def plans_with_definitions(messages: DataFrame, plans: Mapping[str, SourcePlan], known: dict[str, Structures]) -> Mapping[str, SourcePlan]:
    """The plans with what this batch and those before it define. `known` is what was gathered before, and is added to."""
    sources = [name for name, plan in plans.items() if plan.format.has_structures]
    if not sources:
        return plans
    for source, structures in _in_batch(messages, plans, sources).items():
        known[source] = known.get(source, Structures()) | structures
    return {name: _with(plan, known[name]) if name in known else plan for name, plan in plans.items()}


def known_definitions(spark: SparkSession, lake: Lakehouse, plans: Mapping[str, SourcePlan]) -> dict[str, Structures]:
    """What earlier batches have defined, by source."""
    sources = [name for name, plan in plans.items() if plan.format.has_structures]
    if not sources or not lake.exists(spark, derived.STATEMENTS_TABLE):
        return {}
    statements = lake.rows(spark, derived.STATEMENTS_TABLE, CHANGES).where(F.col("source").isin(*sources) & F.col("schema_id").isNotNull())
    schemas = lake.rows(spark, derived.SCHEMAS_TABLE, SCHEMAS).select("schema_id", "columns")
    rows = statements.select("source", "database", "schema", "table", "sequence", "schema_id").join(schemas, "schema_id").collect()
    found: dict[str, list[Structure]] = {}
    for row in rows:
        declared = tuple((c["name"], c["declared"]) for c in row["columns"] if c["declared"])
        if declared and row["sequence"]:
            structure = Structure(row["database"], row["schema"], row["table"], place_of(row["sequence"]), declared)
            found.setdefault(row["source"], []).append(structure)
    return {source: gathered(structures) for source, structures in found.items()}


def _in_batch(messages: DataFrame, plans: Mapping[str, SourcePlan], sources: list[str]) -> dict[str, Structures]:
    is_definition = F.col("key").isNull() | F.col("key").cast("string").contains('"databaseName"')
    candidates = messages.where(F.col("source").isin(*sources) & is_definition)
    if candidates.select("source").isEmpty():  # keys are small: the values of most batches need not be read twice
        return {}
    mine = candidates.where(F.col("value").cast("string").contains(_MARK))
    found: dict[str, list[Structure]] = {}
    for row in mine.select("source", "topic", "partition", "offset", "key", "value").collect():
        plan = plans[row["source"]]
        coordinates = (row["source"], row["topic"], row["partition"], row["offset"])
        key, value = (None if cell is None else bytes(cell) for cell in (row["key"], row["value"]))
        try:
            events = plan.format.decode(RawMessage(*coordinates, None, key, value), plan.context)
        except Malformed:
            continue  # its fate is quarantine, when it is decoded with the others
        found.setdefault(row["source"], []).extend(structures_in(events, plan.epoch))
    return {source: gathered(structures) for source, structures in found.items() if structures}


def _with(plan: SourcePlan, structures: Structures) -> SourcePlan:
    return replace(plan, context=replace(plan.context, declared_of=functools.partial(_declared, structures, plan.epoch)))


def _declared(structures: Structures, epoch: int, table: tuple[str | None, str | None, str], position: tuple[int, ...] | None) -> Declared:
    return structures.columns(table, (epoch, *(position or ())))
