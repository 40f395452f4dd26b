"""The JSON schema of `mainstem.yml`, for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from framework.config import Config
from framework.config_sources import COMMON_KEYS, PLACES


def json_schema(formats: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """A schema (draft 2020-12) that accepts what `load_config` accepts, but for checks between keys and places."""
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
        "properties": {"format": {"enum": sorted(formats)}},
        "allOf": rules,
        "oneOf": [{"required": [place]} for place in PLACES],
    }
    schema["properties"]["quality"] = {"anyOf": [{"$ref": "#/$defs/Quality"}, {"type": "boolean"}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "mainstem.yml"}


def _format_rule(name: str, common: Mapping[str, object], own: Mapping[str, Any]) -> dict[str, object]:
    return {
        "if": {"properties": {"format": {"const": name}}, "required": ["format"]},
        "then": {
            "properties": {**common, **own.get("properties", {}), "format": {"const": name}},
            "required": own.get("required", []),
            "additionalProperties": False,
        },
    }
