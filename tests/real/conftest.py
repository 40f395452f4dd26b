"""One broker, MariaDB, PostgreSQL and Connect worker for all tests; each starts when it is needed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.spark.session import local_settings, start_local
from tests.real.capture import Captured, capture
from tests.real.databases import MariaDb, Postgres
from tests.real.kafka import Broker, classpath

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


@pytest.fixture(scope="session")
def captured(place: Path, broker: Broker, mariadb: MariaDb, postgres: Postgres, jars: str) -> Captured:
    """A random workload, captured."""
    print(f"\nMAINSTEM_SEED={SEED}")
    return capture(place, jars, broker, (mariadb, postgres), seed=SEED, steps=40, body=6000)
