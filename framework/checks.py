"""Checks that a lakehouse can be asked at any time, and their answers: what `status --verify` runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """The answer of one check. `wrong` counts what should not be (None: there was nothing to check it on).

    `promise` says what must hold, `action` what to do where it does not.
    """

    name: str
    promise: str
    wrong: int | None
    where: str
    action: str

    @property
    def is_ok(self) -> bool:
        """Whether the promise is kept."""
        return not self.wrong


def told(check: Check) -> str:
    """The answer as a line for people; two more where the promise is broken."""
    state = "ok  " if check.is_ok else "FAIL"
    line = f"{state}  {check.name:<20} {check.promise}"
    return line if check.is_ok else f"{line}\n      found: {check.wrong:,} that break it, in {check.where}\n      do:    {check.action}"
