"""How each vendor writes the demo's changes: one function a format, from an event to the lines of its feed.

The shapes are those of the samples in the vendors' documents. A line is a message's value, or for feeds whose
messages have keys the object that `kcat -J` prints.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Raw

from tests.framework.demo.story import Change, Event, Marker, Row

SHANGHAI = ZoneInfo("Asia/Shanghai")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "double")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Wire = Callable[[Event], list[str]]
_Written = dict[str, object]


def line_of(value: object) -> str:
    """Compact JSON, Unicode as it is, numbers with the digits that they were given."""
    return msgspec.json.encode(value).decode()


def _number(text: str) -> Raw:
    return Raw(text.encode())


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _milliseconds(text: str) -> int:
    return (_instant(text) - _EPOCH) // timedelta(milliseconds=1)


def _seconds(text: str) -> str:
    micros = (_instant(text) - _EPOCH) // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    return f"{sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06d}"


def _local(at: int) -> datetime:
    return datetime.fromtimestamp(at // 1000, SHANGHAI)


def _image(row: Row | None, types: Mapping[str, str], value: Callable[[str, str], object]) -> _Written | None:
    if row is None:
        return None
    return {name: None if text is None else value(types[name], text) for name, text in row.items()}


def _native(kind: str, text: str) -> object:
    """Numbers and booleans as JSON has them, everything else as its text."""
    if kind == "boolean":
        return text == "true"
    return _number(text) if kind in _NUMBERS or kind.startswith("decimal") else text


# DataHub ----------------------------------------------------------------------------------------------------

_BLOB_TYPES = {
    "bigint": "LONG",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "DATE",
    "binary": "BYTES",
}
_BLOB_OPS = {
    "begin": "TRANSACTION_BEGIN",
    "end": "TRANSACTION_END",
    "heartbeat": "MHEARTBEAT",
    "ddl": "ALTER",
}


def datahub_blob(event: Event) -> list[str]:
    stamp = {"eventTime": event.at, "systemTime": event.at + 180}
    if isinstance(event, Marker):
        sequence = {} if event.kind == "heartbeat" else {"sequenceId": _sequence(event)}
        payload: _Written = {"op": _BLOB_OPS[event.kind], **sequence, "timestamp": stamp}
        schema: _Written = (
            {}
            if event.kind == "heartbeat"
            else {"source": {"dbType": "MySQL", "dbVersion": "8.0.32", "dbName": "shop"}}
        )
        if event.table is not None:
            schema["source"] = _blob_source(event.table.name)
            payload["ddl"] = {"text": event.text, "ddlMeta": base64.b64encode(b"never deserialized").decode()}
        return [line_of({"schema": schema, "payload": payload, "version": "1.0.0"})]
    columns = [{"name": name, "type": _BLOB_TYPES.get(kind, "STRING")} for name, kind in event.types.items()]
    schema = {
        "dataColumn": columns,
        "primaryKey": list(event.table.keys),
        "source": _blob_source(event.table.name),
    }
    before, after = (_image(row, event.types, _blob_value) for row in (event.before, event.after))
    ops: dict[str, list[tuple[str, _Written | None, _Written | None]]] = {
        "insert": [("INSERT", None, after)],
        "update": [("UPDATE_BEFOR", before, None), ("UPDATE_AFTER", None, after)],
        "delete": [("DELETE", before, None)],
    }
    return [
        line_of(
            {
                "schema": schema,
                "payload": {
                    "op": op,
                    "before": None if old is None else {"dataColumn": old},
                    "after": None if new is None else {"dataColumn": new},
                    "sequenceId": _sequence(event),
                    "timestamp": stamp,
                },
                "version": "1.0.0",
            }
        )
        for op, old, new in ops[event.op]
    ]


def _sequence(event: Event) -> str:
    return f"{event.at // 1000}{event.number:09d}"


def _blob_source(table: str) -> dict[str, str]:
    return {"dbType": "MySQL", "dbVersion": "8.0.32", "dbName": "shop", "tableName": table}


def _blob_value(kind: str, text: str) -> object:
    if kind == "timestamp":
        return _milliseconds(text)
    return text if kind.startswith("decimal") else _native(kind, text)


def datahub_tuple(event: Event) -> list[str]:
    assert isinstance(event, Change)
    before, after = (_image(row, event.types, _native) for row in (event.before, event.after))
    lines = []
    for image, flag in ((before, "before"), (after, "after")):
        if image is not None:
            metadata = {
                "_sequence_id_": _sequence(event),
                "_operation_type_": event.op[0].upper(),
                "_excute_time_": str(event.at),
                "_source_table_": event.table.name,
                "_before_image_": "Y" if flag == "before" else "N",
                "_after_image_": "Y" if flag == "after" else "N",
            }
            lines.append(line_of({**metadata, **image}))
    return lines


# OceanBase OMS ----------------------------------------------------------------------------------------------


def oms_canal(event: Event) -> list[str]:
    assert isinstance(event, Change)
    types = {"bigint": "int64", "string": "varchar", "timestamp": "timestamp"}
    declared = {name: types.get(kind, "decimal") for name, kind in event.types.items()}
    return [line_of({"database": event.table.database, **_canal(event, declared, _oms_value)})]


def _oms_value(kind: str, text: str) -> object:
    return _seconds(text) if kind == "timestamp" else _native(kind, text)


def _canal(event: Change, declared: Mapping[str, str], value: Callable[[str, str], object]) -> _Written:
    row = event.after or event.before
    image = _image(row, event.types, value)
    old = None
    if event.op == "update" and event.before is not None and event.after is not None:
        before = _image(event.before, event.types, value) or {}
        old = [{name: before[name] for name, text in event.before.items() if event.after[name] != text}]
    return {
        "table": event.table.name,
        "type": event.op.upper(),
        "es": event.at,
        "ts": event.at + 250,
        "isDdl": False,
        "sql": "",
        "pkNames": list(event.table.keys),
        "mysqlType": declared,
        "data": [image],
        "old": old,
    }


def oms_shareplex(event: Event) -> list[str]:
    assert isinstance(event, Change)
    before, after = (_image(row, event.types, _native) for row in (event.before, event.after))
    data, name = after or before or {}, f"{event.table.database}.{event.table.name}"
    if event.op == "update" and event.before is not None and event.after is not None:
        data = {column: data[column] for column, text in event.after.items() if event.before[column] != text}
    row = event.after or event.before or {}
    values = "\x01".join(str(text) for text in event.table.key_of(row))
    time = f"{_local(event.at):%Y-%m-%dT%H:%M:%S}"
    meta = {
        "op": event.op[:3],
        "table": name,
        "rowid": f"{name}-{values}",
        "scn": f"{event.at // 1000}{event.number:05d}",
        "seq": 1,
        "idx": "1/1",
        "trans": f"tx-{event.number}",
        "time": time,
        "posttime": time,
        "size": 1,
    }
    return [line_of({"data": data, "meta": meta, **({"key": before} if event.op == "update" else {})})]


def oms_default(event: Event) -> list[str]:
    assert isinstance(event, Change)
    return [
        line_of(_default(event, *(_image(row, event.types, _native) for row in (event.before, event.after))))
    ]


_LIGHT_TYPES = {
    "string": "VARCHAR",
    "int": "INT",
    "bigint": "INT64",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp_ntz": "DATETIME",
}


def oms_default_extend(event: Event) -> list[str]:
    assert isinstance(event, Change)
    light = {name: {"schemaType": _LIGHT_TYPES.get(kind, "DECIMAL")} for name, kind in event.types.items()}
    images = []
    for row in (event.before, event.after):
        image = _image(row, event.types, _oms_wall)
        images.append(None if image is None else {**image, "__light_type": light})
    return [line_of(_default(event, *images))]


def _oms_wall(kind: str, text: str) -> object:
    return text.replace("T", " ") if kind == "timestamp_ntz" else _native(kind, text)


def _default(event: Change, before: _Written | None, after: _Written | None) -> _Written:
    row = event.before or event.after or {}
    return {
        "prevStruct": before,
        "postStruct": after,
        "allMetaData": {
            "checkpoint": str(event.at // 1000),
            "record_primary_key": "\x01".join(event.table.keys),
            "record_primary_value": "\x01".join(str(text) for text in event.table.key_of(row)),
            "source_identity": "OB_MYSQL_demo_1-1-0",
            "dbType": "OB_MYSQL",
            "storeDataSequence": int(f"{event.at // 1000}{event.number:05d}"),
            "table_name": event.table.name,
            "db": f"demo.{event.table.database}",
            "timestamp": str(event.at // 1000),
            "uniqueId": f"{event.number:08d}",
        },
        "recordType": event.op.upper(),
    }


def oms_dataworks(event: Event) -> list[str]:
    if isinstance(event, Marker):
        return [
            line_of({"version": "2.0", "payload": {"timestamp": {"eventTime": event.at}, "op": "HEARTBEAT"}})
        ]
    before, after = (_image(row, event.types, _oms_wall) for row in (event.before, event.after))
    source = {
        "dbType": "ob_mysql",
        "dbVersion": None,
        "dbName": event.table.database,
        "schema": None,
        "table": event.table.name,
    }
    columns = [
        {"name": name, "type": _LIGHT_TYPES.get(kind, "DECIMAL")} for name, kind in event.types.items()
    ]
    payload = {
        "before": None if before is None else {"data": before},
        "after": None if after is None else {"data": after},
        "op": event.op.upper(),
        "timestamp": {
            "eventTime": event.at,
            "systemTime": event.at + 795,
            "checkpointTime": event.at // 1000,
        },
        "ddl": None,
        "scn": str(event.number),
    }
    schema = {"source": source, "column": columns, "pk": list(event.table.keys)}
    return [line_of({"version": "2.0", "schema": schema, "payload": payload, "extend": {"load_fm": "demo"}})]


# Kafka Connect envelopes ------------------------------------------------------------------------------------

_CONNECT_TYPES: dict[str, _Written] = {
    "int": {"type": "int32"},
    "bigint": {"type": "int64"},
    "double": {"type": "double"},
    "string": {"type": "string"},
    "date": {"type": "int32", "name": "io.debezium.time.Date"},
    "timestamp_ntz": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
}


_CONNECT_OPS = {"insert": "c", "update": "u", "delete": "d", "read": "r"}


def lindorm(event: Event) -> list[str]:
    """A column that is null has no cell: left out of `after`, it was deleted."""
    assert isinstance(event, Change)
    before, after = (_image(row, event.types, _connect_value) for row in (event.before, event.after))
    before, after = _without_nulls(before), _without_nulls(after)
    source = {
        "version": "v2.0",
        "db": "ld-demo",
        "namespace": event.table.database,
        "table": event.table.name,
        "ts_ms": event.at,
    }
    payload = {
        "op": event.op[0].replace("i", "c"),
        "ts_ms": event.at + 8,
        "before": before,
        "after": after,
        "source": source,
    }
    return _kcat(event, _key(event, _connect_value), {"schema": _envelope(event), "payload": payload})


def _without_nulls(image: _Written | None) -> _Written | None:
    return None if image is None else {name: value for name, value in image.items() if value is not None}


def arcion(event: Event) -> list[str]:
    """Every value is text, a snapshot row has no position, and a delete is followed by a tombstone."""
    assert isinstance(event, Change)
    before, after = (_image(row, event.types, lambda kind, text: text) for row in (event.before, event.after))
    is_snapshot = event.op == "read"
    source = {
        "connector": "MYSQL",
        "db": event.table.database,
        "schema": None,
        "table": event.table.name,
        "snapshot": "true" if is_snapshot else "false",
        "server_id": None if is_snapshot else "1",
        "file": None if is_snapshot else "log-bin.000007",
        "pos": None if is_snapshot else 1_000 + 310 * event.number,
        "row": 1,
        "ts_ms": None if is_snapshot else event.at,
    }
    payload = {"before": before, "after": after, "source": source}
    more = {"ts_ms": event.at + 40, "transaction": {"id": ""}}
    return _connect_lines(event, _key(event, lambda kind, text: text), payload, more, "default")


def debezium(event: Event) -> list[str]:
    """MySQL through Kafka Connect, with schemas; the statements are in a topic that is not read here."""
    if isinstance(event, Marker):
        return []
    before, after = (_image(row, event.types, _connect_value) for row in (event.before, event.after))
    source = {
        "version": "3.5.0.Final",
        "connector": "mysql",
        "name": "demo",
        "ts_ms": event.at,
        "snapshot": "true" if event.op == "read" else "false",
        "db": event.table.database,
        "table": event.table.name,
        "server_id": 223344,
        "gtid": None,
        "file": "binlog.000003",
        "pos": 157 + 327 * event.number,
        "row": 0,
    }
    payload = {"before": before, "after": after, "source": source}
    more = {"ts_ms": event.at + 120, "transaction": None}
    return _connect_lines(event, _key(event, _connect_value), payload, more)


def _connect_lines(
    event: Change, key: _Written, payload: _Written, more: _Written, tombstone: str | None = None
) -> list[str]:
    """The message of a change, and behind that of a delete its tombstone."""
    value = {"schema": _envelope(event), "payload": {**payload, "op": _CONNECT_OPS[event.op], **more}}
    lines = _kcat(event, key, value)
    return lines + _kcat(event, key, tombstone, offset=1) if event.op == "delete" else lines


def _key(event: Change, value: Callable[[str, str], object]) -> _Written:
    row = event.after or event.before or {}
    fields = [
        {"field": name, "optional": False, **_connect_type(event.types[name])} for name in event.table.keys
    ]
    image = _image({name: row[name] for name in event.table.keys}, event.types, value)
    return {"schema": {"type": "struct", "fields": fields, "optional": False}, "payload": image}


def _envelope(event: Change) -> _Written:
    fields = [
        {"field": name, "optional": name not in event.table.keys, **_connect_type(kind)}
        for name, kind in event.types.items()
    ]
    sides = [
        {"field": side, "type": "struct", "optional": True, "fields": fields} for side in ("before", "after")
    ]
    return {"type": "struct", "optional": False, "fields": sides}


def _connect_type(kind: str) -> _Written:
    if not kind.startswith("decimal"):
        return _CONNECT_TYPES[kind]
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
    parameters = {"scale": scale, "connect.decimal.precision": precision}
    return {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": parameters,
    }


def _connect_value(kind: str, text: str) -> object:
    if kind.startswith("decimal"):
        unscaled = int(Decimal(text).scaleb(int(kind.rpartition(",")[2].removesuffix(")"))))
        return base64.b64encode(
            unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        ).decode()
    if kind == "date":
        return (date.fromisoformat(text) - date(1970, 1, 1)).days
    if kind == "timestamp_ntz":
        return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    return _native(kind, text)


def _kcat(event: Change, key: _Written, value: _Written | str | None, offset: int = 0) -> list[str]:
    payload = line_of(value) if isinstance(value, dict) else value
    place = {
        "topic": f"{event.table.database}.{event.table.name}",
        "partition": 0,
        "offset": 2 * event.number + offset,
    }
    return [
        line_of(
            {
                **place,
                "tstype": "create",
                "ts": event.at + 900,
                "broker": 0,
                "headers": [],
                "key": line_of(key),
                "payload": payload,
            }
        )
    ]


# Canal ------------------------------------------------------------------------------------------------------

_STARS = ("poor", "fair", "good")


def canal(event: Event) -> list[str]:
    assert isinstance(event, Change)
    declared = {
        "id": "bigint(20) unsigned",
        "sku": "varchar(40)",
        "stars": "enum('poor','fair','good')",
        "score": "decimal(4,2)",
        "text": "varchar(500)",
        "written_at": "timestamp",
    }
    return [
        line_of(
            {
                "database": event.table.database,
                "id": event.number,
                "gtid": "",
                **_canal(event, declared, _canal_value),
            }
        )
    ]


def _canal_value(kind: str, text: str) -> object:
    if kind == "timestamp":
        return f"{_instant(text).astimezone(SHANGHAI):%Y-%m-%d %H:%M:%S}"
    return str(_STARS.index(text) + 1) if text in _STARS else text


WIRES: dict[str, tuple[str, Wire]] = {
    "shop": ("datahub_blob", datahub_blob),
    "prices": ("datahub_tuple", datahub_tuple),
    "payments": ("oms_canal", oms_canal),
    "invoices": ("oms_shareplex", oms_shareplex),
    "accounts": ("oms_default", oms_default),
    "bookings": ("oms_default_extend", oms_default_extend),
    "stock": ("oms_dataworks", oms_dataworks),
    "parcels": ("lindorm", lindorm),
    "regions": ("arcion", arcion),
    "staff": ("debezium", debezium),
    "reviews": ("canal", canal),
}
"""Feed → its format and writer."""
