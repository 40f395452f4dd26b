"""The feed that every tool reads: messages of DataHub Blob about one table, and the rows it must end with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.end_to_end.random_wires import blob
from tests.framework.demo.story import Change, Row, Table

TYPES = {
    "id": "bigint",
    "n": "bigint",
    "amount": "decimal(18,4)",
    "at": "timestamp_ntz",
    **{f"s{i}": "string" for i in range(6)},
}
_TABLE = Table("versus", "shop", "item", ("id",), TYPES)
_START = 1_700_000_000_000
_STRIDE = 7_919
"""A prime: keys of a batch lie all over the table."""


class Feed:
    """Writes files of messages, and knows which rows the table has after them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.rows = folder, dict[int, Row]()
        self._changes, self._batches, self._files, self._keys = 0, 0, 0, 0

    def load(self, count: int) -> Path:
        """A file of `count` inserts."""
        return self._written(self._insert() for _ in range(count))

    def batch(self, count: int) -> tuple[Path, int]:
        """A file of `count` updates, a tenth of them of keys that it has updated before, and its messages.

        With them a tenth as many deletes and a tenth as many inserts.
        """
        lines = list(self._changes_of(count))
        return self._written([lines]), len(lines)

    def repeated(self, batch: Path) -> Path:
        """A file with the messages of an earlier batch once more: the table must stay as it is."""
        return self._written([batch.read_text().splitlines()])

    def _changes_of(self, count: int) -> Iterator[str]:
        self._batches += 1
        keys = sorted(self.rows, key=lambda key: (key + self._batches) * _STRIDE % (len(self.rows) + 1))
        fresh = max(count * 9 // 10, 1)
        for number in range(count):
            yield from self._update(keys[number % fresh])
        for key in keys[fresh : fresh + count // 10]:
            yield from self._line("delete", self.rows.pop(key), None)
        for _ in range(count // 10):
            yield from self._insert()

    def _insert(self) -> Iterator[str]:
        key = self._keys
        self._keys += 1
        self.rows[key] = self._row(key)
        yield from self._line("insert", None, self.rows[key])

    def _update(self, key: int) -> Iterator[str]:
        before = self.rows[key]
        self.rows[key] = self._row(key)
        yield from self._line("update", before, self.rows[key])

    def _row(self, key: int) -> Row:
        """The next state of a row: integers that a double cannot hold, decimals that end with a zero."""
        state = self._changes + 1
        texts: Row = {f"s{i}": f"column {i} of row {key} at {state}" for i in range(6)}
        number = 9_007_199_254_740_993 + 2 * state
        return {"id": str(key), "n": str(number), "amount": f"{state}.2500", "at": _time(state), **texts}

    def _line(self, op: str, before: Row | None, after: Row | None) -> Iterator[str]:
        self._changes += 1
        at = _START + self._changes * 1000
        yield from blob(Change(_TABLE, op, before, after, TYPES, self._changes, at, 1))

    def _written(self, groups: Iterable[Iterable[str]]) -> Path:
        """A file that is old enough to be complete, and later than the ones before."""
        self._files += 1
        file = self.folder / f"{self._files:04d}.jsonl"
        with file.open("w") as stream:
            for group in groups:
                stream.writelines(f"{line}\n" for line in group)
        os.utime(file, (1_700_000_000 + self._files, 1_700_000_000 + self._files))
        return file


def _time(state: int) -> str:
    minutes, second = divmod(state, 60)
    hours, minute = divmod(minutes, 60)
    return f"2024-02-{1 + hours // 24 % 28:02d}T{hours % 24:02d}:{minute:02d}:{second:02d}"


def hand_out(file: Path, landings: Sequence[Path]) -> None:
    """The same file in each landing folder."""
    for landing in landings:
        landing.mkdir(parents=True, exist_ok=True)
        os.link(file, landing / file.name)
