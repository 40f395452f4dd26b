"""Commands that only read: without a Spark session where the tables are small and on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from framework.config.model import Config
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import lakehouse_of
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.owner import check_owner
from framework.pipeline.layer import Run
from framework.pipeline.session import open_pipeline
from framework.spark.no_session import SessionNeeded, has_session, no_session

_Answer = TypeVar("_Answer")


def answer(config: Config, run_id: str, ask: Callable[[Run], _Answer]) -> _Answer:
    """What a question says of a pipeline, which is asked again with a session where it needs one.

    Raises:
        MainstemError: LAKEHOUSE_TAKEN where another pipeline owns the lakehouse; what the question raises.
    """
    lake = lakehouse_of(config)
    if is_read_locally(lake) and not has_session():
        from framework.spark.session import keep_utc

        check_owner(None, lake, config.pipeline)
        keep_utc()
        try:
            return ask(Run(no_session(), lake, config, run_id))
        except ConfigurationError:  # about what was asked
            raise
        except (SessionNeeded, Exception):  # with a session it says what is wrong, if anything is
            pass
    with open_pipeline(config, is_exclusive=False) as (lake, spark):
        return ask(Run(spark, lake, config, run_id))
