"""How much of a topic a query has read, by the reports that Spark makes of it anyway."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bronze.landing import offsets_read, topics_read


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
        ([report(None, json.dumps({"a": {"0": 9}}), json.dumps({"a": {"0": 9}}), 9)], (9, 9)),
    ],
)
def test_offsets_are_counted_from_the_start_of_the_query(reports: list[Any], read: object) -> None:
    assert offsets_read(reports) == read


def test_a_query_has_read_the_topics_that_gave_it_rows() -> None:
    ends = {"shop.b": {"0": 5}, "shop.a": {"0": 1, "1": 2}}
    assert topics_read(
        [report(None, ends, ends, 3), report(None, json.dumps({"shop.c": {"0": 9}}), None, 1)]
    ) == (
        "shop.a",
        "shop.b",
        "shop.c",
    )
    assert topics_read([report(None, ends, ends, 0), {"sources": []}]) == ()
    assert topics_read([report(None, {"v": 1}, None, 3, "DeltaSource[x]")]) == ()
