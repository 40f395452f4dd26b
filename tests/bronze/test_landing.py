from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from bronze import job
from bronze.checkpoint import Checkpoint, load_state, messages_table, open_checkpoint
from bronze.files import sections
from bronze.files.file_log import log_table
from bronze.files.listing import Clock
from bronze.job import SourceResult, land_sources, run_bronze
from bronze.landing import batch_lander, count_landed
from bronze.source import Feed
from bronze.sources import files
from bronze.sources.files import KIND, discover, parts, peek
from framework.config.model import load_config
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import MainstemError, as_raised
from framework.lakehouse import commits, log_upkeep
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.progress import Progress
from framework.spark.python_workers import workers_ahead
from framework.spark.session import is_connect
from tests.bronze.conftest import run_source

Drop = Callable[..., Path]
Landed = Callable[..., list[tuple[object, ...]]]


def condition(result: SourceResult) -> str | None:
    return result.error.condition if result.error else None


def log_batch(spark: SparkSession, feed: Feed) -> Callable[[str], None]:
    """A function that lands the whole log as batch 0 of a generation, as a stream would."""
    feed.lake.create(spark, MESSAGES_TABLE, MESSAGES)

    def land(generation: str) -> None:
        batch_lander(feed, KIND, Checkpoint(generation, is_reset=False))(
            feed.lake.read(spark, log_table(feed.name)), 0
        )

    return land


@pytest.mark.slow
def test_a_large_file_lands_in_row_groups_that_silver_decodes_in_parallel(
    spark: SparkSession, feed: Feed, drop: Drop
) -> None:
    lines = (os.urandom(1_000).hex().encode() for _ in range(12_000))
    drop("large.txt", b"\n".join(lines))
    run_source(spark, feed)
    [file] = Path(feed.lake.location(MESSAGES_TABLE)).glob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_row_groups > 1


@pytest.mark.slow
def test_the_sections_of_a_large_file_land_side_by_side_with_the_numbers_of_their_lines(
    spark: SparkSession, feed: Feed, drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "SECTION_BYTES", 1_000)
    monkeypatch.setattr(files, "_FEW_BYTES", 0)
    drop("large.txt", b"\n".join(b"message %04d" % number for number in range(1, 301)))
    run_source(spark, feed)
    found = feed.lake.read(spark, MESSAGES_TABLE)
    rows = found.select("offset", "line", "value").orderBy("offset").collect()
    assert rows == [(number, number, b"message %04d" % number) for number in range(1, 301)]
    assert len(list(Path(feed.lake.location(MESSAGES_TABLE)).glob("*.parquet"))) == 4


def test_messages_land_once_with_exact_bytes(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b'{"a":1}\r\n\n  \n\xff\xfe')
    drop("sub/数量 [1].txt.gz", gzip.compress(b"g1\n") + gzip.compress(b"g2"))
    drop("empty.txt", b"")
    drop("_hidden.txt", b"no")

    first, second = run_source(spark, feed), run_source(spark, replace(feed, run_id="run-2"))
    drop("older.txt", b"late", modified=1)
    third = run_source(spark, replace(feed, run_id="run-3"))

    assert [(r.files, r.messages, r.error) for r in (first, second, third)] == [
        (3, 5, None),
        (0, 0, None),
        (1, 1, None),
    ]
    assert landed(
        feed, "file", "topic", "partition", "offset", "line", "value", "key", "timestamp", "headers"
    ) == [
        ("a.txt", "a.txt", 0, 1, 1, b'{"a":1}', None, None, None),
        ("a.txt", "a.txt", 0, 3, 3, b"  ", None, None, None),
        ("a.txt", "a.txt", 0, 4, 4, b"\xff\xfe", None, None, None),
        ("older.txt", "older.txt", 0, 1, 1, b"late", None, None, None),
        ("sub/数量 [1].txt.gz", "sub/数量 [1].txt.gz", 0, 1, 1, b"g1", None, None, None),
        ("sub/数量 [1].txt.gz", "sub/数量 [1].txt.gz", 0, 2, 2, b"g2", None, None, None),
    ]


def test_kcat_lines_land_with_their_own_coordinates(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    feed = replace(feed, source=feed.source.model_copy(update={"layout": "kcat"}))
    drop(
        "a.json",
        b'{"topic":"t","partition":2,"offset":7,"ts":1000,"key":"k","headers":["h","v"],"payload":null}\n\n'
        b"bad\n",
    )

    assert run_source(spark, feed).error is None

    rows = landed(
        feed, "topic", "partition", "offset", "key", "value", "headers", "line", "unix_micros(timestamp)"
    )
    assert rows[0] == ("t", 2, 7, b"k", None, [("h", b"v")], 1, 1_000_000)
    assert rows[1][:5] == ("a.json", 0, 3, None, b"bad")
    ((name, _),) = rows[1][5]  # type: ignore[misc]
    assert (name, rows[1][6:]) == ("mainstem.bad_coordinates", (3, None))


def test_run_with_nothing_new_starts_no_job(spark: SparkSession, feed: Feed, drop: Drop) -> None:
    drop("a.txt", b"a")
    run_source(spark, feed)
    table = messages_table(spark, feed.lake)
    state = load_state(spark, feed, table)
    before = feed.lake.history(spark, MESSAGES_TABLE).count()
    spark.sparkContext.setJobGroup("idle", "idle")
    result = run_source(spark, feed)
    assert (result.messages, spark.sparkContext.statusTracker().getJobIdsForGroup("idle")) == (0, [])
    spark.sparkContext.setJobGroup("", "")
    assert (
        load_state(spark, feed, messages_table(spark, feed.lake)),
        feed.lake.history(spark, MESSAGES_TABLE).count(),
    ) == (state, before)


def test_growing_file_is_left_for_the_next_run(
    spark: SparkSession, feed: Feed, landing: Path, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    (landing / "b.txt").write_bytes(b"b1\n")
    now = (landing / "b.txt").stat().st_mtime_ns // 1000

    def grow(_: int) -> None:
        with (landing / "b.txt").open("ab") as file:
            file.write(b"b2\n")

    growing = discover(spark, feed, "", Clock(lambda: now, grow))
    settled = discover(spark, feed, "", Clock(lambda: now, lambda _: None))

    assert (growing.waiting, settled.waiting) == (("b.txt",), ())
    assert run_source(spark, feed).error is None
    assert landed(feed) == [("a.txt", 1, b"a"), ("b.txt", 1, b"b1"), ("b.txt", 2, b"b2")]


def test_file_that_changes_or_is_touched_after_it_was_read_stops_its_source_alone(
    spark: SparkSession, tmp_path: Path, feed: Feed, drop: Drop, landed: Landed
) -> None:
    other = tmp_path / "others"
    other.mkdir()
    config_file = tmp_path / "mainstem.yml"
    config_file.write_text(
        f"pipeline: shop\nlakehouse: {tmp_path}/lakehouse\nsources:\n"
        f"  orders: {{format: plain, files: {tmp_path}/landing}}\n  others: {{format: plain, files: "
        f"{other}}}\n"
    )
    config = load_config(config_file, formats={"plain": type(feed.source.options)})
    path = drop("a.txt", b"a\n")
    assert run_bronze(spark, feed.lake, config, "run-1").messages == 1
    touched = drop("b.txt", b"b\n")
    path.write_bytes(b"a\nmore\n")
    (other / "o.txt").write_bytes(b"o\n")
    os.utime(other / "o.txt", (1, 1))

    result = run_bronze(spark, feed.lake, config, "run-2")

    assert [condition(each) for each in result.sources] == ["FILE_CHANGED", None]
    assert str(path) in result.errors[0].where
    assert landed(feed) == [("a.txt", 1, b"a")]
    assert [each.messages for each in result.sources] == [0, 1]
    path.unlink()
    assert [condition(each) for each in run_bronze(spark, feed.lake, config, "run-3").sources] == [None, None]
    assert landed(feed) == [("a.txt", 1, b"a"), ("b.txt", 1, b"b")]

    os.utime(touched, (5, 5))
    result = run_bronze(spark, feed.lake, config, "run-4")
    assert [condition(each) for each in result.sources] == ["FILE_CHANGED", None]
    assert result.errors[0].found.startswith("1 file that has another modification time than when ")
    assert "the same size" in result.errors[0].found


def test_file_that_was_read_may_be_deleted(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    path = drop("b.txt", b"b\n")
    run_source(spark, feed)
    path.unlink()
    assert run_source(spark, feed).error is None
    drop("c.txt", b"c\n")
    assert run_source(spark, feed).error is None
    assert [row[0] for row in landed(feed)] == ["a.txt", "b.txt", "c.txt"]


def test_file_that_vanishes_before_it_was_read_stops_its_source(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    path = drop("a.txt", b"a\n")
    drop("b.txt", b"b\n")
    discover(spark, feed, "")
    path.unlink()

    stopped = run_source(spark, feed)
    drop("a.txt", b"", modified=7)
    repaired = run_source(spark, feed)

    assert (condition(stopped), condition(repaired)) == ("FILE_VANISHED", None)
    assert landed(feed) == [("b.txt", 1, b"b")]


def test_an_unread_file_that_vanishes_is_missed_also_where_the_folder_is_as_it_was_before(
    spark: SparkSession, feed: Feed, drop: Drop
) -> None:
    drop("a.txt", b"a\n")
    run_source(spark, feed)
    path = drop("b.gz", gzip.compress(b"b" * 1000)[:-3])
    corrupt = run_source(spark, feed)
    path.unlink()
    assert (condition(corrupt), condition(run_source(spark, feed))) == ("FILE_CORRUPT", "FILE_VANISHED")


def test_corrupt_file_lands_nothing_and_may_be_replaced(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    drop("b.gz", gzip.compress(b"b" * 1000)[:-3])

    stopped = run_source(spark, feed)
    second_run = run_source(spark, feed)
    nothing = landed(feed)
    drop("b.gz", gzip.compress(b"b\n"), modified=7)
    repaired = run_source(spark, feed)

    assert (condition(stopped), condition(second_run), nothing) == ("FILE_CORRUPT", "FILE_CORRUPT", [])
    assert stopped.error is not None
    assert "b.gz" in stopped.error.where
    assert (repaired.error, landed(feed)) == (None, [("a.txt", 1, b"a"), ("b.gz", 1, b"b")])


def test_plain_text_under_a_name_of_gzip_lands_by_the_advice(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    path = drop("a.txt.gz", b"a\n")
    error = run_source(spark, feed).error
    assert error is not None
    assert "give it a name without `.gz` and put an empty file in its place" in error.action
    path.rename(path.with_suffix(""))
    drop("a.txt.gz", b"", modified=7)
    assert run_source(spark, feed).error is None
    assert landed(feed) == [("a.txt", 1, b"a")]


def test_file_that_was_empty_when_it_was_read_may_be_filled(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"")
    run_source(spark, feed)
    drop("a.txt", b"a\n", modified=7)
    assert run_source(spark, feed).error is None
    assert landed(feed) == [("a.txt", 1, b"a")]


def test_name_that_is_not_utf8_is_named_with_what_to_do(
    spark: SparkSession, feed: Feed, landing: Path
) -> None:
    path = os.path.join(os.fsencode(landing), b"a\xff.txt")
    with open(path, "wb") as file:
        file.write(b"a")
    os.utime(path, (1, 1))
    result = run_source(spark, feed)
    assert (result.waiting, result.messages, result.error) == ((), 0, None)
    assert [text.partition(": ")[0] for text in result.skipped] == ["a\\xff.txt"]


def test_missing_folder_is_an_error_of_its_source(spark: SparkSession, feed: Feed, landing: Path) -> None:
    landing.rmdir()
    assert condition(run_source(spark, feed)) == "LANDING_FOLDER_MISSING"


def test_repeated_batch_lands_nothing_twice(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    path = drop("a.txt", b"a\n")
    discover(spark, feed, "")
    land = log_batch(spark, feed)

    land("g")
    once = landed(feed, "file", "line", "value", "ingested_at")
    land("g")
    path.unlink()
    land("g")

    assert landed(feed, "file", "line", "value", "ingested_at") == once
    assert count_landed(spark, feed.lake, feed.run_id) == {feed.name: (1, 1)}


def test_all_commits_of_a_run_are_counted_however_many_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lakehouse(tmp_path.as_uri())
    for run_id in ("earlier", "now", "now", "now"):
        note = {"source": "feed", "run_id": run_id, "files": 1}
        lake.append(spark.range(2), MESSAGES_TABLE, None, {"userMetadata": json.dumps(note)})
    monkeypatch.setattr(commits, "_FIRST", 2)
    assert count_landed(spark, lake, "now") == {"feed": (3, 6)}


def test_batch_asked_for_twice_gives_identical_rows(spark: SparkSession, feed: Feed, drop: Drop) -> None:
    drop("a.txt", b"a\nb\n")
    discover(spark, feed, "")
    log = feed.lake.read(spark, log_table(feed.name))
    first, second = (
        [(part.number, part.rows().collect()) for part in parts(log, feed, False)] for _ in range(2)
    )
    assert first == second


def test_large_files_land_with_the_settings_for_many_rows(
    spark: SparkSession, feed: Feed, drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr("bronze.landing.tune_for_rows", lambda session, rows: seen.append(rows))
    drop("plain.txt", b"x" * 3_000_000)
    run_source(spark, feed)
    packed = gzip.compress(os.urandom(1_500_000), mtime=0)
    drop("packed.txt.gz", packed)
    run_source(spark, replace(feed, run_id="run-2"))
    assert seen == [3_000_000 // 500, 8 * len(packed) // 500]


def test_batch_is_cut_into_the_same_commits_when_a_file_was_replaced(
    spark: SparkSession, feed: Feed, drop: Drop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bronze.sources.files.PART_BYTES", 4)
    for name in ("a", "b", "c"):
        drop(name, b"12\n")
    discover(spark, feed, "")
    batch = feed.lake.read(spark, log_table(feed.name)).localCheckpoint()
    whole = [part.number for part in parts(batch, feed, False)]
    drop("b", b"345\n")
    discover(spark, feed, "")
    assert (whole, [part.number for part in parts(batch, feed, False)]) == ([0, 1, 2], [0, 2])


def test_lost_checkpoint_or_log_is_refused_and_begun_anew_on_request(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    run_source(spark, feed)
    shutil.rmtree(feed.checkpoint)
    drop("b.txt", b"b\n")

    refused = run_source(spark, feed)
    Path(f"{feed.checkpoint}.reset").touch()
    reset = run_source(spark, feed)

    assert (condition(refused), condition(reset)) == ("CHECKPOINT_LOST", None)
    assert landed(feed) == [("a.txt", 1, b"a"), ("b.txt", 1, b"b")]
    assert not Path(f"{feed.checkpoint}.reset").exists()

    shutil.rmtree(feed.lake.location(log_table(feed.name)))
    refused = run_source(spark, feed)
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()
    reset = run_source(spark, feed)

    assert (condition(refused), condition(reset)) == ("CHECKPOINT_LOST", None)
    assert landed(feed) == [("a.txt", 1, b"a"), ("b.txt", 1, b"b")]


def test_an_empty_file_that_was_deleted_before_or_after_it_was_read_stops_neither_a_run_nor_a_reset(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    unread, empty = drop("e.txt", b""), drop("f.txt", b"")
    run_killed_before_landing(spark, feed)
    unread.unlink()
    assert run_source(spark, feed).error is None
    assert landed(feed) == [("a.txt", 1, b"a")]

    empty.unlink()
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()
    drop("b.txt", b"b\n")
    assert run_source(spark, feed).error is None
    assert landed(feed) == [("a.txt", 1, b"a"), ("b.txt", 1, b"b")]


def test_a_source_that_reads_another_kind_of_place_is_refused(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    run_source(spark, feed)
    place = feed.lake.location("records")
    changed = _of_table(feed, place)
    with pytest.raises(MainstemError) as refused:
        open_checkpoint(spark, changed, frozenset)
    assert refused.value.condition == "SOURCE_CHANGED"
    assert f"the source reads the table {place} now" in refused.value.found
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()
    assert open_checkpoint(spark, changed, lambda: frozenset({"orders"})).is_reset
    assert landed(feed) == [("a.txt", 1, b"a")]


def test_a_checkpoint_begins_again_with_what_replaced_messages_had(spark: SparkSession, feed: Feed) -> None:
    """Also where a run is killed before its stream has begun."""
    table = _of_table(feed, "raw")
    assert not open_checkpoint(spark, table, frozenset).is_reset
    assert not open_checkpoint(spark, table, frozenset).is_reset
    shutil.rmtree(feed.lake.location(MESSAGES_TABLE))
    assert open_checkpoint(spark, table, frozenset).is_reset
    assert open_checkpoint(spark, table, frozenset).is_reset


def _of_table(feed: Feed, table: str) -> Feed:
    return replace(feed, source=feed.source.model_copy(update={"files": None, "table": table}))


def run_killed_before_landing(spark: SparkSession, feed: Feed) -> None:
    """A run that has logged its files and dies before the first of them lands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bronze.landing.batch_lander", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_source(spark, feed)


def test_a_reset_holds_until_the_stream_has_begun(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")
    run_source(spark, feed)
    shutil.rmtree(feed.checkpoint)
    reset = Path(f"{feed.checkpoint}.reset")
    reset.touch()

    run_killed_before_landing(spark, feed)
    drop("b.txt", b"b\n")
    for _ in range(2):
        assert condition(run_source(spark, feed)) is None
        assert not reset.exists()
    assert landed(feed) == [("a.txt", 1, b"a"), ("b.txt", 1, b"b")]


def test_a_file_that_was_found_before_the_folder_moved_lands(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed
) -> None:
    drop("a.txt", b"a\n")

    run_killed_before_landing(spark, feed)
    elsewhere = f"{feed.source.files}-moved"
    shutil.move(str(feed.source.files), elsewhere)
    moved = replace(feed, source=feed.source.model_copy(update={"files": elsewhere}))
    waiting = peek(spark, moved, "").messages
    assert waiting is not None
    assert [row["value"] for row in waiting.collect()] == [b"a"]
    assert condition(run_source(spark, moved)) is None
    assert landed(moved) == [("a.txt", 1, b"a")]


@pytest.mark.parametrize(
    "content",
    [
        b"1\n\n\n4\nlate\n",
        pytest.param(b"1\n", marks=pytest.mark.slow),
        pytest.param(b"\n\n", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_changed_while_its_log_was_lost_is_refused(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, content: bytes
) -> None:
    drop("same.txt", b"s\n\n")
    gone = drop("gone.txt", b"g\n")
    drop("same.txt.gz", gzip.compress(b"z1\r\n\nz3"))
    changed = drop("a.txt", b"1\n\n\n4\n")
    run_source(spark, feed)
    gone.unlink()
    shutil.rmtree(feed.lake.location(log_table(feed.name)))
    drop("a.txt", content, modified=7)
    shutil.rmtree(feed.checkpoint)
    Path(f"{feed.checkpoint}.reset").touch()

    for _ in range(2):
        refused = run_source(spark, feed).error
        assert refused is not None
        assert (refused.condition, str(changed) in refused.where) == ("FILE_CHANGED", True)
        assert "1 file that has another number of lines" in refused.found
    changed.rename(changed.with_name("new.txt"))
    assert run_source(spark, feed).error is None
    new = [("new.txt", at, line) for at, line in enumerate(content.splitlines(), 1) if line]
    assert [row for row in landed(feed) if row[0] == "new.txt"] == new


def test_replaced_bronze_is_refused_even_when_nothing_is_new(
    spark: SparkSession, feed: Feed, drop: Drop
) -> None:
    drop("a.txt", b"a\n")
    run_source(spark, feed)
    shutil.rmtree(feed.lake.location(MESSAGES_TABLE))
    first = run_source(spark, feed)
    feed.lake.create(spark, MESSAGES_TABLE, MESSAGES)
    drop("b.txt", b"b\n")
    assert [condition(first), condition(run_source(spark, feed))] == ["BRONZE_REPLACED", "BRONZE_REPLACED"]
    assert condition(run_source(spark, feed)) == "BRONZE_REPLACED"


@pytest.mark.parametrize("first", [0, 1])
def test_a_source_with_nothing_new_sees_that_another_one_has_created_bronze_again(
    spark: SparkSession, feed: Feed, drop: Drop, first: int
) -> None:
    """Also where that one is read later in the same run."""
    feeds = [feed, replace(feed, source=feed.source.model_copy(update={"name": "other"}))]
    drop("a.txt", b"a\n")
    land_sources(spark, feeds, Progress())
    shutil.rmtree(feed.lake.location(MESSAGES_TABLE))
    for lost in (feed.checkpoint, feed.lake.location(log_table(feed.name))):
        shutil.rmtree(lost)

    runs = [land_sources(spark, feeds[:: 1 - 2 * first], Progress()) for _ in range(2)]
    told = [{result.source: condition(result) for result in run.sources} for run in runs]
    assert told == [{feed.name: None, "other": "BRONZE_REPLACED"}] * 2


def test_folder_that_only_spark_reaches_lands_the_same(
    spark: SparkSession, feed: Feed, drop: Drop, landing: Path, landed: Landed
) -> None:
    far = replace(feed, source=feed.source.model_copy(update={"files": f"file://{landing}"}))
    drop("sub/数 [a]*{x}.txt", b"a\r\n\xff")
    drop("b.gz", gzip.compress(b"b\n"))
    drop("_hidden/c.txt", b"no")

    first = run_source(spark, far)
    second = run_source(spark, far)
    drop("b.gz", gzip.compress(b"c\n"), modified=7)

    assert (first.error, first.messages, second.messages) == (None, 3, 0)
    assert landed(feed) == [
        ("b.gz", 1, b"b"),
        ("sub/数 [a]*{x}.txt", 1, b"a"),
        ("sub/数 [a]*{x}.txt", 2, b"\xff"),
    ]
    assert condition(run_source(spark, far)) == "FILE_CHANGED"


def test_a_file_that_cannot_be_read_lands_nothing_whatever_the_session_ignores(
    spark: SparkSession, feed: Feed, drop: Drop, landing: Path, landed: Landed
) -> None:
    far = replace(feed, source=feed.source.model_copy(update={"files": f"file://{landing}"}))
    for name in ("a", "b", "c"):
        drop(f"{name}.txt", name.encode())
    sums = landing / ".b.txt.crc"  # as a file of a store whose transfer breaks
    sums.write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"\0\0\0\0")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        broken = run_source(spark, far)
        assert (broken.error is None, broken.messages, landed(far)) == (False, 0, [])
        sums.unlink()
        assert (run_source(spark, far).error, len(landed(far))) == (None, 3)
    finally:
        spark.conf.set("spark.sql.files.ignoreCorruptFiles", "false")
        spark.conf.set("spark.sql.files.ignoreMissingFiles", "false")


@pytest.mark.slow
def test_a_file_without_messages_stands_in_for_a_lost_one_that_only_spark_reaches(
    spark: SparkSession, feed: Feed, drop: Drop, landing: Path, landed: Landed
) -> None:
    far = replace(feed, source=feed.source.model_copy(update={"files": f"file://{landing}"}))
    path = drop("a.txt", b"a\n")
    drop("b.gz", gzip.compress(b"b" * 1000)[:-3])

    corrupt = run_source(spark, far).error
    drop("b.gz", gzip.compress(b""), modified=7)
    path.unlink()
    vanished = run_source(spark, far).error
    drop("a.txt", b"\n", modified=7)

    assert corrupt is not None
    assert (corrupt.condition, "`gzip < /dev/null`" in corrupt.action) == ("FILE_CORRUPT", True)
    assert vanished is not None
    assert (vanished.condition, "one line feed" in vanished.action) == ("FILE_VANISHED", True)
    assert (run_source(spark, far).error, landed(far)) == (None, [])


def test_error_of_a_task_comes_back_as_it_was_raised() -> None:
    text = f"job failed\n  framework.errors.{_shown()}\n\tat org.apache.spark\n"
    error = as_raised(StreamingQueryException(text))
    assert error is not None
    assert (error.condition, error.found, error.where, error.action) == (
        "FILE_CORRUPT",
        "no: gzip",
        "a|b.gz",
        "replace it",
    )
    assert as_raised(ValueError("something else")) is None


def _shown() -> str:
    return (
        f"MainstemError: "
        f"{MainstemError('FILE_CORRUPT', found='no: gzip', where='a|b.gz', action='replace it')}"
    )


@pytest.mark.slow
def test_the_log_of_files_stays_short_on_a_local_disk(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_upkeep, "_KEPT", 2)
    for number in range(15):
        drop(f"{number:02d}.txt", b"%d\n" % number)
        assert run_source(spark, feed).error is None
    log = Path(feed.lake.location(log_table(feed.name)), "_delta_log")
    assert len(list(log.glob("*.json"))) < 10
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    drop("last.txt", b"last\n")
    assert run_source(spark, feed).error is None
    assert len(landed(feed)) == 16


def test_workers_start_ahead_of_many_bytes_only(
    spark: SparkSession, feed: Feed, drop: Drop, landed: Landed, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def noted(session: SparkSession, count: int, module: str) -> AbstractContextManager[None]:
        started.append(count)
        return workers_ahead(session, count, module)

    monkeypatch.setattr(job, "workers_ahead", noted)
    drop("a.txt", b"few")
    assert run_source(spark, feed).error is None
    assert started == []
    monkeypatch.setattr(job, "_MANY_BYTES", 4)
    drop("b.txt", b"many\n")
    assert run_source(spark, feed).error is None
    assert started == ([] if is_connect(spark) else [2])
    assert landed(feed, "file", "value") == [("a.txt", b"few"), ("b.txt", b"many")]
