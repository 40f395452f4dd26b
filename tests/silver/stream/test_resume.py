"""Messages that were passed over: which they are is found out by few looks at all messages and all
changes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.contracts.table_names import EPOCHS_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.spark.session import is_connect
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_lost_state import set_epoch
from tests.end_to_end.test_repair import later

_SHOWN = "spark.sql.maxMetadataStringLength"


def joins_since(spark: SparkSession, last: int) -> list[int]:
    """The queries behind this one that read all messages together with all changes,
    but for what writes to quarantine.
    """
    behind = [query for query in queries(spark) if query.executionId() > last]
    both = [
        query
        for query in behind
        if all(name in str(query.physicalPlanDescription()) for name in ("bronze/messages", "silver/changes"))
    ]
    return sorted(query.executionId() for query in both if not str(query.description()).startswith("MERGE"))


def queries(spark: SparkSession) -> list[Any]:
    """The queries that Spark remembers, the latest 1,000."""
    store = cast(Any, spark)._jsparkSession.sharedState().statusStore()
    found = store.executionsList(0, 100_000)
    return [found.apply(number) for number in range(found.size())]


@pytest.mark.slow
def test_messages_without_an_outcome_are_looked_for_once_a_step(spark: SparkSession, tmp_path: Path) -> None:
    """Where an epoch begins its messages are found out once, and once more in the batch of the stream."""
    if is_connect(spark):
        pytest.skip("Spark Connect does not show the plans of what has run")
    shop, config = Shop(spark, tmp_path), str(tmp_path / "mainstem.yml")
    messages = [
        message("INSERT", 500, after=item(1, "pen", 1.0)),
        later("INSERT", 1, 5, after=item(2, "ink", 2.0)),
        "no message",
    ]
    shop.land(messages)
    assert main(["run", "--through", "silver", "-c", config]) == 1
    set_epoch(tmp_path, 2)
    shop.land([later("UPDATE_BEFOR", 2, 6, before=item(2, "ink", 2.0)), "no message either"])
    spark.conf.set(_SHOWN, "1000")
    try:
        last = max((query.executionId() for query in queries(spark)), default=-1)
        assert main(["run", "--through", "silver", "-c", config]) == 0
        assert len(joins_since(spark, last)) == 2
    finally:
        spark.conf.unset(_SHOWN)
    assert {row["value"] for row in shop.lake.read(spark, "silver/quarantine").collect()} == {
        b"no message",
        b"no message either",
    }


@pytest.mark.slow
def test_an_epoch_may_begin_where_bronze_has_no_message_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Bronze was lost, and nothing has landed again when the configuration begins the epoch."""
    shop, config = Shop(spark, tmp_path), str(tmp_path / "mainstem.yml")
    shop.land([message("INSERT", 500, after=item(1, "pen", 1.0))])
    assert main(["run", "-c", config]) == 0
    lakehouse = tmp_path / "lakehouse"
    for lost in ("_mainstem/bronze", "bronze/messages", "ops/files/feed", "_mainstem/silver"):
        shutil.rmtree(lakehouse / lost)
    (lakehouse / "_mainstem" / "silver.reset").touch()
    (tmp_path / "landing" / "part-001.jsonl").unlink()
    shop.lake.create(spark, MESSAGES_TABLE, MESSAGES)
    set_epoch(tmp_path, 2)
    assert main(["run", "-c", config]) == 0
    shop.land([message("INSERT", 1, after=item(2, "ink", 2.0))])
    assert main(["run", "-c", config]) == 0
    assert shop.rows("shop/item") == {1: item(1, "pen", 1.0), 2: item(2, "ink", 2.0)}
    shop.land([message("INSERT", 2, after=item(1, "cap", 3.0))])
    assert main(["run", "-c", config]) == 0
    assert shop.rows("shop/item") == {1: item(1, "cap", 3.0), 2: item(2, "ink", 2.0)}


@pytest.mark.slow
def test_the_epochs_of_many_sources_begin_in_one_look(spark: SparkSession, tmp_path: Path) -> None:
    """Each source took a look at all messages and changes, and a commit, of its own: hours for thousands."""
    if is_connect(spark):
        pytest.skip("Spark Connect does not show the plans of what has run")
    names, config = ("a", "b", "c", "d", "e"), tmp_path / "mainstem.yml"
    inner = "format: datahub_blob, files: ./{0}, epoch: 1, pairing_timeout: 10 minutes"
    sources = "".join(f"  {name}: {{{inner.format(name)}}}\n" for name in names)
    config.write_text(f"pipeline: shop\nlakehouse: ./lakehouse\nquality: false\nsources:\n{sources}")

    def land(name: str, file: str, *messages: Any) -> None:
        (tmp_path / name / file).write_text("\n".join(map(json.dumps, messages)))

    first, reset = (
        message("INSERT", 500, after=item(1, "pen", 1.0)),
        later("INSERT", 1, 5, after=item(2, "ink", 2.0)),
    )
    for name in names:
        (tmp_path / name).mkdir()
    for name in names[:4]:  # of e nothing lands before its epoch is raised
        land(name, "1.jsonl", first, *([reset] if name in "ab" else []))
    assert main(["run", "--through", "silver", "-c", str(config)]) == 1
    config.write_text(config.read_text().replace("epoch: 1", "epoch: 2"))
    spark.conf.set(_SHOWN, "1000")
    try:
        last = max((query.executionId() for query in queries(spark)), default=-1)
        assert main(["run", "--through", "silver", "-c", str(config)]) == 0
        assert len(joins_since(spark, last)) == 1 + len(
            "ab"
        )  # those that were stopped are taken up one by one
    finally:
        spark.conf.unset(_SHOWN)
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    begun = lake.read(spark, EPOCHS_TABLE).where("state = 'begun' AND epoch = 2").collect()
    assert {(row["source"], row["topic"], row["offset"]) for row in begun} == {
        ("a", "1.jsonl", 2), ("b", "1.jsonl", 2), ("c", "1.jsonl", 2), ("d", "1.jsonl", 2), ("e", None, None)
    }  # fmt: skip
    assert len({row["recorded_at"] for row in begun}) == 1
    for name in names[1:]:
        land(name, "2.jsonl", later("UPDATE", 2, 6, after=item(1, "cap", 3.0)))
    assert main(["run", "--through", "silver", "-c", str(config)]) == 0
    changes = lake.read(spark, "silver/changes").where("kind = 'row'").collect()
    assert sorted((row["source"], row["topic"][0], row["offset"], row["epoch"]) for row in changes) == [
        ("a", "1", 1, 1), ("a", "1", 2, 2),
        ("b", "1", 1, 1), ("b", "1", 2, 2), ("b", "2", 1, 2),
        ("c", "1", 1, 1), ("c", "2", 1, 2), ("d", "1", 1, 1), ("d", "2", 1, 2), ("e", "2", 1, 2),
    ]  # fmt: skip
