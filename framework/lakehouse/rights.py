"""The least rights of a pipeline in Unity Catalog, as GRANTs, and whether the user of a session has them."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.config.model import Catalog, Config
from framework.config.value_types import split_name
from framework.contracts.table_comments import LAYERS
from framework.lakehouse.lakehouse import lakehouse_of
from framework.lakehouse.small_files import without_glob
from framework.naming import quoted

Probe = Callable[[SparkSession], object]
"""Does what a right allows, and leaves nothing behind. Raises where the user may not."""

_VOLUME_URL = re.compile(r"^dbfs:/+(?=Volumes/)", re.IGNORECASE)

NAME_IT = "<the external location of {}>"


@dataclass(frozen=True, slots=True)
class Right:
    """Privileges on one securable.

    Attributes:
        privileges: As GRANT writes them.
        securable: Its kind and name, as GRANT writes them.
        purpose: What the pipeline does with it.
        probe: Tries it; None where nothing shows it but the grant itself.
    """

    privileges: tuple[str, ...]
    securable: str
    purpose: str
    probe: Probe | None = None

    def grant(self, principal: str) -> str:
        """The statement that gives the right to a principal."""
        return f"GRANT {', '.join(self.privileges)} ON {self.securable} TO {quoted(principal)}"


def needed_rights(config: Config) -> list[Right]:
    """All rights that the pipeline needs, each once, those on containers first."""
    found: dict[tuple[str, tuple[str, ...]], Right] = {}
    for right in (*_of_tables(config), *_of_places(config)):
        found.setdefault((right.securable, right.privileges), right)
    kinds = ("CATALOG", "SCHEMA", "VOLUME", "EXTERNAL", "TABLE")
    return sorted(found.values(), key=lambda right: kinds.index(right.securable.split(" ")[0]))


def _of_tables(config: Config) -> Iterator[Right]:
    if not isinstance(config.lakehouse, Catalog):
        if "://" in config.lakehouse:
            own = ("READ FILES", "WRITE FILES")
            yield Right(own, _location(config.lakehouse), "tables", _readable(config.lakehouse))
        return
    lake = lakehouse_of(config)
    catalog = quoted(config.lakehouse.catalog)
    yield Right(
        ("USE CATALOG",), f"CATALOG {catalog}", "tables", lambda s: _rows(s, f"SHOW SCHEMAS IN {catalog}")
    )
    for layer in LAYERS:
        schema = lake.schema_of(layer)
        privileges = ("USE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY")
        yield Right(privileges, f"SCHEMA {schema}", f"the tables of {layer}", _writable_schema(schema))
        if config.lakehouse.tags:
            yield Right(("APPLY TAG",), f"SCHEMA {schema}", "`tags` of the configuration")
        if config.lakehouse.grants.get(layer):  # type: ignore[call-overload]
            yield Right(("MANAGE",), f"SCHEMA {schema}", "`grants` of the configuration")


def _of_places(config: Config) -> Iterator[Right]:
    if config.checkpoints is not None:
        yield from _of_folder(config.checkpoints, ("READ VOLUME", "WRITE VOLUME"), "checkpoints")
    for name, source in config.sources.items():
        purpose = f"the source {name}"
        if source.files is not None:
            yield from _of_folder(source.files, ("READ VOLUME",), purpose)
        if source.table is not None:
            is_place = "/" in source.table
            yield from (
                _of_folder(source.table, ("READ VOLUME",), purpose)
                if is_place
                else _of_table(source.table, purpose)
            )


def _of_table(name: str, purpose: str) -> Iterator[Right]:
    """The rights on a table of a catalog; one whose name is shorter is of the session's catalog."""
    try:
        parts = [quoted(part) for part in split_name(name)]
    except ValueError:  # Spark says what is wrong with it
        return
    if len(parts) == 3:
        whole = ".".join(parts)
        yield Right(("USE CATALOG",), f"CATALOG {parts[0]}", purpose)
        yield Right(("USE SCHEMA",), f"SCHEMA {'.'.join(parts[:2])}", purpose)
        yield Right(("SELECT",), f"TABLE {whole}", purpose, _table(whole))


def _of_folder(place: str, privileges: tuple[str, ...], purpose: str) -> Iterator[Right]:
    """The rights on a volume or an external location; a folder of another kind has none here."""
    place = _VOLUME_URL.sub("/", place)
    if "://" in place:
        own = tuple(privilege.replace("VOLUME", "FILES") for privilege in privileges)
        yield Right(own, _location(place), purpose, _readable(place))
        return
    parts = PurePosixPath(place).parts
    if parts[:2] == ("/", "Volumes") and len(parts) >= 5:
        catalog, schema, volume = map(quoted, parts[2:5])
        yield Right(("USE CATALOG",), f"CATALOG {catalog}", purpose)
        yield Right(("USE SCHEMA",), f"SCHEMA {catalog}.{schema}", purpose)
        probe = (_writable if "WRITE VOLUME" in privileges else _listed)(place)
        yield Right(privileges, f"VOLUME {catalog}.{schema}.{volume}", purpose, probe)


def _location(url: str) -> str:
    return f"EXTERNAL LOCATION {NAME_IT.format(url)}"


def _rows(spark: SparkSession, statement: str) -> object:
    return spark.sql(statement).limit(1).collect()


def _writable_schema(schema: str) -> Probe:
    def probe(spark: SparkSession) -> None:
        table = f"{schema}._mainstem_doctor_{uuid.uuid4().hex[:8]}"
        spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
        try:
            spark.range(1).select(F.col("id").cast("int")).write.format("delta").mode("append").saveAsTable(
                table
            )
            spark.read.table(table).collect()
        finally:
            spark.sql(f"DROP TABLE IF EXISTS {table}")

    return probe


def _readable(url: str) -> Probe:
    def probe(spark: SparkSession) -> None:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(without_glob(url))
        files.select("path").limit(1).collect()

    return probe


def _table(name: str) -> Probe:
    return lambda spark: spark.read.table(name).limit(1).collect()


def _listed(folder: str) -> Probe:
    def probe(_: SparkSession) -> None:
        with os.scandir(folder) as entries:
            next(entries, None)

    return probe


def _writable(folder: str) -> Probe:
    def probe(_: SparkSession) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        file = Path(folder) / f".mainstem-doctor-{uuid.uuid4().hex[:8]}"
        file.write_text("probe", encoding="utf-8")
        try:
            file.read_text(encoding="utf-8")
        finally:
            file.unlink()

    return probe
