"""`mainstem formats`: lists the formats that Mainstem reads, and prints sample feeds."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from framework.cli.options import Subparsers, add_command
from framework.cli.terminal import say, say_json, say_text
from framework.demo import feeds
from framework.errors import ConfigurationError, MainstemError, nearest
from framework.pipeline.layer import installed_layers
from framework.text.tables import aligned, markdown

HEADS = ("name", "written by", "an update arrives as", "keys from", "order from", "options")
_BETWEEN_MARKERS = re.compile(r"(<!-- formats[^\n]*-->\n).*?(<!-- /formats -->)", re.DOTALL)


def add_parser(subparsers: Subparsers) -> None:
    """Declare the command."""
    parser = add_command(subparsers, "formats", run, help="the formats that Mainstem reads")
    parser.add_argument("--sample", metavar="NAME", help="print a sample feed of one format")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--into", metavar="FILE", help="write the Markdown table between the markers in a file"
    )


def run(options: argparse.Namespace) -> int:
    """Print the formats that Mainstem reads, or a sample of one."""
    rows = [row for layer in installed_layers() for row in layer.formats()]
    if options.sample:
        say_text(_sample(options.sample, [row["name"] for row in rows]))
    elif options.into:
        _write_between_markers(Path(options.into), "\n".join(markdown(HEADS, format_cells(rows))))
    elif options.json:
        say_json({"formats": rows})
    else:
        say((markdown if options.markdown else aligned)(HEADS, format_cells(rows)))
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
            action="write the two lines where the table shall stand",
        )
    file.write_text(text, encoding="utf-8")


def _sample(name: str, names: Sequence[str]) -> str:
    if name not in names:
        close = nearest(name, names)
        raise ConfigurationError(
            "UNKNOWN_FORMAT",
            found=f"format {name!r}",
            where="--sample",
            action=f"use one of: {', '.join(names)}" + (f" (did you mean {close}?)" if close else ""),
        )
    text = feeds.sample(name)
    if text is None:
        raise MainstemError(
            "NO_SAMPLE", found=f"no sample feed for {name}", where="formats --sample", action="report this"
        )
    return text
