"""The keys of few new changes are compared in this process as Spark compares them, or not at all."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from framework.config.tables import Deletes, TableSettings
from framework.contracts.ddl_actions import AddColumn, RenameColumn, TableName
from framework.contracts.expectations import MeasurementContext, Rule
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.local_tables import DataFile, LocalTable, Mark
from gold.operations import key_comparison
from gold.operations.key_comparison import KeyRules
from gold.operations.many_keys import change_files, many_rows_as_implied
from gold.operations.new_keys import NotTold, rows_as_implied
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.columns import TableColumn
from gold.schema.lineage import Lineage, Segment

ITEM = TableName("shop", None, "item")
ONE_LIFE = Lineage(ITEM, (Segment(ITEM, "", None),))
ARROW = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "decimal(6,2)": pa.decimal128(6, 2),
    "date": pa.date32(),
}
Row = tuple[Any, str | None]
"""A row of the replica: its key and its sequence; a third value marks it as deleted."""


def change(sequence: str, op: str, key: object, batch: int = 5, **more: Any) -> dict[str, Any]:
    image = [("id", None if key is None else str(key)), ("name", "pen")]
    return {
        "change_id": sequence,
        "source": "feed",
        "batch": batch,
        "kind": "row",
        "op": op,
        "database": "shop",
        "table": "item",
        "sequence": sequence,
        "event_time": datetime(2026, 1, 1, tzinfo=UTC),
        "keys": ["id"],
        "before": image if op != "insert" else None,
        "after": image if op != "delete" else None,
    } | more


def changes_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    kinds = {"batch": pa.int64(), "event_time": pa.timestamp("us", "UTC"), "keys": pa.list_(pa.string())}
    kinds |= {"partial": pa.bool_()}
    kinds |= dict.fromkeys(("before", "after"), pa.map_(pa.string(), pa.string()))
    names = (
        "change_id", "source", "batch", "kind", "op", "database", "schema", "table", "sequence",
        "event_time", "keys", "before", "after", "partial", "schema_id", "half", "transaction_id",
    )  # fmt: skip
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist([dict(row) for row in rows], schema)


class Compared:
    """A table `shop.item` with the key `id`: its replica is a file in a folder."""

    def __init__(
        self, folder: Path, kind: str = "bigint", lineage: Lineage = ONE_LIFE, **settings: Any
    ) -> None:
        self.folder, self.kind = folder, kind
        columns = (TableColumn("id", kind, None), TableColumn("name", "string", None))
        self.state = TableState("feed", ITEM, State.ACTIVE, keys=("id",), columns=columns, batch=9)
        self.task = Task("feed", lineage, self.state, TableSettings(**settings), 9, 9, 1)

    def replica(self, rows: Sequence[Sequence[Any]]) -> LocalTable:
        have_marks = any(len(row) > 2 for row in rows)
        columns = {"id": pa.array([row[0] for row in rows], ARROW[self.kind])}
        columns["_cdc_sequence"] = pa.array([row[1] for row in rows], pa.string())
        if have_marks:
            columns["_cdc_deleted"] = pa.array([row[2] for row in rows], pa.bool_())
        place = self.folder / "rows.parquet"
        parquet.write_table(pa.table(columns), place)
        fields = [{"name": name} for name in columns]
        return LocalTable("", Mark("one", 1), {"fields": fields}, (DataFile(place, len(rows), 1),))

    def told_of_many(
        self, changes: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Any]], since: int = -1
    ) -> int | None:
        """The same column by column, from a file with two row groups; of all keys without `since`."""
        place, table = self.folder / "changes.parquet", changes_of(changes)
        parquet.write_table(table, place, row_group_size=max((table.num_rows + 1) // 2, 1))
        files = change_files([DataFile(place, table.num_rows, 1)])
        assert files is not None
        try:
            return many_rows_as_implied(self.task, self.state, files, since, self.replica(rows))
        except NotTold:
            return None

    def told(
        self, changes: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Any]], since: int = 0
    ) -> int | None:
        """The number of rows that changed keys have; None where Spark must look."""
        try:
            return rows_as_implied(self.task, self.state, changes_of(changes), since, self.replica(rows))
        except NotTold:
            return None


@pytest.fixture
def item(tmp_path: Path) -> Compared:
    return Compared(tmp_path)


def test_a_key_with_the_row_of_its_newest_change_is_as_implied(item: Compared) -> None:
    changes = [change("1", "insert", 7), change("3", "update", 7), change("2", "update", 7)]
    assert item.told(changes, [(7, "3"), (8, "1")]) == 1
    assert item.told(changes, [(7, "4")]) == 1


@pytest.mark.parametrize("rows", [[], [(8, "3")], [(7, "2")], [(7, "3"), (7, "3")], [(7, None)]], ids=repr)
def test_a_key_that_is_missing_older_doubled_or_unknown_is_not_told(item: Compared, rows: list[Row]) -> None:
    assert item.told([change("3", "insert", 7)], rows) is None


def test_a_deleted_key_has_no_row_but_a_newer_one(item: Compared) -> None:
    gone = [change("1", "insert", 7), change("2", "delete", 7)]
    assert item.told(gone, [(8, "1")]) == 0
    assert item.told(gone, [(7, "2")]) is None
    assert item.told(gone, [(7, "3")]) == 1


def test_changes_of_other_batches_tables_and_sources_do_not_count(item: Compared) -> None:
    others = [
        change("1", "insert", 1, batch=0),
        change("1", "insert", 2, batch=10),
        change("1", "insert", 3, table="line"),
        change("1", "insert", 4, source="other"),
        change("1", "insert", 5, kind="duplicate"),
        change("1", "insert", 6, database="second", half="after"),
    ]
    assert item.told(others, [(9, "1")]) == 0


def test_a_key_that_is_null_or_changes_and_halves_of_updates_are_not_told(item: Compared) -> None:
    rows = [(7, "3"), (8, "3")]
    assert item.told([change("3", "insert", None)], [*rows, (None, "3")]) is None
    assert item.told([change("3", "update", 7, before=[("id", "8")])], rows) is None
    assert item.told([change("3", "update", 7, half="after")], rows) is None
    assert item.told([change("3", "merge", 7)], rows) is None


def test_two_changes_of_one_position_are_told_if_both_leave_the_same(item: Compared) -> None:
    assert item.told([change("3", "insert", 7), change("3", "update", 7)], [(7, "3")]) == 1
    assert item.told([change("3", "insert", 7), change("3", "delete", 7)], [(7, "3")]) is None


def test_a_renamed_key_is_not_told_and_other_renamed_columns_are(tmp_path: Path) -> None:
    for old, told in (("no", None), ("title", 1)):
        new = "id" if old == "no" else "name"
        lineage = Lineage(ITEM, (Segment(ITEM, "", None),), (("2", RenameColumn(old, new)),))
        found = Compared(tmp_path, lineage=lineage).told([change("3", "insert", 7)], [(7, "3")])
        assert (old, found) == (old, told)


def test_a_default_of_a_key_that_was_added_later_is_not_told(tmp_path: Path) -> None:
    lineage = Lineage(
        ITEM, (Segment(ITEM, "", None),), (("2", AddColumn("id", "bigint", "bigint", default="0")),)
    )
    assert Compared(tmp_path, lineage=lineage).told([change("3", "insert", 7)], [(7, "3")]) is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bigint", "7.00", 7), ("bigint", "-9223372036854775808", -(2**63)), ("string", "07", "07"),
        ("string", "", ""), ("decimal(6,2)", "1.5", "1.50"), ("date", "2026-02-28", "2026-02-28"),
    ],
)  # fmt: skip
def test_texts_are_compared_as_values_of_the_keys_type(
    tmp_path: Path, kind: str, text: str, value: Any
) -> None:
    own = pa.array([value]).cast(ARROW[kind]).to_pylist()[0]
    assert Compared(tmp_path, kind).told([change("3", "insert", text)], [(own, "3")]) == 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [("bigint", "9223372036854775808"), ("bigint", "1e5"), ("decimal(6,2)", "1.234"), ("date", "2026-02-30")],
)
def test_a_key_that_does_not_fit_its_type_has_no_effect(tmp_path: Path, kind: str, text: str) -> None:
    assert Compared(tmp_path, kind).told([change("3", "insert", text)], []) == 0


def _drawn(source: random.Random, number: int) -> dict[str, Any]:
    op = source.choice(("insert", "update", "update", "delete", "read"))
    key = source.choice((1, 2, 3, 4, 5, "6.0", "x"))
    sequence = f"{source.randrange(1, 7)}"
    more: dict[str, Any] = {"change_id": str(number), "partial": source.choice((None, True))}
    if source.random() < 0.15:
        more["after" if op != "delete" else "before"] = [("name", "ink")]
    if source.random() < 0.05:
        op, more = "update", more | {"before": [("id", "1")], "after": [("id", "2")]}
    return change(sequence, op, key, source.randrange(10), **more)


def test_a_row_that_no_change_put_there_is_not_told_where_all_changes_are_known(item: Compared) -> None:
    changes = [change("1", "insert", 7), change("2", "insert", 8), change("3", "delete", 8)]
    assert item.told(changes, [(7, "1")], since=-1) == 1
    assert item.told(changes, [(7, "1"), (9, "1")]) == 1
    assert item.told(changes, [(7, "1"), (9, "1")], since=-1) is None
    assert item.told([], [(9, "1")], since=-1) is None
    assert item.told([], [], since=-1) == 0


def test_all_keys_are_told_column_by_column(item: Compared) -> None:
    changes = [change("1", "insert", 7), change("3", "update", 7), change("2", "update", 7)]
    others = [
        change("9", "insert", 1, table="line"),
        change("9", "insert", 1, source="other"),
        change("9", "insert", 1, database="other"),
        change("9", "insert", 1, schema="dbo"),
        change("9", "insert", 1, batch=10),
        change("9", "insert", 1, kind="duplicate"),
    ]
    both = [*changes, change("1", "insert", 8), change("2", "delete", 8), *others]
    for rows in ([(7, "3")], [(7, "4")], [(7, "3"), (8, "2", True), (9, "1", True)]):
        assert item.told_of_many(both, [(*row, False)[:3] for row in rows]) == 1
    for rows in ([], [(8, "3")], [(7, "2")], [(7, "3"), (7, "3")], [(7, None)], [(7, "3"), (8, "9")]):
        assert item.told_of_many(both, rows) is None
    assert item.told_of_many([], []) is None
    assert item.told_of_many(others, []) is None


def test_many_new_changes_are_compared_with_the_keys_that_they_touch(item: Compared) -> None:
    changes = [change("9", "update", 5, batch=4), change("1", "insert", 7), change("3", "update", 7)]
    changes += [change("1", "insert", 8), change("2", "delete", 8)]
    for rows in ([(7, "3")], [(7, "4"), (6, "1"), (5, "1")], [(7, "3"), (8, "1", True), (None, "1", False)]):
        assert item.told_of_many(changes, [(*row, False)[:3] for row in rows], since=4) == 1
    for rows in ([], [(6, "1")], [(7, "2")], [(7, "3"), (7, "3")], [(7, None)], [(7, "3"), (8, "1")]):
        assert item.told_of_many(changes, rows, since=4) is None
    assert item.told_of_many(changes, [(6, "1")], since=5) == 0


@pytest.mark.parametrize(
    "changes",
    [
        [change("3", "insert", None)],
        [change("3", "insert", "7.00")],
        [change("3", "insert", "9223372036854775808")],
        [change("3", "insert", 7, half="after")],
        [change("3", "merge", 7)],
        [change("3", "insert", 7, after=[("name", "ink")])],
        [change("3", "update", 7, before=[("id", "8")])],
        [change("3", "insert", 7), change("3", "delete", 7)],
    ],
)
def test_what_is_not_plain_is_left_to_spark(item: Compared, changes: list[dict[str, Any]]) -> None:
    rows = [(7, "3")]
    assert item.told_of_many([change("3", "insert", 7)], rows) == 1
    assert item.told_of_many([change("1", "insert", 7), *changes], rows) is None


@pytest.mark.parametrize(("kind", "told"), [("string", 1), ("decimal(6,2)", None), ("date", None)])
def test_only_some_types_of_keys_are_told_column_by_column(
    tmp_path: Path, kind: str, told: int | None
) -> None:
    text = "2026-02-28" if kind == "date" else "7.00"
    own = pa.array([text]).cast(ARROW[kind]).to_pylist()[0]
    assert Compared(tmp_path, kind).told_of_many([change("3", "insert", text)], [(own, "3")]) == told


@pytest.mark.slow
@pytest.mark.parametrize("since", [2, -1])
@pytest.mark.parametrize("deletes", list(Deletes))
def test_what_is_told_is_what_spark_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes: Deletes, since: int
) -> None:
    """Drawn changes and rows: where this process finds nothing, Spark finds nothing in as many rows."""
    rule = Rule("implied_keys", "implied_keys")
    rules, context = KeyRules(None, None, rule), MeasurementContext(spark, is_small=True)
    told = columns = 0
    for seed in range(12):
        source = random.Random(f"{deletes} {seed}")
        lineage = source.choice((ONE_LIFE, Lineage(ITEM, ONE_LIFE.segments, truncates=(("3", "t"),))))
        item = Compared(tmp_path, deletes=deletes, lineage=lineage)
        changes = [_drawn(source, number) for number in range(source.randrange(1, 6))]
        rows = _replica(item, changes, source)
        found = item.told(changes, rows, since=since)
        if (of_many := item.told_of_many(changes, rows, since=since)) is not None:
            assert found in (None, of_many)
            found = of_many
            columns += 1
        if found is None:
            continue
        told += 1
        stored = spark.createDataFrame(
            [(*row, False)[:3] for row in rows], "id bigint, _cdc_sequence string, _cdc_deleted boolean"
        )
        monkeypatch.setattr(key_comparison, "read_table", lambda *_, stored=stored: stored)
        lines = [{**dict.fromkeys(CHANGES.names), **one} for one in changes]
        for one in lines:
            one |= {side: None if one[side] is None else dict(one[side]) for side in ("before", "after")}
        frame = spark.createDataFrame(lines, CHANGES).where(f"batch > {since} AND batch <= 9")
        comparison = key_comparison._Comparison(item.task, item.state, rules, since, frame)
        counts = comparison.counts(context).collect()[0][0]
        assert [int(count or 0) for count in counts] == [found, 0, 0, 0], json.dumps(
            [changes, rows], default=str
        )
    assert told > 3
    assert columns > 0


def _replica(
    item: Compared, changes: Sequence[Mapping[str, Any]], source: random.Random
) -> list[tuple[Any, ...]]:
    """Rows of a replica: mostly those that the changes imply, in their order, sometimes others."""
    del item
    found: dict[int, str] = {}
    for one in sorted(changes, key=lambda c: (c["sequence"], c["op"] == "delete")):
        image = dict(one["before"] or one["after"]) if one["op"] == "delete" else dict(one["after"])
        key = image.get("id")
        if key in (None, "x"):
            continue
        if one["op"] == "delete":
            found.pop(int(float(key)), None)
        else:
            found[int(float(key))] = one["sequence"]
    if source.random() < 0.3:
        found[source.randrange(1, 6)] = source.choice("1369")
    return list(found.items())


@pytest.mark.parametrize(
    ("applied", "since", "deletes", "expected"),
    [
        (4, 2, Deletes.HARD, -1),
        (4, 2, Deletes.SOFT, -1),
        (4, 3, Deletes.HARD, 3),
        (2, 1, Deletes.HARD, 1),
        (4, 2, Deletes.IGNORE, 2),
    ],
)
def test_all_keys_are_compared_once_a_truncate_was_applied(
    applied: int, since: int, deletes: Deletes, expected: int
) -> None:
    """It removes rows whose keys no new change names."""
    lineage = Lineage(ITEM, (Segment(ITEM, "", None),), truncates=(("011.3", "a"), ("011.7", "b")))
    times = {"011.3": (None, 1), "011.7": (None, 3)}
    state = TableState("feed", ITEM, State.ACTIVE, batch=applied)
    settings = TableSettings(deletes=deletes)
    task = Task("feed", lineage, state, settings, 9, 9, 1, truncate_times=times)
    assert key_comparison.since_truncates(task, state, since) == expected
