"""`mainstem formats`: lists the formats, prints sample feeds, and shows what a decoder says of messages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from framework.cli.commands.detect import detect_formats
from framework.cli.event_lines import event_lines
from framework.cli.options import Options
from framework.cli.terminal import say, say_json, say_text
from framework.contracts.file_messages import Sample
from framework.demo import feeds
from framework.errors import ConfigurationError, MainstemError, nearest, suggested
from framework.pipeline.layer import DecodingRequest, installed_layers
from framework.pipeline.session import read_config
from framework.text.tables import TextTable, markdown

HEADS = ("name", "written by", "an update arrives as", "keys from", "order from", "options")
_DEFAULT_LIMIT = 10_000
_BETWEEN_MARKERS = re.compile(r"(<!-- formats[^\n]*-->\n).*?(<!-- /formats -->)", re.DOTALL)


def run(options: Options) -> int:
    """Print the formats that Mainstem reads, a sample of one, or the events of messages."""
    rows = [row for layer in installed_layers() for row in layer.formats()]
    if options.events:
        _print_events(options, [row["name"] for row in rows])
    elif options.format or options.key or options.source:
        raise ConfigurationError(
            "NO_MESSAGES",
            found="no messages to decode",
            where="formats",
            action="write --events PATH beside --format, --key or --source",
        )
    elif options.sample:
        say_text(_sample(options.sample, [row["name"] for row in rows]))
    elif options.into:
        _write_between_markers(Path(options.into), "\n".join(markdown(HEADS, format_cells(rows))))
    elif options.json:
        say_json({"formats": rows})
    else:
        cells = format_cells(rows)
        say(markdown(HEADS, cells) if options.markdown else [TextTable(HEADS, cells)])
    return 0


def format_cells(rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The rows of the formats table. It marks an order that is only a time: changes of one moment can tie."""
    names = ("name", "writer", "update_arrives_as", "keys_come_from", "order_comes_from", "options")
    table = [
        {**row, "order_comes_from": row["order_comes_from"] + (" (a time)" if row["order"] == "time" else "")}
        for row in rows
    ]
    return [[row[name] or "-" for name in names] for row in table]


def between_markers(text: str, table: str) -> str | None:
    """A document with this table between its markers; None where it has no markers."""
    return (
        _BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text)
        if _BETWEEN_MARKERS.search(text)
        else None
    )


def _write_between_markers(file: Path, table: str) -> None:
    text = between_markers(file.read_text(encoding="utf-8"), table) if file.is_file() else None
    if text is None:
        raise ConfigurationError(
            "NO_MARKERS",
            found="no lines `<!-- formats -->` and `<!-- /formats -->`",
            where=str(file),
            action="write both lines where the table belongs",
        )
    file.write_text(text, encoding="utf-8")


def _print_events(options: Options, names: Sequence[str]) -> None:
    layers = list(installed_layers())
    read_messages = next(layer.read_messages for layer in layers if layer.read_messages is not None)
    events = next(layer.events for layer in layers if layer.events is not None)
    path = Path(options.events)
    request = _request(options, names)
    sample = Sample(messages=max(options.limit, 0), size=sys.maxsize)
    found = events(read_messages(path, sample), request)
    if options.json:
        messages = list(found)
        answer = {"path": options.events, "format": request.format, "messages": messages}
        say_json({**answer, "is_sample": sample.is_cut})
    else:
        say(chain((f"{options.events} as {request.format}",), event_lines(found), _rest_lines(sample)))


def _rest_lines(sample: Sample) -> Iterator[str]:
    if sample.is_cut:
        yield "there are more messages: --limit sets how many are decoded"


def _request(options: Options, names: Sequence[str]) -> DecodingRequest:
    keys = tuple(options.key or ())
    if options.source is None:
        name = options.format or _detected(Path(options.events))
        _check_format(name, names, "--format")
        return DecodingRequest(name, keys=keys)
    config = read_config(options.config)
    if options.source not in config.sources:
        raise ConfigurationError(
            "UNKNOWN_SOURCE",
            found=f"source {options.source!r}",
            where="--source",
            action=suggested(options.source, config.sources),
        )
    name = config.sources[options.source].format
    if options.format not in (None, name):
        raise ConfigurationError(
            "FORMATS_DIFFER",
            found=f"--format {options.format}, and source {options.source} with the format {name}",
            where="--format",
            action="leave out --format or --source",
        )
    return DecodingRequest(name, options.source, keys, config)


def _detected(path: Path) -> str:
    """The only format of these messages. Raises ConfigurationError FORMAT_NOT_CLEAR for none or several."""
    found: list[str] = [
        name for entry in detect_formats(path)["formats"] for name in (entry["name"], *entry["or"])
    ]
    if len(found) != 1:
        raise ConfigurationError(
            "FORMAT_NOT_CLEAR",
            found=f"several possible formats: {', '.join(found)}" if found else "no known format",
            where=str(path),
            action="name the format with --format",
        )
    return found[0]


def _sample(name: str, names: Sequence[str]) -> str:
    _check_format(name, names, "--sample")
    text = feeds.sample(name)
    if text is None:
        raise MainstemError(
            "NO_SAMPLE",
            found=f"no sample feed for {name}",
            where="formats --sample",
            action=f"write one or two dozen of its messages into framework/demo/samples/{name}.jsonl",
        )
    return text


def _check_format(name: str, names: Sequence[str], where: str) -> None:
    """Raise ConfigurationError UNKNOWN_FORMAT for a name that is no format."""
    if name not in names:
        close = nearest(name, names)
        raise ConfigurationError(
            "UNKNOWN_FORMAT",
            found=f"format {name!r}",
            where=where,
            action=f"use one of: {', '.join(names)}" + (f" (did you mean {close}?)" if close else ""),
        )
