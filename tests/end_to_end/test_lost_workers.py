"""A Python worker is killed while it decodes: task or run is repeated, and the rows are the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.contracts.events import Event
from framework.contracts.messages import RawMessage
from silver.changes.decode import arrow_decoder
from silver.changes.source_plans import source_plans
from silver.changes.staged_rows import STAGED_DDL
from silver.decoding.format import Context
from silver.formats import FORMATS
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_crashes import CHAOS, ROOT, Place, compare
from tests.processes import family, kill_tree


@pytest.mark.long
def test_messages_decoded_again_after_their_worker_was_killed_give_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = Shop(spark, tmp_path)
    (plan,) = source_plans(shop.config, FORMATS).values()
    decode, marker = plan.format.decode, str(tmp_path / "killed")

    def killed_once(raw: RawMessage, context: Context) -> Sequence[Event]:
        if raw.offset == 30 and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return decode(raw, context)

    values = [json.dumps(message("INSERT", n, after=item(n, "pen", 1.5))).encode() for n in range(1, 60)]
    rows = [
        ("feed", "orders", 0, n, None, None, value, None, None, None, None) for n, value in enumerate(values)
    ]
    schema = (
        "source string, topic string, `partition` int, offset bigint, timestamp timestamp, key binary, "
        "value binary, "
        "headers array<struct<key:string,value:binary>>, file string, line bigint, ingested_at timestamp"
    )
    messages = spark.createDataFrame(rows, schema).coalesce(1)
    undisturbed = messages.mapInArrow(arrow_decoder({"feed": plan}), STAGED_DDL).collect()
    plans = {"feed": replace(plan, format=replace(plan.format, decode=killed_once))}
    decoded = messages.mapInArrow(arrow_decoder(plans), STAGED_DDL)
    with pytest.raises(Exception, match="exited unexpectedly"):  # a local session tries a task once
        decoded.collect()
    assert os.path.exists(marker)
    assert decoded.collect() == undisturbed
    assert len(undisturbed) == len(values)


def workers(process: int) -> Iterator[int]:
    """The Python workers below a process: those that a daemon of PySpark has forked."""
    for pid, parent in family(process).items():
        try:
            is_worker = b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
            is_forked = b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()
        except OSError:
            continue
        if is_worker and is_forked:
            yield pid


@pytest.mark.skipif(not CHAOS, reason="workers that are killed in a run are for make chaos")
@pytest.mark.parametrize("tries", [1, 4])
def test_a_run_whose_workers_are_killed_ends_as_one_that_was_left_alone(
    spark: SparkSession, tmp_path: Path, tries: int
) -> None:
    (tmp_path / "before").mkdir()
    before = Place(tmp_path / "before")
    before.config.write_text(
        "pipeline: crashes\nlakehouse: ./lakehouse\nsources:\n"
        "  shop: {format: datahub_blob, files: ./landing/shop, pairing_timeout: 10 minutes}\n",
        encoding="utf-8",
    )
    before.land(1)
    before.land(2)
    undisturbed, place = before.copy("undisturbed"), before.copy("disturbed")
    assert undisturbed.run() == 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MAINSTEM_MASTER": f"local[2,{tries}]"}
    command = [sys.executable, "-m", "framework.cli", "run", "--through", "gold", "-c", str(place.config)]
    killed = 0
    with (place.folder / "run.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            while process.poll() is None:
                if killed < 3:
                    for pid in list(workers(process.pid))[:1]:
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                time.sleep(0.5)
        finally:
            kill_tree(process)
    output = (place.folder / "run.log").read_text()
    print(f"{killed} workers killed, exit code {process.returncode}")
    assert killed > 0
    assert process.returncode in ((0, 1) if tries == 1 else (0,)), output
    if process.returncode:
        assert "do:" in output
    assert place.run() == 0
    compare(place.contents(spark), undisturbed.contents(spark))
