"""The draft of a configuration for a folder of messages: one source a format, and what the feeds do not say as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.errors import MainstemError
from framework.names import dotted_name

Detect = Callable[[Path, str], Mapping[str, Any]]
"""What a file or folder holds, for a source of this name: feeds that name no database have the source's."""

_HIDDEN = (".", "_")
_SHOWN_COLUMNS = 20
_PLAIN = re.compile(r"[A-Za-z0-9_./*?-]+")

_BLANK = """\
sources:
  orders:
    format: datahub_blob       # a name of `mainstem formats`; `mainstem detect PATH` names that of your messages
    files: ./landing/orders    # every complete file below this folder is read once
    # layout: kcat             # one JSON object a line, as `kcat -J` prints it; without this, a message a line
    # timezone: Asia/Shanghai  # of wall times that carry no zone (default UTC)
    # pairing_timeout: 10 minutes
  # customers:
  #   format: debezium
  #   kafka: {bootstrap_servers: "localhost:9092", topics: [crm.public.customer]}
"""

_TABLES = """\
# tables:                      # every entry that matches applies, later ones win
#   - match: "shop.*"          # database.table or database.schema.table, with * and ?
#     history: true            # also keep every version of each row
#   - match: shop.order_line
#     keys: [order_id, line_no]            # for feeds that do not name the key
#     columns: {price: {type: "decimal(12,2)"}}
"""

_QUALITY = """
# quality:                     # every run ends by judging keys, types and that nothing is lost; false switches that off
#   rules:                     # your own, besides
#     - {match: shop.orders, not_null: [created_at], severity: warn}
"""


@dataclass(frozen=True, slots=True)
class DraftSource:
    """One source of a draft: its folder, and what `detect` says of the messages there."""

    name: str
    folder: Path
    answer: Mapping[str, Any]

    @property
    def format(self) -> str:
        """The name of the format that reads the messages."""
        return str(self.answer["formats"][0]["name"])

    @property
    def keyless(self) -> dict[str, list[str]]:
        """The dotted names of the tables for which the feed names no key, with the columns seen in them."""
        return {_dotted(table): table["columns"] for table in self.answer["formats"][0]["tables"] if not table["keys"]}


def draft_sources(path: Path, detect: Detect) -> list[DraftSource]:
    """A source for each folder at or below `path` that holds one format; `path` may be a file, whose folder is meant then.

    Raises MainstemError where no format reads the messages, or where one folder mixes several.
    """
    found: list[DraftSource] = []
    _look_below(path.parent if path.is_file() else path, detect, found)
    if not found:
        raise MainstemError(
            "NOTHING_RECOGNISED",
            found="no message that a format reads",
            where=str(path),
            action="`mainstem detect` says why line by line; `mainstem formats` lists the formats",
        )
    return found


def _look_below(folder: Path, detect: Detect, found: list[DraftSource]) -> None:
    name = _unused(_plain_name(folder.absolute().name, "feed"), {source.name for source in found})
    answer = detect(folder, name)
    if answer["formats"] and not answer["is_mixed"]:
        found.append(DraftSource(name, folder, answer))
        return
    if answer["formats"] and any(entry.is_file() and not entry.name.startswith(_HIDDEN) for entry in folder.iterdir()):
        raise MainstemError(
            "FORMATS_MIXED",
            found=" and ".join(each["name"] for each in answer["formats"]) + " in one folder",
            where=str(folder),
            action="move each format into a folder of its own (`mainstem detect` names the format of each file), then ask again",
        )
    for entry in sorted(folder.iterdir()) if answer["formats"] else ():
        if entry.is_dir() and not entry.name.startswith(_HIDDEN):
            _look_below(entry, detect, found)


def _plain_name(text: str, otherwise: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:60]
    return plain if plain and plain[0].isalpha() else otherwise


def _unused(name: str, names: Set[str]) -> str:
    number = 2
    found = name
    while found in names:
        found = f"{name}_{number}"
        number += 1
    return found


def draft_text(file: Path, sources: Sequence[DraftSource]) -> str:
    """The text of a configuration at `file` with these sources; without any, with one to be filled in."""
    pipeline = _plain_name(file.absolute().parent.name, "pipeline")
    head = (
        f"pipeline: {pipeline:<20} # names checkpoints and jobs: letters, digits and _\n"
        "lakehouse: ./lakehouse         # a folder or an object-store URL; the tables are below it\n\n"
    )
    if not sources:
        return f"{head}{_BLANK}\n{_TABLES}{_QUALITY}"
    body = _joined(line for source in sources for line in _source_lines(source, file.absolute().parent))
    keyless = {name: columns for source in sources for name, columns in source.keyless.items()}
    return f"{head}sources:\n{body}\n{_joined(_table_lines(keyless)) if keyless else _TABLES}{_QUALITY}"


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _source_lines(source: DraftSource, root: Path) -> Iterator[str]:
    found = source.answer["formats"][0]
    yield f"  {source.name}:"
    doubt = f"  # or {', '.join(found['or'])}: nothing in the messages tells which" if found["or"] else ""
    yield f"    format: {source.format}{doubt}"
    yield f"    files: {_written(_relative(source.folder, root))}"
    if source.answer["layout"] == "kcat":
        yield "    layout: kcat"
    yield "    # timezone: Asia/Shanghai  # of wall times that carry no zone (default UTC)"
    tables = ", ".join(_dotted(table) for table in found["tables"][:5])
    more = f" and {len(found['tables']) - 5} more" if len(found["tables"]) > 5 else ""
    yield f"    # seen: {_on_one_line(tables)}{more}" if tables else "    # seen: no table yet"
    if source.answer["unread_count"]:
        yield f"    # {source.answer['unread_count']:,} lines fit no format: they will be in quarantine, with the reason"


def _table_lines(keyless: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "# These tables have no key in their feed: name it, or they are append-only, a row for each change."
    yield "# tables:"
    for name, columns in keyless.items():
        yield f"#   - match: {_written(name)}"
        more = ", …" if len(columns) > _SHOWN_COLUMNS else ""
        seen = f"  # its columns: {_on_one_line(', '.join(columns[:_SHOWN_COLUMNS]))}{more}"
        yield f"#     keys: [{_written(columns[0])}]{seen}" if columns else "#     keys: [id]"


def _relative(folder: Path, root: Path) -> str:
    place = folder.absolute()
    return f"./{place.relative_to(root).as_posix()}" if place.is_relative_to(root) else str(place)


def _written(text: str) -> str:
    """The text as YAML has it: plain where that is safe, else in double quotes."""
    return text if _PLAIN.fullmatch(text) and not text.startswith(("-", "*", "?")) else json.dumps(text)


def _on_one_line(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)[1:-1].replace('\\"', '"')


def _dotted(table: Mapping[str, Any]) -> str:
    return dotted_name(table["database"], table["schema"], table["table"])
