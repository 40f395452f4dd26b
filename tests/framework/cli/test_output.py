from __future__ import annotations

from framework.cli.output import quality_line, run_lines
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
        " done: 4,564 changes from 5,010 messages (440 halves merged, 6 heartbeats, 0 duplicates, 0 quarantined, 0 waiting) in 9.8 s",
    ]


def test_a_run_that_found_nothing_has_its_totals_alone() -> None:
    assert run_lines((), {}, 0.04) == [
        " done: 0 changes from 0 messages (0 halves merged, 0 heartbeats, 0 duplicates, 0 quarantined, 0 waiting) in 0.0 s"
    ]


def test_names_and_reasons_never_leave_their_line_nor_speak_to_the_terminal() -> None:
    (line, _) = run_lines((TableLine("a\nb\x1b[2J", "PARKED", notes=("x\r\u202ey" + "z" * 500,)),), {}, 1)
    assert line.startswith(" 1 of 1  a⏎b⟨U+001B⟩[2J  PARKED")
    assert "x ⟨U+202E⟩yz" in line
    assert len(line) < 400


def test_colours_mark_the_state_alone() -> None:
    lines = run_lines(TABLES, COUNTS, 9.84, is_painted=True)
    assert "\x1b[32mok    \x1b[0m" in lines[0]
    assert "\x1b[1;31mPARKED\x1b[0m" in lines[2]


def test_the_quality_step_says_how_many_rules_hold() -> None:
    assert quality_line(0, ()) is None
    assert quality_line(1_204, ()) == " quality: 1,204 rules judged, all hold"
    assert (
        quality_line(26, ("warn", "error", "error"))
        == " quality: 26 rules judged, 3 broken: 2 errors, 1 warning"
    )
    assert quality_line(0, ("warn",)) == " quality: nothing new to judge, 1 broken: 1 warning"
