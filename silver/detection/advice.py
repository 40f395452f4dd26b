"""Why lines fit no format although they contain messages: how the file was written, with one line of advice.

    cause           a line of the file
    several_lines   a part of a JSON document that is written over several lines
    array           a JSON array, or a part of one that is written over several lines
    key_before      a key and a tab before the message, as console consumers print it
    envelope        the envelope of a REST proxy around the message
    csv             values with separators, in a file whose name says so

The reader that opens a file finds more causes: UTF-16, gzip under another name, a name in `.gz` without gzip,
and files that hold no lines (archives, Parquet, Avro).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any

import msgspec

from framework.contracts.file_messages import Cause, FiledMessage
from silver.decoding.json_reader import without_mark

_MEMBER = re.compile(rb'"(?:[^"\\]|\\.)*"\s*:', re.DOTALL)
_AROUND = frozenset(
    (
        *(
            "topic",
            "topic_name",
            "cluster_id",
            "partition",
            "partition_id",
            "offset",
            "timestamp",
            "timestampType",
            "timestamp_type",
        ),
        *(
            "key",
            "value",
            "headers",
            "kind",
            "metadata",
            "key_schema_id",
            "value_schema_id",
            "key_schema",
            "value_schema",
        ),
    )
)
"""Members that REST proxies and consoles write around a message."""
_MOST_FILES = 10_000
_ROWS = "write the changes as JSON, one message on a line; rows of a dump are for `mainstem seed`"
_CSV_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_KEEPING = "or consume with `kcat -J`, which keeps keys and offsets"

_TEXTS = {
    Cause.SEVERAL_LINES: "JSON written over several lines: each message must stand on one line "
    "(`jq -c . {file}`)",
    Cause.ARRAY: "messages in a JSON array: each must stand on a line of its own (`jq -c '.[]' {file}`)",
    Cause.KEY_BEFORE: "a key before each message, as console consumers print it: leave it out "
    f"(print.key=false), {_KEEPING}",
    Cause.ENVELOPE: "a REST proxy's envelope around each message: take the value out of it "
    f"(`jq -c '{{path}}' {{file}}`), {_KEEPING}",
    Cause.UTF16: "text in UTF-16: write it in UTF-8 (`iconv -f UTF-16 -t UTF-8 {file}`)",
    Cause.GZIP: "gzip under a name that does not end in .gz: rename it (`mv {file} {file}.gz`)",
    Cause.NO_GZIP: "a name that ends in .gz, and no gzip: rename it, or compress it",
    Cause.PACKED: "compressed by zstd, bzip2 or xz: unpack it, or compress it by gzip as `….gz`",
    Cause.ZIP: "a ZIP archive: unpack it (`unzip {file}`)",
    Cause.PARQUET: f"Parquet, which holds rows and no messages: {_ROWS}",
    Cause.AVRO: "Avro: let the connector write JSON (`value.converter=…JsonConverter`), or convert it",
    Cause.CSV: f"CSV, which holds rows and no messages: {_ROWS}",
}


@dataclass(slots=True)
class Causes:
    """How many such lines each file has, by cause."""

    counts: dict[Cause, Counter[str]] = field(default_factory=dict)
    paths: dict[Cause, str] = field(default_factory=dict)
    of_files: dict[str, Cause] = field(default_factory=dict)

    def of(self, filed: FiledMessage) -> Cause | None:
        """The cause for which a line fits no format, or None where it is none of these. Counts the line."""
        cause = filed.cause or (None if filed.fault is not None else self._cause_of_message(filed))
        if cause is not None:
            self.counts.setdefault(cause, Counter())[filed.file] += 1
        return cause

    def _cause_of_message(self, filed: FiledMessage) -> Cause | None:
        line = without_mark(filed.message.value or b"").strip()
        known = self.of_files.get(filed.file)
        if known is not None and not _is_object(line):
            return known
        cause, path = cause_of(line)
        if cause is None and filed.file.lower().endswith(_CSV_ENDINGS) and not line.startswith(b"{"):
            cause = Cause.CSV
        if cause is not None:
            self.paths.setdefault(cause, path)
        if cause in (Cause.SEVERAL_LINES, Cause.ARRAY) and len(self.of_files) < _MOST_FILES:
            self.of_files[filed.file] = cause
        return cause

    def advice(self) -> list[dict[str, Any]]:
        """One entry for each cause: its files, how many of their lines it concerns, and what to do."""
        return [
            {
                "cause": str(cause),
                "files": sorted(files),
                "lines": files.total(),
                "advice": self._text(cause, files),
            }
            for cause, files in sorted(self.counts.items())
        ]

    def _text(self, cause: Cause, files: Mapping[str, int]) -> str:
        return _TEXTS[cause].format(file=quote(min(files)), path=self.paths.get(cause, ""))


def cause_of(line: bytes) -> tuple[Cause | None, str]:
    """The cause that a line shows by itself, and for envelopes the path of the value.

    None and "" where it shows none.
    """
    if line.startswith(b"["):
        elements = _decoded(line)
        return (
            (Cause.ENVELOPE, f".[]{found}")
            if isinstance(elements, list) and (found := _value_in(elements))
            else (Cause.ARRAY, "")
        )
    if line == b"{" or _MEMBER.match(line):
        return Cause.SEVERAL_LINES, ""
    key, tab, value = line.rpartition(b"\t")
    if tab and (_is_object(value) or (value == b"null" and key)):
        return Cause.KEY_BEFORE, ""
    if line.startswith(b"{") and (path := _envelope(_decoded(line))):
        return Cause.ENVELOPE, path
    return None, ""


def _envelope(document: object) -> str:
    if not isinstance(document, dict):
        return ""
    records = document.get("records")
    if isinstance(records, list) and (found := _value_in(records)):
        return f".records[]{found}"
    return _value_in([document])


def _value_in(documents: Sequence[object]) -> str:
    """The path of the value in envelopes; empty where the documents are not envelopes."""
    if not documents or not all(
        isinstance(each, dict) and "value" in each and each.keys() <= _AROUND for each in documents
    ):
        return ""
    first = documents[0]
    value = first["value"] if isinstance(first, dict) else None
    return ".value.data" if isinstance(value, dict) and value.keys() == {"type", "data"} else ".value"


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and isinstance(_decoded(line), dict)


def _decoded(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
