"""Pairing the halves of updates that did not meet while they were decoded.

All that is known of one position of one table comes together here: halves of this batch, halves that waited, and
changes that the position already led to. The answer is a fate for each half. Nothing is guessed: halves belong together
by their position; where several share it, by their key; then by their order in one partition; what is still open when
both sides are there is quarantined as ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from framework.contracts.events import Half, Op
from framework.contracts.reasons import Reason
from silver.clock import own_time
from silver.normalize import keys_agree, merged
from silver.rows import Row, by_place, repeated, staged_table

NEW, PENDING, KNOWN, REFUSED = "new", "pending", "known", "refused"
"""Where a member comes from: a half of this batch, a half that waited, a change that was already made, or a BEFOR half
that went to quarantine because its partner did not come in time, and completes its update when it does."""

MET = "its update was complete already"
"""The detail of a half that waited until its update came whole from elsewhere: it waits no longer."""


def pair_places(members: pa.Table) -> pa.Table:
    """The fates of the halves of several positions, for `applyInArrow`. Rows carry `_place`, `origin` and `deadline` beside STAGED."""
    return staged_table(fate for place in by_place(members) for fate in pair(place))


def pair(members: Iterable[Row]) -> list[Row]:
    """Fates for the members' halves; changes that are already known and halves in quarantine get none.

    `deadline` is the newest event time of the source less the time that halves may wait (null: none is released).
    """
    ordered = sorted(map(_with_own_time, members), key=_coordinates)
    known = [row for row in ordered if row["origin"] == KNOWN]
    fates: list[Row] = []
    befores = [row for row in ordered if row["origin"] == REFUSED and not _is_repeat(row, [], known)]
    afters: list[Row] = []
    for row in sorted((r for r in ordered if r["origin"] in (NEW, PENDING)), key=lambda r: r["origin"] != PENDING):
        side = befores if row["half"] == Half.BEFORE else afters
        if _is_repeat(row, side, known):
            fates.append({**repeated(row), "detail": MET if row["origin"] == PENDING else None})
        else:
            side.append(row)
    released = [row for row in known if row["half"] == Half.AFTER and not _completed(row, known)]
    couples, befores, afters = _match(befores, afters + released)
    fates.extend(merged(before, after) for before, after in couples)
    fates.extend(_unmatched(befores, afters))
    return fates


def _with_own_time(row: Row) -> Row:
    """The row with `since`, from when it waits, and its own event time, which a half that waits may have had no use for."""
    if row["origin"] != PENDING:
        return {**row, "since": row["event_time"]}
    return {**row, "since": row["event_time"], "event_time": own_time(row["detail"], row["event_time"]), "detail": None}


def _coordinates(row: Row) -> tuple[Any, ...]:
    return (row["topic"], row["partition"], row["offset"], row["ordinal"])


def _is_repeat(row: Row, earlier: list[Row], known: list[Row]) -> bool:
    image = "before" if row["half"] == Half.BEFORE else "after"
    if any(other[image] == row[image] for other in earlier):
        return True
    return any(change["op"] == Op.UPDATE and change[image] == row[image] for change in known if change[image] is not None)


def _completed(row: Row, known: list[Row]) -> bool:
    return any(other["half"] is None and other["change_id"] == row["change_id"] for other in known)


def _match(befores: list[Row], afters: list[Row]) -> tuple[list[tuple[Row, Row]], list[Row], list[Row]]:
    couples: list[tuple[Row, Row]] = []
    for before in list(befores):
        same = [after for after in afters if keys_agree(before, after)]
        rivals = [other for other in befores if keys_agree(before, other)]
        if len(same) == 1 and len(rivals) == 1:
            couples.append((before, same[0]))
            befores = _without(befores, before)
            afters = _without(afters, same[0])
    if len(befores) == 1 and len(afters) == 1:
        return [*couples, (befores[0], afters[0])], [], []
    befores, afters = sorted(befores, key=_coordinates), sorted(afters, key=_coordinates)
    if befores and len(befores) == len(afters) and _alternate(befores, afters):
        return [*couples, *zip(befores, afters, strict=True)], [], []
    return couples, befores, afters


def _without(rows: list[Row], gone: Row) -> list[Row]:
    return [row for row in rows if row is not gone]


def _alternate(befores: list[Row], afters: list[Row]) -> bool:
    """Whether the halves stand as before, after, before, after … in one partition, each couple of one key or none."""
    halves = sorted(befores + afters, key=_coordinates)
    if len({(row["topic"], row["partition"]) for row in halves}) != 1:
        return False
    if any(row["half"] != (Half.BEFORE, Half.AFTER)[i % 2] for i, row in enumerate(halves)):
        return False
    return all(keys_agree(before, after) for before, after in zip(befores, afters, strict=True))


def _unmatched(befores: list[Row], afters: list[Row]) -> list[Row]:
    if len(befores) == len(afters) and any(keys_agree(before, after) for before in befores for after in afters):
        detail = f"{len(befores)} before and {len(afters)} after halves share one position and no key tells them apart"
        return [_refused(row, Reason.AMBIGUOUS_PAIR, detail) for row in befores + afters if row["origin"] in (NEW, PENDING)]
    fates = []
    is_open = bool(befores) and bool(afters)
    for row in befores + afters:
        if row["origin"] not in (NEW, PENDING):
            continue
        if not _is_overdue(row):
            if row["origin"] == NEW:
                fates.append({**row, "kind": "half"})
        elif is_open:
            fates.append(_refused(row, Reason.AMBIGUOUS_PAIR, "halves share one position and no key tells them apart"))
        elif row["half"] == Half.BEFORE:
            late = _refused(row, Reason.UNPAIRED_BEFORE_IMAGE, "its after half did not come within pairing_timeout")
            fates.append({**late, "before": row["before"]})
        else:
            fates.append({**row, "kind": "row"})
    return fates


def _is_overdue(row: Row) -> bool:
    return row["deadline"] is not None and row["since"] is not None and row["since"] < row["deadline"]


def _refused(row: Row, reason: Reason, detail: str) -> Row:
    return {**row, "kind": "quarantined", "before": None, "after": None, "reason": str(reason), "detail": detail}
