"""The contract between the command line and the layers, which it finds by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from framework.checks import Check
from framework.config import Config
from framework.contracts.erasure import Erasure
from framework.contracts.lines import FiledMessage
from framework.contracts.quality import QualityResult
from framework.contracts.seed import Seed
from framework.quality.subject import Past, Subject
from framework.tables import Lakehouse

GROUP = "mainstem.layers"
ORDER = ("bronze", "silver", "gold", "quality")


@dataclass(frozen=True, slots=True)
class Run:
    """What a layer works with. `table` is set when one table alone is to move (its dotted name).

    `scratch` is an empty folder of this run alone, outside of the lakehouse; set for plans only.
    """

    spark: SparkSession
    lake: Lakehouse
    config: Config
    run_id: str
    table: str | None = None
    scratch: str = ""


@dataclass(frozen=True, slots=True)
class TableLine:
    """What a run did with one table; `state` is ok or PARKED, `notes` are for people, `seconds` 0 where not measured."""

    name: str
    state: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What a layer did: counts for the totals, lines a table, errors that let the rest of the run go on, notes for people.

    `failures` are the quality rules that do not hold.
    """

    layer: str
    counts: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableLine, ...] = ()
    errors: tuple[Exception, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[QualityResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a layer would do: `found` for people, and `rows`, what it would append, by table, for the layers behind it."""

    found: Mapping[str, Any]
    rows: Mapping[str, DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kept:
    """A table that `maintain` tends. `in_use` says why its old files have to stay, None where they may go."""

    name: str
    in_use: str | None = None


@dataclass(frozen=True, slots=True)
class SeedRequest:
    """What `seed` was asked for: a table by its dotted name, a position as people write it, the source where it is named."""

    table: str
    position: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The seed that a request stands for; `columns` are those that the feed has shown, none where it has shown no row."""

    seed: Seed
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _nothing() -> Sequence[Mapping[str, str]]:
    return ()


def _no_models() -> Mapping[str, type[BaseModel]]:
    return {}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: how it runs, what it adds to `status`, and the formats that it knows (name, row of the formats table).

    `expectations` says what the quality step is to judge.
    `plan` says what a run would do now, and writes nothing outside of the run's `scratch`. `kept` names the tables that
    `maintain` tends.

    `find` names all that is kept of a row (its earlier and later keys too, where that is asked for); `erase` takes it out of
    the layer's tables and says how much that was. It may be done again.

    `place` says which seed a request stands for, and `seed` lands the rows of a dump as messages of it; each is one layer's.

    `look` gives the messages of a file or folder without landing them, `detect` says which format such messages have as
    the feed of a source of this name; each is one layer's.
    """

    name: str
    run: Callable[[Run], LayerReport]
    status: Callable[[Run], Mapping[str, Any]]
    formats: Callable[[], Sequence[Mapping[str, str]]] = _nothing
    options: Callable[[], Mapping[str, type[BaseModel]]] = _no_models
    replay: Callable[[Run], LayerReport] | None = None
    rebuild: Callable[[Run, str], LayerReport] | None = None
    decode_again: Callable[[Run, str], LayerReport] | None = None
    verify: Callable[[Run], Sequence[Check]] | None = None
    trace: Callable[[Run, str, Mapping[str, str]], Mapping[str, Any]] | None = None
    find: Callable[[Run, str, Mapping[str, str], bool], Erasure] | None = None
    erase: Callable[[Run, Erasure], Mapping[str, int]] | None = None
    plan: Callable[[Run], Outlook] | None = None
    kept: Callable[[Run], Iterable[Kept]] | None = None
    look: Callable[[Path], Iterator[FiledMessage]] | None = None
    detect: Callable[[Iterable[FiledMessage], str], Mapping[str, Any]] | None = None
    place: Callable[[Run, SeedRequest], Placed] | None = None
    seed: Callable[[Run, Placed, str], LayerReport] | None = None
    expectations: Callable[[Run, Past], Sequence[Subject]] | None = None


def installed_layers() -> Iterator[Layer]:
    """The layers in the order in which a message passes them."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    for name in ORDER:
        if name in found:
            layer = found[name].load()
            if not isinstance(layer, Layer):
                raise TypeError(f"entry point {name} of {GROUP} is no Layer")
            yield layer
