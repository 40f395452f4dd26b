"""The trace of a run: what a collector receives, and that no collector can hold or fail a run."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from framework.config.model import load_config
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.observability import observers
from framework.observability.extras import EXTRAS
from framework.observability.observers import Observers, observers_of
from framework.observability.steps import RunFacts, Step, StepEnd
from framework.pipeline import run as runs
from framework.pipeline.layer import Layer, LayerReport, Run
from framework.pipeline.progress import Progress
from silver.layer import LAYER as SILVER
from tests.framework.observability.receivers import Received, closed_address, receiver

RUN = RunFacts("shop", "r1", "quality")
CONFIG = "pipeline: shop\nlakehouse: ./lake\nsources:\n  a: {format: canal, files: ./in}\n"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "TRACEPARENT"):
        monkeypatch.delenv(name, raising=False)


def spans_of(received: Received) -> dict[str, Span]:
    """The spans that a collector has, by name."""
    assert {path for path, _ in received.requests} == {"/v1/traces"}
    messages = [ExportTraceServiceRequest.FromString(body) for _, body in received.requests]
    return {
        span.name: span
        for message in messages
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def attributes_of(span: Span) -> dict[str, object]:
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes}


def small_run(found: Observers) -> list[str]:
    """Tell of a run that lands one source, decodes a batch and applies two tables; returns the notes."""
    progress, run = Progress(), Step("run", "shop")
    progress.observe(found, run)
    found.begin(run)
    progress.begin("bronze")
    with progress.step("source", "feed") as facts:
        facts["files"] = 2
    progress.end()
    progress.begin("silver")
    with progress.step("batch", "1000") as facts:
        facts["messages"] = 7
    progress.end()
    progress.begin("gold")
    progress.start_table("shop.orders")
    progress.start_table("shop.public.item")
    progress.end_table("shop.orders", "ok", StepEnd({"insert": 3}))
    error = MainstemError("KEY_NEEDED", found="id=7", where="shop.item", action="")
    progress.end_table("shop.public.item", "PARKED", StepEnd(error=error, is_parked=True))
    progress.end(StepEnd({"applied": 3}))
    found.end(run, StepEnd({"exit_code": 3}))
    return found.send()


def test_a_run_is_one_trace_of_its_layers_sources_batches_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        assert small_run(observers_of(RUN)) == []
    spans = spans_of(collector)
    names = {span.span_id: name for name, span in spans.items()}
    assert {name: names.get(span.parent_span_id) for name, span in spans.items()} == {
        "run shop": None,
        "bronze": "run shop",
        "land feed": "bronze",
        "silver": "run shop",
        "decode batch": "silver",
        "gold": "run shop",
        "apply shop.orders": "gold",
        "apply shop.public.item": "gold",
    }
    assert len({span.trace_id for span in spans.values()}) == 1
    common = {"mainstem.pipeline": "shop", "mainstem.run.id": "r1"}
    assert attributes_of(spans["run shop"]) == {
        **common,
        "mainstem.run.through": "quality",
        "mainstem.exit_code": 3,
    }
    assert attributes_of(spans["land feed"]) == {**common, "mainstem.source": "feed", "mainstem.files": 2}
    assert attributes_of(spans["decode batch"]) == {
        **common,
        "mainstem.batch": 1000,
        "messaging.batch.message_count": 7,
    }
    assert attributes_of(spans["apply shop.public.item"]) == {
        **common,
        "db.namespace": "shop.public",
        "db.collection.name": "item",
        "error.type": "KEY_NEEDED",
    }
    failed = {name for name, span in spans.items() if span.status.code == Status.STATUS_CODE_ERROR}
    assert failed == {"apply shop.public.item"}
    assert b"id=7" not in collector.requests[0][1]


def test_the_standard_variables_name_the_service_and_the_outer_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = "0af7651916cd43dd8448eb211c80319c"
    with receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=ingest")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-ingest")
        monkeypatch.setenv("TRACEPARENT", f"00-{outer}-b7ad6b7169203331-01")
        assert small_run(observers_of(RUN)) == []
    message = ExportTraceServiceRequest.FromString(collector.requests[0][1])
    resource = {each.key: each.value.string_value for each in message.resource_spans[0].resource.attributes}
    assert resource["service.name"] == "shop-ingest"
    assert collector.headers[0]["x-team"] == "ingest"
    run = spans_of(collector)["run shop"]
    assert (run.trace_id.hex(), run.parent_span_id.hex()) == (outer, "b7ad6b7169203331")


def test_a_run_that_fails_is_a_trace_with_the_kind_of_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mainstem.yml").write_text(CONFIG)
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())

    def fails(run: Run) -> LayerReport:
        raise KeyError("colour")

    monkeypatch.setattr(runs, "layers_through", lambda _: (Layer("bronze", fails, dict),))
    no_session: Any = None
    with receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        with pytest.raises(KeyError):
            runs.run_layers(
                Run(no_session, Lakehouse(config.root), config, "r1"), "quality", time.monotonic()
            )
    spans = spans_of(collector)
    assert {name: attributes_of(span)["error.type"] for name, span in spans.items()} == {
        "run shop": "KeyError",
        "bronze": "KeyError",
    }
    assert b"colour" not in collector.requests[0][1]


@pytest.mark.parametrize(
    ("settings", "is_asked_for"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "otlp"}, True),
    ],
)
def test_an_endpoint_asks_for_traces(settings: dict[str, str], is_asked_for: bool) -> None:
    assert EXTRAS[0].is_asked_for(settings) is is_asked_for


def test_without_an_endpoint_nothing_is_imported() -> None:
    program = (
        "import sys, framework.pipeline.run\n"
        "from framework.observability.observers import observers_of\n"
        "from framework.observability.steps import RunFacts\n"
        "assert observers_of(RunFacts('shop', 'r1', 'gold'), {}).send() == []\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'requests')])\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_without_the_extra_a_note_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "framework.observability.traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    (note,) = small_run(observers_of(RUN, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}))
    assert note.startswith("OPENTELEMETRY_MISSING: ")
    assert "pip install 'opentelemetry-sdk" in note


def test_a_collector_that_refuses_is_one_note_without_the_address(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with receiver(401) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.address}/secret")
        (note,) = small_run(observers_of(RUN))
    assert note.startswith(
        "TRACES_NOT_SENT: the trace of this run did not reach the collector at 127.0.0.1: HTTP 401"
    )
    assert "secret" not in note
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_is_down_is_one_note_in_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("framework.observability.traces._MOST_SECONDS", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", closed_address())
    begun = time.monotonic()
    (note,) = small_run(observers_of(RUN))
    assert time.monotonic() - begun < observers.MOST_SECONDS
    assert "it could not be reached" in note
    assert capfd.readouterr() == ("", "")


def test_a_collector_that_is_silent_holds_a_run_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observers, "MOST_SECONDS", 0.5)
    with receiver(silence=threading.Event()) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        begun = time.monotonic()
        (note,) = small_run(observers_of(RUN))
        assert time.monotonic() - begun < 3
    assert "no answer within 0.5 s" in note


def test_another_protocol_is_refused_with_a_note() -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    (note,) = small_run(observers_of(RUN, settings))
    assert note.startswith("TRACES_NOT_SENT: ")
    assert "the protocol must be http/protobuf" in note


def test_an_observer_that_raises_ends_its_own_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        found = observers_of(RUN)
        found.end(Step("table", "never begun"), StepEnd())
        (note,) = small_run(found)
    assert note.startswith("TRACES_NOT_SENT: ")
    assert note.count("KeyError") == 1


def test_the_rounds_of_a_process_share_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        assert small_run(observers_of(RUN)) == []
        senders = _senders()
        for _ in range(3):
            assert small_run(observers_of(RUN)) == []
        assert _senders() == senders
        assert senders
    messages = [ExportTraceServiceRequest.FromString(body) for _, body in collector.requests]
    spans = [span for m in messages for r in m.resource_spans for s in r.scope_spans for span in s.spans]
    assert len({span.trace_id for span in spans}) == 4
    assert len(spans) == 4 * 8


def _senders() -> list[int | None]:
    """The threads that send traces; other tests leave threads of their own, which end at any time."""
    return [thread.ident for thread in threading.enumerate() if "otel" in thread.name.lower()]
