"""A Kafka broker, and Debezium's connectors in a Connect worker, out of Maven's artifacts."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from framework.spark.jars import cache_folder
from tests.real.processes import Server, free_ports, program, start, wait_until

ARTIFACTS = (
    "org.apache.kafka:kafka_2.13:4.1.2",
    "org.apache.kafka:connect-runtime:4.1.2",
    "org.apache.kafka:connect-json:4.1.2",
    "org.apache.kafka:connect-transforms:4.1.2",
    "io.debezium:debezium-connector-mariadb:3.5.0.Final",
    "io.debezium:debezium-connector-postgres:3.5.0.Final",
    "org.slf4j:slf4j-simple:1.7.36",
)
LOCAL = "127.0.0.1"


def classpath() -> str:
    """All jars of the broker and the connectors, from Maven Central or where an earlier test has put them."""
    names = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *a.split(":")
        )
        for a in ARTIFACTS
    )
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>'
        f"<artifactId>real</artifactId><version>1</version><packaging>pom</packaging><dependencies>{names}</dependencies></project>"
    )
    folder = cache_folder() / "real" / hashlib.blake2b(pom.encode(), digest_size=8).hexdigest()
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(pom)
        command = [
            program("mvn"),
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=lib",
        ]
        subprocess.run(command, cwd=folder, check=True)
        (folder / "complete").touch()
    return f"{folder / 'lib'}/*"


@dataclass
class Broker:
    """One node as broker and controller; `folder` keeps its data, so that it can be restarted."""

    folder: Path
    jars: str
    ports: list[int] = field(default_factory=lambda: free_ports(2))
    server: Server | None = None

    @property
    def address(self) -> str:
        return f"{LOCAL}:{self.ports[0]}"

    def start(self) -> Broker:
        """Listen; formats the folder the first time."""
        settings = self.folder / "kafka.properties"
        if not settings.exists():
            self.folder.mkdir(parents=True)
            settings.write_text(self._properties())
            name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            command = [
                "java",
                "-cp",
                self.jars,
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={name}",  # it may begin with a dash
                "-c",
                str(settings),
            ]
            subprocess.run(command, check=True, capture_output=True)
        command = [
            "java",
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            self.jars,
            "kafka.Kafka",
            str(settings),
        ]
        log = self.folder / f"log-{time.monotonic_ns()}"
        self.server = start(command, log)
        wait_until(
            lambda: "Kafka Server started" in log.read_text(errors="replace"), self.server, "the broker"
        )
        return self

    def _properties(self) -> str:
        first, second = self.ports
        given = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOCAL}:{second}",
            "listeners": f"PLAINTEXT://{LOCAL}:{first},CONTROLLER://{LOCAL}:{second}",
            "advertised.listeners": f"PLAINTEXT://{LOCAL}:{first}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": "3",
            "log.cleaner.backoff.ms": "200",
            "log.retention.check.interval.ms": "300",
            "log.segment.delete.delay.ms": "100",
            "group.initial.rebalance.delay.ms": "0",
            **{
                f"{topic}.replication.factor": "1"
                for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
            },
            **{
                f"{topic}.min.isr": "1"
                for topic in ("transaction.state.log", "share.coordinator.state.topic")
            },
        }
        return "".join(f"{key}={value}\n" for key, value in given.items())

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """A new topic; dots in the names of settings are written as underscores."""
        new = NewTopic(
            topic, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()}
        )
        admin = self.admin()
        admin.create_topics([new])[topic].result(30)

    def drop(self, topic: str) -> None:
        """Delete a topic, and wait until the broker has forgotten it."""
        assert self.server is not None
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in self.topics(), self.server, "the topic to go")

    def add_partitions(self, topic: str, total: int) -> None:
        """More partitions for a topic."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)

    def forget(self, topic: str, before: int) -> None:
        """Remove the messages of partition 0 before an offset, as retention does."""
        admin, place = self.admin(), TopicPartition(topic, 0, before)
        admin.delete_records([place])[place].result(30)

    def admin(self) -> AdminClient:
        """A client that the caller keeps until its answers are there."""
        return AdminClient({"bootstrap.servers": self.address})

    def produce(
        self,
        topic: str,
        messages: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
        timestamp: int = 0,
    ) -> None:
        """Messages as (partition, key, value, headers), acknowledged; `timestamp` 0 is the time of now."""
        producer = Producer({"bootstrap.servers": self.address, "acks": "all", "linger.ms": 5})
        for partition, key, value, headers in messages:
            producer.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                headers=list(headers),
                timestamp=timestamp,
            )
        assert producer.flush(60) == 0

    def topics(self) -> list[str]:
        return sorted(self.admin().list_topics(timeout=30).topics)

    def ends(self, topic: str) -> dict[int, tuple[int, int]]:
        """First and next offset of each partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "ends"})
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            return {p: _watermarks(consumer, topic, p) for p in partitions}
        finally:
            consumer.close()

    def read(self, topics: list[str]) -> Iterator[dict[str, Any]]:
        """Every message of the topics as `kcat -J` prints it."""
        consumer = Consumer(
            {"bootstrap.servers": self.address, "group.id": "read", "enable.partition.eof": True}
        )
        places = [
            TopicPartition(t, p, low) for t in topics for p, (low, high) in self.ends(t).items() if high > low
        ]
        consumer.assign(places)
        open_places = {(place.topic, place.partition) for place in places}
        try:
            while open_places:
                message = consumer.poll(30)
                assert message is not None
                if message.error():
                    open_places.discard((message.topic(), message.partition()))
                    continue
                kind, stamp = message.timestamp()
                value, key = message.value(), message.key()
                yield {
                    "topic": message.topic(),
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "tstype": "create" if kind == 1 else "logappend",
                    "ts": stamp,
                    "broker": 1,
                    **({"headers": _flat(message.headers())} if message.headers() else {}),
                    "key": None if key is None else key.decode(),
                    "payload": None if value is None else value.decode(),
                }
        finally:
            consumer.close()


def _flat(headers: list[tuple[str, bytes | None]]) -> list[str | None]:
    return [part for name, value in headers for part in (name, None if value is None else value.decode())]


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    for _ in range(50):
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            return low, high
        except KafkaException:
            time.sleep(0.2)  # a new topic has no leader for a moment
    pytest.fail(f"no watermarks of {topic}")


@dataclass
class Worker:
    """A Connect worker of its own process, with connectors given by name."""

    folder: Path
    jars: str
    broker: Broker
    connectors: Mapping[str, Mapping[str, str]]
    heap: str = "700m"
    port: int = field(default_factory=lambda: free_ports(1)[0])
    server: Server | None = None

    def start(self) -> Worker:
        """Start it and wait until every task runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "worker.properties"
        given = {
            "bootstrap.servers": self.broker.address,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"http://{LOCAL}:{self.port}",
            "plugin.discovery": "service_load",
        }
        settings.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        files = []
        for name, config in self.connectors.items():
            file = self.folder / f"{name}.json"
            file.write_text(json.dumps({"name": name, "config": {"name": name, **config}}))
            files.append(str(file))
        java = ["java", f"-Xmx{self.heap}", "-XX:TieredStopAtLevel=1", "-cp", self.jars]
        command = [*java, "org.apache.kafka.connect.cli.ConnectStandalone", str(settings), *files]
        self.server = start(command, self.folder / "log", env={"TZ": "UTC"})
        wait_until(self._runs, self.server, "the connectors", 180)
        return self

    def _runs(self) -> bool:
        status = self._status()
        tasks = [
            task
            for name in self.connectors
            for task in status.get(name, {}).get("status", {}).get("tasks", ())
        ]
        failed = next((task["trace"] for task in tasks if task["state"] == "FAILED"), None)
        if failed:
            pytest.fail(f"a connector failed: {failed[:3000]}", pytrace=False)
        return len(tasks) == len(self.connectors) and all(task["state"] == "RUNNING" for task in tasks)

    def check(self) -> None:
        """Fail where a task has failed."""
        assert self._runs()

    def _status(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(
                f"http://{LOCAL}:{self.port}/connectors?expand=status", timeout=5
            ) as answer:
                found = json.load(answer)
                return found if isinstance(found, dict) else {}
        except (OSError, urllib.error.URLError, ValueError):
            return {}

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop(30)


def java_is_there() -> bool:
    return any(
        os.access(Path(folder) / "java", os.X_OK) for folder in os.environ.get("PATH", "").split(os.pathsep)
    )
