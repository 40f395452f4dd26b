"""Pairing the halves of updates that were not adjacent.

All that is known of one position of one table is here: the halves of this batch, halves that waited, and
changes that the position already led to. Each half gets an outcome, and nothing is guessed. Halves belong
together by their position; if several updates share it, by their key; then by their order in one partition.
If both sides are there and the pairs are still unclear when they have waited, they are quarantined as
ambiguous.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from framework.contracts.events import Half, Op
from framework.contracts.quarantine_reasons import Reason
from framework.text.formatting import quantity
from silver.changes.change_id import key_values
from silver.changes.grouping import Batches, decide_groups
from silver.changes.staged_rows import DuplicateReason, Row, as_duplicate, as_refused

NEW, PENDING, KNOWN, REFUSED, REPEATED = "new", "pending", "known", "refused", "repeated"
"""Where a member of a group comes from.

It is a row or half of this batch, a half that waited, an earlier change, a refused half, or an earlier
duplicate.
A refused half is a BEFORE half that was quarantined because its other half did not come in time. That half
still completes the update when it comes.
"""

_SIDES = ("before", "after")
OWN_TIME = "event_time"
"""The member of a waiting half's `detail`, a JSON object, with its own event time in microseconds or null.

A half whose own event time cannot be believed waits from another time, which its `event_time` is then.
So does a half that is decoded again and whose waiting is over.
"""
_OLDER_OWN_TIME = "event_time="
"""How earlier releases began that detail: the number followed, or nothing for null."""


def pair_groups(batches: Batches) -> Iterator[pa.RecordBatch]:
    """`pair` for the groups of a `mapInArrow` input: STAGED, `_group`, `origin`, `deadline`, `is_shared`."""
    return decide_groups(batches, pair, {NEW, PENDING})


def pair(members: Iterable[Row]) -> list[Row]:
    """The outcomes of the members' halves; earlier changes and quarantined halves get none.

    `deadline` is the newest event time of the source less the time that halves may wait (null: none is
    released). `is_shared` is true where several updates of the source share a position.
    """
    ordered = sorted(map(_with_own_time, members), key=_coordinates)
    known = [row for row in ordered if row["origin"] == KNOWN]
    outcomes: list[Row] = []
    seen = {
        (side, _image(row, side))
        for row in known
        if row["op"] == Op.UPDATE
        for side in _SIDES
        if row[side] is not None
    }
    befores = [
        row for row in ordered if row["origin"] == REFUSED and ("before", _image(row, "before")) not in seen
    ]
    afters: list[Row] = []
    seen |= {("before", _image(row, "before")) for row in befores}
    for row in sorted(
        (r for r in ordered if r["origin"] in (NEW, PENDING)), key=lambda r: r["origin"] != PENDING
    ):
        side, halves = ("before", befores) if row["half"] == Half.BEFORE else ("after", afters)
        if (side, _image(row, side)) in seen:
            settled = str(DuplicateReason.UPDATE_COMPLETE) if row["origin"] == PENDING else None
            outcomes.append({**as_duplicate(row), "reason": settled, "detail": None})
        else:
            seen.add((side, _image(row, side)))
            halves.append(row)
    completed = {row["change_id"] for row in known if row["half"] is None}
    released = [row for row in known if row["half"] == Half.AFTER and row["change_id"] not in completed]
    whole = [
        row for row in known if row["half"] is None and row["before"] is not None and row["after"] is not None
    ]
    couples, befores, afters = _match(befores, afters + released, whole)
    outcomes.extend(merge_halves(before, after) for before, after in couples)
    outcomes.extend(_unmatched(befores, afters))
    return outcomes


def _with_own_time(row: Row) -> Row:
    """Add `since`, from when the row waits, and restore its own event time."""
    if row["origin"] not in (NEW, PENDING) or row["detail"] is None:
        return {**row, "since": row["event_time"]}
    own = _own_event_time(row["detail"])
    return {**row, "since": row["event_time"], "event_time": own, "detail": None}


def _own_event_time(detail: str) -> int | None:
    """The event time of a half that has waited, in microseconds; null if it has none."""
    if detail.startswith(_OLDER_OWN_TIME):
        return int(older) if (older := detail.removeprefix(_OLDER_OWN_TIME)) else None
    own: int | None = json.loads(detail)[OWN_TIME]
    return own


def _coordinates(row: Row) -> tuple[Any, ...]:
    return (row["topic"], row["partition"], row["offset"], row["ordinal"])


def _image(row: Row, side: str) -> frozenset[tuple[str, str | None]] | None:
    """The image of one side as a hashable value."""
    return None if row[side] is None else frozenset(row[side].items())


def _match(
    befores: list[Row], afters: list[Row], known: list[Row]
) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    """The pairs, and the halves without a partner.

    `known` are whole updates at the position: they show that several updates share it.
    """
    couples: list[tuple[Row, Row]] = []
    of_key, partners = _by_key(befores), _by_key(afters)
    paired = _halves_by_key(known)
    for key, rivals in of_key.items():
        same, others = partners.get(key, []), paired.get(key, [])
        if len(same) == 1 and len(rivals) == 1 and not others:
            couples.append((rivals[0], same[0]))
        elif same:
            couples.extend(_in_order([*rivals, *same], others))
    couples.extend(_key_changes(*_without(couples, befores, afters), known, is_alone=not couples))
    return couples, *_without(couples, befores, afters)


def _without(
    couples: list[tuple[Row, Row]], befores: list[Row], afters: list[Row]
) -> tuple[list[Row], list[Row]]:
    """The halves that are in no couple."""
    gone = {id(row) for couple in couples for row in couple}
    return [row for row in befores if id(row) not in gone], [row for row in afters if id(row) not in gone]


def _key_changes(
    befores: list[Row], afters: list[Row], known: list[Row], *, is_alone: bool
) -> list[tuple[Row, Row]]:
    """The pairs of halves with different keys, all or none.

    Two halves, the only ones of their position, belong together if the source gives each update a position of
    its own. Where it does not, each may belong to a half of another key that is still to come, however
    similar they are. Then the pairs are known when all have waited: two halves that are left are one update,
    and the order of one partition tells more of them apart.
    """
    if not befores or len(befores) != len(afters) or not _by_key(befores).keys().isdisjoint(_by_key(afters)):
        return []
    halves = [*befores, *afters]
    is_shared = any(row["is_shared"] for row in halves)
    if is_alone and not known and not is_shared:
        return [(befores[0], afters[0])] if len(befores) == 1 else []
    if not all(map(_has_waited, halves)):
        return []
    if len(befores) == 1:
        return [(befores[0], afters[0])]
    couples = _in_order(halves, [])
    return couples if len(couples) == len(befores) else []


def _has_waited(half: Row) -> bool:
    """Whether a half is overdue, was released or was refused."""
    return half["origin"] in (KNOWN, REFUSED) or _is_overdue(half)


def _halves_by_key(known: list[Row]) -> dict[object, list[tuple[Any, ...]]]:
    """The coordinates and sides of the halves of whole updates, by the values of their keys."""
    found: dict[object, list[tuple[Any, ...]]] = {}
    for row in known:
        for side, image in ((Half.AFTER, row["after"]), (Half.BEFORE, row["before"])):
            at = row if side is Half.AFTER else row["paired_with"] or row
            found.setdefault(key_values(row["keys"], image), []).append(
                (at["topic"], at["partition"], at["offset"], str(side))
            )
    return found


def _in_order(halves: list[Row], known: list[tuple[Any, ...]]) -> list[tuple[Row, Row]]:
    """Pair the halves of one key in the order of their partition, up to the first that is out of order.

    `known` are halves that were paired before. Halves of two partitions have no order.
    """
    every = sorted(
        [*((*_coordinates(row)[:3], row["half"], row) for row in halves), *((*at, None) for at in known)],
        key=lambda h: h[:4],
    )
    if len({half[:2] for half in every}) != 1:
        return []
    couples = []
    for one, other in zip(every[::2], every[1::2], strict=False):
        if (one[3], other[3]) != (Half.BEFORE, Half.AFTER) or (one[4] is None) != (other[4] is None):
            break
        if one[4] is not None:
            couples.append((one[4], other[4]))
    return couples


def _by_key(rows: list[Row]) -> dict[object, list[Row]]:
    """The halves by the values of their keys; tables without a key have one group."""
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(own_key(row), []).append(row)
    return found


def _unmatched(befores: list[Row], afters: list[Row]) -> list[Row]:
    if len(befores) == len(afters) and not _by_key(befores).keys().isdisjoint(_by_key(afters)):
        detail = (
            f"{len(befores)} before and {quantity(len(afters), 'after half', 'after halves')}"
            " share one position and no key tells them apart"
        )
        return [
            as_refused(row, Reason.AMBIGUOUS_PAIR, detail)
            for row in befores + afters
            if row["origin"] in (NEW, PENDING)
        ]
    outcomes = []
    is_open = bool(befores) and bool(afters)
    may_be_update = len(befores) == len(afters) == 1 and not all(map(_has_waited, befores + afters))
    for row in befores + afters:
        if row["origin"] not in (NEW, PENDING):
            continue
        if may_be_update or not _is_overdue(row):
            if row["origin"] == NEW:
                outcomes.append({**row, "kind": "half"})
        elif is_open:
            outcomes.append(
                as_refused(
                    row, Reason.AMBIGUOUS_PAIR, "halves share one position and no key tells them apart"
                )
            )
        elif row["half"] == Half.BEFORE:
            late = as_refused(
                row, Reason.UNPAIRED_BEFORE_IMAGE, "its after half did not come within pairing_timeout"
            )
            outcomes.append({**late, "before": row["before"]})
        else:
            outcomes.append({**row, "kind": "row"})
    return outcomes


def _is_overdue(row: Row) -> bool:
    return row["deadline"] is not None and row["since"] is not None and row["since"] < row["deadline"]


def own_key(half: Row) -> tuple[str | None, ...] | None:
    """The values of the key in a half's image; None for tables without a key."""
    return key_values(half["keys"], half["before"] if half["after"] is None else half["after"])


def merge_halves(before: Row, after: Row) -> Row:
    """One update of two halves, at the coordinates of the AFTER half."""
    row = after.copy()
    row["half"] = None
    row["kind"] = "row"
    row["before"] = before["before"]
    row["paired_with"] = {
        "topic": before["topic"],
        "partition": before["partition"],
        "offset": before["offset"],
    }
    if not row.get("keys"):
        row["keys"] = before["keys"]
    return row
