"""The `source` block of Debezium's messages: which table and server a change belongs to, when it happened, its place in the order.

    {"connector": "mysql", "db": "shop", "table": "orders", "server_id": 223344, "file": "mysql-bin.000003", "pos": 484, "row": 0,
     "gtid": null, "snapshot": "false", "ts_ms": 1465491411000}

    members                             connectors                    order, as numbers
    file, pos, row                      MySQL, MariaDB                number of the file, pos, row
    lsn                                 PostgreSQL and kin            lsn, a number or `16/B374D848`
    commit_lsn, change_lsn, event_serial_no   SQL Server, Db2, Informix   these three
    commit_scn, scn, rs_id, ssn         Oracle                        commit SCN (SCN where it is missing), SCN, RBA, ssn
    scn, lcr_position                   Oracle, XStream               the same with the LCR position for the RBA
    ts_ms, ord                          MongoDB                       seconds, ord
    vgtid                               Vitess                        transactions in the shard's GTID set
    commit_ts                           TiCDC                         commit timestamp

The kind is told by the members, so that forks and flattened rows are read alike. Where `row`, `change_lsn`, or both of
`rs_id` and `lcr_position` are not sent (flattened rows, older connectors of Oracle), several changes can share a place, and
those of one transaction of MongoDB (`txnNumber`) do.
A transaction of Oracle that is open while a snapshot is taken is not in the snapshot: hence the commit SCN comes first.
`snapshot` is `true`, `first`, `first_in_data_collection`, `last_in_data_collection` or `last` for rows of a snapshot,
`incremental` for those read while changes stream, else `false`. Server 0 is none: snapshots have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from framework.contracts.reasons import Malformed, Reason
from silver.wire import number_of, optional_text, read_json, scalar, time_of

Source = Mapping[str, Raw]
Place = tuple[int, int, int, int]

_NOT_SNAPSHOT = frozenset({"", "false", "incremental"})
_FILE = re.compile(r"(?:.*[^0-9])?([0-9]{1,19})", re.DOTALL)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_HEX_GROUPS = re.compile(r"(?:0x)?[0-9A-Fa-f]{1,16}(?:[:.](?:0x)?[0-9A-Fa-f]{1,16}){1,7}")
_SHORT, _LONG = 8, 16
"""Digits of a group; Db2 writes its last one long, and always so."""
_HEX = re.compile(r"[0-9A-Fa-f]{1,80}")
_WITH_POSITION = re.compile(r"([0-9]{1,20}):[0-9]{1,20}")
_INTERVAL = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_NONE = Raw()


class _ShardGtid(msgspec.Struct):
    shard: str
    gtid: str


_SHARDS = msgspec.json.Decoder(list[_ShardGtid])


def text_of(source: Source, name: str) -> str | None:
    """A member's text, None where it is missing, null or empty. Raises `Malformed` for an object or a boolean."""
    raw = source.get(name)
    return None if raw is None else optional_text(raw) or None


def names_of(source: Source) -> tuple[str | None, str | None, str | None]:
    """Database, schema and table; Vitess' keyspace is a database, MongoDB's collection a table."""
    database = text_of(source, "db") or text_of(source, "keyspace")
    return database, text_of(source, "schema"), text_of(source, "table") or text_of(source, "collection")


def server_of(source: Source) -> str | None:
    """The server that wrote the position; None where the source names none, as snapshots do."""
    server = text_of(source, "server_id")
    return None if server == "0" else server


def transaction_of(source: Source) -> str | None:
    """The transaction by what the source itself calls it: a GTID, a transaction's number, a commit position."""
    return next((text for name in ("gtid", "txId", "xid", "commit_lsn", "commit_scn") if (text := text_of(source, name))), None)


def transaction_name(text: str | None) -> str | None:
    """The transaction that the connector's own id names: PostgreSQL's, `759:27410048`, has the position of the row behind it."""
    found = _WITH_POSITION.fullmatch(text or "")
    return found[1] if found else text


def moment_of(times: Source) -> int | None:
    """The first of `ts_us`, `ts_ms` and `ts_ns` in microseconds; None where all are missing or 0."""
    for name, unit in (("ts_us", "us"), ("ts_ms", "ms"), ("ts_ns", "ns")):
        moment = time_of(times.get(name), name, unit)
        if moment:
            return moment
    return None


def snapshot_of(source: Source) -> str:
    """`snapshot` as text in small letters; older connectors write a boolean."""
    raw = source.get("snapshot")
    return (scalar(raw)[1] or "").lower() if raw is not None and bytes(raw) else ""


def is_snapshot(source: Source) -> bool:
    """Whether the row was read by a snapshot that stands for one position; an incremental one's rows have their own."""
    return snapshot_of(source) not in _NOT_SNAPSHOT


def place_of(source: Source) -> Place | None:
    """The numbers that order a change among those of its source; None where the source writes none.

    Raises `Malformed` for a position that cannot be read.
    """
    for read in (_binlog, _commit_change, _scn, _lsn, _gtid_set, _commit_time, _operation_time):
        place = read(source)
        if place is not None:
            return place
    return None


def is_blank(source: Source) -> bool:
    """Whether the position is there and says nothing: Flink CDC fills it so for rows that it copies."""
    place = place_of(source)
    if place is not None:
        return not any(place)
    if "file" in source:
        return bytes(source["file"]) == b'""' and not _number(source, "pos")
    return (text_of(source, "lsn") or "").startswith("-")


def is_shared(source: Source) -> bool:
    """Whether several changes of one row can have the place that the source writes, for want of what tells them apart."""
    if is_snapshot(source):
        return False
    if text_of(source, "file") is not None:
        return text_of(source, "row") is None
    if text_of(source, "commit_lsn") is not None:
        return text_of(source, "change_lsn") is None
    if text_of(source, "ord") is not None:
        return text_of(source, "txnNumber") is not None
    return text_of(source, "scn") is not None and text_of(source, "rs_id") is None and text_of(source, "lcr_position") is None


def _binlog(source: Source) -> Place | None:
    file = text_of(source, "file")
    if file is None:
        return None
    found = _FILE.fullmatch(file)
    if found is None:
        raise Malformed(Reason.BAD_POSITION, "source.file ends in no number")
    return (int(found[1]), _number(source, "pos"), _number(source, "row"), 0)


def _commit_change(source: Source) -> Place | None:
    commit, change = text_of(source, "commit_lsn"), text_of(source, "change_lsn")
    if commit is None and change is None:
        return None
    return (_grouped(commit, "commit_lsn"), _grouped(change, "change_lsn"), _number(source, "event_serial_no"), 0)


def _scn(source: Source) -> Place | None:
    scn, commit = number_of(source.get("scn"), "source.scn"), number_of(source.get("commit_scn"), "source.commit_scn")
    if scn is None and commit is None:
        return None
    redo = _grouped(text_of(source, "rs_id"), "rs_id") or _hexadecimal(text_of(source, "lcr_position"), "lcr_position")
    return (commit or scn or 0, scn or 0, redo, _number(source, "ssn"))


def _lsn(source: Source) -> Place | None:
    text = text_of(source, "lsn")
    if text is None:
        return None
    if text.startswith("-"):
        return None  # the number below all others, which PostgreSQL calls invalid
    found = _LSN.fullmatch(text)
    return (int(found[1], 16) << 32 | int(found[2], 16) if found else _number(source, "lsn"), 0, 0, 0)


def _gtid_set(source: Source) -> Place | None:
    text = text_of(source, "vgtid")
    if text is None or text == "current":
        return None
    try:
        shards = read_json(_SHARDS, text.encode())
    except Malformed:
        raise Malformed(Reason.BAD_POSITION, "source.vgtid is no list of shards") from None
    mine = text_of(source, "shard")
    return (sum(_transactions(s.gtid) for s in shards if mine is None or s.shard == mine), 0, 0, 0)


def _transactions(gtid: str) -> int:
    """How many transactions a GTID set holds: it grows with each, also when another server becomes the primary."""
    count = 0
    for uuid in gtid.rpartition("/")[2].split(","):
        for interval in uuid.split(":")[1:]:
            found = _INTERVAL.fullmatch(interval.strip())
            if found is None:
                raise Malformed(Reason.BAD_POSITION, "source.vgtid holds no GTID set")
            count += int(found[2] or found[1]) - int(found[1]) + 1
    return max(count, 0)


def _commit_time(source: Source) -> Place | None:
    commit = number_of(source.get("commit_ts"), "source.commit_ts")
    return (commit, 0, 0, 0) if commit else None


def _operation_time(source: Source) -> Place | None:
    place = number_of(source.get("ord"), "source.ord")
    if place is None:
        return None
    return ((number_of(source.get("ts_ms"), "source.ts_ms") or 0) // 1000, place, 0, 0)


def _number(source: Source, name: str) -> int:
    return number_of(source.get(name, _NONE), f"source.{name}") or 0


def _grouped(text: str | None, name: str) -> int:
    """Groups of hexadecimal digits as one number, `00000027:00000ac0:0002`; a text without groups is decimal."""
    if text is None:
        return 0
    text = text.strip()
    if _HEX_GROUPS.fullmatch(text):
        groups = [group.removeprefix("0x") for group in re.split("[:.]", text)]
        return int("".join(group.rjust(_SHORT if len(group) <= _SHORT else _LONG, "0") for group in groups), 16)
    if text.isascii() and text.isdigit() and len(text) <= 80:
        return int(text)
    raise Malformed(Reason.BAD_POSITION, f"source.{name} is no position")


def _hexadecimal(text: str | None, name: str) -> int:
    if text is None:
        return 0
    if _HEX.fullmatch(text) is None:
        raise Malformed(Reason.BAD_POSITION, f"source.{name} is no position")
    return int(text, 16)
