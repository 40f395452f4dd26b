"""Checks of a dashboard (`.lvdash.json`): its queries parse, and its tiles show columns of the queries."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlglot
from sqlglot import exp

TABLES = frozenset({"runs", "batches", "tables", "statements", "epochs", "bad_values", "quality_results"})
"""The tables of `ops`, as the dashboard finds them in its schema."""

_COLUMNS = 6
_VERSIONS = {"counter": 2, "table": 2, "bar": 3, "line": 3}


def queries(text: str) -> dict[str, str]:
    """The queries of a dashboard by the names of their datasets."""
    return {dataset["name"]: "".join(dataset["queryLines"]) for dataset in json.loads(text)["datasets"]}


@functools.cache
def dashboard_problems(text: str) -> tuple[str, ...]:
    """All that is wrong with the text of a dashboard."""
    return tuple(_problems(text))


def _problems(text: str) -> Iterator[str]:
    content = json.loads(text)
    columns: dict[str, set[str]] = {}
    for dataset in content["datasets"]:
        try:
            found = list(_query_problems("".join(dataset["queryLines"])))
            columns[dataset["name"]] = _columns("".join(dataset["queryLines"]))
        except (KeyError, sqlglot.errors.SqlglotError) as error:
            found = [f"{type(error).__name__} {str(error).splitlines()[0]}"]
        yield from (f"dataset {dataset.get('name')}: {problem}" for problem in found)
    tiles = [tile for page in content["pages"] for tile in page["layout"]]
    for kind, entries in (
        ("dataset", content["datasets"]),
        ("page", content["pages"]),
        ("tile", [tile["widget"] for tile in tiles]),
    ):
        names = [entry["name"] for entry in entries]
        yield from (
            f"{kind} {name}: more than one has this name"
            for name in sorted({name for name in names if names.count(name) > 1})
        )
    shown = {query["query"]["datasetName"] for tile in tiles for query in tile["widget"].get("queries", ())}
    yield from (f"dataset {name}: no tile shows it" for name in sorted(columns.keys() - shown))
    for page in content["pages"]:
        yield from _place_problems(page["layout"])
        for tile in page["layout"]:
            yield from (
                f"tile {tile['widget']['name']}: {problem}"
                for problem in _tile_problems(tile["widget"], columns)
            )


def _query_problems(query: str) -> Iterator[str]:
    statements = sqlglot.parse(query, read="databricks")
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        yield "not one query"
        return
    own = {part.alias for part in statements[0].find_all(exp.CTE)}
    for table in statements[0].find_all(exp.Table):
        if table.db or table.catalog:
            yield f"{table.sql('databricks')} is not looked for in the dashboard's own schema"
        elif table.name not in TABLES | own:
            yield f"no table {table.name} in ops"


def _columns(query: str) -> set[str]:
    parsed = sqlglot.parse_one(query, read="databricks")
    assert isinstance(parsed, sqlglot.exp.Query), query
    return set(parsed.named_selects)


def _tile_problems(widget: Mapping[str, Any], columns: Mapping[str, set[str]]) -> Iterator[str]:
    if "multilineTextboxSpec" in widget:
        return
    given: set[str] = set()
    for query in widget["queries"]:
        dataset = query["query"]["datasetName"]
        if dataset not in columns:
            yield f"no dataset {dataset}"
            continue
        for each in query["query"]["fields"]:
            given.add(each["name"])
            for column in sqlglot.parse_one(each["expression"], read="databricks").find_all(exp.Column):
                if column.name not in columns[dataset]:
                    yield f"dataset {dataset} gives no {column.name}"
    spec = widget["spec"]
    if _VERSIONS.get(spec["widgetType"]) != spec["version"]:
        yield f"no {spec['widgetType']} of version {spec['version']}"
    for name in _field_names(spec["encodings"]):
        if name not in given:
            yield f"shows {name}, which it does not ask for"


def _field_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "fieldName":
                yield item
            else:
                yield from _field_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _field_names(item)


def _place_problems(layout: list[dict[str, Any]]) -> Iterator[str]:
    cells: dict[tuple[int, int], str] = {}
    for tile in layout:
        place, name = tile["position"], tile["widget"]["name"]
        if place["x"] + place["width"] > _COLUMNS:
            yield f"tile {name}: beyond the page's {_COLUMNS} columns"
        for cell in itertools.product(
            range(place["x"], place["x"] + place["width"]), range(place["y"], place["y"] + place["height"])
        ):
            if cells.setdefault(cell, name) != name:
                yield f"tile {name}: lies on {cells[cell]}"
                break
