"""The newest rows of a table without a Spark job."""

from __future__ import annotations

import shutil
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.contracts.table_names import CHANGES_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse import local_reader
from framework.lakehouse.lakehouse import Lakehouse, sql_name
from framework.lakehouse.recent_rows import files_above, has_none_between, rows_above

MANY = (100, 10_000_000)


def changes(spark: SparkSession, batch: int, *ids: int) -> DataFrame:
    known = {
        "change_id": "string(id)",
        "source": "'shop'",
        "batch": f"bigint({batch})",
        "event_time": "timestamp_micros(1700000000000001 + id)",
        "keys": "array('id', null)",
        "after": "map('id', string(id), 'a.b', null, 'name', 'ä')",
        "paired_with": "struct('t', 0, id)",
    }
    rows = spark.createDataFrame([(n,) for n in ids], "id bigint")
    names = [field.name for field in CHANGES]
    kinds = {field.name: field.dataType.simpleString() for field in CHANGES}
    return rows.selectExpr(
        *(f"cast({known.get(name, 'null')} as {kinds[name]}) as `{name}`" for name in names)
    )


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lakehouse:
    """Batches 0, 1 and 2 with three, two and one changes, and one commit with rows of two batches."""
    lake = Lakehouse(str(tmp_path))
    for batch, ids in enumerate([(1, 2, 3), (4, 5), (6,)]):
        lake.append(changes(spark, batch, *ids).coalesce(1), CHANGES_TABLE)
    both = changes(spark, 0, 7).unionByName(changes(spark, 2, 8)).coalesce(1)
    lake.append(both, CHANGES_TABLE)
    return lake


def test_rows_above_a_batch_are_those_that_spark_reads(spark: SparkSession, lake: Lakehouse) -> None:
    for batch, ids in ((-1, "12345678"), (0, "4568"), (1, "68"), (2, "")):
        found = rows_above(lake, CHANGES_TABLE, ("batch", batch), CHANGES, MANY)
        expected = lake.read(spark, CHANGES_TABLE).where(f"batch > {batch}").toArrow()
        assert found is not None
        assert found.schema == expected.schema
        assert sorted(found.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
        assert "".join(sorted(found["change_id"].to_pylist())) == ids


def test_files_above_a_batch_are_those_that_may_have_its_rows(lake: Lakehouse) -> None:
    for batch, rows in ((-1, [1, 2, 2, 3]), (0, [1, 2, 2]), (1, [1, 2]), (2, [])):
        found = files_above(lake, CHANGES_TABLE, ("batch", batch))
        assert found is not None
        assert sorted(file.rows for file in found) == rows
        assert all(file.path.is_file() for file in found)
    assert files_above(lake, "silver/none", ("batch", 0)) is None


def test_many_rows_are_left_to_spark(lake: Lakehouse) -> None:
    rows = {
        batch: rows_above(lake, CHANGES_TABLE, ("batch", batch), CHANGES, (3, 10_000_000)) for batch in (0, 1)
    }
    assert rows[0] is None  # its files have five rows
    assert rows[1] is not None
    assert rows_above(lake, CHANGES_TABLE, ("batch", 1), CHANGES, (100, 1_000)) is None


def test_what_files_alone_do_not_say_is_left_to_spark(spark: SparkSession, lake: Lakehouse) -> None:
    assert rows_above(lake, "silver/none", ("batch", 0), CHANGES, MANY) is None
    assert rows_above(lake, CHANGES_TABLE, ("op", 0), CHANGES, MANY) is None  # a column without statistics
    name = sql_name(lake.location(CHANGES_TABLE))
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {name} WHERE change_id = '8'")
    assert rows_above(lake, CHANGES_TABLE, ("batch", 1), CHANGES, MANY) is None


def test_rows_that_a_plan_expects_are_left_to_spark(spark: SparkSession, lake: Lakehouse) -> None:
    planned = Lakehouse(lake.root, added={CHANGES_TABLE: changes(spark, 3, 9)})
    assert rows_above(planned, CHANGES_TABLE, ("batch", 1), CHANGES, MANY) is None


def test_a_server_or_a_catalog_is_asked_by_spark(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_above(Lakehouse(lake.root, "main"), CHANGES_TABLE, ("batch", 1), CHANGES, MANY) is None
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    assert rows_above(lake, CHANGES_TABLE, ("batch", 1), CHANGES, MANY) is None


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ({"batch": (3, 9)}, True),
        ({"batch": (-4, -1)}, True),
        ({"batch": (2, 9)}, False),
        ({"batch": (1, 1)}, False),
        # one file has changes 7 and 8, of the batches 0 and 2
        ({"batch": (1, 1), "change_id": ("7", "7")}, False),
        ({"batch": (1, 1), "change_id": ("80", "9")}, True),
        ({"batch": (0, 9), "source": ("a", "m")}, True),
        ({"batch": (0, 9), "source": ("m", "z")}, False),
        ({"batch": (0, 9), "database": ("m", "z")}, False),  # all null: no bounds
    ],
)
def test_statistics_show_where_no_row_can_be(
    lake: Lakehouse, ends: dict[str, tuple[object, object]], found: bool
) -> None:
    assert has_none_between(lake, CHANGES_TABLE, ends) is found


def test_what_this_process_cannot_read_may_have_rows(spark: SparkSession, lake: Lakehouse) -> None:
    assert not has_none_between(lake, "silver/missing", {"batch": (9, 9)})
    assert not has_none_between(lake, CHANGES_TABLE, {"after": ("x", "y")})
    lake.create(spark, "silver/empty", CHANGES)
    assert has_none_between(lake, "silver/empty", {"batch": (0, 9)})


def test_a_version_of_the_log_is_read_once(spark: SparkSession, lake: Lakehouse, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    shutil.copytree(lake.location(CHANGES_TABLE), earlier)
    with mock.patch.object(local_reader, "open_plain", wraps=local_reader.open_plain) as opened:

        def ids() -> str:
            found = rows_above(lake, CHANGES_TABLE, ("batch", 1), CHANGES, MANY)
            assert found is not None
            return "".join(sorted(found["change_id"].to_pylist()))

        assert (ids(), ids()) == ("68", "68")
        assert not has_none_between(lake, CHANGES_TABLE, {"batch": (2, 2)})
        assert opened.call_count == 1
        lake.append(changes(spark, 3, 9).coalesce(1), CHANGES_TABLE)
        assert ids() == "689"
        assert opened.call_count == 2
        shutil.rmtree(lake.location(CHANGES_TABLE))
        shutil.move(earlier, lake.location(CHANGES_TABLE))  # put back from a backup
        lake.append(changes(spark, 4, 5).coalesce(1), CHANGES_TABLE)
        assert ids() == "568"
