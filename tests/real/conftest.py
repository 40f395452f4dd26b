"""One broker, one MariaDB, one PostgreSQL and one Connect worker for all tests that need them; each starts when it is asked for."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from framework.session import local_settings, start_local
from tests.real.connectors import connector
from tests.real.databases import MariaDb, Postgres
from tests.real.kafka import Broker, Worker, classpath
from tests.real.workload import Workload

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with Kafka's connector."""
    session = start_local(local_settings("real", cores=2) | {"spark.sql.shuffle.partitions": "2"}, kafka=True)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that servers of other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="mainstem-real-"))
    folder.chmod(0o755)
    yield folder
    if not os.environ.get("MAINSTEM_KEEP"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def jars() -> str:
    return classpath()


@pytest.fixture(scope="session")
def broker(place: Path, jars: str) -> Iterator[Broker]:
    server = Broker(place / "broker", jars)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def mariadb(place: Path) -> Iterator[MariaDb]:
    server = MariaDb(place / "mariadb")
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres(place: Path) -> Iterator[Postgres]:
    server = Postgres(place / "postgres")
    try:
        yield server.start()
    finally:
        server.stop()


class Captured:
    """Two databases whose changes have all been written to the broker, by six connectors, and what the databases hold."""

    def __init__(self, broker: Broker, workloads: dict[str, Workload]) -> None:
        self.broker = broker
        self.workloads = workloads
        self.dumps = {letter: workload.dump() for letter, workload in workloads.items()}


PREFIXES = ("m", "mn", "mf", "p", "pn", "pf")


@pytest.fixture(scope="session")
def captured(place: Path, broker: Broker, mariadb: MariaDb, postgres: Postgres, jars: str) -> Captured:
    """The workload, run while the connectors stream; the databases and the worker are stopped then, the broker stays."""
    print(f"\nMAINSTEM_SEED={SEED}")
    workloads = {"m": Workload(mariadb, Random(f"{SEED}m")), "p": Workload(postgres, Random(f"{SEED}p"))}
    for workload in workloads.values():
        workload.create()
    databases: dict[str, MariaDb | Postgres] = {"m": mariadb, "p": postgres}
    connectors = {prefix: connector(prefix, databases[prefix[0]], broker.address) for prefix in PREFIXES}
    worker = Worker(place / "connect", jars, broker, connectors)
    try:
        worker.start()
        for workload in workloads.values():
            _work(workload)
        _drain(broker, workloads)
        worker.check()
        found = Captured(broker, workloads)
    finally:
        worker.stop()
        mariadb.stop()
        postgres.stop()
    return found


def _work(workload: Workload) -> None:
    for _ in range(40):
        workload.step()
    workload.swap()
    workload.grow()
    workload.clear()
    for _ in range(40):
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
