"""Lays out the drawing of the flow: from sources over outcomes to tables. Pure.

Lengths are in units of the drawing, whose size the page decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from framework.report.model import Report
from framework.report.summary import parts, table_facts, totals
from framework.text.formatting import number, one_line, quantity

WIDTH = 1180
_COLUMN = 14
_LEFT, _MIDDLE, _RIGHT = 330, 590, 850
_TOP, _GAP, _LEAST = 46, 16, 3.0
_TALLEST = 300
_MOST_SOURCES, _MOST_TABLES = 14, 14
_LONGEST = 24

_OUTCOMES = {
    "row": "changes",
    "control": "control events",
    "merged": "merged halves",
    "duplicate": "duplicates",
    "waiting": "halves waiting",
    "key": "halves of key changes",
    "quarantined": "quarantined",
    "dismissed": "dismissed",
    "excluded": "excluded",
}


_LOOKS = {"merged": "half merged", "waiting": "half waiting", "key": "half key", "dismissed": "excluded"}
"""The styles of the outcomes without a style of their own name."""


@dataclass(frozen=True, slots=True)
class Node:
    """A box: its position, the text beside it, and its kind (source, table, or an outcome).

    `share` is its part of the greatest box of its column, in percent.
    """

    x: float
    y: float
    height: float
    kind: str
    label: str
    note: str
    title: str
    share: float = 0.0
    width: float = _COLUMN

    @property
    def middle(self) -> float:
        """The height of the middle of its text."""
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Link:
    """A ribbon between two boxes: the path of its middle line, and its width."""

    path: str
    width: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Flow:
    """The drawing of the flow. `heads` are the titles of the three columns with their positions.

    `balance` is the number of messages as the sum of their outcomes; empty where that is not known.
    """

    width: float
    height: float
    balance: str
    heads: tuple[tuple[float, str, str], ...]
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


def flow(report: Report) -> Flow | None:
    """The flow of everything in silver, None while it is empty; small tables and sources are combined."""
    events = parts(report)
    changes: Counter[str] = Counter()
    for outcome in report.outcomes:
        if outcome.kind == "row":
            changes[outcome.table_key.name] += outcome.rows
    if not events:
        return None
    sources = _greatest(_sums(events, 0), _MOST_SOURCES, "sources")
    tables = _greatest(changes, _MOST_TABLES, "tables")
    kinds = [kind for kind in _OUTCOMES if any(k == kind for _, k in events)]
    by_kind = _sums(events, 1)
    tallest = max(len(sources), len(kinds), len(tables))
    scale = max(_TALLEST - _GAP * (tallest - 1), 120) / sum(events.values())
    left = _column([(name, rows) for name, rows, _ in sources], scale)
    middle = _column([(kind, by_kind[kind]) for kind in kinds], scale)
    right = _column([(name, rows) for name, rows, _ in tables], scale)
    height = max(_bottom(column) for column in (left, middle, right)) + 14
    left, middle, right = (_centred(column, height) for column in (left, middle, right))
    member = {name: shown for shown, _, members in sources for name in members}
    pairs: Counter[tuple[str, str]] = Counter()
    for (source, kind), rows in events.items():
        pairs[member[source], kind] += rows
    order = {kind: at for at, kind in enumerate(kinds)}
    first = _links(
        sorted(pairs.items(), key=lambda p: (list(left).index(p[0][0]), order[p[0][1]])), left, middle, _LEFT
    )
    second = _links([(("row", name), rows) for name, rows, _ in tables], middle, right, _MIDDLE)
    return Flow(
        WIDTH,
        height,
        balance(report),
        _heads(report),
        (
            *_source_nodes(left, _further_rows(report, member)),
            *_outcome_nodes(middle),
            *_table_nodes(report, right, {name: some for name, _, some in tables}),
        ),
        (*first, *second),
    )


def balance(report: Report) -> str:
    """The messages as the sum of what became of them; empty where the number of messages is not known."""
    if report.messages is None:
        return ""
    sums, by_kind = totals(report), _sums(parts(report), 1)
    told = [f"{number(by_kind[kind])} {_OUTCOMES[kind]}" for kind in _OUTCOMES if by_kind[kind]]
    if sums.without_fate:
        told.append(f"{number(sums.without_fate)} without an outcome yet")
    whole = f"{quantity(report.messages, 'message')} = {' + '.join(told) or '0'}"
    more = sums.further_rows
    return f"{whole} − {quantity(more, 'further row')} of messages with several rows" if more else whole


def _further_rows(report: Report, member: dict[str, str]) -> Counter[str]:
    """The number of rows in excess of messages of each drawn source."""
    found: Counter[str] = Counter()
    for account in report.accounts:
        found[member.get(account.source, account.source)] += account.further
    return found


def _sums(counts: Counter[tuple[str, str]], side: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for pair, rows in counts.items():
        found[pair[side]] += rows
    return found


def _greatest(counts: Counter[str], most: int, noun: str) -> list[tuple[str, int, tuple[str, ...]]]:
    """The largest ones with their members; those beyond `most` are combined."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ranked) <= most:
        return [(name, rows, (name,)) for name, rows in ranked]
    rest = ranked[most - 1 :]
    kept = [(name, rows, (name,)) for name, rows in ranked[: most - 1]]
    return [
        *kept,
        (f"{len(rest):,} more {noun}", sum(rows for _, rows in rest), tuple(name for name, _ in rest)),
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    y: float
    height: float
    rows: int
    share: float


def _column(entries: Iterable[tuple[str, int]], scale: float) -> dict[str, _Place]:
    places, y = {}, float(_TOP)
    listed = list(entries)
    most = max((rows for _, rows in listed), default=1)
    for name, rows in listed:
        height = max(rows * scale, _LEAST)
        places[name] = _Place(y, height, rows, round(100 * rows / max(most, 1), 1))
        y += height + _GAP
    return places


def _bottom(places: dict[str, _Place]) -> float:
    return max((place.y + place.height for place in places.values()), default=float(_TOP))


def _centred(places: dict[str, _Place], height: float) -> dict[str, _Place]:
    shift = (height - 14 - _bottom(places)) / 2
    return {name: replace(place, y=place.y + shift) for name, place in places.items()}


def _links(
    pairs: Iterable[tuple[tuple[str, str], int]], left: dict[str, _Place], right: dict[str, _Place], x: float
) -> list[Link]:
    """Ribbons that fill each side of a box from top to bottom, as wide as their share of it."""
    out: defaultdict[str, float] = defaultdict(float)
    into: defaultdict[str, float] = defaultdict(float)
    start, end = x + _COLUMN, (_MIDDLE if x == _LEFT else _RIGHT)
    bend = (start + end) / 2
    links = []
    for (a, b), rows in pairs:
        one, two = left[a], right[b]
        wide = one.height * rows / max(one.rows, 1), two.height * rows / max(two.rows, 1)
        y1, y2 = one.y + out[a] + wide[0] / 2, two.y + into[b] + wide[1] / 2
        out[a] += wide[0]
        into[b] += wide[1]
        kind = b if x == _LEFT else "row"
        path = f"M{start:.1f},{y1:.1f} C{bend:.1f},{y1:.1f} {bend:.1f},{y2:.1f} {end:.1f},{y2:.1f}"
        links.append(
            Link(
                path,
                round(max(min(wide), 1.0), 2),
                _LOOKS.get(kind, kind),
                f"{one_line(a)} → {_OUTCOMES.get(b, one_line(b))}: {number(rows)}",
            )
        )
    return links


def _heads(report: Report) -> tuple[tuple[float, str, str], ...]:
    sums = totals(report)
    messages = "sources" if sums.messages is None else quantity(sums.messages, "message")
    rows = "tables" if sums.rows is None else quantity(sums.rows, "row")
    return (
        (_LEFT + _COLUMN / 2, messages, "bronze"),
        (_MIDDLE + _COLUMN / 2, quantity(sums.changes, "change"), "silver"),
        (_RIGHT + _COLUMN / 2, rows, "gold"),
    )


def _source_nodes(places: dict[str, _Place], further: Counter[str]) -> list[Node]:
    return [
        Node(
            _LEFT,
            p.y,
            p.height,
            "source",
            _label(name),
            quantity(p.rows - further[name], "message"),
            f"{one_line(name)}: {quantity(p.rows - further[name], 'message')}"
            + (f" of {quantity(p.rows, 'row')}" if further[name] else ""),
            p.share,
        )
        for name, p in places.items()
    ]


def _outcome_nodes(places: dict[str, _Place]) -> list[Node]:
    return [
        Node(
            _MIDDLE,
            p.y,
            p.height,
            _LOOKS.get(kind, kind),
            _OUTCOMES[kind],
            number(p.rows),
            f"{_OUTCOMES[kind]}: {number(p.rows)}",
            p.share,
        )
        for kind, p in places.items()
    ]


def _label(name: str) -> str:
    """A name on one line; the middle of a long one is left out, since names differ at their ends."""
    flat = one_line(name)
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST // 2 - 1]}…{flat[-_LONGEST // 2 :]}"


def _table_nodes(
    report: Report, places: dict[str, _Place], members: dict[str, tuple[str, ...]]
) -> list[Node]:
    rows: dict[str, int | None] = {}
    for line in table_facts(report):
        name = line.table.table_key.name
        rows[name] = None if line.table.rows is None else (rows.get(name) or 0) + line.table.rows
    counts = {name: [rows.get(member) for member in members[name]] for name in places}
    sums = {name: None if None in some else sum(filter(None, some)) for name, some in counts.items()}
    shown = {name: p.rows if sums[name] is None else sums[name] or 0 for name, p in places.items()}
    nodes = []
    for name, p in places.items():
        count = sums[name]
        nodes.append(
            Node(
                _RIGHT,
                p.y,
                p.height,
                "table",
                _label(name),
                quantity(p.rows, "change") if count is None else quantity(count, "row"),
                f"{one_line(name)}: {quantity(p.rows, 'change')}, {quantity(count, 'row')}",
                round(100 * shown[name] / max(*shown.values(), 1), 1),
            )
        )
    return nodes
