"""The contract of a message source: what a place must tell so that its messages land, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from framework.config_sources import Source
from framework.errors import MainstemError
from framework.tables import Lakehouse

MESSAGES_TABLE = "bronze/messages"
STATEMENTS_PER_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Feed:
    """One source of a pipeline in one run. Plain data: it travels to other processes."""

    pipeline: str
    lake: Lakehouse
    source: Source
    run_id: str

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name

    @property
    def checkpoint(self) -> str:
        """The folder of the source's stream checkpoint."""
        return f"{self.lake.checkpoints}/bronze/{self.name}"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a look at a source's place told.

    `is_idle` promises that there is nothing to land: only then is the stream not started. `waiting` names what is there
    but not complete. `memory` is given to the next look, if everything has landed by then.
    """

    is_idle: bool
    waiting: tuple[str, ...] = ()
    memory: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """What one commit of a batch lands: its number in the batch, how many files it holds, and rows of MESSAGES."""

    number: int
    files: int
    rows: DataFrame


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a source has that has not landed: rows of MESSAGES, None where there are none, and the files that hold them.

    `unfinished` names what is there but not complete.
    """

    messages: DataFrame | None = None
    files: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()


def _nothing_known(error: Exception, feed: Feed) -> MainstemError | None:
    return None


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of place that messages come from; `name` is its key in `mainstem.yml`.

    `discover` looks at the place and pins what is new; it lands nothing. Its last argument is the memory of the last
    look, empty where there is none to rely on. `read_stream` opens the stream whose batches `parts` turns into rows.
    `parts` gives the same numbers and rows for the same batch, whoever asks and whenever, but may leave out what has
    landed; with `is_reset` it must, because the checkpoint has begun anew. `explain` says what an error of the place's own
    software means, None where it does not know. `peek` tells what waits, and changes nothing; without it the stream itself
    is asked, with a copy of its checkpoint.
    """

    name: str
    discover: Callable[[SparkSession, Feed, str], Discovery]
    read_stream: Callable[[SparkSession, Feed], DataFrame]
    parts: Callable[[DataFrame, Feed, bool], Iterator[Part]]
    explain: Callable[[Exception, Feed], MainstemError | None] = _nothing_known
    peek: Callable[[SparkSession, Feed, str], Waiting] | None = None
