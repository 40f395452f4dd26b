"""The progress of a run in words: what is done, what is left, how fast, and how long it still takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from framework.pipeline.progress import Count, LayerProgress, TableEnd
from framework.text.formatting import byte_size, noun_for, one_line, quantity, span

_UNITS = ("tables", "offsets", "messages", "files", "bytes", "batches")
"""In the order in which they are shown."""
_MEASURES = ("bytes", "offsets", "messages", "tables", "files")
"""The units that tell how far a layer is, the best first."""
_SHOWN_TABLES = 3


def layer_line(layer: LayerProgress) -> str:
    """The progress of a layer in one line."""
    if layer.is_ended:
        done = "".join(f", {_done(unit, layer.counts[unit])}" for unit in _UNITS if unit in layer.counts)
        return f"{layer.name} done in {span(layer.seconds)}{done}"
    parts = [
        *(_progress(unit, layer.counts[unit]) for unit in _UNITS if unit in layer.counts),
        *_pace(layer),
        *_tables(layer),
        *_tasks(layer),
    ]
    return f"{layer.name}: {', '.join(parts) if parts else 'at work'} ({span(layer.seconds)} so far)"


def share(layer: LayerProgress) -> float | None:
    """The done share of a layer, from 0 to 1; None where it is unknown."""
    if layer.is_ended:
        return 1.0
    count = _measure(layer)
    return None if count is None else min(count[1].done / count[2], 1.0)


def ended_line(ended: Sequence[TableEnd]) -> str:
    """The tables that have ended, in one line."""
    shown = [
        f"{one_line(table.name)} {table.state} in {span(table.seconds)}" for table in ended[:_SHOWN_TABLES]
    ]
    more = f" and {len(ended) - _SHOWN_TABLES:,} more" if len(ended) > _SHOWN_TABLES else ""
    return f"ended: {', '.join(shown)}{more}"


def _measure(layer: LayerProgress) -> tuple[str, Count, int] | None:
    """The unit that tells best how far a layer is, with its count and total; None without one."""
    for unit in _MEASURES:
        count = layer.counts.get(unit)
        if count is not None and count.total:
            return unit, count, count.total
    return None


def _progress(unit: str, count: Count) -> str:
    if count.total is None or count.done > count.total:
        return _done(unit, count)
    if unit == "bytes":
        return f"{byte_size(count.done)} of {byte_size(count.total)}"
    return f"{count.done:,} of {quantity(count.total, _one(unit), unit)}"


def _done(unit: str, count: Count) -> str:
    return byte_size(count.done) if unit == "bytes" else quantity(count.done, _one(unit), unit)


def _one(unit: str) -> str:
    return {"batches": "batch"}.get(unit, unit.removesuffix("s"))


def _pace(layer: LayerProgress) -> list[str]:
    """The rate, and the time that is left at this rate; nothing before anything is done."""
    found = _measure(layer)
    if found is None or not found[1].done or layer.seconds < 1:
        return []
    unit, count, total = found
    rate = count.done / layer.seconds
    fast = f"{byte_size(int(rate))} a second" if unit == "bytes" else f"{_per_second(rate)} a second"
    if count.done >= total:
        return [fast]
    left = (total - count.done) / rate
    return [fast, f"about {f'{max(round(left), 1)} s' if left < 59.5 else span(left)} left"]


def _per_second(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def _tables(layer: LayerProgress) -> list[str]:
    if not layer.active:
        return []
    names = ", ".join(one_line(name) for name in layer.active[:_SHOWN_TABLES])
    more = f" and {len(layer.active) - _SHOWN_TABLES:,} more" if len(layer.active) > _SHOWN_TABLES else ""
    return [f"now {names}{more}"]


def _tasks(layer: LayerProgress) -> list[str]:
    if layer.tasks is None:
        return []
    done, total = layer.tasks
    return [f"Spark {done:,} of {total:,} {noun_for(total, 'task')}"]
