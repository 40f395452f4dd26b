"""Repeats where a position does not tell: which of several identical changes are deliveries of one.

An identical change at the same position is a repeat, unless its before image continues from the state that the change
before it left: A to B, B to A, A to B within a second is three changes; A to B, B to C, A to B is two and a repeat.
A to A again is a repeat. Where there is no before image, an update of a row with a key is a change if the row was
otherwise before it, and so is a row of a snapshot without a position: A, B, A is three, A, A is one.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from framework.contracts.events import Image, Op
from silver.identity import digest, image_parts, key_values
from silver.pairing import KNOWN
from silver.rows import Row, by_place, repeated, staged_table
from silver.sequence import name_part


def settle_places(members: pa.Table) -> pa.Table:
    """The fates of the changes of several keys and positions, for `applyInArrow`. Rows carry `_place` and `origin` beside STAGED."""
    return staged_table(fate for place in by_place(members) for fate in settle(place))


def settle(members: list[Row]) -> list[Row]:
    """Each new change as itself, with an id of its own where it really happened again, or as a repeat.

    Equal rows inside one message are rows of their own: a message is repeated whole.
    """
    fates: list[Row] = []
    times: dict[str, int] = {}
    states: dict[Any, Image | None] = {}
    in_message: dict[Any, tuple[int, int]] = {}
    for row in sorted(members, key=lambda r: (r["origin"] != KNOWN, *_place(r))):
        image = row["before"] if row["op"] == Op.DELETE or row["after"] is None else row["after"]
        key, old = key_values(row["keys"], image), key_values(row["keys"], row["before"])
        state = states.get(key if old is None else old)
        same = digest((row["op"], *image_parts(row["before"]), *image_parts(row["after"])))
        count = times.get(same, 0)
        message = (row["topic"], row["partition"], row["offset"], same)
        earlier, here = in_message.get(message, (count, 0))
        in_message[message] = (earlier, here + 1)
        if row["origin"] != KNOWN:
            if earlier > here and not _continues(row, state, key):
                fates.append(repeated(row))
                continue
            fates.append({**row, "change_id": digest((row["change_id"], str(count)))} if count else row)
        times[same] = count + 1
        if old is not None:
            states[old] = {}
        states[key] = {} if row["op"] == Op.DELETE else {**((state or {}) if row["partial"] else {}), **(row["after"] or {})}
    return fates


def _place(row: Row) -> tuple[str, int, int, int]:
    """Where the row stands: in the order of the tie-breakers of its sequence."""
    return (name_part(row["topic"]), row["partition"], row["offset"], row["ordinal"])


def _continues(row: Row, state: Image | None, key: object) -> bool:
    """Whether the change starts from the state that the one before it left; an empty state is a deleted row."""
    is_copied = row["op"] == Op.READ and row["position"] is None
    if is_copied or (row["op"] == Op.UPDATE and row["before"] is None):
        return key is not None and state is not None and _differs(row, state)
    if row["op"] in (Op.INSERT, Op.READ):
        return state == {}
    if row["before"] is None or not state or _changes_nothing(row):
        return False
    return all(state.get(name, value) == value for name, value in row["before"].items())


def _differs(row: Row, state: Image) -> bool:
    after: Image = row["after"] or {}
    return bool({**state, **after} != state if row["partial"] else after != state)


def _changes_nothing(row: Row) -> bool:
    """Whether an update leaves the row as it was: then nothing tells a second one from a second delivery."""
    return row["op"] == Op.UPDATE and all(name in row["before"] and row["before"][name] == text for name, text in row["after"].items())
