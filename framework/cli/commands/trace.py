"""`mainstem trace`: shows how a row came to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.cli.options import Options, row_key
from framework.cli.terminal import say, say_json
from framework.pipeline.layer import Run, installed_layers
from framework.pipeline.questions import answer
from framework.pipeline.session import read_config
from framework.text.row_trace import row_words

_WIDEST = 2_000


def run(options: Options) -> int:
    """Print the changes and messages of a row; returns 1 when silver has no change of it."""
    config = read_config(options.config)
    key = row_key(options.key, options.null)

    def ask(work: Run) -> dict[str, Any]:
        traces = [layer.trace(work, options.table, key) for layer in installed_layers() if layer.trace]
        return {name: value for one in traces for name, value in one.items()}

    trace = answer(config, "trace", ask)
    if options.json:
        say_json(trace)
    else:
        say(trace_lines(trace))
    return 0 if trace.get("changes") else 1


def trace_lines(trace: Mapping[str, Any]) -> list[str]:
    """The answer of `gold.operations.trace` for people."""
    where = row_words(trace["key"])
    row = trace["row"]
    lines = [f"{trace['table']}  {where}", "  row      " + ("none" if row is None else _row_text(row))]
    if trace["renamed_to"] is not None:
        newer = trace["renamed_to"]
        lines.append(f"  the table is {newer} now; this replica stays as the run before the rename left it")
    for change in trace["changes"]:
        moment = change["event_time"].isoformat() if change["event_time"] else "no time"
        order = f"{moment}  {change['position']}"
        lines.append(f"  {change['fate']:<11}{change['op'] or ''}  {order}  {change['change_id']}")
        lines.extend(
            f"    {side:<7}{_row_text(change[side])}"
            for side in ("before", "after")
            if change[side] is not None
        )
        for message in change["messages"]:
            place = f"{message['topic']}:{message['partition']}:{message['offset']}"
            lines.append(f"    message {place}  {_printable(message['value'])}")
    if not trace["changes"]:
        lines.append("  no change of silver has these values")
    return lines


def _row_text(values: Mapping[str, Any]) -> str:
    return _printable(", ".join(f"{name}={value}" for name, value in values.items()))


def _printable(text: str | None) -> str:
    if text is None:
        return "null"
    clean = "".join(character if character.isprintable() else "�" for character in text)
    return (
        clean
        if len(clean) <= _WIDEST
        else f"{clean[:_WIDEST]}… ({len(text):,} characters; --json prints all)"
    )
