"""The commands about feeds: which formats there are, and which one a feed has."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework import demonstration
from framework.draft import DraftSource, draft_sources, draft_text
from framework.errors import ConfigurationError, MainstemError, nearest
from framework.layer import installed_layers
from framework.names import dotted_name
from framework.text_tables import aligned, markdown

HEADS = ("name", "written by", "an update arrives as", "keys from", "order from", "options")
_BETWEEN_MARKERS = re.compile(r"(<!-- formats[^\n]*-->\n).*?(<!-- /formats -->)", re.DOTALL)


def formats(options: argparse.Namespace) -> int:
    """The formats that Mainstem reads, or a sample of one."""
    rows = [row for layer in installed_layers() for row in layer.formats()]
    if options.sample:
        print(_sample(options.sample, [row["name"] for row in rows]), end="")
    elif options.into:
        _write_between_markers(Path(options.into), "\n".join(markdown(HEADS, format_cells(rows))))
    elif options.json:
        print(json.dumps({"formats": rows}, ensure_ascii=False))
    else:
        print("\n".join((markdown if options.markdown else aligned)(HEADS, format_cells(rows))))
    return 0


def format_cells(rows: Sequence[Mapping[str, str]]) -> list[list[str]]:
    """The formats table without its head. An order that is only a time is marked: changes of one moment can tie there."""
    names = ("name", "writer", "update_arrives_as", "keys_come_from", "order_comes_from", "options")
    table = [{**row, "order_comes_from": row["order_comes_from"] + (" (a time)" if row["order"] == "time" else "")} for row in rows]
    return [[row[name] or "-" for name in names] for row in table]


def between_markers(text: str, table: str) -> str | None:
    """A document with this table between its markers; None where it has no markers."""
    return _BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text) if _BETWEEN_MARKERS.search(text) else None


def detect(options: argparse.Namespace) -> int:
    """The format of a file or folder with its evidence; exit code 1 when no line fits a format."""
    answer = {"path": options.path, **_detected(Path(options.path))}
    if options.json:
        print(json.dumps(answer, ensure_ascii=False))
    else:
        print("\n".join(_lines(answer)))
    return 0 if answer["formats"] else 1


def init(options: argparse.Namespace) -> int:
    """Write a commented configuration, with the sources that lie below a path, and say what to do next."""
    file = Path(options.config)
    sources = draft_sources(Path(options.origin), _detected) if options.origin else []
    text = draft_text(file, sources)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigurationError(
            "CONFIG_EXISTS", found="a file", where=str(file), action="name another one with -c: nothing is overwritten"
        ) from None
    except OSError as error:
        raise ConfigurationError(
            "CONFIG_NOT_WRITABLE", found=error.strerror or str(error), where=str(file), action="name a file in a folder that is there"
        ) from None
    if options.json:
        print(json.dumps(_drafted(file, sources), ensure_ascii=False))
    else:
        print("\n".join(_init_lines(file, sources)))
    return 0


def _drafted(file: Path, sources: Sequence[DraftSource]) -> dict[str, Any]:
    found = [{"name": s.name, "format": s.format, "or": s.answer["formats"][0]["or"], "files": str(s.folder)} for s in sources]
    return {"config": str(file), "sources": found, "append_only": [name for s in sources for name in s.keyless]}


def _init_lines(file: Path, sources: Sequence[DraftSource]) -> Iterator[str]:
    yield f"{file}: written" + (f", with {len(sources)} sources" if len(sources) > 1 else "")
    for source in sources:
        found = source.answer["formats"][0]
        names = " or ".join((source.format, *found["or"]))
        yield f"  {source.name}: {source.folder} holds {names}, {found['messages']:,} messages of {len(found['tables']):,} tables"
    keyless = [name for source in sources for name in source.keyless]
    if keyless:
        yield f"  without a key in the feed: {', '.join(keyless[:10])}{' …' if len(keyless) > 10 else ''}: write `keys` for them"
    yield "next: read it, then `mainstem plan` and `mainstem run`" if sources else "next: write your sources, then `mainstem validate`"


def _detected(path: Path, source: str = "feed") -> Mapping[str, Any]:
    layers = list(installed_layers())
    look = next(layer.look for layer in layers if layer.look is not None)
    name_formats = next(layer.detect for layer in layers if layer.detect is not None)
    return name_formats(look(path), source)


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    layouts = ", ".join(f"{name} ({count:,})" for name, count in answer["layouts"].items())
    yield f"{answer['path']}: {len(answer['files']):,} files, {answer['messages']:,} messages, layout {layouts or 'unknown'}"
    for found in answer["formats"]:
        yield from _format_lines(found)
    if answer["tombstones"]:
        yield f"\n{answer['tombstones']:,} messages with a key and no value: tombstones, which all formats share"
    if answer["is_mixed"]:
        yield "\nthe feed is mixed: give each format a source of its own"
        yield from aligned(("file", "formats"), [(f["file"], _counts(f["formats"])) for f in answer["files"]])
    if answer["unread_count"]:
        yield f"\n{answer['unread_count']:,} lines fit no format: {_counts(answer['unread_reasons'])}"
        for unread in answer["unread"]:
            seems = f" (as {unread['as']})" if unread["as"] else ""
            yield f"  {unread['file']}:{unread['line']}  {unread['reason']}{seems}  {unread['detail']}".rstrip()
        if "truncated" in answer["unread_reasons"]:
            yield "  truncated: is a message written over several lines? each must stand on one line"
    if not answer["formats"]:
        yield "\nno format reads any of it: `mainstem formats` lists those that are known"


def _format_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n{' or '.join((found['name'], *found['or']))}: {found['messages']:,} messages, confidence {found['confidence']:.2f}"
    for evidence in found["evidence"]:
        yield f"  because of {evidence}"
    if found["control_events"]:
        yield f"  control events: {_counts(found['control_events'])}"
    if found["tables"]:
        names = [dotted_name(t["database"], t["schema"], t["table"]) for t in found["tables"]]
        rows = [
            (name, ", ".join(t["keys"]) or "not in the feed", _counts(t["ops"])) for name, t in zip(names, found["tables"], strict=True)
        ]
        yield from (f"  {line}" for line in aligned(("table", "keys", "changes"), rows))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"


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
    text = demonstration.sample(name)
    if text is None:
        raise MainstemError("NO_SAMPLE", found=f"no sample feed for {name}", where="formats --sample", action="report this")
    return text
