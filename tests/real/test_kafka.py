"""The Kafka source with a real broker: bronze has each message once, whatever happens to broker and run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from framework.cli import main
from framework.lakehouse.lakehouse import Lakehouse
from tests.real.capture import Captured
from tests.real.conftest import SEED
from tests.real.connectors import pipeline, table_rules
from tests.real.kafka import Broker
from tests.real.test_debezium import check_replicas

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
IMPATIENT = {
    "kafka.request.timeout.ms": "3000",
    "kafka.default.api.timeout.ms": "5000",
    "fetchOffset.numRetries": "1",
}
Message = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def config_file(folder: Path, broker: Broker, **kafka: Any) -> Path:
    source = {
        "format": "canal",
        "kafka": {"bootstrap_servers": broker.address, "kafka.metadata.max.age.ms": "1000", **kafka},
    }
    file = folder / "mainstem.yml"
    file.write_text(
        yaml.safe_dump({"pipeline": "topics", "lakehouse": "./lakehouse", "sources": {"feed": source}})
    )
    return file


def row(number: int, op: str = "INSERT", name: str = "Ann") -> bytes:
    """A change of one row, as Canal writes it."""
    data = [{"id": str(number), "name": name}]
    return json.dumps(
        {
            "type": op,
            "database": "shop",
            "table": "t",
            "es": 1709200800000 + number,
            "id": number,
            "pkNames": ["id"],
            "data": data,
        }
    ).encode()


def messages(start: int, count: int, partitions: int = 3) -> list[Message]:
    return [
        (n % partitions, b"k%d" % n, row(n), [("h", b"%d" % n), ("none", None)])
        for n in range(start, start + count)
    ]


def landed(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    table = (
        spark.read.format("delta")
        .load(str(folder / "lakehouse" / "bronze" / "messages"))
        .toArrow()
        .to_pylist()
    )
    found = [
        (
            m["topic"],
            m["partition"],
            m["offset"],
            m["key"],
            m["value"],
            [(h["key"], h["value"]) for h in m["headers"] or ()],
        )
        for m in table
    ]
    return sorted(found, key=lambda m: m[:3])


def broker_messages(broker: Broker, topics: Sequence[str]) -> list[tuple[Any, ...]]:
    found = []
    for m in broker.read(list(topics)):
        flat = m.get("headers", [])
        pairs = [
            (name, None if value is None else value.encode())
            for name, value in zip(flat[::2], flat[1::2], strict=True)
        ]
        key, value = (None if m[part] is None else m[part].encode() for part in ("key", "payload"))
        found.append((m["topic"], m["partition"], m["offset"], key, value, pairs))
    return sorted(found, key=lambda m: m[:3])


def test_topics_land_as_they_are_and_late_topics_and_partitions_too(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    broker.create("land.one", 3)
    broker.produce(
        "land.one", [*messages(0, 20), (0, b"gone", None, []), (1, None, b"no json", []), (2, b"", b"", [])]
    )
    broker.create("other.land.one", 1)
    broker.produce("other.land.one", messages(0, 1, 1))
    config = config_file(tmp_path, broker, topic_pattern=r"land\..*")
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert landed(spark, tmp_path) == broker_messages(broker, ["land.one"])
    broker.create("land.two", 1)
    broker.produce("land.two", messages(100, 5, 1))
    broker.add_partitions("land.one", 4)
    time.sleep(2)  # the reader's own picture of the topics is a second old at most
    broker.produce("land.one", messages(200, 8, 4))
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert landed(spark, tmp_path) == broker_messages(broker, ["land.one", "land.two"])


def test_topics_land_on_where_another_one_is_left_out(
    broker: Broker, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("left.one", "left.two"):
        broker.create(topic, 2)
        broker.produce(topic, messages(0, 6, 2))
    config = config_file(tmp_path, broker, topics=["left.one", "left.two"])
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    both = broker_messages(broker, ["left.one", "left.two"])
    assert landed(spark, tmp_path) == both
    for topic in ("left.one", "left.two"):
        broker.produce(topic, messages(10, 2, 2))
    config = config_file(tmp_path, broker, topics=["left.one"])
    capsys.readouterr()
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 1
    said = capsys.readouterr().err
    assert "KAFKA_TOPIC_LEFT_OUT" in said
    assert "left.two" in said
    shutil.rmtree(tmp_path / "lakehouse" / "_mainstem" / "bronze" / "feed")
    (tmp_path / "lakehouse" / "_mainstem" / "bronze" / "feed.reset").touch()
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    one = broker_messages(broker, ["left.one"])
    assert landed(spark, tmp_path) == sorted(
        one + [m for m in both if m[0] == "left.two"], key=lambda m: m[:3]
    )
    config = config_file(tmp_path, broker, topics=["left.one", "left.two"])
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert landed(spark, tmp_path) == broker_messages(broker, ["left.one", "left.two"])


def test_detect_and_init_read_topics_as_they_read_files(
    broker: Broker, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create("look.one", 3)
    broker.produce("look.one", messages(0, 20))
    broker.create("look.junk", 1)
    broker.produce("look.junk", [(0, None, b"no json", [])])
    topics = ["--kafka", broker.address, "--topic", "look.*"]
    assert main(["detect", *topics, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {each["file"]: each["formats"] for each in answer["files"]} == {
        "look.one": {"canal": 20},
        "look.junk": {},
    }
    assert not answer["is_sample"]
    config = tmp_path / "mainstem.yml"
    assert main(["init", *topics, "-c", str(config)]) == 0
    written = yaml.safe_load(config.read_text())["sources"]
    assert written == {
        "look_one": {
            "format": "canal",
            "kafka": {"bootstrap_servers": broker.address, "topics": ["look.one"]},
        }
    }
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert landed(spark, tmp_path) == broker_messages(broker, ["look.one"])


def test_a_source_begins_where_the_configuration_says(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    broker.create("begin", 2)
    broker.produce("begin", messages(0, 10, 2))
    offsets = json.dumps({"begin": {"0": 3, "1": -2}})
    config = config_file(tmp_path, broker, topics=["begin"], startingOffsets=offsets)
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert landed(spark, tmp_path) == [
        m for m in broker_messages(broker, ["begin"]) if m[1] == 1 or m[2] >= 3
    ]


def test_offsets_that_the_broker_has_lost_are_an_error_that_names_them(
    broker: Broker, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create("lost", 1)
    broker.produce("lost", messages(0, 4, 1))
    config = config_file(tmp_path, broker, topics=["lost"])
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    broker.produce("lost", messages(4, 6, 1))
    broker.forget("lost", 8)
    capsys.readouterr()
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 1
    said = capsys.readouterr().err
    assert "KAFKA_OFFSETS_LOST" in said
    assert "[4, 10) for topic partition lost-0" in said
    assert len(landed(spark, tmp_path)) == 4
    config_file(tmp_path, broker, topics=["lost"], failOnDataLoss=False)
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert [m[2] for m in landed(spark, tmp_path)] == [0, 1, 2, 3, 8, 9]


def test_a_topic_that_was_created_anew_and_has_grown_beyond_the_old_one(
    broker: Broker, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark alone continues at the old offset: the first messages of the new topic would be lost silently."""
    broker.create("anew", 2)
    broker.produce("anew", messages(0, 8, 2))
    config = config_file(tmp_path, broker, topics=["anew"])
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    broker.produce("anew", messages(8, 4, 2))
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    old = landed(spark, tmp_path)
    assert old == broker_messages(broker, ["anew"])
    broker.drop("anew")
    broker.create("anew", 2)
    broker.produce("anew", messages(100, 30, 2))
    capsys.readouterr()
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 1
    error = capsys.readouterr().err
    assert "KAFKA_TOPIC_RECREATED" in error
    assert landed(spark, tmp_path) == old
    checkpoint = tmp_path / "lakehouse" / "_mainstem" / "bronze" / "feed"
    assert f"delete {checkpoint}," in error
    shutil.rmtree(checkpoint)
    Path(f"{checkpoint}.reset").touch()
    config.write_text(config.read_text().replace("    format: canal", "    format: canal\n    epoch: 2"))
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert sorted(map(repr, landed(spark, tmp_path))) == sorted(
        map(repr, [*old, *broker_messages(broker, ["anew"])])
    )
    broker.produce("anew", messages(200, 2, 2))
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert len(landed(spark, tmp_path)) == 12 + 32


def test_a_compacted_topic_has_gaps_and_loses_nothing_that_it_holds(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    broker.create(
        "compact",
        1,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="200",
    )
    for part in range(5):
        broker.produce("compact", [(0, b"k%d" % (n % 3), row(100 * part + n), []) for n in range(10)])
        time.sleep(0.3)
    for _ in range(100):
        broker.produce("compact", [(0, b"last", row(999), [])])
        time.sleep(0.3)
        if len(broker_messages(broker, ["compact"])) < 30:
            break
    config = config_file(tmp_path, broker, topics=["compact"])
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    there, mine = broker_messages(broker, ["compact"]), landed(spark, tmp_path)
    assert {m[2] for m in there} <= {m[2] for m in mine}
    assert len(mine) < 50


def test_a_broker_that_is_away_is_said_in_words_and_nothing_is_lost(
    broker: Broker, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.create("away", 3)
    broker.produce("away", messages(0, 9))
    config = config_file(tmp_path, broker, topics=["away"], **IMPATIENT)
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    broker.stop()
    capsys.readouterr()
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 1
    assert "KAFKA_UNREACHABLE" in capsys.readouterr().err
    broker.start()
    broker.produce("away", messages(9, 9))
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 0
    assert landed(spark, tmp_path) == broker_messages(broker, ["away"])


def command(config: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "framework.cli", "run", "-c", str(config), *more]


def test_killed_runs_and_a_broker_that_comes_and_goes_change_nothing(
    captured: Captured, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    random, broker = Random(f"{SEED}kill"), captured.broker
    rules = table_rules("m", captured.workloads["m"])
    config = pipeline(tmp_path, "m", broker.address, rules, maxOffsetsPerTrigger="150", **IMPATIENT)
    for kill in range(3):
        with (tmp_path / f"killed-{kill}").open("w") as log:
            process = subprocess.Popen(
                command(config), cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
            try:
                process.wait(random.uniform(20, 60))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if kill == 1:
            broker.stop()
            assert main(["run", "--through", "bronze", "-c", str(config)]) == 1
            broker.start()
    assert main(["run", "-c", str(config)]) == 0, capsys.readouterr().err
    check_replicas(config, "m", captured, capsys, spark)


def test_a_continuous_run_takes_up_what_comes_and_ends_in_good_order(
    broker: Broker, tmp_path: Path, spark: SparkSession
) -> None:
    broker.create("steady", 3)
    config = config_file(tmp_path, broker, topics=["steady"])
    broker.produce("steady", messages(0, 6))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command(config, "--continuous", "1s", "--json"), cwd=ROOT, stdout=log, stderr=log
        )
    try:
        wait_for_rows(spark, tmp_path, process, 6)
        broker.produce("steady", messages(6, 6))
        wait_for_rows(spark, tmp_path, process, 12)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
    rounds = [
        json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")
    ]
    assert sum(r["counts"].get("landed", 0) for r in rounds) == 12
    assert main(["run", "-c", str(config)]) == 0  # the lease is free


def wait_for_rows(spark: SparkSession, folder: Path, process: subprocess.Popen[bytes], count: int) -> None:
    lake = Lakehouse(str(folder / "lakehouse"))
    for _ in range(240):
        assert process.poll() is None, (folder / "log").read_text()
        if lake.exists(spark, "gold/shop/t") and lake.read(spark, "gold/shop/t").count() == count:
            return
        time.sleep(0.5)
    pytest.fail(f"{count} rows did not come:\n{(folder / 'log').read_text()[-2000:]}")


def test_a_record_time_that_spark_cannot_read_is_named(
    broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """Spark converts the time of a record before any code of ours sees it: 2^63 milliseconds are too many."""
    broker.create("times", 3, message_timestamp_after_max_ms=str(2**63 - 1))
    broker.produce("times", messages(0, 90))
    broker.produce("times", [(1, b"k", row(200), [])], timestamp=200_000_000_000_000)  # the year 8307
    broker.produce("times", [(1, b"k", row(201), [])], timestamp=900_000_000_000_000)  # the year 30489
    broker.produce("times", [(1, b"k", row(202), [])], timestamp=2**63 - 1)
    broker.produce("times", messages(300, 30))
    config = config_file(tmp_path, broker, topics=["times"])
    assert main(["run", "--through", "bronze", "-c", str(config)]) == 1
    shown = capfd.readouterr().err
    assert "KAFKA_TIMESTAMP_UNREADABLE" in shown
    assert "topic times, partition 1, offset 32" in shown
