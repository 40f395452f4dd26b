"""A message where it lies in a file, for commands that look at feeds without landing them."""

from __future__ import annotations

from dataclasses import dataclass

from framework.contracts.raw import RawMessage


@dataclass(frozen=True, slots=True)
class FiledMessage:
    """One message of a file. `line` counts from 1; `layout` is how the line holds the message: `lines` or `kcat`.

    `fault` says why the line holds no message that can be looked at; the message's value is empty then.
    """

    file: str
    line: int
    layout: str
    message: RawMessage
    fault: str | None = None
