"""The rows that are made in this process are those that Spark makes of the same changes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes, TableSettings
from framework.contracts.ddl_actions import TableName
from framework.spark.arrow_schemas import arrow_schema
from framework.spark.local_frame import arrow_frame, parsed
from gold.changes.few_changes import FewChange
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile
from gold.planning.plan import Plan
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.casting import typed
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.schema.lineage import Lineage, Segment
from gold.writing.certain_fit import certainly_fits
from gold.writing.certain_rows import cells, certain_rows
from gold.writing.plain_changes import plain_cells, plain_rows
from tests.gold.texts import KINDS, drawn_text

TABLE = TableName("shop", None, "item")
TYPES = {
    "id": "bigint", "part": "string", "n": "decimal(6,2)", "day": "date", "at": "timestamp_ntz",
    "moment": "timestamp", "real": "double", "small": "float", "is_on": "boolean", "raw": "binary",
}  # fmt: skip
VALUES = {
    "id": ("1", "2", "-3"), "part": ("a", "b", "", "é", "1"), "n": ("1.5", "-7", "0", "12.25"),
    "day": ("2024-02-29", "0001-01-01"), "at": ("2024-02-29T10:00:00", "2024-02-29T10:00:00.25"),
    "moment": ("2024-02-29T10:00:00Z", "9999-12-31T23:59:59.999999Z"), "real": ("0.1", "-0", "12"),
    "small": ("0.1", "16777216"), "is_on": ("true", "false"), "raw": ("AQI=", ""),
}  # fmt: skip
HARD = MergePolicy(Deletes.HARD, None, has_partials=False)


def plan(keys: tuple[str, ...], *namings: ColumnNaming) -> Plan:
    layout = Layout(
        tuple(TableColumn(name, kind, None) for name, kind in TYPES.items()), keys, dict(SYSTEM_COLUMNS)
    )
    lineage = Lineage(TABLE, (Segment(TABLE, "", None),))
    task = Task("feed", lineage, TableState("feed", TABLE, State.ACTIVE), TableSettings(), 1, 1, 1, 1)
    profile = Profile(rows=1)
    return Plan(task, layout, layout, profile, profile, namings or (ColumnNaming(),), None, "", {}, 0)


def drawn(source: random.Random, number: int) -> FewChange:
    image: dict[str, str | None] = {
        name: source.choice([None, *texts]) if name not in ("id", "part") else source.choice(texts)
        for name, texts in VALUES.items()
    }
    for name in source.sample(["real", "small", "is_on"], source.randint(0, 2)):
        del image[name]
    op = source.choice(["insert", "read", "update", "delete"])
    is_before = op == "delete" and source.random() < 0.5
    time = source.choice([None, datetime(2026, 1, 10, 12, 0, 0, number)])
    return FewChange(
        f"id{source.randrange(10**6):06d}",
        0,
        0,
        op,
        f"{number // 3:04d}",  # some are at the same place
        time,
        ("id",),
        image if is_before else None,
        None if is_before else image,
        False,
        source.random() < 0.3,
        None,
    )


def frame_of(spark: SparkSession, changes: list[FewChange]) -> DataFrame:
    """The changes as rows of silver."""
    kind = parsed(
        spark,
        "sequence string, event_time timestamp, change_id string, op string, half string,"
        " before map<string,string>, after map<string,string>",
    )
    rows = [
        {
            "sequence": c.sequence,
            "event_time": c.event_time,
            "change_id": c.change_id,
            "op": c.op,
            "half": "before" if c.is_half else None,
            "before": None if c.before is None else list(c.before.items()),
            "after": None if c.after is None else list(c.after.items()),
        }
        for c in changes
    ]
    return arrow_frame(spark, pa.Table.from_pylist(rows, arrow_schema(kind)), kind)


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(str(row.asDict()) for row in frame.select(*sorted(frame.columns)).collect())


@pytest.mark.parametrize(
    "keys", [("id",), ("part", "id"), ("n",), ("at",), ("day",), ("raw", "is_on")], ids="-".join
)
@pytest.mark.parametrize(
    "policy",
    [HARD, replace(HARD, deletes=Deletes.IGNORE), replace(HARD, truncated_at="0010")],
    ids=["hard", "ignore", "truncated"],
)
def test_rows_are_those_that_spark_makes(
    spark: SparkSession, keys: tuple[str, ...], policy: MergePolicy
) -> None:
    source, mine = random.Random(str((keys, policy))), plan(keys)
    changes = [drawn(source, number) for number in range(90)]
    if "is_on" in keys:
        changes = [c for c in changes if "is_on" in (c.image or {})]
    found = certain_rows(spark, changes, mine, policy)
    assert found is not None
    expected = plain_rows(plain_cells(frame_of(spark, changes), mine.layout), mine.layout, policy)
    flags = set[str]() if expected.where("NOT is_upsert").isEmpty() else {"is_upsert"}
    assert {name for name in found.columns if name.startswith("is_")} == flags
    assert rows_of(found) == rows_of(expected.select(*found.columns))
    assert expected.where("is_forced").isEmpty()
    assert found.schema.simpleString() == expected.select(*found.columns).schema.simpleString()


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (("id",), {"id": "01"}),
        (("id",), {"id": "-0"}),
        (("n",), {"n": "1.50"}),
        (("at",), {"at": "2024-02-29T10:00:00.250"}),
        (("real",), {"real": "0.1"}),
        (("id",), {"n": "x"}),
        (("id",), {"real": "9007199254740993"}),
    ],
    ids=["zero", "minus zero", "decimal", "fraction", "real", "bad value", "rounded"],
)
def test_spark_reads_what_texts_do_not_surely_show(
    spark: SparkSession, keys: tuple[str, ...], texts: dict[str, str]
) -> None:
    change = drawn(random.Random(1), 0)
    good = replace(change, op="insert", before=None, after={n: v[0] for n, v in VALUES.items()})
    assert certain_rows(spark, [good], plan(("id",)), HARD) is not None
    bad = replace(good, after={**(good.after or {}), **texts})
    assert certain_rows(spark, [good, bad], plan(keys), HARD) is None


def test_spark_reads_changes_whose_images_alone_make_no_row(spark: SparkSession) -> None:
    good = replace(drawn(random.Random(1), 0), op="insert", before=None, after={"id": "1"})
    mine = plan(("id",))
    assert certain_rows(spark, [good], mine, HARD) is not None
    assert certain_rows(spark, None, mine, HARD) is None
    assert certain_rows(spark, [replace(good, after={"part": "a"})], mine, HARD) is None
    assert certain_rows(spark, [good], mine, replace(HARD, has_partials=True)) is None
    assert certain_rows(spark, [good], mine, replace(HARD, deletes=Deletes.SOFT)) is None
    moved = replace(mine, batch_profile=Profile(rows=1, has_key_changes=True))
    assert certain_rows(spark, [good], moved, HARD) is None


def test_only_the_names_of_these_changes_count(spark: SparkSession) -> None:
    """A table whose column was renamed long ago is as fast as others."""
    good = replace(drawn(random.Random(1), 0), op="insert", before=None, after={"id": "1"})
    mine = plan(("id",), ColumnNaming({"old": "part"}), ColumnNaming())
    assert certain_rows(spark, [good], mine, HARD) is None
    assert certain_rows(spark, [replace(good, naming=1)], mine, HARD) is not None


def test_values_are_those_that_spark_reads(spark: SparkSession) -> None:
    source = random.Random(9)
    texts = sorted({drawn_text(source) for _ in range(6_000)})
    known = dict[str, int]()
    for kind in KINDS:
        mine = [text for text in texts if certainly_fits(text, kind)]
        schema = parsed(spark, f"text string, value {kind}")
        types = arrow_schema(schema)
        rows = pa.table({"text": pa.array(mine), "value": cells(mine, kind, types.field("value").type)})
        frame = arrow_frame(spark, rows, schema)
        value: Any = F.col("value")
        wrong = frame.where(~value.eqNullSafe(typed(F.col("text"), kind)) | value.isNull())
        assert [row["text"] for row in wrong.collect()] == [], kind
        known[kind] = len(mine)
    assert all(known.values())
