"""Duplicates are decided key by key: no statement is one group, and the answer is the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from silver.batches.duplicate_groups import split_groups
from silver.batches.known_runs import EarlierOutcomes
from silver.batches.outcomes import deduplicate_ambiguous, duplicate_ids
from silver.changes.change_id import digest, image_parts
from silver.changes.deduplication import deduplicate
from silver.changes.pairing import KNOWN, NEW
from silver.changes.staged_rows import STAGED, STAGED_DDL, Row
from tests.plans import plan_text
from tests.silver.changes.groups_in_memory import by_reached_position

ROWS = 2_000
Values = Mapping[str, str | None]


def change(
    offset: int,
    op: str,
    before: Values | None,
    after: Values | None,
    *,
    place: int = 0,
    ordinal: int = 0,
    keys: Sequence[str] = ("id",),
    run: int | None = None,
) -> Row:
    row: Row = dict.fromkeys(STAGED.names)
    position = f"011.03{place + 100}"
    row.update(
        change_id=digest((position, op, *image_parts(before), *image_parts(after))),
        source="feed",
        format="canal",
        kind="row",
        op=op,
        database="shop",
        table="item",
        sequence=f"{position}.t.010.{len(str(offset)):02d}{offset}.{len(str(ordinal)):02d}{ordinal}",
        position=position,
        topic="t",
        partition=0,
        offset=offset,
        ordinal=ordinal,
        keys=list(keys) or None,
        before=before,
        after=after,
        partial=False,
        run=run,
    )
    return row


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row[name] for name in STAGED.names) for row in rows], STAGED_DDL)


def statement(kind: str, start: int) -> list[Row]:
    """A statement of many rows, a message for each, all at one position."""
    if kind == "record":
        return [
            change(start + n, "insert", None, {"n": str(n // 2)}, keys=(), run=start) for n in range(ROWS)
        ]
    step = {"keyed": 0, "moves": 10_000, "chain": 1}[kind]
    return [
        change(start + n, "update", {"id": str(n), "v": f"a{n}"}, {"id": str(n + step), "v": "b"})
        for n in range(ROWS)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "largest"), [("keyed", 2), ("record", 4), ("moves", 2), ("chain", 2 * ROWS)]
)
def test_a_statement_that_is_delivered_twice_is_decided_in_small_groups(
    spark: SparkSession, kind: str, largest: int
) -> None:
    rows = frame(spark, [*statement(kind, 0), *statement(kind, 2 * ROWS)])
    members = rows.withColumn("_group", F.lit("shop.item")).withColumn("origin", F.lit(NEW))
    sizes = split_groups(members).groupBy("_group").count()
    assert sizes.agg(F.max("count")).collect() == [(largest,)]
    rest, decided = deduplicate_ambiguous(rows, duplicate_ids(rows, None), EarlierOutcomes(), are_few=True)
    assert rest.count() == 0
    found = {(row["offset"], row["kind"]) for row in decided.select("offset", "kind").collect()}
    assert found == {
        *((n, "row") for n in range(ROWS)),
        *((n, "duplicate") for n in range(2 * ROWS, 3 * ROWS)),
    }


def test_a_record_goes_on_behind_an_earlier_batch_that_ends_with_another_table(spark: SparkSession) -> None:
    """Where the messages of a transaction are cut makes no difference; the record again is a duplicate."""

    def touched(offset: int, run: tuple[int, int] | None = None, place: int = 0) -> Row:
        start, end = run or (None, None)
        row = change(offset, "insert", None, {"v": "a"}, keys=(), run=start, place=place)
        return {**row, "run_end": end}

    def other(offset: int, place: int = 0) -> Row:
        return {**change(offset, "insert", None, {"id": "1"}, place=place), "table": "other"}

    of_another = [touched(17, place=1), other(18, place=1), touched(19, place=1)]
    earlier = frame(spark, [touched(7), other(8), *of_another])
    again = [touched(n, (50, 52), place=1) for n in (50, 52)]
    new = frame(spark, [touched(9, (9, 9)), *again])
    history = EarlierOutcomes(earlier, earlier.withColumn("is_replaced", F.lit(False)))
    _, decided = deduplicate_ambiguous(new, duplicate_ids(new, earlier), history, are_few=True)
    found = {row["offset"]: row["kind"] for row in decided.select("offset", "kind").collect()}
    assert found == {9: "row", 50: "duplicate", 52: "duplicate"}


def drawn(draw: Random, place: int) -> list[Row]:
    """Changes at one position of a table: with a key or without, some of which move their row."""
    kind = draw.choice(["keyed", "moves", "far moves", "keyless", "record", "other keys", "lacking"])
    rows = []
    for offset in range(draw.randint(2, 12)):
        old, new = ({"id": str(draw.randint(1, 3)), "v": draw.choice("ab")} for _ in range(2))
        if kind == "far moves":
            new["id"] = old["id"] + draw.choice(["", "", "0"])
            old["id"] = draw.choice([old["id"], old["id"], new["id"]])
        elif kind != "moves":
            new["id"] = old["id"]
        keys = {"keyless": (), "record": (), "other keys": draw.choice([("id",), ("id", "v")])}.get(
            kind, ("id",)
        )
        for image in (old, new):
            if kind == "lacking" and draw.random() < 0.3:
                del image[draw.choice(["id", "v"])]
        op = draw.choice(["insert", "update", "update", "delete"])
        before, after = None if op == "insert" else old, None if op == "delete" else new
        before = None if op == "update" and draw.random() < 0.2 else before
        at = offset + draw.choice([0, 0, 20])
        rows.append(
            change(
                at,
                op,
                before,
                after,
                place=place,
                ordinal=offset,
                keys=keys,
                run=at - draw.randint(0, 2) if kind == "record" and draw.random() < 0.8 else None,
            )
        )
    return rows


def test_small_groups_give_what_the_whole_position_gives(spark: SparkSession) -> None:
    draw = Random(7)
    places = {place: drawn(draw, place) for place in range(400)}
    rows = [row for mine in places.values() for row in mine]
    ids = defaultdict(int)
    for row in rows:
        ids[row["change_id"]] += 1
    expected = {}
    for mine in places.values():
        is_decided = any(ids[row["change_id"]] > 1 for row in mine)
        for row in deduplicate([{**row, "origin": NEW} for row in mine]) if is_decided else mine:
            expected[row["position"], row["offset"], row["ordinal"]] = (row["kind"], row["change_id"])
    staged = frame(spark, rows)
    rest, decided = deduplicate_ambiguous(
        staged, duplicate_ids(staged, None), EarlierOutcomes(), are_few=True
    )
    found: dict[Any, Any] = {
        (row["position"], row["offset"], row["ordinal"]): (row["kind"], row["change_id"])
        for row in rest.unionByName(decided).collect()
    }
    assert found == expected
    assert {kind for kind, _ in expected.values()} == {"row", "duplicate"}


def of_partition(draw: Random, table: str) -> list[Row]:
    """Changes of three rows with a key in a partition whose times jump; some of them come again."""
    rows: list[Row] = []
    top = 0
    for offset in range(draw.randint(3, 14)):
        if rows and draw.random() < 0.4:
            again = draw.choice(rows)
            op, before, after, time = again["op"], again["before"], again["after"], int(again["position"][6:])
        else:
            old, new = ({"id": str(draw.randint(1, 3)), "v": draw.choice("ab")} for _ in range(2))
            new["id"] = new["id"] if draw.random() < 0.1 else old["id"]
            op = draw.choice(["insert", "update", "update", "update", "delete"])
            before, after = None if op == "insert" else old, None if op == "delete" else new
            time = 100 + draw.randint(0, 3)
        row = change(offset, op, before, after, place=time - 100)
        top = max(top, time)
        row["sequence"] = row["sequence"].replace(row["position"], f"011.03{top}", 1)
        rows.append({**row, "table": table, "change_id": digest((table, row["change_id"]))})
    return rows


def test_groups_of_a_partition_are_those_of_what_it_had_reached(spark: SparkSession) -> None:
    draw = Random(11)
    earlier: list[Row] = []
    new: list[Row] = []
    expected = {}
    for number in range(300):
        rows = of_partition(draw, f"item{number}")
        cut = draw.randint(0, len(rows))
        known: list[Row] = []
        for is_new, part in enumerate((rows[:cut], rows[cut:])):
            members = [{**row, "origin": KNOWN} for row in known] + [{**row, "origin": NEW} for row in part]
            outcomes = [row for group in by_reached_position(members) for row in deduplicate(group)]
            if is_new:
                expected |= {
                    (row["table"], row["offset"]): (row["kind"], row["change_id"]) for row in outcomes
                }
            known += [row for row in outcomes if row["kind"] == "row" and not is_new]
        earlier += known
        new += rows[cut:]
    staged, history = frame(spark, new), frame(spark, earlier)
    rest, decided = deduplicate_ambiguous(
        staged, duplicate_ids(staged, history), EarlierOutcomes(history), are_few=True, in_partitions=True
    )
    found = rest.unionByName(decided).select("table", "offset", "kind", "change_id").collect()
    assert {(table, offset): outcome for table, offset, *outcome in found} == {
        place: list(outcome) for place, outcome in expected.items()
    }
    assert {kind for kind, _ in expected.values()} == {"row", "duplicate"}
    assert rest.count() > 0


@pytest.mark.parametrize("are_few", [True, False])
def test_records_are_broadcast_only_where_repeats_are_few(spark: SparkSession, are_few: bool) -> None:
    """A changefeed that is created anew brings all of them again."""
    rows = frame(spark, [change(7, "insert", None, {"v": "a"}, keys=(), run=7)])
    history = EarlierOutcomes(rows, rows.withColumn("is_replaced", F.lit(False)))
    _, decided = deduplicate_ambiguous(rows, duplicate_ids(rows, rows), history, are_few=are_few)
    assert ("strategy=broadcast" in plan_text(decided)) is are_few
