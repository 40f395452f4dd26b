"""The lineage of a run as events of OpenLineage: it starts, and completes or fails.

The library's own settings configure it (`OPENLINEAGE_URL`, `openlineage.yml` and the others). Events have the
names of sources and tables, columns with their types, and counts; an error is its code, never its text.

https://openlineage.io/docs/client/python
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    tags_run,
)
from openlineage.client.uuid import generate_new_uuid

from framework.observability.datasets import Dataset, dataset_of, inputs_of
from framework.observability.steps import RunFacts, Step, StepEnd, WrittenTable, type_of

_LOGGERS = ("openlineage.client.client", "openlineage.client.transport.http", "urllib3.connectionpool")
_FAILED = 1


def open_observer(run: RunFacts, environ: Mapping[str, str]) -> Lineage:
    """The observer of a run."""
    return Lineage(run, environ)


class Lineage:
    """Sends the events of one run, in a thread of its own."""

    def __init__(self, run: RunFacts, environ: Mapping[str, str]) -> None:
        self._run = run
        self._id = str(generate_new_uuid())
        self._namespace = environ.get("OPENLINEAGE_NAMESPACE") or "default"
        self._parent = environ.get("OPENLINEAGE_PARENT_ID", "")
        self._producer = f"urn:mainstem:{version('mainstem')}"
        self._lock = threading.Lock()
        self._topics: dict[str, list[str]] = {}
        self._tables: dict[Dataset, WrittenTable] = {}
        self._events: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._emit_all, name="lineage", daemon=True)
        self._thread.start()

    def begin(self, step: Step) -> None:
        """Send that the run starts."""
        if step.kind == "run":
            self._events.put(self._event(RunState.START))

    def end(self, step: Step, end: StepEnd) -> None:
        """Keep what a source has read and a table has got; send how the run has ended."""
        with self._lock:
            if step.kind == "source" and isinstance(topics := end.facts.get("topics"), str):
                self._topics[step.name] = topics.split(", ")
            if end.written is not None:
                self._tables[dataset_of(end.written.place)] = end.written
        if step.kind == "run":
            is_failed = end.error is not None or end.facts.get("exit_code") == _FAILED
            self._events.put(self._event(RunState.FAIL if is_failed else RunState.COMPLETE, end.error))

    def send(self) -> str | None:
        """Wait until all events are sent; returns why one was not."""
        self._events.put(None)
        self._thread.join()
        return self._problem

    def _event(self, state: RunState, error: BaseException | None = None) -> RunEvent:
        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version("mainstem"), name="mainstem", producer=self._producer
            ),
            "tags": tags_run.TagsRunFacet(
                [tags_run.TagsRunFacetFields("mainstem_run_id", self._run.run_id, "MAINSTEM")],
                producer=self._producer,
            ),
        }
        above = self._parent.rsplit("/", 2)
        if len(above) == 3:
            facets["parent"] = parent_run.ParentRunFacet(
                parent_run.Run(above[2]), parent_run.Job(above[0], above[1]), producer=self._producer
            )
        if error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                type_of(error), "python", producer=self._producer
            )
        with self._lock:
            inputs = inputs_of(self._run.sources, self._topics)
            outputs = [self._output(name, written) for name, written in self._tables.items()]
        return RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            eventType=state,
            run=Run(self._id, facets),
            job=Job(self._namespace, f"mainstem.{self._run.pipeline}", self._job_facets()),
            inputs=[InputDataset(*name) for name in inputs],
            outputs=outputs,
            producer=self._producer,
        )

    def _job_facets(self) -> dict[str, JobFacet]:
        kind = job_type_job.JobTypeJobFacet("BATCH", "MAINSTEM", "PIPELINE", producer=self._producer)
        return {"jobType": kind}

    def _output(self, name: Dataset, written: WrittenTable) -> OutputDataset:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(column, type, ordinal_position=at)
            for at, (column, type) in enumerate(written.columns, 1)
        ]
        schema = schema_dataset.SchemaDatasetFacet(fields, producer=self._producer)
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=written.rows, producer=self._producer
        )
        return OutputDataset(
            *name,
            facets={"schema": schema} if fields else {},
            outputFacets={} if written.rows is None else {"outputStatistics": statistics},
        )

    def _emit_all(self) -> None:
        """Send events as they come, until there is None; a later one is tried after one that fails."""
        with _Quiet():
            try:
                client = OpenLineageClient()
            except Exception as error:
                self._problem = type_of(error)
                return
            while (event := self._events.get()) is not None:
                try:
                    client.emit(event)
                except Exception as error:
                    status = getattr(getattr(error, "response", None), "status_code", None)
                    self._problem = type_of(error) if status is None else f"HTTP {status}"
            client.close()


class _Quiet(logging.Filter):
    """Drops what the library logs in one thread: addresses are in it, and one note of ours says it."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether another thread logs."""
        return record.thread != self._thread

    def __enter__(self) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self)

    def __exit__(self, *_: object) -> None:
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self)
