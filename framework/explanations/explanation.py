"""The explanation of one error code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an error code means, why the error happens, what to do, and an example of it."""

    code: str
    meaning: str
    cause: str
    remedy: str
    example: str
