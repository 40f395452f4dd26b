"""The interface of a kind of message source: what it must provide so that each message lands once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from framework.config.sources import Source
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.owner import landing_checkpoint

COMMITS_PER_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Feed:
    """One source of a pipeline in one run. Plain data, because it is sent to other processes.

    `copied_checkpoint` is the copy of the stream's checkpoint on which a plan runs the stream; None in a run.
    """

    pipeline: str
    lake: Lakehouse
    source: Source
    run_id: str
    copied_checkpoint: str | None = None

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name

    @property
    def checkpoint(self) -> str:
        """The folder of the source's stream checkpoint."""
        return landing_checkpoint(self.lake, self.name)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What `SourceKind.discover` has found.

    Attributes:
        is_idle: Guarantees that there is nothing to land; only then the stream is not started.
        waiting: Files that are not complete yet.
        state: Given to the next `discover`, if everything has landed by then.
        skipped: Entries of the folder that are not read, each with the reason.
        files: How many files are going to land; 0 for sources without files.
        size: How many bytes they have.
    """

    is_idle: bool
    waiting: tuple[str, ...] = ()
    state: str = ""
    skipped: tuple[str, ...] = ()
    files: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """Parquet files with the columns of MESSAGES, and how many messages they have."""

    files: tuple[str, ...]
    messages: int


@dataclass(frozen=True, slots=True)
class Part:
    """One commit of a batch.

    Attributes:
        spark: The session of the batch.
        number: Its number in the batch.
        files: How many files it has.
        rows: Makes its rows of MESSAGES; not called where `write` does the work.
        size: How many bytes the files have.
        messages: About how many messages it has; None where nobody knows.
        write: Writes these rows as Parquet files into a folder that tasks and this process see; None where
            only Spark can write them.
    """

    spark: SparkSession
    number: int
    files: int
    rows: Callable[[], DataFrame]
    size: int = 0
    messages: int | None = None
    write: Callable[[str], MessageFiles] | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a source has that has not landed.

    Attributes:
        messages: Rows of MESSAGES; None where there are none.
        files: The names of the files that hold them.
        unfinished: Files that are not complete yet.
        skipped: Entries of the folder that are not read, each with the reason.
    """

    messages: DataFrame | None = None
    files: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def _explain_nothing(error: Exception, feed: Feed) -> MainstemError | None:
    return None


def _locate_nothing(spark: SparkSession, error: MainstemError, feed: Feed) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source.

    Attributes:
        name: Its key in `mainstem.yml`.
        discover: Finds and records what is new; lands nothing. Its last argument is the state that the last
            call returned, empty where there is none.
        read_stream: Opens the stream whose batches `parts` turns into rows. With `is_reset` a new checkpoint
            must reach back to the first message that the source still has.
        parts: Gives the same numbers and rows for the same batch whenever it is called, but may leave out
            what has landed. With `is_reset` it must leave that out, because the checkpoint has begun again.
        explain: Explains an error of the source's software; None where it does not know the error.
        locate: Finds the message that the explained error is about, and may read the source for it; None
            where it cannot tell.
        peek: Finds what waits, and changes nothing. Without it `plan` runs the stream on a copy of its
            checkpoint.
    """

    name: str
    discover: Callable[[SparkSession, Feed, str], Discovery]
    read_stream: Callable[[SparkSession, Feed, bool], DataFrame]
    parts: Callable[[DataFrame, Feed, bool], Iterator[Part]]
    explain: Callable[[Exception, Feed], MainstemError | None] = _explain_nothing
    locate: Callable[[SparkSession, MainstemError, Feed], str | None] = _locate_nothing
    peek: Callable[[SparkSession, Feed, str], Waiting] | None = None
