"""Records which tables a layer has, so that a lost table differs from one that was never written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.small_files import read_note, write_note

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Inventory:
    """The tables that existed when a run ended, and facts that no other table holds."""

    tables: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_inventory(spark: SparkSession, lake: Lakehouse, layer: str) -> Inventory | None:
    """The inventory of a layer, None where there is none; costs no Spark job on a local file system."""
    note = read_note(spark, _path(lake, layer))
    if not note:
        return None
    values = json.loads(note)
    return Inventory(tuple(values["tables"]), values["facts"])


def write_inventory(spark: SparkSession, lake: Lakehouse, layer: str, inventory: Inventory) -> None:
    """Write the inventory of a layer in place of the last one."""
    write_note(spark, _path(lake, layer), json.dumps(asdict(inventory), ensure_ascii=False))


def those_there(spark: SparkSession, lake: Lakehouse, names: Iterable[str]) -> tuple[str, ...]:
    """The tables that exist, sorted by name."""
    return tuple(name for name in sorted(names) if lake.exists(spark, name))


def _path(lake: Lakehouse, layer: str) -> str:
    return f"{lake.checkpoints}/{layer}.tables"
