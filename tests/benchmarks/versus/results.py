"""The measurements as a table: each tool's time as a multiple of Mainstem's."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.benchmarks.versus.check import Found
from tests.benchmarks.versus.processes import Cost

_NOTHING = Found(0, {})


@dataclass
class Measured:
    """What a tool took: commands for the first load and for a batch, and batches in a process that stays."""

    name: str
    load: list[Cost] = field(default_factory=list)
    batch: list[Cost] = field(default_factory=list)
    steady: list[Cost] = field(default_factory=list)
    found: Found = _NOTHING
    after_repeats: Found = _NOTHING


def page(
    results: Sequence[Measured], refused: Mapping[str, str], rows: int, messages: int, rounds: int
) -> str:
    """The table with its notes, as Markdown."""
    lines = [
        f"| | first load, {rows:,} messages, whole command | {messages:,} messages of changes, whole command "
        "| as many, in a process that runs already | wrong rows | wrong rows after old messages came again |",
        "|---|---|---|---|---|---|",
    ]
    ours = results[0] if results else Measured("")
    for one in results:
        cells = [_cell(one.load, ours.load), _cell(one.batch, ours.batch), _cell(one.steady, ours.steady)]
        wrong = [f"{one.found.wrong:,}", f"{one.after_repeats.wrong:,}"]
        lines.append(f"| {' | '.join([one.name, *cells, *wrong])} |")
    lines += [f"| {name} | does not run | | | | |" for name in refused]
    lines += ["", f"Medians of {rounds}, in turn, on {os.cpu_count()} cores."]
    lines += [f"{name} does not run: {reason}" for name, reason in refused.items()]
    for one in results:
        if one.found.types:
            columns = ", ".join(f"`{name}` as {kind}" for name, kind in one.found.types.items())
            lines.append(f"{one.name} has other types: {columns}.")
    return "\n".join(lines)


def _cell(costs: Sequence[Cost], ours: Sequence[Cost]) -> str:
    seconds = statistics.median(cost.seconds for cost in costs)
    cpu = statistics.median(cost.cpu for cost in costs)
    ratio = seconds / statistics.median(cost.seconds for cost in ours)
    return f"{ratio:.2f} ({seconds:.1f} s, CPU {cpu:.1f} s)"
