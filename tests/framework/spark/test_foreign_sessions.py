"""Mainstem beside a session that its process has already, as in a notebook; all sessions are real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

_BEGIN = """
import json
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from framework.spark.no_session import has_session
from framework.spark.session import close_session, open_session, shared_session, worker_sessions

class Pipeline:
    pipeline = "shop"

def in_a_thread(work):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()

def of_notebook(**more):
    builder = SparkSession.builder.master("local[1]").appName("notebook").config("spark.ui.enabled", "false")
    for key, value in more.items():
        builder = builder.config(key.replace("__", "."), value)
    return builder.getOrCreate()
"""

_FROM_A_THREAD = """
session = of_notebook()
seen = {}
for key, value in {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.shuffle.partitions": "7",
    "fs.azure.account.key.shop": "a key",
}.items():
    session.conf.set(key, value)
before = dict(session.conf.getAll)

def work():
    from framework.spark.tuning import tune_for_rows
    seen["has session"] = has_session()
    opened = open_session(Pipeline())
    again = open_session(Pipeline())
    seen["same"] = opened is again is session
    seen["zone"] = opened.conf.get("spark.sql.session.timeZone")
    seen["ignores"] = opened.conf.get("spark.sql.files.ignoreCorruptFiles")
    tune_for_rows(opened, 1)
    seen["partitions"] = opened.conf.get("spark.sql.shuffle.partitions")
    keys = "fs.azure.account.key.shop", "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"
    (worker,) = worker_sessions(opened, 1)
    seen["worker"] = [worker.conf.get(key) for key in keys]
    close_session(again)
    seen["still"] = opened.conf.get("spark.sql.session.timeZone")
    close_session(opened)

in_a_thread(work)
seen["name"] = session.conf.get("spark.app.name")
after = dict(session.conf.getAll)
seen["changed"] = {
    key: after.get(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)
}
seen["rows"] = session.range(3).count()

session.sparkContext.stop()
seen["has stopped one"] = has_session()
from pyspark import SparkConf, SparkContext
context = SparkContext(conf=SparkConf().setMaster("local[1]").setAppName("context"))
in_a_thread(lambda: close_session(open_session(Pipeline())))
seen["sum"] = context.parallelize([1, 2]).sum()
print(json.dumps(seen))
"""

_OWN = """
seen = {"has session": has_session()}
first = in_a_thread(lambda: open_session(Pipeline()))
second = open_session(Pipeline())
seen["same"] = first is second
in_a_thread(lambda: close_session(first))
seen["rows"] = second.range(3).count()
close_session(second)
seen["ends"] = not has_session()
with shared_session(Pipeline()):
    inner = open_session(Pipeline())
    close_session(inner)
    seen["shared"] = inner.range(2).count()
seen["ends again"] = not has_session()
close_session(inner)
print(json.dumps(seen))
"""

_RUN = """
import mainstem
from framework.spark.resolution import verified_jars
session = of_notebook(
    spark__jars=",".join(verified_jars(kafka=False)),
    spark__sql__extensions="io.delta.sql.DeltaSparkSessionExtension",
    spark__sql__catalog__spark_catalog="org.apache.spark.sql.delta.catalog.DeltaCatalog",
    spark__sql__session__timeZone="Asia/Tokyo",
    spark__sql__timestampType="TIMESTAMP_NTZ",
    spark__sql__files__ignoreCorruptFiles="true",
)
session.sparkContext.setLogLevel("OFF")
session.conf.set("spark.sql.shuffle.partitions", "3")
before = dict(session.conf.getAll)
result = in_a_thread(lambda: mainstem.run(CONFIG))
checks = in_a_thread(lambda: mainstem.verify(CONFIG))
rows = mainstem.query(CONFIG, "SELECT id, at FROM shop.orders")["rows"]
after = dict(session.conf.getAll)
print(json.dumps({
    "code": result.exit_code,
    "ok": all(check["ok"] for check in checks),
    "rows": rows,
    "changed": {k: after.get(k) for k in sorted({*before, *after}) if before.get(k) != after.get(k)},
    "count": session.range(3).count(),
}, default=str))
"""


_OF_DELTA = (
    "spark.databricks.delta.lastCommitVersionInSession",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.write.enabled",
)
"""What Delta sets by itself in a session that reads or writes a table."""


def outcome(script: str, folder: Path) -> Any:
    environ = {key: value for key, value in os.environ.items() if key not in ("TZ", "SPARK_REMOTE")}
    environ["MAINSTEM_MASTER"] = "local[1]"
    environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    environ["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + script],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_session_of_somebody_else_is_used_from_any_thread_and_gets_its_settings_back(
    tmp_path: Path,
) -> None:
    assert outcome(_FROM_A_THREAD, tmp_path) == {
        "has session": True,
        "same": True,
        "zone": "UTC",
        "ignores": "false",
        "partitions": "1",
        "worker": ["a key", "UTC", "7"],
        "still": "UTC",
        "name": "notebook",
        "changed": {},
        "rows": 3,
        "has stopped one": False,
        "sum": 3,
    }


@pytest.mark.slow
def test_a_session_of_mainstem_ends_with_its_last_user_in_whichever_thread(tmp_path: Path) -> None:
    assert outcome(_OWN, tmp_path) == {
        "has session": False,
        "same": True,
        "rows": 3,
        "ends": True,
        "shared": 2,
        "ends again": True,
    }


@pytest.mark.slow
def test_a_pipeline_runs_in_a_session_of_a_notebook_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.jsonl").write_text(
        '{"database":"shop","table":"orders","type":"insert","ts":1709200800,"xid":1,"commit":true,'
        '"position":"m.1:1","primary_key_columns":["id"],"data":{"id":1,"at":"2024-02-29 10:00:00"}}\n'
    )
    config = tmp_path / "mainstem.yml"
    config.write_text(
        "pipeline: shop\nlakehouse: ./lakehouse\n"
        "sources: {orders: {format: maxwell, files: ./landing, timezone: Asia/Shanghai}}\n"
        "tables: [{match: shop.orders, columns: {at: {type: timestamp}}}]\n"
    )

    found = outcome(_RUN.replace("CONFIG", repr(str(config))), tmp_path)
    for key in _OF_DELTA:
        found["changed"].pop(key, None)

    assert found == {
        "code": 0,
        "ok": True,
        "rows": [{"id": 1, "at": "2024-02-29T02:00:00Z"}],  # ten in Shanghai
        "changed": {},
        "count": 3,
    }
