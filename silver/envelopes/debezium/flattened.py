"""Flattened rows of Debezium (`ExtractNewRecordState`): columns, and the metadata that it adds.

    {"id": 7, "name": "Ann", "__op": "u", "__deleted": "false", "__table": "orders", "__lsn": 24023128,
     "__source_ts_ms": 1465491411000}

A metadata name is the prefix (`__`) and one of the names below; members of `source` may also have `source_`
before them. Headers can have the same names. Any other name is a column, even if it begins with the prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from msgspec import Raw

from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.json_reader import optional_text, scalar
from silver.decoding.row_plans import is_narrow
from silver.envelopes.debezium.source_block import Members, SourceBlock

_SOURCE_NAMES = frozenset(
    (
        *(
            "version",
            "connector",
            "name",
            "db",
            "schema",
            "table",
            "collection",
            "keyspace",
            "shard",
            "snapshot",
            "sequence",
        ),
        *(
            "server_id",
            "gtid",
            "file",
            "pos",
            "row",
            "thread",
            "query",
            "lsn",
            "xmin",
            "txId",
            "xid",
            "commit_lsn",
            "change_lsn",
        ),
        *(
            "event_serial_no",
            "scn",
            "commit_scn",
            "rs_id",
            "ssn",
            "lcr_position",
            "redo_thread",
            "user_name",
            "row_id",
            "ord",
            "vgtid",
        ),
    )
)
_TIMES = frozenset({"ts_ms", "ts_us", "ts_ns"})
_TRANSACTION = frozenset({"transaction_id", "transaction_total_order", "transaction_data_collection_order"})
METADATA = frozenset(
    {
        "op",
        "deleted",
        *_TIMES,
        *_TRANSACTION,
        *_SOURCE_NAMES,
        *(f"source_{name}" for name in (*_SOURCE_NAMES, *_TIMES)),
    },
)
"""Names of metadata without the prefix."""

_BY_SCHEMA = frozenset({"postgresql", "oracle"})
_FILE = re.compile(r"/|\.(?:jsonl?|ndjson|txt|log|gz|zst)$", re.IGNORECASE)
_RAW = msgspec.json.Decoder(Raw)


@dataclass(frozen=True, slots=True)
class Flat:
    """One flattened row: its columns, and the metadata under the names that an envelope has for them.

    `times` are the connector's own times; those of the source are in `source`.
    """

    cells: dict[str, Raw]
    op: str | None
    is_deleted: bool
    source: SourceBlock
    times: Members
    transaction: Members


def has_metadata(names: tuple[str, ...], prefix: str) -> bool:
    """Whether one of the names is that of metadata."""
    return (_has_metadata if is_narrow(names) else _has_metadata.__wrapped__)(names, prefix)


@lru_cache(maxsize=1024)
def _has_metadata(names: tuple[str, ...], prefix: str) -> bool:
    return any(name.startswith(prefix) and name[len(prefix) :] in METADATA for name in names)


def flat_of(payload: Mapping[str, Raw], headers: Iterable[tuple[str, bytes | None]], prefix: str) -> Flat:
    """A row's columns and metadata. Raises `Malformed` where there is no column."""
    meta = {
        name[len(prefix) :]: raw
        for name, raw in payload.items()
        if name.startswith(prefix) and name[len(prefix) :] in METADATA
    }
    cells = {
        name: raw
        for name, raw in payload.items()
        if not (name.startswith(prefix) and name[len(prefix) :] in METADATA)
    }
    if not cells:
        raise Malformed(Reason.MISSING_IMAGE, "a flattened row without columns")
    for name, value in headers:
        if name.startswith(prefix) and name[len(prefix) :] in METADATA and value:
            meta.setdefault(name[len(prefix) :], _raw(value))
    source = {name: raw for name, raw in meta.items() if name in _SOURCE_NAMES}
    source |= {name.removeprefix("source_"): raw for name, raw in meta.items() if name.startswith("source_")}
    deleted = meta.get("deleted")
    return Flat(
        cells=cells,
        op=optional_text(meta.get("op")),
        is_deleted=deleted is not None and scalar(deleted)[1] == "true",
        source=SourceBlock(source),
        times={name: raw for name, raw in meta.items() if name in _TIMES},
        transaction={
            name.removeprefix("transaction_"): raw for name, raw in meta.items() if name in _TRANSACTION
        },
    )


def topic_names(source: SourceBlock, topic: str, database: str) -> tuple[str, str | None, str]:
    """Database, schema and table from the metadata, else from the topic `[prefix.[database.][schema.]]table`.

    `database` is for rows where neither names one. A topic has the names with some characters replaced, so
    metadata come first. The path of a file is not a topic.
    """
    named, schema, table = source.names
    parts = [] if _FILE.search(topic) else topic.split(".")
    if table is None and not parts:
        raise Malformed(Reason.MISSING_TABLE, "neither __table nor a topic names the table")
    middle = parts[1:-1]
    if named is None and schema is None and len(middle) == 1:
        is_schema = (
            (source.text("connector") or "").lower() in _BY_SCHEMA
            or "lsn" in source.members
            or "scn" in source.members
        )
        named, schema = (None, middle[0]) if is_schema else (middle[0], None)
    elif len(middle) == 2:
        named, schema = named or middle[0], schema or middle[1]
    return named or database, schema, table or parts[-1]


def _raw(value: bytes) -> Raw:
    """A header's value as JSON; other text becomes a string."""
    try:
        return Raw(bytes(_RAW.decode(value)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Raw(json.dumps(value.decode("utf-8", "replace")).encode())
