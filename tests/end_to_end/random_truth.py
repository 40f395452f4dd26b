"""What a replica is to have by its random source, and where it differs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from pyspark.sql import functions as F

from gold.writing.replica import live_rows
from tests.end_to_end.random_feeds import Feed
from tests.end_to_end.random_pipeline import Pipeline
from tests.end_to_end.random_statements import RandomTable


def typed(kind: str, text: str | None) -> object:
    """The value that a reader of the replica gets for canonical text under a gold type."""
    if text is None or kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind in ("int", "bigint"):
        return int(text)
    if kind.startswith("decimal"):
        return Decimal(text)
    if kind == "double":
        return float(text)
    if kind == "date":
        return datetime.fromisoformat(text).date()
    if kind == "timestamp":
        return datetime.fromisoformat(text).astimezone(UTC)
    return base64.b64decode(text) if kind == "binary" else datetime.fromisoformat(text)


def types_in_gold(table: RandomTable, gold_types: Mapping[str, str]) -> dict[str, str]:
    """Column to type as the replica is to have it, dropped columns included."""
    return {name: gold_types.get(kind, kind) for name, kind in {**table.kinds, **table.dropped}.items()}


def differences(pipeline: Pipeline, feed: Feed, table: RandomTable, replica: str) -> list[str]:
    """Where the replica is not what the source has."""
    frame = live_rows(pipeline.spark.read.format("delta").load(replica))
    names = [
        name for name in frame.columns if not name.startswith("_cdc_") or name.startswith("_cdc_dropped_")
    ]
    kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields if f.name in names}
    expected = types_in_gold(table, feed.gold_types)
    if pipeline.settings.drops_columns(feed, table):
        expected = {name: kind for name, kind in expected.items() if name not in table.dropped}
    wrong = [
        f"{n}: {kinds.get(n)}, expected {expected.get(n)}"
        for n in kinds.keys() | expected.keys()
        if kinds.get(n) != expected.get(n)
    ]
    found = frame.select(*(F.col(f"`{n}`") for n in names)).toArrow().to_pylist()
    rows = {repr([row[k] for k in table.keys]): row for row in found}
    if len(rows) != len(found):
        wrong.append(f"{len(found)} rows of {len(rows)} keys")
    truth = {}
    for row in table.rows.values():
        values = {name: typed(expected[name], row[name]) for name in expected}
        truth[repr([values[k] for k in table.keys])] = values
    stayed = rows.keys() - truth.keys() if pipeline.deletes(table) == "ignore" else set()
    for key in sorted((rows.keys() | truth.keys()) - stayed):
        if rows.get(key) != truth.get(key):
            one, other = rows.get(key), truth.get(key)
            cells = (
                {n: (one[n], other[n]) for n in one if one[n] != other.get(n)}
                if one and other
                else (one, other)
            )
            wrong.append(f"{table.name} {key}: found and expected: {cells}")
    return wrong
