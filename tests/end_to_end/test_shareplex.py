"""OMS's SharePlex messages whose position or key is not what one would wish: no row is lost or merged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.test_identity import Topics, kcat

Values = Mapping[str, object]
KEYED = '  - {match: "*.o", keys: [id]}'


def change(op: str, data: Values, key: Values | None = None, database: str = "times", **meta: object) -> str:
    place = {"scn": "123456789", "seq": 1, "time": "2020-12-31T00:11:11", "trans": "t"}
    return json.dumps(
        {"data": data, "key": key, "meta": {"op": op, "table": f"{database}.o", **place, **meta}}
    )


def test_changes_of_one_position_all_count_and_count_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = {"times": "time", "partitions": "partition"}
    sources = {name: f"format: oms_shareplex, order: {order}" for name, order in orders.items()}
    topics = Topics(tmp_path, capsys, sources, KEYED)
    for name in sources:
        sent = [
            change("ins", {"id": 1, "v": "a"}, database=name, scn="123456788"),
            change("ins", {"id": 2, "v": "a"}, database=name, scn="123456788"),
            change("upd", {"v": "b"}, {"id": 1, "v": "a"}, name),
            change("del", {"id": 2, "v": "a"}, database=name),
            change("ins", {"id": 2, "v": "b"}, database=name),
            change("upd", {"v": "c"}, {"id": 1, "v": "b"}, name),
        ]
        messages = [kcat(n, value) for n, value in enumerate([*sent, *sent[2:]])]
        topics.land(name, messages[:4])
        topics.land(name, messages[4:])
    assert topics.command("run")[0] == 0
    for name in sources:
        assert sorted((row["id"], row["v"]) for row in topics.rows(f"{name}/o")) == [(1, "c"), (2, "b")]
        topics.land(name, [kcat(10, change("upd", {"v": "c"}, {"id": 1, "v": "b"}, name))])
    assert topics.command("run")[0] == 0
    found = topics.status()
    assert (found["messages"], found["changes"], found["duplicates"]) == (22, 12, 10)
