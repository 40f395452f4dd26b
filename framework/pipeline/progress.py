"""What a run has done and what is left, as far as its layers know that without asking Spark to count.

Layers report while they work, from any thread; a display reads snapshots in a thread of its own. Counts are
never wrong by design, but may be late or missing: on Spark Connect batches run in other processes. Silver
tells them by their commits there, and bronze tells nothing.

Who observes the run is told of the same steps as they begin and end (`framework.observability`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from framework.observability.observers import Observers
from framework.observability.steps import Fact, Kind, Step, StepEnd

Clock = Callable[[], float]
Probe = Callable[[], tuple[int, int] | None]
"""Returns how much is done and how much there is in all; None where that is unknown."""


@dataclass(frozen=True, slots=True)
class Count:
    """How much of something is done; `total` is null where it is unknown."""

    done: int = 0
    total: int | None = None


@dataclass(frozen=True, slots=True)
class TableEnd:
    """A table that a layer has finished; `state` is ok, PARKED or FAILED."""

    name: str
    state: str
    seconds: float


@dataclass(frozen=True, slots=True)
class LayerProgress:
    """The progress of one layer.

    Attributes:
        name: The layer's name.
        seconds: How long it has worked.
        is_ended: Whether it has finished.
        counts: Its counts, by unit: `bytes`, `files`, `offsets`, `messages`, `batches`, `tables`.
        active: The tables at work, in the order in which they began.
        ended: The tables that have ended, in the order of their ends.
        tasks: The tasks of Spark's running stages, done and all; null where there are none, or unknown.
    """

    name: str
    seconds: float
    is_ended: bool = False
    counts: Mapping[str, Count] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    ended: tuple[TableEnd, ...] = ()
    tasks: tuple[int, int] | None = None


@dataclass(slots=True)
class _Layer:
    name: str
    began: float
    end: float | None = None
    counts: dict[str, Count] = field(default_factory=dict)
    probes: dict[str, list[Probe]] = field(default_factory=dict)
    active: dict[str, float] = field(default_factory=dict)
    ended: list[TableEnd] = field(default_factory=list)
    step: Step | None = None
    table_steps: dict[str, Step] = field(default_factory=dict)


class Progress:
    """The progress of one run, safe to use from several threads."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._layers: list[_Layer] = []
        self._tasks: Probe | None = None
        self._observers = Observers()
        self._run: Step | None = None
        self.began = clock()

    @property
    def seconds(self) -> float:
        """How long the run has worked."""
        return self._clock() - self.began

    def observe(self, observers: Observers, run: Step) -> None:
        """Tell observers the steps from now on, as parts of a run."""
        self._observers, self._run = observers, run

    def begin(self, layer: str) -> None:
        """A layer begins; what is reported from now on is about it."""
        step = Step("layer", layer, self._run)
        with self._lock:
            self._layers.append(_Layer(layer, self._clock(), step=step))
        self._observers.begin(step)

    def end(self, end: StepEnd | None = None) -> None:
        """The layer has ended; `end` is for observers."""
        ended = []
        with self._lock:
            for layer in self._layers[-1:]:
                layer.end = self._clock()
                layer.probes.clear()
                layer.active.clear()
                ended = [*layer.table_steps.values(), *([layer.step] if layer.step else ())]
                layer.table_steps.clear()
                layer.step = None
        for step in ended:
            self._observers.end(step, end or StepEnd())

    @contextmanager
    def step(self, kind: Kind, name: str) -> Iterator[dict[str, Fact]]:
        """A part of the layer, for observers; what is written into the mapping are its facts."""
        with self._lock:
            step = Step(kind, name, next((layer.step for layer in self._layers[-1:]), None))
        facts: dict[str, Fact] = {}
        self._observers.begin(step)
        try:
            yield facts
        except BaseException as error:
            self._observers.end(step, StepEnd(facts, error))
            raise
        self._observers.end(step, StepEnd(facts))

    def expect(self, unit: str, count: int) -> None:
        """The layer has so much more to do."""
        self._add(unit, 0, count)

    def advance(self, unit: str, count: int = 1) -> None:
        """The layer has done so much more."""
        self._add(unit, count, None)

    def _add(self, unit: str, done: int, total: int | None) -> None:
        with self._lock:
            for layer in self._layers[-1:]:
                was = layer.counts.get(unit, Count())
                all_of_it = was.total if total is None else (was.total or 0) + total
                layer.counts[unit] = Count(was.done + done, all_of_it)

    def start_table(self, name: str) -> None:
        """The layer begins with a table."""
        step = None
        with self._lock:
            for layer in self._layers[-1:]:
                layer.active[name] = self._clock()
                layer.table_steps[name] = step = Step("table", name, layer.step)
        if step is not None:
            self._observers.begin(step)

    def end_table(self, name: str, state: str, end: StepEnd | None = None) -> None:
        """The layer has ended with a table; `state` is ok, PARKED or FAILED, and `end` is for observers."""
        step = None
        with self._lock:
            for layer in self._layers[-1:]:
                began = layer.active.pop(name, self._clock())
                layer.ended.append(TableEnd(name, state, self._clock() - began))
                step = layer.table_steps.pop(name, None)
        if step is not None:
            self._observers.end(step, end or StepEnd(is_parked=state == "PARKED"))

    def watch(self, unit: str, probe: Probe) -> None:
        """Ask `probe` at each snapshot for what to add to the counts of a unit, until the layer ends."""
        with self._lock:
            for layer in self._layers[-1:]:
                layer.probes.setdefault(unit, []).append(probe)

    def watch_tasks(self, probe: Probe) -> None:
        """Ask `probe` for the tasks of Spark's running stages whenever a snapshot is taken."""
        self._tasks = probe

    def snapshot(self) -> tuple[LayerProgress, ...]:
        """The progress of all layers that have begun, in their order."""
        with self._lock:
            layers = [(layer, dict(layer.counts), dict(layer.probes)) for layer in self._layers]
        watched = [self._watched(probes) for _, _, probes in layers]
        tasks = _asked(self._tasks) if layers and layers[-1][0].end is None else None
        now = self._clock()
        with self._lock:
            return tuple(
                LayerProgress(
                    layer.name,
                    (now if layer.end is None else layer.end) - layer.began,
                    layer.end is not None,
                    _sum(counts, probed),
                    tuple(layer.active),
                    tuple(layer.ended),
                    None if layer.end is not None else tasks,
                )
                for (layer, counts, _), probed in zip(layers, watched, strict=True)
            )

    @staticmethod
    def _watched(probes: Mapping[str, list[Probe]]) -> dict[str, Count]:
        answers = {
            unit: [answer for probe in mine if (answer := _asked(probe)) is not None]
            for unit, mine in probes.items()
        }
        return {
            unit: Count(sum(done for done, _ in found), sum(total for _, total in found))
            for unit, found in answers.items()
            if found
        }


def _sum(counts: Mapping[str, Count], more: Mapping[str, Count]) -> dict[str, Count]:
    """The counts with what is done, and what there is, besides."""
    found = dict(counts)
    for unit, count in more.items():
        was = found.get(unit, Count())
        total = None if was.total is None and count.total is None else (was.total or 0) + (count.total or 0)
        found[unit] = Count(was.done + count.done, total)
    return found


def _asked(probe: Probe | None) -> tuple[int, int] | None:
    """The answer of a probe; None where it fails, as progress must not stop a run."""
    try:
        return None if probe is None else probe()
    except Exception:
        return None
