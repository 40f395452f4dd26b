"""Spark settings by the size of the work: small runs avoid fixed costs, large ones get the session's own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession

SMALL_ROWS = 20_000
ROWS_PER_PARTITION = 200_000
"""A shuffle of many rows has at least one partition for so many, up to `MOST_PARTITIONS`."""
MOST_PARTITIONS = 200
_PARTITIONS = "spark.sql.shuffle.partitions"
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    _PARTITIONS: "1",
    "spark.databricks.delta.merge.materializeSource": "none",
}
_OWN = "spark.mainstem.own."
"""Settings with this prefix keep what a session had before; sessions cloned from it have them too."""
_NONE = "(none)"
_TUNED = "spark.mainstem.tuned"
"""What a session is set up for. Only sessions that Mainstem has started have it: nobody else changes them.

The session itself keeps it, since several Python objects may stand for one session. A session that is cloned
has it as it has the settings; a new session begins as the first one did.
"""
NOTED = {_TUNED: _NONE}
"""Settings to start a session with of which the threads do not share sessions."""


def tune_for_rows(spark: SparkSession, rows: int) -> None:
    """Set a session up for so many rows. Settings that a platform does not allow to change stay.

    For many rows the session gets back what it had before, also what a user or a cluster has set.
    """
    # one call instead of twenty: gold asks several times for each table
    target = "few" if rows <= SMALL_ROWS else str(_partitions_of(rows))
    known = spark.conf.get(_TUNED, None)
    if known == target:
        return
    _set_up(spark, rows)
    if known is not None:
        spark.conf.set(_TUNED, target)


def is_of_mainstem(spark: SparkSession) -> bool:
    """Whether Mainstem has started the session, or the one that it was cloned from."""
    return spark.conf.get(_TUNED, None) is not None


def own_settings(spark: SparkSession) -> dict[str, str | None]:
    """What somebody else's session has for the settings that depend on a size, None for one without a value.

    Nothing for a session that Mainstem has started.
    """
    own: dict[str, str | None] = {}
    for key in () if is_of_mainstem(spark) else _SMALL:
        with contextlib.suppress(PySparkException):
            before = spark.conf.get(_OWN + key, None) or spark.conf.get(key, None)
            own |= {key: None if before == _NONE else before, _OWN + key: None}
    return own


def put_back(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    """Gives a session these settings, without those whose value is None; leaves what the platform refuses.

    Ends at any other error: the session has ended, and a client of a server that is gone tries each call for
    ten minutes.
    """
    with contextlib.suppress(Exception):
        for key, value in settings.items():
            with contextlib.suppress(AnalysisException, IllegalArgumentException):
                if value is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, value)


def _set_up(spark: SparkSession, rows: int) -> None:
    for key, small in _SMALL.items():
        if not spark.conf.isModifiable(key) and not key.startswith("spark.databricks"):
            continue
        with contextlib.suppress(PySparkException):  # serverless compute keeps most settings to itself
            own = _own_value(spark, key)
            value = small if rows <= SMALL_ROWS else _for_many(key, own, rows)
            if value == _NONE:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def _own_value(spark: SparkSession, key: str) -> str:
    """What the session had before it was set up for a size; Spark's default where that cannot be kept."""
    noted = spark.conf.get(_OWN + key, None)
    if noted is not None:
        return noted
    own = spark.conf.get(key, None) or _NONE
    try:
        spark.conf.set(_OWN + key, own)
    except PySparkException:
        return _NONE
    return own


def _for_many(key: str, own: str, rows: int) -> str:
    if key != _PARTITIONS or not own.isdecimal():
        return own
    return str(max(int(own), _partitions_of(rows)))


def _partitions_of(rows: int) -> int:
    return min(MOST_PARTITIONS, rows // ROWS_PER_PARTITION)
