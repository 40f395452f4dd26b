"""The lineage of a run: what a receiver gets, and that no receiver can hold or fail a run."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from framework.config.model import load_config
from framework.errors import MainstemError
from framework.observability import observers
from framework.observability.extras import EXTRAS
from framework.observability.observers import observers_of
from framework.observability.steps import RunFacts, Step, StepEnd, WrittenTable
from framework.pipeline.progress import Progress
from silver.layer import LAYER as SILVER
from tests.framework.observability.receivers import Received, closed_address, receiver

CONFIG = """
pipeline: shop
lakehouse: ./lake
sources:
  files: {format: canal, files: ./in}
  topics: {format: canal, kafka: {bootstrap_servers: "me:secret@broker:9092", topic_pattern: "shop.*"}}
"""


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library writes into the environment; no file of the user configures it."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("OPENLINEAGE")}
    with patch.dict(os.environ, {**clean, "HOME": str(tmp_path)}, clear=True):
        monkeypatch.chdir(tmp_path)
        yield


@pytest.fixture
def run(tmp_path: Path) -> RunFacts:
    (tmp_path / "mainstem.yml").write_text(CONFIG)
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    return RunFacts("shop", "r1", "quality", sources=config.sources)


def small_run(run: RunFacts, end: StepEnd) -> list[str]:
    """Tell of a run that reads a topic and writes a table; returns the notes."""
    found, progress, step = observers_of(run), Progress(), Step("run", "shop")
    progress.observe(found, step)
    found.begin(step)
    progress.begin("bronze")
    with progress.step("source", "topics") as facts:
        facts["topics"] = "shop.item, shop.orders"
    progress.end()
    progress.begin("gold")
    progress.start_table("shop.orders")
    written = WrittenTable("/lake/gold/shop/orders", (("id", "bigint"), ("name", "string")), 3)
    progress.end_table("shop.orders", "ok", StepEnd({"insert": 3}, written=written))
    progress.end()
    found.end(step, end)
    return found.send()


def events_of(received: Received) -> list[dict[str, Any]]:
    assert {path for path, _ in received.requests} <= {"/api/v1/lineage"}
    return [json.loads(body) for _, body in received.requests]


def test_a_run_starts_and_completes_with_its_inputs_and_outputs(run: RunFacts, tmp_path: Path) -> None:
    with receiver() as server:
        os.environ |= {
            "OPENLINEAGE_URL": server.address,
            "OPENLINEAGE_API_KEY": "key",
            "OPENLINEAGE_NAMESPACE": "ingest",
            "OPENLINEAGE_PARENT_ID": "air/flow/daily.load/0193a1b2-0000-7000-8000-000000000001",
        }
        assert small_run(run, StepEnd({"exit_code": 3})) == []
    start, complete = events_of(server)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"] == str(UUID(start["run"]["runId"]))
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("ingest", "mainstem.shop")
    files = {"namespace": "file", "name": str(tmp_path / "in")}
    assert [{key: each[key] for key in files} for each in start["inputs"]] == [files]
    assert [(each["namespace"], each["name"]) for each in complete["inputs"]] == [
        ("file", str(tmp_path / "in")),
        ("kafka://broker:9092", "shop.item"),
        ("kafka://broker:9092", "shop.orders"),
    ]
    (output,) = complete["outputs"]
    assert (output["namespace"], output["name"]) == ("file", "/lake/gold/shop/orders")
    columns = [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]]
    assert columns == [("id", "bigint"), ("name", "string")]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3
    facets = complete["run"]["facets"]
    above = facets["parent"]["job"]
    assert (above["namespace"], above["name"]) == ("air/flow", "daily.load")
    assert {"key": "mainstem_run_id", "value": "r1", "source": "MAINSTEM"} in facets["tags"]["tags"]
    assert server.headers[0]["Authorization"] == "Bearer key"
    assert b"secret" not in b"".join(body for _, body in server.requests)


@pytest.mark.parametrize(
    "end",
    [
        StepEnd(error=MainstemError("SOURCE_FAILED", found="id=7", where="source files", action="")),
        StepEnd({"exit_code": 1}),
    ],
)
def test_a_run_that_fails_says_so_without_the_text_of_its_error(end: StepEnd, run: RunFacts) -> None:
    with receiver() as server:
        os.environ["OPENLINEAGE_URL"] = server.address
        assert small_run(run, end) == []
    _, last = events_of(server)
    assert last["eventType"] == "FAIL"
    if end.error is not None:
        assert last["run"]["facets"]["errorMessage"]["message"] == "SOURCE_FAILED"
    assert b"id=7" not in server.requests[1][1]


def test_the_file_of_the_library_configures_it(run: RunFacts, tmp_path: Path) -> None:
    (tmp_path / "openlineage.yml").write_text(
        "transport: {type: file, log_file_path: events.json, append: true}"
    )
    assert small_run(run, StepEnd({"exit_code": 0})) == []
    events = [json.loads(line) for line in (tmp_path / "events.json").read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]


def test_a_setting_or_a_file_asks_for_lineage(tmp_path: Path) -> None:
    asks = EXTRAS[1].is_asked_for
    assert not asks({})
    assert asks({"OPENLINEAGE_URL": "http://l:5000"})
    assert asks({"OPENLINEAGE__TRANSPORT__TYPE": "http"})
    assert not asks({"OPENLINEAGE_URL": "http://l:5000", "OPENLINEAGE_DISABLED": "true"})
    assert not asks({"OPENLINEAGE_CONFIG": "gone.yml"})
    (tmp_path / "own.yml").touch()
    assert asks({"OPENLINEAGE_CONFIG": "own.yml"})


def test_without_the_extra_a_note_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, run: RunFacts
) -> None:
    monkeypatch.delitem(sys.modules, "framework.observability.lineage", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    os.environ["OPENLINEAGE_URL"] = "http://l:5000"
    (note,) = small_run(run, StepEnd())
    assert note.startswith("OPENLINEAGE_MISSING: ")
    assert "pip install 'openlineage-python" in note


def test_a_receiver_that_refuses_is_one_note_without_the_address(
    run: RunFacts, capfd: pytest.CaptureFixture[str]
) -> None:
    with receiver(403) as server:
        os.environ |= {"OPENLINEAGE_URL": server.address, "OPENLINEAGE_ENDPOINT": "secret"}
        (note,) = small_run(run, StepEnd())
    assert note.startswith(
        "LINEAGE_NOT_SENT: the lineage of this run did not reach its receiver at 127.0.0.1: HTTP 403"
    )
    assert "secret" not in note
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_receiver_that_is_down_or_silent_holds_a_run_for_a_limited_time(
    is_silent: bool, run: RunFacts, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observers, "MOST_SECONDS", 0.5)
    with receiver(silence=threading.Event()) as server:
        os.environ["OPENLINEAGE_URL"] = server.address if is_silent else closed_address()
        begun = time.monotonic()
        (note,) = small_run(run, StepEnd())
        assert time.monotonic() - begun < 3
    assert "no answer within 0.5 s" in note
    assert capfd.readouterr() == ("", "")


def test_a_wrong_setting_is_one_note(run: RunFacts, tmp_path: Path) -> None:
    (tmp_path / "openlineage.yml").write_text("transport: {type: carrier_pigeon}")
    (note,) = small_run(run, StepEnd())
    assert note.startswith("LINEAGE_NOT_SENT: ")
