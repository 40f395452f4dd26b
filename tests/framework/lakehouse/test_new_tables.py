"""A first commit that this process writes is the one that Delta would write, or Delta writes it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from framework.lakehouse import file_commits, new_tables
from framework.lakehouse.file_commits import Commit, commit_files, takes_files
from framework.lakehouse.lakehouse import Lakehouse, Transaction
from framework.lakehouse.new_tables import NewTable, create_table
from framework.spark.session import is_connect

SCHEMA = T.StructType([T.StructField("number", T.LongType()), T.StructField("text", T.StringType())])
TABLE = NewTable(SCHEMA, 'What "it" is: größer.', {"delta.dataSkippingStatsColumns": "number"})
OWN = (
    "timestamp",
    "engineInfo",
    "txnId",
    "id",
    "createdTime",
    "modificationTime",
    "operationMetrics",
    "tags",
)
"""What two commits do not share, and the tags of a file, which nobody sets."""
FEATURES = "spark.databricks.delta.properties.defaults.enableDeletionVectors"
STALENESS = "spark.databricks.delta.stalenessLimit"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")
    return tmp_path


def rows_file(folder: Path, count: int) -> str:
    file = folder / f"{count}.parquet"
    rows = pa.table(
        {"number": range(count), "text": pa.array([f"text {number}" for number in range(count)], pa.string())}
    )
    parquet.write_table(rows, file, compression="none")
    return str(file)


def create(spark: SparkSession, place: Path, counts: tuple[int, ...], commit: Commit) -> None:
    place.mkdir()
    files = [rows_file(place.parent, count) for count in counts]
    assert create_table(spark, str(place / "table"), TABLE, files, commit)
    assert not [file for file in files if Path(file).exists()]


def log_of(place: Path) -> Path:
    return place / "table" / "_delta_log"


def said(place: Path, ending: str) -> list[Any]:
    """What a file of the first commit says, without what no two commits share."""
    text = (log_of(place) / f"{0:020d}.{ending}").read_text(encoding="utf-8")
    return [comparable(json.loads(line)) for line in text.splitlines()]


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(comparable, value), key=str)
    if not isinstance(value, dict):
        return value
    kept = {name: comparable(each) for name, each in value.items() if name not in OWN}
    return kept | ({"path": "a file"} if "stats" in value else {})


def is_valid(spark: SparkSession, place: Path) -> bool:
    """Whether the checksum says what Delta finds when it reads the commits."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    snapshot = log.forTableWithSnapshot(spark._jsparkSession, str(place / "table"))._2()
    assert snapshot.checksumOpt().isDefined()
    return bool(snapshot.validateChecksum(jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})))


@pytest.mark.parametrize(
    ("counts", "commit"),
    [
        ((), Commit()),
        ((), Commit(Transaction("a", 3), '{"batch": 1}')),
        ((3,), Commit(Transaction("a", 3))),
        ((2, 5_000, 0), Commit(note='{"batch": 1}')),
    ],
)
def test_the_first_commit_and_its_checksum_are_those_of_delta(
    spark: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    counts: tuple[int, ...],
    commit: Commit,
) -> None:
    ours, theirs = folder / "ours", folder / "theirs"
    create(spark, ours, counts, commit)
    monkeypatch.setattr(new_tables, "_write_first", lambda *given: False)
    create(spark, theirs, counts, commit)
    assert json.loads(log_of(ours).joinpath(f"{0:020d}.json").read_text().splitlines()[0])["commitInfo"][
        "engineInfo"
    ].startswith("Mainstem")
    for ending in ("json", "crc"):
        assert said(ours, ending) == said(theirs, ending)
    assert is_valid(spark, ours)
    assert {file.name for file in log_of(ours).iterdir() if file.is_file()} == {
        f"{0:020d}.json",
        f"{0:020d}.crc",
    }


def test_rows_can_follow_at_once_and_the_checksum_goes_on(spark: SparkSession, folder: Path) -> None:
    create(spark, folder / "lake", (3,), Commit(Transaction("a", 1)))
    location = str(folder / "lake" / "table")
    assert takes_files(spark, location, SCHEMA)
    for version, count in ((1, 4), (2, 5)):
        files = [rows_file(folder, count)]
        assert commit_files(spark, location, SCHEMA, files, Commit(Transaction("a", version)))
    assert spark.read.format("delta").load(location).count() == 3 + 5
    checksum = json.loads((log_of(folder / "lake") / f"{1:020d}.crc").read_text())
    assert len(checksum["allFiles"]) == checksum["numFiles"] == 2
    assert is_valid(spark, folder / "lake")


@pytest.mark.parametrize("fault", [PermissionError, OSError])
def test_delta_writes_the_commit_where_the_disk_has_no_links(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, fault: type[OSError]
) -> None:
    def refuse(*given: Any) -> None:
        raise fault("no links here")

    monkeypatch.setattr(os, "link", refuse)
    create(spark, folder / "lake", (3,), Commit())
    assert is_valid(spark, folder / "lake")
    assert spark.read.format("delta").load(str(folder / "lake" / "table")).count() == 3


def test_delta_writes_the_commit_of_a_table_with_features(spark: SparkSession, folder: Path) -> None:
    spark.conf.set(FEATURES, "true")
    try:
        create(spark, folder / "lake", (3,), Commit())
    finally:
        spark.conf.unset(FEATURES)
    text = (log_of(folder / "lake") / f"{0:020d}.json").read_text()
    assert "deletionVectors" in text
    assert '"engineInfo":"Apache-Spark' in text


def test_a_checksum_that_a_killed_process_has_left_says_nothing_of_the_new_table(
    spark: SparkSession, folder: Path
) -> None:
    log = log_of(folder / "lake")
    log.mkdir(parents=True)
    (log / f"{0:020d}.crc").write_text('{"numFiles": 7}')
    assert create_table(spark, str(folder / "lake" / "table"), TABLE)
    assert is_valid(spark, folder / "lake")


def test_a_checksum_of_hadoop_that_is_left_of_a_removed_log_does_not_make_the_table_unreadable(
    spark: SparkSession, folder: Path
) -> None:
    log = log_of(folder / "lake")
    log.mkdir(parents=True)
    for ending in ("json", "crc"):
        (log / f".{0:020d}.{ending}.crc").write_bytes(b"crc\0\0\0\2\0abcd")
    location = str(folder / "lake" / "table")
    assert create_table(spark, location, TABLE, [rows_file(folder, 3)])
    assert is_valid(spark, folder / "lake")
    assert spark.read.format("delta").load(location).count() == 3


def test_a_checksum_of_a_removed_log_is_gone_before_the_new_commit_is_there(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, write = log_of(folder / "lake"), new_tables._write_once
    log.mkdir(parents=True)
    (log / f"{0:020d}.crc").write_text('{"numFiles": 7}')

    def die_behind_the_commit(file: Path, rows: Any) -> None:
        write(file, rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(new_tables, "_write_once", die_behind_the_commit)
    with pytest.raises(KeyboardInterrupt):
        create_table(spark, str(folder / "lake" / "table"), TABLE)
    assert [file.name for file in log.iterdir() if file.is_file()] == [f"{0:020d}.json"]


def test_a_session_that_takes_older_versions_of_tables_finds_a_new_one(
    spark: SparkSession, folder: Path
) -> None:
    spark.conf.set(STALENESS, "1h")
    try:
        create(spark, folder / "lake", (3,), Commit())
        assert spark.read.format("delta").load(str(folder / "lake" / "table")).count() == 3
    finally:
        spark.conf.unset(STALENESS)


def test_a_link_that_is_there_although_the_server_said_otherwise_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)  # NFS repeats a request whose answer is lost

    monkeypatch.setattr(os, "link", link_twice)
    new_tables._write_once(tmp_path / "file", [{"a": 1}])
    assert (tmp_path / "file").read_text(encoding="utf-8") == '{"a": 1}\n'
    with pytest.raises(FileExistsError):
        new_tables._write_once(tmp_path / "file", [{"a": 2}])
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_nothing_happens_where_another_process_has_created_the_table_meanwhile(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, given = Lakehouse(str(folder / "lakehouse")), rows_file(folder, 3)
    location, move = lake.location("ops/runs"), file_commits.moved_files

    def create_first(*moved: Any) -> list[dict[str, Any]]:
        monkeypatch.undo()
        assert create_table(spark, location, TABLE)
        return move(*moved)

    monkeypatch.setattr(new_tables, "moved_files", create_first)
    assert not create_table(spark, location, TABLE, [given])
    assert Path(given).exists()
    assert lake.read(spark, "ops/runs").count() == 0
    assert not list(Path(location).glob("*.parquet"))
