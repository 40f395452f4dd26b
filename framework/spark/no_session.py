"""A stand-in for a Spark session, for work that may turn out to be none: a session takes seconds to start."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SessionNeeded(BaseException):
    """There is work for a session. No handler of errors may take it for one."""


class _NoSession:
    """Raises SessionNeeded when it is used."""

    def __getattr__(self, name: str) -> NoReturn:
        raise SessionNeeded(name)


def no_session() -> SparkSession:
    """The stand-in."""
    return cast("SparkSession", _NoSession())


def require_session(session: SparkSession) -> None:
    """Raises SessionNeeded for the stand-in, where what follows takes time and uses the session anyway."""
    if isinstance(session, _NoSession):
        raise SessionNeeded("required")


def has_session() -> bool:
    """Whether this process has a session already, so that a stand-in gains nothing."""
    if "pyspark" not in sys.modules:
        return False
    from framework.spark.running_session import running_session

    return running_session() is not None
