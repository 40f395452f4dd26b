"""The page docs/reference/configuration.md, from the JSON schema of the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from framework.config.json_schema import json_schema
from framework.config.sources import COMMON_KEYS
from framework.pipeline.session import option_models
from framework.text.tables import markdown

_HEAD = """\
# Configuration

A pipeline has one file, `mainstem.yml`. `mainstem init` writes one with comments, and `mainstem validate`
checks it and names every fault with its line. An unknown key is a fault. Paths are relative to the file.
Secrets are never written in it: `${env:NAME}` is read from the environment and, on Databricks,
`${secret:scope/key}` from a secret scope.

`mainstem validate --schema` prints a JSON schema with which editors complete and check the file.

<!-- made by `make reference-pages` from the models in framework/config/ -->"""
_HEADS = ("key", "value", "default", "meaning")

_SECTIONS = (
    ("Lakehouse in a catalog", "`lakehouse:` is a folder, a URL, or this mapping.", "Catalog"),
    (
        "Kafka",
        "Below `kafka:` of a source. All other keys are options of Spark's Kafka reader (`startingOffsets`)"
        " or, with the prefix `kafka.`, settings of the client; a key that Spark would ignore is refused.",
        "Kafka",
    ),
    ("Tables", "Each entry of `tables:`.", "TableRule"),
    ("History", "`history:` of a table is `true`, `false`, or this mapping.", "History"),
    ("Columns", "Below `columns:` of a table, for each column.", "ColumnRule"),
    ("Quality", "Below `quality:`. See [Quality](../quality.md).", "Quality"),
    ("Rules", "Each entry of `quality: rules:` has `match` and exactly one kind of rule.", "QualityRule"),
    ("Rule: accepted", "", "Accepted"),
    ("Rule: range", "", "Range"),
    ("Rule: regex", "", "Regex"),
    ("Rule: length", "", "Length"),
    ("Rule: relationship", "", "Relationship"),
    ("Rule: snapshot", "", "Snapshot"),
    ("Alerts", "Each entry of `alerts:`.", "Alert"),
)


def configuration_page() -> str:
    """All keys of the configuration with types, defaults and meanings, as Markdown."""
    return "\n".join(_lines(json_schema(option_models()))) + "\n"


def _lines(schema: Mapping[str, Any]) -> Iterator[str]:
    yield _HEAD
    definitions = schema["$defs"]
    rules = schema["properties"]["sources"]["additionalProperties"]["allOf"]
    yield from _section("The file", "", schema, definitions)
    common = rules[0]["then"]
    keys = {key: setting for key, setting in common["properties"].items() if key in COMMON_KEYS}
    keys["format"] = schema["properties"]["sources"]["additionalProperties"]["properties"]["format"]
    about = "Below `sources:`, for each source. Exactly one of `files`, `kafka` and `table` is written."
    yield from _section("Sources", about, {"properties": keys, "required": ["format"]}, definitions)
    yield from _format_sections(definitions)
    for title, text, name in _SECTIONS:
        yield from _section(title, text, definitions[name], definitions)


def _format_sections(definitions: Mapping[str, Any]) -> Iterator[str]:
    """The settings that a source has only with one format."""
    for name, model in sorted(option_models().items()):
        settings = model.model_json_schema().get("properties", {})
        if settings:
            about = f"Below a source whose format is `{name}`."
            yield from _section(f"Sources with format {name}", about, {"properties": settings}, definitions)


def _section(
    title: str, text: str, model: Mapping[str, Any], definitions: Mapping[str, Any]
) -> Iterator[str]:
    yield f"\n## {title}\n"
    if text:
        yield f"{text}\n"
    required = model.get("required", ())
    rows = [
        (
            key,
            _type_of(setting, definitions),
            "required" if key in required else _default(setting),
            _meaning(setting),
        )
        for key, setting in model["properties"].items()
    ]
    yield from markdown(_HEADS, rows)


def _meaning(setting: Mapping[str, Any]) -> str:
    """What a setting means. Raises ValueError if its model does not describe it."""
    meaning = setting.get("description", "")
    if not meaning:
        raise ValueError(f"describe the setting in its model: {json.dumps(setting)}")
    return str(meaning)


def _default(setting: Mapping[str, Any]) -> str:
    value = setting.get("default")
    if value is None or value in ([], {}):
        return "-"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`" if value != "" else "empty"


def _type_of(setting: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """The type of a setting in a few words: `text`, `true` or `false`, `list of text`."""
    if "$ref" in setting:
        name = setting["$ref"].rpartition("/")[2]
        return _type_of(definitions[name], definitions) if "enum" in definitions[name] else "mapping"
    if "anyOf" in setting:
        kinds = [_type_of(each, definitions) for each in setting["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in setting:
        return " or ".join(f"`{value}`" for value in setting["enum"] if value is not None)
    if "const" in setting:
        return f"`{setting['const']}`"
    kind = str(setting.get("type", "text"))
    if kind == "array":
        return f"list of {_type_of(setting.get('items', {}), definitions)}"
    if "examples" in setting:
        return f"a time, `{setting['examples'][0]}`"
    return {"string": "text", "boolean": "`true` or `false`", "integer": "number", "object": "mapping"}.get(
        kind, kind
    )
