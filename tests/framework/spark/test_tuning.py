from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.spark.tuning import _TUNED, ROWS_PER_PARTITION, SMALL_ROWS, put_back, tune_for_rows

_PARTITIONS = "spark.sql.shuffle.partitions"
_ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session whose settings nobody else has."""
    return spark.newSession()


def _partitions(session: SparkSession) -> int:
    return session.range(100).repartition(F.col("id")).rdd.getNumPartitions()


def test_a_session_gets_its_own_settings_back_for_many_rows(session: SparkSession) -> None:
    session.conf.set(_PARTITIONS, "7")
    session.conf.set(_ADAPTIVE, "false")
    tune_for_rows(session, 1)
    assert _partitions(session) == 1

    tune_for_rows(session, SMALL_ROWS + 1)

    assert _partitions(session) == 7
    assert session.conf.get(_ADAPTIVE) == "false"
    assert session.conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"


def test_a_session_that_is_cloned_in_a_small_run_gets_them_back_too(session: SparkSession) -> None:
    session.conf.set(_PARTITIONS, "7")
    tune_for_rows(session, 1)
    clone = SparkSession(session.sparkContext, session._jsparkSession.cloneSession())  # as a stream does

    tune_for_rows(clone, SMALL_ROWS + 1)

    assert (clone.conf.get(_PARTITIONS), session.conf.get(_PARTITIONS)) == ("7", "1")


@pytest.mark.parametrize(
    ("millions", "partitions"), [(1, 7), (10, 10_000_000 // ROWS_PER_PARTITION), (900, 200)]
)
def test_partitions_of_a_shuffle_stay_bounded_in_size(
    session: SparkSession, millions: int, partitions: int
) -> None:
    session.conf.set(_PARTITIONS, "7")
    tune_for_rows(session, millions * 1_000_000)
    assert int(session.conf.get(_PARTITIONS) or 0) == partitions


@pytest.mark.skipif("SPARK_REMOTE" in os.environ, reason="Spark Connect has no calls of the JVM")
def test_a_session_of_mainstem_that_is_set_up_is_only_asked(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune_for_rows(session, 10_000_000)
    same = SparkSession(session.sparkContext, session._jsparkSession)  # as `getActiveSession` gives it
    tune_for_rows(same, 1)
    from py4j.clientserver import JavaClient

    send, calls = JavaClient.send_command, 0

    def counted(client: Any, *words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        return send(client, *words, **more)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    gc.disable()  # objects of the JVM that end are calls, too
    try:
        session.conf.get(_PARTITIONS)  # the object of the settings itself
        calls = 0
        tune_for_rows(same, SMALL_ROWS)
        assert calls <= 2
    finally:
        gc.enable()
    tune_for_rows(session, 10_000_000)
    assert session.conf.get(_PARTITIONS) == str(10_000_000 // ROWS_PER_PARTITION)
    assert session.newSession().conf.get(_ADAPTIVE) == "true"


def test_settings_that_change_in_a_session_of_a_notebook_are_seen(session: SparkSession) -> None:
    session.conf.unset(_TUNED)  # it is not started by Mainstem
    assert session.conf.get(_TUNED, None) is None
    tune_for_rows(session, 1)
    session.conf.set(_PARTITIONS, "9")
    tune_for_rows(session, 1)
    assert session.conf.get(_PARTITIONS) == "1"


@pytest.mark.slow
@pytest.mark.skipif("SPARK_REMOTE" in os.environ, reason="Spark Connect has no counters of the JVM")
def test_queries_that_were_run_before_are_not_compiled_again(session: SparkSession) -> None:
    compiled = session._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount
    tune_for_rows(session, SMALL_ROWS + 1)

    def run_all() -> int:
        """Runs more different queries than Spark keeps by default; returns how many classes it compiled."""
        before = int(compiled())
        for number in range(110):
            session.range(3).selectExpr(f"id + {number}L AS n").where(f"n > {number}L").count()
        return int(compiled()) - before

    assert run_all() >= 110
    assert run_all() == 0


def test_what_a_platform_refuses_stays_and_the_rest_is_put_back(session: SparkSession) -> None:
    session.conf.set(_PARTITIONS, "7")
    put_back(session, {"spark.sql.warehouse.dir": "elsewhere", _PARTITIONS: "9", _ADAPTIVE: None})
    assert session.conf.get(_PARTITIONS) == "9"


def test_a_session_that_is_gone_is_asked_once() -> None:
    """A client of Spark Connect tries each call for ten minutes."""
    asked: list[str] = []

    class Gone:
        conf: Any

        def set(self, key: str, value: str) -> None:
            asked.append(key)
            raise ConnectionError("the server is gone")

    gone = Gone()
    gone.conf = gone
    put_back(gone, {_PARTITIONS: "9", _ADAPTIVE: "true"})  # type: ignore[arg-type]
    assert asked == [_PARTITIONS]
