"""Records what the connectors of every set of modes write of one small table (see `modes.py`)."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.real.connectors import STYLES, connector
from tests.real.databases import MariaDb, Postgres
from tests.real.kafka import Broker, Worker
from tests.real.modes import FOLDER, KEYS, LAST, SETS, Modal


def record_modes(place: Path, broker: Broker, databases: Mapping[str, MariaDb | Postgres]) -> None:
    """Record every set in every style, one database after the other."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for letter, database in databases.items():
        modal = Modal(letter, database)
        modal.create()
        connectors = {
            f"{letter}{s}{style}": _connector(letter, s, style, database, broker)
            for s in SETS
            for style in STYLES
        }
        worker = Worker(place / f"connect-{letter}", broker.jars, broker, connectors, heap="1500m")
        try:
            worker.start()
            modal.work()
            for prefix in connectors:
                _wait_for_last(broker, f"{prefix}.{'shop' if letter == 'm' else 'public'}.modes")
            worker.check()
        finally:
            worker.stop()
        _write(broker, modal)


def _connector(
    letter: str, name: str, style: str, database: MariaDb | Postgres, broker: Broker
) -> dict[str, str]:
    given = connector(f"{letter}{name}{style}", database, broker.address, style=style)
    given = {
        **given,
        "heartbeat.interval.ms": "0",
        "provide.transaction.metadata": "false",
        "topic.creation.default.partitions": "1",
    }
    return {**given, **SETS[name].config(letter)}


def _wait_for_last(broker: Broker, topic: str) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if topic in broker.topics():
            keys = [json.loads(m["key"]) for m in broker.read([topic]) if m["key"]]
            if any(k.get("payload", k).get("id") == LAST for k in keys):
                return
    pytest.fail(f"no row {LAST} in {topic}")


def _write(broker: Broker, modal: Modal) -> None:
    for name in SETS:
        topics = [
            t
            for t in broker.topics()
            if t.split(".")[0] in {f"{modal.letter}{name}{style}" for style in STYLES}
        ]
        lines = [json.dumps(message, ensure_ascii=False) for message in broker.read(topics)]
        text = "".join(f"{line}\n" for line in lines)
        (FOLDER / f"{modal.letter}{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    table: dict[str, Any] = {
        "keys": [key.name for key in KEYS],
        "columns": [[c.name, c.declared, c.kind] for c in modal.columns],
        "rows": modal.cells(),
    }
    (FOLDER / f"{modal.letter}.tables.json").write_text(
        json.dumps({"modes": table}, indent=1), encoding="utf-8"
    )
