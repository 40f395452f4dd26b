"""`mainstem dismiss`: quarantined messages that nobody will decode stop being counted as open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict

from framework.cli.options import Options
from framework.cli.terminal import say, say_json, say_line, say_note
from framework.contracts.dismissals import Dismissal, DismissalRequest, DismissedGroup, Selection
from framework.errors import ConfigurationError
from framework.pipeline.layer import Run, installed_layers
from framework.pipeline.session import open_pipeline, read_config
from framework.text.formatting import quantity
from framework.text.tables import TextTable

_SHOWN = 50
_OFFSETS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def run(options: Options) -> int:
    """Show the selected messages, and with `--yes` dismiss them, or open them again with `--undo`."""
    request = _request(options)
    config = read_config(options.config)
    with open_pipeline(config, is_exclusive=request.is_written, notify=say_note) as (lake, spark):
        work = Run(spark, lake, config, "dismiss")
        (found,) = (layer.dismiss(work, request) for layer in installed_layers() if layer.dismiss is not None)
    if options.json:
        say_json({"messages": found.messages, "is_written": request.is_written, **asdict(found)})
        return 0
    if found.groups:
        say([_table(found)])
    say_line(_told(found, request))
    say_note(_notes(found, request))
    return 0


def _request(options: Options) -> DismissalRequest:
    """The request. Raises ConfigurationError WRONG_ARGUMENTS where `--yes` lacks what it needs."""
    selection = Selection(
        options.source, options.reason, options.topic, options.partition, _offsets(options.offset)
    )
    because = (options.because or "").strip() or None
    if options.yes and selection.is_everything:
        raise _wrong(
            "no option says which messages are meant",
            "add --source, --reason, --topic or --offset; without --yes, the command shows what there is",
        )
    if options.yes and because is None and not options.undo:
        raise _wrong("no reason is given", 'add --because "TEXT": it is kept beside each message')
    return DismissalRequest(selection, because, options.undo, options.yes)


def _offsets(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _OFFSETS.fullmatch(text)
    if found is None:
        raise _wrong(f"--offset {text!r} is no number", "write --offset 17, or --offset 17-20 for several")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise _wrong(f"--offset {text!r} ends before it begins", f"write --offset {last}-{first}")
    return first, last


def _wrong(found: str, action: str) -> ConfigurationError:
    return ConfigurationError("WRONG_ARGUMENTS", found=found, where="mainstem dismiss", action=action)


def _table(found: Dismissal) -> TextTable:
    heads = ("source", "topic or file", "reason", "messages", "offsets or lines")
    return TextTable(heads, [_cells(group) for group in found.groups[:_SHOWN]])


def _cells(group: DismissedGroup) -> tuple[str, ...]:
    span = f"{group.first_offset}"
    if group.last_offset != group.first_offset:
        span += f" to {group.last_offset}"
    partition = f", partition {group.partition}" if group.partition else ""
    return group.source, f"{group.topic}{partition}", group.reason, f"{group.messages:,}", span


def _told(found: Dismissal, request: DismissalRequest) -> str:
    messages = quantity(found.messages, "message")
    if request.is_written:
        return f"{messages} opened again" if request.is_undone else f"{messages} dismissed"
    return f"{messages} would be {'opened again' if request.is_undone else 'dismissed'}"


def _notes(found: Dismissal, request: DismissalRequest) -> Iterator[str]:
    if len(found.groups) > _SHOWN:
        more = quantity(len(found.groups) - _SHOWN, "more row of the table is", "more rows of the table are")
        yield f"{more} not shown: `--json` has all"
    if not found.groups and found.of:
        state = "dismissed" if request.is_undone else "open"
        own = "mainstem dismiss --undo" if request.is_undone else "mainstem dismiss"
        yield (
            f"{quantity(found.of, 'message is', 'messages are')} {state} in quarantine, and none fits:"
            f" `{own}` lists them"
        )
    if found.groups and not request.is_written:
        needed = ' --because "TEXT"' if request.because is None and not request.is_undone else ""
        choice = " and options that select the messages" if request.selection.is_everything else ""
        yield f"nothing is written yet: add{needed} --yes{choice}"
    if found.groups and request.is_written and not request.is_undone:
        yield (
            "the bytes stay in bronze and in silver/quarantine; `mainstem dismiss --undo` opens messages"
            " again, and `mainstem replay --dismissed` decodes dismissed ones, too"
        )
