"""Hostile sources of every format beside a healthy one: all messages have an outcome, its table is right."""

from __future__ import annotations

import base64
import json
import os
import random
from pathlib import Path

from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.layer import LAYER as GOLD
from silver.formats import FORMATS
from silver.layer import LAYER as SILVER
from tests.end_to_end.test_blob_to_replica import item, message
from tests.silver.formats.test_hostile import SEED, cases
from tests.silver.recorded import sample_of

CASES = 25
"""Messages of each hostile source, drawn from those that a decoder alone is tried with."""


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
    (folder / "bomb.json.gz").write_bytes(base64.b64encode(b"no gzip"))


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
    (tmp_path / "landing" / "shop").mkdir()
    rows = [message("INSERT", n, after=item(n, f"pen {n}", 1.0)) for n in range(1, 4)]
    (tmp_path / "landing" / "shop" / "a.json").write_text("\n".join(map(json.dumps, rows)))
    listed = "".join(f"  {name}: {source}\n" for name, source in sources.items())
    (tmp_path / "mainstem.yml").write_text(
        f"pipeline: shop\nlakehouse: ./lakehouse\nquality: false\nsources:\n{listed}"
    )
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    lake = Lakehouse(config.root)

    work = Run(spark, lake, config, "run", "shop.item")
    landed, read, applied = BRONZE.run(work), SILVER.run(work), GOLD.run(work)

    assert [
        error for error in (*landed.errors, *read.errors, *applied.errors) if "source shop" in str(error)
    ] == []
    assert {line.name: line.state for line in applied.tables} == {"shop.item": "ok"}
    assert sorted(
        row["id"] for row in spark.read.format("delta").load(f"{lake.root}/gold/shop/item").collect()
    ) == [1, 2, 3]
    messages, changes = lake.read(spark, "bronze/messages"), lake.read(spark, "silver/changes")
    at = ["source", "topic", "partition", "offset"]
    stopped = {
        error.where.split(",")[0].removeprefix("source ") for error in read.errors if hasattr(error, "where")
    }
    halves = changes.where("paired_with IS NOT NULL").select("source", "paired_with.*")
    without = messages.join(changes.select(*at).unionByName(halves), at, "left_anti").where(
        ~messages["source"].isin(*stopped or [""])
    )
    assert without.select(*at).collect() == []
    assert messages.where("contains(cast(value AS string), 'canary-secret')").isEmpty()
    assert changes.where("kind = 'row' AND source = 'shop'").count() == 3
