"""How vendors write changes, where the demo has no writer for them or one with too few types."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

from tests.end_to_end.random_statements import RandomTable
from tests.framework.demo import wires
from tests.framework.demo.story import Change, Event, Marker, Table
from tests.framework.demo.wires import Wire, line_of

UNAVAILABLE = "__debezium_unavailable_value"
MYSQL = {
    "bigint": "bigint(20)", "unsigned": "bigint(20) unsigned", "string": "varchar(200)",
    "decimal(12,2)": "decimal(12,2)",
    "double": "double", "date": "date", "timestamp": "timestamp(6)", "timestamp_ntz": "datetime(6)",
    "binary": "blob", "int": "int(11)",
}  # fmt: skip


_OPS = {"RENAME": "RENAME", "CREATE": "CREATE", "DROP": "ERASE", "TRUNCATE": "TRUNCATE"}


def _op(marker: Marker) -> str:
    """The name of a statement's kind in the feeds of OceanBase and of Canal."""
    return _OPS.get((marker.text or "").partition(" ")[0], "ALTER")


def blob(event: Event) -> list[str]:
    if not isinstance(event, Marker):
        return wires.datahub_blob(event)
    return [
        line.replace('"op":"ALTER"', f'"op":"{_op(event)}"')
        for line in wires.datahub_blob(replace(event, kind="ddl"))
    ]


def dataworks(event: Event) -> list[str]:
    if not isinstance(event, Marker):
        return wires.oms_dataworks(event)
    assert event.table is not None
    source = {
        "dbType": "ob_mysql",
        "dbVersion": None,
        "dbName": event.table.database,
        "schema": None,
        "table": event.table.name,
    }
    payload = {
        "op": _op(event),
        "timestamp": {"eventTime": event.at},
        "ddl": {"text": event.text},
        "scn": str(event.number),
    }
    return [line_of({"version": "2.0", "schema": {"source": source}, "payload": payload})]


def oms_default(event: Event, write: Wire = wires.oms_default) -> list[str]:
    if not isinstance(event, Marker):
        return write(event)
    assert event.table is not None
    keys = event.table.keys
    blank = Change(
        event.table,
        "insert",
        None,
        dict.fromkeys(keys),
        dict.fromkeys(keys, "string"),
        event.number,
        event.at,
        1,
    )
    record = json.loads(wires.oms_default(blank)[0])
    return [line_of({**record, "recordType": "DDL", "postStruct": {"ddl": event.text}})]


def oms_default_extend(event: Event) -> list[str]:
    return oms_default(event, wires.oms_default_extend)


def time_as_sent(event: Event) -> int:
    """The time in a message: a statement's start, whole seconds, or a clock that was set back for a while.

    The changes of one transaction have one time: without an id of it, nothing else says that rows swap keys.
    """
    draw = Random(event.at)
    started = event.at - draw.choice((0, 0, 0, 1, 700, 9_000))
    stepped = started - (60_000 if event.at // 15_000 % 4 == 3 else 0)
    return stepped // 1000 * 1000 if draw.random() < 0.3 else stepped


def at_odd_times(write: Wire) -> Wire:
    """The same messages, with times that do not rise as the changes do."""
    return lambda event: write(replace(event, at=time_as_sent(event)))


def in_kcat(write: Wire) -> Wire:
    """The same messages at odd times, as `kcat -J` prints them: a partition per table, in source order."""

    def lines(event: Event) -> list[str]:
        assert event.table is not None
        partition = int(
            event.table.name.partition("_as_")[0].rpartition("_")[2]
        )  # a table that gets another name stays there
        place = {
            "topic": "changes",
            "partition": partition,
            "offset": 2 * event.number,
            "tstype": "create",
            "ts": event.at,
            "headers": [],
        }
        return [line_of({**place, "key": None, "payload": line}) for line in at_odd_times(write)(event)]

    return lines


def canal(event: Event) -> list[str]:
    more: dict[str, object] = {
        "id": event.number % 40,
        "gtid": "",
    }  # Canal counts anew in each of its processes
    if isinstance(event, Marker):
        assert event.table is not None
        more |= {"database": event.table.database, "table": event.table.name, "type": _op(event)}
        more |= {
            "es": event.at,
            "isDdl": True,
            "sql": event.text,
            "pkNames": None,
            "mysqlType": None,
            "data": None,
            "old": None,
        }
        return [line_of(more)]
    declared = {
        name: MYSQL["unsigned" if (kind == "bigint" and name.endswith("unsigned")) else kind]
        for name, kind in event.types.items()
    }
    return [
        line_of({"database": event.table.database, **more, **wires._canal(event, declared, _canal_value)})
    ]


def _canal_value(kind: str, text: str) -> object:
    if kind == "timestamp":
        return f"{datetime.fromisoformat(text).astimezone(wires.SHANGHAI):%Y-%m-%d %H:%M:%S.%f}"
    if kind == "binary":
        return base64.b64decode(text).decode("latin-1")
    return text.replace("T", " ") if kind == "timestamp_ntz" else text


def maxwell(event: Event) -> list[str]:
    if isinstance(event, Marker):
        return [_maxwell_statement(event)]
    before, after = (wires._image(row, event.types, wires._native) for row in (event.before, event.after))
    message: dict[str, object] = {
        "database": event.table.database,
        "table": event.table.name,
        "type": event.op,
        "ts": event.at // 1000,
        "xid": event.number,
        "commit": True,
        "position": f"master.000006:{1_000 + 310 * event.number}",
        "primary_key_columns": list(event.table.keys),
        "data": after or before,
    }
    if before is not None and after is not None:
        message["old"] = {
            name: before[name] for name in before if (event.before or {})[name] != (event.after or {})[name]
        }
    return [line_of(message)]


_MAXWELL_TYPES = {"string": "varchar", "boolean": "tinyint"}


def _maxwell_statement(event: Marker) -> str:
    """A statement as the structures before and after it."""
    was = event.table
    assert isinstance(was, RandomTable)
    kind = {"CREATE": "table-create", "DROP": "table-drop"}.get(
        (event.text or "").partition(" ")[0], "table-alter"
    )
    named = {
        "database": was.database,
        "table": was.name,
        "old": _definition(was),
        "def": _definition(was.becomes),
    }
    parts = {"table-create": ("def",), "table-drop": (), "table-alter": ("old", "def")}[kind]
    message = {name: value for name, value in named.items() if name in ("database", "table", *parts)}
    place = {"ts": event.at, "position": f"master.000006:{1_000 + 310 * event.number}"}
    return line_of({"type": kind, **message, **place, "sql": event.text})


def _definition(table: Table | None) -> dict[str, object]:
    assert table is not None
    kinds = {name: kind.partition("(")[0] for name, kind in table.types.items()}
    columns = [{"name": name, "type": _MAXWELL_TYPES.get(kind, kind)} for name, kind in kinds.items()]
    return {
        "database": table.database,
        "table": table.name,
        "primary-key": list(table.keys),
        "columns": columns,
    }


def ogg(event: Event) -> list[str]:
    """Compressed updates: unchanged columns are missing; the before image is whole, or only the key."""
    assert event.table is not None
    message: dict[str, object] = {
        "table": f"{event.table.database}.{event.table.name}",
        "op_type": event.op[0].upper() if isinstance(event, Change) else "T",
        "op_ts": f"{datetime.fromtimestamp(event.at / 1000, wires.SHANGHAI):%Y-%m-%d %H:%M:%S.%f}",
        "pos": f"{4_000 + 100 * event.number:020d}",
        "primary_keys": list(event.table.keys),
        "tokens": {"TK-XID": f"x{event.number}"},
    }
    if isinstance(event, Change):
        before, after = (wires._image(row, event.types, wires._native) for row in (event.before, event.after))
        keys = event.table.keys
        if before is not None and after is not None and event.before and event.after:
            after = {
                name: value
                for name, value in after.items()
                if name in keys or event.before[name] != event.after[name]
            }
            if event.number % 2 and event.table.key_of(event.before) == event.table.key_of(event.after):
                before = {name: before[name] for name in keys}
        message |= {
            side: image for side, image in (("before", before), ("after", after)) if image is not None
        }
    return [line_of(message)]


def dms(event: Event) -> list[str]:
    assert event.table is not None
    moment = f"{datetime.fromtimestamp(event.at / 1000, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    metadata = {
        "timestamp": moment,
        "record-type": "data" if isinstance(event, Change) else "control",
        "operation": event.op if isinstance(event, Change) else "truncate-table",
        "partition-key-type": "schema-table",
        "schema-name": event.table.database,
        "table-name": event.table.name,
        "transaction-id": event.number,
        "transaction-record-id": 1,
        "commit-timestamp": moment,
        "stream-position": f"mysql-bin-changelog.000007:{1_000 + 310 * event.number}",
    }
    if isinstance(event, Marker):
        return [line_of({"control": {}, "metadata": metadata})]
    before, after = (wires._image(row, event.types, wires._native) for row in (event.before, event.after))
    more = {}
    if before is not None and after is not None and event.before and event.after:
        more = {
            "before-image": {name: before[name] for name in before if event.before[name] != event.after[name]}
        }
    return [line_of({"data": after or before, **more, "metadata": metadata})]


def debezium(event: Event) -> list[str]:
    """PostgreSQL's default replica identity: updates have no before image, deletes have only the key.

    Text that did not change stays in its own storage and is not sent. A key change is a delete, its tombstone
    and a create.
    """
    if isinstance(event, Marker):
        return [_connect_truncate(event)]
    keys = event.table.keys
    row = event.after or event.before or {}
    if event.op == "delete":
        row = {name: text if name in keys else None for name, text in row.items()}
    image = wires._image(row, event.types, wires._connect_value) or {}
    if event.op == "update" and event.before is not None and event.number % 2:
        stored = [name for name, kind in event.types.items() if kind == "string" and name not in keys]
        image |= {
            name: UNAVAILABLE
            for name in stored
            if event.before[name] is not None and event.before[name] == row[name]
        }
    if (
        event.before is None
        or event.after is None
        or event.table.key_of(event.before) == event.table.key_of(event.after)
    ):
        op = {"insert": "c", "update": "u", "delete": "d"}[event.op]
        before, after = (image, None) if op == "d" else (None, image)
        line = _connect_line(event, op, before, after)
        return [line, _tombstone(line, 1)] if op == "d" else [line]
    gone = Change(event.table, "delete", event.before, None, event.types, event.number, event.at, 1)
    old, new = (
        wires._image({name: side[name] for name in keys}, event.types, wires._connect_value)
        for side in (event.before, event.after)
    )
    left = _with_header(_connect_line(gone, "d", dict.fromkeys(image) | (old or {}), None), "newkey", new)
    return [left, _tombstone(left, 1), _with_header(_connect_line(event, "c", None, image), "oldkey", old, 2)]


def _connect_line(
    event: Change, op: str, before: dict[str, object] | None, after: dict[str, object] | None
) -> str:
    payload = {
        "op": op,
        "before": before,
        "after": after,
        "source": _source(event),
        "ts_ms": event.at + 8,
        "transaction": None,
    }
    key = wires._key(event, wires._connect_value)
    [line] = wires._kcat(event, key, {"schema": wires._envelope(event), "payload": payload})
    return _placed(line, event)


def _source(event: Event) -> dict[str, object]:
    assert event.table is not None
    place = {
        "connector": "postgresql",
        "db": event.table.database,
        "schema": "public",
        "table": event.table.name,
        "snapshot": "false",
    }
    return {**place, "txId": event.number, "lsn": 24_000_000 + 8 * event.number, "ts_ms": event.at}


def _connect_truncate(event: Marker) -> str:
    assert event.table is not None
    payload = {
        "op": "t",
        "before": None,
        "after": None,
        "source": _source(event),
        "ts_ms": event.at + 8,
        "transaction": None,
    }
    place = {
        "topic": f"{event.table.database}.{event.table.name}",
        "partition": 0,
        "tstype": "create",
        "ts": event.at,
        "headers": [],
    }
    return _placed(
        line_of({**place, "key": None, "payload": line_of({"schema": None, "payload": payload})}), event
    )


def _placed(line: str, event: Event) -> str:
    """The line at an offset of its own: an event has three at most."""
    return line_of({**json.loads(line), "offset": 3 * event.number})


def _with_header(line: str, name: str, key: object, offset: int = 0) -> str:
    message = json.loads(line)
    return line_of(
        {**message, "offset": message["offset"] + offset, "headers": [f"__debezium.{name}", line_of(key)]}
    )


def _tombstone(line: str, offset: int) -> str:
    message = json.loads(line)
    return line_of({**message, "payload": None, "offset": message["offset"] + offset})
