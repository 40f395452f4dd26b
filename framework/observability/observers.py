"""Tells the observers of a run what happens. None of them can fail a run, or hold it for long."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from framework.errors import MainstemError
from framework.observability.extras import EXTRAS
from framework.observability.in_time import answers_in_time
from framework.observability.steps import Observer, RunFacts, Step, StepEnd, type_of

MOST_SECONDS = 5.0
"""How long the end of a run waits for all observers together."""


@dataclass(slots=True)
class _Guarded:
    """An observer, the warning for what it could not send, and what it raised."""

    observer: Observer
    unsent: MainstemError
    failure: str | None = None

    def tell(self, what: Callable[[Observer], None]) -> None:
        if self.failure is None:
            try:
                what(self.observer)
            except Exception as error:
                self.failure = type_of(error)

    def send(self) -> str | None:
        try:
            return self.observer.send()
        except Exception as error:
            return type_of(error)


@dataclass(slots=True)
class Observers:
    """The observers of one run; what one of them raises is a note, and stops only itself."""

    _all: list[_Guarded] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)

    def begin(self, step: Step) -> None:
        """Tell that a step begins."""
        for each in self._all:
            each.tell(lambda observer: observer.begin(step))

    def end(self, step: Step, end: StepEnd) -> None:
        """Tell that a step has ended."""
        for each in self._all:
            each.tell(lambda observer: observer.end(step, end))

    def send(self) -> list[str]:
        """Let the observers send what is left, MOST_SECONDS in all; returns a note for each that could not.

        What is not sent by then is given up.
        """
        working = [each for each in self._all if each.failure is None]
        answers = answers_in_time([each.send for each in working], MOST_SECONDS, "observer")
        for each, answer in zip(working, answers, strict=True):
            each.failure = answer
        self._notes += [note_of(each.unsent, each.failure) for each in self._all if each.failure is not None]
        return self._notes


def observers_of(run: RunFacts, environ: Mapping[str, str] = os.environ) -> Observers:
    """The observers that the environment asks for; no module of the others is imported.

    One that is not installed, or does not start, is a note.
    """
    guarded: list[_Guarded] = []
    notes: list[str] = []
    for extra in EXTRAS:
        if not extra.is_asked_for(environ):
            continue
        try:
            guarded.append(
                _Guarded(import_module(extra.module).open_observer(run, environ), extra.unsent(environ))
            )
        except ImportError:
            notes.append(note_of(extra.missing()))
        except Exception as error:
            reason = error.found if isinstance(error, MainstemError) else type_of(error)
            notes.append(note_of(extra.unsent(environ), reason))
    return Observers(guarded, notes)


def note_of(error: MainstemError, reason: str | None = None) -> str:
    """An error as one line for people, the reason behind what was found."""
    found = error.found if reason is None else f"{error.found}: {reason}"
    return f"{error.condition}: {found}; see {error.where}; do: {error.action}"
