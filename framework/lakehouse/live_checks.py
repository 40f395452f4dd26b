"""What only a workspace of Databricks can show, tried there; docs/databricks.md has the whole checklist."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from framework.config.model import Catalog, Config
from framework.lakehouse.lakehouse import lakehouse_of, sql_text
from framework.lakehouse.policies import policies_of
from framework.lakehouse.small_files import is_local


@dataclass(frozen=True, slots=True)
class LiveCheck:
    """One check. `run` returns what it has found; it raises where the check fails.

    `action` says what to do then.
    """

    name: str
    run: Callable[[SparkSession], str]
    action: str


def live_checks(config: Config) -> Iterator[LiveCheck]:
    """The checks for a pipeline; each leaves nothing behind."""
    yield LiveCheck("runtime", _runtime, "use a runtime with Spark 4.0, 4.1 or 4.2")
    for name, source in config.sources.items():
        if source.files is not None and not is_local(source.files):
            yield LiveCheck(
                f"auto loader {name}",
                _auto_loader(source.files),
                f"write `auto_loader: false` below the source {name}: Spark then lists its folder",
            )
    if isinstance(config.lakehouse, Catalog):
        schema = lakehouse_of(config).schema_of("ops")
        yield LiveCheck(
            "policies stay",
            lambda spark: _policies(spark, schema),
            "protect personal data with policies on the schema `gold` (CREATE POLICY): "
            "a rebuild may lose those of a table for a moment",
        )
        prefix = f"{config.lakehouse.catalog}.{config.lakehouse.schema_prefix}"
        yield LiveCheck(
            "lineage",
            lambda spark: _lineage(spark, prefix),
            "grant SELECT on system.access, or look at the tab Lineage of a replica after a run",
        )


def _runtime(spark: SparkSession) -> str:
    if not spark.version.startswith(("4.0", "4.1", "4.2")):
        raise ValueError(f"Spark {spark.version}")
    return f"Spark {spark.version}"


def _auto_loader(url: str) -> Callable[[SparkSession], str]:
    def run(spark: SparkSession) -> str:
        reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "binaryFile")
        columns = reader.load(url).columns
        return f"lists {url} ({', '.join(columns)})"

    return run


def _policies(spark: SparkSession, schema: str) -> str:
    """Replace a table that has a row filter, a column mask and tags, and compare them before and after."""
    name = f"_mainstem_doctor_{uuid.uuid4().hex[:8]}"
    table, visible, hidden = f"{schema}.{name}", f"{schema}.{name}_rows", f"{schema}.{name}_mask"
    try:
        spark.sql(f"CREATE TABLE {table} (id INT, note STRING) USING delta")
        spark.sql(f"CREATE FUNCTION {visible}(id INT) RETURNS BOOLEAN RETURN id > 0")
        spark.sql(f"CREATE FUNCTION {hidden}(note STRING) RETURNS STRING RETURN 'hidden'")
        spark.sql(f"ALTER TABLE {table} SET ROW FILTER {visible} ON (id)")
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN note SET MASK {hidden}")
        spark.sql(f"ALTER TABLE {table} SET TAGS ({sql_text('mainstem')} = {sql_text('doctor')})")
        before = set(policies_of(spark, table))
        if len(before) != 3:
            raise ValueError(f"information_schema shows {len(before)} of 3 policies")
        spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT 1 AS id, 'a' AS note")
        lost = sorted(policy.statement for policy in before - set(policies_of(spark, table)))
        if lost:
            raise ValueError(f"a replacement loses {len(lost)} of 3 policies: {lost[0]}")
        return "row filter, column mask and tag stay when a table is replaced"
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {table}")
        for function in (visible, hidden):
            spark.sql(f"DROP FUNCTION IF EXISTS {function}")


def _lineage(spark: SparkSession, prefix: str) -> str:
    query = (
        "SELECT count(DISTINCT target_table_full_name) FROM system.access.table_lineage "  # noqa: S608 - a literal
        f"WHERE startswith(target_table_full_name, {sql_text(prefix)})"
    )
    row = spark.sql(query).first()
    if row is None or not row[0]:
        raise ValueError(f"no table below {prefix} has lineage yet; it comes some minutes after a run")
    return f"{row[0]} tables have lineage"
