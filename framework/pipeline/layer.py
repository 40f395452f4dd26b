"""The contract between the command line and the layers, which entry points announce."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # slow to import, and needed by few commands
    from pydantic import BaseModel
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from framework.config.model import Config
    from framework.config.sources import Kafka
    from framework.contracts.ddl_actions import TableName
    from framework.contracts.dismissals import Dismissal, DismissalRequest
    from framework.contracts.erasure import Erasure
    from framework.contracts.expectations import CheckTarget, PreviousResults
    from framework.contracts.file_messages import FiledMessage, Sample
    from framework.contracts.quality import QualityResult
    from framework.contracts.seed import Seed
    from framework.lakehouse.lakehouse import Lakehouse
    from framework.lakehouse.table_reader import TableReader
    from framework.pipeline.checks import Check

from framework.pipeline.progress import Progress

GROUP = "mainstem.layers"
ORDER = ("bronze", "silver", "gold", "quality")
_SLOW = ("pandas", "pyarrow.parquet")
LANDED = "landed"
"""The key in `Run.memo` of the number of messages that have landed in the run."""


class View(Protocol):
    """A pipeline whose tables are only read, with Spark or without."""

    @property
    def lake(self) -> Lakehouse:
        """Where the tables are."""

    @property
    def config(self) -> Config:
        """The configuration."""

    @property
    def tables(self) -> TableReader:
        """Reads the tables."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables of a pipeline, open for reading."""

    lake: Lakehouse
    config: Config
    tables: TableReader


@dataclass(frozen=True, slots=True)
class Run:
    """What a layer works with.

    `table` is the dotted name of the one table to process, None for all. `scratch` is an empty folder of this
    run alone, where Spark's tasks can write, too; only plans have one. In `memo` a layer leaves, under its
    name, what it knows at its end, so that the steps behind it need not read it again; in `kept` it
    leaves what the next rounds of the same command need. It reports to `progress` what it has done and what
    is left.
    """

    spark: SparkSession
    lake: Lakehouse
    config: Config
    run_id: str
    table: str | None = None
    scratch: str = ""
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    progress: Progress = field(default_factory=Progress, compare=False, repr=False)

    @property
    def tables(self) -> TableReader:
        """Reads each table in the version that is its newest when this reader is first asked for it."""
        from framework.lakehouse.newest_tables import newest_tables

        return newest_tables(self.spark, self.lake)


@dataclass(frozen=True, slots=True)
class TableLine:
    """What a run did with one table; `state` is ok or PARKED, `seconds` is 0 where not measured.

    `name` is the table's in its source; another source may have a table of this name.
    """

    name: str
    state: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    source: str | None = None


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What a layer did.

    Attributes:
        layer: The layer's name.
        counts: Counts for the totals.
        tables: One line for each table.
        errors: Errors that did not stop the rest of the run.
        notes: Notes for people.
        failures: The quality rules that do not hold.
        seconds: How long the layer worked in a run; None where nobody measured it.
    """

    layer: str
    counts: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableLine, ...] = ()
    errors: tuple[Exception, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[QualityResult, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What a layer would do.

    Attributes:
        summary: The parts of the plan that this layer adds, for people and for JSON.
        rows: What the layer would append, by table, for the layers after it.
    """

    summary: Mapping[str, Any]
    rows: Mapping[str, DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """A table for `maintain`, where there is one of this name.

    `in_use` says why its old files have to stay; None where they may go.
    """

    name: str
    in_use: str | None = None


@dataclass(frozen=True, slots=True)
class SeedRequest:
    """The arguments of `seed`: a dotted table name, a position as people write it, the source if given."""

    table: str
    position: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedSeed:
    """The seed for a request; `columns` are those of the rows in the feed, empty where it has no row yet."""

    seed: Seed
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodingRequest:
    """How messages are decoded that have not landed.

    Attributes:
        format: The name of the format.
        source: The name of the source. Its settings are those of `config`; without a configuration, the
            format's own defaults hold.
        keys: The key columns of every table; empty where the configuration or the feed names them.
        config: The configuration, which then has a source of this name and format; None for none.
    """

    format: str
    source: str = "feed"
    keys: tuple[str, ...] = ()
    config: Config | None = None


def _no_formats() -> Sequence[Mapping[str, str]]:
    return ()


def _no_logs() -> Mapping[str, StructType | str]:
    return {}


def _no_models() -> Mapping[str, type[BaseModel]]:
    return {}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: what the commands can do with it. An operation that a layer does not have is None.

    Attributes:
        name: The layer's name, as in ORDER.
        run: Processes what waits for the layer.
        status: Returns what the layer adds to `status`.
        formats: Returns the rows of the table of formats.
        options: Returns the models of the formats' options, by format.
        replay: Decodes the messages in quarantine again; with True, dismissed ones, too.
        rebuild: Rebuilds one table from its changes.
        redecode: Decodes the messages of one table again.
        verify: Returns the checks of `status --verify`.
        trace: Returns what the layer knows of a row.
        find_row: Returns what all layers hold of a row, by source; with True, under its earlier and later
            keys, too.
        kept_out_rows: Returns the rows of tables of a source that are excluded or in quarantine, with the
            images that their messages have; one layer has it.
        check_copies: Raises OLDER_COPY where a table was put back from an older copy, which may lack what is
            sought; one layer has it.
        erase: Removes a row from the layer's tables and returns how much that was; to repeat it is safe. It
            returns None where its tables are gone or older copies for now, so that it has to be repeated.
        dismiss: Dismisses messages in quarantine, or opens them again; one layer has it.
        plan: Returns what a run would do now; it writes nothing outside of the run's `scratch`.
        tables_to_maintain: Returns the tables for `maintain`, without opening them: one that is damaged does
            not stop the others.
        read_messages: Returns messages of a file or folder without landing them; one layer has it.
        read_topics: Returns a sample of the messages of topics without landing them; one layer has it.
        detect: Returns the format of such messages, as the feed of a source of this name; one layer has it.
        events: Returns what a decoder says of such messages, one mapping a message; one layer has it.
        resolve_seed: Returns the seed for a request; one layer has it.
        seed: Lands the rows of a dump as messages; one layer has it.
        expectations: Returns what the quality step checks.
        logs: Returns the schemas of its tables in `ops` that a dashboard reads, by table.
        modules: What `run` imports, and with it nearly all that is slow to import.
    """

    name: str
    run: Callable[[Run], LayerReport]
    status: Callable[[View], Mapping[str, Any]]
    formats: Callable[[], Sequence[Mapping[str, str]]] = _no_formats
    options: Callable[[], Mapping[str, type[BaseModel]]] = _no_models
    replay: Callable[[Run, bool], LayerReport] | None = None
    rebuild: Callable[[Run, str], LayerReport] | None = None
    redecode: Callable[[Run, str], LayerReport] | None = None
    verify: Callable[[Run], Sequence[Check]] | None = None
    trace: Callable[[Run, str, Mapping[str, str | None]], Mapping[str, Any]] | None = None
    find_row: Callable[[Run, str, Mapping[str, str | None], bool], Sequence[Erasure]] | None = None
    kept_out_rows: Callable[[Run, str, Collection[TableName]], DataFrame] | None = None
    check_copies: Callable[[Run], None] | None = None
    erase: Callable[[Run, Erasure], Mapping[str, int] | None] | None = None
    dismiss: Callable[[Run, DismissalRequest], Dismissal] | None = None
    plan: Callable[[Run], Preview] | None = None
    tables_to_maintain: Callable[[Run], Iterable[MaintainedTable]] | None = None
    read_messages: Callable[[Path, Sample], Iterator[FiledMessage]] | None = None
    read_topics: Callable[[SparkSession, Kafka, Sample], Iterator[FiledMessage]] | None = None
    detect: Callable[[Iterable[FiledMessage], str], Mapping[str, Any]] | None = None
    events: Callable[[Iterable[FiledMessage], DecodingRequest], Iterator[Mapping[str, Any]]] | None = None
    resolve_seed: Callable[[Run, SeedRequest], ResolvedSeed] | None = None
    seed: Callable[[Run, ResolvedSeed, str], LayerReport] | None = None
    expectations: Callable[[Run, PreviousResults], Sequence[CheckTarget]] | None = None
    logs: Callable[[], Mapping[str, StructType | str]] = _no_logs
    modules: tuple[str, ...] = ()


def installed_layers() -> Iterator[Layer]:
    """The layers in the order in which a message passes them."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    for name in ORDER:
        if name in found:
            layer = found[name].load()
            if not isinstance(layer, Layer):
                raise TypeError(f"entry point {name} of {GROUP} is no Layer")
            yield layer


def layers_through(name: str) -> Iterator[Layer]:
    """The installed layers up to this one."""
    return takewhile(lambda layer: ORDER.index(layer.name) <= ORDER.index(name), installed_layers())


def modules_through(name: str) -> list[str]:
    """What a run up to this layer imports, before the layers themselves what all of them import."""
    return [*_SLOW, *(module for layer in layers_through(name) for module in layer.modules)]
