"""What a run reports of itself, and what a display reads."""

from __future__ import annotations

import threading

from framework.pipeline.progress import Count, LayerProgress, Progress, TableEnd


class Seconds:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_counts_belong_to_the_layer_at_work() -> None:
    clock = Seconds()
    progress = Progress(clock)
    progress.begin("bronze")
    progress.expect("files", 3)
    progress.advance("files")
    clock.now += 2
    progress.end()
    progress.begin("silver")
    progress.advance("messages", 10)
    clock.now += 1
    assert progress.snapshot() == (
        LayerProgress("bronze", 2, True, {"files": Count(1, 3)}),
        LayerProgress("silver", 1, False, {"messages": Count(10, None)}),
    )
    assert progress.seconds == 3


def test_a_table_is_at_work_until_it_ends() -> None:
    clock = Seconds()
    progress = Progress(clock)
    progress.begin("gold")
    progress.start_table("shop.a")
    progress.start_table("shop.b")
    clock.now += 4
    progress.end_table("shop.a", "PARKED")
    (gold,) = progress.snapshot()
    assert gold.active == ("shop.b",)
    assert gold.ended == (TableEnd("shop.a", "PARKED", 4),)


def test_probes_are_asked_for_each_snapshot_and_add_up() -> None:
    progress = Progress()
    progress.begin("bronze")
    read = [5]
    progress.watch("offsets", lambda: (read[0], 100))
    progress.watch("offsets", lambda: (1, 10))
    progress.watch("offsets", lambda: None)
    progress.watch_tasks(lambda: (3, 8))
    assert progress.snapshot()[0].counts == {"offsets": Count(6, 110)}
    read[0] = 50
    assert progress.snapshot()[0].counts == {"offsets": Count(51, 110)}
    assert progress.snapshot()[0].tasks == (3, 8)
    progress.end()
    assert progress.snapshot()[0].tasks is None


def test_a_probe_that_fails_stops_nothing() -> None:
    progress = Progress()
    progress.begin("silver")
    progress.watch("offsets", lambda: (1 // 0, 1))
    progress.watch_tasks(lambda: (1 // 0, 1))
    assert progress.snapshot()[0].counts == {}
    assert progress.snapshot()[0].tasks is None


def test_before_a_layer_begins_reports_are_ignored() -> None:
    progress = Progress()
    progress.advance("files")
    progress.start_table("a")
    progress.end_table("a", "ok")
    progress.end()
    assert progress.snapshot() == ()


def test_threads_lose_no_count() -> None:
    progress = Progress()
    progress.begin("bronze")
    threads = [
        threading.Thread(target=lambda: [progress.advance("files") for _ in range(500)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert progress.snapshot()[0].counts["files"].done == 4_000


def test_what_a_probe_says_is_added_to_what_is_reported() -> None:
    progress = Progress(Seconds())
    progress.begin("silver")
    progress.expect("messages", 200)
    progress.advance("messages", 50)
    progress.watch("messages", lambda: (30, 0))
    assert progress.snapshot()[0].counts == {"messages": Count(80, 200)}
