"""`maintain` is killed at any moment: no value changes, streams keep their files, the next one finishes.

MAINSTEM_CHAOS=5 MAINSTEM_SEED=7 python -m pytest tests/end_to_end/test_killed_upkeep.py -s
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.lakehouse.lakehouse import sql_name
from framework.pipeline.fault_injection import VARIABLE
from tests.end_to_end.test_blob_to_replica import item, message
from tests.end_to_end.test_crashes import CHAOS, ROOT, SEED, Place, compare
from tests.end_to_end.test_kills import CONFIG, land
from tests.processes import ended, kill_tree

TABLES = ("bronze/messages", "silver/changes", "gold/shop/item", "gold/shop/item__history")
LONG_AGO = time.time() - 30 * 86_400


def scatter(spark: SparkSession, place: Place) -> None:
    """Lay each table out in many small files, and leave old files there that no table knows."""
    for name in TABLES:
        path = f"{place.lake.root}/{name}"
        spark.sql(f"ALTER TABLE {sql_name(path)} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
        rows = spark.read.format("delta").load(path).repartition(12)
        rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(path)
        for number, file in enumerate(sorted(Path(path).glob("*.parquet"))):
            shutil.copyfile(file, Path(path) / f"part-{number:05d}-unknown.parquet")
            os.utime(Path(path) / f"part-{number:05d}-unknown.parquet", (LONG_AGO, LONG_AGO))


def start(place: Place) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: ""}
    command = [sys.executable, "-m", "framework.cli", "maintain", "-c", str(place.config)]
    with (place.folder / "maintain.log").open("wb") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


def unknown(place: Place) -> list[Path]:
    return [file for name in TABLES for file in Path(place.lake.root, name).glob("*-unknown.parquet")]


@pytest.mark.skipif(not CHAOS, reason="kills at random moments are for make chaos")
def test_upkeep_that_is_killed_changes_no_value_and_is_ended_by_the_next(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, draw = Place(tmp_path), Random(f"upkeep {SEED}")
    place.config.write_text(CONFIG, encoding="utf-8")
    rows = [item(number, "pen", number + 0.5) for number in range(1, 40)]
    land(place, 1, [message("INSERT", row["id"], after=row) for row in rows])
    assert place.run() == 0
    land(place, 2, [message("INSERT", 100, after=item(100, "landed, not read", 1.0))])
    assert main(["run", "--through", "bronze", "-c", str(place.config)]) == 0
    scatter(spark, place)
    expected = place.contents(spark)
    undisturbed = place.copy("undisturbed")
    started = time.monotonic()
    assert ended(start(undisturbed)) == 0, (undisturbed.folder / "maintain.log").read_text()
    whole = time.monotonic() - started
    compare(undisturbed.contents(spark), expected)
    kept = unknown(undisturbed)
    assert kept
    assert all(
        file.parent.parent.name == "bronze" for file in kept
    )  # a message of bronze waits for the stream
    killed = 0
    for _ in range(CHAOS):
        process = start(place)
        time.sleep(whole * draw.uniform(0.35, 1.0))
        killed += process.poll() is None
        kill_tree(process)
        compare(place.contents(spark), expected)
    print(f"MAINSTEM_SEED={SEED}: {killed} of {CHAOS} killed in their work, one takes {whole:.0f} s")
    assert place.run() == 0
    assert ended(start(place)) == 0, (place.folder / "maintain.log").read_text()
    assert unknown(place) == []
    capfd.readouterr()
    code = main(["status", "--verify", "--json", "-c", str(place.config)])
    status = json.loads(capfd.readouterr().out)
    assert (code, [check for check in status["checks"] if not check["ok"]]) == (0, [])
    assert (status["messages"], status["changes"], status["duplicates"]) == (40, 40, 0)
