"""Hostile sources of every format beside a healthy one: each message has an outcome, within bounds.

A hostile source may stop: its positions start again somewhere, and only a person can say what that means.
Then the messages before that place have outcomes, and those behind it wait, until `epoch` is raised.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.config.model import load_config
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import LayerReport, Run
from gold.layer import LAYER as GOLD
from silver.epochs.history import read_history
from silver.formats import FORMATS
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import item, message
from tests.processes import cpu_of, memory_of
from tests.silver.formats.test_hostile import SEED, cases
from tests.silver.formats.test_time import TEXTS
from tests.silver.recorded import sample_of

CASES = 25
"""Messages of each hostile source, drawn from those that a decoder alone is tried with."""
LARGE, LARGE_BYTES = 3, 400_000
"""Large messages of each hostile source, and their size."""
MOST_CPU_SECONDS = 400
MOST_MEMORY = 4 * 1024**3
"""Bytes of memory that the run may take beside what Spark has when it begins.

The JVM takes its 2 GB of heap and keeps them; the rest is that of Python's workers.
"""


def hostile_lines(name: str, draw: random.Random) -> list[bytes]:
    """Lines of `kcat -J`: hostile values, keys and headers, some twice, and lines that are no objects."""
    good, lines = sample_of(name), []
    for offset, (value, key, headers) in enumerate(draw.sample(list(cases(good, draw)), CASES)):
        flat = [part for header in headers or () for part in (header["key"], header["value"])]
        line = {
            "topic": draw.choice(("feed", "${env:HOME}", "../../x", "a\u202eb")),
            "partition": 0,
            "offset": offset,
            "key": text(key),
            "payload": text(value),
            "headers": [text(part) if isinstance(part, bytes) else part for part in flat],
        }
        lines += [json.dumps(line).encode()] * draw.choice((1, 1, 2))
    for offset, shape in enumerate(draw.sample(sorted(TEXTS), LARGE), CASES):
        value = good.value((b'"cell"', TEXTS[shape](LARGE_BYTES)))
        line = {"topic": "large", "partition": 0, "offset": offset, "payload": text(value)}
        lines.append(json.dumps(line).encode())
    return [*lines, draw.randbytes(200).replace(b"\n", b"x"), b"{" * 5_000, b'{"topic": "feed"']


def text(data: object) -> str | None:
    """Bytes as the text of a JSON object."""
    return (
        None
        if data is None
        else bytes(data).decode("utf-8", "replace")
        if isinstance(data, bytes)
        else str(data)
    )


def attack(folder: Path, secret: Path) -> None:
    """What somebody can put into a landing folder beside messages."""
    (folder / "link.json").symlink_to(secret)
    (folder / "itself").symlink_to(folder / "itself")
    os.mkfifo(folder / "pipe.json")


@pytest.mark.slow
def test_hostile_sources_of_every_format_do_not_touch_a_healthy_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary-secret")
    sources = {"shop": "{format: datahub_blob, files: ./landing/shop}"}
    for name in FORMATS:
        folder = tmp_path / "landing" / name
        folder.mkdir(parents=True)
        (folder / "a.json").write_bytes(b"\n".join(hostile_lines(name, random.Random(f"{SEED} {name}"))))
        sources[name] = f"{{format: {name}, files: ./landing/{name}, layout: kcat}}"
    attack(tmp_path / "landing" / "canal", secret)
    for name in ("shop", "broken"):
        (tmp_path / "landing" / name).mkdir()
    (tmp_path / "landing" / "broken" / "bomb.json.gz").write_bytes(b"no gzip")
    sources["broken"] = "{format: canal, files: ./landing/broken}"
    rows = [message("INSERT", n, after=item(n, f"pen {n}", 1.0)) for n in range(1, 4)]
    (tmp_path / "landing" / "shop" / "a.json").write_text("\n".join(map(json.dumps, rows)))

    with bounded():
        lake, (landed, read, applied) = run_layers(spark, tmp_path, sources)
        assert [
            (named(error).condition, "source broken" in named(error).where) for error in landed.errors
        ] == [("FILE_CORRUPT", True)]
        assert {named(error).condition for error in read.errors} <= {"SOURCE_RESET", "ENCODING_UNKNOWN"}
        assert not any("source shop" in str(error) for error in (*read.errors, *applied.errors))
        assert {line.name: line.state for line in applied.tables}["shop.item"] == "ok"
        table = spark.read.format("delta").load(f"{lake.root}/gold/shop/item")
        assert sorted(row["id"] for row in table.collect()) == [1, 2, 3]
        messages, changes = lake.read(spark, "bronze/messages"), lake.read(spark, "silver/changes")
        assert {row["source"] for row in messages.select("source").distinct().collect()} == {*FORMATS, "shop"}
        assert messages.where("contains(cast(value AS string), 'canary-secret')").isEmpty()
        assert changes.where("kind = 'row' AND source = 'shop'").count() == 3

        waiting = without_outcome(spark, lake)
        stopped = read_history(spark, lake).stopped_sources()
        assert set(waiting) <= set(stopped)
        first = {name: (source.stops[0].topic, source.stops[0].offset) for name, source in stopped.items()}
        assert all(place in waiting[name] for name, place in first.items())

        # a raised epoch takes up the messages from the place of the stop on
        raised = {
            name: f"{text[:-1]}, epoch: 2}}" if name in stopped else text for name, text in sources.items()
        }
        lake, _ = run_layers(spark, tmp_path, raised)
        left = without_outcome(spark, lake)
        assert all(first[name] not in left.get(name, ()) for name in first)
        assert all(set(left.get(name, ())) <= set(waiting[name]) for name in left)


def named(error: Exception) -> MainstemError:
    """An error of the pipeline's own; any other is a fault of the test."""
    assert isinstance(error, MainstemError), repr(error)
    return error


def run_layers(
    spark: SparkSession, folder: Path, sources: Mapping[str, str]
) -> tuple[Lakehouse, list[LayerReport]]:
    """One run of the three layers with these sources."""
    listed = "".join(f"  {name}: {source}\n" for name, source in sources.items())
    (folder / "mainstem.yml").write_text(
        f"pipeline: shop\nlakehouse: ./lakehouse\nquality: false\nsources:\n{listed}"
    )
    config = load_config(folder / "mainstem.yml", formats=SILVER.options())
    work = Run(spark, Lakehouse(config.root), config, "run")
    return work.lake, [layer.run(work) for layer in (BRONZE, SILVER, GOLD)]


def without_outcome(spark: SparkSession, lake: Lakehouse) -> dict[str, list[tuple[str, int]]]:
    """Topic and offset of the messages without an outcome, by source."""
    messages, changes = lake.read(spark, "bronze/messages"), lake.read(spark, "silver/changes")
    at = ["source", "topic", "partition", "offset"]
    halves = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*")
    found: dict[str, list[tuple[str, int]]] = {}
    for row in messages.join(changes.select(*at).unionByName(halves), at, "left_anti").collect():
        found.setdefault(row["source"], []).append((row["topic"], row["offset"]))
    return found


@contextmanager
def bounded() -> Iterator[None]:
    """Raises where the work takes too much time of the processors, or too much memory at any moment."""
    own, ended, most = os.getpid(), threading.Event(), [0]
    cpu, memory = cpu_of(own), memory_of(own)

    def watch() -> None:
        while not ended.wait(1):
            most[0] = max(most[0], memory_of(own) - memory)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    used = cpu_of(own) - cpu
    assert used < MOST_CPU_SECONDS
    assert most[0] < MOST_MEMORY
