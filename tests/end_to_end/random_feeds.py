"""The messages of each format for a random source, and their arrival: in parts, shuffled, some twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from tests.end_to_end import random_wires as vendor
from tests.end_to_end.random_source import Abilities, LoggedEvent, RandomSource
from tests.end_to_end.random_statements import SHOWN, WITH_STATEMENTS
from tests.framework.demo import wires
from tests.framework.demo.story import START, Change, Event, Marker
from tests.framework.demo.wires import Wire, line_of

FILES_A_PART = 2
TEXT = "string"
MONEY = "decimal(12,2)"
WIDE_MONEY = {MONEY: "decimal(22,2)"}
"""Twenty digits before the point at least: what gold makes of numbers that the feed does not declare."""
UNSIGNED = {"unsigned": "decimal(20,0)"}
BAD = ("<html>502</html>", '{"a": 1', "[]", '"text"', '{"payload": {"op": "EXPLODE"}}', "nonsense " * 9)


@dataclass(frozen=True)
class Feed:
    """A format as the random sources use it.

    `config` are further keys of its source, `statement` writes DDL.
    """

    format: str
    write: Wire
    abilities: Abilities
    gold_types: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    database: str = "db"
    schema: str | None = None
    names_keys: bool = True
    has_before: bool = True
    has_halves: bool = False
    has_offsets: bool = False
    has_odd_times: bool = False
    is_time_alone: bool = False
    """Whether only the broker's position distinguishes changes of one time: duplicates look like changes."""
    rules: Callable[[str, str], str | None] = lambda name, kind: None
    """What the configuration says of a column of a kind."""


@dataclass
class Delivery:
    """A line to be delivered: its part, whether another dump has it too, and whether it is a second message.

    `rank` 0 comes first in its part, 1 anywhere. `is_late` is of the life before, in a file that its writer
    finished late.
    """

    part: int
    line: str
    is_repeated: bool = False
    is_copy: bool = False
    rank: int = 1
    is_late: bool = False
    life: int = 0


def _configured(*kinds: str) -> Callable[[str, str], str | None]:
    return lambda name, kind: kind if kind in kinds else None


_UNDECLARED = Abilities(("bigint", "unsigned", TEXT, MONEY, "boolean"))
_WHOLE_ROWS = replace(_UNDECLARED, shown=SHOWN)
_WIDENED = ("add", "retype")
"""What rows show where an image may omit columns: a dropped column looks like an unchanged one."""
_LIGHT = ("int", "bigint", "unsigned", TEXT, MONEY, "double", "date", "timestamp_ntz")
_CONNECT = ("int", "bigint", TEXT, MONEY, "double", "date")
_SHANGHAI = "timezone: Asia/Shanghai"

_IN_PARTITIONS: dict[str, Any] = {
    "config": "layout: kcat",
    "has_offsets": True,
    "has_odd_times": True,
    "is_time_alone": True,
}
"""Feeds whose positions are times, in the partitions of a broker: the times do not rise as the changes do."""

FEEDS: tuple[Feed, ...] = (
    Feed(
        "datahub_blob",
        vendor.blob,
        Abilities(
            ("bigint", "unsigned", TEXT, MONEY, "double", "boolean", "milliseconds", "binary", "date"),
            ddl=WITH_STATEMENTS,
            truncates=True,
        ),
        {**UNSIGNED, "milliseconds": "timestamp"},
        config="pairing_timeout: 30 seconds",
        database="shop",
        rules=_configured(MONEY, "date"),
    ),
    Feed(
        "datahub_tuple",
        wires.datahub_tuple,
        _WHOLE_ROWS,
        {**UNSIGNED, **WIDE_MONEY},
        config="database: db",
        names_keys=False,
        has_halves=True,
    ),
    Feed(
        "oms_canal",
        vendor.in_kcat(wires.oms_canal),
        Abilities(("bigint", "unsigned", TEXT, MONEY, "timestamp"), shown=SHOWN),
        {**UNSIGNED, **WIDE_MONEY},
        **_IN_PARTITIONS,
    ),
    Feed(
        "oms_shareplex",
        wires.oms_shareplex,
        _WHOLE_ROWS,
        {**UNSIGNED, **WIDE_MONEY},
        config=_SHANGHAI,
        names_keys=False,
    ),
    Feed(
        "oms_default",
        vendor.in_kcat(vendor.oms_default),
        Abilities(_UNDECLARED.kinds, ddl=WITH_STATEMENTS, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        **_IN_PARTITIONS | {"config": f"layout: kcat, {_SHANGHAI}"},
    ),
    Feed(
        "oms_default_extend",
        vendor.oms_default_extend,
        Abilities(_LIGHT, ddl=WITH_STATEMENTS, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        config=_SHANGHAI,
    ),
    Feed(
        "oms_dataworks",
        vendor.in_kcat(vendor.dataworks),
        Abilities(_LIGHT, ddl=WITH_STATEMENTS, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        **_IN_PARTITIONS | {"config": f"layout: kcat, {_SHANGHAI}"},
    ),
    Feed(
        "lindorm",
        vendor.at_odd_times(wires.lindorm),
        Abilities((*_CONNECT, "timestamp_ntz"), shown=_WIDENED),
        **_IN_PARTITIONS,
    ),
    Feed(
        "arcion",
        wires.arcion,
        Abilities(_CONNECT, moves=False, swaps=False, shown=SHOWN),
        config="layout: kcat",
        has_offsets=True,
    ),
    Feed(
        "canal",
        vendor.in_kcat(vendor.canal),
        Abilities(tuple(vendor.MYSQL), ddl=WITH_STATEMENTS, truncates=True),
        UNSIGNED,
        **_IN_PARTITIONS | {"config": f"layout: kcat, {_SHANGHAI}"},
    ),
    Feed(
        "maxwell",
        vendor.maxwell,
        replace(_UNDECLARED, ddl=WITH_STATEMENTS, keeps_rest=True),
        {**UNSIGNED, **WIDE_MONEY},
    ),
    Feed(
        "ogg",
        vendor.ogg,
        replace(_UNDECLARED, shown=_WIDENED, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        config=_SHANGHAI,
    ),
    Feed(
        "dms",
        vendor.in_kcat(vendor.dms),
        replace(_WHOLE_ROWS, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        names_keys=False,
        **_IN_PARTITIONS,
    ),
    Feed(
        "debezium",
        vendor.debezium,
        Abilities((*_CONNECT, "timestamp_ntz"), shown=_WIDENED, truncates=True),
        config="layout: kcat",
        has_offsets=True,
        schema="public",
        has_before=False,
    ),
)


def parts_of_life(life: int, lives: int, parts: int) -> range:
    """The parts in which the messages of a life come: a life's are there before the next one's."""
    mine = [part for part in range(parts) if part * lives // parts == life]
    return range(mine[0], mine[-1] + 1)


def arranged(feed: Feed, source: RandomSource, parts: int, is_foretold: bool = False) -> list[list[Delivery]]:
    """The feed's lines by part: shuffled, one in seven in another part, some twice, some no messages.

    The seed draws whether statements come as the rows do, all before them or all after them, or whether all
    lines come backwards. Of a key change every other line comes in another part. No line leaves the
    parts of its life, but for some that come with the first ones of the next life, unless that is
    `is_foretold` by the configuration.
    """
    draw = Random(f"{source.draw.random()} {feed.format}")
    way = draw.choice(("mixed", "early", "late", "backwards"))
    found: list[list[Delivery]] = [[] for _ in range(parts)]
    unclear = _unclear_events(feed, source)
    sizes = Counter(logged.life for logged in source.logged)
    numbers: Counter[int] = Counter()
    for logged in source.logged:
        mine, number = parts_of_life(logged.life, len(sizes), parts), numbers[logged.life]
        numbers[logged.life] += 1
        for line in lines_of(feed, logged):
            own = mine[number * len(mine) // sizes[logged.life]]
            part = draw.choice(mine) if draw.random() < (0.5 if _moves(logged.event) else 0.15) else own
            if way == "backwards":
                part = mine[0] + mine[-1] - part
            elif way != "mixed" and isinstance(logged.event, Marker):
                part = mine[0] if way == "early" else mine[-1]
            if logged.shows:
                found[mine[0]].append(Delivery(mine[0], line, rank=0, life=logged.life))
            elif logged.life < source.life and not is_foretold and draw.random() < 0.1:
                found[mine[-1] + 1].append(Delivery(mine[-1] + 1, line, is_late=True, life=logged.life))
                continue
            else:
                found[part].append(Delivery(part, line, life=logged.life))
            if draw.random() < 0.1 and not (feed.is_time_alone and logged.event.number in unclear):
                target = draw.choice(
                    mine[part - mine[0] :] if feed.has_offsets else mine
                )  # no partition has a copy before what it repeats
                if feed.is_time_alone:  # nor before what says that it has gone on
                    target = mine[-1]
                found[target].append(Delivery(target, _repeated(line, feed), is_copy=True, life=logged.life))
    for number in range(max(1, len(source.logged) // 100)):
        part = draw.randrange(parts)
        found[part].append(
            Delivery(part, _in_topic(draw.choice(BAD), number) if feed.has_offsets else draw.choice(BAD))
        )
    if feed.has_offsets:
        _overlap(found, draw, len(sizes))
    for deliveries in found:
        draw.shuffle(deliveries)
        deliveries.sort(key=lambda delivery: delivery.rank)
    return found


def _in_topic(text: str, number: int) -> str:
    """A message of a topic that cannot be read."""
    return line_of(
        {
            "topic": "poison",
            "partition": 0,
            "offset": number,
            "tstype": "create",
            "ts": 1,
            "key": None,
            "payload": text,
        }
    )


def _overlap(parts: list[list[Delivery]], draw: Random, lives: int) -> None:
    """Copies some lines to another dump, which lands before, with or after the first, in no earlier life."""
    for _ in range(draw.randint(1, 3)):
        lines = [
            line
            for line in draw.choice([part for part in parts if part])
            if not line.is_copy and not line.is_late
        ]
        start = draw.randrange(len(lines) + 1)
        stretch = lines[start : start + draw.randint(1, 20)]
        first = max((parts_of_life(line.life, lives, len(parts))[0] for line in stretch), default=0)
        part = draw.randrange(first, len(parts))
        parts[part] += [Delivery(part, line.line, is_repeated=True, life=line.life) for line in stretch]


def _unclear_events(feed: Feed, source: RandomSource) -> set[int]:
    """The numbers of events whose copies may look like changes: a time is shared, and none is later.

    Only a message with a later time says that its partition, which is one of a table, has gone on. Lines of
    several lives can come after the copies.
    """
    times = [
        vendor.time_as_sent(logged.event) if feed.has_odd_times else logged.event.at
        for logged in source.logged
    ]
    counts, newest = Counter(times), list(accumulate(times, max))
    behind: dict[str, int] = {}
    unclear: set[int] = set()
    for logged, time, top in zip(source.logged[::-1], times[::-1], newest[::-1], strict=True):
        assert logged.event.table is not None
        table = logged.event.table.name.partition("_as_")[0]
        if counts[time] > 1 and (source.life or behind.get(table, 0) <= top):
            unclear.add(logged.event.number)
        behind[table] = max(time, behind.get(table, 0))
    return unclear


def _moves(event: Event) -> bool:
    """Whether a row takes another key."""
    if not isinstance(event, Change) or event.before is None or event.after is None:
        return False
    return event.table.key_of(event.before) != event.table.key_of(event.after)


def lines_of(feed: Feed, logged: LoggedEvent) -> list[str]:
    """The lines of one event.

    What belongs to one transaction says so where the wire gives each change its own.

    Positions that hold a time hold that of the life: they begin anew with it.
    """
    number, lines = logged.event.number, feed.write(logged.event)
    clock = START + (logged.event.at - logged.born) // 1000
    for member, digits in _POSITIONS.get(feed.format, ()):
        own, new = (f'"{member}":"{time}{number:0{digits}d}"' for time in (logged.event.at // 1000, clock))
        lines = [line.replace(own, new) for line in lines]
    for own, shared in _TRANSACTIONS.get(feed.format, ()):
        for quote in ('"', '\\"'):  # a payload of `kcat -J` is JSON in a text
            old, new = (
                text.replace('"', quote) for text in (own.format(number), shared.format(logged.transaction))
            )
            lines = [line.replace(old, new) for line in lines]
    return lines


_POSITIONS = {
    "datahub_blob": [("sequenceId", 9)],
    "datahub_tuple": [("_sequence_id_", 9)],
    "oms_shareplex": [("scn", 5)],
}
"""Positions whose writers put seconds in front of a number of so many digits."""

_TRANSACTIONS = {
    "oms_shareplex": [('"trans":"tx-{}"', '"trans":"t{}"')],
    "oms_default": [('"uniqueId":"{:08d}"', '"uniqueId":"t{}"')],
    "oms_default_extend": [('"uniqueId":"{:08d}"', '"uniqueId":"t{}"')],
    "debezium": [('"txId":{},', '"txId":{},')],
    "maxwell": [('"xid":{},', '"xid":{},')],
    "ogg": [('"TK-XID":"x{}"', '"TK-XID":"t{}"')],
    "dms": [('"transaction-id":{},', '"transaction-id":{},')],
}


def _repeated(line: str, feed: Feed) -> str:
    if not feed.has_offsets:
        return line
    message = json.loads(line)
    return line_of({**message, "offset": message["offset"] + 1_000_000})


def land(folder: Path, part: int, deliveries: Sequence[Delivery]) -> int:
    """Writes the complete files of a part and returns the number of lines.

    Late lines have a separate file, first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own, late = ([d for d in deliveries if d.is_late == is_late] for is_late in (False, True))
    files = {f"{part}--late": late} if late else {}
    files |= {f"{part}-{number}": own[number::FILES_A_PART] for number in range(FILES_A_PART)}
    for name, lines in files.items():
        hidden = folder / f".part-{name}"
        hidden.write_text("".join(f"{delivery.line}\n" for delivery in lines), encoding="utf-8")
        hidden.rename(folder / f"part-{name}.jsonl")
    return len(deliveries)


def configuration(
    feeds: Mapping[str, tuple[Feed, RandomSource]],
    epochs: Mapping[str, int],
    keys: Mapping[str, Sequence[str]],
    orders: Mapping[str, str],
    ways: Mapping[str, Mapping[str, Any]],
) -> str:
    """The pipeline of these feeds: some in a later epoch than the first, some tables with other keys or
    kept in other ways, some sources in another order.
    """
    text = ["pipeline: random", "lakehouse: ./lakehouse", "sources:"]
    tables: list[str] = []
    for name, (feed, source) in feeds.items():
        more = f", {feed.config}" if feed.config else ""
        more += f", epoch: {epochs[name]}" if epochs.get(name, 1) > 1 else ""
        more += f", order: {orders[name]}" if name in orders else ""
        text.append(f"  {name}: {{format: {feed.format}, files: ./landing/{name}{more}}}")
        for table in source.tables:
            columns = {
                c: said
                for c, kind in {**table.kinds, **table.dropped}.items()
                if (said := feed.rules(c, kind))
            }
            way = ways.get(table.name, {})
            rule = {
                **({} if feed.names_keys else {"keys": list(keys.get(table.name, table.keys))}),
                **way,
                "columns": {c: {"type": kind} for c, kind in columns.items()} | way.get("columns", {}),
            }
            for name in (*table.former, table.name):
                match = ".".join(filter(None, (source.database, feed.schema, name)))
                tables.append(f"  - {json.dumps({'match': match, **rule}, ensure_ascii=False)}")
    return "\n".join([*text, "tables:", *tables, ""])
