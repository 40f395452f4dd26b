"""Plain changes lead to the rows, and show the faults, that the general way finds."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes
from framework.spark.session import is_connect
from gold.changes.effects import effects
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile
from gold.schema.columns import TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.writing.bad_values import is_faulty
from gold.writing.key_bounds import as_sql, measured_bounds
from gold.writing.plain_changes import Facts, plain_cells, plain_rows
from gold.writing.replica import newest_states, typed_rows
from tests.plans import plan_text, sizes

SCHEMA = (
    "sequence string, event_time timestamp, change_id string, transaction_id string, op string, "
    "partial boolean, half string, before map<string,string>, after map<string,string>"
)
TYPES = {"id": "int", "part": "string", "n": "decimal(4,1)", "at": "timestamp_ntz", "text": "string"}
NOON = datetime(2026, 1, 10, 12)


def layout(keys: tuple[str, ...]) -> Layout:
    return Layout(tuple(TableColumn(name, kind, None) for name, kind in TYPES.items()), keys, SYSTEM_COLUMNS)


def image(source: random.Random, key: dict[str, str | None], *, is_wild: bool) -> dict[str, str | None]:
    cells: dict[str, str | None] = {
        **key,
        "n": source.choice(["1.5", "-7", None]),
        "at": source.choice(["2024-02-29T10:00:00", None]),
        "text": source.choice(["a", "", None]),
    }
    if is_wild:
        name = source.choice(list(TYPES))
        cells[name] = source.choice(["x", None, "99999.99", "2024-02-29T10:00:00.1234567", "3.0"])
        if source.random() < 0.3:
            del cells[name]
    return cells


def drawn(source: random.Random, number: int, *, is_wild: bool) -> tuple[Any, ...]:
    """A change that is whole and keeps its key; a wild one may lack or break cells, also those of the key."""
    key: dict[str, str | None] = {"id": str(source.randint(1, 6)), "part": source.choice(["a", "b"])}
    op = source.choice(["insert", "read", "update", "delete"])
    wild = is_wild and source.random() < 0.4
    first, second = (image(source, key, is_wild=wild) for _ in range(2))
    if not wild:
        first |= key
    before = first if op in ("update", "delete") and source.random() < 0.7 else None
    after = None if op == "delete" and (before is not None or not is_wild) else second
    if op == "delete" and before is None and after is None:
        before = first
    if op == "delete" and is_wild and source.random() < 0.2:
        before, after = {"text": "no key"}, second
    if op == "update" and before is not None:
        before = {**before, **{name: second[name] for name in key if name in second}}
        before = {name: cell for name, cell in before.items() if name not in key or name in second}
    half = "before" if op == "update" and before is not None and source.random() < 0.1 else None
    place = f"{number // 2:04d}"  # some are at the same place
    time = source.choice([None, NOON + timedelta(seconds=number)])
    return (place, time, f"id{number}", None, op, None, half, before, None if half else after)


def general_rows(rows: DataFrame, mine: Layout, policy: MergePolicy) -> DataFrame:
    states = newest_states(effects(rows, mine.key_columns), mine, Profile(), policy)
    return typed_rows(states.withColumn("is_forced", F.lit(False)), mine, "is_forced")


def rows_of(frame: DataFrame) -> Counter[str]:
    """The rows; the cells of a delete are never read."""
    found = []
    for row in frame.select(*sorted(frame.columns)).collect():
        cells = row.asDict()
        if not cells["is_upsert"]:
            cells = {name: cell for name, cell in cells.items() if name[0] != "c"}
        found.append(str(cells))
    return Counter(found)


@pytest.mark.parametrize(
    "keys", [("id",), ("part", "id"), ("n",), ("at",)], ids=["one", "two", "decimal", "time"]
)
@pytest.mark.parametrize(
    "policy",
    [
        MergePolicy(Deletes.HARD, None, has_partials=False),
        MergePolicy(Deletes.IGNORE, None, has_partials=False),
        MergePolicy(Deletes.HARD, "0020", has_partials=False),
    ],
    ids=["hard", "ignore", "truncated"],
)
def test_rows_and_faults_are_those_of_the_general_way(
    spark: SparkSession, keys: tuple[str, ...], policy: MergePolicy
) -> None:
    source, mine = random.Random(str((keys, policy))), layout(keys)
    changes = [drawn(source, number, is_wild=number % 3 == 0) for number in range(300)]
    rows = spark.createDataFrame(changes, SCHEMA)
    if {"n", "at"} & set(keys):
        rows = rows.where(F.expr("op != 'update' OR before IS NULL OR after IS NULL"))
    rows = rows.localCheckpoint() if not is_connect(spark) else rows
    cells = plain_cells(rows, mine)
    assert rows_of(plain_rows(cells, mine, policy)) == rows_of(general_rows(rows, mine, policy))
    faulty = is_faulty(mine)
    assert faulty is not None
    expected = {row[0] for row in rows.where(faulty).select("change_id").collect()}
    found = {row[0] for row in cells.where("is_faulty").select("change_id").collect()}
    assert expected <= found
    assert expected
    # a key that is in the image after a delete alone is looked at, too
    others = rows.where(F.col("change_id").isin(*(found - expected))).collect()
    assert all(row["op"] == "delete" for row in others)


def test_what_is_seen_on_the_way_is_what_the_changes_show(spark: SparkSession) -> None:
    if is_connect(spark):
        pytest.skip("nothing is seen on Spark Connect")
    mine, policy = layout(("part", "id")), MergePolicy(Deletes.HARD, None, has_partials=False)
    source = random.Random(7)
    good = [drawn(source, number, is_wild=False) for number in range(40)]
    bad = ("0050", None, "bad", None, "insert", None, None, None, {"id": "1", "part": "b", "n": "x"})
    lost = ("0051", None, "lost", None, "insert", None, None, None, {"id": "y", "part": "zz"})
    null = ("0052", None, "null", None, "insert", None, None, None, {"id": None, "part": "a"})
    for more, is_any, has_bounds in (([], False, True), ([bad, lost], True, True), ([null], False, False)):
        facts = Facts(plain_cells(spark.createDataFrame([*good, *more], SCHEMA), mine), mine)
        computed = plain_rows(facts.cells, mine, policy)
        computed.localCheckpoint()
        seen = facts.seen(computed)
        assert seen is not None
        assert (seen["changes"], seen["is_faulty"]) == (40 + len(more), is_any)
        bounds = measured_bounds(mine.key_columns, seen)
        assert bounds == ({"part": as_sql("a", "b"), "id": ("1", "6")} if has_bounds else None)


def test_all_changes_fit_only_where_each_was_seen(spark: SparkSession) -> None:
    if is_connect(spark):
        pytest.skip("nothing is seen on Spark Connect")
    mine, policy = layout(("part", "id")), MergePolicy(Deletes.HARD, None, has_partials=False)
    good = [drawn(random.Random(7), number, is_wild=False) for number in range(40)]
    bad = ("0050", None, "bad", None, "insert", None, None, None, {"id": "1", "part": "b", "n": "x"})
    for changes, count, expected in ((good, 40, True), (good, 41, False), ([*good, bad], 41, False)):
        facts = Facts(plain_cells(spark.createDataFrame(changes, SCHEMA), mine), mine)
        computed = plain_rows(facts.cells, mine, policy)
        assert not facts.all_fit(computed, count)  # nobody has computed them
        computed.localCheckpoint()
        assert facts.all_fit(computed, count) is expected


def test_columns_make_plans_longer_in_proportion(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], SCHEMA)

    def planned(count: int) -> DataFrame:
        columns = tuple(TableColumn(f"c{n}", "int", None) for n in range(count))
        mine = Layout(columns, ("c0", "c1"), dict(SYSTEM_COLUMNS))
        rules = MergePolicy(Deletes.HARD, None, has_partials=False)
        return plain_rows(plain_cells(rows, mine), mine, rules)

    some, many = sizes(planned, (20, 160))
    assert many < 10 * some


def test_a_number_of_any_type_makes_the_plan_little_longer(spark: SparkSession) -> None:
    """The JVM does not compile long methods: one long test of a cell makes all cells several times slower."""

    def planned(kind: str) -> DataFrame:
        columns = (TableColumn("id", "int", None), TableColumn("n", kind, None))
        return plain_cells(spark.createDataFrame([], SCHEMA), Layout(columns, ("id",), dict(SYSTEM_COLUMNS)))

    whole, real = (len(plan_text(planned(kind))) for kind in ("int", "double"))
    assert real < 1.5 * whole
