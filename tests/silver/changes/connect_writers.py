"""How Debezium, Lindorm and Arcion tell the changes of a small database: envelopes of Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.silver.changes.small_source import KEYED, Change, Image
from tests.silver.changes.written_messages import NOON, Sent, keys_of, native, route_of, text

_DEBEZIUM_OPS = {"insert": "c", "update": "u", "delete": "d"}


def key_text(change: Change, image: Image) -> bytes | None:
    return text({"id": int(image["id"] or 0)}) if change.table == KEYED else None


def connect(
    change: Change, receipt: int, *, source: Callable[[Change], dict[str, Any]], is_default: bool = False
) -> list[Sent]:
    """Debezium: a changed key is a delete, its tombstone and a create, with headers that name the other key.

    `is_default`: PostgreSQL's replica identity, under which only the key is known of a row before.
    """
    block = {"db": "shop", "schema": None, "table": change.table, **source(change)}
    block["ts_ms"] = 1000 * (NOON + change.second)
    knows_before = not is_default or change.table != KEYED

    def message(op: str, before: Image | None, after: Image | None, *headers: tuple[str, bytes]) -> Sent:
        old = native(before)
        if old is not None and not knows_before:
            old = None if op == "u" else {n: v if n == "id" else None for n, v in old.items()}
        new = native(after)
        if is_default and new is not None and change.before and change.before.get("w") == new.get("w"):
            new["w"] = "__debezium_unavailable_value"
        value = {"before": old, "after": new, "source": block, "op": op, "ts_ms": receipt}
        image = after or before or {}
        return Sent(text(value), key_text(change, image), headers, route_of(change, image))

    def tombstone(image: Image, *headers: tuple[str, bytes]) -> Sent:
        return Sent(None, key_text(change, image), headers, route_of(change, image))

    before, after = change.before, change.after
    if change.is_key_change and before is not None and after is not None:
        new_key, old_key = key_text(change, after) or b"", key_text(change, before) or b""
        left = ("__debezium.newkey", new_key)
        return [
            message("d", before, None, left),
            tombstone(before, left),
            message("c", None, after, ("__debezium.oldkey", old_key)),
        ]
    sent = [message(_DEBEZIUM_OPS[change.op], before, after)]
    return sent if before is None or after is not None else [*sent, tombstone(before)]


def mysql(change: Change) -> dict[str, Any]:
    place = {"file": "bin.000007", "pos": 1000 * change.transaction, "row": change.place}
    return {"connector": "mysql", "server_id": 5, "gtid": None, "snapshot": "false", **place}


def postgres(change: Change) -> dict[str, Any]:
    place = {"lsn": 24_000_000 + 8 * change.record, "txId": change.transaction}
    return {"connector": "postgresql", "schema": "public", "snapshot": "false", **place}


def sql_server(change: Change) -> dict[str, Any]:
    commit = f"00000027:{change.transaction:08x}:0005"
    serial = 2 if change.op == "update" else 1
    place = {"commit_lsn": commit, "change_lsn": f"00000027:{change.number:08x}:0002"}
    return {"connector": "sqlserver", "schema": "dbo", **place, "event_serial_no": serial}


def oracle(change: Change) -> dict[str, Any]:
    place = {"scn": str(5_000 + change.number), "commit_scn": str(6_000 + 10 * change.transaction)}
    return {"connector": "oracle", "schema": "S", **place, "rs_id": None, "ssn": 0}


def oracle_rows(change: Change) -> dict[str, Any]:
    more = {"scn": str(5_000 + change.transaction), "rs_id": f"0x000001.{change.number:08x}.0010"}
    return {**oracle(change), **more}


def ticdc(change: Change) -> dict[str, Any]:
    commit = 447_984_074_911_121_000 + change.transaction
    return {"connector": "TiCDC", "file": "", "pos": 0, "row": 0, "commit_ts": commit}


def flattened(change: Change, receipt: int, *, source: Callable[[Change], dict[str, Any]]) -> list[Sent]:
    """Debezium without its envelope: no image before; a changed key is a deleted row and a created one."""
    op = _DEBEZIUM_OPS[change.op]
    meta = {f"__{n}": v for n, v in source(change).items() if n in ("file", "pos", "row", "lsn")}
    meta |= {"__table": change.table, "__db": "shop", "__source_ts_ms": 1000 * (NOON + change.second)}

    def message(op: str, image: Image, *headers: tuple[str, bytes]) -> Sent:
        row = {**(native(image) or {}), **meta, "__op": op, "__deleted": str(op == "d").lower()}
        return Sent(text(row), key_text(change, image), headers, route_of(change, image))

    if change.is_key_change and change.before is not None and change.after is not None:
        new_key, old_key = key_text(change, change.after) or b"", key_text(change, change.before) or b""
        left = message("d", change.before, ("__debezium.newkey", new_key))
        return [left, message("c", change.after, ("__debezium.oldkey", old_key))]
    return [message(op, change.image)]


def no_position(change: Change) -> dict[str, Any]:
    return {}


def bare(change: Change, receipt: int) -> list[Sent]:
    """Flink's sink: an envelope without `source`, an update as both images, a changed key as two changes."""
    found = []
    parts = [(change.before, change.after)]
    if change.is_key_change:
        parts = [(change.before, None), (None, change.after)]
    for before, after in parts:
        op = "c" if before is None else "d" if after is None else "u"
        source = {"db": "shop", "table": change.table}
        value = {"before": native(before), "after": native(after), "op": op, "source": source}
        found.append(Sent(text(value), key_text(change, change.image), route=change.table))
    return found


def lindorm(change: Change, receipt: int) -> list[Sent]:
    source: dict[str, object] = {"version": "v2.0", "db": "ld", "namespace": "shop", "table": change.table}
    source["ts_ms"] = 1000 * (NOON + change.second)
    op = _DEBEZIUM_OPS[change.op]
    images = {"before": native(change.before), "after": native(change.after)}
    value = {"schema": {}, "payload": {"op": op, "ts_ms": receipt, **images, "source": source}}
    return [Sent(text(value), key_text(change, change.image), route=change.table)]


def arcion(change: Change, receipt: int) -> list[Sent]:
    """A changed key is a delete and an insert; behind a delete there is the text `default`."""
    source = {"connector": "MYSQL", "db": "shop", "schema": None, "table": change.table, "server_id": "1"}
    source |= {"file": "log-bin.000007", "pos": 1000 * change.transaction, "row": change.place}
    source["ts_ms"] = 1000 * (NOON + change.second)
    parts = [(change.before, change.after)]
    if change.is_key_change:
        parts = [(change.before, None), (None, change.after)]
    found = []
    for before, after in parts:
        op, image = "c" if before is None else "d" if after is None else "u", after or before or {}
        key = text({"schema": {}, "payload": {"id": image["id"]}}) if keys_of(change) else b"default"
        payload = {"op": op, "before": before, "after": after, "source": source, "ts_ms": receipt}
        value = {"schema": {}, "payload": {**payload, "transaction": {"id": ""}}}
        route = route_of(change, image)
        found.append(Sent(text(value), key, route=route))
        found += [Sent(b"default", key, route=route)] if op == "d" else []
    return found
