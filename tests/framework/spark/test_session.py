import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from framework.errors import MainstemError
from framework.lakehouse.parquet_files import read_parquet
from framework.spark.jars import known_jars, packages
from framework.spark.required_settings import SUBSTITUTES, refuse_references
from framework.spark.session import (
    OPEN_TABLES,
    close_session,
    is_connect,
    jvm_process,
    local_settings,
    open_session,
    release_streams,
    worker_sessions,
)
from framework.spark.startup_errors import find_java, java_version, start_failure
from framework.spark.tuning import _TUNED, tune_for_rows

ROOT = Path(__file__).resolve().parents[3]

OPENING = """
import os
from framework.errors import MainstemError
from framework.spark.session import open_session
class Pipeline:
    pipeline = "shop"
try:
    open_session(Pipeline())
except MainstemError as error:
    print(error.condition)
"""


class Pipeline:
    pipeline = "shop"


def fake_java(folder: Path, script: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(java)


def test_environment_chooses_master_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTEM_MASTER", "local[1]")
    monkeypatch.setenv("MAINSTEM_DRIVER_MEMORY", "3g")

    settings = local_settings("shop")

    assert (settings["spark.master"], settings["spark.driver.memory"]) == ("local[1]", "3g")
    assert int(settings["spark.sql.shuffle.partitions"]) >= 2


@pytest.mark.parametrize(
    ("memory", "tables"),
    [("2g", 128), ("2048m", 128), ("16GB", 1024), ("2147483648", 128), ("512m", 32), ("a lot", 128)],
)
def test_open_tables_take_a_fifth_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, memory: str, tables: int
) -> None:
    monkeypatch.setenv("MAINSTEM_DRIVER_MEMORY", memory)
    assert local_settings("shop")[OPEN_TABLES] == str(tables)


def first_heap(*options: str) -> int:
    """The bytes of the heap that a JVM with these options begins with."""
    command = [str(find_java()), *options, "-XX:+PrintFlagsFinal", "-version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"InitialHeapSize\s+=\s+(\d+)", shown)
    return int(found[1]) if found else 0


def test_the_heap_begins_with_more_than_the_default_and_with_no_more_than_it_may_have() -> None:
    own = local_settings("shop")["spark.driver.extraJavaOptions"].split()
    share = next(option for option in own if option.startswith("-XX:InitialRAMPercentage="))
    assert first_heap("-Xmx2g", share) > min(first_heap("-Xmx2g"), 1024**3 - 1)
    for limit in ("-Xmx300m", "-XX:MaxHeapSize=300m"):
        assert first_heap("-Xmx2g", share, limit) <= 300 * 1024**2


def test_a_session_does_not_keep_all_tables_open_that_it_has_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")
    most = int(str(spark.conf.get(OPEN_TABLES)))
    spark.range(1).write.format("delta").save(str(tmp_path / "0"))
    for number in range(1, most + 8):
        shutil.copytree(tmp_path / "0", tmp_path / str(number))
        assert spark.read.format("delta").load(str(tmp_path / str(number))).columns == ["id"]
    delta: Any = cast(Any, spark)._jvm.org.apache.spark.sql.delta
    assert most / 2 < getattr(getattr(delta, "DeltaLog$"), "MODULE$").cacheSize() <= most


@pytest.mark.parametrize(
    ("log", "condition"),
    [
        (":: UNRESOLVED DEPENDENCIES ::\n", "JARS_UNAVAILABLE"),
        ("java.net.BindException: Can't assign requested address\n", "PORT_UNAVAILABLE"),
        ("OpenJDK 64-Bit Server VM warning: Could not reserve enough space\n", "MEMORY_UNAVAILABLE"),
        ("java.io.IOException: No space left on device\n", "DISK_FULL"),
        ("javax.security.auth.login.LoginException: invalid null input: name\n", "USER_WITHOUT_NAME"),
        ("Exception in thread main: so what\n\tat a.b.c(D.java:1)\n", "SPARK_NOT_STARTED"),
        ("", "SPARK_NOT_STARTED"),
    ],
)
def test_failures_of_the_start_are_translated(
    log: str, condition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, "echo 'openjdk version \"17.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    error = start_failure(log)

    assert error.condition == condition
    assert "\tat " not in str(error)


@pytest.mark.parametrize(
    ("version", "number"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)]
)
def test_java_version_is_its_feature_release(version: str, number: int, tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")) == number


@pytest.mark.parametrize(
    ("script", "condition"),
    [(None, "JAVA_NOT_FOUND"), ("echo 'openjdk version \"11.0.2\"' >&2; exit 1", "JAVA_TOO_OLD")],
)
def test_session_without_a_fit_java_says_so(script: str | None, condition: str, tmp_path: Path) -> None:
    if script is not None:
        fake_java(tmp_path, script)
    environ = {**os.environ, "JAVA_HOME": str(tmp_path), "MAINSTEM_MASTER": "local[1]"}

    done = subprocess.run(
        [sys.executable, "-c", OPENING], env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == condition
    assert done.stderr == ""


def test_session_has_what_results_depend_on(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.variable.substitute") == "false"
    assert open_session(Pipeline()) is spark
    assert jvm_process(spark) is not None
    assert known_jars(packages(kafka=False)) is not None


def test_workers_have_what_results_depend_on_whatever_the_cluster_began_with(spark: SparkSession) -> None:
    of_cluster = spark._jsc.sc().conf()  # type: ignore[union-attr]
    of_cluster.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        workers = worker_sessions(spark, 2)
    finally:
        of_cluster.set("spark.sql.session.timeZone", "UTC")

    assert [worker.conf.get("spark.sql.session.timeZone") for worker in workers] == ["UTC", "UTC"]
    assert len({id(worker) for worker in workers}) == 2


_OTHER_RESULTS = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parser.escapedStringLiterals": "true",
}
"""Settings of a cluster with which rows would be missing, or values be others."""


def test_files_of_rows_that_cannot_be_read_are_an_error_whatever_the_session_ignores(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    (tmp_path / "rows" / "part-cut.parquet").write_bytes(file.read_bytes()[:-30])
    other = spark.newSession()
    for key, value in _OTHER_RESULTS.items():
        other.conf.set(key, value)

    with pytest.raises(Exception, match="part-cut"):
        read_parquet(other, "id bigint", str(tmp_path / "rows")).collect()

    for session in worker_sessions(other, 2):
        assert session.conf.get("spark.sql.files.ignoreCorruptFiles") == "false"
        assert session.sql("SELECT TIMESTAMP '2024-02-29 10:00:00' AS at, '\\t' AS t").dtypes[0] == (
            "at",
            "timestamp",
        )
        assert session.sql("SELECT '\\t'").first() == ("\t",)


def test_a_session_that_is_taken_over_substitutes_nothing_else_names_with_references_are_refused(
    spark: SparkSession,
) -> None:
    other = spark.newSession()
    other.conf.set(SUBSTITUTES, "true")
    assert other.sql("SELECT '${spark.app.name}'").first() != ("${spark.app.name}",)
    with pytest.raises(MainstemError, match="NAME_SUBSTITUTED"):
        refuse_references(other, ["id", "${env:PATH}"])
    refuse_references(other, ["id", "$x", "{x}"])
    (worker,) = worker_sessions(other, 1)
    for session in (worker, spark):
        refuse_references(session, ["id", "${env:PATH}"])
        assert session.sql("SELECT '${spark.app.name}'").first() == ("${spark.app.name}",)


def test_session_of_another_is_not_stopped(spark: SparkSession) -> None:
    close_session(open_session(Pipeline()))
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(lambda: open_session(Pipeline())).result() is spark
    close_session(spark)
    close_session(spark)

    assert spark.range(2).count() == 2


def test_workers_beside_a_session_of_somebody_else_have_what_that_was_given(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.unset(_TUNED)  # as if Mainstem had not started it
    other.conf.set("fs.azure.account.key.shop", "a key")
    other.conf.set("spark.sql.shuffle.partitions", "7")
    tune_for_rows(other, 1)

    of_other, of_own = worker_sessions(other, 2)[1], worker_sessions(spark, 2)[1]

    found = [session.conf.get("fs.azure.account.key.shop", None) for session in (of_other, of_own)]
    assert found == ["a key", None]
    assert (of_other.conf.get("spark.sql.shuffle.partitions"), of_other is other) == ("7", False)
    assert other.conf.get("spark.sql.shuffle.partitions") == "1"


def test_times_of_the_hour_that_occurs_twice_come_back_as_they_were(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    open_session(Pipeline())

    instants = [f"2024-11-03T0{hour}:30:00Z" for hour in (4, 5, 6, 7)]
    given = (
        spark.createDataFrame([(text,) for text in instants], "text string")
        .selectExpr("text", "timestamp(text) as at")
        .coalesce(1)
    )
    parsed = spark.createDataFrame(
        [(row["text"], row["at"]) for row in given.collect()], "text string, at timestamp"
    )

    assert parsed.where("at <> timestamp(text)").isEmpty()
    assert [row["at"].hour for row in parsed.collect()] == [4, 5, 6, 7]


def test_workers_import_the_layers(spark: SparkSession, tmp_path: Path) -> None:
    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import framework

        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"place": [os.path.dirname(os.path.dirname(framework.__file__))]}
            )

    frame = spark.range(1).coalesce(1).mapInArrow(seen, "place string")
    frame.write.format("delta").save(str(tmp_path / "places"))

    assert spark.read.format("delta").load(str(tmp_path / "places")).first() == (str(ROOT),)


def test_streams_that_have_ended_leave_no_threads(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "rows"))
    seen: list[int] = []

    def stream(name: str) -> None:
        writer = (
            spark.readStream.schema("id long")
            .parquet(str(tmp_path / "rows"))
            .writeStream.trigger(availableNow=True)
        )
        place = str(tmp_path / name)
        writer.option("checkpointLocation", place).foreachBatch(
            lambda batch, _: seen.append(batch.count())
        ).start().awaitTermination()

    stream("first")
    release_streams(spark)
    before = {thread.ident for thread in threading.enumerate()}
    for name in ("second", "third", "fourth"):
        stream(name)
    release_streams(spark)
    deadline = time.monotonic() + 20
    while (
        more := {thread.ident for thread in threading.enumerate()} - before
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (seen, more) == ([1] * 4, set())
    stream("fifth")
    assert len(seen) == 5
