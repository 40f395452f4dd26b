"""How far a source came, batch by batch: where its changes from a position on are."""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST = 32
"""So many entries are kept of a source. Older ones stand for the more batches the older they are."""


@dataclass(slots=True)
class SourceTops:
    """The highest sequences of a source's batches.

    Attributes:
        before: The highest one of the batches that are not known one by one; empty where there are none.
        batches: The first batch of one or several, and their highest sequence; in the order in which they
            were noted.
    """

    before: str = ""
    batches: list[tuple[int, str]] = field(default_factory=list)

    def note(self, batch: int, top: str) -> None:
        """Add what a batch has reached, or a part of what it has."""
        if self.batches and self.batches[-1][0] == batch:
            self.batches[-1] = (batch, max(top, self.batches[-1][1]))
            return
        self.batches.append((batch, top))
        if len(self.batches) > _MOST:
            at = self._least_missed()
            (one, low), (other, high) = self.batches[at : at + 2]
            self.batches[at : at + 2] = [(min(one, other), max(low, high))]

    def _least_missed(self) -> int:
        """The place of the entry that becomes one with the next: both are short for how old they are."""
        firsts = [first for first, _ in self.batches]
        return min(
            range(len(firsts) - 2),
            key=lambda at: (firsts[at + 2] - firsts[at]) / (abs(firsts[-1] - firsts[at + 2]) + 1),
        )

    def first_from(self, sequence: str) -> int | None:
        """A batch such that no earlier one has a change at or above a sequence; None where none is known."""
        if sequence <= self.before:
            return None
        return min((batch for batch, top in self.batches if top >= sequence), default=None)
