"""The lakehouse: where each table is, and the few ways in which the layers read and write Delta."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import StructField, StructType

from framework.config import Catalog, Config
from framework.contracts.descriptions import description
from framework.names import catalog_table, quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_TABLE = ("PATH_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE", "TABLE_OR_VIEW_NOT_FOUND")

ALL_COMMITS = 1_000_000
"""As a limit of `Lakehouse.history`: more than a table keeps."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The pair by which Delta recognises a write that it has already committed."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Lakehouse:
    """The tables of one pipeline: folders below one folder or object-store URL, or with `catalog` tables of that catalog.

    `root` is an absolute path or URL without a slash at its end; with a catalog it holds checkpoints alone. A table is named
    `layer/name`, for instance `silver/changes`; replicas are named by their encoded folders (`framework.names`). In a
    catalog the layer is a schema, `<schema_prefix>silver`. `added` are rows that readers see beside those of the tables:
    what a plan expects to be there by then.
    """

    root: str
    catalog: str | None = None
    schema_prefix: str = ""
    added: Mapping[str, DataFrame] = field(default_factory=dict, compare=False, repr=False)

    def place(self, name: str) -> str:
        """Where the table `name` is: a path or URL, or the name of a catalog table as SQL writes it. A Delta reader opens it."""
        layer, _, rest = name.partition("/")
        if self.catalog is None:
            return f"{self.root}/{name}"
        return f"{self.schema_of(layer)}.{_identifier(catalog_table(rest))}"

    def schema_of(self, layer: str) -> str:
        """The catalog's schema of a layer, as SQL writes it; for a lakehouse in a catalog alone."""
        return f"{_identifier(self.catalog or '')}.{_identifier(self.schema_prefix + layer)}"

    @property
    def checkpoints(self) -> str:
        """The folder of stream checkpoints, leases and staging files: its own for each set of tables."""
        return f"{self.root}/_mainstem" if self.catalog is None else f"{self.root}/{self.catalog}.{self.schema_prefix}_mainstem"

    @property
    def local_root(self) -> Path | None:
        """The root on a local file system, which can lock files; None for an object store and for a volume."""
        return None if "://" in self.root or self.root.startswith("/Volumes/") else Path(self.root)

    def exists(self, spark: SparkSession, name: str) -> bool:
        """Whether `name` is a Delta table by now."""
        return name in self.added or is_table(spark, self.place(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """The table's newest version."""
        added, place = self.added.get(name), self.place(name)
        if added is not None and not is_table(spark, place):
            return added
        rows = read_table(spark, place)
        return rows if added is None else rows.unionByName(added, allowMissingColumns=True)

    def read_stream(self, spark: SparkSession, name: str, options: Mapping[str, str] | None = None) -> DataFrame:
        """The table as a stream of what is appended to it."""
        reader, place = spark.readStream.format("delta").options(**(options or {})), self.place(name)
        return reader.load(place) if is_path(place) else reader.table(place)

    def version(self, spark: SparkSession, name: str) -> int | None:
        """The table's newest version, None where there is no table."""
        return table_version(spark, self.place(name))

    def tells_first_version(self, name: str) -> bool:
        """Whether the table's log still has its first commit; False where only Spark reaches it."""
        log = _local_log(self.place(name))
        return log is not None and (log / f"{0:020d}.json").is_file()

    def create(self, spark: SparkSession, name: str, schema: StructType | str, properties: Mapping[str, str] | None = None) -> None:
        """Create the table unless it is there; `schema` may be text as Spark SQL writes it."""
        if self.exists(spark, name):
            return
        columns = schema if isinstance(schema, str) else _column_list(schema)
        about = f"COMMENT {sql_text(description(name))}{_properties(properties)}"
        spark.sql(f"CREATE TABLE IF NOT EXISTS {sql_name(self.place(name))} ({columns}) USING delta {about}")

    def history(self, spark: SparkSession, name: str, limit: int = 1_000) -> DataFrame:
        """The table's newest commits, newest first."""
        return _history(spark, self.place(name), limit)

    def rows(self, spark: SparkSession, name: str, schema: StructType | str) -> DataFrame:
        """The table's newest version, or no rows of this schema where the table is not there yet."""
        return self.read(spark, name) if self.exists(spark, name) else spark.createDataFrame([], schema)

    def append(
        self, frame: DataFrame, name: str, transaction: Transaction | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """Append rows in one commit, which creates the table, with these properties, where it is missing.

        With a transaction, a repeat of it writes nothing. Properties may be options of the write as well. A catalog's table
        is created by a commit of its own: one that creates and writes forgets its note.
        """
        options: dict[str, Any] = dict(properties or {})
        if transaction is not None:
            options |= {"txnAppId": transaction.app_id, "txnVersion": transaction.version}
        place = self.place(name)
        if not is_path(place):
            kept = {key: value for key, value in options.items() if key.startswith("delta.")}
            self.create(frame.sparkSession, name, _nullable(frame.schema), kept)
            options = {key: value for key, value in options.items() if key not in kept}
        save(frame.write.format("delta").mode("append").options(**options), place)


def lakehouse_of(config: Config) -> Lakehouse:
    """The lakehouse that a configuration names."""
    if isinstance(config.lakehouse, Catalog):
        return Lakehouse(config.root, config.lakehouse.catalog, config.lakehouse.schema_prefix)
    return Lakehouse(config.root)


def is_path(place: str) -> bool:
    """Whether the place is a path or URL, and no catalog table."""
    return "/" in place


def is_called(place: str, name: str) -> bool:
    """Whether a table at the place is called `name` by its lakehouse, whichever that is: a lakehouse may be moved."""
    return place.endswith(f"/{name}" if is_path(place) else f".{_identifier(catalog_table(name.partition('/')[2]))}")


def sql_name(place: str) -> str:
    """The place as SQL names it."""
    return f"delta.{quoted(place)}" if is_path(place) else place


def read_table(spark: SparkSession, place: str) -> DataFrame:
    """The newest version of the table at a place."""
    return spark.read.format("delta").load(place) if is_path(place) else spark.read.table(place)


def save(writer: DataFrameWriter, place: str) -> None:
    """Commit what a writer has to the table at a place."""
    if is_path(place):
        writer.save(place)
    else:
        writer.saveAsTable(place)


def is_table(spark: SparkSession, place: str) -> bool:
    """Whether there is a Delta table at a place."""
    if not is_path(place):
        return spark.catalog.tableExists(place)
    log = _local_log(place)
    if log is not None:
        return log.is_dir() and any(file.suffix in (".json", ".parquet") for file in log.iterdir())
    try:
        read_table(spark, place).schema  # noqa: B018 - on Spark Connect nothing is looked up before the schema is asked for
    except AnalysisException as error:
        if error.getCondition() in _NO_TABLE:
            return False
        raise
    return True


def table_version(spark: SparkSession, place: str) -> int | None:
    """The newest version of the table at a place, None where there is none; on a local file system without a Spark job."""
    log = _local_log(place)
    if log is None:
        row = _history(spark, place, 1).select("version").first() if is_table(spark, place) else None
        return None if row is None else int(row[0])
    found = [int(file.name.split(".")[0]) for file in log.glob("*.json") if file.name.split(".")[0].isdigit()] if log.is_dir() else []
    return max(found, default=None)


def operations(spark: SparkSession, place: str, since: int) -> set[str] | None:
    """What the commits after the version `since` did, in Delta's words; None where the log does not tell any more."""
    newest, log = table_version(spark, place), _local_log(place)
    if newest is None:
        return None
    if log is None:
        rows = _history(spark, place, newest - since).select("operation").collect() if newest > since else []
        return {row[0] for row in rows} if len(rows) == max(0, newest - since) else None
    found = set()
    for version in range(since + 1, newest + 1):
        file = log / f"{version:020d}.json"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        told = [json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')]
        if not told:
            return None
        found.add(str(told[0].get("operation")))
    return found


def table_properties(spark: SparkSession, place: str) -> dict[str, str]:
    """The properties of the table at a place."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name(place)}").collect()
    return {str(row["key"]): str(row["value"]) for row in rows}


def _history(spark: SparkSession, place: str, limit: int) -> DataFrame:
    return spark.sql(f"DESCRIBE HISTORY {sql_name(place)} LIMIT {limit}")


def _local_log(place: str) -> Path | None:
    """The folder of the table's log where Python can list it, None for an object store and for a catalog's table."""
    return Path(place) / "_delta_log" if is_path(place) and "://" not in place else None


def _nullable(schema: StructType) -> StructType:
    """The columns as a write that creates a folder's table makes them: what no row of the first batch lacks, later ones may."""
    return StructType([StructField(column.name, column.dataType, metadata=column.metadata) for column in schema])


def _column_list(schema: StructType) -> str:
    """The columns as a statement declares them; Spark's own `toDDL` asks the session of the thread, which a pool's threads lack."""
    return ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}{'' if f.nullable else ' NOT NULL'}{_comment(f)}" for f in schema)


def _comment(column: StructField) -> str:
    text = (column.metadata or {}).get("comment")
    return "" if text is None else f" COMMENT {sql_text(text)}"


def _identifier(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def _properties(properties: Mapping[str, str] | None) -> str:
    if not properties:
        return ""
    pairs = ", ".join(f"{sql_text(key)} = {sql_text(value)}" for key, value in properties.items())
    return f" TBLPROPERTIES ({pairs})"


def sql_text(value: str) -> str:
    """The text as a literal of Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
