"""What serverless compute forbids, forbidden on Spark Connect of this machine, too.

https://docs.databricks.com/aws/en/compute/serverless/limitations
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pyspark.errors import PySparkException
from pyspark.sql.connect.catalog import Catalog
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

FORBIDDEN: tuple[tuple[type, tuple[str, ...]], ...] = (
    (
        DataFrame,
        (
            "cache",
            "persist",
            "unpersist",
            "checkpoint",
            "localCheckpoint",
            "createGlobalTempView",
            "createOrReplaceGlobalTempView",
        ),
    ),
    (Catalog, ("cacheTable", "uncacheTable", "clearCache")),
    (SparkSession, ("newSession",)),
)
STATEMENTS = ("CACHE ", "UNCACHE ", "CREATE GLOBAL ", "CREATE OR REPLACE GLOBAL ", "ADD JAR", "ADD FILE")
SETTABLE = frozenset(
    {
        "spark.sql.ansi.enabled",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
    }
)
SETTINGS = {
    "spark.driver.maxResultSize": "1g",
    "spark.connect.session.manager.defaultSessionTimeout": "2m",
    "spark.connect.session.manager.maintenanceInterval": "5s",
}
"""Settings of a server that has the limits of serverless compute; it ends sessions without a request."""


class ForbiddenOnServerlessError(BaseException):
    """A call that serverless compute does not allow; no handler of errors takes it for one of its own."""


def forbid() -> None:
    """From now on, raise where this process asks Spark Connect for what serverless compute forbids.

    A setting that cannot be changed raises PySparkException, as it does there.
    """
    for owner, names in FORBIDDEN:
        for name in names:
            setattr(owner, name, _refusal(f"{owner.__name__}.{name}"))
    asked = SparkSession.sql

    def sql(self: SparkSession, query: str, *arguments: Any, **named: Any) -> DataFrame:
        if query.lstrip().upper().startswith(STATEMENTS):
            raise ForbiddenOnServerlessError(query)
        return asked(self, query, *arguments, **named)

    def change(self: RuntimeConf, key: str, *_: Any) -> None:
        if key not in SETTABLE:
            raise PySparkException(f"[CONFIG_NOT_AVAILABLE] Configuration {key} is not available.")
        changed(self, key, *_)

    changed, SparkSession.sql, RuntimeConf.set = RuntimeConf.set, sql, change  # type: ignore[method-assign]


def _refusal(what: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise ForbiddenOnServerlessError(what)

    return refuse
