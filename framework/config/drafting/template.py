"""Drafts a configuration for a folder of messages: a source for each format, open questions as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from framework.config.json_schema import SCHEMA_FILE
from framework.config.tables import CHOOSE_KEY
from framework.errors import MainstemError
from framework.naming import dotted_name
from framework.text.formatting import quantity

Detect = Callable[[Path, str], Mapping[str, Any]]
"""The answer of `detect` for a file or folder, as a source of this name.

Feeds that name no database have the source's.
"""

_HIDDEN = (".", "_")
_SHOWN_COLUMNS = 20
_SHOWN_LINKS = 10
_DEEPEST = 16
"""Folders inside one another in which sources are looked for: each level reads a sample of all below it."""
_PLAIN = re.compile(r"[A-Za-z0-9_./*?-]+")

_YAML_TEXT = "tag:yaml.org,2002:str"

_BLANK = """\
sources:
  orders:
    format: datahub_blob       # a name of `mainstem formats`; `mainstem detect PATH` names that of your messages
    files: ./landing/orders    # every complete file below this folder is read once
    # layout: kcat             # one JSON object a line, as `kcat -J` prints it; without this, a message a line
    # timezone: Asia/Shanghai  # of wall times that carry no zone (default UTC)
    # pairing_timeout: 10 minutes
    # order: partition         # each file or partition is in the source's order; `time`: the times of its changes order them
  # customers:
  #   format: debezium
  #   kafka: {bootstrap_servers: "localhost:9092", topics: [crm.public.customer]}
"""  # noqa: E501 - the file that users read

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
"""  # noqa: E501 - as above


@dataclass(frozen=True, slots=True)
class DraftSource:
    """One source of a draft, with the answer of `detect` for its messages: a folder, or topics (`kafka`)."""

    name: str
    folder: Path | None
    answer: Mapping[str, Any]
    kafka: Mapping[str, object] | None = None

    @property
    def place(self) -> str:
        """Where the messages are, for people."""
        if self.kafka is None:
            return str(self.folder)
        topics = self.kafka.get("topics")
        names = ", ".join(map(str, topics)) if isinstance(topics, list) else self.kafka["topic_pattern"]
        return f"{self.kafka['bootstrap_servers']} {names}"

    @property
    def format(self) -> str:
        """The format of the messages."""
        return str(self.answer["formats"][0]["name"])

    @property
    def tables(self) -> list[str]:
        """The dotted names of the tables."""
        return [_dotted(table) for table in self.answer["formats"][0]["tables"]]

    @property
    def keyless(self) -> dict[str, Mapping[str, Any]]:
        """The tables for which the feed names no key, by their dotted names."""
        return {_dotted(table): table for table in self.answer["formats"][0]["tables"] if not table["keys"]}

    @property
    def barren(self) -> list[str]:
        """The subfolders of this source in which no file fits a format."""
        if self.folder is None:
            return []
        read: dict[str, bool] = {}
        for file in self.answer["files"]:
            parts = Path(file["file"]).parts
            if len(parts) > 1:
                read[parts[0]] = read.get(parts[0], False) or bool(file["formats"])
        return sorted(name for name, is_read in read.items() if not is_read)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A folder or topic that is no source, or a folder with links that are none, and why."""

    folder: Path | str
    why: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The sources, and the folders that are left out."""

    sources: Sequence[DraftSource] = ()
    left_out: Sequence[LeftOut] = ()

    @property
    def keyless(self) -> dict[str, Mapping[str, Any]]:
        """The tables of all sources for which the feed names no key."""
        return {name: table for source in self.sources for name, table in source.keyless.items()}

    @property
    def shared(self) -> dict[str, list[str]]:
        """The tables of more than one source, with the names of the sources."""
        feeding: dict[str, list[str]] = {}
        for source in self.sources:
            for table in dict.fromkeys(source.tables):
                feeding.setdefault(table, []).append(source.name)
        return {table: names for table, names in feeding.items() if len(names) > 1}


def draft_configuration(path: Path, detect: Detect) -> Draft:
    """A source for each folder at or below `path` with messages of one format.

    `path` may be a file, which stands for its folder. Raises MainstemError where no format reads the
    messages, or where one folder mixes several.
    """
    found: list[DraftSource] = []
    left_out: list[LeftOut] = []
    _look_below(path.parent if path.is_file() else path, detect, found, left_out)
    if not found:
        raise MainstemError(
            "NOTHING_RECOGNISED",
            found=f"no message that a format reads: {left_out[0].why}"
            if left_out
            else "no message that a format reads",
            where=str(path),
            action="`mainstem detect` says why line by line; `mainstem formats` lists the formats",
        )
    return Draft(found, left_out)


def _look_below(
    folder: Path, detect: Detect, found: list[DraftSource], left_out: list[LeftOut], depth: int = 0
) -> None:
    if depth > _DEEPEST:
        left_out.append(LeftOut(folder, f"more than {_DEEPEST} folders deep: ask for it with --from"))
        return
    name = unused_name(plain_name(folder.absolute().name, "feed"), {source.name for source in found})
    answer = detect(folder, name)
    if answer["formats"] and not answer["is_mixed"]:
        source = DraftSource(name, folder, answer)
        below = _apart(source, detect, found, depth)
        found += below.sources if below else (source,)
        left_out += below.left_out if below else ()
        return
    if not answer["formats"]:
        left_out.append(LeftOut(folder, why_unread(answer)))
        return
    if _has_files(folder):
        raise MainstemError(
            "FORMATS_MIXED",
            found=" and ".join(each["name"] for each in answer["formats"]) + " in one folder",
            where=str(folder),
            action="move each format into a folder of its own "
            "(`mainstem detect` names the format of each file), then ask again",
        )
    for entry in _folders(folder):
        _look_below(entry, detect, found, left_out, depth + 1)
    left_out += _links(folder)


def _apart(source: DraftSource, detect: Detect, found: Sequence[DraftSource], depth: int) -> Draft | None:
    """The folders below a source as sources of their own, if they share no table and some fit nothing."""
    if source.folder is None or not source.barren or _has_files(source.folder):
        return None
    sources, left_out = list(found), list[LeftOut]()
    for entry in _folders(source.folder):
        _look_below(entry, detect, sources, left_out, depth + 1)
    left_out += _links(source.folder)
    below = Draft(sources[len(found) :], left_out)
    return None if below.shared else below


def _has_files(folder: Path) -> bool:
    return any(entry.is_file() for entry in _shown(folder) if not entry.is_symlink())


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder. A link is none: its target is elsewhere, or has its own place in the draft."""
    return [entry for entry in _shown(folder) if entry.is_dir() and not entry.is_symlink()]


def _links(folder: Path) -> list[LeftOut]:
    """One entry for all links to folders in a folder, as no source is made of them."""
    names = [entry.name for entry in _shown(folder) if entry.is_symlink() and entry.is_dir()]
    more = ", …" if len(names) > _SHOWN_LINKS else ""
    why = f"links are not followed: {', '.join(names[:_SHOWN_LINKS])}{more}"
    return [LeftOut(folder, why)] if names else []


def _shown(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith(_HIDDEN))


def why_unread(answer: Mapping[str, Any], place: str = "folder") -> str:
    """Why no format reads anything in a folder or topic, in a few words."""
    if not answer["file_count"] and answer.get("skipped"):
        return f"no file of it is read: {answer['skipped'][0]}"
    if not answer["file_count"] and place == "folder":
        return "there is no file in it (files named `.…`, `_…` or `….tmp` are ignored)"
    if answer["advice"]:
        return str(answer["advice"][0]["advice"])
    if answer["nearest"]:
        near = answer["nearest"][0]
        return f"looks like {' or '.join((near['name'], *near['or']))}; {near['detail'] or near['reason']}"
    if answer["unread_count"]:
        return f"no line of it fits a format ({', '.join(answer['unread_reasons'])})"
    return "tombstones alone, which all formats share" if answer["tombstones"] else "no message in it"


def plain_name(text: str, otherwise: str) -> str:
    """A text as the name of a pipeline or source; `otherwise` where it has no letter to begin with."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:60]
    return plain if plain and plain[0].isalpha() else otherwise


def unused_name(name: str, names: Set[str]) -> str:
    """A name that is none of the names, with a number where that is needed."""
    number = 2
    found = name
    while found in names:
        found = f"{name}_{number}"
        number += 1
    return found


def draft_text(file: Path, draft: Draft) -> str:
    """The text of a configuration with the sources of a draft; without sources, with one to fill in."""
    pipeline = _written(plain_name(file.absolute().parent.name, "pipeline"))
    lakehouse = _lakehouse(file, draft)
    head = (
        f"# yaml-language-server: $schema=./{SCHEMA_FILE}\n"
        f"pipeline: {pipeline:<20} # names checkpoints and jobs: letters, digits and _\n"
        f"lakehouse: {lakehouse:<19} # a folder or an object-store URL; the tables are below it\n\n"
    )
    if not draft.sources:
        return f"{head}{_BLANK}\n{_TABLES}{_QUALITY}"
    body = _joined(line for source in draft.sources for line in _source_lines(source, file.absolute().parent))
    doubts = _joined(f"  # {_on_one_line(line)}" for line in doubt_lines(draft))
    tables = _joined(_table_lines(draft.keyless)) if draft.keyless else _TABLES
    return f"{head}sources:\n{body}{doubts}\n{tables}{_QUALITY}"


def _lakehouse(file: Path, draft: Draft) -> str:
    """A folder beside the configuration for the lakehouse, in none of the folders that are read."""
    read = {source.folder.resolve() for source in draft.sources if source.folder is not None}
    beside = {folder.name for folder in read if folder.parent == file.absolute().parent.resolve()}
    return f"./{unused_name('lakehouse', beside)}"


def source_around(file: Path, draft: Draft) -> DraftSource | None:
    """The source in whose folder a file lies, and which would read it as messages; None without one."""
    place = file.absolute().parent.resolve()
    sources = (source for source in draft.sources if source.folder is not None)
    return next((s for s in sources if s.folder and place.is_relative_to(s.folder.resolve())), None)


def doubt_lines(draft: Draft) -> Iterator[str]:
    """What prevents a run with the draft: folders that are left out, and tables that two sources feed."""
    for left in draft.left_out:
        yield f"left out: {left.folder}: {left.why}"
    for source in draft.sources:
        for name in source.barren:
            yield (
                f"{source.folder}/{name} is part of the source {source.name}, and nothing in it fits a"
                " format: move it elsewhere"
            )
    for table, names in draft.shared.items():
        yield (
            f"{table} is in the feeds of {' and '.join(names)}, and one source feeds a table: "
            "give them one folder, "
            "or leave out all but one; a run parks the second (REPLICA_TAKEN)"
        )


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _source_lines(source: DraftSource, root: Path) -> Iterator[str]:
    found = source.answer["formats"][0]
    yield f"  {_written(source.name)}:"
    doubt = f"  # or {', '.join(found['or'])}: nothing in the messages tells which" if found["or"] else ""
    yield f"    format: {source.format}{doubt}"
    if source.folder is not None:
        yield f"    files: {_written(_relative(source.folder, root))}"
    if source.kafka is not None:
        yield "    kafka:"
        for key, value in source.kafka.items():
            items = map(_written, map(str, value)) if isinstance(value, list) else ()
            text = f"[{', '.join(items)}]" if isinstance(value, list) else _written(str(value))
            yield f"      {key}: {text}"
    if source.answer["layout"] == "kcat":
        yield "    layout: kcat"
    for name, value in found["options"].items():
        yield f"    {name}: {_written(value)}"
    if found["modes"]:
        yield (
            "    # These messages do not say how the connector writes values: "
            "choose what it is set to, one of"
        )
    for name, modes in found["modes"].items():
        yield f"    # {name}: {' | '.join(modes)}"
    yield "    # timezone: Asia/Shanghai  # of wall times that carry no zone (default UTC)"
    tables = ", ".join(_dotted(table) for table in found["tables"][:5])
    more = f" and {len(found['tables']) - 5} more" if len(found["tables"]) > 5 else ""
    yield f"    # seen: {_on_one_line(tables)}{more}" if tables else "    # seen: no table yet"
    if source.answer["unread_count"]:
        count = source.answer["unread_count"]
        lines = quantity(count, "line fits", "lines fit")
        yield f"    # {lines} no format: a run puts such lines in quarantine, with the reason"


def _table_lines(keyless: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "# These tables have no key in their feed: choose it, or they are append-only, a row for each change."
    )
    yield "# Choose columns that the source keeps unique: of rows with the same key only one stays."
    yield "# tables:"
    for name, table in keyless.items():
        columns = table["columns"]
        yield f"#   - match: {_written(name)}"
        if columns:
            more = ", …" if len(columns) > _SHOWN_COLUMNS else ""
            yield f"#     # its columns: {_on_one_line(', '.join(columns[:_SHOWN_COLUMNS]))}{more}"
        yield f"#     # {_candidates_line(table)}"
        yield f'#     keys: ["{CHOOSE_KEY}"]'


def _candidates_line(table: Mapping[str, Any]) -> str:
    rows = table["sampled"]
    if rows < 2:
        return "candidates: unknown, because fewer than two rows are left in the sample"
    named = ", ".join(f"[{', '.join(map(_written, names))}]" for names in table["candidates"])
    names = named or "none, alone or in pairs"
    return f"candidates, unique and never null in the {rows:,} rows of the sample: {names}"


def _relative(folder: Path, root: Path) -> str:
    place = folder.absolute()
    return f"./{place.relative_to(root).as_posix()}" if place.is_relative_to(root) else str(place)


def _written(text: str) -> str:
    """The text in YAML: plain where that is safe, else in double quotes, as `no` and `2024` are no texts."""
    is_plain = _PLAIN.fullmatch(text) and not text.startswith(("-", "*", "?"))
    node = yaml.compose(text, yaml.SafeLoader) if is_plain else None
    return text if node is not None and node.tag == _YAML_TEXT else json.dumps(text)


def _on_one_line(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)[1:-1].replace('\\"', '"')


def _dotted(table: Mapping[str, Any]) -> str:
    return dotted_name(table["database"], table["schema"], table["table"])
