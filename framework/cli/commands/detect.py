"""`mainstem detect`: names the format of a file or folder of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.cli.options import Options
from framework.cli.terminal import say, say_json
from framework.contracts.file_messages import Sample
from framework.naming import dotted_name
from framework.pipeline.layer import installed_layers
from framework.text.formatting import quantity
from framework.text.tables import aligned


def run(options: Options) -> int:
    """Print the format of a file or folder with its evidence; returns 1 when no line fits a format."""
    answer = {"path": options.path, **detect_formats(Path(options.path))}
    if options.json:
        say_json(answer)
    else:
        say(_lines(answer))
    return 0 if answer["formats"] else 1


def detect_formats(path: Path, source: str = "feed") -> Mapping[str, Any]:
    """The formats of a file or folder of messages, as the feed of a source of this name.

    `is_sample` says whether only a part was read, as there is more than a sample of it. `file_count` is the
    number of files, also of those without a message.
    """
    layers = list(installed_layers())
    read_messages = next(layer.read_messages for layer in layers if layer.read_messages is not None)
    detect = next(layer.detect for layer in layers if layer.detect is not None)
    sample = Sample()
    found = detect(read_messages(path, sample), source)
    return {**found, "is_sample": sample.is_cut, "file_count": sample.files}


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    if not answer["messages"]:
        yield f"{answer['path']}: {_why_empty(answer['file_count'])}"
        return
    layouts = ", ".join(f"{name} ({count:,})" for name, count in answer["layouts"].items())
    sizes = f"{quantity(len(answer['files']), 'file')}, {quantity(answer['messages'], 'message')}"
    yield f"{answer['path']}: {sizes}, layout {layouts or 'unknown'}"
    if answer["is_sample"]:
        yield "this is a sample: there are more messages"
    for found in answer["formats"]:
        yield from _format_lines(found)
    if answer["tombstones"]:
        yield ""
        tombstones = quantity(answer["tombstones"], "message")
        yield f"{tombstones} with a key and no value: tombstones, which all formats share"
    if answer["is_mixed"]:
        yield ""
        yield "the feed is mixed: give each format a source of its own"
        yield from aligned(("file", "formats"), [(f["file"], _counts(f["formats"])) for f in answer["files"]])
    for cause in answer["advice"]:
        yield ""
        yield advised(cause)
    if answer["unread_count"]:
        yield ""
        lines = quantity(answer["unread_count"], "line fits", "lines fit")
        yield f"{lines} no format: {_counts(answer['unread_reasons'])}"
        yield from _unread_lines(answer["unread"])
    if not answer["formats"]:
        for near in answer["nearest"][:3]:
            yield ""
            yield likeness(near)
        yield ""
        yield "no format reads any of it: `mainstem formats` lists those that are known"


def _why_empty(files: int) -> str:
    if files:
        return f"{quantity(files, 'file')} without a message"
    return "there is no file to read (files named `.…`, `_…` or `….tmp` are ignored)"


def advised(cause: Mapping[str, Any]) -> str:
    """One line about a reason why lines fit no format: where, how many, and what to do."""
    first, *more = cause["files"]
    others = (
        f" and {quantity(len(more), 'more file')}" if len(more) > 1 else f" and {more[0]}" if more else ""
    )
    return (
        f"{first}{others}: {quantity(cause['lines'], 'line')}: {cause['advice']}"
        if cause["lines"] > 1
        else f"{first}{others}: {cause['advice']}"
    )


def likeness(near: Mapping[str, Any]) -> str:
    """What lines that no format reads are similar to, and what they lack."""
    names = " or ".join((near["name"], *near["or"]))
    lines = quantity(near["lines"], "line")
    return f"looks like {names}; {near['detail'] or near['reason']} ({near['reason']}, {lines})"


def _unread_lines(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The first line of each complaint."""
    seen = set()
    for unread in lines:
        complaint = (unread["as"], unread["reason"], unread["detail"])
        if complaint not in seen:
            seen.add(complaint)
            seems = f" (as {unread['as']})" if unread["as"] else ""
            place = f"{unread['file']}:{unread['line']}"
            yield f"  {place}  {unread['reason']}{seems}  {unread['detail']}".rstrip()


def _format_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    names = " or ".join((found["name"], *found["or"]))
    yield f"{names}: {quantity(found['messages'], 'message')}, confidence {found['confidence']:.2f}"
    for evidence in found["evidence"]:
        yield f"  because of {evidence}"
    for name, value in found["options"].items():
        yield f"  its columns show that a setting is missing: write `{name}: {value}` for the source"
    if found["control_events"]:
        yield f"  control events: {_counts(found['control_events'])}"
    if found["tables"]:
        tables = [dotted_name(t["database"], t["schema"], t["table"]) for t in found["tables"]]
        rows = [
            (name, ", ".join(t["keys"]) or "not in the feed", _counts(t["ops"]))
            for name, t in zip(tables, found["tables"], strict=True)
        ]
        yield from (f"  {line}" for line in aligned(("table", "keys", "changes"), rows))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
