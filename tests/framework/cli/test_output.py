from __future__ import annotations

import pytest

from framework.cli.output import account_line, next_steps, print_status, quality_line, run_lines, run_table
from framework.pipeline.layer import TableLine

TABLES = (
    TableLine("shop.orders", "ok", 1_204, 311, 17, 2, seconds=3.14),
    TableLine("shop.order_line", "ok", 3_020, 12, 0, notes=("column added: note string",), seconds=12.0),
    TableLine("shop.price", "PARKED", notes=("DUPLICATE_KEY\n  found: two rows of key 7",)),
)
COUNTS = {"changes": 4_564, "messages": 5_010, "merged": 440, "heartbeats": 6}


def test_each_table_has_a_line_and_the_last_one_tells_the_totals() -> None:
    assert run_lines(TABLES, COUNTS, 9.84) == [
        " 1 of 3  shop.orders      ok      +1,204  ~311  -17  2 late                        3.1 s",
        " 2 of 3  shop.order_line  ok      +3,020  ~12   -0   column added: note string    12.0 s",
        " 3 of 3  shop.price       PARKED                     DUPLICATE_KEY found: two rows of key 7",
        " done: 4,564 changes from 5,010 messages (440 halves merged, 6 heartbeats, 0 duplicates, 0 "
        "quarantined, 0 waiting) in 9.8 s",
    ]


def test_a_run_that_found_nothing_has_its_totals_alone() -> None:
    assert run_lines((), {}, 0.04) == [
        " done: 0 changes from 0 messages (0 halves merged, 0 heartbeats, 0 duplicates, 0 quarantined, 0 "
        "waiting) in 0.0 s"
    ]


def test_a_run_of_bronze_alone_says_what_has_landed() -> None:
    assert run_lines((), {"landed": 163, "files": 12}, 4.1) == [
        " done: 163 messages landed from 12 files in 4.1 s"
    ]
    assert run_lines((), {"landed": 1, "files": 0}, 4.1) == [" done: 1 message landed in 4.1 s"]


def test_a_status_has_what_parks_a_table_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    table = {
        "database": "shop", "schema": None, "table": "orders", "state": "PARKED", "rows": 1, "behind": 1,
        "changes_applied": 1, "bad_values": 0, "keys": ["id"],
        "reason": "GATE_FAILED\n  found: 3 of 5 rows break price_is_known\n  where: x\n  do:    y",
    }  # fmt: skip
    print_status({"pipeline": "shop", "tables": [table]}, is_json=False)
    assert "GATE_FAILED: 3 of 5 rows break price_is_known" in " ".join(capsys.readouterr().out.split())


def test_tables_of_several_sources_with_one_name_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    table = {
        "database": "shop", "schema": None, "state": "append_only", "rows": 1, "behind": 1,
        "changes_applied": 1, "bad_values": 0, "keys": [], "reason": None,
    }  # fmt: skip
    places = [("east", "orders"), ("west", "orders"), ("west", "item")]
    tables = [{**table, "source": source, "table": name} for source, name in places]
    print_status({"pipeline": "shop", "tables": tables}, is_json=False)
    shown = capsys.readouterr().out
    assert [line.split("  ")[0] for line in shown.splitlines()[2:5]] == [
        "shop.orders (east)",
        "shop.orders (west)",
        "shop.item",
    ]
    assert "no key is known: shop.orders (east), shop.orders (west), shop.item;" in shown
    lines = [TableLine(f"shop.{name}", "ok", source=source) for source, name in places]
    for found in (run_lines(lines, {}, 1)[:3], ["  ".join(row) for row in run_table(lines).rows]):
        assert [line.partition("shop.")[2].split("  ")[0] for line in found] == [
            "orders (east)",
            "orders (west)",
            "item",
        ]


def test_a_status_says_why_a_source_has_stopped_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    stop = {
        "source": "crm", "epoch": 1, "code": "SOURCE_RESET", "reason": "server_changed", "detail": "3 → 7",
        "action": "set `epoch: 2` for the source and run again",
    }  # fmt: skip
    print_status({"pipeline": "shop", "stopped": [stop]}, is_json=False)
    line = (
        "  STOPPED  source crm at epoch 1: SOURCE_RESET: server_changed (3 → 7); set `epoch: 2` for the"
        " source and run again"
    )
    assert line in capsys.readouterr().out.splitlines()


def test_a_status_says_how_to_read_what_was_excluded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = {
        "database": "shop", "schema": None, "table": "orders", "state": "ok", "rows": 1, "behind": 0,
        "changes_applied": 1, "bad_values": 0, "keys": ["id"], "reason": None, "missed_while_excluded": 2,
    }  # fmt: skip
    print_status({"pipeline": "shop", "tables": [table]}, is_json=False)
    assert "`mainstem rebuild TABLE --from bronze` reads them" in capsys.readouterr().out


def test_one_of_each_is_counted_in_the_singular() -> None:
    counts = {"changes": 1, "messages": 1, "merged": 1, "heartbeats": 1, "duplicates": 1}
    assert run_lines((), counts, 0.04) == [
        " done: 1 change from 1 message (1 half merged, 1 heartbeat, 1 duplicate, 0 quarantined, 0 "
        "waiting) in 0.0 s"
    ]
    status = {"messages": 1, "changes": 1, "control_events": 1, "pending_halves": 1, "further_rows": 1}
    assert account_line(status) == (
        "1 message: 1 change, 1 control event, 0 duplicates, 0 quarantined, 1 half waiting, 0 excluded;"
        " less 1 further row of messages that hold several"
    )


def test_names_and_reasons_never_leave_their_line_nor_speak_to_the_terminal() -> None:
    (line, _) = run_lines((TableLine("a\nb\x1b[2J", "PARKED", notes=("x\r\u202ey" + "z" * 500,)),), {}, 1)
    assert line.startswith(" 1 of 1  a⏎b⟨U+001B⟩[2J  PARKED")
    assert "x ⟨U+202E⟩yz" in line
    assert len(line) < 400


def test_a_terminal_has_the_same_cells() -> None:
    first, _, last = run_table(TABLES).rows
    assert first == ("1 of 3", "shop.orders", "ok", "+1,204", "~311", "-17", "2 late", "3.1 s")
    assert last[2:7] == ("PARKED", "", "", "", "DUPLICATE_KEY found: two rows of key 7")


def test_a_run_ends_with_what_to_do_next() -> None:
    assert list(next_steps(TABLES[:2], {"quarantined": 0})) == []
    parked = TableLine("shop.price", "PARKED", notes=("KEY_NEEDED found: a key",))
    assert list(next_steps((*TABLES, parked), {"quarantined": 3})) == [
        "2 tables are parked: `mainstem status` has the reasons; `mainstem explain KEY_NEEDED` says what to"
        " do; the next run goes on with a table once its cause is fixed",
        "3 messages went to quarantine: `mainstem status` counts the reasons, `mainstem explain REASON`"
        " says what to do, `mainstem replay` decodes them again after a fix, and `mainstem dismiss` sets"
        " aside those that have none",
    ]


def test_the_quality_step_says_how_many_rules_hold() -> None:
    assert quality_line(0, ()) is None
    assert quality_line(1_204, ()) == " quality: 1,204 rules judged, all hold"
    assert (
        quality_line(26, ("warn", "error", "error"))
        == " quality: 26 rules judged, 3 broken: 2 errors, 1 warning"
    )
    assert quality_line(1, ()) == " quality: 1 rule judged, all hold"
    assert quality_line(0, ("warn",)) == " quality: nothing new to judge, 1 broken: 1 warning"
