"""The trace of a run for OpenTelemetry: a span for the run, and for each layer, source, batch and table.

The standard environment variables configure it (`OTEL_EXPORTER_OTLP_ENDPOINT` and the others). Attributes are
names and numbers; an error is its code, never its text.

https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
https://opentelemetry.io/docs/specs/semconv/
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from framework.errors import MainstemError
from framework.observability.steps import Fact, Kind, RunFacts, Step, StepEnd, type_of

_MOST_SECONDS = 4.0
"""How long one request may take, with its retries: less than the end of a run waits."""
_TITLES: Mapping[Kind, str] = {
    "run": "run {}", "layer": "{}", "source": "land {}", "batch": "decode batch", "table": "apply {}",
}  # fmt: skip
_STANDARD = {"messages": "messaging.batch.message_count"}
"""Facts of a batch that semantic conventions have a name for."""
_PROVIDERS: dict[tuple[tuple[str, str], ...], TracerProvider] = {}
_LOCK = threading.Lock()
_STATUS = re.compile(r"\bcode: (\d{3})\b")


def open_observer(run: RunFacts, environ: Mapping[str, str]) -> Traces:
    """The observer of a run.

    Raises:
        MainstemError: TRACES_NOT_SENT, for a protocol that is not OTLP over HTTP.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environ[name] for name in names if environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        raise MainstemError(
            "TRACES_NOT_SENT",
            found="the protocol must be http/protobuf",
            where="OTEL_EXPORTER_OTLP_PROTOCOL",
            action="leave it out or write http/protobuf, with the HTTP port of the collector (often 4318)",
        )
    return Traces(run, environ)


class Traces:
    """Makes the spans of one run, and sends them while it works and at its end."""

    def __init__(self, run: RunFacts, environ: Mapping[str, str]) -> None:
        self._run = run
        self._log = _Log()
        self._provider = _provider(environ)
        self._tracer = self._provider.get_tracer("mainstem", version("mainstem"))
        self._outer = _outer_context(environ)
        self._lock = threading.Lock()
        self._spans: dict[int, trace.Span] = {}

    def begin(self, step: Step) -> None:
        """Begin the span of a step below the span of its parent."""
        with self._lock:
            above = self._spans.get(id(step.parent))
        span = self._tracer.start_span(
            _TITLES[step.kind].format(step.name),
            self._outer if above is None else trace.set_span_in_context(above),
            attributes=dict(self._attributes(step)),
            start_time=time.time_ns() - round(step.seconds_ago * 1e9),
        )
        with self._lock:
            self._spans[id(step)] = span

    def end(self, step: Step, end: StepEnd) -> None:
        """End the span of a step; a step that failed or parked its table is an error."""
        with self._lock:
            span = self._spans.pop(id(step))
        span.set_attributes({_name_of(step, name): value for name, value in end.facts.items()})
        if end.error is not None or end.is_parked:
            span.set_attribute("error.type", "PARKED" if end.error is None else type_of(end.error))
            span.set_status(trace.StatusCode.ERROR)
        span.end()

    def send(self) -> str | None:
        """Send the spans that wait; returns why spans were not sent, now or before."""
        try:
            self._provider.force_flush()
        finally:
            self._log.close()
        return self._log.problem

    def _attributes(self, step: Step) -> Iterator[tuple[str, Fact]]:
        yield "mainstem.pipeline", self._run.pipeline
        yield "mainstem.run.id", self._run.run_id
        if step.kind == "run":
            yield "mainstem.run.through", self._run.through
        if step.kind in ("run", "table"):
            name = step.name if step.kind == "table" else self._run.table or ""
            database, _, table = name.rpartition(".")
            if table:
                yield "db.collection.name", table
            if database:
                yield "db.namespace", database
        if step.kind in ("layer", "source"):
            yield f"mainstem.{step.kind}", step.name
        if step.kind == "batch":
            yield "mainstem.batch", int(step.name)


def _name_of(step: Step, fact: str) -> str:
    if step.kind == "batch" and fact in _STANDARD:
        return _STANDARD[fact]
    return f"mainstem.{fact}"


def _provider(environ: Mapping[str, str]) -> TracerProvider:
    """The provider for these settings: the rounds of a process share it, as each has a thread of its own."""
    settings = tuple(sorted((name, text) for name, text in environ.items() if name.startswith("OTEL_")))
    with _LOCK:
        if settings not in _PROVIDERS:
            provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
            exporter = OTLPSpanExporter(timeout=min(_seconds(environ), _MOST_SECONDS))
            provider.add_span_processor(BatchSpanProcessor(exporter))
            _PROVIDERS[settings] = provider
        return _PROVIDERS[settings]


def _resource() -> Resource:
    """The resource of the environment, with this program's name where the environment has none."""
    program: dict[str, str] = {"service.version": version("mainstem")}
    found = Resource.create(program)
    if str(found.attributes.get("service.name", "unknown_service")).startswith("unknown_service"):
        return Resource.create({**program, "service.name": "mainstem"})
    return found


def _outer_context(environ: Mapping[str, str]) -> context.Context:
    """The span that the run is a part of: of the caller, else of the environment (`TRACEPARENT`)."""
    current = context.get_current()
    if trace.get_current_span(current).get_span_context().is_valid:
        return current
    carrier = {
        name: environ[name.upper()] for name in ("traceparent", "tracestate") if name.upper() in environ
    }
    return TraceContextTextMapPropagator().extract(carrier, current)


def _seconds(environ: Mapping[str, str]) -> float:
    names = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
    text = next((environ[name] for name in names if environ.get(name)), "")
    try:
        return float(text)
    except ValueError:
        return _MOST_SECONDS


class _Log(logging.Handler):
    """Takes what OpenTelemetry logs during a run: addresses are in it, and one note of ours says it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.problem: str | None = None
        self._logger = logging.getLogger("opentelemetry")
        self._propagated = self._logger.propagate
        self._logger.propagate = False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the kind of the problem, without its text."""
        found = _STATUS.search(record.getMessage())
        if found is not None:
            self.problem = f"HTTP {found[1]}"
        elif self.problem is None:
            self.problem = "it could not be reached"

    def close(self) -> None:
        """Let OpenTelemetry log as before."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated
        super().close()
