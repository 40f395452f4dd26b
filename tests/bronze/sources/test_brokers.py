from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from bronze.source import Feed
from bronze.sources import brokers
from bronze.sources.brokers import why_unreachable
from bronze.sources.kafka import KIND
from framework.config.sources import Kafka, Source
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from tests.bronze.conftest import NoOptions


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def closed() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "PAUSES", (0.0,))


def test_one_server_that_accepts_a_connection_is_enough(listener: socket.socket, closed: int) -> None:
    port = listener.getsockname()[1]
    assert why_unreachable(f"127.0.0.1:{closed}, 127.0.0.1:{port}") is None
    assert why_unreachable(f"127.0.0.1:{closed}") == "Connection refused"
    assert why_unreachable("no.such.host.invalid:9092") is not None


def test_a_broker_that_starts_again_is_waited_for(closed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[socket.socket] = []
    monkeypatch.setattr(
        "bronze.sources.brokers.time.sleep",
        lambda _: started.append(socket.create_server(("127.0.0.1", closed))),
    )
    try:
        assert why_unreachable(f"127.0.0.1:{closed}") is None
    finally:
        for server in started:
            server.close()


def test_a_source_whose_broker_is_not_there_fails_at_once(spark: SparkSession, closed: int) -> None:
    kafka = Kafka(bootstrap_servers=f"127.0.0.1:{closed}", topics=("crm.orders",))
    source = Source(name="crm", format="debezium", kafka=kafka, options=NoOptions())
    feed = Feed("shop", Lakehouse("/nowhere"), source, "run-1")
    with pytest.raises(MainstemError, match="KAFKA_UNREACHABLE") as raised:
        KIND.discover(spark, feed, "")
    assert "Connection refused" in raised.value.found
    with socket.create_server(("127.0.0.1", closed)):
        assert not KIND.discover(spark, replace(feed, run_id="run-2"), "").is_idle
