"""The JSON schema of `mainstem.yml`, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from framework.config.model import Config
from framework.config.sources import COMMON_KEYS, PLACES

SCHEMA_ID = "urn:mainstem:configuration"
"""The `$id` of the schema: a name, as the schema is read from a file beside the configuration."""
SCHEMA_FILE = "mainstem.schema.json"
"""The file beside a configuration from which editors read the schema; `mainstem init` writes it."""


def json_schema(formats: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """A schema (draft 2020-12) of what `load_config` accepts, without checks between keys and places."""
    schema = Config.model_json_schema()
    definitions = schema["$defs"]
    source = definitions.pop("Source")
    definitions.pop("BaseModel", None)
    common = {key: value for key, value in source["properties"].items() if key in COMMON_KEYS}
    rules = []
    for name, model in sorted(formats.items()):
        own = model.model_json_schema()
        definitions.update(own.get("$defs", {}))
        rules.append(_format_rule(name, common, own))
    schema["properties"]["sources"]["additionalProperties"] = {
        "type": "object",
        "required": ["format"],
        "properties": {"format": {**common["format"], "enum": sorted(formats)}},
        "allOf": rules,
    }
    quality = schema["properties"]["quality"]
    schema["properties"]["quality"] = {
        "description": quality["description"],
        "anyOf": [{"$ref": "#/$defs/Quality"}, {"type": "boolean"}],
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID}
    return {**head, **schema, "title": "mainstem.yml"}


def _format_rule(name: str, common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, object]:
    settings = own.get("properties", {})
    return {
        "if": {"properties": {"format": {"const": name}}, "required": ["format"]},
        "then": {
            "properties": {
                **common,
                **{key: value for key, value in settings.items() if key not in common},
                "format": {**common["format"], "const": name},
            },
            "required": own.get("required", []),
            "additionalProperties": False,
            "oneOf": [_place_rule(place, settings) for place in PLACES],
        },
    }


def _place_rule(place: str, settings: Mapping[str, object]) -> dict[str, object]:
    """The rule of a source whose messages come from `place`: `files`, `kafka` or `table`.

    A format may have a setting with such a name (the `table` of a feed). Then the key is the place only if no
    other place is written.
    """
    if place not in settings:
        return {"required": [place]}
    return {
        "required": [place],
        "not": {"anyOf": [{"required": [other]} for other in PLACES if other != place]},
    }
