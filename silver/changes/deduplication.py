"""Duplicates where a position does not identify a change: which changes are deliveries of the same one.

An identical change at the same position is a duplicate, unless its before image continues from the state that
the previous change left: A to B, B to A, A to B within a second is three changes; A to B, B to C, A to B is
two and a duplicate. A to A again is a duplicate, and so is the change of a key to one that a row has already,
unless a repeat that counts has put the row there that leaves, or has taken the row away that was there: then
the changes behind it come again as well.
In a table without a key, an insert continues from the delete of an equal row. Without a before image, an
update of a row with a key is a change if the row was different before it; so is a snapshot row without a
position: A, B, A is three, A, A is one.

All that holds while the partition stands still. If a message with a later time has been between an identical
change and the one that it repeats (its sequence is raised above that one's, see `partition_order.py`), it is
a duplicate also where it continues: a connector that begins again sends A to B, B to A once more, perhaps
after A to C of a later time. A third A to B of the same second whose transaction is committed after a later
statement's looks the same; it is taken for a repeat. While times are behind what the partition had reached
(a clock steps back, a slow statement is committed), changes with other times continue from each other, and
only a later time of the row itself shows a repeat: A to B, B to A at an earlier time, A to B is three.

Where the position is that of a record or a transaction, it may hold several equal rows of a table without a
key: if they follow each other in their partition they are different rows, and the same number of them
elsewhere is the record again. Rows of other tables and tombstones may be between them. Earlier duplicates
(REPEATED) count among the rows of their own delivery, which may go on in a later batch. A snapshot is such a
record in all formats, whether its rows have no position, or some of them share one.

    feed                                            the position of its rows is that of
    PostgreSQL (COPY, an INSERT of many rows)       a record of the log (LSN)
    MySQL and MariaDB without `row`                 an event of the binlog
    Maxwell without `xoffset`                       an event of the binlog, or a transaction (xid)
    Oracle without `rs_id`                          a system change number
    SQL Server, Db2, Informix without `change_lsn`  a transaction
    TiCDC, in both of its formats                   a transaction (commit timestamp)
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from itertools import count as counts
from typing import Any

import pyarrow as pa

from framework.contracts.events import Image, Op
from silver.changes.change_id import digest, image_parts, key_values
from silver.changes.grouping import Batches, decide_groups
from silver.changes.pairing import KNOWN, NEW
from silver.changes.record_runs import Place as Message
from silver.changes.record_runs import deliveries
from silver.changes.redeliveries import Place, Redeliveries, Said
from silver.changes.staged_rows import Row, as_duplicate
from silver.values.sequence import name_part, reached_position

_Names = tuple[str, ...]
_Values = tuple[str | None, ...]
_MOST_PASSES = 20
"""So often are changes with partial images decided at most, each time with more that are known as repeats."""


def deduplicate_groups(batches: Batches) -> Iterator[pa.RecordBatch]:
    """`deduplicate` for the groups of a `mapInArrow` input: STAGED with `_group`, `origin` and more.

    The rows may have `is_in_record` and `delivery`, as `split_groups` adds them.
    """
    return decide_groups(batches, deduplicate, {NEW})


def deduplicate(members: list[Row]) -> list[Row]:
    """Decide which new changes of a group are changes, with ids of their own, and which are duplicates.

    A message is always repeated as a whole: a row can repeat only the row with the same ordinal, and
    equal rows inside one message are different rows.
    """
    if any(row.get("is_in_record") or row["run"] is not None for row in members):
        return _deduplicate_record(members)
    rows = sorted(members, key=lambda row: (row["origin"] != KNOWN, *_order(row)))
    is_partial, repeats = any(row["partial"] for row in members), frozenset[Place]()
    for _ in range(_MOST_PASSES if is_partial else 0):
        runs = Redeliveries(repeats, is_partial=True)
        outcomes = _decide(rows, runs)
        if not runs.found:
            return outcomes
        repeats |= runs.found
    return _decide(rows, Redeliveries(repeats, is_partial=False))


def _decide(rows: Iterable[Row], runs: Redeliveries) -> list[Row]:
    """The outcomes of the new ones among sorted rows, unless `runs` finds more rows that come again."""
    outcomes: list[Row] = []
    times: Counter[str] = Counter()
    reached: dict[Said, str] = {}
    states: dict[Any, Image | None] = {}
    again, emptied, gone, passed = set[Any](), set[Any](), _DeletedRows(), _PassedChanges()
    for row in rows:
        image = row["before"] if row["op"] == Op.DELETE or row["after"] is None else row["after"]
        key, old = key_values(row["keys"], image), key_values(row["keys"], row["before"])
        former = key if old is None else old
        state = states.get(former)
        is_free = old in (None, key) or not states.get(key) or old in again
        content = _content(row)
        count = times[content]
        at, position = (content, row["ordinal"]), reached_position(row["sequence"], row["position"])
        if row["origin"] != KNOWN:
            is_whole = row["op"] == Op.UPDATE and not row["partial"]
            is_back = is_whole and old != key and key in emptied
            continues = is_back or (is_free and _continues(row, state, key, gone))
            is_behind_repeat = former in again or key in emptied
            is_passed = position != reached.get(at) or (at in passed and not is_behind_repeat)
            is_taken = old not in (None, key) and bool(states.get(key))
            is_certain = is_passed or not continues
            if at not in reached:
                runs.end()
            elif runs.is_repeat(at, _order(row), is_certain=is_certain, is_taken=is_taken):
                if runs.found:
                    break
                outcomes.append(as_duplicate(row))
                continue
            outcomes.append({**row, "change_id": digest((row["change_id"], str(count)))} if count else row)
        times[content] += 1
        runs.note(at)
        reached.setdefault(at, position)
        is_again = count > 0 or old in again
        if not is_again:
            passed.note(at, row["position"] or "", {key, old} - {None})
        again.discard(old)
        (again.add if is_again else again.discard)(key)
        emptied.discard(key)
        if old is not None and (row["op"] == Op.DELETE or old != key):
            (emptied.add if is_again else emptied.discard)(old)
        if old is not None:
            states[old] = {}
        states[key] = _state_after(row, state)
        if key is None:
            gone.note(row)
    return outcomes


class _PassedChanges:
    """Changes of which a row had a change with a later time afterwards: an equal one is a repeat."""

    def __init__(self) -> None:
        self._open: defaultdict[Any, list[tuple[str, Said]]] = defaultdict(list)
        """By row, a heap of the times of its changes that are not passed."""
        self._passed: set[Said] = set()

    def __contains__(self, at: Said) -> bool:
        return at in self._passed

    def note(self, at: Said, time: str, rows: Iterable[Any]) -> None:
        """Take a change of one row, or of two where its key changes, into account."""
        for row in rows:
            mine = self._open[row]
            while mine and mine[0][0] < time:
                self._passed.add(heappop(mine)[1])
            heappush(mine, (time, at))


class _DeletedRows:
    """The rows of a table without a key that have been deleted and not inserted again, by their columns."""

    def __init__(self) -> None:
        self._rows: dict[_Names, Counter[_Values]] = {}
        self._near: dict[tuple[_Names, _Names], defaultdict[_Values, deque[_Values]]] = {}
        """By columns, and those of them that images have, by their values: rows, and such that are back."""

    def note(self, row: Row) -> None:
        """Take a change that counts into account."""
        if row["op"] == Op.DELETE:
            image = row["before"] or {}
            names = tuple(sorted(image))
            values = tuple(image[name] for name in names)
            rows = self._rows.setdefault(names, Counter())
            if not rows[values]:
                for (of, shared), near in self._near.items():
                    if of == names:
                        near[tuple(image[name] for name in shared)].append(values)
            rows[values] += 1
        elif row["op"] in (Op.INSERT, Op.READ) and (found := self._find(row["after"])):
            names, values = found
            self._rows[names][values] -= 1

    def may_have(self, image: Image | None) -> bool:
        """Whether one of the rows may be that of an image."""
        return self._find(image) is not None

    def _find(self, image: Image | None) -> tuple[_Names, _Values] | None:
        known = image or {}
        for names, rows in self._rows.items():
            shared = tuple(name for name in names if name in known)  # others were dropped meanwhile
            near = self._near_by(names, shared).get(tuple(known[name] for name in shared))
            while near and not rows[near[0]]:
                near.popleft()
            if near:
                return names, near[0]
        return None

    def _near_by(self, names: _Names, shared: _Names) -> defaultdict[_Values, deque[_Values]]:
        if (names, shared) not in self._near:
            near = self._near[names, shared] = defaultdict(deque)
            at = [names.index(name) for name in shared]
            for values in self._rows[names]:
                near[tuple(values[place] for place in at)].append(values)
        return self._near[names, shared]


def _state_after(row: Row, state: Image | None) -> Image:
    """What is known of a row after its change; nothing of a deleted row."""
    if row["op"] == Op.DELETE:
        return {}
    unchanged = {**(state or {}), **(row["before"] or {})} if row["partial"] else {}
    return {**unchanged, **(row["after"] or {})}


def _deduplicate_record(members: list[Row]) -> list[Row]:
    """Decide the rows of one record: of equal rows, as many count as the delivery with most of them has.

    A row that has an outcome from an earlier batch (its message is decoded again for other rows) is no second
    row of its delivery.
    """
    delivery_of = deliveries(members)
    shown: Counter[tuple[str, Message]] = Counter()
    times: Counter[str] = Counter()
    settled: set[tuple[Any, ...]] = set()
    ids = {row["change_id"] for row in members if row["origin"] == KNOWN}
    new: list[Row] = []
    for row in sorted(members, key=lambda r: (r["origin"] == NEW, *_order(r))):
        content, place = _content(row), (row["topic"], row["partition"], row["offset"])
        if row["origin"] == NEW:
            new.append(row)
            if (*place, row["ordinal"]) in settled:
                continue
        else:
            settled.add((*place, row["ordinal"]))
            times[content] += row["origin"] == KNOWN
        shown[content, delivery_of[place]] += 1
    most: Counter[str] = Counter()
    for (content, _), count in shown.items():
        most[content] = max(most[content], count)
    outcomes: list[Row] = []
    for row in new:
        content = _content(row)
        count = times[content]
        is_settled = (row["topic"], row["partition"], row["offset"], row["ordinal"]) in settled
        if is_settled or count >= most[content]:
            outcomes.append(as_duplicate(row))
            continue
        change_id = next(found for found in _nth_ids(row["change_id"], count) if found not in ids)
        ids.add(change_id)
        outcomes.append({**row, "change_id": change_id})
        times[content] += 1
    return outcomes


def _nth_ids(change_id: str, count: int) -> Iterator[str]:
    """The row's own id, that of a row before which `count` equal ones count, and those of other equal rows.

    The first one that is free is the row's. Equal rows inside one message have ids of their own, and where
    only a part of the rows is decoded again, the id of an earlier one may be free.
    """
    for number in chain((0, count), counts(1)):
        yield digest((change_id, str(number))) if number else change_id


def _content(row: Row) -> str:
    """What distinguishes a change from others at its position."""
    own = row["position"] or ""
    return digest((own, row["op"], *image_parts(row["before"]), *image_parts(row["after"])))


def _order(row: Row) -> tuple[str, int, int, int]:
    """The order of the tie-breakers of a sequence."""
    return (name_part(row["topic"]), row["partition"], row["offset"], row["ordinal"])


def _continues(row: Row, state: Image | None, key: object, gone: _DeletedRows) -> bool:
    """Whether the change starts from the state that the previous one left, and leads to another one.

    An empty state is a deleted row. In a table without a key, the rows that are `gone` can be inserted again.
    """
    is_copied = row["op"] == Op.READ and row["position"] is None
    if is_copied or (row["op"] == Op.UPDATE and row["before"] is None):
        return key is not None and state is not None and _differs(row, state)
    if row["op"] in (Op.INSERT, Op.READ):
        return state == {} if key is not None else gone.may_have(row["after"])
    if row["before"] is None or not state or _changes_nothing(row):
        return False
    if row["op"] == Op.UPDATE and not _differs(row, state):
        return False  # `before` may lack the columns that the first delivery has changed
    return _may_be(row["before"], state)


def _may_be(one: Image | None, other: Image | None) -> bool:
    """Whether two images may be of one row: their common columns have the same values."""
    known = other or {}
    return all(known.get(name, value) == value for name, value in (one or {}).items())


def _differs(row: Row, state: Image) -> bool:
    after: Image = row["after"] or {}
    return bool({**state, **after} != state if row["partial"] else after != state)


def _changes_nothing(row: Row) -> bool:
    """Whether an update leaves the row unchanged; a second such update looks like a second delivery."""
    return row["op"] == Op.UPDATE and all(
        name in row["before"] and row["before"][name] == text for name, text in row["after"].items()
    )
