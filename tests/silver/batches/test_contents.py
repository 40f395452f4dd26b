"""What a decoded batch holds: gathered from Arrow batches, and the same as counted over all its rows."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from silver.batches import batch_counts
from silver.batches.contents import (
    Contents,
    Extent,
    contents_of,
    contents_of_summaries,
    falls,
    may_hold_repeats,
    read_contents,
)
from silver.batches.outcomes import duplicate_ids, has_ambiguous_position
from silver.changes.batch_summary import GROUPED_BY, OPEN_HALF, SUMMARY_DDL, with_summaries
from silver.changes.staged_rows import STAGED, STAGED_DDL, Row, staged_batch, staged_table
from silver.epochs import resets
from silver.epochs.event_clock import newest_believable
from silver.values.sequence import epoch_part_sql, sequence_of

LANDED_AT = datetime(2026, 1, 10)
NOON = 1_767_960_000_000_000
"""Microseconds since the Unix epoch, a day before LANDED_AT."""


def row(number: int, **cells: object) -> Row:
    found: Row = dict.fromkeys(STAGED.names)
    position = sequence_of(1, (number,), None)
    found.update(
        source="feed", format="datahub_blob", kind="row", op="insert", database="shop", table="orders",
        sequence=position, position=position, event_time=NOON, topic="t", partition=0, offset=number,
        ordinal=0, change_id=f"id{number}", epoch=1,
    )  # fmt: skip
    return {**found, **cells}


def test_rows_are_grouped_by_table_kind_and_reason() -> None:
    rows = [
        row(7, schema_id="s", columns="[]"),
        row(8, server="a", event_time=NOON + 1),
        row(9, table="items", paired_with={"topic": "t", "partition": 0, "offset": 6}, server="b"),
        row(10, kind="quarantined", reason="not_json", sequence=None, position=None, event_time=None),
    ]
    found = contents_of([staged_batch(rows)], None)
    assert {(g["table"], g["kind"]): (g["rows"], g["merged"], g["server"]) for g in found.counts} == {
        ("orders", "row"): (2, 0, "a"),
        ("items", "row"): (1, 1, "b"),
        ("orders", "quarantined"): (1, 0, None),
    }
    (source,) = found.sources
    assert (source.messages, source.min_sequence, source.servers) == (5, row(7)["sequence"], {"a", "b"})
    assert (found.schemas, found.may_hold_repeats) == ({"s"}, False)


@pytest.mark.parametrize(
    ("extents", "found"),
    [
        ([("feed", "1", "3", False), ("feed", "4", "9", False)], False),
        ([("feed", "4", "9", False), ("feed", "1", "3", False)], False),
        ([("feed", "1", "4", False), ("feed", "4", "9", False)], True),
        ([("feed", "1", "9", False), ("feed", "2", "3", False), ("feed", "4", "5", False)], True),
        ([("feed", "1", "9", False), ("other", "2", "3", False)], False),
        ([("feed", "1", "3", True)], True),
        ([("feed", None, None, False), ("feed", "1", "3", False)], False),
        ([], False),
    ],
    ids=["behind", "out of order", "same place", "inside", "other source", "inside one", "no place", "none"],
)  # fmt: skip
def test_arrow_batches_that_follow_each_other_hold_no_change_twice(
    extents: list[tuple[str, str | None, str | None, bool]], found: bool
) -> None:
    assert may_hold_repeats(Extent(*extent) for extent in extents) is found


def extents_of(*parts: list[Row]) -> list[Extent]:
    """The extents of Arrow batches with these rows."""
    summaries = with_summaries(iter, None)([staged_batch(rows) for rows in parts])
    return [Extent(**found) for part in summaries for found in part.column("summary")[0].as_py()["extents"]]


def test_parts_of_a_file_that_do_not_follow_each_other_may_be_in_one_arrow_batch() -> None:
    numbers = [[*range(10), *range(50, 60)], [*range(10, 50)], [*range(90, 99), *range(60, 90)]]
    found = extents_of(*([row(n, event_time=NOON + n) for n in part] for part in numbers))
    assert len(found) == 5
    assert not may_hold_repeats(found)
    assert falls(found) == {"feed": timedelta(0)}


def test_an_arrow_batch_of_scattered_offsets_has_few_extents() -> None:
    near = extents_of([row(number * 3) for number in range(1_000)])
    assert len(near) <= 16
    assert not may_hold_repeats(near)
    files = extents_of([row(number, topic=f"file{number}", offset=0) for number in range(1_000)])
    assert len(files) <= 16
    assert not may_hold_repeats(files)


def test_times_of_excluded_tables_count_also_where_nothing_else_is_near() -> None:
    rows = [row(1), row(2), row(90, kind="excluded", event_time=NOON - 7)]
    assert falls(extents_of(rows)) == {"feed": timedelta(microseconds=7)}


def drawn(source: random.Random, number: int) -> Row:
    """A row of any kind, whose id says all that another delivery of it has in common."""
    kind = source.choice(["row"] * 6 + ["ddl", "heartbeat", "tombstone", "quarantined", "excluded"])
    place = source.randint(1, 30)
    position = sequence_of(1, (place,), None) if source.random() < 0.8 else None
    tie = ("t", 0, number, 0) if position is None or source.random() < 0.5 else None
    sequence = sequence_of(1, None if position is None else (place,), tie)
    is_row = kind == "row"
    earliest = sequence_of(1, (max(place - 3, 0),), None) if is_row and source.random() < 0.1 else None
    where = source.choice(["feed", "other"])
    cells: dict[str, object] = {
        "source": where,
        "kind": kind,
        "op": source.choice(["insert", "read", "update"]),
        "schema": source.choice([None, "public"]),
        "table": source.choice([None, "orders", "items"]),
        "reason": source.choice(["not_json", "empty"]) if kind == "quarantined" else None,
        "sequence": sequence if is_row else position,
        "position": position,
        "earliest": earliest,
        "event_time": source.choice([None, NOON - 5, NOON, NOON + source.randint(0, 3) * 86_400_000_000]),
        "ordinal": source.randint(0, 1),
        "half": source.choice([None, None, None, "before", "after"]) if is_row else None,
        "server": source.choice([None, None, "a", "b"]),
        "block": source.choice([None, None, 7]) if is_row else None,
        "evidence": source.choice([None, None, "decimals=text", "decimals=text;binary=hex"]),
        "columns": source.choice([None, "[]"]),
        "schema_id": source.choice(["s", "z"]),
        "paired_with": source.choice([None, {"topic": "t", "partition": 0, "offset": 1}]) if is_row else None,
    }
    timeless = cells["block"] is not None and cells["event_time"] is None
    said = [
        where,
        kind,
        cells["schema"],
        cells["table"],
        cells["sequence"] if timeless else position,
        earliest,
    ]
    if position is None and not is_row:
        said.append(number)  # only its coordinates identify it
    return row(number, **cells, change_id=str(said))


def counted_by_spark(spark: SparkSession, rows: list[Row]) -> Contents:
    """What the rows hold, by an aggregate over all of them."""
    staged = spark.createDataFrame(staged_table(rows), STAGED_DDL)
    is_timeless = F.col("block").isNotNull() & F.col("event_time").isNull()
    place = F.when(~is_timeless, F.coalesce("earliest", "position", F.expr(epoch_part_sql("sequence"))))
    kind = F.when(F.col("half").isNull(), F.col("kind")).otherwise(OPEN_HALF)
    by = [kind.alias("kind") if name == "kind" else F.col(name) for name in GROUPED_BY]
    found = staged.groupBy(*by).agg(
        *batch_counts.counting(LANDED_AT),
        F.sum(F.expr("int(ordinal = 0) + int(paired_with IS NOT NULL)")).alias("messages"),
        F.count("half").alias("halves"),
        F.min(place).alias("min_place"),
        F.min("server").alias("min_server"),
        F.max("server").alias("max_server"),
        F.count_if(has_ambiguous_position()).alias("ambiguous_positions"),
        F.count("block").alias("in_partitions"),
        F.collect_set(F.when(F.col("columns").isNotNull(), F.col("schema_id"))).alias("schemas"),
        F.collect_set("evidence").alias("evidence"),
    )  # fmt: skip
    return Contents(tuple(found.collect()), (), frozenset())


def by_group(contents: Contents) -> dict[tuple[object, ...], dict[str, object]]:
    groups = {}
    for found in contents.counts:
        cells = {
            name: cell for name, cell in found.asDict().items() if name not in ("server_sequence", "measures")
        }
        for name in ("schemas", "evidence"):
            cells[name] = set(cells[name] or ())
        groups[tuple(cells[name] for name in GROUPED_BY)] = cells
    return groups


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_summaries_of_arrow_batches_say_what_a_look_at_all_rows_says(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    source = random.Random(seed)
    rows = [drawn(source, number) for number in range(source.choice([1, 40, 200]))]
    believable = newest_believable(LANDED_AT)
    size = source.choice([3, 25, 500])
    parts = [staged_batch(rows[start : start + size]) for start in range(0, len(rows), size)]
    expected = by_group(counted_by_spark(spark, rows))

    here = contents_of(parts, believable)
    assert {at: {**cells, "server": None} for at, cells in by_group(here).items()} == {
        at: {**cells, "server": None} for at, cells in expected.items()
    }
    with_server = with_summaries(lambda batches: batches, believable)(parts)
    table = pa.Table.from_batches(list(with_server)).combine_chunks()
    frame = spark.createDataFrame(table, f"{STAGED_DDL}, {SUMMARY_DDL}")
    frame.write.parquet(str(tmp_path / "staged"))
    stored = read_contents(spark.read.schema(frame.schema).parquet(str(tmp_path / "staged")))
    assert by_group(stored) == by_group(here)
    read = parquet.read_table(tmp_path / "staged", coerce_int96_timestamp_unit="us")
    same = contents_of_summaries(read.column("summary"))
    assert {at: {**cells, "server": None} for at, cells in by_group(same).items()} == {
        at: {**cells, "server": None} for at, cells in by_group(stored).items()
    }
    assert (same.falls, same.may_hold_repeats) == (stored.falls, stored.may_hold_repeats)
    assert {s.source: s for s in same.sources} == {s.source: s for s in stored.sources}
    measured = {tuple(g[name] for name in GROUPED_BY): g["measures"] for g in stored.counts}
    assert {tuple(g[name] for name in GROUPED_BY): g["measures"] for g in same.counts} == measured
    assert (stored.schemas, stored.evidence) == (here.schemas, here.evidence)
    assert stored.falls == {source: fall for source, fall in here.falls.items() if source in stored.falls}
    assert {s.source: s for s in stored.sources} == {s.source: s for s in here.sources}


@pytest.mark.parametrize("seed", range(6))
def test_no_change_is_twice_in_a_batch_that_may_not_hold_repeats(spark: SparkSession, seed: int) -> None:
    source = random.Random(seed)
    said = []
    for _ in range(5):
        rows = [drawn(source, number) for number in range(source.choice([2, 6, 12]))]
        if source.random() < 0.7:  # most feeds are in order
            rows.sort(key=lambda found: found["sequence"] or "")
        known = [found for found in rows if found["kind"] == "row" or found["position"] is not None]
        if known and source.random() < 0.5:  # a change comes again later, in another Arrow batch
            rows.append({**source.choice(known), "offset": len(rows)})
        size = source.choice([2, 4])
        pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
        source.shuffle(pieces)
        rows = [found for piece in pieces for found in piece]
        size = source.choice([2, 3, 8])  # an Arrow batch may have pieces that do not follow each other
        parts = [staged_batch(rows[start : start + size]) for start in range(0, len(rows), size)]
        extents = extents_of(*(rows[start : start + size] for start in range(0, len(rows), size)))
        staged = spark.createDataFrame(staged_table(rows), STAGED_DDL)
        repeats = duplicate_ids(staged, None).count()
        said.append((may_hold_repeats(extents), repeats > 0))
        assert contents_of(parts, None).may_hold_repeats or not repeats
    assert (False, True) not in said


WAIT = timedelta(seconds=10)


@pytest.mark.parametrize("seed", range(6))
def test_a_look_for_resets_finds_nothing_where_times_fall_less_than_the_wait(
    spark: SparkSession, seed: int
) -> None:
    source = random.Random(seed)
    nothing = spark.createDataFrame([], resets.EXTENTS)
    said = []
    for _ in range(4):
        shaken, start = source.choice([0, 2, 9, 40]), source.choice([1, 20])
        rows = [
            row(
                start + (number - 8 if source.random() < 0.1 * bool(shaken) else number),
                event_time=NOON + 1_000_000 * (2 * number + source.randint(0, shaken)),
                table=source.choice(["orders", "items"]),
                kind=source.choice(["row"] * 4 + ["excluded", "heartbeat"]),
                op=source.choice(["insert"] * 6 + ["read"]),
                server=source.choice([None, "one"]),
            )
            for number in range(10, 40)
        ]
        if source.random() < 0.2:
            rows[source.randrange(30)]["event_time"] = None
        size = source.choice([4, 11, 100])
        parts = [staged_batch(rows[start : start + size]) for start in range(0, len(rows), size)]
        fall = contents_of(parts, None).falls.get("feed")
        whole = spark.createDataFrame(staged_table(rows), STAGED_DDL)
        stops = resets.find_stop_points(whole, nothing, {"feed": WAIT})
        said.append((fall is not None and fall <= WAIT, bool(stops)))
        changes = [
            (found["sequence"], found["event_time"])
            for found in rows
            if found["kind"] in ("row", "excluded") and found["op"] != "read"
        ]
        if fall is not None:
            times = sorted(changes, key=lambda change: change[0])
            expected = max(
                (early - late for n, (_, early) in enumerate(times) for _, late in times[n:]), default=0
            )
            assert fall == timedelta(microseconds=expected)
    assert (True, True) not in said
    assert len(said) == 4


@pytest.mark.parametrize(
    ("extents", "fall"),
    [
        ([("1", "2", 5, 9, 1)], 1),
        ([("1", "2", 5, 9, 1), ("3", "4", 7, 8, 0)], 2),
        ([("3", "4", 7, 8, 0), ("1", "2", 5, 9, 1)], 2),  # in any order
        ([("1", "2", 5, 9, 1), ("2", "4", 9, 9, 0)], 1),  # one position in two batches does not fall
        ([("1", "3", 5, 9, 1), ("2", "4", 9, 9, 0)], None),  # they overlap
        ([("1", "2", None, None, None), ("3", "4", 9, 9, 0)], None),  # a change without a certain time
        ([], None),
    ],
)
def test_times_of_arrow_batches_are_compared_in_the_order_of_their_positions(
    extents: list[tuple[str, str, int | None, int | None, int | None]], fall: int | None
) -> None:
    found = falls(
        [Extent("feed", None, None, False), *(Extent("feed", None, None, False, *e) for e in extents)]
    )
    assert found == ({} if fall is None else {"feed": timedelta(microseconds=fall)})


def test_a_change_without_a_certain_time_leaves_the_fall_of_times_open() -> None:
    certain = [row(1), row(2, event_time=NOON + 5)]
    assert contents_of([staged_batch(certain)], None).falls == {"feed": timedelta(0)}
    assert contents_of([staged_batch(certain)], NOON + 5).falls == {"feed": timedelta(0)}
    assert contents_of([staged_batch(certain)], NOON + 4).falls == {}
    assert contents_of([staged_batch([*certain, row(3, event_time=None)])], None).falls == {}
    assert contents_of([staged_batch([*certain, row(3, committed=row(2)["sequence"])])], None).falls == {}


def test_an_empty_batch_holds_nothing() -> None:
    found = contents_of([], None)
    assert (found.counts, found.sources, found.may_hold_repeats) == ((), (), False)


def test_the_counts_of_a_batch_are_those_of_whole_rows_and_of_what_became_of_its_halves() -> None:
    whole = [row(7, server="a"), row(8)]
    halves = [row(9, half="before"), row(10, half="after")]
    found = contents_of([staged_batch([*whole, *halves])], None)
    assert found.halves == 2
    pair = row(9, event_time=NOON + 1, server="b", paired_with={"topic": "t", "partition": 0, "offset": 10})
    others = contents_of([staged_batch([pair, row(11, kind="half")])], None)
    counts = {r["kind"]: r for r in found.counts_in(4, others)}
    assert {kind: (r["batch"], r["rows"], r["merged"]) for kind, r in counts.items()} == {
        "row": (4, 3, 1),
        "half": (4, 1, 0),
    }
    assert (counts["row"]["min_sequence"], counts["row"]["max_sequence"]) == (
        row(7)["sequence"], row(9)["sequence"],
    )  # fmt: skip
