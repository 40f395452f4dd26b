"""Alerts: what a receiver is told, that it is told once, and that one that is not reached fails nothing."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.config.alerts import Alert, Style, Topic
from framework.config.model import Config, load_config
from framework.contracts.quality import QualityResult
from framework.errors import ConfigurationError, MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.lease import hold_lease
from framework.observability import delivery
from framework.observability.alert_message import AlertMessage
from framework.pipeline import alerts as module
from framework.pipeline.alerts import problems_of, send_alerts, send_failure_alerts
from framework.pipeline.layer import LayerReport, Run, TableLine
from silver.layer import LAYER as SILVER
from tests.framework.observability.receivers import closed_address, receiver, served

HEAD = "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: datahub_blob, files: ./landing}\n"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "PAUSES", (0.0, 0.0))


@contextmanager
def webhook(*answers: int, location: str | None = None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on this machine with these answers, and the JSON objects that it has been sent."""
    received: list[dict[str, Any]] = []
    left = list(answers or (200,))

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            if location is not None:
                self.send_header("Location", location)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with served(Receiver) as address:
        yield f"{address}/hook/secret", received


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

    with served(Receiver) as address:
        try:
            yield f"{address}/hook"
        finally:
            ended.set()


def gold(*parked: str, sound: str = "shop.line", source: str | None = None) -> LayerReport:
    lines = [TableLine(name, "PARKED", notes=("id=2 breaks a rule",), source=source) for name in parked]
    return LayerReport("gold", tables=(*lines, TableLine(sound, "ok")))


def message() -> AlertMessage:
    problems = problems_of([LayerReport("bronze", errors=(OSError("no\nplace"),)), gold("shop.<b>")])
    return AlertMessage("shop", "r1", 1, tuple(problems), ("shop.item: parked",))


def send(alert: Alert, text: AlertMessage) -> str | None:
    (answer,) = delivery.send_all([(alert, text)])
    return answer


def failed(rule: str, table: str, count: int = 2) -> QualityResult:
    now = datetime(2024, 3, 1, tzinfo=UTC)
    return QualityResult(
        "r1", now, now, "source", "feed", "shop", None, table, rule, "applied", (), "error", False,
        "all is applied", "not", count, count, (), None,
        False, "mainstem", None, None, "s",
    )  # fmt: skip


class Runs:
    """Runs of a pipeline in a folder, as far as alerts see them: what their layers report, and their end."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *alerts: str) -> None:
        (folder / "mainstem.yml").write_text(HEAD + "alerts:\n" + "".join(f"  - {{{a}}}\n" for a in alerts))
        self.config: Config = load_config(folder / "mainstem.yml", formats=SILVER.options())
        monkeypatch.setattr(module, "_log", lambda *_: None)  # the one part that needs a session
        no_session: Any = None
        self._run = Run(no_session, Lakehouse(self.config.root), self.config, "r1")

    def end(self, *reports: LayerReport, code: int = 0, table: str | None = None) -> list[str]:
        """A run through quality, where gold and quality report nothing unless they are given."""
        given = {report.layer: report for report in reports}
        layers = [given.get(name, LayerReport(name)) for name in ("bronze", "silver", "gold", "quality")]
        return send_alerts(replace(self._run, table=table), layers, code)

    def end_through(self, layers: Sequence[LayerReport], code: int = 0) -> list[str]:
        return send_alerts(self._run, layers, code)


def test_json_holds_what_is_wrong_and_no_value_of_a_row() -> None:
    with webhook() as (address, received):
        assert send(Alert(webhook=address), message()) is None
    text = (
        "mainstem shop: failed (run r1)\n• OSError: no\n• shop.<b>: parked\n✓ right again: shop.item: parked"
    )
    problems = [
        {"kind": "stopped", "table": None, "source": None, "text": "OSError: no"},
        {"kind": "parked", "table": "shop.<b>", "source": None, "text": "parked"},
    ]
    assert received == [
        {
            "pipeline": "shop",
            "run_id": "r1",
            "exit_code": 1,
            "problems": problems,
            "over": ["shop.item: parked"],
            "text": text,
        }
    ]


def test_slack_is_sent_text_alone_and_a_name_is_no_markup() -> None:
    with webhook() as (address, received):
        assert send(Alert(webhook=address, style=Style.SLACK), message()) is None
    assert [set(sent) for sent in received] == [{"text"}]
    assert "• shop.&lt;b&gt;: parked" in received[0]["text"]


def test_an_address_of_apprise_is_sent_a_title_and_a_text() -> None:
    with receiver() as server:
        address = server.address.replace("http://", "json://") + "/hook"
        assert send(Alert(url=address), message()) is None
    ((path, body),) = server.requests
    sent = json.loads(body)
    assert (path, sent["title"], sent["type"]) == ("/hook", "mainstem shop: failed", "failure")
    assert "shop.<b>: parked" in sent["message"]


def test_an_address_of_apprise_that_refuses_is_told_without_it(capfd: pytest.CaptureFixture[str]) -> None:
    with receiver(403) as server:
        address = server.address.replace("http://", "json://user:secret@") + "/secret"
        assert send(Alert(url=address), message()) == "HTTP 403"
    assert len(server.requests) == 3
    assert send(Alert(url="nosuch://secret"), message()) == (
        "the address is none that Apprise knows, or lacks a part"
    )
    assert capfd.readouterr() == ("", "")


def test_without_the_extra_a_note_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    (note,) = Runs(tmp_path, monkeypatch, "url: 'slack://secret'").end(gold("shop.item"), code=3)
    assert note.startswith("ALERT_NOT_SENT: the alert to slack was not sent: apprise is not installed")
    assert "pip install 'apprise" in note
    assert "secret" not in note


def test_a_problem_is_told_once_and_its_end_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        runs.end()
        assert received == []
        runs.end(gold("shop.item"), code=3)
        runs.end(gold("shop.item"), code=3)
        assert [sent["problems"] for sent in received] == [
            [{"kind": "parked", "table": "shop.item", "source": None, "text": "parked"}]
        ]
        runs.end(gold("shop.item", "shop.price"), code=3)
        assert [problem["table"] for problem in received[1]["problems"]] == ["shop.item", "shop.price"]
        runs.end(gold("shop.price"), code=3)
        assert received[2]["over"] == ["shop.item: parked"]
        runs.end()
        runs.end()
    assert len(received) == 4
    assert received[3]["text"].startswith("mainstem shop: all is well again")
    assert (received[3]["problems"], received[3]["over"]) == ([], ["shop.price: parked"])


def test_a_table_of_the_same_name_in_another_source_is_a_problem_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    west, east = gold("shop.item", source="west"), gold("shop.item", source="east")
    both = replace(west, tables=west.tables + east.tables)
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        for report in (west, both, east):
            runs.end(report, code=3)
    assert [[problem["source"] for problem in sent["problems"]] for sent in received] == [
        ["west"],
        ["west", "east"],
        ["east"],
    ]
    assert "• shop.item (source east): parked\n" in received[1]["text"] + "\n"
    assert received[2]["over"] == ["shop.item (source west): parked"]


def test_a_rule_whose_count_changes_is_the_same_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        for count in (2, 3, 5):
            runs.end(LayerReport("quality", failures=(failed("unique(id)", "line", count),)), code=3)
    assert [sent["problems"][0]["text"] for sent in received] == ["unique(id) (2 fail)"]


def test_a_parked_table_is_one_problem() -> None:
    report = LayerReport("gold", tables=(TableLine("shop.line", "PARKED", source="feed"),))
    failures = tuple(
        failed(rule, table)
        for rule, table in (("applied", "line"), ("unique(id)", "line"), ("applied", "item"))
    )
    found = problems_of([report, LayerReport("quality", failures=failures)])
    assert [(problem.kind, problem.table, problem.text) for problem in found] == [
        ("parked", "shop.line", "parked"),
        ("quality", "shop.line", "unique(id) (2 fail)"),
        ("quality", "shop.item", "applied (2 fail)"),
    ]


def test_each_receiver_is_told_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = LayerReport(
        "bronze", errors=(MainstemError("SOURCE_FAILED", found="x", where="a", action="y"),)
    )
    with webhook() as (one, parked), webhook() as (other, stops):
        runs = Runs(
            tmp_path,
            monkeypatch,
            f"webhook: '{one}', about: [parked]",
            f"webhook: '{other}', about: [stopped]",
        )
        runs.end(stopped, gold("shop.item"), code=1)
        runs.end(gold("shop.item"), code=3)
    assert [[problem["kind"] for problem in sent["problems"]] for sent in parked] == [["parked"]]
    assert [[problem["kind"] for problem in sent["problems"]] for sent in stops] == [["stopped"], []]
    assert (stops[1]["over"], stops[1]["text"].splitlines()[0]) == (
        ["SOURCE_FAILED (a)"],
        "mainstem shop: a problem is over (run r1)",
    )


def test_a_receiver_that_was_not_reached_is_told_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook(500, 500, 500, 200) as (one, late), webhook() as (other, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{one}'", f"webhook: '{other}'")
        (note,) = runs.end(gold("shop.item"), code=3)
        assert "ALERT_NOT_SENT: the alert to 127.0.0.1 was not sent: HTTP 500; see alerts[0]" in note
        assert (len(late), len(received)) == (3, 1)
        assert runs.end(gold("shop.item"), code=3) == []
    assert (len(late), len(received)) == (4, 1)


def test_a_lost_memory_tells_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        memory = tmp_path / "lakehouse/_mainstem/alerts.memory"
        runs.end(gold("shop.item"), code=3)
        for broken in (b"", b"\xff\xfe", b'{"form": 1, "salt": "no"}', b"[]"):
            memory.write_bytes(broken)
            runs.end(gold("shop.item"), code=3)
        memory.unlink()
        runs.end(gold("shop.item"), code=3)
    assert len(received) == 6


def test_the_memory_holds_no_address_and_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as (address, _):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        runs.end(LayerReport("bronze", errors=(OSError("id=7"),)), gold("shop.item"), code=1)
    kept = (tmp_path / "lakehouse/_mainstem/alerts.memory").read_text()
    assert "shop.item: parked" in kept
    assert [word for word in ("127.0.0.1", "secret", "id=7", "id=2") if word in kept] == []


def test_a_new_address_is_told_what_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook() as (address, received):
        Runs(tmp_path, monkeypatch, f"webhook: '{address}'").end(gold("shop.item"), code=3)
        Runs(tmp_path, monkeypatch, f"webhook: '{address}-2'").end(gold("shop.item"), code=3)
    assert len(received) == 2


def test_an_address_that_is_written_twice_is_told_both_parts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = LayerReport("quality", failures=(failed("unique(id)", "line"),))
    with webhook() as (address, received):
        parts = (f"webhook: '{address}', about: [parked]", f"webhook: '{address}', about: [quality]")
        runs = Runs(tmp_path, monkeypatch, *parts)
        for _ in range(3):
            runs.end(gold("shop.item"), broken, code=3)
    assert sorted(sent["problems"][0]["kind"] for sent in received) == ["parked", "quality"]


def test_an_address_that_was_away_is_told_what_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook() as (address, received), webhook() as (other, _):
        Runs(tmp_path, monkeypatch, f"webhook: '{address}'").end(gold("shop.item"), code=3)
        Runs(tmp_path, monkeypatch, f"webhook: '{other}'").end()
        Runs(tmp_path, monkeypatch, f"webhook: '{address}'").end(gold("shop.item"), code=3)
    assert len(received) == 2


def test_a_memory_that_cannot_be_kept_fails_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakehouse").mkdir()
    (tmp_path / "lakehouse/_mainstem").touch()  # a file where the folder belongs
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        assert runs.end(gold("shop.item"), code=3) == []
        assert send_failure_alerts(runs.config, KeyError("x")) == []
    assert len(received) == 2


def test_only_a_run_that_looks_for_a_problem_knows_that_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = LayerReport("quality", failures=(failed("unique(id)", "line"),))
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        runs.end(gold("shop.item"), broken, code=3)
        runs.end(table="shop.line")
        assert len(received) == 1
        runs.end_through([LayerReport("bronze"), LayerReport("silver"), gold()])
        assert received[1]["over"] == ["shop.item: parked"]
        runs.end()
    assert received[2]["over"] == ["shop.line (source feed): unique(id)"]


def test_a_broken_rule_is_not_over_where_the_quality_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = LayerReport("quality", failures=(failed("unique(id)", "line"),))
    unjudged = MainstemError("NOT_JUDGED", found="x", where="the quality step", action="y")
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        runs.end(broken, code=3)
        runs.end(LayerReport("quality", errors=(unjudged,)), code=1)
        assert ([problem["kind"] for problem in received[1]["problems"]], received[1]["over"]) == (
            ["failed"],
            [],
        )
        runs.end()
    assert set(received[2]["over"]) == {
        "shop.line (source feed): unique(id)",
        "NOT_JUDGED (the quality step)",
    }


def test_messages_in_quarantine_are_told_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_700_000_000.0]
    monkeypatch.setattr(module, "_now", lambda: now[0])
    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        for count in (3, 4, 0):
            runs.end(LayerReport("silver", {"quarantined": count}))
            now[0] += 300
        assert [sent["problems"][0]["text"] for sent in received] == ["3 messages more in quarantine"]
        now[0] += 24 * 3600
        runs.end()
        runs.end()
    assert [sent["problems"][0]["text"] for sent in received[1:]] == ["4 messages more in quarantine"]
    assert received[0]["text"].startswith("mainstem shop: messages are in quarantine (run r1)")


def test_the_same_failure_is_told_once_until_a_run_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(with_number: int) -> list[str]:
        error = MainstemError("LEASE_HELD", found=f"process {with_number}", where="lake", action="wait")
        return send_failure_alerts(runs.config, error)

    with webhook() as (address, received):
        runs = Runs(tmp_path, monkeypatch, f"webhook: '{address}'")
        fails(1)
        fails(2)
        assert [sent["problems"][0]["kind"] for sent in received] == ["failed"]
        send_failure_alerts(runs.config, KeyError("x"))
        assert len(received) == 2
        runs.end()
        assert received[2]["over"] == ["LEASE_HELD (lake)", "KeyError"]
        runs.end()
        fails(3)
    assert len(received) == 4


def test_a_webhook_that_refuses_or_is_gone_is_named_without_its_address() -> None:
    with webhook(404) as (address, received):
        assert send(Alert(webhook=address), message()) == "HTTP 404"
        assert len(received) == 1
    with webhook(503, 200) as (address, received):
        assert send(Alert(webhook=address), message()) is None
        assert len(received) == 2
    assert send(Alert(webhook=closed_address()), message()) == "ConnectionRefusedError: Connection refused"


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
        monkeypatch.setenv("SHOP_HOOK", f"{address}/other")
        assert main(["run", "-c", str(file)]) == 1
    printed = capsys.readouterr().err
    assert "the alert to 127.0.0.1 was not sent: ConnectionRefusedError: Connection refused" in printed
    assert "secret" not in printed


@pytest.mark.parametrize(
    ("alert", "advice"),
    [
        ('webhook: "${env:SHOP_HOOK}"', "https://"),
        ('url: "${env:SHOP_HOOK}"', "mailtos://"),
        ('url: "slack://secret", webhook: "https://secret"', "exactly one of"),
        ('url: "slack://secret", style: slack', "leave it out"),
        ('url: "slack://secret", about: [parkd]', "did you mean 'parked'?"),
    ],
)
def test_an_address_is_checked_and_never_shown(
    alert: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_HOOK", "hooks.example.com/secret")
    (tmp_path / "mainstem.yml").write_text(HEAD + f"alerts: [{{{alert}}}]\n")
    with pytest.raises(ConfigurationError) as caught:
        load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    assert advice in caught.value.action
    assert "secret" not in str(caught.value)


def test_an_address_shows_its_host_or_its_service() -> None:
    hook, mail = (
        Alert(webhook="https://hooks.example.com/secret"),
        Alert(url="mailtos://me:secret@example.com"),
    )
    assert (hook.host, mail.host) == ("hooks.example.com", "mailtos")
    assert Alert(url="slack://secret/b/c").host == "slack"
    assert "secret" not in repr((hook, mail))
    assert mail.about == tuple(Topic)


def test_a_test_is_sent_to_each_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    with webhook() as (address, received):
        file.write_text(
            HEAD + f"alerts: [{{webhook: '{address}'}}, {{url: 'nosuch://secret', about: [parked]}}]\n"
        )
        assert main(["alerts", "-c", str(file)]) == 0
        shown = capsys.readouterr().out
        assert "alerts[0]  127.0.0.1" in shown
        assert "about parked" in shown
        assert received == []
        assert main(["alerts", "--test", "-c", str(file)]) == 1
        assert main(["alerts", "--test", "--json", "-c", str(file)]) == 1
    printed = capsys.readouterr().out
    assert "ok    alerts[0]  127.0.0.1\nFAIL  alerts[1]  nosuch" in printed
    assert "secret" not in shown + printed
    text = "mainstem shop: a test: whoever reads this is told of problems"
    assert [sent["text"] for sent in received] == [text, text]
    file.write_text(HEAD)
    assert main(["alerts", "-c", str(file)]) == 0
    assert "nobody is told" in capsys.readouterr().out


def test_a_redirect_is_no_delivery() -> None:
    with webhook() as (address, received), webhook(302, location=address) as (moved, _):
        failure = send(Alert(webhook=moved), message())
        assert (failure, received) == ("HTTP 302, the address leads to another one: write that", [])


def test_an_answer_that_never_ends_holds_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MOST_SECONDS", 1)
    with slow_server(0.1) as address:
        begun = time.perf_counter()
        assert send(Alert(webhook=address), message()) == "no answer within 1 s"
        assert time.perf_counter() - begun < 5
