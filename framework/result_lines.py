"""What a run did, in lines that people read and tools can search: one a table, then the totals. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.layer import TableLine
from framework.words import one_line

_SIDE_COUNTS = {
    "merged": "halves merged",
    "heartbeats": "heartbeats",
    "duplicates": "duplicates",
    "quarantined": "quarantined",
    "waiting": "waiting",
}
_LONGEST = 300
_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[1;31m", "\x1b[0m"


def run_lines(tables: Sequence[TableLine], counts: Mapping[str, int], seconds: float, *, is_painted: bool = False) -> list[str]:
    """A line a table, in columns, and the line of totals; with colours where `is_painted`.

    What a table is called and why it is parked is shown on one line, whatever characters it holds.
    """
    names = [one_line(table.name) for table in tables]
    changes = [_changes(table) for table in tables]
    widths = [max((len(row[at]) for row in changes), default=0) for at in range(3)]
    remarks = [_remarks(table) for table in tables]
    # a long remark pushes its own seconds away, not those of all tables
    wide = max((len(remark) for remark, table in zip(remarks, tables, strict=True) if table.seconds and len(remark) <= 40), default=0)
    digits, longest = len(str(len(tables))), max(map(len, names), default=0)
    found = []
    for at, table in enumerate(tables):
        state = _painted(f"{table.state:<6}", table.state) if is_painted else f"{table.state:<6}"
        counted = "  ".join(part.ljust(width) for part, width in zip(changes[at], widths, strict=True))
        took = f"{table.seconds:.1f} s" if table.seconds else ""
        line = f"{at + 1:>{digits + 1}} of {len(tables)}  {names[at]:<{longest}}  {state}  {counted}  {remarks[at]:<{wide}}  {took:>8}"
        found.append(line.rstrip())
    return [*found, _totals(counts, seconds)]


def quality_line(judged: int, severities: Sequence[str]) -> str | None:
    """How many rules were judged, and how many do not hold, by their severities; None where there is nothing to tell."""
    if not judged and not severities:
        return None
    head = f" quality: {judged:,} rules judged" if judged else " quality: nothing new to judge"
    if not severities:
        return f"{head}, all hold"
    errors, warnings = severities.count("error"), len(severities) - severities.count("error")
    told = ((errors, "error" if errors == 1 else "errors"), (warnings, "warning" if warnings == 1 else "warnings"))
    return f"{head}, {len(severities):,} broken: {', '.join(f'{count:,} {word}' for count, word in told if count)}"


def _changes(table: TableLine) -> tuple[str, str, str]:
    if table.state == "PARKED" and not (table.inserted or table.updated or table.deleted):
        return "", "", ""
    return f"+{table.inserted:,}", f"~{table.updated:,}", f"-{table.deleted:,}"


def _remarks(table: TableLine) -> str:
    late = (f"{table.late:,} late",) if table.late else ()
    return "   ".join((*late, *(one_line(" ".join(note.split()), _LONGEST) for note in table.notes)))


def _totals(counts: Mapping[str, int], seconds: float) -> str:
    sides = ", ".join(f"{counts.get(name, 0):,} {words}" for name, words in _SIDE_COUNTS.items())
    return f" done: {counts.get('changes', 0):,} changes from {counts.get('messages', 0):,} messages ({sides}) in {seconds:.1f} s"


def _painted(text: str, state: str) -> str:
    return f"{_GREEN if state == 'ok' else _RED}{text}{_PLAIN}"
