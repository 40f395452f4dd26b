"""Files that become part of a table without a copy: their rows, their statistics, once, and where not."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from framework.lakehouse import file_commits
from framework.lakehouse.commits import OVERWRITE, newest_commits, operations
from framework.lakehouse.file_commits import (
    Commit,
    _newest_version,
    commit_files,
    replace_files,
    transaction_of,
)
from framework.lakehouse.lakehouse import Lakehouse, Transaction, sql_name
from framework.lakehouse.local_tables import DataFile
from framework.spark.session import is_connect

NAME = "silver/changes"
SCHEMA = T.StructType(
    [
        T.StructField("number", T.LongType()),
        T.StructField("text", T.StringType()),
        T.StructField("at", T.TimestampType()),
    ]
)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    lake.create(spark, NAME, SCHEMA, {"delta.dataSkippingStatsColumns": "number,text,at"})
    return lake


def written(folder: Path, *rows: tuple[int | None, str | None], name: str = "rows") -> str:
    """A file with a column that the table does not have, in row groups of two rows."""
    file = folder / f"{name}.parquet"
    table = pa.table(
        {
            "number": pa.array([number for number, _ in rows], pa.int64()),
            "text": pa.array([text for _, text in rows], pa.string()),
            "at": pa.array([1_700_000_000_000_001] * len(rows), pa.timestamp("us", tz="UTC")),
            "_own": pa.array(["unseen"] * len(rows)),
        }
    )
    parquet.write_table(table, file, row_group_size=2)
    return str(file)


def commit(spark: SparkSession, lake: Lakehouse, *files: str, version: int = 1) -> bool:
    once = Commit(Transaction("a", version), '{"batch": 1}')
    return commit_files(spark, lake.location(NAME), SCHEMA, files, once)


def rows_of(spark: SparkSession, lake: Lakehouse) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.read(spark, NAME).select("number", "text").collect())


def added(lake: Lakehouse) -> dict[str, Any]:
    """What the newest commit says of its only file."""
    newest = max(Path(lake.location(NAME), "_delta_log").glob("*.json"))
    (add,) = (json.loads(line)["add"] for line in newest.read_text().splitlines() if '"add"' in line)
    return dict(add)


def test_the_rows_of_files_are_rows_of_the_table_and_its_columns_are_all_that_is_seen(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    files = [written(tmp_path, (1, "a"), name="one"), written(tmp_path, (2, "b"), name="other")]
    assert commit(spark, lake, *files)
    assert rows_of(spark, lake) == [(1, "a"), (2, "b")]
    assert lake.read(spark, NAME).columns == SCHEMA.names
    assert not list(tmp_path.glob("*.parquet"))
    newest = next(newest_commits(spark, lake.location(NAME)))
    assert newest["userMetadata"] == '{"batch": 1}'


def test_a_new_thread_commits_to_a_table_of_which_the_newest_version_has_no_checksum(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    assert commit(spark, lake, written(tmp_path, (1, "a")), version=1)
    jvm: Any = spark._jvm
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    logs.forTable(spark._jsparkSession, lake.location(NAME)).checkpoint()
    for checksum in Path(lake.location(NAME), "_delta_log").glob("*.crc"):
        checksum.unlink()
    logs.clearCache()
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    sessions.clearActiveSession()  # a thread of the JVM has none when it starts
    try:
        assert commit(spark, lake, written(tmp_path, (2, "b")), version=2)
    finally:
        sessions.setActiveSession(spark._jsparkSession)
    assert rows_of(spark, lake) == [(1, "a"), (2, "b")]


def test_files_of_one_transaction_are_committed_once(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    for _ in range(2):
        assert commit(spark, lake, written(tmp_path, (1, "a")))
    assert rows_of(spark, lake) == [(1, "a")]
    assert commit(spark, lake, written(tmp_path, (1, "a")), version=2)
    assert rows_of(spark, lake) == [(1, "a"), (1, "a")]
    lake.append(spark.createDataFrame([], SCHEMA), NAME, Transaction("a", 2))
    assert rows_of(spark, lake) == [(1, "a"), (1, "a")]


def test_a_transaction_that_another_process_commits_meanwhile_is_not_committed_twice(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit(spark, lake, written(tmp_path, (0, "first")), version=0)
    add = file_commits._add

    def meet_another(file: Path, statistics: tuple[str, ...]) -> dict[str, Any]:
        lake.append(spark.createDataFrame([(1, "other", None)], SCHEMA), NAME, Transaction("a", 1))
        return add(file, statistics)

    with monkeypatch.context() as patch:
        patch.setattr(file_commits, "_add", meet_another)
        with pytest.raises(Exception, match=r"ConcurrentTransaction|CONCURRENT_TRANSACTION"):
            commit(spark, lake, written(tmp_path, (1, "mine")))
    assert commit(spark, lake, written(tmp_path, (1, "mine")))
    assert rows_of(spark, lake) == [(0, "first"), (1, "other")]


def test_a_file_takes_the_place_of_all_rows(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = lake.location(NAME)
    spark.range(3).selectExpr("id AS number", "'old' AS text", "now() AS at").repartition(2).write.format(
        "delta"
    ).mode("append").save(location)
    assert commit(spark, lake, written(tmp_path, (7, "old")), version=1)
    for rows in ([(1, "a"), (2, "b")], [], [(3, "c")]):
        assert replace_files(spark, location, SCHEMA, written(tmp_path, *rows) if rows else None)
        assert rows_of(spark, lake) == rows
    for place in (location, Path(location).as_uri()):
        done = operations(spark, place, 0, datetime.now(UTC))
        assert done == {"WRITE", OVERWRITE}
    takes = file_commits._remove

    def another_process_commits(file: DataFile, place: str) -> dict[str, Any]:
        monkeypatch.setattr(file_commits, "_remove", takes)
        assert commit(spark, lake, written(tmp_path, (8, "meanwhile"), name="other"), version=2)
        return takes(file, place)

    monkeypatch.setattr(file_commits, "_remove", another_process_commits)
    with pytest.raises(Exception, match="DELTA_CONCURRENT_APPEND"):
        replace_files(spark, location, SCHEMA, written(tmp_path, (4, "d")))
    assert rows_of(spark, lake) == [(3, "c"), (8, "meanwhile")]


def test_a_file_takes_the_place_of_the_rows_of_one_commit_only(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    location = lake.location(NAME)
    assert commit(spark, lake, written(tmp_path, (1, "read")), version=1)
    read = lake.newest_commit(spark, NAME)
    assert commit(spark, lake, written(tmp_path, (2, "meanwhile")), version=2)
    file = written(tmp_path, (1, "again"))
    assert not replace_files(spark, location, SCHEMA, file, read)
    assert rows_of(spark, lake) == [(1, "read"), (2, "meanwhile")]
    assert replace_files(spark, location, SCHEMA, file, lake.newest_commit(spark, NAME))
    assert rows_of(spark, lake) == [(1, "again")]


@pytest.mark.parametrize("has_checksums", [True, False])
def test_the_versions_of_many_applications_are_told_apart(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path, has_checksums: bool
) -> None:
    jvm: Any = spark._jvm
    for number in range(3):
        once = Commit(Transaction(f"app{number}", number), None)
        assert commit_files(spark, lake.location(NAME), SCHEMA, [written(tmp_path, (number, None))], once)
    if not has_checksums:
        for checksum in Path(lake.location(NAME), "_delta_log").glob("*.crc"):
            checksum.unlink()
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    attempts = [transaction_of(spark, lake.location(NAME)) for _ in range(4)]
    assert [_newest_version(jvm, attempt, f"app{n}") for n, attempt in enumerate(attempts)] == [0, 1, 2, -1]


def test_a_commit_asks_the_jvm_as_often_for_a_hundred_sources_as_for_one(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.clientserver import JavaClient

    jvm: Any = spark._jvm
    location, sent = lake.location(NAME), JavaClient.send_command

    def calls() -> int:
        """How often Python asks the JVM for the versions of two applications, the last one and a new one."""
        attempt, commands = transaction_of(spark, location), []

        def counted(client: Any, command: str, *more: Any, **options: Any) -> Any:
            if not command.startswith("m\n"):  # objects of the JVM that end
                commands.append(command)
            return sent(client, command, *more, **options)

        with monkeypatch.context() as patch:
            patch.setattr(JavaClient, "send_command", counted)
            found = [_newest_version(jvm, attempt, f"source{number}") for number in (last, 1_000)]
        assert found == [last + 1, -1]
        return len(commands)

    last = 0
    commit_files(spark, location, SCHEMA, [written(tmp_path, (0, "a"))], Commit(Transaction("source0", 1)))
    calls()
    for_one = calls()

    last = 99
    attempt = transaction_of(spark, location)
    many = [file_commits.once_of(Transaction(f"source{number}", number + 1)) for number in range(1, 100)]
    file_commits.commit_actions(jvm, attempt, many, "Append", None)

    assert calls() == for_one


def listed_at(spark: SparkSession, lake: Lakehouse) -> int:
    """When Delta has last looked for new commits of the table, in milliseconds."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, lake.location(NAME))
    return int(log.getCapturedSnapshot().updateTimestamp())


def let_the_clock_go_on() -> None:
    """Wait until two looks at a log have different times, which Delta keeps in milliseconds."""
    time.sleep(0.01)


def test_the_log_is_not_listed_where_the_version_at_hand_is_the_newest(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    for version in range(12):  # the tenth has a checkpoint
        assert commit(spark, lake, written(tmp_path, (version, None)), version=version)
        before = listed_at(spark, lake)
        let_the_clock_go_on()
        attempt = transaction_of(spark, lake.location(NAME))
        assert attempt.readVersion() == version + 1
        has_new_checkpoint = version + 1 == 10  # which Delta looks for
        assert (listed_at(spark, lake) > before) == has_new_checkpoint, version
    newest = Path(lake.location(NAME), "_delta_log", f"{12:020d}.json")
    shutil.copy(newest, newest.with_name(f"{13:020d}.json"))  # as another process does
    let_the_clock_go_on()
    assert transaction_of(spark, lake.location(NAME)).readVersion() == 13
    assert listed_at(spark, lake) > before


def test_a_version_at_hand_knows_the_newest_checkpoint(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    """Else each checkpoint reads all commits since the process began, and fails once one of them is gone."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, lake.location(NAME))
    for version in range(1, 36):
        assert commit(spark, lake, written(tmp_path, (version, "a")), version=version)
        assert log.unsafeVolatileSnapshot().logSegment().deltas().size() <= 11, version


def test_files_go_to_the_table_that_is_there_now(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    location = Path(lake.location(NAME))
    shutil.copytree(location, tmp_path / "backup")
    for version in (1, 2):
        assert commit(spark, lake, written(tmp_path, (version, "lost")), version=version)
    shutil.rmtree(location)
    shutil.copytree(tmp_path / "backup", location)
    assert commit(spark, lake, written(tmp_path, (1, "again")), version=1)
    assert rows_of(spark, lake) == [(1, "again")]
    assert commit(spark, lake, written(tmp_path, (2, "lost, too")), version=2)
    log, newest = location / "_delta_log", f"{2:020d}.json"
    shutil.rmtree(location)
    lake.create(spark, NAME, SCHEMA, {"delta.dataSkippingStatsColumns": "number,text,at"})
    for version in (1, 2):  # by another process, which has its own view of the log
        (log / f"{version:020d}.json").write_text('{"commitInfo":{"timestamp":0,"operation":"WRITE"}}\n')
    assert (log / newest).is_file()
    assert commit(spark, lake, written(tmp_path, (3, "anew")), version=1)
    assert rows_of(spark, lake) == [(3, "anew")]


def test_the_statistics_are_bounds_that_skip_no_row(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    longest = "z" * 4_000
    rows = [(5, "ä"), (3, "b"), (None, None), (None, None), (-7, "\U0001f98a"), (9, "Z")]
    assert commit(spark, lake, written(tmp_path, *rows))
    assert json.loads(added(lake)["stats"]) == {
        "numRecords": 6,
        "minValues": {"number": -7, "text": "Z", "at": "2023-11-14T22:13:20.000Z"},
        "maxValues": {"number": 9, "text": "\U0001f98a", "at": "2023-11-14T22:13:20.001Z"},
        "nullCount": {"number": 2, "text": 2, "at": 0},
    }
    assert commit(spark, lake, written(tmp_path, (1, longest), (2, None)), version=2)
    stats = json.loads(added(lake)["stats"])
    assert stats["minValues"]["text"] == "z" * 64
    assert stats["maxValues"]["text"] == "z" * 64 + "\U0010ffff"
    read = lake.read(spark, NAME)
    for condition, count in (
        ("number = -7", 1), ("number > 9", 0), ("number IS NULL", 2), ("text IS NULL", 3), ("text = 'Z'", 1),
        ("text = '\U0001f98a'", 1), ("text >= 'zz'", 3), (f"text = '{longest}'", 1),
        (f"text > '{longest}'", 2),
        ("at > timestamp_micros(1700000000000000)", 8), ("at < timestamp_micros(1700000000000002)", 8),
    ):  # fmt: skip
        assert read.where(condition).count() == count, condition


def test_totals_that_delta_takes_from_statistics_are_those_of_the_rows(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path
) -> None:
    assert commit(spark, lake, written(tmp_path, (5, "b"), (None, None), (-7, "a")))
    totals = (
        "count(*), min(number), max(number), min(text), max(text), min(unix_micros(at)), max(unix_micros(at))"
    )
    at = 1_700_000_000_000_001
    for select in (
        totals,
        "count(*)",
        "max(number)",
        "min(number), max(number)",
        "max(at), max(number)",
        "max(at)",
    ):
        found = spark.sql(f"SELECT {select} FROM {sql_name(lake.location(NAME))}").first()
        assert found is not None
        by_rows = lake.read(spark, NAME).where("rand() >= 0").selectExpr(*select.split(", ")).first()
        assert found == by_rows, select
    found = spark.sql(f"SELECT {totals} FROM {sql_name(lake.location(NAME))}").first()
    assert found is not None
    assert tuple(found) == (3, -7, 5, "a", "b", at, at)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE {table} ADD COLUMNS (more int)",
        "ALTER TABLE {table} ADD CONSTRAINT positive CHECK (number > 0)",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    ],
)
def test_a_table_that_needs_more_than_a_file_gets_none(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path, statement: str
) -> None:
    spark.sql(statement.format(table=sql_name(lake.location(NAME))))
    check_nothing_is_taken(spark, lake, tmp_path)


@pytest.mark.parametrize(
    "columns",
    [
        "(number bigint, text string, at timestamp) USING delta PARTITIONED BY (text)",
        "(number int, text string, at timestamp) USING delta",
    ],
    ids=["partitions", "another type"],
)
def test_a_table_of_another_shape_gets_no_file(
    spark: SparkSession, lake: Lakehouse, tmp_path: Path, columns: str
) -> None:
    shutil.rmtree(lake.location(NAME))
    spark.sql(f"CREATE TABLE {sql_name(lake.location(NAME))} {columns}")
    check_nothing_is_taken(spark, lake, tmp_path)


def check_nothing_is_taken(spark: SparkSession, lake: Lakehouse, folder: Path) -> None:
    file = written(folder, (1, "a"))
    assert not commit(spark, lake, file)
    assert Path(file).is_file()
    assert rows_of(spark, lake) == []
