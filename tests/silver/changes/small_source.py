"""A small database whose transactions are told as changes; what its tables hold in the end is the truth.

The moves are those that make a change look like another one: a key that goes and comes back, a row that is
deleted and inserted again, or updated twice, in one transaction, and equal rows of a table without a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

Image = Mapping[str, str | None]
KEYED, KEYLESS = "orders", "notes"


@dataclass(frozen=True)
class Change:
    """A written row.

    Attributes:
        number: Its place among all changes.
        transaction: The number of the transaction.
        place: Its place in the transaction.
        second: When it was written.
        table: The table.
        before: The row before.
        after: The row after.
        record: The number of the first row of its statement, where that inserts several.
        is_last: Whether it is the last change of its transaction.
    """

    number: int
    transaction: int
    place: int
    second: int
    table: str
    before: Image | None
    after: Image | None
    record: int = 0
    is_last: bool = False

    @property
    def op(self) -> str:
        """What happened: insert, update or delete."""
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    @property
    def image(self) -> Image:
        """The row after, or before its delete."""
        image = self.before if self.after is None else self.after
        assert image is not None
        return image

    @property
    def is_key_change(self) -> bool:
        """Whether the row of a table with a key has another key now."""
        return (
            self.table == KEYED
            and self.before is not None
            and self.after is not None
            and self.before["id"] != self.after["id"]
        )


@dataclass(frozen=True)
class Limits:
    """What a writer cannot tell apart, which therefore does not happen.

    Attributes:
        key_changes: Whether keys change.
        notes: What happens to the table without a key: nothing, rows that all differ, or equal rows too.
        note_updates: Whether its rows are updated and deleted.
        is_net: Whether a transaction has one change of a key at most.
    """

    key_changes: bool = True
    notes: str = "equal"
    note_updates: bool = True
    is_net: bool = False


ALL = Limits()
"""Everything can be told."""


@dataclass
class Database:
    """The tables as they are now, and all transactions so far."""

    draw: Random
    limits: Limits
    rows: dict[str, Image] = field(default_factory=dict)
    notes: list[Image] = field(default_factory=list)
    transactions: list[list[Change]] = field(default_factory=list)
    second: int = 0
    number: int = 0
    touched: set[str] = field(default_factory=set)

    def run(self, count: int) -> None:
        """Commit so many transactions."""
        while len(self.transactions) < count:
            self.second += self.draw.choice((0, 0, 0, 1, 40))
            changes: list[Change] = []
            self.touched.clear()
            for _ in range(self.draw.choice((1, 1, 2, 3))):
                is_of_notes = self.limits.notes and self.draw.random() < 0.3
                (self._note if is_of_notes else self._move)(changes)
            if changes:
                changes[-1] = replace(changes[-1], is_last=True)
                self.transactions.append(changes)

    @property
    def truth(self) -> tuple[dict[str, Image], Counter[str]]:
        """The rows of the table with a key, and how often the other one has which row."""
        return dict(self.rows), Counter(str(note["v"]) for note in self.notes)

    def _row(self, key: str, without: str = "") -> Image:
        value = self.draw.choice([value for value in "ABC" if value != without])
        return {"id": key, "v": value, "w": self.draw.choice("xy")}

    def _move(self, changes: list[Change]) -> None:
        """One statement on a row, or several that follow each other."""
        keys = [key for key in "123" if not (self.limits.is_net and key in self.touched)]
        if not keys:
            return
        key = self.draw.choice(keys)
        row = self.rows.get(key)
        if row is None:
            self._keyed(changes, None, self._row(key))
            if self.draw.random() < 0.2 and not self.limits.is_net:
                self._keyed(changes, self.rows[key], None)
            return
        moves = ["update", "update", "delete"]
        if not self.limits.is_net:
            moves += ["twice", "there and back", "anew"]
        free = [other for other in "1234" if other not in self.rows and other not in self.touched]
        if self.limits.key_changes and free:
            moves += ["rename"] if self.limits.is_net else ["rename", "rename and back"]
        move = self.draw.choice(moves)
        if move == "delete":
            self._keyed(changes, row, None)
        elif move == "anew":
            self._keyed(changes, row, None)
            self._keyed(changes, None, self.draw.choice((row, self._row(key))))
        elif move.startswith("rename"):
            values = self.draw.choice((row, self._row(key)))
            self._keyed(changes, row, {**values, "id": self.draw.choice(free)})
            if move.endswith("back"):
                there = changes[-1].image
                self._keyed(changes, there, self.draw.choice((row, {**there, "id": key})))
        else:
            self._keyed(changes, row, self._row(key, str(row["v"])))
            if move != "update":
                there = self.rows[key]
                self._keyed(changes, there, row if move != "twice" else self._row(key, str(there["v"])))

    def _keyed(self, changes: list[Change], before: Image | None, after: Image | None) -> None:
        for image in (before, after):
            self.touched |= {str(image["id"])} if image is not None else set()
        if before is not None:
            del self.rows[str(before["id"])]
        if after is not None:
            self.rows[str(after["id"])] = after
        self._tell(changes, KEYED, before, after)

    def _note(self, changes: list[Change]) -> None:
        can_change = bool(self.notes) and self.limits.note_updates
        move = self.draw.choice(("insert", "insert", "update", "delete") if can_change else ("insert",))
        if move == "insert":
            note, count = self._new_note(), self.draw.choice((1, 1, 2))
            for nth in range(count if self.limits.notes == "equal" else 1):
                self.notes.append(note)
                self._tell(changes, KEYLESS, None, note, nth)
            return
        before = self.notes.pop(self.draw.randrange(len(self.notes)))
        after = self._new_note(str(before["v"])) if move == "update" else None
        self.notes += [] if after is None else [after]
        self._tell(changes, KEYLESS, before, after)

    def _new_note(self, without: str = "") -> Image:
        if self.limits.notes == "equal":
            return {"v": self.draw.choice([value for value in "ab" if value != without])}
        return {"v": f"n{self.number}"}

    def _tell(
        self, changes: list[Change], table: str, before: Image | None, after: Image | None, nth: int = 0
    ) -> None:
        self.number += 1
        place = (self.number, len(self.transactions) + 1, len(changes), self.second)
        changes.append(Change(*place, table, before, after, self.number - nth))
