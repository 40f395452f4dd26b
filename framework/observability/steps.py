"""The steps of a run, and the interface of whoever is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from framework.config.sources import Source
from framework.errors import MainstemError

Kind = Literal["run", "layer", "source", "batch", "table"]
Fact = str | int | float | bool


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A part of a run that begins and ends; each object is a step of its own.

    Attributes:
        kind: What it works on.
        name: The name of the pipeline, layer, source or table; the number of a batch.
        parent: The step that it is a part of; null for a run.
        seconds_ago: How long ago it began when its begin is told.
    """

    kind: Kind
    name: str
    parent: Step | None = None
    seconds_ago: float = 0.0


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table that a step has brought up to date.

    Attributes:
        place: Its path, its URL, or its name in the catalog.
        columns: Its columns with their types; empty where they are not known.
        rows: How many rows were added or changed; null where that is not known.
    """

    place: str
    columns: tuple[tuple[str, str], ...] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step has ended.

    Attributes:
        facts: Names and numbers, never keys, values of rows, payloads or secrets.
        error: Why it failed; null where it did not.
        is_parked: The table is parked.
        written: The table that was written; null where none was.
    """

    facts: Mapping[str, Fact] = field(default_factory=dict)
    error: BaseException | None = None
    is_parked: bool = False
    written: WrittenTable | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What observers know of a run before it begins; `table` is the one table to process, null for all.

    `sources` are those of the configuration, by name; they may hold secrets.
    """

    pipeline: str
    run_id: str
    through: str
    table: str | None = None
    sources: Mapping[str, Source] = field(default_factory=dict, repr=False)


class Observer(Protocol):
    """Is told the steps of one run, from any thread. What it raises ends its part, and not the run."""

    def begin(self, step: Step) -> None:
        """A step begins; this must not wait for a network."""

    def end(self, step: Step, end: StepEnd) -> None:
        """A step has ended; this must not wait for a network."""

    def send(self) -> str | None:
        """Send what is left, after the last step; may take long. Returns why something was not sent."""


def type_of(error: BaseException) -> str:
    """The kind of an error without its text, which may hold values: its code, else the name of its class."""
    return error.condition if isinstance(error, MainstemError) else type(error).__qualname__
