"""Debezium's connectors as users set them up, and the pipelines that read what they write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.real.databases import LOCAL, MariaDb, Postgres
from tests.real.workload import Workload

FLAT = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.flat.replace.null.with.default": "false",
    "transforms.flat.delete.tombstone.handling.mode": "rewrite",
}
FLAT_FIELDS = {
    "m": "op,db,table,source.ts_ms,source.file,source.pos,source.row",
    "p": "op,db,schema,table,source.ts_ms,source.lsn",
}
STYLES = {"": (True, False), "n": (False, False), "f": (True, True), "g": (False, True)}
"""The second letter of a prefix: with a schema block or not, flattened or not."""


def connector(
    prefix: str, database: MariaDb | Postgres, broker: str, style: str | None = None
) -> dict[str, str]:
    """The configuration of a connector.

    Its prefix names the database (m, p) and, without `style`, the style.
    """
    has_schema, is_flat = STYLES[prefix[1:] if style is None else style]
    given = {
        "topic.prefix": prefix,
        "database.hostname": LOCAL,
        "database.port": str(database.port),
        "skipped.operations": "none",
        "heartbeat.interval.ms": "1000",
        "provide.transaction.metadata": "true",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.replace.null.with.default": "false",
        "key.converter.schemas.enable": str(has_schema).lower(),
        "value.converter.schemas.enable": str(has_schema).lower(),
        "poll.interval.ms": "50",
    }
    if is_flat:
        is_row = {
            "predicates": "row",
            "predicates.row.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        }
        pattern = {
            "predicates.row.pattern": rf"{prefix}\.(shop|public)\..*",
            "transforms.flat.predicate": "row",
        }
        given |= {**FLAT, **is_row, **pattern, "transforms.flat.add.fields": FLAT_FIELDS[prefix[0]]}
    if isinstance(database, MariaDb):
        return given | {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.user": "root",
            "database.password": "",
            "database.server.id": str(5000 + int.from_bytes(prefix.encode(), "big")),
            "database.include.list": "shop",
            "driver.yearIsDateType": "false",
            "schema.history.internal.kafka.bootstrap.servers": broker,
            "schema.history.internal.kafka.topic": f"history-{prefix}",
        }
    return given | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "shop",
        "slot.name": prefix,
        "publication.name": prefix,
        "publication.autocreate.mode": "all_tables",
    }


def table_rules(prefix: str, workload: Workload) -> list[dict[str, Any]]:
    """The columns to configure; none where messages or a topic of schema changes describe them."""
    has_schema, _ = STYLES[prefix[1:]]
    if has_schema or prefix[0] == "m":
        return []
    rules = []
    for table in workload.tables.values():
        hints = {c.name: dict(c.hint) for c in table.columns if c.hint}
        if hints:
            rules.append({"match": f"shop.public.{table.name}", "columns": hints})
    return rules


def pipeline(folder: Path, prefix: str, broker: str, rules: list[dict[str, Any]], **kafka: str) -> Path:
    """The configuration of a pipeline that reads all topics of a connector."""
    source: Mapping[str, Any] = {
        "format": "debezium",
        "kafka": {
            "bootstrap_servers": broker,
            "topic_pattern": rf"(__debezium-heartbeat\.)?{prefix}(\..*)?",
            "kafka.metadata.max.age.ms": "1000",
            **kafka,
        },
    }
    if STYLES[prefix[1:]][1]:
        source = {**source, "database": "shop"}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "mainstem.yml"
    file.write_text(
        yaml.safe_dump(
            {"pipeline": "real", "lakehouse": "./lakehouse", "sources": {"feed": source}, "tables": rules}
        )
    )
    return file
