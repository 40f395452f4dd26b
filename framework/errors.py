"""The errors that a user can act on: each has a condition and a message in three parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_AS_TEXT = re.compile(r"(MainstemError|ConfigurationError): ([A-Z_]+)\n +found: (.*)\n +where: (.*)\n +do: +(.*)")

_TRACE = re.compile(r"foreachBatch Python process: Traceback \(most recent call last\):\n(?: .*\n)+(\S.*)")


class MainstemError(Exception):
    """What went wrong, in three parts: what was found, where, and what to do.

    `condition` is upper case and stable: tools and tests compare it, never the prose. `exit_code` is what the command
    line leaves with.
    """

    exit_code = 1

    def __init__(self, condition: str, *, found: str, where: str, action: str) -> None:
        super().__init__(condition, found, where, action)
        self.condition = condition
        self.found = found
        self.where = where
        self.action = action

    def __str__(self) -> str:
        return f"{self.condition}\n  found: {self.found}\n  where: {self.where}\n  do:    {self.action}"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.condition, self.found, self.where, self.action)


class ConfigurationError(MainstemError):
    """The configuration or the command line cannot be followed; nothing has been read or written."""

    exit_code = 2


def brief(error: Exception) -> str:
    """What an error comes to: all three parts of a MainstemError, of any other its class and what went wrong, in a line."""
    if isinstance(error, MainstemError):
        return str(error)
    name, cause = type(error).__name__, cause_of(error)
    return name if cause == name else f"{name}: {cause}"


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that `name` was most likely meant to be, None where nothing is close."""
    spelled = {candidate.lower(): candidate for candidate in allowed}
    matches = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return spelled[matches[0]] if matches else None


def listed(allowed: Iterable[str]) -> str:
    """The allowed names as one sentence part, for messages."""
    return ", ".join(sorted(allowed)) or "none"


def suggested(name: str, allowed: Iterable[str]) -> str:
    """What to write in place of `name`: the nearest allowed name first, then all of them."""
    names = list(allowed)
    match = nearest(name, names)
    hint = f"did you mean '{match}'? " if match else ""
    return f"{hint}allowed: {listed(names)}"


def cause_of(error: Exception) -> str:
    """One line that says what went wrong: of an error of the JVM the innermost cause, else the error's first line.

    Of a batch that failed in another process, as on Spark Connect, it is the end of the trace.
    """
    traced = _TRACE.search(str(error))
    if traced is not None:
        return traced[1][:500]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.partition(":")[2].strip() for line in lines if line.startswith(("Caused by:", ":"))]
    if lines and lines[0].startswith("An error occurred while calling") and causes:
        return causes[-1][:500]
    return lines[0][:500] if lines else type(error).__name__


def as_raised(error: Exception) -> MainstemError | None:
    """The MainstemError that a task or a batch raised, which Spark hands on as text; None if it was another."""
    match = _AS_TEXT.search(str(error))
    if match is None:
        return None
    kind, condition, found, where, action = match.groups()
    return _KINDS[kind](condition, found=found, where=where, action=action)


_KINDS = {kind.__name__: kind for kind in (MainstemError, ConfigurationError)}


def _restored(kind: type[MainstemError], condition: str, found: str, where: str, action: str) -> MainstemError:
    return kind(condition, found=found, where=where, action=action)
