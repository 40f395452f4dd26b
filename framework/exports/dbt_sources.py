"""Replicas and histories as `sources.yml` of dbt, with freshness and the tests that a key implies.

https://docs.getdbt.com/reference/source-properties
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import yaml

MARK = "# made by `mainstem dbt-sources`"
_OTHER = re.compile(r"\W+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Replica:
    """A table of the source, with its replica: a path, or a name in a catalog.

    `history` is None without one; `max_age` is how old its newest event may be.
    """

    parts: tuple[str, ...]
    source: str
    replica: str
    history: str | None
    keys: tuple[str, ...]
    max_age: timedelta


def dbt_document(pipeline: str, replicas: Sequence[Replica]) -> dict[str, Any]:
    """The content of `sources.yml`.

    Tables of a catalog are one dbt source for each schema, tables in folders one with the schema `delta`,
    as Spark reads tables by their path.
    """
    groups: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
    names = _unique_names(replicas)
    for replica, name in zip(replicas, names, strict=True):
        place, identifier = _place(replica.replica)
        groups.setdefault(place, []).append(_replica_table(replica, name, identifier))
        if replica.history is not None:
            place, identifier = _place(replica.history)
            groups.setdefault(place, []).append(_history_table(replica, f"{name}__history", identifier))
    sources = [_source(pipeline, place, tables) for place, tables in groups.items()]
    return {"version": 2, "sources": sources}


def dbt_text(document: Mapping[str, Any]) -> str:
    """The content as YAML, with a first line that names its origin."""
    return f"{MARK}; do not edit\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _source(pipeline: str, place: tuple[str | None, str], tables: list[dict[str, Any]]) -> dict[str, Any]:
    database, schema = place
    source: dict[str, Any] = {
        "name": pipeline,
        "description": f"Replicas of the pipeline {pipeline}, kept by Mainstem.",
        "schema": schema,
        "loaded_at_field": "_cdc_event_time",
        "quoting": {"identifier": True},
        "tables": tables,
    }
    if database is not None:
        source["database"] = database
    return source


def _replica_table(replica: Replica, name: str, identifier: str) -> dict[str, Any]:
    table = {
        "name": name,
        "identifier": identifier,
        "description": f"The current rows of {'.'.join(replica.parts)} (source {replica.source}).",
        "freshness": {"error_after": _age(replica.max_age)},
    }
    if not replica.keys:
        return table
    tests = ["not_null", "unique"] if len(replica.keys) == 1 else ["not_null"]
    return {**table, "columns": [{"name": key, "data_tests": list(tests)} for key in replica.keys]}


def _history_table(replica: Replica, name: str, identifier: str) -> dict[str, Any]:
    return {
        "name": name,
        "identifier": identifier,
        "description": f"All versions of the rows of {'.'.join(replica.parts)}.",
        "freshness": None,  # a history is as fresh as its replica
    }


def _age(age: timedelta) -> dict[str, Any]:
    """An age in the largest unit of dbt that expresses it, rounded up to minutes."""
    minutes = max(1, -int(-age.total_seconds() // 60))
    for period, size in (("day", 1440), ("hour", 60)):
        if minutes % size == 0:
            return {"count": minutes // size, "period": period}
    return {"count": minutes, "period": "minute"}


def _place(location: str) -> tuple[tuple[str | None, str], str]:
    """Database, schema and identifier of a location: a path, or `catalog.schema.table`."""
    if "/" in location:
        return (None, "delta"), location
    parts = [quoted or plain for quoted, plain in re.findall(r"`([^`]+)`|([^.`]+)", location)]
    return ((parts[-3] if len(parts) > 2 else None), parts[-2]), parts[-1]


def _unique_names(replicas: Iterable[Replica]) -> list[str]:
    """A name for each table that dbt can refer to; a name that is taken gets a number."""
    names: list[str] = []
    for replica in replicas:
        base = "__".join(_OTHER.sub("_", part) for part in replica.parts)
        name, number = base, 2
        while name in names:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return names
