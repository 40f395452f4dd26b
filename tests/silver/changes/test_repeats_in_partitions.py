"""A connector that begins again repeats its newest messages: what its partition has passed changes nothing.

The positions are times of whole seconds, so several changes of a row share one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silver.batches.partition_progress import PartitionProgress, blocks_in, plan_of
from silver.changes.decode import SourcePlan, decode_batch
from silver.changes.deduplication import deduplicate
from silver.changes.pairing import KNOWN, NEW
from silver.changes.staged_rows import Row, plain_rows, staged_table
from silver.formats import canal, debezium
from silver.values.sequence import reached_position, with_position
from tests.silver.changes.groups_in_memory import by_reached_position
from tests.silver.changes.test_decode import batch, plan

Values = Mapping[str, str]
NOON = 1_709_200_800


@dataclass(frozen=True)
class Write:
    """What happened to a row in a second."""

    second: int
    before: Values | None
    after: Values | None


def canal_text(write: Write) -> bytes:
    image = write.after or write.before
    kind = "INSERT" if write.before is None else "DELETE" if write.after is None else "UPDATE"
    message = {
        "database": "shop",
        "table": "orders",
        "type": kind,
        "es": 1000 * (NOON + write.second),
        "isDdl": False,
        "pkNames": ["id"],
        "mysqlType": {"id": "int", "v": "varchar(9)"},
        "data": [image],
        "old": [write.before] if kind == "UPDATE" else None,
    }
    return json.dumps(message).encode()


def flat_text(write: Write) -> bytes:
    """Debezium without its envelope: no image before, no position but the time."""
    image = write.after or write.before or {}
    op = "c" if write.before is None else "d" if write.after is None else "u"
    more = {"__op": op, "__table": "orders", "__db": "shop", "__deleted": str(op == "d").lower()}
    return json.dumps({**image, **more, "__source_ts_ms": 1000 * (NOON + write.second)}).encode()


WRITERS = {"canal": (canal.FORMAT, canal_text), "flat debezium": (debezium.FORMAT, flat_text)}


class Topic:
    """A partition of a broker, whose messages silver takes in batches."""

    def __init__(self, name: str) -> None:
        fmt, self.text = WRITERS[name]
        own = plan(fmt)
        context = replace(own.context, options=fmt.options())
        self.plan: SourcePlan = replace(own, context=context, by_partition=True)
        self.rows: list[Row] = []
        self.tops: dict[tuple[str, str, int, str], PartitionProgress] = {}
        self.end = 0

    def take(self, writes: Sequence[Write]) -> list[str]:
        """One batch of silver; the kinds of its outcomes."""
        found = self._decoded(writes)
        earlier = [{**row, "origin": KNOWN} for row in self.rows if row["kind"] == "row"]
        groups = by_reached_position([*earlier, *({**row, "origin": NEW} for row in found)])
        outcomes = [row for members in groups for row in decided(members)]
        outcomes.sort(key=lambda row: row["offset"])
        self.rows += outcomes
        return [row["kind"] for row in outcomes]

    def _decoded(self, writes: Sequence[Write]) -> list[Row]:
        messages = batch([self.text(write) for write in writes], key=b'{"id": "1"}')
        place = messages.schema.get_field_index("offset")
        offsets = [self.end + n for n in range(len(writes))]
        field = messages.schema.field(place)
        messages = messages.set_column(place, field, pa.array(offsets, pa.int64()))
        self.end += len(writes)
        found = plain_rows(pa.Table.from_batches([decode_batch(messages, {"feed": self.plan})]))
        progress = plan_of(blocks_in(staged_table(found)), self.tops)
        for _, floor in progress.floors:
            for row in found:
                own = reached_position(row["sequence"], row["position"])
                if own < floor:
                    row["sequence"] = with_position(row["sequence"], own, floor)
        self.tops |= progress.progress
        return found

    def replica(self) -> dict[str, Values]:
        """The last change of each row, in the order of the sequences."""
        state: dict[str, Values] = {}
        for row in sorted(self.rows, key=lambda row: row["sequence"]):
            if row["kind"] == "row" and row["op"] == "delete":
                state.pop(row["before"]["id"], None)
            elif row["kind"] == "row":
                state[row["after"]["id"]] = row["after"]
        return state


def decided(members: Sequence[Row]) -> list[Row]:
    """The outcomes of the new ones among changes of one position."""
    ids = [row["change_id"] for row in members]
    if len(set(ids)) < len(ids):
        return deduplicate(list(members))
    return [row for row in members if row["origin"] == NEW]


def row(value: str) -> Values:
    return {"id": "1", "v": value}


A, B, C = row("A"), row("B"), row("C")
FLIP = (Write(0, A, B), Write(0, B, A), Write(4, A, C))
REPLACED = (Write(0, None, A), Write(0, A, None), Write(4, None, B))
DELETED = (Write(0, B, None), Write(0, None, B), Write(4, B, None))


@pytest.mark.parametrize("feed", WRITERS)
@pytest.mark.parametrize("writes", [FLIP, REPLACED, DELETED], ids=["flip", "replaced", "deleted"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_what_a_later_time_has_followed_changes_nothing_when_it_comes_again(
    feed: str, writes: Sequence[Write], is_cut: bool
) -> None:
    topic = Topic(feed)
    batches = [writes, writes] if is_cut else [(*writes, *writes)]
    kinds = [kind for part in batches for kind in topic.take(part)]
    assert kinds == ["row"] * 3 + ["duplicate"] * 3
    last = writes[-1].after
    assert topic.replica() == ({} if last is None else {"1": last})


def test_a_slow_statement_that_writes_there_and_back_and_there_is_three_changes() -> None:
    """Its time is the one of its start, when the partition has long gone on."""
    topic = Topic("canal")
    other = {"id": "2", "v": "A"}
    writes = [Write(9, None, other), Write(0, A, B), Write(0, B, A), Write(0, A, B)]
    assert topic.take(writes) == ["row"] * 4
    assert topic.replica() == {"1": B, "2": other}


BACK = (Write(1, A, B), Write(0, B, A), Write(1, A, B))


@pytest.mark.parametrize("feed", WRITERS)
@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
def test_a_change_happens_again_within_its_second_while_the_clock_steps_back(
    feed: str, cuts: Sequence[int]
) -> None:
    """Or while a statement that began before that second is committed."""
    topic = Topic(feed)
    ends = (0, *cuts, len(BACK))
    kinds = [kind for at in range(len(ends) - 1) for kind in topic.take(BACK[ends[at] : ends[at + 1]])]
    assert kinds == ["row"] * 3
    assert topic.replica() == {"1": B}
    assert topic.take([Write(2, B, C), *BACK]) == ["row", "duplicate", "duplicate", "duplicate"]
    assert topic.replica() == {"1": C}


def test_what_a_row_has_passed_changes_nothing_while_the_clock_is_behind() -> None:
    """A connector that begins again is more likely than a clock that steps back twice."""
    topic = Topic("canal")
    writes = [Write(9, None, {"id": "2", "v": "A"}), Write(1, A, B), Write(2, B, A)]
    assert topic.take([*writes, *writes[1:]]) == ["row"] * 3 + ["duplicate"] * 2
    assert topic.take(writes[1:]) == ["duplicate"] * 2


@st.composite
def clocks_that_step_back(draw: st.DrawFn) -> list[Write]:
    """What happens to two rows while the times jump; no change again behind a later time of its row.

    Such a change looks like a repeat (`silver/changes/deduplication.py`).
    """
    second, rows, found = 5, dict[str, Values | None](), list[Write]()
    for _ in range(draw(st.integers(1, 12))):
        second = max(0, second + draw(st.sampled_from((0, 0, 1, -1, -2, 3))))
        key = draw(st.sampled_from("112"))
        before = rows.get(key)
        choice = [image for image in ({"id": key, "v": "A"}, {"id": key, "v": "B"}, None) if image != before]
        write = Write(second, before, draw(st.sampled_from(choice)))
        if not _looks_repeated(write, found):
            found.append(write)
            rows[key] = write.after
    return found


def _looks_repeated(write: Write, earlier: Sequence[Write]) -> bool:
    """Whether an equal change (its image before may not be in the feed) has been passed."""
    equal = [at for at, one in enumerate(earlier) if _shown(one) == _shown(write)]
    if not equal:
        return False
    others = [one for one in earlier[equal[0] :] if _key(one) == _key(write)]
    tops = [max(one.second for one in earlier[: at + 1]) for at in (equal[0], len(earlier) - 1)]
    return max(one.second for one in others) > write.second or tops[0] != tops[1]


def _shown(write: Write) -> tuple[object, ...]:
    kind = (write.before is None, write.after is None)
    return (write.second, kind, _key(write), write.after or write.before)


def _key(write: Write) -> str:
    return (write.after or write.before or {})["id"]


def _sent_again(writes: Sequence[Write], data: st.DataObject) -> list[Write]:
    """What a connector sends that begins again up to two times, anywhere."""
    sent = list(writes)
    for _ in range(data.draw(st.integers(0, 2))):
        sent += writes[data.draw(st.integers(0, len(writes) - 1)) :] if writes else []
    return sent


def _rows_after(writes: Sequence[Write]) -> dict[str, Values]:
    """The rows that are there after all writes, by their keys."""
    truth = {_key(write): write.after for write in writes}
    return {key: image for key, image in truth.items() if image is not None}


@given(st.sampled_from(sorted(WRITERS)), clocks_that_step_back(), st.data())
def test_a_clock_that_steps_back_hides_no_change(
    feed: str, writes: Sequence[Write], data: st.DataObject
) -> None:
    """Nor does a connector that begins again anywhere, and silver cuts the messages anywhere."""
    topic = Topic(feed)
    sent, at = _sent_again(writes, data), len(writes)
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=2))), len(sent)]
    kinds = [kind for n in range(len(cuts) - 1) for kind in topic.take(sent[cuts[n] : cuts[n + 1]])]
    assert kinds[:at] == ["row"] * at
    assert topic.replica() == _rows_after(writes)


@st.composite
def histories(draw: st.DrawFn) -> list[Write]:
    """What happens to two rows, in the order of time: often several changes in a second."""
    second, rows, found = 0, dict[str, Values | None](), list[Write]()
    for _ in range(draw(st.integers(1, 10))):
        second += draw(st.sampled_from((0, 0, 0, 1)))
        key = draw(st.sampled_from("12"))
        values = [{"id": key, "v": value} for value in "AB"]
        before = rows.get(key)
        after = draw(st.sampled_from([image for image in (*values, None) if image != before]))
        found.append(Write(second, before, after))
        rows[key] = after
    return found


@given(st.sampled_from(sorted(WRITERS)), histories(), st.data())
def test_a_connector_that_begins_again_leaves_the_rows_as_they_are(
    feed: str, writes: Sequence[Write], data: st.DataObject
) -> None:
    """It begins anywhere, more than once, and silver cuts the messages anywhere."""
    topic = Topic(feed)
    sent, at = _sent_again(writes, data), len(writes)
    cut = data.draw(st.integers(0, len(sent)))
    kinds = topic.take(sent[:cut]) + topic.take(sent[cut:])
    assert topic.replica() == _rows_after(writes)
    assert kinds[:at] == ["row"] * at
    again = zip(kinds[at:], sent[at:], strict=True)
    assert {kind for kind, write in again if write.second < writes[-1].second} <= {"duplicate"}
