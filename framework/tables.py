"""The lakehouse: where each table is, and the few ways in which the layers read and write Delta."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Transaction:
    """The pair by which Delta recognises a write that it has already committed."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Lakehouse:
    """The tables of one pipeline below one folder or object-store URL.

    `root` is an absolute path or URL without a slash at its end. A table is named `layer/name`, for instance
    `silver/changes`; replicas are named by their encoded folders (`framework.names`). `added` are rows that readers see
    beside those of the tables: what a plan expects to be there by then.
    """

    root: str
    added: Mapping[str, DataFrame] = field(default_factory=dict, compare=False, repr=False)

    def path(self, name: str) -> str:
        """Where the table `name` is."""
        return f"{self.root}/{name}"

    def name_of(self, path: str) -> str:
        """The name of the table at `path`; a path outside the lakehouse as it is."""
        return path.removeprefix(f"{self.root}/")

    @property
    def checkpoints(self) -> str:
        """The folder of stream checkpoints, leases and staging files."""
        return f"{self.root}/_mainstem"

    @property
    def local_root(self) -> Path | None:
        """The root on the local file system, None for an object store."""
        return None if "://" in self.root else Path(self.root)

    def exists(self, spark: SparkSession, name: str) -> bool:
        """Whether `name` is a Delta table by now."""
        return name in self.added or self._is_kept(spark, name)

    def _is_kept(self, spark: SparkSession, name: str) -> bool:
        root = self.local_root
        if root is not None:
            log = root / name / "_delta_log"
            return log.is_dir() and any(file.suffix in (".json", ".parquet") for file in log.iterdir())
        return DeltaTable.isDeltaTable(spark, self.path(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """The table's newest version."""
        added = self.added.get(name)
        if added is not None and not self._is_kept(spark, name):
            return added
        rows = spark.read.format("delta").load(self.path(name))
        return rows if added is None else rows.unionByName(added, allowMissingColumns=True)

    def delta(self, spark: SparkSession, name: str) -> DeltaTable:
        """A handle for MERGE and history."""
        return DeltaTable.forPath(spark, self.path(name))

    def version(self, spark: SparkSession, name: str) -> int | None:
        """The table's newest version, None where there is no table; on a local file system without a Spark job."""
        root = self.local_root
        if root is None:
            return table_version(spark, self.path(name)) if self.exists(spark, name) else None
        log = root / name / "_delta_log"
        found = [int(file.name.split(".")[0]) for file in log.glob("*.json") if file.name.split(".")[0].isdigit()] if log.is_dir() else []
        return max(found, default=None)

    def tells_first_version(self, name: str) -> bool:
        """Whether the table's log still has its first commit; False where only Spark reaches it."""
        root = self.local_root
        return root is not None and (root / name / "_delta_log" / f"{0:020d}.json").is_file()

    def operations(self, spark: SparkSession, name: str, since: int) -> set[str] | None:
        """What the commits after the version `since` did, in Delta's words; None where the log does not tell any more."""
        newest = self.version(spark, name)
        if newest is None:
            return None
        if self.local_root is None:
            rows = self.delta(spark, name).history(newest - since).select("operation").collect() if newest > since else []
            return {row[0] for row in rows}
        found = set()
        for version in range(since + 1, newest + 1):
            file = self.local_root / name / "_delta_log" / f"{version:020d}.json"
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            told = [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')]
            if not told:
                return None
            found.add(str(told[0].get("operation")))
        return found

    def create(self, spark: SparkSession, name: str, schema: StructType | str, properties: Mapping[str, str] | None = None) -> None:
        """Create the table unless it is there; `schema` may be text as Spark SQL writes it."""
        if self.exists(spark, name):
            return
        fields = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        builder = DeltaTable.createIfNotExists(spark).location(self.path(name)).addColumns(cast(StructType, fields))
        for key, value in (properties or {}).items():
            builder = builder.property(key, value)
        builder.execute()

    def rows(self, spark: SparkSession, name: str, schema: StructType | str) -> DataFrame:
        """The table's newest version, or no rows of this schema where the table is not there yet."""
        return self.read(spark, name) if self.exists(spark, name) else spark.createDataFrame([], schema)

    def append(
        self, frame: DataFrame, name: str, transaction: Transaction | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Append rows in one commit, which creates the table, with these properties, where it is missing.

        With a transaction, a repeat of it writes nothing.
        """
        writer = frame.write.format("delta").mode("append").options(**(properties or {}))
        if transaction is not None:
            writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", transaction.version)
        writer.save(self.path(name))


def table_version(spark: SparkSession, path: str) -> int:
    """The newest version of the Delta table at `path`."""
    row = DeltaTable.forPath(spark, path).history(1).select("version").first()
    return -1 if row is None else int(row[0])
