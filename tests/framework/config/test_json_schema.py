import jsonschema
import pytest
import yaml
from pydantic import BaseModel, ConfigDict

from framework.config.json_schema import json_schema


class NoOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Options(NoOptions):
    database: str | None = None
    table: str | None = None


SCHEMA = json_schema({"datahub_tuple": Options, "datahub_blob": NoOptions})

GOOD = """
pipeline: shop
lakehouse: ./lakehouse
sources:
  orders: {format: datahub_tuple, files: ./landing, pairing_timeout: 10 minutes, database: shop}
  crm: {format: datahub_blob, kafka: {bootstrap_servers: "a:1", topics: [x], startingOffsets: earliest}}
tables:
  - {match: "shop.*", history: {track: [a]}, bad_values: null, columns: {a: {type: int}}}
"""


def test_schema_is_valid_and_accepts_the_example() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(GOOD))


@pytest.mark.parametrize("new", ["files: ./landing, table: x", "table: ./raw"])
def test_a_table_beside_files_is_an_option_of_the_formats_that_have_it(new: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(GOOD.replace("files: ./landing", new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pipeline: shop", "pipelin: shop"),
        ("database: shop", "databse: shop"),
        ("format: datahub_blob,", "format: datahub_blob, database: shop,"),
        ("format: datahub_blob", "format: datahub_blub"),
        ("kafka:", "table: x, kafka:"),
        ("files: ./landing", "files: ./landing, kafka: {bootstrap_servers: a, topics: [x]}"),
        ("files: ./landing,", ""),
        ("bad_values: null", "bad_values: nil"),
        ("10 minutes", "minutes"),
    ],
)
def test_schema_refuses(old: str, new: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(GOOD.replace(old, new)))
