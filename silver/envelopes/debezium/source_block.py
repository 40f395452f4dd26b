"""The `source` block of Debezium's messages: table, server, time and position of a change.

    {"connector": "mysql", "db": "shop", "table": "orders", "server_id": 223344, "file": "mysql-bin.000003",
     "pos": 484, "row": 0, "gtid": null, "snapshot": "false", "ts_ms": 1465491411000}

    members                             connectors                    order, as numbers
    file, pos, row                      MySQL, MariaDB                number of the file, pos, row
    lsn                                 PostgreSQL and databases like it   lsn, a number or `16/B374D848`
    commit_lsn, change_lsn, event_serial_no   SQL Server, Db2, Informix   these three
    commit_scn, scn, rs_id, ssn         Oracle                        commit SCN (else SCN), SCN, RBA, ssn
    scn, lcr_position                   Oracle, XStream               the same, with the LCR position as RBA
    ts_ms, ord                          MongoDB                       seconds, ord; none where `ord` is -1, as
                                                                      in rows of a snapshot
    vgtid                               Vitess                        transactions in the shard's GTID set;
                                                                      over MariaDB its last number
    commit_ts                           TiCDC                         commit timestamp

The members decide, not the connector's name, so that forks and flattened rows are read alike. Where `row`,
`change_lsn`, or both `rs_id` and `lcr_position` are not sent (flattened rows, older connectors of Oracle),
several changes can share a position; changes of one transaction of MongoDB (`txnNumber`) always do. An Oracle
transaction that is open while a snapshot is taken is not in the snapshot, therefore the commit SCN comes
first. `snapshot` is `true`, `first`, `first_in_data_collection`, `last_in_data_collection` or `last` for rows
of a snapshot, `incremental` for rows that are read while changes stream, else `false`. Server 0, which
snapshots have, is no server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import number_in, read_cell, text_in, time_in
from silver.decoding.interning import ReadOnce
from silver.decoding.json_reader import read_json

Members = Mapping[str, Any]
"""Members as cells: plain values where these are exact, else bytes."""
SourcePosition = tuple[int, int, int, int]

_CONNECTOR_OF_MEMBER = {"file": "mysql", "lsn": "postgresql", "scn": "oracle"}
_NOT_SNAPSHOT = frozenset({"", "false", "incremental"})
_FILE = re.compile(r"(?:.*[^0-9])?([0-9]{1,19})", re.DOTALL)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_HEX_GROUPS = re.compile(r"(?:0x)?[0-9A-Fa-f]{1,16}(?:[:.](?:0x)?[0-9A-Fa-f]{1,16}){1,7}")
_LONG_NAME = 1_000
_SHORT, _LONG = 8, 16
"""Digits of a group; Db2 always writes its last group long."""
_HEX = re.compile(r"[0-9A-Fa-f]{1,80}")
_WITH_POSITION = re.compile(r"([0-9]{1,20}):[0-9]{1,20}")
_DOMAIN = re.compile(r"[0-9]{1,10}-[0-9]{1,10}-([0-9]{1,20})")
"""A GTID of MariaDB: the domain, the server, and the number of the transaction in the domain."""
_INTERVAL = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")
_NONE, _EMPTY = Raw(), ("", Raw(b'""'))
_COMMITTED = re.compile(r'\[\s*"([0-9]{1,20})"\s*,')


class _ShardGtid(msgspec.Struct):
    shard: str
    gtid: str


_SHARDS = msgspec.json.Decoder(list[_ShardGtid])


def member_text(members: Members, name: str) -> str | None:
    """A member's text, None where it is missing, null or empty.

    Raises `Malformed` for an object or a boolean.
    """
    return text_in(members.get(name)) or None


def transaction_name(text: str | None) -> str | None:
    """The transaction in the connector's own id.

    In PostgreSQL's, `759:27410048`, the row's position follows it.
    """
    found = _WITH_POSITION.fullmatch(text or "")
    return found[1] if found else text


def event_time_of(times: Members) -> int | None:
    """The event time in microseconds; None where all its members are missing or 0.

    It is the first of `ts_us`, `ts_ms`, `ts_ns` and, in old releases, `ts_sec`.
    """
    for name, unit in (("ts_us", "us"), ("ts_ms", "ms"), ("ts_ns", "ns"), ("ts_sec", "s")):
        moment = time_in(times.get(name), name, unit)
        if moment:
            return moment
    return None


class SourceBlock(msgspec.Struct, frozen=True, dict=True):
    """The `source` block of one message.

    A property reads its members when it is first used and keeps the result, so each is read once a message.
    It raises `Malformed` where one of them cannot be read; a member that no property needs refuses nothing.
    """

    members: Members

    def text(self, name: str) -> str | None:
        """A member's text, None where it is missing, null or empty.

        Raises `Malformed` for an object or a boolean.
        """
        cell = self.members.get(name)
        return cell or None if type(cell) is str else text_in(cell) or None

    @ReadOnce
    def names(self) -> tuple[str | None, str | None, str | None]:
        """Database, schema and table. Vitess' keyspace is a database, MongoDB's collection is a table."""
        database = self.text("db") or self.text("keyspace")
        return database, self.text("schema"), self.text("table") or self.text("collection")

    @ReadOnce
    def connector(self) -> str | None:
        """The connector in lower case. Releases up to 0.8 name none: there the position's members show it.

        None for envelopes that are not Debezium's: with a connector in capitals, or with neither a connector
        nor a position.
        """
        connector = self.text("connector")
        if connector is not None:
            return None if connector.isupper() else connector.lower()
        if self.position is None:
            return None
        return next(
            (
                connector_name
                for name, connector_name in _CONNECTOR_OF_MEMBER.items()
                if self.text(name) is not None
            ),
            "",
        )

    @ReadOnce
    def server(self) -> str | None:
        """The server that wrote the position; None where the source names none, as snapshots do."""
        server = self.text("server_id")
        return None if server == "0" else server

    @ReadOnce
    def transaction(self) -> str | None:
        """The source's own name of the transaction: a GTID, a transaction number, a commit position."""
        names = ("gtid", "txId", "xid", "commit_lsn", "commit_scn")
        return next((text for name in names if (text := self.text(name))), None)

    @ReadOnce
    def event_time(self) -> int | None:
        """The event time in microseconds; None where the block has none."""
        return event_time_of(self.members)

    @ReadOnce
    def is_snapshot(self) -> bool:
        """Whether the row is of a snapshot at one position; older connectors write a boolean.

        Rows of an incremental snapshot have positions of their own.
        """
        cell = self.members.get("snapshot")
        text = "" if cell is None or cell == _NONE else read_cell(cell)[1] or ""
        return text.lower() not in _NOT_SNAPSHOT

    @ReadOnce
    def position(self) -> SourcePosition | None:
        """The numbers that order a change among the changes of its source; None where the source writes none.

        Raises `Malformed` for a position that cannot be read.
        """
        for read in (_binlog, _commit_change, _scn, _lsn, _gtid_set, _commit_time, _operation_time):
            place = read(self.members)
            if place is not None:
                return place
        return None

    @ReadOnce
    def control_position(self) -> tuple[int, ...] | None:
        """The position of a truncate, a statement or a logical message among the rows of its source."""
        return None if self.position is None else (*self.position, 0 if self.is_snapshot else 1, 0)

    @ReadOnce
    def last_commit(self) -> SourcePosition | None:
        """The last commit before the change's own, the first number in PostgreSQL's `sequence`.

        None where it has none.
        """
        found = _COMMITTED.match(self.text("sequence") or "")
        return (int(found[1]), 0, 0, 0) if found else None

    @ReadOnce
    def is_blank(self) -> bool:
        """Whether the position is empty, as Flink CDC writes it for rows that it copies."""
        if self.position is not None:
            return not any(self.position)
        if "file" in self.members:
            return self.members["file"] in _EMPTY and not _number(self.members, "pos")
        return (self.text("lsn") or "").startswith("-")

    @ReadOnce
    def is_outside_stream(self) -> bool:
        """Whether the source says that the row has no place in its stream, as MongoDB does with `ord` -1."""
        return (self.text("ord") or "").startswith("-")

    @ReadOnce
    def is_shared(self) -> bool:
        """Whether several changes can share the position, as the member that tells them apart is missing."""
        if self.is_snapshot:
            return False
        if self.text("file") is not None:
            return self.text("row") is None
        if self.text("commit_lsn") is not None:
            return self.text("change_lsn") is None
        if self.text("ord") is not None:
            return self.text("txnNumber") is not None
        return (
            self.text("scn") is not None and self.text("rs_id") is None and self.text("lcr_position") is None
        )

    @ReadOnce
    def is_in_binlog(self) -> bool:
        """Whether the change has been read from a binlog."""
        return not self.is_snapshot and self.text("file") is not None

    @ReadOnce
    def is_of_transaction(self) -> bool:
        """Whether the position is TiCDC's commit timestamp, which all rows of a transaction share.

        TiCDC writes one row for each key there, so it identifies the rows of tables with a key.
        """
        return (
            not self.is_snapshot and self.position is not None and self.position == _commit_time(self.members)
        )


def _binlog(members: Members) -> SourcePosition | None:
    file = member_text(members, "file")
    if file is None:
        return None
    number = _file_number(file) if len(file) < _LONG_NAME else _file_number.__wrapped__(file)
    return (number, _number(members, "pos"), _number(members, "row"), 0)


@lru_cache(maxsize=64)
def _file_number(file: str) -> int:
    found = _FILE.fullmatch(file)
    if found is None:
        raise Malformed(Reason.BAD_POSITION, "source.file ends in no number")
    return int(found[1])


def _commit_change(members: Members) -> SourcePosition | None:
    commit, change = member_text(members, "commit_lsn"), member_text(members, "change_lsn")
    if commit is None and change is None:
        return None
    return (
        _hex_groups_number(commit, "commit_lsn"),
        _hex_groups_number(change, "change_lsn"),
        _number(members, "event_serial_no"),
        0,
    )


def _scn(members: Members) -> SourcePosition | None:
    scn, commit = (
        number_in(members.get("scn"), "source.scn"),
        number_in(members.get("commit_scn"), "source.commit_scn"),
    )
    if scn is None and commit is None:
        return None
    redo = _hex_groups_number(member_text(members, "rs_id"), "rs_id") or _hexadecimal(
        member_text(members, "lcr_position"), "lcr_position"
    )
    return (commit or scn or 0, scn or 0, redo, _number(members, "ssn"))


def _lsn(members: Members) -> SourcePosition | None:
    text = member_text(members, "lsn")
    if text is None:
        return None
    if text.startswith("-"):
        return None  # the lowest number, which PostgreSQL calls invalid
    found = _LSN.fullmatch(text)
    return (int(found[1], 16) << 32 | int(found[2], 16) if found else _number(members, "lsn"), 0, 0, 0)


def _gtid_set(members: Members) -> SourcePosition | None:
    text = member_text(members, "vgtid")
    if text is None or text == "current":
        return None
    try:
        shards = read_json(_SHARDS, text.encode())
    except Malformed:
        raise Malformed(Reason.BAD_POSITION, "source.vgtid is no list of shards") from None
    mine = member_text(members, "shard")
    count = sum(_transactions(s.gtid) for s in shards if mine is None or s.shard == mine)
    if count == 0:  # a transaction wrote the row, so a set without transactions is not the row's
        raise Malformed(Reason.BAD_POSITION, "source.vgtid holds no transaction of the shard")
    return (count, 0, 0, 0)


def _transactions(gtid: str) -> int:
    """A number that grows with each transaction of a GTID set, even when another server becomes the primary.

    For MySQL it is the count of transactions in the set, for MariaDB the sum of the last numbers of its
    domains.
    """
    flavor, _, members = gtid.partition("/") if "/" in gtid else ("MySQL56", "", gtid)
    count = {"MySQL56": _transactions_in_set, "MariaDB": _transaction_number}.get(flavor)
    if count is None:
        raise Malformed(Reason.BAD_POSITION, f"source.vgtid holds {flavor[:50]!r}, whose order is not known")
    return sum(count(member.strip()) for member in members.split(",") if member.strip())


def _transaction_number(member: str) -> int:
    found = _DOMAIN.fullmatch(member)
    if found is None:
        raise Malformed(Reason.BAD_POSITION, "source.vgtid holds no GTID of MariaDB")
    return int(found[1])


def _transactions_in_set(uuid: str) -> int:
    count = 0
    for interval in uuid.split(":")[1:] or ("",):
        found = _INTERVAL.fullmatch(interval.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise Malformed(Reason.BAD_POSITION, "source.vgtid holds no GTID set")
        count += last - first + 1
    return count


def _commit_time(members: Members) -> SourcePosition | None:
    commit = number_in(members.get("commit_ts"), "source.commit_ts")
    return (commit, 0, 0, 0) if commit else None


def _operation_time(members: Members) -> SourcePosition | None:
    if (member_text(members, "ord") or "-").startswith("-"):
        return None
    place = _number(members, "ord")
    return ((number_in(members.get("ts_ms"), "source.ts_ms") or 0) // 1000, place, 0, 0)


def _number(members: Members, name: str) -> int:
    return number_in(members.get(name), f"source.{name}") or 0


def _hex_groups_number(text: str | None, name: str) -> int:
    """Groups of hexadecimal digits (`00000027:00000ac0:0002`) as one number.

    A text without groups is decimal.
    """
    if text is None:
        return 0
    text = text.strip()
    if _HEX_GROUPS.fullmatch(text):
        groups = [group.removeprefix("0x") for group in re.split("[:.]", text)]
        return int(
            "".join(group.rjust(_SHORT if len(group) <= _SHORT else _LONG, "0") for group in groups), 16
        )
    if text.isascii() and text.isdigit() and len(text) <= 80:
        return int(text)
    raise Malformed(Reason.BAD_POSITION, f"source.{name} is no position")


def _hexadecimal(text: str | None, name: str) -> int:
    if text is None:
        return 0
    if _HEX.fullmatch(text) is None:
        raise Malformed(Reason.BAD_POSITION, f"source.{name} is no position")
    return int(text, 16)
