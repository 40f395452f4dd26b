"""Runs without a Spark session: most runs of a schedule find nothing to do, and a session takes seconds.

The layers run as ever, over a stand-in for the session. As long as they find nothing new they do not use it;
the first use ends the attempt, and the whole run begins again with a session. What the layers have written
until then are notes beside the checkpoints, as of a run that was killed at that place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from framework.config.model import Config
from framework.config.sources import Source
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import lakehouse_of
from framework.lakehouse.lease import hold_lease
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.owner import claim
from framework.pipeline.alerts import is_quiet, problems_of
from framework.pipeline.erasure import is_unfinished
from framework.pipeline.layer import LayerReport, Run, layers_through
from framework.pipeline.lost_logs import describe_losses, note_histories
from framework.pipeline.run_history import ended_with_errors, is_for_all
from framework.spark.no_session import SessionNeeded, has_session, no_session


def run_idle(config: Config, run_id: str, through: str, table: str | None) -> Sequence[LayerReport] | None:
    """The reports of a run that has nothing to do; None where it has, or where only Spark can tell.

    Rules that fail as they did before are nothing to do, unless somebody must be told.

    Raises:
        MainstemError: LEASE_HELD where another run works.
        ConfigurationError: TABLE_UNKNOWN or TABLE_EXCLUDED for `table`, where nothing waits.
    """
    lake = lakehouse_of(config)
    if not is_read_locally(lake) or has_session() or not all(map(_is_of_files, config.sources.values())):
        return None
    from framework.spark.session import keep_utc

    keep_utc()
    with hold_lease(lake, config.pipeline):
        try:
            return _reports(Run(no_session(), lake, config, run_id, table), through)
        except ConfigurationError:  # no table has the name that the run was asked for, and nothing waits
            raise
        except (SessionNeeded, Exception):  # the run with a session says what is wrong, if anything is
            return None


def _reports(work: Run, through: str) -> Sequence[LayerReport] | None:
    claim(work.spark, work.lake, work.config.pipeline)
    layers = list(layers_through(through))
    has_errors = is_for_all(work.table, (layer.name for layer in layers)) and ended_with_errors(work.lake)
    if not is_quiet(work) or is_unfinished(work) or describe_losses(work) or has_errors:
        return None
    reports = []
    for layer in layers:
        began = time.monotonic()
        report = layer.run(work)
        if report.errors or report.tables or any(report.counts.values()):
            return None
        if work.config.alerts and problems_of([report]):
            return None
        reports.append(replace(report, seconds=time.monotonic() - began))
    note_histories(work)
    return reports


def _is_of_files(source: Source) -> bool:
    """Whether a source's new messages are found by listing a folder of this machine."""
    return source.files is not None and "://" not in source.files
