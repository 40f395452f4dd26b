"""The SQL names of a pipeline's tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from framework.naming import dotted_name

LAYERS = {
    "bronze": ("messages",),
    "silver": ("changes", "schemas", "quarantine", "pending"),
    "ops": (
        "runs",
        "batches",
        "tables",
        "statements",
        "epochs",
        "bad_values",
        "quality_results",
        "alerts",
        "repairs",
    ),
}
_HISTORY = "__history"
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica, and its history if it has one: their locations."""

    database: str | None
    schema: str | None
    table: str
    location: str
    history: str | None = None


def views(replicas: Iterable[Replica], place: Callable[[str], str]) -> dict[str, str]:
    """The location of every table by its dotted name; `place` returns that of a layer's own, `layer/table`.

    A replica is `database.table` or `database.schema.table`, its history the same with `__history`. A table
    of a layer wins over a replica of its name; every replica is also `gold.` and its name.
    """
    found: dict[str, str] = {}
    for replica in replicas:
        name = dotted_name(replica.database, replica.schema, replica.table)
        for suffix, where in (("", replica.location), (_HISTORY, replica.history)):
            if where is not None:
                found.setdefault(name + suffix, where)
                found.setdefault(f"gold.{name}{suffix}", where)
    return found | {
        f"{layer}.{table}": place(f"{layer}/{table}") for layer, tables in LAYERS.items() for table in tables
    }


def find_view(relation: str, known: Mapping[str, str]) -> str | None:
    """The dotted name that a relation in a query stands for; None if it is no table of the pipeline.

    Spark's errors write the relation with each part in backquotes. Letters match in any case, as elsewhere in
    SQL, but a name that matches exactly wins.
    """
    name = ".".join(parts(relation))
    if name in known:
        return name
    folded = [candidate for candidate in known if candidate.casefold() == name.casefold()]
    return folded[0] if len(folded) == 1 else None


def parts(relation: str) -> list[str]:
    """The parts of a relation's name without their backquotes."""
    return [quoted.replace("``", "`") if quoted else plain for quoted, plain in _PART.findall(relation)]
