"""What somebody who waits reads about a run."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from framework.cli import progress as display
from framework.cli.progress import ProgressLines, live_table, show_progress
from framework.cli.progress_lines import ended_line, layer_line, share
from framework.pipeline.progress import Count, LayerProgress, Progress, TableEnd

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("layer", "line"),
    [
        (LayerProgress("silver", 3), "silver: at work (3.0 s so far)"),
        (
            LayerProgress("silver", 100, counts={"messages": Count(1_000_000, 5_000_000)}),
            "silver: 1,000,000 of 5,000,000 messages, 10,000 a second, about 6 min 40 s left"
            " (1 min 40 s so far)",
        ),
        (
            LayerProgress(
                "bronze", 10, counts={"files": Count(1, 4), "bytes": Count(100 * MB, 400 * MB)}, tasks=(3, 25)
            ),
            "bronze: 1 of 4 files, 100.0 MiB of 400.0 MiB, 10.0 MiB a second, about 30 s left,"
            " Spark 3 of 25 tasks (10.0 s so far)",
        ),
        (
            LayerProgress("gold", 60, counts={"tables": Count(0, 2)}, active=("shop.a", "shop.b")),
            "gold: 0 of 2 tables, now shop.a, shop.b (1 min so far)",
        ),
        (
            LayerProgress("silver", 9, counts={"messages": Count(7, 5), "batches": Count(1)}),
            "silver: 7 messages, 1 batch, 0.8 a second (9.0 s so far)",
        ),
        (
            LayerProgress("bronze", 34, True, {"files": Count(1, 1), "bytes": Count(MB, MB)}),
            "bronze done in 34.0 s, 1 file, 1.0 MiB",
        ),
        (LayerProgress("gold", 1, active=("a\x1b[2J",)), "gold: now a⟨U+001B⟩[2J (1.0 s so far)"),
    ],
)
def test_a_layer_is_one_line(layer: LayerProgress, line: str) -> None:
    assert layer_line(layer) == line


def test_the_share_is_that_of_the_best_unit() -> None:
    assert share(LayerProgress("silver", 1)) is None
    assert share(LayerProgress("bronze", 1, counts={"files": Count(1, 2), "bytes": Count(1, 10)})) == 0.1
    assert share(LayerProgress("silver", 1, counts={"messages": Count(9, 5)})) == 1
    assert share(LayerProgress("silver", 1, True)) == 1


def test_many_tables_that_have_ended_are_counted() -> None:
    ended = [TableEnd(f"shop.t{number}", "ok", 1.0) for number in range(5)]
    assert (
        ended_line(ended) == "ended: shop.t0 ok in 1.0 s, shop.t1 ok in 1.0 s, shop.t2 ok in 1.0 s and 2 more"
    )


def test_lines_tell_what_is_new_since_the_last_ones() -> None:
    progress = Progress(lambda: 0.0)
    lines = ProgressLines(progress)
    assert lines.lines() == ["starting Spark (0.0 s so far)"]
    progress.begin("bronze")
    progress.end()
    progress.begin("gold")
    progress.expect("tables", 2)
    progress.start_table("shop.a")
    progress.start_table("shop.b")
    progress.end_table("shop.a", "ok")
    progress.advance("tables")
    assert lines.lines() == [
        "bronze done in 0.0 s",
        "gold ended: shop.a ok in 0.0 s",
        "gold: 1 of 2 tables, now shop.b (0.0 s so far)",
    ]
    assert lines.lines() == ["gold: 1 of 2 tables, now shop.b (0.0 s so far)"]


def test_without_a_terminal_lines_go_to_standard_error_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "EVERY", 0.02)
    with show_progress(is_shown=True) as progress:
        progress.begin("silver")
        deadline = time.monotonic() + 10
        while "progress: silver: at work" not in (text := capsys.readouterr().err):
            assert time.monotonic() < deadline
            assert "\x1b" not in text
            time.sleep(0.02)
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_a_short_run_and_a_run_with_json_print_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with show_progress(is_shown=True) as progress:
        progress.begin("silver")
    monkeypatch.setattr(display, "EVERY", 0.01)
    with show_progress(is_shown=False) as progress:
        progress.begin("silver")
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_bar_for_each_layer_that_fits_its_width() -> None:
    layers = (
        LayerProgress("bronze", 34, True, {"files": Count(4, 4)}),
        LayerProgress(
            "gold",
            60,
            counts={"tables": Count(1, 2)},
            active=("shop." + "x" * 60,),
            ended=(TableEnd("a", "ok", 1),),
        ),
    )
    console = Console(file=io.StringIO(), width=60, force_terminal=True, color_system=None)
    console.print(live_table(layers, 94))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= 60 for line in shown.splitlines())
    assert "bronze done in 34.0 s, 4 files" in shown
    assert "━" in shown
    assert "ended: a ok in 1.0 s" in shown
    assert "xxxx" in shown


def test_before_the_first_layer_a_terminal_says_that_spark_starts() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(live_table((), 5))
    assert "starting Spark (5.0 s so far)" in console.file.getvalue()  # type: ignore[attr-defined]


def test_bars_disappear_at_the_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with show_progress(is_shown=True) as progress:
        progress.begin("silver")
        time.sleep(1.2)
    assert "silver: at work" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")
