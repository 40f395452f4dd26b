"""The SQL names of a pipeline's tables. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
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
        "encodings",
        "partitions",
        "repairs",
    ),
}
_OF_LAYERS = tuple(f"{layer}.{table}" for layer, tables in LAYERS.items() for table in tables)
_HISTORY = "__history"
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica, and its history if it has one.

    Attributes:
        database: The table as the source names it, with `schema` and `table`.
        schema: None where the source has two levels.
        table: The table.
        location: The location of the replica.
        history: That of its history.
        in_gold: Its own dotted name; None where nobody knows it.
    """

    database: str | None
    schema: str | None
    table: str
    location: str
    history: str | None = None
    in_gold: str | None = None

    @property
    def in_source(self) -> str:
        """The dotted name of the table in the source."""
        return dotted_name(self.database, self.schema, self.table)


def views(replicas: Iterable[Replica], place: Callable[[str], str]) -> dict[str, str]:
    """The location of every table by its dotted name; `place` returns that of a layer's own, `layer/table`.

    A replica is `database.table` or `database.schema.table`, its history the same with `__history`: by its
    own name, and by that of the table in the source where no other replica has it. A table of a layer wins
    over a replica of its name; every replica is also `gold.` and its name.
    """
    found: dict[str, str] = {}
    for name, called in _by_name(replicas).items():
        for replica in called if len(called) == 1 else ():
            for suffix, where in (("", replica.location), (_HISTORY, replica.history)):
                if where is not None:
                    found.setdefault(name + suffix, where)
                    found.setdefault(f"gold.{name}{suffix}", where)
    return found | {name: place(name.replace(".", "/")) for name in _OF_LAYERS}


def shared_names(replicas: Iterable[Replica]) -> dict[str, tuple[str, ...]]:
    """The dotted names that several replicas or histories have, with their own names as far as known."""
    found: dict[str, tuple[str, ...]] = {}
    for name, called in _by_name(replicas).items():
        for suffix in ("", _HISTORY) if len(called) > 1 else ():
            those = [replica for replica in called if not suffix or replica.history]
            own = tuple(replica.in_gold + suffix for replica in those if replica.in_gold)
            found |= {name + suffix: own, f"gold.{name}{suffix}": own} if those else {}
    return {name: own for name, own in found.items() if name not in _OF_LAYERS}


def _by_name(replicas: Iterable[Replica]) -> dict[str, list[Replica]]:
    """The replicas of each name: those whose own it is, else those whose tables have it in the sources."""
    in_source: dict[str, dict[str, Replica]] = {}
    in_gold: dict[str, dict[str, Replica]] = {}
    for replica in replicas:
        in_source.setdefault(replica.in_source, {})[replica.location] = replica
        if replica.in_gold:
            in_gold.setdefault(replica.in_gold, {})[replica.location] = replica
    return {name: list(called.values()) for name, called in (in_source | in_gold).items()}


def find_view(relation: str, known: Collection[str]) -> str | None:
    """The dotted name that a relation in a query stands for; None if it is no table of the pipeline.

    Spark's errors write the relation with each part in backquotes. Letters match in any case, as elsewhere in
    SQL, but a name that matches exactly wins.
    """
    name = ".".join(parts(relation))
    if name in known:
        return name
    folded = [candidate for candidate in known if candidate.casefold() == name.casefold()]
    return folded[0] if len(folded) == 1 else None


def differ_by_case(names: Iterable[tuple[str, ...]], known: Mapping[str, str]) -> tuple[str, str] | None:
    """Two of the names, for different locations, that Spark does not tell apart; None if there are none."""
    found: dict[tuple[str, ...], str] = {}
    for name in names:
        dotted = ".".join(name)
        if dotted in known:
            other = found.setdefault(tuple(part.casefold() for part in name), dotted)
            if known[other] != known[dotted]:
                return other, dotted
    return None


def parts(relation: str) -> list[str]:
    """The parts of a relation's name without their backquotes."""
    return [quoted.replace("``", "`") if quoted else plain for quoted, plain in _PART.findall(relation)]
