"""How each format tells what happens in a random source, and how its messages arrive: in parts, shuffled, some twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.end_to_end import random_wires as vendor
from tests.end_to_end.random_source import Abilities, RandomSource, Told
from tests.end_to_end.random_statements import SHOWN, TOLD
from tests.framework import demo_wires as wires
from tests.framework.demo_story import Change, Event, Marker
from tests.framework.demo_wires import Wire, line_of

FILES_A_PART = 2
TEXT = "string"
MONEY = "decimal(12,2)"
WIDE_MONEY = {MONEY: "decimal(22,2)"}
"""Twenty digits before the point at least: what gold makes of numbers that the feed does not declare."""
UNSIGNED = {"unsigned": "decimal(20,0)"}
BAD = ("<html>502</html>", '{"a": 1', "[]", '"text"', '{"payload": {"op": "EXPLODE"}}', "nonsense " * 9)


@dataclass(frozen=True)
class Feed:
    """A format as the random sources use it. `config` are further keys of its source, `statement` writes DDL."""

    format: str
    write: Wire
    abilities: Abilities
    gold_types: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    database: str = "db"
    schema: str | None = None
    names_keys: bool = True
    has_before: bool = True
    has_offsets: bool = False
    is_time_alone: bool = False
    """Changes of one time are told apart by the broker's position alone: a repeat among them cannot be told."""
    rules: Callable[[str, str], str | None] = lambda name, kind: None
    """What the configuration says of a column of a kind."""


@dataclass
class Delivery:
    """A line on its way: in which part, and whether it is one of those that are no messages."""

    part: int
    line: str


def _configured(*kinds: str) -> Callable[[str, str], str | None]:
    return lambda name, kind: kind if kind in kinds else None


_UNDECLARED = Abilities(("bigint", "unsigned", TEXT, MONEY, "boolean"))
_WHOLE_ROWS = replace(_UNDECLARED, shown=SHOWN)
_WIDENED = ("add", "retype")
"""What rows show where an image may leave columns out: a column that is gone looks as one that did not change."""
_LIGHT = ("int", "bigint", "unsigned", TEXT, MONEY, "double", "date", "timestamp_ntz")
_CONNECT = ("int", "bigint", TEXT, MONEY, "double", "date")
_SHANGHAI = "timezone: Asia/Shanghai"

FEEDS: tuple[Feed, ...] = (
    Feed(
        "datahub_blob",
        vendor.blob,
        Abilities(("bigint", "unsigned", TEXT, MONEY, "double", "boolean", "milliseconds", "binary", "date"), ddl=TOLD, truncates=True),
        {**UNSIGNED, "milliseconds": "timestamp"},
        config="pairing_timeout: 30 seconds",
        database="shop",
        rules=_configured(MONEY, "date"),
    ),
    Feed("datahub_tuple", wires.datahub_tuple, _WHOLE_ROWS, {**UNSIGNED, **WIDE_MONEY}, config="database: db", names_keys=False),
    Feed(
        "oms_canal",
        vendor.in_kcat(wires.oms_canal),
        Abilities(("bigint", "unsigned", TEXT, MONEY, "timestamp"), shown=SHOWN),
        {**UNSIGNED, **WIDE_MONEY},
        config="layout: kcat",
        has_offsets=True,
        is_time_alone=True,
    ),
    Feed("oms_shareplex", wires.oms_shareplex, _WHOLE_ROWS, {**UNSIGNED, **WIDE_MONEY}, config=_SHANGHAI, names_keys=False),
    Feed(
        "oms_default",
        vendor.oms_default,
        Abilities(_UNDECLARED.kinds, ddl=TOLD, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        config=_SHANGHAI,
    ),
    Feed(
        "oms_default_extend",
        vendor.oms_default_extend,
        Abilities(_LIGHT, ddl=TOLD, truncates=True),
        {**UNSIGNED, **WIDE_MONEY},
        config=_SHANGHAI,
    ),
    Feed("oms_dataworks", vendor.dataworks, Abilities(_LIGHT, ddl=TOLD, truncates=True), {**UNSIGNED, **WIDE_MONEY}, config=_SHANGHAI),
    Feed(
        "lindorm",
        wires.lindorm,
        Abilities((*_CONNECT, "timestamp_ntz"), shown=_WIDENED),
        config="layout: kcat",
        has_offsets=True,
        is_time_alone=True,
    ),
    Feed("arcion", wires.arcion, Abilities(_CONNECT, moves=False, swaps=False, shown=SHOWN), config="layout: kcat", has_offsets=True),
    Feed(
        "canal",
        vendor.canal,
        Abilities(tuple(vendor.MYSQL), ddl=TOLD, truncates=True),
        UNSIGNED,
        config=_SHANGHAI,
    ),
    Feed("maxwell", vendor.maxwell, replace(_UNDECLARED, ddl=TOLD), {**UNSIGNED, **WIDE_MONEY}),
    Feed("ogg", vendor.ogg, replace(_UNDECLARED, shown=_WIDENED, truncates=True), {**UNSIGNED, **WIDE_MONEY}, config=_SHANGHAI),
    Feed("dms", vendor.dms, replace(_WHOLE_ROWS, truncates=True), {**UNSIGNED, **WIDE_MONEY}, names_keys=False),
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


def arranged(feed: Feed, source: RandomSource, parts: int) -> list[list[Delivery]]:
    """The feed's lines by part: shuffled in each, one in seven in another part than its own, some twice, some no messages.

    The seed draws whether statements come as the rows do, all before them or all after them, or whether all that is told
    comes backwards. Of a key change every other line comes in another part.
    """
    draw = Random(f"{source.draw.random()} {feed.format}")
    way = draw.choice(("mixed", "early", "late", "backwards"))
    found: list[list[Delivery]] = [[] for _ in range(parts)]
    for number, told in enumerate(source.told):
        for line in lines_of(feed, told):
            own = number * parts // len(source.told)
            part = draw.randrange(parts) if draw.random() < (0.5 if _moves(told.event) else 0.15) else own
            if way == "backwards":
                part = parts - 1 - part
            elif way != "mixed" and isinstance(told.event, Marker):
                part = 0 if way == "early" else parts - 1
            found[part].append(Delivery(part, line))
            if draw.random() < 0.1 and not (feed.is_time_alone and told.is_tied):
                again = draw.randrange(parts)
                found[again].append(Delivery(again, _repeated(line, feed)))
    for _ in range(max(1, len(source.told) // 100)):
        part = draw.randrange(parts)
        found[part].append(Delivery(part, draw.choice(BAD)))
    for deliveries in found:
        draw.shuffle(deliveries)
    return found


def _moves(event: Event) -> bool:
    """Whether a row takes another key."""
    if not isinstance(event, Change) or event.before is None or event.after is None:
        return False
    return event.table.key_of(event.before) != event.table.key_of(event.after)


def lines_of(feed: Feed, told: Told) -> list[str]:
    """The lines of one event; what belongs to one transaction says so where the wire gives each change its own."""
    number, lines = told.event.number, feed.write(told.event)
    for own, shared in _TRANSACTIONS.get(feed.format, ()):
        lines = [line.replace(own.format(number), shared.format(told.transaction)) for line in lines]
    return lines


_TRANSACTIONS = {
    "oms_shareplex": [('"trans":"tx-{}"', '"trans":"t{}"')],
    "oms_default": [('"uniqueId":"{:08d}"', '"uniqueId":"t{}"')],
    "oms_default_extend": [('"uniqueId":"{:08d}"', '"uniqueId":"t{}"')],
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
    """Write a part's files, whole; gives the number of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(FILES_A_PART):
        content = "".join(f"{delivery.line}\n" for delivery in deliveries[number::FILES_A_PART])
        hidden = folder / f".part-{part}-{number}"
        hidden.write_text(content, encoding="utf-8")
        hidden.rename(folder / f"part-{part}-{number}.jsonl")
    return len(deliveries)


def configuration(feeds: Mapping[str, tuple[Feed, RandomSource]]) -> str:
    """The pipeline of all feeds."""
    text = ["pipeline: random", "lakehouse: ./lakehouse", "sources:"]
    tables: list[str] = []
    for name, (feed, source) in feeds.items():
        more = f", {feed.config}" if feed.config else ""
        text.append(f"  {name}: {{format: {feed.format}, files: ./landing/{name}{more}}}")
        for table in source.tables:
            columns = {c: said for c, kind in {**table.kinds, **table.dropped}.items() if (said := feed.rules(c, kind))}
            rule = {
                "columns": {c: {"type": kind} for c, kind in columns.items()},
                **({} if feed.names_keys else {"keys": list(table.keys)}),
            }
            for name in (*table.former, table.name):
                match = ".".join(filter(None, (source.database, feed.schema, name)))
                tables.append(f"  - {json.dumps({'match': match, **rule}, ensure_ascii=False)}")
    return "\n".join([*text, "tables:", *tables, ""])
