"""The checks that `status --verify` runs, and their results."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        name: The name of the check.
        promise: What must hold.
        wrong: How many rows, messages or tables break it; None where there was nothing to check.
        where: Where they are.
        action: What to do about them.
        examples: Some of them, where they can be named: `id=7`.
    """

    name: str
    promise: str
    wrong: int | None
    where: str
    action: str
    examples: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether the check has found nothing wrong."""
        return not self.wrong
