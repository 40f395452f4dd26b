"""The logs of files that `maintain` compacts and cleans."""

from __future__ import annotations

from collections.abc import Iterator

from bronze.files.file_log import log_table
from bronze.source import Feed
from framework.lakehouse.checkpoint_files import is_read_to_end
from framework.pipeline.layer import MaintainedTable, Run


def tables_to_maintain(run: Run) -> Iterator[MaintainedTable]:
    """The log of each source of files, whose old files stay until its stream has read them."""
    for source in run.config.sources.values() if run.table is None else ():
        if source.files is None:
            continue
        feed, name = Feed(run.config.pipeline, run.lake, source, run.run_id), log_table(source.name)
        is_read = is_read_to_end(run.spark, run.lake, name, feed.checkpoint)
        note = None if is_read else "old files stay: bronze has not read them all; run first"
        yield MaintainedTable(name, note)
