"""How much of a topic a query has read, by the reports that Spark makes of it anyway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bronze.landing import offsets_read, progress_reports, topics_read


def report(
    start: object, end: object, latest: object, rows: int, description: str = "KafkaV2[Subscribe[a]]"
) -> Any:
    return {
        "sources": [
            {
                "description": description,
                "startOffset": start,
                "endOffset": end,
                "latestOffset": latest,
                "numInputRows": rows,
            }
        ]
    }


@pytest.mark.parametrize(
    ("reports", "read"),
    [
        ([], None),
        ([{"sources": []}], None),
        ([report(None, {"v": 1}, None, 3, "DeltaSource[x]")], None),
        (
            [report({"a": {"0": 5, "1": 0}}, {"a": {"0": 15, "1": 10}}, {"a": {"0": 105, "1": 10}}, 20)],
            (20, 110),
        ),
        # the first batch of a checkpoint names no start; the topic begins at offset 40
        (
            [
                report(None, {"a": {"0": 50}}, {"a": {"0": 90}}, 10),
                report({"a": {"0": 50}}, {"a": {"0": 70}}, {"a": {"0": 90}}, 20),
            ],
            (30, 50),
        ),
        ([report(None, {"a": {"0": 9}}, {"a": {"0": 9}}, 9)], (9, 9)),
    ],
)
def test_offsets_are_counted_from_the_start_of_the_query(reports: list[Any], read: object) -> None:
    assert offsets_read(reports) == read


def test_a_query_has_read_the_topics_that_gave_it_rows() -> None:
    ends = {"shop.b": {"0": 5}, "shop.a": {"0": 1, "1": 2}}
    assert topics_read([report(None, ends, ends, 3), report(None, {"shop.c": {"0": 9}}, None, 1)]) == (
        "shop.a",
        "shop.b",
        "shop.c",
    )
    assert topics_read([report(None, ends, ends, 0), {"sources": []}]) == ()
    assert topics_read([report(None, {"v": 1}, None, 3, "DeltaSource[x]")]) == ()


def test_the_offsets_in_reports_are_objects(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "in"))
    query = (
        spark.readStream.schema("id long")
        .parquet(str(tmp_path / "in"))
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .format("noop")
        .start()
    )
    query.awaitTermination()
    (found, *_) = progress_reports(query)
    assert found["sources"][0]["endOffset"] == {"logOffset": 0}
    assert offsets_read(progress_reports(query)) is None
    assert topics_read(progress_reports(query)) == ()
