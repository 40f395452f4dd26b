"""A catalog's schemas, made ready before the first table is written, and who may read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from framework.config import Catalog, LayerSchema, Privilege
from framework.contracts.descriptions import LAYERS
from framework.names import quoted
from framework.tables import Lakehouse, sql_text


def prepare_catalog(spark: SparkSession, lake: Lakehouse, catalog: Catalog) -> None:
    """Create the schemas that are missing, and grant what the configuration says. A schema that is there needs no right to create one."""
    for layer, comment in LAYERS.items():
        schema = lake.schema_of(layer)
        if not spark.catalog.databaseExists(schema):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema} COMMENT {sql_text(comment)}")
    for statement in grant_statements(lake, catalog.grants):
        spark.sql(statement)


def grant_statements(lake: Lakehouse, grants: Mapping[LayerSchema, Mapping[str, Sequence[Privilege]]]) -> Iterator[str]:
    """A statement for each schema and principal; granting again changes nothing."""
    for layer, principals in grants.items():
        for principal, privileges in principals.items():
            yield f"GRANT {', '.join(privileges)} ON SCHEMA {lake.schema_of(layer)} TO {quoted(principal)}"
