"""How each format's writer tells the changes of a small database: one function a way of writing.

A redelivery is written with another `receipt`: what the writer adds when it sends a message differs then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from tests.silver.changes.connect_writers import (
    arcion,
    bare,
    connect,
    flattened,
    lindorm,
    mysql,
    no_position,
    oracle,
    oracle_rows,
    postgres,
    sql_server,
    ticdc,
)
from tests.silver.changes.small_source import ALL, KEYED, Change, Limits
from tests.silver.changes.written_messages import NOON, Sent, Writer, each, keys_of, native, route_of, text

_STAMP = "2024-02-29T10:00:00"

# DataHub ----------------------------------------------------------------------------------------------------


def blob(change: Change, receipt: int) -> list[Sent]:
    names = {"insert": ("", "INSERT"), "update": ("UPDATE_BEFOR", "UPDATE_AFTER"), "delete": ("DELETE", "")}
    source = {"dbType": "MySQL", "dbName": "shop", "tableName": change.table}
    columns = [{"name": n, "type": "LONG" if n == "id" else "STRING"} for n in change.image]
    schema = {"dataColumn": columns, "primaryKey": keys_of(change) or None, "source": source}
    found = []
    for side, op in zip(("before", "after"), names[change.op], strict=True):
        image = getattr(change, side)
        if image is not None:
            payload = {
                "op": op,
                side: {"dataColumn": native(image)},
                "sequenceId": str(9_990 + change.number),
                "timestamp": {"eventTime": 1000 * (NOON + change.second), "systemTime": receipt},
            }
            value = {"schema": schema, "payload": payload, "version": "1.0.0"}
            found.append(Sent(text(value), route=route_of(change, image)))
    return found


def records(change: Change, receipt: int) -> list[Sent]:
    found = []
    for side in ("before", "after"):
        image = getattr(change, side)
        if image is not None:
            metadata = {
                "_sequence_id_": str(9_990 + change.number),
                "_operation_type_": change.op[0].upper(),
                "_excute_time_": str(1000 * (NOON + change.second)),
                "_source_table_": change.table,
                "_before_image_": "NY"[side == "before"],
                "_after_image_": "NY"[side == "after"],
            }
            found.append(Sent(text({**metadata, **(native(image) or {})}), route=route_of(change, image)))
    return found


# OceanBase OMS ----------------------------------------------------------------------------------------------


def oms_default(change: Change, receipt: int, *, has_sequence: bool, light: bool = False) -> list[Sent]:
    second = NOON + change.second
    more = {"__light_type": {n: {"schemaType": "VARCHAR"} for n in change.image}} if light else {}
    before, after = (image and {**image, **more} for image in map(native, (change.before, change.after)))
    meta = {
        "record_primary_key": "id" if change.table == KEYED else None,
        "record_primary_value": change.image["id"] if change.table == KEYED else None,
        "dbType": "OB_MYSQL",
        "storeDataSequence": int(f"{second}{change.number % 100_000}") if has_sequence else None,
        "table_name": change.table,
        "db": "tenant.shop",
        "timestamp": str(second),
        "checkpoint": str(receipt),
        "uniqueId": str(change.transaction),
    }
    value = {"prevStruct": before, "postStruct": after, "allMetaData": meta, "recordType": change.op.upper()}
    return [Sent(text(value), route=change.table)]


def dataworks(change: Change, receipt: int, *, has_scn: bool) -> list[Sent]:
    source = {"dbType": "ob_mysql", "dbName": "shop", "table": change.table}
    images = {
        side: None if image is None else {"data": native(image)}
        for side, image in (("before", change.before), ("after", change.after))
    }
    payload = {
        **images,
        "op": change.op.upper(),
        "timestamp": {"eventTime": 1000 * (NOON + change.second), "systemTime": receipt},
        "scn": str(change.number) if has_scn else "null",
    }
    columns = [{"name": n, "type": "VARCHAR"} for n in change.image]
    schema = {"source": source, "column": columns, "pk": keys_of(change)}
    return [Sent(text({"version": "2.0", "schema": schema, "payload": payload}), route=change.table)]


def shareplex(change: Change, receipt: int) -> list[Sent]:
    before, after = native(change.before), native(change.after)
    data = after or before or {}
    if before is not None and after is not None:
        data = {name: value for name, value in after.items() if before[name] != value}
    meta = {
        "op": change.op[:3],
        "table": f"shop.{change.table}",
        "rowid": f"shop.{change.table}-{change.image.get('id')}",
        "scn": f"{NOON + change.second}{change.transaction:05d}",
        "seq": change.place,
        "trans": f"t{change.transaction}",
        "time": f"{_STAMP}",
        "posttime": f"2024-02-29T10:00:{receipt % 60:02d}",
    }
    more = {"key": before} if change.op == "update" else {}
    return [Sent(text({"data": data, "meta": meta, **more}), route=route_of(change, change.image))]


def flat_messages(changes: Sequence[Change], receipt: int, *, is_oms: bool) -> list[Sent]:
    """Canal: neighbours of one kind are rows of one message."""
    found = []
    for (table, op), run in groupby(changes, key=lambda change: (change.table, change.op)):
        rows = list(run)
        cells = [native(row.image) if is_oms else dict(row.image) for row in rows]
        old = [
            {n: v for n, v in row.before.items() if row.image[n] != v} if row.before else None for row in rows
        ]
        value = {
            "database": "shop",
            "table": table,
            "type": op.upper(),
            "es": 1000 * (NOON + rows[0].second),
            "ts": receipt,
            "id": receipt,
            "isDdl": False,
            "pkNames": keys_of(rows[0]) or None,
            "mysqlType": {name: "int" if name == "id" else "varchar(9)" for name in rows[0].image},
            "data": cells,
            "old": old if op == "update" else None,
        }
        found.append(Sent(text(value), route=table))
    return found


# Others -----------------------------------------------------------------------------------------------------


def maxwell(change: Change, receipt: int, *, has_position: bool, has_place: bool = True) -> list[Sent]:
    image = native(change.image)
    value = {
        "database": "shop",
        "table": change.table,
        "type": change.op,
        "ts": NOON + change.second,
        "xid": 700 + change.transaction,
        "primary_key_columns": keys_of(change),
        "data": image,
    }
    if has_position:
        value["position"] = f"master.000006:{1000 * change.transaction + change.place // 2}"
    if has_place:
        value |= {"commit": True} if change.is_last else {"xoffset": change.place}
    if change.before is not None and change.after is not None:
        old = native(change.before) or {}
        value["old"] = {name: was for name, was in old.items() if change.before[name] != change.after[name]}
    return [Sent(text(value), route=route_of(change, change.image))]


def ogg(change: Change, receipt: int, *, has_position: bool = True) -> list[Sent]:
    """Compressed updates: unchanged columns are missing; the image before is whole, or only the key."""
    before, after = native(change.before), native(change.after)
    if before is not None and after is not None:
        after = {n: v for n, v in after.items() if n in keys_of(change) or before[n] != v}
        if change.number % 2 and keys_of(change) and not change.is_key_change:
            before = {"id": before["id"]}
    value = {
        "table": f"shop.{change.table}",
        "op_type": change.op[0].upper(),
        "op_ts": f"2024-02-29 {10 + change.second // 3600}:{change.second // 60 % 60:02d}"
        f":{change.second % 60:02d}.000000",
        "current_ts": f"{_STAMP}.{receipt:06d}",
        "primary_keys": keys_of(change),
        "tokens": {"TK-XID": f"x{change.transaction}"},
    }
    value |= {"pos": f"{9_990 + change.number:020d}"} if has_position else {}
    value |= {side: image for side, image in (("before", before), ("after", after)) if image is not None}
    return [Sent(text(value), route=route_of(change, change.image))]


def dms(change: Change, receipt: int, *, has_before: bool) -> list[Sent]:
    """DMS: a message says when it was written, a second delivery another time."""
    committed, image = 1_000 + change.second, native(change.image)
    written = max(committed, 1_000 + receipt)
    metadata = {
        "timestamp": _moment(written),
        "record-type": "data",
        "operation": change.op,
        "partition-key-type": "schema-table",
        "schema-name": "shop",
        "table-name": change.table,
        "transaction-id": change.transaction,
        "transaction-record-id": change.place + 1,
        "commit-timestamp": _moment(committed),
        "stream-position": f"mysql-bin-changelog.000007:{1_000 * change.transaction}",
    }
    value: dict[str, Any] = {"data": image, "metadata": metadata}
    if has_before and change.op == "update":
        old = native(change.before) or {}
        value["before-image"] = {n: v for n, v in old.items() if (image or {})[n] != v}
    return [Sent(text(value), route=change.table)]


def _moment(second: int) -> str:
    return f"2024-02-29T{10 + second // 3600}:{second // 60 % 60:02d}:{second % 60:02d}.000000Z"


_HEARTBEAT = Sent(text({"ts_ms": 1_709_200_800_000}), b"{}")
_BEGIN = {"status": "BEGIN", "id": "9", "event_count": None, "data_collections": None, "ts_ms": 1}
_MARKS = (_HEARTBEAT, Sent(text(_BEGIN), b"{}"))
_BEAT = {"schema": {}, "payload": {"op": "MHEARTBEAT", "timestamp": {"eventTime": 1_709_200_800_000}}}
_OPEN = {
    "schema": {"source": {"dbType": "MySQL", "dbName": "shop"}},
    "payload": {"op": "TRANSACTION_BEGIN", "sequenceId": "9991", "timestamp": {"eventTime": 1}},
}
_BLOB_MARKS = (Sent(text(_BEAT)), Sent(text(_OPEN)))
_OTHER = Sent(
    text({"database": "shop", "table": "other", "type": "insert", "ts": NOON, "xid": 1, "data": {"v": "x"}})
)
_OMS_MARK = {"version": "2.0", "payload": {"timestamp": {"eventTime": 1_709_200_800_000}, "op": "HEARTBEAT"}}
_OMS_BEAT = {"recordType": "HEARTBEAT", "allMetaData": {"timestamp": str(NOON)}}
_CANAL_BEAT = {"type": "MHEARTBEAT", "database": "shop", "es": 1000 * NOON, "isDdl": False, "data": None}
_DMS_BEGIN = {
    "operation": "begin",
    "timestamp": _moment(1_000),
    "commit-timestamp": _moment(1_000),
}
BEATS: dict[str, tuple[Sent, ...]] = {
    "oms_default": (Sent(text(_OMS_BEAT)),),
    "oms_default_extend": (Sent(text(_OMS_BEAT)),),
    "oms_dataworks": (Sent(text(_OMS_MARK)),),
    "oms_canal": (Sent(text(_CANAL_BEAT)),),
    "canal": (Sent(text(_CANAL_BEAT)),),
    "datahub_blob": _BLOB_MARKS,
    "debezium": _MARKS,
    "dms": (Sent(text({"control": {}, "metadata": _DMS_BEGIN})),),
    "arcion": (Sent(b"default", b"default"),),
    "lindorm": (Sent(None, b"{}"),),
    "maxwell": (_OTHER,),
}
"""What may be anywhere between the changes of a format."""
_DISTINCT = Limits(notes="distinct")
_NO_NOTES = Limits(notes="")
_SAME_KEYS = Limits(key_changes=False, notes="")
_INSERTED_NOTES = Limits(note_updates=False)


def _debezium(source: Callable[[Change], dict[str, Any]], limits: Limits, **more: Any) -> Writer:
    is_default = more.pop("is_default", False)
    write = each(partial(connect, source=source, is_default=is_default))
    return Writer("debezium", write, limits, **more)


WRITERS: dict[str, Writer] = {
    "datahub_blob": Writer("datahub_blob", each(blob)),
    "datahub_tuple": Writer("datahub_tuple", each(records)),
    "oms_default": Writer("oms_default", each(partial(oms_default, has_sequence=True)), in_partition=True),
    "oms_default by seconds": Writer(
        "oms_default", each(partial(oms_default, has_sequence=False)), _DISTINCT, in_partition=True
    ),
    "oms_default_extend": Writer(
        "oms_default_extend", each(partial(oms_default, has_sequence=True, light=True)), in_partition=True
    ),
    "oms_canal": Writer("oms_canal", partial(flat_messages, is_oms=True), _DISTINCT, in_partition=True),
    "oms_dataworks": Writer(
        "oms_dataworks",
        each(partial(dataworks, has_scn=True)),
        in_partition=True,
    ),
    "oms_dataworks by time": Writer(
        "oms_dataworks", each(partial(dataworks, has_scn=False)), _DISTINCT, in_partition=True
    ),
    "oms_shareplex": Writer("oms_shareplex", each(shareplex)),
    "oms_shareplex in partitions": Writer(
        "oms_shareplex", each(shareplex), in_partition=True, needs_no_position=True
    ),
    "lindorm": Writer("lindorm", each(lindorm), _SAME_KEYS, in_partition=True),
    "arcion": Writer("arcion", each(arcion)),
    "debezium, mysql": _debezium(mysql, ALL),
    "debezium, postgresql": _debezium(postgres, ALL, is_default=True, pause=_HEARTBEAT),
    "debezium, sql server": _debezium(sql_server, ALL),
    "debezium, oracle": _debezium(oracle_rows, ALL),
    "debezium, oracle by scn": _debezium(oracle, ALL, in_partition=True, pause=_HEARTBEAT),
    "debezium, ticdc": _debezium(ticdc, Limits(is_net=True), in_partition=True, pause=_HEARTBEAT),
    "debezium, flattened": Writer("debezium", each(partial(flattened, source=mysql)), _INSERTED_NOTES),
    "debezium, flattened by time": Writer(
        "debezium", each(partial(flattened, source=no_position)), _NO_NOTES, in_partition=True
    ),
    "debezium, bare": Writer("debezium", each(bare), _NO_NOTES, in_partition=True, needs_no_position=True),
    "canal": Writer("canal", partial(flat_messages, is_oms=False), _DISTINCT, in_partition=True),
    "maxwell": Writer("maxwell", each(partial(maxwell, has_position=True))),
    "maxwell by xid": Writer("maxwell", each(partial(maxwell, has_position=False)), in_partition=True),
    "maxwell without xoffset": Writer(
        "maxwell",
        each(partial(maxwell, has_position=False, has_place=False)),
        in_partition=True,
        pause=_OTHER,
    ),
    "ogg": Writer("ogg", each(ogg)),
    "ogg by time": Writer("ogg", each(partial(ogg, has_position=False)), _NO_NOTES, in_partition=True),
    "dms": Writer("dms", each(partial(dms, has_before=True)), in_partition=True),
    "dms without before images": Writer(
        "dms", each(partial(dms, has_before=False)), _SAME_KEYS, in_partition=True
    ),
}
