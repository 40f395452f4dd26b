"""The last runs as bars. Pure. Lengths are shares of the drawing, in percent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from framework.report.model import Report
from framework.text.formatting import moment, number, short_number, span

_TIME_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a trend; `height` is a share of the axis, and `is_marked` one that needs attention."""

    x: float
    width: float
    y: float
    height: float
    title: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Trend:
    """Bars over time, oldest first, with the newest and the greatest value.

    `top` and `half` are the values at the upper end and the middle of the axis, which begins at 0; `first`
    and `last` are the times at its ends.
    """

    title: str
    newest: str
    greatest: str
    top: str
    half: str
    first: str
    last: str
    bars: tuple[Bar, ...]
    kind: str = "plain"


def trends(report: Report) -> list[Trend]:
    """The trends of the last runs; none for fewer than two runs."""
    runs = list(reversed(report.runs))
    if len(runs) < 2:
        return []
    at = [run.finished_at for run in runs]
    found = [
        _trend("Messages", at, [run.counts.get("messages", 0) for run in runs]),
        _trend("Changes applied", at, [run.counts.get("applied", 0) for run in runs]),
        _trend("Late changes", at, [sum(table.late for table in run.tables) for run in runs], kind="warn"),
        _trend("Quarantined", at, [run.counts.get("quarantined", 0) for run in runs], kind="warn"),
        _trend(
            "Parked or failed",
            at,
            [_troubles(run.outcome, [t.state for t in run.tables]) for run in runs],
            kind="fail",
        ),
    ]
    timed = [run for run in runs if run.seconds is not None]
    if len(timed) > 1:
        found.insert(
            2,
            _trend(
                "Duration",
                [run.finished_at for run in timed],
                [run.seconds or 0.0 for run in timed],
                kind="time",
            ),
        )
    if len(report.verdicts) > 1:
        verdicts = list(reversed(report.verdicts))
        found.append(
            _trend(
                "Failed checks",
                [v.started_at for v in verdicts],
                [v.errors + v.warnings for v in verdicts],
                kind="fail",
            )
        )
    landed = [batch for batch in reversed(report.batches) if batch.newest_event_at is not None]
    if len(landed) > 1:
        delays = [
            max((b.landed_at - (b.newest_event_at or b.landed_at)).total_seconds(), 0.0) for b in landed
        ]
        found.append(
            _trend("Delay from event to landing", [batch.landed_at for batch in landed], delays, kind="time")
        )
    return found


def applied_trend(rows: Sequence[tuple[datetime, int]]) -> Trend | None:
    """The rows that each run changed in a table, from pairs of time and number, newest first.

    None for fewer than two runs, and where no run changed a row.
    """
    if len(rows) < 2 or not any(count for _, count in rows):
        return None
    return _trend("Rows changed", [at for at, _ in reversed(rows)], [count for _, count in reversed(rows)])


def axis_top(greatest: float, *, is_time: bool = False) -> float:
    """The value at the upper end of an axis: the next round one, at least 1."""
    if is_time and greatest <= 86_400:
        return next(step for step in _TIME_STEPS if step >= greatest)
    unit = 86_400 if is_time else 1
    value = max(greatest / unit, 1)
    size = 1
    while size * 10 < value:
        size *= 10
    return unit * next(size * step for step in (1, 2, 4, 5, 10) if size * step >= value)


def _troubles(outcome: str, states: Sequence[str]) -> int:
    return max(sum(state == "PARKED" for state in states), int(outcome == "failed"))


def _trend(title: str, times: Sequence[datetime], values: Sequence[float], kind: str = "plain") -> Trend:
    is_time = kind == "time"
    say = span if is_time else short_number
    greatest, top = max(values), axis_top(max(values), is_time=is_time)
    width = 72 / max(len(values), 12)
    step = (100 - width) / max(len(values) - 1, 1)
    bars = []
    for at, value in enumerate(values):
        height = max(value / top * 100, 1.5 if value > 0 else 0.0)
        exact = span(value) if is_time else number(round(value))
        bars.append(
            Bar(
                round(at * step, 3),
                round(width, 3),
                round(100 - height, 2),
                round(height, 2),
                f"{moment(times[at])}  {exact}",
            )
        )
    half = "" if top == 1 and not is_time else _axis_text(top / 2, say)
    return Trend(
        title, say(values[-1]), say(greatest), _axis_text(top, say), half, *_ends(times), tuple(bars), kind
    )


def _axis_text(value: float, say: Callable[[float], str]) -> str:
    return say(value).replace(".0 s", " s")


def _ends(times: Sequence[datetime]) -> tuple[str, str]:
    """The first and the last time: their days, or their minutes where they are of one day."""
    first, last = moment(times[0]), moment(times[-1])
    return (first[11:16], last[11:16]) if first[:10] == last[:10] else (first[:10], last[:10])
