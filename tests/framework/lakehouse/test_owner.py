import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import cast

import pytest
from pyspark.sql import SparkSession

from framework.contracts.table_names import MESSAGES_TABLE
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse, table_properties
from framework.lakehouse.owner import TABLE_ID, check_owner, claim, landing_note, owner_properties

LOCAL = cast(SparkSession, None)
"""On a local file system no session is needed."""


def test_a_lakehouse_is_one_pipelines(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    check_owner(LOCAL, lake, "reports")
    claim(LOCAL, lake, "shop")
    claim(LOCAL, lake, "shop")
    check_owner(LOCAL, lake, "shop")
    for ask in (claim, check_owner):
        with pytest.raises(MainstemError, match="pipeline 'shop'") as raised:
            ask(LOCAL, lake, "reports")
        assert raised.value.condition == "LAKEHOUSE_TAKEN"


def test_a_look_claims_nothing(tmp_path: Path) -> None:
    check_owner(LOCAL, Lakehouse(str(tmp_path / "lakehouse")), "shop")
    assert not (tmp_path / "lakehouse").exists()


def test_a_lock_on_the_folder_holds_no_claim_up(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    folder = Path(lake.checkpoints)
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    claimed = Thread(target=claim, args=(LOCAL, lake, "shop"), daemon=True)
    claimed.start()
    claimed.join(10)
    is_blocked = claimed.is_alive()
    os.close(descriptor)
    assert not is_blocked
    assert (folder / "pipeline.lock").stat().st_mode & 0o777 == 0o600


def test_of_two_pipelines_that_claim_at_one_moment_one_is_refused(tmp_path: Path) -> None:
    for attempt in range(20):
        lake = Lakehouse(str(tmp_path / str(attempt)))
        together = Barrier(2)

        def ask(pipeline: str, lake: Lakehouse = lake, together: Barrier = together) -> str | None:
            together.wait()
            try:
                claim(LOCAL, lake, pipeline)
            except MainstemError:
                return None
            return pipeline

        with ThreadPoolExecutor(2) as pool:
            owners = [owner for owner in pool.map(ask, ("shop", "crm")) if owner]
        assert owners == [Path(lake.checkpoints, "pipeline").read_text()]


class Catalog:
    """Tables in Spark's own catalog, under checkpoints in any folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def under(self, checkpoints: str) -> Lakehouse:
        return Lakehouse(str(self.folder / checkpoints), "spark_catalog", "owner_")

    def run(self, checkpoints: str, pipeline: str = "shop") -> None:
        """Claims the tables and creates them."""
        lake = self.under(checkpoints)
        claim(self.spark, lake, pipeline, ["feed"])
        own = owner_properties(self.spark, lake)
        lake.create(self.spark, MESSAGES_TABLE, "id int", {TABLE_ID: "t", **own})

    def check_refused(self, checkpoints: str, pipeline: str = "shop") -> MainstemError:
        with pytest.raises(MainstemError, match="pipeline 'shop', whose checkpoints") as raised:
            self.run(checkpoints, pipeline)
        assert raised.value.condition == "LAKEHOUSE_TAKEN"
        return raised.value


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Catalog]:
    found = Catalog(spark, tmp_path)
    spark.sql(f"CREATE SCHEMA {found.under('any').schema_of('bronze')}")
    yield found
    spark.sql(f"DROP SCHEMA {found.under('any').schema_of('bronze')} CASCADE")


def test_tables_of_a_catalog_belong_to_one_folder_of_checkpoints(catalog: Catalog) -> None:
    for _ in range(2):
        catalog.run("one")
    for pipeline in ("shop", "crm"):
        error = catalog.check_refused("two", pipeline)
    assert not list((catalog.folder / "two").rglob("pipeline.id")), "a pipeline that is refused owns nothing"

    shutil.copytree(catalog.folder / "one", catalog.folder / "moved")
    catalog.run("moved")
    check_owner(catalog.spark, catalog.under("moved"), "shop")

    text, _, file = error.action.rpartition(" into ")
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text("another\n")
    catalog.check_refused("two")
    with pytest.raises(MainstemError):
        check_owner(catalog.spark, catalog.under("two"), "shop")
    Path(file).write_text(f"{text.rpartition(' ')[2]}\n")
    catalog.run("two")


def test_tables_of_an_earlier_release_get_the_owner_whose_checkpoints_land_in_them(catalog: Catalog) -> None:
    lake, other = catalog.under("one"), catalog.under("two")
    lake.create(catalog.spark, MESSAGES_TABLE, "id int", {TABLE_ID: "t"})
    catalog.run("two")
    note = Path(landing_note(lake, "feed"))
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"table": "t"}))
    catalog.run("one")
    found = table_properties(catalog.spark, lake.location(MESSAGES_TABLE))
    assert owner_properties(catalog.spark, lake).items() <= found.items()
    before = lake.version(catalog.spark, MESSAGES_TABLE)
    catalog.run("one")
    assert lake.version(catalog.spark, MESSAGES_TABLE) == before
    assert not owner_properties(catalog.spark, other).items() <= found.items()
    catalog.check_refused("two")
