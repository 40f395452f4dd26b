"""The extent of a batch: the same from files in this process as from Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from framework.config.model import Config, load_config
from framework.contracts.seed import TOPIC
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.scanned_files import scanned_files
from silver.batches import arrival
from silver.batches.arrival import BatchExtent, batch_extent
from silver.layer import LAYER

FILES = "{format: canal, files: plain}"
DUMP = "{format: canal, files: dumped, layout: kcat}"
BASE = datetime(2026, 1, 1, tzinfo=UTC)


def config(folder: Path, **sources: str) -> Config:
    file = folder / "mainstem.yml"
    lines = ["pipeline: p", "lakehouse: lakehouse", "sources:"]
    file.write_text("\n".join([*lines, *(f"  {name}: {source}" for name, source in sources.items())]))
    return load_config(file, formats=LAYER.options())


def message(
    source: str, topic: str | None, partition: int | None, offset: int | None, **more: Any
) -> tuple[Any, ...]:
    row = {
        "source": source,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": BASE,
        "key": None,
        "value": b"{}",
        "headers": None,
        "file": None,
        "line": None,
        "ingested_at": BASE,
    } | more
    return tuple(row[name] for name in MESSAGES.names)


def drawn_messages(random: Random) -> list[tuple[Any, ...]]:
    """Messages of a dump, of files and of a source without settings; offsets may repeat or fall."""
    rows = []
    for _ in range(random.randrange(4, 60)):
        source = random.choice(("dumped", "dumped", "plain", "gone"))
        headers = random.choice((None, [], [("a", b"xyz"), ("b", None)]))
        rows.append(
            message(
                source,
                random.choice(("t", "été", f"{TOPIC}x", None)),
                random.choice((0, 1, None)),
                random.choice((random.randrange(40), 2**62, None)),
                key=random.choice((None, b"", b"key")),
                value=random.choice((None, b"", b"value" * 20)),
                headers=headers,
                file=random.choice((None, "a.txt", "é.txt")),
                line=random.choice((None, 1, 2, 10)),
                ingested_at=BASE + timedelta(microseconds=random.choice((0, 1, 1, 500_001))),
            )
        )
    if random.random() < 0.5:  # as they come: rising
        rows.sort(key=lambda row: (row[3] or 0, row[10]))
        rows = [(*row[:10], BASE + timedelta(seconds=number)) for number, row in enumerate(rows)]
    return rows


def written(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]]) -> tuple[DataFrame, list[str]]:
    """Messages in two files, and the names of these files."""
    spark.createDataFrame(rows, MESSAGES).repartition(2).write.parquet(str(folder))
    files = sorted(file.as_uri() for file in folder.glob("*.parquet"))
    return read_parquet(spark, MESSAGES, str(folder)), files


def as_compared(found: BatchExtent) -> BatchExtent:
    ranges = sorted(found.offset_ranges, key=lambda span: (span.source, span.topic, span.partition))
    return replace(found, offset_ranges=tuple(ranges), groups=())


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("dumped", "plain"), marks=pytest.mark.slow),
        pytest.param(("plain",), marks=pytest.mark.slow),
        ("dumped", "plain", "gone"),
    ],
)
@pytest.mark.usefixtures("one_disk")
def test_the_extent_of_files_is_that_of_their_rows(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival, "_FEW_AT_ONCE", 3)
    monkeypatch.setattr(arrival, "_AT_ONCE", 7)
    settings = config(
        tmp_path, **{name: (DUMP if name == "dumped" else FILES.replace("plain", name)) for name in names}
    )
    random = Random("extents")
    sizes = set()
    for number in range(8):
        rows, files = written(spark, tmp_path / f"{number} [b]%20é", drawn_messages(random))
        by_spark, by_files = batch_extent(rows, settings), batch_extent(rows, settings, files)
        assert [Path(group.path).as_uri() for group in by_files.groups] == files
        if by_files.others:  # rows of other sources are not counted with them
            by_spark = replace(by_spark, size=None)
        assert as_compared(by_files) == as_compared(by_spark)
        sizes.add(by_files.size)
    assert len(sizes - {None}) > 1 or "gone" not in names


@pytest.mark.usefixtures("one_disk")
def test_files_that_are_gone_or_many_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(tmp_path, plain=FILES)
    rows, files = written(spark, tmp_path / "a", [message("plain", "t", 0, number) for number in range(5)])
    assert batch_extent(rows, settings, [*files, f"{files[0]}.gone"]).messages == 5
    monkeypatch.setattr(arrival, "_MOST_ROWS", 4)
    assert batch_extent(rows, settings, files).messages == 5
    assert batch_extent(rows, settings, []) == BatchExtent(0, None)


def batches_of_stream(spark: SparkSession, lake: Lakehouse, folder: Path) -> list[tuple[int, Any]]:
    """For each batch of a new stream of `bronze/messages` its number of rows, and the files found for it."""
    found = []

    def note(rows: DataFrame, _: int) -> None:
        found.append((rows.count(), scanned_files(lake, MESSAGES_TABLE, rows)))

    stream = lake.read_stream(spark, MESSAGES_TABLE, {"maxFilesPerTrigger": "2"})
    writer = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", str(folder))
    writer.foreachBatch(note).start().awaitTermination()
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("one_disk")
def test_the_files_of_a_batch_are_those_that_it_reads(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path / "a [b]{c}"))
    lake.create(spark, MESSAGES_TABLE, MESSAGES)
    rows = [message("plain", "t", 0, number) for number in range(9)]
    for start in range(0, 9, 3):
        part = spark.createDataFrame(rows[start : start + 3], MESSAGES).coalesce(1)
        lake.append(part, MESSAGES_TABLE)
    found = batches_of_stream(spark, lake, tmp_path / "first")
    assert [count for count, _ in found] == [6, 3]
    counted = [
        batch_extent(spark.range(0), config(tmp_path, plain=FILES), files).messages for _, files in found
    ]
    assert counted == [6, 3]
    place = lake.location(MESSAGES_TABLE)
    spark.sql(f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    DeltaTable.forPath(spark, place).delete("offset = 4")
    assert batches_of_stream(spark, lake, tmp_path / "second") == [(5, None), (3, None)]
