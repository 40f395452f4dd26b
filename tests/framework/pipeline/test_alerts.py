"""Alerts: what a webhook is sent, that it is sent once, and that one that cannot be reached fails nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from framework.cli import main
from framework.config.alerts import Alert, Style
from framework.config.model import load_config
from framework.contracts.quality import QualityResult
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.lease import hold_lease
from framework.pipeline.alerts import AlertMessage, message_of, send
from framework.pipeline.layer import LayerReport, TableLine
from silver.layer import LAYER as SILVER

HEAD = "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: datahub_blob, files: ./landing}\n"


@contextmanager
def webhook(status: int = 200, location: str | None = None) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server on this machine, and the JSON objects that it has been sent."""
    received: list[dict[str, object]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook/secret", received
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def slow_server(pause: float) -> Iterator[str]:
    """A server that sends one byte of its answer after each pause, for ever."""
    ended = threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            with suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not ended.wait(pause):
                    self.wfile.write(b"x")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def message() -> AlertMessage:
    parked = LayerReport(
        "gold",
        tables=(TableLine("shop.<b>", "PARKED", notes=("id=2 breaks a rule",)), TableLine("shop.line", "ok")),
    )
    return message_of("shop", "r1", [LayerReport("bronze", errors=(OSError("no\nplace"),)), parked], 1)


def test_json_holds_what_is_wrong_and_no_value_of_a_row() -> None:
    with webhook() as (address, received):
        assert send(Alert(webhook=address), message()) is None
    text = "mainstem shop: failed (run r1)\n• no⏎place\n• shop.<b>: parked"
    problems = [
        {"kind": "error", "table": None, "text": "no⏎place"},
        {"kind": "parked", "table": "shop.<b>", "text": "parked"},
    ]
    assert received == [
        {"pipeline": "shop", "run_id": "r1", "exit_code": 1, "problems": problems, "text": text}
    ]


def test_a_parked_table_is_one_problem() -> None:
    report = LayerReport("gold", tables=(TableLine("shop.line", "PARKED"),))
    failures = tuple(
        failed(rule, table)
        for rule, table in (("applied", "line"), ("unique(id)", "line"), ("applied", "item"))
    )
    alert = message_of("shop", "r1", [report, LayerReport("quality", failures=failures)], 3)
    assert [(problem.kind, problem.table, problem.text) for problem in alert.problems] == [
        ("parked", "shop.line", "parked"),
        ("rule", "shop.line", "unique(id) (2 fail)"),
        ("rule", "shop.item", "applied (2 fail)"),
    ]


def failed(rule: str, table: str) -> QualityResult:
    now = datetime(2024, 3, 1, tzinfo=UTC)
    return QualityResult(
        "r1", now, now, "source", "feed", "shop", None, table, rule, "applied", (), "error", False,
        "all is applied", "not", 2, 2, (), None,
        False, "mainstem", None, None, "s",
    )  # fmt: skip


def test_slack_is_sent_text_alone_and_a_name_is_no_markup() -> None:
    with webhook() as (address, received):
        assert send(Alert(webhook=address, style=Style.SLACK), message()) is None
    assert received == [{"text": "mainstem shop: failed (run r1)\n• no⏎place\n• shop.&lt;b&gt;: parked"}]


def test_a_webhook_that_refuses_or_is_gone_is_named_without_its_address() -> None:
    with webhook(500) as (address, _):
        assert send(Alert(webhook=address), message()) == "HTTP 500"
    assert send(Alert(webhook=address), message()) == "URLError"


def test_a_run_that_cannot_begin_sends_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(HEAD + 'alerts: [{webhook: "${env:SHOP_HOOK}"}]\n')
    with hold_lease(Lakehouse(str(tmp_path / "lakehouse")), "shop"):
        with webhook() as (address, received):
            monkeypatch.setenv("SHOP_HOOK", address)
            code = main(["run", "-c", str(file)])
        assert (code, [(sent["exit_code"], sent["run_id"]) for sent in received]) == (1, [(1, None)])
        assert "LEASE_HELD" in str(received[0]["text"])
        assert main(["run", "-c", str(file)]) == 1
    printed = capsys.readouterr().err
    assert "note: the alert to 127.0.0.1 was not sent: URLError" in printed
    assert "secret" not in printed


def test_an_address_is_checked_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_HOOK", "hooks.example.com/secret")
    (tmp_path / "mainstem.yml").write_text(HEAD + 'alerts: [{webhook: "${env:SHOP_HOOK}"}]\n')
    with pytest.raises(ConfigurationError) as caught:
        load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    assert "https://" in caught.value.action
    assert "example.com/secret" not in str(caught.value)
    assert "secret" not in repr(Alert(webhook="https://hooks.example.com/secret"))


def test_a_redirect_is_no_delivery() -> None:
    with webhook() as (address, received), webhook(302, location=address) as (moved, _):
        failure = send(Alert(webhook=moved), message())
        assert (failure, received) == ("HTTP 302, the address leads to another one: write that", [])


def test_an_answer_that_never_ends_holds_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.pipeline.alerts._SECONDS", 1)
    with slow_server(0.1) as address:
        begun = time.perf_counter()
        assert send(Alert(webhook=address), message()) == "no answer within 1 s"
        assert time.perf_counter() - begun < 5
