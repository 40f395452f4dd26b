"""The errors that a user can act on: a condition, and a message in three parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

_AS_TEXT = re.compile(
    r"(MainstemError|ConfigurationError): ([A-Z_]+)\n +found: (.*)\n +where: (.*)\n +do: +(.*)"
)

_PARTS = re.compile(r"([A-Z_]+)\s+found: (.*\S)\s+where: .*\s+do: +(.*)", re.DOTALL)

_AT = "while at work on: "

_TRACE = re.compile(r"foreachBatch Python process: Traceback \(most recent call last\):\n(?: .*\n)+(\S.*)")


class MainstemError(Exception):
    """An error in three parts: what was found, where, and what to do.

    `condition` is upper case and stable: tools and tests compare it, never the text. `exit_code` is the exit
    code of the command line.
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
    """The configuration or the command line is invalid; nothing has been read or written.

    `others` has the further faults of the same configuration.
    """

    exit_code = 2
    others: tuple[ConfigurationError, ...] = ()

    @property
    def faults(self) -> tuple[ConfigurationError, ...]:
        """This fault and the others."""
        return (self, *self.others)

    def __str__(self) -> str:
        return "\n".join((super().__str__(), *map(str, self.others)))

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"others": self.others})


def in_a_line(text: str) -> str:
    """The text of an error as one line, `CODE: found; do: action`; any other text on one line.

    It is for places that say where it happened by themselves, such as the line of a table.
    """
    parts = _PARTS.fullmatch(text.strip())
    return " ".join((text if parts is None else "{}: {}; do: {}".format(*parts.groups())).split())


def brief(error: Exception) -> str:
    """An error in one line: the three parts of a MainstemError, the class and message of any other."""
    if isinstance(error, MainstemError):
        return str(error)
    name, cause = type(error).__name__, cause_of(error)
    return name if cause == name else f"{name}: {cause}"


@contextmanager
def located(place: str) -> Iterator[None]:
    """An error that leaves this context says where it happened, beside the places of inner contexts.

    The place is a note of the exception, so that a trace shows it as well.
    """
    try:
        yield
    except Exception as error:
        error.add_note(f"{_AT}{place}")
        raise


def place_of(error: Exception) -> str | None:
    """Where an error happened, the outermost place first; None where no context has named a place."""
    places = [note.removeprefix(_AT) for note in getattr(error, "__notes__", ()) if note.startswith(_AT)]
    return ", ".join(reversed(places)) or None


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that is most similar to `name`, None where none is close."""
    spelled = {candidate.lower(): candidate for candidate in allowed}
    matches = get_close_matches(name.lower(), spelled, n=1, cutoff=0.6)
    return spelled[matches[0]] if matches else None


def listed(allowed: Iterable[str]) -> str:
    """The allowed names as a part of a sentence."""
    return ", ".join(sorted(allowed)) or "none"


def suggested(name: str, allowed: Iterable[str]) -> str:
    """What to write instead of `name`: the nearest allowed name first, then all of them."""
    names = list(allowed)
    match = nearest(name, names)
    hint = f"did you mean '{match}'? " if match else ""
    return f"{hint}allowed: {listed(names)}"


def cause_of(error: Exception) -> str:
    """One line with the cause: of an error of the JVM the innermost cause, else the error's first line.

    For a batch that failed in another process, as on Spark Connect, it is the end of the trace.
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
    """The MainstemError of a task or a batch, which Spark passes on as text; None for any other error."""
    match = _AS_TEXT.search(str(error))
    if match is None:
        return None
    kind, condition, found, where, action = match.groups()
    return _KINDS[kind](condition, found=found, where=where, action=action)


_KINDS = {kind.__name__: kind for kind in (MainstemError, ConfigurationError)}


def _restored(
    kind: type[MainstemError], condition: str, found: str, where: str, action: str
) -> MainstemError:
    return kind(condition, found=found, where=where, action=action)
