"""The generated pages are current, and explain every setting and every column once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from documentation.column_meanings import MEANINGS, SHARED
from documentation.pages import PAGES
from documentation.tables_page import SCHEMAS_OF, columns_of
from framework.config.json_schema import json_schema
from framework.pipeline.session import option_models
from framework.sql.names import LAYERS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), "run `make reference-pages`"


def test_a_schema_written_as_text_has_its_columns_and_types() -> None:
    assert columns_of("run_id string, `table` string, keys array<string>") == {
        "run_id": "string",
        "table": "string",
        "keys": "array<string>",
    }


def test_a_query_may_name_every_table_of_the_page() -> None:
    page = (ROOT / "docs/reference/tables.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:## |\| `)((?:bronze|silver|ops)/\w+)", page, re.MULTILINE))
    assert named >= {"bronze/messages", "ops/partitions"}
    assert named == {f"{layer}/{table}" for layer, tables in LAYERS.items() for table in tables}


@pytest.mark.parametrize("table", SCHEMAS_OF)
def test_every_column_has_a_meaning_and_every_meaning_a_column(table: str) -> None:
    columns = columns_of(SCHEMAS_OF[table]).keys()
    assert columns - MEANINGS[table].keys() - SHARED.keys() == set()
    assert MEANINGS[table].keys() - columns == set()


def test_every_setting_has_a_meaning() -> None:
    schema = json_schema(option_models())
    models = {name: model for name, model in schema["$defs"].items() if "properties" in model}
    models |= {"mainstem.yml": schema}
    models |= {
        each["if"]["properties"]["format"]["const"]: each["then"]
        for each in schema["properties"]["sources"]["additionalProperties"]["allOf"]
    }
    unexplained = [
        f"{name}.{key}"
        for name, model in models.items()
        for key, setting in model["properties"].items()
        if not setting.get("description")
    ]
    assert unexplained == []
