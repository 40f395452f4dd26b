"""Makes the sample feeds of `mainstem demo` and `mainstem formats --sample`; the same bytes at every run.

    # writes framework/demo/parts and framework/demo/samples
    python -m tests.framework.demo.sample_feeds

The DataHub feeds are delivered as such feeds are: in shards, halves of updates apart or in the wrong order,
some of them in the next part, some messages twice, two of them no messages at all. The other feeds keep their
order.
"""

from __future__ import annotations

import shutil
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from silver.formats import FORMATS
from tests.framework.demo.story import Change, Event, Story, tell
from tests.framework.demo.wires import WIRES, line_of

DEMO = Path(__file__).parents[3] / "framework" / "demo"
SHARDS = 3
BAD_MESSAGES = (
    '{"schema":{"source":{"dbType":"MySQL","dbName":"shop","tableName":"orders"}},"payload":{"op":"INSERT","after":{"dataColumn":{"id":1',
    '{"schema":{"source":{"dbType":"MySQL","dbName":"shop","tableName":"orders"}},"payload":{"op":"UPSERT","sequenceId":"1","timestamp":{"eventTime":'
    '1709283600000}},"version":"1.0.0"}',
)


FIXTURES = Path(__file__).parents[2] / "fixtures" / "formats"
SHOWN = {"debezium": "mysql", "dms": "rows", "maxwell": "rows", "ogg": "rows"}
"""Formats whose sample is a recorded scenario: those that the demo leaves out, and one without schemas."""
LATE_HALVES = {1: 0, 3: 1}
"""Update → the half of it that comes in the next part: 0 the one before, 1 the one after."""


@dataclass
class Delivery:
    """A message on its way: where it will be found."""

    shard: int
    part: int
    line: str


def build() -> dict[str, bytes]:
    """All files by their path below `framework/demo`."""
    story = tell()
    files: dict[str, bytes] = {}
    for feed, (name, write) in WIRES.items():
        if name not in FORMATS:
            continue
        if name.startswith("datahub"):
            files |= _shards(feed, _delivered(story, feed, shards=SHARDS if feed == "shop" else 2))
        else:
            for part in (1, 2):
                lines = [line for event in story.of(feed) if event.part == part for line in write(event)]
                if lines:
                    files[f"parts/{part}/{feed}/{feed}-part-{part}.jsonl"] = _text(lines)
        files[f"samples/{name}.jsonl"] = _text(
            [line for event in _picked(story, feed) for line in write(event)]
        )
    for name, scenario in SHOWN.items():
        files[f"samples/{name}.jsonl"] = _recorded(FIXTURES / name / scenario)
    return files


def _recorded(scenario: Path) -> bytes:
    """A recorded scenario as it is, or where its messages have keys as `kcat -J` prints them."""
    if not scenario.with_suffix(".keys").exists():
        return scenario.with_suffix(".raw").read_bytes()
    values, keys = (
        scenario.with_suffix(end).read_text(encoding="utf-8").splitlines() for end in (".raw", ".keys")
    )
    head = {"topic": scenario.parent.name, "partition": 0}
    pairs = enumerate(zip(keys, values, strict=True))
    messages = [
        {**head, "offset": n, "headers": [], "key": key or None, "payload": None if value == "\\N" else value}
        for n, (key, value) in pairs
    ]
    return _text([line_of(message) for message in messages])


def write(folder: Path) -> None:
    """The files anew, in a folder that may hold earlier ones."""
    for name in ("parts", "samples"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for path, content in build().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _picked(story: Story, feed: str) -> Iterator[Event]:
    """The events of a sample: a small feed's all, of the big ones the first of each kind."""
    seen = set()
    for event in story.of(feed):
        kind = (
            (event.op, event.before is not None and _has_new_key(event))
            if isinstance(event, Change)
            else (event.kind, False)
        )
        if kind not in seen or feed != "shop":
            yield event
        seen.add(kind)


def _has_new_key(event: Change) -> bool:
    return (
        event.before is not None
        and event.after is not None
        and event.table.key_of(event.before) != event.table.key_of(event.after)
    )


def _delivered(story: Story, feed: str, shards: int) -> list[Delivery]:
    """The feed's messages in the order in which its shards get them."""
    deliveries: list[Delivery] = []
    updates = 0
    for number, event in enumerate(story.of(feed)):
        lines = WIRES[feed][1](event)
        at = (
            [_shard(row, event, shards) for row in (event.before, event.after) if row is not None]
            if isinstance(event, Change)
            else [0]
        )
        messages = [Delivery(shard, event.part, line) for shard, line in zip(at, lines, strict=True)]
        if len(messages) == 2:
            _deliver_halves(deliveries, messages, updates)
            updates += 1
        else:
            deliveries += messages
        if number % 9 == 4 and isinstance(event, Change):
            last = messages[-1]
            deliveries.append(Delivery(last.shard, 2 if number % 2 else last.part, last.line))
    if feed == "shop":
        for number, line in enumerate(BAD_MESSAGES):
            deliveries.insert(20 + 15 * number, Delivery(1 + number, 1, line))
    return deliveries


def _deliver_halves(deliveries: list[Delivery], halves: list[Delivery], number: int) -> None:
    """The halves of the feed's update `number`: as neighbours or apart, in their order or not,
    or one in the next part.
    """
    if number in LATE_HALVES and halves[0].part == 1:
        halves[LATE_HALVES[number]].part = 2
    if number % 2:
        halves.reverse()
    first = len(deliveries) - (5 if number % 4 in (1, 2) else 0)
    deliveries.insert(max(first, 0), halves[0])
    deliveries.append(halves[1])


def _shard(row: Mapping[str, str | None], event: Change, shards: int) -> int:
    key = "\0".join(str(text) for text in event.table.key_of(row))
    return zlib.crc32(f"{event.table.name}\0{key}".encode()) % shards


def _shards(feed: str, deliveries: list[Delivery]) -> dict[str, bytes]:
    lines: dict[str, list[str]] = defaultdict(list)
    for delivery in deliveries:
        lines[f"parts/{delivery.part}/{feed}/shard-{delivery.shard}-part-{delivery.part}.jsonl"].append(
            delivery.line
        )
    return {path: _text(content) for path, content in sorted(lines.items())}


if __name__ == "__main__":
    write(DEMO)
    for path, content in sorted(build().items()):
        print(f"{path}: {content.count(10)} lines, {len(content):,} bytes")
