"""The explanation of one error code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an error code means, why the error happens, what to do, and an example of it.

    `former` are names that the code had in earlier releases.
    """

    code: str
    meaning: str
    cause: str
    remedy: str
    example: str
    former: tuple[str, ...] = ()
