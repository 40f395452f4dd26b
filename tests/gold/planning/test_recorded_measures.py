"""What silver records of a batch is what gold measures of its changes; where it may not be, gold measures."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from framework.config.tables import TableSettings
from framework.contracts.change_measures import (
    LONGEST_TEXT,
    ChangeMeasures,
    GroupMeasure,
    Width,
    joined_texts,
    measures_of_text,
    measures_text,
)
from framework.contracts.ddl_actions import AddColumn, DropColumn, TableName
from framework.lakehouse.table_reader import Query, Row, Value
from gold.changes.few_changes import FewMeasurements, row_changes
from gold.changes.profile import Progress, SchemaColumn, profile_of
from gold.planning.recorded_measures import (
    NotMeasured,
    recorded_measurements,
    recorded_schemas,
    with_recorded,
)
from gold.planning.table_state import State, TableState
from gold.planning.task import RecordedBatch, Task
from gold.schema.lineage import Lineage, Segment
from silver.changes.change_measures import measures_by_table
from silver.changes.staged_rows import STAGED, staged_batch

ITEM = TableName("shop", None, "item")
ADDED = AddColumn("x", "int", "int")
LINEAGE = Lineage(ITEM, (Segment(ITEM, "", None),))
SCHEMAS: Mapping[str, tuple[SchemaColumn, ...]] = {
    "declared": (SchemaColumn("id", "int", "int(11)", None), SchemaColumn("n", "bigint", "bigint", None)),
    "undeclared": (SchemaColumn("id", None, None, "number"), SchemaColumn("n", None, None, "null,number")),
    "texts": (SchemaColumn("id", "int", "int(11)", None), SchemaColumn("n", "string", "text", None)),
    "nulls": (SchemaColumn("id", None, None, "number"), SchemaColumn("n", None, None, "null")),
    "decimal": (SchemaColumn("id", "int", "int(11)", None), SchemaColumn("n", "decimal(4,1)", "n", None)),
}
WHOLE = ["0", "5", "12", "-250", "9223372036854775807", "-9223372036854775808", None]
ANY = ["-0", "007", "0x10", "+5", "1.50", "-0.001", "00.0", "1e5", "12\n", "", "٣", " 7", "9" * 38,
       "-" + "9" * 39, "1." + "3" * 38, "text", None, *WHOLE]  # fmt: skip
ENDS = ("", ".011.015", ".010.016", ".011.015.010.016", ".x.1")


def change(source: random.Random, number: int, texts: Sequence[str | None]) -> dict[str, Any]:
    """A decoded row of any table and kind."""

    def image() -> dict[str, str | None] | None:
        if source.random() < 0.2:
            return None
        return {name: source.choice(texts) for name in ("id", "n") if source.random() < 0.9}

    schema = source.choice(("declared", "undeclared"))
    row = dict.fromkeys(STAGED.names)
    return row | {
        "change_id": str(number), "source": source.choice(("feed", "feed", "other")), "format": "canal",
        "kind": source.choice(("row", "row", "row", "heartbeat")),
        "op": source.choice(("insert", "update", "update", "delete", "read")),
        "database": "shop", "table": source.choice(("item", "item", "order")),
        "sequence": f"011.011.01{source.randrange(1, 9)}" + source.choice(ENDS),
        "event_time": source.choice((None, 1_700_000_000_000_000 + number)),
        "keys": source.choice((["id"], ["id"], ["id", "n"], [], [""], None)),
        "before": image(), "after": image(), "partial": source.choice((None, False, True)),
        "schema_id": schema,
    }  # fmt: skip


def columns_text(schema: str) -> str:
    return json.dumps([[c.name, c.type, c.declared, c.token] for c in SCHEMAS[schema]])


def recorded_of(batches: Sequence[pa.RecordBatch], batch: int = 0) -> tuple[RecordedBatch, ...]:
    """What the tasks of silver record of the table `item` in these Arrow batches."""
    texts = []
    for one in batches:
        found = measures_by_table(one)
        if ("feed", "shop", None, "item", None) in found:
            texts.append(measures_text(found["feed", "shop", None, "item", None]))
    return (RecordedBatch(batch, ITEM, measures_of_text(joined_texts(texts))),)


def task(*recorded: RecordedBatch, lineage: Lineage = LINEAGE, state: TableState | None = None) -> Task:
    state = state or TableState("feed", ITEM, State.ACTIVE)
    return Task("feed", lineage, state, TableSettings(), top=10_000, newest=0, rows=0, recorded=recorded)


@pytest.mark.parametrize("texts", [WHOLE, ANY], ids=["whole numbers", "any texts"])
@pytest.mark.parametrize("seed", range(5))
def test_recorded_measures_give_the_profile_of_the_changes(seed: int, texts: Sequence[str | None]) -> None:
    source = random.Random(seed)
    rows = [change(source, number, texts) for number in range(400)]
    ends = sorted(source.sample(range(1, 400), 3))
    parts = [rows[start:end] for start, end in zip((0, *ends), (*ends, len(rows)), strict=True)]
    for part in parts:  # the first row of each schema in an Arrow batch has its columns
        for row in {row["schema_id"]: row for row in reversed(part)}.values():
            row["columns"] = columns_text(row["schema_id"])
    batches = [staged_batch(part) for part in parts]
    applied = Progress()
    found = recorded_measurements(task(*recorded_of(batches)), LINEAGE, -1, applied, SCHEMAS)
    assert found is not None
    table = pa.Table.from_batches(batches).append_column("batch", pa.array([0] * len(rows), pa.int64()))
    few = row_changes(table, "feed", LINEAGE)
    assert len(few) > 50
    assert profile_of(found, LINEAGE, SCHEMAS) == profile_of(FewMeasurements(few, applied), LINEAGE, SCHEMAS)


def test_a_column_that_is_a_decimal_in_some_rows_is_measured_by_gold_itself() -> None:
    """Where these rows came in an Arrow batch of their own, silver has not measured it there."""
    mixed = batch(0, group(schema="decimal"), group(schema="undeclared"), n=Width(1, 0, 0, 5), id=Width(1))
    found = recorded_measurements(task(mixed), LINEAGE, -1, Progress(), SCHEMAS)
    assert found is not None
    assert list(found.widths({"id"})) == [(0, "id")]
    with pytest.raises(NotMeasured):
        found.widths({"n"})


def test_keys_whose_names_have_a_separator_are_not_measured() -> None:
    row = change(random.Random(1), 1, WHOLE) | {
        "kind": "row",
        "source": "feed",
        "table": "item",
        "keys": ["a\x1fb"],
    }
    assert measures_by_table(staged_batch([row])) == {("feed", "shop", None, "item", None): None}


def test_a_change_without_a_position_is_not_measured() -> None:
    row = change(random.Random(1), 1, WHOLE) | {
        "kind": "row",
        "source": "feed",
        "table": "item",
        "sequence": None,
    }
    assert measures_by_table(staged_batch([row])) == {("feed", "shop", None, "item", None): None}


def test_texts_that_are_too_long_are_left_out() -> None:
    wide = ChangeMeasures((group(),), {f"column {n}": Width(1, 0, 0, 1) for n in range(LONGEST_TEXT // 20)})
    assert measures_text(wide) == ""
    assert joined_texts([measures_text(ChangeMeasures((group(),))), ""]) == ""
    assert [measures_of_text(text) for text in (None, "", "{}", '[[["s"]],{}]')] == [None] * 4


def group(low: str = "5", high: str = "7", schema: str | None = "declared", rows: int = 3) -> GroupMeasure:
    return GroupMeasure(schema, ("id",), "insert", rows, low, high, 1_000_000)


def batch(number: int = 0, *groups: GroupMeasure, **widths: Width) -> RecordedBatch:
    return RecordedBatch(number, ITEM, ChangeMeasures(groups or (group(),), widths))


def test_a_batch_without_a_statement_inside_is_enough_for_the_plan() -> None:
    lineage = replace(LINEAGE, column_changes=(("2", ADDED), ("9", AddColumn("y", "int", "int"))))
    found = recorded_measurements(task(batch(0), batch(1)), lineage, -1, Progress(), SCHEMAS)
    assert found is not None
    profile = profile_of(replace(found, batches=()), lineage, SCHEMAS)
    assert (profile.rows, profile.ops, profile.late) == (6, {"insert": 6}, 0)
    assert {naming for naming, _ in profile.evidence} == {1}


@pytest.mark.parametrize(
    ("given", "applied"),
    [
        (task(batch(0), RecordedBatch(1, ITEM, None)), Progress()),
        (task(batch(0)), Progress(-1, "5")),
        (task(batch(0), lineage=replace(LINEAGE, column_changes=(("6", ADDED),))), Progress()),
        (task(batch(0), lineage=replace(LINEAGE, column_changes=(("1", DropColumn("x")),))), Progress()),
        (task(batch(0), lineage=replace(LINEAGE, segments=(Segment(ITEM, "6", None),))), Progress()),
        (task(batch(0), lineage=replace(LINEAGE, segments=(Segment(ITEM, "", "7"),))), Progress()),
        (replace(task(batch(0)), repair="r1"), Progress()),
        (task(batch(7), state=TableState("feed", ITEM, State.ACTIVE, batch=6)), Progress(6)),
        (task(), Progress()),
    ],
    ids=["not recorded", "late", "statement inside", "column dropped", "begins outside", "ends outside",
         "repaired", "from the beginning", "nothing recorded"],
)  # fmt: skip
def test_where_the_record_may_not_be_what_silver_has_gold_measures_itself(
    given: Task, applied: Progress
) -> None:
    assert recorded_measurements(given, given.lineage, -1, applied, SCHEMAS) is None


def test_widths_of_a_column_that_was_not_measured_are_not_known() -> None:
    wide, texts = (
        batch(0, group(), id=Width(2), n=Width(3, 0, 0, 250)),
        batch(1, group(schema="texts"), id=Width(1)),
    )
    nulls = batch(2, group(schema="nulls"), id=Width(1))
    found = recorded_measurements(task(wide, nulls), LINEAGE, -1, Progress(), SCHEMAS)
    assert found is not None
    assert found.widths({"n"})[0, "n"].high == 250
    found = recorded_measurements(task(wide, texts), LINEAGE, -1, Progress(), SCHEMAS)
    assert found is not None
    with pytest.raises(NotMeasured):
        found.widths({"n"})


class Log:
    """`ops/batches` as a reader gives it."""

    own_location = staticmethod(lambda text: text)

    def __init__(self, *rows: Mapping[str, Any]) -> None:
        self._rows = rows
        self.since = -1

    def exists(self, table: str) -> bool:
        return True

    def rows(self, query: Query, **values: Value) -> Sequence[Row]:
        self.since = int(str(values["since"]))
        return self._rows


def counted(
    batch: int, rows: int = 3, measures: ChangeMeasures | None = None, **cells: Any
) -> dict[str, Any]:
    text = measures_text(measures or ChangeMeasures((group(),)))
    place = {"source": "feed", "database": "shop", "schema": None, "table": "item"}
    return {**place, "batch": batch, "reason": None, "rows": rows, "measures": text, **cells}


@pytest.mark.parametrize(
    ("rows", "is_known"),
    [
        ([counted(3)], True),
        ([counted(3), counted(3, reason="seeded")], True),
        ([counted(3), counted(3, -1, measures=None) | {"measures": None}], False),
        ([counted(3, 2)], False),
        ([counted(3), counted(3)], False),
        ([counted(3) | {"measures": None}], False),
    ],
    ids=[
        "one",
        "with rows of a dump",
        "a row was taken away",
        "fewer rows",
        "counted twice",
        "an older release",
    ],
)
def test_only_records_of_all_changes_of_a_batch_count(rows: list[dict[str, Any]], is_known: bool) -> None:
    waiting = replace(task(), first_new=3)
    (found,) = with_recorded(Log(*rows), [waiting])  # type: ignore[arg-type]
    assert all(one.measures is not None for one in found.recorded) is is_known
    assert len(found.recorded) == len(rows)


def test_batches_of_a_parked_table_are_not_read() -> None:
    parked = replace(task(state=TableState("feed", ITEM, State.PARKED, batch=0)), first_new=1)
    log = Log(counted(90))
    found = with_recorded(log, [parked, replace(task(), first_new=90)])  # type: ignore[arg-type]
    assert log.since == 89
    assert [len(one.recorded) for one in found] == [0, 1]


def test_the_schemas_of_recorded_changes_are_known_before_any_change_is_read() -> None:
    source = random.Random(0)
    rows = [change(source, number, WHOLE) for number in range(50)]
    for row in rows:
        row["columns"] = columns_text(row["schema_id"])
    recorded = recorded_of([staged_batch(rows)])
    unmeasured = RecordedBatch(1, ITEM, None)
    assert recorded_schemas([task(*recorded, unmeasured), task()]) == {"declared", "undeclared"}
    assert recorded_schemas([task(unmeasured)]) == set()
