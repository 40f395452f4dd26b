"""The profile of a table as `ops/tables` has it, in a text that stays short after many statements.

Each statement on columns begins a naming, and the rows of each naming show all columns. What they show of a
column is mostly what those of the naming before showed: it is stored once for a span of namings, and an order
of columns by what differs from the order before it. So the text grows with the columns and with the
statements, but not with their product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

from gold.changes.profile import Profile
from gold.schema.columns import ColumnOrder
from gold.schema.type_inference import ColumnEvidence

_Evidence = Mapping[tuple[int, str], ColumnEvidence]


def profile_values(profile: Profile) -> dict[str, Any]:
    """The profile as values of JSON."""
    return {
        "rows": profile.rows,
        "sequences": [profile.min_sequence, profile.max_sequence],
        "keys": [profile.keys, profile.keys_naming, profile.keys_sequence],
        "told_keys": [[naming, names, low] for (naming, names), low in sorted(profile.seen_keys.items())],
        "has_partials": profile.has_partials,
        "has_moves": profile.has_key_changes,
        "has_partial_moves": profile.has_partial_key_changes,
        "orders": list(_order_values(profile.column_orders)),
        **_evidence_values(profile.evidence),
    }


def profile_of_values(values: Mapping[str, Any], event_time: datetime | None) -> Profile:
    """The profile that these values store; an empty one where there are none."""
    if not values:
        return Profile()
    keys, naming, sequence = values["keys"]
    return Profile(
        rows=values["rows"],
        min_sequence=values["sequences"][0],
        max_sequence=values["sequences"][1],
        event_time=event_time,
        keys=tuple(keys) if keys else None,
        keys_naming=naming,
        keys_sequence=sequence,
        seen_keys={(at, tuple(names)): low for at, names, low in values.get("told_keys", ())},
        has_partials=values["has_partials"],
        has_key_changes=values["has_moves"],
        has_partial_key_changes=values.get(
            "has_partial_moves", values["has_moves"] and values["has_partials"]
        ),
        column_orders=tuple(_orders(values)),
        evidence=_evidence(values),
    )


def _order_values(orders: Iterable[ColumnOrder]) -> Iterator[list[Any]]:
    """Each order by how many columns at its start and at its end are those of the order before it."""
    before: Sequence[str] = ()
    for order in orders:
        first = _shared(before, order.columns)
        rest = order.columns[first:]
        last = _shared(before[first:][::-1], rest[::-1])
        yield [order.naming, order.last_sequence, first, list(rest[: len(rest) - last]), last]
        before = order.columns


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many names at the start of both are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _orders(values: Mapping[str, Any]) -> Iterator[ColumnOrder]:
    for naming, sequence, names in values.get("shapes", ()):  # as earlier releases wrote them
        yield ColumnOrder(naming, sequence, tuple(names))
    before: tuple[str, ...] = ()
    for naming, sequence, first, names, last in values.get("orders", ()):
        before = (*before[:first], *names, *before[len(before) - last :])
        yield ColumnOrder(naming, sequence, before)


def _evidence_values(evidence: _Evidence) -> dict[str, Any]:
    """Each name with its evidence, and from which to which of the namings that have rows it is shown."""
    namings = sorted({naming for naming, _ in evidence})
    places = {naming: place for place, naming in enumerate(namings)}
    different = {id(shown): shown for shown in evidence.values()}  # namings have much of it in common
    rounded = {at: shown.rounded() for at, shown in different.items()}
    spans: dict[tuple[str, ColumnEvidence], list[list[int]]] = {}
    for (naming, name), shown in sorted(evidence.items(), key=lambda item: item[0]):
        mine, place = spans.setdefault((name, rounded[id(shown)]), []), places[naming]
        if mine and mine[-1][1] == place - 1:
            mine[-1][1] = place
        else:
            mine.append([place, place])
    found = [
        [
            name,
            sorted(s.types),
            sorted(s.declared),
            sorted(s.tokens),
            s.digits,
            s.scale,
            s.low,
            s.high,
            s.has_others,
            mine,
        ]
        for (name, s), mine in spans.items()
    ]
    return {"namings": namings, "evidence": found}


def _evidence(values: Mapping[str, Any]) -> dict[tuple[int, str], ColumnEvidence]:
    if "seen" in values:  # as earlier releases wrote it
        return {(naming, name): _shown(*parts) for naming, name, *parts in values["seen"]}
    namings = values["namings"]
    found: dict[tuple[int, str], ColumnEvidence] = {}
    for name, *parts, spans in values["evidence"]:
        shown = _shown(*parts)
        found.update({(naming, name): shown for a, b in spans for naming in namings[a : b + 1]})
    return found


def _shown(
    types: Iterable[str], declared: Iterable[str], tokens: Iterable[str], *widths: Any
) -> ColumnEvidence:
    return ColumnEvidence(frozenset(types), frozenset(declared), frozenset(tokens), *widths)
