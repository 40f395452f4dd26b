from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel, ConfigDict

from framework.config.json_schema import SCHEMA_ID, json_schema
from framework.pipeline.session import option_models


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


def test_each_property_has_a_description_and_a_default_that_fits() -> None:
    schema = json_schema(option_models())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == SCHEMA_ID
    found = list(properties(schema))
    assert len(found) > 60
    assert [name for name, each in found if "description" not in each and each.keys() != {"const"}] == []
    wrong = [
        name
        for name, each in found
        if "default" in each
        and not jsonschema.Draft202012Validator({**each, "$defs": schema["$defs"]}).is_valid(each["default"])
    ]
    assert wrong == []


def properties(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All properties below a node of a schema, with their places."""
    if isinstance(node, dict):
        yield from ((f"{path}.{name}", each) for name, each in node.get("properties", {}).items())
        for name, each in node.items():
            yield from properties(each, f"{path}.{name}")
    elif isinstance(node, list):
        for each in node:
            yield from properties(each, path)
