"""MariaDB and PostgreSQL under a random workload, each captured by connectors in three styles of messages."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.real.connectors import connector
from tests.real.databases import MariaDb, Postgres
from tests.real.kafka import Broker, Worker
from tests.real.tables import database_row
from tests.real.workload import Table, Workload

PREFIXES = ("m", "mn", "mf", "p", "pn", "pf")


class Captured:
    """Databases whose changes have all been written to the broker, and what the databases hold."""

    def __init__(self, broker: Broker, workloads: dict[str, Workload]) -> None:
        self.broker = broker
        self.workloads = workloads
        self.cells = {
            letter: {t.name: workload.cells(t) for t in workload.tables.values()}
            for letter, workload in workloads.items()
        }

    def rows(self, letter: str, table: Table) -> list[dict[str, Any]]:
        """The rows of a table at the end, as plain values."""
        return [database_row(table.all_columns, cells) for cells in self.cells[letter][table.name]]

    def topics(self, prefix: str) -> list[str]:
        """The topics that one connector writes."""
        return [
            t for t in self.broker.topics() if t.removeprefix("__debezium-heartbeat.").split(".")[0] == prefix
        ]


def capture(
    place: Path,
    jars: str,
    broker: Broker,
    databases: tuple[MariaDb, Postgres],
    *,
    seed: str,
    steps: int,
    body: int,
) -> Captured:
    """Runs the workload while the connectors stream.

    Then stops the worker. The databases and the broker go on: other tests use them.
    """
    mariadb, postgres = databases
    workloads = {
        "m": Workload(mariadb, Random(f"{seed}m"), body_length=body),
        "p": Workload(postgres, Random(f"{seed}p"), body_length=body),
    }
    for workload in workloads.values():
        workload.create()
    connectors = {
        prefix: connector(prefix, workloads[prefix[0]].database, broker.address) for prefix in PREFIXES
    }
    worker = Worker(place / "connect", jars, broker, connectors)
    try:
        worker.start()
        for workload in workloads.values():
            _work(workload, steps)
        _drain(broker, workloads)
        worker.check()
        return Captured(broker, workloads)
    finally:
        worker.stop()


def _work(workload: Workload, steps: int) -> None:
    for _ in range(steps):
        workload.step()
    workload.swap()
    workload.grow()
    workload.clear()
    for _ in range(steps):
        workload.step()


def _drain(broker: Broker, workloads: dict[str, Workload]) -> None:
    """Wait until a last row of each database has come through every connector."""
    for workload in workloads.values():
        workload.insert(workload.tables["cleared"], 1)
    for prefix in PREFIXES:
        middle = "shop" if prefix[0] == "m" else "public"
        last = workloads[prefix[0]].tables["cleared"].rows[-1][0]
        _wait_for(broker, f"{prefix}.{middle}.cleared", int(last))


def _wait_for(broker: Broker, topic: str, key: int) -> None:
    for _ in range(60):
        if topic in broker.topics():
            keys = [json.loads(m["key"]) for m in broker.read([topic]) if m["key"]]
            if any(k.get("payload", k).get("id") == key for k in keys):
                return
    pytest.fail(f"no row {key} in {topic}")
