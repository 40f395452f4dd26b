"""How SQL calls the tables of a pipeline. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from framework.names import dotted_name

LAYERS = {
    "bronze": ("messages",),
    "silver": ("changes", "schemas", "quarantine", "pending"),
    "ops": ("runs", "batches", "tables", "statements", "epochs", "bad_values", "quality_results", "alerts"),
}
_HISTORY = "__history"
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica, and its history where it has one; the places are what a Delta reader opens."""

    database: str | None
    schema: str | None
    table: str
    place: str
    history: str | None = None


def views(replicas: Iterable[Replica], place: Callable[[str], str]) -> dict[str, str]:
    """Dotted name → place of every table; `place` tells that of a layer's own, `layer/table`.

    A replica is `database.table` or `database.schema.table`, its history the same with `__history`. A name that the
    layers have is theirs; every replica is also `gold.` and its name.
    """
    found: dict[str, str] = {}
    for replica in replicas:
        name = dotted_name(replica.database, replica.schema, replica.table)
        for suffix, where in (("", replica.place), (_HISTORY, replica.history)):
            if where is not None:
                found.setdefault(name + suffix, where)
                found.setdefault(f"gold.{name}{suffix}", where)
    return found | {f"{layer}.{table}": place(f"{layer}/{table}") for layer, tables in LAYERS.items() for table in tables}


def found_view(relation: str, known: Mapping[str, str]) -> str | None:
    """The dotted name that a relation in a query means, as Spark writes it in its errors (each part in backquotes); else None.

    Letters match in any case, as elsewhere in SQL, but a name that matches exactly wins.
    """
    name = ".".join(parts(relation))
    if name in known:
        return name
    folded = [candidate for candidate in known if candidate.casefold() == name.casefold()]
    return folded[0] if len(folded) == 1 else None


def parts(relation: str) -> list[str]:
    """The parts of a relation's name without their backquotes."""
    return [quoted.replace("``", "`") if quoted else plain for quoted, plain in _PART.findall(relation)]
