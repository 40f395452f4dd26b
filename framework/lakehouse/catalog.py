"""Creates the schemas of a catalog before the first table is written, with their privileges and tags."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from framework.config.model import Catalog, LayerSchema, Privilege
from framework.contracts.table_comments import LAYERS
from framework.lakehouse.lakehouse import Lakehouse, sql_text
from framework.naming import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def prepare_catalog(spark: SparkSession, lake: Lakehouse, catalog: Catalog) -> None:
    """Create the schemas that are missing, and grant what the configuration says.

    If a schema exists, the user needs no privilege to create one.
    """
    for layer, comment in LAYERS.items():
        schema = lake.schema_of(layer)
        if not spark.catalog.databaseExists(schema):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema} COMMENT {sql_text(comment)}")
    for statement in (*grant_statements(lake, catalog.grants), *tag_statements(lake, _tags(catalog))):
        spark.sql(statement)


def tag_tables(
    spark: SparkSession, place: str | Catalog, source: str, locations: Iterable[str | None]
) -> None:
    """Tag new tables of gold, on Databricks: with the tags of the configuration, and with their source.

    Args:
        spark: The session.
        place: The configuration's `lakehouse`; only a catalog has tags.
        source: The source of the tables.
        locations: The tables; null stands for a table that there is not.
    """
    tags = _tags(place) if isinstance(place, Catalog) else {}
    for statement in table_tag_statements(filter(None, locations), source, tags):
        spark.sql(statement)


def _tags(catalog: Catalog) -> Mapping[str, str]:
    return catalog.tags if "DATABRICKS_RUNTIME_VERSION" in os.environ else {}


def grant_statements(
    lake: Lakehouse, grants: Mapping[LayerSchema, Mapping[str, Sequence[Privilege]]]
) -> Iterator[str]:
    """A statement for each schema and principal; to grant again changes nothing."""
    for layer, principals in grants.items():
        for principal, privileges in principals.items():
            yield f"GRANT {', '.join(privileges)} ON SCHEMA {lake.schema_of(layer)} TO {quoted(principal)}"


def tag_statements(lake: Lakehouse, tags: Mapping[str, str]) -> Iterator[str]:
    """A statement for each schema that sets its tags; none without tags. Other tags of a schema stay."""
    if tags:
        for layer in LAYERS:
            yield f"ALTER SCHEMA {lake.schema_of(layer)} SET TAGS ({_pairs(tags)})"


def table_tag_statements(locations: Iterable[str], source: str, tags: Mapping[str, str]) -> Iterator[str]:
    """A statement for each table that sets the tags and `source`, unless one of the tags is called so."""
    if tags:
        for location in locations:
            yield f"ALTER TABLE {location} SET TAGS ({_pairs({'source': source, **tags})})"


def _pairs(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{sql_text(name)} = {sql_text(value)}" for name, value in tags.items())
