"""The lakehouse: where its tables are, and how the layers read and write Delta."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.config.model import Catalog, Config
from framework.contracts.table_comments import description
from framework.lakehouse.log_files import has_versions, newest_commit, newest_properties, newest_version
from framework.naming import catalog_table, quoted
from framework.spark.local_frame import local_frame, parsed

if TYPE_CHECKING:  # the names of tables and places are also asked by commands that need no Spark
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.types import StructField, StructType

    from framework.lakehouse.local_tables import LocalTable

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_PARTS = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
_GOLD = "gold/"
_NO_TABLE = (
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "TABLE_OR_VIEW_NOT_FOUND",
)

ALL_COMMITS = 1_000_000
"""As the limit of `Lakehouse.history`: more commits than a table keeps."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The pair by which Delta recognises a write that it has already committed."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Lakehouse:
    """The tables of one pipeline: folders below a folder or object-store URL, or tables of a catalog.

    A table's name is `layer/name`, for instance `silver/changes`; replicas have the names of their encoded
    folders (`framework.naming`). In a catalog the layer is a schema, `<schema_prefix>silver`.

    Attributes:
        root: An absolute path or URL without a slash at its end; with a catalog it has only checkpoints.
        catalog: The catalog, None for folders.
        schema_prefix: The start of the catalog's schemas.
        added: Rows by table that readers see beside those of the tables: what a plan expects there.
        staging: The folder of staging files of a plan, which writes nothing to the lakehouse.
    """

    root: str
    catalog: str | None = None
    schema_prefix: str = ""
    added: Mapping[str, DataFrame] = field(default_factory=dict, compare=False, repr=False)
    staging: str | None = field(default=None, compare=False, repr=False)

    def location(self, name: str) -> str:
        """The location of a table: a path or URL, or the name of a catalog table as SQL writes it."""
        layer, _, rest = name.partition("/")
        if self.catalog is None:
            return f"{self.root}/{name}"
        return f"{self.schema_of(layer)}.{_identifier(catalog_table(rest))}"

    def own_location(self, noted: str | None) -> str | None:
        """The location here of a table of gold whose location was noted: a lakehouse may be moved, or copied.

        `noted` may be null, and then the answer is. A folder where a catalog is expected stays as it is, and
        the other way round: such a table is not of this lakehouse.
        """
        if noted is None or is_path(noted) is not (self.catalog is None):
            return noted
        if self.catalog is not None:
            return f"{self.schema_of('gold')}.{_NAME_PARTS.findall(noted)[-1]}"
        own = f"{self.root}/{_GOLD}"
        if noted.startswith(own):
            return noted
        # replicas have folders of two names and more; a folder or a database may be called gold, too
        ends = [noted[found.end() :] for found in re.finditer(f"/(?={_GOLD})", noted)]
        found = [f"{self.root}/{end}" for end in reversed(ends) if end.count("/") > 1]
        there = [location for location in found if local_table(location) is not None]
        return next(iter((*there, *found, noted)))

    def schema_of(self, layer: str) -> str:
        """The catalog's schema of a layer, as SQL writes it; only for a lakehouse in a catalog."""
        return f"{_identifier(self.catalog or '')}.{_identifier(self.schema_prefix + layer)}"

    @property
    def checkpoints(self) -> str:
        """The folder of stream checkpoints, leases and staging files: its own for each set of tables."""
        return (
            f"{self.root}/_mainstem"
            if self.catalog is None
            else f"{self.root}/{self.catalog}.{self.schema_prefix}_mainstem"
        )

    @property
    def local_root(self) -> Path | None:
        """The root on a local file system, which can lock files; None for an object store or a volume."""
        return None if "://" in self.root or self.root.startswith("/Volumes/") else Path(self.root)

    def exists(self, spark: SparkSession, name: str) -> bool:
        """Whether `name` is a Delta table now."""
        return name in self.added or is_table(spark, self.location(name))

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """The table's newest version."""
        added, location = self.added.get(name), self.location(name)
        if added is not None and not is_table(spark, location):
            return added
        rows = read_table(spark, location)
        return rows if added is None else rows.unionByName(added, allowMissingColumns=True)

    def read_stream(
        self, spark: SparkSession, name: str, options: Mapping[str, str] | None = None
    ) -> DataFrame:
        """The table as a stream of its appended rows."""
        reader, location = spark.readStream.format("delta").options(**(options or {})), self.location(name)
        return reader.load(location) if is_path(location) else reader.table(location)

    def version(self, spark: SparkSession, name: str) -> int | None:
        """The table's newest version, None where there is no table."""
        return table_version(spark, self.location(name))

    def newest_commit(self, spark: SparkSession, name: str) -> str | None:
        """A text that identifies the newest commit of the table; None where there is no table."""
        return table_commit(spark, self.location(name))

    def create(
        self,
        spark: SparkSession,
        name: str,
        schema: StructType | str,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create the table unless it exists; `schema` may be text as Spark SQL writes it."""
        from framework.lakehouse.new_tables import NewTable, create_table

        if self.exists(spark, name):
            return
        location = self.location(name)
        if local_log(location) is not None:
            table = NewTable(parsed(spark, schema), description(name), properties or {})
            if create_table(spark, location, table):
                return
        columns = schema if isinstance(schema, str) else _column_list(schema)
        about = f"COMMENT {sql_text(description(name))}{_properties(properties)}"
        spark.sql(f"CREATE TABLE IF NOT EXISTS {sql_name(location)} ({columns}) USING delta {about}")

    def add_columns(self, spark: SparkSession, name: str, schema: StructType) -> None:
        """Add the columns of the schema that a table of an earlier release lacks, null in its rows."""
        present = set(self.read(spark, name).columns)
        from pyspark.sql.types import StructType

        lacking = StructType([column for column in schema if column.name not in present])
        if len(lacking):
            columns = _column_list(lacking)
            spark.sql(f"ALTER TABLE {sql_name(self.location(name))} ADD COLUMNS ({columns})")

    def history(self, spark: SparkSession, name: str, limit: int = 1_000) -> DataFrame:
        """The table's newest commits, newest first."""
        return read_commits(spark, self.location(name), limit)

    def rows(self, spark: SparkSession, name: str, schema: StructType | str) -> DataFrame:
        """The table's newest version, or no rows of this schema where the table does not exist.

        Columns of the schema that a table of an earlier release lacks are null.
        """
        from pyspark.sql import functions as F

        if not self.exists(spark, name):
            return local_frame(spark, [], schema)
        rows = self.read(spark, name)
        given = {} if isinstance(schema, str) else {column.name: column.dataType for column in schema}
        lacking = {
            column: F.lit(None).cast(kind) for column, kind in given.items() if column not in rows.columns
        }
        return rows.withColumns(lacking) if lacking else rows

    def is_empty(self, spark: SparkSession, name: str) -> bool:
        """Whether the table has no row or does not exist; the log of a local table tells it without a job."""
        if not self.exists(spark, name):
            return True
        return self.is_empty_by_log(spark, name) or self.read(spark, name).isEmpty()

    def is_empty_by_log(self, spark: SparkSession, name: str) -> bool:
        """Whether the log of a local table says that it has no row or does not exist; runs no job."""
        if name in self.added or local_log(self.location(name)) is None:
            return False
        found = self._newest_by_log(spark, name)
        return found.files == () if found is not None else self.version(spark, name) is None

    def columns(self, spark: SparkSession, name: str) -> Sequence[str]:
        """The columns of a table that exists; the log of a local table tells them without a job."""
        found = self._newest_by_log(spark, name)
        if found is None:
            return self.read(spark, name).columns
        return [column["name"] for column in found.schema["fields"]]

    def _newest_by_log(self, spark: SparkSession, name: str) -> LocalTable | None:
        from framework.lakehouse.local_tables import local_table

        location = self.location(name)
        if name in self.added or local_log(location) is None:
            return None
        return local_table(location, table_version(spark, location))

    def append(
        self,
        frame: DataFrame,
        name: str,
        transaction: Transaction | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Append rows in one commit, which creates the table, with these properties, if it is missing.

        Args:
            frame: The rows.
            name: The table.
            transaction: Delta writes the rows of one transaction only once.
            properties: Properties of a new table, or options of the write. A catalog's table is created by a
                commit of its own: one that creates and writes loses its transaction.
        """
        options: dict[str, Any] = dict(properties or {})
        if transaction is not None:
            options |= {"txnAppId": transaction.app_id, "txnVersion": transaction.version}
        location = self.location(name)
        if not is_path(location):
            kept = {key: value for key, value in options.items() if key.startswith("delta.")}
            self.create(frame.sparkSession, name, nullable(frame.schema), kept)
            options = {key: value for key, value in options.items() if key not in kept}
        save(frame.write.format("delta").mode("append").options(**options), location)


def lakehouse_of(config: Config) -> Lakehouse:
    """The lakehouse that a configuration names."""
    if isinstance(config.lakehouse, Catalog):
        return Lakehouse(config.root, config.lakehouse.catalog, config.lakehouse.schema_prefix)
    return Lakehouse(config.root)


def is_path(location: str) -> bool:
    """Whether a location is a path or URL, and no catalog table."""
    return "/" in location


def is_called(location: str, name: str) -> bool:
    """Whether the table at a location has this name in any lakehouse: a lakehouse may be moved."""
    return location.endswith(
        f"/{name}" if is_path(location) else f".{_identifier(catalog_table(name.partition('/')[2]))}"
    )


def sql_name(location: str) -> str:
    """The location as SQL writes it."""
    return f"delta.{quoted(location)}" if is_path(location) else location


def read_table(spark: SparkSession, location: str) -> DataFrame:
    """The newest version of the table at a location."""
    return spark.read.format("delta").load(location) if is_path(location) else spark.read.table(location)


def read_changes(spark: SparkSession, location: str, version: int) -> DataFrame:
    """The changes of one version of a table, from its change feed."""
    options = {"readChangeFeed": "true", "startingVersion": str(version), "endingVersion": str(version)}
    reader = spark.read.format("delta").options(**options)
    return reader.load(location) if is_path(location) else reader.table(location)


def save(writer: DataFrameWriter, location: str) -> None:
    """Commit the rows of a writer to the table at a location."""
    if is_path(location):
        writer.save(location)
    else:
        writer.saveAsTable(location)


def is_table(spark: SparkSession, location: str) -> bool:
    """Whether there is a Delta table at a location."""
    if not is_path(location):
        return spark.catalog.tableExists(location)
    if local_log(location) is not None:
        return local_table(location) is not None
    from pyspark.errors import AnalysisException

    try:
        read_table(spark, location).schema  # noqa: B018 - on Spark Connect nothing is looked up before the schema is asked for
    except AnalysisException as error:
        if error.getCondition() in _NO_TABLE:
            return False
        raise
    return True


def local_table(location: str) -> Path | None:
    """The folder of the Delta table at a location of a local file system; None where there is no table."""
    log = local_log(location)
    return log.parent if log is not None and has_versions(log) else None


def table_version(spark: SparkSession, location: str) -> int | None:
    """The number of a table's newest version, None without a table; without a Spark job on local disks."""
    log = local_log(location)
    if log is None:
        row = (
            read_commits(spark, location, 1).select("version").first() if is_table(spark, location) else None
        )
        return None if row is None else int(row[0])
    return newest_version(log)


def table_commit(spark: SparkSession, location: str) -> str | None:
    """A text that identifies a table's newest commit, also from that of a table that was there before."""
    log = local_log(location)
    if log is not None:
        return newest_commit(log)
    if not is_table(spark, location):
        return None
    row = read_commits(spark, location, 1).select("version", "timestamp").first()
    return None if row is None else f"{row[0]} {row[1]}"


def table_properties(spark: SparkSession, location: str) -> dict[str, str]:
    """The properties of the table at a location; without a query where the log of a local one has them."""
    log = local_log(location)
    known = None if log is None else newest_properties(log)
    if known is not None:
        return dict(known)
    rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name(location)}").collect()
    return {str(row["key"]): str(row["value"]) for row in rows}


def read_commits(spark: SparkSession, location: str, limit: int) -> DataFrame:
    """The newest commits of a table, as DESCRIBE HISTORY shows them."""
    return spark.sql(f"DESCRIBE HISTORY {sql_name(location)} LIMIT {limit}")


def local_log(location: str) -> Path | None:
    """The folder of the table's log if Python can list it; None for an object store and a catalog's table."""
    return Path(location) / "_delta_log" if is_path(location) and "://" not in location else None


def nullable(schema: StructType) -> StructType:
    """The columns, nullable: a column that the first rows all have may be null in later ones."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(column.name, column.dataType, metadata=column.metadata) for column in schema]
    )


def _column_list(schema: StructType) -> str:
    """The columns as a statement declares them.

    Spark's own `toDDL` asks the session of the thread, which the threads of a pool do not have.
    """
    return ", ".join(
        f"{quoted(f.name)} {f.dataType.simpleString()}{'' if f.nullable else ' NOT NULL'}{_comment(f)}"
        for f in schema
    )


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
